"""
The path of an ensemble in training
===================================

``fit`` records where the ensemble stands after every epoch. On the plane of Theorem 2 one sees what the dial does.
"""

# %%
# Ten small networks learn two interleaved half moons, once independently and once for a diverse vote.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons

from counterpoint import DiversityLoss, Ensemble, IndependentLoss, fit
from counterpoint.plots import TradeoffDisplay
from counterpoint.training import mlp

X, labels = make_moons(600, noise=0.25, random_state=0)
x, y = torch.tensor(X, dtype=torch.float32), torch.tensor(labels)
batches = list(zip(x.split(100), y.split(100), strict=True))


def path(loss):
    """Return the correlations after each epoch."""
    torch.manual_seed(0)
    ensemble = Ensemble([mlp([2, 4, 2]) for _ in range(10)])
    adam = torch.optim.Adam(ensemble.parameters(), lr=0.02)
    return fit(ensemble, batches, loss=loss, optimizer=adam, epochs=60, progress=False).trajectory


paths = {"independent": path(IndependentLoss()), "diverse": path(DiversityLoss())}
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
TradeoffDisplay(10, trajectories=paths).plot(ax)
plt.show()

# %%
# Both begin at learners that guess. The diverse ensemble stays further left: its networks agree less with each other.
