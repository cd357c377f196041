"""The values of a nominal column as columns of 0 and 1."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._nominal import MISSING, UNKNOWN

__all__ = ["NominalColumn", "count_values"]

_FIRST = int(UNKNOWN)  # the least number of a value
# Sums of equal weights may differ in their last digits, with the order of the rows.
_DIGITS = 9


class NominalColumn(NamedTuple):
    """The columns of the values of one nominal column: a missing value first, rare ones together in the last."""

    categories: NDArray[np.object_]  # the values of the training rows; None is a missing one
    infrequent: NDArray[np.object_] | None  # those that share a column
    places: IntArray  # the column of each number of a value, beginning with UNKNOWN and MISSING; -1 for none

    @classmethod
    def of(cls, values: pd.Index, counts: FloatArray, least: float, most: int | None) -> Self:
        """Return the columns for the counts of a missing value and of all others."""
        given = np.array([None, *values], dtype=object)
        is_present = counts > 0
        is_rare = is_present & (counts < least * (1 - 10.0**-_DIGITS))
        by_count = np.argsort(-np.round(counts / counts.sum(), _DIGITS), kind="stable")
        common = [place for place in by_count if is_present[place] and not is_rare[place]]
        if most is not None and len(common) + is_rare.any() > most:
            is_rare[common[most - 1 :]] = True
        return cls.with_values(values, given[is_present], given[is_rare] if is_rare.any() else None)

    @classmethod
    def with_values(
        cls, values: Sequence[Any] | pd.Index, categories: NDArray[np.object_], infrequent: Any
    ) -> Self:
        """Return the columns of categories, for rows that were read with some values."""
        rare = set() if infrequent is None else set(infrequent)
        own = [value for value in categories if value not in rare]
        place_of = {value: place for place, value in enumerate(own)}
        other = -1 if infrequent is None else len(own)
        places = [other, *(place_of.get(value, other) for value in (None, *values))]
        return cls(categories, infrequent, np.array(places, dtype=np.int64))

    @property
    def width(self) -> int:
        """Number of columns."""
        shared = 0 if self.infrequent is None else len(self.infrequent) - 1
        return len(self.categories) - shared

    @property
    def names(self) -> list[Any]:
        """What each column stands for."""
        rare = [] if self.infrequent is None else self.infrequent.tolist()
        own = ["missing" if value is None else value for value in self.categories if value not in rare]
        return own if self.infrequent is None else [*own, "infrequent"]

    def encode(self, numbers: FloatArray) -> FloatArray:
        """Return the columns for the numbers of values."""
        place = self.places[numbers.astype(np.int64) - _FIRST]
        return np.equal.outer(place, np.arange(self.width)).astype(np.float64)


def count_values(numbers: FloatArray, weight: FloatArray, n_values: int) -> FloatArray:
    """Return the weight of a missing value, and of each other value."""
    counts = np.bincount(numbers.astype(np.int64) - int(MISSING), weight, minlength=n_values + 1)
    return counts.astype(np.float64)
