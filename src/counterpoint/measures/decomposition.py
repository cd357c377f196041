r"""The loss of an ensemble as the loss of its learners less their diversity.

Notation: N learners with outputs :math:`q_i`, their combination :math:`\bar q`, the one-hot truth
:math:`y`. A loss is summed over the classes and averaged over the samples.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import (
    FloatArray,
    check_choice,
    check_probabilities,
    check_weights,
)
from counterpoint.outputs import (
    BLOCK_ENTRIES,
    Columns,
    Outputs,
    SharedColumns,
    as_array,
    log_normalise,
    ratio,
    sufficient_statistics,
)

__all__ = [
    "AmbiguityDecomposition",
    "BiasVarianceDiversity",
    "ambiguity_decomposition",
    "bias_variance_diversity",
]


class AmbiguityDecomposition(NamedTuple):
    """The squared error of an ensemble: ``ensemble_error = average_error - ambiguity``.

    Attributes
    ----------
    ensemble_error : float
        The squared error of the weighted mean output.
    average_error : float
        The weighted mean of the learners' squared errors.
    ambiguity : float
        The weighted mean squared distance of the learners from the ensemble; high is diverse.

    Examples
    --------
    >>> from counterpoint.measures import ambiguity_decomposition
    >>> ambiguity_decomposition([1.0], [[0.0], [1.0]])
    AmbiguityDecomposition(ensemble_error=0.5, average_error=1.0, ambiguity=0.5)
    """

    ensemble_error: float
    average_error: float
    ambiguity: float


class BiasVarianceDiversity(NamedTuple):
    """The loss of an ensemble over trials: ``loss = bias + variance - diversity``.

    Attributes
    ----------
    loss : float
        The loss of the combined learners, averaged over the trials.
    bias : float
        The mean over learners of the loss of each one's centroid over the trials.
    variance : float
        The mean divergence of a learner's centroid over the trials from its outputs; 0 for one
        trial.
    diversity : float
        The mean divergence of the combination from the learners.

    Examples
    --------
    >>> from counterpoint.measures import bias_variance_diversity
    >>> parts = bias_variance_diversity(["a", "b"], [[[0.9, 0.1], [0.4, 0.6]], [[0.6, 0.4], [0.1, 0.9]]])
    >>> print(f"{parts.loss:.3f} = {parts.bias:.3f} + {parts.variance:.3f} - {parts.diversity:.3f}")
    0.125 = 0.170 + 0.000 - 0.045
    """

    loss: float
    bias: float
    variance: float
    diversity: float


def ambiguity_decomposition(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> AmbiguityDecomposition:
    r"""Decompose the squared error of the mean output into average error and ambiguity.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, which are one-hot encoded, or probabilities.
    weights : array-like of shape (n_learners,), optional
        Weights of the learners, not negative, scaled to sum to one; by default equal.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities. By default the sorted labels of
        ``y_true``, and of ``outputs`` where those are labels.

    Returns
    -------
    AmbiguityDecomposition
        ``ensemble_error``, ``average_error`` and ``ambiguity``, the last in [0, 1); high is
        diverse.

    Notes
    -----
    With weights :math:`w_i` and :math:`\bar q = \sum_i w_i q_i`,

    .. math:: \|\bar q - y\|^2 = \sum_i w_i \|q_i - y\|^2 - \sum_i w_i \|q_i - \bar q\|^2

    on every sample, so that on average no ensemble is worse than its average learner. The error is
    the Brier score, in [0, 2]. Krogh and Vedelsby (1995).

    Examples
    --------
    >>> ambiguity_decomposition([0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 1]])
    AmbiguityDecomposition(ensemble_error=0.25, average_error=0.5, ambiguity=0.25)
    """
    read = Outputs(outputs, y_true, labels)
    w = check_weights(weights, "weights", read.n_learners)
    columns = sufficient_statistics(read, columns=True).columns
    assert columns is not None
    return ambiguity_of(columns, w)


def bias_variance_diversity(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    loss: str = "squared",
    labels: ArrayLike | None = None,
) -> BiasVarianceDiversity:
    r"""Decompose the loss of an ensemble into bias, variance and diversity.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like
        Probabilities of one trained ensemble (n_learners, n_samples, n_classes), or of one ensemble
        for each of several training sets (n_trials, n_learners, n_samples, n_classes). For the
        squared loss also labels (n_learners, n_samples), which are one-hot encoded.
    loss : {"squared", "cross_entropy"}, default="squared"
        The squared loss combines learners by their arithmetic mean; cross-entropy, minus the
        logarithm of the true class's probability, by their normalised geometric mean.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities. By default the sorted labels of
        ``y_true``, and of ``outputs`` where those are labels.

    Returns
    -------
    BiasVarianceDiversity
        ``loss``, ``bias``, ``variance`` and ``diversity``, none of them negative; the last is
        high where the ensemble is diverse.

    Notes
    -----
    Both losses are Bregman divergences :math:`B(y, q)`: the squared distance, and the
    Kullback-Leibler divergence. With :math:`\bar q` the combination of the learners in one trial
    and :math:`\mathring q_i` the combination of learner i over the trials, computed in the same way,

    .. math:: E[B(y, \bar q)] = \frac{1}{N} \sum_i B(y, \mathring q_i)
              + \frac{1}{N} \sum_i E[B(\mathring q_i, q_i)]
              - E\Big[\frac{1}{N} \sum_i B(\bar q, q_i)\Big],

    where E is the mean over trials: loss = bias + variance - diversity. The observed label counts
    as the truth, so noise is part of the bias. With one trial the variance is 0 and the bias is
    the average loss of the learners. Wood et al., A unified theory of diversity in ensemble learning
    (2023).

    Examples
    --------
    >>> one = [[0.9, 0.1], [0.4, 0.6]]
    >>> two = [[0.6, 0.4], [0.1, 0.9]]
    >>> parts = bias_variance_diversity(["a", "b"], [one, two])
    >>> [round(part, 4) for part in parts]
    [0.125, 0.17, 0.0, 0.045]
    """
    check_choice(loss, "loss", ("squared", "cross_entropy"))
    codes, trials = _read_trials(y_true, outputs, loss, labels)
    parts = np.zeros(4)
    n_samples = trials.shape[2]
    width = max(1, BLOCK_ENTRIES * n_samples // (4 * trials.size))
    for start in range(0, n_samples, width):
        block = trials[:, :, start : start + width].astype(np.float64)
        truth = np.eye(trials.shape[3])[codes[start : start + width]]
        parts += _squared(truth, block) if loss == "squared" else _cross_entropy(truth, block)
    total, bias, variance, diversity = (parts / n_samples).tolist()
    return BiasVarianceDiversity(total, bias, variance, diversity)


def ambiguity_of(columns: Columns, weights: FloatArray) -> AmbiguityDecomposition:
    """Return the decomposition from moments that were gathered before."""
    assert columns.pairs is not None
    assert columns.cross is not None
    assert columns.truth_means is not None
    if columns.shared is not None:
        return _ambiguity_of_pairs(columns, columns.shared, weights)
    n, truth = columns.n_samples, columns.truth_means
    truth_variance = truth * (1 - truth)
    together = float(weights @ columns.pairs.pooled().scatter[0] @ weights) / n
    mean = weights @ columns.means
    ensemble = truth_variance - 2 * weights @ columns.cross / n + (mean - truth) ** 2
    single = columns.spread + n * truth_variance - 2 * columns.cross
    average = weights @ (single / n + (columns.means - truth) ** 2)
    ambiguity = weights @ (columns.spread / n + (columns.means - mean) ** 2)
    return AmbiguityDecomposition(
        float(ensemble.sum()) + together, float(average.sum()), float(ambiguity.sum()) - together
    )


def _ambiguity_of_pairs(
    columns: Columns, shared: SharedColumns, weights: FloatArray
) -> AmbiguityDecomposition:
    """Return the decomposition if outputs are missing, by the mean squared distance of two learners where both answer.

    The ambiguity of complete outputs is half that distance, averaged over all pairs of learners.
    """
    assert columns.pairs is not None
    assert columns.cross is not None
    assert shared.truth_means is not None
    answered, truth = np.diagonal(shared.counts)[:, None], shared.truth_means
    single = (columns.spread - 2 * columns.cross) / answered + truth * (1 - truth)
    average = float(weights @ (single + (columns.means - truth) ** 2).sum(axis=1))
    both = columns.pairs.pooled()
    assert both.gaps is not None
    distance = ratio((both.spread + both.other_spread - 2 * both.scatter)[0], shared.counts) + both.gaps[0]
    known = np.outer(weights, weights) * ~np.isnan(distance)
    ambiguity = float((known * np.nan_to_num(distance)).sum() / known.sum() / 2)
    return AmbiguityDecomposition(average - ambiguity, average, ambiguity)


def _read_trials(
    y_true: ArrayLike, outputs: ArrayLike, loss: str, labels: ArrayLike | None
) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
    """Return the positions of the true labels and the outputs with four axes, trials first."""
    array = as_array(outputs)
    trials = array if array.ndim == 4 else array[np.newaxis]
    if array.ndim == 4:
        check_probabilities(array, "outputs")
    read = Outputs(trials[0], y_true, labels)
    codes = read.truth_codes
    assert codes is not None
    if read.probabilities is not None:
        if loss == "cross_entropy" and (zero := trials <= 0).any():
            at = np.argwhere(zero)[0, 4 - array.ndim :].tolist()
            raise ValueError(f"`outputs` must be positive for cross-entropy; got 0 at {at}.")
        return codes, trials
    if loss == "cross_entropy":
        raise ValueError("`outputs` must be probabilities for cross-entropy; got labels.")
    every = slice(None)
    hot = np.stack([read.one_hot(k, every) for k in range(len(read.symbols))], axis=-1)
    return codes, hot[np.newaxis]


def _squared(truth: FloatArray, block: FloatArray) -> FloatArray:
    """Return loss, bias, variance, diversity, summed over samples; block is (t, N, n, m)."""
    n_trials, n_learners = block.shape[:2]
    ensemble = block.mean(axis=1, keepdims=True)
    centroid = block.mean(axis=0, keepdims=True)
    return np.array(
        [
            ((ensemble - truth) ** 2).sum() / n_trials,
            ((centroid - truth) ** 2).sum() / n_learners,
            ((centroid - block) ** 2).sum() / (n_trials * n_learners),
            ((ensemble - block) ** 2).sum() / (n_trials * n_learners),
        ]
    )


def _cross_entropy(truth: FloatArray, block: FloatArray) -> FloatArray:
    """Return loss, bias, variance, diversity, summed over samples; block is (t, N, n, m)."""
    n_trials, n_learners = block.shape[:2]
    logs = log_normalise(np.log(block))
    ensemble = log_normalise(logs.mean(axis=1, keepdims=True))
    centroid = log_normalise(logs.mean(axis=0, keepdims=True))
    return np.array(
        [
            -(truth * ensemble).sum() / n_trials,
            -(truth * centroid).sum() / n_learners,
            (np.exp(centroid) * (centroid - logs)).sum() / (n_trials * n_learners),
            (np.exp(ensemble) * (ensemble - logs)).sum() / (n_trials * n_learners),
        ]
    )
