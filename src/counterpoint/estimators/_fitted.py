"""What fitted networks do, however they were trained: answer, vote, be looked at, be deployed."""

import copy
import inspect
import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import FloatArray, check_labels
from counterpoint.estimators._rows import Rows
from counterpoint.exceptions import LearnerWarning
from counterpoint.training import Ensemble, History, correlations
from counterpoint.training.columns import two_columns
from counterpoint.training.preparation import autocast
from counterpoint.training.readout import Readout
from counterpoint.training.voting import Vote

if TYPE_CHECKING:
    from counterpoint.assessment import Assessment

__all__ = ["FittedNetworks", "all_or_nothing"]

Method = TypeVar("Method", bound=Callable[..., Any])

# Rows go through the networks in blocks of this size, the last one filled up: a product of matrices rounds by its
# shape, and the answer for a row should not depend on how many others are asked about.
_BLOCK = 256


class FittedNetworks(ClassifierMixin, BaseEstimator):
    """Classifier whose learners are networks; ``fit`` is left to the classes that train them."""

    voting: str
    ensemble_: Ensemble
    scaler_: StandardScaler | None
    history_: History
    classes_: NDArray[Any]
    n_features_in_: int

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that wins the vote, for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table of numbers.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the vote, or the shares of the votes if it is hard.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table of numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._rule()(self._logits(X)).numpy()

    def learner_predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of each network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table of numbers.

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
            A table of numbers.

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

    def assess(self, X: Any, y: ArrayLike) -> "Assessment":
        """Say where the ensemble stands on some data, what its ceiling is and what would help.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table of numbers, best one that was not trained on.
        y : array-like of shape (n_samples,)
            The classes.

        Returns
        -------
        Assessment
        """
        from counterpoint.assessment import assess

        proba, voting = self.vote_learners(X)
        return assess(y, proba, labels=self.classes_, voting=voting)

    @property
    def voting_(self) -> str:
        """The vote in use."""
        return self._rule().kind

    @property
    def estimators_(self) -> list[nn.Module]:
        """The networks as ordinary modules."""
        learners = [learner.eval() for learner in self.ensemble_.learners]
        if (readout := self.readout_) is None:
            return learners
        return [nn.Sequential(learner, readout.of(i)) for i, learner in enumerate(learners)]

    @property
    def readout_(self) -> Readout | None:
        """The scale and the class offsets of each network, or None."""
        return self.ensemble_.readout

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble as one ONNX file: rows of features in, the probabilities of the vote out.

        Parameters
        ----------
        path : path
            The file. Input ``features`` (n_samples, n_features) and output ``probabilities`` (n_samples, n_classes) are
            float32; the classes stand in its metadata, as JSON.

        Notes
        -----
        Features that float32 cannot hold, such as times in seconds that differ by a minute, are refused. Where
        onnxruntime is installed, the file is run and held against the estimator before it is written.
        """
        from counterpoint.estimators._onnx import export

        check_is_fitted(self)
        export(self, path)

    def _check_table(self, X: Any, y: ArrayLike, *, reset: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a table to train on, and classes that can be told and saved."""
        X, y = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        check_labels(y, "y")
        return X, np.asarray(y)

    def _logits(self, X: Any) -> Tensor:
        """Return what the networks put out for a table, before any read-out, in double precision on the CPU."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        rows = Rows(X, np.zeros(len(X), dtype=np.int64), np.ones(len(X)))
        x, *_ = rows.tensors(self.scaler_, next(self.ensemble_.parameters()).device)
        return self._raw_logits(x).cpu().double()

    def _rule(self) -> Vote:
        """Return the vote of now, on the CPU."""
        check_is_fitted(self)
        rule = self.ensemble_.rule_for(self.voting)  # which may have changed since the fit
        readout = None if rule.readout is None else copy.deepcopy(rule.readout).cpu()
        return rule._replace(weights=None, readout=readout)

    @torch.no_grad()
    def _raw_logits(self, x: Tensor) -> Tensor:
        """Return what the networks put out, before the read-out, with a column for each class."""
        filled = F.pad(x, (0, 0, 0, -len(x) % _BLOCK))
        with autocast("float32", x.device):
            logits = torch.cat([self.ensemble_(block) for block in torch.split(filled, _BLOCK)], 1)
        return two_columns(logits[:, : len(x)])

    def _warn_of_learners(self, rows: Rows) -> None:
        """Name the learners that ended constant, or against the truth."""
        x, y, weight = rows.tensors(self.scaler_, next(self.ensemble_.parameters()).device)
        proba = self._raw_logits(x).softmax(-1)
        each = (len(proba), len(y))
        found = correlations(
            proba.unsqueeze(1), y.expand(each), sample_weight=None if weight is None else weight.expand(each)
        )
        for learner, r_tl in enumerate(found.r_tl.tolist()):  # 0 where nothing is defined
            if r_tl == 0:
                message = f"Learner {learner} puts out the same for every row."
            elif r_tl < -3 / len(y) ** 0.5:
                message = f"Learner {learner} stands against the truth: their correlation is {r_tl:.3f}."
            else:
                continue
            warnings.warn(message, LearnerWarning, stacklevel=_level_outside())


def _level_outside() -> int:
    """Return how far above its caller the library was called: a search, say, fits in its turn."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("counterpoint."):
        frame, level = frame.f_back, level + 1
    return level


def all_or_nothing(method: Method) -> Method:
    """Decorate a way to fit: an estimator for which it fails is what it was before, not one that half knows."""

    @wraps(method)
    def fit(self: FittedNetworks, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        trained = [before[name] for name in ("ensemble_", "_continued") if before.get(name) is not None]
        states = copy.deepcopy([part.state_dict() for part in trained])
        scaler = copy.deepcopy(before.get("scaler_"))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            for part, state in zip(trained, states, strict=True):
                part.load_state_dict(state)
            if "ensemble_" in before:
                self.ensemble_.eval()
                self.scaler_ = scaler
            raise

    return cast(Method, fit)
