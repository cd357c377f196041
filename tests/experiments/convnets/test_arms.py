"""The ways to train: losses, halves, gates and penalties, as the library has them."""

import pytest
import torch

from counterpoint.experiments.convnets.arms import ARMS, Course, Gate, gated
from counterpoint.theory import critical_lambda
from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss, correlations
from counterpoint.training.gate import DiversityGate


@pytest.fixture
def batch():
    torch.manual_seed(2)
    return torch.randn(2, 4, 3, 40, 5, requires_grad=True), torch.randint(5, (2, 40))


def test_the_groups_have_the_losses_of_the_library(batch):
    logits, target = batch
    arms = [ARMS[name] for name in ("independent", "joint", "0.0", "0.9")]
    losses = [IndependentLoss(), JointLoss(), CorrelationLoss(0.0), CorrelationLoss(0.9)]
    expected = sum(loss(logits[s, a], target[s]) for s in range(2) for a, loss in enumerate(losses))
    torch.testing.assert_close(Course(arms, 2, 3)(logits, target, late=False), expected)


def test_an_arm_of_two_halves_changes_its_loss_in_the_middle(batch):
    logits, target = batch
    course = Course([ARMS["independent, then 0.9"]], 2, 3)
    for late, loss in ((False, IndependentLoss()), (True, CorrelationLoss(0.9))):
        expected = sum(loss(logits[s, 0], target[s]) for s in range(2))
        torch.testing.assert_close(course(logits[:, :1], target, late=late), expected)


def test_a_gate_blends_cross_entropy_and_correlation(batch):
    logits, target = batch
    logits = logits[:, :1] + torch.nn.functional.one_hot(target, 5)[:, None, None]
    r_tl, r_ll = correlations(logits.softmax(-1).detach(), target[:, None])
    share = DiversityGate(0.1, 0.9, groups=(2, 1))(r_tl, r_ll, 3)
    assert ((share > 0.1) & (share < 0.9)).all()
    own, together = (
        torch.stack([loss(logits[s, 0], target[s]) for s in range(2)])
        for loss in (IndependentLoss(), CorrelationLoss(0.9))
    )
    found = Course([gated(Gate(0.1, 0.9))], 2, 3)(logits, target, late=False)
    torch.testing.assert_close(found, torch.lerp(own, together, share[:, 0]).sum())


def test_the_error_penalty_has_the_gradient_of_its_formula(batch):
    logits, target = batch
    logits = (logits + 2 * torch.nn.functional.one_hot(target, 5)[:, None, None]).detach().requires_grad_()
    course = Course([ARMS["error 0.9"]], 2, 3)
    (found,) = torch.autograd.grad(course(logits[:, :1], target, late=False), logits)

    def plain(one, truth):  # the two correlations, pair by pair
        outputs = one.softmax(-1)
        columns = torch.cat([torch.nn.functional.one_hot(truth, 5)[None].float(), outputs])
        matrix = torch.stack([torch.corrcoef(columns[..., k]) for k in range(5)]).mean(0)
        return matrix[0, 1:].mean(), (matrix[1:, 1:].sum() - 3) / 6

    mu, loss = 0.9 * float(critical_lambda(3)), 0.0
    for s in range(2):
        r_tl, r_ll = plain(logits[s, 0], target[s])
        loss = loss - r_tl + mu * (r_ll - r_tl**2) / (1 - r_tl**2)  # design of the corrected vote formula
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-3)
