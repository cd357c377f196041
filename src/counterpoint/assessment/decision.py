"""What to do with a panel: use one learner, keep the vote, leave some out, or find out more.

Notation: d is the credit of the vote less that of the most accurate learner, on the samples that it answered.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.comparison import paired_difference, paired_test
from counterpoint.assessment.groups import Challenge, Estimate, Finding
from counterpoint.assessment.sample_findings import name_learners
from counterpoint.assessment.votes import best_learner
from counterpoint.outputs import Outputs, vote_credit, vote_scores

__all__ = ["UNDECIDED", "challenge", "decide"]

WIDE = 0.05  # of half an interval, beyond which a difference is not known
FEW = 100  # samples, from which nothing is decided without evidence
FEW_GROUPS = 10  # likewise
_PARTS = 5
UNDECIDED = Finding("unclear", "info", "", {})  # until the numbers are there
_WORDS = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


def challenge(read: Outputs, voting: str, groups: NDArray[np.intp] | None) -> Challenge:
    """Compare the vote with the most accurate learner.

    The most accurate of many is partly the luckiest. So a learner is ahead of the vote only if the learners that are
    the most accurate without a fifth of the samples are ahead on that fifth; if they are not always the same one, the
    p-value is multiplied by their number.
    """
    read = read.compact if voting == "hard" else read
    assert read.truth_codes is not None
    right, here = np.zeros((2, read.n_learners, read.n_samples), dtype=bool)
    credit = np.empty(read.n_samples)
    for block in read.blocks():
        scores = vote_scores(read, np.ones((1, read.n_learners)), block, (voting,))[voting][0]
        credit[block] = vote_credit(scores, read.truth_codes[block])
        right[:, block], here[:, block] = read.right(block), read.present(block)
    answered = here.sum(axis=1)
    learner = best_learner(right.sum(axis=1) / answered, answered)
    d = _less(credit, right, here, learner)
    difference, p = paired_difference(d, groups), paired_test(d, groups)
    if difference.value < 0:
        p = _judged_elsewhere(credit, right, here, groups)
    known = ~np.isnan(d)
    n_groups = int(known.sum()) if groups is None else len(np.unique(groups[known]))
    return Challenge(learner, difference, p, n_groups)


def _judged_elsewhere(
    credit: FloatArray, right: NDArray[np.bool_], here: NDArray[np.bool_], groups: NDArray[np.intp] | None
) -> float:
    """Return the p-value where learners are chosen on other samples; 1 if they are not behind the vote there."""
    units = np.arange(len(credit)) if groups is None else groups
    parts = np.random.default_rng(0).permutation(int(units.max()) + 1)[units] % _PARTS
    d, chosen = np.full(len(credit), np.nan), set()
    for part in range(_PARTS):
        rest, judged = parts != part, parts == part
        answered = here[:, rest].sum(axis=1)
        accuracies = np.divide(
            right[:, rest].sum(axis=1), answered, out=np.zeros(len(here)), where=answered > 0
        )
        learner = best_learner(accuracies, np.maximum(answered, 1))
        d[judged] = _less(credit, right, here, learner)[judged]
        chosen.add(learner)
    if np.isnan(d).all() or np.nanmean(d) >= 0:
        return 1.0
    return min(paired_test(d, groups) * len(chosen), 1.0)


def _less(credit: FloatArray, right: NDArray[np.bool_], here: NDArray[np.bool_], learner: int) -> FloatArray:
    """Return the credit of the vote less that of a learner, NaN where this one has no answer."""
    return np.where(here[learner], credit - right[learner], np.nan)


def decide(a: Any) -> Finding:
    """Return what to do, from an assessment.

    Parameters
    ----------
    a : Assessment
        With everything but the decision.

    Returns
    -------
    Finding
        Its code is ``"use_best"``, ``"keep_vote"``, ``"no_difference"``, ``"leave_out"`` or ``"unclear"``.
    """
    at, gain = a.votes.against_best, a.changes.leave_out_gain
    best, vote = float(a.accuracies[at.learner]), float(a.coverage.vote_on[at.learner])
    numbers: dict[str, Any] = {
        "learner": at.learner,
        "right": best,
        "vote": vote,
        "difference": list(at.difference),
        "p_value": at.p_value,
    }
    who, n = a.learners[at.learner], a.n_learners
    every = "both" if n == 2 else f"all {n:,}"
    some = "" if a.coverage.complete else " on what it answered"
    if n == 1:
        return Finding("unclear", "info", "There is one learner, so there is nothing to decide.", numbers)
    if a.samples == "training":
        text = "What to use cannot be told from samples that the learners were trained on."
        return Finding("unclear", "info", text, numbers)
    drop = 0 < len(a.changes.leave_out) < n - 1 and gain.is_gain and not best > vote + gain.value
    if at.says == "worse" and not drop:
        text = (
            f"Use {who} alone: it is right on {_percent(best)}, the vote of {every} on {_percent(vote)}{some} "
            f"({_points(at.difference)})."
        )
        return Finding("use_best", "warning", text, numbers)
    if n > 1 and a.n_classes > 1 and a.vote.least <= a.by_class.baseline and a.by_class.baseline < 1:
        often = a.classes[int(np.argmax(a.by_class.shares))]
        text = (
            f"Do not rely on the vote yet: it is right on {_percent(a.vote.value)}, and always answering {often} would "
            f"be right on {_percent(a.by_class.baseline)}."
        )
        return Finding("unclear", "warning", text, numbers)
    if drop:
        out = list(a.changes.leave_out)
        rest = n - len(out)
        text = (
            f"Leave out {name_learners(a.learners, out)}: the vote of the other {rest:,} is better by "
            f"{100 * gain.value:.1f} ± {100 * gain.error:.1f} points, on samples that did not choose them."
        )
        return Finding("leave_out", "warning", text, numbers | {"leave_out": out, "gain": gain.value})
    if at.says == "better":
        text = (
            f"Keep the vote of {every}: it is right on {_percent(vote)}, the best learner, {who}, on "
            f"{_percent(best)}{some} ({_points(at.difference)})."
        )
        return Finding("keep_vote", "good", text, numbers)
    wide = not (at.difference.high - at.difference.low) / 2 <= WIDE
    if wide or at.n_groups < FEW_GROUPS or a.coverage.n_voted < FEW:
        text = (
            f"Not clear yet: the vote is right on {_percent(vote)} and {who} on {_percent(best)}{some}, and "
            f"{a.counted} do not tell which is better ({_points(at.difference)})."
        )
        return Finding("unclear", "info", text, numbers)
    saved = f"{_WORDS[n - 1]} of {_WORDS[n]} answers" if n < len(_WORDS) else f"{n - 1:,} of {n:,} answers"
    text = f"The vote and {who} cannot be told apart ({_points(at.difference)}): {who} alone saves {saved}."
    return Finding("no_difference", "info", text, numbers)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(one: Estimate) -> str:
    if np.isnan(one.low):
        return f"difference {100 * one.value:+.1f} points, with too few groups for an interval"
    return f"difference {100 * one.value:+.1f} points, {100 * one.low:+.1f} to {100 * one.high:+.1f}"
