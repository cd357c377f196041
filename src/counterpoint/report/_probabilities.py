"""How good the probabilities of a vote are: the scores and the reliability diagram."""

import math
from typing import Any

from counterpoint.assessment import Assessment
from counterpoint.report._figures import Frame
from counterpoint.report._words import number, percent

__all__ = ["probabilities", "scored", "scores"]

_FLOOR, _TALLEST = -0.34, -0.06  # of the bars under the diagram, on its vertical scale


def scored(a: Assessment) -> bool:
    """Return whether the vote that counts has probabilities."""
    return len(a.probabilities.reliability.count) > 0


def scores(a: Assessment) -> list[str]:
    """Return log-loss, Brier score and calibration error."""
    found = a.probabilities
    return [number(score) for score in (found.log_loss, found.brier_score, found.calibration_error)]


def probabilities(a: Assessment) -> dict[str, Any] | None:
    """Return the scores as (label, value, remark) and the figure, if the vote has probabilities."""
    if not scored(a):
        return None
    log_loss, brier_score, calibration_error = scores(a)
    mean, guess = number(float(a.probabilities.learner_log_losses.mean())), number(math.log(a.n_classes))
    rows = [
        ("Log-loss", log_loss, f"mean learner {mean}, guessing {guess}"),
        ("Brier score", brier_score, "squared distance from the truth, 0 to 2"),
        ("Calibration error", calibration_error, "mean distance of confidence and accuracy"),
    ]
    return {"rows": rows, "figure": reliability_figure(a), "voting": a.voting}


def reliability_figure(a: Assessment) -> dict[str, Any]:
    """Return accuracy against confidence, bin by bin, with the share of the samples under it."""
    frame = Frame((0.0, 1.0), (_FLOOR, 1.0), height=400)
    edges, *columns = (values.tolist() for values in a.probabilities.reliability)
    bins = [one for one in zip(edges[:-1], edges[1:], *columns, strict=True) if one[-1]]
    most = max(n for *_, n in bins)
    return frame.drawn("Confidence: probability of the most probable class", "Accuracy") | {
        "y_ticks": [(frame.at_y(k / 5), f"{k / 5:g}") for k in range(6)],
        "diagonal": frame.path((0.0, 1.0), (0.0, 1.0)),
        "points": [
            {
                "x": frame.at_x(confidence),
                "y": frame.at_y(accuracy),
                "to": frame.at_y(confidence),
                "r": round(3 + 3 * math.sqrt(n / most), 1),
                "title": f"confidence {percent(confidence)}, accuracy {percent(accuracy)}: {n:,} samples",
            }
            for _, _, confidence, accuracy, n in bins
        ],
        "bars": [
            {
                "x": frame.at_x(low),
                "y": (top := frame.at_y(_FLOOR + (_TALLEST - _FLOOR) * n / most)),
                "width": round(frame.at_x(high) - frame.at_x(low) - 1, 1),
                "height": round(frame.at_y(_FLOOR) - top, 1),
                "title": f"confidence {percent(low)} to {percent(high)}: {percent(n / a.n_samples)} of the samples",
            }
            for low, high, _, _, n in bins
        ],
    }
