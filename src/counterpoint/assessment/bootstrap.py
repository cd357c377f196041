"""Bootstrap of means over samples, or over groups of samples that belong together."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Estimate
from counterpoint.outputs import split_truth

__all__ = ["bootstrap_estimates", "check_groups", "group_sums", "resampled_means"]

N_BOOTSTRAP = 2000

# With more samples, means over a resample are normal for all purposes, and are drawn as such.
_MANY_SAMPLES = 5_000
_CHUNK = 2**22  # counts of samples in resamples that are held at once


def bootstrap_estimates(
    columns: FloatArray,
    statistics: Callable[[FloatArray], FloatArray],
    groups: NDArray[np.intp] | None = None,
) -> list[Estimate]:
    """Return numbers that depend on the samples through sums only, with 95 % bootstrap intervals.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, n_columns)
        What is summed.
    statistics : callable
        Turns sums (n_resamples, n_columns) into numbers (n_resamples, n_numbers).
    groups : ndarray of int, shape (n_samples,), optional
        Which samples belong together, as 0, 1, ...; they are drawn together.

    Returns
    -------
    list of Estimate
        The numbers; an interval is NaN where its number is.

    Examples
    --------
    >>> columns = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0]])
    >>> (ratio,) = bootstrap_estimates(columns, lambda sums: sums[:, :1] / sums[:, 1:])
    >>> ratio.value, ratio.low, ratio.high
    (0.75, 0.5, 1.0)
    """
    rows = columns if groups is None else group_sums(columns, groups)
    values = statistics(columns.sum(axis=0, keepdims=True))[0]
    draws = statistics(resampled_means(rows) * len(rows))
    draws = np.where(np.isnan(values), 0.0, draws)  # an undefined number has no quantiles
    low, high = np.nanquantile(draws, [0.025, 0.975], axis=0)
    defined = ~np.isnan(values)
    return [
        Estimate(float(v), float(a), float(b)) if known else Estimate(np.nan, np.nan, np.nan)
        for v, a, b, known in zip(values, low, high, defined, strict=True)
    ]


def resampled_means(columns: FloatArray) -> FloatArray:
    """Return the means of bootstrap resamples of the rows, (N_BOOTSTRAP, k)."""
    rng, n = np.random.default_rng(0), len(columns)
    if n > _MANY_SAMPLES:
        spread = np.cov(columns, rowvar=False, bias=True) / n
        return rng.multivariate_normal(
            columns.mean(axis=0), spread, size=N_BOOTSTRAP, method="svd", check_valid="ignore"
        )
    size = max(_CHUNK // n, 1)
    parts = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(size, N_BOOTSTRAP - start)) @ columns / n
        for start in range(0, N_BOOTSTRAP, size)
    ]
    return np.concatenate(parts)


def group_sums(columns: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Return the sum of the rows of each group.

    Examples
    --------
    >>> group_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0]))
    array([[5.],
           [2.]])
    """
    sums = np.zeros((int(groups.max()) + 1, columns.shape[1]))
    np.add.at(sums, groups, columns)
    return sums


def check_groups(groups: ArrayLike | None, n_samples: int) -> NDArray[np.intp] | None:
    """Return the group of each sample as 0, 1, ..."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_samples,):
        raise ValueError(
            f"`groups` must have one entry for each of the {n_samples} samples; got shape {values.shape}."
        )
    if (unknown := split_truth(groups)[1]) is not None:
        raise ValueError(f"`groups` must name the group of each sample; got none at [{np.argmax(unknown)}].")
    codes = np.unique(values, return_inverse=True)[1].astype(np.intp)
    if codes.max() == 0:
        raise ValueError("`groups` must hold at least two groups; got one.")
    return codes
