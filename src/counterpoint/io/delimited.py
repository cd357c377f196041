"""CSV and TSV: the first row names the columns."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from counterpoint._files import replacing
from counterpoint._validation import check_path
from counterpoint.io.formats import TABLE_FORMATS, WRITABLE_TABLE_FORMATS, check_suffix
from counterpoint.io.text import Row, TextTable, open_text

__all__ = ["open_table", "write_rows"]

_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def open_table(path: Path, *, progress: bool) -> AbstractContextManager[TextTable]:
    """Open a CSV or TSV file."""
    delimiter = TABLE_FORMATS[path.suffix.lower()].delimiter
    return open_text(path, partial(_read_rows, delimiter=delimiter), progress=progress)


def write_rows(path: str | Path, rows: Iterable[Iterable[Any]]) -> None:
    r"""Write rows of cells to a CSV or TSV file.

    Parameters
    ----------
    path : path
        The file; an existing one is replaced only when the new one is complete.
    rows : iterable of iterables
        The cells of each row, the header first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.tsv")
    ...     write_rows(path, [["size", "kind"], [1.5, "a"]])
    ...     path.read_text()
    'size\tkind\n1.5\ta\n'
    """
    suffix = check_suffix(check_path(path, "path"), WRITABLE_TABLE_FORMATS, "path")
    with replacing(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        delimiter = TABLE_FORMATS[suffix].delimiter
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
        text.flush()
        text.detach()  # `replacing` closes the file


def _read_rows(path: Path, file: TextIO, *, delimiter: str) -> Iterator[Row]:
    header = next(file, "")
    found = [name for mark, name in _MARKS.items() if mark in header]
    if found and _MARKS[delimiter] not in found:
        raise ValueError(
            f"{path} must separate its cells by {_MARKS[delimiter]}, as its suffix says; "
            f"got {found[0]} in its header, {header.strip()[:40]!r}."
        )
    reader = csv.reader(chain([header], file), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():  # skip empty lines
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path} must be well-formed; got {error} in line {reader.line_num}.") from None
