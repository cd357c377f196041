"""Groups share the rows of a fold, and hold no weights of columns that a network does not see."""

import copy

import pytest
import torch
from torch import nn

from counterpoint.training import DiversityLoss, Fold, Group, GroupedEnsembles, Schedule, fit_groups
from counterpoint.training.group_batches import RowBatches
from counterpoint.training.group_networks import GroupNetworks
from counterpoint.training.group_steps import GroupLoss
from counterpoint.training.networks import FeatureMask
from tests.training.test_groups import Branching

MASKS = ((1, 1, 1, 1), (1, 0, 1, 0), (1, 1, 1, 1), (1, 0, 1, 0), (1, 1, 1, 1))


def plain():
    return [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)) for _ in MASKS]


def masked(bias=True):
    return [
        nn.Sequential(FeatureMask(torch.tensor(mask)), nn.Linear(4, 6, bias=bias), nn.Tanh(), nn.Linear(6, 3))
        for mask in MASKS
    ]


def partly_masked():
    """A mask that is no choice of columns."""
    networks = masked()
    networks[1][0].weight.data[0] = 0.5
    return networks


def one_masked():
    """A single network sees fewer columns."""
    networks = masked()
    networks[3][0].weight.data[:] = 1.0
    return networks


def blind():
    """A network that sees nothing, twice."""
    networks = masked()
    for k in (1, 3):
        networks[k][0].weight.data[:] = 0.0
    return networks


def normalised():
    return [nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)) for _ in MASKS]


def flattened():
    return [nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 3)) for _ in MASKS]


def branching():
    return [Branching() for _ in MASKS]


MAKERS = [
    plain,
    masked,
    lambda: masked(bias=False),
    partly_masked,
    one_masked,
    blind,
    normalised,
    flattened,
    branching,
]
NAMES = ["plain", "masked", "no bias", "partly", "one", "blind", "norm", "flatten", "branching"]


def folds_of(make, sizes):
    torch.manual_seed(0)
    found = []
    for k, n in enumerate(sizes):
        x = torch.randn(n, 4)
        weight = torch.rand(n) + 0.5 if k == 1 else None
        found.append(Fold(x, (x[:, 0] > 0).long() + (x[:, 1] > 1).long(), weight, make(), random_state=k))
    return found


def groups_of(folds, regular):
    """Each fold as often, candidate by candidate; or some folds more often, in no order."""
    which = [0, 1, 2, 0, 1, 2] if regular else [1, 0, 2, 1, 1]
    return [
        Group(folds[k], DiversityLoss(0.2 * g), weight_decay=(0.1, 1.0)[g % 2]) for g, k in enumerate(which)
    ]


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("sizes", [(20, 20, 20), (20, 23, 7)], ids=["equal", "padded"])
@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_logits_and_gradients_are_those_of_separate_copies(make, sizes, regular):
    groups = groups_of(folds_of(make, sizes), regular)
    grouped = GroupedEnsembles(groups)
    batch = next(iter(RowBatches(grouped.folds, 3)))
    target = batch.y[grouped.fold_of]
    weight = None if batch.sample_weight is None else batch.sample_weight[grouped.fold_of]
    copies = [copy.deepcopy(network) for group in groups for network in group.fold.networks]
    rows = batch.x[grouped.fold_of].repeat_interleave(len(MASKS), 0)
    expected = torch.stack([network(x) for network, x in zip(copies, rows, strict=True)])
    expected = expected.unflatten(0, (len(groups), -1))
    found = grouped.forward(batch)
    torch.testing.assert_close(found, expected)
    loss = GroupLoss([group.loss for group in groups], len(MASKS), grouped.device)
    loss(expected, target, weight).backward()
    loss(found, target, weight).backward()
    # A step of gradient descent shows the gradients at the networks, whatever the stacks are.
    for module in (grouped.networks, *copies):
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.data -= parameter.grad
    for ours, theirs in zip(grouped.networks.learners, copies, strict=True):
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], value)


@pytest.mark.parametrize("make", [masked, branching], ids=["masked", "branching"])
def test_groups_train_as_each_alone_whatever_their_order(make):
    folds = folds_of(make, (20, 23, 17))
    groups, schedule = groups_of(folds, regular=True), Schedule(epochs=4, n_batches=3, learning_rate=0.02)
    xs = [group.fold.x[: 5 + g] for g, group in enumerate(groups)]
    trained = fit_groups(groups, schedule)
    assert trained.networks.is_stacked == (make is masked)
    for g, (logits, ensemble) in enumerate(zip(trained.logits(xs), trained.ensembles(), strict=True)):
        alone = fit_groups([groups[g]], schedule).logits(xs[g])[0]
        torch.testing.assert_close(logits, alone, atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(logits, ensemble(xs[g]))


def test_a_first_layer_is_one_product_for_each_fold(monkeypatch):
    grouped = GroupedEnsembles(groups_of(folds_of(plain, (20, 20, 20)), regular=True))
    shapes, product = [], torch.baddbmm

    def noted(bias, weight, columns):
        shapes.append(tuple(weight.shape))
        return product(bias, weight, columns)

    monkeypatch.setattr(torch, "baddbmm", noted)
    grouped.forward(next(iter(RowBatches(grouped.folds, 2))))
    assert shapes == [(3, 2 * 5 * 6, 4), (30, 3, 6)]


def test_columns_that_are_not_seen_have_no_weights_and_stay_as_they_were():
    networks = masked()
    groups = GroupNetworks([networks], [0, 0], "softmax")
    assert sorted(tuple(p.shape) for p in groups.parameters() if p.shape[1] == 6) == [
        (4, 6, 1),
        (4, 6, 2),
        (6, 6, 1),
        (6, 6, 4),
    ]
    assert [part.places for part in groups.parts] == [[0, 2, 4, 5, 7, 9], [1, 3, 6, 8]]
    with torch.no_grad():
        for parameter in groups.parameters():
            parameter.zero_()
    first = groups.learners[6]
    assert torch.equal(first[1].weight, networks[1][1].weight * torch.tensor([0.0, 1.0, 0.0, 1.0]))
    assert torch.equal(first[0].weight, networks[1][0].weight)
    assert first[1].in_features == 4


def test_inputs_are_shared_where_networks_of_a_fold_are_neighbours():
    networks = GroupNetworks([plain(), plain()], [0, 1, 0, 1], "softmax")
    assert networks.inputs([0, 1, 0, 1]) == [None]
    assert networks.inputs([1, 0, 1, 0])[0].tolist() == [1, 0]
    assert networks.inputs([0, 0, 0, 0]) == [None]
    assert len(networks.inputs([0, 1, 1, 0])[0]) == 20
