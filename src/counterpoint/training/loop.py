"""One visible loop that trains an ensemble."""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from counterpoint._validation import check_flag, check_whole
from counterpoint.exceptions import LearnerWarning
from counterpoint.training.calibration import calibrate
from counterpoint.training.callbacks import ProgressBar, State, call, hooks
from counterpoint.training.checkpoint import (
    load_checkpoint,
    random_state,
    restore_random_state,
    save_checkpoint,
)
from counterpoint.training.ensemble import Voters, evaluating
from counterpoint.training.history import History
from counterpoint.training.preparation import (
    Batches,
    Metric,
    all_finite,
    autocast,
    check_batches,
    check_callbacks,
    check_checkpoint,
    check_identity,
    check_loss,
    check_optimizer,
    check_patience,
    check_value,
    forget_gradients,
    generators,
    identity,
    learning,
    length,
    made,
    metric_name,
    outputs_of,
    parameters_to_train,
    placed,
    step_after_epoch,
    steps_by_batch,
    weights,
)
from counterpoint.training.tally import NotFiniteError, Tally
from counterpoint.training.unwrapping import unwrapped
from counterpoint.training.watch import LearnerWatch

__all__ = ["fit"]


def fit(
    ensemble: nn.Module,
    batches: Batches,
    *,
    loss: Callable[..., Tensor],
    optimizer: Optimizer | Callable[[Iterable[nn.Parameter]], Optimizer],
    epochs: int,
    scheduler: LRScheduler | Callable[[Optimizer], LRScheduler] | None = None,
    validation: Batches | None = None,
    metric: Metric = "vote_accuracy",
    patience: int | None = None,
    callbacks: Sequence[Any] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    precision: str = "auto",
    progress: bool = True,
    scheduler_steps: str = "auto",
) -> History:
    """Train an ensemble, keep its best state and tell what happened.

    Parameters
    ----------
    ensemble : Module
        An :class:`Ensemble` or a :class:`SharedTrunk`, also one that ``torch.compile`` or ``DistributedDataParallel``
        has wrapped, or any module that puts out ``(n_learners, batch, n_classes)``. It is trained in place, where it
        is, in training mode.
    batches : iterable, or callable
        Batches ``(x, y)`` or ``(x, y, sample_weight)``: a ``DataLoader``, a list of batches, or a callable that takes
        the number of the epoch, from 1, and returns an iterable. ``x`` may be a list with one view for each learner.
        Either all batches have weights or none has.
    loss : callable
        ``loss(logits, y)``, or ``loss(logits, y, sample_weight)`` where there are weights.
    optimizer : Optimizer, or callable
        One on the ensemble's parameters, or what makes one of them, such as ``torch.optim.Adam``.
    epochs : int
        How many to train, those of an interrupted run included.
    scheduler : LRScheduler, or callable, optional
        One on the optimizer, or what makes one of it.
    validation : iterable, or callable, optional
        Batches to choose the best epoch by. The ensemble ends with the weights of that epoch.
    metric : {"vote_accuracy", "log_loss", "loss"} or callable, default="vote_accuracy"
        What is best on the validation data: the accuracy of the vote, the log-loss of its probabilities, or the loss;
        a callable takes all logits ``(n_learners, n_samples, n_classes)`` and the targets, and more is better.
    patience : int, optional
        Stop after so many epochs without a better one.
    callbacks : sequence of Callback, default=()
        Hooks into the loop.
    checkpoint : path, optional
        File that is rewritten atomically at the start and after every epoch. It must not exist unless ``resume`` is
        true.
    resume : bool, default=False
        Continue from the checkpoint if it exists.
    precision : {"auto", "float32", "bf16"}, default="auto"
        ``"bf16"`` runs the networks under autocast to bfloat16, as ``"auto"`` does on CUDA; ``"float32"`` under none.
    progress : bool, default=True
        Show a progress bar if there is a terminal.
    scheduler_steps : {"auto", "epoch", "batch"}, default="auto"
        When the scheduler steps; ``"auto"`` means after each batch for ``OneCycleLR`` and ``CyclicLR``, which count
        batches, and after each epoch for others. ``ReduceLROnPlateau`` gets the epoch's loss, of validation if any.

    Returns
    -------
    History
        What was measured in each epoch.

    Raises
    ------
    FileExistsError
        If ``checkpoint`` exists and ``resume`` is False.
    FloatingPointError
        If the loss or a weight becomes NaN or infinite. The ensemble is put back to its last finite state, which is
        also that of the checkpoint.

    Warns
    -----
    LearnerWarning
        Once for each learner that is constant over an epoch, or whose correlation with the truth over an epoch is
        negative, though it was positive before, or still after five epochs.

    Notes
    -----
    An ensemble whose ``voting`` is ``"auto"`` takes over the vote that the loss trains: geometric after a
    :class:`DiversityLoss`, soft after an :class:`IndependentLoss`.

    A correlation is blind to the scale and offset of a column. If a :class:`CorrelationLoss` has left them open, an
    :class:`Ensemble` is calibrated on the training batches at the end, and on some of them before each validation by
    a measure of the vote; what is measured of the vote on the way in training is of the raw outputs and may look poor.

    Dropout and shuffling draw from torch's global generator, which is left for the user to seed; only resuming sets it,
    along with those of NumPy and Python and of the ``DataLoader``, to what they were. A run that was killed and resumes
    ends with the same weights, bit by bit on the CPU. A finished run that is asked to resume returns its history.

    Examples
    --------
    >>> import torch
    >>> from counterpoint.training import DiversityLoss, Ensemble
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(128, 2)
    >>> y = (x[:, 0] * x[:, 1] > 0).long()
    >>> learners = [nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)) for _ in range(5)]
    >>> history = fit(
    ...     Ensemble(learners),
    ...     list(zip(x.split(32), y.split(32))),
    ...     loss=DiversityLoss(),
    ...     optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.03),
    ...     epochs=10,
    ... )
    >>> bool(history["log_loss"][-1] < 0.5 < history["log_loss"][0])
    True
    """
    trained = parameters_to_train(ensemble)
    check_loss(loss, ensemble)
    resumes = check_checkpoint(checkpoint, resume)
    optimizer = made(optimizer, Optimizer, "optimizer", trained)
    check_optimizer(optimizer, ensemble, loss)
    schedule = None if scheduler is None else made(scheduler, LRScheduler, "scheduler", optimizer)
    epochs = check_whole(epochs, "epochs", minimum=1)
    state = State(ensemble, loss, optimizer, schedule, epochs, History())
    everybody = check_callbacks(callbacks) + ((ProgressBar(),) if check_flag(progress, "progress") else ())
    run = _Run(state, batches, validation, metric, patience, everybody, precision, scheduler_steps)
    saved = run.load(checkpoint) if checkpoint is not None and resumes else None
    run.prepare_vote()

    ensemble.train()
    with ExitStack() as ending:
        for callback in everybody:
            call(hooks([callback], "on_train_begin"), state)
            for hook in hooks([callback], "on_train_end"):
                ending.callback(hook, state)
        if saved is not None:
            restore_random_state(saved["random"], run.device, run.generators)
        else:
            run.save(checkpoint)
        while not run.is_over():
            with run.back_to_the_last_epoch_if_not_finite():
                run.begin_epoch()
                record = run.train()
                record |= run.validate()
                run.end_epoch(record)
            run.save(checkpoint)
        if run.best:
            ensemble.load_state_dict(run.best)
    run.read_out()
    return state.history


@dataclass
class _Run:
    """The parts of one call of :func:`fit`."""

    state: State
    batches: Batches
    validation: Batches | None
    metric: Metric
    patience: int | None
    callbacks: tuple[Any, ...]
    precision: str
    scheduler_steps: str

    def __post_init__(self) -> None:
        state = self.state
        check_batches(self.batches, self.validation)
        check_patience(self.patience, self.validation)
        self.by_batch = steps_by_batch(state.scheduler, self.scheduler_steps)
        self.device = next(state.ensemble.parameters()).device
        self.autocast = autocast(self.precision, self.device)
        self.monitor = f"val_{metric_name(self.metric)}"
        self.generators = generators(self.batches)
        self.identity = identity(state) | {"metric": None if self.validation is None else self.monitor}
        self.on_gradients = hooks(self.callbacks, "on_gradients")
        self.on_batch_end = hooks(self.callbacks, "on_batch_end")
        self.last = weights(state.ensemble)  # after the last epoch
        self.best: dict[str, Any] = {}  # after the best epoch, if there is one
        self.watch = LearnerWatch()

    def read_out(self, max_samples: int = 10_000) -> None:
        """Fit probabilities to what the learners put out, where the loss has not done so."""
        ensemble = unwrapped(self.state.ensemble)
        if isinstance(ensemble, Voters) and getattr(self.state.loss, "needs_readout", False):
            before = random_state(self.device, self.generators)
            batches = self.batches(self.state.epoch) if callable(self.batches) else self.batches
            with self.autocast:
                calibrate(ensemble, batches, max_samples=max_samples, decode=True)
            restore_random_state(before, self.device, self.generators)  # as if the batches had not been drawn

    def prepare_vote(self) -> None:
        """Drop the read-out of an earlier training, and take over the vote that the loss trains."""
        self.forget_readout()
        if isinstance(ensemble := unwrapped(self.state.ensemble), Voters):
            ensemble.trained_by(self.state.loss)

    def forget_readout(self) -> None:
        if isinstance(ensemble := unwrapped(self.state.ensemble), Voters):
            ensemble.readout = None

    def is_over(self) -> bool:
        """Return True if training is finished."""
        history = self.state.history
        waited = len(history) - (history.best_epoch or 0)
        impatient = self.patience is not None and waited >= self.patience
        return self.state.stop or impatient or len(history) >= self.state.epochs

    def begin_epoch(self) -> None:
        self.state.epoch += 1
        self.started = time.perf_counter()
        call(hooks(self.callbacks, "on_epoch_begin"), self.state)

    def train(self) -> dict[str, float]:
        """Train for an epoch and return what was measured on the way."""
        state = self.state
        batches = self.batches(state.epoch) if callable(self.batches) else self.batches
        state.n_batches, lr = length(batches), float(state.optimizer.param_groups[0]["lr"])
        # With small nets measuring every batch would cost as much as a tenth of the training.
        every = min(max((state.n_batches or 0) // 8, 1), 4)
        tally = Tally(state.ensemble, state.loss, every=every, first=state.epoch % every)
        with learning(self.precision, self.device):
            self.go_through(batches, self.train_step, "batches", tally)
        record = {"epoch": state.epoch, **tally.means(), "lr": lr}
        for complaint in self.watch.complaints(tally):
            warnings.warn(
                f"{complaint} (epoch {state.epoch}).", LearnerWarning, stacklevel=3
            )  # at fit's call
        return record

    def validate(self) -> dict[str, float]:
        """Return what was measured on the validation data, from which nothing is learned."""
        if self.validation is None:
            return {}
        if self.metric in ("vote_accuracy", "log_loss"):
            self.read_out(max_samples=2_000)
        tally = Tally(self.state.ensemble, self.state.loss, keep=callable(self.metric))
        self.forget_readout()  # it belongs to these weights alone
        try:
            with evaluating(self.state.ensemble):
                batches = self.validation(self.state.epoch) if callable(self.validation) else self.validation
                self.go_through(batches, self.validation_step, "validation", tally)
            record = {f"val_{name}": value for name, value in tally.means().items()}
        except NotFiniteError as error:
            raise NotFiniteError(f"{error} of the validation") from None
        if callable(self.metric):
            record[self.monitor] = float(self.metric(*tally.outputs()))
        return record

    def go_through(
        self, batches: Iterable[Any], step: Callable[..., tuple[Tensor, Tensor]], name: str, tally: Tally
    ) -> None:
        """Take a step with each batch and tally the outcome."""
        self.state.batch = 0
        for x, y, *weight in placed(batches, self.device, name):
            self.state.batch += 1
            logits, loss = step(x, y, *weight)
            tally.add(logits, y, weight[0] if weight else None, loss)
        if self.state.batch == 0:
            raise ValueError(f"`{name}` must give at least one batch; got none in epoch {self.state.epoch}.")

    def train_step(self, x: Any, y: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        state = self.state
        with self.autocast:
            logits = outputs_of(state.ensemble, x, "batches")
            loss = state.loss(logits, y, *weight)
        check_value(loss, state.loss)
        forget_gradients(state.optimizer)
        loss.backward()  # type: ignore[no-untyped-call]
        call(self.on_gradients, state)
        state.optimizer.step()
        if self.by_batch and state.scheduler is not None:
            state.scheduler.step()
        state.logits, state.batch_loss = logits.detach(), loss.detach()
        state.target, state.sample_weight = y, weight[0] if weight else None
        call(self.on_batch_end, state)
        return state.logits, state.batch_loss

    def validation_step(self, x: Any, y: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        with self.autocast:
            logits = outputs_of(self.state.ensemble, x, "validation")
            return logits, self.state.loss(logits, y, *weight)

    def end_epoch(self, record: dict[str, float]) -> None:
        """Put the epoch on record, keep its weights and step the scheduler."""
        state, history = self.state, self.state.history
        if not all_finite(state.ensemble):
            raise NotFiniteError("the weights must stay finite; got NaN or infinity after the last batch")
        self.last = weights(state.ensemble)
        history.append({**record, "seconds": time.perf_counter() - self.started})
        if self.validation is not None and self.is_best(record[self.monitor]):
            self.best, history.best_epoch = self.last, state.epoch
        if state.scheduler is not None and not self.by_batch:
            step_after_epoch(state.scheduler, record)
        call(hooks(self.callbacks, "on_epoch_end"), state)

    def is_best(self, value: float) -> bool:
        """Tell whether a value of the metric beats the best so far; NaN does not."""
        history, sign = self.state.history, -1 if self.metric in ("log_loss", "loss") else 1
        best = history[history.best_epoch - 1][self.monitor] if history.best_epoch else -sign * math.inf
        return bool(sign * value > sign * best)

    @contextmanager
    def back_to_the_last_epoch_if_not_finite(self) -> Iterator[None]:
        try:
            yield
        except NotFiniteError as error:
            self.state.ensemble.load_state_dict(self.last)
            epoch = self.state.epoch
            raise FloatingPointError(
                f"{error} of epoch {epoch}. The ensemble is back to its weights after epoch {epoch - 1}; a lower "
                "learning rate or ClipGradients may help."
            ) from None

    def save(self, path: str | os.PathLike[str] | None) -> None:
        """Write a checkpoint from which the run goes on as if nothing had happened."""
        if path is None:
            return
        state = self.state
        saved = {
            "identity": self.identity,
            "ensemble": state.ensemble.state_dict(),
            "best": self.best,
            "loss": state.loss.state_dict() if isinstance(state.loss, nn.Module) else {},
            "optimizer": state.optimizer.state_dict(),
            "scheduler": None if state.scheduler is None else state.scheduler.state_dict(),
            "history": state.history.to_dict(),
            "watch": self.watch.state(),
            "stop": state.stop,
            "random": random_state(self.device, self.generators),
        }
        save_checkpoint(path, saved)

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Take up a run where its checkpoint left it, but for the random state."""
        state, saved = self.state, load_checkpoint(path)
        check_identity(saved, self.identity, path)
        state.ensemble.load_state_dict(saved["ensemble"])
        if isinstance(state.loss, nn.Module):
            state.loss.load_state_dict(saved["loss"])
        state.optimizer.load_state_dict(saved["optimizer"])
        if state.scheduler is not None:
            state.scheduler.load_state_dict(saved["scheduler"])
        state.history = History.from_dict(saved["history"])
        state.epoch, state.stop = len(state.history), saved["stop"]
        self.watch.restore(saved["watch"])
        self.last, self.best = weights(state.ensemble), saved["best"]
        return saved
