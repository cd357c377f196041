"""The parameters of an estimator: checks, and the loss that they define."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor, nn

from counterpoint._validation import check_choice, check_flag, check_number, check_whole
from counterpoint.estimators._rows import check_class_weight
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    evaluating,
)
from counterpoint.training.arguments import check_loss_value
from counterpoint.training.voting import VOTES

__all__ = [
    "LARGE",
    "LOSSES",
    "check_loss",
    "check_settings",
    "count_batch",
    "count_pieces",
    "make_loss",
]

LOSSES = ("diversity", "independent", "joint", "ncl", "correlation")

_LARGEST = 1e15  # rates; torch holds their product in float32
LARGE = 10_000  # rows; larger tables have defaults of their own
_PIECES = 8  # of a numeric column


def check_settings(estimator: Any) -> None:
    """Refuse parameters of an estimator with which it cannot train."""
    if not isinstance(estimator.module, list | tuple):
        check_whole(estimator.n_estimators, "n_estimators", minimum=1)
    elif not estimator.module:
        raise ValueError("`module` must hold at least one network where it is a list; got none.")
    check_whole(estimator.epochs, "epochs", minimum=1)
    if hasattr(estimator, "voting"):  # a classifier
        _check_classifier(estimator)
    _check_auto(estimator.batch_size, "batch_size", check_whole, minimum=1)
    _check_auto(estimator.n_pieces, "n_pieces", check_whole, minimum=0)
    check_flag(estimator.early_stopping, "early_stopping")
    check_number(estimator.learning_rate, "learning_rate", 0, _LARGEST, closed=False)
    check_number(estimator.weight_decay, "weight_decay", 0, _LARGEST)
    check_number(estimator.validation_fraction, "validation_fraction", 0, 0.9)
    check_flag(estimator.standardize, "standardize")
    check_flag(estimator.warm_start, "warm_start")
    if not isinstance(estimator.verbose, bool | np.bool_):
        check_whole(estimator.verbose, "verbose", minimum=0)
    if estimator.patience is not None:
        check_whole(estimator.patience, "patience", minimum=1)
        if estimator.validation_fraction == 0:
            raise ValueError(
                f"`patience` must be None without `validation_fraction`; got {estimator.patience}."
            )


def _check_classifier(estimator: Any) -> None:
    """Refuse parameters that only classifiers have."""
    check_whole(estimator.warmup_epochs, "warmup_epochs", minimum=0)
    if estimator.warmup_epochs >= estimator.epochs:
        raise ValueError(
            f"`warmup_epochs` must be less than {estimator.epochs}; got {estimator.warmup_epochs}."
        )
    check_choice(estimator.voting, "voting", ("auto", *VOTES))
    check_choice(estimator.reduction, "reduction", ("mean", "sum"))
    check_number(estimator.label_smoothing, "label_smoothing", 0, 1)
    check_class_weight(estimator.class_weight)


def count_pieces(estimator: Any, n_rows: int) -> int:
    """Return the number of pieces of a numeric column.

    "auto" is none for networks that are given, which may expect a number of inputs, and for large tables, which would
    take several times as long.
    """
    if not _is_auto(estimator.n_pieces):
        return int(estimator.n_pieces)
    return _PIECES if estimator.module is None and n_rows <= LARGE else 0


def count_batch(batch_size: int | str, n_rows: int) -> int:
    """Return the largest size of a batch; "auto" is a hundredth of the rows, from 32 to 1,024.

    Examples
    --------
    >>> [count_batch("auto", n) for n in (150, 10_000, 1_000_000)]
    [32, 100, 1024]
    """
    return min(max(n_rows // 100, 32), 1024) if _is_auto(batch_size) else int(batch_size)


def make_loss(
    loss: str | nn.Module | None,
    diversity: float | None,
    lam: float | None,
    reduction: str,
    label_smoothing: float,
) -> Callable[..., Tensor]:
    """Return the loss of a name, or the loss that was given."""
    if loss is None:  # as `load` leaves it where the file names a custom loss
        raise ValueError(
            "`loss` must be a name or a loss module, to train; got None. A file does not hold a custom loss: pass it "
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
        kind = IndependentLoss if loss == "independent" else JointLoss
        return kind(label_smoothing=label_smoothing)
    if loss == "diversity":
        return DiversityLoss(diversity, label_smoothing=label_smoothing)
    return NegativeCorrelationLoss() if diversity is None else NegativeCorrelationLoss(diversity)


def check_loss(
    loss: Callable[..., Tensor], ensemble: Ensemble, x: Tensor, y: Tensor, weight: Tensor | None
) -> None:
    """Call a loss on a few rows, as training does, and check what it returns."""
    rule = "take logits (n_learners, batch, n_classes), classes (batch,) and weights (batch,) as those of counterpoint"
    some = [tensor[:5] for tensor in (x, y, weight) if tensor is not None]
    with evaluating(ensemble):
        logits = ensemble(some[0])
        try:
            found = loss(logits, *some[1:])
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"`loss` must {rule} do; got {loss!r}, which says: {error}") from error
    check_loss_value(found, loss)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _check_auto(value: Any, name: str, check: Callable[..., Any], *limits: float, **more: Any) -> None:
    """Refuse what is neither "auto" nor a number that a check accepts."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"`{name}` must be 'auto' or a number; got {value!r}.")
    if not _is_auto(value):
        check(value, name, *limits, **more)


def _refuse_dials(loss: Any, **dials: float | None) -> None:
    for name, value in dials.items():
        if value is not None:
            raise ValueError(
                f"`{name}` must be None with the loss {loss!r}; got {value!r}. A grid search over losses needs a list "
                f"of grids, with `{name}` only in those whose losses use it."
            )
