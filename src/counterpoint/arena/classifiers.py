"""The methods that are scikit-learn classifiers: tune, train and score one of them on a fold."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from counterpoint._validation import FloatArray
from counterpoint.arena.boosting import BOOSTING, StoppedBoosting
from counterpoint.arena.encoding import N_PIECES, for_catboost, for_trees, nominal_columns
from counterpoint.arena.methods import CANDIDATES, Parameters, Settings
from counterpoint.arena.predictions import Predictions, out_of_fold
from counterpoint.arena.scores import aligned, fold_scores
from counterpoint.arena.tables import OuterFold, Split, Table
from counterpoint.assessment.learners import learner_outputs
from counterpoint.estimators import DecorateClassifier, TableEncoder

__all__ = ["run_classifier"]


class Fitted(NamedTuple):
    """A trained classifier, and the function that encodes rows for it."""

    model: Any
    encode: Callable[[Any], Any]


def run_classifier(
    table: Table,
    fold: OuterFold,
    method: str,
    settings: Settings,
    *,
    seed: Sequence[int],
    device: str = "cpu",
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
    device : str, default="cpu"
        Where TabM trains.

    Returns
    -------
    dict
        The scores, what was chosen, the seconds, and the ``predictions``.

    Examples
    --------
    >>> from counterpoint.arena import read_suite
    >>> from counterpoint.arena.tables import outer_folds
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
        candidates = CANDIDATES[method]
        votes, inner = np.zeros((len(candidates), len(fold.inner))), []
        for c, parameters in enumerate(candidates):
            parts = []
            for k, split in enumerate(fold.inner):
                fitted = _fitted(table, split, method, parameters, settings, state, device)
                parts.append(_proba(fitted, table.X.iloc[split.test], n_classes))
                votes[c, k] = np.mean(parts[k].argmax(axis=1) == table.y[split.test])
            inner.append(out_of_fold(fold, parts))
        mean = votes.mean(axis=1)
        best = int(mean.round(12).argmax())
        fitted = _fitted(table, fold.outer, method, candidates[best], settings, state, device)
        X, y = table.X.iloc[fold.outer.test], table.y[fold.outer.test]
        proba = _proba(fitted, X, n_classes)
        scores = fold_scores(y, proba, _learners(fitted, X, n_classes))
    return {
        "n_test": len(y),
        **scores,
        "chosen": dict(candidates[best]),
        "inner_accuracies": mean.round(6),
        "seconds": round(time.perf_counter() - start, 3),
        "predictions": Predictions(inner[best], proba.astype(np.float32)),
    }


def _fitted(
    table: Table,
    split: Split,
    method: str,
    parameters: Parameters,
    settings: Settings,
    seed: int,
    device: str = "cpu",
) -> Fitted:
    X, y = table.X.iloc[split.train], table.y[split.train]
    if len(np.unique(y)) == 1:  # if the other class is rare; some classifiers refuse it
        return Fitted(DummyClassifier().fit(X, y), lambda rows: rows)
    model, encoder = _classifier(method, dict(parameters), X, settings, seed, device)
    if encoder is None:
        return Fitted(model.fit(X, y), lambda rows: rows)
    return Fitted(model.fit(encoder.fit_transform(X), y), encoder.transform)


def _classifier(
    method: str, given: dict[str, Any], X: Any, settings: Settings, seed: int, device: str
) -> tuple[Any, Any]:
    """Return the classifier of a candidate, and the encoder of its rows or None."""
    if method == "decorate-tree":  # with the learner of the class
        return DecorateClassifier(n_estimators=settings.n_learners, random_state=seed, **given), None
    if method == "decorate-net":
        ratio = given.pop("artificial_ratio", 1.0)
        return DecorateClassifier(
            _decorate_network(X, settings, **given),
            settings.n_learners,
            artificial_ratio=ratio,
            max_iter=2 * settings.n_learners,
            random_state=seed,
        ), None
    if method in ("random-forest", "extra-trees"):
        forest = RandomForestClassifier if method == "random-forest" else ExtraTreesClassifier
        return forest(settings.n_trees, random_state=seed, **given), for_trees(X)
    if method in BOOSTING:
        nominal, encoder = nominal_columns(X), for_catboost(X)
        if method != "catboost":
            nominal, encoder = list(range(len(nominal))), for_trees(X)  # which puts them first
        return StoppedBoosting(method, given, nominal, settings.n_rounds, seed), encoder
    from counterpoint.arena.encoding import for_networks
    from counterpoint.arena.tabm import TabMClassifier

    sizes = (settings.hidden, settings.epochs, settings.batch_size(len(X)))
    return TabMClassifier(*sizes, device=device, random_state=seed, **given), for_networks()


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
