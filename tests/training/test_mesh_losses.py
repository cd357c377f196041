"""Losses among processes: those of the whole batch and of all learners, with their gradients."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    SquaredErrorLoss,
    correlations,
)
from counterpoint.training.ensemble_loss import as_ensemble_loss, value_on_mesh
from counterpoint.training.mesh import as_axes

SHAPES = {"data": (1, 4), "learners": (4, 1), "both": (2, 2)}
N, BATCH, CLASSES = 6, 13, 3  # uneven in every split


class SpreadOfBatch(EnsembleLoss):
    """A loss of the user whose steps look at the whole batch and all learners."""

    def transform(self, columns):
        return columns / (1 + columns.std(-1, keepdim=True))

    def pool(self, outputs):
        return outputs.median(-3, keepdim=True).values

    def score(self, outputs, target):
        return (outputs.mean(-2) - target).square()


class Scaled(DiversityLoss):
    """A loss of the user with a forward of its own."""

    def forward(self, logits, target, sample_weight=None):
        return super().forward(logits, target, sample_weight) * logits.square().mean().sqrt()


def plain(logits, target, sample_weight=None):
    weight = torch.ones(len(target)) if sample_weight is None else sample_weight
    return ((logits.mean(0).logsumexp(-1) - logits.mean(0)[:, 0]) * weight).sum() / weight.sum() ** 0.5


LOSSES = {
    "independent": IndependentLoss(),
    "joint": JointLoss(),
    "joint-logits": JointLoss(pool="logits"),
    "diversity": DiversityLoss(),
    "diversity-probabilities": DiversityLoss(0.7, pool="probabilities"),
    "negative-correlation": NegativeCorrelationLoss(0.6),
    "correlation": CorrelationLoss(0.8),
    "correlation-lam": CorrelationLoss(lam=0.1, reduction="sum"),
    "correlation-identity": CorrelationLoss(0.8, activation="identity"),
    "of-the-user": SpreadOfBatch(0.5),
    "forward-of-the-user": Scaled(0.5),
    "callable": plain,
}
WEIGHTS = ("none", "some", "a-rank-without", "tiny")


def batch(dtype=torch.float64):
    torch.manual_seed(0)
    logits = torch.randn(N, BATCH, CLASSES, dtype=dtype) * 2
    logits[2] = logits[2, :1]  # a learner that is constant: masked
    return logits, torch.randint(CLASSES, (BATCH,))


def weights(kind):
    torch.manual_seed(1)
    found = torch.rand(BATCH, dtype=torch.float64)
    if kind == "a-rank-without":
        found[:8] = 0.0
    return {"none": None, "tiny": found * 1e-300}.get(kind, found)


def errors(loss, axes, logits, target, weight):
    """Return how far value and gradient are from those of one process."""
    loss = as_ensemble_loss(loss)
    given = () if weight is None else (weight,)
    whole = logits.clone().requires_grad_()
    with loss.on(as_axes("local")):
        expected = loss(whole, target, *given)
        expected.backward()
    own = axes.split_learners(list(range(N)))
    rows = axes.split(torch.arange(BATCH))
    part = logits[own][:, rows].clone().requires_grad_()
    with loss.on(axes):
        found = value_on_mesh(loss)(part, target[rows], *(one[rows] for one in given))
        found.backward()
    wanted = whole.grad[own][:, rows] * axes.n_data
    size = float(whole.grad.abs().max()) or 1.0
    r = [float(getattr(loss, name)) for name in ("r_tl", "r_ll") if isinstance(loss, CorrelationLoss)]
    return {
        "value": abs(found.item() - expected.item()),
        "gradient": float((part.grad - wanted).abs().max()) / size,
        "r": r,
    }


def all_errors(rank):
    logits, target = batch()
    found = {}
    for shape, sizes in SHAPES.items():
        axes = as_axes(init_device_mesh("cpu", sizes, mesh_dim_names=("learners", "data")))
        for name, loss in LOSSES.items():
            own = logits.softmax(-1) if name == "correlation-identity" else logits
            for kind in WEIGHTS:
                found[shape, name, kind] = errors(loss, axes, own, target, weights(kind))
        numbers = torch.randn(BATCH, dtype=torch.float64)
        found[shape, "squared-error", "none"] = errors(
            SquaredErrorLoss(0.5), axes, logits[..., :1], numbers, None
        )
        found[shape, "soft-targets", "some"] = errors(
            DiversityLoss(), axes, logits, logits[0].softmax(-1), weights("some")
        )
        groups = torch.stack([logits, logits.flip(0)])
        found[shape, "groups"] = _groups(axes, groups, target)
        single = errors(CorrelationLoss(0.8), axes, logits.float(), target, None)
        found[shape, "float32"] = {name: single[name] for name in ("value", "gradient")}
    found["refusals"] = refusals(logits, target)
    return found


def _groups(axes, logits, target):
    rows, own = axes.split(torch.arange(BATCH)), axes.split_learners(list(range(N)))
    dial = torch.tensor([0.2, 0.9])
    found = {}
    for kind in (CorrelationLoss, DiversityLoss):
        expected = kind(dial, mesh="local")(logits, target.expand(2, -1))
        value = kind(dial, mesh=axes)(logits[:, own][:, :, rows], target[rows].expand(2, -1))
        found[kind.__name__] = float((value - expected).abs().max())
    return found


def refusals(logits, target):
    """Return what is said to those who train among processes without a mesh, or ask for a second derivative."""
    said = []
    own = logits.clone().requires_grad_()
    for loss in (CorrelationLoss(), DiversityLoss(), IndependentLoss(), SpreadOfBatch(0.5)):
        with pytest.raises(ValueError, match="`mesh` must be given") as caught:
            loss(own, target)
        said.append(str(caught.value))
        loss(logits, target)  # without gradients nothing is trained
    for loss in (CorrelationLoss(mesh="local"), DiversityLoss(mesh="local")):
        loss(own, target).backward()
    for loss in (DiversityLoss(0.5, mesh=dist.group.WORLD), CorrelationLoss(mesh=dist.group.WORLD)):
        with pytest.raises(RuntimeError, match="differentiated only once"):
            torch.autograd.grad(loss(own, target), own, create_graph=True)
    wrong = init_device_mesh("cpu", (4,), mesh_dim_names=("rows",))
    with pytest.raises(ValueError, match="`mesh` must have the dimensions"):
        DiversityLoss(mesh=wrong)
    return said


@pytest.fixture(scope="module")
def found(ranks):
    return ranks(all_errors)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradient_are_those_of_the_whole_batch_and_all_learners(found, shape, name, weight):
    for rank in found:
        assert rank[shape, name, weight]["value"] < 1e-12
        assert rank[shape, name, weight]["gradient"] < 1e-12


@pytest.mark.parametrize("case", [("squared-error", "none"), ("soft-targets", "some")])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_and_soft_targets_train_on_a_mesh(found, shape, case):
    for rank in found:
        assert rank[shape, *case]["value"] < 1e-12
        assert rank[shape, *case]["gradient"] < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_groups_have_their_own_dials_on_a_mesh_and_single_precision_suffices(found, shape):
    for rank in found:
        assert max(rank[shape, "groups"].values()) < 1e-12
        assert max(rank[shape, "float32"].values()) < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_the_correlations_of_the_last_batch_are_those_of_the_whole_batch(found, shape):
    logits, target = batch()
    expected = [float(r) for r in correlations(logits.softmax(-1), target)]
    for rank in found:
        assert rank[shape, "correlation", "none"]["r"] == pytest.approx(expected, abs=1e-12)


def test_a_loss_that_was_not_told_of_the_other_processes_refuses_to_train(found):
    assert all("mesh='local'" in text for rank in found for text in rank["refusals"])


def test_a_mesh_is_a_mesh_a_group_or_local():
    with pytest.raises(TypeError, match="`mesh` must be a DeviceMesh"):
        DiversityLoss(mesh=3)
