"""Operations on torch modules that training and prediction share."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["all_finite", "copy_state", "evaluating", "unwrap"]


def unwrap(module: nn.Module) -> nn.Module:
    """Return the module inside ``torch.compile``, ``DataParallel`` or ``DistributedDataParallel``.

    Wrappers have the outputs of the module, and the last two lack its other attributes.
    """
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif isinstance(inner := getattr(module, "_orig_mod", None), nn.Module):
            module = inner
        else:
            return module


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode without gradients, and restore the modes of its parts afterwards.

    Parameters
    ----------
    module : Module
        Any module.

    Examples
    --------
    >>> net = nn.Dropout(0.5)
    >>> with evaluating(net):
    ...     net(torch.ones(3))
    tensor([1., 1., 1.])
    >>> net.training
    True
    """
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def copy_state(module: nn.Module) -> dict[str, Any]:
    """Return a copy of the state dict."""
    state = module.state_dict()
    return {k: v.detach().clone() if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in state.items()}


def all_finite(module: nn.Module) -> bool:
    """Return True if all parameters are finite."""
    return bool(torch.stack([p.detach().isfinite().all() for p in module.parameters()]).all())
