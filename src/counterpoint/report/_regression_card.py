"""The model card of one regression ensemble."""

from typing import Any

from counterpoint import __version__
from counterpoint.assessment import RegressionAssessment
from counterpoint.report._card import limits
from counterpoint.report._regression_lead import typical_error
from counterpoint.report._words import amount, amounts, interval, number, percent

__all__ = ["regression_card_content"]


def regression_card_content(a: RegressionAssessment) -> dict[str, Any]:
    """Return the parts of the card that follow from the assessment."""
    return {
        "name": a.name,
        "version": __version__,
        "task": "regression",
        "metrics": "mse, r_squared",
        "kind": f"An ensemble of {a.n_learners:,} learners. Its answer is the mean of their predictions.",
        "classes": [],
        "samples": f"Assessed on {a.n_samples:,} samples, "
        f"{'which the learners were trained on' if a.samples == 'training' else 'held out from training'}.",
        "verdict": a.verdict,
        "measures": _measures(a),
        "errors": None,
        "confusions": _errors(a),
        "limits": limits(a, "the mean"),
    }


def _measures(a: RegressionAssessment) -> list[tuple[str, str, str]]:
    """Return the measures as (label, value, interval)."""
    best, typical = int(a.learner_errors.argmin()), typical_error(a)
    return [
        ("Squared error", amount(a.squared_error.value), amounts(a.squared_error)),
        ("Root of the squared error", amount(typical.value), amounts(typical)),
        ("Explained variance, R²", percent(a.r2.value), interval(a.r2)),
        (f"Squared error of its best learner, {a.learners[best]}", amount(a.learner_errors[best]), ""),
        ("Squared error of a learner, mean", amount(a.errors.average_error), ""),
        ("Squared error of any number of learners like these", amount(a.ceiling), ""),
        ("Correlation of the errors of two learners", number(a.error_correlation, 2), ""),
    ]


def _errors(a: RegressionAssessment) -> list[str]:
    """Return in words where the error comes from."""
    error, bias = a.squared_error.value, a.components.bias
    if not error > 0:
        return []
    side = "too high" if bias > 0 else "too low"
    told = [
        f"It is {amount(abs(bias))} {side} on average: {percent(bias**2 / error, 0)} of its squared error."
    ]
    if a.n_learners > 1 and a.components.covariance > 0:
        shared = (1 - 1 / a.n_learners) * a.components.covariance
        told.append(
            f"Errors that its learners share, or that are noise of the truth, are {percent(shared / error, 0)} of its "
            "squared error."
        )
    return told
