"""What groups of ensembles train on: rows held in memory, or batches that any iterable yields.

Notation: K folds, N networks in each, B samples in a batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["BatchFold", "Fold", "GroupBatch", "RowBatches", "StreamedBatches", "can_train_together"]

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Fold(NamedTuple):
    """Rows in memory to train on, and the networks to start from.

    Each epoch draws a new order of the rows and splits it into ``Schedule.n_batches`` batches.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs, on the device to train on.
    y : Tensor, shape (n,)
        Classes as integers.
    sample_weight : Tensor, shape (n,), or None
        Weights of the rows.
    networks : sequence of Module
        One network for each learner. Copies are trained.
    random_state : int, default=0
        Seed of the order of the rows.

    Examples
    --------
    >>> from counterpoint.training import mlp
    >>> fold = Fold(torch.randn(20, 4), torch.arange(20) % 2, None, [mlp([4, 8, 2]) for _ in range(3)])
    >>> fold.x.shape, len(fold.networks)
    (torch.Size([20, 4]), 3)
    """

    x: Tensor
    y: Tensor
    sample_weight: Tensor | None
    networks: Sequence[nn.Module]
    random_state: int = 0

    @property
    def device(self) -> torch.device:
        """The device to train on."""
        return self.x.device


class BatchFold(NamedTuple):
    """Batches to train on, and the networks to start from.

    Parameters
    ----------
    batches : iterable
        Yields ``(x, y)`` or ``(x, y, sample_weight)`` and can be iterated over once per epoch: a ``DataLoader``, a list
        of batches, or :class:`~counterpoint.vision.ImageBatches`. ``x`` may be a list with one view for each network.
    networks : sequence of Module
        One network for each learner, on the device to train on. Copies are trained.
    random_state : int, default=0
        Seed of torch's global generator during training, from which dropout draws.

    Examples
    --------
    >>> batches = [(torch.randn(8, 3, 6, 6), torch.arange(8) % 2) for _ in range(2)]
    >>> networks = [nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)) for _ in range(3)]
    >>> len(BatchFold(batches, networks).networks)
    3
    """

    batches: Iterable[Any]
    networks: Sequence[nn.Module]
    random_state: int = 0

    @property
    def device(self) -> torch.device:
        """The device to train on."""
        return next(self.networks[0].parameters()).device


class GroupBatch(NamedTuple):
    """One batch of each fold."""

    x: Tensor  # (K, B, ...), or (K N, B, ...) where each network has a view of its own
    views: bool
    y: Tensor  # (K, B) or (K, B, m)
    sample_weight: Tensor | None  # (K, B)


class RowBatches:
    """The batches of folds in memory; smaller ones are padded with rows of weight zero."""

    def __init__(self, folds: Sequence[Fold], n_batches: int) -> None:
        self.device = folds[0].device
        self.orders = [torch.Generator().manual_seed(fold.random_state) for fold in folds]
        self.sizes = [len(fold.y) for fold in folds]
        pad = nn.utils.rnn.pad_sequence
        self.x = pad([fold.x for fold in folds], batch_first=True)
        self.y = pad([fold.y for fold in folds], batch_first=True)
        self.weighted = any(fold.sample_weight is not None for fold in folds)
        self.sample_weight = pad([_weights(fold) for fold in folds], batch_first=True)
        places = _places(self.sizes, n_batches)  # (steps, K, B)
        self.places, self.padded = places.clamp(min=0), (places < 0).to(self.device)
        # A step is as wide as its largest batch, so that a single fold is padded only where a step has no rows at all.
        sizes = (places >= 0).sum(2)  # (steps, K)
        widths = sizes.amax(1).clamp(min=1)
        self.width = int(widths.max())
        self.steps = list(zip(widths.tolist(), (sizes == widths[:, None]).all(1).tolist(), strict=True))

    def __iter__(self) -> Iterator[GroupBatch]:
        drawn = zip(self.sizes, self.orders, strict=True)
        orders = [torch.randperm(size, generator=order) for size, order in drawn]
        rows = nn.utils.rnn.pad_sequence(orders, batch_first=True).expand(len(self.places), -1, -1)
        rows = rows.gather(2, self.places).to(self.device)  # (steps, K, B)
        folds = torch.arange(len(self.sizes), device=self.device)[:, None]
        for step, (width, full) in enumerate(self.steps):
            at = (folds, rows[step, :, :width])
            weight = None
            if self.weighted or not full:
                weight = self.sample_weight[at].masked_fill(self.padded[step, :, :width], 0.0)
            yield GroupBatch(self.x[at], False, self.y[at], weight)


class StreamedBatches:
    """The batches of several iterables side by side, moved to the device."""

    def __init__(self, folds: Sequence[BatchFold]) -> None:
        self.folds, self.device = folds, folds[0].device

    def __iter__(self) -> Iterator[GroupBatch]:
        step = 0
        try:
            for batches in zip(*(fold.batches for fold in self.folds), strict=True):
                yield self._joined([self._checked(batch) for batch in batches])
                step += 1
        except ValueError as error:
            if "zip()" not in str(error):
                raise
            raise ValueError("`batches` must yield the same number of batches in each fold.") from None
        if not step:
            raise ValueError("`batches` must yield at least one batch; got none.")

    def _checked(self, batch: Any) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """Return the views of a batch, its targets and its sample weights."""
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise TypeError(
                f"`batches` must yield (x, y) or (x, y, sample_weight); got {type(batch).__name__}."
            )
        x, y, *weight = batch
        views = list(x) if isinstance(x, tuple | list) else [x]
        for part in (*views, y, *weight):
            if not isinstance(part, Tensor):
                raise TypeError(f"`batches` must yield tensors; got {type(part).__name__}.")
        if len(views) not in (1, len(self.folds[0].networks)):
            raise ValueError(
                f"`batches` must yield one view for all networks, or one for each of the "
                f"{len(self.folds[0].networks)}; got {len(views)}."
            )
        return views, y, weight[0] if weight else None

    def _joined(self, batches: Sequence[tuple[list[Tensor], Tensor, Tensor | None]]) -> GroupBatch:
        shapes = {(len(views), views[0].shape, y.shape) for views, y, _ in batches}
        if len(shapes) > 1:
            sizes = sorted({len(y) for _, y, _ in batches})
            raise ValueError(
                f"`batches` must yield batches of one shape in all folds at each step; got the sizes {sizes}."
            )
        weights = [weight for _, _, weight in batches]
        known = [weight for weight in weights if weight is not None]
        if len(known) not in (0, len(weights)):
            raise ValueError("`batches` must yield sample weights in all folds or in none; got both.")
        return GroupBatch(
            self._stack([view for views, _, _ in batches for view in views]),
            len(batches[0][0]) > 1,
            self._stack([y for _, y, _ in batches]),
            self._stack(known) if known else None,
        )

    def _stack(self, tensors: Sequence[Tensor]) -> Tensor:
        moved = [tensor.to(self.device, non_blocking=True) for tensor in tensors]
        return moved[0][None] if len(moved) == 1 else torch.stack(moved)


def can_train_together(folds: Sequence[Fold], n_batches: int) -> bool:
    """Return True if the folds can train as one program.

    Folds of unequal size are padded, and padding would enter the statistics of batch normalisation.

    Examples
    --------
    >>> def fold(n, *layers):
    ...     return Fold(torch.zeros(n, 4), torch.zeros(n), None, [nn.Sequential(nn.Linear(4, 2), *layers)])
    >>> can_train_together([fold(10), fold(11)], n_batches=2)
    True
    >>> can_train_together([fold(10, nn.BatchNorm1d(2)), fold(11, nn.BatchNorm1d(2))], n_batches=2)
    False
    """
    networks = (network for fold in folds for network in fold.networks)
    if not any(isinstance(part, _BATCH_NORMS) for network in networks for part in network.modules()):
        return True
    sizes = [len(fold.y) for fold in folds]
    return len(set(sizes)) == 1 and sizes[0] >= n_batches


def _places(sizes: Sequence[int], n_batches: int) -> Tensor:
    """Return the place of each entry in the order of its fold, (steps, K, B); -1 where a batch is padded."""
    parts = [torch.arange(size).tensor_split(n_batches) for size in sizes]
    filled = [nn.utils.rnn.pad_sequence(list(p), batch_first=True, padding_value=-1) for p in parts]
    widest = max(part.shape[1] for part in filled)
    return torch.stack([nn.functional.pad(part, (0, widest - part.shape[1]), value=-1) for part in filled], 1)


def _weights(fold: Fold) -> Tensor:
    if fold.sample_weight is not None:
        return fold.sample_weight
    return torch.ones(len(fold.y), dtype=fold.x.dtype, device=fold.x.device)
