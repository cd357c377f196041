r"""Where a regression ensemble stands, from its predictions alone.

Notation: N learners with errors :math:`e_i = f_i - y` on n samples. The mean product of the errors of two learners is
C, that of one learner with itself is A; the squared error of N learners is :math:`C + (A - C) / N`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_choice, check_real, check_unmasked
from counterpoint.assessment.bootstrap import resampled_means
from counterpoint.assessment.groups import Estimate
from counterpoint.assessment.learners import named_outputs
from counterpoint.assessment.regression_findings import with_regression_findings
from counterpoint.assessment.regression_result import ErrorComponents, RegressionAssessment
from counterpoint.assessment.result import SAMPLES, check_names
from counterpoint.measures import AmbiguityDecomposition
from counterpoint.outputs import warn_undefined

__all__ = ["assess_regression"]

_LARGEST = 1e75  # products of squares are finite
_ROUNDING = 1e-13  # standard deviation of a column, as a share of its size, that may be due to rounding
_CANCELLED = 1e-12  # difference of two sums, as a share of them, that may be due to rounding


def assess_regression(
    y_true: ArrayLike,
    outputs: Any,
    *,
    samples: str = "held_out",
    learners: Sequence[str] | None = None,
    name: str = "ensemble",
) -> RegressionAssessment:
    r"""Assess a regression ensemble: where it stands, what its ceiling is and what would help.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true numbers.
    outputs : array-like of shape (n_learners, n_samples), mapping or DataFrame
        Predictions of the learners; the ensemble predicts their mean. A mapping has one entry for each learner, a
        DataFrame one column; their keys name the learners.
    samples : {"held_out", "training"}, default="held_out"
        Whether the learners saw these samples in training. On training samples the verdict and a finding say that the
        errors are too low for new data.
    learners : sequence of str, optional
        Distinct names of the learners; by default the keys of ``outputs``, or L1, L2, ...
    name : str, default="ensemble"
        The name of the ensemble.

    Returns
    -------
    RegressionAssessment
        The numbers and the advice.

    Warns
    -----
    UndefinedMeasureWarning
        If a correlation is undefined, because a learner, its errors or the truth are constant. It is NaN, and averages
        skip it.

    See Also
    --------
    assess : The same for labels and probabilities.

    Notes
    -----
    With A the mean squared error of a learner and C the mean product of the errors of two learners, the squared error
    of the mean is exactly

    .. math:: \frac1n \sum_x \bar e(x)^2 = C + \frac{A - C}{N}, \qquad A - C = \frac{N}{N - 1} \text{ambiguity}.

    If the learners are exchangeable, as independently trained networks or trees are, the same holds for other N in
    expectation. So C is the ceiling. Learners that were trained together are not exchangeable: for them the
    formula tells what more learners *like these* would bring, which training more of them together need not.

    C contains the noise of the truth and what all learners get wrong. From one set of outputs the two cannot be told
    apart.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=5000)
    >>> outputs = truth + 0.5 * rng.normal(size=5000) + 0.5 * rng.normal(size=(5, 5000))
    >>> assessment = assess_regression(truth, outputs)
    >>> round(assessment.squared_error.value, 2), round(assessment.ceiling, 2)  # 0.25 + 0.25 / 5, 0.25
    (0.3, 0.25)
    >>> round(assessment.error_correlation, 2)
    0.5
    """
    check_choice(samples, "samples", SAMPLES)
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}.")
    outputs, learners = named_outputs(outputs, learners)
    y, f = _check_numbers(y_true, outputs)
    n_learners, n_samples = f.shape
    names = check_names(learners, n_learners)
    errors = f - y
    mean = errors.mean(axis=0)
    own = (errors**2).mean(axis=1)
    products = errors @ errors.T / n_samples  # (N, N)
    squared, gain, r2 = _estimates(y, mean**2, errors[own.argmin()] ** 2)
    ambiguity = float(((errors - mean) ** 2).mean())
    deviations = errors - errors.mean(axis=1, keepdims=True)
    centred = deviations @ deviations.T / n_samples
    size = np.maximum((f**2).mean(axis=1), (y**2).mean())  # the errors are rounded as these are
    correlations = _correlations(centred, size)
    without, without_error = _left_out(errors, mean)
    excess = n_learners / max(n_learners - 1, 1) * ambiguity  # A - C
    shared = squared.value - excess / n_learners if n_learners > 1 else np.nan  # C
    noise = (squared.high - squared.low) / 2
    result = RegressionAssessment(
        name=name,
        samples=samples,
        n_learners=n_learners,
        n_samples=n_samples,
        learners=names,
        squared_error=squared,
        r2=r2,
        gain=gain,
        learner_errors=own,
        errors=AmbiguityDecomposition(squared.value, float(own.mean()), ambiguity),
        components=ErrorComponents(
            float(mean.mean()), float(np.diagonal(centred).mean()), _mean_of_pairs(centred)
        ),
        error_correlation=_mean_of_pairs(correlations),
        error_correlations=correlations,
        truth_correlations=_with_truth(y, f),
        ceiling=float(np.maximum(shared, 0.0)),
        enough=_enough(excess, noise) if n_learners > 1 else np.nan,
        without=without,
        without_error=without_error,
        distances=np.maximum(own[:, None] + own - 2 * products, 0.0),
        findings=(),
    )
    _warn_of_undefined(result)
    return with_regression_findings(result)


def _check_numbers(y_true: ArrayLike, outputs: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the truth (n,) and the predictions (N, n), finite."""
    for given, name in ((y_true, "y_true"), (outputs, "outputs")):
        check_unmasked(given, name)
    y, f = check_real(y_true, "y_true"), check_real(outputs, "outputs")
    if y.ndim != 1:
        raise ValueError(f"`y_true` must have shape (n_samples,); got shape {y.shape}.")
    if f.ndim != 2 or f.shape[1] != len(y):
        raise ValueError(
            f"`outputs` must have shape (n_learners, {len(y)}), learners first; got shape {f.shape}."
        )
    for array, name in ((y, "y_true"), (f, "outputs")):
        if not np.isfinite(array).all():
            raise ValueError(f"`{name}` must be finite; got infinity.")
        if array.size and (largest := np.abs(array).max()) > _LARGEST:
            raise ValueError(f"`{name}` must hold numbers whose squares can be summed; got {largest:.6g}.")
    return y, f


def _estimates(y: FloatArray, error: FloatArray, best: FloatArray) -> tuple[Estimate, Estimate, Estimate]:
    """Return the error of the mean, its gain over the best learner, and R², with bootstrap intervals."""
    centred = y - y.mean()
    columns = np.stack([error, best, centred, centred**2], axis=1)  # (n, 4)
    means = resampled_means(columns)

    def estimates(m: FloatArray) -> FloatArray:
        spread = m[:, 3] - m[:, 2] ** 2
        rounding = np.maximum(_CANCELLED * m[:, 3], _ROUNDING**2 * np.mean(y**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(spread > rounding, 1 - m[:, 0] / spread, np.nan)
        return np.stack([m[:, 0], m[:, 1] - m[:, 0], r2], axis=1)

    value = estimates(columns.mean(axis=0, keepdims=True))[0]
    quantile = np.quantile if np.isnan(value[2]) else np.nanquantile  # a resample may hold one number alone
    low, high = quantile(estimates(means), [0.025, 0.975], axis=0)
    error_, gain, r2 = (
        Estimate(float(a), float(b), float(c)) for a, b, c in zip(value, low, high, strict=True)
    )
    return error_, gain, r2


def _correlations(covariance: FloatArray, size: FloatArray) -> FloatArray:
    """Return correlations (N, N), NaN for errors that are constant beside the mean squares of their numbers."""
    spread = np.diagonal(covariance)
    root = np.sqrt(np.where(spread > _ROUNDING**2 * size, spread, np.nan))
    found: FloatArray = np.clip(covariance / np.outer(root, root), -1, 1)
    return found


def _with_truth(y: FloatArray, f: FloatArray) -> FloatArray:
    """Return the correlation of each learner with the truth, NaN where it is undefined."""
    a, b = f - f.mean(axis=1, keepdims=True), y - y.mean()
    spread, truth = (a**2).sum(axis=1), (b**2).sum()
    defined = (spread > _ROUNDING**2 * (f**2).sum(axis=1)) & (truth > _ROUNDING**2 * (y**2).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = np.where(defined, a @ b / np.sqrt(spread * truth), np.nan)
    return found


def _mean_of_pairs(matrix: FloatArray) -> float:
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    pairs = pairs[~np.isnan(pairs)]
    return float(pairs.mean()) if pairs.size else np.nan


def _left_out(errors: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the change of the squared error without each learner, and its standard error, each (N,)."""
    n_learners, n_samples = errors.shape
    if n_learners == 1:
        return np.full(1, np.nan), np.full(1, np.nan)
    change, error = np.empty(n_learners), np.empty(n_learners)
    for i, own in enumerate(errors):
        delta = ((n_learners * mean - own) / (n_learners - 1)) ** 2 - mean**2
        change[i], error[i] = delta.mean(), delta.std() / np.sqrt(n_samples)
    return change, error


def _enough(excess: float, noise: float) -> float:
    """Return the least number of learners whose distance from the ceiling, excess over that number, is in the noise."""
    if excess <= 0:
        return 1.0
    return float(np.ceil(excess / noise)) if noise > 0 else np.nan


def _warn_of_undefined(a: RegressionAssessment) -> None:
    places = ["R²"] if np.isnan(a.r2.value) else []
    places += [f"the correlation of {a.learners[i]}" for i in np.flatnonzero(np.isnan(a.truth_correlations))]
    if a.n_learners > 1:
        diagonal = np.diagonal(a.error_correlations)
        places += [f"the errors of {a.learners[i]}" for i in np.flatnonzero(np.isnan(diagonal))]
    warn_undefined("assess_regression", places, stacklevel=4)
