r"""How accurate learners are without a truth, if they err independently: the model of Dawid and Skene (1979).

Notation: N learners, n samples, m classes. A sample has the true class k with probability :math:`\pi_k`; learner i then
votes for v with probability :math:`\theta_{ikv}`, whatever the others vote. EM alternates between the classes of the
samples (E) and these probabilities (M). Samples with the same votes are one pattern with a weight. A *cell* is a label
that somebody gives to a pattern: the model with one accuracy for each learner knows of the other labels only how
probable they are together, so that its time and memory are linear in the votes, whatever the number of classes.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from counterpoint._validation import ROUNDING, FloatArray, check_choice, check_number, check_whole
from counterpoint.assessment.bootstrap import check_groups
from counterpoint.assessment.opinions import merged_votes, opinion_of
from counterpoint.exceptions import ConvergenceWarning
from counterpoint.outputs import CodedVotes, code_votes, log_normalise

__all__ = ["DAWID_SKENE_MODELS", "TINY", "DawidSkene", "dawid_skene", "fit_dawid_skene", "fits_confusions"]

DAWID_SKENE_MODELS = ("auto", "one_coin", "confusion")
_TOLERANCE = 1e-6
_MAX_ITER = 500
_SMOOTHING = 0.1
_MOST_CLASSES = 50  # for which matrices of errors are estimated
_REPEATED = 5  # votes for a label on average, from which on its share is estimated
_ENTRIES = 2**24  # probabilities that are held at once
_RANDOM_STARTS = 3
_FIRST_STEPS = 20  # of EM from each start; the best one goes on
_MIRRORED = 0.1  # loss of right votes beyond which a solution has the names of the classes exchanged
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
    accuracies, errors : ndarray of shape (n_learners,)
        Estimated probability that a learner is right, and its standard error, which takes the model to hold.
    confusions : ndarray of shape (n_learners, n_classes, n_classes) or None
        Estimated probability of each vote (last axis), given the true class; None for one coin with many classes.
    prior : ndarray of shape (n_classes,)
        Estimated shares of the classes; even ones for the model with one coin where labels hardly repeat.
    consensus : ndarray of shape (n_samples,)
        The most probable label of each sample.
    confidence : ndarray of shape (n_samples,)
        The probability of that label.
    posterior : ndarray of shape (n_samples, n_classes) or None
        Probability of each class for each sample, one for a known truth; None if these are too many numbers.
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
    errors: FloatArray
    confusions: FloatArray | None
    prior: FloatArray
    consensus: NDArray[Any]
    confidence: FloatArray
    posterior: FloatArray | None
    bic: float
    n_iter: int


def dawid_skene(
    outputs: ArrayLike,
    y_true: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    model: str = "auto",
    smoothing: float = _SMOOTHING,
    tolerance: float = _TOLERANCE,
    max_iter: int = _MAX_ITER,
    groups: ArrayLike | None = None,
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
    max_iter : int, default=500
        The largest number of iterations.
    groups : array-like of shape (n_samples,), optional
        Which samples belong together, such as several items of one document. The standard errors then allow for it.

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
    EM starts from the shares of the votes, equal and with several weights of the learners, and follows the start that
    is most likely after a few steps among those in which most votes are right. That learners err independently, given
    the true class, is an assumption that votes alone cannot prove. If learners make the same errors, they agree more
    than they should, and the estimated accuracies are too high: :func:`counterpoint.assess` merges copies first and
    says between which values the accuracy lies if errors are shared.

    The standard errors are those of the information in the votes (Louis 1982), by groups in sandwich form, and no
    smaller than with a known truth. With over 50 classes only one coin is fitted by default; where a label has under
    five votes on average, with even shares of the classes, which could not be estimated.

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
    clusters = check_groups(groups, votes.codes.shape[1])
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
    if model == "confusion" and len(votes.codes) * len(votes.classes) ** 2 > _ENTRIES:
        raise ValueError(f"`model` must be 'one_coin' for so many classes; got {len(votes.classes)} classes.")
    names = ("one_coin", "confusion") if fits_confusions(votes) else ("one_coin",)
    fits = (
        fit_dawid_skene(votes, name, settings, groups=clusters)
        for name in (names if model == "auto" else (model,))
    )
    found = min(fits, key=lambda fit: fit.bic)
    if found.n_iter == settings.max_iter:
        text = f"Dawid-Skene stopped after {found.n_iter} iterations; raise `max_iter` or `tolerance`."
        warnings.warn(text, ConvergenceWarning, stacklevel=2)
    return found


class _Settings(NamedTuple):
    smoothing: float = _SMOOTHING
    tolerance: float = _TOLERANCE
    max_iter: int = _MAX_ITER


def fits_confusions(votes: CodedVotes) -> bool:
    """Return whether matrices of errors can be estimated: few classes, and labels that repeat.

    Examples
    --------
    >>> fits_confusions(code_votes([[0, 1] * 5, [0, 1] * 5])), fits_confusions(code_votes([[0, 1], [2, 3]]))
    (True, False)
    """
    return len(votes.classes) <= _MOST_CLASSES and _repeat(votes)


def _repeat(votes: CodedVotes) -> bool:
    return int(np.count_nonzero(votes.codes >= 0)) >= _REPEATED * len(votes.classes)


class _Patterns(NamedTuple):
    """Samples with the same votes and the same truth, as one pattern; those without either are left out."""

    pattern: NDArray[np.intp]  # (C,) of each cell
    label: NDArray[np.intp]  # (C,)
    votes: csr_array  # (C, N): who gives that label
    opinions: csr_array  # (C, K): the same with copies merged
    truth: NDArray[np.intp]  # (P,), -1 if unknown
    weights: FloatArray  # (P,) samples
    of_sample: NDArray[np.intp]  # (n,), -1 without a vote
    first: NDArray[np.intp]  # (P,) the first cell of each pattern


class _Fit(Protocol):
    """One of the models: parameters from the probabilities of the labels, and back."""

    n_parameters: int

    def start(self, shares: FloatArray) -> Any:
        """Return probabilities from those of the cells."""

    def maximise(self, posterior: Any) -> tuple[FloatArray, FloatArray]:
        """Return accuracies or matrices, and the shares of the classes."""

    def expect(self, learners: FloatArray, prior: FloatArray) -> tuple[Any, float]:
        """Return the probabilities, and the log-likelihood of all samples."""

    def of_cells(self, posterior: Any) -> FloatArray:
        """Return the probabilities of the cells."""

    def of_patterns(self, posterior: Any) -> FloatArray:
        """Return the probabilities of all classes, (P, m)."""

    def of_learners(self, posterior: Any, prior: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the accuracies and matrices of all learners, copies too."""


def fit_dawid_skene(
    votes: CodedVotes,
    model: str,
    settings: _Settings | None = None,
    *,
    families: tuple[tuple[int, ...], ...] = (),
    groups: NDArray[np.intp] | None = None,
) -> DawidSkene:
    """Return the model fitted to coded votes of at least two classes, with copies as one learner."""
    settings = settings or _Settings()
    m, patterns = len(votes.classes), _patterns(votes, families)
    kinds: dict[str, Callable[[], _Fit]] = {
        "one_coin": lambda: _OneCoin(patterns, m, settings.smoothing, even=not _repeat(votes)),
        "confusion": lambda: _Confusion(patterns, m, settings.smoothing),
    }
    fit = kinds[model]()
    (learners, prior), n_iter = _maximum(fit, patterns, settings)
    posterior, log_likelihood = fit.expect(learners, prior)
    accuracies, confusions = fit.of_learners(posterior, prior)
    cells = fit.of_cells(posterior)
    whole = None
    if votes.codes.shape[1] * m <= _ENTRIES:
        known = patterns.of_sample >= 0
        whole = np.tile(prior, (len(known), 1))
        whole[known] = fit.of_patterns(posterior)[patterns.of_sample[known]]
        labels, confidence = whole.argmax(axis=1).astype(np.intp), whole.max(axis=1)
    else:
        labels, confidence = _winners(patterns, cells, prior)
    return DawidSkene(
        model=model,
        classes=votes.classes,
        accuracies=accuracies,
        errors=_errors(patterns, cells, accuracies, families, groups),
        confusions=confusions,
        prior=prior,
        consensus=votes.classes[labels],
        confidence=confidence,
        posterior=whole,
        bic=float(fit.n_parameters * np.log(patterns.weights.sum()) - 2 * log_likelihood),
        n_iter=n_iter,
    )


def _patterns(votes: CodedVotes, families: tuple[tuple[int, ...], ...]) -> _Patterns:
    rows = np.ascontiguousarray(np.vstack([votes.codes, votes.truth]).T)
    some = np.flatnonzero((rows >= 0).any(axis=1))
    rows = rows[some]
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse, weights = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    of_sample = np.full(votes.codes.shape[1], -1)
    of_sample[some] = inverse.ravel()
    codes, truth = rows[first].T[:-1], rows[first, -1]
    merged = merged_votes(codes, families)
    m, every = len(votes.classes), np.vstack([codes, truth])
    row, pattern = np.nonzero(every >= 0)
    cells = np.unique(pattern * m + every[row, pattern])

    def one_hot(chosen: NDArray[np.int32]) -> csr_array:
        learner, where = np.nonzero(chosen >= 0)
        of_cell = np.searchsorted(cells, where * m + chosen[learner, where])
        return csr_array((np.ones(len(learner)), (of_cell, learner)), shape=(len(cells), len(chosen)))

    of_pattern = cells // m
    starts = np.searchsorted(of_pattern, np.arange(len(first)))
    return _Patterns(
        of_pattern,
        cells % m,
        one_hot(codes),
        one_hot(codes if merged is codes else merged),
        truth.astype(np.intp),
        weights.astype(np.float64),
        of_sample,
        starts,
    )


class _Climb(NamedTuple):
    parameters: tuple[FloatArray, FloatArray]
    log_likelihood: float
    right: float  # expected share of right votes
    n_iter: int


def _maximum(
    fit: _Fit, patterns: _Patterns, settings: _Settings
) -> tuple[tuple[FloatArray, FloatArray], int]:
    """Return the parameters at the maximum that the best start leads to, and the number of iterations."""
    opinions, rng = patterns.opinions, np.random.default_rng(0)
    n = opinions.shape[1]
    weights = patterns.weights[patterns.pattern]
    even = _shares(patterns, np.ones(n))
    agreed = (opinions.T @ (even * weights)) / np.maximum(opinions.T @ weights, 1)
    starts = [even, _shares(patterns, agreed**4)]
    starts += [_shares(patterns, weight) for weight in rng.exponential(size=(_RANDOM_STARTS, n))]
    short = settings._replace(max_iter=min(_FIRST_STEPS, settings.max_iter))
    climbs = [_climb(fit, patterns, fit.maximise(fit.start(shares)), short) for shares in starts]
    best = climbs[0]
    for climb in climbs[1:]:
        # The mirror image of a solution, with other names of the classes, is as likely: most votes must be right.
        if climb.log_likelihood > best.log_likelihood + 1e-3 and climb.right > climbs[0].right - _MIRRORED:
            best = climb
    rest = settings.max_iter - best.n_iter
    if best.n_iter < _FIRST_STEPS or not rest:
        return best.parameters, best.n_iter
    last = _climb(fit, patterns, best.parameters, settings._replace(max_iter=rest))
    return last.parameters, best.n_iter + last.n_iter


def _climb(
    fit: _Fit, patterns: _Patterns, parameters: tuple[FloatArray, FloatArray], settings: _Settings
) -> _Climb:
    n_iter = 0
    while True:
        posterior, log_likelihood = fit.expect(*parameters)
        once = fit.maximise(posterior)
        n_iter += 1
        change = max(float(np.abs(new - old).max()) for new, old in zip(once, parameters, strict=True))
        if change <= settings.tolerance or n_iter >= settings.max_iter:
            parameters = once
            break
        if n_iter + 1 >= settings.max_iter:
            parameters = once
            continue
        posterior, log_likelihood = fit.expect(*once)
        twice = fit.maximise(posterior)
        n_iter += 1
        further = _extrapolated(parameters, once, twice)
        parameters = twice
        if further is not None:  # where EM is slow, its steps are nearly on a line
            posterior, better = fit.expect(*further)
            parameters = fit.maximise(posterior) if better >= log_likelihood else twice
    right = patterns.opinions.T @ (fit.of_cells(posterior) * patterns.weights[patterns.pattern])
    total = patterns.opinions.T @ patterns.weights[patterns.pattern]
    return _Climb(parameters, log_likelihood, float(right.sum() / max(total.sum(), 1)), n_iter)


def _extrapolated(
    start: tuple[FloatArray, FloatArray],
    once: tuple[FloatArray, FloatArray],
    twice: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray] | None:
    """Return where steps of EM lead to (SQUAREM, Varadhan and Roland 2008), or None if that is no further."""
    steps = [b - a for a, b in zip(start, once, strict=True)]
    bends = [c - b - step for b, c, step in zip(once, twice, steps, strict=True)]
    size, bend = (sum(float((x**2).sum()) for x in xs) for xs in (steps, bends))
    if not bend > 0 or (length := np.sqrt(size / bend)) <= 1:
        return None
    learners, prior = (
        np.clip(a + 2 * length * step + length**2 * bend, TINY, 1)
        for a, step, bend in zip(start, steps, bends, strict=True)
    )
    if learners.ndim > 1:
        learners = learners / learners.sum(axis=-1, keepdims=True)
    return learners, prior / prior.sum()


def _shares(patterns: _Patterns, weights: FloatArray) -> FloatArray:
    """Return the share of the weighted votes for each cell; the truth alone where it is known."""
    given = patterns.opinions @ weights
    total = np.bincount(patterns.pattern, given)[patterns.pattern]
    shares = np.where(total > 0, given, 1.0)
    shares /= np.bincount(patterns.pattern, shares)[patterns.pattern]
    truth = patterns.truth[patterns.pattern]
    clamped: FloatArray = np.where(truth < 0, shares, truth == patterns.label)
    return clamped


class _OneCoin:
    """One accuracy for each learner, with evenly spread errors; linear in the votes.

    Its probabilities are those of the cells, and the expected number of samples of each class that nobody named.
    """

    def __init__(self, patterns: _Patterns, m: int, smoothing: float, *, even: bool) -> None:
        self._patterns, self._m, self._smoothing, self._even = patterns, m, smoothing, even
        self._weights = patterns.weights[patterns.pattern]
        self._total = patterns.opinions.T @ self._weights
        self.n_parameters = len(self._total) + (0 if even else m - 1)

    def start(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        return shares, np.zeros(self._m)

    def maximise(self, posterior: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
        cells, unnamed = posterior
        accuracy = self._accuracies(self._patterns.opinions, cells)
        if self._even:
            return accuracy, np.full(self._m, 1 / self._m)
        named = np.bincount(self._patterns.label, cells * self._weights, minlength=self._m)
        prior: FloatArray = named + unnamed + self._smoothing
        return accuracy, prior / prior.sum()

    def expect(self, learners: FloatArray, prior: FloatArray) -> tuple[tuple[FloatArray, FloatArray], float]:
        pattern, label, opinions = self._patterns.pattern, self._patterns.label, self._patterns.opinions
        right = np.log(np.maximum(learners, TINY))
        wrong = np.log(np.maximum((1 - learners) / (self._m - 1), TINY))
        named = np.bincount(pattern, prior[label])
        unnamed = np.where(named > 1 - ROUNDING, 0.0, 1 - named)
        base = np.bincount(pattern, opinions @ wrong)
        score = base[pattern] + opinions @ (right - wrong) + np.log(np.maximum(prior[label], TINY))
        known = self._patterns.truth >= 0
        score = np.where(known[pattern] & (self._patterns.truth[pattern] != label), -np.inf, score)
        rest = np.where(known | (unnamed == 0), -np.inf, base + np.log(np.maximum(unnamed, TINY)))
        top = np.maximum(np.maximum.reduceat(score, self._patterns.first), rest)
        score, rest = np.exp(score - top[pattern]), np.exp(rest - top)
        total = np.bincount(pattern, score) + rest
        cells = score / total[pattern]
        spread = self._patterns.weights * np.divide(
            rest / total, unnamed, out=np.zeros(len(rest)), where=unnamed > 0
        )
        elsewhere = spread.sum() - np.bincount(label, spread[pattern], minlength=self._m)
        likelihood = float(self._patterns.weights @ (top + np.log(total)))
        return (cells, prior * np.maximum(elsewhere, 0.0)), likelihood

    def of_cells(self, posterior: tuple[FloatArray, FloatArray]) -> FloatArray:
        return posterior[0]

    def of_patterns(self, posterior: tuple[FloatArray, FloatArray]) -> FloatArray:
        pattern, label = self._patterns.pattern, self._patterns.label
        prior = self.maximise(posterior)[1]
        whole = np.tile(prior, (len(self._patterns.weights), 1))
        whole[pattern, label] = 0.0
        others = whole.sum(axis=1)
        rest = np.maximum(1 - np.bincount(pattern, posterior[0]), 0.0)
        whole *= np.divide(rest, others, out=np.zeros(len(rest)), where=others > 0)[:, None]
        whole[pattern, label] = posterior[0]
        return whole

    def of_learners(
        self, posterior: tuple[FloatArray, FloatArray], prior: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        accuracies, m = self._accuracies(self._patterns.votes, posterior[0]), self._m
        if len(accuracies) * m**2 > _ENTRIES or m > _MOST_CLASSES:
            return accuracies, None
        theta = np.repeat(((1 - accuracies) / (m - 1))[:, None], m * m, axis=1).reshape(-1, m, m)
        theta[:, range(m), range(m)] = accuracies[:, None]
        return accuracies, theta

    def _accuracies(self, votes: csr_array, cells: FloatArray) -> FloatArray:
        right = votes.T @ (cells * self._weights) + self._smoothing
        total = votes.T @ self._weights + 2 * self._smoothing
        accuracies: FloatArray = np.divide(
            right, total, out=np.full(len(total), 1 / self._m), where=total > 0
        )
        return accuracies


class _Confusion:
    """A matrix of errors for each learner. Its probabilities are those of all classes, (P, m)."""

    def __init__(self, patterns: _Patterns, m: int, smoothing: float) -> None:
        self._patterns, self._m, self._smoothing = patterns, m, smoothing
        self._opinions = self._one_hot(patterns.opinions)
        self.n_parameters = m - 1 + patterns.opinions.shape[1] * m * (m - 1)

    def _one_hot(self, votes: csr_array) -> csr_array:
        """Return who votes for what, (P, N * m)."""
        cell, learner = votes.nonzero()
        where = self._patterns.pattern[cell], learner * self._m + self._patterns.label[cell]
        shape = (len(self._patterns.weights), votes.shape[1] * self._m)
        return csr_array((np.ones(len(cell)), where), shape=shape)

    def start(self, shares: FloatArray) -> FloatArray:
        whole = np.full((len(self._patterns.weights), self._m), TINY)
        whole[self._patterns.pattern, self._patterns.label] = np.maximum(shares, TINY)
        return whole

    def maximise(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        prior = self._patterns.weights @ posterior + self._smoothing
        return self._matrices(self._opinions, posterior), prior / prior.sum()

    def expect(self, learners: FloatArray, prior: FloatArray) -> tuple[FloatArray, float]:
        m, truth = self._m, self._patterns.truth
        log_theta = (
            np.log(np.maximum(learners, TINY)).transpose(0, 2, 1).reshape(-1, m)
        )  # (N * m voted, m true)
        joint = self._opinions @ log_theta + np.log(np.maximum(prior, TINY))
        joint = np.where((truth[:, None] >= 0) & (truth[:, None] != np.arange(m)), -np.inf, joint)
        log_posterior = log_normalise(joint)
        top = joint.argmax(axis=1)[:, None]
        evidence = np.take_along_axis(joint, top, 1) - np.take_along_axis(log_posterior, top, 1)
        return np.exp(log_posterior), float(self._patterns.weights @ evidence[:, 0])

    def of_cells(self, posterior: FloatArray) -> FloatArray:
        cells: FloatArray = posterior[self._patterns.pattern, self._patterns.label]
        return cells

    def of_patterns(self, posterior: FloatArray) -> FloatArray:
        return posterior

    def of_learners(self, posterior: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
        theta = self._matrices(self._one_hot(self._patterns.votes), posterior)
        return np.einsum("k,ikk->i", prior, theta), theta

    def _matrices(self, votes: csr_array, posterior: FloatArray) -> FloatArray:
        """Return theta, (N, m true, m voted)."""
        weighted = posterior * self._patterns.weights[:, None]
        counts = (votes.T @ weighted).reshape(-1, self._m, self._m).transpose(0, 2, 1) + self._smoothing
        total = counts.sum(axis=2, keepdims=True)
        theta: FloatArray = np.divide(counts, total, out=np.full(counts.shape, 1 / self._m), where=total > 0)
        return theta


def _winners(
    patterns: _Patterns, cells: FloatArray, prior: FloatArray
) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the most probable label of each sample and its probability, among the labels that somebody gave."""
    order = np.lexsort((-patterns.label, cells, patterns.pattern))
    last = order[np.append(patterns.first[1:], len(order)) - 1]
    silent = patterns.of_sample < 0
    labels = np.where(silent, prior.argmax(), patterns.label[last][patterns.of_sample])
    probable: FloatArray = np.where(silent, prior.max(), cells[last][patterns.of_sample])
    return labels, probable


def _errors(
    patterns: _Patterns,
    cells: FloatArray,
    accuracies: FloatArray,
    families: tuple[tuple[int, ...], ...],
    groups: NDArray[np.intp] | None,
) -> FloatArray:
    """Return the standard errors of the accuracies from the scores of the patterns, which are known up to the truth.

    With p the accuracy of an opinion and y the probability that it is right, its score is ``(y - p) / (p (1 - p))``.
    """
    votes, weights = patterns.opinions, patterns.weights
    right = votes.T @ (cells * weights[patterns.pattern])
    total = np.maximum(votes.T @ weights[patterns.pattern], 1)
    p = np.clip(right / total, 0.5 / total, 1 - 0.5 / total)
    in_pattern = csr_array(
        (np.ones(len(cells)), (patterns.pattern, np.arange(len(cells)))), shape=(len(weights), len(cells))
    )
    rows = in_pattern @ (votes * cells[:, None]) - (in_pattern @ votes) * p
    scores = csr_array(rows * (1 / (p * (1 - p))))  # (P, K)
    information = (scores.T @ (scores * weights[:, None])).toarray()
    covariance = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    if groups is not None:
        voted = np.flatnonzero(patterns.of_sample >= 0)
        where = groups[voted], patterns.of_sample[voted]
        shape = (int(groups.max()) + 1, len(weights))
        sums = csr_array((np.ones(len(voted)), where), shape=shape) @ scores
        covariance = covariance @ (sums.T @ sums).toarray() @ covariance
    least = accuracies * (1 - accuracies) / np.maximum(patterns.votes.T @ weights[patterns.pattern], 1)
    of_learner = opinion_of(len(accuracies), families)
    errors: FloatArray = np.sqrt(np.maximum(np.diagonal(covariance)[of_learner], least))
    return errors
