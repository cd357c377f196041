r"""Moments of the outputs of an ensemble, class by class, gathered in blocks of samples.

Notation: N learners, n samples, m classes. Column k of a learner is its one-hot vote for class k, or its probability of
it. A *scatter* is n times a covariance. Where outputs are missing, what concerns two learners is over the samples that
both answered.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs.outputs import Outputs


@dataclass(frozen=True)
class SharedColumns:
    """Moments of every two learners over the samples that both answered; the diagonal is a learner alone.

    Attributes
    ----------
    counts : ndarray of int, shape (n_learners, n_learners)
        Samples that both answered.
    means, spread : ndarray of shape (n_classes, n_learners, n_learners)
        The mean and the sum of squared deviations of the row's learner over these samples.
    truth_means : ndarray of shape (n_learners, n_classes) or None
        The shares of the classes among the samples that a learner answered.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> missing = np.array([[False, False, True], [False, False, False]])
    >>> statistics = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]], missing=missing), columns=True)
    >>> statistics.columns.shared.counts
    array([[2, 2],
           [2, 3]])
    """

    counts: IntArray  # (N, N)
    means: FloatArray  # (m, N, N)
    spread: FloatArray  # (m, N, N)
    truth_means: FloatArray | None  # (N, m)


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
    shared : SharedColumns or None
        Where outputs are missing, what differs from pair to pair; None for complete outputs.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> statistics = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]], [0, 1, 0]), columns=True)
    >>> statistics.columns.means.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    """

    n_samples: int
    means: FloatArray  # (N, m)
    spread: FloatArray  # (N, m), the diagonal of the scatter
    constant: NDArray[np.bool_]  # (N, m)
    scatter: FloatArray | None  # (m, N, N)
    truth_means: FloatArray | None  # (m,)
    cross: FloatArray | None  # (N, m), learner against truth
    shared: SharedColumns | None = None


@dataclass(frozen=True)
class LabelCounts:
    """Counts of the labels that every two learners give, whatever the truth is.

    Attributes
    ----------
    shared : ndarray of int, shape (n_learners, n_learners)
        Samples to which both give a label.
    alike : ndarray of int, shape (n_learners, n_learners)
        Samples to which both give the same label.
    by_chance : ndarray of int, shape (n_learners, n_learners)
        The products of how often each of the two gives a label to these samples, summed over the labels.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> statistics = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]]), labels=True)
    >>> statistics.labels.alike
    array([[3, 2],
           [2, 3]])
    """

    shared: IntArray  # (N, N)
    alike: IntArray  # (N, N)
    by_chance: IntArray  # (N, N)


class Moments(Protocol):
    """Gathers moments block by block."""

    def add(self, block: slice) -> None:
        """Add a block of samples."""

    def result(self) -> Columns:
        """Return the moments of all blocks."""


def count_labels(outputs: Outputs) -> "VoteMoments | SharedMoments":
    """Return what counts the labels, or the most probable classes, of every two learners."""
    if outputs.missing is not None:
        return SharedMoments(outputs, votes=True)
    return VoteMoments(outputs, pairs=True)


def gather_moments(outputs: Outputs, pairs: bool) -> Moments:
    """Return what gathers the moments of such outputs."""
    if outputs.missing is not None:
        return SharedMoments(outputs)
    return (
        VoteMoments(outputs, pairs) if outputs.probabilities is None else ProbabilityMoments(outputs, pairs)
    )


class VoteMoments:
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
        """Add a block of samples."""
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
        alike = self.agreement().astype(np.int64)
        return LabelCounts(np.full(alike.shape, n), alike, (given @ given.T).astype(np.int64))

    def result(self) -> Columns:
        """Return the moments of all blocks."""
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


class ProbabilityMoments:
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
        """Add a block of samples."""
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
        """Return the moments of all blocks."""
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


class SharedMoments:
    """Moments of outputs of which some are missing, for every two learners over the samples that both answered."""

    def __init__(self, outputs: Outputs, *, votes: bool = False) -> None:
        n, m = outputs.n_learners, len(outputs.classes)
        self.outputs = outputs
        self.one_hot = votes or outputs.probabilities is None
        self.counts, self.hits, self.truths = np.zeros((n, n)), np.zeros((n, m)), np.zeros((n, m))
        # Of the row's learner over the samples of the column's: sums, squares, and products of the two.
        self.sums, self.squares, self.grams = (np.zeros((m, n, n)) for _ in range(3))

    def add(self, block: slice) -> None:
        """Add a block of samples."""
        labels = self.one_hot
        here: NDArray[Any] = self.outputs.present(block).astype(np.float32 if labels else np.float64)
        self.counts += here @ here.T
        for k in range(len(self.sums)):
            values: NDArray[Any] = self.outputs.one_hot(k, block) if labels else self.outputs.column(k, block)
            self.sums[k] += values @ here.T
            self.squares[k] += values @ here.T if labels else values**2 @ here.T
            self.grams[k] += values @ values.T
            if self.outputs.truth_codes is not None:
                truth = (self.outputs.truth_codes[block] == k).astype(here.dtype)
                self.hits[:, k] += values @ truth
                self.truths[:, k] += here @ truth

    def agreement(self) -> FloatArray:
        """Count the samples on which two learners vote alike, (N, N), if outputs are labels."""
        total: FloatArray = self.grams.sum(axis=0)
        return total

    def labels(self) -> LabelCounts:
        """Return the counts of the labels."""
        by_chance = (self.sums * self.sums.swapaxes(1, 2)).sum(axis=0)
        parts = (self.counts, self.agreement(), by_chance)
        return LabelCounts(*(part.astype(np.int64) for part in parts))

    def result(self) -> Columns:
        """Return the moments of all blocks."""
        counts, sums = self.counts, self.sums
        shared = np.maximum(counts, 1)  # where nothing is shared, the sums are 0
        spread = np.maximum(self.squares - sums**2 / shared, 0.0)
        # What differs by rounding alone is constant.
        spread[spread <= 1e-12 * self.squares] = 0.0
        own, answered = np.diagonal(sums, axis1=1, axis2=2).T, np.diagonal(shared)[:, None]
        truth = _truth_means(self.outputs)
        return Columns(
            n_samples=self.outputs.n_samples,
            means=own / answered,
            spread=np.diagonal(spread, axis1=1, axis2=2).T,
            constant=np.diagonal(spread, axis1=1, axis2=2).T == 0,
            scatter=self.grams - sums * sums.swapaxes(1, 2) / shared,
            truth_means=truth,
            cross=None if truth is None else self.hits - own * self.truths / answered,
            shared=SharedColumns(
                counts=counts.astype(np.int64),
                means=sums / shared,
                spread=spread,
                truth_means=None if truth is None else self.truths / answered,
            ),
        )


def _truth_means(outputs: Outputs) -> FloatArray | None:
    if outputs.truth_codes is None:
        return None
    counts = np.bincount(outputs.truth_codes, minlength=len(outputs.classes))
    means: FloatArray = counts / outputs.n_samples
    return means
