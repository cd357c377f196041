import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import LeaveOneOut, RepeatedKFold, ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoint.estimators import (
    DiverseEnsembleRegressor,
    DiverseEnsembleRegressorCV,
    corrected_paired_test,
)

SMALL = {"n_estimators": 3, "hidden_layer_sizes": (8,), "epochs": 10, "learning_rate": 0.03}
SEARCH = DiverseEnsembleRegressorCV(
    n_estimators=2, hidden_layer_sizes=(16,), epochs=12, learning_rate=0.05, diversities=(0.5,), cv=2
)


@parametrize_with_checks([SEARCH])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return make_friedman1(240, n_features=5, noise=0.5, random_state=0)


@pytest.fixture(scope="module")
def search(table):
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    settings = SMALL | {"diversities": (0.5, 1.0), "weight_decay": (0.01, 0.3), "cv": cv}
    return DiverseEnsembleRegressorCV(**settings, random_state=0).fit(*table)


def test_all_candidates_are_scored_on_all_folds(search):
    results = search.cv_results_
    np.testing.assert_array_equal(results["param_diversity"], [0, 0, 0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(results["param_weight_decay"], [0.01, 0.3] * 3)
    splits = np.stack([results[f"split{k}_test_score"] for k in range(8)])
    np.testing.assert_allclose(splits.mean(axis=0), results["mean_test_score"])
    assert (results["mean_test_squared_error"] <= results["mean_learner_squared_error"]).all()
    assert results["params"][search.best_index_] == {
        "diversity": search.best_diversity_,
        "weight_decay": search.best_weight_decay_,
        "epochs": search.best_epoch_,
    }


def test_the_score_of_a_fold_is_the_share_of_the_variance_that_is_explained(table, search):
    results, (_, y) = search.cv_results_, table
    np.testing.assert_allclose(
        results["mean_test_score"], 1 - results["mean_test_squared_error"] / y.var(), rtol=1e-6
    )


def test_the_test_compares_the_best_diversity_with_independent_training_each_at_its_best_decay(search):
    splits = np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(8)], axis=1)
    at = [2 * i + int(splits[2 * i : 2 * i + 2].mean(axis=1).argmax()) for i in range(3)]
    best = max(at[1:], key=lambda row: splits[row].mean())
    test = corrected_paired_test(splits[best] - splits[at[0]], 60 / 180)
    assert search.test_.difference == pytest.approx(test.difference)
    assert search.test_.p_value == pytest.approx(min(1, 4 * test.p_value))
    assert f"p = {search.test_.p_value:.2g}" in search.verdict_


def test_the_choice_has_the_lowest_squared_error_and_the_verdict_says_so(search):
    assert search.best_index_ == search.cv_results_["mean_test_squared_error"].argmin()
    chosen = f"Diversity {search.best_diversity_:g}" if search.best_diversity_ else "Independent training"
    assert search.verdict_.endswith(f" {chosen} is chosen for the lowest squared error.")


def test_the_choice_is_trained_on_all_rows(table, search):
    assert isinstance(search.best_estimator_, DiverseEnsembleRegressor)
    np.testing.assert_array_equal(search.predict(table[0]), search.best_estimator_.predict(table[0]))
    assert search.best_estimator_.diversity == search.best_diversity_
    assert search.learner_predict(table[0]).shape == (3, 240)


def test_a_fold_trains_as_the_estimator_would(table):
    X, y = table
    train, test = np.arange(160), np.arange(160, 240)
    search = DiverseEnsembleRegressorCV(
        **SMALL, diversities=(0.7,), cv=[(train, test), (test, train)], random_state=0
    ).fit(X, y)
    found = search.cv_results_["split0_test_score"]
    alone = [
        DiverseEnsembleRegressor(**SMALL, diversity=d, random_state=s)
        .fit(X[train], y[train])
        .score(X[test], y[test])
        for d in (0.0, 0.7)
        for s in range(3)
    ]
    assert found.min() > min(alone) - 0.1
    assert found.max() < max(alone) + 0.1


def test_where_networks_underfit_diversity_pays():
    X, y = make_friedman1(400, n_features=5, noise=0.1, random_state=1)
    search = DiverseEnsembleRegressorCV(
        n_estimators=10,
        hidden_layer_sizes=(1,),
        epochs=60,
        learning_rate=0.02,
        diversities=(0.9,),
        random_state=0,
    ).fit(X, y)
    assert search.verdict_.startswith(
        "Explicit diversity pays on this data: at diversity 0.9, weight decay 0.1"
    )
    assert search.best_diversity_ == 0.9


@pytest.mark.parametrize("cv", [ShuffleSplit(3, test_size=0.3, random_state=0), LeaveOneOut()])
def test_any_splitter_of_scikit_learn(cv):
    X, y = load_diabetes(return_X_y=True)
    search = DiverseEnsembleRegressorCV(**SMALL | {"epochs": 2}, diversities=(0.5,), cv=cv).fit(
        X[:12], y[:12]
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_row_of_weight_zero_is_no_row(table):
    X, y = table
    weight = np.ones(240)
    weight[200:] = 0
    search = DiverseEnsembleRegressorCV(**SMALL | {"epochs": 2}, diversities=(0.5,), cv=3, random_state=0)
    one = search.fit(X, y, weight).cv_results_["mean_test_score"]
    other = search.fit(X[:200], y[:200]).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"diversities": ()}, "`diversities` must hold at least one number"),
        ({"diversities": (0.0,)}, "`diversities` must hold a number above 0"),
        ({"diversities": (0.5, 0.5)}, "`diversities` must hold distinct numbers"),
        ({"diversities": (0.5, 2.0)}, "`diversities` must be between 0 and 1; got 2"),
        ({"weight_decay": (0.1, 0.1)}, "`weight_decay` must hold distinct numbers"),
        ({"cv": [(np.arange(100), np.arange(100, 240))]}, "`cv` must yield at least two folds; got 1"),
        (
            {"cv": [(np.arange(240), []), ([], np.arange(240))]},
            "folds with rows of positive weight; got one without",
        ),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(table, settings, error):
    with pytest.raises(ValueError, match=error):
        DiverseEnsembleRegressorCV(**SMALL | settings).fit(*table)


def test_a_constant_target_is_refused(table):
    with pytest.raises(
        ValueError, match=r"`y` must hold at least two numbers; got 3 alone \(n_samples=240\)"
    ):
        DiverseEnsembleRegressorCV(**SMALL).fit(table[0], np.full(240, 3.0))


def test_the_epoch_is_chosen_on_the_folds_and_refitted(search):
    chosen = search.cv_results_["param_epochs"][search.best_index_]
    assert search.best_epoch_ == chosen == len(search.history_)


def test_of_two_epochs_the_better_one_is_taken():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 10)), rng.normal(size=120)  # nothing to learn
    search = DiverseEnsembleRegressorCV(
        n_estimators=3, diversities=(0.5,), epochs=(1, 80), learning_rate=0.02, cv=3, random_state=0
    ).fit(X, y)
    assert search.best_epoch_ == 1
    with pytest.raises(ValueError, match="`epochs` must be an integer or a sequence of distinct integers"):
        search.set_params(epochs=(5, 5)).fit(X, y)


def test_folds_and_numbers_that_leave_nothing_to_explain_are_refused():
    X = np.arange(10.0).reshape(5, 2)
    search = DiverseEnsembleRegressorCV(**SMALL | {"cv": 6})
    with pytest.raises(ValueError, match=r"^`cv` must be at most 5, the rows; got 6\.$"):
        search.fit(X, np.arange(5))
    for model in (search.set_params(cv=2), DiverseEnsembleRegressor(epochs=1)):
        with pytest.raises(
            ValueError, match=r"^`y` must hold numbers whose variance is not rounded to 0; got 4e-300"
        ):
            model.fit(X, np.arange(5) * 1e-300)
