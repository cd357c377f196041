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
    FIRST_DIVERSITY,
    PREDICTORS,
    MapArrays,
    Predictor,
    budgets,
    choose_on_other_tables,
    displayed_arms,
    evaluate_predictor,
    gains_of,
    of_loss,
    read_map,
    reduction,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_all(record: Mapping[str, Any]) -> "dict[str, Figure]":
    """Return all figures of a record, by the names of their files."""
    return {"diversity-map": draw_map(record), "diversity-rule": draw_rule(record)}


def draw_map(record: Mapping[str, Any]) -> "Figure":
    """Draw the gain by size and number of learners, and below it by diversity."""
    from matplotlib.figure import Figure

    arrays = read_map(record)
    gains = {name: gains_of(arrays.gain, loss) for name, loss in displayed_arms(arrays).items()}
    with house_style():
        figure = Figure(figsize=(11.5, 8.0))
        start = "Smoke run: errors" if record["config"]["smoke"] else "Errors"
        title = f"{start} that diversity takes away, mean over {len(arrays.tables)} tables, soft vote"
        figure.suptitle(title, size=13, weight="bold")
        halves: Any = figure.subfigures(2, 1)
        upper, lower = halves
        maps = upper.subplots(1, len(gains), squeeze=False)[0]
        for ax, (name, gain) in zip(maps, gains.items(), strict=True):
            _draw_heat(ax, arrays, 100 * reduction(gain.mean(axis=0)))
            ax.set_title(fill(name.capitalize(), 30))
        curves = lower.subplots(1, len(arrays.hidden), sharey=True, squeeze=False)[0]
        for place, ax in enumerate(curves):
            _draw_curves(ax, arrays, place)
        curves[0].set_ylabel("errors taken away, %")
        curves[0].legend(title="learners", loc="lower left")
    return figure


def draw_rule(record: Mapping[str, Any]) -> "Figure":
    """Draw the gain against its best predictor, and the errors at equal total numbers of hidden units."""
    from matplotlib.figure import Figure

    arrays = read_map(record)
    gain = gains_of(arrays.gain, None)
    best = max((evaluate_predictor(name, arrays, None) for name in PREDICTORS), key=lambda one: one.auc)
    with house_style():
        figure = Figure(figsize=(11.5, 4.6))
        left, right = figure.subplots(1, 2)
        _draw_prediction(left, arrays, gain, best)
        _draw_budgets(right, arrays)
    return figure


def _draw_heat(ax: "Axes", arrays: MapArrays, percent: NDArray[np.float64]) -> None:
    """Draw a tile for each size and number of learners, blue where diversity costs, red where it pays."""
    most = max(np.abs(percent).max(), 1.0)
    ax.imshow(percent, cmap=diverging_colours(), vmin=-most, vmax=most, origin="lower", aspect="auto")
    for (n, h), value in np.ndenumerate(percent):
        dark = abs(value) > 0.6 * most
        colour = "white" if dark else PALETTE["ink"]
        ax.text(h, n, number(value, "+.0f"), ha="center", va="center", color=colour)
    ax.set_xticks(range(len(arrays.hidden)), map(str, arrays.hidden))
    ax.set_yticks(range(len(arrays.learners)), map(str, arrays.learners))
    ax.set(xlabel="hidden units of a learner", ylabel="learners")


def _draw_curves(ax: "Axes", arrays: MapArrays, place: int) -> None:
    """Draw the removed errors against the diversity, for one size of learners."""
    mean = 100 * reduction(arrays.gain[:, :, place].mean(axis=0))  # (L, C)
    for colour, n, values in zip(ordered_colours(len(arrays.learners)), arrays.learners, mean, strict=True):
        ax.plot(arrays.diversities, values[FIRST_DIVERSITY:], color=colour, marker="o", ms=3, label=str(n))
    ax.axhline(0, color=PALETTE["muted"], lw=0.8, zorder=1)
    units = arrays.hidden[place]
    ax.set_title(f"{units} hidden unit{'s' if units > 1 else ''}")
    ax.set_xlabel("diversity")
    ax.grid(visible=True, axis="y")


def _draw_prediction(ax: "Axes", arrays: MapArrays, gain: NDArray[np.float64], best: Predictor) -> None:
    """Draw the gain of every cell against a quantity on its training rows."""
    values, percent = arrays.train[best.name], 100 * reduction(gain)
    # Cells far below the others, where a perfect vote became imperfect, are drawn at the edge.
    low = min(1.2 * np.quantile(percent, 0.02), -10)
    for place, colour in enumerate(ordered_colours(len(arrays.hidden))):
        x, y = values[:, :, place].ravel(), percent[:, :, place].ravel()
        ax.scatter(x[y >= low], y[y >= low], color=colour, s=16, label=str(arrays.hidden[place]))
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


def _draw_budgets(ax: "Axes", arrays: MapArrays) -> None:
    """Draw the mean errors of few large and many small learners; a line joins equal total numbers of units."""
    arms = {
        "independent": arrays.error[..., 0],
        "diverse": of_loss(arrays.error, choose_on_other_tables(arrays.gain)),
    }
    cells = budgets(arrays)
    for colour, (units, places) in zip(ordered_colours(len(cells)), cells.items(), strict=True):
        for (name, error), line in zip(arms.items(), ("--", "-"), strict=True):
            x = [arrays.learners[n] for n, _ in places]
            y = [100 * error[:, n, h].mean() for n, h in places]
            ax.plot(x, y, line, color=colour, marker="o", ms=4, label=f"about {units}, {name}")
    ax.set_xscale("log")
    ax.set_xticks(arrays.learners, map(str, arrays.learners), minor=False)
    ax.set_xticks([], minor=True)
    ax.set(title="Hidden units in all", xlabel="learners they are divided among", ylabel="error, %")
    if cells:
        ax.legend()
    ax.grid(visible=True, axis="y")
