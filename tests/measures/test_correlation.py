import warnings

import numpy as np
import pytest
from hypothesis import assume, given

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import (
    diversity,
    learner_learner_correlation,
    truth_learner_correlation,
)
from tests.measures.references import (
    ensembles,
    random_probabilities,
    random_votes,
    soft_ensembles,
)


def one_hot(values, classes):
    return np.array([[float(value == label) for label in classes] for value in values])


def loops(truth_columns, learner_columns):
    """Return r_tl (N, m) and r_ll (m, N, N) as the paper's training algorithm loops over them."""
    n_learners, _, n_classes = learner_columns.shape
    r_tl = np.empty((n_learners, n_classes))
    r_ll = np.empty((n_classes, n_learners, n_learners))
    for k in range(n_classes):
        for i in range(n_learners):
            r_tl[i, k] = np.corrcoef(truth_columns[:, k], learner_columns[i, :, k])[0, 1]
            for j in range(n_learners):
                r_ll[k, i, j] = np.corrcoef(learner_columns[i, :, k], learner_columns[j, :, k])[0, 1]
    return r_tl, r_ll


def assert_inside_theorems_1_and_2(r_tl, r_ll, n_learners):
    assert -1 / (n_learners - 1) - 1e-12 <= r_ll <= 1 + 1e-12
    assert r_tl**2 <= ((n_learners - 1) * r_ll + 1) / n_learners + 1e-12


@given(ensemble=ensembles)
def test_votes_lie_inside_theorems_1_and_2(ensemble):
    y_true, votes = ensemble
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        per_learner = truth_learner_correlation(y_true, votes, per_class=True)
        r_ll = diversity(y_true, votes, "learner_learner_correlation")
    assume(not np.isnan(per_learner).any())
    assert_inside_theorems_1_and_2(per_learner.mean(), r_ll, len(votes))


@given(ensemble=soft_ensembles)
def test_probabilities_lie_inside_theorems_1_and_2_class_by_class_and_on_average(ensemble):
    y_true, proba = ensemble
    n = len(proba)
    r_tl = truth_learner_correlation(y_true, proba, per_class=True)
    r_ll = learner_learner_correlation(proba, per_class=True)
    pairs = r_ll[:, *np.triu_indices(n, k=1)]
    for k in range(proba.shape[2]):
        assert_inside_theorems_1_and_2(r_tl[:, k].mean(), pairs[k].mean(), n)
    average = diversity(y_true, proba, "learner_learner_correlation")
    assert average == pytest.approx(pairs.mean(), abs=1e-12)
    assert_inside_theorems_1_and_2(r_tl.mean(), average, n)


def test_theorem_2_is_attained_when_truth_is_the_summed_output():
    y_true = np.array([0, 0, 1, 1])
    noise = 0.1 * np.array([1, -1, 1, -1])
    first, second = 0.3 + 0.4 * y_true + noise, 0.3 + 0.4 * y_true - noise
    proba = np.stack([[1 - first, first], [1 - second, second]]).swapaxes(1, 2)
    r_tl = truth_learner_correlation(y_true, proba).mean()
    r_ll = learner_learner_correlation(proba)[0, 1]
    assert r_tl == pytest.approx(np.sqrt((r_ll + 1) / 2), abs=1e-12)


@given(ensemble=soft_ensembles)
def test_distance_to_theorem_2_is_the_correlation_of_the_summed_learners(ensemble):
    y_true, proba = ensemble
    n = len(proba)
    columns = proba[:, :, 0]
    centred = columns - columns.mean(axis=1, keepdims=True)
    total = (centred / centred.std(axis=1, keepdims=True)).sum(axis=0)
    r_tl = truth_learner_correlation(y_true, proba, per_class=True)[:, 0].mean()
    r_ll = learner_learner_correlation(proba, per_class=True)[0]
    ceiling = np.sqrt(r_ll.sum() / n**2)
    assert r_tl / ceiling == pytest.approx(np.corrcoef(total, y_true == 0)[0, 1], abs=1e-9)


def test_votes_agree_with_the_papers_loops():
    y_true, votes = random_votes(0, n_learners=4, n_samples=150, n_classes=3)
    r_tl, r_ll = loops(one_hot(y_true, range(3)), np.array([one_hot(v, range(3)) for v in votes]))
    for per_class, axis_tl, axis_ll in ((True, (), ()), (False, 1, 0)):
        np.testing.assert_allclose(
            truth_learner_correlation(y_true, votes, per_class=per_class),
            r_tl.mean(axis=axis_tl),
            atol=1e-12,
        )
        np.testing.assert_allclose(
            learner_learner_correlation(votes, per_class=per_class),
            r_ll.mean(axis=axis_ll),
            atol=1e-12,
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_probabilities_agree_with_the_papers_loops(dtype):
    y_true, proba = random_probabilities(1, n_learners=4, n_samples=150, n_classes=3)
    proba = proba.astype(dtype)
    r_tl, r_ll = loops(one_hot(y_true, range(3)), proba.astype(float))
    np.testing.assert_allclose(truth_learner_correlation(y_true, proba, per_class=True), r_tl, atol=1e-12)
    np.testing.assert_allclose(learner_learner_correlation(proba, per_class=True), r_ll, atol=1e-12)


def test_two_classes_give_the_correlation_of_labels():
    y_true, votes = random_votes(2, n_learners=5, n_samples=80, n_classes=2)
    expected = np.corrcoef(np.vstack([y_true, votes]))
    np.testing.assert_allclose(truth_learner_correlation(y_true, votes), expected[0, 1:], atol=1e-12)
    np.testing.assert_allclose(learner_learner_correlation(votes), expected[1:, 1:], atol=1e-12)


def test_labels_may_be_of_any_kind():
    y_true, votes = random_votes(6, n_learners=3, n_samples=60, n_classes=3)
    names = np.array(["ant", "bee", "cow"])
    expected = truth_learner_correlation(y_true, votes)
    for truth, given_votes in [
        (names[y_true], names[votes]),
        (names[y_true].astype(object), names[votes].astype(object).tolist()),
        (names[y_true].astype("S"), names[votes].astype("S")),
        (y_true.astype(float), votes.astype(np.int8)),
        (y_true * 1000 - 500, votes * 1000 - 500),
        (y_true.astype(object), votes.astype(object)),
    ]:
        np.testing.assert_allclose(truth_learner_correlation(truth, given_votes), expected)
    binary = truth_learner_correlation(y_true > 0, votes > 0)
    np.testing.assert_allclose(binary, truth_learner_correlation((y_true > 0) * 1, votes > 0))


def test_the_diagonal_is_exactly_one():
    _, proba = random_probabilities(7, n_learners=3, n_samples=50, n_classes=3)
    matrix = learner_learner_correlation(proba)
    np.testing.assert_array_equal(np.diag(matrix), 1.0)
    np.testing.assert_array_equal(matrix, matrix.T)


def test_nearly_constant_probabilities_keep_their_correlation():
    rng = np.random.default_rng(8)
    small = 0.5 + 1e-9 * rng.normal(size=(2, 1000))
    proba = np.stack([small, 1 - small], axis=2)
    expected = np.corrcoef(small)[0, 1]
    assert learner_learner_correlation(proba)[0, 1] == pytest.approx(expected, abs=1e-9)


def test_a_constant_learner_is_named_and_left_out_of_the_average():
    y_true = [0, 1, 2, 0, 1, 2]
    votes = [[0, 1, 2, 0, 1, 1], [0, 1, 1, 0, 1, 1]]  # the second never votes for class 2
    with pytest.warns(UndefinedMeasureWarning, match="for learner 1 in class 2;") as caught:
        r_tl = truth_learner_correlation(y_true, votes, per_class=True)
    assert caught[0].filename == __file__
    assert np.isnan(r_tl).tolist() == [[False, False, False], [False, False, True]]
    with pytest.warns(UndefinedMeasureWarning, match="learner 1 in class 2"):
        average = truth_learner_correlation(y_true, votes)
    np.testing.assert_allclose(average, np.nanmean(r_tl, axis=1))
    with pytest.warns(UndefinedMeasureWarning, match="learner 1 in class 2") as caught:
        r_ll = learner_learner_correlation(votes, per_class=True)
    assert caught[0].filename == __file__
    assert np.isnan(r_ll[2]).tolist() == [[False, True], [True, True]]
    with pytest.warns(UndefinedMeasureWarning, match="learner 1 in class 2"):
        averaged = learner_learner_correlation(votes)
    np.testing.assert_allclose(averaged, np.nanmean(r_ll, axis=0))


def test_probabilities_constant_up_to_rounding_are_constant():
    y_true, proba = random_probabilities(9, n_learners=2, n_samples=30, n_classes=2)
    proba[1] = 0.1 + 0.2, 0.7
    proba[1, ::2, 0] = 0.3
    with pytest.warns(UndefinedMeasureWarning, match="learner 1 in class 0, learner 1 in class 1"):
        assert np.isnan(truth_learner_correlation(y_true, proba)[1])


def test_a_label_voted_for_but_never_true_is_named():
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 'c', learner 1 in class"):
        r_tl = truth_learner_correlation(list("aabb"), [list("aabc"), list("abab")], per_class=True)
    assert np.isnan(r_tl).tolist() == [[False, False, True]] * 2


def test_one_class_only_has_no_correlation():
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 'a', learner 0"):
        assert np.isnan(truth_learner_correlation(["a", "a"], [["a", "a"]])).all()
    with pytest.warns(UndefinedMeasureWarning, match="learner 0 in class 5, learner 1 in class 5"):
        assert np.isnan(learner_learner_correlation([[5, 5], [5, 5]])).all()


def test_an_absent_class_named_in_labels_is_undefined():
    _, proba = random_probabilities(10, n_learners=2, n_samples=20, n_classes=3)
    y_true = ["x", "z"] * 10
    with pytest.warns(UndefinedMeasureWarning, match="for the truth in class 'y';"):
        r_tl = truth_learner_correlation(y_true, proba, labels=["x", "y", "z"], per_class=True)
    assert np.isnan(r_tl).tolist() == [[False, True, False]] * 2


def test_labels_give_the_order_of_the_columns():
    y_true, proba = random_probabilities(11, n_learners=2, n_samples=40, n_classes=3)
    np.testing.assert_allclose(
        truth_learner_correlation(y_true, proba[:, :, [2, 0, 1]], labels=[2, 0, 1]),
        truth_learner_correlation(y_true, proba),
    )


def test_one_learner_has_a_truth_correlation():
    assert truth_learner_correlation([0, 1, 0, 1], [[0, 1, 0, 0]]).shape == (1,)
