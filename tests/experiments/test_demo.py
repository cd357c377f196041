"""The demo: what is printed and drawn are the assessments of held-out rows."""

import json

import pytest

from counterpoint import Assessment
from counterpoint.datasets import load
from counterpoint.experiments import demo


@pytest.fixture(scope="module")
def iris():
    return demo.train(load("iris"), seed=0, with_nets=True)


def test_the_ensembles_are_judged_on_held_out_rows(iris):
    assessments, ways = iris
    assert [a.name for a in assessments] == ["bagging", "random forest", "independent nets", "diverse nets"]
    assert {a.n_samples for a in assessments} == {50}
    assert {a.n_learners for a in assessments} == {demo.N_LEARNERS}
    assert all(a.vote.value > 0.85 for a in assessments)
    assert set(ways) == {"independent nets", "diverse nets"}


def test_the_same_seed_gives_the_same_numbers(iris):
    again, _ = demo.train(load("iris"), seed=0, with_nets=True)
    assert [a.vote for a in again] == [a.vote for a in iris[0]]


def test_the_files_hold_what_was_measured(iris, tmp_path, capsys):
    paths = demo.demo(tmp_path, data="iris", seed=0)
    assert [path.name for path in paths] == ["report.html", "tradeoff.png", "tradeoff.svg", "demo.json"]
    record = json.loads((tmp_path / "demo.json").read_text())
    for a in iris[0]:
        assert Assessment.from_dict(record["data"]["assessments"][a.name]).vote == a.vote
    assert len(record["data"]["training"]["diverse nets"]["r_tl"]) > 1
    printed = capsys.readouterr().out
    assert "diverse nets" in printed
    assert "report.html" in printed
    assert 'class="way' in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", ["breast-w", "labor"])
def test_nominal_and_missing_values_are_handled(name):
    assessments, _ = demo.train(load(name), seed=0, with_nets=False)
    assert len(assessments) == 2
    assert all(a.vote.value > 0.6 for a in assessments)


def test_without_torch_the_demo_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.demo(tmp_path, data="iris", seed=0)
    assert 'pip install "counterpoint[train]"' in capsys.readouterr().out


def test_the_explanation_is_honest_about_more_than_two_classes(iris):
    assessments, _ = iris
    assert "3 classes" in demo.explain(assessments)
    assert "Explicit diversity changed the vote" in demo.explain(assessments)
    assert "Explicit diversity" not in demo.explain(assessments[:2])
