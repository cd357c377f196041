"""Rules that turn the numbers of a regression assessment into advice.

Each rule returns one `Finding` or None. Gains are shares of the squared error, in percent.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from counterpoint.assessment.findings import SEVERITIES
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.regression_result import RegressionAssessment, significant
from counterpoint.assessment.sample_findings import name_learners

__all__ = ["with_regression_findings"]

_FEWEST = 10  # samples, from which a gain is said to be beyond the noise
_COMMON = 0.9  # a correlation of errors at which a mean gains little
_NEAR = 0.01  # mean squared distance of near duplicates, as a share of that of two learners on average


def with_regression_findings(assessment: RegressionAssessment) -> RegressionAssessment:
    """Return the assessment with its findings, warnings first."""
    found = [finding for rule in RULES if (finding := rule(assessment)) is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, findings=tuple(found))


def _constant(a: RegressionAssessment) -> Finding | None:
    """Find learners whose predictions are constant."""
    constant = np.isnan(a.truth_correlations)
    learners = np.flatnonzero(constant).tolist()
    if not learners or np.isnan(a.r2.value):
        return None  # the truth is constant
    rest = " and can be removed" if len(learners) < a.n_learners else ", which say nothing about the truth"
    text = f"{name_learners(a.learners, learners)} gave constant predictions{rest}."
    return Finding("constant_learner", "warning", text, {"learners": learners})


def _against(a: RegressionAssessment) -> Finding | None:
    """Find learners that correlate negatively with the truth, beyond chance."""
    r, limit = a.truth_correlations, _limit(a)
    beyond = (r < 0) & (r**2 * max(a.n_samples - 2, 0) > limit**2 * (1 - r**2))
    if not (learners := np.flatnonzero(beyond).tolist()):
        return None
    worst = float(np.nanmin(r))
    names = name_learners(a.learners, learners)
    text = f"{names} correlated negatively with the truth (lowest correlation {worst:.2f})."
    return Finding("against_truth", "warning", text, {"learners": learners, "lowest": worst})


def _worse_than_mean(a: RegressionAssessment) -> Finding | None:
    """Find an ensemble that is worse than the mean of the truth."""
    if not a.r2.high < 0:
        return None
    text = f"The ensemble is worse than predicting the mean of the truth (R² {a.r2.value:.2f})."
    return Finding("worse_than_mean", "warning", text, {"r2": a.r2.value})


def _hurts(a: RegressionAssessment) -> Finding | None:
    """Find learners without which the error is lower, beyond chance."""
    if a.n_learners < 3:
        return None
    learners = np.flatnonzero(a.without < -_limit(a) * a.without_error).tolist()
    if not learners:
        return None
    learners.sort(key=lambda i: a.without[i])
    gain = float(-a.without[learners[0]])
    verb = "hurts" if len(learners) == 1 else "hurt"
    text = (
        f"{name_learners(a.learners, learners)} {verb} the mean: without {a.learners[learners[0]]} the squared error "
        f"is {_percent(a, gain)} lower."
    )
    return Finding("learner_hurts", "warning", text, {"learners": learners, "gain": gain})


def _best_learner(a: RegressionAssessment) -> Finding | None:
    """Find a mean that is worse than its best learner."""
    if a.n_learners < 2 or a.gain.high >= 0:
        return None
    best = int(a.learner_errors.argmin())
    text = (
        f"The squared error is {_percent(a, -a.gain.value)} lower for {a.learners[best]} alone; try weights or a "
        "selection."
    )
    return Finding("best_learner_beats_mean", "warning", text, {"learner": best, "gap": -a.gain.value})


def _duplicates(a: RegressionAssessment) -> Finding | None:
    """Find learners that are nearly copies of each other."""
    if a.n_learners < 3:
        return None
    usual = a.distances[np.triu_indices(a.n_learners, 1)].mean()
    alike = a.distances <= _NEAR * usual
    np.fill_diagonal(alike, val=False)
    n_groups, group = connected_components(alike, directed=False)
    groups = [np.flatnonzero(group == g).tolist() for g in range(n_groups)]
    groups = sorted((g for g in groups if len(g) > 1), key=len, reverse=True)
    if not groups:
        return None
    extra = sum(len(g) - 1 for g in groups)
    text = (
        f"{name_learners(a.learners, groups[0])} are near duplicates; {extra} of {a.n_learners} learners could be "
        "removed with little loss."
    )
    return Finding("near_duplicates", "warning", text, {"groups": groups, "removable": extra})


def _collusion(a: RegressionAssessment) -> Finding | None:
    """Find a good mean of learners that are worse than a constant each."""
    if a.n_learners < 2 or not a.r2.low > 0 or a.r2.value == 1:
        return None
    variance = a.squared_error.value / (1 - a.r2.value)
    single = 1 - a.errors.average_error / variance
    if single >= 0 or not a.error_correlation < -0.5 / (a.n_learners - 1):
        return None  # learners that err independently may be poor, but none of them is indispensable
    text = (
        f"The ensemble works only because its learners collude: R² is {a.r2.value:.2f} for their mean and "
        f"{single:.2f} for a single one. It depends on every one of them."
    )
    return Finding("collusion", "warning", text, {"r2": a.r2.value, "mean_r2": single})


def _alike(a: RegressionAssessment) -> Finding | None:
    """Find errors that coincide so much that averaging gains little."""
    if not a.error_correlation > _COMMON:
        return None
    text = (
        f"The learners err together (error correlation {a.error_correlation:.2f}), so averaging gains little: what "
        "they share is the noise of the truth, or an error that more learners of this kind have as well."
    )
    return Finding("common_errors", "info", text, {"error_correlation": a.error_correlation})


def _more_learners(a: RegressionAssessment) -> Finding | None:
    """Report what more learners of this kind would gain."""
    error = a.squared_error.value
    twice = float(a.predicted_error(2 * a.n_learners))
    if a.n_learners < 2 or a.components.covariance < 0 or np.isnan(twice) or not a.errors.ambiguity > 0:
        return None
    gain, most = error - twice, error - a.ceiling
    text = (
        f"Twice as many learners like these would lower the squared error by about {_percent(a, gain)}, any number by "
        f"at most {_percent(a, most)}"
    )
    within = most <= a.noise
    text += ", which is within the noise." if within else "."
    return Finding("more_learners", "info", text, {"gain": gain, "most": most, "enough": a.enough})


def _opposed(a: RegressionAssessment) -> Finding | None:
    """Find negatively correlated errors."""
    if a.n_learners < 2:
        return None
    low = -1 / (a.n_learners - 1)
    if not a.error_correlation < 0.2 * low:  # slightly below zero is chance
        return None
    text = (
        f"The errors are negatively correlated (mean {a.error_correlation:.3f}; the lowest possible is {low:.3f}): a "
        "much larger ensemble cannot keep it so low."
    )
    return Finding("opposed_errors", "info", text, {"error_correlation": a.error_correlation, "least": low})


def _sample(a: RegressionAssessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    if a.squared_error.value <= 0 or (a.n_samples >= 100 and a.noise <= 0.2 * a.squared_error.value):
        return None
    text = (
        f"With {a.n_samples} samples the squared error is known to within {_percent(a, a.noise)} only; small "
        "differences mean nothing."
    )
    return Finding("small_sample", "info", text, {"n_samples": a.n_samples, "half_width": a.noise})


def _training(a: RegressionAssessment) -> Finding | None:
    """Report that the samples were trained on, if the caller declared it."""
    if a.samples != "training":
        return None
    text = "The learners were trained on these samples: expect larger errors on new data."
    return Finding("training_samples", "info", text, {"n_samples": a.n_samples})


def _healthy(a: RegressionAssessment) -> Finding | None:
    """Find a mean that is clearly better than any learner."""
    if a.n_learners < 2 or a.n_samples < _FEWEST or a.gain.low <= 0:
        return None
    best = float(a.learner_errors.min())
    text = (
        f"Averaging pays: the squared error is {100 * a.gain.value / best:.1f} % below that of the best learner "
        f"({significant(best)}), beyond the noise."
    )
    return Finding("averaging_pays", "good", text, {"gain": a.gain.value, "best": best})


RULES: Sequence[Callable[[RegressionAssessment], Finding | None]] = (
    _constant,
    _against,
    _worse_than_mean,
    _hurts,
    _best_learner,
    _duplicates,
    _collusion,
    _alike,
    _more_learners,
    _opposed,
    _sample,
    _training,
    _healthy,
)


def _limit(a: RegressionAssessment) -> float:
    """Return the number of standard errors that counts as evidence; it grows with the number of learners tested."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


def _percent(a: RegressionAssessment, difference: float) -> str:
    """Return a difference of squared errors in percent of that of the ensemble."""
    error = a.squared_error.value
    return f"{100 * difference / error:.1f} %" if error > 0 else significant(difference)
