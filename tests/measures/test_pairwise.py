import warnings

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import cohen_kappa_score

from counterpoint import measures
from counterpoint.exceptions import UndefinedMeasureWarning
from tests.measures import references
from tests.measures.references import count_pair, ensembles, random_probabilities, random_votes

PAIRWISE = (
    "correctness_kappa",
    "correlation_rho",
    "disagreement",
    "double_fault",
    "q_statistic",
    "ratio_errors",
)


@pytest.mark.parametrize("name", PAIRWISE)
@given(ensemble=ensembles)
def test_a_matrix_is_the_formula_in_a_loop_over_samples_and_pairs(name, ensemble):
    y_true, votes = ensemble
    formula = getattr(references, name)
    expected = [[formula(*count_pair(y_true, a, b)) for b in votes] for a in votes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        matrix = getattr(measures, name)(y_true, votes)
    np.testing.assert_allclose(matrix, expected, atol=1e-12)


@given(ensemble=ensembles)
def test_all_at_once_is_each_alone(ensemble):
    y_true, votes = ensemble
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        matrices = measures.pairwise_measures(y_true, votes)
        assert tuple(matrices) == PAIRWISE
        for name, matrix in matrices.items():
            np.testing.assert_array_equal(matrix, getattr(measures, name)(y_true, votes))


@given(ensemble=ensembles)
def test_every_value_is_in_the_range_of_the_measure(ensemble):
    y_true, votes = ensemble
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        matrices = measures.pairwise_measures(y_true, votes)
    for name, matrix in matrices.items():
        low, high = measures.MEASURES[name].range
        defined = matrix[~np.isnan(matrix)]
        assert ((defined >= low - 1e-12) & (defined <= high + 1e-12)).all()


def test_contingency_counts_by_hand():
    # 10 samples: both right 4, only the first right 3, only the second right 2, neither 1.
    y_true = ["a"] * 10
    first = ["a"] * 7 + ["b"] * 3
    second = ["a"] * 4 + ["b"] * 3 + ["a"] * 2 + ["c"]
    table = measures.contingency(y_true, [first, second])
    assert [int(counts[0, 1]) for counts in table] == [4, 3, 2, 1]
    assert [int(counts[1, 0]) for counts in table] == [4, 2, 3, 1]
    values = {
        name: matrix[0, 1] for name, matrix in measures.pairwise_measures(y_true, [first, second]).items()
    }
    # From the definitions of Kuncheva and Whitaker (2003) with these counts.
    assert values["q_statistic"] == pytest.approx((4 * 1 - 2 * 3) / (4 * 1 + 2 * 3))
    assert values["correlation_rho"] == pytest.approx(-2 / np.sqrt(7 * 3 * 6 * 4))
    assert values["disagreement"] == pytest.approx(0.5)
    assert values["double_fault"] == pytest.approx(0.1)
    assert values["correctness_kappa"] == pytest.approx((0.5 - 0.54) / (1 - 0.54))
    assert values["ratio_errors"] == pytest.approx(5.0)


def test_kappa_is_cohens_kappa_of_correctness():
    y_true, votes = random_votes(3, n_learners=4, n_samples=200, n_classes=3)
    right = votes == y_true
    expected = [[cohen_kappa_score(a, b) for b in right] for a in right]
    np.testing.assert_allclose(measures.correctness_kappa(y_true, votes), expected, atol=1e-12)


def test_rho_is_the_error_correlation_and_corrcoef_of_correctness():
    y_true, votes = random_votes(4, n_learners=5, n_samples=300, n_classes=4)
    expected = np.corrcoef(votes == y_true)
    np.testing.assert_allclose(measures.correlation_rho(y_true, votes), expected, atol=1e-12)
    np.testing.assert_allclose(measures.error_correlations(y_true, votes), expected, atol=1e-12)


def test_probabilities_vote_for_their_most_probable_class():
    y_true, proba = random_probabilities(5, n_learners=3, n_samples=100, n_classes=4)
    np.testing.assert_array_equal(
        measures.disagreement(y_true, proba), measures.disagreement(y_true, proba.argmax(axis=2))
    )


@pytest.mark.parametrize(
    ("name", "votes"),
    [
        ("q_statistic", [[0, 0, 1, 1], [0, 1, 0, 1]]),  # the first is always right
        ("correlation_rho", [[0, 0, 1, 1], [0, 1, 0, 1]]),
        ("error_correlations", [[0, 0, 1, 1], [0, 1, 0, 1]]),
        ("correctness_kappa", [[0, 0, 1, 1], [0, 0, 1, 1]]),  # both are
        ("correctness_kappa", [[1, 1, 0, 0], [1, 1, 0, 0]]),  # both are always wrong
        ("ratio_errors", [[0, 0, 1, 0], [1, 0, 1, 1]]),  # no common error
    ],
)
def test_undefined_is_nan_and_a_warning_that_names_the_pair(name, votes):
    with pytest.warns(UndefinedMeasureWarning, match=f"`{name}` .* learners 0 and 1;") as caught:
        matrix = getattr(measures, name)([0, 0, 1, 1], votes)
    assert np.isnan(matrix[0, 1])
    assert np.isnan(matrix[1, 0])
    assert caught[0].filename == __file__


def test_many_undefined_pairs_are_counted():
    with pytest.warns(UndefinedMeasureWarning, match="learners 0 and 3 and 3 more;"):
        measures.q_statistic([0, 1], [[0, 1]] * 4)


def test_a_warning_from_all_at_once_points_at_the_caller():
    with pytest.warns(UndefinedMeasureWarning) as caught:
        measures.pairwise_measures([0, 1], [[0, 1], [0, 1]])
    assert {warning.filename for warning in caught} == {__file__}
    assert len(caught) == 4  # rho, kappa, Q and the ratio, but neither disagreement nor double fault


def test_one_constant_learner_leaves_kappa_defined():
    # Agreement with a learner that never fails is what chance would give.
    assert measures.correctness_kappa([0, 0, 1, 1], [[0, 0, 1, 1], [0, 1, 0, 1]])[0, 1] == 0


def test_rho_is_the_error_correlation_to_the_last_digit():
    y_true, votes = [0, 0, 1], [[0, 0, 0], [0, 1, 0]]
    rho = measures.correlation_rho(y_true, votes)
    np.testing.assert_array_equal(rho, measures.error_correlations(y_true, votes))
    np.testing.assert_array_equal(np.diagonal(rho), 1.0)
