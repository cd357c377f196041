"""Missing entries are found in whatever way they are written."""

import numpy as np
import pandas as pd
import pytest

from counterpoint.outputs import Outputs, RunningVote, split_missing, vote_probabilities

VOTES = np.array([[0, 1, 2, 1], [2, 2, 1, 0]])
MISSING = np.array([[False, True, False, False], [True, False, False, True]])
FLOATS = np.where(MISSING, np.nan, VOTES)
NAMES = np.array(["cat", "dog", "owl"])


def gaps(gap):
    return [
        [gap if gone else str(NAMES[vote]) for vote, gone in zip(*rows, strict=True)]
        for rows in zip(VOTES, MISSING, strict=True)
    ]


@pytest.mark.parametrize(
    "given",
    [
        FLOATS,
        FLOATS.tolist(),
        FLOATS.astype(object),
        np.ma.masked_array(VOTES, MISSING),
        [np.ma.masked_array(*rows) for rows in zip(VOTES, MISSING, strict=True)],
        [[None if np.isnan(x) else int(x) for x in row] for row in FLOATS],
        pd.DataFrame(FLOATS).to_numpy(),
        pd.DataFrame(FLOATS).astype("Int64").to_numpy(),
        [pd.Series(row, dtype="Int64") for row in FLOATS],
    ],
)
def test_gaps_among_numbers(given):
    votes, missing = split_missing(given)
    assert missing.tolist() == MISSING.tolist()
    assert votes[~missing].tolist() == VOTES[~MISSING].tolist()
    read = Outputs(votes, missing=missing)
    assert read.classes.tolist() == [0, 1, 2]
    assert read.votes.tolist() == np.where(MISSING, -1, VOTES).tolist()


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT, "skip"])
@pytest.mark.parametrize("kind", [list, lambda rows: np.array(rows, dtype=object)])
def test_gaps_among_strings(gap, kind):
    votes, missing = split_missing(kind(gaps(gap)), abstain=["skip"])
    assert missing.tolist() == MISSING.tolist()
    assert Outputs(votes, missing=missing).classes.tolist() == ["cat", "dog", "owl"]


def test_an_abstention_of_another_kind_is_no_label():
    assert split_missing(VOTES, abstain=["skip"])[1] is None
    assert split_missing(NAMES[VOTES], abstain=[7])[1] is None


def test_complete_outputs_are_not_copied(tmp_path):
    np.save(tmp_path / "votes.npy", VOTES)
    mapped = np.load(tmp_path / "votes.npy", mmap_mode="r")
    for array in (VOTES, mapped, np.full((2, 3, 2), 0.5)):
        same, missing = split_missing(array)
        assert np.shares_memory(same, array)
        assert missing is None


def test_whole_rows_of_probabilities_are_missing():
    proba = np.full((2, 4, 2), 0.5)
    proba[0, 1] = proba[1, 3] = np.nan
    outputs, missing = split_missing(proba)
    assert np.argwhere(missing).tolist() == [[0, 1], [1, 3]]
    read = Outputs(outputs, missing=missing)
    assert read.probabilities[missing].tolist() == [[0, 0], [0, 0]]
    assert read.votes.tolist() == [[0, -1, 0, 0], [0, 0, 0, -1]]


@pytest.mark.parametrize("voting", ["hard", "soft", "geometric"])
def test_a_vote_is_of_those_who_voted(voting):
    proba = np.array([[[0.9, 0.1], [0.2, 0.8], [np.nan] * 2], [[0.3, 0.7], [np.nan] * 2, [np.nan] * 2]])
    outputs, missing = split_missing(proba)
    read = Outputs(outputs, [0, 1, 0], missing=missing)
    found = vote_probabilities(read, np.array([0.5, 0.5]), voting)
    alone = {"hard": [0.0, 1.0], "soft": [0.2, 0.8], "geometric": [0.2, 0.8]}[voting]
    assert found[1] == pytest.approx(alone)
    assert np.isnan(found[2]).all()
    vote = RunningVote(read, voting, np.ones(2))
    assert vote.credit()[1] == 1
    assert np.isnan(vote.credit()[2])
    vote.add(0, -1.0)
    assert np.isnan(vote.credit()[1])


def test_some_of_the_samples_keep_their_gaps():
    votes, missing = split_missing(FLOATS)
    part = Outputs(votes, [0, 1, 2, 0], missing=missing).take(slice(1, None))
    assert part.votes.tolist() == [[-1, 2, 1], [2, 1, -1]]
    assert part.voters(slice(None)).tolist() == [1, 2, 1]
