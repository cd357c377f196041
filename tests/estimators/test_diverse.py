import copy
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV
from torch import nn

from counterpoint import assess_estimator
from counterpoint.datasets import load
from counterpoint.estimators import (
    DiverseEnsembleClassifier,
    DiverseEnsembleClassifierCV,
    _reading,
    _training,
)
from counterpoint.estimators._rows import distinct_rows
from counterpoint.exceptions import LearnerWarning
from counterpoint.measures import combine, log_loss
from counterpoint.training import CorrelationLoss, IndependentLoss


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:300], y[:300], X[300:], y[300:]


def small(module=None, **more):
    settings = {"n_estimators": 3, "hidden_layer_sizes": (16,), "epochs": 20, "random_state": 0}
    return DiverseEnsembleClassifier(module, **settings | {"learning_rate": 0.01, "batch_size": 64} | more)


def make_net(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_classes))


def make_one_logit(n_features, n_classes):
    return nn.Linear(n_features, 1)


class Pair(nn.Linear):
    """A network that puts out more than logits."""

    def forward(self, x):
        return super().forward(x), x


@given(st.integers(0, 2**32 - 1))
def test_distinct_rows_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (rng.integers(1, 40), rng.integers(1, 4))).astype(float)
    X[rng.random(X.shape) < 0.1] = np.inf  # in place of NaN, which is not equal to itself
    codes, weight = rng.integers(0, 2, len(X)), rng.integers(0, 3, len(X)).astype(float)
    kept = weight > 0
    table, where = np.unique(np.column_stack([codes, X])[kept], axis=0, return_inverse=True)
    found = distinct_rows(np.where(np.isinf(X), np.nan, X), codes, weight)
    np.testing.assert_array_equal(found.X, np.where(np.isinf(table), np.nan, table)[:, 1:])
    np.testing.assert_array_equal(found.codes, table[:, 0])
    np.testing.assert_array_equal(found.weight, np.bincount(where.ravel(), weight[kept]))


def test_a_large_table_is_held_once(monkeypatch):
    monkeypatch.setattr(_reading, "_PART", 2**11)
    X = np.random.default_rng(0).normal(size=(60_000, 40)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.int8)
    model = small(epochs=1, batch_size=4_096)
    model.fit(X[:100], y[:100])  # what the first call imports and keeps
    tracemalloc.start()
    try:
        model.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 1.6 * X.nbytes
    finally:
        tracemalloc.stop()


def test_a_table_in_parts_is_the_table_as_a_whole(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).round(1).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 5, len(X))
    y = (X[:, 0] > 0).astype(np.int64)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    settings = {"categorical_features": [3], "n_pieces": 3, "epochs": 3, "validation_fraction": 0.2}
    whole = small(**settings).fit(X, y)
    monkeypatch.setattr(_reading, "_PART", 64)
    monkeypatch.setattr(_training, "_ROWS_AT_ONCE", 20)
    parts = small(**settings).fit(mapped, y)
    np.testing.assert_allclose(parts.encoder_.transform(X), whole.encoder_.transform(X), atol=1e-12)
    np.testing.assert_allclose(parts.predict_proba(mapped), whole.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(parts.history_["val_loss"], whole.history_["val_loss"], atol=1e-6)
    double = small(**settings).fit(X.astype(np.float64), y)
    np.testing.assert_array_equal(double.predict_proba(X), parts.predict_proba(X))


@pytest.mark.parametrize(
    "loss", ["diversity", "correlation", "independent", "joint", "ncl", CorrelationLoss(0.9)]
)
@pytest.mark.parametrize("voting", ["auto", "soft", "hard", "geometric"])
def test_every_loss_learns(iris, loss, voting):
    model = small(loss=loss, voting=voting, batch_size=32).fit(*iris)
    assert model.score(*iris) > 0.9
    assert hasattr(model, "predict_proba") == (voting != "hard")
    if voting != "hard":
        np.testing.assert_allclose(model.predict_proba(iris[0]).sum(axis=1), 1)


def test_the_default_diversity_is_one_less_the_share_of_a_learner(iris, tmp_path):
    default, fixed = (small(**more).fit(*iris) for more in ({}, {"diversity": 1 - 1 / 3}))
    np.testing.assert_array_equal(default.predict_proba(iris[0]), fixed.predict_proba(iris[0]))
    default.save(tmp_path / "model.safetensors")
    again = DiverseEnsembleClassifier.load(tmp_path / "model.safetensors")
    assert (again.diversity, again.voting, again.voting_) == (None, "auto", "geometric")
    np.testing.assert_array_equal(again.predict_proba(iris[0]), default.predict_proba(iris[0]))


@pytest.mark.parametrize(
    ("loss", "vote"),
    [
        ("diversity", "geometric"),
        ("independent", "soft"),
        ("joint", "soft"),
        ("ncl", "soft"),
        ("correlation", "geometric"),
    ],
)
def test_the_vote_is_the_one_that_the_loss_trains(iris, loss, vote):
    X, y = iris
    model = small(loss=loss).fit(X, y)
    assert model.voting_ == vote
    proba, voting = model.vote_learners(X)
    assert voting == vote
    np.testing.assert_allclose(combine(proba, voting=voting), model.predict_proba(X), atol=1e-12)
    assessment = model.assess(X, y)
    assert assessment.voting == vote
    assert assessment.vote.value == model.score(X, y)
    assert assessment.probabilities.log_loss == pytest.approx(log_loss(y, model.predict_proba(X)))


def test_another_vote_may_be_asked_for_after_the_fit(iris):
    X, y = iris
    model = small().fit(X, y)
    geometric = model.predict_proba(X)
    soft = model.set_params(voting="soft").predict_proba(X)
    np.testing.assert_allclose(soft, model.learner_predict_proba(X).mean(axis=0))
    assert np.abs(soft - geometric).max() > 1e-3
    np.testing.assert_array_equal(model.set_params(voting="auto").predict_proba(X), geometric)


def test_an_unknown_vote_is_refused_after_the_fit_too(iris):
    model = small(epochs=2).fit(*iris).set_params(voting="loud")
    with pytest.raises(ValueError, match="`voting` must be one of 'auto'"):
        model.predict_proba(iris[0])


def test_a_search_and_its_choice_may_vote_differently(iris):
    X, y = iris
    settings = {"n_estimators": 3, "epochs": 3, "cv": 2, "diversities": (0.5,), "random_state": 0}
    search = DiverseEnsembleClassifierCV(voting="soft", **settings).fit(X, y)
    search.best_estimator_.set_params(voting="hard")
    assert search.best_estimator_.voting_ == "hard"
    assert search.voting_ == "soft"
    assert assess_estimator(search, X, y).voting == "soft"
    assert assess_estimator(search, X, y).vote.value == search.score(X, y)


def test_a_few_rows_of_one_class_do_not_undo_what_partial_fit_has_learnt(iris):
    X, y = iris
    model = small(loss="correlation")
    for _ in range(40):
        model.partial_fit(X, y, classes=[0, 1, 2])
    before = model.score(X, y)
    assert before > 0.9
    assert model.partial_fit(X[:6], y[:6]).score(X, y) > before - 0.1


def test_diversity_0_is_independent_training(iris):
    X, y = iris
    dial, alone = small(diversity=0.0).fit(X, y), small(loss="independent").fit(X, y)
    np.testing.assert_array_equal(dial.learner_predict_proba(X), alone.learner_predict_proba(X))


def test_the_vote_is_that_of_the_learners(iris):
    X, y = iris
    model = small(voting="soft").fit(X, y)
    learners = model.learner_predict_proba(X)
    assert learners.shape == (3, 150, 3)
    np.testing.assert_allclose(model.predict_proba(X), learners.mean(axis=0))
    hard = small(voting="hard").fit(X, y)
    votes = np.eye(3)[hard.learner_predict_proba(X).argmax(axis=2)].sum(axis=0)
    np.testing.assert_array_equal(hard.predict(X), votes.argmax(axis=1))


def test_a_hard_vote_has_no_probabilities_as_that_of_voting_classifier(iris):
    for model in (small(voting="hard"), small(voting="hard", epochs=1).fit(*iris)):
        with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as error:
            model.predict_proba(iris[0])
        assert str(error.value.__cause__).startswith("predict_proba is not available when voting='hard'")
    assert model.set_params(voting="soft").predict_proba(iris[0]).shape == (150, 3)


def test_the_estimators_are_ordinary_modules_that_say_what_the_learners_say(iris):
    X, y = iris
    model = small().fit(X, y)
    x = torch.as_tensor(model.encoder_.transform(X), dtype=torch.float32)
    with torch.no_grad():
        found = np.stack([net(x).softmax(-1).numpy() for net in model.estimators_])
    np.testing.assert_allclose(found, model.learner_predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["diversity", "correlation"])
def test_the_estimators_are_built_once_for_each_fit(iris, loss):
    X, y = iris
    model = small(loss=loss, epochs=2, warm_start=True).fit(X, y)
    before = model.estimators_
    assert all(one is other for one, other in zip(before, model.estimators_, strict=True))
    weights = torch.nn.utils.parameters_to_vector(before[0].parameters())
    for train in (model.fit, model.partial_fit):
        now = torch.nn.utils.parameters_to_vector(train(X, y).estimators_[0].parameters())
        assert not torch.equal(weights, now)
        weights = now
    again = pickle.loads(pickle.dumps(model))
    assert "_modules" not in again.__dict__
    assert torch.equal(torch.nn.utils.parameters_to_vector(again.estimators_[0].parameters()), weights)


def test_a_failed_fit_leaves_the_estimators_as_they_were(iris):
    X, y = iris
    model = small(epochs=2, warm_start=True).fit(X, y)
    before = model.estimators_
    with pytest.raises(FloatingPointError):
        model.set_params(learning_rate=1e14).fit(X, y)
    np.testing.assert_array_equal(
        *(
            torch.nn.utils.parameters_to_vector(one[0].parameters()).detach()
            for one in (before, model.estimators_)
        )
    )


def test_a_grid_search_over_losses_takes_a_list_of_grids(iris):
    X, y = iris
    grids = [{"loss": ["independent"]}, {"loss": ["diversity", "ncl"], "diversity": [0.5, 1.0]}]
    search = GridSearchCV(small(epochs=2), grids, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 5
    one = {"loss": ["independent", "diversity"], "diversity": [0.5]}
    with pytest.raises(
        ValueError, match=r"`diversity` must be None with the loss 'independent'.*list of grids"
    ):
        GridSearchCV(small(epochs=2), one, cv=2, error_score="raise").fit(X, y)


def test_assess_says_where_the_ensemble_stands(iris):
    X, y = iris
    model = small().fit(X, y)
    assessment = model.assess(X, y)
    assert assessment.vote.value == model.score(X, y)
    assert assessment.n_learners == 3
    assert assessment.samples == "held_out"
    assert model.assess(X, y, samples="training").samples == "training"


def test_the_history_has_an_epoch_for_each(iris):
    model = small(epochs=12, warmup_epochs=5, loss="correlation").fit(*iris)
    assert model.history_["epoch"].tolist() == list(range(1, 13))
    losses = model.history_["loss"]
    assert losses[4] > 0 > losses[5]  # from the cross-entropy to minus a correlation


def test_the_correlation_loss_sees_no_shift_and_the_read_out_mends_it():
    # With small steps the nets come to correlate with the truth on one side of one half, and stay there.
    data = load("breast-w")
    X, y = data.X.fillna(data.X.mean()).to_numpy(), data.y
    settings = {"learning_rate": 0.003, "epochs": 150, "hidden_layer_sizes": (4,), "batch_size": 32}
    model = small(loss="correlation", diversity=0, **settings)
    without = copy.deepcopy(model.fit(X[::2], y[::2]))
    without.ensemble_.readout = None
    assert model.history_["r_tl"][-1] > 0.9
    assert without.score(X[1::2], y[1::2]) < 0.5
    assert model.score(X[1::2], y[1::2]) > 0.93


def test_more_diversity_makes_learners_that_are_less_alike():
    X, y = make_classification(300, 6, n_informative=4, flip_y=0.1, random_state=0)
    alike = [
        small(diversity=diversity, n_estimators=5, epochs=40).fit(X, y).history_["r_ll"][-1]
        for diversity in (0.0, 1.0)
    ]
    assert alike[0] > alike[1] + 0.1


def test_lam_and_diversity_are_the_same_dial(iris):
    # the critical lambda of three learners is 1/3
    X, y = iris
    paper = partial(small, loss="correlation")
    expected = paper(diversity=0.6).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(paper(lam=0.2).fit(X, y).predict_proba(X), expected, atol=1e-4)
    summed = paper(lam=0.2, reduction="sum").fit(X, y).predict_proba(X)  # also the same for three
    assert summed.shape == expected.shape


def test_the_epoch_of_the_least_validation_loss_is_kept_and_patience_ends(cancer):
    X, y, *_ = cancer
    model = small(validation_fraction=0.3, patience=3, epochs=200, learning_rate=0.02, diversity=0.5).fit(
        X, y
    )
    history = model.history_
    assert len(history) < 200
    assert len(history) == history.best_epoch + 3
    assert history["val_loss"].argmin() == history.best_epoch - 1


def test_the_warm_up_counts_in_the_best_epoch(cancer):
    X, y, *_ = cancer
    history = small(validation_fraction=0.3, epochs=12, warmup_epochs=4, diversity=0.5).fit(X, y).history_
    assert history.best_epoch > 4
    assert history["val_loss"][4:].argmin() == history.best_epoch - 5
    assert history["epoch"].tolist() == list(range(1, 13))


def test_a_warm_start_goes_on(iris):
    X, y = iris
    model = small(epochs=5, warm_start=True).fit(X, y)
    before = model.history_["r_tl"][-1]
    weights = [p.detach().clone() for p in model.ensemble_.parameters()]
    model.fit(X, y)
    assert model.history_["r_tl"][0] > before - 0.05
    assert model.history_["r_tl"][-1] > before
    cold = small(epochs=5).fit(X, y)
    assert all(torch.equal(a, b) for a, b in zip(weights, cold.ensemble_.parameters(), strict=True))


def test_a_warm_start_goes_by_the_parameters_of_now(iris):
    X, y = iris
    model = small(epochs=2, warm_start=True).fit(X, y)
    model.set_params(standardize=False, voting="hard").fit(X, y)
    assert model.scaler_ is None
    assert model.ensemble_.voting == "hard"
    model.set_params(standardize=True, voting="soft").fit(X * 100, y)
    np.testing.assert_allclose(model.scaler_.mean_, 100 * X.mean(axis=0))
    assert model.ensemble_.voting == "soft"


def test_partial_fit_learns_from_pieces(iris):
    X, y = iris
    order = np.random.default_rng(0).permutation(len(y))
    model = small(learning_rate=0.02)
    for _ in range(15):
        for part in np.array_split(order, 3):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    assert model.history_["epoch"].tolist() == list(range(1, 46))
    np.testing.assert_allclose(model.scaler_.mean_, X.mean(axis=0))


def test_partial_fit_goes_on_after_fit_and_knows_absent_classes(iris):
    X, y = iris
    model = small().fit(X, y)
    model.partial_fit(X[y == 1], y[y == 1])
    assert model.score(X, y) > 0.8
    assert len(model.history_) == 21


def straight(n_features, n_classes, *, bias):
    return nn.Linear(n_features, n_classes, bias=bias)


def test_a_factory_that_is_made_anew_may_go_on(iris):
    X, y = iris
    model = small(module=partial(straight, bias=True)).partial_fit(X, y, classes=[0, 1, 2])
    model.set_params(module=partial(straight, bias=True)).partial_fit(X, y)
    with pytest.raises(ValueError, match="`n_estimators` must stay 3 when training continues; got 4"):
        model.set_params(n_estimators=4).partial_fit(X, y)


def test_partial_fit_goes_by_the_parameters_of_now(iris):
    X, y = iris
    model = small().partial_fit(X, y, classes=[0, 1, 2])
    weights = [p.detach().clone() for p in model.ensemble_.parameters()]
    model.set_params(learning_rate=1e-12, weight_decay=0.0).partial_fit(X, y)
    for before, after in zip(weights, model.ensemble_.parameters(), strict=True):
        torch.testing.assert_close(before, after, atol=1e-8, rtol=0)
    model.set_params(weight_decay=1e12).partial_fit(X, y)  # which leaves nothing: 1 - 1e-12 * 1e12
    assert all(p.abs().max() < 1e-3 for p in model.ensemble_.parameters() if p.requires_grad)
    with pytest.raises(
        ValueError, match="`standardize` must not change between calls of partial_fit; got False"
    ):
        model.set_params(standardize=False).partial_fit(X, y)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_estimators": 4}, r"`n_estimators` must stay 3 when training continues; got 4\."),
        (
            {"hidden_layer_sizes": 7},
            r"`hidden_layer_sizes` must stay \[16\] when training continues; got 7\.",
        ),
        ({"module": make_net}, "`module` must stay None when training continues; got <function make_net"),
        ({"module": [nn.Linear(4, 3)] * 3}, r"`module` must stay None when training continues; got \[Linear"),
    ],
)
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_training_does_not_go_on_with_networks_other_than_those_asked_for(
    iris, tmp_path, settings, match, way
):
    model = small(epochs=1, warm_start=True).fit(*iris)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    for one in (model, loaded, pickle.loads(pickle.dumps(model))):
        getattr(one.set_params(hidden_layer_sizes=[16]), way)(*iris)  # the same, written otherwise
        with pytest.raises(ValueError, match=match):
            getattr(one.set_params(**settings), way)(*iris)


def test_a_list_of_nets_may_not_change_either(iris):
    torch.manual_seed(0)
    nets = [nn.Linear(4, 3), nn.Linear(4, 3)]
    model = small(nets, epochs=1, warm_start=True).fit(*iris)
    copy.deepcopy(model).set_params(n_estimators=9).fit(*iris)  # which does not count
    nets.append(nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"`module` must stay .* when training continues"):
        model.fit(*iris)


@pytest.mark.parametrize(
    "classes", [["a"], ["a", "a"], [["a", "b"], ["c", "d"]], "a", [0.0, np.nan], [0.5, 1.5], []]
)
def test_classes_are_at_least_two_in_a_row(iris, classes):
    model = small()
    with pytest.raises(ValueError, match="`classes` must "):
        model.partial_fit(iris[0][:1], ["a"], classes=classes)
    assert not hasattr(model, "ensemble_")


@pytest.mark.parametrize(
    ("settings", "call", "match"),
    [
        ({}, {"classes": [0, 1]}, r"`y` must hold the classes \[0, 1\]; got 2"),
        ({}, {"classes": [0, 1, 2], "sample_weight": -np.ones(150)}, "`sample_weight` must be at least 0"),
        (
            {"module": [nn.Linear(4, 3).requires_grad_(False)]},
            {"classes": [0, 1, 2]},
            "`module` must return networks with parameters to train; got networks that are all frozen",
        ),
    ],
)
def test_nothing_is_kept_of_a_first_partial_fit_that_is_refused(iris, settings, call, match):
    X, y = iris
    model = small(**settings)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(X, y, **call)
    assert not hasattr(model, "ensemble_")
    model.set_params(module=None).partial_fit(X, y, classes=[0, 1, 2])
    expected = small().partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


class Breaks(IndependentLoss):
    """A loss that holds for the rows it is tried on, and breaks in the training."""

    def forward(self, logits, target, weight=None):
        return super().forward(logits, target, weight) * (1.0 if len(target) <= 5 else float("nan"))


REFUSED = [
    ({"class_weight": "balance"}, ValueError, "`class_weight` must be a dict"),
    ({"class_weight": {7: 1.0}}, ValueError, "class"),
    ({"loss": nn.CrossEntropyLoss()}, ValueError, "`loss` must take logits"),
    ({"loss": Breaks(), "diversity": None}, FloatingPointError, "the loss must stay finite"),
]


@pytest.mark.parametrize(("settings", "error", "match"), REFUSED)
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_a_first_fit_that_fails_leaves_nothing_to_predict_with(iris, settings, error, match, way):
    X, y = iris
    model = small(**settings)
    more = {"classes": [0, 1, 2]} if way == "partial_fit" else {}
    with pytest.raises(error, match=match):
        getattr(model, way)(X, y, **more)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(("settings", "error", "match"), REFUSED)
@pytest.mark.parametrize("way", ["fit", "warm_start", "partial_fit"])
def test_a_fitted_model_answers_as_before_a_fit_that_fails(iris, settings, error, match, way):
    X, y = iris
    model = small(warm_start=way == "warm_start", epochs=5).fit(X, y).partial_fit(X, y)
    before, again = model.predict_proba(X), copy.deepcopy(model)
    ensemble, known = model.ensemble_, dict(vars(model))
    parameters = model.get_params(deep=False)
    with pytest.raises(error, match=match):
        getattr(model.set_params(**settings), "partial_fit" if way == "partial_fit" else "fit")(X + 100, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.ensemble_ is ensemble
    assert vars(model).keys() == known.keys()
    model.set_params(**parameters)
    for one in (model, again):  # the optimizer's moments are those of before, too
        one.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("factor", [1e-60, 1e-300, 1e37, 1e300])
def test_only_the_ratios_of_sample_weights_count(iris, factor):
    X, y = iris
    weight = 1.0 + (np.arange(150) % 2)
    plain, scaled = (small(epochs=3).fit(X, y, weight * by).predict_proba(X) for by in (1.0, factor))
    np.testing.assert_allclose(scaled, plain, atol=1e-4)


@pytest.mark.parametrize("standardize", [True, False])
def test_numbers_that_are_too_large_are_named(iris, standardize):
    X, y = iris
    with pytest.raises(ValueError, match=r"`X` must hold numbers .*; got [0-9.e+]+ in feature 0\."):
        small(standardize=standardize).fit(X * 1e300, y)


def test_a_mask_is_a_sample_weight(iris):
    X, y = iris
    masked, weighted = (small(epochs=2).fit(X, y, w).predict_proba(X) for w in (y > 0, (y > 0) * 1.0))
    np.testing.assert_array_equal(masked, weighted)


@pytest.mark.parametrize("settings", [{"loss": "independent"}, {"diversity": 0.5}])
def test_an_autocast_around_changes_nothing(iris, settings):
    X, y = iris
    expected = small(epochs=2, **settings).fit(X, y).predict_proba(X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = small(epochs=2, **settings).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.fixture
def double_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double_by_default")
def test_the_default_type_of_torch_may_be_another(iris, tmp_path):
    X, y = iris
    model = small(epochs=2, diversity=0.5).fit(X, y)
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    here = loaded.predict_proba(X)
    settings = {"n_estimators": 2, "epochs": 2, "cv": 2, "diversities": (0.5,), "weight_decay": (0.1, 1.0)}
    search = DiverseEnsembleClassifierCV(**settings, random_state=0)
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(loaded.predict_proba(X), here, atol=1e-6)
    np.testing.assert_allclose(small(epochs=2, diversity=0.5).fit(X, y).predict_proba(X), here, atol=1e-5)
    np.testing.assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], scores, atol=0.01)


def test_a_warning_of_learners_points_at_the_call():
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    search = DiverseEnsembleClassifierCV(n_estimators=2, epochs=1, cv=2, diversities=(0.5,), random_state=0)
    for model in (small(epochs=1), search):
        with pytest.warns(LearnerWarning, match="is the same for every sample") as seen:
            model.fit(X, y)
        assert {warning.filename for warning in seen} == {__file__}


def test_what_numpy_calls_true_is_a_verbosity(iris):
    assert len(small(verbose=np.True_, epochs=1).fit(*iris).history_) == 1


def test_frozen_nets_are_refused_unless_others_train(iris):
    X, y = iris
    nets = small(n_estimators=2, n_pieces=0).fit(X, y).ensemble_.learners
    nets[0].requires_grad_(False)
    model = small(nets, epochs=2, warm_start=True).fit(X, y)
    same = [
        torch.equal(a[0].weight, b[0].weight) for a, b in zip(nets, model.ensemble_.learners, strict=True)
    ]
    assert same == [True, False]
    model.ensemble_.requires_grad_(False)
    with pytest.raises(ValueError, match="to train; got networks that are all frozen"):
        model.fit(X, y)


def test_rows_of_weight_zero_are_absent(iris):
    X, y = iris
    junk = np.vstack([X, 1e3 * X[:20]])
    labels = np.concatenate([y, np.full(20, 7)])
    model = small().fit(junk, labels, np.repeat([1.0, 0.0], [150, 20]))
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.predict_proba(X), small().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("loss", ["correlation", "independent"])
def test_balanced_classes_help_the_rare_one(loss):
    X, y = make_classification(
        600, 5, n_informative=3, weights=[0.93], class_sep=0.6, flip_y=0, random_state=1
    )
    plain, balanced = (
        small(loss=loss, class_weight=weight, learning_rate=0.01).fit(X[:300], y[:300])
        for weight in (None, "balanced")
    )
    scores = [balanced_accuracy_score(y[300:], model.predict(X[300:])) for model in (plain, balanced)]
    assert scores[1] > scores[0] + 0.05


def test_a_mapping_of_class_weights_is_a_sample_weight(iris):
    X, y = iris
    weighted = small(class_weight={0: 1, 1: 2, 2: 3}, standardize=False).fit(X, y).predict_proba(X)
    expected = small(standardize=False).fit(X, y, sample_weight=y + 1.0).predict_proba(X)
    np.testing.assert_allclose(weighted, expected, atol=1e-5)


def test_rows_of_a_class_without_weight_are_absent(iris):
    X, y = iris
    settings = {"batch_size": 4, "standardize": False, "n_pieces": 0, "loss": "joint"}
    model = small(class_weight={0: 0, 1: 1, 2: 1}, **settings).fit(X, y)
    weight = (y > 0).astype(float)
    some = small(**settings).partial_fit
    some(X, y, classes=[0, 1, 2], sample_weight=weight)  # the same batches, of the same rows
    assert model.history_[0]["loss"] == pytest.approx(some.__self__.history_[0]["loss"])
    assert (model.predict(X) != 0).all()


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ({0: -1}, r"`class_weight` must be at least 0; got -1"),
        ({0: np.nan}, "`class_weight` must not be NaN"),
        (np.ones(3), r"`class_weight` must be a dict, 'balanced' or None; got array"),
        ("even", "`class_weight` must be a dict, 'balanced' or None; got 'even'"),
        ({0: np.inf}, "`class_weight` must be finite; got inf"),
        ({0: 0, 1: 0, 2: 0}, "`class_weight` must be finite, and above zero .*; got zero for all of them"),
    ],
)
def test_a_bad_class_weight_is_named(iris, weights, match):
    with pytest.raises(ValueError, match=match):
        small(class_weight=weights).fit(*iris)


def test_one_hidden_layer_may_be_a_number(iris):
    one, several = (small(hidden_layer_sizes=sizes, epochs=2).fit(*iris) for sizes in (5, (5,)))
    np.testing.assert_array_equal(one.predict_proba(iris[0]), several.predict_proba(iris[0]))


def make_dropout(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.Dropout(0.5), nn.Linear(8, n_classes))


def test_threads_take_turns_and_leave_the_global_generator_as_it_was(iris):
    X, y = iris
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(small(make_dropout, epochs=5).fit, X, y) for _ in range(4)]
    found = [fit.result().predict_proba(X) for fit in fits]
    assert all(np.array_equal(found[0], other) for other in found)
    assert torch.equal(torch.get_rng_state(), before)


def test_nets_may_come_from_a_callable(iris):
    X, y = iris
    model = small(make_net, epochs=40).fit(X, y)
    assert model.score(X, y) > 0.9
    assert isinstance(model.estimators_[0][1], nn.Tanh)


def test_a_list_of_different_pretrained_nets_is_trained_on_and_left_alone(iris):
    X, y = iris
    pretrained = small(loss="independent", epochs=40, n_pieces=0).fit(X, y).estimators_
    nets = [*pretrained, nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))]
    kept = [copy.deepcopy(net.state_dict()) for net in nets]
    model = small(nets, epochs=10, n_estimators=99).fit(X, y)
    assert len(model.estimators_) == 5
    assert model.score(X, y) > 0.9
    for net, state in zip(nets, kept, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())


def test_binary_nets_with_one_logit_are_accepted(cancer):
    X, y, X_new, y_new = cancer
    for loss in ("correlation", "independent"):
        model = small(make_one_logit, loss=loss).fit(X, y)
        assert model.learner_predict_proba(X_new).shape == (3, len(y_new), 2)
        assert model.score(X_new, y_new) > 0.9


def test_one_learner_is_an_ensemble_too(iris):
    assert small(n_estimators=1, epochs=60).fit(*iris).score(*iris) > 0.9


def test_a_pickle_says_the_same(iris):
    X, y = iris
    model = small().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


BAD = [
    (
        {"module": 3},
        TypeError,
        "`module` must be None, a callable that returns a network, or a list of networks; got 3",
    ),
    ({"module": []}, ValueError, "`module` must hold at least one network"),
    ({"module": [3]}, TypeError, "`module` must return torch Modules; got 3"),
    ({"module": [nn.ReLU()]}, ValueError, "`module` must return networks with parameters"),
    (
        {"module": [nn.Linear(4, 3).requires_grad_(False)]},
        ValueError,
        "`module` must return networks with parameters to train; got networks that are all frozen",
    ),
    (
        {"module": [nn.Linear(4, 2)]},
        ValueError,
        r"put out one row of 3 logits for each sample, as a tensor; got shape \(2, 2\) for 2 samples",
    ),
    ({"module": Pair}, ValueError, "put out one row of 3 logits for each sample, as a tensor; got a tuple"),
    (
        {"module": [nn.Linear(9, 3)]},
        ValueError,
        "`module` must return networks that take 4 features in float32",
    ),
    (
        {"module": [nn.Linear(4, 3).double()]},
        ValueError,
        "networks that take 4 features in float32; got: .*dtype",
    ),
    ({"n_estimators": 0}, ValueError, "`n_estimators` must be at least 1; got 0"),
    ({"n_estimators": 2.5}, TypeError, "`n_estimators` must be an integer"),
    ({"hidden_layer_sizes": (0,)}, ValueError, "`hidden_layer_sizes` must be at least 1"),
    ({"loss": "hinge"}, ValueError, "`loss` must be one of 'diversity', .*; got 'hinge'"),
    ({"loss": 3}, TypeError, "`loss` must be a name or a loss module; got 3"),
    ({"loss": IndependentLoss}, TypeError, "`loss` must be a name or a loss module; got the class Indep"),
    ({"loss": nn.CrossEntropyLoss()}, ValueError, r"`loss` must take logits .*; got CrossEntropyLoss\(\)"),
    ({"loss": lambda *_: 3.0}, ValueError, r"`loss` must return one number, as a tensor; got .* returns 3.0"),
    (
        {"loss": lambda logits, *_: logits},
        ValueError,
        r"return one number, .*; got .* returns shape \(3, 5, 3\)",
    ),
    ({"hidden_layer_sizes": "wide"}, TypeError, "`hidden_layer_sizes` must be an integer or an array"),
    (
        {"loss": "joint", "diversity": 0.5},
        ValueError,
        "`diversity` must be None with the loss 'joint'; got 0.5",
    ),
    ({"loss": IndependentLoss(), "lam": 0.5}, ValueError, "`lam` must be None with the loss Independent"),
    ({"loss": "ncl", "lam": 0.5}, ValueError, "`lam` must be None with the loss 'ncl'"),
    ({"loss": "ncl", "diversity": "auto"}, TypeError, "`diversity` must be one number; got 'auto'"),
    ({"diversity": "much"}, TypeError, "`diversity` must be one number; got 'much'"),
    ({"diversity": -1}, ValueError, "`diversity` must be between 0 and 1; got -1"),
    ({"lam": 0.5}, ValueError, "`lam` must be None with the loss 'diversity'; got 0.5"),
    (
        {"loss": "correlation", "diversity": 0.5, "lam": 0.5},
        ValueError,
        "`lam` must not be given together with `diversity`",
    ),
    ({"reduction": "max"}, ValueError, "`reduction` must be one of 'mean', 'sum'; got 'max'"),
    ({"n_estimators": [3]}, TypeError, r"`n_estimators` must be an integer; got \[3\]"),
    ({"epochs": (1, 2)}, TypeError, r"`epochs` must be an integer; got \(1, 2\)"),
    ({"epochs": np.array([1, 2])}, TypeError, r"`epochs` must be an integer; got array\(\[1, 2\]\)"),
    ({"warmup_epochs": [1]}, TypeError, r"`warmup_epochs` must be an integer; got \[1\]"),
    ({"batch_size": (8, 8)}, TypeError, r"`batch_size` must be an integer; got \(8, 8\)"),
    ({"learning_rate": [0.1]}, TypeError, r"`learning_rate` must be one number; got \[0.1\]"),
    ({"weight_decay": np.inf}, ValueError, r"`weight_decay` must be between 0 and 1e\+15; got inf"),
    ({"standardize": "no"}, TypeError, "`standardize` must be True or False; got 'no'"),
    ({"warm_start": "no"}, TypeError, "`warm_start` must be True or False; got 'no'"),
    ({"verbose": "x"}, TypeError, "`verbose` must be an integer; got 'x'"),
    ({"verbose": -1}, ValueError, "`verbose` must be at least 0; got -1"),
    (
        {"voting": np.ones(2)},
        ValueError,
        "`voting` must be one of 'auto', 'soft', 'hard', 'geometric'; got array",
    ),
    ({"epochs": 0}, ValueError, "`epochs` must be at least 1; got 0"),
    ({"warmup_epochs": 20}, ValueError, "`warmup_epochs` must be less than 20; got 20"),
    ({"learning_rate": 0}, ValueError, r"`learning_rate` must be strictly between 0 and 1e\+15; got 0"),
    ({"learning_rate": 1e38}, ValueError, r"`learning_rate` must be strictly between .*; got 1e\+38"),
    ({"learning_rate": 9e14, "weight_decay": 1e15}, FloatingPointError, "must stay finite"),
    ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1; got 0"),
    ({"weight_decay": -1}, ValueError, r"`weight_decay` must be between 0 and 1e\+15; got -1"),
    ({"validation_fraction": 1}, ValueError, "`validation_fraction` must be between 0 and 0.9; got 1"),
    ({"validation_fraction": 0.001}, ValueError, "`validation_fraction` must leave rows"),
    ({"patience": 3}, ValueError, "`patience` must be None without `validation_fraction`; got 3"),
    (
        {"voting": "loud"},
        ValueError,
        "`voting` must be one of 'auto', 'soft', 'hard', 'geometric'; got 'loud'",
    ),
    ({"loss": None}, ValueError, "`loss` must be a name or a loss module, to train; got None"),
    ({"learning_rate": True}, TypeError, "`learning_rate` must be one number; got True"),
    ({"class_weight": {0: "x"}}, TypeError, "`class_weight` must be one number; got 'x'"),
    ({"device": "abacus"}, ValueError, "`device` must be 'auto' or a device of torch; got 'abacus'"),
]


@pytest.mark.parametrize(
    ("settings", "error", "match"), BAD, ids=[str(bad[0]).partition(" at 0x")[0][:40] for bad in BAD]
)
def test_a_bad_parameter_is_named(iris, settings, error, match):
    with pytest.raises(error, match=match):
        small(**settings).fit(*iris)


def test_bad_data_are_named(iris):
    X, y = iris
    with pytest.raises(ValueError, match="`y` must hold at least two classes; got one class, 1"):
        small().fit(X, np.ones(150, dtype=int))
    with pytest.raises(ValueError, match=r"`sample_weight` must have shape \(150,\); got shape \(3,\)"):
        small().fit(X, y, [1, 2, 3])
    with pytest.raises(ValueError, match="`sample_weight` must be at least 0; got -1"):
        small().fit(X, y, -np.ones(150))
    with pytest.raises(ValueError, match="`classes` must be given in the first call"):
        small().partial_fit(X, y)
    model = small(epochs=1, warm_start=True).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"`classes` must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"`y` must hold the classes \[0, 1, 2\]; got 7"):
        model.partial_fit(X, np.where(y == 2, 7, y))
    for one in (small(), DiverseEnsembleClassifierCV()):
        with pytest.raises(TypeError, match=r"`y` must hold numbers or strings; got dtype datetime64\[D\]"):
            one.fit(X, y.astype("datetime64[D]"))


def test_a_second_fit_names_a_bad_warm_start_too(iris):
    model = small(epochs=1).fit(*iris).set_params(warm_start=np.array([True, False]))
    with pytest.raises(TypeError, match="`warm_start` must be True or False; got array"):
        model.fit(*iris)


def test_targets_are_smoothed_in_the_warm_up_too(iris):
    plain, smooth = (
        small(epochs=3, warmup_epochs=2, early_stopping=False, label_smoothing=share).fit(*iris).history_
        for share in (0.0, 0.3)
    )
    assert plain[0]["loss"] != smooth[0]["loss"]


def test_learners_that_fail_alike_are_named_in_one_warning():
    X, y = np.ones((60, 1)), np.arange(60) % 2
    with pytest.warns(LearnerWarning) as found:
        DiverseEnsembleClassifier(n_estimators=3, epochs=2, random_state=0).fit(X, y)
    assert [str(warning.message) for warning in found] == [
        "Learners 0, 1, 2 have collapsed: the output of each is the same for every sample."
    ]
