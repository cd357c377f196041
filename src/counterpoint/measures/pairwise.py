r"""Diversity of every two learners, from how often both, one or neither is right.

Notation, for learners i and j: :math:`N^{11}` samples on which both are right, :math:`N^{10}` on
which only i is, :math:`N^{01}` on which only j is, :math:`N^{00}` on which neither is; n in all.
Every measure is a symmetric matrix whose diagonal is the measure of a learner with itself.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs import (
    FEWEST_SHARED,
    Correctness,
    Outputs,
    ratio,
    sufficient_statistics,
    warn_undefined_pairs,
)

__all__ = [
    "Contingency",
    "contingency",
    "contingency_from_counts",
    "correctness_correlations",
    "correctness_kappa",
    "correlation_rho",
    "disagreement",
    "double_fault",
    "mean_over_pairs",
    "pairwise_measures",
    "q_statistic",
    "ratio_errors",
]


_MOST_HELD = 2**22  # pairs of learners that are looked at at once


class Contingency(NamedTuple):
    """How often both, one or neither of two learners is right, for every two learners.

    Attributes
    ----------
    n11, n10, n01, n00 : ndarray of shape (n_learners, n_learners)
        Samples on which both are right, only the row's learner is, only the column's learner is,
        neither is. ``n01`` is the transpose of ``n10``.

    Examples
    --------
    >>> from counterpoint.measures import contingency
    >>> found = contingency([0, 1, 1], [[0, 1, 0], [0, 0, 1]])
    >>> [int(counts[0, 1]) for counts in found]
    [1, 1, 1, 0]
    """

    n11: IntArray
    n10: IntArray
    n01: IntArray
    n00: IntArray


def contingency(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> Contingency:
    """Count how often both, one or neither of every two learners is right.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote, of at least two learners.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``.

    Returns
    -------
    Contingency
        The counts ``n11``, ``n10``, ``n01`` and ``n00``, each (n_learners, n_learners).

    Examples
    --------
    >>> table = contingency([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]])
    >>> table.n11
    array([[3, 2],
           [2, 3]])
    >>> table.n10
    array([[0, 1],
           [1, 0]])
    """
    counts = sufficient_statistics(Outputs(outputs, y_true, labels, at_least=2), correctness=True).correctness
    assert counts is not None
    return contingency_from_counts(counts)


def q_statistic(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Measure the association of being right by Yule's Q, for every two learners.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        Q, in [-1, 1]; low is diverse. The diagonal is 1, or NaN for a learner always right or wrong.

    Notes
    -----
    .. math:: Q_{ij} = \frac{N^{11} N^{00} - N^{01} N^{10}}{N^{11} N^{00} + N^{01} N^{10}}

    Q is 0 for independent learners, positive where they tend to be right on the same samples. It
    is undefined, NaN with a warning that names the pair, where both products are zero: for example
    where one learner is always right. Yule (1900); Kuncheva and Whitaker (2003).

    Examples
    --------
    >>> q_statistic([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    return warn_undefined_pairs("q_statistic", _q(contingency(y_true, outputs, labels=labels)))


def correlation_rho(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Correlate being right, for every two learners, from their contingency.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        rho, in [-1, 1]; low is diverse. The diagonal is 1, or NaN for a learner always right or wrong.

    Notes
    -----
    .. math:: \rho_{ij} = \frac{N^{11} N^{00} - N^{01} N^{10}}
                     {\sqrt{(N^{11} + N^{10})(N^{01} + N^{00})(N^{11} + N^{01})(N^{10} + N^{00})}}

    This is the name and the form that Kuncheva and Whitaker (2003) give to the error
    correlation of `counterpoint.measures.error_correlations`. It is undefined, NaN with a warning
    that names the pair, where a learner is always right or always wrong.

    Examples
    --------
    >>> correlation_rho([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]]).round(3)
    array([[ 1.   , -0.333],
           [-0.333,  1.   ]])
    """
    return warn_undefined_pairs("correlation_rho", _rho(contingency(y_true, outputs, labels=labels)))


def disagreement(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Return how often exactly one of two learners is right, for every two learners.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        The share of samples, in [0, 1]; high is diverse. The diagonal is 0.

    Notes
    -----
    .. math:: D_{ij} = \frac{N^{01} + N^{10}}{n}

    It is always defined. Two learners that are both wrong with different labels do not disagree in
    this sense. Skalak (1996); Kuncheva and Whitaker (2003).

    Examples
    --------
    >>> disagreement([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    return _disagreement(contingency(y_true, outputs, labels=labels))


def double_fault(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Return how often both of two learners are wrong, for every two learners.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        The share of samples, in [0, 1]; low is diverse. The diagonal is each learner's error rate.

    Notes
    -----
    .. math:: DF_{ij} = \frac{N^{00}}{n}

    It is always defined. Giacinto and Roli (2001); Kuncheva and Whitaker (2003).

    Examples
    --------
    >>> double_fault([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]])
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    return _double_fault(contingency(y_true, outputs, labels=labels))


def correctness_kappa(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> FloatArray:
    r"""Measure the agreement on being right beyond chance, for every two learners.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        kappa, in [-1, 1]; low is diverse. The diagonal is 1, or NaN for a learner always right or wrong.

    Notes
    -----
    .. math:: \kappa_{ij} = \frac{2 (N^{11} N^{00} - N^{01} N^{10})}
                     {(N^{11} + N^{10})(N^{10} + N^{00}) + (N^{11} + N^{01})(N^{01} + N^{00})}

    Cohen's kappa (1960) of the two learners' correctness. `label_kappa` is that of their labels. It is
    undefined, NaN with a warning that names the pair, where both are always right or both always wrong.

    Examples
    --------
    >>> correctness_kappa([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]]).round(3)
    array([[ 1.   , -0.333],
           [-0.333,  1.   ]])
    """
    return warn_undefined_pairs("correctness_kappa", _kappa(contingency(y_true, outputs, labels=labels)))


def ratio_errors(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> FloatArray:
    r"""Return the ratio of single errors to common errors, for every two learners.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        The ratio, in [0, inf); high is diverse. The diagonal is 0, or NaN for a learner always right.

    Notes
    -----
    .. math:: r_{ij} = \frac{N^{01} + N^{10}}{N^{00}}

    The form in which DESlib states the ratio of Aksela (2003). It is undefined, NaN with a warning
    that names the pair, where two learners have no error in common.

    Examples
    --------
    >>> ratio_errors([0, 0, 1, 1], [[0, 1, 1, 0], [0, 1, 0, 1]])
    array([[0., 2.],
           [2., 0.]])
    """
    return warn_undefined_pairs("ratio_errors", _ratio_errors(contingency(y_true, outputs, labels=labels)))


def pairwise_measures(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> dict[str, FloatArray]:
    """Return all measures of this module from one pass over the samples.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`contingency`.

    Returns
    -------
    dict of str to ndarray of shape (n_learners, n_learners)
        ``correctness_kappa``, ``correlation_rho``, ``disagreement``, ``double_fault``, ``q_statistic``
        and ``ratio_errors``, each as from the function of that name.

    Examples
    --------
    >>> matrices = pairwise_measures([0, 0, 1, 1], [[0, 1, 1, 0], [0, 1, 0, 1]])
    >>> {name: float(matrix[0, 1]) for name, matrix in matrices.items()}
    {'correctness_kappa': 0.0, 'correlation_rho': 0.0, 'disagreement': 0.5, 'double_fault': 0.25,
     'q_statistic': 0.0, 'ratio_errors': 2.0}
    """
    table = contingency(y_true, outputs, labels=labels)
    matrices = {name: formula(table) for name, formula in FORMULAS.items()}
    for name, matrix in matrices.items():
        warn_undefined_pairs(name, matrix)
    return matrices


def contingency_from_counts(counts: Correctness) -> Contingency:
    """Return the contingency table of counts that were gathered before.

    Parameters
    ----------
    counts : Correctness
        Counts of right votes, with pairs.

    Returns
    -------
    Contingency
        The counts ``n11``, ``n10``, ``n01`` and ``n00``. Where outputs are missing they are over the samples that both
        answered; all are 0 for a pair that shares fewer than ``FEWEST_SHARED``, so that its measures are undefined.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> contingency_from_counts(sufficient_statistics(read, correctness=True).correctness).n10
    array([[0, 1],
           [1, 0]])
    """
    return _contingency_of_rows(counts, slice(None))


def _contingency_of_rows(counts: Correctness, rows: slice) -> Contingency:
    """Return the table of some learners with all, (n_rows, n_learners)."""
    assert counts.both_right is not None
    both = counts.both_right[rows].astype(np.int64)
    shared, right = counts.shared[rows], counts.shared_right
    only_row, only_column = right[rows] - both, right.T[rows] - both
    table = Contingency(both, only_row, only_column, shared - right[rows] - only_column)
    few = shared < min(FEWEST_SHARED, counts.n_samples)
    if not few.any():
        return table
    first = np.arange(counts.shared.shape[0])[rows]
    few[np.arange(len(first)), first] = False
    return Contingency(*(np.where(few, 0, part) for part in table))


def mean_over_pairs(formula: Callable[[Contingency], FloatArray], counts: Correctness) -> float:
    """Return the mean of a measure over the pairs of different learners for which it is defined.

    Parameters
    ----------
    formula : callable
        Returns the measure from a contingency table, such as those of ``FORMULAS``.
    counts : Correctness
        Counts of right votes, with pairs.

    Returns
    -------
    float
        The mean; NaN if it is defined for no pair.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> mean_over_pairs(FORMULAS["disagreement"], sufficient_statistics(read, correctness=True).correctness)
    0.5
    """
    n = len(counts.right)
    total, number = 0.0, 0
    for rows in _row_parts(n):
        found = formula(_contingency_of_rows(counts, rows))
        values = found[np.arange(n) > np.arange(n)[rows, None]]
        values = values[~np.isnan(values)]
        total, number = total + float(values.sum()), number + len(values)
    return total / number if number else np.nan


def _row_parts(n_learners: int) -> list[slice]:
    """Return slices of learners whose tables with all learners are not too large."""
    width = max(_MOST_HELD // n_learners, 1)
    return [slice(start, min(start + width, n_learners)) for start in range(0, n_learners, width)]


def correctness_correlations(counts: Correctness) -> FloatArray:
    """Return the correlation of being right of every two learners, from counts that were gathered before.

    Parameters
    ----------
    counts : Correctness
        Counts of right votes, with pairs.

    Returns
    -------
    ndarray of shape (n_learners, n_learners)
        The correlations; NaN where undefined.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> correctness_correlations(sufficient_statistics(read, correctness=True).correctness).round(3)
    array([[ 1.   , -0.333],
           [-0.333,  1.   ]])
    """
    n = len(counts.right)
    found = np.empty((n, n))
    for rows in _row_parts(n):
        found[rows] = _rho(_contingency_of_rows(counts, rows), rows.start)
    return found


def _q(table: Contingency) -> FloatArray:
    alike, apart = table.n11 * table.n00, table.n10 * table.n01
    return ratio(alike - apart, alike + apart)


def _rho(table: Contingency, start: int = 0) -> FloatArray:
    """Return the correlations; of a table of some rows, ``start`` is the first."""
    n11, n10, n01, n00 = table
    row = np.sqrt((n11 + n10) * (n01 + n00))
    column = np.sqrt((n11 + n01) * (n10 + n00))
    rho = np.clip(ratio(n11 * n00 - n10 * n01, row * column), -1.0, 1.0)
    own = np.arange(len(rho)), np.arange(start, start + len(rho))
    rho[own] = np.where(row[own] > 0, 1.0, np.nan)  # not off by rounding
    return rho


def _disagreement(table: Contingency) -> FloatArray:
    return ratio(table.n10 + table.n01, np.sum(table, axis=0))


def _double_fault(table: Contingency) -> FloatArray:
    return ratio(table.n00, np.sum(table, axis=0))


def _kappa(table: Contingency) -> FloatArray:
    n11, n10, n01, n00 = table
    chance = (n11 + n10) * (n10 + n00) + (n11 + n01) * (n01 + n00)
    return ratio(2 * (n11 * n00 - n10 * n01), chance)


def _ratio_errors(table: Contingency) -> FloatArray:
    return ratio(table.n10 + table.n01, table.n00)


FORMULAS: dict[str, Callable[..., FloatArray]] = {
    "correctness_kappa": _kappa,
    "correlation_rho": _rho,
    "disagreement": _disagreement,
    "double_fault": _double_fault,
    "q_statistic": _q,
    "ratio_errors": _ratio_errors,
}
