"""Training of heads: one head has the size of several, and the test images choose nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from counterpoint.training import Ensemble, mlp, seeded
from counterpoint.vision import ImageBatches
from paper.convnets.images import ImageSets
from paper.heads import training
from paper.heads.features import compute_features, make_trunk
from paper.heads.study import SMOKE_SETTINGS
from paper.heads.training import ONE, Point, Trainer, head_sizes, same_size

CPU = torch.device("cpu")
SCORES = {"error", "log_loss", "brier_score", "calibration_error"}


def trainer(settings=SMOKE_SETTINGS):
    return Trainer(ImageSets(None, smoke=True), settings, weights=None, device=CPU)


def count(sizes, n_heads):
    return n_heads * sum(parameter.numel() for parameter in mlp(sizes).parameters())


@pytest.mark.parametrize("k", [2, 8, 32])
@pytest.mark.parametrize("hidden", [8, 256])
def test_one_hidden_head_has_the_parameters_of_k_heads_to_half_a_unit(k, hidden):
    shape = (hidden, 512, 100)
    together = count(head_sizes(Point("frozen", "hidden", k, "0.9"), *shape), k)
    single = count(head_sizes(Point("frozen", "hidden", k, ONE), *shape), 1)
    assert abs(single - together) <= (512 + 1 + 100) / 2
    assert same_size(1, *shape) == hidden


def test_one_linear_head_is_what_the_mean_of_linear_heads_is():
    heads = [mlp(head_sizes(Point("frozen", "linear", 3, "1"), 8, 5, 4)) for _ in range(3)]
    one = mlp(head_sizes(Point("frozen", "linear", 1, ONE), 8, 5, 4))
    with torch.no_grad():
        for name, value in one.named_parameters():
            value.copy_(torch.stack([head.get_parameter(name) for head in heads]).mean(0))
    x = torch.randn(6, 5)
    torch.testing.assert_close(one(x), Ensemble(heads)(x).mean(0))


@pytest.mark.parametrize(
    ("network", "width", "n_features"), [("cifar_resnet18", 4, 32), ("resnet18", None, 512)]
)
def test_a_trunk_is_a_network_without_its_last_layer(network, width, n_features):
    if width is None:
        pytest.importorskip("torchvision")
    trunk, found = make_trunk(network, weights=None, width=width, device=CPU)
    x = torch.randn(2, 3, 64, 64)
    seen = []
    trunk.avgpool.register_forward_hook(lambda module, inputs, output: seen.append(output.flatten(1)))
    assert found == n_features
    torch.testing.assert_close(trunk(x), seen[0])


def test_features_are_standardised_by_the_training_images_and_their_mirror_images():
    images = trainer().images
    with seeded(CPU, 0):  # a trunk without dead units, whose features would be constant
        trunk, _ = make_trunk("convnet", weights=None, width=4, device=CPU)
    found = compute_features(trunk, images, size=16, device=CPU)
    (x, y), n = images.parts["train"], len(images.parts["train"][1])
    features, labels = found["train"]
    torch.testing.assert_close(features.mean(0), torch.zeros(16), atol=1e-4, rtol=0)
    torch.testing.assert_close(features.std(0), torch.ones(16), atol=1e-3, rtol=0)
    assert labels.tolist() == [*y, *y]
    ((seen, _),) = ImageBatches(np.ascontiguousarray(x[:, :, ::-1]), y, size=16, augment=False, device=CPU)
    ((plain, _),) = ImageBatches(x, y, size=16, augment=False, device=CPU)
    ((test, _),) = ImageBatches(*images.parts["test"], size=16, augment=False, device=CPU)
    with torch.no_grad():
        raw, other = trunk.eval()(torch.cat([plain, seen])), trunk(test)
    torch.testing.assert_close(features[n:], ((raw - raw.mean(0)) / raw.std(0))[n:], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found["test"][0], (other - raw.mean(0)) / raw.std(0), atol=1e-3, rtol=1e-3)


def test_a_tenth_is_held_out_and_only_training_images_are_mirrored():
    found = trainer()
    assert {part: len(y) for part, (_, y) in found.images.parts.items()} == {
        "train": 135,
        "held_out": 15,
        "test": 100,
    }
    assert {part: len(y) for part, (_, y) in found.features.items()} == {
        "train": 270,
        "held_out": 15,
        "test": 100,
    }


def test_the_rate_does_not_depend_on_the_test_images():
    point, first, second = Point("frozen", "hidden", 2, "0.9"), trainer(), trainer()
    parts = second.images.parts
    x, y = parts["test"]
    second.__dict__["images"] = replace(second.images, parts={**parts, "test": (255 - x, (y + 1) % 10)})
    ours, theirs = (one.run(point, 0) for one in (first, second))
    assert ours["vote"] != theirs["vote"]
    for name in ("held_out_log_loss", "learning_rate", "train", "n_parameters"):
        assert ours[name] == theirs[name]


def test_the_scores_are_those_of_the_rate_that_is_best_on_held_out_images():
    point, shared = Point("frozen", "hidden", 2, "0.9"), trainer()
    found = shared.run(point, 0)
    rates = SMOKE_SETTINGS.learning_rates
    assert tuple(found["held_out_log_loss"]) == rates
    assert found["learning_rate"] == min(rates, key=found["held_out_log_loss"].get)
    alone = {}
    for rate in rates:
        shared.settings = replace(SMOKE_SETTINGS, learning_rates=(rate,))
        alone[rate] = shared.run(point, 0)
        assert alone[rate]["held_out_log_loss"] == {rate: found["held_out_log_loss"][rate]}
    assert found["vote"] == alone[found["learning_rate"]]["vote"]
    assert len({one["vote"]["log_loss"] for one in alone.values()}) == 3


@pytest.mark.parametrize("mode", ["frozen", "tuned"])
def test_each_loss_is_scored_by_the_vote_that_it_trains(mode):
    shared = trainer()
    for arm, own in (("0", "soft"), ("0.9", "geometric"), ("1", "geometric"), (ONE, "soft")):
        found = shared.run(Point(mode, "hidden", 2, arm), 0)
        assert found["vote"].keys() == found["train"]["vote"].keys() == SCORES
        assert found["vote"] == pytest.approx(found[own], abs=2e-5)
        assert np.isnan(found["r_ll"]) == (arm == ONE)
        assert found["n_parameters"] == 452 if arm != ONE else abs(found["n_parameters"] - 452) <= 27 / 2


@pytest.mark.parametrize("mode", ["frozen", "tuned"])
def test_arms_of_a_seed_start_from_the_same_weights_and_see_the_same_batches(mode, monkeypatch):
    seen = []

    def look(ensemble, batches, **_):
        seen.append([*(value.clone() for value in ensemble.state_dict().values()), *next(iter(batches))])
        raise InterruptedError

    monkeypatch.setattr(training, "fit", look)
    shared = trainer()
    for arm, seed in (("0", 0), ("1", 0), ("1", 1)):
        with pytest.raises(InterruptedError):
            shared.run(Point(mode, "hidden", 2, arm), seed)
    first, same, other = seen
    assert all(bool((a == b).all()) for a, b in zip(first, same, strict=True))
    assert not all(bool((a == b).all()) for a, b in zip(first, other, strict=True))


def test_a_tuned_trunk_learns_at_its_own_rate(monkeypatch):
    seen, work = [], training.fit

    def look(net, batches, *, optimizer, **options):
        trunk, heads = net.net
        before = [next(part.parameters()).clone() for part in (trunk, heads)]
        history = work(net, batches, optimizer=optimizer, **options)
        moved = [
            not torch.equal(b, next(p.parameters())) for b, p in zip(before, (trunk, heads), strict=True)
        ]
        groups = [{id(p) for p in group["params"]} for group in optimizer.param_groups]
        assert groups == [{id(p) for p in part.parameters()} for part in (trunk, heads)]
        seen.append((moved, [group["max_lr"] for group in optimizer.param_groups]))
        return history

    monkeypatch.setattr(training, "fit", look)
    trainer().run(Point("tuned", "hidden", 2, "0.9"), 0)
    assert seen == [([True, True], [1e-4, 1e-3])]
