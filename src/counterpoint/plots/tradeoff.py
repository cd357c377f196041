"""The plane of Theorem 2: accuracy of the learners against their diversity.

Notation: ``r_tl`` and ``r_ll`` are the averaged truth-learner and learner-learner correlations.
"""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_flag, check_interval, check_whole, short
from counterpoint.assessment import learner_outputs
from counterpoint.plots.style import PALETTE, house_style, new_axes
from counterpoint.theory import (
    OperatingPoint,
    learner_correlation_bounds,
    truth_correlation_bounds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["TradeoffBounds", "TradeoffDisplay"]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_COLOURS = tuple(PALETTE[name] for name in ("orange", "teal", "magenta", "cyan", "ink"))


class TradeoffBounds(NamedTuple):
    """The two curves of Theorem 2 on a grid of ``r_ll``.

    Examples
    --------
    >>> TradeoffBounds(r_ll=[0.0], low=[-0.5], high=[0.5]).high
    [0.5]
    """

    r_ll: FloatArray
    low: FloatArray
    high: FloatArray


class TradeoffDisplay:
    r"""Ensembles on the plane of Theorem 2.

    The mean learner-learner correlation runs to the right (left is diverse), the mean truth-learner
    correlation upwards (up is accurate). No ensemble of ``n_learners`` lies outside the two curves.

    Parameters
    ----------
    n_learners : int
        Number of learners of every ensemble shown, at least 2.
    points : mapping of str to (r_tl, r_ll), optional
        Ensembles by name.
    trajectories : mapping of str to (r_tl, r_ll), optional
        Paths by name: two arrays of equal length, drawn as a line that ends in a marker.

    Attributes
    ----------
    bounds : TradeoffBounds
        The curves, as arrays.
    points, trajectories : dict of str to OperatingPoint
        The ensembles, checked against Theorem 1.
    ax_, figure_
        The axes and the figure of the last drawing.

    Examples
    --------
    >>> display = TradeoffDisplay(5, points={"a forest": (0.6, 0.4)})
    >>> display.bounds.high[[0, -1]]
    array([0., 1.])
    >>> float(display.points["a forest"].r_tl)
    0.6
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(
        self,
        n_learners: int,
        *,
        points: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
        trajectories: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> None:
        self.n_learners = check_whole(n_learners, "n_learners", minimum=2)
        self.points = {} if points is None else self._check(points, "points")
        self.trajectories = {} if trajectories is None else self._check(trajectories, "trajectories")
        lowest, highest = learner_correlation_bounds(self.n_learners)
        # Squared, so that the steps are finest at the apex, where the curve is vertical.
        r_ll = lowest + (highest - lowest) * np.linspace(0.0, 1.0, 201) ** 2
        self.bounds = TradeoffBounds(r_ll, *truth_correlation_bounds(r_ll, self.n_learners))

    def _check(
        self, given: Mapping[str, tuple[ArrayLike, ArrayLike]], name: str
    ) -> dict[str, OperatingPoint]:
        if not isinstance(given, Mapping):
            raise TypeError(f"`{name}` must be a mapping; got {type(given).__name__}.")
        return {label: self._check_one(pair, f"{name}[{label!r}]") for label, pair in given.items()}

    def _check_one(self, pair: Any, name: str) -> OperatingPoint:
        try:
            r_tl, r_ll = pair
        except (TypeError, ValueError) as error:
            raise type(error)(f"`{name}` must be a pair (r_tl, r_ll); got {short(pair)}.") from None
        limits = learner_correlation_bounds(self.n_learners)
        point = OperatingPoint(
            check_interval(r_tl, f"{name}.r_tl", -1, 1),
            check_interval(r_ll, f"{name}.r_ll", *limits, because="Theorem 1"),
        )
        shapes = np.shape(point.r_tl), np.shape(point.r_ll)
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"`{name}` must have r_tl and r_ll of one shape; got shapes {shapes[0]} and {shapes[1]}."
            )
        return point

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        ensembles: Mapping[str, ArrayLike] | ArrayLike,
        *,
        labels: ArrayLike | None = None,
        ax: "Axes | None" = None,
        legend: bool = True,
    ) -> Self:
        """Draw ensembles by the outputs of their learners.

        Parameters
        ----------
        y_true : array_like, shape (n_samples,)
            The true labels.
        ensembles : mapping of str to array_like, or array_like
            For each ensemble the votes ``(n_learners, n_samples)`` or the probabilities
            ``(n_learners, n_samples, n_classes)`` of its learners. All must have the same number of learners. A
            single ensemble needs no name.
        labels : array_like, shape (n_classes,), optional
            The classes, in the order of the columns of probabilities; by default the sorted labels of ``y_true``,
            and of the votes.
        ax, legend
            As for :meth:`plot`.

        Returns
        -------
        TradeoffDisplay
            Drawn. The correlations are averaged over the classes that occur in ``y_true``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> votes = [[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]
        >>> display = TradeoffDisplay.from_predictions([0, 0, 1, 1], {"three": votes}, ax=Figure().subplots())
        >>> float(display.points["three"].r_tl.round(3))
        0.718
        """
        given = _named(ensembles, "ensembles")
        display = cls._measured(y_true, {name: (outputs, labels) for name, outputs in given.items()})
        return display.plot(ax, legend=legend)

    @classmethod
    def _measured(
        cls, y_true: ArrayLike, ensembles: Mapping[str, tuple[ArrayLike, ArrayLike | None]]
    ) -> Self:
        """Return the display of ensembles, each with its outputs and classes."""
        from counterpoint.outputs import mean_defined, mean_of_pairs
        from counterpoint.plots._measured import measured_correlations

        sizes = {name: len(np.atleast_1d(outputs)) for name, (outputs, _) in ensembles.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"`ensembles` must have the same number of learners; got {sizes}.")
        points = {}
        for name, (outputs, labels) in ensembles.items():
            r_tl, r_ll = measured_correlations(cls.__name__, y_true, outputs, labels)
            points[name] = (mean_defined(r_tl), mean_of_pairs(r_ll))
        return cls(next(iter(sizes.values())), points=points)

    @classmethod
    def from_estimator(
        cls,
        estimators: Any,
        X: Any,
        y: ArrayLike,
        *,
        ax: "Axes | None" = None,
        legend: bool = True,
    ) -> Self:
        """Draw fitted scikit-learn ensembles by the outputs of their learners.

        Parameters
        ----------
        estimators : mapping of str to fitted ensemble, or fitted ensemble
            Ensembles that :func:`counterpoint.assess_estimator` accepts, by name. All must have the same number of
            learners. A single ensemble needs no name.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array_like, shape (n_samples,)
            Their labels.
        ax, legend
            As for :meth:`plot`.

        Returns
        -------
        TradeoffDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, y)
        >>> display = TradeoffDisplay.from_estimator({"forest": forest}, X, y, ax=Figure().subplots())
        >>> list(display.points)
        ['forest']
        """
        given = _named(estimators, "estimators")
        learners = {name: learner_outputs(one, X) for name, one in given.items()}
        display = cls._measured(y, {name: (found.outputs, found.classes) for name, found in learners.items()})
        return display.plot(ax, legend=legend)

    def plot(self, ax: "Axes | None" = None, *, legend: bool = True) -> Self:
        """Draw the plane.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        legend : bool, default=True
            Whether to show a legend with the names.

        Returns
        -------
        TradeoffDisplay
            The display itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> TradeoffDisplay(5).plot(Figure().subplots()).ax_.get_xlabel()
        'Learner-learner correlation $r_{LL}$'
        """
        check_flag(legend, "legend")
        with house_style():
            ax = new_axes(6.0, 4.8) if ax is None else ax
            self._draw_bounds(ax)
            styles = zip(cycle(_MARKERS), cycle(_COLOURS), strict=False)
            for (label, path), (marker, colour) in zip(self.trajectories.items(), styles, strict=False):
                ax.plot(path.r_ll, path.r_tl, color=colour, lw=1.5, zorder=4, label=label)
                self._mark(ax, path.r_ll.flat[-1], path.r_tl.flat[-1], marker, colour)
            for (label, point), (marker, colour) in zip(self.points.items(), styles, strict=False):
                self._mark(ax, point.r_ll, point.r_tl, marker, colour, label=label)
            if legend and (self.points or self.trajectories):
                ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.2))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_bounds(self, ax: "Axes") -> None:
        r_ll, low, high = self.bounds
        ax.fill_between(r_ll, low, high, color=PALETTE["blue"], alpha=0.06, lw=0)
        ax.plot(r_ll, high, color=PALETTE["red"], zorder=3)
        ax.plot(r_ll, low, color=PALETTE["blue"], zorder=3)
        ax.axhline(0, color="black", ls=":", lw=1.2, zorder=2)
        middle = int(np.searchsorted(r_ll, (r_ll[0] + r_ll[-1]) / 2))
        for text, colour, at, offset in (
            ("upper bound", PALETTE["red"], (r_ll[middle], high[middle]), (-6, 6)),
            ("lower bound", PALETTE["blue"], (r_ll[middle], low[middle]), (-6, -14)),
            ("guessing", "black", (r_ll[-1], 0), (0, 5)),
        ):
            ax.annotate(text, at, offset, textcoords="offset points", ha="right", color=colour)
        margin = 0.03 * (r_ll[-1] - r_ll[0])
        ax.set(
            xlim=(r_ll[0] - margin, r_ll[-1] + margin),
            ylim=(-1.06, 1.06),
            xlabel="Learner-learner correlation $r_{LL}$",
            ylabel="Truth-learner correlation $r_{TL}$",
        )

    @staticmethod
    def _mark(ax: "Axes", x: Any, y: Any, marker: str, colour: str, **style: Any) -> None:
        ax.plot(x, y, ls="", marker=marker, ms=8, color=colour, mec="white", zorder=5, **style)


def _named(given: Any, name: str) -> Mapping[str, Any]:
    named = given if isinstance(given, Mapping) else {"ensemble": given}
    if not named:
        raise ValueError(f"`{name}` must hold at least one ensemble; got none.")
    return named
