import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

from counterpoint import measures
from counterpoint.exceptions import UndefinedMeasureWarning
from tests.measures import references
from tests.measures.references import ensembles, pair_average, right_counts

POOLED = [
    "coincident_failure_diversity",
    "difficulty",
    "entropy",
    "generalized_diversity",
    "correctness_fleiss_kappa",
    "kohavi_wolpert_variance",
]


@given(ensemble=ensembles)
def test_entropy_counts_the_smaller_camp(ensemble):
    y_true, votes = ensemble
    n = len(votes)
    camps = [min(right, n - right) for right in right_counts(y_true, votes)]
    assert measures.entropy(y_true, votes) == pytest.approx(np.mean(camps) / (n - -(-n // 2)))


@given(ensemble=ensembles)
def test_kohavi_wolpert_variance_is_a_variance_and_a_disagreement(ensemble):
    y_true, votes = ensemble
    n = len(votes)
    kw = measures.kohavi_wolpert_variance(y_true, votes)
    assert kw == pytest.approx(np.var(votes == y_true, axis=0).mean(), abs=1e-12)
    mean_disagreement = pair_average(y_true, votes, references.disagreement)
    # Kuncheva and Whitaker (2003): KW = (L - 1) / 2L times the mean disagreement.
    assert kw == pytest.approx((n - 1) / (2 * n) * mean_disagreement, abs=1e-12)


@given(ensemble=ensembles)
def test_difficulty_is_the_variance_of_the_share_right(ensemble):
    y_true, votes = ensemble
    expected = np.var([right / len(votes) for right in right_counts(y_true, votes)])
    assert measures.difficulty(y_true, votes) == pytest.approx(expected, abs=1e-12)


@given(ensemble=ensembles)
def test_generalized_diversity_draws_learners_that_fail(ensemble):
    y_true, votes = ensemble
    wrong = votes != y_true
    first = wrong.mean()
    if first == 0:
        with pytest.warns(UndefinedMeasureWarning, match="generalized_diversity"):
            assert np.isnan(measures.generalized_diversity(y_true, votes))
        return
    second = np.mean([(wrong[i] & wrong[j]).mean() for i, j in combinations(range(len(votes)), 2)])
    expected = 1 - second / first
    assert measures.generalized_diversity(y_true, votes) == pytest.approx(expected, abs=1e-12)


@given(ensemble=ensembles)
def test_coincident_failure_diversity_averages_over_samples_with_a_failure(ensemble):
    y_true, votes = ensemble
    n = len(votes)
    failures = [n - right for right in right_counts(y_true, votes)]
    terms = [(n - f) / (n - 1) for f in failures if f > 0]
    expected = np.mean(terms) if terms else 0.0
    assert measures.coincident_failure_diversity(y_true, votes) == pytest.approx(expected)


@given(ensemble=ensembles)
def test_correctness_fleiss_kappa_is_one_less_disagreement_over_chance(ensemble):
    y_true, votes = ensemble
    p = (votes == y_true).mean()
    if p in (0, 1):
        with pytest.warns(UndefinedMeasureWarning, match="correctness_fleiss_kappa"):
            assert np.isnan(measures.correctness_fleiss_kappa(y_true, votes))
        return
    # Kuncheva and Whitaker (2003): kappa = 1 - mean disagreement / (2 p (1 - p)).
    mean_disagreement = pair_average(y_true, votes, references.disagreement)
    expected = 1 - mean_disagreement / (2 * p * (1 - p))
    assert measures.correctness_fleiss_kappa(y_true, votes) == pytest.approx(expected, abs=1e-9)


@given(ensemble=ensembles)
def test_every_value_is_in_the_range_of_the_measure(ensemble):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        values = {name: getattr(measures, name)(*ensemble) for name in POOLED}
    for name, value in values.items():
        low, high = measures.MEASURES[name].range
        assert np.isnan(value) or low - 1e-12 <= value <= high + 1e-12


def test_values_by_hand():
    # Three learners of which 3, 2, 2 and 1 are right on the four samples.
    y_true, votes = [0, 0, 1, 1], [[0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert measures.entropy(y_true, votes) == pytest.approx((0 + 1 + 1 + 1) / 4)
    assert measures.kohavi_wolpert_variance(y_true, votes) == pytest.approx((0 + 2 + 2 + 2) / 36)
    assert measures.difficulty(y_true, votes) == pytest.approx((1 + 0 + 0 + 1) / 36)
    assert measures.correctness_fleiss_kappa(y_true, votes) == pytest.approx(1 - 6 / (24 * 2 / 9))
    assert measures.generalized_diversity(y_true, votes) == pytest.approx(1 - (2 / 24) / (4 / 12))
    assert measures.coincident_failure_diversity(y_true, votes) == pytest.approx((1 + 1 + 0.5) / 3)


def test_learners_that_never_fail_have_no_coincident_failures_by_definition():
    assert measures.coincident_failure_diversity([0, 1], [[0, 1], [0, 1]]) == 0
