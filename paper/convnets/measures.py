"""Errors, probabilities and correlations of ensembles of ConvNets on images."""

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import brier_score, calibration_error, combine, correlation_rho, log_loss
from counterpoint.theory import cross_entropy_diversity, optimality
from counterpoint.training import Ensemble, Voters, correlations
from counterpoint.vision import ImageBatches, predict_logits, predict_proba

__all__ = ["evaluate", "evaluate_batches", "learner_measures", "scores", "vote_errors", "without_readout"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@contextmanager
def without_readout(ensemble: Voters) -> Iterator[None]:
    """Take the read-out off an ensemble, and put it back afterwards."""
    readout, ensemble.readout = ensemble.readout, None
    try:
        yield
    finally:
        ensemble.readout = readout


def evaluate(ensemble: Ensemble, x: NDArray[np.uint8], y: Labels, device: torch.device) -> dict[str, Any]:
    """Return the scores of the vote that the loss trains and of other votes, and measures of the learners."""
    return evaluate_batches(ensemble, ImageBatches(x, y, batch_size=500, augment=False, device=device), y)


def evaluate_batches(
    ensemble: Voters, batches: Iterable[Any], y: Labels, *, precision: str = "auto"
) -> dict[str, Any]:
    """Return what :func:`evaluate` returns, for batches of any inputs in the order of the labels."""
    logits = predict_logits(ensemble, batches, precision=precision)
    proba = _probabilities(logits)
    votes = {"vote": predict_proba(ensemble, batches, precision=precision).cpu().double().numpy()}
    votes |= {voting: combine(proba, voting=voting) for voting in ("soft", "geometric")}
    return {
        **{name: scores(y, vote) for name, vote in votes.items()},
        "hard": {"error": vote_errors(logits, y)["hard"]},
        **learner_measures(logits, y),
    }


def vote_errors(logits: Tensor, y: Labels) -> dict[str, float]:
    """Return the errors of the soft and the hard vote of logits (N, n, m); the mean probability breaks ties."""
    proba = _probabilities(logits)
    soft = combine(proba)
    counts = len(proba) * combine(proba, voting="hard")  # a vote is worth more than any probability
    return {"soft": _error(y, soft), "hard": _error(y, counts + soft)}


def learner_measures(logits: Tensor, y: Labels) -> dict[str, float]:
    """Return the error of the learners (N, n, m), their correlations, and how near these are to the bound.

    ``error_correlation`` is the mean correlation of being right over the pairs of learners. It is NaN if a learner is
    always right, and like ``r_ll`` if there is only one learner. ``cross_entropy_diversity`` is how much lower the
    log-loss of the geometric vote is than that of the learners on average.
    """
    n_learners, labels = len(logits), torch.as_tensor(y, device=logits.device)
    proba = logits.softmax(-1)
    r_tl, r_ll = (float(r) for r in correlations(proba, labels))
    wrong = float((proba.argmax(-1) != labels).float().mean())
    apart = float(np.mean(cross_entropy_diversity(_probabilities(logits.double()))))
    found = {"learner_error": wrong, "r_tl": r_tl, "cross_entropy_diversity": apart}
    if n_learners == 1:
        return {**found, "r_ll": math.nan, "optimality": r_tl, "error_correlation": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        pairs = correlation_rho(y, proba.argmax(-1).cpu().numpy())[np.triu_indices(n_learners, 1)]
        share = float(optimality(r_tl, r_ll, n_learners))
    return {**found, "r_ll": r_ll, "optimality": share, "error_correlation": float(pairs.mean())}


def scores(y: Labels, proba: Floats) -> dict[str, float]:
    """Return error, log-loss, Brier score and calibration error of the probabilities (n, m) of a vote."""
    labels = range(proba.shape[1])
    return {
        "error": _error(y, proba),
        "log_loss": log_loss(y, proba, labels=labels),
        "brier_score": brier_score(y, proba, labels=labels),
        "calibration_error": calibration_error(y, proba, labels=labels),
    }


def _probabilities(logits: Tensor) -> Floats:
    proba: Floats = logits.softmax(-1).cpu().double().numpy()
    return proba


def _error(y: Labels, votes: Floats) -> float:
    return float((votes.argmax(axis=1) != y).mean())
