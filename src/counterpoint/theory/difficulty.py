r"""How hard samples are, from how many learners are right on each of them.

Notation: of n learners that vote on a sample, k are right; :math:`\theta` is the chance that one more learner of the
same kind is right on it. The samples are a mixture over :math:`\theta`, of easy and hard ones, and a share
:math:`\pi_k` of them has k right:

.. math:: \pi_k = \binom{n}{k} \int \theta^k (1 - \theta)^{n - k} dG(\theta).

The counts determine the first n moments of G, so they tell the vote of up to n learners, and bound that of more.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import nnls

from counterpoint._validation import FloatArray, IntArray
from counterpoint.theory._jury import binomial, factor_angle
from counterpoint.theory.plurality import MOST_VOTES, plurality_credit

__all__ = ["Difficulty", "fit_difficulty", "vote_by_difficulty"]

_STEPS = 200  # of the EM algorithm
_FLOOR = 1e-3  # share of the samples that may have any difficulty to begin with
_FEWEST, _MOST = 40, 100  # values of theta
_NEAR = 9  # more of them around the accuracy
_NUMBERS = 8  # of voters that are told apart
_ROWS = 50  # counts that are told apart
_STIFF = 3000.0  # weight of an equation that must hold
_SECANTS = 5  # at most, and as many halvings
_CLOSE = 0.05  # relative error of a distance


class Difficulty(NamedTuple):
    """A mixture of easy and hard samples.

    Attributes
    ----------
    theta, weights : ndarray of shape (n_points,)
        The chances of a learner to be right, and the share of the samples with each of them.
    chances : ndarray of shape (n_counts, n_points)
        The chance of each count of right learners, given theta.
    counted : ndarray of shape (n_counts,)
        The share of the samples with that count.
    n_samples : float
        How many independent samples these are worth.

    Examples
    --------
    >>> right = np.repeat([1, 2, 4, 5], [20, 10, 30, 40])  # of five learners, on a hundred samples
    >>> found = fit_difficulty(np.full(100, 5), right, 0.6)
    >>> round(found.mean(found.theta), 2), float(right.mean() / 5)
    (0.72, 0.72)
    """

    theta: FloatArray
    weights: FloatArray
    chances: FloatArray
    counted: FloatArray
    n_samples: float

    def mean(self, values: FloatArray) -> float:
        """Return the mean of a function of theta over the samples."""
        return float(self.weights @ values)

    def interval(self, values: FloatArray, limit: float) -> tuple[float, float]:
        r"""Return the range of that mean over all mixtures that the counts do not contradict.

        Parameters
        ----------
        values : ndarray of shape (n_points,)
            The function of theta.
        limit : float
            How much larger than its least the chi-squared distance between counts and mixture may be; 3.84 for 95 %.
            Least squares without negative weights give the least distance at which the mean has a value.

        Returns
        -------
        low, high : float
        """
        scale = np.sqrt(self.n_samples)
        expected = np.maximum(self.chances @ self.weights, 0.5 / self.n_samples)
        weight, stiff = scale / np.sqrt(expected), _STIFF * scale
        size = max(float(np.ptp(values)), 1e-12)
        rows = np.vstack([self.chances * weight[:, None], np.full(len(values), stiff), stiff * values / size])
        target = np.concatenate([self.counted * weight, [stiff, 0.0]])
        best, least = nnls(rows[:-1], target[:-1], maxiter=50 * len(values))
        start, bound = float(best @ values), np.sqrt(limit)

        def distance(mean: float) -> float:
            target[-1] = stiff * mean / size
            return float(np.sqrt(max(nnls(rows, target, maxiter=50 * len(values))[1] ** 2 - least**2, 0.0)))

        step = bound * float(np.sqrt(self.mean(values**2) - self.mean(values) ** 2 + 1e-12)) / scale
        low, high = (
            _reach(distance, start, side * step, float(end), bound)
            for side, end in ((-1, values.min()), (1, values.max()))
        )
        middle = self.mean(values)
        return min(low, middle), max(high, middle)


def fit_difficulty(voters: IntArray, right: IntArray, c: float, n_samples: float | None = None) -> Difficulty:
    r"""Return the mixture of easy and hard samples behind some counts of right learners.

    Parameters
    ----------
    voters, right : ndarray of int, shape (n_samples,)
        How many learners voted on each sample, at least 1, and how many of them were right.
    c : float
        The correlation of being correct.
    n_samples : float, optional
        How many independent samples these are worth, by default their number.

    Returns
    -------
    Difficulty

    Notes
    -----
    It starts as the one-factor probit of :func:`jury_accuracy`, in which :math:`\Phi^{-1}(\theta)` is Gaussian, and
    comes nearer to the counts by 200 steps of the EM algorithm. What the counts leave open stays as in the probit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hard = rng.random(5000) < 0.3
    >>> right = rng.binomial(9, np.where(hard, 0.3, 0.9))
    >>> found = fit_difficulty(np.full(5000, 9), right, 0.36)
    >>> round(found.mean(found.theta < 0.6), 2)
    0.3
    """
    p = float(right.sum() / voters.sum())
    numbers = np.unique(voters)
    if len(numbers) > _NUMBERS:  # few numbers of voters stand for many
        numbers = np.unique(np.quantile(voters, (np.arange(_NUMBERS) + 0.5) / _NUMBERS, method="nearest"))
        nearest = numbers[np.abs(voters[:, None] - numbers).argmin(axis=1)]
        voters, right = nearest, np.rint(right * (nearest / voters)).astype(np.int64)
    n_points = int(np.clip(16 * np.sqrt(numbers.max()), _FEWEST, _MOST))
    angles = np.linspace(0, np.pi / 2, n_points)  # at even distances a count tells them apart equally well
    near = np.arcsin(np.sqrt(p)) + np.linspace(-1, 1, _NEAR) * angles[1]  # finer where all samples may be
    theta = np.sin(np.unique(np.clip(np.append(angles, near), 0, np.pi / 2))) ** 2
    chances, counted = [], []
    for n in numbers.tolist():
        of_n = right[voters == n]
        first = np.arange(0, n + 1, -(-(n + 1) * len(numbers) // _ROWS))  # counts that are taken together
        table = binomial(np.arange(n + 1)[:, None], n, theta) * len(of_n) / len(right)
        chances.append(np.add.reduceat(table, first, axis=0))
        counted.append(np.add.reduceat(np.bincount(of_n, minlength=n + 1), first) / len(right))
    table, shares = np.vstack(chances), np.concatenate(counted)
    weights = _probit_shares(theta, p, c)
    for _ in range(_STEPS):
        weights = weights * (table.T @ (shares / np.maximum(table @ weights, 1e-300)))
    return Difficulty(theta, weights, table, shares, float(len(right) if n_samples is None else n_samples))


def vote_by_difficulty(theta: FloatArray, n_learners: int, n_classes: int, agreement: float) -> FloatArray:
    """Return the accuracy of the plurality vote of independent learners, by their accuracy.

    Parameters
    ----------
    theta : ndarray
        The accuracies.
    n_learners, n_classes, agreement
        As for :func:`plurality_accuracy`.

    Returns
    -------
    ndarray, as ``theta``

    Examples
    --------
    >>> vote_by_difficulty(np.array([0.4, 0.5, 0.9]), 5, 2, 1.0).round(3)
    array([0.317, 0.5  , 0.991])
    """
    if n_classes == 2:
        half = (n_learners + 1) // 2  # one learner more than an odd number is no better
        accuracy: FloatArray = special.betainc(half, half, theta)
        return accuracy
    n = min(n_learners, MOST_VOTES)
    return plurality_credit(n, n_classes, agreement) @ binomial(np.arange(n + 1)[:, None], n, theta)


def _probit_shares(theta: FloatArray, p: float, c: float) -> FloatArray:
    """Return the shares of samples by theta under the one-factor probit, none of them zero."""
    c = float(np.clip(c, 1e-3, 1 - 1e-3))
    angle = float(factor_angle(np.array([p]), np.array([c]))[0])
    common, own = np.sqrt(np.cos(2 * angle)), np.sqrt(2) * np.sin(angle)
    between = special.ndtri((theta[1:] + theta[:-1]) / 2)
    below = special.ndtr((own * between - special.ndtri(p)) / common)
    shares: FloatArray = (1 - _FLOOR) * np.diff(below, prepend=0, append=1) + _FLOOR / len(theta)
    return shares


def _reach(distance: Callable[[float], float], start: float, step: float, end: float, bound: float) -> float:
    """Return how far from a start, where it is 0, a convex distance stays within a bound."""
    inner, near, outer = start, 0.0, start + step
    while True:
        outer = outer if abs(outer - start) < abs(end - start) else end
        if (far := distance(outer)) >= bound:
            break
        if outer == end:
            return end
        inner, near, outer = outer, far, start + 2 * (outer - start)
    for halved in (False, True) * _SECANTS:  # it may be flat at first, so that secants alone are slow
        middle = inner + (outer - inner) * (0.5 if halved else (bound - near) / (far - near))
        found = distance(middle)
        if abs(found - bound) < _CLOSE * bound:
            return middle
        if found < bound:
            inner, near = middle, found
        else:
            outer, far = middle, found
    return inner
