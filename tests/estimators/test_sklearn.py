"""The contract of scikit-learn, with no expected failures."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleClassifierCV, TableEncoder

SMALL = DiverseEnsembleClassifier(n_estimators=2, hidden_layer_sizes=(16,), epochs=12, learning_rate=0.03)
PAPER = clone(SMALL).set_params(loss="correlation")
SEARCH = DiverseEnsembleClassifierCV(
    n_estimators=2, hidden_layer_sizes=(16,), epochs=8, learning_rate=0.05, diversities=(0.5,), cv=2
)


@pytest.mark.filterwarnings("ignore:The least populated class")  # its rounded data have a class of one row
@parametrize_with_checks([SMALL, PAPER, SEARCH, TableEncoder(), TableEncoder(n_pieces=4, standardize=False)])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y.map({0: "setosa", 1: "versicolor", 2: "virginica"})


def test_it_works_in_a_pipeline_and_a_grid_search(table):
    model = clone(SMALL).set_params(random_state=0, batch_size=32)
    pipeline = make_pipeline(MinMaxScaler(), model)
    search = GridSearchCV(pipeline, {"diverseensembleclassifier__diversity": [0.0, 0.9]}, cv=3).fit(*table)
    assert search.best_score_ > 0.9
    assert set(search.predict(table[0])) == {"setosa", "versicolor", "virginica"}


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(table):
    model = clone(SMALL).set_params(random_state=0)
    alone = cross_val_score(model, *table, cv=3)
    np.testing.assert_allclose(cross_val_score(model, *table, cv=3, n_jobs=2), alone)


def test_its_probabilities_can_be_calibrated(table):
    model = CalibratedClassifierCV(clone(SMALL).set_params(random_state=0), cv=2).fit(*table)
    assert model.score(*table) > 0.9


def test_names_of_columns_are_kept_and_checked(table):
    X, y = table
    model = clone(SMALL).fit(X, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])


def test_a_polars_frame_is_a_table(table):
    polars = pytest.importorskip("polars")
    X, y = table
    model = clone(SMALL).set_params(random_state=0)
    expected = model.fit(X, y).predict_proba(X)
    frame = polars.DataFrame({name: X[name].to_numpy() for name in X})
    np.testing.assert_array_equal(model.fit(frame, y).predict_proba(frame), expected)


def test_rows_in_another_order_and_repeated_rows_give_the_same_ensemble():
    # more rows than a batch holds, so that the batches differ but for the merging of rows
    X, y = make_classification(200, 5, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    model = clone(SMALL).set_params(random_state=0, batch_size=32)
    weighted = model.fit(X, y, weight).predict_proba(X)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight.astype(int)))
    np.testing.assert_array_equal(model.fit(X[order], y[order]).predict_proba(X), weighted)


def test_a_random_state_is_enough_to_repeat_a_fit_and_no_global_one_is_touched(table):
    import torch

    X, y = table
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    first = clone(SMALL).set_params(random_state=3).fit(X, y).predict_proba(X)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    torch.rand(5)
    second = clone(SMALL).set_params(random_state=3).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    assert np.abs(clone(SMALL).set_params(random_state=4).fit(X, y).predict_proba(X) - first).max() > 1e-3
