"""Networks to start with."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["FeatureMask", "mlp"]


class FeatureMask(nn.Module):
    """Let a network see some of its inputs; the others are 0 for it.

    Parameters
    ----------
    seen : Tensor of shape (n_features,)
        1 for an input that the network sees, else 0. It is not trained.

    Examples
    --------
    >>> FeatureMask(torch.tensor([1.0, 0.0]))(torch.tensor([[3.0, 4.0]]))
    tensor([[3., 0.]])
    """

    def __init__(self, seen: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(seen.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return rows (..., n_features) with zeros for what is not seen."""
        return x * self.weight


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Return a multilayer perceptron with ReLU between its linear layers.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of inputs, of the units of each hidden layer, and of outputs.

    Returns
    -------
    nn.Sequential

    Examples
    --------
    >>> mlp([4, 16, 3])
    Sequential(
      (0): Linear(in_features=4, out_features=16, bias=True)
      (1): ReLU()
      (2): Linear(in_features=16, out_features=3, bias=True)
    )
    """
    layers: list[nn.Module] = []
    for inside, outside in pairwise(sizes):
        layers += [nn.Linear(inside, outside, dtype=torch.float32), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
