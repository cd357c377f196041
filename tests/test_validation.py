"""The checks at the border say one sentence: the argument, the rule, the value."""

import re

import numpy as np
import pandas as pd
import pytest

from counterpoint._validation import (
    check_choice,
    check_flag,
    check_labels,
    check_number,
    check_path,
    check_probabilities,
    check_real,
    check_whole,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_one_whole_number_comes_back_as_an_int(value):
    number = check_whole(value, "epochs", minimum=1)
    assert type(number) is int
    assert number == 3


@pytest.mark.parametrize(
    "value", [None, "3", 2.5, 3.0, True, np.True_, (1, 2), [3], np.array([1, 2]), np.nan]
)
def test_what_is_not_one_whole_number_is_refused(value):
    with pytest.raises(TypeError, match=r"^`epochs` must be an integer; got .+\.$"):
        check_whole(value, "epochs", minimum=1)


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "at least 1; got 0"), (8, "at most 7; got 8"), (10**30, f"at most 7; got {10**30}")],
)
def test_a_whole_number_stays_between_its_bounds(value, message):
    with pytest.raises(ValueError, match=rf"^`epochs` must be {message}\.$"):
        check_whole(value, "epochs", minimum=1, maximum=7)


def test_a_number_that_torch_cannot_count_with_is_refused():
    with pytest.raises(ValueError, match=rf"^`epochs` must be at most {2**63 - 1}; got {2**63}\.$"):
        check_whole(2**63, "epochs", minimum=1)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([0.5], TypeError, r"one number; got \[0.5\]"),
        (np.array([0.5, 1]), TypeError, r"one number; got array\(\[0.5, 1. \]\)"),
        (None, TypeError, "one number; got None"),
        (True, TypeError, "one number; got True"),
        ([[1], [2, 3]], TypeError, r"one number; got \[\[1\], \[2, 3\]\]"),
        (np.inf, ValueError, "finite; got inf"),
        (-1, ValueError, "at least 0; got -1"),
    ],
)
def test_one_number_is_finite_and_in_its_interval(value, error, message):
    assert check_number(np.float32(0.5), "rate", 0) == 0.5
    with pytest.raises(error, match=rf"^`rate` must be {message}\.$"):
        check_number(value, "rate", 0)


def test_infinity_is_a_number_where_it_is_wanted():
    assert check_number(np.inf, "rate", 0, finite=False) == np.inf


@pytest.mark.parametrize(("value", "expected"), [(True, True), (np.False_, False), (0, False), (1, True)])
def test_a_flag_may_be_written_as_a_number(value, expected):
    assert check_flag(value, "resume") is expected


@pytest.mark.parametrize("value", [None, "no", 2, -1, 1.0, []])
def test_a_flag_is_true_or_false(value):
    with pytest.raises(TypeError, match=r"^`resume` must be True or False; got "):
        check_flag(value, "resume")


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array(["soft", "hard"]), ["soft"], None, object()])
def test_an_array_is_none_of_the_options(value):
    with pytest.raises(ValueError, match=r"^`voting` must be one of 'soft', 'hard'; got "):
        check_choice(value, "voting", ("soft", "hard"))


@pytest.mark.parametrize(
    ("value", "error"), [("", ValueError), (None, TypeError), (3, TypeError), (b"a", TypeError)]
)
def test_a_path_is_text_that_is_not_empty(value, error, tmp_path):
    assert check_path(str(tmp_path), "path", kind="folder") == tmp_path
    with pytest.raises(error, match=r"^`path` must be the path of a file; got .+\.$"):
        check_path(value, "path")


def test_a_folder_is_no_file(tmp_path):
    assert check_path(tmp_path / "new", "path") == tmp_path / "new"
    with pytest.raises(ValueError, match=r"^`path` must be the path of a file; got the folder '.+'\.$"):
        check_path(tmp_path, "path")


@pytest.mark.parametrize(("value", "got"), [(None, "None"), ([1, None], r"None at \[1\]")])
def test_what_is_no_label_is_shown_with_its_place(value, got):
    with pytest.raises(ValueError, match=rf"^`y_true` must hold labels of one kind, .*; got {got}\.$"):
        check_labels(value, "y_true")


def test_labels_over_64_bits_are_refused():
    with pytest.raises(
        ValueError, match=rf"^`y_true` must hold whole numbers of at most 64 bits; got {10**30}\.$"
    ):
        check_labels([1, 10**30], "y_true")


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has strings of variable length")
def test_strings_of_variable_length_are_labels():
    strings = np.dtypes.StringDType(na_object=None)
    np.testing.assert_array_equal(check_labels(np.array(["a", "bc"], dtype=strings), "y_true"), ["a", "bc"])
    with pytest.raises(ValueError, match=r"^`y_true` must hold labels of one kind, .*; got None at \[1\]\.$"):
        check_labels(np.array(["a", None], dtype=strings), "y_true")


def test_a_mask_that_hides_something_is_refused():
    with pytest.raises(ValueError, match=r"^`y_true` must have no masked entry; got one at \[1\]\.$"):
        check_labels(np.ma.masked_array([0, 1], mask=[False, True]), "y_true")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5], [0.5, np.nan]], "`proba` must not be NaN; got nan at {}sample 1."),
        (
            [[0.5, 0.5], [1.5, -0.5]],
            "`proba` must hold probabilities, between 0 and 1; got 1.5 at {}sample 1.",
        ),
        (
            [[0.5, 0.5], [0.5, 0.4]],
            "`proba` must hold probabilities that sum to one over the classes; got a sum of 0.9 at {}sample 1.",
        ),
    ],
)
def test_the_place_of_a_probability_has_a_learner_only_where_there_are_learners(rows, message):
    good = [[0.5, 0.5], [0.5, 0.5]]
    for proba, place in ((rows, ""), ([good, rows], "learner 1, "), ([[good, rows]], "learner [0, 1], ")):
        with pytest.raises(ValueError, match=f"^{re.escape(message.format(place))}$"):
            check_probabilities(proba, "proba")


def test_an_array_in_a_message_takes_one_line():
    for value in (np.full((3, 3), "a"), np.full(60, "text"), [[1.0, 2.0], [3.0]] * 40):
        with pytest.raises(
            TypeError, match=r"^`weights` must be a number or an array of numbers; got .{1,80}\.$"
        ):
            check_real(value, "weights")


def test_numbers_that_are_objects_are_numbers():
    nullable = pd.DataFrame({"a": [0.5, 2.0], "b": [1.0, 3.0]}, dtype="Float64").to_numpy()
    for given in (nullable, np.array([[0.5, 1], [2, np.int8(3)]], dtype=object)):
        np.testing.assert_array_equal(check_real(given, "weights"), [[0.5, 1], [2, 3]])
    for value in ([True, 1.0], [None, 1.0], [pd.NA, 1.0], [1j, 1.0]):
        with pytest.raises(TypeError, match="`weights` must be a number or an array of numbers; got"):
            check_real(np.array(value, dtype=object), "weights")
    with pytest.raises(ValueError, match="`weights` must be finite; got"):
        check_real([10**400, 1], "weights")
