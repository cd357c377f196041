"""``image-dial``: losses of several diversities on CIFAR-10 and CIFAR-100."""

from pathlib import Path

from counterpoint.training import pick_device
from paper.convnets.dial_tables import draw, grids
from paper.convnets.images import ImageSets
from paper.convnets.study import Point, jobs_of
from paper.runner import Study, run_study

__all__ = ["POINTS", "SMOKE_POINTS", "STUDY", "reproduce"]

STUDY = Study(
    "image-dial", "The dial of diversity on images", grids, lambda record: {"image-dial": draw(record)}
)

NARROW = ("independent", "0.9", "paper-0.9", "joint-logits")  # of ten learners, whose default dial is 0.9
WIDE = ("independent", "0.9", "0.8")  # of five, whose default dial is 0.8
BASELINES = ("paper-0.9", "joint-logits", "joint-proba", "0.5")


def _point(data: str, width: int, n_learners: int, epochs: int, arms: tuple[str, ...]) -> Point:
    return Point(f"{data}-w{width}-e{epochs}", data, width, n_learners, epochs, arms)


POINTS = (
    _point("cifar10", 8, 10, 10, (*NARROW, "joint-proba", "0.5")),
    _point("cifar10", 32, 5, 30, WIDE),
    _point("cifar10", 32, 5, 10, (*WIDE, *BASELINES)),
    _point("cifar100", 8, 10, 10, NARROW),
    _point("cifar100", 32, 5, 10, (*WIDE, *BASELINES[:2])),
    _point("cifar100", 32, 5, 30, WIDE),
    _point("cifar10", 8, 10, 50, NARROW[:2]),
    _point("cifar10", 4, 10, 10, NARROW),
    _point("cifar10", 16, 5, 10, ("independent", "0.8", *BASELINES[:2])),
    _point(
        "cifar10", 64, 3, 10, ("independent", "0.67", *BASELINES[:2])
    ),  # of three, whose default dial is 2/3
)
SMOKE_POINTS = (
    _point(
        "digits", 2, 2, 1, ("independent", "0.5", "0.8", "0.9", "joint-logits", "joint-proba", "paper-0.9")
    ),
    _point("digits", 4, 2, 1, WIDE),
)


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs that are not done yet, and write a record of all that are.

    ``parts`` selects the jobs to run: beginnings of their names, separated by commas.
    """
    where = pick_device(device)
    points, n_seeds = (SMOKE_POINTS, seeds or 1) if smoke else (POINTS, seeds or 3)
    jobs = jobs_of(points, n_seeds, ImageSets(data, smoke=smoke), where)
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)
