"""The candidates of a search, and the choice among them.

A candidate is a mapping of parameters: the diversity, 0 for independent training, the weight decay, for classifiers the
label smoothing, and the number of epochs. Candidates are in one order: independent training, then the other
diversities, each with all other settings. Scores are arrays ``(n_candidates, n_folds)``, or
``(n_candidates, n_epochs, n_folds)`` before the choice of the epoch.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from counterpoint._validation import FloatArray, IntArray, check_interval
from counterpoint.estimators.paired import PairedTest, corrected_paired_test

__all__ = [
    "BestSettings",
    "Candidate",
    "Choice",
    "Scores",
    "best_settings",
    "candidates_of",
    "choose_diversity",
    "grid_results",
    "parameters_of",
    "results",
    "verdict",
]

_LEVEL = 0.05  # of the test behind the verdict
_APART = ("diversity", "epochs")  # in the words of a verdict


Candidate = dict[str, float]


class Scores(NamedTuple):
    """Scores of a candidate on a fold: of its vote on held-out rows, of its learners on training rows."""

    accuracy: Any
    log_loss: Any
    brier_score: Any
    calibration_error: Any
    learner_train_accuracy: Any


def candidates_of(search: Any, **most: float) -> list[Candidate]:
    """Return the candidates of a search without their epochs.

    ``most`` has the largest number of each parameter to try besides the diversities, which are at most 1.
    """
    tried = {name: _numbers(search, name, largest) for name, largest in {"diversities": 1.0, **most}.items()}
    others = [diversity for diversity in tried.pop("diversities") if diversity]
    if not others:
        raise ValueError(f"`diversities` must hold a number above 0; got {search.diversities!r}.")
    return [
        dict(zip(("diversity", *tried), one, strict=True)) for one in product([0.0, *others], *tried.values())
    ]


def _numbers(search: Any, name: str, largest: float) -> list[float]:
    """Return the distinct numbers of a parameter, which may be one number."""
    given = getattr(search, name)
    if not np.size(given):
        raise ValueError(f"`{name}` must hold at least one number; got {given!r}.")
    numbers: FloatArray = np.atleast_1d(check_interval(np.asarray(given), name, 0, largest))
    if numbers.ndim > 1 or len(np.unique(numbers)) < len(numbers):
        raise ValueError(f"`{name}` must hold distinct numbers; got {given!r}.")
    return numbers.tolist()  # type: ignore[no-any-return]


def parameters_of(search: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a candidate: those given, and others that its search has.

    Where the search tries several numbers, a parameter that is not given has the first of them, the epochs the largest.
    """
    shared: dict[str, Any] = search.get_params(deep=False)
    for name in ("diversities", "cv", "random_state"):
        del shared[name]
    shared["epochs"] = np.max(search.epochs)
    for name in {"weight_decay", "label_smoothing"} & set(shared):
        shared[name] = float(np.ravel(shared[name])[0])
    return shared | given


class BestSettings(NamedTuple):
    """The settings of lowest loss of a search."""

    tried: list[Candidate]  # all candidates, each with its best number of epochs
    places: IntArray  # of these numbers among those that were tried
    rows: IntArray  # the candidate of each diversity with its best other settings, independent training first
    chosen: int  # the candidate of lowest loss
    best: int  # the one with a diversity

    def at_epochs(self, scores: FloatArray) -> FloatArray:
        """Return scores (n_candidates, n_epochs, n_folds) at the best epoch of each candidate."""
        found: FloatArray = np.take_along_axis(scores, self.places[:, None, None], 1)[:, 0]
        return found

    def test(self, scores: FloatArray, test_share: float) -> PairedTest:
        """Return the test of the best diversity against independent training, each at its best settings.

        The p-value is multiplied by the number of candidates with a diversity.
        """
        test = corrected_paired_test(scores[self.best] - scores[self.rows[0]], test_share)
        return test._replace(p_value=min(1.0, self.n_diverse * test.p_value))

    @property
    def n_diverse(self) -> int:
        """Number of candidates with a diversity."""
        return sum(candidate["diversity"] > 0 for candidate in self.tried)


def best_settings(candidates: list[Candidate], epochs: list[int], loss: FloatArray) -> BestSettings:
    """Return the settings of the lowest loss in the mean over the folds; of equals the first.

    ``loss`` is that on held-out rows, (n_candidates, n_epochs, n_folds).
    """
    mean = loss.mean(axis=2).round(12)  # equals are equal, whatever the rounding
    places, least = mean.argmin(axis=1), mean.min(axis=1)
    tried = [candidate | {"epochs": epochs[e]} for candidate, e in zip(candidates, places, strict=True)]
    n_alone = sum(candidate["diversity"] == 0 for candidate in candidates)
    rows = least.reshape(-1, n_alone).argmin(axis=1) + np.arange(0, len(least), n_alone)
    return BestSettings(tried, places, rows, int(least.argmin()), n_alone + int(least[n_alone:].argmin()))


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
    found = grid_results(candidates, scores.accuracy)
    for name in ("log_loss", "brier_score", "calibration_error"):
        found[f"mean_test_{name}"] = getattr(scores, name).mean(axis=1)
    return found | {"mean_learner_train_score": scores.learner_train_accuracy.mean(axis=1)}


def grid_results(candidates: list[Candidate], scores: FloatArray) -> dict[str, Any]:
    """Return one score of the candidates, (n_candidates, n_folds), in the layout of ``GridSearchCV``."""
    mean = scores.mean(axis=1)
    found: dict[str, Any] = {
        f"param_{name}": np.array([candidate[name] for candidate in candidates]) for name in candidates[0]
    }
    found["params"] = candidates
    found |= {f"split{k}_test_score": column for k, column in enumerate(scores.T)}
    return found | {
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rankdata(-mean.round(12), method="min").astype(int),
    }


def verdict(settings: BestSettings, scores: FloatArray, test: PairedTest, claim: str, loss: str) -> str:
    """Return what the comparison of the best diversity with independent training says, and what is chosen.

    Scores are shares, (n_candidates, n_folds). ``claim`` says in words what they are, and ``loss`` what was lowest.
    """
    best, independent = settings.best, int(settings.rows[0])
    tried = f"the best of {settings.n_diverse} settings" if settings.n_diverse > 1 else "one setting"
    ours, theirs = settings.tried[best], settings.tried[independent]
    numbers = (
        f"at diversity {ours['diversity']:g}, {_setting(ours)}, {claim.format(100 * scores[best].mean())}; with the "
        f"same networks trained independently, {_setting(theirs)}, it is {100 * scores[independent].mean():.1f} % "
        f"(corrected paired t-test over {scores.shape[1]} folds for {tried}: p = {test.p_value:.2g})."
    )
    if test.p_value >= _LEVEL:
        finding = "No difference can be told on this data"
    else:
        finding = f"Explicit diversity {'pays' if test.difference > 0 else 'costs'} on this data"
    name = f"Diversity {ours['diversity']:g}" if settings.chosen == best else "Independent training"
    return f"{finding}: {numbers} {name} is chosen for the lowest {loss}."


def _setting(candidate: Candidate) -> str:
    """Return the parameters besides the diversity as words."""
    named = [f"{name.replace('_', ' ')} {value:g}" for name, value in candidate.items() if name not in _APART]
    epochs = "1 epoch" if candidate["epochs"] == 1 else f"{candidate['epochs']:g} epochs"
    return f"{', '.join(named)} and {epochs}" if named else epochs
