"""How many independent learners the vote is worth.

Notation: N learners, n samples; V accuracy of the hard vote, p mean accuracy, c mean correlation of being correct. The
three are means over samples (c through its influence function), so their joint covariance is that of the samples, or
of groups of samples that belong together. Intervals are quantiles of what this covariance makes plausible.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import EffectiveVotes, Estimate
from counterpoint.assessment.votes import Z
from counterpoint.outputs import Correctness, Outputs, mean_of_pairs, vote_credit, vote_scores
from counterpoint.theory import learner_correlation_bounds, plurality_accuracy

__all__ = ["effective_votes", "wrong_agreement"]

N_DRAWS = 2000
CLOSE = 0.05  # half the width of the interval of c that is worth labelling for
_MOST = 1001  # learners that are looked at


def effective_votes(
    read: Outputs, counts: Correctness, errors: FloatArray, groups: NDArray[np.intp] | None
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
    """
    undefined = Estimate(np.nan, np.nan, np.nan)
    c = mean_of_pairs(errors)
    if read.n_learners < 2 or np.isnan(c):
        return EffectiveVotes(undefined, undefined, undefined, np.nan)
    mean, covariance = _moments(read, counts, errors, c, groups)
    agreement = wrong_agreement(counts, len(read.classes))
    rng = np.random.default_rng(0)
    draws = np.vstack([mean, rng.multivariate_normal(mean, covariance, size=N_DRAWS, method="svd")])
    lowest = float(learner_correlation_bounds(read.n_learners).low)
    vote, p, c_ = np.clip(draws, [0, 0, lowest + 1e-6], 1).T
    kish = read.n_learners / (1 + (read.n_learners - 1) * c_)
    votes = _independent_learners(vote, p, len(read.classes), agreement)
    error = float(np.sqrt(covariance[2, 2]))
    needed = read.n_samples * (Z * error / CLOSE) ** 2
    return EffectiveVotes(_estimate(votes), _estimate(kish), _estimate(c_), float(np.ceil(needed)))


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
    both_wrong = counts.n_samples - counts.right[:, None] - counts.right + counts.both_right
    total = int(both_wrong[pairs].sum())
    found = counts.same_wrong[pairs].sum() / total if total else least
    return float(np.clip(found, least, 1.0))


def _moments(
    read: Outputs, counts: Correctness, errors: FloatArray, c: float, groups: NDArray[np.intp] | None
) -> tuple[FloatArray, FloatArray]:
    """Return V, p and c, and the covariance of their estimates."""
    p = counts.right / counts.n_samples
    spread = np.sqrt(p * (1 - p))
    varies = spread > 0
    known = np.nan_to_num(errors[np.ix_(varies, varies)])
    np.fill_diagonal(known, 0.0)
    rows, n_pairs = known.sum(axis=1), varies.sum() * (varies.sum() - 1) / 2
    n_groups = 0 if groups is None else int(groups.max()) + 1
    sums, squares, total = np.zeros((max(n_groups, 1), 3)), np.zeros((3, 3)), np.zeros(3)
    assert read.truth_codes is not None
    for block in read.blocks():
        right = read.right(block).astype(np.float64)
        z = (right[varies] - p[varies, None]) / spread[varies, None]
        pairs = (z.sum(axis=0) ** 2 - (z**2).sum(axis=0)) / 2
        influence = (pairs - rows @ z**2 / 2) / n_pairs
        scores = vote_scores(read, np.ones((1, read.n_learners)), block, ("hard",))["hard"][0]
        credit = vote_credit(scores, read.truth_codes[block])
        each = np.stack([credit, right.mean(axis=0), influence])  # (3, B)
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
    return mean + np.array([0, 0, c]), squares / n**2


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
