"""Fast networks: white patches, rates and averages as published, and learners that train together as alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from counterpoint.training import DiversityLoss, IndependentLoss, JointLoss
from counterpoint.vision import ImageBatches
from paper.convnets import fast_recipe
from paper.convnets.fast import FastEnsemble, fast_net, whitening
from paper.convnets.fast_recipe import AlternatingFlips, SlowAverage, SummedLoss
from paper.convnets.scratch import smooth


@pytest.fixture(scope="module")
def images():
    """Return normalised images of two classes that differ in smoothness, and smoothed targets."""
    rng = np.random.default_rng(0)
    y = np.arange(32) % 2
    rough = rng.integers(0, 256, (32, 32, 32, 3))
    smooth_ones = rng.integers(0, 256, (32, 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    x = np.where(y[:, None, None, None] == 1, smooth_ones, rough).astype(np.uint8)
    options = {"mean": fast_recipe.MEAN, "std": fast_recipe.STD, "device": "cpu"}
    ((x, y),) = ImageBatches(x, y, batch_size=32, augment=False, **options)
    return x, smooth(y, 2, fast_recipe.SMOOTHING)


def learners(n):
    torch.manual_seed(0)
    return [fast_net(2, width=2) for _ in range(n)]


def train(ensemble, images, epochs, batch_size, loss=None, rate=11.5):
    settings = {"batch_size": batch_size, "learning_rate": rate, "weight_decay": 0.0153, "seed": 0}
    fast_recipe.train(ensemble, *images, loss=loss or IndependentLoss(), epochs=epochs, **settings)


@pytest.mark.parametrize("scale", [1.0, 0.03])
def test_patches_are_white_after_the_first_layer_unless_they_hardly_differ(scale):
    noise = torch.randn(50, 3, 33, 33, generator=torch.Generator().manual_seed(0))
    x = scale * F.avg_pool2d(noise, 2, 1)
    found = F.conv2d(x, whitening(x))
    torch.testing.assert_close(found[:, 12:], -found[:, :12])
    flat, patches = (maps.transpose(0, 1).flatten(1) for maps in (found[:, :12], F.unfold(x, 2)))
    values = torch.linalg.eigvalsh(patches @ patches.T / patches.shape[1])
    moments = flat @ flat.T / flat.shape[1]
    torch.testing.assert_close(moments, torch.diag(values / (values + 0.0005)), atol=2e-3, rtol=0)
    assert (moments.diag().max() > 0.99) == (scale == 1.0)


def test_the_net_is_that_of_the_publication():
    net = fast_net(10)
    shapes = [tuple(p.shape) for p in net.parameters() if p.dim() == 4]
    assert shapes == [(24, 3, 2, 2), (64, 24, 3, 3), (64, 64, 3, 3), (256, 64, 3, 3), *[(256, 256, 3, 3)] * 3]
    norms = [layer for layer in net if isinstance(layer, nn.BatchNorm2d)]
    learning = [p for p in net.parameters() if p.requires_grad]
    assert len(learning) == 1 + 6 + len(norms) + 1  # a first bias, six convolutions, biases of norms, a head
    conv = net[2]
    x = torch.rand(2, 24, 6, 6)
    torch.testing.assert_close(conv(x)[:, :24], x)


def test_every_image_is_mirrored_in_every_second_epoch():
    n = 40
    x = torch.arange(8.0).expand(n, 3, 8, 8)  # rows that grow from left to right, also where they are moved
    epochs = AlternatingFlips(x, torch.arange(n), batch_size=10, seed=0)
    seen = []
    for epoch in range(1, 5):
        batches = epochs(epoch)
        assert [len(y) for _, y in batches] == [10] * 4
        moved, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
        assert sorted(labels.tolist()) == list(range(n))
        seen.append((moved[:, 0, 0, 4] < moved[:, 0, 0, 3])[labels.argsort()])
    assert 0 < int(seen[0].sum()) < n
    assert all(torch.equal(a, ~b) for a, b in pairwise(seen))


def test_images_are_moved_by_up_to_two_pixels_with_reflection():
    one = torch.arange(36.0).reshape(1, 1, 6, 6).expand(1, 3, 6, 6)
    padded = np.pad(one[0, 0].numpy(), 2, mode="reflect")
    crops = [padded[i : i + 6, j : j + 6] for i in range(5) for j in range(5)]
    choices = [*crops, *(crop[:, ::-1] for crop in crops)]
    ((moved, _),) = AlternatingFlips(one.expand(300, -1, -1, -1), torch.zeros(300), 300, seed=0)(1)
    found = {
        next(k for k, choice in enumerate(choices) if (image[0].numpy() == choice).all()) for image in moved
    }
    assert found == set(range(50))


def test_the_rest_of_an_epoch_is_dropped():
    x, y = torch.zeros(25, 3, 8, 8), torch.arange(25)
    assert [len(y) for _, y in AlternatingFlips(x, y, batch_size=10, seed=0)(1)] == [10, 10]


def test_the_learning_rate_goes_up_and_down_as_published():
    found = [fast_recipe.rate_share(step, 100) for step in range(100)]
    np.testing.assert_allclose(found, np.interp(np.arange(100), [0, 23, 100], [0.2, 1.0, 0.07]))
    assert fast_recipe.rate_share(0, 2) == 1.0  # no step before the peak


def test_constant_gradients_move_by_the_rate_and_decay_by_the_decay():
    ensemble = FastEnsemble(learners(1))
    optimizer = fast_recipe.make_optimizer(ensemble, 512, 11.5, 0.0153)
    with torch.no_grad():
        for p in ensemble.parameters():
            p.fill_(1.0)
    for _ in range(400):
        before = [p.clone() for p in ensemble.parameters()]
        for p in ensemble.parameters():
            p.grad = torch.full_like(p, 3.0) if p.requires_grad else None
        optimizer.step()
        with torch.no_grad():
            step = [b - p for b, p in zip(before, ensemble.parameters(), strict=True)]
            for p, b in zip(ensemble.parameters(), before, strict=True):
                p.copy_(b)
    # Nesterov momentum makes of a constant gradient g a step of g / (1 - momentum) each time.
    share = (1 / 0.15) / (1 + 1 / 0.15) / 1024
    head, norm = step[-1], step[-2]
    torch.testing.assert_close(head, torch.full_like(head, share * (11.5 * 3 + 0.0153 * 512)))
    torch.testing.assert_close(norm, torch.full_like(norm, share * (64 * 11.5 * 3 + 0.0153 * 512)))


def test_the_loss_is_summed_over_images_and_learners():
    logits, y = torch.randn(3, 8, 4), torch.arange(8) % 4
    expected = sum(F.cross_entropy(one, y, label_smoothing=0.2, reduction="sum") for one in logits)
    torch.testing.assert_close(SummedLoss(IndependentLoss())(logits, smooth(y, 4, 0.2)), expected)


@pytest.mark.parametrize(
    ("loss", "dial"), [(IndependentLoss(), 0.0), (DiversityLoss(0.75), 0.75), (JointLoss(pool="logits"), 1.0)]
)
def test_gradients_of_all_losses_have_the_size_of_independent_ones(loss, dial):
    logits = torch.randn(3, 8, 4, requires_grad=True)
    target = smooth(torch.arange(8) % 4, 4, 0.2)
    (found,) = torch.autograd.grad(SummedLoss(loss)(logits, target), logits)
    own, pooled = logits.softmax(-1) - target, logits.mean(0).softmax(-1) - target
    torch.testing.assert_close(found, (1 - dial) * own + dial * pooled)


def looped(monkeypatch, n):
    with monkeypatch.context() as patch:
        patch.setattr("counterpoint.training.ensemble.can_stack", lambda learners: False)
        return FastEnsemble(learners(n))


def test_stacked_networks_compute_what_each_computes_alone(images, monkeypatch):
    stacked, alone = FastEnsemble(learners(3)), looped(monkeypatch, 3)
    assert stacked.is_stacked
    assert not alone.is_stacked
    for mode in (True, False):
        found, expected = (ensemble.train(mode)(images[0]) for ensemble in (stacked, alone))
        torch.testing.assert_close(found, expected)


def test_the_head_divides_its_logits_by_nine():
    net = fast_net(10, width=2).eval()
    x = torch.rand(2, 3, 32, 32)
    features = nn.Sequential(*list(net)[:-3])(x).flatten(1)
    torch.testing.assert_close(net(x), features @ net[-1].weight.T / 9)


def test_stacked_networks_train_as_one_after_the_other(images, monkeypatch):
    stacked, alone = FastEnsemble(learners(3)), looped(monkeypatch, 3)
    for ensemble in (stacked, alone):
        train(ensemble, images, epochs=4, batch_size=8, loss=DiversityLoss(), rate=2.0)
        assert ensemble.vote == "geometric"
    states = [[one.state_dict() for one in ensemble.learners] for ensemble in (stacked, alone)]
    torch.testing.assert_close(*states, atol=1e-4, rtol=1e-3)


def test_a_learner_trains_beside_others_as_alone(images):
    alone, beside = FastEnsemble(learners(1)), FastEnsemble(learners(3))
    for ensemble in (alone, beside):
        train(ensemble, images, epochs=5, batch_size=8)
    states = [ensemble.learners[0].state_dict() for ensemble in (alone, beside)]
    torch.testing.assert_close(*states, atol=1e-5, rtol=1e-4)
    found = beside.learners
    assert not torch.equal(found[0][2].weight, found[1][2].weight)


def floats(ensemble):
    return [value.clone() for value in ensemble.state_dict().values() if value.is_floating_point()]


def test_learners_end_as_their_slow_averages(images, monkeypatch):
    kept = []
    update = SlowAverage.on_batch_end

    def look(callback, state):
        before = floats(state.ensemble)
        update(callback, state)
        kept.append((before, floats(state.ensemble), bool(callback.slow)))

    monkeypatch.setattr(SlowAverage, "on_batch_end", look)
    ensemble = FastEnsemble(learners(1))
    train(ensemble, images, epochs=6, batch_size=10)
    assert len(kept) == 18
    assert [followed for *_, followed in kept].index(True) == 9  # the tenth step, in the fourth epoch
    changed = [
        number
        for number, (before, after, _) in enumerate(kept, 1)
        if any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    ]
    assert changed == [15]
    share = 1 - 0.95**5 * (15 / 18) ** 3
    slow = [a + share * (b - a) for a, b in zip(kept[9][0], kept[14][0], strict=True)]
    torch.testing.assert_close(kept[14][1], slow)
    torch.testing.assert_close(floats(ensemble), slow)  # the steps since the last update are dropped


def test_the_bias_of_the_first_layer_learns_in_the_first_epochs_alone(images, monkeypatch):
    seen = []

    def look(callback, state):
        seen.append(state.ensemble.learners[0][0].bias.detach().clone())

    monkeypatch.setattr(SlowAverage, "on_batch_end", look)
    train(FastEnsemble(learners(1)), images, epochs=5, batch_size=8)
    moved = [not torch.equal(a, b) for a, b in pairwise(seen)]
    assert moved == [True] * 11 + [False] * 8


def test_steps_are_those_of_momentum_written_out(images, monkeypatch):
    """The first steps of a learner, against the rule of Nesterov's momentum in a few lines of arithmetic."""
    monkeypatch.setattr(fast_recipe, "EARLY", 0)
    monkeypatch.setattr(fast_recipe, "EVERY", 100)
    trained, net = FastEnsemble(learners(1)), learners(1)[0].train()
    train(trained, images, epochs=1, batch_size=8)
    with torch.no_grad():
        net[0].weight.copy_(whitening(images[0]))
    net[0].bias.requires_grad_(False)
    learning = [p for p in net.parameters() if p.requires_grad]
    norms = {id(layer.bias) for layer in net if isinstance(layer, nn.BatchNorm2d)}
    velocity = [torch.zeros_like(p) for p in learning]
    scale = 1024 * (1 + 1 / 0.15)
    for step, (x, wanted) in enumerate(AlternatingFlips(*images, batch_size=8, seed=0)(1)):
        loss = -(wanted * net(x).log_softmax(1)).sum()
        for p, v, gradient in zip(learning, velocity, torch.autograd.grad(loss, learning), strict=True):
            rate = (64 if id(p) in norms else 1) * 11.5 / scale
            with torch.no_grad():
                whole = gradient + 0.0153 * 8 / scale / rate * p
                v.mul_(0.85).add_(whole)
                p.sub_(rate * fast_recipe.rate_share(step, 4) * (whole + 0.85 * v))
    for p, q in zip(net.parameters(), trained.learners[0].parameters(), strict=True):
        torch.testing.assert_close(q, p, atol=1e-4, rtol=1e-3)
