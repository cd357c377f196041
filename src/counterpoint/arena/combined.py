"""The methods that combine the others: a greedy selection and a stack, fitted to out-of-fold predictions."""

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from counterpoint._validation import FloatArray, IntArray
from counterpoint.arena.predictions import Predictions
from counterpoint.arena.scores import aligned, fold_scores
from counterpoint.arena.tables import OuterFold, Table
from counterpoint.selection import select

__all__ = ["Combination", "run_combined"]


class Combination(NamedTuple):
    """The probabilities of a combined method for test rows, the methods that it uses, and their weights if any."""

    proba: FloatArray  # (n_test, n_classes)
    used: IntArray
    weights: FloatArray | None = None
    accuracy: float | None = None  # of the vote, on the out-of-fold predictions


def run_combined(
    table: Table,
    folds: Sequence[OuterFold],
    method: str,
    pool: Mapping[str, Sequence[Predictions]],
    seconds: Mapping[str, Sequence[float]],
) -> list[dict[str, Any]]:
    """Return the results of a combined method on each outer fold.

    Parameters
    ----------
    table : Table
        The data.
    folds : sequence of OuterFold
        The folds of a repeat.
    method : {"greedy-selection", "stack"}
        The method.
    pool : mapping of str to sequence of Predictions
        Predictions of the methods to combine, one for each fold.
    seconds : mapping of str to sequence of float
        The seconds that they took in each fold, which are part of those of the combined method.

    Notes
    -----
    Both learn from the out-of-fold predictions of the training part only, those of the candidate that each method has
    chosen. ``greedy-selection`` is :func:`~counterpoint.select` by Caruana's method with ``size="largest"``. ``stack``
    is ``LogisticRegression`` with its defaults on the probabilities, as in scikit-learn's ``StackingClassifier``.
    """
    combine = {"greedy-selection": _selection, "stack": _stack}[method]
    names, results = list(pool), []
    for k, fold in enumerate(folds):
        start = time.perf_counter()
        inner, test = (
            np.stack([getattr(pool[name][k], part) for name in names]).astype(np.float64)
            for part in ("inner", "test")
        )
        y = table.y[fold.outer.test]
        found = combine(table.y[fold.outer.train], inner, test)
        spent = time.perf_counter() - start + sum(seconds[name][k] for name in names)
        weights = [] if found.weights is None else found.weights.round(6).tolist()
        results.append(
            {
                "n_test": len(y),
                **fold_scores(y, found.proba, test[found.used]),
                "chosen": dict(zip([names[i] for i in found.used], weights, strict=False)),
                "inner_accuracies": [] if found.accuracy is None else [round(found.accuracy, 6)],
                "seconds": round(spent, 3),
            }
        )
    return results


def _selection(y: IntArray, inner: FloatArray, test: FloatArray) -> Combination:
    labels = np.arange(inner.shape[2])
    found = select(y, inner, "largest", method="caruana", voting="soft", labels=labels)
    proba = np.einsum("i,inc->nc", found.weights, test[found.indices])
    return Combination(proba, found.indices, found.weights, found.fitted_accuracy)


def _stack(y: IntArray, inner: FloatArray, test: FloatArray) -> Combination:
    used, n_classes = np.arange(len(inner)), inner.shape[2]
    if len(np.unique(y)) == 1:
        return Combination(test.mean(axis=0), used)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=1000).fit(_columns(inner), y)
    return Combination(aligned(model.predict_proba(_columns(test)), model.classes_, n_classes), used)


def _columns(proba: FloatArray) -> FloatArray:
    """Return the probabilities of all methods side by side; of two classes, one column is enough."""
    kept = proba[..., 1:] if proba.shape[2] == 2 else proba
    columns: FloatArray = kept.transpose(1, 0, 2).reshape(kept.shape[1], -1)
    return columns
