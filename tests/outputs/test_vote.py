"""Votes against plain counts, and the warning that names learners."""

import numpy as np
import pytest

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import (
    VOTINGS,
    Outputs,
    RunningVote,
    listed,
    vote_accuracies,
    vote_credit,
    vote_credits,
    vote_margins,
    vote_probabilities,
    warn_undefined,
    winners,
)
from tests.measures.references import random_probabilities, random_votes


def test_ties_share_the_credit():
    scores = np.array([[2.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.5, 1.0 - 1e-12]])
    assert winners(scores).sum(axis=0).tolist() == [1, 2, 3]
    assert vote_credit(scores, np.array([0, 1, 2])).tolist() == [1, 0.5, pytest.approx(1 / 3)]
    assert vote_credit(scores, np.array([1, 2, 0])).tolist() == [0, 0, pytest.approx(1 / 3)]


def test_the_margin_is_positive_exactly_where_the_true_class_wins_alone():
    y_true, votes = random_votes(0, 5, 300, 3)
    read = Outputs(votes, y_true)
    scores = RunningVote(read, "hard", np.full(5, 0.2)).scores
    margins = vote_margins(scores, read.truth_codes)
    np.testing.assert_array_equal(margins > 1e-9, vote_credit(scores, read.truth_codes) == 1)


@pytest.mark.parametrize("voting", VOTINGS)
def test_a_running_vote_ends_at_the_vote_of_all_learners(voting):
    y_true, proba = random_probabilities(1, 4, 200, 3)
    read = Outputs(proba, y_true)
    whole = vote_credit(vote_probabilities(read, np.full(4, 0.25), voting).T, read.truth_codes)
    *_, last = vote_credits(read, voting, range(4))
    np.testing.assert_allclose(last, whole)
    assert vote_accuracies(read, voting, range(4))[-1] == pytest.approx(whole.mean())


@pytest.mark.parametrize("voting", VOTINGS)
def test_candidates_are_scored_as_if_each_had_joined(voting):
    y_true, proba = random_probabilities(2, 5, 150, 3)
    read = Outputs(proba, y_true)
    vote = RunningVote(read, voting)
    vote.add(0)
    found = vote.accuracies_with(np.array([1, 2, 3]))
    assert found == pytest.approx([vote_accuracies(read, voting, [0, i])[-1] for i in (1, 2, 3)])


def test_a_warning_names_three_places_and_counts_the_others():
    assert listed(["a", "b"]) == "a, b"
    with pytest.warns(
        UndefinedMeasureWarning, match=r"^`kappa` is undefined for a, b, c and 1 more; the value"
    ):
        warn_undefined("kappa", ["a", "b", "c", "d"], stacklevel=2)


def test_without_places_there_is_no_warning():
    warn_undefined("kappa", [])
