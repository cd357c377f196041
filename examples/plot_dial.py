"""
One dial for diversity, in PyTorch
==================================

``DiversityLoss(d)`` trains each network for itself at 0 and the vote of all at 1. Networks too small for their task
share the work when they are trained together.
"""

# %%
# Two classes alternate on a circle of eight sectors. A network of three hidden units cannot learn that alone.

import matplotlib.pyplot as plt
import torch

from counterpoint import DiversityLoss, Ensemble, fit
from counterpoint.training import mlp

generator = torch.Generator().manual_seed(0)
x = torch.randn(1024, 2, generator=generator)
y = (torch.atan2(x[:, 1], x[:, 0]) / (torch.pi / 4)).floor().long() % 2
batches = list(zip(x.split(128), y.split(128), strict=True))


def train(diversity):
    """Return ten small networks, trained together at a dial, and their history."""
    torch.manual_seed(1)
    ensemble = Ensemble([mlp([2, 3, 2]) for _ in range(10)])
    adam = torch.optim.Adam(ensemble.parameters(), lr=0.02)
    return ensemble, fit(
        ensemble, batches, loss=DiversityLoss(diversity), optimizer=adam, epochs=60, progress=False
    )


dials = (0.0, 0.5, 0.9, 1.0)
trained = {dial: train(dial) for dial in dials}

# %%
# Each panel shows the vote over the plane. The titles compare the vote with a network alone.

grid = torch.cartesian_prod(torch.linspace(-2.5, 2.5, 120), torch.linspace(-2.5, 2.5, 120))
figure, axes = plt.subplots(1, 4, figsize=(13, 3.8), layout="constrained", sharey=True)
for ax, (dial, (ensemble, history)) in zip(axes, trained.items(), strict=True):
    share = ensemble.predict_proba(grid)[:, 1].reshape(120, 120).T.numpy()
    ax.imshow(share, origin="lower", extent=(-2.5, 2.5, -2.5, 2.5), cmap="RdBu", vmin=0, vmax=1)
    vote, alone = (ensemble.predict(x) == y).float().mean(), history[-1]["learner_accuracy"]
    ax.set_title(f"dial {dial:g}: vote {vote:.0%}, one {alone:.0%}")
plt.show()
