"""Diversities and weight decays of a regressor, trained on all folds as one program, and compared."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._fitted_regressor import fit_target_scaler, scaled
from counterpoint.estimators._networks import make_networks
from counterpoint.estimators._rows import Rows, distinct_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.diverse_cv import _similar
from counterpoint.estimators.paired import PairedTest
from counterpoint.training import (
    Fold,
    Group,
    Schedule,
    SquaredErrorLoss,
    can_train_together,
    fit_groups,
    pick_device,
    seeded,
)

__all__ = ["RegressionFold", "Scores", "score_candidates", "verdict_of"]

_LEVEL = 0.05  # of the test behind the verdict


class Scores(NamedTuple):
    """Squared errors on held-out rows, (n_candidates, n_folds): of the mean, and of a learner on average."""

    squared_error: FloatArray
    learner_squared_error: FloatArray


class RegressionFold:
    """A fold of the rows of a search: training rows with scaled targets, networks and test rows."""

    def __init__(self, search: Any, rows: Rows, train: IntArray, test: IntArray, seed: int) -> None:
        if not len(test) or not len(train):
            raise ValueError("`cv` must yield folds with rows of positive weight; got one without.")
        self.n_train, self.n_test = len(train), len(test)
        device = pick_device(search.device)
        own = distinct_rows(*rows.take(train))
        encoder = search.encoder_._rescaled(own.X, own.weight)
        self.scale = fit_target_scaler(own)
        x, y, weight = scaled(own, self.scale).tensors(encoder, device)
        self.n_rows = len(y)
        net_seed, order_seed = draw_seeds(seed)
        with seeded(device, net_seed):
            networks = make_networks(
                search.module, search.n_estimators, search.hidden_layer_sizes, encoder, None
            )
        self.fold = Fold(x, y, weight, networks, order_seed)
        self.held = rows.take(test)
        self.test_x, *_ = self.held.tensors(encoder, device)
        n_numeric = len(encoder._numeric)
        self.test_x[:, n_numeric:] *= x[:, n_numeric:].any(dim=0)  # others were never trained

    def score(self, outputs: Tensor) -> tuple[float, float]:
        """Return the squared errors of outputs (n_learners, n_test, 1): of their mean, and of one on average."""
        numbers = outputs[..., 0].double().cpu().numpy() * self.scale.scale_[0] + self.scale.mean_[0]
        mean = (numbers.mean(axis=0) - self.held.codes) ** 2
        own = ((numbers - self.held.codes) ** 2).mean(axis=0)
        return tuple(float(np.average(part, weights=self.held.weight)) for part in (mean, own))  # type: ignore[return-value]


def score_candidates(
    search: Any, candidates: list[tuple[float, float]], folds: list[RegressionFold]
) -> Scores:
    """Return the scores of each pair of diversity and weight decay on each fold."""
    found = np.empty((2, len(candidates), len(folds)))
    losses = {diversity: SquaredErrorLoss(diversity) for diversity, _ in candidates}
    for places in _similar([fold.n_rows for fold in folds]):
        n_batches = math.ceil(max(folds[k].n_rows for k in places) / int(search.batch_size))
        schedule = Schedule(int(search.epochs), n_batches, float(search.learning_rate))
        together = can_train_together([folds[k].fold for k in places], n_batches)
        for some in [places] if together else [[k] for k in places]:
            pairs = [(c, k) for c in range(len(candidates)) for k in some]
            groups = [
                Group(folds[k].fold, losses[candidates[c][0]], weight_decay=candidates[c][1])
                for c, k in pairs
            ]
            trained = fit_groups(groups, schedule, progress=search.verbose > 0)
            with torch.no_grad():
                outputs = trained.logits([folds[k].test_x for _, k in pairs])
            for (c, k), own in zip(pairs, outputs, strict=True):
                found[:, c, k] = folds[k].score(own)
    return Scores(*found)


def verdict_of(
    candidates: list[tuple[float, float]], best: int, independent: int, scores: FloatArray, test: PairedTest
) -> str:
    """Return a sentence that compares the best diversity with independent training."""
    n_decays = sum(diversity == 0 for diversity, _ in candidates)
    n_tried = len(candidates) - n_decays
    what = "diversities" if n_decays == 1 else "pairs of diversity and weight decay"
    tried = f"the best of {n_tried} {what}" if n_tried > 1 else "one diversity"
    ours, theirs = f"diversity {candidates[best][0]:g}", "independently"
    if n_decays > 1:
        ours += f" and weight decay {candidates[best][1]:g}"
        theirs += f" at weight decay {candidates[independent][1]:g}"
    numbers = (
        f"at {ours} the mean explains {100 * scores[best].mean():.1f} % of the variance of the rows held out, with the "
        f"same networks trained {theirs} {100 * scores[independent].mean():.1f} % (corrected paired t-test over "
        f"{scores.shape[1]} folds for {tried}: p = {test.p_value:.2g})."
    )
    if test.p_value >= _LEVEL:
        return f"No difference can be told on this data: {numbers}"
    if test.difference > 0:
        return f"Explicit diversity pays on this data: {numbers}"
    return f"Explicit diversity costs on this data: {numbers}"
