r"""How a vote pools the scores that the learners give to each class.

Notation: N learners, B samples of a block, m classes. The score that a learner gives to a class is its vote (hard), its
probability (soft) or the logarithm of its probability (geometric). The weighted sum over the learners is the score of
the vote, (m, B); with weights that sum to one it determines the probabilities of the vote.
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
    """Return minus the logarithms of probabilities, clipped at the machine epsilon as scikit-learn does.

    Parameters
    ----------
    proba : ndarray
        Probabilities of the true classes, of any shape.

    Returns
    -------
    ndarray
        The losses, of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> log_losses(np.array([1.0, 0.5, 0.0])).round(3)
    array([-0.   ,  0.693, 36.044])
    """
    losses: FloatArray = -np.log(np.maximum(proba, EPSILON, dtype=np.float64))
    return losses


def log_probabilities(proba: NDArray[Any], out: FloatArray | None = None) -> FloatArray:
    """Return the logarithms of probabilities, which are clipped at ``TINY``."""
    clipped: FloatArray = np.maximum(proba, TINY, out=out, dtype=np.float64)
    return np.log(clipped, out=clipped)


def log_normalise(logs: FloatArray, axis: int = -1) -> FloatArray:
    """Return logarithms shifted so that their exponentials sum to one along an axis.

    Parameters
    ----------
    logs : ndarray
        Logarithms of positive numbers.
    axis : int, default=-1
        The axis of the classes.

    Returns
    -------
    ndarray
        Logarithms of probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_normalise(np.log([3.0, 1.0])))
    array([0.75, 0.25])
    """
    top = logs.max(axis=axis, keepdims=True)
    shifted: FloatArray = logs - top
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def learner_scores(outputs: Outputs, learner: int, block: slice, voting: str) -> NDArray[Any]:
    """Return the score that one learner gives to each class.

    Parameters
    ----------
    outputs : Outputs
        The outputs of all learners.
    learner : int
        Its position.
    block : slice
        The samples.
    voting : {"hard", "soft", "geometric"}
        Votes, probabilities or their logarithms.

    Returns
    -------
    ndarray of shape (n_classes, n_block)
        The scores; 0 for every class where the learner has no output.

    Examples
    --------
    >>> learner_scores(Outputs([[0, 1, 1]]), 0, slice(None), "hard").astype(int)
    array([[1, 0, 0],
           [0, 1, 1]])
    """
    if voting == "hard":
        return np.stack([outputs.votes[learner, block] == symbol for symbol in outputs.symbols])
    assert outputs.probabilities is not None
    proba = outputs.probabilities[learner, block].T
    if voting != "geometric":
        return proba
    logs = log_probabilities(proba)
    return logs if outputs.missing is None else logs * ~outputs.missing[learner, block]


def vote_scores(
    outputs: Outputs, weights: FloatArray, block: slice, votings: Collection[str]
) -> dict[str, FloatArray]:
    """Return the scores of several votes of all learners, from one reading of a block.

    Parameters
    ----------
    outputs : Outputs
        The outputs of the learners.
    weights : ndarray of shape (n_weightings, n_learners)
        One or several sets of weights.
    block : slice
        The samples, with a start and a stop.
    votings : collection of {"hard", "soft", "geometric"}
        The votes.

    Returns
    -------
    dict of str to ndarray of shape (n_weightings, n_classes, n_block)
        The scores by vote, in 64 bits: in 32 the rounding of the weights would break ties.

    Examples
    --------
    >>> import numpy as np
    >>> vote_scores(Outputs([[0, 1], [1, 1]]), np.ones((1, 2)), slice(0, 2), ("hard",))["hard"]
    array([[[1., 0.],
            [1., 2.]]])
    """
    m = len(outputs.symbols)
    sums = {voting: np.empty((len(weights), m, block.stop - block.start)) for voting in votings}
    if "hard" in sums:
        for k in range(m):
            sums["hard"][:, k] = weights @ outputs.voted(k, block)
    for part in _parts(outputs, block) if sums.keys() - {"hard"} else ():
        assert outputs.probabilities is not None
        rows = np.array(outputs.probabilities[:, part], dtype=np.float64).reshape(outputs.n_learners, -1)
        there = slice(part.start - block.start, part.stop - block.start)
        if "soft" in sums:
            sums["soft"][:, :, there] = (weights @ rows).reshape(len(weights), -1, m).swapaxes(1, 2)
        if "geometric" in sums:
            logs = log_probabilities(rows, out=rows)
            if outputs.missing is not None:
                logs *= np.repeat(outputs.present(part), m, axis=1)
            sums["geometric"][:, :, there] = (weights @ logs).reshape(len(weights), -1, m).swapaxes(1, 2)
    return sums


def _parts(outputs: Outputs, block: slice) -> Iterator[slice]:
    """Cut a block into parts whose probabilities fit into the cache."""
    width = max(1, _PART_ENTRIES // (outputs.n_learners * len(outputs.symbols)))
    for start in range(block.start, block.stop, width):
        yield slice(start, min(start + width, block.stop))


def scores_to_probabilities(scores: FloatArray, voting: str) -> FloatArray:
    """Return the probabilities of a vote from its scores with weights that sum to one.

    Parameters
    ----------
    scores : ndarray of shape (n_classes, n_block)
        The scores of the vote.
    voting : {"hard", "soft", "geometric"}
        The vote.

    Returns
    -------
    ndarray of shape (n_classes, n_block)
        The probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> scores_to_probabilities(np.log([[3.0], [1.0]]), "geometric")
    array([[0.75],
           [0.25]])
    """
    return np.exp(log_normalise(scores, axis=0)) if voting == "geometric" else scores


def vote_probabilities(outputs: Outputs, weights: FloatArray, voting: str) -> FloatArray:
    """Return the probabilities of a vote on all samples.

    Parameters
    ----------
    outputs : Outputs
        The outputs of the learners.
    weights : ndarray of shape (n_learners,)
        Weights that sum to one.
    voting : {"hard", "soft", "geometric"}
        The vote.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The probabilities; for the hard vote each class's share of the votes. They are of those who voted, and NaN
        where nobody with a weight did.

    See Also
    --------
    counterpoint.measures.combine : The same for arrays.

    Examples
    --------
    >>> import numpy as np
    >>> vote_probabilities(Outputs([[0, 1], [1, 1]]), np.array([0.5, 0.5]), "hard")
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    proba = np.empty((outputs.n_samples, len(outputs.symbols)))
    for block in outputs.blocks():
        scores = vote_scores(outputs, weights[np.newaxis], block, (voting,))[voting][0]
        if outputs.missing is not None:
            cast = weights @ outputs.present(block)
            scores /= np.where(cast > 0, cast, np.nan)
        proba[block] = scores_to_probabilities(scores, voting).T
    return proba
