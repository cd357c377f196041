"""Checkpoints: one safetensors file with JSON and a checksum in its header, written atomically, without pickle."""

import json
import os
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from counterpoint._files import is_sealed, keep_previous, open_regular, replacing, seal
from counterpoint._validation import check_path

__all__ = ["load_checkpoint", "load_latest", "restore_rng_state", "rng_state", "save_checkpoint"]

# Entries of the file's metadata.
_STATE, _VERSION, _CHECKSUM = "counterpoint", "version", "sha256"
VERSION = 2
# What the readers of JSON and of tensors raise for content that does not fit.
_DAMAGE = (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)
_LARGEST_HEADER = 100_000_000  # bytes, as in safetensors


class DamagedCheckpointError(ValueError):
    """Raised for a file that is no whole checkpoint."""


def save_checkpoint(
    path: str | os.PathLike[str], state: Mapping[str, Any], *, previous: bool = False
) -> None:
    """Write a state to a file atomically.

    Parameters
    ----------
    path : path
        The file; missing folders are created.
    state : mapping
        Nested mappings, lists and tuples of tensors, numbers, strings, booleans and None, such as the ``state_dict()``
        of modules, optimizers and schedulers.
    previous : bool, default=False
        Keep the file that is replaced, as ``path`` with ``.previous`` after its name.

    Notes
    -----
    The tensors make up a safetensors file. The rest is JSON in its header, with the version of the format and the
    SHA-256 of the file, computed with zeros in its own place. The file is written beside the target, flushed to the
    disk and renamed, so that a process killed at any moment leaves the old file or the new one.

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
    text = json.dumps(_pack(state, "", tensors))
    content = save(tensors, metadata={_STATE: text, _VERSION: str(VERSION), _CHECKSUM: "0" * 64})
    with replacing(path) as file:
        file.write(seal(content))
        if previous:
            file.flush()
            keep_previous(path, _previous(path))


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state that :func:`save_checkpoint` wrote, with tensors on the CPU.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If it is another file, is damaged, or has a format that this version does not know. No code of a file is run.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> save_checkpoint(file, {"betas": (0.9, 0.99), 7: torch.ones(2)})
    >>> load_checkpoint(file)
    {'betas': (0.9, 0.99), 7: tensor([1., 1.])}
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = check_path(path, "path")
    with open_regular(path) as file:
        metadata, content = _read(path, file)
    try:
        state = _unpack(json.loads(metadata[_STATE]), load(content))
    except (SafetensorError, *_DAMAGE):
        raise _damaged(path) from None
    if not isinstance(state, dict):
        raise _damaged(path)
    return state


def load_latest(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bool]:
    """Return the state of a checkpoint and True, or of the previous one, with a warning, and False if it is damaged."""
    try:
        return load_checkpoint(path), True
    except DamagedCheckpointError as error:
        try:
            state = load_checkpoint(_previous(check_path(path, "path")))
        except (ValueError, OSError):
            raise error from None
        warnings.warn(f"{error} The one before was used.", stacklevel=6)  # at fit's call
        return state, False


def _previous(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(f"{path.name}.previous")


def _read(path: Path, file: BinaryIO) -> tuple[dict[str, str], bytes]:
    """Return the metadata and all bytes of a checkpoint, after a look at its header and its checksum."""
    size = os.fstat(file.fileno()).st_size
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 0 < length <= min(size - 8, _LARGEST_HEADER):
        raise _damaged(path)
    head += file.read(length)
    try:
        header = json.loads(head[8:])
        metadata = header.pop("__metadata__", {})
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except _DAMAGE:
        raise _damaged(path) from None
    if not isinstance(metadata, dict) or not {_STATE, _VERSION} & metadata.keys():
        raise ValueError(f"`path` must be a checkpoint of counterpoint; got another file, {str(path)!r}.")
    if 8 + length + end != size:  # before the rest is read
        raise _damaged(path)
    content = head + file.read()
    if not is_sealed(content):
        raise _damaged(path)
    if metadata.get(_VERSION) != str(VERSION):
        raise ValueError(
            f"`path` must be a checkpoint of format {VERSION}; got {str(path)!r}, of format "
            f"{metadata.get(_VERSION)}. A newer counterpoint wrote it: pip install -U counterpoint."
        )
    return metadata, content


def _damaged(path: Path) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"`path` must be a checkpoint; got {str(path)!r}, which is damaged or something else."
    )


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
