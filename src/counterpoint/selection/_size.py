"""Which of several panels to take, by their credit on the same samples.

Notation: P panels from small to large, or from cheap to dear, n samples; credit has shape (P, n).
"""

import numpy as np

from counterpoint._validation import ROUNDING, FloatArray, IntArray
from counterpoint.assessment import error_of_mean


def first_best(scores: FloatArray) -> int:
    """Return the position of the first of the largest entries; entries that differ by rounding are equal."""
    return int(np.argmax(scores >= scores.max() - ROUNDING))


def within_noise(credit: FloatArray, errors: float, groups: IntArray | None = None) -> IntArray:
    """Return the panels within so many standard errors, of the paired difference, of the most accurate one."""
    loss = credit[first_best(credit.mean(axis=1))] - credit
    # The error of a single sample or group is unknown: then no panel but the best is allowed.
    allowed = errors * np.nan_to_num([error_of_mean(one, groups) for one in loss])
    found: IntArray = np.flatnonzero(loss.mean(axis=1) <= allowed + ROUNDING)
    return found
