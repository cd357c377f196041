"""The loop trains, keeps the best, stops in time and says what is wrong."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from counterpoint.exceptions import LearnerWarning
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.theory import critical_lambda, operating_point
from counterpoint.training import (
    Callback,
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    MemberAxis,
    calibrate,
    fit,
    load_checkpoint,
)
from counterpoint.training.tally import Tally


def blobs(n=120, seed=0):
    """Three classes that lie apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    centres = torch.tensor([[0.0, 3.0], [-3.0, -1.0], [3.0, -1.0]])
    return centres[y] + 0.5 * torch.randn(n, 2, generator=generator), y


def mlps(n=4, seed=0, width=8):
    torch.manual_seed(seed)
    return Ensemble([nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3)) for _ in range(n)])


def batched(x, y, *more, size=30):
    return list(zip(*(part.split(size) for part in (x, y, *more)), strict=True))


def train(ensemble, batches, **options):
    defaults = {
        "loss": CorrelationLoss(0.5),
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.05),
        "epochs": 5,
        "progress": False,
    }
    return fit(ensemble, batches, **(defaults | options))


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("loss", [CorrelationLoss(0.5), IndependentLoss()])
def test_learners_learn(loss):
    x, y = blobs()
    ensemble = mlps()
    history = train(ensemble, batched(x, y), loss=loss, epochs=20)
    assert history["loss"][-1] < history["loss"][0]
    assert history["vote_accuracy"][-1] > 0.95
    assert (ensemble.predict(x) == y).float().mean() > 0.95
    assert len(history) == 20
    assert history.best_epoch is None


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_above_the_critical_lambda_training_goes_to_the_operating_point(reduction):
    n = 5
    lam = 2 * float(critical_lambda(n, reduction=reduction))
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 8, generator=generator) + 4 * y[:, None]
    torch.manual_seed(0)
    ensemble = Ensemble([nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2)) for _ in range(n)])
    loss = CorrelationLoss(lam=lam, reduction=reduction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearnerWarning)  # poor learners are what is asked for
        history = train(
            ensemble, [(x, y)], loss=loss, epochs=100, optimizer=lambda p: torch.optim.Adam(p, lr=0.02)
        )
    target = operating_point(lam, n, reduction=reduction)
    assert history["r_tl"][-1] == pytest.approx(float(target.r_tl), abs=0.01)
    assert history["r_ll"][-1] == pytest.approx(float(target.r_ll), abs=0.01)


def test_the_record_is_what_the_measures_say():
    """With a learning rate of nothing, an epoch's record is that of the ensemble as it stands."""
    x, y = blobs(n=90)
    ensemble = mlps()
    options = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.0), "epochs": 1}
    history = train(ensemble, batched(x, y), validation=[(x, y)], **options)
    read_out = (ensemble.predict(x) == y).double().mean().item()
    ensemble.readout = None
    proba = ensemble.learner_proba(x)
    votes = (proba.mean(0).argmax(-1) == y).double().mean().item()
    pairs = np.triu_indices(4, 1)
    means = []
    for part, truth in zip(proba.split(30, 1), y.split(30), strict=True):
        part, truth = part.double().numpy(), truth.numpy()
        means.append(
            (truth_learner_correlation(truth, part).mean(), learner_learner_correlation(part)[pairs].mean())
        )
    record = history[0]
    assert record["r_tl"] == pytest.approx(np.mean(means, 0)[0], abs=1e-5)
    assert record["r_ll"] == pytest.approx(np.mean(means, 0)[1], abs=1e-5)
    assert record["vote_accuracy"] == pytest.approx(votes)
    assert record["val_vote_accuracy"] == pytest.approx(read_out)
    assert record["learner_accuracy"] == pytest.approx((proba.argmax(-1) == y).double().mean().item())
    whole = proba.double().numpy()
    assert record["val_r_tl"] == pytest.approx(truth_learner_correlation(y.numpy(), whole).mean(), abs=1e-5)
    losses = [CorrelationLoss(0.5)(ensemble(a), b).item() for a, b in batched(x, y)]
    assert record["loss"] == pytest.approx(np.mean(losses), abs=1e-6)


def test_the_tally_is_the_same_however_the_batches_are_held(monkeypatch):
    x, y = blobs()
    ensemble = mlps()
    weight = torch.rand(len(x))

    def tallied():
        tally = Tally(ensemble, IndependentLoss())
        for a, b, w in batched(x, y, weight, size=50):  # the last is smaller
            logits = ensemble(a).detach()
            tally.add(logits, b, w, logits.mean())
        return list(tally.means().values()), tally.learner_r_tl()

    together = tallied()
    monkeypatch.setattr("counterpoint.training.tally._HELD_AT_MOST", {"cpu": 0})
    one_by_one = tallied()
    np.testing.assert_allclose(one_by_one[0], together[0], rtol=1e-5)
    np.testing.assert_allclose(one_by_one[1], together[1], rtol=1e-5)


def test_long_epochs_are_measured_in_part_and_others_each_time():
    x, y = blobs(n=320)
    y[10:20] = 0  # one batch in which the answers never vary
    seen = []
    original = Tally._measure

    def measure(self, batches):
        seen.append([batch.target.tolist() for batch in batches])
        return original(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "_measure", measure)
        train(mlps(), batched(x, y, size=10), epochs=4)
    assert [len(epoch) for epoch in seen] == [8, 8, 8, 8]
    assert sorted(b for epoch in seen for b in epoch) == sorted(b.tolist() for b in y.split(10))


def test_ties_of_the_classes_count_by_their_share():
    tally = Tally(nn.Identity(), IndependentLoss())
    tally.add(torch.zeros(2, 8, 4), torch.arange(8) % 4, None, torch.tensor(0.0))
    assert tally.means()["learner_accuracy"] == 0.25


def test_weights_of_zero_leave_samples_out():
    x, y = blobs(n=90)
    keep = torch.arange(90) % 2 == 0
    one, other = mlps(), mlps()
    a = train(one, [(x[keep], y[keep])], epochs=3)
    b = train(other, [(x, y, keep.float())], epochs=3)
    for name in ("loss", "r_tl", "r_ll", "vote_accuracy", "learner_accuracy"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-4)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("least", [0.0, 1e-3])
@pytest.mark.parametrize("part", ["", "val_"])
def test_batches_count_by_their_weights(part, least):
    x, y = blobs(n=60)
    weight = torch.cat([torch.ones(30), torch.full((30,), least)])
    kinds = {}
    for size in (30, 60):
        weighted = batched(x, y, weight, size=size)
        kinds[size] = train(
            mlps(),
            weighted if not part else [(x, y)],
            loss=IndependentLoss(),
            optimizer=lambda p: torch.optim.SGD(p, lr=0.0),
            validation=weighted if part else None,
            epochs=1,
        )[0]
    for name in ("loss", "vote_accuracy", "learner_accuracy"):
        assert kinds[30][part + name] == pytest.approx(kinds[60][part + name], rel=1e-5)


def test_the_loss_on_record_is_that_of_the_correlations_on_record():
    x, y = blobs(n=90)
    weight = torch.cat([torch.rand(60), torch.zeros(30)])
    nothing = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.0), "epochs": 1}
    record = train(mlps(), batched(x, y, weight), loss=CorrelationLoss(lam=0.3), **nothing)[0]
    assert record["loss"] == pytest.approx(-(record["r_tl"] - 0.3 * record["r_ll"]), abs=1e-5)


def test_a_caller_without_gradients_does_not_hinder_the_training():
    x, y = blobs()
    one, other = mlps(), mlps()
    train(one, batched(x, y))
    with torch.no_grad():
        train(other, batched(x, y))
        assert not torch.is_grad_enabled()
    assert same(state_of(one), state_of(other))


def test_every_form_of_batches_is_the_same_training():
    x, y = blobs()
    loader = DataLoader(TensorDataset(x, y), batch_size=30)
    forms = [batched(x, y), loader, lambda epoch: iter(batched(x, y))]
    states = []
    for form in forms:
        ensemble = mlps()
        train(ensemble, form)
        states.append(ensemble.state_dict())
    assert same(states[0], states[1])
    assert same(states[0], states[2])


def test_a_callable_is_told_the_epoch():
    x, y = blobs()
    told = []
    train(mlps(), lambda epoch: told.append(epoch) or batched(x, y), epochs=3)
    assert told == [1, 2, 3, 3]  # the last for the read-out


def test_each_learner_may_have_its_own_view():
    x, y = blobs()
    views = [x + 0.1 * i for i in range(4)]
    assert train(mlps(), [(views, y)], epochs=30)["vote_accuracy"][-1] > 0.9


def test_one_hot_targets_and_single_logits_are_measured():
    x, y = blobs()
    history = train(mlps(), [(x, nn.functional.one_hot(y).float())], epochs=30)
    assert history["vote_accuracy"][-1] > 0.9
    binary = Ensemble([nn.Linear(2, 1) for _ in range(3)])
    history = train(binary, [(x, (y == 0).long())], loss=IndependentLoss(), epochs=30)
    assert history["vote_accuracy"][-1] > 0.9


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_one_hot_targets_of_whole_numbers_are_measured(kind):
    x, y = blobs()
    options = {"loss": IndependentLoss(), "epochs": 2}
    expected = train(mlps(), batched(x, y), **options)
    found = train(mlps(), batched(x, nn.functional.one_hot(y).to(kind)), **options)
    for name in ("loss", "r_tl", "vote_accuracy", "learner_accuracy"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_learners_that_put_out_probabilities_vote_as_they_are_measured():
    torch.manual_seed(0)
    x, y = blobs()
    y = (y == 0).long()
    learners = [nn.Sequential(nn.Linear(2, 1), nn.Sigmoid()) for _ in range(3)]
    ensemble = Ensemble(learners, activation="identity")
    loss = CorrelationLoss(0.5, activation="identity")
    history = train(ensemble, batched(x, y), loss=loss, validation=[(x, y)], epochs=30)
    votes = (ensemble.predict(x) == y).double().mean().item()
    assert history["val_vote_accuracy"][history.best_epoch - 1] == pytest.approx(votes)
    assert votes > 0.9


def test_a_batch_without_weight_teaches_nothing():
    x, y = blobs()
    ensemble = mlps()
    start = state_of(ensemble)
    history = train(
        ensemble,
        [(x, y, torch.zeros(120))],
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        loss=IndependentLoss(),
    )
    assert same(ensemble.state_dict(), start)
    assert np.isnan(history["loss"]).all()
    assert np.isnan(history["vote_accuracy"]).all()


def test_any_module_of_the_right_shape_is_trained():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 6)

        def forward(self, x):
            return self.linear(x).unflatten(1, (2, 3)).transpose(0, 1)

    torch.manual_seed(0)
    x, y = blobs()
    assert train(Plain(), batched(x, y), loss=IndependentLoss(), epochs=20)["vote_accuracy"][-1] > 0.9


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")
def test_the_best_epoch_is_kept():
    x, y = blobs()

    class Spoil(Callback):
        """Turn the ensemble into a bad one after its third epoch."""

        def on_epoch_begin(self, state):
            if state.epoch == 4:
                for parameter in state.ensemble.parameters():
                    nn.init.normal_(parameter)

    kept = {}

    class Keep(Callback):
        def on_epoch_end(self, state):
            kept[state.epoch] = state_of(state.ensemble)

    ensemble = mlps()
    history = train(
        ensemble,
        batched(x, y),
        validation=batched(*blobs(seed=1)),
        callbacks=[Spoil(), Keep()],
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        loss=IndependentLoss(),
        epochs=5,
    )
    best = history.best_epoch
    assert best == 1 + int(np.argmax(history["val_vote_accuracy"]))
    assert best <= 3
    assert same(ensemble.state_dict(), kept[best])
    assert not same(kept[best], kept[5])


def test_validation_changes_nothing():
    x, y = blobs()

    def make():
        torch.manual_seed(0)
        return Ensemble(
            [nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(3)]
        )

    plain, validated = make(), make()
    last = {}

    class Keep(Callback):
        def on_epoch_end(self, state):
            last.update(state_of(state.ensemble))
            assert all(module.training for module in state.ensemble.modules())

    train(plain, batched(x, y))
    train(validated, batched(x, y), validation=[(x + 5, y)], callbacks=[Keep()])
    assert same(last, plain.state_dict())


def test_learners_trained_by_correlation_are_read_out():
    """The loss is blind to shift and scale: without a read-out the best ranking may vote for one class throughout."""
    torch.manual_seed(0)
    x = torch.randn(512, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    ensemble = Ensemble([nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(10)])
    options = {"loss": CorrelationLoss(0.9), "optimizer": lambda p: torch.optim.Adam(p, 0.02), "epochs": 20}
    history = train(
        ensemble, list(zip(x.split(64), y.split(64), strict=True)), validation=[(x, y)], **options
    )
    assert (ensemble.predict(x) == y).float().mean() > 0.93
    assert history["val_vote_accuracy"].max() > 0.93
    restored = Ensemble(ensemble.learners)
    restored.load_state_dict(ensemble.state_dict())
    assert torch.equal(restored.predict_proba(x), ensemble.predict_proba(x))
    train(ensemble, [(x, y)], loss=IndependentLoss(), epochs=1)
    assert ensemble.readout is None


def test_modes_that_a_callback_sets_are_kept():
    class Freeze(Callback):
        def on_train_begin(self, state):
            state.ensemble.body.layers[1].eval()

        def on_batch_end(self, state):
            assert state.ensemble.training
            assert not state.ensemble.body.layers[1].training

    x, y = blobs()
    train(mlps().eval(), batched(x, y), validation=[(x, y)], callbacks=[Freeze()], epochs=2)


def test_patience_counts_from_the_best_epoch():
    x, y = blobs()
    values = iter([0.1, 0.5, 0.5, float("nan"), 0.4, 0.9, 0.9])
    history = train(
        mlps(),
        batched(x, y),
        validation=[(x, y)],
        metric=lambda logits, y: next(values),
        patience=3,
        epochs=9,
    )
    assert history.best_epoch == 2
    np.testing.assert_array_equal(history["val_metric"], [0.1, 0.5, 0.5, np.nan, 0.4])


def test_the_metric_gets_all_logits_and_may_be_the_loss():
    x, y = blobs()

    def mean_margin(logits, target):
        assert logits.shape == (4, 120, 3)
        assert torch.equal(target, y)
        assert not logits.requires_grad
        return logits.mean()

    history = train(mlps(), batched(x, y), validation=batched(x, y), metric=mean_margin)
    assert history.best_epoch == 1 + int(np.argmax(history["val_mean_margin"]))
    history = train(mlps(), batched(x, y), validation=batched(x, y), metric="loss")
    assert history.best_epoch == 1 + int(np.argmin(history["val_loss"]))


@pytest.mark.parametrize(
    ("steps", "scheduler", "expected"),
    [
        ("auto", lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5), [1, 0.5, 0.25]),
        ("batch", lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5), [1, 1 / 16, 1 / 256]),
        ("auto", lambda o: torch.optim.lr_scheduler.CyclicLR(o, 1, 9, step_size_up=8), [1, 5, 9]),
        ("epoch", lambda o: torch.optim.lr_scheduler.CyclicLR(o, 1, 9, step_size_up=8), [1, 2, 3]),
    ],
)
def test_the_scheduler_steps_by_epoch_or_batch(steps, scheduler, expected):
    x, y = blobs()
    history = train(
        mlps(),
        batched(x, y),  # 4 batches
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9),
        scheduler=scheduler,
        scheduler_steps=steps,
        epochs=3,
    )
    np.testing.assert_allclose(history["lr"], expected)


def test_made_optimizers_and_schedulers_are_taken_as_they_are():
    x, y = blobs()
    ensemble = mlps()
    optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    history = train(ensemble, batched(x, y), optimizer=optimizer, scheduler=scheduler, epochs=2)
    np.testing.assert_allclose(history["lr"], [0.1, 0.01])


def test_bf16_runs_the_networks_in_16_bits():
    x, y = blobs()
    seen = []

    class Look(Callback):
        def on_batch_end(self, state):
            seen.append(state.logits.dtype)

    history = train(mlps(), batched(x, y), precision="bf16", callbacks=[Look()], epochs=20)
    assert set(seen) == {torch.bfloat16}
    assert history["vote_accuracy"][-1] > 0.9
    seen.clear()
    train(mlps(), batched(x, y), callbacks=[Look()], epochs=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # around the call
        train(mlps(), batched(x, y), precision="float32", callbacks=[Look()], epochs=1)
    assert set(seen) == {torch.float32}


def test_float32_holds_on_the_way_back_too():
    x, y = blobs()
    plain, surrounded = mlps(), mlps()
    train(plain, batched(x, y), precision="float32")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        train(surrounded, batched(x, y), precision="float32")
    for one, other in zip(plain.parameters(), surrounded.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


class Poison(Callback):
    """Make the loss NaN from a batch of an epoch on."""

    def __init__(self, epoch, batch):
        self.when = (epoch, batch)

    def on_batch_end(self, state):
        if (state.epoch, state.batch + 1) == self.when:
            next(state.ensemble.parameters()).data.fill_(float("nan"))


def test_a_loss_that_is_not_finite_stops_with_the_last_good_state(tmp_path):
    x, y = blobs()
    kept = {}

    class Keep(Callback):
        def on_epoch_end(self, state):
            kept[state.epoch] = state_of(state.ensemble)

    ensemble = mlps()
    message = r"the loss must stay finite; got nan in batch 3 of epoch 3\. The ensemble is back .* epoch 2"
    with pytest.raises(FloatingPointError, match=message):
        train(
            ensemble,
            batched(x, y),
            loss=IndependentLoss(),
            callbacks=[Poison(3, 3), Keep()],
            checkpoint=tmp_path / "run",
        )
    assert same(ensemble.state_dict(), kept[2])
    saved = load_checkpoint(tmp_path / "run")
    assert same(saved["ensemble"], kept[2])
    assert len(saved["history"]["epochs"]) == 2


def test_weights_that_are_not_finite_stop_too():
    x, y = blobs()
    ensemble = mlps()
    start = state_of(ensemble)
    with pytest.raises(FloatingPointError, match=r"the weights must stay finite; .* of epoch 1"):
        train(ensemble, batched(x, y), callbacks=[Poison(1, 5)])
    assert same(ensemble.state_dict(), start)


def test_a_validation_loss_that_is_not_finite_is_named():
    x, y = blobs()
    with pytest.raises(FloatingPointError, match="got nan in batch 1 of the validation of epoch 1"):
        train(mlps(), batched(x, y), loss=IndependentLoss(), validation=[(x * float("nan"), y)])


def caught(ensemble, batches, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        train(ensemble, batches, **options)
    assert all(issubclass(warning.category, LearnerWarning) for warning in found)
    assert all(warning.filename == __file__ for warning in found)
    return [str(warning.message) for warning in found]


def test_a_learner_that_collapses_is_named_once():
    x, y = blobs()
    ensemble = mlps()
    with torch.no_grad():
        ensemble.body.layers[-1].weight[2] = 0
        ensemble.body.layers[0].weight[2] = 0
        ensemble.body.layers[0].bias[2] = 0
    messages = caught(ensemble, batched(x, y), optimizer=lambda p: torch.optim.SGD(p, lr=0.1), epochs=4)
    assert messages == ["Learner 2 has collapsed: its output is the same for every sample (epoch 1)."]


def against(logits, target):
    """Raise the probability of the truth, and for the second learner lower it."""
    own = logits.softmax(-1).gather(-1, target.expand(4, -1).unsqueeze(-1)).mean((1, 2))
    return own[1] - own[0] - own[2] - own[3]


class Turn(Callback):
    """Turns the second learner against the truth."""

    def on_epoch_begin(self, state):
        if state.epoch == 4:
            with torch.no_grad():
                state.ensemble.body.layers[-1].weight[1] *= -1


def test_a_learner_that_turns_against_the_truth_is_named_once_and_at_once():
    x, y = blobs()
    options = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.01), "epochs": 6, "callbacks": [Turn()]}
    ensemble = mlps()
    train(ensemble, batched(x, y), epochs=10)
    (message,) = caught(ensemble, batched(x, y), **options)
    assert re.fullmatch(r"Learner 1 opposes the truth: .* -0\.\d+ \(epoch 4\)\.", message)


def test_a_learner_that_never_followed_the_truth_is_named_after_five_epochs():
    x, y = blobs()
    ensemble = mlps()
    train(ensemble, batched(x, y), loss=against, epochs=4)
    assert caught(ensemble, batched(x, y), loss=against, epochs=4) == []
    messages = caught(ensemble, batched(x, y), loss=against, epochs=7)
    assert [message[-10:] for message in messages] == ["(epoch 5)."]


def test_a_resumed_run_warns_of_what_the_whole_run_would_have(tmp_path):
    x, y = blobs()
    ensemble = mlps()
    with torch.no_grad():
        for layer in (ensemble.body.layers[0], ensemble.body.layers[-1]):
            layer.weight[2] = 0
    options = {
        "checkpoint": tmp_path / "run",
        "resume": True,
        "callbacks": [Turn()],
        "loss": against,
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.1),
    }
    first = caught(ensemble, batched(x, y), epochs=3, **options)
    second = caught(ensemble, batched(x, y), epochs=5, **options)
    whole = mlps()
    with torch.no_grad():
        for layer in (whole.body.layers[0], whole.body.layers[-1]):
            layer.weight[2] = 0
    assert first + second == caught(whole, batched(x, y), epochs=5, **(options | {"checkpoint": None}))
    assert first
    assert second


@pytest.mark.parametrize("kind", ["sampler", "batch sampler"])
def test_a_generator_within_a_sampler_goes_on_where_it_was(tmp_path, kind):
    x, y = blobs()
    data = TensorDataset(x, y)

    def loader():
        sampler = RandomSampler(data, generator=torch.Generator().manual_seed(7))
        if kind == "sampler":
            return DataLoader(data, batch_size=32, sampler=sampler)
        return DataLoader(data, batch_sampler=BatchSampler(sampler, 32, drop_last=False))

    whole, broken = mlps(), mlps()
    train(whole, loader(), epochs=4)
    train(broken, loader(), epochs=2, checkpoint=tmp_path / "run")
    train(broken, loader(), epochs=4, checkpoint=tmp_path / "run", resume=True)
    assert same(whole.state_dict(), broken.state_dict())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "`epochs` must be at least 1; got 0"),
        ({"patience": 3}, ValueError, "`patience` must be None without `validation`; got 3"),
        (
            {"metric": "f1"},
            ValueError,
            "`metric` must be one of 'vote_accuracy', 'log_loss', 'loss'; got 'f1'",
        ),
        (
            {"precision": "float16"},
            ValueError,
            "`precision` must be one of 'auto', 'float32', 'bf16'; got 'float16'",
        ),
        ({"scheduler_steps": "never"}, ValueError, "`scheduler_steps` must be one of"),
        (
            {"optimizer": "adam"},
            TypeError,
            "`optimizer` must be a torch Optimizer, or a callable .*; got 'adam'",
        ),
        (
            {"scheduler": lambda o: 3},
            TypeError,
            "`scheduler` must be a torch LRScheduler, or a callable .*; got 3",
        ),
        (
            {"optimizer": torch.optim.SGD(nn.Linear(2, 2).parameters())},
            ValueError,
            "`optimizer` must hold parameters of `ensemble`, .* got 2 of 2",
        ),
        (
            {"optimizer": torch.optim.LBFGS},
            TypeError,
            "`optimizer` must take steps without a closure, as Adam and SGD do; got LBFGS",
        ),
        (
            {"loss": IndependentLoss},
            TypeError,
            "`loss` must be callable with logits and targets; got <class .*IndependentLoss",
        ),
        (
            {"loss": nn.CrossEntropyLoss()},
            TypeError,
            r"`loss` must take the logits .* as IndependentLoss does .*; got CrossEntropyLoss\(\)",
        ),
        (
            {"loss": nn.functional.cross_entropy},
            TypeError,
            r"`loss` must take the logits .* as IndependentLoss does .*; got <function cross_entropy",
        ),
        ({"loss": lambda *_: 1.0}, ValueError, "`loss` must return one number, .*; got .* returns 1.0"),
        (
            {"loss": lambda logits, _: logits.mean((0, 2))},
            ValueError,
            r"`loss` must return one number, as a tensor; got .* returns shape \(30,\)",
        ),
        (
            {"loss": CorrelationLoss(activation="identity")},
            ValueError,
            "`activation` must be the same for the loss and the ensemble; got 'identity' and 'softmax'",
        ),
        ({"validation": iter([])}, TypeError, "`validation` must be a DataLoader, .* got an iterator"),
        ({"validation": 5}, TypeError, "`validation` must be a DataLoader, .* each epoch; got 5"),
        ({"epochs": (1, 2)}, TypeError, r"`epochs` must be an integer; got \(1, 2\)"),
        ({"epochs": 2.5}, TypeError, "`epochs` must be an integer; got 2.5"),
        ({"epochs": True}, TypeError, "`epochs` must be an integer; got True"),
        ({"patience": [1], "validation": [0]}, TypeError, r"`patience` must be an integer; got \[1\]"),
        ({"resume": "no"}, TypeError, "`resume` must be True or False; got 'no'"),
        ({"progress": "no"}, TypeError, "`progress` must be True or False; got 'no'"),
        ({"checkpoint": 3}, TypeError, "`checkpoint` must be the path of a file; got 3"),
        ({"checkpoint": ""}, ValueError, "`checkpoint` must be the path of a file; got ''"),
        ({"callbacks": None}, TypeError, "`callbacks` must be a list .* on_train_begin; got None"),
        ({"callbacks": Callback()}, TypeError, "`callbacks` must be a list .* got <.*Callback object"),
        ({"callbacks": [Callback]}, TypeError, r"`callbacks` must be a list .* got \[<class"),
        ({"callbacks": "bar"}, TypeError, "`callbacks` must be a list .* got 'bar'"),
        (
            {"metric": np.ones(2)},
            ValueError,
            "`metric` must be one of 'vote_accuracy', 'log_loss', 'loss'; got array",
        ),
        ({"validation": []}, ValueError, "`validation` must yield at least one batch; got none"),
    ],
)
def test_bad_arguments_are_refused(options, error, message):
    x, y = blobs()
    with pytest.raises(error, match=message):
        train(mlps(), batched(x, y), **options)


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        (iter([]), TypeError, "`batches` must be a DataLoader, .* got an iterator"),
        (None, TypeError, "`batches` must be a DataLoader, .* got None"),
        (
            lambda epoch: 5,
            TypeError,
            r"`batches` must be an iterable of \(x, y\) or \(x, y, sample_weight\); got 5",
        ),
        ([], ValueError, "`batches` must yield at least one batch; got none"),
        (
            [torch.zeros(3, 2)],
            TypeError,
            r"`batches` must yield \(x, y\) or \(x, y, sample_weight\); got Tensor",
        ),
        (
            [(torch.ones(3, 2), torch.arange(3), torch.ones(3)), (torch.ones(3, 2), torch.arange(3))],
            ValueError,
            "`batches` must yield weights with every batch or with none; got some of both",
        ),
        ([(np.zeros((3, 2)), np.zeros(3))], TypeError, "`batches` must yield tensors; got ndarray"),
    ],
)
def test_bad_batches_are_refused(batches, error, message):
    with pytest.raises(error, match=message):
        train(mlps(), batches)


class Words(nn.Module):
    """Learners that take tokens, and fail with more than two for a sample."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(4, 3))

    def forward(self, x):
        return torch.stack([self.layers(x)] * 2)


def test_inputs_of_another_type_are_named():
    x, y = blobs()
    for name in ("batches", "validation"):
        given = {"batches": batched(x, y), "validation": batched(x, y)} | {name: batched(x.byte(), y)}
        message = (
            rf"^`{name}` must yield inputs of torch\.float32, the dtype of `ensemble`; got torch\.uint8, and"
        )
        with pytest.raises(TypeError, match=message):
            train(mlps(), given.pop("batches"), **given)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):  # torch's own sentence
        train(Words(), [(torch.ones(120, 3, dtype=torch.int64), y)], loss=IndependentLoss())


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_weights_are_not_negative(value):
    x, y = blobs()
    weight = torch.ones(len(y))
    weight[3] = value
    with pytest.raises(
        ValueError, match=rf"^`sample_weight` must be 0 or more for each sample; got {value}\.$"
    ):
        train(mlps(), [(x, y, weight)])


class Broken(nn.Module):
    """A learner that fails for reasons of its own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        raise RuntimeError("my own failure")


def test_a_failure_of_a_net_is_its_own():
    x, y = blobs()
    with pytest.raises(RuntimeError, match=r"^my own failure$"):
        train(Broken(), batched(x.byte(), y), loss=IndependentLoss())


def test_weights_of_another_shape_are_named():
    x, y = blobs()
    with pytest.raises(
        ValueError,
        match=r"^`sample_weight` must hold one number for each of the 30 samples; got shape \(30, 1\)",
    ):
        train(mlps(), batched(x, y, torch.ones(120, 1)))
    with pytest.raises(ValueError, match=r"each of the 120 samples; got shape \(\)"):
        train(mlps(), [(x, y, torch.tensor(1.0))])


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_is_no_checkpoint(tmp_path, resume):
    x, y = blobs()
    with pytest.raises(ValueError, match="`checkpoint` must be the path of a file; got the folder '"):
        train(mlps(), batched(x, y), checkpoint=tmp_path, resume=resume)


def test_a_note_in_the_history_that_is_no_number_is_named(tmp_path):
    class Note(Callback):
        def on_epoch_end(self, state):
            state.history[-1]["note"] = "good"

    x, y = blobs()
    with pytest.raises(TypeError, match="`note` must be a number, to be kept in a history; got 'good'"):
        train(mlps(), batched(x, y), callbacks=[Note()], checkpoint=tmp_path / "run")


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match=r"`ensemble` must be a torch Module; got \[\]"):
        train([], batched(*blobs()))


def test_a_data_set_that_knows_only_its_items_gives_batches():
    class Items:
        def __getitem__(self, index):
            return batched(*blobs())[index]

    assert len(train(mlps(), Items(), epochs=1)) == 1


@pytest.mark.parametrize("empty", [[], lambda epoch: []])
def test_validation_without_a_batch_is_named_before_the_training_where_that_can_be_seen(empty):
    ensemble = mlps()
    before = state_of(ensemble)
    with pytest.raises(ValueError, match="`validation` must yield at least one batch; got none"):
        train(ensemble, batched(*blobs()), validation=empty)
    assert same(before, ensemble.state_dict()) != callable(empty)


def test_zero_and_one_are_flags_too(tmp_path):
    x, y = blobs()
    history = train(mlps(), batched(x, y), progress=0, resume=1, checkpoint=tmp_path / "run", epochs=1)
    assert len(history) == 1


def test_an_ensemble_without_parameters_is_refused():
    with pytest.raises(ValueError, match="`ensemble` must have parameters to train"):
        train(nn.Identity(), [(torch.zeros(3, 2), torch.zeros(3))])


def test_the_progress_bar_leaves_files_alone(capsys):
    x, y = blobs()
    train(mlps(), batched(x, y), progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip() == ""


@pytest.fixture
def one_process(tmp_path):
    """A process group of this process alone."""
    if not torch.distributed.is_available():
        pytest.skip("torch is built without torch.distributed")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


ON_GPU = pytest.mark.skipif(
    torch.cuda.is_available(), reason="where there is a GPU it wants the ensemble there"
)


@pytest.mark.parametrize(
    "wrap", [pytest.param(nn.DataParallel, marks=ON_GPU), nn.parallel.DistributedDataParallel]
)
def test_an_ensemble_that_is_wrapped_for_several_devices_trains_as_it_does_alone(wrap, one_process):
    x, y = blobs()
    options = {"validation": batched(x, y), "epochs": 3}
    alone, inner = mlps(), mlps()
    expected = train(alone, batched(x, y), **options)
    wrapped = wrap(inner)
    found = train(wrapped, batched(x, y), **options)
    assert inner.readout is not None
    torch.testing.assert_close(inner.predict_proba(x), alone.predict_proba(x))
    for column in ("val_vote_accuracy", "vote_accuracy", "loss"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-5)
    inner.readout = None
    assert calibrate(wrapped, batched(x, y)) is wrapped
    assert inner.readout is not None


def test_a_compiled_ensemble_gets_its_read_out():
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = (x[:, 0] > 0).long()
    found = []
    for wrap in (lambda ensemble: ensemble, lambda ensemble: torch.compile(ensemble, backend="eager")):
        torch.manual_seed(1)
        ensemble = Ensemble([nn.Linear(2, 2) for _ in range(3)])
        settings = {"optimizer": lambda p: torch.optim.SGD(p, 0.1), "epochs": 2, "progress": False}
        fit(wrap(ensemble), [(x, y)], loss=CorrelationLoss(0.5), **settings)
        assert ensemble.readout is not None
        found.append(ensemble.predict_proba(x))
    torch.testing.assert_close(*found)


class Scaling(nn.Module):
    """A wrapper that torch and counterpoint do not know; it prepares the inputs."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x / 2)


@pytest.mark.parametrize("wrap", [Scaling, torch.optim.swa_utils.AveragedModel])
def test_an_ensemble_inside_any_wrapper_gets_its_read_out(wrap):
    x, y = blobs()
    wrapped = wrap(mlps())
    train(wrapped, batched(x, y), loss=CorrelationLoss(0.5))
    inner = wrapped.inner if wrap is Scaling else wrapped.module
    seen = x / 2 if wrap is Scaling else x
    assert inner.readout is not None
    assert (inner.predict(seen) == y).float().mean() > 0.9
    inner.readout = None
    assert calibrate(wrapped, batched(x, y), decode=True) is wrapped
    assert (inner.predict(seen) == y).float().mean() > 0.9


@pytest.mark.parametrize("wrap", [Scaling, torch.optim.swa_utils.AveragedModel])
def test_an_ensemble_inside_any_wrapper_is_measured_by_its_own_vote(wrap):
    x, y = blobs(n=300)
    noisy = x + 2 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    options = {"loss": CorrelationLoss(0.9), "epochs": 12, "metric": "log_loss"}
    scale = 2 if wrap is Scaling else 1
    found = []
    for ensemble, factor in ((mlps(n=5), 1), (wrap(mlps(n=5)), scale)):
        held_out = batched(factor * noisy[60:], y[60:], size=120)
        found.append(train(ensemble, batched(factor * noisy[:60], y[:60]), validation=held_out, **options))
    assert found[0].best_epoch == found[1].best_epoch < 12
    for name in ("vote_accuracy", "val_log_loss", "val_vote_accuracy"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-5, err_msg=name)
    with pytest.raises(ValueError, match="`activation` must be the same for the loss and the ensemble"):
        train(
            Scaling(Ensemble([nn.Linear(2, 3)], activation="identity")), batched(x, y), loss=DiversityLoss()
        )


class Heads(nn.Module):
    """Several learners in one module, with the batch first or the learners first."""

    def __init__(self, n=3, batch_first=False):
        super().__init__()
        self.nets = nn.ModuleList(nn.Linear(2, 3) for _ in range(n))
        self.batch_first = batch_first

    def forward(self, x):
        return torch.stack([net(x) for net in self.nets], 1 if self.batch_first else 0)


class Student(nn.Module):
    """Learners of its own, which learn from an ensemble and are no ensemble of this library."""

    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher.requires_grad_(False)
        self.learners = nn.ModuleList(nn.Linear(2, 3) for _ in range(3))

    def forward(self, x):
        shown = x + 0.01 * self.teacher(x).mean()
        return torch.stack([learner(shown) for learner in self.learners])


def test_an_ensemble_inside_a_module_that_returns_something_else_is_left_as_it_is():
    x, y = blobs()
    teacher = mlps()
    train(teacher, batched(x, y), loss=CorrelationLoss(0.5))
    before, vote, proba = state_of(teacher), teacher.vote, teacher.predict_proba(x)
    student = Student(teacher)
    loader = DataLoader(TensorDataset(x, y), 30, shuffle=True, generator=torch.Generator().manual_seed(0))
    with pytest.warns(LearnerWarning, match="Student does not return the outputs of an Ensemble"):
        history = train(student, loader, loss=CorrelationLoss(0.5), validation=batched(x, y))
    assert teacher.vote == vote
    assert all(torch.equal(value, before[name]) for name, value in state_of(teacher).items())
    torch.testing.assert_close(teacher.predict_proba(x), proba)
    assert len(history) == 5
    train(student, loader, loss=DiversityLoss())  # with logits, whatever the teacher returns


class Headed(nn.Module):
    """Learners whose outputs, of any kind, go through one more layer."""

    def __init__(self, activation="softmax"):
        super().__init__()
        torch.manual_seed(0)
        learners = [nn.Sequential(nn.Linear(2, 3), nn.Tanh()) for _ in range(3)]
        self.ensemble, self.head = Ensemble(learners, activation=activation), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.ensemble(x))


@pytest.mark.parametrize("activation", ["softmax", "identity"])
@pytest.mark.parametrize(
    "loss", [DiversityLoss(), lambda logits, y: nn.functional.cross_entropy(logits.mean(0), y)]
)
def test_a_module_with_a_layer_after_its_ensemble_is_measured_by_its_own_outputs(activation, loss):
    x, y = blobs()
    module = Headed(activation)
    with pytest.warns(LearnerWarning, match="Headed does not return the outputs of its Ensemble, whose vote"):
        history = train(module, batched(x, y), loss=loss, validation=batched(x, y), epochs=20)
    assert module.ensemble.readout is None
    assert module.ensemble.vote == "soft"
    best = history.best_epoch - 1
    with torch.no_grad():
        right = (module.eval()(x).mean(0).argmax(-1) == y).float().mean()
    assert history["val_vote_accuracy"][best] == pytest.approx(float(right), abs=0.02)
    assert right > 0.95


def test_a_read_out_is_not_fitted_to_outputs_that_a_module_does_not_return():
    x, y = blobs()
    module = Headed()
    with pytest.warns(LearnerWarning, match="Headed does not return the outputs of an Ensemble"):
        history = train(module, batched(x, y), validation=batched(x, y), epochs=8)
    assert module.ensemble.readout is None
    with torch.no_grad():
        proba = module.eval()(x).softmax(-1).mean(0)  # as they are measured
    right = float((proba.argmax(-1) == y).float().mean())
    assert history["val_vote_accuracy"][history.best_epoch - 1] == pytest.approx(right)


class Counting(nn.Module):
    """A wrapper that moves a buffer whenever it runs, and returns a view."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return self.inner(x - self.mean)[..., :]


def test_the_look_at_the_first_batch_leaves_no_trace(tmp_path):
    x, y = blobs()
    found = []
    for stops in ((3,), (1, 3)):
        wrapped = Counting(mlps())
        for epochs in stops:
            options = {"checkpoint": tmp_path / f"{stops}.ckpt", "resume": True, "loss": DiversityLoss()}
            train(wrapped, batched(x, y), epochs=epochs, **options)
        found.append(state_of(wrapped))
        assert wrapped.inner.vote == "geometric"
    assert same(*found)


def test_an_ensemble_in_a_wrapper_that_is_compiled_in_place_is_found():
    x, y = blobs()
    wrapped = Scaling(mlps())
    wrapped.compile(backend="eager")
    wrapped(x)
    train(wrapped, batched(x, y), loss=DiversityLoss())
    assert wrapped.inner.vote == "geometric"


def test_a_module_that_asks_its_ensemble_twice_is_calibrated_by_what_it_returns():
    class Twice(Scaling):
        def forward(self, x):
            self.inner(-x)
            found = self.inner(x / 2)
            self.inner(2 * x)
            return found

    x, y = blobs()
    found = [train(wrap(mlps()), batched(x, y), epochs=10)["loss"] for wrap in (Scaling, Twice)]
    np.testing.assert_allclose(*found)
    wrapped = Twice(mlps())
    train(wrapped, batched(x, y), epochs=10)
    assert (wrapped.inner.predict(x / 2) == y).float().mean() > 0.9


def test_a_classifier_may_hold_a_regression_that_is_not_trained():
    class Beside(Scaling):
        def __init__(self, inner):
            super().__init__(inner)
            self.teacher = Ensemble([nn.Linear(2, 1)], activation="regression").requires_grad_(False)

        def forward(self, x):
            return self.inner(x) + 0 * self.teacher(x)

    x, y = blobs()
    history = train(Beside(Heads()), batched(x, y), validation=batched(x, y), loss=IndependentLoss())
    assert history["val_vote_accuracy"][-1] > 0.5


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_labels_of_any_integer_type_are_measured(dtype):
    x, y = blobs()
    history = train(mlps(), batched(x, y.to(dtype)), loss=DiversityLoss(), epochs=10)
    assert history["learner_accuracy"][-1] > 0.8


class Stem(nn.Module):
    """A layer before an ensemble, beside another ensemble that may be asked as well."""

    def __init__(self, ensemble, teacher=None):
        super().__init__()
        self.stem, self.ensemble, self.teacher = nn.Linear(2, 2), ensemble, teacher

    def forward(self, x):
        if self.teacher is not None:
            self.teacher(x)
        return self.ensemble(self.stem(x))


@pytest.mark.parametrize("teacher", [None, mlps(seed=5).requires_grad_(False)])
@pytest.mark.parametrize("frozen", [True, False])
def test_the_ensemble_whose_outputs_a_module_returns_gets_the_vote_and_the_read_out(frozen, teacher):
    x, y = blobs()
    for loss, vote in ((DiversityLoss(), "geometric"), (CorrelationLoss(0.5), None)):
        module = Stem(mlps().requires_grad_(not frozen), teacher)
        train(module, batched(x, y), loss=loss)
        assert vote in (None, module.ensemble.vote)
        assert (module.ensemble.readout is not None) == (vote is None)
    assert teacher is None or teacher.readout is None


def test_an_ensemble_inside_a_wrapper_sees_the_batches_that_it_sees_alone():
    x, y = blobs()

    def batches(epoch):
        asked.append(epoch)
        return iter(stream[:4]), stream.extend([stream.pop(0) for _ in range(4)])

    found = []
    for wrap in (lambda ensemble: ensemble, torch.optim.swa_utils.AveragedModel):
        asked, stream = [], batched(x, y, size=15)
        loader = DataLoader(TensorDataset(x, y), 30, shuffle=True, generator=torch.Generator().manual_seed(0))
        history = train(wrap(mlps()), loader, loss=DiversityLoss())
        again = train(wrap(mlps()), lambda epoch: batches(epoch)[0], loss=DiversityLoss())
        found.append((history["loss"].tolist(), again["loss"].tolist(), asked))
        assert asked == [1, 2, 3, 4, 5]
    assert found[0] == found[1]


def test_an_ensemble_compiled_inside_a_wrapper_returns_to_its_best_epoch():
    x, y = blobs()
    ensemble = mlps()
    wrapped = Scaling(torch.compile(ensemble, backend="eager"))
    history = train(wrapped, batched(x, y), validation=batched(x, y), loss=DiversityLoss())
    assert history.best_epoch
    other = mlps(seed=1)
    Scaling(torch.compile(other, backend="eager")).load_state_dict(wrapped.state_dict())
    torch.testing.assert_close(other.predict_proba(x), ensemble.predict_proba(x))


def sequence(optimizer):
    parts = [
        torch.optim.lr_scheduler.ConstantLR(optimizer),
        torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
    ]
    return torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [1])


@pytest.mark.parametrize(
    "make",
    [sequence, lambda optimizer: torch.optim.lr_scheduler.ChainedScheduler([sequence(optimizer)])],
)
def test_a_scheduler_made_of_others_is_accepted(make):
    ensemble, (x, y) = mlps(), blobs()
    sgd = torch.optim.SGD(ensemble.parameters(), 0.1)
    history = train(ensemble, batched(x, y), optimizer=sgd, scheduler=make(sgd))
    assert history["lr"][-1] < 0.1


@pytest.mark.filterwarnings("ignore:Detected call of")  # the outer optimizer takes no step here
def test_a_scheduler_of_an_optimizer_around_this_one_is_accepted():
    ensemble, (x, y) = mlps(), blobs()
    mine, outer = (torch.optim.SGD(ensemble.parameters(), 0.1) for _ in range(2))
    outer.param_groups = list(mine.param_groups)
    scheduler = torch.optim.lr_scheduler.StepLR(outer, 1)
    history = train(ensemble, batched(x, y), optimizer=mine, scheduler=scheduler)
    assert history["lr"][-1] < history["lr"][0]


def test_a_scheduler_of_another_optimizer_is_refused():
    ensemble, (x, y) = mlps(), blobs()
    mine, other = (torch.optim.SGD(ensemble.parameters(), 0.1) for _ in range(2))
    for optimizer in (mine, torch.optim.SGD):
        with pytest.raises(ValueError, match="`scheduler` must be one of `optimizer`; got that of another"):
            train(
                ensemble,
                batched(x, y),
                optimizer=optimizer,
                scheduler=torch.optim.lr_scheduler.StepLR(other, 1),
            )


def test_a_scheduler_that_takes_a_loss_cannot_step_after_each_batch():
    ensemble, (x, y) = mlps(), blobs()
    before = state_of(ensemble)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    with pytest.raises(
        ValueError, match="`scheduler` must not be ReduceLROnPlateau if it steps after each batch"
    ):
        train(ensemble, batched(x, y), scheduler=plateau, scheduler_steps="batch")
    assert all(torch.equal(value, before[name]) for name, value in ensemble.state_dict().items())


def test_a_metric_does_not_hide_a_measure_of_its_name():
    def brier_score(logits, y):
        return -7.0

    x, y = blobs()
    history = train(mlps(), batched(x, y), validation=batched(x, y), metric=brier_score)
    assert (history["val_brier_score"] >= 0).all()
    assert (history["val_metric"] == -7).all()


@pytest.mark.parametrize(
    "optimizer",
    [partial(torch.optim.SGD, lr=0.1, momentum=0.9), partial(torch.optim.AdamW, lr=0.1, weight_decay=0.5)],
)
def test_a_batch_with_labels_to_ignore_alone_counts_for_nothing(optimizer):
    x, y = blobs(n=64)
    y[60:] = -100
    found = []
    for rows in (64, 60):
        ensemble = mlps()
        batches = batched(x[:rows], y[:rows], size=20)
        loss = DiversityLoss(ignore_index=-100)
        history = train(ensemble, batches, loss=loss, validation=batches, optimizer=optimizer)
        found.append((history, ensemble.predict_proba(x)))
    for name in ("loss", "vote_accuracy", "val_log_loss"):
        np.testing.assert_allclose(found[0][0][name], found[1][0][name], rtol=1e-6, err_msg=name)
    torch.testing.assert_close(found[0][1], found[1][1])


@pytest.mark.parametrize("name", ["batches", "validation"])
def test_data_without_any_label_are_refused(name):
    x, y = blobs()
    given = {"batches": batched(x, y), "validation": batched(x, y)}
    given[name] = [(x[:9], torch.full((9,), -100))]
    with pytest.raises(
        ValueError, match=f"`{name}` must hold labels that are not to be ignored; got none in epoch 1"
    ):
        train(mlps(), given["batches"], validation=given["validation"], loss=DiversityLoss(ignore_index=-100))


@pytest.mark.parametrize("first", ["ignored", "labelled"])
def test_pairs_of_samples_are_found_in_any_batch(first):
    x, y = blobs(n=32)
    x, y = x.view(8, 4, 2), y.view(8, 4)
    pair = [(x, torch.full_like(y, -100)), (x, y)]
    history = train(mlps(), (pair if first == "ignored" else pair[::-1]) * 8, epochs=2)
    assert np.isfinite(history["loss"]).all()


def test_a_module_without_a_read_out_is_told_of():
    x, y = blobs()

    with pytest.warns(LearnerWarning, match="`loss` needs a read-out, and Heads does not return the outputs"):
        train(Heads(), batched(x, y), loss=CorrelationLoss(0.5), epochs=1)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_read_out_of_earlier_weights_is_dropped_by_further_training(stacked):
    x, y = blobs()
    heads = nn.Sequential(nn.Linear(2, 9), nn.Unflatten(1, (3, 3)))
    ensemble = mlps() if stacked else MemberAxis(heads, 3)
    train(ensemble, batched(x, y), loss=CorrelationLoss(0.5), epochs=2)
    ensemble.eval()
    gradient = ensemble(x.clone().requires_grad_()).sum()
    gradient.backward()  # of the inputs, in evaluation mode: nothing trains
    assert ensemble.readout is not None
    ensemble.train()
    ensemble(x)  # nor does a forward pass
    assert ensemble.readout is not None
    with pytest.warns(LearnerWarning, match="its read-out was dropped; `calibrate` fits another"):
        DiversityLoss()(ensemble(x), y).backward()
    assert ensemble.readout is None


def test_the_checkpoint_of_a_finished_run_holds_the_read_out(tmp_path):
    x, y = blobs()
    ensemble = mlps()
    train(ensemble, batched(x, y), loss=CorrelationLoss(0.5), epochs=2, checkpoint=tmp_path / "run")
    saved = load_checkpoint(tmp_path / "run")
    for name, value in ensemble.readout.state_dict().items():
        assert value.is_contiguous()
        assert torch.equal(saved["readout"][name], value)


def test_an_optimizer_may_have_a_zero_grad_of_its_own():
    calls = []

    class Counting(torch.optim.SGD):
        def zero_grad(self, set_to_none=True):
            calls.append(set_to_none)
            super().zero_grad(set_to_none)

    x, y = blobs()
    ours, theirs = mlps(), mlps()
    train(ours, batched(x, y), optimizer=lambda p: Counting(p, lr=0.1), epochs=2)
    train(theirs, batched(x, y), optimizer=lambda p: torch.optim.SGD(p, lr=0.1), epochs=2)
    assert calls == [True] * 8
    assert same(state_of(ours), state_of(theirs))


def test_as_many_learners_as_samples_are_not_taken_for_each_other():
    x, y = blobs(40)
    options = {"loss": IndependentLoss(), "epochs": 1}
    with pytest.raises(
        ValueError, match=r"must return \(n_learners, batch, n_classes\), learners first; got the batch first"
    ):
        train(Heads(10, True), batched(x, y, size=10), **options)
    train(Heads(10, False), batched(x, y, size=10), **options)
    trunk = MemberAxis(Heads(10, True), 10)
    train(trunk, batched(x, y, size=10), **options)
    with torch.no_grad():
        torch.testing.assert_close(trunk(x)[3], trunk.net.nets[3](x))


class Tokens(nn.Module):
    """A network with named inputs and a row of outputs for each token."""

    def __init__(self, sequences=True):
        super().__init__()
        self.embed, self.out, self.sequences = nn.Embedding(5, 4), nn.Linear(4, 3), sequences

    def forward(self, ids, mask):
        hidden = self.embed(ids) * mask[..., None]
        return self.out(hidden if self.sequences else hidden.mean(1))


def token_batches(sequences):
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(4):
        ids = torch.randint(5, (6, 7), generator=generator)
        labels = ids.remainder(3) if sequences else ids[:, 0].remainder(3)
        mask = torch.arange(7) < torch.randint(3, 8, (6, 1), generator=generator)
        found.append({"ids": ids, "mask": mask.float(), "label": labels})
        if sequences:
            found[-1]["label"] = labels.masked_fill(~mask, -100)
    return found


@pytest.mark.parametrize("loss", [CorrelationLoss(0.5), DiversityLoss()], ids=str)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_named_inputs_and_sequences_train_and_predict(loss, accumulate):
    torch.manual_seed(0)
    ensemble = Ensemble([Tokens() for _ in range(3)])
    batches = token_batches(True)

    def unpack(batch):
        return {"ids": batch["ids"], "mask": batch["mask"]}, batch["label"]

    history = fit(
        ensemble,
        batches,
        loss=loss,
        optimizer=lambda p: torch.optim.Adam(p, 0.1),
        epochs=15,
        validation=batches,
        unpack=unpack,
        accumulate=accumulate,
        progress=False,
    )
    assert history["val_vote_accuracy"][-1] == 1.0
    inputs, labels = unpack(batches[0])
    with torch.no_grad():
        logits = ensemble(inputs)
    assert logits.shape == (3, 6, 7, 3)
    kept = labels != -100
    assert torch.equal(ensemble.rule(logits[:, kept]).argmax(-1), labels[kept])


def test_tokens_without_a_label_do_not_change_the_loss():
    torch.manual_seed(0)
    batches = token_batches(True)
    found = []
    for fill in (0, 3):
        torch.manual_seed(0)
        ensemble = Ensemble([Tokens() for _ in range(3)])
        other = [batch | {"ids": batch["ids"].masked_fill(batch["label"] == -100, fill)} for batch in batches]
        history = fit(
            ensemble,
            other,
            loss=CorrelationLoss(0.5),
            optimizer=lambda p: torch.optim.SGD(p, 0.0),
            epochs=1,
            unpack=lambda batch: ({"ids": batch["ids"], "mask": batch["mask"]}, batch["label"]),
            progress=False,
        )
        found.append(history["loss"][0])
    assert found[0] == pytest.approx(found[1], abs=1e-7)


def test_named_inputs_of_a_pooled_network_are_predicted():
    torch.manual_seed(0)
    ensemble = Ensemble([Tokens(sequences=False) for _ in range(3)])
    batches = token_batches(False)
    inputs = {"ids": batches[0]["ids"], "mask": batches[0]["mask"]}
    assert ensemble.predict(inputs).shape == (6,)


def test_batches_of_one_sample_are_no_collapse():
    x = torch.randn(12, 2)
    batches = list(zip(x.split(1), (x[:, 0] > 0).long().split(1), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(
            Ensemble([nn.Linear(2, 2), nn.Linear(2, 2)]),
            batches,
            loss=IndependentLoss(),
            optimizer=torch.optim.SGD,
            epochs=2,
            progress=False,
        )


def test_a_loss_of_correlations_refuses_batches_of_one_sample():
    x = torch.randn(12, 2)
    batches = list(zip(x.split(1), (x[:, 0] > 0).long().split(1), strict=True))
    message = r"`batches` must hold at least two samples with labels each for CorrelationLoss, .*; got none with two\."
    with pytest.raises(ValueError, match=message):
        fit(
            Ensemble([nn.Linear(2, 2), nn.Linear(2, 2)]),
            batches,
            loss=CorrelationLoss(0.5),
            optimizer=torch.optim.SGD,
            epochs=2,
            progress=False,
        )


def test_a_learner_that_is_there_twice_is_told_of():
    x, y = blobs()
    (learner,) = mlps(n=1).learners
    with pytest.warns(LearnerWarning, match=r"`ensemble` holds a learner more than once, .* copy\.deepcopy"):
        train(Ensemble([learner] * 3), batched(x, y), loss=DiversityLoss())


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_the_accuracy_of_one_learner_is_that_of_its_vote_with_any_targets(share):
    x, y = blobs()
    rows = nn.functional.one_hot(y, 3) * share + (1 - share) / 3
    history = train(
        mlps(n=1), batched(x, rows), validation=batched(x, rows), loss=DiversityLoss(0.0), epochs=15
    )
    for name in ("", "val_"):
        np.testing.assert_allclose(history[f"{name}learner_accuracy"], history[f"{name}vote_accuracy"])
    assert history["val_learner_accuracy"][-1] > 0.95


def test_an_input_that_is_not_a_number_is_not_blamed_on_the_learning_rate():
    x, y = blobs()
    x[3] = torch.nan
    with pytest.raises(FloatingPointError, match="If the inputs are finite, a lower learning rate"):
        train(mlps(), batched(x, y), loss=DiversityLoss())
