"""How ensembles from scratch are shown: a table, and a picture of error against seconds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import Grid, markdown, mean, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PUBLISHED", "draw", "grid", "in_markdown", "points"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]

# Errors in % and seconds on one A100, as the author of cifar10-airbench (K. Jordan, 2024) gives them for the fastest
# script of each kind, some of which have come after the paper; not measured.
PUBLISHED = {"airbench94": (6.0, 2.6), "airbench95": (5.0, 10.4), "airbench96": (4.0, 27.0)}
NETWORKS = {"convnet": "ConvNet", "fast": "fast net", "cifar_resnet18": "ResNet-18"}
COLOURS = ("blue", "orange", "teal", "magenta", "cyan", "red")
ERRORS = {
    "vote": ("mirrored", "soft"),
    "unmirrored": ("plain", "soft"),
    "six views": ("shifted", "soft"),
    "hard vote": ("mirrored", "hard"),
    "learners": ("mirrored", "learner"),
}


def in_markdown(record: Record) -> str:
    """Return the table as Markdown."""
    return markdown([grid(record)])


def points(record: Record) -> list[list[Mapping[str, Any]]]:
    """Return the runs of the record, those that differ by the seed together."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for piece in record["data"].values():
        key = tuple(value for name, value in piece["config"].items() if name not in ("seed", "n_seeds"))
        found.setdefault(key, []).append(piece)
    return list(found.values())


def grid(record: Record) -> Grid:
    """Return the errors in percent and the seconds of each ensemble."""
    together = points(record)
    errors = {
        heading: column
        for heading, column in ERRORS.items()
        if any(column[0] in runs[0]["data"] for runs in together)
    }
    rows = []
    for runs in together:
        config, found = runs[0]["config"], runs[0]["data"]
        rows.append(
            [
                NETWORKS[config["network"]],
                *(str(config[key]) for key in ("width", "n_learners", "epochs")),
                mean(_seconds(runs), 2),
                *(spread(_percent(runs, *c), 2) if c[0] in found else "" for c in errors.values()),
                str(len(runs)),
            ]
        )
    start = "Smoke run. " if record["config"]["smoke"] else ""
    title = f"{start}Error on the test images in %, against seconds of training on {record['device'][0]}"
    return Grid(title, ["network", "width", "N", "epochs", "seconds", *errors, "n"], rows)


def draw(record: Record) -> "Figure":
    """Draw error against seconds, beside the published records of single nets, by six views as theirs if measured."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    with house_style():
        figure = Figure(figsize=(7.0, 5.0))
        ax = figure.subplots()
        lines: dict[tuple[Any, ...], list[Sequence[Mapping[str, Any]]]] = {}
        for runs in points(record):
            config = runs[0]["config"]
            lines.setdefault((config["network"], config["width"], config["epochs"]), []).append(runs)
        for place, ((network, width, epochs), ensembles) in enumerate(lines.items()):
            x = [float(_seconds(runs).mean()) for runs in ensembles]
            six = all("shifted" in runs[0]["data"] for runs in ensembles)
            y = [float(_percent(runs, "shifted" if six else "mirrored", "soft").mean()) for runs in ensembles]
            colour = PALETTE[COLOURS[place % len(COLOURS)]]
            label = (
                f"{NETWORKS[network]}, width {width}, {epochs} epoch{'s' * (epochs > 1)}{', six views' * six}"
            )
            ax.plot(x, y, color=colour, marker="o", label=label)
            for seconds, error, ensemble in zip(x, y, ensembles, strict=True):
                text = f"N = {ensemble[0]['config']['n_learners']}"
                ax.annotate(text, (seconds, error), (4, 4), textcoords="offset points", size=8)
        for name, (error, seconds) in PUBLISHED.items():
            ax.annotate(name, (seconds, error), (7, 3), textcoords="offset points", size=8)
        errors, times = zip(*PUBLISHED.values(), strict=True)
        ax.plot(times, errors, "*", ms=11, color=PALETTE["muted"], label="published, single nets, one A100")
        ax.set_xscale("log")
        ax.margins(x=0.15, y=0.08)
        for axis in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
            axis(LogFormatter(minor_thresholds=(2, 0.5)))
        ax.set_xlabel(f"Seconds of training on {record['device'][0]}")
        ax.set_ylabel("Error of the soft vote, %")
        ax.set_title("Error against seconds, from scratch")
        ax.legend()
    return figure


def _seconds(runs: Sequence[Mapping[str, Any]]) -> FloatArray:
    return np.array([run["data"]["seconds"] for run in runs])


def _percent(runs: Sequence[Mapping[str, Any]], kind: str, measure: str) -> FloatArray:
    return 100 * np.array([run["data"][kind][measure] for run in runs])
