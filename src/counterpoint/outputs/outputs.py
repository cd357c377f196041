"""Outputs beside the truth: checked once, then read in blocks of samples.

Nothing here copies the outputs, so a memory-mapped array larger than memory can be measured.
"""

from collections.abc import Iterator
from functools import cached_property
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import FloatArray, check_labels, check_probabilities, check_unmasked, short

# A learner-by-sample block has at most this many entries: 64 MB as float32, 128 MB as float64.
BLOCK_ENTRIES = 2**24
# Labels within so narrow a range are tested one by one, which is faster than sorting.
_NARROW = 256
# Votes for more classes are counted sample by sample and pair by pair, not class by class.
_MANY_CLASSES = 32


class Outputs:
    """The outputs of an ensemble, with or without the truth.

    Labels (n_learners, n_samples) are votes. A learner with probabilities (n_learners, n_samples, n_classes) votes for
    its most probable class, the first if several tie. ``symbols[k]`` represents class k in ``truth`` and ``votes``: the
    label itself, or k if the outputs are probabilities or some are missing. A missing vote is -1.

    Parameters
    ----------
    outputs : array-like
        Labels or probabilities, learners first.
    y_true : array-like of shape (n_samples,), optional
        The true labels.
    labels : array-like of shape (n_classes,), optional
        All classes, in the order of the columns of probabilities.
    at_least : int, default=1
        The smallest number of learners that is accepted.
    missing : ndarray of bool, shape (n_learners, n_samples), optional
        Where outputs are missing, as from :func:`split_missing`; what ``outputs`` holds there is ignored.

    Attributes
    ----------
    n_learners, n_samples : int
        The sizes.
    probabilities : ndarray of shape (n_learners, n_samples, n_classes) or None
        The probabilities, 0 where missing; None for labels.
    missing : ndarray of bool, shape (n_learners, n_samples), or None
        Where outputs are missing; None if they are complete.

    Examples
    --------
    >>> read = Outputs([["ham", "spam"], ["ham", "ham"]], ["ham", "spam"])
    >>> read.classes.tolist(), read.right(slice(None)).tolist()
    (['ham', 'spam'], [[1.0, 1.0], [1.0, 0.0]])
    """

    def __init__(
        self,
        outputs: ArrayLike,
        y_true: ArrayLike | EllipsisType = ...,  # not None, which is refused as a truth
        labels: ArrayLike | None = None,
        *,
        at_least: int = 1,
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        array = as_array(outputs)
        if array.ndim not in (2, 3):
            raise ValueError(
                "`outputs` must have axes (n_learners, n_samples) for labels or (n_learners, "
                f"n_samples, n_classes) for probabilities; got shape {array.shape}."
            )
        self.missing = missing
        labelled = array.ndim == 2
        self._given = check_labels(array, "outputs") if labelled else check_probabilities(array, "outputs")
        self.probabilities = None if labelled else self._given
        if self.probabilities is not None and missing is not None:
            self.probabilities = np.where(missing[:, :, np.newaxis], 0.0, self.probabilities)
        self.n_learners, self.n_samples = array.shape[:2]
        self._truth = None if isinstance(y_true, EllipsisType) else self._check_truth(y_true, array)
        self._labels = None if labels is None else check_classes(labels, self._truth)
        if self.n_learners < at_least:
            raise ValueError(
                f"`outputs` must hold at least {at_least} learners, on its first axis; got {self.n_learners}."
            )
        if self.probabilities is not None or labels is not None:
            _ = self.classes, self.truth_codes  # wrong labels are refused now, not at first use

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The labels of the classes, in order."""
        return self._voted_classes() if self.probabilities is None else self._column_classes()

    @cached_property
    def symbols(self) -> list[Any]:
        """The value of each class in ``truth`` and ``votes``, as plain Python values."""
        symbols = self.classes.tolist()
        return list(range(len(symbols))) if self._coded else symbols

    @cached_property
    def truth_codes(self) -> NDArray[np.intp] | None:
        """The position of each true label among the classes."""
        return None if self._truth is None else label_codes(self._truth, self.classes)

    @cached_property
    def truth(self) -> NDArray[Any]:
        """The truth, in the symbols and where possible the dtype of the votes."""
        truth = self.truth_codes if self._coded else self._truth
        assert truth is not None
        if truth.dtype.kind in "iu" and self.votes.dtype.kind in "iu":
            narrow = truth.astype(self.votes.dtype)
            if (narrow == truth).all():
                return narrow  # comparing equal dtypes needs no conversion of the votes
        return truth

    @cached_property
    def votes(self) -> NDArray[Any]:
        """The label each learner votes for, in symbols; -1 where it is missing."""
        if not self._coded:
            return self._given
        votes = np.empty((self.n_learners, self.n_samples), dtype=np.int32)
        for learner, rows in enumerate(self._given):
            votes[learner] = label_codes(rows, self.classes) if rows.ndim == 1 else rows.argmax(axis=1)
        if self.missing is not None:
            votes[self.missing] = -1
        return votes

    @property
    def has_many_classes(self) -> bool:
        """Whether there are so many classes that going through them one by one would take long."""
        return len(self.classes) > _MANY_CLASSES

    @cached_property
    def codes(self) -> NDArray[Any]:
        """The position among the classes of the label each learner votes for; -1 where it is missing."""
        kind = np.min_scalar_type(-len(self.classes))
        if self._coded:
            return self.votes.astype(kind)
        codes = np.empty((self.n_learners, self.n_samples), dtype=kind)
        for learner, rows in enumerate(self._given):
            codes[learner] = label_codes(rows, self.classes)
        return codes

    @cached_property
    def compact(self) -> "Outputs":
        """The same votes with few classes, numbered anew on each sample; the outputs themselves if there are few.

        Who votes alike, who is right and which class has most votes stay; what a class is does not. Class 0 is that
        with the lowest code of those that are true or voted for on the sample; ``compact_classes`` holds them.
        """
        if not self.has_many_classes:
            return self
        order, rank = self._ranks
        rank = np.where(order < 0, -1, rank)
        truth = ... if self._truth is None else rank[-1]
        votes = rank if self._truth is None else rank[:-1]
        classes = np.arange(int(rank.max()) + 1)
        missing = None if self.missing is None else votes < 0
        return Outputs(np.where(votes < 0, 0, votes), truth, classes, missing=missing)

    @cached_property
    def compact_classes(self) -> NDArray[Any]:
        """The codes of the classes of ``compact``, (n_classes of it, n_samples); -1 where a sample has fewer."""
        codes, rank = self._ranks
        table = np.full((int(rank.max()) + 1, self.n_samples), -1, dtype=codes.dtype)
        known = codes >= 0
        table[rank[known], np.nonzero(known)[1]] = codes[known]
        return table

    @property
    def _ranks(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the codes of votes and truth, and their ranks among those of the sample, both (N + 1, n)."""
        codes = self.codes
        if self.truth_codes is not None:
            codes = np.vstack([codes, self.truth_codes[None].astype(codes.dtype)])
        order = np.argsort(codes, axis=0, kind="stable")
        ordered = np.take_along_axis(codes, order, axis=0)
        new = np.zeros(codes.shape, dtype=np.int32)
        new[1:] = (ordered[1:] != ordered[:-1]) & (ordered[:-1] >= 0)
        rank = np.empty_like(new)
        np.put_along_axis(rank, order, new.cumsum(axis=0, dtype=np.int32), axis=0)
        return codes, rank

    @property
    def _coded(self) -> bool:
        """Whether votes are the positions of their classes."""
        return self.probabilities is not None or self.missing is not None

    def blocks(self) -> Iterator[slice]:
        """Yield slices of samples, each of bounded memory."""
        width = max(1, min(BLOCK_ENTRIES // self.n_learners, 2**20))
        for start in range(0, self.n_samples, width):
            yield slice(start, min(start + width, self.n_samples))

    def take(self, samples: slice | NDArray[np.intp]) -> "Outputs":
        """Return the outputs for some of the samples; for a slice as a view."""
        truth = ... if self._truth is None else self._truth[samples]
        missing = None if self.missing is None else self.missing[:, samples]
        return Outputs(self._given[:, samples], truth, self.classes, missing=missing)

    def voted(self, k: int, block: slice) -> NDArray[np.bool_]:
        """Return which learners vote for class k, (n_learners, width)."""
        voted: NDArray[np.bool_] = self.votes[:, block] == self.symbols[k]
        return voted

    def present(self, block: slice) -> NDArray[np.bool_]:
        """Return which learners have an output, (n_learners, width)."""
        if self.missing is not None:
            return ~self.missing[:, block]
        return np.ones((self.n_learners, len(range(self.n_samples)[block])), dtype=bool)

    def voters(self, block: slice) -> NDArray[np.int64]:
        """Return how many learners have an output for each sample, (width,)."""
        if self.missing is not None:
            voters: NDArray[np.int64] = (~self.missing[:, block]).sum(axis=0, dtype=np.int64)
            return voters
        return np.full(len(range(self.n_samples)[block]), self.n_learners)

    def one_hot(self, k: int, block: slice) -> NDArray[np.float32]:
        """Return the votes for class k, (n_learners, width), as zeros and ones."""
        return self.voted(k, block).astype(np.float32)

    def column(self, k: int, block: slice) -> FloatArray:
        """Return a copy of the probabilities of class k, (n_learners, width); 0 where missing."""
        assert self.probabilities is not None
        return np.array(self.probabilities[:, block, k], dtype=np.float64, order="C")

    def right(self, block: slice) -> NDArray[np.float32]:
        """Return where the votes are right, (n_learners, width), as zeros and ones; a missing one is not."""
        right: NDArray[np.bool_] = self.votes[:, block] == self.truth[block]
        return right.astype(np.float32)

    def _check_truth(self, y_true: ArrayLike, outputs: NDArray[Any]) -> NDArray[Any]:
        truth = check_truth(y_true)
        if len(truth) != self.n_samples:
            hint = "; transpose it" if len(truth) == self.n_learners else ""
            raise ValueError(
                f"`outputs` must have {len(truth)} samples, as `y_true`, on its second axis "
                f"(learners are the first axis{hint}); got shape {outputs.shape}."
            )
        if self._given.ndim == 2 and _kind(truth) != _kind(self._given):
            raise TypeError(
                f"`outputs` must hold labels of the kind of `y_true`, {_kind(truth)}; "
                f"got {_kind(self._given)}."
            )
        return truth

    def _voted_classes(self) -> NDArray[Any]:
        voted = _distinct(self._given)
        if self._labels is None:
            true = set() if self._truth is None else _distinct(self._truth[np.newaxis])
            return np.array(sorted(true | voted))
        if unknown := voted - set(self._labels.tolist()):
            learner, sample = np.argwhere(self._given == min(unknown))[0]
            raise ValueError(
                f"`labels` must hold every label of `outputs`; "
                f"got {min(unknown)!r} at learner {learner}, sample {sample}."
            )
        return self._labels

    def _column_classes(self) -> NDArray[Any]:
        assert self.probabilities is not None
        return column_classes(self.probabilities.shape[2], self._labels, self._truth, "outputs")


def check_truth(y_true: ArrayLike) -> NDArray[Any]:
    """Return the true labels as a checked array.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Whole numbers, booleans or strings.

    Examples
    --------
    >>> check_truth(["ham", "spam"]).tolist()
    ['ham', 'spam']
    """
    truth = check_labels(y_true, "y_true")
    if truth.ndim != 1:
        raise ValueError(f"`y_true` must have one axis, the samples; got shape {truth.shape}.")
    return truth


def check_classes(labels: ArrayLike, truth: NDArray[Any] | None) -> NDArray[Any]:
    """Return the classes as a checked array.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        Distinct labels.
    truth : ndarray or None
        The true labels; the classes must be of the same kind, numbers or strings.

    Returns
    -------
    ndarray of shape (n_classes,)
        The classes, in the order given.

    Examples
    --------
    >>> check_classes(["spam", "ham"], None).tolist()
    ['spam', 'ham']
    """
    classes = check_labels(labels, "labels")
    if classes.ndim != 1 or len(np.unique(classes)) != classes.size:
        raise ValueError(f"`labels` must be one row of distinct labels; got {short(classes.tolist())}.")
    if truth is not None and _kind(classes) != _kind(truth):
        raise TypeError(f"`labels` must be of the kind of `y_true`, {_kind(truth)}; got {_kind(classes)}.")
    return classes


def column_classes(
    n_columns: int, labels: NDArray[Any] | None, truth: NDArray[Any] | None, name: str
) -> NDArray[Any]:
    """Return the class of each column of probabilities.

    Parameters
    ----------
    n_columns : int
        The number of columns.
    labels : ndarray of shape (n_columns,) or None
        The classes, if the user gave them.
    truth : ndarray or None
        The true labels, whose sorted distinct values are used otherwise.
    name : str
        The argument with the columns, for the error message.

    Returns
    -------
    ndarray of shape (n_columns,)
        The labels; 0, 1, ... if neither is given.

    Examples
    --------
    >>> import numpy as np
    >>> column_classes(2, None, np.array(["spam", "ham", "ham"]), "proba").tolist()
    ['ham', 'spam']
    """
    if labels is not None:
        classes, source = labels, "`labels`"
    elif truth is not None:
        classes, source = np.unique(truth), "`y_true`"
    else:
        return np.arange(n_columns)
    if len(classes) != n_columns:
        raise ValueError(
            f"`labels` must name the {n_columns} columns of `{name}`; got {len(classes)} from {source}."
        )
    return classes


def label_codes(truth: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each true label among the classes.

    Parameters
    ----------
    truth : ndarray of shape (n_samples,)
        The true labels.
    classes : ndarray of shape (n_classes,)
        The classes, in any order.

    Returns
    -------
    ndarray of int, shape (n_samples,)
        The positions.

    Examples
    --------
    >>> import numpy as np
    >>> label_codes(np.array(["b", "a"]), np.array(["b", "a", "c"]))
    array([0, 1])
    """
    order = np.argsort(classes)
    place = np.searchsorted(classes, truth, sorter=order)
    codes = order[np.minimum(place, len(order) - 1)]
    if (bad := classes[codes] != truth).any():
        sample = int(np.argmax(bad))
        raise ValueError(
            f"`labels` must hold every label of `y_true`; got {truth[sample].item()!r} at sample {sample}."
        )
    return codes


def as_array(
    values: ArrayLike, name: str = "outputs", *, rows: str = "samples for each learner"
) -> NDArray[Any]:
    """Return the values as an array, without a copy if they are one.

    Parameters
    ----------
    values : array-like
        Numbers or strings; also a tensor on any device.
    name : str, default="outputs"
        The argument, for the error message.
    rows : str, default="samples for each learner"
        What a ragged sequence has unequal numbers of.

    Returns
    -------
    ndarray
        The array.

    Examples
    --------
    >>> as_array([[0, 1], [1, 1]]).shape
    (2, 2)
    """
    if hasattr(values, "detach"):  # a tensor that may need gradients or be on another device
        values = values.detach().cpu()
    check_unmasked(values, name)
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ValueError(f"`{name}` must hold as many {rows}; got a ragged sequence.") from None


def _kind(array: NDArray[Any]) -> str:
    return "strings" if array.dtype.kind == "U" else "numbers"


def _distinct(rows: NDArray[Any]) -> set[Any]:
    """Return the distinct entries of a table, read row by row, as plain Python values."""
    found: set[Any] = set()
    for row in rows:
        if row.dtype.kind in "iu" and (high := int(row.max())) - (low := int(row.min())) < _NARROW:
            new = [v for v in range(low, high + 1) if v not in found and (row == v).any()]
            found.update(new)
        else:
            found.update(np.unique(row).tolist())
    return found
