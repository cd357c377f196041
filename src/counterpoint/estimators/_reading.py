"""Tables of any kind as matrices of numbers: nominal values by number, missing numbers as NaN."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype
from scipy.sparse import issparse
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from counterpoint.estimators._nominal import (
    Categories,
    by_number,
    check_numbers,
    frame_or_none,
    naming_columns,
    positions,
    to_frame,
)

__all__ = ["PickedRows", "Table", "find_values", "read_rows", "row_parts"]

_NUMBERS = MappingProxyType({"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"})
_PART = 2**16  # rows that are read at once: in double precision they take more room than what is made of them
# What pandas finds in columns of Python objects.
_NUMERIC_OBJECTS = ("integer", "floating", "mixed-integer-float", "decimal")
_NOMINAL_OBJECTS = ("string", "boolean", "mixed", "mixed-integer", "empty")


class PickedRows:
    """Some rows of a table, read when they are needed: a large or a memory-mapped table is not copied."""

    def __init__(self, table: NDArray[Any], places: NDArray[np.int64]) -> None:
        self.table, self.places = table, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        rows, *columns = key if isinstance(key, tuple) else (key,)
        found: NDArray[Any] = np.asarray(self.table[(self.places[rows], *columns)])
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def take(self, index: NDArray[np.int64], axis: int = 0) -> "PickedRows":
        """Return some of these rows."""
        return PickedRows(self.table, self.places[index])


Table = NDArray[Any] | PickedRows


def find_values(X: Any, categorical_features: ArrayLike | str | None) -> Categories:
    """Return the values of each nominal column, sorted or in the order of their categories; a missing one is none."""
    if categorical_features is None:
        return {}
    if not isinstance(categorical_features, str):
        frame = to_frame(_check_dense(X))
        nominal = sorted(set(positions(np.asarray(categorical_features), list(frame.columns))))
    elif categorical_features == "from_dtype":
        frame = frame_or_none(X)
        nominal = [] if frame is None else [j for j in range(frame.shape[1]) if _is_nominal(frame.iloc[:, j])]
    else:
        raise ValueError(
            "`categorical_features` must be 'from_dtype', None, or columns by position, name or mask; got "
            f"{categorical_features!r}."
        )
    return {j: _values(frame.iloc[:, j]) for j in nominal}


def read_rows(owner: Any, X: Any, categories: Categories, *y: Any, reset: bool) -> Any:
    """Return the matrix of a table, and the labels if given, after the checks of scikit-learn for the owner."""
    _check_dense(X)
    if getattr(X, "ndim", 2) != 2:
        check_array(X, estimator=owner, input_name="X", dtype=None)  # raises
    if hasattr(X, "columns") and not X.shape[1]:
        raise ValueError(f"`X` must have at least one column; got shape {X.shape}.")
    if categories and not reset:
        validate_data(owner, X, reset=False, skip_check_array=True)  # the columns are those of fit
    check_numbers(X, categories)
    with naming_columns(X, categories):
        numbers = by_number(X, categories, keep_missing=True)
        if reset or not categories:
            return validate_data(owner, numbers, *y, reset=reset, **_NUMBERS)
        if y:
            return check_X_y(numbers, *y, estimator=owner, **_NUMBERS)
        return check_array(numbers, estimator=owner, input_name="X", **_NUMBERS)


def row_parts(n_rows: int) -> Iterator[slice]:
    """Yield the parts in which the rows of a large table are read; a small one is one part."""
    for start in range(0, max(n_rows, 1), _PART):
        yield slice(start, start + _PART)


def _check_dense(X: Any) -> Any:
    if issparse(X):
        raise TypeError("`X` must be dense; got a sparse matrix, which `toarray` makes dense.")
    dtypes = X.dtypes if isinstance(X, pd.DataFrame) else ()
    if len(dtypes) and all(isinstance(dtype, pd.SparseDtype) for dtype in dtypes):
        raise TypeError("`X` must be dense; got sparse columns, which `sparse.to_dense` makes dense.")
    return X


def _is_nominal(column: Any) -> bool:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or dtype.type is str or is_bool_dtype(dtype):
        return True
    if is_numeric_dtype(dtype):
        return False
    kind = infer_dtype(column, skipna=True) if dtype == np.dtype(object) else str(dtype)
    if kind not in _NUMERIC_OBJECTS + _NOMINAL_OBJECTS:
        raise ValueError(f"`X` must hold numbers or nominal values; got {kind} in column {column.name!r}.")
    return kind in _NOMINAL_OBJECTS


def _values(column: Any) -> pd.Index:
    """Return the distinct values, in an order that does not depend on that of the rows."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Index(column.cat.remove_unused_categories().cat.categories.tolist(), dtype=object)
    present = column[column.notna()]
    try:
        found = [one.item() if isinstance(one, np.generic) else one for one in present.unique()]
    except TypeError as error:
        raise ValueError(
            f"`X` must hold numbers or nominal values; got {type(present.iloc[0]).__name__} in column "
            f"{column.name!r}."
        ) from error
    try:
        found = sorted(found)
    except TypeError:  # text beside numbers, say
        found = sorted(found, key=lambda value: (type(value).__name__, str(value)))
    return pd.Index(found, dtype=object, tupleize_cols=False)
