"""JSON and JSON lines: records, one for each row, or an object of columns."""

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from counterpoint._validation import short
from counterpoint.io.cells import number_text
from counterpoint.io.limits import check_parsed
from counterpoint.io.sources import Source
from counterpoint.io.text import Row, TextTable, open_text

__all__ = ["open_table"]

# Other numbers than whole ones stay as they are written, so that a label reads the same in every format.
_DECODER = json.JSONDecoder(parse_float=number_text, parse_int=str, parse_constant=str)
_OBJECT, _VALUE = 200, 60  # bytes of memory
_MOST_CELLS = 10**7  # beside those that have a character in the file
Record = tuple[int, Any]  # line of the file, or 0; content


def open_table(source: Source, *, progress: bool) -> AbstractContextManager[TextTable]:
    """Open a JSON or JSONL file."""
    return open_text(source, partial(_read_rows, size=source.size), progress=progress)


def _read_rows(path: Path, file: TextIO, *, size: int) -> Iterator[Row]:
    """Yield the keys of all records, then the values; a key that a record lacks is an empty cell."""
    text = file.read()
    if not text.strip():
        return
    marks = {mark: text.count(mark) for mark in "{[,:"}  # one of the last three stands before each value
    check_parsed(path, _OBJECT * marks["{"] + _VALUE * sum(marks.values()) + len(text), size)
    records = list(_records(path, text))
    for place, (line, record) in enumerate(records, start=1):
        if not isinstance(record, dict):
            where = f"line {line}" if line else f"record {place}"
            raise ValueError(f"{path} must hold a JSON object for each row; got {_kind(record)} in {where}.")
    columns = list(dict.fromkeys(key for _, record in records for key in record))
    if len(records) * len(columns) > max(_MOST_CELLS, len(text)):
        raise ValueError(
            f"{path} must have the same keys in its records; got {len(columns)} keys in {len(records)} records."
        )
    yield 0, columns
    for line, record in records:
        try:
            yield line, [_cell(record.get(column)) for column in columns]
        except RecursionError:
            raise _too_deep(path) from None


def _records(path: Path, text: str) -> Iterable[Record]:
    """Return the records of a JSON text, or of lines of JSON."""
    try:
        data = _DECODER.decode(text)
    except RecursionError:
        raise _too_deep(path) from None
    except json.JSONDecodeError as error:
        if error.msg != "Extra data" or "\n" in text[: error.pos].strip():
            raise _fault(path, error, error.lineno) from None
        return _read_lines(path, text)
    if isinstance(data, list):
        return [(0, record) for record in data]
    if isinstance(data, dict) and data and all(isinstance(column, list | dict) for column in data.values()):
        return _rows_of_columns(path, data)
    return [(1, data)]


def _read_lines(path: Path, text: str) -> Iterator[Record]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, _DECODER.decode(line)
            except RecursionError:
                raise _too_deep(path) from None
            except json.JSONDecodeError as error:
                raise _fault(path, error, number) from None


def _rows_of_columns(path: Path, data: dict[str, Any]) -> list[Record]:
    """Return the rows of columns, which are lists, or objects with the same keys as pandas writes them."""
    columns = {
        name: column if isinstance(column, dict) else dict(enumerate(column)) for name, column in data.items()
    }
    first, *others = columns
    for name in others:
        if columns[name].keys() != columns[first].keys():
            raise ValueError(
                f"{path} must have columns of the same rows; got {len(columns[first])} in {short(first)} and "
                f"{len(columns[name])} in {short(name)}."
            )
    return [(0, {name: column[key] for name, column in columns.items()}) for key in columns[first]]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else str(value) if isinstance(value, bool) else json.dumps(value)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else repr(value)[:40]


def _fault(path: Path, error: json.JSONDecodeError, line: int) -> ValueError:
    reason = error.msg[:1].lower() + error.msg[1:]
    return ValueError(f"{path} must be well-formed JSON; line {line} is not: {reason}.")


def _too_deep(path: Path) -> ValueError:
    return ValueError(f"{path} must be well-formed JSON; it is nested too deeply.")
