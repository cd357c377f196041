"""Cross-validated choice of diversity, weight decay and epochs of a regressor, and a test of whether diversity pays."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_random_state

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._fitted_regressor import FittedRegressor, fit_target_scaler
from counterpoint.estimators._network_estimator import all_or_nothing
from counterpoint.estimators._networks import Module
from counterpoint.estimators._path import epochs_to_try, score_path
from counterpoint.estimators._rows import Rows, check_sample_weight, distinct_rows
from counterpoint.estimators._search_fold import RegressionFold, check_folds, score_regression_folds
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import (
    Candidate,
    best_settings,
    candidates_of,
    grid_results,
    parameters_of,
    verdict,
)
from counterpoint.estimators.diverse_regressor import DiverseEnsembleRegressor
from counterpoint.estimators.paired import PairedTest
from counterpoint.training import SquaredErrorLoss

__all__ = ["DiverseEnsembleRegressorCV"]

_DIVERSITIES = (0.25, 0.5, 0.75, 0.9, 1.0)
_CLAIM = "the mean explains {:.1f} % of the variance of the rows held out"


class DiverseEnsembleRegressorCV(FittedRegressor):
    """Choose diversity, weight decay and epochs by cross-validation, and test whether diversity pays.

    All diversities, weight decays and networks train together in batched programs, on all folds of similar size. They
    are scored on held-out rows after many of the epochs. The setting with the lowest squared error is then trained on
    all rows. The test compares the best diversity with independent training of the same networks.

    Parameters
    ----------
    module, n_estimators, hidden_layer_sizes
        The networks, as for :class:`DiverseEnsembleRegressor`.
    diversities : sequence of float, default=(0.25, 0.5, 0.75, 0.9, 1.0)
        Dials of :class:`~counterpoint.training.SquaredErrorLoss` to try, besides independent training, diversity 0.
    cv : int, splitter or iterable, default=5
        Number of folds, which are shuffled, or any splitter of scikit-learn. Repeated folds sharpen the verdict.
        For groups give the folds, such as ``list(GroupKFold(5).split(X, y, groups))``.
    epochs : int or sequence of int, default=100
        Numbers of epochs to try, or the largest of many.
    learning_rate, batch_size
        How to train, as for :class:`DiverseEnsembleRegressor`.
    weight_decay : float or sequence of float, default=0.1
        Weight decay, or several to try with each diversity and with independent training.
    standardize, n_pieces, categorical_features, device, random_state, verbose
        As for :class:`DiverseEnsembleRegressor`.

    Attributes
    ----------
    best_diversity_ : float
        The chosen diversity; 0 is independent training.
    best_weight_decay_ : float
        The chosen weight decay.
    best_epoch_ : int
        The chosen number of epochs.
    verdict_ : str
        Whether explicit diversity beats independent training of the same networks on this data, with the test and the
        choice.
    test_ : PairedTest
        Test of the best diversity against independent training, each at its best weight decay and epoch: mean
        difference in score, standard error, p-value.
    cv_results_ : dict of arrays
        As that of ``GridSearchCV``, one row for each diversity and weight decay at its best epoch, independent training
        first: scores, ``mean_test_squared_error``, and ``mean_learner_squared_error``, that of a single network on the
        same rows.
    best_index_ : int
        Row of the choice in ``cv_results_``.
    best_estimator_ : DiverseEnsembleRegressor
        The choice, trained on all rows. It has ``save``.
    estimators_, ensemble_, target_scaler_, encoder_, scaler_, history_, n_features_in_, feature_names_in_
        As for :class:`DiverseEnsembleRegressor`, of the choice.

    Notes
    -----
    The score of a fold is 1 less the squared error on its test rows, over the variance of the target over all rows.
    It is R², but for the variance: that of the test rows of a fold is noisy, and 0 for a fold of one row.

    In each fold, numeric columns and the target are scaled by the training rows. The choice has the lowest mean squared
    error over the folds; of equals it is the first, independent training before any diversity. A rule that keeps
    independent training unless a diversity leads by the standard error was no better on other rows
    (``docs/regression.md``). The p-value is that of the corrected resampled t-test (Nadeau and Bengio 2003), multiplied
    by the number of settings with a diversity.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = DiverseEnsembleRegressorCV(
    ...     n_estimators=3, diversities=(0.5, 1.0), cv=3, epochs=10, random_state=0
    ... ).fit(X, y)
    >>> search.cv_results_["mean_test_score"].shape  # independent training and two diversities
    (3,)
    >>> bool(search.score(X, y) > 0.4)
    True
    """

    best_estimator_: DiverseEnsembleRegressor
    test_: PairedTest

    def __init__(
        self,
        module: Module = None,
        n_estimators: int = 15,
        *,
        diversities: Sequence[float] = _DIVERSITIES,
        cv: Any = 5,
        hidden_layer_sizes: int | Sequence[int] = (64,),
        epochs: int | Sequence[int] = 100,
        learning_rate: float = 0.003,
        batch_size: int | str = "auto",
        weight_decay: float | Sequence[float] = 0.1,
        standardize: bool = True,
        n_pieces: int | str = "auto",
        categorical_features: ArrayLike | str | None = "from_dtype",
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.n_estimators = n_estimators
        self.diversities = diversities
        self.cv = cv
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.n_pieces = n_pieces
        self.categorical_features = categorical_features
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
            The numbers to predict.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        self
        """
        candidates, epochs = self._check_parameters()
        table, target = self._check_table(X, y)
        weight = check_sample_weight(sample_weight, len(target))
        kept = np.flatnonzero(weight > 0)
        rows = Rows(table[kept], target[kept], weight[kept])
        if not np.ptp(rows.codes):
            raise ValueError(
                f"`y` must hold at least two numbers; got {rows.codes[0]:g} alone (n_samples={len(rows.codes)})."
            )
        distinct = distinct_rows(*rows)
        fit_target_scaler(distinct)  # refuses a variance of which no share can be explained
        self._learn_encoding(distinct)
        rng = check_random_state(self.random_state)
        splitting, refitting = draw_seeds(rng)
        splits = self._splits(target, kept, splitting)
        if len(splits) < 2:
            raise ValueError(f"`cv` must yield at least two folds; got {len(splits)}.")
        seeds = draw_seeds(rng, len(splits))
        folds = [
            RegressionFold(self, rows, *split, seed, self.n_estimators)
            for split, seed in zip(splits, seeds, strict=True)
        ]
        self._test_share = float(np.mean([fold.n_test / fold.n_train for fold in folds]))
        trainings = [(SquaredErrorLoss(c["diversity"]), c["weight_decay"]) for c in candidates]
        squared = score_path(self, trainings, epochs, folds, score_regression_folds)
        chosen = self._judge(candidates, epochs, squared, distinct)
        self.best_estimator_ = self.estimator(random_state=refitting, **chosen)
        self.best_estimator_.fit(X, target, sample_weight)
        for name in ("ensemble_", "encoder_", "target_scaler_", "history_"):
            setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def estimator(
        self, diversity: float, random_state: Any = None, **parameters: Any
    ) -> DiverseEnsembleRegressor:
        """Return the unfitted estimator of one candidate.

        Parameters
        ----------
        diversity : float
            A candidate; 0 is independent training.
        random_state : int, RandomState or None, default=None
            Source of randomness.
        **parameters
            Other parameters of :class:`DiverseEnsembleRegressor`, such as ``weight_decay``. By default they are those
            of the search: where it tries several numbers, the first of them, and the largest number of epochs.

        Returns
        -------
        DiverseEnsembleRegressor
        """
        return DiverseEnsembleRegressor(
            **parameters_of(self, parameters),
            diversity=diversity,
            early_stopping=False,
            random_state=random_state,
        )

    def _check_parameters(self) -> tuple[list[Candidate], list[int]]:
        """Return the settings to try, independent training first, and the epochs."""
        candidates = candidates_of(self, weight_decay=np.inf)
        epochs = epochs_to_try(self.epochs, 0)
        for candidate in candidates:
            self.estimator(**candidate, epochs=epochs[0])._check_parameters()
        return candidates, epochs

    def _splits(self, target: FloatArray, kept: IntArray, seed: int) -> list[tuple[IntArray, IntArray]]:
        """Return the folds, as positions among the rows of positive weight."""
        if isinstance(self.cv, int | np.integer):
            check_folds(self.cv, len(kept), "the rows")
            return list(KFold(int(self.cv), shuffle=True, random_state=seed).split(kept))
        place = np.full(len(target), -1)
        place[kept] = np.arange(len(kept))
        found = check_cv(self.cv, target).split(np.zeros(len(target)), target)
        splits = [(place[train], place[test]) for train, test in found]
        return [(train[train >= 0], test[test >= 0]) for train, test in splits]

    def _judge(
        self, candidates: list[Candidate], epochs: list[int], squared: FloatArray, rows: Rows
    ) -> Candidate:
        """Return the choice by squared errors (2, n_candidates, n_epochs, n_folds); set the results and the verdict."""
        mean = np.average(rows.codes, weights=rows.weight)
        variance = np.average((rows.codes - mean) ** 2, weights=rows.weight)
        settings = best_settings(candidates, epochs, squared[0] / variance)
        ensemble, learner = map(settings.at_epochs, squared)
        explained = 1 - ensemble / variance
        self.test_ = settings.test(explained, self._test_share)
        self.best_index_, choice = settings.chosen, settings.tried[settings.chosen]
        self.best_diversity_, self.best_weight_decay_, self.best_epoch_ = choice.values()
        self.cv_results_ = grid_results(settings.tried, explained) | {
            "mean_test_squared_error": ensemble.mean(axis=1),
            "mean_learner_squared_error": learner.mean(axis=1),
        }
        self.verdict_ = verdict(settings, explained, self.test_, _CLAIM, "squared error")
        return choice
