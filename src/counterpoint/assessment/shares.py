"""The mean output of those who answered, its correlation with the truth, and what each sample adds to it.

Notation: N learners, n samples, B samples of a block, m classes; X the output of a learner on a sample, one-hot for a
vote, S the mean output of those who answered, T the truth, one-hot. Correlations are pooled over the classes:
``r = sum_k cov_k / sqrt(sum_k var_k(X) sum_k var_k(T))``. Time and memory are linear in the votes, whatever m is.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import GroupSums
from counterpoint.assessment.weights import vote_weights
from counterpoint.outputs import Outputs

__all__ = ["EDGE", "Products", "Sampling", "Sums", "output_blocks", "pooled_correlation"]

EDGE = 1e-9  # from a correlation of 1, whose signal has no end
_MOST_SAMPLES = 20_000  # of which the uncertainty is estimated
_MOST_ENTRIES = 2 * 10**7
_BLOCK = 2**21  # outputs that are held at once
_DENSE = 64  # classes that are counted one by one


class OutputBlock(NamedTuple):
    """The outputs X of the learners on some samples, their mean S, and the truth T."""

    truth: IntArray  # (B,), positions of the classes
    here: NDArray[np.bool_]  # (N, B), who answers
    voters: IntArray  # (B,)
    right: FloatArray  # (N, B), X.T
    square: FloatArray  # (N, B), X.X
    with_mean: FloatArray  # (N, B), X.S
    codes: IntArray | None  # (N, B), of votes
    proba: Any  # (N, B, m), of probabilities

    def dot(self, vectors: FloatArray) -> FloatArray:
        """Return X.v of each learner with its row of (N, m), or with one vector (m,) for all, (N, B)."""
        if self.codes is None:
            every = np.broadcast_to(vectors, (len(self.here), vectors.shape[-1]))
            products: FloatArray = np.einsum("nbm,nm->nb", self.proba, every)
            return products
        taken = vectors[self.codes] if vectors.ndim == 1 else np.take_along_axis(vectors, self.codes, axis=1)
        return np.where(self.here, taken, 0.0)

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean of (N, B) over those who answer, 0 where nobody does, (B,)."""
        total: FloatArray = values.sum(axis=0) / np.maximum(self.voters, 1)
        return total

    def with_weighted(self, weights: FloatArray, m: int) -> FloatArray:
        """Return X.S where S is the sum of the outputs with weights (N, B), (N, B)."""
        if self.codes is None:
            mean = np.einsum("nbm,nb->bm", self.proba, weights)
            products: FloatArray = np.einsum("nbm,bm->nb", self.proba, mean)
            return products
        return _same_votes(self.codes, weights, m)

    def totals(self, weights: FloatArray, m: int) -> FloatArray:
        """Return the sum of X over the samples, weighted by (N, B), for each learner, (N, m)."""
        if self.codes is None:
            total: FloatArray = np.einsum("nbm,nb->nm", self.proba, weights)
            return total
        rows = zip(self.codes, weights, strict=True)
        return np.stack([np.bincount(codes, row, minlength=m) for codes, row in rows])


def output_blocks(read: Outputs, voting: str) -> Iterator[OutputBlock]:
    """Yield the outputs block by block: votes, or probabilities where these are pooled."""
    assert read.truth_codes is not None
    m = len(read.classes)
    codes_of = _coder(read) if voting == "hard" else None
    width = max(_BLOCK // (read.n_learners * (m if codes_of is None else 1)), 1)
    for start in range(0, read.n_samples, width):
        block = slice(start, min(start + width, read.n_samples))
        here, truth = read.present(block), read.truth_codes[block]
        voters = here.sum(axis=0)
        if codes_of is not None:
            codes = np.where(here, codes_of(read.votes[:, block]), 0)
            square = here.astype(np.float64)
            with_mean = square * _same_votes(codes, square, m) / np.maximum(voters, 1)
            yield OutputBlock(truth, here, voters, (codes == truth) * square, square, with_mean, codes, None)
        else:
            assert read.probabilities is not None
            proba = np.array(read.probabilities[:, block], dtype=np.float64)
            mean = proba.sum(axis=0) / np.maximum(voters, 1)[:, None]
            right, square = proba[:, np.arange(len(truth)), truth], (proba**2).sum(axis=2)
            with_mean = np.einsum("nbm,bm->nb", proba, mean)
            yield OutputBlock(truth, here, voters, right, square, with_mean, None, proba)


def _coder(read: Outputs) -> Any:
    """Return what turns votes into positions of their classes."""
    symbols = np.asarray(read.symbols)
    if symbols.dtype.kind in "iu" and np.array_equal(symbols, np.arange(len(symbols))):
        return lambda votes: votes.astype(np.int64)
    order = np.argsort(symbols)
    return lambda votes: order[np.searchsorted(symbols, votes, sorter=order)]


def _same_votes(codes: IntArray, weights: FloatArray, m: int) -> FloatArray:
    """Return the weight of those who give the same vote on a sample, from weights (N, B), 0 for missing votes."""
    samples = np.arange(codes.shape[1])
    if m <= _DENSE:
        tally = np.stack([np.where(codes == k, weights, 0.0).sum(axis=0) for k in range(m)])
        same: FloatArray = tally[codes, samples]
        return same
    _, place = np.unique(samples * m + codes, return_inverse=True)
    place = place.reshape(codes.shape)
    return np.bincount(place.ravel(), weights.ravel())[place].astype(np.float64)


def pooled_correlation(cov: Any, var_x: Any, var_t: Any) -> FloatArray:
    """Return correlations from sums over the classes; NaN where nothing varies."""
    defined = (np.asarray(var_x) > 1e-12) & (np.asarray(var_t) > 1e-12)
    spread = np.sqrt(np.where(defined, np.asarray(var_x) * var_t, 1.0))
    return np.where(defined, np.clip(np.asarray(cov) / spread, -1, 1), np.nan)


class Sums:
    """Sums over all samples, from which every correlation follows."""

    def __init__(self, read: Outputs, voting: str) -> None:
        n, m = read.n_learners, len(read.classes)
        self.complete = read.missing is None
        self.right, self.square, self.answered = np.zeros((3, n))
        self.given = np.zeros((n, m))
        self.truths = np.zeros((1 if self.complete else n, m))  # where a learner answers
        self.mean, self.voted = np.zeros((2, m))
        self.panel_right = self.panel_square = 0.0
        self.rest_right, self.rest_square = np.zeros((2, n))
        self.lost = np.zeros(
            (1 if self.complete else n, m)
        )  # truths of samples that only one learner answers
        self.moved = np.zeros((1 if self.complete else n, m))  # S less S without a learner, summed
        for block in output_blocks(read, voting):
            self._add(block, m)

    def _add(self, b: OutputBlock, m: int) -> None:
        here = b.here.astype(np.float64)
        self.right += b.right.sum(axis=1)
        self.square += b.square.sum(axis=1)
        self.answered += here.sum(axis=1)
        given = b.totals(here, m)
        self.given += given
        some, k = b.voters > 0, np.maximum(b.voters, 1)
        self.voted += np.bincount(b.truth[some], minlength=m)
        share, square = b.mean(b.right), b.mean(b.with_mean)  # S.T and S.S
        self.panel_right += share.sum()
        self.panel_square += square.sum()
        fewer = np.maximum(k - 1, 1)
        others = b.here & (b.voters > 1)
        # S without X is (k S - X) / (k - 1)
        right = np.where(others, (k * share - b.right) / fewer, np.where(b.here, 0.0, share))
        squares = (k**2 * square - 2 * k * b.with_mean + b.square) / fewer**2
        self.rest_right += right.sum(axis=1)
        self.rest_square += np.where(others, squares, np.where(b.here, 0.0, square)).sum(axis=1)
        if self.complete:
            self.mean += given.sum(axis=0) / len(here)
            self.truths[0] += np.bincount(b.truth, minlength=m)
            return
        self.mean += b.totals(here / k, m).sum(axis=0)
        true = csr_array((np.ones(len(b.truth)), (np.arange(len(b.truth)), b.truth)), shape=(len(b.truth), m))
        self.truths += here @ true
        alone = b.here & (b.voters == 1)
        self.lost += alone @ true
        # S - S_without = (X - S) / (k - 1) where others answer; S where nobody else does
        inside = others / fewer
        self.moved += b.totals(inside, m) + b.totals(alone.astype(np.float64), m) - inside @ _shares(b, m)

    def less(self, part: Self) -> Self:
        """Return the sums without those of some of the samples."""
        rest = copy(self)
        for name, sums in vars(part).items():
            if name != "complete":
                setattr(rest, name, getattr(self, name) - sums)
        return rest

    def learners(self) -> FloatArray:
        """Return r of each learner, (N,)."""
        n = np.maximum(self.answered, 1)
        q, t = self.given / n[:, None], self.truths / n[:, None]
        cov = self.right / n - (q * t).sum(axis=1)
        return pooled_correlation(cov, self.square / n - (q**2).sum(axis=1), 1 - (t**2).sum(axis=1))

    def panel(self) -> float:
        """Return rho."""
        n = max(self.voted.sum(), 1.0)
        q, t = self.mean / n, self.voted / n
        return float(
            pooled_correlation(self.panel_right / n - q @ t, self.panel_square / n - q @ q, 1 - t @ t)
        )

    def without(self) -> FloatArray:
        """Return rho without each learner, (N,)."""
        if self.complete:
            n_learners = len(self.right)
            rest = (n_learners * self.mean - self.given) / max(n_learners - 1, 1)
        else:
            rest = self.mean - self.moved
        truths = self.voted - self.lost
        n = np.maximum(truths.sum(axis=1), 1)
        q, t = rest / n[:, None], truths / n[:, None]
        cov = self.rest_right / n - (q * t).sum(axis=1)
        return pooled_correlation(cov, self.rest_square / n - (q**2).sum(axis=1), 1 - (t**2).sum(axis=1))


def _shares(b: OutputBlock, m: int) -> Any:
    """Return S of a block, (B, m), sparse for votes."""
    if b.proba is not None:
        return b.proba.sum(axis=0) / np.maximum(b.voters, 1)[:, None]
    assert b.codes is not None
    learner, sample = np.nonzero(b.here)
    entries = 1 / b.voters[sample]
    return csr_array((entries, (sample, b.codes[learner, sample])), shape=(len(b.truth), m))


class Sampling:
    """How far chance moves the z of the panel and of the learners: the influence of each sample.

    Of many samples, some groups at random are enough.
    """

    def __init__(self, read: Outputs, voting: str, groups: NDArray[np.intp] | None) -> None:
        most = min(_MOST_SAMPLES, max(_MOST_ENTRIES // read.n_learners, 500))
        self.share = 1.0
        if read.n_samples > most:
            chosen = _some_groups(read.n_samples, most, groups)
            self.share = len(chosen) / read.n_samples
            read = read.take(chosen)
            groups = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
        self.read, self.groups = read, groups
        self.n_groups = read.n_samples if groups is None else int(groups.max()) + 1
        self.sums = Sums(read, voting)
        parts = [self._influence(block, self.sums) for block in output_blocks(read, voting)]
        self.panel = np.concatenate([one[0] for one in parts])  # (n,)
        self.learners = np.concatenate([one[1] for one in parts], axis=1)  # (N, n)
        codes = np.arange(read.n_samples) if groups is None else groups
        self.sizes = np.bincount(codes).astype(np.float64)
        self.freedom = GroupSums.of(self.panel, codes).freedom()

    def _influence(self, b: OutputBlock, sums: Sums) -> tuple[FloatArray, FloatArray]:
        n = np.maximum(sums.answered, 1)[:, None]
        r = np.nan_to_num(sums.learners())[:, None]
        q, t = sums.given / n, np.broadcast_to(sums.truths / n, sums.given.shape)
        learners = _one_influence(
            b.right - b.dot(t) - q[:, b.truth] + (q * t).sum(axis=1, keepdims=True),
            b.square - 2 * b.dot(q) + (q**2).sum(axis=1, keepdims=True),
            1 - 2 * t[:, b.truth] + (t**2).sum(axis=1, keepdims=True),
            r,
            (sums.square[:, None] / n - (q**2).sum(axis=1, keepdims=True)),
            1 - (t**2).sum(axis=1, keepdims=True),
        )
        learners = learners * b.here * self.read.n_samples / n
        voted = max(sums.voted.sum(), 1.0)
        mean, true = sums.mean / voted, sums.voted / voted
        panel = _one_influence(
            b.mean(b.right) - b.mean(b.dot(true)) - mean[b.truth] + mean @ true,
            b.mean(b.with_mean) - 2 * b.mean(b.dot(mean)) + mean @ mean,
            1 - 2 * true[b.truth] + true @ true,
            sums.panel(),
            sums.panel_square / voted - mean @ mean,
            1 - true @ true,
        )
        return panel * (b.voters > 0) * self.read.n_samples / voted, learners

    def parts(self, number: int) -> list[Outputs]:
        """Return the samples in so many parts at random, groups whole."""
        units = np.arange(self.read.n_samples) if self.groups is None else self.groups
        part = np.random.default_rng(0).permutation(self.n_groups)[units] % number
        return [self.read.take(np.flatnonzero(part == k)) for k in range(min(number, self.n_groups))]

    def apart(self, fit: NDArray[np.bool_]) -> float:
        """Return the variance of one learner's z about the mean of all, by chance."""
        each = self._by_group(self.learners[fit] - self.learners[fit].mean(axis=0))
        n = int(fit.sum())
        if n < 2:
            return 0.0
        return float((each**2).sum(axis=1).mean()) * self._scale() * n / (n - 1)

    def covariance(self, weights: FloatArray, fit: NDArray[np.bool_]) -> FloatArray:
        """Return the covariance of z of the panel, of the weighted learners, and of the latter less the mean."""
        best = weights @ self.learners[fit]
        rows = np.stack([self.panel, best, best - self.learners[fit].mean(axis=0)])
        each = self._by_group(rows)
        covariance: FloatArray = each @ each.T * self._scale()
        return covariance

    def _by_group(self, rows: FloatArray) -> FloatArray:
        """Return sums over groups, corrected for the leverage of large ones; influences have no mean."""
        if self.groups is not None:
            order = np.argsort(self.groups, kind="stable")
            starts = np.searchsorted(self.groups[order], np.arange(self.n_groups))
            rows = np.add.reduceat(rows[:, order], starts, axis=1)
        leverage: FloatArray = rows / np.sqrt(1 - self.sizes / self.sizes.sum())
        return leverage

    def _scale(self) -> float:
        return float(self.share / self.read.n_samples**2)


def _one_influence(
    cross: FloatArray, x: FloatArray, t: FloatArray, r: Any, var_x: Any, var_t: Any
) -> FloatArray:
    """Return the influence of samples on z, from their products of deviations."""
    var_x, var_t = np.maximum(var_x, 1e-12), np.maximum(var_t, 1e-12)
    on_r = cross / np.sqrt(var_x * var_t) - r / 2 * (x / var_x + t / var_t)
    influence: FloatArray = on_r / np.maximum(1 - np.asarray(r) ** 2, EDGE)
    return influence


def _some_groups(n: int, most: int, groups: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return about so many samples, whole groups at random."""
    rng = np.random.default_rng(0)
    if groups is None:
        return np.sort(rng.choice(n, most, replace=False))
    order = rng.permutation(int(groups.max()) + 1)
    rank = np.argsort(order)
    total = np.bincount(groups)[order].cumsum()
    kept = max(int(np.searchsorted(total, most, side="right")), 2)
    chosen: NDArray[np.intp] = np.flatnonzero(rank[groups] < kept)
    return chosen


class Products(NamedTuple):
    """Sums of products over samples; those of two sets of samples add up."""

    alike: FloatArray  # (N, N), X.X of two learners
    shared: FloatArray  # (N, N), samples that both answer
    given: FloatArray  # (N, m)
    right: FloatArray  # (N,), X.T
    truths: FloatArray  # (N, m), where a learner answers

    @classmethod
    def of(cls, read: Outputs, voting: str) -> Self:
        """Read the samples once."""
        n, m = read.n_learners, len(read.classes)
        alike, shared = np.zeros((2, n, n))
        given, truths = np.zeros((2, n, m))
        right = np.zeros(n)
        for b in output_blocks(read, voting):
            here = b.here.astype(np.float64)
            alike += _alike(b)
            shared += here @ here.T
            given += b.totals(here, m)
            right += b.right.sum(axis=1)
            true = csr_array(
                (np.ones(len(b.truth)), (np.arange(len(b.truth)), b.truth)), shape=(len(b.truth), m)
            )
            truths += here @ true
        return cls(alike, shared, given, right, truths)

    @classmethod
    def total(cls, parts: list[Self]) -> Self:
        """Return the sums over all samples of the parts."""
        return cls(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))

    def best_weights(self) -> FloatArray:
        """Return the non-negative weights with which the weighted mean correlates most with the truth."""
        answered = np.maximum(np.diagonal(self.shared), 1)
        q, t = self.given / answered[:, None], self.truths / answered[:, None]
        covariance = self.alike / np.maximum(self.shared, 1) - q @ q.T
        spread = np.sqrt(np.maximum(np.diagonal(covariance), 0))
        r = pooled_correlation(self.right / answered - (q * t).sum(axis=1), spread**2, 1 - (t**2).sum(axis=1))
        varies = spread > 1e-9
        scale = np.where(varies, spread, np.inf)
        matrix = np.clip(covariance / np.outer(scale, scale), -1, 1)
        weights = vote_weights(np.where(varies, r, np.nan), matrix)[0]
        return weights / np.where(varies, spread, 1.0)


def _alike(b: OutputBlock) -> FloatArray:
    """Return X.X of every two learners, summed over a block, (N, N)."""
    if b.codes is None:
        rows = b.proba.reshape(len(b.proba), -1)
        products: FloatArray = rows @ rows.T
        return products
    pairs = [
        ((b.codes == codes) & b.here & here).sum(axis=1) for codes, here in zip(b.codes, b.here, strict=True)
    ]
    return np.array(pairs, dtype=np.float64)
