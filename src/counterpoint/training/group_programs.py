"""The programs that train groups of ensembles: all groups as one, or on the CPU those of a fold each.

Operations on many networks at once pay off up to a size. Beyond it, threads that share an operation wait for each other
at its end, and its numbers do not fit into the cache of a core. So several programs train side by side, each by a
thread that waits for no other until the epoch ends. Their weights are views of those of all groups.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint.training.ensemble_loss import EnsembleLoss
from counterpoint.training.group_batches import Fold, GroupBatch
from counterpoint.training.group_steps import GroupLoss, Steps, warmup_loss
from counterpoint.training.grouped_ensembles import Group, GroupedEnsembles
from counterpoint.training.precision import autocast
from counterpoint.training.threads import Threads, work_of

__all__ = ["Program", "split_groups"]

# Multiplications of a layer, in a forward pass, that a program has at least if there are several.
_WORK_OF_A_PROGRAM = 2**22


class Program:
    """Groups that train as one batched program.

    Parameters
    ----------
    grouped : GroupedEnsembles
        The groups.
    batches : iterable of GroupBatch
        The batches of an epoch.
    steps : Steps
        The optimizer.
    precision : str
        As for :func:`~counterpoint.training.fit_groups`.
    """

    def __init__(
        self, grouped: GroupedEnsembles, batches: Iterable[GroupBatch], steps: Steps, precision: str
    ) -> None:
        self.grouped, self.batches, self.steps, self.precision = grouped, batches, steps, precision

    def train_epoch(
        self,
        epoch: int,
        threads: Threads | None = None,
        on_step: Callable[[Tensor, Tensor], None] | None = None,
    ) -> None:
        """Train for an epoch, with as many threads as its operations occupy if ``threads`` is given."""
        grouped, device = self.grouped, self.grouped.device
        losses = [_loss_in(group, epoch) for group in grouped.groups]
        group_loss = GroupLoss(losses, grouped.n_learners, device)
        with autocast("float32", device), torch.enable_grad():
            lower = autocast(self.precision, device)
            for batch in self.batches:
                if threads is not None and not threads.chosen:
                    threads.choose(work_of(grouped.networks, batch.x[0]))
                target, weight = _per_group(batch, grouped.fold_of)
                with lower:
                    logits = grouped.forward(batch)
                    loss = group_loss(logits, target, weight)
                self.steps.take(loss)
                if on_step is not None:
                    on_step(logits.detach(), target)


def split_groups(grouped: GroupedEnsembles, batch: int, n_threads: int) -> list[GroupedEnsembles]:
    """Return the groups in parts to train side by side, or all as they are if they must train as one program.

    A part has the groups of one fold, and its weights are views of those of all groups. Folds that are left over when
    each thread has as many as the others are split among the threads.
    """
    if not _can_split(grouped):
        return [grouped]
    folds = cast(list[Fold], grouped.folds)
    rows = folds[0].x.new_empty(batch, *folds[0].x.shape[1:])
    work_of_a_group = work_of(grouped.networks, rows) // len(grouped.groups)
    n_whole = len(folds) - len(folds) % n_threads
    parts: list[list[int]] = []
    for k in range(len(folds)):
        own = (grouped.fold_of == k).nonzero()[:, 0].tolist()
        most = len(own) // 2  # so that each network of a fold is in a stack with others
        wanted = 1 if k < n_whole else n_threads
        count = min(wanted, work_of_a_group * len(own) // _WORK_OF_A_PROGRAM, most)
        if not count:
            return [grouped]
        parts += [part.tolist() for part in np.array_split(own, count)]
    return [_part(grouped, part) for part in parts]


def _can_split(grouped: GroupedEnsembles) -> bool:
    """Return True if parts train as the whole: each has networks of all stacks, and nothing is drawn at random."""
    networks, n, n_groups = grouped.networks, grouped.n_learners, len(grouped.groups)
    return (
        grouped.device.type == "cpu"
        and networks.is_stacked
        and all(len({k % n for k in part.places}) * n_groups == len(part.places) for part in networks.parts)
        and all(next(part.ensemble.body.buffers(), None) is None for part in networks.parts)  # statistics
        and not any(isinstance(layer, nn.Dropout | nn.Dropout2d) for layer in networks.modules())
        and all(type(group.loss).__module__.startswith("counterpoint.training.") for group in grouped.groups)
    )


def _part(whole: GroupedEnsembles, places: Sequence[int]) -> GroupedEnsembles:
    """Return some groups of one fold, with views of the weights of the whole."""
    part, n = GroupedEnsembles([whole.groups[g] for g in places]), whole.n_learners
    for large, small in zip(whole.networks.parts, part.networks.parts, strict=True):
        # In a stack, the networks of a fold are neighbours, in the order of their groups.
        first = places[small.places[0] // n] * n + small.places[0] % n
        start = large.places.index(first)
        for theirs, ours in zip(large.parameters(), small.parameters(), strict=True):
            size = len(theirs) // len(large.places)  # entries of a network, in the first axis
            ours.data = theirs.data[start * size : start * size + len(ours)]
    return part


def _loss_in(group: Group, epoch: int) -> EnsembleLoss:
    return group.loss if epoch >= group.warmup_epochs else warmup_loss(group.loss)


def _per_group(batch: GroupBatch, fold_of: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the targets and the sample weights of each group."""
    weight = None if batch.sample_weight is None else batch.sample_weight[fold_of]
    return batch.y[fold_of], weight
