"""Tables with nominal columns: which columns these are, and their values by number."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

NUMBERS_ONLY = "hold numbers in columns that are not among the `categorical_features`"

Categories = Mapping[int, pd.Index]  # position of a nominal column -> the values it may take


def find_categories(X: Any, listed: ArrayLike | None) -> Categories:
    """Return the values of the columns that are categorical in their frame or listed; a missing value is none."""
    if listed is None and _of_frame(X) is None:
        return {}
    frame = _frame(X)
    nominal = {j for j, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.CategoricalDtype)}
    if listed is not None:
        nominal |= set(_positions(np.asarray(listed), list(frame.columns)))
    return {j: pd.Categorical(frame.iloc[:, j]).categories for j in sorted(nominal)}


def by_number(X: Any, categories: Categories) -> Any:
    """Return the table with the values of nominal columns by number, and NaN for a value that is not known.

    Cells of any type that are missing elsewhere, as ``pandas.NA`` is, become NaN as well: NumPy cannot read them.
    """
    if not categories and not isinstance(X, pd.DataFrame):
        is_mixed = isinstance(X, np.ndarray) and X.dtype == object
        return np.where(pd.isna(X), np.nan, X) if is_mixed else X
    frame = _frame(X).copy(deep=False)
    for j, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O" and not isinstance(dtype, pd.CategoricalDtype) and j not in categories:
            frame.isetitem(j, frame.iloc[:, j].where(frame.iloc[:, j].notna(), np.nan))
    for j, values in categories.items():
        codes = pd.Categorical(frame.iloc[:, j]).set_categories(values).codes
        frame.isetitem(j, np.where(codes < 0, np.nan, codes))
    return frame.to_numpy() if _of_frame(X) is None else frame


def first_text(X: Any, categories: Categories) -> tuple[Any, str] | None:
    """Return the first column that is not nominal and holds text that is no number, and that text."""
    frame = _of_frame(X)
    if frame is None:
        cells = np.asarray(X, dtype=object)
        if cells.ndim != 2:
            return None
        frame = pd.DataFrame(cells)
    plain = ((j, name) for j, name in enumerate(frame.columns) if j not in categories)
    return next(((name, value) for j, name in plain for value in frame.iloc[:, j] if _is_text(value)), None)


def check_numbers(X: Any, categories: Categories) -> None:
    """Refuse columns of dates or durations that are not nominal: NumPy would count their ticks."""
    frame = _of_frame(X)
    if frame is None:
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "mM"):
            return
        frame = pd.DataFrame(X)
    for j, (name, dtype) in enumerate(frame.dtypes.items()):
        if j not in categories and dtype.kind in "mM":
            raise ValueError(f"`X` must {NUMBERS_ONLY}; got {dtype} in column {name!r}.")


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _frame(X: Any) -> Any:
    """Return the table as a frame of pandas; one that is no frame yet keeps the type of each cell."""
    frame = _of_frame(X)
    if frame is None:
        cells = check_array(np.asarray(X, dtype=object), dtype=None, ensure_all_finite=False)
        frame = pd.DataFrame(cells)
    return frame


def _of_frame(X: Any) -> Any:
    """Return a frame of any library as one of pandas, and None for what is no frame."""
    if isinstance(X, pd.DataFrame):
        return X
    polars = sys.modules.get("polars")  # who has a frame of polars has imported it
    if polars is not None and isinstance(X, polars.LazyFrame):
        raise TypeError("`X` must be a table in memory; got a LazyFrame. Give what its `collect` returns.")
    if polars is not None and isinstance(X, polars.DataFrame):
        return pd.DataFrame({name: _of_polars(X[name], polars) for name in X.columns})
    if polars is not None and isinstance(X, polars.Series):
        return None
    return X.to_pandas() if hasattr(X, "to_pandas") else None


def _of_polars(column: Any, polars: Any) -> Any:
    """Return a column of polars for pandas, without pyarrow, which the ``to_pandas`` of polars needs."""
    if isinstance(column.dtype, polars.Enum):
        return pd.Categorical(column.to_list(), categories=column.dtype.categories.to_list())
    if isinstance(column.dtype, polars.Categorical):
        return pd.Categorical(column.to_list())
    return column.to_numpy()


def _positions(listed: NDArray[Any], names: Sequence[Any]) -> list[int]:
    """Return the positions of the columns that a mask, positions or names stand for."""
    rule = "`categorical_features` must"
    if listed.ndim == 0:  # a string, a set or a number
        raise TypeError(f"{rule} be a list or an array; got {listed.item()!r}.")
    if listed.ndim != 1:
        raise ValueError(f"{rule} be one-dimensional; got shape {listed.shape}.")
    if listed.size == 0:
        return []
    if listed.dtype.kind == "b":
        if len(listed) != len(names):
            raise ValueError(f"{rule} have {len(names)} entries as a mask; got {len(listed)}.")
        return [int(j) for j in np.flatnonzero(listed)]
    if listed.dtype.kind in "iu":
        if (outside := listed[(listed < 0) | (listed >= len(names))]).size:
            raise ValueError(f"{rule} hold positions from 0 to {len(names) - 1}; got {outside[0]}.")
        return [int(j) for j in listed]
    if listed.dtype.kind not in "UO":
        raise TypeError(f"{rule} hold positions, names or booleans; got dtype {listed.dtype}.")
    if unknown := [name for name in listed.tolist() if name not in names]:
        raise ValueError(f"{rule} hold names of the columns; got {unknown[0]!r}.")
    return [names.index(name) for name in listed.tolist()]
