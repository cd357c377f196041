"""The ensembles of a cell are measured as the library measures, and test rows take no part in training."""

import numpy as np
import pytest
import torch

from counterpoint.datasets import load
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.training import (
    CorrelationLoss,
    Group,
    IndependentLoss,
    JointLoss,
    Readout,
    Schedule,
    fit_groups,
)
from paper import programs
from paper.diversity_map.networks import BASELINE, READ_OUT, Size, make_loss, measure, measure_arms
from paper.diversity_map.splits import make_splits
from paper.forests import shared_vote_accuracy

CPU = torch.device("cpu")
LOSSES = (BASELINE, "joint", "0", "0.9")
SIZE = Size(3, 5)
SCHEDULE = Schedule(15, 1, 0.03, 0.01)


@pytest.fixture(scope="module")
def splits():
    return make_splits(load("iris"), 2, 0, 0)


@pytest.fixture(scope="module")
def arms(splits):
    return measure_arms(splits, LOSSES, SIZE, SCHEDULE, CPU, read_out=True)


@pytest.fixture(scope="module")
def alone(splits):
    """Independent networks on the second split, trained without the others."""
    fold = programs.fold_of(splits[1], *SIZE, CPU)
    return fit_groups([Group(fold, IndependentLoss())], SCHEDULE)


def test_the_arms_are_the_losses_of_the_library():
    assert isinstance(make_loss(BASELINE), IndependentLoss)
    assert isinstance(make_loss("joint"), JointLoss)
    correlation = make_loss("0.25")
    assert isinstance(correlation, CorrelationLoss)
    assert correlation.diversity == 0.25


def test_every_arm_has_a_number_for_each_split(arms, splits):
    assert set(arms) == {*LOSSES, READ_OUT}
    for arm in arms.values():
        assert all(values.shape == (len(splits),) for values in arm.values())
        assert ((arm["learner"] > 0.3) & (arm["learner"] <= 1)).all()


@pytest.mark.parametrize("read_out", [False, True])
def test_what_is_measured_is_what_the_library_measures(read_out, arms, alone, splits):
    split = splits[1]
    x, y, test_x, test_y = split.tensors(CPU)
    logits = alone.logits([torch.cat([x, test_x])])[0]
    if read_out:
        logits = Readout.identity(3, 3).refit(logits[:, : len(x)], y)(logits)
    proba = logits.double().softmax(-1).numpy()
    seen, held = proba[:, : len(x)], proba[:, len(x) :]
    found = {key: values[1] for key, values in arms[READ_OUT if read_out else BASELINE].items()}
    y, test_y = y.numpy(), test_y.numpy()
    assert found["soft"] == (held.mean(0).argmax(-1) != test_y).sum()
    wrong = (1 - shared_vote_accuracy(test_y, held.argmax(-1))) * len(test_y)
    assert found["hard"] == pytest.approx(wrong)
    assert found["learner"] == pytest.approx((seen.argmax(-1) == y).mean())
    assert found["vote"] == pytest.approx((seen.mean(0).argmax(-1) == y).mean())
    pairs = learner_learner_correlation(seen)[np.triu_indices(3, 1)]
    assert found["r_tl"] == pytest.approx(truth_learner_correlation(y, seen).mean(), abs=1e-5)
    assert found["r_ll"] == pytest.approx(pairs.mean(), abs=1e-5)


def test_a_tie_of_votes_is_right_by_its_share(splits):
    split = splits[0]._replace(labels=np.array([0, 1]), test_labels=np.array([0, 2]))
    answers = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0], [1, 0, 2, 0]])  # (N, n)
    found = measure(torch.nn.functional.one_hot(answers, 3).double() * 0.9 + 0.03, split)
    assert found.hard == pytest.approx(2 / 3 + 1)
    assert (found.vote, found.learner) == (1, pytest.approx(4 / 6))


def test_test_rows_take_no_part_in_training(arms, splits):
    moved = [split._replace(test_table=split.test_table + 7) for split in splits]
    again = measure_arms(moved, LOSSES, SIZE, SCHEDULE, CPU)
    for name, arm in again.items():
        for key in ("learner", "vote", "r_tl", "r_ll"):
            np.testing.assert_array_equal(arm[key], arms[name][key])


def test_chunks_do_not_change_what_is_measured(arms, splits, monkeypatch):
    monkeypatch.setattr(programs, "_MOST_ON_CPU", 1)  # one ensemble at a time
    again = measure_arms(splits, LOSSES, SIZE, SCHEDULE, CPU, read_out=True)
    for name, arm in again.items():
        for key, values in arm.items():
            np.testing.assert_allclose(values, arms[name][key], rtol=1e-3, err_msg=f"{name}, {key}")


def test_the_parameters_are_those_of_the_networks(splits):
    fold = programs.fold_of(splits[0], *SIZE, CPU)
    counted = sum(parameter.numel() for network in fold.networks for parameter in network.parameters())
    assert SIZE.n_parameters(splits[0]) == counted


@pytest.mark.parametrize("name", ["iris", "labor"])  # numbers; nominal columns with missing values
def test_every_row_is_tested_once_in_each_repeat_and_scaled_by_the_others(name):
    table = load(name)
    n = len(table.y)
    splits = make_splits(table, 3, 2 * n, 0)
    assert len(splits) == 6
    assert len({split.seed for split in splits}) == 6
    assert len({split.table.shape[1] for split in splits}) == 1
    for repeat in (splits[:3], splits[3:]):
        tested = np.concatenate([split.test_labels for split in repeat])
        np.testing.assert_array_equal(np.bincount(tested), np.unique(table.y, return_counts=True)[1])
    for split in splits:
        assert len(split.labels) + len(split.test_labels) == n
        np.testing.assert_allclose(split.table.mean(axis=0), 0, atol=1e-5)
        assert set(split.table.std(axis=0).round(4).tolist()) <= {0.0, 1.0}
    assert make_splits(table, 3, 10**6, 0)[-1].n_classes == len(np.unique(table.y))


def test_a_small_table_is_repeated_five_times_at_most():
    assert len(make_splits(load("labor"), 2, 10**6, 0)) == 10
