"""Intervals of the correlations with the truth and between learners, of optimality, and of the predicted vote.

Notation: N learners, m classes, B samples in a block; z standardised outputs of a class. A sample adds to a correlation
r of two columns its influence, z_1 z_2 - r (z_1² + z_2²) / 2. The mean influence on an average of correlations has the
variance of its estimate. Where votes are missing, a learner is standardised over what it answered, and each answer
stands for as many samples as it takes to make up for the others.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import CorrelationSummary, Coverage, Estimate, VotePrediction
from counterpoint.assessment.uncertainty import Uncertainty, covariance_of_means, from_z, slope, to_z
from counterpoint.outputs import Outputs
from counterpoint.theory import error_correlation_bounds, plurality_accuracy

__all__ = ["correlation_intervals", "predicted_interval"]

UNKNOWN = Estimate(np.nan, np.nan, np.nan)
_EQUAL = 1e-9  # less than one, of a correlation: rounding
_STEP = 1e-3  # of an accuracy or a correlation, for the slope of the predicted vote


def correlation_intervals(
    read: Outputs,
    by_class: FloatArray,
    pairs_by_class: FloatArray,
    found: CorrelationSummary,
    groups: NDArray[np.intp] | None,
    limit: float,
) -> tuple[Estimate, Estimate, Estimate]:
    """Return r_TL, r_LL and optimality with their 95 % intervals.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    by_class, pairs_by_class : ndarray of shape (N, m) and (m, N, N)
        The correlations with the truth and with each other, NaN where undefined.
    found : CorrelationSummary
        Their averages.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together.
    limit : float
        Half the width of an interval, in standard errors.
    """
    if np.isnan(found.r_tl) or np.isnan(found.r_ll):
        return UNKNOWN, UNKNOWN, UNKNOWN
    influence = _Influence(read, by_class, pairs_by_class)
    covariance = covariance_of_means(read, groups, influence, 2)
    error, n = np.sqrt(np.maximum(np.diagonal(covariance), 0)), influence.n_learners
    r_tl, r_ll = found.r_tl, found.r_ll
    z, half = np.arctanh(np.clip(r_tl, -1 + 1e-9, 1 - 1e-9)), limit * error[0] / max(1 - r_tl**2, 1e-9)
    with_truth = Estimate(r_tl, min(float(np.tanh(z - half)), r_tl), max(float(np.tanh(z + half)), r_tl))
    middle, half = float(to_z(r_ll, n)), limit * error[1] * slope(r_ll, n)
    between = (
        Estimate(r_ll, r_ll, r_ll)  # copies
        if r_ll > 1 - _EQUAL
        else Estimate(r_ll, min(from_z(middle - half, n), r_ll), max(from_z(middle + half, n), r_ll))
    )
    room = max(((n - 1) * r_ll + 1) / n, 1e-9)  # the square of the bound of Theorem 2
    gradient = np.array([room**-0.5, -r_tl * (n - 1) / (2 * n) * room**-1.5])
    half = limit * float(np.sqrt(np.maximum(gradient @ covariance @ gradient, 0)))
    share = found.optimality
    return with_truth, between, Estimate(share, max(share - half, -1.0), min(share + half, 1.0))


def predicted_interval(
    prediction: VotePrediction, known: Uncertainty, coverage: Coverage, n_classes: int
) -> Estimate:
    """Return the predicted vote of learners with their own accuracies, with its 95 % interval.

    How far it moves with the mean accuracy and the error correlation is that of equal learners. By how much the
    measured vote differs is added, as the error of the model.
    """
    if np.isnan(prediction.mixed):
        return UNKNOWN
    wrong: dict[str, Any] = {"n_classes": max(n_classes, 2), "agreement": prediction.agreement}
    n = max(round(coverage.mean_voters), 2)
    p = float(np.clip(known.accuracy, 2 * _STEP, 1 - 2 * _STEP))
    low = float(error_correlation_bounds(p - _STEP, n).low) + 2 * _STEP
    c = float(np.clip(known.correlation, max(low, 0.0), 1 - 2 * _STEP))
    by_p, by_c = (
        (float(plurality_accuracy(p + a, c + b, n, **wrong)) - float(plurality_accuracy(p, c, n, **wrong)))
        / _STEP
        for a, b in ((_STEP, 0.0), (0.0, _STEP))
    )
    gradient = np.array([by_p, by_c / slope(known.correlation, known.n_learners)])
    half = known.limit * float(np.sqrt(max(gradient @ known.covariance[1:, 1:] @ gradient, 0.0)))
    half += abs(known.vote - prediction.mixed)
    return Estimate(prediction.mixed, max(prediction.mixed - half, 0.0), min(prediction.mixed + half, 1.0))


class _Influence:
    """The influence of samples on r_TL and r_LL."""

    def __init__(self, read: Outputs, by_class: FloatArray, pairs_by_class: FloatArray) -> None:
        self.read = read
        self.truth = np.nan_to_num(by_class)
        known = ~np.isnan(by_class)
        classes = np.maximum(known.sum(axis=1, keepdims=True), 1)
        self.n_learners = int(known.any(axis=1).sum())
        self.truth_weights = known / classes / self.n_learners  # (N, m)
        pairs = ~np.isnan(pairs_by_class) & ~np.eye(read.n_learners, dtype=bool)
        shared = np.maximum(pairs.sum(axis=0), 1)
        weights = (
            pairs / shared / max(int(pairs.any(axis=0).sum()), 1)
        )  # (m, N, N), one over both orders of a pair
        self.own = np.ones(read.n_learners)
        if read.missing is not None:
            here = (~read.missing).astype(np.float32)
            self.own = read.n_samples / here.sum(axis=1, dtype=np.float64)
            weights = weights * (read.n_samples / np.maximum(here @ here.T, 1))
        self.pair_weights = weights
        others = weights[:, ~np.eye(read.n_learners, dtype=bool)]
        self.even = np.where(others.min(axis=1) == others.max(axis=1), others[:, 0], np.nan)  # (m,)
        self.pair_sums = (weights * np.nan_to_num(pairs_by_class)).sum(axis=2)  # (m, N)
        self.mean, self.spread = self._moments()

    def _columns(self, k: int, block: slice) -> FloatArray:
        if self.read.probabilities is not None:
            return self.read.column(k, block)
        return self.read.one_hot(k, block).astype(np.float64)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and spread of learners and of the truth where they answer, each (2, m, N)."""
        m, n = len(self.read.classes), self.read.n_learners
        sums, squares = np.zeros((2, 2, m, n))
        assert self.read.truth_codes is not None
        for block in self.read.blocks():
            here = self.read.present(block)
            for k in range(m):
                true = (self.read.truth_codes[block] == k).astype(np.float64)
                given = self._columns(k, block)
                sums[:, k] += given.sum(axis=1), here @ true
                squares[:, k] += (given**2).sum(axis=1), here @ true
        mean = sums * self.own / self.read.n_samples
        spread = np.sqrt(np.maximum(squares * self.own / self.read.n_samples - mean**2, 0))
        return mean, np.where(spread > 1e-12, spread, np.inf)

    def __call__(self, block: slice) -> FloatArray:
        """Return the influence of a block of samples on r_TL and r_LL, (2, B)."""
        assert self.read.truth_codes is not None
        here = self.read.present(block)
        total = np.zeros((2, here.shape[1]))
        for k in range(len(self.read.classes)):
            z = (self._columns(k, block) - self.mean[0, k][:, None]) / self.spread[0, k][:, None] * here
            true = (self.read.truth_codes[block] == k).astype(np.float64)
            t = (true - self.mean[1, k][:, None]) / self.spread[1, k][:, None] * here
            weight = self.truth_weights[:, k] * self.own
            total[0] += weight @ (z * t - self.truth[:, k][:, None] * (z**2 + t**2) / 2)
            if np.isnan(self.even[k]):
                both = (z * (self.pair_weights[k] @ z)).sum(axis=0)
            else:  # of equal weights, in fewer steps
                both = self.even[k] * (z.sum(axis=0) ** 2 - (z**2).sum(axis=0))
            total[1] += both - self.pair_sums[k] @ z**2
        return total
