r"""Sufficient statistics of an ensemble, gathered in one pass by matrix products.

Notation: N learners, n samples, m classes. Column k of a learner is its one-hot vote for class k,
or its probability of it. A *scatter* is n times a covariance.

Every measure is a function of `Statistics`, so an assessment reads its data once. The cost is
:math:`O(N^2 n m)` operations and :math:`O(N^2 m)` memory beside one block of samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs.outputs import Outputs

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Columns:
    """Moments of the outputs and the truth, class by class.

    ``scatter`` is None if pairs were not requested; ``truth_means`` and ``cross`` are None without a truth.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    means, spread : ndarray of shape (n_learners, n_classes)
        The mean and the sum of squared deviations of each learner's column.
    constant : ndarray of bool, shape (n_learners, n_classes)
        Where a learner's column does not vary.
    scatter : ndarray of shape (n_classes, n_learners, n_learners) or None
        Sums of products of deviations of two learners.
    truth_means : ndarray of shape (n_classes,) or None
        The shares of the classes.
    cross : ndarray of shape (n_learners, n_classes) or None
        Sums of products of deviations of a learner and the truth.
    """

    n_samples: int
    means: FloatArray  # (N, m)
    spread: FloatArray  # (N, m), the diagonal of the scatter
    constant: NDArray[np.bool_]  # (N, m)
    scatter: FloatArray | None  # (m, N, N)
    truth_means: FloatArray | None  # (m,)
    cross: FloatArray | None  # (N, m), learner against truth


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
        Samples on which 0, 1, ..., N learners are right.
    same_wrong : ndarray of int, shape (n_learners, n_learners), or None
        Samples on which two learners give the same wrong label; None if it was not requested.
    """

    n_samples: int
    right: IntArray  # (N,)
    both_right: IntArray | None  # (N, N)
    histogram: IntArray  # (N + 1,), samples on which 0, 1, ..., N learners are right
    same_wrong: IntArray | None = None  # (N, N)


@dataclass(frozen=True)
class LabelCounts:
    """Counts of the labels that every two learners give, whatever the truth is.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    alike : ndarray of int, shape (n_learners, n_learners)
        Samples to which both give the same label.
    by_chance : ndarray of int, shape (n_learners, n_learners)
        The products of how often each of the two gives a label, summed over the labels.
    """

    n_samples: int
    alike: IntArray  # (N, N)
    by_chance: IntArray  # (N, N)


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
    moments: _Moments | None = None
    if columns:
        voted = outputs.probabilities is None
        moments = _VoteMoments(outputs, pairs) if voted else _ProbabilityMoments(outputs, pairs)
    # Of two classes, learners agree on the label exactly where they agree on being right or wrong.
    shared = isinstance(moments, _VoteMoments) and len(outputs.classes) == 2
    inferred = isinstance(moments, _VoteMoments) and pairs  # who agrees follows from the products of votes
    counts = _Counts(outputs, pairs and not shared, same_wrong and not inferred) if correctness else None
    given = None
    if labels:  # the moments of votes count the same
        given = (
            moments if inferred and isinstance(moments, _VoteMoments) else _VoteMoments(outputs, pairs=True)
        )
    for block in outputs.blocks():
        if moments is not None:
            moments.add(block)
        if given is not None and given is not moments:
            given.add(block)
        if counts is not None:
            counts.add(block)
        if progress is not None:
            progress(block.stop, outputs.n_samples)
    if counts is not None and isinstance(moments, _VoteMoments) and pairs:
        agreement = moments.agreement()
        if shared:
            counts.infer_pairs(agreement)
        if same_wrong:
            counts.infer_same_wrong(agreement)
    return Statistics(
        n_learners=outputs.n_learners,
        columns=None if moments is None else moments.result(),
        correctness=None if counts is None else counts.result(),
        labels=None if given is None else given.labels(),
    )


class _Moments(Protocol):
    def add(self, block: slice) -> None: ...

    def result(self) -> Columns: ...


class _VoteMoments:
    """Moments of one-hot votes: exact counts, of which two classes need only one."""

    def __init__(self, outputs: Outputs, pairs: bool) -> None:
        n, m = outputs.n_learners, len(outputs.classes)
        self.outputs = outputs
        self.stored = 1 if m == 2 else m
        self.sums = np.zeros((n, self.stored))
        self.hits = np.zeros((n, self.stored))
        self.grams = np.zeros((self.stored, n, n)) if pairs else None

    # Some BLAS kernels set the flag for memory beside the array.
    @np.errstate(invalid="ignore")
    def add(self, block: slice) -> None:
        codes = self.outputs.truth_codes
        for k in range(self.stored):
            votes = self.outputs.one_hot(k, block)
            self.sums[:, k] += votes @ np.ones(votes.shape[1], dtype=np.float32)
            if codes is not None:
                self.hits[:, k] += votes @ (codes[block] == k).astype(np.float32)
            if self.grams is not None:
                # Exact: a block has fewer samples than float32 has consecutive integers.
                self.grams[k] += votes @ votes.T

    def agreement(self) -> FloatArray:
        """Count the samples on which two learners vote alike, (N, N)."""
        assert self.grams is not None
        if len(self.grams) < len(self.outputs.classes):  # one of two classes
            sums = self.sums[:, 0]
            two: FloatArray = self.outputs.n_samples - sums[:, None] - sums + 2 * self.grams[0]
            return two
        total: FloatArray = self.grams.sum(axis=0)
        return total

    def labels(self) -> LabelCounts:
        """Return the counts of the labels."""
        n, given = self.outputs.n_samples, self.sums
        if self.stored < len(self.outputs.classes):
            given = np.hstack([given, n - given])
        return LabelCounts(n, self.agreement().astype(np.int64), (given @ given.T).astype(np.int64))

    def result(self) -> Columns:
        n = self.outputs.n_samples
        truth = _truth_means(self.outputs)
        sums, stored = self.sums, slice(self.stored)
        scatter = None
        if self.grams is not None:
            scatter = self.grams - sums.T[:, :, None] * sums.T[:, None, :] / n
        columns = Columns(
            n_samples=n,
            means=sums / n,
            spread=sums * (n - sums) / n,
            constant=(sums == 0) | (sums == n),
            scatter=scatter,
            truth_means=truth,
            cross=None if truth is None else self.hits - sums * truth[stored],
        )
        return columns if self.stored == len(self.outputs.classes) else _with_complement(columns)


def _with_complement(one: Columns) -> Columns:
    """Add the second of two classes: its outputs are one minus those of the first."""
    return Columns(
        n_samples=one.n_samples,
        means=np.hstack([one.means, 1 - one.means]),
        spread=np.repeat(one.spread, 2, axis=1),
        constant=np.repeat(one.constant, 2, axis=1),
        scatter=None if one.scatter is None else np.repeat(one.scatter, 2, axis=0),
        truth_means=one.truth_means,
        cross=None if one.cross is None else np.repeat(one.cross, 2, axis=1),
    )


class _ProbabilityMoments:
    """Moments of probabilities: each block about its own mean, then merged (Chan et al., 1983)."""

    def __init__(self, outputs: Outputs, pairs: bool) -> None:
        n, m = outputs.n_learners, len(outputs.classes)
        self.outputs = outputs
        self.done = 0
        self.means, self.truth_means = np.zeros((n, m)), np.zeros(m)
        self.spread, self.cross = np.zeros((n, m)), np.zeros((n, m))
        self.low, self.high = np.full((n, m), np.inf), np.full((n, m), -np.inf)
        self.scatter = np.zeros((m, n, n)) if pairs else None

    def add(self, block: slice) -> None:
        width = block.stop - block.start
        ratio = self.done * width / (self.done + width)
        codes = self.outputs.truth_codes
        for k in range(self.means.shape[1]):
            column = self.outputs.column(k, block)
            self.low[:, k] = np.minimum(self.low[:, k], column.min(axis=1))
            self.high[:, k] = np.maximum(self.high[:, k], column.max(axis=1))
            mean = column.mean(axis=1)
            column -= mean[:, None]
            step = mean - self.means[:, k]
            if codes is not None:
                truth = (codes[block] == k).astype(np.float64)
                truth_step = truth.mean() - self.truth_means[k]
                self.cross[:, k] += column @ truth + ratio * step * truth_step
                self.truth_means[k] += truth_step * width / (self.done + width)
            self.spread[:, k] += np.einsum("ij,ij->i", column, column) + ratio * step**2
            if self.scatter is not None:
                self.scatter[k] += column @ column.T + ratio * np.outer(step, step)
            self.means[:, k] += step * width / (self.done + width)
        self.done += width

    def result(self) -> Columns:
        probabilities = self.outputs.probabilities
        assert probabilities is not None
        # What differs by rounding alone is constant.
        dtype = probabilities.dtype if probabilities.dtype.kind == "f" else np.float64
        rounding = 4 * float(np.finfo(dtype).eps)
        truth = _truth_means(self.outputs)
        return Columns(
            n_samples=self.outputs.n_samples,
            means=self.means,
            spread=self.spread,
            constant=self.high - self.low <= rounding * self.high,
            scatter=self.scatter,
            truth_means=truth,
            cross=None if truth is None else self.cross,
        )


def _truth_means(outputs: Outputs) -> FloatArray | None:
    if outputs.truth_codes is None:
        return None
    counts = np.bincount(outputs.truth_codes, minlength=len(outputs.classes))
    means: FloatArray = counts / outputs.n_samples
    return means


class _Counts:
    """Counts of right votes."""

    def __init__(self, outputs: Outputs, pairs: bool, same_wrong: bool) -> None:
        n = outputs.n_learners
        self.outputs = outputs
        self.same_wrong = np.zeros((n, n), dtype=np.int64) if same_wrong else None
        self.right = np.zeros(n, dtype=np.int64)
        self.both_right = np.zeros((n, n), dtype=np.int64) if pairs else None
        self.histogram = np.zeros(n + 1, dtype=np.int64)

    def add(self, block: slice) -> None:
        right = self.outputs.right(block)
        # Sums, not products with ones: on busy cores a threaded product of this size waits.
        together = right.sum(axis=0).astype(np.intp)
        self.histogram += np.bincount(together, minlength=len(self.histogram))
        self.right += right.sum(axis=1).astype(np.int64)
        if self.both_right is not None:
            self.both_right += (right @ right.T).astype(np.int64)
        if self.same_wrong is not None:
            some_wrong = block.start + np.flatnonzero(together < len(right))
            self.same_wrong += self._same_wrong(some_wrong)

    def _same_wrong(self, samples: IntArray) -> IntArray:
        votes = self.outputs.votes[:, samples]
        wrong = votes != self.outputs.truth[samples]
        found = np.zeros((len(votes), len(votes)))
        for symbol in self.outputs.symbols:
            same = ((votes == symbol) & wrong).astype(np.float32)
            found += same @ same.T
        return found.astype(np.int64)

    def infer_same_wrong(self, agreement: FloatArray) -> None:
        """Fill in the same wrong labels: those who agree and are not both right."""
        assert self.both_right is not None
        self.same_wrong = agreement.astype(np.int64) - self.both_right

    def infer_pairs(self, agreement: FloatArray) -> None:
        """Fill in the pairs: those who agree are both right or both wrong."""
        surplus = agreement.astype(np.int64) - self.outputs.n_samples
        self.both_right = (surplus + self.right[:, None] + self.right) // 2

    def result(self) -> Correctness:
        return Correctness(
            self.outputs.n_samples, self.right, self.both_right, self.histogram, self.same_wrong
        )
