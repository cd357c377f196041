"""DECORATE with trees and with networks under cross-validation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from counterpoint._validation import FloatArray
from counterpoint.estimators import DecorateClassifier, draw_seeds
from counterpoint.training import Ensemble, Fold, Group, IndependentLoss, mlp, seeded
from paper.lockstep import Learner, Lesson, decorate_together
from paper.tabular import Rows, Settings, Split, Tick, filled, train_in_chunks

__all__ = ["decorate_nets", "decorate_trees", "grow_nets"]


def decorate_trees(splits: Sequence[Split], settings: Settings, device: torch.device, tick: Tick) -> Rows:
    """Return the errors of DECORATE with decision trees, on the CPU whatever the device."""
    found = []
    for k, split in enumerate(splits):
        ensemble = DecorateClassifier(
            n_estimators=settings.n_learners,
            artificial_ratio=settings.artificial_ratio,
            max_iter=settings.max_rounds,
            random_state=split.seed,
        ).fit(split.table, split.labels)
        found.append(ensemble.learner_predict_proba(split.test_table))
        tick((k + 1) / len(splits))
    return {"decorate-trees": _over_sizes(found, splits)}


def decorate_nets(splits: Sequence[Split], settings: Settings, device: torch.device, tick: Tick) -> Rows:
    """Return the errors of DECORATE with networks, all folds in lockstep.

    On the CPU whatever the device: a network for each fold is too little to keep a GPU busy.
    """
    ensembles = grow_nets(splits, settings, tick)
    rows = [np.nan_to_num(split.test_table) for split in splits]
    found = [np.stack([m(x) for m in learners]) for learners, x in zip(ensembles, rows, strict=True)]
    return {"decorate-nets": _over_sizes(found, splits)}


def grow_nets(splits: Sequence[Split], settings: Settings, tick: Tick) -> list[list[Learner]]:
    """Return the networks that DECORATE keeps, for each split."""
    cpu = torch.device("cpu")
    loss = IndependentLoss()

    def train(lessons: list[Lesson]) -> list[Learner]:
        groups = []
        for lesson in lessons:
            net_seed, order_seed = draw_seeds(lesson.rng)
            with seeded(cpu, net_seed):
                nets = [mlp([lesson.x.shape[1], settings.hidden, splits[0].n_classes])]
            y = torch.as_tensor(lesson.y, dtype=torch.long)
            groups.append(Group(Fold(filled(lesson.x, cpu), y, None, nets, order_seed), loss))
        learners: list[Learner] = []
        for _, program in train_in_chunks(groups, settings):
            learners += [_learner(ensemble) for ensemble in program.ensembles()]
        return learners

    growths = decorate_together(
        [split.table for split in splits],
        [split.labels for split in splits],
        [np.random.RandomState(split.seed) for split in splits],
        train,
        n_classes=splits[0].n_classes,
        n_learners=settings.n_learners,
        artificial_ratio=settings.artificial_ratio,
        max_rounds=settings.max_rounds,
        on_round=lambda n: tick(n / settings.max_rounds),
    )
    return [growth.learners for growth in growths]


def _learner(ensemble: Ensemble) -> Learner:
    """Return a network as DECORATE asks it: rows in, probabilities out."""

    @torch.no_grad()
    def proba(rows: FloatArray) -> FloatArray:
        logits: Tensor = ensemble(filled(rows, torch.device("cpu")))[0]
        return logits.double().softmax(-1).numpy()

    return proba


def _over_sizes(proba: Sequence[FloatArray], splits: Sequence[Split]) -> dict[str, list[Any]]:
    """Return the error of all learners, and the least of those of the first learners, however many."""
    errors = [
        100 * np.mean(own.cumsum(axis=0).argmax(-1) != split.test_labels, axis=1)
        for own, split in zip(proba, splits, strict=True)
    ]
    return {
        "error": [float(own[-1]) for own in errors],
        "best_test": [float(own.min()) for own in errors],
        "n_learners": [len(own) for own in errors],
    }
