"""Scores on a scale without a truth, against NumPy and against simulations."""

import numpy as np
import pandas as pd
import pytest

from counterpoint.assessment import ScoreAssessment, assess_scores
from counterpoint.measures import intraclass_correlation, krippendorff_alpha


def ratings(n_learners=4, n_samples=300, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(5, 2, n_samples) + rng.normal(size=(n_learners, n_samples))
    scores[rng.random(scores.shape) < missing] = np.nan
    return scores


def codes(assessment):
    return {finding.code: finding for finding in assessment.findings}


def test_the_numbers_of_complete_scores_are_those_of_numpy():
    scores = ratings()
    a = assess_scores(scores)
    matrix = np.corrcoef(scores)
    np.testing.assert_allclose(a.correlations, matrix)
    mean = matrix[np.triu_indices(4, 1)].mean()
    assert a.correlation.value == pytest.approx(mean)
    assert a.effective.value == pytest.approx(4 / (1 + 3 * mean))
    others = (scores.sum(axis=0) - scores) / 3
    np.testing.assert_allclose(a.bias, (scores - others).mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(a.bias_error, (scores - others).std(axis=1, ddof=1) / np.sqrt(300))
    with_others = [np.corrcoef(pair)[0, 1] for pair in zip(scores, others, strict=True)]
    np.testing.assert_allclose(a.others_correlation, with_others)
    np.testing.assert_allclose(a.consensus, scores.mean(axis=0))
    assert a.alpha_interval.value == pytest.approx(krippendorff_alpha(scores, level="interval"))
    assert a.alpha_ordinal.value == pytest.approx(krippendorff_alpha(scores, level="ordinal"))
    assert (a.intraclass_single.value, a.intraclass_average.value) == pytest.approx(
        intraclass_correlation(scores)
    )


def test_scores_that_are_missing_are_left_out_pair_by_pair():
    scores = ratings(missing=0.2)
    a = assess_scores(scores)
    frame = pd.DataFrame(scores.T)
    np.testing.assert_allclose(a.correlations, frame.corr().to_numpy())
    known = ~np.isnan(scores)
    np.testing.assert_array_equal(a.shared, known.astype(int) @ known.T.astype(int))
    np.testing.assert_array_equal(a.given, known.sum(axis=1))
    np.testing.assert_allclose(a.consensus, frame.mean(axis=1))
    assert a.n_complete == known.all(axis=0).sum()
    assert assess_scores(np.ma.masked_invalid(scores)).to_json() == a.to_json()
    named = assess_scores(frame.set_axis(["ann", "bo", "cy", "di"], axis=1))
    assert named.learners == ("ann", "bo", "cy", "di")


def test_the_intervals_cover():
    true = 4 / 5  # variance 4 of the quality, 1 of the noise
    inside = np.zeros(3)
    for seed in range(40):
        a = assess_scores(ratings(n_samples=100, seed=seed))
        estimates = (a.correlation, a.intraclass_single, a.alpha_interval)
        inside += [one.low <= true <= one.high for one in estimates]
    assert (inside >= 34).all()  # 38 are expected
    repeated = np.repeat(ratings(n_samples=100), 4, axis=1)
    one, many = assess_scores(ratings(n_samples=100)), assess_scores(repeated)
    grouped = assess_scores(repeated, groups=np.repeat(np.arange(100), 4))
    for field in ("correlation", "alpha_interval", "intraclass_single"):
        widths = [getattr(x, field).high - getattr(x, field).low for x in (one, many, grouped)]
        assert widths[1] < 0.6 * widths[0]
        assert widths[2] == pytest.approx(widths[0], rel=0.12)
    np.testing.assert_allclose(grouped.bias_error, one.bias_error, rtol=0.02)


def test_who_differs_is_named():
    scores = ratings()
    scores[3] += 1.5
    rng = np.random.default_rng(1)
    scores[2] = rng.normal(5, 2, 300)
    found = codes(assess_scores(scores, learners=["ann", "bo", "cy", "di"]))
    assert found["stranger"].text.startswith("cy does not go with the others")
    assert found["biased_learner"].numbers["learners"][0] == 3
    assert "di 1.6 higher" in found["biased_learner"].text
    assert "looks like agreement" in found["no_truth"].text
    scores[1] = 4
    assert codes(assess_scores(scores))["constant_learner"].text == "L2 always gives the same score."
    for seed in range(5):
        quiet = codes(assess_scores(ratings(seed=seed, missing=0.2)))
        assert set(quiet) == {"no_truth"}


def test_it_prints_well_and_goes_to_json():
    a = assess_scores(ratings(n_learners=15, missing=0.1, n_samples=80), name="ratings")
    text = str(a)
    assert text.startswith(
        "ratings\n=======\n15 learners agree on the scores of 80 samples with Krippendorff's alpha "
    )
    assert "ICC(2,1): reliability of one learner" in text
    assert "... 3 more" in text
    again = ScoreAssessment.from_json(a.to_json())
    assert again.to_json() == a.to_json()
    assert repr(again) == f"<ScoreAssessment 'ratings': 15 learners, alpha {a.alpha_interval.value:.3f}>"
    assert "<table>" in a._repr_html_()


def test_what_cannot_be_said_is_undefined():
    a = assess_scores([[1.0, 1.0], [1.0, 1.0]])
    assert np.isnan(a.alpha_interval.value)
    assert np.isnan(a.effective.value)
    assert "is undefined" in a.verdict
    apart = assess_scores([[1, 2, None, None], [None, None, 3, 4]])
    assert np.isnan(apart.bias).all()
    assert "undefined" in str(apart)


@pytest.mark.parametrize(
    ("outputs", "options", "error", "words"),
    [
        ([[1, 2]], {}, ValueError, "`outputs` must hold at least 2 learners"),
        ([["a", "b"], ["a", "b"]], {}, TypeError, "`outputs` must hold numbers"),
        (
            [[1, 2], [2, 3]],
            {"learners": ["a", "a"]},
            ValueError,
            "`learners` must be distinct; got 'a' twice",
        ),
        ([[1, 2], [2, 3]], {"groups": [0, 0]}, ValueError, "`groups` must hold at least two groups; got one"),
        ([[1, 2], [2, 3]], {"name": 3}, TypeError, "`name` must be a string; got 3"),
    ],
)
def test_bad_scores_are_refused(outputs, options, error, words):
    with pytest.raises(error, match=words):
        assess_scores(outputs, **options)


def test_many_scores_take_seconds_without_a_warning():
    a = assess_scores(ratings(n_learners=20, n_samples=20_000, missing=0.1))
    assert a.correlation.value == pytest.approx(0.8, abs=0.01)
    assert a.intraclass_single.low < a.intraclass_single.value < a.intraclass_single.high
