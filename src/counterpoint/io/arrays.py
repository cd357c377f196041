"""NPZ with ``y_true``, ``outputs`` and optional ``labels`` and ``learners``; NPY with the outputs alone."""

import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from counterpoint._files import open_regular
from counterpoint._validation import short
from counterpoint.io.limits import check_unpacked
from counterpoint.io.names import choose_learners, did_you_mean, listed, truth_hint

__all__ = ["read_arrays"]

Array = NDArray[Any]

_ROLES = ("outputs", "labels", "learners")
_MAGIC = b"\x93NUMPY"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_MOST_LEARNERS = 2**20  # each of which gets a name
_LAST_LETTER = 0x10FFFF  # of Unicode


def read_arrays(
    path: Path, truth: str | None, learners: Sequence[str], drop: Sequence[str]
) -> dict[str, Any]:
    """Return the fields of the predictions in an NPY or NPZ file."""
    archive = path.suffix.lower() == ".npz"
    found = _load_archive(path, truth) if archive else {"outputs": _load_array(path)}
    if truth is not None and truth.endswith(".npy"):
        found["y_true"] = _load_array(Path(truth))
    elif truth is not None and not archive:
        raise ValueError(f"`truth` must name a .npy file, because {path} holds outputs alone; got {truth!r}.")
    outputs = found["outputs"]
    if outputs.ndim not in (2, 3):
        raise ValueError(
            f"{path}: `outputs` must have axes (n_learners, n_samples) for labels or (n_learners, n_samples, "
            f"n_classes) for probabilities; got shape {outputs.shape}."
        )
    if len(outputs) > _MOST_LEARNERS:
        raise ValueError(
            f"{path}: `outputs` must have at most {_MOST_LEARNERS} learners, on its first axis; got shape "
            f"{outputs.shape}."
        )
    names = _learner_names(path, found.get("learners"), len(outputs))
    kept = choose_learners(names, learners, drop, f"learners of {path}")
    if kept != names:
        place = {name: index for index, name in enumerate(names)}
        outputs = outputs[[place[name] for name in kept]]
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
    with open_regular(path) as file, _open_archive(path, file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        for stored in needed.values():
            if stored not in names:
                others = [name for name in names if name not in _ROLES]
                hint = truth_hint(stored, others) if stored == truth else did_you_mean(stored, names)
                raise ValueError(f"{path} must hold an array {short(stored)}; got {listed(names)}.{hint}")
        more = {name: name for name in _ROLES[1:] if name in names and name != truth}
        found = {name: _read_array(path, archive, stored) for name, stored in (needed | more).items()}
        if truth is None and found["outputs"].ndim == 3 and "labels" not in found and "y_true" in names:
            found["labels"] = np.unique(_read_array(path, archive, "y_true"))
        return found


def _open_archive(path: Path, file: BinaryIO) -> zipfile.ZipFile:
    if _starts_with(file, _MAGIC):
        raise ValueError(f"{path} must be an NPZ archive; got a single array.")
    try:
        return zipfile.ZipFile(file)
    except Exception:  # a damaged archive may raise anything
        raise ValueError(f"{path} must be an NPZ archive; it is damaged or something else.") from None


def _read_array(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    what = f"{path}: `{name[:80]}`"
    size = path.stat().st_size
    try:
        stored = name if name in archive.namelist() else f"{name}.npy"
        n_bytes = archive.getinfo(stored).file_size
        with archive.open(stored) as file:
            declared = _declared(what, file)
    except _NotPlainError:
        raise
    except Exception:
        raise _damaged(what) from None
    check_unpacked(path, max(n_bytes, declared), size)
    try:
        if declared > n_bytes:  # before NumPy makes room for it
            raise ValueError("too short")
        with archive.open(stored) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except Exception:  # a damaged array may raise anything, of NumPy, zipfile or zlib
        raise _damaged(what) from None
    return _decode(what, array)


def _load_array(path: Path) -> Array:
    """Return an array, memory-mapped."""
    with open_regular(path) as file:
        if not _starts_with(file, _MAGIC):
            raise ValueError(f"{path} must hold a NumPy array; it is damaged or something else.")
        try:
            _declared(str(path), file)
            array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        except _NotPlainError:
            raise
        except Exception:  # as above
            raise _damaged(str(path)) from None
    return _decode(str(path), array)


def _starts_with(file: BinaryIO, magic: bytes) -> bool:
    head = file.read(len(magic))
    file.seek(0)
    return head == magic


class _NotPlainError(ValueError):
    """Raised for an array of something else than numbers or strings."""


def _declared(what: str, file: Any) -> int:
    """Return the number of bytes that the header of an array declares."""
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    if dtype.hasobject:
        raise _NotPlainError(
            f"{what} must hold numbers or strings; got Python objects, which are not read because unpickling "
            "can run any code (before saving, turn them into strings with .astype(str))."
        )
    if dtype.kind not in "biufSU":
        raise _NotPlainError(f"{what} must hold numbers or strings; got dtype {str(dtype)[:80]}.")
    total = int(dtype.itemsize)
    for length in shape:
        total *= int(length)
    if total < 0:
        raise ValueError("a negative length")
    if total == 0:  # an axis of a billion may stand beside one of 0
        raise _NotPlainError(f"{what} must hold numbers or strings; it is empty, of shape {str(shape)[:80]}.")
    return total


def _damaged(what: str) -> ValueError:
    return ValueError(f"{what} must be a whole array; it is damaged.")


def _decode(what: str, array: Array) -> Array:
    """Return bytes as text; raise ValueError if they are not UTF-8, or text is not Unicode."""
    if array.dtype.kind == "S":
        try:
            return np.char.decode(np.asarray(array), "utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{what} must hold bytes that are UTF-8; it holds others.") from None
    if array.dtype.kind == "U" and array.size:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        letters = native.reshape(-1).view(np.uint32)
        if letters.size and int(letters.max()) > _LAST_LETTER:
            raise _damaged(what)
    return array


def _learner_names(path: Path, stored: Array | None, n_learners: int) -> list[str]:
    if stored is None:
        return [f"L{i + 1}" for i in range(n_learners)]
    names = [str(name) for name in stored.ravel()]
    if len(names) != n_learners:
        raise ValueError(
            f"{path}: `learners` must name the {n_learners} learners of `outputs`; got {len(names)} names."
        )
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"{path}: `learners` must be distinct; got {short(twice)} twice.")
    return names
