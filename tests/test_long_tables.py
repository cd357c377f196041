"""Long tables: a row for each label of a judge; and blank cells, which the readers mask."""

import json
import re

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.io import Predictions, likely_items, likely_truths, read_predictions

ROWS = [
    ("q1", "gpt", "cat", "cat"),
    ("q2", "gpt", "dog", "dog"),
    ("q1", "llama", "dog", "cat"),
    ("q3", "gpt", "cat", "cat"),
    ("q2", "llama", "dog", "dog"),
    ("q3", "llama", "cat", "cat"),
]
COLUMNS = {"item": "id", "judge": "model", "label": "answer"}


def write(folder, rows, name="votes.jsonl"):
    path = folder / name
    keys = ("id", "model", "answer", "gold")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    return path


def test_a_long_table_is_the_wide_one(tmp_path):
    read = read_predictions(write(tmp_path, ROWS), "gold", **COLUMNS)
    assert read.learners == ("gpt", "llama")
    assert read.items.tolist() == ["q1", "q2", "q3"]
    assert read.y_true.tolist() == ["cat", "dog", "cat"]
    assert read.outputs.tolist() == [["cat", "dog", "cat"], ["dog", "dog", "cat"]]
    assert not np.ma.isMaskedArray(read.outputs)
    read.write(tmp_path / "wide.csv", truth="gold", item="id")
    wide = read_predictions(tmp_path / "wide.csv", "gold", item="id")
    for field in ("y_true", "outputs", "items"):
        np.testing.assert_array_equal(getattr(wide, field), getattr(read, field))


def test_the_order_of_the_rows_changes_only_the_order_of_items_and_judges(tmp_path):
    read = read_predictions(write(tmp_path, ROWS[::-1]), "gold", **COLUMNS)
    assert (read.learners, read.items.tolist()) == (("llama", "gpt"), ["q3", "q2", "q1"])
    assert read.outputs.tolist() == [["cat", "dog", "dog"], ["cat", "dog", "cat"]]


def test_judges_are_chosen_and_dropped_by_name(tmp_path):
    path = write(tmp_path, ROWS)
    assert read_predictions(path, "gold", **COLUMNS, drop=["gpt"]).learners == ("llama",)
    assert read_predictions(path, "gold", **COLUMNS, learners=["llama", "gpt"]).learners == ("llama", "gpt")
    with pytest.raises(ValueError, match=r"`drop` must be among the judges of .*, 'gpt', 'llama'; got 'gp'"):
        read_predictions(path, "gold", **COLUMNS, drop=["gp"])


def test_a_judge_may_have_the_name_of_the_truth_and_items_may_be_numbers(tmp_path):
    rows = [
        ("1", "gold", "0", "0"),
        ("1.0", "net", "1", "0.0"),
        ("2", "gold", "1", "1"),
        ("2", "net", "1", None),
    ]
    read = read_predictions(write(tmp_path, rows), "gold", **COLUMNS)
    assert (read.learners, read.items.tolist(), read.y_true.tolist()) == (("gold", "net"), ["1", "2"], [0, 1])
    assert read.outputs.tolist() == [[0, 1], [1, 1]]


def test_a_judge_may_answer_what_no_other_does(tmp_path):
    rows = [("1", "a", "x", ""), ("1", "b", "y", ""), ("2", "a", "x", ""), ("2", "b", "y", "")]
    assert read_predictions(write(tmp_path, rows), None, **COLUMNS).outputs.tolist() == [
        ["x", "x"],
        ["y", "y"],
    ]


def test_absent_rows_and_blank_labels_are_blank_cells(tmp_path):
    rows = [*ROWS[:4], ("q2", "llama", None, "dog")]
    read = read_predictions(write(tmp_path, rows), "gold", **COLUMNS)
    assert read.missing.tolist() == [[False] * 3, [False, True, True]]
    assert read.outputs.tolist() == [["cat", "dog", "cat"], ["dog", None, None]]
    with pytest.warns(UndefinedMeasureWarning):  # three samples are too few
        assert assess(read.y_true, read.outputs).coverage.answered.tolist() == [3, 1]
    assert read.keep([0]).missing.any() == np.False_
    read.write(tmp_path / "wide.csv")
    np.testing.assert_array_equal(read_predictions(tmp_path / "wide.csv").missing, read.missing)
    with pytest.raises(
        ValueError, match=r"out\.npz must end in \.csv or \.tsv, because an archive cannot hold blank"
    ):
        read.write(tmp_path / "out.npz")


def test_a_row_without_probabilities_is_blank_and_one_with_some_is_refused(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("y_true,a:0,a:1,b:0,b:1\n0,1,0,,\n1,0.25,0.75,0,1\n")
    read = read_predictions(path)
    assert read.missing.tolist() == [[False, False], [True, False]]
    assert read.outputs.tolist() == [[[1, 0], [0.25, 0.75]], [[None, None], [0, 1]]]
    path.write_text("y_true,a:0,a:1\n0,1,\n1,0.25,0.75\n")
    with pytest.raises(
        ValueError, match=r"column 'a:1' must hold probabilities, .* got a missing one in data row 1"
    ):
        read_predictions(path)


def change(place, row):
    return [*ROWS[:place], row, *ROWS[place + 1 :]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*ROWS, ("q2", "gpt", "dog", "dog")],
            r"one row for each pair of 'id' and 'model'; got a second one for item 'q2' and judge 'gpt' in data row 7 ",
        ),
        (change(2, ("q1", "llama", "dog", "dog")), "one truth for each item; got .*'dog'.* for item 'q1'"),
        (
            change(2, ("", "llama", "dog", "cat")),
            "'id' must name an item in every row; got none in data row 3",
        ),
        (
            change(2, ("q1", None, "dog", "cat")),
            "'model' must name a judge in every row; got none in data row 3",
        ),
        ([(*row[:2], "0.5", row[3]) for row in ROWS], "column 'gpt' must hold labels; got 0.5 in item 'q1'"),
        (
            [(*row[:2], None, row[3]) for row in ROWS],
            "column 'gpt' must hold labels; it is empty in every row",
        ),
    ],
)
def test_a_fault_in_a_long_table_is_named_with_its_place(rows, message, tmp_path):
    path = write(tmp_path, rows)
    with pytest.raises(ValueError, match=message) as caught:
        read_predictions(path, "gold", **COLUMNS)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": "model"}, "`item` must be given too: a long table has an item, a judge and a label"),
        ({"item": "id", "label": "answer"}, "`judge` must be given too"),
        (
            {**COLUMNS, "judge": "modle"},
            r"`judge` must be a column of .*; got 'modle'\. Did you mean 'model'\?",
        ),
        (
            {**COLUMNS, "judge": "id"},
            "`item`, `judge` and `label` must be three columns; got 'id', 'id', 'answer'",
        ),
        ({**COLUMNS, "truth": "id"}, "`truth` must be a column of .*, one of 'gold'; got 'id'"),
        (COLUMNS, r"`truth` must be a column of .*, one of 'gold'; got 'y_true'\. Did you mean 'gold'\?"),
    ],
)
def test_the_columns_of_a_long_table_must_exist(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_predictions(write(tmp_path, ROWS), **options)


def test_the_truth_may_be_left_unread(tmp_path):
    read = read_predictions(write(tmp_path, ROWS), None, **COLUMNS)
    assert read.y_true is None
    path = tmp_path / "votes.csv"
    path.write_text("id,tree,net\n7,cat,dog\n8,dog,dog\n")
    wide = read_predictions(path, None, item="id")
    assert (wide.y_true, wide.items.tolist()) == (None, ["7", "8"])
    with pytest.raises(
        ValueError, match=r"'id' holds no label of the other learners, such as '7'.* drop=\['id'\]"
    ):
        read_predictions(path, None)
    wide.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "tree,net\ncat,dog\ndog,dog\n"
    wide.write(tmp_path / "out.npz")
    assert read_predictions(tmp_path / "out.npz", None).outputs.tolist() == wide.outputs.tolist()
    path.write_text("net\ncat\ndog\n")
    assert read_predictions(path, None).outputs.tolist() == [["cat", "dog"]]


def test_arrays_without_a_truth_take_their_classes_from_it(tmp_path):
    proba = np.full((2, 3, 2), 0.5)
    np.savez(tmp_path / "p.npz", outputs=proba, y_true=["b", "a", "b"])
    read = read_predictions(tmp_path / "p.npz", None)
    assert (read.y_true, read.labels.tolist()) == (None, ["a", "b"])
    np.save(tmp_path / "p.npy", proba)
    assert read_predictions(tmp_path / "p.npy", None).labels is None
    with pytest.raises(ValueError, match=r"`item` must be None, because .*p\.npy holds arrays; got 'id'"):
        read_predictions(tmp_path / "p.npy", None, item="id")


def test_names_of_samples_are_written_only_if_there_are_some(tmp_path):
    predictions = Predictions(np.array([0]), np.array([[0]]), ("net",))
    with pytest.raises(ValueError, match="`item` must be None, because the samples have no names; got 'id'"):
        predictions.write(tmp_path / "out.csv", item="id")


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("id,label,tree", " Did you mean 'label'?"),
        ("tree,Gold_Label,class", " Did you mean 'Gold_Label' or 'class'?"),
        ("tree,net", ""),
        ("tree,Y", " Did you mean 'Y'?"),
    ],
)
def test_the_hint_for_an_absent_truth_is_a_usual_name_of_a_truth(header, hint, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(f"{header}\n{header}\n")
    with pytest.raises(ValueError, match=r"got 'treee'\. Did you mean 'tree'\?$"):
        read_predictions(path, "treee")
    names = ", ".join(map(repr, header.split(",")))
    message = f"`truth` must be a column of {path}, one of {names}; got 'y_true'.{hint}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_predictions(path)


def test_usual_names_are_found_in_any_spelling():
    assert likely_truths(["net", "Ground truth", "TARGET", "y_true"]) == ["y_true", "Ground truth", "TARGET"]
    assert likely_items(["net", "Item-ID", "id"]) == ["id", "Item-ID"]
