r"""The pool that belongs to cross-entropy, and the diversity that belongs to the pool.

Notation: N learners; :math:`p_i(k)` is the probability that learner i gives to class k; ``weights`` are :math:`w_i`,
not negative and scaled to sum to one, by default :math:`1/N`; :math:`\bar p` is the pool, :math:`Z` its normaliser and
:math:`D` the diversity; :math:`CE(p) = -\sum_k y_k \log p(k)` is the cross-entropy of a target y that sums to one,
one-hot or soft. ``docs/theory.md``, "One family of losses", has the proofs.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from counterpoint._validation import (
    FloatArray,
    check_probabilities,
    check_real,
    check_unmasked,
    check_weights,
)

__all__ = ["cross_entropy_diversity", "geometric_pool"]


def geometric_pool(proba: ArrayLike, *, weights: ArrayLike | None = None) -> FloatArray:
    r"""Return the normalised geometric mean of the learners' probabilities.

    Parameters
    ----------
    proba : array_like, shape (n_learners, ..., n_classes)
        The probabilities of each learner.
    weights : array_like, shape (n_learners,), optional
        Weights of the learners, not negative, scaled to sum to one; by default equal.

    Returns
    -------
    ndarray, shape (..., n_classes)
        The pooled probabilities.

    Raises
    ------
    ValueError
        If, for some sample, every class has probability 0 under some learner of positive weight.

    See Also
    --------
    cross_entropy_diversity : What the pool gains over its learners.

    Notes
    -----
    .. math:: \bar p(k) = \frac1Z \prod_i p_i(k)^{w_i}, \qquad Z = \sum_k \prod_i p_i(k)^{w_i}.

    It is the softmax of the averaged logits, and the distribution that minimises :math:`\sum_i w_i KL(q \| p_i)` over
    q. A class to which a learner of positive weight gives probability 0 has probability 0 in the pool. A learner of
    weight 0 has no influence.

    References
    ----------
    .. [1] T. Heskes (1998). Selecting weighting factors in logarithmic opinion pools. Advances in Neural Information
       Processing Systems 10, 266-272.

    Examples
    --------
    >>> geometric_pool([[0.9, 0.1], [0.5, 0.5]])
    array([0.75, 0.25])
    >>> geometric_pool([[0.9, 0.1], [0.5, 0.5]], weights=[1, 0])
    array([0.9, 0.1])
    """
    logs, _ = _mean_logs(proba, weights)
    normaliser = special.logsumexp(logs, axis=-1, keepdims=True)  # log Z
    if (empty := np.isneginf(normaliser[..., 0])).any():
        place = np.argwhere(empty)[0].tolist()
        raise ValueError(
            "`proba` must have a class to which every learner of positive weight gives a positive probability; "
            f"got none{f' at {place}' if place else ''}."
        )
    pool: FloatArray = np.exp(logs - normaliser)
    return pool


def cross_entropy_diversity(proba: ArrayLike, *, weights: ArrayLike | None = None) -> Any:
    r"""Return the mean cross-entropy of the learners less that of their geometric pool.

    Parameters
    ----------
    proba : array_like, shape (n_learners, ..., n_classes)
        The probabilities of each learner.
    weights : array_like, shape (n_learners,), optional
        Weights of the learners, not negative, scaled to sum to one; by default equal.

    Returns
    -------
    float or array, shape (...)
        The diversity of each sample, in nats; never negative, and high where the learners differ. Infinite where every
        class has probability 0 under some learner of positive weight.

    See Also
    --------
    geometric_pool : The pool.
    counterpoint.measures.bias_variance_diversity : Its mean over samples, beside bias and variance.

    Notes
    -----
    For any target that sums to one,

    .. math:: \sum_i w_i \, CE(p_i) = CE(\bar p) + D, \qquad
              D = \sum_i w_i \, KL(\bar p \| p_i) = -\log \sum_k \prod_i p_i(k)^{w_i} \ge 0.

    The target is not in D, so D can be computed without labels. D is 0 exactly when all learners of positive weight
    agree. The mean of the probabilities has no such identity: what it gains depends on the label.

    Rows that miss a sum of one by rounding are scaled to it.

    References
    ----------
    .. [1] T. Heskes (1998). Selecting weighting factors in logarithmic opinion pools. Advances in Neural Information
       Processing Systems 10, 266-272.
    .. [2] D. Wood, T. Mu, A. Webb, H. Reeve, M. Luján and G. Brown (2023). A unified theory of diversity in ensemble
       learning. Journal of Machine Learning Research 24(359), 1-49.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> float(cross_entropy_diversity(proba).round(4))
    0.1116
    >>> (np.log(geometric_pool(proba)) - np.log(proba).mean(0)).round(4)  # what the pool gains, for either label
    array([0.1116, 0.1116])
    """
    logs, log_sum = _mean_logs(proba, weights)
    diversity = log_sum - special.logsumexp(logs, axis=-1)
    return np.maximum(diversity, 0.0)[()]  # Jensen's inequality, but for rounding


def _mean_logs(proba: ArrayLike, weights: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return the weighted means of the log-probabilities, (..., n_classes), and of the log-sums of the rows, (...)."""
    check_unmasked(proba, "proba")
    array = check_real(proba, "proba")
    if array.ndim < 2:
        raise ValueError(f"`proba` must have shape (n_learners, ..., n_classes); got shape {array.shape}.")
    check_probabilities(array[:, np.newaxis] if array.ndim == 2 else array, "proba")
    w = check_weights(weights, "weights", len(array))
    array, w = array[w > 0], w[w > 0]  # 0 times the logarithm of 0 is not a number
    with np.errstate(divide="ignore"):
        logs = np.log(array)
    w = w.reshape(-1, *[1] * (array.ndim - 1))
    return (w * logs).sum(0), (w[..., 0] * np.log(array.sum(-1))).sum(0)
