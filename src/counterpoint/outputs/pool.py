r"""How a vote pools what the learners give to each class.

Notation: N learners, B samples of a block, m classes. A learner gives a class its vote (hard), its probability (soft)
or the logarithm of its probability (geometric). The weighted sum over the learners is the tally, (m, B): the class with
the most wins. With weights that sum to one, the tally gives the probabilities of the vote.
"""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.outputs.outputs import Outputs

VOTINGS = ("hard", "soft", "geometric")
# The smallest normal number stands in for a probability of 0, which has no logarithm.
TINY = float(np.finfo(np.float64).tiny)
EPSILON = float(np.finfo(np.float64).eps)
_PART_ENTRIES = 2**16  # half a megabyte of probabilities


def log_losses(proba: NDArray[Any]) -> FloatArray:
    """Return minus the logarithms of probabilities, clipped at the machine epsilon as scikit-learn does."""
    losses: FloatArray = -np.log(np.maximum(proba, EPSILON, dtype=np.float64))
    return losses


def log_probabilities(proba: NDArray[Any], out: FloatArray | None = None) -> FloatArray:
    """Return the logarithms of probabilities, which are clipped at ``TINY``."""
    clipped: FloatArray = np.maximum(proba, TINY, out=out, dtype=np.float64)
    return np.log(clipped, out=clipped)


def log_normalise(logs: FloatArray, axis: int = -1) -> FloatArray:
    """Scale the exponentials along an axis to sum to one."""
    top = logs.max(axis=axis, keepdims=True)
    shifted: FloatArray = logs - top
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def given(read: Outputs, learner: int, block: slice, voting: str) -> NDArray[Any]:
    """Return what a learner gives to each class, (m, B)."""
    if voting == "hard":
        return np.stack([read.votes[learner, block] == symbol for symbol in read.symbols])
    assert read.probabilities is not None
    proba = read.probabilities[learner, block].T
    return log_probabilities(proba) if voting == "geometric" else proba


def tallies(
    read: Outputs, weights: FloatArray, block: slice, votings: Collection[str]
) -> dict[str, FloatArray]:
    """Return the tallies of several ways to vote, each (r, m, B) for weights (r, N), from one reading.

    All in 64 bits: in 32 the rounding of the weights would break ties.
    """
    m = len(read.symbols)
    sums = {voting: np.empty((len(weights), m, block.stop - block.start)) for voting in votings}
    if "hard" in sums:
        for k in range(m):
            sums["hard"][:, k] = weights @ read.voted(k, block)
    for part in _parts(read, block) if sums.keys() - {"hard"} else ():
        assert read.probabilities is not None
        rows = np.array(read.probabilities[:, part], dtype=np.float64).reshape(read.n_learners, -1)
        there = slice(part.start - block.start, part.stop - block.start)
        if "soft" in sums:
            sums["soft"][:, :, there] = (weights @ rows).reshape(len(weights), -1, m).swapaxes(1, 2)
        if "geometric" in sums:
            logs = log_probabilities(rows, out=rows)
            sums["geometric"][:, :, there] = (weights @ logs).reshape(len(weights), -1, m).swapaxes(1, 2)
    return sums


def _parts(read: Outputs, block: slice) -> Iterator[slice]:
    """Cut a block into parts whose probabilities fit into the cache."""
    width = max(1, _PART_ENTRIES // (read.n_learners * len(read.symbols)))
    for start in range(block.start, block.stop, width):
        yield slice(start, min(start + width, block.stop))


def probabilities_of(tally: FloatArray, voting: str) -> FloatArray:
    """Return the probabilities of a vote, (m, B), from its tally with weights of a sum of one."""
    return np.exp(log_normalise(tally, axis=0)) if voting == "geometric" else tally


def pooled(read: Outputs, weights: FloatArray, voting: str) -> FloatArray:
    """Return the probabilities of a vote, (n_samples, m); the weights sum to one."""
    proba = np.empty((read.n_samples, len(read.symbols)))
    for block in read.blocks():
        tally = tallies(read, weights[np.newaxis], block, (voting,))[voting][0]
        proba[block] = probabilities_of(tally, voting).T
    return proba
