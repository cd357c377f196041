"""Tables with nominal columns: which columns these are, and their values by number."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from counterpoint.estimators._targets import is_number

__all__ = [
    "MISSING",
    "UNKNOWN",
    "Categories",
    "by_number",
    "check_numbers",
    "find_categories",
    "frame_or_none",
    "naming_columns",
    "positions",
    "to_frame",
]

_NUMBERS_ONLY = "hold numbers in columns that are not among the `categorical_features`"
# What NumPy says of text, and of other objects that are no numbers.
_NO_TEXT, _NO_OBJECT = "could not convert string", ("float() argument must be", "with a sequence")

MISSING, UNKNOWN = -1.0, -2.0  # in the place of the number of a value

Categories = dict[int, pd.Index]  # position of a nominal column -> the values it may take


def find_categories(X: Any, listed: ArrayLike | None) -> Categories:
    """Return the values of the columns that are categorical in their frame or listed; a missing value is none."""
    if listed is None and frame_or_none(X) is None:
        return {}
    frame = to_frame(X)
    nominal = {j for j, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.CategoricalDtype)}
    if listed is not None:
        nominal |= set(positions(np.asarray(listed), list(frame.columns)))
    return {j: pd.Categorical(frame.iloc[:, j]).categories for j in sorted(nominal)}


def by_number(X: Any, categories: Categories, *, keep_missing: bool = False) -> Any:
    """Return the table with the values of nominal columns by number, and NaN for a value that is missing or not known.

    With ``keep_missing`` such a value is MISSING or UNKNOWN, two negative numbers. Cells of any type that are missing
    elsewhere, as ``pandas.NA`` is, become NaN as well: NumPy cannot read them.
    """
    if not categories and not isinstance(X, pd.DataFrame):
        is_mixed = isinstance(X, np.ndarray) and X.dtype == object
        return np.where(pd.isna(X), np.nan, X) if is_mixed else X
    frame = to_frame(X).copy(deep=False)
    for j, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O" and j not in categories:
            cells = frame.iloc[:, j].astype(object)
            frame.isetitem(j, cells.where(cells.notna(), np.nan))
    for j, values in categories.items():
        codes = _codes(frame.iloc[:, j], values)
        frame.isetitem(j, codes if keep_missing else np.where(codes < 0, np.nan, codes))
    return frame.to_numpy() if frame_or_none(X) is None else frame


def _codes(column: Any, values: pd.Index) -> NDArray[np.float64]:
    """Return the number of each cell among the values, or MISSING, or UNKNOWN."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = _codes(pd.Series(column.cat.categories.to_numpy()), values)
        codes = np.append(codes, MISSING)  # whose place in the column is -1
        return codes[np.asarray(column.cat.codes, dtype=np.int64)]
    cells = pd.Index(column.to_numpy(dtype=object, na_value=np.nan), dtype=object, tupleize_cols=False)
    try:
        found = values.astype(object).get_indexer(cells).astype(np.float64)
    except TypeError as error:
        raise ValueError(f"`X` must hold nominal values in column {column.name!r}; got: {error}.") from error
    return np.where(column.isna(), MISSING, np.where(found < 0, UNKNOWN, found))


@contextmanager
def naming_columns(X: Any, categories: Categories) -> Iterator[None]:
    """Name the column whose value is no number, or infinite, where a finite one is expected: NumPy names none."""
    try:
        yield
    except (TypeError, ValueError) as error:
        is_frame = frame_or_none(X) is not None  # of arrays scikit-learn expects its own words
        if _NO_TEXT in str(error) or (is_frame and any(words in str(error) for words in _NO_OBJECT)):
            found, rule = _first(X, categories, lambda value: not is_number(value)), _NUMBERS_ONLY
        elif is_frame and str(error).startswith("Input X contains infinity"):
            found, rule = _first(X, categories, _is_infinite), "hold numbers that are finite or missing"
        else:
            raise
        if found is None:
            raise
        raise ValueError(f"`X` must {rule}; got {found[1]!r:.80} in column {found[0]!r}.") from error


def _first(X: Any, categories: Categories, is_bad: Callable[[Any], bool]) -> tuple[Any, Any] | None:
    """Return the first column that is not nominal and holds a bad value, and that value."""
    frame = frame_or_none(X)
    if frame is None:
        cells = np.asarray(X, dtype=object)
        if cells.ndim != 2:
            return None
        frame = pd.DataFrame(cells)
    plain = ((j, name) for j, name in enumerate(frame.columns) if j not in categories)
    return next(((name, value) for j, name in plain for value in frame.iloc[:, j] if is_bad(value)), None)


def check_numbers(X: Any, categories: Categories) -> None:
    """Refuse columns of dates, durations, intervals or complex numbers that are not nominal.

    NumPy would count ticks, drop the imaginary parts, or fail.
    """
    frame = frame_or_none(X)
    if frame is None:
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "mM"):
            return
        frame = pd.DataFrame(X)
    for j, (name, dtype) in enumerate(frame.dtypes.items()):
        is_time = dtype.kind in "mM" or isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype)
        if j not in categories and is_time:
            raise ValueError(f"`X` must {_NUMBERS_ONLY}; got {dtype} in column {name!r}.")
        if j not in categories and dtype.kind == "c":
            raise ValueError(f"`X` must hold real numbers; got {dtype} in column {name!r}.")


def _is_infinite(value: Any) -> bool:
    try:
        return math.isinf(value)
    except TypeError:  # a value that is missing, or text
        return False


def to_frame(X: Any) -> Any:
    """Return the table as a frame of pandas; one that is no frame yet keeps the type of each cell."""
    frame = frame_or_none(X)
    if frame is None:
        cells = check_array(np.asarray(X, dtype=object), dtype=None, ensure_all_finite=False)
        frame = pd.DataFrame(cells)
    return frame


def frame_or_none(X: Any) -> Any:
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
    if column.dtype.is_nested():  # a struct would become a matrix
        return pd.Series(column.to_list(), dtype=object)
    return column.to_numpy()


def positions(listed: NDArray[Any], names: Sequence[Any]) -> list[int]:
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
