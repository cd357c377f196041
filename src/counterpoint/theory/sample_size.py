r"""How many labelled samples it takes to know how much learners err together.

Notation: N learners of accuracy ``p``, correlation ``c`` of being correct, :math:`s = \sqrt{p(1 - p)}`; K of them are
right on a sample.
"""

import numpy as np
from scipy import special

from counterpoint._validation import check_count, check_interval
from counterpoint.theory._jury import binomial, factor_angle

__all__ = ["samples_for_error_correlation"]

_Z = 1.959964  # two-sided 95 %
_POINTS = 2000  # cells of the common factor
_FAR = 9.0  # standard deviations, beyond which nothing happens
_TINY = 1e-12
_LEAST = 5  # errors of each learner, or right answers if these are rarer


def samples_for_error_correlation(p: float, c: float, n_learners: int, *, half_width: float = 0.05) -> int:
    r"""Return how many labelled samples bring the error correlation to plus or minus ``half_width``.

    Parameters
    ----------
    p : float
        The accuracy that you expect of a learner, between 0 and 1 exclusive.
    c : float
        The correlation of being correct that you expect, from 0 to 1.
    n_learners : int
        The number of learners, at least 2.
    half_width : float, default=0.05
        Half the width of the 95 % interval of the mean correlation over the pairs.

    Returns
    -------
    int
        The number of samples, for samples that do not belong together.

    See Also
    --------
    counterpoint.assess : Its ``effective.samples_needed`` is the same from samples that you have.

    Notes
    -----
    The mean correlation of pairs is, up to terms of order 1/n, a mean over samples of

    .. math:: \psi(K) = \frac{S^2 - (1 + (N - 1)\,c) \sum_i z_i^2}{N (N - 1)},

    with :math:`z_i` being right, standardised, and :math:`S = \sum_i z_i = (K - Np) / s`. Its variance follows from
    the distribution of K under the one-factor probit model of :func:`jury_accuracy`. Without errors there is no
    correlation: it takes at least as many samples as bring five errors of each learner, or five right answers if these
    are rarer.

    Examples
    --------
    >>> samples_for_error_correlation(0.7, 0.35, 6)
    405
    >>> samples_for_error_correlation(0.7, 0.35, 6, half_width=0.1)
    102
    """
    p = float(check_interval(p, "p", 0, 1, closed=False))
    c = float(check_interval(c, "c", 0, 1))
    half = float(check_interval(half_width, "half_width", 0, 1, closed=False))
    n = int(check_count(n_learners, "n_learners", minimum=2))
    angle = float(factor_angle(np.array([p]), np.array([c]))[0])
    common, own = np.sqrt(np.cos(2 * angle)), np.sqrt(2) * np.sin(angle)
    # Cells of the factor, finest where learners turn from right to wrong; beyond them nothing changes.
    turn, width = special.ndtri(p) / max(common, _TINY), _FAR * own / max(common, _TINY)
    edges = np.linspace(max(turn - width, -_FAR), min(turn + width, _FAR), _POINTS + 1)
    shares = np.diff(special.ndtr(edges), prepend=0, append=1)
    middle = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    right = special.ndtr((special.ndtri(p) - common * middle) / max(own, _TINY))
    k = np.arange(n + 1)
    chances = shares @ binomial(k, n, right[:, None])
    squares = (k * (1 - p) ** 2 + (n - k) * p**2) / (p * (1 - p))  # the sum of z^2
    psi = ((k - n * p) ** 2 / (p * (1 - p)) - (1 + (n - 1) * c) * squares) / (n * (n - 1))
    variance = chances @ psi**2 - (chances @ psi) ** 2
    return int(np.ceil(max(variance * (_Z / half) ** 2, _LEAST / min(p, 1 - p))))
