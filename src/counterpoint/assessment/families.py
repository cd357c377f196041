r"""Families of learners: those whose errors coincide more than the rest of the panel has in common.

If a common difficulty is all that learners share (one-factor probit), the latent correlation of being right of two of
them is the product of a loading for each, which the other pairs tell. A pair whose errors coincide more often than
that has something of its own in common: training data, a base model, a prompt. False discoveries among all pairs are
held at 5 % (Benjamini and Hochberg 1995).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr, ndtri
from scipy.stats import false_discovery_control

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs import Correctness, Outputs

__all__ = ["connected", "error_families", "group_design"]

_FALSE = 0.05  # share of the pairs found that may be false
_MOST = 500  # learners
_FEWEST = 4  # learners, of which the others can tell what a pair has in common with all
_FEW = 8  # learners, of which a family must stand out even if it counts for what all have in common
_HALF = 0.5  # of what two of so few learners could share, beyond what the others imply
_PRECISION = 4.0  # of the loadings before the votes were seen: a standard deviation of one half
_DESIGN_PAIRS = 40
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NEWTON = 12
_ROUNDS = 8
_ALTERNATIONS = 30
_LARGEST = 0.999  # latent correlation


def error_families(counts: Correctness, design: float = 1.0) -> NDArray[np.bool_]:
    r"""Return the pairs whose errors coincide more than the rest of the panel has in common.

    Parameters
    ----------
    counts : Correctness
        Counts of right votes, with pairs.
    design : float, default=1.0
        How many samples are worth one, for samples that belong together.

    Returns
    -------
    ndarray of bool, shape (n_learners, n_learners)
        The pairs; none among fewer than four learners, and none among over 500.

    Notes
    -----
    With o and e the seen and expected counts of the four cells of a pair, whose margins are those that were seen,
    :math:`z = \sqrt{2 \sum o \log(o / e)}`, with one half taken from the excess for continuity, and divided by what
    the estimate of e adds to the variance.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> rng = np.random.default_rng(0)
    >>> votes = rng.random((6, 1000)) < 0.7
    >>> votes[5] = np.where(rng.random(1000) < 0.8, votes[4], votes[5])
    >>> counts = sufficient_statistics(Outputs(votes, np.ones(1000, dtype=bool)), correctness=True).correctness
    >>> connected(error_families(counts))
    ((4, 5),)
    """
    n = len(counts.right)
    pairs = np.zeros((n, n), dtype=bool)
    if not _FEWEST <= n <= _MOST or counts.both_right is None:
        return pairs
    shared = counts.shared / design
    rows, columns = np.triu_indices(n, 1)
    both = (counts.both_right / design)[rows, columns]
    first = (counts.shared_right / design)[rows, columns]
    second = (counts.shared_right / design)[columns, rows]
    total = shared[rows, columns]
    known = (total > 0) & (first > 0) & (second > 0) & (first < total) & (second < total)
    if not known.any():
        return pairs
    rows, columns = rows[known], columns[known]
    both, first, second, total = (counted[known] for counted in (both, first, second, total))
    h, k = ndtri(first / total), ndtri(second / total)
    latent = _latent(h, k, both / total)
    noise = np.sqrt(first * (total - first) * second * (total - second)) / total**2.5 / _density(h, k, 0.0)
    latent, noise = _matrix(n, rows, columns, latent, np.nan), _matrix(n, rows, columns, noise, np.inf)
    loadings = np.full(n, np.sqrt(np.clip(np.nanmedian(latent), 0.01, _LARGEST)))
    usual = np.full(len(rows), loadings[0] ** 2)
    own, found = noise[rows, columns], np.zeros(len(rows), dtype=bool)

    def beyond(implied: FloatArray, error: FloatArray) -> NDArray[np.bool_]:
        expected = total * _both(h, k, implied)
        z = _signed_root(both, first, second, total, expected) * own / np.hypot(own, error)
        unusual: NDArray[np.bool_] = false_discovery_control(ndtr(-z)) <= _FALSE
        return unusual

    def fitted(left_out: NDArray[np.bool_]) -> list[FloatArray]:
        weights = np.where(_matrix(n, rows, columns, left_out, True), 0.0, 1 / noise**2)
        return [values[rows, columns] for values in _one_factor(np.nan_to_num(latent), weights, loadings)]

    alone = beyond(*fitted(found))
    found = beyond(usual, np.zeros(len(rows)))
    for _ in range(_ROUNDS):  # without the pairs that were found, until they stay the same
        implied, error = fitted(found)
        before, found = found, beyond(implied, error)
        if (found == before).all():
            break
    if n <= _FEW:  # few learners with unequal loadings look like a family among others
        found &= alone | (latent[rows, columns] - implied > _HALF * (1 - implied))
    pairs[rows, columns] = pairs[columns, rows] = found
    return pairs


def connected(pairs: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """Return the learners that these pairs connect, the largest group first.

    Examples
    --------
    >>> connected(np.array([[False, False, True], [False, False, False], [True, False, False]]))
    ((0, 2),)
    """
    n_groups, group = connected_components(pairs, directed=False)
    groups = [tuple(np.flatnonzero(group == g).tolist()) for g in range(n_groups)]
    return tuple(sorted((g for g in groups if len(g) > 1), key=len, reverse=True))


def group_design(read: Outputs, counts: Correctness, groups: NDArray[np.intp] | None) -> float:
    """Return how many samples are worth one for the coincidence of errors, where samples belong together.

    It is the variance of the product of two learners' deviations over groups, over that for single samples, averaged
    over pairs.

    Examples
    --------
    >>> from counterpoint.outputs import sufficient_statistics
    >>> right = np.repeat(np.random.default_rng(0).random((3, 500)) < 0.7, 4, axis=1)  # each sample four times
    >>> read = Outputs(right, np.ones(2000, dtype=bool))
    >>> counts = sufficient_statistics(read, correctness=True).correctness
    >>> round(group_design(read, counts, np.repeat(np.arange(500), 4)), 2)
    4.0
    """
    n = len(counts.right)
    if groups is None or n < 2:
        return 1.0
    accuracies = (counts.right / counts.answered)[:, None]
    rows, columns = np.triu_indices(n, 1)
    some = np.unique(np.linspace(0, len(rows) - 1, _DESIGN_PAIRS).astype(int))
    every = slice(0, len(groups))
    deviations = read.right(every) - accuracies * read.present(every)
    ratios = []
    for i, j in zip(rows[some], columns[some], strict=True):
        product = deviations[i] * deviations[j]
        product = (product - product.mean()) * (product != 0)
        alone = float((product**2).sum())
        if alone > 0:
            ratios.append(float((np.bincount(groups, product) ** 2).sum()) / alone)
    return max(float(np.mean(ratios)), 1.0) if ratios else 1.0


def _matrix(n: int, rows: IntArray, columns: IntArray, values: NDArray[Any], other: Any) -> NDArray[Any]:
    """Return the symmetric matrix of values of pairs."""
    matrix = np.full((n, n), other, dtype=values.dtype)
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def _one_factor(latent: FloatArray, weights: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the products of two loadings, each fitted without this pair, and their standard errors.

    Weighted least squares over the pairs, by alternating over the learners, with loadings of about one half in mind:
    where nothing is shared, nothing else holds them.
    """
    loadings = start.copy()
    for _ in range(_ALTERNATIONS):
        for i in range(len(loadings)):
            weight = weights[i] * loadings
            loadings[i] = np.clip(weight @ latent[i] / (weight @ loadings + _PRECISION), 0, 1)
    above, below = (
        weights * latent * loadings,
        weights * loadings**2,
    )  # (i, j), to be left out of the sums over j
    above = above.sum(axis=1, keepdims=True) - above
    below = below.sum(axis=1, keepdims=True) - below + _PRECISION
    without, variance = np.clip(above / below, 0, 1), loadings**2 / below
    return np.clip(without * without.T, 0, _LARGEST), np.sqrt(variance + variance.T)


def _density(h: FloatArray, k: FloatArray, r: FloatArray | float) -> FloatArray:
    """Return the density of two normal variables with correlation r."""
    rest = 1 - np.square(r)
    density: FloatArray = np.exp(-(h**2 - 2 * r * h * k + k**2) / (2 * rest)) / (2 * np.pi * np.sqrt(rest))
    return density


def _both(h: FloatArray, k: FloatArray, r: FloatArray) -> FloatArray:
    """Return the probability that two normal variables with correlation r are under h and k (Plackett 1954).

    The density is integrated over the angle whose sine is the correlation, where it is smooth up to 1.
    """
    angle = np.arcsin(r)
    total = np.zeros(np.shape(h))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        s = np.sin(angle * (1 + node) / 2)
        total += weight * np.exp(-(h**2 - 2 * s * h * k + k**2) / (2 * (1 - s**2)))
    both: FloatArray = ndtr(h) * ndtr(k) + total * angle / (4 * np.pi)
    return both


def _latent(h: FloatArray, k: FloatArray, both: FloatArray) -> FloatArray:
    """Return the correlation for which two normal variables are under h and k with this probability."""
    low, high = np.full(np.shape(h), -_LARGEST), np.full(np.shape(h), _LARGEST)
    r = np.zeros(np.shape(h))
    for _ in range(_NEWTON):
        miss = _both(h, k, r) - both
        low, high = np.where(miss < 0, r, low), np.where(miss > 0, r, high)
        step = r - miss / np.maximum(_density(h, k, r), 1e-12)
        r = np.where((step > low) & (step < high), step, (low + high) / 2)
    return r


def _signed_root(
    both: FloatArray, first: FloatArray, second: FloatArray, total: FloatArray, expected: FloatArray
) -> FloatArray:
    """Return the signed root of the deviance of tables with fixed margins, less one half for continuity."""
    excess = both - expected
    seen = expected + np.sign(excess) * np.maximum(np.abs(excess) - 0.5, 0)
    deviance = np.zeros(np.shape(both))
    for o, e in (
        (seen, expected),
        (first - seen, first - expected),
        (second - seen, second - expected),
        (total - first - second + seen, total - first - second + expected),
    ):
        o, e = np.maximum(o, 0.0), np.maximum(e, 1e-9)
        deviance += o * np.log(np.maximum(o, 1e-12) / e)
    return np.sign(excess) * np.sqrt(np.maximum(2 * deviance, 0.0))
