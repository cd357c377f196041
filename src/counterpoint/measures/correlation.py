r"""Correlation of learners with the truth and with each other.

Notation: :math:`T_k` is the truth and :math:`L_{ik}` the output of learner i in the column of class
k, one-hot for labels and as given for probabilities; r_tl and r_ll are their Pearson correlations.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import FloatArray, check_flag
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import Columns, Outputs, mean_defined, ratio, tally, warn_pairs, warn_undefined


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
    columns = tally(read, columns=True, pairs=False).columns
    assert columns is not None
    _warn_of_constants("truth_learner_correlation", columns, read, stacklevel=4)
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
    columns = tally(read, columns=True).columns
    assert columns is not None
    classes = read.classes.tolist()
    warn_undefined("learner_learner_correlation", _constant_learners(columns, classes))
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
    counts = tally(Outputs(outputs, y_true, labels, at_least=2), correctness=True).correctness
    assert counts is not None
    return warn_pairs("error_correlations", correctness_correlations(counts))


def truth_correlations(columns: Columns) -> FloatArray:
    """Return r_tl of each learner and class, (N, m), NaN where it is undefined."""
    assert columns.cross is not None
    assert columns.truth_means is not None
    truth_spread = columns.n_samples * columns.truth_means * (1 - columns.truth_means)
    scale = np.sqrt(columns.spread * truth_spread)
    scale[columns.constant | _truth_constant(columns)] = 0.0
    return np.clip(ratio(columns.cross, scale), -1.0, 1.0)


def learner_correlations(columns: Columns) -> FloatArray:
    """Return r_ll of each class, (m, N, N), NaN where it is undefined."""
    assert columns.scatter is not None
    root = np.where(columns.constant, 0.0, np.sqrt(columns.spread)).T  # (m, N)
    correlations = np.clip(ratio(columns.scatter, root[:, :, None] * root[:, None, :]), -1.0, 1.0)
    diagonal = np.arange(root.shape[1])
    correlations[:, diagonal, diagonal] = np.where(root > 0, 1.0, np.nan)
    return correlations


def shared_correlations(columns: Columns) -> tuple[FloatArray, FloatArray]:
    """Return r_tl, (N, m), and r_ll, (m, N, N), in the classes where the truth varies.

    Theorem 2 holds class by class, so both averages must be over the same classes. Where the truth varies in none,
    r_ll is kept. The diagonal is kept as well: it tells which learners vary.
    """
    by_class, pairs = truth_correlations(columns), learner_correlations(columns)
    absent = _truth_constant(columns)
    if absent.any() and not absent.all():
        pairs[absent[:, None, None] & ~np.eye(pairs.shape[1], dtype=bool)] = np.nan
    return by_class, pairs


def measured_correlations(
    display: str, y_true: ArrayLike, outputs: ArrayLike, labels: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Return r_tl, (N,), and r_ll, (N, N), both averaged over the classes where the truth varies.

    A warning names the display and points at the caller of the method that called the method that asks.
    """
    read = Outputs(outputs, y_true, labels, at_least=2)
    columns = tally(read, columns=True).columns
    assert columns is not None
    _warn_of_constants(display, columns, read, stacklevel=6)
    by_class, pairs = shared_correlations(columns)
    return mean_defined(by_class, axis=1), mean_defined(pairs, axis=0)


def _truth_constant(columns: Columns) -> NDArray[np.bool_]:
    assert columns.truth_means is not None
    return np.isin(columns.truth_means, (0.0, 1.0))


def _warn_of_constants(name: str, columns: Columns, read: Outputs, *, stacklevel: int) -> None:
    classes = read.classes.tolist()
    absent = [f"the truth in class {classes[k]!r}" for k in np.flatnonzero(_truth_constant(columns))]
    warn_undefined(name, absent + _constant_learners(columns, classes), stacklevel=stacklevel)


def _constant_learners(columns: Columns, classes: list[object]) -> list[str]:
    return [f"learner {i} in class {classes[k]!r}" for i, k in np.argwhere(columns.constant)]
