"""The default diversity is the one that was judged, and the page shows the measurement."""

import json

import numpy as np
import pytest

from counterpoint.estimators import DiverseEnsembleClassifier
from counterpoint.estimators._settings import count_batch
from counterpoint.training import DiversityLoss


@pytest.fixture(scope="module")
def script(load_benchmark):
    return load_benchmark("choose_defaults")


@pytest.fixture(scope="module")
def record(script):
    return json.loads(script.RESULTS.read_text(encoding="utf-8"))


def of_default_length(record):
    epochs = record["config"]["defaults"]["epochs"]
    return [study for study in record["studies"] if study["epochs"] == epochs]


def test_the_page_shows_the_tables_of_the_record(script, record):
    page = script.PAGE.read_text(encoding="utf-8")
    assert all(table in page for table in script.markdown(record).split("\n\n"))


def test_the_dial_was_judged_with_the_default_networks_and_optimizer(script, record):
    judged = record["config"]["defaults"]
    assert judged == script.DEFAULTS
    defaults = DiverseEnsembleClassifier().get_params()
    assert {name: defaults[name] for name in judged if name != "batch_size"} == {
        name: value for name, value in judged.items() if name != "batch_size"
    }
    assert count_batch(defaults["batch_size"], script.ROWS) == judged["batch_size"]


def test_the_default_loss_has_the_dial_that_was_judged(record):
    model = DiverseEnsembleClassifier()
    loss = model._loss()
    assert type(loss) is DiversityLoss
    assert loss.voting == "geometric"
    assert loss.effective_diversity(model.n_estimators) == record["config"]["diversity"]


def test_the_judged_sizes_include_networks_that_fit_and_networks_that_underfit(script, record):
    fit = {
        study["hidden_units"]: study["mean"][script.BASELINE]["learners_on_training_rows_percent"]
        for study in of_default_length(record)
    }
    assert fit[64] > 95
    assert min(fit.values()) < 90


def test_the_default_is_not_less_accurate_than_independent_training_by_more_than_its_noise(script, record):
    for study in of_default_length(record):
        accuracy = study["mean"][script.DEFAULT]["accuracy"]
        assert accuracy["difference"] > -2 * accuracy["standard_error"], study["hidden_units"]


def test_the_soft_vote_helps_the_probabilities_of_large_networks_and_harms_those_of_small_ones(
    script, record
):
    # what the page says, in words, of the log-loss against independent training
    for study in of_default_length(record):
        sign = 1 if study["hidden_units"] == 64 else -1
        geometric, soft = (study["mean"][arm]["log_loss"] for arm in (script.DEFAULT, script.DEFAULT_SOFT))
        assert sign * geometric["difference"] > 2 * geometric["standard_error"], study["hidden_units"]
        assert -sign * soft["difference"] > 2 * soft["standard_error"], study["hidden_units"]


def test_what_is_said_of_the_earlier_default_is_on_record(script):
    path = script.RESULTS.with_name("choose_defaults_correlation.json")
    checks = json.loads(path.read_text(encoding="utf-8"))["check"]
    tables = next(check["tables"] for check in checks if check["hidden_layer_sizes"] == [4]).values()
    ours, theirs = (
        sum(table[arm]["mean"] for table in tables) / len(tables) for arm in ("default", "independent")
    )
    page = script.PAGE.read_text(encoding="utf-8")
    assert f"right on {ours:.2f} % with it and on {theirs:.2f} % with independent training" in page


@pytest.fixture(scope="module")
def table_script(load_benchmark):
    return load_benchmark("choose_table_defaults")


@pytest.fixture(scope="module")
def table_record(table_script):
    return json.loads(table_script.RESULTS.read_text(encoding="utf-8"))


def test_the_page_shows_the_table_of_the_table_record(table_script, table_record):
    assert table_script.markdown(table_record) in table_script.PAGE.read_text(encoding="utf-8")
    assert not set(table_script.DEVELOPMENT) & set(table_script.JUDGING)
    assert list(table_record["judging"]) == sorted(table_script.JUDGING)


def test_what_is_said_of_the_judged_tables_is_on_record(table_script, table_record):
    page = " ".join(table_script.PAGE.read_text(encoding="utf-8").split())
    arms = (table_script.SEARCH, table_script.DEFAULT, table_script.FOREST, table_script.TREES)
    error = {
        arm: {name: np.mean(one["arms"][arm]["error"]) for name, one in table_record["judging"].items()}
        for arm in arms
    }
    words = "{:.2f} %, the default {:.2f} %, a random forest {:.2f} % and extremely randomised trees {:.2f} %"
    assert words.format(*(np.mean([*error[arm].values()]) for arm in arms)) in page
    behind = {
        arm: [name for name, own in error[arm].items() if own > error[table_script.FOREST][name] + 1]
        for arm in arms[:2]
    }
    assert behind[table_script.DEFAULT] == ["autos", "bupa", "splice", "tae"]
    assert behind[table_script.SEARCH] == ["autos", "satimage", "splice", "tae"]
    loss = [
        np.mean([one["arms"][arm]["log_loss"] for one in table_record["judging"].values()])
        for arm in (table_script.PLAIN, table_script.DEFAULT, table_script.SEARCH)
    ]
    assert "from {:.3f} to {:.3f}. The search tries both and has {:.3f}.".format(*loss) in page
