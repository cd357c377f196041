r"""Moments of the outputs of an ensemble, class by class, gathered in blocks of samples.

Notation: N learners, n samples, m classes. Column k of a learner is its one-hot vote for class k, or its probability of
it. A *scatter* is n times a covariance. Where outputs are missing, what concerns two learners is over the samples that
both answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs.outputs import Outputs
from counterpoint.outputs.undefined import mean_of_pairs, ratio

FEWEST_SHARED = 10  # samples that two learners must share for a measure of the pair
COVERED = 0.9  # share of the samples that the classes of an average must hold
_MANY_LEARNERS = 1000  # beyond them matrices of pairs are large
_MOST_SQUARED = 46_340  # samples: the square is below 2**31
_MOST_HELD = 2**22  # pairs of learners of which moments are computed at once
_MOST_STORED = 2**26  # entries of products of probabilities, for all classes and pairs


class Slab(NamedTuple):
    """Moments of pairs of learners: one class and all pairs, or all classes and the pairs of one learner.

    Attributes
    ----------
    classes, rows : slice
        The classes, and the first learners of the pairs; the second are all.
    scatter : ndarray of shape (n_slab_classes, n_rows, n_learners)
        Sums of products of deviations, over the samples that both answered.
    spread, other_spread : ndarray that broadcasts with the scatter
        Sums of squared deviations of the row's and of the column's learner.
    gaps : ndarray or None
        Squared differences of the means of the two learners, if outputs are missing.
    enough : ndarray of bool or None
        Which pairs share enough samples for a correlation, if outputs are missing.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> columns = sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]]), columns=True).columns
    >>> [slab.correlations()[0, 0].round(1).tolist() for slab in columns.pairs.slabs()]
    [[1.0, 0.5], [1.0, 0.5]]
    """

    classes: slice
    rows: slice
    scatter: FloatArray
    spread: FloatArray
    other_spread: FloatArray
    gaps: FloatArray | None = None
    enough: NDArray[np.bool_] | None = None

    def correlations(self) -> FloatArray:
        """Return the correlations, NaN where undefined; that of a learner with itself is 1."""
        scale = np.sqrt(self.spread) * np.sqrt(self.other_spread)
        if self.enough is not None:
            scale = np.where(self.enough, scale, 0.0)
        found = ratio(self.scatter, scale)
        np.clip(found, -1.0, 1.0, out=found)
        rows = np.arange(found.shape[2])[self.rows]
        own = found[:, np.arange(len(rows)), rows]
        found[:, np.arange(len(rows)), rows] = np.where(np.isnan(own), np.nan, 1.0)  # not off by rounding
        return found


class Pairs(Protocol):
    """Moments of every two learners, class by class."""

    def slabs(self) -> Iterator[Slab]:
        """Yield the moments in parts, each of the size of a few matrices of pairs."""

    def pooled(self) -> Slab:
        """Return the moments summed over the classes, as one class."""


class ClassAverages(NamedTuple):
    """Correlations of every two learners, averaged over classes.

    Attributes
    ----------
    matrix : ndarray of shape (n_learners, n_learners)
        The mean over the classes where the truth varies (all, without a truth); NaN where undefined.
    n_classes : ndarray of int, shape (n_learners, n_learners)
        The number of classes with a correlation.
    by_class : ndarray of shape (n_classes,)
        The mean over pairs, class by class; NaN where the truth is constant.
    every_class : float
        The mean over pairs of the mean over all classes.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> sufficient_statistics(Outputs([[0, 1, 0], [1, 1, 0]]), columns=True).columns.averages.by_class.round(3)
    array([0.5, 0.5])
    """

    matrix: FloatArray
    n_classes: IntArray
    by_class: FloatArray
    every_class: float


@dataclass(frozen=True)
class SharedColumns:
    """Moments over the samples that a learner, or both of two learners, answered.

    Attributes
    ----------
    counts : ndarray of int, shape (n_learners, n_learners)
        Samples that both answered.
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
    truth_means: FloatArray | None  # (N, m)


@dataclass(frozen=True)
class Columns:
    """Moments of the outputs and the truth, class by class.

    ``pairs`` is None if pairs were not requested; ``truth_means`` and ``cross`` are None without a truth.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    means, spread : ndarray of shape (n_learners, n_classes)
        The mean and the sum of squared deviations of each learner's column.
    constant : ndarray of bool, shape (n_learners, n_classes)
        Where a learner's column does not vary.
    pairs : Pairs or None
        Moments of every two learners; ``pairs.slabs()`` yields them in parts.
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
    pairs: Pairs | None
    truth_means: FloatArray | None  # (m,)
    cross: FloatArray | None  # (N, m), learner against truth
    shared: SharedColumns | None = None

    @property
    def varied(self) -> NDArray[np.bool_]:
        """Whether the truth varies in each class, (m,); True without a truth."""
        if self.truth_means is None:
            return np.ones(self.means.shape[1], dtype=bool)
        varied: NDArray[np.bool_] = ~np.isin(self.truth_means, (0.0, 1.0))
        return varied

    @property
    def enough(self) -> NDArray[np.bool_]:
        """Whether each learner answered enough samples for a correlation, (N,)."""
        if self.shared is None:
            return np.ones(len(self.means), dtype=bool)
        enough: NDArray[np.bool_] = np.diagonal(self.shared.counts) >= min(FEWEST_SHARED, self.n_samples)
        return enough

    @cached_property
    def averages(self) -> ClassAverages:
        """The correlations of every two learners, averaged over classes."""
        assert self.pairs is not None
        n, m = self.means.shape
        varied = self.varied
        if not varied.any():
            varied = ~varied  # without a truth that varies, over all classes
        total, count = np.zeros((n, n)), np.zeros((n, n), dtype=np.min_scalar_type(m))
        every = None if varied.all() else (np.zeros((n, n)), np.zeros((n, n), dtype=count.dtype))
        sums, numbers = np.zeros((2, m))
        for slab in self.pairs.slabs():
            found, some = slab.correlations(), varied[slab.classes]
            _add_defined(found[some], slab.rows, total, count)
            if every is not None:
                _add_defined(found, slab.rows, *every)
            _add_upper(found, slab, sums, numbers)
        by_class = np.where(self.varied, ratio(sums, numbers), np.nan)
        matrix = ratio(total, count)
        np.fill_diagonal(matrix, np.where(self.constant.all(axis=1), np.nan, 1.0))
        mean = mean_of_pairs(matrix if every is None else ratio(*every))
        return ClassAverages(matrix, count, by_class, mean)

    @cached_property
    def covered(self) -> bool:
        """Whether averages over classes stand for the samples.

        For every learner and for every two, unless they are constant, the classes with a correlation must hold 90 % of
        the samples. They do not where a learner never gives a frequent answer, or where answers are free text.
        """
        varied = self.varied
        if self.truth_means is None or not varied.any():
            return True
        known = ~self.constant & varied
        some = known[self.enough & ~self.constant.all(axis=1)]
        least = COVERED * self.truth_means[varied].sum() - 1e-9  # rounding
        if some[:, varied].all():
            return True
        if (some @ self.truth_means < least).any():
            return False
        if self.pairs is None:
            return True
        held = some * np.sqrt(self.truth_means)
        return all(
            bool((row @ held.T >= least).all()) for row in np.array_split(held, max(len(held) // 1000, 1))
        )


def _add_defined(found: FloatArray, rows: slice, total: FloatArray, count: NDArray[Any]) -> None:
    """Add correlations, (classes, rows, N), to sums over classes, and count those that are defined."""
    defined = ~np.isnan(found)
    total[rows] += np.where(defined, found, 0.0).sum(axis=0)
    count[rows] += defined.sum(axis=0, dtype=count.dtype)


def _add_upper(found: FloatArray, slab: Slab, sums: FloatArray, numbers: FloatArray) -> None:
    """Add correlations of pairs, (classes, rows, N), to sums over the pairs of different learners."""
    first = np.arange(found.shape[2])[slab.rows]
    upper = np.arange(found.shape[2]) > first[:, None]
    if len(found) == 1:
        values = found[0][upper]
        values = values[~np.isnan(values)]
        sums[slab.classes] += values.sum()
        numbers[slab.classes] += len(values)
        return
    values = found[:, upper]
    sums[slab.classes] += np.nansum(values, axis=1)
    numbers[slab.classes] += np.sum(~np.isnan(values), axis=1)


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


def count_labels(outputs: Outputs) -> "LabelMoments":
    """Return what counts the labels, or the most probable classes, of every two learners."""
    if outputs.has_many_classes:
        return CodedMoments(outputs)
    return (
        SharedMoments(outputs, votes=True)
        if outputs.missing is not None
        else VoteMoments(outputs, pairs=True)
    )


def gather_moments(outputs: Outputs, pairs: bool) -> Moments:
    """Return what gathers the moments of such outputs."""
    if outputs.probabilities is None and outputs.has_many_classes:
        return CodedMoments(outputs, pairs=pairs)
    if outputs.missing is not None:
        return SharedMoments(outputs)
    return (
        VoteMoments(outputs, pairs) if outputs.probabilities is None else ProbabilityMoments(outputs, pairs)
    )


def _row_parts(n_learners: int) -> Iterator[slice]:
    """Yield slices of learners whose pairs with all are not too many to hold several times."""
    width = max(_MOST_HELD // n_learners, 1)
    for start in range(0, n_learners, width):
        yield slice(start, min(start + width, n_learners))


def _summed(slabs: Iterator[Slab], n_learners: int) -> Slab:
    """Return moments summed over the classes, as one class."""
    square = (n_learners, n_learners)
    scatter, spread, other = np.zeros(square), np.zeros((n_learners, 1)), np.zeros((1, n_learners))
    gaps = enough = None
    for slab in slabs:
        scatter[slab.rows] += slab.scatter.sum(axis=0)
        if slab.gaps is None or slab.enough is None:
            spread[slab.rows] += slab.spread.sum(axis=0)
            if slab.rows.start == 0:
                other += slab.other_spread.sum(axis=0)
            continue
        if gaps is None or enough is None:
            spread, other, gaps, enough = (*np.zeros((3, *square)), np.ones(square, dtype=bool))
        spread[slab.rows] += slab.spread.sum(axis=0)
        other[slab.rows] += slab.other_spread.sum(axis=0)
        gaps[slab.rows] += slab.gaps.sum(axis=0)
        enough[slab.rows] = slab.enough[0]
    parts = (None if part is None else part[None] for part in (scatter, spread, other, gaps, enough))
    return Slab(slice(None), slice(None), *parts)  # type: ignore[arg-type]


class VotePairs:
    """Moments of pairs of one-hot votes that are complete, from counts; of two classes one is stored."""

    def __init__(self, grams: NDArray[Any], sums: FloatArray, n_classes: int, n_samples: int) -> None:
        self.grams, self.sums = grams, sums  # (m, N, N), (N, m)
        self.n_classes, self.n_samples = n_classes, n_samples

    def slabs(self) -> Iterator[Slab]:
        """Yield class by class."""
        for k in range(self.n_classes):
            for rows in _row_parts(len(self.sums)):
                yield self._slab(k, rows)

    def pooled(self) -> Slab:
        """Return the sums over the classes."""
        return _summed(self.slabs(), len(self.sums))

    def _slab(self, k: int, rows: slice) -> Slab:
        stored = k % self.grams.shape[0]
        sums = self.sums[:, stored]
        scatter = self.grams[stored, rows] - np.outer(sums[rows], sums / self.n_samples)
        spread = sums * (self.n_samples - sums) / self.n_samples
        return Slab(slice(k, k + 1), rows, scatter[None], spread[None, rows, None], spread[None, None])


class VoteMoments:
    """Moments of one-hot votes: exact counts, of which two classes need only one."""

    def __init__(self, outputs: Outputs, pairs: bool) -> None:
        n, m = outputs.n_learners, len(outputs.classes)
        self.outputs = outputs
        self.stored = 1 if m == 2 else m
        self.sums = np.zeros((n, self.stored))
        self.hits = np.zeros((n, self.stored))
        self.grams = _counters((self.stored, n, n), outputs.n_samples) if pairs else None

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
                _count(self.grams[k], votes @ votes.T)

    def agreement(self) -> NDArray[Any]:
        """Count the samples on which two learners vote alike, (N, N)."""
        assert self.grams is not None
        total: NDArray[Any] = self.grams.sum(
            axis=0, dtype=pair_counts(len(self.sums), self.outputs.n_samples)
        )
        if self.stored < len(self.outputs.classes):  # one of two classes
            sums = self.sums[:, 0].astype(total.dtype)
            total *= 2
            total -= sums[:, None]
            total -= sums
            total += self.outputs.n_samples
        return total

    def labels(self) -> LabelCounts:
        """Return the counts of the labels."""
        n, given = self.outputs.n_samples, self.sums
        if self.stored < len(self.outputs.classes):
            given = np.hstack([given, n - given])
        return _label_counts(n, self.agreement(), given)

    def result(self) -> Columns:
        """Return the moments of all blocks."""
        columns = _vote_columns(self.outputs, self.sums, self.hits)
        if self.stored < len(self.outputs.classes):
            columns = _with_complement(columns)
        if self.grams is None:
            return columns
        return replace(
            columns, pairs=VotePairs(self.grams, self.sums, len(self.outputs.classes), columns.n_samples)
        )


def pair_counts(n_learners: int, n_samples: int) -> type[np.signedinteger[Any]]:
    """Return the kind of numbers that count the samples of pairs; of many learners small ones, if products fit."""
    return np.int32 if n_learners > _MANY_LEARNERS and n_samples <= _MOST_SQUARED else np.int64


def _counters(shape: tuple[int, ...], most: int) -> NDArray[Any]:
    """Return zeros of the smallest whole numbers that can count the samples."""
    return np.zeros(shape, dtype=np.min_scalar_type(most))


def _count(counters: NDArray[Any], found: NDArray[Any]) -> None:
    """Add whole numbers that are held as floats."""
    counters += found.astype(counters.dtype)


def _label_counts(n_samples: int, agreement: NDArray[Any], given: FloatArray) -> LabelCounts:
    """Return the counts of complete labels, from how often each learner gives each, (N, m)."""
    shared = np.broadcast_to(np.int64(n_samples), agreement.shape)
    return LabelCounts(shared, agreement, (given @ given.T).astype(np.int64))


def _vote_columns(outputs: Outputs, sums: FloatArray, hits: FloatArray) -> Columns:
    """Return the moments of complete votes without pairs, from counts, (N, m) or its first columns."""
    n, truth = outputs.n_samples, _truth_means(outputs)
    return Columns(
        n_samples=n,
        means=sums / n,
        spread=sums * (n - sums) / n,
        constant=(sums == 0) | (sums == n),
        pairs=None,
        truth_means=truth,
        cross=None if truth is None else hits - sums * truth[: sums.shape[1]],
    )


def _with_complement(one: Columns) -> Columns:
    """Add the second of two classes: its outputs are one minus those of the first."""
    return replace(
        one,
        means=np.hstack([one.means, 1 - one.means]),
        spread=np.repeat(one.spread, 2, axis=1),
        constant=np.repeat(one.constant, 2, axis=1),
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
        self.pairs = pairs
        self.scatter = np.zeros((m, n, n)) if pairs and m * n * n <= _MOST_STORED else None

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
        truth = _truth_means(self.outputs)
        return Columns(
            n_samples=self.outputs.n_samples,
            means=self.means,
            spread=self.spread,
            constant=self._constant(),
            pairs=self if self.pairs else None,
            truth_means=truth,
            cross=None if truth is None else self.cross,
        )

    def slabs(self) -> Iterator[Slab]:
        """Yield the moments of pairs class by class."""
        spread = np.where(self._constant(), 0.0, self.spread).T
        for k in range(len(spread)):
            scatter = self._products(k) if self.scatter is None else self.scatter[k]
            for rows in _row_parts(len(scatter)):
                row, other = spread[k, rows, None], spread[k, None]
                yield Slab(slice(k, k + 1), rows, scatter[None, rows], row[None], other[None])

    def pooled(self) -> Slab:
        """Return the sums over the classes."""
        return _summed(self.slabs(), len(self.means))

    def _products(self, k: int) -> FloatArray:
        """Return the scatter of a class, read again."""
        found = np.zeros((len(self.means), len(self.means)))
        for block in self.outputs.blocks():
            column = self.outputs.column(k, block) - self.means[:, k][:, None]
            found += column @ column.T
        return found

    def _constant(self) -> NDArray[np.bool_]:
        probabilities = self.outputs.probabilities
        assert probabilities is not None
        # What differs by rounding alone is constant.
        dtype = probabilities.dtype if probabilities.dtype.kind == "f" else np.float64
        rounding = 4 * float(np.finfo(dtype).eps)
        constant: NDArray[np.bool_] = self.high - self.low <= rounding * self.high
        return constant


class SharedMoments:
    """Moments of outputs of which some are missing, for every two learners over the samples that both answered."""

    def __init__(self, outputs: Outputs, *, votes: bool = False) -> None:
        n, m = outputs.n_learners, len(outputs.classes)
        self.outputs = outputs
        self.one_hot = votes or outputs.probabilities is None
        self.counts, self.hits, self.truths = np.zeros((n, n)), np.zeros((n, m)), np.zeros((n, m))
        # Of the row's learner over the samples of the column's: sums, squares, and products of the two.
        shape = (m, n, n)
        if self.one_hot:
            self.sums, self.grams = _counters(shape, outputs.n_samples), _counters(shape, outputs.n_samples)
            self.squares = self.sums
        else:
            self.sums, self.squares, self.grams = (np.zeros(shape) for _ in range(3))

    def add(self, block: slice) -> None:
        """Add a block of samples."""
        labels = self.one_hot
        here: NDArray[Any] = self.outputs.present(block).astype(np.float32 if labels else np.float64)
        self.counts += here @ here.T
        for k in range(len(self.sums)):
            values: NDArray[Any] = self.outputs.one_hot(k, block) if labels else self.outputs.column(k, block)
            _count(self.sums[k], values @ here.T)
            if not labels:
                self.squares[k] += values**2 @ here.T
            _count(self.grams[k], values @ values.T)
            if self.outputs.truth_codes is not None:
                truth = (self.outputs.truth_codes[block] == k).astype(here.dtype)
                self.hits[:, k] += values @ truth
                self.truths[:, k] += here @ truth

    def agreement(self) -> NDArray[Any]:
        """Count the samples on which two learners vote alike, (N, N), if outputs are labels."""
        total: NDArray[Any] = self.grams.sum(axis=0, dtype=np.int64)
        return total

    def labels(self) -> LabelCounts:
        """Return the counts of the labels."""
        by_chance = np.zeros(self.counts.shape, dtype=np.int64)
        for sums in self.sums:
            by_chance += sums.astype(np.int64) * sums.T
        return LabelCounts(self.counts.astype(np.int64), self.agreement(), by_chance)

    def slabs(self) -> Iterator[Slab]:
        """Yield the moments of pairs class by class."""
        shared, enough = np.maximum(self.counts, 1), _enough(self.counts, self.outputs.n_samples)
        for k, (sums, squares) in enumerate(zip(self.sums, self.squares, strict=True)):
            for rows in _row_parts(len(shared)):
                own, other, both = sums[rows], sums.T[rows].astype(np.float64), shared[rows]
                parts = (
                    self.grams[k, rows] - own * (other / both),
                    _spread(squares[rows], own, both),
                    _spread(squares.T[rows], sums.T[rows], both),
                    ((own - other) / both) ** 2,
                )
                scatter, spread, other_spread, gaps = (part[None] for part in parts)
                yield Slab(slice(k, k + 1), rows, scatter, spread, other_spread, gaps, enough[None, rows])

    def pooled(self) -> Slab:
        """Return the sums over the classes."""
        return _summed(self.slabs(), len(self.counts))

    def result(self) -> Columns:
        """Return the moments of all blocks."""
        own = np.diagonal(self.sums, axis1=1, axis2=2).T.astype(np.float64)
        squares = np.diagonal(self.squares, axis1=1, axis2=2).T
        columns = _answered_columns(self.outputs, self.counts, own, squares, self.hits, self.truths)
        return replace(columns, pairs=self)


def _spread(squares: NDArray[Any], sums: NDArray[Any], shared: FloatArray) -> FloatArray:
    """Return sums of squared deviations; what differs by rounding alone is constant."""
    spread: FloatArray = np.maximum(squares - np.square(sums, dtype=np.float64) / shared, 0.0)
    spread[spread <= 1e-12 * squares] = 0.0
    return spread


def _enough(counts: FloatArray, n_samples: int) -> NDArray[np.bool_]:
    """Return which pairs share enough samples; a learner always does with itself."""
    enough: NDArray[np.bool_] = counts >= min(FEWEST_SHARED, n_samples)
    np.fill_diagonal(enough, val=True)
    return enough


def _answered_columns(
    outputs: Outputs,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
    hits: FloatArray,
    truths: FloatArray,
) -> Columns:
    """Return the moments without pairs where outputs are missing, each over what a learner answered, (N, m)."""
    answered, truth = np.maximum(np.diagonal(counts), 1)[:, None], _truth_means(outputs)
    spread = _spread(squares, sums, answered)
    return Columns(
        n_samples=outputs.n_samples,
        means=sums / answered,
        spread=spread,
        constant=spread == 0,
        pairs=None,
        truth_means=truth,
        cross=None if truth is None else hits - sums * truths / answered,
        shared=SharedColumns(
            counts=counts.astype(np.int64), truth_means=None if truth is None else truths / answered
        ),
    )


class CodedMoments:
    """Moments of votes for many classes: pair by pair, at a cost that is linear in the samples and in the classes.

    Votes may be missing. Nothing is gathered block by block: the codes of all votes are held.
    """

    def __init__(self, outputs: Outputs, *, pairs: bool = True) -> None:
        self.outputs, self.pairs = outputs, pairs

    def add(self, block: slice) -> None:
        """Do nothing."""

    @cached_property
    def given(self) -> FloatArray:
        """How often each learner gives each label, (N, m)."""
        return self._tables(self.outputs.codes, None)

    def agreement(self) -> NDArray[Any]:
        """Count the samples on which two learners vote alike, (N, N)."""
        codes = self.outputs.codes
        found = np.zeros((len(codes), len(codes)), dtype=np.int64)
        for i, own in enumerate(codes):
            for block in self.outputs.blocks():
                same = codes[i:, block] == own[block]
                if self.outputs.missing is not None:
                    same &= own[block] >= 0
                found[i, i:] += np.count_nonzero(same, axis=1)
            found[i:, i] = found[i, i:]
        return found

    def labels(self) -> LabelCounts:
        """Return the counts of the labels."""
        if self.outputs.missing is None:
            return _label_counts(self.outputs.n_samples, self.agreement(), self.given)
        by_chance = [(row * other).sum(axis=1) for row, other, _ in self._rows()]
        return LabelCounts(
            self._counts().astype(np.int64), self.agreement(), np.array(by_chance, dtype=np.int64)
        )

    def result(self) -> Columns:
        """Return the moments."""
        outputs, codes = self.outputs, self.outputs.codes
        hits = truths = np.zeros((1, 1))
        if (truth := outputs.truth_codes) is not None:
            hits = self._tables(np.where(codes == truth, codes, -1), None)
            if outputs.missing is not None:
                truths = self._tables(np.where(codes < 0, -1, truth), None)
        if outputs.missing is None:
            columns = _vote_columns(outputs, self.given, hits)
        else:
            columns = _answered_columns(outputs, self._counts(), self.given, self.given, hits, truths)
        return replace(columns, pairs=self) if self.pairs else columns

    def slabs(self) -> Iterator[Slab]:
        """Yield the moments of the pairs of one learner after the other, in all classes."""
        n, given = self.outputs.n_samples, self.given.T  # (m, N)
        if self.outputs.missing is None:
            spread = given * (n - given) / n
            for i, (_, _, gram) in enumerate(self._rows()):
                scatter = gram.T - given * (given[:, i : i + 1] / n)
                one = slice(i, i + 1)
                yield Slab(slice(None), one, scatter[:, None], spread[:, None, one], spread[:, None])
            return
        counts = self._counts()
        enough = _enough(counts, n)
        for i, tables in enumerate(self._rows()):
            row, other, gram = (table.T for table in tables)  # (m, N)
            shared = np.maximum(counts[i], 1)
            parts = (
                gram - row * other / shared,
                _spread(row, row, shared),
                _spread(other, other, shared),
                ((row - other) / shared) ** 2,
            )
            scatter, spread, other_spread, gaps = (part[:, None] for part in parts)
            yield Slab(
                slice(None), slice(i, i + 1), scatter, spread, other_spread, gaps, enough[None, i : i + 1]
            )

    def pooled(self) -> Slab:
        """Return the sums over the classes; of complete votes, from the agreement."""
        if self.outputs.missing is not None:
            return _summed(self.slabs(), len(self.given))
        n = self.outputs.n_samples
        scatter = self.agreement() - self.given @ self.given.T / n
        spread = (self.given * (n - self.given)).sum(axis=1) / n
        return Slab(slice(None), slice(None), scatter[None], spread[None, :, None], spread[None, None])

    def _counts(self) -> FloatArray:
        """Return the number of samples that two learners both answered, (N, N)."""
        here = self.outputs.present(slice(None)).astype(np.float32)
        return (here @ here.T).astype(np.float64)

    def _rows(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield for each learner how often it, each other one, and both give each label where both answer, (N, m)."""
        codes = self.outputs.codes
        for own in codes:
            gram = self._tables(np.where(codes == own, codes, -1), None)
            if self.outputs.missing is None:
                yield self.given, self.given, gram
            else:
                here = own >= 0
                yield self._tables(np.where(codes >= 0, own, -1), None), self._tables(codes, here), gram

    def _tables(self, codes: NDArray[Any], some: NDArray[np.bool_] | None) -> FloatArray:
        """Count the codes that are not negative in each row, (N, m)."""
        m = len(self.outputs.classes)
        rows = (row if some is None else row[some] for row in codes)
        return np.stack([np.bincount(row[row >= 0], minlength=m) for row in rows]).astype(np.float64)


LabelMoments = VoteMoments | SharedMoments | CodedMoments


def _truth_means(outputs: Outputs) -> FloatArray | None:
    if outputs.truth_codes is None:
        return None
    counts = np.bincount(outputs.truth_codes, minlength=len(outputs.classes))
    means: FloatArray = counts / outputs.n_samples
    return means
