"""Prediction, assessment and export, for every estimator whose learners are networks."""

import copy
import inspect
import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import FloatArray, check_labels
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._settings import count_pieces
from counterpoint.estimators.table_encoder import TableEncoder
from counterpoint.exceptions import LearnerWarning
from counterpoint.training import Ensemble, History, Readout, Vote, autocast
from counterpoint.training.columns import two_columns
from counterpoint.training.watch import learner_complaints

if TYPE_CHECKING:
    from counterpoint.assessment import Assessment

__all__ = ["FittedNetworks", "all_or_nothing"]

Method = TypeVar("Method", bound=Callable[..., Any])

# The networks run on blocks of this many rows, the last one padded: rounding in a matrix product depends on its shape,
# and the prediction for a row must not depend on how many others there are.
_BLOCK = 256


def _has_probabilities(estimator: "FittedNetworks") -> bool:
    """Return True unless the vote is hard, as scikit-learn's ``VotingClassifier`` does."""
    if isinstance(estimator.voting, str) and estimator.voting == "hard":
        raise AttributeError(
            "predict_proba is not available when voting='hard', which counts votes; use predict, or "
            "learner_predict_proba for the probabilities of each network."
        )
    return True


class FittedNetworks(ClassifierMixin, BaseEstimator):
    """Classifier whose learners are networks; subclasses implement ``fit``."""

    categorical_features: ArrayLike | str | None
    module: Any
    n_pieces: int | str
    standardize: bool
    voting: str
    ensemble_: Ensemble
    encoder_: TableEncoder
    history_: History
    classes_: NDArray[Any]
    n_features_in_: int
    _modules: "_Modules"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that wins the vote, for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        proba = self._vote(X)  # first, so that an unfitted estimator raises NotFittedError
        return self.classes_[proba.argmax(axis=1)]  # type: ignore[no-any-return]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the vote; not available where ``voting`` is "hard".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._vote(X)

    def learner_predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of each network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        ndarray of shape (n_learners, n_samples, n_classes)
        """
        logits, readout = self._logits(X), self._rule().readout
        return (logits if readout is None else readout(logits)).softmax(-1).numpy()

    def vote_learners(self, X: Any) -> tuple[FloatArray, str]:
        """Return the probabilities of each network whose vote is the prediction, and that vote.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        proba : ndarray of shape (n_learners, n_samples, n_classes)
            As :meth:`learner_predict_proba`, unless a read-out decodes the mean of the networks' outputs: then each
            network has its share of that mean.
        voting : {"soft", "geometric", "hard"}
            How they are combined.
        """
        logits, rule = self._logits(X), self._rule()
        return rule.learners(logits).exp().numpy(), rule.kind

    def assess(self, X: Any, y: ArrayLike, *, samples: str = "held_out") -> "Assessment":
        """Assess the ensemble on data: where it stands, what its ceiling is and what would help.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table, preferably one that was not trained on.
        y : array-like of shape (n_samples,)
            The classes.
        samples : {"held_out", "training"}, default="held_out"
            Whether the rows took part in training.

        Returns
        -------
        Assessment
        """
        from counterpoint.assessment import assess

        proba, voting = self.vote_learners(X)
        return assess(y, proba, labels=self.classes_, voting=voting, samples=samples)

    @property
    def voting_(self) -> str:
        """The vote in use."""
        return self._rule().kind

    @property
    def estimators_(self) -> list[nn.Module]:
        """The networks as ordinary modules, built on first access after a fit."""
        ensemble, readout = self.ensemble_, self.readout_
        cached: _Modules | None = self.__dict__.get("_modules")
        if cached is None or cached.ensemble is not ensemble or cached.readout is not readout:
            learners = [learner.eval() for learner in ensemble.learners]
            if readout is not None:
                learners = [nn.Sequential(one, readout.of(i)) for i, one in enumerate(learners)]
            cached = self._modules = _Modules(ensemble, readout, learners)
        return list(cached.learners)

    @property
    def scaler_(self) -> StandardScaler | None:
        """The scaler of the numeric columns."""
        return self.encoder_.scaler_

    @property
    def readout_(self) -> Readout | None:
        """The scale and the class offsets of each network, or None."""
        return self.ensemble_.readout

    def to_onnx(self, path: str | os.PathLike[str], *, encoded: bool = False) -> None:
        """Write the ensemble to one ONNX file that maps rows of features to the probabilities of the vote.

        Parameters
        ----------
        path : path
            The file. Input ``features`` (n_samples, n_features) and output ``probabilities`` (n_samples, n_classes) are
            float32. Under hard voting the output holds shares of the votes. The metadata holds the classes, as JSON.
        encoded : bool, default=False
            Whether the input of the file is what ``encoder_.transform`` returns for a table. Required if the table has
            nominal columns; otherwise the file encodes raw features, where NaN is a missing value.

        Notes
        -----
        Features that float32 cannot represent, such as times in seconds that differ by a minute, are refused. Where
        onnxruntime is installed, its output is compared with that of the estimator before the file is written.
        """
        from counterpoint.estimators._onnx import export

        check_is_fitted(self)
        export(self, path, encoded=encoded)

    def _check_table(self, X: Any, y: ArrayLike, *, reset: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a table to train on, as the encoder reads it, and classes that can be printed and saved."""
        if reset:
            self.encoder_ = TableEncoder(self.categorical_features, standardize=self.standardize)
        X, y = self.encoder_._read(self, X, y, reset=reset)
        check_classification_targets(y)
        check_labels(y, "y")
        return X, np.asarray(y)

    def _learn_encoding(self, rows: Rows) -> None:
        """Learn the encoding of distinct rows: then it does not matter if a row is repeated or has a weight."""
        self.encoder_.n_pieces = count_pieces(self, len(rows.codes))
        self.encoder_._learn(rows.X, rows.weight)

    def _logits(self, X: Any) -> Tensor:
        """Return the outputs of the networks for a table, before the read-out, in double precision on the CPU."""
        check_is_fitted(self)
        X = self.encoder_._read(self, X, reset=False)
        rows = Rows(X, np.zeros(len(X), dtype=np.int64), np.ones(len(X)))
        x, *_ = rows.tensors(self.encoder_, next(self.ensemble_.parameters()).device)
        return self._raw_logits(x).cpu().double()

    def _vote(self, X: Any) -> FloatArray:
        """Return the probabilities of the vote, or the shares of the votes under hard voting."""
        return self._rule()(self._logits(X)).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_modules"}

    def _rule(self) -> Vote:
        """Return the present rule of the vote, on the CPU."""
        check_is_fitted(self)
        rule = self.ensemble_.rule_for(self.voting)  # the parameter may have changed since the fit
        readout = None if rule.readout is None else copy.deepcopy(rule.readout).cpu()
        return rule._replace(weights=None, readout=readout)

    @torch.no_grad()
    def _raw_logits(self, x: Tensor) -> Tensor:
        """Return the outputs of the networks, before the read-out, with a column for each class."""
        filled = F.pad(x, (0, 0, 0, -len(x) % _BLOCK))
        with autocast("float32", x.device):
            logits = torch.cat([self.ensemble_(block) for block in torch.split(filled, _BLOCK)], 1)
        return two_columns(logits[:, : len(x)])

    def _warn_of_learners(self, rows: Rows) -> None:
        """Warn of learners that ended constant, or against the truth."""
        x, y, weight = rows.tensors(self.encoder_, next(self.ensemble_.parameters()).device)
        for complaint in learner_complaints(self._raw_logits(x).softmax(-1), y, weight):
            warnings.warn(f"{complaint}.", LearnerWarning, stacklevel=_level_outside())


class _Modules(NamedTuple):
    """The networks as ordinary modules, and what they were built from."""

    ensemble: Ensemble
    readout: Readout | None
    learners: list[nn.Module]


def _level_outside() -> int:
    """Return the stack level of the call into the library, seen from the caller of this function."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("counterpoint."):
        frame, level = frame.f_back, level + 1
    return level


def all_or_nothing(method: Method) -> Method:
    """Decorate a fit method: if it fails, the estimator is restored to its previous state."""

    @wraps(method)
    def fit(self: FittedNetworks, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        trained = [before[name] for name in ("ensemble_", "_continued") if before.get(name) is not None]
        states = copy.deepcopy([part.state_dict() for part in trained])
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            for part, state in zip(trained, states, strict=True):
                part.load_state_dict(state)
            if "ensemble_" in before:
                self.ensemble_.eval()
            raise

    return cast(Method, fit)
