"""When the training of an estimator ends: a number of epochs, or rows that are set aside."""

import math
from typing import Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._path import epochs_up_to, train_path
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._search_fold import (
    RegressionFold,
    SearchFold,
    score_folds,
    score_regression_folds,
)
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators._settings import LARGE, count_batch
from counterpoint.estimators.candidates import Scores
from counterpoint.training import EnsembleLoss, Group, GroupedEnsembles, Schedule

__all__ = ["Stopping", "plan_stopping"]

_HELD_OUT, _PATIENCE = 0.1, 5  # of large tables
_SMALL = 50  # a table with fewer rows trains for all epochs
_N_FOLDS = 5
_N_NETWORKS = 6  # on each fold: half of them see the pieces of numeric columns


class Stopping(NamedTuple):
    """When training ends."""

    epochs: int
    held_out: float  # share of the rows
    patience: int | None

    @classmethod
    def of(cls, estimator: Any) -> "Stopping":
        """Return what the parameters of an estimator say without early stopping."""
        patience = None if estimator.patience is None else int(estimator.patience)
        return cls(int(estimator.epochs), float(estimator.validation_fraction), patience)


def plan_stopping(estimator: Any, rows: Rows, seed: int) -> Stopping:
    """Return when the training of an estimator with new networks ends; it has learned the encoding of the rows."""
    given = Stopping.of(estimator)
    if not estimator.early_stopping or given.held_out:
        return given
    if hasattr(estimator, "class_weight"):
        weighted = rows.balanced(estimator.class_weight, estimator.classes_)
        rows = rows.take(np.flatnonzero(np.isin(rows.codes, weighted.codes)))  # of classes with a weight
    n_rows = len(rows.codes)
    if n_rows > LARGE:
        return given._replace(held_out=_HELD_OUT, patience=_PATIENCE)
    loss = estimator._loss()
    if n_rows < _SMALL or not isinstance(loss, EnsembleLoss) or loss.needs_readout:
        return given
    return given._replace(epochs=_best_epochs(estimator, rows, loss, seed))


def _best_epochs(estimator: Any, rows: Rows, loss: EnsembleLoss, seed: int) -> int:
    """Return the number of epochs that is best on folds of the rows."""
    warmup = int(getattr(estimator, "warmup_epochs", 0))
    epochs = epochs_up_to(int(estimator.epochs), warmup)
    task = _Classes(estimator, loss) if hasattr(estimator, "voting") else _Numbers()
    place = _fold_places(task.strata(rows), np.random.RandomState(seed))
    n_networks = min(int(estimator.n_estimators), _N_NETWORKS)
    seeds = draw_seeds(seed, _N_FOLDS)
    folds = [
        task.fold(
            estimator, rows, np.flatnonzero(place != k), np.flatnonzero(place == k), seeds[k], n_networks
        )
        for k in range(_N_FOLDS)
    ]
    size = count_batch(estimator.batch_size, len(rows.codes))
    schedule = Schedule(
        epochs=epochs[-1],
        n_batches=math.ceil(max(fold.n_rows for fold in folds) / size),
        learning_rate=float(estimator.learning_rate),
        weight_decay=float(estimator.weight_decay),
    )
    found = np.empty((task.n_scores, len(epochs), _N_FOLDS))

    def score(places: list[int], epoch: int, grouped: GroupedEnsembles) -> None:
        if epoch in epochs:
            found[:, epochs.index(epoch), places] = task.score([folds[k] for k in places], grouped)[:, 0]

    groups = [[Group(fold.fold, loss, warmup) for fold in folds]]
    train_path(groups, schedule, score, progress=estimator.verbose > 0)
    return epochs[task.best(found)]


class _Classes:
    """How numbers of epochs of a classifier are compared: by the log-loss of the vote."""

    fold, n_scores = SearchFold, len(Scores._fields)

    def __init__(self, estimator: Any, loss: EnsembleLoss) -> None:
        self.voting = loss.voting if estimator.voting == "auto" else estimator.voting

    def strata(self, rows: Rows) -> IntArray:
        return rows.codes

    def score(self, folds: list[Any], grouped: GroupedEnsembles) -> FloatArray:
        return score_folds(folds, grouped, self.voting)

    def best(self, found: FloatArray) -> int:
        return int(Scores(*found).log_loss.mean(axis=1).argmin())


class _Numbers:
    """How numbers of epochs of a regressor are compared: by the squared error of the mean."""

    fold, n_scores = RegressionFold, 2

    def strata(self, rows: Rows) -> IntArray:
        return np.zeros(len(rows.codes), dtype=np.int64)

    def score(self, folds: list[Any], grouped: GroupedEnsembles) -> FloatArray:
        return score_regression_folds(folds, grouped)

    def best(self, found: FloatArray) -> int:
        return int(found[0].mean(axis=1).argmin())


def _fold_places(codes: IntArray, rng: np.random.RandomState) -> IntArray:
    """Return the fold of each row; the rows of a class are spread over the folds."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes)) % _N_FOLDS
    return place
