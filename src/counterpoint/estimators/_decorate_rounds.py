"""The parts of a round of DECORATE: artificial rows, labels contrary to the ensemble, and the test of a candidate."""

from typing import Any

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._nominal import Categories

__all__ = ["GrowingEnsemble", "artificial_rows", "contrary_labels", "moments"]


class GrowingEnsemble:
    """An ensemble that accepts a candidate if its error on the training rows does not rise.

    Parameters
    ----------
    labels : ndarray of int, shape (n_samples,)
        Classes of the training rows, from 0.
    n_classes : int
        Number of classes.

    Attributes
    ----------
    learners : list
        The accepted candidates.
    errors : list of float
        Error of the ensemble after each round.
    rejected : list of bool
        Whether the candidate of each round was rejected.

    Examples
    --------
    >>> ensemble = GrowingEnsemble(np.array([0, 1]), n_classes=2)
    >>> ensemble.offer("right", np.array([[0.8, 0.2], [0.2, 0.8]]))
    0.0
    >>> ensemble.offer("wrong", np.array([[0.1, 0.9], [0.9, 0.1]]))
    1.0
    >>> ensemble.learners, ensemble.errors
    (['right'], [0.0, 0.0])
    """

    def __init__(self, labels: IntArray, n_classes: int) -> None:
        self.labels = labels
        self.learners: list[Any] = []
        self.errors: list[float] = []
        self.rejected: list[bool] = []
        self._total = np.zeros((len(labels), n_classes))  # sum of the learners' probabilities

    def is_growing(self, n_learners: int, max_rounds: int) -> bool:
        """Return True if learners are missing and rounds are left."""
        return len(self.learners) < n_learners and len(self.errors) < max_rounds

    def offer(self, candidate: Any, proba: FloatArray) -> float:
        """Accept or reject a candidate, by its probabilities for the training rows.

        Returns the error of the ensemble with the candidate.
        """
        total = self._total + proba
        error = float(np.mean(total.argmax(axis=1) != self.labels))
        worse = bool(self.errors) and error > self.errors[-1]
        if not worse:
            self.learners.append(candidate)
            self._total = total
        self.errors.append(self.errors[-1] if worse else error)
        self.rejected.append(worse)
        return error


def moments(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each column, missing values left out; 0 for an empty column."""
    count = (~np.isnan(table)).sum(axis=0)
    mean = np.nansum(table, axis=0) / np.maximum(count, 1)
    variance = np.nansum((table - mean) ** 2, axis=0) / np.maximum(count - 1, 1)
    return mean, np.sqrt(variance)


def artificial_rows(
    table: FloatArray, categories: Categories, n_rows: int, rng: np.random.RandomState
) -> FloatArray:
    """Draw rows, each column independently from the distribution of its known values.

    Parameters
    ----------
    table : ndarray of shape (n_samples, n_features)
        Training rows; NaN is a missing value. Nominal columns hold the number of a value.
    categories : mapping of int to sequence
        Position of each nominal column -> the values it may have.
    n_rows : int
        Number of rows to draw.
    rng : RandomState
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Numeric columns are Gaussian with the mean and standard deviation of the column. Nominal columns follow their
        frequencies after Laplace's rule.

    Examples
    --------
    >>> artificial_rows(np.eye(3), {}, n_rows=5, rng=np.random.RandomState(0)).shape
    (5, 3)
    """
    mean, deviation = moments(table)
    rows: FloatArray = mean + deviation * rng.standard_normal((n_rows, table.shape[1]))
    for j, values in categories.items():
        known = table[~np.isnan(table[:, j]), j].astype(np.int64)
        weight = np.bincount(known, minlength=len(values)) + 1.0  # Laplace's rule
        rows[:, j] = rng.choice(len(values), n_rows, p=weight / weight.sum()) if len(values) else np.nan
    rows[:, np.isnan(table).all(axis=0)] = np.nan
    return rows


def contrary_labels(proba: FloatArray, rng: np.random.RandomState) -> IntArray:
    """Draw a label for each row with probability inversely proportional to that of the ensemble.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities by the ensemble. A zero counts as the smallest normal number, so that it outweighs all else.
    rng : RandomState
        Source of randomness.

    Returns
    -------
    ndarray of int, shape (n_samples,)

    Examples
    --------
    >>> contrary_labels(np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.RandomState(0))
    array([1, 0])
    """
    proba = np.maximum(proba, np.finfo(np.float64).tiny)
    weight = proba.min(axis=1, keepdims=True) / proba  # 1 / proba, scaled so that it cannot overflow
    cumulative = np.cumsum(weight, axis=1)
    draw = rng.random_sample((len(proba), 1)) * cumulative[:, -1:]
    labels: IntArray = (draw >= cumulative[:, :-1]).sum(axis=1)
    return labels
