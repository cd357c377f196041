"""What every function says of input it cannot use."""

import numpy as np
import pytest

from counterpoint import measures
from tests.measures.references import random_probabilities

WITH_TRUTH = [
    "ambiguity_decomposition",
    "bias_variance_diversity",
    "c_bound",
    "coincident_failure_diversity",
    "contingency",
    "correctness_fleiss_kappa",
    "correctness_kappa",
    "correlation_rho",
    "difficulty",
    "disagreement",
    "diversity",
    "double_fault",
    "entropy",
    "error_correlations",
    "generalized_diversity",
    "kohavi_wolpert_variance",
    "pairwise_measures",
    "q_statistic",
    "ratio_errors",
    "tandem_bound",
    "truth_learner_correlation",
]
# their borders are in test_probability.py
OF_PROBABILITIES = ["brier_score", "calibration_error", "combine", "log_loss", "reliability"]
WITHOUT_TRUTH = ["label_kappa", "learner_learner_correlation"]
FOR_ONE_LEARNER = {
    "ambiguity_decomposition",
    "bias_variance_diversity",
    "c_bound",
    "tandem_bound",
    "truth_learner_correlation",
}
# their borders are in test_agreement.py
OF_AGREEMENT = ["fleiss_kappa", "gwet_ac1", "intraclass_correlation", "krippendorff_alpha"]
NAN = float("nan")

BAD = [
    pytest.param(None, [[0, 1], [1, 1]], ValueError,
                 r"`y_true` must hold labels of one kind, .*; got None\.$", id="no truth"),
    pytest.param([0, 1, 1], [[0, 1], [1, 1]], ValueError,
                 r"`outputs` must have 3 samples, as `y_true`, on its second axis \(learners are "
                 r"the first axis\); got shape \(2, 2\)", id="lengths that disagree"),
    pytest.param([0, 1, 1], [[0, 1], [1, 1], [0, 0]], ValueError,
                 r"learners are the first axis; transpose it\); got shape \(3, 2\)",
                 id="samples first"),
    pytest.param([0, 1], [[0, 1], [0]], ValueError,
                 "`outputs` must hold as many samples for each learner; got a ragged", id="ragged"),
    pytest.param([0, 1], [0, 1], ValueError,
                 r"`outputs` must have axes \(n_learners, n_samples\) for labels or .*; "
                 r"got shape \(2,\)", id="one axis"),
    pytest.param([], [[], []], ValueError,
                 r"`outputs` must not be empty; got shape \(2, 0\)", id="no samples"),
    pytest.param([0], np.empty((0, 1), dtype=int), ValueError,
                 r"`outputs` must not be empty; got shape \(0, 1\)", id="no learners"),
    pytest.param([[0, 1]], [[0, 1], [0, 1]], ValueError,
                 r"`y_true` must have one axis, the samples; got shape \(1, 2\)", id="2-d truth"),
    pytest.param(["a", "b"], [[0, 1], [1, 1]], TypeError,
                 "`outputs` must hold labels of the kind of `y_true`, strings; got numbers",
                 id="two kinds"),
    pytest.param(["a", None], [["a", "b"], ["b", "b"]], ValueError,
                 r"`y_true` must hold labels of one kind, .*; got None at \[1\]", id="None in truth"),
    pytest.param(["a", "b"], [["a", "b"], ["b", None]], ValueError,
                 r"`outputs` must hold labels of one kind, .*; got None at \[1, 1\]",
                 id="None in votes"),
    pytest.param([0, 1], np.array([[0, 1], [0, "b"]], dtype=object), ValueError,
                 r"`outputs` must hold labels of one kind, .*; got 'b' at \[1, 1\]", id="mixed"),
    pytest.param([0, 1], [[0.2, 0.9], [0.1, 0.8]], ValueError,
                 r"`outputs` must hold whole numbers .* labels; got 0.2 at \[0, 0\]",
                 id="probabilities without a class axis"),
    pytest.param([0.0, NAN], [[0, 1], [1, 1]], ValueError,
                 r"`y_true` must hold whole numbers .*; got nan at \[1\]", id="NaN in truth"),
    pytest.param([0, 1], np.array([[1j, 0], [0, 1]]), TypeError,
                 "`outputs` must hold numbers or strings; got dtype complex128", id="complex"),
    pytest.param([0, 1], [[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, NAN]]], ValueError,
                 "`outputs` must not be NaN; got nan at learner 1, sample 1", id="NaN"),
    pytest.param([0, 1], [[[0.5, 0.5], [0.5, 0.4]], [[0.5, 0.5], [0.5, 0.5]]], ValueError,
                 "sum to one over the classes; got a sum of 0.9 at learner 0, sample 1", id="sum"),
    pytest.param([0, 1], [[[2.5, -1.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], ValueError,
                 "must hold probabilities, between 0 and 1; got 2.5 at learner 0, sample 0",
                 id="logits"),
    pytest.param([0, 1], [[["a", "b"], ["c", "d"]]], TypeError,
                 "`outputs` must hold numbers; got dtype <U1", id="strings with three axes"),
    pytest.param([0, 1], np.empty((2, 2, 0)), ValueError,
                 r"`outputs` must not be empty; got shape \(2, 2, 0\)", id="no classes"),
    pytest.param([0, 0], [[[0.5, 0.5], [0.5, 0.5]]] * 2, ValueError,
                 "`labels` must name the 2 columns of `outputs`; got 1 from `y_true`",
                 id="columns without a name"),
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_TRUTH)
@pytest.mark.parametrize(("y_true", "outputs", "error", "message"), BAD)
def test_every_measure_refuses_it_in_the_same_words(name, y_true, outputs, error, message):
    with pytest.raises(error, match=message):
        getattr(measures, name)(y_true, outputs)


def test_the_list_above_and_the_front_door_hold_the_same_functions():
    functions = {
        public for public in measures.__all__ if callable(getattr(measures, public)) and public[0].islower()
    }
    assert functions == {*WITH_TRUTH, *OF_PROBABILITIES, *WITHOUT_TRUTH, *OF_AGREEMENT}


@pytest.mark.parametrize("name", sorted({*WITH_TRUTH} - FOR_ONE_LEARNER))
def test_measures_of_pairs_need_two_learners(name):
    with pytest.raises(ValueError, match=r"`outputs` must hold at least 2 learners, .*; got 1"):
        getattr(measures, name)([0, 1], [[0, 1]])


@pytest.mark.parametrize("name", sorted(FOR_ONE_LEARNER))
def test_the_others_take_one(name):
    assert np.isfinite(getattr(measures, name)([0, 1, 0, 1], [[0, 1, 0, 0]])).all()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([[0, 1]], "`outputs` must hold at least 2 learners"),
        ([[0, 1], [0]], "got a ragged sequence"),
        ([[], []], "`outputs` must not be empty"),
        ([[[0.5, 0.4]], [[0.5, 0.5]]], "got a sum of 0.9 at learner 0, sample 0"),
        ([0, 1], r"got shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", WITHOUT_TRUTH)
def test_measures_without_a_truth_check_their_outputs(name, outputs, message):
    with pytest.raises(ValueError, match=message):
        getattr(measures, name)(outputs)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 1], ValueError, r"`labels` must be one row of distinct labels; got \[0, 1, 1\]"),
        ([[0, 1, 2]], ValueError, "`labels` must be one row of distinct labels"),
        ([0, 1], ValueError, "`labels` must name the 3 columns of `outputs`; got 2 from `labels`"),
        ([0, 1, 3], ValueError, "`labels` must hold every label of `y_true`; got 2 at sample 2"),
        (["a", "b", "c"], TypeError, "`labels` must be of the kind of `y_true`, numbers; got str"),
    ],
)
def test_labels_must_name_the_columns(labels, error, message):
    y_true, proba = random_probabilities(0, 2, 10, 3)
    with pytest.raises(error, match=message):
        measures.disagreement(y_true, proba, labels=labels)


def test_labels_must_hold_the_votes():
    with pytest.raises(ValueError, match="every label of `outputs`; got 2 at learner 1, sample 0"):
        measures.disagreement([0, 1], [[0, 1], [2, 1]], labels=[0, 1])
    with pytest.raises(ValueError, match="every label of `y_true`; got 3 at sample 1"):
        measures.disagreement([0, 3], [[0, 1], [0, 1]], labels=[0, 1])


def test_rows_may_miss_the_sum_of_one_by_the_rounding_of_16_bits():
    y_true, proba = random_probabilities(1, 3, 2000, 10)
    half = measures.disagreement(y_true, proba.astype(np.float16))
    assert np.abs(half - measures.disagreement(y_true, proba)).max() < 0.01


def test_classes_are_kept_apart_or_not():
    y_true, votes = [0, 1, 1], [[0, 1, 1], [0, 1, 0]]
    with pytest.raises(TypeError, match="`per_class` must be True or False; got 'no'"):
        measures.truth_learner_correlation(y_true, votes, per_class="no")
    with pytest.raises(TypeError, match="`per_class` must be True or False; got 'no'"):
        measures.learner_learner_correlation(votes, per_class="no")
