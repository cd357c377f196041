"""Who wins a vote, by how much, and how accurate the vote of a growing ensemble is.

Notation: m classes, n samples. Scores have shape (m, n). Credit is 1 where the true class wins alone and 1/k where it
ties with k - 1 other classes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import ROUNDING, FloatArray, IntArray
from counterpoint.outputs.outputs import Outputs
from counterpoint.outputs.pool import learner_scores


def winners(scores: FloatArray) -> NDArray[np.bool_]:
    """Return where a class has the highest score, several classes where they tie.

    Parameters
    ----------
    scores : ndarray of shape (n_classes, n_samples)
        The scores of the classes.

    Returns
    -------
    ndarray of bool, shape (n_classes, n_samples)
        True for the winners. Scores that differ by rounding are equal.

    Examples
    --------
    >>> import numpy as np
    >>> winners(np.array([[2.0, 1.0], [1.0, 1.0]]))
    array([[ True,  True],
           [False,  True]])
    """
    leading: NDArray[np.bool_] = scores >= scores.max(axis=0) - ROUNDING  # weights add up with rounding
    return leading


def vote_credit(scores: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
    """Return the credit of a vote on each sample; its mean is the accuracy of the vote.

    Parameters
    ----------
    scores : ndarray of shape (n_classes, n_samples)
        The scores of the classes.
    codes : ndarray of int, shape (n_samples,)
        The positions of the true classes.

    Returns
    -------
    ndarray of shape (n_samples,)
        1 where the true class wins alone, 1/k where it ties with k - 1 others, 0 where it loses.

    Examples
    --------
    >>> import numpy as np
    >>> vote_credit(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([0, 1]))
    array([1. , 0.5])
    """
    leading = winners(scores)
    credit: FloatArray = leading[codes, np.arange(len(codes))] / leading.sum(axis=0)
    return credit


def vote_margins(scores: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
    """Return the score of the true class less the highest score of another class.

    Parameters
    ----------
    scores : ndarray of shape (n_classes, n_samples)
        Scores that are not negative.
    codes : ndarray of int, shape (n_samples,)
        The positions of the true classes.

    Returns
    -------
    ndarray of shape (n_samples,)
        The margins; positive where the true class wins.

    Examples
    --------
    >>> import numpy as np
    >>> vote_margins(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0, 0]))
    array([ 1., -2.])
    """
    samples = np.arange(len(codes))
    rivals = scores.copy()
    rivals[codes, samples] = 0.0
    margin: FloatArray = scores[codes, samples] - rivals.max(axis=0)
    return margin


class RunningVote:
    """The vote of an ensemble that grows learner by learner.

    Parameters
    ----------
    outputs : Outputs
        The outputs of all learners; with the truth, unless only the scores are wanted.
    voting : {"hard", "soft", "geometric"}
        The vote.
    weights : ndarray of shape (n_learners,), optional
        Weights of the learners to start with; by default none has joined.

    Attributes
    ----------
    scores : ndarray of shape (n_classes, n_samples)
        The weighted sum of the scores of the learners that have joined; of the hard vote for many classes only those
        that occur on a sample, as ``outputs.compact`` numbers them.
    cast : ndarray of shape (n_samples,) or None
        The summed weight of those who voted; None if outputs are complete.

    Examples
    --------
    >>> vote = RunningVote(Outputs([[0, 0, 1], [0, 1, 1]], [0, 0, 1]), "hard")
    >>> vote.add(1)
    >>> vote.credit()
    array([1., 0., 1.])
    >>> vote.add(0)
    >>> vote.credit()
    array([1. , 0.5, 1. ])
    """

    def __init__(self, outputs: Outputs, voting: str, weights: FloatArray | None = None) -> None:
        self.whole, self.voting = outputs, voting
        self.outputs = outputs = outputs.compact if voting == "hard" else outputs
        self.scores = np.zeros((len(outputs.classes), outputs.n_samples))
        self.cast = None if outputs.missing is None else np.zeros(outputs.n_samples)
        if weights is not None:
            for i in np.flatnonzero(weights).tolist():
                self.add(i, weights[i])

    def add(self, learner: int, weight: float = 1.0) -> None:
        """Add a learner to the vote."""
        self.scores += weight * self._scores_of(learner)
        if self.cast is not None and self.outputs.missing is not None:
            self.cast += weight * ~self.outputs.missing[learner]

    def credit(self) -> FloatArray:
        """Return the credit on each sample, NaN where nobody voted."""
        credit = self._credit(self.scores)
        return credit if self.cast is None else np.where(self.cast > ROUNDING, credit, np.nan)

    def first_winners(self) -> NDArray[np.intp]:
        """Return the position of the class that wins each sample, the first if several tie."""
        first: NDArray[np.intp] = winners(self.scores).argmax(axis=0)
        if self.outputs is self.whole:
            return first
        # Scores are not negative, and each sample has a vote: the first of the winners is a class of the sample.
        codes: NDArray[np.intp] = self.whole.compact_classes[first, np.arange(len(first))].astype(np.intp)
        return codes

    def accuracies_with(self, learners: IntArray) -> FloatArray:
        """Return the accuracy of the vote after adding each of the learners by itself."""
        if self.voting != "hard":
            return np.array(
                [self._credit(self.scores + self._scores_of(i)).mean() for i in learners.tolist()]
            )
        each = np.stack([self._credit_with_vote(k) for k in range(len(self.scores))])
        contested = (each != each[0]).any(axis=0)  # where one more vote matters
        totals = np.full(len(learners), each[0, ~contested].sum())
        for block in self.outputs.blocks():
            where = block.start + np.flatnonzero(contested[block])
            votes = self.outputs.votes[np.ix_(learners, where)]
            for k, symbol in enumerate(self.outputs.symbols):
                totals += (votes == symbol) @ each[k, where]
        accuracies: FloatArray = totals / self.outputs.n_samples
        return accuracies

    def _credit_with_vote(self, k: int) -> FloatArray:
        more = self.scores.copy()
        more[k] += 1.0
        return self._credit(more)

    def _scores_of(self, learner: int) -> NDArray[Any]:
        return learner_scores(self.outputs, learner, slice(None), self.voting)

    def _credit(self, scores: FloatArray) -> FloatArray:
        assert self.outputs.truth_codes is not None
        return vote_credit(scores, self.outputs.truth_codes)


def vote_credits(outputs: Outputs, voting: str, order: Sequence[int]) -> Iterator[FloatArray]:
    """Yield the credit of the vote on each sample, after each learner in the order has joined.

    Parameters
    ----------
    outputs : Outputs
        The outputs of all learners, with the truth.
    voting : {"hard", "soft", "geometric"}
        The vote.
    order : sequence of int
        The learners that join, with repetition if wanted.

    Yields
    ------
    ndarray of shape (n_samples,)
        The credit on each sample.

    Examples
    --------
    >>> read = Outputs([[0, 0, 1], [0, 1, 1]], [0, 0, 1])
    >>> [credit.tolist() for credit in vote_credits(read, "hard", [1, 0])]
    [[1.0, 0.0, 1.0], [1.0, 0.5, 1.0]]
    """
    vote = RunningVote(outputs, voting)
    for i in order:
        vote.add(i)
        yield vote.credit()


def vote_accuracies(outputs: Outputs, voting: str, order: Sequence[int]) -> FloatArray:
    """Return the accuracy of the vote after each learner in the order has joined.

    Parameters
    ----------
    outputs : Outputs
        The outputs of all learners, with the truth.
    voting : {"hard", "soft", "geometric"}
        The vote.
    order : sequence of int
        The learners that join, with repetition if wanted.

    Returns
    -------
    ndarray of shape (len(order),)
        The accuracies; a tie is shared.

    Examples
    --------
    >>> vote_accuracies(Outputs([[0, 0, 1, 1], [0, 1, 1, 1]], [0, 0, 1, 1]), "hard", [1, 0])
    array([0.75 , 0.875])
    """
    return np.array([credit.mean() for credit in vote_credits(outputs, voting, order)])
