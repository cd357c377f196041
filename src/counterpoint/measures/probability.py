r"""The probabilities of a vote, and how good probabilities are.

Notation: n samples, m classes; :math:`p_{sk}` is the probability that sample s is of class k, :math:`t_s` its true
class.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_probabilities,
    check_weights,
    check_whole,
)
from counterpoint.outputs import (
    VOTINGS,
    Outputs,
    as_array,
    check_classes,
    check_truth,
    column_classes,
    label_codes,
    log_losses,
    ratio,
    vote_credit,
    vote_probabilities,
)

__all__ = [
    "ProbabilityScores",
    "Reliability",
    "brier_score",
    "calibration_error",
    "combine",
    "log_loss",
    "reliability",
]

N_BINS = 15  # Guo et al. (2017)


class Reliability(NamedTuple):
    """How often the most probable class is the true one, by its probability.

    Attributes
    ----------
    edges : array, shape (n_bins + 1,)
        The edges of the bins. A bin holds its upper edge, not its lower one.
    confidence : array, shape (n_bins,)
        The mean probability of the most probable class; NaN in an empty bin.
    accuracy : array, shape (n_bins,)
        The share of samples whose most probable class is the true one; NaN in an empty bin.
    count : array of int, shape (n_bins,)
        The number of samples.

    Examples
    --------
    >>> from counterpoint.measures import reliability
    >>> found = reliability([0, 1], [[0.9, 0.1], [0.8, 0.2]], n_bins=2)
    >>> found.confidence, found.accuracy, found.count
    (array([ nan, 0.85]), array([nan, 0.5]), array([0, 2]))
    """

    edges: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    count: IntArray  # type: ignore[assignment]  # tuple.count has no use for a record


class ProbabilityScores:
    """Log-loss, Brier score and reliability of probabilities that come in blocks of samples.

    Parameters
    ----------
    n_bins : int, default=15
        The number of bins of confidence.

    Examples
    --------
    >>> import numpy as np
    >>> scores = ProbabilityScores()
    >>> scores.add(np.array([[0.9, 0.4], [0.1, 0.6]]), np.array([0, 1]))
    >>> round(scores.log_loss(), 3), round(scores.brier_score(), 3)
    (0.308, 0.17)
    """

    def __init__(self, n_bins: int = N_BINS) -> None:
        self.edges = np.linspace(0.0, 1.0, n_bins + 1)
        self.count = np.zeros(n_bins, dtype=np.int64)
        self.confidence_sum, self.right_sum = np.zeros(n_bins), np.zeros(n_bins)
        self.log_loss_sum = self.squares_sum = 0.0

    def add(self, proba: FloatArray, codes: NDArray[np.intp]) -> None:
        """Add a block of probabilities, (m, B), with the positions of the true classes, (B,)."""
        true = proba[codes, np.arange(len(codes))]
        self.log_loss_sum += float(log_losses(true).sum())
        # |p - y|^2 = |p|^2 - 2 p_t + 1
        self.squares_sum += float(np.einsum("kb,kb->", proba, proba) - 2 * true.sum() + len(true))
        confidence = np.minimum(proba.max(axis=0), 1.0)  # rows may miss the sum of one by rounding
        bins = np.maximum(np.searchsorted(self.edges, confidence) - 1, 0)
        self.count += np.bincount(bins, minlength=len(self.count))
        self.confidence_sum += np.bincount(bins, confidence, minlength=len(self.count))
        self.right_sum += np.bincount(bins, vote_credit(proba, codes), minlength=len(self.count))

    def log_loss(self) -> float:
        """Return the mean of minus the logarithm of the true class's probability."""
        return float(ratio(np.array(self.log_loss_sum), self.count.sum()))

    def brier_score(self) -> float:
        """Return the mean squared distance from the one-hot truth."""
        return float(ratio(np.array(self.squares_sum), self.count.sum()))

    def calibration_error(self) -> float:
        """Return the mean distance of confidence and accuracy in a bin, weighted by its samples."""
        gaps = np.abs(self.confidence_sum - self.right_sum)
        return float(ratio(gaps.sum(), self.count.sum()))

    def reliability(self) -> Reliability:
        """Return the mean confidence and the accuracy in each bin; no bins if nothing was scored."""
        confidence, accuracy = ratio(self.confidence_sum, self.count), ratio(self.right_sum, self.count)
        bins = slice(None if self.count.any() else 0)
        return Reliability(self.edges[bins], confidence[bins], accuracy[bins], self.count[bins])


def combine(outputs: ArrayLike, *, voting: str = "soft", weights: ArrayLike | None = None) -> FloatArray:
    r"""Return the probabilities of the vote of several learners.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples, n_classes)
        Probabilities.
    voting : {"hard", "soft", "geometric"}, default="soft"
        "hard" gives each class its share of the votes, "soft" the mean probability, "geometric" the normalised
        geometric mean.
    weights : array-like of shape (n_learners,), optional
        Weights of the learners, not negative, scaled to sum to one; by default equal.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The probabilities of the vote.

    See Also
    --------
    log_loss, brier_score, calibration_error : How good they are.

    Notes
    -----
    With weights :math:`w_i` the geometric vote is

    .. math:: \bar p_k \propto \prod_i p_{ik}^{w_i},

    which is the softmax of averaged logits. Its log-loss is the weighted mean of the learners' log-losses minus
    their diversity :math:`\sum_i w_i \mathrm{KL}(\bar p \,\|\, p_i)`, which does not depend on the truth (Wood et
    al., 2023). A learner that assigns probability 0 to a class practically rules it out.

    Examples
    --------
    >>> one, two = [[0.9, 0.1]], [[0.5, 0.5]]
    >>> combine([one, two])
    array([[0.7, 0.3]])
    >>> combine([one, two], voting="geometric")
    array([[0.75, 0.25]])
    """
    check_choice(voting, "voting", VOTINGS)
    array = as_array(outputs)
    if array.ndim != 3:
        raise ValueError(
            f"`outputs` must have axes (n_learners, n_samples, n_classes); got shape {array.shape}."
        )
    read = Outputs(array)
    return vote_probabilities(read, check_weights(weights, "weights", read.n_learners), voting)


def log_loss(y_true: ArrayLike, proba: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Return the mean of minus the logarithm of the true class's probability.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    proba : array-like of shape (n_samples, n_classes)
        Probabilities of one learner or of one vote.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns; by default the sorted labels of ``y_true``.

    Returns
    -------
    float
        At least 0; low is good.

    Notes
    -----
    The cross-entropy :math:`-\frac1n \sum_s \log p_{s t_s}`. Guessing each of m classes with equal probability gives
    :math:`\log m`. A true class of probability 0 costs 36, since probabilities are clipped at the machine epsilon,
    2.2e-16, as scikit-learn does.

    Examples
    --------
    >>> round(log_loss(["ham", "spam"], [[0.9, 0.1], [0.4, 0.6]]), 3)
    0.308
    """
    return _scored(y_true, proba, labels).log_loss()


def brier_score(y_true: ArrayLike, proba: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Return the mean squared distance of probabilities from the one-hot truth.

    Parameters
    ----------
    y_true, proba, labels
        As for :func:`log_loss`.

    Returns
    -------
    float
        In [0, 2]; low is good.

    See Also
    --------
    ambiguity_decomposition : The decomposition of the Brier score of the mean of several learners.

    Notes
    -----
    :math:`\frac1n \sum_s \sum_k (p_{sk} - [t_s = k])^2`, the sum over all classes of Brier (1950). With two
    classes it is twice the squared error of one of them, which is also called the Brier score.

    Examples
    --------
    >>> round(brier_score(["ham", "spam"], [[0.9, 0.1], [0.4, 0.6]]), 3)
    0.17
    """
    return _scored(y_true, proba, labels).brier_score()


def calibration_error(
    y_true: ArrayLike, proba: ArrayLike, *, n_bins: int = N_BINS, labels: ArrayLike | None = None
) -> float:
    r"""Return the expected calibration error of the most probable class.

    Parameters
    ----------
    y_true, proba, labels
        As for :func:`log_loss`.
    n_bins : int, default=15
        The number of bins of equal width.

    Returns
    -------
    float
        In [0, 1]; 0 if in each bin the accuracy equals the mean confidence.

    See Also
    --------
    reliability : The bins.

    Notes
    -----
    :math:`\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|` over bins of the highest probability
    (Guo et al., 2017). Classes that share the highest probability share the sample. With few samples the bins
    deviate by chance, so even a well calibrated learner has an error above 0.

    Examples
    --------
    >>> round(calibration_error([0, 0, 1, 1], [[0.8, 0.2], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]), 3)
    0.325
    """
    return _scored(y_true, proba, labels, n_bins).calibration_error()


def reliability(
    y_true: ArrayLike, proba: ArrayLike, *, n_bins: int = N_BINS, labels: ArrayLike | None = None
) -> Reliability:
    """Return how often the most probable class is right, by its probability.

    Parameters
    ----------
    y_true, proba, labels
        As for :func:`log_loss`.
    n_bins : int, default=15
        The number of bins of equal width.

    Returns
    -------
    Reliability
        ``edges``, ``confidence``, ``accuracy`` and ``count``, the data of a reliability diagram.

    See Also
    --------
    calibration_error : The mean distance of confidence and accuracy.
    counterpoint.plots.ReliabilityDisplay : The diagram.

    Examples
    --------
    >>> bins = reliability([0, 0, 1, 1], [[0.8, 0.2], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]], n_bins=4)
    >>> bins.count
    array([0, 0, 1, 3])
    >>> bins.accuracy
    array([nan, nan,  0.,  1.])
    """
    return _scored(y_true, proba, labels, n_bins).reliability()


def _scored(
    y_true: ArrayLike, proba: ArrayLike, labels: ArrayLike | None, n_bins: int = N_BINS
) -> ProbabilityScores:
    """Check the probabilities of one learner or vote, and score them."""
    scores = ProbabilityScores(check_whole(n_bins, "n_bins", minimum=1))
    array = as_array(proba, "proba", rows="classes for each sample")
    if array.ndim != 2:
        raise ValueError(f"`proba` must have axes (n_samples, n_classes); got shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"`proba` must not be empty; got shape {array.shape}.")
    array = check_probabilities(array, "proba")
    truth = check_truth(y_true)
    if len(truth) != len(array):
        raise ValueError(
            f"`proba` must have {len(truth)} samples, as `y_true`, on its first axis; got shape {array.shape}."
        )
    given = None if labels is None else check_classes(labels, truth)
    classes = column_classes(array.shape[1], given, truth, "proba")
    scores.add(array.T.astype(np.float64), label_codes(truth, classes))
    return scores
