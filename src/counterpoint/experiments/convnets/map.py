"""When does explicit diversity pay on images? Small ConvNets of several widths on CIFAR-10, trained in many ways.

Each part of the map is one program that trains all its groups at once (:mod:`counterpoint.experiments.convnets.part`)
and leaves a file; a part whose file is there is not run again, nor one that was run with more arms than are asked for.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint._plain import plain
from counterpoint._validation import check_count
from counterpoint.experiments._record import read_record
from counterpoint.experiments.convnets.arms import ARMS, TRIALS, Gate, gated, on_trial
from counterpoint.experiments.convnets.map_tables import arm_values, draw, grids

if TYPE_CHECKING:
    from counterpoint.experiments.convnets.part import Part

__all__ = ["ROWS", "Row", "choose_gate", "plan", "reproduce", "same_size"]

TITLE = "When does explicit diversity pay on images?"

WIDTHS = {2: 2, 4: 10, 8: 10, 16: 5, 32: 5, 64: 3}  # width -> learners; 2 is for smoke runs
ALONE = ("independent",)
GATED = ("independent", "auto")
FIXED = ("independent", "0.9")
PAIR = ("independent", "0.9", "auto")
SHORT = ("independent", "0.5", "0.9", "auto")
NARROW = ("independent", "joint", "0.0", "0.5", "0.9", "1.0", "1.1")
WIDE = ("independent", "joint", "0.0", "0.5", "0.9")
OPEN, SHUT = (
    (*ALONE, *(on_trial(trial, then).name for trial in TRIALS)) for then in ("0.9", "independent")
)  # as gates do that stay open, or shut
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

# What others depend on first, then the most telling; what takes long and tells less last. A fourth arm costs nothing
# where three of them would leave nets over that do not fill a group of a convolution.
ROWS = (
    Row("tune", (8,), OPEN, _TUNE),
    Row("tune", (32,), SHUT, _TUNE),
    Row("width", (8, 4), NARROW),
    Row("width", (32,), WIDE),
    Row("width", (16,), NARROW),
    Row("once", (4, 8, 16, 32), SHORT, {"epochs": 1}),
    Row("width", (64,), FIXED),
    Row("auto", (32, 64, 8, 4, 16), GATED),
    Row("single", (4, 8, 16, 32, 64), ALONE),
    Row("few", (4, 8, 32), FIXED, _FEW),
    Row("few", (16,), ("independent", "0.5", "0.9"), _FEW),
    Row("tricks", (8,), TRICKS),
    Row("views", (8,), FIXED, _OWN),
    Row("learners-3", (8,), SHORT, {"n_learners": 3}),
    Row("learners-5", (8,), SHORT, {"n_learners": 5}),
    Row("learners-3", (32,), PAIR, {"n_learners": 3}),
    Row("auto-few", (4, 8, 16, 32), GATED, _FEW),
    Row("learners-20", (8,), PAIR, {"n_learners": 20}),
    Row("tricks", (32,), TRICKS[::2]),
    Row("views", (32,), FIXED, _OWN),
)
_SMALL = {"n_learners": 2, "epochs": 1, "batch_size": 50}
SMOKE_ROWS = (
    Row("tune", (2,), OPEN, {**_SMALL, "n_held_out": 50}),
    Row("tune", (4,), SHUT, {**_SMALL, "n_held_out": 50}),
    Row("width", (2, 4), FIXED, _SMALL),
    Row("auto", (2, 4), GATED, _SMALL),
    Row("once", (2,), SHORT, _SMALL),
    Row("single", (2, 4), ALONE, _SMALL),
    Row("tricks", (2,), TRICKS, _SMALL),
    Row("views", (2,), FIXED, {**_SMALL, **_OWN}),
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
    from counterpoint.experiments.convnets.part import run
    from counterpoint.experiments.convnets.store import Job, check_kind, check_parts, collect, join, publish
    from counterpoint.training.device import pick_device

    check_kind(out, "image-map", smoke=smoke)
    where = pick_device(device)
    n_seeds = int(check_count(seeds or (2 if smoke else 3), "seeds", minimum=1))
    folder = out / "image-map"
    wanted = check_parts(parts, [part.name for part in plan(folder, n_seeds, smoke=smoke)])
    images = load_images(data, smoke=smoke)
    jobs = (
        Job(part.name, _settings(part, folder), partial(run, part, images, where))
        for part in plan(folder, n_seeds, smoke=smoke)
    )
    files = collect(jobs, folder, wanted, title=TITLE, device=where)
    settings = {"smoke": smoke, "gate": choose_gate(folder, smoke=smoke)}
    path, record = join(out, "image-map", files, title=TITLE, config=settings)
    return publish(path, grids(record), draw(record))


def plan(folder: Path, n_seeds: int, *, smoke: bool = False) -> "Iterator[Part]":
    """Give the parts in order, with the gate that is known by then."""
    from counterpoint.experiments.convnets.part import Part

    for row in SMOKE_ROWS if smoke else ROWS:
        arms = {**ARMS, "auto": gated(choose_gate(folder, smoke=smoke))}
        seeds = tuple(range(n_seeds))[: 2 if "n_held_out" in row.settings else None]
        for width in row.widths:
            settings = {"n_learners": WIDTHS[width], **row.settings}
            part_width = width
            if row.kind == "single":
                part_width, settings["n_learners"] = same_size(width, settings["n_learners"]), 1
            ways = tuple(arms[name] for name in row.arms)
            yield Part(f"{row.kind}-{width}", part_width, arms=ways, seeds=seeds, **settings)


def choose_gate(folder: Path, *, smoke: bool = False) -> Gate:
    """Return the gate that the tuned widths give; before they are known, that of the library.

    Narrow nets are to stay open and wide ones are not. The trial is the one after which the two, each having gone on
    as it is to, err least on held-out training images. The threshold is the middle between what a gate sees of them by
    then, on their training batches.
    """
    from counterpoint.training.gate import DiversityGate

    widths = (width for row in (SMOKE_ROWS if smoke else ROWS) if row.kind == "tune" for width in row.widths)
    files = [folder / f"tune-{width}.json" for width in widths]
    if not all(file.is_file() for file in files):
        own = DiversityGate()
        return Gate(own.threshold, own.trial)
    errors, fits = [], []
    for part in map(read_record, files):
        _, *trials = (arm["name"] for arm in part["config"]["arms"])  # in the order of TRIALS, after ALONE
        errors.append([arm_values(part, trial, kind="held_out").mean() for trial in trials])
        fits.append(np.diagonal(np.mean(part["data"]["fits"], axis=1)[:, 1:]))  # each at its own end
    best = int(np.argmin(np.sum(errors, axis=0)))
    return Gate(round(float(np.mean(fits, axis=0)[best]), 2), TRIALS[best])


def _settings(part: "Part", folder: Path) -> Mapping[str, Any]:
    """Return the settings of a part: those on record, if it was run with these arms and others."""
    own: dict[str, Any] = plain({**part._asdict(), "read_out": [arm.read_out for arm in part.arms]})
    path = folder / f"{part.name}.json"
    if not path.is_file():
        return own
    known: dict[str, Any] = read_record(path)["config"]
    ways, more = (list(zip(one["arms"], one["read_out"], strict=True)) for one in (own, known))
    same = all(known.get(key) == value for key, value in own.items() if key not in ("arms", "read_out"))
    return known if same and all(way in more for way in ways) else own


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one net with the parameters, and the cost, of so many."""
    return round(width * math.sqrt(n_learners))
