r"""Certificates: upper bounds on the error of the majority vote, from pairs of learners.

Notation: learner i has weight :math:`w_i` of a sum of one; a class's share is the weight of the
learners that vote for it. The vote is wrong where no class beats the others for the truth, so a tie
counts as an error and the bounds hold however ties are broken.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import rel_entr

from counterpoint._validation import FloatArray, check_interval, check_weights
from counterpoint.outputs import (
    Correctness,
    Outputs,
    sufficient_statistics,
    vote_margins,
    vote_probabilities,
    warn_undefined,
)

__all__ = ["TandemBound", "c_bound", "c_bound_from_moments", "tandem_bound", "tandem_bound_from_counts"]


class TandemBound(NamedTuple):
    """A bound on the error of the majority vote that holds with the stated confidence.

    Attributes
    ----------
    bound : float
        An upper bound on the error of the vote on new data; 1 is vacuous.
    tandem_loss : float
        How often two learners, drawn by their weights, are both wrong on the sample.
    divergence : float
        The Kullback-Leibler divergence of the weights from equal weights.
    confidence : float
        The probability, over samples, with which the bound holds.
    n_samples : int
        The size of the sample.

    Examples
    --------
    >>> from counterpoint.measures import tandem_bound
    >>> found = tandem_bound([0, 1] * 50, [[0, 1] * 50, [0, 1] * 50])
    >>> print(f"{found.bound:.2f} from {found.n_samples} samples")
    0.23 from 100 samples
    """

    bound: float
    tandem_loss: float
    divergence: float
    confidence: float
    n_samples: int


def c_bound(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Bound the error of the majority vote on this sample by two moments of its margin.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote.
    weights : array-like of shape (n_learners,), optional
        Weights of the learners in the vote, not negative, scaled to sum to one; by default equal.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``.

    Returns
    -------
    float
        The bound, in [0, 1].

    Notes
    -----
    The margin M of a sample is the share of the true class less the largest share of another. By
    the one-sided Chebyshev inequality

    .. math:: P(M \le 0) \le 1 - \frac{E[M]^2}{E[M^2]} \quad \text{if } E[M] > 0.

    For two classes :math:`E[M^2] = 1 - 2 \sum_{ij} w_i w_j D_{ij}` with the disagreement D, so
    that of two ensembles with equal mean accuracy the more diverse has the better bound. This is
    the bound on the given sample, not on new data. It is undefined, NaN with a warning, where the
    mean margin is not positive. Lacasse et al. (2006), Germain et al. (2015); for more classes
    Laviolette et al. (2017).

    Examples
    --------
    >>> votes = [[0, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 1]]
    >>> round(c_bound([0, 0, 1, 1], votes), 3)
    0.25
    """
    read = Outputs(outputs, y_true, labels)
    shares = vote_probabilities(read, check_weights(weights, "weights", read.n_learners), "hard")
    assert read.truth_codes is not None
    margin = vote_margins(shares.T, read.truth_codes)
    bound = c_bound_from_moments(float(margin.mean()), float((margin**2).mean()))
    places = ["a vote whose mean margin is not positive"] if np.isnan(bound) else []
    warn_undefined("c_bound", places)
    return bound


def tandem_bound(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    confidence: float = 0.95,
    labels: ArrayLike | None = None,
) -> TandemBound:
    r"""Bound the error of the majority vote on new data by the errors that pairs have in common.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind, of **held-out data**: independent samples from the
        distribution of interest on which no learner was trained or selected.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote.
    weights : array-like of shape (n_learners,), optional
        Weights of the learners in the vote, not negative, scaled to sum to one; by default equal.
        They may be chosen on the same data: the bound holds for all weights at once.
    confidence : float, default=0.95
        The probability, over samples, with which the bound holds, in (0, 1).
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of
        ``y_true``.

    Returns
    -------
    TandemBound
        ``bound``, ``tandem_loss``, ``divergence``, ``confidence`` and ``n_samples``.

    Notes
    -----
    The vote is wrong only where learners of half the weight are wrong. By Markov's inequality for
    the square of that weight its error is at most four times the expected tandem loss t, the chance
    that two learners drawn by their weights w are both wrong. With probability :math:`1 - \delta`
    and for all w at once, t is at most the largest value with

    .. math:: \operatorname{kl}(\hat t \,\|\, t)
              \le \frac{2 \operatorname{KL}(w \,\|\, u) + \ln(2 \sqrt{n} / \delta)}{n},

    where u are equal weights, :math:`\hat t` is the tandem loss of the sample and kl is between two
    Bernoulli distributions. Masegosa et al., Second order PAC-Bayesian bounds for the weighted
    majority vote (2020).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.integers(0, 2, 2000)
    >>> votes = np.where(rng.random((25, 2000)) < 0.9, y_true, 1 - y_true)
    >>> result = tandem_bound(y_true, votes)
    >>> round(result.tandem_loss, 3), round(result.bound, 3)
    (0.013, 0.102)
    """
    level = float(check_interval(confidence, "confidence", 0.0, 1.0, closed=False))
    read = Outputs(outputs, y_true, labels)
    w = check_weights(weights, "weights", read.n_learners)
    counts = sufficient_statistics(read, correctness=True).correctness
    assert counts is not None
    return tandem_bound_from_counts(counts, w, level)


def c_bound_from_moments(first: float, second: float) -> float:
    """Return the C-bound from the first two moments of the margin.

    Parameters
    ----------
    first, second : float
        The mean of the margin and of its square.

    Returns
    -------
    float
        The bound; NaN if the mean margin is not positive.

    Examples
    --------
    >>> c_bound_from_moments(0.5, 1 / 3).__round__(3)
    0.25
    """
    # Shares carry the rounding of their weights, so a mean of zero may be off by a few ulp.
    return max(0.0, 1 - first**2 / second) if first > 1e-12 else float("nan")


def tandem_bound_from_counts(counts: Correctness, weights: FloatArray, confidence: float) -> TandemBound:
    """Return the tandem bound from counts that were gathered before.

    Parameters
    ----------
    counts : Correctness
        Counts of right votes, with pairs.
    weights : ndarray of shape (n_learners,)
        Weights that sum to one.
    confidence : float
        The probability, over samples, with which the bound holds, in (0, 1).

    Returns
    -------
    TandemBound
        As from :func:`tandem_bound`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint.outputs import Outputs, sufficient_statistics
    >>> read = Outputs(np.zeros((3, 500), dtype=int), np.zeros(500, dtype=int))
    >>> counts = sufficient_statistics(read, correctness=True).correctness
    >>> round(tandem_bound_from_counts(counts, np.full(3, 1 / 3), 0.95).bound, 3)
    0.054
    """
    assert counts.both_right is not None
    n, right = counts.n_samples, counts.right
    both_wrong = n - right[:, None] - right + counts.both_right
    loss = float(weights @ both_wrong @ weights) / n
    divergence = float(rel_entr(weights, 1 / len(weights)).sum())
    budget = (2 * divergence + np.log(2 * np.sqrt(n) / (1 - confidence))) / n
    bound = min(1.0, 4 * _kl_upper_inverse(min(loss, 1.0), budget))
    return TandemBound(bound, loss, divergence, confidence, n)


def _kl_upper_inverse(p: float, budget: float) -> float:
    """Return the largest q with kl(p || q) at most the budget."""

    def excess(q: float) -> float:
        return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q)) - budget

    top = 1 - 1e-15
    if p >= top or excess(top) <= 0:
        return 1.0
    return float(brentq(excess, p, top, xtol=1e-12))
