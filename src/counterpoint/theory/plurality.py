r"""How accurate a plurality vote is, with any number of classes.

Notation: ``p`` accuracy, ``c`` correlation of being correct, ``n`` learners of which ``k`` are right and ``w = n - k``
wrong, M wrong classes, ``a`` the probability that two learners who both err agree.

With two classes the wrong votes are all alike, and the true class needs a majority. With more classes they are spread,
and it needs only more votes than any other. How much they are spread is the agreement ``a``: the wrong votes on a
sample are an urn of Polya with M colours, which is uniform for :math:`a = 1/M` and a single colour for :math:`a = 1`.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, special

from counterpoint._validation import FloatArray, IntArray, check_interval, check_whole
from counterpoint.theory._jury import binomial, factor_angle, least_error_correlation, tilt

__all__ = ["MOST_VOTES", "plurality_accuracy", "plurality_credit"]

_ALIKE = 0.999  # an agreement above it is 1
_MOST_HELD = 2**19  # numbers of votes, for all numbers of right ones, that are looked at at once
_NODES = 401  # of the common factor
_TERMS = 18  # of a series whose terms fall like 1 / (j + 1)!
_EVEN = 1e-12  # a spread below it is none
MOST_VOTES = 301  # learners; of more than two classes, larger votes are taken to be as accurate as this one


def plurality_accuracy(
    p: float, c: float, n_learners: ArrayLike, *, n_classes: int, agreement: float | None = None
) -> FloatArray:
    r"""Return the accuracy of the plurality vote of equal learners.

    Parameters
    ----------
    p : float
        The accuracy of each learner.
    c : float
        The correlation of being correct, within :func:`error_correlation_bounds`.
    n_learners : int or array of int
        The number of learners, at least 1. A tie is shared among the leading classes.
    n_classes : int
        The number of classes, at least 2.
    agreement : float, optional
        The probability that two learners who are both wrong give the same answer, from ``1 / (n_classes - 1)``, the
        default, to 1.

    Returns
    -------
    float or array
        The accuracy of the vote.

    See Also
    --------
    jury_accuracy : The same for two classes, vectorised over ``p`` and ``c``.

    Notes
    -----
    The number of right votes has the distribution behind :func:`jury_accuracy`. The ``w`` wrong votes are a
    Dirichlet-multinomial over :math:`M = m - 1` classes whose concentration :math:`\alpha` gives the agreement:
    :math:`a = (1 + \alpha / M) / (1 + \alpha)`. The probability that no wrong class has as many votes as the true one
    is a coefficient of a power of a truncated series, found by Fourier transform; ties are counted exactly. With more
    than two classes, more than 301 learners are taken to be as accurate as 301.

    Examples
    --------
    >>> float(plurality_accuracy(0.75, 0.2, 5, n_classes=2).round(3))  # a majority
    0.823
    >>> plurality_accuracy(0.6, 0.1, [1, 5, 15], n_classes=10).round(3)
    array([0.6  , 0.839, 0.965])
    >>> float(plurality_accuracy(0.6, 0.1, 15, n_classes=10, agreement=0.6).round(3))  # wrong votes alike
    0.803
    """
    p_, c_ = float(check_interval(p, "p", 0, 1)), float(check_interval(c, "c", -1, 1))
    n_classes = check_whole(n_classes, "n_classes", minimum=2)
    spread = check_agreement(agreement, n_classes)
    sizes = np.asarray(n_learners)
    found = [
        _accuracy(p_, c_, check_whole(n, "n_learners", minimum=1), n_classes, spread) for n in sizes.flat
    ]
    return np.array(found).reshape(sizes.shape)[()]


def check_agreement(agreement: float | None, n_classes: int) -> float:
    """Return the agreement of wrong votes, by default that of evenly spread ones."""
    least = 1 / (n_classes - 1)
    if agreement is None:
        return least
    return float(check_interval(agreement, "agreement", least, 1, because="votes for the other classes"))


def _accuracy(p: float, c: float, n: int, n_classes: int, agreement: float) -> float:
    if n == 1 or p in (0.0, 1.0):
        return p
    n = n if n_classes == 2 else min(n, MOST_VOTES)
    counts = _right_votes(p, max(c, float(least_error_correlation(np.array(p), np.array(n)))), n)
    return float(np.clip(counts @ plurality_credit(n, n_classes, agreement), 0, 1))


def _right_votes(p: float, c: float, n: int) -> FloatArray:
    """Return the distribution of the number of right votes, shape (n + 1,)."""
    votes = np.arange(n + 1)
    if c < 0:
        log_binomial = -special.betaln(votes + 1, n - votes + 1)
        moments = np.array([n * p]), np.array([n * p * (1 - p) * (1 + (n - 1) * c)])
        tilted: FloatArray = tilt(
            votes.astype(np.float64), log_binomial, *moments, start=special.logit(np.array([p]))
        )[0]
        return tilted
    if c == 0:
        return binomial(votes, n, np.array(p))
    if c >= 1:
        return np.where(votes == n, p, np.where(votes == 0, 1 - p, 0.0))
    angle = float(factor_angle(np.array([p]), np.array([c]))[0])
    common, own = math.sqrt(max(math.cos(2 * angle), 0.0)), math.sqrt(2) * math.sin(angle)
    nodes = np.linspace(-7.0, 7.0, _NODES)
    weights = np.exp(-(nodes**2) / 2)
    given = special.ndtr((special.ndtri(p) - common * nodes) / own)
    distribution: FloatArray = binomial(votes[:, None], n, given) @ (weights / weights.sum())
    return distribution


@lru_cache(maxsize=256)
def plurality_credit(n: int, n_classes: int, agreement: float) -> FloatArray:
    """Return the expected credit of the vote if 0, 1, ..., n of the learners are right, shape (n + 1,).

    Examples
    --------
    >>> plurality_credit(3, 2, 1.0)
    array([0., 0., 1., 1.])
    >>> plurality_credit(3, 3, 0.5).round(3)  # one right, two wrong: apart half of the time, then a tie of three
    array([0.   , 0.167, 1.   , 1.   ])
    """
    n_wrong = 1 if agreement > _ALIKE else n_classes - 1
    votes = np.arange(n + 1)
    credit: FloatArray = (np.sign(2 * votes - n) + 1.0) / 2
    if n_wrong > 1:
        few = (votes > 0) & (2 * votes <= n)
        credit[few] = 0.0
        few &= n - votes <= votes * n_wrong  # else some wrong class has more
        parts = np.array_split(votes[few], np.count_nonzero(few) * n // _MOST_HELD + 1)
        credit[few] = np.concatenate([_credit_of_spread(part, n, n_wrong, agreement) for part in parts])
    return credit


def _credit_of_spread(k: IntArray, n: int, n_wrong: int, agreement: float) -> FloatArray:
    r"""Return the credit of k right votes, at most half of n, where the others are spread over the wrong classes.

    Given their sum, independent negative binomials are Dirichlet-multinomial, and Poisson numbers multinomial. Let f
    be the series of the chances of fewer than k votes for a wrong class, and g the term of k votes. The credit, ties
    included, is the coefficient of :math:`x^{n - k}` in

    .. math:: \int_0^1 (f + y g)^M dy = \frac{(f + g)^{M + 1} - f^{M + 1}}{(M + 1) g}

    over the chance of n - k votes in all. It is read off a circle whose radius balances aliases and rounding.
    """
    if not len(k):
        return np.zeros(0)
    votes, wrong, rows = np.arange(n // 2 + 1), n - k, np.arange(len(k))
    spread = (agreement - 1 / n_wrong) * n_wrong / (1 - agreement)  # the inverse of the shape; 0 is Poisson
    chances = _log_chances(wrong / n_wrong, spread, n // 2)  # (k, votes)
    total = _log_chances(wrong.astype(np.float64), spread / n_wrong, n)[rows, wrong]
    length = fft.next_fast_len(3 * n, real=True)
    log_radius = np.log(np.finfo(np.float64).eps) / (length + n)
    chances = np.exp(chances + votes * log_radius)
    f = fft.rfft(np.where(votes < k[:, None], chances, 0.0), length)
    g = fft.rfft(np.where(votes == k[:, None], chances, 0.0), length)
    m = n_wrong + 1
    series = f**n_wrong
    rare = np.abs(m * g) < np.abs(f)  # the difference would cancel: a binomial series
    x, factor = g[rare] / f[rare], np.ones(1)
    for j in range(_TERMS, 0, -1):
        factor = 1 + factor * x * (m - j) / (j + 1)
    series[rare] *= factor
    f, g, often = f[~rare], g[~rare], series[~rare]
    series[~rare] = ((f + g) ** m - often * f) / (m * g)
    found = fft.irfft(series, length)[rows, wrong] * np.exp(-wrong * log_radius - total)
    credit: FloatArray = np.clip(found, 0.0, 1.0)
    return credit


def _log_chances(mean: FloatArray, spread: float, most: int) -> FloatArray:
    """Return the logarithms of the chances of 0, 1, ..., most votes, (len(mean), most + 1).

    They are negative binomial with the variance mean + spread * mean ** 2.
    """
    mean, votes = mean[:, None], np.arange(most)
    with np.errstate(divide="ignore"):
        none = -np.log1p(mean * spread) / spread if spread > _EVEN else -mean
    steps = np.log(mean * (1 + votes * spread) / (1 + mean * spread) / (votes + 1))
    logs: FloatArray = np.cumsum(np.hstack([none, steps]), axis=1)
    return logs
