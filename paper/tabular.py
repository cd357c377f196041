"""Ensembles of networks on tables under cross-validation: what Table 3 and Figure 7 share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from counterpoint.datasets import load
from counterpoint.estimators import choose_diversity
from counterpoint.training import (
    CorrelationLoss,
    EnsembleLoss,
    Group,
    GroupedEnsembles,
    IndependentLoss,
    Schedule,
)
from paper.programs import Split, draw_seeds, fold_of, train_in_chunks

__all__ = [
    "SMOKE",
    "Rows",
    "Settings",
    "cross_validation",
    "fixed_losses",
    "make_groups",
    "make_losses",
    "schedule_of",
    "searched",
]

# row of the table -> "error" and "best_test", one number for each split, and other numbers worth keeping
Rows = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Settings:
    """How ensembles are trained and judged; the paper gives the first four."""

    n_learners: int = 15
    n_folds: int = 10
    lam: float = 0.9
    artificial_ratio: float = 1.0
    max_rounds: int = 50
    hidden: int = 64
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 0.003
    weight_decay: float = 0.1
    inner_folds: int = 5
    diversities: tuple[float, ...] = (0.0, 0.5, 0.9)
    read_every: int = 10  # epochs between two tests with a read-out
    seed: int = 0


SMOKE = Settings(
    n_learners=3, n_folds=2, max_rounds=5, epochs=3, inner_folds=2, diversities=(0.5,), read_every=3
)


def cross_validation(name: str, repeats: int, settings: Settings) -> list[Split]:
    """Return the splits of all repeats of a table in turn; stratified, shuffled by seed + repeat."""
    data = load(name)
    labels = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    table = data.X.to_numpy(dtype=np.float64)
    return [
        split
        for repeat in range(repeats)
        for split in _splits(table, labels, settings.n_folds, settings.seed + repeat)
    ]


def _splits(table: NDArray[np.floating], labels: NDArray[np.int64], n_folds: int, seed: int) -> list[Split]:
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(table, labels)
    splits = []
    for (train, test), own_seed in zip(folds, draw_seeds(seed, n_folds), strict=True):
        scaler = StandardScaler().fit(table[train])  # ignores missing values
        rows = [scaler.transform(table[part]) for part in (train, test)]
        splits.append(Split(rows[0], labels[train], rows[1], labels[test], int(labels.max()) + 1, own_seed))
    return splits


def make_losses(settings: Settings) -> dict[str, EnsembleLoss]:
    """Return the losses without a choice: independent training, the paper's by its equation and by its algorithm."""
    return {
        "independent": IndependentLoss(),
        "mean": CorrelationLoss(lam=settings.lam, reduction="mean"),
        "sum": CorrelationLoss(lam=settings.lam, reduction="sum"),
    }


def schedule_of(splits: Sequence[Split], settings: Settings) -> Schedule:
    """Return the schedule for some splits, with batches no larger than the settings say."""
    largest = max(len(split.labels) for split in splits)
    n_batches = math.ceil(largest / settings.batch_size)
    return Schedule(settings.epochs, n_batches, settings.learning_rate, settings.weight_decay)


def make_groups(
    splits: Sequence[Split], losses: Sequence[EnsembleLoss], settings: Settings, device: torch.device
) -> list[Group]:
    """Return an ensemble for each split and loss; those of a split start from the same networks."""
    folds = [fold_of(split, settings.n_learners, settings.hidden, device) for split in splits]
    return [Group(fold, loss) for fold in folds for loss in losses]


class _TestErrors:
    """Errors of each group on its test rows in percent: after each epoch, and with a read-out after some."""

    def __init__(self, tests: Sequence[tuple[Tensor, Tensor]], settings: Settings) -> None:
        self.tests, self.settings = tests, settings
        self.raw = np.full((len(tests), settings.epochs), np.nan)
        self.read = np.full((len(tests), settings.epochs), np.nan)

    def __call__(self, chunk: slice, epoch: int, program: GroupedEnsembles) -> None:
        x, y = zip(*self.tests[chunk], strict=True)
        proba = [logits.softmax(-1) for logits in program.logits(x)]
        self.raw[chunk, epoch - 1] = _errors(proba, y)
        if epoch % self.settings.read_every == 0 or epoch == self.settings.epochs:
            self.read[chunk, epoch - 1] = _errors(program.proba(x), y)


def fixed_losses(splits: Sequence[Split], settings: Settings, device: torch.device) -> Rows:
    """Return the errors of the losses without a choice, with and without read-out."""
    losses = make_losses(settings)
    groups = make_groups(splits, list(losses.values()), settings, device)
    errors = _TestErrors([split.tensors(device)[2:] for split in splits for _ in losses], settings)
    for _ in train_in_chunks(groups, schedule_of(splits, settings), on_epoch=errors):
        pass
    rows = {}
    for c, name in enumerate(losses):
        raw, read = (found[c :: len(losses)] for found in (errors.raw, errors.read))
        rows[name] = _last_and_best(raw)
        if name != "independent":  # its outputs are probabilities already
            rows[f"{name}, read-out"] = _last_and_best(read)
    return rows


def searched(splits: Sequence[Split], settings: Settings, device: torch.device) -> Rows:
    """Return the errors with the diversity chosen by folds inside each training part, then trained on all of it."""
    losses = [IndependentLoss(), *map(CorrelationLoss, settings.diversities)]
    chosen = _choose_losses(splits, losses, settings, device)
    groups = [
        Group(fold_of(split, settings.n_learners, settings.hidden, device), losses[best])
        for split, best in zip(splits, chosen, strict=True)
    ]
    errors = _TestErrors([split.tensors(device)[2:] for split in splits], settings)
    for _ in train_in_chunks(groups, schedule_of(splits, settings), on_epoch=errors):
        pass
    row = _last_and_best(errors.read)
    row["diversity"] = [None if best == 0 else settings.diversities[best - 1] for best in chosen]
    return {"searched": row}


def _choose_losses(
    splits: Sequence[Split], losses: Sequence[EnsembleLoss], settings: Settings, device: torch.device
) -> list[int]:
    """Return the position of the loss that inner folds choose for each split."""
    inner = [
        split
        for outer in splits
        for split in _splits(outer.table, outer.labels, settings.inner_folds, outer.seed)
    ]
    groups = make_groups(inner, losses, settings, device)
    tests = [split.tensors(device)[2:] for split in inner for _ in losses]
    errors = np.empty(len(groups))
    for chunk, program in train_in_chunks(groups, schedule_of(inner, settings)):
        x, y = zip(*tests[chunk], strict=True)
        errors[chunk] = _errors(program.proba(x), y)
    scores = -errors.reshape(len(splits), settings.inner_folds, len(losses)).swapaxes(1, 2)
    share = 1 / (settings.inner_folds - 1)
    return [choose_diversity(own, share).chosen for own in scores]


def _errors(proba: Sequence[Tensor], targets: Sequence[Tensor]) -> list[float]:
    """Return the errors of the averaged probabilities, (N, n, m) for each group, in percent."""
    wrong = [(p.mean(0).argmax(-1) != y).double().mean() for p, y in zip(proba, targets, strict=True)]
    return (100 * torch.stack(wrong)).tolist()


def _last_and_best(errors: NDArray[np.float64]) -> dict[str, list[Any]]:
    """Return the error after the last epoch, and the lowest one of all epochs that were tested."""
    return {"error": errors[:, -1].tolist(), "best_test": np.nanmin(errors, axis=1).tolist()}
