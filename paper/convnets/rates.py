"""``image-rates``: the learning rates of ``image-dial``, chosen for each kind of arm on held-out training images.

The common rate is kept unless another has a clearly lower log-loss on the held-out images, so that arms differ in their
rate only where it matters; of rates that tie, the one nearest the common rate is taken. The rates found on CIFAR-10 are
used for CIFAR-100 too.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import Grid
from counterpoint.training import pick_device
from paper.convnets.dial_tables import NAMES, SETS
from paper.convnets.images import ImageSets
from paper.convnets.study import LEARNING_RATE, LONG, Point, jobs_of, kind_of
from paper.runner import Study, run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CLEARLY", "POINTS", "SMOKE_POINTS", "STUDY", "chosen", "reproduce"]

Record = Mapping[str, Any]

TRIED = (0.003, LEARNING_RATE, 0.03, 0.1, 0.3, 1.0)
CLEARLY = 0.02  # share by which another rate must lower the log-loss
TIED = 0.01  # share of the log-loss within which the best rate is the one nearest the common one
NARROW = ("independent", "0.9", "joint-logits", "paper-0.9", "single", "joint-sum", "joint-proba")
WIDE = ("independent", "0.8", "joint-logits", "paper-0.9", "single")


def _points(
    data: str,
    width: int,
    n_learners: int,
    epochs: int,
    arms: tuple[str, ...],
    rates: tuple[float, ...] = TRIED[:4],
) -> list[Point]:
    name = f"{data}-w{width}" if epochs <= 10 else f"{data}-w{width}-e{epochs}"
    return [
        Point(f"{name}-{rate}", data, width, n_learners, epochs, arms, n_seeds=1, rate=rate) for rate in rates
    ]


POINTS = [
    *_points("cifar10", 8, 10, 10, NARROW),
    *_points("cifar10", 32, 5, 10, WIDE),
    *_points("cifar10", 8, 10, 10, NARROW[:3], (0.3,)),  # the arms that were best at 0.1
    *_points("cifar10", 8, 10, 10, NARROW[:1], (1.0,)),  # the arm that was best at 0.3
    *_points("cifar10", 8, 10, LONG[8], NARROW[:1], (0.03, 0.1, 0.3, 1.0)),
    *_points("cifar10", 8, 10, LONG[8], NARROW[1:2], (LEARNING_RATE, 0.03, 0.1, 0.3)),
    *_points("cifar10", 32, 5, LONG[32], WIDE[:2], TRIED[:4]),
]
SMOKE_POINTS = _points("digits", 2, 2, 1, ("independent", "0.9"))


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs that are not done yet, and write a record of all that are.

    ``parts`` selects the jobs to run: beginnings of their names, separated by commas.
    """
    where = pick_device(device)
    jobs = jobs_of(SMOKE_POINTS if smoke else POINTS, None, ImageSets(data, smoke=smoke), where)
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)


def chosen(record: Record) -> dict[tuple[str, int, int], float]:
    """Return the rates that are not the common one, by kind of arm, width and epochs."""
    found = {}
    for (_, width, epochs, arm), losses in _log_losses(record).items():
        best = min(losses.values())
        if best < (1 - CLEARLY) * losses.get(LEARNING_RATE, float("inf")):
            tied = [rate for rate, loss in losses.items() if loss <= (1 + TIED) * best]
            found[kind_of(arm), width, epochs] = min(
                tied, key=lambda rate: abs(math.log(rate / LEARNING_RATE))
            )
    return found


def grids(record: Record) -> list[Grid]:
    """Return the log-loss on held-out images for each rate, and the rate that was chosen."""
    choice = chosen(record)
    rows = [
        [
            SETS[data],
            str(width),
            str(epochs),
            NAMES[arm],
            *(f"{losses[rate]:.3f}" if rate in losses else "" for rate in TRIED),
            f"{choice.get((kind_of(arm), width, epochs), LEARNING_RATE):g}",
        ]
        for (data, width, epochs, arm), losses in _log_losses(record).items()
    ]
    start = "Smoke run. " if record["config"]["smoke"] else ""
    title = f"{start}Log-loss on held-out training images, by learning rate"
    headings = ["data", "width", "epochs", "loss", *(f"{rate:g}" for rate in TRIED), "chosen"]
    return [Grid(title, headings, rows, n_words=4)]


def draw(record: Record) -> "Figure":
    """Draw the log-loss on held-out images over the learning rate, one panel for each width and number of epochs."""
    from matplotlib.figure import Figure

    found = _log_losses(record)
    panels = list(dict.fromkeys(key[:3] for key in found))
    labels = {kind_of(arm): NAMES[arm] for *_, arm in found} | {"dial": "DiversityLoss(), the default"}
    colours = dict(zip(labels, PALETTE.values(), strict=False))
    lines = {}
    with house_style():
        n_rows = -(-len(panels) // 2)
        figure = Figure(figsize=(9.5, 0.8 + 3.2 * n_rows))
        axes = figure.subplots(n_rows, min(len(panels), 2), squeeze=False).flat
        for ax, panel in zip(axes, panels, strict=False):
            mine = {arm: losses for (*where, arm), losses in found.items() if tuple(where) == panel}
            for arm, losses in mine.items():
                kind = kind_of(arm)
                style = {"color": colours[kind], "label": labels[kind]}
                lines[kind] = ax.plot(list(losses), list(losses.values()), "o-", **style)[0]
            ax.set(xscale="log", xlabel="Learning rate", ylabel="Log-loss on held-out images")
            ax.set_xticks(rates := [rate for rate in TRIED if any(rate in own for own in mine.values())])
            ax.set_xticklabels([f"{rate:g}" for rate in rates])
            ax.minorticks_off()
            data, width, epochs = panel
            ax.set_title(f"{SETS[data]}, width {width}, {epochs} epochs")
        figure.legend(handles=list(lines.values()), loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _log_losses(record: Record) -> dict[tuple[str, int, int, str], dict[float, float]]:
    """Return the log-loss by data, width, epochs and arm, then by rate."""
    found: dict[tuple[str, int, int, str], dict[float, float]] = {}
    for piece in record["data"].values():
        config = piece["config"]
        key = config["data"], config["width"], config["epochs"], config["arm"]
        found.setdefault(key, {})[config["learning_rate"]] = piece["data"]["vote"]["log_loss"]
    return {key: dict(sorted(losses.items())) for key, losses in found.items()}


STUDY = Study(
    "image-rates", "Learning rates of the image study", grids, lambda record: {"image-rates": draw(record)}
)
