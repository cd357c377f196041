import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from counterpoint.exceptions import ConvergenceWarning, ModelRangeWarning, UndefinedMeasureWarning
from counterpoint.theory import (
    error_correlation,
    error_correlation_bounds,
    jury_accuracy,
    truth_correlation_bounds,
    vote_accuracy,
    vote_accuracy_curve,
)
from counterpoint.theory._jury import tilt

SIZES = [3, 5, 15, 51]


def simulate_shared_factor(rng, p, rho, n, draws):
    """The number of correct votes when a Gaussian shared by all meets one of each learner's own."""
    factor = rng.standard_normal(draws)
    given = special.ndtr((special.ndtri(p) - np.sqrt(rho) * factor) / np.sqrt(1 - rho))
    return rng.binomial(n, given)


def simulate_opposition(rng, p, strength, n, draws):
    """The number of correct votes of independent learners, kept the more willingly the nearer it is to its mean."""
    count = rng.binomial(n, p, size=draws)
    return count[rng.random(draws) < np.exp(-strength * (count - n * p) ** 2)]


def vote_and_moments(count, n):
    p = count.mean() / n
    c = (count.var() / (n * p * (1 - p)) - 1) / (n - 1)
    right = (count > n / 2) + 0.5 * (count == n / 2)
    return p, c, right.mean(), right.std() / np.sqrt(len(count))


@pytest.mark.parametrize(
    ("n", "p", "c"), [*itertools.product(SIZES, [0.55, 0.65, 0.75, 0.85, 0.95], [0.0, 0.05, 0.2, 0.4, 0.6])]
)
def test_probit_agrees_with_simulation(n, p, c):
    rng = np.random.default_rng([n, int(100 * p), int(100 * c)])
    # The latent correlation by another route than the library's: scipy's bivariate Gaussian.
    t = special.ndtri(p)
    latent = np.linspace(0, 0.99, 34)
    phi = [
        (stats.multivariate_normal.cdf([t, t], cov=[[1, r], [r, 1]]) - p**2) / (p * (1 - p)) for r in latent
    ]
    count = simulate_shared_factor(rng, p, np.interp(c, phi, latent), n, 60_000)
    p_hat, c_hat, vote, error = vote_and_moments(count, n)
    assert c_hat == pytest.approx(c, abs=0.03)
    # p and c are themselves estimated: compare at the estimates, where the sampling errors cancel.
    assert jury_accuracy(p_hat, max(c_hat, 0.0), n) == pytest.approx(vote, abs=4.5 * error + 2e-4)


@pytest.mark.parametrize(
    ("n", "p", "strength"), [*itertools.product(SIZES, [0.55, 0.6, 0.75, 0.95], [0.05, 0.3, 1.0])]
)
def test_opposed_learners_agree_with_simulation(n, p, strength):
    count = simulate_opposition(np.random.default_rng(7), p, strength, n, 200_000)
    p_hat, c_hat, vote, error = vote_and_moments(count, n)
    assert c_hat < 0
    assert jury_accuracy(p_hat, c_hat, n) == pytest.approx(vote, abs=4.5 * error + 5 / len(count))


@pytest.mark.parametrize(("n", "p"), [*itertools.product([3, 5, 15], [0.6, 0.75, 0.9])])
def test_opposed_learners_are_near_to_gaussians_that_oppose_each_other(n, p):
    """Another exchangeable model with negative correlation agrees where both exist: the model is not the message."""
    rho = -0.5 / (n - 1)
    rng = np.random.default_rng(3)
    latent = rng.standard_normal((200_000, n)) @ np.linalg.cholesky((1 - rho) * np.eye(n) + rho).T
    p_hat, c_hat, vote, error = vote_and_moments((latent < special.ndtri(p)).sum(axis=1), n)
    assert jury_accuracy(p_hat, c_hat, n) == pytest.approx(vote, abs=0.0015 + 4 * error)


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_probit_stays_between_0_and_1_everywhere(n, p, share):
    low = error_correlation_bounds(p, n).low if n > 1 else -1.0
    accuracy = jury_accuracy(p, low + share * (1 - low), n)
    assert 0 <= accuracy <= 1
    # Swapping right and wrong mirrors the vote.
    mirrored_low = error_correlation_bounds(1 - p, n).low if n > 1 else -1.0
    c = max(low, mirrored_low) + share * (1 - max(low, mirrored_low))
    assert jury_accuracy(p, c, n) + jury_accuracy(1 - p, c, n) == pytest.approx(1, abs=1e-7)


@given(st.floats(0.5, 1), st.integers(2, 40))
def test_accuracy_falls_as_the_errors_become_alike(p, n):
    low = error_correlation_bounds(p, n).low
    accuracy = jury_accuracy(p, np.linspace(low, 1, 60), n)
    positive = accuracy[np.linspace(low, 1, 60) >= 0]
    assert (np.diff(positive) <= 1e-9).all()
    assert accuracy[-1] == pytest.approx(p)


def test_the_models_meet_at_independence_with_one_slope():
    p, n, h = 0.7, 9, 1e-6
    binomial = stats.binom.sf(4, n, p)
    values = jury_accuracy(p, [-h, 0.0, h], n)
    assert values[1] == pytest.approx(binomial, abs=1e-12)
    bahadur = jury_accuracy(p, [0.0, h], n, model="bahadur")
    slope = np.diff(bahadur)[0] / h
    assert np.diff(values) / h == pytest.approx([slope, slope], rel=1e-3)


def brute_force_bahadur(p, c, n):
    """Sum the second-order expansion over every pattern of votes."""
    total = 0.0
    for votes in itertools.product([0, 1], repeat=n):
        z = [(v - p) / np.sqrt(p * (1 - p)) for v in votes]
        pairs = sum(z[i] * z[j] for i in range(n) for j in range(i))
        k = sum(votes)
        total += p**k * (1 - p) ** (n - k) * (1 + c * pairs) * ((k > n / 2) + 0.5 * (k == n / 2))
    return total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.ModelRangeWarning")
def test_bahadur_is_the_expansion_summed_over_all_patterns(n):
    for p, c in [(0.6, 0.1), (0.75, 0.3), (0.9, -0.02)]:
        assert jury_accuracy(p, c, n, model="bahadur") == pytest.approx(brute_force_bahadur(p, c, n))


def test_bahadur_warns_exactly_where_a_probability_is_negative():
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, p = int(rng.integers(2, 9)), rng.uniform(0.05, 0.95)
        c = rng.uniform(error_correlation_bounds(p, n).low, 0.9)
        k = np.arange(n + 1)
        pairs = ((k - n * p) ** 2 - k * (1 - p) ** 2 - (n - k) * p**2) / (2 * p * (1 - p))
        if (1 + c * pairs).min() < -1e-6:
            with pytest.warns(
                ModelRangeWarning, match=r'model="bahadur" with n_learners=\d describes no probability'
            ):
                jury_accuracy(p, c, n, model="bahadur")
        elif (1 + c * pairs).min() > 1e-6:
            jury_accuracy(p, c, n, model="bahadur")  # warnings are errors here


def test_bahadur_leaves_0_and_1_where_the_design_says():
    with pytest.warns(ModelRangeWarning, match="n_learners=51"):
        assert jury_accuracy(0.6, 0.19, 51, model="bahadur") < 0
    assert 0.6 < jury_accuracy(0.6, 0.19, 51) < 0.8


def test_an_even_jury_is_as_accurate_as_one_juror_less():
    p, c = np.array([0.6, 0.8]), np.array([0.1, 0.3])
    assert jury_accuracy(p, c, 8) == pytest.approx(jury_accuracy(p, c, 7))
    count = simulate_shared_factor(np.random.default_rng(0), 0.7, 0.3, 4, 200_000)
    p_hat, c_hat, vote, error = vote_and_moments(count, 4)
    assert jury_accuracy(p_hat, c_hat, 4) == pytest.approx(vote, abs=4 * error)


def test_the_least_correlation_of_votes_is_the_least_of_a_linear_program():
    from scipy.optimize import linprog

    for n, p in [(5, 0.5), (5, 0.6), (7, 0.83), (4, 0.3)]:
        k = np.arange(n + 1)
        least = (
            linprog(k**2.0, A_eq=[np.ones(n + 1), k], b_eq=[1, n * p]).fun - (n * p) ** 2
        )  # the least variance
        expected = (least / (n * p * (1 - p)) - 1) / (n - 1)
        assert error_correlation_bounds(p, n).low == pytest.approx(expected)
        assert 0 <= jury_accuracy(p, error_correlation_bounds(p, n).low, n) <= 1
    assert jury_accuracy(0.6, -0.25, 5) == pytest.approx(1)  # always exactly three of five are right


@pytest.mark.parametrize("n", [2, 3, 15, 75, 201, 2001])
def test_opposed_votes_have_the_mean_and_the_variance_asked_for(n):
    near = np.logspace(-8, -0.4, 12)
    p = np.concatenate([near, [0.5], 1 - near])
    votes = np.arange(n + 1.0)
    log_binomial = -special.betaln(votes + 1, n - votes + 1)
    for share in [1e-6, 0.1, 0.5, 0.9, 0.9999, 0.999999]:
        c = share * error_correlation_bounds(p, n).low
        variance = n * p * (1 - p) * (1 + (n - 1) * c)
        counts = tilt(votes, log_binomial, n * p, variance, start=special.logit(p))
        x = votes - n * p[:, None]
        assert counts.min() >= 0
        assert (counts * x).sum(axis=1) == pytest.approx(0, abs=1e-8)
        assert (counts * x**2).sum(axis=1) == pytest.approx(variance, abs=1e-8)


@pytest.mark.parametrize("n", [51, 75, 101, 201])
def test_learners_that_are_nearly_always_right_and_oppose_each_other_are_right_together(n):
    # No more than one in twenty thousand errs, so more than half of them never do.
    assert jury_accuracy(0.99995, -5e-5, n) == pytest.approx(1)
    assert jury_accuracy(5e-5, -5e-5, n) == pytest.approx(0)


def test_votes_that_do_not_settle_are_announced(monkeypatch):
    monkeypatch.setattr("counterpoint.theory._jury._STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="did not settle at 1 of 1 points"):
        assert 0 <= jury_accuracy(0.7, -0.05, 7) <= 1


def test_a_jury_of_any_size_costs_no_memory_unless_it_opposes_itself():
    few, many = jury_accuracy(
        0.6, 0.1, [2 * 10**6 - 1, 2 * 10**6 + 1]
    )  # on both sides of the limit's formula
    assert few == pytest.approx(many, abs=1e-10)
    limit = vote_accuracy_curve(0.6, 0.1, [10**6])[0]
    assert jury_accuracy(0.6, 0.1, 10**12) == pytest.approx(limit, abs=1e-5)


def test_error_correlation_is_the_correlation_of_being_correct():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400_000)
    shared = rng.random(400_000)
    right = np.where(shared < 0.5, rng.random((2, 400_000)) < 0.9, rng.random((2, 400_000)) < 0.6)
    labels = np.where(right, truth, 1 - truth)
    r_tl = np.mean([np.corrcoef(truth, one)[0, 1] for one in labels])
    r_ll = np.corrcoef(labels)[0, 1]
    assert error_correlation(r_tl, r_ll) == pytest.approx(np.corrcoef(right)[0, 1], abs=0.005)


def test_theorem_2_is_theorem_1_on_the_correctness():
    n = np.array([3, 7, 20])
    r_ll = np.array([0.2, 0.5, 0.9])
    assert error_correlation(truth_correlation_bounds(r_ll, n).high, r_ll) == pytest.approx(-1 / (n - 1))


def test_perfect_learners_have_no_error_correlation():
    with pytest.warns(UndefinedMeasureWarning, match="always right"):
        assert np.isnan(error_correlation(1.0, 1.0))


def test_the_papers_equation_is_computed_as_printed():
    # The paper's simplified equation for alpha = beta = 1/2, term by term.
    n, r_tl, r_ll = 5, 0.4, 0.3
    half = (n + 1) // 2
    x = 0.5 * (1 + r_tl)
    first = sum(special.comb(n, i) * x**i * (1 - x) ** (n - i) for i in range(half, n + 1))
    second = 0.25 * r_tl * r_ll * (n - 1) / special.beta(half, half) * x ** (half - 1) * (1 - x) ** (half - 1)
    assert vote_accuracy(r_tl, r_ll, n, model="paper") == pytest.approx(first - second)
    with pytest.warns(ModelRangeWarning, match='model="paper" with n_learners=51'):
        assert vote_accuracy(0.2, 0.6, 51, model="paper") < 0


def test_independent_learners_get_the_binomial_and_the_paper_misses_it():
    # Five independent learners of accuracy 3/4: r_LL = r_TL^2 = 1/4.
    binomial = stats.binom.sf(2, 5, 0.75)
    assert vote_accuracy(0.5, 0.25, 5) == pytest.approx(binomial)
    assert vote_accuracy(0.5, 0.25, 5, model="bahadur") == pytest.approx(binomial)
    assert vote_accuracy(0.5, 0.25, 5, model="paper") == pytest.approx(0.7646, abs=5e-5)


@pytest.mark.parametrize(
    ("alpha", "a_1", "a_0", "rho"), [(0.3, 0.8, 0.7, 0.3), (0.2, 0.6, 0.9, 0.2), (0.5, 0.9, 0.6, 0.4)]
)
def test_classes_of_unequal_share_are_conditioned_on(alpha, a_1, a_0, rho):
    rng = np.random.default_rng(5)
    draws, n = 400_000, 7
    truth = rng.random(draws) < alpha
    factor = rng.standard_normal(draws)
    accuracy = np.where(truth, a_1, a_0)
    given = special.ndtr((special.ndtri(accuracy) - np.sqrt(rho) * factor) / np.sqrt(1 - rho))
    labels = np.where(rng.random((n, draws)) < given, truth, ~truth)
    correlations = np.corrcoef(np.vstack([truth, labels]))
    r_tl, r_ll = correlations[0, 1:].mean(), correlations[1:, 1:][np.triu_indices(n, 1)].mean()
    p = alpha * a_1 + (1 - alpha) * a_0
    predicted = vote_accuracy(r_tl, r_ll, n, alpha=alpha, beta=alpha * a_1 / p)
    vote = (labels.sum(axis=0) > n / 2) == truth
    # One latent correlation gives slightly different c in the two classes; the model assumes one c.
    assert predicted == pytest.approx(vote.mean(), abs=0.004)


def test_the_general_form_reduces_to_the_balanced_one():
    r_tl, r_ll = np.linspace(0.1, 0.6, 6), 0.5
    assert vote_accuracy(r_tl, r_ll, 9, alpha=0.5 + 1e-9, beta=0.5) == pytest.approx(
        vote_accuracy(r_tl, r_ll, 9), abs=1e-6
    )
    assert vote_accuracy(r_tl, r_ll, 9) == pytest.approx(
        jury_accuracy((1 + r_tl) / 2, error_correlation(r_tl, r_ll), 9)
    )


def test_perfect_learners_vote_perfectly():
    assert vote_accuracy(1.0, 1.0, 5) == 1
    assert vote_accuracy(-1.0, 1.0, 5) == 0


def test_the_curve_starts_at_one_learner_and_rises_to_its_limit():
    curve = vote_accuracy_curve(0.7, 0.1, [1, 2, 3, 25, 5001])
    assert curve[0] == pytest.approx(0.7)
    assert curve[1] == pytest.approx(0.7)
    assert (np.diff(curve) >= -1e-12).all()
    t = special.ndtri(0.7)
    from scipy.optimize import brentq

    rho = brentq(
        lambda r: stats.multivariate_normal.cdf([t, t], cov=[[1, r], [r, 1]]) - 0.49 - 0.1 * 0.21, 0.01, 0.9
    )
    assert curve[-1] == pytest.approx(special.ndtr(t / np.sqrt(rho)), abs=1e-3)


def test_the_curve_is_nan_where_no_ensemble_can_oppose_itself_so_much():
    with pytest.warns(ModelRangeWarning, match="No ensemble of 9 or more learners"):
        curve = vote_accuracy_curve(0.6, -0.2, [3, 5, 9])
    assert np.isfinite(curve[:2]).all()
    assert np.isnan(curve[2])


def test_one_learner_has_any_error_correlation_and_two_have_more_than_three():
    assert vote_accuracy_curve(0.7, -0.9, [1]) == pytest.approx([0.7])
    assert vote_accuracy_curve(0.5, -0.9, [2]) == pytest.approx([0.5])
    with pytest.warns(ModelRangeWarning, match="No ensemble of 3 or more learners of accuracy 0.5"):
        assert np.isnan(vote_accuracy_curve(0.5, -0.9, [3]))


def test_the_curve_names_a_point_that_cannot_be_and_its_own_size():
    words = (
        "No ensemble of 9 or more learners of accuracy 0.6 can have an error correlation of -0.2; "
        "the curve is NaN at 3 of 6 points."
    )
    with pytest.warns(ModelRangeWarning, match=words):
        vote_accuracy_curve([0.6, 0.5], [-0.2, -0.3], [3, 5, 9])


@pytest.mark.parametrize(
    ("r_tl", "r_ll", "share"),
    [(0.99999999, 1.0, 0.5), (0.99999999, 0.99999999**2, 0.5), (0.5, 0.25, 1e-12), (1 - 1e-12, 1.0, 0.3)],
)
def test_a_rounding_next_to_perfect_learners_is_forgiven(r_tl, r_ll, share):
    assert vote_accuracy(r_tl, r_ll, 5, alpha=share, beta=share) == pytest.approx(1, abs=1e-8)


def test_everything_broadcasts():
    assert jury_accuracy(np.full((2, 1), 0.7), [0.0, 0.1, 0.2], [[[3]], [[4]]]).shape == (2, 2, 3)
    assert vote_accuracy(np.full((2, 1), 0.3), [0.4, 0.5], 5, alpha=0.4, beta=0.4).shape == (2, 2)
    assert vote_accuracy_curve([0.6, 0.7], 0.1, [1, 5, 9]).shape == (2, 3)
    n = np.array([3, 5])
    assert jury_accuracy(0.7, 0.1, n) == pytest.approx(
        [jury_accuracy(0.7, 0.1, 3), jury_accuracy(0.7, 0.1, 5)]
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jury_accuracy(1.5, 0.1, 5), ValueError, r"`p` must be between 0 and 1; got 1\.5\."),
        (lambda: jury_accuracy(0.7, np.nan, 5), ValueError, "`c` must not be NaN"),
        (
            lambda: jury_accuracy(0.5, -0.24, 5),
            ValueError,
            r"`c` must be between -0\.2 and 1 \(being correct is yes or no.*\); got -0\.24\.",
        ),
        (lambda: jury_accuracy(0.7, 0.1, 0), ValueError, r"`n_learners` must be at least 1; got 0\."),
        (
            lambda: jury_accuracy(0.7, 0.1, 5, model="paper"),
            ValueError,
            r"`model` must be one of 'probit', 'bahadur'; got 'paper'\.",
        ),
        (lambda: jury_accuracy("0.7", 0.1, 5), TypeError, "`p` must be a number"),
        (lambda: vote_accuracy(0.5, 0.3, 1), ValueError, r"`n_learners` must be at least 2; got 1\."),
        (
            lambda: vote_accuracy(0.5, -0.3, 5),
            ValueError,
            r"`r_ll` must be between -0\.25 and 1 \(Theorem 1\); got -0\.3\.",
        ),
        (
            lambda: vote_accuracy(0.9, 0.1, 5),
            ValueError,
            r"`r_ll` must leave an error correlation between .* got r_ll=0\.1, which means c=",
        ),
        (
            lambda: vote_accuracy(1.0, 0.5, 5),
            ValueError,
            r"^`r_ll` must be 1 for learners that are always right or always wrong; got 0\.5\.$",
        ),
        (
            lambda: vote_accuracy(0.99999999, 0.99, 5),
            ValueError,
            r"`r_ll` must leave an error correlation .* which means c=-499999",
        ),
        (
            lambda: jury_accuracy([0.6, 0.7], [0.1, 0.2, 0.3], 5),
            ValueError,
            r"^`p`, `c` and `n_learners` must have shapes that broadcast; got \(2,\), \(3,\) and \(\)\.$",
        ),
        (
            lambda: vote_accuracy([0.5, 0.5], 0.3, 5, alpha=[0.4, 0.5, 0.6]),
            ValueError,
            r"^`r_tl`, `r_ll`, `n_learners`, `alpha` and `beta` must have shapes that broadcast",
        ),
        (
            lambda: vote_accuracy_curve([0.6, 0.7], [0.1] * 3, [5]),
            ValueError,
            r"^`p` and `c` must have shapes that broadcast; got \(2,\) and \(3,\)\.$",
        ),
        (
            lambda: error_correlation([0.5, 0.5], [0.3] * 3),
            ValueError,
            "^`r_tl` and `r_ll` must have shapes that broadcast",
        ),
        (
            lambda: error_correlation_bounds([0.5, 0.5], [3, 5, 7]),
            ValueError,
            "^`p` and `n_learners` must have shapes that broadcast",
        ),
        (lambda: jury_accuracy([[0.6], [0.6, 0.7]], 0.1, 5), TypeError, "`p` must be a number or an array"),
        (
            lambda: error_correlation(1.0, 0.5),
            ValueError,
            r"`r_ll` must be 1 \(two learners with this r_tl\); got 0\.5\.",
        ),
        (
            lambda: vote_accuracy(0.5, 0.3, 4, model="paper"),
            ValueError,
            r'`n_learners` must be odd for model="paper"; got 4\.',
        ),
        (
            lambda: vote_accuracy(0.5, 0.3, 5, beta=0.6, model="paper"),
            ValueError,
            r'`beta` must be 0\.5 for model="paper"; got 0\.6\.',
        ),
        (lambda: vote_accuracy(0.5, 0.3, 5, model="logit"), ValueError, r"`model` must be one of"),
        (lambda: vote_accuracy(0.5, 0.3, 5, alpha=0), ValueError, "`alpha` must be strictly between 0 and 1"),
        (
            lambda: error_correlation(-1.5, 1.0),
            ValueError,
            r"`r_tl` must be between -1 and 1; got -1\.5\.",
        ),
        (
            lambda: error_correlation(0.9, 0.1),
            ValueError,
            r"`r_ll` must be between 0\.62 and 1 \(two learners with this r_tl\); got 0\.1\.",
        ),
        (lambda: error_correlation_bounds(0.5, 1), ValueError, "`n_learners` must be at least 2"),
        (
            lambda: vote_accuracy_curve(0.7, 0.1, 5),
            ValueError,
            r"`sizes` must be a list of numbers of learners; got shape \(\)\.",
        ),
        (
            lambda: vote_accuracy_curve(0.7, 0.1, [0, 5]),
            ValueError,
            r"`sizes` must be at least 1; got 0 at \[0\]\.",
        ),
        (lambda: vote_accuracy_curve(0.7, 1.1, [5]), ValueError, "`c` must be between -1 and 1"),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
