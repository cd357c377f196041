"""The device that training and prediction run on, and torch's random numbers on it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["pick_device", "seeded"]

# Initial weights and dropout draw from torch's global generator, which all threads share.
_TURN = threading.RLock()


def pick_device(device: str | torch.device) -> torch.device:
    """Return a device by name; "auto" is the GPU if there is one.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"``, or a device that is available to torch.

    Returns
    -------
    torch.device

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"`device` must be 'auto' or a device of torch; got {device!r}.") from None
    try:
        count = torch.get_device_module(found).device_count()
    except RuntimeError:  # nothing runs on it, as on "meta", or its driver is missing
        count = 0
    if (found.index or 0) >= count:
        raise ValueError(
            f"`device` must be one that torch finds, and it finds {count} of the kind {found.type!r}; "
            f"got {str(device)!r}."
        )
    return found


@contextmanager
def seeded(device: torch.device, random_state: int) -> Iterator[None]:
    """Seed torch's global generator for a block, one thread at a time, and restore it afterwards.

    Parameters
    ----------
    device : torch.device
        Device on which random numbers are drawn.
    random_state : int
        Seed of the block.

    Examples
    --------
    >>> import torch
    >>> with seeded(torch.device("cpu"), 0):
    ...     first = torch.rand(2)
    >>> with seeded(torch.device("cpu"), 0):
    ...     bool((torch.rand(2) == first).all())
    True
    """
    with _TURN, torch.random.fork_rng([device] if device.type == "cuda" else []):
        # torch.manual_seed would also set the generators of GPUs, which are not restored
        (torch.default_generator if device.type == "cpu" else torch).manual_seed(random_state)
        yield
