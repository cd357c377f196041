"""The votes of an ensemble, counted in blocks of samples.

Notation: N learners, B samples in a block, m classes. A tally is what each class gets, shape (m, B): votes for the hard
vote, probabilities for the soft one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.result import Estimate
from counterpoint.measures._credit import credit, margins
from counterpoint.measures._outputs import Outputs

N_BOOTSTRAP = 2000


@dataclass
class Ballot:
    """The credit of one way of voting, gathered over blocks."""

    counts: Counter[float] = field(default_factory=Counter)

    def add(self, credit: FloatArray) -> None:
        """Take in the credit of a block."""
        values, numbers = np.unique(credit, return_counts=True)
        self.counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))

    def estimate(self) -> Estimate:
        """Return the mean credit with its bootstrap interval.

        Samples with equal credit are exchangeable, so a resample is a draw of the number of each credit: the
        bootstrap of a million samples costs what that of a hundred does.
        """
        if not self.counts:
            return Estimate(np.nan, np.nan, np.nan)
        values = np.array(sorted(self.counts))
        numbers = np.array([self.counts[value] for value in values])
        n = numbers.sum()
        resamples = np.random.default_rng(0).multinomial(n, numbers / n, size=N_BOOTSTRAP) @ values / n
        low, high = np.quantile(resamples, [0.025, 0.975])
        return Estimate(float(values @ numbers / n), float(low), float(high))


@dataclass(frozen=True)
class Votes:
    """What came of voting."""

    hard: Estimate
    soft: Estimate
    weighted: Estimate
    without: FloatArray  # (N,), change of the accuracy if a learner is left out
    without_error: FloatArray  # (N,), its standard error
    margin_moments: tuple[float, float]  # of the share of the truth less that of its best rival


def count_votes(
    outputs: Outputs, weights: FloatArray, voting: str, progress: Callable[[int, int], None] | None
) -> Votes:
    """Count the hard, the soft and the weighted vote, and each vote without one of the learners."""
    hard, soft, weighted = Ballot(), Ballot(), Ballot()
    n, n_learners = outputs.n_samples, outputs.n_learners
    change, square = np.zeros(n_learners), np.zeros(n_learners)
    first = second = 0.0
    truth = outputs.truth_codes
    assert truth is not None
    for block in outputs.blocks():
        codes = truth[block]
        equal, scaled = _tallies(outputs, block, weights, soft=False)
        hard.add(credit(equal, codes))
        margin = margins(equal, codes) / n_learners
        first, second = first + margin.sum(), second + (margin**2).sum()
        if outputs.probabilities is not None:
            summed, scaled_sum = _tallies(outputs, block, weights, soft=True)
            soft.add(credit(summed, codes))
            equal, scaled = (summed, scaled_sum) if voting == "soft" else (equal, scaled)
        weighted.add(credit(scaled, codes))
        if n_learners > 1:
            leave_out = _leave_out_soft if voting == "soft" else _leave_out_hard
            block_change, block_square = leave_out(outputs, block, equal, codes)
            change, square = change + block_change, square + block_square
        if progress is not None:
            progress(block.stop, n)
    without = change / n
    error = np.sqrt(np.maximum(square / n - without**2, 0) / n)
    undefined = np.nan if n_learners == 1 else 0.0
    return Votes(
        hard.estimate(),
        soft.estimate(),
        weighted.estimate(),
        without + undefined,
        error + undefined,
        (float(first / n), float(second / n)),
    )


def _tallies(
    outputs: Outputs, block: slice, weights: FloatArray, *, soft: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the tally with equal weights and with the given ones.

    Both in 64 bits: in 32 the rounding of the weights would break ties.
    """
    both = np.stack([np.ones_like(weights), weights])
    read: Callable[[int, slice], NDArray[Any]] = outputs.column if soft else outputs.voted
    tallies = np.stack([both @ read(k, block) for k in range(len(outputs.classes))])
    return tallies[:, 0], tallies[:, 1]


def _leave_out_hard(
    outputs: Outputs, block: slice, tally: FloatArray, codes: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """Return the summed change of credit, and its square, without each learner.

    What a missing vote changes depends on the class it was for, not on whose it was: one table (m, B) serves all.
    """
    before = credit(tally, codes)
    change, square = np.zeros(outputs.n_learners), np.zeros(outputs.n_learners)
    for k in range(len(tally)):
        fewer = tally.copy()
        fewer[k] -= 1
        delta = credit(fewer, codes) - before
        votes = outputs.one_hot(k, block)
        change += votes @ delta.astype(np.float32)
        square += votes @ (delta**2).astype(np.float32)
    return change, square


def _leave_out_soft(
    outputs: Outputs, block: slice, tally: FloatArray, codes: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    assert outputs.probabilities is not None
    before = credit(tally, codes)
    change, square = np.zeros(outputs.n_learners), np.zeros(outputs.n_learners)
    for i in range(outputs.n_learners):
        delta = credit(tally - outputs.probabilities[i, block].T, codes) - before
        change[i], square[i] = delta.sum(), (delta**2).sum()
    return change, square
