"""The pictures of a report: mean ranks with a critical difference, or the scores on a single data set."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.arena.ranks import LEVEL
from counterpoint.arena.statistics import cliques
from counterpoint.arena.summary import SCORES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["RankDisplay", "ScoreDisplay"]


class RankDisplay:
    """Critical-difference diagram of the mean ranks of methods.

    :meth:`from_summary` makes one and draws it.

    Parameters
    ----------
    ranks : mapping of str to float
        The mean rank of each method.
    difference : float
        The critical difference: methods with a smaller difference of mean ranks are joined by a bar.
    marked : str, optional
        A method to draw in another colour.
    differ : bool, default=True
        Whether Friedman's test finds a difference; if not, one bar joins all methods.

    Attributes
    ----------
    names : list of str
        The methods, best first.
    ranks : ndarray
        Their mean ranks.
    bars : list of (int, int)
        First and last position of each group of methods that do not differ significantly.
    size : (float, float)
        Width and height of a new figure, in inches.
    ax_ : matplotlib Axes
        Where it was drawn last.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

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
        self.size = (7.5, 1.4 + 0.27 * len(self.names))

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw a line for each method, best on top, and a bar for each group.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        RankDisplay
            The display itself.
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
            for number, (first, last) in enumerate(self.bars):
                at = right + (3.5 + number) * step
                ax.plot([at, at], [first - 0.2, last + 0.2], color=PALETTE["ink"], lw=3.5)
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
    def from_summary(
        cls,
        summary: Mapping[str, Any],
        marked: str | None = None,
        *,
        score: str = "error",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the diagram of a summary.

        Parameters
        ----------
        summary : mapping
            From :func:`summarise`, with ranks. Methods are joined by Nemenyi's test if Friedman's finds a difference.
        marked : str, optional
            A method to draw in another colour.
        score : {"error", "log_loss"}, default="error"
            The score that ranks the methods.
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        RankDisplay
            The display, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> ranks = {"mean_rank": {"a": 1.2, "b": 2.0, "c": 2.8}, "critical_difference": 1.0}
        >>> display = RankDisplay.from_summary({"ranks": ranks | {"friedman": {"p_value": 0.01}}})
        >>> display.ax_.get_xlabel()
        'Mean rank (1 is best)'
        """
        found = summary[{"error": "ranks", "log_loss": "log_loss_ranks"}[score]]
        differ = found["friedman"]["p_value"] < LEVEL
        return cls(found["mean_rank"], found["critical_difference"], marked, differ=differ).plot(ax)


class ScoreDisplay:
    """Errors and log-losses of methods on one data set, with 95 % intervals over the folds.

    Parameters
    ----------
    summary : mapping
        From :func:`summarise`, of one data set.

    Attributes
    ----------
    names : list of str
        The methods, lowest error first.
    panels : dict of str to ndarray
        By the label of an axis the means and the ends of the intervals, of shape (3, n_methods); NaN where a method has
        no log-loss.
    size : (float, float)
        Width and height of a figure, in inches.

    Examples
    --------
    >>> spread = {"a": {"mean": 0.2, "low": 0.1, "high": 0.3}, "b": {"mean": 0.1, "low": 0.0, "high": 0.2}}
    >>> display = ScoreDisplay({"errors": {"mine": spread}, "log_losses": {"mine": {}}})
    >>> display.names, list(display.panels)
    (['b', 'a'], ['Error in %'])
    """

    def __init__(self, summary: Mapping[str, Any]) -> None:
        ((self.title, errors),) = summary["errors"].items()
        losses = summary["log_losses"][self.title]
        self.names = sorted(errors, key=lambda name: (errors[name]["mean"], name))
        self.panels = {"Error in %": 100 * _ends(errors, self.names)}
        if losses:
            self.panels[SCORES["log_loss"].capitalize()] = _ends(losses, self.names)
        self.size = (3.8 + 2.6 * len(self.panels), 1.2 + 0.27 * len(self.names))

    def plot(self, figure: "Figure") -> Self:
        """Draw a panel for each score, with a line for each method.

        Parameters
        ----------
        figure : matplotlib Figure
            Where to draw.

        Returns
        -------
        ScoreDisplay
            The display itself.
        """
        from counterpoint.plots.style import PALETTE, house_style

        places = np.arange(len(self.names))
        with house_style():
            axes = figure.subplots(1, len(self.panels), sharey=True, squeeze=False)[0]
            for ax, (label, (mean, low, high)) in zip(axes, self.panels.items(), strict=True):
                ax.hlines(places, low, high, color=PALETTE["grey"], lw=2)
                ax.plot(mean, places, "o", color=PALETTE["blue"], ms=5)
                ax.set(xlabel=f"{label}, with its 95 % interval", ylim=(len(places) - 0.5, -0.5))
            axes[0].set_yticks(places, self.names)
            figure.suptitle(self.title, size=10)
        return self


def _ends(found: Mapping[str, Mapping[str, float]], names: list[str]) -> FloatArray:
    """Return means, low and high ends of methods, NaN for those without."""
    none = dict.fromkeys(("mean", "low", "high"), np.nan)
    return np.array([[found.get(name, none)[key] for name in names] for key in none])
