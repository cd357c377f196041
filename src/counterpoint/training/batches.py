"""Batches: checked, counted, moved to the device and run through the networks."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint.training.mesh import LOCAL, Axes

__all__ = [
    "Batches",
    "begin_epoch",
    "check_batches",
    "find_generators",
    "forward_batch",
    "has_own_part",
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


def iter_on_device(
    batches: Iterable[Any], device: torch.device, name: str, axes: Axes = LOCAL, *, own: bool = False
) -> Iterator[list[Any]]:
    """Yield (x, y) or (x, y, sample_weight) on the device; all batches must have weights or none.

    On a mesh, ``own`` says that the batches are those of this process. Otherwise they are the same on all, and each takes
    its rows. A process without rows gets some of weight 0, so that all take part in every step.
    """
    if not is_iterable(batches):
        raise TypeError(f"`{name}` must be an iterable of (x, y) or (x, y, sample_weight); got {batches!r}.")
    n_parts = 0
    for batch, idle in _of_this_process(batches, axes, own, name) if axes else ((one, False) for one in batches):
        axes.idle = idle
        parts = to_device(batch, device, name)
        if idle:
            weight = torch.zeros(len(parts[1]), device=device)
            yield [*parts[:2], weight]
            continue
        if len(parts) != n_parts and n_parts:
            raise ValueError(f"`{name}` must yield weights with every batch or with none; got some of both.")
        n_parts = len(parts)
        for weight in batch[2:]:
            if (
                weight.is_cpu and not (least := weight.min()) >= 0
            ):  # reading from another device would wait for it
                raise ValueError(f"`sample_weight` must be 0 or more for each sample; got {least.item()}.")
        yield parts
    axes.idle = False


def has_own_part(batches: Any) -> bool:
    """Return True for a DataLoader that shows each process samples of its own."""
    return isinstance(getattr(batches, "sampler", None), torch.utils.data.DistributedSampler)


def begin_epoch(batches: Any, epoch: int) -> Iterable[Any]:
    """Return the batches of an epoch; a sampler that shuffles by the number of the epoch is told it."""
    if has_own_part(batches):
        batches.sampler.set_epoch(epoch)
    found: Iterable[Any] = batches(epoch) if callable(batches) else batches
    return found


def _of_this_process(
    batches: Iterable[Any], axes: Axes, own: bool, name: str
) -> Iterator[tuple[Any, bool]]:
    """Yield the part of each batch that this process has, and whether it only stands in for none."""
    steps = _own_batches(batches, axes, name) if own else ((batch, False) for batch in batches)
    for number, (batch, idle) in enumerate(steps):
        if not (isinstance(batch, tuple | list) and len(batch) in (2, 3)):
            yield batch, False  # to be refused
            continue
        if number == 0:
            _check_same(batch, axes, own, name)
        yield (batch, idle) if own else _rows(batch, axes)


def _own_batches(batches: Iterable[Any], axes: Axes, name: str) -> Iterator[tuple[Any, bool]]:
    """Yield as many batches on all processes as one has: a process that has run out repeats its last, without weight."""
    iterator, last = iter(batches), None
    counts = axes.each(n_batches(batches), axes.data)
    known = None if None in counts else max(count for count in counts if count is not None)
    taken = 0
    while taken != known:
        batch = next(iterator, None)
        if known is None and not any(axes.each(batch is not None, axes.data)):
            return
        if batch is None and last is None:
            raise ValueError(f"`{name}` must yield at least one batch on every process; got none on this one.")
        yield (last, True) if batch is None else (batch, False)
        last, taken = last if batch is None else batch, taken + 1


def _rows(batch: Any, axes: Axes) -> tuple[list[Any], bool]:
    x, *rest = batch
    idle = len(rest[0]) <= axes.data_rank

    def some(tensor: Tensor) -> Tensor:
        return tensor[:1] if idle else axes.split(tensor)

    return [[some(view) for view in x] if isinstance(x, tuple | list) else some(x), *map(some, rest)], idle


def _check_same(batch: Any, axes: Axes, own: bool, name: str) -> None:
    """Refuse batches that should be the same on several processes and are not."""
    x, y, *_ = batch
    views = x if isinstance(x, tuple | list) else [x]
    print_of = repr([(tuple(part.shape), part.double().sum().item()) for part in (*views, y)])
    for group in (axes.learners,) if own else (axes.learners, axes.data):
        if len(set(axes.each(print_of, group))) > 1:
            raise ValueError(
                f"`{name}` must yield the same batches on every process of the mesh, which each takes its rows of; got "
                "others. Shuffle by a generator with the same seed, or give a DataLoader with a DistributedSampler."
            )


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
