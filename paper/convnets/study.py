"""The jobs of ``image-dial`` and ``image-rates``: ensembles of small ConvNets, each trained by the loss of one arm.

Each job is one ensemble, trained by :func:`counterpoint.training.fit`. All arms of a seed start from the same weights
and see the same batches, so their differences are paired. No epoch, rate or dial is chosen on the test images: the
learning rates come from held-out training images. Widths and epochs follow an earlier study on the test images of
CIFAR-10.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoint.datasets import Images
from counterpoint.records import Job
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    Readout,
    fit,
)
from counterpoint.vision import ImageBatches, backbone
from paper.convnets.images import ImageSets
from paper.convnets.measures import evaluate, without_readout
from paper.convnets.robust import robustness
from paper.device import clock

__all__ = [
    "ARMS",
    "LEARNING_RATE",
    "RATES",
    "Point",
    "SummedLogitsLoss",
    "held_out",
    "job_config",
    "jobs_of",
    "kind_of",
    "plan",
    "rate_of",
    "run",
    "same_size",
]

BATCH, LEARNING_RATE = 512, 1e-2
EVALUATED = 10_000  # training images that are evaluated without augmentation
HELD_OUT = 5_000  # training images on which learning rates are chosen


class SummedLogitsLoss(JointLoss):
    """The cross-entropy of summed logits.

    Averaged logits are N times smaller, so that at the start each learner gets a smaller gradient.

    Examples
    --------
    >>> logits, target = torch.randn(3, 8, 2), torch.zeros(8, dtype=torch.long)
    >>> torch.allclose(SummedLogitsLoss()(logits, target), torch.nn.functional.cross_entropy(logits.sum(0), target))
    True
    """

    def __init__(self) -> None:
        super().__init__(pool="logits")

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of logits (n_learners, batch, n_classes)."""
        return super().forward(logits.shape[-3] * logits, target, sample_weight)


ARMS: Mapping[str, Callable[[], EnsembleLoss]] = {
    "independent": IndependentLoss,
    **{f"{d}": partial(DiversityLoss, d) for d in (0.25, 0.5, 0.8, 0.9)},
    "0.67": partial(DiversityLoss, 2 / 3),
    "joint-logits": partial(JointLoss, pool="logits"),  # the dial at 1
    "joint-sum": SummedLogitsLoss,
    "joint-proba": JointLoss,
    **{f"paper-{d}": partial(CorrelationLoss, d) for d in (0.5, 0.9, 1.0)},
    "single": IndependentLoss,  # one network of about the size and cost of the ensemble
}

# The learning rates that ``image-rates`` chose, by kind of arm, width and epochs; all others are ``LEARNING_RATE``.
RATES: Mapping[tuple[str, int, int], float] = {
    ("independent", 8, 10): 0.3,
    ("dial", 8, 10): 0.1,
    ("joint-logits", 8, 10): 0.1,
    ("joint-sum", 8, 10): 0.03,
    ("single", 8, 10): 0.03,
    ("independent", 32, 10): 0.03,
    ("dial", 32, 10): 0.03,
    ("joint-logits", 32, 10): 0.03,
    ("independent", 8, 50): 0.3,
    ("dial", 8, 50): 0.1,
    ("independent", 32, 30): 0.03,
    ("dial", 32, 30): 0.03,
}
LONG = {8: 50, 32: 30}  # epochs of the longer trials, by width


class Point(NamedTuple):
    """Ensembles of one size on one image set, and the arms that are compared there."""

    name: str
    data: str
    width: int
    n_learners: int
    epochs: int
    arms: tuple[str, ...]
    n_seeds: int = 3
    n_train: int | None = None  # None is all images
    robust: bool = False  # whether missing learners, shifted and unknown images are measured too
    rate: float | None = None  # tried on held-out images; None is that of the arm


def plan(points: Iterable[Point], n_seeds: int | None = None) -> Iterator[tuple[str, Point, str, int]]:
    """Yield name, point, arm and seed of each job: all arms of a seed before the next seed."""
    for point in points:
        for seed in range(point.n_seeds if n_seeds is None else min(n_seeds, point.n_seeds)):
            for arm in point.arms:
                yield f"{point.name}-s{seed}-{arm}", point, arm, seed


def jobs_of(points: Iterable[Point], n_seeds: int | None, sets: ImageSets, device: torch.device) -> list[Job]:
    """Return the jobs of a study."""
    return [
        Job(name, job_config(point, arm, seed), partial(_work, point, arm, seed, sets, device))
        for name, point, arm, seed in plan(points, n_seeds)
    ]


def job_config(point: Point, arm: str, seed: int) -> dict[str, Any]:
    """Return everything that the result of a job depends on."""
    kept = ("data", "width", "n_learners", "epochs")
    few = {} if point.n_train is None else {"n_train": point.n_train}
    held = {} if point.rate is None else {"held_out": HELD_OUT}
    rate = {"batch_size": BATCH, "learning_rate": rate_of(point, arm)}
    return {**{key: getattr(point, key) for key in kept}, **few, **held, "arm": arm, "seed": seed, **rate}


def rate_of(point: Point, arm: str) -> float:
    """Return the learning rate of an arm: the one to try, or the one chosen for its kind at width 8 or 32.

    Widths up to 8 have the rates of width 8, the others those of width 32. Runs on few images have those of ten epochs.
    """
    if point.rate is not None:
        return point.rate
    width = 8 if point.width <= 8 else 32
    is_long = point.epochs > 10 and point.n_train is None
    return RATES.get((kind_of(arm), width, LONG[width] if is_long else 10), LEARNING_RATE)


def kind_of(arm: str) -> str:
    """Return what arms with one learning rate have in common.

    Examples
    --------
    >>> [kind_of(arm) for arm in ("0.5", "paper-0.9", "joint-sum")]
    ['dial', 'paper', 'joint-sum']
    """
    return "dial" if arm[0].isdigit() else "paper" if arm.startswith("paper") else arm


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one network with about the parameters, and the cost, of ``n_learners`` networks.

    The inner layers then have as many; first and last layers grow with the width alone.
    """
    return round(width * math.sqrt(n_learners))


def run(
    point: Point,
    arm: str,
    seed: int,
    images: Images,
    device: torch.device,
    unknown: NDArray[np.uint8] | None = None,
) -> dict[str, Any]:
    """Train an ensemble and evaluate it on the test images, and under ``train`` on training images.

    ``unknown`` are images of other classes, which robust ensembles should doubt.
    """
    x, y = images.x_train[: point.n_train], images.y_train[: point.n_train]
    ensemble = _initial(point, arm, seed, len(images.class_names)).to(device)
    batches = ImageBatches(x, y, batch_size=min(BATCH, len(y)), random_state=seed, device=device)
    start = clock(device)
    history = _train(ensemble, batches, arm, point.epochs, rate_of(point, arm))
    seconds = clock(device) - start
    if arm == "joint-sum":
        ensemble.readout = _sum_of(ensemble, len(images.class_names)).to(device)
    found = evaluate(ensemble, images.x_test, images.y_test, device)
    found["train"] = evaluate(ensemble, x[:EVALUATED], y[:EVALUATED], device)
    if arm.startswith("paper"):
        found["without_readout"] = _without_readout(ensemble, images, device)
    if point.robust:
        found["robust"] = robustness(ensemble, images.x_test, images.y_test, unknown, device)
    return {
        **found,
        "history": history,
        "seconds": seconds,
        "n_parameters": sum(p.numel() for p in ensemble.parameters()),
    }


def _initial(point: Point, arm: str, seed: int, n_classes: int) -> Ensemble:
    """Return new learners, the same for all arms but the single network."""
    width, n_learners = point.width, point.n_learners
    if arm == "single":
        width, n_learners = same_size(width, n_learners), 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Ensemble([backbone("convnet", n_classes, width=width) for _ in range(n_learners)])


def _train(
    ensemble: Ensemble, batches: ImageBatches, arm: str, epochs: int, rate: float
) -> dict[str, list[float]]:
    """Train by the loss of an arm, and return the history."""
    optimizer = torch.optim.AdamW(ensemble.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * len(batches))
    history = fit(
        ensemble,
        batches,
        loss=ARMS[arm](),
        optimizer=optimizer,
        scheduler=scheduler,
        epochs=epochs,
        progress=False,
    )
    names = ("loss", "vote_accuracy", "learner_accuracy", "log_loss", "r_tl", "r_ll")
    return {name: history[name].tolist() for name in names}


def _sum_of(ensemble: Ensemble, n_classes: int) -> Readout:
    """Return the read-out by which averaged logits become summed ones."""
    scale = torch.full((ensemble.n_learners, 1, 1), float(ensemble.n_learners))
    return Readout(scale, torch.zeros(ensemble.n_learners, 1, n_classes))


def _without_readout(ensemble: Ensemble, images: Images, device: torch.device) -> dict[str, float]:
    """Return the scores of the soft vote without any read-out."""
    with without_readout(ensemble):
        found: dict[str, float] = evaluate(ensemble, images.x_test, images.y_test, device)["soft"]
    return found


def held_out(images: Images) -> Images:
    """Return images whose test images are the last training images."""
    x, y = images.x_train, images.y_train
    n_held = min(HELD_OUT, len(y) // 5)
    return replace(images, x_train=x[:-n_held], y_train=y[:-n_held], x_test=x[-n_held:], y_test=y[-n_held:])


def _work(point: Point, arm: str, seed: int, sets: ImageSets, device: torch.device) -> dict[str, Any]:
    images = sets[point.data]
    if point.rate is not None:
        return run(point, arm, seed, held_out(images), device)
    unknown = sets["cifar100"].x_test if point.robust else None
    return run(point, arm, seed, images, device, unknown)
