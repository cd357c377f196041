"""Correlations pooled over classes."""

import numpy as np
import pytest
from hypothesis import assume, given

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.outputs import Outputs, sufficient_statistics
from counterpoint.theory import truth_correlation_bounds
from tests.measures.references import ensembles, random_probabilities, random_votes, soft_ensembles

pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")


def columns_of(y_true, outputs):
    """Return the truth and each learner as all its columns, each less its mean, side by side."""
    classes = np.arange(outputs.shape[2]) if outputs.ndim == 3 else np.union1d(y_true, outputs)
    hot = (y_true[:, None] == classes).astype(float)
    given = outputs if outputs.ndim == 3 else (outputs[..., None] == classes).astype(float)
    rows = np.concatenate([hot[None], given])
    return (rows - rows.mean(axis=1, keepdims=True)).reshape(len(rows), -1)


@pytest.mark.parametrize("make", [random_votes, random_probabilities])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_it_is_the_correlation_of_all_columns_at_once(make, n_classes):
    y_true, outputs = make(0, 4, 60, n_classes)
    rows = columns_of(y_true, outputs)
    length = np.sqrt((rows**2).sum(axis=1))
    expected = rows @ rows.T / np.outer(length, length)
    np.testing.assert_allclose(truth_learner_correlation(y_true, outputs, pooled=True), expected[0, 1:])
    np.testing.assert_allclose(learner_learner_correlation(outputs, pooled=True), expected[1:, 1:])


@given(ensemble=ensembles | soft_ensembles)
def test_theorem_2_holds_for_pooled_correlations(ensemble):
    y_true, outputs = ensemble
    assume(len(outputs) > 1)
    labels = np.arange(outputs.shape[2]) if outputs.ndim == 3 else np.union1d(y_true, outputs)
    r_tl = truth_learner_correlation(y_true, outputs, pooled=True, labels=labels)
    r_ll = learner_learner_correlation(outputs, pooled=True, labels=labels)
    assume(not np.isnan(r_tl).any())
    mean = r_ll[np.triu_indices(len(outputs), k=1)].mean()
    assert (
        abs(r_tl.mean())
        <= truth_correlation_bounds(max(mean, -1 / (len(outputs) - 1)), len(outputs)).high + 1e-6
    )


def test_of_two_classes_it_is_the_average():
    y_true, votes = random_votes(1, 5, 80, 2)
    pooled = truth_learner_correlation(y_true, votes, pooled=True)
    np.testing.assert_allclose(pooled, truth_learner_correlation(y_true, votes))


def test_a_constant_learner_has_none():
    with pytest.warns(UndefinedMeasureWarning, match="undefined for learner 1;"):
        found = truth_learner_correlation([0, 1, 2], [[0, 1, 2], [1, 1, 1]], pooled=True)
    assert found[0] == pytest.approx(1)
    assert np.isnan(found[1])


def test_pooled_is_refused_class_by_class():
    with pytest.raises(ValueError, match="`pooled` must be False where `per_class` is True; got True"):
        truth_learner_correlation([0, 1], [[0, 1]], pooled=True, per_class=True)


def test_nine_tenths_of_the_samples_are_enough_for_averages():
    y_true = np.repeat([0, 1, 2], [45, 45, 10])
    votes = np.where(y_true == 2, 0, y_true)
    columns = sufficient_statistics(Outputs([votes, y_true], y_true), columns=True).columns
    assert columns.covered
    y_true[0] = 2
    assert not sufficient_statistics(Outputs([votes, y_true], y_true), columns=True).columns.covered
