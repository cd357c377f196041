import copy

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
    JointLoss,
    NegativeCorrelationLoss,
    Schedule,
    fit_groups,
)
from counterpoint.training.group_batches import RowBatches
from counterpoint.training.group_networks import GroupNetworks
from counterpoint.training.group_steps import GroupLoss, adamw

SCHEDULE = Schedule(epochs=6, n_batches=3, learning_rate=0.02, weight_decay=0.1)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture
def folds():
    """Three folds of unequal size, one of them with weights."""
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    made = []
    for k, n in enumerate((40, 41, 45)):
        x = torch.randn(n, 4, generator=g)
        y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
        weight = torch.rand(n, generator=g) + 0.5 if k == 1 else None
        made.append(Fold(x, y, weight, [mlp() for _ in range(3)], random_state=k))
    return made


def groups_of_all_kinds(folds):
    """Losses in no order, warm-ups and weight decays of their own."""
    joint = JointLoss()
    return [
        Group(folds[0], CorrelationLoss(0.5), warmup_epochs=2),
        Group(folds[1], joint, weight_decay=1.0),
        Group(folds[0], IndependentLoss()),
        Group(folds[2], CorrelationLoss(lam=0.9, reduction="sum"), weight_decay=0.0),
        Group(folds[2], NegativeCorrelationLoss(0.3)),
        Group(folds[0], joint),
        Group(folds[1], CorrelationLoss(1.0), warmup_epochs=4),
    ]


def test_groups_of_all_kinds_train_as_if_they_were_alone(folds):
    groups = groups_of_all_kinds(folds)
    together = fit_groups(groups, SCHEDULE).ensembles()
    for group, ensemble in zip(groups, together, strict=True):
        alone = fit_groups([group], SCHEDULE).ensembles()[0]
        for name, value in ensemble.state_dict().items():
            torch.testing.assert_close(value, alone.state_dict()[name], atol=2e-4, rtol=2e-4)


def test_a_larger_decay_leaves_smaller_weights(folds):
    program = fit_groups([Group(folds[0], IndependentLoss(), 0, d) for d in (0.0, 1.0, 10.0)], SCHEDULE)
    norms = [sum(float(p.detach().square().sum()) for p in e.parameters()) for e in program.ensembles()]
    assert norms[0] > norms[1] > norms[2]


def test_the_program_answers_as_its_ensembles_do(folds):
    groups = groups_of_all_kinds(folds)
    program = fit_groups(groups, SCHEDULE)
    xs = [torch.randn(5 + g, 4) for g in range(len(groups))]
    readouts = program.readouts()
    for g, ensemble in enumerate(program.ensembles()):
        torch.testing.assert_close(program.logits(xs)[g], ensemble(xs[g]))
        assert (readouts[g] is not None) == isinstance(groups[g].loss, CorrelationLoss)
        ensemble.readout = readouts[g]
        torch.testing.assert_close(program.proba(xs)[g].float(), ensemble.learner_proba(xs[g]))


def test_each_epoch_is_shown_and_the_networks_given_are_left_alone(folds):
    before = [p.clone() for p in folds[0].networks[0].parameters()]
    seen = []
    fit_groups(
        [Group(folds[0], IndependentLoss())],
        SCHEDULE,
        on_epoch=lambda epoch, program: seen.append((epoch, float(program.logits([folds[0].x])[0].sum()))),
    )
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert len({value for _, value in seen}) == 6
    assert all(torch.equal(a, b) for a, b in zip(before, folds[0].networks[0].parameters(), strict=True))


class Branching(nn.Module):
    """Not a sequence, so it cannot be stacked."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.left(x) + self.right(x).tanh()


@pytest.mark.parametrize("loss", [IndependentLoss(), CorrelationLoss(0.5), JointLoss()])
def test_a_fold_with_fewer_rows_than_steps_sits_the_rest_out(folds, loss):
    x, y, _, nets, seed = folds[0]
    short = Fold(x[:4], y[:4], None, nets, seed)
    schedule = Schedule(epochs=1, n_batches=10, learning_rate=0.02, weight_decay=0.0)
    steps = []
    grouped = GroupedEnsembles([Group(short, loss), Group(folds[1], loss)])
    group_loss = GroupLoss([loss, loss], 3, grouped.device)
    for batch in RowBatches([short, folds[1]], schedule.n_batches):
        grouped.networks.zero_grad()
        group_loss(grouped.forward(batch), batch.y, batch.sample_weight).backward()
        gradient = next(grouped.networks.parameters()).grad
        assert gradient.isfinite().all()
        steps.append(gradient.flatten(1).abs().sum(1).unflatten(0, (2, 3)).sum(1) > 0)
    moved = torch.stack(steps)
    assert not moved[4:, 0].any()  # no rows left
    assert moved[:, 1].all()
    assert moved[:4, 0].all() == (not isinstance(loss, CorrelationLoss))  # a row by itself has no correlation
    together = fit_groups([Group(short, loss), Group(folds[1], loss)], schedule).ensembles()[0]
    alone = fit_groups([Group(short, loss)], schedule).ensembles()[0]
    for name, value in together.state_dict().items():
        torch.testing.assert_close(value, alone.state_dict()[name], atol=2e-4, rtol=2e-4)


def without_parameters():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, affine=False), nn.ReLU(), nn.Linear(8, 3))


def one_wide():
    return nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1), nn.ReLU(), nn.Linear(1, 3))


@pytest.mark.parametrize("make", [without_parameters, one_wide])
def test_running_statistics_are_those_of_the_group_whatever_the_width(folds, make):
    fold = folds[0]._replace(networks=[make() for _ in range(3)])
    groups = [Group(fold, loss) for loss in (IndependentLoss(), CorrelationLoss(0.5))]
    for group, ensemble in zip(groups, fit_groups(groups, SCHEDULE).ensembles(), strict=True):
        alone = fit_groups([group], SCHEDULE).ensembles()[0].learners
        for one, other in zip(ensemble.learners, alone, strict=True):
            torch.testing.assert_close(one[1].running_var, other[1].running_var, atol=2e-3, rtol=2e-3)
            assert (one[1].running_mean != 0).all()


def normalised():
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("n_rows", [39, 40, 41])
def test_a_fold_by_itself_trains_as_a_plain_loop_does_with_batches_of_any_size(n_rows):
    torch.manual_seed(1)
    fold = Fold(
        torch.randn(n_rows, 4), torch.randint(3, (n_rows,)), None, [normalised() for _ in range(3)], 0
    )
    found = fit_groups([Group(fold, DiversityLoss(0.0))], SCHEDULE).ensembles()[0].learners
    nets = copy.deepcopy(fold.networks)
    optimizer = torch.optim.AdamW([p for net in nets for p in net.parameters()], lr=0.02, weight_decay=0.1)
    order = torch.Generator().manual_seed(fold.random_state)
    for _ in range(SCHEDULE.epochs):
        for rows in torch.randperm(n_rows, generator=order).tensor_split(SCHEDULE.n_batches):
            optimizer.zero_grad()
            IndependentLoss()(torch.stack([net(fold.x[rows]) for net in nets]), fold.y[rows]).backward()
            optimizer.step()
    for one, other in zip(found, nets, strict=True):
        for name, value in one.state_dict().items():
            torch.testing.assert_close(value, other.state_dict()[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("context", [torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16)])
def test_groups_train_in_full_precision_whatever_is_set_around(folds, context):
    groups = [Group(folds[0], IndependentLoss()), Group(folds[1], CorrelationLoss(0.5))]
    plain = fit_groups(groups, SCHEDULE)
    with context:
        around = fit_groups(groups, SCHEDULE)
        found = around.logits([fold.x for fold in folds[:2]])
    for one, other in zip(found, plain.logits([fold.x for fold in folds[:2]]), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("make", [mlp, Branching, normalised])
def test_networks_of_any_kind_have_the_decay_of_their_group(make):
    torch.manual_seed(0)
    x = torch.randn(36, 4)
    fold = Fold(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long(), None, [make(), make()], random_state=0)
    groups = [Group(fold, IndependentLoss(), 0, decay) for decay in (0.0, 1.0)]
    together = fit_groups(groups, SCHEDULE).ensembles()
    for group, ensemble in zip(groups, together, strict=True):
        alone = fit_groups([group], SCHEDULE).ensembles()[0]  # one decay: AdamW's own
        for name, value in ensemble.state_dict().items():
            torch.testing.assert_close(value, alone.state_dict()[name], atol=2e-4, rtol=2e-4)
    weights = [torch.cat([p.flatten() for p in e.parameters()]) for e in together]
    assert (weights[0] - weights[1]).abs().max() > 0.01


def test_probabilities_are_single_where_there_is_no_double_precision(folds):
    program = fit_groups([Group(folds[0], IndependentLoss())], SCHEDULE)
    x = torch.randn(5, 4)
    double = program.proba([x])[0]
    program.dtype = torch.float32  # as on Apple's GPUs
    single = program.proba([x])[0]
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(double.float(), single)


class PowerLoss(NegativeCorrelationLoss):
    """A loss of a user with a setting of its own."""

    def __init__(self, diversity, power):
        super().__init__(diversity)
        self.power = power

    def score(self, outputs, target):
        return super().score(outputs, target) ** self.power


class OwnDiversityLoss(DiversityLoss):
    def score(self, outputs, target):
        return 0.1 * super().score(outputs, target)

    def cost(self, outputs, target, sample_weight):
        return 0.1 * super().cost(outputs, target, sample_weight)


@pytest.mark.parametrize(
    "losses",
    [
        (PowerLoss(0.5, 1), PowerLoss(0.5, 3)),
        (DiversityLoss(0.5), OwnDiversityLoss(0.5)),
        (CorrelationLoss(lam=0.2), CorrelationLoss(lam=0.2, reduction="sum")),
    ],
    ids=["settings", "subclass", "reduction"],
)
def test_losses_that_differ_in_more_than_their_dial_are_not_computed_as_one(folds, losses):
    together = fit_groups([Group(folds[0], loss) for loss in losses], SCHEDULE)
    alone = [fit_groups([Group(folds[0], loss)], SCHEDULE) for loss in losses]
    rows = folds[0].x
    for own, other in zip(together.logits([rows, rows]), alone, strict=True):
        torch.testing.assert_close(own, other.logits([rows])[0])
    first, second = together.logits([rows, rows])
    assert not torch.allclose(first, second)


def test_progress_is_text_where_there_is_no_terminal(folds, capsys):
    fit_groups([Group(folds[0], IndependentLoss())], SCHEDULE, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"epoch {SCHEDULE.epochs}/{SCHEDULE.epochs}, ")
    assert len(lines) <= SCHEDULE.epochs


@pytest.mark.parametrize("decays", [(0.1, 0.1), (0.0, 0.1)])
def test_units_without_gradients_do_not_slow_the_steps(decays):
    networks = GroupNetworks([[mlp() for _ in range(2)]], [0], "softmax")
    optimizer, shrink = adamw(networks, 0.01, decays)
    torch.manual_seed(0)
    ours = list(networks.parameters())
    plain = [copy.deepcopy(p) for p in ours]
    others = torch.optim.AdamW(plain, lr=0.01, weight_decay=0.1 if shrink is None else 0.0, fused=True)
    slow = {optimizer: 0, others: 0}
    for step in range(1000):
        for one, other in zip(ours, plain, strict=True):
            one.grad = torch.randn_like(one) if step == 0 else torch.zeros_like(one)
            other.grad = one.grad.clone()
        for each in slow:
            each.step()
            moments = torch.cat([state["exp_avg"].flatten() for state in each.state.values()])
            slow[each] += int(((moments != 0) & (moments.abs() < torch.finfo().tiny)).sum())
    assert slow[others] > 0
    assert slow[optimizer] == 0
    for one, other in zip(ours, plain, strict=True):
        assert torch.equal(one, other)


def test_weights_below_zero_and_a_scheduler_that_takes_a_loss_are_refused(folds):
    weight = torch.ones(len(folds[0].x)).index_fill(0, torch.tensor([3]), -1.0)
    with pytest.raises(ValueError, match="`sample_weight` must be 0 or more for each sample; got -1"):
        fit_groups([Group(folds[0]._replace(sample_weight=weight), IndependentLoss())], SCHEDULE)
    with pytest.raises(ValueError, match="`scheduler` must not be ReduceLROnPlateau"):
        fit_groups(
            [Group(folds[0], IndependentLoss())],
            SCHEDULE,
            scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau,
        )
