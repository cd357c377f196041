"""TabM as a classifier: one network with the answers of many learners, each with a few weights of its own."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray
from counterpoint.exceptions import LearnerWarning
from counterpoint.training import IndependentLoss, MemberAxis, fit, pick_device, seeded

__all__ = ["TabMClassifier"]

N_LEARNERS = 32  # the default of the package


class TabMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """TabM from the package of its authors, trained by the mean of its learners' cross-entropies.

    Parameters
    ----------
    hidden : int, default=64
        Number of units of the hidden layer.
    epochs : int, default=100
        Number of epochs.
    batch_size : int, default=32
        Largest size of a batch.
    learning_rate : float, default=0.002
        Learning rate of AdamW.
    weight_decay : float, default=0.1
        Weight decay of AdamW.
    device : str, default="cpu"
        Where to train.
    random_state : int, default=0
        Seed of the weights, the batches and dropout.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    ensemble_ : MemberAxis
        The trained network.

    Notes
    -----
    Gorishniy, Kotelnikov and Babenko (2025), "TabM: advancing tabular deep learning with parameter-efficient
    ensembling". The hidden layer is that of the other networks of the arena; the number of learners, 32, and dropout
    are the defaults of the package.
    """

    def __init__(
        self,
        hidden: int = 64,
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.002,
        weight_decay: float = 0.1,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Train on encoded rows."""
        from tabm import TabM

        self.classes_, codes = np.unique(y, return_inverse=True)
        device = pick_device(self.device)
        x = torch.as_tensor(X, dtype=torch.float32, device=device)
        target = torch.as_tensor(codes, device=device)
        seed, order = np.random.SeedSequence(self.random_state).generate_state(2).tolist()
        generator = torch.Generator().manual_seed(order)

        def batches(_: int) -> Iterator[tuple[Tensor, Tensor]]:
            # sizes differ by one at most
            for rows in torch.randperm(len(x), generator=generator).tensor_split(
                math.ceil(len(x) / self.batch_size)
            ):
                yield x[rows], target[rows]

        with seeded(device, seed), warnings.catch_warnings():
            warnings.simplefilter("ignore", LearnerWarning)  # the scores of a fold show weak learners
            network = TabM.make(
                n_num_features=x.shape[1],
                d_out=len(self.classes_),
                n_blocks=1,
                d_block=self.hidden,
                k=N_LEARNERS,
            )
            self.ensemble_ = MemberAxis(network, N_LEARNERS).to(device)
            fit(
                self.ensemble_,
                batches,
                loss=IndependentLoss(),
                optimizer=lambda parameters: torch.optim.AdamW(
                    parameters, lr=self.learning_rate, weight_decay=self.weight_decay
                ),
                epochs=self.epochs,
                precision="float32",
                progress=False,
            )
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of the learners' probabilities."""
        rows = torch.as_tensor(X, dtype=torch.float32, device=pick_device(self.device))
        proba: FloatArray = self.ensemble_.predict_proba(rows).double().cpu().numpy()
        return proba
