"""The votes of an ensemble, counted in blocks of samples.

Notation: N learners, B samples in a block, m classes. Scores have shape (m, B): votes for the hard vote, probabilities
for the soft one, their logarithms for the geometric one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

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


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share of n samples.

    Parameters
    ----------
    share : float
        The share.
    n : int
        The number of samples.

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


def mcnemar(ahead: int, behind: int) -> float:
    """Return the p-value of the exact McNemar test: whether two votes on the same samples are equally accurate.

    Parameters
    ----------
    ahead, behind : int
        Samples on which only the first vote is right, and on which only the second is.

    Examples
    --------
    >>> round(mcnemar(9, 1), 4), mcnemar(0, 0)
    (0.0215, 1.0)
    """
    from scipy.stats import binomtest

    return float(binomtest(ahead, ahead + behind).pvalue) if ahead + behind else 1.0


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

    def add(self, block: slice, scores: FloatArray, codes: NDArray[np.intp]) -> None:
        """Add a block with the scores of its vote."""
        if self.outputs.n_learners > 1:
            (self._add_hard if self.voting == "hard" else self._add_proba)(block, scores, codes)

    def mean_and_error(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change, (N,), and its standard error; NaN for one learner alone."""
        n = self.outputs.n_samples
        undefined = np.nan if self.outputs.n_learners == 1 else 0.0
        mean = self.change / n + undefined
        return mean, np.sqrt(np.maximum(self.square / n - mean**2, 0) / n)

    def _add_hard(self, block: slice, scores: FloatArray, codes: NDArray[np.intp]) -> None:
        # The effect of a missing vote depends on its class, not on the learner: one table (m, B) serves all learners.
        before = vote_credit(scores, codes)
        for k in range(len(scores)):
            fewer = scores.copy()
            fewer[k] -= 1
            delta = vote_credit(fewer, codes) - before
            votes = self.outputs.one_hot(k, block)
            self.change += votes @ delta.astype(np.float32)
            self.square += votes @ (delta**2).astype(np.float32)

    def _add_proba(self, block: slice, scores: FloatArray, codes: NDArray[np.intp]) -> None:
        before = vote_credit(scores, codes)
        for i in range(self.outputs.n_learners):
            delta = vote_credit(scores - learner_scores(self.outputs, i, block, self.voting), codes) - before
            self.change[i] += delta.sum()
            self.square[i] += (delta**2).sum()


@dataclass(frozen=True)
class CountedVotes:
    """The results of all votes, before they are grouped."""

    estimates: dict[str, Estimate]  # by vote; NaN if it needs probabilities
    without: FloatArray  # (N,), change of the accuracy if a learner is left out
    without_error: FloatArray  # (N,), its standard error
    ahead: IntArray  # (N,), samples on which the vote is right and the learner wrong
    behind: IntArray  # (N,), the reverse
    confusion: FloatArray  # (m, m), true classes by chosen ones
    margin_moments: tuple[float, float]  # of the share of the true class less that of its best rival
    scores: ProbabilityScores  # of the vote that counts, empty if it is hard
    log_losses: FloatArray  # (N,), of the learners, NaN for labels


def count_votes(outputs: Outputs, voting: str, progress: Callable[[int, int], None] | None) -> CountedVotes:
    """Count the hard, soft and geometric vote, and the vote without each of the learners."""
    ways = VOTINGS if outputs.probabilities is not None else ("hard",)
    ballots = {way: Ballot() for way in VOTINGS}
    leave_one_out, scores = LeaveOneOut(outputs, voting), ProbabilityScores()
    n, n_learners = outputs.n_samples, outputs.n_learners
    losses, confusion = np.zeros(n_learners), np.zeros((len(outputs.classes),) * 2)
    ahead, behind = np.zeros(n_learners, dtype=np.int64), np.zeros(n_learners, dtype=np.int64)
    first = second = 0.0
    truth = outputs.truth_codes
    assert truth is not None
    for block in outputs.blocks():
        codes = truth[block]
        counted = vote_scores(outputs, np.ones((1, n_learners)), block, ways)  # by vote: (1, m, B)
        for way, (equal,) in counted.items():
            ballots[way].add(vote_credit(equal, codes))
        margin = vote_margins(counted["hard"][0], codes) / n_learners
        first, second = first + margin.sum(), second + (margin**2).sum()
        equal = counted[voting][0]
        leave_one_out.add(block, equal, codes)
        credit, right = vote_credit(equal, codes), outputs.right(block)
        ahead += (credit > right).sum(axis=1)
        behind += (credit < right).sum(axis=1)
        leading = winners(equal)
        np.add.at(confusion, codes, (leading / leading.sum(axis=0)).T)
        if voting != "hard":
            scores.add(scores_to_probabilities(equal / n_learners, voting), codes)
        losses += _log_losses(outputs, block, codes)
        if progress is not None:
            progress(block.stop, n)
    without, without_error = leave_one_out.mean_and_error()
    return CountedVotes(
        estimates={way: ballot.estimate() for way, ballot in ballots.items()},
        without=without,
        without_error=without_error,
        ahead=ahead,
        behind=behind,
        confusion=confusion,
        margin_moments=(float(first / n), float(second / n)),
        scores=scores,
        log_losses=losses / n,
    )


def _log_losses(outputs: Outputs, block: slice, codes: NDArray[np.intp]) -> FloatArray:
    """Return the summed log-loss of each learner, (N,)."""
    if outputs.probabilities is None:
        return np.full(outputs.n_learners, np.nan)
    true = outputs.probabilities[:, block][:, np.arange(len(codes)), codes]
    losses: FloatArray = log_losses(true).sum(axis=1)
    return losses
