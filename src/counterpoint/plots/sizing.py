"""Sizing: the accuracy of the vote against the number of learners."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import check_count
from counterpoint.assessment import SubsetVotes, learner_outputs
from counterpoint.assessment.effective import wrong_agreement
from counterpoint.assessment.growth import Growth
from counterpoint.assessment.subsets import subset_votes
from counterpoint.outputs import Outputs, sufficient_statistics
from counterpoint.plots.style import PALETTE, house_style, new_axes
from counterpoint.theory import VoteCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from counterpoint.assessment import Assessment

__all__ = ["VoteCurveDisplay"]

_LINEAR = 100  # learners that a linear axis can show


class VoteCurveDisplay:
    """The accuracy of the vote against the number of learners, measured and predicted.

    Parameters
    ----------
    predicted : VoteCurve
        The predicted accuracy of each size.
    measured : SubsetVotes, optional
        The measured accuracy of some sizes, averaged over which learners take part.

    Attributes
    ----------
    predicted, measured
        As given.
    ax_, figure_
        The axes and the figure of the last drawing.

    Examples
    --------
    >>> from counterpoint.theory import VoteCurve, vote_accuracy_curve
    >>> sizes = [1, 5, 25]
    >>> display = VoteCurveDisplay(VoteCurve(sizes, vote_accuracy_curve(0.75, 0.2, sizes)))
    >>> display.predicted.accuracy.round(3)
    array([0.75 , 0.823, 0.862])
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(self, predicted: VoteCurve, measured: SubsetVotes | None = None) -> None:
        self.predicted = predicted
        self.measured = measured

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        votes: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the measured vote of the learners and the predicted vote of more of them.

        Parameters
        ----------
        y_true : array_like, shape (n_samples,)
            The true labels.
        votes : array_like, shape (n_learners, n_samples)
            The labels given by at least two learners.
        sizes : array_like of int, optional
            Sizes to predict; by default the odd ones up to twice the number of learners, at least 51.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        VoteCurveDisplay
            Drawn. Up to the number of learners the curve is the measured vote, beyond it the prediction for learners
            like these from a mixture of easy and hard samples. The measured vote is the mean over subsets of the
            learners: all of a size, or 30 random ones. If no pair of learners has an error correlation, the curve is
            NaN.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> votes = [[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]
        >>> ax = Figure().subplots()
        >>> display = VoteCurveDisplay.from_predictions([0, 0, 1, 1], votes, sizes=[1, 3], ax=ax)
        >>> display.measured.mean
        array([0.75, 1.  ])
        """
        from counterpoint.measures import error_correlations

        truth, given = np.asarray(y_true), np.asarray(votes)
        if given.ndim != 2 or truth.shape != given.shape[1:]:
            raise ValueError(
                "`votes` must have the shape (n_learners, n_samples) with a column for each entry of "
                f"`y_true`; got {given.shape} and {truth.shape}."
            )
        n_learners = len(given)
        if n_learners < 2:
            raise ValueError(f"`votes` must hold at least 2 learners, on its first axis; got {n_learners}.")
        pairs = error_correlations(y_true, votes)[np.triu_indices(n_learners, 1)]
        wanted = np.arange(1, max(2 * n_learners, 51) + 1, 2) if sizes is None else sizes
        n = check_count(wanted, "sizes", minimum=1)
        read = Outputs(votes, y_true)
        measured = subset_votes(read)
        predicted = VoteCurve(n, np.full(n.shape, np.nan))
        if not np.isnan(pairs).all():  # else the measure has warned
            counts = sufficient_statistics(read, correctness=True, same_wrong=True).correctness
            assert counts is not None
            agreement = wrong_agreement(counts, len(read.classes))
            predicted = Growth(read, float(np.nanmean(pairs)), agreement, measured, None).curve(n)
        return cls(predicted, measured.odd()).plot(ax)

    @classmethod
    def from_assessment(cls, assessment: "Assessment", *, ax: "Axes | None" = None) -> Self:
        """Draw the measured and the predicted hard vote of an assessment.

        Parameters
        ----------
        assessment : Assessment
            From :func:`counterpoint.assess`.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        VoteCurveDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint import assess
        >>> votes = [[0, 0, 1, 0, 1], [0, 1, 1, 1, 1], [1, 0, 1, 1, 1]]
        >>> assessment = assess([0, 0, 1, 1, 0], votes)
        >>> display = VoteCurveDisplay.from_assessment(assessment, ax=Figure().subplots())
        >>> display.measured.mean
        array([0.6, 0.8])
        """
        return cls(assessment.prediction.sizing, assessment.votes.subsets.odd()).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the measured and the predicted hard vote of the learners of a fitted scikit-learn ensemble.

        Parameters
        ----------
        estimator : fitted ensemble, or sequence of fitted classifiers
            Any ensemble that :func:`counterpoint.assess_estimator` accepts.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array_like, shape (n_samples,)
            Their labels.
        sizes, ax
            As for :meth:`from_predictions`.

        Returns
        -------
        VoteCurveDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, y)
        >>> display = VoteCurveDisplay.from_estimator(forest, X, y, sizes=[1, 25], ax=Figure().subplots())
        >>> display.predicted.sizes
        array([ 1, 25])
        """
        learners = learner_outputs(estimator, X)
        votes = learners.outputs
        if votes.ndim == 3:
            votes = learners.classes[votes.argmax(axis=2)]
        return cls.from_predictions(y, votes, sizes=sizes, ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the measurement as markers, and beyond it the prediction as a line with its interval.

        A band around the markers holds nine in ten subsets.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        VoteCurveDisplay
            The display itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint.theory import VoteCurve
        >>> curve = VoteCurve([1, 3, 5], [0.7, 0.76, 0.8])
        >>> VoteCurveDisplay(curve).plot(Figure().subplots()).ax_.get_xlabel()
        'Number of learners'
        """
        with house_style():
            ax = new_axes(6.0, 4.2) if ax is None else ax
            if self.measured is not None:
                sizes, mean, low, high = self.measured
                colour = PALETTE["orange"]
                ax.plot(
                    sizes,
                    mean,
                    "o-",
                    ms=6,
                    lw=1.2,
                    mec="white",
                    color=colour,
                    label="measured, mean over subsets",
                )
                ax.fill_between(sizes, low, high, color=colour, alpha=0.25, lw=0, label="nine in ten subsets")
            self._draw_predicted(ax)
            if self.measured is not None:
                ax.legend(loc="lower right")
            if self.predicted.sizes[-1] > _LINEAR:
                ax.set_xscale("log")
                ax.xaxis.set_major_formatter("{x:g}")
            ax.set(xlabel="Number of learners", ylabel="Accuracy of the vote")
            ax.grid(visible=True)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_predicted(self, ax: "Axes") -> None:
        """Draw the curve, beyond what is measured if it goes further."""
        sizes, accuracy, low, high = self.predicted
        last = 0 if self.measured is None else self.measured.sizes[-1]
        shown = np.asarray(sizes) >= last
        if not shown.any():
            return
        sizes, accuracy = np.asarray(sizes)[shown], np.asarray(accuracy)[shown]
        if low is not None and high is not None:
            ax.fill_between(
                sizes,
                low[shown],
                high[shown],
                color=PALETTE["blue"],
                alpha=0.15,
                lw=0,
                label="its 95% interval",
            )
        ax.plot(sizes, accuracy, color=PALETTE["blue"], label="predicted, learners like these")
