"""Excel workbooks, with openpyxl: the first sheet, whose first row names the columns."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from counterpoint._extras import import_extra
from counterpoint.io.sources import Source
from counterpoint.io.text import Row, TextTable

__all__ = ["open_table"]


@contextmanager
def open_table(source: Source, *, progress: bool) -> Iterator[TextTable]:
    """Open a workbook; openpyxl offers no way to show how far it has read."""
    openpyxl = import_extra("openpyxl", "excel")
    with source.open() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and other parts that hold no cells
        try:
            book = openpyxl.load_workbook(BytesIO(file.read()), read_only=True, data_only=True)
            titles = [sheet.title for sheet in book.worksheets]
            rows = list(_read_rows(book.worksheets[0])) if titles else []
            book.close()
        except Exception:  # a damaged workbook may raise anything, of zipfile, the XML parser or openpyxl
            raise ValueError(
                f"{source.path} must be an Excel workbook; it is damaged or something else."
            ) from None
    if len(titles) > 1:
        warnings.warn(
            f"{source.path} has {len(titles)} sheets; the first, {titles[0]!r}, was read.", stacklevel=3
        )
    yield TextTable(source.path, iter(rows))


def _read_rows(sheet: Any) -> Iterator[Row]:
    """Yield the filled rows, all as wide as the first, unless more of their cells are filled."""
    width = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = ["" if value is None else str(value) for value in values]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            width = width or len(cells)
            yield number, cells + [""] * (width - len(cells))
