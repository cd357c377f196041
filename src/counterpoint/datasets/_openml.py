"""The same tables from OpenML, with the column names and labels of the CSV files."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from counterpoint.datasets._checks import DATA_VARIABLE
from counterpoint.datasets.sources import DATASETS


def fetch_columns(name: str, types: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return the text of each column in ``types`` that OpenML has.

    OpenML's target becomes the column ``class``. Other columns are matched by their letters and digits, because OpenML
    writes ``bw%2Fme`` for ``bw/me``, and case and separators vary.
    """
    from sklearn.datasets import fetch_openml

    try:
        table = fetch_openml(data_id=DATASETS[name].openml_id, as_frame=True)
    except OSError as error:
        raise ConnectionError(
            f"{name!r} could not be fetched from OpenML ({error}); pass `data_dir`, or set "
            f"{DATA_VARIABLE}, to the path of a folder that holds '{name}.csv'."
        ) from error
    found = {_key(column): table.data[column] for column in table.data.columns}
    columns: dict[str, Sequence[str]] = {
        column: _texts(found[_key(column)]) for column in types if _key(column) in found
    }
    return columns | {"class": _texts(table.target)}


def _key(column: str) -> str:
    return re.sub(r"[^a-z0-9]", "", unquote(column).lower())


def _texts(values: Iterable[Any]) -> list[str]:
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    if value is None or value != value:  # only NaN differs from itself
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a code is written 1, not 1.0
    return str(value).strip().strip("'")
