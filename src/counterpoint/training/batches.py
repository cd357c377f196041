"""Batches: checked, counted, moved to the device and run through the networks."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "Batches",
    "check_batches",
    "find_generators",
    "forward_batch",
    "is_iterable",
    "iter_on_device",
    "n_batches",
    "to_device",
]

Batches = Iterable[Any] | Callable[[int], Iterable[Any]]

_DTYPE_ERROR = re.compile("dtype|scalar type|Input type")  # the words of torch's layers


def is_iterable(batches: Any) -> bool:
    """Return True if batches can be iterated over; a data set may have ``__getitem__`` alone."""
    return hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")


def n_batches(batches: Iterable[Any]) -> int | None:
    """Return the number of batches, or None if it is unknown."""
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # also a DataLoader over a stream
        return None


def check_batches(batches: Any, validation: Any) -> None:
    """Refuse batches that are empty or cannot be iterated over in every epoch."""
    several = {"batches": batches} if validation is None else {"batches": batches, "validation": validation}
    for name, given in several.items():
        if isinstance(given, Iterator) or not (callable(given) or is_iterable(given)):
            got = f"an iterator, {given!r}" if isinstance(given, Iterator) else repr(given)
            raise TypeError(
                f"`{name}` must be a DataLoader, a list, or a callable that returns an iterable for each epoch; "
                f"got {got}."
            )
        if not callable(given) and n_batches(given) == 0:
            raise ValueError(f"`{name}` must yield at least one batch; got none.")


def to_device(batch: Any, device: torch.device, name: str) -> list[Any]:
    """Return (x, y) or (x, y, sample_weight) on the device; x may be a list of views."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise TypeError(f"`{name}` must yield (x, y) or (x, y, sample_weight); got {type(batch).__name__}.")
    x, *rest = batch
    views = x if isinstance(x, tuple | list) else [x]
    for part in (*views, *rest):
        if not isinstance(part, Tensor):
            raise TypeError(f"`{name}` must yield tensors; got {type(part).__name__}.")
    moved = [part.to(device, non_blocking=True) for part in views]
    return [moved if views is x else moved[0], *(part.to(device, non_blocking=True) for part in rest)]


def iter_on_device(batches: Iterable[Any], device: torch.device, name: str) -> Iterator[list[Any]]:
    """Yield (x, y) or (x, y, sample_weight) on the device; all batches must have weights or none."""
    if not is_iterable(batches):
        raise TypeError(f"`{name}` must be an iterable of (x, y) or (x, y, sample_weight); got {batches!r}.")
    n_parts = 0
    for batch in batches:
        parts = to_device(batch, device, name)
        if len(parts) != n_parts and n_parts:
            raise ValueError(f"`{name}` must yield weights with every batch or with none; got some of both.")
        n_parts = len(parts)
        for weight in batch[2:]:
            if (
                weight.is_cpu and not (least := weight.min()) >= 0
            ):  # reading from another device would wait for it
                raise ValueError(f"`sample_weight` must be 0 or more for each sample; got {least.item()}.")
        yield parts


def forward_batch(ensemble: nn.Module, x: Any, name: str) -> Any:
    """Return the outputs of an ensemble for the inputs of a batch.

    Parameters
    ----------
    ensemble : Module
        Any module.
    x : Tensor, or list of Tensor
        Inputs.
    name : str
        The argument that the batch came from, for the error if the inputs have the wrong dtype.
    """
    try:
        return ensemble(x)
    except RuntimeError as error:
        # Networks may take bytes, or run under autocast: another dtype is the likely cause only where they fail.
        first = x if isinstance(x, Tensor) else x[0]
        own = next(ensemble.parameters(), first).dtype
        if first.dtype == own or not _DTYPE_ERROR.search(str(error)):
            raise
        raise TypeError(
            f"`{name}` must yield inputs of {own}, the dtype of `ensemble`; got {first.dtype}, and the forward pass "
            f"failed: {error}."
        ) from error


def find_generators(batches: Any) -> list[torch.Generator]:
    """Return the generators of a DataLoader and of the samplers in it."""
    owners, found = [batches], {}
    for owner in owners:  # grows by the samplers of samplers
        if isinstance(generator := getattr(owner, "generator", None), torch.Generator):
            found[id(generator)] = generator
        parts = [getattr(owner, name, None) for name in ("sampler", "batch_sampler")]
        known = {id(one) for one in owners}
        owners += [part for part in parts if part is not None and id(part) not in known]
    return list(found.values())
