r"""The correlation loss and its baselines: one call for an ensemble of any networks.

Notation: N learners, B samples, m classes. Logits are ``(..., N, B, m)``: leading axes are groups that train side by
side (folds, diversities), each with a loss of its own. :math:`z_{nk}` is column k of learner n, centred over the batch
and of unit norm, :math:`y_k` that of the truth; ``lam`` is the paper's :math:`\lambda`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from counterpoint._validation import check_choice, check_interval
from counterpoint.theory import critical_lambda

__all__ = [
    "CorrelationLoss",
    "Correlations",
    "IndependentLoss",
    "JointLoss",
    "NegativeCorrelationLoss",
    "correlation_loss",
    "correlations",
]

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
    >>> correlations(outputs, torch.tensor([0, 1])).r_tl
    tensor(1.)
    """
    state = standardise(outputs, one_hot(target, outputs), weight)
    return state.means()


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
    loss, _ = _correlation_loss(logits, target, lam, reduction, outputs, weight)
    return loss


class CorrelationLoss(nn.Module):
    r"""The paper's loss :math:`-(r_{TL} - \lambda r_{LL})`: accurate learners that differ.

    Parameters
    ----------
    diversity : float, optional
        :math:`\lambda` as a share of the critical one, :func:`counterpoint.theory.critical_lambda`: comparable across
        ensemble sizes. Up to 1 the loss asks for perfect learners; above 1 it asks for poor ones. 0.5 if ``lam``
        is not given.
    lam : float, optional
        The paper's own number, in the place of ``diversity``.
    reduction : {"mean", "sum"}, default="mean"
        What ``lam`` refers to: averaged correlations (the paper's equation) or summed ones (its algorithm).
    outputs : {"softmax", "identity"}, default="softmax"
        How logits become outputs.

    Attributes
    ----------
    r_tl, r_ll : Tensor
        Mean correlations of the last batch, detached, for logging.

    Notes
    -----
    Computed in float32 (float64 for float64) also under autocast, with a backward pass of its own, in time linear in
    the number of learners. Columns that are constant in the batch, and classes that are absent from it, are masked, so
    gradients stay bounded.

    Examples
    --------
    >>> loss = CorrelationLoss(diversity=0.9)
    >>> logits = torch.randn(5, 32, 3, requires_grad=True)  # (n_learners, batch, n_classes)
    >>> loss(logits, torch.randint(3, (32,))).backward()
    >>> logits.grad.shape, loss.r_ll.shape
    (torch.Size([5, 32, 3]), torch.Size([]))
    """

    r_tl: Tensor
    r_ll: Tensor

    def __init__(
        self,
        diversity: float | None = None,
        *,
        lam: float | None = None,
        reduction: str = "mean",
        outputs: str = "softmax",
    ) -> None:
        super().__init__()
        if diversity is not None and lam is not None:
            raise ValueError(
                f"`lam` must not be given together with `diversity`; got {lam!r} and {diversity!r}."
            )
        check_choice(reduction, "reduction", ("mean", "sum"))
        check_choice(outputs, "outputs", ("softmax", "identity"))
        diversity = 0.5 if diversity is None and lam is None else diversity
        name, value = ("lam", lam) if diversity is None else ("diversity", diversity)
        check_interval(value, name, 0)  # type: ignore[arg-type]
        self.diversity, self.lam = diversity, lam
        self.reduction, self.outputs = reduction, outputs

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor, shape (n_learners, batch, n_classes)
            What the learners put out.
        target : Tensor, shape (batch,) or (batch, n_classes)
            Labels, or one-hot.
        weight : Tensor, shape (batch,), optional
            Weights of the samples.
        """
        if logits.dim() < 3:
            raise ValueError(
                f"`logits` must have axes (n_learners, batch, n_classes); got shape {tuple(logits.shape)}."
            )
        lam = self.weight_of_likeness(logits.shape[-3])
        loss, found = _correlation_loss(logits, target, lam, self.reduction, self.outputs, weight)
        self.r_tl, self.r_ll = found
        return loss

    def weight_of_likeness(self, n_learners: int) -> float:
        """Return the lambda in use for so many learners."""
        if self.lam is not None:
            return self.lam
        assert self.diversity is not None
        if n_learners < 2:
            return 0.0
        return float(self.diversity * critical_lambda(n_learners, reduction=self.reduction))

    def extra_repr(self) -> str:
        """Return the settings."""
        dial = f"lam={self.lam}" if self.diversity is None else f"diversity={self.diversity}"
        return f"{dial}, reduction={self.reduction!r}, outputs={self.outputs!r}"


class IndependentLoss(nn.Module):
    """The mean of the learners' cross-entropies: each learns as if it were alone.

    Examples
    --------
    >>> IndependentLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        logits = two_columns(logits)
        return _average(-_log_likelihood(logits.log_softmax(-1), target).mean(-2), weight)


class JointLoss(nn.Module):
    """The cross-entropy of the averaged probabilities: the paper's Model II.

    Examples
    --------
    >>> JointLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        return _average(-_joint_log_likelihood(two_columns(logits), target), weight)


class NegativeCorrelationLoss(nn.Module):
    r"""Negative correlation learning: a blend of the members' own losses and the ensemble's.

    Parameters
    ----------
    strength : float, default=0.5
        0 is independent training, 1 joint training.
    base : {"squared", "cross_entropy"}, default="squared"
        The loss that is blended.

    Notes
    -----
    Liu and Yao (1999) penalise each member by :math:`-(f_i - \bar f)^2`. For the squared error on probabilities that
    is, by the ambiguity decomposition, :math:`(1 - \lambda) \frac1N \sum_i \ell(f_i) + \lambda \, \ell(\bar f)`, which
    is how it generalises to other losses (Buschjäger et al. 2020).

    Examples
    --------
    >>> NegativeCorrelationLoss(0.5)(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.5000)
    """

    def __init__(self, strength: float = 0.5, *, base: str = "squared") -> None:
        super().__init__()
        check_interval(strength, "strength", 0, 1)
        check_choice(base, "base", ("squared", "cross_entropy"))
        self.strength, self.base = strength, base

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        logits = two_columns(logits)
        if self.base == "cross_entropy":
            own = -_log_likelihood(logits.log_softmax(-1), target).mean(-2)
            joint = -_joint_log_likelihood(logits, target)
        else:
            proba = logits.softmax(-1)
            truth = one_hot(target, proba)
            own = (proba - truth.unsqueeze(-3)).square().sum(-1).mean(-2)
            joint = (proba.mean(-3) - truth).square().sum(-1)
        return _average((1 - self.strength) * own + self.strength * joint, weight)


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


class _Standardised(NamedTuple):
    """Unit-norm centred columns, zero where they are constant."""

    columns: Tensor  # (..., N, B, m)
    inverse_norm: Tensor  # (..., N, 1, m), 0 where constant
    truth: Tensor  # (..., 1, B, m)
    summed: Tensor  # (..., 1, B, m)
    n_defined: Tensor  # (...), columns with a correlation to the truth
    n_pairs: Tensor  # (...), pairs of columns with a correlation
    sum_tl: Tensor  # (...)
    sum_ll: Tensor  # (...)

    def means(self) -> Correlations:
        return Correlations(
            self.sum_tl / self.n_defined.clamp(min=1), self.sum_ll / self.n_pairs.clamp(min=1)
        )


def standardise(outputs: Tensor, truth: Tensor, weight: Tensor | None) -> _Standardised:
    """Centre and scale columns over the batch; weights enter as their square roots."""
    truth = truth.unsqueeze(-3)
    if weight is None:
        share, root = None, None
        batch = outputs.shape[-2]
        mean, truth_mean = outputs.mean(-2, keepdim=True), truth.mean(-2, keepdim=True)
    else:
        share = (weight / weight.sum(-1, keepdim=True)).to(outputs.dtype)[..., None, :, None]
        root = (share * outputs.shape[-2]).sqrt()
        batch = outputs.shape[-2]
        mean, truth_mean = (share * outputs).sum(-2, keepdim=True), (share * truth).sum(-2, keepdim=True)
    centred, truth = outputs - mean, truth - truth_mean
    if root is not None:
        centred, truth = centred * root, truth * root
    norm = torch.linalg.vector_norm(centred, dim=-2, keepdim=True)
    truth_norm = torch.linalg.vector_norm(truth, dim=-2, keepdim=True)
    flat = _FLAT * batch**0.5 * (mean * (1 - mean)).abs()
    defined = norm > flat.clamp(min=torch.finfo(outputs.dtype).tiny ** 0.5)
    truth_defined = truth_norm > 1e-6
    inverse = torch.where(defined, norm.reciprocal(), 0.0)
    columns = centred * inverse
    truth = truth * torch.where(truth_defined, truth_norm.reciprocal(), 0.0)
    summed = columns.sum(-3, keepdim=True)
    count = defined.sum(-3, keepdim=True).to(outputs.dtype)  # (..., 1, 1, m)
    aligned = (summed * truth).sum((-3, -2, -1))
    squared = summed.square().sum((-3, -2, -1))
    total = count.sum((-3, -2, -1))
    return _Standardised(
        columns,
        inverse,
        truth,
        summed,
        (count * truth_defined).sum((-3, -2, -1)),
        (count * (count - 1)).sum((-3, -2, -1)) / 2,
        aligned,
        (squared - total) / 2,
    )


class _CorrelationFunction(torch.autograd.Function):
    r"""The loss with its backward pass written out.

    With :math:`G_{nk} = -a y_k + \lambda b (\sum_i z_{ik} - z_{nk})`, the gradient in the outputs is
    :math:`(G - z (z \cdot G)) / \|column\|`, and that in the logits follows by the softmax.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, truth: Tensor, lam: Tensor, mean: bool, softmax: bool, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        outputs = logits.softmax(-1) if softmax else logits
        state = standardise(outputs, truth, weight)
        r_tl, r_ll = state.means()
        loss = lam * r_ll - r_tl if mean else lam * state.sum_ll - state.sum_tl
        a = state.n_defined.clamp(min=1).reciprocal() if mean else torch.ones_like(loss)
        b = lam / state.n_pairs.clamp(min=1) if mean else lam.expand(loss.shape)
        root = None if weight is None else (weight / weight.sum(-1, keepdim=True) * outputs.shape[-2]).sqrt()
        ctx.save_for_backward(
            outputs, state.columns, state.inverse_norm, state.truth, state.summed, a, b, root
        )
        ctx.softmax = softmax
        ctx.mark_non_differentiable(r_tl, r_ll)
        return loss, r_tl, r_ll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        outputs, z, inverse, truth, summed, a, b, root = ctx.saved_tensors
        a, b = (grad * a)[..., None, None, None], (grad * b)[..., None, None, None]
        # z itself in G is removed by the projection, so (summed - z) may stay `summed`.
        g = b * summed - a * truth  # (..., 1, B, m): the same for every learner
        along = (z * g).sum(-2, keepdim=True)
        d_outputs = (g - z * along) * inverse
        if root is not None:
            # Weighted centring is not symmetric: weight the rows, then take out the weighted mean.
            share = (root.square() / root.shape[-1]).to(z.dtype)[..., None, :, None]
            d_outputs = d_outputs * root.to(z.dtype)[..., None, :, None]
            d_outputs = d_outputs - share * d_outputs.sum(-2, keepdim=True)
        if ctx.softmax:
            inner = outputs * d_outputs
            d_outputs = inner - outputs * inner.sum(-1, keepdim=True)
        return d_outputs, None, None, None, None, None


def _correlation_loss(
    logits: Tensor, target: Tensor, lam: float | Tensor, reduction: str, outputs: str, weight: Tensor | None
) -> tuple[Tensor, Correlations]:
    check_choice(reduction, "reduction", ("mean", "sum"))
    check_choice(outputs, "outputs", ("softmax", "identity"))
    logits = two_columns(logits)
    with torch.autocast(logits.device.type, enabled=False):
        logits = logits if logits.dtype == torch.float64 else logits.float()
        truth = one_hot(target, logits)
        if not isinstance(lam, Tensor):
            lam = logits.new_full((), lam)  # filled on the device: a copy would wait for it
        loss, r_tl, r_ll = _CorrelationFunction.apply(  # type: ignore[no-untyped-call]
            logits, truth, lam, reduction == "mean", outputs == "softmax", weight
        )
    return loss, Correlations(r_tl.detach(), r_ll.detach())


def two_columns(logits: Tensor) -> Tensor:
    """Return one logit as two: of class 0, always 0, and of class 1."""
    return F.pad(logits, (1, 0)) if logits.shape[-1] == 1 else logits


def _log_likelihood(log_proba: Tensor, target: Tensor) -> Tensor:
    """Return the log-probability of the truth, (..., N, B)."""
    if target.is_floating_point():
        return (log_proba * target.unsqueeze(-3)).sum(-1)
    index = target.long().unsqueeze(-2).expand(log_proba.shape[:-1])
    return log_proba.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _joint_log_likelihood(logits: Tensor, target: Tensor) -> Tensor:
    """Return the log of the averaged probability of the truth, (..., B)."""
    n_learners = logits.shape[-3]
    joint = logits.log_softmax(-1).logsumexp(-3, keepdim=True) - torch.log(torch.tensor(float(n_learners)))
    return _log_likelihood(joint, target).squeeze(-2)


def _average(per_sample: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over the batch, (...)."""
    if weight is None:
        return per_sample.mean(-1)
    return (per_sample * weight).sum(-1) / weight.sum(-1)
