r"""The vote of a growing ensemble.

Notation: m classes, n samples. A learner gives each class its vote, its probability or the logarithm of it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import ROUNDING, FloatArray, IntArray
from counterpoint.outputs import Outputs, credit, given


class Vote:
    """What each class has got from the learners so far: ``tally``, (m, n)."""

    def __init__(self, read: Outputs, voting: str, weights: FloatArray | None = None) -> None:
        self.read, self.voting = read, voting
        self.tally = np.zeros((len(read.classes), read.n_samples))
        if weights is not None:
            for i in np.flatnonzero(weights).tolist():
                self.add(i, weights[i])

    def add(self, learner: int, weight: float = 1.0) -> None:
        """Let a learner join."""
        self.tally += weight * self._given(learner)

    def credit(self) -> FloatArray:
        """Return the credit on each sample."""
        return self._credit(self.tally)

    def accuracies_with(self, learners: IntArray) -> FloatArray:
        """Return the accuracy of the vote if each of the learners joined it alone."""
        if self.voting != "hard":
            return np.array([self._credit(self.tally + self._given(i)).mean() for i in learners.tolist()])
        each = np.stack([self._credit_with_vote(k) for k in range(len(self.tally))])
        contested = (each != each[0]).any(axis=0)  # where one more vote matters
        totals = np.full(len(learners), each[0, ~contested].sum())
        for block in self.read.blocks():
            where = block.start + np.flatnonzero(contested[block])
            votes = self.read.votes[np.ix_(learners, where)]
            for k, symbol in enumerate(self.read.symbols):
                totals += (votes == symbol) @ each[k, where]
        accuracies: FloatArray = totals / self.read.n_samples
        return accuracies

    def _credit_with_vote(self, k: int) -> FloatArray:
        more = self.tally.copy()
        more[k] += 1.0
        return self._credit(more)

    def _given(self, learner: int) -> NDArray[Any]:
        return given(self.read, learner, slice(None), self.voting)

    def _credit(self, tally: FloatArray) -> FloatArray:
        assert self.read.truth_codes is not None
        return credit(tally, self.read.truth_codes)


def credits_along(read: Outputs, voting: str, picks: Sequence[int]) -> Iterator[FloatArray]:
    """Yield the credit of the vote on each sample, after each pick."""
    vote = Vote(read, voting)
    for i in picks:
        vote.add(i)
        yield vote.credit()


def accuracies_along(read: Outputs, voting: str, picks: Sequence[int]) -> FloatArray:
    """Return the accuracy of the vote after each pick."""
    return np.array([reached.mean() for reached in credits_along(read, voting, picks)])


def size_within_noise(read: Outputs, voting: str, picks: Sequence[int], accuracies: FloatArray) -> int:
    """Return the largest size whose vote is within one standard error of the best on the path."""
    size = first_best(accuracies) + 1
    path = credits_along(read, voting, picks)
    best = next(islice(path, size - 1, None))
    for n, reached in enumerate(path, start=size + 1):
        loss = best - reached
        if loss.mean() <= loss.std() / np.sqrt(read.n_samples) + ROUNDING:
            size = n
    return size


def first_best(scores: FloatArray) -> int:
    """Return the first of the largest entries; what differs by rounding is equal."""
    return int(np.argmax(scores >= scores.max() - ROUNDING))
