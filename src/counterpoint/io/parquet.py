"""Parquet, with pyarrow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from counterpoint._extras import import_extra
from counterpoint._files import open_regular
from counterpoint._validation import short
from counterpoint.io.cells import Cells, LabelColumn, NumberColumn, number_text
from counterpoint.io.limits import check_unpacked
from counterpoint.io.sources import Source

__all__ = ["ParquetTable", "open_table"]


class ParquetTable:
    """An open Parquet file: its column names first, then the cells that are asked for."""

    def __init__(self, path: Path, file: Any, size: int) -> None:
        self.path = path
        self._file, self._size = file, size
        # pandas stores an index without a name under a name of its own
        self.columns = [n for n in file.schema_arrow.names if not n.startswith("__index_level_")]
        if not self.columns:
            raise ValueError(f"{path} must have columns; it has none.")

    def read(self, labels: list[str], numbers: list[str]) -> Cells:
        """Read some columns as labels and others as numbers."""
        names = [*labels, *numbers]
        # A run of equal cells may take no room in the file.
        check_unpacked(self.path, 8 * self._file.metadata.num_rows * len(names), self._size)
        table = self._read(lambda: self._file.read(columns=names))
        if not table.num_rows:
            raise ValueError(f"{self.path} must have rows; it has none.")
        found = {name: self._read(partial(table.column, name)) for name in names}
        return Cells(
            self.path,
            labels={name: self._labels(name, found[name]) for name in labels},
            numbers={name: self._numbers(name, found[name]) for name in numbers},
            n_rows=table.num_rows,
            n_bytes=self._size,
        )

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception:  # a damaged file may raise anything, of Arrow, the system or a codec
            raise ValueError(f"{self.path} must be a whole Parquet file; it is damaged.") from None

    def _labels(self, name: str, column: Any) -> LabelColumn:
        arrow = import_extra("pyarrow", "parquet")
        whole = column.combine_chunks()
        if not arrow.types.is_dictionary(whole.type):
            try:
                whole = whole.dictionary_encode()
            except arrow.ArrowException:
                raise ValueError(
                    f"{self.path}: column {name!r} must hold labels; got type {str(column.type)[:80]}."
                ) from None
        values = self._read(whole.dictionary.to_pylist)
        cells = [
            "" if cell is None else number_text(cell) if isinstance(cell, float) else str(cell)
            for cell in values
        ]
        codes = whole.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False).astype(np.int32)
        return LabelColumn.of_cells(name, codes, [*cells, ""])

    def _numbers(self, name: str, column: Any) -> NumberColumn:
        arrow = import_extra("pyarrow", "parquet")
        kind = column.type
        try:
            if arrow.types.is_dictionary(kind):
                whole, kind = column.combine_chunks(), kind.value_type
                values = (
                    whole.dictionary.cast(arrow.float64()).take(whole.indices).to_numpy(zero_copy_only=False)
                )
            else:
                values = column.cast(arrow.float64()).to_numpy()
        except arrow.ArrowException:
            return NumberColumn(name, np.full(len(column), np.nan), bad=(f"type {kind}", 0))
        return NumberColumn(name, np.asarray(values, dtype=np.float64))


def _texts(schema: Any) -> list[str]:
    """Return the columns of text; each distinct one is read once, as a long one repeated takes no room in a file."""
    arrow = import_extra("pyarrow", "parquet")
    kinds = arrow.types
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return [field.name for field in schema if any(test(field.type) for test in tests)]


@contextmanager
def open_table(source: Source, *, progress: bool) -> Iterator[ParquetTable]:
    """Open a Parquet file; it is read too fast to need a progress bar."""
    parquet = import_extra("pyarrow.parquet", "parquet")
    with open_regular(source.path) if source.content is None else BytesIO(source.content) as raw:
        try:
            file = parquet.ParquetFile(raw, read_dictionary=_texts(parquet.read_schema(raw)))
            table = ParquetTable(source.path, file, raw.seek(0, 2))
        except Exception as error:  # a damaged file may raise anything, of Arrow, the system or a codec
            if str(error).startswith(str(source.path)):
                raise
            reason = short(str(error).partition(".")[0], 160)[1:-1]
            raise ValueError(f"{source.path} must be a Parquet file; {reason}.") from None
        with file:
            yield table
