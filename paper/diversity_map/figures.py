"""The map of diversity as figures."""

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import number
from paper.colours import diverging_colours, ordered_colours
from paper.diversity_map.analysis import (
    FIRST,
    PREDICTORS,
    Map,
    Predictor,
    at,
    budgets,
    choose,
    gains_of,
    judge,
    read_map,
    reduction,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_all(record: Mapping[str, Any]) -> "dict[str, Figure]":
    """Return all figures of a record, by the names of their files."""
    return {"diversity-map": draw_map(record), "diversity-rule": draw_rule(record)}


def draw_map(record: Mapping[str, Any]) -> "Figure":
    """Draw the gain by size and number of learners, and below it over the diversities."""
    from matplotlib.figure import Figure

    found = read_map(record)
    gains = {way: gains_of(found.gain, loss) for way, loss in shown(found).items()}
    with house_style():
        figure = Figure(figsize=(11.5, 8.0))
        start = "Smoke run: errors" if record["config"]["smoke"] else "Errors"
        title = f"{start} that diversity takes away, mean over {len(found.tables)} tables, soft vote"
        figure.suptitle(title, size=13, weight="bold")
        halves: Any = figure.subfigures(2, 1)
        upper, lower = halves
        maps = upper.subplots(1, len(gains), squeeze=False)[0]
        for ax, (way, gain) in zip(maps, gains.items(), strict=True):
            _draw_heat(ax, found, 100 * reduction(gain.mean(axis=0)))
            ax.set_title(fill(way.capitalize(), 30))
        curves = lower.subplots(1, len(found.hidden), sharey=True, squeeze=False)[0]
        for place, ax in enumerate(curves):
            _draw_curves(ax, found, place)
        curves[0].set_ylabel("errors taken away, %")
        curves[0].legend(title="learners", loc="lower left")
    return figure


def draw_rule(record: Mapping[str, Any]) -> "Figure":
    """Draw the gain over what foretells it best, and the errors at equal numbers of hidden units in all."""
    from matplotlib.figure import Figure

    found = read_map(record)
    gain = gains_of(found.gain, None)
    best = max((judge(name, found, None) for name in PREDICTORS), key=lambda one: one.auc)
    with house_style():
        figure = Figure(figsize=(11.5, 4.6))
        left, right = figure.subplots(1, 2)
        _draw_prediction(left, found, gain, best)
        _draw_budgets(right, found)
    return figure


def _draw_heat(ax: "Axes", found: Map, percent: NDArray[np.float64]) -> None:
    """Draw a cell for each size and number, blue where diversity costs, red where it pays."""
    most = max(np.abs(percent).max(), 1.0)
    ax.imshow(percent, cmap=diverging_colours(), vmin=-most, vmax=most, origin="lower", aspect="auto")
    for (n, h), value in np.ndenumerate(percent):
        dark = abs(value) > 0.6 * most
        colour = "white" if dark else PALETTE["ink"]
        ax.text(h, n, number(value, "+.0f"), ha="center", va="center", color=colour)
    ax.set_xticks(range(len(found.hidden)), map(str, found.hidden))
    ax.set_yticks(range(len(found.learners)), map(str, found.learners))
    ax.set(xlabel="hidden units of a learner", ylabel="learners")


def _draw_curves(ax: "Axes", found: Map, place: int) -> None:
    """Draw the errors taken away over the diversity, for one size of learners."""
    mean = 100 * reduction(found.gain[:, :, place].mean(axis=0))  # (L, C)
    for colour, n, values in zip(ordered_colours(len(found.learners)), found.learners, mean, strict=True):
        ax.plot(found.diversities, values[FIRST:], color=colour, marker="o", ms=3, label=str(n))
    ax.axhline(0, color=PALETTE["muted"], lw=0.8, zorder=1)
    units = found.hidden[place]
    ax.set_title(f"{units} hidden unit{'s' if units > 1 else ''}")
    ax.set_xlabel("diversity")
    ax.grid(visible=True, axis="y")


def _draw_prediction(ax: "Axes", found: Map, gain: NDArray[np.float64], best: Predictor) -> None:
    """Draw every cell: what was measured on the training rows, and what diversity brought."""
    values, percent = found.train[best.name], 100 * reduction(gain)
    # One table on which a perfect vote became imperfect would press all others together: such cells stand at the edge.
    low = min(1.2 * np.quantile(percent, 0.02), -10)
    for place, colour in enumerate(ordered_colours(len(found.hidden))):
        x, y = values[:, :, place].ravel(), percent[:, :, place].ravel()
        ax.scatter(x[y >= low], y[y >= low], color=colour, s=16, label=str(found.hidden[place]))
        ax.scatter(x[y < low], np.full((y < low).sum(), low), color=colour, s=24, marker="v", clip_on=False)
    ax.axhline(0, color=PALETTE["muted"], lw=0.8, zorder=1)
    if np.isfinite(best.threshold):
        ax.axvline(best.threshold, color=PALETTE["muted"], lw=0.8, ls="--", zorder=1)
    ax.set_ylim(bottom=low)
    ax.set(
        title="A cell for each table, size and number",
        xlabel=f"{PREDICTORS[best.name]}, training rows, independent",
        ylabel="errors taken away, %",
    )
    ax.legend(title="hidden units")


def _draw_budgets(ax: "Axes", found: Map) -> None:
    """Draw the mean errors of few large and many small learners, joined where they have as many units in all."""
    ways = {"independent": found.error[..., 0], "diverse": at(found.error, choose(found.gain))}
    cells = budgets(found)
    for colour, (units, places) in zip(ordered_colours(len(cells)), cells.items(), strict=True):
        for (way, error), line in zip(ways.items(), ("--", "-"), strict=True):
            x = [found.learners[n] for n, _ in places]
            y = [100 * error[:, n, h].mean() for n, h in places]
            ax.plot(x, y, line, color=colour, marker="o", ms=4, label=f"about {units}, {way}")
    ax.set_xscale("log")
    ax.set_xticks(found.learners, map(str, found.learners), minor=False)
    ax.set_xticks([], minor=True)
    ax.set(title="Hidden units in all", xlabel="learners they are divided among", ylabel="error, %")
    if cells:
        ax.legend()
    ax.grid(visible=True, axis="y")
