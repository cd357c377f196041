r"""How much of an output is signal: the currency in which independent learners add up.

Notation: ``r`` is the correlation of an output with the truth, and :math:`f(r)` the variance of the output that goes
with the truth over the variance that is left. With S the sum of N learners and T the truth,

    f(corr(S, T)) = Cov(S, T)^2 / (Var(S) Var(T) - Cov(S, T)^2).
"""

import numpy as np
from numpy.typing import ArrayLike

from counterpoint._validation import FloatArray, check_interval, check_real

__all__ = ["correlation_from_signal", "signal_from_correlation"]


def signal_from_correlation(r: ArrayLike) -> FloatArray:
    r"""Return the ratio of signal to noise of an output, from its correlation with the truth.

    Parameters
    ----------
    r : float or array
        The correlation, between -1 and 1.

    Returns
    -------
    float or array
        The ratio, with the sign of the correlation; infinite at -1 and 1.

    See Also
    --------
    correlation_from_signal : The inverse.
    counterpoint.assess : Its ``effective.votes`` is a quotient of two such ratios.

    Notes
    -----
    .. math:: f(r) = \frac{r\,|r|}{1 - r^2},

    Cohen's :math:`f^2` with a sign. The sum of N learners that correlate with the truth by r and err independently,
    given the truth, has :math:`\rho^2 = N r^2 / (1 + (N - 1) r^2)`, the formula of Spearman (1910) and Brown (1910), so
    that :math:`f(\rho) = N f(r)`: signals add up. Hence :math:`f(\rho) / f(r)` is the number of such learners that any
    panel is worth.

    References
    ----------
    C. Spearman (1910), Correlation calculated from faulty data, British Journal of Psychology 3, 271-295.
    W. Brown (1910), Some experimental results in the correlation of mental abilities, ibid., 296-322.

    Examples
    --------
    >>> signal_from_correlation([0.0, 0.5, -0.5, 1.0]).round(3)
    array([ 0.   ,  0.333, -0.333,    inf])

    Five learners with a correlation of 0.5, and their sum:

    >>> rho = (5 * 0.5**2 / (1 + 4 * 0.5**2)) ** 0.5
    >>> float(round(signal_from_correlation(rho) / signal_from_correlation(0.5), 6))
    5.0
    """
    r = check_interval(r, "r", -1, 1)
    left = 1 - r**2
    with np.errstate(divide="ignore"):
        ratio: FloatArray = np.asarray(r * np.abs(r) / left)
    return ratio[()]


def correlation_from_signal(ratio: ArrayLike) -> FloatArray:
    r"""Return the correlation of an output with the truth, from its ratio of signal to noise.

    Parameters
    ----------
    ratio : float or array
        The ratio, with the sign of the correlation.

    Returns
    -------
    float or array
        The correlation, :math:`\operatorname{sign}(f) \sqrt{|f| / (1 + |f|)}`.

    See Also
    --------
    signal_from_correlation : The inverse.

    Examples
    --------
    >>> float(correlation_from_signal(signal_from_correlation(0.5)).round(9))
    0.5

    What the sum of 1, 5 and 20 independent learners with a correlation of 0.5 reaches:

    >>> correlation_from_signal(np.array([1, 5, 20]) * signal_from_correlation(0.5)).round(3)
    array([0.5  , 0.791, 0.933])
    """
    given = check_real(ratio, "ratio")
    size = np.abs(given)
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(size), 1.0, size / (1 + size))
    correlation: FloatArray = np.sign(given) * np.sqrt(share)
    return correlation[()]
