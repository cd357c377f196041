"""The assessment of regression ensembles, against identities, simulations and scikit-learn."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import mean_squared_error, r2_score

from counterpoint.assessment import RegressionAssessment, assess_regression
from counterpoint.exceptions import UndefinedMeasureWarning


def simulated(n_learners=6, n_samples=1000, shared=0.5, own=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n_samples)
    common = shared * rng.normal(size=n_samples)
    return truth, truth + common + own * rng.normal(size=(n_learners, n_samples))


def codes(assessment):
    return {finding.code: finding for finding in assessment.findings}


@given(st.integers(2, 6), st.integers(2, 30), st.integers(0, 2**31))
def test_the_decompositions_hold_for_any_ensemble(n_learners, n_samples, seed):
    rng = np.random.default_rng(seed)
    truth, outputs = rng.normal(size=n_samples), rng.normal(1, 2, size=(n_learners, n_samples))
    a = assess_regression(truth, outputs)
    parts, n = a.components, n_learners
    assert a.errors.ensemble_error == pytest.approx(a.errors.average_error - a.errors.ambiguity)
    assert a.errors.ensemble_error == pytest.approx(
        parts.bias**2 + parts.variance / n + (1 - 1 / n) * parts.covariance
    )
    assert a.predicted_error(n) == pytest.approx(a.squared_error.value)


def test_the_errors_are_those_of_scikit_learn():
    truth, outputs = simulated()
    a = assess_regression(truth, outputs)
    assert a.squared_error.value == pytest.approx(mean_squared_error(truth, outputs.mean(axis=0)))
    assert a.r2.value == pytest.approx(r2_score(truth, outputs.mean(axis=0)))
    np.testing.assert_allclose(a.learner_errors, [mean_squared_error(truth, f) for f in outputs])
    errors = np.corrcoef(outputs - truth)
    np.testing.assert_allclose(a.error_correlations, errors)
    assert a.error_correlation == pytest.approx(errors[np.triu_indices(6, 1)].mean())
    np.testing.assert_allclose(a.truth_correlations, [np.corrcoef(f, truth)[0, 1] for f in outputs])


def test_the_prediction_for_other_sizes_is_that_of_many_more_learners():
    X, y = make_friedman1(700, noise=1.0, random_state=0)
    forest = RandomForestRegressor(400, max_features=0.5, random_state=0, n_jobs=1).fit(X[:200], y[:200])
    trees = np.stack([tree.predict(X[200:]) for tree in forest.estimators_])
    a = assess_regression(y[200:], trees[:20])
    more = {n: mean_squared_error(y[200:], trees[:n].mean(axis=0)) for n in (40, 400)}
    gain = a.squared_error.value - more[400]
    assert gain > 0
    for n, error in more.items():
        assert abs(float(a.predicted_error(n)) - error) < 0.35 * gain
    assert abs(a.ceiling - more[400]) < 0.1 * gain


@pytest.mark.parametrize("n_samples", [300, 20_000])
def test_the_interval_has_the_width_of_the_standard_error(n_samples):
    truth, outputs = simulated(n_samples=n_samples)
    a = assess_regression(truth, outputs)
    error = ((outputs.mean(axis=0) - truth) ** 2).std() / np.sqrt(n_samples)
    assert a.squared_error.low < a.squared_error.value < a.squared_error.high
    assert a.noise == pytest.approx(1.96 * error, rel=0.1)
    assert a.r2.low < a.r2.value < a.r2.high


def test_enough_learners_are_those_whose_rest_is_within_the_noise():
    a = assess_regression(*simulated())
    rest = a.predicted_error([int(a.enough) - 1, int(a.enough)]) - a.ceiling
    assert rest[1] <= a.noise < rest[0]


def test_json_restores_the_assessment_and_refuses_others():
    a = assess_regression(*simulated())
    again = RegressionAssessment.from_json(a.to_json())
    assert str(again) == str(a)
    np.testing.assert_array_equal(again.without, a.without)
    assert again.components == a.components
    assert repr(again).startswith("<RegressionAssessment 'ensemble': 6 learners, squared error 0.")
    assert json.loads(a.to_json())["task"] == "regression"
    with pytest.raises(ValueError, match="must be a RegressionAssessment with schema 1; got schema 2"):
        RegressionAssessment.from_dict({**a.to_dict(), "schema": 2})


def test_healthy_learners_pay_and_get_no_warning():
    a = assess_regression(*simulated())
    assert not [finding for finding in a.findings if finding.severity == "warning"]
    best, mean = a.learner_errors.min(), a.squared_error.value
    assert codes(a)["averaging_pays"].numbers["gain"] == pytest.approx(best - mean)
    assert f"{100 * (best - mean) / best:.1f} % below" in codes(a)["averaging_pays"].text
    twice = codes(a)["more_learners"].numbers["gain"]
    assert twice == pytest.approx(0.25 / 12, rel=0.2)  # (A - C) / 12


def test_a_poor_learner_hurts_and_a_best_one_beats_the_mean():
    truth, outputs = simulated(own=0.1, shared=0.1)
    outputs[0] += 3 * np.random.default_rng(1).normal(size=truth.size)
    a = assess_regression(truth, outputs)
    assert codes(a)["learner_hurts"].numbers["learners"] == [0]
    assert codes(a)["best_learner_beats_mean"].numbers["learner"] == int(a.learner_errors.argmin())


def test_learners_against_the_truth_constant_ones_and_copies_are_named():
    truth, outputs = simulated(own=0.5, shared=0.1)
    outputs[0], outputs[1], outputs[3] = -truth, 1.0, outputs[2]
    with pytest.warns(UndefinedMeasureWarning, match="correlation of L2"):
        found = codes(assess_regression(truth, outputs))
    assert found["against_truth"].numbers["learners"] == [0]
    assert found["constant_learner"].numbers["learners"] == [1]
    assert found["near_duplicates"].numbers["groups"] == [[2, 3]]


def test_learners_that_cancel_each_others_errors_collude():
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=1000), 3 * rng.normal(size=(4, 1000))
    a = assess_regression(truth, truth + noise - noise.mean(axis=0) + 0.1 * rng.normal(size=1000))
    assert {"collusion", "opposed_errors"} <= codes(a).keys()
    assert "more_learners" not in codes(a)
    assert a.error_correlation == pytest.approx(-1 / 3, abs=0.02)
    assert a.ceiling == 0
    assert np.isnan(a.predicted_error(100))


def test_errors_that_coincide_gain_little():
    found = codes(assess_regression(*simulated(shared=1.0, own=0.1)))
    assert found["common_errors"].numbers["error_correlation"] > 0.98
    assert "within the noise" in found["more_learners"].text


def test_few_samples_training_samples_and_useless_ensembles_are_reported():
    truth, outputs = simulated(n_samples=40)
    assert {"small_sample", "training_samples"} <= codes(
        assess_regression(truth, outputs, samples="training")
    ).keys()
    assert "training samples" in assess_regression(truth, outputs, samples="training").verdict
    truth, outputs = simulated(shared=3.0)
    assert "worse_than_mean" in codes(assess_regression(truth, outputs))


def test_one_learner_has_no_pairs():
    truth, outputs = simulated(1)
    a = assess_regression(truth, outputs, learners=["alone"])
    assert np.isnan([a.error_correlation, a.ceiling, a.enough, a.components.covariance]).all()
    assert a.errors.ambiguity == 0
    assert "1 learner has" in a.verdict
    assert "undefined" in str(a)


def test_perfect_predictions_have_no_error():
    truth = np.arange(10.0)
    with pytest.warns(UndefinedMeasureWarning, match="errors of L1"):
        a = assess_regression(truth, np.stack([truth, truth]))
    assert (a.squared_error.value, a.r2.value, a.ceiling, a.enough) == (0, 1, 0, 1)


def test_errors_that_cancel_but_for_rounding_are_no_error():
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=50), 5 * rng.normal(size=50)
    a = assess_regression(truth, [truth + noise, truth - noise])
    assert 0 < a.squared_error.value < 1e-30
    assert a.r2.value == 1
    assert "opposed_errors" in codes(a)


def test_numbers_far_from_zero_are_judged_as_those_near_it():
    truth, outputs = simulated(n_samples=200)
    far, near = (
        assess_regression(truth + shift, outputs + shift) for shift in (1.7e9, 0.0)
    )  # seconds of a clock
    for name in ("squared_error", "r2", "error_correlations", "truth_correlations"):
        np.testing.assert_allclose(getattr(far, name), getattr(near, name), rtol=1e-4)
    assert codes(far).keys() == codes(near).keys()
    three = np.array([0.1, 0.7, 1.3])  # many resamples hold one number alone
    near = assess_regression(three, [three * 1.1, three[::-1] * 0.1 + three])
    assert near.r2.low > 0.5


def test_a_mapping_and_a_frame_name_the_learners():
    truth, outputs = simulated(2)
    named = {"a": outputs[0], "b": outputs[1]}
    for table in (named, pd.DataFrame(named), pd.DataFrame(named, dtype="Float64"), pl.DataFrame(named)):
        a = assess_regression(truth, table)
        assert a.learners == ("a", "b")
        np.testing.assert_array_equal(a.learner_errors, assess_regression(truth, outputs).learner_errors)
    assert assess_regression(truth, named, learners=["x", "y"]).learners == ("x", "y")


def test_a_constant_truth_has_no_r2():
    with pytest.warns(UndefinedMeasureWarning, match="R²"):
        a = assess_regression(np.ones(50), np.random.default_rng(0).normal(size=(3, 50)))
    assert np.isnan(a.r2).all()
    assert np.isfinite(a.squared_error).all()


@pytest.mark.parametrize(
    ("truth", "outputs", "more", "kind", "error"),
    [
        (np.ones((3, 1)), np.ones((2, 3)), {}, ValueError, r"`y_true` must have shape \(n_samples,\)"),
        (np.ones(3), np.ones((3, 2)), {}, ValueError, r"`outputs` must have shape \(n_learners, 3\)"),
        (np.ones(3), np.ones(3), {}, ValueError, r"`outputs` must have shape \(n_learners, 3\)"),
        (np.ones(3), np.full((2, 3), np.nan), {}, ValueError, "`outputs` must not be NaN"),
        (np.ones(3), np.full((2, 3), np.inf), {}, ValueError, "`outputs` must be finite"),
        (
            np.ones(3),
            np.full((2, 3), 1e200),
            {},
            ValueError,
            r"`outputs` must hold numbers whose squares .* 1e\+200",
        ),
        (["a"] * 3, np.ones((2, 3)), {}, TypeError, "`y_true` must be a number or an array of numbers"),
        (np.ones(3), np.ma.masked_all((2, 3)), {}, ValueError, "`outputs` must have no masked entry"),
        (np.ones(3), np.ones((2, 3)), {"learners": ["a"]}, ValueError, "one name for each of the 2 learners"),
        (np.ones(3), np.ones((2, 3)), {"samples": "all"}, ValueError, "`samples` must be one of"),
        (np.ones(3), np.ones((2, 3)), {"name": 3}, TypeError, "`name` must be a string; got 3"),
    ],
)
def test_bad_input_is_refused(truth, outputs, more, kind, error):
    with pytest.raises(kind, match=error):
        assess_regression(truth, outputs, **more)


def test_the_mean_of_equal_learners_is_as_good_as_each():
    truth, outputs = simulated(n_learners=1)
    equal = np.repeat(outputs, 3, axis=0)
    assert ", as good as its best learner" in assess_regression(truth, equal).verdict


def test_one_sample_is_not_called_samples():
    with pytest.warns(UndefinedMeasureWarning):
        assert "on 1 sample (" in assess_regression([1.0], [[2.0], [3.0]]).verdict


def test_poor_learners_that_err_independently_do_not_collude():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    a = assess_regression(y, y + rng.normal(size=(5, 200)))
    assert "collusion" not in codes(a)
