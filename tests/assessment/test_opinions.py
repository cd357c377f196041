"""Copies among learners without a truth, and between what bounds the accuracy of their consensus lies: simulations."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from counterpoint import assess
from counterpoint.assessment.opinions import find_copies, merged_votes
from counterpoint.assessment.shared_errors import consensus_bounds, sample_moments
from counterpoint.measures.agreement import label_pairs
from counterpoint.theory import plurality_accuracy


def panel(seed, accuracies, n_samples, latent=0.0, n_classes=2):
    """Being right is a threshold on a difficulty that all share and one of each learner's own."""
    rng = np.random.default_rng(seed)
    p = np.asarray(accuracies)[:, None]
    truth = rng.integers(0, n_classes, n_samples)
    own = rng.normal(size=(len(p), n_samples))
    right = np.sqrt(latent) * rng.normal(size=n_samples) + np.sqrt(1 - latent) * own < ndtri(p)
    return truth, np.where(right, truth, (truth + rng.integers(1, n_classes, right.shape)) % n_classes)


def copied(votes, of, by, share, seed=99):
    votes = votes.copy()
    rng = np.random.default_rng(seed)
    for one in np.atleast_1d(by):
        votes[one] = np.where(rng.random(votes.shape[1]) < share, votes[of], votes[one])
    return votes


def found(votes):
    a = assess(votes)
    return a, {finding.code: finding for finding in a.findings}


def majority(votes):
    return (votes.mean(axis=0) > 0.5).astype(int)


def test_a_copy_among_eight_costs_the_consensus_nothing():
    for seed in range(4):
        truth, votes = panel(seed, [0.7] * 8, 1500)
        votes = copied(votes, 0, 1, 0.9, seed)
        a, codes = found(votes)
        right = np.mean(np.array(a.consensus) == truth)
        assert a.families == ((0, 1),)
        assert right >= np.mean(majority(votes) == truth) - 0.01
        assert a.confidence.mean() <= right + 0.02
        assert a.bounds.consensus.low <= right <= a.bounds.consensus.high <= 0.93
        assert "families" in codes
        np.testing.assert_allclose(a.estimated.accuracies, 0.7, atol=0.06)  # copies have an accuracy, too


@pytest.mark.parametrize("n_copies", [1, 2])
def test_an_honest_judge_beside_copies_is_no_stranger(n_copies):
    for seed in range(4):
        truth, votes = panel(seed, [0.7] * (n_copies + 2), 300)
        a, codes = found(copied(votes, 0, range(1, n_copies + 1), 1.0))
        assert "stranger" not in codes
        assert codes["families"].numbers["families"] == [list(range(n_copies + 1))]
        assert "Votes alone cannot tell" in codes["families"].text
        right = np.mean(np.array(a.consensus) == truth)
        assert a.bounds.consensus.low <= right <= a.bounds.consensus.high


def test_copies_are_found_among_four_and_in_families():
    for seed in range(4):
        votes = panel(seed, [0.7] * 4, 600)[1]
        assert assess(copied(votes, 2, 3, 0.95)).families == ((2, 3),)
        votes = copied(copied(panel(seed, [0.75] * 7, 600)[1], 0, [1, 2], 0.95), 3, 4, 0.95)
        assert assess(votes).families == ((0, 1, 2), (3, 4))


def test_all_copies_may_be_as_bad_as_a_guess():
    truth, votes = panel(0, [0.7], 300)
    for n_learners in (2, 5):
        a, codes = found(np.repeat(votes, n_learners, axis=0))
        assert a.bounds.consensus.low <= np.mean(votes[0] == truth)
        assert a.bounds.consensus.low == 0.5
        assert "nearly always right" in codes["families"].text


def test_independent_learners_are_seldom_taken_for_copies_however_unequal_they_are():
    accused = 0
    panels = ([0.7] * 3, [0.9] * 4, [0.95] * 3 + [0.5] * 2, [0.95, 0.8, 0.7, 0.6, 0.55], [0.65] * 12)
    for accuracies in panels:
        for seed in range(12):
            _, kappas, shared = label_pairs(panel(seed, accuracies, 500)[1].astype(np.int32), 2)
            accused += bool(find_copies(kappas, shared).families)
    assert accused <= 4  # of 60


def test_shared_errors_are_warned_of_and_bounded():
    # Latent correlation .55 at an accuracy of .7: being right is correlated by .36, as in six judges of JudgeBench.
    t = ndtri(0.7)
    both = multivariate_normal([0, 0], [[1, 0.55], [0.55, 1]]).cdf([t, t])
    assert (both - 0.49) / 0.21 == pytest.approx(0.36, abs=0.01)
    for n_learners in (6, 8):
        for seed in range(4):
            truth, votes = panel(seed, [0.7] * n_learners, 1500, 0.55)
            a, codes = found(votes)
            right = np.mean(np.array(a.consensus) == truth)
            assert a.estimated.confidence > right + 0.15  # what independent errors would promise
            assert "shared_errors" in codes
            assert a.bounds.consensus.low <= right <= a.bounds.consensus.high < a.estimated.confidence
            assert a.bounds.learner.low <= 0.7 <= a.bounds.learner.high
            assert a.confidence.mean() == pytest.approx(a.bounds.consensus.value, abs=1e-3)


def test_the_ends_of_the_bounds_are_those_of_the_formula():
    # A = 1 - 2 p q (1 - c), with a large panel: the sampling error is small.
    votes = panel(0, [0.8] * 7, 200_000)[1]
    moments = sample_moments(votes.astype(np.int32), 2, None)
    correlation, learner, consensus = consensus_bounds(moments, 2, np.nan, shared=False, chance=False)
    least = 0.5 + 0.5 * np.sqrt(max(1 - 4 * (1 - moments.pairs) / (2 * 0.5), 0))
    assert (correlation.low, correlation.high) == (0, 0.5)
    assert learner.low == pytest.approx(least, abs=0.01)
    assert learner.high == pytest.approx(0.8, abs=0.003)
    assert consensus.high == pytest.approx(float(plurality_accuracy(0.8, 0, 7, n_classes=2)), abs=0.005)


def test_with_more_classes_three_different_votes_tell_how_wrong_votes_agree():
    truth, votes = panel(3, [0.6] * 7, 40_000, n_classes=5)
    moments = sample_moments(votes.astype(np.int32), 5, None)
    learner = consensus_bounds(moments, 5, np.nan, shared=False, chance=False)[1]
    assert learner.high == pytest.approx(0.6, abs=0.01)
    alike = np.where(votes == truth, truth, (truth + 1) % 5)  # all that err give the same wrong label
    moments = sample_moments(alike.astype(np.int32), 5, None)
    assert moments.triples == 0
    learner = consensus_bounds(moments, 5, np.nan, shared=False, chance=False)[1]
    assert learner.high == pytest.approx(0.6, abs=0.01)  # though two agree on 52 %, not on 40 %


def test_moments_are_counted_as_by_hand_and_groups_widen_them():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, (5, 30)).astype(np.int32)
    moments = sample_moments(codes, 3, None)
    pairs, triples = [], []
    for column in codes.T:
        given = column[column >= 0]
        ways = [(a, b) for a in range(len(given)) for b in range(a)]
        if ways:
            pairs.append(np.mean([given[a] == given[b] for a, b in ways]))
        three = [(a, b, c) for a in range(len(given)) for b in range(a) for c in range(b)]
        if three:
            triples.append(np.mean([len({given[a], given[b], given[c]}) == 3 for a, b, c in three]))
    assert moments.pairs == pytest.approx(np.mean(pairs))
    assert moments.triples == pytest.approx(np.mean(triples))
    twice = sample_moments(np.repeat(codes, 2, axis=1), 3, np.repeat(np.arange(30), 2))
    np.testing.assert_allclose(twice.covariance, moments.covariance)
    assert twice.scale == pytest.approx(moments.scale)


def test_missing_votes_hide_no_copies():
    votes = copied(panel(1, [0.7] * 6, 800)[1], 0, 1, 0.95).astype(np.int32)
    votes[np.random.default_rng(0).random(votes.shape) < 0.2] = -1
    _, kappas, shared = label_pairs(votes, 2)
    assert find_copies(kappas, shared).families == ((0, 1),)
    merged = merged_votes(votes, ((0, 1),))
    assert merged.shape == (5, 800)
    one = (votes[0] < 0) & (votes[1] >= 0)
    np.testing.assert_array_equal(merged[0, one], votes[1, one])


def test_free_text_takes_a_second_and_says_what_was_left_out():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10**6, 3000)
    votes = np.where(rng.random((3, 3000)) < 0.4, truth, rng.integers(0, 10**6, (3, 3000)))
    a, codes = found(votes)
    assert a.n_classes > 5000
    assert a.confusion is None
    assert "too many to learn which are confused" in codes["many_labels"].text
    np.testing.assert_allclose(a.one_coin.accuracies, 0.4, atol=0.06)
    right = np.mean(np.array(a.consensus) == truth)
    assert a.bounds.consensus.low <= right <= a.bounds.consensus.high
    nothing = assess(np.arange(9000).reshape(3, 3000))  # no two answers are equal
    assert nothing.one_coin is None
    assert nothing.bounds.consensus.low < 0.001


def test_noise_gets_no_confident_consensus():
    votes = np.random.default_rng(0).integers(0, 2, (5, 400))
    a, codes = found(votes)
    assert "no_agreement" in codes
    assert a.bounds.consensus.low == 0.5


def test_the_record_of_simulations_holds_what_the_docs_say():
    root = Path(__file__).parents[2]
    record = json.loads((root / "results/coverage_of_consensus.json").read_text())
    panels, text = record["panels"], (root / "docs/agreement.md").read_text()
    whole = panels["all"]
    assert f"within the bounds in {100 * whole['inside']:.1f} % of the panels" in text
    assert f"promised {100 * whole['independent_claim']:.1f} points too much" in text
    assert f"the confidence {100 * whole['confidence']:.1f} points" in text
    assert f"On {whole['n_panels']:,} simulated panels" in text
    for kind in panels.values():
        assert kind["inside"] > 0.95
        assert kind["against_vote"] > -0.005
        assert max(kind["false_without_truth"], kind["false_with_truth"]) <= 0.05
    assert all(row["inside"] and row["warned"] for row in record["judgebench"])
