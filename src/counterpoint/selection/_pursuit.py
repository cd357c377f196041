r"""Forward selection by the squared error of the vote.

Notation: :math:`p_i` is what learner i gives to each class on each sample, t the truth as zeros and ones; G holds the
mean products :math:`\langle p_i, p_j \rangle` over the samples, b the :math:`\langle p_i, t \rangle`. The squared error
of weights w is :math:`w^T G w - 2 b^T w` plus a constant, so after one pass the samples are not needed.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import nnls

from counterpoint._validation import FloatArray
from counterpoint.outputs import Outputs
from counterpoint.selection._choosers import MOST_PICKS, shares
from counterpoint.selection._size import first_best

_RIDGE = 1e-8  # of the mean diagonal of G: duplicates have no unique weights


class Moments(NamedTuple):
    """G and b, summed over samples; those of two sets of samples add up."""

    products: FloatArray  # (N, N)
    with_truth: FloatArray  # (N,)
    n_samples: int

    @classmethod
    def of(cls, read: Outputs, voting: str) -> Self:
        """Read the samples once."""
        n, read = read.n_learners, read.compact if voting == "hard" else read
        products, with_truth = np.zeros((n, n)), np.zeros(n)
        assert read.truth_codes is not None
        for block in read.blocks():
            codes = read.truth_codes[block]
            for k in range(len(read.symbols)):
                p = read.voted(k, block).astype(np.float64) if voting == "hard" else read.column(k, block)
                products += p @ p.T
                with_truth += p[:, codes == k].sum(axis=1)
        return cls(products, with_truth, read.n_samples)

    def plus(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of samples."""
        return Moments(
            self.products + other.products,
            self.with_truth + other.with_truth,
            self.n_samples + other.n_samples,
        )


class Pursuit:
    """Non-negative matching pursuit: the learner that most reduces the squared error joins, all weights are refitted.

    With ``fitted=False`` the learners have equal weights.
    """

    def __init__(self, moments: Moments, *, fitted: bool) -> None:
        self.G, self.b = moments.products / moments.n_samples, moments.with_truth / moments.n_samples
        self.fitted = fitted
        self.pool = np.arange(len(self.b))

    def walks(self, size: int | None, costs: FloatArray | None) -> list[list[int]]:
        n = min(len(self.b), MOST_PICKS if size is None else size)
        plain = self._walk(n, np.ones(len(self.b)))
        if costs is None:
            return [plain]
        return [plain, self._walk(n, np.maximum(costs, 1e-6 * costs.max()))]

    def weigh(self, picks: Sequence[int]) -> FloatArray:
        # Sorted, so that two walks to the same panel give it the same weights to the last digit.
        weights = self._least_squares(sorted(picks)) if self.fitted else shares(picks, len(self.b))
        weights /= weights.sum()
        return weights

    def score(self, weights: FloatArray) -> float:
        return float(2 * self.b @ weights - weights @ self.G @ weights)

    def changed(self, weights: FloatArray, learner: int) -> FloatArray:
        members = set(np.flatnonzero(weights).tolist()) ^ {learner}
        return self.weigh(sorted(members)) if members else np.zeros(len(self.b))

    def _walk(self, size: int, costs: FloatArray) -> list[int]:
        picks: list[int] = []
        gains = self._fitted_gains if self.fitted else self._equal_gains
        while len(picks) < size:
            gain = gains(picks)
            # a learner that makes it worse is not better for being cheap
            gain = np.where(gain > 0, gain / costs, gain * costs)
            gain[picks] = -np.inf
            picks.append(first_best(gain))
        return picks

    def _fitted_gains(self, picks: list[int]) -> FloatArray:
        """Return how much each learner would reduce the squared error beside the fitted weights, (N,)."""
        rest = self.b - self.G @ self._least_squares(picks) if picks else self.b
        gains: FloatArray = np.maximum(rest, 0) ** 2 / np.maximum(np.diag(self.G), 1e-300)
        return gains

    def _equal_gains(self, picks: list[int]) -> FloatArray:
        """Return how much each learner would reduce the squared error of equal weights, (N,)."""
        n = len(picks)
        inside, linear = self.G[np.ix_(picks, picks)].sum(), self.b[picks].sum()
        before = inside / n**2 - 2 * linear / n if n else 0.0
        more = inside + 2 * self.G[picks].sum(axis=0) + np.diag(self.G)
        after = more / (n + 1) ** 2 - 2 * (linear + self.b) / (n + 1)
        gains: FloatArray = before - after
        return gains

    def _least_squares(self, picks: list[int]) -> FloatArray:
        """Return the best non-negative weights of the picks, (N,); equal ones if all would be zero."""
        G, b = self.G[np.ix_(picks, picks)], self.b[picks]
        lower = np.linalg.cholesky(G + _RIDGE * max(np.trace(G) / len(b), 1e-12) * np.eye(len(b)))
        found, _ = nnls(lower.T, np.linalg.solve(lower, b))
        weights = np.zeros(len(self.b))
        weights[picks] = found if found.any() else 1 / len(b)
        return weights
