"""The votes of some of the learners: how good smaller ensembles are, whichever learners they hold."""

from itertools import combinations
from math import comb

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import SubsetVotes
from counterpoint.outputs import Outputs, vote_credit, vote_scores

__all__ = ["subset_votes"]

_MOST_SUBSETS = 30  # of one size
_MOST_SIZES = 10
_MOST_WORK = 4e9  # multiplications; samples are left out of the middle sizes beyond that
_LEAST_SAMPLES = 500
_ENTRIES = 4_000_000  # scores held at once


def subset_votes(read: Outputs) -> SubsetVotes:
    """Return the accuracy of the hard vote of subsets of the learners, size by size.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth. Of very many samples an evenly spaced part is used for the sizes between one learner
        and all.

    Returns
    -------
    SubsetVotes
        All subsets of a size count if there are no more than 30, else 30 random ones. Of more than ten learners, some
        odd sizes are shown.

    Examples
    --------
    >>> found = subset_votes(Outputs([[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]], [0, 0, 1, 1]))
    >>> found.sizes.tolist(), found.mean.tolist()
    ([1, 2, 3], [0.75, 0.75, 1.0])
    """
    n, read = read.n_learners, read.compact
    spaced = np.geomspace(1, n, _MOST_SIZES).astype(np.int64) | 1
    sizes = np.arange(1, n + 1) if n <= _MOST_SIZES else np.unique([*spaced[spaced < n], n])
    rng = np.random.default_rng(0)
    middle = [_subsets(n, int(size), rng) for size in sizes[1:-1]]
    right = sum(read.right(block).sum(axis=1, dtype=np.float64) for block in read.blocks())
    accuracies = [right / (read.n_samples if read.missing is None else np.sum(~read.missing, axis=1))]
    if middle:
        rows = np.vstack(middle)
        found = _accuracies(_thinned(read, len(rows)), rows)
        accuracies += np.split(found, np.cumsum([len(one) for one in middle])[:-1])
    if n > 1:
        accuracies.append(_accuracies(read, np.ones((1, n))))
    low, high = np.transpose([np.quantile(one, [0.05, 0.95]) for one in accuracies])
    return SubsetVotes(sizes, np.array([one.mean() for one in accuracies]), low, high)


def _thinned(read: Outputs, n_subsets: int) -> Outputs:
    """Return the outputs for as many samples as can be voted on in reasonable time."""
    most = max(_LEAST_SAMPLES, int(_MOST_WORK / (n_subsets * read.n_learners * len(read.classes))))
    return read if read.n_samples <= most else read.take(slice(None, None, -(-read.n_samples // most)))


def _subsets(n: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Return subsets as rows of zeros and ones."""
    if comb(n, size) <= _MOST_SUBSETS:
        chosen = list(combinations(range(n), size))
    else:
        chosen = [tuple(rng.permutation(n)[:size].tolist()) for _ in range(_MOST_SUBSETS)]
    rows = np.zeros((len(chosen), n))
    for row, learners in zip(rows, chosen, strict=True):
        row[list(learners)] = 1.0
    return rows


def _accuracies(read: Outputs, subsets: FloatArray) -> FloatArray:
    assert read.truth_codes is not None
    totals, voted = np.zeros(len(subsets)), np.zeros(len(subsets))
    width = max(1, _ENTRIES // (len(subsets) * len(read.classes)))
    for start in range(0, read.n_samples, width):
        block = slice(start, min(start + width, read.n_samples))
        scores = vote_scores(read, subsets, block, ("hard",))["hard"]
        if read.missing is None:
            totals += [vote_credit(one, read.truth_codes[block]).sum() for one in scores]
            voted += block.stop - block.start
        else:
            cast = subsets @ read.present(block) > 0  # samples on which one of the subset votes
            pairs = zip(scores, cast, strict=True)
            totals += [vote_credit(one[:, some], read.truth_codes[block][some]).sum() for one, some in pairs]
            voted += cast.sum(axis=1)
    accuracies: FloatArray = totals / np.maximum(voted, 1)
    return accuracies
