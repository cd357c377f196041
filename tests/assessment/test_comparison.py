"""Paired tests of votes, against scipy, published intervals and simulation."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from counterpoint import assess
from counterpoint.assessment import (
    Estimate,
    PairedVotes,
    VoteComparison,
    compare_votes,
    credit_estimate,
    equal_credit,
    paired_difference,
    paired_test,
)


def simulated(seed, n, p, shared):
    """Return the credits of two votes, right with probabilities p, that share some of their luck."""
    rng = np.random.default_rng(seed)
    common = rng.random(n)
    own = rng.random((2, n))
    luck = np.where(rng.random(n) < shared, common, own)
    return (luck < np.array(p)[:, None]).astype(float)


def test_the_p_value_is_that_of_the_paired_test_and_the_difference_that_of_the_accuracies():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    ensembles = {
        name: np.where(rng.random((n, 200)) < 0.6, truth, rng.integers(0, 3, (n, 200)))
        for name, n in (("a", 3), ("b", 3), ("c", 5))
    }
    found = compare_votes(truth, ensembles)
    assert len(found.pairs) == 3
    for pair in found.pairs:
        assert pair.difference.value >= 0  # the more accurate vote comes first
        one, other = (assess(truth, ensembles[name]).vote for name in (pair.first, pair.second))
        assert pair.difference.value == pytest.approx(one.value - other.value)
        assert found.accuracies[pair.first] == pytest.approx(one)
        one, other = (
            equal_credit(truth, ensembles[name], None, "hard") for name in (pair.first, pair.second)
        )
        assert pair.p_value == pytest.approx(paired_test(one - other))
    first, second = ([truth, 1 - truth % 2], [1 - truth % 2, truth])  # every vote is a tie, or none is
    (pair,) = compare_votes(truth, {"first": first, "second": second}).pairs
    assert (pair.ahead, pair.behind, pair.p_value) == (0, 0, 1.0)


def test_samples_on_which_only_one_vote_is_right_are_counted():
    right = np.array([[1, 1, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1]])
    (pair,) = compare_votes(np.ones(6, int), {"x": right[:1], "y": right[1:]}).pairs
    assert (pair.first, pair.ahead, pair.behind) == ("x", 2, 1)


def test_several_pairs_are_corrected_by_holm():
    found = compare_votes([0, 1] * 30, {"x": [[0, 1] * 30], "y": [[0] * 60], "z": [[0, 1, 0, 1, 1, 0] * 10]})
    raw = sorted(pair.p_value for pair in found.pairs)
    smallest = min(found.pairs, key=lambda pair: pair.p_value)
    assert smallest.corrected == pytest.approx(min(3 * raw[0], 1))
    assert all(pair.corrected >= pair.p_value for pair in found.pairs)


def test_equal_votes_cannot_be_told_apart_and_their_interval_has_a_width():
    truth = np.arange(50) % 2
    found = compare_votes(truth, {"one": [truth], "same": [truth]})
    (pair,) = found.pairs
    assert not pair.apart
    assert pair.p_value == 1
    assert str(found) == "one and same cannot be told apart: +0.0 points (-5.3 to +5.3), p = 1."


def test_the_interval_is_that_of_bonett_and_price():
    """The adjusted Wald interval with (f12 + 1) / (n + 2) and (f21 + 1) / (n + 2)."""
    n, f12, f21 = 60, 14, 5
    d = np.array([1.0] * f12 + [-1.0] * f21 + [0.0] * (n - f12 - f21))
    p12, p21 = (f12 + 1) / (n + 2), (f21 + 1) / (n + 2)
    half = 1.959964 * np.sqrt((p12 + p21 - (p12 - p21) ** 2) / (n + 2))
    found = paired_difference(d)
    assert found.value == pytest.approx((f12 - f21) / n)
    assert found[1:] == pytest.approx((p12 - p21 - half, p12 - p21 + half))


@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("p", [(0.8, 0.7), (0.95, 0.95), (0.99, 0.97)])
def test_intervals_cover_and_the_test_keeps_its_level(n, p):
    covered = rejected = 0
    for seed in range(1000):
        one, other = simulated(seed, n, p, shared=0.5)
        found = paired_difference(one - other)
        covered += found.low <= p[0] - p[1] <= found.high
    assert covered >= 935
    if p[0] == p[1]:
        for seed in range(300):
            one, other = simulated(seed, n, p, shared=0.5)
            ahead, behind = int((one > other).sum()), int((one < other).sum())
            rejected += ahead + behind > 0 and binomtest(ahead, ahead + behind).pvalue < 0.05
        assert rejected <= 25


def with_ties(n, rng):
    """Return credits of equal mean: one ties where the other is wrong, twice as often as it is wrong alone."""
    luck = rng.random(n)
    tied, wrong = luck < 0.2, (luck >= 0.2) & (luck < 0.3)
    return {"ties": np.where(tied, 0.5, np.where(wrong, 0.0, 1.0)), "firm": np.where(tied, 0.0, 1.0)}


def test_ties_alone_do_not_make_a_vote_more_accurate():
    """A test of who is ahead more often rejects in half of these, though the accuracies are equal."""
    rng, n_runs, often = np.random.default_rng(1), 1000, 0
    rejected = apart = 0
    for _ in range(n_runs):
        credit = with_ties(120, rng)
        d = credit["ties"] - credit["firm"]
        often += binomtest(int((d > 0).sum()), int((d != 0).sum())).pvalue < 0.05
        rejected += paired_test(d) < 0.05
        apart += VoteComparison.from_credits(credit).pairs[0].apart
    assert often / n_runs > 0.4
    assert apart <= rejected
    assert abs(rejected / n_runs - 0.05) < 2.75 * np.sqrt(0.05 * 0.95 / n_runs)


@pytest.mark.parametrize("n", [0, 1000])
def test_without_ties_the_interval_agrees_with_every_rejection_of_the_exact_test(n):
    for differing in range(6, 200):
        tails = 2 * binom.cdf(np.arange(differing // 2), differing, 0.5)
        most = int(np.flatnonzero(tails < 0.05)[-1])  # samples behind at which the test still rejects
        d = [1.0] * (differing - most) + [-1.0] * most + [0.0] * n
        assert paired_difference(d).low > 0


def test_soft_votes_are_compared_by_their_probabilities():
    truth = [0, 1, 1, 0]
    sure = [[[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.8, 0.2]]]
    split = [[[0.6, 0.4]] * 4, [[0.3, 0.7]] * 4]
    found = compare_votes(truth, {"sure": sure, "split": split}, voting="soft")
    assert found.accuracies["sure"].value == 1.0
    assert found.accuracies["split"].value == 0.5
    assert found.to_dict()["pairs"][0]["first"] == "sure"
    assert credit_estimate([1, 1, 0, 0]).value == 0.5


@pytest.mark.parametrize(
    ("ensembles", "options", "match"),
    [
        ({"a": [[0, 1]]}, {}, r"^`ensembles` must be a mapping with at least two ensembles; got 1\.$"),
        ([[0, 1]], {}, r"^`ensembles` must be a mapping with at least two ensembles; got list\.$"),
        ({"a": [[0, 1]], "b": [[0, 1, 1]]}, {}, r"^`outputs` must have 2 samples"),
        (
            {"a": [[0, 1]], "b": [[0, 1]]},
            {"voting": "soft"},
            r"^`voting` must be 'hard' where ensembles have labels",
        ),
        ({"a": [[0, 1]], "b": [[0, 1]]}, {"voting": "x"}, r"^`voting` must be one of"),
        ({"a": [[0, 1]], "b": [[0, 1]]}, {"margin": 2}, r"^`margin` must be between 0 and 1; got 2"),
        ({"a": [[0, 1]], "b": [[0, 1]]}, {"groups": [1]}, r"^`groups` must have one entry for each"),
    ],
)
def test_bad_arguments_are_refused_by_name(ensembles, options, match):
    with pytest.raises(ValueError, match=match):
        compare_votes([0, 1], ensembles, **options)


@pytest.mark.parametrize(("ahead", "behind"), [(0, 0), (5, 5), (9, 1), (0, 7), (30, 14), (400, 350)])
def test_the_test_is_the_mid_p_sign_test_where_each_sample_is_its_own_group(ahead, behind):
    few, n = min(ahead, behind), ahead + behind
    expected = min(
        2 * binom.cdf(few, n, 0.5) - binom.pmf(few, n, 0.5), 1
    )  # Fagerland, Lydersen and Laake 2013
    d = [1.0] * ahead + [-1.0] * behind + [0.0] * 20
    for groups in (None, np.arange(len(d)), [f"g{i}" for i in range(len(d))]):
        assert paired_test(d, groups) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("tie", [1 / 2, 1 / 3, 0.2345])
def test_the_test_counts_all_signs_of_the_groups_sums(tie):
    """By brute force over 2^9 choices."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        d, groups = rng.choice([-1, -tie, 0, tie, 1], 30), rng.integers(0, 9, 30)
        sums = np.bincount(groups, d)
        total = abs(sums.sum())
        every = np.abs(np.array(list(product([1, -1], repeat=len(sums)))) @ sums)
        more, same = np.mean(every > total + 1e-9), np.mean(np.abs(every - total) < 1e-9)
        expected = more + same / 2 if total > 1e-9 else 1.0
        assert paired_test(d, groups) == pytest.approx(expected, abs=0.01 if tie == 0.2345 else 1e-9)


def test_the_test_of_many_different_sums_is_their_normal_limit():
    rng = np.random.default_rng(0)
    d = rng.normal(size=3000) / 10
    few = paired_test(d[:400])
    assert few == pytest.approx(2 * norm.cdf(-abs(d[:400].sum()) / np.sqrt((d[:400] ** 2).sum())), abs=0.005)
    assert paired_test(d) == pytest.approx(2 * norm.cdf(-abs(d.sum()) / np.sqrt((d**2).sum())))


def clustered(rng, groups, p, alike, n_votes=2):
    """Return credits of votes of accuracy p on samples that are alike within a group."""
    n_groups, n = groups.max() + 1, len(groups)
    latent = np.sqrt(alike) * rng.normal(size=(n_votes, n_groups))[:, groups]
    latent += np.sqrt(1 - alike) * rng.normal(size=(n_votes, n))
    return (latent < norm.ppf(p)).astype(float)


def clusters(rng, n, size):
    if size != "zipf":
        return np.arange(n) // size
    shares = 1 / np.arange(1, n // 5)
    return np.unique(rng.choice(len(shares), n, p=shares / shares.sum()), return_inverse=True)[1]


@pytest.mark.parametrize("size", [1, 2, 5, 10, "zipf"])
def test_the_test_keeps_its_level_and_intervals_cover_where_samples_belong_together(size):
    rng, n_runs = np.random.default_rng(0), 400
    rejected = naive = covered = accurate = 0
    for _ in range(n_runs):
        groups = clusters(rng, 400, size)
        one, other = clustered(rng, groups, 0.75, 0.5)
        rejected += paired_test(one - other, groups) < 0.05
        naive += paired_test(one - other) < 0.05
        low, high = paired_difference(one - other, groups)[1:]
        covered += low <= 0 <= high
        low, high = credit_estimate(one, groups)[1:]
        accurate += low <= 0.75 <= high
    error = 2.75 * np.sqrt(0.05 * 0.95 / n_runs)  # one in 170 is further off
    assert 0.05 - error <= rejected / n_runs <= 0.05 + error
    assert min(covered, accurate) / n_runs >= 0.95 - error
    if size == 10:
        assert naive / n_runs > 0.2  # what the groups are for


def test_copies_of_samples_in_groups_count_once():
    rng = np.random.default_rng(0)
    one, other = clustered(rng, np.arange(200), 0.7, 0.5)
    d, groups = one - other, np.arange(1000) // 5
    assert paired_test(np.repeat(d, 5), groups) == pytest.approx(paired_test(d))
    alone, copied = paired_difference(d), paired_difference(np.repeat(d, 5), groups)
    assert copied == pytest.approx(alone, abs=0.01)
    assert credit_estimate(np.repeat(one, 5), groups) == pytest.approx(credit_estimate(one), abs=0.01)


def test_fewer_than_five_groups_have_no_interval_and_no_test():
    d = np.array([1.0, 0.0, 0.0, 1.0] * 5)
    four, five = np.arange(20) % 4, np.arange(20) % 5
    for found in (paired_difference(d, four), credit_estimate(d, four)):
        assert found.value == 0.5
        assert np.isnan(found[1:]).all()
    assert np.isnan(paired_test(d, four))
    assert not np.isnan([*paired_difference(d, five), *credit_estimate(d, five), paired_test(d, five)]).any()


def test_samples_without_a_difference_are_left_out():
    d, groups = np.array([1.0, np.nan, -1.0, 0.5, 1.0, 1.0, np.nan] * 4), np.arange(28) // 2
    known = ~np.isnan(d)
    for function in (paired_difference, credit_estimate, paired_test):
        assert function(d) == function(d[known])
        assert function(d, groups) == function(d[known], groups[known])


def drawn(n, size, p, seed=0):
    """Return a truth, votes of single learners by name, and groups."""
    rng = np.random.default_rng(seed)
    groups = clusters(rng, n, size)
    right = [clustered(rng, groups, share, 0.5, n_votes=1)[0] for share in p]
    return np.ones(n, int), {f"v{i}": one[None].astype(int) for i, one in enumerate(right)}, groups


def test_votes_are_compared_over_groups():
    truth, ensembles, groups = drawn(600, 5, (0.8, 0.7, 0.7))
    found = compare_votes(truth, ensembles, groups=[f"text {g}" for g in groups])
    assert (found.n_groups, found.note) == (120, "")
    for pair in found.pairs:
        d = (ensembles[pair.first] - ensembles[pair.second])[0]
        assert pair.p_value == pytest.approx(paired_test(d, groups))
        assert pair.difference == pytest.approx(paired_difference(d, groups))
    assert found.accuracies["v1"] == pytest.approx(credit_estimate(ensembles["v1"][0], groups))
    widths = [
        pair.difference.high - pair.difference.low
        for pairs in (found.pairs, compare_votes(truth, ensembles).pairs)
        for pair in pairs
    ]
    assert min(widths[:3]) > max(widths[3:])


def test_few_groups_get_a_word_of_caution_and_fewer_than_five_no_interval():
    truth, ensembles, _ = drawn(90, 1, (0.8, 0.6))
    found = compare_votes(truth, ensembles, groups=np.arange(90) % 9)
    assert found.note == "The samples are of 9 groups only: intervals and tests are rough."
    assert str(found).endswith(found.note)
    assert found.note in found._repr_html_()
    assert compare_votes(truth, ensembles, groups=np.arange(90) % 10).note == ""
    found = compare_votes(truth, ensembles, groups=np.arange(90) % 4)
    assert "without an interval or a test, as there are fewer than 5 groups." in str(found)
    assert found.note == ""
    assert not found.pairs[0].apart
    assert found.to_dict()["pairs"][0]["p_value"] is None


@pytest.mark.parametrize(("margin", "shown"), [(0.06, True), (0.02, False)])
def test_a_margin_tells_whether_the_other_vote_is_no_worse(margin, shown):
    truth, ensembles, _ = drawn(500, 1, (0.9, 0.9))
    (pair,) = compare_votes(truth, ensembles, margin=margin).pairs
    first, second = (ensembles[name][0] for name in (pair.first, pair.second))
    upper = paired_difference(first - second, confidence=0.9).high
    assert pair.at_most == pytest.approx(upper)
    assert pair.no_worse is shown
    assert pair.no_worse == (upper < margin)
    words = f"{pair.second} is no worse by {100 * margin:g} points"
    assert words in str(pair)
    assert ("it is not shown that" in str(pair)) != shown
    assert compare_votes(truth, ensembles, margin=margin).to_dict()["pairs"][0]["no_worse"] is shown
    assert compare_votes(truth, ensembles).pairs[0].no_worse is None


@pytest.mark.parametrize("size", [1, 5])
def test_a_vote_that_is_worse_by_the_margin_is_called_no_worse_in_one_run_of_twenty(size):
    rng, n_runs, said = np.random.default_rng(1), 600, 0
    for _ in range(n_runs):
        groups = clusters(rng, 500, size)
        better, worse = clustered(rng, groups, np.array([[0.8], [0.75]]), 0.3)
        said += paired_difference(better - worse, groups, confidence=0.9).high < 0.05
    assert said / n_runs <= 0.05 + 2.75 * np.sqrt(0.05 * 0.95 / n_runs)
    assert said / n_runs >= 0.02


def test_votes_without_a_common_sample_are_refused_in_one_sentence():
    truth = np.tile([0, 1], 50)
    votes = np.array([truth, truth], dtype=float)
    votes[0, :50], votes[1, 50:] = np.nan, np.nan
    with pytest.raises(
        ValueError, match=r"`ensembles` must have votes on a common sample; a and b have none\."
    ):
        compare_votes(truth, {"a": votes[:1], "b": votes[1:]})


def test_votes_that_never_differ_are_known_to_be_alike_in_few_groups_too():
    interval = paired_difference(np.zeros(300), np.arange(300) % 7)
    assert -0.05 < interval.low < 0 < interval.high < 0.05


def test_a_pair_that_only_the_correction_makes_alike_says_so():
    pair = PairedVotes("old", "new", Estimate(0.097, 0.026, 0.159), 40, 20, 0.0052, 0.052)
    assert str(pair).endswith("+9.7 points (+2.6 to +15.9), p = 0.052 after correction for all pairs.")
