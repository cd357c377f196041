"""Effective votes: their laws, in populations whose outcomes are all counted, and a count by plain NumPy."""

import time
import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from counterpoint import Assessment, assess
from counterpoint.assessment.effective import best_level, effective_votes
from counterpoint.assessment.shares import Sums
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import Outputs
from counterpoint.theory import signal_from_correlation

SEEDS = st.integers(0, 2**32 - 1)


def found(truth, votes, *, groups=None, missing=None, voting="hard", labels=None, names=None):
    """Return the effective votes of a panel, without the rest of an assessment."""
    read = Outputs(votes, truth, labels, missing=missing)
    names = names or tuple(f"L{i + 1}" for i in range(read.n_learners))
    return effective_votes(read, voting, groups, names, None, None)


def exact(truth, votes):
    """Return f(rho) over f of the best, for samples that are a whole population."""
    sums = Sums(Outputs(votes, truth), "hard")
    return float(signal_from_correlation(sums.panel()) / signal_from_correlation(np.nanmax(sums.learners())))


def population(n_learners, n_classes, n_right, n_wrong=1, truths=None):
    """Return every outcome of independent learners: right with n_right chances, each wrong label with n_wrong."""
    truths = list(range(n_classes)) if truths is None else truths
    states = np.append(np.zeros(n_right, dtype=int), np.repeat(np.arange(1, n_classes), n_wrong))
    offsets = np.array(list(product(states, repeat=n_learners))).T
    truth = np.repeat(truths, offsets.shape[1])
    return truth, (truth + np.tile(offsets, len(truths))) % n_classes


def with_independent(truth, votes, labels):
    """Return a population with one more learner, which gives each of the labels in turn, whatever the others do."""
    k = len(labels)
    return np.tile(truth, k), np.vstack([np.tile(votes, k), np.repeat(labels, len(truth))])


def any_population(seed, n_classes):
    """Return a small population of any kind, in which some learner and the panel are better than chance."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.append(np.arange(n_classes), rng.integers(0, n_classes, 30)))
    wrong = rng.integers(0, n_classes, (rng.integers(1, 6), len(truth)))
    votes = np.where(rng.random(wrong.shape) < rng.uniform(0.2, 0.9, (len(wrong), 1)), truth, wrong)
    sums = Sums(Outputs(votes, truth), "hard")
    assume(0.05 < np.nan_to_num(sums.learners()).max() < 1 - 1e-9)
    assume(0 < sums.panel() < 1 - 1e-9)
    return truth, votes


def draw(seed, accuracies, n_samples, n_classes=2, shared=0.0, group_size=1):
    """Return votes that go back to a difficulty that the learners share, equal within groups of samples."""
    rng = np.random.default_rng(seed)
    accuracies = np.asarray(accuracies)[:, None]
    difficulty = np.repeat(rng.normal(size=-(-n_samples // group_size)), group_size)[:n_samples]
    latent = np.sqrt(shared) * difficulty + np.sqrt(1 - shared) * rng.normal(
        size=(len(accuracies), n_samples)
    )
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, latent.shape)) % n_classes
    return truth, np.where(latent < norm.ppf(accuracies), truth, wrong)


# Laws, exactly


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([2, 3, 10]), st.integers(2, 9))
def test_clones_are_worth_one(seed, n_classes, n_clones):
    truth, votes = any_population(seed, n_classes)
    best = votes[np.nanargmax(Sums(Outputs(votes, truth), "hard").learners())]
    assert exact(truth, np.tile(best, (n_clones, 1))) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_clones_are_found_to_be_worth_one(n_classes):
    truth, votes = draw(0, [0.7], 300, n_classes)
    clones = found(truth, np.tile(votes, (5, 1)))
    assert clones.votes == pytest.approx((1, 1, 1), abs=1e-3)
    assert clones.worth == pytest.approx(np.zeros(5), abs=1e-9)


@pytest.mark.parametrize(
    ("n_learners", "n_classes", "n_right", "n_wrong"),
    [(2, 2, 3, 1), (5, 2, 3, 1), (7, 2, 2, 1), (4, 3, 3, 1), (3, 10, 3, 1)],
)
def test_equal_learners_that_err_independently_are_worth_their_number(
    n_learners, n_classes, n_right, n_wrong
):
    truth, votes = population(n_learners, n_classes, n_right, n_wrong)
    assert exact(truth, votes) == pytest.approx(n_learners, rel=1e-9)


def test_rare_positives_change_nothing():
    truth, votes = population(5, 2, 3, truths=[1] * 3 + [0] * 97)
    assert exact(truth, votes) == pytest.approx(5, rel=1e-9)
    rng = np.random.default_rng(0)
    truth = (rng.random(200_000) < 0.03).astype(int)
    votes = np.where(rng.random((5, 200_000)) < 0.9, truth, 1 - truth)
    assert 4.8 <= found(truth, votes).votes.value <= 5.2


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 4))
def test_a_coin_flipper_never_raises_it(seed, n_classes):
    truth, votes = any_population(seed, n_classes)
    assert 0 < exact(*with_independent(truth, votes, np.arange(n_classes))) < exact(truth, votes)


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 4))
def test_a_constant_learner_neither_raises_nor_lowers_it(seed, n_classes):
    truth, votes = any_population(seed, n_classes)
    more = np.vstack([votes, np.full(len(truth), seed % n_classes)])
    assert exact(truth, more) == pytest.approx(exact(truth, votes), rel=1e-9)


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 4))
def test_a_learner_that_is_always_wrong_never_raises_it(seed, n_classes):
    """Its wrong answers are spread evenly."""
    truth, votes = any_population(seed, n_classes)
    k = n_classes - 1
    liar = (np.tile(truth, k) + np.repeat(np.arange(1, n_classes), len(truth))) % n_classes
    assert exact(np.tile(truth, k), np.vstack([np.tile(votes, k), liar])) < exact(truth, votes)


def test_on_three_classes_lies_of_one_kind_may_fill_up_what_the_others_leave():
    """The liar names a wrong class that no other names; so all wrong classes get the same share of the answers."""
    n, p, var_t = 10, 0.9, 2 / 3
    cov, noise = p - 1 / 3, n * (1 - p**2 - (1 - p) ** 2)

    def signal(
        means, noise, n
    ):  # of the sum of n outputs, by the mean votes for the truth and the wrong classes
        cov = means[0] / n - 1 / 3
        var = (np.square(means).sum() + noise) / n**2 - 1 / 3
        return cov**2 / (var * var_t - cov**2)

    one = cov**2 / (var_t**2 - cov**2)
    before = signal([n * p, n * (1 - p), 0], noise, n) / one
    after = signal([n * p, n * (1 - p), 1], noise, n + 1) / one
    assert (before, after) == pytest.approx((8.0, 9.1), abs=0.1)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 100_000)
    votes = np.where(rng.random((n, 100_000)) < p, truth, (truth + 2) % 3)
    assert exact(truth, votes) == pytest.approx(before, rel=0.03)
    assert exact(truth, np.vstack([votes, (truth + 1) % 3])) == pytest.approx(after, rel=0.03)


@pytest.mark.parametrize("n_learners", [2, 3, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_copy_in_a_panel_of_equals_lowers_it(n_learners, n_classes):
    truth, votes = population(n_learners, n_classes, 3)
    n = n_learners
    # The weights are 2, 1, ..., 1: their sum squared over the sum of their squares
    assert exact(truth, np.vstack([votes, votes[:1]])) == pytest.approx((n + 1) ** 2 / (n + 3), rel=1e-9)
    assert (n + 1) ** 2 / (n + 3) < n


@pytest.mark.parametrize("n_coins", [1, 2, 4])
def test_a_second_copy_of_the_one_expert_among_coins_raises_it(n_coins):
    truth, votes = population(1, 2, 9)
    for _ in range(n_coins):
        truth, votes = with_independent(truth, votes, [0, 1])
    before, after = exact(truth, votes), exact(truth, np.vstack([votes, votes[:1]]))
    assert before < after < 1


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 5), st.integers(3, 5))
def test_independent_equals_are_worth_no_more_than_their_number_however_they_err(seed, n_learners, n_classes):
    """By Cauchy and Schwarz; with evenly spread errors, exactly their number."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(n_classes), n_classes) + np.eye(n_classes)  # answers by truth
    rows /= rows.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.ones(n_classes))
    mean = shares @ rows
    cov, between = shares @ np.diagonal(rows) - mean @ shares, shares @ (rows**2).sum(axis=1) - mean @ mean
    var_t, within = 1 - shares @ shares, 1 - shares @ (rows**2).sum(axis=1)
    one, whole = (cov / np.sqrt((between + within / n) * var_t) for n in (1, n_learners))
    assert signal_from_correlation(whole) <= n_learners * signal_from_correlation(one) * (1 + 1e-9)


# Laws, up to chance


@settings(max_examples=5, deadline=None)
@given(SEEDS, st.integers(2, 5), st.integers(2, 4))
def test_neither_a_guesser_nor_a_liar_nor_a_constant_is_found_to_raise_it(seed, n_learners, n_classes):
    rng = np.random.default_rng(seed)
    truth, votes = draw(
        seed, rng.uniform(0.55, 0.9, n_learners), 20_000, n_classes, shared=rng.uniform(0, 0.7)
    )
    before = found(truth, votes).votes.value
    guesses = rng.integers(0, n_classes, 20_000)
    lies = (truth + rng.integers(1, n_classes, 20_000)) % n_classes
    for more in (guesses, lies, np.zeros_like(truth)):
        assert found(truth, np.vstack([votes, more])).votes.value < 1.03 * before


def test_learners_that_share_their_errors_are_worth_what_kish_says_and_coins_lower_it():
    truth, votes = draw(0, [0.75] * 5, 200_000, shared=0.5)
    a = assess(truth, votes)
    values = [a.effective.votes.value]
    assert a.effective.independence.value == pytest.approx(2.2, abs=0.05)
    assert values[0] == pytest.approx(2.2, abs=0.05)
    rng = np.random.default_rng(1)
    for _ in range(3):
        votes = np.vstack([votes, rng.integers(0, 2, len(truth))])
        values.append(found(truth, votes).votes.value)
    assert (np.diff(values) < -0.05).all()
    assert values[1:] == pytest.approx([1.99, 1.81, 1.67], abs=0.05)


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.floats(0.85, 0.97))
def test_it_is_below_one_where_an_expert_beats_the_vote(seed, accuracy):
    truth, votes = draw(seed, [accuracy, 0.5, 0.5, 0.5, 0.5], 3000)
    worth = found(truth, votes)
    assert worth.best == "L1"
    assert worth.votes.low < worth.votes.value < worth.votes.high < 1
    assert worth.worth[0] > 0.9 * worth.votes.value  # all that they are worth
    assert worth.with_weights == pytest.approx(1, abs=0.1)


def test_the_best_of_many_equals_is_no_better_than_they_are():
    """Without a correction the best of thirty, chosen by its luck, makes the panel worth 17 on average."""
    values, plain = [], []
    for seed in range(30):
        truth, votes = draw(seed, [0.7] * 30, 300)
        values.append(found(truth, votes).votes.value)
        plain.append(exact(truth, votes))
    assert np.mean(plain) < 20
    assert np.mean(values) == pytest.approx(30, abs=5)


def test_intervals_are_wider_where_samples_belong_together():
    truth, votes = draw(3, [0.6, 0.7, 0.9], 2000, shared=0.5, group_size=10)
    alone, together = (found(truth, votes, groups=g).votes for g in (None, np.arange(2000) // 10))
    assert together.high - together.low > 1.3 * (alone.high - alone.low)
    assert together.value == pytest.approx(alone.value, rel=0.02)


def test_the_interval_holds_what_the_panel_is_worth():
    """Five unequal learners on three classes, of which theory tells the worth."""
    p = np.array([0.5, 0.6, 0.65, 0.7, 0.8])
    r = (3 * p - 1) / 2
    # Independent given the truth: Cov adds, and so does what is left of the variances.
    rho = r.sum() / np.sqrt(r.sum() ** 2 + len(p) - (r**2).sum())
    true = signal_from_correlation(rho) / signal_from_correlation(r.max())
    held = 0
    for seed in range(40):
        worth = found(*draw(seed, p, 400, 3)).votes
        held += worth.low <= true <= worth.high
    assert held >= 34  # fewer in one of 200 such tests if the coverage is 95 %


def test_the_error_of_a_worth_is_its_spread_over_other_samples():
    panels = [found(*draw(seed, [0.6, 0.7, 0.8, 0.9], 1000, shared=0.3)) for seed in range(40)]
    spread = np.std([one.worth for one in panels], axis=0)
    assert np.mean([one.worth_error for one in panels], axis=0) == pytest.approx(spread, rel=0.4)


# What does not matter


@pytest.mark.parametrize("seed", range(3))
def test_names_order_labels_and_codes_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    truth, votes = draw(seed, [0.6, 0.65, 0.75, 0.8], 500, 3, shared=0.3)
    missing = rng.random(votes.shape) < 0.1
    one = found(truth, votes, missing=missing)

    def same(other, order=slice(None), rel=1e-9):
        assert other.votes == pytest.approx(one.votes, rel=rel)
        assert other.worth == pytest.approx(one.worth[order], rel=rel, abs=1e-9)
        assert other.with_weights == pytest.approx(one.with_weights, rel=1e-4)

    named = found(truth, votes, missing=missing, names=tuple("wxyz"))
    same(named)
    assert named.best == "wxyz"[int(one.best[1]) - 1]
    order = rng.permutation(4)
    same(found(truth, votes[order], missing=missing[order]), order)
    same(found(truth, votes, missing=missing, labels=list(range(9))))
    codes = np.array([17, -4, 5])
    same(found(codes[truth], codes[votes], missing=missing))
    moved = rng.permutation(500)
    other = found(truth[moved], votes[:, moved], missing=missing[:, moved])
    assert other.votes == pytest.approx(one.votes, rel=1e-6)
    assert other.worth == pytest.approx(one.worth, rel=1e-6, abs=1e-9)
    other = found(truth[moved], votes[:, moved], missing=missing[:, moved], groups=moved // 5)
    grouped = found(truth, votes, missing=missing, groups=np.arange(500) // 5)
    assert other.votes == pytest.approx(grouped.votes, rel=1e-6)


# Where it is undefined


def test_a_best_learner_no_better_than_chance_has_a_sentence():
    truth, votes = draw(0, [0.5] * 5, 300)
    worth = found(truth, votes)
    assert np.isnan(worth.votes).all()
    assert worth.undefined == f"the best learner, {worth.best}, cannot be told from chance"
    assert np.isnan([worth.worth, worth.worth_error]).all()
    assert np.isnan(worth.with_weights)


def test_learners_below_chance_have_a_sentence():
    truth = np.tile([0, 1], 100)
    votes = np.tile(1 - truth, (3, 1))
    votes[[0, 1, 2], [0, 1, 2]] = truth[:3]
    assert found(truth, votes).undefined == "no learner is better than chance"


def test_a_learner_that_is_never_wrong_has_a_sentence():
    truth, votes = draw(0, [0.7] * 3, 300)
    votes[1] = truth
    worth = found(truth, votes, names=("a", "b", "c"))
    assert (worth.best, worth.undefined) == ("b", "b is never wrong")
    assert np.isnan(worth.votes).all()


def test_a_learner_that_is_never_wrong_is_named_beside_its_opposite():
    truth = np.tile([0, 1], 20)
    worth = found(truth, np.stack([1 - truth, truth]), names=("a", "b"))
    assert np.isnan(worth.votes).all()
    assert worth.undefined == "b is never wrong"


def test_learners_that_contradict_each_other_have_a_sentence():
    truth, votes = draw(0, [0.8], 200)
    worth = found(truth, np.vstack([votes, 1 - votes]))
    assert np.isnan(worth.votes).all()
    assert worth.undefined == "the learners cancel each other out, so that their mean is constant"


def test_one_learner_and_a_constant_truth_have_a_sentence():
    truth, votes = draw(0, [0.7, 0.8], 100)
    assert found(truth, votes[:1]).undefined == "it takes two learners"
    assert found(np.zeros(100, dtype=int), votes, labels=[0, 1]).undefined == (
        "all learners, or the truth, are constant"
    )
    assert found(truth, np.zeros((2, 100), dtype=int), labels=[0, 1]).undefined == (
        "all learners, or the truth, are constant"
    )


def test_errors_that_cancel_out_have_a_sentence():
    truth = np.tile([0, 1], 50)
    odd = np.arange(100) // 2 % 2 == 0
    right = np.stack([np.where(odd, 0.9, 0.6), np.where(odd, 0.6, 0.9)])
    one_hot = np.eye(2)[truth]
    proba = right[:, :, None] * one_hot + (1 - right[:, :, None]) * (1 - one_hot)
    worth = found(truth, proba, voting="soft")
    assert worth.undefined == "the errors of the learners cancel out exactly in the vote"
    assert np.isnan(worth.votes).all()


@pytest.mark.parametrize(("n_groups", "known"), [(2, False), (4, False), (5, True), (8, True)])
def test_few_groups_give_a_number_without_an_interval(n_groups, known):
    truth, votes = draw(0, [0.8, 0.85, 0.9], 400)
    worth = found(truth, votes, groups=np.arange(400) % n_groups)
    assert worth.votes.value == pytest.approx(2.4, abs=0.8)
    assert np.isnan([worth.votes.low, worth.votes.high]).tolist() == [not known] * 2
    assert np.isnan(worth.worth_error).tolist() == [not known] * 3
    assert not np.isnan(worth.worth).any()


# By plain NumPy


def by_hand(truth, outputs):
    """Return r of each learner, rho, and rho without each, from one-hot arrays with NaN for missing outputs."""
    m = outputs.shape[2]

    def correlation(x, t):
        known = ~np.isnan(x[:, 0])
        if not known.any():
            return np.nan
        x, t = x[known] - x[known].mean(axis=0), t[known] - t[known].mean(axis=0)
        return (x * t).sum() / np.sqrt((x**2).sum() * (t**2).sum())

    def mean(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmean(x, axis=0)

    true = np.eye(m)[truth]
    learners = [correlation(x, true) for x in outputs]
    without = [correlation(mean(np.delete(outputs, i, 0)), true) for i in range(len(outputs))]
    return learners, correlation(mean(outputs), true), without


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 70])  # 70: classes are no longer counted one by one
def test_the_correlations_are_those_of_one_hot_arrays(voting, holes, n_classes):
    rng = np.random.default_rng(n_classes)
    truth, votes = draw(5, [0.5, 0.6, 0.8, 0.9], 400, n_classes, shared=0.4)
    missing = rng.random(votes.shape) < 0.3 if holes else None
    if holes:
        missing[:, :7] = True  # nobody
        missing[1:, 7:20] = True  # the first alone
        missing[0, 7:20] = False
    if voting == "hard":
        read, outputs = Outputs(votes, truth, np.arange(n_classes), missing=missing), np.eye(n_classes)[votes]
    else:
        outputs = np.exp(rng.normal(size=(4, 400, n_classes)) + 2 * np.eye(n_classes)[votes])
        outputs /= outputs.sum(axis=2, keepdims=True)
        read = Outputs(outputs, truth, np.arange(n_classes), missing=missing)
    outputs = outputs.copy()
    if holes:
        outputs[missing] = np.nan
    r, rho, without = by_hand(truth, outputs)
    sums = Sums(read, voting)
    assert sums.learners() == pytest.approx(r, rel=1e-6)
    assert sums.panel() == pytest.approx(rho, rel=1e-6)
    assert sums.without() == pytest.approx(without, rel=1e-6)
    worth = effective_votes(read, voting, None, tuple("abcd"), None, None)
    f = signal_from_correlation
    one = f(rho) / worth.votes.value  # of the best learner, corrected for its choice
    assert one == pytest.approx(f(max(r)), rel=0.1)
    assert worth.worth == pytest.approx((f(rho) - f(without)) / one, rel=1e-5, abs=1e-7)


def test_the_best_weights_are_worth_what_they_bring_to_other_samples():
    truth, votes = draw(0, [0.9, 0.75, 0.6, 0.6, 0.5], 20_000)
    worth = found(truth, votes)
    r = 2 * np.array([0.9, 0.75, 0.6, 0.6, 0.5]) - 1
    ceiling = signal_from_correlation(r).sum() / signal_from_correlation(r[0])  # independent signals add up
    assert worth.with_weights == pytest.approx(ceiling, rel=0.03)
    assert worth.votes.value < worth.with_weights


# The level of the best


def test_equals_are_about_their_mean():
    assert best_level(np.full(8, 0.4), 0.01).value == pytest.approx(0, abs=0.03)
    assert best_level(np.full(8, 0.4), 0.0).value == pytest.approx(0, abs=1e-6)
    values = []
    for seed in range(50):
        z = 0.4 + 0.1 * np.random.default_rng(seed).normal(size=20)
        values.append(z.mean() + best_level(z, 0.01).value - 0.4)
    assert np.mean(values) == pytest.approx(0, abs=0.07)  # the highest of twenty is 0.19 above


def test_one_far_above_is_believed():
    z = np.append(0.3 + 0.02 * np.arange(-3, 4), 1.5)
    level = best_level(z, 0.01)
    assert z.mean() + level.value == pytest.approx(1.5, abs=0.05)
    assert level.weights[7] == pytest.approx(1, abs=0.05)
    assert level.variance < 0.02


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 40), st.floats(-6, -2))
def test_the_level_of_the_best_lies_between_the_mean_and_the_highest(seed, n, log_noise):
    rng = np.random.default_rng(seed)
    noise = 10**log_noise
    z = rng.normal(0.5, rng.uniform(0, 0.3), n) + np.sqrt(noise) * rng.normal(size=n)
    level = best_level(z, noise)
    assert -1e-9 <= level.value <= z.max() - z.mean() + 1e-9
    assert level.variance >= 0
    assert level.weights.min() >= 0
    assert level.weights.sum() == pytest.approx(1, abs=1e-6)
    # Names and an additive constant do not matter.
    order = rng.permutation(n)
    other = best_level(z[order] + 0.2, noise)
    assert other.value == pytest.approx(level.value, abs=1e-6)
    assert other.variance == pytest.approx(level.variance, rel=1e-5)
    assert other.weights == pytest.approx(level.weights[order], abs=1e-6)


def test_the_better_the_best_the_higher_its_level():
    rng = np.random.default_rng(0)
    z = 0.5 + 0.1 * rng.normal(size=10)
    tops = np.linspace(z.max(), 2, 30)
    levels = [np.append(z, top).mean() + best_level(np.append(z, top), 0.01).value for top in tops]
    assert (np.diff(levels) > 0).all()


# Borders


def test_json_brings_it_back():
    truth, votes = draw(0, [0.6, 0.7, 0.8], 300)
    cases = [(truth, votes), (truth, np.vstack([votes, truth]))]
    for given_truth, given_votes in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMeasureWarning)
            one = assess(given_truth, given_votes)
        again = Assessment.from_json(one.to_json()).effective
        for name in ("votes", "independence", "with_weights", "worth", "worth_error"):
            np.testing.assert_array_equal(getattr(again, name), getattr(one.effective, name))
        assert (again.best, again.undefined) == (one.effective.best, one.effective.undefined)


def test_twenty_thousand_classes_take_no_time_and_little_memory():
    rng = np.random.default_rng(0)
    n = 20_000
    truth = rng.permutation(n)
    votes = np.where(rng.random((3, n)) < 0.7, truth, rng.integers(0, n, (3, n)))
    tracemalloc.start()
    start = time.process_time()
    worth = found(truth, votes, labels=np.arange(n))
    took = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert worth.votes.low < 3 < worth.votes.high
    assert took < 2
    assert peak < 100 * 2**20
