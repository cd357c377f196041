"""The training of the networks of an estimator."""

import warnings
from typing import Any

import torch

from counterpoint.estimators._rows import Rows
from counterpoint.estimators._settings import check_loss, count_batch
from counterpoint.estimators._table_batches import TableBatches
from counterpoint.exceptions import LearnerWarning
from counterpoint.training import History, autocast, fit, seeded
from counterpoint.training.groups import warmup_loss

__all__ = ["train_networks"]

_ROWS_AT_ONCE = 2**16  # of a validation set: the activations of more would take more room than the table


def train_networks(
    estimator: Any,
    rows: Rows,
    held: Rows | None,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    seed: int,
    *,
    patience: int | None = None,
) -> History:
    """Train the ensemble of an estimator; during a warm-up, each network independently."""
    ensemble = estimator.ensemble_
    device = next(ensemble.parameters()).device
    x, y, weight = estimator._tensors(rows)
    size = count_batch(estimator.batch_size, len(y))
    batches = TableBatches(x, y, weight, size, torch.Generator().manual_seed(seed))
    more: dict[str, Any] = {"optimizer": optimizer, "precision": "float32", "progress": estimator.verbose > 0}
    if held is not None:
        whole = [tensor for tensor in estimator._tensors(held) if tensor is not None]
        parts = -(-len(whole[1]) // _ROWS_AT_ONCE)
        validation = list(zip(*(tensor.tensor_split(parts) for tensor in whole), strict=True))
        more |= {"validation": validation, "metric": "loss", "patience": patience}
    warmup = int(getattr(estimator, "warmup_epochs", 0)) if epochs > 1 else 0
    if hasattr(estimator, "voting"):  # a classifier
        ensemble.voting = estimator.voting  # the parameter may have changed
        ensemble.readout = None  # fit adds one if the loss needs it
    history = History()
    with seeded(device, seed), autocast("float32", device), warnings.catch_warnings():
        full = estimator._loss()
        check_loss(full, ensemble, x, y, weight)
        # After a few small batches a learner may still be near its start; the check is at the end.
        warnings.simplefilter("ignore", LearnerWarning)
        for loss, count in ((warmup_loss(full), warmup), (full, epochs - warmup)):
            if count:
                part = fit(ensemble, batches, loss=loss, epochs=count, **more)
                before = len(history)
                for record in part:
                    history.append({**record, "epoch": before + record["epoch"]})
                history.best_epoch = None if part.best_epoch is None else before + part.best_epoch
    ensemble.eval()
    estimator.__dict__.pop("_modules", None)  # of the weights before
    return history
