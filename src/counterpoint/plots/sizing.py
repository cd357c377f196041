"""Sizing: the accuracy of the vote against the number of learners."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import check_count, check_whole
from counterpoint.assessment import learner_outputs
from counterpoint.outputs import Outputs, vote_accuracies
from counterpoint.plots.style import PALETTE, house_style, new_axes
from counterpoint.theory import VoteCurve, vote_accuracy_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["VoteCurveDisplay"]


class VoteCurveDisplay:
    """The accuracy of the vote against the number of learners, measured and predicted.

    Parameters
    ----------
    predicted : VoteCurve
        The predicted accuracy of each size.
    measured : VoteCurve, optional
        The measured accuracy of some sizes.

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

    def __init__(self, predicted: VoteCurve, measured: VoteCurve | None = None) -> None:
        self.predicted = predicted
        self.measured = measured

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        votes: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        random_state: int = 0,
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
        random_state : int, default=0
            Seed of the 20 orders in which the learners join the measured vote.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        VoteCurveDisplay
            Drawn. The prediction is :func:`~counterpoint.theory.vote_accuracy_curve` at the mean
            accuracy and the mean error correlation of the learners; it is for equal learners and, with
            more than two classes, counts only a majority, where the measured vote goes to the largest
            group. A tie is shared. If no pair of learners has an error correlation, it is NaN.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> votes = [[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]
        >>> ax = Figure().subplots()
        >>> display = VoteCurveDisplay.from_predictions([0, 0, 1, 1], votes, sizes=[1, 3], ax=ax)
        >>> display.measured.accuracy
        array([0.75, 1.  ])
        """
        from counterpoint.measures import error_correlations

        rng = np.random.default_rng(check_whole(random_state, "random_state", minimum=0))
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
        if np.isnan(pairs).all():  # the measure has warned
            accuracy = np.full(n.shape, np.nan)
        else:
            accuracy = vote_accuracy_curve((given == truth).mean(), np.nanmean(pairs), n)
        return cls(VoteCurve(n, accuracy), _measure(Outputs(votes, y_true), rng)).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        random_state: int = 0,
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
        sizes, random_state, ax
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
        return cls.from_predictions(y, votes, sizes=sizes, random_state=random_state, ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the prediction as a line, the measurement as markers.

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
            ax.plot(*self.predicted, color=PALETTE["blue"], label="predicted majority")
            if self.measured is not None:
                ax.plot(
                    *self.measured, "o", ms=6, mec="white", color=PALETTE["orange"], label="measured vote"
                )
                ax.legend(loc="lower right")
            ax.set(xlabel="Number of learners", ylabel="Accuracy of the vote")
            ax.grid(visible=True)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _measure(read: Outputs, rng: np.random.Generator) -> VoteCurve:
    """Return the mean accuracy of growing ensembles, over 20 orders of the learners."""
    orders = (rng.permutation(read.n_learners).tolist() for _ in range(20))
    accuracy = np.mean([vote_accuracies(read, "hard", order) for order in orders], axis=0)
    return VoteCurve(np.arange(1, read.n_learners + 1, 2), accuracy[::2])
