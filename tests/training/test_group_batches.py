"""Groups whose folds yield batches of their own: small convolutional networks, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from counterpoint.training import (
    BatchFold,
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    Fold,
    Group,
    IndependentLoss,
    JointLoss,
    Schedule,
    fit,
    fit_groups,
    mlp,
)
from counterpoint.vision import ImageBatches

EPOCHS = 3
LOSSES = [IndependentLoss(), DiversityLoss(0.5), JointLoss(), CorrelationLoss(0.5), DiversityLoss(0.9)]


def convnet():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def images(seed, views=None):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8)
    return ImageBatches(
        pixels, np.arange(24) % 3, batch_size=8, random_state=seed, device="cpu", crop_padding=1, views=views
    )


def image_folds(views=None, n_folds=2):
    torch.manual_seed(0)
    return [BatchFold(images(k, views), [convnet() for _ in range(2)]) for k in range(n_folds)]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def one_cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=EPOCHS * 3)


def anew(group, number, views=None):
    """Return the group with batches that start from their seed again."""
    return group._replace(fold=group.fold._replace(batches=images(number, views)))


def close(one, other):
    for name, value in one.state_dict().items():
        if name.endswith("_extra_state"):  # how convolutions run
            continue
        torch.testing.assert_close(value, other.state_dict()[name], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("views", [None, 2])
def test_convnets_of_all_losses_train_as_each_group_alone(views):
    folds = image_folds(views)
    groups = [Group(fold, loss) for fold in folds for loss in LOSSES]
    settings = {"optimizer": sgd, "scheduler": one_cycle}
    trained = fit_groups(groups, Schedule(EPOCHS), **settings)
    assert trained.networks.is_stacked
    for g, (group, ensemble) in enumerate(zip(groups, trained.ensembles(), strict=True)):
        alone = fit_groups([anew(group, g // len(LOSSES), views)], Schedule(EPOCHS), **settings)
        close(ensemble, alone.ensembles()[0])
        assert (ensemble.readout is not None) == isinstance(group.loss, CorrelationLoss)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_group_trains_as_fit_trains_its_ensemble(loss):
    fold = image_folds(n_folds=1)[0]
    ensemble = Ensemble(copy.deepcopy(fold.networks))
    fit(
        ensemble,
        images(0),
        loss=loss,
        optimizer=sgd,
        epochs=EPOCHS,
        scheduler=one_cycle,
        precision="float32",
        progress=False,
    )
    trained = fit_groups([Group(fold, loss)], Schedule(EPOCHS), optimizer=sgd, scheduler=one_cycle)
    close(trained.ensembles()[0], ensemble)
    x = torch.randn(5, 3, 8, 8)
    torch.testing.assert_close(trained.votes(x)[0].float(), ensemble.predict_proba(x), atol=1e-4, rtol=1e-4)


def test_looking_at_the_vote_after_an_epoch_leaves_the_batches_as_they_are():
    def run(on_epoch):
        fold = image_folds(n_folds=1)[0]
        return fit_groups([Group(fold, CorrelationLoss(0.5))], Schedule(EPOCHS), on_epoch=on_epoch)

    x = torch.randn(4, 3, 8, 8)
    looked_at = run(lambda epoch, grouped: grouped.votes(x))
    torch.testing.assert_close(looked_at.logits(x)[0], run(None).logits(x)[0], atol=1e-5, rtol=1e-5)


def test_read_outs_belong_to_the_weights_of_their_epoch():
    scales = []
    fold = image_folds(n_folds=1)[0]
    trained = fit_groups(
        [Group(fold, CorrelationLoss(0.5))],
        Schedule(EPOCHS, learning_rate=0.05),
        on_epoch=lambda epoch, grouped: scales.append(grouped.readouts()[0].scale.clone()),
    )
    assert not torch.equal(scales[0], scales[1])
    assert trained.readouts()[0] is trained.readouts()[0]


def test_each_step_is_reported():
    seen = []
    groups = [Group(fold, loss) for fold in image_folds() for loss in LOSSES[:2]]
    fit_groups(groups, Schedule(2), on_step=lambda logits, y: seen.append((logits.shape, y.shape)))
    assert seen == [((4, 2, 8, 3), (4, 8))] * 6


def test_soft_labels_and_sample_weights_of_batches_count():
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.arange(16) % 2
    networks = [mlp([4, 8, 2]) for _ in range(3)]
    kept = torch.cat([torch.ones(8), torch.zeros(8)])
    soft = nn.functional.one_hot(y, 2).float()
    weighted = BatchFold([(x, soft, kept)], networks)
    half = BatchFold([(x[:8], y[:8])], networks)
    for loss in LOSSES:
        one, other = (fit_groups([Group(f, loss)], Schedule(5)).ensembles()[0] for f in (weighted, half))
        close(one, other)


def test_batches_train_as_the_same_rows_in_memory_do():
    torch.manual_seed(0)
    x, y = torch.randn(12, 4), torch.arange(12) % 2
    networks = [mlp([4, 8, 2]) for _ in range(3)]
    fold = Fold(x, y, None, networks)
    rows = fit_groups([Group(fold, loss) for loss in LOSSES], Schedule(4, 1)).ensembles()
    streamed = [Group(BatchFold([(x, y)], networks), loss) for loss in LOSSES]
    for one, other in zip(rows, fit_groups(streamed, Schedule(4)).ensembles(), strict=True):
        close(one, other)


def test_images_in_memory_train_too():
    torch.manual_seed(0)
    y = torch.arange(24) % 3
    folds = [Fold(torch.randn(24, 3, 8, 8), y, None, [convnet(), convnet()], seed) for seed in (0, 1)]
    groups = [Group(fold, loss) for fold in folds for loss in LOSSES]
    for group, ensemble in zip(groups, fit_groups(groups, Schedule(2, 3)).ensembles(), strict=True):
        close(ensemble, fit_groups([group], Schedule(2, 3)).ensembles()[0])


def test_a_scheduler_moves_the_weight_decay_of_each_group_as_that_of_adamw():
    torch.manual_seed(0)
    fold = Fold(torch.randn(12, 4), torch.arange(12) % 2, None, [mlp([4, 8, 2]) for _ in range(2)])
    groups = [Group(fold, IndependentLoss(), weight_decay=decay) for decay in (0.0, 5.0)]

    def halving(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    trained = fit_groups(groups, Schedule(4, 3), scheduler=halving).ensembles()
    for group, ensemble in zip(groups, trained, strict=True):
        close(ensemble, fit_groups([group], Schedule(4, 3), scheduler=halving).ensembles()[0])


ROWS = Fold(torch.randn(6, 4), torch.arange(6) % 2, None, [mlp([4, 2]), mlp([4, 2])])
NORMED = [nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)) for _ in range(2)]
STREAM = BatchFold([(ROWS.x, ROWS.y)], ROWS.networks)
FEWER = Fold(ROWS.x[:5], ROWS.y[:5], None, ROWS.networks)


def refused(fold, loss=None):
    return [Group(fold, IndependentLoss() if loss is None else loss)]


@pytest.mark.parametrize(
    ("groups", "schedule", "settings", "error", "message"),
    [
        ([], Schedule(1, 1), {}, TypeError, "`groups` must be a list of at least one Group"),
        ([ROWS], Schedule(1, 1), {}, TypeError, "`groups` must be a list of at least one Group"),
        (refused(ROWS) + refused(STREAM), Schedule(1, 1), {}, TypeError, "got BatchFold and Fold"),
        (refused(ROWS, nn.MSELoss()), Schedule(1, 1), {}, TypeError, "`loss` must be an EnsembleLoss"),
        (
            refused(ROWS, CorrelationLoss(0.5, activation="identity")),
            Schedule(1, 1),
            {},
            ValueError,
            "must be the same for the loss and the ensemble",
        ),
        (
            refused(ROWS) + refused(ROWS._replace(networks=ROWS.networks[:1])),
            Schedule(1, 1),
            {},
            ValueError,
            "as many in each fold; got 1 and 2",
        ),
        (refused(ROWS._replace(networks=[])), Schedule(1, 1), {}, TypeError, "`networks` must be a list"),
        (refused(ROWS._replace(y=ROWS.y[:5])), Schedule(1, 1), {}, ValueError, "got 6 and 5 rows"),
        (refused(ROWS), Schedule(1), {}, TypeError, "`n_batches` must be"),
        (refused(ROWS), Schedule(0, 1), {}, ValueError, "`epochs` must be at least 1"),
        (refused(STREAM), Schedule(1, 2), {}, ValueError, "`n_batches` must be None with a BatchFold; got 2"),
        (
            refused(STREAM._replace(batches=iter([1]))),
            Schedule(1),
            {},
            TypeError,
            "`batches` must be an iterable that starts anew",
        ),
        (refused(STREAM._replace(batches=[])), Schedule(1), {}, ValueError, "at least one batch; got none"),
        (refused(STREAM._replace(batches=[ROWS.x])), Schedule(1), {}, TypeError, r"must yield \(x, y\)"),
        (refused(STREAM._replace(batches=[(1, 2)])), Schedule(1), {}, TypeError, "tensors; got int"),
        (
            refused(STREAM._replace(batches=[([ROWS.x] * 3, ROWS.y)])),
            Schedule(1),
            {},
            ValueError,
            "one for each of the 2; got 3",
        ),
        (
            refused(STREAM) + refused(STREAM._replace(batches=[(FEWER.x, FEWER.y)])),
            Schedule(1),
            {},
            ValueError,
            r"of one shape in all folds at each step; got the sizes \[5, 6\]",
        ),
        (
            refused(STREAM) + refused(STREAM._replace(batches=2 * STREAM.batches)),
            Schedule(1),
            {},
            ValueError,
            "the same number of batches in each fold",
        ),
        (
            refused(STREAM) + refused(STREAM._replace(batches=[(ROWS.x, ROWS.y, torch.ones(6))])),
            Schedule(1),
            {},
            ValueError,
            "sample weights in all folds or in none",
        ),
        (
            refused(ROWS._replace(networks=NORMED)) + refused(FEWER._replace(networks=NORMED)),
            Schedule(1, 1),
            {},
            ValueError,
            r"batch normalisation; got \[5, 6\] rows in 1 batches",
        ),
        (
            refused(ROWS),
            Schedule(1, 1),
            {"optimizer": lambda p: 1},
            TypeError,
            "`optimizer` must return a torch Optimizer; got 1",
        ),
        (
            refused(ROWS),
            Schedule(1, 1),
            {"scheduler": lambda o: 1},
            TypeError,
            "`scheduler` must return a torch LRScheduler; got 1",
        ),
        (
            [Group(ROWS, IndependentLoss(), weight_decay=0.1)],
            Schedule(1, 1),
            {"optimizer": sgd},
            ValueError,
            "`weight_decay` of a group must be None",
        ),
        (refused(ROWS), Schedule(1, 1), {"precision": "half"}, ValueError, "`precision` must be"),
        (
            refused(ROWS),
            Schedule(5, 1),
            {"optimizer": lambda p: torch.optim.SGD(p, lr=torch.inf)},
            FloatingPointError,
            "the weights must stay finite",
        ),
    ],
)
def test_what_cannot_train_together_is_refused(groups, schedule, settings, error, message):
    with pytest.raises(error, match=message):
        fit_groups(groups, schedule, **settings)


def test_inputs_must_be_given_for_each_group():
    trained = fit_groups(refused(ROWS), Schedule(1, 1))
    with pytest.raises(ValueError, match="`xs` must hold inputs for each of 1 groups; got 2"):
        trained.logits([ROWS.x, ROWS.x])
