"""DECORATE with trees and with networks under cross-validation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier

from counterpoint.estimators import DecorateClassifier, DiverseEnsembleClassifier
from paper.programs import Split
from paper.tabular import Rows, Settings

__all__ = ["decorate_networks", "decorate_trees", "grow_networks"]


def decorate_trees(splits: Sequence[Split], settings: Settings, device: torch.device) -> Rows:
    """Return the errors of DECORATE with scikit-learn's own default tree (Gini), on the CPU whatever the device."""
    return {"decorate-trees": _over_sizes(_grow(splits, settings, DecisionTreeClassifier()), splits)}


def decorate_networks(splits: Sequence[Split], settings: Settings, device: torch.device) -> Rows:
    """Return the errors of DECORATE with networks.

    On the CPU whatever the device: one small network at a time does not keep a GPU busy.
    """
    return {"decorate-nets": _over_sizes(grow_networks(splits, settings), splits)}


def grow_networks(splits: Sequence[Split], settings: Settings) -> list[DecorateClassifier]:
    """Return DECORATE with networks, fitted on the training rows of each split."""
    network = DiverseEnsembleClassifier(
        n_estimators=1,
        loss="independent",
        hidden_layer_sizes=(settings.hidden,),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        standardize=False,  # the splits are
        device="cpu",
    )
    return _grow(splits, settings, network)


def _grow(splits: Sequence[Split], settings: Settings, estimator: Any) -> list[DecorateClassifier]:
    return [
        DecorateClassifier(
            estimator,
            n_estimators=settings.n_learners,
            artificial_ratio=settings.artificial_ratio,
            max_iter=settings.max_rounds,
            random_state=split.seed,
        ).fit(split.table, split.labels)
        for split in splits
    ]


def _over_sizes(ensembles: Sequence[DecorateClassifier], splits: Sequence[Split]) -> dict[str, list[Any]]:
    """Return the error of all learners, and the lowest one of the first learners, for any number of them."""
    errors = []
    for ensemble, split in zip(ensembles, splits, strict=True):
        summed = ensemble.learner_predict_proba(split.test_table).cumsum(axis=0)
        errors.append(100 * np.mean(summed.argmax(-1) != split.test_labels, axis=1))
    return {
        "error": [float(own[-1]) for own in errors],
        "best_test": [float(own.min()) for own in errors],
        "n_learners": [len(own) for own in errors],
    }
