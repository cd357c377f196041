"""The losses of the arms: those of the library, the halves of the training, and the error penalty."""

import pytest
import torch

from counterpoint.theory import critical_lambda
from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss, correlations
from paper.convnets.arms import ARMS
from paper.convnets.course import Course


@pytest.fixture
def batch():
    torch.manual_seed(2)
    return torch.randn(2, 4, 3, 40, 5, requires_grad=True), torch.randint(5, (2, 40))


def test_the_groups_have_the_losses_of_the_library(batch):
    logits, target = batch
    arms = [ARMS[name] for name in ("independent", "joint", "0.0", "0.9")]
    losses = [IndependentLoss(), JointLoss(), CorrelationLoss(0.0), CorrelationLoss(0.9)]
    expected = sum(loss(logits[s, a], target[s]) for s in range(2) for a, loss in enumerate(losses))
    torch.testing.assert_close(Course(arms, 3)(logits, target, 0.0), expected)


def test_an_arm_of_two_halves_changes_its_loss_in_the_middle(batch):
    logits, target = batch
    course = Course([ARMS["independent, then 0.9"]], 3)
    for progress, loss in ((0.49, IndependentLoss()), (0.5, CorrelationLoss(0.9))):
        expected = sum(loss(logits[s, 0], target[s]) for s in range(2))
        torch.testing.assert_close(course(logits[:, :1], target, progress), expected)


def test_the_history_has_the_mean_correlations_of_each_epoch(batch):
    logits, target = batch
    course, seen = Course([ARMS["0.9"]], 3), []
    for step in range(4):  # two epochs of two batches
        outputs = logits[:, :1].detach() * (step + 1)
        course(outputs, target, step / 4)
        seen.append([correlations(outputs[s, 0].softmax(-1), target[s]) for s in range(2)])
    expected = torch.tensor(seen).view(2, 2, 2, 2).mean(1).permute(2, 0, 1)  # (epochs, seeds, 2), the 2 first
    torch.testing.assert_close(course.history(2)[..., 0], expected)


def test_the_error_penalty_has_the_gradient_of_its_formula(batch):
    logits, target = batch
    logits = (logits + 2 * torch.nn.functional.one_hot(target, 5)[:, None, None]).detach().requires_grad_()
    course = Course([ARMS["error 0.9"]], 3)
    (found,) = torch.autograd.grad(course(logits[:, :1], target, 0.0), logits)

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
