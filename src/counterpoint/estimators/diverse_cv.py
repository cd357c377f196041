"""Cross-validated choice of the diversity and the weight decay, and a test of whether diversity pays."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from counterpoint._validation import FloatArray, IntArray, check_interval
from counterpoint.estimators._fitted import FittedNetworks, all_or_nothing
from counterpoint.estimators._networks import Module
from counterpoint.estimators._path import train_path
from counterpoint.estimators._rows import Rows, check_sample_weight
from counterpoint.estimators._search_fold import SearchFold
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import (
    Candidate,
    Scores,
    at_best_decay,
    choose_diversity,
    results,
    verdict,
)
from counterpoint.estimators.diverse import DiverseEnsembleClassifier
from counterpoint.estimators.diversity_path import DiversityPathDisplay
from counterpoint.training import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DiverseEnsembleClassifierCV"]

_DIVERSITIES = (0.25, 0.5, 0.75, 0.9, 1.0)
# Folds that train as one program take the same number of steps. The batches of a fold smaller than this share of the
# largest would be too small, so it trains in a program of its own.
_SIMILAR = 0.8


class DiverseEnsembleClassifierCV(FittedNetworks):
    """Choose the diversity by cross-validation, and test whether it beats independent training of the same networks.

    All diversities, weight decays and networks train as one batched program, on all folds of similar size. The choice
    is then trained on all rows.

    Parameters
    ----------
    module, n_estimators, hidden_layer_sizes
        The networks, as for :class:`DiverseEnsembleClassifier`.
    diversities : sequence of float, default=(0.25, 0.5, 0.75, 0.9, 1.0)
        Dials of :class:`~counterpoint.training.DiversityLoss` to try, besides independent training, diversity 0.
    cv : int, splitter or iterable, default=5
        Number of stratified folds, or any splitter of scikit-learn. Repeated folds sharpen the verdict.
    warmup_epochs, epochs, learning_rate, batch_size
        How to train, as for :class:`DiverseEnsembleClassifier`.
    weight_decay : float or sequence of float, default=0.1
        Weight decay, or several to try with each diversity and with independent training.
    voting, standardize, categorical_features, class_weight, device, random_state, verbose
        As for :class:`DiverseEnsembleClassifier`.

    Attributes
    ----------
    best_diversity_ : float
        The chosen diversity; 0 is independent training.
    best_weight_decay_ : float
        The chosen weight decay.
    verdict_ : str
        Whether explicit diversity beats independent training of the same networks on this data, with the test.
    test_ : PairedTest
        Test of the best diversity against independent training, each at its best weight decay: mean difference in
        accuracy, standard error, p-value.
    cv_results_ : dict of arrays
        As that of ``GridSearchCV``, one row for each diversity and weight decay, independent training first: the
        accuracy of the vote, ``mean_test_log_loss``, ``mean_test_brier_score`` and
        ``mean_test_calibration_error``, and the accuracy of the learners on their own training rows.
    best_index_ : int
        Row of the choice in ``cv_results_``.
    best_estimator_ : DiverseEnsembleClassifier
        The choice, trained on all rows. It has ``save``.
    classes_, estimators_, ensemble_, encoder_, readout_, scaler_, history_, n_features_in_, feature_names_in_
        As for :class:`DiverseEnsembleClassifier`, of the choice.

    Notes
    -----
    In each fold, numeric columns are scaled by the training rows. The values of nominal columns, and which columns
    have an indicator of missing values, are the same for all folds. A value that no training row of the fold has is
    left out of its test rows.

    Each diversity, and independent training, takes its weight decay with the most accurate vote over the folds, the
    first of equals. Then the diversity with the most accurate vote is chosen if it leads independent training by more
    than the standard error of the difference, else independent training. Error and p-value are those of the corrected
    resampled t-test (Nadeau and Bengio 2003), the p-value multiplied by the number of diversities times that of weight
    decays.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = DiverseEnsembleClassifierCV(
    ...     n_estimators=3, diversities=(0.5, 1.0), cv=3, epochs=20, learning_rate=0.02, random_state=0
    ... ).fit(X, y)
    >>> search.cv_results_["mean_test_score"].shape  # independent training and two diversities
    (3,)
    >>> bool(search.score(X, y) > 0.9)
    True
    >>> search = search.set_params(diversities=(1.0,), weight_decay=(0.01, 0.1)).fit(X, y)
    >>> search.cv_results_["param_weight_decay"]
    array([0.01, 0.1 , 0.01, 0.1 ])
    """

    best_estimator_: DiverseEnsembleClassifier

    def __init__(
        self,
        module: Module = None,
        n_estimators: int = 15,
        *,
        diversities: Sequence[float] = _DIVERSITIES,
        cv: Any = 5,
        hidden_layer_sizes: int | Sequence[int] = (64,),
        warmup_epochs: int = 0,
        epochs: int = 100,
        learning_rate: float = 0.003,
        batch_size: int = 32,
        weight_decay: float | Sequence[float] = 0.1,
        voting: str = "auto",
        standardize: bool = True,
        categorical_features: ArrayLike | str | None = "from_dtype",
        class_weight: Mapping[Any, float] | str | None = None,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.n_estimators = n_estimators
        self.diversities = diversities
        self.cv = cv
        self.hidden_layer_sizes = hidden_layer_sizes
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.voting = voting
        self.standardize = standardize
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train all candidates on the folds, choose one, and train it on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.
        y : array-like of shape (n_samples,)
            The classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        self
        """
        diversities, decays = self._check_parameters()
        table, given = self._check_table(X, y)
        n_samples = len(table)
        weight = check_sample_weight(sample_weight, n_samples)
        kept = np.flatnonzero(weight > 0)
        self.classes_, codes = np.unique(given[kept], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` must hold at least two classes; got one class, {self.classes_.tolist()[0]!r}."
            )
        rows = Rows(table[kept], codes, weight[kept])
        self.encoder_._learn(rows.X, rows.weight)
        rng = check_random_state(self.random_state)
        splitting, refitting = draw_seeds(rng)
        splits = self._splits(rows, n_samples, kept, splitting)
        if len(splits) < 2:
            raise ValueError(f"`cv` must yield at least two folds; got {len(splits)}.")
        seeds = draw_seeds(rng, len(splits))
        folds = [SearchFold(self, rows, *split, seed) for split, seed in zip(splits, seeds, strict=True)]
        self._judge(diversities, decays, folds)
        self.best_estimator_ = self.estimator(
            self.best_diversity_, refitting, weight_decay=self.best_weight_decay_
        )
        self.best_estimator_.fit(X, y, sample_weight)
        for name in ("ensemble_", "encoder_", "history_"):
            setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def estimator(
        self, diversity: float, random_state: Any = None, *, weight_decay: float | None = None
    ) -> DiverseEnsembleClassifier:
        """Return the unfitted estimator of one diversity.

        Parameters
        ----------
        diversity : float
            A candidate; 0 is independent training.
        random_state : int, RandomState or None, default=None
            Source of randomness.
        weight_decay : float, optional
            Weight decay of the candidate; by default the only one, or the first to try.

        Returns
        -------
        DiverseEnsembleClassifier
        """
        shared = self.get_params(deep=False)
        for name in ("diversities", "cv", "random_state"):
            del shared[name]
        shared["weight_decay"] = (
            float(np.ravel(self.weight_decay)[0]) if weight_decay is None else weight_decay
        )
        return DiverseEnsembleClassifier(**shared, diversity=diversity, random_state=random_state)

    def plot_path(self, ax: "Axes | None" = None) -> "DiversityPathDisplay":
        """Draw the accuracy over the diversities, beside independent training, each at its best weight decay.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        DiversityPathDisplay
        """
        check_is_fitted(self)
        return DiversityPathDisplay.from_estimator(self, ax=ax)

    def _check_parameters(self) -> tuple[list[float], list[float]]:
        """Return the diversities and the weight decays to try, independent training first."""
        if not np.size(self.diversities):
            raise ValueError(f"`diversities` must hold at least one number; got {self.diversities!r}.")
        diversities: FloatArray = check_interval(np.asarray(self.diversities), "diversities", 0, 1)
        if diversities.ndim != 1 or len(np.unique(diversities)) < len(diversities):
            raise ValueError(
                f"`diversities` must be a sequence of distinct numbers; got {self.diversities!r}."
            )
        decays: FloatArray = check_interval(np.asarray(self.weight_decay), "weight_decay", 0)
        if decays.ndim > 1 or len(np.unique(decays)) < decays.size:
            raise ValueError(
                f"`weight_decay` must be a number or a sequence of distinct numbers; got {self.weight_decay!r}."
            )
        for diversity, decay in product(diversities.tolist(), decays.ravel().tolist()):
            self.estimator(diversity, weight_decay=decay)._check_parameters()
        others = [diversity for diversity in diversities.tolist() if diversity]
        if not others:
            raise ValueError(f"`diversities` must hold a number above 0; got {self.diversities!r}.")
        return [0.0, *others], np.atleast_1d(decays).tolist()

    def _splits(
        self, rows: Rows, n_samples: int, kept: IntArray, seed: int
    ) -> list[tuple[IntArray, IntArray]]:
        """Return the folds, as positions among the rows of positive weight."""
        if isinstance(self.cv, int | np.integer):
            folds = StratifiedKFold(int(self.cv), shuffle=True, random_state=seed)
            return list(folds.split(rows.X, rows.codes))
        place = np.full(n_samples, -1)
        place[kept] = np.arange(len(kept))
        codes = np.zeros(n_samples, dtype=np.int64)
        codes[kept] = rows.codes
        found = check_cv(self.cv, codes, classifier=True).split(np.zeros(n_samples), codes)
        splits = [(place[train], place[test]) for train, test in found]
        return [(train[train >= 0], test[test >= 0]) for train, test in splits]

    def _judge(self, diversities: list[float], decays: list[float], folds: list[SearchFold]) -> None:
        """Train and score all candidates, choose one, and set the verdict."""
        candidates = [Candidate(d, decay) for d in diversities for decay in decays]
        scores = self._scores(diversities, decays, folds)
        votes = scores.accuracy
        rows = at_best_decay(votes, len(decays))  # independent training first
        self._test_share = float(np.mean([fold.n_test / fold.n_train for fold in folds]))
        chosen, best, test = choose_diversity(votes[rows], self._test_share)
        n_tried = len(candidates) - len(decays)
        self.test_ = test._replace(p_value=min(1.0, test.p_value * n_tried))
        self.best_index_ = int(rows[chosen])
        self.best_diversity_, self.best_weight_decay_ = candidates[self.best_index_]
        self.cv_results_ = results(candidates, scores)
        self.verdict_ = verdict(candidates, rows[best], rows[0], votes, self.test_)

    def _scores(self, diversities: list[float], decays: list[float], folds: list[SearchFold]) -> Scores:
        """Return the scores of each candidate on each fold."""
        scores = np.empty((len(Scores._fields), len(diversities) * len(decays), len(folds)))
        for places in _similar([fold.n_rows for fold in folds]):
            some = [folds[k] for k in places]
            schedule = Schedule(
                epochs=int(self.epochs),
                n_batches=math.ceil(max(fold.n_rows for fold in some) / int(self.batch_size)),
                learning_rate=float(self.learning_rate),
                weight_decay=decays[0],
            )
            path = train_path(
                [fold.fold for fold in some],
                diversities,
                schedule,
                weight_decays=decays,
                warmup_epochs=int(self.warmup_epochs),
                voting=self.voting,
                progress=self.verbose > 0,
            )
            for c, row in enumerate(path):
                for k, ensemble in zip(places, row, strict=True):
                    scores[:, c, k] = folds[k].score(ensemble)
        return Scores(*scores)


def _similar(sizes: list[int]) -> list[list[int]]:
    """Return the positions of folds of similar size, which train as one program.

    Examples
    --------
    >>> _similar([100, 99, 30, 100])
    [[0, 1, 3], [2]]
    """
    sets: list[list[int]] = []
    for k in np.argsort(sizes, kind="stable")[::-1].tolist():
        if sets and sizes[k] >= _SIMILAR * sizes[sets[-1][0]]:
            sets[-1].append(k)
        else:
            sets.append([k])
    return [sorted(places) for places in sets]
