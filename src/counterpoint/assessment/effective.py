r"""How many judges as good as the best, erring independently, a panel is worth.

Notation: N learners, n samples, B samples of a block, m classes; X the output of a learner on a sample, one-hot for a
vote, and S the mean output of those who answered; T the truth, one-hot. Correlations are pooled over the classes:
``r = sum_k cov_k / sqrt(sum_k var_k(X) sum_k var_k(T))``; rho is that of S. f(r) is signal over noise,
:func:`counterpoint.theory.signal_from_correlation`. With z = artanh(r), f(r) is the square of sinh(z), with its sign.

The panel is worth ``f(rho) / f(r_best)``. Which learner is the best is chosen by noisy data, so the best of equals
looks better than it is. :func:`best_level` corrects for that: some learners, the best k of them, may be equal or spread
about a mean, and the rest may be another such group. All k and spreads are weighed by how well they explain the z that
are seen, given how far chance moves them apart.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, stdtrit

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment.bootstrap import FEWEST_GROUPS
from counterpoint.assessment.groups import Coverage, EffectiveVotes, Estimate
from counterpoint.assessment.shares import EDGE, Products, Sampling, Sums, output_blocks, pooled_correlation
from counterpoint.assessment.uncertainty import Uncertainty
from counterpoint.assessment.votes import Z, answers_often
from counterpoint.outputs import Correctness, Outputs
from counterpoint.theory import learner_correlation_bounds, signal_from_correlation

__all__ = ["BestLevel", "best_level", "effective_votes", "no_votes", "wrong_agreement"]

CLOSE = 0.05  # half the width of the interval of c that is worth labelling for
_FEWEST_ANSWERS = 10  # of a learner that may be the best
_FEWEST_PER_LEARNER = 10  # samples, to fit weights
_MOST_WEIGHTED = 60  # learners, to fit weights
_PARTS = 5  # for the best weights
_MANY = 100  # times as many independent learners
_JACKKNIFE = 20  # parts
_DRAWS = 4000  # of the two z

# How learners differ, before any data: some of them are equal with the first probability, else their z spread about a
# mean with half a normal of this standard deviation; there is a second group with the last probability. Chosen by
# simulation, and judged on other panels by benchmarks/coverage_of_intervals.py.
_EQUAL, _SPREAD, _TWO_GROUPS = 0.1, 0.25, 0.8

_UNKNOWN = Estimate(np.nan, np.nan, np.nan)


def no_votes(n_learners: int, reason: str) -> EffectiveVotes:
    """Return undefined effective votes with the reason."""
    nothing = np.full(n_learners, np.nan)
    return EffectiveVotes(
        votes=_UNKNOWN,
        independence=_UNKNOWN,
        best="",
        worth=nothing,
        worth_error=nothing,
        with_weights=np.nan,
        error_correlation=_UNKNOWN,
        mean_accuracy=_UNKNOWN,
        samples_needed=np.nan,
        undefined=reason,
    )


def effective_votes(
    read: Outputs,
    voting: str,
    groups: NDArray[np.intp] | None,
    names: tuple[str, ...],
    known: Uncertainty | None,
    coverage: Coverage,
) -> EffectiveVotes:
    """Return what the panel and each learner are worth, with intervals.

    Parameters
    ----------
    read : Outputs
        The outputs with the truth.
    voting : {"hard", "soft", "geometric"}
        The vote that counts: outputs are votes, or probabilities.
    groups : ndarray of int, shape (n_samples,), or None
        Which samples belong together, as 0, 1, ...; by default each is on its own.
    names : tuple of str
        The names of the learners.
    known : Uncertainty or None
        The error correlation and the mean accuracy; None where they are undefined.
    coverage : Coverage
        How many learners answered.
    """
    n = read.n_learners
    if n < 2:
        return no_votes(n, "it takes two learners")
    found = no_votes(n, "") if known is None else _from_correlation(known, n, read.n_samples, coverage)
    whole = Sums(read, voting)
    r, rho = whole.learners(), whole.panel()
    fit = (whole.answered >= min(_FEWEST_ANSWERS, read.n_samples)) & ~np.isnan(r)
    fit &= answers_often(whole.answered)
    if not fit.any():
        return replace(found, undefined="all learners, or the truth, are constant")
    if (r[fit] > 1 - EDGE).any():
        perfect = names[int(np.flatnonzero(fit)[np.argmax(r[fit])])]
        return replace(found, best=perfect, undefined=f"{perfect} is never wrong")
    if np.isnan(rho):
        return replace(found, undefined="the learners cancel each other out, so that their mean is constant")
    if rho > 1 - EDGE:
        return replace(found, undefined="the errors of the learners cancel out exactly in the vote")
    fit &= (r > 0) & (r <= 1 - EDGE)
    if not fit.any():
        return replace(found, undefined="no learner is better than chance")
    sampling = Sampling(read, voting, groups)
    level = best_level(np.arctanh(r[fit]), sampling.apart(fit))
    best = names[int(np.flatnonzero(fit)[r[fit].argmax()])]
    found = replace(found, best=best)
    votes = _quotient(rho, r[fit], level, sampling, fit)
    if np.isnan(votes.value):
        few = f"{sampling.n_groups} groups are too few" if sampling.n_groups < FEWEST_GROUPS else ""
        return replace(found, undefined=few or f"the best learner, {best}, cannot be told from chance")
    one = float(np.sinh(np.arctanh(r[fit]).mean() + level.value) ** 2)
    return replace(
        found,
        votes=votes,
        worth=_lost(whole) / one,
        worth_error=_lost_error(sampling, voting) / one,
        with_weights=_with_best_weights(sampling, voting) / one,
    )


def _from_correlation(known: Uncertainty, n: int, n_samples: int, coverage: Coverage) -> EffectiveVotes:
    """Return what follows from the error correlation alone."""
    c = known.correlation_interval()
    lowest, voters = float(learner_correlation_bounds(n).low), coverage.mean_voters
    value, most, least = (voters / (1 + (voters - 1) * max(one, lowest + 1e-6)) for one in c)
    known_independence = value <= _MANY * n  # errors that exclude each other have no such number
    return replace(
        no_votes(n, ""),
        independence=Estimate(value, least, most) if known_independence else _UNKNOWN,
        error_correlation=c,
        mean_accuracy=known.accuracy_interval(),
        samples_needed=float(np.ceil(n_samples * (Z * known.correlation_error() / CLOSE) ** 2)),
    )


def _lost(sums: Sums) -> FloatArray:
    """Return by how much f(rho) falls without each learner, (N,)."""
    return _signal(np.array(sums.panel())) - _signal(sums.without())


def _lost_error(sampling: Sampling, voting: str) -> FloatArray:
    """Return the standard error of that, by the jackknife that leaves out one part of the samples after the other."""
    if sampling.n_groups < FEWEST_GROUPS:
        return np.full(sampling.read.n_learners, np.nan)
    parts = sampling.parts(_JACKKNIFE)
    left = np.stack([_lost(sampling.sums.less(Sums(part, voting))) for part in parts])
    spread: FloatArray = np.sqrt(
        ((left - left.mean(axis=0)) ** 2).mean(axis=0) * (len(parts) - 1) * sampling.share
    )
    return spread


def _quotient(
    rho: float, r: FloatArray, level: "BestLevel", sampling: Sampling, fit: NDArray[np.bool_]
) -> Estimate:
    """Return f(rho) / f(r_best) with its interval; NaN if the best learner cannot be told from chance."""
    z = float(np.arctanh(np.clip(rho, EDGE - 1, 1 - EDGE))), float(np.arctanh(r).mean()) + level.value
    covariance = sampling.covariance(level.weights, fit)
    linear = covariance[2, 2]  # of the best against the mean, as far as it is linear in the learners' z
    covariance = covariance[:2, :2]
    covariance[1, 1] += max(level.variance - linear, 0.0)
    freedom = sampling.freedom
    if z[1] <= stdtrit(freedom, 0.975) * np.sqrt(covariance[1, 1]):
        return _UNKNOWN
    value = float(np.sinh(z[0]) * abs(np.sinh(z[0])) / np.sinh(z[1]) ** 2)
    if sampling.n_groups < FEWEST_GROUPS:
        return Estimate(value, np.nan, np.nan)
    rng = np.random.default_rng(0)
    around = rng.multivariate_normal(np.zeros(2), covariance, size=_DRAWS, method="svd")
    around *= np.sqrt(freedom / rng.chisquare(freedom, size=(_DRAWS, 1)))
    panel, one = (np.array(z) + around).T
    draws = np.sinh(panel) * np.abs(np.sinh(panel)) / np.sinh(np.maximum(one, 1e-6)) ** 2
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value))


class BestLevel(NamedTuple):
    """How high the z of the learner with the highest one is.

    Attributes
    ----------
    value, variance : float
        Its mean and variance, given the data, less the mean z of all learners.
    weights : ndarray of shape (n_learners,)
        How far the value follows each learner's z.
    """

    value: float
    variance: float
    weights: FloatArray


def best_level(z: FloatArray, noise: float) -> BestLevel:
    """Return how high the best learner is, corrected for having been chosen by its z.

    Parameters
    ----------
    z : ndarray of shape (n_learners,)
        What was seen of each learner.
    noise : float
        The variance of one z about the mean of all, by chance alone.

    Returns
    -------
    BestLevel
        The value, its variance and what it rests on.

    Notes
    -----
    In each model the k best learners are equal, or normal about a mean with standard deviation tau, and so are the
    others. A model's weight is its marginal likelihood. In a model, the best z is drawn towards the mean of its group
    by the share of the noise in the variance, ``noise / (noise + tau^2)``. The value is the mean over the models.

    Examples
    --------
    Fifteen equal learners, of which chance made one look better, and one that is:

    >>> noise = 0.01
    >>> z = 0.4 + 0.1 * np.linspace(-1.8, 1.8, 15)
    >>> round(0.4 + best_level(z, noise).value, 2)
    0.45
    >>> z[-1] = 1.4
    >>> round(float(z.mean()) + best_level(z, noise).value, 2)
    1.4
    """
    n, noise = len(z), max(noise, 1e-12)
    if n == 1:
        return BestLevel(0.0, 0.0, np.ones(1))
    order = np.argsort(-z, kind="stable")
    x, sizes = z[order] - z.mean(), np.arange(1, n + 1)
    taus = np.concatenate([[0.0], np.geomspace(0.05 * np.sqrt(noise), 2.0, 24)])
    chances = _model_chances(x, taus, noise)  # (N, taus)
    kept = taus**2 / (taus**2 + noise)
    levels = kept * x[0] + (1 - kept) * (x.cumsum() / sizes)[:, None]
    # of the level about its mean in a model, and of the mean of the group
    within = kept * noise + (1 - kept) ** 2 * noise * (1 / sizes - 1 / n)[:, None]
    value = float((chances * levels).sum())
    variance = float((chances * (within + (levels - value) ** 2)).sum())
    shared = (chances * (1 - kept)).sum(axis=1) / sizes  # by all learners up to k
    follows = shared[::-1].cumsum()[::-1]
    follows[0] += (chances * kept).sum()
    weights = np.empty(n)
    weights[order] = follows
    return BestLevel(value, variance, weights)


def _model_chances(x: FloatArray, taus: FloatArray, noise: float) -> FloatArray:
    """Return the probability of each model: that the k best are a group, and how they spread, (N, taus)."""
    n = len(x)
    k = np.arange(1, n + 1)
    spread = np.gradient(taus[1:]) * np.exp(-((taus[1:] / _SPREAD) ** 2) / 2)
    prior = np.log(np.concatenate([[_EQUAL], (1 - _EQUAL) * spread / spread.sum()]))
    sums, squares = x.cumsum(), (x**2).cumsum()
    top = _evidence(k, sums, squares, taus, noise) + prior
    rest = _evidence(n - k[:-1], sums[-1] - sums[:-1], squares[-1] - squares[:-1], taus, noise)
    top[:-1] += logsumexp(rest + prior, axis=1, keepdims=True)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)  # to choose k learners
    sizes = -np.log(k) - np.log((1 / k[:-1]).sum()) - ways + np.log(_TWO_GROUPS)
    sizes[-1] = np.log(1 - _TWO_GROUPS)
    top += sizes[:, None]
    chances: FloatArray = np.exp(top - logsumexp(top))
    return chances


def _evidence(
    k: IntArray, sums: FloatArray, squares: FloatArray, taus: FloatArray, noise: float
) -> FloatArray:
    """Return the log-likelihood of groups of k numbers about a mean that is normal with variance 1, (len(k), taus)."""
    size, mean = k[:, None].astype(np.float64), (sums / k)[:, None]
    around = np.maximum(squares - sums**2 / k, 0)[:, None]
    variance = taus**2 + noise
    of_mean = 1 + variance / size
    found: FloatArray = -0.5 * (
        (size - 1) * np.log(2 * np.pi * variance)
        + around / variance
        + np.log(size)
        + np.log(2 * np.pi * of_mean)
        + mean**2 / of_mean
    )
    return found


def _signal(r: FloatArray) -> FloatArray:
    """Return f(r), NaN where r is undefined or f has no end."""
    known = np.abs(np.nan_to_num(r)) <= 1 - EDGE
    return np.where(
        known & ~np.isnan(r), signal_from_correlation(np.where(known, np.nan_to_num(r), 0.0)), np.nan
    )


def _with_best_weights(sampling: Sampling, voting: str) -> float:
    """Return f(rho) with the best weights, fitted without the samples on which they are judged; NaN if too few."""
    read = sampling.read
    n, m = read.n_learners, len(read.classes)
    if n > _MOST_WEIGHTED or read.n_samples < 2 * _FEWEST_PER_LEARNER * n:
        return np.nan
    pieces = sampling.parts(_PARTS)
    products = [Products.of(piece, voting) for piece in pieces]
    right = square = 0.0
    mean, true = np.zeros((2, m))
    for held_out, piece in enumerate(pieces):
        rest = [one for k, one in enumerate(products) if k != held_out]
        weights = Products.total(rest).best_weights()
        for b in output_blocks(piece, voting):
            cast = weights @ b.here
            share = np.divide(weights[:, None], cast, out=np.zeros(b.here.shape), where=cast > 0)
            each = share * b.here
            right += float((each * b.right).sum())
            square += float((each * b.with_weighted(each, m)).sum())
            mean += b.totals(each, m).sum(axis=0)
            true += np.bincount(b.truth[cast > 0], minlength=m)
    n_voted = max(true.sum(), 1.0)
    q, t = mean / n_voted, true / n_voted
    return float(_signal(pooled_correlation(right / n_voted - q @ t, square / n_voted - q @ q, 1 - t @ t)))


def wrong_agreement(counts: Correctness, n_classes: int) -> float:
    """Return how often two learners that both err agree; evenly spread where none do.

    Examples
    --------
    >>> from counterpoint.outputs import sufficient_statistics
    >>> read = Outputs([[1, 1, 2], [1, 2, 2]], [0, 0, 0], labels=[0, 1, 2])
    >>> counts = sufficient_statistics(read, correctness=True, same_wrong=True).correctness
    >>> round(wrong_agreement(counts, 3), 3)
    0.667
    """
    assert counts.both_right is not None
    assert counts.same_wrong is not None
    least = 1 / max(n_classes - 1, 1)
    # Over all pairs of different learners; sums of whole matrices need no others beside them.
    wrong = int((counts.answered - counts.right).sum())
    total = int(counts.shared.sum() - 2 * counts.shared_right.sum() + counts.both_right.sum()) - wrong
    found = (int(counts.same_wrong.sum()) - wrong) / total if total else least
    return float(np.clip(found, least, 1.0))
