"""The images of the map and of the ensembles from scratch, and their records: parts that a killed run does not lose."""

import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from counterpoint._plain import plain
from counterpoint.datasets import load_cifar10
from counterpoint.datasets.cifar import Images
from counterpoint.experiments._record import write_record

__all__ = ["join", "keep", "load_images", "part_path"]

DIGITS = 5  # of a number in a record


def load_images(data: Path | None, *, smoke: bool) -> Images:
    """Return CIFAR-10, or for a smoke run a few digits of 8 pixels in three equal colours."""
    if not smoke:
        return load_cifar10(data)
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.images * 15.9).astype(np.uint8)[..., None].repeat(3, axis=3)
    y = digits.target.astype(np.int64)
    return Images(x[:150], y[:150], x[150:250], y[150:250], tuple("0123456789"))


def part_path(folder: Path, name: str) -> Path:
    """Return the file of a part."""
    return folder / f"{name}.json"


def keep(
    folder: Path,
    name: str,
    work: Callable[[], Mapping[str, Any]],
    *,
    title: str,
    config: Mapping[str, Any],
    device: torch.device,
) -> bool:
    """Do the work of a part and write it, unless its file is there with the same config; tell whether it was done.

    What goes wrong in one part becomes a warning, so that the other parts are not lost.
    """
    path = part_path(folder, name)
    if path.exists() and json.loads(path.read_text(encoding="utf-8"))["config"] == plain(config):
        return False
    try:
        found = work()
    except Exception as error:
        warnings.warn(f"part {name} failed: {type(error).__name__}: {error}", stacklevel=2)
        return False
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
    label = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    data = _rounded(plain(found))
    write_record(folder, name, title=title, config=config, data=data, device=label, torch=torch.__version__)
    return True


def join(
    out: Path, name: str, parts: Sequence[Path], *, title: str, config: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Write the parts as one record, each list of numbers on a line, and return its path and what it holds."""
    pieces = [json.loads(path.read_text(encoding="utf-8")) for path in parts]
    path, *_ = write_record(
        out,
        name,
        title=title,
        config=config,
        device=sorted({piece["device"] for piece in pieces}),
        torch=sorted({piece["torch"] for piece in pieces}),
        data={piece["name"]: {key: piece[key] for key in ("config", "data")} for piece in pieces},
    )
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(_laid_out(record) + "\n", encoding="utf-8")
    return path, record


def _laid_out(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each entry of an object, and each list on one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value, allow_nan=False)
    inner = " " * (indent + 1)
    entries = (f"{inner}{json.dumps(key)}: {_laid_out(entry, indent + 1)}" for key, entry in value.items())
    return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return round(value, DIGITS) if isinstance(value, float) else value
