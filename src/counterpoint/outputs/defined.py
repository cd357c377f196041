"""What is defined: averages over it, and one warning for the rest."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.exceptions import UndefinedMeasureWarning

_NAMED = 3


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> FloatArray:
    """Divide arrays of one shape, with NaN where the denominator is zero."""
    quotient = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def mean_defined(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Average over what is not NaN; NaN where nothing is left."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=axis)
    return ratio(np.asarray(total), np.asarray(defined.sum(axis=axis)))


def mean_of_pairs(matrix: FloatArray) -> float:
    """Average a symmetric matrix over the pairs of different learners where it is defined."""
    return float(mean_defined(matrix[np.triu_indices(len(matrix), k=1)]))


def warn_undefined(name: str, places: Sequence[str], *, stacklevel: int = 3) -> None:
    """Warn that a measure is NaN at the places; nothing where there are none."""
    if places:
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        warnings.warn(
            f"`{name}` is undefined for {', '.join(places[:_NAMED])}{more}; NaN stands there.",
            UndefinedMeasureWarning,
            stacklevel=stacklevel,
        )


def warn_pairs(name: str, matrix: FloatArray) -> FloatArray:
    """Warn of the pairs of different learners where the matrix is NaN, and return it."""
    pairs = np.argwhere(np.triu(np.isnan(matrix), k=1))
    warn_undefined(name, [f"learners {i} and {j}" for i, j in pairs], stacklevel=4)
    return matrix
