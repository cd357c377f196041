r"""How accurate learners are without a truth, if they err independently: the model of Dawid and Skene (1979).

Notation: N learners, n samples, m classes. A sample has the true class k with probability :math:`\pi_k`; learner i then
votes for v with probability :math:`\theta_{ikv}`, whatever the others vote. EM alternates between the classes of the
samples (E) and these probabilities (M). Samples with the same votes are one pattern with a weight.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from counterpoint._validation import FloatArray, check_choice, check_number, check_whole
from counterpoint.exceptions import ConvergenceWarning
from counterpoint.outputs import CodedVotes, code_votes, log_normalise

__all__ = ["DAWID_SKENE_MODELS", "TINY", "DawidSkene", "dawid_skene", "fit_dawid_skene"]

DAWID_SKENE_MODELS = ("auto", "one_coin", "confusion")
_TOLERANCE = 1e-6
_MAX_ITER = 2000
_SMOOTHING = 0.1
TINY = 1e-300  # stands in for a probability of 0, which has no logarithm


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """What the votes say about the learners and the samples, if the learners err independently.

    Attributes
    ----------
    model : {"one_coin", "confusion"}
        Whether a learner has one accuracy, or a matrix of its errors.
    classes : ndarray of shape (n_classes,)
        The labels.
    accuracies : ndarray of shape (n_learners,)
        Estimated probability that a learner is right.
    confusions : ndarray of shape (n_learners, n_classes, n_classes)
        Estimated probability of each vote (last axis), given the true class.
    prior : ndarray of shape (n_classes,)
        Estimated shares of the classes.
    posterior : ndarray of shape (n_samples, n_classes)
        Probability of each class for each sample; one for a known truth.
    bic : float
        Bayesian information criterion; of two models of the same votes the lower one is preferred.
    n_iter : int
        Iterations of EM.

    Examples
    --------
    >>> from counterpoint.assessment import dawid_skene
    >>> found = dawid_skene([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
    >>> found.model, found.consensus
    ('one_coin', array([0, 0, 1, 1, 1]))
    """

    model: str
    classes: NDArray[Any]
    accuracies: FloatArray
    confusions: FloatArray
    prior: FloatArray
    posterior: FloatArray
    bic: float
    n_iter: int

    @property
    def consensus(self) -> NDArray[Any]:
        """The most probable label of each sample."""
        labels: NDArray[Any] = self.classes[self.posterior.argmax(axis=1)]
        return labels

    @property
    def confidence(self) -> FloatArray:
        """The probability of that label."""
        confidence: FloatArray = self.posterior.max(axis=1)
        return confidence


def dawid_skene(
    outputs: ArrayLike,
    y_true: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    model: str = "auto",
    smoothing: float = _SMOOTHING,
    tolerance: float = _TOLERANCE,
    max_iter: int = _MAX_ITER,
) -> DawidSkene:
    r"""Estimate accuracies and a consensus from votes alone, for learners that err independently.

    Parameters
    ----------
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities whose most probable class is the vote; None, NaN or masked where there is none. At
        least three learners, or two with a truth.
    y_true : array-like of shape (n_samples,), optional
        The true labels of some samples, None, NaN or masked for the others. They are taken as certain.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the labels that occur.
    model : {"auto", "one_coin", "confusion"}, default="auto"
        One accuracy for each learner, with evenly spread errors; a matrix of errors for each learner, which for two
        classes is known as two coins; or the one of these with the lower BIC.
    smoothing : float, default=0.1
        Votes that are added to each cell of the matrices, so that nothing seen rarely becomes impossible.
    tolerance : float, default=1e-6
        The largest change of a probability at which the iterations end.
    max_iter : int, default=2000
        The largest number of iterations.

    Returns
    -------
    DawidSkene
        Accuracies, matrices, shares of the classes, and for each sample a consensus with its probability.

    Warns
    -----
    ConvergenceWarning
        If the iterations end before the tolerance is reached.

    Notes
    -----
    EM starts from the shares of the votes, so the model takes most votes to be right. That learners err independently,
    given the true class, is an assumption that votes alone cannot prove. If learners make the same errors, they agree
    more than they should, and the estimated accuracies are too high.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 2000)
    >>> accuracy = np.array([0.9, 0.8, 0.7, 0.6])[:, None]
    >>> votes = np.where(rng.random((4, 2000)) < accuracy, truth, 1 - truth)
    >>> found = dawid_skene(votes)
    >>> found.accuracies.round(2)  # without the truth
    array([0.88, 0.81, 0.72, 0.61])
    >>> round(float((found.consensus == truth).mean()), 3), round(float(found.confidence.mean()), 3)
    (0.904, 0.906)
    """
    check_choice(model, "model", DAWID_SKENE_MODELS)
    votes = code_votes(outputs, y_true, labels)
    settings = _Settings(
        check_number(smoothing, "smoothing", 0.0),
        check_number(tolerance, "tolerance", 0.0),
        check_whole(max_iter, "max_iter", minimum=1),
    )
    if len(votes.classes) < 2:
        raise ValueError("`outputs` must hold at least two different labels; got one.")
    if len(votes.codes) < 3 and (votes.truth < 0).all():
        raise ValueError(
            f"`outputs` must hold at least 3 learners where no truth is known; got {len(votes.codes)}."
        )
    names = DAWID_SKENE_MODELS[1:] if model == "auto" else (model,)
    found = min((fit_dawid_skene(votes, name, settings) for name in names), key=lambda fit: fit.bic)
    if found.n_iter == settings.max_iter:
        text = f"Dawid-Skene stopped after {found.n_iter} iterations; raise `max_iter` or `tolerance`."
        warnings.warn(text, ConvergenceWarning, stacklevel=2)
    return found


class _Settings(NamedTuple):
    smoothing: float = _SMOOTHING
    tolerance: float = _TOLERANCE
    max_iter: int = _MAX_ITER


class _Patterns(NamedTuple):
    """Samples with the same votes and the same truth, as one pattern."""

    votes: csr_array  # (P, N * m), one-hot
    weights: FloatArray  # (P,) samples
    known: FloatArray  # (P, m): 0, or -inf for classes that the truth excludes
    of_sample: NDArray[np.intp]  # (n,)


def fit_dawid_skene(votes: CodedVotes, model: str, settings: _Settings | None = None) -> DawidSkene:
    """Return the model fitted to coded votes of at least two classes."""
    settings = settings or _Settings()
    n_learners, m = len(votes.codes), len(votes.classes)
    patterns = _patterns(votes, m)
    posterior = _vote_shares(patterns, n_learners, m)
    theta = np.zeros((n_learners, m, m))
    prior = np.zeros(m)
    n_iter, change = 0, np.inf
    while change > settings.tolerance and n_iter < settings.max_iter:
        n_iter += 1
        before = theta, prior
        theta, prior = _maximise(patterns, posterior, model, settings.smoothing, n_learners)
        posterior, log_likelihood = _expect(patterns, theta, prior)
        change = max(float(np.abs(theta - before[0]).max()), float(np.abs(prior - before[1]).max()))
    n_parameters = m - 1 + n_learners * (1 if model == "one_coin" else m * (m - 1))
    n_voted = int((votes.codes >= 0).any(axis=0).sum())
    return DawidSkene(
        model=model,
        classes=votes.classes,
        accuracies=np.einsum("k,ikk->i", prior, theta),
        confusions=theta,
        prior=prior,
        posterior=posterior[patterns.of_sample],
        bic=float(n_parameters * np.log(n_voted) - 2 * log_likelihood),
        n_iter=n_iter,
    )


def _patterns(votes: CodedVotes, m: int) -> _Patterns:
    rows = np.ascontiguousarray(np.vstack([votes.codes, votes.truth]).T)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, of_sample, weights = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    codes, truth = rows[first, :-1], rows[first, -1]
    pattern, learner = np.nonzero(codes >= 0)
    columns = learner * m + codes[pattern, learner]
    shape = (len(first), codes.shape[1] * m)
    known = np.zeros((len(first), m))
    given = np.flatnonzero(truth >= 0)
    known[given] = -np.inf
    known[given, truth[given]] = 0.0
    one_hot = csr_array((np.ones(len(columns)), (pattern, columns)), shape=shape)
    return _Patterns(one_hot, weights.astype(np.float64), known, of_sample.ravel())


def _vote_shares(patterns: _Patterns, n_learners: int, m: int) -> FloatArray:
    """Return the share of the votes for each class, (P, m); evenly where nobody votes."""
    counts = patterns.votes @ np.tile(np.eye(m), (n_learners, 1))
    shares = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0)
    shares = np.where(np.isinf(patterns.known), 0.0, np.maximum(shares, TINY))
    normalised: FloatArray = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def _maximise(
    patterns: _Patterns, posterior: FloatArray, model: str, smoothing: float, n_learners: int
) -> tuple[FloatArray, FloatArray]:
    """Return theta (N, m true, m voted) and the shares of the classes."""
    m = posterior.shape[1]
    weighted = posterior * patterns.weights[:, None]
    counts = (patterns.votes.T @ weighted).reshape(n_learners, m, m).transpose(0, 2, 1)
    prior = weighted.sum(axis=0) + smoothing
    if model == "one_coin":
        right = np.einsum("ikk->i", counts) + smoothing
        total = counts.sum(axis=(1, 2)) + 2 * smoothing
        accuracy = np.divide(right, total, out=np.full(n_learners, 1 / m), where=total > 0)
        theta = np.repeat(((1 - accuracy) / (m - 1))[:, None], m * m, axis=1).reshape(n_learners, m, m)
        theta[:, range(m), range(m)] = accuracy[:, None]
    else:
        counts = counts + smoothing
        total = counts.sum(axis=2, keepdims=True)
        theta = np.divide(counts, total, out=np.full(counts.shape, 1 / m), where=total > 0)
    return theta, prior / prior.sum()


def _expect(patterns: _Patterns, theta: FloatArray, prior: FloatArray) -> tuple[FloatArray, float]:
    """Return the probability of each class for each pattern, and the log-likelihood of all samples."""
    m = len(prior)
    log_theta = np.log(np.maximum(theta, TINY)).transpose(0, 2, 1).reshape(-1, m)  # (N * m voted, m true)
    joint = patterns.votes @ log_theta + np.log(np.maximum(prior, TINY)) + patterns.known
    log_posterior = log_normalise(joint)
    top = joint.argmax(axis=1)[:, None]
    evidence = np.take_along_axis(joint, top, 1) - np.take_along_axis(log_posterior, top, 1)
    return np.exp(log_posterior), float(patterns.weights @ evidence[:, 0])
