"""Excel workbooks, with openpyxl: the first sheet, whose first row names the columns."""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from counterpoint._extras import import_extra
from counterpoint._validation import short
from counterpoint.io.cells import number_text
from counterpoint.io.limits import check_unpacked
from counterpoint.io.sources import Source
from counterpoint.io.text import Row, TextTable

__all__ = ["open_table"]

_MOST_TEXT = 2**28  # bytes of XML
_STYLES, _MOST_STYLES = "xl/styles.xml", 2**20  # elements, for each of which openpyxl makes objects
_BYTES = 8  # of XML that a cell has at least
_MOST_CELLS = 10**7  # beside those: a row may name its last cell alone
_MOST_ROWS = 2**20  # as in Excel; openpyxl counts through those that are left out


@contextmanager
def open_table(source: Source, *, progress: bool) -> Iterator[TextTable]:
    """Open a workbook; openpyxl offers no way to show how far it has read."""
    openpyxl = import_extra("openpyxl", "excel")
    with source.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and other parts that hold no cells
        content = file.read()
        try:
            with zipfile.ZipFile(BytesIO(content)) as archive:
                n_bytes = sum(entry.file_size for entry in archive.infolist())
                check_unpacked(source.path, n_bytes, len(content), most=_MOST_TEXT)
                if _STYLES in archive.namelist() and archive.read(_STYLES).count(b"<") > _MOST_STYLES:
                    raise ValueError("styles")
            book = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            titles = [sheet.title for sheet in book.worksheets]
            rows = list(_read_rows(book.worksheets[0], max(n_bytes // _BYTES, _MOST_CELLS))) if titles else []
            book.close()
        except ValueError as error:
            if "must unpack" in str(error):
                raise
            raise _damaged(source) from None
        except Exception:  # a damaged workbook may raise anything, of zipfile, the XML parser or openpyxl
            raise _damaged(source) from None
    if len(titles) > 1:
        warnings.warn(
            f"{source.path} has {len(titles)} sheets; the first, {short(titles[0])}, was read.", stacklevel=3
        )
    yield TextTable(source.path, iter(rows), source.size)


def _damaged(source: Source) -> ValueError:
    return ValueError(f"{source.path} must be an Excel workbook; it is damaged or something else.")


def _read_rows(sheet: Any, most: int) -> Iterator[Row]:
    """Yield the filled rows, all as wide as the first, unless more of their cells are filled."""
    width = n_cells = 0
    sheet.reset_dimensions()  # a sheet may claim to be larger than it is
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        n_cells += len(values)
        if n_cells > most or number > _MOST_ROWS:
            raise ValueError(f"{n_cells} cells in {number} rows")
        cells = [_cell(value) for value in values]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            width = width or len(cells)
            yield number, cells + [""] * (width - len(cells))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    return "" if value is None else str(value)
