import numpy as np
import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.theory import (
    accuracy_from_correlation,
    correlation_from_accuracy,
    multiclass_accuracy_from_correlation,
    multiclass_correlation_from_accuracy,
)

binary = hnp.arrays(np.int8, st.integers(4, 60), elements=st.integers(0, 1))
shares = st.floats(0.02, 0.98)


@given(st.data())
def test_theorem_3_agrees_with_corrcoef_on_any_binary_vectors(data):
    truth = data.draw(binary)
    learner = data.draw(hnp.arrays(np.int8, truth.shape, elements=st.integers(0, 1)))
    assume(0 < truth.mean() < 1 and 0 < learner.mean() < 1 and (truth == learner).any())
    p = (truth == learner).mean()
    beta = (truth & learner).mean() / p
    r = np.corrcoef(truth, learner)[0, 1]
    assert correlation_from_accuracy(p, alpha=truth.mean(), beta=beta) == pytest.approx(r, abs=1e-12)
    assert accuracy_from_correlation(r, alpha=truth.mean(), beta=beta) == pytest.approx(p, abs=1e-7)


@given(shares, shares, st.floats(0, 1))
def test_the_exact_inverse_and_the_theorem_are_inverses(alpha, beta, u):
    top = min(alpha / beta, (1 - alpha) / (1 - beta), 1)
    p = u * top
    r = correlation_from_accuracy(p, alpha=alpha, beta=beta)
    assert accuracy_from_correlation(r, alpha=alpha, beta=beta) == pytest.approx(p, abs=1e-9)


@given(shares, shares, st.floats(-1, 1))
def test_the_theorem_undoes_the_exact_inverse_on_the_valid_domain(alpha, beta, r):
    top = min(alpha / beta, (1 - alpha) / (1 - beta), 1)
    assume(r <= correlation_from_accuracy(top, alpha=alpha, beta=beta))
    p = accuracy_from_correlation(r, alpha=alpha, beta=beta)
    assert correlation_from_accuracy(p, alpha=alpha, beta=beta) == pytest.approx(r, abs=1e-6)


def test_the_linear_forms_are_the_papers():
    r = np.linspace(-1, 0.4, 8)
    assert accuracy_from_correlation(r) == pytest.approx(0.5 + 0.5 * r)  # p = 1/2 + r/2 at alpha = beta = 1/2
    assert accuracy_from_correlation(r, alpha=0.3, order=0) == pytest.approx(2 * 0.3 * 0.7 * (1 + r))
    assert accuracy_from_correlation(r, alpha=0.3) == pytest.approx(2 * 0.3 * 0.7 * (1 + r))


def test_the_corrected_taylor_form_has_the_derivative_of_the_exact_inverse():
    h = 1e-6
    for alpha, r in [(0.3, 0.2), (0.45, -0.4), (0.6, 0.1)]:
        exact = [accuracy_from_correlation(r, alpha=alpha, beta=0.5 + s * h) for s in (-1, 1)]
        taylor = [accuracy_from_correlation(r, alpha=alpha, beta=0.5 + s * h, order=1) for s in (-1, 1)]
        assert np.diff(taylor)[0] / (2 * h) == pytest.approx(np.diff(exact)[0] / (2 * h), rel=1e-6)


def test_computer_algebra_confirms_the_erratum_in_the_taylor_form():
    a, b, r, p = sympy.symbols("a b r p", positive=True)
    q = 2 * b * p - p + 1 - a
    theorem = (b * p - a * q) ** 2 - r**2 * a * (1 - a) * q * (1 - q)  # Theorem 3, squared
    linear = 2 * a * (1 - a) * (1 + r)
    half = {b: sympy.Rational(1, 2), p: linear}
    assert sympy.simplify(theorem.subs(half)) == 0
    slope = sympy.factor(
        sympy.simplify(-sympy.diff(theorem, b).subs(half) / sympy.diff(theorem, p).subs(half))
    )
    printed = -4 * (
        a
        - 2 * a**2
        + 2 * a**3
        + 2 * a * r
        - 6 * a**2 * r
        + 4 * a**3 * r
        + a * r**2
        - 3 * a**2 * r**2
        + 2 * a**3 * r**2
    )
    corrected = printed + 4 * a**2  # -2 alpha^2 becomes -3 alpha^2
    assert sympy.simplify(slope - corrected) == 0
    assert sympy.simplify(slope - printed) != 0
    assert sympy.simplify(corrected + 4 * a * (1 - a) * (1 - 2 * a) * (1 + r) ** 2) == 0


def test_equal_accuracy_in_both_classes_is_beta_equal_to_alpha():
    # 20 of 100 are class 1; 90 % right in each class: 18 + 72 right, 18/90 of them in class 1.
    truth = np.repeat([1, 0], [20, 80])
    learner = np.concatenate([np.repeat([1, 0], [18, 2]), np.repeat([0, 1], [72, 8])])
    expected = np.corrcoef(truth, learner)[0, 1]
    assert correlation_from_accuracy(0.9, alpha=0.2, beta=0.2) == pytest.approx(expected, abs=1e-12)


def test_a_constant_learner_has_no_correlation():
    with pytest.warns(UndefinedMeasureWarning, match="`correlation_from_accuracy` is undefined"):
        result = correlation_from_accuracy([0.3, 0.2], alpha=0.3, beta=1.0)
    assert np.isnan(result[0])
    assert result[1] < 0
    assert accuracy_from_correlation(0.0, alpha=0.3, beta=1.0) == pytest.approx(0.3)


@given(st.integers(2, 8), st.floats(0, 1))
def test_the_multiclass_form_holds_for_balanced_classes_with_even_errors(m, share):
    errors_each = round(share * 20)
    right = 20 * (m - 1) - errors_each * (m - 1)
    assume(right >= 0)
    confusion = np.full((m, m), errors_each) + np.diag(np.full(m, right - errors_each))
    truth = np.repeat(np.repeat(np.arange(m), m), confusion.ravel())
    learner = np.repeat(np.tile(np.arange(m), m), confusion.ravel())
    columns = [np.corrcoef(truth == k, learner == k)[0, 1] for k in range(m)]
    p = (truth == learner).mean()
    assert multiclass_correlation_from_accuracy(p, m) == pytest.approx(np.mean(columns), abs=1e-12)
    assert multiclass_accuracy_from_correlation(np.mean(columns), m) == pytest.approx(p, abs=1e-12)


def test_everything_broadcasts():
    assert correlation_from_accuracy(np.full((3, 1), 0.4), alpha=[0.4, 0.5]).shape == (3, 2)
    assert accuracy_from_correlation(np.full((3, 1), 0.2), beta=[0.5, 0.55], order=1).shape == (3, 2)
    assert multiclass_accuracy_from_correlation([[0.1], [0.2]], [2, 3, 10]).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: correlation_from_accuracy(1.2), ValueError, r"`p` must be between 0 and 1 .*; got 1\.2\."),
        (
            lambda: correlation_from_accuracy(0.9, alpha=0.3),
            ValueError,
            r"`p` must be between 0 and 0\.6 \(given alpha and beta\); got 0\.9\.",
        ),
        (
            lambda: correlation_from_accuracy(0.5, alpha=0),
            ValueError,
            r"`alpha` must be strictly between 0 and 1; got 0\.",
        ),
        (
            lambda: correlation_from_accuracy(0.5, alpha=1.0),
            ValueError,
            r"`alpha` must be strictly between 0 and 1; got 1\.",
        ),
        (
            lambda: correlation_from_accuracy(0.5, beta=-0.1),
            ValueError,
            r"`beta` must be between 0 and 1; got -0\.1\.",
        ),
        (lambda: correlation_from_accuracy("0.5"), TypeError, "`p` must be a number"),
        (lambda: correlation_from_accuracy(np.nan), ValueError, "`p` must not be NaN"),
        (lambda: accuracy_from_correlation(1.1), ValueError, r"`r_tl` must be between -1 and 1; got 1\.1\."),
        (
            lambda: accuracy_from_correlation(0.9, alpha=0.3),
            ValueError,
            r"`r_tl` must be between -1 and 0\.42\d+ \(given alpha and beta\)",
        ),
        (
            lambda: accuracy_from_correlation(0.1, order=2),
            ValueError,
            r"`order` must be one of None, 0, 1; got 2\.",
        ),
        (
            lambda: accuracy_from_correlation(0.1, order=True),
            TypeError,
            "`order` must be an integer; got True",
        ),
        (
            lambda: accuracy_from_correlation(0.1, order=0.0),
            TypeError,
            r"`order` must be an integer; got 0\.0",
        ),
        (
            lambda: correlation_from_accuracy([0.5, 0.6], alpha=[0.5, 0.5, 0.5]),
            ValueError,
            r"^`p`, `alpha` and `beta` must have shapes that broadcast; got \(2,\), \(3,\) and \(\)\.$",
        ),
        (
            lambda: accuracy_from_correlation([0.1, 0.2], beta=[0.5] * 3),
            ValueError,
            "^`r_tl`, `alpha` and `beta` must have shapes that broadcast",
        ),
        (
            lambda: multiclass_accuracy_from_correlation([0.1, 0.2], [2, 3, 4]),
            ValueError,
            "^`r_tl` and `n_classes` must have shapes that broadcast",
        ),
        (
            lambda: multiclass_correlation_from_accuracy([0.1, 0.2], [2, 3, 4]),
            ValueError,
            "^`p` and `n_classes` must have shapes that broadcast",
        ),
        (
            lambda: multiclass_accuracy_from_correlation(-0.6, 3),
            ValueError,
            r"`r_tl` must be between -0\.5 and 1; got -0\.6\.",
        ),
        (
            lambda: multiclass_accuracy_from_correlation(0.5, 1),
            ValueError,
            r"`n_classes` must be at least 2; got 1\.",
        ),
        (lambda: multiclass_correlation_from_accuracy(-0.1, 3), ValueError, "`p` must be between 0 and 1"),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()
