"""``image-map``: when does explicit diversity pay on images? Several widths and diversities on CIFAR-10.

The committed record was made by an earlier program and has a layout of its own, which ``map_parts`` still reads. It
also holds arms that this study does not have, a penalty on the correlation of errors.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from counterpoint.records import read_record
from counterpoint.training import pick_device
from paper.convnets.images import ImageSets
from paper.convnets.map_tables import draw, grids
from paper.convnets.study import THEN, Point, jobs_of
from paper.runner import Study, run_study

__all__ = ["STUDY", "points", "reproduce", "same_size"]

STUDY = Study(
    "image-map",
    "When does explicit diversity pay on images?",
    grids,
    lambda record: {"image-map": draw(record)},
)

WIDTHS = {2: 2, 4: 10, 8: 10, 16: 5, 32: 5, 64: 3}  # width -> learners; 2 is for smoke runs
ALONE = ("independent",)
PAIR = ("independent", "paper-0.9")
SHORT = ("independent", "paper-0.5", "paper-0.9")
WIDE = ("independent", "joint-proba", "paper-0.0", "paper-0.5", "paper-0.9")
NARROW = (*WIDE, "paper-1.0", "paper-1.1")
HALVES = (f"independent{THEN}paper-0.9", f"paper-0.9{THEN}independent")


class _Row(NamedTuple):
    """Points of one kind: their widths, their arms, and what differs from the usual."""

    kind: str
    widths: tuple[int, ...]
    arms: tuple[str, ...]
    settings: Mapping[str, Any] = MappingProxyType({})


_FEW = {"n_train": 5_000, "epochs": 40}
_OWN = {"own_views": True}

# The most informative first; long ones that tell less last.
_ROWS = (
    _Row("width", (8, 4), NARROW),
    _Row("width", (32,), WIDE),
    _Row("width", (16,), NARROW),
    _Row("once", (4, 8, 16, 32), SHORT, {"epochs": 1}),
    _Row("width", (64,), PAIR),
    _Row("single", (4, 8, 16, 32, 64), ALONE),
    _Row("few", (4, 8, 32), PAIR, _FEW),
    _Row("few", (16,), SHORT, _FEW),
    _Row("tricks", (8,), HALVES),
    _Row("views", (8,), PAIR, _OWN),
    _Row("learners-3", (8,), SHORT, {"n_learners": 3}),
    _Row("learners-5", (8,), SHORT, {"n_learners": 5}),
    _Row("learners-3", (32,), PAIR, {"n_learners": 3}),
    _Row("learners-20", (8,), PAIR, {"n_learners": 20}),
    _Row("tricks", (32,), HALVES[:1]),
    _Row("views", (32,), PAIR, _OWN),
)
_SMALL = {"n_learners": 2, "epochs": 1, "data": "digits"}
_SMOKE_ROWS = (
    _Row("width", (2, 4), PAIR, _SMALL),
    _Row("once", (2,), SHORT, _SMALL),
    _Row("single", (2, 4), ALONE, _SMALL),
    _Row("tricks", (2,), HALVES, {**_SMALL, "epochs": 2}),
    _Row("views", (2,), PAIR, {**_SMALL, **_OWN}),
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
    _check_folder(out)
    where = pick_device(device)
    n_seeds = seeds or (2 if smoke else 3)
    jobs = jobs_of(points(smoke=smoke), n_seeds, ImageSets(data, smoke=smoke), where)
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)


def points(*, smoke: bool = False) -> Iterator[Point]:
    """Yield the points of the map in the order in which to run them."""
    for row in _SMOKE_ROWS if smoke else _ROWS:
        for width in row.widths:
            settings = {"data": "cifar10", "n_learners": WIDTHS[width], "epochs": 10, **row.settings}
            point = Point(f"{row.kind}-{width}", width=width, arms=row.arms, **settings)
            if row.kind == "single":
                point = point._replace(width=same_size(width, point.n_learners), n_learners=1)
            yield point


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one network with the parameters, and the cost, of ``n_learners`` networks."""
    return round(width * math.sqrt(n_learners))


def _check_folder(out: Path) -> None:
    """Refuse to replace a record of the earlier program, whose parts each hold several arms."""
    path = out / f"{STUDY.name}.json"
    pieces = read_record(path, "config").get("data", {}).values() if path.is_file() else ()
    if any("arms" in piece["config"] for piece in pieces):
        raise ValueError(
            f"`out` must be a folder without {path.name} of the earlier study program; got '{out}'."
        )
