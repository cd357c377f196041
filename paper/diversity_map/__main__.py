"""``python -m paper.diversity_map RECORD DOCUMENT [ONE_UNIT]`` writes a document again."""

from pathlib import Path

from counterpoint.records import given_paths, read_record, refill
from paper.diversity_map import one_unit_tables
from paper.diversity_map.figures import draw_all
from paper.diversity_map.tables import NAME, markdown


def rewrite(source: Path, document: Path, one_unit: Path | None = None) -> None:
    """Write findings and tables into their places, and the figures beside the document."""
    record = read_record(source)
    parts = {NAME: markdown(record)}
    if one_unit is not None:
        parts[one_unit_tables.NAME] = one_unit_tables.markdown(read_record(one_unit), record)
    refill(document, parts, draw_all(record))


if __name__ == "__main__":
    rewrite(*given_paths("paper.diversity_map", "record", "document", optional="one_unit"))
