"""Checkpoints: one safetensors file with JSON in its header, written atomically, without pickle."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from counterpoint._files import replacing
from counterpoint._validation import check_path

__all__ = ["load_checkpoint", "restore_rng_state", "rng_state", "save_checkpoint"]

_HEADER = "counterpoint"


def save_checkpoint(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state to a file atomically.

    Parameters
    ----------
    path : path
        The file; missing folders are created.
    state : mapping
        Nested mappings, lists and tuples of tensors, numbers, strings, booleans and None, such as the ``state_dict()``
        of modules, optimizers and schedulers.

    Notes
    -----
    The tensors make up a safetensors file, the rest is JSON in its header. It is written beside the target, flushed to
    the disk and renamed, so that a process killed at any moment leaves the old file or the new one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> save_checkpoint(file, {"epoch": 3, "model": torch.nn.Linear(2, 1).state_dict()})
    >>> loaded = load_checkpoint(file)
    >>> loaded["epoch"], loaded["model"]["weight"].shape
    (3, torch.Size([1, 2]))
    """
    from safetensors.torch import save

    path = check_path(path, "path")
    if not isinstance(state, Mapping):
        raise TypeError(f"`state` must be a mapping; got {type(state).__name__}.")
    tensors: dict[str, Tensor] = {}
    header = json.dumps(_pack(state, "", tensors))
    with replacing(path) as file:
        file.write(save(tensors, metadata={_HEADER: header}))


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state that :func:`save_checkpoint` wrote, with tensors on the CPU.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> save_checkpoint(file, {"betas": (0.9, 0.99), 7: torch.ones(2)})
    >>> load_checkpoint(file)
    {'betas': (0.9, 0.99), 7: tensor([1., 1.])}
    """
    from safetensors import SafetensorError, safe_open

    path = check_path(path, "path")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(_HEADER)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise ValueError(f"`path` must be a checkpoint; got {str(path)!r} ({error}).") from error
    if header is None:
        raise ValueError(f"`path` must be a checkpoint of counterpoint; got another file, {str(path)!r}.")
    state: dict[str, Any] = _unpack(json.loads(header), tensors)
    return state


def rng_state(device: torch.device, generators: Iterable[torch.Generator] = ()) -> dict[str, Any]:
    """Return the states of the random generators of torch, NumPy and Python, and of those given."""
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - user code may draw from it
    assert isinstance(numpy_state, dict)
    numpy_state["state"] = {**numpy_state["state"], "key": numpy_state["state"]["key"].tolist()}
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": numpy_state,
        "python": random.getstate(),
        "generators": [generator.get_state() for generator in generators],
    }


def restore_rng_state(
    state: Mapping[str, Any], device: torch.device, generators: Iterable[torch.Generator] = ()
) -> None:
    """Restore the generators to what :func:`rng_state` returned."""
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)
    inner = state["numpy"]["state"]
    key = np.asarray(inner["key"], dtype=np.uint32)
    np.random.set_state({**state["numpy"], "state": {**inner, "key": key}})  # noqa: NPY002
    random.setstate(state["python"])
    for generator, saved in zip(generators, state["generators"], strict=True):
        generator.set_state(saved)


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return the value as JSON, with its tensors collected under names."""
    if isinstance(value, Tensor):
        while name in tensors:  # "a.b" beside "b" of "a"
            name += "'"
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {
            "kind": "tensor",
            "name": name,
            "channels_last": value.dim() == 4 and not value.is_contiguous(),
        }
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        entries = [_pack(entry, f"{name}.{i}", tensors) for i, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"kind": "tuple", "entries": entries}
    if isinstance(value, Mapping):
        pairs = [
            [_pack(key, name, tensors), _pack(entry, f"{name}.{key}".lstrip("."), tensors)]
            for key, entry in value.items()
        ]
        if all(isinstance(key, str) for key in value) and "kind" not in value:
            return dict(pairs)
        return {"kind": "counter" if isinstance(value, Counter) else "mapping", "entries": pairs}
    raise TypeError(
        f"`state` must hold tensors, numbers, strings, None, and mappings, lists and tuples of them; "
        f"got {value!r} at {name!r}."
    )


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    if kind is None:
        return {key: _unpack(entry, tensors) for key, entry in value.items()}
    if kind == "tensor":
        tensor = tensors[value["name"]]
        return tensor.contiguous(memory_format=torch.channels_last) if value["channels_last"] else tensor
    entries = _unpack(value["entries"], tensors)
    if kind == "tuple":
        return tuple(entries)
    return Counter(dict(entries)) if kind == "counter" else dict(entries)
