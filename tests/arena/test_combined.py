"""The methods that combine others: fitted to out-of-fold predictions, never to test rows."""

import numpy as np
import pytest

from counterpoint.arena import SMOKE, arena, read_records, read_suite
from counterpoint.arena.combined import run_combined
from counterpoint.arena.methods import pool_of
from counterpoint.arena.predictions import Predictions, predictions_path, read_predictions
from counterpoint.arena.tables import outer_folds

COMBINED = ("greedy-selection", "stack")


@pytest.fixture(scope="module")
def iris():
    return read_suite(["iris"])[0]


def pool_for(table, folds, **right):
    """Return predictions of methods that are right with the given probabilities, in training and in test rows."""
    rng, n_classes = np.random.default_rng(0), len(table.classes)

    def votes(rows, p):
        wrong = (table.y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
        label = np.where(rng.random(len(rows)) < p, table.y[rows], wrong)
        return (0.3 / n_classes + 0.7 * np.eye(n_classes)[label]).astype(np.float32)

    return {
        name: [Predictions(votes(f.outer.train, p), votes(f.outer.test, p)) for f in folds]
        for name, p in right.items()
    }


@pytest.mark.parametrize("method", COMBINED)
def test_a_good_method_is_found_among_poor_ones(iris, method):
    folds = outer_folds(iris, 0, 3)
    pool = pool_for(iris, folds, poor=0.4, good=0.97, bad=0.2)
    found = run_combined(iris, folds, method, pool, {name: [1.0, 2.0, 3.0] for name in pool})
    for k, fold in enumerate(found):
        assert fold["error"] < 0.12
        assert fold["n_test"] == 50
        assert 3 * (k + 1) < fold["seconds"] < 3 * (k + 1) + 10  # with those of the pool
    if method == "greedy-selection":
        for fold in found:
            assert sum(fold["chosen"].values()) == pytest.approx(1, abs=1e-4)
            assert max(fold["chosen"], key=fold["chosen"].get) == "good"


@pytest.mark.parametrize("method", COMBINED)
def test_labels_and_predictions_of_test_rows_do_not_change_what_is_learned(iris, method):
    folds = outer_folds(iris, 0, 3)
    pool = pool_for(iris, folds, one=0.9, two=0.8, three=0.6)
    seconds = {name: [0.0] * 3 for name in pool}
    before = run_combined(iris, folds, method, pool, seconds)
    changed = {
        name: [one._replace(test=np.full_like(one.test, 1 / 3)) for one in some]
        for name, some in pool.items()
    }
    after = run_combined(iris, folds, method, changed, seconds)
    assert [fold["chosen"] for fold in before] == [fold["chosen"] for fold in after]
    relabelled = iris.y.copy()
    relabelled[folds[0].outer.test] = 0
    again = run_combined(iris._replace(y=relabelled), folds[:1], method, pool, seconds)
    assert again[0]["chosen"] == before[0]["chosen"]


def test_rows_with_one_class_are_no_obstacle():
    table = read_suite(["labor"])[0]
    fold = outer_folds(table, 0, 3)[0]
    pool = pool_for(table, [fold], one=0.9, two=0.8)
    same = table._replace(y=np.zeros_like(table.y))
    found = run_combined(same, [fold], "stack", pool, {name: [0.0] for name in pool})
    assert 0 <= found[0]["error"] <= 1


def test_a_run_combines_the_other_methods_of_the_run(iris, tmp_path):
    methods = ["independent", "random-forest", "extra-trees", *COMBINED]
    arena([iris], tmp_path, methods=methods, smoke=True, device="cpu")
    records = {one["config"]["method"]: one for one in read_records(tmp_path)}
    assert set(records) == set(methods)
    pool = pool_of(methods)
    for method in COMBINED:
        assert [one["method"] for one in records[method]["config"]["candidates"]] == pool
        spent = [sum(records[m]["data"]["folds"][k]["seconds"] for m in pool) for k in range(3)]
        own = [fold["seconds"] for fold in records[method]["data"]["folds"]]
        assert all(mine > theirs for mine, theirs in zip(own, spent, strict=True))
    found = read_predictions(tmp_path, "iris/extra-trees-0", SMOKE.n_folds)
    for k, fold in enumerate(outer_folds(iris, 0, SMOKE.n_folds)):
        assert found[k].inner.shape == (100, 3)
        error = np.mean(found[k].test.argmax(axis=1) != iris.y[fold.outer.test])
        assert error == records["extra-trees"]["data"]["folds"][k]["error"]
        inner = np.mean(found[k].inner.argmax(axis=1) == iris.y[fold.outer.train])
        assert inner == pytest.approx(
            max(records["extra-trees"]["data"]["folds"][k]["inner_accuracies"]), abs=0.01
        )


def test_without_predictions_a_combined_job_says_what_is_missing(iris, tmp_path):
    arena([iris], tmp_path, methods=["extra-trees", "random-forest"], smoke=True)
    predictions_path(tmp_path, "iris/extra-trees-0").unlink()
    with pytest.raises(
        RuntimeError,
        match=r"iris/stack-0: FileNotFoundError: the predictions of iris/extra-trees-0 are needed",
    ):
        arena([iris], tmp_path, methods=["extra-trees", "random-forest", "stack"], smoke=True)


def test_another_pool_is_another_job(iris, tmp_path):
    arena([iris], tmp_path, methods=["extra-trees", "random-forest", "stack"], smoke=True)
    arena([iris], tmp_path, methods=["extra-trees", "decorate-tree"], smoke=True)  # leaves the stack alone
    with pytest.raises(ValueError, match=r"stack-0\.json, or with one of the same settings \(candidates:"):
        arena([iris], tmp_path, methods=["extra-trees", "decorate-tree", "stack"], smoke=True)
