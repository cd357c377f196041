"""Tables of predictions: a column for the truth and columns for the learners.

A column holds the votes of a learner and has its name, or it holds the probabilities that a learner gives to one class
and is named ``learner:class``; the last colon separates the two.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import ROW_SUM_TOLERANCE
from counterpoint.io.cells import (
    Cells,
    LabelColumn,
    NumberColumn,
    OpenTable,
    clean,
    is_fraction,
    label_dtype,
    label_values,
)
from counterpoint.io.formats import open_table
from counterpoint.io.names import choose_learners, did_you_mean, listed, named_columns

__all__ = ["read_prediction_table", "what_a_table_cannot_hold"]

# A column with more labels that the truth lacks than this, and than the truth has, is not a learner's.
_MANY = 10


def read_prediction_table(
    path: Path, truth: str, learners: Sequence[str], drop: Sequence[str], *, progress: bool
) -> dict[str, Any]:
    """Return the fields of the predictions in a table."""
    with open_table(path, progress=progress) as table:
        owners = _owners(table, truth, learners, drop)
        columns = list(owners)
        if all(":" in column for column in columns):
            cells = table.read([truth], columns)
            return _probabilities(cells, truth, owners)
        if mixed := [column for column in columns if ":" in column]:
            plain = next(column for column in columns if ":" not in column)
            raise ValueError(
                f"{path} must hold votes or probabilities, not both: column {mixed[0]!r} is named as a learner's "
                f"probability of a class, learner:class, and {plain!r} is not. Drop one kind."
            )
        return _votes(table.read([truth, *columns], []), truth, columns, picked=bool(learners))


def what_a_table_cannot_hold(columns: Sequence[str], labels: Iterable[Any], *, votes: bool) -> str:
    """Return what would be read differently from a table with these columns, the truth first, or an empty string."""
    names = [name.strip() for name in columns]
    if "" in names:
        return "a column without a name"
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"two columns named {twice!r}"
    if votes and (marked := [name for name in names[1:] if ":" in name]):
        return f"votes of {marked[0]!r}: a colon marks the probability of a class"
    read: dict[str, str] = {}
    for text in map(str, labels):
        label = clean(text)
        if label is None:
            return f"the label {text!r}, which reads as missing"
        if label in read:
            return f"both labels {read[label]!r} and {text!r}, which read alike"
        if not votes and ":" in label:
            return f"the class {text!r}: a colon ends the name of a learner"
        read[label] = text
    return ""


def _owners(table: OpenTable, truth: str, learners: Sequence[str], drop: Sequence[str]) -> dict[str, str]:
    """Return the columns to read, each with the learner it belongs to."""
    path = table.path
    if len(table.columns) == 1:
        raise ValueError(
            f"{path} must have at least two columns, the truth and a learner; got {table.columns[0]!r}."
        )
    named = named_columns(table, (truth, *learners, *drop))
    if truth not in named:
        raise ValueError(
            f"`truth` must be a column of {path}, one of {listed(named)}; got {truth!r}."
            f"{did_you_mean(truth, named)}"
        )
    others = [column for column in named if column != truth]
    if not others:
        raise ValueError(f"{path} must have a column of a learner beside {truth!r}.")
    # A name to drop is a column or a learner with several columns.
    owner = {column: _learner(column) for column in others if column not in drop}
    if not owner:
        raise ValueError(f"`drop` must leave a column of a learner in {path}; got all of them.")
    rest = [name for name in drop if name not in others]
    kept = choose_learners(list(dict.fromkeys(owner.values())), learners, rest, f"columns of {path}")
    return {column: name for learner in kept for column, name in owner.items() if name == learner}


def _learner(column: str) -> str:
    return column.rpartition(":")[0] or column


def _votes(cells: Cells, truth: str, columns: list[str], *, picked: bool) -> dict[str, Any]:
    """Return the votes; raise if a column cannot be a learner's, unless the user picked it by name."""
    for column in cells.labels.values():
        _check_complete(cells, column)
    known = cells.labels[truth].present()
    for name in columns:
        _check_votes(cells, cells.labels[name], truth, known, picked)
    values = label_values(set().union(*(column.present() for column in cells.labels.values())))
    dtype = label_dtype(values.values())
    outputs = np.empty((len(columns), cells.n_rows), dtype=dtype)
    for row, name in enumerate(columns):
        outputs[row] = _array(cells.labels[name], values, dtype)
    return {
        "y_true": _array(cells.labels[truth], values, dtype),
        "outputs": outputs,
        "learners": tuple(columns),
        "labels": None,
    }


def _array(column: LabelColumn, values: dict[str, Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    # No row has a missing cell here, but None may still be among the labels.
    filler = next(iter(values.values()))
    table = [filler if label is None else values[label] for label in column.labels]
    return np.array(table, dtype=dtype)[column.codes]


def _check_complete(cells: Cells, column: LabelColumn) -> None:
    if not column.present():
        raise ValueError(f"{cells.path}: column {column.name!r} must hold labels; it is empty in every row.")
    if (row := column.first([None])) >= 0:
        raise ValueError(
            f"{cells.path}: column {column.name!r} must hold a label in every row; "
            f"got a missing one in {cells.row(row)}."
        )


def _check_votes(cells: Cells, column: LabelColumn, truth: str, known: set[str], picked: bool) -> None:
    strange = column.present() - known
    fractions = {label for label in strange if is_fraction(label)}
    if fractions and not any(map(is_fraction, known)):
        row = column.first(fractions)
        raise ValueError(
            f"{cells.path}: column {column.name!r} must hold labels; got {column.labels[column.codes[row]]} in "
            f"{cells.row(row)}. Probabilities need a column for each class, named learner:class."
        )
    if picked:
        return
    if strange == column.present() or len(strange) > max(_MANY, len(known)):
        row = column.first(strange)
        raise ValueError(
            f"{cells.path}: column {column.name!r} must hold the labels of {truth!r}; {len(strange)} of its "
            f"{len(column.present())} labels are not among them, such as {column.labels[column.codes[row]]!r} in "
            f"{cells.row(row)}. If it is not a learner, drop it; if it is, name the learners."
        )


def _probabilities(cells: Cells, truth: str, owners: dict[str, str]) -> dict[str, Any]:
    """Return the probabilities, with the classes in the order of the first learner's columns."""
    _check_complete(cells, cells.labels[truth])
    places: dict[str, dict[str, str]] = {}  # learner -> class -> column
    for column, learner in owners.items():
        label = clean(column.rpartition(":")[2])
        if label is None or label in places.setdefault(learner, {}):
            raise ValueError(
                f"{cells.path} must have one column for each class of a learner, named learner:class; "
                f"got {column!r}."
            )
        places[learner][label] = column
    classes = list(next(iter(places.values())))
    _check_classes(cells, truth, places, classes)
    outputs = np.empty((len(places), cells.n_rows, len(classes)))
    for row, columns in enumerate(places.values()):
        for k, label in enumerate(classes):
            outputs[row, :, k] = _shares(cells, cells.numbers[columns[label]])
    _check_sums(cells, list(places), outputs)
    values = label_values({*classes, *cells.labels[truth].present()})
    dtype = label_dtype(values.values())
    return {
        "y_true": _array(cells.labels[truth], values, dtype),
        "outputs": outputs,
        "learners": tuple(places),
        "labels": np.array([values[label] for label in classes], dtype=dtype),
    }


def _check_classes(cells: Cells, truth: str, places: dict[str, dict[str, str]], classes: list[str]) -> None:
    known = set(classes).union(*places.values())
    for learner, columns in places.items():
        if missing := sorted(known - set(columns)):
            raise ValueError(
                f"{cells.path} must have a column for each class of each learner; "
                f"{learner + ':' + missing[0]!r} is missing."
            )
    if unknown := cells.labels[truth].present() - known:
        row = cells.labels[truth].first(unknown)
        label = cells.labels[truth].labels[cells.labels[truth].codes[row]]
        raise ValueError(
            f"{cells.path}: column {truth!r} must hold the classes of the probabilities, {listed(classes)}; "
            f"got {label!r} in {cells.row(row)}."
        )


def _shares(cells: Cells, column: NumberColumn) -> NDArray[np.float64]:
    values = column.values
    bad = ~((values >= 0) & (values <= 1 + ROW_SUM_TOLERANCE))  # NaN too
    if not bad.any():
        return values
    row = int(bad.argmax())
    if column.bad is not None:
        got, row = repr(column.bad[0]), column.bad[1]
    elif np.isnan(values).all():
        raise ValueError(f"{cells.path}: column {column.name!r} must hold numbers; it is empty in every row.")
    else:
        got = "a missing one" if np.isnan(values[row]) else f"{values[row]:.6g}"
    raise ValueError(
        f"{cells.path}: column {column.name!r} must hold probabilities, between 0 and 1; "
        f"got {got} in {cells.row(row)}."
    )


def _check_sums(cells: Cells, learners: list[str], outputs: NDArray[np.float64]) -> None:
    for learner, rows in zip(learners, outputs, strict=True):
        sums = rows.sum(axis=1)
        if (bad := np.abs(sums - 1) > ROW_SUM_TOLERANCE).any():
            row = int(bad.argmax())
            raise ValueError(
                f"{cells.path}: the columns of learner {learner!r} must sum to one in every row; "
                f"got {sums[row]:.6g} in {cells.row(row)}."
            )
