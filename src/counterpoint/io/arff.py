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
_CELL = re.compile(rf"[ ]*(?:(?P<quoted>{_QUOTED})|(?P<plain>[^,\t%'\"]*))[ ]*(?P<end>,|\t|%|$)")
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
        raise ValueError(f"{path} must not have relational attributes; got {name} in line {number}.")
    return _unquote(name) if name[0] in "'\"" else name


def _split_cells(path: Path, number: int, line: str) -> list[str]:
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
