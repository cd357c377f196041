"""Splits of a table, and programs that train an ensemble on each of many splits.

All ensembles of a program train side by side. A CPU works faster if the outputs of the hidden layers stay in its cache,
and a GPU has to hold them in memory, so long lists of ensembles are cut into chunks. Each ensemble trains as if it were
alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from counterpoint.training import Fold, Group, GroupedEnsembles, Schedule, fit_groups, mlp, seeded

__all__ = ["Split", "draw_seeds", "fold_of", "to_tensor", "train_in_chunks"]

# Numbers in the widest layers of a program: on a CPU they fit the cache, on a GPU the memory.
_MOST_ON_CPU, _MOST_ON_GPU = 2**20, 2**29


class Split(NamedTuple):
    """Training and test rows of a table, standardised by the training rows; NaN where a value is missing."""

    table: NDArray[np.floating]  # (n, n_features)
    labels: NDArray[np.int64]  # (n,)
    test_table: NDArray[np.floating]
    test_labels: NDArray[np.int64]
    n_classes: int
    seed: int

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return training rows, training labels, test rows and test labels, with missing values at the mean, 0."""
        x, test_x = (to_tensor(table, device) for table in (self.table, self.test_table))
        y, test_y = (torch.as_tensor(codes, device=device) for codes in (self.labels, self.test_labels))
        return x, y, test_x, test_y


def to_tensor(table: NDArray[np.floating], device: torch.device) -> Tensor:
    """Return a standardised table in single precision, with missing values at the mean, 0."""
    return torch.as_tensor(np.nan_to_num(table), dtype=torch.float32, device=device)


def draw_seeds(seed: int, count: int) -> list[int]:
    """Return seeds that depend on one seed.

    Examples
    --------
    >>> draw_seeds(0, 2) == draw_seeds(0, 3)[:2]
    True
    """
    seeds: list[int] = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=count).tolist()
    return seeds


def fold_of(split: Split, n_learners: int, hidden: int, device: torch.device) -> Fold:
    """Return what a program trains on: the training rows, and new networks from the seed of the split."""
    x, y, *_ = split.tensors(device)
    network_seed, order_seed = draw_seeds(split.seed, 2)
    with seeded(device, network_seed):
        networks: list[nn.Module] = [mlp([x.shape[1], hidden, split.n_classes]) for _ in range(n_learners)]
    return Fold(x, y, None, networks, order_seed)


def train_in_chunks(
    groups: Sequence[Group],
    schedule: Schedule,
    *,
    on_epoch: Callable[[slice, int, GroupedEnsembles], None] | None = None,
) -> Iterator[tuple[slice, GroupedEnsembles]]:
    """Train groups, as many at a time as suit the device.

    Parameters
    ----------
    groups : sequence of Group
        The ensembles, all of networks of one shape.
    schedule : Schedule
        How to train.
    on_epoch : callable, optional
        Called after each epoch with the positions of the groups, the number of epochs and the program.

    Yields
    ------
    tuple of slice and GroupedEnsembles
        The positions of some groups, and the program that has trained them.
    """
    folds = [cast(Fold, group.fold) for group in groups]  # rows in memory
    networks, device = folds[0].networks, folds[0].x.device
    largest = max(len(fold.y) for fold in folds)
    widest = max(size for parameter in networks[0].parameters() for size in parameter.shape)
    numbers = len(networks) * -(-largest // (schedule.n_batches or 1)) * widest
    count = max((_MOST_ON_CPU if device.type == "cpu" else _MOST_ON_GPU) // numbers, 1)
    for start in range(0, len(groups), count):
        chunk = slice(start, min(start + count, len(groups)))

        def report(epoch: int, program: GroupedEnsembles, chunk: slice = chunk) -> None:
            if on_epoch is not None:
                on_epoch(chunk, epoch, program)

        yield chunk, fit_groups(groups[chunk], schedule, on_epoch=report)
