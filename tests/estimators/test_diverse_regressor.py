import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleRegressor
from counterpoint.exceptions import LearnerWarning

SMALL = DiverseEnsembleRegressor(
    n_estimators=3, hidden_layer_sizes=(16,), epochs=25, learning_rate=0.02, random_state=0
)


def small(module=None, **more):
    return clone(SMALL).set_params(module=module, **more)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(500, n_features=5, noise=0.5, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


@parametrize_with_checks([SMALL])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_learns_and_predicts_the_mean_of_its_learners(friedman):
    X, y, X_test, y_test = friedman
    model = small().fit(X, y)
    assert model.score(X_test, y_test) > 0.85
    learners = model.learner_predict(X_test)
    assert learners.shape == (3, 200)
    np.testing.assert_allclose(learners.mean(axis=0), model.predict(X_test))
    assert "squared_error" in model.history_.columns


def test_the_default_diversity_is_one_less_the_share_of_a_learner(friedman):
    X, y, *_ = friedman
    default, fixed = (small(epochs=3, **more).fit(X, y) for more in ({}, {"diversity": 2 / 3}))
    np.testing.assert_array_equal(default.predict(X), fixed.predict(X))


def test_the_dial_makes_learners_that_differ(friedman):
    X, y, *_ = friedman
    spread = [small(diversity=d).fit(X, y).learner_predict(X).std(axis=0).mean() for d in (0.0, 1.0)]
    assert spread[1] > 1.5 * spread[0]


def test_the_unit_of_the_target_does_not_matter(friedman):
    X, y, *_ = friedman
    found = small(epochs=5).fit(X, y).predict(X)
    other = small(epochs=5).fit(X, 1000 * y - 7e4).predict(X)
    np.testing.assert_allclose(other, 1000 * found - 7e4, rtol=1e-4)


def test_a_row_of_weight_two_is_the_row_twice(friedman):
    X, y, *_ = friedman
    weight = np.where(np.arange(300) < 100, 2.0, 1.0)
    weight[-20:] = 0
    rows = np.concatenate([np.arange(280), np.arange(100)])
    weighted = small(epochs=3).fit(X, y, weight).predict(X)
    np.testing.assert_array_equal(weighted, small(epochs=3).fit(X[rows], y[rows]).predict(X))


def test_a_validation_set_stops_the_training_early(friedman):
    X, y, *_ = friedman
    model = small(validation_fraction=0.2, patience=2, epochs=200, learning_rate=0.05).fit(X, y)
    assert len(model.history_) < 200
    assert model.history_.best_epoch == 1 + int(model.history_["val_loss"].argmin())


def test_a_warm_start_continues_with_the_networks_and_the_scale_of_the_targets(friedman):
    X, y, *_ = friedman
    model = small(epochs=5, warm_start=True).fit(X, y)
    before, scale = model.score(X, y), model.target_scaler_.scale_
    model.fit(X, y)
    assert model.score(X, y) > before
    assert model.target_scaler_.scale_ == scale
    with pytest.raises(ValueError, match="`n_estimators` must stay 3 when training continues; got 4"):
        model.set_params(n_estimators=4).fit(X, y)
    np.testing.assert_array_equal(model.learner_predict(X).shape, (3, 300))


def test_a_frame_with_nominal_and_missing_values_goes_in_as_it_is():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "colour": rng.choice(["red", "blue"], 300)})
    y = frame["size"] * np.where(frame["colour"] == "red", 1, -1)
    frame.loc[::50, "size"] = np.nan
    model = small(epochs=60, n_pieces=0).fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert model.encoder_.get_feature_names_out().tolist() == [
        "size", "size_missing", "colour_blue", "colour_red"
    ]  # fmt: skip


def test_networks_of_the_user(friedman):
    X, y, *_ = friedman

    def tanh(n_features, n_outputs):
        return nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_outputs))

    assert small(tanh).fit(X, y).score(X, y) > 0.6
    mixed = small([tanh(5, 1), nn.Linear(5, 1)]).fit(X, y)
    assert mixed.learner_predict(X).shape == (2, 300)
    with pytest.raises(ValueError, match="put out one row of 1 number for each sample"):
        small([nn.Linear(5, 2)]).fit(X, y)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(MinMaxScaler(), small(epochs=8, learning_rate=0.01))
    search = GridSearchCV(pipeline, {"diverseensembleregressor__diversity": [0.0, 0.9]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.3
    assert cross_val_score(pipeline, X, y, cv=2, scoring="neg_mean_squared_error").mean() > -4500


def test_a_saved_model_predicts_the_same(friedman, tmp_path):
    X, y, X_test, _ = friedman
    model = small(epochs=3, diversity=0.5).fit(X, y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = DiverseEnsembleRegressor.load(path)
    np.testing.assert_array_equal(again.predict(X_test), model.predict(X_test))
    assert (again.diversity, again.history_ == model.history_) == (0.5, True)
    assert again.set_params(warm_start=True).fit(X, y).score(X, y) > model.score(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_file_of_the_other_task_is_refused(friedman, tmp_path):
    X, y, *_ = friedman
    path = tmp_path / "model.safetensors"
    small(epochs=1).fit(X, y).save(path)
    with pytest.raises(ValueError, match="file of a DiverseEnsembleClassifier; got that of a regressor"):
        DiverseEnsembleClassifier.load(path)
    DiverseEnsembleClassifier(n_estimators=2, epochs=1).fit(X, y > 14).save(path)
    with pytest.raises(ValueError, match="file of a DiverseEnsembleRegressor; got that of a classifier"):
        DiverseEnsembleRegressor.load(path)


def test_learners_that_end_constant_are_named(friedman):
    X, y, *_ = friedman
    frozen = nn.Linear(5, 1)
    nn.init.zeros_(frozen.weight)
    frozen.requires_grad_(requires_grad=False)
    with pytest.warns(LearnerWarning, match="Learner 1 has collapsed"):
        small([nn.Linear(5, 1), frozen], epochs=2).fit(X, y)


def test_a_constant_target_is_predicted(friedman):
    X, *_ = friedman
    model = small(epochs=10).fit(X, np.full(300, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, atol=0.2)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (np.ones((300, 2)), r"`y` must hold one number for each sample; got shape \(300, 2\)"),
        (np.array(["a"] * 300), "`y` must hold numbers; got 'a' in row 0"),
        (np.r_[np.nan, np.ones(299)], "y contains NaN"),
        (np.linspace(-1e300, 1e300, 300), "`y` must hold numbers whose variance is finite"),
    ],
)
def test_targets_that_are_not_numbers_are_refused(friedman, target, error):
    with pytest.raises(ValueError, match=error):
        small().fit(friedman[0], target)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"diversity": 1.5}, "`diversity` must be between 0 and 1; got 1.5"),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
        ({"patience": 2}, "`patience` must be None without `validation_fraction`; got 2"),
        ({"weight_decay": -1.0}, "`weight_decay` must be between 0 and"),
    ],
)
def test_settings_out_of_range_are_refused_and_a_fitted_model_is_kept(friedman, settings, error):
    X, y, *_ = friedman
    model = small(epochs=1).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=error):
        model.set_params(**settings).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_targets_that_can_be_trained_on_can_be_assessed_on(friedman):
    X, y, *_ = friedman
    model = small(epochs=2).fit(X, y)
    known = model.assess(X, y.round(2)).r2
    for same in (list(map(Decimal, y.round(2).astype(str))), y.round(2).astype(str)):
        assert model.assess(X, same).r2 == known
    assert np.isfinite(model.assess(X, y > 14).squared_error.value)
    for wrong, message in (
        (["no"] * 300, "`y` must hold numbers; got 'no' in row 0"),
        (y * np.nan, "Input y contains NaN"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            model.assess(X, wrong)


def test_it_assesses_itself(friedman):
    X, y, X_test, y_test = friedman
    model = small().fit(X, y)
    assessment = model.assess(X_test, y_test)
    assert assessment.r2.value == pytest.approx(model.score(X_test, y_test))
    assert (assessment.n_learners, assessment.name) == (3, "DiverseEnsembleRegressor")


@pytest.mark.parametrize("encoded", [False, True])
def test_an_onnx_file_predicts_the_same(friedman, tmp_path, encoded):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y, X_test, _ = friedman
    model = small(epochs=3).fit(X, 50 * y - 1000)
    path = tmp_path / "model.onnx"
    model.to_onnx(path, encoded=encoded)
    session = onnxruntime.InferenceSession(path)
    features = model.encoder_.transform(X_test) if encoded else X_test
    (found,) = session.run(["predictions"], {"features": features.astype(np.float32)})
    np.testing.assert_allclose(found, model.predict(X_test), rtol=1e-4, atol=0.05)
