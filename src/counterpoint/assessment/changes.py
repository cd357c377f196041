"""What a change of the vote would bring, judged on samples that did not choose the change.

The samples are cut into two halves, several times. Learners to leave out and weights are chosen on each half and judged
on the other, so that a gain is not the luck of a fit, and that of one cut counts little. Samples that belong together
stay in one half, and each half has its share of every class. Where votes are missing, two votes are compared on the
samples on which both have voters.

Notation: N learners, n samples in G groups, m classes.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import FEW_GROUPS, stratified_parts
from counterpoint.assessment.comparison import error_of_mean
from counterpoint.assessment.groups import Changes, Difference
from counterpoint.assessment.weights import vote_weights
from counterpoint.measures.correlation import mean_correlations
from counterpoint.outputs import Outputs, RunningVote, mean_defined, sufficient_statistics

__all__ = ["judge_changes"]

MOST_SAMPLES = 20_000  # more would hardly sharpen the answer
MOST_VOTES = 500_000  # of all learners together
MOST_LEARNERS = 60  # of larger ensembles no group is worth naming
FEWEST_PER_LEARNER = 10  # samples, to fit anything
CUTS = 5
SURE = 2.6  # standard errors that make a gain, as for `Difference.is_gain`
MOST_CUT = 5 * 10**7  # votes in all cuts; with more there are fewer cuts
PAIRED = 8  # learners that are left out in pairs too: of an odd number one alone brings little, since votes then tie

_UNDEFINED = Difference(np.nan, np.nan)


def judge_changes(read: Outputs, voting: str, groups: NDArray[np.intp] | None = None) -> Changes:
    """Return what leaving learners out and reweighting would bring; undefined where there is too little data.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    voting : {"hard", "soft", "geometric"}
        The vote.
    groups : ndarray of int, shape (n_samples,), optional
        Which samples belong together, as 0, 1, ...; with fewer than ten groups nothing is judged.

    Notes
    -----
    The gains are means over the cuts. The cuts share samples, so the mean over them is known no better than that of one
    cut, whose standard error it gets: for halves that is the correction of Nadeau and Bengio (2003), with the spread
    over the groups of samples in place of that over cuts.

    Examples
    --------
    >>> truth = np.arange(400) % 2
    >>> noisy = np.where(np.random.default_rng(0).random((3, 400)) < 0.8, truth, 1 - truth)
    >>> found = judge_changes(Outputs([1 - truth, *noisy], truth), "hard")
    >>> found.leave_out, found.leave_out_gain.is_gain
    ((0,), True)
    """
    n_learners = read.n_learners
    if n_learners < 3 or read.n_samples < 2 * FEWEST_PER_LEARNER * n_learners:
        return Changes((), _UNDEFINED, _UNDEFINED)
    read, groups = _some(read, groups)
    if groups is not None and groups.max() + 1 < FEW_GROUPS:
        return Changes((), _UNDEFINED, _UNDEFINED)
    small, voted = n_learners <= MOST_LEARNERS, read.compact if voting == "hard" else read
    dropped: list[FloatArray] = []
    weighted: list[FloatArray] = []
    for cut in _cuts(read, groups):
        without, with_weights = np.full((2, read.n_samples), np.nan)
        for chosen_at, judged_at in (cut, cut[::-1]):
            weights = vote_weights(*_correlations(read.take(chosen_at)))[0]
            chosen_on, judged_on = voted.take(chosen_at), voted.take(judged_at)
            equal = RunningVote(judged_on, voting, np.ones(n_learners)).credit()
            with_weights[judged_at] = RunningVote(judged_on, voting, weights).credit() - equal
            if small:
                kept = _kept(chosen_on, voting, None if groups is None else groups[chosen_at])
                without[judged_at] = RunningVote(judged_on, voting, kept).credit() - equal
        dropped.append(without)
        weighted.append(with_weights)
    leave_out = np.flatnonzero(_kept(voted, voting, groups) == 0).tolist() if small else []
    gain = _difference(dropped, groups) if leave_out else _UNDEFINED
    return Changes(tuple(leave_out), gain, _difference(weighted, groups))


def _some(read: Outputs, groups: NDArray[np.intp] | None) -> tuple[Outputs, NDArray[np.intp] | None]:
    """Return as many samples as are judged, drawn at random if there are more, and their groups as 0, 1, ..."""
    n_learners = read.n_learners
    most = max(min(MOST_SAMPLES, MOST_VOTES // n_learners), 2 * FEWEST_PER_LEARNER * n_learners)
    if read.n_samples <= most:
        return read, groups
    some = np.sort(np.random.default_rng(0).permutation(read.n_samples)[:most])
    return read.take(some), None if groups is None else np.unique(groups[some], return_inverse=True)[1]


def _cuts(read: Outputs, groups: NDArray[np.intp] | None) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the samples of two halves, cut in several ways."""
    assert read.truth_codes is not None
    n_votes = read.n_samples * read.n_learners
    for cut in range(int(np.clip(MOST_CUT // n_votes, 1, CUTS))):
        half = stratified_parts(read.truth_codes, groups, 2, seed=cut)
        yield np.flatnonzero(half == 0), np.flatnonzero(half == 1)


def _kept(read: Outputs, voting: str, groups: NDArray[np.intp] | None) -> FloatArray:
    """Return 1 for the learners to keep, 0 for others.

    Learners are dropped, one after the other or else two at once, while the vote gets better by more than a standard
    error.
    """
    kept = np.ones(read.n_learners)
    vote = RunningVote(read, voting, kept)
    before = vote.credit()

    def gains(choices: Sequence[tuple[int, ...]]) -> list[tuple[float, tuple[int, ...]]]:
        """Return what leaving out each choice brings, the best first."""
        return sorted(((float(mean_defined(change(some))), some) for some in choices), key=_by_gain)

    def change(some: tuple[int, ...]) -> FloatArray:
        for i in some:
            vote.add(i, -1.0)
        credit = vote.credit()
        for i in some:
            vote.add(i)
        return credit - before

    def surely(gain: float, some: tuple[int, ...]) -> bool:
        return gain > 0 and gain > error_of_mean(change(some), groups)

    while kept.sum() > 1:
        single = gains([(i,) for i in np.flatnonzero(kept).tolist()])
        best = single[0]
        if not surely(*best) and kept.sum() > 2:
            best = gains(list(combinations([i for _, (i,) in single[:PAIRED]], 2)))[0]
        if not surely(*best):
            break
        for i in best[1]:
            vote.add(i, -1.0)
            kept[i] = 0.0
        before = vote.credit()
    return kept


def _by_gain(choice: tuple[float, tuple[int, ...]]) -> float:
    return -choice[0]


def _correlations(read: Outputs) -> tuple[FloatArray, FloatArray]:
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    found = mean_correlations(columns)
    return found.r_tl, found.r_ll


def _difference(cuts: Sequence[FloatArray], groups: NDArray[np.intp] | None) -> Difference:
    """Return the mean over the cuts, with the standard error of one, widened where there are few groups."""
    errors = [error_of_mean(changes, groups, sure=SURE) for changes in cuts]
    return Difference(
        float(np.mean([mean_defined(changes) for changes in cuts])),
        float(np.sqrt(np.mean(np.square(errors)))),
    )
