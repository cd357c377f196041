import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.theory import (
    is_correlation_matrix,
    learner_correlation_bounds,
    nearest_correlation_matrix,
    optimality,
    truth_correlation_bounds,
)

LEFT = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # the paper's Figure 2
RIGHT = np.array([[1, 0.3, 0.3, 0.3], [0.3, 1, -0.2, -0.2], [0.3, -0.2, 1, -0.2], [0.3, -0.2, -0.2, 1]])


def averages(truth, learners):
    """The paper's r_TL and r_LL, by loops over learners and pairs."""
    n = len(learners)
    r_tl = np.mean([np.corrcoef(truth, one)[0, 1] for one in learners])
    r_ll = np.mean([np.corrcoef(learners[i], learners[j])[0, 1] for i in range(n) for j in range(i)])
    return r_tl, r_ll


@pytest.mark.parametrize(("excess", "tolerated"), [(1.8e-9, True), (2.2e-9, False)])
def test_a_negative_eigenvalue_is_tolerated_up_to_rounding_times_the_size(excess, tolerated):
    r = 1 + excess  # the eigenvalues are 2 + excess and -excess
    assert is_correlation_matrix([[1, r], [r, 1]]) is tolerated


def test_a_diagonal_that_is_one_but_for_rounding_is_divided_out():
    found = nearest_correlation_matrix([[1 + 1e-9, 0.5], [0.5, 1 + 1e-9]])
    np.testing.assert_allclose(found, [[1, 0.5 / (1 + 1e-9)], [0.5 / (1 + 1e-9), 1]], rtol=0, atol=1e-13)


@st.composite
def ensembles(draw):
    """One-hot columns of any class of random labels, none of them constant."""
    n_learners = draw(st.integers(2, 9))
    n_classes = draw(st.integers(2, 5))
    labels = draw(
        hnp.arrays(
            np.int8, (n_learners + 1, draw(st.integers(4, 40))), elements=st.integers(0, n_classes - 1)
        )
    )
    columns = (labels == draw(st.integers(0, n_classes - 1))).astype(float)
    columns[:, 0], columns[:, 1] = 0.0, 1.0  # never constant
    return columns[0], columns[1:]


@given(ensembles())
def test_any_ensemble_lies_inside_theorems_1_and_2(ensemble):
    truth, learners = ensemble
    r_tl, r_ll = averages(truth, learners)
    low, high = learner_correlation_bounds(len(learners))
    assert low - 1e-12 <= r_ll <= high + 1e-12
    low, high = truth_correlation_bounds(r_ll, len(learners))
    assert low - 1e-7 <= r_tl <= high + 1e-7


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_theorem_2_is_attained_when_truth_is_the_summed_vote(n_learners, seed):
    learners = np.random.default_rng(seed).standard_normal((n_learners, 50))
    truth = ((learners - learners.mean(1, keepdims=True)) / learners.std(1, keepdims=True)).sum(0)
    r_tl, r_ll = averages(truth, learners)
    assert truth_correlation_bounds(r_ll, n_learners).high == pytest.approx(r_tl, abs=1e-10)
    assert optimality(r_tl, r_ll, n_learners) == pytest.approx(1, abs=1e-10)


def test_theorem_1_is_attained_when_the_learners_cancel():
    learners = np.linalg.qr(
        np.column_stack([np.ones(12), np.random.default_rng(0).standard_normal((12, 2))])
    )[0][:, 1:].T
    corners = np.array([[1, 0], [-0.5, np.sqrt(0.75)], [-0.5, -np.sqrt(0.75)]])  # an equilateral triangle
    _, r_ll = averages(np.arange(12.0), corners @ learners)
    assert r_ll == pytest.approx(learner_correlation_bounds(3).low)


@given(ensembles())
def test_optimality_is_the_correlation_of_the_standardised_mean_with_the_truth(ensemble):
    truth, learners = ensemble
    standardised = (learners - learners.mean(1, keepdims=True)) / learners.std(1, keepdims=True)
    mean = standardised.mean(0)
    r_tl, r_ll = averages(truth, learners)
    if mean.std() > 1e-3:
        assert optimality(r_tl, r_ll, len(learners)) == pytest.approx(
            np.corrcoef(mean, truth)[0, 1], abs=1e-9
        )


def test_optimality_is_undefined_where_the_learners_cancel():
    with pytest.warns(UndefinedMeasureWarning, match="cancel out"):
        result = optimality([0.0, 0.1], [-0.5, 0.0], 3)
    assert np.isnan(result[0])
    assert result[1] == pytest.approx(0.1 * np.sqrt(3))


def test_everything_broadcasts():
    r_ll, n = np.array([0.0, 0.5, 1.0]), np.array([[2], [5]])
    assert truth_correlation_bounds(r_ll, n).high.shape == (2, 3)
    assert optimality(0.1, r_ll, n).shape == (2, 3)
    assert learner_correlation_bounds(n).low.ravel().tolist() == [-1.0, -0.25]
    assert is_correlation_matrix(np.stack([LEFT, RIGHT])).tolist() == [False, True]


def test_figure_2_left_cannot_exist_and_right_can():
    assert is_correlation_matrix(LEFT) is False
    assert is_correlation_matrix(RIGHT) is True
    assert np.linalg.eigvalsh(LEFT.astype(float)).min() < 0


@pytest.mark.parametrize("broken", [RIGHT + np.triu(np.full((4, 4), 1e-3), 1), RIGHT * 1.001])
def test_an_asymmetric_or_unscaled_matrix_is_no_correlation_matrix(broken):
    assert is_correlation_matrix(broken) is False


def test_nearest_correlation_matrix_agrees_with_highams_published_example():
    # Higham (2002), section 4: the nearest correlation matrix to this tridiagonal one.
    nearest = nearest_correlation_matrix([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    assert nearest == pytest.approx(
        np.array([[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]]), abs=5e-5
    )


@given(hnp.arrays(float, (5, 5), elements=st.floats(-1, 1)))
def test_the_nearest_correlation_matrix_is_one_and_no_other_is_nearer(matrix):
    symmetric = (matrix + matrix.T) / 2
    np.fill_diagonal(symmetric, 1.0)
    nearest = nearest_correlation_matrix(symmetric)
    assert is_correlation_matrix(nearest)
    # The nearest point of a convex set: no direction into the set brings it nearer.
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = np.corrcoef(rng.standard_normal((5, 7)))
        assert np.sum((symmetric - nearest) * (other - nearest)) <= 1e-6
    assert nearest_correlation_matrix(nearest) == pytest.approx(nearest, abs=1e-9)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 1 + 1e-9], [1 + 1e-9, 1]],
        [[1, -1 - 1e-9], [-1 - 1e-9, 1]],
        [[1 + 1e-9, 0.5], [0.5, 1 - 1e-9]],
        [[1, -1e6], [-1e6, 1]],
    ],
)
def test_the_nearest_correlation_matrix_has_a_diagonal_of_one_and_nothing_above(matrix):
    nearest = nearest_correlation_matrix(matrix)
    assert (np.diagonal(nearest) == 1).all()
    assert np.abs(nearest).max() == 1
    assert is_correlation_matrix(nearest)


def test_a_correlation_matrix_is_returned_as_it_is():
    assert (nearest_correlation_matrix(RIGHT) == RIGHT).all()


def test_a_stack_of_matrices_is_repaired_one_by_one():
    stack = np.stack([LEFT, RIGHT]).astype(float)
    repaired = nearest_correlation_matrix(stack)
    assert repaired[0] == pytest.approx(nearest_correlation_matrix(LEFT))
    assert repaired[1] == pytest.approx(RIGHT)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: learner_correlation_bounds(1), ValueError, r"`n_learners` must be at least 2; got 1\."),
        (
            lambda: learner_correlation_bounds([5, 0]),
            ValueError,
            r"`n_learners` must be at least 2; got 0 at \[1\]\.",
        ),
        (
            lambda: learner_correlation_bounds(2.5),
            TypeError,
            r"`n_learners` must be an integer .*; got 2\.5\.",
        ),
        (
            lambda: learner_correlation_bounds("five"),
            TypeError,
            r"`n_learners` must be an integer .*; got 'five'\.",
        ),
        (lambda: learner_correlation_bounds(True), TypeError, "`n_learners` must be an integer"),
        (
            lambda: truth_correlation_bounds(-0.3, 5),
            ValueError,
            r"`r_ll` must be between -0\.25 and 1 \(Theorem 1\); got -0\.3\.",
        ),
        (lambda: truth_correlation_bounds(np.nan, 5), ValueError, r"`r_ll` must not be NaN; got nan\."),
        (lambda: truth_correlation_bounds("high", 5), TypeError, r"`r_ll` must be a number .*; got 'high'\."),
        (lambda: truth_correlation_bounds([], 5), TypeError, r"`r_ll` must be a number"),
        (lambda: truth_correlation_bounds([[1], [1, 2]], 5), TypeError, r"`r_ll` must be a number"),
        (lambda: truth_correlation_bounds(0.1j, 5), TypeError, r"`r_ll` must be a number"),
        (
            lambda: optimality(0.9, 0.0, 5),
            ValueError,
            r"`r_tl` must be between -0\.447\d+ and 0\.447\d+ \(Theorem 2\); got 0\.9\.",
        ),
        (
            lambda: is_correlation_matrix(np.ones((2, 3))),
            ValueError,
            r"`matrix` must be a square matrix; got shape \(2, 3\)\.",
        ),
        (lambda: is_correlation_matrix([1.0]), ValueError, r"`matrix` must be a square matrix"),
        (
            lambda: is_correlation_matrix([[1, np.inf], [np.inf, 1]]),
            ValueError,
            r"`matrix` must be finite; got inf at \[0, 1\]\.",
        ),
        (
            lambda: truth_correlation_bounds([0.1, 0.2], [3, 5, 7]),
            ValueError,
            r"^`r_ll` and `n_learners` must have shapes that broadcast; got \(2,\) and \(3,\)\.$",
        ),
        (
            lambda: optimality([0.1, 0.2], 0.3, [3, 5, 7]),
            ValueError,
            "^`r_tl`, `r_ll` and `n_learners` must have shapes that broadcast",
        ),
        (
            lambda: nearest_correlation_matrix([[1, 1e200], [1e200, 1]]),
            ValueError,
            r"`matrix` must be between -1e\+06 and 1e\+06; got 1e\+200 at \[0, 1\]\.",
        ),
        (
            lambda: nearest_correlation_matrix([[1, 1_000_000.5], [0, 1]]),
            ValueError,
            r"`matrix` must be between -1e\+06 and 1e\+06",
        ),
        (
            lambda: nearest_correlation_matrix([[1, np.nan], [0, 1]]),
            ValueError,
            r"`matrix` must not be NaN; got nan at \[0, 1\]\.",
        ),
        (
            lambda: nearest_correlation_matrix([["a", "b"], ["c", "d"]]),
            TypeError,
            r"`matrix` must be a number",
        ),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
