"""Boosting that stops early: the number of rounds comes from a validation split, then all rows are used."""

from collections.abc import Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier

from counterpoint._validation import FloatArray, IntArray

__all__ = ["BOOSTING", "StoppedBoosting", "validation_split"]

BOOSTING = ("hist-gradient-boosting", "lightgbm", "catboost")
_SHARE = 0.2  # of the rows of a class, for validation
_PATIENCE = 50  # rounds without improvement
_ROUNDS = 100  # where no row can be spared


class StoppedBoosting(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting of one of three libraries, with the number of rounds chosen by early stopping.

    Parameters
    ----------
    library : {"hist-gradient-boosting", "lightgbm", "catboost"}
        The library.
    parameters : mapping
        Parameters of its classifier.
    nominal : sequence of int, default=()
        Positions of the nominal columns.
    n_rounds : int, default=1000
        Largest number of rounds.
    random_state : int, default=0
        Seed of the split and of the classifier.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    n_rounds_ : int
        The number of rounds.
    model_ : classifier
        Trained on all rows with that number of rounds.

    Notes
    -----
    A fifth of the rows of each class is set aside. A first model learns from the others until the log-loss on these
    rows has not fallen for 50 rounds. The second learns from all rows, with as many rounds as gave the lowest log-loss.
    Where no class has five rows, it takes 100 rounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StoppedBoosting("hist-gradient-boosting", {"learning_rate": 0.3}).fit(X, y)
    >>> 1 <= model.n_rounds_ < 100, model.predict_proba(X).shape
    (True, (150, 3))
    """

    def __init__(
        self,
        library: str,
        parameters: Mapping[str, Any],
        nominal: Any = (),
        n_rounds: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.library = library
        self.parameters = parameters
        self.nominal = nominal
        self.n_rounds = n_rounds
        self.random_state = random_state

    def fit(self, X: Any, y: IntArray) -> Self:
        """Find the number of rounds and train on all rows."""
        train = {"hist-gradient-boosting": _hist, "lightgbm": _lightgbm, "catboost": _catboost}[self.library]
        parameters, nominal = {**self.parameters, "random_state": self.random_state}, list(self.nominal)
        rest, held = validation_split(y, self.random_state)
        rounds = min(_ROUNDS, self.n_rounds)
        if len(held):
            validation = _rows(X, held), y[held]
            stopped = train(parameters, nominal, self.n_rounds, _rows(X, rest), y[rest], validation)
            rounds, parameters = max(stopped.rounds, 1), {**parameters, **stopped.parameters}
        self.n_rounds_ = rounds
        self.model_ = train(parameters, nominal, rounds, X, y, None).model
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes."""
        proba: FloatArray = self.model_.predict_proba(X)
        return proba


def validation_split(y: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return the positions of the rows to train on and of those to validate on, a fifth of each class.

    Examples
    --------
    >>> y = np.array([0] * 10 + [1] * 4)
    >>> train, held = validation_split(y, seed=0)
    >>> len(train), y[held]
    (12, array([0, 0]))
    """
    rng = np.random.default_rng(seed)
    held = [
        rng.permutation(rows)[: int(_SHARE * len(rows))]
        for rows in (np.flatnonzero(y == label) for label in np.unique(y))
    ]
    chosen = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(y)), chosen), chosen


def _rows(X: Any, rows: IntArray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


class _Trained(NamedTuple):
    """A trained classifier, its best number of rounds, and parameters that belong to that number."""

    model: Any
    rounds: int
    parameters: Mapping[str, Any] = MappingProxyType({})


Validation = tuple[Any, IntArray] | None


def _hist(
    given: Mapping[str, Any], nominal: list[int], rounds: int, X: Any, y: IntArray, held: Validation
) -> _Trained:
    model = HistGradientBoostingClassifier(
        categorical_features=nominal or None,
        max_iter=rounds,
        early_stopping=held is not None,
        n_iter_no_change=_PATIENCE,
        scoring="loss",
        tol=0.0,
        **given,
    )
    if held is None:
        return _Trained(model.fit(X, y), rounds)
    model.fit(X, y, X_val=held[0], y_val=held[1])
    return _Trained(model, int(np.argmax(model.validation_score_)))  # the first score is of no round


def _lightgbm(
    given: Mapping[str, Any], nominal: list[int], rounds: int, X: Any, y: IntArray, held: Validation
) -> _Trained:
    from lightgbm import LGBMClassifier, early_stopping

    model = LGBMClassifier(n_estimators=rounds, n_jobs=1, verbose=-1, **given)
    kinds: Any = nominal or "auto"
    if held is None:
        return _Trained(model.fit(X, y, categorical_feature=kinds), rounds)
    # the name of the argument has changed
    named = "eval_X" in signature(model.fit).parameters
    given_rows = {"eval_X": held[0], "eval_y": held[1]} if named else {"eval_set": [held]}
    stop = early_stopping(_PATIENCE, verbose=False)
    model.fit(X, y, callbacks=[stop], categorical_feature=kinds, **given_rows)
    return _Trained(model, int(model.best_iteration_))


def _catboost(
    given: Mapping[str, Any], nominal: list[int], rounds: int, X: Any, y: IntArray, held: Validation
) -> _Trained:
    from catboost import CatBoostClassifier

    fixed = {"thread_count": 1, "allow_writing_files": False, "verbose": 0}
    model = CatBoostClassifier(iterations=rounds, cat_features=nominal, **fixed, **given)
    if held is None:
        return _Trained(model.fit(X, y), rounds)
    model.fit(X, y, eval_set=held, early_stopping_rounds=_PATIENCE)
    # its default learning rate depends on the number of rounds
    rate = {"learning_rate": model.get_all_params()["learning_rate"]}
    return _Trained(model, model.get_best_iteration() + 1, rate)
