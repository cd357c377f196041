r"""How accurate a majority vote becomes with more learners of the same kind.

Notation: ``p``, ``c`` and :math:`M_N` as in :mod:`counterpoint.theory.voting`.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import (
    ROUNDING,
    FloatArray,
    IntArray,
    check_broadcast,
    check_count,
    check_interval,
)
from counterpoint.exceptions import ModelRangeWarning
from counterpoint.theory._jury import least_error_correlation
from counterpoint.theory.voting import jury_accuracy

__all__ = ["VoteCurve", "vote_accuracy_curve"]


class VoteCurve(NamedTuple):
    """The accuracy of a vote by number of learners.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Numbers of learners, in increasing order.
    accuracy : ndarray of shape (n_sizes,)
        The accuracy of the vote of that many learners; NaN where there is no prediction.
    low, high : ndarray of shape (n_sizes,), optional
        The ends of its 95 % interval.

    Examples
    --------
    >>> sizes = [1, 5, 25]
    >>> VoteCurve(sizes, vote_accuracy_curve(0.75, 0.2, sizes)).accuracy.round(3)
    array([0.75 , 0.823, 0.862])
    """

    sizes: IntArray
    accuracy: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


def vote_accuracy_curve(p: ArrayLike, c: ArrayLike, sizes: ArrayLike) -> FloatArray:
    r"""Return the accuracy of the majority vote as a function of the number of learners.

    Parameters
    ----------
    p, c : array_like
        The accuracy of each learner and the correlation of being correct, from a pilot ensemble.
    sizes : array_like of int, shape (n_sizes,)
        The numbers of learners to look at, each at least 1.

    Returns
    -------
    array, shape (..., n_sizes)
        :math:`M_N(p, c)` for each size, under the probit model; the leading axes are those of ``p`` and ``c``.

    Warns
    -----
    ModelRangeWarning
        Where ``c`` is negative and no ensemble of that size can have it: NaN.

    Notes
    -----
    It answers the question "my five learners have this accuracy and this error correlation; how accurate would fifty
    be?" More learners of the same kind keep ``p`` and ``c``. With :math:`c > 0` the curve rises to a limit below 1,

    .. math:: M_\infty = \Phi\left( \Phi^{-1}(p) / \sqrt{\rho} \right),

    where :math:`\rho` is the latent correlation that belongs to ``c``.

    Examples
    --------
    >>> vote_accuracy_curve(0.75, 0.2, [1, 5, 25, 101]).round(3)
    array([0.75 , 0.823, 0.862, 0.872])
    """
    n = check_count(sizes, "sizes", minimum=1)
    if n.ndim != 1:
        raise ValueError(f"`sizes` must be a list of numbers of learners; got shape {n.shape}.")
    check_broadcast(p=p, c=c)
    p_ = check_interval(p, "p", 0, 1)[..., None]
    c_ = check_interval(c, "c", -1, 1)[..., None]
    p_, c_, n = np.broadcast_arrays(p_, c_, n)
    possible = (n == 1) | (c_ >= least_error_correlation(p_, np.maximum(n, 2)) - ROUNDING)
    if not possible.all():
        first = tuple(np.argwhere(~possible)[0, :-1])
        warnings.warn(
            f"No ensemble of {n[first][~possible[first]].min()} or more learners of accuracy {p_[first][0]:.4g} can "
            f"have an error correlation of {c_[first][0]:.4g}; the curve is NaN at {(~possible).sum()} of "
            f"{possible.size} points.",
            ModelRangeWarning,
            stacklevel=2,
        )
    curve = np.full(n.shape, np.nan)
    if possible.any():
        curve[possible] = jury_accuracy(p_[possible], c_[possible], n[possible])
    return curve
