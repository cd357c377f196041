"""What a checkpoint and a run must have in common for the run to resume from it."""

import os
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from counterpoint.training.callbacks import State

__all__ = ["check_identity", "run_identity"]


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
    return {
        # The read-out of an earlier run does not belong to this one.
        "tensors": {
            name: _text(value)
            for name, value in state.ensemble.state_dict().items()
            if "readout." not in name
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
    for part, mine in own.items():
        if (difference := _difference(found.get(part), mine)) is not None:
            what = "architecture" if part == "tensors" else part
            raise ValueError(
                f"`checkpoint` must be of the same {what} ({difference}); got {os.fspath(path)!r}. "
                "Remove the file to start a new run."
            )


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
