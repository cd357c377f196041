"""Operations on torch modules that training and prediction share."""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from counterpoint.training.sharding import local_part

__all__ = [
    "all_finite",
    "bare_name",
    "check_shaped",
    "copy_state",
    "counting_rows",
    "evaluating",
    "name_bare",
    "name_wrapped",
    "rows_at_once",
    "uncompiled",
    "uncompiled_calls",
    "unwrap",
]

_MAX_ACTIVATIONS = 2**24  # numbers in one layer's activations, in a pass without gradients
# Where layers return the largest tensor that they make.
_KNOWN = ("torch.nn.modules.", "counterpoint.training.stacked")
_TURN, _UNCOMPILED = threading.Lock(), threading.RLock()
# Modules that are being evaluated: by how many blocks, and the modes of their parts before the first.
_EVALUATING: dict[nn.Module, list[Any]] = {}


def unwrap(module: nn.Module) -> nn.Module:
    """Return the module inside ``torch.compile``, ``DataParallel`` or ``DistributedDataParallel``.

    Wrappers have the outputs of the module, and the last two lack its other attributes.
    """
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif (inner := uncompiled(module)) is not module:
            module = inner
        else:
            return module


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module inside ``torch.compile``."""
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else module


def bare_name(name: str) -> str:
    """Return the name that a part of a module has without ``torch.compile`` around it.

    Examples
    --------
    >>> bare_name("body.0._orig_mod.weight")
    'body.0.weight'
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def name_bare(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Name the tensors of compiled learners as those of plain ones, so that each loads the state of the other."""
    for name in [name for name in state_dict if name.startswith(f"{prefix}body.")]:
        state_dict[prefix + bare_name(name.removeprefix(prefix))] = state_dict.pop(name)


def name_wrapped(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Name the tensors of a state as those of the learners here, some of which may be compiled."""
    for name, _tensor in (*module.named_parameters(), *module.named_buffers()):
        if (plain := bare_name(name)) != name and f"{prefix}{plain}" in state_dict:
            state_dict[f"{prefix}{name}"] = state_dict.pop(f"{prefix}{plain}")


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode without gradients, and restore the modes of its parts afterwards.

    Parameters
    ----------
    module : Module
        Any module.

    Notes
    -----
    Threads may evaluate one module at the same time: the first switches its mode, and the last restores it.

    Examples
    --------
    >>> net = nn.Dropout(0.5)
    >>> with evaluating(net):
    ...     net(torch.ones(3))
    tensor([1., 1., 1.])
    >>> net.training
    True
    """
    with _TURN:
        if module not in _EVALUATING:
            _EVALUATING[module] = [0, {part: part.training for part in module.modules()}]
            module.eval()
        _EVALUATING[module][0] += 1
    try:
        with torch.no_grad():
            yield
    finally:
        with _TURN:
            _EVALUATING[module][0] -= 1
            if not _EVALUATING[module][0]:
                for part, mode in _EVALUATING.pop(module)[1].items():
                    part.training = mode


def rows_at_once(module: nn.Module, sample: torch.Size, copies: int) -> int:
    """Return how many samples of this shape fit into a pass without gradients, if no layer makes maps smaller.

    Parameters
    ----------
    module : Module
        Networks, stacked or not; the widest layer counts.
    sample : torch.Size
        Shape of a sample.
    copies : int
        Number of networks that run at once.
    """
    shapes = [p.shape for p in module.parameters()]
    pixels = sample[1:].numel()
    channels = [size * pixels for shape in shapes if len(shape) == 4 for size in shape[1:2]]
    units = [size for shape in shapes if len(shape) < 4 for size in shape[1:]]
    widest = max(sample.numel(), 1, *channels, *units)
    return max(_MAX_ACTIVATIONS // (copies * widest), 1)


@contextmanager
def counting_rows(module: nn.Module, rows: int) -> Iterator[Callable[[], int]]:
    """Count how many samples fit into a pass, by the outputs of all layers while so many rows run.

    Parameters
    ----------
    module : Module
        The module that runs.
    rows : int
        Number of samples in this pass.

    Yields
    ------
    callable
        Returns the number, at least ``rows``. It is ``rows`` if layers with parameters did not run, or are not torch's,
        whose largest tensor may stay inside; or if a part is scripted or compiled: a hook would have it compiled again.
    """
    unseen = {part for part in module.modules() if not [*part.children()] and [*part.parameters()]}
    known = all(type(part).__module__.startswith(_KNOWN) for part in unseen)
    if not known or any(map(_is_opaque, module.modules())):
        yield lambda: rows
        return
    largest = 1

    def look(part: nn.Module, _inputs: Any, outputs: Any) -> None:
        nonlocal largest
        unseen.discard(part)
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            largest = max(largest, output.numel() if isinstance(output, Tensor) else 0)

    hooks = [part.register_forward_hook(look) for part in module.modules()]
    try:
        yield lambda: rows if unseen else max(rows, _MAX_ACTIVATIONS * rows // largest)
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def uncompiled_calls(module: nn.Module) -> Iterator[None]:
    """Run the compiled parts of a module as they are written; one thread at a time, since torch's switch is global.

    Parameters
    ----------
    module : Module
        Any module; if no part is compiled, nothing is switched.
    """
    if not any(map(_is_opaque, module.modules())):
        yield
        return
    with _UNCOMPILED, torch.compiler.set_stance("force_eager"):
        yield


def _is_opaque(module: nn.Module) -> bool:
    """Return True if a module is scripted, or compiled by ``torch.compile`` or in place."""
    in_place = getattr(module, "_compiled_call_impl", None) is not None
    return in_place or uncompiled(module) is not module or isinstance(module, torch.jit.ScriptModule)


def check_shaped(module: nn.Module, name: str) -> None:
    """Raise ValueError if a lazy layer has not seen a batch yet, and so its parameters have no shape."""
    for place, part in module.named_modules():
        if any(map(is_lazy, (*part.parameters(recurse=False), *part.buffers(recurse=False)))):
            where = f" at {place!r}" if place else ""
            raise ValueError(
                f"`{name}` must have parameters with a shape; got a {type(part).__name__}{where}: run a batch through "
                "the network first."
            )


def copy_state(module: nn.Module) -> dict[str, Any]:
    """Return a copy of the state dict."""
    state = module.state_dict()
    return {k: v.detach().clone() if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in state.items()}


def all_finite(module: nn.Module) -> bool:
    """Return True if all parameters are finite, as far as they are on this process."""
    parts = [local_part(p.detach()) for p in module.parameters()]
    return bool(torch.stack([part.isfinite().all() for part in parts]).all())
