"""Prediction and assessment, for every regressor whose learners are networks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from counterpoint._validation import FloatArray
from counterpoint.estimators._network_estimator import NetworkEstimator
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._targets import check_targets
from counterpoint.training import Vote

if TYPE_CHECKING:
    from counterpoint.assessment import RegressionAssessment

__all__ = ["FittedRegressor", "fit_target_scaler", "scaled"]


class FittedRegressor(RegressorMixin, NetworkEstimator):
    """Regressor whose learners are networks; subclasses implement ``fit``."""

    target_scaler_: StandardScaler
    _onnx_output = "predictions"

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the networks, for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._unscaled(self._vote(X)[:, 0])

    def learner_predict(self, X: Any) -> FloatArray:
        """Return the prediction of each network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table: numbers, nominal values and missing ones.

        Returns
        -------
        ndarray of shape (n_learners, n_samples)
        """
        return self._unscaled(self._logits(X)[..., 0].numpy())

    def assess(self, X: Any, y: ArrayLike, *, samples: str = "held_out") -> "RegressionAssessment":
        """Assess the ensemble on data: where it stands, what its ceiling is and what would help.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A table, preferably one that was not trained on.
        y : array-like of shape (n_samples,)
            The numbers to predict.
        samples : {"held_out", "training"}, default="held_out"
            Whether the rows took part in training.

        Returns
        -------
        RegressionAssessment
        """
        from counterpoint.assessment import assess_regression

        outputs = self.learner_predict(X)  # first, so that an unfitted estimator raises NotFittedError
        check_targets(y)
        return assess_regression(_numbers(y), outputs, samples=samples, name=type(self).__name__)

    def _rule(self) -> Vote:
        """Return the mean of the networks as a rule."""
        return self.ensemble_.rule._replace(weights=None)

    def _vote(self, X: Any) -> FloatArray:
        """Return the mean of the networks, (n_samples, 1), in units of the scaled targets."""
        logits = self._logits(X)  # first, so that an unfitted estimator raises NotFittedError
        return self._rule()(logits).numpy()

    def _unscaled(self, numbers: FloatArray) -> FloatArray:
        scaler = self.target_scaler_
        found: FloatArray = numbers * scaler.scale_[0] + scaler.mean_[0]
        return found

    def _check_table(self, X: Any, y: ArrayLike, *, reset: bool = True) -> tuple[NDArray[Any], FloatArray]:
        """Return a table to train on, as the encoder reads it, and finite numbers to predict."""
        check_targets(y)
        X, y = self._read_table(X, y, reset=reset)
        return X, _numbers(y)


def _numbers(y: ArrayLike) -> FloatArray:
    """Return targets as finite numbers in double precision."""
    return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")  # type: ignore[no-any-return]


def fit_target_scaler(rows: Rows) -> StandardScaler:
    """Return the scaler of the numbers to predict, to mean 0 and standard deviation 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler().fit(rows.codes[:, None], sample_weight=rows.weight)
    if not np.isfinite(scaler.var_).all():
        raise ValueError(
            f"`y` must hold numbers whose variance is finite; got {np.abs(rows.codes).max():.6g}."
        )
    if not scaler.var_.any() and np.ptp(rows.codes):
        raise ValueError(
            f"`y` must hold numbers whose variance is not rounded to 0; got {np.abs(rows.codes).max():.6g} as the "
            "largest."
        )
    return scaler


def scaled(rows: Rows, scaler: StandardScaler) -> Rows:
    """Return the rows with their numbers scaled."""
    return rows._replace(codes=scaler.transform(rows.codes[:, None])[:, 0])
