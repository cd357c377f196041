"""When does explicit diversity pay on images? Small ConvNets of several widths on CIFAR-10, trained in many ways.

Each part of the map is one program that trains all its groups at once (:mod:`counterpoint.experiments.convnets.part`)
and leaves a file; a part whose file is there is not run again.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, check_count
from counterpoint.experiments._record import read_record

if TYPE_CHECKING:
    from counterpoint.experiments.convnets.arms import Gate
    from counterpoint.experiments.convnets.part import Part

__all__ = ["ROWS", "Row", "choose_gate", "plan", "reproduce", "same_size"]

TITLE = "When does explicit diversity pay on images?"

WIDTHS = {2: 2, 4: 10, 8: 10, 16: 5, 32: 5, 64: 3}  # width -> learners; 2 is for smoke runs
GATES = {
    "optimality 0.75 to 0.85": (0.75, 0.85, "optimality"),
    "optimality 0.78 to 0.88": (0.78, 0.88, "optimality"),
    "optimality 0.8 to 0.9": (0.8, 0.9, "optimality"),
    "r_TL 0.45 to 0.65": (0.45, 0.65, "r_tl"),
}
ALONE = ("independent",)
PAIR = ("independent", "0.9", "auto")
SHORT = ("independent", "0.5", "0.9", "auto")
NARROW = ("independent", "joint", "0.0", "0.5", "0.9", "1.0", "1.1", "auto")
WIDE = ("independent", "joint", "0.0", "0.5", "0.9", "auto")
TRICKS = ("independent, then 0.9", "0.9, then independent", "error 0.5", "error 0.9")


class Row(NamedTuple):
    """Parts of one kind: their widths, the ways to train, and what differs from the usual."""

    kind: str
    widths: tuple[int, ...]
    arms: tuple[str, ...]
    settings: Mapping[str, Any] = MappingProxyType({})


_TUNE = {"n_held_out": 5_000}
_FEW = {"n_train": 5_000, "epochs": 40}
_OWN = {"own_views": True}

# The most telling first, what takes long and tells less last.
ROWS = (
    Row("tune", (8, 32), (*ALONE, *GATES), _TUNE),
    Row("width", (8, 4), NARROW),
    Row("width", (32,), WIDE),
    Row("width", (16,), NARROW),
    Row("width", (64,), PAIR),
    Row("once", (4, 8, 16, 32), SHORT, {"epochs": 1}),
    Row("single", (4, 8, 16), ALONE),
    Row("tricks", (8,), TRICKS),
    Row("few", (8, 4, 16), SHORT, _FEW),
    Row("views", (8,), PAIR[:2], _OWN),
    Row("learners-3", (8,), SHORT, {"n_learners": 3}),
    Row("learners-5", (8,), SHORT, {"n_learners": 5}),
    Row("single", (32, 64), ALONE),
    Row("tricks", (32,), TRICKS[::2]),
    Row("few", (32,), PAIR, _FEW),
    Row("views", (32,), PAIR[:2], _OWN),
    Row("learners-3", (32,), PAIR, {"n_learners": 3}),
)
_SMALL = {"n_learners": 2, "epochs": 1, "batch_size": 50}
SMOKE_ROWS = (
    Row("tune", (2, 4), (*ALONE, *GATES), {**_SMALL, "n_held_out": 50}),
    Row("width", (2, 4), SHORT, _SMALL),
    Row("single", (2, 4), ALONE, _SMALL),
    Row("tricks", (2,), TRICKS, _SMALL),
    Row("views", (2,), PAIR[:2], {**_SMALL, **_OWN}),
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
    """Run the parts of the map that are not there yet; write all that are.

    ``parts`` holds the beginnings of the names of the parts to run, with commas between them.
    """
    from counterpoint.experiments.convnets.images import load_images
    from counterpoint.experiments.convnets.map_tables import draw, grids
    from counterpoint.experiments.convnets.part import run
    from counterpoint.experiments.convnets.store import Job, collect, join, publish
    from counterpoint.training.device import pick_device

    where = pick_device(device)
    n_seeds = int(check_count(seeds or (2 if smoke else 3), "seeds", minimum=1))
    images = load_images(data, smoke=smoke)
    folder = out / "image-map"
    jobs = (
        Job(
            part.name,
            {**part._asdict(), "read_out": [arm.read_out for arm in part.arms]},
            partial(run, part, images, where),
        )
        for part in plan(folder, n_seeds, smoke=smoke)
    )
    files = collect(jobs, folder, parts, title=TITLE, device=where)
    settings = {"smoke": smoke, "gate": choose_gate(folder)}
    path, record = join(out, "image-map", files, title=TITLE, config=settings)
    return publish(path, grids(record), draw(record))


def plan(folder: Path, n_seeds: int, *, smoke: bool = False) -> "Iterator[Part]":
    """Give the parts in order; those with ``"auto"`` use the gate chosen by then."""
    from counterpoint.experiments.convnets.arms import ARMS, Gate, gated
    from counterpoint.experiments.convnets.part import Part

    gates = {name: gated(Gate(*gate), name) for name, gate in GATES.items()}
    for row in SMOKE_ROWS if smoke else ROWS:
        arms = {**ARMS, **gates, "auto": gated(choose_gate(folder))}
        seeds = tuple(range(n_seeds))[: 2 if row.kind == "tune" else None]
        for width in row.widths:
            settings = {"n_learners": WIDTHS[width], **row.settings}
            part_width = width
            if row.kind == "single":
                part_width, settings["n_learners"] = same_size(width, settings["n_learners"]), 1
            ways = tuple(arms[name] for name in row.arms)
            yield Part(f"{row.kind}-{width}", part_width, arms=ways, seeds=seeds, **settings)


def choose_gate(folder: Path) -> "Gate":
    """Return the gate that serves the tuned widths best, by the error on held-out training images.

    The one with the least sum over the widths of its error over that of independent training; without those parts, the
    gate of the library.
    """
    from counterpoint.experiments.convnets.arms import Gate
    from counterpoint.training.gate import DiversityGate

    own = DiversityGate()
    files = sorted(folder.glob("tune-*.json"))
    if not files:
        return Gate(own.start, own.end, own.by)
    ratios: FloatArray = np.zeros(1)
    for file in files:
        part = read_record(file)
        errors = np.mean(part["data"]["held_out"]["read"]["soft"], axis=0)
        base = np.mean(part["data"]["held_out"]["raw"]["soft"], axis=0)[0]  # independent, without a read-out
        arms = part["config"]["arms"]
        ratios = ratios + np.array([e / base for e, arm in zip(errors, arms, strict=True) if arm["gate"]])
    gates = [arm["gate"] for arm in arms if arm["gate"]]
    return Gate(**gates[int(np.argmin(ratios))])


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one net with the parameters, and the cost, of so many."""
    return round(width * math.sqrt(n_learners))
