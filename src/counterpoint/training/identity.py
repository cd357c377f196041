"""What a checkpoint and a run must have in common for the run to resume from it."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from counterpoint._validation import find_fault
from counterpoint.training.callbacks import State
from counterpoint.training.modules import bare_name, unwrap
from counterpoint.training.sharding import unsharded_name

__all__ = ["check_identity", "restoring", "run_identity"]

# What the checkpoint of a run holds at least.
_SCHEMA = {
    "identity": dict,
    "ensemble": dict,
    "best": dict,
    "loss": dict,
    "optimizer": {"state": dict, "groups": list},
    "scheduler": (dict, type(None)),
    "history": {"best_epoch": (int, type(None)), "epochs": [dict]},
    "readout": (dict, type(None)),
    "watch": {"followed": (list, bool), "opposed": (list, int), "named": [int]},
    "stop": bool,
    "random": {"torch": Tensor, "cuda": (Tensor, type(None)), "numpy": dict, "generators": [Tensor]},
}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run_identity(state: State) -> dict[str, Any]:
    """Return what distinguishes one run from another, as text."""
    groups = [
        # A scheduler changes `lr` and keeps its first value as `initial_lr`.
        {
            key: repr(value)
            for key, value in group.items()
            if key != "params" and not (key == "lr" and "initial_lr" in group)
        }
        for group in state.optimizer.param_groups
    ]
    ensemble = unwrap(state.ensemble)
    return {
        # The read-out of an earlier run does not belong to this one.
        "tensors": {
            name: _text(value) for name, value in ensemble.state_dict().items() if "readout." not in name
        },
        "layers": {
            bare_name(name): _ADDRESS.sub("", f"{unsharded_name(module)}({module.extra_repr()})")
            for name, module in ensemble.named_modules()
            if name and name != "readout"  # a compiled part comes after its wrapper, in its place
        },
        "loss": _loss_text(state.loss),
        "optimizer": {
            "kind": type(state.optimizer).__name__,
            **{str(i): group for i, group in enumerate(groups)},
        },
        "scheduler": type(state.scheduler).__name__,
    }


def check_identity(saved: Mapping[str, Any], own: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse the checkpoint of another run."""
    found = saved.get("identity")
    if not isinstance(found, Mapping):
        raise ValueError(f"`checkpoint` must be of a training run; got another file, {os.fspath(path)!r}.")
    if fault := find_fault(saved, _SCHEMA):
        raise ValueError(
            f"`checkpoint` must be of a training run; got {os.fspath(path)!r}, in which {fault}."
        )
    for part, mine in own.items():
        if (difference := _difference(found.get(part), mine)) is not None:
            what = "architecture" if part in ("tensors", "layers") else part
            raise ValueError(
                f"`checkpoint` must be of the same {what} ({difference}); got {os.fspath(path)!r}. "
                "Remove the file to start a new run."
            )


@contextmanager
def restoring(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise one sentence for what torch raises if the parts of a checkpoint do not fit the run."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"`checkpoint` must be of a training run like this one; got {os.fspath(path)!r}, which does not fit."
        ) from error


def _loss_text(loss: Any) -> str:
    if isinstance(loss, nn.Module):
        return repr(loss)
    return str(getattr(loss, "__qualname__", type(loss).__name__))


def _difference(saved: Any, own: Any, name: str = "") -> str | None:
    """Return the first difference between nested texts."""
    if isinstance(saved, Mapping) and isinstance(own, Mapping):
        for key in dict.fromkeys((*own, *saved)):
            found = _difference(saved.get(key), own.get(key), f"{name}.{key}".lstrip("."))
            if found is not None:
                return found
        return None
    return None if saved == own else f"{name + ': ' if name else ''}{own} here, {saved} there"


def _text(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.") if isinstance(value, Tensor) else ""
