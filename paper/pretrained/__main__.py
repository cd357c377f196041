"""``python -m paper.pretrained RECORD DOCUMENT`` writes a record into a document again."""

from pathlib import Path

from counterpoint.records import given_paths, read_record, refill
from paper.pretrained.paper import TABLES
from paper.pretrained.tables import draw, markdown


def rewrite(source: Path, document: Path) -> None:
    """Write the table into its place, and the figure beside the document."""
    record = read_record(source)
    table = TABLES[record["name"]]
    refill(document, {table.name: markdown(record, table)}, {table.name: draw(record, table)})


if __name__ == "__main__":
    rewrite(*given_paths("paper.pretrained", "record", "document"))
