"""CSV and TSV: the first row names the columns. The cells may be separated by another mark than the suffix says."""

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from counterpoint._files import replacing
from counterpoint._validation import check_path
from counterpoint.io.formats import TABLE_FORMATS, WRITABLE_TABLE_FORMATS, check_suffix
from counterpoint.io.sources import Source
from counterpoint.io.text import Row, TextTable, open_text

__all__ = ["open_table", "write_rows"]

_DELIMITERS = (",", ";", "\t", "|")
_LINES_SEEN, _LETTERS_SEEN = 50, 2**20  # by the search for the delimiter
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*")


def open_table(source: Source, *, progress: bool) -> AbstractContextManager[TextTable]:
    """Open a CSV or TSV file."""
    usual = TABLE_FORMATS[source.suffix].delimiter
    return open_text(source, partial(_read_rows, usual=usual), progress=progress)


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


def _read_rows(path: Path, file: TextIO, *, usual: str) -> Iterator[Row]:
    head: list[str] = []
    while len(head) < _LINES_SEEN and sum(map(len, head)) < _LETTERS_SEEN and (line := file.readline()):
        head.append(line)
    delimiter = _find_delimiter(head, usual)
    reader = _reader(chain(head, file), delimiter)
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():  # skip empty lines
                yield reader.line_num, _with_points(row) if delimiter == ";" else row
    except csv.Error as error:
        raise ValueError(f"{path} must be well-formed; got {error} in line {reader.line_num}.") from None


def _reader(lines: Iterable[str], delimiter: str) -> Any:
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)


def _find_delimiter(head: list[str], usual: str) -> str:
    """Return the delimiter that splits the header and gives the most rows its width.

    Of equals the one with the most columns is taken, then the usual one.
    """
    fits: dict[str, tuple[float, int]] = {}
    for delimiter in dict.fromkeys((usual, *_DELIMITERS)):
        widths = list(_widths(head, delimiter))
        if widths and widths[0] > 1:
            fits[delimiter] = widths.count(widths[0]) / len(widths), widths[0]
    return max(fits, key=fits.__getitem__, default=usual)


def _widths(head: list[str], delimiter: str) -> Iterator[int]:
    with suppress(csv.Error):  # a quote may be closed below the lines seen
        for row in _reader(head, delimiter):
            if "".join(row).strip():
                yield len(row)


def _with_points(row: list[str]) -> list[str]:
    """Return cells with decimal points in place of decimal commas, which semicolons leave room for."""
    return [
        cell.replace(",", ".") if "," in cell and _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row
    ]
