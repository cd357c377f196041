"""How Tables 4 to 6 are shown: the paper's errors beside ours, and the way of each ensemble on the plane."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint._validation import FloatArray
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
# Of paths in a figure, in the order of the rows.
STYLES = tuple(zip("osD^vPX", ("ink", "blue", "orange", "teal", "magenta", "cyan", "muted"), strict=True))

Record = Mapping[str, Any]
Runs = Sequence[Mapping[str, Any]]
Trajectory = tuple[FloatArray, FloatArray]  # r_tl, r_ll


def markdown(record: Record, table: Table) -> str:
    """Return a record as Markdown, with mean, standard deviation and number of seeds."""
    return in_markdown([grid(record, table, spread)])


def grid(record: Record, table: Table, write: Callable[[Numbers, int], str]) -> Grid:
    """Return single networks, then ensembles, each with the paper's error and ours."""
    config = record["config"]
    title = (
        f"{_start(record)}{table.title}: error on {config['n_test']:,} test images in %, "
        f"{config['size']} px, {config['epochs']} + {config['more_epochs']} epochs"
    )
    rows = [_single(network, start, record, table, write) for network, start in config["networks"].items()]
    for group in table.groups:
        for way in table.ways:
            if runs := find(record, group, way):
                label = GROUPS[group] + words(way, config["more_epochs"])
                rows.append(_ensemble(label, table.paper.get(f"{group} {way}"), runs, write))
        if chosen := choose(record, group, table.ways):
            rows.append(_ensemble(f"{GROUPS[group]}λ chosen on held-out images", None, chosen, write))
    return Grid(title, HEADINGS, rows)


def brief(full: Grid) -> Grid:
    """Return the columns that fit on a terminal."""
    places = [full.headings.index(name) for name in ("", "paper", "ours", "best test epoch", "hard vote")]
    rows = [[row[place] for place in places] for row in full.rows]
    return Grid(full.title, [full.headings[place] for place in places], rows)


def words(way: str, more_epochs: int) -> str:
    """Say how an ensemble was trained on."""
    if way.startswith("lambda "):
        return f"correlation loss, λ = {way.removeprefix('lambda ')}"
    return {
        "vote": "no further training",
        "independent": f"independent, {more_epochs} more",
        "joint": "joint cross-entropy (Model II)",
    }[way]


def find(record: Record, group: str, way: str) -> list[Mapping[str, Any]]:
    """Return the runs of a group and way, by seed."""
    runs = [run for run in record["data"]["runs"] if (run["group"], run["way"]) == (group, way)]
    return sorted(runs, key=lambda run: int(run["seed"]))


def choose(record: Record, group: str, ways: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return for each seed the run whose lambda errs least on held-out images; the first of equals."""
    lambdas = [way for way in ways if way.startswith("lambda ")]
    by_way = [{run["seed"]: run for run in find(record, group, way)} for way in lambdas]
    if len(by_way) < 2:
        return []
    complete = sorted(set.intersection(*map(set, by_way)))
    return [
        min((runs[seed] for runs in by_way), key=lambda run: run["held_out"]["soft"]) for seed in complete
    ]


def _single(
    network: str, start: str, record: Record, table: Table, write: Callable[[Numbers, int], str]
) -> list[str]:
    """Return the row of one network before any joint training."""
    runs = find(record, table.groups[-1], "vote")  # the last group has no trunk twice

    def errors(part: str) -> list[float]:
        return [
            error
            for run in runs
            for error, name in zip(run[part]["learners"], run["networks"], strict=True)
            if name == network
        ]

    paper = _number(table.paper.get(network))
    label = f"{NAMES[network]}, {start}"
    if not runs:
        return [label, paper, *[NONE] * 8]
    ours = f"{write(errors('test'), 2)} ({len(errors('test'))})"
    others = [write(errors(f"test_{part}"), 2) for part in ("uncalibrated", "unmirrored")]
    return [label, paper, ours, NONE, *others, *[NONE] * 4]


def _ensemble(label: str, paper: float | None, runs: Runs, write: Callable[[Numbers, int], str]) -> list[str]:
    best = [min(epoch["test_soft"] for epoch in run["epochs"]) for run in runs if run["epochs"]]
    return [
        label,
        _number(paper),
        f"{write([run['test']['soft'] for run in runs], 2)} ({len(runs)})",
        write(best, 2) if best else NONE,
        *(write([run[f"test_{part}"]["soft"] for run in runs], 2) for part in ("uncalibrated", "unmirrored")),
        write([run["test"]["hard"] for run in runs], 2),
        write([float(np.mean(run["test"]["learners"])) for run in runs], 2),
        *(write([run["test"][key] for run in runs], 4) for key in ("r_tl", "r_ll")),
    ]


def _start(record: Record) -> str:
    """Return a first sentence that keeps a smoke run from being taken for the real one."""
    config = record["config"]
    return f"Smoke run on {config['images']}. " if config["smoke"] else ""


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def draw(record: Record, table: Table) -> "Figure":
    """Draw where training on took the ensembles, on the batches trained on and on the test images."""
    from matplotlib.figure import Figure

    n_learners = len(record["data"]["runs"][0]["networks"])
    titles = {"train": "Training batches, epoch by epoch", "test": "Test images, from before the first epoch"}
    with house_style():
        figure = Figure(figsize=(11.0, 5.4))
        figure.suptitle(f"{_start(record)}{table.title}, on the plane of Theorem 2", size=13, weight="bold")
        for ax, (part, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            plane = TradeoffDisplay(n_learners).plot(ax)
            paths = trajectories(record, table, part)
            lines = [
                _draw_path(ax, *named, *style) for named, style in zip(paths.items(), STYLES, strict=False)
            ]
            if paths:
                _zoom(plane, *map(np.concatenate, zip(*paths.values(), strict=True)))
            ax.set_title(title)
        figure.legend(handles=lines, loc="outside lower center", ncols=4)
    return figure


def _draw_path(ax: "Axes", label: str, path: Trajectory, marker: str, colour: str) -> "Line2D":
    """Draw a line that ends in a marker."""
    r_tl, r_ll = path
    (line,) = ax.plot(
        r_ll,
        r_tl,
        marker=marker,
        markevery=[-1],
        ms=8,
        mec="white",
        color=PALETTE[colour],
        lw=1.5,
        label=label,
        zorder=5,
    )
    return line


def _zoom(plane: TradeoffDisplay, r_tl: FloatArray, r_ll: FloatArray) -> None:
    """Show the neighbourhood of the paths, and name the upper bound at the middle of what is seen of it."""
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
        text.remove()  # it stands where the whole plane has room for it
    if seen.any():
        place = np.flatnonzero(seen)[seen.sum() // 2]
        at, red = (bounds.r_ll[place], bounds.high[place]), PALETTE["red"]
        across, up = ax.transLimits.transform(at)
        offset, side = ((-6, 6), "right") if across > 0.3 and up < 0.9 else ((6, -14), "left")
        ax.annotate("upper bound", at, offset, textcoords="offset points", ha=side, color=red)
    ax.grid(visible=True)


def trajectories(record: Record, table: Table, part: str) -> dict[str, Trajectory]:
    """Return the paths by name, means over the seeds; on test images from before the first epoch."""
    found = {}
    prefix = "test_" if part == "test" else ""
    for group in table.groups:
        votes = {run["seed"]: run for run in find(record, group, "vote")} if part == "test" else {}
        for way in table.ways:
            if runs := [run for run in find(record, group, way) if run["epochs"]]:
                before = [votes[run["seed"]] for run in runs if run["seed"] in votes]
                path = []
                for key in ("r_tl", "r_ll"):
                    first = [np.mean([run["test"][key] for run in before])] if before else []
                    each = np.mean(
                        [[epoch.get(prefix + key, np.nan) for epoch in run["epochs"]] for run in runs], axis=0
                    )
                    path.append(np.array([*first, *each]))
                label = GROUPS[group] + words(way, record["config"]["more_epochs"])
                found[label] = (path[0], path[1])
    return found
