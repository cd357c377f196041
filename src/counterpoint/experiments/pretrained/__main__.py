"""``python -m counterpoint.experiments.pretrained RECORD DOCUMENT`` writes a record into a document again."""

from pathlib import Path

from counterpoint.experiments._document import given_paths, refill
from counterpoint.experiments._record import read_record
from counterpoint.experiments.pretrained.paper import TABLES
from counterpoint.experiments.pretrained.tables import draw, markdown


def rewrite(source: Path, document: Path) -> None:
    """Write the table into its place, and the figure beside the document."""
    record = read_record(source)
    table = TABLES[record["name"]]
    refill(document, {table.name: markdown(record, table)}, {table.name: draw(record, table)})


if __name__ == "__main__":
    rewrite(*given_paths("pretrained", "record", "document"))
