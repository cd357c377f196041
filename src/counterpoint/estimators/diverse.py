"""A scikit-learn classifier: an ensemble of networks trained to be accurate and diverse."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from counterpoint.estimators._fitted import FittedNetworks, all_or_nothing
from counterpoint.estimators._networks import (
    Module,
    check_networks,
    make_networks,
    network_parameters,
)
from counterpoint.estimators._rows import Rows, check_classes, check_sample_weight, coded_rows
from counterpoint.estimators._seeds import draw_seeds
from counterpoint.estimators._settings import check_settings, make_loss
from counterpoint.estimators._stopping import Stopping, plan_stopping
from counterpoint.estimators._training import train_networks
from counterpoint.training import Ensemble, History, pick_device, seeded

__all__ = ["DiverseEnsembleClassifier"]


class DiverseEnsembleClassifier(FittedNetworks):
    """Ensemble of networks that are trained together to be accurate and diverse, and that vote.

    Equal networks run as one batched program, so that fifteen small ones cost little more than one.

    Parameters
    ----------
    module : callable, list of Module, or None, default=None
        The networks. A callable is called once for each network, as ``module(n_features, n_classes)``. A list holds
        networks, which may differ or be pretrained; copies are trained. None means multilayer perceptrons.
    n_estimators : int, default=15
        Number of networks; ignored if ``module`` is a list.
    hidden_layer_sizes : int or sequence of int, default=(64,)
        Numbers of units in the hidden layers of the perceptrons.
    loss : {"diversity", "independent", "joint", "ncl", "correlation"} or Module, default="diversity"
        The loss: :class:`~counterpoint.training.DiversityLoss`, ``IndependentLoss``, ``JointLoss``,
        ``NegativeCorrelationLoss``, ``CorrelationLoss`` (the paper's), or a module with the same call.
    diversity : float, optional
        The dial of the loss, from 0, independent training, to 1, training of the vote end to end. None is the default
        of the loss: ``1 - 1 / n_estimators`` for "diversity", 0.5 for "ncl" and "correlation". It must be None for
        "independent" and "joint", so a grid search over losses needs a list of grids.
    lam : float, optional
        Weight in the paper's loss, "correlation", in place of ``diversity``.
    reduction : {"mean", "sum"}, default="mean"
        Whether ``lam`` weighs averaged correlations, as the paper's equation, or summed ones, as its algorithm.
    warmup_epochs : int, default=0
        Number of initial epochs with independent training.
    epochs : int, default=100
        Number of passes over the rows.
    learning_rate, weight_decay : float, default=0.003, 0.1
        Settings of the AdamW optimizer.
    label_smoothing : float, default=0.05
        Share of the target that all classes have alike, as in ``torch.nn.CrossEntropyLoss``. The losses "ncl" and
        "correlation" and those that are given as modules do not use it.
    batch_size : int or "auto", default="auto"
        Largest size of a batch. An epoch is split into batches whose sizes differ by at most one. "auto" is a hundredth
        of the rows, from 32 to 1,024.
    early_stopping : bool, default=True
        Whether training may end before ``epochs`` where ``validation_fraction`` is 0. Up to 10,000 rows, the number of
        epochs is chosen on five folds, and the networks are then trained on all rows. For more rows, a tenth is set
        aside, with a patience of 5 epochs. There is none for fewer than 50 rows, for a warm start, and for losses that
        need a read-out or are not of counterpoint.
    validation_fraction : float, default=0.0
        Share of each class that is set aside for validation. The weights of the epoch with the lowest validation loss
        are kept, at the end of the warm-up and at the end.
    patience : int, optional
        Number of epochs without a lower validation loss after which the warm-up, or the training, stops.
    voting : {"auto", "soft", "geometric", "hard"}, default="auto"
        Average the probabilities, average the logits, or count the votes. "auto" is the vote that the loss trains:
        geometric for "diversity", soft for "independent".
    standardize : bool, default=True
        Whether numeric features are scaled to mean 0 and standard deviation 1.
    n_pieces : int or "auto", default="auto"
        Number of pieces per numeric column, between quantiles, which are added to its value; see
        :class:`TableEncoder`. "auto" is 8 for perceptrons on up to 10,000 rows, else 0. Every second perceptron
        does not see the pieces.
    categorical_features : "from_dtype", None, or array-like of int, str or bool, default="from_dtype"
        The nominal columns: by default those of text, categories, objects and booleans of a pandas or polars frame;
        see :class:`TableEncoder`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives every class the same sum.
    warm_start : bool, default=False
        Whether ``fit`` continues with the fitted networks; the parameters that define them must not change.
    device : str or device, default="auto"
        Where to train; "auto" is the GPU if there is one.
    random_state : int, RandomState or None, default=None
        Source of the initial weights, the batches and dropout. Fits in several threads take turns.
    verbose : int, default=0
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    estimators_ : list of Module
        The networks, ordinary modules that map encoded features to logits.
    ensemble_ : Ensemble
        The networks as they are trained. It returns logits before the read-out, which its ``predict_proba`` applies.
    readout_ : Module or None
        The read-out that turns outputs into probabilities after training by the correlation loss.
    voting_ : {"soft", "geometric", "hard"}
        The vote in use.
    encoder_ : TableEncoder
        The encoder of the table.
    scaler_ : StandardScaler or None
        Its scaler of the numeric columns.
    history_ : History
        Measures of each epoch, before the read-out.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if they have any.

    See Also
    --------
    DiverseEnsembleClassifierCV : Choose the diversity, and test whether it pays.

    Notes
    -----
    A correlation is invariant to shift and scale, so it does not determine the decision boundary of a network. After
    training by the correlation loss, read-outs are fitted to the training rows: one that decodes the mean of the
    networks' standardised outputs for the vote, and one for each network's own predictions.

    Equal rows are merged and their weights summed. A row of weight 0 is the same as no row, a row of weight 2 the same
    as the row twice, and the order of rows does not matter.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DiverseEnsembleClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.learner_predict_proba(X).shape
    (5, 150, 3)
    """

    _continued: torch.optim.Optimizer | None  # of the calls of partial_fit
    _networks: dict[str, Any]  # the parameters that define them

    def __init__(
        self,
        module: Module = None,
        n_estimators: int = 15,
        *,
        hidden_layer_sizes: int | Sequence[int] = (64,),
        loss: str | nn.Module = "diversity",
        diversity: float | None = None,
        lam: float | None = None,
        reduction: str = "mean",
        warmup_epochs: int = 0,
        epochs: int = 100,
        learning_rate: float = 0.003,
        batch_size: int | str = "auto",
        weight_decay: float = 0.1,
        label_smoothing: float = 0.05,
        early_stopping: bool = True,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        voting: str = "auto",
        standardize: bool = True,
        n_pieces: int | str = "auto",
        categorical_features: ArrayLike | str | None = "from_dtype",
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.diversity = diversity
        self.lam = lam
        self.reduction = reduction
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.voting = voting
        self.standardize = standardize
        self.n_pieces = n_pieces
        self.categorical_features = categorical_features
        self.class_weight = class_weight
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
            The classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        self
        """
        self._check_parameters()
        go_on = self.warm_start and hasattr(self, "ensemble_")
        X, y = self._check_table(X, y, reset=not go_on)
        weight = check_sample_weight(sample_weight, len(y))
        classes = np.unique(y[weight > 0])
        if len(classes) < 2:
            raise ValueError(f"`y` must hold at least two classes; got one class, {classes.tolist()[0]!r}.")
        seeds = draw_seeds(self.random_state)
        rows = coded_rows(X, y, self.classes_ if go_on else classes, weight)
        del X, y, weight  # a large table need not be held twice
        if go_on:
            check_networks(self, self._networks)
            self.encoder_ = self.encoder_._rescaled(rows.X, rows.weight, standardize=self.standardize)
        else:
            self._learn_encoding(rows)
            self._begin(classes, seeds[0])
        optimizer = self._optimizer()
        stopping = Stopping.of(self) if go_on else plan_stopping(self, rows, seeds[1])
        rows, held = rows.set_aside(stopping.held_out, seeds[1])
        self.history_ = train_networks(
            self, rows, held, optimizer, stopping.epochs, seeds[1], patience=stopping.patience
        )
        self._warn_of_learners(rows)
        return self

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Continue training with one pass over some rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.
        y : array-like of shape (n_samples,)
            The classes.
        classes : array-like of shape (n_classes,), optional
            All classes; required in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        self

        Notes
        -----
        Features are standardised by the mean and standard deviation of all rows so far. The values of nominal columns,
        and which columns have missing values, are those of the first call. No rows are set aside, and
        there is no warm-up. Parameters may change between calls, except ``standardize`` and those of the networks.
        """
        first = not hasattr(self, "ensemble_")
        self._check_parameters()
        X, y = self._check_table(X, y, reset=first)
        if first and classes is None:
            raise ValueError("`classes` must be given in the first call of partial_fit; got None.")
        every = self.classes_ if classes is None else check_classes(classes)
        if not first and not np.array_equal(every, self.classes_):
            raise ValueError(f"`classes` must be those of the first call, {self.classes_}; got {classes!r}.")
        rows = coded_rows(X, y, every, check_sample_weight(sample_weight, len(y)))
        if first:
            self._learn_encoding(rows)
            self._begin(every, draw_seeds(self.random_state)[0])
            self.history_ = History()
        elif self.standardize != self.encoder_.standardize:  # no scaler has seen the rows so far
            raise ValueError(
                f"`standardize` must not change between calls of partial_fit; got {self.standardize}."
            )
        check_networks(self, self._networks)
        if not first:
            self.encoder_ = self.encoder_._continued(rows.X, rows.weight)
        optimizer = self._continued = self._optimizer(getattr(self, "_continued", None))
        seed = draw_seeds(self.random_state)[1] + len(self.history_)
        known = self.readout_
        for record in train_networks(self, rows, None, optimizer, 1, seed):
            self.history_.append({**record, "epoch": len(self.history_) + 1})
        if known is not None and self.readout_ is not None:  # few rows move a read-out of many rows a little
            x, codes, weight = self._tensors(rows)
            logits, hold = (
                self._raw_logits(x),
                1e-3 * len(self.history_),
            )  # in proportion to the number of calls
            own = known.refit(logits, codes, weight, ridge=hold)
            self.ensemble_.readout = own.refit_pool(logits, codes, weight, ridge=hold)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle.

        Parameters
        ----------
        path : path
            A safetensors file, with the rest as JSON in its header. The optimizer's moments are not saved, nor are
            ``device`` and a ``random_state`` that is not an integer.

        See Also
        --------
        load : Read the file.
        """
        from counterpoint.estimators._saving import save

        check_is_fitted(self)
        save(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, module: Module = None, loss: nn.Module | None = None
    ) -> Self:
        """Return the fitted estimator that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            The file.
        module : callable or list of Module, optional
            As for the constructor, required where the networks are not the built-in perceptrons: a file holds numbers,
            not code.
        loss : Module, optional
            The loss, if it was a module. Without it the estimator can predict, but not train.

        Returns
        -------
        DiverseEnsembleClassifier
        """
        from counterpoint.estimators._saving import load

        return load(cls, path, module, loss)  # type: ignore[no-any-return]

    def _check_parameters(self) -> None:
        check_settings(self)
        self._loss()

    def _loss(self) -> Any:
        return make_loss(self.loss, self.diversity, self.lam, self.reduction, self.label_smoothing)

    def _begin(self, classes: NDArray[Any], seed: int) -> None:
        """Create new networks."""
        device = pick_device(self.device)
        with seeded(device, seed):
            networks = make_networks(
                self.module, self.n_estimators, self.hidden_layer_sizes, self.encoder_, len(classes)
            )
        self.classes_, self.ensemble_, self._continued = classes, Ensemble(networks).to(device), None
        self._networks = network_parameters(self)

    def _tensors(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor | None]:
        device = next(self.ensemble_.parameters()).device
        return rows.balanced(self.class_weight, self.classes_).tensors(self.encoder_, device)
