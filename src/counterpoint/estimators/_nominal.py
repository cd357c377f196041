"""Tables with nominal columns: which columns these are, and their values by number."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

Categories = Mapping[int, pd.Index]  # position of a nominal column -> the values it may take


def find_categories(X: Any, listed: ArrayLike | None) -> Categories:
    """Return the values of the columns that are pandas categoricals or listed; a missing value is none."""
    if listed is None and not isinstance(X, pd.DataFrame):
        return {}
    frame = _frame(X)
    nominal = {j for j, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.CategoricalDtype)}
    if listed is not None:
        nominal |= set(_positions(np.asarray(listed), list(frame.columns)))
    return {j: pd.Categorical(frame.iloc[:, j]).categories for j in sorted(nominal)}


def by_number(X: Any, categories: Categories) -> Any:
    """Return the table with the values of nominal columns by number, and NaN for a value that is not known."""
    if not categories:
        return X
    frame = _frame(X).copy(deep=False)
    for j, values in categories.items():
        codes = pd.Categorical(frame.iloc[:, j]).set_categories(values).codes
        frame.isetitem(j, np.where(codes < 0, np.nan, codes))
    return frame if isinstance(X, pd.DataFrame) else frame.to_numpy()


def _frame(X: Any) -> Any:
    """Return the table as a frame; one that is none yet keeps the type of each cell."""
    if isinstance(X, pd.DataFrame):
        return X
    return pd.DataFrame(check_array(np.asarray(X, dtype=object), dtype=None, ensure_all_finite=False))


def _positions(listed: NDArray[Any], names: Sequence[Any]) -> list[int]:
    """Return the positions of the columns that a mask, positions or names stand for."""
    rule = "`categorical_features` must"
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
