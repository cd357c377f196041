import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import counterpoint.training.modules
from counterpoint.training import (
    Ensemble,
    IndependentLoss,
    MemberAxis,
    Readout,
    Stacked,
    calibrate,
    can_stack,
    fit,
    stacked_layers,
)
from counterpoint.training.stacked_layers import runs_grouped


def mlp():
    head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3, bias=False))
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), head)


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 1),
        nn.Conv2d(4, 6, 3, groups=2, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def pooled(**settings):
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.AvgPool2d(2, padding=1, **settings), nn.Flatten(), nn.Linear(8, 2)
    )


def counted(n_batches, momentum=None):
    norm = nn.BatchNorm1d(4, momentum=momentum)
    norm.num_batches_tracked.fill_(n_batches)
    return nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2))


def named(name):
    learner = nn.Sequential(nn.Linear(3, 2))
    learner.name = name
    return learner


INPUTS = {mlp: (5, 6), conv: (5, 3, 8, 8)}


class Odd(nn.Module):
    """A net that is no sequence of layers."""

    def __init__(self, n_classes=3):
        super().__init__()
        self.layer = nn.Linear(6, n_classes)

    def forward(self, x):
        return self.layer(x) + 1


@pytest.fixture(params=[mlp, conv], ids=["mlp", "conv"])
def nets(request):
    torch.manual_seed(0)
    learners = [request.param() for _ in range(4)]
    for learner in learners:  # statistics of their own
        learner(torch.randn(32, *INPUTS[request.param][1:]))
    return learners, torch.randn(*INPUTS[request.param])


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_stacked_learners_put_out_what_they_did_alone(nets, grouped, training, monkeypatch):
    learners, x = nets
    for learner in learners:
        learner.train(training)
    stacked = Stacked(learners)
    monkeypatch.setattr("counterpoint.training.stacked_layers.runs_grouped", lambda *shape: grouped)
    expected = torch.stack([learner(x) for learner in learners])
    assert torch.allclose(stacked(x), expected, atol=1e-5)
    for one, other in zip(stacked.unstack(), learners, strict=True):  # statistics moved alike
        for name, value in one.state_dict().items():
            assert torch.allclose(value, other.state_dict()[name], atol=1e-6), name


def test_stacked_learners_have_the_gradients_they_had_alone(nets):
    learners, x = nets
    stacked = Stacked(learners)
    stacked(x).square().sum().backward()
    gradients = [p.grad.clone() for p in stacked.parameters()]
    for learner in learners:
        learner(x).square().sum().backward()
    assert sum(g.sum() for g in gradients).item() == pytest.approx(
        sum(p.grad.sum().item() for learner in learners for p in learner.parameters()), rel=1e-3, abs=1e-3
    )


def test_each_learner_may_see_a_view_of_its_own(nets):
    learners, x = nets
    ensemble = Ensemble(learners).eval()
    views = [x + i for i in range(4)]
    expected = torch.stack([learner.eval()(view) for learner, view in zip(learners, views, strict=True)])
    assert torch.allclose(ensemble(views), expected, atol=1e-5)
    mixed = Ensemble([Odd(), nn.Linear(6, 3)])
    y = torch.randn(5, 6)
    assert torch.allclose(mixed([y, 2 * y])[1], mixed.learners[1](2 * y))


def test_dropout_is_each_learners_own_even_on_a_shared_input():
    learners = [nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2)) for _ in range(3)]
    for learner in learners[1:]:
        learner.load_state_dict(learners[0].state_dict())
    outputs = Ensemble(learners)(torch.ones(4, 50))
    assert not torch.allclose(outputs[0], outputs[1])
    assert torch.allclose(*Ensemble(learners).eval()(torch.ones(4, 50))[:2])


def test_unstacked_learners_are_ordinary_and_independent(nets):
    learners, x = nets
    ensemble = Ensemble(learners)
    assert ensemble.is_stacked
    copies = ensemble.learners
    assert [type(c) for c in copies] == [nn.Sequential] * 4
    with torch.no_grad():
        next(copies[0].parameters()).zero_()
    again = torch.stack([learner.eval()(x) for learner in ensemble.learners])
    assert torch.allclose(ensemble.eval()(x), again, atol=1e-5)


def test_any_mix_of_networks_is_an_ensemble():
    ensemble = Ensemble([Odd(), nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))])
    assert not ensemble.is_stacked
    assert ensemble(torch.randn(5, 6)).shape == (3, 5, 3)


@pytest.mark.parametrize(
    "learners",
    [
        [nn.Linear(4, 2)],
        [nn.Linear(4, 2), nn.Linear(4, 3)],
        [nn.Linear(4, 2), nn.Linear(4, 2, bias=False)],
        [Odd(), Odd()],
        [nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)), nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.2))],
        [nn.Linear(4, 2).double(), nn.Linear(4, 2)],
        [nn.Linear(4, 2), nn.Linear(4, 2).requires_grad_(False)],
        [nn.Conv2d(1, 2, 3, padding_mode="circular")] * 2,
        [pooled(count_include_pad=True), pooled(count_include_pad=False)],
        [pooled(divisor_override=1), pooled()],
        [pooled(ceil_mode=True), pooled()],
        [counted(0), counted(100)],
    ],
)
def test_learners_that_differ_are_not_stacked(learners):
    assert not can_stack(learners)
    with pytest.raises(ValueError, match="`learners` must be equal sequences of layers"):
        Stacked(learners)


def test_counts_that_do_not_matter_may_differ():
    assert can_stack([counted(0, momentum=0.1), counted(100, momentum=0.1)])
    assert can_stack([counted(7), counted(7)])


def test_names_for_learners_do_not_keep_them_from_being_stacked():
    assert can_stack([named("a"), named("b")])


@pytest.mark.parametrize("where", [0, 1, None], ids=["linear", "activation", "sequence"])
def test_tensors_that_were_put_on_a_layer_are_kept(where):
    learners = [nn.Sequential(nn.Linear(3, 2), nn.ReLU()) for _ in range(2)]
    for i, learner in enumerate(learners):
        (learner if where is None else learner[where]).register_buffer("number", torch.tensor(float(i)))
    ensemble = Ensemble(learners)
    kept = [learner if where is None else learner[where] for learner in ensemble.learners]
    assert [layer.number.item() for layer in kept] == [0.0, 1.0]
    assert sum(name.endswith("number") for name in ensemble.state_dict()) == 2


def test_a_forward_that_was_put_on_a_learner_is_heard():
    learners = [nn.Sequential(nn.Linear(3, 2)) for _ in range(2)]
    for learner in learners:
        learner.forward = seven
    assert (Ensemble(learners)(torch.zeros(4, 3)) == 7).all()


def seven(x):
    return torch.full((len(x), 2), 7.0)


@pytest.mark.parametrize("shape", [(5, 6), (5, 2, 3)])
@pytest.mark.parametrize("first", [nn.Identity, nn.Flatten])
def test_a_first_activation_in_place_is_each_learners_own(first, shape):
    learners = [nn.Sequential(first(), nn.ELU(inplace=True), nn.Flatten(), nn.Linear(6, 2)) for _ in range(2)]
    ensemble, x = Ensemble(learners), torch.randn(shape)
    assert ensemble.is_stacked
    expected = torch.stack([learner(x.clone()) for learner in learners])
    torch.testing.assert_close(ensemble(x), expected)
    torch.testing.assert_close(ensemble(x), expected)  # it was left as it was
    assert ensemble.learners[0][1].inplace


def test_learners_that_share_parameters_are_not_stacked():
    layer = nn.Linear(4, 4)
    assert not can_stack([nn.Sequential(layer, nn.Linear(4, 2)), nn.Sequential(layer, nn.Linear(4, 2))])


def test_learners_with_tied_layers_are_not_stacked_and_stay_tied():
    def tied():
        layer = nn.Linear(4, 4)
        return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(4, 2))

    def tied_statistics():
        layer = nn.BatchNorm1d(4, affine=False)
        return nn.Sequential(layer, nn.Linear(4, 4), layer, nn.Linear(4, 2))

    assert not can_stack([tied_statistics() for _ in range(3)])
    ensemble = Ensemble([tied() for _ in range(3)])
    assert not ensemble.is_stacked
    assert sum(p.numel() for p in ensemble.parameters()) == 90


def test_frozen_parameters_stay_frozen():
    learners = [nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)) for _ in range(2)]
    flags = [p.requires_grad for p in Ensemble(learners).parameters()]
    assert flags.count(False) == 2


def test_the_rule_for_convolutions_follows_the_benchmark():
    file = Path(__file__).parents[2] / "results" / "bench_stacked_convs.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    for device_type in ("cpu", "cuda"):
        for row in record[device_type]["data"]:
            grouped = row["groups"] > 1 or runs_grouped(device_type, row["inputs"], row["outputs"])
            chosen, other = (
                row[way] for way in (("grouped", "looped") if grouped else ("looped", "grouped"))
            )
            assert chosen < 1.25 * other, row
    losses = []
    for row in record["networks"]["data"]:
        most = max(stacked_layers._MAX_BYTES, stacked_layers._MIN_BYTES_EACH * row["learners"])
        chosen = row["one_by_one" if row["bytes"] > most else "at_once"]
        losses.append(chosen / min(row["one_by_one"], row["at_once"]))
    assert max(losses) < 1.35
    assert np.exp(np.mean(np.log(losses))) < 1.05


def growing():
    maps = [nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Conv2d(4, 64, 1), nn.BatchNorm2d(64)]
    return nn.Sequential(*maps, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))


def dropping():
    maps = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout2d(0.5), nn.Conv2d(4, 64, 1), nn.Dropout(0.5)]
    return nn.Sequential(*maps, nn.Flatten(), nn.Linear(2304, 3))


def set_all(kind, **settings):
    """Return a function that changes all layers of a kind inside an ensemble, as users do."""

    def change(ensemble):
        for part in ensemble.modules():
            if isinstance(part, kind):
                for name, value in settings.items():
                    setattr(part, name, value)

    return change


def average_statistics(ensemble):
    """Do what torch.optim.swa_utils.update_bn does, without dropout."""
    set_all(nn.Dropout | nn.Dropout2d, p=0.0)(ensemble)
    set_all(nn.BatchNorm2d, momentum=None)(ensemble)


def frozen_but_dropout(ensemble):
    """Switch to evaluation, and dropout of everything on, which is not random."""
    ensemble.eval()
    set_all(nn.Dropout | nn.Dropout2d, p=1.0, training=True)(ensemble)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (conv, lambda ensemble: None),
        (conv, nn.Module.eval),
        (conv, set_all(nn.BatchNorm2d, training=False)),
        (conv, set_all(nn.BatchNorm2d, momentum=0.0, eps=0.1)),
        (growing, lambda ensemble: None),
        (dropping, average_statistics),
        (dropping, frozen_but_dropout),
    ],
)
@pytest.mark.parametrize("views", [False, True])
def test_learners_with_large_maps_run_one_after_the_other_with_the_same_results(
    monkeypatch, make, change, views
):
    torch.manual_seed(0)
    ensemble = Ensemble([make() for _ in range(3)])
    assert ensemble.is_stacked
    change(ensemble)
    x = torch.rand(3, 5, 3, 8, 8).unbind() if views else torch.rand(5, 3, 8, 8)
    twin, found = copy.deepcopy(ensemble), []
    for one, largest in ((ensemble, 2**25), (twin, 2000)):
        monkeypatch.setattr(stacked_layers, "_MAX_BYTES", largest)
        monkeypatch.setattr(stacked_layers, "_MIN_BYTES_EACH", 0)
        calls = []
        one.body.layers[-1].register_forward_hook(lambda *_: calls.append(1))  # noqa: B023
        outputs = one(x)
        assert len(calls) == (one is ensemble)
        outputs.square().sum().backward()
        found.append([outputs, *(p.grad for p in one.parameters()), *one.buffers()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


class Locked:
    """An object that cannot be copied, with a hook."""

    def __init__(self):
        self.lock, self.calls = threading.Lock(), 0

    def count(self, *_):
        self.calls += 1


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


def test_layers_with_hooks_or_parametrized_weights_run_one_after_the_other(monkeypatch):
    torch.manual_seed(0)
    ensemble, x, seen = Ensemble([conv() for _ in range(3)]).eval(), torch.rand(5, 3, 8, 8), Locked()
    for layer in ensemble.body.layers:
        if hasattr(layer, "weight"):
            parametrize.register_parametrization(layer, "weight", Half())
    for part in ensemble.modules():
        part.register_forward_hook(seen.count)
    expected = ensemble(x)
    monkeypatch.setattr(stacked_layers, "_MAX_BYTES", 2000)
    monkeypatch.setattr(stacked_layers, "_MIN_BYTES_EACH", 0)
    before = seen.calls
    torch.testing.assert_close(ensemble(x), expected)
    assert before < seen.calls < 2 * before  # those of layers that run for each learner are not called


def test_maps_are_too_large_by_their_bytes_and_only_on_the_cpu(monkeypatch):
    layers = [Stacked([nn.Conv2d(3, 4, 3, stride=s) for _ in range(8)]).layers[0] for s in (1, 2)]

    def maps(pixels, **settings):
        return torch.empty(1, 1, 1, 1, **settings).expand(pixels // 1024, 24, 32, 32)  # takes no memory

    most = 2**25 // (4 * 32)  # pixels of 32 channels in float32
    assert [layer.overflows(maps(4 * most), 8) for layer in layers] == [True, False]
    assert [layer.overflows(maps(4 * most + 1024), 8) for layer in layers] == [True, True]
    assert not layers[0].overflows(maps(most), 8)
    assert layers[0].overflows(maps(most + 1024), 8)
    assert layers[0].overflows(maps(most + 1024), 64)
    assert not layers[0].overflows(maps(most + 1024), 65)  # half a MiB each would be more
    assert not layers[0].overflows(maps(most + 1024, dtype=torch.bfloat16), 8)
    assert not layers[0].overflows(maps(9 * most, device="meta"), 8)
    for where in (torch.compiler, torch.jit):
        with monkeypatch.context() as patch:
            patch.setattr(where, "is_compiling" if where is torch.compiler else "is_tracing", lambda: True)
            assert not layers[0].overflows(maps(9 * most), 8)


def test_dropout_of_a_shared_input_is_each_learners_own_if_only_dropout_trains():
    ensemble = Ensemble([nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 1)) for _ in range(2)]).eval()
    ensemble.load_state_dict({name: torch.ones_like(value) for name, value in ensemble.state_dict().items()})
    set_all(nn.Dropout, training=True)(ensemble)
    first, second = ensemble(torch.ones(20, 64))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("frozen", ["one", "all"])
def test_convolutions_with_frozen_layers_run(frozen):
    learners = [conv() for _ in range(3)]
    for learner in learners:
        (learner if frozen == "all" else learner[0]).requires_grad_(False)
    ensemble = Ensemble(learners)
    assert ensemble(torch.randn(5, 3, 8, 8)).requires_grad is (frozen == "one")


# Nets whose layers have a stacked form, and samples for which these layers have none, or only after they are flattened.
OTHER_SHAPES = {
    "linear on sequences": (lambda: [nn.Linear(4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(15, 2)], (5, 4)),
    "norm on sequences": (lambda: [nn.BatchNorm1d(5), nn.Flatten(), nn.Linear(20, 2)], (5, 4)),
    "layer norm on maps": (
        lambda: [nn.Conv2d(1, 4, 3), nn.LayerNorm(6), nn.Flatten(), nn.Linear(144, 2)],
        (1, 8, 8),
    ),
    "linear on maps": (
        lambda: [nn.Conv2d(1, 4, 3), nn.Linear(6, 2), nn.Flatten(), nn.Linear(48, 2)],
        (1, 8, 8),
    ),
    "grey images": (lambda: [nn.Flatten(), nn.Linear(64, 2)], (8, 8)),
    "colour images": (lambda: [nn.ReLU(), nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 2)], (3, 4, 4)),
    "films": (lambda: [nn.Flatten(), nn.Linear(48, 2)], (2, 3, 2, 4)),
}


@pytest.mark.parametrize("size", [3, 6])  # as many samples as learners, and more
@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("kind", OTHER_SHAPES)
def test_stacked_learners_take_samples_of_any_shape(kind, views, size):
    torch.manual_seed(0)
    make, shape = OTHER_SHAPES[kind]
    learners = [nn.Sequential(*make()) for _ in range(3)]
    ensemble = Ensemble(learners)
    assert ensemble.is_stacked
    batches = [torch.randn(size, *shape) for _ in range(3)] if views else [torch.randn(size, *shape)] * 3
    found = ensemble(batches if views else batches[0])
    expected = torch.stack([learner(x) for learner, x in zip(learners, batches, strict=True)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    scales = torch.randn(3, size, 2)
    (found * scales).sum().backward()
    (expected * scales).sum().backward()
    gradients = {name: p.grad for name, p in ensemble.body.layers[-1].named_parameters()}
    own = torch.stack([learner[-1].weight.grad for learner in learners])
    torch.testing.assert_close(gradients["weight"], own, atol=1e-4, rtol=1e-4)
    for one, other in zip(ensemble.learners, learners, strict=True):  # statistics moved alike
        torch.testing.assert_close(one.state_dict(), other.state_dict(), atol=1e-6, rtol=1e-6)


def test_samples_of_other_shapes_drop_entries_of_their_own_in_training_alone():
    learners = [
        nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Flatten(), nn.Linear(100, 2)) for _ in range(2)
    ]
    learners[1].load_state_dict(learners[0].state_dict())
    ensemble, x = Ensemble(learners), torch.ones(3, 2, 4)
    assert not torch.allclose(*ensemble(x))
    assert torch.allclose(*ensemble.eval()(x))


def test_statistics_that_are_frozen_stay_so_for_samples_of_other_shapes():
    ensemble = Ensemble([nn.Sequential(nn.BatchNorm1d(5), nn.Flatten(), nn.Linear(20, 2)) for _ in range(2)])
    for part in ensemble.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.eval()
    ensemble(torch.randn(6, 5, 4) + 3)
    assert all((learner[0].running_mean == 0).all() for learner in ensemble.learners)


def test_views_may_differ_in_size_where_the_learners_allow_it():
    learners = [conv().eval() for _ in range(2)]
    views = [torch.randn(5, 3, 8, 8), torch.randn(5, 3, 10, 10)]
    expected = torch.stack([learner(view) for learner, view in zip(learners, views, strict=True)])
    assert torch.allclose(Ensemble(learners)(views), expected, atol=1e-5)


def test_outputs_that_are_no_rows_are_refused():
    with pytest.raises(ValueError, match="`learners` must return one row for each sample; got 4 axes"):
        Ensemble([nn.Linear(4, 2), nn.Linear(4, 2)])(torch.randn(6, 5, 3, 4))


class Squeezed(nn.Module):
    """One number for each sample, without an axis of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x).squeeze(-1)


@pytest.mark.parametrize("activation", ["softmax", "regression"])
def test_predictions_of_outputs_that_are_no_rows_are_refused(activation):
    ensemble = Ensemble([Squeezed() for _ in range(3)], activation=activation)
    with pytest.raises(ValueError, match=r"one row for each sample, \(batch, n_classes\); got \(64,\)"):
        ensemble.predict(torch.randn(64, 4))
    ensemble = Ensemble([nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 3), nn.Identity())])
    with pytest.raises(ValueError, match=r"one row for each sample, \(batch, n_classes\); got \(3,\)"):
        ensemble.predict(torch.randn(4))


@pytest.mark.parametrize("n_sequences", [3, 7])
@pytest.mark.parametrize("stacked", [True, False])
def test_tokens_are_predicted_as_rows_of_their_own(n_sequences, stacked):
    torch.manual_seed(0)
    learners = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)) for _ in range(3)]
    if not stacked:
        learners[0].append(nn.Identity())
    ensemble = Ensemble(learners)
    assert ensemble.is_stacked == stacked
    ensemble.weights = torch.tensor([1.0, 0.0, 2.0])
    x, y = torch.randn(n_sequences, 5, 4), torch.randint(3, (n_sequences * 5,))
    calibrate(ensemble, [(x.flatten(0, 1), y)], decode=True)
    for method in ("predict_proba", "predict", "learner_proba"):
        found, rows = (getattr(ensemble, method)(each) for each in (x, x.flatten(0, 1)))
        torch.testing.assert_close(found.flatten(*((1, 2) if method == "learner_proba" else (0, 1))), rows)


def test_learners_that_return_no_tensor_are_refused():
    with pytest.raises(TypeError, match="`learners` must return a tensor each; got tuple"):
        Ensemble([nn.LSTM(4, 3), nn.LSTM(4, 3)]).predict(torch.randn(5, 2, 4))


def test_stacked_maps_pass_a_synchronised_batch_norm():
    torch.manual_seed(0)
    ensemble, x = Ensemble([conv() for _ in range(2)]).eval(), torch.rand(5, 3, 8, 8)
    assert ensemble.is_stacked
    expected = ensemble(x)
    torch.testing.assert_close(nn.SyncBatchNorm.convert_sync_batchnorm(ensemble)(x), expected)


def test_learners_come_back_of_their_type_and_frozen_where_they_are():
    ensemble = Ensemble([mlp() for _ in range(2)]).double()
    ensemble.body.layers[0].bias.requires_grad_(False)
    ensemble.body.layers[1].norm.weight.requires_grad_(False)
    for learner in ensemble.learners:
        assert learner[1].running_mean.dtype == torch.float64
        assert learner[1].num_batches_tracked.dtype == torch.int64
        flags = {name: p.requires_grad for name, p in learner.named_parameters()}
        assert [name for name in flags if not flags[name]] == ["0.bias", "1.weight"]
        assert {p.dtype for p in learner.parameters()} == {torch.float64}
    x = torch.randn(5, 6).double()
    again = Ensemble(ensemble.learners)
    assert again.is_stacked
    assert torch.equal(again.eval()(x), ensemble.eval()(x))


def test_soft_and_hard_votes_with_weights():
    learners = [nn.Linear(2, 2, bias=False) for _ in range(3)]
    x = torch.tensor([[1.0, 0.0]])
    with torch.no_grad():
        for learner, logit in zip(learners, (6.0, -0.5, -0.5), strict=True):
            learner.weight.copy_(torch.tensor([[logit, 0.0], [0.0, 0.0]]))
    soft, hard = Ensemble(learners), Ensemble(learners, voting="hard")
    proba = torch.stack([learner(x).softmax(-1) for learner in learners])
    assert torch.allclose(soft.predict_proba(x), proba.mean(0))
    assert hard.predict_proba(x).tolist()[0] == pytest.approx([1 / 3, 2 / 3])
    assert (soft.predict(x).item(), hard.predict(x).item()) == (0, 1)
    assert Ensemble(learners, voting="hard", weights=[4, 1, 1]).predict(x).item() == 0
    assert torch.allclose(soft.learner_proba(x), proba)


def test_one_logit_is_a_binary_answer():
    ensemble = Ensemble([nn.Linear(3, 1) for _ in range(2)])
    proba = ensemble.predict_proba(torch.randn(4, 3))
    assert proba.shape == (4, 2)
    assert torch.allclose(proba.sum(1), torch.ones(4))


@pytest.mark.parametrize("n_columns", [1, 2])
def test_learners_may_put_out_probabilities(n_columns):
    torch.manual_seed(0)
    last = nn.Sigmoid() if n_columns == 1 else nn.Softmax(-1)
    learners = [nn.Sequential(nn.Linear(3, n_columns), last) for _ in range(2)]
    x = torch.randn(50, 3)
    own = torch.stack([learner(x) for learner in learners]).detach()
    found = Ensemble(learners, activation="identity").learner_proba(x)
    torch.testing.assert_close(found, torch.cat([1 - own, own], -1) if n_columns == 1 else own)
    assert set(found.argmax(-1).flatten().tolist()) == {0, 1}


def test_an_ensemble_within_a_module_is_restored_with_its_read_out():
    def outer():
        return nn.ModuleDict({"net": Ensemble([nn.Linear(3, 2) for _ in range(2)])})

    one, other, x = outer(), outer(), torch.randn(20, 3)
    calibrate(one["net"], [(x, torch.arange(20) % 2)])
    other.load_state_dict(one.state_dict())
    assert torch.equal(other["net"].predict_proba(x), one["net"].predict_proba(x))
    other.load_state_dict(outer().state_dict())
    assert other["net"].readout is None


def test_predicting_leaves_the_mode_of_every_module(nets):
    learners, x = nets
    ensemble = Ensemble(learners).train()
    ensemble.body.layers[1].eval()
    ensemble.predict(x)
    assert ensemble.training
    assert not ensemble.body.layers[1].training


def test_state_dicts_round_trip(nets):
    learners, x = nets
    ensemble = Ensemble(learners).eval()
    other = Ensemble([type(learners[0])(*learner) for learner in learners]).eval()
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other(x), ensemble(x))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Ensemble([]), TypeError, "`learners` must be a list of at least one torch Module; got"),
        (lambda: Ensemble(None), TypeError, "`learners` must be a list .* torch Module; got None"),
        (
            lambda: Ensemble(nn.Sequential(nn.Linear(2, 2))),
            TypeError,
            r"`learners` must be a list .* torch Module; got Sequential",
        ),
        (
            lambda: Ensemble([nn.Linear(2, 2), nn.Linear(2, 2)]).predict(np.ones((3, 2))),
            TypeError,
            "`x` must be a tensor, or a list of them; got ndarray",
        ),
        (lambda: Ensemble([1, 2]), TypeError, "`learners` must be a list of at least one torch Module"),
        (
            lambda: Ensemble([Odd()], voting="loud"),
            ValueError,
            "`voting` must be one of 'auto', 'soft', 'hard', 'geometric'; got 'loud'",
        ),
        (
            lambda: Ensemble([Odd()], activation="tanh"),
            ValueError,
            "`activation` must be one of 'softmax', 'identity', 'regression'; got 'tanh'",
        ),
        (
            lambda: calibrate(Ensemble([Odd()], activation="identity"), []),
            ValueError,
            "`ensemble` must return logits, to be calibrated",
        ),
        (lambda: Ensemble([Odd(), Odd()], weights=[1]), ValueError, r"`weights` must have shape \(2,\)"),
        (
            lambda: Ensemble([Odd(), Odd(4)])(torch.randn(5, 6)),
            ValueError,
            r"outputs of the same shape; got \(5, 3\), \(5, 4\)",
        ),
        (
            lambda: Ensemble([Odd(), Odd()])([torch.randn(5, 6)]),
            ValueError,
            "`x` must be a batch, or a list of 2 views of it; got 1 views",
        ),
    ],
)
def test_bad_input_is_refused_by_name_rule_and_value(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_layers_in_a_mode_of_their_own_keep_it():
    torch.manual_seed(0)
    learners = [
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(3)
    ]
    for learner in learners:
        learner[1].eval()
    x = torch.randn(8, 3)
    ensemble = Ensemble(learners)
    torch.testing.assert_close(ensemble(x), torch.stack([learner(x) for learner in learners]))
    assert not any(learner[1].training for learner in ensemble.learners)


def test_dropout_in_place_runs_stacked():
    torch.manual_seed(0)
    ensemble = Ensemble([nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(4, 2)) for _ in range(3)])
    x = torch.ones(5, 4)
    assert ensemble.is_stacked
    assert ensemble(x).shape == (3, 5, 2)
    assert (x == 1).all()


@pytest.mark.parametrize("where", ["module", "parameter"])
def test_backward_hooks_are_heard(where):
    heard = []
    learners = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2)]
    if where == "module":
        learners[0].register_full_backward_hook(lambda *_: heard.append(1))
    else:
        learners[0][0].weight.register_hook(lambda _: heard.append(1))
    Ensemble(learners)(torch.randn(5, 3, requires_grad=True)).sum().backward()
    assert heard


def test_a_refused_state_leaves_an_ensemble_as_it_was():
    torch.manual_seed(0)
    large, small = (Ensemble([nn.Linear(3, 2) for _ in range(n)]) for n in (3, 2))
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    for ensemble in (large, small):
        calibrate(ensemble, [(x, y)])
    before = large.predict_proba(x)
    with pytest.raises(RuntimeError, match="size mismatch"):
        large.load_state_dict(small.state_dict())
    assert large.predict_proba(x).shape == before.shape
    large.load_state_dict({"weights": large.weights}, strict=False)
    assert large.readout is not None  # no learner has changed


def test_views_may_be_a_tuple():
    x = torch.randn(2, 5, 3)
    for learners in ([nn.Linear(3, 2), nn.Linear(3, 2)], [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))]):
        ensemble = Ensemble(learners)
        assert torch.equal(ensemble(tuple(x)), ensemble(list(x)))
        with pytest.raises(ValueError, match="2 views"):
            ensemble((x[0],) * 3)


def with_hook(n=3):
    torch.manual_seed(1)
    nets = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)) for _ in range(n)]
    nets[0].register_forward_hook(lambda *_: None)
    return Ensemble(nets)


def test_a_state_dict_loads_whether_its_learners_were_stacked_or_not():
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)) for _ in range(3)]
    stacked, hooked = Ensemble(nets), with_hook()
    assert stacked.is_stacked
    assert not hooked.is_stacked
    x = torch.randn(9, 4)
    stacked(x)  # gives the normalisation some statistics
    before = {name: value.clone() for name, value in stacked.state_dict().items()}
    hooked.load_state_dict(stacked.state_dict())
    torch.testing.assert_close(hooked.predict_proba(x), stacked.predict_proba(x))
    fresh = Ensemble([copy.deepcopy(net) for net in nets])
    fresh.load_state_dict(hooked.state_dict())
    torch.testing.assert_close(fresh.predict_proba(x), stacked.predict_proba(x))
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(value, before[name])
    with pytest.raises(RuntimeError, match="Missing key"):
        hooked.load_state_dict(Ensemble([nn.Linear(4, 3) for _ in range(3)]).state_dict())


def test_a_layer_runs_once_and_under_activation_checkpointing():
    torch.manual_seed(0)
    x = torch.randn(6, 3, 8, 8)
    for channels in (4, 5):  # grouped, and one after the other
        nets = [
            nn.Sequential(
                nn.Conv2d(3, channels, 3),
                nn.ReLU(),
                nn.Conv2d(channels, 4, 3),
                nn.Flatten(),
                nn.Linear(64, 2),
            )
            for _ in range(3)
        ]
        ensemble, calls = Ensemble(nets), []
        for part in ensemble.modules():
            part.register_forward_hook(lambda part, *_: calls.append(part))  # noqa: B023
        expected = torch.autograd.grad(ensemble(x).square().sum(), list(ensemble.parameters()))
        assert len(calls) == len(set(calls))
        again = checkpoint(ensemble, x, use_reentrant=False)
        found = torch.autograd.grad(again.square().sum(), list(ensemble.parameters()))
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))


def test_threads_may_predict_with_one_ensemble_in_training_mode():
    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3))
        for _ in range(3)
    ]
    ensemble = Ensemble(layers)
    x = torch.randn(64, 4)
    ensemble(x)
    expected = ensemble.predict_proba(x)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ensemble.predict_proba(x), range(80)))
    assert all(torch.equal(one, expected) for one in found)
    assert all(part.training for part in ensemble.modules())


def test_many_rows_are_predicted_in_parts(monkeypatch):
    monkeypatch.setattr(counterpoint.training.modules, "_MAX_ACTIVATIONS", 600)
    torch.manual_seed(0)
    ensemble = Ensemble([nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 3)) for _ in range(3)])
    x, sizes = torch.randn(70, 4), []
    ensemble.register_forward_hook(lambda _module, _inputs, outputs: sizes.append(outputs.shape[1]))
    with torch.no_grad():
        expected = ensemble(x)
    sizes.clear()
    torch.testing.assert_close(ensemble.learner_proba(x), expected.softmax(-1))
    assert sizes == [20, 20, 20, 10]
    torch.testing.assert_close(ensemble.predict_proba([x, x, x]), ensemble.predict_proba(x))
    assert torch.equal(ensemble.predict(x), ensemble.rule(expected).argmax(-1))


class Own(nn.Linear):
    """A layer that is not torch's: it might make large maps and return few numbers."""


def test_networks_whose_maps_become_smaller_are_predicted_in_larger_parts(monkeypatch):
    torch.manual_seed(0)
    maps = [nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.ReLU(), nn.Conv2d(8, 64, 3, stride=2, padding=1)]
    learners = [nn.Sequential(*copy.deepcopy(maps), nn.Flatten(), nn.Linear(64, 3)) for _ in range(3)]
    compiled = [nn.Sequential(copy.deepcopy(learner)) for learner in learners]
    compiled[0].append(nn.Identity()).compile(backend="eager")  # which are not stacked
    with pytest.warns(DeprecationWarning, match="script"):
        scripted = [torch.jit.script(learner) for learner in learners]
    x = torch.rand(30, 3, 8, 8)
    most = 6 * 3 * 8 * 64  # as much as six samples hold with eight channels at all pixels
    own = [nn.Sequential(copy.deepcopy(learner), Own(3, 3)) for learner in learners]
    for given in (learners, compiled, scripted, own):
        expected = [6, 24] if given is learners else [6] * 5
        ensemble, sizes = Ensemble(given), []
        whole = ensemble.learner_proba(x)
        ensemble.register_forward_hook(lambda _module, _inputs, found: sizes.append(found.shape[1]))  # noqa: B023
        with monkeypatch.context() as patch:
            patch.setattr(counterpoint.training.modules, "_MAX_ACTIVATIONS", most)
            torch.testing.assert_close(ensemble.learner_proba(x), whole)
        assert sizes == expected


def test_pixels_are_predicted_as_rows_of_their_own():
    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 5, 1)

        def forward(self, x):
            return self.conv(x).movedim(1, -1)

    torch.manual_seed(0)
    ensemble, x = Ensemble([Segmenter() for _ in range(2)]), torch.rand(4, 3, 6, 7)
    expected = torch.stack([learner(x).softmax(-1) for learner in ensemble.learners])
    torch.testing.assert_close(ensemble.learner_proba(x), expected)
    torch.testing.assert_close(ensemble.predict_proba(x), expected.mean(0))
    assert ensemble.predict(x).shape == (4, 6, 7)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("stacked", [True, False])
def test_an_ensemble_is_traced_as_it_runs(stacked):
    torch.manual_seed(0)
    learners = [mlp() for _ in range(3)]
    if not stacked:
        learners[0].append(nn.Identity())
    ensemble, x = Ensemble(learners).eval(), torch.randn(5, 6)
    assert ensemble.is_stacked == stacked
    with pytest.warns(DeprecationWarning, match="trace"):
        traced = torch.jit.trace(ensemble, x)
    torch.testing.assert_close(traced(x), ensemble(x))


def test_a_hook_on_accumulated_gradients_keeps_learners_as_they_are():
    learners = [nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)) for _ in range(3)]
    seen = []
    learners[1][0].weight.register_post_accumulate_grad_hook(
        lambda weight: seen.append(weight.grad.abs().sum())
    )
    ensemble = Ensemble(learners)
    assert not ensemble.is_stacked
    ensemble(torch.randn(5, 2)).sum().backward()
    assert len(seen) == 1


def test_a_lazy_layer_that_has_seen_no_batch_is_one_sentence():
    def net():
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))

    for learners in ([net()], [net(), net()], [nn.Linear(4, 3), net()]):
        with pytest.raises(
            ValueError, match=r"^`learners` must have parameters with a shape; got a LazyLinear at '1': run"
        ):
            Ensemble(learners)
    heads = MemberAxis(nn.Sequential(nn.LazyLinear(6), nn.Unflatten(1, (2, 3))), n_learners=2)
    loader = [(torch.randn(6, 4), torch.randint(0, 3, (6,)))]
    with pytest.raises(
        ValueError, match=r"^`ensemble` must have parameters with a shape; got a LazyLinear at 'net\.0'"
    ):
        fit(heads, loader, loss=IndependentLoss(), optimizer=torch.optim.Adam, epochs=1, progress=False)
    learners = [net(), net()]
    for learner in learners:
        learner(torch.randn(2, 4))
    assert Ensemble(learners)(torch.randn(5, 4)).shape == (2, 5, 3)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"scale": torch.ones(3), "offset": torch.zeros(3, 1, 2)},
            r"`scale` and `offset` must have shapes .*; got \(3,\)",
        ),
        ({"scale": torch.ones(2, 1, 1), "offset": torch.zeros(3, 1, 2)}, r"got \(2, 1, 1\) and \(3, 1, 2\)"),
        (
            {"scale": torch.ones(3, 1, 1), "offset": torch.zeros(3, 1, 2), "center": torch.ones(3, 2)},
            r"`center` must have shape \(3, 1, 2\); got \(3, 2\)",
        ),
        (
            {"scale": torch.ones(3, 1, 1), "offset": torch.zeros(3, 1, 2), "pool_scale": torch.ones(3)},
            r"`pool_scale` must have shape \(2,\); got \(3,\)",
        ),
    ],
)
def test_a_readout_whose_parts_do_not_fit_is_one_sentence(parts, message):
    with pytest.raises(ValueError, match=message):
        Readout(**parts)


@pytest.mark.parametrize(("n_learners", "n_classes"), [(2, 3), (4, 3), (3, 2), (3, 4)])
def test_a_readout_of_other_learners_or_classes_is_one_sentence(n_learners, n_classes):
    ensemble = Ensemble([nn.Linear(4, 3) for _ in range(3)])
    ensemble.readout = Readout.identity(n_learners, n_classes)
    with pytest.raises(
        ValueError, match=rf"those of {n_learners} learners for {n_classes} classes, as this read-out"
    ):
        ensemble.predict_proba(torch.randn(5, 4))
    ensemble.readout = Readout.identity(3, 3)
    assert ensemble.predict_proba(torch.randn(5, 4)).shape == (5, 3)


def test_the_batch_on_the_first_axis_is_found_where_it_can_be():
    loss = IndependentLoss()
    with pytest.raises(
        ValueError, match="Learners are the first axis of `logits`, before the batch: transpose it"
    ):
        loss(torch.randn(6, 4, 3), torch.randint(0, 3, (6,)))  # four learners, six samples
    heads = nn.Sequential(nn.Linear(4, 9), nn.Unflatten(1, (3, 3)))  # (batch, n_learners, n_classes)
    loader = [(torch.randn(3, 4), torch.randint(0, 3, (3,)))] * 2  # as many samples as learners
    for ensemble, message in (
        (heads, "learners first; got the batch first"),
        (MemberAxis(heads, 3, dim=0), "`module` must"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(ensemble, loader, loss=loss, optimizer=torch.optim.Adam, epochs=1, progress=False)
    fit(MemberAxis(heads, 3), loader, loss=loss, optimizer=torch.optim.Adam, epochs=1, progress=False)
