"""When training ends, and what the defaults are for small and large tables."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_classification

from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleRegressor, _settings, _stopping
from counterpoint.training import JointLoss


def small(**more):
    settings = {"n_estimators": 4, "hidden_layer_sizes": (16,), "epochs": 30, "learning_rate": 0.02}
    return DiverseEnsembleClassifier(**settings | {"random_state": 0} | more)


@pytest.fixture(scope="module")
def noise():
    """Return labels that have little to do with the features."""
    return make_classification(300, 8, n_informative=2, n_redundant=0, flip_y=0.7, random_state=0)


def test_training_ends_early_on_noise_and_predicts_no_worse(noise):
    X, y = noise
    early, late = (small(early_stopping=stops).fit(X[::2], y[::2]) for stops in (True, False))
    assert len(early.history_) < 15
    assert len(late.history_) == 30
    assert early.score(X[1::2], y[1::2]) >= late.score(X[1::2], y[1::2])


def test_the_networks_are_those_of_a_training_with_that_many_epochs(noise):
    early = small().fit(*noise)
    given = small(early_stopping=False, epochs=len(early.history_)).fit(*noise)
    np.testing.assert_array_equal(early.predict_proba(noise[0]), given.predict_proba(noise[0]))


def test_the_choice_is_reproducible(noise):
    assert len(small().fit(*noise).history_) == len(small().fit(*noise).history_)


@pytest.mark.parametrize(
    ("settings", "n_rows"),
    [
        ({"loss": "correlation"}, 150),  # which needs a read-out
        ({"loss": lambda logits, y, *weight: JointLoss()(logits, y, *weight)}, 150),
        ({}, 40),  # too few rows
    ],
)
def test_training_takes_all_epochs_where_folds_cannot_tell(settings, n_rows):
    X, y = load_iris(return_X_y=True)
    some = np.arange(0, 150, 150 // n_rows)[:n_rows]
    assert len(small(epochs=4, **settings).fit(X[some], y[some]).history_) == 4


def test_a_class_of_one_row_is_no_obstacle():
    X, y = load_iris(return_X_y=True)
    y = y.copy()
    y[0] = 7
    assert small(epochs=5).fit(X, y).score(X, y) > 0.5


def test_a_warm_start_goes_on_for_all_epochs(noise):
    model = small(epochs=8, warm_start=True).fit(*noise)
    assert len(model.fit(*noise).history_) == 8


def test_a_large_table_sets_rows_aside_and_has_no_pieces(noise, monkeypatch):
    for module in (_stopping, _settings):
        monkeypatch.setattr(module, "LARGE", 200)
    model = small(epochs=60).fit(*noise)
    assert model.history_.best_epoch is not None
    assert len(model.history_) == model.history_.best_epoch + 5  # the patience
    assert model.encoder_.n_pieces == 0
    assert len(small(epochs=60, early_stopping=False).fit(*noise).history_) == 60


def test_the_number_of_networks_with_pieces_is_half_of_them(noise):
    model = small().fit(*noise)
    seen = torch.stack([network[0].weight for network in model.estimators_])
    assert seen.sum(1).tolist() == [72, 8, 72, 8]  # eight features of eight pieces
    assert not any(p.requires_grad for p in (network[0].weight for network in model.estimators_))


def test_what_a_network_does_not_see_does_not_change_its_output(noise):
    X, y = noise
    model = small(epochs=3, early_stopping=False).fit(X, y)
    x = torch.as_tensor(model.encoder_.transform(X), dtype=torch.float32)
    changed = x.clone()
    changed[:, 8:] += 1.0
    differs = [bool((network(x) != network(changed)).any()) for network in model.estimators_]
    assert differs == [True, False, True, False]


def test_a_file_keeps_the_pieces(noise, tmp_path):
    X, y = noise
    model = small(epochs=3, n_pieces=3).fit(X, y)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.encoder_.get_feature_names_out().tolist() == model.encoder_.get_feature_names_out().tolist()


def test_pieces_must_not_change_in_a_warm_start(noise):
    model = small(epochs=2, warm_start=True).fit(*noise)
    with pytest.raises(ValueError, match="`n_pieces` must stay 'auto' when training continues; got 0"):
        model.set_params(n_pieces=0).fit(*noise)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_pieces": -1}, "`n_pieces` must be at least 0; got -1"),
        ({"n_pieces": "many"}, "`n_pieces` must be 'auto' or a number; got 'many'"),
        ({"batch_size": "all"}, "`batch_size` must be 'auto' or a number; got 'all'"),
        ({"early_stopping": "auto"}, "`early_stopping` must be"),
    ],
)
def test_a_bad_parameter_is_named(noise, settings, match):
    with pytest.raises((ValueError, TypeError), match=match):
        small(**settings).fit(*noise)


def numbers(**more):
    settings = {"n_estimators": 4, "hidden_layer_sizes": (16,), "epochs": 40, "learning_rate": 0.02}
    return DiverseEnsembleRegressor(**settings | {"random_state": 0} | more)


def test_regressors_stop_early_on_noise_and_predict_no_worse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = X[:, 0] + 3 * rng.normal(size=300)
    early, late = (numbers(early_stopping=stops).fit(X[::2], y[::2]) for stops in (True, False))
    assert len(early.history_) < 20
    assert len(late.history_) == 40
    assert early.score(X[1::2], y[1::2]) > late.score(X[1::2], y[1::2])
    given = numbers(early_stopping=False, epochs=len(early.history_)).fit(X[::2], y[::2])
    np.testing.assert_array_equal(early.predict(X), given.predict(X))


def test_regressors_have_the_batches_and_pieces_of_classifiers():
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = numbers(epochs=2).fit(X, X[:, 0] ** 2)
    assert model.encoder_.n_pieces == 8
    assert numbers(epochs=2, n_pieces=0).fit(X, X[:, 0]).encoder_.n_pieces == 0
    with pytest.raises(ValueError, match="`batch_size` must be 'auto' or a number; got 'big'"):
        numbers(batch_size="big").fit(X, X[:, 0])


def test_many_rows_of_a_regressor_are_set_aside(monkeypatch):
    monkeypatch.setattr(_stopping, "LARGE", 100)
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = numbers(epochs=3).fit(X, X[:, 0])
    assert model.history_.best_epoch is not None
