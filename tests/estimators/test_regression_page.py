"""The page on regression shows the measurements of the record, and what it says of them holds."""

import json

import numpy as np
import pytest

from counterpoint.estimators import DiverseEnsembleRegressor, DiverseEnsembleRegressorCV


@pytest.fixture(scope="module")
def script(load_benchmark):
    return load_benchmark("compare_regressors")


@pytest.fixture(scope="module")
def record(script):
    return json.loads(script.RESULTS.read_text(encoding="utf-8"))


def studies(record):
    return {(one["hidden_units"], one["epochs"]): one["tables"] for one in record["studies"]}


def mean(tables, arm, what="scores"):
    return float(np.mean([one[arm][what] for one in tables.values()]))


def test_the_page_shows_the_tables_of_the_record(script, record):
    page = script.PAGE.read_text(encoding="utf-8")
    assert all(table in page for table in script.markdown(record).split("\n\n"))


@pytest.mark.parametrize("kind", [DiverseEnsembleRegressor, DiverseEnsembleRegressorCV])
def test_the_defaults_are_those_that_were_measured(record, kind):
    own = kind().get_params()
    judged = record["config"]["defaults"]
    assert {name: own[name] for name in judged} == judged
    assert DiverseEnsembleRegressor()._loss().effective_diversity(15) == record["config"]["diversity"]


def test_small_networks_gain_and_those_of_the_default_size_do_not(record):
    found = {size: mean(t, "default") - mean(t, "0") for size, t in studies(record).items()}
    assert found[64, 100] < found[64, 30] < 0 < found[4, 100] < found[1, 100]
    for arm in ("0", "0.5", "default", "1"):
        assert mean(studies(record)[64, 30], arm) > mean(studies(record)[64, 100], arm)


def test_single_networks_need_a_share_of_their_own_loss(record):
    single = {
        size: {arm: mean(t, arm, "single") for arm in t["diabetes"]} for size, t in studies(record).items()
    }
    assert single[4, 100]["1"] < 0
    assert single[1, 100]["1"] < 0
    for units in (64, 4):
        assert single[units, 100]["default"] > 0.8 * single[units, 100]["0"]


def test_the_defaults_explain_more_than_a_forest_and_stopping_early_is_why(script, record):
    found = {
        name: np.mean([np.mean(one) for one in tables.values()])
        for name, tables in record["variants"].items()
    }
    forest = np.mean([np.mean(one) for one in record["forest"].values()])
    page = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    assert f"explains {100 * found['default']:.1f} % of the variance in the mean over the tables" in page
    assert f"a random forest with its defaults {100 * forest:.1f} %" in page
    assert (
        found["default"] > found["without pieces"] > found["all epochs, without pieces"] > found["all epochs"]
    )


def test_the_rule_of_the_search_is_no_worse_than_one_with_a_margin(script, record):
    page = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    assert f"on {len(record['rules']['config']['rows'])} tables" in page
    sentences = {
        64: "the choice explains {:.1f} % of the variance of rows that took no part in it, and under that rule "
        "{:.1f} % ({:+.2f} ± {:.2f} points over the tables)",
        4: "for networks of 4 units it is {:.1f} % and {:.1f} % ({:+.2f} ± {:.2f})",
    }
    for study in record["rules"]["studies"]:
        ours, theirs = (
            100 * np.array([np.mean(table[rule]["scores"]) for table in study["tables"].values()])
            for rule in script.RULES
        )
        difference, error = (ours - theirs).mean(), (ours - theirs).std(ddof=1) / np.sqrt(len(ours))
        assert difference > -error
        sentence = sentences[study["hidden_units"]]
        assert sentence.format(ours.mean(), theirs.mean(), difference, error) in page
