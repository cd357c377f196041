"""TabM trains with the loop and the losses of the library; a stand-in has the outputs of its package."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

from counterpoint.arena.tabm import N_LEARNERS, TabMClassifier


class StandIn(nn.Module):
    """One hidden layer and k heads, with outputs (batch, k, classes)."""

    @classmethod
    def make(cls, *, n_num_features, d_out, n_blocks, d_block, k):
        assert n_blocks == 1
        return cls(n_num_features, d_block, k, d_out)

    def __init__(self, n_features, hidden, k, n_classes):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(hidden, k * n_classes),
            nn.Unflatten(1, (k, n_classes)),
        )

    def forward(self, x_num):
        return self.layers(x_num)


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "tabm", SimpleNamespace(TabM=StandIn))
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_it_learns_and_does_the_same_again(rows):
    X, y = rows
    before = torch.random.get_rng_state()
    one, other = (
        TabMClassifier(16, epochs=15, learning_rate=0.02, random_state=3).fit(X, y) for _ in range(2)
    )
    proba = one.predict_proba(X)
    assert proba.shape == (150, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert (proba.argmax(axis=1) == y).mean() > 0.9
    np.testing.assert_array_equal(proba, other.predict_proba(X))
    assert not np.array_equal(
        proba, TabMClassifier(16, epochs=15, learning_rate=0.02, random_state=4).fit(X, y).predict_proba(X)
    )
    assert torch.equal(torch.random.get_rng_state(), before)


def test_it_predicts_the_mean_of_its_learners(rows):
    X, y = rows
    model = TabMClassifier(hidden=8, epochs=2).fit(X, y)
    learners = model.ensemble_.learner_proba(torch.as_tensor(X, dtype=torch.float32))
    assert learners.shape == (N_LEARNERS, 150, 3)
    np.testing.assert_allclose(model.predict_proba(X), learners.mean(0).numpy(), atol=1e-6)


def test_classes_keep_their_codes(rows):
    X, y = rows
    kept = y != 1
    model = TabMClassifier(hidden=8, epochs=10, learning_rate=0.02).fit(X[kept], y[kept])
    assert model.classes_.tolist() == [0, 2]
    assert (model.classes_[model.predict_proba(X[kept]).argmax(axis=1)] == y[kept]).mean() > 0.9
