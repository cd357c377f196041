r"""Correlation of learners with the truth and with each other.

Notation: :math:`T_k` is the truth and :math:`L_{ik}` the output of learner i in the column of class
k, one-hot for labels and as given for probabilities; r_tl and r_ll are their Pearson correlations.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_flag
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import (
    Columns,
    Outputs,
    mean_defined,
    ratio,
    sufficient_statistics,
    warn_undefined,
    warn_undefined_pairs,
)

__all__ = [
    "MeanCorrelations",
    "constant_columns",
    "error_correlations",
    "learner_correlations",
    "learner_learner_correlation",
    "mean_correlations",
    "truth_correlations",
    "truth_learner_correlation",
]


def truth_learner_correlation(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    per_class: bool = False,
    pooled: bool = False,
    labels: ArrayLike | None = None,
) -> FloatArray:
    r"""Correlate each learner with the truth.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities.
    per_class : bool, default=False
        Keep the classes apart instead of averaging over them.
    pooled : bool, default=False
        Pool the classes instead of averaging over them: covariances and variances are summed first, so that classes
        without a correlation count too, as answers in free text need.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities. By default the sorted labels of
        ``y_true``, and of ``outputs`` where those are labels.

    Returns
    -------
    ndarray of shape (n_learners,) or (n_learners, n_classes)
        The correlations r_tl, in [-1, 1]; high is accurate.

    Notes
    -----
    Labels are one-hot encoded and everything is correlated column by column:

    .. math:: r_{TL_i} = \frac{1}{m} \sum_{k=1}^m \operatorname{corr}(T_k, L_{ik}).

    With two classes both columns give the same number, which for labels is the correlation of
    labels coded 0 and 1. Where the truth or the learner is constant in a column there is no
    correlation: it is NaN, a warning names it, and the average is over the other classes.

    Examples
    --------
    >>> y_true = ["ham", "ham", "spam", "spam"]
    >>> votes = [["ham", "ham", "spam", "ham"], ["ham", "spam", "spam", "spam"]]
    >>> truth_learner_correlation(y_true, votes).round(3)
    array([0.577, 0.577])
    """
    _check_flags(per_class, pooled)
    read = Outputs(outputs, y_true, labels)
    columns = sufficient_statistics(read, columns=True, pairs=False).columns
    assert columns is not None
    if pooled:
        found = _pooled_truth(columns)
        warn_undefined("truth_learner_correlation", [f"learner {i}" for i in np.flatnonzero(np.isnan(found))])
        return found
    warn_undefined("truth_learner_correlation", constant_columns(columns, read.classes.tolist()))
    correlations = truth_correlations(columns)
    return correlations if per_class else mean_defined(correlations, axis=1)


def learner_learner_correlation(
    outputs: ArrayLike, *, per_class: bool = False, pooled: bool = False, labels: ArrayLike | None = None
) -> FloatArray:
    r"""Correlate every two learners.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities, of at least two learners.
    per_class : bool, default=False
        Keep the classes apart instead of averaging over them.
    pooled : bool, default=False
        Pool the classes instead of averaging over them: covariances and variances are summed first, so that classes
        without a correlation count too, as answers in free text need.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities. By default the sorted labels of
        ``outputs``, or the numbers of its columns.

    Returns
    -------
    ndarray of shape (n_learners, n_learners) or (n_classes, n_learners, n_learners)
        The correlations r_ll, in [-1, 1]; low is diverse. The diagonal is 1.

    Notes
    -----
    Labels are one-hot encoded and everything is correlated column by column:

    .. math:: r_{L_iL_j} = \frac{1}{m} \sum_{k=1}^m \operatorname{corr}(L_{ik}, L_{jk}).

    With two classes both columns give the same number, which for labels is the correlation of
    labels coded 0 and 1. Where a learner is constant in a column there is no correlation: it is
    NaN, the diagonal too, a warning names it, and the average is over the other classes.

    Examples
    --------
    >>> learner_learner_correlation([[0, 0, 1, 1], [0, 0, 1, 0], [0, 1, 0, 1]]).round(3)
    array([[ 1.   ,  0.577,  0.   ],
           [ 0.577,  1.   , -0.577],
           [ 0.   , -0.577,  1.   ]])
    """
    _check_flags(per_class, pooled)
    read = Outputs(outputs, labels=labels, at_least=2)
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    if pooled:
        return warn_undefined_pairs("learner_learner_correlation", _pooled_pairs(columns))
    warn_undefined("learner_learner_correlation", constant_columns(columns, read.classes.tolist()))
    return learner_correlations(columns) if per_class else columns.averages.matrix


def error_correlations(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> FloatArray:
    r"""Correlate the correctness of every two learners.

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
    ndarray of shape (n_learners, n_learners)
        The correlations c, in [-1, 1]; low is diverse. The diagonal is 1.

    Notes
    -----
    With :math:`p_i` the accuracy of learner i and :math:`p_{ij}` the share of samples on which
    learners i and j are both right,

    .. math:: c_{ij} = \frac{p_{ij} - p_i p_j}{\sqrt{p_i (1 - p_i) p_j (1 - p_j)}}.

    This is the correlation that decides how much a majority vote gains. It is NaN, and a warning
    names the pair, where a learner is always right or always wrong.

    Examples
    --------
    >>> error_correlations([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]]).round(3)
    array([[ 1.   , -0.333],
           [-0.333,  1.   ]])
    """
    counts = sufficient_statistics(Outputs(outputs, y_true, labels, at_least=2), correctness=True).correctness
    assert counts is not None
    return warn_undefined_pairs("error_correlations", correctness_correlations(counts))


def truth_correlations(columns: Columns) -> FloatArray:
    """Return the correlation of each learner with the truth, class by class.

    Parameters
    ----------
    columns : Columns
        Moments, with a truth.

    Returns
    -------
    ndarray of shape (n_learners, n_classes)
        r_tl; NaN where undefined, also where outputs are missing and a learner answered fewer than ``FEWEST_SHARED``
        samples.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> truth_correlations(sufficient_statistics(read, columns=True).columns).round(3)
    array([[0.577, 0.577],
           [0.577, 0.577]])
    """
    assert columns.cross is not None
    scale = np.sqrt(columns.spread * _truth_spread(columns))
    scale[columns.constant | ~columns.varied] = 0.0
    return np.clip(ratio(columns.cross, scale), -1.0, 1.0)


def learner_correlations(columns: Columns) -> FloatArray:
    """Return the correlation of every two learners, class by class.

    Parameters
    ----------
    columns : Columns
        Moments, with pairs.

    Returns
    -------
    ndarray of shape (n_classes, n_learners, n_learners)
        r_ll; NaN where undefined, also where outputs are missing and two learners share fewer than
        ``FEWEST_SHARED`` samples.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> learner_correlations(sufficient_statistics(read, columns=True).columns)[0].round(3)
    array([[1.   , 0.333],
           [0.333, 1.   ]])
    """
    assert columns.pairs is not None
    n, m = columns.means.shape
    correlations = np.empty((m, n, n))
    for slab in columns.pairs.slabs():
        correlations[slab.classes, slab.rows] = slab.correlations()
    return correlations


class MeanCorrelations(NamedTuple):
    """Correlations with the truth and of every two learners, each as one number.

    Attributes
    ----------
    r_tl : ndarray of shape (n_learners,)
        The correlations with the truth; NaN where undefined.
    r_ll : ndarray of shape (n_learners, n_learners)
        The correlations of every two learners.
    pooled : bool
        Whether they are pooled over the classes instead of averaged.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([["c", "e", "b", "d"], ["a", "b", "c", "f"]], ["a", "b", "b", "d"])
    >>> found = mean_correlations(sufficient_statistics(read, columns=True).columns)
    >>> found.pooled, found.r_tl.round(2)
    (True, array([0.46, 0.46]))
    """

    r_tl: FloatArray
    r_ll: FloatArray
    pooled: bool


def mean_correlations(columns: Columns, *, pooled: bool | None = None) -> MeanCorrelations:
    r"""Return the correlations with the truth and of every two learners, averaged over classes or pooled.

    Parameters
    ----------
    columns : Columns
        Moments, with a truth and with pairs.
    pooled : bool, optional
        Whether to pool; by default only where averages over classes would leave out more than 10 % of the samples.

    Returns
    -------
    MeanCorrelations
        Both correlations, over the same classes: those where the truth varies, or all.

    Notes
    -----
    A class has no correlation for a learner that never gives it, or where the truth never takes it; the average over
    the other classes then says nothing about its samples. With answers in free text only the answers that every learner
    hit would be left. The pooled correlation of two learners, or of a learner and the truth, is that of all columns at
    once, each about its own mean:

    .. math::

        r(x, y) = \frac{\sum_k \operatorname{Cov}_k(x, y)}
                  {\sqrt{\sum_k \operatorname{Var}_k(x) \sum_k \operatorname{Var}_k(y)}}.

    It is undefined only for a learner whose output never varies. Theorem 2 holds for averages over classes, since it
    holds class by class. It holds for pooled correlations too, because :math:`\sum_k \operatorname{Cov}_k` is an inner
    product of the columns side by side: with :math:`z_i` a learner scaled by its pooled standard deviation and
    :math:`S = \sum_i z_i`, Cauchy-Schwarz gives :math:`N r_{TL} = \langle S, T \rangle \le |S| = \sqrt{N + N (N - 1)
    r_{LL}}`. With two classes, the columns of which are each other's complement, both are the same.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> mean_correlations(sufficient_statistics(read, columns=True).columns).r_tl.round(3)
    array([0.577, 0.577])
    """
    if pooled is None:
        pooled = not columns.covered
    if not pooled:
        return MeanCorrelations(
            mean_defined(truth_correlations(columns), axis=1), columns.averages.matrix, pooled
        )
    return MeanCorrelations(_pooled_truth(columns), _pooled_pairs(columns), pooled)


def _pooled_truth(columns: Columns) -> FloatArray:
    """Return the pooled correlation of each learner with the truth, (N,)."""
    assert columns.cross is not None
    spread = np.where(columns.constant, 0.0, columns.spread).sum(axis=1)
    scale = np.sqrt(spread * _truth_spread(columns).sum(axis=-1))
    return np.clip(ratio(columns.cross.sum(axis=1), scale), -1.0, 1.0)


def _pooled_pairs(columns: Columns) -> FloatArray:
    """Return the pooled correlation of every two learners, (N, N)."""
    assert columns.pairs is not None
    pooled: FloatArray = columns.pairs.pooled().correlations()[0]
    return pooled


def _truth_spread(columns: Columns) -> FloatArray:
    """Return the sum of squared deviations of the truth in each class, where outputs are missing by learner."""
    assert columns.truth_means is not None
    if columns.shared is None:
        spread: FloatArray = columns.n_samples * columns.truth_means * (1 - columns.truth_means)
        return spread
    truth, answered = columns.shared.truth_means, np.diagonal(columns.shared.counts)[:, None]
    assert truth is not None
    return np.where(columns.enough[:, None], answered * truth * (1 - truth), 0.0)


def _check_flags(per_class: bool, pooled: bool) -> None:
    check_flag(per_class, "per_class")
    check_flag(pooled, "pooled")
    if per_class and pooled:
        raise ValueError("`pooled` must be False where `per_class` is True; got True.")


def constant_columns(columns: Columns, classes: list[object]) -> list[str]:
    """Return in words where the truth or a learner is constant, for a warning.

    Parameters
    ----------
    columns : Columns
        Moments, with or without a truth.
    classes : list
        The labels of the classes.

    Returns
    -------
    list of str
        The truth first, then the learners.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 0], [0, 1, 1]], [0, 1, 1])
    >>> constant_columns(sufficient_statistics(read, columns=True).columns, [0, 1])
    ['learner 0 in class 0', 'learner 0 in class 1']
    """
    places = [f"learner {i} in class {classes[k]!r}" for i, k in np.argwhere(columns.constant)]
    if columns.truth_means is None:
        return places
    return [f"the truth in class {classes[k]!r}" for k in np.flatnonzero(~columns.varied)] + places
