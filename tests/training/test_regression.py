"""Regression: the squared error with explicit diversity, the mean of numbers, and their measures in training."""

import io
import re

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn
from torch.autograd import gradcheck

from counterpoint.training import (
    DiversityLoss,
    Ensemble,
    Fold,
    Group,
    ProgressBar,
    Schedule,
    SquaredErrorLoss,
    Vote,
    fit,
    fit_groups,
    load_checkpoint,
    mlp,
)


def data(n=96, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=rng)
    return x, x[:, 0] * x[:, 1] + 0.5 * x[:, 2]


def new_ensemble(n_learners=4, n_outputs=1, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Ensemble([mlp([3, 12, n_outputs]) for _ in range(n_learners)], activation="regression")


def batches(size=32):
    x, y = data()
    return list(zip(x.split(size), y.split(size), strict=True))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.02)


@pytest.mark.parametrize("d", [0.0, 0.3, 1.0, None])
def test_the_loss_is_the_mean_error_less_d_times_the_ambiguity(d):
    outputs = torch.randn(5, 20, 2, dtype=torch.float64)
    target = torch.randn(20, 2, dtype=torch.float64)
    own = (outputs - target).square().mean()
    ambiguity = (outputs - outputs.mean(0)).square().mean()
    dial = 1 - 1 / 5 if d is None else d
    torch.testing.assert_close(SquaredErrorLoss(d)(outputs, target), own - dial * ambiguity)


def test_at_the_ends_it_is_torchs_squared_error_of_the_learners_and_of_their_mean():
    outputs, target = torch.randn(5, 20, 1), torch.randn(20)
    columns = target[:, None]
    torch.testing.assert_close(
        SquaredErrorLoss(0.0)(outputs, target), nn.functional.mse_loss(outputs, columns.expand(5, 20, 1))
    )
    torch.testing.assert_close(
        SquaredErrorLoss(1.0)(outputs, target), nn.functional.mse_loss(outputs.mean(0), columns)
    )


def test_its_gradients_are_those_of_differences():
    outputs = torch.randn(3, 6, 1, dtype=torch.float64, requires_grad=True)
    target, weight = torch.randn(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    assert gradcheck(lambda q: SquaredErrorLoss(0.7)(q, target, weight), outputs)


def test_a_sample_of_weight_two_counts_twice():
    outputs, target = torch.randn(3, 6, 1), torch.randn(6)
    twice = [0, 0, 1, 2, 3, 4]
    weight = torch.tensor([2.0, 1, 1, 1, 1, 0])
    found = SquaredErrorLoss(0.7)(outputs, target, weight)
    torch.testing.assert_close(found, SquaredErrorLoss(0.7)(outputs[:, twice], target[twice]))


@pytest.mark.parametrize("shape", [(5,), (6, 2), (1, 6)])
def test_targets_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"`target` must hold 6 numbers, or rows of 1"):
        SquaredErrorLoss()(torch.zeros(3, 6, 1), torch.zeros(shape))


def test_groups_have_their_own_dials():
    outputs, target = torch.randn(2, 3, 6, 1), torch.randn(2, 6)
    found = SquaredErrorLoss(torch.tensor([0.2, 0.9]))(outputs, target)
    alone = [SquaredErrorLoss(d)(q, y) for d, q, y in zip((0.2, 0.9), outputs, target, strict=True)]
    torch.testing.assert_close(found, torch.stack(alone))


def test_an_ensemble_of_numbers_predicts_their_weighted_mean():
    learners = [nn.Linear(2, 1) for _ in range(3)]
    ensemble = Ensemble(learners, activation="regression", weights=[1, 1, 2])
    x = torch.randn(7, 2)
    expected = (learners[0](x) + learners[1](x) + 2 * learners[2](x)) / 4
    torch.testing.assert_close(ensemble.predict(x), expected.detach())
    assert (ensemble.vote, ensemble.rule.kind) == ("mean", "mean")
    assert Vote("mean", "regression")(ensemble(x)).shape == (7, 1)


@pytest.mark.parametrize("method", ["predict_proba", "learner_proba", "vote_learners"])
def test_numbers_have_no_probabilities(method):
    with pytest.raises(ValueError, match=r"`activation` must be 'softmax' or 'identity' for probabilities"):
        getattr(new_ensemble(), method)(torch.zeros(2, 3))


def test_a_vote_of_labels_is_refused_for_numbers():
    with pytest.raises(ValueError, match=r"`voting` must be one of 'auto'; got 'soft'"):
        Ensemble([nn.Linear(2, 1)], activation="regression", voting="soft")


@pytest.mark.parametrize(
    ("loss", "activation"), [(SquaredErrorLoss(), "softmax"), (DiversityLoss(), "regression")]
)
def test_the_loss_and_the_ensemble_must_agree_that_it_is_regression(loss, activation):
    ensemble = Ensemble([mlp([3, 4, 1]) for _ in range(2)], activation=activation)
    with pytest.raises(ValueError, match="`activation` must be the same for the loss and the ensemble"):
        fit(ensemble, batches(), loss=loss, optimizer=adam, epochs=1, progress=False)


def test_training_lowers_the_error_and_records_it():
    ensemble = new_ensemble()
    history = fit(ensemble, batches(), loss=SquaredErrorLoss(), optimizer=adam, epochs=60, progress=False)
    assert history["squared_error"][-1] < 0.2 * history["squared_error"][0]
    assert history.columns == [
        "epoch", "loss", "r_tl", "r_ll", "squared_error", "learner_squared_error", "lr", "seconds"
    ]  # fmt: skip
    x, y = data()
    assert (ensemble.predict(x)[:, 0] - y).square().mean() < 0.3 * y.var()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_measures_of_a_validation_are_those_of_numpy(weighted):
    ensemble, (x, y) = new_ensemble(), data()
    weight = torch.linspace(0.5, 2, len(y)) if weighted else torch.ones(len(y))
    parts = (x, y, weight) if weighted else (x, y)
    history = fit(
        ensemble, [parts], loss=SquaredErrorLoss(0.5), optimizer=lambda p: torch.optim.SGD(p, lr=1e-12),
        epochs=1, validation=[parts], metric="squared_error", progress=False,
    )  # fmt: skip
    f, t, w = ensemble(x)[..., 0].detach().double().numpy(), y.double().numpy(), weight.double().numpy()
    record = history[0]
    assert record["val_squared_error"] == pytest.approx(np.average((f.mean(0) - t) ** 2, weights=w), rel=1e-4)
    assert record["val_learner_squared_error"] == pytest.approx(
        np.average(((f - t) ** 2).mean(0), weights=w), rel=1e-4
    )
    c = np.cov(np.vstack([f, t]), aweights=w)
    r = c / np.sqrt(np.outer(np.diag(c), np.diag(c)))
    assert record["val_r_tl"] == pytest.approx(r[-1, :-1].mean(), abs=1e-5)
    assert record["val_r_ll"] == pytest.approx(r[:-1, :-1][np.triu_indices(4, 1)].mean(), abs=1e-5)
    assert record["val_loss"] == pytest.approx(
        0.5 * (record["val_squared_error"] + record["val_learner_squared_error"]), rel=1e-5
    )


def test_the_best_epoch_is_that_of_the_least_squared_error():
    ensemble = new_ensemble()
    history = fit(
        ensemble, batches(), loss=SquaredErrorLoss(), optimizer=lambda p: torch.optim.SGD(p, lr=0.3), epochs=12,
        validation=batches(), metric="squared_error", progress=False,
    )  # fmt: skip
    assert history.best_epoch == 1 + int(history["val_squared_error"].argmin())
    x, y = data()
    kept = (ensemble.predict(x)[:, 0] - y).square().mean().item()
    assert kept == pytest.approx(history["val_squared_error"].min(), rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "activation", "metric"),
    [(SquaredErrorLoss(), "regression", "vote_accuracy"), (DiversityLoss(), "softmax", "squared_error")],
)
def test_a_metric_of_the_other_task_is_refused(loss, activation, metric):
    ensemble = Ensemble([mlp([3, 4, 1])], activation=activation)
    with pytest.raises(ValueError, match=f"`metric` must be one of .*; got '{metric}'"):
        fit(ensemble, batches(), loss=loss, optimizer=adam, epochs=1, validation=batches(), metric=metric)


def test_several_outputs_train_together():
    ensemble, (x, y) = new_ensemble(n_outputs=2), data()
    both = torch.stack([y, -y], 1)
    history = fit(ensemble, [(x, both)], loss=SquaredErrorLoss(), optimizer=adam, epochs=40, progress=False)
    assert history["squared_error"][-1] < 0.5 * history["squared_error"][0]
    assert ensemble.predict(x).shape == (96, 2)


def test_an_interrupted_run_continues_bit_for_bit(tmp_path):
    whole = new_ensemble()
    settings = {"loss": SquaredErrorLoss(), "optimizer": adam, "progress": False}
    fit(whole, batches(), epochs=4, **settings)
    path = tmp_path / "run.safetensors"
    fit(new_ensemble(), batches(), epochs=2, checkpoint=path, **settings)
    assert len(load_checkpoint(path)["history"]["epochs"]) == 2
    resumed = new_ensemble(seed=1)
    fit(resumed, batches(), epochs=4, checkpoint=path, resume=True, **settings)
    torch.testing.assert_close(resumed(data()[0]), whole(data()[0]), rtol=0, atol=0)


@pytest.mark.parametrize("warmup_epochs", [0, 2])
def test_groups_train_as_they_would_alone(warmup_epochs):
    x, y = data()
    networks = [mlp([3, 8, 1]) for _ in range(3)]
    folds = [Fold(x, y, None, networks, 1), Fold(x[:70], y[:70], None, networks, 2)]
    schedule = Schedule(epochs=5, n_batches=3, learning_rate=0.01)
    groups = [Group(fold, SquaredErrorLoss(d), warmup_epochs) for d in (0.0, 0.9) for fold in folds]
    together = fit_groups(groups, schedule)
    assert together.votes(x)[0].shape == (96, 1)
    for group, ensemble in zip(groups, together.ensembles(), strict=True):
        (alone,) = fit_groups([group], schedule).ensembles()
        torch.testing.assert_close(ensemble.predict(x), alone.predict(x), rtol=1e-3, atol=1e-4)
    if not warmup_epochs:
        first, last = together.ensembles()[0], together.ensembles()[2]
        assert not torch.allclose(first.predict(x), last.predict(x), atol=1e-3)  # the dial matters
    with pytest.raises(ValueError, match="probabilities"):
        together.proba(x)


def test_the_progress_bar_shows_the_squared_error():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    fit(
        new_ensemble(), batches(), loss=SquaredErrorLoss(), optimizer=adam, epochs=2, validation=batches(),
        metric="squared_error", callbacks=[ProgressBar(console)], progress=False,
    )  # fmt: skip
    assert re.search(r"squared error [\d.]+  validation [\d.]+", console.file.getvalue())
