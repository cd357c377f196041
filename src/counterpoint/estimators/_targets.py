"""What an estimator is to predict: checks that name the value at fault."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api.types import is_scalar

__all__ = ["check_present", "check_targets", "is_number"]


def check_present(y: ArrayLike | None) -> None:
    """Refuse classes of which some are missing, as None, NaN or ``pandas.NA`` beside text."""
    cells = np.asarray(y)
    if y is None or cells.dtype != object:
        return
    if len(missing := np.argwhere(pd.isna(cells))):
        place = tuple(missing[0].tolist())
        raise ValueError(f"`y` must hold a class in every row; got {cells[place]!r} in row {place[0]}.")


def check_targets(y: ArrayLike | None) -> None:
    """Refuse what is not one number for each row: NumPy would count the ticks of dates."""
    cells = np.asarray(y)
    if cells.ndim == 2 and cells.shape[1] > 1:
        raise ValueError(
            f"`y` must hold one number for each sample; got shape {cells.shape}. MultiOutputRegressor fits one "
            "regressor for each column."
        )
    if cells.dtype.kind in "mM":
        raise ValueError(f"`y` must hold numbers; got dtype {cells.dtype}.")
    if y is not None and cells.dtype.kind in "OUT":
        for row, value in enumerate(cells.ravel().tolist()):
            if not is_number(value):
                raise ValueError(f"`y` must hold numbers; got {value!r:.80} in row {row}.")


def is_number(value: Any) -> bool:
    """Return True for what can be read as a number, and for a missing one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return bool(is_scalar(value) and pd.isna(value))
    return True
