"""The demo: what is printed and drawn are the assessments of held-out rows and the verdicts of the library."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from counterpoint import Assessment
from counterpoint.cli import _demo as demo
from counterpoint.datasets import DATASETS, load
from counterpoint.estimators.candidates import Scores, best_settings, results, verdict
from counterpoint.estimators.paired import PairedTest

FORESTS = ["bagged trees", "random forest"]
NETWORKS = ["1 unit, independent", "1 unit, diverse", "64 units, independent", "64 units, diverse"]


@pytest.fixture(scope="module", autouse=True)
def _short():
    """Train for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "MOST_EPOCHS", 15)
        patch.setattr(demo, "MOST_STEPS", 30)
        patch.setattr(demo, "LEARNING_RATE", 0.1)
        yield


@pytest.fixture(scope="module")
def iris(_short):
    return demo.train(load("iris"), seed=0, with_networks=True)


def search_that_found(independent, diverse, p_value):
    """Return a fitted search with these accuracies on the folds and this p-value."""
    votes = np.array([independent, diverse])
    candidates = [{"diversity": d, "weight_decay": 0.1} for d in (0.0, demo.DIVERSITY)]
    settings = best_settings(candidates, [20], 1 - votes[:, None])
    search = demo._search(1, 100, 0)
    search.test_ = PairedTest(float(np.subtract(diverse, independent).mean()), 0.01, p_value)
    search.cv_results_ = results(settings.tried, Scores(*[votes] * len(Scores._fields)))
    search.verdict_ = verdict(settings, votes, search.test_, "the vote is right on {:.1f} %", "log-loss")
    return search


def test_the_ensembles_are_judged_on_held_out_rows(iris):
    assert [a.name for a in iris.assessments] == FORESTS + NETWORKS
    assert {a.n_samples for a in iris.assessments} == {50}
    assert {a.n_learners for a in iris.assessments} == {demo.N_LEARNERS}
    assert all(a.vote.value > 0.6 for a in iris.assessments)
    assert list(iris.trajectories) == NETWORKS


def test_the_library_compares_networks_of_each_size_on_folds(iris):
    assert [c.hidden_units for c in iris.comparisons] == list(demo.HIDDEN_UNITS)
    for comparison in iris.comparisons:
        assert set(comparison.accuracy) == {0.0, demo.DIVERSITY}
        assert comparison.test["difference"] == pytest.approx(
            comparison.accuracy[demo.DIVERSITY] - comparison.accuracy[0.0]
        )
        assert f"p = {comparison.test['p_value']:.2g})." in comparison.verdict


def test_the_same_seed_gives_the_same_numbers(iris):
    again = demo.train(load("iris"), seed=0, with_networks=True)
    assert [a.vote for a in again.assessments] == [a.vote for a in iris.assessments]
    assert again.comparisons == iris.comparisons


def test_the_files_hold_what_was_measured(iris, tmp_path, capsys):
    paths = demo.demo(tmp_path, data="iris", seed=0)
    assert [path.name for path in paths] == ["report.html", "tradeoff.png", "tradeoff.svg", "demo.json"]
    record = json.loads((tmp_path / "demo.json").read_text())
    for a in iris.assessments:
        assert Assessment.from_dict(record["data"]["assessments"][a.name]).vote == a.vote
    assert len(record["data"]["training"]["1 unit, diverse"]["r_tl"]) > 1
    verdicts = [comparison["verdict"] for comparison in record["data"]["comparisons"]]
    assert verdicts == [comparison.verdict for comparison in iris.comparisons]
    printed = " ".join(capsys.readouterr().out.split())
    for words in ("64 units, diverse", "log-loss", "report.html", *map(str, iris.comparisons)):
        assert words in printed
    assert 'class="trajectory' in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("independent", "diverse", "p_value", "words"),
    [
        ([0.8, 0.8], [0.9, 0.9], 0.01, "Explicit diversity pays"),
        ([0.8, 0.8], [0.9, 0.9], 0.2, "No difference can be told"),
        ([0.9, 0.9], [0.8, 0.8], 0.01, "Explicit diversity costs"),
    ],
)
def test_the_sentence_is_the_verdict_on_the_numbers(iris, independent, diverse, p_value, words):
    comparison = demo.Comparison.from_search(search_that_found(independent, diverse, p_value), 1)
    *_, sentence = demo.explain(iris.assessments, [comparison])
    assert sentence.startswith(f"1 hidden unit: {words}")
    assert f"right on {100 * diverse[0]:.1f} %" in sentence
    assert f"p = {p_value:g}" in sentence


def test_an_explanation_without_networks_says_nothing_of_diversity_in_training(iris):
    assert not any("explicit diversity" in text.lower() for text in demo.explain(iris.assessments[:2], []))


def test_the_best_ensembles_are_named_and_all_of_equals(iris):
    trees, forest = iris.assessments[:2]
    better = replace(
        forest,
        correlations=replace(forest.correlations, r_ll=trees.r_ll - 0.1),
        probabilities=replace(forest.probabilities, log_loss=trees.probabilities.log_loss - 0.01),
    )
    names = demo.explain([trees, better], [])[1]
    assert "Most diverse (lowest r_LL): 'random forest'." in names
    assert "Lowest log-loss: 'random forest'." in names
    equals = [replace(trees, name=name) for name in ("one", "two", "three")]
    assert "Best vote: 'one'." in demo.explain(equals[:1], [])[1]
    assert "Best vote: 'one' and 'two'." in demo.explain(equals[:2], [])[1]
    assert "Best vote: 'one', 'two' and 'three'." in demo.explain(equals, [])[1]


@pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if source.embedded])
def test_every_embedded_data_set_runs(name, monkeypatch):
    monkeypatch.setattr(demo, "MOST_EPOCHS", 2)
    monkeypatch.setattr(demo, "MOST_STEPS", 4)
    monkeypatch.setattr(demo, "N_LEARNERS", 3)
    trained = demo.train(load(name), seed=0, with_networks=True)
    assert [a.name for a in trained.assessments] == FORESTS + NETWORKS
    assert len(demo.explain(trained.assessments, trained.comparisons)) == 5
    assert demo.draw(trained.assessments, trained.trajectories, name).axes


def test_a_large_table_gets_fewer_epochs(monkeypatch):
    monkeypatch.setattr(demo, "MOST_EPOCHS", 100)
    monkeypatch.setattr(demo, "MOST_STEPS", 1000)
    assert demo._settings(1540)["epochs"] == 40  # 25 batches
    assert demo._settings(100)["epochs"] == 100
    assert demo._settings(10**6)["epochs"] == 1


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    with demo._one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_without_torch_the_demo_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.demo(tmp_path, data="iris", seed=0)
    printed = capsys.readouterr().out
    assert 'pip install "counterpoint[train]"' in " ".join(printed.split())
    assert "hidden unit" not in printed
    record = json.loads((tmp_path / "demo.json").read_text())
    assert list(record["data"]["assessments"]) == FORESTS
