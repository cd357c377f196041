"""Agreement on the labels: Cohen's kappa, held against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from counterpoint import assess
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import diversity, label_kappa
from tests.measures.references import random_probabilities, random_votes


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_label_kappa_is_cohens_kappa_of_the_labels(n_classes):
    _, votes = random_votes(3, n_learners=4, n_samples=200, n_classes=n_classes)
    expected = [[cohen_kappa_score(a, b) for b in votes] for a in votes]
    np.testing.assert_allclose(label_kappa(votes), expected, atol=1e-12)


def test_probabilities_give_the_label_of_their_most_probable_class():
    y_true, proba = random_probabilities(5, n_learners=3, n_samples=100, n_classes=4)
    np.testing.assert_array_equal(label_kappa(proba), label_kappa(proba.argmax(axis=2)))
    assert assess(y_true, proba).measures["label_kappa"] == diversity(y_true, proba, "label_kappa")


def test_accurate_independent_learners_agree_on_labels_but_not_on_being_right():
    y_true, votes = random_votes(6, n_learners=5, n_samples=4000, n_classes=3, accuracy=0.95)
    found = assess(y_true, votes).measures
    assert found["label_kappa"] > 0.85
    assert abs(found["correctness_kappa"]) < 0.05
    assert abs(found["correctness_fleiss_kappa"]) < 0.05


def test_two_learners_with_one_label_have_no_kappa():
    with pytest.warns(UndefinedMeasureWarning, match="`label_kappa` .* learners 0 and 1;"):
        kappa = label_kappa([[1, 1, 1], [1, 1, 1], [0, 1, 1]])
    assert np.isnan(kappa[0, 1])
    assert kappa[0, 2] == 0
