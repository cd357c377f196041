"""What a round of DECORATE is made of: artificial rows, labels against the ensemble, and whether a candidate stays."""

from typing import Any

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._nominal import Categories

__all__ = ["Growth", "artificial_rows", "contrary_labels", "moments"]


class Growth:
    """An ensemble that takes a candidate in where its error on the training rows does not rise.

    Attributes
    ----------
    learners : list
        Those that stayed.
    errors : list of float
        The error of the ensemble after each round.
    rejected : list of bool
        Whether the candidate of each round did not stay.
    """

    def __init__(self, labels: IntArray, n_classes: int) -> None:
        self.labels = labels
        self.learners: list[Any] = []
        self.errors: list[float] = []
        self.rejected: list[bool] = []
        self._total = np.zeros((len(labels), n_classes))  # the learners' probabilities, summed

    def goes_on(self, n_learners: int, max_rounds: int) -> bool:
        """Return whether there are learners missing and rounds left."""
        return len(self.learners) < n_learners and len(self.errors) < max_rounds

    def offer(self, candidate: Any, proba: FloatArray) -> float:
        """Take the candidate in or reject it, by its probabilities for the training rows.

        Returns the error of the ensemble with it.
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
    """Return the mean and the standard deviation of the known values of each column; 0 where there are none."""
    count = (~np.isnan(table)).sum(axis=0)
    mean = np.nansum(table, axis=0) / np.maximum(count, 1)
    variance = np.nansum((table - mean) ** 2, axis=0) / np.maximum(count - 1, 1)
    return mean, np.sqrt(variance)


def artificial_rows(
    table: FloatArray, categories: Categories, n_rows: int, rng: np.random.RandomState
) -> FloatArray:
    """Draw each column by itself from the distribution of its known values."""
    mean, deviation = moments(table)
    rows: FloatArray = mean + deviation * rng.standard_normal((n_rows, table.shape[1]))
    for j, values in categories.items():
        known = table[~np.isnan(table[:, j]), j].astype(np.int64)
        weight = np.bincount(known, minlength=len(values)) + 1.0  # Laplace's rule
        rows[:, j] = rng.choice(len(values), n_rows, p=weight / weight.sum()) if len(values) else np.nan
    rows[:, np.isnan(table).all(axis=0)] = np.nan
    return rows


def contrary_labels(proba: FloatArray, rng: np.random.RandomState) -> IntArray:
    """Draw a label for each row with probability inversely proportional to the one given for it.

    A zero is replaced by the smallest normal number, so that it outweighs everything but other zeros.
    """
    proba = np.maximum(proba, np.finfo(np.float64).tiny)
    weight = proba.min(axis=1, keepdims=True) / proba  # 1 / proba, scaled so that it cannot overflow
    cumulative = np.cumsum(weight, axis=1)
    draw = rng.random_sample((len(proba), 1)) * cumulative[:, -1:]
    labels: IntArray = (draw >= cumulative[:, :-1]).sum(axis=1)
    return labels
