"""Methods compared over many data sets: ranks, Friedman's test, Nemenyi's critical difference, Holm's correction.

Notation: k methods, n data sets; after Demšar (2006), "Statistical comparisons of classifiers over multiple data sets".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from counterpoint._validation import FloatArray, check_count, check_interval, check_real
from counterpoint.assessment import holm

__all__ = [
    "Friedman",
    "Interval",
    "cliques",
    "critical_difference",
    "friedman",
    "holm",
    "mean_interval",
    "mean_ranks",
    "nemenyi_p_values",
    "rank_intervals",
    "signed_rank_p_value",
]

_RESAMPLES = 2000


class Friedman(NamedTuple):
    """The statistic of Friedman's test and its p-value."""

    statistic: float
    p_value: float


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


def mean_ranks(errors: ArrayLike) -> FloatArray:
    """Return the mean rank of each method over the data sets; 1 is best, ties share their ranks.

    Parameters
    ----------
    errors : array-like of shape (n_sets, n_methods)
        Lower is better.

    Returns
    -------
    ndarray of shape (n_methods,)

    Examples
    --------
    >>> mean_ranks([[0.1, 0.2, 0.3], [0.2, 0.2, 0.1]])
    array([1.75, 2.25, 2.  ])
    """
    ranks: FloatArray = stats.rankdata(_matrix(errors).round(12), axis=1).mean(axis=0)
    return ranks


def rank_intervals(errors: ArrayLike, level: float = 0.05, *, random_state: int = 0) -> FloatArray:
    """Return bootstrap intervals of the mean ranks, over the data sets.

    Parameters
    ----------
    errors : array-like of shape (n_sets, n_methods)
        Lower is better.
    level : float, default=0.05
        One less the coverage.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    ndarray of shape (2, n_methods)
        Quantiles of the mean ranks over 2,000 resamples of the data sets.

    Examples
    --------
    >>> rank_intervals([[0.1, 0.2, 0.3], [0.2, 0.3, 0.1], [0.1, 0.3, 0.2]])
    array([[1., 2., 1.],
           [2., 3., 3.]])
    """
    ranks = stats.rankdata(_matrix(errors).round(12), axis=1)
    alpha = float(check_interval(level, "level", 0, 1, closed=False))
    drawn = np.random.default_rng(random_state).integers(len(ranks), size=(_RESAMPLES, len(ranks)))
    intervals: FloatArray = np.quantile(ranks[drawn].mean(axis=1), [alpha / 2, 1 - alpha / 2], axis=0)
    return intervals


def mean_interval(values: ArrayLike, level: float = 0.05, *, share: float = 0.0) -> Interval:
    """Return the interval of a mean by Student's t.

    Parameters
    ----------
    values : array-like of shape (n,)
        Independent values, such as differences on data sets, or scores of folds that share training rows.
    level : float, default=0.05
        One less the coverage.
    share : float, default=0.0
        Number of test rows over that of training rows in a fold, which corrects the variance of the mean for shared
        training rows (Nadeau and Bengio 2003); 0 for independent values.

    Returns
    -------
    Interval
        Without any width if all values are equal.

    Examples
    --------
    >>> low, high = mean_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    x = check_real(values, "values")
    alpha = float(check_interval(level, "level", 0, 1, closed=False))
    if x.ndim != 1 or len(x) < 2:
        raise ValueError(f"`values` must hold at least two numbers; got shape {x.shape}.")
    half = stats.t.ppf(1 - alpha / 2, len(x) - 1) * np.sqrt((1 / len(x) + share) * x.var(ddof=1))
    return Interval(float(x.mean() - half), float(x.mean() + half))


def signed_rank_p_value(differences: ArrayLike) -> float:
    """Return the p-value of Wilcoxon's signed-rank test that paired differences are symmetric around zero.

    Parameters
    ----------
    differences : array-like of shape (n_sets,)
        One for each data set; zeros count half for each sign, as Demšar advises.

    Returns
    -------
    float
        From ``scipy.stats.wilcoxon``; 1 if all differences are zero.

    Examples
    --------
    >>> signed_rank_p_value([0.1, 0.2, 0.3, 0.4, 0.5])
    0.0625
    """
    d = check_real(differences, "differences").round(12)
    return float(stats.wilcoxon(d, zero_method="zsplit").pvalue) if d.any() else 1.0


def friedman(errors: ArrayLike) -> Friedman:
    """Return Friedman's test of the hypothesis that all methods are equal.

    Parameters
    ----------
    errors : array-like of shape (n_sets, n_methods)
        Errors of at least three methods.

    Returns
    -------
    Friedman
        From ``scipy.stats.friedmanchisquare``; p is 1 if all methods tie on every data set.

    Examples
    --------
    >>> friedman([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.1, 0.3, 0.5]]).statistic
    6.0
    """
    matrix = _matrix(errors).round(12)
    if matrix.shape[1] < 3:
        raise ValueError(f"`errors` must be those of at least 3 methods; got {matrix.shape[1]}.")
    if (matrix == matrix[:, :1]).all():
        return Friedman(0.0, 1.0)
    found = stats.friedmanchisquare(*matrix.T)
    return Friedman(float(found.statistic), float(found.pvalue))


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    r"""Return the critical difference of two mean ranks by Nemenyi's test.

    Parameters
    ----------
    n_methods, n_sets : int
        Numbers of methods and of data sets.
    level : float, default=0.05
        Probability of finding any difference if there is none.

    Returns
    -------
    float

    Notes
    -----
    :math:`q \sqrt{k (k + 1) / (6 n)}`, with q the quantile of the studentized range over :math:`\sqrt 2`.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)  # Demšar's own example
    1.25
    """
    k = int(check_count(n_methods, "n_methods", minimum=2))
    n = int(check_count(n_sets, "n_sets", minimum=1))
    alpha = float(check_interval(level, "level", 0, 1, closed=False))
    q = stats.studentized_range.ppf(1 - alpha, k, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n)))


def nemenyi_p_values(ranks: ArrayLike, n_sets: int) -> FloatArray:
    """Return the p-value of each pair of methods by Nemenyi's test.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Mean ranks over the data sets.
    n_sets : int
        Number of data sets.

    Returns
    -------
    ndarray of shape (n_methods, n_methods)

    Examples
    --------
    >>> nemenyi_p_values([1.0, 2.0, 3.0], n_sets=10).round(3)[0]
    array([1.   , 0.065, 0.   ])
    """
    r = check_real(ranks, "ranks")
    n = int(check_count(n_sets, "n_sets", minimum=1))
    k = len(r)
    apart = np.abs(r[:, None] - r) / np.sqrt(k * (k + 1) / (6 * n))
    p: FloatArray = np.clip(stats.studentized_range.sf(np.sqrt(2) * apart, k, np.inf), 0.0, 1.0)
    return p


def cliques(ranks: ArrayLike, difference: float) -> list[tuple[int, int]]:
    """Return the maximal groups of methods whose mean ranks do not differ significantly.

    Parameters
    ----------
    ranks : array-like of shape (n_methods,)
        Mean ranks, in any order.
    difference : float
        The critical difference.

    Returns
    -------
    list of (int, int)
        First and last position of each group, counted from the best rank; groups have at least two methods.

    Examples
    --------
    >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    r = np.sort(check_real(ranks, "ranks"))
    runs: list[tuple[int, int]] = []
    for first in range(len(r)):
        last = int(np.flatnonzero(r - r[first] < difference)[-1])
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def _matrix(errors: ArrayLike) -> FloatArray:
    matrix = check_real(errors, "errors")
    if matrix.ndim != 2:
        raise ValueError(f"`errors` must have axes (n_sets, n_methods); got shape {matrix.shape}.")
    return matrix
