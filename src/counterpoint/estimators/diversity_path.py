"""Plot of the accuracy over the diversities of a search."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.estimators.paired import corrected_paired_test

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["DiversityPathDisplay"]


class DiversityPathDisplay:
    """Accuracy of the vote on held-out rows over the diversity, beside independent training.

    Parameters
    ----------
    diversities : ndarray of shape (n_diversities,)
        In increasing order.
    scores : ndarray of shape (n_diversities, n_folds)
        Accuracies of the vote, at the best weight decay and epoch of each diversity.
    independent : ndarray of shape (n_folds,)
        Accuracies of independent training, at its best weight decay and epoch.
    test_share : float, default=0.0
        Number of test rows over that of training rows, in a fold; 0 if folds share no training rows.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> display = DiversityPathDisplay(np.array([0.0, 1.0]), np.array([[0.8, 0.9], [0.9, 0.9]]), np.array([0.8, 0.8]))
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()
    'Diversity'
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(
        self, diversities: FloatArray, scores: FloatArray, independent: FloatArray, test_share: float = 0.0
    ) -> None:
        self.diversities, self.scores, self.independent = diversities, scores, independent
        self.test_share = test_share

    @classmethod
    def from_estimator(cls, search: Any, *, ax: "Axes | None" = None) -> Self:
        """Draw the path of a fitted search.

        Parameters
        ----------
        search : DiverseEnsembleClassifierCV
            A fitted search.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DiversityPathDisplay
            Drawn.
        """
        results = search.cv_results_
        n_folds = sum(name.startswith("split") for name in results)
        votes = np.stack([results[f"split{k}_test_score"] for k in range(n_folds)], axis=1)
        rows = search._at_best_settings  # independent training first
        diversities, votes = results["param_diversity"][rows], votes[rows]
        order = 1 + np.argsort(diversities[1:])
        return cls(diversities[order], votes[order], votes[0], search._test_share).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the mean over the folds, with one standard error of the difference from independent training.

        The error is the corrected one of the test behind the verdict.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DiversityPathDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        from counterpoint.plots.style import PALETTE, house_style, new_axes

        mean = 100 * self.scores.mean(axis=1)
        tests = [corrected_paired_test(own - self.independent, self.test_share) for own in self.scores]
        error = [100 * test.standard_error for test in tests]
        with house_style():
            ax = new_axes(6.0, 4.2) if ax is None else ax
            base = 100 * self.independent.mean()
            ax.axhline(base, color=PALETTE["muted"], ls="--", lw=1.5, label="trained independently")
            ax.errorbar(
                self.diversities,
                mean,
                error,
                fmt="o-",
                capsize=3,
                color=PALETTE["blue"],
                label="trained together",
            )
            ax.set(xlabel="Diversity", ylabel="Accuracy of the vote, held out (%)")
            ax.grid(visible=True)
            ax.legend(loc="best")
        self.ax_, self.figure_ = ax, ax.figure
        return self
