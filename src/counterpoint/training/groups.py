"""Many ensembles trained as one batched program."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import repeat
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from counterpoint._validation import check_whole
from counterpoint.training.device import seeded
from counterpoint.training.group_batches import (
    BatchFold,
    Fold,
    RowBatches,
    StreamedBatches,
    can_train_together,
)
from counterpoint.training.group_programs import Program, split_groups
from counterpoint.training.group_steps import Steps, adamw, trained_parameters, warmup_loss
from counterpoint.training.grouped_ensembles import Group, GroupedEnsembles
from counterpoint.training.precision import autocast
from counterpoint.training.threads import Threads, most_threads

__all__ = [
    "BatchFold",
    "Fold",
    "Group",
    "GroupedEnsembles",
    "Schedule",
    "can_train_together",
    "fit_groups",
    "warmup_loss",
]

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 5.0  # of progress, where there is no terminal


@dataclass(frozen=True)
class Schedule:
    """Length of the training, and the settings of AdamW.

    Parameters
    ----------
    epochs : int
        Number of passes over the data.
    n_batches : int, optional
        Number of batches in an epoch, for rows in memory. None where folds have batches of their own.
    learning_rate, weight_decay : float, default=0.003, 0.1
        Settings of AdamW; unused where :func:`fit_groups` is given another optimizer.

    Examples
    --------
    >>> Schedule(epochs=5, n_batches=4)
    Schedule(epochs=5, n_batches=4, learning_rate=0.003, weight_decay=0.1)
    """

    epochs: int
    n_batches: int | None = None
    learning_rate: float = 0.003
    weight_decay: float = 0.1


def fit_groups(
    groups: Sequence[Group],
    schedule: Schedule,
    *,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    scheduler: Callable[[Optimizer], LRScheduler] | None = None,
    precision: str = "float32",
    on_step: Callable[[Tensor, Tensor], None] | None = None,
    on_epoch: Callable[[int, GroupedEnsembles], None] | None = None,
    progress: bool = False,
) -> GroupedEnsembles:
    """Train many ensembles as one batched program.

    Parameters
    ----------
    groups : sequence of Group
        The ensembles, with equal numbers of networks. The networks of the folds are left as they are.
    schedule : Schedule
        Length of the training and settings of the default optimizer.
    optimizer : callable, optional
        Makes the optimizer of the parameters of all groups; by default AdamW with the settings of the schedule. Only
        the default supports groups with a weight decay of their own. Each group trains as if it were alone if the
        optimizer treats every entry alike, as SGD and Adam do.
    scheduler : callable, optional
        Makes a learning rate scheduler of the optimizer. It steps after each batch.
    precision : {"float32", "bf16", "auto"}, default="float32"
        ``"bf16"`` runs the networks under autocast to bfloat16, as ``"auto"`` does on CUDA.
    on_step : callable, optional
        Called after each step with the logits (G, N, B, m), detached, and the targets (G, B) or (G, B, m).
    on_epoch : callable, optional
        Called after each epoch with the number of epochs so far and the ensembles as they are.
    progress : bool, default=False
        Whether to show progress on stderr: a bar over the epochs in a terminal, else a line every few seconds.

    Returns
    -------
    GroupedEnsembles
        The trained ensembles.

    Raises
    ------
    FloatingPointError
        If a weight becomes NaN or infinite.

    Notes
    -----
    The loss is the sum of the losses of the groups, each of which depends on the networks of its own group. Rows in
    memory may differ in number from fold to fold: smaller batches are padded with rows of weight zero, and a batch
    without rows has loss 0. Padding would enter the statistics of batch normalisation, so networks with it need folds
    of one size (:func:`can_train_together`). Folds with batches of their own must yield batches of one shape.

    On the CPU, many groups on rows in memory train as several programs, which the threads share. This needs the default
    optimizer, a loss of this package, and networks without dropout and batch normalisation.

    Examples
    --------
    >>> from counterpoint.training import DiversityLoss, IndependentLoss, mlp
    >>> x = torch.linspace(-1, 1, 40)[:, None]
    >>> y = (x[:, 0] > 0).long()
    >>> fold = Fold(x, y, None, [mlp([1, 4, 2]) for _ in range(3)], random_state=0)
    >>> groups = [Group(fold, IndependentLoss()), Group(fold, DiversityLoss())]
    >>> trained = fit_groups(groups, Schedule(epochs=5, n_batches=4, learning_rate=0.05))
    >>> [vote.shape for vote in trained.votes(x)]
    [torch.Size([40, 2]), torch.Size([40, 2])]

    Convolutional networks, on batches that an iterable yields:

    >>> batches = [(torch.randn(8, 3, 6, 6), torch.arange(8) % 2) for _ in range(2)]
    >>> networks = [nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)) for _ in range(3)]
    >>> fold = BatchFold(batches, networks)
    >>> trained = fit_groups(
    ...     [Group(fold, DiversityLoss(d)) for d in (0.0, 0.9)],
    ...     Schedule(epochs=2),
    ...     optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    ... )
    >>> len(trained.ensembles())
    2
    """
    check_whole(schedule.epochs, "epochs", minimum=1)
    grouped = GroupedEnsembles(groups)
    batches, device = _batches(grouped, schedule), grouped.device
    _log.info("training %d ensembles at once for %d epochs on %s", len(groups), schedule.epochs, device)
    parts = [grouped]
    if isinstance(batches, RowBatches) and optimizer is None and scheduler is None and on_step is None:
        parts = split_groups(grouped, batches.width, most_threads())
    programs = [
        Program(
            part,
            batches if part is grouped else _batches(part, schedule),
            _steps(part, schedule, optimizer, scheduler),
            precision,
        )
        for part in parts
    ]
    with (
        seeded(device, grouped.folds[0].random_state),
        Threads(device) as threads,
        nullcontext() if len(programs) == 1 else threads.workers(len(programs)) as pool,
        autocast("float32", device),  # for on_epoch, as gradients are
        torch.enable_grad(),
    ):
        for epoch in _epochs(schedule.epochs, progress):
            if pool is None:
                programs[0].train_epoch(epoch, threads, on_step)
            else:
                list(pool.map(Program.train_epoch, programs, repeat(epoch)))
            grouped.weights_changed()
            if on_epoch is not None:
                on_epoch(epoch + 1, grouped)
    if not all(torch.isfinite(p).all() for p in grouped.networks.parameters()):
        raise FloatingPointError(
            "the weights must stay finite; got NaN or infinity. A lower learning rate may help."
        )
    return grouped


def _batches(grouped: GroupedEnsembles, schedule: Schedule) -> RowBatches | StreamedBatches:
    """Return what an epoch iterates over."""
    if isinstance(grouped.folds[0], BatchFold):
        if schedule.n_batches is not None:
            raise ValueError(f"`n_batches` must be None with a BatchFold; got {schedule.n_batches}.")
        return StreamedBatches(cast(list[BatchFold], grouped.folds))
    folds = cast(list[Fold], grouped.folds)
    n_batches = check_whole(schedule.n_batches, "n_batches", minimum=1)
    if not can_train_together(folds, n_batches):
        raise ValueError(
            "`groups` must have folds of one size, and no more batches than rows, where networks have batch "
            f"normalisation; got {sorted({len(fold.y) for fold in folds})} rows in {n_batches} batches."
        )
    return RowBatches(folds, n_batches)


def _steps(
    grouped: GroupedEnsembles,
    schedule: Schedule,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None,
    scheduler: Callable[[Optimizer], LRScheduler] | None,
) -> Steps:
    """Return the steps of the optimizer that was asked for, AdamW by default."""
    networks, own = grouped.networks, [group.weight_decay for group in grouped.groups]
    if optimizer is None:
        decays = [schedule.weight_decay if decay is None else decay for decay in own]
        each = [decay for decay in decays for _ in range(grouped.n_learners)]
        built, decay = adamw(networks, schedule.learning_rate, each)
    elif any(decay is not None for decay in own):
        raise ValueError("`weight_decay` of a group must be None where `optimizer` is given.")
    else:
        built, decay = optimizer(trained_parameters(networks)), None
    if scheduler is None or not isinstance(built, Optimizer):
        return Steps(built, None, decay)
    return Steps(built, scheduler(built), decay)


def _epochs(epochs: int, progress: bool) -> Iterator[int]:
    """Yield the numbers of the epochs, and show progress on stderr if wanted."""
    if not progress:
        yield from range(epochs)
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True, force_jupyter=False)  # a bar in a notebook would need ipywidgets
    if console.is_terminal:
        yield from track(range(epochs), "epochs", console=console, transient=True)
        return
    start = told = time.monotonic()
    for epoch in range(epochs):
        yield epoch
        now = time.monotonic()
        if now - told >= _SECONDS_BETWEEN_LINES or epoch + 1 == epochs:
            told = now
            console.print(f"epoch {epoch + 1}/{epochs}, {now - start:.0f} s", highlight=False)
