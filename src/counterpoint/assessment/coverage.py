"""Who answered what."""

from dataclasses import dataclass

import numpy as np

from counterpoint._validation import FloatArray, IntArray

__all__ = ["Coverage"]


@dataclass(frozen=True, eq=False)
class Coverage:
    """Who answered what, and how many votes are tied.

    Attributes
    ----------
    answered : array of int, shape (n_learners,)
        Samples that each learner answered.
    shared : array of int, shape (n_learners, n_learners)
        Samples that two learners both answered; correlations are over these.
    voters : array of int, shape (n_learners + 1,)
        Samples that 0, 1, ..., all learners answered. Those without an answer count neither as right nor as wrong.
    tied : int
        Samples on which the vote that counts is tied. The tied classes share the sample: of two, each gets half.
    vote_on : array, shape (n_learners,)
        Accuracy of the vote that counts on the samples that each learner answered.
    n_groups : int or None
        The number of groups of samples that belong together; None where each is on its own.

    Examples
    --------
    >>> coverage = Coverage(np.array([2, 1]), np.array([[2, 1], [1, 1]]), np.array([0, 1, 1]), 0, np.ones(2))
    >>> coverage.complete, coverage.share, coverage.n_voted, coverage.mean_voters
    (False, 0.75, 2, 1.5)
    """

    answered: IntArray
    shared: IntArray
    voters: IntArray
    tied: int
    vote_on: FloatArray
    n_groups: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every learner answered every sample."""
        return bool(self.voters[-1] == self.voters.sum())

    @property
    def share(self) -> float:
        """The share of all votes that were cast."""
        return float(self.answered.mean() / self.voters.sum())

    @property
    def n_voted(self) -> int:
        """The number of samples with at least one vote."""
        return int(self.voters[1:].sum())

    @property
    def mean_voters(self) -> float:
        """How many learners answered, on average over the samples with a vote."""
        return float(np.arange(len(self.voters)) @ self.voters / self.n_voted)

    @property
    def fewest_shared(self) -> int:
        """The smallest number of samples that two learners share; of one learner, those it answered."""
        return int(self.shared.min())
