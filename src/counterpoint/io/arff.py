"""ARFF, the format of Weka: the header declares the columns."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

from counterpoint.io.sources import Source
from counterpoint.io.text import Row, TextTable, open_text

__all__ = ["open_table"]

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)(?:\s+|(?={{))(\S.*)", re.IGNORECASE)
_QUOTED_CELL = re.compile(_QUOTED)
_MARK = re.compile(r"[,\t%'\"]")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def open_table(source: Source, *, progress: bool) -> AbstractContextManager[TextTable]:
    """Open an ARFF file."""
    return open_text(source, _read_rows, progress=progress)


def _read_rows(path: Path, file: TextIO) -> Iterator[Row]:
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
        yield number, _split_cells(path, number, line)


def _attribute_name(path: Path, number: int, line: str) -> str:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{path} must declare an attribute as '@attribute name type'; got {line[:40]!r} in line {number}."
        )
    name, kind = match.groups()
    if kind.lower().startswith("relational"):
        raise ValueError(f"{path} must not have relational attributes; got {name[:40]} in line {number}.")
    return _unquote(name) if name[0] in "'\"" else name


def _split_cells(path: Path, number: int, line: str) -> list[str]:
    if not any(mark in line for mark in "'\"%\t"):
        cells = line.split(",")
        quoted = [False] * len(cells)
    else:
        cells, quoted, at, end = [], [], 0, ","
        while end in (",", "\t"):
            cell, is_quoted, after = _next_cell(line, at)
            end = line[after : after + 1]
            if end not in (",", "\t", "%", ""):
                raise ValueError(
                    f"{path} must close its quotes; got {line[at : at + 40]!r} in line {number}."
                )
            cells.append(cell)
            quoted.append(is_quoted)
            at = after + 1
    if not quoted[-1] and cells[-1].strip().startswith("{"):
        raise ValueError(
            f"{path} must not have instance weights; got {cells[-1].strip()[:40]} in line {number}."
        )
    return ["" if cell.strip() == "?" and not q else cell for cell, q in zip(cells, quoted, strict=True)]


def _next_cell(line: str, at: int) -> tuple[str, bool, int]:
    """Return the cell that begins at a place, whether it is quoted, and the place after it; in linear time."""
    while line[at : at + 1] == " ":
        at += 1
    if match := _QUOTED_CELL.match(line, at):
        after = match.end()
        while line[after : after + 1] == " ":
            after += 1
        return _unquote(match[0]), True, after
    mark = _MARK.search(line, at)
    after = len(line) if mark is None else mark.start()
    return line[at:after], False, after


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
