"""Correlation matrices, the truth first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_flag, check_interval, check_square
from counterpoint.assessment.learners import learner_outputs
from counterpoint.plots.style import PALETTE, diverging, house_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from counterpoint.assessment import Assessment

__all__ = ["CorrelationDisplay"]

_MOST_LABELS = 40
_MOST_LETTERS = 36  # in one line above the matrix
_MOST_VALUES = 12


class CorrelationDisplay:
    """The correlation matrix of the truth and the learners.

    Parameters
    ----------
    matrix : array_like, shape (n, n)
        Entries between -1 and 1, or NaN where undefined. It need not be a possible correlation
        matrix.
    names : sequence of str
        Names of rows and columns.

    Attributes
    ----------
    matrix, names
        What is shown, in the order shown.
    ax_, figure_
        Where it was drawn, after ``plot``.

    Examples
    --------
    >>> CorrelationDisplay([[1, 0.5], [0.5, 1]], ["T", "L1"]).matrix
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def __init__(self, matrix: ArrayLike, names: Sequence[str]) -> None:
        self.matrix = np.asarray(matrix, dtype=np.float64)
        check_interval(check_square(np.nan_to_num(self.matrix), "matrix"), "matrix", -1, 1)
        self.names = [str(name) for name in names]
        if len(self.names) != len(self.matrix):
            raise ValueError(
                f"`names` must have one name for each of the {len(self.matrix)} rows of `matrix`; "
                f"got {len(self.names)}."
            )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        outputs: ArrayLike,
        names: Sequence[str] | None = None,
        *,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Correlate the truth and the learners, alike learners side by side.

        Parameters
        ----------
        y_true : array_like, shape (n_samples,)
            The true labels.
        outputs : array_like, shape (n_learners, n_samples[, n_classes])
            Votes or probabilities of the learners.
        names : sequence of str, optional
            Names of the learners; by default L1, L2, ...
        labels : array_like, shape (n_classes,), optional
            The classes, in the order of the columns of probabilities; by default the sorted labels of ``y_true``,
            and of the votes.

        Returns
        -------
        CorrelationDisplay
            Not yet drawn. The truth stands first; the learners follow in the order of an
            average-linkage clustering by ``1 - correlation``. The correlations are averaged over the classes that
            ``y_true`` has.

        Examples
        --------
        >>> votes = [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]]
        >>> display = CorrelationDisplay.from_predictions([0, 0, 1, 1], votes)
        >>> display.names[0], sorted(display.names[1:])
        ('T', ['L1', 'L2', 'L3'])
        """
        return cls._measured(y_true, outputs, names, labels)

    @classmethod
    def _measured(
        cls, y_true: ArrayLike, outputs: ArrayLike, names: Sequence[str] | None, labels: ArrayLike | None
    ) -> Self:
        from counterpoint.plots._measured import measured_correlations

        truth, learners = measured_correlations(cls.__name__, y_true, outputs, labels)
        names = [f"L{i + 1}" for i in range(len(truth))] if names is None else list(names)
        if len(names) != len(truth):
            raise ValueError(
                f"`names` must have one name for each of the {len(truth)} learners; got {len(names)}."
            )
        return cls._clustered(truth, learners, names)

    @classmethod
    def from_assessment(cls, assessment: "Assessment") -> Self:
        """Show the correlations of an assessment, alike learners side by side.

        Parameters
        ----------
        assessment : Assessment
            What :func:`counterpoint.assess` returned.

        Returns
        -------
        CorrelationDisplay
            Not yet drawn, in the order of :meth:`from_predictions`.

        Examples
        --------
        >>> from counterpoint import assess
        >>> votes = [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]]
        >>> CorrelationDisplay.from_assessment(assess([0, 0, 1, 1], votes)).matrix[0].round(2).tolist()
        [1.0, 0.0, 0.58, 1.0]
        """
        return cls._clustered(
            assessment.correlations.r_tl_learners, assessment.correlations.matrix, list(assessment.learners)
        )

    @classmethod
    def _clustered(cls, truth: FloatArray, learners: FloatArray, names: list[str]) -> Self:
        order = _cluster(learners)
        matrix = np.ones((len(truth) + 1, len(truth) + 1))
        matrix[0, 1:] = matrix[1:, 0] = truth[order]
        matrix[1:, 1:] = learners[np.ix_(order, order)]
        return cls(matrix, ["T", *(names[i] for i in order)])

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike) -> Self:
        """Correlate the truth and the learners of a fitted scikit-learn ensemble.

        Parameters
        ----------
        estimator : fitted ensemble, or sequence of fitted classifiers
            Anything that :func:`counterpoint.assess_estimator` takes.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array_like, shape (n_samples,)
            Their labels.

        Returns
        -------
        CorrelationDisplay
            Not yet drawn.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
        >>> CorrelationDisplay.from_estimator(forest, X, y).matrix.shape
        (4, 4)
        """
        learners = learner_outputs(estimator, X)
        short = len(set(learners.names)) == len(learners.names) and max(map(len, learners.names)) <= 12
        names = learners.names if short else None
        return cls._measured(y, learners.outputs, names, learners.classes)

    def plot(self, ax: "Axes | None" = None, *, values: bool | None = None) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure with a colour bar.
        values : bool, optional
            Whether to write the entries; by default if there are no more than 12 rows.

        Returns
        -------
        CorrelationDisplay
            Itself, with ``ax_`` and ``figure_``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> display = CorrelationDisplay([[1, 0.5], [0.5, 1]], ["T", "L1"])
        >>> [text.get_text() for text in display.plot(Figure().subplots()).ax_.texts]
        ['1', '0.5', '0.5', '1']
        """
        size = len(self.matrix)
        written = size <= _MOST_VALUES if values is None else check_flag(values, "values")
        with house_style():
            given = ax
            ax = new_axes(5.4, 4.6) if given is None else given
            image = ax.imshow(self.matrix, cmap=diverging(), vmin=-1, vmax=1)
            if given is None:
                ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation")
            shown = range(size) if size <= _MOST_LABELS else range(1)
            crowded = sum(len(self.names[i]) for i in shown) > _MOST_LETTERS
            ax.set_xticks(shown, [self.names[i] for i in shown], rotation=90 if crowded else 0)
            ax.set_yticks(shown, [self.names[i] for i in shown])
            ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
            ax.spines[:].set_visible(False)
            edges = np.arange(size - 1) + 0.5
            # White rules part the cells, and a broad one the truth from the learners.
            widths = np.where(edges == 0.5, 4.0, 1.0 if size <= _MOST_LABELS else 0.0)
            ax.hlines(edges, -0.5, size - 0.5, color="white", lw=widths)
            ax.vlines(edges, -0.5, size - 0.5, color="white", lw=widths)
            if written:
                self._write_values(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _write_values(self, ax: "Axes") -> None:
        for (row, column), value in np.ndenumerate(self.matrix):
            text = "–" if np.isnan(value) else f"{value:.2g}".replace("-", "−")  # noqa: RUF001
            colour = "white" if abs(value) > 0.6 else PALETTE["ink"]
            ax.text(column, row, text, ha="center", va="center", color=colour)


def _cluster(learners: np.ndarray) -> list[int]:
    """Return the order of the leaves of an average-linkage clustering."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # A correlation that is undefined says nothing of likeness: the distance of unrelated learners.
    distance = 1 - np.nan_to_num(learners, nan=0.0)
    np.fill_diagonal(distance, 0.0)
    if len(distance) < 3:
        return list(range(len(distance)))
    condensed = squareform(np.maximum(distance, 0.0), checks=False)
    return [int(i) for i in leaves_list(linkage(condensed, "average", optimal_ordering=True))]
