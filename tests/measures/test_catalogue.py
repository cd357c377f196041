import numpy as np
import pytest

from counterpoint import measures
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import MEASURES, diversity
from tests.measures.references import random_probabilities, random_votes


def test_every_entry_is_a_public_function_under_its_own_name():
    for name, measure in MEASURES.items():
        assert measure.function is getattr(measures, name)
        assert measure.reference
        assert measure.range[0] < measure.range[1]
    assert list(MEASURES) == sorted(MEASURES)


def test_the_catalogue_is_read_only():
    with pytest.raises(TypeError, match="does not support item assignment"):
        MEASURES["mine"] = MEASURES["label_kappa"]


@pytest.mark.parametrize("name", MEASURES)
def test_direction_is_where_independent_learners_lie_of_near_copies(name):
    rng = np.random.default_rng(0)
    y_true, votes = random_votes(1, 5, 3000, 3)
    copies = np.where(rng.random(votes.shape) < 0.9, votes[0], votes)
    apart, alike = diversity(y_true, votes, name), diversity(y_true, copies, name)
    assert (apart > alike) == (MEASURES[name].direction == "higher")


@pytest.mark.parametrize("name", MEASURES)
def test_probabilities_have_every_measure(name):
    y_true, proba = random_probabilities(2, 4, 300, 3)
    low, high = MEASURES[name].range
    assert low <= diversity(y_true, proba, name) <= high


def test_a_pairwise_measure_is_averaged_over_the_pairs_where_it_is_defined():
    y_true = [0, 0, 1, 1]
    votes = [[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1]]  # the first is always right
    assert diversity(y_true, votes, "correlation_rho") == pytest.approx(0.0)


def test_a_measure_that_no_pair_has_is_nan_with_a_warning():
    with pytest.warns(UndefinedMeasureWarning, match="`q_statistic` .* this ensemble") as caught:
        assert np.isnan(diversity([0, 1], [[0, 1], [0, 1]], "q_statistic"))
    assert caught[0].filename == __file__


def test_an_unknown_measure_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="`measure` must be one of 'ambiguity_decomposition', "):
        diversity([0, 1], [[0, 1], [0, 1]], "distance")


def test_the_front_door_holds_what_it_says():
    assert len(set(measures.__all__)) == len(measures.__all__)
    assert all(hasattr(measures, name) for name in measures.__all__)
