"""Batches: checked, counted, moved to the device and run through the networks."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint.training.ensemble import MemberAxis, Voters
from counterpoint.training.mesh import LOCAL, Axes
from counterpoint.training.modules import evaluating, uncompiled_calls, unwrap

__all__ = [
    "Batches",
    "begin_epoch",
    "check_batches",
    "check_learner_axis",
    "find_generators",
    "forward_batch",
    "has_own_part",
    "inputs_of",
    "is_iterable",
    "is_same",
    "iter_on_device",
    "map_inputs",
    "n_batches",
    "rows_of",
    "to_device",
    "voters_of",
]

Batches = Iterable[Any] | Callable[[int], Iterable[Any]]

_IGNORED = -100  # torch's label of what has none
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
    """Return (x, y) or (x, y, sample_weight) on the device; x may be a list of views, or named inputs."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise TypeError(f"`{name}` must yield (x, y) or (x, y, sample_weight); got {type(batch).__name__}.")
    x, *rest = batch
    for part in (*inputs_of(x), *rest):
        if not isinstance(part, Tensor):
            raise TypeError(f"`{name}` must yield tensors; got {type(part).__name__}.")
    return [
        map_inputs(x, lambda part: part.to(device, non_blocking=True)),
        *(part.to(device, non_blocking=True) for part in rest),
    ]


def inputs_of(x: Any) -> list[Any]:
    """Return the tensors of the inputs of a batch: one, a list of views, or those of a mapping."""
    return list(x.values()) if isinstance(x, Mapping) else list(x) if isinstance(x, tuple | list) else [x]


def map_inputs(x: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return the inputs of a batch with a function applied to each tensor."""
    if isinstance(x, Mapping):
        return {key: function(part) for key, part in x.items()}
    return [function(part) for part in x] if isinstance(x, tuple | list) else function(x)


def iter_on_device(
    batches: Iterable[Any],
    device: torch.device,
    name: str,
    axes: Axes = LOCAL,
    *,
    own: bool = False,
    unpack: Callable[[Any], Any] | None = None,
) -> Iterator[list[Any]]:
    """Yield (x, y) or (x, y, sample_weight) on the device; all batches must have weights or none.

    On a mesh, ``own`` says that the batches are those of this process. Otherwise they are the same on all, and each
    takes its rows. A process without rows gets some of weight 0, so that all take part in every step. ``unpack`` makes
    (x, y) or (x, y, sample_weight) of what the batches are.
    """
    if not is_iterable(batches):
        raise TypeError(f"`{name}` must be an iterable of (x, y) or (x, y, sample_weight); got {batches!r}.")
    n_parts = 0
    steps = batches if unpack is None else _Unpacked(batches, unpack)
    for batch, idle in _of_this_process(steps, axes, own, name) if axes else ((one, False) for one in steps):
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
                weight.is_cpu and weight.numel() and not (least := weight.min()) >= 0
            ):  # reading from another device would wait for it
                raise ValueError(f"`sample_weight` must be 0 or more for each sample; got {least.item()}.")
        yield parts
    axes.idle = False


class _Unpacked:
    """Batches, each given to a function."""

    def __init__(self, batches: Iterable[Any], function: Callable[[Any], Any]) -> None:
        self.batches, self.function = batches, function

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.batches)

    def __len__(self) -> int:
        count = n_batches(self.batches)
        if count is None:
            raise TypeError("the number of batches is unknown")
        return count


def has_own_part(batches: Any) -> bool:
    """Return True for a DataLoader that shows each process samples of its own."""
    return isinstance(getattr(batches, "sampler", None), torch.utils.data.DistributedSampler)


def begin_epoch(batches: Any, epoch: int) -> Iterable[Any]:
    """Return the batches of an epoch; a sampler that shuffles by the number of the epoch is told it."""
    if has_own_part(batches):
        batches.sampler.set_epoch(epoch)
    found: Iterable[Any] = batches(epoch) if callable(batches) else batches
    return found


def _of_this_process(batches: Iterable[Any], axes: Axes, own: bool, name: str) -> Iterator[tuple[Any, bool]]:
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
    """Yield as many batches on all processes as one has: one that has run out repeats its last, without weight."""
    iterator, last = iter(batches), None
    counts = axes.each(n_batches(batches), axes.data)
    known = None if None in counts else max(count for count in counts if count is not None)
    taken = 0
    while taken != known:
        batch = next(iterator, None)
        if known is None and not any(axes.each(batch is not None, axes.data)):
            return
        if batch is None and last is None:
            raise ValueError(
                f"`{name}` must yield at least one batch on every process; got none on this one."
            )
        yield (last, True) if batch is None else (batch, False)
        last, taken = last if batch is None else batch, taken + 1


def _rows(batch: Any, axes: Axes) -> tuple[list[Any], bool]:
    x, *rest = batch
    idle = len(rest[0]) <= axes.data_rank

    def some(tensor: Tensor) -> Tensor:
        return tensor[:1] if idle else axes.split(tensor)

    return [map_inputs(x, some), *map(some, rest)], idle


def _check_same(batch: Any, axes: Axes, own: bool, name: str) -> None:
    """Refuse batches that should be the same on several processes and are not."""
    x, y, *_ = batch
    print_of = repr([(tuple(part.shape), part.double().sum().item()) for part in (*inputs_of(x), y)])
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
    x : Tensor, list of Tensor, or mapping
        Inputs. Those of a mapping are given to networks by name.
    name : str
        The argument that the batch came from, for the error if the inputs have the wrong dtype.
    """
    try:
        if isinstance(x, Mapping) and not isinstance(unwrap(ensemble), Voters):
            return ensemble(**x)
        return ensemble(x)
    except RuntimeError as error:
        # Networks may take bytes, or run under autocast: another dtype is the likely cause only where they fail.
        first = inputs_of(x)[0]
        own = next(ensemble.parameters(), first).dtype
        if first.dtype == own or not _DTYPE_ERROR.search(str(error)):
            raise
        raise TypeError(
            f"`{name}` must yield inputs of {own}, the dtype of `ensemble`; got {first.dtype}, and the forward pass "
            f"failed: {error}."
        ) from error


def voters_of(module: nn.Module, x: Any) -> Voters | None:
    """Return the ensemble whose outputs a module returns: itself, or one inside, possibly in another dtype.

    Parameters
    ----------
    module : Module
        Any module; if ensembles are inside, it runs once as it is, without gradients. Its buffers stay as they were.
    x : Tensor, list of Tensor, or mapping
        The inputs of a batch.
    """
    bare = unwrap(module)
    if isinstance(bare, Voters):
        return bare
    seen: list[tuple[Voters, Any]] = []  # also what other threads get at the same time
    with ExitStack() as ending:
        inside = [part for part in bare.modules() if isinstance(part, Voters)]
        for part in inside:
            hook = part.register_forward_hook(lambda own, _inputs, outputs: seen.append((own, outputs)))
            ending.callback(hook.remove)
        ending.enter_context(torch.no_grad())
        for buffer in bare.buffers() if inside else ():
            ending.callback(buffer.copy_, buffer.clone())
        ending.enter_context(uncompiled_calls(bare))  # what is compiled calls no hooks that are new
        outputs = forward_batch(bare, x, "batches") if inside else None
    return next((part for part, own in seen if is_same(outputs, own)), None)


def is_same(outputs: Any, own: Any) -> bool:
    """Return True if outputs are those of an ensemble: as they are, as a view of them, or cast to another dtype."""
    if outputs is own or not (isinstance(outputs, Tensor) and isinstance(own, Tensor)):
        return outputs is own
    viewed = outputs.data_ptr() == own.data_ptr() and outputs.stride() == own.stride()
    return (viewed or outputs.dtype != own.dtype) and torch.equal(outputs, own.to(outputs.dtype))


def check_learner_axis(ensemble: nn.Module, x: Any, logits: Tensor) -> None:
    """Refuse outputs (batch, n_learners, n_classes), which look right if there are as many learners as samples.

    A pass with one sample less tells. A :class:`MemberAxis` says itself that an axis is not that of its learners.

    Parameters
    ----------
    ensemble : Module
        Any module; those of this package know their axes.
    x : Tensor, list of Tensor, or mapping
        The inputs of a batch.
    logits : Tensor
        Its outputs.
    """
    ambiguous = isinstance(logits, Tensor) and logits.dim() > 2 and 1 < logits.shape[0] == logits.shape[1]
    bare = unwrap(ensemble)  # a wrapper may exchange tensors with processes whose outputs are not ambiguous
    if not ambiguous or (isinstance(bare, Voters) and not isinstance(bare, MemberAxis)):
        return
    with evaluating(bare):
        fewer = forward_batch(bare, map_inputs(x, lambda part: part[:-1]), "batches")
    if fewer.shape[0] != logits.shape[0]:
        raise ValueError(
            "`ensemble` must return (n_learners, batch, n_classes), learners first; got the batch first. MemberAxis "
            "takes modules that return (batch, n_learners, n_classes)."
        )


def rows_of(
    logits: Any, y: Tensor, weight: Sequence[Tensor], ignore_index: int | None = None
) -> tuple[Any, Tensor, list[Tensor]]:
    """Return the outputs of a batch with one row for each label: tokens of sequences become rows of their own.

    Rows with the label to ignore are left out, and so are tokens with the label -100, which torch ignores.

    Parameters
    ----------
    logits : Tensor, shape (n_learners, batch, n_classes) or (n_learners, batch, length, n_classes)
        Outputs.
    y : Tensor, shape (batch,), (batch, length), or soft targets
        Labels.
    weight : sequence of Tensor
        Weights of the samples, or of the tokens, if there are any.
    ignore_index : int, optional
        The label to ignore.
    """
    tokens = isinstance(logits, Tensor) and logits.dim() == 4 and logits.shape[1:3] == y.shape[:2]
    if tokens:
        weight = [(w[:, None].expand(y.shape[:2]) if w.dim() == 1 else w).flatten() for w in weight]
        logits, y = logits.flatten(1, 2), y.flatten(0, 1)
    if (tokens or ignore_index is not None) and y.dim() == 1 and not y.is_floating_point():
        kept = y != (_IGNORED if ignore_index is None else ignore_index)
        logits, y, weight = logits[:, kept], y[kept], [w[kept] for w in weight]
    return logits, y, list(weight)


def find_generators(*batches: Any) -> list[torch.Generator]:
    """Return the generators of DataLoaders and of the samplers in them."""
    owners, found = list(batches), {}
    for owner in owners:  # grows by the samplers of samplers
        if isinstance(generator := getattr(owner, "generator", None), torch.Generator):
            found[id(generator)] = generator
        parts = [getattr(owner, name, None) for name in ("sampler", "batch_sampler")]
        known = {id(one) for one in owners}
        owners += [part for part in parts if part is not None and id(part) not in known]
    return list(found.values())
