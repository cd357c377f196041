"""When the training of an estimator ends: a number of epochs, or rows that are set aside."""

import math
from typing import Any, NamedTuple

import numpy as np

from counterpoint._validation import IntArray
from counterpoint.estimators._path import train_path
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._search_fold import SearchFold, score_folds
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators._settings import LARGE, count_batch
from counterpoint.estimators.candidates import Scores, most_accurate
from counterpoint.training import EnsembleLoss, Group, GroupedEnsembles, Schedule

__all__ = ["Stopping", "epochs_up_to", "plan_stopping"]

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
    weighted = rows.balanced(estimator.class_weight, estimator.classes_)
    rows = rows.take(np.flatnonzero(np.isin(rows.codes, weighted.codes)))  # of classes with a weight
    n_rows = len(rows.codes)
    if n_rows > LARGE:
        return given._replace(held_out=_HELD_OUT, patience=_PATIENCE)
    loss = estimator._loss()
    if n_rows < _SMALL or not isinstance(loss, EnsembleLoss) or loss.needs_readout:
        return given
    return given._replace(epochs=_best_epochs(estimator, rows, loss, seed))


def epochs_up_to(largest: int, warmup_epochs: int = 0) -> list[int]:
    """Return the numbers of epochs after which networks are scored: each of the first, then every tenth more.

    Examples
    --------
    >>> epochs_up_to(20, warmup_epochs=2)
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
    """
    tried = [1]
    while tried[-1] < largest:
        tried.append(min(largest, max(tried[-1] + 1, round(1.1 * tried[-1]))))
    return [epoch for epoch in tried if epoch > warmup_epochs] or [largest]


def _best_epochs(estimator: Any, rows: Rows, loss: EnsembleLoss, seed: int) -> int:
    """Return the number of epochs that is best on folds of the rows."""
    epochs = epochs_up_to(int(estimator.epochs), int(estimator.warmup_epochs))
    place = _fold_places(rows.codes, np.random.RandomState(seed))
    n_networks = min(int(estimator.n_estimators), _N_NETWORKS)
    seeds = draw_seeds(seed, _N_FOLDS)
    folds = [
        SearchFold(
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
    found = np.empty((len(Scores._fields), len(epochs), _N_FOLDS))
    voting = loss.voting if estimator.voting == "auto" else estimator.voting

    def score(places: list[int], epoch: int, grouped: GroupedEnsembles) -> None:
        if epoch in epochs:
            some = [folds[k] for k in places]
            found[:, epochs.index(epoch), places] = score_folds(some, grouped, voting)[:, 0]

    groups = [[Group(fold.fold, loss, int(estimator.warmup_epochs)) for fold in folds]]
    train_path(groups, schedule, score, progress=estimator.verbose > 0)
    scores = Scores(*found)
    return epochs[most_accurate(scores.accuracy, scores.log_loss, 1 / (_N_FOLDS - 1))]


def _fold_places(codes: IntArray, rng: np.random.RandomState) -> IntArray:
    """Return the fold of each row; the rows of a class are spread over the folds."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes)) % _N_FOLDS
    return place
