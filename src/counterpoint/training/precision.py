"""The precision in which networks run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from counterpoint._validation import check_choice

__all__ = ["autocast", "gradients_enabled"]


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which networks run in a precision.

    Parameters
    ----------
    precision : {"auto", "float32", "bf16"}
        ``"bf16"`` is autocast to bfloat16, ``"float32"`` switches autocast off. ``"auto"`` is ``"bf16"`` on CUDA and
        leaves the caller's setting elsewhere.
    device : torch.device
        Device of the networks.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with autocast("float32", torch.device("cpu")):
    ...     torch.is_autocast_enabled("cpu")
    False
    """
    check_choice(precision, "precision", ("auto", "float32", "bf16"))
    if precision == "bf16" or (precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    if precision == "float32" and torch.is_autocast_enabled(device.type):  # around the call
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


@contextmanager
def gradients_enabled(precision: str, device: torch.device) -> Iterator[None]:
    """Enable gradients, also inside ``torch.no_grad``; the backward pass is in float32 if that was asked for."""
    with torch.enable_grad(), autocast(precision, device) if precision == "float32" else nullcontext():
        yield
