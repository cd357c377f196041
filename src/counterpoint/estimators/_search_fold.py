"""A fold on which candidates are trained and scored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._networks import make_networks
from counterpoint.estimators._rows import Rows, distinct_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import Scores
from counterpoint.training import Fold, GroupedEnsembles, Vote, pick_device, seeded
from counterpoint.training.columns import two_columns

__all__ = ["SearchFold", "score_folds"]

_N_BINS = 15  # of the confidence, for the calibration error
_SEEN = 10_000  # training rows on which the learners are scored, at most


class SearchFold:
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
        weighted = own.balanced(estimator.class_weight, estimator.classes_)
        x, y, weight = weighted.tensors(encoder, device)
        self.n_rows = len(y)  # distinct rows of classes with a weight
        net_seed, order_seed = draw_seeds(seed)
        with seeded(device, net_seed):
            networks = make_networks(
                estimator.module, n_networks, estimator.hidden_layer_sizes, encoder, len(estimator.classes_)
            )
        self.fold = Fold(x, y, weight, networks, order_seed)
        held = rows.take(test)
        self.test_x, test_y, _ = held.tensors(encoder, device)
        n_numeric = len(encoder._numeric)
        self.test_x[:, n_numeric:] *= x[:, n_numeric:].any(dim=0)  # others were never trained
        self.test_y, self.test_weight = test_y.cpu(), _shares(held.weight)
        step = -(-len(y) // _SEEN)
        self.seen_x, self.seen_y = x[::step], y[::step].cpu()
        self.seen_weight = _shares(own.weight[np.isin(own.codes, weighted.codes)][::step])

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
