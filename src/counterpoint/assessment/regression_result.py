"""The assessment of a regression ensemble as one frozen object that prints well and converts to JSON."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, check_count
from counterpoint.assessment.base import AssessmentBase, rounded
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.measures import AmbiguityDecomposition

__all__ = ["REGRESSION_SCHEMA", "ErrorComponents", "RegressionAssessment", "significant"]

_ROUNDING = 1e-12  # of a squared error, as a share of it
REGRESSION_SCHEMA = 1  # of the JSON; raise it whenever a field changes


class ErrorComponents(NamedTuple):
    r"""The squared error of a mean: ``bias**2 + variance / n_learners + (1 - 1 / n_learners) * covariance``.

    It is the decomposition of Ueda and Nakano (1996) over the samples of one ensemble, not over training sets: what all
    training sets would share is part of the covariance, and so is the noise of the truth.

    Attributes
    ----------
    bias : float
        Mean signed error of the ensemble.
    variance : float
        Mean variance of a learner's errors over the samples.
    covariance : float
        Mean covariance of the errors of two learners; NaN for one learner.

    Examples
    --------
    >>> ErrorComponents(0.1, 1.0, 0.4).covariance
    0.4
    """

    bias: float
    variance: float
    covariance: float


@dataclass(frozen=True, eq=False, repr=False)
class RegressionAssessment(AssessmentBase):
    """Where a regression ensemble stands, what its ceiling is and what would help.

    Returned by :func:`counterpoint.assessment.assess_regression`. Undefined numbers are NaN.

    Attributes
    ----------
    name : str
        The name of the ensemble.
    samples : {"held_out", "training"}
        Whether the learners saw the samples in training, as declared by the caller.
    n_learners, n_samples : int
        Sizes.
    learners : tuple of str
        Names of the learners.
    squared_error, r2 : Estimate
        Mean squared error of the mean of the learners, and its share of the variance that is explained, each with a
        95 % bootstrap interval over the samples.
    gain : Estimate
        Squared error of the best learner less that of the ensemble, on the same resamples.
    learner_errors : array, shape (n_learners,)
        Mean squared error of each learner.
    errors : AmbiguityDecomposition
        ``ensemble_error = average_error - ambiguity`` (Krogh and Vedelsby 1995).
    components : ErrorComponents
        Bias, variance and covariance of the errors.
    error_correlation : float
        Mean correlation of the errors of two learners.
    error_correlations : array, shape (n_learners, n_learners)
        The same for every two learners.
    truth_correlations : array, shape (n_learners,)
        Each learner's correlation with the truth.
    ceiling : float
        Squared error that any number of learners like these would approach: the mean product of the errors of two
        learners. Not below 0.
    enough : float
        Number of learners like these from which on all the rest of the gain is within the noise of the squared error.
    without, without_error : array, shape (n_learners,)
        Change of the squared error if a learner is left out, and its standard error.
    distances : array, shape (n_learners, n_learners)
        Mean squared distance of every two learners.
    findings : tuple of Finding
        Advice, warnings first.

    Examples
    --------
    >>> from counterpoint.assessment import assess_regression
    >>> truth = [1.0, 2.0, 3.0, 4.0]
    >>> assessment = assess_regression(truth, [[1.5, 2.5, 3.0, 4.0], [0.5, 1.5, 3.0, 4.5]])
    >>> assessment.squared_error.value, assessment.errors.average_error
    (0.015625, 0.15625)
    >>> RegressionAssessment.from_json(assessment.to_json()).r2 == assessment.r2
    True
    """

    schema: ClassVar[int] = REGRESSION_SCHEMA
    task: ClassVar[str] = "regression"

    name: str
    samples: str
    n_learners: int
    n_samples: int
    learners: tuple[str, ...]
    squared_error: Estimate
    r2: Estimate
    gain: Estimate
    learner_errors: FloatArray
    errors: AmbiguityDecomposition
    components: ErrorComponents
    error_correlation: float
    error_correlations: FloatArray
    truth_correlations: FloatArray
    ceiling: float
    enough: float
    without: FloatArray
    without_error: FloatArray
    distances: FloatArray
    findings: tuple[Finding, ...]

    @property
    def noise(self) -> float:
        """The uncertainty of the squared error: half its interval."""
        return (self.squared_error.high - self.squared_error.low) / 2

    @property
    def verdict(self) -> str:
        """One sentence: how good the mean is, against its learners."""
        error, own = self.squared_error, self.learner_errors
        gain = self.gain.value if abs(self.gain.value) > _ROUNDING * own.min() else 0.0
        against = "better than" if gain > 0 else "worse than" if gain < 0 else "as good as"
        learners = "1 learner" if self.n_learners == 1 else f"{self.n_learners} learners"
        samples = "training sample" if self.samples == "training" else "sample"
        samples += "s" * (self.n_samples != 1)
        return (
            f"The mean of {learners} has a squared error of {significant(error.value)} on {self.n_samples} {samples} "
            f"(95 % interval {significant(error.low)} to {significant(error.high)}; R² {rounded(self.r2.value)}), "
            f"{against} its best learner ({significant(own.min())}; mean {significant(own.mean())})."
        )

    def predicted_error(self, n_learners: Any) -> FloatArray:
        """Return the squared error of other numbers of learners like these.

        Parameters
        ----------
        n_learners : int or array-like of int
            Numbers of learners.

        Returns
        -------
        ndarray
            The mean product of the errors of two learners, plus what one learner adds to it over ``n_learners``. At
            the present number it is the measured error. NaN for one learner, and where more learners of this kind
            cannot exist, because the errors oppose each other.
        """
        n = check_count(n_learners, "n_learners", minimum=1)
        error, _, ambiguity = self.errors
        if self.n_learners == 1:
            return np.full(n.shape, np.nan)
        shared = error - ambiguity / (self.n_learners - 1)
        found = shared + self.n_learners / (self.n_learners - 1) * ambiguity / n
        return np.where(found < 0, np.nan, found)

    def __repr__(self) -> str:
        error = significant(self.squared_error.value)
        return f"<RegressionAssessment {self.name!r}: {self.n_learners} learners, squared error {error}>"

    def summary(self) -> list[tuple[str, str]]:
        """Return the main numbers as (label, text), in reading order."""
        own, parts = self.learner_errors, self.components
        return [
            ("learners x samples", f"{self.n_learners} x {self.n_samples}"),
            ("R²", str(self.r2)),
            ("squared error of the mean", _interval(self.squared_error)),
            (
                "squared error of a learner: lowest, mean, highest",
                ", ".join(significant(value) for value in (own.min(), own.mean(), own.max())),
            ),
            ("ambiguity: mean of the learners less the ensemble", significant(self.errors.ambiguity)),
            (
                "bias, variance, covariance of the errors",
                ", ".join(significant(value) for value in parts),
            ),
            ("error correlation", rounded(self.error_correlation)),
            ("ceiling: any number of learners like these", significant(self.ceiling)),
            ("learners from which on the gain is within the noise", significant(self.enough)),
        ]


def significant(value: float) -> str:
    """Return a number with four significant digits, or "undefined".

    Parameters
    ----------
    value : float
        The number; NaN if it is undefined.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> significant(3156.27), significant(0.0123456), significant(float("nan"))
    ('3156', '0.01235', 'undefined')
    """
    return "undefined" if np.isnan(value) else f"{value:.4g}"


def _interval(estimate: Estimate) -> str:
    value, low, high = map(significant, estimate)
    return f"{value} ({low} to {high})"
