"""Correlation matrices, the truth first."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_flag, check_interval, check_square
from counterpoint.assessment import learner_outputs
from counterpoint.plots.style import PALETTE, diverging, house_style, new_axes, rising

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from counterpoint.assessment import Assessment

__all__ = ["CorrelationDisplay", "clustered_correlations", "scale_start"]

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
        As given.
    ax_, figure_
        The axes and the figure of the last drawing.

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
        ax: "Axes | None" = None,
        values: bool | None = None,
    ) -> Self:
        """Draw the correlations of the truth and the learners, similar learners side by side.

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
        ax, values
            As for :meth:`plot`.

        Returns
        -------
        CorrelationDisplay
            Drawn. The truth comes first; the learners follow in the order of an average-linkage clustering by
            ``1 - correlation``. The correlations are averaged over the classes that occur in ``y_true``.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> votes = [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]]
        >>> display = CorrelationDisplay.from_predictions([0, 0, 1, 1], votes, ax=Figure().subplots())
        >>> display.names[0], sorted(display.names[1:])
        ('T', ['L1', 'L2', 'L3'])
        """
        return cls._measured(y_true, outputs, names, labels).plot(ax, values=values)

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
        return cls(*clustered_correlations(truth, learners, names))

    @classmethod
    def from_assessment(
        cls, assessment: "Assessment", *, ax: "Axes | None" = None, values: bool | None = None
    ) -> Self:
        """Draw the correlations of an assessment, similar learners side by side.

        Parameters
        ----------
        assessment : Assessment
            From :func:`counterpoint.assess`.
        ax, values
            As for :meth:`plot`.

        Returns
        -------
        CorrelationDisplay
            Drawn, in the order of :meth:`from_predictions`.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from counterpoint import assess
        >>> assessment = assess([0, 0, 1, 1], [[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]])
        >>> display = CorrelationDisplay.from_assessment(assessment, ax=Figure().subplots())
        >>> display.matrix[0].round(2).tolist()
        [1.0, 0.0, 0.58, 1.0]
        """
        found = assessment.correlations
        ordered = clustered_correlations(found.r_tl_learners, found.matrix, assessment.learners)
        return cls(*ordered).plot(ax, values=values)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        ax: "Axes | None" = None,
        values: bool | None = None,
    ) -> Self:
        """Draw the correlations of the truth and the learners of a fitted scikit-learn ensemble.

        Parameters
        ----------
        estimator : fitted ensemble, or sequence of fitted classifiers
            Any ensemble that :func:`counterpoint.assess_estimator` accepts.
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : array_like, shape (n_samples,)
            Their labels.
        ax, values
            As for :meth:`plot`.

        Returns
        -------
        CorrelationDisplay
            Drawn.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
        >>> CorrelationDisplay.from_estimator(forest, X, y, ax=Figure().subplots()).matrix.shape
        (4, 4)
        """
        learners = learner_outputs(estimator, X)
        short = len(set(learners.names)) == len(learners.names) and max(map(len, learners.names)) <= 12
        names = learners.names if short else None
        return cls._measured(y, learners.outputs, names, learners.classes).plot(ax, values=values)

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
            The display itself, with ``ax_`` and ``figure_``.

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
            start = scale_start(self.matrix)
            image = ax.imshow(self.matrix, cmap=diverging() if start < 0 else rising(), vmin=start, vmax=1)
            if given is None:
                ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation")
            visible = range(size) if size <= _MOST_LABELS else range(1)
            crowded = sum(len(self.names[i]) for i in visible) > _MOST_LETTERS
            ax.set_xticks(visible, [self.names[i] for i in visible], rotation=90 if crowded else 0)
            ax.set_yticks(visible, [self.names[i] for i in visible])
            ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
            ax.spines[:].set_visible(False)
            edges = np.arange(size - 1) + 0.5
            # White lines separate the cells; a broad one separates the truth from the learners.
            widths = np.where(edges == 0.5, 4.0, 1.0 if size <= _MOST_LABELS else 0.0)
            ax.hlines(edges, -0.5, size - 0.5, color="white", lw=widths)
            ax.vlines(edges, -0.5, size - 0.5, color="white", lw=widths)
            if written:
                self._write_values(ax, start)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _write_values(self, ax: "Axes", start: float) -> None:
        for (row, column), value in np.ndenumerate(self.matrix):
            text = "–" if np.isnan(value) else f"{value:.2g}".replace("-", "−")  # noqa: RUF001
            strength = abs(value) if start < 0 else (value - start) / (1 - start)
            colour = "white" if strength > 0.6 else PALETTE["ink"]
            ax.text(column, row, text, ha="center", va="center", color=colour)


def clustered_correlations(
    truth: FloatArray, learners: FloatArray, names: Sequence[str]
) -> tuple[FloatArray, list[str]]:
    """Return the correlation matrix of the truth and the learners, similar learners side by side.

    Parameters
    ----------
    truth : ndarray of shape (n_learners,)
        The correlation of each learner with the truth.
    learners : ndarray of shape (n_learners, n_learners)
        The correlation of every two learners; NaN where undefined.
    names : sequence of str
        Names of the learners.

    Returns
    -------
    matrix : ndarray of shape (n_learners + 1, n_learners + 1)
        The truth first, then the learners in the order of an average-linkage clustering by ``1 - correlation``.
    names : list of str
        ``"T"`` and the names of the learners, in that order.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = np.array([[1, 0.1, 0.9], [0.1, 1, 0.1], [0.9, 0.1, 1]])
    >>> matrix, names = clustered_correlations(np.array([0.5, 0.4, 0.6]), pairs, ["a", "b", "c"])
    >>> names[0], abs(names.index("a") - names.index("c")), matrix.shape
    ('T', 1, (4, 4))
    """
    order = _cluster(learners)
    matrix = np.ones((len(truth) + 1, len(truth) + 1))
    matrix[0, 1:] = matrix[1:, 0] = truth[order]
    matrix[1:, 1:] = learners[np.ix_(order, order)]
    return matrix, ["T", *(names[i] for i in order)]


def scale_start(matrix: FloatArray) -> float:
    """Return where the colours of a matrix start: -1, or its lowest entry rounded down to a tenth if none is negative.

    Learners that are all accurate correlate by 0.8 to 1; on a scale from -1 they would look the same.

    Parameters
    ----------
    matrix : ndarray
        Correlations; NaN where undefined.

    Returns
    -------
    float
        The start; the scale ends at 1.

    Examples
    --------
    >>> import numpy as np
    >>> scale_start(np.array([[1, 0.83], [0.83, 1]])), scale_start(np.array([[1, -0.1], [-0.1, 1]]))
    (0.8, -1.0)
    """
    lowest = float(np.nanmin(matrix))
    return -1.0 if lowest < 0 else min(math.floor(10 * lowest + 1e-9) / 10, 0.9)


def _cluster(learners: np.ndarray) -> list[int]:
    """Return the order of the leaves of an average-linkage clustering."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # An undefined correlation counts as the distance of unrelated learners.
    distance = 1 - np.nan_to_num(learners, nan=0.0)
    np.fill_diagonal(distance, 0.0)
    if len(distance) < 3:
        return list(range(len(distance)))
    condensed = squareform(np.maximum(distance, 0.0), checks=False)
    return [int(i) for i in leaves_list(linkage(condensed, "average", optimal_ordering=True))]
