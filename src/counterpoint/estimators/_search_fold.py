"""A fold of a search for the diversity."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from counterpoint._validation import IntArray
from counterpoint.estimators._networks import make_networks
from counterpoint.estimators._rows import Rows, distinct_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import Scores
from counterpoint.training import DiversityLoss, Ensemble, Fold, autocast, pick_device, seeded
from counterpoint.training.tally import Tally

if TYPE_CHECKING:
    from counterpoint.estimators.diverse_cv import DiverseEnsembleClassifierCV

__all__ = ["SearchFold"]


class SearchFold:
    """A fold of a search: its training rows and networks, and its test rows."""

    def __init__(
        self, search: "DiverseEnsembleClassifierCV", rows: Rows, train: IntArray, test: IntArray, seed: int
    ) -> None:
        if not len(test) or not len(train):
            raise ValueError("`cv` must yield folds with rows of positive weight; got one without.")
        self.n_train, self.n_test = len(train), len(test)
        device = pick_device(search.device)
        own = distinct_rows(*rows.take(train))
        encoder = search.encoder_._rescaled(own.X, own.weight)
        weighted = own.balanced(search.class_weight, search.classes_)
        x, y, weight = weighted.tensors(encoder, device)
        self.n_rows = len(y)  # distinct rows of classes with a weight
        net_seed, order_seed = draw_seeds(seed)
        with seeded(device, net_seed):
            networks = make_networks(
                search.module,
                search.n_estimators,
                search.hidden_layer_sizes,
                x.shape[1],
                len(search.classes_),
            )
        self.fold = Fold(x, y, weight, networks, order_seed)
        held = rows.take(test)
        self.test_x, self.test_y, _ = held.tensors(encoder, device)
        n_numeric = len(encoder._numeric)
        self.test_x[:, n_numeric:] *= x[:, n_numeric:].any(dim=0)  # others were never trained
        share = held.weight / held.weight.max()  # weights may be too small for float32
        self.test_weight = torch.as_tensor(share, dtype=torch.float32, device=device)
        self.train_weight = own.weight[np.isin(own.codes, weighted.codes)]

    @torch.no_grad()
    def score(self, ensemble: Ensemble) -> Scores:
        """Return the scores of the vote on the test rows, and of the learners on the training rows."""
        with autocast("float32", self.fold.x.device):
            held, own = ensemble(self.test_x), ensemble.learner_proba(self.fold.x)
        tally = Tally(ensemble, DiversityLoss(0.0))
        found = tally.add(held, self.test_y, self.test_weight, held.new_zeros(())).means()
        right = (own.argmax(-1) == self.fold.y).cpu().numpy().mean(axis=0)
        return Scores(
            found["vote_accuracy"],
            found["log_loss"],
            found["brier_score"],
            found["calibration_error"],
            float(np.average(right, weights=self.train_weight)),
        )
