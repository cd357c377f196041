"""Ways to pick learners one by one, each by its own score."""

import warnings
from typing import Protocol

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures.correlation import shared_correlations
from counterpoint.outputs import Outputs, mean_defined, tally
from counterpoint.selection._vote import Vote, accuracies_along, first_best
from counterpoint.theory import critical_lambda

# Caruana et al. (2004) start from the 5 to 25 best learners.
_LARGEST_START = 25
# Picks where no size is given: the first few decide, the others refine the weights.
_CARUANA_PICKS = 50
# Learners that a warning names.
_NAMED = 3


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
        columns = tally(read, columns=True).columns
        assert columns is not None
        self.diversity = diversity
        by_class, pairs = shared_correlations(columns)
        self.r_tl, self.r_ll = mean_defined(by_class, axis=1), mean_defined(pairs, axis=0)
        self.pool = np.flatnonzero(~np.isnan(self.r_tl))
        if len(self.pool) == 0:
            raise ValueError(
                "`outputs` must hold a learner that is not constant in the classes of `y_true`; got none."
            )
        if names := [f"learner {i}" for i in np.flatnonzero(np.isnan(self.r_tl))]:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            warnings.warn(
                f"`select` leaves out {', '.join(names[:_NAMED])}{more}: constant in the classes of `y_true`, "
                "without a correlation.",
                UndefinedMeasureWarning,
                stacklevel=3,
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
        alone = Vote(self.read, self.voting).accuracies_with(pool)
        ranked = pool[np.argsort(-alone.round(9), kind="stable")][: min(_LARGEST_START, size)].tolist()
        together = accuracies_along(self.read, self.voting, ranked)
        start = first_best(together) + 1
        picks, scores = ranked[:start], together[:start].tolist()
        vote = Vote(self.read, self.voting)
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
        return float(Vote(self.read, self.voting, weights).credit().mean())
