"""Tables of text: rows of cells become columns, whatever separates the cells."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from counterpoint.io.cells import Cells, LabelCells, NumberCells
from counterpoint.io.limits import check_parsed
from counterpoint.io.sources import Source, text_encoding

__all__ = ["Row", "TextTable", "open_text"]

# Rows become columns in blocks of this size, small enough for the processor's cache, and of at most so many cells.
_BLOCK, _BLOCK_CELLS = 500, 2**20
_MOST_COLUMNS = 2**20
# Bytes of memory: for each row, each cell of labels or of numbers, while blocks are put together; a distinct label
# beside its text.
_ROW, _LABEL, _NUMBER, _DISTINCT = 16, 8, 16, 250

Row = tuple[int, list[str]]  # line of the file, or 0 if it has no lines; cells


class TextTable:
    """An open table of text: its column names first, then the cells that are asked for."""

    def __init__(self, path: Path, rows: Iterator[Row], size: int) -> None:
        self.path = path
        self._rows, self._size = rows, size
        self.columns = [name.strip() for name in next(rows, (0, []))[1]]
        if not self.columns:
            raise ValueError(f"{path} must have columns; it is empty.")
        if len(self.columns) > _MOST_COLUMNS:
            raise ValueError(f"{path} must have at most {_MOST_COLUMNS} columns; it has {len(self.columns)}.")

    def read(self, labels: list[str], numbers: list[str]) -> Cells:
        """Read some columns as labels and others as numbers."""
        place = {name: i for i, name in reversed(list(enumerate(self.columns)))}  # the first of equal names
        gathered: dict[int, LabelCells | NumberCells] = {place[name]: LabelCells(name) for name in labels}
        gathered |= {place[name]: NumberCells(name) for name in numbers}
        of_labels = [one for one in gathered.values() if isinstance(one, LabelCells)]
        row_bytes = _ROW + _LABEL * len(of_labels) + _NUMBER * (len(gathered) - len(of_labels))
        lines = array("q")
        while block := list(islice(self._rows, max(1, min(_BLOCK, _BLOCK_CELLS // len(self.columns))))):
            self._check_widths(block, len(lines))
            lines.extend(line for line, _ in block)
            for at, cells in enumerate(zip(*(row for _, row in block), strict=True)):
                if at in gathered:
                    gathered[at].add(cells)
            distinct = sum(one.n_distinct for one in of_labels)
            check_parsed(self.path, row_bytes * len(lines) + _DISTINCT * distinct, self._size)
        if not lines:
            raise ValueError(f"{self.path} must have rows; it has none below its header.")
        done = {one.name: one.column() for one in gathered.values()}
        return Cells(
            self.path,
            labels={name: done[name] for name in labels},  # type: ignore[misc]
            numbers={name: done[name] for name in numbers},  # type: ignore[misc]
            n_rows=len(lines),
            lines=np.frombuffer(lines, dtype=np.int64) if lines[0] else (),
            n_bytes=self._size,
        )

    def _check_widths(self, block: list[Row], before: int) -> None:
        width = len(self.columns)
        for place, (line, row) in enumerate(block):
            if len(row) != width:
                raise ValueError(
                    f"{self.path} must have {width} cells in every row, one for each column; "
                    f"got {len(row)} in data row {before + place + 1} (line {line} of the file)."
                )


@contextmanager
def open_text(
    source: Source, read_rows: Callable[[Path, TextIO], Iterator[Row]], *, progress: bool
) -> Iterator[TextTable]:
    """Open a text, with a progress bar on stderr if asked for; ``read_rows`` yields the header, then the data."""
    encoding = text_encoding(source)
    with source.open(progress=progress) as raw, TextIOWrapper(raw, encoding=encoding, newline="") as file:
        yield TextTable(source.path, read_rows(source.path, file), source.size)
