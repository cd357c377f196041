r"""The two correlations of a batch, their loss, and its gradient.

Notation: N learners, B samples, m classes. Logits are ``(..., N, B, m)``: leading axes are groups that train side by
side (folds, diversities), each with a loss of its own. :math:`z_{nk}` is column k of learner n, centred over the batch
and of unit norm, :math:`y_k` that of the truth; ``lam`` is the paper's :math:`\lambda`.

Inside, the batch comes last, ``(..., N, m, B)``: sums over it then run along memory, and a softmax over few classes is
several times faster. Stacked networks put out their logits so, and pay nothing for it.
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
        ``r_tl`` and ``r_ll``, averaged over classes and learners or pairs, without gradients. Columns that are constant
        are left out.

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
    return standardise(class_columns(outputs.detach()), target, weight).means()


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
    check_choice(reduction, "reduction", ("mean", "sum"))
    check_choice(outputs, "outputs", ("softmax", "identity"))
    loss, _ = loss_and_state(logits, target, lam, reduction, outputs, weight)
    return loss


def loss_and_state(
    logits: Tensor, target: Tensor, lam: float | Tensor, reduction: str, outputs: str, weight: Tensor | None
) -> tuple[Tensor, "Standardised"]:
    """Return the loss, and the columns that made it, detached."""
    columns = class_columns(logits)
    lam = lam.to(columns) if isinstance(lam, Tensor) else float(lam)
    proba = columns.softmax(-2) if outputs == "softmax" else columns
    work = _Work(target, lam, reduction == "mean", weight)
    loss: Tensor = _CorrelationFunction.apply(proba, work)  # type: ignore[no-untyped-call]
    return loss, work.state


def class_columns(logits: Tensor) -> Tensor:
    """Return ``(..., N, B, m)`` as ``(..., N, m, B)`` in memory, of two classes at least, in float32 or float64."""
    columns = two_columns(logits).mT
    return (columns if columns.dtype == torch.float64 else columns.float()).contiguous()


def two_columns(logits: Tensor) -> Tensor:
    """Return one logit as two: of class 0, always 0, and of class 1."""
    return F.pad(logits, (1, 0)) if logits.shape[-1] == 1 else logits


def one_hot(target: Tensor, columns: Tensor) -> Tensor:
    """Return the target, labels or one-hot rows, as columns of zeros and ones (..., m, B)."""
    n_classes, batch = columns.shape[-2:]
    if target.is_floating_point() and target.dim() > 1 and target.shape[-2:] == (batch, n_classes):
        return target.mT.to(columns.dtype)
    if target.is_floating_point() or target.shape[-1:] != (batch,):
        raise ValueError(
            f"`target` must hold {batch} labels, or rows of {n_classes} for them, as `logits`; "
            f"got {target.dtype} of shape {tuple(target.shape)}."
        )
    zeros = columns.new_zeros(*target.shape[:-1], n_classes, batch)
    return zeros.scatter_(-2, target.long().unsqueeze(-2), 1.0)


class Standardised(NamedTuple):
    """Centred columns of unit norm, zero where they are constant; so the truth."""

    columns: Tensor  # (..., N, m, B)
    inverse_norm: Tensor  # (..., N, m, 1), before the columns were scaled; 0 where constant
    truth: Tensor  # (..., 1, m, B)
    summed: Tensor  # (..., 1, m, B), the sum of the columns over the learners
    n_columns: float | Tensor  # (...), columns that are not constant
    n_defined: float | Tensor  # (...), columns with a correlation to the truth, at least 1
    n_pairs: float | Tensor  # (...), pairs of columns with a correlation, at least 1

    def means(self) -> Correlations:
        """Return the averages over what is defined, 0 where nothing is."""
        sum_tl = (self.summed * self.truth).sum((-3, -2, -1))
        sum_ll = (self.summed.square().sum((-3, -2, -1)) - self.n_columns) / 2
        return Correlations(sum_tl / self.n_defined, sum_ll / self.n_pairs)


def standardise(outputs: Tensor, target: Tensor, weight: Tensor | None) -> Standardised:
    """Centre and scale the columns (..., N, m, B) and those of the truth over the batch.

    Weights enter as their square roots, so that products of columns are weighted sums.
    """
    *_, n_learners, n_classes, batch = outputs.shape
    truth = one_hot(target, outputs).unsqueeze(-3)
    columns = torch.cat([outputs, truth], -3)  # as one more learner: half the operations
    if weight is None:
        total = columns.sum(-1, keepdim=True)
        columns.sub_(total, alpha=1 / batch)
    else:
        root = _root(weight, outputs)
        total = (root.square() * columns).sum(-1, keepdim=True)
        columns.sub_(total, alpha=1 / batch).mul_(root)
    norm = torch.linalg.vector_norm(columns, dim=-1, keepdim=True)
    flattest = _FLAT / 4 * batch**0.5  # mean (1 - mean) is a quarter at most
    # On the CPU a look at the least norm is cheaper than masking and counting; a GPU would be waited for.
    if outputs.device.type == "cpu" and norm.amin().item() > flattest:
        inverse = norm.reciprocal_()
        n_columns: float | Tensor = float(n_classes * n_learners)
        n_defined, n_pairs = n_columns, max(n_columns * (n_learners - 1) / 2, 1.0)
    else:
        mean = total / batch
        slack = 4 * torch.finfo(mean.dtype).eps / _FLAT  # the mean of ones is one but for rounding
        flat = (mean * (1 + slack - mean)).abs_().mul_(_FLAT * batch**0.5)
        defined = norm > flat.clamp_(torch.finfo(mean.dtype).tiny ** 0.5, flattest)
        inverse = torch.where(defined, norm.reciprocal_(), 0.0)
        count = defined[..., :-1, :, 0].sum(-2).to(mean.dtype)  # (..., m)
        n_columns = count.sum(-1)
        n_defined = (count * defined[..., -1, :, 0]).sum(-1).clamp_(min=1)
        n_pairs = ((count.square().sum(-1) - n_columns) / 2).clamp_(min=1)
    columns.mul_(inverse)
    own, truth = columns.narrow(-3, 0, n_learners), columns.narrow(-3, n_learners, 1)
    summed = own.sum(-3, keepdim=True)
    return Standardised(own, inverse.narrow(-3, 0, n_learners), truth, summed, n_columns, n_defined, n_pairs)


def _root(weight: Tensor, outputs: Tensor) -> Tensor:
    """Return the square roots of the weights, scaled to a mean square of one, (..., 1, 1, B)."""
    share = weight / weight.sum(-1, keepdim=True)
    return (share * weight.shape[-1]).sqrt().to(outputs.dtype)[..., None, None, :]


class _Work:
    """The loss of outputs with its gradient at once: with small nets the fewest operations are the fastest."""

    state: Standardised

    def __init__(self, target: Tensor, lam: float | Tensor, mean: bool, weight: Tensor | None) -> None:
        self.target, self.lam, self.mean, self.weight = target, lam, mean, weight

    def loss_and_gradient(self, outputs: Tensor, with_gradient: bool) -> tuple[Tensor, Tensor | None]:
        r"""Return :math:`\frac b2 (\|S\|^2 - n) - a \, S \cdot y`, with S the sum of the columns, and its gradient."""
        self.state = state = standardise(outputs, self.target, self.weight)
        a, b = (1 / state.n_defined, self.lam / state.n_pairs) if self.mean else (1.0, self.lam)
        half = state.summed * _spread(b / 2)
        rest = _less(half, a, state.truth)
        loss = (state.summed * rest).sum((-3, -2, -1)) - b / 2 * state.n_columns
        return loss, self._gradient(half.add_(rest)) if with_gradient else None

    def _gradient(self, g: Tensor) -> Tensor:
        r"""Return the gradient in the outputs, (..., N, m, B).

        With :math:`G_{nk} = -a y_k + b (\sum_i z_{ik} - z_{nk})` it is :math:`(G - z (z \cdot G)) / \|column\|`. The
        projection removes :math:`z` itself, so ``g`` (..., 1, m, B) may leave it in, the same for every learner.
        """
        z = self.state.columns
        along = (z * g).sum(-1, keepdim=True)
        gradient = torch.addcmul(g, z, along, value=-1).mul_(self.state.inverse_norm)
        if self.weight is None:
            return gradient
        # Weighted centring is not symmetric: weight the samples, then take out the weighted mean.
        root = _root(self.weight, z)
        gradient = gradient * root
        return gradient - root.square() / root.shape[-1] * gradient.sum(-1, keepdim=True)


def _less(columns: Tensor, factor: float | Tensor, others: Tensor) -> Tensor:
    """Return the columns (..., 1, m, B) less others times a factor, of one for each group."""
    if isinstance(factor, Tensor):
        return columns - _spread(factor) * others
    return torch.sub(columns, others, alpha=factor)


def _spread(factor: float | Tensor) -> float | Tensor:
    """Return a factor for each group in the shape of its columns."""
    return factor[..., None, None, None] if isinstance(factor, Tensor) else factor


class _CorrelationFunction(torch.autograd.Function):
    """The loss as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, work: _Work) -> Tensor:
        loss, gradient = work.loss_and_gradient(outputs, ctx.needs_input_grad[0])
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * (grad[..., None, None, None] if grad.dim() else grad), None
