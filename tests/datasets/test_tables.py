import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from counterpoint.datasets import DATASETS, load
from tests.datasets.conftest import ELSEWHERE, TYPES, columns_of, write_csv

EMBEDDED = [name for name, source in DATASETS.items() if source.embedded]

# Rows, features and rows per class as the repository's own descriptions give them.
DOCUMENTED = {
    "breast-w": (699, 9, [241, 458]),
    "glass": (214, 9, [9, 13, 17, 29, 70, 76]),
    "iris": (150, 4, [50, 50, 50]),
    "labor": (57, 16, [20, 37]),
    "segment": (2310, 19, [330] * 7),
    "soybean": (683, 35, [8, 14, 15, 16, *[20] * 9, 44, 44, 88, 91, 91, 92]),
}


def test_the_package_embeds_the_documented_tables():
    assert sorted(EMBEDDED) == sorted(DOCUMENTED)


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_table_has_its_documented_size_and_classes(name):
    data = load(name)
    rows, features, per_class = DOCUMENTED[name]
    assert data.X.shape == (rows, features)
    assert data.y.shape == (rows,)
    assert sorted(Counter(data.y.tolist()).values()) == per_class


def test_iris_is_scikit_learns_but_for_the_two_rows_it_corrected():
    # scikit-learn follows Fisher's paper in rows 34 and 37, the UCI file does not.
    ours, theirs = load("iris"), load_iris()
    differ = np.flatnonzero((ours.X.to_numpy() != theirs.data).any(axis=1))
    assert differ.tolist() == [34, 37]
    assert np.array_equal(np.unique(ours.y, return_inverse=True)[1], theirs.target)


def test_breast_w_misses_sixteen_values_of_one_column():
    missing = load("breast-w").X.isna().sum()
    assert missing[missing > 0].to_dict() == {"Bare.nuclei": 16}


def test_a_constant_column_is_kept():
    assert load("segment").X["region-pixel-count"].unique().tolist() == [9.0]


@pytest.mark.parametrize("name", EMBEDDED)
def test_columns_have_the_types_of_the_table_of_types(name):
    data = load(name)
    assert data.feature_names == tuple(data.X.columns)
    assert data.feature_names == tuple(column for column in TYPES[name] if column != "class")
    for column in data.X:
        values = data.X[column]
        if TYPES[name][column] == "numeric":
            assert values.dtype == np.float64
        else:
            assert isinstance(values.dtype, pd.CategoricalDtype)
            categories = values.cat.categories.tolist()
            assert categories == sorted(values.dropna().unique())


@pytest.mark.parametrize("name", EMBEDDED)
def test_labels_are_strings_and_class_names_their_sorted_values(name):
    data = load(name)
    assert data.y.dtype.kind == "U"
    assert data.class_names == tuple(sorted(set(data.y.tolist())))
    assert all(type(label) is str for label in data.class_names)


def test_the_word_none_is_a_value_and_an_empty_cell_is_missing():
    pension = load("labor").X["pension"]
    assert "none" in pension.cat.categories
    assert pension.isna().any()


def test_scikit_learn_takes_the_tables_as_they_are():
    data = load("labor")
    encode = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_include="category")),
        (SimpleImputer(), make_column_selector(dtype_include="number")),
    )
    tree = make_pipeline(encode, DecisionTreeClassifier(random_state=0)).fit(data.X, data.y)
    assert tree.score(data.X, data.y) == 1.0
    assert tuple(tree.classes_) == data.class_names
    boosted = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(data.X, data.y)
    assert tuple(boosted.classes_) == data.class_names


def test_each_load_is_a_fresh_frame():
    X = load("iris").X
    X.iloc[:, :] = 0.0
    assert load("iris").X.to_numpy().min() > 0


def test_a_data_set_is_frozen_and_prints_sizes_and_classes():
    data = load("breast-w")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.y = None
    assert repr(data) == (
        "Dataset(699 rows; 9 numeric and 0 nominal features; 2 classes: benign 458, malignant 241)"
    )
    assert repr(load("soybean")).endswith(", 12 more)")


@pytest.mark.parametrize("name", DATASETS)
def test_every_set_names_its_source_in_the_docstring_of_load(name):
    assert f"* {name}: " in load.__doc__
    assert f"({DATASETS[name].uci_id})" in load.__doc__


def test_the_description_carries_source_and_licence():
    text = load("iris").description
    assert text == (
        "iris: Iris. R. A. Fisher. UCI Machine Learning Repository, "
        "https://archive.ics.uci.edu/dataset/53 (CC BY 4.0)."
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_page_of_the_documentation_shows_the_sizes_of_the_loaded_table(name):
    data = load(name)
    nominal = sum(dtype == "category" for dtype in data.X.dtypes)
    sizes = (len(data.y), data.X.shape[1] - nominal, nominal, len(data.class_names))
    row = " | ".join(map(str, (name, *sizes, data.X.isna().to_numpy().sum())))
    page = Path(__file__).parents[2] / "docs" / "datasets.md"
    assert f"| {row} |" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_other_nine_load_from_a_folder(folder, name):
    data = load(name, data_dir=folder)
    assert data.class_names == ("no", "yes")
    assert data.y.tolist() == ["yes", "no", "yes"]
    for column, kind in TYPES[name].items():
        if column in ("class", "Instance_name"):
            assert column not in data.X
        elif kind == "numeric":
            assert np.array_equal(data.X[column], [1.0, 2.5, np.nan], equal_nan=True)
        else:
            assert data.X[column].cat.codes.tolist() == [1, -1, 0]


def test_an_empty_nominal_column_is_kept_without_categories(tmp_path):
    write_csv(tmp_path / "lymph.csv", columns_of("lymph") | {"by_pass": ["", "", ""]})
    by_pass = load("lymph", tmp_path).X["by_pass"]
    assert by_pass.isna().all()
    assert len(by_pass.cat.categories) == 0


def test_the_environment_names_the_folder_and_data_dir_overrides_it(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTERPOINT_DATA", str(folder))
    assert len(load("lymph").y) == 3
    other = tmp_path / "other"
    twice = {column: [*cells, *cells] for column, cells in columns_of("lymph").items()}
    write_csv(other / "lymph.csv", twice)
    assert len(load("lymph", other).y) == 6


def test_the_parent_of_a_folder_named_more_will_do(tmp_path):
    write_csv(tmp_path / "more" / "lymph.csv", columns_of("lymph"))
    assert len(load("lymph", str(tmp_path)).y) == 3


@pytest.mark.parametrize("place", ["more", "."])
def test_types_beside_the_file_or_one_folder_up_take_precedence(tmp_path, place):
    write_csv(tmp_path / "more" / "lymph.csv", {"size": ["1", "2"], "class": ["a", "b"]})
    types = {"lymph": {"size": "nominal", "class": "nominal"}}
    (tmp_path / place / "types.json").write_text(json.dumps(types))
    X = load("lymph", tmp_path / "more").X
    assert X["size"].cat.categories.tolist() == ["1", "2"]


def test_types_beside_the_file_that_do_not_name_the_set_leave_it_to_the_folder_above(tmp_path):
    write_csv(tmp_path / "more" / "lymph.csv", {"size": ["1", "2"], "class": ["a", "b"]})
    (tmp_path / "more" / "types.json").write_text(json.dumps({"autos": {"class": "nominal"}}))
    (tmp_path / "types.json").write_text(json.dumps({"lymph": {"size": "nominal", "class": "nominal"}}))
    assert load("lymph", tmp_path / "more").X["size"].cat.categories.tolist() == ["1", "2"]


def test_embedded_sets_come_from_the_package_whatever_the_folder_holds(tmp_path):
    write_csv(tmp_path / "iris.csv", columns_of("iris"))
    assert len(load("iris", tmp_path).y) == 150


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("irs", ValueError, r"`name` must be one of 'anneal', .*; got 'irs'\. Did you mean 'iris'"),
        ("Iris", ValueError, r"got 'Iris'\. Did you mean 'iris'\?"),
        ("zebra crossing", ValueError, r"'splice'; got 'zebra crossing'\.$"),
        (7, TypeError, r"`name` must be a string; got 7\."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name, error, message):
    with pytest.raises(error, match=message):
        load(name)


def test_a_folder_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"`data_dir` must be a folder that exists; got"):
        load("lymph", tmp_path / "nowhere")
    monkeypatch.setenv("COUNTERPOINT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"`COUNTERPOINT_DATA` must be a folder that"):
        load("lymph")


def test_a_folder_without_the_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`data_dir` must hold 'lymph\.csv'; got"):
        load("lymph", tmp_path)


def test_a_data_dir_that_is_no_path_is_refused():
    with pytest.raises(TypeError, match=r"`data_dir` must be the path of a folder; got 3\."):
        load("lymph", 3)


def test_an_empty_data_dir_is_not_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^`data_dir` must be the path of a folder; got ''\.$"):
        load("lymph", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": None}, r"lymph\.csv' must have a column 'class'; it has none"),
        ({"by_pass": None}, r"lymph\.csv' must have a column 'by_pass'; it has none"),
        ({"extra": ["1"] * 3}, r"lymph\.csv' must have a type in types\.json; got 'extra'"),
        ({"class": ["a", "", "b"]}, r"'class' of '.*lymph\.csv' must hold a label in row 2; got ''"),
        (
            {"lym_nodes_dimin": ["1", "2", "big"]},
            r"'lym_nodes_dimin' of '.*lymph\.csv' must hold numbers; got 'big' in row 3",
        ),
        ({"lym_nodes_dimin": ["nan", "2", "3"]}, r"must hold numbers; got 'nan' in row 1"),
        ({"lym_nodes_dimin": ["1", "inf", "3"]}, r"must hold numbers; got 'inf' in row 2"),
    ],
)
def test_a_bad_table_is_refused_by_file_column_and_row(tmp_path, change, message):
    columns = columns_of("lymph") | change
    columns = {column: cells for column, cells in columns.items() if cells is not None}
    write_csv(tmp_path / "lymph.csv", columns)
    with pytest.raises(ValueError, match=message):
        load("lymph", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"lymph\.csv' must have a header and at least one row; got 0 rows"),
        (b"by_pass,class\n", r"must have a header and at least one row; got 1 rows"),
        (b"by_pass,class\nyes,a\n\nno\n", r"Row 2 of '.*lymph\.csv' must have 2 cells; got 1"),
        (b"class,class\na,b\n", r"lymph\.csv' must be distinct; got 'class' twice"),
        (b"class\n\xff\n", r"lymph\.csv' must be a CSV file in UTF-8; got"),
        (b'class\n"a\n', r"lymph\.csv' must be a CSV file in UTF-8; got"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content, message):
    (tmp_path / "lymph.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load("lymph", tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"lymph": 3}', '{"lymph": {"class": "word"}}'])
def test_bad_types_are_refused(folder, text):
    (folder / "types.json").write_text(text)
    with pytest.raises(ValueError, match=r"types\.json' must say numeric or nominal for each"):
        load("lymph", folder)
