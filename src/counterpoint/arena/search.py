"""The search of the library, `DiverseEnsembleClassifierCV`, on a fold."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from counterpoint._validation import FloatArray
from counterpoint.arena.methods import Settings
from counterpoint.arena.predictions import Predictions, out_of_fold
from counterpoint.arena.scores import aligned, fold_scores
from counterpoint.arena.tables import INNER_FOLDS, OuterFold, Split, Table
from counterpoint.assessment.learners import learner_outputs
from counterpoint.estimators import DiverseEnsembleClassifierCV
from counterpoint.exceptions import LearnerWarning

__all__ = ["run_search"]


def run_search(
    table: Table, fold: OuterFold, settings: Settings, *, seed: Sequence[int], device: str = "cpu"
) -> dict[str, Any]:
    """Fit the search to the training part of a fold and return its results on the test rows.

    Parameters
    ----------
    table : Table
        The data.
    fold : OuterFold
        The splits. The search makes its own folds of the training part; the inner ones serve the predictions that
        combined methods learn from.
    settings : Settings
        Number and size of the networks; everything else is the default of the class, except in a smoke run.
    seed : sequence of int
        Seed of the random draws.
    device : str, default="cpu"
        Where to train.

    Returns
    -------
    dict
        As from ``run_classifier``; ``chosen`` holds the attributes ``best_*_`` that are numbers.

    Examples
    --------
    >>> from counterpoint.arena import SMOKE, read_suite
    >>> from counterpoint.arena.tables import outer_folds
    >>> iris = read_suite(["iris"])[0]
    >>> found = run_search(iris, outer_folds(iris, repeat=0, n_folds=3)[0], SMOKE, seed=[0])
    >>> found["n_test"], found["n_learners"], "diversity" in found["chosen"]
    (50, 3, True)
    """
    start = time.perf_counter()
    state = int(np.random.SeedSequence([*seed, 2]).generate_state(1)[0] >> 1)
    n_classes = len(table.classes)
    model = _search(table, fold.outer, settings, state, device)
    X, y = table.X.iloc[fold.outer.test], table.y[fold.outer.test]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearnerWarning)  # the scores show weak learners
        warnings.filterwarnings("ignore", "The least populated class")
        fitted = _fitted(model, table, fold.outer)
        proba, learners = _proba(fitted, X, n_classes), None
        if isinstance(fitted, DiverseEnsembleClassifierCV):
            found = learner_outputs(fitted, X)
            learners = aligned(found.outputs, found.classes, n_classes)
        best = getattr(fitted, "best_estimator_", fitted)
        parts = [
            _proba(_fitted(clone(best), table, split), table.X.iloc[split.test], n_classes)
            for split in fold.inner
        ]
    inner = out_of_fold(fold, parts)
    return {
        "n_test": len(y),
        **fold_scores(y, proba, learners),
        "chosen": _chosen(fitted),
        "inner_accuracies": [round(float(np.mean(inner.argmax(axis=1) == table.y[fold.outer.train])), 6)],
        "seconds": round(time.perf_counter() - start, 3),
        "predictions": Predictions(inner, proba.astype(np.float32)),
    }


def _search(table: Table, split: Split, settings: Settings, seed: int, device: str) -> Any:
    """Return the unfitted search."""
    most = int(np.bincount(table.y[split.train]).max())  # rows of the largest class
    search = DiverseEnsembleClassifierCV(
        n_estimators=settings.n_learners,
        hidden_layer_sizes=(settings.hidden,),
        device=device,
        random_state=seed,
    )
    if settings.smoke:
        search.set_params(epochs=settings.epochs, cv=INNER_FOLDS)
    elif most < search.cv:
        search.set_params(cv=most)
    return search


def _fitted(model: Any, table: Table, split: Split) -> Any:
    """Return the model trained on the rows of a split."""
    X, y = table.X.iloc[split.train], table.y[split.train]
    return (DummyClassifier() if len(np.unique(y)) == 1 else model).fit(X, y)


def _proba(model: Any, X: Any, n_classes: int) -> FloatArray:
    return aligned(model.predict_proba(X), model.classes_, n_classes)


def _chosen(search: Any) -> dict[str, float]:
    """Return the attributes `best_*_` of a search that are numbers, without the affixes."""
    return {
        name[5:-1]: value
        for name, value in sorted(vars(search).items())
        if name.startswith("best_") and name.endswith("_") and isinstance(value, int | float)
    }
