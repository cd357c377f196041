"""The demo: the votes are those of the ensembles, the numbers those of the votes."""

import numpy as np
import pytest
from scipy import stats

from counterpoint.datasets import load
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.experiments import demo


@pytest.fixture(scope="module")
def iris():
    return demo.train(load("iris"), seed=0)


def test_the_votes_are_of_held_out_rows_and_the_same_each_time(iris):
    y_true, votes = iris
    assert len(y_true) == 50
    assert set(votes) == {"bagging", "random forest"}
    again = demo.train(load("iris"), seed=0)[1]
    for name, given in votes.items():
        assert given.shape == (demo.N_LEARNERS, 50)
        assert set(np.unique(given)) <= set(load("iris").class_names)
        np.testing.assert_array_equal(given, again[name])


def test_a_standing_agrees_with_correlations_computed_by_hand(iris):
    y_true, votes = iris
    given = votes["random forest"]
    one = demo.place(y_true, given)
    r_tl, r_ll = [], []
    for label in np.unique(y_true):
        matrix = np.corrcoef(np.vstack([y_true == label, given == label]))
        r_tl.append(matrix[0, 1:].mean())
        r_ll.append(matrix[1:, 1:][np.triu_indices(len(given), 1)].mean())
    assert one.r_tl == pytest.approx(np.mean(r_tl))
    assert one.r_ll == pytest.approx(np.mean(r_ll))
    assert one.optimality == pytest.approx(one.r_tl / one.bound)
    assert one.p == pytest.approx((given == y_true).mean())
    assert abs(one.predicted - one.vote) < 0.05


def test_plurality_is_the_mode_of_scipy():
    codes = np.random.default_rng(0).integers(4, size=(6, 300))  # six votes on four labels: many ties
    expected = stats.mode(codes, axis=0).mode
    np.testing.assert_array_equal(
        demo.plurality(np.array(list("abcd"))[codes]), np.array(list("abcd"))[expected]
    )


def test_learners_without_an_error_have_no_predicted_vote():
    y_true = np.array(["a", "b"] * 10)
    with pytest.warns(UndefinedMeasureWarning):
        one = demo.place(y_true, np.stack([y_true] * 3))
    assert (one.vote, one.optimality) == (1.0, 1.0)
    assert np.isnan(one.predicted)
    assert "undefined" in list(demo.tabulate({"x": one}).columns[1].cells)


@pytest.mark.parametrize("name", ["breast-w", "labor"])
def test_nominal_and_missing_values_are_handled(name):
    y_true, votes = demo.train(load(name), seed=0)
    assert (votes["bagging"] == y_true).mean() > 0.6


def test_the_explanation_is_honest_about_more_than_two_classes(iris):
    y_true, votes = iris
    standings = {name: demo.place(y_true, given) for name, given in votes.items()}
    assert "3 classes" in demo.explain(standings, 3)
    assert "classes" not in demo.explain(standings, 2)
    demo.draw(standings, "iris")
