"""A scikit-learn regressor: an ensemble of networks trained to be accurate and diverse."""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from counterpoint.estimators._fitted_regressor import FittedRegressor, fit_target_scaler, scaled
from counterpoint.estimators._network_estimator import all_or_nothing, warn_of_learners
from counterpoint.estimators._networks import Module, check_networks, make_networks, network_parameters
from counterpoint.estimators._rows import Rows, check_sample_weight, distinct_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators._settings import check_settings
from counterpoint.estimators._stopping import Stopping, plan_stopping
from counterpoint.estimators._training import train_networks
from counterpoint.training import Ensemble, SquaredErrorLoss, pick_device, seeded
from counterpoint.training.regression_tally import make_tally
from counterpoint.training.watch import tally_complaints

__all__ = ["DiverseEnsembleRegressor"]


class DiverseEnsembleRegressor(FittedRegressor):
    """Ensemble of networks that are trained together to be accurate and diverse, and that predict their mean.

    Equal networks run as one batched program, so that fifteen small ones cost little more than one.

    Parameters
    ----------
    module : callable, list of Module, or None, default=None
        The networks, with one output. A callable is called once for each network, as ``module(n_features, 1)``. A list
        holds networks, which may differ or be pretrained; copies are trained. None means multilayer perceptrons.
    n_estimators : int, default=15
        Number of networks; ignored if ``module`` is a list.
    hidden_layer_sizes : int or sequence of int, default=(64,)
        Numbers of units in the hidden layers of the perceptrons.
    diversity : float, optional
        The dial of the loss, :class:`~counterpoint.training.SquaredErrorLoss`, from 0, independent training, to 1,
        training of the mean end to end. None is ``1 - 1 / n_estimators``.
    epochs : int, default=100
        Number of passes over the rows.
    learning_rate, weight_decay : float, default=0.003, 0.1
        Settings of the AdamW optimizer.
    batch_size : int or "auto", default="auto"
        Largest size of a batch. An epoch is split into batches whose sizes differ by at most one. "auto" is a hundredth
        of the rows, from 32 to 1,024.
    early_stopping : bool, default=True
        Whether training may end before ``epochs`` where ``validation_fraction`` is 0. Up to 10,000 rows, the number of
        epochs is chosen on five folds, and the networks are then trained on all rows. For more rows, a tenth is set
        aside, with a patience of 5 epochs. There is none for fewer than 50 rows and for a warm start.
    validation_fraction : float, default=0.0
        Share of the rows that is set aside for validation. The weights of the epoch with the lowest validation loss are
        kept.
    patience : int, optional
        Number of epochs without a lower validation loss after which the training stops.
    standardize : bool, default=True
        Whether numeric features are scaled to mean 0 and standard deviation 1. Targets always are, inside.
    n_pieces : int or "auto", default="auto"
        Number of pieces per numeric column, between quantiles, which are added to its value; see
        :class:`TableEncoder`. "auto" is 8 for perceptrons on up to 10,000 rows, else 0. Every second perceptron
        does not see the pieces.
    categorical_features : "from_dtype", None, or array-like of int, str or bool, default="from_dtype"
        The nominal columns: by default those of text, categories, objects and booleans of a pandas or polars frame;
        see :class:`TableEncoder`.
    warm_start : bool, default=False
        Whether ``fit`` continues with the fitted networks, and with the scale of their targets; the parameters that
        define the networks must not change.
    device : str or device, default="auto"
        Where to train; "auto" is the GPU if there is one.
    random_state : int, RandomState or None, default=None
        Source of the initial weights, the batches and dropout. Fits in several threads take turns.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    estimators_ : list of Module
        The networks, ordinary modules that map encoded features to scaled targets.
    ensemble_ : Ensemble
        The networks as they are trained.
    target_scaler_ : StandardScaler
        The scaler of the targets.
    encoder_ : TableEncoder
        The encoder of the table.
    scaler_ : StandardScaler or None
        Its scaler of the numeric columns.
    history_ : History
        Measures of each epoch; squared errors are those of the scaled targets.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if they have any.

    See Also
    --------
    DiverseEnsembleRegressorCV : Choose the diversity, and test whether it pays.
    DiverseEnsembleClassifier : The same for classes.

    Notes
    -----
    Equal rows are merged and their weights summed. A row of weight 0 is the same as no row, a row of weight 2 the same
    as the row twice, and the order of rows does not matter.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DiverseEnsembleRegressor(n_estimators=5, epochs=20, random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    >>> model.learner_predict(X).shape
    (5, 442)
    """

    _networks: dict[str, Any]  # the parameters that define them

    def __init__(
        self,
        module: Module = None,
        n_estimators: int = 15,
        *,
        hidden_layer_sizes: int | Sequence[int] = (64,),
        diversity: float | None = None,
        epochs: int = 100,
        learning_rate: float = 0.003,
        batch_size: int | str = "auto",
        weight_decay: float = 0.1,
        early_stopping: bool = True,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        standardize: bool = True,
        n_pieces: int | str = "auto",
        categorical_features: ArrayLike | str | None = "from_dtype",
        warm_start: bool = False,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.diversity = diversity
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardize = standardize
        self.n_pieces = n_pieces
        self.categorical_features = categorical_features
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the networks.

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
        self._check_parameters()
        go_on = self.warm_start and hasattr(self, "ensemble_")
        X, y = self._check_table(X, y, reset=not go_on)
        rows = distinct_rows(X, y, check_sample_weight(sample_weight, len(y)))
        seeds = draw_seeds(self.random_state)
        if go_on:
            check_networks(self, self._networks)
            self.encoder_ = self.encoder_._rescaled(rows.X, rows.weight, standardize=self.standardize)
        else:
            self._learn_encoding(rows)
            self.target_scaler_ = fit_target_scaler(rows)
            self._begin(seeds[0])
        optimizer = self._optimizer()
        stopping = Stopping.of(self) if go_on else plan_stopping(self, rows, seeds[1])
        rows, held = scaled(rows, self.target_scaler_).set_aside(stopping.held_out, seeds[1])
        self.history_ = train_networks(
            self, rows, held, optimizer, stopping.epochs, seeds[1], patience=stopping.patience
        )
        self._warn_of_learners(rows)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle.

        Parameters
        ----------
        path : path
            A safetensors file, with the rest as JSON in its header. Neither ``device`` nor a ``random_state`` that is
            not an integer is saved.

        See Also
        --------
        load : Read the file.
        """
        from counterpoint.estimators._saving import save

        check_is_fitted(self)
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: Module = None) -> Self:
        """Return the fitted estimator that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            The file.
        module : callable or list of Module, optional
            As for the constructor, required where the networks are not the built-in perceptrons: a file holds numbers,
            not code.

        Returns
        -------
        DiverseEnsembleRegressor
        """
        from counterpoint.estimators._saving import load

        return load(cls, path, module, None)  # type: ignore[no-any-return]

    def _check_parameters(self) -> None:
        check_settings(self)
        self._loss()

    def _loss(self) -> SquaredErrorLoss:
        return SquaredErrorLoss(self.diversity)

    def _begin(self, seed: int) -> None:
        """Create new networks."""
        device = pick_device(self.device)
        with seeded(device, seed):
            networks = make_networks(
                self.module, self.n_estimators, self.hidden_layer_sizes, self.encoder_, None
            )
        self.ensemble_ = Ensemble(networks, activation="regression").to(device)
        self._networks = network_parameters(self)

    def _tensors(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor | None]:
        return rows.tensors(self.encoder_, next(self.ensemble_.parameters()).device)

    def _warn_of_learners(self, rows: Rows) -> None:
        """Warn of learners that ended constant, or against the truth, unless that is constant itself."""
        if not np.ptp(rows.codes):
            return
        x, y, weight = self._tensors(rows)
        outputs = self._raw_logits(x)
        tally = make_tally(self.ensemble_, self._loss())
        warn_of_learners(tally_complaints(tally.add(outputs, y, weight, outputs.new_zeros(()))))
