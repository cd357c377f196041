"""What follows from the numbers, in sentences.

Each rule looks at an assessment and says nothing or one `Finding`. The thresholds are round numbers chosen so that a
healthy ensemble gets no warning; the sentence always gives the number, so that the reader can judge.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from counterpoint._validation import ROUNDING
from counterpoint.assessment.result import Assessment, Estimate, Finding
from counterpoint.theory import error_correlation_bounds, jury_accuracy

SEVERITIES = ("warning", "info", "good")
DUPLICATE = 0.98
_NAMED = 5


def advise(assessment: Assessment) -> Assessment:
    """Return the assessment with its advice, the most pressing first."""
    found = [finding for rule in RULES if (finding := rule(assessment)) is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, advice=tuple(found))


def _constant(a: Assessment) -> Finding | None:
    """Find learners that give one answer to everything."""
    constant = np.isnan(np.diagonal(a.learner_correlations))
    learners = np.flatnonzero(constant).tolist()
    if a.n_classes < 2 or not learners or (a.accuracies[constant] == 1).any():
        return None  # one answer that is always right: the truth is constant
    rest = "can be left out" if len(learners) < a.n_learners else "tell nothing of the truth"
    text = f"{_names(a, learners)} gave one answer to everything and {rest}."
    return Finding("constant_learner", "warning", text, {"learners": learners})


def _against(a: Assessment) -> Finding | None:
    """Find learners that turned against the truth, beyond chance."""
    # A guess correlates with the truth by chance: Student's t, without its division, which a correlation of -1 forbids.
    r, limit = a.r_tl_learners, _limit(a)
    beyond = (r < 0) & (r**2 * max(a.n_samples - 2, 0) > limit**2 * (1 - r**2))
    if not (learners := np.flatnonzero(beyond).tolist()):
        return None
    worst = float(np.nanmin(a.r_tl_learners))
    text = f"{_names(a, learners)} went against the truth (lowest correlation {worst:.2f})."
    return Finding("against_truth", "warning", text, {"learners": learners, "lowest": worst})


def _hurts(a: Assessment) -> Finding | None:
    """Find learners without whom the vote is better, beyond chance."""
    if a.n_learners < 3:
        return None
    sure = a.without > _limit(a) * a.without_error
    learners = np.flatnonzero(sure & (a.without > 0)).tolist()
    if not learners:
        return None
    learners.sort(key=lambda i: -a.without[i])
    gain = float(a.without[learners[0]])
    text = f"{_names(a, learners)} hurt the vote: without {a.learners[learners[0]]} it gains {_points(gain)}."
    if len(learners) == 1:
        text = f"{a.learners[learners[0]]} hurts the vote, which gains {_points(gain)} without it."
    return Finding("learner_hurts", "warning", text, {"learners": learners, "gain": gain})


def _best_learner(a: Assessment) -> Finding | None:
    """Find a vote that is not better than its best learner."""
    best = int(np.argmax(a.accuracies))
    gap = float(a.accuracies[best]) - a.vote.value
    if a.n_learners < 2 or gap <= _noise(a.vote, a.n_samples):
        return None
    text = f"The vote is worse than {a.learners[best]} alone by {_points(gap)}: weights or a selection would help."
    return Finding("best_learner_beats_vote", "warning", text, {"learner": best, "gap": gap})


def _duplicates(a: Assessment) -> Finding | None:
    """Find learners that are nearly copies of each other."""
    alike = np.nan_to_num(a.learner_correlations) > DUPLICATE
    # Correlations are averaged over the classes that both vote for, accuracies know the others.
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
        "learners could go with little loss."
    )
    return Finding("near_duplicates", "warning", text, {"groups": groups, "removable": extra})


def _collusion(a: Assessment) -> Finding | None:
    """Find an ensemble that is on the bound only because poor learners make up for each other."""
    if not (a.optimality > 0.9 and a.r_tl < 0.6 and a.vote.value - a.accuracies.mean() > 0.1):
        return None
    if not a.error_correlation < 0.5 * _least_correlation(a):
        return None  # many independent learners come near the bound too, and each of them can go
    text = (
        f"The ensemble is near the bound (optimality {a.optimality:.2f}) only because its learners collude: "
        f"one alone is right on {100 * a.accuracies.mean():.0f} %, together on {100 * a.vote.value:.0f} %. "
        "It depends on every one of them."
    )
    numbers = {"optimality": a.optimality, "mean_accuracy": float(a.accuracies.mean()), "vote": a.vote.value}
    return Finding("collusion", "warning", text, numbers)


def _reweighting(a: Assessment) -> Finding | None:
    """Say what the best weights could gain."""
    if a.n_learners < 2 or np.isnan(a.weighted_vote.value):
        return None
    gain = a.weighted_vote.value - a.vote.value
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
    """Say what twice as many learners of this kind would give."""
    # Many learners can at best be independent.
    p, c = float(a.accuracies.mean()), max(a.error_correlation, 0.0)
    if a.n_learners < 2 or np.isnan(a.error_correlation) or p <= 0.5:
        return None
    size = 2 * a.n_learners + 1
    now, twice, limit = jury_accuracy(p, c, np.array([a.n_learners, size, max(10_001, 10 * size)]))
    room = 1 - a.vote.value
    if room <= 0 or a.vote.low >= limit:  # beyond the model, and beyond the noise
        return None
    # The model's gains, of which the vote at hand, if better than the model, may have less left.
    gain, most = min(float(twice - now), room), min(float(limit - now), room)
    if most <= ROUNDING:
        return None
    text = f"Twice as many learners like these would gain about {_points(gain)}, any number at most {_points(most)}."
    return Finding("more_learners", "info", text, {"gain": gain, "most": most, "size": size})


def _alike(a: Assessment) -> Finding | None:
    """Find errors that coincide so much that voting cannot help."""
    if not a.error_correlation > 0.6:
        return None
    text = (
        f"The learners err together (correlation of being correct {a.error_correlation:.2f}), so the vote "
        "gains little: learners that differ more would help more than more of these."
    )
    return Finding("common_errors", "warning", text, {"error_correlation": a.error_correlation})


def _prediction(a: Assessment) -> Finding | None:
    """Find a vote that differs from what accuracy and error correlation say."""
    if a.n_classes != 2 or np.isnan(a.predicted_mixed) or a.n_learners < 3:
        return None
    gap = a.hard_vote.value - a.predicted_mixed
    if abs(gap) <= _noise(a.hard_vote, a.n_samples) + 0.01:
        return None
    text = (
        f"The hard vote is {_points(abs(gap))} {'above' if gap > 0 else 'below'} what its learners' accuracies "
        "and error correlations predict: the errors coincide in a way that pairs of learners do not show."
    )
    return Finding("prediction_off", "info", text, {"gap": gap})


def _least(a: Assessment) -> Finding | None:
    """Find errors that oppose each other."""
    if a.n_learners < 2:
        return None
    low = _least_correlation(a)
    if not a.error_correlation < 0.2 * low:  # a little below zero is chance
        return None
    text = (
        f"The learners oppose each other (correlation of being correct {a.error_correlation:.3f}; the least "
        f"possible for equal ones is {low:.3f}): many more learners cannot keep it so low."
    )
    return Finding("opposed_errors", "info", text, {"error_correlation": a.error_correlation, "least": low})


def _sample(a: Assessment) -> Finding | None:
    """Find too few samples to tell."""
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
    _healthy,
)


def _noise(vote: Estimate, n_samples: int) -> float:
    """Return how far the accuracy of a vote may be off: half its interval, or more where errors are too few for one.

    A vote without an error has a bootstrap interval of no width. The largest share of errors that 95 % of samples of
    this size would show is known all the same: about three over their number, the rule of three.
    """
    return max((vote.high - vote.low) / 2, float(1 - 0.05 ** (1 / n_samples)))


def _limit(a: Assessment) -> float:
    """Return the standard errors that accuse a learner: one test for each, so it grows to spare the harmless."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


def _least_correlation(a: Assessment) -> float:
    return float(error_correlation_bounds(float(a.accuracies.mean()), a.n_learners).low)


def _names(a: Assessment, learners: Sequence[int]) -> str:
    shown = [a.learners[i] for i in learners[:_NAMED]]
    if len(learners) > _NAMED:
        return f"{', '.join(shown)} and {len(learners) - _NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _points(share: float) -> str:
    points = 100 * share
    digits = 1 if abs(points) >= 0.1 or points == 0 else 2
    return f"{points:.{digits}f} point{'' if f'{points:.{digits}f}' == '1.0' else 's'}"
