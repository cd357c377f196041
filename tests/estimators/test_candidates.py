"""The rules by which a search takes a setting, and what it says of them."""

import numpy as np
import pytest

from counterpoint.estimators import choose_diversity, corrected_paired_test
from counterpoint.estimators.candidates import best_settings, verdict

CANDIDATES = [{"diversity": d, "weight_decay": w} for d in (0.0, 0.5, 1.0) for w in (0.1, 1.0)]


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


def random_loss(seed, n_values=1000):
    return np.random.default_rng(seed).integers(n_values, size=(6, 2, 3)) / n_values


@pytest.mark.parametrize("n_values", [2, 1000])  # with ties, and without
@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_loss_is_chosen_and_of_equals_the_first(seed, n_values):
    loss = random_loss(seed, n_values)
    found = best_settings(CANDIDATES, [5, 10], loss)
    mean = loss.mean(axis=2).round(12)
    row, place = min(np.ndindex(6, 2), key=lambda at: (mean[at], at))
    assert found.chosen == row
    assert found.tried[row] == CANDIDATES[row] | {"epochs": (5, 10)[place]}
    assert found.best == 2 + mean[2:].min(axis=1).argmin()
    assert {found.chosen, found.best} <= set(found.rows.tolist())
    np.testing.assert_array_equal(found.at_epochs(loss).mean(axis=1).round(12), mean.min(axis=1))


@pytest.mark.parametrize("seed", range(20))
def test_the_verdict_names_the_choice_and_never_contradicts_it(seed):
    loss = random_loss(seed)
    found = best_settings(CANDIDATES, [5, 10], loss)
    scores = 1 - found.at_epochs(loss)
    test = found.test(scores, 0.5)
    said = verdict(found, scores, test, "{:.1f} % are explained", "loss")
    chosen = found.tried[found.chosen]["diversity"]
    assert said.endswith(
        f" {f'Diversity {chosen:g}' if chosen else 'Independent training'} is chosen for the lowest loss."
    )
    assert (test.difference > 0) == (chosen > 0)
    assert not said.startswith(f"Explicit diversity {'costs' if chosen else 'pays'}")
    plain = corrected_paired_test(scores[found.best] - scores[found.rows[0]], 0.5)
    assert test.p_value == pytest.approx(min(1, 4 * plain.p_value))
