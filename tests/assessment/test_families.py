"""Families of learners whose errors coincide: false discoveries and power in simulations."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from counterpoint import assess
from counterpoint.assessment import Assessment
from counterpoint.assessment.families import _both, _latent, connected, error_families, group_design
from counterpoint.outputs import Outputs, sufficient_statistics


def rights(rng, accuracies, loadings, n_samples):
    """One-factor probit: what makes a sample hard is hard for all, more or less."""
    p, a = np.asarray(accuracies)[:, None], np.asarray(loadings)[:, None]
    latent = a * rng.normal(size=n_samples) + np.sqrt(1 - a**2) * rng.normal(size=(len(p), n_samples))
    return latent < ndtri(p)


def found(right, groups=None):
    read = Outputs(right, np.ones(right.shape[1], dtype=bool), [False, True])
    counts = sufficient_statistics(read, correctness=True).correctness
    return error_families(counts, group_design(read, counts, groups))


@pytest.mark.parametrize(
    ("accuracy", "loading"),
    [((0.7, 0.7), (0, 0)), ((0.55, 0.95), (0, 0)), ((0.7, 0.7), (0.6, 0.6)), ((0.55, 0.95), (0.2, 0.8))],
)
def test_false_discoveries_are_few(accuracy, loading):
    wrong, runs = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for n_learners, n_samples in ((5, 300), (12, 600)):
            p, a = rng.uniform(*accuracy, n_learners), rng.uniform(*loading, n_learners)
            wrong += found(rights(rng, p, a, n_samples)).any()
            runs += 1
    assert wrong <= 9  # of 80; more than that has a chance of 1 in 100 at a rate of 5 %


def test_copies_are_found_with_and_without_a_common_difficulty():
    for loading in (0.0, 0.5):
        for n_learners in (4, 8, 15):
            rng = np.random.default_rng([n_learners, int(10 * loading)])
            right = rights(rng, [0.75] * n_learners, [loading] * n_learners, 600)
            right[1] = np.where(rng.random(600) < 0.7, right[0], right[1])
            pairs = found(right)
            assert pairs[0, 1]
            assert np.triu(pairs).sum() == 1


def test_families_of_several_are_named_and_survive_json():
    rng = np.random.default_rng(3)
    own = rights(rng, [0.75] * 10, [0.4] * 10, 1500)
    for family in ([0, 1, 2], [5, 6]):  # a hidden parent whom each follows half of the time
        parent = rng.random(1500) < 0.75
        for i in family:
            own[i] = np.where(rng.random(1500) < 0.7, parent, own[i])
    truth = rng.integers(0, 2, 1500)
    a = assess(truth, np.where(own, truth, 1 - truth))
    assert a.correlations.families == ((0, 1, 2), (5, 6))
    (finding,) = (finding for finding in a.findings if finding.code == "families")
    assert finding.severity == "info"
    assert finding.text.startswith("L1, L2 and L3 make more errors together than the rest of the panel")
    assert finding.text.endswith("they count for fewer votes. Another family does so too.")
    assert finding.numbers == {"families": [[0, 1, 2], [5, 6]], "copies": []}
    assert Assessment.from_json(a.to_json()).to_json() == a.to_json()


def test_samples_that_belong_together_make_no_families():
    wrong = naive = 0
    groups = np.repeat(np.arange(100), 8)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        right = np.repeat(rights(rng, [0.7] * 8, [0.3] * 8, 100), 8, axis=1)
        wrong += found(right, groups).any()
        naive += found(right).any()
    assert wrong <= 4
    assert naive > 12


def test_the_latent_correlation_is_that_of_the_normal_distribution():
    for p, q, r in ((0.7, 0.7, 0.5), (0.95, 0.6, 0.3), (0.8, 0.55, -0.2), (0.9, 0.9, 0.97)):
        h, k = ndtri(p), ndtri(q)
        both = multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([h, k])
        assert _both(h, k, np.array(r)) == pytest.approx(both, abs=1e-5)
        assert _latent(np.array([h]), np.array([k]), np.array([both]))[0] == pytest.approx(r, abs=2e-3)


def test_nothing_is_said_where_there_is_nothing_to_tell():
    rng = np.random.default_rng(0)
    assert not found(
        rights(rng, [0.7] * 3, [0.9] * 3, 200)
    ).any()  # of three, any correlations are one factor's
    assert not found(np.ones((5, 50), dtype=bool)).any()
    assert connected(np.zeros((3, 3), dtype=bool)) == ()
