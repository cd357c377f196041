import numpy as np
import pytest
from hypothesis import given
from scipy.special import rel_entr
from scipy.stats import binom

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import c_bound, disagreement, tandem_bound
from tests.measures.references import ensembles, random_probabilities, random_votes


def vote_margins(y_true, votes, weights):
    """Return the share of the truth less the largest other share, by a loop over samples."""
    margins = []
    for s, truth in enumerate(y_true):
        shares = dict.fromkeys(range(5), 0.0)
        for weight, row in zip(weights, votes, strict=True):
            shares[row[s]] += weight
        margins.append(shares.pop(truth) - max(shares.values()))
    return np.array(margins)


@given(ensemble=ensembles)
def test_the_c_bound_holds_on_its_own_sample(ensemble):
    y_true, votes = ensemble
    margins = vote_margins(y_true, votes, np.full(len(votes), 1 / len(votes)))
    if margins.mean() > 1e-9:
        bound = c_bound(y_true, votes)
        assert bound == pytest.approx(1 - margins.mean() ** 2 / (margins**2).mean(), abs=1e-9)
        assert (margins <= 1e-12).mean() <= bound + 1e-12
    elif margins.mean() < -1e-9:
        with pytest.warns(UndefinedMeasureWarning, match="`c_bound` .* mean margin is not positive"):
            assert np.isnan(c_bound(y_true, votes))


def test_the_c_bound_of_two_classes_is_a_function_of_disagreement():
    y_true, votes = random_votes(0, 7, 400, 2)
    weights = np.random.default_rng(0).random(7)
    w = weights / weights.sum()
    first = 2 * w @ (votes == y_true).mean(axis=1) - 1
    second = 1 - 2 * w @ disagreement(y_true, votes) @ w
    # Germain et al. (2015): 1 - (1 - 2 risk)^2 / (1 - 2 disagreement).
    assert c_bound(y_true, votes, weights=weights) == pytest.approx(1 - first**2 / second)


def test_the_c_bound_is_attained_by_a_margin_of_zero_and_one_more_value():
    # Half of the samples split two learners, the others have both right: P(M <= 0) = 1/2.
    assert c_bound([0, 0, 1, 1], [[0, 0, 1, 1], [0, 1, 1, 0]]) == pytest.approx(0.5)


def test_learners_always_right_have_a_c_bound_of_zero():
    assert c_bound([0, 1, 1], [[0, 1, 1]]) == 0
    assert c_bound(["a", "a"], [["a", "a"], ["a", "a"]]) == 0


def test_the_tandem_loss_is_the_share_of_common_errors():
    y_true, votes = random_votes(1, 5, 300, 3)
    weights = np.array([1, 2, 3, 4, 0])
    wrong = votes != y_true
    w = weights / weights.sum()
    result = tandem_bound(y_true, votes, weights=weights)
    assert result.tandem_loss == pytest.approx(((w @ wrong) ** 2).mean())
    assert result.divergence == pytest.approx(rel_entr(w, 0.2).sum())
    assert (result.confidence, result.n_samples) == (0.95, 300)


@pytest.mark.parametrize("weights", [np.ones(15), np.arange(15)])
def test_the_tandem_bound_inverts_the_divergence_exactly(weights):
    y_true, votes = random_votes(2, 15, 4000, 2, accuracy=0.9)
    result = tandem_bound(y_true, votes, weights=weights, confidence=0.9)
    loss, limit = result.tandem_loss, result.bound / 4
    assert loss < limit < 0.25
    divergence = rel_entr(loss, limit) + rel_entr(1 - loss, 1 - limit)
    price = 2 * rel_entr(weights / weights.sum(), 1 / 15).sum()
    assert divergence == pytest.approx((price + np.log(2 * np.sqrt(4000) / 0.1)) / 4000, rel=1e-6)


@pytest.mark.parametrize("tuned", [False, True])
def test_the_tandem_bound_holds_as_often_as_it_says(tuned):
    # Samples are hard or easy, and learners independent given which, so both the tandem loss and
    # the vote's error are known. The bound may use weights tuned on its own sample.
    rng = np.random.default_rng(3)
    n_learners, n_samples, repeats = 9, 100, 400
    hard, p_easy, p_hard = 0.3, 0.95, 0.6
    both, single = (hard * (1 - p_hard) ** k + (1 - hard) * (1 - p_easy) ** k for k in (2, 1))
    vote_error = hard * binom.cdf(4, n_learners, p_hard) + (1 - hard) * binom.cdf(4, n_learners, p_easy)
    missed = 0
    for _ in range(repeats):
        chance = np.where(rng.random(n_samples) < hard, p_hard, p_easy)
        votes = (rng.random((n_learners, n_samples)) < chance).astype(int)
        weights = np.exp(20 * votes.mean(axis=1)) if tuned else np.ones(n_learners)
        truth = np.ones(n_samples, dtype=int)
        result = tandem_bound(truth, votes, weights=weights, confidence=0.8)
        w = weights / weights.sum()
        missed += both + (single - both) * (w @ w) > result.bound / 4
        assert tuned or vote_error <= result.bound
    # At most one in five may miss; three standard errors of the repeats are added.
    assert missed / repeats <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / repeats)


def test_the_tandem_bound_narrows_with_samples_and_confidence():
    y_true, votes = random_votes(4, 11, 20_000, 2, accuracy=0.8)
    few = tandem_bound(y_true[:500], votes[:, :500])
    many = tandem_bound(y_true, votes)
    bold = tandem_bound(y_true, votes, confidence=0.5)
    assert bold.bound < many.bound < few.bound
    assert many.bound == pytest.approx(4 * many.tandem_loss, abs=0.05)


def test_few_samples_or_bad_learners_say_nothing():
    assert tandem_bound([0, 1], [[0, 1], [0, 1]]).bound == 1
    assert tandem_bound([0, 1] * 100, [[1, 0] * 100] * 3).bound == 1


def test_probabilities_are_bounded_as_their_votes():
    y_true, proba = random_probabilities(5, 5, 400, 3)
    votes = proba.argmax(axis=2)
    assert tandem_bound(y_true, proba) == tandem_bound(y_true, votes)
    assert c_bound(y_true, proba) == c_bound(y_true, votes)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1])
def test_confidence_is_strictly_between_zero_and_one(confidence):
    with pytest.raises(ValueError, match="`confidence` must be strictly between 0 and 1; got"):
        tandem_bound([0, 1], [[0, 1]], confidence=confidence)
