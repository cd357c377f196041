"""Tables of text: CSV and TSV, whose first row names the columns, and ARFF, which declares them."""

import csv
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from counterpoint.io._cells import Cells, LabelCells, NumberCells

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Of a first column that holds the names of the rows, as R and pandas write it, and as pandas does on reading it again.
ROW_NAMES = ("", "Unnamed: 0")
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs"}

# Rows are turned into columns this many at a time: few enough to stay in the processor's cache.
_BLOCK = 500
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)(?:\s+|(?={{))(\S.*)", re.IGNORECASE)
_CELL = re.compile(rf"[ ]*(?:(?P<quoted>{_QUOTED})|(?P<plain>[^,\t%'\"]*))[ ]*(?P<end>,|\t|%|$)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

Row = tuple[int, list[str]]  # line of the file, cells


class TextTable:
    """A table of text that is being read: its columns first, then the cells that are wanted."""

    def __init__(self, path: Path, rows: Iterator[Row]) -> None:
        self.path = path
        self._rows = rows
        self.columns = [name.strip() for name in next(rows, (0, []))[1]]
        if not self.columns:
            raise ValueError(f"{path} must have columns; it is empty.")

    def read(self, labels: list[str], numbers: list[str]) -> Cells:
        """Read the wanted columns."""
        gather: dict[int, LabelCells | NumberCells] = {}
        for name in labels:
            gather[self.columns.index(name)] = LabelCells(name)
        for name in numbers:
            gather[self.columns.index(name)] = NumberCells(name)
        lines: list[int] = []
        while block := list(islice(self._rows, _BLOCK)):
            self._check_widths(block, len(lines))
            lines += [line for line, _ in block]
            for place, cells in enumerate(zip(*(row for _, row in block), strict=True)):
                if place in gather:
                    gather[place].add(cells)
        if not lines:
            raise ValueError(f"{self.path} must have rows; it has none below its header.")
        done = {one.name: one.column() for one in gather.values()}
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
def open_text(path: Path, *, progress: bool) -> Iterator[TextTable]:
    """Open a CSV, TSV or ARFF file, with a bar on stderr if progress is to be shown."""
    delimiter = DELIMITERS.get(path.suffix.lower())
    try:
        with _open(path, progress) as file:
            rows = _arff_rows(path, file) if delimiter is None else _separated_rows(path, file, delimiter)
            yield TextTable(path, rows)
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text; {_first_undecodable(path)}.") from None


def _open(path: Path, progress: bool) -> AbstractContextManager[TextIO]:
    encoding = "utf-8-sig"  # spreadsheets put a byte order mark first
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


def _separated_rows(path: Path, file: TextIO, delimiter: str) -> Iterator[Row]:
    header = next(file, "")
    found = [name for mark, name in _MARKS.items() if mark in header]
    if found and _MARKS[delimiter] not in found:
        raise ValueError(
            f"{path} must separate its cells by {_MARKS[delimiter]}, as its ending says; "
            f"got {found[0]} in its header, {header.strip()[:40]!r}."
        )
    reader = csv.reader(chain([header], file), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():  # an empty line is no row
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path} must be well-formed; got {error} in line {reader.line_num}.") from None


def _arff_rows(path: Path, file: TextIO) -> Iterator[Row]:
    """Yield the names of the attributes, then the data; unquoted question marks become empty cells."""
    names: list[str] = []
    lines = ((number, line.strip()) for number, line in enumerate(file, start=1))
    content = ((number, line) for number, line in lines if line and not line.startswith("%"))
    for number, line in content:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            break
        if keyword == "@attribute":
            names.append(_attribute_name(path, number, line))
        elif keyword != "@relation":
            raise ValueError(
                f"{path} must be an ARFF file, with @relation, @attribute and @data; "
                f"got {line[:40]!r} in line {number}."
            )
    else:
        raise ValueError(f"{path} must be an ARFF file; it has no line @data.")
    yield 0, names
    for number, line in content:
        if line.startswith("{"):
            raise ValueError(f"{path} must not be in sparse ARFF format; got a sparse row in line {number}.")
        yield number, _arff_cells(path, number, line)


def _attribute_name(path: Path, number: int, line: str) -> str:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{path} must declare an attribute as '@attribute name type'; got {line[:40]!r} in line {number}."
        )
    name, kind = match.groups()
    if kind.lower().startswith("relational"):
        raise ValueError(f"{path} must not have relational attributes; got {name} in line {number}.")
    return _unquote(name) if name[0] in "'\"" else name


def _arff_cells(path: Path, number: int, line: str) -> list[str]:
    if not any(mark in line for mark in "'\"%\t"):
        cells = line.split(",")
        quoted = [False] * len(cells)
    else:
        cells, quoted, at, end = [], [], 0, ","
        while end in (",", "\t"):
            match = _CELL.match(line, at)
            if match is None:
                raise ValueError(
                    f"{path} must close its quotes; got {line[at : at + 40]!r} in line {number}."
                )
            quoted.append(match["quoted"] is not None)
            cells.append(_unquote(match["quoted"]) if quoted[-1] else match["plain"])
            at, end = match.end(), match["end"]
    if not quoted[-1] and cells[-1].strip().startswith("{"):
        raise ValueError(f"{path} must not have instance weights; got {cells[-1].strip()} in line {number}.")
    return ["" if cell.strip() == "?" and not q else cell for cell, q in zip(cells, quoted, strict=True)]


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
