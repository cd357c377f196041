"""What to do with a panel: use one learner, keep the vote, leave some out, or find out more.

Notation: d is the credit of the vote less that of the most accurate learner, on the samples that it answered.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import stratified_parts
from counterpoint.assessment.comparison import paired_difference, paired_test
from counterpoint.assessment.groups import Challenge, Estimate, Finding
from counterpoint.assessment.sample_findings import name_learners
from counterpoint.assessment.votes import best_learner
from counterpoint.outputs import Outputs, ratio, vote_credit, vote_scores

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
    parts = stratified_parts(read.truth_codes, groups, _PARTS)
    credit, right, answered = _count(read, voting, parts)
    best = _best(right.sum(axis=0), answered.sum(axis=0))
    elsewhere = [
        _best(right.sum(axis=0) - right[k], answered.sum(axis=0) - answered[k]) for k in range(_PARTS)
    ]
    rows = _less(read, credit, sorted({best, *elsewhere}))
    difference, p = paired_difference(rows[best], groups), paired_test(rows[best], groups)
    if difference.value < 0:
        d = np.select([parts == k for k in range(_PARTS)], [rows[learner] for learner in elsewhere])
        behind = not np.isnan(d).all() and np.nanmean(d) < 0
        p = min(paired_test(d, groups) * len(set(elsewhere)), 1.0) if behind else 1.0
    known = ~np.isnan(rows[best])
    n_groups = int(known.sum()) if groups is None else len(np.unique(groups[known]))
    return Challenge(best, difference, p, n_groups)


def _count(read: Outputs, voting: str, parts: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the credit of the vote, (n,), and of each part how often learners are right and answer, (P, N)."""
    assert read.truth_codes is not None
    credit = np.empty(read.n_samples)
    right, answered = np.zeros((2, _PARTS, read.n_learners))
    for block in read.blocks():
        scores = vote_scores(read, np.ones((1, read.n_learners)), block, (voting,))[voting][0]
        credit[block] = vote_credit(scores, read.truth_codes[block])
        inside = (parts[block] == np.arange(_PARTS)[:, np.newaxis]).astype(np.float32)
        right += inside @ read.right(block).T
        answered += inside @ read.present(block).astype(np.float32).T
    return credit, right, answered


def _best(right: FloatArray, answered: FloatArray) -> int:
    return best_learner(np.nan_to_num(ratio(right, answered)), np.maximum(answered, 1))


def _less(read: Outputs, credit: FloatArray, learners: list[int]) -> dict[int, FloatArray]:
    """Return the credit of the vote less that of each learner, NaN where this one has no answer."""
    rows = np.empty((len(learners), read.n_samples))
    for block in read.blocks():
        rows[:, block] = np.where(
            read.present(block)[learners], credit[block] - read.right(block)[learners], np.nan
        )
    return dict(zip(learners, rows, strict=True))


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
    share = float(a.coverage.answered[at.learner] / a.n_samples)
    some = "" if a.coverage.complete else f", on the {_percent(share)} of the samples that {who} answered"
    if n == 1:
        return Finding("unclear", "info", "There is one learner, so there is nothing to decide.", numbers)
    if a.samples == "training":
        text = "What to use cannot be told from samples that the learners were trained on."
        return Finding("unclear", "info", text, numbers)
    baseline = a.by_class.baseline
    alone = at.says == "worse" and a.votes.accuracy_low[at.learner] > (baseline if a.n_classes > 1 else 0)
    if not alone and a.n_classes > 1 and a.vote.least <= baseline < 1:
        often = a.classes[int(np.argmax(a.by_class.shares))]
        text = (
            f"Do not rely on the vote yet: it is right on {_percent(a.vote.value)}, and always answering {often} would "
            f"be right on {_percent(baseline)}."
        )
        return Finding("unclear", "warning", text, numbers)
    drop = 0 < len(a.changes.leave_out) < n - 1 and gain.is_gain and not best > vote + gain.value
    if alone and not drop:
        text = (
            f"Use {who} alone: it is right on {_percent(best)}, the vote of {every} on {_percent(vote)} "
            f"({_points(at.difference)}{some})."
        )
        return Finding("use_best", "warning", text, numbers)
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
            f"{_percent(best)} ({_points(at.difference)}{some})."
        )
        return Finding("keep_vote", "good", text, numbers)
    wide = not (at.difference.high - at.difference.low) / 2 <= WIDE
    known = int(a.coverage.answered[at.learner])
    many = "1 sample" if known == 1 else f"{known:,} samples"
    informed = a.n_classes < 2 or a.votes.accuracy_low[at.learner] > baseline or baseline == 1
    if wide or at.n_groups < FEW_GROUPS or known < FEW or not informed:
        text = (
            f"Not clear yet: the vote is right on {_percent(vote)} and {who} on {_percent(best)}, and "
            f"{many} cannot tell which is better ({_points(at.difference)}{some})."
        )
        return Finding("unclear", "info", text, numbers)
    saved = f"{_WORDS[n - 1]} of {_WORDS[n]} answers" if n < len(_WORDS) else f"{n - 1:,} of {n:,} answers"
    text = f"The vote and {who} cannot be told apart ({_points(at.difference)}{some}): {who} alone saves {saved}."
    return Finding("no_difference", "info", text, numbers)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(one: Estimate) -> str:
    if np.isnan(one.low):
        return f"difference {100 * one.value:+.1f} points, with too few groups for an interval"
    return f"difference {100 * one.value:+.1f} points, {100 * one.low:+.1f} to {100 * one.high:+.1f}"
