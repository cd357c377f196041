"""Who wins a vote, and by how much.

Notation: m classes, n samples. A tally is what each class gets, shape (m, n): votes or probabilities, weighted or not.
Credit is 1 where the truth wins alone and 1/k where it ties with k - 1 other classes.
"""

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import ROUNDING, FloatArray


def leaders(tally: FloatArray) -> NDArray[np.bool_]:
    """Return where a class has the most, (m, n); several where it is shared."""
    leading: NDArray[np.bool_] = tally >= tally.max(axis=0) - ROUNDING  # weights add up with rounding
    return leading


def credit(tally: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
    """Return the credit on each sample, (n,), whose true classes are ``codes``."""
    leading = leaders(tally)
    own: FloatArray = leading[codes, np.arange(len(codes))] / leading.sum(axis=0)
    return own


def margins(tally: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
    """Return what the true class has more than the best of the others, (n,)."""
    samples = np.arange(len(codes))
    rivals = tally.copy()
    rivals[codes, samples] = 0.0
    margin: FloatArray = tally[codes, samples] - rivals.max(axis=0)
    return margin
