"""How uncertain the accuracy of the vote, the mean accuracy and the error correlation are.

Notation: N learners, n samples, G groups of samples that belong together, or n; V accuracy of the hard vote, p mean
accuracy, c mean correlation of being correct. c is looked at as Fisher's z of an intraclass correlation,

    z = log((1 + (N - 1) c) / (1 - c)),

whose distribution is less skewed. The covariance of V, p and z is that of the jackknife, which leaves out one group
after the other. With many groups, sums over the influence of each sample give the same in less time.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, ndtr, stdtrit

from counterpoint._validation import FloatArray
from counterpoint.assessment.bootstrap import FEWEST_GROUPS
from counterpoint.assessment.groups import Coverage, Estimate
from counterpoint.outputs import (
    Correctness,
    Outputs,
    mean_defined,
    mean_of_pairs,
    ratio,
    vote_credit,
    vote_scores,
)

__all__ = ["Uncertainty", "covariance_of_means", "from_z", "interval_limit", "slope", "to_z", "uncertainty"]

MOST_GROUPS = 2000  # more are no different from many
MOST_ENTRIES = 10**6  # of a table of all pairs and groups
_FEW_ERRORS = 5  # of the vote: fewer are far from normal
_FEW_JOINT = 10  # errors of two learners together, likewise
_EDGE = 1e-6  # from the limits of c, where z is infinite


class Uncertainty(NamedTuple):
    """V, p and c with the covariance of V, p and z.

    Attributes
    ----------
    vote, accuracy, correlation : float
        V, p and c.
    bias : float
        That of z, by the jackknife.
    covariance : ndarray of shape (3, 3)
        Of V, p and z.
    n_learners : int
        The learners with a c.
    freedom : int
        The degrees of freedom of the covariance, G - 1.
    joint, per_joint : float
        How often two learners err together, over all pairs (or are right together, if that is rarer), and by how much
        c rises with each time.
    """

    vote: float
    accuracy: float
    correlation: float
    bias: float
    covariance: FloatArray
    n_learners: int
    freedom: int
    joint: float
    per_joint: float

    @property
    def limit(self) -> float:
        """Half the width of a 95 % interval, in standard errors; NaN for fewer than five groups or samples."""
        return _limit(self.freedom) if self.freedom >= FEWEST_GROUPS - 1 else math.nan

    def correlation_interval(self) -> Estimate:
        """Return c with its 95 % interval."""
        z = to_z(self.correlation, self.n_learners) - self.bias
        half = self.limit * np.sqrt(self.covariance[2, 2])
        low, high = (from_z(end, self.n_learners) for end in (z - half, z + half))
        if (
            self.joint < _FEW_JOINT
        ):  # the jackknife sees no spread in what hardly happens: a rate, by Jeffreys
            fewest, most = gammaincinv(self.joint + 0.5, [0.025, 0.975]) - self.joint
            low = min(low, self.correlation + self.per_joint * min(fewest, 0.0))
            high = max(high, self.correlation + self.per_joint * most)
        low = max(low, -1 / (self.n_learners - 1))
        return Estimate(self.correlation, min(low, self.correlation), min(max(high, self.correlation), 1.0))

    def accuracy_interval(self) -> Estimate:
        """Return p with its 95 % interval."""
        half = self.limit * np.sqrt(self.covariance[1, 1])
        return Estimate(self.accuracy, max(self.accuracy - half, 0.0), min(self.accuracy + half, 1.0))

    def correlation_error(self) -> float:
        """Return the standard error of c itself."""
        error = float(np.sqrt(self.covariance[2, 2]) / slope(self.correlation, self.n_learners))
        return max(error, self.per_joint * math.sqrt(self.joint + 0.5)) if self.joint < _FEW_JOINT else error

    def draws(self, number: int) -> FloatArray:
        """Return plausible V and p, (number, 2), the estimates first."""
        rng = np.random.default_rng(0)
        around = rng.multivariate_normal(np.zeros(2), self.covariance[:2, :2], size=number - 1, method="svd")
        around *= np.sqrt(self.freedom / rng.chisquare(self.freedom, size=(number - 1, 1)))
        middle = np.array([self.vote, self.accuracy])
        plausible: FloatArray = np.clip(np.vstack([middle, middle + around]), 0, 1)
        if self.vote < 1 and self.covariance[0, 0] > 0:
            trials, normal = self.vote * (1 - self.vote) / self.covariance[0, 0], around[:, 0]
            normal = normal / np.sqrt(self.covariance[0, 0])
        else:
            trials, normal = float(self.freedom + 1), rng.normal(size=number - 1)
        wrong = (1 - self.vote) * trials
        if wrong < _FEW_ERRORS:  # far from normal: the interval of Jeffreys
            plausible[1:, 0] = 1 - betaincinv(wrong + 0.5, trials - wrong + 0.5, ndtr(-normal))
        return plausible


def interval_limit(read: Outputs, groups: NDArray[np.intp] | None) -> float:
    """Return half the width of a 95 % interval over samples or groups, in standard errors; NaN for fewer than five."""
    if groups is None:
        return _limit(max(read.n_samples - 1, 1))
    squares = (
        np.bincount(groups).astype(np.float64) ** 2
    )  # the variance of a group's sum, if its samples are alike
    freedom = max(
        squares.sum() ** 2 / (squares**2).sum() - 1, 1.0
    )  # Satterthwaite; of equal groups one less than these
    return _limit(freedom) if len(squares) >= FEWEST_GROUPS else np.nan


def _limit(freedom: float) -> float:
    return float(stdtrit(freedom, 0.975))


def to_z(c: FloatArray | float, n_learners: int) -> FloatArray:
    """Return Fisher's z of an intraclass correlation."""
    c = np.clip(c, _EDGE - 1 / (n_learners - 1), 1 - _EDGE)
    z: FloatArray = np.log1p((n_learners - 1) * c) - np.log1p(-c)
    return z


def from_z(z: float, n_learners: int) -> float:
    """Return the correlation that belongs to a z."""
    z = float(np.clip(z, -500, 500))  # further than any correlation
    return float(-np.expm1(-z) / (1 + (n_learners - 1) * np.exp(-z)))


def slope(c: float, n_learners: int) -> float:
    """Return the derivative of z by c."""
    c = float(np.clip(c, _EDGE - 1 / (n_learners - 1), 1 - _EDGE))
    return (n_learners - 1) / (1 + (n_learners - 1) * c) + 1 / (1 - c)


def uncertainty(
    read: Outputs,
    counts: Correctness,
    errors: FloatArray,
    groups: NDArray[np.intp] | None,
    coverage: Coverage,
    vote: float,
) -> Uncertainty:
    """Return V, p and c with the covariance of their estimates.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    counts : Correctness
        Their counts, with pairs.
    errors : ndarray of shape (n_learners, n_learners)
        The correlations of being correct, of which at least one is defined.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together, as 0, 1, ...; by default each is on its own.
    coverage : Coverage
        How many learners answered.
    vote : float
        The accuracy of the hard vote.
    """
    read = read.compact
    c, p = mean_of_pairs(errors), float((counts.right / counts.answered).mean())
    defined = ~np.isnan(errors) & ~np.eye(len(errors), dtype=bool)
    n_defined = int(defined.any(axis=1).sum())
    n_groups = read.n_samples if groups is None else int(groups.max()) + 1
    bias = 0.0
    if n_groups <= MOST_GROUPS and n_groups * read.n_learners**2 <= 2 * MOST_ENTRIES:
        left_out = _without_each_group(read, defined, groups)
        left_out[:, 2] = to_z(left_out[:, 2], n_defined)
        left_out = left_out[~np.isnan(left_out).any(axis=1)]
        middle = left_out.mean(axis=0) if len(left_out) else np.full(3, np.nan)
        around = left_out - middle
        covariance = around.T @ around * (len(left_out) - 1) / max(len(left_out), 1)
        bias = float((n_groups - 1) * (middle[2] - to_z(c, n_defined)))
    else:
        covariance = covariance_of_means(read, groups, _influence(read, counts, errors, coverage, vote), 3)
        scale = np.array([1.0, 1.0, slope(c, n_defined)])
        covariance = covariance * scale[:, None] * scale
    freedom = max(n_groups - 1, 1)
    return Uncertainty(vote, p, c, bias, covariance, n_defined, freedom, *_joint(counts, defined))


def _joint(counts: Correctness, defined: NDArray[np.bool_]) -> tuple[float, float]:
    """Return how often pairs of learners err together, or are right together, and what one more adds to c."""
    assert counts.both_right is not None
    n = len(defined)
    right_together = wrong_together = inverse = 0.0
    number, width = 0, max(2**22 // n, 1)
    for start in range(0, n, width):  # some learners at a time: a few matrices of many learners are large
        rows = slice(start, min(start + width, n))
        pairs = defined[rows] & (np.arange(n) > np.arange(n)[rows, None])
        shared, both_right, right, other = (
            counted[pairs].astype(np.float64)
            for counted in (
                counts.shared[rows],
                counts.both_right[rows],
                counts.shared_right[rows],
                counts.shared_right.T[rows],
            )
        )
        spread = np.sqrt(right * (shared - right) * other * (shared - other)) / shared
        right_together += both_right.sum()
        wrong_together += (shared - right - other + both_right).sum()
        inverse, number = inverse + (1 / spread).sum(), number + len(shared)
    return float(min(right_together, wrong_together)), float(inverse / number / number)


def _without_each_group(
    read: Outputs, defined: NDArray[np.bool_], groups: NDArray[np.intp] | None
) -> FloatArray:
    """Return V, p and c without each of the groups, (G, 3)."""
    n_groups = read.n_samples if groups is None else int(groups.max()) + 1
    first, second = np.nonzero(np.triu(defined))
    # Of the two learners of a pair: both right, one right where the other answers, the reverse, both answer.
    pairs = np.zeros((4, len(first), n_groups))
    own, votes = np.zeros((2, read.n_learners, n_groups)), np.zeros((2, 1, n_groups))
    width = max(MOST_ENTRIES // len(first), 1)
    assert read.truth_codes is not None
    for start in range(0, read.n_samples, width):
        block = slice(start, min(start + width, read.n_samples))
        members = np.arange(block.start, block.stop) if groups is None else groups[block]
        right, here = read.right(block), read.present(block).astype(np.float32)
        scores = np.stack([read.voted(k, block).sum(axis=0) for k in range(len(read.symbols))])
        some = read.voters(block)[None] > 0
        credit = vote_credit(scores, read.truth_codes[block]) * some
        one, other = (right[first], here[first]), (right[second], here[second])
        for result, values in (
            (votes[0], credit),
            (votes[1], some),
            (own[0], right),
            (own[1], here),
            (pairs[0], one[0] * other[0]),
            (pairs[1], one[0] * other[1]),
            (pairs[2], other[0] * one[1]),
            (pairs[3], one[1] * other[1]),
        ):
            _add_by_group(result, values, members, alone=groups is None)
    total = votes.sum(axis=2, keepdims=True) - votes
    return np.stack(
        [
            total[0, 0] / np.maximum(total[1, 0], 1),
            mean_defined(ratio(*(own.sum(axis=2, keepdims=True) - own)), axis=0),
            _mean_correlation(*(pairs.sum(axis=2, keepdims=True) - pairs)),
        ],
        axis=1,
    )


def _add_by_group(
    result: FloatArray, values: NDArray[Any], members: NDArray[np.intp], *, alone: bool
) -> None:
    """Add values of samples, (rows, B), to those of their groups, (rows, G)."""
    if alone:
        result[:, members] = values
        return
    order = np.argsort(members, kind="stable")
    found, starts = np.unique(members[order], return_index=True)
    result[:, found] += np.add.reduceat(values[:, order], starts, axis=1)


def _mean_correlation(both: FloatArray, one: FloatArray, other: FloatArray, shared: FloatArray) -> FloatArray:
    """Return the mean correlation of being right from the counts of pairs without each group, (pairs, G)."""
    spread = np.sqrt(one * (shared - one) * other * (shared - other))
    return mean_defined(ratio(both * shared - one * other, spread), axis=0)


def covariance_of_means(
    read: Outputs, groups: NDArray[np.intp] | None, each_of: Callable[[slice], FloatArray], number: int
) -> FloatArray:
    """Return the covariance of the means of some values of each sample, (number, number)."""
    n_groups = 0 if groups is None else int(groups.max()) + 1
    sums, squares, total = np.zeros((max(n_groups, 1), number)), np.zeros((number, number)), np.zeros(number)
    for block in read.blocks():
        each = each_of(block)  # (number, B)
        total += each.sum(axis=1)
        if groups is None:
            squares += each @ each.T
        else:
            np.add.at(sums, groups[block], each.T)
    n = read.n_samples
    mean = total / n
    if groups is not None:
        sizes = np.bincount(groups, minlength=n_groups)[:, None]
        around = sums - sizes * mean
        squares = around.T @ around * n_groups / max(n_groups - 1, 1)
    else:
        squares = (squares - n * np.outer(mean, mean)) * n / max(n - 1, 1)
    covariance: FloatArray = squares / n**2
    return covariance


def _influence(
    read: Outputs, counts: Correctness, errors: FloatArray, coverage: Coverage, vote: float
) -> Callable[[slice], FloatArray]:
    """Return what gives V, p and the influence on c of each sample of a block, (3, B)."""
    pairs = _complete_pairs(counts, errors) if read.missing is None else _shared_pairs(counts, errors)
    assert read.truth_codes is not None
    codes, p = read.truth_codes, counts.right / counts.answered
    more = counts.n_samples / counts.answered[:, None]  # each answer stands for so many samples

    def each_of(block: slice) -> FloatArray:
        right, here = read.right(block).astype(np.float64), np.ones((1, 1))
        scores = vote_scores(read, np.ones((1, read.n_learners)), block, ("hard",))["hard"][0]
        credit = vote_credit(scores, codes[block])
        if read.missing is None:
            return np.stack([credit, right.mean(axis=0), pairs(right, here)])
        here = read.present(block).astype(np.float64)
        credit = vote + (credit - vote) * here.any(axis=0) * counts.n_samples / coverage.n_voted
        accuracy = p.mean() + ((right - p[:, None] * here) * more).mean(axis=0)
        return np.stack([credit, accuracy, pairs(right, here)])

    return each_of


def _complete_pairs(
    counts: Correctness, errors: FloatArray
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return what gives the influence of samples on c, from who is right, (N, B)."""
    p = counts.right / counts.n_samples
    spread = np.sqrt(p * (1 - p))
    varies = spread > 0
    known = np.nan_to_num(errors[np.ix_(varies, varies)])
    np.fill_diagonal(known, 0.0)
    rows, n_pairs = known.sum(axis=1), varies.sum() * (varies.sum() - 1) / 2

    def influence(right: FloatArray, _: FloatArray) -> FloatArray:
        z = (right[varies] - p[varies, None]) / spread[varies, None]
        pairs = (z.sum(axis=0) ** 2 - (z**2).sum(axis=0)) / 2
        values: FloatArray = (pairs - rows @ z**2 / 2) / n_pairs
        return values

    return influence


def _shared_pairs(counts: Correctness, errors: FloatArray) -> Callable[[FloatArray, FloatArray], FloatArray]:
    r"""Return the same where votes are missing, from who is right, r, and who answers, a, both (N, B).

    With :math:`p_{ij}` the accuracy of i where j answers too, a sample adds to :math:`c_{ij}`, over the share of
    samples that both answer, :math:`z_{ij} z_{ji} - c_{ij} (z_{ij}^2 + z_{ji}^2) / 2`. As r is 0 or 1, the sum over
    all pairs is :math:`r'Ar + r'Ga + a'Ha`.
    """
    known = ~np.isnan(errors)
    np.fill_diagonal(known, val=False)
    p = np.where(
        known, counts.shared_right / np.maximum(counts.shared, 1), 0.5
    )  # the row's, where both answer
    variance, c = p * (1 - p), np.where(known, errors, 0.0)
    weight = np.where(known, counts.n_samples / np.maximum(counts.shared, 1), 0.0) / known.sum()
    a = weight / np.sqrt(variance * variance.T)
    d = weight * c / variance
    g, h = -2 * (a * p).T - d * (1 - 2 * p), a * p * p.T - d * p**2

    def influence(right: FloatArray, here: FloatArray) -> FloatArray:
        values: FloatArray = (right * (a @ right + g @ here) + here * (h @ here)).sum(axis=0)
        return values

    return influence
