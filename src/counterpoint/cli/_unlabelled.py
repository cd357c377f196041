"""Reading predictions of which the truth is unknown or not wanted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.cli._printing import echo
from counterpoint.cli._reading import Layout, opened, read_ensemble, shown
from counterpoint.io import ARRAY_FORMATS

if TYPE_CHECKING:
    from counterpoint.io import Predictions


def read_unlabelled(
    path: Path,
    truth: str | None,
    learner: Sequence[str] | None,
    drop: Sequence[str] | None,
    layout: Layout,
) -> "tuple[Predictions, str | None]":
    """Return the predictions and the name of the column of items, which may be found by its name."""
    if path.suffix.lower() in ARRAY_FORMATS:
        return read_ensemble(path, truth, learner, drop, layout), None
    if layout.judge is not None or layout.label is not None:
        return read_ensemble(path, None, learner, drop, layout), layout.item
    from counterpoint.io import likely_items, open_table
    from counterpoint.io.sources import rereadable

    source = rereadable(opened(path))
    with open_table(source, file_format=layout.file_format) as table:
        columns = table.columns
    if not isinstance(source, Path):
        source.seek(0)
    left_out = [] if learner else [*(drop or ()), *_truths(path, truth, columns, drop or ())]
    free = [column for column in columns if column not in (*left_out, *(learner or ()))]
    item = layout.item or next(iter(likely_items(free)), None)
    found = replace(layout, item=item)
    return read_ensemble(path, None, learner, left_out, found, source), item


def _truths(path: Path, truth: str | None, columns: Sequence[str], drop: Sequence[str]) -> list[str]:
    """Return the columns of the truth, with a note if they were found by their names."""
    from counterpoint.io import likely_truths, listed

    if truth is not None:
        if truth not in columns:
            raise ValueError(
                f"`--truth` must be a column of {shown(path)}, one of {listed(columns)}; got {truth!r}."
            )
        return [truth]
    found = [name for name in likely_truths(columns) if name not in drop]
    if found:
        echo(f"Left out as the truth, because of the name: {listed(found)}.", err=True)
    return found
