"""Votes and truths as positions among the classes, where some of both may be missing."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.outputs.missing import split_missing
from counterpoint.outputs.outputs import Outputs, as_array, label_codes


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

    Examples
    --------
    >>> from counterpoint.outputs import code_votes
    >>> code_votes([["yes", "no"], ["no", "no"]]).codes
    array([[1, 0],
           [0, 0]], dtype=int32)
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
    array, missing = split_missing(outputs)
    truth, unknown = (..., None) if y_true is None else split_truth(y_true)
    read = Outputs(array, truth, labels, at_least=at_least, missing=missing)
    codes = read.votes
    if read.probabilities is None and missing is None:
        codes = np.stack([label_codes(row, read.classes) for row in codes])
    known = np.full(read.n_samples, -1) if read.truth_codes is None else read.truth_codes
    if unknown is not None:
        known = np.where(unknown, -1, known)
    return CodedVotes(codes.astype(np.int32), known.astype(np.int32), read.classes)


def split_truth(y_true: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the truth with a label for every sample, and where it is unknown.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, None, NaN or masked where they are unknown.

    Returns
    -------
    truth : ndarray of shape (n_samples,)
        The truth, with any of its labels where it is unknown.
    unknown : ndarray of bool, shape (n_samples,), or None
        Where it is unknown; None if it is known everywhere.

    Examples
    --------
    >>> split_truth(["ham", None])[1]
    array([False,  True])
    """
    if np.ndim(np.ma.getdata(y_true)) != 1:
        return as_array(y_true, "y_true"), None  # left to the check of the shape
    row: Any = list(y_true) if isinstance(y_true, tuple) else y_true
    try:
        truth, unknown = split_missing([row])
    except ValueError:
        raise ValueError(
            "`y_true` must be known for at least one sample; without a truth, pass the outputs alone."
        ) from None
    return truth[0], None if unknown is None else unknown[0]


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
        Probabilities (n_learners, n_samples, 2), NaN where they are missing, or the outputs.

    Examples
    --------
    >>> two_class_probabilities([[0.25, 1.0]], ["no", "yes"]).tolist()
    [[[0.75, 0.25], [0.0, 1.0]]]
    """
    array = np.ma.getdata(outputs) if np.ma.is_masked(outputs) else as_array(outputs)
    if array.ndim != 2 or array.dtype.kind != "f":
        return outputs
    if np.ma.is_masked(outputs):
        array = np.where(np.ma.getmaskarray(outputs), np.nan, array)
    # Comparisons with NaN are false.
    if not any((row % 1 > 0).any() for row in array) or any(((row < 0) | (row > 1)).any() for row in array):
        return outputs
    n_classes = len(set(np.asarray(y_true if labels is None else labels).tolist()))
    if n_classes != 2:
        raise ValueError(
            "`outputs` must hold labels, or a probability for each class where there are not two classes; got "
            f"probabilities (n_learners, n_samples) and {n_classes} classes."
        )
    return np.stack([1 - array, array], axis=2)
