"""The vote that theory predicts from accuracies, error correlations and wrong answers.

Notation: N learners; p mean accuracy; c mean correlation of being correct. Where votes are missing, the prediction is
for those who answer: the mean over the samples.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Coverage, Estimate, SubsetVotes, VotePrediction
from counterpoint.assessment.growth import MANY, Growth, voter_numbers
from counterpoint.assessment.weights import complete_correlations
from counterpoint.outputs import Outputs, mean_of_pairs
from counterpoint.theory import (
    VoteCurve,
    error_correlation_bounds,
    mixed_vote_accuracy,
    nearest_correlation_matrix,
    plurality_accuracy,
)

__all__ = ["predict_vote"]

UNKNOWN = Estimate(np.nan, np.nan, np.nan)
MOST_SETS = 12  # sets of voters whose vote is predicted with their own accuracies


def predict_vote(
    read: Outputs,
    accuracies: FloatArray,
    errors: FloatArray,
    agreement: float,
    coverage: Coverage,
    subsets: SubsetVotes,
    groups: NDArray[np.intp] | None,
) -> VotePrediction:
    """Return the predicted accuracy of the hard vote, also for other numbers of learners.

    Parameters
    ----------
    read : Outputs
        The outputs.
    accuracies : ndarray of shape (n_learners,)
        Accuracies of the learners.
    errors : ndarray of shape (n_learners, n_learners)
        The correlations of being correct.
    agreement : float
        How often two learners that both err agree.
    coverage : Coverage
        How many learners answered.
    subsets : SubsetVotes
        The measured votes of some of the learners.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together.
    """
    c = mean_of_pairs(errors)
    wrong: dict[str, Any] = {"n_classes": max(len(read.classes), 2), "agreement": agreement}
    p = float(accuracies.mean())
    numbers, shares = voter_numbers(coverage.voters)
    equal = float(shares @ [_vote_of_equals(p, c, int(size), wrong) for size in numbers])
    if read.missing is None:
        mixed = mixed_vote_accuracy(accuracies, complete_correlations(errors), **wrong)
    else:
        mixed = equal + _own_less_equal(read, accuracies, errors, wrong)
    return VotePrediction(
        equal=equal,
        mixed=mixed,
        independent=float(shares @ plurality_accuracy(p, 0.0, numbers, **wrong)),
        agreement=agreement,
        **_growth(read, c, agreement, subsets, groups),
    )


def _growth(
    read: Outputs, c: float, agreement: float, subsets: SubsetVotes, groups: NDArray[np.intp] | None
) -> dict[str, Any]:
    """Return what more learners would bring, by field name; undefined without a correlation."""
    # Of two classes, an even number of equal learners is as good as one learner less.
    added = 2 if read.n_learners % 2 == 1 and read.missing is None and len(read.classes) <= 2 else 1
    if np.isnan(c):
        curve = VoteCurve(subsets.sizes, subsets.mean, *np.full((2, len(subsets.sizes)), np.nan))
        return {"sizing": curve, "added": added, "more": UNKNOWN, "twice": UNKNOWN, "different": UNKNOWN}
    growth = Growth(read, c, agreement, subsets, groups)
    few = read.n_learners <= MANY
    return {
        "sizing": growth.curve(),
        "added": added,
        "more": growth.gain(read.n_learners + added) if few else UNKNOWN,
        "twice": growth.gain(2 * read.n_learners + 1),
        "different": growth.different(added) if few else UNKNOWN,
    }


def _own_less_equal(
    read: Outputs, accuracies: FloatArray, errors: FloatArray, wrong: dict[str, Any]
) -> float:
    """Return what the learners' own accuracies change in the predicted vote, over the sets of learners that answer."""
    c, p = mean_of_pairs(errors), float(accuracies.mean())
    if np.isnan(c):
        return np.nan
    matrix = np.where(np.isnan(errors), c, errors)  # two learners that share too little
    varies = (accuracies > 0) & (accuracies < 1)
    matrix = np.where(np.outer(varies, varies), matrix, 0.0)
    np.fill_diagonal(matrix, 1.0)
    matrix = nearest_correlation_matrix(matrix)
    total, count = 0.0, 0
    for voters, number in _voter_sets(read):
        own = _vote_of_set(accuracies[voters], matrix[np.ix_(voters, voters)], wrong)
        total += number * (own - _vote_of_equals(p, c, len(voters), wrong))
        count += number
    return total / count


def _voter_sets(read: Outputs) -> list[tuple[NDArray[np.intp], int]]:
    """Return the sets of learners that answer together, with the number of their samples; many are sampled."""
    assert read.missing is not None
    voted = np.flatnonzero(read.voters(slice(None)))
    rng = np.random.default_rng(0)
    if len(voted) > 100 * MOST_SETS:
        voted = rng.choice(voted, 100 * MOST_SETS, replace=False)
    sets, counts = np.unique(~read.missing[:, voted].T, axis=0, return_counts=True)
    if len(sets) > MOST_SETS:
        drawn = rng.choice(len(sets), MOST_SETS, p=counts / counts.sum())
        drawn, counts = np.unique(drawn, return_counts=True)
        sets = sets[drawn]
    return [(np.flatnonzero(one), int(number)) for one, number in zip(sets, counts, strict=True)]


def _vote_of_set(accuracies: FloatArray, matrix: FloatArray, wrong: dict[str, Any]) -> float:
    """Return the predicted vote of some learners.

    Correlations over different samples may not fit together; they are lowered until they do.
    """
    if len(accuracies) == 1:
        return float(accuracies[0])
    one = np.eye(len(accuracies))
    for share in (1.0, 0.95, 0.9, 0.8, 0.6, 0.3):
        try:
            return mixed_vote_accuracy(accuracies, share * matrix + (1 - share) * one, **wrong)
        except ValueError:
            continue
    return mixed_vote_accuracy(accuracies, one, **wrong)


def _vote_of_equals(p: float, c: float, n: int, wrong: dict[str, Any]) -> float:
    if n == 1:
        return p
    if np.isnan(c):
        return np.nan
    # Unequal learners may be less correlated than equal ones can be.
    return float(plurality_accuracy(p, max(c, float(error_correlation_bounds(p, n).low)), n, **wrong))
