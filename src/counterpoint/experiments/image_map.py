"""When does explicit diversity pay on images? Small ConvNets of several widths on CIFAR-10, trained in many ways.

Each part of the map is one program that trains all its groups at once (:mod:`counterpoint.experiments._image_part`)
and leaves a file; a part whose file is there is not run again. ``python -m counterpoint.experiments.image_map RECORD
DOCUMENT PICTURE`` draws the picture and writes the tables of a record into a document again.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, check_count
from counterpoint.experiments._record import write_figure
from counterpoint.experiments._tables import fill, rich_table
from counterpoint.plots import house_style

if TYPE_CHECKING:
    from counterpoint.experiments._arms import Gate
    from counterpoint.experiments._image_part import Part

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
    from rich.console import Console

    from counterpoint.experiments._image_map_tables import draw, grids, in_markdown
    from counterpoint.experiments._image_part import run
    from counterpoint.experiments._image_record import join, keep, load_images, part_path
    from counterpoint.training.device import pick_device

    where = pick_device(device)
    n_seeds = int(check_count(seeds or (2 if smoke else 3), "seeds", minimum=1))
    images = load_images(data, smoke=smoke)
    folder, console, files = out / "image-map", Console(), []
    for part in plan(folder, n_seeds, smoke=smoke):
        wanted = parts is None or part.name.startswith(tuple(parts.split(",")))
        config = {**part._asdict(), "read_out": [arm.read_out for arm in part.arms]}
        work, began = partial(run, part, images, where), time.perf_counter()
        if wanted and keep(folder, part.name, work, title=TITLE, config=config, device=where):
            console.print(f"{part.name}: {time.perf_counter() - began:.1f} s")
        if (path := part_path(folder, part.name)).exists():
            files.append(path)
    if not files:
        raise ValueError(f"`parts` must name a part that can be run; got {parts!r}.")
    settings = {"smoke": smoke, "gate": choose_gate(folder)}
    path, record = join(out, "image-map", files, title=TITLE, config=settings)
    for grid in grids(record):
        console.print(rich_table(grid))
    page = out / "image-map.md"
    page.write_text(in_markdown(record), encoding="utf-8")
    return [path, page, *write_figure(draw(record), out, "image-map")]


def plan(folder: Path, n_seeds: int, *, smoke: bool = False) -> "Iterator[Part]":
    """Give the parts in order; those with ``"auto"`` use the gate chosen by then."""
    from counterpoint.experiments._arms import ARMS, Gate, gated
    from counterpoint.experiments._image_part import Part

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
    from counterpoint.experiments._arms import Gate
    from counterpoint.training.gate import DiversityGate

    own = DiversityGate()
    files = sorted(folder.glob("tune-*.json"))
    if not files:
        return Gate(own.start, own.end, own.by)
    ratios: FloatArray = np.zeros(1)
    for file in files:
        part = json.loads(file.read_text(encoding="utf-8"))
        errors = np.mean(part["data"]["held_out"]["read"]["soft"], axis=0)
        base = np.mean(part["data"]["held_out"]["raw"]["soft"], axis=0)[0]  # independent, without a read-out
        arms = part["config"]["arms"]
        ratios = ratios + np.array([e / base for e, arm in zip(errors, arms, strict=True) if arm["gate"]])
    gates = [arm["gate"] for arm in arms if arm["gate"]]
    return Gate(**gates[int(np.argmin(ratios))])


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one net with the parameters, and the cost, of so many."""
    return round(width * math.sqrt(n_learners))


if __name__ == "__main__":
    from counterpoint.experiments._image_map_tables import draw, in_markdown

    source, document, picture = map(Path, sys.argv[1:])
    numbers = json.loads(source.read_text(encoding="utf-8"))
    text = fill(document.read_text(encoding="utf-8"), "image-map", in_markdown(numbers))
    document.write_text(text, encoding="utf-8")
    with house_style():
        draw(numbers).savefig(picture, metadata={"Software": None})
