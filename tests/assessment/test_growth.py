"""What more learners would bring: against real additions, with learners that skip hard samples, and with groups."""

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.theory import jury_accuracy


def panel(n_learners, n_samples, rng, *, theta=(0.3, 0.9), share=0.3):
    """Return a truth and votes; a share of the samples is hard."""
    truth = rng.integers(0, 2, n_samples)
    chance = np.where(rng.random(n_samples) < share, *theta)
    return truth, np.where(rng.random((n_learners, n_samples)) < chance, truth, 1 - truth)


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


def test_gains_hold_what_further_learners_do():
    """Learners of different accuracy, drawn from one population: half of them are assessed, then all."""
    held = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        truth, difficulty = rng.integers(0, 3, 600), rng.normal(size=600)
        skill = rng.normal(0.6, 0.4, 15)[:, None]
        right = difficulty + rng.normal(size=(15, 600)) < skill
        votes = np.where(right, truth, (truth + rng.integers(1, 3, (15, 600))) % 3)
        half, every = assess(truth, votes[:7]), assess(truth, votes)
        grown = every.votes.hard.value - half.votes.hard.value
        held.append(half.prediction.twice.low <= grown <= half.prediction.twice.high)
    assert np.mean(held) >= 0.8  # 95 %, less three standard errors


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
        grown = every.votes.hard.value - half.votes.hard.value
        held.append(half.prediction.twice.low <= grown <= half.prediction.twice.high)
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


def test_what_cannot_be_told_is_not_promised():
    a = assess(*panel(3, 60, np.random.default_rng(4)))
    text = advice(a).text
    assert text.startswith(
        "Whether two more learners like these would help cannot be told from these samples ("
    )
    assert "Two that make their own mistakes would add" in text


def test_copies_change_nothing():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 500)
    one = np.where(rng.random(500) < 0.8, truth, 1 - truth)
    a = assess(truth, [one] * 5)
    assert "Two more learners like these would change nothing." in advice(a).text
