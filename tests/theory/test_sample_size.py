"""How many samples the error correlation needs, held against simulation."""

import numpy as np
import pytest
from scipy.special import ndtri

from counterpoint.theory import samples_for_error_correlation
from counterpoint.theory._jury import factor_angle


@pytest.mark.parametrize(
    ("p", "c", "n_learners"), [(0.7, 0.35, 6), (0.9, 0.2, 5), (0.8, 0.0, 3), (0.6, 0.6, 12)]
)
def test_so_many_samples_give_an_interval_of_that_width(p, c, n_learners):
    rng = np.random.default_rng(0)
    n = samples_for_error_correlation(p, c, n_learners)
    rho = np.cos(2 * factor_angle(np.array([p]), np.array([c])))
    shared, own = rng.normal(size=(300, 1, n)), rng.normal(size=(300, n_learners, n))
    right = np.sqrt(rho) * shared + np.sqrt(1 - rho) * own < ndtri(p)
    pairs = np.triu_indices(n_learners, 1)
    found = [np.corrcoef(one)[pairs].mean() for one in right]
    assert np.mean(found) == pytest.approx(c, abs=0.01)
    # 300 runs know a standard deviation to 8 %, with 95 % confidence.
    assert 1.96 * np.std(found) == pytest.approx(0.05, rel=0.1)


def test_one_sample_tells_that_learners_always_err_together():
    assert samples_for_error_correlation(0.75, 1.0, 4) == 1


def test_half_the_width_takes_four_times_the_samples():
    one, two = (samples_for_error_correlation(0.8, 0.3, 5, half_width=width) for width in (0.1, 0.05))
    assert two == pytest.approx(4 * one, abs=4)


def test_learners_that_never_differ_need_no_samples():
    assert samples_for_error_correlation(0.8, 1.0, 5) == 1


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
