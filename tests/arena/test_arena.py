"""The arena: fair folds, a store that resumes, and a report that is made from it alone."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from joblib._parallel_backends import ThreadingBackend
from joblib.parallel import register_parallel_backend
from rich.console import Console
from scipy import stats

from counterpoint.arena import SMOKE, arena, classifiers, run
from counterpoint.arena.classifiers import run_classifier
from counterpoint.arena.encoding import (
    for_catboost,
    for_networks,
    for_trees,
    nominal_columns,
)
from counterpoint.arena.jobs import ArenaJob, check_store, open_store, read_records
from counterpoint.arena.methods import CANDIDATES, EXPLICIT, METHODS, Settings, candidates_of
from counterpoint.arena.overview import overview
from counterpoint.arena.page import (
    NO_SCORES,
    fill_document,
    grids,
    html,
    markdown,
    sentences,
)
from counterpoint.arena.ranks import rank_methods
from counterpoint.arena.statistics import holm
from counterpoint.arena.suite import SUITES, read_suite
from counterpoint.arena.summary import SCORES, summarise
from counterpoint.arena.tables import Split, Table, outer_folds
from counterpoint.cli import _arena, main
from counterpoint.estimators import DecorateClassifier, DiverseEnsembleClassifierCV
from counterpoint.records import Grid, RunStore, number

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "arena"
QUICK = ["one-net", "independent", "diversity", "correlation-1.0", "correlation-cv", "decorate-tree"]


@pytest.fixture(scope="module")
def labor():
    return read_suite(["labor"])[0]


@pytest.fixture(scope="module")
def finished(labor, tmp_path_factory):
    out = tmp_path_factory.mktemp("arena")
    paths = arena([labor, read_suite(["iris"])[0]], out, methods=QUICK, smoke=True, device="cpu")
    assert all(path.is_file() for path in paths)
    return out


def record(table, method, errors, repeat=0, **scores):
    """Return a record as the store holds it; those of earlier versions have no scores."""
    folds = [
        {
            "n_test": 10,
            "error": error,
            "n_learners": 3,
            "learner_accuracy": 0.8,
            "r_tl": 0.7,
            "r_ll": None,
            "optimality": None,
            "seconds": 2.0,
            **scores,
        }
        for error in errors
    ]
    settings = {"n_folds": len(errors), "smoke": False}
    facts = {"rows": 40, "numeric": 2, "nominal": 0, "classes": 2}
    return {
        "config": ArenaJob(table, method, repeat).config(settings, facts),
        "data": {"folds": folds},
    }


def methods_in(out):
    return [one["config"]["method"] for one in read_records(out)]


def test_folds_hold_every_row_once_and_inner_ones_stay_inside_the_training_part(labor):
    folds = outer_folds(labor, 0, 10)
    assert sorted(np.concatenate([fold.outer.test for fold in folds])) == list(range(57))
    for fold in folds:
        assert not set(fold.outer.train) & set(fold.outer.test)
        assert sorted(np.concatenate([split.test for split in fold.inner])) == sorted(fold.outer.train)
    again, other = outer_folds(labor, 0, 10), outer_folds(labor, 1, 10)
    assert all((a.outer.test == b.outer.test).all() for a, b in zip(folds, again, strict=True))
    assert any(set(a.outer.test) != set(b.outer.test) for a, b in zip(folds, other, strict=True))


def test_encoders_learn_from_training_rows_only_and_take_what_they_have_not_seen():
    colour = pd.Categorical(["red", "blue", "red", None, "blue", "mauve"], ["blue", "mauve", "red"])
    X = pd.DataFrame({"size": [1.0, 2.0, np.nan, 4.0, 1e9, np.nan], "colour": colour})
    train, test = X.iloc[:4], X.iloc[4:]
    nets = for_networks().fit(train)
    numbers = nets.transform(test)
    assert np.isfinite(numbers).all()
    assert numbers.shape[1] == nets.transform(train).shape[1]
    codes = for_trees(train).fit(train).transform(test)
    assert codes[0].tolist() == [0.0, 1e9]
    assert np.isnan(codes[1]).all()  # a value that training did not have is a missing one


@pytest.mark.parametrize("method", [m for m in CANDIDATES if METHODS[m].package is None])
def test_each_classifier_tries_five_settings_and_records_where_its_learners_stand(labor, method):
    fold = outer_folds(labor, 0, 3)[0]
    found = run_classifier(labor, fold, method, SMOKE, seed=[0, 0])
    assert len(found["inner_accuracies"]) == len(CANDIDATES[method]) == 5
    assert found["chosen"] == dict(CANDIDATES[method][int(np.argmax(found["inner_accuracies"]))])
    assert found["error"] <= 0.5
    assert set(SCORES) <= set(found)
    if method == "hist-gradient-boosting":
        assert found["n_learners"] is None
    else:
        assert found["r_tl"] <= 1
        assert -0.5 <= found["r_ll"] <= 1


@pytest.mark.parametrize("method", [m for m in CANDIDATES if METHODS[m].package])
def test_classifiers_of_other_packages_run_where_they_are_installed(labor, method):
    pytest.importorskip(METHODS[method].package)
    found = run_classifier(labor, outer_folds(labor, 0, 3)[0], method, SMOKE, seed=[0, 0])
    assert 0 <= found["error"] <= 0.7


def test_catboost_knows_which_columns_are_nominal_and_does_the_same_again(labor):
    pytest.importorskip("catboost")
    fold = outer_folds(labor, 0, 3)[0]
    fitted = classifiers._fitted(labor, fold.outer, "catboost", {}, SMOKE, 0)
    assert fitted.model.model_.get_cat_feature_indices() == nominal_columns(labor.X)
    assert fitted.model.model_.get_params()["thread_count"] == 1
    encoded = fitted.encode(labor.X)
    for name in labor.X:
        missing = labor.X[name].isna()
        if labor.X[name].dtype == "category":  # missing is a value of its own
            assert encoded[name].dtype.kind == "i"
            np.testing.assert_array_equal(encoded[name] == -1, missing)
        else:
            np.testing.assert_array_equal(encoded[name].isna(), missing)
    one, other = (run_classifier(labor, fold, "catboost", SMOKE, seed=[0, 0]) for _ in range(2))
    for found in (one, other):
        del found["seconds"]
    np.testing.assert_equal(one, other)


def test_columns_for_catboost_may_have_any_name():
    X = pd.DataFrame({"self": pd.Categorical(["red", None, "blue"]), "size": [1.5, 2.5, 3.5]})
    assert for_catboost(X).fit_transform(X).to_numpy().tolist() == [[1, 1.5], [-1, 2.5], [0, 3.5]]
    assert X["self"][0] == "red"  # the table itself stays as it is


def test_catboost_takes_a_value_as_a_name_and_not_as_a_number():
    pytest.importorskip("catboost")
    # the value in the midst of nine decides; one cut of the codes as numbers could not single it out
    column = pd.Series(list("abcdefghi") * 20, dtype="category")
    y = (column == "e").to_numpy().astype(np.int64)
    table = Table("colours", pd.DataFrame({"colour": column}), y, ("other", "e"))
    split = Split(np.arange(90), np.arange(90, 180))
    stump = {"one_hot_max_size": 10, "depth": 1, "random_strength": 0}
    fitted = classifiers._fitted(table, split, "catboost", stump, replace(SMOKE, n_rounds=1), 0)
    votes = fitted.model.predict_proba(fitted.encode(table.X))[:, 1]
    assert len(np.unique(votes)) == 2
    assert votes[y == 1].min() > votes[y == 0].max()


def test_a_class_that_training_rows_lack_counts_as_an_error_and_breaks_nothing():
    rng = np.random.default_rng(0)
    y = np.array([0, 1] * 20 + [2])
    table = Table("rare", pd.DataFrame({"x": y + 0.1 * rng.normal(size=41)}), y, ("a", "b", "c"))
    for fold in outer_folds(table, 0, 3):
        found = run_classifier(table, fold, "random-forest", SMOKE, seed=[0])
        assert found["error"] == (2 in y[fold.outer.test]) / found["n_test"]


@pytest.mark.parametrize("method", ["decorate-net", "hist-gradient-boosting", "lightgbm", "catboost"])
def test_an_inner_fold_of_one_class_breaks_nothing(method):
    if package := METHODS[method].package:
        pytest.importorskip(package)
    rng = np.random.default_rng(0)
    y = np.array([1] * 2 + [0] * 28)
    table = Table("rare", pd.DataFrame({"x": rng.normal(size=30)}), y, ("a", "b"))
    folds = outer_folds(table, 0, 3)
    assert any(len(np.unique(y[split.train])) == 1 for fold in folds for split in fold.inner)
    for fold in folds:
        found = run_classifier(table, fold, method, SMOKE, seed=[0])
        assert len(found["inner_accuracies"]) == 5
        assert found["n_test"] == 10


def test_the_first_candidate_of_decorate_has_the_default_learner(labor):
    first = CANDIDATES["decorate-tree"][0]
    model, encoder = classifiers._classifier("decorate-tree", dict(first), labor.X, SMOKE, 0, "cpu")
    assert encoder is None
    default = DecorateClassifier(random_state=0).set_params(
        **{name: getattr(model, name) for name in ("n_estimators", "artificial_ratio", "max_iter")}
    )
    found, expected = (one.fit(labor.X, labor.y) for one in (model, default))
    assert [tree.get_params() for tree in found.estimators_] == [
        tree.get_params() for tree in expected.estimators_
    ]
    np.testing.assert_array_equal(found.predict_proba(labor.X), expected.predict_proba(labor.X))


def test_a_finished_job_is_never_run_again(finished, labor, monkeypatch):
    before = {path: path.read_bytes() for path in finished.rglob("jobs/*/*.json")}
    assert len(before) == 2 * len(QUICK)
    monkeypatch.setattr(run, "_run_fold", None)
    gone = finished / "jobs" / "labor" / "independent-0.json"
    gone.unlink()
    arena([labor], finished, methods=QUICK, smoke=True, device="cpu")
    again = {path: path.read_bytes() for path in before}
    first, second = (json.loads(content[gone])["data"]["folds"] for content in (before, again))
    assert [fold["error"] for fold in first] == [fold["error"] for fold in second]
    del before[gone]
    assert all(again[path] == content for path, content in before.items())


def test_a_record_says_what_it_was_made_from_and_with(finished):
    for name in ("labor/diversity-0", "labor/decorate-tree-0"):
        found = json.loads((finished / "jobs" / f"{name}.json").read_text())
        assert list(found) == ["name", "title", "config", "versions", "seconds", "device", "machine", "data"]
        assert found["name"] == name
        assert found["config"]["rows"] == 57
        assert found["config"]["hidden"] == SMOKE.hidden
        assert found["config"]["candidates"] == candidates_of(found["config"]["method"])
        assert ("torch" in found["versions"]) is ("diversity" in name)
        assert found["seconds"] == pytest.approx(
            sum(fold["seconds"] for fold in found["data"]["folds"]), abs=0.01
        )


STANDING = ("learner_accuracy", "r_tl", "r_ll", "optimality")


def quick_fold(job, k, table, settings, device):
    return job, k, {"error": 0.25, "seconds": 1.0, "n_test": 19, **dict.fromkeys(STANDING, 0.5)}


def test_a_job_that_fails_is_reported_and_the_others_go_on(labor, tmp_path, monkeypatch):
    def broken(job, k, *args):
        if job.method == "random-forest" and k == 1:
            return job, k, ValueError("no trees today")
        return quick_fold(job, k, *args)

    monkeypatch.setattr(run, "_run_fold", broken)
    with pytest.raises(
        RuntimeError, match=r"^1 job failed: labor/random-forest-0: ValueError: no trees today$"
    ):
        arena([labor], tmp_path, methods=["random-forest", "extra-trees"], smoke=True)
    assert methods_in(tmp_path) == ["extra-trees"]
    assert (tmp_path / "summary.json").is_file()
    with pytest.raises(RuntimeError, match="no trees today"):  # also where there is nothing to report
        arena([labor], tmp_path / "other", methods=["random-forest"], smoke=True)


def test_the_command_ends_with_2_after_a_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "_run_fold", lambda job, k, *_: (job, k, ValueError("no trees today")))
    command = ["arena", "--sets", "labor", "--methods", "random-forest", "--smoke", "--out", str(tmp_path)]
    assert main(command) == 2
    assert "1 job failed: labor/random-forest-0: ValueError: no trees today" in capsys.readouterr().err


def test_a_job_that_cannot_be_written_does_not_undo_the_others(labor, tmp_path, monkeypatch):
    write = RunStore.write

    def full(self, name, *args, **more):
        if "joint" in name:
            raise OSError("no space left")
        return write(self, name, *args, **more)

    monkeypatch.setattr(RunStore, "write", full)
    with pytest.raises(RuntimeError, match=r"^1 job failed: labor/joint-0: OSError: no space left$"):
        arena([labor], tmp_path, methods=["independent", "joint", "ncl"], smoke=True, device="cpu")
    assert methods_in(tmp_path) == ["independent", "ncl"]
    assert (tmp_path / "summary.json").is_file()


def test_a_job_that_another_process_works_on_is_left_to_it(labor, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "_run_fold", quick_fold)
    with open_store(tmp_path).lock("labor/random-forest-0"), open_store(tmp_path).lock("labor/joint-0"):
        arena([labor], tmp_path, methods=["independent", "joint", "random-forest", "extra-trees"], smoke=True)
    assert methods_in(tmp_path) == ["extra-trees", "independent"]
    said = capsys.readouterr().err
    assert "labor/random-forest-0: left to another process" in said
    assert "labor/joint-0: left to another process" in said
    arena([labor], tmp_path, methods=["joint", "random-forest"], smoke=True)  # the locks were released
    assert len(methods_in(tmp_path)) == 4


class AllAtOnce(ThreadingBackend):
    """A backend of joblib that returns no result before the last, as Ray's does."""

    supports_return_generator = False


@pytest.mark.parametrize("backend", ["threading", "all-at-once"])
def test_folds_in_parallel_are_put_together_in_their_order(backend, labor, tmp_path, monkeypatch):
    register_parallel_backend("all-at-once", AllAtOnce)

    def numbered(job, k, *args):
        time.sleep(0.02 * (SMOKE.n_folds - k))  # the first ends last
        return job, k, quick_fold(job, k, *args)[2] | {"error": k / 10}

    monkeypatch.setattr(run, "_run_fold", numbered)
    with parallel_config(backend=backend):
        arena([labor], tmp_path, methods=["random-forest", "extra-trees"], smoke=True, n_jobs=3)
    for found in read_records(tmp_path):
        assert [fold["error"] for fold in found["data"]["folds"]] == [0, 0.1, 0.2]


def test_a_report_that_fails_is_not_passed_over(labor, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no report today")

    monkeypatch.setattr(run, "_run_fold", quick_fold)
    monkeypatch.setattr(run, "write_report", broken)
    with pytest.raises(ValueError, match="no report today"):
        arena([labor], tmp_path, methods=["random-forest"], smoke=True)


def test_jobs_of_other_settings_are_refused_before_any_work(finished, labor, monkeypatch):
    monkeypatch.setattr(run, "_run_fold", None)
    with pytest.raises(
        ValueError, match=r"without .*-0\.json, or with one of the same settings \(n_folds: 4 here, 3 there\)"
    ):
        arena(
            [labor], finished, methods=["random-forest"], folds=4, smoke=True
        )  # which the store does not hold
    assert not (finished / "jobs" / "labor" / "random-forest-0.json").exists()


@pytest.fixture
def one_job(tmp_path):
    """Return a store with the record of one job."""
    store, job = open_store(tmp_path), ArenaJob("iris", "random-forest", 0)
    store.write(job.name, job.config(vars(SMOKE), {"rows": 150}), {"folds": []}, title="Arena", device="CPU")
    return store


def rewritten(store, **changes):
    """Change the config of the only job of a store."""
    path = store.path("iris/random-forest-0")
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"config": found["config"] | changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": 5}, r"\(hidden: 4 here, 5 there\)"),
        ({"dropout": 0.5}, r"\(dropout: None here, 0\.5 there\)"),  # which this version does not know
        ({"candidates": [{"max_features": 0.9}]}, r"\(candidates: \[\{\}, .* here, \[.*0\.9\}\] there\)"),
        ({"rows": 149}, r"\(rows: 150 here, 149 there\)"),
    ],
)
def test_a_setting_that_differs_is_named(one_job, changes, message):
    facts = {"iris": {"rows": 150}}
    check_store(one_job, SMOKE, facts)
    rewritten(one_job, **changes)
    with pytest.raises(ValueError, match=message):
        check_store(one_job, SMOKE, facts)


def test_records_of_a_method_that_this_version_does_not_know_are_left_alone(one_job):
    rewritten(one_job, method="magic", hidden=5)
    check_store(one_job, SMOKE, {})


def test_results_in_the_format_of_an_earlier_version_are_refused(tmp_path, capsys):
    (tmp_path / "cells" / "iris").mkdir(parents=True)
    assert main(["arena", "--report-only", "--out", str(tmp_path)]) == 2
    assert "`out` must not hold results of an earlier version" in capsys.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_every_method_records_five_candidates_but_the_search_of_the_estimator_and_combined_ones(method):
    found = candidates_of(method, ["ncl", "bagged"])
    if METHODS[method].combined:
        assert found == [{"method": "ncl"}, {"method": "bagged"}]
    elif method == "diverse-cv":
        assert found == [DiverseEnsembleClassifierCV().get_params()]
    else:
        assert len(found) == 5


def test_families_of_tests_are_of_methods_and_share_none():
    asked = [method for some in EXPLICIT for method in some]
    assert len(set(asked)) == len(asked)
    assert set(asked) < set(METHODS)


@pytest.mark.parametrize("changed", [{"smoke": True}, {"candidates": [{"a": 2}]}])
def test_a_report_of_jobs_with_different_settings_is_refused(changed):
    one, other = (record(name, "ncl", [0.1, 0.2]) for name in "ab")
    summarise([one, other])
    other["config"] |= changed
    with pytest.raises(ValueError, match=r"same settings and candidates; got others for ncl on b\.$"):
        summarise([one, other])


def test_jobs_of_another_table_by_the_same_name_are_refused(finished, labor):
    with pytest.raises(ValueError, match=r"rows: 56 here, 57 there"):
        check_store(open_store(finished), SMOKE, {"labor": labor.facts | {"rows": 56}})
    relabelled = labor._replace(y=labor.y[::-1])
    with pytest.raises(ValueError, match=r"checksum: '[0-9a-f]{8}' here, '[0-9a-f]{8}' there"):
        arena([relabelled], finished, methods=QUICK, smoke=True, device="cpu")


def test_the_committed_records_are_of_the_embedded_tables():
    store = open_store(RESULTS)
    # three repeats of 16 methods on 17 small tables, and one on 14 others
    assert len(list(store)) == 16 * (3 * 17 + 14)
    for table in read_suite(["labor", "iris", "glass"]):
        for method in ("independent", "catboost"):
            config = store.read(ArenaJob(table.name, method, 0).name)["config"]
            assert {fact: config[fact] for fact in table.facts} == table.facts


def test_the_summary_pairs_folds_and_says_what_paid_and_what_cost():
    base = [0.3, 0.32, 0.28, 0.31, 0.3]
    records = [
        record("a", "independent", base),
        record("a", "diverse-cv", [error - 0.1 for error in base]),
        record("a", "correlation-0.5", [error + 0.1 for error in base]),
        record("b", "independent", base),
        record("b", "diverse-cv", [error + 0.1 for error in base]),
        record("b", "correlation-0.5", base),
        record("b", "correlation-0.9", [error + 0.1 for error in base]),
        record("b", "ncl", base),
        record("b", "ncl", base, repeat=1),  # nobody else has it
    ]
    summary = summarise(records)
    found = summary["errors"]["a"]["diverse-cv"]
    half = stats.t.ppf(0.975, 4) * np.sqrt(1 / 5 + 1 / 4) * np.std(base, ddof=1)  # Nadeau and Bengio
    assert found == pytest.approx(
        {"mean": 0.202, "sd": np.std(base, ddof=1), "n": 5, "low": 0.202 - half, "high": 0.202 + half}
    )
    assert summary["errors"]["b"]["ncl"]["n"] == 10
    assert summary["against"]["a"]["diverse-cv"]["difference"] == pytest.approx(-0.1)
    assert [summary["paid"][name]["losses"] for name in "ab"] == [
        ["correlation-0.5"],
        ["diverse-cv", "correlation-0.9"],
    ]
    assert sentences(summary)[:2] == [
        "Explicit diversity paid on a (diverse-cv) and cost (correlation-0.5): independent networks err 30.20 %; "
        "diverse-cv 20.20 % (−10.00 points, p = 0.0); correlation-0.5 40.20 % (+10.00 points, p = 0.0).",  # noqa: RUF001
        "Explicit diversity cost on b (diverse-cv, correlation-0.9): independent networks err 30.20 %; "
        "diverse-cv 40.20 % (+10.00 points, p = 0.0); correlation-0.5, the best of 2 fixed diversities, 30.20 % "
        "(0.00 points, p = 1.0); correlation-0.9 40.20 % (+10.00 points, p = 0.0).",
    ]
    assert summary["ranks"]["methods"] == [
        "independent",
        "diverse-cv",
        "correlation-0.5",
    ]  # the others did not run on a
    assert summary["ranks"]["mean_rank"]["independent"] == pytest.approx((2 + 1.5) / 2)


def test_verdicts_are_corrected_over_all_tables_and_methods():
    rng = np.random.default_rng(1)
    base, tables = rng.uniform(0.2, 0.3, 10), "abcd"
    asked = ("ncl", "diverse-cv", "diversity", "correlation-0.5", "correlation-1.0")
    records = [record(name, "independent", base) for name in tables]
    records += [
        record(name, method, base + rng.normal(0.01, 0.02, 10)) for name in tables for method in asked
    ]
    against = summarise(records)["against"]
    corrected, alone = (
        np.ravel([[against[name][method][key] for method in asked] for name in tables])
        for key in ("p_corrected", "p_value")
    )
    np.testing.assert_allclose(corrected, holm(alone))
    assert (corrected > alone).any()


def test_a_difference_on_one_of_many_tables_is_not_called_a_gain():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.3, 10)
    better = base - 0.02 + rng.normal(0, 0.02, 10)
    alone = [record("a", "independent", base), record("a", "diverse-cv", better)]
    paid = summarise(alone)["paid"]["a"]
    assert paid["gains"] == ["diverse-cv"]
    assert 0.05 / 15 < paid["p_values"]["diverse-cv"] < 0.05
    others = [
        record(f"b{k}", method, base + (method != "independent") * rng.normal(0, 0.05, 10))
        for k in range(14)
        for method in ("independent", "diverse-cv")
    ]
    summary = summarise(alone + others)
    among = summary["paid"]["a"]
    assert among["gains"] == []
    assert among["p_values"]["diverse-cv"] == pytest.approx(15 * paid["p_values"]["diverse-cv"])
    assert among["sentence"].startswith("No difference can be told on a:")
    assert f"p = {among['p_values']['diverse-cv']:#.2g})" in among["sentence"]
    tables = ", ".join(sorted(["a", *(f"b{k}" for k in range(14))]))
    assert sentences(summary) == [f"No difference can be told on 15 of 15 data sets: {tables}."]
    assert "*" not in grids(summary)["tests"].rows[0][1]  # a is the first of equally small tables
    assert grids(summarise(alone))["tests"].rows[0][1].endswith("*")


def test_differences_of_noise_are_not_called_a_gain():
    rng = np.random.default_rng(0)
    records = [
        record("a", method, rng.uniform(0.2, 0.3, 10))
        for method in ("independent", "diverse-cv", "correlation-0.5")
    ]
    paid = summarise(records)["paid"]["a"]
    assert paid["gains"] == paid["losses"] == []
    assert paid["sentence"].startswith("No difference can be told on a:")


def test_a_cost_is_reported_even_if_neither_the_search_nor_the_best_diversity_is_significant():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.3, 10)
    records = [
        record("a", "independent", base),
        record("a", "correlation-cv", base + rng.normal(0, 0.02, 10)),
        record("a", "correlation-0.5", base + 0.1 + rng.normal(0, 0.01, 10)),
        record("a", "correlation-1.0", base + rng.normal(0, 0.02, 10)),
    ]
    paid = summarise(records)["paid"]["a"]
    assert (paid["gains"], paid["losses"]) == ([], ["correlation-0.5"])
    assert paid["sentence"].startswith(
        "Explicit diversity cost on a (correlation-0.5): independent networks err "
    )
    assert "; correlation-1.0, the best of 2 fixed diversities, " in paid["sentence"]
    difference = 100 * np.mean([one["error"] for one in records[2]["data"]["folds"]] - base)
    assert f"points, p = {paid['p_values']['correlation-0.5']:#.2g})" in paid["sentence"]
    assert f"(+{difference:.2f} points" in paid["sentence"]


def scores(log_loss):
    return {"log_loss": log_loss, "brier_score": 0.25, "calibration_error": 0.125}


def test_scores_are_shown_for_methods_that_have_them_on_all_tables_and_for_no_others():
    records = [
        *(record(name, "independent", [0.1, 0.2]) for name in "ab"),
        record("a", "ncl", [0.1, 0.2], **scores(0.5)),
        record("b", "ncl", [0.2, 0.3], **scores(0.75)),
        record("a", "joint", [0.3, 0.4], **scores(0.5)),
        record("b", "joint", [0.3, 0.4]),
    ]
    summary = summarise(records)
    assert summary["scores"] == {"a": {"joint": scores(0.5), "ncl": scores(0.5)}, "b": {"ncl": scores(0.75)}}
    found = grids(summary)
    assert found["log_loss"].headings == ["data", "ncl"]
    assert found["log_loss"].rows == [["a", "0.500"], ["b", "0.750"]]
    for grid in (found["ranks"], overview(summary)):
        first = grid.headings.index("log-loss")
        assert grid.headings[first : first + 3] == ["log-loss", "Brier score", "calibration error"]
        shown = {row[0]: row[first : first + 3] for row in grid.rows}
        assert shown == {
            "independent": ["", "", ""],
            "joint": ["", "", ""],
            "ncl": ["0.625", "0.250", "0.125"],
        }
    assert "0.625" in html(summary)
    assert "true class has probability 0 adds a log-loss of 36" in html(summary)
    assert "| ncl | 0.500 |" not in markdown(summary)
    assert "| a | 0.500 |" in markdown(summary)


def test_a_fold_without_a_score_leaves_no_mean():
    one = record("a", "ncl", [0.1, 0.2], **scores(0.5))
    del one["data"]["folds"][1]["log_loss"]
    assert "log_loss" not in summarise([one])["scores"]["a"]["ncl"]
    assert summarise([one])["scores"]["a"]["ncl"]["brier_score"] == 0.25


def test_without_scores_nothing_speaks_of_them():
    summary = summarise(
        [record(name, m, [0.1, 0.2]) for name in "ab" for m in ("independent", "ncl", "joint")]
    )
    assert not set(SCORES) & set(grids(summary))
    for text in (html(summary), markdown(summary), str(overview(summary))):
        assert "log-loss" not in text.lower()


def test_the_overview_of_one_table_has_ranks_and_intervals():
    records = [record("mine", "ncl", [0.28, 0.32, 0.3]), record("mine", "joint", [0.14, 0.16, 0.15])]
    half = 100 * stats.t.ppf(0.975, 2) * np.sqrt(1 / 3 + 1 / 2) * np.std([0.14, 0.16, 0.15], ddof=1)
    assert overview(summarise(records)) == (
        "Means on mine",
        ["method", "rank", "error, %", "95 % interval", "seconds in all"],
        [
            ["joint", "1", "15.00", f"[{15 - half:.2f}, {15 + half:.2f}]", "6"],
            ["ncl", "2", "30.00", f"[{30 - 2 * half:.2f}, {30 + 2 * half:.2f}]", "6"],
        ],
        1,
    )
    with_scores = [record("mine", "ncl", [0.28, 0.32, 0.3], **scores(0.5)), records[1]]
    grid = overview(summarise(with_scores))
    assert grid.headings[4:6] == ["log-loss", "95 % interval"]
    assert [row[4:6] for row in grid.rows] == [["", ""], ["0.500", "[0.500, 0.500]"]]


@pytest.mark.parametrize(
    ("methods", "search"),
    [
        (["diverse-cv", "correlation-cv"], "diverse-cv"),
        (["correlation-cv"], "correlation-cv"),
        (["ncl"], None),
    ],
)
def test_ranks_are_seen_from_the_search_that_has_one(methods, search):
    records = [record(name, m, [0.1, 0.2]) for name in "ab" for m in ("independent", "joint", *methods)]
    headings = grids(summarise(records))["ranks"].headings
    assert [one for one in headings if one.startswith("p against")] == (
        [f"p against {search}"] if search else []
    )
    assert all(len(row) == len(headings) for row in grids(summarise(records))["ranks"].rows)


def test_methods_are_compared_on_the_repeats_they_share_and_keep_the_others():
    late, early = [0.5, 0.52, 0.54], [0.1, 0.11, 0.12]
    records = [
        record("a", "independent", early),
        record("a", "independent", late, repeat=1),
        record("a", "ncl", late, repeat=1),
        record("a", "joint", late, repeat=2),
        *(record("b", method, early) for method in ("independent", "ncl", "joint")),
    ]
    summary = summarise(records)
    found = summary["errors"]["a"]["independent"]
    assert (found["mean"], found["sd"], found["n"]) == pytest.approx(
        (np.mean(early + late), np.std(early + late, ddof=1), 6)
    )
    assert summary["against"]["a"].keys() == {"ncl"}  # joint has nothing to be paired with
    assert summary["against"]["a"]["ncl"]["difference"] == 0
    assert summary["uneven"] == {
        "a": "Methods have run different repeats on a (independent: 0, 1; joint: 2; ncl: 1): errors and ranks are "
        "over all repeats of a method, differences over those that it shares with independent."
    }
    assert summary["uneven"]["a"] in sentences(summary)
    assert summary["uneven"]["a"] in html(summary)


@pytest.mark.parametrize(
    ("width", "shown"), [(5, 1), (15, 1), (16, 2), (29, 2), (30, 3), (80, 3)], ids=lambda value: f"{value}"
)
def test_columns_that_do_not_fit_the_terminal_are_left_out(width, shown, capsys):
    headings = ["method", "error, %", "seconds, all"]  # 6, 8 and 12 characters
    _arena._print(Grid("Means", headings, [["joint", "1.5", "20"]]), width)
    title, heading, row, *note = capsys.readouterr().out.splitlines()
    assert (title, heading) == ("Means", "  ".join(headings[:shown]))
    assert row.split() == ["joint", "1.5", "20"][:shown]
    left_out = ", ".join(headings[shown:])
    assert note == ([f"A wider terminal also shows: {left_out}."] if left_out else [])


def test_a_report_fits_the_terminal_and_is_whole_elsewhere(tmp_path, capsys, monkeypatch):
    for method in ("independent", "joint"):
        one = record("a", method, [0.1, 0.2])
        open_store(tmp_path).write(ArenaJob("a", method, 0).name, one["config"], one["data"], title="Arena")
    command = ["arena", "--report-only", "--out", str(tmp_path)]
    assert main(command) == 0
    assert "seconds in all" in capsys.readouterr().out.splitlines()[1]
    monkeypatch.setattr(_arena, "console", lambda: Console(force_terminal=True, width=40))
    assert main(command) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:4])) <= 40


def test_a_table_whose_methods_share_no_repeat_is_reported(tmp_path, capsys):
    for one in (record("a", "independent", [0.1, 0.2]), record("a", "decorate-tree", [0.1, 0.2], repeat=1)):
        config = one["config"]
        name = ArenaJob("a", config["method"], config["repeat"]).name
        open_store(tmp_path).write(name, config, one["data"], title="Arena")
    assert main(["arena", "--report-only", "--out", str(tmp_path)]) == 0
    assert (
        "Methods have run different repeats on a (independent: 0; decorate-tree: 1)"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "content", [b'{"config": ', b"\xff\xfe", b"{}", b"[]"], ids=["cut off", "no text", "empty", "list"]
)
def test_a_damaged_file_is_reported_and_its_job_run_again(labor, tmp_path, content, monkeypatch):
    monkeypatch.setattr(run, "_run_fold", quick_fold)
    arena([labor], tmp_path, methods=["random-forest", "extra-trees"], smoke=True)
    path = open_store(tmp_path).path("labor/extra-trees-0")
    path.write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"extra-trees-0\.json' must hold .* or left out of a report\."):
        assert methods_in(tmp_path) == ["random-forest"]
    with pytest.warns(RuntimeWarning, match=r"extra-trees-0\.json' must hold .* The job is run again,"):
        arena([labor], tmp_path, methods=["extra-trees"], smoke=True)
    assert methods_in(tmp_path) == ["extra-trees", "random-forest"]


def test_nothing_to_sum_up_says_so():
    with pytest.raises(ValueError, match=r"`records` must hold at least one finished job; got none\."):
        summarise([])


def test_a_report_without_independent_networks_does_not_speak_of_them():
    records = [record("a", "ncl", [0.1, 0.2]), record("a", "joint", [0.1, 0.2], repeat=1)]
    summary = summarise(records)
    assert "tests" not in grids(summary)
    assert sentences(summary) == [
        "Methods have run different repeats on a (joint: 1; ncl: 0): errors and ranks are over all repeats of a "
        "method."
    ]
    assert "p-values" not in html(summary)
    assert "Data set by data set" not in html(summarise(records[:1]))


def test_names_are_escaped_on_the_page():
    records = [record("<script>alert(1)</script>", method, [0.1, 0.2]) for method in QUICK]
    page = html(summarise(records))
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_names_end_no_cell_of_markdown_and_begin_no_tag():
    records = [record("my|t <b>", method, [0.1, 0.2]) for method in QUICK]
    text = markdown(summarise(records))
    rows = [line for line in text.splitlines() if line.startswith("| my")]
    assert len(rows) == len(grids(summarise(records)))
    assert all(line.startswith(r"| my\|t &lt;b> | ") for line in rows)
    assert "<b>" not in text


def test_one_table_shows_where_learners_stand_as_far_as_it_is_known():
    records = [record("mine", method, [0.1, 0.2]) for method in QUICK]
    found = grids(summarise(records))
    assert found["learner_accuracy"].rows == [["mine", *["0.800"] * len(QUICK)]]
    assert found["r_tl"].rows == [["mine", *["0.700"] * len(QUICK)]]
    assert not {"r_ll", "optimality"} & set(found)
    for fold in records[1]["data"]["folds"]:
        fold |= {"r_ll": 0.4, "optimality": 0.9}
    found = grids(summarise(records))
    assert found["r_ll"][1:3] == (["data", QUICK[1]], [["mine", "0.400"]])
    assert found["optimality"].rows == [["mine", "0.900"]]


def test_no_difference_has_no_sign():
    records = [record("a", "independent", [0.1, 0.2]), record("a", "ncl", [0.1, 0.2 - 1e-7])]
    assert grids(summarise(records))["tests"].rows[0][1].strip("*") == "0.00"


def test_the_page_requests_nothing_and_holds_every_table(finished):
    summary = summarise(read_records(finished))
    page = (finished / "arena.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "default-src 'none'" in page
    assert page.count("<table>") == len(grids(summary)) + 1
    assert "Smoke run" in page


def test_the_page_and_the_docs_say_the_same_of_the_bars(finished):
    caption = (
        "Methods beside one dark bar cannot be told apart by Nemenyi's test, which is asked only where Friedman's "
        "finds a difference."
    )
    assert caption in (finished / "arena.html").read_text(encoding="utf-8")
    assert caption in (ROOT / "docs" / "arena.md").read_text(encoding="utf-8")


def test_the_document_is_filled_between_its_marks(finished, tmp_path):
    summary = summarise(read_records(finished))
    names = [f"arena-{name}" for name in grids(summary) if name not in SCORES] + [
        "arena-paid",
        "arena-scores",
        "arena-suite",
    ]
    document = tmp_path / "page.md"
    document.write_text("".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in names))
    fill_document(finished, document)
    once = document.read_text(encoding="utf-8")
    assert all(f"\n- {sentence}\n" in once for sentence in sentences(summary))
    assert "Friedman: p = " in once
    assert "critical difference " in once
    assert "**Log-loss of what a method predicts, mean over folds**" in once
    assert (
        "](images/arena-log-loss-ranks.png)\n\n**Mean ranks by log-loss of 6 methods over 2 data sets" in once
    )
    assert "| krkopt | computed | King and rook against king" in once
    for name in ("arena-ranks", "arena-log-loss-ranks"):
        assert (tmp_path / "images" / f"{name}.png").is_file()
    fill_document(finished, document)
    assert document.read_text(encoding="utf-8") == once


def test_the_docs_hold_the_tables_of_the_results():
    summary = summarise(read_records(RESULTS))
    page = (ROOT / "docs" / "arena.md").read_text(encoding="utf-8")
    assert all(f"\n- {sentence}\n" in page for sentence in sentences(summary))
    for line in markdown(summary).splitlines():
        if line.startswith("|"):
            assert line in page
    assert grids(summary)["ranks"].title in page
    assert (NO_SCORES in page) is not any(key in grids(summary) for key in SCORES)
    assert summary["settings"] | {"n_folds": 10} == vars(Settings())


# Tables that had a part in the making of the search; the page names them.
NOT_BLIND = [
    "glass",
    "heart-c",
    "colic",
    "anneal",
    "autos",
    "credit-a",
    "hepatitis",
    "lymph",
    "splice",
    "wdbc",
    "led7",
]


def test_the_prose_of_the_docs_has_the_numbers_of_the_results():
    summary = summarise(read_records(RESULTS))
    page = (ROOT / "docs" / "arena.md").read_text(encoding="utf-8")
    prose = " ".join(page.partition("## Results")[2].partition("## Did explicit")[0].split())
    ranks = [summary["ranks"], summary["log_loss_ranks"]]
    single = [method for method in ranks[0]["methods"] if not METHODS[method].combined]
    order = [sorted(single, key=own["mean_rank"].get) for own in ranks]
    assert [own[:2] for own in order] == [["tabm", "diverse-cv"], ["diverse-cv", "tabm"]]
    ours, others = ([f"{own['mean_rank'][m]:.2f}" for own in ranks] for m in ("diverse-cv", "tabm"))
    assert "a mean rank of {} by error and {} by log-loss, TabM {} and {}.".format(*ours, *others) in prose
    words = (
        " and ".join(f"{m} ({own['mean_rank'][m]:.2f})" for m in best[2:4])
        for own, best in zip(ranks, order, strict=True)
    )
    assert "Next are {} by error, {} by log-loss.".format(*words) in prose
    mean = {method: f"{100 * error:.2f}" for method, error in ranks[0]["mean"].items()}
    assert (
        f"errs on {mean['diverse-cv']} % in the mean, TabM on {mean['tabm']} %, bagged networks on {mean['bagged']} %, "
        "independent ones on "
        f"{mean['independent']} %, extremely randomised trees on {mean['extra-trees']} %, a random forest on "
        f"{mean['random-forest']} %, CatBoost on {mean['catboost']} %, LightGBM on {mean['lightgbm']} %, DECORATE on "
        f"{mean['decorate-tree']} %."
    ) in prose
    losses = (f"{ranks[1]['mean'][method]:.3f}" for method in ("diverse-cv", "tabm", "bagged", "catboost"))
    told = "Its mean log-loss is {}, that of TabM {}, of bagged networks {}, of CatBoost {}."
    assert told.format(*losses) in prose
    assert (
        "p = {:.2g} by error and {:.2g} by log-loss".format(*(r["friedman"]["p_value"] for r in ranks))
        in prose
    )
    farther = (
        ", ".join(
            m for m in own["methods"] if own["mean_rank"][m] - own["mean_rank"]["diverse-cv"] > critical
        )
        for own in ranks
        if (critical := own["critical_difference"])
    )
    said = f"Nemenyi's critical difference of {ranks[0]['critical_difference']:.2f}, the search is ahead of "
    assert said + "{} by error and of {} by log-loss.".format(*farther) in prose
    error, loss = (own["against"]["diverse-cv"] for own in ranks)
    assert (
        f"it errs {-100 * error['difference']:.2f} points less (95 % interval {-100 * error['high']:.2f} to "
        f"{-100 * error['low']:.2f}; p = {error['p_value']:.2g}, {error['p_corrected']:.2g} after Holm's correction)"
    ) in prose
    assert (
        f"its log-loss is {-loss['difference']:.3f} lower ({-loss['high']:.3f} to {-loss['low']:.3f}; "
        f"p = {loss['p_value']:.2g}, {loss['p_corrected']:.2g} corrected)"
    ) in prose
    real, blind = (
        [
            rank_methods({table: summary[score][table] for table in tables})
            for score in ("errors", "log_losses")
        ]
        for tables in (
            [table for table in ranks[0]["tables"] if table in SUITES["real"]],
            [table for table in ranks[0]["tables"] if table not in NOT_BLIND],
        )
    )
    assert [len(one[0]["tables"]) for one in (real, blind)] == [19, 20]
    by_error = real[0]["mean_rank"]
    leaders, search = (
        [f"{own['mean_rank'][method]:.2f}" for own in real] for method in ("tabm", "diverse-cv")
    )
    assert (
        "mean ranks of {} by error and {} by log-loss. The search has {} and {}: ".format(*leaders, *search)
        + f"by error extra-trees ({by_error['extra-trees']:.2f}) and catboost ({by_error['catboost']:.2f}) are ahead"
    ) in prose
    assert [sorted(single, key=own["mean_rank"].get).index("diverse-cv") for own in real] == [3, 1]
    error, loss = (own["against"]["diverse-cv"] for own in blind)
    assert (
        f"it errs {-100 * error['difference']:.2f} points less ({number(-100 * error['high'], '.2f')} to "
        f"{-100 * error['low']:.2f}), and its log-loss is {-loss['difference']:.3f} lower ({-loss['high']:.3f} to "
        f"{-loss['low']:.3f})."
    ) in prose
    higher = [ranks[1]["against"][method]["difference"] for method in ("diversity", "diversity-0.5")]
    assert "The log-loss is {:.3f} and {:.3f} higher".format(*higher) in prose
    chosen = [
        fold["chosen"]["diversity"]
        for record in read_records(RESULTS)
        if record["config"]["method"] == "diverse-cv"
        for fold in record["data"]["folds"]
    ]
    assert f"in {chosen.count(0)} of {len(chosen)} fits it chose none" in prose
    for table in ranks[0]["tables"]:
        errors = {method: 100 * summary["errors"][table][method]["mean"] for method in single}
        best = min(errors, key=errors.__getitem__)
        said = f"{table} ({errors['diverse-cv']:.1f} % against {errors[best]:.1f} % by {best})"
        assert (said in prose) is (errors["diverse-cv"] > errors[best] + 2), table
    combined = [own["mean_rank"][name] for own in ranks for name in ("greedy-selection", "stack")]
    told = "{:.2f} (`greedy-selection`) and {:.2f} (`stack`) by error, {:.2f} and {:.2f} by log-loss"
    assert told.format(*combined) in prose
    assert f"({mean['diversity']}, {mean['diversity-0.5']} and {mean['independent']} %)" in prose
    assert f"`correlation-cv`, errs on {mean['correlation-cv']} %" in prose
    rows = [summary["data"][table]["rows"] for table in ranks[0]["tables"]]
    small = sum(n < 1000 for n in rows)
    assert f"has {len(rows)} tables of {min(rows)} to {max(rows):,} rows and three folds" in prose
    assert (
        f"three repeats on the {small} tables of fewer than 1,000 rows, one on the {len(rows) - small}"
        in prose
    )
    assert not summary["uneven"]
    (told,) = sentences(summary)
    assert told.startswith(f"No difference can be told on {len(rows)} of {len(rows)} data sets: ")
    assert "On no single table does a method with explicit diversity differ from independent networks" in page
    other = (ROOT / "docs" / "does-diversity-pay.md").read_text(encoding="utf-8")
    assert f"**On no table of [the arena](arena.md)**, of {len(rows)}," in other
    assert ranks[1]["against"]["diverse-cv"]["p_corrected"] < 0.05


def nominal_file(path, n=60):
    """Write a table with a number, a nominal column and missing values in both."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    colour = rng.choice(["red", "blue", "", "green"], size=n)
    rows = [
        f"{'' if k % 7 == 3 else round(value, 3)},{colour[k]},{'yes' if value > 0 else 'no'}"
        for k, value in enumerate(x)
    ]
    path.write_text("\n".join(["x,colour,label", *rows]) + "\n")


def test_the_command_runs_on_a_file_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nominal_file(Path("mine.csv"))
    methods = "independent, diversity,random-forest, stack"
    command = ["arena", "--data", "mine.csv", "--target", "label", "--methods", methods, "--smoke"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "[4/4, " in said.err
    assert "mine/stack-0: " in said.err
    out = said.out
    assert "on mine: independent networks err" in out
    title, headings, *rows = out.splitlines()[:6]
    assert title == "Means on mine"
    assert headings.split("  ")[0] == "method"
    assert re.split(" {2,}", headings) == [
        *("method", "rank", "error, %", "95 % interval", "log-loss", "95 % interval"),
        *("Brier score", "calibration error", "seconds in all"),
    ]
    assert sorted(row.split()[0] for row in rows) == ["diversity", "independent", "random-forest", "stack"]
    assert Path("out/arena-mine-smoke/arena-scores.png").is_file()
    assert all(len(row) == len(headings) for row in rows)
    assert "mine/random-forest-0" in open_store(Path("out/arena-mine-smoke"))
    assert main(["arena", "--report-only", "--out", "out/arena-mine-smoke"]) == 0
    assert capsys.readouterr().out == out


def test_the_command_leaves_out_columns_and_names_methods_that_are_not_installed(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    nominal_file(Path("mine.csv"))
    monkeypatch.setattr("counterpoint.arena.USUAL", ("extra-trees", "catboost"))
    monkeypatch.setattr("counterpoint.arena.methods.find_spec", lambda name: None)
    assert main(["arena", "--data", "mine.csv", "--target", "label", "--drop", "colour", "--smoke"]) == 0
    assert (
        'catboost is left out: install what is needed with: pip install "counterpoint[arena]".'
        in capsys.readouterr().err
    )
    (found,) = read_records(Path("out/arena-mine-smoke"))
    assert (found["config"]["method"], found["config"]["nominal"]) == ("extra-trees", 0)


def test_intervals_of_errors_stay_between_0_and_100_percent():
    found = summarise([record("a", "ncl", [0.0, 0.9, 1.0], **scores(0.1))])["errors"]["a"]["ncl"]
    assert (found["low"], found["high"]) == (0, 1)


def test_results_of_a_file_are_not_mixed_with_those_of_the_suite():
    assert _arena._folder(None, smoke=False) == Path("results/arena")
    assert _arena._folder(Path("data/mine.csv"), smoke=False) == Path("out/arena-mine")
    assert _arena._folder(Path("data/mine.csv"), smoke=True) == Path("out/arena-mine-smoke")
    assert _arena._folder(None, smoke=True) == Path("out/arena-smoke")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "magic", "--sets", "iris"], "`methods` must be among one-net, independent,"),
        (["--methods", "", "--sets", "iris", "--smoke"], "`methods` must be among one-net, independent,"),
        (["--sets", "irises"], "`sets` must be among labor,"),
        (["--sets", "labor", "--folds", "40"], "`--folds` must be at most 37 for labor,"),
        (["--sets", "iris", "--jobs", "0"], "`n_jobs` must be at least 1, or -1 for all cores; got 0."),
        (["--sets", "iris", "--jobs", "-3"], "`n_jobs` must be at least 1, or -1 for all cores; got -3."),
        (["--suite", "uci16"], "`--suite` must be one of 'uci15', 'real', 'all'; got 'uci16'."),
        (
            ["--sets", "iris", "--smoke", "--methods", "ncl,stack"],
            "`methods` must name at least two methods for stack to combine; got 1.",
        ),
        (["--sets", "iris", "--drop", "id"], "`--drop` must be given together with `--data`."),
        (["--data", "mine.csv"], "`--data` and `--target` must be given together; got one of them."),
        (["--sets", "iris", "--suite", "uci15"], "`--sets` must not be given together with `--suite`."),
        (
            ["--report-only", "--out", "nowhere"],
            f"`out` must hold at least one finished job; got '{Path('nowhere', 'jobs')}' with none.",
        ),
        (["--report-only", "--methods", "ncl"], "`--methods` has no meaning with `--report-only`."),
        (["--report-only", "--sets", "iris"], "`--sets` has no meaning with `--report-only`."),
        (["--report-only", "--data-dir", "."], "`--data-dir` has no meaning with `--report-only`."),
        (["--report-only", "--repeats", "1"], "`--repeats` has no meaning with `--report-only`."),
    ],
)
def test_a_bad_option_is_one_sentence(options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["arena", *options]) == 2
    assert message in capsys.readouterr().err


def test_the_help_names_every_method():
    assert ", ".join(METHODS) == _arena.METHOD_NAMES


def test_a_table_too_small_for_inner_folds_is_refused():
    tiny = Table("tiny", pd.DataFrame({"x": np.arange(6.0)}), np.array([0, 1] * 3), ("a", "b"))
    with pytest.raises(
        ValueError, match=r"^tiny must have a class with at least 3 rows in each training part; .* 3\.$"
    ):
        arena([tiny], Path("nowhere"), folds=3)


def test_a_method_whose_package_is_missing_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("counterpoint.arena.methods.find_spec", lambda name: None)
    assert main(["arena", "--sets", "iris", "--methods", "catboost"]) == 2
    assert "`catboost` is needed here; install it with: pip install catboost." in capsys.readouterr().err
