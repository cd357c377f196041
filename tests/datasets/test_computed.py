"""Tables that a rule defines, against the counts of the UCI repository and the error rates of their authors."""

from collections import Counter
from math import comb

import numpy as np
import pytest

from counterpoint.datasets import COMPUTED, compute
from counterpoint.datasets._endgame import DRAW, endgame_positions

# Rows of each class, as the pages of the UCI repository give them.
UCI_COUNTS = {
    "monks-2": {"0": 290, "1": 142},
    "balance-scale": {"L": 288, "B": 49, "R": 288},
    "tic-tac-toe": {"positive": 626, "negative": 332},
    "krkopt": {
        "draw": 2796, "0": 27, "1": 78, "2": 246, "3": 81, "4": 198, "5": 471, "6": 592, "7": 683, "8": 1433, "9": 1712,
        "10": 1985, "11": 2854, "12": 3597, "13": 4194, "14": 4553, "15": 2166, "16": 390,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_a_table_has_the_rows_it_announces_and_is_the_same_again(name):
    (X, y), (again, labels) = compute(name), compute(name)
    assert len(X) == len(y) == COMPUTED[name].rows
    assert X.equals(again)
    np.testing.assert_array_equal(y, labels)
    assert all(dtype == "category" or dtype == np.float64 for dtype in X.dtypes)
    assert not X.isna().any().any()


@pytest.mark.parametrize("name", UCI_COUNTS)
def test_classes_have_as_many_rows_as_in_the_repository(name):
    assert Counter(compute(name)[1].tolist()) == UCI_COUNTS[name]


def test_a_position_of_the_endgame_is_a_mate_a_stalemate_or_neither():
    squares, depths = endgame_positions()
    known = {tuple(row): depth for row, depth in zip(squares.tolist(), depths.tolist(), strict=True)}

    def depth(*places):
        """Return the depth of a position, which may be held in any of its eight mirrored forms."""
        found = set()
        points = [(ord(place[0]) - 97, int(place[1]) - 1) for place in places]
        for flip in (False, True):
            for turn in (False, True):
                moved = [(7 - x if flip else x, 7 - y if turn else y) for x, y in points]
                for swap in (False, True):
                    row = tuple(y + 8 * x if swap else x + 8 * y for x, y in moved)
                    found |= {known[row]} if row in known else set()
        assert len(found) == 1
        return found.pop()

    assert depth("g6", "a8", "g8") == 0  # mate on the back rank
    assert depth("b6", "b7", "a8") == DRAW  # stalemate: the rook on b7 is guarded
    assert depth("d4", "a2", "a1") == DRAW  # the rook is taken


def test_a_hand_of_poker_is_worth_what_its_cards_say():
    X, y = compute("poker")
    for row, value in zip(X.iloc[:3000].to_numpy(), y[:3000], strict=True):
        suits, ranks = row[0::2], sorted(int(rank) for rank in row[1::2])
        repeated = sorted(Counter(ranks).values(), reverse=True)
        straight = len(set(ranks)) == 5 and (ranks[4] - ranks[0] == 4 or ranks == [1, 10, 11, 12, 13])
        flush = len(set(suits)) == 1
        expected = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}.get(tuple(repeated), 0)
        expected = 8 if straight and flush else expected or (5 if flush else 4 if straight else 0)
        assert int(value) == expected
    assert np.mean(y == "1") == pytest.approx(13 * comb(4, 2) * comb(12, 3) * 4**3 / comb(52, 5), abs=0.01)
    cards = X[["suit1", "rank1"]].astype(str).agg("-".join, axis=1)
    assert cards.nunique() == 52


def bayes_error(name, scores):
    """Return the error of the class with the highest score."""
    X, y = compute(name)
    return np.mean(np.argmax(scores(X.to_numpy()), axis=1).astype(str) != y)


def log_density(X, centres, scale=1.0):
    squared = ((X[:, None] - np.asarray(centres)) ** 2).sum(axis=2) / scale**2
    return np.logaddexp.reduce(-squared / 2, axis=1) - np.log(len(centres)) - X.shape[1] * np.log(scale)


# Bayes errors as Breiman (1996) and Breiman et al. (1984) give them.
def test_the_best_rule_errs_as_often_as_the_authors_say():
    a = 2 / np.sqrt(20)
    turned = np.where(np.arange(20) % 2, -a, a)
    two = bayes_error("twonorm", lambda X: np.stack([X.sum(axis=1), -X.sum(axis=1)], axis=1))
    assert two == pytest.approx(0.023, abs=0.006)
    three = bayes_error(
        "threenorm",
        lambda X: np.stack([log_density(X, [[a] * 20, [-a] * 20]), log_density(X, [turned])], axis=1),
    )
    assert three == pytest.approx(0.105, abs=0.012)
    ring = bayes_error(
        "ringnorm",
        lambda X: np.stack([log_density(X, [[0] * 20], 2.0), log_density(X, [[a / 2] * 20])], axis=1),
    )
    assert ring == pytest.approx(0.013, abs=0.005)


def test_segments_of_a_digit_are_wrong_one_time_in_ten():
    X, y = compute("led7")
    # the number of lit segments of each digit is that of a seven-segment display
    lit = {digit: X[y == digit].mean().gt(0.5).sum() for digit in np.unique(y)}
    assert [lit[str(d)] for d in range(10)] == [6, 2, 5, 5, 4, 5, 6, 3, 7, 6]
    typical = np.stack([X[y == str(d)].mean().gt(0.5).to_numpy() for d in range(10)])
    wrong = X.to_numpy() != typical[y.astype(int)]
    assert wrong.mean() == pytest.approx(0.1, abs=0.01)
    nearest = (X.to_numpy()[:, None] != typical).sum(axis=2).argmin(axis=1).astype(str)
    assert np.mean(nearest != y) == pytest.approx(0.26, abs=0.03)


def test_a_wave_is_a_mixture_of_two_of_three():
    X, y = compute("waveform")
    means = [X[y == kind].mean().to_numpy() for kind in "012"]
    at = np.arange(1, 22)
    waves = [np.maximum(6 - abs(at - centre), 0) for centre in (11, 15, 7)]
    for mean, (one, other) in zip(means, [(0, 1), (0, 2), (1, 2)], strict=True):
        np.testing.assert_allclose(mean, (waves[one] + waves[other]) / 2, atol=0.2)


@pytest.mark.parametrize(("name", "plain"), [("led24", "led7"), ("waveform-40", "waveform")])
def test_columns_of_noise_tell_nothing_of_the_class(name, plain):
    X, y = compute(name)
    alone, _ = compute(plain)
    own = alone.shape[1]
    assert list(X)[:own] == list(alone)
    means = X.groupby(y).mean()
    spread = means.std() / (X.std() / np.sqrt(np.bincount(np.unique(y, return_inverse=True)[1]).mean()))
    assert spread.iloc[:own].median() > 3  # a column of noise has about 1
    assert spread.iloc[own:].max() < 2
    signal = [mean.to_numpy() for mean in (alone.mean(), X.iloc[:, :own].mean())]
    np.testing.assert_allclose(*signal, atol=0.1)


def test_loans_follow_the_function_up_to_the_noise():
    X, y = compute("agrawal-7")
    group = 0.67 * (X["salary"] + X["commission"]) - 0.2 * X["loan"] - 20_000 > 0
    agreement = np.mean(np.where(group, "A", "B") == y)
    assert 0.95 < agreement < 1
    assert (X["commission"].eq(0) | X["salary"].lt(75_000 + 6_500)).all()


def test_the_multiplexer_returns_the_addressed_bit():
    X, y = compute("multiplexer-11")
    for row, label in zip(X.astype(int).to_numpy()[::37], y[::37], strict=True):
        assert label == str(row[3 + int("".join(map(str, row[:3])), 2)])


def test_an_unknown_table_is_named():
    with pytest.raises(
        ValueError, match=r"`name` must be one of .*; got 'monks-3'\. Did you mean 'monks-2'\?"
    ):
        compute("monks-3")
