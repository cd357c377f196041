"""TabM as a classifier: one network that stands for many, each with a few weights of its own."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators import TableBatches, draw_seeds
from counterpoint.training import seeded

__all__ = ["TabMClassifier"]


class TabMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The TabM of its authors' package, trained by the mean of its learners' cross-entropies.

    Parameters
    ----------
    hidden : int, default=64
        Units of the hidden layer.
    epochs, batch_size, learning_rate, weight_decay
        How to train, by AdamW.
    random_state : int
        What the weights, the batches and dropout are drawn from.

    Notes
    -----
    Gorishniy, Kotelnikov and Babenko (2025), "TabM: advancing tabular deep learning with parameter-efficient
    ensembling".
    The hidden layer is that of the other networks here; the number of learners, 32, and dropout are the defaults of the
    package.
    """

    def __init__(
        self,
        hidden: int = 64,
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.002,
        weight_decay: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Train on encoded rows."""
        from tabm import TabM

        self.classes_, codes = np.unique(y, return_inverse=True)
        seed, order = draw_seeds(self.random_state)
        x, target = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(codes)
        batches = TableBatches(x, target, None, self.batch_size, torch.Generator().manual_seed(order))
        with seeded(torch.device("cpu"), seed):
            self.net_: nn.Module = TabM.make(
                n_num_features=x.shape[1], d_out=len(self.classes_), n_blocks=1, d_block=self.hidden
            )
            optimizer = torch.optim.AdamW(
                self.net_.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
            )
            for _ in range(self.epochs):
                for rows, truth, *_ in batches:
                    logits = self.net_(rows)  # (batch, k, classes)
                    loss = nn.functional.cross_entropy(
                        logits.flatten(0, 1), truth.repeat_interleave(logits.shape[1])
                    )
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
        self.net_.eval()
        return self

    @torch.no_grad()
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of the learners' probabilities."""
        logits = self.net_(torch.as_tensor(X, dtype=torch.float32))
        proba: FloatArray = logits.double().softmax(-1).mean(1).numpy()
        return proba
