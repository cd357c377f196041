"""The model card of one ensemble: its numbers with their intervals, where it errs, and what limits them."""

from typing import Any

import numpy as np

from counterpoint import __version__
from counterpoint.assessment import Assessment, Estimate, RegressionAssessment
from counterpoint.report._learners import classes
from counterpoint.report._probabilities import probabilities
from counterpoint.report._words import interval, number, percent, shorten

__all__ = ["card_content", "limits"]

_VOTES = {
    "hard": "the class with the most votes",
    "soft": "the class with the highest mean probability",
    "geometric": "the class with the highest geometric mean of the probabilities",
}
# Findings that limit what the numbers say, whatever their severity.
_LIMITING = ("few_shared", "missing_votes", "more_samples", "never_true", "no_errors", "small_sample")


def card_content(a: Assessment) -> dict[str, Any]:
    """Return the parts of the card that follow from the assessment."""
    return {
        "name": a.name,
        "version": __version__,
        "kind": f"An ensemble of {a.n_learners:,} learners. Its answer is {_VOTES[a.voting]} ({a.voting} vote).",
        "task": "classification",
        "metrics": "accuracy",
        "classes": [str(label) for label in a.classes],
        "samples": f"Assessed on {a.n_samples:,} samples, "
        f"{'which the learners were trained on' if a.samples == 'training' else 'held out from training'}.",
        "verdict": a.verdict,
        "measures": _measures(a),
        "errors": classes(a),
        "confusions": _confusions(a),
        "limits": limits(a, "the vote"),
    }


def _measures(a: Assessment) -> list[tuple[str, str, str]]:
    """Return the measures as (label, value, interval)."""
    best, worth, alike = a.best_learner, a.effective.votes, a.effective.error_correlation
    right = Estimate(float(a.accuracies[best]), *_span(a, best))
    rows = [
        ("Accuracy of the vote", percent(a.vote.value), interval(a.vote)),
        (f"Accuracy of its best learner, {a.learners[best]}", percent(right.value), interval(right)),
        ("Accuracy of a learner, mean", percent(float(a.accuracies.mean())), ""),
        ("Always the most frequent class", percent(a.by_class.baseline), ""),
        ("Balanced accuracy of the vote", percent(a.by_class.balanced_accuracy), ""),
        (
            "Independent learners as good as the best that it is worth",
            number(worth.value, 1),
            _between(worth, 1),
        ),
        ("Correlation of being right", number(alike.value, 2), _between(alike, 2)),
    ]
    found = probabilities(a)
    return rows + [(label, value, "") for label, value, _ in (found["rows"] if found else [])]


def _span(a: Assessment, learner: int) -> tuple[float, float]:
    return float(a.votes.accuracy_low[learner]), float(a.votes.accuracy_high[learner])


def _between(one: Estimate, digits: int) -> str:
    return (
        ""
        if np.isnan([one.low, one.high]).any()
        else f"{number(one.low, digits)} to {number(one.high, digits)}"
    )


def _confusions(a: Assessment) -> list[str]:
    """Return the three most frequent errors in words."""
    errors = a.by_class.confusion.errors()
    total = errors.counts.sum()
    return [
        f"It takes {shorten(str(a.classes[i]), 60)} for {shorten(str(a.classes[j]), 60)}: "
        f"{percent(n / total, 0)} of its errors."
        for i, j, n in list(zip(*errors, strict=True))[:3]
    ]


def limits(a: Assessment | RegressionAssessment, answer: str) -> list[str]:
    """Return what the numbers do not say, and the warnings; ``answer`` is the word for what the ensemble says."""
    if a.samples == "training":
        first = "The learners were trained on the samples of this assessment: on new ones they do worse."
    else:
        first = (
            f"The numbers hold for samples drawn as these were. How good {answer} is on others is not known."
        )
    return [
        first,
        *(one.text for one in a.findings if one.severity == "warning" or one.code in _LIMITING),
    ]
