"""Where any ensemble stands, from its predictions alone."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from counterpoint._validation import ROUNDING, FloatArray, check_choice, check_flag
from counterpoint.assessment.advice import advise
from counterpoint.assessment.learners import learner_outputs
from counterpoint.assessment.result import Assessment, Estimate, Finding, Sizing
from counterpoint.assessment.votes import count_votes
from counterpoint.exceptions import ModelRangeWarning
from counterpoint.measures import MEASURES
from counterpoint.measures.certificates import c_bound_from_moments, tandem_bound_from_counts
from counterpoint.measures.correlation import shared_correlations
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import (
    VOTINGS,
    Outputs,
    mean_defined,
    mean_of_pairs,
    sufficient_statistics,
    warn_undefined,
)
from counterpoint.theory import (
    best_weights,
    error_correlation_bounds,
    jury_accuracy,
    learner_correlation_bounds,
    mixed_vote_accuracy,
    nearest_correlation_matrix,
    truth_correlation_bounds,
    vote_accuracy_curve,
)

__all__ = ["Assessment", "Estimate", "Finding", "Sizing", "assess", "assess_estimator"]

Report = Callable[[str, int, int], None]


def assess(
    y_true: ArrayLike,
    outputs: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    voting: str = "hard",
    learners: Sequence[str] | None = None,
    name: str = "ensemble",
    progress: bool = False,
) -> Assessment:
    r"""Say where an ensemble stands, what its ceiling is and what would help.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The true labels, of any kind.
    outputs : array-like of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities. A memory-mapped array is read in blocks and never copied whole.
    labels : array-like of shape (n_classes,), optional
        The classes, in the order of the columns of probabilities; by default the sorted labels of ``y_true``, and of
        ``outputs`` where those are labels.
    voting : {"hard", "soft", "geometric"}, default="hard"
        The vote that counts: the most votes, the highest mean probability, or the highest geometric mean of the
        probabilities.
    learners : sequence of str, optional
        Names of the learners, no two alike; by default L1, L2, ...
    name : str, default="ensemble"
        What to call the ensemble.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Assessment
        The numbers and the advice.

    Warns
    -----
    UndefinedMeasureWarning
        If something is undefined, such as the correlation of a constant learner; it is NaN and averages leave it out.

    See Also
    --------
    assess_estimator : The same for a fitted scikit-learn ensemble.

    Notes
    -----
    The samples are read twice: once for the correlations of all pairs, by matrix products, and once for the votes, when
    the best weights are known. Time is linear in the samples; memory beside the arrays does not grow with them.

    Examples
    --------
    >>> truth = ["ham", "ham", "spam", "spam", "ham", "spam"]
    >>> votes = [
    ...     ["ham", "ham", "spam", "spam", "spam", "spam"],
    ...     ["ham", "spam", "spam", "spam", "ham", "spam"],
    ...     ["ham", "ham", "spam", "ham", "spam", "spam"],
    ... ]
    >>> assessment = assess(truth, votes)
    >>> assessment.vote.value
    0.8333333333333334
    >>> round(assessment.r_tl, 3), round(assessment.r_ll, 3), round(assessment.optimality, 3)
    (0.583, 0.319, 0.788)
    >>> [finding.code for finding in assessment.advice]
    ['more_learners', 'small_sample']
    """
    check_choice(voting, "voting", VOTINGS)
    check_flag(progress, "progress")
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string; got {name!r}.")
    read = Outputs(outputs, y_true, labels)
    if voting != "hard" and read.probabilities is None:
        raise ValueError(f"`voting` must be 'hard' where `outputs` are labels; got {voting!r}.")
    names = _check_names(learners, read.n_learners)
    with _progress_bar(progress, read.n_samples) as report:
        result = _assess(read, voting, names, name, report)
    _warn_of_undefined(result)
    return advise(result)


def assess_estimator(estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None) -> Assessment:
    """Assess a fitted scikit-learn ensemble by what its learners say of some samples.

    Parameters
    ----------
    estimator : fitted classifier, or sequence of fitted classifiers
        Any ensemble whose ``estimators_`` are classifiers that vote: forests, bagging (with its feature subsets),
        voting, the base layer of stacking, AdaBoost; also as the last step of a
        pipeline or inside a search. Or a list of classifiers. Each learner has one vote: ``weights`` and
        ``estimator_weights_`` are not used.
    X : array-like of shape (n_samples, n_features)
        Samples that were not used to train it, or the verdict flatters.
    y : array-like of shape (n_samples,)
        Their labels.
    name : str, optional
        What to call the ensemble; by default the name of its class.

    Returns
    -------
    Assessment
        The numbers and the advice. The vote that counts is that of the ensemble: soft if it averages probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(15, random_state=0).fit(X[::2], y[::2])
    >>> assessment = assess_estimator(forest, X[1::2], y[1::2])
    >>> assessment.name, assessment.n_learners, assessment.voting
    ('RandomForestClassifier', 15, 'soft')
    """
    learners = learner_outputs(estimator, X)
    default = "ensemble" if isinstance(estimator, Sequence) else type(estimator).__name__
    return assess(
        y,
        learners.outputs,
        labels=learners.classes,
        voting=learners.voting,
        learners=learners.names,
        name=default if name is None else name,
    )


def _assess(
    read: Outputs, voting: str, names: tuple[str, ...], name: str, report: Report | None
) -> Assessment:
    n, n_learners = read.n_samples, read.n_learners
    gathered = sufficient_statistics(read, columns=True, correctness=True, progress=_phase(report, "pairs"))
    columns, correctness = gathered.columns, gathered.correctness
    assert columns is not None
    assert correctness is not None
    by_class, pairs_by_class = shared_correlations(columns)  # (N, m), (m, N, N)
    r_tl_learners = mean_defined(by_class, axis=1)
    pairs = mean_defined(pairs_by_class, axis=0)
    r_tl, r_ll = float(mean_defined(r_tl_learners)), mean_of_pairs(pairs)
    accuracies = correctness.right / n
    errors = correctness_correlations(correctness)
    weights, ceiling = _best_weights(r_tl_learners, pairs)
    votes = count_votes(read, weights, voting, _phase(report, "votes"))
    bound = _bound(r_tl, r_ll, int(np.sum(~np.isnan(r_tl_learners))))
    c = mean_of_pairs(errors)
    equal = np.full(n_learners, 1 / n_learners)
    return Assessment(
        name=name,
        n_learners=n_learners,
        n_samples=n,
        n_classes=len(read.classes),
        classes=tuple(read.classes.tolist()),
        learners=names,
        outputs="labels" if read.probabilities is None else "probabilities",
        voting=voting,
        r_tl=r_tl,
        r_ll=r_ll,
        bound=bound,
        optimality=r_tl / bound if bound > 0 else np.nan,
        r_tl_learners=r_tl_learners,
        accuracies=accuracies,
        r_tl_classes=mean_defined(by_class, axis=0),
        r_ll_classes=np.array([mean_of_pairs(matrix) for matrix in pairs_by_class]),
        learner_correlations=pairs,
        hard_vote=votes.estimates["hard"],
        soft_vote=votes.estimates["soft"],
        geometric_vote=votes.estimates["geometric"],
        weighted_vote=votes.weighted,
        log_loss=votes.scores.log_loss(),
        brier_score=votes.scores.brier_score(),
        calibration_error=votes.scores.calibration_error(),
        reliability=votes.scores.reliability(),
        learner_log_losses=votes.log_losses,
        weights=weights,
        ceiling=ceiling,
        without=votes.without,
        without_error=votes.without_error,
        error_correlation=c,
        predicted_vote=_predicted(accuracies, c),
        predicted_mixed=mixed_vote_accuracy(accuracies, _complete(errors)),
        sizing=_sizing(accuracies, c),
        measures={
            key: m.from_statistics(gathered) if n_learners > 1 else np.nan for key, m in MEASURES.items()
        },
        c_bound=c_bound_from_moments(*votes.margin_moments),
        tandem_bound=tandem_bound_from_counts(correctness, equal, 0.95).bound,
        advice=(),
    )


def _check_names(learners: Sequence[str] | None, n_learners: int) -> tuple[str, ...]:
    if learners is None:
        return tuple(f"L{i + 1}" for i in range(n_learners))
    if isinstance(learners, str) or not isinstance(learners, Iterable):
        raise TypeError(f"`learners` must be a sequence of names; got {learners!r}.")
    names = tuple(str(learner) for learner in learners)
    if len(names) != n_learners:
        raise ValueError(
            f"`learners` must have one name for each of the {n_learners} learners; got {len(names)}."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`learners` must be distinct; got {twice!r} twice.")
    return names


def _bound(r_tl: float, r_ll: float, n_learners: int) -> float:
    """Return the bound of Theorem 2 for the learners that have correlations: constant ones are in no average."""
    if np.isnan(r_ll) or n_learners < 2:
        return np.nan
    # Where some learners are constant in a class, the averages are over different classes, and may lie outside
    # Theorem 1 and outside Theorem 2.
    low = learner_correlation_bounds(n_learners).low
    return max(float(truth_correlation_bounds(max(r_ll, low), n_learners).high), abs(r_tl))


def _best_weights(r: FloatArray, matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the best non-negative weights, of a sum of one, and the ceiling of all weights."""
    weights = np.zeros(len(r))
    defined = np.flatnonzero(~np.isnan(r))
    if not len(defined):
        return np.full(len(r), 1 / len(r)), np.nan
    r, matrix = r[defined], _complete(matrix[np.ix_(defined, defined)])
    try:
        ceiling = best_weights(r, matrix).ceiling
    except ValueError:  # averages over different classes need not fit together
        whole = nearest_correlation_matrix(np.block([[np.ones((1, 1)), r[None]], [r[:, None], matrix]]))
        r, matrix = whole[0, 1:], whole[1:, 1:]
        ceiling = best_weights(r, matrix).ceiling
    values, vectors = np.linalg.eigh(matrix)
    kept = values > ROUNDING * len(values) * values[-1]
    root = np.sqrt(values[kept])
    # |A w - b|^2 is the squared distance of the weighted sum from the truth
    solution, _ = nnls((vectors[:, kept] * root).T, (vectors[:, kept].T @ r) / root)
    weights[defined] = solution
    total = weights.sum()
    return (weights / total if total > 0 else np.full(len(weights), 1 / len(weights))), ceiling


def _complete(matrix: FloatArray) -> FloatArray:
    """Return the matrix with 0 for what is undefined, and a unit diagonal."""
    filled = np.nan_to_num(matrix, nan=0.0)
    np.fill_diagonal(filled, 1.0)
    return filled


def _predicted(accuracies: FloatArray, c: float) -> float:
    n, p = len(accuracies), float(accuracies.mean())
    if n == 1:
        return p
    if np.isnan(c):
        return np.nan
    # Unequal learners may be less correlated than equal ones can be.
    return float(jury_accuracy(p, max(c, error_correlation_bounds(p, n).low), n))


def _sizing(accuracies: FloatArray, c: float) -> Sizing:
    n = len(accuracies)
    sizes = np.unique(np.round(np.geomspace(1, max(10 * n, 101), 40)).astype(np.int64) | 1)
    sizes = np.unique(np.append(sizes, n))
    if np.isnan(c):
        return Sizing(sizes, np.full(len(sizes), np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelRangeWarning)  # the curve ends where c cannot be kept
        curve = vote_accuracy_curve(float(accuracies.mean()), c, sizes)
    return Sizing(sizes, curve)


def _warn_of_undefined(a: Assessment) -> None:
    places = [f"r_tl of {a.learners[i]}" for i in np.flatnonzero(np.isnan(a.r_tl_learners))]
    places += [f"class {a.classes[k]!r}" for k in np.flatnonzero(np.isnan(a.r_tl_classes))]
    places += ["r_ll and all that follows from it"] if np.isnan(a.r_ll) else []
    places += ["the correlation of being correct"] if np.isnan(a.error_correlation) else []
    places += [key for key, value in a.measures.items() if np.isnan(value)] if a.n_learners > 1 else []
    warn_undefined("assess", places, stacklevel=4)


def _phase(report: Report | None, phase: str) -> Callable[[int, int], None] | None:
    return None if report is None else lambda done, total: report(phase, done, total)


@contextmanager
def _progress_bar(show: bool, n_samples: int) -> Iterator[Report | None]:
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        tasks = {phase: bar.add_task(f"assessing {phase}", total=n_samples) for phase in ("pairs", "votes")}
        yield lambda phase, done, _: bar.update(tasks[phase], completed=done)
