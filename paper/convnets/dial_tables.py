"""Tables and a figure of the dial of diversity on images."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import NONE, Grid, mean, number, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "gain", "grids", "runs_by_point", "values"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]
Runs = dict[str, dict[int, Mapping[str, Any]]]  # arm -> seed -> results

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "digits": "digits"}
NAMES = {
    "independent": "independent, soft vote",
    "0.5": "DiversityLoss(0.5)",
    "0.67": "DiversityLoss(2/3)",
    "0.8": "DiversityLoss(0.8)",
    "0.9": "DiversityLoss(0.9)",
    "joint-logits": 'JointLoss(pool="logits")',
    "joint-proba": "JointLoss()",
    "paper-0.9": "the paper's loss, 0.9",
}
COLOURS = {
    "0.9": "blue",
    "0.8": "teal",
    "0.67": "ink",
    "0.5": "cyan",
    "joint-logits": "magenta",
    "joint-proba": "red",
    "paper-0.9": "orange",
}


def runs_by_point(record: Record) -> dict[tuple[Any, ...], Runs]:
    """Return the results by point (data set, width, learners, epochs), then by arm and seed."""
    found: dict[tuple[Any, ...], Runs] = {}
    for piece in record["data"].values():
        config = piece["config"]
        key = tuple(config[name] for name in ("data", "width", "n_learners", "epochs"))
        found.setdefault(key, {}).setdefault(config["arm"], {})[config["seed"]] = piece["data"]
    # by data set, epochs and width
    return dict(sorted(found.items(), key=lambda item: (item[0][0], item[0][3], item[0][1])))


def values(runs: Runs, arm: str, measure: str, vote: str = "vote") -> FloatArray:
    """Return a measure of an arm for each seed that independent training has too."""
    seeds = sorted(runs[arm].keys() & runs["independent"].keys())
    return np.array([runs[arm][s][vote][measure] if vote else runs[arm][s][measure] for s in seeds])


def gain(runs: Runs, arm: str) -> FloatArray:
    """Return the share of the errors of independent training that an arm removes, in %, for each seed."""
    seeds = sorted(runs[arm].keys() & runs["independent"].keys())
    ours, theirs = (np.array([runs[one][s]["vote"]["error"] for s in seeds]) for one in (arm, "independent"))
    share: FloatArray = 100 * (1 - ours / theirs)
    return share


def grids(record: Record) -> list[Grid]:
    """Return a table for each point."""
    found = []
    headings = [
        "loss",
        "error %",
        "fewer %",
        "log-loss",
        "Brier",
        "ECE %",
        "learner %",
        "r_LL",
        "n",
    ]
    for (data, width, n_learners, epochs), runs in runs_by_point(record).items():
        if "independent" not in runs:
            continue
        rows = [_row(runs, arm) for arm in NAMES if arm in runs]
        if "independent" in runs:
            rows.insert(1, _geometric(runs))
        start = "Smoke run. " if record["config"]["smoke"] else ""
        title = (
            f"{start}{SETS[data]}, {n_learners} ConvNets of width {width}, {epochs} epoch{'s' * (epochs > 1)}"
        )
        found.append(Grid(title, headings, rows))
    return found


def _row(runs: Runs, arm: str) -> list[str]:
    own = [values(runs, arm, name) for name in ("error", "log_loss", "brier_score", "calibration_error")]
    fewer = NONE if arm == "independent" else _signed(gain(runs, arm))
    learner, r_ll = (values(runs, arm, name, "") for name in ("learner_error", "r_ll"))
    return [
        NAMES[arm],
        spread(100 * own[0], 2),
        fewer,
        spread(own[1], 3),
        spread(own[2], 3),
        spread(100 * own[3], 1),
        spread(100 * learner, 1),
        mean(r_ll, 2),
        str(len(own[0])),
    ]


def _geometric(runs: Runs) -> list[str]:
    """Return the row of independent training with the geometric vote."""
    names = ("error", "log_loss", "brier_score", "calibration_error")
    own = [values(runs, "independent", name, "geometric") for name in names]
    fewer = 100 * (1 - own[0] / values(runs, "independent", "error"))
    scores = [spread(own[1], 3), spread(own[2], 3), spread(100 * own[3], 1)]
    return [
        "independent, geometric vote",
        spread(100 * own[0], 2),
        _signed(fewer),
        *scores,
        *[""] * 2,
        str(len(own[0])),
    ]


def _signed(share: FloatArray) -> str:
    if len(share) < 2:
        return number(float(share.mean()), "+.1f")
    return f"{number(float(share.mean()), '+.1f')} ± {share.std(ddof=1):.1f}"


def draw(record: Record) -> "Figure":
    """Draw errors and log-loss of each arm, divided by those of independent training."""
    from matplotlib.figure import Figure

    points = {key: runs for key, runs in runs_by_point(record).items() if "independent" in runs}
    visible = [arm for arm in COLOURS if any(arm in runs for runs in points.values())]
    with house_style():
        figure = Figure(figsize=(9.5, 1.6 + 0.5 * len(points)))
        axes = figure.subplots(1, 2, sharey=True)
        for ax, measure, title in zip(axes, ("error", "log_loss"), ("Errors", "Log-loss"), strict=True):
            ax.axvline(1.0, color=PALETTE["muted"], ls="--", lw=1.5)
            for arm in visible:
                at = [place for place, runs in enumerate(points.values()) if arm in runs]
                x = [_ratio(runs, arm, measure) for runs in points.values() if arm in runs]
                main = arm in ("0.67", "0.8", "0.9")
                style = {"marker": "D" if main else "o", "ms": 8 if main else 6, "zorder": 3 if main else 2.5}
                ax.plot(x, at, color=PALETTE[COLOURS[arm]], ls="", label=NAMES[arm], **style)
            ax.set(title=title, yticks=range(len(points)), ylim=(len(points) - 0.5, -0.5))
            ax.set_xlabel("independent training = 1")
            ax.set_yticklabels([f"{SETS[d]}, width {w}, {e} epochs" for d, w, _, e in points])
            ax.grid(visible=True, axis="x")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _ratio(runs: Runs, arm: str, measure: str) -> float:
    """Return a mean over seeds, divided by that of independent training over the same seeds."""
    seeds = runs[arm].keys() & runs["independent"].keys()
    ours, theirs = (np.mean([runs[one][s]["vote"][measure] for s in seeds]) for one in (arm, "independent"))
    return float(ours / theirs)
