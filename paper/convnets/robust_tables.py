"""Tables and a figure of how ensembles of images hold up, from the jobs of a record that measured it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import NONE, Grid, spread
from paper.convnets.dial_tables import NAMES, Key, runs_by_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "grids", "robust_runs"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]
Results = Mapping[str, Any]  # of one job, as `robustness` returns them
Arms = dict[str, list[Results]]  # arm -> results of the seeds

COUNTS = (1, 2, 3, 5, 8, 10)
SHOWN = Key("cifar10", 8, 10, 10)  # the point of the figure, or the first one of a record without it
COLOURS = {
    "independent": "ink",
    "0.5": "cyan",
    "0.8": "teal",
    "0.9": "blue",
    "joint-logits": "magenta",
    "paper-0.9": "orange",
}


def robust_runs(record: Record) -> dict[Key, Arms]:
    """Return the results by point, then by arm in the order of the tables; jobs without them are left out."""
    found: dict[Key, Arms] = {}
    for point, runs in runs_by_point(record).items():
        for arm in NAMES:
            each = [run["robust"] for _, run in sorted(runs.get(arm, {}).items()) if run.get("robust")]
            if each:
                found.setdefault(point, {})[arm] = each
    return found


def grids(record: Record) -> list[Grid]:
    """Return for each point a table of fewer learners, if it has ten, and one of other images."""
    found = []
    for point, arms in robust_runs(record).items():
        title = f"{'Smoke run. ' if record['config']['smoke'] else ''}{point.words()}"
        if point.n_learners == max(COUNTS):
            found.append(_fewer_learners(title, arms))
        found.append(_other_images(title, arms))
    return found


def draw(record: Record) -> "Figure":
    """Draw the error of k learners, and the error on corrupted images by strength, for each arm of one point."""
    from matplotlib.figure import Figure

    points = robust_runs(record)
    point = SHOWN if SHOWN in points else next(iter(points), None)
    arms = points[point] if point is not None else {}
    with house_style():
        figure = Figure(figsize=(9.5, 4.4))
        left, right = figure.subplots(1, 2)
        for arm, runs in arms.items():
            if len(runs[0]["k_of_n"]) > 1:
                errors = [[100 * one["error"] for one in run["k_of_n"]] for run in runs]
                _draw_line(left, arm, errors, start=1)
            _draw_line(right, arm, [100 * _by_strength(run) for run in runs], start=0)
        left.set(title="Votes of fewer learners", xlabel="Learners in the vote", ylabel="Error, %")
        right.set(
            title="Corrupted images", xlabel="Strength; 0 is none", ylabel="Error, mean of the corruptions, %"
        )
        for ax in (left, right):
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.grid(visible=True, axis="y")
        if point is not None:
            figure.suptitle(point.words(), x=0.01, ha="left", fontsize=10.5)
            handles, labels = right.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _fewer_learners(title: str, arms: Arms) -> Grid:
    rows = []
    for arm, runs in arms.items():
        if len(runs[0]["k_of_n"]) < max(COUNTS):
            continue  # a single network
        errors = {k: [100 * run["k_of_n"][k - 1]["error"] for run in runs] for k in COUNTS}
        whole = [100 * run["int8"]["error"] for run in runs]
        cells = [*(spread(each, 2) for each in errors.values()), spread(whole, 2)]
        rows.append([NAMES[arm], *cells, str(len(runs))])
    headings = ["loss", *(f"k = {k}" for k in COUNTS), "int8", "n"]
    return Grid(
        f"{title}: error % of the vote of k learners, and of all with weights of 8 bits", headings, rows
    )


def _other_images(title: str, arms: Arms) -> Grid:
    columns: dict[str, Callable[[Results], float | None]] = {
        "error %": lambda run: 100 * run["shift"]["mean"]["error"],
        "log-loss": lambda run: run["shift"]["mean"]["log_loss"],
        "ECE %": lambda run: 100 * run["shift"]["mean"]["calibration_error"],
        "unknown, entropy": lambda run: (run["unknown"] or {}).get("entropy"),
        "unknown, confidence": lambda run: (run["unknown"] or {}).get("confidence"),
        "unknown, mutual information": _mutual_information,
        "wrong, confidence": lambda run: run["wrong"]["confidence"],
    }
    digits = dict.fromkeys(columns, 3) | {"error %": 2, "ECE %": 1}
    rows = [
        [
            NAMES[arm],
            *(_cell(map(value, runs), digits[name]) for name, value in columns.items()),
            str(len(runs)),
        ]
        for arm, runs in arms.items()
    ]
    words = (
        "means over corrupted images, and areas under the ROC curve for unknown images and for wrong votes"
    )
    return Grid(f"{title}: {words}", ["loss", *columns, "n"], rows)


def _mutual_information(run: Results) -> float | None:
    """Return the area by mutual information, which a single network does not have."""
    return (run["unknown"] or {}).get("mutual_information") if len(run["k_of_n"]) > 1 else None


def _cell(values: "map[float | None]", digits: int) -> str:
    known = [value for value in values if value is not None]
    return spread(known, digits) if known else NONE


def _by_strength(run: Results) -> FloatArray:
    """Return the error at strengths 0, the images as they are, to 5, the mean over the corruptions."""
    each = [[one["error"] for one in found] for name, found in run["shift"].items() if name != "mean"]
    clean: float = run["k_of_n"][-1]["error"]
    return np.array([clean, *np.mean(each, axis=0)])


def _draw_line(ax: "Axes", arm: str, values: Any, *, start: int) -> None:
    """Draw mean and standard deviation over the seeds, for values (n_seeds, n_places) of places from a start."""
    y = np.asarray(values)
    places = np.arange(start, start + y.shape[1])
    deviation = y.std(0, ddof=1) if len(y) > 1 else np.zeros(y.shape[1])
    colour = PALETTE[COLOURS.get(arm, "muted")]
    ax.errorbar(places, y.mean(0), deviation, label=NAMES[arm], color=colour, marker="o", ms=4, capsize=2)
