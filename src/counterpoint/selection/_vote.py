r"""The vote of a growing ensemble.

Notation: m classes, n samples. A learner gives each class its vote or its probability.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from counterpoint._validation import ROUNDING, FloatArray, IntArray
from counterpoint.measures._credit import credit
from counterpoint.measures._outputs import Outputs


class Vote:
    """What each class has got from the learners so far: ``tally``, (m, n)."""

    def __init__(self, read: Outputs, weights: FloatArray | None = None) -> None:
        self.read = read
        self.tally = np.zeros((len(read.classes), read.n_samples))
        if weights is not None:
            for i in np.flatnonzero(weights).tolist():
                self.add(i, weights[i])

    def add(self, learner: int, weight: float = 1.0) -> None:
        """Let a learner join."""
        if self.read.probabilities is not None:
            self.tally += weight * self.read.probabilities[learner].T
        else:
            for row, symbol in zip(self.tally, self.read.symbols, strict=True):
                row[self.read.votes[learner] == symbol] += weight

    def credit(self) -> FloatArray:
        """Return the credit on each sample."""
        return self._credit(self.tally)

    def accuracies_with(self, learners: IntArray) -> FloatArray:
        """Return the accuracy of the vote if each of the learners joined it alone."""
        proba = self.read.probabilities
        if proba is not None:
            return np.array([self._credit(self.tally + proba[i].T).mean() for i in learners])
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

    def _credit(self, tally: FloatArray) -> FloatArray:
        assert self.read.truth_codes is not None
        return credit(tally, self.read.truth_codes)


def credits_along(read: Outputs, picks: Sequence[int]) -> Iterator[FloatArray]:
    """Yield the credit of the vote on each sample, after each pick."""
    vote = Vote(read)
    for i in picks:
        vote.add(i)
        yield vote.credit()


def accuracies_along(read: Outputs, picks: Sequence[int]) -> FloatArray:
    """Return the accuracy of the vote after each pick."""
    return np.array([reached.mean() for reached in credits_along(read, picks)])


def size_within_noise(read: Outputs, picks: Sequence[int], accuracies: FloatArray) -> int:
    """Return the largest size whose vote is within one standard error of the best on the path."""
    size = first_best(accuracies) + 1
    path = credits_along(read, picks)
    best = next(islice(path, size - 1, None))
    for n, reached in enumerate(path, start=size + 1):
        loss = best - reached
        if loss.mean() <= loss.std() / np.sqrt(read.n_samples) + ROUNDING:
            size = n
    return size


def first_best(scores: FloatArray) -> int:
    """Return the first of the largest entries; what differs by rounding is equal."""
    return int(np.argmax(scores >= scores.max() - ROUNDING))
