r"""Diversity of the whole ensemble at once, from how many learners are right on each sample.

Notation: N learners, n samples, :math:`l_s` learners right on sample s. A measure needs only the
histogram of :math:`l_s`, so its cost is linear in the learners.
"""

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, IntArray
from counterpoint.outputs import Outputs, sufficient_statistics, warn_undefined

__all__ = [
    "coincident_failure_diversity",
    "correctness_fleiss_kappa",
    "difficulty",
    "entropy",
    "generalized_diversity",
    "kohavi_wolpert_variance",
]


def entropy(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Measure how evenly each sample divides the learners into right and wrong.

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
    float
        E, in [0, 1]; high is diverse.

    Notes
    -----
    .. math:: E = \frac{1}{n} \sum_s \frac{\min(l_s, N - l_s)}{N - \lceil N / 2 \rceil}

    E is 0 if all learners are right or wrong together, 1 if every sample divides them in
    halves. It is always defined. Cunningham and Carney (2000) in the form of Kuncheva and Whitaker
    (2003), which uses no logarithm.

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(entropy([0, 0, 1, 1], votes), 3)
    0.75
    """
    return _entropy(_histogram(y_true, outputs, labels))


def kohavi_wolpert_variance(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> float:
    r"""Measure the variance of being right over the learners, averaged over the samples.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`entropy`.

    Returns
    -------
    float
        KW, in [0, 1/4]; high is diverse.

    Notes
    -----
    .. math:: KW = \frac{1}{n N^2} \sum_s l_s (N - l_s)

    KW is :math:`(N - 1) / 2N` times the mean disagreement of pairs. It is always defined. Kohavi and
    Wolpert (1996) in the form of Kuncheva and Whitaker (2003).

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(kohavi_wolpert_variance([0, 0, 1, 1], votes), 3)
    0.167
    """
    return _kohavi_wolpert(_histogram(y_true, outputs, labels))


def correctness_fleiss_kappa(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> float:
    r"""Measure the agreement of all learners on being right, beyond chance.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`entropy`.

    Returns
    -------
    float
        kappa, in [-1/(N - 1), 1]; low is diverse.

    Notes
    -----
    With :math:`\bar p` the mean accuracy of the learners,

    .. math:: \kappa = 1 - \frac{\sum_s l_s (N - l_s)}{n N (N - 1) \bar p (1 - \bar p)}.

    It is undefined, NaN with a warning, where all learners are always right or always wrong. Fleiss
    (1981); Kuncheva and Whitaker (2003), who call it interrater agreement.

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(correctness_fleiss_kappa([0, 0, 1, 1], votes), 3)
    -0.125
    """
    value = _interrater(_histogram(y_true, outputs, labels))
    warn_undefined("correctness_fleiss_kappa", ["this ensemble"] if np.isnan(value) else [])
    return value


def difficulty(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Measure the variance over the samples of the share of learners that are right.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`entropy`.

    Returns
    -------
    float
        theta, in [0, 1/4]; low is diverse.

    Notes
    -----
    .. math:: \theta = \operatorname{Var}_s(l_s / N)

    It is large where some samples are hard for all learners and others easy for all, and is always
    defined. Hansen and Salamon (1990); Kuncheva and Whitaker (2003).

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(difficulty([0, 0, 1, 1], votes), 3)
    0.056
    """
    return _difficulty(_histogram(y_true, outputs, labels))


def generalized_diversity(y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Measure how rarely a second learner fails where a first one does.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`entropy`.

    Returns
    -------
    float
        GD, in [0, 1]; high is diverse.

    Notes
    -----
    With :math:`f_s = N - l_s` failures on sample s,

    .. math:: GD = 1 - \frac{p(2)}{p(1)}, \quad p(1) = \frac{1}{n} \sum_s \frac{f_s}{N}, \quad
              p(2) = \frac{1}{n} \sum_s \frac{f_s (f_s - 1)}{N (N - 1)}.

    :math:`p(i)` is the chance that i learners drawn at random all fail. It is undefined, NaN with a
    warning, where no learner ever fails. Partridge and Krzanowski (1997).

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(generalized_diversity([0, 0, 1, 1], votes), 3)
    0.75
    """
    value = _generalized(_histogram(y_true, outputs, labels))
    warn_undefined("generalized_diversity", ["this ensemble"] if np.isnan(value) else [])
    return value


def coincident_failure_diversity(
    y_true: ArrayLike, outputs: ArrayLike, *, labels: ArrayLike | None = None
) -> float:
    r"""Measure how far failures fall on single learners, among samples with a failure.

    Parameters
    ----------
    y_true, outputs, labels
        As for :func:`entropy`.

    Returns
    -------
    float
        CFD, in [0, 1]; high is diverse.

    Notes
    -----
    With :math:`f_s = N - l_s` failures on sample s and the average over samples with a failure,

    .. math:: CFD = \operatorname{mean}_{s: f_s > 0} \frac{N - f_s}{N - 1}.

    It is 1 where failures never coincide. Where no learner ever fails its authors define it as 0.
    Partridge and Krzanowski (1997).

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    >>> round(coincident_failure_diversity([0, 0, 1, 1], votes), 3)
    0.833
    """
    return _coincident(_histogram(y_true, outputs, labels))


def _histogram(y_true: ArrayLike, outputs: ArrayLike, labels: ArrayLike | None) -> IntArray:
    read = Outputs(outputs, y_true, labels, at_least=2)
    counts = sufficient_statistics(read, correctness=True, pairs=False).correctness
    assert counts is not None
    return counts.histogram


def _shares(histogram: IntArray) -> tuple[int, FloatArray, FloatArray]:
    """Return N, the numbers 0 ... N, and the share of samples with so many learners right."""
    n = len(histogram) - 1
    return n, np.arange(n + 1.0), histogram / histogram.sum()


def _entropy(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    return float(share @ np.minimum(right, n - right) / (n // 2))  # N - ceil(N / 2)


def _kohavi_wolpert(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    return float(share @ (right * (n - right)) / n**2)


def _interrater(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    if histogram.sum() in (histogram[0], histogram[n]):
        return float("nan")
    accuracy = share @ right / n
    return float(1 - share @ (right * (n - right)) / (n * (n - 1) * accuracy * (1 - accuracy)))


def _difficulty(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    return float(share @ (right - share @ right) ** 2 / n**2)


def _generalized(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    if histogram[:n].sum() == 0:
        return float("nan")
    failures = n - right
    once = share @ failures / n
    twice = share @ (failures * (failures - 1)) / (n * (n - 1))
    return float(1 - twice / once)


def _coincident(histogram: IntArray) -> float:
    n, right, share = _shares(histogram)
    failing = share[:n].sum()
    return float(share[:n] @ right[:n] / (n - 1) / failing) if failing > 0 else 0.0


FORMULAS = {
    "coincident_failure_diversity": _coincident,
    "difficulty": _difficulty,
    "entropy": _entropy,
    "generalized_diversity": _generalized,
    "correctness_fleiss_kappa": _interrater,
    "kohavi_wolpert_variance": _kohavi_wolpert,
}
