"""The analysis of a map: gains, choices, thresholds and predictors."""

import numpy as np
import pytest

from paper.diversity_map import analysis
from paper.diversity_map.analysis import PREDICTORS, MapArrays


def make_map(gain, train=None):
    """Return a map with these gains (S, L, H, C)."""
    shape = gain.shape[:3]
    learners, hidden = ([2, 3, 5, 7][:n] for n in shape[1:])
    losses = ["independent", "joint", "0", "0.9"][: gain.shape[3]]
    values = {key: np.zeros(shape) for key in PREDICTORS} | (train or {})
    names = [str(s) for s in range(shape[0])]
    return MapArrays(
        "soft", names, learners, hidden, losses, np.exp(-gain), gain, values, [], 10, np.ones(gain.shape[:-1])
    )


def test_gains_are_logarithms_of_errors_with_half_a_row_added():
    part = {
        "data": "a",
        "n_learners": 5,
        "hidden": 2,
        "n_parameters": 30,
        "rows": [10, 10, 10, 10],  # two passes over twenty rows
        "wrong": {"soft": {"independent": [4, 3, 2, 3], "joint": [0, 0, 0, 0], "0.5": [1, 1, 2, 0]}},
        "train": {key: {"independent": 0.5} for key in PREDICTORS if key != "gap"},
    }
    config = {"data": ["a"], "learners": [5], "hidden": [2], "folds": 2}
    found = analysis.read_map({"config": config, "data": [part]})
    np.testing.assert_allclose(found.error[0, 0, 0], [12 / 40, 0, 4 / 40])
    assert found.n_parameters.tolist() == [[[30]]]
    np.testing.assert_allclose(found.gain[0, 0, 0], [0, np.log(6.5 / 0.5), np.log(6.5 / 2.5)])
    np.testing.assert_allclose(found.folds[0][0, 0, 0], [0.4, 0.3, 0.2, 0.3])
    assert found.diversities == [0.5]


def test_a_table_has_no_say_in_its_own_diversity():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=(5, 2, 3, 6))
    chosen = analysis.choose_on_other_tables(gain)
    other = gain.copy()
    other[2] = rng.normal(size=other[2].shape)
    np.testing.assert_array_equal(analysis.choose_on_other_tables(other)[2], chosen[2])
    for s, h in np.ndindex(5, 3):
        rest = np.delete(gain, s, axis=0)[:, :, h].mean(axis=(0, 1))
        assert chosen[s, 0, h] == chosen[s, 1, h] == 2 + rest[2:].argmax()


def test_the_threshold_takes_the_largest_sum_of_gains():
    rng = np.random.default_rng(1)
    for _ in range(50):
        values, gains = rng.integers(5, size=12).astype(float), rng.normal(size=12)
        cut = analysis.threshold(values, gains)
        reached = gains[analysis.is_selected(values, cut)].sum()
        tried = [gains[values < t].sum() for t in range(7)] + [gains[values > t].sum() for t in range(-1, 6)]
        assert reached == pytest.approx(max(tried))


def test_a_perfect_predictor_is_found_and_a_blind_one_is_not():
    rng = np.random.default_rng(2)
    gain = rng.normal(size=(6, 4, 4))
    full = np.stack([np.zeros_like(gain), np.zeros_like(gain), gain, gain], -1)
    found = make_map(full, {"learner": -gain, "r_tl": rng.normal(size=gain.shape)})
    learner, blind = (analysis.evaluate_predictor(name, found, 2) for name in ("learner", "r_tl"))
    assert (learner.spearman, learner.within, learner.auc) == (-1, pytest.approx(-1), 1)
    assert learner.low
    assert learner.pays == f"below {learner.threshold:.3f}"
    assert learner.hits / learner.n > 0.95
    assert analysis.reduction(learner.gain) > 0.9 * analysis.reduction(np.maximum(gain, 0).mean())
    assert blind.auc < 0.65
    assert blind.gain < learner.gain / 2


def test_no_threshold_rests_on_a_diversity_that_has_seen_the_table_it_is_judged_on(monkeypatch):
    rng = np.random.default_rng(3)
    gain = rng.normal(size=(5, 2, 3, 6))
    gain[..., 0] = 0
    seen = []
    choose = analysis.choose_on_other_tables
    monkeypatch.setattr(analysis, "choose_on_other_tables", lambda some: seen.append(some) or choose(some))
    analysis.evaluate_predictor(
        "learner", make_map(gain, {"learner": rng.normal(size=gain.shape[:-1])}), None
    )
    assert [len(some) for some in seen] == [5, 4, 4, 4, 4, 4]
    for s, some in enumerate(seen[1:]):
        np.testing.assert_array_equal(some, np.delete(gain, s, axis=0))


@pytest.mark.parametrize(("sign", "words"), [(1, "always"), (-1, "never")])
def test_a_rule_without_a_threshold_is_always_or_never(sign, words):
    gain = sign * np.ones((3, 2, 2))
    found = make_map(
        np.repeat(gain[..., None], 4, -1), {"learner": np.random.default_rng(0).uniform(size=gain.shape)}
    )
    assert analysis.evaluate_predictor("learner", found, 2).pays == words


def test_only_differences_beyond_the_spread_of_the_folds_count():
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.2, 0.3, size=10)
    rates = np.stack([noise, noise, noise - 0.1, noise + 0.1 + rng.normal(0, 0.01, 10), noise[::-1]])
    found = make_map(np.zeros((1, 1, 1, 4)))._replace(folds=[rates[None, None]])
    assert [analysis.significant(found, c).item() for c in range(5)] == [0, 0, 1, -1, 0]


def test_budgets_are_cells_with_about_as_many_hidden_units():
    for units, cells in analysis.BUDGETS.items():
        assert all(0.7 < n * h / units < 1.3 for n, h in cells)
    assert analysis.budgets(make_map(np.zeros((1, 4, 4, 3)))) == {}
