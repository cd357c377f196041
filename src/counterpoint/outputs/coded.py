"""Votes as numbers of classes, where some learners did not vote.

A vote is missing where an array is masked, NaN or None. Its code is -1, as is that of an unknown truth.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import check_labels, check_probabilities
from counterpoint.outputs.outputs import as_array, check_classes, column_classes


class CodedVotes(NamedTuple):
    """Votes and truth as positions among the classes, -1 where there is none.

    Attributes
    ----------
    codes : ndarray of int32, shape (n_learners, n_samples)
        The class each learner votes for.
    truth : ndarray of int32, shape (n_samples,)
        The true classes.
    classes : ndarray of shape (n_classes,)
        The labels.
    """

    codes: NDArray[np.int32]
    truth: NDArray[np.int32]
    classes: NDArray[Any]


def code_votes(
    outputs: ArrayLike,
    y_true: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    at_least: int = 2,
) -> CodedVotes:
    """Return votes as positions among the classes.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote; None, NaN or masked where there is none.
    y_true : array-like of shape (n_samples,), optional
        The true labels, None, NaN or masked where they are unknown; by default everywhere.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the labels that occur, sorted.
    at_least : int, default=2
        The smallest number of learners that is accepted.

    Returns
    -------
    CodedVotes
        The codes and the classes.

    Examples
    --------
    >>> votes = code_votes([["ham", "spam", None], ["ham", "ham", "spam"]], [None, "spam", None])
    >>> votes.codes.tolist(), votes.truth.tolist(), votes.classes.tolist()
    ([[0, 1, -1], [0, 0, 1]], [-1, 1, -1], ['ham', 'spam'])
    """
    array, blank = split_missing(outputs, "outputs")
    if array.ndim not in (2, 3):
        raise ValueError(
            "`outputs` must have axes (n_learners, n_samples) for labels or (n_learners, "
            f"n_samples, n_classes) for probabilities; got shape {array.shape}."
        )
    if len(array) < at_least:
        raise ValueError(
            f"`outputs` must hold at least {at_least} learners, on its first axis; got {len(array)}."
        )
    known = None if y_true is None else _truth(y_true, array)
    given = None if labels is None else check_classes(labels, known and known[0])
    if array.ndim == 3:
        votes = _most_probable(array, blank)
        classes = column_classes(array.shape[2], given, _present(known), "outputs")
    else:
        votes, classes = _labels(array, blank, known, given)
    truth = np.full(array.shape[1], -1, np.int32) if known is None else _codes(*known, classes, "y_true")
    return CodedVotes(votes, truth, classes)


def split_missing(values: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return an array and where its entries are missing: masked, NaN or None.

    Parameters
    ----------
    values : array-like
        Labels or numbers.
    name : str
        The argument, for the error message.

    Returns
    -------
    array : ndarray
        The values, in which a missing one is replaced by one of the others.
    missing : ndarray of bool
        Where a value is missing.

    Examples
    --------
    >>> array, missing = split_missing([1.0, float("nan"), 3.0], "outputs")
    >>> array.tolist(), missing.tolist()
    ([1.0, 1.0, 3.0], [False, True, False])
    """
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    array = as_array(values if mask is None else np.ma.getdata(values), name)
    if array.dtype.kind == "T":
        array = array.astype(object)
    missing: NDArray[np.bool_] = np.zeros(array.shape, dtype=bool) if mask is None else mask
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype.kind == "O":
        absent = np.fromiter(map(_is_absent, array.flat), dtype=bool, count=array.size)
        missing = missing | absent.reshape(array.shape)
    if not missing.any():
        return array, missing
    if missing.all():
        raise ValueError(f"`{name}` must not be missing everywhere; got {missing.size} missing entries.")
    return np.where(missing, array[~missing][0], array), missing


def two_class_probabilities(outputs: Any, y_true: ArrayLike, labels: ArrayLike | None = None) -> Any:
    """Return probabilities of one of two classes as probabilities of both; other outputs as they are.

    Parameters
    ----------
    outputs : array-like
        Outputs of learners. With two axes and fractions between 0 and 1 they are probabilities of the second class.
    y_true : array-like of shape (n_samples,)
        The true labels.
    labels : array-like of shape (n_classes,), optional
        The classes; by default the sorted labels of ``y_true``.

    Returns
    -------
    array-like
        Probabilities (n_learners, n_samples, 2), or the outputs.

    Examples
    --------
    >>> two_class_probabilities([[0.25, 1.0]], ["no", "yes"]).tolist()
    [[[0.75, 0.25], [0.0, 1.0]]]
    """
    if np.ma.is_masked(outputs):
        return outputs
    array = as_array(outputs)
    if array.ndim != 2 or array.dtype.kind != "f" or not any((row % 1 != 0).any() for row in array):
        return outputs
    if not all(((row >= 0) & (row <= 1)).all() for row in array):
        return outputs
    n_classes = len(set(np.asarray(y_true if labels is None else labels).tolist()))
    if n_classes != 2:
        raise ValueError(
            "`outputs` must hold labels, or a probability for each class where there are not two classes; got "
            f"probabilities (n_learners, n_samples) and {n_classes} classes."
        )
    return np.stack([1 - array, array], axis=2)


def _is_absent(value: Any) -> bool:
    # The last is pandas' own, which refuses to be compared.
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _truth(y_true: ArrayLike, outputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    truth, unknown = split_missing(y_true, "y_true")
    truth = check_labels(truth, "y_true")
    if truth.ndim != 1:
        raise ValueError(f"`y_true` must have one axis, the samples; got shape {truth.shape}.")
    if len(truth) != outputs.shape[1]:
        raise ValueError(
            f"`outputs` must have {len(truth)} samples, as `y_true`, on its second axis "
            f"(learners are the first axis); got shape {outputs.shape}."
        )
    return truth, unknown


def _present(known: tuple[NDArray[Any], NDArray[np.bool_]] | None) -> NDArray[Any] | None:
    return None if known is None else known[0][~known[1]]


def _most_probable(array: NDArray[Any], blank: NDArray[np.bool_]) -> NDArray[np.int32]:
    missing: NDArray[np.bool_] = np.any(blank, axis=2)
    if missing.any():
        array = np.where(missing[:, :, None], 1 / array.shape[2], array)
    proba = check_probabilities(array, "outputs")
    return np.where(missing, -1, proba.argmax(axis=2)).astype(np.int32)


def _labels(
    array: NDArray[Any],
    blank: NDArray[np.bool_],
    known: tuple[NDArray[Any], NDArray[np.bool_]] | None,
    given: NDArray[Any] | None,
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    votes, truth = check_labels(array, "outputs"), _present(known)
    if truth is not None and (truth.dtype.kind == "U") != (votes.dtype.kind == "U"):
        kinds = ["strings" if one.dtype.kind == "U" else "numbers" for one in (truth, votes)]
        raise TypeError(f"`outputs` must hold labels of the kind of `y_true`, {kinds[0]}; got {kinds[1]}.")
    if given is None:
        parts = [np.unique(row) for row in votes] + ([] if truth is None else [truth])
        given = np.unique(np.concatenate(parts))
    return _codes(votes, blank, given, "outputs"), given


def _codes(
    values: NDArray[Any], missing: NDArray[np.bool_], classes: NDArray[Any], name: str
) -> NDArray[np.int32]:
    order = np.argsort(classes)
    place = np.minimum(np.searchsorted(classes, values, sorter=order), len(order) - 1)
    codes = order[place]
    if (strange := (classes[codes] != values) & ~missing).any():
        at = np.argwhere(strange)[0]
        where = f"sample {at[-1]}" if len(at) == 1 else f"learner {at[0]}, sample {at[1]}"
        raise ValueError(
            f"`labels` must hold every label of `{name}`; got {values[tuple(at)].item()!r} at {where}."
        )
    return np.where(missing, -1, codes).astype(np.int32)
