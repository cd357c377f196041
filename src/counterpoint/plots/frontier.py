"""The frontier: what more learners, or dearer ones, buy."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.plots.style import PALETTE, house_style, new_axes
from counterpoint.selection import Panel, Selection, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["FrontierDisplay"]


class FrontierDisplay:
    """Accuracy of the vote against the cost of the panel, on samples that did not choose it.

    Parameters
    ----------
    selection : Selection
        From :func:`counterpoint.select`.

    Attributes
    ----------
    selection : Selection
        As given.
    panels : tuple of Panel
        The panels with a known accuracy, from cheap to dear.
    ax_, figure_
        The axes and the figure of the last drawing.

    Examples
    --------
    >>> from counterpoint.selection import select
    >>> truth = np.arange(100) % 2
    >>> display = FrontierDisplay(select(truth, [truth, 1 - truth, truth], costs=[3, 1, 2]))
    >>> [(panel.cost, panel.accuracy.value) for panel in display.panels]
    [(2.0, 1.0), (3.0, 1.0), (5.0, 1.0)]
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(self, selection: Selection) -> None:
        if not isinstance(selection, Selection):
            raise TypeError(f"`selection` must be a Selection; got {type(selection).__name__}.")
        known = [panel for panel in selection.panels if not np.isnan(panel.accuracy.value)]
        if not known:
            raise ValueError(
                "`selection` must have panels that were judged; it had too few samples for that."
            )
        self.selection = selection
        self.panels: tuple[Panel, ...] = tuple(sorted(known, key=lambda panel: panel.cost))

    @classmethod
    def from_selection(cls, selection: Selection, *, ax: "Axes | None" = None) -> Self:
        """Draw the panels of a selection.

        Parameters
        ----------
        selection : Selection
            From :func:`counterpoint.select`.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        FrontierDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint.selection import select
        >>> truth = np.arange(100) % 2
        >>> selection = select(truth, [truth, 1 - truth])
        >>> FrontierDisplay.from_selection(selection, ax=Figure().subplots()).ax_.get_xlabel()
        'Number of learners'
        """
        return cls(selection).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, outputs: Any, *, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Choose from a pool and draw the panels that were compared.

        Parameters
        ----------
        y_true : array_like, shape (n_samples,)
            The true labels.
        outputs : array_like, mapping or DataFrame
            Labels or probabilities of the learners.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            Of :func:`counterpoint.select`, such as ``costs``.

        Returns
        -------
        FrontierDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> truth = np.arange(100) % 2
        >>> votes = {"fast": 1 - truth, "slow": truth}
        >>> ax = Figure().subplots()
        >>> FrontierDisplay.from_predictions(truth, votes, costs={"fast": 1, "slow": 5}, ax=ax).ax_.get_xlabel()
        'Cost of the panel'
        """
        return cls.from_selection(select(y_true, outputs, **options), ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the panels with their intervals, a line along the frontier and the chosen panel.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        FrontierDisplay
            The display itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint.selection import select
        >>> truth = np.arange(100) % 2
        >>> display = FrontierDisplay(select(truth, [truth, 1 - truth]))
        >>> display.plot(Figure().subplots()).ax_.get_ylabel()
        'Accuracy of the vote, %'
        """
        costs, value, low, high = self._columns(self.panels)
        with house_style():
            ax = new_axes(6.4, 4.4) if ax is None else ax
            ax.errorbar(
                costs,
                value,
                np.abs([value - low, high - value]),
                fmt="o",
                ms=4,
                color=PALETTE["grey"],
                elinewidth=1,
                label="panels, 95 % interval",
                zorder=2,
            )
            spent, best = self._columns(self.selection.frontier)[:2]
            ax.plot(
                spent,
                best,
                "-o",
                ms=5,
                color=PALETTE["blue"],
                drawstyle="steps-post",
                label="best for its cost",
                zorder=3,
            )
            for panel in self.panels:
                if set(panel.indices.tolist()) == set(self.selection.indices.tolist()):
                    self._mark(ax, panel)
            equal = (self.selection.costs == 1).all()
            xlabel = "Number of learners" if equal else "Cost of the panel"
            ax.set(xlabel=xlabel, ylabel="Accuracy of the vote, %")
            ax.set_xlim(left=0)
            ax.grid(visible=True)
            ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark(self, ax: "Axes", panel: Panel) -> None:
        count = len(panel.indices)
        label = f"chosen: {count} learner{'' if count == 1 else 's'}"
        spot = panel.cost, 100 * panel.accuracy.value
        ax.plot(*spot, "o", ms=10, mec="white", color=PALETTE["orange"], label=label, zorder=4)

    @staticmethod
    def _columns(panels: tuple[Panel, ...]) -> Any:
        """Return cost, accuracy and the ends of its interval, in percent."""
        return np.array([(panel.cost, *(100 * share for share in panel.accuracy)) for panel in panels]).T
