r"""The two correlations of a batch, their loss, and its backward pass.

Notation: N learners, B samples, m classes. Logits are ``(..., N, B, m)``: leading axes are groups that train side by
side (folds, diversities), each with a loss of its own. :math:`z_{nk}` is column k of learner n, centred over the batch
and of unit norm, :math:`y_k` that of the truth; ``lam`` is the paper's :math:`\lambda`.

Inside, classes come first, ``(..., m, N, B)``: sums over the batch then run along memory, and a softmax over few
classes is several times faster.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from counterpoint._validation import check_choice

__all__ = ["Correlations", "correlation_loss", "correlations"]

# A column whose spread is under this share of mean (1 - mean) counts as constant: its correlation has no
# gradient worth following, and one over its spread no bound.
_FLAT = 1e-3


class Correlations(NamedTuple):
    """The mean correlations of a batch, of the shape of the groups.

    Examples
    --------
    >>> Correlations(torch.tensor(0.5), torch.tensor(0.2)).r_ll
    tensor(0.2000)
    """

    r_tl: Tensor
    r_ll: Tensor


def correlations(outputs: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Correlations:
    r"""Return the mean truth-learner and learner-learner correlation of a batch.

    Parameters
    ----------
    outputs : Tensor, shape (..., n_learners, batch, n_classes)
        Probabilities.
    target : Tensor, shape (..., batch) or (..., batch, n_classes)
        Labels as integers, or one-hot.
    weight : Tensor, shape (..., batch), optional
        Weights of the samples.

    Returns
    -------
    Correlations
        ``r_tl`` and ``r_ll``, averaged over classes and learners or pairs. Columns that are constant are left out.

    Notes
    -----
    With unit-norm centred columns, :math:`\sum_{i<j} z_i \cdot z_j = (\|\sum_i z_i\|^2 - N) / 2`: the cost is linear
    in the number of learners. :mod:`counterpoint.measures` gives the same numbers for arrays.

    Examples
    --------
    >>> outputs = torch.tensor([[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]])
    >>> correlations(outputs, torch.tensor([0, 1])).r_tl.round(decimals=3)
    tensor(1.)
    """
    return standardise(classes_first(outputs), one_hot(target, outputs).mT, weight).means()


def correlation_loss(
    logits: Tensor,
    target: Tensor,
    *,
    lam: float | Tensor,
    reduction: str = "mean",
    outputs: str = "softmax",
    weight: Tensor | None = None,
) -> Tensor:
    r"""Return :math:`-(r_{TL} - \lambda r_{LL})` of a batch.

    Parameters
    ----------
    logits : Tensor, shape (..., n_learners, batch, n_classes)
        What the learners put out; one column (binary nets with one logit) stands for two.
    target : Tensor, shape (..., batch) or (..., batch, n_classes)
        Labels as integers, or one-hot.
    lam : float or Tensor of the shape of the groups
        The weight of the learner-learner correlation.
    reduction : {"mean", "sum"}, default="mean"
        Average the correlations, as the paper's equation, or sum them over classes, learners and pairs, as its
        algorithm.
    outputs : {"softmax", "identity"}, default="softmax"
        How logits become outputs; ``"identity"`` if they are probabilities already.
    weight : Tensor, shape (..., batch), optional
        Weights of the samples.

    Returns
    -------
    Tensor
        One loss for each group: a scalar where there are no leading axes.

    Examples
    --------
    >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]])
    >>> correlation_loss(logits, torch.tensor([0, 1]), lam=0.2)
    tensor(-0.8000)
    """
    loss, _ = loss_and_correlations(logits, target, lam, reduction, outputs, weight)
    return loss


def loss_and_correlations(
    logits: Tensor, target: Tensor, lam: float | Tensor, reduction: str, outputs: str, weight: Tensor | None
) -> tuple[Tensor, Correlations]:
    """Return the loss, and the correlations that made it, detached."""
    check_choice(reduction, "reduction", ("mean", "sum"))
    check_choice(outputs, "outputs", ("softmax", "identity"))
    logits = two_columns(logits)
    with torch.autocast(logits.device.type, enabled=False):
        logits = logits if logits.dtype == torch.float64 else logits.float()
        truth = one_hot(target, logits).mT
        if not isinstance(lam, Tensor):
            lam = logits.new_full((), lam)  # filled on the device: a copy would wait for it
        loss, r_tl, r_ll = _CorrelationFunction.apply(  # type: ignore[no-untyped-call]
            logits, truth, lam, reduction == "mean", outputs == "softmax", weight
        )
    return loss, Correlations(r_tl, r_ll)


def one_hot(target: Tensor, logits: Tensor) -> Tensor:
    """Return the target as one-hot rows (..., batch, n_classes) of the dtype of the logits."""
    batch, n_classes = logits.shape[-2:]
    if target.shape[-2:] == (batch, n_classes) and target.dim() > 1 and target.is_floating_point():
        return target.to(logits.dtype)
    if target.shape[-1:] != (batch,) or target.is_floating_point():
        raise ValueError(
            f"`target` must hold {batch} labels, or rows of {n_classes} for them, as `logits` of shape "
            f"{tuple(logits.shape)}; got {target.dtype} of shape {tuple(target.shape)}."
        )
    return F.one_hot(target.long(), n_classes).to(logits.dtype)


def two_columns(logits: Tensor) -> Tensor:
    """Return one logit as two: of class 0, always 0, and of class 1."""
    return F.pad(logits, (1, 0)) if logits.shape[-1] == 1 else logits


def classes_first(outputs: Tensor) -> Tensor:
    """Return ``(..., N, B, m)`` as ``(..., m, N, B)`` in memory."""
    return outputs.movedim(-1, -3).contiguous()


class Standardised(NamedTuple):
    """Centred columns with one over their norms, zero where they are constant; the truth of unit norm."""

    centred: Tensor  # (..., m, N, B)
    inverse_norm: Tensor  # (..., m, N, 1), 0 where constant
    truth: Tensor  # (..., m, 1, B)
    summed: Tensor  # (..., m, 1, B), the sum of the unit-norm columns
    n_defined: float | Tensor  # (...), columns with a correlation to the truth, at least 1
    n_pairs: float | Tensor  # (...), pairs of columns with a correlation, at least 1
    sum_tl: Tensor  # (...)
    sum_ll: Tensor  # (...)

    def means(self) -> Correlations:
        """Return the averages over what is defined, 0 where nothing is."""
        return Correlations(self.sum_tl / self.n_defined, self.sum_ll / self.n_pairs)


def standardise(outputs: Tensor, truth: Tensor, weight: Tensor | None) -> Standardised:
    """Centre and scale the columns (..., m, N, B) and those of the truth (..., m, B) over the batch.

    Weights enter as their square roots, so that products of columns are weighted sums.
    """
    truth = truth.unsqueeze(-2)
    if weight is None:
        mean = outputs.mean(-1, keepdim=True)
        centred, truth = outputs - mean, truth - truth.mean(-1, keepdim=True)
    else:
        root = _root(weight, outputs)
        share = root.square() / outputs.shape[-1]
        mean = (share * outputs).sum(-1, keepdim=True)
        centred = (outputs - mean) * root
        truth = (truth - (share * truth).sum(-1, keepdim=True)) * root
    norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    truth_norm = torch.linalg.vector_norm(truth, dim=-1, keepdim=True)
    flat = torch.addcmul(mean, mean, mean, value=-1).abs_().mul_(_FLAT * outputs.shape[-1] ** 0.5)
    defined = norm > flat.clamp_(min=torch.finfo(outputs.dtype).tiny ** 0.5)
    truth_defined = truth_norm > 1e-6
    inverse = torch.where(defined, norm.reciprocal_(), 0.0)
    truth = truth * torch.where(truth_defined, truth_norm.reciprocal(), 0.0)
    summed = (centred * inverse).sum(-2, keepdim=True)
    # On the CPU asking whether all is defined is cheaper than counting; on a GPU it would wait for the device.
    if outputs.device.type == "cpu" and bool(defined.all()) and bool(truth_defined.all()):
        n_classes, n_learners = outputs.shape[-3:-1]
        total: float | Tensor = float(n_classes * n_learners)
        n_defined, n_pairs = total, max(total * (n_learners - 1) / 2, 1.0)
    else:
        count = defined.sum((-2, -1)).to(outputs.dtype)  # (..., m)
        total = count.sum(-1)
        n_defined = (count * truth_defined[..., 0, 0]).sum(-1).clamp_(min=1)
        n_pairs = ((count.square().sum(-1) - total) / 2).clamp_(min=1)
    return Standardised(
        centred,
        inverse,
        truth,
        summed,
        n_defined,
        n_pairs,
        (summed * truth).sum((-3, -2, -1)),
        (summed.square().sum((-3, -2, -1)) - total) / 2,
    )


def _root(weight: Tensor, outputs: Tensor) -> Tensor:
    """Return the square roots of the weights, scaled to a mean square of one, (..., 1, 1, B)."""
    share = weight / weight.sum(-1, keepdim=True)
    return (share * weight.shape[-1]).sqrt().to(outputs.dtype)[..., None, None, :]


class _CorrelationFunction(torch.autograd.Function):
    r"""The loss with its backward pass written out.

    With :math:`G_{nk} = -a y_k + \lambda b (\sum_i z_{ik} - z_{nk})`, the gradient in the outputs is
    :math:`(G - z (z \cdot G)) / \|column\|`, and that in the logits follows by the softmax.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, truth: Tensor, lam: Tensor, mean: bool, softmax: bool, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = classes_first(logits)
        outputs = outputs.softmax(-3) if softmax else outputs
        state = standardise(outputs, truth, weight)
        r_tl, r_ll = state.means()
        loss = lam * r_ll - r_tl if mean else lam * state.sum_ll - state.sum_tl
        a = torch.as_tensor(1 / state.n_defined if mean else 1.0, dtype=loss.dtype)
        b = lam / state.n_pairs if mean else lam
        root = None if weight is None else _root(weight, outputs)
        ctx.save_for_backward(
            outputs, state.centred, state.inverse_norm, state.truth, state.summed, a, b, root
        )
        ctx.softmax = softmax
        ctx.mark_non_differentiable(r_tl, r_ll)
        return loss, r_tl, r_ll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        outputs, centred, inverse, truth, summed, a, b, root = ctx.saved_tensors
        a, b = (grad * a)[..., None, None, None], (grad * b)[..., None, None, None]
        # z itself in G is removed by the projection, so (summed - z) may stay `summed`.
        g = b * summed - a * truth  # (..., m, 1, B): the same for every learner
        along = (centred @ g.mT) * inverse.pow(3)  # (..., m, N, 1)
        d_outputs = torch.addcmul(inverse * g, centred, along, value=-1)
        if root is not None:
            # Weighted centring is not symmetric: weight the samples, then take out the weighted mean.
            d_outputs = d_outputs * root
            d_outputs = d_outputs - root.square() / root.shape[-1] * d_outputs.sum(-1, keepdim=True)
        if ctx.softmax:
            inner = outputs * d_outputs
            d_outputs = torch.addcmul(inner, outputs, inner.sum(-3, keepdim=True), value=-1)
        return d_outputs.movedim(-3, -1), None, None, None, None, None
