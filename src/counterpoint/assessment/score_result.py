"""The assessment of scores without a truth as one frozen object, and what its numbers mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.base import AssessmentBase, rounded
from counterpoint.assessment.findings import SEVERITIES
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.assessment.regression_result import significant
from counterpoint.assessment.sample_findings import name_learners

__all__ = ["SCORE_SCHEMA", "ScoreAssessment", "with_score_findings"]

SCORE_SCHEMA = 1  # of the JSON; raise it whenever a field changes
_SHOWN = 12  # learners in the text; the highest and the lowest of more
_FEW = 100  # samples
_NOTABLE = 0.1  # a bias, as a share of the spread of the scores, that is worth a word


@dataclass(frozen=True, eq=False, repr=False)
class ScoreAssessment(AssessmentBase):
    """How far raters agree on numbers, and who differs.

    Returned by :func:`counterpoint.assessment.assess_scores`. Undefined numbers are NaN.

    Attributes
    ----------
    name : str
        The name of the panel.
    n_learners, n_samples : int
        Sizes.
    n_complete, n_several : int
        Samples that all learners scored, and that two or more did.
    learners : tuple of str
        Names of the learners.
    given : array of int, shape (n_learners,)
        The number of samples that each learner scored.
    means, spreads : array, shape (n_learners,)
        Mean and standard deviation of each learner's scores.
    alpha_interval, alpha_ordinal : Estimate
        Krippendorff's alpha for numbers and for ranks: 1 is perfect agreement, 0 that of chance. 95 % bootstrap
        intervals over samples.
    intraclass_single, intraclass_average : Estimate
        ICC(2,1), the reliability of one learner, and ICC(2,k), that of the mean of all, over complete samples.
    correlation : Estimate
        Mean correlation of two learners.
    effective : Estimate
        Kish's number of raters by that correlation: a lower bound for the number of independent opinions.
    correlations : array, shape (n_learners, n_learners)
        The correlation of every two learners, over the samples that both scored.
    shared : array of int, shape (n_learners, n_learners)
        The number of those samples.
    bias, bias_error : array, shape (n_learners,)
        Mean difference of a learner from the mean of the others on the same samples, and its standard error.
    others_correlation : array, shape (n_learners,)
        Correlation of each learner with the mean of the others.
    consensus : array, shape (n_samples,)
        The mean score of each sample; NaN where nobody scored it.
    findings : tuple of Finding
        What to think of it, warnings first.

    Examples
    --------
    >>> from counterpoint.assessment import assess_scores
    >>> panel = assess_scores([[1, 2, 3, 4], [2, 3, 4, 5]])
    >>> panel.correlation.value, panel.bias.tolist()
    (1.0, [-1.0, 1.0])
    >>> ScoreAssessment.from_json(panel.to_json()).bias.tolist()
    [-1.0, 1.0]
    """

    schema: ClassVar[int] = SCORE_SCHEMA
    task: ClassVar[str] = "scores"

    name: str
    n_learners: int
    n_samples: int
    n_complete: int
    n_several: int
    learners: tuple[str, ...]
    given: IntArray
    means: FloatArray
    spreads: FloatArray
    alpha_interval: Estimate
    alpha_ordinal: Estimate
    intraclass_single: Estimate
    intraclass_average: Estimate
    correlation: Estimate
    effective: Estimate
    correlations: FloatArray
    shared: IntArray
    bias: FloatArray
    bias_error: FloatArray
    others_correlation: FloatArray
    consensus: FloatArray
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One sentence: how far the learners agree, and what that does not say."""
        alpha = self.alpha_interval
        if np.isnan(alpha.value):
            found = f"The agreement of {self.n_learners} learners on {self.n_samples} samples is undefined"
        else:
            interval = "" if np.isnan(alpha.low) else f"95 % interval {alpha.low:.3f} to {alpha.high:.3f}; "
            found = (
                f"{self.n_learners} learners agree on the scores of {self.n_samples} samples with Krippendorff's alpha "
                f"{alpha.value:.3f} ({interval}1 is perfect, 0 is chance)"
            )
        return f"{found}. Without a truth nobody can tell how good the scores are."

    def __repr__(self) -> str:
        alpha = rounded(self.alpha_interval.value)
        return f"<ScoreAssessment {self.name!r}: {self.n_learners} learners, alpha {alpha}>"

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        given = int(self.given.sum())
        return [
            ("learners x samples", f"{self.n_learners} x {self.n_samples}"),
            ("scores given", f"{given} ({100 * given / (self.n_learners * self.n_samples):.1f} %)"),
            ("Krippendorff's alpha, of the numbers", _interval(self.alpha_interval)),
            ("Krippendorff's alpha, of their ranks", _interval(self.alpha_ordinal)),
            ("ICC(2,1): reliability of one learner", _interval(self.intraclass_single)),
            (f"ICC(2,k): of the mean of {self.n_learners}", _interval(self.intraclass_average)),
            ("correlation of two learners", _interval(self.correlation)),
            ("effective raters, at least (Kish)", _interval(self.effective, digits=1)),
        ]

    def learner_rows(self, most: int = _SHOWN) -> list[tuple[str, ...]]:
        """Return for each learner its scores, its difference from the others and its correlation with them as text.

        Parameters
        ----------
        most : int, default=12
            The number of rows; of more learners the middle is left out.
        """
        order = np.argsort(-np.nan_to_num(self.others_correlation, nan=-2.0), kind="stable")
        if len(order) > most:
            order = np.concatenate([order[: most // 2], order[-(most // 2) :]])
        header = ("learner", "scores", "mean", "above the others", "correlation with their mean")
        rows: list[tuple[str, ...]] = [header]
        for i in order.tolist():
            bias = "undefined"
            if not np.isnan(self.bias[i]):
                error = "" if np.isnan(self.bias_error[i]) else f" ± {self.bias_error[i]:.2g}"
                bias = f"{self.bias[i]:+.3g}{error}"
            related = rounded(self.others_correlation[i])
            rows.append((self.learners[i], str(self.given[i]), significant(self.means[i]), bias, related))
        if self.n_learners > most:
            rows.insert(1 + most // 2, (f"... {self.n_learners - most} more", *[""] * (len(header) - 1)))
        return rows


def with_score_findings(assessment: ScoreAssessment) -> ScoreAssessment:
    """Return the assessment with its findings, warnings first."""
    found = [finding for rule in RULES if (finding := rule(assessment)) is not None]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return replace(assessment, findings=tuple(found))


def _constant(a: ScoreAssessment) -> Finding | None:
    """Find learners that always give the same score."""
    learners = np.flatnonzero(a.spreads == 0).tolist()
    if not learners:
        return None
    verb = "gives" if len(learners) == 1 else "give"
    text = f"{name_learners(a.learners, learners)} always {verb} the same score."
    return Finding("constant_learner", "warning", text, {"learners": learners})


def _stranger(a: ScoreAssessment) -> Finding | None:
    """Find learners whose scores do not go with those of the others, beyond chance."""
    limit = _limit(a) / np.sqrt(np.maximum(a.given, 1))
    learners = np.flatnonzero(a.others_correlation < limit).tolist()
    if a.n_learners < 3 or not learners or len(learners) == a.n_learners:
        return None
    learners.sort(key=lambda i: a.others_correlation[i])
    lowest = float(a.others_correlation[learners[0]])
    verb = "does" if len(learners) == 1 else "do"
    text = (
        f"{name_learners(a.learners, learners)} {verb} not go with the others more than by chance (lowest correlation "
        f"{lowest:.2f}): a scale turned around, guessing, or another question."
    )
    return Finding("stranger", "warning", text, {"learners": learners, "lowest": lowest})


def _bias(a: ScoreAssessment) -> Finding | None:
    """Find learners that score higher or lower than the others, beyond chance."""
    spread = float(np.nanmean(a.spreads))
    beyond = np.abs(a.bias) > np.maximum(_limit(a) * a.bias_error, _NOTABLE * spread)
    learners = np.flatnonzero(beyond).tolist()
    if not learners or a.n_learners < 3:
        return None
    learners.sort(key=lambda i: -abs(a.bias[i]))
    shown = [
        f"{a.learners[i]} {abs(a.bias[i]):.2g} {'higher' if a.bias[i] > 0 else 'lower'}" for i in learners[:3]
    ]
    more = f" and {len(learners) - 3} more" if len(learners) > 3 else ""
    text = (
        f"Some learners use the scale differently: against the mean of the others, {', '.join(shown)}{more}. Subtract "
        "it before you average, if the level matters."
    )
    return Finding("biased_learner", "info", text, {"learners": learners})


def _no_truth(a: ScoreAssessment) -> Finding:
    text = (
        "Without a truth, an error that learners share looks like agreement. They correlate because they see the same "
        "truth and because they share errors; the effective number of raters takes all of it for the latter."
    )
    return Finding("no_truth", "info", text, {"n_samples": a.n_samples})


def _sample(a: ScoreAssessment) -> Finding | None:
    """Find too few samples for firm conclusions."""
    if a.n_several >= _FEW:
        return None
    text = f"With {a.n_several} samples that two learners or more scored, small differences mean nothing."
    return Finding("small_sample", "info", text, {"n_samples": a.n_several})


RULES: Sequence[Callable[[ScoreAssessment], Finding | None]] = (
    _constant,
    _stranger,
    _bias,
    _no_truth,
    _sample,
)


def _limit(a: ScoreAssessment) -> float:
    """Return the number of standard errors that counts as evidence; it grows with the number of learners tested."""
    return float(np.sqrt(2 * np.log(20 * a.n_learners)))


def _interval(estimate: Estimate, digits: int = 3) -> str:
    if np.isnan(estimate.value):
        return "undefined"
    value, low, high = (f"{one:.{digits}f}" for one in estimate)
    return value if np.isnan(estimate.low) else f"{value} ({low} to {high})"
