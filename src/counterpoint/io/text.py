"""Tables of text: rows of cells become columns, whatever separates the cells."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

from counterpoint.io.cells import Cells, LabelCells, NumberCells

__all__ = ["Row", "TextTable", "open_text"]

# Rows become columns in blocks of this size, small enough for the processor's cache.
_BLOCK = 500

Row = tuple[int, list[str]]  # line of the file, cells


class TextTable:
    """An open table of text: its column names first, then the cells that are asked for."""

    def __init__(self, path: Path, rows: Iterator[Row]) -> None:
        self.path = path
        self._rows = rows
        self.columns = [name.strip() for name in next(rows, (0, []))[1]]
        if not self.columns:
            raise ValueError(f"{path} must have columns; it is empty.")

    def read(self, labels: list[str], numbers: list[str]) -> Cells:
        """Read some columns as labels and others as numbers."""
        gathered: dict[int, LabelCells | NumberCells] = {}
        for name in labels:
            gathered[self.columns.index(name)] = LabelCells(name)
        for name in numbers:
            gathered[self.columns.index(name)] = NumberCells(name)
        lines: list[int] = []
        while block := list(islice(self._rows, _BLOCK)):
            self._check_widths(block, len(lines))
            lines += [line for line, _ in block]
            for place, cells in enumerate(zip(*(row for _, row in block), strict=True)):
                if place in gathered:
                    gathered[place].add(cells)
        if not lines:
            raise ValueError(f"{self.path} must have rows; it has none below its header.")
        done = {one.name: one.column() for one in gathered.values()}
        return Cells(
            self.path,
            labels={name: done[name] for name in labels},  # type: ignore[misc]
            numbers={name: done[name] for name in numbers},  # type: ignore[misc]
            n_rows=len(lines),
            lines=lines,
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
    path: Path, read_rows: Callable[[Path, TextIO], Iterator[Row]], *, progress: bool
) -> Iterator[TextTable]:
    """Open a text file, with a progress bar on stderr if asked for; ``read_rows`` yields the header, then the data."""
    try:
        with _open(path, progress) as file:
            yield TextTable(path, read_rows(path, file))
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text; {_first_undecodable(path)}.") from None


def _open(path: Path, progress: bool) -> AbstractContextManager[TextIO]:
    encoding = "utf-8-sig"  # spreadsheets begin the file with a byte order mark
    if not progress:
        return path.open(encoding=encoding, newline="")
    from rich.console import Console
    from rich.progress import open as open_with_bar

    label, console = f"reading {path.name}", Console(stderr=True)
    return open_with_bar(
        path, "r", encoding=encoding, newline="", description=label, console=console, transient=True
    )


def _first_undecodable(path: Path) -> str:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                return f"got byte 0x{line[error.start]:02x} in line {number}"
    return "got a byte that is not"
