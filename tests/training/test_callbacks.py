"""Callbacks are called in their order and put back what they change."""

import io
import sys
import warnings

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from counterpoint.training import (
    Callback,
    ClipGradients,
    CorrelationLoss,
    DiversityLoss,
    DiversityWarmup,
    Ensemble,
    MLflow,
    NegativeCorrelationLoss,
    ProgressBar,
    TensorBoard,
    fit,
)


def train(callbacks=(), *, loss=None, epochs=3, lr=0.01, n_batches=2, **options):
    torch.manual_seed(0)
    x = torch.randn(20 * n_batches, 3)
    y = (x[:, 0] > 0).long()
    return fit(
        Ensemble([nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(3)]),
        list(zip(x.split(20), y.split(20), strict=True)),
        loss=loss or CorrelationLoss(0.5),
        optimizer=lambda p: torch.optim.Adam(p, lr=lr),
        epochs=epochs,
        callbacks=callbacks,
        progress=False,
        **options,
    )


class Diary(Callback):
    def __init__(self, name=""):
        self.pages = []
        for hook in ("train_begin", "epoch_begin", "gradients", "batch_end", "epoch_end", "train_end"):
            setattr(
                self,
                f"on_{hook}",
                lambda state, hook=hook: self.pages.append(f"{hook} {state.epoch}.{state.batch}"),
            )


def test_the_hooks_are_called_in_order():
    diary = Diary()
    train([diary], epochs=2)
    epoch = [
        "epoch_begin {0}.{1}",
        "gradients {0}.1",
        "batch_end {0}.1",
        "gradients {0}.2",
        "batch_end {0}.2",
        "epoch_end {0}.2",
    ]
    expected = ["train_begin 0.0"]
    expected += [line.format(1, 0) for line in epoch] + [line.format(2, 2) for line in epoch]
    assert diary.pages == [*expected, "train_end 2.2"]


def test_a_callback_needs_only_the_hooks_it_wants():
    class Bare:
        def on_epoch_end(self, state):
            state.history[-1]["double"] = 2 * state.epoch

    np.testing.assert_array_equal(train([Bare()])["double"], [2, 4, 6])


def test_a_callback_sees_the_last_batch():
    class Look(Callback):
        def on_batch_end(self, state):
            assert state.logits.shape == (3, 20, 2)
            assert not state.logits.requires_grad
            assert state.target.shape == (20,)
            assert state.sample_weight is None
            assert state.batch_loss.shape == ()
            assert (state.batch, state.n_batches) in [(1, 2), (2, 2)]

    train([Look()])


def test_a_callback_can_stop_the_training_also_of_the_run_that_resumes(tmp_path):
    class Stop(Callback):
        def on_epoch_end(self, state):
            state.stop = state.epoch == 2

    assert len(train([Stop()], epochs=9, checkpoint=tmp_path / "run")) == 2
    assert len(train(epochs=9, checkpoint=tmp_path / "run", resume=True)) == 2


def test_the_end_is_called_after_an_error_for_those_that_began():
    class Fail(Callback):
        def on_train_begin(self, state):
            raise RuntimeError("no")

    first, last = Diary(), Diary()
    with pytest.raises(RuntimeError, match="no"):
        train([first, Fail(), last])
    assert first.pages == ["train_begin 0.0", "train_end 0.0"]
    assert last.pages == []


def test_gradients_are_clipped_to_the_norm():
    norms = []

    class Measure(Callback):
        def on_gradients(self, state):
            gradients = [p.grad.flatten() for p in state.ensemble.parameters()]
            norms.append(float(torch.cat(gradients).norm()))

    train([Measure(), ClipGradients(0.01), Measure()])
    before, after = norms[::2], norms[1::2]
    assert min(before) > 0.01
    np.testing.assert_allclose(after, 0.01, rtol=1e-3)


def test_the_warm_up_grows_linearly_and_leaves_the_dial_as_it_was():
    loss = CorrelationLoss(0.8)
    history = train([DiversityWarmup(4)], loss=loss, epochs=6)
    np.testing.assert_allclose(history["diversity"], [0, 0.2, 0.4, 0.6, 0.8, 0.8])
    assert loss.diversity == 0.8


@pytest.mark.parametrize(
    ("loss", "name"), [(CorrelationLoss(lam=0.4), "lam"), (NegativeCorrelationLoss(0.4), "diversity")]
)
def test_the_warm_up_turns_the_dial_that_the_loss_has(loss, name):
    history = train([DiversityWarmup(1)], loss=loss, epochs=2)
    np.testing.assert_allclose(history[name], [0, 0.4])


def test_the_dial_is_put_back_after_an_error():
    class Fail(Callback):
        def on_batch_end(self, state):
            raise RuntimeError("no")

    loss = CorrelationLoss(0.8)
    with pytest.raises(RuntimeError, match="no"):
        train([DiversityWarmup(4), Fail()], loss=loss)
    assert loss.diversity == 0.8


def test_a_loss_without_a_diversity_is_refused():
    with pytest.raises(ValueError, match=r"`loss` must have a diversity, to be warmed up; got"):
        train([DiversityWarmup(4)], loss=lambda logits, y: logits.square().mean())


def test_the_default_diversity_can_be_warmed_up():
    loss = DiversityLoss()
    history = train([DiversityWarmup(2)], loss=loss, epochs=3)
    np.testing.assert_allclose(history["diversity"], [0, 1 / 3, 2 / 3])
    assert loss.diversity is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClipGradients(-1), "`max_norm` must be at least 0; got -1"),
        (lambda: ClipGradients(np.nan), "`max_norm` must not be NaN"),
        (lambda: TensorBoard(""), "`log_dir` must be the path of a folder; got ''"),
        (lambda: DiversityWarmup(0), "`epochs` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_infinite_norm_clips_nothing():
    plain, clipped = train([]), train([ClipGradients(np.inf)])
    assert clipped["loss"].tolist() == plain["loss"].tolist()


def test_the_folder_of_tensorboard_is_a_path():
    with pytest.raises(TypeError, match="`log_dir` must be the path of a folder; got 5"):
        TensorBoard(5)


@pytest.mark.parametrize("make", [ClipGradients, DiversityWarmup])
def test_a_setting_is_one_number(make):
    with pytest.raises(TypeError, match=r"must be (an integer|one number); got \[0.5\]"):
        make([0.5])


def test_tensorboard_holds_the_history(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = train([TensorBoard(tmp_path)], validation=[(torch.randn(9, 3), torch.arange(9) % 2)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    for tag, column in [("train/r_tl", "r_tl"), ("validation/vote_accuracy", "val_vote_accuracy")]:
        scalars = events.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [1, 2, 3]
        np.testing.assert_allclose([scalar.value for scalar in scalars], history[column], rtol=1e-6)


def test_missing_tensorboard_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"counterpoint\[tensorboard\]"):
        TensorBoard("runs")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Return a client of a folder of runs; new versions of MLflow open one only when asked to."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow and its dependencies
        yield mlflow.MlflowClient((tmp_path / "runs").as_uri())


def test_mlflow_holds_the_history_and_goes_on_with_a_run(runs):
    log = MLflow("small", run_name="first", tracking_uri=runs.tracking_uri)
    validation = [(torch.randn(9, 3), torch.arange(9) % 2)]
    history = train([log], validation=validation)
    run = runs.get_run(log.run_id)
    assert run.info.run_name == "first"
    assert run.info.status == "FINISHED"
    assert run.data.params == {"loss": str(CorrelationLoss(0.5)), "epochs": "3"}
    for tag, column in [("train/r_tl", "r_tl"), ("validation/vote_accuracy", "val_vote_accuracy")]:
        metrics = runs.get_metric_history(log.run_id, tag)
        assert [metric.step for metric in metrics] == [1, 2, 3]
        np.testing.assert_allclose([metric.value for metric in metrics], history[column])
    train([MLflow("small", run_id=log.run_id, tracking_uri=runs.tracking_uri)], epochs=1)
    assert len(runs.get_metric_history(log.run_id, "train/r_tl")) == 4
    assert len(runs.search_runs([run.info.experiment_id])) == 1


@pytest.mark.parametrize(("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_mlflow_is_told_how_a_run_ended(error, status, runs):
    class Failing(Callback):
        def on_epoch_end(self, state):
            raise error

    log = MLflow(tracking_uri=runs.tracking_uri)
    with pytest.raises(error):
        train([log, Failing()])
    assert runs.get_run(log.run_id).info.status == status


def test_missing_mlflow_is_named_with_its_extra_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    diary = Diary()
    with pytest.raises(ImportError, match=r"counterpoint\[mlflow\]"):
        train([MLflow(), diary])
    assert diary.pages == []


def test_the_progress_bar_shows_the_numbers_on_a_terminal():
    screen = io.StringIO()
    history = train([ProgressBar(Console(file=screen, force_terminal=True, width=120))], epochs=2)
    text = screen.getvalue()
    assert "epoch 2/2" in text
    assert f"r_TL {history['r_tl'][-1]:.3f}  r_LL {history['r_ll'][-1]:.3f}" in text
    assert f"vote {history['vote_accuracy'][-1]:.1%}" in text


def test_the_progress_bar_refreshes_ten_times_a_second_at_most(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        "counterpoint.training.callbacks.time.monotonic", lambda: now.__setitem__(0, now[0] + 0.03) or now[0]
    )
    shown = []
    bar = ProgressBar(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setattr(bar, "_show", lambda state, found, share: shown.append((state.batch, share)))
    train([bar], epochs=1, n_batches=10)
    assert shown == [(1, 0.1), (5, 0.5), (9, 0.9), (10, 1.0)]


def test_there_is_no_progress_bar_where_there_is_no_terminal():
    screen = io.StringIO()
    train([ProgressBar(Console(file=screen))], epochs=2)
    assert screen.getvalue().strip() == ""
