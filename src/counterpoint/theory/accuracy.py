r"""How accurate a learner is, given its correlation with the truth: Theorem 3.

Notation: ``p`` is the accuracy of a learner; ``alpha`` the share of class 1 in the truth; ``beta`` the share
of class 1 *among the correct answers*; ``r_tl`` the correlation of learner and truth (0/1 labels); in the
comments :math:`q = P(L = 1)` and :math:`s = \alpha (1 - \alpha)`.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import (
    FloatArray,
    check_broadcast,
    check_choice,
    check_count,
    check_interval,
    check_whole,
)
from counterpoint.exceptions import UndefinedMeasureWarning

__all__ = [
    "accuracy_from_correlation",
    "correlation_from_accuracy",
    "multiclass_accuracy_from_correlation",
    "multiclass_correlation_from_accuracy",
]


def correlation_from_accuracy(p: ArrayLike, *, alpha: ArrayLike = 0.5, beta: ArrayLike = 0.5) -> Any:
    r"""Return the correlation with the truth of a binary learner of known accuracy.

    Parameters
    ----------
    p : array_like
        The accuracy. At most ``alpha / beta`` and ``(1 - alpha) / (1 - beta)``: a learner cannot have
        more correct answers in a class than the class has learners.
    alpha : array_like, default=0.5
        The share of class 1 in the truth, strictly between 0 and 1.
    beta : array_like, default=0.5
        The share of class 1 among the correct answers, ``P(T=1, L=1) / p``.

    Returns
    -------
    float or array
        The correlation ``r_tl``.

    Warns
    -----
    UndefinedMeasureWarning
        Where the learner always gives the same answer: NaN.

    Notes
    -----
    Theorem 3, with :math:`q = (2\beta - 1) p + 1 - \alpha` the share of answers 1:

    .. math:: r_{TL} = \frac{\beta p - \alpha q}{\sqrt{\alpha (1 - \alpha) q (1 - q)}}.

    It is exact for every pair of binary vectors. Note that :math:`\beta = 1/2` means as many
    correct answers in one class as in the other, which is equal accuracy in both classes only if
    :math:`\alpha = 1/2`. Equal accuracy in both classes is :math:`\beta = \alpha`.

    Examples
    --------
    >>> float(correlation_from_accuracy(0.75))
    0.5
    >>> float(correlation_from_accuracy(0.9, alpha=0.2, beta=0.2).round(3))
    0.73
    """
    check_broadcast(p=p, alpha=alpha, beta=beta)
    a = check_interval(alpha, "alpha", 0, 1, closed=False)
    b = check_interval(beta, "beta", 0, 1)
    p_ = check_interval(p, "p", 0, _largest_accuracy(a, b), because="given alpha and beta")
    return _correlation(p_, a, b, "correlation_from_accuracy")


def accuracy_from_correlation(
    r_tl: ArrayLike,
    *,
    alpha: ArrayLike = 0.5,
    beta: ArrayLike = 0.5,
    order: int | None = None,
) -> Any:
    r"""Return the accuracy of a binary learner of known correlation with the truth.

    Parameters
    ----------
    r_tl : array_like
        The correlation of learner and truth, between -1 and 1. Without ``order`` it must be within reach
        for the given ``alpha`` and ``beta``.
    alpha : array_like, default=0.5
        The share of class 1 in the truth, strictly between 0 and 1.
    beta : array_like, default=0.5
        The share of class 1 among the correct answers.
    order : {None, 0, 1}, default=None
        None gives the exact inverse of Theorem 3; 0 the linear form, which is exact at
        ``beta = 1/2``; 1 the Taylor form of first order about ``beta = 1/2``.

    Returns
    -------
    float or array
        The accuracy ``p``.

    Notes
    -----
    Theorem 3 squared is quadratic in :math:`p`; its root of the right sign is, with
    :math:`s = \alpha (1 - \alpha)`, :math:`d = 2\beta - 1` and
    :math:`k = \alpha (1 - \beta) + \beta (1 - \alpha)`,

    .. math::
        p = s \, \frac{k + r^2 d (2\alpha - 1) / 2 + r \sqrt{\beta (1 - \beta) + r^2 d^2 / 4}}
        {k^2 + s r^2 d^2}.

    The Taylor form is

    .. math:: p = 2s (1 + r) - 4s (1 - 2\alpha) (1 + r)^2 (\beta - 1/2) + O((\beta - 1/2)^2);

    the paper prints :math:`\alpha - 2\alpha^2 + 2\alpha^3` in its coefficient where
    :math:`\alpha - 3\alpha^2 + 2\alpha^3` is right. At :math:`\beta \in \{0, 1\}` and :math:`r = 0` the
    learner is constant and the limit is returned.

    Examples
    --------
    >>> float(accuracy_from_correlation(0.5))
    0.75
    >>> [float(accuracy_from_correlation(0.3, alpha=0.4, beta=0.45, order=k).round(4)) for k in (None, 0, 1)]
    [0.6394, 0.624, 0.6402]
    """
    check_choice(order, "order", (None, 0, 1))
    check_broadcast(r_tl=r_tl, alpha=alpha, beta=beta)
    a = check_interval(alpha, "alpha", 0, 1, closed=False)
    b = check_interval(beta, "beta", 0, 1)
    r = check_interval(r_tl, "r_tl", -1, 1)
    s = a * (1 - a)
    if order is not None:
        order = check_whole(order, "order", minimum=0)
        linear = 2 * s * (1 + r)
        slope = -4 * s * (1 - 2 * a) * (1 + r) ** 2
        return (linear + order * slope * (b - 0.5))[()]
    top = _largest_accuracy(a, b)
    with np.errstate(invalid="ignore"):
        reach = np.nan_to_num(_correlation(top, a, b, None))  # a constant learner is the limit r = 0
    r = check_interval(r, "r_tl", -1, reach, because="given alpha and beta")
    d = 2 * b - 1
    k = a * (1 - b) + b * (1 - a)
    root = r * np.sqrt(b * (1 - b) + (r * d / 2) ** 2)
    exact = s * (k + r**2 * d * (2 * a - 1) / 2 + root) / (k**2 + s * (r * d) ** 2)
    return np.clip(exact, 0, top)[()]


def multiclass_accuracy_from_correlation(r_tl: ArrayLike, n_classes: ArrayLike) -> Any:
    r"""Return the accuracy of a multi-class learner of known correlation with the truth.

    Parameters
    ----------
    r_tl : array_like
        The correlation of the one-hot columns of learner and truth, averaged over classes; at least
        ``-1 / (n_classes - 1)``, where every answer is wrong.
    n_classes : int or array of int
        The number of classes, at least 2.

    Returns
    -------
    float or array
        The accuracy ``p``.

    Notes
    -----
    For :math:`m` balanced classes with errors spread evenly over the wrong classes,

    .. math:: p = \frac{1 + (m - 1) r_{TL}}{m}.

    In general class :math:`k`, with share :math:`\pi_k` in the truth and :math:`q_k` in the answers, has
    :math:`r_k = (P(T=k, L=k) - \pi_k q_k) / \sqrt{\pi_k (1 - \pi_k) q_k (1 - q_k)}`. For two classes it is
    the linear form of Theorem 3.

    Examples
    --------
    >>> float(multiclass_accuracy_from_correlation(0.5, n_classes=10))
    0.55
    """
    check_broadcast(r_tl=r_tl, n_classes=n_classes)
    m = check_count(n_classes, "n_classes", minimum=2)
    r = check_interval(r_tl, "r_tl", -1 / (m - 1), 1)
    return ((1 + (m - 1) * r) / m)[()]


def multiclass_correlation_from_accuracy(p: ArrayLike, n_classes: ArrayLike) -> Any:
    r"""Return the correlation with the truth of a multi-class learner of known accuracy.

    Parameters
    ----------
    p : array_like
        The accuracy, between 0 and 1.
    n_classes : int or array of int
        The number of classes, at least 2.

    Returns
    -------
    float or array
        The correlation ``r_tl``, averaged over classes; 0 at the accuracy of guessing.

    Notes
    -----
    The inverse of :func:`multiclass_accuracy_from_correlation`, under the same assumptions:

    .. math:: r_{TL} = \frac{m p - 1}{m - 1}.

    Examples
    --------
    >>> multiclass_correlation_from_accuracy([0.1, 0.55, 1.0], n_classes=10)
    array([0. , 0.5, 1. ])
    """
    check_broadcast(p=p, n_classes=n_classes)
    m = check_count(n_classes, "n_classes", minimum=2)
    p_ = check_interval(p, "p", 0, 1)
    return ((m * p_ - 1) / (m - 1))[()]


def _largest_accuracy(alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Return the accuracy at which one class is answered without error."""
    with np.errstate(divide="ignore"):
        top: FloatArray = np.minimum(np.minimum(alpha / beta, (1 - alpha) / (1 - beta)), 1.0)
    return top


def _correlation(p: FloatArray, alpha: FloatArray, beta: FloatArray, caller: str | None) -> Any:
    """Compute Theorem 3; warn in the name of ``caller`` about constant learners."""
    hits = beta * p  # P(T=1, L=1)
    false_alarms = np.clip(1 - alpha - (1 - beta) * p, 0, None)  # P(T=0, L=1)
    misses = np.clip(alpha - hits, 0, None)  # P(T=1, L=0)
    q, not_q = hits + false_alarms, misses + (1 - beta) * p
    spread = np.sqrt(alpha * (1 - alpha) * q * not_q)
    # beta p - alpha q, written without cancellation
    numerator = hits * (1 - beta) * p - misses * false_alarms
    if caller and (spread <= 0).any():
        warnings.warn(
            f"`{caller}` is undefined where the learner always gives the same answer.",
            UndefinedMeasureWarning,
            stacklevel=3,
        )
    numerator, spread = np.broadcast_arrays(numerator, spread)
    nan = np.full(spread.shape, np.nan)
    return np.divide(numerator, spread, out=nan, where=spread > 0)[()]
