"""Ways to pick learners one by one, each by its own score."""

from typing import Protocol

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.measures.correlation import shared_correlations
from counterpoint.outputs import (
    Outputs,
    RunningVote,
    mean_defined,
    sufficient_statistics,
    vote_accuracies,
    warn_undefined,
)
from counterpoint.selection._size import first_best
from counterpoint.theory import critical_lambda

# Caruana et al. (2004) start from the 5 to 25 best learners.
_LARGEST_START = 25
# Picks where no size is given: the first few decide, the others refine the weights.
_CARUANA_PICKS = 50


class Chooser(Protocol):
    """A way to pick; ``pool`` holds the learners it can choose from."""

    pool: IntArray

    def walk(self, pool: IntArray, size: int | None) -> tuple[list[int], list[float]]:
        """Pick from the pool; return the learners and the score after each."""
        ...

    def score(self, weights: FloatArray) -> float:
        """Score weights, one per learner."""
        ...


class Greedy:
    """Forward selection by r_tl - lambda r_ll."""

    def __init__(self, read: Outputs, diversity: float) -> None:
        assert read.truth_codes is not None
        if len(present := np.unique(read.truth_codes)) < 2:
            only = read.classes[present[0]].item()
            raise ValueError(f"`y_true` must hold at least two classes; got only {only!r}.")
        columns = sufficient_statistics(read, columns=True).columns
        assert columns is not None
        self.diversity = diversity
        by_class, pairs = shared_correlations(columns)
        self.r_tl, self.r_ll = mean_defined(by_class, axis=1), mean_defined(pairs, axis=0)
        self.pool = np.flatnonzero(~np.isnan(self.r_tl))
        if len(self.pool) == 0:
            raise ValueError(
                "`outputs` must hold a learner that is not constant in the classes of `y_true`; got none."
            )
        warn_undefined(
            "select",
            [f"learner {i}" for i in np.flatnonzero(np.isnan(self.r_tl))],
            problem="leaves out",
            effect="without variation in the classes of `y_true` there is no correlation",
            stacklevel=4,
        )

    def walk(self, pool: IntArray, size: int | None) -> tuple[list[int], list[float]]:
        r_tl, r_ll = self.r_tl[pool], self.r_ll[np.ix_(pool, pool)]
        defined = ~np.isnan(r_ll)
        r_ll[~defined] = 0.0
        # Sums over the chosen, and for each candidate over its pairs with the chosen.
        truth_sum, pair_sum, pairs = 0.0, 0.0, 0.0
        new_sum, new_pairs = np.zeros(len(pool)), np.zeros(len(pool))
        taken = np.zeros(len(pool), dtype=bool)
        picks, scores = [], []
        for n in range(1, (len(pool) if size is None else size) + 1):
            lam = self.diversity * critical_lambda(n) if n > 1 else 0.0
            mean_pairs = (pair_sum + new_sum) / np.maximum(pairs + new_pairs, 1.0)
            candidates = np.where(taken, -np.inf, (truth_sum + r_tl) / n - lam * mean_pairs)
            best = first_best(candidates)
            picks.append(int(pool[best]))
            scores.append(float(candidates[best]))
            taken[best] = True
            truth_sum += r_tl[best]
            pair_sum += new_sum[best]
            pairs += new_pairs[best]
            new_sum += r_ll[best]
            new_pairs += defined[best]
        return picks, scores

    def score(self, weights: FloatArray) -> float:
        held = np.flatnonzero(weights)
        w, r_ll = weights[held], self.r_ll[np.ix_(held, held)]
        products = np.where(np.isnan(r_ll), 0.0, np.outer(w, w))
        np.fill_diagonal(products, 0.0)
        mean_pairs = np.nansum(products * r_ll) / total if (total := products.sum()) > 0 else 0.0
        lam = self.diversity * (1 - w @ w) / 2  # the critical lambda of n = 1 / sum(w^2) learners
        return float(w @ self.r_tl[held] - lam * mean_pairs)


class Caruana:
    """Forward selection with replacement by the accuracy of the vote."""

    def __init__(self, read: Outputs, voting: str) -> None:
        self.read, self.voting = read, voting
        self.pool: IntArray = np.arange(read.n_learners)

    def walk(self, pool: IntArray, size: int | None) -> tuple[list[int], list[float]]:
        size = _CARUANA_PICKS if size is None else size
        alone = RunningVote(self.read, self.voting).accuracies_with(pool)
        ranked = pool[np.argsort(-alone.round(9), kind="stable")][: min(_LARGEST_START, size)].tolist()
        together = vote_accuracies(self.read, self.voting, ranked)
        start = first_best(together) + 1
        picks, scores = ranked[:start], together[:start].tolist()
        vote = RunningVote(self.read, self.voting)
        for i in picks:
            vote.add(i)
        while len(picks) < size:
            candidates = vote.accuracies_with(pool)
            best = first_best(candidates)
            picks.append(int(pool[best]))
            scores.append(float(candidates[best]))
            vote.add(picks[-1])
        return picks, scores

    def score(self, weights: FloatArray) -> float:
        return float(RunningVote(self.read, self.voting, weights).credit().mean())
