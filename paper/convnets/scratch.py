"""``image-scratch``: fast networks trained from scratch on CIFAR-10, error against seconds.

Each job trains one ensemble of fast networks by the recipe in ``fast_recipe``: one network, or several that run as one
stacked program. The networks are independent, or they train with the dial of diversity or with averaged logits. All
losses of a seed start from the same weights and see the same batches.

The seconds cover the whole training with its augmentation. They exclude loading the images, the evaluation, and a
warm-up: before the clock starts, a copy of the ensemble trains on two batches, so that no job pays for the start of
CUDA or for cuDNN's search of kernels. The evaluation averages the logits of each test image and of its mirror image.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from counterpoint.datasets import Images
from counterpoint.measures import log_loss
from counterpoint.records import Job
from counterpoint.training import DiversityLoss, EnsembleLoss, IndependentLoss, JointLoss, pick_device
from counterpoint.vision import ImageBatches, predict_logits
from paper.convnets import fast_recipe
from paper.convnets.fast import FastEnsemble, fast_net
from paper.convnets.images import ImageSets
from paper.convnets.measures import learner_measures, vote_errors
from paper.convnets.scratch_tables import draw, grid
from paper.device import clock, kernel_search, to_device
from paper.runner import Study, run_study

__all__ = ["STUDY", "Point", "job_config", "make_loss", "plan", "reproduce", "run", "smooth"]

STUDY = Study(
    "image-scratch",
    "Fast networks from scratch: error against GPU seconds",
    lambda record: [grid(record)],
    lambda record: {"image-scratch": draw(record)},
)
N_CLASSES, N_SEEDS = 10, 3
WIDE = 10.0  # learning rate of airbench95, whose networks are nearly as wide as the widest ones here


class Point(NamedTuple):
    """Ensembles of one size and one loss; the defaults are the settings of airbench94."""

    width: int
    n_learners: int
    epochs: int
    loss: str = "independent"
    batch_size: int = 1024
    learning_rate: float = 11.5
    weight_decay: float = 0.0153

    @property
    def name(self) -> str:
        """Beginning of the names of its jobs."""
        return f"fast-{self.width}-n{self.n_learners}-e{self.epochs}-{self.loss}"


def plan(*, smoke: bool = False) -> Iterator[Point]:
    """Yield the points: first those that answer the question at small budgets, then the expensive ones.

    The dial is the default of :class:`~counterpoint.training.DiversityLoss`, ``1 - 1 / n_learners``, to two digits.
    """
    if smoke:
        yield Point(2, 1, 5, batch_size=50)
        for loss in ("independent", "0.5", "logits"):
            yield Point(2, 2, 1, loss, batch_size=50)
        return
    yield Point(32, 1, 10)
    for epochs in (5, 10, 20):
        yield Point(64, 1, epochs)
    for loss in ("independent", "0.75", "logits"):
        yield Point(32, 4, 10, loss)
    yield Point(128, 1, 10, learning_rate=WIDE)
    for loss in ("independent", "0.67", "logits"):
        yield Point(64, 3, 10, loss)
    for loss in ("independent", "0.9", "logits"):
        yield Point(16, 10, 10, loss)
    yield Point(64, 1, 40)
    yield Point(128, 1, 20, learning_rate=WIDE)
    for loss in ("independent", "0.67"):
        yield Point(64, 3, 20, loss)


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Train the ensembles that are not done yet, and write a record of all that are.

    All points of a seed run before the next seed. ``parts`` selects the jobs to run: beginnings of their names,
    separated by commas.
    """
    where, sets = pick_device(device), ImageSets(data, smoke=smoke)
    jobs = [
        Job(f"{point.name}-s{seed}", job_config(point, seed), partial(_work, point, sets, seed, where))
        for seed in range(seeds or (1 if smoke else N_SEEDS))
        for point in plan(smoke=smoke)
    ]
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)


def job_config(point: Point, seed: int) -> dict[str, Any]:
    """Return everything that the result of a job depends on."""
    return {"network": "fast", **point._asdict(), "seed": seed}


def run(point: Point, images: Images, seed: int, device: torch.device) -> Mapping[str, Any]:
    """Train an ensemble and return its measures on the test images, and its seconds."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learners = [fast_net(N_CLASSES, point.width) for _ in range(point.n_learners)]
    ensemble = cast(FastEnsemble, to_device(FastEnsemble(learners), device))
    every, size = len(images.y_train), 2 * point.batch_size
    all_images = _batches(images.x_train, images.y_train, device, batch_size=every)
    few_images = _batches(images.x_train[:size], images.y_train[:size], device, batch_size=size)
    with kernel_search():
        _train(copy.deepcopy(ensemble), point._replace(epochs=1), few_images, seed)  # the warm-up
        start = clock(device)
        _train(ensemble, point, all_images, seed)
        seconds = clock(device) - start
    return {
        "mirrored": _evaluate(ensemble, images, device),
        "seconds": seconds,
        "n_parameters": sum(p.numel() for p in ensemble.parameters()),
    }


def make_loss(name: str) -> EnsembleLoss:
    """Return the loss of a name: "independent", "logits" for averaged logits, or the dial of diversity.

    Examples
    --------
    >>> make_loss("logits"), make_loss("0.75")
    (JointLoss(pool='logits'), DiversityLoss(diversity=0.75, pool='logits'))
    """
    if name == "independent":
        return IndependentLoss()
    return JointLoss(pool="logits") if name == "logits" else DiversityLoss(float(name))


def smooth(labels: Tensor, n_classes: int, smoothing: float) -> Tensor:
    """Return targets (n, n_classes) that sum to one.

    Examples
    --------
    >>> smooth(torch.tensor([1]), n_classes=2, smoothing=0.5)
    tensor([[0.2500, 0.7500]])
    """
    return F.one_hot(labels, n_classes) * (1 - smoothing) + smoothing / n_classes


def _train(ensemble: FastEnsemble, point: Point, images: ImageBatches, seed: int) -> None:
    """Train on images that come as one batch."""
    ((x, y),) = images
    fast_recipe.train(
        ensemble,
        cast(Tensor, x),
        smooth(y, N_CLASSES, fast_recipe.SMOOTHING),
        loss=make_loss(point.loss),
        epochs=point.epochs,
        batch_size=point.batch_size,
        learning_rate=point.learning_rate,
        weight_decay=point.weight_decay,
        seed=seed,
    )


def _evaluate(ensemble: FastEnsemble, images: Images, device: torch.device) -> dict[str, float]:
    """Return the errors of several votes, the log-loss of the one that was trained, and measures of the learners."""
    y = images.y_test
    batches = _batches(images.x_test, y, device, batch_size=500)
    logits = predict_logits(ensemble, batches, flip=True, precision="float32")
    vote, geometric = (rule(logits).cpu().numpy() for rule in (ensemble.rule, ensemble.rule_for("geometric")))
    found = learner_measures(logits, y)
    return {
        "vote": _error(y, vote),
        "log_loss": log_loss(y, vote, labels=range(N_CLASSES)),
        **vote_errors(logits, y),
        "geometric": _error(y, geometric),
        "learner": found.pop("learner_error"),
        **found,
    }


def _batches(
    x: NDArray[np.uint8], y: NDArray[np.int64], device: torch.device, *, batch_size: int
) -> ImageBatches:
    """Return batches of images that are normalised as the recipe asks, and not augmented."""
    normal: dict[str, Any] = {"mean": fast_recipe.MEAN, "std": fast_recipe.STD}
    return ImageBatches(x, y, batch_size=batch_size, augment=False, device=device, **normal)


def _error(y: NDArray[np.int64], votes: NDArray[np.float32]) -> float:
    return float((votes.argmax(axis=1) != y).mean())


def _work(point: Point, sets: ImageSets, seed: int, device: torch.device) -> Mapping[str, Any]:
    images = sets["cifar10"]
    if sets.smoke:  # the networks need images of the size of CIFAR-10's
        images = replace(images, x_train=_enlarged(images.x_train), x_test=_enlarged(images.x_test))
    return run(point, images, seed, device)


def _enlarged(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.repeat(4, axis=1).repeat(4, axis=2)
