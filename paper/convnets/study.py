"""The jobs of ``image-dial`` and ``image-map``: ensembles of small ConvNets, each trained by the losses of one arm.

Each job is one ensemble, trained by :func:`counterpoint.training.fit`. All arms of a seed start from the same weights
and see the same batches, so their differences are paired. No epoch and no setting is chosen on the test images.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from counterpoint.datasets import Images
from counterpoint.records import Job
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    fit,
)
from counterpoint.vision import ImageBatches, backbone
from paper.convnets.images import ImageSets
from paper.convnets.measures import evaluate
from paper.device import clock

__all__ = ["ARMS", "THEN", "Point", "job_config", "jobs_of", "plan", "run"]

BATCH, LEARNING_RATE = 512, 1e-2
EVALUATED = 10_000  # training images that are evaluated without augmentation

ARMS: Mapping[str, Callable[[], EnsembleLoss]] = {
    "independent": IndependentLoss,
    **{f"{d}": partial(DiversityLoss, d) for d in (0.5, 0.8, 0.9)},
    "0.67": partial(DiversityLoss, 2 / 3),
    "joint-logits": partial(JointLoss, pool="logits"),
    "joint-proba": JointLoss,
    **{f"paper-{d}": partial(CorrelationLoss, d) for d in (0.0, 0.5, 0.9, 1.0, 1.1)},
}
THEN = "-then-"  # between the arms of the first and the second half of a training


class Point(NamedTuple):
    """Ensembles of one size on one image set, and the arms that are compared there."""

    name: str
    data: str
    width: int
    n_learners: int
    epochs: int
    arms: tuple[str, ...]
    n_train: int | None = None  # None is all images
    own_views: bool = False  # whether each learner sees an augmentation of its own


def plan(points: Iterable[Point], n_seeds: int) -> Iterator[tuple[str, Point, str, int]]:
    """Yield name, point, arm and seed of each job: all arms of a seed before the next seed."""
    for point in points:
        for seed in range(n_seeds):
            for arm in point.arms:
                yield f"{point.name}-s{seed}-{arm}", point, arm, seed


def jobs_of(points: Iterable[Point], n_seeds: int, sets: ImageSets, device: torch.device) -> list[Job]:
    """Return the jobs of a study."""
    return [
        Job(name, job_config(point, arm, seed), partial(_work, point, arm, seed, sets, device))
        for name, point, arm, seed in plan(points, n_seeds)
    ]


def job_config(point: Point, arm: str, seed: int) -> dict[str, Any]:
    """Return everything that the result of a job depends on."""
    settings = point._asdict()
    del settings["arms"], settings["name"]
    if point.n_train is None:
        del settings["n_train"]
    if not point.own_views:
        del settings["own_views"]
    return {**settings, "arm": arm, "seed": seed, "batch_size": BATCH, "learning_rate": LEARNING_RATE}


def run(point: Point, arm: str, seed: int, images: Images, device: torch.device) -> dict[str, Any]:
    """Train an ensemble and evaluate it on the test images, and under ``train`` on training images."""
    x, y = images.x_train[: point.n_train], images.y_train[: point.n_train]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learners = [
            backbone("convnet", len(images.class_names), width=point.width) for _ in range(point.n_learners)
        ]
    ensemble = Ensemble(learners).to(device)
    views = point.n_learners if point.own_views else None
    batches = ImageBatches(x, y, batch_size=min(BATCH, len(y)), random_state=seed, device=device, views=views)
    start = clock(device)
    history = _train(ensemble, batches, arm, point.epochs)
    seconds = clock(device) - start
    return {
        **evaluate(ensemble, images.x_test, images.y_test, device),
        "train": evaluate(ensemble, x[:EVALUATED], y[:EVALUATED], device),
        "history": history,
        "seconds": seconds,
        "n_parameters": sum(p.numel() for p in ensemble.parameters()),
    }


def _train(ensemble: Ensemble, batches: ImageBatches, arm: str, epochs: int) -> dict[str, list[float]]:
    """Train by the losses of an arm, each for its share of the epochs, and return the history."""
    optimizer = torch.optim.AdamW(ensemble.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=epochs * len(batches)
    )
    found: dict[str, list[float]] = {}
    stages = arm.split(THEN)
    for number, stage in enumerate(stages):
        history = fit(
            ensemble,
            batches,
            loss=ARMS[stage](),
            optimizer=optimizer,
            scheduler=scheduler,
            epochs=epochs * (number + 1) // len(stages) - epochs * number // len(stages),
            progress=False,
        )
        for name in ("loss", "vote_accuracy", "learner_accuracy", "log_loss", "r_tl", "r_ll"):
            found.setdefault(name, []).extend(history[name].tolist())
    return found


def _work(point: Point, arm: str, seed: int, sets: ImageSets, device: torch.device) -> dict[str, Any]:
    return run(point, arm, seed, sets[point.data], device)
