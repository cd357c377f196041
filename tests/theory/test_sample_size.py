"""How many samples the error correlation needs, held against simulation."""

import numpy as np
import pytest
from scipy.special import ndtri

from counterpoint.theory import samples_for_error_correlation
from counterpoint.theory._jury import factor_angle


def standardised(p, c, n_learners, n_samples, rng):
    """Return who is right, standardised, under the one-factor probit."""
    rho = np.cos(2 * factor_angle(np.array([p]), np.array([c])))
    shared, own = rng.normal(size=n_samples), rng.normal(size=(n_learners, n_samples))
    right = np.sqrt(rho) * shared + np.sqrt(1 - rho) * own < ndtri(p)
    return (right - p) / np.sqrt(p * (1 - p))


@pytest.mark.parametrize(
    ("p", "c", "n_learners"), [(0.7, 0.35, 6), (0.9, 0.2, 5), (0.8, 0.0, 3), (0.6, 0.6, 12), (0.99, 0.9, 4)]
)
def test_so_many_samples_give_an_interval_of_that_width(p, c, n_learners):
    rng = np.random.default_rng(0)
    n = samples_for_error_correlation(p, c, n_learners)
    pairs = np.triu_indices(n_learners, 1)
    found = [np.corrcoef(standardised(p, c, n_learners, n, rng))[pairs].mean() for _ in range(300)]
    assert np.mean(found) == pytest.approx(c, abs=0.01)
    # 300 runs know a standard deviation to 8 %, with 95 % confidence.
    assert 1.96 * np.std(found) == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(("p", "c"), [(0.995, 0.2), (0.997, 0.2), (0.003, 0.3), (0.99, 0.99)])
def test_rare_errors_take_as_many_samples_as_a_simulation_says(p, c):
    """Errors that happen a few times in a thousand samples, in the tail of the common factor, count."""
    rng = np.random.default_rng(1)
    z = np.hstack([standardised(p, c, 4, 10**6, rng) for _ in range(8)])
    total, squares = z.sum(axis=0), (z**2).sum(axis=0)
    influence = (total**2 - (1 + 3 * c) * squares) / 12
    expected = influence.var() * (1.96 / 0.01) ** 2
    error = np.std(influence**2) / np.sqrt(len(influence)) / influence.var()
    assert error < 0.02
    found = samples_for_error_correlation(p, c, 4, half_width=0.01)
    assert found == pytest.approx(expected, rel=4 * error)


@pytest.mark.parametrize(("p", "c"), [(0.995, 0.0), (0.01, 0.0), (0.8, 1.0), (0.7, 0.9999)])
def test_there_are_errors_to_correlate(p, c):
    assert samples_for_error_correlation(p, c, 10) >= 5 / min(p, 1 - p)


def test_half_the_width_takes_four_times_the_samples():
    one, two = (samples_for_error_correlation(0.8, 0.3, 5, half_width=width) for width in (0.1, 0.05))
    assert two == pytest.approx(4 * one, abs=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 1.0}, r"`p` must be .*; got 1"),
        ({"c": -0.1}, r"`c` must be .*; got -0.1"),
        ({"n_learners": 1}, "`n_learners` must be at least 2; got 1"),
        ({"half_width": 0.0}, r"`half_width` must be .*; got 0"),
    ],
)
def test_impossible_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        samples_for_error_correlation(**({"p": 0.7, "c": 0.3, "n_learners": 5} | arguments))
