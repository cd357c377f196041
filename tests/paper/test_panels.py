"""The study of panels: what it claims, what it keeps, and that it runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from paper.panels import JUDGES, SMOKE, Votes, compare_halves, draw, grid, read_judges, reproduce

RECORD = json.loads((Path(__file__).parents[2] / "results" / "panels.json").read_text(encoding="utf-8"))


def off_by(one, key):
    halves = one["halves"]
    return 100 * (np.mean(halves[key]) - np.mean(halves["observed"]))


def test_the_predicted_vote_is_within_a_point_and_a_half_where_independence_is_far_off():
    misses = {name: abs(off_by(one, "predicted")) for name, one in RECORD["data"].items()}
    assert len(misses) >= 7
    assert max(misses.values()) < 1.5
    assert all(off_by(one, "independent") > 5 for one in RECORD["data"].values())
    assert {one["n_classes"] for one in RECORD["data"].values()} == {2, 3, 7, 10}


def test_the_record_holds_no_decision_of_a_judge():
    judges = RECORD["data"][JUDGES]
    lengths = {len(values) for values in judges["halves"].values()}
    assert lengths == {2 * RECORD["config"]["n_cuts"]}
    kept = {
        "n_learners",
        "n_items",
        "n_classes",
        "mean_learner",
        "best",
        "best_learner",
        "decision",
        "difference",
        "vote",
        "if_independent",
        "error_correlation",
    }
    assert set(judges) == kept | {"effective", "independence", "halves"}


def test_judges_are_read_in_the_order_shown_first(tmp_path):
    rows = ["pair_id,source,judge,order,decision,truth"]
    rows += ["p1,law,a,0,A>B,A>B", "p1,law,a,1,A>B,A>B", "p2,law,a,0,A=B,B>A", "p2,law,a,1,B>A,B>A"]
    rows += ["p1,law,b,0,B>A,A>B", "p1,law,b,1,B>A,A>B", "p2,law,b,0,B>A,B>A", "p2,law,b,1,A>B,B>A"]
    path = tmp_path / "judges.csv"
    path.write_text("\n".join(rows))
    truth, votes, names = read_judges(path)
    assert names == ["a", "b"]
    assert truth.tolist() == ["A>B", "B>A"]
    assert votes.tolist() == [["A>B", "A=B"], ["B>A", "B>A"]]


def test_learners_that_share_no_errors_are_predicted_as_independent():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    votes = np.where(rng.random((5, 2000)) < 0.7, truth, 1 - truth)
    one = compare_halves(Votes(truth, votes), 1, seed=0)
    assert off_by(one, "predicted") == pytest.approx(0, abs=2)
    assert off_by(one, "independent") == pytest.approx(0, abs=2)


def test_the_study_runs_without_the_judges_in_smoke_runs_only(tmp_path, monkeypatch):
    monkeypatch.delenv("COUNTERPOINT_DATA", raising=False)
    paths = reproduce(tmp_path, smoke=True)
    assert [path.name for path in paths] == ["panels.json", "panels.md"]
    record = json.loads(paths[0].read_text(encoding="utf-8"))
    assert [row[0] for row in grid(record).rows] == [SMOKE]
    assert draw(record) == {}
    with pytest.raises(ValueError, match=r"`data` must be a folder with panels/judgebench.csv; got None\."):
        reproduce(tmp_path)


def test_the_picture_shows_the_judges():
    (figure,) = draw(RECORD).values()
    votes = RECORD["data"][JUDGES]["effective"]
    title = (
        f"6 judges are worth {votes['value']:.1f} of their best "
        f"(95 %: {votes['low']:.1f} to {votes['high']:.1f})"
    )
    assert figure.axes[0].get_title(loc="left") == title
