"""Networks to start with."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

__all__ = ["mlp"]


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
