"""The mixture of easy and hard samples: held against the counts, against simulation, and where it is not determined."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from counterpoint.theory import jury_accuracy, plurality_accuracy
from counterpoint.theory.difficulty import fit_difficulty, vote_by_difficulty

# Chances of a learner to be right, and shares of the samples with each
PANELS = {
    "a third hard": ([0.3, 0.9], [0.3, 0.7]),
    "a few traps": ([0.05, 0.8], [0.1, 0.9]),
    "three kinds": ([0.05, 0.55, 0.98], [0.15, 0.35, 0.5]),
    "alike": ([0.65], [1.0]),
}


def counts(panel, n_learners, n_samples, rng):
    """Return who is right, (n_learners, n_samples), on samples of a panel."""
    theta, shares = PANELS[panel]
    return rng.random((n_learners, n_samples)) < rng.choice(theta, n_samples, p=shares)


def true_vote(panel, n_learners):
    theta, shares = PANELS[panel]
    return float(jury_accuracy(theta, 0.0, n_learners) @ shares)


def fitted(right):
    n_learners = len(right)
    c = np.corrcoef(right)[np.triu_indices(n_learners, 1)].mean()
    return fit_difficulty(np.full(right.shape[1], n_learners), right.sum(axis=0), max(c, 0.0))


@pytest.mark.parametrize("theta", [0.2, 0.5, 0.93])
@pytest.mark.parametrize(
    ("n", "n_classes", "agreement"), [(1, 2, 1.0), (4, 2, 1.0), (9, 2, 1.0), (6, 5, 0.4)]
)
def test_the_vote_by_difficulty_is_that_of_independent_learners(theta, n, n_classes, agreement):
    found = vote_by_difficulty(np.array([theta]), n, n_classes, agreement)[0]
    expected = plurality_accuracy(
        theta, 0.0, n, n_classes=n_classes, agreement=agreement if n_classes > 2 else None
    )
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("panel", PANELS)
def test_votes_of_fewer_learners_follow_from_the_counts(panel):
    """The first n moments are determined: the vote of n or fewer of n learners is what hypergeometric draws give."""
    right = counts(panel, 9, 4000, np.random.default_rng(0))
    found, k = fitted(right), right.sum(axis=0)
    for size in (1, 3, 5, 9):
        measured = hypergeom.sf(size // 2, 9, k, size).mean()
        predicted = found.mean(vote_by_difficulty(found.theta, size, 2, 1.0))
        assert predicted == pytest.approx(measured, abs=0.005)


@pytest.mark.parametrize("panel", ["a third hard", "three kinds", "a few traps"])
def test_the_sign_of_more_learners_is_right_where_some_samples_are_hard(panel):
    """A Gaussian difficulty has it wrong: it promises more to a panel that loses, and little to one that gains."""
    found = fitted(counts(panel, 9, 20_000, np.random.default_rng(1)))
    growth = vote_by_difficulty(found.theta, 19, 2, 1.0) - vote_by_difficulty(found.theta, 9, 2, 1.0)
    truth = true_vote(panel, 19) - true_vote(panel, 9)
    assert found.mean(growth) == pytest.approx(truth, abs=0.005)


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize(("n_learners", "n_samples"), [(3, 300), (5, 2000), (9, 300)])
def test_the_interval_holds_the_growth_of_the_vote(panel, n_learners, n_samples):
    rng = np.random.default_rng(2)
    truth = true_vote(panel, 2 * n_learners + 1) - true_vote(panel, n_learners)
    held = []
    for _ in range(40):
        found = fitted(counts(panel, n_learners, n_samples, rng))
        votes = (vote_by_difficulty(found.theta, n, 2, 1.0) for n in (2 * n_learners + 1, n_learners))
        low, high = found.interval(np.subtract(*votes), 3.84)
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.85  # 95 %, less three standard errors of 40 runs


def test_what_few_learners_cannot_tell_is_in_the_interval():
    """Two mixtures with the same first three moments differ in how often seven learners are all right."""
    nodes, shares = np.polynomial.legendre.leggauss(2)
    theta, weights = (nodes + 1) / 2, shares / 2  # the moments of an even spread from 0 to 1, up to the third
    all_right = (1 / 8, float(theta**7 @ weights))
    assert all_right[1] < all_right[0] - 0.02
    right = np.repeat([0, 1, 2, 3], 25_000)  # of three learners, under both
    found = fit_difficulty(np.full(len(right), 3), right, 1 / 3)
    low, high = found.interval(found.theta**7, 3.84)
    assert low < all_right[1] < all_right[0] < high


def test_samples_that_are_worth_fewer_tell_less():
    right = counts("a third hard", 5, 600, np.random.default_rng(3)).sum(axis=0)
    voters = np.full(600, 5)
    widths = []
    for worth in (600.0, 120.0):
        found = fit_difficulty(voters, right, 0.3, worth)
        low, high = found.interval(found.theta, 3.84)
        widths.append(high - low)
    assert widths[1] == pytest.approx(np.sqrt(5) * widths[0], rel=0.1)
    # The mean accuracy has the standard error of a mean
    assert widths[0] == pytest.approx(2 * 1.96 * (right / 5).std() / np.sqrt(600), rel=0.1)


def test_numbers_of_voters_may_differ():
    rng = np.random.default_rng(4)
    hard = rng.random(30_000) < 0.3
    voters = rng.integers(1, 40, 30_000)
    right = rng.binomial(voters, np.where(hard, 0.3, 0.9))
    found = fit_difficulty(voters, right, 0.36)
    assert found.mean(found.theta < 0.6) == pytest.approx(0.3, abs=0.02)
    assert found.counted.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.chances.sum(axis=0), 1)
