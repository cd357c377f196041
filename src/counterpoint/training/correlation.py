r"""The two correlations of a batch, their loss, and its gradient.

Notation: N learners, B samples, m classes. Logits are ``(..., N, B, m)``: leading axes are groups that train side by
side (folds, diversities), each with a loss of its own. :math:`z_{nk}` is column k of learner n, with mean 0 and mean
square 1 over the batch, :math:`y_k` that of the truth; ``lam`` is the paper's :math:`\lambda`. Inside, the batch comes
last (:mod:`counterpoint.training.columns`).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from counterpoint.training.columns import (
    check_sample_weight,
    check_tensor,
    class_columns,
    one_hot,
    shares,
    wide,
)
from counterpoint.training.mesh import LOCAL, Axes

__all__ = ["Correlations", "Standardised", "correlations", "loss_and_state", "standardise"]

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


def correlations(outputs: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Correlations:
    r"""Return the mean truth-learner and learner-learner correlation of a batch.

    Parameters
    ----------
    outputs : Tensor, shape (..., n_learners, batch, n_classes)
        Probabilities; one column, that of class 1, stands for two.
    target : Tensor, shape (..., batch) or (..., batch, n_classes)
        Labels as integers, or one-hot rows of any type.
    sample_weight : Tensor, shape (..., batch), optional
        Non-negative weights of the samples.

    Returns
    -------
    Correlations
        ``r_tl`` and ``r_ll``, averaged over classes and learners or pairs, without gradients. Constant columns are
        left out.

    Notes
    -----
    With centred columns of unit norm, :math:`\sum_{i<j} z_i \cdot z_j = (\|\sum_i z_i\|^2 - N) / 2`: the cost is linear
    in the number of learners. :mod:`counterpoint.measures` gives the same numbers for arrays.

    Examples
    --------
    >>> outputs = torch.tensor([[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]])
    >>> correlations(outputs, torch.tensor([0, 1])).r_tl.round(decimals=3)
    tensor(1.)
    """
    check_tensor(outputs, "outputs")
    return standardise(class_columns(outputs.detach(), "identity"), target, sample_weight).means()


def loss_and_state(
    logits: Tensor,
    target: Tensor,
    lam: float | Tensor,
    reduction: str,
    activation: str,
    sample_weight: Tensor | None,
    axes: Axes,
) -> tuple[Tensor, "Standardised"]:
    """Return the loss and the standardised columns it was computed from, detached."""
    logits = wide(logits, activation)
    lam = lam.to(logits) if isinstance(lam, Tensor) else float(lam)
    task = _Task(target, lam, reduction == "mean", activation == "softmax", sample_weight, axes)
    states: list[Standardised] = []
    loss: Tensor = _CorrelationFunction.apply(logits, task, states)  # type: ignore[no-untyped-call]
    return loss, states[0]


class Standardised(NamedTuple):
    """Columns of mean 0 and mean square 1, zero where they are constant; so the truth."""

    columns: Tensor  # (..., N, m, B)
    inverse: Tensor  # (..., N, m, 1), one over the spread of the columns as they were; 0 where constant
    truth: Tensor  # (..., 1, m, B)
    summed: Tensor  # (..., 1, m, B), the sum of the columns over the learners
    n_columns: float | Tensor  # (...), columns that are not constant
    n_defined: float | Tensor  # (...), columns with a correlation to the truth, at least 1
    n_pairs: float | Tensor  # (...), pairs of columns with a correlation, at least 1
    root: Tensor | None  # (..., 1, 1, B), square roots of the weights
    size: float  # the sum of squares of a column that is not constant
    products: Tensor | None = (
        None  # (2, ...), of the sum with the truth and with itself, over all processes of a mesh
    )

    def means(self) -> Correlations:
        """Return the averages over what is defined, 0 where nothing is."""
        if self.products is None:
            products = (self.summed * self.truth).sum((-3, -2, -1)), self.summed.square().sum((-3, -2, -1))
        else:
            products = self.products[0], self.products[1]
        sum_tl = products[0] / self.size
        sum_ll = (products[1] / self.size - self.n_columns) / 2
        return Correlations(sum_tl / self.n_defined, sum_ll / self.n_pairs)


def standardise(
    outputs: Tensor, target: Tensor, sample_weight: Tensor | None, axes: Axes = LOCAL
) -> Standardised:
    """Centre and scale the columns (..., N, m, B) and those of the truth over the batch, that of all processes.

    Weights enter as their square roots, so that products of columns are weighted sums.
    """
    n_learners, n_classes, batch = outputs.shape[-3:]
    truth, root, size = one_hot(target, outputs).unsqueeze(-3), None, float(batch)
    if sample_weight is None and axes.data is None:
        columns, mean, inverse = torch.native_layer_norm(outputs, (batch,), None, None, 0.0)
        truth, mean_truth, inverse_truth = torch.native_layer_norm(truth, (batch,), None, None, 0.0)
    else:
        together = torch.cat([outputs, truth], -3)
        if axes.data is None:
            assert sample_weight is not None
            root = _root(sample_weight, outputs)
            parts = _weighted_norm(together, root)
        else:
            *parts, root = _norm_over(axes, together, sample_weight)  # type: ignore[assignment]
            size = 1.0
        (columns, truth), (mean, mean_truth), (inverse, inverse_truth) = (
            part.split_with_sizes((n_learners, 1), -3) for part in parts
        )
    # On the CPU, reading the least spread is cheaper than masking and counting; on a GPU it would wait for the device.
    steepest = 4 / _FLAT  # mean (1 - mean) is a quarter at most
    alone = outputs.is_cpu and axes.learners is None
    if alone and inverse.amax().item() < steepest and inverse_truth.amax().item() < steepest:
        n = float(n_learners * n_classes)
        pairs = max(n * (n_learners - 1) / 2, 1.0)
        return Standardised(columns, inverse, truth, columns.sum(-3, keepdim=True), n, n, pairs, root, size)
    flat = _flat(torch.cat([mean, mean_truth], -3), torch.cat([inverse, inverse_truth], -3))
    own, others = flat.split_with_sizes((n_learners, 1), -3)
    columns.masked_fill_(own, 0.0)
    truth.masked_fill_(others, 0.0)
    inverse.masked_fill_(own, 0.0)
    count = own.logical_not().squeeze(-1).sum(-2, dtype=mean.dtype)  # (..., m)
    summed, count = _over_learners(axes, columns.sum(-3, keepdim=True), count)
    n_columns = count.sum(-1)
    n_defined = count.masked_fill(others[..., 0, :, 0], 0.0).sum(-1).clamp_(min=1)
    n_pairs = ((count.square().sum(-1) - n_columns) / 2).clamp_(min=1)
    return Standardised(columns, inverse, truth, summed, n_columns, n_defined, n_pairs, root, size)


def _over_learners(axes: Axes, summed: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the columns (..., 1, m, B) and their counts (..., m) over the learners of all processes."""
    if axes.learners is None:
        return summed, count
    both = axes.sum_learners(torch.cat([summed, count[..., None, :, None]], -1))
    return both[..., :-1].contiguous(), both[..., 0, :, -1]


def _norm_over(axes: Axes, columns: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, ...]:
    """Return what :func:`_weighted_norm` does, over the samples of all processes, and the roots of their shares.

    The processes exchange means, then second moments about the mean of all, which lose no digits as sums of squares
    would.
    """
    batch = columns.shape[-1]
    if sample_weight is None:
        share, weight = columns.new_full((1,), 1 / batch), columns.new_tensor(batch, dtype=torch.float64)
    else:
        check_sample_weight(sample_weight, batch, columns.dim() - 3)
        share, weight = shares(sample_weight, columns.dtype), sample_weight.double().sum(-1)
    share, weight = share[..., None, None, :], weight[..., None, None, None]
    own = (columns * share).sum(-1, keepdim=True).double()  # (..., N + 1, m, 1)
    sums = axes.sum_data(torch.cat([(own * weight).flatten(), weight.flatten()]))
    total = sums[own.numel() :].view_as(weight).clamp(min=torch.finfo(torch.float64).tiny)
    mean = (sums[: own.numel()].view_as(own) / total).to(columns)
    share = share * (weight / total).to(columns)
    root = share.sqrt()
    centred = (columns - mean).mul_(root)
    variance = axes.sum_data(centred.square().sum(-1, keepdim=True).double())
    inverse = variance.rsqrt_().to(columns)
    return centred.mul_(inverse), mean, inverse, root


def _weighted_norm(columns: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a layer norm does: columns of mean 0 and mean square 1, their means, and one over their spreads."""
    mean = (root.square() * columns).mean(-1, keepdim=True)
    centred = (columns - mean).mul_(root)
    norm = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    inverse = norm.reciprocal_().mul_(root.shape[-1] ** 0.5)
    return centred.mul_(inverse), mean, inverse


def _flat(mean: Tensor, inverse: Tensor) -> Tensor:
    """Return which columns count as constant; columns with NaN do not, so that NaN propagates."""
    number = torch.finfo(mean.dtype)
    slack = 4 * number.eps / _FLAT  # the mean of ones is one but for rounding
    size = (1 + slack - mean).mul_(mean).abs_().clamp_(number.tiny**0.5 / _FLAT, 0.25)
    return size.mul_(inverse) >= 1 / _FLAT


def _root(sample_weight: Tensor, outputs: Tensor) -> Tensor:
    """Return the square roots of the weights, scaled to a mean square of one, (..., 1, 1, B)."""
    check_sample_weight(sample_weight, outputs.shape[-1], outputs.dim() - 3)
    return (shares(sample_weight, outputs.dtype) * sample_weight.shape[-1]).sqrt()[..., None, None, :]


class _Task(NamedTuple):
    """The arguments of the loss other than the logits."""

    target: Tensor
    lam: float | Tensor
    mean: bool
    softmax: bool
    sample_weight: Tensor | None
    axes: Axes


def _loss_and_gradient(
    columns: Tensor, task: _Task, with_gradient: bool
) -> tuple[Tensor, Tensor | None, Standardised]:
    r"""Return the loss of logits (..., N, m, B), its gradient, and the standardised outputs.

    With S the sum of the columns over the learners, and n their number, the loss is
    :math:`\frac b2 (S \cdot S / B - n) - a \, S \cdot y / B`. With
    :math:`G_{nk} = (-a y_k + b (\sum_i z_{ik} - z_{nk})) / B` its gradient in the outputs is
    :math:`G - z (z \cdot G) / B` over the spread of the column. The projection removes :math:`z` itself, so G may leave
    it in, the same for every learner.

    Everything is computed at once, since few operations are fastest with small networks.
    """
    target, lam, mean, softmax, sample_weight, axes = task
    outputs = columns.softmax(-2) if softmax else columns
    state = standardise(outputs, target, sample_weight, axes)
    z, inverse, truth, summed, n_columns, n_defined, n_pairs, root, size, _ = state
    a, b = (1 / n_defined, lam / n_pairs) if mean else (1.0, lam)
    half = summed * _spread(b / (2 * size))
    rest = _less(half, a / size, truth)
    if axes.data is None:
        loss = (summed * rest).sum((-3, -2, -1)) - b / 2 * n_columns
        if not with_gradient:
            return loss, None, state
    g = half + rest if axes.data else half.add_(rest)  # (..., 1, m, B)
    pull = (z * g).sum(-1, keepdim=True)
    if axes.data is not None:
        products = torch.stack([(summed * other).sum((-3, -2, -1)) for other in (truth, summed)])
        sums = axes.sum_data(torch.cat([products.flatten(), pull.flatten()]).double()).to(columns)
        products, pull = sums[: products.numel()].view_as(products), sums[products.numel() :].view_as(pull)
        loss = b / 2 * (products[1] - n_columns) - a * products[0]
        state = state._replace(products=products)
        inverse = inverse * axes.n_data  # the gradients of the processes are averaged
    gradient = torch.addcmul(g, z, pull, value=-1 / size).mul_(inverse)
    if root is not None:
        gradient.mul_(root)
        if axes.data is None:  # weighted centring is not symmetric: take out the weighted mean
            gradient.addcmul_(root.square(), gradient.sum(-1, keepdim=True), value=-1 / size)
    if softmax:  # its derivative takes g to p g - p (the sum of p g over the classes)
        gradient.mul_(outputs)
        gradient.addcmul_(outputs, gradient.sum(-2, keepdim=True), value=-1)
    return loss, gradient, state


def _less(columns: Tensor, factor: float | Tensor, others: Tensor) -> Tensor:
    """Return the columns (..., 1, m, B) less others times a factor, of one for each group."""
    if isinstance(factor, Tensor):
        return columns - _spread(factor) * others
    return torch.sub(columns, others, alpha=factor)


def _spread(factor: float | Tensor) -> float | Tensor:
    """Return a factor for each group in the shape of its columns."""
    return factor[..., None, None, None] if isinstance(factor, Tensor) else factor


class _CorrelationFunction(torch.autograd.Function):
    """The loss as one autograd step from the logits, softmax included."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, task: _Task, states: list[Standardised]) -> Tensor:
        loss, gradient, state = _loss_and_gradient(logits.mT.contiguous(), task, ctx.needs_input_grad[0])
        states.append(state)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():  # a graph of the gradient is requested
            raise RuntimeError("the correlation loss can be differentiated only once; got `create_graph`.")
        (gradient,) = ctx.saved_tensors
        return (gradient * (grad[..., None, None, None] if grad.dim() else grad)).mT, None, None
