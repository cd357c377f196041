"""Figure 1: the entries of the correlation matrix behind r_TL and r_LL."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.plots import PALETTE, house_style
from counterpoint.records import write_figure, write_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Correlation matrix of the truth T and three learners"
FILL = {"truth-learner": PALETTE["blue"], "learner-learner": PALETTE["orange"]}


class Schematic(NamedTuple):
    """The role of every entry of the matrix."""

    names: list[str]
    roles: NDArray[np.str_]


def reproduce(out: Path) -> list[Path]:
    """Write the schematic of the correlation matrix."""
    schematic = compute()
    return [
        *write_figure(draw(schematic), out, "figure-1"),
        *write_record(out, "figure-1", title=TITLE, config={"n_learners": 3}, data=schematic),
    ]


def compute() -> Schematic:
    """Return the roles: above the diagonal each pair counts once, below it is repeated."""
    row, column = np.indices((4, 4))
    roles = np.select(
        [row == column, row > column, row == 0],
        ["diagonal", "mirror", "truth-learner"],
        default="learner-learner",
    )
    return Schematic(["T", "L_1", "L_2", "L_3"], roles)


def draw(schematic: Schematic) -> "Figure":
    """Draw the matrix as tiles, with the two averages beside it."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(7.0, 3.7), layout="compressed")
        tiles, key = figure.subplots(1, 2, width_ratios=[1.0, 0.95])
        _draw_tiles(tiles, schematic)
        _draw_key(key)
    return figure


def _draw_tiles(ax: "Axes", schematic: Schematic) -> None:
    from matplotlib.patches import FancyBboxPatch

    names, roles = schematic
    for (row, column), role in np.ndenumerate(roles):
        text = "$1$" if row == column else rf"$r_{{{names[row]},\,{names[column]}}}$"
        fill = FILL.get(role, "#F1F1F1" if role == "mirror" else "#D9D9D9")
        shape = FancyBboxPatch(
            (column - 0.44, row - 0.44),
            0.88,
            0.88,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=fill,
            edgecolor="none",
        )
        ax.add_patch(shape)
        colour = "white" if role in FILL else PALETTE["muted"]
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=13)
    labels = [f"${name}$" for name in names]
    ax.set(xlim=(-0.55, 3.55), ylim=(3.55, -0.55), aspect="equal")
    ax.set_xticks(range(4), labels, fontsize=13)
    ax.set_yticks(range(4), labels, fontsize=13)
    ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    ax.spines[:].set_visible(False)


def _draw_key(ax: "Axes") -> None:
    rows = (
        (0.66, "truth-learner", "accuracy of the learners", r"r_{TL}=\dfrac{1}{N}\sum_i r_{T,\,L_i}"),
        (
            0.22,
            "learner-learner",
            "likeness: the lower, the more diverse",
            r"r_{LL}=\dfrac{2}{N(N-1)}\sum_{i<j} r_{L_i,\,L_j}",
        ),
    )
    for height, role, meaning, formula in rows:
        ax.text(0, height + 0.15, f"mean {role}", color=FILL[role], weight="bold", fontsize=11)
        ax.text(0, height + 0.07, meaning, color=PALETTE["muted"], fontsize=10)
        ax.text(0, height - 0.07, f"${formula}$", fontsize=13)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
