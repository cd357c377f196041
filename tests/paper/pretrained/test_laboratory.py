"""Networks alone and in ensembles: how they train, what is kept and taken up again, and what is measured."""

import numpy as np
import pytest
import torch
from filelock import Timeout
from torch import nn
from torch.nn import functional as F

from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.training import (
    Callback,
    CorrelationLoss,
    Ensemble,
    Vote,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from counterpoint.vision import ImageBatches, predict_logits
from paper.pretrained import laboratory, learning, study
from paper.pretrained.notebook import alone
from paper.pretrained.paper import TABLE_4


def small_laboratory(folder):
    """Return a laboratory of tiny networks for two digits."""
    images = study.load_images(TABLE_4, None, smoke=True)
    settings = laboratory.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    return laboratory.Laboratory(images, settings, weights=None, folder=folder, device=torch.device("cpu"))


def kept(folder):
    """Return the files of a folder but for those that only keep processes apart."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def fit_until(epoch, *arguments, callbacks, **options):
    """Train as the laboratory does, until the process is killed at the end of an epoch."""

    class Killer(Callback):
        def on_epoch_begin(self, state):
            if state.epoch > epoch:
                raise KeyboardInterrupt

    return fit(*arguments, callbacks=[*callbacks, Killer()], **options)


def random_proba(n_learners, n_samples, n_classes):
    return torch.rand(n_learners, n_samples, n_classes, generator=torch.manual_seed(0)).softmax(-1)


def test_every_way_is_read_out_by_the_same_images(tmp_path, monkeypatch):
    place, found = small_laboratory(tmp_path), []
    read_out = place.read_out
    monkeypatch.setattr(
        place, "read_out", lambda ensemble: found.append(len(ensemble.learners)) or read_out(ensemble)
    )
    for way in ("vote", "independent", "lambda 0.1"):
        found.clear()
        place.run([("convnet", 0), ("convnet", 1)], way, 0)
        assert found == [2]


def test_held_out_images_are_a_tenth_and_never_trained_on():
    x = np.arange(100, dtype=np.uint8).reshape(100, 1, 1, 1)
    images = learning.Images.split("some", (x, np.arange(100)), (x, np.arange(100)), 100)
    train, held_out = images.parts["train"][1], images.parts["held_out"][1]
    assert len(held_out) == 10
    assert sorted([*train, *held_out]) == list(range(100))
    assert (images.parts["train"][0].ravel() == train).all()


@pytest.mark.parametrize("way", ["independent", "joint"])
def test_a_smoothed_loss_is_torchs_own(way):
    logits = torch.randn(1, 8, 5, generator=torch.manual_seed(0))
    target = torch.arange(8) % 5
    theirs = F.cross_entropy(logits[0], target, label_smoothing=0.1)
    assert learning.make_loss(way)(logits, target) == pytest.approx(theirs.item())


def test_there_must_be_images_to_hold_out():
    x, y = np.zeros((9, 4, 4, 3), dtype=np.uint8), np.zeros(9, dtype=np.int64)
    with pytest.raises(ValueError, match="`data` must hold at least 10 images to train on; got 9"):
        learning.Images.split("some", (x, y), (x, y), 2)


def test_a_size_that_leaves_no_pixel_is_refused_before_any_training(tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    small = small_laboratory(tmp_path)
    small.settings = laboratory.Settings(epochs=1, more_epochs=1, size=16)
    small.check("resnet18")
    with pytest.raises(ValueError, match=r"`size` must be large enough for densenet121, .*; got 16"):
        small.check("densenet121")


def test_a_lambda_is_the_papers_own_of_averaged_correlations():
    loss = learning.make_loss("lambda 0.3")
    assert isinstance(loss, CorrelationLoss)
    assert (loss.lam, loss.reduction) == (0.3, "mean")


def test_a_standing_agrees_with_the_measures():
    proba, target = random_proba(3, 50, 4), torch.arange(50) % 4
    found = learning.standing(proba, target)
    y, outputs = target.numpy(), proba.double().numpy()
    assert found["r_tl"] == pytest.approx(truth_learner_correlation(y, outputs).mean(), abs=1e-5)
    pairs = learner_learner_correlation(outputs)[np.triu_indices(3, 1)]
    assert found["r_ll"] == pytest.approx(pairs.mean(), abs=1e-5)
    assert found["soft"] == pytest.approx(100 * (outputs.mean(0).argmax(-1) != y).mean())
    hard = Vote("hard", "identity")(proba).argmax(-1).numpy()
    assert found["hard"] == pytest.approx(100 * (hard != y).mean())
    assert found["learners"] == pytest.approx([100 * (one.argmax(-1) != y).mean() for one in outputs])


def test_images_grow_to_their_size_in_the_second_half():
    x, y = np.zeros((4, 32, 32, 3), np.uint8), np.zeros(4, int)
    growing = learning.Growing(ImageBatches(x, y, batch_size=4, size=128), 128, epochs=4)
    assert [next(iter(growing(epoch)))[0].shape[-1] for epoch in (1, 2, 3, 4)] == [96, 96, 128, 128]
    assert [learning.smaller(size) for size in (16, 32, 96, 160, 224)] == [16, 32, 64, 128, 160]


def test_a_folder_of_weights_says_where_a_network_starts(tmp_path):
    (tmp_path / "resnet18.safetensors").touch()
    (tmp_path / "shufflenet_v2_x1_0_backbone.safetensors").touch()
    starts = [
        laboratory.start_of(name, tmp_path)
        for name in ("resnet18", "shufflenet_v2_x1_0", "googlenet", "convnet")
    ]
    assert starts == ["pretrained", "pretrained in part", "from scratch", "from scratch"]
    assert laboratory.start_of("googlenet", "imagenet") == "pretrained"


def test_a_compiled_network_is_the_network(monkeypatch):
    net = nn.Linear(3, 2)
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda x: function(x) + 100)
    compiled, x = learning.Compiled(net), torch.ones(1, 3)
    assert torch.equal(compiled(x), net(x) + 100)
    assert torch.equal(compiled.eval()(x), net(x))
    assert learning.bare(compiled) is net
    assert list(compiled.state_dict()) == ["net.weight", "net.bias"]


def test_a_long_training_is_checkpointed_and_leaves_no_checkpoint(tmp_path, monkeypatch):
    seen = []
    fit = laboratory.fit
    monkeypatch.setattr(laboratory, "CHECKPOINT_FROM", 1)
    monkeypatch.setattr(laboratory, "fit", lambda *a, **k: seen.append(k["checkpoint"]) or fit(*a, **k))
    place = small_laboratory(tmp_path)
    trunk = place.trunk("convnet", 0)
    assert [path.suffix for path in seen] == [".checkpoint"]
    assert kept(tmp_path) == [place.trunk_file("convnet", 0).name]
    assert len(trunk["epochs"]) == laboratory.SCRATCH
    again = place.from_trunk("convnet", 0).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in trunk["net"].items())
    assert len(seen) == 1


def test_a_damaged_trunk_is_trained_again_with_a_warning(tmp_path):
    place = small_laboratory(tmp_path)
    trunk, path = place.trunk("convnet", 0), place.trunk_file("convnet", 0)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.warns(RuntimeWarning, match=f"{path.name} is damaged, and the network is trained again"):
            again = place.trunk("convnet", 0)
        assert all(torch.equal(value, again["net"][name]) for name, value in trunk["net"].items())
        assert place.trunk("convnet", 0)["seconds"] == again["seconds"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_damaged_checkpoint_only_costs_what_was_trained_before(tmp_path, monkeypatch, share):
    monkeypatch.setattr(laboratory, "CHECKPOINT_FROM", 1)
    whole = small_laboratory(tmp_path / "whole").trunk("convnet", 0)
    place = small_laboratory(tmp_path / "killed")
    checkpoint = place.trunk_file("convnet", 0).with_suffix(".checkpoint")

    with monkeypatch.context() as patch:
        patch.setattr(laboratory, "fit", lambda *a, **k: fit_until(2, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            place.trunk("convnet", 0)
    written = checkpoint.read_bytes()
    checkpoint.write_bytes(written[: int(share * len(written))])
    with pytest.warns(
        RuntimeWarning, match=f"{checkpoint.name} is damaged, and the network is trained again"
    ):
        again = place.trunk("convnet", 0)
    assert all(torch.equal(value, again["net"][name]) for name, value in whole["net"].items())
    assert kept(tmp_path / "killed") == [place.trunk_file("convnet", 0).name]


def test_a_network_that_is_taken_up_again_has_all_its_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(laboratory, "CHECKPOINT_FROM", 1)
    place = small_laboratory(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(laboratory, "fit", lambda *a, **k: fit_until(2, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            place.trunk("convnet", 0)
    checkpoint = place.trunk_file("convnet", 0).with_suffix(".checkpoint")
    state = load_checkpoint(checkpoint)
    state["history"]["epochs"][0]["seconds"] = 1000.0
    save_checkpoint(checkpoint, state)
    assert 1000 <= place.trunk("convnet", 0)["seconds"] < 1100


def test_a_network_is_not_trained_by_two_processes(tmp_path):
    place = small_laboratory(tmp_path)
    with alone(place.trunk_file("convnet", 0)), pytest.raises(Timeout):
        place.trunk("convnet", 0, wait=False)
    assert place.trunk("convnet", 0, wait=False)["network"] == "convnet"


@pytest.mark.parametrize("part", ["test", "held_out"])
def test_two_passes_over_the_images_measure_all_there_is(tmp_path, part):
    place = small_laboratory(tmp_path)
    ensemble = Ensemble([place.from_trunk("convnet", seed) for seed in (0, 1)])
    place.read_out(ensemble)
    readout, target = ensemble.readout, torch.as_tensor(place.images.parts[part][1])
    found = place.measure(ensemble, part)
    assert ensemble.readout is readout
    for flip, kinds in ((True, ("mirrored", "uncalibrated")), (False, ("unmirrored", "plain"))):
        for kind, used in zip(kinds, (readout, None), strict=True):
            ensemble.readout = used
            logits = predict_logits(ensemble, place.parts[part], flip=flip)
            assert found[kind] == learning.standing(logits.softmax(-1), target)
    ensemble.readout = readout
    counted = []
    hook = ensemble.register_forward_hook(lambda *_: counted.append(1))
    place.measure(ensemble, part)
    hook.remove()
    assert len(counted) == 2 * len(place.parts[part])


def test_copies_that_are_equal_are_measured_once(tmp_path, monkeypatch):
    place = small_laboratory(tmp_path)
    sizes, measure = [], laboratory.Laboratory.measure
    monkeypatch.setattr(
        laboratory.Laboratory, "measure", lambda *a: sizes.append(len(a[1].learners)) or measure(*a)
    )
    learners = [("convnet", 0), ("convnet", 1), ("convnet", 0)]
    found = place.run(learners, "vote", 0)
    assert sizes == [2, 2]
    ensemble = Ensemble([place.from_trunk(*learner) for learner in learners])
    place.read_out(ensemble)
    assert found["test"] == place.measure(ensemble, "test")["mirrored"]
    assert found["held_out"] == place.measure(ensemble, "held_out")["mirrored"]
    assert found["networks"] == ["convnet"] * 3


def test_a_trunk_of_other_images_or_other_weights_is_not_taken_for_the_same(tmp_path):
    rng = np.random.default_rng(0)
    settings = laboratory.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    origins = []
    for n, weights in ((100, None), (200, None), (100, tmp_path)):
        train = rng.integers(256, size=(n, 8, 8, 3), dtype=np.uint8), np.arange(n) % 2
        images = learning.Images.split("some", train, train, 2)
        place = laboratory.Laboratory(
            images, settings, weights=weights, folder=tmp_path, device=torch.device("cpu")
        )
        for content in (b"one", b"two"):
            (tmp_path / "resnet18.safetensors").write_bytes(content)
            origins.append(place.origin("resnet18"))
    assert origins[0] == origins[1]  # no weights are read
    assert len(set(origins)) == 4
