"""DECORATE against its definition, scikit-learn's contract, and the borders of tables."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoint.assessment import assess_estimator
from counterpoint.datasets import load
from counterpoint.estimators import DecorateClassifier
from counterpoint.estimators._decorate_rounds import artificial_rows, contrary_labels

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def labor():
    return load("labor")


@pytest.fixture(scope="module")
def glass():
    return load("glass")


class Recorder(DecisionTreeClassifier):
    """A tree that keeps what it was trained on."""

    def fit(self, X, y):
        self.X_, self.y_ = X.copy(), y.copy()
        return super().fit(X, y)


# contract


@parametrize_with_checks([DecorateClassifier(n_estimators=5), DecorateClassifier(GaussianNB(), 3)])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_clones_pickles_and_is_searched(labor):
    search = GridSearchCV(
        DecorateClassifier(n_estimators=3, random_state=0), {"artificial_ratio": [0.5, 1.0]}, cv=3
    )
    search.fit(labor.X, labor.y)
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict_proba(labor.X), best.predict_proba(labor.X))
    fresh = clone(best).fit(labor.X, labor.y)
    np.testing.assert_array_equal(fresh.predict_proba(labor.X), best.predict_proba(labor.X))


def test_it_is_imported_without_torch():
    code = "import sys; from counterpoint.estimators import DecorateClassifier; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# the algorithm


def test_learners_are_averaged_and_learners_come_first(glass):
    model = DecorateClassifier(random_state=0).fit(glass.X, glass.y)
    proba = model.learner_predict_proba(glass.X)
    assert proba.shape == (15, 214, 6)
    np.testing.assert_allclose(model.predict_proba(glass.X), proba.mean(axis=0))
    by_hand = np.stack([learner.predict_proba(glass.X.to_numpy()) for learner in model.estimators_])
    np.testing.assert_array_equal(proba, by_hand)
    assert (model.predict(glass.X) == model.classes_[proba.mean(axis=0).argmax(axis=1)]).all()


def test_the_default_learner_splits_by_entropy_into_leaves_of_three_rows(glass):
    trees = (
        None,
        DecisionTreeClassifier(criterion="entropy", min_samples_leaf=3),
        DecisionTreeClassifier(min_samples_leaf=3),
    )
    default, entropy, gini = (
        DecorateClassifier(tree, n_estimators=3, random_state=0).fit(glass.X, glass.y).estimators_
        for tree in trees
    )
    thresholds = [[tree.tree_.threshold.tolist() for tree in grown] for grown in (default, entropy, gini)]
    assert thresholds[0] == thresholds[1]
    assert thresholds[0][0] != thresholds[2][0]
    assert all(tree.tree_.n_node_samples.min() >= 3 for tree in default)


@pytest.mark.parametrize("max_iter", [1, 7, 50])
def test_the_training_error_never_rises_and_tells_the_score(glass, max_iter):
    tree = DecisionTreeClassifier(max_depth=4)
    model = DecorateClassifier(tree, 15, max_iter=max_iter, random_state=0).fit(glass.X, glass.y)
    assert model.n_iter_ == len(model.training_errors_) == len(model.rejected_) <= max_iter
    assert len(model.estimators_) == (~model.rejected_).sum()
    assert (np.diff(model.training_errors_) <= 0).all()
    assert model.training_errors_[-1] == pytest.approx(1 - model.score(glass.X, glass.y))
    assert not model.rejected_[0]
    alone = clone(tree).set_params(random_state=model.estimators_[0].random_state).fit(glass.X, glass.y)
    assert model.training_errors_[0] == pytest.approx(1 - alone.score(glass.X, glass.y))
    assert len(model.estimators_) == 15 or model.n_iter_ == max_iter
    assert max_iter != 50 or model.rejected_.any()


def test_a_rejected_candidate_would_have_raised_the_training_error(glass, capsys):
    tree = DecisionTreeClassifier(max_depth=4)
    model = DecorateClassifier(tree, max_iter=50, random_state=0, verbose=1).fit(glass.X, glass.y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    errors = np.array([float(line.split("error ")[1].split(",")[0]) for line in lines])
    before = np.concatenate([[1.0], model.training_errors_[:-1]])
    np.testing.assert_array_equal(errors > before.round(4), model.rejected_)
    assert all(("rejected" in line) == no for line, no in zip(lines, model.rejected_, strict=True))
    assert lines[0].endswith("kept, 1 learner")
    assert lines[-1].endswith(f", {len(model.estimators_)} learners")


@pytest.mark.parametrize(("ratio", "n_artificial"), [(0.0001, 1), (0.5, 107), (1.0, 214), (2.0, 428)])
def test_learners_learn_the_true_rows_and_artificial_ones(glass, ratio, n_artificial):
    model = DecorateClassifier(Recorder(), 3, artificial_ratio=ratio, random_state=0).fit(glass.X, glass.y)
    first, *others = model.estimators_
    assert len(first.X_) == 214
    codes = np.searchsorted(model.classes_, glass.y)
    for learner in others:
        assert len(learner.X_) == 214 + n_artificial
        np.testing.assert_array_equal(learner.X_[:214], glass.X)
        np.testing.assert_array_equal(learner.y_[:214], codes)
    if ratio >= 1:  # the first ensemble is one tree with pure leaves: its class is the one label not given
        artificial, labels = others[0].X_[214:], others[0].y_[214:]
        assert (first.predict(artificial) != labels).all()
        assert len(np.unique(labels)) == 6
        assert not np.allclose(others[0].X_[214:], others[1].X_[214:])


def test_learners_have_random_states_of_their_own(glass):
    net = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    model = DecorateClassifier(net, 4, random_state=0).fit(glass.X, glass.y)
    assert len({learner[-1].random_state for learner in model.estimators_}) == 4
    assert net[-1].random_state is None


def test_artificial_numbers_have_the_mean_and_the_deviation_of_known_values():
    rng = np.random.RandomState(0)
    table = rng.normal([3.0, -50.0, 7.0, 0.0], [2.0, 10.0, 0.0, 1.0], (40, 4))
    table[rng.random_sample((40, 4)) < 0.3] = np.nan
    table[:, 3] = np.nan
    rows = artificial_rows(table, {}, 100_000, rng)
    for j in (0, 1, 2):
        known = table[~np.isnan(table[:, j]), j]
        spread = known.std(ddof=1)
        assert rows[:, j].mean() == pytest.approx(known.mean(), abs=5 * spread / np.sqrt(100_000))
        assert rows[:, j].std() == pytest.approx(spread, rel=0.02)
    assert np.isnan(rows[:, 3]).all()
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]) < 0.02  # each column by itself


def test_artificial_nominal_values_follow_laplace():
    table = np.array([[0.0, np.nan]] * 6 + [[2.0, np.nan]] * 2 + [[np.nan, np.nan]] * 5)
    categories = {0: pd.Index(["a", "b", "c"]), 1: pd.Index([], dtype=object)}
    rows = artificial_rows(table, categories, 100_000, np.random.RandomState(0))
    share = np.bincount(rows[:, 0].astype(int)) / len(rows)
    np.testing.assert_allclose(share, np.array([7, 1, 3]) / 11, atol=0.01)
    assert np.isnan(rows[:, 1]).all()


@pytest.mark.parametrize(
    ("proba", "expected"),
    [
        ([0.5, 0.25, 0.25], [0.2, 0.4, 0.4]),
        ([0.9, 0.1, 0.0], [0.0, 0.0, 1.0]),  # as in Weka, a zero outweighs everything
        ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5]),
        ([1 - 2e-310, 1e-310, 1e-310], [0.0, 0.5, 0.5]),  # 1 / 1e-310 is not finite
        ([1.0], [1.0]),
    ],
)
def test_labels_are_inversely_proportional_to_the_ensemble(proba, expected):
    labels = contrary_labels(np.tile(proba, (50_000, 1)), np.random.RandomState(0))
    share = np.bincount(labels, minlength=len(proba)) / len(labels)
    np.testing.assert_allclose(share, expected, atol=0.01)
    assert (share[np.array(expected) == 0] == 0).all()


def test_it_beats_its_own_learner():
    segment = load("segment")
    rows = np.random.default_rng(0).permutation(len(segment.y))[:600]
    X, y = segment.X.iloc[rows], segment.y[rows]
    one = cross_val_score(DecisionTreeClassifier(random_state=0), X, y, cv=5).mean()
    assert cross_val_score(DecorateClassifier(random_state=0), X, y, cv=5).mean() > one + 0.005


# learners


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        RandomForestClassifier(3),
        BaggingClassifier(n_estimators=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), MLPClassifier(4, solver="lbfgs", tol=0.01, max_iter=1000)),
    ],
    ids=lambda estimator: str(estimator)[:40],
)
def test_any_classifier_can_be_a_learner(estimator, labor):
    model = DecorateClassifier(estimator, 3, random_state=0).fit(labor.X, labor.y)
    assert type(model.estimators_[0]) is type(estimator)
    assert np.isfinite(model.predict_proba(labor.X)).all()
    assert model.score(labor.X, labor.y) > 0.8


class Forgetful(DummyClassifier):
    """A classifier that never saw the last class."""

    def fit(self, X, y):
        known = y < y.max()
        return super().fit(X[known], y[known])


def test_classes_that_a_learner_does_not_know_get_zero(glass):
    model = DecorateClassifier(Forgetful(), 2, random_state=0).fit(glass.X, glass.y)
    proba = model.learner_predict_proba(glass.X)
    assert proba.shape == (2, 214, 6)
    assert (proba[..., -1] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=2), 1)


class Brittle(DecisionTreeClassifier):
    """A tree that breaks, or is interrupted, once it has been fitted so many times."""

    left = 2
    error = ValueError

    def fit(self, X, y):
        Brittle.left -= 1
        if Brittle.left < 0:
            raise Brittle.error("no more")
        return super().fit(X, y)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_fit_that_fails_leaves_the_ensemble_as_it_was(glass, error, monkeypatch):
    monkeypatch.setattr(Brittle, "left", 5)
    monkeypatch.setattr(Brittle, "error", error)
    model = DecorateClassifier(Brittle(), 3, random_state=0).fit(glass.X, glass.y)
    before, proba = dict(vars(model)), model.predict_proba(glass.X)
    with pytest.raises(error, match="no more"):
        model.fit(np.eye(2), [0, 1])
    assert Brittle.left < 0
    assert vars(model) == before  # the very same objects
    np.testing.assert_array_equal(model.predict_proba(glass.X), proba)
    fresh = clone(model)
    with pytest.raises(error, match="no more"):
        fresh.fit(glass.X, glass.y)
    assert vars(fresh).keys() == fresh.get_params(deep=False).keys()


def test_its_learners_can_be_assessed(glass):
    model = DecorateClassifier(DecisionTreeClassifier(max_depth=5), 5, random_state=0).fit(glass.X, glass.y)
    votes = model.classes_[model.learner_predict_proba(glass.X).argmax(axis=2)]
    assessment = assess_estimator(model, glass.X, glass.y)
    np.testing.assert_allclose(assessment.accuracies, (votes == glass.y).mean(axis=1))


# tables


def test_nominal_columns_are_named_in_four_ways(labor):
    nominal = [j for j, dtype in enumerate(labor.X.dtypes) if dtype == "category"]
    names = [labor.feature_names[j] for j in nominal]
    plain = labor.X.astype(dict.fromkeys(names, object))
    mask = np.isin(np.arange(labor.X.shape[1]), nominal)
    expected = DecorateClassifier(n_estimators=3, random_state=0).fit(labor.X, labor.y).predict_proba(labor.X)
    for X, listed in [(plain, names), (plain, nominal), (plain, mask), (plain.to_numpy(), nominal)]:
        model = DecorateClassifier(n_estimators=3, categorical_features=listed, random_state=0)
        np.testing.assert_array_equal(model.fit(X, labor.y).predict_proba(X), expected)
    assert model.n_features_in_ == 16
    assert not hasattr(model, "feature_names_in_")


def test_learners_see_numbers_then_a_column_for_each_nominal_value():
    X = pd.DataFrame(
        {
            "colour": pd.Categorical(["r", "b", None, "r"], categories=["b", "g", "r"]),
            "size": [1.0, 2, np.nan, 4],
        }
    )
    y = [0, 1, 0, 1]
    model = DecorateClassifier(Recorder(), 2, random_state=0).fit(X, y)
    expected = [[1, 0, 0, 1], [2, 1, 0, 0], [np.nan, 0, 0, 0], [4, 0, 0, 1]]
    np.testing.assert_array_equal(model.estimators_[0].X_, expected)
    artificial = model.estimators_[1].X_[4:]
    assert (artificial[:, 1:].sum(axis=1) == 1).all()
    assert not np.isnan(artificial).any()
    filled = DecorateClassifier(make_pipeline(Recorder()), 1).fit(X, y).estimators_[0][0]
    np.testing.assert_allclose(filled.X_[:, 0], [1, 2, 7 / 3, 4])


def test_an_unknown_nominal_value_is_as_a_missing_one(labor):
    model = DecorateClassifier(n_estimators=3, random_state=0).fit(labor.X, labor.y)
    odd = labor.X.astype({"pension": object})
    odd["pension"] = "in gold"
    missing = labor.X.assign(pension=pd.Categorical([None] * 57, categories=["none"]))
    np.testing.assert_array_equal(model.predict_proba(odd), model.predict_proba(missing))


def test_the_table_of_the_user_is_not_touched(labor):
    X = labor.X.copy()
    DecorateClassifier(n_estimators=2).fit(X, labor.y).predict(X)
    pd.testing.assert_frame_equal(X, labor.X)


@pytest.mark.parametrize("estimator", [None, GaussianNB()])
def test_constant_and_empty_columns_are_harmless(estimator):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "x": rng.normal(size=60),
            "constant": 3.0,
            "empty": np.nan,
            "one value": pd.Categorical(["a"] * 60),
            "no value": pd.Categorical([None] * 60, categories=[]),
        }
    )
    y = (X["x"] > 0).to_numpy()
    model = DecorateClassifier(estimator, 5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.predict(X.head(1)).dtype == bool


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_table_of_missing_nominal_values_alone_gives_the_frequencies_of_the_classes(estimator):
    X = pd.DataFrame({"no value": pd.Categorical([None] * 8, categories=[])})
    model = DecorateClassifier(estimator, 1).fit(X, [0, 1, 1, 1] * 2)
    np.testing.assert_allclose(model.predict_proba(X), [[0.25, 0.75]] * 8, rtol=1e-3)


@pytest.mark.parametrize("kind", ["Categorical", "Enum", "String"])
def test_a_polars_frame_is_read_as_one_of_pandas(kind, labor, monkeypatch):
    polars = pytest.importorskip("polars")
    monkeypatch.delattr(polars.DataFrame, "to_pandas")  # which needs pyarrow
    nominal = [name for name, dtype in labor.X.dtypes.items() if dtype == "category"]
    columns = {name: labor.X[name].to_numpy() for name in labor.X if name not in nominal}
    for name in nominal:
        values = [value if isinstance(value, str) else None for value in labor.X[name]]
        known = labor.X[name].cat.categories.tolist()
        dtype = polars.Enum(known) if kind == "Enum" else getattr(polars, kind)
        columns[name] = polars.Series(values, dtype=dtype)
    frame = polars.DataFrame({name: columns[name] for name in labor.X})
    listed = nominal if kind == "String" else None
    model = DecorateClassifier(n_estimators=3, categorical_features=listed, random_state=0)
    expected = clone(model).fit(labor.X, labor.y).predict_proba(labor.X)
    np.testing.assert_array_equal(model.fit(frame, labor.y).predict_proba(frame), expected)
    assert model.feature_names_in_.tolist() == labor.X.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])


def test_all_values_of_a_polars_enum_count_and_a_table_of_arrow_is_read():
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    values, y = ["r", "b", None, "r"], [0, 1, 0, 1]
    frame = polars.DataFrame({"colour": polars.Series(values, dtype=polars.Enum(["b", "g", "r"]))})
    seen = DecorateClassifier(Recorder(), 1).fit(frame, y).estimators_[0].X_
    np.testing.assert_array_equal(seen, [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]])
    table = arrow.table({"colour": arrow.array(values).dictionary_encode()})
    seen = DecorateClassifier(Recorder(), 1).fit(table, y).estimators_[0].X_
    assert seen.sum(axis=1).tolist() == [1, 1, 0, 1]


def test_an_array_after_a_frame_is_warned_of_once(labor):
    model = DecorateClassifier(n_estimators=2, random_state=0).fit(labor.X, labor.y)
    with pytest.warns(UserWarning, match="does not have valid feature names") as told:
        found = model.predict_proba(labor.X.astype(object).to_numpy())
    assert len(told) == 1
    np.testing.assert_array_equal(found, model.predict_proba(labor.X))


# of one class a tree returns one column of probabilities and a network two
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [None, MLPClassifier((2,), max_iter=2)], ids=["tree", "network"])
def test_one_class_is_always_predicted(estimator):
    X = np.arange(10.0).reshape(5, 2)
    model = DecorateClassifier(estimator, n_estimators=3).fit(X, ["only"] * 5)
    assert model.predict(X).tolist() == ["only"] * 5
    assert (model.predict_proba(X) == 1).all()


# borders


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "`n_estimators` must be at least 1; got 0"),
        ({"n_estimators": [3]}, TypeError, r"`n_estimators` must be an integer; got \[3\]"),
        ({"artificial_ratio": [1.0]}, TypeError, r"`artificial_ratio` must be one number; got \[1.0\]"),
        ({"max_iter": 1.5}, TypeError, "`max_iter` must be an integer"),
        ({"verbose": "x"}, TypeError, "`verbose` must be an integer; got 'x'"),
        ({"max_iter": 0}, ValueError, "`max_iter` must be at least 1; got 0"),
        (
            {"artificial_ratio": 0.0},
            ValueError,
            "`artificial_ratio` must be strictly between 0 and inf; got 0",
        ),
        ({"estimator": LinearSVC()}, TypeError, "`estimator` must be a classifier with `predict_proba`"),
        ({"categorical_features": [4]}, ValueError, "must hold positions from 0 to 3; got 4"),
        ({"categorical_features": ["width"]}, ValueError, "must hold names of the columns; got 'width'"),
        ({"categorical_features": [True]}, ValueError, "must have 4 entries as a mask; got 1"),
        ({"categorical_features": {"a"}}, TypeError, r"must be a list or an array; got \{'a'\}"),
        ({"categorical_features": "a"}, TypeError, "must be a list or an array; got 'a'"),
        ({"categorical_features": [[0]]}, ValueError, r"must be one-dimensional; got shape \(1, 1\)"),
        (
            {"categorical_features": [0.5]},
            TypeError,
            "must hold positions, names or booleans; got dtype float64",
        ),
    ],
)
def test_bad_options_are_refused_by_name(options, error, message):
    iris = load("iris")
    with pytest.raises(error, match=message):
        DecorateClassifier(**options).fit(iris.X, iris.y)


@pytest.mark.parametrize("kind", ["str", "object", "array", "polars"])
def test_a_column_of_text_that_is_not_listed_is_refused_by_name(kind):
    text = pd.DataFrame(
        {"size": [1.0, 2, 3, 4], "number": ["1", "2", "3", "nan"], "colour": ["1", "u", "v", "u"]}
    )
    X = text if kind == "str" else text.astype({"number": object, "colour": object})
    if kind == "polars":
        X = pytest.importorskip("polars").DataFrame({name: X[name].tolist() for name in X})
    elif kind == "array":
        X = X.to_numpy()
    name = 2 if kind == "array" else "colour"
    rule = "must hold numbers in columns that are not among the `categorical_features`"
    with pytest.raises(ValueError, match=f"`X` {rule}; got 'u' in column {name!r}."):
        DecorateClassifier(n_estimators=1).fit(X, [0, 1, 0, 1])
    model = DecorateClassifier(n_estimators=1, categorical_features=[2], random_state=0)
    assert model.fit(X, [0, 1, 0, 1]).n_features_in_ == 3
    odd = text.assign(number=["1", "2", "three", "4"])
    with pytest.raises(
        ValueError, match=f"`X` {rule}; got 'three' in column {odd.columns[1] if name != 2 else 1!r}"
    ):
        model.predict(odd.to_numpy() if kind == "array" else odd)


@pytest.mark.parametrize("kind", ["alone", "beside numbers", "array", "polars"])
def test_a_column_of_dates_is_refused_by_name_unless_it_is_nominal(kind):
    dates = np.array(["2024-01-01", "2024-06-01"] * 2, dtype="datetime64[ms]")
    X = pd.DataFrame({"when": dates} if kind == "alone" else {"size": [1.0, 2, 3, 4], "when": dates})
    if kind == "array":
        X = dates[:, np.newaxis]
    elif kind == "polars":
        X = pytest.importorskip("polars").DataFrame({name: X[name].to_numpy() for name in X})
    name = "0" if kind == "array" else "'when'"
    rule = "must hold numbers in columns that are not among the `categorical_features`"
    message = rf"^`X` {rule}; got datetime64\[ms\] in column {name}\.$"
    with pytest.raises(ValueError, match=message):
        DecorateClassifier(n_estimators=1).fit(X, [0, 1, 0, 1])
    listed = [X.shape[1] - 1]
    nominal = DecorateClassifier(DecisionTreeClassifier(), 1, categorical_features=listed).fit(
        X, [0, 1, 0, 1]
    )
    assert nominal.predict(X).tolist() == [0, 1, 0, 1]
    numbers = DecorateClassifier(n_estimators=1).fit(np.ones(X.shape), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=message):
        numbers.predict(X)


def test_what_is_no_table_of_polars_is_refused():
    polars = pytest.importorskip("polars")
    X, y = polars.DataFrame({"size": [1.0, 2, 3, 4]}), [0, 1, 0, 1]
    with pytest.raises(
        TypeError, match=r"^`X` must be a table in memory; got a LazyFrame\. Give what its `collect`"
    ):
        DecorateClassifier().fit(X.lazy(), y)
    for listed in (None, [0]):
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
            DecorateClassifier(categorical_features=listed).fit(X["size"], y)


@pytest.mark.parametrize("dtype", ["string", "object", "category"])
def test_missing_labels_are_counted(dtype):
    y = pd.Series(["k", None, "l"] * 20, dtype=dtype)
    with pytest.raises(ValueError, match=r"^`y` must hold a label for each row; got 20 missing\.$"):
        DecorateClassifier().fit(np.arange(120.0).reshape(60, 2), y)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize("listed", [None, [1]])
def test_a_missing_cell_of_pandas_is_a_missing_number(kind, listed):
    cells = np.random.default_rng(0).integers(0, 4, (60, 3)).astype(object)
    y = (cells[:, 0] > 1).astype(int)
    gaps = {gap: cells.copy() for gap in (np.nan, None, pd.NA)}
    for gap, own in gaps.items():
        own[::7, 0] = own[3, 2] = gap
    fitted = [
        DecorateClassifier(n_estimators=3, categorical_features=listed, random_state=0).fit(kind(own), y)
        for own in gaps.values()
    ]
    theirs = fitted[0].predict_proba(kind(gaps[np.nan]))
    for one, own in zip(fitted, gaps.values(), strict=True):
        np.testing.assert_array_equal(one.predict_proba(kind(own)), theirs)


def test_numbers_that_leave_no_room_for_artificial_ones_are_refused():
    X, y = np.random.default_rng(0).uniform(-1, 1, (60, 2)), [0, 1] * 30
    X[7, 0], X[8, 1] = 1.0, np.nan
    decorate = DecorateClassifier(n_estimators=5, random_state=0).fit(1e37 * X, y)
    assert len(decorate.estimators_) == 5
    message = r"^`X` must hold numbers between -1e\+37 and 1e\+37; got "
    for call in (lambda: decorate.fit(3e38 * X, y), lambda: decorate.predict(3e38 * X)):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_table_with_other_columns_is_refused(labor):
    model = DecorateClassifier(n_estimators=1).fit(labor.X, labor.y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(labor.X[labor.X.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(labor.X.iloc[:, 1:])


def test_an_array_with_fewer_columns_is_refused():
    model = DecorateClassifier(n_estimators=1, categorical_features=[2]).fit(np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="X has 2 features, but DecorateClassifier is expecting 3"):
        model.predict(np.eye(2))


def test_no_listed_column_is_no_nominal_column(glass):
    model = DecorateClassifier(DecisionTreeClassifier(), 1, categorical_features=[]).fit(glass.X, glass.y)
    assert model.score(glass.X, glass.y) == 1.0


# the benchmark


@pytest.fixture(scope="module")
def bench(load_benchmark):
    return load_benchmark("bench_decorate")


@pytest.fixture(scope="module")
def record(bench):
    return json.loads(bench.RESULTS.read_text(encoding="utf-8"))


def test_the_table_of_the_page_is_the_one_of_the_results(bench, record):
    page = bench.PAGE.read_text(encoding="utf-8")
    for mark, text in {"choice": "\n".join(bench.choice_table(record)), "table": bench.table(record)}.items():
        assert f"<!-- {mark} -->\n{text}\n<!-- end of {mark} -->" in page
    for group, rows in bench.differences(record).items():
        assert record["difference"][group] == {name: pytest.approx(row) for name, row in rows.items()}


def test_the_interval_is_that_of_the_paired_t_test(bench, record):
    for key, group in (("sets", "fifteen"), ("other_sets", "others")):
        ours, weka = (
            [np.mean(row["errors"][name]) for row in record[key].values()] for name in ("default", "weka")
        )
        expected = ttest_rel(ours, weka).confidence_interval(0.95)
        found = record["difference"][group]["default"]
        assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))


def test_the_default_has_the_lowest_error_of_unpruned_trees_where_it_was_chosen(bench, record):
    errors = record["choice"]["errors"]
    assert set(errors) == set(bench.CHOSEN_ON) < set(record["sets"])
    unpruned = {name: tree for name, tree in bench.CANDIDATES.items() if tree.ccp_alpha == 0}
    means = {name: np.mean([np.mean(row[name]) for row in errors.values()]) for name in unpruned}
    chosen = DecorateClassifier()._template().get_params()
    assert unpruned[min(means, key=means.get)].get_params() == chosen


def test_the_error_is_that_of_weka_within_one_standard_error(record):
    assert (len(record["sets"]), len(record["other_sets"])) == (15, 7)
    for group in ("fifteen", "others"):
        rows = record["difference"][group]
        assert abs(rows["default"]["mean_difference"]) <= rows["default"]["standard_error"]
        assert rows["default"]["mean_error"] < min(rows[name]["mean_error"] for name in ("Gini", "entropy"))
    assert record["speed"]["ratio_without_jvm_start"] >= 5


def test_pruning_was_dropped_for_what_it_did_where_it_was_not_chosen(bench, record):
    errors = {data: row for data, row in record["choice"]["errors"].items() if data != "splice"}
    means = {name: np.mean([np.mean(row[name]) for row in errors.values()]) for name in bench.CANDIDATES}
    assert all(means[name] > means["entropy, 3 rows in a leaf"] for name in means if "pruned" in name)
    for group in ("held out", "others"):
        rows = record["difference"][group]
        assert rows["entropy, pruned at 0.003"]["mean_error"] > rows["entropy"]["mean_error"]


def test_files_of_weka_are_read_as_tables(bench, tmp_path):
    (tmp_path / "vote.arff").write_text(
        "@relation vote\n@attribute 'aid' {'n', 'y'}\n@attribute size numeric\n@attribute Class {'r', 'd'}\n"
        "@data\n'n',1,'r'\n?,2,'d'\n'y',?,'d'\n"
    )
    table = bench.read("vote", None, tmp_path)
    assert table.X["aid"].tolist() == ["n", pytest.approx(np.nan, nan_ok=True), "y"]
    assert table.X["aid"].cat.categories.tolist() == ["n", "y"]
    assert table.X["size"].tolist()[:2] == [1, 2]
    assert table.y.tolist() == ["r", "d", "d"]
    assert table.class_names == ("d", "r")


def test_arff_files_declare_values_and_quote_them(bench, labor):
    lines = bench.arff(labor, [0, 1]).splitlines()
    assert "@attribute 'pension' {'empl_contr','none','ret_allw'}" in lines
    assert lines[lines.index("@data") + 1].endswith(",'good'")
    assert len(lines) == 1 + 17 + 1 + 2
    assert bench.quoted("it's") == r"'it\'s'"
