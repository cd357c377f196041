"""Groups that train in several programs side by side, against the same groups in one program."""

import threading

import pytest
import torch
from torch import nn

from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Fold,
    Group,
    GroupedEnsembles,
    IndependentLoss,
    Schedule,
    fit_groups,
    group_programs,
    modules,
)
from counterpoint.training.group_programs import split_groups
from counterpoint.training.networks import FeatureMask

SCHEDULE = Schedule(epochs=6, n_batches=3, learning_rate=0.02, weight_decay=0.1)
SEEN = ([1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0])


def plain(i):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def masked(i):
    return nn.Sequential(FeatureMask(torch.tensor(SEEN[i])), *plain(i))


def with_dropout(i):
    return nn.Sequential(*plain(i), nn.Dropout(0.5))


def with_batch_norm(i):
    return nn.Sequential(nn.BatchNorm1d(4), *plain(i))


def make_folds(make, sizes=(40, 41, 45)):
    """Folds of unequal size, one of them with weights."""
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    folds = []
    for k, n in enumerate(sizes):
        x = torch.randn(n, 4, generator=g)
        y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
        weight = torch.rand(n, generator=g) + 0.5 if k == 1 else None
        folds.append(Fold(x, y, weight, [make(i) for i in range(3)], random_state=k))
    return folds


def groups_of(folds):
    smooth = DiversityLoss(0.5, label_smoothing=0.1)
    settings = [
        (IndependentLoss(), 0, None),
        (smooth, 2, 1.0),
        (CorrelationLoss(0.5), 1, 0.0),
        (smooth, 0, None),
    ]
    return [Group(fold, *given) for given in settings for fold in folds]


@pytest.fixture
def small_programs(monkeypatch):
    """Split the groups of a fold although they have little to do."""
    monkeypatch.setattr(group_programs, "_WORK_OF_A_PROGRAM", 1)


@pytest.mark.parametrize("make", [plain, masked])
def test_programs_side_by_side_train_as_one_program(make, small_programs):
    folds = make_folds(make)
    groups, seen = groups_of(folds), {"parts": [], "one": []}
    assert [len(split_groups(GroupedEnsembles(groups), 15, n)) for n in (1, 2, 3, 4)] == [3, 4, 3, 6]

    def run(name, **given):
        def look(epoch, grouped):
            seen[name].append(torch.stack(grouped.votes(folds[0].x)))

        return fit_groups(groups, SCHEDULE, on_epoch=look, **given)

    parts, one = run("parts"), run("one", on_step=lambda *_: None)  # steps of all groups need one program
    for ours, theirs in zip(parts.networks.parameters(), one.networks.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(seen["parts"], seen["one"], atol=2e-4, rtol=2e-4)


def test_the_weights_of_a_part_are_views_of_those_of_all_groups(small_programs):
    folds = make_folds(masked)
    grouped = GroupedEnsembles(groups_of(folds))
    parts = split_groups(grouped, 15, 2)
    places = [g for k in range(3) for g in range(k, 12, 3)]  # fold by fold
    assert [group for part in parts for group in part.groups] == [grouped.groups[g] for g in places]
    with torch.no_grad():
        for number, part in enumerate(parts):
            for parameter in part.networks.parameters():
                parameter.fill_(number)
    learners = grouped.networks.learners
    numbers = [number for number, part in enumerate(parts) for _ in part.groups]
    assert numbers == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 2
    for number, g in zip(numbers, places, strict=True):
        for learner in learners[3 * g : 3 * g + 3]:
            assert (learner[-1].weight == number).all()


class OwnLoss(DiversityLoss):
    """A loss that might not run in several threads."""


@pytest.mark.parametrize(
    ("make", "losses"),
    [
        (with_dropout, [IndependentLoss(), DiversityLoss(0.5)]),
        (with_batch_norm, [IndependentLoss(), DiversityLoss(0.5)]),
        (plain, [OwnLoss(0.0), OwnLoss(0.5)]),
        (plain, [DiversityLoss(0.5)]),
        (lambda i: masked(i) if i else plain(i), [IndependentLoss(), DiversityLoss(0.5)]),
    ],
)
def test_groups_that_cannot_be_split_train_as_one_program(make, losses, small_programs):
    groups = [Group(fold, loss) for loss in losses for fold in make_folds(make, (40, 40))]
    grouped = GroupedEnsembles(groups)
    assert split_groups(grouped, 20, 2) == [grouped]


def test_groups_with_little_work_train_as_one_program():
    grouped = GroupedEnsembles(groups_of(make_folds(plain)))
    assert split_groups(grouped, 15, 2) == [grouped]


def test_threads_are_as_before_after_programs_side_by_side(small_programs):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        counts = []
        fit_groups(
            groups_of(make_folds(plain)),
            SCHEDULE,
            on_epoch=lambda *_: counts.append(torch.get_num_threads()),
        )
        other = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert counts == [1] * SCHEDULE.epochs + [2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_in_a_program_is_raised(small_programs):
    folds = [fold._replace(y=fold.y + 7) for fold in make_folds(plain)]
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        fit_groups([Group(fold, DiversityLoss(d)) for d in (0.2, 0.5) for fold in folds], SCHEDULE)


@pytest.mark.parametrize("make", [plain, masked])
def test_outputs_do_not_depend_on_the_rows_of_a_pass(make, monkeypatch):
    grouped = GroupedEnsembles(groups_of(make_folds(make)))
    x = torch.randn(50, 4)
    expected = grouped.logits(x)
    monkeypatch.setattr(modules, "_MAX_ACTIVATIONS", 12 * 3 * 8 * 7)  # seven rows at once
    found = grouped.logits(x)
    assert not any(logits.requires_grad for logits in found)
    torch.testing.assert_close(found, expected)
