"""The history is plain data."""

import json
import math
import re

import numpy as np
import pytest
import torch

from counterpoint.plots import TradeoffDisplay
from counterpoint.training import History


def example():
    return History(
        [
            {"epoch": 1, "loss": 0.5, "r_tl": 0.1, "r_ll": 0.7},
            {"epoch": 2, "loss": math.inf, "r_tl": 0.4, "r_ll": math.nan},
            {"epoch": 3, "loss": -math.inf, "r_tl": 0.6, "r_ll": 0.5, "late": 1.0},
        ],
        best_epoch=2,
    )


def test_json_gives_back_the_same_history():
    history = example()
    text = history.to_json()
    assert json.loads(text)["epochs"][1]["r_ll"] is None  # strict JSON has no NaN
    back = History.from_json(text)
    assert back == history
    assert back.best_epoch == 2
    assert math.isnan(back[1]["r_ll"])
    assert back[1]["loss"] == math.inf
    assert back[2]["loss"] == -math.inf
    assert back != History(history.records[:2], best_epoch=2)


def test_columns_rows_and_length():
    history = example()
    assert len(history) == 3
    assert history.columns == ["epoch", "loss", "r_tl", "r_ll", "late"]
    np.testing.assert_array_equal(history["epoch"], [1, 2, 3])
    np.testing.assert_array_equal(history["late"], [math.nan, math.nan, 1.0])
    assert history[-1]["r_tl"] == history[np.int64(2)]["r_tl"] == 0.6
    assert [record["epoch"] for record in history] == [1, 2, 3]
    assert repr(history).startswith("<History of 3 epochs, best_epoch=2: epoch, loss")


def test_an_unknown_column_is_an_error_that_names_the_known_ones():
    with pytest.raises(KeyError, match="`accuracy` must be one of epoch, loss, r_tl, r_ll, late"):
        example()["accuracy"]


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5), torch.tensor(0.5)])
def test_numbers_of_numpy_and_torch_become_plain_ones(value):
    assert json.loads(History([{"own": value}]).to_json())["epochs"] == [{"own": 0.5}]


@pytest.mark.parametrize("value", ["good", None, [0.5]])
def test_what_is_no_number_is_refused_by_its_name(value):
    with pytest.raises(TypeError, match=r"`note` must be a number, to be kept in a history; got .*\."):
        History([{"note": value}]).to_json()


def test_an_empty_history_has_empty_columns():
    assert History()["r_tl"].shape == (0,)


def test_the_trajectory_goes_to_the_plane():
    history = History([{"r_tl": 0.1, "r_ll": 0.7}, {"r_tl": 0.4, "r_ll": 0.3}])
    display = TradeoffDisplay(5, trajectories={"training": history.trajectory})
    np.testing.assert_array_equal(display.trajectories["training"].r_tl, [0.1, 0.4])


@pytest.mark.parametrize(
    ("best", "error", "words"),
    [
        ("two", TypeError, "`best_epoch` must be an integer; got 'two'"),
        (True, TypeError, "`best_epoch` must be an integer; got True"),
        (0, ValueError, "`best_epoch` must be at least 1; got 0"),
        (4, ValueError, "`best_epoch` must be at most 3; got 4"),
    ],
)
def test_the_best_epoch_is_one_of_those_recorded(best, error, words):
    with pytest.raises(error, match=words):
        History(example().records, best_epoch=best)


@pytest.mark.parametrize("text", ["x", "", "[1]", "{}", None])
def test_a_text_that_is_no_history_is_refused(text):
    with pytest.raises(
        ValueError, match=rf"^`text` must be the JSON of a History; got {re.escape(repr(text))}\.$"
    ):
        History.from_json(text)


def test_a_text_with_epochs_that_are_none_is_refused():
    with pytest.raises(ValueError, match=r"^`text` must be the JSON of a History; got \{'best_epoch': 1, "):
        History.from_json('{"best_epoch": 1, "epochs": 5}')


@pytest.mark.parametrize(
    "data",
    [
        {},
        5,
        {"epochs": []},
        {"best_epoch": None, "epochs": [3]},
        {"best_epoch": None, "epochs": [{"r": "x"}]},
    ],
)
def test_data_that_are_no_history_are_refused(data):
    with pytest.raises(
        ValueError, match=rf"^`data` must be what `to_dict` returns; got {re.escape(repr(data))}\.$"
    ):
        History.from_dict(data)


@pytest.mark.parametrize("records", [5, [5]])
def test_records_are_mappings(records):
    with pytest.raises(TypeError, match=r"^`records` must be mappings, one for each epoch; got 5\.$"):
        History(records)
