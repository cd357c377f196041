"""What is measured of an ensemble for Tables 4 to 6: errors of votes and learners, scores, and correlations."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from counterpoint.measures import brier_score, calibration_error, log_loss
from counterpoint.training import Callback, Ensemble, State, Vote, calibrate, correlations
from counterpoint.vision import ImageBatches, predict_logits
from paper.convnets.measures import without_readout
from paper.pretrained.images import Images

__all__ = ["DIGITS", "Evaluator", "Standing", "TestErrors", "for_epoch", "standing"]

DIGITS = 5  # of a number in the record
CALIBRATED_BY = 5_000  # training images

Standing = dict[str, Any]


class Evaluator:
    """Calibrates ensembles by training images and measures them on the others.

    Parameters
    ----------
    images : Images
        Labels are taken from here.
    calibration : ImageBatches
        Training images, augmented.
    batches : mapping of str to ImageBatches
        Held-out and test images, not augmented.
    """

    def __init__(
        self, images: Images, calibration: ImageBatches, batches: Mapping[str, ImageBatches]
    ) -> None:
        self.images, self.calibration, self.batches = images, calibration, batches

    def calibrate(self, ensemble: Ensemble) -> None:
        """Calibrate an ensemble, whatever its arm, since the correlation loss needs it."""
        self.calibration.generator.manual_seed(0)  # the same images each time
        device = next(ensemble.parameters()).device
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            calibrate(ensemble, self.calibration, max_samples=CALIBRATED_BY)

    def measure(
        self, ensemble: Ensemble, part: str, voting: str = "soft", places: list[int] | slice = slice(None)
    ) -> dict[str, Standing]:
        """Return the standing of a calibrated ensemble on a part of the images, with the scores of a vote.

        ``"mirrored"`` averages the outputs for each image and for its mirror image, ``"unmirrored"`` does not;
        ``"uncalibrated"`` is mirrored, ``"plain"`` is neither. ``places`` are the indices of the learners to measure.
        """
        readout = ensemble.readout
        assert readout is not None
        batches, target = self.batches[part], self.images.parts[part][1]
        reflected = ((cast(Tensor, x).flip(-1), y) for x, y in batches)
        with without_readout(ensemble):
            seen = predict_logits(ensemble, batches)
            mirrored = (seen + predict_logits(ensemble, reflected)) / 2
        views = {
            "mirrored": readout(mirrored),
            "unmirrored": readout(seen),
            "uncalibrated": mirrored,
            "plain": seen,
        }
        truth = torch.as_tensor(target, device=seen.device)
        return {kind: standing(view[places], truth, voting) for kind, view in views.items()}


class TestErrors(Callback):
    """Measures the vote on the test images after every epoch but the last; nothing is selected by it."""

    __test__ = False  # not a test of pytest

    def __init__(self, evaluator: Evaluator, voting: str) -> None:
        self.evaluator, self.voting = evaluator, voting

    def on_epoch_end(self, state: State) -> None:
        """Add the measurements to the history."""
        if state.epoch < state.epochs:
            ensemble = state.ensemble
            assert isinstance(ensemble, Ensemble)
            self.evaluator.calibrate(ensemble)
            found = self.evaluator.measure(ensemble, "test", self.voting)
            state.history[-1].update(for_epoch(found["mirrored"]))
            ensemble.readout = None  # it fits these weights only


def for_epoch(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the measurements on test images that the history of an epoch holds."""
    return {f"test_{name}": found[name] for name in ("soft", "geometric", "hard", "r_tl", "r_ll")}


def standing(logits: Tensor, target: Tensor, voting: str = "soft") -> Standing:
    """Return the errors of votes and learners in percent, scores of one vote, and the mean correlations.

    Parameters
    ----------
    logits : Tensor, shape (n_learners, n_samples, n_classes)
        Outputs of the learners.
    target : Tensor, shape (n_samples,)
        The true classes.
    voting : {"soft", "geometric"}, default="soft"
        The vote of the ensemble, whose log-loss, Brier score and calibration error are returned.
    """
    proba = logits.softmax(-1)
    votes = {kind: Vote(kind)(logits) for kind in ("soft", "geometric")}
    votes["hard"] = F.one_hot(proba.argmax(-1), proba.shape[-1]).float().mean(0)

    def error(scores: Tensor) -> float:
        return round(100 * (scores.argmax(-1) != target).double().mean().item(), DIGITS)

    r_tl, r_ll = (round(float(value), DIGITS) for value in correlations(proba.double(), target))
    return {
        **{kind: error(vote) for kind, vote in votes.items()},
        "learners": [error(one) for one in proba],
        "r_tl": r_tl,
        "r_ll": r_ll,
        "voting": voting,
        **_scores(votes[voting], target),
    }


def _scores(vote: Tensor, target: Tensor) -> dict[str, float]:
    """Return the scores of the probabilities of a vote."""
    y, proba = target.cpu().numpy(), vote.cpu().double().numpy()
    return {
        measure.__name__: round(measure(y, proba, labels=range(proba.shape[1])), DIGITS)
        for measure in (log_loss, brier_score, calibration_error)
    }
