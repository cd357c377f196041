r"""Sufficient statistics of an ensemble, gathered in one pass by matrix products.

Notation: N learners, n samples, m classes. Column k of a learner is its one-hot vote for class k,
or its probability of it. A *scatter* is n times a covariance.

Every measure is a function of `Statistics`, so an assessment reads its data once. The cost is
:math:`O(N^2 n m)` operations and :math:`O(N^2 m)` memory beside one block of samples; with more than 32 classes the
votes are held as small whole numbers, and the cost is :math:`O(N^2 (n + m))`.

Where outputs are missing, what concerns two learners is over the samples that both answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import IntArray
from counterpoint.outputs.moments import (
    Columns,
    LabelCounts,
    LabelMoments,
    count_labels,
    gather_moments,
    pair_counts,
)
from counterpoint.outputs.outputs import Outputs

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Correctness:
    """Counts of right votes: by learner, by pair, and by the number right on a sample.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    right : ndarray of int, shape (n_learners,)
        Samples on which each learner is right.
    both_right : ndarray of int, shape (n_learners, n_learners), or None
        Samples on which both of two learners are right; None if pairs were not requested.
    histogram : ndarray of int, shape (n_learners + 1,)
        Samples on which 0, 1, ..., N learners are right, of those that all learners answered.
    answered : ndarray of int, shape (n_learners,)
        Samples that each learner answered.
    shared : ndarray of int, shape (n_learners, n_learners)
        Samples that two learners both answered.
    shared_right : ndarray of int, shape (n_learners, n_learners)
        Of these, the samples on which the row's learner is right.
    same_wrong : ndarray of int, shape (n_learners, n_learners), or None
        Samples on which two learners give the same wrong label; None if it was not requested.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> statistics = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]], [0, 1, 0]), correctness=True)
    >>> statistics.correctness.right, statistics.correctness.histogram
    (array([3, 2]), array([0, 1, 2]))
    """

    n_samples: int
    right: IntArray  # (N,)
    both_right: IntArray | None  # (N, N)
    histogram: IntArray  # (N + 1,), samples on which 0, 1, ..., N learners are right
    answered: IntArray  # (N,)
    shared: IntArray  # (N, N)
    shared_right: IntArray  # (N, N)
    same_wrong: IntArray | None = None  # (N, N)


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of an ensemble; parts that were not requested are ``None``.

    Attributes
    ----------
    n_learners : int
        The number of learners.
    columns : Columns or None
        Moments of the outputs, class by class.
    correctness : Correctness or None
        Counts of right votes.
    labels : LabelCounts or None
        Counts of the labels given.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> statistics = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]], [0, 1, 0]), correctness=True)
    >>> statistics.n_learners, statistics.correctness.n_samples, statistics.labels
    (2, 3, None)
    """

    n_learners: int
    columns: Columns | None
    correctness: Correctness | None
    labels: LabelCounts | None = None


def sufficient_statistics(
    outputs: Outputs,
    *,
    columns: bool = False,
    correctness: bool = False,
    pairs: bool = True,
    same_wrong: bool = False,
    labels: bool = False,
    progress: Progress | None = None,
) -> Statistics:
    """Return the requested statistics of an ensemble, from one pass over the samples.

    Parameters
    ----------
    outputs : Outputs
        The outputs of the learners.
    columns : bool, default=False
        Whether to compute the moments of the outputs, for correlations.
    correctness : bool, default=False
        Whether to count right votes, which needs the truth.
    pairs : bool, default=True
        Whether to include the matrices over pairs of learners, the expensive part.
    same_wrong : bool, default=False
        Whether to count, for each pair, the samples on which both give the same wrong label.
    labels : bool, default=False
        Whether to count the labels of each learner and the equal labels of each pair, which needs no truth.
    progress : callable, optional
        Called after each block with the number of samples done and their total.

    Returns
    -------
    Statistics
        ``columns``, ``correctness`` and ``labels``, None where not requested.

    Examples
    --------
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> sufficient_statistics(read, correctness=True).correctness.both_right
    array([[3, 2],
           [2, 3]])
    """
    moments = gather_moments(outputs, pairs) if columns else None
    # Who agrees follows from the products of votes. Of two classes, learners agree on the label exactly where they
    # agree on being right or wrong.
    inferred = columns and pairs and outputs.probabilities is None
    two = inferred and len(outputs.classes) == 2 and outputs.missing is None
    counts = _Counts(outputs, pairs and not two, same_wrong and not inferred) if correctness else None
    given: LabelMoments | None = None
    if labels:  # the moments of votes count the same
        given = moments if inferred and isinstance(moments, LabelMoments) else count_labels(outputs)
    for block in outputs.blocks():
        if moments is not None:
            moments.add(block)
        if given is not None and given is not moments:
            given.add(block)
        if counts is not None:
            counts.add(block)
        if progress is not None:
            progress(block.stop, outputs.n_samples)
    label_counts = None if given is None else given.labels()
    if counts is not None and inferred and (two or same_wrong) and isinstance(moments, LabelMoments):
        agreement = moments.agreement() if label_counts is None else label_counts.alike
        if two:
            counts.infer_pairs(agreement)
        if same_wrong:
            counts.infer_same_wrong(agreement)
    return Statistics(
        n_learners=outputs.n_learners,
        columns=None if moments is None else moments.result(),
        correctness=None if counts is None else counts.result(),
        labels=label_counts,
    )


class _Counts:
    """Counts of right votes."""

    def __init__(self, outputs: Outputs, pairs: bool, same_wrong: bool) -> None:
        n = outputs.n_learners
        self.outputs = outputs
        kind = pair_counts(n, outputs.n_samples)
        self.same_wrong: NDArray[Any] | None = np.zeros((n, n), dtype=kind) if same_wrong else None
        self.right = np.zeros(n, dtype=np.int64)
        self.both_right: NDArray[Any] | None = np.zeros((n, n), dtype=kind) if pairs else None
        self.histogram = np.zeros(n + 1, dtype=np.int64)
        size = 0 if outputs.missing is None else n
        self.shared, self.shared_right = np.zeros((2, size, size), dtype=np.int64)

    def add(self, block: slice) -> None:
        right = self.outputs.right(block)
        # Sums, not products with ones: on busy cores a threaded product of this size waits.
        together = right.sum(axis=0).astype(np.intp)
        answered_by_all: Any = slice(None)
        if self.outputs.missing is not None:
            here = self.outputs.present(block).astype(np.float32)
            self.shared += (here @ here.T).astype(np.int64)
            self.shared_right += (right @ here.T).astype(np.int64)
            answered_by_all = here.all(axis=0)
        self.histogram += np.bincount(together[answered_by_all], minlength=len(self.histogram))
        self.right += right.sum(axis=1).astype(np.int64)
        if self.both_right is not None:
            self.both_right += (right @ right.T).astype(self.both_right.dtype)
        if self.same_wrong is not None:
            some_wrong = block.start + np.flatnonzero(together < len(right))
            self.same_wrong += self._same_wrong(some_wrong).astype(self.same_wrong.dtype)

    def _same_wrong(self, samples: IntArray) -> IntArray:
        read = self.outputs.compact
        votes = read.votes[:, samples]
        wrong = votes != read.truth[samples]
        found = np.zeros((len(votes), len(votes)))
        for symbol in read.symbols:
            same = ((votes == symbol) & wrong).astype(np.float32)
            found += same @ same.T
        return found.astype(np.int64)

    def infer_same_wrong(self, agreement: NDArray[Any]) -> None:
        """Fill in the same wrong labels: those who agree and are not both right."""
        assert self.both_right is not None
        self.same_wrong = agreement - self.both_right

    def infer_pairs(self, agreement: NDArray[Any]) -> None:
        """Fill in the pairs: those who agree are both right or both wrong."""
        surplus = agreement - self.outputs.n_samples
        right = self.right.astype(surplus.dtype)
        surplus += right[:, None]
        surplus += right
        surplus //= 2
        self.both_right = surplus

    def result(self) -> Correctness:
        n = self.outputs.n_samples
        if self.outputs.missing is None:
            shape = len(self.right), len(self.right)
            self.shared = np.broadcast_to(np.int64(n), shape)
            self.shared_right = np.broadcast_to(self.right[:, None], shape)
        return Correctness(
            n_samples=n,
            right=self.right,
            both_right=self.both_right,
            histogram=self.histogram,
            answered=np.diagonal(self.shared),
            shared=self.shared,
            shared_right=self.shared_right,
            same_wrong=self.same_wrong,
        )
