"""The methods that are scikit-learn classifiers: tune, train and score one of them on a fold."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from counterpoint._validation import FloatArray
from counterpoint.arena.encoding import N_PIECES, for_catboost, for_trees, nominal_columns
from counterpoint.arena.methods import CANDIDATES, Parameters, Settings
from counterpoint.arena.scores import aligned, fold_scores
from counterpoint.arena.tables import OuterFold, Split, Table
from counterpoint.assessment.learners import learner_outputs
from counterpoint.estimators import DecorateClassifier, TableEncoder

__all__ = ["run_classifier"]

# The name that each library gives to the number of boosting rounds.
_ROUNDS = {"hist-gradient-boosting": "max_iter", "lightgbm": "n_estimators", "catboost": "iterations"}


class Fitted(NamedTuple):
    """A trained classifier, and the function that encodes rows for it."""

    model: Any
    encode: Callable[[Any], Any]


def run_classifier(
    table: Table, fold: OuterFold, method: str, settings: Settings, *, seed: Sequence[int]
) -> dict[str, Any]:
    """Tune a method on the inner folds, train the best candidate and return its results on the outer fold.

    Parameters
    ----------
    table : Table
        The data.
    fold : OuterFold
        The splits.
    method : str
        A key of ``CANDIDATES``.
    settings : Settings
        Sizes of the learners.
    seed : sequence of int
        Seed of the random draws.

    Examples
    --------
    >>> from counterpoint.arena.tables import outer_folds, read_suite
    >>> iris = read_suite(["iris"])[0]
    >>> fold = outer_folds(iris, repeat=0, n_folds=10)[0]
    >>> found = run_classifier(iris, fold, "random-forest", Settings(n_trees=5), seed=[0])
    >>> found["n_test"], found["n_learners"], len(found["inner_accuracies"])
    (15, 5, 5)
    """
    start = time.perf_counter()
    state = int(np.random.SeedSequence([*seed, 2]).generate_state(1)[0] >> 1)
    n_classes = len(table.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is a setting here
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        votes = np.zeros((len(CANDIDATES[method]), len(fold.inner)))
        for c, parameters in enumerate(CANDIDATES[method]):
            for k, split in enumerate(fold.inner):
                fitted = _fitted(table, split, method, parameters, settings, state)
                proba = _proba(fitted, table.X.iloc[split.test], n_classes)
                votes[c, k] = np.mean(proba.argmax(axis=1) == table.y[split.test])
        mean = votes.mean(axis=1)
        chosen = CANDIDATES[method][int(mean.round(12).argmax())]
        fitted = _fitted(table, fold.outer, method, chosen, settings, state)
        X, y = table.X.iloc[fold.outer.test], table.y[fold.outer.test]
        scores = fold_scores(y, _proba(fitted, X, n_classes), _learners(fitted, X, n_classes))
    return {
        "n_test": len(y),
        **scores,
        "chosen": dict(chosen),
        "inner_accuracies": mean.round(6),
        "seconds": round(time.perf_counter() - start, 3),
    }


def _fitted(
    table: Table, split: Split, method: str, parameters: Parameters, settings: Settings, seed: int
) -> Fitted:
    X, y = table.X.iloc[split.train], table.y[split.train]
    if len(np.unique(y)) == 1:  # if the other class is rare; some classifiers refuse it
        return Fitted(DummyClassifier().fit(X, y), lambda rows: rows)
    model, encoder = _classifier(method, dict(parameters), X, settings, seed)
    if encoder is None:
        return Fitted(model.fit(X, y), lambda rows: rows)
    return Fitted(model.fit(encoder.fit_transform(X), y), encoder.transform)


def _classifier(method: str, given: dict[str, Any], X: Any, settings: Settings, seed: int) -> tuple[Any, Any]:
    """Return the classifier of a candidate, and the encoder of its rows or None."""
    codes = for_trees(X)
    nominal = list(range(len(nominal_columns(X))))  # the encoder puts them first
    if method.startswith("decorate"):
        ratio = given.pop("artificial_ratio", 1.0)
        network = method == "decorate-net"
        learner = _decorate_network(X, settings, **given) if network else _decorate_tree(**given)
        return DecorateClassifier(
            learner,
            settings.n_learners,
            artificial_ratio=ratio,
            max_iter=2 * settings.n_learners,
            random_state=seed,
        ), None
    if method in ("random-forest", "extra-trees"):
        forest = RandomForestClassifier if method == "random-forest" else ExtraTreesClassifier
        return forest(settings.n_trees, random_state=seed, **given), codes
    if settings.smoke and method in _ROUNDS:
        given[_ROUNDS[method]] = settings.n_trees
    if method == "hist-gradient-boosting":
        boosting = HistGradientBoostingClassifier(
            categorical_features=nominal or None, early_stopping=False, random_state=seed, **given
        )
        return boosting, codes
    if method == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1, **given), codes
    if method == "catboost":
        from catboost import CatBoostClassifier

        fixed = {"thread_count": 1, "allow_writing_files": False, "verbose": 0}
        parameters = {"cat_features": nominal_columns(X), "iterations": 100, **given}
        return CatBoostClassifier(random_seed=seed, **fixed, **parameters), for_catboost(X)
    from counterpoint.arena.encoding import for_networks
    from counterpoint.arena.tabm import TabMClassifier

    sizes = (settings.hidden, settings.epochs, settings.batch_size(len(X)))
    return TabMClassifier(*sizes, random_state=seed, **given), for_networks()


def _decorate_tree(**given: Any) -> DecisionTreeClassifier:
    """Return the default learner of DECORATE with the parameters of a candidate."""
    return DecisionTreeClassifier(**{"criterion": "entropy", "min_samples_leaf": 3, **given})


def _decorate_network(X: Any, settings: Settings, alpha: float) -> Any:
    """Return a network as a learner for DECORATE, which passes imputed numeric columns first."""
    numeric = list(range(X.shape[1] - len(nominal_columns(X))))
    numbers = [("numbers", TableEncoder(n_pieces=N_PIECES), numeric)] if numeric else []
    columns = ColumnTransformer(numbers, remainder="passthrough")
    batch = 32 if len(X) < 200 else 100 if len(X) < 1000 else 200  # a few hundred steps for any table
    network = MLPClassifier(
        (settings.hidden,),
        alpha=alpha,
        batch_size=min(batch, len(X)),
        learning_rate_init=0.01,
        max_iter=max(2 * settings.epochs // 5, 1),
    )
    return make_pipeline(columns, network)


def _proba(fitted: Fitted, X: Any, n_classes: int) -> FloatArray:
    model = fitted.model
    return aligned(model.predict_proba(fitted.encode(X)), model.classes_, n_classes)


def _learners(fitted: Fitted, X: Any, n_classes: int) -> FloatArray | None:
    """Return the learners' probabilities, or None if the classifier has no learners that vote."""
    model = fitted.model
    if isinstance(model, DecorateClassifier | RandomForestClassifier | ExtraTreesClassifier):
        found = learner_outputs(model, fitted.encode(X))
        return aligned(found.outputs, found.classes, n_classes)
    return None
