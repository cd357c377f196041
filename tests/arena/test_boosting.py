"""Boosting with early stopping, and the search of the library, on a fold."""

import numpy as np
import pytest

from counterpoint.arena import SMOKE, read_suite
from counterpoint.arena.boosting import BOOSTING, StoppedBoosting, validation_split
from counterpoint.arena.methods import METHODS
from counterpoint.arena.search import run_search
from counterpoint.arena.tables import outer_folds


def noise(n=200):
    """Return rows whose labels hold nothing to learn but one weak column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] + 2 * rng.normal(size=n) > 0).astype(np.int64)


@pytest.mark.parametrize("library", BOOSTING)
def test_noise_stops_boosting_early_and_all_rows_are_used(library):
    if package := METHODS[library].package:
        pytest.importorskip(package)
    X, y = noise()
    model = StoppedBoosting(library, {"learning_rate": 0.3}, n_rounds=400).fit(X, y)
    assert 1 <= model.n_rounds_ < 100
    slow = StoppedBoosting(library, {"learning_rate": 0.02}, n_rounds=400).fit(X, y)
    assert slow.n_rounds_ > model.n_rounds_
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-6)
    again = StoppedBoosting(library, {"learning_rate": 0.3}, n_rounds=400).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    # a row that was set aside has a part in the final model
    held = validation_split(y, 0)[1]
    flipped = y.copy()
    flipped[held] = 1 - flipped[held]
    other = StoppedBoosting(library, {"learning_rate": 0.3}, n_rounds=1).fit(X, flipped)
    one = StoppedBoosting(library, {"learning_rate": 0.3}, n_rounds=1).fit(X, y)
    assert not np.allclose(other.predict_proba(X), one.predict_proba(X))


@pytest.mark.parametrize("library", BOOSTING)
def test_no_row_is_set_aside_where_classes_are_tiny(library):
    if package := METHODS[library].package:
        pytest.importorskip(package)
    y = np.arange(12) % 3
    model = StoppedBoosting(library, {}, n_rounds=7).fit(np.arange(24.0).reshape(12, 2), y)
    assert model.n_rounds_ == 7
    assert model.predict_proba(np.zeros((2, 2))).shape == (2, 3)


def test_a_fifth_of_each_class_is_set_aside():
    y = np.repeat([0, 1, 2], [50, 13, 3])
    train, held = validation_split(y, seed=1)
    assert np.bincount(y[held], minlength=3).tolist() == [10, 2, 0]
    assert sorted([*train, *held]) == list(range(66))


def test_the_search_of_the_library_runs_on_nominal_and_missing_values():
    labor = read_suite(["labor"])[0]
    found = run_search(labor, outer_folds(labor, 0, 3)[0], SMOKE, seed=[0, 0])
    assert found["n_learners"] == SMOKE.n_learners
    assert {"diversity", "index", "weight_decay"} <= set(found["chosen"])
    inner, test = found["predictions"]
    assert inner.shape == (38, 2)
    np.testing.assert_allclose(inner.sum(axis=1), 1, atol=1e-5)
    assert np.mean(test.argmax(axis=1) != labor.y[outer_folds(labor, 0, 3)[0].outer.test]) == found["error"]


def test_the_search_runs_where_classes_are_rare():
    labor = read_suite(["labor"])[0]
    fold = outer_folds(labor, 0, 3)[0]
    y = np.zeros_like(labor.y)
    y[fold.outer.train[:2]] = 1
    found = run_search(labor._replace(y=y), fold, SMOKE, seed=[0])
    assert 0 <= found["error"] <= 1
    alone = run_search(labor._replace(y=np.zeros_like(labor.y)), fold, SMOKE, seed=[0])
    assert (alone["error"], alone["chosen"]) == (0, {})
