r"""Where a panel of raters stands that give numbers on a scale, without a truth.

Notation: N learners, n samples; :math:`r_{ij}` correlation of the scores of two learners over the samples that both
scored, r its mean over pairs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import (
    FEWEST_GROUPS,
    bootstrap_estimates,
    check_groups,
    few_groups,
    group_sums,
)
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.learners import named_outputs
from counterpoint.assessment.result import check_names
from counterpoint.assessment.score_result import ScoreAssessment, with_score_findings
from counterpoint.measures.agreement import (
    check_scores,
    intraclass_columns,
    intraclass_from_sums,
    score_columns,
    score_statistics,
)
from counterpoint.outputs import mean_of_pairs, ratio

__all__ = ["assess_scores"]

_CONSTANT = 1e-12  # spread, as a share of the mean square, that is due to rounding


def assess_scores(
    outputs: Any,
    *,
    learners: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    name: str = "ensemble",
) -> ScoreAssessment:
    r"""Assess scores on a scale without a truth: how far the raters agree, and who differs.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples), mapping or DataFrame
        Numbers on one scale, such as ratings or probabilities of one class, of at least two learners. None, NaN or
        masked where a learner gave none. A mapping holds the scores of each learner by its name, a DataFrame a column
        for each learner.
    learners : sequence of str, optional
        Distinct names of the learners; by default those of a mapping or a DataFrame, else L1, L2, ...
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document. The intervals then allow for it.
    name : str, default="ensemble"
        The name of the panel.

    Returns
    -------
    ScoreAssessment
        The numbers and what they mean.

    See Also
    --------
    assess_regression : Numbers with a truth.
    counterpoint.assess : Labels, and probabilities of one class with a truth.

    Notes
    -----
    The effective number of raters is Kish's :math:`N / (1 + (N - 1) r)`: the mean of N scores varies as much as that of
    so many uncorrelated ones. Raters also correlate because they see the same truth, so it is a lower bound for the
    number of independent opinions; how much lower nobody can tell without a truth.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.normal(5, 2, 500)
    >>> scores = quality + rng.normal(size=(4, 500)) + np.array([[0], [0], [0], [1.5]])
    >>> panel = assess_scores(scores)
    >>> panel.bias.round(1)  # the last rater is generous
    array([-0.6, -0.4, -0.5,  1.5])
    >>> round(panel.intraclass_single.value, 2), round(panel.intraclass_average.value, 2)
    (0.73, 0.92)
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}.")
    outputs, learners = named_outputs(outputs, learners)
    scores = check_scores(outputs)
    n_learners, n_samples = scores.shape
    names = check_names(learners, n_learners)
    clusters = check_groups(groups, n_samples)
    known = ~np.isnan(scores)
    (alpha,) = bootstrap_estimates(score_columns(scores, "interval"), score_statistics, clusters)
    (ordinal,) = bootstrap_estimates(score_columns(scores, "ordinal"), score_statistics, clusters)
    single, average = bootstrap_estimates(
        intraclass_columns(scores), lambda sums: intraclass_from_sums(sums, n_learners), clusters
    )
    correlations, shared = _correlations(scores, known)
    mean = _mean_correlation(scores, known, correlations, shared, clusters)
    bias, bias_error, with_others = _against_others(scores, known, clusters)
    count = known.sum(axis=0)
    result = ScoreAssessment(
        name=name,
        n_learners=n_learners,
        n_samples=n_samples,
        n_complete=int((count == n_learners).sum()),
        n_several=int((count >= 2).sum()),
        learners=names,
        given=known.sum(axis=1).astype(np.int64),
        means=np.nanmean(scores, axis=1),
        spreads=np.nanstd(scores, axis=1),
        alpha_interval=alpha,
        alpha_ordinal=ordinal,
        intraclass_single=single,
        intraclass_average=average,
        correlation=mean,
        effective=_kish(mean, n_learners),
        correlations=correlations,
        shared=shared,
        bias=bias,
        bias_error=bias_error,
        others_correlation=with_others,
        consensus=ratio(np.where(known, scores, 0.0).sum(axis=0), count),
        findings=(),
    )
    result = with_score_findings(result)
    return replace(result, findings=(*few_groups(clusters), *result.findings))


def _correlations(scores: FloatArray, known: NDArray[np.bool_]) -> tuple[FloatArray, IntArray]:
    """Return the correlation of every two learners and the number of samples that both scored, (N, N) each."""
    here = known.astype(np.float64)
    values = np.where(known, scores - np.nanmean(scores, axis=1, keepdims=True), 0.0)
    n = here @ here.T
    sums, squares = values @ here.T, values**2 @ here.T  # of the first, where the second scored
    covariance = values @ values.T - ratio(sums * sums.T, n)
    spread = squares - ratio(sums**2, n)
    spread = np.where(spread > _CONSTANT * (scores[known] ** 2).mean() * n, spread, 0.0)
    found = ratio(covariance, np.sqrt(spread * spread.T))
    return np.clip(found, -1, 1), n.astype(np.int64)


def _mean_correlation(
    scores: FloatArray,
    known: NDArray[np.bool_],
    correlations: FloatArray,
    shared: IntArray,
    groups: NDArray[np.intp] | None,
) -> Estimate:
    """Return the mean correlation with its interval, from the influence of each sample."""
    value = mean_of_pairs(correlations)
    if np.isnan(value):
        return Estimate(np.nan, np.nan, np.nan)
    spread = np.nanstd(scores, axis=1, keepdims=True)
    z = np.where(known, scores - np.nanmean(scores, axis=1, keepdims=True), 0.0)
    z = np.divide(z, spread, out=np.zeros(z.shape), where=spread > 0)
    here = known.astype(np.float64)
    defined = ~np.isnan(correlations) & ~np.eye(len(scores), dtype=bool)
    weights = np.where(defined, 1 / np.maximum(shared, 1), 0.0) / (defined.sum() / 2)
    # A sample adds z_i z_j - r_ij (z_i^2 + z_j^2) / 2 to the sum over n_ij of each pair.
    products = (z * (weights @ z)).sum(axis=0) / 2
    own = (z**2 * ((weights * np.nan_to_num(correlations)) @ here)).sum(axis=0) / 2
    influence = (products - own)[:, None]
    parts = influence if groups is None else group_sums(influence, groups)
    if groups is not None and len(parts) < FEWEST_GROUPS:
        return Estimate(value, np.nan, np.nan)
    half = float(stdtrit(max(len(parts) - 1, 1), 0.975)) * float(
        np.sqrt((parts**2).sum() * len(parts) / max(len(parts) - 1, 1))
    )
    low, high = (float(np.clip(value + sign * half, -1, 1)) for sign in (-1, 1))
    return Estimate(value, low, high)


def _kish(correlation: Estimate, n_learners: int) -> Estimate:
    """Return Kish's number of raters; a higher correlation means fewer."""
    lowest = -1 / (n_learners - 1) + 1e-6

    def number(r: float) -> float:
        return float(n_learners / (1 + (n_learners - 1) * np.maximum(r, lowest)))

    return Estimate(number(correlation.value), number(correlation.high), number(correlation.low))


def _against_others(
    scores: FloatArray, known: NDArray[np.bool_], groups: NDArray[np.intp] | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each learner's mean difference from the mean of the others, its error, and the correlation with it."""
    values = np.where(known, scores, 0.0)
    total, count = values.sum(axis=0), known.sum(axis=0)
    bias, error, correlation = (np.full(len(scores), np.nan) for _ in range(3))
    for i, own in enumerate(values):
        both = known[i] & (count >= 2)
        if not both.any():
            continue
        others = (total[both] - own[both]) / (count[both] - 1)
        difference = own[both] - others
        bias[i], correlation[i] = difference.mean(), _correlation(own[both], others)
        parts = (difference - bias[i])[:, None]
        if groups is not None:
            parts = group_sums(parts, np.unique(groups[both], return_inverse=True)[1])
            if len(parts) < FEWEST_GROUPS:
                continue
        error[i] = np.sqrt((parts**2).sum() * len(parts) / max(len(parts) - 1, 1)) / both.sum()
    return bias, error, correlation


def _correlation(a: FloatArray, b: FloatArray) -> float:
    x, y = a - a.mean(), b - b.mean()
    spread = [float((one**2).sum()) for one in (x, y)]
    if any(s <= _CONSTANT * float((one**2).sum()) for s, one in zip(spread, (a, b), strict=True)):
        return np.nan
    return float(x @ y / np.sqrt(spread[0] * spread[1]))
