"""Tables as numbers for networks: held against scikit-learn's own transformers."""

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from counterpoint.datasets import load
from counterpoint.estimators import TableEncoder

EMBEDDED = ("breast-w", "glass", "iris", "labor", "segment", "soybean")


def animals(n=60):
    rng = np.random.default_rng(0)
    size = rng.normal(size=n)
    size[::7] = np.nan
    colour = rng.choice(["brown", "grey", "white"], n).astype(object)
    colour[::11] = None
    return pd.DataFrame(
        {"size": size, "colour": colour, "tame": rng.random(n) < 0.5, "age": rng.integers(1, 9, n)}
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_it_encodes_as_transformers_of_scikit_learn_do(name):
    X = load(name).X
    train, test = X.iloc[::2], X.iloc[1::2]
    nominal = [j for j, dtype in enumerate(X.dtypes) if dtype == "category"]
    numeric = [j for j in range(X.shape[1]) if j not in nominal]
    filled = SimpleImputer(keep_empty_features=True)
    values = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=3, sparse_output=False)
    parts = [
        ("scaled", make_pipeline(filled, StandardScaler()), numeric),
        ("missing", MissingIndicator(error_on_new=False, sparse=False), numeric),
        ("values", values, nominal),
    ]
    whole = ColumnTransformer([part for part in parts if part[2]])
    expected = make_pipeline(whole, VarianceThreshold()).fit(_coded(train))
    found = make_pipeline(TableEncoder(min_frequency=3, max_categories=None), VarianceThreshold()).fit(train)
    np.testing.assert_allclose(found.transform(train), expected.transform(_coded(train)), atol=1e-12)
    np.testing.assert_allclose(found.transform(test), expected.transform(_coded(test)), atol=1e-12)


def _coded(X):
    """Return the table with codes for nominal values, -1 for a missing one."""
    codes = {name: X[name].cat.codes for name in X if X[name].dtype == "category"}
    return X.assign(**codes)


def test_pieces_add_up_to_the_place_among_the_quantiles():
    x = np.random.default_rng(0).normal(size=(101, 2))
    x[:, 1] = 3.0
    encoder = TableEncoder(n_pieces=4).fit(x)
    pieces = encoder.transform(x)[:, 2:]
    assert pieces.shape == (101, 4)  # the constant column has none
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", *(f"x0_piece{k}" for k in range(4))]
    knots = np.quantile(x[:, 0], [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(pieces.sum(axis=1), np.interp(x[:, 0], knots, range(5)))


def test_the_kinds_of_columns_are_those_of_the_frame():
    frame = animals().assign(
        kind=pd.Categorical([1, 2] * 30),
        text=pd.Series(["a", "b"] * 30, dtype="string"),
        flag=pd.Series([True, None] * 30, dtype="boolean"),
        whole=pd.Series([1, None] * 30, dtype="Int64"),
        part=pd.Series([0.5, None, 1.5] * 20, dtype="Float64"),
        objects=pd.Series([1, 2.5, None] * 20, dtype=object),
        mixed=pd.Series(["a", 1, None] * 20, dtype=object),
    )
    encoder = TableEncoder().fit(frame)
    nominal = [name for name, given in zip(frame, encoder.is_categorical_, strict=True) if given]
    assert nominal == ["colour", "tame", "kind", "text", "flag", "mixed"]
    assert [categories.tolist() for categories in encoder.categories_] == [
        [None, "brown", "grey", "white"],
        [False, True],
        [1, 2],
        ["a", "b"],
        [None, True],
        [None, 1, "a"],
    ]
    assert frame.columns[encoder.missing_features_].tolist() == ["size", "whole", "part", "objects"]
    found = pd.DataFrame(encoder.transform(frame), columns=encoder.get_feature_names_out())
    assert np.isfinite(found).all().all()
    np.testing.assert_array_equal(found["whole_missing"], frame["whole"].isna())
    np.testing.assert_array_equal(found["flag_missing"], frame["flag"].isna())
    np.testing.assert_array_equal(found["mixed_1"], frame["mixed"] == 1)


def test_a_frame_of_polars_is_encoded_as_one_of_pandas():
    X = animals()
    columns = {name: [None if pd.isna(value) else value for value in X[name]] for name in X}
    frame = pl.DataFrame(columns).with_columns(
        kind=pl.Series(["b", "a"] * 30, dtype=pl.Categorical),
        rank=pl.Series(["b", "a"] * 30, dtype=pl.Enum(["b", "a"])),
    )
    X = X.assign(
        kind=pd.Categorical(["b", "a"] * 30), rank=pd.Categorical(["b", "a"] * 30, categories=["b", "a"])
    )
    one, other = TableEncoder().fit(X), TableEncoder().fit(frame)
    np.testing.assert_array_equal(one.transform(X), other.transform(frame))
    np.testing.assert_array_equal(one.transform(frame), other.transform(X))
    assert one.get_feature_names_out().tolist() == other.get_feature_names_out().tolist()


@pytest.mark.parametrize("listed", [[1], ["b"], [False, True], np.array([1])])
def test_nominal_columns_are_listed_by_position_name_or_mask(listed):
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [7, 8, 7, 8]})
    encoder = TableEncoder(listed).fit(X)
    assert encoder.is_categorical_.tolist() == [False, True]
    np.testing.assert_array_equal(encoder.transform(X)[:, 1:], [[1, 0], [0, 1]] * 2)
    array = TableEncoder([1]).fit(X.to_numpy())
    np.testing.assert_array_equal(array.transform(X.to_numpy()), encoder.transform(X))
    assert not TableEncoder(None).fit(X).is_categorical_.any()


def test_an_array_of_objects_may_hold_text_in_columns_that_are_listed():
    X = np.array([[1.0, "a"], [None, "b"], [3.0, None]], dtype=object)
    encoder = TableEncoder([1]).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x0_missing", "x1_missing", "x1_a", "x1_b"]
    assert encoder.transform(X)[:, 1:].tolist() == [[0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]]


def test_values_that_are_new_belong_to_the_rare_ones_or_have_no_column():
    X = pd.DataFrame({"colour": ["red"] * 10 + ["blue"] * 9 + ["mauve", "pink"]})
    new = pd.DataFrame({"colour": ["teal", None, "pink", "red"]})
    encoder = TableEncoder(min_frequency=2).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["colour_blue", "colour_red", "colour_infrequent"]
    assert encoder.infrequent_categories_[0].tolist() == ["mauve", "pink"]
    np.testing.assert_array_equal(encoder.transform(new), [[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 0]])
    encoder = TableEncoder(min_frequency=0).fit(X)
    assert encoder.infrequent_categories_ == [None]
    np.testing.assert_array_equal(encoder.transform(new).sum(axis=1), [0, 0, 1, 1])


def test_a_column_of_many_values_has_a_limited_number_of_columns():
    rng = np.random.default_rng(0)
    codes = rng.geometric(0.02, 3000)
    X = pd.DataFrame({"code": [f"v{code}" for code in codes]})
    encoder = TableEncoder(min_frequency=0, max_categories=20).fit(X)
    (infrequent,) = encoder.infrequent_categories_
    assert encoder.transform(X).shape == (3000, 20)
    counts = X["code"].value_counts()
    assert counts[infrequent].max() <= counts.drop(infrequent).min()
    assert TableEncoder().fit(X).transform(X).shape[1] <= 100
    assert counts[TableEncoder().fit(X).infrequent_categories_[0]].min() == 1
    assert TableEncoder(max_categories=None, min_frequency=0).fit(X).transform(X).shape[1] == len(counts)
    even = pd.DataFrame({"code": [f"v{i % 300}" for i in range(3000)]})
    assert len(TableEncoder().fit(even).infrequent_categories_[0]) == 201


def test_missing_numbers_are_means_before_scaling_and_empty_columns_are_zero():
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0], "empty": [np.nan] * 3, "same": [5.0] * 3})
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["a", "empty", "same", "a_missing"]
    np.testing.assert_allclose(encoder.scaler_.mean_, [2, 0, 5])
    np.testing.assert_allclose(encoder.transform(X)[:, 0], np.array([-1, 0, 1]) * np.sqrt(1.5))
    new = pd.DataFrame({"a": [2.0], "empty": [1e6], "same": [np.nan]})
    assert encoder.transform(new).tolist() == [[0, 0, 0, 0]]
    raw = TableEncoder(standardize=False).fit(X)
    assert raw.scaler_ is None
    assert raw.transform(new).tolist() == [[2, 0, 5, 0]]


def test_names_of_the_output_are_distinct_and_label_frames():
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0], "a_missing": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]})
    encoder = TableEncoder().set_output(transform="pandas")
    found = encoder.fit_transform(X)
    assert found.columns.tolist() == ["a", "a_missing", "a_missing_", "b_x", "b_y"]
    assert encoder.set_output(transform="polars").transform(X).columns == found.columns.tolist()


def test_a_copy_of_a_fitted_encoder_encodes_alike():
    X = animals()
    encoder = TableEncoder(n_pieces=3).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(X), encoder.transform(X))
    np.testing.assert_array_equal(clone(encoder).fit_transform(X), encoder.transform(X))


def test_columns_must_be_those_of_fit():
    X = animals()
    encoder = TableEncoder().fit(X)
    with pytest.raises(ValueError, match="must be in the same order"):
        encoder.transform(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="missing:\n- colour"):
        encoder.transform(X.drop(columns="colour"))


DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.Series(pd.to_datetime(DAYS)), r"datetime64\[\w+\]"),
        (pd.Series(pd.to_timedelta([1, 2, 3])), r"timedelta64\[ns\]"),
        (pd.Series(pd.period_range("2020", periods=3)), r"period\[D\]"),
        (pd.Series(pd.interval_range(0, 3)), "interval"),
        (pd.Series(DAYS), "date"),
        (pd.Series([[1], [2], [3]]), "list"),
        (pl.Series([[1], [2], [3]]), "list|ndarray"),
        (pl.Series(DAYS), "datetime64"),
    ],
)
def test_other_kinds_of_columns_are_refused_by_name(column, kind):
    frame = pl.DataFrame({"a": [1, 2, 3], "when": column}) if isinstance(column, pl.Series) else None
    frame = pd.DataFrame({"a": [1, 2, 3], "when": column}) if frame is None else frame
    with pytest.raises(
        ValueError, match=rf"^`X` must hold numbers or nominal values; got ({kind}).* in column 'when'\.$"
    ):
        TableEncoder().fit(frame)


def test_text_among_numbers_is_refused_by_name():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    rule = r"^`X` must hold numbers in columns that are not among the `categorical_features`; got '{}' in column {}\.$"
    with pytest.raises(ValueError, match=rule.format("x", "'b'")):
        TableEncoder(None).fit(X)
    with pytest.raises(ValueError, match=rule.format("x", "1")):
        TableEncoder().fit(X.to_numpy())
    encoder = TableEncoder().fit(X)
    with pytest.raises(ValueError, match=rule.format("big", "'a'")):
        encoder.transform(pd.DataFrame({"a": ["big", "2"], "b": ["x", "y"]}))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"categorical_features": "all"},
            ValueError,
            "`categorical_features` must be 'from_dtype', None, or columns by ",
        ),
        (
            {"categorical_features": [7]},
            ValueError,
            "`categorical_features` must hold positions from 0 to 1; got 7",
        ),
        (
            {"categorical_features": ["z"]},
            ValueError,
            "`categorical_features` must hold names of the columns; got 'z'",
        ),
        ({"n_pieces": -1}, ValueError, "`n_pieces` must be at least 0; got -1"),
        ({"min_frequency": -1}, ValueError, "`min_frequency` must be at least 0; got -1"),
        ({"max_categories": 0}, ValueError, "`max_categories` must be at least 1; got 0"),
        ({"standardize": "yes"}, TypeError, "`standardize` must be True or False; got 'yes'"),
    ],
)
def test_parameters_are_checked(settings, error, message):
    with pytest.raises(error, match=message):
        TableEncoder(**settings).fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


def test_lists_among_nominal_values_are_refused_by_name():
    encoder = TableEncoder().fit(pd.DataFrame({"b": ["x", "y"]}))
    with pytest.raises(ValueError, match=r"^`X` must hold nominal values in column 'b'; got: .*unhashable"):
        encoder.transform(pd.DataFrame({"b": [["x"], ["y"]]}))


@pytest.mark.parametrize("listed", ["from_dtype", [0]])
def test_sparse_and_infinite_tables_are_refused(listed):
    with pytest.raises(
        TypeError, match=r"^`X` must be dense; got a sparse matrix, which `toarray` makes dense\.$"
    ):
        TableEncoder(listed).fit(csr_array(np.eye(3)))
    with pytest.raises(ValueError, match="contains infinity"):
        TableEncoder(listed).fit([[1.0, np.inf], [2.0, 1.0]])
