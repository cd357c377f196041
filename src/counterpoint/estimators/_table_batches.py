"""Rows of a table in batches."""

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["TableBatches"]

Batch = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


class TableBatches:
    """Rows in a new order each epoch, split into batches whose sizes differ by at most one.

    Parameters
    ----------
    x, y : Tensor
        Inputs (n, n_features) and classes (n,).
    sample_weight : Tensor or None
        Weights (n,).
    batch_size : int
        Largest size of a batch.
    generator : torch.Generator
        Source of the order.

    Examples
    --------
    >>> x, y = torch.randn(10, 2), torch.arange(10) % 2
    >>> batches = TableBatches(x, y, None, batch_size=4, generator=torch.Generator().manual_seed(0))
    >>> [len(y) for _, y in batches]
    [4, 3, 3]
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        sample_weight: Tensor | None,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.tensors = (x, y) if sample_weight is None else (x, y, sample_weight)
        self.n_batches = -(-len(y) // batch_size)
        self.generator = generator

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[Batch]:
        order = torch.randperm(len(self.tensors[1]), generator=self.generator)
        for part in order.tensor_split(self.n_batches):
            rows = part.to(self.tensors[0].device)
            yield tuple(tensor[rows] for tensor in self.tensors)  # type: ignore[misc]
