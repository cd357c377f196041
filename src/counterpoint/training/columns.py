"""Logits, targets and sample weights as the losses take them.

Notation: N learners, B samples, m classes. Logits are ``(..., N, B, m)``: leading axes are groups that train side by
side (folds, diversities), each with a loss of its own. Inside, the batch comes last, ``(..., N, m, B)``: sums over it
then run along memory, and a softmax over few classes is several times faster. Stacked networks return their logits
in this order already.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "average",
    "check_axes",
    "check_classes",
    "check_sample_weight",
    "check_tensor",
    "class_columns",
    "indicators",
    "is_one_hot",
    "number_columns",
    "of_truth",
    "one_hot",
    "shares",
    "two_columns",
    "wide",
]


def class_columns(logits: Tensor, activation: str = "softmax") -> Tensor:
    """Return ``(..., N, B, m)`` as ``(..., N, m, B)`` in memory, as :func:`wide` makes them."""
    return wide(logits, activation).mT.contiguous()


def two_columns(logits: Tensor, activation: str = "softmax") -> Tensor:
    """Return one column as two: class 0 has the logit 0, or the rest of the probability.

    Parameters
    ----------
    logits : Tensor, shape (..., n_outputs)
        Returned unchanged if there is more than one output.
    activation : {"softmax", "identity", "regression"}, default="softmax"
        Whether the column is a logit, the probability of class 1, or a number, which is returned unchanged.
    """
    if logits.shape[-1] != 1 or activation == "regression":
        return logits
    return F.pad(logits, (1, 0)) if activation == "softmax" else torch.cat([1 - logits, logits], -1)


def wide(logits: Tensor, activation: str) -> Tensor:
    """Return logits or probabilities of two classes at least, or numbers, in float32 or float64."""
    check_axes(logits)
    logits = two_columns(logits, activation)
    return logits if logits.dtype == torch.float64 else logits.float()


def check_tensor(value: object, name: str) -> None:
    """Refuse anything but a tensor, such as an array."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor; got {type(value).__name__}.")


def check_axes(logits: Tensor) -> None:
    """Refuse logits without a learner axis, or with an empty axis."""
    check_tensor(logits, "logits")
    if logits.dim() < 3 or 0 in logits.shape[-3:]:
        raise ValueError(
            f"`logits` must have axes (n_learners, batch, n_classes); got shape {tuple(logits.shape)}."
        )


def is_one_hot(target: Tensor, columns: Tensor) -> bool:
    """Return True for one-hot rows (..., B, m), False for labels (..., B), given columns (..., N, m, B).

    One-hot rows have one axis more than labels. Rows that all groups share, without the axes of the groups, must be
    floating point: integers might be labels.
    """
    check_tensor(target, "target")
    n_classes, batch = columns.shape[-2:]
    shape, n_groups = target.shape, columns.dim() - 3
    rows = target.is_floating_point() or len(shape) == n_groups + 2
    needed = (batch, n_classes) if rows else (batch,)
    if shape[-len(needed) :] == needed and len(shape) <= n_groups + len(needed):
        return rows
    swapped = (
        len(shape) > n_groups and shape[n_groups] == columns.shape[-3]
    )  # the batch is where learners should be
    raise ValueError(
        f"`target` must hold {batch} labels, or rows of {n_classes} for them, as `logits`; "
        f"got {target.dtype} of shape {tuple(shape)}."
        f"{' Learners are the first axis of `logits`, before the batch: transpose it.' if swapped else ''}"
    )


def check_sample_weight(sample_weight: Tensor, batch: int, n_groups: int = 0) -> None:
    """Refuse weights that do not have one entry for each sample."""
    check_tensor(sample_weight, "sample_weight")
    if sample_weight.shape[-1:] != (batch,) or sample_weight.dim() > n_groups + 1:
        raise ValueError(
            f"`sample_weight` must hold one number for each of the {batch} samples; "
            f"got shape {tuple(sample_weight.shape)}."
        )


def one_hot(target: Tensor, columns: Tensor) -> Tensor:
    """Return the target as columns of zeros and ones.

    Parameters
    ----------
    target : Tensor, shape (..., batch) or (..., batch, n_classes)
        Labels as integers, or rows that sum to one.
    columns : Tensor, shape (..., n_learners, n_classes, batch)
        Outputs in the layout of :meth:`EnsembleLoss.transform`; it gives the type and the number of classes.

    Returns
    -------
    Tensor, shape (..., n_classes, batch)

    Examples
    --------
    >>> import torch
    >>> one_hot(torch.tensor([0, 1]), torch.zeros(3, 2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return target.mT.to(columns.dtype) if is_one_hot(target, columns) else indicators(target, columns)


def number_columns(target: Tensor, columns: Tensor) -> Tensor:
    """Return numbers (..., B), of one output, or (..., B, m) as columns (..., m, B), given columns (..., N, m, B)."""
    check_tensor(target, "target")
    n_outputs, batch = columns.shape[-2:]
    axes = target.dim() - (columns.dim() - 3)  # besides those of the groups
    if axes == 1 and n_outputs == 1 and target.shape[-1] == batch:
        return target.unsqueeze(-2).to(columns.dtype)
    if axes == 2 and target.shape[-2:] == (batch, n_outputs):
        return target.mT.to(columns.dtype)
    raise ValueError(
        f"`target` must hold {batch} numbers, or rows of {n_outputs} for them, as `logits`; "
        f"got shape {tuple(target.shape)}."
    )


def indicators(labels: Tensor, columns: Tensor) -> Tensor:
    """Return labels (..., B) as columns of zeros and ones (..., m, B)."""
    n_classes, batch = columns.shape[-2:]
    try:
        zeros = columns.new_zeros(*labels.shape[:-1], n_classes, batch)
        return zeros.scatter_(-2, labels.long().unsqueeze(-2), 1.0)
    except RuntimeError:
        check_classes(labels, n_classes)
        raise


def check_classes(labels: Tensor, n_classes: int) -> None:
    """Refuse labels out of range; called only after an operation has failed, since the check takes time."""
    bad = labels[(labels < 0) | (labels >= n_classes)]
    if bad.numel():
        raise ValueError(f"`target` must hold labels from 0 to {n_classes - 1}; got {bad[0].item()}.")


def shares(sample_weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weights, scaled to a sum of one; all zero if they are.

    They are scaled to the largest first, since sums of the smallest numbers have few digits and their squares none.
    """
    tiny = torch.finfo(dtype).tiny
    share = sample_weight.to(dtype)
    share = share / share.amax(-1, keepdim=True).clamp(min=tiny)
    return share / share.sum(-1, keepdim=True).clamp(min=tiny)


def average(per_sample: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Return the mean over the batch, (...); 0 where no sample has weight."""
    if sample_weight is None:
        return per_sample.mean(-1)
    check_sample_weight(sample_weight, per_sample.shape[-1], per_sample.dim() - 1)
    return (per_sample * shares(sample_weight, per_sample.dtype)).sum(-1)


def of_truth(log_proba: Tensor, target: Tensor) -> Tensor:
    """Return the entries of the true classes, of (..., N, m, B)."""
    if is_one_hot(target, log_proba):
        return (log_proba * target.mT.to(log_proba).unsqueeze(-3)).sum(-2)
    *groups, n_learners, n_classes, batch = log_proba.shape
    index = target.long()[..., None, None, :].expand(*groups, n_learners, 1, batch)
    try:
        return log_proba.gather(-2, index).squeeze(-2)
    except RuntimeError:
        check_classes(target, n_classes)
        raise
