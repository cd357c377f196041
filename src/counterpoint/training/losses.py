"""The losses: the paper's and its baselines, with one call for an ensemble of any networks.

Logits are ``(..., n_learners, batch, n_classes)``; leading axes are groups that train side by side, each with a loss of
its own.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import check_choice, check_number
from counterpoint.theory import critical_lambda
from counterpoint.training.correlation import (
    Standardised,
    check_axes,
    check_classes,
    check_weight,
    class_columns,
    is_one_hot,
    loss_and_state,
    one_hot,
    shares,
)
from counterpoint.training.gate import DiversityGate

__all__ = ["CorrelationLoss", "IndependentLoss", "JointLoss", "NegativeCorrelationLoss"]

# The diversity of "auto" where its gate has decided for it, and the share of that before.
_AUTO_DIVERSITY, _ON_TRIAL = 0.9, 0.5 / 0.9

# Cross-entropy skips one label, and it should be none that anybody gives.
_NO_LABEL = torch.iinfo(torch.int64).min


class CorrelationLoss(nn.Module):
    r"""The paper's loss :math:`-(r_{TL} - \lambda r_{LL})`: accurate learners that differ.

    Parameters
    ----------
    diversity : float or "auto", optional
        :math:`\lambda` as a share of the critical one, :func:`counterpoint.theory.critical_lambda`: comparable across
        ensemble sizes. Up to 1 the loss asks for perfect learners; above 1 it asks for poor ones. 0.5 if ``lam``
        is not given. ``"auto"`` begins with 0.5 on trial and decides once, by a :class:`DiversityGate`: on with 0.9 if
        the learners underfit their training batches, else by their own cross-entropies until the end.
    lam : float, optional
        The paper's own number, in the place of ``diversity``.
    reduction : {"mean", "sum"}, default="mean"
        What ``lam`` refers to: averaged correlations (the paper's equation) or summed ones (its algorithm).
    outputs : {"softmax", "identity"}, default="softmax"
        How logits become outputs; ``"identity"`` if they are probabilities already, those of class 1 if there is one
        column. The ``outputs`` of an :class:`Ensemble` should be the same.

    Attributes
    ----------
    r_tl, r_ll : Tensor
        Mean correlations of the last batch, detached, for logging.

    Notes
    -----
    Computed in float32 (float64 for float64) also under autocast, with a backward pass of its own, in time linear in
    the number of learners. Columns that are constant in the batch, and classes that are absent from it, are masked, so
    gradients stay bounded. A learner counts as constant where its logits differ by less than about a thousandth from
    sample to sample: one that starts out so, as from a last layer of zeros, is not moved. Start it with more spread.
    Gradients are those of ``backward`` and ``torch.autograd.grad``; the transforms of ``torch.func`` do not take it.

    Examples
    --------
    >>> import torch
    >>> loss = CorrelationLoss(diversity=0.9)
    >>> logits = torch.randn(5, 32, 3, requires_grad=True)  # (n_learners, batch, n_classes)
    >>> loss(logits, torch.randint(3, (32,))).backward()
    >>> logits.grad.shape, loss.r_ll.shape
    (torch.Size([5, 32, 3]), torch.Size([]))
    """

    _last: Standardised | None = None

    def __init__(
        self,
        diversity: float | str | None = None,
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
        self.gate: DiversityGate | None = None
        if isinstance(diversity, str):
            if diversity != "auto":
                raise ValueError(f"`diversity` must be a number or 'auto'; got {diversity!r}.")
            for option, given, needed in (("reduction", reduction, "mean"), ("outputs", outputs, "softmax")):
                if given != needed:
                    raise ValueError(
                        f"`{option}` must be {needed!r} where `diversity` is 'auto'; got {given!r}."
                    )
            self.gate, diversity = DiversityGate(), _AUTO_DIVERSITY
        diversity = 0.5 if diversity is None and lam is None else diversity
        name, value = ("lam", lam) if diversity is None else ("diversity", diversity)
        check_number(value, name, 0)
        self.diversity, self.lam = diversity, lam
        self.reduction, self.outputs = reduction, outputs

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor, shape (n_learners, batch, n_classes)
            What the learners put out.
        target : Tensor, shape (batch,) or (batch, n_classes)
            Labels as integers, or one-hot rows of any type.
        weight : Tensor, shape (batch,), optional
            Weights of the samples, none negative, which :func:`fit` checks where they come from the CPU.
        """
        check_axes(logits)
        lam: float | Tensor = self.weight_of_likeness(logits.shape[-3])
        if self.gate is not None:
            on_trial = self.gate.to(logits.device).on_trial
            dtype = torch.promote_types(logits.dtype, torch.float32)  # that of the loss
            lam = lam * torch.ones_like(on_trial, dtype=dtype).masked_fill(on_trial, _ON_TRIAL)
        loss, last = loss_and_state(logits, target, lam, self.reduction, self.outputs, weight)
        self.__dict__["_last"] = last  # past what a Module does for its parts, at every step
        if self.gate is None:
            return loss
        is_open: Tensor = self.gate(*last.means(), logits.shape[-3])
        # A look is cheaper than both losses, but a GPU would be waited for.
        at_sight = is_open.is_cpu and is_open.dim() == 0
        if at_sight and is_open:
            return loss
        own: Tensor = IndependentLoss()(logits, target, weight)
        return own if at_sight else torch.where(is_open, loss, own)

    @property
    def r_tl(self) -> Tensor:
        """Mean truth-learner correlation of the last batch; computed when it is asked for."""
        return self._last_batch.means().r_tl

    @property
    def r_ll(self) -> Tensor:
        """Mean learner-learner correlation of the last batch; computed when it is asked for."""
        return self._last_batch.means().r_ll

    @property
    def _last_batch(self) -> Standardised:
        if self._last is None:
            raise RuntimeError("`r_tl` and `r_ll` are those of the last batch; there has been none.")
        return self._last

    @property
    def needs_readout(self) -> bool:
        """Whether scale and offset of the learners' outputs have been left open, for a read-out to fit."""
        return self.outputs == "softmax" and (self.gate is None or bool(self.gate.is_open.any()))

    def weight_of_likeness(self, n_learners: int) -> float:
        """Return the lambda in use for so many learners, with "auto" that of an open gate after its trial."""
        if self.lam is not None:
            return self.lam
        assert self.diversity is not None
        if n_learners < 2:
            return 0.0
        return self.diversity * _critical_lambda(n_learners, self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        dial = f"lam={self.lam}" if self.diversity is None else f"diversity={self.diversity}"
        dial = dial if self.gate is None else "diversity='auto'"
        return f"{dial}, reduction={self.reduction!r}, outputs={self.outputs!r}"


class IndependentLoss(nn.Module):
    """The mean of the learners' cross-entropies: each learns as if it were alone.

    Examples
    --------
    >>> import torch
    >>> IndependentLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    outputs = "softmax"  # of the learners are logits

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        columns = class_columns(logits)
        if weight is None and columns.dim() == 3 and not is_one_hot(target, columns):
            labels = target.long().expand(len(columns), -1)
            try:
                return F.cross_entropy(columns, labels, ignore_index=_NO_LABEL)  # in one operation
            except IndexError:
                check_classes(target, columns.shape[-2])
                raise
        return _average(-_log_likelihood(columns, target).mean(-2), weight)


class JointLoss(nn.Module):
    """The cross-entropy of the averaged probabilities: the paper's Model II.

    Examples
    --------
    >>> import torch
    >>> JointLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    outputs = "softmax"  # of the learners are logits

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        return _average(-_joint_log_likelihood(class_columns(logits), target), weight)


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
    >>> import torch
    >>> NegativeCorrelationLoss(0.5)(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.5000)
    """

    outputs = "softmax"  # of the learners are logits

    def __init__(self, strength: float = 0.5, *, base: str = "squared") -> None:
        super().__init__()
        check_number(strength, "strength", 0, 1)
        check_choice(base, "base", ("squared", "cross_entropy"))
        self.strength, self.base = strength, base

    def forward(self, logits: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`CorrelationLoss`."""
        columns = class_columns(logits)
        if self.base == "cross_entropy":
            own = -_log_likelihood(columns, target).mean(-2)
            joint = -_joint_log_likelihood(columns, target)
        else:
            proba = columns.softmax(-2)
            truth = one_hot(target, proba)
            own = (proba - truth.unsqueeze(-3)).square().sum(-2).mean(-2)
            joint = (proba.mean(-3) - truth).square().sum(-2)
        return _average((1 - self.strength) * own + self.strength * joint, weight)


@lru_cache
def _critical_lambda(n_learners: int, reduction: str) -> float:
    """Return the critical lambda; checked once, since a step of small nets is as long as the check."""
    return float(critical_lambda(n_learners, reduction=reduction))


def _log_likelihood(columns: Tensor, target: Tensor) -> Tensor:
    """Return the log-probability that each learner gives to the truth, (..., N, B)."""
    return _of_truth(columns.log_softmax(-2), target)


def _joint_log_likelihood(columns: Tensor, target: Tensor) -> Tensor:
    """Return the log of the averaged probability of the truth, (..., B)."""
    joint = columns.log_softmax(-2).logsumexp(-3, keepdim=True) - math.log(columns.shape[-3])
    return _of_truth(joint, target).squeeze(-2)


def _of_truth(log_proba: Tensor, target: Tensor) -> Tensor:
    """Return the entries of the true classes, of (..., N, m, B)."""
    if is_one_hot(target, log_proba):
        return (log_proba * target.mT.unsqueeze(-3)).sum(-2)
    *groups, n_learners, n_classes, batch = log_proba.shape
    index = target.long()[..., None, None, :].expand(*groups, n_learners, 1, batch)
    try:
        return log_proba.gather(-2, index).squeeze(-2)
    except RuntimeError:
        check_classes(target, n_classes)
        raise


def _average(per_sample: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over the batch, (...); 0 where no sample has weight."""
    if weight is None:
        return per_sample.mean(-1)
    check_weight(weight, per_sample.shape[-1], per_sample.dim() - 1)
    return (per_sample * shares(weight, per_sample.dtype)).sum(-1)
