"""Files of data as typed columns: which hold numbers, which categories, and which cannot be learned from."""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, check_flag, check_path
from counterpoint.io._cells import Cells, LabelColumn, is_fraction, label_dtype, label_values
from counterpoint.io._names import did_you_mean, listed
from counterpoint.io._parquet import ParquetTable, open_parquet
from counterpoint.io._text import ROW_NAMES, TextTable, open_text

__all__ = ["Column", "TrainingTable", "frame_of", "open_table", "read_cells", "read_training_table"]

_ENDINGS = (".csv", ".tsv", ".arff", ".parquet")
_MISSING = "?"  # as many public tables write it, besides what is missing in files of predictions
# Text with more distinct values than this, and than half of its rows, names the rows and says nothing of new ones.
_NAMES = 10
_ROWS_NAMED = 3  # in a message
_LARGEST = 1e150  # number, of either sign, whose square can still be summed


@dataclass(frozen=True)
class Column:
    """A column that is learned from.

    Attributes
    ----------
    name : str
        As the file has it.
    kind : {"number", "category"}
        What its cells are.

    Examples
    --------
    >>> Column("age", "number").kind
    'number'
    """

    name: str
    kind: Literal["number", "category"]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    r"""A file to learn from: the classes, the columns that tell of them, and what was left out.

    Attributes
    ----------
    path : Path
        The file.
    target : str
        The column of the classes.
    y : array of shape (n_rows,)
        The classes: whole numbers if all of them are, else strings.
    columns : tuple of Column
        What is learned from.
    frame : pandas.DataFrame of shape (n_rows, n_columns)
        Their values: floats with NaN, or strings with None.
    left_out : dict of str to str
        For each other column, why.

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
    r"""Read a table to learn from, and decide what its columns are.

    Parameters
    ----------
    path : path
        CSV, TSV, ARFF or Parquet, with a row for each sample.
    target : str
        The column of the classes. It must have no gaps, and every class two rows.
    drop : str or sequence of str, optional
        Columns to leave out.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    TrainingTable
        A column whose filled cells are all numbers holds numbers, any other categories. Left out are columns without
        two values, and text that differs in more than half of the rows, of which a warning tells.

    Raises
    ------
    ValueError
        If the file is not as described; the message names file, column and row.

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
        for name, given in [(target, "target"), *((name, "drop") for name in drop)]:
            if name not in names:
                raise ValueError(
                    f"`{given}` must be a column of {path}, one of {listed(names)}; got {name!r}."
                    f"{did_you_mean(name, names)}"
                )
        if target in drop:
            raise ValueError(f"`drop` must not name the target; got {target!r}.")
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
        raise ValueError(f"{path} must have a column to learn from beside {target!r}; got none.")
    return TrainingTable(path, target, y, tuple(columns), frame_of(cells, columns), left_out)


def open_table(path: Path, *, progress: bool) -> AbstractContextManager[TextTable | ParquetTable]:
    """Open a file of data by the ending of its name."""
    with path.open("rb"):  # a missing file, a folder or one without permission is the first thing to say
        pass
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(f"{path} must end in one of {', '.join(_ENDINGS)}.")
    return open_parquet(path) if path.suffix.lower() == ".parquet" else open_text(path, progress=progress)


def named_columns(table: TextTable | ParquetTable, wanted: Sequence[str]) -> list[str]:
    """Return the names of the columns; a first column with the names of the rows is left out unless it is wanted."""
    first = table.columns[0]
    names = table.columns[1:] if first in ROW_NAMES and first not in wanted else table.columns
    if "" in names:
        raise ValueError(
            f"{table.path} must name its columns; column {table.columns.index('', 1) + 1} has no name."
        )
    for name, following in pairwise(sorted(names)):
        if name == following:
            raise ValueError(f"{table.path} must have distinct column names; got {name!r} twice.")
    return list(names)


def read_cells(table: TextTable | ParquetTable, names: list[str]) -> Cells:
    """Read some columns; a question mark is a missing cell too, and a label that no row has is no label."""
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
    """Return the columns as a data frame: floats with NaN, or strings with None."""
    import pandas as pd

    values = {
        column.name: _numbers(cells, cells.labels[column.name])
        if column.kind == "number"
        else pd.Series(_texts(cells.labels[column.name]), dtype=object)
        for column in columns
    }
    return pd.DataFrame(values)


def _classes(cells: Cells, column: LabelColumn) -> NDArray[Any]:
    """Return the classes of the rows, each in two rows at least."""
    what = f"{cells.path}: target {column.name!r}"
    empty = _gaps(column)
    if empty.any():
        places = [cells.row(row) for row in np.flatnonzero(empty)[:_ROWS_NAMED].tolist()]
        more = f" and {empty.sum() - len(places)} more" if empty.sum() > len(places) else ""
        raise ValueError(
            f"{what} must hold a class in every row; it is missing in {', '.join(places)}{more}."
        )
    values = label_values(column.present())
    if len(values) < 2:
        raise ValueError(f"{what} must hold at least two classes; got {next(iter(values))!r} in every row.")
    dtype = label_dtype(values.values())
    filler = next(iter(values.values()))  # for labels that no row has
    of_codes = [filler if label is None else values[label] for label in column.labels]
    y = np.array(of_codes, dtype=dtype)[column.codes]
    _, at, counts = np.unique(y, return_index=True, return_counts=True)
    if (counts == 1).any():
        row = int(at[counts == 1].min())
        label = str(y[row])
        hint = " Numbers that are measured, not classes, cannot be a target." if is_fraction(label) else ""
        raise ValueError(
            f"{what} must have at least two rows of every class; got one of {label!r}, {cells.row(row)}"
            f"{f', and {n - 1} more such classes' if (n := int((counts == 1).sum())) > 1 else ''}.{hint}"
        )
    return y


def _uninformative(cells: Cells, column: LabelColumn) -> str:
    """Return why a column cannot be learned from, or nothing; warn where the reader should know."""
    values = column.present()
    gaps = _gaps(column)
    if not values:
        return "empty"
    if len(values) == 1 and not gaps.any():
        return "one value only"
    n_filled = cells.n_rows - int(gaps.sum())
    what = f"{cells.path}: column {column.name!r}"
    if _is_numeric(column):
        if len(values) == n_filled > 2 * _NAMES and not any(map(is_fraction, values)):
            warnings.warn(
                f"{what} has another whole number in every row; if they number the rows, drop it.",
                stacklevel=3,
            )
        return ""
    if len(values) <= max(_NAMES, n_filled / 2):
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


def _gaps(column: LabelColumn) -> NDArray[np.bool_]:
    return np.isin(column.codes, [code for code, label in enumerate(column.labels) if label is None])


def _numbers(cells: Cells, column: LabelColumn) -> FloatArray:
    found = {label: _number(label) for label in column.present()}
    strange = {label for label, value in found.items() if value is None}
    endless = {label for label, value in found.items() if value is not None and np.isinf(value)}
    huge = {label for label, value in found.items() if value is not None and abs(value) > _LARGEST}
    if wrong := strange or endless or huge:
        row = column.first(wrong)
        rule = "numbers" if strange else "finite numbers" if endless else f"numbers up to {_LARGEST:g}"
        raise ValueError(
            f"{cells.path}: column {column.name!r} must hold {rule}; "
            f"got {column.labels[column.codes[row]]!r} in {cells.row(row)}."
        )
    values = [np.nan if label is None else found[label] for label in column.labels]
    return np.array(values, dtype=np.float64)[column.codes]


def _texts(column: LabelColumn) -> NDArray[Any]:
    return np.array(column.labels, dtype=object)[column.codes]
