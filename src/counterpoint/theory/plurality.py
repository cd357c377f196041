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
from scipy import special, stats

from counterpoint._validation import FloatArray, check_interval, check_whole
from counterpoint.theory._jury import binomial, factor_angle, least_error_correlation, tilt

__all__ = ["plurality_accuracy"]

_ALIKE = 0.999  # an agreement above it is 1
_NODES = 401  # of the common factor
_MOST = 301  # learners; of more than two classes, larger votes are taken to be as accurate as this one


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
    n = n if n_classes == 2 else min(n, _MOST)
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
    credit = np.zeros(n + 1)
    for k in range(1, n + 1):
        w = n - k
        if k > w:
            credit[k] = 1.0
        elif n_wrong == 1:
            credit[k] = 0.5 if k == w else 0.0
        elif w <= k * n_wrong:  # else some wrong class has more
            credit[k] = _credit_of_spread(k, w, n_wrong, agreement)
    return credit


def _credit_of_spread(k: int, w: int, n_wrong: int, agreement: float) -> float:
    """Return the credit of k votes against w that are spread over the wrong classes."""
    pmf, total = _class_counts(k, w, n_wrong, agreement)
    size = 1 << max(w, n_wrong * (k - 1)).bit_length()
    series = np.fft.rfft(pmf[:k], size)  # fewer than k votes for a class

    def fewer(classes: int, votes: int) -> float:
        """Return the probability that so many classes get these votes together, each fewer than k."""
        return float(np.fft.irfft(series**classes, size)[votes]) if classes else float(votes == 0)

    credit = fewer(n_wrong, w)
    for tied in range(1, min(n_wrong, w // k) + 1):
        ways = math.comb(n_wrong, tied) * pmf[k] ** tied
        credit += ways * fewer(n_wrong - tied, w - tied * k) / (tied + 1)
    return min(max(credit / total, 0.0), 1.0)


def _class_counts(k: int, w: int, n_wrong: int, agreement: float) -> tuple[FloatArray, float]:
    """Return the distribution of the votes for one wrong class up to k, and the probability that all have w.

    Given their sum, independent negative binomials are Dirichlet-multinomial, and Poisson numbers multinomial.
    """
    counts, mean = np.arange(k + 1), w / n_wrong
    apart = agreement - 1 / n_wrong
    if apart < 1e-9:
        return stats.poisson.pmf(counts, mean), float(stats.poisson.pmf(w, w))
    shape = (1 - agreement) / apart / n_wrong
    share = shape / (shape + mean)
    return stats.nbinom.pmf(counts, shape, share), float(stats.nbinom.pmf(w, n_wrong * shape, share))
