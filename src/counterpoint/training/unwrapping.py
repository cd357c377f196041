"""The module under what torch wraps around it."""

from torch import nn

__all__ = ["unwrapped"]


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module that ``torch.compile``, ``DataParallel`` or ``DistributedDataParallel`` was given.

    They put out what it does, and the last two have none of its other attributes.
    """
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif isinstance(inner := getattr(module, "_orig_mod", None), nn.Module):
            module = inner
        else:
            return module
