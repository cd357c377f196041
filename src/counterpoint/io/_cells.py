"""Cells of a table of text as labels and numbers, and what to say when they are neither.

A label is a cell without the spaces around it. A whole number is the same label however it is
written: 1, +1, 1. and 1.0 are all 1, but 01 is not.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan"})
_WHOLE = re.compile(r"([+-]?)(0|[1-9][0-9]*)(\.0*)?")
_FRACTION = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIMITS = np.iinfo(np.int64)


@dataclass(frozen=True)
class LabelColumn:
    """A column of few distinct labels: ``labels[codes[row]]``, where None is a missing cell."""

    name: str
    codes: NDArray[np.int32]
    labels: list[str | None]

    @classmethod
    def of_cells(cls, name: str, codes: NDArray[np.int32], cells: Iterable[str]) -> "LabelColumn":
        return cls(name, codes, [clean(cell) for cell in cells])

    def present(self) -> set[str]:
        """Return the distinct labels."""
        return {label for label in self.labels if label is not None}

    def first(self, labels: Iterable[str | None]) -> int:
        """Return the first row that holds one of the labels, or -1."""
        wanted = set(labels)
        at = np.isin(self.codes, [code for code, label in enumerate(self.labels) if label in wanted])
        return int(at.argmax()) if at.any() else -1


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, NaN where a cell is missing; ``bad`` is the first cell that is no number, and its row."""

    name: str
    values: FloatArray
    bad: tuple[str, int] | None = None


@dataclass(frozen=True)
class Cells:
    """The columns that were asked for, and how to name a row of their file."""

    path: Path
    labels: dict[str, LabelColumn]
    numbers: dict[str, NumberColumn]
    n_rows: int
    lines: Sequence[int] | IntArray = ()

    def row(self, row: int) -> str:
        """Name a row as a person counts, from one and without the header."""
        line = f" (line {self.lines[row]} of the file)" if len(self.lines) else ""
        return f"data row {row + 1}{line}"


@dataclass
class LabelCells:
    """Gathers a column of labels, a block of cells at a time."""

    name: str
    _index: defaultdict[str, int] = field(default_factory=defaultdict)
    _blocks: list[NDArray[np.int32]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index.default_factory = self._index.__len__  # a new cell gets the next code

    def add(self, cells: Sequence[str]) -> None:
        self._blocks.append(np.fromiter(map(self._index.__getitem__, cells), np.int32, len(cells)))

    def column(self) -> LabelColumn:
        return LabelColumn.of_cells(self.name, np.concatenate(self._blocks), self._index)


@dataclass
class NumberCells:
    """Gathers a column of numbers, a block of cells at a time."""

    name: str
    _blocks: list[FloatArray] = field(default_factory=list)
    _bad: tuple[str, int] | None = None

    def add(self, cells: Sequence[str]) -> None:
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            before = sum(map(len, self._blocks))
            values = np.array([self._number(cell, before + row) for row, cell in enumerate(cells)])
        self._blocks.append(values)

    def column(self) -> NumberColumn:
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


def is_fraction(label: str) -> bool:
    """Tell whether a label is a number that is not whole."""
    return _FRACTION.fullmatch(label) is not None and _WHOLE.fullmatch(label) is None


def label_values(labels: set[str]) -> dict[str, Any]:
    """Return what each label is in an array: whole numbers if they all are, else strings."""
    if all(_WHOLE.fullmatch(label) for label in labels):
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
