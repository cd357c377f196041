r"""How accurate a vote is when its learners differ.

Notation: ``p`` holds each learner's accuracy, ``c`` the correlations of being correct, ``w`` the weights of the vote;
the *score* is the sum of the weights of the learners that are right, and the vote is right when it passes one half.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, special

from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    IntArray,
    check_interval,
    check_square,
    check_weights,
    check_whole,
)
from counterpoint.theory._jury import least_variance, majority_weight, tilt
from counterpoint.theory.bounds import is_correlation_matrix, learner_correlation_bounds
from counterpoint.theory.plurality import check_agreement, plurality_accuracy, plurality_credit
from counterpoint.theory.voting import jury_accuracy

__all__ = ["mixed_vote_accuracy"]

_CELLS = 4000  # number of distinct values of the score; larger for many learners
_BLOCK = 256  # learners whose score is found one by one; blocks of them are joined by Fourier transforms
_NOISE = 1e-15  # what a Fourier transform leaves where a probability is zero
_MOST_HELD = 2**22  # pairs of learners that are looked at at once
_FEW = 12  # so few learners that every set of them can be looked at


def mixed_vote_accuracy(
    p: ArrayLike,
    c: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    n_classes: int = 2,
    agreement: float | None = None,
) -> float:
    r"""Return the accuracy of a simple or weighted vote of unequal learners.

    Parameters
    ----------
    p : array_like, shape (n_learners,)
        The accuracy of each learner.
    c : float or array_like, shape (n_learners, n_learners)
        The correlation of being correct: one number for all pairs, or a matrix. Two learners of different accuracy
        cannot have every correlation; a number that the accuracies do not allow raises a ValueError.
    weights : array_like, shape (n_learners,), default=None
        The weight of each vote, not negative; None is a simple majority. A tie counts one half.
    n_classes : int, default=2
        The number of classes. With more than two, the vote is a plurality without weights.
    agreement : float, optional
        The probability that two learners who are both wrong agree, as for :func:`plurality_accuracy`.

    Returns
    -------
    float
        The probability that the vote is right.

    Notes
    -----
    The one-factor probit with a loading :math:`a_i` for each learner: given the factor :math:`F`, learner :math:`i` is
    right with probability :math:`\Phi((t_i - a_i F) / \sqrt{1 - a_i^2})`, independently of the others, so the score is
    a (weighted) Poisson-binomial sum, found exactly by dynamic programming (for many learners by Fourier transforms)
    and averaged over :math:`F`. The loadings are those for which each learner's covariance with the score of the others
    is the one that ``c`` asks for. Negative correlations, which one factor cannot produce, are handled as in
    :func:`jury_accuracy`: by the distribution of the score nearest to this one that has the mean :math:`\sum_i w_i p_i`
    and the variance :math:`\sum_{ij} w_i w_j c_{ij} s_i s_j`, with :math:`s_i^2 = p_i (1 - p_i)`. For equal learners it
    is :func:`jury_accuracy`. A learner with more than half of the weight decides alone, whatever ``c``. Learners that
    are always right or always wrong have no correlation with the others. Weights are used exactly for up to 12
    learners, and for more learners if they are whole multiples of a unit with a sum of at most 4000 units (or 20 per
    learner); other weights are rounded to such a unit.

    Examples
    --------
    >>> round(mixed_vote_accuracy([0.9, 0.6, 0.6], 0.0), 3)
    0.792
    >>> round(mixed_vote_accuracy([0.9, 0.6, 0.6], 0.0, weights=[3, 1, 1]), 3)
    0.9
    >>> round(mixed_vote_accuracy([0.8, 0.75, 0.7, 0.7, 0.65], 0.2), 3)
    0.792
    """
    p_ = check_interval(p, "p", 0, 1)
    if p_.ndim != 1:
        raise ValueError(f"`p` must be a list of accuracies, one for each learner; got shape {p_.shape}.")
    n_classes = check_whole(n_classes, "n_classes", minimum=2)
    if weights is not None and n_classes > 2:
        raise ValueError(f"`weights` must be None for more than two classes; got {n_classes} classes.")
    spread_of_wrong = check_agreement(agreement, n_classes)
    w = check_weights(weights, "weights", len(p_))
    covariance, spread = _check_correlations(c, p_), np.sqrt(p_ * (1 - p_))
    covariance *= spread[:, None]
    covariance *= spread
    if 2 * w.max() > w.sum() * (1 + 1e-9):
        return float(p_[w.argmax()])  # more than half of the weight decides the vote
    w = _whole(w / w.max())
    keep = w > 0  # a vote without weight does not count
    if not keep.all():
        p_, w, covariance = p_[keep], w[keep], covariance[np.ix_(keep, keep)]
    if (c_ := _common_correlation(p_, w, covariance)) is not None:
        if n_classes > 2:
            return float(
                plurality_accuracy(p_[0], c_, len(p_), n_classes=n_classes, agreement=spread_of_wrong)
            )
        return float(jury_accuracy(p_[0], c_, len(p_)))
    loadings = _loadings(p_, w, covariance)
    # The number of correct votes steps from few to many within this width of the factor.
    step = np.sqrt(1 - loadings.max() ** 2) / max(loadings.max(), 0.01) / np.sqrt(len(w))
    factor, density = _factor_rule(1.5 * step)
    support, score = _score_distribution(_conditional_accuracy(p_, loadings, factor), w)
    score = score @ density  # (values of the score,)
    mean, variance = np.atleast_1d(w @ p_, w @ covariance @ w)
    slack = ROUNDING * (1 + (w @ np.sqrt(p_ * (1 - p_))) ** 2)  # as much as a rounding of all of c, or of p
    if variance[0] < (least := least_variance(support, mean)[0]) - slack:
        raise ValueError(
            f"`c` must leave the score of the vote a variance of at least {least:.6g} (being correct is yes or no); "
            f"got {variance[0]:.6g}."
        )
    spread = score @ support**2 - (score @ support) ** 2
    if abs(spread - variance[0]) > 1e-6 * variance[0] + 1e-9:  # as for negative correlations
        support, score = support[score > 0], score[score > 0]  # impossible scores remain impossible
        score = tilt(support, np.log(score), mean, variance, start=np.zeros(1))[0]
    if n_classes == 2:
        right = majority_weight(support, w.sum())
    else:
        right = plurality_credit(len(p_), n_classes, spread_of_wrong)[support.astype(int)]
    return float(np.clip(score @ right, 0, 1))


def _whole(shares: FloatArray) -> FloatArray:
    """Return the weights as whole numbers of one unit where they have one or are many."""
    cells = max(_CELLS, 20 * len(shares))
    units = np.arange(1, int(cells / shares.sum()) + 1)  # in the largest weight
    for share in shares:
        units = units[np.abs(units * share - np.round(units * share)) <= 1e-9]
    if not len(units) and np.count_nonzero(shares) <= _FEW:
        return shares
    whole: FloatArray = np.round(shares * (units[0] if len(units) else cells / shares.sum()))
    return whole


def _common_correlation(p: FloatArray, w: FloatArray, covariance: FloatArray) -> float | None:
    """Return the correlation if all learners are equal, else None."""
    if len(p) == 1:
        return 0.0
    pairs = covariance[~np.eye(len(p), dtype=bool)]
    if np.ptp(p) or np.ptp(w) or np.ptp(pairs):
        return None
    variance = p[0] * (1 - p[0])
    return float(pairs[0] / variance) if variance else 0.0


def _check_correlations(c: ArrayLike, p: FloatArray) -> FloatArray:
    """Return the matrix of correlations, zero where a learner is never or always right."""
    n = len(p)
    if np.ndim(c) == 0:
        lowest = learner_correlation_bounds(n).low if n > 1 else -1.0
        matrix = np.full((n, n), check_interval(c, "c", lowest, 1, because="Theorem 1"))
        np.fill_diagonal(matrix, 1.0)
    else:
        matrix = check_square(c, "c")
        if matrix.shape != (n, n):
            raise ValueError(
                f"`c` must have a row and a column for each learner ({n}); got shape {matrix.shape}."
            )
        if not is_correlation_matrix(matrix):
            raise ValueError(
                "`c` must be a correlation matrix; got one that is not (see `nearest_correlation_matrix`)."
            )
    varies = (p > 0) & (p < 1)
    matrix = matrix.copy()
    matrix[~varies] = matrix[:, ~varies] = 0.0
    np.fill_diagonal(matrix, 1.0)
    log_odds = np.where(varies, special.logit(np.where(varies, p, 0.5)), 0.0)
    width = max(_MOST_HELD // n, 1)
    for start in range(0, n, width):  # many learners some at a time
        own, rows = log_odds[start : start + width, None], slice(start, start + width)
        most = np.exp(-np.abs(own - log_odds) / 2)  # one is right whenever the other is
        least = -np.exp(-np.abs(own + log_odds) / 2)  # one is right whenever the other is wrong
        matrix[rows] = check_interval(
            matrix[rows], "c", least, most, because="two learners with these accuracies"
        )
    return matrix


def _loadings(p: FloatArray, w: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the loadings that give each learner its covariance with the score of the others."""
    target = w * (covariance @ w - w * np.diagonal(covariance))
    target = np.maximum(target, 0.0)  # a common factor only binds
    if target.sum() == 0:
        return np.zeros_like(p)
    response = w * np.exp(-(special.ndtri(p) ** 2) / 2) / np.sqrt(2 * np.pi)
    first_order = target / np.sqrt(target.sum()) / np.maximum(response, 1e-12)
    factor, density = _factor_rule(0.03)
    log_odds = special.logit(np.clip(first_order**2, 0, 0.9))
    for _ in range(500):
        loadings: FloatArray = np.sqrt(special.expit(log_odds))
        given = w[:, None] * _conditional_accuracy(p, loadings, factor)
        others = given.sum(axis=0) - given
        reached = (given * others) @ density - (w * p) * ((w @ p) - w * p)
        if np.abs(reached - target).max() <= 1e-9 * target.sum():
            break
        # In log-odds of the squared loading the covariance responds at most about one to one.
        correction = np.log(np.maximum(target, 1e-300) / np.maximum(reached, 1e-300))
        log_odds = np.clip(log_odds + 0.7 * np.clip(correction, -2, 2), -40, 16)
    return loadings


def _factor_rule(step: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the factor; the trapezoidal rule converges geometrically here."""
    nodes = np.linspace(-7.0, 7.0, int(np.clip(14 / step, 128, 2048)) + 1)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    return nodes, weights


def _conditional_accuracy(p: FloatArray, loadings: FloatArray, factor: FloatArray) -> FloatArray:
    """Return each learner's accuracy given the factor, shape (n_learners, nodes)."""
    t, a = special.ndtri(p)[:, None], loadings[:, None]
    given: FloatArray = special.ndtr((t - a * factor) / np.sqrt(1 - a**2))
    return given


def _score_distribution(given_factor: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values of the score and their distribution for each value of the factor, shape (values, nodes)."""
    if (w != np.round(w)).any():
        return _score_of_few(given_factor, w)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(w), _BLOCK)]
    parts = [_score_of_block(given_factor[block], w[block].astype(int)) for block in blocks]
    while len(parts) > 1:
        last = parts[len(parts) // 2 * 2 :]
        parts = [_joined(*two) for two in zip(parts[::2], parts[1::2], strict=False)] + last
    return np.arange(w.sum() + 1), parts[0]


def _score_of_block(given_factor: FloatArray, w: IntArray) -> FloatArray:
    """Return the distribution of the score of some learners, one learner after the other."""
    score = np.zeros((w.sum() + 1, given_factor.shape[1]))
    score[0] = 1.0
    reach = 0
    for right, weight in zip(given_factor, w, strict=True):
        moved = score[: reach + 1] * right
        score[: reach + 1] -= moved
        score[weight : reach + weight + 1] += moved
        reach += weight
    return score


def _joined(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the distribution of the sum of two scores, which are independent given the factor."""
    length = len(first) + len(second) - 1
    size = fft.next_fast_len(length, real=True)
    product = fft.rfft(first, size, axis=0) * fft.rfft(second, size, axis=0)
    score: FloatArray = fft.irfft(product, size, axis=0)[:length]
    score[score < _NOISE] = 0.0
    return score


def _score_of_few(given_factor: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same for weights without a unit, from every set of learners that may be right."""
    support, score = np.zeros(1), np.ones((1, given_factor.shape[1]))
    for right, weight in zip(given_factor, w, strict=True):
        support = np.concatenate([support, support + weight])
        score = np.concatenate([score * (1 - right), score * right])
    order = np.argsort(support)
    return support[order], score[order]
