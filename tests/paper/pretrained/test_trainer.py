"""Trunks and ensembles: how they train, what is kept, what a killed or damaged training costs, what is measured."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from counterpoint.measures import (
    calibration_error,
    combine,
    learner_learner_correlation,
    truth_learner_correlation,
)
from counterpoint.records import RunStore
from counterpoint.training import (
    Callback,
    CorrelationLoss,
    Ensemble,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from counterpoint.vision import ImageBatches, predict_logits
from paper.pretrained import evaluation, images, networks, recipe, trainer
from paper.pretrained.paper import TABLE_4


def small_trainer(folder, **more):
    """Return a trainer of tiny networks for two digits."""
    digits = images.load_images(TABLE_4, None, smoke=True)
    settings = recipe.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2, **more)
    return trainer.Trainer(digits, settings, weights=None, folder=folder, device=torch.device("cpu"))


def kept(folder):
    """Return the files of a folder without the locks."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def fit_until(epoch, *arguments, callbacks, **options):
    """Train until the process is killed at the end of an epoch."""

    class Killer(Callback):
        def on_epoch_begin(self, state):
            if state.epoch > epoch:
                raise KeyboardInterrupt

    return fit(*arguments, callbacks=[*callbacks, Killer()], **options)


def random_proba(n_learners, n_samples, n_classes):
    return torch.rand(n_learners, n_samples, n_classes, generator=torch.manual_seed(0)).softmax(-1)


def test_every_arm_is_calibrated_by_the_same_images(tmp_path, monkeypatch):
    small, found = small_trainer(tmp_path), []
    calibrate = small.evaluator.calibrate
    monkeypatch.setattr(
        small.evaluator,
        "calibrate",
        lambda ensemble: found.append(len(ensemble.learners)) or calibrate(ensemble),
    )
    for arm in ("vote", "independent", "lambda 0.1"):
        found.clear()
        small.run([("convnet", 0), ("convnet", 1)], arm, 0)
        assert found == [2]


def test_held_out_images_are_a_tenth_and_never_trained_on():
    x = np.arange(100, dtype=np.uint8).reshape(100, 1, 1, 1)
    parts = images.Images.split("some", (x, np.arange(100)), (x, np.arange(100)), 100)
    train, held_out = parts.parts["train"][1], parts.parts["held_out"][1]
    assert len(held_out) == 10
    assert sorted([*train, *held_out]) == list(range(100))
    assert (parts.parts["train"][0].ravel() == train).all()


@pytest.mark.parametrize("arm", ["independent", "joint", "logits", "dial 0.5", "dial 0.9"])
def test_a_smoothed_loss_is_torchs_own(arm):
    logits = torch.randn(1, 8, 5, generator=torch.manual_seed(0))
    target = torch.arange(8) % 5
    theirs = F.cross_entropy(logits[0], target, label_smoothing=0.1)
    assert recipe.make_loss(arm)(logits, target) == pytest.approx(theirs.item())


def test_there_must_be_images_to_hold_out():
    x, y = np.zeros((9, 4, 4, 3), dtype=np.uint8), np.zeros(9, dtype=np.int64)
    with pytest.raises(ValueError, match="`data` must hold at least 10 training images; got 9"):
        images.Images.split("some", (x, y), (x, y), 2)


def test_a_size_that_leaves_no_pixel_is_refused_before_any_training(tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    small = small_trainer(tmp_path)
    small.settings = recipe.Settings(epochs=1, more_epochs=1, size=16)
    small.check("resnet18")
    with pytest.raises(ValueError, match=r"`size` must be large enough for densenet121, .*; got 16"):
        small.check("densenet121")


def test_a_lambda_is_the_papers_own_of_averaged_correlations():
    loss = recipe.make_loss("lambda 0.3")
    assert isinstance(loss, CorrelationLoss)
    assert (loss.lam, loss.reduction) == (0.3, "mean")


@pytest.mark.parametrize(("arm", "d"), [("logits", 1.0), ("dial 0.5", 0.5), ("dial 0.9", 0.9)])
def test_an_arm_of_averaged_logits_is_a_dial_of_smoothed_cross_entropies(arm, d):
    logits = torch.randn(3, 8, 5, generator=torch.manual_seed(0))
    target = torch.arange(8) % 5
    own = torch.stack([F.cross_entropy(one, target, label_smoothing=0.1) for one in logits]).mean()
    pooled = F.cross_entropy(logits.mean(0), target, label_smoothing=0.1)
    assert recipe.make_loss(arm)(logits, target) == pytest.approx(((1 - d) * own + d * pooled).item())


@pytest.mark.parametrize(
    ("arm", "voting"),
    [
        ("vote", "soft"),
        ("independent", "soft"),
        ("joint", "soft"),
        ("lambda 0.1", "soft"),
        ("logits", "geometric"),
        ("dial 0.5", "geometric"),
        ("dial 0.9", "geometric"),
    ],
)
def test_an_arm_is_measured_by_the_vote_that_its_loss_trains(tmp_path, monkeypatch, arm, voting):
    small, votes = small_trainer(tmp_path), []
    measure = small.evaluator.measure
    monkeypatch.setattr(small.evaluator, "measure", lambda *a: votes.append((a[0].vote, a[2])) or measure(*a))
    found = small.run([("convnet", 0), ("convnet", 1)], arm, 0)
    assert {asked for _, asked in votes} == {voting} == {found["test"]["voting"]}
    if not arm.startswith("lambda"):  # whose vote of fit decodes the mean of standardised outputs
        assert {adopted for adopted, _ in votes} == {voting}


@pytest.mark.parametrize("voting", ["soft", "geometric"])
def test_a_standing_agrees_with_the_measures(voting):
    logits, target = random_proba(3, 50, 4).log(), torch.arange(50) % 4
    proba = logits.softmax(-1)
    found = evaluation.standing(logits, target, voting)
    y, outputs = target.numpy(), proba.double().numpy()
    assert found["r_tl"] == pytest.approx(truth_learner_correlation(y, outputs).mean(), abs=1e-5)
    pairs = learner_learner_correlation(outputs)[np.triu_indices(3, 1)]
    assert found["r_ll"] == pytest.approx(pairs.mean(), abs=1e-5)
    assert found["soft"] == pytest.approx(100 * (outputs.mean(0).argmax(-1) != y).mean())
    hard = combine(outputs, voting="hard").argmax(-1)
    assert found["hard"] == pytest.approx(100 * (hard != y).mean())
    assert found["learners"] == pytest.approx([100 * (one.argmax(-1) != y).mean() for one in outputs])
    geometric = combine(outputs, voting="geometric")
    assert found["geometric"] == pytest.approx(100 * (geometric.argmax(-1) != y).mean())
    vote = combine(outputs, voting=voting)
    assert found["voting"] == voting
    assert found["log_loss"] == pytest.approx(-np.log(vote[np.arange(50), y]).mean(), abs=1e-5)
    assert found["brier_score"] == pytest.approx(np.square(vote - np.eye(4)[y]).sum(1).mean(), abs=1e-5)
    assert found["calibration_error"] == pytest.approx(calibration_error(y, vote), abs=1e-5)


def test_images_grow_to_their_size_in_the_second_half():
    x, y = np.zeros((4, 32, 32, 3), np.uint8), np.zeros(4, int)
    growing = images.GrowingBatches(ImageBatches(x, y, batch_size=4, size=128), 128, epochs=4)
    assert [next(iter(growing(epoch)))[0].shape[-1] for epoch in (1, 2, 3, 4)] == [96, 96, 128, 128]
    assert [images.smaller_size(size) for size in (16, 32, 96, 160, 224)] == [16, 32, 64, 128, 160]


def test_a_folder_of_weights_says_where_a_network_starts(tmp_path):
    (tmp_path / "resnet18.safetensors").touch()
    (tmp_path / "shufflenet_v2_x1_0_backbone.safetensors").touch()
    starts = [
        networks.start_of(name, tmp_path)
        for name in ("resnet18", "shufflenet_v2_x1_0", "googlenet", "convnet")
    ]
    assert starts == ["pretrained", "pretrained in part", "from scratch", "from scratch"]
    assert networks.start_of("googlenet", "imagenet") == "pretrained"


def test_a_compiled_network_is_the_network(monkeypatch):
    network = nn.Linear(3, 2)
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda x: function(x) + 100)
    compiled, x = networks.Compiled(network), torch.ones(1, 3)
    assert torch.equal(compiled(x), network(x) + 100)
    assert torch.equal(compiled.eval()(x), network(x))
    assert networks.uncompiled(compiled) is network
    assert list(compiled.state_dict()) == ["network.weight", "network.bias"]


def test_the_average_of_weights_is_its_closed_form(monkeypatch):
    decay, seen = 0.7, []
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)

    class Values(Callback):
        def on_batch_end(self, state):
            seen.append({name: value.clone() for name, value in network.state_dict().items()})

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 2))
    start = {name: value.clone() for name, value in network.state_dict().items()}
    learner = networks.Averaged(network)
    batches = [(torch.randn(8, 2), torch.arange(8) % 2) for _ in range(3)]
    fit(
        Ensemble([learner]),
        batches,
        loss=recipe.make_loss("independent"),
        optimizer=lambda p: torch.optim.SGD(p, 0.5),
        epochs=2,
        callbacks=[Values(), networks.AverageWeights(decay)],
    )
    assert len(seen) == 6
    average = networks.trained_network(networks.Compiled(learner)).state_dict()
    for name in set(start) - {"1.num_batches_tracked"}:
        expected = decay**6 * start[name] + (1 - decay) * sum(
            decay ** (5 - step) * values[name] for step, values in enumerate(seen)
        )
        assert torch.allclose(average[name], expected, atol=1e-6)
        assert not torch.allclose(average[name], network.state_dict()[name], atol=1e-6)
    x = torch.randn(4, 2)
    assert torch.equal(learner.eval()(x), learner.average(x))
    assert not torch.equal(learner.train()(x), learner.average.eval()(x))


def test_a_killed_training_resumes_with_its_average(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "CHECKPOINT_FROM", 1)
    plain = small_trainer(tmp_path / "plain").trunk("convnet", 0)["weights"]
    whole = small_trainer(tmp_path / "whole", ema=0.8).trunk("convnet", 0)["weights"]
    small = small_trainer(tmp_path / "killed", ema=0.8)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "fit", lambda *a, **k: fit_until(2, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            small.trunk("convnet", 0)
    again = small.trunk("convnet", 0)["weights"]
    assert whole.keys() == plain.keys() == again.keys()
    assert all(torch.equal(value, again[name]) for name, value in whole.items())
    assert not all(torch.equal(value, plain[name]) for name, value in whole.items())
    assert kept(tmp_path / "killed") == [small.trunk_file("convnet", 0).name]


def test_only_the_head_of_a_pretrained_network_has_the_full_rate(tmp_path, monkeypatch):
    rates, schedule = [], trainer.OneCycleLR
    monkeypatch.setattr(trainer, "OneCycleLR", lambda o, lr, **k: rates.append(lr) or schedule(o, lr, **k))
    small = small_trainer(tmp_path, trunk_lr_share=0.25)
    small.trunk("convnet", 0)  # from scratch
    monkeypatch.setattr(trainer, "start_of", lambda *_: "pretrained")
    small.trunk("convnet", 1)
    assert rates == [[1e-3], [1e-3, 2.5e-4]]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "efficientnet_b0", "densenet121"])
def test_the_head_is_the_last_layer(name):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    network = networks.build(name, 7, weights=None, width=None, device=torch.device("cpu"))
    head, others = recipe.parameter_groups(network, 0.1, 0.5)
    assert [len(value) for value in head["params"]] == [7, 7]
    assert (head["lr"], others["lr"]) == (0.1, 0.05)
    assert len(others["params"]) == len(list(network.parameters())) - 2


def test_settings_that_are_not_used_are_in_no_config(tmp_path):
    learners, unused = [("convnet", 0)] * 2, {"ema", "trunk_lr_share"}
    plain, other = small_trainer(tmp_path), small_trainer(tmp_path, ema=0.9, trunk_lr_share=0.5)
    for config in (plain.trunk_config("convnet", 0), plain.run_config(learners, "vote", 0)):
        assert not unused & config.keys()
    for config in (other.trunk_config("convnet", 0), other.run_config(learners, "vote", 0)):
        assert (config["ema"], config["trunk_lr_share"]) == (0.9, 0.5)
    assert plain.trunk_file("convnet", 0) != other.trunk_file("convnet", 0)


def test_a_long_training_has_a_checkpoint_and_leaves_none(tmp_path, monkeypatch):
    seen = []
    fit = trainer.fit
    monkeypatch.setattr(trainer, "CHECKPOINT_FROM", 1)
    monkeypatch.setattr(trainer, "fit", lambda *a, **k: seen.append(k["checkpoint"]) or fit(*a, **k))
    small = small_trainer(tmp_path)
    trunk = small.trunk("convnet", 0)
    assert [path.suffix for path in seen] == [".checkpoint"]
    assert kept(tmp_path) == [small.trunk_file("convnet", 0).name]
    assert len(trunk["history"]) == trainer.SCRATCH
    again = small.from_trunk("convnet", 0).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in trunk["weights"].items())
    assert len(seen) == 1


def test_a_damaged_trunk_is_trained_again_with_a_warning(tmp_path):
    small = small_trainer(tmp_path)
    trunk, path = small.trunk("convnet", 0), small.trunk_file("convnet", 0)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.warns(RuntimeWarning, match=f"{path.name} is damaged, and the network is trained again"):
            again = small.trunk("convnet", 0)
        assert all(torch.equal(value, again["weights"][name]) for name, value in trunk["weights"].items())
        assert small.trunk("convnet", 0)["seconds"] == again["seconds"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_damaged_checkpoint_costs_only_what_was_trained_before(tmp_path, monkeypatch, share):
    monkeypatch.setattr(trainer, "CHECKPOINT_FROM", 1)
    whole = small_trainer(tmp_path / "whole").trunk("convnet", 0)
    small = small_trainer(tmp_path / "killed")
    checkpoint = small.trunk_file("convnet", 0).with_suffix(".checkpoint")

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "fit", lambda *a, **k: fit_until(2, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            small.trunk("convnet", 0)
    written = checkpoint.read_bytes()
    checkpoint.write_bytes(written[: int(share * len(written))])
    with pytest.warns(
        RuntimeWarning, match=f"{checkpoint.name} is damaged, and the network is trained again"
    ):
        again = small.trunk("convnet", 0)
    assert all(torch.equal(value, again["weights"][name]) for name, value in whole["weights"].items())
    assert kept(tmp_path / "killed") == [small.trunk_file("convnet", 0).name]


def test_the_seconds_of_a_resumed_training_are_those_of_all_its_epochs(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "CHECKPOINT_FROM", 1)
    small = small_trainer(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "fit", lambda *a, **k: fit_until(2, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            small.trunk("convnet", 0)
    checkpoint = small.trunk_file("convnet", 0).with_suffix(".checkpoint")
    state = load_checkpoint(checkpoint)
    state["history"]["epochs"][0]["seconds"] = 1000.0
    save_checkpoint(checkpoint, state)
    assert 1000 <= small.trunk("convnet", 0)["seconds"] < 1100


def test_a_trunk_that_another_process_trains_is_waited_for(tmp_path):
    small, found = small_trainer(tmp_path), []
    waiting = threading.Thread(target=lambda: found.append(small.trunk("convnet", 0)))
    with RunStore(tmp_path).lock(small.trunk_file("convnet", 0).stem):
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
    waiting.join(60)
    assert found[0]["config"]["network"] == "convnet"


def test_a_trunk_that_failed_is_not_tried_again(tmp_path, monkeypatch):
    small, tried = small_trainer(tmp_path), []

    def failing(*_, **__):
        tried.append(1)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(trainer, "fit", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        small.trunk("convnet", 0)
    with pytest.raises(RuntimeError, match="There is no convnet of seed 0: its training failed"):
        small.run([("convnet", 0), ("convnet", 1)], "vote", 0)
    assert tried == [1]


@pytest.mark.parametrize("part", ["test", "held_out"])
def test_two_passes_over_the_images_measure_all_there_is(tmp_path, part):
    small = small_trainer(tmp_path)
    evaluator = small.evaluator
    ensemble = Ensemble([small.from_trunk("convnet", seed) for seed in (0, 1)])
    evaluator.calibrate(ensemble)
    readout, target = ensemble.readout, torch.as_tensor(small.images.parts[part][1])
    found = evaluator.measure(ensemble, part)
    assert ensemble.readout is readout
    for flip, kinds in ((True, ("mirrored", "uncalibrated")), (False, ("unmirrored", "plain"))):
        for kind, used in zip(kinds, (readout, None), strict=True):
            ensemble.readout = used
            logits = predict_logits(ensemble, evaluator.batches[part], flip=flip)
            assert found[kind] == evaluation.standing(logits, target)
    ensemble.readout = readout
    counted = []
    hook = ensemble.register_forward_hook(lambda *_: counted.append(1))
    evaluator.measure(ensemble, part)
    hook.remove()
    assert len(counted) == 2 * len(evaluator.batches[part])


def test_copies_that_are_equal_are_measured_once(tmp_path, monkeypatch):
    small = small_trainer(tmp_path)
    sizes, measure = [], evaluation.Evaluator.measure
    monkeypatch.setattr(
        evaluation.Evaluator, "measure", lambda *a: sizes.append(len(a[1].learners)) or measure(*a)
    )
    learners = [("convnet", 0), ("convnet", 1), ("convnet", 0)]
    found = small.run(learners, "vote", 0)
    assert sizes == [2, 2]
    ensemble = Ensemble([small.from_trunk(*learner) for learner in learners])
    small.evaluator.calibrate(ensemble)
    assert found["test"] == small.evaluator.measure(ensemble, "test")["mirrored"]
    assert found["held_out"] == small.evaluator.measure(ensemble, "held_out")["mirrored"]


def test_a_trunk_of_other_images_or_other_weights_is_another_trunk(tmp_path):
    rng = np.random.default_rng(0)
    settings = recipe.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    checksums = []
    for n, weights in ((100, None), (200, None), (100, tmp_path)):
        train = rng.integers(256, size=(n, 8, 8, 3), dtype=np.uint8), np.arange(n) % 2
        parts = images.Images.split("some", train, train, 2)
        for content in (b"one", b"two"):
            (tmp_path / "resnet18.safetensors").write_bytes(content)
            small = trainer.Trainer(
                parts, settings, weights=weights, folder=tmp_path, device=torch.device("cpu")
            )
            checksums.append(small.checksum("resnet18"))
    assert checksums[0] == checksums[1]  # no weights are read
    assert len(set(checksums)) == 4
