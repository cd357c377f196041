"""The votes of an ensemble, counted in blocks of samples.

Notation: N learners, B samples in a block, m classes. Scores have shape (m, B): votes for the hard vote, probabilities
for the soft one, their logarithms for the geometric one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.groups import Estimate
from counterpoint.measures.probability import ProbabilityScores
from counterpoint.outputs import (
    VOTINGS,
    Outputs,
    learner_scores,
    log_losses,
    scores_to_probabilities,
    vote_credit,
    vote_margins,
    vote_scores,
    winners,
)

Z = 1.959964  # two-sided 95 %


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share of n samples.

    Parameters
    ----------
    share : float
        The share.
    n : float
        The number of samples, or of independent ones that they are worth.

    Returns
    -------
    low, high : float
        The ends.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(1.0, 2)]
    [0.342, 1.0]
    """
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def best_learner(accuracies: FloatArray, answered: IntArray) -> int:
    """Return the position of the most accurate learner, the first of equals.

    Where votes are missing it is the one that is most surely accurate, by the lower end of its interval.

    Examples
    --------
    >>> best_learner(np.array([0.9, 1.0]), np.array([100, 3]))
    0
    """
    if (answered == answered[0]).all():
        return int(np.argmax(accuracies))
    pairs = zip(accuracies.tolist(), answered.tolist(), strict=True)
    return int(np.argmax([wilson_interval(share, n)[0] for share, n in pairs]))


@dataclass
class Ballot:
    """The credit of one vote, gathered over blocks."""

    counts: Counter[float] = field(default_factory=Counter)

    def add(self, credit: FloatArray) -> None:
        """Add the credit of a block."""
        values, numbers = np.unique(credit, return_counts=True)
        self.counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))

    def estimate(self) -> Estimate:
        """Return the mean credit with Wilson's interval; a shared tie varies less than a vote of right or wrong."""
        if not self.counts:
            return Estimate(np.nan, np.nan, np.nan)
        n = sum(self.counts.values())
        share = sum(value * number for value, number in self.counts.items()) / n
        return Estimate(share, *wilson_interval(share, n))


class LeaveOneOut:
    """The change of the vote's accuracy without each learner, gathered over blocks."""

    def __init__(self, outputs: Outputs, voting: str) -> None:
        self.outputs, self.voting = outputs, voting
        self.change, self.square = np.zeros(outputs.n_learners), np.zeros(outputs.n_learners)
        self.compared = np.zeros(outputs.n_learners)  # samples on which the other learners vote

    def add(self, block: slice, scores: FloatArray, codes: NDArray[np.intp]) -> None:
        """Add a block with the scores of its vote."""
        if self.outputs.n_learners > 1:
            voters = self.outputs.voters(block)
            self.compared += np.sum(voters > 1)
            if self.outputs.missing is not None:
                self.compared += self.outputs.missing[:, block][:, voters == 1].sum(axis=1)
            (self._add_hard if self.voting == "hard" else self._add_proba)(block, scores, codes, voters > 1)

    def mean_and_error(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change, (N,), and its standard error; NaN where no other learner votes."""
        n = np.where(self.compared > 0, self.compared, np.nan)
        mean = self.change / n
        return mean, np.sqrt(np.maximum(self.square / n - mean**2, 0) / n)

    def _add_hard(
        self, block: slice, scores: FloatArray, codes: NDArray[np.intp], others: NDArray[np.bool_]
    ) -> None:
        # The effect of leaving out a vote depends on its class, not on the learner: one table (m, B) serves all.
        before = vote_credit(scores, codes)
        for k in range(len(scores)):
            fewer = scores.copy()
            fewer[k] -= 1
            delta = vote_credit(fewer, codes) - before
            delta[~others] = 0.0
            votes = self.outputs.one_hot(k, block)
            self.change += votes @ delta.astype(np.float32)
            self.square += votes @ (delta**2).astype(np.float32)

    def _add_proba(
        self, block: slice, scores: FloatArray, codes: NDArray[np.intp], others: NDArray[np.bool_]
    ) -> None:
        before = vote_credit(scores, codes)
        for i in range(self.outputs.n_learners):
            delta = vote_credit(scores - learner_scores(self.outputs, i, block, self.voting), codes) - before
            if self.outputs.missing is not None:
                delta[~others | self.outputs.missing[i, block]] = 0.0
            self.change[i] += delta.sum()
            self.square[i] += (delta**2).sum()


@dataclass(frozen=True)
class CountedVotes:
    """The results of all votes, before they are grouped."""

    estimates: dict[str, Estimate]  # by vote; NaN if it needs probabilities
    without: FloatArray  # (N,), change of the accuracy if a learner is left out
    without_error: FloatArray  # (N,), its standard error
    confusion: FloatArray  # (m, m), true classes by chosen ones
    margin_moments: tuple[float, float]  # of the share of the true class less that of its best rival
    scores: ProbabilityScores  # of the vote that counts, empty if it is hard
    log_losses: FloatArray  # (N,), of the learners, NaN for labels
    voters: IntArray  # (N + 1,), samples on which 0, 1, ..., N learners voted
    tied: int  # samples on which the vote that counts is tied
    vote_on: FloatArray  # (N,), accuracy of the vote that counts on the samples that a learner answered


def count_votes(outputs: Outputs, voting: str, progress: Callable[[int, int], None] | None) -> CountedVotes:
    """Count the hard, soft and geometric vote, and the vote without each of the learners."""
    count = _Count(outputs, voting)
    for block in outputs.blocks():
        count.add(block)
        if progress is not None:
            progress(block.stop, outputs.n_samples)
    return count.result()


class _Count:
    """All votes, gathered over blocks; samples without a vote are left out."""

    def __init__(self, outputs: Outputs, voting: str) -> None:
        n_learners, n_classes = outputs.n_learners, len(outputs.classes)
        self.outputs, self.voting = outputs, voting
        self.ways = VOTINGS if outputs.probabilities is not None else ("hard",)
        self.ballots = {way: Ballot() for way in VOTINGS}
        self.leave_one_out, self.scores = LeaveOneOut(outputs, voting), ProbabilityScores()
        self.losses, self.confusion = np.zeros(n_learners), np.zeros((n_classes, n_classes))
        self.voters = np.zeros(n_learners + 1, dtype=np.int64)
        self.credit_on, self.tied = np.zeros(n_learners), 0
        self.first = self.second = 0.0

    def add(self, block: slice) -> None:
        outputs, truth = self.outputs, self.outputs.truth_codes
        assert truth is not None
        voters = outputs.voters(block)
        some: Any = slice(None)
        if outputs.missing is not None:
            some = np.flatnonzero(voters)
        counted = vote_scores(
            outputs, np.ones((1, outputs.n_learners)), block, self.ways
        )  # by vote: (1, m, B)
        equal = counted[self.voting][0]
        self.leave_one_out.add(block, equal, truth[block])
        self.losses += _log_losses(outputs, block, truth[block])
        self.voters += np.bincount(voters, minlength=len(self.voters))
        codes, voters, equal = truth[block][some], voters[some], equal[:, some]
        for way in self.ways:
            self.ballots[way].add(vote_credit(counted[way][0][:, some], codes))
        margin = vote_margins(counted["hard"][0][:, some], codes) / voters
        self.first, self.second = self.first + margin.sum(), self.second + (margin**2).sum()
        if outputs.missing is not None:
            here = outputs.present(block)[:, some]
            self.credit_on += here.astype(np.float64) @ vote_credit(equal, codes)
        leading = winners(equal)
        self.tied += int(np.sum(leading.sum(axis=0) > 1))
        np.add.at(self.confusion, codes, (leading / leading.sum(axis=0)).T)
        if self.voting != "hard":
            self.scores.add(scores_to_probabilities(equal / voters, self.voting), codes)

    def result(self) -> CountedVotes:
        estimates = {way: ballot.estimate() for way, ballot in self.ballots.items()}
        n, answered = int(self.voters[1:].sum()), np.full(self.outputs.n_learners, self.outputs.n_samples)
        vote_on = np.full(len(answered), estimates[self.voting].value)
        if self.outputs.missing is not None:
            answered = np.sum(~self.outputs.missing, axis=1)
            vote_on = self.credit_on / answered
        without, without_error = self.leave_one_out.mean_and_error()
        return CountedVotes(
            estimates=estimates,
            without=without,
            without_error=without_error,
            confusion=self.confusion,
            margin_moments=(float(self.first / n), float(self.second / n)),
            scores=self.scores,
            log_losses=self.losses / answered,
            voters=self.voters,
            tied=self.tied,
            vote_on=vote_on,
        )


def _log_losses(outputs: Outputs, block: slice, codes: NDArray[np.intp]) -> FloatArray:
    """Return the summed log-loss of each learner where it answers, (N,)."""
    if outputs.probabilities is None:
        return np.full(outputs.n_learners, np.nan)
    true = outputs.probabilities[:, block][:, np.arange(len(codes)), codes]
    losses = log_losses(true)
    if outputs.missing is not None:
        losses[outputs.missing[:, block]] = 0.0
    total: FloatArray = losses.sum(axis=1)
    return total
