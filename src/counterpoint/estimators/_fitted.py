"""Prediction, assessment and export, for every classifier whose learners are networks."""

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from counterpoint._validation import FloatArray, check_labels
from counterpoint.estimators._network_estimator import NetworkEstimator, all_or_nothing, warn_of_learners
from counterpoint.estimators._rows import Rows
from counterpoint.estimators._targets import check_present
from counterpoint.training import Readout, Vote
from counterpoint.training.watch import learner_complaints

if TYPE_CHECKING:
    from counterpoint.assessment import Assessment

__all__ = ["FittedNetworks", "all_or_nothing"]

_JUDGED = 2**17  # rows that show whether a learner is constant


def _has_probabilities(estimator: "FittedNetworks") -> bool:
    """Return True unless the vote is hard, as scikit-learn's ``VotingClassifier`` does."""
    if isinstance(estimator.voting, str) and estimator.voting == "hard":
        raise AttributeError(
            "predict_proba is not available when voting='hard', which counts votes; use predict, or "
            "learner_predict_proba for the probabilities of each network."
        )
    return True


class FittedNetworks(ClassifierMixin, NetworkEstimator):
    """Classifier whose learners are networks; subclasses implement ``fit``."""

    module: Any
    n_pieces: int | str
    voting: str
    classes_: NDArray[Any]
    _onnx_output = "probabilities"

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
    def readout_(self) -> Readout | None:
        """The scale and the class offsets of each network, or None."""
        return self.ensemble_.readout

    def _check_table(self, X: Any, y: ArrayLike, *, reset: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a table to train on, as the encoder reads it, and classes that can be printed and saved."""
        check_present(y)
        X, labels = self._read_table(X, y, reset=reset)
        if labels.dtype.kind == "f":  # scikit-learn reports numbers that are not whole
            check_classification_targets(labels)
        check_labels(labels, "y")
        check_classification_targets(labels)
        return X, labels

    def _vote(self, X: Any) -> FloatArray:
        """Return the probabilities of the vote, or the shares of the votes under hard voting."""
        return self._rule()(self._logits(X)).numpy()

    def _rule(self) -> Vote:
        """Return the present rule of the vote, on the CPU."""
        check_is_fitted(self)
        rule = self.ensemble_.rule_for(self.voting)  # the parameter may have changed since the fit
        readout = None if rule.readout is None else copy.deepcopy(rule.readout).cpu()
        return rule._replace(weights=None, readout=readout)

    def _warn_of_learners(self, rows: Rows) -> None:
        """Warn of learners that ended constant, or against the truth, on rows of all classes if there are very many."""
        if len(rows.codes) > _JUDGED:
            rows = rows.take(np.linspace(0, len(rows.codes) - 1, _JUDGED).astype(np.intp))
        x, y, weight = rows.tensors(self.encoder_, next(self.ensemble_.parameters()).device)
        warn_of_learners(learner_complaints(self._raw_logits(x).softmax(-1), y, weight))
