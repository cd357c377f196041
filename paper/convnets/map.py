"""When does explicit diversity pay on images? Small ConvNets of several widths on CIFAR-10, trained in many ways.

Each part of the map is one program that trains all its groups at once (:mod:`paper.convnets.part`)
and writes a file. A part is skipped if its file exists, also if that holds more arms than the plan asks for.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from counterpoint._validation import check_count
from counterpoint.records import Job, plain, read_record
from paper.convnets.arms import ARMS
from paper.convnets.map_tables import draw, grids
from paper.runner import Study, run_study

if TYPE_CHECKING:
    from paper.convnets.part import Part

__all__ = ["ROWS", "Row", "plan", "reproduce", "same_size"]

STUDY = Study(
    "image-map",
    "When does explicit diversity pay on images?",
    grids,
    lambda record: {"image-map": draw(record)},
)

WIDTHS = {2: 2, 4: 10, 8: 10, 16: 5, 32: 5, 64: 3}  # width -> learners; 2 is for smoke runs
ALONE = ("independent",)
PAIR = ("independent", "0.9")
SHORT = ("independent", "0.5", "0.9")
NARROW = ("independent", "joint", "0.0", "0.5", "0.9", "1.0", "1.1")
WIDE = ("independent", "joint", "0.0", "0.5", "0.9")
TRICKS = ("independent, then 0.9", "0.9, then independent", "error 0.5", "error 0.9")


class Row(NamedTuple):
    """Parts of one kind: their widths, the ways to train, and what differs from the usual."""

    kind: str
    widths: tuple[int, ...]
    arms: tuple[str, ...]
    settings: Mapping[str, Any] = MappingProxyType({})


_FEW = {"n_train": 5_000, "epochs": 40}
_OWN = {"own_views": True}

# The most telling parts first; those that take long and tell less last.
ROWS = (
    Row("width", (8, 4), NARROW),
    Row("width", (32,), WIDE),
    Row("width", (16,), NARROW),
    Row("once", (4, 8, 16, 32), SHORT, {"epochs": 1}),
    Row("width", (64,), PAIR),
    Row("single", (4, 8, 16, 32, 64), ALONE),
    Row("few", (4, 8, 32), PAIR, _FEW),
    Row("few", (16,), SHORT, _FEW),
    Row("tricks", (8,), TRICKS),
    Row("views", (8,), PAIR, _OWN),
    Row("learners-3", (8,), SHORT, {"n_learners": 3}),
    Row("learners-5", (8,), SHORT, {"n_learners": 5}),
    Row("learners-3", (32,), PAIR, {"n_learners": 3}),
    Row("learners-20", (8,), PAIR, {"n_learners": 20}),
    Row("tricks", (32,), TRICKS[::2]),
    Row("views", (32,), PAIR, _OWN),
)
_SMALL = {"n_learners": 2, "epochs": 1, "batch_size": 50}
SMOKE_ROWS = (
    Row("width", (2, 4), PAIR, _SMALL),
    Row("once", (2,), SHORT, _SMALL),
    Row("single", (2, 4), ALONE, _SMALL),
    Row("tricks", (2,), TRICKS, _SMALL),
    Row("views", (2,), PAIR, {**_SMALL, **_OWN}),
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
    """Run the parts of the map that have no file yet, and write a record of all parts.

    ``parts`` selects the parts to run: beginnings of their names, separated by commas.
    """
    from counterpoint.training import pick_device
    from paper.convnets.images import load_images
    from paper.convnets.part import run

    where = pick_device(device)
    n_seeds = int(check_count(seeds or (2 if smoke else 3), "seeds", minimum=1))
    folder = out / "image-map"
    images = load_images(data, smoke=smoke)
    jobs = [
        Job(part.name, _settings(part, folder), partial(run, part, images, where))
        for part in plan(n_seeds, smoke=smoke)
    ]
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)


def plan(n_seeds: int, *, smoke: bool = False) -> "Iterator[Part]":
    """Yield the parts in order."""
    from paper.convnets.part import Part

    for row in SMOKE_ROWS if smoke else ROWS:
        for width in row.widths:
            settings = {"n_learners": WIDTHS[width], **row.settings}
            part_width = width
            if row.kind == "single":
                part_width, settings["n_learners"] = same_size(width, settings["n_learners"]), 1
            arms, seeds = tuple(ARMS[name] for name in row.arms), tuple(range(n_seeds))
            yield Part(f"{row.kind}-{width}", part_width, arms=arms, seeds=seeds, **settings)


def _settings(part: "Part", folder: Path) -> Mapping[str, Any]:
    """Return the settings of a part: those on record, if it was run with these arms and maybe others.

    Arms on record may have fields that arms no longer have; only the fields of today are compared.
    """
    own: dict[str, Any] = plain({**part._asdict(), "read_out": [arm.read_out for arm in part.arms]})
    path = folder / f"{part.name}.json"
    if not path.is_file():
        return own
    known: dict[str, Any] = read_record(path)["config"]
    arms, recorded = (
        [{**arm, "read_out": read_out} for arm, read_out in zip(one["arms"], one["read_out"], strict=True)]
        for one in (own, known)
    )
    same = all(known.get(key) == value for key, value in own.items() if key not in ("arms", "read_out"))
    found = all(any(arm.items() <= other.items() for other in recorded) for arm in arms)
    return known if same and found else own


def same_size(width: int, n_learners: int) -> int:
    """Return the width of one network with the parameters, and the cost, of ``n_learners`` networks."""
    return round(width * math.sqrt(n_learners))
