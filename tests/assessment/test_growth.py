"""What more learners would bring: against real additions, with learners that skip hard samples, and with groups."""

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.outputs import vote_credit
from counterpoint.theory import jury_accuracy


def panel(n_learners, n_samples, rng, *, theta=(0.3, 0.9), share=0.3):
    """Return a truth and votes; a share of the samples is hard."""
    truth = rng.integers(0, 2, n_samples)
    chance = np.where(rng.random(n_samples) < share, *theta)
    return truth, np.where(rng.random((n_learners, n_samples)) < chance, truth, 1 - truth)


def hard_vote(truth, votes):
    """Return the accuracy of the vote; a tie is shared."""
    return float(vote_credit(np.stack([(votes == k).sum(axis=0) for k in range(3)]), truth).mean())


def advice(assessment):
    return next(finding for finding in assessment.findings if finding.code == "more_learners")


def test_more_learners_cost_where_a_share_of_the_samples_is_hard():
    """Nine learners: their accuracies and error correlations promise a gain, while the hard samples are lost."""
    a = assess(*panel(9, 4000, np.random.default_rng(0)))
    true = float(np.diff(jury_accuracy([[0.3], [0.9]], 0.0, [9, 19]), axis=1)[:, 0] @ [0.3, 0.7])
    p, c = a.accuracies.mean(), a.correlations.error_correlation
    assert np.diff(jury_accuracy(p, c, [9, 19])) > 0.004
    assert true < -0.015
    assert a.prediction.twice.high < 0
    assert a.prediction.twice.low <= true <= a.prediction.twice.high
    assert "Two more learners like these would cost about" in advice(a).text


def population(n_learners, n_samples, rng):
    """Return a truth and the votes of learners of different accuracy on samples of different difficulty."""
    truth, difficulty = rng.integers(0, 3, n_samples), rng.normal(size=n_samples)
    skill = rng.normal(0.6, 0.4, n_learners)[:, None]
    right = difficulty + rng.normal(size=(n_learners, n_samples)) < skill
    return truth, np.where(right, truth, (truth + rng.integers(1, 3, right.shape)) % 3)


def test_one_more_learner_gains_on_average_what_others_do():
    held = []
    for seed in range(16):
        truth, votes = population(47, 400, np.random.default_rng(seed))
        found = assess(truth, votes[:7])
        grown = [hard_vote(truth, np.vstack([votes[:7], one])) for one in votes[7:, None]]
        gain = np.mean(grown) - found.votes.hard.value
        held.append(found.prediction.more.low <= gain <= found.prediction.more.high)
    assert np.mean(held) >= 0.8  # 95 %, less three standard errors


def test_the_curve_holds_the_vote_with_the_learners_that_join():
    held = []
    for seed in range(16):
        truth, votes = population(15, 20_400, np.random.default_rng(seed))
        sizes, _, low, high = assess(truth[:400], votes[:7, :400]).prediction.sizing
        vote = hard_vote(truth[400:], votes[:, 400:])
        held.append(low[sizes == 15] <= vote <= high[sizes == 15])
    assert np.mean(held) >= 0.8


def test_the_curve_is_the_measured_vote_of_subsets_and_then_the_prediction():
    a = assess(*panel(7, 900, np.random.default_rng(1)))
    sizes, accuracy, low, high = a.prediction.sizing
    few = sizes <= 7
    np.testing.assert_array_equal(sizes[few], a.votes.subsets.odd().sizes)
    np.testing.assert_allclose(accuracy[few], a.votes.subsets.odd().mean)
    assert accuracy[sizes == 7] == a.votes.hard.value
    assert ((low <= accuracy) & (accuracy <= high)).all()
    at_15 = accuracy[sizes == 15] - a.votes.hard.value
    assert at_15 == pytest.approx(a.prediction.twice.value)
    assert (np.diff((high - low)[~few]) > 0).all()  # ever less is known


def test_groups_make_the_intervals_wider():
    truth, votes = panel(5, 400, np.random.default_rng(2))
    alone = assess(truth, votes).prediction
    groups = np.repeat(np.arange(400), 5)
    repeated = assess(np.repeat(truth, 5), np.repeat(votes, 5, axis=1), groups=groups).prediction
    for name in ("more", "twice", "different"):
        one, other = getattr(alone, name), getattr(repeated, name)
        assert other.value == pytest.approx(one.value, abs=2e-3)
        assert other.high - other.low == pytest.approx(one.high - one.low, rel=0.15)


def skipping(truth, votes, rng, hard=0.5, easy=0.05):
    """Return votes of learners that skip what most of them get wrong."""
    wrong = (votes != truth).mean(axis=0) > 0.5
    return np.where(rng.random(votes.shape) < np.where(wrong, hard, easy), "", votes.astype(str))


def test_learners_that_skip_hard_samples_are_predicted_to_skip_them():
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth, votes = panel(15, 500, rng)
        given, text = skipping(truth, votes, rng), truth.astype(str)
        half, every = (assess(text, given[:n], abstain="") for n in (7, 15))
        sizes, _, low, high = half.prediction.sizing
        held.append(low[sizes == 15] <= every.votes.hard.value <= high[sizes == 15])
        assert half.prediction.added == 1
    assert np.mean(held) >= 0.75  # 95 %, less three standard errors


def test_the_interval_of_the_predicted_vote_holds_what_theory_misses():
    """Pairwise correlations cannot tell this vote, so its prediction is off, and its interval says so."""
    missed, held = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth, votes = panel(9, 1000, rng, theta=(0.2, 0.95), share=0.4)
        a = assess(truth, votes)
        vote = float(jury_accuracy([0.2, 0.95], 0.0, 9) @ [0.4, 0.6])
        predicted = a.intervals.predicted
        missed.append(abs(a.prediction.mixed - vote))
        held.append(predicted.low <= vote <= predicted.high)
    assert np.mean(missed) > 0.02
    assert np.mean(held) >= 0.75


def test_a_loss_that_is_not_sure_is_told_as_an_interval():
    a = assess(*panel(5, 300, np.random.default_rng(0), theta=(0.4, 0.95), share=0.25))
    text = advice(a).text
    assert text.startswith("Whether two more learners like these would help on average cannot be told (")
    assert "Two that make their own mistakes would add" in text


def test_copies_change_nothing():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 500)
    one = np.where(rng.random(500) < 0.8, truth, 1 - truth)
    a = assess(truth, [one] * 5)
    assert "Two more learners like these would change nothing." in advice(a).text
