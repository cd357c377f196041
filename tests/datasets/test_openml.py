from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from counterpoint.datasets import DATASETS, load
from tests.datasets.conftest import ELSEWHERE, TYPES, columns_of


def as_openml_gives_it(name):
    """Return the three rows of a set in OpenML's dress: its types, quotes and column names."""
    frame = {}
    for column, cells in columns_of(name).items():
        if TYPES[name][column] == "numeric":
            values = pd.Series([float(cell) if cell else np.nan for cell in cells])
        else:
            values = pd.Series([f" '{cell}'" if cell else None for cell in cells], dtype="category")
        frame[column.replace("/", "%2F").replace("_", "-").upper()] = values
    target = frame.pop("CLASS")
    return SimpleNamespace(data=pd.DataFrame(frame), target=target)


@pytest.fixture
def requests(monkeypatch):
    """Stand in for the network alone; the numbers that were asked for are collected."""
    asked = []
    names = {source.openml_id: name for name, source in DATASETS.items()}

    def fetch(*, data_id, as_frame):
        assert as_frame
        asked.append(data_id)
        return as_openml_gives_it(names[data_id])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return asked


@pytest.mark.parametrize("name", ELSEWHERE)
def test_openml_gives_the_same_data_set_as_the_csv(folder, requests, name):
    fetched, read = load(name), load(name, data_dir=folder)
    assert requests == [DATASETS[name].openml_id]
    pd.testing.assert_frame_equal(fetched.X, read.X)
    assert np.array_equal(fetched.y, read.y)
    assert fetched.class_names == read.class_names
    assert fetched.description == read.description


def test_numbers_that_are_codes_of_a_nominal_column_are_written_as_codes(monkeypatch):
    table = as_openml_gives_it("lymph")
    table.data["BY-PASS"] = [2.0, np.nan, 10.0]
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: table)
    assert load("lymph").X["by_pass"].cat.categories.tolist() == ["10", "2"]


def test_a_folder_in_the_environment_that_lacks_the_file_leaves_it_to_openml(tmp_path, monkeypatch, requests):
    monkeypatch.setenv("COUNTERPOINT_DATA", str(tmp_path))
    assert len(load("lymph").y) == 3
    assert requests == [10]


def test_embedded_sets_never_ask_openml(requests):
    load("iris")
    assert requests == []


def test_a_table_with_other_columns_is_refused(monkeypatch):
    table = as_openml_gives_it("lymph")
    table.data = table.data.drop(columns="BY-PASS")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: table)
    with pytest.raises(ValueError, match=r"'OpenML' must have a column 'by_pass'"):
        load("lymph")


def test_offline_the_error_says_how_to_give_the_folder(monkeypatch):
    def fail(**_):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    message = (
        r"'lymph' could not be fetched from OpenML \(<urlopen error no route to host>\); pass "
        r"`data_dir`, or set COUNTERPOINT_DATA, to the path of a folder that holds 'lymph\.csv'\.$"
    )
    with pytest.raises(ConnectionError, match=message):
        load("lymph")
