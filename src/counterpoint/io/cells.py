"""The cells of a table, as labels or as numbers.

A label is the text of a cell without the spaces around it. Different spellings of a whole number are one label: 1, +1,
1. and 1.0 are all 1, but 01 is not. 1e3 is 1000 where the file says that it is a number, as in JSON, and else a text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterpoint._answers import fold_label
from counterpoint._validation import FloatArray, IntArray, short
from counterpoint.io.limits import MOST_BYTES, unpacked_limit

__all__ = [
    "Cells",
    "LabelCells",
    "LabelColumn",
    "NumberCells",
    "NumberColumn",
    "OpenTable",
    "check_width",
    "clean",
    "is_fraction",
    "label_dtype",
    "label_values",
    "number_text",
    "text_array",
]

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan"})
_WHOLE = re.compile(r"([+-]?)(0|[1-9][0-9]*)(\.0*)?")
_FRACTION = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIMITS = np.iinfo(np.int64)
_DIGITS = 20  # no 64-bit integer has more, with its sign
_NOT_TEXT = re.compile(
    "[\0\ud800-\udfff]"
)  # NumPy drops the first from the end of a label; UTF-8 has no others
_LONG = 64  # characters: shorter labels are too long only in a file that is much smaller than its table


@dataclass(frozen=True)
class LabelColumn:
    """A column of few distinct labels: ``labels[codes[row]]``, where None is a missing cell.

    Attributes
    ----------
    name : str
        The name of the column.
    codes : array of shape (n_rows,)
        For each row, the index of its label.
    labels : list of str or None
        The distinct labels.

    Examples
    --------
    >>> column = LabelColumn("kind", np.array([0, 1, 0], dtype=np.int32), ["a", None])
    >>> column.present(), column.first([None])
    ({'a'}, 1)
    """

    name: str
    codes: NDArray[np.int32]
    labels: list[str | None]

    @classmethod
    def of_cells(cls, name: str, codes: NDArray[np.int32], cells: Iterable[str]) -> "LabelColumn":
        """Return the column with these distinct cells, which may be missing or need cleaning."""
        return cls(name, codes, [clean(cell) for cell in cells])

    def present(self) -> set[str]:
        """Return the distinct labels."""
        return {label for label in self.labels if label is not None}

    def first(self, labels: Iterable[str | None]) -> int:
        """Return the first row that holds one of the labels, or -1."""
        at = self._holds(set(labels))
        return int(at.argmax()) if at.any() else -1

    def without(self, labels: Iterable[str]) -> "LabelColumn":
        """Return the column with some labels missing."""
        gone = {clean(label) for label in labels}
        return LabelColumn(self.name, self.codes, [None if label in gone else label for label in self.labels])

    def counts(self) -> dict[str, int]:
        """Return how many rows hold each label."""
        numbers = np.bincount(self.codes, minlength=len(self.labels)).tolist()
        found: dict[str, int] = {}
        for label, number in zip(self.labels, numbers, strict=True):
            if label is not None and number:
                found[label] = found.get(label, 0) + number
        return found

    def renamed(self, spelling: Mapping[str, str]) -> "LabelColumn":
        """Return the column with one spelling for the labels that :func:`fold_label` makes equal."""
        labels = [None if label is None else spelling[fold_label(label)] for label in self.labels]
        return LabelColumn(self.name, self.codes, labels)

    def missing(self) -> NDArray[np.bool_]:
        """Return which rows have no label."""
        return self._holds({None})

    def _holds(self, wanted: set[str | None]) -> NDArray[np.bool_]:
        return np.array([label in wanted for label in self.labels], dtype=bool)[self.codes]


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers.

    Attributes
    ----------
    name : str
        The name of the column.
    values : array of shape (n_rows,)
        The numbers, NaN where a cell is missing or not a number.
    bad : tuple of str and int, or None
        The first cell that is not a number, and its row.

    Examples
    --------
    >>> NumberColumn("size", np.array([1.5, np.nan]), bad=("tall", 1)).bad
    ('tall', 1)
    """

    name: str
    values: FloatArray
    bad: tuple[str, int] | None = None


@dataclass(frozen=True)
class Cells:
    """The cells of some columns of a file.

    Attributes
    ----------
    path : Path
        The file.
    labels : dict of str to LabelColumn
        The columns that were read as labels.
    numbers : dict of str to NumberColumn
        The columns that were read as numbers.
    n_rows : int
        The number of data rows.
    lines : sequence of int
        The line of each row in a text file; empty for other files.
    items : sequence of str
        What each row is about, if the table was made from a long one; else empty.
    n_bytes : int
        The size of the file.

    Examples
    --------
    >>> Cells(Path("data.csv"), {}, {}, n_rows=2, lines=[2, 4]).row(1)
    'data row 2 (line 4 of the file)'
    """

    path: Path
    labels: dict[str, LabelColumn]
    numbers: dict[str, NumberColumn]
    n_rows: int
    lines: Sequence[int] | IntArray = ()
    items: Sequence[str] = ()
    n_bytes: int = 0

    def __post_init__(self) -> None:
        for column in self.labels.values():
            if bad := {label for label in column.present() if _NOT_TEXT.search(label)}:
                row = column.first(bad)
                raise ValueError(
                    f"{self.path}: column {short(column.name)} must hold text, without NUL characters and halves of "
                    f"characters; got {short(column.labels[column.codes[row]])} in {self.row(row)}."
                )

    def row(self, row: int) -> str:
        """Return the name of a row for messages, counted from one without the header."""
        if len(self.items):
            return f"item {short(self.items[row])}"
        line = f" (line {self.lines[row]} of the file)" if len(self.lines) else ""
        return f"data row {row + 1}{line}"


class OpenTable(Protocol):
    r"""An open file with a table: :func:`open_table` yields it.

    Attributes
    ----------
    path : Path
        The file.
    columns : list of str
        The names of all columns.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.io import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text("size,kind\n1.5,a\n2,b\n")
    ...     with open_table(path) as table:
    ...         columns = table.columns
    >>> columns
    ['size', 'kind']
    """

    path: Path
    columns: list[str]

    def read(self, labels: list[str], numbers: list[str]) -> Cells:
        """Read some columns as labels and others as numbers; works once."""


@dataclass
class LabelCells:
    """Collects a column of labels, block by block."""

    name: str
    _index: defaultdict[str, int] = field(default_factory=defaultdict)
    _blocks: list[NDArray[np.int32]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index.default_factory = self._index.__len__  # a new cell gets the next code

    def add(self, cells: Sequence[str]) -> None:
        """Add the next block of cells."""
        self._blocks.append(np.fromiter(map(self._index.__getitem__, cells), np.int32, len(cells)))

    @property
    def n_distinct(self) -> int:
        """The number of distinct cells so far."""
        return len(self._index)

    def column(self) -> LabelColumn:
        """Return the whole column."""
        return LabelColumn.of_cells(self.name, np.concatenate(self._blocks), self._index)


@dataclass
class NumberCells:
    """Collects a column of numbers, block by block."""

    name: str
    _blocks: list[FloatArray] = field(default_factory=list)
    _bad: tuple[str, int] | None = None

    def add(self, cells: Sequence[str]) -> None:
        """Add the next block of cells."""
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            before = sum(map(len, self._blocks))
            values = np.array([self._number(cell, before + row) for row, cell in enumerate(cells)])
        self._blocks.append(values)

    def column(self) -> NumberColumn:
        """Return the whole column."""
        return NumberColumn(self.name, np.concatenate(self._blocks), self._bad)

    def _number(self, cell: str, row: int) -> float:
        try:
            return float(cell)
        except ValueError:
            if cell.strip() not in MISSING and self._bad is None:
                self._bad = (cell.strip(), row)
            return np.nan


def clean(cell: str) -> str | None:
    """Return the label in a cell, or None if it is missing."""
    text = cell.strip()
    if text in MISSING:
        return None
    if match := _WHOLE.fullmatch(text):
        sign, digits, _ = match.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text


def number_text(number: str | float) -> str:
    """Return a number of a file as the text of a cell; a whole one without its exponent.

    Examples
    --------
    >>> [number_text(number) for number in ("1e3", "1000.0", "-0.0", "2.50", 1e16, "1e999")]
    ['1000', '1000', '0', '2.50', '10000000000000000', '1e999']
    """
    text = str(number)
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return text
    small = exact.is_finite() and exact.adjusted() < _DIGITS
    return str(int(exact)) if small and exact == int(exact) else text


def is_fraction(label: str) -> bool:
    """Return True if a label is a number but not a whole one."""
    return _FRACTION.fullmatch(label) is not None and _WHOLE.fullmatch(label) is None


def label_values(labels: set[str]) -> dict[str, Any]:
    """Return the value of each label: whole numbers if all of them are, else strings."""
    if all(len(label) <= _DIGITS and _WHOLE.fullmatch(label) for label in labels):
        numbers = {label: int(label) for label in labels}
        if _LIMITS.min <= min(numbers.values()) and max(numbers.values()) <= _LIMITS.max:
            return numbers
    return {label: label for label in labels}


def label_dtype(values: Iterable[Any]) -> np.dtype[Any]:
    """Return the smallest dtype that holds some labels, all strings or all whole numbers."""
    values = list(values)
    if isinstance(values[0], str):
        return np.dtype(f"U{max(map(len, values))}")
    sizes = (np.int8, np.int16, np.int32, np.int64)
    fits = (np.iinfo(size).min <= min(values) and max(values) <= np.iinfo(size).max for size in sizes)
    return np.dtype(next(size for size, fit in zip(sizes, fits, strict=True) if fit))


def text_array(cells: Cells, texts: Sequence[str], codes: NDArray[Any], what: str) -> NDArray[Any]:
    """Return ``texts[codes]``, if the array, in which every entry is as wide as the longest, is not too large."""
    dtype = np.dtype(f"U{max(map(len, texts), default=1)}")
    check_width(cells, texts, len(codes), what)
    found: NDArray[Any] = np.array(texts, dtype=dtype)[codes]
    return found


def check_width(cells: Cells, values: Iterable[Any], n_cells: int, what: str) -> None:
    """Raise ValueError if one long label makes an array of so many cells too large: each is as wide as the longest."""
    longest = max((value for value in values if isinstance(value, str)), key=len, default="")
    most = MOST_BYTES if len(longest) > _LONG else unpacked_limit(cells.n_bytes)
    if 4 * len(longest) * n_cells > most:
        raise ValueError(
            f"{cells.path} must have shorter {what}, as it has {n_cells} of them; got one of {len(longest)} "
            f"characters, {short(longest)}."
        )
