r"""Correlation of learners with the truth and with each other.

Notation: :math:`T_k` is the truth and :math:`L_{ik}` the output of learner i in the column of class
k, one-hot for labels and as given for probabilities; r_tl and r_ll are their Pearson correlations.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import FloatArray, check_flag
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import (
    FEWEST_SHARED,
    Columns,
    Outputs,
    mean_defined,
    ratio,
    sufficient_statistics,
    warn_undefined,
    warn_undefined_pairs,
)

__all__ = [
    "constant_columns",
    "error_correlations",
    "learner_correlations",
    "learner_learner_correlation",
    "shared_correlations",
    "truth_correlations",
    "truth_learner_correlation",
]


def truth_learner_correlation(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    per_class: bool = False,
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
    check_flag(per_class, "per_class")
    read = Outputs(outputs, y_true, labels)
    columns = sufficient_statistics(read, columns=True, pairs=False).columns
    assert columns is not None
    warn_undefined("truth_learner_correlation", constant_columns(columns, read.classes.tolist()))
    correlations = truth_correlations(columns)
    return correlations if per_class else mean_defined(correlations, axis=1)


def learner_learner_correlation(
    outputs: ArrayLike, *, per_class: bool = False, labels: ArrayLike | None = None
) -> FloatArray:
    r"""Correlate every two learners.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities, of at least two learners.
    per_class : bool, default=False
        Keep the classes apart instead of averaging over them.
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
    check_flag(per_class, "per_class")
    read = Outputs(outputs, labels=labels, at_least=2)
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    warn_undefined("learner_learner_correlation", constant_columns(columns, read.classes.tolist()))
    correlations = learner_correlations(columns)
    return correlations if per_class else mean_defined(correlations, axis=0)


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
    assert columns.truth_means is not None
    if columns.shared is None:
        truth_spread = columns.n_samples * columns.truth_means * (1 - columns.truth_means)
    else:
        truth, answered = columns.shared.truth_means, np.diagonal(columns.shared.counts)[:, None]
        assert truth is not None
        enough = answered >= min(FEWEST_SHARED, columns.n_samples)
        truth_spread = np.where(enough, answered * truth * (1 - truth), 0.0)
    scale = np.sqrt(columns.spread * truth_spread)
    scale[columns.constant | _truth_constant(columns)] = 0.0
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
    assert columns.scatter is not None
    root = np.where(columns.constant, 0.0, np.sqrt(columns.spread)).T  # (m, N)
    scale = root[:, :, None] * root[:, None, :]
    if columns.shared is not None:
        both = np.sqrt(columns.shared.spread)
        enough = columns.shared.counts >= min(FEWEST_SHARED, columns.n_samples)
        scale = np.where(enough, both * both.swapaxes(1, 2), 0.0)
    correlations = np.clip(ratio(columns.scatter, scale), -1.0, 1.0)
    diagonal = np.arange(root.shape[1])
    correlations[:, diagonal, diagonal] = np.where(root > 0, 1.0, np.nan)
    return correlations


def shared_correlations(columns: Columns) -> tuple[FloatArray, FloatArray]:
    """Return both correlations in the classes that Theorem 2 compares: those where the truth varies.

    Parameters
    ----------
    columns : Columns
        Moments, with a truth and with pairs.

    Returns
    -------
    r_tl : ndarray of shape (n_learners, n_classes)
        The correlations with the truth; NaN where undefined.
    r_ll : ndarray of shape (n_classes, n_learners, n_learners)
        The correlations of every two learners, NaN in classes where the truth is constant. The diagonal is kept: it
        shows which learners vary. If the truth is constant in every class, r_ll is kept.

    Notes
    -----
    Theorem 2 holds class by class, so both averages must be over the same classes.

    Examples
    --------
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs([[0, 0, 1, 0], [0, 1, 1, 1]], [0, 0, 1, 1])
    >>> r_tl, r_ll = shared_correlations(sufficient_statistics(read, columns=True).columns)
    >>> r_tl[:, 0].round(3), float(r_ll[0, 0, 1].round(3))
    (array([0.577, 0.577]), 0.333)
    """
    by_class, pairs = truth_correlations(columns), learner_correlations(columns)
    absent = _truth_constant(columns)
    if absent.any() and not absent.all():
        pairs[absent[:, None, None] & ~np.eye(pairs.shape[1], dtype=bool)] = np.nan
    return by_class, pairs


def _truth_constant(columns: Columns) -> NDArray[np.bool_]:
    assert columns.truth_means is not None
    return np.isin(columns.truth_means, (0.0, 1.0))


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
    return [f"the truth in class {classes[k]!r}" for k in np.flatnonzero(_truth_constant(columns))] + places
