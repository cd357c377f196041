"""Very many small networks train as each would alone, and are measured as the library measures."""

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.datasets import load
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.training import (
    CorrelationLoss,
    Fold,
    Group,
    IndependentLoss,
    JointLoss,
    Schedule,
    fit_groups,
)
from counterpoint.training.readout import Readout
from paper.diversity_map import study
from paper.diversity_map.perceptrons import Perceptrons, Steps, Task, measure, train
from paper.diversity_map.study import SMOKE
from paper.forests import shared_vote_accuracy

DIVERSITIES = (0.0, 0.9)
LOSSES = ("independent", "joint", "0", "0.9")
K, N, SIZES, STEPS = 2, 3, (4, 5, 3), Steps(15, 0.03, 0.01)


@pytest.fixture(scope="module")
def task():
    """Iris in two folds."""
    x, y, trained = study.prepare(load("iris"), SMOKE, 0)
    return Task(*map(torch.as_tensor, (x, y, trained)))


@pytest.fixture(scope="module")
def trained(task):
    nets = Perceptrons(K, len(LOSSES), N, SIZES, seed=3)
    train(nets, task, LOSSES, STEPS)
    return nets


def as_modules(nets, fold, loss):
    """Return the networks of a group as ordinary modules."""
    found = []
    for learner in range(N):
        net = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.ReLU(), nn.Linear(SIZES[1], SIZES[2]))
        at = (fold, loss, learner)
        values = (nets.weight[at], nets.bias[at][:, 0], nets.out_weight[at], nets.out_bias[at][:, 0])
        with torch.no_grad():
            for parameter, value in zip(net.parameters(), values, strict=True):
                parameter.copy_(value)
        found.append(net)
    return found


def test_groups_of_a_fold_start_from_the_same_weights_as_linear_layers_do():
    nets = Perceptrons(2, 3, 400, (9, 4, 3), seed=0)
    for parameter, inputs in ((nets.weight, 9), (nets.bias, 9), (nets.out_weight, 4), (nets.out_bias, 4)):
        assert (parameter[:, :1] == parameter).all()
        assert not (parameter[0] == parameter[1]).any()
        bound = inputs**-0.5  # of nn.Linear: uniform within one over the root of the inputs
        assert parameter.abs().max() <= bound
        assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_the_program_trains_as_the_batched_trainer_of_the_estimators(task, trained):
    start = Perceptrons(K, len(LOSSES), N, SIZES, seed=3)
    losses = [IndependentLoss(), JointLoss(), *map(CorrelationLoss, DIVERSITIES)]
    folds = []
    for k in range(K):
        rows = task.train[k] > 0
        folds.append(Fold(task.x[k].T[rows], task.y[rows], None, as_modules(start, k, 0), seed=0))
    groups = [Group(fold, loss) for fold in folds for loss in losses]
    program = fit_groups(groups, Schedule(STEPS.n_steps, 1, STEPS.learning_rate, STEPS.weight_decay))
    theirs = program.logits([task.x[k].T for k in range(K) for _ in losses])
    with torch.no_grad():
        ours = trained(task.x).flatten(0, 1)
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=0.01, atol=0.01)
    held = [task.x[k].T[task.train[k] == 0] for k in range(K) for _ in losses]
    truth = [task.y[task.train[k] == 0] for k in range(K) for _ in losses]
    wrong = [(p.mean(0).argmax(-1) != y).sum() for p, y in zip(program.proba(held), truth, strict=True)]
    assert (measure(trained, task, n_raw=2).soft.flatten() - torch.stack(wrong)).abs().max() <= 1


def test_rows_that_a_fold_tests_take_no_part_in_its_training(task, trained):
    x, y = task.x.clone(), task.y.clone()
    x[0][:, task.train[0] == 0] += 7
    nets = Perceptrons(K, len(LOSSES), N, SIZES, seed=3)
    train(nets, Task(x, y, task.train), LOSSES, STEPS)
    for ours, theirs in zip(nets.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(ours[0], theirs[0])


def test_what_is_measured_is_what_the_library_measures(task, trained):
    found = measure(trained, task, n_raw=2)
    with torch.no_grad():
        proba = trained(task.x)[0, 0].softmax(-1).double().numpy()  # independent training needs no read-out
    rows = task.train[0].numpy() > 0
    y = task.y.numpy()
    labels = proba.argmax(-1)
    assert found.soft[0, 0] == (proba.mean(0).argmax(-1) != y)[~rows].sum()
    assert found.hard[0, 0].item() == pytest.approx(
        (1 - shared_vote_accuracy(y[~rows], labels[:, ~rows])) * (~rows).sum(), abs=1e-4
    )
    assert found.learner[0, 0].item() == pytest.approx((labels == y)[:, rows].mean())
    assert found.vote[0, 0].item() == pytest.approx((proba.mean(0).argmax(-1) == y)[rows].mean())
    pairs = learner_learner_correlation(proba[:, rows])[np.triu_indices(N, 1)]
    assert found.r_tl[0, 0].item() == pytest.approx(
        truth_learner_correlation(y[rows], proba[:, rows]).mean(), abs=1e-5
    )
    assert found.r_ll[0, 0].item() == pytest.approx(pairs.mean(), abs=1e-5)


def test_pieces_do_not_change_what_is_measured(task, trained, monkeypatch):
    whole = measure(trained, task, n_raw=2)
    monkeypatch.setattr("paper.diversity_map.perceptrons._MOST_NUMBERS", 1)
    for one, other in zip(whole, measure(trained, task, n_raw=2), strict=True):
        torch.testing.assert_close(one, other)


def test_a_group_trains_as_if_it_were_alone(task, trained):
    for places, losses in (([0], ("independent",)), ([0, 3], ("independent", "0.9"))):
        nets = Perceptrons(K, len(losses), N, SIZES, seed=3)
        train(nets, task, losses, STEPS)
        for ours, theirs in zip(nets.parameters(), trained.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs[:, places], rtol=1e-3, atol=1e-4)


def test_the_read_out_of_independent_networks_is_that_of_the_library(task, trained):
    raw, read = (measure(trained, task, n_raw=n) for n in (len(LOSSES), 0))
    rows = task.train[1] > 0
    with torch.no_grad():
        logits = trained(task.x)[1, 0]
        readout = Readout.identity(N, SIZES[2]).refit(logits[:, rows], task.y[rows])
        wrong = {
            "raw": (logits.softmax(-1).mean(0).argmax(-1) != task.y)[~rows].sum(),
            "read": (readout(logits).softmax(-1).mean(0).argmax(-1) != task.y)[~rows].sum(),
        }
    assert (raw.soft[1, 0], read.soft[1, 0]) == (wrong["raw"], wrong["read"])
    assert wrong["raw"] != wrong["read"]
    torch.testing.assert_close(measure(trained, task, n_raw=2).soft[:, 2:], read.soft[:, 2:])
