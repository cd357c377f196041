"""Rules that turn the numbers of an assessment into advice.

Each rule returns one `Finding` or None. The thresholds are round numbers chosen so that a healthy ensemble gets no
warning; each sentence contains its number, so that the reader can judge.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from counterpoint._validation import ROUNDING
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.assessment.result import Assessment
from counterpoint.outputs import listed
from counterpoint.theory import error_correlation_bounds, jury_accuracy

SEVERITIES = ("warning", "info", "good")
DUPLICATE = 0.98
_NAMED = 5


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
    beyond = (r < 0) & (r**2 * max(a.n_samples - 2, 0) > limit**2 * (1 - r**2))
    if not (learners := np.flatnonzero(beyond).tolist()):
        return None
    worst = float(np.nanmin(a.correlations.r_tl_learners))
    text = f"{_names(a, learners)} correlated negatively with the truth (lowest correlation {worst:.2f})."
    return Finding("against_truth", "warning", text, {"learners": learners, "lowest": worst})


def _hurts(a: Assessment) -> Finding | None:
    """Find learners without which the vote is better, beyond chance."""
    if a.n_learners < 3:
        return None
    sure = a.votes.without > _limit(a) * a.votes.without_error
    learners = np.flatnonzero(sure & (a.votes.without > 0)).tolist()
    if not learners:
        return None
    learners.sort(key=lambda i: -a.votes.without[i])
    gain = float(a.votes.without[learners[0]])
    text = (
        f"{_names(a, learners)} hurt the vote, which gains {_points(gain)} without {a.learners[learners[0]]}."
    )
    if len(learners) == 1:
        text = f"{a.learners[learners[0]]} hurts the vote, which gains {_points(gain)} without it."
    return Finding("learner_hurts", "warning", text, {"learners": learners, "gain": gain})


def _best_learner(a: Assessment) -> Finding | None:
    """Find a vote that is not better than its best learner."""
    best = int(np.argmax(a.accuracies))
    gap = float(a.accuracies[best]) - a.vote.value
    if a.n_learners < 2 or gap <= _noise(a.vote, a.n_samples):
        return None
    text = (
        f"The vote is {_points(gap)} less accurate than {a.learners[best]} alone; try weights or a selection."
    )
    return Finding("best_learner_beats_vote", "warning", text, {"learner": best, "gap": gap})


def _duplicates(a: Assessment) -> Finding | None:
    """Find learners that are nearly copies of each other."""
    alike = np.nan_to_num(a.correlations.matrix) > DUPLICATE
    # Correlations cover only the classes that both vote for; accuracies cover the others.
    alike &= np.abs(np.subtract.outer(a.accuracies, a.accuracies)) <= 1 - DUPLICATE
    np.fill_diagonal(alike, val=False)
    n_groups, group = connected_components(alike, directed=False)
    groups = [np.flatnonzero(group == g).tolist() for g in range(n_groups)]
    groups = sorted((g for g in groups if len(g) > 1), key=len, reverse=True)
    if not groups:
        return None
    extra = sum(len(g) - 1 for g in groups)
    text = (
        f"{_names(a, groups[0])} are near duplicates (correlation above {DUPLICATE}); {extra} of {a.n_learners} "
        "learners could be removed with little loss."
    )
    return Finding("near_duplicates", "warning", text, {"groups": groups, "removable": extra})


def _collusion(a: Assessment) -> Finding | None:
    """Find an ensemble that is near the bound only because poor learners compensate for each other."""
    if not (a.optimality > 0.9 and a.r_tl < 0.6 and a.vote.value - a.accuracies.mean() > 0.1):
        return None
    if not a.correlations.error_correlation < 0.5 * _least_correlation(a):
        return None  # many independent learners come near the bound too, but none of them is indispensable
    text = (
        f"The ensemble is near the bound (optimality {a.optimality:.2f}) only because its learners collude: "
        f"a single learner is right on {100 * a.accuracies.mean():.0f} %, the vote on {100 * a.vote.value:.0f} %. "
        "It depends on every one of them."
    )
    numbers = {"optimality": a.optimality, "mean_accuracy": float(a.accuracies.mean()), "vote": a.vote.value}
    return Finding("collusion", "warning", text, numbers)


def _reweighting(a: Assessment) -> Finding | None:
    """Report what the best weights could gain."""
    if a.n_learners < 2 or np.isnan(a.votes.weighted.value):
        return None
    gain = a.votes.weighted.value - a.vote.value
    noise = _noise(a.vote, a.n_samples)
    if a.n_samples < 10 * a.n_learners:
        return None  # too few samples to fit the weights at all
    if gain <= noise:
        text = (
            f"Reweighting would gain at most {_points(max(gain, 0.0))}, within the noise of {_points(noise)}."
        )
        return Finding("reweighting", "info", text, {"gain": gain, "noise": noise})
    text = f"Reweighting could gain at most {_points(gain)} (the weights were fitted to these samples)."
    return Finding("reweighting", "warning", text, {"gain": gain, "noise": noise})


def _more_learners(a: Assessment) -> Finding | None:
    """Report what twice as many learners of this kind would gain."""
    # Many learners are at best independent.
    p, c = float(a.accuracies.mean()), max(a.correlations.error_correlation, 0.0)
    if a.n_learners < 2 or np.isnan(a.correlations.error_correlation) or p <= 0.5:
        return None
    size = 2 * a.n_learners + 1
    now, twice, limit = jury_accuracy(p, c, np.array([a.n_learners, size, max(10_001, 10 * size)]))
    room = 1 - a.vote.value
    if room <= 0 or a.vote.low >= limit:  # clearly above the limit of the model
        return None
    # The gains of the model; a vote that is better than the model has less left to gain.
    gain, most = min(float(twice - now), room), min(float(limit - now), room)
    if most <= ROUNDING:
        return None
    text = f"Twice as many learners like these would gain about {_points(gain)}, any number at most {_points(most)}."
    return Finding("more_learners", "info", text, {"gain": gain, "most": most, "size": size})


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
    if a.n_classes != 2 or np.isnan(a.prediction.mixed) or a.n_learners < 3:
        return None
    gap = a.votes.hard.value - a.prediction.mixed
    if abs(gap) <= _noise(a.votes.hard, a.n_samples) + 0.01:
        return None
    text = (
        f"The hard vote is {_points(abs(gap))} {'above' if gap > 0 else 'below'} what its learners' accuracies "
        "and error correlations predict: the errors coincide in a way that pairwise correlations do not show."
    )
    return Finding("prediction_off", "info", text, {"gap": gap})


def _least(a: Assessment) -> Finding | None:
    """Find negatively correlated errors."""
    if a.n_learners < 2:
        return None
    c, low = a.correlations.error_correlation, _least_correlation(a)
    if not c < 0.2 * low:  # slightly below zero is chance
        return None
    text = (
        f"The errors are negatively correlated (correlation of being correct {c:.3f}; the lowest possible for equal "
        f"learners is {low:.3f}): a much larger ensemble cannot keep it so low."
    )
    return Finding("opposed_errors", "info", text, {"error_correlation": c, "least": low})


def _sample(a: Assessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    noise = _noise(a.vote, a.n_samples)
    if a.n_samples >= 100 and noise <= 0.05:
        return None
    text = (
        f"With {a.n_samples} samples the vote's accuracy is known to within {_points(noise)} only; "
        "small differences mean nothing."
    )
    return Finding("small_sample", "info", text, {"n_samples": a.n_samples, "half_width": noise})


def _healthy(a: Assessment) -> Finding | None:
    """Find a vote that is clearly better than any learner."""
    gain = a.vote.value - float(a.accuracies.max())
    if a.n_learners < 2 or gain <= _noise(a.vote, a.n_samples):
        return None
    text = f"Voting pays: {_points(gain)} over the best learner, beyond the noise."
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
    _hurts,
    _best_learner,
    _duplicates,
    _collusion,
    _alike,
    _reweighting,
    _more_learners,
    _prediction,
    _least,
    _sample,
    _training,
    _healthy,
)


def _noise(vote: Estimate, n_samples: int) -> float:
    """Return the uncertainty of a vote's accuracy: half its interval, but at least the rule of three.

    A vote without an error has a bootstrap interval of width zero. Its error rate is still only known to be below about
    3 / n_samples, with 95 % confidence.
    """
    return max((vote.high - vote.low) / 2, float(1 - 0.05 ** (1 / n_samples)))


def _limit(a: Assessment) -> float:
    """Return the number of standard errors that counts as evidence; it grows with the number of learners tested."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


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
