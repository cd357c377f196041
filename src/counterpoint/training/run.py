"""One run of :func:`~counterpoint.training.fit`: its epochs, its steps and its best state."""

import math
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from counterpoint.exceptions import LearnerWarning
from counterpoint.training.accumulation import accumulate_gradients, joined_targets
from counterpoint.training.arguments import (
    Metric,
    check_loss,
    check_loss_value,
    check_patience,
    metric_name,
    steps_by_batch,
)
from counterpoint.training.batches import (
    Batches,
    begin_epoch,
    check_batches,
    check_learner_axis,
    find_generators,
    forward_batch,
    has_own_part,
    iter_on_device,
    n_batches,
    rows_of,
    voters_of,
)
from counterpoint.training.calibration import calibrate_on
from counterpoint.training.callbacks import State, call, hooks
from counterpoint.training.checkpoint import restore_rng_state, rng_state
from counterpoint.training.ensemble import Voters, voters_in
from counterpoint.training.ensemble_loss import as_ensemble_loss, value_on_mesh
from counterpoint.training.identity import run_identity
from counterpoint.training.modules import all_finite, copy_state, evaluating, unwrap
from counterpoint.training.parallel import (
    ParallelEnsemble,
)
from counterpoint.training.precision import autocast, gradients_enabled
from counterpoint.training.readout import Readout
from counterpoint.training.regression_tally import is_regression, make_tally
from counterpoint.training.tally import NotFiniteError, Tally
from counterpoint.training.threads import Threads, work_of
from counterpoint.training.watch import LearnerWatch

__all__ = ["Run"]

_LOST = re.compile(
    "(?i)connection (closed|reset|refused)|broken pipe|timed out|timeout"
)  # the words of torch
_Outputs = tuple[
    Tensor, Tensor, list[Tensor], Tensor
]  # logits, targets, weights if there are any, and the loss


@dataclass
class Run:
    """One call of :func:`~counterpoint.training.fit`: its parts and its steps."""

    state: State
    batches: Batches
    validation: Batches | None
    metric: Metric
    patience: int | None
    callbacks: tuple[Any, ...]
    precision: str
    scheduler_steps: str
    accumulate: int = 1
    unpack: Callable[[Any], Any] | None = None
    own_batches: bool = False  # whether each process of a mesh has been given batches of its own

    def __post_init__(self) -> None:
        state = self.state
        self.axes, self.bare = state.axes, unwrap(state.ensemble)
        check_batches(self.batches, self.validation)
        check_patience(self.patience, self.validation)
        self.by_batch = steps_by_batch(state.scheduler, self.scheduler_steps)
        self.device = next(state.ensemble.parameters()).device
        self.autocast, self.threads = autocast(self.precision, self.device), Threads(self.device)
        self.generators = find_generators(self.batches, self.validation)
        self.loss = as_ensemble_loss(state.loss)
        self.ignored: int | None = getattr(self.loss, "ignore_index", None)
        # The ensemble that votes; the first batch tells whether a module returns the outputs of one inside.
        self.voters: Voters | None = self.bare if isinstance(self.bare, Voters) else None
        self.settled = self.voters is not None
        guess = voters_in(self.bare)
        self.monitor = self.monitor_of(guess if guess is not None and self.trains(guess) else self.bare)
        whole = self.bare._whole[0] if isinstance(self.bare, ParallelEnsemble) else self.bare
        self.identity = run_identity(replace(state, ensemble=whole))
        self.identity |= {"metric": None if self.validation is None else self.monitor}
        self.on_gradients = hooks(self.callbacks, "on_gradients")
        self.on_batch_end = hooks(self.callbacks, "on_batch_end")
        self.last = copy_state(self.bare)  # after the last epoch
        self.best: dict[str, Any] = {}  # after the best epoch, if there is one
        self.watch = LearnerWatch()
        self.is_empty = False  # whether no row of the last batch has a label

    def trains(self, module: nn.Module) -> bool:
        """Return True if the optimizer holds a parameter of the module."""
        held = {id(p) for group in self.state.optimizer.param_groups for p in group["params"]}
        return any(id(p) in held for p in module.parameters())

    def monitor_of(self, module: nn.Module) -> str:
        """Return the name of the criterion in the history, if the outputs are those of the module."""
        regression = is_regression(module, self.loss)
        unused = self.validation is None and regression  # the default is of labels
        return f"val_{metric_name('loss' if unused else self.metric, regression=regression)}"

    @property
    def measured(self) -> nn.Module:
        """Whose vote is measured: that of the ensemble, also inside another module."""
        return self.state.ensemble if self.voters is None else self.voters

    def settle(self, parts: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Find out by the first batch whether a module returns the outputs of an ensemble; return all batches."""
        if self.settled or not (first := list(islice(parts, 1))):
            return parts
        before = rng_state(self.device, self.generators)
        with self.autocast:
            self.voters = voters_of(self.bare, first[0][0])
        restore_rng_state(before, self.device, self.generators)
        self.settled = True
        check_loss(self.state.loss, self.measured)
        self.monitor = self.monitor_of(self.measured)
        self.prepare_vote()
        return _after(first, parts)

    def calibrate(self, max_samples: int = 10_000) -> None:
        """Fit a read-out if the loss needs one."""
        if not self.loss.needs_readout or (self.settled and self.voters is None):
            return
        before = rng_state(self.device, self.generators)
        parts = self.settle(self.on_device(begin_epoch(self.batches, self.state.epoch), "batches"))
        if self.voters is not None:
            with self.autocast:
                calibrate_on(self.axes, self.bare, self.voters, parts, max_samples)
        restore_rng_state(before, self.device, self.generators)  # as if the batches had not been drawn

    def prepare_vote(self) -> None:
        """Drop the read-out of an earlier run, and adopt the vote that the loss trains, once the ensemble is known."""
        if not self.settled:
            return
        self.forget_readout()
        if self.voters is not None:
            self.voters.trained_by(self.loss)
        elif complaint := self.complain_of_vote():
            warnings.warn(complaint, LearnerWarning, stacklevel=6)  # at fit's call

    def complain_of_vote(self) -> str | None:
        """Return what to say if no ensemble has the outputs of the module."""
        name = type(self.bare).__name__
        if self.loss.needs_readout:
            return (
                f"`loss` needs a read-out, and {name} does not return the outputs of an Ensemble to give it to: its "
                "outputs rank samples, and their largest need not be the class."
            )
        if any(self.trains(part) for part in self.bare.modules() if isinstance(part, Voters)):
            return (
                f"{name} does not return the outputs of its Ensemble, whose vote therefore stays as it was."
            )
        return None

    def forget_readout(self) -> None:
        """Drop the read-out of the ensemble."""
        if self.voters is not None:
            self.voters.readout = None

    @property
    def readout(self) -> Readout | None:
        """The read-out of the ensemble: in a checkpoint, that of a finished run with the best weights, or the last."""
        return None if self.voters is None else self.voters.readout

    def is_finished(self) -> bool:
        """Return True if training is finished."""
        history = self.state.history
        waited = len(history) - (history.best_epoch or 0)
        impatient = self.patience is not None and waited >= self.patience
        return self.state.stop or impatient or len(history) >= self.state.epochs

    def begin_epoch(self) -> None:
        """Count the epoch and start its clock."""
        self.state.epoch += 1
        self.started = time.perf_counter()
        call(hooks(self.callbacks, "on_epoch_begin"), self.state)

    def train(self) -> dict[str, float]:
        """Train for an epoch and return its measures."""
        state = self.state
        batches = begin_epoch(self.batches, state.epoch)
        count = n_batches(batches)
        state.n_batches = None if count is None else -(-count // self.accumulate)
        lr = float(state.optimizer.param_groups[0]["lr"])
        # With small networks, measuring every batch would take a tenth of the time.
        every = min(max((state.n_batches or 0) // 8, 1), 4)
        parts = self.settle(self.on_device(batches, "batches"))
        tally = make_tally(self.measured, state.loss, every=every, first=state.epoch % every, axes=self.axes)
        with gradients_enabled(self.precision, self.device):
            largest = self.run_epoch(parts, self.train_step, "batches", tally)
        if self.loss.needs_readout and largest < 2:
            raise ValueError(
                f"`batches` must hold at least two samples with labels each for {type(self.loss).__name__}, which "
                "correlates over the samples of a batch; got none with two."
            )
        record = {"epoch": state.epoch, **tally.means(), "lr": lr}
        for complaint in self.watch.complaints(tally) if self.axes.is_main else ():
            warnings.warn(
                f"{complaint} (epoch {state.epoch}).", LearnerWarning, stacklevel=4
            )  # at fit's call
        return record

    def validate(self) -> dict[str, float]:
        """Return the measures of the validation data."""
        if self.validation is None:
            return {}
        if self.metric in ("vote_accuracy", "log_loss"):
            self.calibrate(max_samples=2_000)
        tally = make_tally(self.measured, self.state.loss, keep=callable(self.metric), axes=self.axes)
        self.forget_readout()  # it belongs to these weights alone
        try:
            with evaluating(self.state.ensemble):
                parts = self.on_device(begin_epoch(self.validation, self.state.epoch), "validation")
                self.run_epoch(parts, self.validation_step, "validation", tally)
            record = {f"val_{name}": value for name, value in tally.means().items()}
        except NotFiniteError as error:
            raise NotFiniteError(f"{error} of the validation") from None
        if callable(self.metric):
            metric, outputs = self.metric, tally.outputs()
            record[self.monitor] = self.axes.once(lambda: float(metric(*outputs)))
        return record

    def on_device(self, batches: Iterable[Any], name: str) -> Iterator[list[Any]]:
        """Yield the batches of an epoch on the device, of the argument with this name."""
        own = self.own_batches or has_own_part(self.batches if name == "batches" else self.validation)
        return iter_on_device(batches, self.device, name, self.axes, own=own, unpack=self.unpack)

    def run_epoch(
        self,
        batches: Iterator[list[Any]],
        step: Callable[[list[list[Any]]], _Outputs],
        name: str,
        tally: Tally,
    ) -> int:
        """Take a step with each batch and tally its outputs; return how many samples the largest batch had."""
        self.state.batch = 0
        for parts in _together(batches, self.accumulate if name == "batches" else 1):
            self.state.batch += 1
            if not self.threads.chosen:
                self.threads.choose(work_of(self.bare, parts[0][0]))
            self.axes.idle = self.axes.idle and len(parts) == 1  # else its weights tell
            logits, y, weight, loss = step(parts)
            tally.add(logits, y, weight[0] if weight else None, loss)
        if self.state.batch == 0:
            raise ValueError(f"`{name}` must yield at least one batch; got none in epoch {self.state.epoch}.")
        if not (largest := tally.largest(self.device)):
            raise ValueError(
                f"`{name}` must hold labels that are not to be ignored; got none in epoch {self.state.epoch}."
            )
        return largest

    def train_step(self, parts: list[list[Any]]) -> _Outputs:
        """Train on a batch, given in parts; return its logits and loss, detached."""
        state = self.state
        if len(parts) == 1:
            logits, y, weight, loss = self.forward(parts[0], "batches")
            _clear_gradients(state.optimizer)
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            _clear_gradients(state.optimizer)
            with self.autocast:
                logits, loss = accumulate_gradients(state.ensemble, self.value, parts)
                if state.epoch == state.batch == 1:
                    check_learner_axis(state.ensemble, parts[0][0], logits[:, : len(parts[0][1])])
            logits, y, weight = rows_of(logits, *joined_targets(parts), self.ignored)
        if self.is_empty:
            _clear_gradients(state.optimizer)  # which are zero: with them, momentum and decay would go on
        else:
            call(self.on_gradients, state)
        state.optimizer.step()
        if self.by_batch and state.scheduler is not None:
            state.scheduler.step()
        state.logits, state.batch_loss = logits.detach(), loss.detach()
        state.target, state.sample_weight = y, weight[0] if weight else None
        call(self.on_batch_end, state)
        return state.logits, y, weight, state.batch_loss

    def validation_step(self, parts: list[list[Any]]) -> _Outputs:
        """Return the logits and the loss of a batch."""
        return self.forward(parts[0], "validation")

    def forward(self, batch: list[Any], name: str) -> _Outputs:
        """Return the outputs, targets and weights of a batch, one row for each label, and the loss."""
        x, target, *given = batch
        with self.autocast:
            outputs = forward_batch(self.state.ensemble, x, name)
            if self.state.epoch == self.state.batch == 1:
                check_learner_axis(self.state.ensemble, x, outputs)
            logits, y, weight = rows_of(outputs, target, given, self.ignored)
            return logits, y, weight, self.loss_of_rows(outputs, logits, y, weight)

    def value(self, outputs: Tensor, target: Tensor, *given: Tensor) -> Tensor:
        """Return the loss of a batch, that of all processes of the mesh."""
        return self.loss_of_rows(outputs, *rows_of(outputs, target, given, self.ignored))

    def loss_of_rows(self, outputs: Any, logits: Any, y: Tensor, weight: list[Tensor]) -> Tensor:
        """Return the loss of the rows of a batch that have labels; 0 if there are none on any process.

        A process without rows takes part where others have some: it becomes idle, and a row without weight stands in.
        """
        self.is_empty = False
        if self.may_drop_rows(outputs):
            self.is_empty = not self.has_rows(0 if self.axes.idle else len(y))
            if self.is_empty:
                return cast(Tensor, logits.sum() * 0)
            if not len(y):
                self.axes.idle = True
                logits, y, weight = outputs.flatten(1, -2)[:, :1], y.new_zeros(1), [logits.new_zeros(1)]
        loss = value_on_mesh(self.loss) if self.axes else self.loss
        found = loss(logits, y, *weight)
        check_loss_value(found, self.state.loss)
        return found

    def may_drop_rows(self, outputs: Any) -> bool:
        """Return True if rows may be left out by their label, as far as outputs tell: it is so on all processes."""
        return self.ignored is not None or (isinstance(outputs, Tensor) and outputs.dim() == 4)

    def has_rows(self, own: int) -> bool:
        """Return True if a process has rows, given the number of this one."""
        if self.axes.data is None:
            return own > 0
        return bool(self.axes.sum_data(torch.tensor(own, device=self.device)))

    def end_epoch(self, record: dict[str, float]) -> None:
        """Record the epoch, keep its weights and step the scheduler."""
        state, history = self.state, self.state.history
        if self.axes.any(not all_finite(self.bare)):
            raise NotFiniteError("the weights must stay finite; got NaN or infinity after the last batch")
        self.last = copy_state(self.bare)
        record = self.axes.same({**record, "seconds": time.perf_counter() - self.started})  # for one decision
        history.append(record)
        if self.validation is not None and self.is_best(record[self.monitor]):
            self.best, history.best_epoch = self.last, state.epoch
        if state.scheduler is not None and not self.by_batch:
            _step_scheduler(state.scheduler, record)
        call(hooks(self.callbacks, "on_epoch_end"), state)
        state.stop = self.axes.any(state.stop)

    def is_best(self, value: float) -> bool:
        """Return True if a value of the metric beats the best so far; NaN does not."""
        history, sign = self.state.history, -1 if self.metric in ("log_loss", "loss", "squared_error") else 1
        best = history[history.best_epoch - 1][self.monitor] if history.best_epoch else -sign * math.inf
        return bool(sign * value > sign * best)

    @contextmanager
    def naming_lost_processes(self) -> Iterator[None]:
        """Say in one sentence that another process of the mesh has ended or does not answer."""
        try:
            yield
        except RuntimeError as error:
            if not self.axes or not _LOST.search(str(error)):
                raise
            raise ConnectionError(
                f"a process of the mesh has ended or does not answer, in epoch {self.state.epoch}. With `checkpoint` "
                "and `resume=True`, `torchrun --max-restarts` continues from the last epoch."
            ) from error

    @contextmanager
    def restoring_if_not_finite(self) -> Iterator[None]:
        """Restore the ensemble to its last finite state if the loss or a weight is not finite."""
        try:
            yield
        except NotFiniteError as error:
            self.bare.load_state_dict(self.last)
            epoch = self.state.epoch
            raise FloatingPointError(
                f"{error} of epoch {epoch}. The ensemble is back to its weights after epoch {epoch - 1}. If the inputs "
                "are finite, a lower learning rate or ClipGradients may help."
            ) from None

    def keep_best(self) -> None:
        """Return to the weights of the best epoch, if there is one."""
        if self.best:
            self.bare.load_state_dict(self.best)


def _after(first: list[Any], parts: Iterator[Any]) -> Iterator[Any]:
    """Yield what was taken from the front of an iterator, without keeping it, and then the rest."""
    yield first.pop()
    yield from parts


def _together(parts: Iterable[list[Any]], size: int) -> Iterator[list[list[Any]]]:
    """Yield so many parts at a time."""
    iterator = iter(parts)
    while held := list(islice(iterator, size)):
        yield held


def _clear_gradients(optimizer: Optimizer) -> None:
    """Do what ``zero_grad`` does, without its profiler hook, which takes as long as a layer of small networks."""
    if getattr(optimizer.zero_grad, "__func__", None) is not Optimizer.zero_grad:  # it may do more
        optimizer.zero_grad()
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _step_scheduler(scheduler: LRScheduler, record: Mapping[str, float]) -> None:
    """Step a scheduler after an epoch; ReduceLROnPlateau takes the loss, of the validation data if there are any."""
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(record.get("val_loss", record["loss"]))
    else:
        scheduler.step()
