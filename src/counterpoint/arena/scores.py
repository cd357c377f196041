"""How a method did on the rows held out of one fold."""

import warnings
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import (
    brier_score,
    calibration_error,
    learner_learner_correlation,
    log_loss,
    truth_learner_correlation,
)
from counterpoint.theory import learner_correlation_bounds, truth_correlation_bounds

__all__ = ["aligned", "fold_scores"]

_STANDING = ("learner_accuracy", "r_tl", "r_ll", "optimality")
_DIGITS = 6


def fold_scores(y: IntArray, proba: FloatArray, learners: FloatArray | None = None) -> dict[str, Any]:
    """Return the error of the vote, how good its probabilities are, and where the learners stand.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        The classes, as places of columns.
    proba : ndarray of shape (n_samples, n_classes)
        What the method predicts.
    learners : ndarray of shape (n_learners, n_samples, n_classes), optional
        What its learners predict, where it has some.

    Returns
    -------
    dict
        ``error``, ``log_loss``, ``brier_score``, ``calibration_error``, ``n_learners``, ``learner_accuracy``, ``r_tl``,
        ``r_ll`` and ``optimality``; NaN where undefined, which on a few rows is common.

    Examples
    --------
    >>> learners = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.7, 0.3]]])
    >>> found = fold_scores(np.array([0, 1]), learners.mean(axis=0), learners)
    >>> found["error"], found["learner_accuracy"], found["r_tl"], found["optimality"]
    (0.0, 0.75, 0.0, 0.0)
    >>> found["log_loss"], found["brier_score"], found["calibration_error"]
    (0.44276, 0.265, 0.35)
    """
    classes = np.arange(proba.shape[1])
    found: dict[str, Any] = {
        "error": float(np.mean(proba.argmax(axis=1) != y)),
        "log_loss": round(log_loss(y, proba, labels=classes), _DIGITS),
        "brier_score": round(brier_score(y, proba, labels=classes), _DIGITS),
        "calibration_error": round(calibration_error(y, proba, labels=classes), _DIGITS),
        "n_learners": None,
    }
    found |= dict.fromkeys(_STANDING, np.nan)
    if learners is None:
        return found
    n_learners = len(learners)
    found |= {"n_learners": n_learners, "learner_accuracy": float(np.mean(learners.argmax(axis=2) == y))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)  # NaN says it
        of_truth = truth_learner_correlation(y, learners, per_class=True, labels=classes)
        found["r_tl"] = _mean(of_truth)
        if n_learners > 1:
            # a class that is absent from the rows has no truth to correlate with: both averages are over the others
            present = np.isin(classes, y)
            pairs = learner_learner_correlation(learners, per_class=True, labels=classes)[present]
            found["r_ll"] = _mean(pairs[:, *np.triu_indices(n_learners, 1)])
    if np.isfinite(found["r_ll"]):
        lowest = learner_correlation_bounds(n_learners).low
        bound = float(truth_correlation_bounds(max(found["r_ll"], lowest), n_learners).high)
        found["optimality"] = found["r_tl"] / bound if bound > 0 else np.nan
    return found | {name: round(found[name], _DIGITS) for name in _STANDING}


def aligned(proba: FloatArray, classes: IntArray, n_classes: int) -> FloatArray:
    """Return probabilities with a column for every class, also for those absent from the training rows.

    Examples
    --------
    >>> aligned(np.array([[0.25, 0.75]]), np.array([0, 2]), 3)
    array([[0.25, 0.  , 0.75]])
    """
    wide = np.zeros((*proba.shape[:-1], n_classes))
    wide[..., classes] = proba
    return wide


def _mean(values: FloatArray) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else np.nan
