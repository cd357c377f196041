"""NPZ with ``y_true``, ``outputs`` and optional ``labels`` and ``learners``; NPY with the outputs alone."""

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from counterpoint.io.names import choose_learners, did_you_mean, listed, truth_hint

__all__ = ["read_arrays"]

Array = NDArray[Any]

_ROLES = ("outputs", "labels", "learners")
_MAGIC = b"\x93NUMPY"
# What NumPy raises for a damaged file, and its words for a file that needs pickle.
_DAMAGE = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError)
_OBJECTS = re.compile("allow_pickle|Python objects")


def read_arrays(
    path: Path, truth: str | None, learners: Sequence[str], drop: Sequence[str]
) -> dict[str, Any]:
    """Return the fields of the predictions in an NPY or NPZ file."""
    archive = path.suffix.lower() == ".npz"
    found = _load_archive(path, truth) if archive else {"outputs": _decode(_load_array(path))}
    if truth is not None and truth.endswith(".npy"):
        found["y_true"] = _decode(_load_array(Path(truth)))
    elif truth is not None and not archive:
        raise ValueError(f"`truth` must name a .npy file, because {path} holds outputs alone; got {truth!r}.")
    outputs = found["outputs"]
    if outputs.ndim not in (2, 3):
        raise ValueError(
            f"{path}: `outputs` must have axes (n_learners, n_samples) for labels or (n_learners, n_samples, "
            f"n_classes) for probabilities; got shape {outputs.shape}."
        )
    names = _learner_names(path, found.get("learners"), len(outputs))
    kept = choose_learners(names, learners, drop, f"learners of {path}")
    if kept != names:
        outputs = outputs[[names.index(name) for name in kept]]
    return {
        "y_true": found.get("y_true"),
        "outputs": outputs,
        "learners": tuple(kept),
        "labels": found.get("labels"),
    }


def _load_archive(path: Path, truth: str | None) -> dict[str, Array]:
    """Return the arrays of an archive by their role; the truth may be in a file of its own, or not be wanted."""
    needed = {"outputs": "outputs"}
    if truth is not None and not truth.endswith(".npy"):
        needed["y_true"] = truth
    with path.open("rb") as file, _open_archive(path, file) as archive:
        for stored in needed.values():
            if stored not in archive.files:
                others = [name for name in archive.files if name not in _ROLES]
                hint = truth_hint(stored, others) if stored == truth else did_you_mean(stored, archive.files)
                raise ValueError(f"{path} must hold an array {stored!r}; got {listed(archive.files)}.{hint}")
        more = {name: name for name in _ROLES[1:] if name in archive.files and name != truth}
        found = {name: _read_array(path, archive, stored) for name, stored in (needed | more).items()}
        if (
            truth is None
            and found["outputs"].ndim == 3
            and "labels" not in found
            and "y_true" in archive.files
        ):
            found["labels"] = np.unique(_read_array(path, archive, "y_true"))
        return found


def _open_archive(path: Path, file: BinaryIO) -> Any:
    if _starts_with(path, _MAGIC):
        raise ValueError(f"{path} must be an NPZ archive; got a single array.")
    try:
        return np.load(file, allow_pickle=False)
    except _DAMAGE:
        raise ValueError(f"{path} must be an NPZ archive; it is damaged or something else.") from None


def _read_array(path: Path, archive: Any, name: str) -> Array:
    try:
        return _decode(np.asarray(archive[name]))
    except _DAMAGE as error:
        raise ValueError(_describe_damage(f"{path}: `{name}`", error)) from None


def _load_array(path: Path) -> Array:
    """Return an array, memory-mapped."""
    if not _starts_with(path, _MAGIC):
        raise ValueError(f"{path} must hold a NumPy array; it is damaged or something else.")
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        raise ValueError(_describe_damage(str(path), error)) from None
    return array


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _describe_damage(what: str, error: Exception) -> str:
    if not _OBJECTS.search(str(error)):
        return f"{what} must be a whole array; it is damaged."
    return (
        f"{what} must hold numbers or strings; got Python objects, which are not read because unpickling "
        "can run any code (before saving, turn them into strings with .astype(str))."
    )


def _decode(array: Array) -> Array:
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _learner_names(path: Path, stored: Array | None, n_learners: int) -> list[str]:
    if stored is None:
        return [f"L{i + 1}" for i in range(n_learners)]
    names = [str(name) for name in stored.ravel()]
    if len(names) != n_learners:
        raise ValueError(
            f"{path}: `learners` must name the {n_learners} learners of `outputs`; got {len(names)} names."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: `learners` must be distinct; got {twice!r} twice.")
    return names
