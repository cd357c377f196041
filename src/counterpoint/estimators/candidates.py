"""The candidates of a search, and the choice among them.

Candidates are in one order: independent training, which is diversity 0, then the other diversities, each with all
weight decays. Scores are arrays ``(n_candidates, n_folds)``, or ``(n_candidates, n_epochs, n_folds)`` before the choice
of the epoch.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from counterpoint._validation import FloatArray
from counterpoint.estimators.paired import PairedTest, corrected_paired_test

__all__ = [
    "Candidate",
    "Choice",
    "Scores",
    "choose_diversity",
    "most_accurate",
    "parameters_of",
    "results",
    "verdict",
]

_LEVEL = 0.05  # of the test behind the verdict


class Candidate(NamedTuple):
    """A diversity, 0 for independent training, with a weight decay and a number of epochs."""

    diversity: float
    weight_decay: float
    epochs: int


class Scores(NamedTuple):
    """Scores of a candidate on a fold: of its vote on held-out rows, of its learners on training rows."""

    accuracy: Any
    log_loss: Any
    brier_score: Any
    calibration_error: Any
    learner_train_accuracy: Any


def parameters_of(search: Any, weight_decay: float | None, epochs: int | None) -> dict[str, Any]:
    """Return the parameters of a candidate that its search has; None is the first weight decay, the most epochs."""
    shared: dict[str, Any] = search.get_params(deep=False)
    for name in ("diversities", "cv", "random_state"):
        del shared[name]
    first = float(np.ravel(search.weight_decay)[0])
    return shared | {
        "weight_decay": first if weight_decay is None else weight_decay,
        "epochs": np.max(search.epochs) if epochs is None else epochs,
    }


def most_accurate(accuracy: FloatArray, log_loss: FloatArray, test_share: float) -> int:
    """Return the most accurate setting among those whose log-loss is within two standard errors of the lowest.

    Accuracy alone is coarse, since few rows tell two settings apart, and log-loss alone prefers settings that are
    cautious to those that are right more often.

    Parameters
    ----------
    accuracy, log_loss : ndarray of shape (n_settings, n_folds)
        Scores on the folds; of settings with equal accuracy, the one with the lower log-loss is taken, and then the
        first.
    test_share : float
        Number of test rows over that of training rows, in a fold. The standard error of the difference from the lowest
        log-loss is the corrected one of :func:`corrected_paired_test`.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy = np.array([[0.8, 0.8], [0.9, 0.8], [0.9, 0.9]])
    >>> log_loss = np.array([[0.5, 0.4], [0.4, 0.6], [0.8, 0.8]])
    >>> most_accurate(accuracy, log_loss, test_share=1.0)
    1
    """
    loss = log_loss.mean(axis=1)
    differences = log_loss - log_loss[loss.argmin()]
    error = np.sqrt((1 / log_loss.shape[1] + test_share) * differences.var(axis=1, ddof=1))
    is_close = differences.mean(axis=1) <= 2 * error + 1e-12
    right = np.where(is_close, accuracy.mean(axis=1).round(12), -1)
    return int(np.lexsort((loss.round(12), -right))[0])


class Choice(NamedTuple):
    """The outcome of :func:`choose_diversity`.

    Attributes
    ----------
    chosen : int
        Row of the choice; 0 is independent training.
    best : int
        Row of the best diversity, chosen or not.
    test : PairedTest
        The best diversity against independent training.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoint.estimators import choose_diversity
    >>> choice = choose_diversity(np.array([[0.8, 0.7, 0.9], [0.9, 0.8, 1.0]]), test_share=0.5)
    >>> choice.chosen, choice.best
    (1, 1)
    """

    chosen: int
    best: int
    test: PairedTest


def choose_diversity(scores: FloatArray, test_share: float) -> Choice:
    """Return the best diversity if it leads by more than its standard error, else independent training.

    Parameters
    ----------
    scores : ndarray of shape (n_candidates, n_folds)
        Accuracies of the vote, or other scores of which more is better; independent training first.
    test_share : float
        Number of test rows over that of training rows, in a fold.

    Returns
    -------
    Choice

    Notes
    -----
    The standard error is the corrected one of :func:`corrected_paired_test`.

    Examples
    --------
    >>> import numpy as np
    >>> choose_diversity(np.array([[0.8, 0.7, 0.9], [0.9, 0.8, 1.0]]), test_share=0.5)[:2]
    (1, 1)
    """
    best = 1 + int(scores[1:].mean(axis=1).round(12).argmax())  # the first of equals, whatever the rounding
    test = corrected_paired_test(scores[best] - scores[0], test_share)
    return Choice(best if test.difference > test.standard_error else 0, best, test)


def results(candidates: list[Candidate], scores: Scores) -> dict[str, Any]:
    """Return the scores in the layout of ``GridSearchCV``."""
    votes = scores.accuracy
    mean = votes.mean(axis=1)
    found: dict[str, Any] = {
        "param_diversity": np.array([c.diversity for c in candidates]),
        "param_weight_decay": np.array([c.weight_decay for c in candidates]),
        "param_epochs": np.array([c.epochs for c in candidates]),
        "params": [c._asdict() for c in candidates],
    }
    found |= {f"split{k}_test_score": votes[:, k] for k in range(votes.shape[1])}
    found |= {
        "mean_test_score": mean,
        "std_test_score": votes.std(axis=1),
        "rank_test_score": rankdata(-mean.round(12), method="min").astype(int),
    }
    for name in ("log_loss", "brier_score", "calibration_error"):
        found[f"mean_test_{name}"] = getattr(scores, name).mean(axis=1)
    return found | {"mean_learner_train_score": scores.learner_train_accuracy.mean(axis=1)}


def verdict(
    candidates: list[Candidate],
    rows: tuple[int, int, int],
    scores: FloatArray,
    test: PairedTest,
    claim: str = "the vote is right on {:.1f} % of the rows held out",
) -> str:
    """Return a sentence that compares the best diversity with independent training, and names the choice.

    ``rows`` are those of the choice, of the best diversity, and of independent training.
    """
    chosen, best, independent = rows
    n_decays = sum(candidate.diversity == 0 for candidate in candidates)
    n_tried = len(candidates) - n_decays
    what = "diversities" if n_decays == 1 else "pairs of diversity and weight decay"
    tried = f"the best of {n_tried} {what}" if n_tried > 1 else "one diversity"
    ours, theirs = candidates[best], candidates[independent]
    numbers = (
        f"at diversity {ours.diversity:g}, {_setting(ours)}, {claim.format(100 * scores[best].mean())}; with the same "
        f"networks trained independently, {_setting(theirs)}, it is {100 * scores[independent].mean():.1f} % "
        f"(corrected paired t-test over {scores.shape[1]} folds for {tried}: p = {test.p_value:.2g})."
    )
    if test.p_value < _LEVEL:
        return f"Explicit diversity {'pays' if test.difference > 0 else 'costs'} on this data: {numbers}"
    if chosen == best:
        what = f"diversity {ours.diversity:g} is chosen, as it leads by more than the standard error"
    else:
        what = "independent training is chosen"
    return f"No difference can be told on this data, and {what}: {numbers}"


def _setting(candidate: Candidate) -> str:
    epochs = "1 epoch" if candidate.epochs == 1 else f"{candidate.epochs} epochs"
    return f"weight decay {candidate.weight_decay:g} and {epochs}"
