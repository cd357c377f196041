"""``python -m counterpoint.experiments.diversity_map RECORD DOCUMENT [ONE_UNIT]`` writes a document again."""

from pathlib import Path

from counterpoint.experiments._document import given_paths, refill
from counterpoint.experiments._record import read_record
from counterpoint.experiments.diversity_map import one_unit_tables
from counterpoint.experiments.diversity_map.figures import draw_all
from counterpoint.experiments.diversity_map.tables import NAME, markdown


def rewrite(source: Path, document: Path, one_unit: Path | None = None) -> None:
    """Write findings and tables into their places, and the figures beside the document."""
    record = read_record(source)
    parts = {NAME: markdown(record)}
    if one_unit is not None:
        parts[one_unit_tables.NAME] = one_unit_tables.markdown(read_record(one_unit), record)
    refill(document, parts, draw_all(record))


if __name__ == "__main__":
    rewrite(*given_paths("diversity_map", "record", "document", optional="one_unit"))
