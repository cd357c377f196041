"""Bootstrap of means over samples, or over groups of samples that belong together; parts that keep groups whole."""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from counterpoint._validation import ROUNDING, FloatArray, IntArray
from counterpoint.assessment.groups import Estimate, Finding
from counterpoint.outputs import split_truth

__all__ = [
    "FEWEST_GROUPS",
    "FEW_GROUPS",
    "GroupSums",
    "bootstrap_estimates",
    "check_groups",
    "few_groups",
    "group_sums",
    "resampled_means",
    "stratified_parts",
]

FEWEST_GROUPS = 5  # for an interval or a test
FEW_GROUPS = 10  # fewer get a word of caution, and no advice

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
        The numbers; an interval is NaN where its number is, and with fewer than five groups.

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
    if groups is not None and len(rows) < FEWEST_GROUPS:
        low, high = np.full((2, len(values)), np.nan)
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


def few_groups(groups: NDArray[np.intp] | None) -> tuple[Finding, ...]:
    """Return a finding that there are too few groups to say how much numbers vary between them; else nothing.

    Parameters
    ----------
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together, as 0, 1, ...

    Examples
    --------
    >>> [finding.text for finding in few_groups(np.array([0, 0, 1, 1, 2, 2]))]
    ['The samples are of 3 groups only, too few for intervals.']
    >>> few_groups(None)
    ()
    """
    if groups is None or (n_groups := int(groups.max()) + 1) >= FEW_GROUPS:
        return ()
    effect = ": intervals are rough." if n_groups >= FEWEST_GROUPS else ", too few for intervals."
    text = f"The samples are of {n_groups} groups only{effect}"
    return (Finding("few_groups", "warning", text, {"n_groups": n_groups}),)


def check_groups(groups: ArrayLike | None, n_samples: int) -> NDArray[np.intp] | None:
    """Return the group of each sample as 0, 1, ...; None where each is on its own.

    Parameters
    ----------
    groups : array-like of shape (n_samples,) or None
        Which samples belong together, as a caller gave them: of any kind, at least two different ones.
    n_samples : int
        The number of samples.

    Returns
    -------
    ndarray of int, shape (n_samples,), or None

    Examples
    --------
    >>> check_groups(["b", "a", "b"], 3)
    array([0, 1, 0])
    """
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n_samples,):
        raise ValueError(
            f"`groups` must have one entry for each of the {n_samples} samples; got shape {values.shape}."
        )
    if (unknown := split_truth(groups)[1]) is not None:
        raise ValueError(f"`groups` must name the group of each sample; got none at [{np.argmax(unknown)}].")
    _, first, found = np.unique(values, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[found].astype(np.intp)  # whatever the groups are called
    if codes.max() == 0:
        raise ValueError("`groups` must hold at least two groups; got one.")
    return codes


def stratified_parts(
    truth: IntArray, groups: NDArray[np.intp] | None, n_parts: int, seed: int = 0
) -> IntArray:
    """Return the part of each sample: groups stay whole, and every part has its share of every class.

    Parameters
    ----------
    truth : ndarray of int, shape (n_samples,)
        The classes, as 0, 1, ...
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together, as 0, 1, ...; None where each is on its own.
    n_parts : int
        The number of parts.
    seed : int, default=0
        Of the cut.

    Returns
    -------
    ndarray of int, shape (n_samples,)
        0, 1, ..., n_parts - 1.

    Notes
    -----
    Groups are sorted by their most frequent class and their size, and of every ``n_parts`` in a row each part gets one,
    at random.

    Examples
    --------
    >>> parts = stratified_parts(np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 1, 2, 2, 3, 3]), 2)
    >>> np.bincount(parts[:4]), np.bincount(parts[4:]), bool((parts[::2] == parts[1::2]).all())
    (array([2, 2]), array([2, 2]), True)
    """
    rng = np.random.default_rng(seed)
    sizes, usual = np.ones(len(truth)), truth
    if groups is not None:
        pairs, counts = np.unique(np.stack([groups, truth]), axis=1, return_counts=True)
        sizes, usual = np.bincount(groups).astype(np.float64), np.zeros(int(groups.max()) + 1, dtype=np.int64)
        ascending = np.argsort(counts, kind="stable")
        usual[pairs[0, ascending]] = pairs[1, ascending]  # the last entry counts: the most frequent class
    places, n_groups = np.arange(len(sizes)), len(sizes)
    order = np.lexsort((rng.random(n_groups), -sizes, usual))
    within = np.lexsort((rng.random(n_groups), places // n_parts))
    part = np.empty(n_groups, dtype=np.int64)
    part[order[within]] = places % n_parts
    return part if groups is None else part[groups]


class GroupSums(NamedTuple):
    """Sums over groups of samples that belong together, and the sizes of the groups, (G,)."""

    sums: FloatArray
    sizes: FloatArray
    square: float  # variance of the values

    @classmethod
    def of(cls, values: FloatArray, codes: IntArray) -> Self:
        """Add up values by their groups."""
        sizes = np.bincount(codes).astype(np.float64)
        sums: FloatArray = np.bincount(codes, values).astype(np.float64)
        return cls(sums, sizes, float(values.var()))

    def with_a_win_each(self) -> Self:
        """Return the sums with two groups more, which one vote each wins by as much as other groups differ.

        Where none does, they are a single sample.
        """
        differ = np.abs(self.sums[np.abs(self.sums) > ROUNDING])
        win = float(differ.mean() if len(differ) else 1.0)
        return self._replace(sums=np.append(self.sums, [win, -win]), sizes=np.append(self.sizes, [win, win]))

    def variance(self, mean: float) -> float:
        """Return the variance of the mean, corrected for the leverage of large groups."""
        n = self.sizes.sum()
        return float(((self.sums - self.sizes * mean) ** 2 / (1 - self.sizes / n)).sum() / n**2)

    def limit(self, tail: float = 0.975) -> float:
        """Return a quantile of Student's t."""
        return float(stdtrit(self.freedom(), tail))

    def freedom(self) -> float:
        """Return the degrees of freedom of a sum of the groups' variances, at least 1.

        These variances grow with the size of a group, by as much as its samples are alike.
        """
        n, sizes = self.sizes.sum(), self.sizes
        around = ((self.sums - sizes * self.sums.sum() / n) ** 2).sum()
        others = (sizes * (sizes - 1)).sum()
        alike = np.clip((around / self.square - n) / others, 0, 1) if self.square * others > 0 else 1.0
        variances = sizes * (1 + (sizes - 1) * alike)
        return float(max(variances.sum() ** 2 / (variances**2).sum() - 1, 1.0))
