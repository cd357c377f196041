"""Predictions of finished jobs, kept beside the records for the methods that combine them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._files import replacing
from counterpoint.arena.tables import OuterFold

__all__ = [
    "Float32Array",
    "Predictions",
    "out_of_fold",
    "predictions_path",
    "read_predictions",
    "write_predictions",
]

Float32Array = NDArray[np.float32]


class Predictions(NamedTuple):
    """The probabilities that a method predicts in an outer fold.

    Attributes
    ----------
    inner : ndarray of shape (n_train, n_classes)
        For each training row, by the model of the inner fold that held it out.
    test : ndarray of shape (n_test, n_classes)
        For each test row, by the method trained on the whole training part.
    """

    inner: Float32Array
    test: Float32Array


def out_of_fold(fold: OuterFold, parts: Sequence[NDArray[np.floating]]) -> Float32Array:
    """Return the probabilities for the test rows of the inner folds in the order of the training rows.

    Examples
    --------
    >>> from counterpoint.arena.tables import Split
    >>> train = np.array([0, 2, 4, 5])
    >>> inner = tuple(Split(np.setdiff1d(train, rows), np.array(rows)) for rows in ([0, 5], [2, 4]))
    >>> fold = OuterFold(Split(train, np.array([1, 3])), inner)
    >>> out_of_fold(fold, [np.array([[0.0], [0.5]]), np.array([[0.2], [0.4]])]).ravel()
    array([0. , 0.2, 0.4, 0.5], dtype=float32)
    """
    proba = np.empty((len(fold.outer.train), parts[0].shape[1]), dtype=np.float32)
    for split, part in zip(fold.inner, parts, strict=True):
        proba[np.searchsorted(fold.outer.train, split.test)] = part
    return proba


def predictions_path(out: Path, name: str) -> Path:
    """Return the path of the predictions of a job."""
    return out / "predictions" / f"{name}.npz"


def write_predictions(out: Path, name: str, folds: Sequence[Predictions]) -> None:
    """Write the predictions of a job, whole or not at all."""
    arrays = {f"{part}-{k}": getattr(fold, part) for k, fold in enumerate(folds) for part in fold._fields}
    with replacing(predictions_path(out, name)) as file:
        np.savez_compressed(file, **arrays)


def read_predictions(out: Path, name: str, n_folds: int) -> list[Predictions]:
    """Return the predictions of a job.

    Raises
    ------
    FileNotFoundError
        If there are none.
    """
    path = predictions_path(out, name)
    if not path.is_file():
        raise FileNotFoundError(
            f"the predictions of {name} are needed, which '{path}' does not hold; run that job, or run it again "
            "after its record has been deleted."
        )
    try:
        with np.load(path) as arrays:
            return [Predictions(arrays[f"inner-{k}"], arrays[f"test-{k}"]) for k in range(n_folds)]
    except Exception:  # a damaged archive may raise anything
        raise ValueError(
            f"'{path}' must hold the predictions of {name}; it is damaged. Run that job again."
        ) from None
