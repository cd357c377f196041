r"""How accurate a majority vote is.

Notation: ``p`` is the accuracy of each learner; ``c`` the correlation of *being correct* between two learners, not
of their labels; ``r_tl``, ``r_ll`` the correlations of the labels; ``alpha``, ``beta`` as in Theorem 3;
:math:`M_N` the accuracy of the majority of :math:`N` learners. A tie counts one half.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    IntArray,
    check_broadcast,
    check_choice,
    check_count,
    check_interval,
)
from counterpoint.exceptions import ModelRangeWarning, UndefinedMeasureWarning
from counterpoint.theory._jury import (
    bahadur_majority,
    bahadur_valid,
    least_error_correlation,
    probit_majority,
)
from counterpoint.theory.accuracy import accuracy_from_correlation
from counterpoint.theory.bounds import Interval, learner_correlation_bounds

__all__ = [
    "error_correlation",
    "error_correlation_bounds",
    "jury_accuracy",
    "vote_accuracy",
]

# Below this variance of being correct, learners count as always right or always wrong, and c has no effect.
_NO_ROOM = 1e-15


def error_correlation(r_tl: ArrayLike, r_ll: ArrayLike) -> Any:
    r"""Return the correlation of being correct, from the correlations of the labels.

    Parameters
    ----------
    r_tl : array_like
        The correlation of each learner with the truth.
    r_ll : array_like
        The correlation of each pair of learners, at least ``2 * r_tl**2 - 1``.

    Returns
    -------
    float or array
        The correlation ``c`` of the events "learner i is correct" and "learner j is correct".

    Warns
    -----
    UndefinedMeasureWarning
        Where the learners are perfect (or perfectly wrong) and "correct" is constant: NaN.

    Notes
    -----
    For balanced classes and errors that are symmetric between them,

    .. math:: c = \frac{r_{LL} - r_{TL}^2}{1 - r_{TL}^2}.

    Independent errors (:math:`c = 0`) are :math:`r_{LL} = r_{TL}^2`, and the upper curve of Theorem 2 is
    :math:`c = -1/(N-1)`: Theorem 2 is Theorem 1 on the correctness. This is the quantity that belongs in the
    formula for the majority vote, where the paper puts :math:`r_{LL}`.

    Examples
    --------
    >>> error_correlation(0.5, [0.25, 0.4, 1.0]).round(3)
    array([0. , 0.2, 1. ])
    """
    check_broadcast(r_tl=r_tl, r_ll=r_ll)
    r = check_interval(r_tl, "r_tl", -1, 1)
    rr = check_interval(r_ll, "r_ll", 2 * r**2 - 1, 1, because="two learners with this r_tl")
    room = np.broadcast_to(1 - r**2, rr.shape)
    if (room == 0).any():
        warnings.warn(
            "`error_correlation` is undefined for learners that are always right or always wrong.",
            UndefinedMeasureWarning,
            stacklevel=2,
        )
    return np.divide(rr - r**2, room, out=np.full(rr.shape, np.nan), where=room > 0)[()]


def error_correlation_bounds(p: ArrayLike, n_learners: ArrayLike) -> Interval:
    r"""Bound the correlation of being correct among learners of equal accuracy.

    Parameters
    ----------
    p : array_like
        The accuracy of each learner.
    n_learners : int or array of int
        The number of learners, at least 2.

    Returns
    -------
    Interval
        The lowest and the highest possible mean ``c``.

    Notes
    -----
    The number of correct votes is an integer with mean :math:`Np`, so its variance is at least
    :math:`f (1 - f)` with :math:`f` the fractional part of :math:`Np`, and

    .. math:: c \ge \frac{1}{N - 1} \left( \frac{f (1 - f)}{N p (1 - p)} - 1 \right).

    This is sharper than the :math:`-1/(N-1)` of Theorem 1, which is reached only where :math:`Np` is whole;
    equality holds when the number of correct votes is always one of the two integers around :math:`Np`. For
    :math:`p` of 0 or 1 there is no correlation and Theorem 1's bound is returned.

    Examples
    --------
    >>> error_correlation_bounds([0.5, 0.6], n_learners=5).low.round(3)
    array([-0.2 , -0.25])
    """
    check_broadcast(p=p, n_learners=n_learners)
    n = check_count(n_learners, "n_learners", minimum=2)
    p_ = check_interval(p, "p", 0, 1)
    low = least_error_correlation(p_, n)
    return Interval(low[()], np.ones_like(low)[()])


def jury_accuracy(p: ArrayLike, c: ArrayLike, n_learners: ArrayLike, *, model: str = "probit") -> Any:
    r"""Return the accuracy of the majority vote of equal learners.

    Parameters
    ----------
    p : array_like
        The accuracy of each learner.
    c : array_like
        The correlation of being correct, within :func:`error_correlation_bounds`.
    n_learners : int or array of int
        The number of learners, at least 1; any parity, a tie counts one half.
    model : {"probit", "bahadur"}, default="probit"
        ``"probit"`` stays between 0 and 1 for every possible ``p`` and ``c``; ``"bahadur"`` is Kaniovski's
        closed form, a second-order expansion.

    Returns
    -------
    float or array
        :math:`M_N(p, c)`.

    Warns
    -----
    ModelRangeWarning
        Where ``"bahadur"`` would give a negative probability to some number of correct votes.

    Notes
    -----
    Two numbers do not determine the distribution of :math:`N` votes; the models are two ways of completing it. The
    first order in ``c`` is common to both:

    .. math::
        M_N(p, c) = I_p(m, m) + \frac{c (N - 1) (1/2 - p)}{2} \frac{(p (1 - p))^{m - 1}}{B(m, m)} + O(c^2),
        \qquad m = \frac{N + 1}{2},

    which is Kaniovski's formula [1]_ for odd :math:`N`. *Probit*, for :math:`c \ge 0`: a learner is correct when a
    Gaussian shared by all plus one of its own stays under a threshold. For :math:`c < 0`, where no shared cause can
    exist: the number of correct votes is distributed as near to the binomial (in relative entropy) as its variance
    allows, down to the bound of :func:`error_correlation_bounds`. An even number of equal learners is exactly as
    accurate as all of them but one, whatever their dependence; so :math:`M_N = M_{N-1}` for even :math:`N`, except in
    the probit model with :math:`c < 0`, where the distribution is found anew for each size. At ``c = 1`` the vote is
    as accurate as one learner; at :math:`p \in \{0, 1\}` the correlation has no meaning and no effect.

    References
    ----------
    .. [1] S. Kaniovski and A. Zaigraev (2011). Optimal jury design for homogeneous juries with correlated votes.
       Theory and Decision 71, 439-459.

    Examples
    --------
    >>> jury_accuracy(0.75, [0.0, 0.2, 1.0], n_learners=5).round(4)
    array([0.8965, 0.823 , 0.75  ])
    >>> float(jury_accuracy(0.75, 0.0, n_learners=4).round(3))  # as good as three
    0.844
    """
    check_choice(model, "model", ("probit", "bahadur"))
    check_broadcast(p=p, c=c, n_learners=n_learners)
    n = check_count(n_learners, "n_learners", minimum=1)
    p_ = check_interval(p, "p", 0, 1)
    low = np.where(n > 1, least_error_correlation(p_, np.maximum(n, 2)), -1.0)
    c_ = check_interval(c, "c", low, 1, because="being correct is yes or no, for equal learners")
    return _by_size(probit_majority if model == "probit" else _bahadur, p_, c_, n)


def vote_accuracy(
    r_tl: ArrayLike,
    r_ll: ArrayLike,
    n_learners: ArrayLike,
    *,
    alpha: ArrayLike = 0.5,
    beta: ArrayLike = 0.5,
    model: str = "probit",
) -> Any:
    r"""Return the accuracy of the majority vote, from the correlations of binary labels.

    Parameters
    ----------
    r_tl, r_ll : array_like
        The truth-learner and the learner-learner correlation, equal for all learners and all pairs.
    n_learners : int or array of int
        The number of learners, at least 2. For ``model="paper"`` odd.
    alpha : array_like, default=0.5
        The share of class 1 in the truth.
    beta : array_like, default=0.5
        The share of class 1 among the correct answers; equal accuracy in both classes is ``beta=alpha``.
    model : {"probit", "bahadur", "paper"}, default="probit"
        ``"paper"`` is the paper's equation exactly as printed, with ``r_ll`` in place of the error correlation;
        the other two are those of :func:`jury_accuracy`, with the error correlation within each class.

    Returns
    -------
    float or array
        The accuracy of the vote.

    Warns
    -----
    ModelRangeWarning
        Where ``"paper"`` or ``"bahadur"`` describes no probability.

    Notes
    -----
    With :math:`p` from the inverse of Theorem 3, the accuracies in the classes are :math:`a_1 = \beta p / \alpha` and
    :math:`a_0 = (1 - \beta) p / (1 - \alpha)`, and :math:`q = P(L = 1)`. The error correlation within a class,
    assumed the same in both, solves

    .. math::
        r_{LL} q (1 - q) + q^2 = \alpha (a_1^2 + c a_1 (1 - a_1)) + (1 - \alpha) ((1 - a_0)^2 + c a_0 (1 - a_0)),

    and the vote has the accuracy :math:`\alpha M_N(a_1, c) + (1 - \alpha) M_N(a_0, c)`. For
    :math:`\alpha = \beta = 1/2` this is :math:`M_N` at :func:`error_correlation`.

    The paper's equation takes :math:`p = 2\alpha (1 - \alpha) (1 + r_{TL})`, which assumes :math:`\beta = 1/2`, and
    :math:`c = r_{LL}`. For five independent learners of accuracy 0.75 (:math:`r_{TL} = 0.5`,
    :math:`r_{LL} = 0.25`) it gives 0.7646; the truth is 0.8965.

    Examples
    --------
    >>> float(vote_accuracy(0.5, 0.25, n_learners=5).round(4))
    0.8965
    >>> float(vote_accuracy(0.5, 0.25, n_learners=5, model="paper").round(4))
    0.7646
    """
    check_choice(model, "model", ("probit", "bahadur", "paper"))
    check_broadcast(r_tl=r_tl, r_ll=r_ll, n_learners=n_learners, alpha=alpha, beta=beta)
    n = check_count(n_learners, "n_learners", minimum=2)
    r = check_interval(r_tl, "r_tl", -1, 1)
    rr = check_interval(r_ll, "r_ll", *learner_correlation_bounds(n), because="Theorem 1")
    a = check_interval(alpha, "alpha", 0, 1, closed=False)
    b = check_interval(beta, "beta", 0, 1)
    if model == "paper":
        return _paper_vote_accuracy(r, rr, n, a, b)
    p = accuracy_from_correlation(r, alpha=a, beta=b)
    # Products of rounded numbers may leave [0, 1] by rounding.
    a_1, a_0 = np.clip(b * p / a, 0, 1), np.clip((1 - b) * p / (1 - a), 0, 1)
    q = a * a_1 + (1 - a) * (1 - a_0)
    shared = a * a_1**2 + (1 - a) * (1 - a_0) ** 2 - q**2  # covariance of the labels if c were 0
    room = a * a_1 * (1 - a_1) + (1 - a) * a_0 * (1 - a_0)
    spread = q * (1 - q)
    gap, room = np.broadcast_arrays(rr * spread - shared, room)
    low = np.maximum(least_error_correlation(a_1, n), least_error_correlation(a_0, n))
    # Only the rounding of r_ll is tolerated; near perfect learners c itself is a quotient of rounding errors.
    _check_feasible(gap, low, room, ROUNDING * spread + _NO_ROOM, rr, n)
    c = np.clip(np.divide(gap, room, out=np.zeros(room.shape), where=room > _NO_ROOM), low, 1)
    compute = probit_majority if model == "probit" else _bahadur
    m_1 = _by_size(compute, a_1, c, n)
    if np.array_equal(a_1, a_0):  # one class is like the other
        return m_1
    return (a * m_1 + (1 - a) * _by_size(compute, a_0, c, n))[()]


def _by_size(
    compute: Callable[[FloatArray, FloatArray, int], FloatArray], p: FloatArray, c: FloatArray, n: IntArray
) -> Any:
    """Broadcast, and compute the points of each size together."""
    p, c, n = np.broadcast_arrays(p, c, n)
    result = np.empty(p.shape)
    for size in np.unique(n):
        same = n == size
        result[same] = compute(p[same], c[same], int(size))
    return result[()]


def _bahadur(p: FloatArray, c: FloatArray, n: int, *, model: str = "bahadur") -> FloatArray:
    if (outside := ~bahadur_valid(p, c, n)).any():
        warnings.warn(
            f'model="{model}" with n_learners={n} describes no probability at {outside.sum()} of {p.size} '
            f'points, the first p={p[outside][0]:.4g}, c={c[outside][0]:.4g}; model="probit" does.',
            ModelRangeWarning,
            stacklevel=4,
        )
    return bahadur_majority(p, c, n)


def _paper_vote_accuracy(r: FloatArray, rr: FloatArray, n: IntArray, a: FloatArray, b: FloatArray) -> Any:
    if (n % 2 == 0).any():
        raise ValueError(f'`n_learners` must be odd for model="paper"; got {n[n % 2 == 0].flat[0]}.')
    if (b != 0.5).any():
        raise ValueError(f'`beta` must be 0.5 for model="paper"; got {b[b != 0.5].flat[0]:.6g}.')
    p = 2 * a * (1 - a) * (1 + r)

    return _by_size(partial(_bahadur, model="paper"), p, rr, n)


def _check_feasible(
    gap: FloatArray, low: FloatArray, room: FloatArray, slack: FloatArray, r_ll: FloatArray, n: IntArray
) -> None:
    """Raise an error for correlations that no votes can have, in terms of the caller's arguments."""
    bad = gap < low * room - slack  # c never passes 1, which is r_ll = 1
    if bad.any():
        gap_, low_, room_, r_ll_, n_ = (
            np.broadcast_to(a, bad.shape)[bad][0] for a in (gap, low, room, r_ll, n)
        )
        if room_ <= _NO_ROOM:
            raise ValueError(
                f"`r_ll` must be 1 for learners that are always right or always wrong; got {r_ll_:.6g}."
            )
        raise ValueError(
            f"`r_ll` must leave an error correlation between {low_:.6g} and 1 (the votes of {n_} learners "
            f"with this `r_tl`, `alpha` and `beta`); got r_ll={r_ll_:.6g}, which means c={gap_ / room_:.6g}."
        )
