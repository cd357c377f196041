"""Table and figure of heads on one trunk: error by diversity, beside one head of the same size."""

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import NONE, Grid, mean, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "grid", "runs_by_arm"]

FloatArray = NDArray[np.float64]
Record = Mapping[str, Any]
Key = tuple[str, str, int]  # mode, kind, k
Runs = list[Mapping[str, Any]]  # one for each seed

ONE = "one"
SETS = {"cifar100": "CIFAR-100", "digits": "digits"}
NETWORKS = {"resnet18": "ResNet-18", "convnet": "ConvNet"}
TRUNKS = {"frozen": "Frozen trunk", "tuned": "Fine-tuned trunk"}
KINDS = {"hidden": "one hidden layer", "linear": "linear"}
COLOURS = ("blue", "orange", "teal", "magenta")


def runs_by_arm(record: Record) -> dict[Key, dict[str, Runs]]:
    """Return the results by mode, kind and number of heads, then by arm."""
    found: dict[Key, dict[str, Runs]] = {}
    for piece in record["data"].values():
        mode, kind, k, arm = (piece["config"][name] for name in ("mode", "kind", "k", "arm"))
        found.setdefault((mode, kind, k), {}).setdefault(arm, []).append(piece["data"])
    return dict(sorted(found.items()))


def grid(record: Record) -> Grid:
    """Return errors in percent, log-loss and the parameters of the heads, for each arm."""
    rows = [
        [mode, kind, str(k), "one head" if arm == ONE else arm, *_numbers(runs)]
        for (mode, kind, k), arms in runs_by_arm(record).items()
        for arm, runs in sorted(arms.items(), key=lambda item: (item[0] == ONE, item[0]))
    ]
    config = next(iter(record["data"].values()))["config"]
    start = "Smoke run. " if record["config"]["smoke"] else ""
    title = f"{start}{SETS[config['data']]}, heads on one {NETWORKS[config['network']]}, test images"
    headings = ["trunk", "heads", "k", "dial"]
    scores = ["error %", "log-loss", "ECE %", "learner %", "r_LL", "parameters", "n"]
    return Grid(title, headings + scores, rows, n_words=2)


def _numbers(runs: Runs) -> list[str]:
    error, log_loss, calibration = (
        np.array([run["vote"][name] for run in runs]) for name in ("error", "log_loss", "calibration_error")
    )
    r_ll = [run["r_ll"] for run in runs]  # None for one head
    return [
        spread(100 * error, 2),
        spread(log_loss, 3),
        spread(100 * calibration, 1),
        spread(100 * np.array([run["learner_error"] for run in runs]), 1),
        NONE if None in r_ll else mean(r_ll, 2),
        f"{runs[0]['n_parameters']:,}",
        str(len(runs)),
    ]


def draw(record: Record) -> "Figure":
    """Draw the error by diversity, a row for each trunk and a column for each kind of heads.

    One head of the same size is dashed. Bars and bands are one standard deviation over the seeds.
    """
    from matplotlib.figure import Figure

    found = runs_by_arm(record)
    modes = list(dict.fromkeys(mode for mode, _, _ in found))
    kinds = list(dict.fromkeys(kind for _, kind, _ in found))
    several = sorted({k for (_, _, k), arms in found.items() if arms.keys() - {ONE}})
    colours = {k: PALETTE[COLOURS[place % len(COLOURS)]] for place, k in enumerate(several)}
    with house_style():
        figure = Figure(figsize=(1.0 + 3.6 * len(kinds), 3.2 * len(modes)))
        axes = figure.subplots(len(modes), len(kinds), squeeze=False, sharey="row")
        for (row, mode), (column, kind) in product(enumerate(modes), enumerate(kinds)):
            ax = axes[row, column]
            heads = {k: arms for (*panel, k), arms in found.items() if panel == [mode, kind]}
            if not heads:
                ax.remove()
                continue
            for k, arms in heads.items():
                _draw_heads(ax, arms, k, colours.get(k, PALETTE["muted"]))
            ax.set(title=f"{TRUNKS[mode]}, {KINDS[kind]}", xlabel="Diversity d")
            ax.legend(fontsize=8)
        for ax in axes[:, 0]:
            ax.set_ylabel("Test error, %")
    return figure


def _draw_heads(ax: "Axes", arms: Mapping[str, Runs], k: int, colour: str) -> None:
    """Draw the errors of k heads by diversity, and of one head of their size."""
    dials = sorted((arm for arm in arms if arm != ONE), key=float)
    if dials:
        values = [_errors(arms[arm]) for arm in dials]
        sd = [each.std(ddof=1) if len(each) > 1 else 0.0 for each in values]
        style: dict[str, Any] = {"color": colour, "marker": "o", "capsize": 2, "label": f"{k} heads"}
        ax.errorbar([float(arm) for arm in dials], [each.mean() for each in values], sd, **style)
    if ONE in arms:
        label = "one head" if k == 1 else f"one head, size of {k}"
        errors = _errors(arms[ONE])
        ax.axhline(errors.mean(), color=colour, ls="--", lw=1.5, label=label)
        if len(errors) > 1:
            low, high = errors.mean() + errors.std(ddof=1) * np.array([-1, 1])
            ax.axhspan(low, high, color=colour, alpha=0.12, lw=0)


def _errors(runs: Runs) -> FloatArray:
    return np.array([100 * run["vote"]["error"] for run in runs])
