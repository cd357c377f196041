"""Ensembles of networks on tables under cross-validation: what Table 3 and Figure 7 share.

All folds of all repeats train side by side as one batched program. A CPU works faster if what the hidden layers put out
stays in its cache, so there the folds are taken some at a time; each trains as if it were alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from counterpoint._validation import FloatArray, IntArray
from counterpoint.datasets import load
from counterpoint.estimators import choose_diversity, draw_seeds
from counterpoint.training import (
    CorrelationLoss,
    EnsembleLoss,
    Fold,
    Group,
    GroupedEnsembles,
    IndependentLoss,
    Schedule,
    fit_groups,
    mlp,
    seeded,
)

__all__ = [
    "SMOKE",
    "Rows",
    "Settings",
    "Split",
    "Tick",
    "cross_validation",
    "filled",
    "fixed_losses",
    "fold_of",
    "losses_of",
    "searched",
    "train_in_chunks",
]

# Numbers in the hidden layers of a program: those of a CPU fit its cache, those of a GPU its memory.
_MOST_ON_CPU, _MOST_ON_GPU = 2**20, 2**29

Tick = Callable[[float], None]  # told the share of the work that is done
# row -> "error" and "best_test", one number for each fold, and what else is worth a note
Rows = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Settings:
    """How ensembles are made and judged; the paper gives the first four."""

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
    read_every: int = 10  # epochs between two looks at the test rows through a read-out
    seed: int = 0


SMOKE = Settings(
    n_learners=3, n_folds=2, max_rounds=5, epochs=3, inner_folds=2, diversities=(0.5,), read_every=3
)


class Split(NamedTuple):
    """A fold: columns standardised by its training rows, NaN where a value is missing."""

    table: FloatArray  # (n, n_features)
    labels: IntArray  # (n,)
    test_table: FloatArray
    test_labels: IntArray
    n_classes: int
    seed: int

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the rows with missing values at the mean, 0, and the labels; those to test last."""
        x, test_x = (filled(table, device) for table in (self.table, self.test_table))
        y, test_y = (torch.as_tensor(codes, device=device) for codes in (self.labels, self.test_labels))
        return x, y, test_x, test_y


def cross_validation(name: str, repeats: int, settings: Settings) -> list[Split]:
    """Return the folds of the repeats of a table, one repeat after the other; stratified, shuffled by seed + repeat."""
    data = load(name)
    labels = np.unique(data.y, return_inverse=True)[1].astype(np.int64)
    table = data.X.to_numpy(dtype=np.float64)
    return [
        split
        for repeat in range(repeats)
        for split in _splits(table, labels, settings.n_folds, settings.seed + repeat)
    ]


def _splits(table: FloatArray, labels: IntArray, n_folds: int, seed: int) -> list[Split]:
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(table, labels)
    splits = []
    for (train, test), own_seed in zip(folds, draw_seeds(seed, n_folds), strict=True):
        scaler = StandardScaler().fit(table[train])  # leaves missing values out
        rows = [scaler.transform(table[part]) for part in (train, test)]
        splits.append(Split(rows[0], labels[train], rows[1], labels[test], int(labels.max()) + 1, own_seed))
    return splits


def losses_of(settings: Settings) -> dict[str, EnsembleLoss]:
    """Return independent training, and the paper's loss in the forms of its equation and of its algorithm."""
    return {
        "independent": IndependentLoss(),
        "mean": CorrelationLoss(lam=settings.lam, reduction="mean"),
        "sum": CorrelationLoss(lam=settings.lam, reduction="sum"),
    }


def fold_of(split: Split, settings: Settings, device: torch.device) -> Fold:
    """Return what a program trains on: the rows, and networks with the seed of the split."""
    x, y, *_ = split.tensors(device)
    net_seed, order_seed = draw_seeds(split.seed)
    with seeded(device, net_seed):
        nets = [mlp([x.shape[1], settings.hidden, split.n_classes]) for _ in range(settings.n_learners)]
    return Fold(x, y, None, nets, order_seed)


def train_in_chunks(
    groups: Sequence[Group],
    settings: Settings,
    *,
    on_epoch: Callable[[slice, int, GroupedEnsembles], None] | None = None,
    tick: Tick = lambda _: None,
) -> Iterator[tuple[slice, GroupedEnsembles]]:
    """Train the groups, as many at a time as suits the device; give the programs with the places of their groups."""
    largest = max(len(cast(Fold, group.fold).y) for group in groups)
    schedule = Schedule(
        settings.epochs,
        math.ceil(largest / settings.batch_size),
        settings.learning_rate,
        settings.weight_decay,
    )
    numbers = len(groups[0].fold.networks) * settings.batch_size * settings.hidden
    size = max((_MOST_ON_CPU if groups[0].fold.device.type == "cpu" else _MOST_ON_GPU) // numbers, 1)
    for start in range(0, len(groups), size):
        places = slice(start, min(start + size, len(groups)))

        def watch(epoch: int, program: GroupedEnsembles, places: slice = places) -> None:
            if on_epoch is not None:
                on_epoch(places, epoch, program)
            done = places.start + (places.stop - places.start) * epoch / settings.epochs
            tick(done / len(groups))

        yield places, fit_groups(groups[places], schedule, on_epoch=watch)


class _Watch:
    """The errors of each group on its test rows, in percent: after each epoch, and through read-outs at some."""

    def __init__(self, tests: Sequence[tuple[Tensor, Tensor]], settings: Settings) -> None:
        self.tests, self.settings = tests, settings
        self.raw = np.full((len(tests), settings.epochs), np.nan)
        self.read = np.full((len(tests), settings.epochs), np.nan)

    def __call__(self, places: slice, epoch: int, program: GroupedEnsembles) -> None:
        x, y = zip(*self.tests[places], strict=True)
        proba = [logits.softmax(-1) for logits in program.logits(x)]
        self.raw[places, epoch - 1] = _errors(proba, y)
        if epoch % self.settings.read_every == 0 or epoch == self.settings.epochs:
            self.read[places, epoch - 1] = _errors(program.proba(x), y)


def fixed_losses(splits: Sequence[Split], settings: Settings, device: torch.device, tick: Tick) -> Rows:
    """Return the errors of the losses that need no choice, with and without read-out, from one program."""
    losses = losses_of(settings)
    folds = [fold_of(split, settings, device) for split in splits]
    groups = [Group(fold, loss) for fold in folds for loss in losses.values()]
    tests = [split.tensors(device)[2:] for split in splits for _ in losses]
    watch = _Watch(tests, settings)
    for _ in train_in_chunks(groups, settings, on_epoch=watch, tick=tick):
        pass
    rows = {}
    for c, name in enumerate(losses):
        raw, read = (errors[c :: len(losses)] for errors in (watch.raw, watch.read))
        rows[name] = _over_epochs(raw)
        if name != "independent":  # its outputs are probabilities as they are
            rows[f"{name}, read-out"] = _over_epochs(read)
    return rows


def searched(splits: Sequence[Split], settings: Settings, device: torch.device, tick: Tick) -> Rows:
    """Return the errors with the diversity chosen by folds inside each training part, then trained on all of it."""
    losses = [IndependentLoss(), *map(CorrelationLoss, settings.diversities)]
    inner = [_splits(s.table, s.labels, settings.inner_folds, s.seed) for s in splits]
    flat = [split for own in inner for split in own]
    groups = [Group(fold, loss) for fold in (fold_of(s, settings, device) for s in flat) for loss in losses]
    tests = [split.tensors(device)[2:] for split in flat for _ in losses]
    errors = np.empty(len(groups))
    for places, program in train_in_chunks(groups, settings, tick=lambda share: tick(0.9 * share)):
        x, y = zip(*tests[places], strict=True)
        errors[places] = _errors(program.proba(x), y)
    votes = -errors.reshape(len(splits), settings.inner_folds, len(losses)).swapaxes(1, 2)
    share = 1 / (settings.inner_folds - 1)
    chosen = [choose_diversity(own, share).chosen for own in votes]
    groups = [
        Group(fold_of(s, settings, device), losses[best]) for s, best in zip(splits, chosen, strict=True)
    ]
    watch = _Watch([split.tensors(device)[2:] for split in splits], settings)
    for _ in train_in_chunks(groups, settings, on_epoch=watch, tick=lambda share: tick(0.9 + 0.1 * share)):
        pass
    row = _over_epochs(watch.read)
    row["diversity"] = [None if best == 0 else settings.diversities[best - 1] for best in chosen]
    return {"searched": row}


def filled(table: FloatArray, device: torch.device) -> Tensor:
    """Return a standardised table with missing values at the mean."""
    return torch.as_tensor(np.nan_to_num(table), dtype=torch.float32, device=device)


def _errors(proba: Sequence[Tensor], targets: Sequence[Tensor]) -> list[float]:
    """Return the errors of the averaged probabilities, (N, n, m) for each group, in percent."""
    wrong = [(p.mean(0).argmax(-1) != y).double().mean() for p, y in zip(proba, targets, strict=True)]
    return (100 * torch.stack(wrong)).tolist()


def _over_epochs(errors: FloatArray) -> dict[str, list[Any]]:
    """Return the error after the last epoch, and the least of those looked at."""
    return {"error": errors[:, -1].tolist(), "best_test": np.nanmin(errors, axis=1).tolist()}
