"""Tables to train on: which columns hold numbers, which categories, and which are left out."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, check_flag, check_path, short
from counterpoint.io.cells import (
    Cells,
    LabelColumn,
    OpenTable,
    check_width,
    is_fraction,
    label_dtype,
    label_values,
)
from counterpoint.io.formats import open_table
from counterpoint.io.names import did_you_mean, listed, named_columns

__all__ = ["Column", "TrainingTable", "frame_of", "read_cells", "read_training_table"]

_MISSING = "?"  # many public tables mark a gap with it
# Text with more distinct values than this, and than half of its rows, identifies rows and does not generalise.
_MOST_VALUES = 10
_ROWS_LISTED = 3  # in a message
_LARGEST = 1e150  # in absolute value: its square can still be summed


@dataclass(frozen=True)
class Column:
    """A column to learn from.

    Attributes
    ----------
    name : str
        Its name in the file.
    kind : {"number", "category"}
        What its cells hold.

    Examples
    --------
    >>> Column("age", "number").kind
    'number'
    """

    name: str
    kind: Literal["number", "category"]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    r"""A table to train on: the classes, the columns to learn from, and the columns left out.

    Attributes
    ----------
    path : Path
        The file.
    target : str
        The column of the classes.
    y : array of shape (n_rows,)
        The classes: whole numbers if all of them are, else strings.
    columns : tuple of Column
        The columns to learn from.
    frame : pandas.DataFrame of shape (n_rows, n_columns)
        Their values: floats with NaN, or strings with None.
    left_out : dict of str to str
        The other columns, each with the reason.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size,colour,kind\n1.5,red,a\n,blue,b\n3,,a\n2,red,b\n")
    ...     table = read_training_table(path, "kind")
    >>> [(column.name, column.kind) for column in table.columns]
    [('size', 'number'), ('colour', 'category')]
    """

    path: Path
    target: str
    y: NDArray[Any]
    columns: tuple[Column, ...]
    frame: Any
    left_out: dict[str, str]

    def of_kind(self, kind: str) -> list[str]:
        """Return the names of the columns of one kind."""
        return [column.name for column in self.columns if column.kind == kind]


def read_training_table(
    path: str | Path, target: str, *, drop: str | Sequence[str] = (), progress: bool = False
) -> TrainingTable:
    r"""Read a table to train on, and decide which columns hold numbers and which categories.

    Parameters
    ----------
    path : path
        A table in one of the :data:`TABLE_FORMATS`, with a row for each sample.
    target : str
        The column of the classes. It must have no gaps and at least two rows of every class.
    drop : str or sequence of str, optional
        Columns to leave out.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    TrainingTable
        A column holds numbers if every filled cell is a number, else categories. Columns with a single value are left
        out; so is text that differs in more than half of the rows, with a warning.

    Raises
    ------
    ValueError
        If the file does not fit; the message names file, column and row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size,unit,kind\n1,cm,0\n?,cm,1\n3,cm,0\n2,cm,1\n")
    ...     table = read_training_table(path, "kind")
    >>> table.y, table.left_out
    (array([0, 1, 0, 1], dtype=int8), {'unit': 'one value only'})
    """
    path = check_path(path, "path")
    check_flag(progress, "progress")
    drop = (drop,) if isinstance(drop, str) else drop
    with open_table(path, progress=progress) as table:
        names = named_columns(table, (target, *drop))
        for name, argument in [(target, "target"), *((name, "drop") for name in drop)]:
            if name not in names:
                raise ValueError(
                    f"`{argument}` must be a column of {path}, one of {listed(names)}; got {short(name)}."
                    f"{did_you_mean(name, names)}"
                )
        if target in drop:
            raise ValueError(f"`drop` must not name the target; got {short(target)}.")
        cells = read_cells(table, [name for name in names if name not in drop])
    y = _classes(cells, cells.labels[target])
    columns: list[Column] = []
    left_out = dict.fromkeys(drop, "dropped")
    for column in cells.labels.values():
        if column.name == target:
            continue
        if reason := _uninformative(cells, column):
            left_out[column.name] = reason
        else:
            columns.append(Column(column.name, "number" if _is_numeric(column) else "category"))
    if not columns:
        raise ValueError(f"{path} must have a column to learn from beside {short(target)}; got none.")
    return TrainingTable(path, target, y, tuple(columns), frame_of(cells, columns), left_out)


def read_cells(table: OpenTable, names: list[str]) -> Cells:
    r"""Read some columns of a training table as labels.

    A question mark counts as a missing cell, and labels that no row has are removed.

    Parameters
    ----------
    table : OpenTable
        The open file.
    names : list of str
        The columns to read.

    Returns
    -------
    Cells

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size,kind\n1.5,a\n?,b\n")
    ...     with open_table(path) as table:
    ...         read_cells(table, ["size"]).labels["size"].labels
    ['1.5', None]
    """
    cells = table.read(names, [])
    known = {}
    for name, column in cells.labels.items():
        used = set(np.unique(column.codes).tolist())
        labels = [
            label if code in used and label != _MISSING else None for code, label in enumerate(column.labels)
        ]
        known[name] = replace(column, labels=labels)
    return replace(cells, labels=known)


def frame_of(cells: Cells, columns: Sequence[Column]) -> Any:
    """Return columns as a data frame: floats with NaN, or strings with None.

    Parameters
    ----------
    cells : Cells
        What :func:`read_cells` returned.
    columns : sequence of Column
        The columns of the frame.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError
        If a column of numbers holds something else; the message names file, column and row.

    Examples
    --------
    >>> kind = LabelColumn("kind", np.array([0, 1, 0], dtype=np.int32), ["a", None])
    >>> frame_of(Cells(Path("data.csv"), {"kind": kind}, {}, n_rows=3), [Column("kind", "category")])
       kind
    0     a
    1  None
    2     a
    """
    import pandas as pd

    values = {
        column.name: _numbers(cells, cells.labels[column.name])
        if column.kind == "number"
        else pd.Series(_texts(cells.labels[column.name]), dtype=object)
        for column in columns
    }
    return pd.DataFrame(values)


def _classes(cells: Cells, column: LabelColumn) -> NDArray[Any]:
    """Return the class of each row; every class needs at least two rows."""
    what = f"{cells.path}: target {short(column.name)}"
    empty = column.missing()
    if empty.any():
        places = [cells.row(row) for row in np.flatnonzero(empty)[:_ROWS_LISTED].tolist()]
        more = f" and {empty.sum() - len(places)} more" if empty.sum() > len(places) else ""
        raise ValueError(
            f"{what} must hold a class in every row; it is missing in {', '.join(places)}{more}."
        )
    values = label_values(column.present())
    if len(values) < 2:
        raise ValueError(
            f"{what} must hold at least two classes; got {short(next(iter(values)))} in every row."
        )
    dtype = label_dtype(values.values())
    check_width(cells, values.values(), cells.n_rows, "classes")
    filler = next(iter(values.values()))  # for None among the labels, which no row has
    of_codes = [filler if label is None else values[label] for label in column.labels]
    y = np.array(of_codes, dtype=dtype)[column.codes]
    _, at, counts = np.unique(y, return_index=True, return_counts=True)
    if (counts == 1).any():
        row = int(at[counts == 1].min())
        label = str(y[row])
        hint = " Measured numbers cannot be a target: it must hold classes." if is_fraction(label) else ""
        raise ValueError(
            f"{what} must have at least two rows of every class; got one of {short(label)}, {cells.row(row)}"
            f"{f', and {n - 1} more such classes' if (n := int((counts == 1).sum())) > 1 else ''}.{hint}"
        )
    return y


def _uninformative(cells: Cells, column: LabelColumn) -> str:
    """Return the reason to leave a column out, or an empty string; warn if the reason is a guess."""
    values = column.present()
    gaps = column.missing()
    if not values:
        return "empty"
    if len(values) == 1 and not gaps.any():
        return "one value only"
    n_filled = cells.n_rows - int(gaps.sum())
    what = f"{cells.path}: column {short(column.name)}"
    if _is_numeric(column):
        if len(values) == n_filled > 2 * _MOST_VALUES and not any(map(is_fraction, values)):
            warnings.warn(
                f"{what} has a different whole number in every row; if they number the rows, drop it.",
                stacklevel=3,
            )
        return ""
    if len(values) <= max(_MOST_VALUES, n_filled / 2):
        return ""
    reason = f"{len(values)} different texts in {n_filled} rows"
    warnings.warn(f"{what} is left out: it has {reason}.", stacklevel=3)
    return reason


def _is_numeric(column: LabelColumn) -> bool:
    return all(_number(label) is not None for label in column.present())


def _number(label: str) -> float | None:
    try:
        return None if "_" in label else float(label)
    except ValueError:
        return None


def _numbers(cells: Cells, column: LabelColumn) -> FloatArray:
    found = {label: _number(label) for label in column.present()}
    strange = {label for label, value in found.items() if value is None}
    endless = {label for label, value in found.items() if value is not None and np.isinf(value)}
    huge = {label for label, value in found.items() if value is not None and abs(value) > _LARGEST}
    if wrong := strange or endless or huge:
        row = column.first(wrong)
        rule = "numbers" if strange else "finite numbers" if endless else f"numbers up to {_LARGEST:g}"
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must hold {rule}; "
            f"got {short(column.labels[column.codes[row]])} in {cells.row(row)}."
        )
    values = [np.nan if label is None else found[label] for label in column.labels]
    return np.array(values, dtype=np.float64)[column.codes]


def _texts(column: LabelColumn) -> NDArray[Any]:
    return np.array(column.labels, dtype=object)[column.codes]
