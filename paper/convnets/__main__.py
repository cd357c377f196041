"""``python -m paper.convnets RECORD DOCUMENT`` writes a record into a document again."""

from pathlib import Path

from counterpoint.records import given_paths, read_record, refill
from paper.convnets import dial_tables, map_tables, scratch_tables

SHOWN = {"image-dial": dial_tables, "image-map": map_tables, "image-scratch": scratch_tables}


def rewrite(source: Path, document: Path) -> None:
    """Write the tables into their place, and the figure beside the document."""
    record = read_record(source)
    name = record["name"]
    refill(document, {name: SHOWN[name].in_markdown(record)}, {name: SHOWN[name].draw(record)})


if __name__ == "__main__":
    rewrite(*given_paths("paper.convnets", "record", "document"))
