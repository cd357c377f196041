"""What the estimators make of their parameters: networks, losses, the device, randomness."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from counterpoint._validation import check_choice, check_count, check_flag, check_number, check_whole
from counterpoint.estimators._rows import check_class_weight
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    evaluating,
    mlp,
)
from counterpoint.training.arguments import check_loss_value
from counterpoint.training.voting import VOTES

__all__ = [
    "Module",
    "check_loss",
    "check_networks",
    "check_settings",
    "check_trained",
    "draw_seeds",
    "make_loss",
    "make_nets",
    "networks_of",
]

Module = Callable[[int, int], nn.Module] | Sequence[nn.Module] | None

LOSSES = ("diversity", "independent", "joint", "ncl", "correlation")

_LARGEST = 1e15  # of rates, whose product torch has to hold in float32


def make_nets(
    module: Module,
    n_estimators: int,
    hidden_layer_sizes: int | Sequence[int],
    n_features: int,
    n_classes: int,
) -> list[nn.Module]:
    """Return networks for the task: new ones, or copies of those given; torch's generator draws their values."""
    if module is None:
        sizes = np.ravel(hidden_layer_sizes).tolist()
        if sizes:
            check_count(hidden_layer_sizes, "hidden_layer_sizes", minimum=1)
        nets: list[nn.Module] = [mlp([n_features, *sizes, n_classes]) for _ in range(n_estimators)]
    elif callable(module) and not isinstance(module, nn.Module):
        nets = [module(n_features, n_classes) for _ in range(n_estimators)]
    elif isinstance(module, list | tuple):
        nets = [copy.deepcopy(net) for net in module]
    else:
        raise TypeError(
            f"`module` must be None, a callable that makes a net, or a list of nets; got {module!r}."
        )
    for net in nets:
        _check_net(net, n_features, n_classes)
    return nets


def check_settings(estimator: Any) -> None:
    """Refuse numbers and choices of an estimator with which it cannot train."""
    if not isinstance(estimator.module, list | tuple):
        check_whole(estimator.n_estimators, "n_estimators", minimum=1)
    elif not estimator.module:
        raise ValueError("`module` must have at least one net where it is a list; got none.")
    check_whole(estimator.epochs, "epochs", minimum=1)
    check_whole(estimator.warmup_epochs, "warmup_epochs", minimum=0)
    if estimator.warmup_epochs >= estimator.epochs:
        raise ValueError(
            f"`warmup_epochs` must be less than {estimator.epochs}; got {estimator.warmup_epochs}."
        )
    check_whole(estimator.batch_size, "batch_size", minimum=1)
    check_number(estimator.learning_rate, "learning_rate", 0, _LARGEST, closed=False)
    check_number(estimator.weight_decay, "weight_decay", 0, _LARGEST)
    check_number(estimator.validation_fraction, "validation_fraction", 0, 0.9)
    check_choice(estimator.voting, "voting", ("auto", *VOTES))
    check_choice(estimator.reduction, "reduction", ("mean", "sum"))
    check_flag(estimator.standardize, "standardize")
    check_flag(estimator.warm_start, "warm_start")
    check_class_weight(estimator.class_weight)
    if not isinstance(estimator.verbose, bool | np.bool_):
        check_whole(estimator.verbose, "verbose", minimum=0)
    if estimator.patience is not None:
        check_whole(estimator.patience, "patience", minimum=1)
        if estimator.validation_fraction == 0:
            raise ValueError(
                f"`patience` must be None without `validation_fraction`; got {estimator.patience}."
            )


def make_loss(
    loss: str | nn.Module | None, diversity: float | None, lam: float | None, reduction: str
) -> Callable[..., Tensor]:
    """Return the loss of a name, or the loss that was given."""
    if loss is None:  # as `load` leaves it where the file names a loss that it does not hold
        raise ValueError(
            "`loss` must be a name or a loss module, to train; got None. A file does not hold one of your own: give it "
            "to `load`."
        )
    if not isinstance(loss, str):
        if isinstance(loss, type) or not callable(loss):
            got = f"the class {loss.__name__}" if isinstance(loss, type) else repr(loss)
            raise TypeError(f"`loss` must be a name or a loss module; got {got}.")
        _refuse_dials(loss, diversity=diversity, lam=lam)
        return copy.deepcopy(loss)
    check_choice(loss, "loss", LOSSES)
    if loss == "correlation":
        return CorrelationLoss(diversity, lam=lam, reduction=reduction)
    _refuse_dials(loss, lam=lam)
    if loss in ("independent", "joint"):
        _refuse_dials(loss, diversity=diversity)
        return IndependentLoss() if loss == "independent" else JointLoss()
    kind: Any = DiversityLoss if loss == "diversity" else NegativeCorrelationLoss
    return kind() if diversity is None else kind(diversity)  # type: ignore[no-any-return]


def check_loss(
    loss: Callable[..., Tensor], ensemble: Ensemble, x: Tensor, y: Tensor, weight: Tensor | None
) -> None:
    """Call a loss on a few rows as training will, and look at what it returns."""
    rule = "take logits (n_learners, batch, n_classes), classes (batch,) and weights (batch,) as those of counterpoint"
    some = [tensor[:5] for tensor in (x, y, weight) if tensor is not None]
    with evaluating(ensemble):
        logits = ensemble(some[0])
        try:
            found = loss(logits, *some[1:])
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"`loss` must {rule} do; got {loss!r}, which says: {error}") from error
    check_loss_value(found, loss)


def check_trained(ensemble: Ensemble) -> list[nn.Parameter]:
    """Return the parameters that training moves, of which there is at least one."""
    trained = [parameter for parameter in ensemble.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("`module` must give nets with parameters to train; got nets that are all frozen.")
    return trained


def networks_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters that say which networks there are; of what makes them one cannot tell if it is another."""
    if isinstance(estimator.module, list | tuple):
        return {"module": list(estimator.module)}
    counted = {"n_estimators": int(estimator.n_estimators)}
    if estimator.module is not None:
        return counted
    return {"module": None, **counted, "hidden_layer_sizes": np.ravel(estimator.hidden_layer_sizes).tolist()}


def check_networks(estimator: Any, before: dict[str, Any]) -> None:
    """Refuse to go on with networks that are not those that the parameters ask for."""
    now = {"module": estimator.module} | networks_of(estimator)
    for name, value in before.items():
        if now.get(name) != value:
            raise ValueError(
                f"`{name}` must stay {value!r:.80} where training goes on; got {getattr(estimator, name)!r:.80}."
            )


def draw_seeds(random_state: int | np.random.RandomState | None, count: int = 2) -> list[int]:
    """Return seeds: of an estimator, that of the networks and that of the batches."""
    seeds: list[int] = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=count).tolist()
    return seeds


@torch.no_grad()
def _check_net(net: Any, n_features: int, n_classes: int) -> None:
    """Run a network on two rows of zeros and look at what it puts out."""
    if not isinstance(net, nn.Module):
        raise TypeError(f"`module` must give torch Modules; got {net!r}.")
    parameter = next(net.parameters(), None)
    if parameter is None:
        raise ValueError(f"`module` must give nets with parameters to train; got {net!r}.")
    training = net.training
    try:
        found = net.eval()(torch.zeros(2, n_features, dtype=torch.float32, device=parameter.device))
    except RuntimeError as error:
        rule = f"take {n_features} features in float32"
        raise ValueError(f"`module` must give nets that {rule}; got: {error}") from error
    net.train(training)
    widths = (1, 2) if n_classes == 2 else (n_classes,)
    shape = tuple(found.shape) if isinstance(found, Tensor) else None
    if shape not in [(2, width) for width in widths]:
        rule = f"one row of {' or '.join(map(str, widths))} logits for each sample, as a tensor"
        got = f"a {type(found).__name__}" if shape is None else f"shape {shape} for 2 samples"
        raise ValueError(f"`module` must give nets that put out {rule}; got {got}.")


def _refuse_dials(loss: Any, **dials: float | None) -> None:
    for name, value in dials.items():
        if value is not None:
            raise ValueError(f"`{name}` must be None with the loss {loss!r}; got {value!r}.")
