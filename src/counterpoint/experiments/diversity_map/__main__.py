"""``python -m counterpoint.experiments.diversity_map RECORD DOCUMENT`` writes a record into a document again."""

from pathlib import Path

from counterpoint.experiments._document import given_paths, refill
from counterpoint.experiments._record import read_record
from counterpoint.experiments.diversity_map.figures import draw_all
from counterpoint.experiments.diversity_map.tables import NAME, markdown


def rewrite(source: Path, document: Path) -> None:
    """Write findings and tables into their place, and the figures beside the document."""
    record = read_record(source)
    refill(document, {NAME: markdown(record)}, draw_all(record))


if __name__ == "__main__":
    rewrite(*given_paths("diversity_map", "record", "document"))
