"""The ways to train: losses, halves, gates and penalties, as the library has them."""

import pytest
import torch

from counterpoint.experiments.convnets.arms import ARMS, TRIALS, Gate, gated
from counterpoint.experiments.convnets.course import Course
from counterpoint.theory import critical_lambda
from counterpoint.training import CorrelationLoss, DiversityGate, IndependentLoss, JointLoss


@pytest.fixture
def batch():
    torch.manual_seed(2)
    return torch.randn(2, 4, 3, 40, 5, requires_grad=True), torch.randint(5, (2, 40))


def test_the_groups_have_the_losses_of_the_library(batch):
    logits, target = batch
    arms = [ARMS[name] for name in ("independent", "joint", "0.0", "0.9")]
    losses = [IndependentLoss(), JointLoss(), CorrelationLoss(0.0), CorrelationLoss(0.9)]
    expected = sum(loss(logits[s, a], target[s]) for s in range(2) for a, loss in enumerate(losses))
    torch.testing.assert_close(Course(arms, 2, 3)(logits, target, 0.0), expected)


def test_an_arm_of_two_halves_changes_its_loss_in_the_middle(batch):
    logits, target = batch
    course = Course([ARMS["independent, then 0.9"]], 2, 3)
    for progress, loss in ((0.49, IndependentLoss()), (0.5, CorrelationLoss(0.9))):
        expected = sum(loss(logits[s, 0], target[s]) for s in range(2))
        torch.testing.assert_close(course(logits[:, :1], target, progress), expected)


def test_an_arm_turns_when_it_says(batch):
    logits, target = batch
    course = Course([ARMS["trial 0.1, then 0.9"], ARMS["trial 0.2, then independent"]], 2, 3)
    some, more, own = CorrelationLoss(0.5), CorrelationLoss(0.9), IndependentLoss()
    for progress, losses in ((0.05, (some, some)), (0.1, (more, some)), (0.2, (more, own))):
        expected = sum(loss(logits[s, a], target[s]) for s in range(2) for a, loss in enumerate(losses))
        torch.testing.assert_close(course(logits[:, :2], target, progress), expected)


def test_the_fits_are_what_a_gate_decides_by(batch):
    logits, target = batch
    course = Course([ARMS["0.9"]], 2, 3)
    gates = [DiversityGate(trial=trial, groups=(2,)) for trial in TRIALS]
    for step in range(20):
        course(logits[:, :1] * (step + 1), target, step / 20)
        for gate in gates:
            if int(gate.decision[0]) == 0:
                gate.progress = step / 20
                gate(*(value[:, 0] for value in course.found[-1][:2]), 3)
    seen = torch.stack([gate.fit for gate in gates])
    torch.testing.assert_close(course.fits(3)[..., 0], seen)


def test_a_gate_stays_with_correlation_in_the_groups_that_underfit(batch):
    logits, target = batch
    truth = torch.nn.functional.one_hot(target, 5)[:, None, None]
    logits = (
        logits[:, :1] + torch.tensor([0.0, 9.0]).view(2, 1, 1, 1, 1) * truth
    )  # the second seed's nets fit
    course = Course([gated(Gate(threshold=0.5, trial=0.3))], 2, 3)
    own, trial, together = (
        torch.stack([loss(logits[s, 0], target[s]) for s in range(2)])
        for loss in (IndependentLoss(), CorrelationLoss(0.5), CorrelationLoss(0.9))
    )
    for progress in (0.0, 0.29):
        torch.testing.assert_close(course(logits, target, progress), trial.sum())
    torch.testing.assert_close(course(logits, target, 0.3), trial[0] + own[1])  # it decides by this batch
    torch.testing.assert_close(course(logits, target, 0.9), together[0] + own[1])
    assert course.shut().tolist() == [[False], [True]]
    explicit = course.history(2)[2]
    assert explicit[..., 0].tolist() == [[1, 1], [1, 0]]


def test_a_shut_gate_has_the_gradients_of_independent_training_bit_by_bit(batch):
    logits, target = batch
    logits = logits[:, :1].detach().expand(-1, 2, -1, -1, -1).clone().requires_grad_()
    course = Course([ARMS["independent"], gated(Gate(threshold=-1.0, trial=0.0))], 2, 3)
    course(logits, target, 0.5).backward()
    assert course.shut().tolist() == [[False, True]] * 2
    assert torch.equal(logits.grad[:, 0], logits.grad[:, 1])


def test_the_error_penalty_has_the_gradient_of_its_formula(batch):
    logits, target = batch
    logits = (logits + 2 * torch.nn.functional.one_hot(target, 5)[:, None, None]).detach().requires_grad_()
    course = Course([ARMS["error 0.9"]], 2, 3)
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
