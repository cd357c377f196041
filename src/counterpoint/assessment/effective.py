"""How many independent learners the vote is worth.

Notation: N learners, n samples; V accuracy of the hard vote, p mean accuracy, c mean correlation of being correct.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Coverage, EffectiveVotes, Estimate
from counterpoint.assessment.uncertainty import Uncertainty, uncertainty
from counterpoint.assessment.votes import Z
from counterpoint.outputs import Correctness, Outputs, mean_of_pairs
from counterpoint.theory import learner_correlation_bounds, plurality_accuracy

__all__ = ["effective_from", "effective_votes", "wrong_agreement"]

N_DRAWS = 2001  # of V and p, the estimates first
CLOSE = 0.05  # half the width of the interval of c that is worth labelling for
_MOST = 1001  # learners that are looked at
_BEYOND = 1e9  # a number of learners that stands for infinity
_STEPS = 50  # of accuracies from 0 to 1, for plausible ones between which to interpolate


_UNKNOWN = Estimate(np.nan, np.nan, np.nan)
NO_VOTES = EffectiveVotes(_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, np.nan)


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
    if read.n_learners < 2 or np.isnan(mean_of_pairs(errors)):
        return NO_VOTES
    return effective_from(uncertainty(read, counts, errors, groups, coverage, vote), read, counts, coverage)


def effective_from(
    found: Uncertainty, read: Outputs, counts: Correctness, coverage: Coverage
) -> EffectiveVotes:
    """Return the effective number of votes from what is known of the vote, the accuracy and the correlation."""
    agreement = wrong_agreement(counts, len(read.classes))
    plausible = found.draws(N_DRAWS)
    worth = _independent_learners(plausible[:, 0], plausible[:, 1], len(read.classes), agreement)
    c = found.correlation_interval()
    needed = read.n_samples * (Z * found.correlation_error() / CLOSE) ** 2
    return EffectiveVotes(
        votes=_estimate(worth),
        kish=_kish(c, coverage.mean_voters, float(learner_correlation_bounds(read.n_learners).low)),
        error_correlation=c,
        mean_accuracy=found.accuracy_interval(),
        samples_needed=float(np.ceil(needed)),
    )


def _kish(c: Estimate, n_voters: float, lowest: float) -> Estimate:
    """Return Kish's number, which falls as c rises."""
    value, most, least = (n_voters / (1 + (n_voters - 1) * max(one, lowest + 1e-6)) for one in c)
    return Estimate(value, least, most)


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


def _independent_learners(vote: FloatArray, p: FloatArray, n_classes: int, agreement: float) -> FloatArray:
    """Return the number of independent learners of accuracy p whose vote is as accurate.

    It is infinite where so many are not enough, and NaN where more are no better.
    """
    sizes, place = _sizes(n_classes), p * _STEPS
    first = min(int(place.min()), _STEPS - 1)
    grid = range(first, min(int(place.max()), _STEPS - 1) + 2)
    table = np.array([_vote_curve(step / _STEPS, n_classes, agreement) for step in grid])
    low = np.minimum(place.astype(int), _STEPS - 1)
    share = (place - low)[:, None]
    curves = (1 - share) * table[low - first] + share * table[low - first + 1]  # (draws, sizes)
    curves[0] = _vote_curve(float(p[0]), n_classes, agreement)
    curves = np.maximum.accumulate(curves, axis=1)
    # Linear interpolation in each row, as np.interp does in one
    rows, logs = np.arange(len(vote)), np.log(sizes)
    step = np.clip((curves <= vote[:, None]).sum(axis=1) - 1, 0, len(sizes) - 2)
    start, end = curves[rows, step], curves[rows, step + 1]
    share = np.clip((vote - start) / np.where(end > start, end - start, 1.0), 0.0, 1.0)
    found: FloatArray = np.exp(logs[step] + share * (logs[step + 1] - logs[step]))
    found[vote >= curves[:, -1]] = np.inf  # a vote that is never wrong
    return np.where(curves[:, -1] > curves[:, 0] + 1e-9, found, np.nan)  # else more learners are no better


@lru_cache(maxsize=200)
def _vote_curve(p: float, n_classes: int, agreement: float) -> FloatArray:
    """Return the accuracy of the vote of independent learners, by their number."""
    sizes = _sizes(n_classes)
    if n_classes == 2:
        majority: FloatArray = bdtrc(sizes // 2, sizes, p)  # more than half of an odd number
        return majority
    return plurality_accuracy(p, 0.0, sizes, n_classes=n_classes, agreement=agreement)


@lru_cache(maxsize=2)
def _sizes(n_classes: int) -> NDArray[np.int64]:
    """Return numbers of learners to look at; of two classes only odd ones, since even ones are no better."""
    few = np.arange(1, 16)
    many = np.unique(np.geomspace(17, _MOST if n_classes == 2 else 201, 14).astype(np.int64))
    sizes = np.concatenate([few, many])
    return np.unique(sizes | 1) if n_classes == 2 else sizes


def _estimate(values: FloatArray) -> Estimate:
    """Return the first of the values with the middle 95 % of the others.

    Of a vote that is never wrong only the lower end is known; the others are NaN.
    """
    if np.isnan(values[0]):
        return Estimate(np.nan, np.nan, np.nan)
    low, high = np.nanquantile(np.minimum(values[1:], _BEYOND), [0.025, 0.975])
    if np.isinf(values[0]):
        return Estimate(np.nan, float(low), np.nan)
    return Estimate(float(values[0]), float(low), float(high) if high <= _MOST else np.nan)
