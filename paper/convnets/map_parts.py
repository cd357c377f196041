"""The parts of the map of image ensembles, from records of two layouts.

A *part* is a point of the map with all its arms and seeds. Jobs of ``paper.convnets.study`` hold one arm and one seed
each. A part of the earlier program, which made the committed record, holds all its arms and seeds, and errors with and
without a read-out; the read-out counts where the loss leaves scale and offset of the outputs open.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEARNERS", "FloatArray", "Part", "Record", "gain", "parts_of"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

LEARNERS = (
    "r_tl",
    "r_ll",
    "optimality",
    "error_correlation",
)  # measures that both layouts have under one name


class Part(NamedTuple):
    """What was measured at a point of the map.

    Attributes
    ----------
    width, n_learners : int
        Size of the learners, and their number.
    found : mapping
        Values for each seed, by arm, images (``"test"`` or ``"train"``) and measure.
    """

    width: int
    n_learners: int
    found: Mapping[str, Mapping[str, Mapping[str, FloatArray]]]

    def values(self, arm: str, measure: str = "soft", images: str = "test") -> FloatArray:
        """Return a measure of an arm for each seed; ``"soft"`` is the error of the vote."""
        return self.found[arm][images][measure]


def parts_of(record: Record) -> dict[str, Part]:
    """Return the parts of a record of either layout, by name."""
    parts: dict[str, Part] = {}
    jobs: dict[str, list[Record]] = {}
    for name, piece in record["data"].items():
        config = piece["config"]
        if "arms" in config:
            parts[name] = _part_of_earlier_program(piece)
        else:
            jobs.setdefault(name.removesuffix(f"-s{config['seed']}-{config['arm']}"), []).append(piece)
    return parts | {name: _part_of_jobs(pieces) for name, pieces in jobs.items()}


def gain(part: Part, arm: str, images: str = "test") -> FloatArray:
    """Return the share of the errors of independent training that an arm removes, for each seed."""
    base = part.values("independent", images=images)
    removed: FloatArray = (base - part.values(arm, images=images)) / base
    return removed


def _part_of_earlier_program(piece: Record) -> Part:
    config, data = piece["config"], piece["data"]
    found = {}
    for place, (arm, read_out) in enumerate(zip(config["arms"], config["read_out"], strict=True)):
        measured = {images: data[images]["read" if read_out else "raw"] for images in ("test", "train")}
        found[arm["name"]] = {
            images: {name: np.array(values, dtype=float)[:, place] for name, values in each.items()}
            for images, each in measured.items()
        }
    return Part(config["width"], config["n_learners"], found)


def _part_of_jobs(pieces: Sequence[Record]) -> Part:
    """Return a part with the seeds that all its arms have."""
    by_arm: dict[str, dict[int, Record]] = {}
    for piece in pieces:
        by_arm.setdefault(_arm_name(piece["config"]["arm"]), {})[piece["config"]["seed"]] = piece["data"]
    seeds = sorted(set.intersection(*(set(each) for each in by_arm.values())))
    found = {
        arm: {
            "test": _measured([each[seed] for seed in seeds]),
            "train": _measured([each[seed]["train"] for seed in seeds]),
        }
        for arm, each in by_arm.items()
        if seeds
    }
    config = pieces[0]["config"]
    return Part(config["width"], config["n_learners"], found)


def _arm_name(arm: str) -> str:
    """Return the name of an arm in the tables, where a number is the diversity of the paper's loss."""
    return arm.replace("-then-", ", then ").replace("paper-", "").replace("joint-proba", "joint")


def _measured(data: Sequence[Record]) -> dict[str, FloatArray]:
    columns = {
        "soft": [one["vote"]["error"] for one in data],
        "learner": [one["learner_error"] for one in data],
    }
    columns |= {name: [one[name] for one in data] for name in LEARNERS}
    return {name: np.array(values, dtype=float) for name, values in columns.items()}
