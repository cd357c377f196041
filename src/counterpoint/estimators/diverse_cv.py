"""Cross-validated choice of diversity, regularisation and epochs, and a test of whether diversity pays."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators._fitted import FittedNetworks, all_or_nothing
from counterpoint.estimators._networks import Module
from counterpoint.estimators._path import epochs_to_try, score_path
from counterpoint.estimators._rows import Rows, check_sample_weight, distinct_rows
from counterpoint.estimators._search_fold import SearchFold, check_folds, score_folds
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators.candidates import (
    Candidate,
    Scores,
    best_settings,
    candidates_of,
    parameters_of,
    results,
    verdict,
)
from counterpoint.estimators.diverse import DiverseEnsembleClassifier
from counterpoint.estimators.diversity_path import DiversityPathDisplay
from counterpoint.training import DiversityLoss, GroupedEnsembles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DiverseEnsembleClassifierCV"]

_DIVERSITIES = (0.5, 1.0)
_WEIGHT_DECAYS = (0.1, 1.0)
_LABEL_SMOOTHINGS = (0.0, 0.05)
_CLAIM = "the vote is right on {:.1f} % of the rows held out"


class DiverseEnsembleClassifierCV(FittedNetworks):
    """Choose diversity, regularisation and epochs by cross-validation, and test whether diversity pays.

    All settings and networks train together in batched programs, on all folds of similar size. They are scored on
    held-out rows after many of the epochs. The setting with the lowest log-loss is then trained on all rows. The test
    compares the best diversity with independent training of the same networks.

    Parameters
    ----------
    module, n_estimators, hidden_layer_sizes
        The networks, as for :class:`DiverseEnsembleClassifier`.
    diversities : sequence of float, default=(0.5, 1.0)
        Dials of :class:`~counterpoint.training.DiversityLoss` to try, besides independent training, diversity 0.
    cv : int, splitter or iterable, default=5
        Number of stratified folds, or any splitter of scikit-learn. Repeated folds sharpen the verdict.
        For groups give the folds, such as ``list(GroupKFold(5).split(X, y, groups))``.
    epochs : int or sequence of int, default=100
        Largest number of passes over the rows: about thirty numbers up to this one are tried, each of the first ten and
        then every tenth more. Or the numbers to try; one number in a list is not searched. The candidates train once,
        for the largest number.
    warmup_epochs, learning_rate, batch_size
        How to train, as for :class:`DiverseEnsembleClassifier`.
    weight_decay : float or sequence of float, default=(0.1, 1.0)
        Weight decay, or several to try with each diversity and with independent training.
    label_smoothing : float or sequence of float, default=(0.0, 0.05)
        Label smoothing, or several to try with each of these.
    voting, standardize, n_pieces, categorical_features, class_weight, device, random_state
        As for :class:`DiverseEnsembleClassifier`.
    verbose : int, default=0
        Whether to show progress on stderr: a bar in a terminal, else a line now and then.

    Attributes
    ----------
    best_diversity_ : float
        The chosen diversity; 0 is independent training.
    best_weight_decay_, best_label_smoothing_ : float
        The chosen weight decay and label smoothing.
    best_epoch_ : int
        The chosen number of epochs.
    verdict_ : str
        Whether explicit diversity beats independent training of the same networks on this data, with the test and the
        choice.
    test_ : PairedTest
        Test of the best diversity against independent training, each at its best settings: mean difference in
        accuracy, standard error, p-value.
    cv_results_ : dict of arrays
        As that of ``GridSearchCV``, one row for each setting, those of independent training first. Each is scored at
        its best epoch, ``param_epochs``: the accuracy of the vote, ``mean_test_log_loss``,
        ``mean_test_brier_score`` and ``mean_test_calibration_error``, and the accuracy of the learners on their own
        training rows.
    best_index_ : int
        Row of the choice in ``cv_results_``.
    best_estimator_ : DiverseEnsembleClassifier
        The choice, trained on all rows. It has ``save``.
    classes_, estimators_, ensemble_, encoder_, readout_, scaler_, history_, n_features_in_, feature_names_in_
        As for :class:`DiverseEnsembleClassifier`, of the choice.

    Notes
    -----
    In each fold, numeric columns are scaled by the training rows. The quantiles between the pieces of a numeric column,
    the values of nominal columns, and which columns have an indicator of missing values, are the same for all folds. A
    value that no training row of the fold has is left out of its test rows.

    The choice has the lowest mean log-loss over the folds; of equals it is the first, independent training before any
    diversity. Log-loss tells settings apart on fewer rows than accuracy does, and rules with a margin for the simpler
    setting had more errors on held-out tables (``docs/does-diversity-pay.md``). The p-value is that of the corrected
    resampled t-test of accuracies (Nadeau and Bengio 2003), multiplied by the number of settings with a diversity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = DiverseEnsembleClassifierCV(
    ...     n_estimators=3, diversities=(0.5, 1.0), cv=3, epochs=20, learning_rate=0.02, random_state=0
    ... ).fit(X, y)
    >>> search.cv_results_["mean_test_score"].shape  # three diversities with 0, two weight decays, two smoothings
    (12,)
    >>> bool(search.score(X, y) > 0.9), search.best_epoch_ <= 20
    (True, True)
    >>> search = search.set_params(diversities=(1.0,), weight_decay=(0.01, 0.1), label_smoothing=0.0, epochs=(5, 20))
    >>> search.fit(X, y).cv_results_["param_weight_decay"]
    array([0.01, 0.1 , 0.01, 0.1 ])
    >>> search.best_epoch_ in (5, 20)
    True
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
        epochs: int | Sequence[int] = 100,
        learning_rate: float = 0.003,
        batch_size: int | str = "auto",
        weight_decay: float | Sequence[float] = _WEIGHT_DECAYS,
        label_smoothing: float | Sequence[float] = _LABEL_SMOOTHINGS,
        voting: str = "auto",
        standardize: bool = True,
        n_pieces: int | str = "auto",
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
        self.label_smoothing = label_smoothing
        self.voting = voting
        self.standardize = standardize
        self.n_pieces = n_pieces
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
        candidates, epochs = self._check_parameters()
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
        self._learn_encoding(distinct_rows(*rows))
        rng = check_random_state(self.random_state)
        splitting, refitting = draw_seeds(rng)
        splits = self._splits(rows, n_samples, kept, splitting)
        if len(splits) < 2:
            raise ValueError(f"`cv` must yield at least two folds; got {len(splits)}.")
        seeds = draw_seeds(rng, len(splits))
        folds = [
            SearchFold(self, rows, *split, seed, self.n_estimators)
            for split, seed in zip(splits, seeds, strict=True)
        ]
        chosen = self._judge(candidates, epochs, self._scores(candidates, epochs, folds), folds)
        self.best_estimator_ = self.estimator(random_state=refitting, **chosen)
        self.best_estimator_.fit(X, given, sample_weight)
        for name in ("ensemble_", "encoder_", "history_"):
            setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def estimator(
        self, diversity: float, random_state: Any = None, **parameters: Any
    ) -> DiverseEnsembleClassifier:
        """Return the unfitted estimator of one candidate.

        Parameters
        ----------
        diversity : float
            A candidate; 0 is independent training.
        random_state : int, RandomState or None, default=None
            Source of randomness.
        **parameters
            Other parameters of :class:`DiverseEnsembleClassifier`, such as ``weight_decay``. By default they are those
            of the search: where it tries several numbers, the first of them, and the largest number of epochs.

        Returns
        -------
        DiverseEnsembleClassifier
        """
        return DiverseEnsembleClassifier(
            **parameters_of(self, parameters),
            diversity=diversity,
            early_stopping=False,
            random_state=random_state,
        )

    def plot_path(self, ax: "Axes | None" = None) -> "DiversityPathDisplay":
        """Draw the accuracy over the diversities, beside independent training, each at its best weight decay and epoch.

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

    def _check_parameters(self) -> tuple[list[Candidate], list[int]]:
        """Return the settings to try, independent training first, and the epochs."""
        candidates = candidates_of(self, weight_decay=np.inf, label_smoothing=1.0)
        epochs = epochs_to_try(self.epochs, self.warmup_epochs)
        for candidate in candidates:
            self.estimator(**candidate, epochs=epochs[0])._check_parameters()
        return candidates, epochs

    def _splits(
        self, rows: Rows, n_samples: int, kept: IntArray, seed: int
    ) -> list[tuple[IntArray, IntArray]]:
        """Return the folds, as positions among the rows of positive weight."""
        if isinstance(self.cv, int | np.integer):
            check_folds(self.cv, int(np.bincount(rows.codes).max()), "the rows of the largest class")
            folds = StratifiedKFold(int(self.cv), shuffle=True, random_state=seed)
            return list(folds.split(rows.X, rows.codes))
        place = np.full(n_samples, -1)
        place[kept] = np.arange(len(kept))
        codes = np.zeros(n_samples, dtype=np.int64)
        codes[kept] = rows.codes
        found = check_cv(self.cv, codes, classifier=True).split(np.zeros(n_samples), codes)
        splits = [(place[train], place[test]) for train, test in found]
        return [(train[train >= 0], test[test >= 0]) for train, test in splits]

    def _judge(
        self, candidates: list[Candidate], epochs: list[int], scores: Scores, folds: list[SearchFold]
    ) -> Candidate:
        """Return the choice among the candidates by their scores, (n_candidates, n_epochs, n_folds)."""
        self._test_share = float(np.mean([fold.n_test / fold.n_train for fold in folds]))
        settings = best_settings(candidates, epochs, scores.log_loss)
        scores = Scores(*map(settings.at_epochs, scores))
        self._at_best_settings = settings.rows
        self.test_ = settings.test(scores.accuracy, self._test_share)
        self.best_index_, choice = settings.chosen, settings.tried[settings.chosen]
        self.best_diversity_, self.best_weight_decay_ = choice["diversity"], choice["weight_decay"]
        self.best_label_smoothing_, self.best_epoch_ = choice["label_smoothing"], choice["epochs"]
        self.cv_results_ = results(settings.tried, scores)
        self.verdict_ = verdict(settings, scores.accuracy, self.test_, _CLAIM, "log-loss")
        return choice

    def _scores(self, candidates: list[Candidate], epochs: list[int], folds: list[SearchFold]) -> Scores:
        """Return the scores of each candidate after each number of epochs on each fold."""
        voting = "geometric" if self.voting == "auto" else self.voting  # as DiversityLoss trains
        trainings = [
            (DiversityLoss(c["diversity"], label_smoothing=c["label_smoothing"]), c["weight_decay"])
            for c in candidates
        ]

        def score(some: list[SearchFold], grouped: GroupedEnsembles) -> FloatArray:
            return score_folds(some, grouped, voting)

        return Scores(*score_path(self, trainings, epochs, folds, score))
