"""The default diversity is the one that was judged, and the page shows the measurement."""

import json

import numpy as np
import pytest
from scipy import stats

from counterpoint.estimators import DiverseEnsembleClassifier
from counterpoint.estimators._settings import count_batch
from counterpoint.records import number
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


def test_what_is_said_of_the_dial_is_on_record(script, record):
    page = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    means = {(study["hidden_units"], study["epochs"]): study["mean"] for study in record["studies"]}

    def share(units, arm, against=script.BASELINE, measure="log_loss"):
        mean = means[units, 100]
        return 100 * (mean[arm][measure]["mean"] / mean[against][measure]["mean"] - 1)

    assert f"The log-loss of the default is {share(64, script.DEFAULT):.0f} % *higher*." in page
    assert f"have a {-share(64, script.DEFAULT_SOFT):.0f} % *lower* log-loss than independent ones" in page
    assert f"The log-loss falls by {-share(4, script.DEFAULT):.0f} % and the ECE by a third." in page
    assert -share(4, script.DEFAULT, measure="calibration_error") == pytest.approx(100 / 3, abs=2)
    assert share(4, "0") / share(4, script.DEFAULT) == pytest.approx(0.75, abs=0.03)
    gain = means[1, 100][script.DEFAULT]["accuracy"]["difference"]
    assert f"**Networks of one unit gain {gain:.0f} points**" in page
    alone = [means[4, 100][arm]["learners_on_training_rows_percent"] for arm in ("0", script.DEFAULT, "1")]
    assert (
        "on {:.0f} % of their training rows at dial 0, on {:.0f} % at the default and on {:.0f} % at 1".format(
            *alone
        )
        in page
    )


def test_fewer_epochs_lower_the_log_loss_where_the_page_says(script, record):
    longer, shorter = (
        next(s for s in record["studies"] if (s["hidden_units"], s["epochs"]) == (64, epochs))
        for epochs in (100, 30)
    )

    def losses(study):
        return {name: own[script.DEFAULT]["log_loss"]["mean"] for name, own in study["tables"].items()}

    before, after = losses(longer), losses(shorter)
    assert [name for name in before if after[name] > before[name]] == ["iris", "segment"]
    less = 100 * (1 - np.mean([*after.values()]) / np.mean([*before.values()]))
    page = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    assert f"Averaged over the tables, it is {less:.0f} % lower." in page


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
    words = "search {:.2f} %, the default {:.2f} %, a random forest {:.2f} % and extremely randomised trees {:.2f} %"
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

    def less(ours, theirs, score, digits):
        """Return by how much less an arm has of a score, with the interval over the tables."""
        both = [
            [np.mean(one["arms"][arm][score]) for one in table_record["judging"].values()]
            for arm in (ours, theirs)
        ]
        change = np.subtract(*both[::-1])
        half = stats.t.ppf(0.975, len(change) - 1) * stats.sem(change)
        ends = (change.mean(), change.mean() - half, change.mean() + half)
        return [number(end, f".{digits}f") for end in ends]

    search, default, forest, plain = (
        table_script.SEARCH,
        table_script.DEFAULT,
        table_script.FOREST,
        table_script.PLAIN,
    )
    words = "lower than the default by {} (95 % interval over the tables {} to {})"
    assert words.format(*less(search, default, "log_loss", 3)) in page
    assert "than a random forest by {} ({} to {})".format(*less(search, forest, "log_loss", 3)) in page
    words = "The search errs {} points less than the default ({} to {})"
    assert words.format(*less(search, default, "error", 2)) in page
    assert "and {} less than the forest ({} to {})".format(*less(search, forest, "error", 2)) in page
    words = "changes the error by {} points ({} to {})"
    assert words.format(*less(plain, default, "error", 2)) in page
    one, ours = table_record["large"]
    assert (
        f"fifteen networks takes {ours['seconds']:.0f} s on one thread and has a log-loss of {ours['log_loss']:.3f}"
        in page
    )
    assert f"one network, takes {one['seconds']:.0f} s and has {one['log_loss']:.3f}" in page
