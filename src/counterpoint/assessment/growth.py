"""What more learners like these, or others, would bring to the hard vote.

Notation: N learners, M after the growth; n of them vote on a sample and k are right, a *cell*. p mean accuracy. The
samples are a mixture of easy and hard ones (:mod:`counterpoint.theory.difficulty`), fitted by itself to samples with
about the same number of votes, so that learners may skip hard ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.groups import Estimate, SubsetVotes
from counterpoint.assessment.uncertainty import interval_limit
from counterpoint.outputs import Outputs
from counterpoint.theory import VoteCurve
from counterpoint.theory.difficulty import Difficulty, fit_difficulty, vote_by_difficulty
from counterpoint.theory.plurality import MOST_VOTES, plurality_credit

__all__ = ["MANY", "Growth", "voter_numbers"]

MANY = 200  # learners, to which a few more make no difference
_LEVELS = 3  # of the number of votes
MOST_NUMBERS, _FEW = 25, 3  # of votes on a sample that are told apart, and in much larger panels
_LARGEST = 101  # at least so many learners are looked at, and ten times as many as there are
_SIZES = 8  # numbers of learners between these
_ROUND = (3, 5, 11, 25, 51, 101)
_STEP = 1e-3  # of an accuracy, for a slope
_EXACT = 1e-9  # less than one: rounding


class _Level(NamedTuple):
    """Samples with about the same number of votes."""

    share: float
    counts: IntArray  # of its samples with 0, 1, ... votes
    mixture: Difficulty


class Growth:
    """The vote of more learners like these, and of these with others.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth, of at least two learners.
    c : float
        The mean correlation of being correct.
    agreement : float
        How often two learners that both err agree.
    subsets : SubsetVotes
        The measured votes of some of the learners and of all.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together.

    Examples
    --------
    >>> from counterpoint.assessment.subsets import subset_votes
    >>> rng = np.random.default_rng(0)
    >>> votes = rng.random((5, 900)) < np.where(np.arange(900) < 300, 0.3, 0.9)  # a third is hard
    >>> read = Outputs(votes, np.ones(900, dtype=bool))
    >>> growth = Growth(read, 0.3, 1.0, subset_votes(read), None)
    >>> growth.gain(11).value < 0
    True
    """

    def __init__(
        self,
        read: Outputs,
        c: float,
        agreement: float,
        subsets: SubsetVotes,
        groups: NDArray[np.intp] | None,
    ) -> None:
        self.n_learners, self.n_classes = read.n_learners, max(len(read.classes), 2)
        self.agreement, self.subsets = agreement, subsets
        voters = np.concatenate([read.voters(block) for block in read.blocks()])
        right = np.concatenate([read.right(block).sum(axis=0) for block in read.blocks()]).astype(np.int64)
        voted = voters > 0
        self.voters, self.right = voters[voted], right[voted]
        self.groups = None if groups is None else groups[voted]
        self.limit = interval_limit(read, groups)
        self.p = float(self.right.sum() / self.voters.sum())
        around = (self.right - self.p * self.voters) / self.voters.mean()
        spread, by_group = (self._variance(around, one) for one in (None, self.groups))
        worth = len(around) * (spread / by_group if by_group > spread else 1.0)  # over the design effect
        bounds = np.unique(np.quantile(self.voters, np.arange(1, _LEVELS) / _LEVELS, method="nearest"))
        level = np.searchsorted(bounds, self.voters)
        parts = [level == one for one in np.unique(level)]
        self.levels = [
            _Level(
                float(part.mean()),
                np.bincount(self.voters[part]),
                fit_difficulty(self.voters[part], self.right[part], max(c, 0.0), worth * float(part.mean())),
            )
            for part in parts
        ]
        self.spread = self._spread_of_learners(read, voted) if self.n_learners <= MANY else 0.0
        self.vote, self.fitted = float(subsets.mean[-1]), self._mean(self._accuracies(self.n_learners))
        half = int(np.abs(subsets.sizes - self.n_learners / 2).argmin())
        grown = self.fitted - self._mean(self._accuracies(int(subsets.sizes[half])))
        # By how much the mixture misses the measured growth from half of the learners to all
        self.missed = abs(self.vote - float(subsets.mean[half]) - grown)

    def gain(self, size: int) -> Estimate:
        """Return the change of the vote's accuracy with so many learners like these in all, on average."""
        now, then = (self._accuracies(n) for n in (self.n_learners, size))
        growth = [after - before for after, before in zip(then, now, strict=True)]
        value = self._mean(growth)
        low, high = self._reach(growth, size, average=True)
        return self._within_reason(Estimate(value, value - low, value + high))

    def different(self, added: int) -> Estimate:
        """Return the gain from learners as accurate as these that make their own mistakes."""
        place, voters, right = self._cells()
        before, often = self._credit(voters, right), voters / self.n_learners
        each, more, less = (
            often * (self._credit_with(voters, right, added, self.p + step) - before)
            for step in (0.0, _STEP, -_STEP)
        )
        slope = float(np.mean((more - less)[place])) / (2 * _STEP)
        around = (self.right - self.p * self.voters) / self.voters.mean()
        influence = each[place] + slope * around
        value = float(each[place].mean())
        half = self.limit * float(np.sqrt(self._variance(influence, self.groups)))
        return self._within_reason(Estimate(value, value - half, value + half))

    def curve(self, sizes: IntArray | None = None) -> VoteCurve:
        """Return the accuracy of the vote by number of learners: measured up to these, predicted beyond."""
        known, n = self.subsets.odd(), self.n_learners
        sizes = self._sizes() if sizes is None else sizes
        accuracy = np.interp(sizes, known.sizes, known.mean)
        accuracy[sizes > n] = [
            self.vote + self._mean(self._accuracies(size)) - self.fitted for size in sizes[sizes > n].tolist()
        ]
        # The ends of a few intervals, and between them straight lines over the logarithm of the size
        largest = max(int(sizes.max()), 2 * n + 1)
        chosen = np.unique([1, n, n + 1, 2 * n + 1, int(np.sqrt(2 * n * largest)), largest])
        reach = np.array([self._reach(self._accuracies(size), size) for size in chosen.tolist()])
        low, high = (np.interp(np.log(sizes), np.log(chosen), ends) for ends in reach.T)
        return VoteCurve(sizes, *np.clip([accuracy, accuracy - low, accuracy + high], 0.0, 1.0))

    def _sizes(self) -> IntArray:
        """Return numbers of learners: those of the measured subsets, and larger ones."""
        n = self.n_learners
        largest = max(10 * n, _LARGEST)
        if self.n_classes > 2:
            largest = max(min(largest, MOST_VOTES), 2 * n)
        beyond = np.concatenate([np.geomspace(n, largest, _SIZES).astype(np.int64) | 1, [2 * n + 1], _ROUND])
        sizes: IntArray = np.unique(np.concatenate([self.subsets.odd().sizes, beyond[beyond > n]]))
        return sizes

    def _accuracies(self, size: int) -> list[FloatArray]:
        """Return the accuracy of the vote of so many learners by difficulty, for each level; as many answer as here."""
        found = []
        for level in self.levels:
            # In much larger panels one vote more or less is no matter.
            numbers, shares = voter_numbers(
                level.counts, _FEW if size > self.n_learners + 2 else MOST_NUMBERS
            )
            votes = np.maximum(numbers * size / self.n_learners, 1.0)
            found.append(shares @ [self._accuracy(level.mixture.theta, number) for number in votes.tolist()])
        return found

    def _accuracy(self, theta: FloatArray, voters: float) -> FloatArray:
        """Return the accuracy of a number of votes by difficulty; it is linear between whole numbers."""
        fewer, part = divmod(voters, 1)
        accuracy = vote_by_difficulty(theta, int(fewer), self.n_classes, self.agreement)
        if part < _EXACT:
            return accuracy
        more = vote_by_difficulty(theta, int(fewer) + 1, self.n_classes, self.agreement)
        return (1 - part) * accuracy + part * more

    def _mean(self, by_level: list[FloatArray]) -> float:
        """Return the mean over the samples."""
        pairs = zip(self.levels, by_level, strict=True)
        return sum(level.share * level.mixture.mean(values) for level, values in pairs)

    def _reach(self, by_level: list[FloatArray], size: int, *, average: bool = False) -> tuple[float, float]:
        """Return how far below and above its estimate a mean over the samples may be, with 95 % confidence.

        The levels share the chi-squared distance that is left to the mixtures. Beyond these learners it matters by
        chance which ones are here, and which ones join them unless that is averaged out; and what the mixture misses
        from half of the learners to all.
        """
        limit, n = self.limit**2 / len(self.levels), self.n_learners
        low = high = 0.0
        for level, values in zip(self.levels, by_level, strict=True):
            ends = level.mixture.interval(values, limit)
            low += level.share * (level.mixture.mean(values) - ends[0])
            high += level.share * (ends[1] - level.mixture.mean(values))
        if size <= n:
            return low, high
        part = 1 / n - 1 / size  # of a learner in the vote: of these less than before, of others more
        learners = float(stdtrit(n - 1, 0.975)) * self.spread * np.sqrt(n * part**2 if average else part)
        model = self.missed * np.log2(size / n)
        return float(np.hypot(low, learners) + model), float(np.hypot(high, learners) + model)

    def _within_reason(self, gain: Estimate) -> Estimate:
        """Return a gain that takes the vote to no more than always right."""
        return Estimate(*np.clip(gain, -self.vote, 1 - self.vote).tolist())

    def _cells(self) -> tuple[NDArray[np.intp], IntArray, IntArray]:
        """Return the cell of each sample, and the votes and the right votes of each cell."""
        codes, place = np.unique(self.voters * (self.n_learners + 1) + self.right, return_inverse=True)
        return place, *np.divmod(codes, self.n_learners + 1)

    def _credit(self, voters: IntArray, right: IntArray) -> FloatArray:
        """Return the expected credit of a vote, 0 where nobody votes."""
        credit = np.zeros(len(voters))
        for n in np.unique(voters[voters > 0]).tolist():
            credit[voters == n] = plurality_credit(n, self.n_classes, self.agreement)[right[voters == n]]
        return credit

    def _credit_with(self, voters: IntArray, right: IntArray, added: int, p: float) -> FloatArray:
        """Return the expected credit with more votes, each right with chance p."""
        credit = np.zeros(len(voters))
        for more, chance in enumerate(np.polynomial.polynomial.polypow([1 - p, p], added).tolist()):
            credit += chance * self._credit(voters + added, right + more)
        return credit

    def _spread_of_learners(self, read: Outputs, voted: NDArray[np.bool_]) -> float:
        """Return the standard deviation of what a learner changes in the vote, times the number of learners."""
        place, voters, right = self._cells()
        before = self._credit(voters, right)
        without_right = np.where(voters > 1, self._credit(voters - 1, np.maximum(right - 1, 0)) - before, 0.0)
        without_wrong = np.where(
            voters > 1, self._credit(voters - 1, np.minimum(right, voters - 1)) - before, 0.0
        )
        cells = np.full(len(voted), len(voters))  # one more for samples without votes
        cells[voted] = place
        by_right, by_wrong = (
            np.append(change, 0.0).astype(np.float32) for change in (without_right, without_wrong)
        )
        change = np.zeros(read.n_learners)
        for block in read.blocks():
            correct, here = read.right(block), read.present(block)
            change += correct @ (by_right - by_wrong)[cells[block]] + here @ by_wrong[cells[block]]
        return float((self.n_learners - 1) * np.std(change, ddof=1) / len(place))

    @staticmethod
    def _variance(values: FloatArray, groups: NDArray[np.intp] | None) -> float:
        """Return the variance of a mean over samples or groups."""
        around = values - values.mean()
        sums = around if groups is None else np.bincount(groups, around)
        n_groups = len(values) if groups is None else len(np.unique(groups))
        return float(sums @ sums * n_groups / max(n_groups - 1, 1) / len(values) ** 2)


def voter_numbers(voters: IntArray, most: int = MOST_NUMBERS) -> tuple[IntArray, FloatArray]:
    """Return how many learners vote, and on which share of the samples that have votes; many are thinned out.

    Examples
    --------
    >>> voter_numbers(np.array([1, 0, 2, 6]))
    (array([2, 3]), array([0.25, 0.75]))
    """
    numbers = np.flatnonzero(voters[1:]) + 1
    if len(numbers) > most:
        order = np.repeat(numbers, voters[numbers])
        order = order[((np.arange(most) + 0.5) / most * len(order)).astype(int)]
        numbers, counts = np.unique(order, return_counts=True)
        return numbers, counts / counts.sum()
    return numbers, voters[numbers] / voters[1:].sum()
