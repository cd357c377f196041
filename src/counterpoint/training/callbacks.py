"""Callbacks of the training loop: warm-up of the diversity, gradient clipping, logs, the progress bar."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from counterpoint._extras import import_extra
from counterpoint._notebook import progress_bar
from counterpoint._validation import check_number, check_path, check_whole
from counterpoint.training.ensemble_loss import as_ensemble_loss
from counterpoint.training.history import History
from counterpoint.training.mesh import LOCAL, Axes
from counterpoint.training.regression_tally import make_tally
from counterpoint.training.sharding import as_whole

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Callback", "ClipGradients", "DiversityWarmup", "MLflow", "ProgressBar", "State", "TensorBoard"]


@dataclass
class State:
    """The state of a training run, which callbacks may read and change.

    Attributes
    ----------
    ensemble, loss, optimizer, scheduler
        The arguments of :func:`fit`, or the results of the callables that were given.
    epochs : int
        Number of epochs.
    history : History
        The epochs so far; at the end of an epoch, its record is the last.
    epoch, batch : int
        Numbers of the current epoch and batch, from 1.
    n_batches : int or None
        Batches in an epoch, if the data have a length.
    logits, target, sample_weight, batch_loss : Tensor
        Tensors of the last batch, detached, on their device.
    stop : bool
        Set to True to end training after this epoch, on one process or more.
    axes : Axes
        The mesh. Callbacks run on every process, with the samples and learners of that process; ``axes.is_main`` is
        true on one.

    Examples
    --------
    >>> class StopEarly(Callback):
    ...     def on_epoch_end(self, state):
    ...         state.stop = state.epoch == 10
    """

    ensemble: nn.Module
    loss: Callable[..., Tensor]
    optimizer: Optimizer
    scheduler: LRScheduler | None
    epochs: int
    history: History
    epoch: int = 0
    batch: int = 0
    n_batches: int | None = None
    logits: Tensor = field(init=False, repr=False)
    target: Tensor = field(init=False, repr=False)
    sample_weight: Tensor | None = field(init=False, repr=False)
    batch_loss: Tensor = field(init=False, repr=False)
    stop: bool = False
    axes: Axes = LOCAL


class Callback:
    """Base class of callbacks; the methods are called with the state of the run.

    A resumed run starts with new callbacks: if they depend only on ``state.epoch`` and ``state.history``, it equals an
    uninterrupted run.

    Examples
    --------
    >>> class StopWhenPerfect(Callback):
    ...     def on_epoch_end(self, state):
    ...         state.stop = state.history[-1]["vote_accuracy"] == 1.0
    """

    def on_train_begin(self, state: State) -> None:
        """Before the first epoch."""

    def on_epoch_begin(self, state: State) -> None:
        """Before each epoch."""

    def on_gradients(self, state: State) -> None:
        """Between the backward pass and the optimizer's step."""

    def on_batch_end(self, state: State) -> None:
        """After each training step."""

    def on_epoch_end(self, state: State) -> None:
        """After each epoch and its validation; its record is ``state.history[-1]`` and may be added to."""

    def on_train_end(self, state: State) -> None:
        """At the end, also after an error."""


def hooks(callbacks: Iterable[Any], name: str) -> list[Callable[[State], None]]:
    """Return the methods of this name that are overridden."""
    found = [(getattr(callback, name, None), getattr(Callback, name)) for callback in callbacks]
    return [hook for hook, idle in found if hook is not None and getattr(hook, "__func__", None) is not idle]


def call(hooks: Iterable[Callable[[State], None]], state: State) -> None:
    """Call hooks, one after the other."""
    for hook in hooks:
        hook(state)


class ClipGradients(Callback):
    """Clip the norm of the gradients.

    Parameters
    ----------
    max_norm : float
        Maximum Euclidean norm of all gradients together; infinity does not clip.

    Examples
    --------
    >>> clip = ClipGradients(1.0)
    """

    def __init__(self, max_norm: float) -> None:
        self.max_norm = check_number(max_norm, "max_norm", 0, finite=False)

    def on_gradients(self, state: State) -> None:
        """Clip the gradients."""
        parameters = [p for group in state.optimizer.param_groups for p in group["params"]]
        if state.axes.learners is None:
            nn.utils.clip_grad_norm_(parameters, self.max_norm)
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        own = as_whole(torch.stack([gradient.square().sum() for gradient in gradients]).sum())
        factor = self.max_norm / (state.axes.sum_learners(own.detach()).sqrt() + 1e-6)
        for gradient in gradients:
            gradient.mul_(factor.clamp(max=1.0))


class DiversityWarmup(Callback):
    """Increase the diversity of the loss linearly from 0 to its value.

    Parameters
    ----------
    epochs : int
        Number of epochs with a reduced diversity; it is 0 in the first.

    Notes
    -----
    The history records the dial in use, as ``diversity`` or as the paper's ``lam``. The loss on validation data changes
    with it: choose another metric than ``"loss"``.

    Examples
    --------
    >>> warmup = DiversityWarmup(epochs=10)
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = check_whole(epochs, "epochs", minimum=1)

    def on_train_begin(self, state: State) -> None:
        """Refuse a loss without a dial."""
        as_ensemble_loss(state.loss).set_progress(1.0)

    def on_epoch_begin(self, state: State) -> None:
        """Set the dial of the epoch."""
        as_ensemble_loss(state.loss).set_progress(min(1.0, (state.epoch - 1) / self.epochs))

    def on_epoch_end(self, state: State) -> None:
        """Record the dial, and restore it."""
        n_learners = state.axes.n_learners(state.logits.shape[-3])
        for name, value in as_ensemble_loss(state.loss).dial(n_learners).items():
            state.history[-1].setdefault(name, value)
        self.on_train_end(state)

    def on_train_end(self, state: State) -> None:
        """Restore the dial."""
        as_ensemble_loss(state.loss).set_progress(1.0)


class TensorBoard(Callback):
    """Write the history as TensorBoard events.

    Parameters
    ----------
    log_dir : path
        Folder of the events.

    Examples
    --------
    >>> board = TensorBoard("runs/first")  # nothing is written before training begins
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        import_extra("tensorboard", "tensorboard")
        self.log_dir = str(check_path(log_dir, "log_dir", kind="folder"))

    def on_train_begin(self, state: State) -> None:
        """Open the log, and purge what an interrupted run wrote after its checkpoint."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(self.log_dir, purge_step=state.epoch + 1) if state.axes.is_main else None

    def on_epoch_end(self, state: State) -> None:
        """Write the measures of the epoch, those of the validation data under ``validation/``."""
        if self._writer is None:
            return
        for tag, value in _tagged(state.history[-1]):
            self._writer.add_scalar(tag, value, state.epoch)
        self._writer.flush()

    def on_train_end(self, state: State) -> None:
        """Close the log."""
        if self._writer is not None:
            self._writer.close()


class MLflow(Callback):
    """Log the history as a run of MLflow.

    Parameters
    ----------
    experiment : str, default="Default"
        Name of the experiment; it is created if it does not exist.
    run_name : str, optional
        Name of the run; by default MLflow makes one up.
    run_id : str, optional
        The run to go on with, such as that of an interrupted training; by default a new one.
    tracking_uri : str, optional
        Where the runs are, such as ``"sqlite:///mlflow.db"`` or a server; by default where MLflow is set to.

    Attributes
    ----------
    run_id : str or None
        The run, known once training begins.

    Notes
    -----
    The parameters of the run are the loss and the number of epochs; its metrics are the measures of each epoch, those
    of validation data under ``validation/``. It ends as ``FAILED`` after an error and as ``KILLED`` after an interrupt.
    MLflow's own active run is neither read nor changed.

    Examples
    --------
    >>> log = MLflow("digits", run_name="ten networks")  # nothing is written before training begins
    """

    def __init__(
        self,
        experiment: str = "Default",
        *,
        run_name: str | None = None,
        run_id: str | None = None,
        tracking_uri: str | None = None,
    ) -> None:
        self.experiment = experiment
        self.run_name = run_name
        self.run_id = run_id
        self.tracking_uri = tracking_uri

    def on_train_begin(self, state: State) -> None:
        """Open the run, and write its parameters."""
        mlflow = import_extra("mlflow", "mlflow")
        self._client = mlflow.MlflowClient(self.tracking_uri) if state.axes.is_main else None
        if self._client is None:
            return
        if self.run_id is not None:
            self._client.update_run(self.run_id, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(self.experiment)
        number = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        self.run_id = self._client.create_run(number, run_name=self.run_name).info.run_id
        for name, value in (("loss", state.loss), ("epochs", state.epochs)):
            self._client.log_param(self.run_id, name, value)

    def on_epoch_end(self, state: State) -> None:
        """Write the measures of the epoch."""
        if self._client is None:
            return
        for tag, value in _tagged(state.history[-1]):
            self._client.log_metric(self.run_id, tag, value, step=state.epoch)

    def on_train_end(self, state: State) -> None:
        """Close the run, with how it ended."""
        if self._client is not None:
            error = sys.exc_info()[1]
            status = "FINISHED" if error is None else "FAILED" if isinstance(error, Exception) else "KILLED"
            self._client.set_terminated(self.run_id, status)


def _tagged(record: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the measures of an epoch under ``train/`` and ``validation/``."""
    for name, value in record.items():
        if name != "epoch":
            yield f"validation/{name[4:]}" if name.startswith("val_") else f"train/{name}", value


class ProgressBar(Callback):
    """Show the epoch, the loss, r_TL, r_LL, the accuracy of the vote and the time left on the terminal.

    Parameters
    ----------
    console : rich Console, optional
        By default the standard error stream; nothing is shown if it is not a terminal.

    Examples
    --------
    >>> bar = ProgressBar()
    """

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console

        self.console = Console(stderr=True) if console is None else console

    def on_train_begin(self, state: State) -> None:
        """Open the line."""
        from rich import progress

        self._bar = progress_bar(
            progress.TextColumn("epoch {task.fields[epoch]}/{task.total:.0f}"),
            progress.BarColumn(bar_width=20),
            progress.TextColumn("{task.fields[numbers]}"),
            progress.TimeRemainingColumn(compact=True),
            console=self.console,
            auto_refresh=False,
            disable=not (state.axes.is_main and (self.console.is_terminal or self.console.is_jupyter)),
        )
        self._task = self._bar.add_task(
            "", total=state.epochs, completed=state.epoch, epoch=state.epoch, numbers=""
        )
        self._bar.start()
        self._next = 0.0

    def on_batch_end(self, state: State) -> None:
        """Show the last batch, ten times a second at most."""
        # On a mesh this process has a part of the batch.
        if self._bar.disable or state.axes or (now := time.monotonic()) < self._next:
            return
        self._next = now + 0.1
        tally = make_tally(state.ensemble, state.loss)
        tally.add(state.logits, state.target, state.sample_weight, torch.nan_to_num(state.batch_loss))
        self._show(state, tally.means(), state.batch / state.n_batches if state.n_batches else 0.0)

    def on_epoch_end(self, state: State) -> None:
        """Show the epoch."""
        if not self._bar.disable:
            self._show(state, state.history[-1], 1.0)

    def on_train_end(self, state: State) -> None:
        """Close the line."""
        self._bar.stop()

    def _show(self, state: State, found: dict[str, float], share: float) -> None:
        text = f"loss {found['loss']:.3f}  r_TL {found['r_tl']:.3f}  r_LL {found['r_ll']:.3f}"
        name, form = ("vote_accuracy", ".1%") if "vote_accuracy" in found else ("squared_error", ".3g")
        text += f"  {'vote' if form == '.1%' else 'squared error'} {found[name]:{form}}"
        if f"val_{name}" in found:
            text += f"  validation {found[f'val_{name}']:{form}}"
        self._bar.update(self._task, completed=state.epoch - 1 + share, epoch=state.epoch, numbers=text)
        self._bar.refresh()
