"""What all estimators whose learners are networks share: the table, the networks, their outputs."""

import copy
import inspect
import os
import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import FloatArray
from counterpoint.estimators._networks import check_trained
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._settings import count_pieces
from counterpoint.estimators.table_encoder import TableEncoder
from counterpoint.exceptions import LearnerWarning
from counterpoint.training import Ensemble, History, Readout, Vote, autocast
from counterpoint.training.columns import two_columns

__all__ = ["NetworkEstimator", "all_or_nothing", "warn_of_learners"]

Method = TypeVar("Method", bound=Callable[..., Any])

# The networks run on blocks of this many rows, the last one padded: rounding in a matrix product depends on its shape,
# and the prediction for a row must not depend on how many others there are.
_BLOCK = 256


class NetworkEstimator(BaseEstimator):
    """Estimator whose learners are networks; subclasses implement ``fit``."""

    categorical_features: ArrayLike | str | None
    learning_rate: float
    standardize: bool
    weight_decay: float | Any
    ensemble_: Ensemble
    encoder_: TableEncoder
    history_: History
    n_features_in_: int
    _onnx_output: str  # name of the output of an ONNX file
    _modules: "_Modules"

    @property
    def estimators_(self) -> list[nn.Module]:
        """The networks as ordinary modules, built on first access after a fit."""
        ensemble, readout = self.ensemble_, self.ensemble_.readout
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

    def to_onnx(self, path: str | os.PathLike[str], *, encoded: bool = False) -> None:
        """Write the ensemble to one ONNX file that maps rows of features to probabilities, or to predicted numbers.

        Parameters
        ----------
        path : path
            The file. Its input ``features`` (n_samples, n_features) and its output are float32. The output of a
            classifier is ``probabilities`` (n_samples, n_classes), under hard voting shares of the votes, and the
            metadata holds the classes, as JSON. The output of a regressor is ``predictions`` (n_samples,).
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

    def _read_table(self, X: Any, y: ArrayLike, *, reset: bool) -> Any:
        """Return a table to train on, as its encoder reads it, and the targets."""
        if reset:
            self.encoder_ = TableEncoder(self.categorical_features, standardize=self.standardize)
        return self.encoder_._read(self, X, y, reset=reset)

    def _learn_encoding(self, rows: Rows) -> None:
        """Learn the encoding of distinct rows: then it does not matter if a row is repeated or has a weight."""
        self.encoder_.n_pieces = count_pieces(self, len(rows.codes))
        self.encoder_._learn(rows.X, rows.weight)

    def _rule(self) -> Vote:
        """Return how the outputs of the networks are combined, on the CPU."""
        raise NotImplementedError

    def _vote(self, X: Any) -> FloatArray:
        """Return the combined outputs for a table, (n_samples, n_outputs)."""
        raise NotImplementedError

    def _optimizer(self, known: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
        """Return AdamW with the present settings; an optimizer that is given keeps its moments."""
        optimizer = known or torch.optim.AdamW(check_trained(self.ensemble_))
        for group in optimizer.param_groups:
            group.update(lr=float(self.learning_rate), weight_decay=float(self.weight_decay))
        return optimizer

    def _logits(self, X: Any) -> Tensor:
        """Return the outputs of the networks for a table, before the read-out, in double precision on the CPU."""
        check_is_fitted(self)
        X = self.encoder_._read(self, X, reset=False)
        rows = Rows(X, np.zeros(len(X), dtype=np.int64), np.ones(len(X)))
        x, *_ = rows.tensors(self.encoder_, next(self.ensemble_.parameters()).device)
        return self._raw_logits(x).cpu().double()

    @torch.no_grad()
    def _raw_logits(self, x: Tensor) -> Tensor:
        """Return the outputs of the networks, before the read-out, with a column for each class, or for numbers."""
        *blocks, last = torch.split(x, _BLOCK)
        blocks.append(F.pad(last, (0, 0, 0, _BLOCK - len(last))))
        with autocast("float32", x.device):
            logits = torch.cat([self.ensemble_(block) for block in blocks], 1)
        return two_columns(logits[:, : len(x)], self.ensemble_.activation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_modules"}


class _Modules(NamedTuple):
    """The networks as ordinary modules, and what they were built from."""

    ensemble: Ensemble
    readout: Readout | None
    learners: list[nn.Module]


def warn_of_learners(complaints: Iterable[str]) -> None:
    """Warn of learners, at the call into the library."""
    for complaint in complaints:
        warnings.warn(f"{complaint}.", LearnerWarning, stacklevel=_level_outside())


def _level_outside() -> int:
    """Return the stack level of the call into the library, seen from the caller of this function."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("counterpoint."):
        frame, level = frame.f_back, level + 1
    return level


def all_or_nothing(method: Method) -> Method:
    """Decorate a fit method: if it fails, the estimator is restored to its previous state."""

    @wraps(method)
    def fit(self: NetworkEstimator, *args: Any, **kwargs: Any) -> Any:
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
