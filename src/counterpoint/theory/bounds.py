r"""Bounds on the correlations of an ensemble: Theorems 1 and 2.

Notation: ``n_learners`` is :math:`N`; ``r_tl`` and ``r_ll`` are the paper's averaged truth-learner and
learner-learner correlations; :math:`S` is the sum of the standardised learners, :math:`T` the truth.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    check_broadcast,
    check_count,
    check_interval,
    check_square,
)
from counterpoint.exceptions import ConvergenceWarning, UndefinedMeasureWarning

__all__ = [
    "Interval",
    "is_correlation_matrix",
    "learner_correlation_bounds",
    "nearest_correlation_matrix",
    "optimality",
    "truth_correlation_bounds",
]

_LARGEST = 1e6  # beside larger entries the digits of a correlation are lost


class Interval(NamedTuple):
    """A closed interval; both ends are arrays of equal shape, or scalars.

    Examples
    --------
    >>> Interval(-0.5, 1.0).high
    1.0
    """

    low: Any
    high: Any


def learner_correlation_bounds(n_learners: ArrayLike) -> Interval:
    r"""Bound the mean learner-learner correlation of any ensemble.

    Parameters
    ----------
    n_learners : int or array of int
        The number of learners, at least 2.

    Returns
    -------
    Interval
        The lowest and the highest possible ``r_ll``.

    Notes
    -----
    Theorem 1, for any ensemble:

    .. math:: -\frac{1}{N - 1} \le r_{LL} \le 1.

    It is :math:`\operatorname{Var}(S) = N + N(N-1) r_{LL} \ge 0`. The lower end is attained exactly when
    the standardised learners sum to zero, the upper end when they are all the same. The
    theorem does not cover constant learners, which have no correlation.

    Examples
    --------
    >>> low, high = learner_correlation_bounds(5)
    >>> float(low), float(high)
    (-0.25, 1.0)
    """
    n = check_count(n_learners, "n_learners", minimum=2)
    low = -1.0 / (n - 1)
    return Interval(low[()], np.ones_like(low)[()])


def truth_correlation_bounds(r_ll: ArrayLike, n_learners: ArrayLike) -> Interval:
    r"""Bound the mean truth-learner correlation, given the diversity.

    Parameters
    ----------
    r_ll : array_like
        The mean learner-learner correlation, within Theorem 1.
    n_learners : int or array of int
        The number of learners, at least 2.

    Returns
    -------
    Interval
        The lowest and the highest possible ``r_tl``.

    Notes
    -----
    Theorem 2, for any ensemble:

    .. math:: |r_{TL}| \le \sqrt{\frac{(N - 1) r_{LL} + 1}{N}}.

    It is Cauchy-Schwarz on :math:`\operatorname{Cov}(S, T)`, so the upper bound is attained exactly when
    the truth is an increasing affine function of the summed standardised learners. It holds for each
    class of a multi-class problem and, by concavity of the square root, for averages over classes. At the
    lower end of Theorem 1 the learners cancel and the interval is the single point 0.

    Examples
    --------
    >>> truth_correlation_bounds([-0.25, 0.0, 1.0], n_learners=5).high.round(3)
    array([0.   , 0.447, 1.   ])
    """
    check_broadcast(r_ll=r_ll, n_learners=n_learners)
    n = check_count(n_learners, "n_learners", minimum=2)
    r = check_interval(r_ll, "r_ll", *learner_correlation_bounds(n), because="Theorem 1")
    ceiling = np.sqrt(((n - 1) * r + 1) / n)  # Theorem 2
    return Interval(-ceiling, ceiling)


def optimality(r_tl: ArrayLike, r_ll: ArrayLike, n_learners: ArrayLike) -> Any:
    r"""Return the mean truth-learner correlation as a share of its upper bound.

    Parameters
    ----------
    r_tl, r_ll : array_like
        The mean truth-learner and learner-learner correlations, within Theorems 1 and 2.
    n_learners : int or array of int
        The number of learners, at least 2.

    Returns
    -------
    float or array
        Between -1 and 1; 1 on the upper curve of Theorem 2.

    Warns
    -----
    UndefinedMeasureWarning
        Where the learners cancel out (``r_ll`` at its lower bound), so that both are 0: NaN.

    Notes
    -----
    It is itself a correlation, exactly:

    .. math:: \frac{r_{TL}}{\sqrt{((N - 1) r_{LL} + 1) / N}} = \operatorname{corr}(S, T),

    how well the mean of the standardised learners tracks the truth. Being near 1 does not make the
    learners good one by one: learners can collude, each poor and their mean perfect.

    Examples
    --------
    >>> float(optimality(0.3, -0.2, n_learners=3).round(3))
    0.671
    >>> float(optimality(1.0, 1.0, n_learners=7))
    1.0
    """
    check_broadcast(r_tl=r_tl, r_ll=r_ll, n_learners=n_learners)
    low, high = truth_correlation_bounds(r_ll, n_learners)
    # Near the apex the square root magnifies the rounding of r_ll, so the tolerance grows with it.
    slack = np.sqrt(high**2 + ROUNDING) - high
    r = np.clip(check_interval(r_tl, "r_tl", low - slack, high + slack, because="Theorem 2"), low, high)
    high = np.broadcast_to(high, r.shape)
    if (high == 0).any():
        warnings.warn(
            "`optimality` is undefined where the learners cancel out (r_ll = -1/(N - 1)).",
            UndefinedMeasureWarning,
            stacklevel=2,
        )
    return np.divide(r, high, out=np.full(r.shape, np.nan), where=high > 0)[()]


def is_correlation_matrix(matrix: ArrayLike) -> Any:
    r"""Return True if a matrix is a valid correlation matrix.

    Parameters
    ----------
    matrix : array_like, shape (..., n, n)
        One square matrix, or a stack of them.

    Returns
    -------
    bool or array of bool
        True where the matrix is symmetric, has a unit diagonal and no negative eigenvalue.

    Notes
    -----
    Figure 2's question. Three learners that all agree with the truth (:math:`r_{TL} = 1`) and all oppose
    each other (:math:`r_{LL} = -1`) have every entry between -1 and 1, and cannot exist. Rounding of the
    order of 1e-9 is tolerated.

    Examples
    --------
    >>> import numpy as np
    >>> impossible = [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]
    >>> possible = [[1, 0.3, 0.3, 0.3], [0.3, 1, -0.2, -0.2], [0.3, -0.2, 1, -0.2], [0.3, -0.2, -0.2, 1]]
    >>> is_correlation_matrix(impossible), is_correlation_matrix(possible)
    (False, True)
    """
    a = check_square(matrix, "matrix")
    transpose = np.swapaxes(a, -1, -2)
    slack = ROUNDING * a.shape[-1]
    apart = a - transpose
    symmetric = np.all(np.abs(apart, out=apart) <= slack, axis=(-1, -2))
    del apart  # of many learners, a matrix is large
    unit = np.all(np.abs(np.diagonal(a, axis1=-2, axis2=-1) - 1) <= slack, axis=-1)
    mean = a + transpose
    mean /= 2
    nonnegative = _has_no_negative_eigenvalue(mean, slack)
    verdict = symmetric & unit & nonnegative
    return bool(verdict) if verdict.ndim == 0 else verdict


def _has_no_negative_eigenvalue(symmetric: FloatArray, slack: float) -> Any:
    """Return True where no eigenvalue is below ``-slack``; eigenvalues are found only where Cholesky fails."""
    if symmetric.ndim == 2:
        diagonal = np.diagonal(symmetric).copy()
        np.fill_diagonal(symmetric, diagonal + slack)
        try:
            np.linalg.cholesky(symmetric)
        except np.linalg.LinAlgError:
            np.fill_diagonal(symmetric, diagonal)
        else:
            return np.True_
    return np.linalg.eigvalsh(symmetric)[..., 0] >= -slack


def nearest_correlation_matrix(matrix: ArrayLike) -> FloatArray:
    r"""Return the correlation matrix nearest to a given matrix.

    Parameters
    ----------
    matrix : array_like, shape (..., n, n)
        One square matrix, or a stack of them, with entries between -1e6 and 1e6. A matrix that is not symmetric is
        replaced by its symmetric part, which has the same nearest correlation matrix.

    Returns
    -------
    array, shape (..., n, n)
        Symmetric, unit diagonal, no negative eigenvalue, nearest in the Frobenius norm.

    Warns
    -----
    ConvergenceWarning
        If the alternating projections have not converged; the returned matrix is valid nevertheless.

    Notes
    -----
    Alternating projections on the cone of positive semidefinite matrices (with Dykstra's correction) and
    on the matrices with unit diagonal [1]_. A valid correlation matrix is returned unchanged.

    References
    ----------
    .. [1] N. J. Higham (2002). Computing the nearest correlation matrix: a problem from finance.
       IMA Journal of Numerical Analysis 22, 329-343.

    Examples
    --------
    >>> nearest_correlation_matrix([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).round(4)
    array([[1.    , 0.7607, 0.1573],
           [0.7607, 1.    , 0.7607],
           [0.1573, 0.7607, 1.    ]])
    """
    a = check_interval(check_square(matrix, "matrix"), "matrix", -_LARGEST, _LARGEST)
    if a.ndim > 2:
        flat = a.reshape(-1, *a.shape[-2:])
        return np.stack([nearest_correlation_matrix(one) for one in flat]).reshape(a.shape)
    y = (a + a.T) / 2
    if not is_correlation_matrix(y):
        y = _alternate(y)
    elif (np.diagonal(y) == 1).all() and (np.abs(y) <= 1).all():
        return y
    # Rounding may leave an eigenvalue below zero or the diagonal different from one; rescaling removes it.
    x = _nearest_semidefinite(y)
    scale = np.sqrt(np.diagonal(x))
    result: FloatArray = np.clip(x / np.outer(scale, scale), -1, 1)
    np.fill_diagonal(result, 1.0)
    return result


def _alternate(y: FloatArray) -> FloatArray:
    """Alternate projections on semidefinite matrices and on matrices with a unit diagonal; return one of the latter."""
    correction = np.zeros_like(y)
    tolerance = 1e-12 * len(y)
    for _ in range(20_000):
        shifted = y - correction
        x = _nearest_semidefinite(shifted)
        correction = x - shifted  # Dykstra
        previous, y = y, x.copy()
        np.fill_diagonal(y, 1.0)
        if np.linalg.norm(y - previous) <= tolerance * np.linalg.norm(y):
            break
    else:
        warnings.warn(
            "`nearest_correlation_matrix` stopped before it converged.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return y


def _nearest_semidefinite(symmetric: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(symmetric)
    result: FloatArray = (vectors * np.maximum(values, 0)) @ vectors.T
    return result
