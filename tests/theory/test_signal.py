"""Signal and noise: independent learners add up, as Spearman and Brown found in 1910."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.theory import correlation_from_signal, signal_from_correlation


@given(st.floats(-0.999999, 0.999999))
def test_one_is_the_inverse_of_the_other(r):
    assert correlation_from_signal(signal_from_correlation(r)) == pytest.approx(r, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("p", [0.55, 0.75, 0.95])
def test_equal_votes_that_err_independently_add_up_exactly(n, p):
    # All 2^(n + 1) outcomes with their probabilities, nothing sampled
    outcomes = np.array(list(product([0, 1], repeat=n + 1)))
    truth, right = outcomes[:, 0], outcomes[:, 1:]
    chance = 0.5 * np.prod(np.where(right, p, 1 - p), axis=1)
    votes = np.where(right, truth[:, None], 1 - truth[:, None])

    def correlation(x):
        mean_x, mean_t = chance @ x, chance @ truth
        cov = chance @ ((x - mean_x) * (truth - mean_t))
        return cov / np.sqrt(chance @ (x - mean_x) ** 2 * (chance @ (truth - mean_t) ** 2))

    one, whole = (
        signal_from_correlation(correlation(votes[:, 0])),
        signal_from_correlation(correlation(votes.mean(axis=1))),
    )
    assert whole == pytest.approx(n * one, rel=1e-9)


def test_the_ends_are_infinite_and_return():
    assert signal_from_correlation([-1.0, 1.0]).tolist() == [-np.inf, np.inf]
    assert correlation_from_signal([-np.inf, np.inf]).tolist() == [-1.0, 1.0]


def test_a_correlation_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"`r` must be between -1 and 1; got 1\.5"):
        signal_from_correlation(1.5)
    with pytest.raises(ValueError, match="`ratio`"):
        correlation_from_signal(float("nan"))
