import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.theory import (
    best_weights,
    critical_lambda,
    operating_point,
    optimality,
    truth_correlation_bounds,
)


@given(st.integers(2, 60), st.floats(0, 3), st.sampled_from(["mean", "sum"]))
def test_the_operating_point_is_the_maximum_along_the_upper_curve(n, lam, reduction):
    r_ll = np.linspace(-1 / (n - 1), 1, 20_001)
    weight = lam if reduction == "mean" else lam * (n - 1) / 2
    gain = truth_correlation_bounds(r_ll, n).high - weight * r_ll
    point = operating_point(lam, n, reduction=reduction)
    assert point.r_tl == pytest.approx(truth_correlation_bounds(point.r_ll, n).high)
    assert point.r_tl - weight * point.r_ll >= gain.max() - 1e-9
    assert point.r_tl - weight * point.r_ll == pytest.approx(gain.max(), abs=1e-3)


def test_the_two_reductions_are_related_as_averages_and_sums_are():
    n = np.array([3, 5, 15])
    ratio = critical_lambda(n) / critical_lambda(n, reduction="sum")
    assert ratio == pytest.approx([1, 2, 7])  # (N - 1) / 2


def test_perfect_learners_are_best_up_to_the_critical_lambda_and_not_beyond():
    lam = critical_lambda(7)
    assert operating_point(lam, 7) == pytest.approx((1, 1))
    assert operating_point(0.0, 7) == pytest.approx((1, 1))
    assert operating_point(lam * 1.01, 7).r_tl < 1


def test_the_best_weights_are_those_of_the_regression_on_standardised_learners():
    rng = np.random.default_rng(0)
    learners = rng.standard_normal((4, 300))
    truth = learners.T @ [0.5, 0.3, -0.2, 0.0] + rng.standard_normal(300)
    matrix = np.corrcoef(np.vstack([truth, learners]))
    result = best_weights(matrix[0, 1:], matrix[1:, 1:])
    standardised = (learners - learners.mean(1, keepdims=True)) / learners.std(1, keepdims=True)
    target = (truth - truth.mean()) / truth.std()
    regression = np.linalg.lstsq(standardised.T, target, rcond=None)[0]
    assert result.weights == pytest.approx(regression)
    assert result.ceiling == pytest.approx(np.corrcoef(result.weights @ standardised, truth)[0, 1])


def test_repeated_learners_share_their_weight():
    once = best_weights([0.6, 0.3], [[1, 0.2], [0.2, 1]])
    twice = best_weights([0.6, 0.6, 0.3], [[1, 1, 0.2], [1, 1, 0.2], [0.2, 0.2, 1]])
    assert twice.ceiling == pytest.approx(once.ceiling)
    assert twice.weights == pytest.approx([once.weights[0] / 2, once.weights[0] / 2, once.weights[1]])


def test_learners_that_differ_by_a_rounding_share_their_weight():
    result = best_weights([0.6, 0.6 - 1e-9], [[1, 1 + 1e-9], [1 + 1e-9, 1]])
    assert result.weights == pytest.approx([0.3, 0.3], abs=1e-6)
    assert result.ceiling == pytest.approx(0.6)


def test_an_eigenvalue_within_rounding_times_the_size_is_zero():
    r = 1 - 4e-9  # the eigenvalues are 2 and 4e-9; those under 6e-9 count as zero
    result = best_weights([0.6 + 1e-9, 0.6 - 1e-9], [[1, r], [r, 1]])
    np.testing.assert_allclose(result.weights, [0.3, 0.3], atol=1e-6)


def test_equal_learners_have_equal_weights_and_the_optimality_as_ceiling():
    result = best_weights(np.full(5, 0.5), np.full((5, 5), 0.4) + 0.6 * np.eye(5))
    assert np.ptp(result.weights) == pytest.approx(0)
    assert result.ceiling == pytest.approx(optimality(0.5, 0.4, 5))


def test_learners_without_any_correlation_get_no_weight():
    result = best_weights([0.0, 0.0], np.eye(2))
    assert result.ceiling == 0
    assert result.weights.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: critical_lambda(1), ValueError, r"`n_learners` must be at least 2; got 1\."),
        (
            lambda: critical_lambda(5, reduction="max"),
            ValueError,
            r"`reduction` must be one of 'mean', 'sum'; got 'max'\.",
        ),
        (lambda: operating_point(-0.1, 5), ValueError, r"`lam` must be at least 0; got -0\.1\."),
        (lambda: operating_point(np.nan, 5), ValueError, "`lam` must not be NaN"),
        (lambda: operating_point("0.9", 5), TypeError, "`lam` must be a number"),
        (
            lambda: operating_point([0.1, 0.2], [3, 5, 7]),
            ValueError,
            "^`lam` and `n_learners` must have shapes that broadcast",
        ),
        (
            lambda: best_weights([0.5], np.eye(2)),
            ValueError,
            r"`truth_correlations` must have one entry for each row .* shapes \(1,\) and \(2, 2\)",
        ),
        (
            lambda: best_weights([0.9, 0.9], -0.9 * np.ones((2, 2)) + 1.9 * np.eye(2)),
            ValueError,
            "`learner_correlations` must form a valid",
        ),
        (
            lambda: best_weights([0.9, 0.9], np.ones((2, 3))),
            ValueError,
            "`learner_correlations` must be a square matrix",
        ),
        (
            lambda: best_weights([1.9, 0.9], np.eye(2)),
            ValueError,
            "`truth_correlations` must be between -1 and 1",
        ),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
