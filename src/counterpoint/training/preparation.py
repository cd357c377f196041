"""What is given to the training loop, checked and made ready."""

import copy
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from counterpoint._validation import check_choice, check_flag, check_path, check_whole
from counterpoint.training.callbacks import Callback, State
from counterpoint.training.ensemble import Voters
from counterpoint.training.unwrapping import unwrapped

Batches = Iterable[Any] | Callable[[int], Iterable[Any]]
Metric = str | Callable[[Tensor, Tensor], float]
T = TypeVar("T")

_OF_TYPES = re.compile("dtype|scalar type|Input type")  # as torch's layers complain of them


def made(given: Any, kind: type[T], name: str, *arguments: Any) -> T:
    """Return what was given, or what it makes of the arguments, of that kind."""
    thing = given(*arguments) if callable(given) and not isinstance(given, kind) else given
    if not isinstance(thing, kind):
        raise TypeError(f"`{name}` must be or make a torch {kind.__name__}; got {thing!r}.")
    return thing


def parameters_to_train(ensemble: Any) -> list[nn.Parameter]:
    """Return those that are not frozen, of which there must be some."""
    if not isinstance(ensemble, nn.Module):
        raise TypeError(f"`ensemble` must be a torch Module; got {ensemble!r}.")
    found = [parameter for parameter in ensemble.parameters() if parameter.requires_grad]
    if not found:
        raise ValueError(f"`ensemble` must have parameters to train; got {ensemble!r}.")
    return found


def check_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Return the callbacks; what has none of the hooks would be passed over in silence."""
    hooks = [name for name in vars(Callback) if name.startswith("on_")]
    given = tuple(callbacks) if isinstance(callbacks, Iterable) else (callbacks,)
    known = all(not isinstance(one, type) and any(hasattr(one, hook) for hook in hooks) for one in given)
    if not known or not isinstance(callbacks, Iterable):
        raise TypeError(
            f"`callbacks` must be a list of objects with hooks such as {hooks[0]}; got {callbacks!r}."
        )
    return given


def check_optimizer(optimizer: Optimizer, ensemble: nn.Module, loss: Any) -> None:
    """Refuse an optimizer of other parameters: those of learners that were stacked are not trained."""
    own = {id(p) for p in ensemble.parameters()}
    own |= {id(p) for p in loss.parameters()} if isinstance(loss, nn.Module) else set()
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TypeError("`optimizer` must take its steps without a closure, as Adam and SGD do; got LBFGS.")
    if strangers := sum(id(p) not in own for p in held):
        raise ValueError(
            f"`optimizer` must hold parameters of `ensemble`, which has copies of the learners it stacks; "
            f"got {strangers} of {len(held)} that are not its own."
        )


def check_loss(loss: Any, ensemble: nn.Module) -> None:
    """Refuse what is no loss of an ensemble, or reads its outputs otherwise."""
    if isinstance(loss, type) or not callable(loss):
        raise TypeError(f"`loss` must be an object to be called with logits and targets; got {loss!r}.")
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) or loss in (F.cross_entropy, F.nll_loss):
        raise TypeError(
            f"`loss` must take the logits (n_learners, batch, n_classes) of an ensemble, as IndependentLoss does for "
            f"the cross-entropy; got {loss!r}."
        )
    bare, read = unwrapped(ensemble), getattr(loss, "activation", None)
    put_out = bare.activation if isinstance(bare, Voters) else None
    if read is not None and put_out is not None and read != put_out:
        raise ValueError(
            f"`activation` must be the same for the loss and the ensemble; got {read!r} and {put_out!r}."
        )


def check_value(value: Any, loss: Any) -> None:
    """Refuse what a loss returns if it is not one number."""
    if not isinstance(value, Tensor) or value.dim():
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"`loss` must return one number, as a tensor; got {loss!r}, which returns {got}.")


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


def forget_gradients(optimizer: Optimizer) -> None:
    """Do as ``zero_grad``, which takes as long as a layer of small nets by its hook for the profiler."""
    if getattr(optimizer.zero_grad, "__func__", None) is not Optimizer.zero_grad:  # it may do more
        optimizer.zero_grad()
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def gives(batches: Any) -> bool:
    """Tell whether there is something to go through; a data set may know no more than its items."""
    return hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")


def check_batches(batches: Any, validation: Any) -> None:
    """Refuse what can be gone through only once, or not at all, or is empty."""
    several = {"batches": batches} if validation is None else {"batches": batches, "validation": validation}
    for name, given in several.items():
        if isinstance(given, Iterator) or not (callable(given) or gives(given)):
            got = f"an iterator, {given!r}" if isinstance(given, Iterator) else repr(given)
            raise TypeError(
                f"`{name}` must be a DataLoader, a list or a callable, to be gone through each epoch; got {got}."
            )
        if not callable(given) and length(given) == 0:
            raise ValueError(f"`{name}` must give at least one batch; got none.")


def check_patience(patience: int | None, validation: Any) -> None:
    """Refuse a patience that is no count, or has nothing to wait for."""
    if patience is None:
        return
    check_whole(patience, "patience", minimum=1)
    if validation is None:
        raise ValueError(f"`patience` must be None without `validation`; got {patience}.")


def steps_by_batch(scheduler: LRScheduler | None, steps: str) -> bool:
    """Tell whether the scheduler steps after each batch, and not after each epoch."""
    check_choice(steps, "scheduler_steps", ("auto", "epoch", "batch"))
    return isinstance(scheduler, OneCycleLR | CyclicLR) if steps == "auto" else steps == "batch"


def step_after_epoch(scheduler: LRScheduler, record: Mapping[str, float]) -> None:
    """Step a scheduler; ReduceLROnPlateau waits for the loss, of validation if any."""
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(record.get("val_loss", record["loss"]))
    else:
        scheduler.step()


def metric_name(metric: Metric) -> str:
    """Return the name of a metric in the history."""
    known = ("vote_accuracy", "log_loss", "loss")
    if not callable(metric):
        return str(check_choice(metric, "metric", known))
    name = getattr(metric, "__name__", "metric")
    return name if name.isidentifier() and name not in known else "metric"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which the networks run."""
    check_choice(precision, "precision", ("auto", "float32", "bf16"))
    if precision == "bf16" or (precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    if precision == "float32" and torch.is_autocast_enabled(device.type):  # around the call
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


@contextmanager
def learning(precision: str, device: torch.device) -> Iterator[None]:
    """Have gradients in a block, also where the caller has none, and go back in float32 if that is asked for."""
    with torch.enable_grad(), autocast(precision, device) if precision == "float32" else nullcontext():
        yield


def length(batches: Iterable[Any]) -> int | None:
    """Return the number of batches, where it is known."""
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # also a DataLoader over a stream
        return None


def on_device(batch: Any, device: torch.device, name: str) -> list[Any]:
    """Return (x, y) or (x, y, sample_weight) on the device; x may be a list of views."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise TypeError(f"`{name}` must give (x, y) or (x, y, sample_weight); got {type(batch).__name__}.")
    x, *rest = batch
    views = x if isinstance(x, tuple | list) else [x]
    for part in (*views, *rest):
        if not isinstance(part, Tensor):
            raise TypeError(f"`{name}` must give tensors; got {type(part).__name__}.")
    moved = [part.to(device, non_blocking=True) for part in views]
    return [moved if views is x else moved[0], *(part.to(device, non_blocking=True) for part in rest)]


def placed(batches: Iterable[Any], device: torch.device, name: str) -> Iterator[list[Any]]:
    """Yield (x, y) or (x, y, sample_weight) on the device; all batches must be alike."""
    if not gives(batches):
        raise TypeError(f"`{name}` must be an iterable of (x, y) or (x, y, sample_weight); got {batches!r}.")
    n_parts = 0
    for batch in batches:
        parts = on_device(batch, device, name)
        if len(parts) != n_parts and n_parts:
            raise ValueError(f"`{name}` must give weights with each batch or with none; got some of both.")
        n_parts = len(parts)
        for weight in batch[2:]:
            if weight.is_cpu and not (least := weight.min()) >= 0:  # another device would be waited for
                raise ValueError(f"`sample_weight` must be 0 or more for each sample; got {least.item()}.")
        yield parts


def outputs_of(ensemble: nn.Module, x: Any, name: str) -> Any:
    """Return what an ensemble puts out for a batch of that name; of another type it may be the reason of a failure."""
    try:
        return ensemble(x)
    except RuntimeError as error:
        # Networks may well take bytes, or run under autocast: only where they fail is another type the likely cause.
        first = x if isinstance(x, Tensor) else x[0]
        own = next(ensemble.parameters(), first).dtype
        if first.dtype == own or not _OF_TYPES.search(str(error)):
            raise
        raise TypeError(
            f"`{name}` must give inputs of {own}, as `ensemble` is; got {first.dtype}, and it failed: {error}."
        ) from error


def weights(module: nn.Module) -> dict[str, Any]:
    """Return a copy of what ``load_state_dict`` puts back."""
    state = module.state_dict()
    return {k: v.detach().clone() if isinstance(v, Tensor) else copy.deepcopy(v) for k, v in state.items()}


def all_finite(module: nn.Module) -> bool:
    """Tell whether all parameters are finite."""
    return bool(torch.stack([p.detach().isfinite().all() for p in module.parameters()]).all())


def generators(batches: Any) -> list[torch.Generator]:
    """Return the generators that a DataLoader, or a sampler in it, was given."""
    owners, found = [batches], {}
    for owner in owners:  # which grow, by the samplers of samplers
        if isinstance(generator := getattr(owner, "generator", None), torch.Generator):
            found[id(generator)] = generator
        parts = [getattr(owner, name, None) for name in ("sampler", "batch_sampler")]
        known = {id(one) for one in owners}
        owners += [part for part in parts if part is not None and id(part) not in known]
    return list(found.values())


def identity(state: State) -> dict[str, Any]:
    """Return what tells one run from another, as text."""
    groups = [
        # A scheduler moves `lr` and leaves where it began as `initial_lr`.
        {
            key: repr(value)
            for key, value in group.items()
            if key != "params" and not (key == "lr" and "initial_lr" in group)
        }
        for group in state.optimizer.param_groups
    ]
    loss = state.loss
    return {
        # The read-out of an earlier training is no part of this one.
        "tensors": {
            name: _text(value)
            for name, value in state.ensemble.state_dict().items()
            if "readout." not in name
        },
        "loss": repr(loss)
        if isinstance(loss, nn.Module)
        else getattr(loss, "__qualname__", type(loss).__name__),
        "optimizer": {
            "kind": type(state.optimizer).__name__,
            **{str(i): group for i, group in enumerate(groups)},
        },
        "scheduler": type(state.scheduler).__name__,
    }


def check_identity(saved: Mapping[str, Any], own: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Refuse the checkpoint of another run."""
    found = saved.get("identity")
    if not isinstance(found, Mapping):
        raise ValueError(f"`checkpoint` must be of a training run; got another file, {os.fspath(path)!r}.")
    for part, mine in own.items():
        if (difference := _difference(found.get(part), mine)) is not None:
            what = "architecture" if part == "tensors" else part
            raise ValueError(
                f"`checkpoint` must be of the same {what} ({difference}); got {os.fspath(path)!r}. "
                "Remove the file to start a new run."
            )


def _difference(saved: Any, own: Any, name: str = "") -> str | None:
    """Return the first difference between nested texts."""
    if isinstance(saved, Mapping) and isinstance(own, Mapping):
        for key in dict.fromkeys((*own, *saved)):
            found = _difference(saved.get(key), own.get(key), f"{name}.{key}".lstrip("."))
            if found is not None:
                return found
        return None
    return None if saved == own else f"{name + ': ' if name else ''}{own} here, {saved} there"


def _text(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.") if isinstance(value, Tensor) else ""
