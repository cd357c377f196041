"""The votes of an ensemble, counted in blocks of samples.

Notation: N learners, B samples in a block, m classes, G groups of samples that belong together. Scores have shape
(m, B): votes for the hard vote, probabilities for the soft one, their logarithms for the geometric one. Of hard votes
for many classes only those that occur on a sample have scores (``Outputs.compact``).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import FEWEST_GROUPS, GroupSums
from counterpoint.assessment.groups import Confusion, Estimate
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
_OFTEN = 0.75


def wilson_interval(share: float, n: float, limit: float = Z) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a share of n samples.

    Parameters
    ----------
    share : float
        The share.
    n : float
        The number of samples, or of independent ones that they are worth.
    limit : float, default=1.959964
        Half the width of an interval in standard errors.

    Returns
    -------
    low, high : float
        The ends.

    Examples
    --------
    >>> [round(end, 3) for end in wilson_interval(1.0, 2)]
    [0.342, 1.0]
    """
    middle = (share + limit**2 / (2 * n)) / (1 + limit**2 / n)
    half = limit / (1 + limit**2 / n) * np.sqrt(share * (1 - share) / n + limit**2 / (4 * n**2))
    return max(float(middle - half), 0.0), min(float(middle + half), 1.0)


def grouped_interval(sums: FloatArray, sizes: FloatArray, square: float | None = None) -> tuple[float, float]:
    r"""Return the 95 % interval of a mean credit whose samples belong together in groups.

    Parameters
    ----------
    sums, sizes : ndarray of shape (n_groups,)
        The credit and the number of samples of each group.
    square : float, optional
        The variance of the credit of a sample; by default that of right and wrong.

    Returns
    -------
    low, high : float
        The ends, NaN with fewer than five groups that have samples.

    Notes
    -----
    Wilson's interval for as many independent samples as have the variance that is seen between groups,
    :math:`p (1 - p) / \hat{v}` with :math:`\hat{v}` the cluster-robust variance of the mean, and with Student's
    quantile, as in ``credit_estimate``: at most the samples that there are, and the number of groups where no variance
    is seen.

    Examples
    --------
    >>> import numpy as np
    >>> [round(end, 3) for end in grouped_interval(np.array([5.0, 0, 5, 5, 0, 5]), np.full(6, 5.0))]
    [0.204, 0.94]
    >>> [round(end, 3) for end in wilson_interval(20 / 30, 30)]
    [0.488, 0.808]
    """
    found = _group_sums(sums, sizes, square)
    if found is None:
        return np.nan, np.nan
    n = float(found.sizes.sum())
    share = float(found.sums.sum()) / n
    variance = found.variance(share)
    worth = min(share * (1 - share) / variance, n) if variance > 0 else float(len(found.sizes))
    return wilson_interval(share, worth, found.limit())


def _group_sums(sums: FloatArray, sizes: FloatArray, square: float | None = None) -> GroupSums | None:
    """Return sums over the groups that have samples, or None of fewer than five."""
    some = sizes > 0
    if np.count_nonzero(some) < FEWEST_GROUPS:
        return None
    share = float(sums.sum() / sizes.sum())
    return GroupSums(sums[some], sizes[some], share * (1 - share) if square is None else square)


def best_learner(accuracies: FloatArray, answered: IntArray) -> int:
    """Return the position of the most accurate learner, the first of equals.

    Where votes are missing it is the one that is most surely accurate, by the lower end of its interval, of those that
    answer often: who leaves out hard samples looks better than it is.

    Examples
    --------
    >>> best_learner(np.array([0.9, 1.0]), np.array([100, 3]))
    0
    """
    if (answered == answered[0]).all():
        return int(np.argmax(accuracies))
    rows = zip(accuracies.tolist(), answered.tolist(), answers_often(answered).tolist(), strict=True)
    return int(np.argmax([wilson_interval(share, n)[0] if often else -1.0 for share, n, often in rows]))


def answers_often(answered: IntArray | FloatArray) -> NDArray[np.bool_]:
    """Return which learners answer at least three quarters as many samples as the one that answers most.

    Examples
    --------
    >>> answers_often(np.array([100, 80, 40]))
    array([ True,  True, False])
    """
    often: NDArray[np.bool_] = answered >= _OFTEN * answered.max()
    return often


@dataclass
class Ballot:
    """The credit of one vote, gathered over blocks."""

    counts: Counter[float] = field(default_factory=Counter)
    by_group: FloatArray | None = None  # (2, G), credit and samples

    def add(self, credit: FloatArray, groups: NDArray[np.intp] | None = None) -> None:
        """Add the credit of a block, and the groups of its samples."""
        values, numbers = np.unique(credit, return_counts=True)
        self.counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        if self.by_group is not None and groups is not None:
            np.add.at(self.by_group[0], groups, credit)
            np.add.at(self.by_group[1], groups, 1.0)

    def estimate(self) -> Estimate:
        """Return the mean credit with Wilson's interval; a shared tie varies less than a vote of right or wrong."""
        if not self.counts:
            return Estimate(np.nan, np.nan, np.nan)
        n = sum(self.counts.values())
        share = sum(value * number for value, number in self.counts.items()) / n
        if self.by_group is not None:
            square = sum((value - share) ** 2 * number for value, number in self.counts.items()) / n
            return Estimate(share, *grouped_interval(self.by_group[0], self.by_group[1], square))
        return Estimate(share, *wilson_interval(share, n))


class LeaveOneOut:
    """The change of the vote's accuracy without each learner, gathered over blocks."""

    def __init__(self, outputs: Outputs, voting: str, groups: NDArray[np.intp] | None = None) -> None:
        self.outputs, self.voting, self.groups = outputs, voting, groups
        n = outputs.n_learners
        self.change, self.square = np.zeros(n), np.zeros(n)
        self.compared = np.zeros(n)  # samples on which the other learners vote
        self.by_group = np.zeros(
            (2, n, 0 if groups is None else int(groups.max()) + 1)
        )  # changes and compared

    def add(self, block: slice, scores: FloatArray, codes: NDArray[np.intp]) -> None:
        """Add a block with the scores of its vote."""
        if self.outputs.n_learners < 2:
            return
        voters = self.outputs.voters(block)
        others = voters > 1
        self.compared += np.sum(others)
        if self.outputs.missing is not None:
            self.compared += self.outputs.missing[:, block][:, voters == 1].sum(axis=1)
        table = None
        if self.groups is not None:
            here = np.broadcast_to(others, (len(self.change), len(others)))
            if self.outputs.missing is not None:
                here = here | (self.outputs.missing[:, block] & (voters == 1))
            table = _indicators(self.groups[block], self.by_group.shape[2])
            self.by_group[1] += here.astype(np.float64) @ table
        (self._add_hard if self.voting == "hard" else self._add_proba)(block, scores, codes, others, table)

    def mean_and_error(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean change, (N,), and its standard error; NaN where no other learner votes."""
        n = np.where(self.compared > 0, self.compared, np.nan)
        mean = self.change / n
        if self.groups is None:
            return mean, np.sqrt(np.maximum(self.square / n - mean**2, 0) / n)
        found = [_group_sums(*one) for one in self.by_group.swapaxes(0, 1)]
        spread = [np.nan if one is None else one.variance(m) for one, m in zip(found, mean, strict=True)]
        return mean, np.sqrt(spread)

    def _add_hard(
        self,
        block: slice,
        scores: FloatArray,
        codes: NDArray[np.intp],
        others: NDArray[np.bool_],
        table: csr_matrix | None,
    ) -> None:
        # What leaving out a vote changes depends on its class alone, and only on whether that is the true one.
        leading, for_true, for_other = _without_one(scores, codes)
        for_true[~others] = for_other[~others] = 0.0
        for k in range(len(scores)):
            delta = np.where(codes == k, for_true, for_other) * leading[k]
            votes = self.outputs.one_hot(k, block)
            self.change += votes @ delta.astype(np.float32)
            self.square += votes @ (delta**2).astype(np.float32)
            if table is not None:
                self.by_group[0] += (votes * delta) @ table

    def _add_proba(
        self,
        block: slice,
        scores: FloatArray,
        codes: NDArray[np.intp],
        others: NDArray[np.bool_],
        table: csr_matrix | None,
    ) -> None:
        before = vote_credit(scores, codes)
        for i in range(self.outputs.n_learners):
            delta = vote_credit(scores - learner_scores(self.outputs, i, block, self.voting), codes) - before
            if self.outputs.missing is not None:
                delta[~others | self.outputs.missing[i, block]] = 0.0
            self.change[i] += delta.sum()
            self.square[i] += (delta**2).sum()
            if table is not None:
                self.by_group[0, i] += delta @ table


def _indicators(groups: NDArray[np.intp], n_groups: int) -> csr_matrix:
    """Return which group each sample is in, as a sparse matrix of zeros and ones, (B, G)."""
    n = len(groups)
    return csr_matrix((np.ones(n), groups, np.arange(n + 1)), shape=(n, n_groups))


def _without_one(
    scores: FloatArray, codes: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """Return which classes lead, (m, B), and how the credit changes without a vote for one of them, (B,) each.

    First if that class is the true one, then if it is another. A vote for a class that does not lead changes nothing.
    """
    before, leading = vote_credit(scores, codes), winners(scores)
    samples = np.arange(len(codes))
    true_leads, n_leading, top = leading[codes, samples], leading.sum(axis=0), scores.max(axis=0)
    rivals = np.where(leading, -1.0, scores)
    second = rivals.max(axis=0)
    alone, caught = (
        n_leading == 1,
        second >= top - 1.5,
    )  # whole numbers; without the vote, the next ones tie with it
    shared = 1 / (1 + (rivals == second).sum(axis=0))
    for_true = np.where(alone, np.where(caught, shared, 1.0), 0.0)
    true_next = rivals[codes, samples] == second
    left = np.where(true_leads, 1 / np.maximum(n_leading - 1, 1), 0.0)
    for_other = np.where(alone, np.where(caught & true_next & ~true_leads, shared, 0.0), left)
    return leading, for_true - before, for_other - before


@dataclass(frozen=True)
class CountedVotes:
    """The results of all votes, before they are grouped."""

    estimates: dict[str, Estimate]  # by vote; NaN if it needs probabilities
    accuracy_low: FloatArray  # (N,), the interval of each learner's accuracy
    accuracy_high: FloatArray
    without: FloatArray  # (N,), change of the accuracy if a learner is left out
    without_error: FloatArray  # (N,), its standard error
    confusion: Confusion  # true classes by chosen ones
    margin_moments: tuple[float, float]  # of the share of the true class less that of its best rival
    scores: ProbabilityScores  # of the vote that counts, empty if it is hard
    log_losses: FloatArray  # (N,), of the learners, NaN for labels
    voters: IntArray  # (N + 1,), samples on which 0, 1, ..., N learners voted
    tied: int  # samples on which the vote that counts is tied
    vote_on: FloatArray  # (N,), accuracy of the vote that counts on the samples that a learner answered


def count_votes(
    outputs: Outputs,
    voting: str,
    progress: Callable[[int, int], None] | None,
    groups: NDArray[np.intp] | None = None,
) -> CountedVotes:
    """Count the hard, soft and geometric vote, and the vote without each of the learners.

    Parameters
    ----------
    outputs : Outputs
        The outputs with the truth.
    voting : {"hard", "soft", "geometric"}
        The vote that counts.
    progress : callable or None
        Called after each block with the number of samples done and their total.
    groups : ndarray of int, shape (n_samples,), optional
        Which samples belong together, as 0, 1, ...; intervals and standard errors allow for it.
    """
    count = _Count(outputs, voting, groups)
    for block in outputs.blocks():
        count.add(block)
        if progress is not None:
            progress(block.stop, outputs.n_samples)
    return count.result()


class _Count:
    """All votes, gathered over blocks; samples without a vote are left out."""

    def __init__(self, outputs: Outputs, voting: str, groups: NDArray[np.intp] | None) -> None:
        n_learners = outputs.n_learners
        self.outputs, self.voting, self.groups = outputs, voting, groups
        self.judged = outputs.compact if voting == "hard" else outputs
        self.ways = VOTINGS if outputs.probabilities is not None else ("hard",)
        self.ballots = {way: Ballot() for way in VOTINGS}
        if groups is not None:
            for ballot in self.ballots.values():
                ballot.by_group = np.zeros((2, int(groups.max()) + 1))
        self.leave_one_out = LeaveOneOut(self.judged, voting, groups)
        self.scores, self.confusion = ProbabilityScores(), ConfusionCounts(len(outputs.classes))
        self.losses, self.right = np.zeros(n_learners), np.zeros(n_learners)
        self.voters = np.zeros(n_learners + 1, dtype=np.int64)
        self.credit_on, self.tied = np.zeros(n_learners), 0
        self.first = self.second = 0.0

    def add(self, block: slice) -> None:
        outputs, compact = self.outputs, self.outputs.compact
        assert outputs.truth_codes is not None
        assert compact.truth_codes is not None
        truths = dict.fromkeys(self.ways, outputs.truth_codes[block]) | {"hard": compact.truth_codes[block]}
        voters = outputs.voters(block)
        some: Any = slice(None)
        if outputs.missing is not None:
            some = np.flatnonzero(voters)
        weights = np.ones((1, outputs.n_learners))
        counted = vote_scores(compact, weights, block, ("hard",))  # by vote: (1, m, B)
        if len(self.ways) > 1:
            counted |= vote_scores(outputs, weights, block, self.ways[1:])
        equal = counted[self.voting][0]
        self.leave_one_out.add(block, equal, truths[self.voting])
        self.losses += _log_losses(outputs, block, outputs.truth_codes[block])
        self.voters += np.bincount(voters, minlength=len(self.voters))
        groups = None if self.groups is None else self.groups[block][some]
        voters, equal = voters[some], equal[:, some]
        for way in self.ways:
            self.ballots[way].add(vote_credit(counted[way][0][:, some], truths[way][some]), groups)
        margin = vote_margins(counted["hard"][0][:, some], truths["hard"][some]) / voters
        self.first, self.second = self.first + margin.sum(), self.second + (margin**2).sum()
        codes = truths[self.voting][some]
        self.right += outputs.right(block).sum(axis=1)
        if outputs.missing is not None:
            here = outputs.present(block)[:, some]
            self.credit_on += here.astype(np.float64) @ vote_credit(equal, codes)
        leading = winners(equal)
        n_leading = leading.sum(axis=0)
        self.tied += int(np.sum(n_leading > 1))
        chosen, sample = np.nonzero(leading)
        if self.judged is not outputs:
            chosen = outputs.compact_classes[:, block][:, some][chosen, sample]
        self.confusion.add(outputs.truth_codes[block][some][sample], chosen, 1 / n_leading[sample])
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
        low, high = np.array([self._span(i, int(n)) for i, n in enumerate(answered)]).T
        return CountedVotes(
            estimates=estimates,
            accuracy_low=low,
            accuracy_high=high,
            without=without,
            without_error=without_error,
            confusion=self.confusion.result(),
            margin_moments=(float(self.first / n), float(self.second / n)),
            scores=self.scores,
            log_losses=self.losses / answered,
            voters=self.voters,
            tied=self.tied,
            vote_on=vote_on,
        )

    def _span(self, learner: int, answered: int) -> tuple[float, float]:
        """Return the interval of a learner's accuracy."""
        if self.groups is None:
            return wilson_interval(float(self.right[learner]) / answered, answered)
        right = self.outputs.votes[learner] == self.outputs.truth
        here = None if self.outputs.missing is None else (~self.outputs.missing[learner]).astype(np.float64)
        n_groups = int(self.groups.max()) + 1
        counted = np.bincount(self.groups, here, minlength=n_groups).astype(np.float64)
        hits = np.bincount(self.groups, right.astype(np.float64), minlength=n_groups)
        return grouped_interval(hits.astype(np.float64), counted)


class ConfusionCounts:
    """True classes by chosen ones, gathered over blocks."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.places: IntArray = np.zeros(0, dtype=np.int64)
        self.counts: FloatArray = np.zeros(0)

    def add(self, true: NDArray[Any], chosen: NDArray[Any], counts: FloatArray) -> None:
        """Add samples, or the shares of them that a tie gives."""
        places = np.concatenate([self.places, true.astype(np.int64) * self.n_classes + chosen])
        self.places, where = np.unique(places, return_inverse=True)
        self.counts = np.bincount(where, np.concatenate([self.counts, counts])).astype(np.float64)

    def result(self) -> Confusion:
        """Return the counts."""
        true, chosen = np.divmod(self.places, self.n_classes)
        return Confusion(true, chosen, self.counts)


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
