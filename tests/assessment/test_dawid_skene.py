"""The model of Dawid and Skene, against crowd-kit and against simulations of which the truth is known."""

import numpy as np
import pytest

from counterpoint.assessment import dawid_skene
from counterpoint.exceptions import ConvergenceWarning


def made(n_classes, n_samples=120, n_learners=5):
    rng = np.random.default_rng(7)
    truth = rng.integers(0, n_classes, n_samples)
    accuracy = np.linspace(0.85, 0.55, n_learners)[:, None]
    right = rng.random((n_learners, n_samples)) < accuracy
    votes = np.where(right, truth, rng.integers(0, n_classes, (n_learners, n_samples)))
    return truth, np.ma.masked_array(votes, rng.random(votes.shape) < 0.2)


def independent(accuracies, n_samples=4000, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, (len(accuracies), n_samples))) % n_classes
    right = rng.random(wrong.shape) < np.array(accuracies)[:, None]
    return truth, np.where(right, truth, wrong)


# crowd-kit 1.4.2 from PyPI on the votes of `made`, in its long format without the masked ones:
# OneCoinDawidSkene(n_iter=150, tol=-1e9) and DawidSkene(n_iter=1500, tol=-1e9), so that it does not stop early, without
# smoothing. `skills_` or the diagonals of `errors_`, worker by worker; `priors_`; the first probabilities of class 0.
CROWD_KIT = {
    ("one_coin", 2): (
        [0.909872374, 0.886877384, 0.813155621, 0.816599332, 0.705190159],
        [0.443937916, 0.556062084],
        [0.055010448, 0.162151399, 0.053003417, 0.07554175],
    ),
    ("confusion", 2): (
        [0.949474897, 0.890674154, 0.86454026, 0.904151767, 0.835665228,
         0.799346516, 0.811095653, 0.81170086, 0.702956658, 0.70385739],
        [0.435547666, 0.564452334],
        [0.03732987, 0.084258804, 0.053402863, 0.047300541],
    ),
    ("one_coin", 3): (
        [0.882658951, 0.865491019, 0.779076441, 0.704664627, 0.614244668],
        [0.261263352, 0.408064798, 0.33067185],
        [0.04236015, 0.083413111, 0.02662243, 0.0024187],
    ),
    ("confusion", 3): (
        [0.89407906, 0.957538774, 0.84323681, 0.955745683, 0.793342109, 0.898448706, 0.764595302, 0.861686643,
         0.67549708, 0.82723178, 0.722034701, 0.58003199, 0.586909376, 0.575535157, 0.678164692],
        [0.242015636, 0.398134082, 0.359850281],
        [0.003917557, 0.123947841, 0.0, 0.0],
    ),
}  # fmt: skip
# The same with the truth of the first 20 samples as `true_labels`: diagonals and priors for two classes.
WITH_TRUTH = (
    [0.890686396, 0.890822165, 0.858992593, 0.918671825, 0.810106888,
     0.816548155, 0.795131676, 0.836943805, 0.719135625, 0.74085666],
    [0.465743161, 0.534256839],
)  # fmt: skip
EXACT = {"smoothing": 0, "tolerance": 1e-11, "max_iter": 5000}


@pytest.mark.parametrize(("model", "n_classes"), CROWD_KIT)
def test_the_figures_are_those_of_crowd_kit(model, n_classes):
    _, votes = made(n_classes)
    found = dawid_skene(votes, model=model, **EXACT)
    right, prior, first = CROWD_KIT[model, n_classes]
    diagonals = np.diagonal(found.confusions, axis1=1, axis2=2)
    np.testing.assert_allclose(
        found.accuracies if model == "one_coin" else diagonals.ravel(), right, atol=1e-7
    )
    np.testing.assert_allclose(found.prior, prior, atol=1e-7)
    np.testing.assert_allclose(found.posterior[:4, 0], first, atol=1e-7)


def test_known_truths_are_clamped_as_crowd_kit_does():
    truth, votes = made(2)
    some = np.ma.masked_array(truth, np.arange(120) >= 20)
    found = dawid_skene(votes, some, model="confusion", **EXACT)
    np.testing.assert_allclose(
        np.diagonal(found.confusions, axis1=1, axis2=2).ravel(), WITH_TRUTH[0], atol=1e-7
    )
    np.testing.assert_allclose(found.prior, WITH_TRUTH[1], atol=1e-7)
    np.testing.assert_array_equal(found.consensus[:20], truth[:20])
    np.testing.assert_array_equal(found.confidence[:20], 1)


@pytest.mark.parametrize("model", ["one_coin", "confusion"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_independent_learners_are_seen_through_without_the_truth(model, n_classes):
    accuracies = [0.9, 0.8, 0.7, 0.6, 0.55]
    truth, votes = independent(accuracies, n_classes=n_classes)
    found = dawid_skene(votes, model=model)
    np.testing.assert_allclose(found.accuracies, accuracies, atol=0.03)
    share = (found.consensus == truth).mean()
    assert share == pytest.approx(found.confidence.mean(), abs=0.02)
    majority = np.array([np.bincount(column, minlength=n_classes).argmax() for column in votes.T])
    assert share > (majority == truth).mean()  # it knows whom to trust


@pytest.mark.parametrize("model", ["one_coin", "confusion"])
def test_standard_errors_are_the_spread_of_the_estimates(model):
    accuracies = [0.9, 0.8, 0.75, 0.7, 0.65]
    fits = [dawid_skene(independent(accuracies, 800, seed=seed)[1], model=model) for seed in range(60)]
    spread = np.std([fit.accuracies for fit in fits], axis=0)
    errors = np.mean([fit.errors for fit in fits], axis=0)
    np.testing.assert_allclose(errors, spread, rtol=0.3)
    truth_known = np.sqrt(np.array(accuracies) * (1 - np.array(accuracies)) / 800)
    assert (errors > truth_known).all()


def test_standard_errors_allow_for_groups():
    _, votes = independent([0.9, 0.8, 0.7, 0.6], 500)
    one = dawid_skene(votes, model="one_coin").errors
    four = np.repeat(votes, 4, axis=1)
    np.testing.assert_allclose(dawid_skene(four, model="one_coin").errors, one / 2, rtol=0.02)
    groups = np.repeat(np.arange(500), 4)
    np.testing.assert_allclose(dawid_skene(four, model="one_coin", groups=groups).errors, one, rtol=0.02)


def test_one_start_in_a_poor_place_does_not_decide():
    # Three experts among eight that toss coins: from equal shares EM may stop at coins that happen to agree.
    for seed in range(6):
        truth, votes = independent([0.95] * 3 + [0.5] * 8, 400, seed=seed)
        found = dawid_skene(votes, model="one_coin")
        assert (found.accuracies[:3] > 0.85).all()
        assert np.mean(found.consensus == truth) > 0.95


def test_many_classes_take_linear_memory_and_hide_no_label_that_nobody_gave():
    truth, votes = independent([0.8, 0.7, 0.6], 4000, n_classes=3000)
    found = dawid_skene(votes)
    assert (found.model, found.confusions) == ("one_coin", None)
    np.testing.assert_allclose(found.accuracies, [0.8, 0.7, 0.6], atol=0.03)
    some = np.ma.masked_array(truth, np.arange(4000) >= 500)  # some of these, nobody gave
    known = dawid_skene(votes, some)
    np.testing.assert_array_equal(known.consensus[:500], truth[:500])
    with pytest.raises(ValueError, match="`model` must be 'one_coin' for so many classes; got 2756 classes"):
        dawid_skene(votes, model="confusion")


def test_learners_that_share_errors_look_better_than_they_are():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 3000)
    hard = rng.normal(size=3000)
    skill = np.sqrt(0.5) * hard + np.sqrt(0.5) * rng.normal(size=(6, 3000))
    votes = np.where(skill < 0.524, truth, 1 - truth)  # right on 70 %
    found = dawid_skene(votes)
    assert found.accuracies.mean() > 0.79
    assert found.confidence.mean() > (found.consensus == truth).mean() + 0.15


def test_the_model_with_the_lower_bic_is_chosen():
    _, even = independent([0.8, 0.8, 0.7, 0.7])
    assert dawid_skene(even).model == "one_coin"
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 4000)
    strict = np.where(truth == 1, rng.random((4, 4000)) < 0.6, rng.random((4, 4000)) < 0.02).astype(int)
    found = dawid_skene(strict)
    assert found.model == "confusion"
    np.testing.assert_allclose(found.confusions[:, 1, 1], 0.6, atol=0.05)


def test_labels_and_patterns_do_not_matter():
    _, votes = independent([0.9, 0.7, 0.6], n_samples=200)
    words = np.array(["no", "yes"])[votes]
    twice = np.concatenate([votes, votes], axis=1)
    a, b = (
        dawid_skene(words, model="one_coin", smoothing=0),
        dawid_skene(twice, model="one_coin", smoothing=0),
    )
    np.testing.assert_allclose(a.accuracies, b.accuracies, atol=1e-6)
    assert set(a.consensus.tolist()) <= {"no", "yes"}
    assert a.posterior.shape == (200, 2)


def test_a_sample_without_votes_gets_the_shares_of_the_classes():
    _, votes = independent([0.9, 0.8, 0.7], n_samples=300)
    found = dawid_skene(np.ma.masked_array(votes, np.arange(300) == np.full((3, 1), 4)))
    np.testing.assert_allclose(found.posterior[4], found.prior, atol=1e-5)


def test_an_early_stop_is_a_warning():
    _, votes = made(3)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations; raise `max_iter`"):
        dawid_skene(votes, model="one_coin", max_iter=2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([[0, 1], [1, 1]],), ValueError, "at least 3 learners where no truth is known; got 2"),
        (([[1, 1]] * 3,), ValueError, "`outputs` must hold at least two different labels; got one"),
        (([[0, 1]] * 3, [None, None]), ValueError, "`y_true` must be known for at least one sample"),
        (([[0, 1]] * 3, ["a", None]), TypeError, "`outputs` must hold labels of the kind of `y_true`"),
        (([[0, 1]] * 3, [0, 1, None]), ValueError, "`outputs` must have 3 samples, as `y_true`"),
    ],
)
def test_bad_votes_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        dawid_skene(*arguments)


def test_bad_options_are_refused():
    with pytest.raises(
        ValueError, match="`model` must be one of 'auto', 'one_coin', 'confusion'; got 'coin'"
    ):
        dawid_skene([[0, 1]] * 3, model="coin")
    with pytest.raises(ValueError, match="`smoothing` must be at least 0; got -1"):
        dawid_skene([[0, 1]] * 3, smoothing=-1)
    with pytest.raises(ValueError, match="`max_iter` must be at least 1; got 0"):
        dawid_skene([[0, 1]] * 3, max_iter=0)
