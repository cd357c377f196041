"""How many independent learners the vote is worth.

Notation: N learners, n samples; V accuracy of the hard vote, p mean accuracy, c mean correlation of being correct. The
three are means over samples (c through its influence function), so their joint covariance is that of the samples, or
of groups of samples that belong together. Intervals are quantiles of what this covariance makes plausible.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Coverage, EffectiveVotes, Estimate
from counterpoint.assessment.votes import Z
from counterpoint.outputs import Correctness, Outputs, mean_of_pairs, vote_credit, vote_scores
from counterpoint.theory import learner_correlation_bounds, plurality_accuracy

__all__ = ["effective_votes", "wrong_agreement"]

N_DRAWS = 2000
CLOSE = 0.05  # half the width of the interval of c that is worth labelling for
_MOST = 1001  # learners that are looked at


def effective_votes(
    read: Outputs,
    counts: Correctness,
    errors: FloatArray,
    groups: NDArray[np.intp] | None,
    coverage: Coverage,
    vote: float,
) -> EffectiveVotes:
    """Return the effective number of votes, with intervals.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    counts : Correctness
        Their counts, with pairs and same wrong labels.
    errors : ndarray of shape (n_learners, n_learners)
        The correlations of being correct.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together, as 0, 1, ...; by default each is on its own.
    coverage : Coverage
        How many learners answered.
    vote : float
        The accuracy of the hard vote.
    """
    undefined = Estimate(np.nan, np.nan, np.nan)
    c = mean_of_pairs(errors)
    if read.n_learners < 2 or np.isnan(c):
        return EffectiveVotes(undefined, undefined, undefined, np.nan)
    mean, covariance = _moments(read, groups, _influence(read, counts, errors, coverage, vote))
    mean[2] += c
    agreement = wrong_agreement(counts, len(read.classes))
    rng = np.random.default_rng(0)
    draws = np.vstack([mean, rng.multivariate_normal(mean, covariance, size=N_DRAWS, method="svd")])
    lowest = float(learner_correlation_bounds(read.n_learners).low)
    votes, p, c_ = np.clip(draws, [0, 0, lowest + 1e-6], 1).T
    n_voters = coverage.mean_voters
    kish = n_voters / (1 + (n_voters - 1) * c_)
    worth = _independent_learners(votes, p, len(read.classes), agreement)
    error = float(np.sqrt(covariance[2, 2]))
    needed = read.n_samples * (Z * error / CLOSE) ** 2
    return EffectiveVotes(_estimate(worth), _estimate(kish), _estimate(c_), float(np.ceil(needed)))


def wrong_agreement(counts: Correctness, n_classes: int) -> float:
    """Return how often two learners that both err agree; evenly spread where none do.

    Examples
    --------
    >>> from counterpoint.outputs import sufficient_statistics
    >>> read = Outputs([[1, 1, 2], [1, 2, 2]], [0, 0, 0], labels=[0, 1, 2])
    >>> counts = sufficient_statistics(read, correctness=True, same_wrong=True).correctness
    >>> round(wrong_agreement(counts, 3), 3)
    0.667
    """
    assert counts.both_right is not None
    assert counts.same_wrong is not None
    least = 1 / max(n_classes - 1, 1)
    pairs = ~np.eye(len(counts.right), dtype=bool)
    both_wrong = counts.shared - counts.shared_right - counts.shared_right.T + counts.both_right
    total = int(both_wrong[pairs].sum())
    found = counts.same_wrong[pairs].sum() / total if total else least
    return float(np.clip(found, least, 1.0))


def _moments(
    read: Outputs,
    groups: NDArray[np.intp] | None,
    each_of: Callable[[slice], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the means of some values of each sample, and the covariance of these means."""
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
    return mean, squares / n**2


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


def _independent_learners(vote: FloatArray, p: FloatArray, n_classes: int, agreement: float) -> FloatArray:
    """Return the number of independent learners of accuracy p whose vote is as accurate; NaN where none is."""
    sizes = _sizes(n_classes)
    grid = np.linspace(p.min() - 1e-3, p.max() + 1e-3, 9).clip(0, 1)
    table = np.array(
        [plurality_accuracy(one, 0.0, sizes, n_classes=n_classes, agreement=agreement) for one in grid]
    )
    place = np.clip((p - grid[0]) / max(grid[-1] - grid[0], 1e-12) * (len(grid) - 1), 0, len(grid) - 1)
    low = np.minimum(place.astype(int), len(grid) - 2)
    share = (place - low)[:, None]
    curves = (1 - share) * table[low] + share * table[low + 1]  # (draws, sizes)
    curves[0] = plurality_accuracy(float(p[0]), 0.0, sizes, n_classes=n_classes, agreement=agreement)
    curves = np.maximum.accumulate(curves, axis=1)
    found = np.full(len(vote), np.nan)
    for i, (accuracy, curve) in enumerate(zip(vote, curves, strict=True)):
        if curve[-1] > curve[0] + 1e-9:  # else more learners are no better
            found[i] = np.exp(np.interp(accuracy, curve, np.log(sizes)))
    return found


@lru_cache(maxsize=2)
def _sizes(n_classes: int) -> NDArray[np.int64]:
    """Return numbers of learners to look at; of two classes only odd ones, since even ones are no better."""
    few = np.arange(1, 16)
    many = np.unique(np.geomspace(17, _MOST if n_classes == 2 else 201, 14).astype(np.int64))
    sizes = np.concatenate([few, many])
    return np.unique(sizes | 1) if n_classes == 2 else sizes


def _estimate(values: FloatArray) -> Estimate:
    """Return the first of the values with the middle 95 % of the others."""
    if np.isnan(values[0]):
        return Estimate(np.nan, np.nan, np.nan)
    low, high = np.nanquantile(values[1:], [0.025, 0.975])
    return Estimate(float(values[0]), float(low), float(high))
