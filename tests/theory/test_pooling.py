"""One family of losses: the facts behind it, and the two functions that carry them."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterpoint.measures import (
    ambiguity_decomposition,
    bias_variance_diversity,
    learner_learner_correlation,
    truth_learner_correlation,
)
from counterpoint.theory import critical_lambda, cross_entropy_diversity, geometric_pool

TOLERANCE = 1e-10
DIALS = st.floats(0, 2)


def softmax(logits):
    """Return the softmax over the last axis; complex numbers are welcome."""
    shares = np.exp(logits - logits.real.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def cross_entropy(target, proba):
    return -(target * np.log(proba)).sum(-1)


def finite(low, high):
    return st.floats(low, high, allow_nan=False)


@st.composite
def ensembles(draw, max_learners=6):
    """Logits (n_learners, n_samples, n_classes), soft targets that sum to one, and weights of the learners."""
    n_learners, n_samples, n_classes = draw(
        st.tuples(st.integers(1, max_learners), st.integers(1, 4), st.integers(2, 5))
    )
    logits = draw(hnp.arrays(float, (n_learners, n_samples, n_classes), elements=finite(-8, 8)))
    target = softmax(draw(hnp.arrays(float, (n_samples, n_classes), elements=finite(-4, 4))))
    weights = draw(hnp.arrays(float, n_learners, elements=finite(0.1, 3)))
    return logits, target, weights / weights.sum()


def standardise(columns):
    """Return columns of mean 0 and mean square 1 over the last axis."""
    centred = columns - columns.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True))


def blend(truth, learners, dial):
    """Return the strength-weighted mean of the learners' squared errors and the squared error of their mean."""
    own = ((truth - learners) ** 2).mean()
    pooled = ((truth - learners.mean(0)) ** 2).mean()
    return (1 - dial) * own + dial * pooled


def random_classifiers(seed, n_learners, n_classes):
    """Return labels and probabilities, with no constant column."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(24) % n_classes)
    logits = rng.standard_normal((n_learners, 24, n_classes))
    logits[:, np.arange(24), y] += 1
    return y, logits


@given(st.integers(2, 12), st.integers(2, 4), DIALS, st.integers(0, 2**32 - 1))
def test_the_papers_loss_is_negative_correlation_learning_on_standardised_outputs(n, n_classes, dial, seed):
    y, logits = random_classifiers(seed, n, n_classes)
    proba, lam = softmax(logits), dial * critical_lambda(n)
    r_tl = np.mean(truth_learner_correlation(y, proba))
    r_ll = np.mean(learner_learner_correlation(proba)[np.triu_indices(n, 1)])
    columns = standardise(np.moveaxis(proba, 1, -1))  # (n_learners, n_classes, n_samples)
    truth = standardise(np.eye(n_classes)[y].T)
    expected = blend(truth, columns, dial)
    assert 2 * (lam * r_ll - r_tl) + 2 * (1 - lam) == pytest.approx(expected, abs=TOLERANCE)


@given(st.integers(2, 8), st.integers(2, 4), DIALS, st.integers(0, 2**32 - 1))
def test_the_training_loss_is_that_blend_and_so_is_its_gradient(n, n_classes, dial, seed):
    torch = pytest.importorskip("torch")
    from counterpoint.training import correlation_loss

    def standardised(x):
        return (x - x.mean(-2, keepdim=True)) / x.std(-2, keepdim=True, correction=0)

    y, logits = random_classifiers(seed, n, n_classes)
    ours = torch.tensor(logits, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    lam = float(dial * critical_lambda(n))
    loss = 2 * correlation_loss(ours, torch.tensor(y), lam=lam) + 2 * (1 - lam)
    z, truth = standardised(theirs.softmax(-1)), standardised(torch.eye(n_classes, dtype=torch.float64)[y])
    reference = (1 - dial) * ((truth - z) ** 2).mean() + dial * ((truth - z.mean(0)) ** 2).mean()
    assert loss.item() == pytest.approx(reference.item(), abs=TOLERANCE)
    loss.backward()
    reference.backward()
    assert ours.grad.numpy() == pytest.approx(theirs.grad.numpy(), abs=TOLERANCE)


def test_at_the_critical_lambda_only_perfect_learners_have_a_perfect_standardised_mean():
    # The mean of columns of mean square 1 has mean square 1 only if they are all the same. Opposed learners, which
    # cancel in the mean of plain outputs, leave it too short.
    truth = standardise(np.array([0.0, 0, 1, 1]))
    noise = np.array([1.0, -1, 1, -1])
    assert blend(truth, np.stack([truth + noise, truth - noise]), 1) == 0
    assert blend(truth, standardise(np.stack([truth + noise, truth - noise])), 1) > 0.05
    assert blend(truth, np.stack([truth, truth]), 1) == 0


@given(ensembles(), DIALS)
def test_negative_correlation_learning_is_a_blend_of_own_and_pooled_squared_error(ensemble, dial):
    logits, target, weights = ensemble
    proba = softmax(logits)
    pool = np.tensordot(weights, proba, 1)
    own = weights @ ((target - proba) ** 2).sum(-1)
    pooled = ((target - pool) ** 2).sum(-1)
    ambiguity = weights @ ((proba - pool) ** 2).sum(-1)
    assert own == pytest.approx(pooled + ambiguity, abs=TOLERANCE)
    assert own - dial * ambiguity == pytest.approx((1 - dial) * own + dial * pooled, abs=TOLERANCE)
    assert own - dial * ambiguity == pytest.approx(pooled + (1 - dial) * ambiguity, abs=TOLERANCE)


def test_the_measure_of_ambiguity_is_the_one_of_the_family():
    y, logits = random_classifiers(0, 5, 3)
    proba = softmax(logits)
    parts = ambiguity_decomposition(y, proba)
    target = np.eye(3)[y]
    assert parts.average_error == pytest.approx(((target - proba) ** 2).sum(-1).mean())
    assert parts.average_error - parts.ambiguity == pytest.approx(parts.ensemble_error)


@given(ensembles())
def test_cross_entropy_of_the_learners_is_that_of_the_geometric_pool_plus_the_diversity(ensemble):
    logits, target, weights = ensemble
    proba = softmax(logits)
    pool, diversity = geometric_pool(proba, weights=weights), cross_entropy_diversity(proba, weights=weights)
    own = weights @ cross_entropy(target, proba)
    assert own == pytest.approx(cross_entropy(target, pool) + diversity, abs=TOLERANCE)
    assert diversity == pytest.approx(weights @ (pool * np.log(pool / proba)).sum(-1), abs=TOLERANCE)


@given(ensembles(), DIALS)
def test_accuracy_less_diversity_is_a_blend_of_own_and_pooled_cross_entropy(ensemble, dial):
    logits, target, _ = ensemble
    proba = softmax(logits)
    own, pooled = cross_entropy(target, proba).mean(0), cross_entropy(target, geometric_pool(proba=proba))
    diversity = cross_entropy_diversity(proba)
    assert own - dial * diversity == pytest.approx((1 - dial) * own + dial * pooled, abs=TOLERANCE)
    assert own - dial * diversity == pytest.approx(pooled + (1 - dial) * diversity, abs=TOLERANCE)


@given(ensembles())
def test_the_pool_gains_the_same_whatever_the_label(ensemble):
    logits, _, weights = ensemble
    proba = softmax(logits)
    gain = np.log(geometric_pool(proba, weights=weights)) - np.tensordot(weights, np.log(proba), 1)
    diversity = cross_entropy_diversity(proba, weights=weights)
    assert gain == pytest.approx(np.broadcast_to(diversity[..., None], gain.shape), abs=TOLERANCE)


@given(ensembles())
def test_the_geometric_pool_is_the_softmax_of_the_averaged_logits(ensemble):
    logits, _, weights = ensemble
    pool = geometric_pool(softmax(logits), weights=weights)
    assert pool == pytest.approx(softmax(np.tensordot(weights, logits, 1)), abs=TOLERANCE)
    assert pool.sum(-1) == pytest.approx(1, abs=TOLERANCE)


@given(ensembles())
def test_no_distribution_is_nearer_to_the_learners_than_the_pool(ensemble):
    logits, other, weights = ensemble
    proba = softmax(logits)
    distance = weights @ (other * np.log(other / proba)).sum(-1)  # mean KL(other || p_i)
    diversity = cross_entropy_diversity(proba, weights=weights)
    assert (distance >= diversity - TOLERANCE).all()
    nearness = (other * np.log(other / geometric_pool(proba, weights=weights))).sum(-1)
    assert distance == pytest.approx(diversity + nearness, abs=TOLERANCE)


@given(ensembles())
def test_the_diversity_is_zero_exactly_when_the_learners_agree(ensemble):
    logits, _, weights = ensemble
    proba = softmax(logits)
    diversity = cross_entropy_diversity(proba, weights=weights)
    pool = geometric_pool(proba, weights=weights)
    apart = weights @ (np.abs(proba - pool).sum(-1) ** 2) / 2  # Pinsker: KL >= (sum of |differences|)^2 / 2
    assert (diversity >= 0).all()
    assert (diversity >= apart - TOLERANCE).all()
    same = np.broadcast_to(proba[:1], proba.shape)
    assert cross_entropy_diversity(same, weights=weights) == pytest.approx(0, abs=TOLERANCE)
    assert geometric_pool(same, weights=weights) == pytest.approx(same[0], abs=TOLERANCE)


@given(ensembles(), st.integers(1, 4))
def test_a_whole_weight_is_that_many_equal_learners(ensemble, times):
    logits, _, _ = ensemble
    proba = softmax(logits)
    weights = [times, *[1] * (len(proba) - 1)]
    repeated = np.concatenate([proba[:1]] * times + [proba[1:]])
    assert geometric_pool(proba, weights=weights) == pytest.approx(geometric_pool(repeated), abs=TOLERANCE)
    diversity = cross_entropy_diversity(proba, weights=weights)
    assert diversity == pytest.approx(cross_entropy_diversity(repeated), abs=TOLERANCE)


def test_the_measures_find_the_same_diversity():
    y, logits = random_classifiers(1, 6, 4)
    parts = bias_variance_diversity(y, softmax(logits), loss="cross_entropy")
    assert cross_entropy_diversity(softmax(logits)).mean() == pytest.approx(parts.diversity, abs=TOLERANCE)


@given(ensembles(), finite(1.01, 2), finite(1, 30))
def test_beyond_one_the_loss_has_no_minimum(ensemble, dial, push):
    # Two learners that move apart keep their pool, while their diversity grows without end.
    logits, target, _ = ensemble
    direction = np.zeros(logits.shape[-1])
    direction[0] = 1
    pairs = [
        np.stack([logits[0] + far * direction, logits[0] - far * direction]) for far in (0, push, 20 * push)
    ]
    pools = [geometric_pool(softmax(pair)) for pair in pairs]
    assert pools[2] == pytest.approx(pools[0], abs=1e-7)
    losses = [
        (cross_entropy(target, pool) + (1 - dial) * cross_entropy_diversity(softmax(pair))).mean()
        for pair, pool in zip(pairs, pools, strict=True)
    ]
    assert losses[0] > losses[1] > losses[2]


def test_what_averaged_probabilities_gain_depends_on_the_label():
    p = sympy.Matrix([[sympy.Rational(9, 10), sympy.Rational(1, 10)], [sympy.Rational(1, 2)] * 2])
    gains = [
        sympy.log((p[0, k] + p[1, k]) / 2) - (sympy.log(p[0, k]) + sympy.log(p[1, k])) / 2 for k in (0, 1)
    ]
    assert [round(float(gain), 4) for gain in gains] == [0.0426, 0.2939]
    assert sympy.simplify(sympy.exp(gains[1] - gains[0])) == sympy.Rational(9, 7)


@given(ensembles())
def test_averaged_probabilities_are_never_worse_than_the_learners(ensemble):
    logits, target, weights = ensemble
    proba = softmax(logits)
    pooled = cross_entropy(target, np.tensordot(weights, proba, 1))
    assert (pooled <= weights @ cross_entropy(target, proba) + TOLERANCE).all()


@given(ensembles())
def test_two_labels_have_one_gain_only_if_the_two_pools_agree_on_their_odds(ensemble):
    logits, _, weights = ensemble
    proba = softmax(logits)
    geometric, arithmetic = geometric_pool(proba, weights=weights), np.tensordot(weights, proba, 1)
    gain = np.log(arithmetic) - np.tensordot(weights, np.log(proba), 1)
    odds = np.log(arithmetic / geometric)
    assert gain - gain[..., :1] == pytest.approx(odds - odds[..., :1], abs=TOLERANCE)


@given(ensembles(max_learners=3), finite(0, 1))
def test_the_gradient_in_the_logits_blends_the_residuals_of_learner_and_pool(ensemble, dial):
    logits, target, weights = ensemble

    def loss(logits):
        own = weights @ cross_entropy(target, softmax(logits))
        return (
            (1 - dial) * own + dial * cross_entropy(target, softmax(np.tensordot(weights, logits, 1)))
        ).sum()

    proba = softmax(logits)
    pool = geometric_pool(proba, weights=weights)
    gradient = weights[:, None, None] * ((1 - dial) * proba + dial * pool - target)
    step = 1e-30  # a complex step: a difference quotient that subtracts nothing
    for place in np.ndindex(logits.shape):
        moved = logits.astype(complex)
        moved[place] += step * 1j
        assert loss(moved).imag / step == pytest.approx(gradient[place], abs=TOLERANCE)


@given(ensembles(max_learners=3), finite(0, 1))
def test_the_gradient_agrees_with_central_differences(ensemble, dial):
    logits, target, _ = ensemble
    n = len(logits)

    def loss(logits):
        return (
            cross_entropy(target, softmax(logits)).mean(0) - dial * cross_entropy_diversity(softmax(logits))
        ).sum()

    proba = softmax(logits)
    gradient = ((1 - dial) * proba + dial * geometric_pool(proba) - target) / n
    for place in np.ndindex(logits.shape):
        move = np.zeros_like(logits)
        move[place] = 1e-5
        difference = (loss(logits + move) - loss(logits - move)) / 2e-5
        assert difference == pytest.approx(gradient[place], abs=1e-8)


def test_at_one_every_learner_gets_the_same_gradient():
    torch = pytest.importorskip("torch")
    _, logits = random_classifiers(2, 4, 3)
    tensor = torch.tensor(logits, requires_grad=True)
    torch.nn.functional.cross_entropy(
        tensor.mean(0), torch.zeros(24, dtype=torch.long), reduction="sum"
    ).backward()
    expected = (geometric_pool(softmax(logits)) - np.eye(3)[0]) / 4
    assert tensor.grad.numpy() == pytest.approx(np.broadcast_to(expected, logits.shape), abs=TOLERANCE)


@given(ensembles(), st.data())
def test_a_class_that_a_learner_rules_out_is_out_of_the_pool(ensemble, data):
    logits, _, weights = ensemble
    proba = softmax(logits)
    learner = data.draw(st.integers(0, len(proba) - 1))
    out = data.draw(st.integers(0, proba.shape[-1] - 1))
    proba[learner, ..., out] = 0
    proba /= proba.sum(-1, keepdims=True)
    pool = geometric_pool(proba, weights=weights)
    assert (pool[..., out] == 0).all()
    assert pool.sum(-1) == pytest.approx(1)
    rest = np.delete(proba, out, axis=-1)
    mass = np.log(rest.sum(-1))
    expected = weights @ -mass + cross_entropy_diversity(rest / rest.sum(-1, keepdims=True), weights=weights)
    assert cross_entropy_diversity(proba, weights=weights) == pytest.approx(expected, abs=TOLERANCE)


def test_learners_that_share_no_class_have_no_pool_and_infinite_diversity():
    proba = [[[0.5, 0.5], [1, 0]], [[0.5, 0.5], [0, 1]]]
    assert cross_entropy_diversity(proba).tolist() == [0, np.inf]
    with pytest.raises(
        ValueError, match=r"`proba` must have a class .* positive probability; got none at \[1\]\."
    ):
        geometric_pool(proba)
    with pytest.raises(ValueError, match=r"got none\.$"):
        geometric_pool([[1, 0], [0, 1]])


def test_a_learner_without_weight_has_no_say():
    assert geometric_pool([[0.3, 0.7], [0, 1]], weights=[2, 0]) == pytest.approx([0.3, 0.7])
    assert cross_entropy_diversity([[0.3, 0.7], [0, 1]], weights=[2, 0]) == pytest.approx(0, abs=TOLERANCE)


def test_logits_far_apart_neither_overflow_nor_vanish():
    proba = [[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]]
    assert geometric_pool(proba) == pytest.approx([0.5, 0.5])
    assert cross_entropy_diversity(proba) == pytest.approx(-np.log(2) - np.log(1e-300) / 2)
    many = np.tile([[0.9, 0.1]], (5000, 1))  # the product of 5000 probabilities is below the smallest float
    assert geometric_pool(many) == pytest.approx([0.9, 0.1])


def test_rows_of_sixteen_bits_are_scaled_to_a_sum_of_one():
    exact = softmax(np.random.default_rng(3).standard_normal((3, 50, 7)))
    rounded = exact.astype(np.float16)
    misses = np.abs(rounded.astype(float).sum(-1) - 1)
    assert misses.max() > 1e-5
    scaled = rounded.astype(float) / rounded.astype(float).sum(-1, keepdims=True)
    assert cross_entropy_diversity(rounded) == pytest.approx(cross_entropy_diversity(scaled), abs=TOLERANCE)
    same = np.repeat(rounded[:1], 3, axis=0)
    assert cross_entropy_diversity(same) == pytest.approx(0, abs=TOLERANCE)


@pytest.mark.parametrize("shape", [(3, 4), (3, 5, 4), (3, 2, 5, 4), (1, 4)])
def test_every_axis_between_learners_and_classes_is_kept(shape):
    proba = softmax(np.random.default_rng(0).standard_normal(shape))
    pool, diversity = geometric_pool(proba), cross_entropy_diversity(proba)
    assert pool.shape == shape[1:]
    assert np.shape(diversity) == shape[1:-1]
    first = (slice(None), *[0] * (len(shape) - 2))
    assert pool[first[1:]] == pytest.approx(geometric_pool(proba[first]))


@pytest.mark.parametrize("function", [geometric_pool, cross_entropy_diversity])
@pytest.mark.parametrize(
    ("proba", "weights", "error", "words"),
    [
        (
            [0.5, 0.5],
            None,
            ValueError,
            r"`proba` must have shape \(n_learners, \.\.\., n_classes\); .* \(2,\)",
        ),
        (
            [[0.5, 0.6]],
            None,
            ValueError,
            "`proba` must hold probabilities that sum to one .* a sum of 1.1 at learner 0",
        ),
        ([[1.2, -0.2]], None, ValueError, r"`proba` must hold probabilities, between 0 and 1; got 1\.2"),
        ([[0.5, np.nan]], None, ValueError, r"`proba` must not be NaN; got nan at \[0, 1\]"),
        ([["a", "b"]], None, TypeError, "`proba` must be a number or an array of numbers"),
        (np.ma.masked_less([[0.4, 0.6]], 0.5), None, ValueError, "`proba` must have no masked entry"),
        ([[0.5, 0.5]] * 2, [1, 2, 3], ValueError, r"`weights` must have shape \(2,\), one per learner"),
        ([[0.5, 0.5]] * 2, [1, -1], ValueError, r"`weights` must be at least 0; got -1 at \[1\]"),
        ([[0.5, 0.5]] * 2, [0, 0], ValueError, "`weights` must have a positive, finite sum; got 0"),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(function, proba, weights, error, words):
    with pytest.raises(error, match=words):
        function(proba, weights=weights)
