"""Figure 6: random forests on the plane of Theorem 2, on the images they were grown on and on others."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.records import write_figure, write_record
from paper.forests import FORESTS, MAIN, N_TREES, PARTS, Forest, Measured, study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

TITLE = "Random forests on the plane of Theorem 2"
MARKERS = {"original": "s", "feature": "^", "depth": "o"}
LEGEND = {
    "original": "original",
    "feature": "feature: a tree sees m features",
    "depth": "depth: a tree has depth d at most",
}
COLOURS = "viridis"
# Offsets of labels on CIFAR-10 from their markers, in points; a line joins distant ones.
BESIDE = (8, -10)
ASIDE: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "train": {
        "original": (10, 4), "m = 20": (22, -11), "m = 7": (35, -20), "m = 5": (40, -32), "m = 3": (47, -43),
        "d = 11": (10, 0), "d = 9": (10, 0), "d = 7": (-7, -10), "d = 5": (0, -14),
    },
    "held_out": {
        "m = 3": (-8, 8), "d = 11": (-10, 0), "d = 9": (0, 13), "d = 7": (-2, -14), "d = 5": (0, -14),
        "d = 3": (0, -14),
    },
}  # fmt: skip
FAR = 20


class Point(NamedTuple):
    """A forest on the plane: means over the seeds, and the standard deviations of the correlations."""

    forest: Forest
    r_ll: float
    r_tl: float
    vote: float
    r_ll_sd: float
    r_tl_sd: float


def reproduce(out: Path, *, data: Path | None = None, seed: int = 0, smoke: bool = False) -> list[Path]:
    """Measure the forests of the main reading and draw them on the plane."""
    done = study((MAIN,), data=data, seed=seed, smoke=smoke)
    return [
        *write_figure(draw(done.data[MAIN], done.config), out, "figure-6"),
        *write_record(out, "figure-6", title=TITLE, **done._asdict()),
    ]


def compute(measured: Measured, part: str) -> list[Point]:
    """Return the forests as points, in the order of the table."""
    points = []
    for forest in FORESTS:
        one = measured[forest.name][part]
        means = [float(np.mean(one[field])) for field in ("r_ll", "r_tl", "vote")]
        spreads = [float(np.std(one[field], ddof=1)) for field in ("r_ll", "r_tl")]
        points.append(Point(forest, *means, *spreads))
    return points


def draw(measured: Measured, config: Mapping[str, Any]) -> "Figure":
    """Draw the plane for each part of the images, as in the paper, and below it an enlarged detail."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(11.0, 9.2))
        axes = figure.subplots(2, 2)
        start = "Smoke run: forests" if config["smoke"] else "Random forests"
        figure.suptitle(f"{start} of {N_TREES} trees on {config['images']}", size=13, weight="bold")
        for (whole, near), (part, words) in zip(axes.T, PARTS.items(), strict=True):
            points = compute(measured, part)
            votes = [point.vote for point in points]
            scale = Normalize(min(votes), max(votes))
            _draw_plane(whole, points, scale)
            _draw_near(near, points, scale)
            _label(near, points, {} if config["smoke"] else ASIDE[part])
            whole.set_title(f"{words.capitalize()} images")
            near.set_title(f"{words.capitalize()} images, from nearby")
            whole.add_patch(_frame(*near.get_xlim(), *near.get_ylim()))
            bar = figure.colorbar(
                ScalarMappable(scale, COLOURS), ax=[whole, near], label="Accuracy of the vote", aspect=45
            )
            bar.outline.set_visible(False)
        figure.legend(handles=_handles(), loc="outside lower center", ncols=len(MARKERS), columnspacing=3)
    return figure


def _draw_plane(ax: "Axes", points: list[Point], scale: "Normalize") -> None:
    TradeoffDisplay(N_TREES).plot(ax)
    ax.set_ylim(-0.04, 1.04)
    _mark(ax, points, scale, size=45)


def _draw_near(ax: "Axes", points: list[Point], scale: "Normalize") -> None:
    """Draw the plane around the forests, with lines between those of a kind and the spread over the seeds."""
    TradeoffDisplay(N_TREES).plot(ax)
    for kind in MARKERS:
        path = [(point.r_ll, point.r_tl) for point in points if point.forest.kind == kind]
        ax.plot(*zip(*path, strict=True), color=PALETTE["grey"], lw=1, zorder=3)
    r_ll, r_tl, r_ll_sd, r_tl_sd = (
        np.array([getattr(point, field) for point in points])
        for field in ("r_ll", "r_tl", "r_ll_sd", "r_tl_sd")
    )
    ax.errorbar(r_ll, r_tl, r_tl_sd, r_ll_sd, fmt="none", ecolor=PALETTE["muted"], elinewidth=1, zorder=4)
    _mark(ax, points, scale, size=60)
    for set_limits, values, share in ((ax.set_xlim, r_ll, 0.26), (ax.set_ylim, r_tl, 0.16)):
        margin = share * np.ptp(values)
        set_limits(values.min() - margin, values.max() + margin)
    ax.grid(visible=True)


def _mark(ax: "Axes", points: list[Point], scale: "Normalize", *, size: float) -> None:
    for kind, marker in MARKERS.items():
        ours = [point for point in points if point.forest.kind == kind]
        ax.scatter(
            [point.r_ll for point in ours], [point.r_tl for point in ours], c=[point.vote for point in ours],
            norm=scale, cmap=COLOURS, marker=marker, s=size, edgecolors=PALETTE["ink"], linewidths=0.8, zorder=5,
        )  # fmt: skip


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], ls="", marker=MARKERS[kind], ms=7, mfc="white", mec=PALETTE["ink"], label=LEGEND[kind])
        for kind in MARKERS
    ]


def _frame(left: float, right: float, bottom: float, top: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (left, bottom), right - left, top - bottom, fill=False, ec=PALETTE["muted"], lw=0.8, ls=":", zorder=4
    )


def _label(ax: "Axes", points: list[Point], places: Mapping[str, tuple[int, int]]) -> None:
    line = {
        "arrowstyle": "-",
        "color": PALETTE["muted"],
        "lw": 0.7,
        "shrinkA": 0,
        "shrinkB": 4,
        "relpos": (0, 0.5),
    }
    for point in points:
        text = point.forest.setting or point.forest.kind
        dx, dy = places.get(text, BESIDE)
        ax.annotate(
            text,
            (point.r_ll, point.r_tl),
            (dx, dy),
            textcoords="offset points",
            ha={-1: "right", 0: "center", 1: "left"}[int(np.sign(dx))],
            va="center",
            arrowprops=line if dx > FAR else None,
            zorder=6,
        )
