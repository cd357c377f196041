"""Panels judged on samples that did not choose them.

The samples are cut into parts; samples that belong together stay in one. A fit leaves some parts out, and what it chose
is judged on one of them. To choose a size, panels of all sizes are fitted without each part and judged on it. To judge
that choice too, the same is done without one more part. Every fit is made once.

Notation: N learners, P panels from small to large (or from cheap to dear), n samples.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment import stratified_parts
from counterpoint.outputs import Outputs, learner_scores, scores_to_probabilities, vote_credit
from counterpoint.selection._choosers import Caruana, Chooser, Greedy
from counterpoint.selection._pursuit import Moments, Pursuit
from counterpoint.selection._size import within_noise

__all__ = ["PARTS", "Choice", "CrossFit", "Settings", "padded", "panel_credits", "panel_scores"]

PARTS = 5
_FEWEST = 20  # samples, to judge anything on a part of them
_MOST = 100_000  # samples to judge on; more would hardly sharpen the answer

Left = frozenset[int]  # parts that a fit leaves out


class Settings(NamedTuple):
    """What is asked for."""

    method: str
    voting: str
    diversity: float
    size: int | str
    errors: float
    costs: FloatArray  # (N,)

    @property
    def picks(self) -> int | None:
        """The number of picks, if it is given."""
        return None if isinstance(self.size, str) else self.size

    @property
    def by_cost(self) -> FloatArray | None:
        """The costs, if panels are of a cost and not of a size."""
        return None if self.picks is not None or (self.costs == self.costs[0]).all() else self.costs


class Fit(NamedTuple):
    """The panels of a chooser that did not see some parts."""

    chooser: Chooser
    picks: list[list[int]]  # of each of P panels
    weights: FloatArray  # (P, N)


class Choice(NamedTuple):
    """The panel that was chosen from a fit, and how its panels did on parts that did not choose them."""

    fit: Fit
    at: int
    credit: FloatArray | None  # (P, n), part after part; None where nothing could be judged

    @property
    def weights(self) -> FloatArray:
        """The weights of the chosen panel, (N,)."""
        weights: FloatArray = self.fit.weights[self.at]
        return weights


class CrossFit:
    """The fits of one selection."""

    def __init__(self, read: Outputs, settings: Settings, groups: IntArray | None = None) -> None:
        self.read, self.settings, self.groups = read, settings, groups
        assert read.truth_codes is not None
        counts = np.sort(np.bincount(read.truth_codes))
        self.possible = read.n_samples >= _FEWEST and len(counts) > 1 and counts[-2] >= PARTS
        self.possible &= groups is None or groups.max() + 1 >= PARTS
        self.parts = stratified_parts(read.truth_codes, groups, PARTS)
        self.fits, self.part = cache(self._fits), cache(self._part)
        self._moments, self._judged = cache(self._read_moments), cache(self._judge)
        self._budgets: FloatArray | None = None
        if settings.by_cost is not None:
            walks = [walk for chooser in self._choosers(frozenset()) for walk in self._walks(chooser)]
            self._budgets = np.unique(np.concatenate([_spent(walk, settings.costs) for walk in walks]))

    def choose(self, left: Left = frozenset()) -> Choice:
        """Choose a panel without the samples of some parts."""
        fits, size = self.fits(left), self.settings.size
        # Nothing to decide between; all the same, the panels of the final choice are judged.
        decided = len(fits) == 1 and size != "smallest"
        if not self.possible or (decided and left):
            at = len(fits[0].weights) - 1 if self.settings.picks else self._largest(left, fits[0])
            return Choice(fits[0], at, None)
        judged = [self._on_each_part(left, which) for which in range(len(fits))]
        last = slice(-1, None) if self.settings.picks else slice(None)
        best = int(np.argmin([errors[last].min() for _, errors in judged]))
        credit, _ = judged[best]
        if size == "smallest":
            at = int(within_noise(credit, self.settings.errors, self.groups_without(left))[0])
        else:
            at = len(credit) - 1 if self.settings.picks else self._largest(left, fits[best])
        return Choice(fits[best], at, credit)

    def _largest(self, left: Left, fit: Fit) -> int:
        """Return the largest panel within one standard error of the best, on the samples that chose them."""
        credit = panel_credits(self._rest(left), self.settings.voting, fit.weights)[0]
        groups = None if self.groups is None else self.groups[self._samples(left)]
        return int(within_noise(credit, 1.0, groups)[-1])

    def groups_without(self, left: Left = frozenset()) -> IntArray | None:
        """Return the groups of the samples that are judged, part after part, without some parts."""
        if self.groups is None:
            return None
        return np.concatenate([self.groups[self._judged_in(k)] for k in range(PARTS) if k not in left])

    def _on_each_part(self, left: Left, which: int) -> tuple[FloatArray, FloatArray]:
        """Return the credit of the panels on every part, fitted without it, (P, n), and the squared error, (P,)."""
        n = len(self.fits(left)[which].weights)
        found = [self._judged(left | {k}, k, which) for k in range(PARTS) if k not in left]
        credit = np.concatenate([padded(credit, n) for credit, _ in found], axis=1)
        errors = np.concatenate([padded(errors, n) for _, errors in found], axis=1)
        return credit, errors.mean(axis=1)

    def _judge(self, left: Left, k: int, which: int) -> tuple[FloatArray, FloatArray]:
        return panel_credits(self.part(k), self.settings.voting, self.fits(left)[which].weights)

    def _fits(self, left: Left) -> list[Fit]:
        found = []
        for chooser in self._choosers(left):
            walks = self._walks(chooser)
            if self._budgets is None:
                picks = [walks[0][:n] for n in range(1, len(walks[0]) + 1)]
            else:
                picks = [self._within(chooser, walks, budget) for budget in self._budgets.tolist()]
            found.append(Fit(chooser, picks, np.stack([chooser.weigh(one) for one in picks])))
        return found

    def _within(self, chooser: Chooser, walks: Sequence[list[int]], budget: float) -> list[int]:
        """Return the best of the panels that the walks reach within a budget; the cheapest start if none does."""
        reached = []
        for walk in walks:
            n = int((_spent(walk, self.settings.costs) <= budget).sum())
            reached += [walk[:n]] if n else []
        cheap = min((walk[:1] for walk in walks), key=lambda one: self.settings.costs[one[0]])
        return max(reached, key=lambda picks: chooser.score(chooser.weigh(picks)), default=cheap)

    def _walks(self, chooser: Chooser) -> list[list[int]]:
        """Return the walks of a chooser; if it has no learner to pick, the first one."""
        return [walk or [0] for walk in chooser.walks(self.settings.picks, self.settings.by_cost)]

    def _choosers(self, left: Left) -> list[Chooser]:
        if self.settings.method == "pursuit":
            first, *others = (self._moments(k) for k in set(self.parts.tolist()) - left)
            for moments in others:
                first = first.plus(moments)
            return [Pursuit(first, fitted=True), Pursuit(first, fitted=False)]
        rest = self._rest(left)
        if self.settings.method == "greedy":
            return [Greedy(rest, self.settings.diversity)]
        return [Caruana(rest, self.settings.voting)]

    def _rest(self, left: Left) -> Outputs:
        """Return the samples of all parts but some."""
        return self.read.take(self._samples(left)) if left else self.read

    def _samples(self, left: Left) -> IntArray:
        return np.flatnonzero(~np.isin(self.parts, list(left)))

    def _part(self, k: int) -> Outputs:
        """Return the samples of a part that are judged."""
        return self.read.take(self._judged_in(k))

    def _judged_in(self, k: int) -> IntArray:
        step = max(-(-self.read.n_samples // _MOST), 1)
        return np.flatnonzero(self.parts == k)[::step]

    def _read_moments(self, k: int) -> Moments:
        return Moments.of(self.read.take(np.flatnonzero(self.parts == k)), self.settings.voting)


def panel_scores(read: Outputs, voting: str, weights: FloatArray) -> Iterator[tuple[slice, int, FloatArray]]:
    """Yield the scores of the vote of each panel block by block: the samples, the panel, and (m, B)."""
    used = np.flatnonzero(weights.any(axis=0))  # few of a large pool
    width = max(1, 2**22 // (max(len(weights), len(used)) * len(read.symbols)))
    for start in range(0, read.n_samples, width):
        block = slice(start, min(start + width, read.n_samples))
        given = np.stack([learner_scores(read, i, block, voting) for i in used.tolist()])
        for i, scores in enumerate(np.tensordot(weights[:, used], given.astype(np.float64), 1)):
            yield block, i, scores


def panel_credits(read: Outputs, voting: str, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the credit of each panel on each sample, and the squared error of its probabilities, both (P, n)."""
    read = read.compact if voting == "hard" else read
    codes = read.truth_codes
    assert codes is not None
    credit, errors = np.empty((2, len(weights), read.n_samples))
    for block, i, scores in panel_scores(read, voting, weights):
        credit[i, block] = vote_credit(scores, codes[block])
        proba = scores_to_probabilities(scores, voting)
        true = proba[codes[block], np.arange(proba.shape[1])]
        errors[i, block] = (proba**2).sum(axis=0) - 2 * true + 1
    return credit, errors


def _spent(walk: Sequence[int], costs: FloatArray) -> FloatArray:
    """Return what the panel costs after each pick; a learner that is picked again costs nothing more."""
    first = [learner not in walk[:step] for step, learner in enumerate(walk)]
    spent: FloatArray = (costs[list(walk)] * first).cumsum().round(9)
    return spent


def padded(rows: FloatArray, count: int) -> FloatArray:
    """Return so many rows; where a fit had fewer learners to pick from, its last panel stands for larger ones."""
    return rows[np.minimum(np.arange(count), len(rows) - 1)]
