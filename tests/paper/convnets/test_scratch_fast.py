"""Fast nets: white patches, rates and averages as published, and nets that train together as alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from counterpoint.datasets.cifar import Images
from paper.convnets import fast_training
from paper.convnets.fast import fast_net, whitening
from paper.convnets.fast_training import Recipe, train
from paper.convnets.side_by_side import Apart

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    """Return images of two classes that differ by their smoothness."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % 2
    rough = rng.integers(0, 256, (48, 32, 32, 3))
    smooth = rng.integers(0, 256, (48, 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    x = np.where(y[:, None, None, None] == 1, smooth, rough).astype(np.uint8)
    return Images(x[:32], y[:32], x[32:], y[32:], ("rough", "smooth"))


def nets(n):
    torch.manual_seed(0)
    return [fast_net(2, width=2) for _ in range(n)]


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
    x = torch.arange(8.0).expand(n, 3, 8, 8)  # rows that grow from left to right, even where they are moved
    epochs = fast_training._epochs(x, torch.arange(n), seed=0)
    seen = []
    for _ in range(4):
        moved, labels = next(epochs)
        assert moved.shape == x.shape
        assert sorted(labels.tolist()) == list(range(n))
        seen.append((moved[:, 0, 0, 4] < moved[:, 0, 0, 3])[labels.argsort()])
    assert 0 < int(seen[0].sum()) < n
    assert all(torch.equal(a, ~b) for a, b in pairwise(seen))


def test_images_are_moved_by_up_to_two_pixels_with_reflection():
    one = torch.arange(36.0).reshape(1, 1, 6, 6).expand(1, 3, 6, 6)
    padded = np.pad(one[0, 0].numpy(), 2, mode="reflect")
    crops = [padded[i : i + 6, j : j + 6] for i in range(5) for j in range(5)]
    choices = [*crops, *(crop[:, ::-1] for crop in crops)]
    moved, _ = next(fast_training._epochs(one.expand(300, -1, -1, -1), torch.zeros(300), seed=0))
    found = {
        next(k for k, choice in enumerate(choices) if (image[0].numpy() == choice).all()) for image in moved
    }
    assert found == set(range(50))


def test_the_learning_rate_goes_up_and_down_as_published():
    shares = fast_training._shares(100)
    assert shares[0] == pytest.approx(0.2)
    assert shares[23] == 1
    assert shares[-1] == pytest.approx(0.07 + 0.93 / 77)
    assert (np.diff(shares[:24]) > 0).all()
    assert (np.diff(shares[23:]) < 0).all()


def test_constant_gradients_move_by_the_rate_and_decay_by_the_decay():
    together = Apart(nets(1))
    recipe = Recipe(1, batch_size=512)
    optimizer = fast_training._optimizer(together, recipe, CPU)
    with torch.no_grad():
        for p in together.parameters():
            p.fill_(1.0)
    for _ in range(400):
        before = [p.clone() for p in together.parameters()]
        for p in together.parameters():
            p.grad = torch.full_like(p, 3.0) if p.requires_grad else None
        optimizer.step()
        with torch.no_grad():
            step = [b - p for b, p in zip(before, together.parameters(), strict=True)]
            for p, b in zip(together.parameters(), before, strict=True):
                p.copy_(b)
    # Nesterov momentum makes of a constant gradient g a step of g / (1 - momentum) each time.
    share = (1 / 0.15) / (1 + 1 / 0.15) / 1024
    head, norm = step[-1], step[-2]
    torch.testing.assert_close(head, torch.full_like(head, share * (11.5 * 3 + 0.0153 * 512)))
    torch.testing.assert_close(norm, torch.full_like(norm, share * (64 * 11.5 * 3 + 0.0153 * 512)))


def test_a_net_learns_the_same_beside_others(images):
    alone, beside = Apart(nets(1)), Apart(nets(3))
    for together in (alone, beside):
        train(together, images, Recipe(5, batch_size=8), CPU)
    states = [together.nets[0].state_dict() for together in (alone, beside)]
    torch.testing.assert_close(*states, atol=1e-5, rtol=1e-4)
    assert not torch.equal(beside.nets[0][2].weight, beside.nets[1][2].weight)


def test_nets_end_as_their_slow_averages(images, monkeypatch):
    kept = []
    taken = fast_training._Course._step
    drawn = fast_training._Course._draw_back

    def step(course):
        taken(course)
        kept.append([[value.clone() for value in course.values], None])

    def draw_back(course):
        drawn(course)
        kept[-1][1] = [value.clone() for value in course.values]

    monkeypatch.setattr(fast_training._Course, "_step", step)
    monkeypatch.setattr(fast_training._Course, "_draw_back", draw_back)
    together = Apart(nets(1))
    train(together, images, Recipe(6, batch_size=10), CPU)
    steps = kept[2:]  # after those that warmed up
    assert len(steps) == 18
    assert [number for number, (_, after) in enumerate(steps, 1) if after is not None] == [10, 15, 18]
    share = 1 - 0.95**5 * (15 / 18) ** 3
    slow = [a + share * (b - a) for a, b in zip(steps[9][0], steps[14][0], strict=True)]
    torch.testing.assert_close(steps[14][1], slow)
    end = [value for value in together.state_dict().values() if value.is_floating_point()]
    torch.testing.assert_close(end, slow)  # what was learned since the last update is left


def test_the_bias_of_the_first_layer_learns_in_the_first_epochs_alone(images, monkeypatch):
    seen = []
    taken = fast_training._Course._step

    def step(course):
        taken(course)
        seen.append(course.together.nets[0][0].bias.detach().clone())

    monkeypatch.setattr(fast_training._Course, "_step", step)
    train(Apart(nets(1)), images, Recipe(5, batch_size=8), CPU)
    moved = [not torch.equal(a, b) for a, b in pairwise(seen[2:])]  # after those that warmed up
    assert moved == [True] * 11 + [False] * 8


def test_steps_are_those_of_momentum_written_out(images, monkeypatch):
    """The first steps of the nets, against the rule of Nesterov's momentum in a few lines of arithmetic."""
    monkeypatch.setattr(fast_training, "EARLY", 0)
    batches = []
    taken = fast_training._Course._step

    def step(course):
        batches.append((course.x[0].clone(), course.y.clone()))
        taken(course)

    monkeypatch.setattr(fast_training._Course, "_step", step)
    monkeypatch.setattr(fast_training, "EVERY", 100)
    trained, net = Apart(nets(1)), nets(1)[0].train()
    train(trained, images, Recipe(1, batch_size=8), CPU)
    net[0].load_state_dict(trained.nets[0][0].state_dict())
    net[0].bias.requires_grad_(False)
    learning = [p for p in net.parameters() if p.requires_grad]
    norms = {id(layer.bias) for layer in net if isinstance(layer, nn.BatchNorm2d)}
    velocity = [torch.zeros_like(p) for p in learning]
    scale = 1024 * (1 + 1 / 0.15)
    for (x, y), share in zip(batches[2:], fast_training._shares(4), strict=True):
        wanted = 0.8 * F.one_hot(y, 2) + 0.2 / 2
        loss = -(wanted * net(x).log_softmax(1)).sum()
        for p, v, gradient in zip(learning, velocity, torch.autograd.grad(loss, learning), strict=True):
            rate = (64 if id(p) in norms else 1) * 11.5 / scale
            with torch.no_grad():
                whole = gradient + 0.0153 * 8 / scale / rate * p
                v.mul_(0.85).add_(whole)
                p.sub_(rate * float(share) * (whole + 0.85 * v))
    for p, q in zip(net.parameters(), trained.nets[0].parameters(), strict=True):
        torch.testing.assert_close(q, p, atol=1e-4, rtol=1e-3)
