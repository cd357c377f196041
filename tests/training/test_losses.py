from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.theory import critical_lambda, cross_entropy_diversity
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    correlation_loss,
    correlations,
    fit,
)
from counterpoint.training.ensemble_loss import as_ensemble_loss

LOSSES = [
    CorrelationLoss(0.7),
    DiversityLoss(),
    DiversityLoss(0.6),
    DiversityLoss(0.6, pool="probabilities"),
    IndependentLoss(),
    JointLoss(),
    JointLoss(pool="logits"),
    NegativeCorrelationLoss(0.4),
]


def batch(n_learners=4, size=40, n_classes=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_learners, size, n_classes, generator=generator, dtype=dtype, requires_grad=True)
    return logits, torch.randint(n_classes, (size,), generator=generator)


def corr(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.norm() * b.norm())


def papers_loops(logits, target, lam, reduction):
    """The algorithm box of the paper, loop by loop; its means as in the equation."""
    outputs, truth = logits.softmax(-1), nn.functional.one_hot(target, logits.shape[-1]).to(logits)
    n, _, m = outputs.shape
    r_tl = r_ll = torch.zeros((), dtype=logits.dtype)
    for k in range(m):
        for j in range(n):
            r_tl = r_tl + corr(truth[:, k], outputs[j][:, k])
            for i in range(n):
                if i < j:
                    r_ll = r_ll + corr(outputs[i][:, k], outputs[j][:, k])
    if reduction == "mean":
        r_tl, r_ll = r_tl / (n * m), r_ll / (m * n * (n - 1) / 2)
    return -(r_tl - lam * r_ll)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(2, 5),
    st.floats(0, 2),
    st.sampled_from(["mean", "sum"]),
    st.integers(0, 10**6),
)
def test_the_loss_and_its_gradient_are_those_of_the_papers_loops(n, m, lam, reduction, seed):
    logits, target = batch(n, 40, m, seed)
    if len(target.unique()) < m:
        return
    ours, loops = (
        correlation_loss(logits, target, lam=lam, reduction=reduction),
        papers_loops(logits, target, lam, reduction),
    )
    assert ours.item() == pytest.approx(loops.item(), abs=1e-12)
    (gradient,) = torch.autograd.grad(ours, logits)
    (expected,) = torch.autograd.grad(loops, logits)
    assert torch.allclose(gradient, expected, atol=1e-12)


def test_float32_agrees_to_1e_6():
    logits, target = batch()
    single = correlation_loss(logits.float(), target, lam=0.5)
    assert single.item() == pytest.approx(correlation_loss(logits, target, lam=0.5).item(), abs=1e-6)


def test_the_correlations_are_those_of_the_measures():
    logits, target = batch(n_learners=5)
    proba = logits.detach().softmax(-1)
    found = correlations(proba, target)
    pairs = np.triu_indices(5, 1)
    assert found.r_tl.item() == pytest.approx(
        truth_learner_correlation(target.numpy(), proba.numpy()).mean(), abs=1e-12
    )
    assert found.r_ll.item() == pytest.approx(
        learner_learner_correlation(proba.numpy())[pairs].mean(), abs=1e-12
    )


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("activation", ["softmax", "identity"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck(reduction, activation, weighted):
    logits, target = batch(3, 12)
    weight = torch.rand(12, dtype=torch.float64) + 0.1 if weighted else None
    values = logits.detach().softmax(-1).requires_grad_() if activation == "identity" else logits
    options = {"lam": 0.7, "reduction": reduction, "activation": activation, "sample_weight": weight}
    assert torch.autograd.gradcheck(lambda z: correlation_loss(z, target, **options), (values,))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_whole_weights_are_repeated_samples(loss):
    logits, target = batch()
    times = torch.randint(1, 4, (40,))
    repeated = loss(logits.repeat_interleave(times, 1), target.repeat_interleave(times))
    assert loss(logits, target, times.double()).item() == pytest.approx(repeated.item(), abs=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_order_of_the_learners_does_not_matter(loss):
    logits, target = batch()
    assert loss(logits[[2, 0, 3, 1]], target).item() == pytest.approx(loss(logits, target).item(), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("size", [40, 3])  # also where there are as many samples as classes
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_hot_targets_of_any_type_are_labels(loss, size, dtype):
    logits, target = batch(size=size)
    one_hot = nn.functional.one_hot(target, 3).to(dtype)
    assert loss(logits, one_hot).item() == pytest.approx(loss(logits, target).item(), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_groups_as_large_as_batches_and_classes_are_told_apart_by_their_axes(loss):
    logits = torch.randn(3, 2, 3, 3, dtype=torch.float64)  # groups, learners, batch, classes
    labels = torch.stack([torch.randperm(3) for _ in range(3)])
    expected = [loss(logits[g], labels[g]).item() for g in range(3)]
    assert loss(logits, labels).tolist() == pytest.approx(expected, abs=1e-12)
    assert loss(logits, nn.functional.one_hot(labels, 3)).tolist() == pytest.approx(expected, abs=1e-12)
    shared = [loss(logits[g], labels[0]).item() for g in range(3)]
    assert loss(logits, nn.functional.one_hot(labels[0], 3).double()).tolist() == pytest.approx(shared)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_logit_is_two(loss):
    logits, target = batch(n_classes=2)
    single = (logits[..., 1:] - logits[..., :1]).detach().requires_grad_()
    assert loss(single, target).item() == pytest.approx(loss(logits, target).item(), abs=1e-12)
    loss(single, target).backward()
    assert single.grad.shape == (4, 40, 1)


def test_groups_train_side_by_side():
    logits = torch.randn(3, 4, 20, 2, dtype=torch.float64)
    target = torch.randint(2, (3, 20))
    lam = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    together = correlation_loss(logits, target, lam=lam)
    alone = [correlation_loss(logits[g], target[g], lam=float(lam[g])) for g in range(3)]
    assert together.tolist() == pytest.approx([one.item() for one in alone], abs=1e-12)
    for loss in (IndependentLoss(), JointLoss()):
        assert loss(logits, target)[1].item() == pytest.approx(loss(logits[1], target[1]).item(), abs=1e-12)


def test_the_baselines_are_what_they_are_called():
    logits, target = batch()
    cross_entropy = nn.functional.cross_entropy
    each = torch.stack([cross_entropy(one, target) for one in logits])
    assert IndependentLoss()(logits, target).item() == pytest.approx(each.mean().item())
    mean = logits.softmax(-1).mean(0)
    assert JointLoss()(logits, target).item() == pytest.approx(
        nn.functional.nll_loss(mean.log(), target).item()
    )
    # Liu and Yao: (f_i - y)^2 - strength (f_i - mean)^2, averaged
    proba, truth = logits.softmax(-1), nn.functional.one_hot(target, 3).double()
    liu_yao = ((proba - truth) ** 2 - 0.4 * (proba - proba.mean(0)) ** 2).sum(-1).mean()
    assert NegativeCorrelationLoss(0.4)(logits, target).item() == pytest.approx(liu_yao.item())
    pooled = cross_entropy(logits.mean(0), target)
    assert JointLoss(pool="logits")(logits, target).item() == pytest.approx(pooled.item())


def test_the_dial_is_lambda_over_the_critical_one():
    logits, target = batch(n_learners=5)
    for reduction in ("mean", "sum"):
        lam = 0.8 * float(critical_lambda(5, reduction=reduction))
        by_lam = CorrelationLoss(lam=lam, reduction=reduction)(logits, target)
        assert CorrelationLoss(0.8, reduction=reduction)(logits, target).item() == pytest.approx(
            by_lam.item()
        )
    assert CorrelationLoss().diversity == 0.5


def test_a_loss_with_another_dial_is_that_loss():
    logits, target = batch(n_learners=5)
    for loss in (
        CorrelationLoss(lam=0.3),
        CorrelationLoss(lam=0.3, reduction="sum"),
        DiversityLoss(),
        DiversityLoss(0.2),
    ):
        twin = loss.with_diversity(loss.effective_diversity(5))
        assert twin(logits, target).item() == pytest.approx(loss(logits, target).item(), abs=1e-12)
        assert loss.with_diversity(0.7)(logits, target).item() != pytest.approx(loss(logits, target).item())
        assert twin.kind == loss.kind
    kinds = {
        one.kind for one in (DiversityLoss(), DiversityLoss(0.3), IndependentLoss(), JointLoss(pool="logits"))
    }
    assert len(kinds) == 1  # which a program computes together
    others = {CorrelationLoss().kind, CorrelationLoss(reduction="sum").kind, NegativeCorrelationLoss().kind}
    assert len(kinds | others | {JointLoss().kind}) == 5


def test_the_last_correlations_can_be_read():
    logits, target = batch()
    loss = CorrelationLoss(0.5)
    loss(logits, target).backward()
    found = correlations(logits.detach().softmax(-1), target)
    assert (loss.r_tl.item(), loss.r_ll.item()) == pytest.approx((found.r_tl.item(), found.r_ll.item()))
    assert not loss.r_tl.requires_grad


# The family


FAMILY = [
    (partial(DiversityLoss), IndependentLoss(), JointLoss(pool="logits")),
    (partial(DiversityLoss, pool="probabilities"), IndependentLoss(), JointLoss()),
    (NegativeCorrelationLoss, NegativeCorrelationLoss(0.0), NegativeCorrelationLoss(1.0)),
    (CorrelationLoss, CorrelationLoss(0.0), CorrelationLoss(1.0)),
]


@pytest.mark.parametrize(("kind", "own", "pooled"), FAMILY)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [0.0, 0.3, 0.9, 1.0])
def test_every_learner_lies_on_the_line_from_the_learners_own_loss_to_that_of_their_pool(
    kind, own, pooled, weighted, d
):
    logits, target = batch(n_learners=5)
    weight = torch.rand(40, dtype=torch.float64) + 0.1 if weighted else None
    value, a, b = (loss(logits, target, weight) for loss in (kind(d), own, pooled))
    assert value.item() == pytest.approx(((1 - d) * a + d * b).item(), abs=1e-10)
    gradients = [torch.autograd.grad(one, logits)[0] for one in (value, a, b)]
    torch.testing.assert_close(gradients[0], (1 - d) * gradients[1] + d * gradients[2], rtol=1e-9, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.floats(0, 1), st.floats(0.1, 20), st.integers(0, 10**6))
def test_the_diversity_loss_is_the_learners_loss_less_their_diversity_whatever_the_label(
    n, m, d, scale, seed
):
    # Wood et al. 2023; the diversity by NumPy, from counterpoint.theory
    logits, target = batch(n, 20, m, seed)
    logits = scale * logits
    proba = logits.detach().softmax(-1).clamp(min=1e-300).numpy()
    diversity = float(cross_entropy_diversity(proba).mean())
    for labels in (target, target.roll(1), torch.full((20, m), 1 / m, dtype=torch.float64)):
        gain = IndependentLoss()(logits, labels) - DiversityLoss(d)(logits, labels)
        assert gain.item() == pytest.approx(d * diversity, abs=1e-10 * max(1, scale))


def test_the_gradient_of_the_diversity_loss_is_the_one_of_the_theory():
    logits, target = batch(n_learners=5)
    (gradient,) = torch.autograd.grad(DiversityLoss(0.7)(logits, target), logits)
    own, pooled = logits.softmax(-1), logits.mean(0).softmax(-1)
    truth = nn.functional.one_hot(target, 3)
    torch.testing.assert_close(gradient, (0.3 * own + 0.7 * pooled - truth) / (5 * 40), rtol=0, atol=1e-15)


def test_the_papers_loss_is_negative_correlation_learning_on_standardised_outputs():
    logits, target = batch(n_learners=5)
    outputs, truth = logits.softmax(-1), nn.functional.one_hot(target, 3).double()

    def standardised(x):
        centred = x - x.mean(-2, keepdim=True)
        return centred / centred.square().mean(-2, keepdim=True).sqrt()

    z, t = standardised(outputs), standardised(truth)
    for d in (0.0, 0.4, 1.0):
        own = (z - t).square().mean((1, 2)).mean()
        pooled = (z.mean(0) - t).square().mean()
        lam = d * float(critical_lambda(5))
        expected = (1 - d) * own / 2 + d * pooled / 2 - (1 - lam)
        assert CorrelationLoss(d)(logits, target).item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_smoothed_and_mixed_labels_are_means_of_labels(loss):
    # The truth enters all losses linearly but for the squared error of the mean, and the scale of its columns.
    logits, target = batch()
    other, share = target.roll(1), 0.3
    rows = [nn.functional.one_hot(labels, 3).double() for labels in (target, other)]
    mixed = loss(logits, (1 - share) * rows[0] + share * rows[1])
    mixed.backward()
    assert torch.isfinite(logits.grad).all()
    if isinstance(loss, DiversityLoss):
        expected = (1 - share) * loss(logits, target) + share * loss(logits, other)
        assert mixed.item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=repr)
def test_gradients_are_those_of_finite_differences(loss):
    logits, target = batch(3, 6)
    assert torch.autograd.gradcheck(lambda z: loss(z, target), (logits,))


@pytest.mark.parametrize(
    "kind",
    [DiversityLoss, partial(DiversityLoss, pool="probabilities"), NegativeCorrelationLoss, CorrelationLoss],
)
def test_groups_may_have_a_dial_each(kind):
    logits, target = torch.randn(3, 4, 20, 2, dtype=torch.float64), torch.randint(2, (3, 20))
    dials = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    together = kind(dials)(logits, target)
    alone = [kind(float(d))(logits[g], target[g]).item() for g, d in enumerate(dials)]
    assert together.tolist() == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize(("n", "expected"), [(1, 0.0), (2, 0.5), (5, 0.8), (10, 0.9)])
def test_by_default_the_learners_own_losses_weigh_as_much_as_one_vote(n, expected):
    logits, target = batch(n_learners=n)
    default, fixed = DiversityLoss(), DiversityLoss(expected)
    assert default.effective_diversity(n) == pytest.approx(expected)
    assert default(logits, target).item() == pytest.approx(fixed(logits, target).item(), abs=1e-12)
    assert default(torch.stack([logits] * 2), target.expand(2, -1)).shape == (2,)


def test_a_loss_says_which_vote_it_trains():
    votes = {"geometric": [DiversityLoss(), JointLoss(pool="logits"), CorrelationLoss()]}
    votes["soft"] = [
        IndependentLoss(),
        JointLoss(),
        NegativeCorrelationLoss(),
        DiversityLoss(pool="probabilities"),
    ]
    for vote, losses in votes.items():
        assert {loss.voting for loss in losses} == {vote}


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_usual_case_is_that_of_weights_and_groups(scale, dtype):
    # it has a function of its own; also where probabilities are too small for their type
    logits, target = batch(n_learners=5, dtype=dtype)
    logits = (scale * logits).detach().requires_grad_()
    usual = DiversityLoss(0.7)(logits, target)
    weighted = DiversityLoss(0.7)(logits, target, torch.ones(40, dtype=dtype))
    torch.testing.assert_close(usual, weighted)
    (gradient,) = torch.autograd.grad(3 * usual, logits)
    (expected,) = torch.autograd.grad(3 * weighted, logits)
    torch.testing.assert_close(gradient, expected)


# The edges, in values and in gradients


def test_a_constant_learner_and_an_absent_class_are_masked():
    logits, target = batch(n_learners=3, n_classes=4)
    target = target.clamp(max=2)  # class 3 is absent
    with torch.no_grad():
        logits[1] = torch.tensor([0.3, 0.1, 0.0, -0.2])  # the same for every sample
    loss = CorrelationLoss(0.5)
    value = loss(logits, target)
    value.backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[1] == 0).all()
    kept = logits.detach()[[0, 2]].softmax(-1)
    truth_columns = [corr((target == k).double(), kept[n, :, k]) for n in range(2) for k in range(3)]
    assert loss.r_tl.item() == pytest.approx(torch.stack(truth_columns).mean().item())


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
def test_gradients_stay_bounded_as_learners_become_constant(scale):
    logits, target = batch(dtype=torch.float32)
    small = (scale * logits).detach().requires_grad_()
    CorrelationLoss(0.9)(small, target).backward()
    assert torch.isfinite(small.grad).all()
    assert small.grad.abs().max() < 1e3


@pytest.mark.parametrize("scale", [10.0, 100.0, 1e4])
def test_gradients_stay_finite_as_learners_become_certain(scale):
    logits, target = batch(dtype=torch.float32)
    certain = (scale * logits).detach().requires_grad_()
    CorrelationLoss(0.9)(certain, target).backward()
    assert torch.isfinite(certain.grad).all()


def test_many_classes_have_a_gradient_from_the_start():
    logits = (0.05 * torch.randn(3, 64, 1000)).requires_grad_()
    CorrelationLoss(0.5)(logits, torch.randint(1000, (64,))).backward()
    assert (logits.grad.abs().sum((1, 2)) > 0).all()


def test_a_batch_of_one_class_has_no_gradient_towards_the_truth():
    logits, _ = batch()
    loss = CorrelationLoss(lam=0.0)
    loss(logits, torch.zeros(40, dtype=torch.long)).backward()
    assert (logits.grad == 0).all()


def test_one_learner_has_no_pair():
    logits, target = batch(n_learners=1)
    loss = CorrelationLoss(0.5)
    assert loss(logits, target).item() == pytest.approx(-loss.r_tl.item())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_half_precision_is_computed_in_float32(loss, dtype):
    logits, target = batch(dtype=torch.float32)
    half = logits.detach().to(dtype).requires_grad_()
    same = half.detach().float().requires_grad_()
    value, expected = loss(half, target), loss(same, target)
    assert value.dtype == torch.float32
    assert value.item() == expected.item()
    value.backward()
    expected.backward()
    assert torch.equal(half.grad, same.grad.to(dtype))


def test_autocast_changes_nothing():
    logits, target = batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = CorrelationLoss(0.5)(logits, target)
    assert value.dtype == torch.float32
    assert value.item() == CorrelationLoss(0.5)(logits, target).item()


@pytest.mark.parametrize("label", [3, -1, -100])  # the last is one that torch's cross-entropy skips
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_label_that_is_no_class_is_refused(loss, weighted, label):
    logits, target = batch()
    target[3] = label
    with pytest.raises(ValueError, match=f"`target` must hold labels from 0 to 2; got {label}"):
        loss(logits, target, torch.ones(40) if weighted else None)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (torch.zeros(8), r"`target` must hold 8 labels, or rows of 2 for them.*float32 of shape \(8,\)"),
        (torch.zeros(7).long(), r"`target` must hold 8 labels.*shape \(7,\)"),
        (torch.zeros(8, 1).long(), r"`target` must hold 8 labels.*shape \(8, 1\)"),
        (torch.zeros(5, 8, 2), r"`target` must hold 8 labels.*shape \(5, 8, 2\)"),
    ],
)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_all_losses_refuse_the_same_targets(loss, target, words):
    with pytest.raises(ValueError, match=words):
        loss(torch.zeros(3, 8, 2), target)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_all_losses_refuse_the_logits_of_one_net(loss):
    with pytest.raises(ValueError, match=r"`logits` must have axes .*; got shape \(8, 2\)"):
        loss(torch.zeros(8, 2), torch.zeros(8).long())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_batch_without_weight_has_neither_loss_nor_gradient(loss):
    logits, target = batch(dtype=torch.float32)
    value = loss(logits, target, torch.zeros(40))
    value.backward()
    assert value.item() == 0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("size", [1e-44, 1e-40, 1e38])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_size_of_the_weights_does_not_matter(loss, size):
    logits, target = batch(dtype=torch.float32)
    value, expected = loss(logits, target, torch.full((40,), size)), loss(logits, target)
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == pytest.approx(expected.item(), rel=1e-4)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0], rtol=1e-3, atol=1e-6)


def test_one_column_of_probabilities_is_that_of_class_1():
    logits, target = batch(n_classes=2)
    proba = logits.detach().softmax(-1)
    two, one = (p.requires_grad_() for p in (proba.clone(), proba[..., 1:].clone()))
    loss = CorrelationLoss(0.5, activation="identity")
    assert loss(one, target).item() == pytest.approx(loss(two, target).item(), abs=1e-12)
    torch.testing.assert_close(correlations(one, target), correlations(two, target))
    loss(one, target).backward()
    assert torch.isfinite(one.grad).all()


def test_there_are_no_correlations_before_a_batch():
    with pytest.raises(RuntimeError, match="those of the last batch; there has been none"):
        _ = CorrelationLoss().r_tl


def test_groups_and_weights_with_a_constant_truth_are_masked():
    # Weighted means of ones are one but for rounding, which must not count as a spread.
    logits = torch.randn(2, 3, 50, 3)
    target = torch.stack([torch.zeros(50).long(), torch.arange(50) % 3])
    found = correlations(logits.softmax(-1), target, sample_weight=torch.rand(2, 50) + 0.1)
    assert found.r_tl[0] == 0
    assert found.r_tl[1] != 0


def test_nan_is_passed_on():
    for weight in (None, torch.rand(40) + 0.1):
        logits, target = batch(dtype=torch.float32)
        with torch.no_grad():
            logits[2, 7, 1] = float("nan")
        assert correlation_loss(logits, target, lam=0.3, sample_weight=weight).isnan()


def test_masking_what_is_not_constant_changes_nothing(monkeypatch):
    # The CPU looks at the least spread first; other devices always take this way.
    logits, target = batch()
    weight = torch.rand(40, dtype=torch.float64) + 0.1
    for options in ({}, {"sample_weight": weight}):
        expected = correlation_loss(logits, target, lam=0.3, **options)
        (gradient,) = torch.autograd.grad(expected, logits)
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "is_cpu", False)
            masked = correlation_loss(logits, target, lam=0.3, **options)
        torch.testing.assert_close(masked, expected, rtol=0, atol=1e-14)
        torch.testing.assert_close(torch.autograd.grad(masked, logits)[0], gradient, rtol=0, atol=1e-14)


def test_the_papers_loss_refuses_a_gradient_of_its_gradient():
    logits, target = batch()
    with pytest.raises(RuntimeError, match="can be differentiated only once; got `create_graph`"):
        torch.autograd.grad(correlation_loss(logits, target, lam=0.3), logits, create_graph=True)


def test_the_diversity_loss_has_second_derivatives():
    logits, target = batch(3, 5)
    found = []
    for weight in (None, torch.ones(5, dtype=torch.float64)):  # the fused function, and operations one by one
        (gradient,) = torch.autograd.grad(
            DiversityLoss(0.4)(logits, target, weight), logits, create_graph=True
        )
        found.append(torch.autograd.grad(gradient.square().sum(), logits)[0])
    torch.testing.assert_close(*found)
    assert torch.autograd.gradgradcheck(lambda z: DiversityLoss(0.4)(z, target), (logits,))


def test_a_backward_pass_can_be_repeated():
    columns = torch.randn(3, 2, 8, requires_grad=True)
    loss = DiversityLoss(0.4)(columns.mT, torch.arange(8) % 2)
    loss.backward(retain_graph=True)
    once = columns.grad.clone()
    loss.backward()
    torch.testing.assert_close(columns.grad, 2 * once)


def test_the_usual_case_compiles_whole():
    logits, target = batch()
    compiled = torch.compile(DiversityLoss(0.4), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, target), DiversityLoss(0.4)(logits, target))


def test_a_tiny_dial_is_next_to_none():
    logits, target = batch(dtype=torch.float32)
    torch.testing.assert_close(DiversityLoss(1e-40)(logits, target), IndependentLoss()(logits, target))


def test_dials_of_groups_take_the_type_of_the_logits():
    logits, target = torch.randn(2, 3, 8, 2, dtype=torch.float64), torch.randint(2, (2, 8))
    for kind in (DiversityLoss, partial(DiversityLoss, pool="probabilities"), NegativeCorrelationLoss):
        assert kind(torch.tensor([0.1, 0.2]))(logits, target).dtype == torch.float64


def test_soft_targets_keep_the_type_of_the_logits():
    logits, target = batch(dtype=torch.float32)
    rows = nn.functional.one_hot(target, 3).double()
    for loss in LOSSES:
        assert loss(logits, rows).dtype == torch.float32


def test_a_loss_of_ones_own_may_read_probabilities():
    class Squared(EnsembleLoss):
        activation = "identity"

        def score(self, outputs, target):
            return (outputs[..., 1, :] - target).square()

    proba = torch.tensor([[[0.0], [1.0]]])  # one column, of class 1
    assert Squared(0.5)(proba, torch.tensor([0, 1])).item() == 0


def test_the_cost_is_linear_in_the_number_of_learners():
    # The graph keeps tensors of the size of the logits only: none of the size of the pairs.
    largest = 0

    def remember(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    logits, target = batch(n_learners=64, size=16, n_classes=2)
    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        CorrelationLoss(0.5)(logits, target)
    assert largest == logits.numel()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: CorrelationLoss(0.5, lam=0.1),
            ValueError,
            "`lam` must not be given together with `diversity`; got 0.1 and 0.5",
        ),
        (lambda: CorrelationLoss(-0.1), ValueError, r"`diversity` must be at least 0; got -0\.1"),
        (lambda: CorrelationLoss(lam=float("nan")), ValueError, "`lam` must not be NaN"),
        (
            lambda: CorrelationLoss([0.1, 0.2]),
            TypeError,
            r"`diversity` must be one number; got \[0\.1, 0\.2\]",
        ),
        (lambda: CorrelationLoss(float("inf")), ValueError, "`diversity` must be finite; got inf"),
        (lambda: NegativeCorrelationLoss([0.5]), TypeError, r"`diversity` must be one number; got \[0\.5\]"),
        (
            lambda: CorrelationLoss(reduction="max"),
            ValueError,
            "`reduction` must be one of 'mean', 'sum'; got 'max'",
        ),
        (lambda: CorrelationLoss(activation="tanh"), ValueError, "`activation` must be one of"),
        (lambda: NegativeCorrelationLoss(1.5), ValueError, r"`diversity` must be between 0 and 1; got 1\.5"),
        (lambda: NegativeCorrelationLoss(None), TypeError, "`diversity` must be one number; got None"),
        (lambda: CorrelationLoss("auto"), TypeError, "`diversity` must be one number; got 'auto'"),
        (lambda: DiversityLoss("much"), TypeError, "`diversity` must be one number; got 'much'"),
        (lambda: DiversityLoss(1.1), ValueError, r"`diversity` must be between 0 and 1; got 1\.1"),
        (lambda: DiversityLoss(pool="votes"), ValueError, "`pool` must be one of 'logits', 'probabilities'"),
        (lambda: JointLoss(pool="sum"), ValueError, "`pool` must be one of 'logits', 'probabilities'"),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("shape", [(0, 4, 2), (3, 0, 2), (3, 4, 0)])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_batch_without_learners_samples_or_classes_is_refused(loss, shape):
    with pytest.raises(ValueError, match="`logits` must have axes"):
        loss(torch.zeros(shape), torch.zeros(shape[1], dtype=torch.long))


@pytest.mark.parametrize("shape", [(), (1,), (39,), (40, 1), (4, 40), (1, 40)])
@pytest.mark.parametrize(
    "weighted",
    [*LOSSES, partial(correlation_loss, lam=0.2), correlations],
    ids=lambda one: repr(one).partition(" at 0x")[0],
)
def test_weights_are_one_for_each_sample(weighted, shape):
    logits, target = batch()
    with pytest.raises(
        ValueError, match=r"^`sample_weight` must hold one number for each of the 40 samples; got shape"
    ):
        weighted(logits, target, sample_weight=torch.ones(shape))


@pytest.mark.parametrize("loss", [one for one in LOSSES if not isinstance(one, CorrelationLoss)], ids=repr)
def test_weighted_losses_compile_whole(loss):
    logits, target = batch()
    weight = torch.rand(40, generator=torch.manual_seed(0))
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, target, weight), loss(logits, target, weight))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_weights_may_be_those_of_each_group_or_of_all(loss):
    (one, target), (other, _) = batch(seed=0), batch(seed=1)
    logits, weight = torch.stack([one, other]), torch.rand(2, 40)
    each = [loss(z, target, w) for z, w in zip(logits, weight, strict=True)]
    torch.testing.assert_close(loss(logits, target.expand(2, -1), weight), torch.stack(each))
    alike = [loss(z, target, weight[0]) for z in logits]
    torch.testing.assert_close(loss(logits, target.expand(2, -1), weight[0]), torch.stack(alike))


@pytest.mark.parametrize("name", ["logits", "target", "sample_weight"])
@pytest.mark.parametrize(
    "loss", [*LOSSES, pytest.param(partial(correlation_loss, lam=0.2), id="function")], ids=repr
)
def test_what_is_no_tensor_is_refused_by_its_name(loss, name):
    logits, target = batch()
    given = {"logits": logits, "target": target, "sample_weight": torch.ones(40)}
    given[name] = given[name].detach().numpy()
    with pytest.raises(TypeError, match=f"^`{name}` must be a tensor; got ndarray.$"):
        loss(**given)
    if name != "sample_weight":
        del given["sample_weight"]
        with pytest.raises(TypeError, match=f"^`{name}` must be a tensor; got ndarray.$"):
            loss(**given)


@pytest.mark.parametrize("name", ["outputs", "target", "sample_weight"])
def test_correlations_are_those_of_tensors(name):
    logits, target = batch()
    given = {"outputs": logits.softmax(-1), "target": target, "sample_weight": torch.ones(40)}
    given[name] = given[name].tolist()
    with pytest.raises(TypeError, match=f"^`{name}` must be a tensor; got list.$"):
        correlations(**given)


@pytest.mark.parametrize(
    ("lam", "error", "words"),
    [
        (float("nan"), ValueError, "`lam` must not be NaN"),
        (-1, ValueError, "`lam` must be at least 0; got -1"),
        (True, TypeError, "`lam` must be one number; got True"),
        ([0.1, 0.2], TypeError, r"`lam` must be one number; got \[0.1, 0.2\]"),
    ],
)
def test_lambda_is_a_number_or_a_tensor(lam, error, words):
    logits, target = batch()
    with pytest.raises(error, match=words):
        correlation_loss(logits, target, lam=lam)
    of_tensor = correlation_loss(logits, target, lam=torch.tensor(0.25))
    torch.testing.assert_close(of_tensor, correlation_loss(logits, target, lam=0.25))


def test_the_function_takes_the_dial_of_the_class():
    logits, target = batch()
    for dial in ({}, {"diversity": 0.8}, {"diversity": torch.tensor(0.8)}, {"lam": 0.3, "reduction": "sum"}):
        torch.testing.assert_close(
            correlation_loss(logits, target, **dial), CorrelationLoss(**dial)(logits, target)
        )
    with pytest.raises(ValueError, match="`lam` must not be given together with `diversity`"):
        correlation_loss(logits, target, lam=0.1, diversity=0.5)
    with pytest.raises(ValueError, match="`diversity` must be at least 0; got -1"):
        correlation_loss(logits, target, diversity=-1)


def test_a_plain_callable_has_the_defaults_of_a_loss():
    def squared(logits, target):
        return logits.square().mean()

    wrapped = as_ensemble_loss(squared)
    assert (wrapped.activation, wrapped.voting, wrapped.needs_readout) == (None, "soft", False)
    assert wrapped(torch.ones(3, 8, 2), torch.zeros(8)).item() == 1
    loss = CorrelationLoss()
    assert as_ensemble_loss(loss) is loss


@pytest.mark.parametrize(
    "loss", [DiversityLoss(), CorrelationLoss(0.8), NegativeCorrelationLoss(0.4)], ids=repr
)
def test_progress_scales_the_dial_and_can_be_undone(loss):
    full = loss.effective_diversity(4)
    loss.set_progress(0.25)
    assert loss.effective_diversity(4) == pytest.approx(full / 4)
    assert loss.dial(4) == {"diversity": pytest.approx(full / 4)}
    loss.set_progress(1.0)
    assert loss.effective_diversity(4) == full


@pytest.mark.parametrize("own", [{}, {"weight": torch.tensor([1.0, 2.0, 0.5])}, {"label_smoothing": 0.1}])
def test_samples_to_ignore_are_those_of_torch(own):
    torch.manual_seed(0)
    logits, target = torch.randn(3, 20, 3), torch.randint(3, (20,))
    target[::4] = 9
    expected = torch.nn.CrossEntropyLoss(ignore_index=9, **own)
    mean = torch.stack([expected(one, target) for one in logits]).mean()
    torch.testing.assert_close(IndependentLoss(ignore_index=9, **own)(logits, target), mean)
    joint = JointLoss(pool="logits", ignore_index=9, **own)
    torch.testing.assert_close(joint(logits, target), expected(logits.mean(0), target))
    kept = target != 9
    weight = torch.rand(20)
    torch.testing.assert_close(
        DiversityLoss(0.5, ignore_index=9, **own)(logits, target, weight),
        DiversityLoss(0.5, **own)(logits[:, kept], target[kept], weight[kept]),
    )
    assert "ignore_index=9" in repr(joint)


def test_fit_leaves_samples_to_ignore_out_of_its_measures():
    def train(x, y, **own):
        torch.manual_seed(0)
        ensemble = Ensemble([torch.nn.Linear(2, 2) for _ in range(3)])
        options = {"epochs": 3, "optimizer": torch.optim.Adam, "progress": False, "validation": [(x, y)]}
        return fit(ensemble, [(x, y)], loss=DiversityLoss(**own), **options)

    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long()
    some = torch.where(torch.arange(30) % 3 == 0, -1, y)
    found, expected = train(x, some, ignore_index=-1), train(x[some >= 0], y[some >= 0])
    for name in expected.columns:
        if name != "seconds":
            torch.testing.assert_close(found[name], expected[name], msg=name)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_and_label_smoothing_are_those_of_torch(weighted, smoothing):
    torch.manual_seed(0)
    logits = torch.randn(4, 11, 3, dtype=torch.float64)
    target = torch.randint(3, (11,))
    given = {
        "weight": torch.tensor([0.5, 2.0, 0.3]).double() if weighted else None,
        "label_smoothing": smoothing,
    }
    torchs = nn.CrossEntropyLoss(**given)
    own = torch.stack([torchs(learner, target) for learner in logits]).mean()
    pooled = torchs(logits.mean(0), target)
    torch.testing.assert_close(IndependentLoss(**given)(logits, target), own)
    torch.testing.assert_close(JointLoss(pool="logits", **given)(logits, target), pooled)
    torch.testing.assert_close(DiversityLoss(0.3, **given)(logits, target), 0.7 * own + 0.3 * pooled)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"weight": [1.0, 2.0]}, TypeError, "`weight` must be a tensor"),
        ({"weight": torch.tensor([1.0, -2.0])}, ValueError, "`weight` must hold a number of 0 or more"),
        ({"weight": torch.tensor([1.0, 0.0]), "label_smoothing": 0.1}, ValueError, "above 0, with"),
        ({"label_smoothing": 2.0}, ValueError, "`label_smoothing` must"),
        ({"ignore_index": 0.5}, TypeError, "`ignore_index` must"),
        ({"weight": torch.ones(2)}, ValueError, "got 2 weights for 3 classes"),
    ],
)
def test_bad_class_weights_are_refused(settings, kind, message):
    with pytest.raises(kind, match=message):
        DiversityLoss(**settings)(torch.zeros(2, 4, 3), torch.zeros(4, dtype=torch.long))


def test_class_weights_do_not_go_with_soft_targets():
    with pytest.raises(ValueError, match="for targets that are labels; got soft targets"):
        DiversityLoss(weight=torch.ones(3))(torch.zeros(2, 4, 3), torch.full((4, 3), 1 / 3))


def test_one_learner_has_nobody_to_differ_from():
    assert CorrelationLoss(lam=0.5).effective_diversity(1) == 0
    assert CorrelationLoss(diversity=0.5).effective_lambda(1) == 0


def test_the_ignored_label_may_be_the_usual_one_of_torch():
    loss, (logits, target) = JointLoss(ignore_index=-100), batch(n_learners=3)
    masked = target.clone()
    masked[1:] = -100
    assert loss(logits, masked).item() == pytest.approx(JointLoss()(logits[:, :1], target[:1]).item())
