"""The critical-difference diagram: mean ranks on a line, and bars over methods that cannot be told apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from counterpoint.arena.statistics import cliques
from counterpoint.arena.summary import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["RankDisplay"]


class RankDisplay:
    """Mean ranks of methods, and which of them differ.

    Parameters
    ----------
    ranks : mapping of str to float
        The mean rank of each method.
    difference : float
        The critical one: methods that are less apart cannot be told from each other.
    marked : str, optional
        A method to draw in colour.
    differ : bool, default=True
        Whether Friedman's test finds any difference; without one no two methods are told apart, however far from each
        other they are.

    Attributes
    ----------
    names, ranks
        In order, the best first.
    bars : list of (int, int)
        The first and last place of each run of methods that cannot be told apart.
    size : (float, float)
        Width and height of a figure for it, in inches.
    ax_, figure_
        Where it was drawn, after ``plot``.

    Examples
    --------
    >>> display = RankDisplay({"b": 2.0, "a": 1.2, "c": 2.8}, difference=1.0)
    >>> display.names, display.bars
    (['a', 'b', 'c'], [(0, 1), (1, 2)])
    >>> RankDisplay({"b": 2.0, "a": 1.2, "c": 2.8}, difference=1.0, differ=False).bars
    [(0, 2)]
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(
        self, ranks: Mapping[str, float], difference: float, marked: str | None = None, *, differ: bool = True
    ) -> None:
        self.names = sorted(ranks, key=lambda name: (ranks[name], name))
        self.ranks = np.array([ranks[name] for name in self.names])
        self.difference, self.marked = difference, marked
        self.bars = cliques(self.ranks, difference if differ else np.inf)
        self.size = (7.5, 1.4 + 0.27 * len(self.names))  # of a new figure, in inches

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw a line for each method, the best on top, and a bar for each run.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        RankDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        from counterpoint.plots.style import PALETTE, house_style, new_axes

        places = np.arange(len(self.names))
        left, right = self.ranks.min() - 0.3, self.ranks.max()
        step = (right - left) / 30
        with house_style():
            ax = new_axes(*self.size) if ax is None else ax
            for place, name, rank in zip(places, self.names, self.ranks, strict=True):
                colour = PALETTE["red"] if name == self.marked else PALETTE["blue"]
                ax.plot([left, rank], [place, place], color=PALETTE["grey"], lw=0.8, zorder=1)
                ax.plot(rank, place, "o", color=colour, ms=6)
                ax.annotate(
                    f"{rank:.2f}", (rank, place), (7, 0), textcoords="offset points", va="center", size=8.5
                )
            for number, run in enumerate(self.bars):
                at = right + (3.5 + number) * step
                ax.plot([at, at], [run[0] - 0.2, run[1] + 0.2], color=PALETTE["ink"], lw=3.5)
            below = len(self.names)
            ax.plot([left + step, left + step + self.difference], [below, below], color=PALETTE["ink"], lw=2)
            words = f"critical difference {self.difference:.2f}"
            ax.annotate(words, (left + step, below), (0, 6), textcoords="offset points", size=9)
            ax.set_yticks(places, self.names)
            ax.set(
                xlabel="Mean rank (1 is best)",
                xlim=(left, max(right + (4 + len(self.bars)) * step, left + 2 * step + self.difference)),
                ylim=(below + 0.5, -0.7),
            )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any], marked: str | None = None) -> Self:
        """Return the diagram of a summary, not yet drawn.

        Parameters
        ----------
        summary : mapping
            With ``ranks``; their bars are by Nemenyi's test where Friedman's finds a difference.
        marked : str, optional
            A method to draw in colour.
        """
        found = summary["ranks"]
        differ = found["friedman"]["p_value"] < LEVEL
        return cls(found["mean_rank"], found["critical_difference"], marked, differ=differ)
