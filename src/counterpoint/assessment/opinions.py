r"""Learners that are copies of one another, found from votes alone, and merged into one opinion.

If errors are independent, the kappa of two learners is about the product of a number for each, so that it is
:math:`k_{ir} k_{js} / k_{rs}` for any two others r and s (a tetrad). A learner that copies another with probability f,
and votes for itself otherwise, has :math:`k = f + (1 - f) k_0` with this kappa :math:`k_0`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs import mean_defined

__all__ = ["CLOSE", "Copies", "find_copies", "merged_votes", "opinion_of"]

CLOSE = 0.15  # kappa beyond what other pairs imply that is worth a word
_COPIED = 0.5  # two learners that copy each other more often are nearer to one opinion than to two
_NEAR = 0.9  # kappa of near-copies
_APART = 0.8  # f of near-copies among so few learners that the others cannot tell how accurate they are
_FAR, _NEARER = 2.0, 1.3  # times the spread of one kappa: that of what the others imply comes on top
_OTHERS = 20  # learners whose tetrads are looked at


class Copies(NamedTuple):
    """Pairs that agree more than their agreement with the others explains.

    Attributes
    ----------
    families : tuple of tuples of int
        Learners that count as one opinion.
    pairs : list of tuples of int
        All pairs that agree more than the others explain, also those that are no copies.
    excess : ndarray of shape (n_learners, n_learners)
        Kappa beyond the one that the others imply.
    unclear : bool
        Whether a family may as well be nearly always right, as the others are too few to tell.
    alike : bool
        Whether all learners nearly always agree, so that nobody can tell whether they are copies or right.

    Examples
    --------
    >>> kappas = np.array([[1.0, 0.95, 0.2], [0.95, 1.0, 0.2], [0.2, 0.2, 1.0]])
    >>> find_copies(kappas, np.full((3, 3), 500)).families
    ((0, 1),)
    """

    families: tuple[tuple[int, ...], ...]
    pairs: list[tuple[int, int]]
    excess: FloatArray
    unclear: bool
    alike: bool


def find_copies(kappas: FloatArray, shared: IntArray) -> Copies:
    """Return who copies whom, from the kappa of every two learners and the number of samples that both judged.

    Examples
    --------
    >>> kappas = np.full((5, 5), 0.3) + 0.7 * np.eye(5)
    >>> find_copies(kappas, np.full((5, 5), 500)).pairs
    []
    """
    n = len(kappas)
    noise = 1 / np.sqrt(np.maximum(shared, 1))
    near = np.nan_to_num(kappas) >= _NEAR
    _, cluster = connected_components(near & ~np.eye(n, dtype=bool), directed=False)
    implied, few = _implied(kappas, noise, cluster)
    excess = kappas - implied
    limit = np.sqrt(2 * np.log(20 * max(n * (n - 1) // 2, 1)))  # it grows with the number of pairs tested
    spread = noise * (1 - np.clip(np.nan_to_num(implied), 0, 1) ** 2)  # as of a correlation
    beyond = np.nan_to_num(excess)
    close = beyond > np.maximum(_FAR * limit * noise, CLOSE)
    copied = (
        ~few & (beyond > np.maximum(_NEARER * limit * spread, CLOSE)) & (beyond > _COPIED * (1 - implied))
    )
    unclear = close & few & near & (beyond > _APART * (1 - implied))
    copied |= unclear
    np.fill_diagonal(copied, val=False)
    _, family = connected_components(copied, directed=False)
    families = [tuple(np.flatnonzero(family == f).tolist()) for f in range(family.max() + 1)]
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(copied | (close & ~few), 1))]
    alike = n > 1 and bool((cluster == cluster[0]).all())
    return Copies(
        tuple(f for f in families if len(f) > 1), pairs, excess, bool(np.triu(unclear, 1).any()), alike
    )


def _implied(
    kappas: FloatArray, noise: FloatArray, cluster: NDArray[np.int32]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the kappa of every two learners that the others imply, and whether there are too few others to tell.

    It is the median over tetrads of learners that are no near-copies of the two, which stands even if some pairs are
    copies. Where there is no tetrad, near-copies should agree with the others as they do with each other.
    """
    n = len(kappas)
    firm = np.where(kappas > 2 * noise, kappas, np.nan)
    np.fill_diagonal(firm, np.nan)
    implied, few = np.full((n, n), np.nan), np.zeros((n, n), dtype=bool)
    for i in range(n - 1):
        later = np.arange(i + 1, n)
        near = cluster[later] == cluster[i]
        others = _thinned(np.delete(np.arange(n), i))
        implied[i, later] = _tetrads(kappas, firm, i, later, others)
        if near.any():
            others = _thinned(np.flatnonzero(cluster != cluster[i]))
            implied[i, later[near]] = _tetrads(kappas, firm, i, later[near], others)
            cross = kappas[np.ix_(later[near], others)]
            few[i, later] = near & np.isnan(implied[i, later])
            if others.size:
                like_others = np.clip(
                    (mean_defined(kappas[i, others]) + mean_defined(cross, axis=1)) / 2, 0, 1
                )
                implied[i, later[near]] = np.where(few[i, later[near]], like_others, implied[i, later[near]])
    lower = np.tril_indices(n, -1)
    implied[lower], few[lower] = implied.T[lower], few.T[lower]
    return implied, few


def _thinned(learners: NDArray[np.intp]) -> NDArray[np.intp]:
    if len(learners) <= _OTHERS:
        return learners
    some: NDArray[np.intp] = learners[np.linspace(0, len(learners) - 1, _OTHERS).astype(int)]
    return some


def _tetrads(
    kappas: FloatArray, firm: FloatArray, i: int, later: NDArray[np.intp], others: NDArray[np.intp]
) -> FloatArray:
    """Return the median tetrad of i with each of the later ones, NaN where there is none."""
    second = np.where(later[:, None] == others, np.nan, kappas[np.ix_(later, others)])  # the others are not j
    between = np.where(later[:, None, None] == others[:, None], np.nan, firm[np.ix_(others, others)])
    tetrads = kappas[i, others][:, None] * second[:, None, :] / between
    tetrads = np.sort(tetrads.reshape(len(later), -1), axis=1)  # NaN come last
    known = np.count_nonzero(~np.isnan(tetrads), axis=1)
    if not known.any():
        return np.full(len(later), np.nan)
    rows = np.arange(len(later))
    middle = (tetrads[rows, np.maximum(known - 1, 0) // 2] + tetrads[rows, known // 2 * (known > 0)]) / 2
    return np.where(known > 0, middle, np.nan)


def opinion_of(n_learners: int, families: Sequence[Sequence[int]]) -> NDArray[np.intp]:
    """Return the position of the opinion of each learner.

    Examples
    --------
    >>> opinion_of(4, [(1, 3)])
    array([0, 1, 2, 1])
    """
    first = np.arange(n_learners)
    for family in families:
        first[list(family)] = min(family)
    opinion: NDArray[np.intp] = np.unique(first, return_inverse=True)[1]
    return opinion


def merged_votes(codes: NDArray[np.int32], families: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return one row of votes for each opinion: what most of a family say, nothing where they are tied.

    Examples
    --------
    >>> merged_votes(np.array([[0, 1, 1], [0, 0, 1], [1, 1, -1]], dtype=np.int32), [(0, 1)])
    array([[ 0, -1,  1],
           [ 1,  1, -1]], dtype=int32)
    """
    if not families:
        return codes
    opinion = opinion_of(len(codes), families)
    merged = np.empty((opinion.max() + 1, codes.shape[1]), dtype=codes.dtype)
    merged[opinion] = codes
    for family in families:
        merged[opinion[family[0]]] = _plurality(codes[list(family)])
    return merged


def _plurality(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the label with the most votes on each sample, -1 where there is none."""
    counts = np.array(
        [((codes == row) & (row >= 0)).sum(axis=0) for row in codes]
    )  # for the label of each row
    most = counts.max(axis=0)
    leads = (counts == most) & (most > 0)
    label: NDArray[np.int32] = codes[counts.argmax(axis=0), np.arange(codes.shape[1])]
    alone = np.all(~leads | (codes == label), axis=0) & (most > 0)
    return np.where(alone, label, -1).astype(codes.dtype)
