"""The rule by which a search takes a diversity."""

import numpy as np
import pytest

from counterpoint.estimators import choose_diversity, corrected_paired_test


def test_a_lead_within_its_standard_error_is_no_lead():
    noisy = np.array([[0.8, 0.8, 0.8], [0.99, 0.7, 0.8]])
    assert choose_diversity(noisy, test_share=0.5).chosen == 0
    assert choose_diversity(noisy[::-1], test_share=0.5).chosen == 0
    assert choose_diversity(np.full((2, 3), 0.8), test_share=0.5).chosen == 0
    assert choose_diversity(np.array([[0.8] * 3, [0.7] * 3, [0.9] * 3]), test_share=0.5).chosen == 2


def test_of_diversities_that_tie_the_first_is_best_whatever_the_order_of_the_folds():
    first, second = [0.7, 0.8, 0.9], [0.9, 0.8, 0.7]
    assert np.mean(first) < np.mean(second)  # by rounding alone
    assert choose_diversity(np.array([[0.5] * 3, first, second]), test_share=0.5).best == 1


def test_the_best_diversity_and_its_test_are_told_also_where_it_is_not_chosen():
    votes = np.array([[0.9, 0.8, 0.9], [0.7, 0.6, 0.7], [0.8, 0.9, 0.8]])
    found = choose_diversity(votes, test_share=0.5)
    assert found[:2] == (0, 2)
    assert found.test == pytest.approx(corrected_paired_test(votes[2] - votes[0], 0.5))
