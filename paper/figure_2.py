"""Figure 2: a matrix that no ensemble can have, and one that it can."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, CorrelationDisplay, house_style
from counterpoint.records import number, write_figure, write_record
from counterpoint.theory import is_correlation_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "An impossible and a possible correlation matrix"
CASES = {"left": {"r_tl": 1.0, "r_ll": -1.0}, "right": {"r_tl": 0.3, "r_ll": -0.2}}


class Example(NamedTuple):
    """A matrix of the truth and three learners, and whether it can exist."""

    r_tl: float
    r_ll: float
    matrix: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    possible: bool


def reproduce(out: Path) -> list[Path]:
    """Write both matrices with their eigenvalues."""
    examples = {side: compute(**case) for side, case in CASES.items()}
    return [
        *write_figure(draw(examples), out, "figure-2"),
        *write_record(out, "figure-2", title=TITLE, config=CASES, data=examples),
    ]


def compute(r_tl: float, r_ll: float) -> Example:
    """Return the matrix of three equal learners, its eigenvalues and the verdict."""
    matrix = np.full((4, 4), r_ll)
    matrix[0, :] = matrix[:, 0] = r_tl
    np.fill_diagonal(matrix, 1.0)
    return Example(r_tl, r_ll, matrix, np.linalg.eigvalsh(matrix), is_correlation_matrix(matrix))


def draw(examples: dict[str, Example]) -> "Figure":
    """Draw each matrix above the line of its eigenvalues."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.4, 5.0))
        axes = figure.subplots(2, len(examples), height_ratios=[3.4, 1.0])
        for (top, bottom), example in zip(axes.T, examples.values(), strict=True):
            CorrelationDisplay(example.matrix, ["T", "$L_1$", "$L_2$", "$L_3$"]).plot(top)
            top.set_title(
                f"$r_{{TL}} = {example.r_tl:g}$,  $r_{{LL}} = {example.r_ll:g}$",
                loc="center",
                weight="normal",
            )
            _draw_eigenvalues(bottom, example)
    return figure


def _draw_eigenvalues(ax: "Axes", example: Example) -> None:
    values, counts = np.unique(example.eigenvalues.round(9), return_counts=True)
    ax.axvspan(-2.6, 0, color=PALETTE["red"], alpha=0.08, lw=0)
    ax.axhline(0, color=PALETTE["muted"], lw=0.8)
    crowded = np.diff(values, prepend=-np.inf) < 0.6
    for value, count, below in zip(values, counts, crowded, strict=True):
        colour = PALETTE["red"] if value < 0 else PALETTE["blue"]
        offset = (0, -17) if below else (0, 9)
        ax.plot(value, 0, "o", ms=8, color=colour, mec="white", zorder=3)
        text = number(value, ".3g") + (f" (×{count})" if count > 1 else "")  # noqa: RUF001
        ax.annotate(text, (value, 0), offset, textcoords="offset points", ha="center", color=colour)
    verdict = "possible: no eigenvalue" if example.possible else "impossible: an eigenvalue"
    colour = PALETTE["blue"] if example.possible else PALETTE["red"]
    ax.set(xlim=(-2.6, 2.8), ylim=(-1, 1), yticks=[], xticks=range(-2, 3))
    ax.set_xlabel(f"{verdict} is negative", color=colour)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
