"""Strategies that pick learners one by one, each by its own score, and weigh those that they picked."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.measures.correlation import mean_correlations
from counterpoint.outputs import (
    Outputs,
    RunningVote,
    sufficient_statistics,
    vote_accuracies,
    warn_undefined,
)
from counterpoint.selection._size import first_best
from counterpoint.theory import critical_lambda

# Caruana et al. (2004) start from the 5 to 25 best learners.
_LARGEST_START = 25
# Picks if no size is given: the first few decide, the others refine the weights.
MOST_PICKS = 50


class Chooser(Protocol):
    """A strategy; ``pool`` holds the learners it can choose from."""

    pool: IntArray

    def walks(self, size: int | None, costs: FloatArray | None) -> list[list[int]]:
        """Return one or more orders of picks; the second, if any, prefers cheap learners."""
        ...

    def weigh(self, picks: Sequence[int]) -> FloatArray:
        """Return the weights of all learners after these picks; they sum to one."""
        ...

    def score(self, weights: FloatArray) -> float:
        """Score weights, one per learner; higher is better."""
        ...

    def changed(self, weights: FloatArray, learner: int) -> FloatArray:
        """Return the weights without a learner that has one, or with a learner that has none."""
        ...


def shares(picks: Sequence[int], n_learners: int) -> FloatArray:
    """Return each learner's share of the picks."""
    counts: FloatArray = np.bincount(picks, minlength=n_learners) / len(picks)
    return counts


def changed_share(weights: FloatArray, learner: int) -> FloatArray:
    """Return the weights without a learner, or with one that gets the mean weight of the others."""
    changed = weights.copy()
    changed[learner] = 0.0 if weights[learner] else weights.sum() / np.count_nonzero(weights)
    total = changed.sum()
    return changed / total if total else changed


class Greedy:
    """Forward selection by r_tl - lambda r_ll."""

    def __init__(self, read: Outputs, diversity: float) -> None:
        columns = sufficient_statistics(read, columns=True).columns
        assert columns is not None
        self.diversity, self.n_learners = diversity, read.n_learners
        self.r_tl, self.r_ll, _ = mean_correlations(columns)
        self.pool = np.flatnonzero(~np.isnan(self.r_tl))

    def check(self, read: Outputs) -> None:
        """Raise ValueError if no learner has a correlation, and warn of those that have none."""
        assert read.truth_codes is not None
        if len(present := np.unique(read.truth_codes)) < 2:
            only = read.classes[present[0]].item()
            raise ValueError(f"`y_true` must hold at least two classes; got only {only!r}.")
        if len(self.pool) == 0:
            raise ValueError(
                "`outputs` must hold a learner that is not constant in the classes of `y_true`; got none."
            )
        warn_undefined(
            "select",
            [f"learner {i}" for i in np.flatnonzero(np.isnan(self.r_tl))],
            problem="leaves out",
            effect="a learner that is constant in the classes of `y_true` has no correlation",
            stacklevel=4,
        )

    def walks(self, size: int | None, costs: FloatArray | None) -> list[list[int]]:
        pool = self.pool
        r_tl, r_ll = self.r_tl[pool], self.r_ll[np.ix_(pool, pool)]
        defined = ~np.isnan(r_ll)
        r_ll[~defined] = 0.0
        # Sums over the chosen learners, and for each candidate over its pairs with them.
        truth_sum, pair_sum, pairs = 0.0, 0.0, 0.0
        new_sum, new_pairs = np.zeros(len(pool)), np.zeros(len(pool))
        taken = np.zeros(len(pool), dtype=bool)
        picks = []
        for n in range(1, min(len(pool), len(pool) if size is None else size) + 1):
            lam = self.diversity * critical_lambda(n) if n > 1 else 0.0
            mean_pairs = (pair_sum + new_sum) / np.maximum(pairs + new_pairs, 1.0)
            best = first_best(np.where(taken, -np.inf, (truth_sum + r_tl) / n - lam * mean_pairs))
            picks.append(int(pool[best]))
            taken[best] = True
            truth_sum += r_tl[best]
            pair_sum += new_sum[best]
            pairs += new_pairs[best]
            new_sum += r_ll[best]
            new_pairs += defined[best]
        return [picks]

    def weigh(self, picks: Sequence[int]) -> FloatArray:
        return shares(picks, self.n_learners)

    def score(self, weights: FloatArray) -> float:
        held = np.flatnonzero(weights)
        w, r_ll = weights[held], self.r_ll[np.ix_(held, held)]
        products = np.where(np.isnan(r_ll), 0.0, np.outer(w, w))
        np.fill_diagonal(products, 0.0)
        mean_pairs = np.nansum(products * r_ll) / total if (total := products.sum()) > 0 else 0.0
        lam = self.diversity * (1 - w @ w) / 2  # the critical lambda of n = 1 / sum(w^2) learners
        return float(w @ self.r_tl[held] - lam * mean_pairs)

    def changed(self, weights: FloatArray, learner: int) -> FloatArray:
        return changed_share(weights, learner)


class Caruana:
    """Forward selection with replacement by the accuracy of the vote."""

    def __init__(self, read: Outputs, voting: str) -> None:
        self.read, self.voting = read, voting
        self.pool: IntArray = np.arange(read.n_learners)

    def walks(self, size: int | None, costs: FloatArray | None) -> list[list[int]]:
        size = MOST_PICKS if size is None else size
        pool = self.pool
        alone = RunningVote(self.read, self.voting).accuracies_with(pool)
        ranked = pool[np.argsort(-alone.round(9), kind="stable")][: min(_LARGEST_START, size)].tolist()
        start = first_best(vote_accuracies(self.read, self.voting, ranked)) + 1
        picks: list[int] = ranked[:start]
        vote = RunningVote(self.read, self.voting)
        for i in picks:
            vote.add(i)
        while len(picks) < size:
            picks.append(int(pool[first_best(vote.accuracies_with(pool))]))
            vote.add(picks[-1])
        return [picks]

    def weigh(self, picks: Sequence[int]) -> FloatArray:
        return shares(picks, self.read.n_learners)

    def score(self, weights: FloatArray) -> float:
        return float(RunningVote(self.read, self.voting, weights).credit().mean())

    def changed(self, weights: FloatArray, learner: int) -> FloatArray:
        return changed_share(weights, learner)
