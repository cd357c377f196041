"""Undefined values: averages that skip them, and the one warning that names the learners concerned."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.exceptions import UndefinedMeasureWarning

_NAMED = 3
_MOST_HELD = 2**22  # entries of a matrix of pairs that are looked at at once


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> FloatArray:
    """Return the quotient of two arrays of one shape, NaN where the denominator is zero.

    Parameters
    ----------
    numerator, denominator : ndarray
        Arrays of equal shape.

    Returns
    -------
    ndarray
        The quotient, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> ratio(np.array([1, 0]), np.array([2, 0]))
    array([0.5, nan])
    """
    quotient = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def mean_defined(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Return the mean of the values that are not NaN, without a warning.

    Parameters
    ----------
    values : ndarray
        Numbers, some of which may be NaN.
    axis : int, optional
        The axis to average over; by default all.

    Returns
    -------
    ndarray
        The means; NaN where every value is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> mean_defined(np.array([[1.0, np.nan], [np.nan, np.nan]]), axis=1)
    array([ 1., nan])
    """
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=axis)
    return ratio(np.asarray(total), np.asarray(defined.sum(axis=axis)))


def mean_of_pairs(matrix: FloatArray) -> float:
    """Return the mean of a symmetric matrix over the pairs of different learners.

    Parameters
    ----------
    matrix : ndarray of shape (n_learners, n_learners)
        A measure of every two learners; NaN where undefined.

    Returns
    -------
    float
        The mean of the defined entries above the diagonal; NaN if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> mean_of_pairs(np.array([[1.0, 0.2, 0.4], [0.2, 1.0, np.nan], [0.4, np.nan, 1.0]])).__round__(3)
    0.3
    """
    n = len(matrix)
    width = max(_MOST_HELD // max(n, 1), 1)
    total, number = 0.0, 0
    for start in range(0, n, width):
        rows = np.arange(start, min(start + width, n))
        values = matrix[rows][np.arange(n) > rows[:, None]]
        values = values[~np.isnan(values)]
        total, number = total + float(values.sum()), number + len(values)
    return total / number if number else np.nan


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return names as text, the first few and the number of the others.

    Parameters
    ----------
    names : sequence of str
        What to list.
    most : int, default=3
        The number of names to write out.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> listed(["L1", "L2", "L3", "L4", "L5"])
    'L1, L2, L3 and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def warn_undefined(
    name: str,
    places: Sequence[str],
    *,
    problem: str = "is undefined for",
    effect: str = "the value there is NaN",
    stacklevel: int = 3,
) -> None:
    """Warn that a measure is undefined for some learners or classes; do nothing if there are none.

    Parameters
    ----------
    name : str
        The function that the user called.
    places : sequence of str
        The learners, pairs or classes concerned; the first three are named.
    problem, effect : str
        The verb before the places and the consequence after them.
    stacklevel : int, default=3
        As for :func:`warnings.warn`, counted from this function.

    Warns
    -----
    UndefinedMeasureWarning
        If there are places.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_undefined("label_kappa", ["learner 2"])
    >>> str(caught[0].message)
    '`label_kappa` is undefined for learner 2; the value there is NaN.'
    """
    if places:
        text = f"`{name}` {problem} {listed(places)}; {effect}."
        warnings.warn(text, UndefinedMeasureWarning, stacklevel=stacklevel)


def warn_undefined_pairs(name: str, matrix: FloatArray) -> FloatArray:
    """Warn of the pairs of different learners for which a matrix is NaN, and return the matrix.

    Parameters
    ----------
    name : str
        The function that the user called.
    matrix : ndarray of shape (n_learners, n_learners)
        A measure of every two learners.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        The matrix itself.

    Examples
    --------
    >>> import numpy as np
    >>> warn_undefined_pairs("label_kappa", np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """
    pairs = np.argwhere(np.triu(np.isnan(matrix), k=1))
    warn_undefined(name, [f"learners {i} and {j}" for i, j in pairs], stacklevel=4)
    return matrix
