"""What a change of the vote would bring, judged on samples that did not choose the change.

The samples are split into two halves. Learners to leave out and weights are chosen on each half and judged on the
other, so that a gain is not the luck of a fit. Where votes are missing, two votes are compared on the samples on which
both have voters.
"""

from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Changes, Difference
from counterpoint.assessment.weights import vote_weights
from counterpoint.measures.correlation import shared_correlations
from counterpoint.outputs import Outputs, RunningVote, mean_defined, sufficient_statistics

__all__ = ["judge_changes"]

MOST_SAMPLES = 20_000  # more would hardly sharpen the answer
MOST_LEARNERS = 60  # of larger ensembles no group is worth naming
FEWEST_PER_LEARNER = 10  # samples, to fit anything


def judge_changes(read: Outputs, voting: str) -> Changes:
    """Return what leaving learners out and reweighting would bring; undefined where there is too little data.

    Examples
    --------
    >>> truth = np.arange(400) % 2
    >>> noisy = np.where(np.random.default_rng(0).random((3, 400)) < 0.8, truth, 1 - truth)
    >>> found = judge_changes(Outputs([1 - truth, *noisy], truth), "hard")
    >>> found.leave_out, found.leave_out_gain.is_gain
    ((0,), True)
    """
    undefined = Difference(np.nan, np.nan)
    if read.n_learners < 3 or read.n_samples < 2 * FEWEST_PER_LEARNER * read.n_learners:
        return Changes((), undefined, undefined)
    step = max(-(-read.n_samples // MOST_SAMPLES), 1)
    halves = read.take(slice(0, None, 2 * step)), read.take(slice(step, None, 2 * step))
    dropped: list[FloatArray] = []
    weighted: list[FloatArray] = []
    small = read.n_learners <= MOST_LEARNERS
    for chosen_on, judged_on in (halves, halves[::-1]):
        equal = RunningVote(judged_on, voting, np.ones(read.n_learners)).credit()
        weights = vote_weights(*_correlations(chosen_on))[0]
        weighted.append(RunningVote(judged_on, voting, weights).credit() - equal)
        if small:
            dropped.append(RunningVote(judged_on, voting, _kept(chosen_on, voting)).credit() - equal)
    leave_out: list[int] = []
    if small:
        leave_out = np.flatnonzero(_kept(read.take(slice(0, None, step)), voting) == 0).tolist()
    return Changes(
        tuple(leave_out),
        _difference(dropped) if len(leave_out) else undefined,
        _difference(weighted),
    )


def _kept(read: Outputs, voting: str) -> FloatArray:
    """Return 1 for the learners to keep, 0 for others.

    Learners are dropped one after the other while the vote gets better by more than a standard error.
    """
    kept = np.ones(read.n_learners)
    vote = RunningVote(read, voting, kept)
    before = vote.credit()
    while kept.sum() > 1:
        without = {}
        for i in np.flatnonzero(kept).tolist():
            vote.add(i, -1.0)
            without[i] = vote.credit() - before
            vote.add(i)
        worst = max(without, key=lambda i: float(mean_defined(without[i])))
        gain = _difference([without[worst]])
        if not gain.value > gain.error:
            break
        before, kept[worst] = before + without[worst], 0.0
        vote.add(worst, -1.0)
    return kept


def _correlations(read: Outputs) -> tuple[FloatArray, FloatArray]:
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    by_class, pairs_by_class = shared_correlations(columns)
    return mean_defined(by_class, axis=1), mean_defined(pairs_by_class, axis=0)


def _difference(parts: list[Any]) -> Difference:
    changes = np.concatenate(parts)
    changes = changes[~np.isnan(changes)]  # samples that one of the two votes leaves out
    if len(changes) < 2:
        return Difference(np.nan, np.nan)
    return Difference(float(changes.mean()), float(changes.std(ddof=1) / np.sqrt(len(changes))))
