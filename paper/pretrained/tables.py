"""How Tables 4 to 6 are shown: the paper's errors beside ours, and the path of each ensemble on the plane.

A record holds the jobs of a table by name, each with its config and data: those of trunks, which are not shown, and
those of ensembles, here called *runs*.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, TradeoffDisplay, house_style
from counterpoint.records import NONE, Grid, Numbers, spread
from counterpoint.records import markdown as in_markdown
from paper.pretrained.paper import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

NAMES = {
    "convnet": "ConvNet",
    "cifar_resnet18": "ResNet-18 for CIFAR",
    "densenet121": "DenseNet-121",
    "efficientnet_b0": "EfficientNet-B0",
    "googlenet": "GoogLeNet",
    "mobilenet_v2": "MobileNet-v2",
    "resnet18": "ResNet-18",
    "shufflenet_v2_x1_0": "ShuffleNet-v2",
}
GROUPS = {"networks": "", "copies": "copies: ", "apart": "apart: "}
HEADINGS = [
    "",
    "paper",
    "ours",
    "best test epoch",
    "uncalibrated",
    "unmirrored",
    "hard vote",
    "learners",
    "r_TL",
    "r_LL",
]
SCORES = {  # headings of records that have them, with keys, factors and digits
    "soft vote": ("soft", 1, 2),
    "geometric vote": ("geometric", 1, 2),
    "log-loss": ("log_loss", 1, 3),
    "Brier": ("brier_score", 1, 4),
    "ECE %": ("calibration_error", 100, 2),
}
# What tells unknown images, and what wrong votes, in the table of corrupted and unknown images.
DOUBTS = (
    *(("unknown", how) for how in ("entropy", "confidence", "mutual_information", "disagreement")),
    ("wrong", "confidence"),
)
# Markers and colours of the paths in a figure, in the order of the rows; with more paths, the lines are dashed.
MARKERS = "osD^vPXh<>pd8"
COLOURS = ("ink", "blue", "orange", "teal", "magenta", "cyan", "muted")

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]
Run = Mapping[str, Any]
Trajectory = tuple[FloatArray, FloatArray]  # r_tl, r_ll


def markdown(record: Record, table: Table) -> str:
    """Return a record as Markdown, with mean, standard deviation and number of seeds."""
    return in_markdown([grid(record, table, spread), *robust_grids(record, table)])


def grid(record: Record, table: Table, write: Callable[[Numbers, int], str]) -> Grid:
    """Return single networks, then ensembles, each with the paper's error and ours."""
    runs = find_runs(record)
    config = runs[0]["config"]  # the settings are those of all runs
    title = (
        f"{_smoke_note(record)}{table.title}: error on {config['n_test']:,} test images in %, "
        f"{config['size']} px, {config['epochs']} + {config['more_epochs']} epochs"
    )
    rows = [_single(network, start, record, table, write) for network, start in config["networks"].items()]
    for group in table.groups:
        for arm in table.arms:
            if found := find_runs(record, group, arm):
                label = GROUPS[group] + describe_arm(arm, config["more_epochs"])
                rows.append(_ensemble(label, table.paper.get(f"{group} {arm}"), found, write))
        if chosen := choose(record, group, table.arms):
            rows.append(_ensemble(f"{GROUPS[group]}λ chosen on held-out images", None, chosen, write))
    headings = [*HEADINGS, *SCORES] if any("voting" in run["data"]["test"] for run in runs) else HEADINGS
    return Grid(title, headings, [row[: len(headings)] for row in rows])


def robust_grids(record: Record, table: Table) -> list[Grid]:
    """Return a table of the ensembles that saw corrupted and unknown images, if there are any."""
    arms = {arm: find_runs(record, "networks", arm) for arm in table.robust}
    if not any(arms.values()):
        return []
    config = next(runs[0]["config"] for runs in arms.values() if runs)
    names = [NAMES[network] for network, _ in config["learners"]]
    rows = [
        _robust_row(describe_arm(arm, config["more_epochs"]), [run["data"]["robust"] for run in runs])
        for arm, runs in arms.items()
        if runs
    ]
    title = (
        f"{_smoke_note(record)}{table.title}, {config['n_robust']:,} corrupted test images: error in % of the vote and "
        "of its networks; areas under the ROC curve for telling unknown images, and wrong votes on test images"
    )
    headings = ["", "n", "not corrupted", "corrupted", *names, "log-loss", "ECE %"]
    areas = [f"{what}, by {how.replace('_', ' ')}" for what, how in DOUBTS]
    return [Grid(title, [*headings, *areas], rows)]


def _robust_row(label: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    shifted = [one["shift"]["mean"] for one in found]
    learners = zip(*(mean["learner_errors"] for mean in shifted), strict=True)
    return [
        label,
        str(len(found)),
        *(
            spread([100 * error for error in errors], 2)
            for errors in (
                [one["k_of_n"][-1]["error"] for one in found],
                [mean["error"] for mean in shifted],
                *learners,
            )
        ),
        spread([mean["log_loss"] for mean in shifted], 3),
        spread([100 * mean["calibration_error"] for mean in shifted], 1),
        *(spread([one[what][how] for one in found], 3) for what, how in DOUBTS),
    ]


def brief(full: Grid) -> Grid:
    """Return the columns that fit on a terminal."""
    places = [full.headings.index(name) for name in ("", "paper", "ours", "best test epoch", "hard vote")]
    rows = [[row[place] for place in places] for row in full.rows]
    return Grid(full.title, [full.headings[place] for place in places], rows)


def describe_arm(arm: str, more_epochs: int) -> str:
    """Return the label of an arm."""
    kind, _, number = arm.partition(" ")
    return {
        "vote": "no further training",
        "independent": f"independent, {more_epochs} more",
        "joint": "joint cross-entropy (Model II)",
        "logits": "averaged logits",
        "dial": f"DiversityLoss({number})",
        "lambda": f"correlation loss, λ = {number}",
    }[kind]


def find_runs(record: Record, group: str | None = None, arm: str | None = None) -> list[Run]:
    """Return the runs of a group and arm, or of all, by seed."""
    runs = [
        run
        for run in record["data"].values()
        if "arm" in run["config"]
        and group in (None, run["config"]["group"])
        and arm in (None, run["config"]["arm"])
    ]
    return sorted(runs, key=lambda run: int(run["config"]["seed"]))


def vote_error(found: Mapping[str, Any]) -> float:
    """Return the error of the vote that a loss trains; in a record that does not name it, of the soft vote."""
    return float(found[found.get("voting", "soft")])


def choose(record: Record, group: str, arms: Sequence[str]) -> list[Run]:
    """Return for each seed the run whose lambda has the lowest error on held-out images; of equals the first."""
    lambdas = [arm for arm in arms if arm.startswith("lambda ")]
    by_arm = [{run["config"]["seed"]: run for run in find_runs(record, group, arm)} for arm in lambdas]
    if len(by_arm) < 2:
        return []
    complete = sorted(set.intersection(*map(set, by_arm)))
    return [
        min((runs[seed] for runs in by_arm), key=lambda run: vote_error(run["data"]["held_out"]))
        for seed in complete
    ]


def _single(
    network: str, start: str, record: Record, table: Table, write: Callable[[Numbers, int], str]
) -> list[str]:
    """Return the row of one network before any joint training."""
    runs = find_runs(record, table.groups[-1], "vote")  # no trunk is in the last group twice

    def errors(part: str) -> list[float]:
        return [
            error
            for run in runs
            for error, (name, _) in zip(run["data"][part]["learners"], run["config"]["learners"], strict=True)
            if name == network
        ]

    paper = _number(table.paper.get(network))
    label = f"{NAMES[network]}, {start}"
    if not runs:
        return [label, paper, *[NONE] * (len(HEADINGS) - 2 + len(SCORES))]
    ours = f"{write(errors('test'), 2)} ({len(errors('test'))})"
    others = [write(errors(f"test_{part}"), 2) for part in ("uncalibrated", "unmirrored")]
    return [label, paper, ours, NONE, *others, *[NONE] * (4 + len(SCORES))]


def _ensemble(
    label: str, paper: float | None, runs: Sequence[Run], write: Callable[[Numbers, int], str]
) -> list[str]:
    """Return the row of an ensemble; its errors are those of the vote that its loss trains."""
    found = [run["data"] for run in runs]
    best = [_best_epoch(one) for one in found if one["history"]]

    def score(key: str, factor: int, digits: int) -> str:
        known = all(key in one["test"] for one in found)
        return write([factor * one["test"][key] for one in found], digits) if known else NONE

    return [
        label,
        _number(paper),
        f"{write([vote_error(one['test']) for one in found], 2)} ({len(found)})",
        write(best, 2) if best else NONE,
        *(
            write([vote_error(one[f"test_{part}"]) for one in found], 2)
            for part in ("uncalibrated", "unmirrored")
        ),
        write([one["test"]["hard"] for one in found], 2),
        write([float(np.mean(one["test"]["learners"])) for one in found], 2),
        *(write([one["test"][key] for one in found], 4) for key in ("r_tl", "r_ll")),
        *(score(*how) for how in SCORES.values()),
    ]


def _best_epoch(found: Mapping[str, Any]) -> float:
    """Return the lowest error of the vote over the epochs, on test images."""
    voting = found["test"].get("voting", "soft")
    return float(min(epoch[f"test_{voting}"] for epoch in found["history"]))


def _smoke_note(record: Record) -> str:
    """Return a first sentence that marks a smoke run, or nothing."""
    return f"Smoke run on {find_runs(record)[0]['config']['images']}. " if record["config"]["smoke"] else ""


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def draw(record: Record, table: Table) -> "Figure":
    """Draw the paths of the ensembles during further training, on training batches and on test images."""
    from matplotlib.figure import Figure

    config = find_runs(record)[0]["config"]
    n_learners = len(config["learners"])
    titles = {
        "train": "Training batches, epoch by epoch",
        "test": "Test images, starting before the first epoch",
    }
    with house_style():
        figure = Figure(figsize=(11.0, 5.4))
        epochs = f"{config['epochs']} + {config['more_epochs']} epochs"
        figure.suptitle(f"{_smoke_note(record)}{table.title}, {epochs}", size=13, weight="bold")
        for ax, (part, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            plane = TradeoffDisplay(n_learners).plot(ax)
            paths = trajectories(record, table, part)
            lines = [_draw_path(ax, *named, place) for place, named in enumerate(paths.items())]
            if paths:
                _zoom(plane, *map(np.concatenate, zip(*paths.values(), strict=True)))
            ax.set_title(title)
        figure.legend(handles=lines, loc="outside lower center", ncols=4)
    return figure


def _draw_path(ax: "Axes", label: str, path: Trajectory, place: int) -> "Line2D":
    """Draw a line that ends in a marker, in the style of its place among the paths."""
    r_tl, r_ll = path
    (line,) = ax.plot(
        r_ll,
        r_tl,
        marker=MARKERS[place % len(MARKERS)],
        markevery=[-1],
        ms=8,
        mec="white",
        color=PALETTE[COLOURS[place % len(COLOURS)]],
        ls="-" if place < len(COLOURS) else "--",
        lw=1.5,
        label=label,
        zorder=5,
    )
    return line


def _zoom(plane: TradeoffDisplay, r_tl: FloatArray, r_ll: FloatArray) -> None:
    """Zoom to the paths, and label the upper bound in the middle of its visible part."""
    ax, bounds = plane.ax_, plane.bounds
    known = np.isfinite(r_tl) & np.isfinite(r_ll)
    if not known.any():
        return
    seen = np.ones(len(bounds.r_ll), dtype=bool)
    axes = ((r_ll[known], bounds.r_ll, ax.set_xlim), (r_tl[known], bounds.high, ax.set_ylim))
    for values, curve, set_limits in axes:
        margin = max(0.25 * float(np.ptp(values)), 0.005)
        low, high = set_limits(float(values.min()) - margin, min(float(values.max()) + margin, 1.0))
        seen &= (low <= curve) & (curve <= high)
    for text in list(ax.texts):
        text.remove()  # it is placed for the whole plane
    if seen.any():
        place = np.flatnonzero(seen)[seen.sum() // 2]
        at, red = (bounds.r_ll[place], bounds.high[place]), PALETTE["red"]
        across, up = ax.transLimits.transform(at)
        offset, side = ((-6, 6), "right") if across > 0.3 and up < 0.9 else ((6, -14), "left")
        ax.annotate("upper bound", at, offset, textcoords="offset points", ha=side, color=red)
    ax.locator_params(axis="x", nbins=6)  # long numbers
    ax.grid(visible=True)


def trajectories(record: Record, table: Table, part: str) -> dict[str, Trajectory]:
    """Return the paths by label, as means over the seeds; those on test images start before the first epoch."""
    found = {}
    for group in table.groups:
        votes = find_runs(record, group, "vote") if part == "test" else []
        for arm in table.arms:
            if runs := [run for run in find_runs(record, group, arm) if run["data"]["history"]]:
                label = GROUPS[group] + describe_arm(arm, runs[0]["config"]["more_epochs"])
                found[label] = _mean_path(runs, votes, "test_" if part == "test" else "")
    return found


def _mean_path(runs: Sequence[Run], votes: Sequence[Run], prefix: str) -> Trajectory:
    """Return the mean path of runs, from the votes of the same seeds on."""
    seeds = {run["config"]["seed"] for run in runs}
    before = [vote["data"]["test"] for vote in votes if vote["config"]["seed"] in seeds]

    def path(key: str) -> FloatArray:
        first = [np.mean([test[key] for test in before])] if before else []
        each = np.mean(
            [[epoch.get(prefix + key, np.nan) for epoch in run["data"]["history"]] for run in runs], axis=0
        )
        return np.array([*first, *each])

    return path("r_tl"), path("r_ll")
