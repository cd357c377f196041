"""Weights of pretrained networks: found, read and loaded, or refused with the tensor that does not fit."""

import os
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from counterpoint._extras import import_extra

__all__ = ["check_weights", "load_weights"]

# torchvision's files of DenseNet write "norm.1" for what the network has called "norm1" since.
_OLD_NAME = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")

# The heads that GoogLeNet had for training alone.
_AUXILIARY = ("aux1.", "aux2.")

# Batch normalisation counts its batches and makes no use of the number here, which 16 bits may not hold.
_COUNT = "num_batches_tracked"


def check_weights(weights: Any) -> None:
    """Refuse anything but a path; an empty one would mean the current folder."""
    rule = "`weights` must be None, 'imagenet' or the path of a safetensors file or folder"
    if weights is not None and not isinstance(weights, str | os.PathLike):
        raise TypeError(f"{rule}; got {type(weights).__name__}.")
    if weights == "":
        raise ValueError(f"{rule}; got ''.")


def load_weights(net: nn.Module, name: str, head: str, weights: str | os.PathLike[str]) -> None:
    """Load the weights of a file, folder or download into a network, except for its head.

    Parameters
    ----------
    net : Module
        Changed in place; whole parts that the file lacks keep their values, as do batch counts.
    name : str
        Name of the network.
    head : str
        The part that is not loaded.
    weights : path, or "imagenet"
        As for :func:`~counterpoint.vision.backbone`.
    """
    if weights == "imagenet":
        tensors, origin = _download(name), "torchvision's download"
    else:
        path = _find(name, weights)
        tensors, origin = _read(path), f"'{path}'"
    left_out = (f"{head}.", *(_AUXILIARY if name == "googlenet" else ()))
    own, given = (
        {key: value for key, value in found.items() if not (key.startswith(left_out) or key.endswith(_COUNT))}
        for found in (net.state_dict(), tensors)
    )
    given = {_OLD_NAME.sub(r"\1\2", key): value for key, value in given.items()}
    if trouble := _mismatch(given, own):
        raise ValueError(f"`weights` must be those of {name!r}; got {origin}, {trouble}.")
    net.load_state_dict(given, strict=False)
    if missing := _parts(own) - _parts(given):
        listed = ", ".join(part for part, _ in net.named_children() if part in missing)
        warnings.warn(
            f"The weights of {name!r} from {origin} have no part {listed}, which starts from random values.",
            UserWarning,
            stacklevel=3,  # where backbone was called
        )


def _mismatch(given: dict[str, Tensor], own: dict[str, Tensor]) -> str | None:
    """Return the first mismatch, with its tensor."""
    if not given:
        return "which holds none of its tensors"
    if strangers := given.keys() - own.keys():
        return f"which holds {min(strangers)!r}, a tensor that it does not have"
    begun = _parts(given)
    for key, value in own.items():
        if key not in given and key.partition(".")[0] in begun:
            return f"which lacks {key!r}"
        if key in given and given[key].shape != value.shape:
            return f"whose {key!r} has the shape {tuple(given[key].shape)} in place of {tuple(value.shape)}"
        if key in given and value.is_floating_point() and not given[key].is_floating_point():
            return f"whose {key!r} is of {given[key].dtype} in place of {value.dtype}"
        if key in given and value.is_floating_point() and not torch.isfinite(given[key].float()).all():
            return f"whose {key!r} is not finite throughout"
        if key in given and key.endswith("running_var") and (given[key] < 0).any():
            return f"whose {key!r} is negative"
    return None


def _parts(tensors: dict[str, Tensor]) -> set[str]:
    return {key.partition(".")[0] for key in tensors}


def _find(name: str, weights: str | os.PathLike[str]) -> Path:
    """Return the file of a network."""
    path = Path(weights).expanduser()
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(
            f"`weights` must be 'imagenet' or the path of a file or folder that exists; got '{path}'."
        )
    for file in (path / f"{name}.safetensors", path / f"{name}_backbone.safetensors"):
        if file.is_file():
            return file
    raise FileNotFoundError(f"`weights` must be a folder that holds '{name}.safetensors'; got '{path}'.")


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"`weights` must be a safetensors file; got '{path}', and reading it failed: {error}."
        ) from error


def _download(name: str) -> dict[str, Tensor]:
    models = import_extra("torchvision.models", "vision")
    try:
        tensors: dict[str, Tensor] = models.get_model_weights(name).DEFAULT.get_state_dict(check_hash=True)
    except (OSError, RuntimeError) as error:  # no connection; a file of another hash
        raise ConnectionError(
            f"The weights of {name!r} could not be downloaded ({error}); pass as `weights` the path of a "
            f"folder that holds '{name}.safetensors'."
        ) from error
    return tensors
