"""The defaults are those that were measured, and the page shows the measurement."""

import inspect
import json
from pathlib import Path

import pytest

from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleClassifierCV
from counterpoint.estimators.diverse import DEFAULT_DIVERSITY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("choose_defaults")


def test_the_page_shows_the_tables_of_the_results(study):
    record = json.loads(study.RESULTS.read_text(encoding="utf-8"))
    page = study.PAGE.read_text(encoding="utf-8")
    assert all(table in page for table in study.markdown(record).split("\n\n"))


def test_the_default_is_not_notably_worse_than_independent_training_anywhere(study):
    # held out, on the rows of the choice: the default against the same nets trained independently
    record = json.loads(study.RESULTS.read_text(encoding="utf-8"))
    paths = [step for step in record["diversity"] if step["settings"]["warmup_epochs"] == 50]
    column = paths[0]["diversities"].index(DEFAULT_DIVERSITY)
    assert len(paths) == 2
    for step in paths:
        assert step["mean"][column] >= step["mean"][0]
        assert min(row["difference_percent"][column] for row in step["tables"].values()) >= -1


@pytest.mark.parametrize("kind", [DiverseEnsembleClassifier, DiverseEnsembleClassifierCV])
def test_the_defaults_are_those_chosen(study, kind):
    record = json.loads(study.RESULTS.read_text(encoding="utf-8"))
    defaults = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    assert {name: defaults[name] for name in record["chosen"]} == record["chosen"]
    assert defaults["epochs"] == record["config"]["epochs"]
    assert defaults["n_estimators"] == record["config"]["n_estimators"]
    assert record["check"][0]["diversity"] == DEFAULT_DIVERSITY
