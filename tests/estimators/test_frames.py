"""Frames with nominal and missing values in both estimators."""

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from counterpoint.assessment import assess_estimator
from counterpoint.datasets import load
from counterpoint.estimators import (
    DecorateClassifier,
    DiverseEnsembleClassifier,
    DiverseEnsembleClassifierCV,
    DiverseEnsembleRegressor,
    DiverseEnsembleRegressorCV,
    TableEncoder,
)

SMALL = DiverseEnsembleClassifier(
    n_estimators=3, hidden_layer_sizes=(16,), epochs=12, learning_rate=0.02, random_state=0
)
SEARCH = DiverseEnsembleClassifierCV(
    n_estimators=2,
    hidden_layer_sizes=(8,),
    epochs=6,
    learning_rate=0.02,
    diversities=(0.5,),
    cv=3,
    random_state=0,
)


def animals(n=200, seed=0):
    """Return a frame of many kinds of columns, and classes that its nominal and missing values decide."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["brown", "grey", "white"], n).astype(object)
    size = rng.normal(size=n)
    size[rng.random(n) < 0.3] = np.nan
    y = np.where((colour == "grey") ^ np.isnan(size), "cat", "dog")
    colour[rng.random(n) < 0.05] = None
    frame = pd.DataFrame(
        {
            "size": size,
            "colour": colour,
            "tame": rng.random(n) < 0.5,
            "kind": pd.Categorical(rng.choice(["x", "y", None], n)),
            "age": pd.Series(rng.integers(1, 9, n)).astype("Int64").mask(rng.random(n) < 0.1),
            "weight": pd.Series(rng.normal(size=n)).astype("Float64").mask(rng.random(n) < 0.1),
            "same": 5.0,
            "empty": np.nan,
        }
    )
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    X, y = animals()
    return clone(SMALL).set_params(epochs=40).fit(X, y)


def test_nominal_and_missing_values_decide(fitted):
    X, y = animals(seed=1)
    assert fitted.score(X, y) > 0.9
    assert fitted.n_features_in_ == 8
    assert fitted.feature_names_in_.tolist() == list(X)
    assert fitted.encoder_.get_feature_names_out().shape == (fitted.encoder_.transform(X).shape[1],)
    assert fitted.learner_predict_proba(X).shape == (3, 200, 2)
    assert fitted.assess(X, y).vote.value == fitted.score(X, y)
    assert assess_estimator(fitted, X, y).vote.value == fitted.score(X, y)


def test_the_networks_see_what_the_encoder_returns(fitted):
    X, _ = animals()
    encoded = TableEncoder(n_pieces=8).fit_transform(X)
    np.testing.assert_allclose(fitted.encoder_.transform(X), encoded, atol=1e-12)
    rows = torch.as_tensor(encoded, dtype=torch.float32)
    for network, proba in zip(fitted.estimators_, fitted.learner_predict_proba(X), strict=True):
        np.testing.assert_allclose(network(rows).softmax(-1).detach(), proba, atol=1e-5)


@pytest.mark.parametrize("model", [SMALL, SEARCH], ids=["one", "search"])
def test_a_frame_of_polars_is_one_of_pandas(model):
    X, y = animals()
    columns = {name: [None if pd.isna(value) else value for value in X[name]] for name in X}
    frame = pl.DataFrame(columns, schema_overrides={"empty": pl.Float64, "kind": pl.Enum(["x", "y"])})
    expected = clone(model).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(clone(model).fit(frame, y).predict_proba(frame), expected)


@pytest.mark.parametrize("model", [SMALL, SEARCH], ids=["one", "search"])
def test_a_frame_of_numbers_is_an_array(model):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = clone(model).fit(X, y)
    expected = clone(model).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X.to_numpy()))
    objects = clone(model).fit(X.astype(object), y)
    np.testing.assert_array_equal(objects.predict_proba(X), expected.predict_proba(X.to_numpy()))
    assert model.set_params(n_pieces=0).fit(X, y).encoder_.transform(X).shape == X.shape


def test_a_missing_number_in_an_array_is_a_value():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    X[rng.random(200) < 0.5, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    assert clone(SMALL).fit(X, y).score(X, y) > 0.95
    with pytest.raises(ValueError, match="contains infinity"):
        clone(SMALL).fit(np.where(np.isnan(X), np.inf, X), y)


@pytest.mark.parametrize("standardize", [True, False])
def test_a_value_that_is_missing_first_in_prediction_is_the_mean(standardize):
    X, y = load_iris(return_X_y=True)
    model = clone(SMALL).set_params(standardize=standardize).fit(X, y)
    gap, mean = X[:1].copy(), X[:1].copy()
    gap[0, 2], mean[0, 2] = np.nan, X[:, 2].mean()
    np.testing.assert_allclose(model.predict_proba(gap), model.predict_proba(mean), atol=1e-6)


def test_new_values_and_new_gaps_are_predicted(fitted):
    X, _ = animals(20, seed=2)
    new = X.assign(colour="mauve", tame=None, kind=pd.Categorical(["z"] * 20), same=np.nan, empty=1e9)
    proba = fitted.predict_proba(new)
    assert np.isfinite(proba).all()
    np.testing.assert_array_equal(fitted.predict_proba(new.assign(colour="pink", empty=np.nan)), proba)
    assert np.abs(fitted.predict_proba(new.assign(colour="grey")) - proba).max() > 0.05


def test_columns_must_be_those_of_fit(fitted):
    X, y = animals()
    for model in (fitted, clone(SEARCH).set_params(epochs=1).fit(X, y)):
        with pytest.raises(ValueError, match="must be in the same order"):
            model.predict(X[X.columns[::-1]])
        with pytest.raises(ValueError, match="missing:\n- colour"):
            model.predict(X.drop(columns="colour"))


@pytest.mark.parametrize("model", [SMALL, SEARCH], ids=["one", "search"])
def test_tables_that_cannot_be_read_are_refused_in_one_sentence(model):
    X, y = animals()
    when = X.assign(when=pd.Timestamp("2020"))
    with pytest.raises(
        ValueError, match=r"^`X` must hold numbers or nominal values; got datetime64.* column 'when'\.$"
    ):
        clone(model).fit(when, y)
    with pytest.raises(ValueError, match=r"got 'grey' in column 'colour'\.$"):
        clone(model).set_params(categorical_features=["tame", "kind"]).fit(X.assign(colour="grey"), y)
    with pytest.raises(
        TypeError, match=r"^`X` must be dense; got a sparse matrix, which `toarray` makes dense\.$"
    ):
        clone(model).fit(csr_array(np.eye(200)), y)


def test_columns_of_codes_are_nominal_where_they_are_listed():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (300, 2)).astype(float)
    y = X[:, 0].astype(int) % 2
    model = clone(SMALL).set_params(categorical_features=[0]).fit(X, y)
    assert model.encoder_.is_categorical_.tolist() == [True, False]
    assert model.score(X, y) == 1
    assert clone(SMALL).set_params(categorical_features=[True, False]).fit(X, y).score(X, y) == 1


def test_weights_are_repeated_rows_and_the_order_of_rows_does_not_matter():
    X, y = animals(120)
    X["code"] = [f"v{i % 50}" for i in range(120)]
    weight = np.random.default_rng(0).integers(0, 4, 120)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(120), weight))
    weighted = clone(SMALL).fit(X, y, weight).predict_proba(X)
    repeated = clone(SMALL).fit(X.iloc[order], y[order]).predict_proba(X)
    np.testing.assert_array_equal(repeated, weighted)
    np.testing.assert_allclose(clone(SMALL).fit(X, y, weight / 1000).predict_proba(X), weighted, atol=1e-4)
    assert clone(SMALL).set_params(class_weight="balanced").fit(X, y, weight).score(X, y) > 0.5


def test_training_goes_on_with_the_columns_of_the_first_rows():
    X, y = animals()
    model = clone(SMALL).partial_fit(X[:100], y[:100], classes=["cat", "dog"])
    names = model.encoder_.get_feature_names_out().tolist()
    new = X[100:].assign(colour="mauve", same=np.nan)
    assert model.partial_fit(new, y[100:]).encoder_.get_feature_names_out().tolist() == names
    np.testing.assert_allclose(model.scaler_.mean_[3], 5)  # of the column "same"
    weights = TableEncoder().fit(X)
    np.testing.assert_allclose(model.scaler_.mean_[0], weights.scaler_.mean_[0], atol=0.05)
    model = clone(SMALL).set_params(warm_start=True).fit(X, y)
    names = model.encoder_.get_feature_names_out().tolist()
    assert model.fit(new, y[100:]).encoder_.get_feature_names_out().tolist() == names
    assert np.isfinite(model.predict_proba(new)).all()


def test_it_works_in_a_pipeline_a_grid_search_and_cross_validation():
    X, y = animals()
    pipeline = make_pipeline("passthrough", clone(SMALL))
    search = GridSearchCV(pipeline, {"diverseensembleclassifier__diversity": [0.0, 0.9]}, cv=2).fit(X, y)
    assert search.predict(X).shape == (200,)
    assert cross_val_score(clone(SMALL).set_params(epochs=40), X, y, cv=2).min() > 0.8


def test_the_search_for_a_diversity_scales_by_the_training_rows_of_each_fold(monkeypatch):
    from counterpoint.estimators import diverse_cv

    X, y = animals()
    X["code"] = [f"v{i // 4}" for i in range(200)]
    folds = []
    made = diverse_cv.SearchFold
    monkeypatch.setattr(diverse_cv, "SearchFold", lambda *a: folds.append(made(*a)) or folds[-1])
    # all rows of a value lie in one fold, so that the others have never seen it
    splits = [
        (np.flatnonzero(np.arange(200) // 4 % 3 != k), np.flatnonzero(np.arange(200) // 4 % 3 == k))
        for k in range(3)
    ]
    search = clone(SEARCH).set_params(cv=splits, epochs=1).fit(X, y)
    names = search.encoder_.get_feature_names_out()
    codes = np.flatnonzero([name.startswith("code_v") for name in names])
    for fold in folds:
        assert fold.fold.x.shape[1] == len(names)
        assert fold.fold.x[:, codes].any()
        assert not fold.test_x[:, codes].any()
        numeric = fold.fold.x[:, :5].numpy()
        np.testing.assert_allclose(numeric.mean(axis=0), 0, atol=1e-5)
    assert search.best_estimator_.predict(X).tolist() == search.predict(X).tolist()


def test_a_search_on_a_table_finds_what_its_values_say():
    labor = load("labor")
    search = clone(SEARCH).set_params(epochs=30).fit(labor.X, labor.y)
    assert search.score(labor.X, labor.y) > 0.9
    assert search.cv_results_["mean_test_score"].min() > 0.6
    assert search.best_estimator_.feature_names_in_.tolist() == list(labor.X)


def test_what_is_saved_is_loaded_without_pickle(fitted, tmp_path):
    X, y = animals(seed=3)
    path = tmp_path / "model.safetensors"
    X["colour"] = X["colour"].where(X["colour"] != "white", "mauve")
    fitted.save(path)
    loaded = DiverseEnsembleClassifier.load(path)
    np.testing.assert_array_equal(loaded.learner_predict_proba(X), fitted.learner_predict_proba(X))
    np.testing.assert_array_equal(loaded.encoder_.transform(X), fitted.encoder_.transform(X))
    assert (
        loaded.encoder_.get_feature_names_out().tolist() == fitted.encoder_.get_feature_names_out().tolist()
    )
    assert [c.tolist() for c in loaded.encoder_.categories_] == [
        c.tolist() for c in fitted.encoder_.categories_
    ]
    assert np.isfinite(loaded.partial_fit(X, y).predict_proba(X)).all()
    loaded.save(tmp_path / "again")
    again = DiverseEnsembleClassifier.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(X), loaded.predict_proba(X))


@pytest.mark.parametrize("listed", [[1], np.array([False, True]), (np.int64(1),)])
def test_rare_values_and_listed_columns_are_saved(tmp_path, listed):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=800), rng.geometric(0.05, 800)])
    y = (X[:, 1] > 10).astype(int)
    model = clone(SMALL).set_params(categorical_features=listed).fit(X, y)
    assert model.encoder_.infrequent_categories_[0] is not None
    model.save(tmp_path / "model")
    loaded = DiverseEnsembleClassifier.load(tmp_path / "model")
    new = np.array([[0.0, 7.0], [0.0, 999.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    assert np.ravel(loaded.get_params()["categorical_features"]).tolist() == np.ravel(listed).tolist()


def test_numbers_of_numpy_among_text_are_saved(tmp_path):
    X = pd.DataFrame({"a": pd.Series([np.int64(3), "x", np.float32(0.5), np.True_] * 15, dtype=object)})
    y = np.arange(60) % 2
    model = clone(SMALL).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        DiverseEnsembleClassifier.load(tmp_path / "model").predict_proba(X), model.predict_proba(X)
    )


def test_values_that_json_cannot_hold_are_not_saved(tmp_path):
    X = pd.DataFrame({"a": pd.cut(np.arange(20), 3)})
    model = clone(SMALL).fit(X, np.arange(20) % 2)
    assert model.predict(X).shape == (20,)
    with pytest.raises(
        TypeError, match="nominal values that are text, numbers or booleans, to be saved; got Interval"
    ):
        model.save(tmp_path / "model")


@pytest.mark.parametrize("standardize", [True, False])
def test_missing_numbers_go_to_onnx(tmp_path, standardize):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.full(150, np.nan)])
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    X[:, 1] = np.nan_to_num(X[:, 1])
    model = clone(SMALL).set_params(standardize=standardize).fit(X, y)
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    X[0] = [np.nan, np.nan, 1, 2, 1e6]  # the second has an indicator no more than the last has a mean
    (found,) = session.run(None, {"features": X.astype(np.float32)})
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-4)


def test_a_table_with_nominal_columns_goes_to_onnx_encoded(fitted, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, _ = animals(seed=4)
    path = tmp_path / "model.onnx"
    with pytest.raises(
        ValueError, match="`encoded` must be True for a table with nominal columns, of which 'colour' is"
    ):
        fitted.to_onnx(path)
    assert not path.exists()
    fitted.to_onnx(path, encoded=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"features": fitted.encoder_.transform(X).astype(np.float32)})
    np.testing.assert_allclose(found, fitted.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "b", None] * 20, r"`y` must hold a class in every row; got None in row 2\."),
        (
            pd.Series(["a", pd.NA] * 30, dtype="string"),
            r"`y` must hold a class in every row; got <NA> in row 1\.",
        ),
        (pd.Categorical([None, "a", "b"] * 20), r"`y` must hold a class in every row; got nan in row 0\."),
        (pl.Series([True, False, None] * 20), r"`y` must hold a class in every row; got None in row 2\."),
        (np.array([1, "a"] * 30, dtype=object), r"`y` must hold labels of one kind, .*; got 'a' at \[1\]\."),
        (
            pd.Series(pd.date_range("2020", periods=60)),
            r"`y` must hold numbers or strings; got dtype datetime64",
        ),
    ],
)
@pytest.mark.parametrize("model", [SMALL, SEARCH], ids=["one", "search"])
def test_classes_that_cannot_be_read_are_refused_in_one_sentence(model, y, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        clone(model).fit(animals(60)[0], y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["yes", "no"] * 30, r"`y` must hold numbers; got 'yes' in row 0\."),
        ([0.5, "no"] * 30, r"`y` must hold numbers; got 'no' in row 1\."),
        (pd.Series([1.0, {}] * 30), r"`y` must hold numbers; got \{\} in row 1\."),
        (
            pd.Series(pd.date_range("2020", periods=60)),
            r"`y` must hold numbers; got dtype datetime64\[.s\]\.",
        ),
        (pd.to_timedelta(np.arange(60)), r"`y` must hold numbers; got dtype timedelta64\[ns\]\."),
    ],
)
@pytest.mark.parametrize(
    "model", [DiverseEnsembleRegressor(), DiverseEnsembleRegressorCV()], ids=["one", "search"]
)
def test_numbers_to_predict_that_cannot_be_read_are_refused_in_one_sentence(model, y, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        clone(model).fit(animals(60)[0], y)


SPARSE = pd.DataFrame({"a": pd.arrays.SparseArray([0, 1] * 30)})


@pytest.mark.parametrize(
    "model", [SMALL, DiverseEnsembleRegressor(n_estimators=2, epochs=1)], ids=["classes", "numbers"]
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"new": 1j}, r"`X` must hold real numbers; got complex128 in column 'new'\."),
        (
            {"new": [1.0, np.inf] * 30},
            r"`X` must hold numbers that are finite or missing; got inf in column 'new'\.",
        ),
        (
            {"new": np.arange(60) * 1e300},
            r"`X` must hold numbers whose variance is finite; got 5\.9e\+301 in column 'new'\.",
        ),
    ],
)
def test_columns_that_networks_cannot_use_are_named(model, change, message):
    X, y = animals(60)
    with pytest.raises(ValueError, match=f"^{message}$"):
        clone(model).fit(X.assign(**change), y == "cat")


@pytest.mark.parametrize("value", ["big", b"big", {1}, [1, 2], 1j, datetime.date(2020, 1, 1)], ids=repr)
@pytest.mark.parametrize("model", [clone(SMALL).set_params(categorical_features=None), DecorateClassifier()])
def test_what_is_no_number_in_a_numeric_column_is_named(model, value):
    numbers = np.arange(60.0)
    X, y = pd.DataFrame({"n": numbers, "a": pd.Series([None, value] * 30, dtype=object)}), numbers % 2
    rule = "`X` must hold numbers in columns that are not among the `categorical_features`"
    with pytest.raises(ValueError, match=rf"^{rule}; got {re.escape(repr(value))} in column 'a'\.$"):
        clone(model).fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": pd.Categorical(["big"] * 200)}, r".* `categorical_features`; got 'big' in column 'size'\."),
        ({"size": -np.inf}, r"`X` must hold numbers that are finite or missing; got -inf in column 'size'\."),
        ({"size": 1e300}, r"`X` must hold numbers that float32 can; got 1e\+300 in column 'size'\."),
    ],
)
def test_columns_that_changed_since_the_fit_are_named(fitted, change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        fitted.predict(animals()[0].assign(**change))


def test_what_is_no_table_of_columns_is_refused(fitted):
    X, y = animals(60)
    with pytest.raises(
        TypeError, match=r"^`X` must be dense; got sparse columns, which `sparse.to_dense` makes dense\.$"
    ):
        clone(SMALL).fit(SPARSE, y)
    for empty in (X[[]], pl.DataFrame()):
        with pytest.raises(ValueError, match=r"^`X` must have at least one column; got shape \(\d+, 0\)\.$"):
            clone(SMALL).fit(empty, y)
    with pytest.raises(ValueError, match=r"^Expected a 2-dimensional container but got <class 'pandas"):
        fitted.predict(X.iloc[0])


def test_a_number_that_became_a_category_is_still_a_number():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = clone(SMALL).fit(X, y)
    same = X.assign(**{X.columns[0]: pd.Categorical(X.iloc[:, 0])})
    np.testing.assert_array_equal(model.predict_proba(same), model.predict_proba(X))


def test_tuples_are_nominal_values_and_nested_columns_are_refused():
    X, y = pd.DataFrame({"a": [(1, 2), (3,)] * 30}), np.arange(60) % 2
    assert clone(SMALL).fit(X, y).score(X, y) == 1
    for value, kind in ((pl.struct(pl.lit(1).alias("x")), "dict"), (pl.lit([1]), "list")):
        frame = pl.DataFrame({"n": range(60)}).with_columns(value.alias("b"))
        with pytest.raises(
            ValueError, match=rf"^`X` must hold numbers or nominal values; got {kind} in column 'b'\.$"
        ):
            clone(SMALL).fit(frame, y)
