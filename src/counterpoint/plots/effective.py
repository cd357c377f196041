"""Effective votes: how many learners as good as its best an ensemble is worth, as a picture."""

import math
from typing import TYPE_CHECKING, Self

from counterpoint._validation import check_count, check_interval
from counterpoint.assessment import Estimate
from counterpoint.plots.style import PALETTE, house_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from counterpoint.assessment import Assessment

__all__ = ["EffectiveVotesDisplay"]

_IN_A_ROW = 20
_RADIUS = 0.42


class EffectiveVotesDisplay:
    """The learners as circles, filled up to what they are worth, above three accuracies.

    Parameters
    ----------
    n_learners : int
        The number of learners.
    votes : Estimate
        How many learners as good as the best, erring independently, they are worth, with its interval.
    best, vote, mean_learner : float
        The accuracy of the best learner, of the vote, and of a learner on average.

    Attributes
    ----------
    n_learners, votes, best, vote, mean_learner
        As given.
    ax_, figure_
        The axes and the figure of the last drawing.

    Examples
    --------
    >>> from counterpoint.assessment import Estimate
    >>> EffectiveVotesDisplay(6, Estimate(0.7, 0.4, 1.2), best=0.71, vote=0.65, mean_learner=0.63).votes.value
    0.7
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(
        self, n_learners: int, votes: Estimate, *, best: float, vote: float, mean_learner: float
    ) -> None:
        self.n_learners = int(check_count(n_learners, "n_learners", minimum=2))
        if math.isnan(votes.value):
            raise ValueError("`votes` must be a number of votes; got nan.")
        self.votes = votes
        self.best = float(check_interval(best, "best", 0, 1))
        self.vote = float(check_interval(vote, "vote", 0, 1))
        self.mean_learner = float(check_interval(mean_learner, "mean_learner", 0, 1))

    @classmethod
    def from_assessment(
        cls, assessment: "Assessment", *, noun: str = "learners", ax: "Axes | None" = None
    ) -> Self:
        """Draw what the learners of an assessment are worth.

        Parameters
        ----------
        assessment : Assessment
            From :func:`counterpoint.assess`, of at least two learners.
        noun, ax
            As for :meth:`plot`.

        Returns
        -------
        EffectiveVotesDisplay
            Drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from counterpoint import assess
        >>> rng = np.random.default_rng(0)
        >>> right = rng.normal(size=500) + rng.normal(size=(6, 500)) < 0.7
        >>> truth = rng.integers(0, 2, 500)
        >>> assessment = assess(truth, np.where(right, truth, 1 - truth))
        >>> display = EffectiveVotesDisplay.from_assessment(assessment, ax=Figure().subplots())
        >>> print(f"{display.n_learners} learners, {display.votes.value:.1f} votes")
        6 learners, 2.0 votes
        """
        if math.isnan(assessment.effective.votes.value):
            raise ValueError(
                "`assessment` must have a number of effective votes; it is undefined: "
                f"{assessment.effective.undefined}."
            )
        display = cls(
            assessment.n_learners,
            assessment.effective.votes,
            best=float(assessment.accuracies[assessment.best_learner]),
            vote=assessment.vote.value,
            mean_learner=float(assessment.accuracies.mean()),
        )
        return display.plot(ax, noun=noun)

    def plot(self, ax: "Axes | None" = None, *, noun: str = "learners") -> Self:
        """Draw the circles, and below them the accuracies.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure. The accuracies get their own axes below it.
        noun : str, default="learners"
            What the learners are, in the plural, such as ``"judges"``.

        Returns
        -------
        EffectiveVotesDisplay
            The display itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint.assessment import Estimate
        >>> display = EffectiveVotesDisplay(6, Estimate(0.7, 0.4, 1.2), best=0.71, vote=0.65, mean_learner=0.63)
        >>> display.plot(Figure().subplots(), noun="judges").ax_.get_title(loc="left")
        '6 judges are worth 0.7 of their best (95 %: 0.4 to 1.2)'
        """
        from mpl_toolkits.axes_grid1 import make_axes_locatable

        with house_style():
            ax = new_axes(6.4, 3.1) if ax is None else ax
            known = "" if math.isnan(self.votes.low) else f" (95 %: {self.votes.count_range()})"
            ax.set_title(
                f"{self.n_learners} {noun} are worth {self.votes.as_count().split()[0]} of their best{known}",
                loc="left",
            )
            below = make_axes_locatable(ax).append_axes("bottom", "150%", pad=0.15)
            self._draw_circles(ax)
            self._draw_accuracies(below)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_circles(self, ax: "Axes") -> None:
        from matplotlib.patches import Circle, Rectangle

        count = max(self.n_learners, math.ceil(self.votes.value))
        rows = math.ceil(count / _IN_A_ROW)
        for k in range(count):
            x, y = k % _IN_A_ROW, -(k // _IN_A_ROW)
            outline = Circle((x, y), _RADIUS, fill=False, ec=PALETTE["muted"], lw=1.2)
            ax.add_patch(outline)
            share = min(self.votes.value - k, 1.0)
            if share > 0:
                corner = (x - _RADIUS, y - _RADIUS)
                filled = Rectangle(corner, 2 * _RADIUS * share, 2 * _RADIUS, color=PALETTE["blue"], lw=0)
                ax.add_patch(filled)
                filled.set_clip_path(outline)
        width = min(max(count, 8), _IN_A_ROW)
        ax.set(xlim=(-0.6, width - 0.4), ylim=(-rows + 0.4, 0.6))
        ax.set_aspect("equal", adjustable="box", anchor="W")
        ax.axis("off")

    def _draw_accuracies(self, ax: "Axes") -> None:
        named = {
            "the best of them alone": (self.best, PALETTE["orange"]),
            f"the vote of all {self.n_learners}": (self.vote, PALETTE["blue"]),
            "one of them, on average": (self.mean_learner, PALETTE["grey"]),
        }
        for row, (name, (value, colour)) in enumerate(named.items()):
            ax.barh(row, 100 * value, color=colour, height=0.36)
            ax.annotate(f"right on {100 * value:.1f} %: {name}", (0, row - 0.24), va="bottom")
        ax.set(xlim=(0, 100), ylim=(2.4, -0.75), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
