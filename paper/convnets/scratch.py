"""``image-scratch``: ensembles trained from scratch on CIFAR-10, their error against seconds.

The learners of an ensemble train together on shared batches by :func:`counterpoint.training.fit`, each by its own
cross-entropy with smoothed labels: Nesterov momentum, and a learning rate that goes up and down in straight lines. The
network ``"fast"`` has a recipe of its own, in ``fast_recipe``. The seconds are those of the whole training with its
augmentation, without loading the images and without the evaluation. The evaluation averages each image with its mirror
image, and for fast networks also, as a figure of its own, with two shifts of both, as the published records do.

The committed jobs were measured with an earlier loop that recorded its steps as CUDA graphs; their settings have no
``loop``, so a new run does not continue them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.datasets import Images
from counterpoint.records import Job
from counterpoint.training import Ensemble, IndependentLoss, fit, pick_device
from counterpoint.vision import ImageBatches, backbone, predict_logits
from paper.convnets import fast_recipe
from paper.convnets.fast import fast_net
from paper.convnets.images import ImageSets
from paper.convnets.measures import learner_measures, vote_errors
from paper.convnets.scratch_tables import draw, grid
from paper.device import clock, kernel_search, to_device
from paper.runner import Study, run_study

__all__ = ["STUDY", "Point", "job_config", "plan", "reproduce", "run"]

STUDY = Study(
    "image-scratch",
    "Ensembles from scratch: error against GPU seconds",
    lambda record: [grid(record)],
    lambda record: {"image-scratch": draw(record)},
)
SMOOTHING = 0.1
FAST = (11.5, 0.0153)  # learning rate and weight decay of airbench94, for 1024 images
FAST_WIDE = (10.0, 0.0153)  # of airbench95, whose networks are nearly as wide as the wider ones here
PEAK = 0.25  # share of the training at which the learning rate is highest

_independent = IndependentLoss()


class Point(NamedTuple):
    """Ensembles of one size; learning rate and weight decay are in the units of the network's recipe."""

    network: str
    width: int
    n_learners: int
    epochs: int
    n_seeds: int
    batch_size: int = 512
    learning_rate: float = 0.4
    weight_decay: float = 5e-4

    @property
    def name(self) -> str:
        """Beginning of the names of its jobs."""
        return f"{self.network}-{self.width}-n{self.n_learners}-e{self.epochs}"


def plan(*, smoke: bool = False) -> Iterator[Point]:
    """Yield the points, cheapest first."""
    if smoke:
        for network, n in (("convnet", 1), ("convnet", 2), ("cifar_resnet18", 2)):
            yield Point(network, 2, n, 1, 2, batch_size=50)
        yield Point("fast", 2, 2, 5, 1, 50, *FAST)
        return
    for n in (1, 3, 5, 10):
        yield Point("convnet", 64, n, 8, 3)
    yield Point("convnet", 32, 10, 8, 3)
    for n in (1, 3, 5, 10):
        yield Point("fast", 64, n, 10, 3, 1024, *FAST)
    for n in (1, 5):
        yield Point("fast", 64, n, 20, 1, 1024, *FAST)
    for n in (1, 3):
        yield Point("fast", 128, n, 20, 1, 1024, *FAST_WIDE)
    yield Point("cifar_resnet18", 64, 1, 10, 3)


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

    ``parts`` selects the jobs to run: beginnings of their names, separated by commas; ``seeds`` is the highest number
    of seeds of any point.
    """
    where, sets = pick_device(device), ImageSets(data, smoke=smoke)
    jobs = [
        Job(f"{point.name}-s{seed}", job_config(point, seed), partial(_work, point, sets, seed, where))
        for point in plan(smoke=smoke)
        for seed in range(min(seeds or point.n_seeds, point.n_seeds))
    ]
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)


def job_config(point: Point, seed: int) -> dict[str, Any]:
    """Return everything that the result of a job depends on."""
    return {**point._asdict(), "seed": seed, "loop": "fit"}


def run(point: Point, images: Images, seed: int, device: torch.device) -> Mapping[str, Any]:
    """Train an ensemble and return its errors on the test images, with and without mirroring, and its seconds."""
    n_classes = len(images.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learners = [_network(point, n_classes) for _ in range(point.n_learners)]
    n_parameters = sum(p.numel() for learner in learners for p in learner.parameters())
    ensemble = cast(Ensemble, to_device(Ensemble(learners), device))
    with kernel_search():
        train = _train_fast if point.network == "fast" else _train
        seconds = train(ensemble, point, images, seed, device)
        found = _evaluate(ensemble, images, device, fast=point.network == "fast")
    return {**found, "seconds": seconds, "n_parameters": n_parameters}


class SmoothLabels:
    """Batches with smoothed one-hot targets.

    Parameters
    ----------
    batches : ImageBatches
        Images with labels.
    n_classes : int
        Number of classes.
    smoothing : float
        Share of the target that is spread evenly over the classes.
    """

    def __init__(self, batches: ImageBatches, n_classes: int, smoothing: float) -> None:
        self.batches, self.n_classes, self.smoothing = batches, n_classes, smoothing

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        for x, y in self.batches:
            yield x, smooth(y, self.n_classes, self.smoothing)


def smooth(labels: Tensor, n_classes: int, smoothing: float) -> Tensor:
    """Return targets (n, n_classes) that sum to one."""
    return F.one_hot(labels, n_classes) * (1 - smoothing) + smoothing / n_classes


def loss_per_learner(logits: Tensor, target: Tensor) -> Tensor:
    """Return the sum of the learners' cross-entropies: each gets the gradient that it would have alone."""
    total: Tensor = len(logits) * _independent(logits, target)
    return total


def rate_share(step: int, n_steps: int) -> float:
    """Return the share of the highest learning rate that a step has: up and down to zero, in straight lines."""
    place = (step + 1) / n_steps
    return max(min(place / PEAK, (1 - place) / (1 - PEAK)), 0.0)


def _train(ensemble: Ensemble, point: Point, images: Images, seed: int, device: torch.device) -> float:
    """Train and return the seconds it took."""
    source = ImageBatches(
        images.x_train, images.y_train, batch_size=point.batch_size, random_state=seed, device=device
    )
    batches = SmoothLabels(source, len(images.class_names), SMOOTHING)
    n_steps = point.epochs * len(batches)
    began = clock(device)
    fit(
        ensemble,
        batches,
        loss=loss_per_learner,
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, point.learning_rate, momentum=0.9, nesterov=True, weight_decay=point.weight_decay
        ),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: rate_share(step, n_steps)
        ),
        scheduler_steps="batch",
        epochs=point.epochs,
        progress=False,
    )
    return clock(device) - began


def _train_fast(ensemble: Ensemble, point: Point, images: Images, seed: int, device: torch.device) -> float:
    """Train by the recipe of the fast networks and return the seconds it took."""
    source = ImageBatches(
        images.x_train,
        images.y_train,
        batch_size=len(images.y_train),
        augment=False,
        mean=fast_recipe.MEAN,
        std=fast_recipe.STD,
        device=device,
    )
    began = clock(device)
    ((x, y),) = source
    fast_recipe.train(
        ensemble,
        cast(Tensor, x),
        smooth(y, len(images.class_names), fast_recipe.SMOOTHING),
        epochs=point.epochs,
        batch_size=point.batch_size,
        learning_rate=point.learning_rate,
        weight_decay=point.weight_decay,
        seed=seed,
    )
    return clock(device) - began


def _work(point: Point, sets: ImageSets, seed: int, device: torch.device) -> Mapping[str, Any]:
    images = sets["cifar10"]
    if sets.smoke:  # the fast networks need images of the size of CIFAR-10's
        images = replace(images, x_train=_enlarged(images.x_train), x_test=_enlarged(images.x_test))
    return run(point, images, seed, device)


def _network(point: Point, n_classes: int) -> nn.Module:
    if point.network == "fast":
        return fast_net(n_classes, point.width)
    return backbone(point.network, n_classes, width=point.width)


def _evaluate(
    ensemble: Ensemble, images: Images, device: torch.device, *, fast: bool
) -> dict[str, dict[str, float]]:
    """Return errors and correlations for each way to look at the test images."""
    options: dict[str, Any] = {"mean": fast_recipe.MEAN, "std": fast_recipe.STD} if fast else {}
    batches = ImageBatches(
        images.x_test, images.y_test, batch_size=500, augment=False, device=device, **options
    )

    def logits(shift: int = 0, *, flip: bool = True) -> Tensor:
        shifted = ((_shifted(cast(Tensor, x), shift), y) for x, y in batches)
        return predict_logits(ensemble, shifted, flip=flip, precision="float32" if fast else "auto")

    mirrored = logits()
    views = {"plain": logits(flip=False), "mirrored": mirrored}
    if fast:
        views["shifted"] = (2 * mirrored + logits(-1) + logits(1)) / 4
    return {kind: _measures(view, images.y_test) for kind, view in views.items()}


def _measures(logits: Tensor, y: NDArray[np.int64]) -> dict[str, float]:
    found = learner_measures(logits, y)
    return {**vote_errors(logits, y), "learner": found.pop("learner_error"), **found}


def _shifted(x: Tensor, by: int) -> Tensor:
    """Return images moved down and right by a number of pixels, with reflection at the borders."""
    if not by:
        return x
    far = abs(by)
    height, width = x.shape[2:]
    padded = F.pad(x, (far,) * 4, "reflect")
    return padded[:, :, far - by : far - by + height, far - by : far - by + width]


def _enlarged(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.repeat(4, axis=1).repeat(4, axis=2)
