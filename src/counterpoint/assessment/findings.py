"""Rules that turn the numbers of an assessment into advice.

Each rule returns one `Finding` or None. The thresholds are round numbers chosen so that a healthy ensemble gets no
warning; each sentence contains its number, so that the reader can judge.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.assessment.bootstrap import FEWEST_GROUPS
from counterpoint.assessment.decision import decide
from counterpoint.assessment.families import connected
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.assessment.result import Assessment
from counterpoint.assessment.sample_findings import SAMPLE_RULES, name_learners, noise, points
from counterpoint.assessment.votes import wilson_interval
from counterpoint.theory import error_correlation_bounds

SEVERITIES = ("warning", "info", "good")
_LITTLE = 0.02  # of the accuracy of the vote
DUPLICATE = 0.9  # share of the samples on which either errs and both give the same wrong label
LEAST = 0.75  # of that share, with 95 % confidence
_NOTHING = 5e-4  # of an accuracy: not shown


def with_findings(assessment: Assessment) -> Assessment:
    """Return the assessment with its decision and its findings, warnings first."""
    assessment = replace(assessment, decision=decide(assessment))
    found = [finding for rule in RULES if (finding := rule(assessment)) is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, findings=tuple(found))


def _constant(a: Assessment) -> Finding | None:
    """Find learners whose outputs are constant."""
    constant = np.isnan(np.diagonal(a.correlations.matrix))
    learners = np.flatnonzero(constant).tolist()
    if a.n_classes < 2 or not learners or (a.accuracies[constant] == 1).any():
        return None  # a constant that is always right: the truth is constant
    rest = " and can be removed" if len(learners) < a.n_learners else ", which say nothing about the truth"
    text = f"{name_learners(a.learners, learners)} gave constant outputs{rest}."
    return Finding("constant_learner", "warning", text, {"learners": learners})


def _against(a: Assessment) -> Finding | None:
    """Find learners that correlate negatively with the truth, beyond chance."""
    # Guesses correlate with the truth by chance: Student's t, multiplied out because r = -1 would divide by zero.
    r, limit = a.correlations.r_tl_learners, _limit(a)
    beyond = (r < 0) & (r**2 * np.maximum(a.coverage.answered - 2, 0) > limit**2 * (1 - r**2))
    if not (learners := np.flatnonzero(beyond).tolist()):
        return None
    worst = float(np.nanmin(a.correlations.r_tl_learners))
    who = name_learners(a.learners, learners)
    text = f"{who} correlated negatively with the truth (lowest correlation {worst:.2f})."
    return Finding("against_truth", "warning", text, {"learners": learners, "lowest": worst})


def _leave_out(a: Assessment) -> Finding | None:
    """Find learners without which the vote is better, on samples that did not choose them."""
    learners, gain = list(a.changes.leave_out), a.changes.leave_out_gain
    if not learners or np.isnan(gain.value):
        return None
    numbers = {"learners": learners, "gain": gain.value, "error": gain.error}
    who = name_learners(a.learners, learners)
    if gain.is_gain:
        text = f"Leave out {who}: {gain} (chosen on half of the samples, judged on the other half)."
        return Finding("leave_out", "warning", text, numbers)
    text = f"Leaving out {who} brings no sure gain: {gain} on samples that did not choose so."
    return Finding("leave_out", "info", text, numbers)


def _baseline(a: Assessment) -> Finding | None:
    """Find a vote that is not surely better than always choosing the most frequent class."""
    found = a.by_class
    if a.n_classes < 2 or found.baseline == 1 or a.vote.least > found.baseline:
        return None
    often = a.classes[int(np.argmax(found.shares))]
    text = (
        f"Always answering {often} would be right on {100 * found.baseline:.1f} %: the vote is not surely better. "
        f"Its balanced accuracy, the mean over the classes, is {100 * found.balanced_accuracy:.1f} %."
    )
    numbers = {"baseline": found.baseline, "balanced_accuracy": found.balanced_accuracy}
    severity = "warning" if a.vote.value <= found.baseline else "info"
    return Finding("majority_baseline", severity, text, numbers)


def _families(a: Assessment) -> Finding | None:
    """Find learners whose errors coincide: copies, of which one adds nothing, and other families.

    Accurate learners agree because they are right. Only their errors can tell whether they are copies.
    """
    copies = _copies(a)
    linked = copies.copy()
    for family in a.correlations.families:
        linked[family[0], list(family)] = True
    groups, same = ([list(group) for group in connected(pairs)] for pairs in (linked, copies))
    if not groups:
        return None
    numbers: dict[str, Any] = {"families": groups, "copies": same}
    if not same:
        first, others = groups[0], np.setdiff1d(np.arange(a.n_learners), groups[0])
        inside, across = _same_errors(a, first, first), _same_errors(a, first, others)
        beside = "" if np.isnan(across) else f", with the others on {100 * across:.0f} %"
        n_more = len(groups) - 1
        more = (
            ""
            if not n_more
            else " Another family does so too."
            if n_more == 1
            else f" {n_more} others do so too."
        )
        text = (
            f"{name_learners(a.learners, first)} make more errors together than the rest of the panel has in common "
            f"(where one of two errs, both give the same wrong label on {100 * inside:.0f} %{beside}): they count for "
            f"fewer votes.{more}"
        )
        return Finding("families", "info", text, numbers)
    needed = ~(a.votes.without - 2 * a.votes.without_error > -_LITTLE)  # the vote may be worse without it
    extra = sum(min(len(g) - 1, int(np.sum(~needed[g]))) for g in same)
    text = f"{name_learners(a.learners, same[0])} make the same errors (more than {100 * DUPLICATE:.0f} % of them): "
    if extra:
        text += f"{extra} of {a.n_learners} learners could be removed with little loss."
    else:
        text += "they are one opinion with several votes."
    severity = "warning" if extra else "info"
    return Finding("families", severity, text, numbers | {"removable": extra})


def _copies(a: Assessment) -> NDArray[np.bool_]:
    """Return which pairs give the same wrong label nearly always."""
    same, either = a.correlations.same_errors, a.correlations.any_errors
    alike = same > DUPLICATE * either
    for i, j in np.argwhere(alike).tolist():
        alike[i, j] = wilson_interval(same[i, j] / either[i, j], int(either[i, j]))[0] > LEAST
    np.fill_diagonal(alike, val=False)
    return alike


def _same_errors(a: Assessment, first: Sequence[int], second: Sequence[int] | NDArray[np.intp]) -> float:
    """Return how often two learners give the same wrong label where one of them errs."""
    pairs = [(i, j) for i in first for j in second if i != j]
    same, either = (
        sum(int(m[i, j]) for i, j in pairs) for m in (a.correlations.same_errors, a.correlations.any_errors)
    )
    return same / either if either else np.nan


def _collusion(a: Assessment) -> Finding | None:
    """Find an ensemble that is near the bound only because poor learners compensate for each other."""
    if not (a.optimality > 0.9 and a.r_tl < 0.6 and a.vote.value - a.accuracies.mean() > 0.1):
        return None
    if not a.correlations.error_correlation < min(0.5 * _least_correlation(a), -_chance(a)):
        return None  # many independent learners come near the bound too, but none of them is indispensable
    text = (
        f"The ensemble is near the bound (optimality {a.optimality:.2f}) only because its learners collude: "
        f"a single learner is right on {100 * a.accuracies.mean():.0f} %, the vote on {100 * a.vote.value:.0f} %. "
        "It depends on every one of them."
    )
    numbers = {"optimality": a.optimality, "mean_accuracy": float(a.accuracies.mean()), "vote": a.vote.value}
    return Finding("collusion", "warning", text, numbers)


def _reweighting(a: Assessment) -> Finding | None:
    """Report what the best weights bring on samples to which they were not fitted."""
    gain = a.changes.reweighting
    if np.isnan(gain.value) or a.vote.value == 1:
        return None
    numbers = {"gain": gain.value, "error": gain.error}
    if gain.is_gain:
        text = f"Reweight the learners: {gain} (fitted to half of the samples, judged on the other half)."
        return Finding("reweighting", "warning", text, numbers)
    text = f"Reweighting brings no sure gain: {gain} on samples to which the weights were not fitted."
    return Finding("reweighting", "info", text, numbers)


def _more_learners(a: Assessment) -> Finding | None:
    """Report what more learners like these, and others that make their own mistakes, would gain."""
    found = a.prediction
    like, other, twice = found.more, found.different, found.twice
    if np.isnan(like.value) or np.isnan(other.value) or a.vote.value == 1:
        return None
    if a.coverage.n_groups is not None and a.coverage.n_groups < FEWEST_GROUPS:
        return None
    how, verb = ("One more learner", "makes its") if found.added == 1 else ("Two more learners", "make their")
    if max(-like.low, like.high) < _NOTHING:
        told = f"{how} like these would change nothing."
    elif like.value < 0 < like.high:  # a loss that is not sure, where pairwise correlations promise a gain
        told = (
            f"Whether {how[0].lower()}{how[1:]} like these would help on average cannot be told "
            f"({_range(like)} points)."
        )
    else:
        what = "add" if like.value > 0 else "cost"
        shown = like if like.value > 0 else Estimate(-like.value, -like.high, -like.low)
        told = f"{how} like these would {what} about {points(shown.value)} on average ({_range(shown)})."
    pair = "One that" if found.added == 1 else "Two that"
    what, gain = ("add", other.value) if other.value >= 0 else ("cost", -other.value)
    text = f"{told} {pair} {verb} own mistakes would {what} {points(gain)}."
    text += " This is of the hard vote." if a.voting != "hard" else ""
    numbers = {
        f"{name}{end}": getattr(one, kind)
        for name, one in (("one_more", like), ("independent", other), ("twice", twice))
        for end, kind in (("", "value"), ("_low", "low"), ("_high", "high"))
    }
    return Finding(
        "more_learners", "info", text, {"added": found.added, **numbers, "size": 2 * a.n_learners + 1}
    )


def _range(one: Estimate) -> str:
    """Return an interval in points."""
    low, high = (f"{round(100 * end, 1) + 0.0:.1f}" for end in (one.low, one.high))
    return f"{low} to {high}"


def _alike(a: Assessment) -> Finding | None:
    """Find errors that coincide so much that voting gains little."""
    if not a.correlations.error_correlation > 0.6:
        return None
    text = (
        f"The learners err together (correlation of being correct {a.correlations.error_correlation:.2f}), so the vote "
        "gains little: more diverse learners would help more than more learners of this kind."
    )
    return Finding("common_errors", "warning", text, {"error_correlation": a.correlations.error_correlation})


def _prediction(a: Assessment) -> Finding | None:
    """Find a vote that differs from its prediction."""
    if np.isnan(a.prediction.mixed) or a.n_learners < 3:
        return None
    gap = a.votes.hard.value - a.prediction.mixed
    if not abs(gap) > noise(a.votes.hard) + 0.01:
        return None
    text = (
        f"The hard vote is {points(abs(gap))} {'above' if gap > 0 else 'below'} what its learners' accuracies "
        "and error correlations predict: the errors coincide in a way that pairwise correlations do not show."
    )
    return Finding("prediction_off", "info", text, {"gap": gap})


def _least(a: Assessment) -> Finding | None:
    """Find negatively correlated errors."""
    if a.n_learners < 2 or np.isnan(a.correlations.error_correlation):
        return None
    c, low = a.correlations.error_correlation, _least_correlation(a)
    if not c < min(0.2 * low, -_chance(a)):
        return None
    text = (
        f"The errors are negatively correlated (correlation of being correct {c:.3f}; the lowest possible for equal "
        f"learners is {low:.3f}): a much larger ensemble cannot keep it so low."
    )
    return Finding("opposed_errors", "info", text, {"error_correlation": c, "least": low})


RULES: Sequence[Callable[[Assessment], Finding | None]] = (
    _constant,
    _against,
    _leave_out,
    _baseline,
    _families,
    _collusion,
    _alike,
    _reweighting,
    _more_learners,
    _prediction,
    _least,
    *SAMPLE_RULES,
)


def _limit(a: Assessment) -> float:
    """Return the number of standard errors that counts as evidence; it grows with the number of learners tested."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


def _chance(a: Assessment) -> float:
    """Return three standard errors of the error correlation of independent learners."""
    # The correlations of the pairs have a standard deviation of 1 / sqrt(n).
    shared = a.coverage.shared
    return float(3 / np.sqrt((shared.sum() - np.trace(shared)) / 2))


def _least_correlation(a: Assessment) -> float:
    return float(error_correlation_bounds(float(a.accuracies.mean()), a.n_learners).low)
