"""Missing outputs: the entries of an array that say that a learner gave no answer.

A label is missing where it is masked, None, NaN, ``pandas.NA`` or a label that means an abstention. A row of
probabilities is missing where all of it is masked or NaN.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.outputs.outputs import as_array


def split_missing(
    outputs: ArrayLike, abstain: Collection[Any] = ()
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return outputs with a valid entry in every place, and where they are missing.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels or probabilities, some of which may be missing.
    abstain : collection of labels, optional
        Labels that mean no answer.

    Returns
    -------
    outputs : ndarray
        The outputs, with any valid entry where one is missing. It is the given array itself if nothing is.
    missing : ndarray of bool, shape (n_learners, n_samples), or None
        Where outputs are missing; None if they are complete.

    Raises
    ------
    ValueError
        If a learner has no output at all.

    Examples
    --------
    >>> votes, missing = split_missing([["ham", None], ["skip", "spam"]], abstain=["skip"])
    >>> missing
    array([[False,  True],
           [ True, False]])
    """
    array = _with_blanks(outputs)
    if array.ndim not in (2, 3) or not array.size:
        return as_array(outputs), None  # left to the check of the shape
    missing = _missing_rows(array) if array.ndim == 3 else _missing_labels(array, set(abstain))
    if missing is None:
        return (array if np.ma.is_masked(outputs) else as_array(outputs)), None
    if (empty := missing.all(axis=1)).any():
        raise ValueError(
            f"`outputs` must hold at least one output of each learner; got none of learner {int(np.argmax(empty))}."
        )
    filled = np.array(np.ma.getdata(array))
    known = np.unravel_index(np.argmin(missing), missing.shape)
    filled[missing] = filled[known]
    return filled if filled.ndim == 3 else _whole(filled), missing


def _whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as such, where NaN among them had made them floats."""
    numbers = labels
    if labels.dtype.kind == "O" and any(isinstance(label, float) for label in labels.flat):
        try:
            numbers = labels.astype(np.float64)
        except (TypeError, ValueError):  # strings among them, which the check of the labels says
            return labels
    whole = numbers.dtype.kind == "f" and bool((numbers == np.round(numbers)).all())
    return numbers.astype(np.int64) if whole else labels


def _with_blanks(outputs: Any) -> NDArray[Any]:
    """Return the outputs as an array in which missing entries are still to be seen."""
    if isinstance(outputs, list | tuple) and any(np.ma.is_masked(row) for row in outputs):
        outputs = np.ma.stack([np.ma.asarray(row) for row in outputs])
    if np.ma.is_masked(outputs):
        masked = np.ma.asarray(outputs)
        return masked if masked.ndim == 2 else np.ma.filled(masked.astype(np.float64), np.nan)
    array = as_array(outputs)
    if array.dtype.kind == "U" and not isinstance(outputs, np.ndarray):
        return np.array(outputs, dtype=object)  # NumPy has turned NaN into a string
    return array


def _missing_labels(array: NDArray[Any], abstain: set[Any]) -> NDArray[np.bool_] | None:
    missing = np.ma.getmaskarray(array).copy() if np.ma.isMaskedArray(array) else None
    for learner, row in enumerate(np.ma.getdata(array)):
        if row.dtype.kind in "OT":
            blank = np.array([_is_missing(entry) or entry in abstain for entry in row], dtype=bool)
        else:
            blank = np.isnan(row) if row.dtype.kind == "f" else np.zeros(len(row), dtype=bool)
            for label in abstain:
                if isinstance(label, str) == (row.dtype.kind == "U"):
                    blank |= row == label
        if blank.any():
            missing = np.zeros(array.shape, dtype=bool) if missing is None else missing
            missing[learner] |= blank
    return missing


def _missing_rows(array: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which rows of probabilities are missing; one that is so in part is left to the check of the values."""
    if array.dtype.kind != "f":
        return None
    missing = np.isnan(array[:, :, 0])
    missing[missing] = np.isnan(array[missing]).all(axis=1)
    return missing if missing.any() else None


def _is_missing(entry: Any) -> bool:
    if entry is None:
        return True
    try:
        return bool(entry != entry)  # NaN and NaT
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True
    except ValueError:  # an array is no label, which the check of the labels says
        return False
