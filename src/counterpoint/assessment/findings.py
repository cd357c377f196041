"""Rules that turn the numbers of an assessment into advice.

Each rule returns one `Finding` or None. The thresholds are round numbers chosen so that a healthy ensemble gets no
warning; each sentence contains its number, so that the reader can judge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from counterpoint._validation import ROUNDING
from counterpoint.assessment.effective import CLOSE
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.assessment.prediction import voter_numbers
from counterpoint.assessment.result import Assessment
from counterpoint.assessment.votes import wilson_interval
from counterpoint.outputs import FEWEST_SHARED, listed
from counterpoint.theory import error_correlation_bounds, mixed_vote_accuracy, plurality_accuracy

SEVERITIES = ("warning", "info", "good")
DUPLICATE = 0.9  # share of the samples on which either errs and both give the same wrong label
LEAST = 0.75  # of that share, with 95 % confidence
MANY = 200  # learners, to which a few more make no difference
FEW = 30  # samples, from which nothing is said about more
_NAMED = 5
_NUMBERS = 7  # of voters, if votes are missing, for which more learners are predicted


def with_findings(assessment: Assessment) -> Assessment:
    """Return the assessment with its findings, warnings first."""
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
    text = f"{_names(a, learners)} gave constant outputs{rest}."
    return Finding("constant_learner", "warning", text, {"learners": learners})


def _against(a: Assessment) -> Finding | None:
    """Find learners that correlate negatively with the truth, beyond chance."""
    # Guesses correlate with the truth by chance: Student's t, multiplied out because r = -1 would divide by zero.
    r, limit = a.correlations.r_tl_learners, _limit(a)
    beyond = (r < 0) & (r**2 * np.maximum(a.coverage.answered - 2, 0) > limit**2 * (1 - r**2))
    if not (learners := np.flatnonzero(beyond).tolist()):
        return None
    worst = float(np.nanmin(a.correlations.r_tl_learners))
    text = f"{_names(a, learners)} correlated negatively with the truth (lowest correlation {worst:.2f})."
    return Finding("against_truth", "warning", text, {"learners": learners, "lowest": worst})


def _leave_out(a: Assessment) -> Finding | None:
    """Find learners without which the vote is better, on samples that did not choose them."""
    learners, gain = list(a.changes.leave_out), a.changes.leave_out_gain
    if not learners or np.isnan(gain.value):
        return None
    numbers = {"learners": learners, "gain": gain.value, "error": gain.error}
    if gain.is_gain:
        text = f"Leave out {_names(a, learners)}: {gain} (chosen on half of the samples, judged on the other half)."
        return Finding("leave_out", "warning", text, numbers)
    text = f"Leaving out {_names(a, learners)} brings no sure gain: {gain} on samples that did not choose so."
    return Finding("leave_out", "info", text, numbers)


def _best_learner(a: Assessment) -> Finding | None:
    """Find a vote that is worse than its best learner, beyond chance."""
    if a.n_learners < 2 or a.against_best != "worse":
        return None
    best = a.best_learner
    gap = float(a.accuracies[best] - a.coverage.vote_on[best])
    text = (
        f"The vote is {_points(gap)} less accurate than {a.learners[best]} alone{_where(a)}; try weights or a "
        "selection."
    )
    return Finding("best_learner_beats_vote", "warning", text, {"learner": best, "gap": gap})


def _baseline(a: Assessment) -> Finding | None:
    """Find a vote that is not surely better than always choosing the most frequent class."""
    found = a.by_class
    if a.n_classes < 2 or found.baseline == 1 or a.vote.low > found.baseline:
        return None
    often = a.classes[int(np.argmax(found.shares))]
    text = (
        f"Always answering {often} would be right on {100 * found.baseline:.1f} %: the vote is not surely better. "
        f"Its balanced accuracy, the mean over the classes, is {100 * found.balanced_accuracy:.1f} %."
    )
    numbers = {"baseline": found.baseline, "balanced_accuracy": found.balanced_accuracy}
    severity = "warning" if a.vote.value <= found.baseline else "info"
    return Finding("majority_baseline", severity, text, numbers)


def _duplicates(a: Assessment) -> Finding | None:
    """Find learners that make the same errors, so that one of them adds nothing.

    Accurate learners agree because they are right. Only their errors can tell whether they are copies.
    """
    same, either = a.correlations.same_errors, a.correlations.any_errors
    alike = same > DUPLICATE * either
    for i, j in np.argwhere(alike).tolist():
        alike[i, j] = wilson_interval(same[i, j] / either[i, j], int(either[i, j]))[0] > LEAST
    np.fill_diagonal(alike, val=False)
    n_groups, group = connected_components(alike, directed=False)
    groups = [np.flatnonzero(group == g).tolist() for g in range(n_groups)]
    groups = sorted((g for g in groups if len(g) > 1), key=len, reverse=True)
    if not groups:
        return None
    needed = a.votes.without < -_limit(a) * a.votes.without_error  # the vote would be worse without it
    extra = sum(min(len(g) - 1, int(np.sum(~needed[g]))) for g in groups)
    text = f"{_names(a, groups[0])} make the same errors (more than {100 * DUPLICATE:.0f} % of them): "
    if extra:
        text += f"{extra} of {a.n_learners} learners could be removed with little loss."
    else:
        text += "they are one opinion with several votes."
    severity = "warning" if extra else "info"
    return Finding("near_duplicates", severity, text, {"groups": groups, "removable": extra})


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
    """Report what more learners of this kind, or independent ones, would gain."""
    # Many learners are at best independent.
    p, c = float(a.accuracies.mean()), max(a.correlations.error_correlation, 0.0)
    wrong: dict[str, Any] = {"n_classes": max(a.n_classes, 2), "agreement": a.prediction.agreement}
    if not 2 <= a.n_learners <= MANY or np.isnan(a.correlations.error_correlation):
        return None
    # Of two classes, an even number of equal learners is as good as one learner less.
    odd = a.n_learners % 2 == 1 and a.coverage.complete
    more = 2 if odd and a.n_classes == 2 else 1
    size = 2 * a.n_learners + 1
    numbers, shares = voter_numbers(a.coverage.voters, _NUMBERS)
    now, one, twice = (
        float(shares @ plurality_accuracy(p, c, n, **wrong))
        for n in (numbers, numbers + more, 2 * numbers + 1)
    )
    room = 1 - a.vote.value
    like = min(one - now, room)
    if room <= 0 or twice - now <= ROUNDING:
        return None
    with_other = shares @ [_with_independent(int(n), p, c, more, wrong) for n in numbers]
    other = min(float(with_other) - now, room)
    how = "one" if more == 1 else "two"
    text = (
        f"Adding {how} more like these would gain about {_points(like)}; {how} as accurate that "
        f"{'errs' if more == 1 else 'err'} independently, {_points(max(other, 0.0))}; twice as many like these, "
        f"{_points(min(twice - now, room))}."
    )
    gain = {"one_more": like, "independent": other, "twice": min(twice - now, room)}
    return Finding("more_learners", "info", text, {"added": more, **gain, "size": size})


def _with_independent(n: int, p: float, c: float, more: int, wrong: Mapping[str, Any]) -> float:
    """Return the predicted vote of n equal learners and some more that err independently of all."""
    matrix = np.full((n + more, n + more), 0.0)
    matrix[:n, :n] = c
    np.fill_diagonal(matrix, 1.0)
    return mixed_vote_accuracy(np.full(n + more, p), matrix, **wrong)


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
    if abs(gap) <= _noise(a.votes.hard) + 0.01:
        return None
    text = (
        f"The hard vote is {_points(abs(gap))} {'above' if gap > 0 else 'below'} what its learners' accuracies "
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


def _no_errors(a: Assessment) -> Finding | None:
    """Report that errors which do not occur say nothing about how they go together."""
    few = a.coverage.fewest_shared < min(FEWEST_SHARED, a.n_samples)
    if a.n_learners < 2 or not np.isnan(a.correlations.error_correlation) or few:
        return None
    how = "wrong" if a.accuracies.mean() > 0.5 else "right"
    text = (
        f"Fewer than two learners are ever {how} on these samples, so how much they err together, and how many votes "
        "they are worth, cannot be told."
    )
    return Finding("no_errors", "info", text, {"n_samples": a.n_samples})


def _never_true(a: Assessment) -> Finding | None:
    """Find labels that are never true: they may mean no vote."""
    labels = [str(a.classes[k]) for k in np.flatnonzero(a.by_class.shares == 0)]
    if a.outputs != "labels" or not labels or a.n_samples < FEW:
        return None
    text = (
        f"No sample has the truth {listed(labels)}, so each vote for it counts as wrong. A label that means no vote is "
        "named by `abstain`."
    )
    return Finding("never_true", "info", text, {"labels": labels})


def _sample(a: Assessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    noise = _noise(a.vote)
    n = a.coverage.n_voted
    if n >= 100 and noise <= 0.05:
        return None
    text = (
        f"With {a.counted} the vote's accuracy is known to within {_points(noise)} only; "
        "small differences mean nothing."
    )
    return Finding("small_sample", "info", text, {"n_samples": n, "half_width": noise})


def _missing(a: Assessment) -> Finding | None:
    """Report that votes are missing, and what follows from it."""
    found = a.coverage
    if found.complete:
        return None
    least, nobody = int(np.argmin(found.answered)), int(found.voters[0])
    lowest = float(found.answered[least] / a.n_samples)
    who = (
        f"{a.learners[least]} answered least, {100 * lowest:.1f} % of the samples"
        if found.answered.min() < found.answered.max()
        else "all learners answered equally many samples"
    )
    text = f"{100 * (1 - found.share):.1f} % of the votes are missing; {who}. Each learner is judged on what it answered."
    if nobody:
        text += f" {_samples(nobody)} without any vote, counted neither as right nor as wrong."
    if not found.voters[-1]:
        text += " No sample was answered by all, so measures of the whole ensemble at once are undefined."
    numbers = {"missing": 1 - found.share, "learner": least, "answered": lowest, "no_votes": nobody}
    return Finding("missing_votes", "info", text, numbers)


def _few_shared(a: Assessment) -> Finding | None:
    """Find pairs of learners that share too few samples for a correlation."""
    pairs = np.argwhere(np.triu(a.coverage.shared < min(FEWEST_SHARED, a.n_samples), k=1)).tolist()
    if a.coverage.complete or not pairs:
        return None
    n_pairs = a.n_learners * (a.n_learners - 1) // 2
    if len(pairs) == n_pairs:
        text = f"No two learners share {FEWEST_SHARED} samples: how their errors correlate cannot be told."
    else:
        text = (
            f"{len(pairs)} of {n_pairs} pairs of learners share fewer than {FEWEST_SHARED} samples, such as "
            f"{_names(a, pairs[0])}: how they correlate cannot be told, and the means leave them out."
        )
    return Finding("few_shared", "warning", text, {"pairs": pairs})


def _correlation_sample(a: Assessment) -> Finding | None:
    """Report how many samples would tell how much the learners err together."""
    needed = a.effective.samples_needed
    if a.n_samples < FEW or not needed > a.n_samples:
        return None
    known = CLOSE * float(np.sqrt(needed / a.n_samples))
    size = float(f"{needed:.2g}")  # an estimate itself
    text = (
        f"With {a.n_samples:,} samples the correlation of being correct is known to ± {known:.2f}; about {size:,.0f} "
        f"would bring it to ± {CLOSE}."
    )
    return Finding("more_samples", "info", text, {"half_width": known, "samples_needed": int(needed)})


def _healthy(a: Assessment) -> Finding | None:
    """Find a vote that is clearly better than any learner."""
    best = a.best_learner
    gain = float(a.coverage.vote_on[best] - a.accuracies[best])
    if a.n_learners < 2 or a.against_best != "better" or a.vote.low <= a.by_class.baseline < 1:
        return None
    text = f"Voting pays: {_points(gain)} over the best learner{_where(a)}, beyond chance."
    return Finding("voting_pays", "good", text, {"gain": gain})


def _training(a: Assessment) -> Finding | None:
    """Report that the samples were trained on, if the caller declared it."""
    if a.samples != "training":
        return None
    text = "The learners were trained on these samples: expect lower accuracies on new data."
    return Finding("training_samples", "info", text, {"n_samples": a.n_samples})


RULES: Sequence[Callable[[Assessment], Finding | None]] = (
    _constant,
    _against,
    _leave_out,
    _best_learner,
    _baseline,
    _duplicates,
    _collusion,
    _alike,
    _reweighting,
    _more_learners,
    _prediction,
    _least,
    _missing,
    _never_true,
    _few_shared,
    _no_errors,
    _sample,
    _correlation_sample,
    _training,
    _healthy,
)


def _where(a: Assessment) -> str:
    """Return on which samples a learner and the vote are compared."""
    return "" if a.coverage.complete else " on what that one answered"


def _samples(number: int) -> str:
    return "1 sample is" if number == 1 else f"{number} samples are"


def _noise(vote: Estimate) -> float:
    """Return the uncertainty of a vote's accuracy: half its interval."""
    return (vote.high - vote.low) / 2


def _limit(a: Assessment) -> float:
    """Return the number of standard errors that counts as evidence; it grows with the number of learners tested."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


def _chance(a: Assessment) -> float:
    """Return three standard errors of the error correlation of independent learners."""
    # The correlations of the pairs have a standard deviation of 1 / sqrt(n).
    pairs = np.triu_indices(a.n_learners, 1)
    return float(3 / np.sqrt(a.coverage.shared[pairs].sum()))


def _least_correlation(a: Assessment) -> float:
    return float(error_correlation_bounds(float(a.accuracies.mean()), a.n_learners).low)


def _names(a: Assessment, learners: Sequence[int]) -> str:
    return name_learners(a.learners, learners)


def name_learners(every: Sequence[str], learners: Sequence[int]) -> str:
    """Return the names of some learners as words of a sentence."""
    names = [every[i] for i in learners]
    if 1 < len(names) <= _NAMED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return listed(names, _NAMED)


def _points(share: float) -> str:
    points = 100 * share
    digits = 1 if abs(points) >= 0.1 or points == 0 else 2
    return f"{points:.{digits}f} point{'' if f'{points:.{digits}f}' == '1.0' else 's'}"
