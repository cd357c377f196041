"""Checks of the arguments of :func:`~counterpoint.training.fit`."""

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from counterpoint._validation import check_choice, check_flag, check_path, check_whole
from counterpoint.exceptions import LearnerWarning
from counterpoint.training.callbacks import Callback
from counterpoint.training.ensemble import Ensemble, Voters
from counterpoint.training.ensemble_loss import EnsembleLoss, as_ensemble_loss
from counterpoint.training.mesh import Axes, as_axes
from counterpoint.training.modules import check_shaped, unwrap
from counterpoint.training.parallel import ParallelEnsemble, axes_of

__all__ = [
    "Metric",
    "check_callbacks",
    "check_checkpoint",
    "check_learners",
    "check_loss",
    "check_loss_value",
    "check_mesh",
    "check_optimizer",
    "check_patience",
    "check_scheduler",
    "check_steps",
    "metric_name",
    "resolve",
    "steps_by_batch",
    "trainable_parameters",
]

Metric = str | Callable[[Tensor, Tensor], float]
T = TypeVar("T")

# Measures in every history that are no criterion.
_MEASURES = ("brier_score", "calibration_error", "learner_accuracy", "learner_squared_error", "r_ll", "r_tl")


def resolve(given: Any, kind: type[T], name: str, *arguments: Any) -> T:
    """Return an object of a kind: the one that was given, or the result of a factory that was given."""
    found = given(*arguments) if callable(given) and not isinstance(given, kind) else given
    if not isinstance(found, kind):
        raise TypeError(
            f"`{name}` must be a torch {kind.__name__}, or a callable that returns one; got {found!r}."
        )
    return found


def trainable_parameters(ensemble: Any) -> list[nn.Parameter]:
    """Return the parameters that are not frozen; there must be at least one."""
    if not isinstance(ensemble, nn.Module):
        raise TypeError(f"`ensemble` must be a torch Module; got {ensemble!r}.")
    check_shaped(ensemble, "ensemble")
    found = [parameter for parameter in ensemble.parameters() if parameter.requires_grad]
    if not found:
        raise ValueError(f"`ensemble` must have parameters to train; got {ensemble!r}.")
    return found


def check_learners(ensemble: nn.Module) -> None:
    """Warn of learners that are one and the same object."""
    for part in ensemble.modules():
        if isinstance(part, Ensemble) and not part.is_stacked and len(set(part.learners)) < part.n_learners:
            warnings.warn(
                "`ensemble` holds a learner more than once, and they stay equal: copy.deepcopy makes another one.",
                LearnerWarning,
                stacklevel=3,
            )


def check_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Return the callbacks; an object without any of the hooks would be ignored silently."""
    hooks = [name for name in vars(Callback) if name.startswith("on_")]
    given = tuple(callbacks) if isinstance(callbacks, Iterable) else (callbacks,)
    known = all(not isinstance(one, type) and any(hasattr(one, hook) for hook in hooks) for one in given)
    if not known or not isinstance(callbacks, Iterable):
        raise TypeError(
            f"`callbacks` must be a list of objects with hooks such as {hooks[0]}; got {callbacks!r}."
        )
    return given


def check_optimizer(optimizer: Optimizer, ensemble: nn.Module, loss: Any) -> None:
    """Refuse an optimizer of other parameters, such as those of learners that were copied when stacked."""
    own = {id(p) for p in ensemble.parameters()}
    own |= {id(p) for p in as_ensemble_loss(loss).parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TypeError("`optimizer` must take steps without a closure, as Adam and SGD do; got LBFGS.")
    if strangers := sum(id(p) not in own for p in held):
        raise ValueError(
            f"`optimizer` must hold parameters of `ensemble`, which copies the learners it stacks; "
            f"got {strangers} of {len(held)} that are not its own."
        )


def check_scheduler(scheduler: LRScheduler | None, optimizer: Optimizer) -> None:
    """Refuse a scheduler of another optimizer, which would change nothing."""
    own = getattr(scheduler, "optimizer", optimizer)
    if own is not optimizer and not {*map(id, own.param_groups)} & {*map(id, optimizer.param_groups)}:
        raise ValueError(
            "`scheduler` must be one of `optimizer`; got that of another. A callable can make one of it."
        )


def check_loss(loss: Any, ensemble: nn.Module) -> None:
    """Refuse an object that is not a loss of an ensemble, or that reads its outputs differently."""
    if isinstance(loss, type) or not callable(loss):
        raise TypeError(f"`loss` must be callable with logits and targets; got {loss!r}.")
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) or loss in (F.cross_entropy, F.nll_loss):
        raise TypeError(
            f"`loss` must take the logits (n_learners, batch, n_classes) of an ensemble, as IndependentLoss does for "
            f"the cross-entropy; got {loss!r}."
        )
    activation, bare = as_ensemble_loss(loss).activation, unwrap(ensemble)
    if activation is not None and isinstance(bare, Voters) and activation != bare.activation:
        raise ValueError(
            f"`activation` must be the same for the loss and the ensemble; got {activation!r} and {bare.activation!r}."
        )


def check_loss_value(value: Any, loss: Any) -> None:
    """Refuse the value of a loss if it is not a scalar tensor.

    Parameters
    ----------
    value : Tensor
        What the loss returned.
    loss : callable
        The loss, for the error.
    """
    if not isinstance(value, Tensor) or value.dim():
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"`loss` must return one number, as a tensor; got {loss!r}, which returns {got}.")


def check_mesh(ensemble: Any, loss: Any, mesh: Any, optimizer: Any) -> Axes:
    """Return the processes that train together: those of the mesh, or of a wrapper of the ensemble.

    Parameters
    ----------
    ensemble, loss, mesh, optimizer
        The arguments of :func:`~counterpoint.training.fit`.
    """
    found = axes_of(ensemble) if isinstance(ensemble, nn.Module) else as_axes("local")
    told = loss._axes if isinstance(loss, EnsembleLoss) else None
    if mesh is None and told and not found:
        raise ValueError("`mesh` must be given to `fit` if the loss has one; got None.")
    if mesh is None and isinstance(unwrap(ensemble), ParallelEnsemble):
        raise ValueError("`mesh` must be given for an ensemble that is spread over one; got None.")
    if mesh is None:
        return found
    axes = as_axes(mesh)
    if found and (found.n_data, found.n_learner_ranks) != (axes.n_data, axes.n_learner_ranks):
        raise ValueError(
            f"`mesh` must be that of the ensemble, with {found.n_learner_ranks} x {found.n_data} processes; "
            f"got {axes.n_learner_ranks} x {axes.n_data}."
        )
    if axes.learners is not None and not found and isinstance(optimizer, Optimizer):
        raise TypeError(
            "`optimizer` must be a callable that makes one of the parameters of this process; got an Optimizer of all."
        )
    return axes


def check_checkpoint(path: str | os.PathLike[str] | None, resume: bool) -> bool:
    """Return True if there is a checkpoint to resume from; refuse to overwrite one."""
    check_flag(resume, "resume")
    if path is None or not check_path(path, "checkpoint").exists():
        return False
    if not resume:
        raise FileExistsError(
            f"`checkpoint` must not exist unless `resume` is True; got {os.fspath(path)!r}. Pass resume=True to "
            "continue that run, or remove the file."
        )
    return True


def check_patience(patience: int | None, validation: Any) -> None:
    """Refuse a patience that is not a count, or that comes without validation data."""
    if patience is None:
        return
    check_whole(patience, "patience", minimum=1)
    if validation is None:
        raise ValueError(f"`patience` must be None without `validation`; got {patience}.")


def check_steps(scheduler: LRScheduler | None) -> None:
    """Refuse a scheduler that cannot step after each batch."""
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ValueError(
            "`scheduler` must not be ReduceLROnPlateau if it steps after each batch: it takes a loss."
        )


def steps_by_batch(scheduler: LRScheduler | None, steps: str) -> bool:
    """Return True if the scheduler steps after each batch, and not after each epoch."""
    check_choice(steps, "scheduler_steps", ("auto", "epoch", "batch"))
    if steps == "batch":
        check_steps(scheduler)
    return isinstance(scheduler, OneCycleLR | CyclicLR) if steps == "auto" else steps == "batch"


def metric_name(metric: Metric, *, regression: bool = False) -> str:
    """Return the name of a metric in the history, one of those of the task."""
    known = ("squared_error", "loss") if regression else ("vote_accuracy", "log_loss", "loss")
    if not callable(metric):
        return str(check_choice(metric, "metric", known))
    name = getattr(metric, "__name__", "metric")
    return name if name.isidentifier() and name not in (*known, *_MEASURES) else "metric"
