"""The plurality vote: held against simulation, against the majority of two classes, and at its limits."""

from itertools import product
from time import process_time

import numpy as np
import pytest
from scipy import stats

from counterpoint.theory import jury_accuracy, mixed_vote_accuracy, plurality_accuracy
from counterpoint.theory._jury import binomial
from counterpoint.theory.plurality import plurality_credit


@pytest.mark.parametrize("c", [-0.05, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_of_two_classes_it_is_the_majority(n, c):
    assert plurality_accuracy(0.7, c, n, n_classes=2) == pytest.approx(jury_accuracy(0.7, c, n), abs=1e-9)


@pytest.mark.parametrize("n", [1, 5, 301])
def test_binomial_probabilities_are_those_of_scipy_and_finite_at_the_ends(n):
    k = np.arange(n + 1)
    for p in (1e-9, 0.3, 0.5, 0.999):
        np.testing.assert_allclose(
            binomial(k, n, np.array(p)), stats.binom.pmf(k, n, p), rtol=1e-9, atol=1e-300
        )
    for p in (0.0, 1e-300, 5e-324, 1.0):
        assert binomial(k, n, np.array(p)).sum() == pytest.approx(1)


def simulated_credit(k, w, n_wrong, alpha, rng, n_draws=100_000):
    shares = rng.dirichlet(np.full(n_wrong, alpha / n_wrong), n_draws) if np.isfinite(alpha) else None
    even = np.full(n_wrong, 1 / n_wrong)
    counts = rng.multinomial(w, even if shares is None else shares, size=n_draws)
    return np.mean((counts.max(1) <= k) / (1 + (counts == k).sum(1)))


@pytest.mark.parametrize("alpha", [0.5, 4.0, np.inf])
@pytest.mark.parametrize(("k", "w", "n_wrong"), [(1, 2, 9), (2, 3, 2), (3, 9, 4), (4, 10, 9)])
def test_the_credit_is_that_of_an_urn(k, w, n_wrong, alpha):
    agreement = 1 / n_wrong if np.isinf(alpha) else (1 + alpha / n_wrong) / (1 + alpha)
    found = plurality_credit(k + w, n_wrong + 1, agreement)[k]
    expected = simulated_credit(k, w, n_wrong, alpha, np.random.default_rng(0))
    assert found == pytest.approx(expected, abs=0.006)


def enumerated_credit(k, w, n_wrong, agreement):
    """Return the credit by going through all answers of an urn, one after the other."""
    alpha = (1 - agreement) / (agreement - 1 / n_wrong)
    credit = 0.0
    for answers in product(range(n_wrong), repeat=w):
        counts, chance = np.zeros(n_wrong), 1.0
        for drawn, answer in enumerate(answers):
            chance *= (alpha / n_wrong + counts[answer]) / (alpha + drawn)
            counts[answer] += 1
        credit += chance * (counts.max() <= k) / (1 + (counts == k).sum())
    return credit


@pytest.mark.parametrize("agreement", [0.35, 0.6, 0.95])
@pytest.mark.parametrize(("w", "n_wrong"), [(3, 3), (5, 4), (8, 3)])
def test_the_credit_is_that_of_all_answers_of_an_urn(w, n_wrong, agreement):
    for k in range(1, w + 1):
        found = plurality_credit(k + w, n_wrong + 1, agreement)[k]
        assert found == pytest.approx(enumerated_credit(k, w, n_wrong, agreement), abs=1e-11)


def test_of_countless_classes_wrong_answers_agree_as_in_a_chinese_restaurant():
    """With ever more classes the urn becomes Ewens's: a wrong answer joins an old one or is new."""
    rng, alpha, w, k = np.random.default_rng(0), 2.0, 12, 4
    counts = np.zeros((50_000, w))
    rows = np.arange(len(counts))
    for drawn in range(w):
        cumulated = np.cumsum(counts[:, :drawn], axis=1)
        place = (rng.random(len(counts))[:, None] * (alpha + drawn) >= cumulated).sum(axis=1)
        counts[rows, np.where(place < drawn, place, drawn)] += 1
    expected = np.mean((counts.max(axis=1) <= k) / (1 + (counts == k).sum(axis=1)))
    found = plurality_credit(k + w, 100_000, 1 / (1 + alpha))[k]
    assert found == pytest.approx(expected, abs=0.007)


@pytest.mark.parametrize("n", [3, 40, 301])
def test_the_number_of_classes_may_be_anything(n):
    """Once there are more classes than votes, further ones hardly matter, and no number overflows."""
    curves = np.array([plurality_credit(n, m, 0.3) for m in (2_000, 30_000, 100_000)])
    assert np.isfinite(curves).all()
    assert (np.diff(curves, axis=1) >= -1e-7).all()  # never worse with more right votes
    np.testing.assert_allclose(curves[1], curves[2], atol=1e-4)
    np.testing.assert_allclose(curves[0], curves[2], atol=3e-3)


def test_hundreds_of_answers_in_a_hundred_thousand_classes_take_no_time():
    start = process_time()
    assert 0.9 < plurality_accuracy(0.3, 0.05, 300, n_classes=100_000, agreement=0.02) <= 1
    assert process_time() - start < 1


@pytest.mark.parametrize("c", [-0.05, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_learners_that_are_never_or_always_right_vote_so(p, c):
    assert plurality_accuracy(p, c, 5, n_classes=4) == p


def test_alike_wrong_votes_are_a_second_class():
    for n in (3, 6, 9):
        same = plurality_accuracy(0.6, 0.2, n, n_classes=7, agreement=1.0)
        assert same == pytest.approx(plurality_accuracy(0.6, 0.2, n, n_classes=2))


def test_the_more_wrong_votes_agree_the_worse():
    found = [plurality_accuracy(0.5, 0.1, 9, n_classes=6, agreement=a) for a in (0.2, 0.4, 0.7, 1.0)]
    assert found == sorted(found, reverse=True)


def test_unequal_learners_with_equal_means_are_near_equal_ones():
    p = np.array([0.5, 0.55, 0.6, 0.65, 0.7])
    mixed = mixed_vote_accuracy(p, 0.1, n_classes=5)
    assert mixed == pytest.approx(plurality_accuracy(0.6, 0.1, 5, n_classes=5), abs=0.01)
    same = mixed_vote_accuracy(np.full(5, 0.6), 0.1, n_classes=5, agreement=0.4)
    assert same == pytest.approx(plurality_accuracy(0.6, 0.1, 5, n_classes=5, agreement=0.4))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plurality_accuracy(0.6, 0.1, 5, n_classes=1), "`n_classes` must be"),
        (lambda: plurality_accuracy(0.6, 0.1, 0, n_classes=3), "`n_learners` must be"),
        (lambda: plurality_accuracy(0.6, 0.1, 5, n_classes=3, agreement=0.4), "`agreement` must be"),
        (lambda: plurality_accuracy(0.6, 0.1, 5, n_classes=3, agreement=1.1), "`agreement` must be"),
        (lambda: mixed_vote_accuracy([0.6, 0.7], 0.1, weights=[1, 2], n_classes=3), "`weights` must be None"),
    ],
)
def test_what_has_no_meaning_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
