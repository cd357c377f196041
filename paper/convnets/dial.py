"""The dial of diversity on images, with the public API alone.

Each job trains one ensemble of small ConvNets by one loss. All arms of a seed start from the same weights and see the
same batches, so their differences are paired. No epoch and no setting is chosen on the test images.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from counterpoint._validation import FloatArray, IntArray, check_count
from counterpoint.datasets import load_cifar100
from counterpoint.datasets.cifar import Images
from counterpoint.measures import brier_score, calibration_error, combine, log_loss
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    correlations,
    fit,
    pick_device,
)
from counterpoint.vision import ImageBatches, backbone, predict_logits, predict_proba
from paper.convnets.dial_tables import draw, grids
from paper.convnets.images import load_images
from paper.convnets.store import Job, check_kind, check_parts, collect, join, publish
from paper.device import clock

__all__ = ["ARMS", "Point", "plan", "reproduce", "run"]

TITLE = "The dial of diversity on images"
BATCH, LEARNING_RATE = 512, 1e-2

ARMS: Mapping[str, Callable[[], EnsembleLoss]] = {
    "independent": IndependentLoss,
    "0.5": partial(DiversityLoss, 0.5),
    "0.8": partial(DiversityLoss, 0.8),
    "0.9": partial(DiversityLoss, 0.9),
    "joint-logits": partial(JointLoss, pool="logits"),
    "joint-proba": JointLoss,
    "paper-0.9": partial(CorrelationLoss, 0.9),
}
NARROW = ("independent", "0.9", "paper-0.9", "joint-logits")  # of ten learners, whose default dial is 0.9
WIDE = ("independent", "0.9", "0.8")  # of five, whose default dial is 0.8
BASELINES = ("paper-0.9", "joint-logits", "joint-proba", "0.5")


class Point(NamedTuple):
    """So many networks of a width, for so many epochs, and the losses that are compared."""

    data: str
    width: int
    n_learners: int
    epochs: int
    arms: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its jobs begin with."""
        return f"{self.data}-w{self.width}-e{self.epochs}"


POINTS = (
    Point("cifar10", 8, 10, 10, (*NARROW, "joint-proba", "0.5")),
    Point("cifar10", 32, 5, 30, WIDE),
    Point("cifar10", 32, 5, 10, (*WIDE, *BASELINES)),
    Point("cifar100", 8, 10, 10, NARROW),
    Point("cifar100", 32, 5, 10, (*WIDE, *BASELINES[:2])),
    Point("cifar100", 32, 5, 30, WIDE),
    Point("cifar10", 8, 10, 50, NARROW[:2]),
)
SMOKE = (
    Point("digits", 2, 2, 1, tuple(ARMS)),
    Point("digits", 4, 2, 1, WIDE),
)


def plan(n_seeds: int, *, smoke: bool = False) -> Iterator[tuple[str, Point, str, int]]:
    """Yield the jobs, by name, point, arm and seed: all arms of a seed before the next seed."""
    for point in SMOKE if smoke else POINTS:
        for seed in range(n_seeds):
            for arm in point.arms:
                yield f"{point.name}-s{seed}-{arm}", point, arm, seed


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs that are not there yet; write all that are.

    ``parts`` holds the beginnings of the names of the jobs to run, with commas between them.
    """
    check_kind(out, "image-dial", smoke=smoke)
    where = pick_device(device)
    n_seeds = int(check_count(seeds or (1 if smoke else 3), "seeds", minimum=1))
    jobs = list(plan(n_seeds, smoke=smoke))
    wanted = check_parts(parts, [name for name, *_ in jobs])
    sets = _Sets(data, smoke=smoke)
    files = collect(
        (
            Job(name, _config(point, arm, seed), partial(_work, point, arm, seed, sets, where))
            for name, point, arm, seed in jobs
        ),
        out / "image-dial",
        wanted,
        title=TITLE,
        device=where,
    )
    path, record = join(out, "image-dial", files, title=TITLE, config={"smoke": smoke})
    return publish(path, grids(record), draw(record))


def run(point: Point, arm: str, seed: int, images: Images, device: torch.device) -> dict[str, Any]:
    """Train an ensemble and return what its vote, and its learners, say of the test images."""
    n_classes = len(images.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        nets = [backbone("convnet", n_classes, width=point.width) for _ in range(point.n_learners)]
    ensemble = Ensemble(nets).to(device)
    size = min(BATCH, len(images.y_train))
    batches = ImageBatches(images.x_train, images.y_train, batch_size=size, random_state=seed, device=device)
    steps = point.epochs * len(batches)
    start = clock(device)
    history = fit(
        ensemble,
        batches,
        loss=ARMS[arm](),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
            optimizer, LEARNING_RATE, total_steps=steps
        ),
        epochs=point.epochs,
        progress=False,
    )
    seconds = clock(device) - start
    test = ImageBatches(images.x_test, images.y_test, batch_size=500, augment=False, device=device)
    learners = predict_logits(ensemble, test).softmax(-1)
    y = torch.as_tensor(images.y_test, device=device)
    r_tl, r_ll = correlations(learners, y)
    proba = learners.cpu().double().numpy()
    votes = {"vote": predict_proba(ensemble, test).cpu().double().numpy()}
    votes |= {voting: combine(proba, voting=voting) for voting in ("soft", "geometric")}
    return {
        **{name: _scores(images.y_test, vote) for name, vote in votes.items()},
        "learner_error": float((learners.argmax(-1) != y).float().mean()),
        "r_tl": float(r_tl),
        "r_ll": float(r_ll),
        "history": {
            name: history[name] for name in ("loss", "vote_accuracy", "learner_accuracy", "log_loss")
        },
        "seconds": seconds,
    }


class _Sets:
    """The images by name, each read once and only if a job needs it."""

    def __init__(self, data: Path | None, *, smoke: bool) -> None:
        self.data, self.smoke = data, smoke
        self.read: dict[str, Images] = {}

    def __getitem__(self, name: str) -> Images:
        if name not in self.read:
            hundred = name == "cifar100"
            self.read[name] = (
                load_cifar100(self.data) if hundred else load_images(self.data, smoke=self.smoke)
            )
        return self.read[name]


def _work(point: Point, arm: str, seed: int, sets: _Sets, device: torch.device) -> dict[str, Any]:
    return run(point, arm, seed, sets[point.data], device)


def _config(point: Point, arm: str, seed: int) -> dict[str, Any]:
    settings = point._asdict()
    del settings["arms"]
    return {**settings, "arm": arm, "seed": seed, "batch_size": BATCH, "learning_rate": LEARNING_RATE}


def _scores(y: IntArray, proba: FloatArray) -> dict[str, float]:
    labels = range(proba.shape[1])
    return {
        "error": float((proba.argmax(axis=1) != y).mean()),
        "log_loss": log_loss(y, proba, labels=labels),
        "brier_score": brier_score(y, proba, labels=labels),
        "calibration_error": calibration_error(y, proba, labels=labels),
    }
