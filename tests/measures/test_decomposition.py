import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.measures import ambiguity_decomposition, bias_variance_diversity, diversity
from tests.measures.references import (
    ensembles,
    random_probabilities,
    random_votes,
    soft_ensembles,
)


def brute_ambiguity(y_true, proba, weights):
    """Return the three terms by loops over samples and learners."""
    n_learners, n_samples, n_classes = proba.shape
    ensemble = average = ambiguity = 0.0
    for s in range(n_samples):
        truth = np.eye(n_classes)[y_true[s]]
        mean = sum(weights[i] * proba[i, s] for i in range(n_learners))
        ensemble += ((mean - truth) ** 2).sum()
        for i in range(n_learners):
            average += weights[i] * ((proba[i, s] - truth) ** 2).sum()
            ambiguity += weights[i] * ((proba[i, s] - mean) ** 2).sum()
    return np.array([ensemble, average, ambiguity]) / n_samples


@given(ensemble=soft_ensembles, seed=st.integers(0, 1000))
def test_ambiguity_of_probabilities_is_the_loop(ensemble, seed):
    y_true, proba = ensemble
    weights = np.random.default_rng(seed).random(len(proba))
    parts = ambiguity_decomposition(y_true, proba, weights=weights)
    expected = brute_ambiguity(y_true, proba, weights / weights.sum())
    np.testing.assert_allclose(parts, expected, atol=1e-12)
    assert parts.ensemble_error == pytest.approx(parts.average_error - parts.ambiguity, abs=1e-12)


@given(ensemble=ensembles)
def test_ambiguity_of_votes_is_that_of_their_one_hot_code(ensemble):
    y_true, votes = ensemble
    hot = np.eye(5)[votes]
    expected = brute_ambiguity(y_true, hot, np.full(len(votes), 1 / len(votes)))
    np.testing.assert_allclose(ambiguity_decomposition(y_true, votes), expected, atol=1e-12)
    # Each wrong vote errs in two columns.
    average = ambiguity_decomposition(y_true, votes).average_error
    assert average == pytest.approx(2 * (votes != y_true).mean(), abs=1e-12)
    assert diversity(y_true, votes, "ambiguity_decomposition") == pytest.approx(expected[2], abs=1e-12)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@given(seed=st.integers(0, 2**32 - 1), n_trials=st.integers(1, 4))
def test_loss_is_bias_plus_variance_less_diversity(loss, seed, n_trials):
    y_true, proba = random_probabilities(seed, n_trials * 3, n_samples=12, n_classes=3)
    trials = proba.reshape(n_trials, 3, 12, 3)
    parts = bias_variance_diversity(y_true, trials, loss=loss)
    assert parts.loss == pytest.approx(parts.bias + parts.variance - parts.diversity, abs=1e-12)
    assert min(parts) >= -1e-15


def test_squared_terms_are_means_and_variances_over_trials():
    y_true, proba = random_probabilities(1, 20, n_samples=30, n_classes=3)
    trials = proba.reshape(5, 4, 30, 3)
    truth = np.eye(3)[y_true]
    parts = bias_variance_diversity(y_true, trials)
    ensembles_ = trials.mean(axis=1)
    assert parts.loss == pytest.approx(((ensembles_ - truth) ** 2).sum(axis=-1).mean())
    assert parts.bias == pytest.approx(((trials.mean(axis=0) - truth) ** 2).sum(axis=-1).mean())
    assert parts.variance == pytest.approx(trials.var(axis=0).sum(axis=-1).mean())
    assert parts.diversity == pytest.approx(trials.var(axis=1).sum(axis=-1).mean())


def test_cross_entropy_terms_are_divergences_from_geometric_means():
    y_true, proba = random_probabilities(2, 6, n_samples=8, n_classes=3)
    trials = proba.reshape(2, 3, 8, 3)
    parts = bias_variance_diversity(y_true, trials, loss="cross_entropy")

    def geometric(rows):
        mean = np.prod(rows, axis=0) ** (1 / len(rows))
        return mean / mean.sum()

    loss, bias, variance, spread = [], [], [], []
    for s, label in enumerate(y_true):
        for t in range(2):
            ensemble = geometric(trials[t, :, s])
            loss.append(-np.log(ensemble[label]))
            spread += [(ensemble * np.log(ensemble / trials[t, i, s])).sum() for i in range(3)]
        for i in range(3):
            centre = geometric(trials[:, i, s])
            bias.append(-np.log(centre[label]))
            variance += [(centre * np.log(centre / trials[t, i, s])).sum() for t in range(2)]
    np.testing.assert_allclose(parts, [np.mean(x) for x in (loss, bias, variance, spread)])


def test_one_trial_has_no_variance_and_its_bias_is_the_average_loss():
    y_true, proba = random_probabilities(3, 4, n_samples=20, n_classes=3)
    squared = bias_variance_diversity(y_true, proba)
    assert squared.variance == 0
    expected = ambiguity_decomposition(y_true, proba)
    np.testing.assert_allclose([squared.loss, squared.bias, squared.diversity], expected)
    entropy = bias_variance_diversity(y_true, proba, loss="cross_entropy")
    assert entropy.variance == pytest.approx(0, abs=1e-15)
    own = proba[:, np.arange(20), y_true]
    assert entropy.bias == pytest.approx(-np.log(own).mean())


def test_squared_loss_takes_labels():
    y_true, votes = random_votes(4, 5, 50, 3)
    parts = bias_variance_diversity(y_true, votes)
    np.testing.assert_allclose(
        [parts.loss, parts.bias, parts.diversity], ambiguity_decomposition(y_true, votes)
    )


def test_blocks_do_not_change_the_sums(monkeypatch):
    y_true, proba = random_probabilities(5, 4, n_samples=50, n_classes=3)
    whole = bias_variance_diversity(y_true, proba, loss="cross_entropy")
    monkeypatch.setattr("counterpoint.measures.decomposition.BLOCK_ENTRIES", 4 * 4 * 3 * 7)
    in_sevens = bias_variance_diversity(y_true, proba, loss="cross_entropy")
    np.testing.assert_allclose(in_sevens, whole, atol=1e-14)


def test_cross_entropy_refuses_labels_and_zeros():
    with pytest.raises(ValueError, match=r"`outputs` must be probabilities for cross-entropy; got"):
        bias_variance_diversity([0, 1], [[0, 1]], loss="cross_entropy")
    proba = [[[0.5, 0.5], [1.0, 0.0]]]
    with pytest.raises(ValueError, match=r"must be positive for cross-entropy; got 0 at \[0, 1, 1\]"):
        bias_variance_diversity([0, 1], proba, loss="cross_entropy")
    with pytest.raises(ValueError, match=r"cross-entropy; got 0 at \[0, 0, 1, 1\]"):
        bias_variance_diversity([0, 1], [proba], loss="cross_entropy")
    with pytest.raises(ValueError, match="`loss` must be one of 'squared', 'cross_entropy'; got"):
        bias_variance_diversity([0, 1], proba, loss="hinge")


def test_trials_are_checked_like_outputs():
    with pytest.raises(ValueError, match=r"must not be NaN; got nan at learner \[1, 0\], sample 0"):
        bias_variance_diversity([0], [[[[0.5, 0.5]]], [[[np.nan, 0.5]]]], labels=[0, 1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"`weights` must have shape \(2,\), one per learner; got shape \(1,\)"),
        ([1.0, -1.0], r"`weights` must be at least 0; got -1 at \[1\]"),
        ([0.0, 0.0], "`weights` must have a positive, finite sum; got 0"),
        ([np.nan, 1.0], r"`weights` must not be NaN"),
    ],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(ValueError, match=message):
        ambiguity_decomposition([0, 1], [[0, 1], [0, 1]], weights=weights)
