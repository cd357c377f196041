"""Reliability: how often a vote or a learner is right, against how sure it is."""

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint.measures import Reliability, reliability
from counterpoint.plots.style import PALETTE, house_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from counterpoint.assessment import Assessment

__all__ = ["ReliabilityDisplay"]


class ReliabilityDisplay:
    """Reliability diagram: accuracy against confidence, with the share of the samples.

    Parameters
    ----------
    reliability : Reliability
        What :func:`counterpoint.measures.reliability` returned.
    name : str, optional
        What to call the vote or the learner.

    Attributes
    ----------
    reliability, name
        As given.
    calibration_error : float
        The mean distance of the points from the diagonal, weighted by their samples.
    ax_, figure_
        Where it was drawn, after ``plot``.

    Examples
    --------
    >>> from counterpoint.measures import reliability
    >>> bins = reliability([0, 0, 1, 1], [[0.8, 0.2], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
    >>> round(ReliabilityDisplay(bins).calibration_error, 3)
    0.325
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(self, reliability: Reliability, *, name: str | None = None) -> None:
        if not isinstance(reliability, Reliability):
            raise TypeError(f"`reliability` must be a Reliability; got {type(reliability).__name__}.")
        if not np.any(reliability.count):
            raise ValueError("`reliability` must hold at least one sample; got none.")
        self.reliability, self.name = reliability, name
        full = reliability.count > 0
        gaps = np.abs(reliability.accuracy - reliability.confidence)
        self.calibration_error = float(np.average(gaps[full], weights=reliability.count[full]))

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        proba: ArrayLike,
        n_bins: int = 15,
        name: str | None = None,
        *,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Bin the probabilities of one vote or one learner.

        Parameters
        ----------
        y_true : array_like, shape (n_samples,)
            The true labels.
        proba : array_like, shape (n_samples, n_classes)
            Probabilities; :func:`counterpoint.measures.combine` returns those of a vote.
        n_bins : int, default=15
            The number of bins of equal width.
        name : str, optional
            What to call the vote or the learner.
        labels : array_like, shape (n_classes,), optional
            The classes, in the order of the columns; by default the sorted labels of ``y_true``.

        Returns
        -------
        ReliabilityDisplay
            Not yet drawn.

        Examples
        --------
        >>> display = ReliabilityDisplay.from_predictions([0, 1, 1], [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]], 4)
        >>> display.reliability.count
        array([0, 0, 2, 1])
        """
        return cls(reliability(y_true, proba, n_bins=n_bins, labels=labels), name=name)

    @classmethod
    def from_assessment(cls, assessment: "Assessment") -> Self:
        """Show the probabilities of the vote that counts.

        Parameters
        ----------
        assessment : Assessment
            What :func:`counterpoint.assess` returned for a soft or a geometric vote.

        Returns
        -------
        ReliabilityDisplay
            Not yet drawn.

        Examples
        --------
        >>> from counterpoint import assess
        >>> one = [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4], [0.9, 0.1], [0.6, 0.4]]
        >>> two = [[0.4, 0.6], [0.3, 0.7], [0.3, 0.7], [0.8, 0.2], [0.7, 0.3]]
        >>> display = ReliabilityDisplay.from_assessment(assess([0, 1, 1, 0, 1], [one, two], voting="soft"))
        >>> round(display.calibration_error, 3)
        0.39
        """
        if not len(assessment.probabilities.reliability.count):
            raise ValueError(
                f"`assessment` must be of a soft or a geometric vote of probabilities; "
                f"got a {assessment.voting} vote of {assessment.outputs}."
            )
        return cls(assessment.probabilities.reliability, name=assessment.name)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the points with their distance from the diagonal, and under them the share of the samples.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure. The shares go to axes of their own under it.

        Returns
        -------
        ReliabilityDisplay
            Itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> display = ReliabilityDisplay.from_predictions([0, 1, 1], [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])
        >>> display.plot(Figure().subplots()).ax_.get_ylabel()
        'Accuracy'
        """
        from mpl_toolkits.axes_grid1 import make_axes_locatable

        with house_style():
            ax = new_axes(5.0, 5.4) if ax is None else ax
            self._draw_points(ax)
            self._draw_shares(make_axes_locatable(ax).append_axes("bottom", "25%", pad="8%", sharex=ax))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_points(self, ax: "Axes") -> None:
        _, confidence, accuracy, count = self.reliability
        full = count > 0
        x, y = confidence[full], accuracy[full]
        ax.plot([0, 1], [0, 1], color=PALETTE["muted"], ls="--", lw=1.2, label="perfectly calibrated")
        ax.vlines(x, x, y, color=PALETTE["red"], lw=2.0, alpha=0.6)
        area = 24 + 64 * count[full] / count.max()  # a bin of few samples is off by chance
        label = f"calibration error {self.calibration_error:.3f}"
        ax.scatter(x, y, area, color=PALETTE["blue"], ec="white", label=label, zorder=3, clip_on=False)
        ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="Accuracy")
        ax.tick_params(labelbottom=False)
        ax.grid(visible=True)
        ax.legend(loc="lower right")
        if self.name is not None:
            ax.set_title(self.name)

    def _draw_shares(self, ax: "Axes") -> None:
        edges, _, _, count = self.reliability
        ax.bar(
            edges[:-1],
            count / count.sum(),
            np.diff(edges),
            align="edge",
            color=PALETTE["blue"],
            alpha=0.35,
            ec="white",
        )
        ax.set(xlabel="Confidence: probability of the most probable class", ylabel="Share")
        ax.set_ylim(bottom=0)
        ax.locator_params(axis="y", nbins=3)
