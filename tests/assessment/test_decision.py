"""The decision: what is said of panels for which the answer is known, and how often chance decides."""

import re

import numpy as np
import pytest

from counterpoint import Assessment, assess
from counterpoint.assessment import Challenge, Estimate, paired_difference, paired_test
from counterpoint.assessment.decision import challenge
from counterpoint.outputs import Outputs
from counterpoint.report import EnsembleReport
from tests.assessment.test_effective import draw

pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")


def compared(truth, votes, groups=None, missing=None):
    """Return the vote against its best learner, without the rest of an assessment."""
    return challenge(Outputs(votes, truth, missing=missing), "hard", groups)


def flipped(rng, votes, share):
    """Return labels of two classes, a share of which is changed."""
    return np.where(rng.random(votes.shape) < share, 1 - votes, votes)


def points(one):
    return f"difference {100 * one.value:+.1f} points, {100 * one.low:+.1f} to {100 * one.high:+.1f}"


# What to do


def test_an_expert_among_coins_is_to_be_used_alone():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5, 0.5], 1000)
    a = assess(truth, votes, learners=["expert", *"abcd"])
    assert (a.decision.code, a.decision.severity) == ("use_best", "warning")
    best, vote = 100 * a.accuracies[0], 100 * a.vote.value
    assert a.decision.text == (
        f"Use expert alone: it is right on {best:.1f} %, the vote of all 5 on {vote:.1f} % "
        f"({points(a.votes.against_best.difference)})."
    )
    numbers = a.decision.numbers
    assert numbers["learner"] == 0
    assert numbers["difference"] == list(a.votes.against_best.difference)
    assert numbers["right"] - numbers["vote"] == pytest.approx(-numbers["difference"][0])
    assert numbers["p_value"] < 1e-6


def test_good_learners_that_err_independently_keep_their_vote():
    a = assess(*draw(0, [0.75] * 5, 1000))
    assert (a.decision.code, a.decision.severity) == ("keep_vote", "good")
    best = a.learners[a.best_learner]
    assert a.decision.text == (
        f"Keep the vote of all 5: it is right on {100 * a.vote.value:.1f} %, the best learner, {best}, on "
        f"{100 * a.accuracies.max():.1f} % ({points(a.votes.against_best.difference)})."
    )


@pytest.mark.parametrize(("n", "saved"), [(2, "one of two"), (6, "five of six"), (20, "19 of 20")])
def test_clones_are_told_how_many_answers_one_of_them_saves(n, saved):
    truth, votes = draw(0, [0.8], 500)
    a = assess(truth, np.tile(votes, (n, 1)))
    assert (a.decision.code, a.decision.severity) == ("no_difference", "info")
    assert a.decision.text == (
        f"The vote and L1 cannot be told apart ({points(a.votes.against_best.difference)}): L1 alone saves {saved} "
        "answers."
    )


def test_thirty_samples_do_not_tell_unless_they_do():
    truth, votes = draw(1, [0.75] * 5, 30)
    a = assess(truth, votes)
    assert (a.decision.code, a.decision.severity) == ("unclear", "info")
    assert a.decision.text.startswith("Not clear yet: the vote is right on ")
    assert "and 30 samples cannot tell which is better (difference " in a.decision.text
    truth, votes = draw(1, [0.97, 0.5, 0.5, 0.5, 0.5], 60)
    assert assess(truth, votes).decision.code == "use_best"


def test_a_hundred_samples_of_few_groups_do_not_tell():
    truth, votes = draw(0, [0.8], 500)
    clones = np.tile(votes, (3, 1))
    assert assess(truth, clones, groups=np.arange(500) // 5).decision.code == "no_difference"
    assert assess(truth, clones, groups=np.arange(500) % 8).decision.code == "unclear"
    few = assess(truth, clones, groups=np.arange(500) % 3).decision
    assert few.code == "unclear"
    assert "with too few groups for an interval" in few.text


def test_training_samples_decide_nothing():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5, 0.5], 1000)
    decision = assess(truth, votes, samples="training").decision
    assert (decision.code, decision.severity) == ("unclear", "info")
    assert decision.text == "What to use cannot be told from samples that the learners were trained on."


def test_a_vote_no_better_than_the_most_frequent_class_is_not_relied_on():
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(1000) < 0.05, "yes", "no")
    votes = np.where(rng.random((5, 1000)) < 0.05, "yes", "no")
    a = assess(truth, votes)
    assert (a.decision.code, a.decision.severity) == ("unclear", "warning")
    base = 100 * np.mean(truth == "no")
    assert a.decision.text == (
        f"Do not rely on the vote yet: it is right on {100 * a.vote.value:.1f} %, and always answering no would be "
        f"right on {base:.1f} %."
    )


def test_liars_among_good_learners_are_left_out():
    truth, votes = draw(0, [0.75, 0.75, 0.05, 0.75, 0.75, 0.05, 0.75], 1500)
    a = assess(truth, votes, learners=list("abcdefg"))
    assert (a.decision.code, a.decision.severity) == ("leave_out", "warning")
    assert a.decision.numbers["leave_out"] == [2, 5]
    gain = a.changes.leave_out_gain
    assert a.decision.text == (
        f"Leave out c and f: the vote of the other 5 is better by {100 * gain.value:.1f} ± {100 * gain.error:.1f} "
        "points, on samples that did not choose them."
    )
    without = assess(truth, votes[[0, 1, 3, 4, 6]])
    assert without.vote.value - a.vote.value == pytest.approx(gain.value, abs=0.02)
    assert without.decision.code == "keep_vote"


def test_leaving_out_all_but_one_is_using_that_one():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5, 0.5], 1000)
    a = assess(truth, np.ma.masked_array(votes, np.random.default_rng(1).random(votes.shape) < 0.3))
    assert a.changes.leave_out == (1, 2, 3, 4)
    assert a.decision.code == "use_best"


def test_one_learner_leaves_nothing_to_decide():
    a = assess(*draw(0, [0.8], 200))
    assert (a.decision.code, a.decision.severity) == ("unclear", "info")
    assert a.decision.text == "There is one learner, so there is nothing to decide."
    assert a.decision.text not in a.verdict


def test_two_learners_are_both_of_them():
    truth, votes = draw(0, [0.95, 0.6], 500)
    assert ", the vote of both on " in assess(truth, votes).decision.text


def test_a_learner_is_judged_on_what_it_answered():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5, 0.5], 1000)
    missing = np.random.default_rng(1).random(votes.shape) < 0.3
    a = assess(truth, np.ma.masked_array(votes, missing))
    assert a.decision.code == "use_best"
    here = ~missing[0]
    some = assess(truth[here], np.ma.masked_array(votes, missing)[:, here])
    vote = 100 * some.vote.value
    assert f"the vote of all 5 on {vote:.1f} % (difference " in a.decision.text
    assert a.decision.text.endswith(" % of the samples that L1 answered).")
    assert a.votes.against_best.difference == pytest.approx(some.votes.against_best.difference)
    assert a.votes.against_best.n_groups == here.sum()


def test_the_verdict_begins_with_the_decision():
    for accuracies in ([0.75] * 5, [0.95, 0.5, 0.5]):
        a = assess(*draw(0, accuracies, 300))
        assert a.verdict.startswith(f"{a.decision.text} The hard vote is right on ")


def test_json_brings_the_decision_back():
    a = assess(*draw(0, [0.75, 0.75, 0.05, 0.75, 0.75, 0.05, 0.75], 1500))
    again = Assessment.from_json(a.to_json())
    assert again.decision == a.decision
    assert type(again.decision) is type(a.decision)
    assert again.votes.against_best == a.votes.against_best
    assert again.votes.against_best.says == a.votes.against_best.says


# The test behind it


def test_the_difference_is_that_of_the_paired_test():
    truth, votes = draw(0, [0.75] * 5, 400)
    right = votes == truth
    d = (right.sum(axis=0) > 2).astype(float) - right[right.mean(axis=1).argmax()]
    one = compared(truth, votes)
    assert one.difference == pytest.approx(paired_difference(d))
    assert one.p_value == pytest.approx(paired_test(d))
    assert (one.learner, one.n_groups) == (right.mean(axis=1).argmax(), 400)


@pytest.mark.parametrize(
    ("value", "p", "says"),
    [
        (-0.1, 0.049, "worse"),
        (0.1, 0.049, "better"),
        (0.1, 0.05, "alike"),
        (-0.1, 1.0, "alike"),
        (-0.1, np.nan, "alike"),
    ],
)
def test_what_a_comparison_says(value, p, says):
    assert Challenge(0, Estimate(value, value, value), p, 100).says == says


@pytest.mark.parametrize("accuracies", [[0.75] * 5, [0.8, 0.55, 0.55, 0.55, 0.55], [0.8, 0.6]])
def test_samples_that_belong_together_count_once(accuracies):
    truth, votes = draw(4, accuracies, 200)
    once = compared(truth, votes)
    five_times = np.tile(truth, 5), np.tile(votes, 5)
    together = compared(*five_times, groups=np.tile(np.arange(200), 5))
    assert together.p_value == pytest.approx(once.p_value)
    assert together.n_groups == 200
    assert together.difference.value == pytest.approx(once.difference.value)
    apart = compared(*five_times)
    assert apart.p_value < 0.5 * once.p_value
    assert apart.difference.high - apart.difference.low < 0.6 * (
        together.difference.high - together.difference.low
    )


def test_few_groups_have_no_test():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5], 400)
    one = compared(truth, votes, groups=np.arange(400) % 4)
    assert np.isnan([one.p_value, one.difference.low, one.difference.high]).all()
    assert one.difference.value < -0.1
    assert one.says == "alike"


# How often chance decides


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("n_learners", [2, 5, 12])
def test_near_copies_are_seldom_said_to_beat_their_vote(n_learners, size):
    """Their accuracies are equal, so none is better than the vote; in 5 % of the runs one may look so."""
    said = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, n_learners, size])
        truth = rng.integers(0, 2, 160)
        votes = flipped(rng, np.tile(flipped(rng, truth, 0.25), (n_learners, 1)), 0.08)
        groups = None
        if size > 1:
            truth, votes, groups = (
                np.repeat(truth, size),
                np.repeat(votes, size, axis=1),
                np.arange(160 * size) // size,
            )
        said += compared(truth, votes, groups).says == "worse"
    assert said / 300 <= 0.07


@pytest.mark.parametrize("size", [1, 4])
def test_the_luckiest_of_many_equals_is_seldom_said_to_beat_the_vote(size):
    """Twelve copies of one outvote eleven others that are as good, of which the best is only lucky."""
    said = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, size])
        truth = rng.integers(0, 2, 120)
        others = flipped(rng, np.tile(truth, (12, 1)), 0.3)
        votes = np.vstack([np.tile(others[0], (11, 1)), others])
        groups = None if size == 1 else np.arange(120 * size) // size
        said += compared(np.repeat(truth, size), np.repeat(votes, size, axis=1), groups).says == "worse"
    assert said / 300 <= 0.07


def test_two_equal_learners_are_seldom_said_to_differ_from_their_vote():
    """Each is right as often as their vote, in which a tie is shared."""
    said = [compared(*draw(seed, [0.7, 0.7], 150, shared=0.3)).says for seed in range(300)]
    assert said.count("worse") / 300 <= 0.07
    assert said.count("better") == 0  # the better of the two is never behind


def test_the_decision_follows_the_comparison():
    for seed in range(6):
        panel = draw(seed, np.random.default_rng(seed).uniform(0.5, 0.9, 4), 300)
        a = assess(*panel)
        says = a.votes.against_best.says
        assert a.votes.against_best == compared(*panel)
        allowed = {"worse": {"use_best", "leave_out"}, "better": {"keep_vote", "leave_out", "unclear"}}
        assert a.decision.code in allowed.get(says, {"no_difference", "unclear", "leave_out"})
        assert re.fullmatch(r"[A-Z].*\.", a.decision.text)


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")
def test_a_constant_learner_is_not_advised_though_it_is_right_more_often_than_the_vote():
    rng = np.random.default_rng(0)
    truth = (rng.random(2000) < 0.05).astype(int)
    guesses = np.where(rng.random((4, 2000)) < 0.6, truth, 1 - truth)
    a = assess(truth, np.vstack([np.zeros(2000, dtype=int), guesses]))
    assert a.votes.against_best.learner == 0
    assert a.votes.against_best.says == "worse"
    assert a.decision.code == "unclear"
    assert "always answering 0 would be right on" in a.decision.text


def test_a_learner_that_leaves_out_hard_samples_is_neither_the_best_nor_advised():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    hard = rng.random(600) < 0.6
    votes = np.where(rng.random((5, 600)) < np.where(hard, 0.6, 0.97), truth, 1 - truth).astype(float)
    votes[0, hard] = np.nan
    a = assess(truth, votes)
    assert a.effective.best != "L1"
    assert a.votes.against_best.learner != 0
    assert a.effective.votes.value > 2


def test_a_group_that_holds_most_samples_widens_the_interval_of_effective_votes():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    votes = np.where(rng.random((5, 200)) < 0.75, truth, 1 - truth)
    even, uneven = np.arange(200) // 4, np.concatenate([np.zeros(150, dtype=int), np.arange(1, 51)])
    narrow, wide = (assess(truth, votes, groups=groups).effective.votes for groups in (even, uneven))
    assert np.isnan(wide.low) or wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_numbers_do_not_depend_on_what_groups_are_called():
    rng = np.random.default_rng(0)
    truth, groups = rng.integers(0, 2, 200), np.arange(200) // 10
    votes = np.where(rng.random((5, 200)) < 0.75, truth, 1 - truth)
    one, other = (
        assess(truth, votes, groups=names).to_dict() for names in (groups, [f"g{19 - i}" for i in groups])
    )
    assert one == other


def test_a_name_with_a_colon_stays_whole_in_the_first_words_of_the_page():
    truth, votes = draw(0, [0.95, 0.5, 0.5, 0.5, 0.5], 500)
    a = assess(truth, votes, learners=["llama3:8b", *"bcde"])
    assert "<strong>Use llama3:8b alone:</strong>" in EnsembleReport(a).html()


def test_predictions_beside_a_soft_vote_are_said_to_be_of_the_hard_one():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    right = np.clip(0.5 + 0.3 * (2 * truth - 1) + 0.35 * rng.normal(size=(5, 600)), 0, 1)
    hard, soft = (assess(truth, np.stack([1 - right, right], axis=-1), voting=v) for v in ("hard", "soft"))
    texts = [next(f.text for f in a.findings if f.code == "more_learners") for a in (hard, soft)]
    assert texts[1] == f"{texts[0]} This is of the hard vote."
    assert "hard vote predicted; if independent" in dict(soft.summary())
    assert "vote predicted; if independent" in dict(hard.summary())


def test_one_large_group_widens_the_intervals_of_correlations():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    votes = np.where(rng.random((5, 200)) < 0.75, truth, 1 - truth)
    groups = np.concatenate([np.zeros(150, dtype=int), np.arange(1, 51)])
    alone, together = assess(truth, votes).intervals.r_tl, assess(truth, votes, groups=groups).intervals.r_tl
    assert together.high - together.low > alone.high - alone.low
