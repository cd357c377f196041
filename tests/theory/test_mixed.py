import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from counterpoint.theory import error_correlation_bounds, jury_accuracy, mixed_vote_accuracy


def enumerate_independent(p, w):
    """The accuracy of a weighted vote of independent learners, over every pattern."""
    total = 0.0
    for votes in itertools.product([0, 1], repeat=len(p)):
        chance = np.prod(np.where(votes, p, 1 - np.asarray(p)))
        margin = 2 * np.dot(votes, w) - np.sum(w)
        total += chance * (1.0 if margin > 1e-9 else 0.5 if margin > -1e-9 else 0.0)
    return total


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.data())
def test_independent_learners_agree_with_the_sum_over_all_patterns(p, data):
    w = data.draw(st.lists(st.integers(0, 5), min_size=len(p), max_size=len(p)).filter(any))
    assert mixed_vote_accuracy(p, 0.0, weights=w) == pytest.approx(enumerate_independent(p, w), abs=1e-9)
    assert mixed_vote_accuracy(p, 0.0) == pytest.approx(enumerate_independent(p, np.ones(len(p))), abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_independent_learners_agree_with_a_plain_convolution(weighted):
    rng = np.random.default_rng(0)
    p, w = rng.uniform(0.3, 0.72, 700), rng.integers(1, 4, 700) if weighted else np.ones(700, dtype=int)
    score = np.ones(1)
    for right, weight in zip(p, w, strict=True):
        score = np.convolve(score, [1 - right, *np.zeros(weight - 1), right])
    margin = 2 * np.arange(len(score)) - w.sum()
    expected = score @ np.where(margin > 0, 1.0, np.where(margin == 0, 0.5, 0.0))
    assert 0.6 < expected < 0.99
    assert mixed_vote_accuracy(p, 0.0, weights=w) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "p"), [*itertools.product([2, 3, 5, 15, 51], [0.55, 0.7, 0.9])])
def test_learners_that_are_nearly_equal_are_nearly_a_jury(n, p):
    learners = p + 1e-13 * np.arange(n)  # equal ones are a jury by definition
    for c in [0.0, 0.01, 0.1, 0.4, 0.9, *(np.array([0.3, 0.9, 1.0]) * error_correlation_bounds(p, n).low)]:
        assert mixed_vote_accuracy(learners, c) == pytest.approx(jury_accuracy(p, c, n), abs=1e-6)


@pytest.mark.parametrize(("n", "p"), [(3, 0.9), (15, 0.51), (15, 0.8)])
def test_learners_whose_errors_are_nearly_the_same_keep_their_digits(n, p):
    for c in [0.99, 0.999, 0.9999, 1.0]:
        assert mixed_vote_accuracy(np.full(n, p), c) == jury_accuracy(p, c, n)
        nearly = mixed_vote_accuracy(p + 1e-13 * np.arange(n), c)
        assert nearly == pytest.approx(jury_accuracy(p, c, n), abs=1e-4)


@pytest.fixture(scope="module")
def simulated():
    """Learners of a one-factor probit with loadings and accuracies of their own."""
    rng = np.random.default_rng(0)
    p = np.array([0.9, 0.8, 0.7, 0.6, 0.55, 0.65, 0.75])
    a = np.array([0.1, 0.8, 0.5, 0.3, 0.6, 0.2, 0.7])
    latent = a * rng.standard_normal((500_000, 1)) + np.sqrt(1 - a**2) * rng.standard_normal((500_000, 7))
    return latent < special.ndtri(p)


@pytest.mark.parametrize("w", [None, [3, 2, 1, 1, 0, 1, 2], [3.3, 1.7, 1.1, 0.7, 0.2, 1.234, 1.9]])
def test_unequal_learners_agree_with_simulation(simulated, w):
    weights = np.ones(7) if w is None else np.array(w)
    margin = 2 * (simulated @ weights) - weights.sum()
    vote = np.mean((margin > 1e-9) + 0.5 * (np.abs(margin) <= 1e-9))
    predicted = mixed_vote_accuracy(simulated.mean(axis=0), np.corrcoef(simulated.T), weights=w)
    assert predicted == pytest.approx(vote, abs=4 * np.sqrt(0.25 / 500_000))


def test_one_number_for_all_pairs_is_the_matrix_with_it_everywhere():
    p = [0.8, 0.75, 0.7]
    matrix = np.full((3, 3), 0.2) + 0.8 * np.eye(3)
    assert mixed_vote_accuracy(p, 0.2) == mixed_vote_accuracy(p, matrix)


def test_the_scale_of_the_weights_does_not_matter():
    p = [0.8, 0.75, 0.7, 0.6]
    w = np.array([0.31, 0.27, 0.22, 0.2])
    assert mixed_vote_accuracy(p, 0.1, weights=w) == pytest.approx(
        mixed_vote_accuracy(p, 0.1, weights=7 * w), abs=1e-12
    )


@pytest.mark.parametrize(
    ("p", "w"),
    [
        ([0.6, 0.9, 0.9], [2001, 1000, 1000]),
        ([0.6, 0.9, 0.9], [0.0001, 1, 1]),
        ([0.6, 0.9, 0.9, 0.7], [np.pi, np.e, np.sqrt(2), 0]),
        ([0.8, 0.7, 0.6, 0.6, 0.55], [1000, 501, 500, 499, 1]),
    ],
)
def test_weights_without_a_small_unit_are_taken_as_they_are(p, w):
    assert mixed_vote_accuracy(p, 0.0, weights=w) == pytest.approx(enumerate_independent(p, w), abs=1e-12)


@pytest.mark.parametrize("c", [0.0, 0.2, -0.25])
def test_weights_that_only_just_have_no_unit_change_nothing(c):
    p, w = [0.7, 0.65, 0.6, 0.62], np.array([6.0, 4.0, 3.0, 2.0])  # an odd sum: there is no tie to break
    moved = w + 1e-7 * np.array([np.pi, np.e, np.sqrt(2), 1.0])
    assert mixed_vote_accuracy(p, c, weights=moved) == pytest.approx(
        mixed_vote_accuracy(p, c, weights=w), abs=1e-6
    )


@pytest.mark.parametrize(
    ("p", "c", "w", "exact"),
    [
        # copies of each other are right together
        ([0.92, 0.92], 1.0, [2, 1.7e-4], 0.92),
        # the one that is always right decides, and the others' agreement has no say
        ([0.6, 0.6, 1.0], [[1, 1, 0], [1, 1, 0], [0, 0, 1]], [0.1, 0.3, 50], 1.0),
    ],
)
def test_votes_at_the_end_of_what_can_be_are_exact(p, c, w, exact):
    assert mixed_vote_accuracy(p, c, weights=w) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    ("p", "c", "w"),
    [
        ([0.9, 0.6, 0.6], -0.2, [3, 1, 1]),
        ([0.58, 0.25], -0.3, [2, 1]),
        ([0.6, 0.7, 0.7], [[1, -0.3, 0], [-0.3, 1, 0], [0, 0, 1]], [5, 1, 1]),
        ([0.9] + [0.6] * 19, -0.03, [19.001] + [1] * 19),  # weights so many that they are rounded to a unit
    ],
)
def test_a_learner_with_more_than_half_of_the_weight_decides_alone(p, c, w):
    assert mixed_vote_accuracy(p, c, weights=w) == p[0]


@pytest.mark.parametrize("c", [0.2, 0.0, -0.3])
def test_half_of_the_weight_does_not_decide_alone(c):
    assert mixed_vote_accuracy([0.25, 0.58], c, weights=[2, 2]) == pytest.approx((0.25 + 0.58) / 2, abs=1e-9)
    assert 0.6 < mixed_vote_accuracy([0.9, 0.6, 0.6], c / 2, weights=[2, 1, 1]) < 0.9


def test_the_grid_of_the_score_grows_with_the_learners(monkeypatch):
    rng = np.random.default_rng(0)
    p, weights = rng.uniform(0.5, 0.6, 41), rng.uniform(0.8, 0.99, 41)
    fine = mixed_vote_accuracy(p, 0.05, weights=weights)
    monkeypatch.setattr("counterpoint.theory.mixed._CELLS", 10)  # as 4000 for 16000 learners
    assert mixed_vote_accuracy(p, 0.05, weights=weights) == pytest.approx(fine, abs=2e-3)


def test_a_learner_that_is_always_right_or_has_no_weight_is_taken_as_such():
    assert mixed_vote_accuracy([1.0, 0.6, 0.6], 0.0) == pytest.approx(1 - 0.4**2)
    assert mixed_vote_accuracy([0.9, 0.6], 0.0, weights=[1, 0]) == pytest.approx(0.9)


def test_arguments_have_names():
    assert mixed_vote_accuracy(p=[0.6, 0.7, 0.8], c=0.0) == mixed_vote_accuracy([0.6, 0.7, 0.8], 0.0)


def test_opposed_pairs_within_a_matrix_raise_the_vote():
    p = np.full(4, 0.7)
    opposed = np.eye(4)
    opposed[0, 1] = opposed[1, 0] = opposed[2, 3] = opposed[3, 2] = -0.4
    assert mixed_vote_accuracy(p, opposed) > mixed_vote_accuracy(p, 0.0) + 0.02


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: mixed_vote_accuracy(0.7, 0.1),
            ValueError,
            r"`p` must be a list of accuracies, one for each learner; got shape \(\)\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.7, 1.7], 0.1),
            ValueError,
            r"`p` must be between 0 and 1; got 1\.7 at \[1\]\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.9, 0.6], 0.6),
            ValueError,
            r"`c` must be between .* and 0\.408248 \(two learners with these accuracies\); got 0\.6",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 3, -0.6),
            ValueError,
            r"`c` must be between -0\.5 and 1 \(Theorem 1\); got -0\.6\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 3, -0.5),
            ValueError,
            r"`c` must be between -0\.388889 and 1 \(being correct is yes or no, for equal learners\); got -0\.5\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.6, 0.6, 0.61], -0.48),
            ValueError,
            r"`c` must leave the score of the vote a variance of at least 0\.1539 "
            r"\(being correct is yes or no\); got 0\.0",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 3, np.eye(2)),
            ValueError,
            r"`c` must have a row and a column for each learner \(3\); got shape \(2, 2\)\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 3, np.full((3, 3), 0.5)),
            ValueError,
            "`c` must be a correlation matrix",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 3, 0.1, weights=[1, 1]),
            ValueError,
            r"`weights` must have shape \(3,\), one per learner; got shape \(2,\)\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 2, 0.1, weights=[1, -1]),
            ValueError,
            r"`weights` must be at least 0; got -1 at \[1\]\.",
        ),
        (
            lambda: mixed_vote_accuracy([0.6] * 2, 0.1, weights=[0, 0]),
            ValueError,
            r"`weights` must have a positive, finite sum; got 0\.",
        ),
        (lambda: mixed_vote_accuracy([0.6] * 2, "much"), TypeError, "`c` must be a number"),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
