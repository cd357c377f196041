r"""The numerics behind the vote: how many of the learners are right at once.

Notation: ``p`` accuracy, ``c`` correlation of being correct, ``n`` the number of learners, :math:`t = \Phi^{-1}(p)`.

Positive ``c``: a one-factor probit. Learner :math:`i` is right when
:math:`\sqrt\rho F + \sqrt{1 - \rho} E_i < t`, all Gaussian. The majority of an odd number is right when the
*median* learner is, so the accuracy of the vote is the distribution function of the sum of two independent
variables, :math:`\sqrt\rho F` and :math:`\sqrt{1 - \rho} \operatorname{med}(E)`, and one quadrature gives it.

Negative ``c``: no common factor can make learners oppose each other. The number of correct votes then has the
distribution nearest (in relative entropy) to that of independent learners among those with the right mean and
variance. It is an exponential tilt, meets the probit at ``c = 0`` with the same slope, and stays valid down to
the least correlation that votes can have.
"""

import warnings
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from counterpoint._validation import FloatArray, IntArray
from counterpoint.exceptions import ConvergenceWarning

N_NODES = 24  # error under 1e-11 for every size, accuracy and correlation
_CHUNK = 1 << 14  # points handled at once, so that the nodes of all of them stay in the cache
_RIDGE = 1 + 1e-11  # where two values have all the weight, the curvature has a direction without any
_MOST_VOTES = (
    200_000  # whose distribution is computed; beyond it the Gaussian limit differs by less than 1e-3
)
_MANY = 10**6  # learners, halved: beyond it the limits of large numbers are exact to 1e-6
_STEPS = 200  # of Newton; a dozen are usual


def probit_majority(p: FloatArray, c: FloatArray, n: int) -> FloatArray:
    """Return the accuracy of the majority of ``n`` learners, whatever the sign of ``c`` (flat arrays)."""
    opposed = (c < 0) & (p > 0) & (p < 1)
    result = np.empty_like(p)
    result[~opposed] = one_factor_majority(p[~opposed], np.clip(c[~opposed], 0, 1), n)
    if opposed.any():
        result[opposed] = opposed_majority(p[opposed], c[opposed], n) if n > 1 else p[opposed]
    return result


def least_error_correlation(p: FloatArray, n: IntArray) -> FloatArray:
    """Return the lowest correlation of being correct that ``n`` equal learners can have."""
    fraction = (n * p) % 1
    binomial = n * p * (1 - p)
    share = np.divide(
        fraction * (1 - fraction), binomial, out=np.zeros(np.shape(binomial)), where=binomial > 0
    )
    # For tiny p the rounding of n p matters; independence is always possible.
    return np.minimum((share - 1) / (n - 1), 0.0)


def one_factor_majority(p: FloatArray, c: FloatArray, n: int) -> FloatArray:
    """Return the accuracy of the majority of ``n`` learners with ``c >= 0`` (flat arrays).

    An even jury that breaks ties by a coin is as accurate as the odd one with a learner less, whatever
    the exchangeable dependence, so only odd sizes are computed.
    """
    m = (n + 1) // 2  # the odd size is 2 m - 1
    accuracy = p.copy()  # right for m = 1, for c = 1, and within rounding for p next to 0 or 1
    open_ = np.flatnonzero((m > 1) & (c < 1) & (np.abs(p - 0.5) < 0.5 - 1e-15))
    for start in range(0, len(open_), _CHUNK):
        i = open_[start : start + _CHUNK]
        accuracy[i] = _median_below(special.ndtri(p[i]), factor_angle(p[i], c[i]), m)
    return accuracy


def factor_angle(p: FloatArray, c: FloatArray) -> FloatArray:
    r"""Return the angle of the latent correlation :math:`\rho = \cos 2\theta` that gives ``c``.

    :math:`P(\text{both right}) = \Phi(t) - 2 T(t, \tan\theta)` with Owen's T, so the angle solves
    :math:`T(t, \tan\theta) = p (1 - p) (1 - c) / 2` on :math:`[0, \pi/4]`.
    """
    t = special.ndtri(p)
    target = p * (1 - p) * (1 - c) / 2
    # T' = exp(-t^2 / (2 cos^2)) / 2 pi; with cos^2 near 1 the equation is one in erf and gives the start.
    scaled = np.maximum(np.abs(t), 1e-6) / np.sqrt(2)
    start = special.erfinv((1 - c) * special.erf(scaled * np.pi / 4)) / scaled
    angle: FloatArray = np.minimum(start, np.pi / 4)
    for _ in range(8):
        cos2 = np.cos(angle) ** 2
        gap = special.owens_t(t, np.tan(angle)) - target
        newton = gap * 2 * np.pi * np.exp(t**2 / (2 * cos2))
        curvature = -(t**2) * np.tan(angle) / cos2  # T'' / T'
        step = newton / np.maximum(1 - newton * curvature / 2, 0.5)  # Halley
        angle = np.clip(angle - step, 0, np.pi / 4)
        if np.abs(step).max() < 1e-9:  # cubic convergence: the next step would be rounding
            break
    return angle


def _median_below(t: FloatArray, angle: FloatArray, m: int) -> FloatArray:
    r"""Return :math:`P(\sqrt\rho F + \sqrt{1 - \rho} M < t)`, ``M`` the median of ``2 m - 1`` Gaussians.

    The quadrature runs over the narrower of the two variables, so that the other one's distribution
    function is smooth on its scale and the nodes converge geometrically.
    """
    common, own = np.sqrt(np.cos(2 * angle)), np.sqrt(2) * np.sin(angle)
    if m > _MANY:  # the median is as good as Gaussian, and the special functions would lose their digits
        limit: FloatArray = special.ndtr(t / np.sqrt(common**2 + own**2 * np.pi / (4.0 * m - 2)))
        return limit
    below = np.empty_like(t)
    factor_is_narrow = common**2 < own**2 / m
    i = np.flatnonzero(factor_is_narrow)
    if len(i):
        nodes, weights = _gaussian_rule()
        x = (t[i, None] - common[i, None] * nodes) / own[i, None]
        below[i] = special.betainc(m, m, special.ndtr(x)) @ weights
    i = np.flatnonzero(~factor_is_narrow)
    if len(i):
        nodes, weights = _median_rule(m)
        x = (t[i, None] - own[i, None] * nodes) / common[i, None]
        below[i] = special.ndtr(x) @ weights
    return np.clip(below, 0, 1)


@lru_cache(maxsize=1)
def _gaussian_rule() -> tuple[FloatArray, FloatArray]:
    nodes, weights = special.roots_hermitenorm(N_NODES)
    return nodes, weights / np.sqrt(2 * np.pi)


@lru_cache(maxsize=64)
def _median_rule(m: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the median of ``2 m - 1`` standard Gaussians.

    Its density falls like a Gaussian of variance ``1 / m``, whose rule is reweighted.
    """
    nodes, weights = _gaussian_rule()
    x = nodes / np.sqrt(m)
    log_density = (m - 1) * (special.log_ndtr(x) + special.log_ndtr(-x)) - special.betaln(m, m) - x**2 / 2
    weights = weights * np.exp(log_density + nodes**2 / 2) / np.sqrt(m)
    return x, weights / weights.sum()


def opposed_majority(p: FloatArray, c: FloatArray, n: int) -> FloatArray:
    """Return the accuracy of the majority of ``n`` learners with ``c <= 0`` (flat arrays)."""
    accuracy = np.empty_like(p)
    if n > _MOST_VOTES:
        return _opposed_limit(p, c, n)
    votes = np.arange(n + 1.0)
    right = majority_weight(votes, n)
    log_binomial = -special.betaln(votes + 1, n - votes + 1)
    chunk = max(_CHUNK * N_NODES // (n + 1), 1)
    for start in range(0, len(p), chunk):
        p_, c_ = p[start : start + chunk], c[start : start + chunk]
        variance = n * p_ * (1 - p_) * (1 + (n - 1) * c_)
        # The binomial is itself a tilt of the coefficients, by the logit of p.
        counts = tilt(votes, log_binomial, n * p_, variance, start=special.logit(p_))
        accuracy[start : start + chunk] = counts @ right
    return np.clip(accuracy, 0, 1)


def _opposed_limit(p: FloatArray, c: FloatArray, n: int) -> FloatArray:
    """Return the accuracy for so many learners that the number of correct votes is as good as Gaussian."""
    excess = n * (p - 0.5)
    spread = np.sqrt(np.maximum(n * p * (1 - p) * (1 + (n - 1) * c), 0.0))
    sides = np.where(excess == 0, 0.5, (excess > 0).astype(np.float64))
    ratio = np.divide(excess, spread, out=np.zeros_like(excess), where=spread > 0)
    limit: FloatArray = np.where(spread > 0, special.ndtr(ratio), sides)
    return limit


def bahadur_majority(p: FloatArray, c: FloatArray, n: int) -> FloatArray:
    """Return Kaniovski's closed form, second order in the dependence; it may leave [0, 1]."""
    m = (n + 1) // 2  # an even jury equals the odd one with a learner less: 2 m - 1
    if m > _MANY:  # Stirling's formula, and the Gaussian limit of the binomial
        with np.errstate(divide="ignore"):
            base = 2 * np.sqrt(m / np.pi) * np.exp((m - 1) * np.log1p(-((2 * p - 1) ** 2)))
        independent = special.ndtr((2 * p - 1) * np.sqrt(2.0 * m))
    else:
        base = np.exp(special.xlogy(m - 1, p * (1 - p)) - special.betaln(m, m))
        independent = special.betainc(m, m, p)
    accuracy: FloatArray = independent + c * (m - 1) * (0.5 - p) * base
    return accuracy


def bahadur_valid(p: FloatArray, c: FloatArray, n: int) -> NDArray[np.bool_]:
    """Return where the closed form assigns no number of correct votes a negative probability.

    The expansion multiplies the binomial by ``1 + c g(k)``, with ``g`` a convex quadratic in the number ``k`` of
    correct votes, so its two ends and the integer next to its vertex decide.
    """
    q = 1 - p
    ends = np.maximum(p, q) ** 2 * n * (n - 1)
    k = np.clip(np.round(n * p + 0.5 - p), 0, n)
    vertex = (k - n * p) ** 2 - k * q**2 - (n - k) * p**2
    room = 2 * p * q * (1 + 1e-9)
    trivial = (room == 0) | (n == 1)
    valid: NDArray[np.bool_] = trivial | ((room + c * vertex >= 0) & (room + c * ends >= 0))
    return valid


def majority_weight(score: FloatArray, total: float) -> FloatArray:
    """Return 1 for a score over half of the total, 1/2 for a tie, 0 under it."""
    margin = 2 * score - total
    margin[np.abs(margin) <= 1e-9 * total] = 0.0
    weight: FloatArray = (np.sign(margin) + 1) / 2
    return weight


def tilt(
    support: FloatArray, log_base: FloatArray, mean: FloatArray, variance: FloatArray, start: FloatArray
) -> FloatArray:
    r"""Return the distributions nearest to a given one that have given means and variances.

    The minimiser of the relative entropy is :math:`q_k \propto b_k e^{u x_k + v x_k^2}`; the dual in
    :math:`(u, v)` is convex and solved by damped Newton steps from ``(start, 0)``.

    Parameters
    ----------
    support : array, shape (k,)
        The values of the score, rising.
    log_base : array, shape (k,)
        Logarithm of the distribution to start from, up to a constant.
    mean, variance : array, shape (points,)
        The moments to reach; the variance is at least :func:`least_variance`.
    start : array, shape (points,)
        The first guess of :math:`u`.

    Returns
    -------
    array, shape (points, k)
    """
    # At the least variance the tilt has its limit, the two values around the mean.
    below, above = _neighbours(support, mean)
    gap = support[above] - support[below]
    share = np.divide(mean - support[below], gap, out=np.zeros(len(mean)), where=gap > 0)
    result = np.zeros((len(mean), len(support)))
    rows = np.arange(len(mean))
    result[rows, above], result[rows, below] = share, 1 - share
    inner = np.flatnonzero(variance > least_variance(support, mean) + 1e-9)
    result[inner] = _solve_tilt(support, log_base, mean[inner], variance[inner], start[inner])
    return result


def least_variance(support: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the least variance of a score with these values and this mean.

    No value lies between the two around the mean, so ``(score - below) (score - above)`` is never negative.
    """
    below, above = _neighbours(support, mean)
    least: FloatArray = (support[above] - mean) * (mean - support[below])
    return np.maximum(least, 0.0)


def _neighbours(support: FloatArray, mean: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of the last value up to the mean and of the one after it."""
    below = np.clip(np.searchsorted(support, mean, side="right") - 1, 0, len(support) - 1)
    return below, np.minimum(below + 1, len(support) - 1)


def _solve_tilt(
    support: FloatArray, log_base: FloatArray, mean: FloatArray, variance: FloatArray, start: FloatArray
) -> FloatArray:
    result = np.empty((len(mean), len(support)))
    todo, u, v = np.arange(len(mean)), start, np.zeros(len(mean))
    x = support - mean[:, None]  # far from their own mean the moments would cancel
    for _ in range(_STEPS):
        squares = x * x
        exponent = u[:, None] * x + v[:, None] * squares + log_base
        density = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        density /= density.sum(axis=1, keepdims=True)
        once = density * x
        twice = once * x
        m1, m2 = once.sum(axis=1), twice.sum(axis=1)
        m3, m4 = (twice * x).sum(axis=1), (twice * squares).sum(axis=1)
        g1, g2 = m1, m2 - variance  # the gradient of the dual
        missed = (np.abs(g1) + np.abs(g2)) / (1 + variance)
        done = missed <= 1e-12 * len(support)
        result[todo[done]] = density[done]
        if done.all():
            break
        h11, h12, h22 = (m2 - m1**2) * _RIDGE, m3 - m1 * m2, (m4 - m2**2) * _RIDGE
        determinant = np.maximum(h11 * h22 - h12**2, 1e-300)
        du, dv = (h22 * g1 - h12 * g2) / determinant, (h11 * g2 - h12 * g1) / determinant
        decrement = np.maximum(du * g1 + dv * g2, 0)
        size = np.where(decrement < 0.1, 1.0, 1 / (1 + np.sqrt(decrement)))  # damped far from the end
        u, v, todo, variance, x = (a[~done] for a in (u - size * du, v - size * dv, todo, variance, x))
    else:
        result[todo] = density[~done]
        if far := np.count_nonzero(missed > 1e-8):
            warnings.warn(
                f"The distribution of the votes did not settle at {far} of {len(mean)} points.",
                ConvergenceWarning,
                stacklevel=3,
            )
    return result


def binomial(k: IntArray, n: int, p: FloatArray) -> FloatArray:
    """Return the binomial probabilities; those of some versions of SciPy overflow where ``p`` is close to 0 or 1.

    Examples
    --------
    >>> binomial(np.arange(3), 2, np.array([[0.5], [1.0]])).round(3)
    array([[0.25, 0.5 , 0.25],
           [0.  , 0.  , 1.  ]])
    """
    log_ways = -np.log1p(n) - special.betaln(k + 1, n - k + 1)
    chances: FloatArray = np.exp(log_ways + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return chances
