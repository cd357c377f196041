"""The probabilities of a vote, and how good they are: against scikit-learn, plain loops and numbers by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from counterpoint.measures import (
    ambiguity_decomposition,
    bias_variance_diversity,
    brier_score,
    calibration_error,
    combine,
    log_loss,
    reliability,
)
from counterpoint.outputs import Outputs, vote_scores
from counterpoint.theory import geometric_pool
from tests.measures.references import random_probabilities, soft_ensembles

SCORES = (log_loss, brier_score, calibration_error, reliability)
NAN = float("nan")


def binned(y_true, proba, n_bins):
    """Return confidence, accuracy and count of each bin by a loop over the samples; a tie is shared."""
    learners = [[] for _ in range(n_bins)]
    for truth, row in zip(y_true, proba, strict=True):
        top = row.max()
        leaders = np.flatnonzero(row >= top - 1e-9)
        home = next(
            b for b in range(n_bins) if top <= np.linspace(0, 1, n_bins + 1)[b + 1] or b == n_bins - 1
        )
        learners[home].append((top, (truth in leaders) / len(leaders)))
    confidence, accuracy = (
        [np.mean([pair[k] for pair in found]) if found else NAN for found in learners] for k in (0, 1)
    )
    return confidence, accuracy, [len(found) for found in learners]


@given(soft_ensembles)
def test_the_log_loss_is_that_of_scikit_learn(ensemble):
    y_true, (proba, *_) = ensemble
    labels = np.arange(proba.shape[1])
    expected = sklearn_log_loss(y_true, proba, labels=labels)
    assert log_loss(y_true, proba, labels=labels) == pytest.approx(expected)


def test_the_brier_score_of_two_classes_is_twice_that_of_scikit_learn():
    y_true, (proba,) = random_probabilities(0, 1, 60, 2)
    assert brier_score(y_true, proba) == pytest.approx(2 * brier_score_loss(y_true, proba[:, 1]))


@given(soft_ensembles)
def test_the_brier_score_is_the_squared_error_of_the_decomposition(ensemble):
    y_true, outputs = ensemble
    labels = np.arange(outputs.shape[2])
    expected = ambiguity_decomposition(y_true, outputs, labels=labels).ensemble_error
    assert brier_score(y_true, combine(outputs), labels=labels) == pytest.approx(expected, abs=1e-9)


@given(soft_ensembles, st.integers(1, 20))
def test_the_bins_are_those_of_a_loop_over_the_samples(ensemble, n_bins):
    y_true, (proba, *_) = ensemble
    labels = np.arange(proba.shape[1])
    edges, *found = reliability(y_true, proba, n_bins=n_bins, labels=labels)
    confidence, accuracy, count = binned(y_true, proba, n_bins)
    np.testing.assert_array_equal(edges, np.linspace(0, 1, n_bins + 1))
    for one, other in zip(found, (confidence, accuracy, count), strict=True):
        np.testing.assert_allclose(one, other)
    gaps = [n * abs(a - c) for c, a, n in zip(confidence, accuracy, count, strict=True) if n]
    expected = sum(gaps) / len(y_true)
    assert calibration_error(y_true, proba, n_bins=n_bins, labels=labels) == pytest.approx(
        expected, abs=1e-12
    )


def test_probabilities_that_say_how_often_they_are_right_are_calibrated():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 200_000)
    y_true = (rng.random((200_000, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    assert calibration_error(y_true, proba) < 0.01
    sharper = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    assert calibration_error(y_true, sharper) > 0.15


def test_sure_and_right_is_perfect_and_sure_and_wrong_is_the_worst():
    sure = [[1.0, 0.0], [0.0, 1.0]]
    assert [score([0, 1], sure) for score in SCORES[:3]] == [0, 0, 0]
    assert brier_score([1, 0], sure) == 2
    assert calibration_error([1, 0], sure) == 1
    assert log_loss([1, 0], sure) == pytest.approx(-np.log(np.finfo(np.float64).eps))  # as scikit-learn
    assert reliability([0, 1], sure).count.tolist() == [0] * 14 + [2]


def test_one_class_alone_is_certain():
    certain = np.ones((3, 1))
    assert [score(["a"] * 3, certain) for score in SCORES[:3]] == [0, 0, 0]


def test_an_empty_bin_is_undefined_and_counts_for_nothing():
    bins = reliability([0, 1], [[0.9, 0.1], [0.1, 0.9]], n_bins=2)
    assert np.isnan([bins.confidence[0], bins.accuracy[0]]).all()
    assert bins.count.tolist() == [0, 2]
    assert calibration_error([0, 1], [[0.9, 0.1], [0.1, 0.9]], n_bins=2) == pytest.approx(0.1)


def test_a_bin_holds_its_upper_edge():
    bins = reliability([0, 0], [[0.5, 0.25, 0.25], [0.75, 0.25, 0.0]], n_bins=4, labels=[0, 1, 2])
    assert bins.count.tolist() == [0, 1, 1, 0]


def test_classes_with_the_highest_probability_share_the_sample():
    bins = reliability([0, 1, 1], [[0.5, 0.5]] * 3)
    assert bins.accuracy[bins.count > 0] == [0.5]
    assert calibration_error([0, 1, 1], [[0.5, 0.5]] * 3) == 0


def test_rows_of_16_bits_stay_in_the_last_bin():
    y_true, (proba,) = random_probabilities(1, 1, 500, 10)
    sharp = (proba**8 / (proba**8).sum(axis=1, keepdims=True)).astype(np.float16)
    assert reliability(y_true, sharp).count.sum() == 500
    assert reliability([0, 1], [[1.0005, 0], [0, 1]]).count[-1] == 2
    assert log_loss(y_true, sharp) == pytest.approx(log_loss(y_true, sharp.astype(float)))


def test_strings_and_the_order_of_columns_are_told_by_labels():
    y_true, (proba,) = random_probabilities(2, 1, 50, 3)
    names = np.array(["ant", "bee", "cat"])
    for score in SCORES[:3]:
        expected = score(y_true, proba)
        assert score(names[y_true], proba) == expected
        assert score(names[y_true], proba[:, ::-1], labels=names[::-1]) == pytest.approx(expected)


def test_tensors_in_training_are_read():
    torch = pytest.importorskip("torch")
    y_true, outputs = random_probabilities(3, 2, 20, 3)
    tensor = torch.tensor(outputs, requires_grad=True)
    np.testing.assert_array_equal(combine(tensor), combine(outputs))
    assert log_loss(y_true, tensor[0]) == log_loss(y_true, outputs[0])


# The pool


@given(soft_ensembles, st.integers(0, 10**6))
def test_each_pool_is_its_definition(ensemble, seed):
    _, outputs = ensemble
    weights = np.random.default_rng(seed).random(len(outputs)) + 0.01
    share = (weights / weights.sum())[:, None, None]
    votes = np.eye(outputs.shape[2])[outputs.argmax(axis=2)]
    product = np.prod(outputs**share, axis=0)
    expected = {
        "hard": (share * votes).sum(axis=0),
        "soft": (share * outputs).sum(axis=0),
        "geometric": product / product.sum(axis=1, keepdims=True),
    }
    for voting, proba in expected.items():
        np.testing.assert_allclose(combine(outputs, voting=voting, weights=weights), proba, atol=1e-12)


def test_the_geometric_pool_is_the_softmax_of_averaged_logits():
    logits = np.random.default_rng(0).normal(size=(4, 30, 5))
    exponentials = np.exp(logits)
    mean = np.exp(logits.mean(axis=0))
    np.testing.assert_allclose(
        combine(exponentials / exponentials.sum(axis=2, keepdims=True), voting="geometric"),
        mean / mean.sum(axis=1, keepdims=True),
    )


def test_the_geometric_pool_is_that_of_the_theory():
    _, outputs = random_probabilities(7, 5, 40, 3)
    weights = [3, 1, 0, 2, 2]
    found = combine(outputs, voting="geometric", weights=weights)
    np.testing.assert_allclose(found, geometric_pool(outputs, weights=weights))


def test_the_log_loss_of_the_geometric_pool_is_that_of_the_learners_minus_their_diversity():
    # Wood et al. (2023), for any ensemble
    y_true, outputs = random_probabilities(4, 6, 80, 4)
    parts = bias_variance_diversity(y_true, outputs, loss="cross_entropy")
    pooled = log_loss(y_true, combine(outputs, voting="geometric"))
    assert pooled == pytest.approx(parts.loss)
    assert pooled == pytest.approx(np.mean([log_loss(y_true, one) for one in outputs]) - parts.diversity)


def test_zeros_have_a_geometric_pool():
    pooled = combine([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]], voting="geometric")
    np.testing.assert_allclose(pooled, [[0.5, 0.5, 0.0]], atol=1e-12)
    alone = combine([[[1.0, 0.0]], [[0.0, 1.0]]], voting="geometric", weights=[1, 0])
    np.testing.assert_allclose(alone, [[1.0, 0.0]], atol=1e-12)


def test_one_learner_is_its_own_pool():
    _, outputs = random_probabilities(5, 1, 10, 3)
    for voting in ("soft", "geometric"):
        np.testing.assert_allclose(combine(outputs, voting=voting), outputs[0])


def test_parts_of_a_block_do_not_change_its_scores(monkeypatch):
    _, outputs = random_probabilities(6, 3, 50, 4)
    read, weights, block = Outputs(outputs), np.array([[1.0, 1.0, 1.0], [0.2, 0.5, 0.3]]), slice(10, 45)
    monkeypatch.setattr("counterpoint.outputs.pool._PART_ENTRIES", 3 * 4 * 8)
    found = vote_scores(read, weights, block, ("hard", "soft", "geometric"))
    each = {"hard": np.eye(4)[outputs.argmax(axis=2)], "soft": outputs, "geometric": np.log(outputs)}
    for voting, given_to in each.items():
        expected = np.einsum("ri,isk->rks", weights, given_to[:, block])
        np.testing.assert_allclose(found[voting], expected, atol=1e-12)


# Borders


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("y_true", "proba", "options", "error", "message"),
    [
        ([0, 1], [0.2, 0.8], {}, ValueError,
         r"^`proba` must have axes \(n_samples, n_classes\); got shape \(2,\)\.$"),
        ([0, 1], [[[0.2, 0.8], [0.5, 0.5]]], {}, ValueError,
         r"^`proba` must have axes \(n_samples, n_classes\); got shape \(1, 2, 2\)\.$"),
        ([0, 1], [[0.2, 0.8], [1.0]], {}, ValueError,
         r"^`proba` must hold as many classes for each sample; got a ragged sequence\.$"),
        ([0, 1, 1], [[0.2, 0.8], [0.5, 0.5]], {}, ValueError,
         r"^`proba` must have 3 samples, as `y_true`, on its first axis; got shape \(2, 2\)\.$"),
        ([0, 1], [[0.2, 0.8], [0.5, NAN]], {}, ValueError, "^`proba` must not be NaN; got nan at .*sample 1"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.4]], {}, ValueError,
         "^`proba` must hold probabilities that sum to one .* got a sum of 0.9 at .*sample 1"),
        ([0, 1], [[-1.0, 2.0], [0.5, 0.5]], {}, ValueError, "must hold probabilities, between 0 and 1; got -1"),
        ([0, 1], [["a", "b"], ["c", "d"]], {}, TypeError, "^`proba` must hold numbers; got dtype <U1"),
        ([], np.empty((0, 2)), {}, ValueError, r"^`proba` must not be empty; got shape \(0, 2\)\.$"),
        (np.ma.masked_array([0, 1], mask=[0, 1]), [[0.2, 0.8], [0.5, 0.5]], {}, ValueError,
         r"^`y_true` must have no masked entry; got one at \[1\]"),
        ([[0, 1]], [[0.2, 0.8], [0.5, 0.5]], {}, ValueError,
         r"^`y_true` must have one axis, the samples; got shape \(1, 2\)"),
        ([0, 0], [[0.2, 0.8], [0.5, 0.5]], {}, ValueError,
         "^`labels` must name the 2 columns of `proba`; got 1 from `y_true`"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"labels": [0, 1, 2]}, ValueError,
         "^`labels` must name the 2 columns of `proba`; got 3 from `labels`"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"labels": [0, 2]}, ValueError,
         "^`labels` must hold every label of `y_true`; got 1 at sample 1"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"labels": ["a", "b"]}, TypeError,
         "^`labels` must be of the kind of `y_true`, numbers; got strings"),
        ([0, 1], [[0.2, 0.8], [0.5, 0.5]], {"labels": [1, 1]}, ValueError,
         "^`labels` must be one row of distinct labels"),
    ],
)  # fmt: skip
def test_bad_probabilities_are_refused_by_name(score, y_true, proba, options, error, message):
    with pytest.raises(error, match=message):
        score(y_true, proba, **options)


@pytest.mark.parametrize("score", [calibration_error, reliability])
@pytest.mark.parametrize(
    ("n_bins", "error", "message"),
    [
        (0, ValueError, r"^`n_bins` must be at least 1; got 0\.$"),
        (2.5, TypeError, r"^`n_bins` must be an integer; got 2\.5\.$"),
        (True, TypeError, r"^`n_bins` must be an integer; got True\.$"),
    ],
)
def test_bins_are_counted_from_one(score, n_bins, error, message):
    with pytest.raises(error, match=message):
        score([0, 1], [[0.2, 0.8], [0.5, 0.5]], n_bins=n_bins)


@pytest.mark.parametrize(
    ("outputs", "options", "error", "message"),
    [
        ([[0, 1], [1, 1]], {}, ValueError,
         r"^`outputs` must have axes \(n_learners, n_samples, n_classes\); got shape \(2, 2\)\.$"),
        ([[[0.5, 0.5]], [[0.5, NAN]]], {}, ValueError, "^`outputs` must not be NaN; got nan at learner 1, sample 0"),
        ([[[0.5, 0.5]], [[0.5, 0.4]]], {}, ValueError, "got a sum of 0.9 at learner 1, sample 0"),
        ([[[0.5, 0.5]], [[0.5]]], {}, ValueError, "as many samples for each learner; got a ragged"),
        ([[[0.5, 0.5]]], {"voting": "loud"}, ValueError,
         r"^`voting` must be one of 'hard', 'soft', 'geometric'; got 'loud'\.$"),
        ([[[0.5, 0.5]]], {"weights": [1, 2]}, ValueError,
         r"^`weights` must have shape \(1,\), one per learner; got shape \(2,\)\.$"),
        ([[[0.5, 0.5]]], {"weights": [-1]}, ValueError, "^`weights` must be at least 0; got -1"),
        ([[[0.5, 0.5]]], {"weights": [0]}, ValueError, "^`weights` must have a positive, finite sum; got 0"),
    ],
)  # fmt: skip
def test_a_bad_pool_is_refused_by_name(outputs, options, error, message):
    with pytest.raises(error, match=message):
        combine(outputs, **options)
