r"""The cross-entropy with averaged logits and its gradient, in few operations, since small networks are bound by them.

Notation: N learners, B samples, m classes. Columns are logits ``(N, m, B)``; their mean over the learners is the pool.
"""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from counterpoint.training.columns import check_classes, indicators

__all__ = ["pooled_cross_entropy"]


def pooled_cross_entropy(columns: Tensor, labels: Tensor, d: float) -> Tensor:
    """Return 1 - d times the mean cross-entropy of the learners plus d times that of their pool, for 0 < d < 1."""
    try:
        return _PooledCrossEntropy.apply(columns, labels, d)  # type: ignore[no-any-return, no-untyped-call]
    except (IndexError, RuntimeError):
        check_classes(labels, columns.shape[1])
        raise


class _PooledCrossEntropy(torch.autograd.Function):
    r"""The loss and its gradient, :math:`((1 - d) p_i + d \bar p - y) / (N B)`."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, labels: Tensor, d: float) -> Tensor:
        n, _, batch = columns.shape
        weights, minus = _constants(n, batch, d, columns.dtype, columns.device)
        both = torch.cat([columns, columns.mean(0, keepdim=True)])  # the pool comes last
        proba, index = both.softmax(1), labels.expand(n + 1, 1, -1)
        loss = proba.gather(1, index).log_().flatten().dot(weights)
        if not loss.is_cpu or not math.isfinite(loss.item()):  # a probability may be too small for its type
            loss = both.log_softmax(1).gather(1, index).flatten().dot(weights)
        if ctx.needs_input_grad[0]:
            proba.mul_(d / (n * batch))
            gradient = torch.add(proba[n:], proba[:n], alpha=(1 - d) / d)
            ctx.save_for_backward(gradient.scatter_add_(1, index[:n], minus), columns, labels)
            ctx.d = d
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        gradient, columns, labels = ctx.saved_tensors
        if (
            torch.is_grad_enabled()
        ):  # a graph of the gradient is requested: compute it again by differentiable operations
            n, _, batch = columns.shape
            pool = columns.mean(0, keepdim=True).softmax(1)
            moved = (1 - ctx.d) * columns.softmax(1) + ctx.d * pool - indicators(labels, columns)
            gradient = moved / (n * batch)
        return gradient * grad, None, None


@lru_cache(maxsize=32)
def _constants(
    n: int, batch: int, d: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the weights of learners and pool for each sample, and the term of the truth in the gradient."""
    weights = torch.tensor([-(1 - d) / (n * batch)] * n + [-d / batch], dtype=dtype, device=device)
    minus = torch.full((1,), -1 / (n * batch), dtype=dtype, device=device)
    return weights.repeat_interleave(batch), minus.expand(n, 1, batch)
