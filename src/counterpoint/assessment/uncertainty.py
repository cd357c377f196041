"""How uncertain the accuracy of the vote, the mean accuracy and the error correlation are.

Notation: N learners, n samples, G groups of samples that belong together, or n; V accuracy of the hard vote, p mean
accuracy, c mean correlation of being correct. c is looked at as Fisher's z of an intraclass correlation,

    z = log((1 + (N - 1) c) / (1 - c)),

whose distribution is less skewed. The covariance of V, p and z is that of the jackknife, which leaves out one group
after the other. With many groups, sums over the influence of each sample give the same in less time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Coverage, Estimate
from counterpoint.outputs import Correctness, Outputs, mean_defined, mean_of_pairs, ratio, vote_credit, vote_scores

__all__ = ["Uncertainty", "uncertainty"]

MOST_GROUPS = 2000  # more are no different from many
MOST_ENTRIES = 2 * 10**6  # of the matrices of all pairs, one for each group
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
    """

    vote: float
    accuracy: float
    correlation: float
    bias: float
    covariance: FloatArray
    n_learners: int
    freedom: int

    @property
    def limit(self) -> float:
        """Half the width of a 95 % interval, in standard errors."""
        return float(student.ppf(0.975, self.freedom))

    def correlation_interval(self) -> Estimate:
        """Return c with its 95 % interval."""
        z = to_z(self.correlation, self.n_learners) - self.bias
        half = self.limit * np.sqrt(self.covariance[2, 2])
        low, high = (from_z(end, self.n_learners) for end in (z - half, z + half))
        return Estimate(self.correlation, min(low, self.correlation), max(high, self.correlation))

    def accuracy_interval(self) -> Estimate:
        """Return p with its 95 % interval."""
        half = self.limit * np.sqrt(self.covariance[1, 1])
        return Estimate(self.accuracy, max(self.accuracy - half, 0.0), min(self.accuracy + half, 1.0))

    def correlation_error(self) -> float:
        """Return the standard error of c itself."""
        return float(np.sqrt(self.covariance[2, 2]) / slope(self.correlation, self.n_learners))

    def draws(self, number: int) -> FloatArray:
        """Return plausible V and p, (number, 2), the estimates first."""
        rng = np.random.default_rng(0)
        around = rng.multivariate_normal(np.zeros(2), self.covariance[:2, :2], size=number - 1, method="svd")
        around *= np.sqrt(self.freedom / rng.chisquare(self.freedom, size=(number - 1, 1)))
        middle = np.array([self.vote, self.accuracy])
        plausible: FloatArray = np.clip(np.vstack([middle, middle + around]), 0, 1)
        return plausible


def to_z(c: FloatArray | float, n_learners: int) -> FloatArray:
    """Return Fisher's z of an intraclass correlation."""
    c = np.clip(c, _EDGE - 1 / (n_learners - 1), 1 - _EDGE)
    z: FloatArray = np.log1p((n_learners - 1) * c) - np.log1p(-c)
    return z


def from_z(z: float, n_learners: int) -> float:
    """Return the correlation that belongs to a z."""
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
    c, p = mean_of_pairs(errors), float((counts.right / counts.answered).mean())
    defined = ~np.isnan(errors) & ~np.eye(len(errors), dtype=bool)
    n_defined = int(defined.any(axis=1).sum())
    n_groups = read.n_samples if groups is None else int(groups.max()) + 1
    bias = 0.0
    if n_groups <= MOST_GROUPS and n_groups * read.n_learners**2 <= MOST_ENTRIES:
        left_out = _without_each_group(read, counts, defined, groups)
        left_out[:, 2] = to_z(left_out[:, 2], n_defined)
        left_out = left_out[~np.isnan(left_out).any(axis=1)]
        around = left_out - left_out.mean(axis=0)
        covariance = around.T @ around * (len(left_out) - 1) / max(len(left_out), 1)
        bias = float((n_groups - 1) * (left_out[:, 2].mean() - to_z(c, n_defined)))
    else:
        covariance = _covariance(read, groups, _influence(read, counts, errors, coverage, vote))
        scale = np.array([1.0, 1.0, slope(c, n_defined)])
        covariance = covariance * scale[:, None] * scale
    return Uncertainty(vote, p, c, bias, covariance, n_defined, max(n_groups - 1, 1))


def _without_each_group(
    read: Outputs, counts: Correctness, defined: NDArray[np.bool_], groups: NDArray[np.intp] | None
) -> FloatArray:
    """Return V, p and c without each of the groups, (G, 3)."""
    n_groups = read.n_samples if groups is None else int(groups.max()) + 1
    # Of every two learners: both right, the row's right where the column's answers, both answer. (3, G, N, N)
    pairs = np.zeros((3, n_groups, read.n_learners, read.n_learners))
    credits, voted = np.zeros(n_groups), np.zeros(n_groups)
    assert read.truth_codes is not None
    for block in read.blocks():
        right, here = read.right(block), read.present(block).astype(np.float32)
        scores = vote_scores(read, np.ones((1, read.n_learners)), block, ("hard",))["hard"][0]
        some = here.any(axis=0)
        members = np.arange(block.start, block.stop) if groups is None else groups[block]
        credits += np.bincount(members, vote_credit(scores, read.truth_codes[block]) * some, n_groups)
        voted += np.bincount(members, some, n_groups)
        for result, first, second in zip(pairs, (right, right, here), (right, here, here), strict=True):
            if groups is None:
                result[block] = first.T[:, :, None] * second.T[:, None, :]
            else:
                _add_products(result, first, second, members)
    vote = (credits.sum() - credits) / np.maximum(voted.sum() - voted, 1)
    return np.stack([vote, *_accuracy_and_correlation(counts, pairs, defined)], axis=1)


def _add_products(
    result: FloatArray, first: NDArray[np.float32], second: NDArray[np.float32], members: NDArray[np.intp]
) -> None:
    """Add the products of two rows over the samples of each group, (G, N, N)."""
    order = np.argsort(members, kind="stable")
    found, starts = np.unique(members[order], return_index=True)
    for group, samples in zip(found, np.split(order, starts[1:]), strict=True):
        result[group] += first[:, samples] @ second[:, samples].T


def _accuracy_and_correlation(
    counts: Correctness, pairs: FloatArray, defined: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Return p and c from the counts of all groups less those of each one, both (G,)."""
    assert counts.both_right is not None
    both = counts.both_right - pairs[0]
    right = counts.shared_right - pairs[1]
    shared = counts.shared - pairs[2]
    own = ratio(np.diagonal(right, axis1=1, axis2=2), np.diagonal(shared, axis1=1, axis2=2))
    upper = np.triu(defined)  # one of the two entries of a pair
    other, both, right, shared = right.swapaxes(1, 2)[:, upper], both[:, upper], right[:, upper], shared[:, upper]
    spread = np.sqrt(right * (shared - right)) * np.sqrt(other * (shared - other))
    return mean_defined(own, axis=1), mean_defined(ratio(both * shared - right * other, spread), axis=1)


def _covariance(
    read: Outputs, groups: NDArray[np.intp] | None, each_of: Callable[[slice], FloatArray]
) -> FloatArray:
    """Return the covariance of the means of some values of each sample."""
    n_groups = 0 if groups is None else int(groups.max()) + 1
    sums, squares, total = np.zeros((max(n_groups, 1), 3)), np.zeros((3, 3)), np.zeros(3)
    for block in read.blocks():
        each = each_of(block)  # (3, B)
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


def _shared_pairs(
    counts: Correctness, errors: FloatArray
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    r"""Return the same where votes are missing, from who is right, r, and who answers, a, both (N, B).

    With :math:`p_{ij}` the accuracy of i where j answers too, a sample adds to :math:`c_{ij}`, over the share of samples
    that both answer, :math:`z_{ij} z_{ji} - c_{ij} (z_{ij}^2 + z_{ji}^2) / 2`. As r is 0 or 1, the sum over all pairs is
    :math:`r'Ar + r'Ga + a'Ha`.
    """
    known = ~np.isnan(errors)
    np.fill_diagonal(known, val=False)
    p = np.where(known, counts.shared_right / np.maximum(counts.shared, 1), 0.5)  # the row's, where both answer
    variance, c = p * (1 - p), np.where(known, errors, 0.0)
    weight = np.where(known, counts.n_samples / np.maximum(counts.shared, 1), 0.0) / known.sum()
    a = weight / np.sqrt(variance * variance.T)
    d = weight * c / variance
    g, h = -2 * (a * p).T - d * (1 - 2 * p), a * p * p.T - d * p**2

    def influence(right: FloatArray, here: FloatArray) -> FloatArray:
        values: FloatArray = (right * (a @ right + g @ here) + here * (h @ here)).sum(axis=0)
        return values

    return influence
