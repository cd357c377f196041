"""Table and figure of fast networks from scratch: error against seconds, and the frontier of both."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import Grid, mean, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Ensembles", "draw", "frontier", "grid", "points"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

NAMES = {"independent": "independent", "logits": "averaged logits"}  # other losses are dials
# Label, colour and marker of each kind of ensemble.
KINDS = {
    "single": ("one network", "ink", "o"),
    "independent": ("independent networks", "blue", "s"),
    "dial": ("networks with the dial", "orange", "D"),
    "logits": ("networks with averaged logits", "teal", "^"),
}


class Ensembles(NamedTuple):
    """The ensembles of one point, which differ in their seeds only."""

    width: int
    n_learners: int
    epochs: int
    loss: str
    runs: Sequence[Mapping[str, Any]]

    @property
    def kind(self) -> str:
        """Key of ``KINDS``."""
        if self.n_learners == 1:
            return "single"
        return self.loss if self.loss in NAMES else "dial"

    @property
    def seconds(self) -> FloatArray:
        """Seconds of training of each seed."""
        return np.array([run["seconds"] for run in self.runs])

    @property
    def error(self) -> FloatArray:
        """Error in % of the vote that the loss trains."""
        return 100 * self.measure("vote")

    def measure(self, name: str) -> FloatArray:
        """Return a measure of each seed."""
        return np.array([run["mirrored"][name] for run in self.runs])


def points(record: Record) -> list[Ensembles]:
    """Return the ensembles in a record, fastest first."""
    found: dict[tuple[int, int, int, str], list[Mapping[str, Any]]] = {}
    for job in record["data"].values():
        config = job["config"]
        key = (config["width"], config["n_learners"], config["epochs"], config["loss"])
        found.setdefault(key, []).append(job["data"])
    return sorted((Ensembles(*key, runs) for key, runs in found.items()), key=lambda e: e.seconds.mean())


def frontier(ensembles: Sequence[Ensembles]) -> list[Ensembles]:
    """Return the ensembles, fastest first, that have a lower mean error than every faster one."""
    best: list[Ensembles] = []
    for one in sorted(ensembles, key=lambda e: (e.seconds.mean(), e.error.mean())):
        if not best or one.error.mean() < best[-1].error.mean():
            best.append(one)
    return best


def grid(record: Record) -> Grid:
    """Return errors and seconds of each point, fastest first."""
    ensembles = points(record)
    best = frontier(ensembles)
    rows = [
        [
            NAMES.get(one.loss, f"dial {one.loss}"),
            str(one.width),
            str(one.n_learners),
            str(one.epochs),
            mean(one.seconds, 2),
            spread(one.error, 2),
            spread(100 * one.measure("soft"), 2),
            spread(one.measure("log_loss"), 3),
            spread(100 * one.measure("learner"), 2),
            str(len(one.runs)),
            "yes" if one in best else "",
        ]
        for one in ensembles
    ]
    start = "Smoke run. " if record["config"]["smoke"] else ""
    title = f"{start}Error on the test images against seconds of training on {record['device'][0]}"
    sizes = ["loss", "width", "N", "epochs", "seconds"]
    return Grid(title, [*sizes, "error %", "soft %", "log-loss", "learner %", "n", "frontier"], rows)


def draw(record: Record) -> "Figure":
    """Draw the error of the vote against seconds, and the frontier."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    ensembles = points(record)
    with house_style():
        figure = Figure(figsize=(8.0, 5.5))
        ax = figure.subplots()
        best = frontier(ensembles)
        x, y = ([value(one) for one in best] for value in (_time, _error))
        ax.step(x, y, where="post", color=PALETTE["grey"], zorder=1, label="frontier")
        for kind, (label, colour, marker) in KINDS.items():
            drawn = [one for one in ensembles if one.kind == kind]
            if drawn:
                x, y = ([value(one) for one in drawn] for value in (_time, _error))
                ax.plot(x, y, color=PALETTE[colour], marker=marker, ls="", ms=7, label=label)
        _label(ax, ensembles)
        ax.set_xscale("log")
        ax.margins(x=0.12, y=0.08)
        for axis in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
            axis(LogFormatter(minor_thresholds=(2, 0.5)))
        ax.set_xlabel(f"Seconds of training on {record['device'][0]}")
        ax.set_ylabel("Error of the vote, %")
        ax.set_title("Error against seconds: networks × width, epochs")  # noqa: RUF001 - a product
        ax.legend()
    return figure


def _label(ax: "Axes", ensembles: Sequence[Ensembles]) -> None:
    """Write size and epochs beside the best ensemble of each size."""
    best: dict[tuple[int, int, int], Ensembles] = {}
    for one in sorted(ensembles, key=_error, reverse=True):
        best[one[:3]] = one
    for (width, n, epochs), one in best.items():
        text = f"{n} × {width}, {epochs}"  # noqa: RUF001 - a product
        ax.annotate(text, (_time(one), _error(one)), (5, -10), textcoords="offset points", size=8)


def _time(one: Ensembles) -> float:
    return float(one.seconds.mean())


def _error(one: Ensembles) -> float:
    return float(one.error.mean())
