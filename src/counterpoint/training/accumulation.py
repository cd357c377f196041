"""The gradient of a batch that is too large for one pass, right for any loss.

A loss of the whole batch, such as a correlation, is not the mean of the losses of its parts, so adding up the gradients
of parts trains another loss. Here the outputs of all parts come first, without gradients; the loss of all together
gives the gradient of each output; and a second pass carries these back to the weights, part by part.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from counterpoint.training.batches import forward_batch
from counterpoint.training.parallel import ParallelEnsemble

__all__ = ["accumulate_gradients", "joined_targets"]


def accumulate_gradients(
    ensemble: nn.Module, loss: Callable[..., Tensor], batches: Iterable[Sequence[Any]]
) -> tuple[Tensor, Tensor]:
    """Add the gradients of the loss of several batches taken as one, with the memory of one.

    Parameters
    ----------
    ensemble : Module
        Any module that returns ``(n_learners, batch, n_classes)``.
    loss : callable
        The loss of logits, targets and, if the batches have them, weights.
    batches : iterable of (x, y) or (x, y, sample_weight)
        The parts of the batch, on the device. An ``x`` that is a mapping is given by name, as in :func:`fit`.

    Returns
    -------
    logits : Tensor, shape (n_learners, n_samples, n_classes)
        The outputs, detached.
    loss : Tensor
        The loss of all samples, detached.

    Notes
    -----
    Gradients are exact for every loss, at the cost of a second forward pass, as in GradCache (Gao et al. 2021). Dropout
    is the same in both passes, and statistics of batch normalisation, which are those of a part, are updated once.

    Examples
    --------
    >>> from counterpoint.training import CorrelationLoss, Ensemble
    >>> ensemble = Ensemble([nn.Linear(4, 3) for _ in range(5)])
    >>> x, y = torch.randn(32, 4), torch.arange(32) % 3
    >>> logits, loss = accumulate_gradients(ensemble, CorrelationLoss(), zip(x.split(8), y.split(8)))
    >>> torch.allclose(loss, CorrelationLoss()(ensemble(x), y), atol=1e-6)
    True
    """
    parts = [list(batch) for batch in batches]
    if not parts:
        raise ValueError("`batches` must yield at least one batch; got none.")
    device = next(ensemble.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        before = [buffer.clone() for buffer in ensemble.buffers()]
        pieces = [forward_batch(ensemble, x, "batches") for x, *_ in parts]
        for buffer, value in zip(ensemble.buffers(), before, strict=True):
            buffer.copy_(value)
    if len(shapes := {tuple(piece.shape[2:]) for piece in pieces}) > 1:
        raise ValueError(
            "`batches` must yield samples of one shape, to be accumulated; got outputs of "
            f"{' and '.join(map(str, sorted(shapes)))} for a sample."
        )
    logits = torch.cat(pieces, 1).requires_grad_()
    target, weight = joined_targets(parts)
    value = loss(logits, target, *weight)
    (gradient,) = torch.autograd.grad(value, logits)
    rows = gradient.split_with_sizes([len(y) for _, y, *_ in parts], 1)
    for number, ((x, *_), own) in enumerate(zip(parts, rows, strict=True), 1):
        with _quiet(ensemble) if number < len(parts) else nullcontext():
            forward_batch(ensemble, x, "batches").backward(own)
    return logits.detach(), value.detach()


def joined_targets(parts: Sequence[Sequence[Any]]) -> tuple[Tensor, list[Tensor]]:
    """Return the targets of all parts as one, and their weights if there are any; none stand for ones."""
    if len(parts) == 1:
        return parts[0][1], list(parts[0][2:])
    target, given = torch.cat([part[1] for part in parts]), [part[2:] for part in parts]
    if not any(given):
        return target, []
    like = max((one[0] for one in given if one), key=Tensor.dim)  # of tokens, if some are
    return target, [torch.cat([_weight(part, like) for part in parts])]


def _weight(part: Sequence[Any], like: Tensor) -> Tensor:
    """Return the weights of a part, with the dtype and as many axes as others."""
    weight: Tensor = part[2].to(like) if len(part) > 2 else like.new_ones(len(part[1]))
    return weight if weight.dim() == like.dim() else weight[:, None].expand(part[1].shape[:2])


def _quiet(ensemble: nn.Module) -> AbstractContextManager[Any]:
    """Return a context in which processes do not exchange gradients yet."""
    inner = ensemble.part if isinstance(ensemble, ParallelEnsemble) else ensemble
    return inner.no_sync() if isinstance(inner, DistributedDataParallel) else nullcontext()
