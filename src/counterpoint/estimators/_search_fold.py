"""Folds on which candidates are trained and scored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray, check_whole
from counterpoint.estimators._fitted_regressor import fit_target_scaler, scaled
from counterpoint.estimators._networks import make_networks
from counterpoint.estimators._rows import Rows, distinct_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import Scores
from counterpoint.training import Fold, GroupedEnsembles, Vote, pick_device, seeded
from counterpoint.training.columns import two_columns

__all__ = ["RegressionFold", "SearchFold", "check_folds", "score_folds", "score_regression_folds"]

_N_BINS = 15  # of the confidence, for the calibration error
_SEEN = 10_000  # training rows on which the learners are scored, at most


def check_folds(cv: Any, most: int, what: str) -> None:
    """Refuse a number of folds that some rows, of which there are ``most``, cannot be split into."""
    if check_whole(cv, "cv", minimum=2) > most:
        raise ValueError(f"`cv` must be at most {most}, {what}; got {cv}.")


class _Fold:
    """A fold of the rows of an estimator: training rows, networks and test rows."""

    def __init__(
        self, estimator: Any, rows: Rows, train: IntArray, test: IntArray, seed: int, n_networks: int
    ) -> None:
        if not len(test) or not len(train):
            raise ValueError("`cv` must yield folds with rows of positive weight; got one without.")
        self.n_train, self.n_test = len(train), len(test)
        device = pick_device(estimator.device)
        own = distinct_rows(*rows.take(train))
        encoder = estimator.encoder_._rescaled(own.X, own.weight)
        self.own, self.trained, n_classes = own, *self._to_train(estimator, own)
        x, y, weight = self.trained.tensors(encoder, device)
        self.n_rows = len(y)
        net_seed, order_seed = draw_seeds(seed)
        with seeded(device, net_seed):
            networks = make_networks(
                estimator.module, n_networks, estimator.hidden_layer_sizes, encoder, n_classes
            )
        self.fold = Fold(x, y, weight, networks, order_seed)
        self.held = rows.take(test)
        self.test_x, *_ = self.held.tensors(encoder, device)
        n_numeric = len(encoder._numeric)
        self.test_x[:, n_numeric:] *= x[:, n_numeric:].any(dim=0)  # others were never trained

    def _to_train(self, estimator: Any, rows: Rows) -> tuple[Rows, int | None]:
        """Return the rows as they are trained on, and the number of classes, or None for numbers."""
        raise NotImplementedError


class SearchFold(_Fold):
    """A fold of the rows of a classifier."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.test_y, self.test_weight = torch.from_numpy(self.held.codes), _shares(self.held.weight)
        step = -(-self.n_rows // _SEEN)
        self.seen_x, self.seen_y = self.fold.x[::step], self.fold.y[::step].cpu()
        # Rows of classes with a weight, weighted as they are given.
        self.seen_weight = _shares(self.own.weight[np.isin(self.own.codes, self.trained.codes)][::step])

    def _to_train(self, estimator: Any, rows: Rows) -> tuple[Rows, int | None]:
        return rows.balanced(estimator.class_weight, estimator.classes_), len(estimator.classes_)

    def score(self, held: Tensor, seen: Tensor, voting: str) -> FloatArray:
        """Return the scores of each candidate, (n_scores, n_candidates).

        Parameters
        ----------
        held, seen : Tensor
            Logits (n_candidates, n_learners, n_rows, n_classes) for the test rows and for training rows.
        voting : str
            The vote.
        """
        learners_first = held.cpu().double().transpose(0, 1).flatten(1, 2)  # (N, C n, m)
        flat = Vote(voting)(learners_first)  # (C n, m)
        vote = flat.view(len(held), -1, flat.shape[-1])
        right = (
            (two_columns(seen).argmax(-1).cpu() == self.seen_y).double().mean(1)
        )  # (C, n), of the learners
        found = [*_vote_scores(vote, self.test_y, self.test_weight), right @ self.seen_weight]
        return torch.stack(found).numpy()


class RegressionFold(_Fold):
    """A fold of the rows of a regressor, whose targets are scaled."""

    def _to_train(self, estimator: Any, rows: Rows) -> tuple[Rows, int | None]:
        self.scale = fit_target_scaler(rows)
        return scaled(rows, self.scale), None

    def score(self, outputs: Tensor) -> FloatArray:
        """Return the squared errors of outputs (n_candidates, n_learners, n_test, 1), (2, n_candidates).

        They are those of the mean of the learners, and of one learner on average.
        """
        numbers = outputs[..., 0].double().cpu().numpy() * self.scale.scale_[0] + self.scale.mean_[0]
        mean = (numbers.mean(axis=1) - self.held.codes) ** 2
        own = ((numbers - self.held.codes) ** 2).mean(axis=1)
        return np.stack([np.average(part, axis=1, weights=self.held.weight) for part in (mean, own)])


def score_folds(folds: Sequence[SearchFold], grouped: GroupedEnsembles, voting: str) -> FloatArray:
    """Return the scores of the groups, each candidate on all folds in a row, as (n_scores, n_candidates, n_folds)."""
    n_candidates, n_folds = len(grouped.groups) // len(folds), len(folds)
    held = grouped.logits([fold.test_x for fold in folds] * n_candidates)
    seen = grouped.logits([fold.seen_x for fold in folds] * n_candidates)
    found = np.empty((len(Scores._fields), n_candidates, n_folds))
    for k, fold in enumerate(folds):
        own = [torch.stack(logits[k::n_folds]) for logits in (held, seen)]
        found[:, :, k] = fold.score(own[0], own[1], voting)
    return found


def score_regression_folds(folds: Sequence[RegressionFold], grouped: GroupedEnsembles) -> FloatArray:
    """Return the squared errors of the groups, ordered as for ``score_folds``, as (2, n_candidates, n_folds)."""
    n_candidates, n_folds = len(grouped.groups) // len(folds), len(folds)
    outputs = grouped.logits([fold.test_x for fold in folds] * n_candidates)
    found = [fold.score(torch.stack(outputs[k::n_folds])) for k, fold in enumerate(folds)]
    return np.stack(found, axis=-1)


def _shares(weight: FloatArray) -> Tensor:
    """Return weights that sum to one."""
    share = weight / weight.max()  # their sum may be too small as they are
    return torch.as_tensor(share / share.sum())


def _vote_scores(vote: Tensor, y: Tensor, share: Tensor) -> list[Tensor]:
    """Return accuracy, log-loss, Brier score and calibration error of probabilities (C, n, m), each (C,)."""
    confidence, top = vote.max(-1)  # (C, n)
    right = (top == y).to(vote)
    of_truth = vote.gather(-1, y.expand(len(vote), -1)[..., None])[..., 0]
    log_loss = -of_truth.clamp(min=torch.finfo(torch.float32).tiny).log()
    brier = vote.square().sum(-1) - 2 * of_truth + 1
    bins = (confidence.nan_to_num(0.0) * _N_BINS).long().clamp_(max=_N_BINS - 1)
    gaps = vote.new_zeros(len(vote), _N_BINS).scatter_add_(1, bins, (right - confidence) * share)
    return [right @ share, log_loss @ share, brier @ share, gaps.abs().sum(1)]
