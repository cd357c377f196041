r"""The paper's loss, as a module and as a function.

Notation: ``r_tl`` and ``r_ll`` are the mean truth-learner and learner-learner correlations of a batch, ``lam`` is the
paper's :math:`\lambda`.
"""

import math
from functools import lru_cache
from typing import Any

from torch import Tensor

from counterpoint._validation import check_choice, check_number
from counterpoint.theory import critical_lambda
from counterpoint.training.columns import check_axes
from counterpoint.training.correlation import Standardised, loss_and_state
from counterpoint.training.ensemble_loss import EnsembleLoss, check_diversity

__all__ = ["CorrelationLoss", "correlation_loss"]


class CorrelationLoss(EnsembleLoss):
    r"""The paper's loss :math:`-(r_{TL} - \lambda r_{LL})`: accurate learners that differ.

    Parameters
    ----------
    diversity : float or Tensor of the shape of the groups, optional
        :math:`\lambda` as a share of the critical one, :func:`counterpoint.theory.critical_lambda`: comparable across
        ensemble sizes. Up to 1 the optimum is perfect learners; above 1 it is poor ones. 0.5 if ``lam`` is not given.
    lam : float or Tensor of the shape of the groups, optional
        The paper's own number, instead of ``diversity``.
    reduction : {"mean", "sum"}, default="mean"
        Whether ``lam`` weights averaged correlations (the paper's equation) or summed ones (its algorithm).
    activation : {"softmax", "identity"}, default="softmax"
        How logits become probabilities; ``"identity"`` if they are probabilities already (of class 1 if there is a
        single column). The ``activation`` of the :class:`Ensemble` must be the same.
    mesh : DeviceMesh, ProcessGroup or "local", optional
        As for :class:`EnsembleLoss`. Processes with other samples exchange means and second moments, 2 N m + 2 m + 1
        numbers for N learners and m classes, then N m + 2 for the gradient, whatever the size of the batch.

    Attributes
    ----------
    r_tl, r_ll : Tensor
        Mean correlations of the last batch, detached, for logging.

    Notes
    -----
    With columns :math:`z_i` of mean 0 and mean square 1 over the batch, and T the truth scaled likewise, twice the loss
    is :math:`(1 - d) \frac1N \sum_i |T - z_i|^2 + d \, |T - \bar z|^2` but for a constant: negative correlation
    learning on standardised outputs. What it trains is the standardised mean, and :func:`fit` gives the ensemble a
    :class:`Readout` that decodes it.

    Computed in float32 (float64 for float64) also under autocast, with a backward pass of its own, in time linear in
    the number of learners. Columns that are constant in the batch, and classes that are absent from it, are masked, so
    gradients stay bounded. A learner counts as constant if its logits differ by less than about a thousandth between
    samples: one that starts like this, with a last layer of zeros, does not train. Use a larger initialisation.
    The loss supports ``backward`` and ``torch.autograd.grad``, but not the transforms of ``torch.func``.

    Examples
    --------
    >>> import torch
    >>> loss = CorrelationLoss(diversity=0.9)
    >>> logits = torch.randn(5, 32, 3, requires_grad=True)  # (n_learners, batch, n_classes)
    >>> loss(logits, torch.randint(3, (32,))).backward()
    >>> logits.grad.shape, loss.r_ll.shape
    (torch.Size([5, 32, 3]), torch.Size([]))
    """

    activation: str
    _last: Standardised | None = None

    def __init__(
        self,
        diversity: float | Tensor | None = None,
        *,
        lam: float | Tensor | None = None,
        reduction: str = "mean",
        activation: str = "softmax",
        mesh: Any = None,
    ) -> None:
        if diversity is not None and lam is not None:
            raise ValueError(
                f"`lam` must not be given together with `diversity`; got {lam!r} and {diversity!r}."
            )
        super().__init__(None, mesh=mesh)
        if lam is None:
            self.diversity = check_diversity(0.5 if diversity is None else diversity, most=math.inf)
        self.lam = lam if lam is None or isinstance(lam, Tensor) else check_number(lam, "lam", 0)
        self.reduction = check_choice(reduction, "reduction", ("mean", "sum"))
        self.activation = check_choice(activation, "activation", ("softmax", "identity"))
        self.needs_readout = activation == "softmax"
        self.voting = "geometric" if self.needs_readout else "soft"

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`DiversityLoss`."""
        check_axes(logits)
        axes = self.axes_for(logits)
        lam = self.effective_lambda(axes.n_learners(logits.shape[-3]))
        loss, last = loss_and_state(logits, target, lam, self.reduction, self.activation, sample_weight, axes)
        self.__dict__["_last"] = last  # skips the checks of Module.__setattr__, at every step
        return loss

    @property
    def r_tl(self) -> Tensor:
        """Mean truth-learner correlation of the last batch; computed on access."""
        return self._last_batch.means().r_tl

    @property
    def r_ll(self) -> Tensor:
        """Mean learner-learner correlation of the last batch; computed on access."""
        return self._last_batch.means().r_ll

    @property
    def _last_batch(self) -> Standardised:
        if self._last is None:
            raise RuntimeError("`r_tl` and `r_ll` are those of the last batch; there has been none.")
        return self._last

    def effective_lambda(self, n_learners: int) -> float | Tensor:
        """Return the lambda in use for this number of learners."""
        if self.diversity is None:
            assert self.lam is not None
            return self._scaled(self.lam)
        return (
            self._scaled(self.diversity) * _critical_lambda(n_learners, self.reduction)
            if n_learners > 1
            else 0.0
        )

    def effective_diversity(self, n_learners: int) -> float | Tensor:
        """Return the dial in use for this number of learners: their lambda over the critical one."""
        if self.diversity is not None:
            return self._scaled(self.diversity)
        assert self.lam is not None
        return (
            self._scaled(self.lam) / _critical_lambda(n_learners, self.reduction) if n_learners > 1 else 0.0
        )

    def dial(self, n_learners: int) -> dict[str, float]:
        """Return the dial in use by its name: ``lam`` if it was given, else ``diversity``."""
        if self.diversity is not None:
            return super().dial(n_learners)
        return {"lam": float(self.effective_lambda(n_learners))}

    @property
    def kind(self) -> tuple[Any, ...]:
        """One key for all dials of the same reduction and activation."""
        by_group = isinstance(self.lam, Tensor) or isinstance(self.diversity, Tensor)
        known = type(self) is CorrelationLoss  # a subclass may have settings of its own
        return (type(self), self.reduction, self.activation) if known and not by_group else super().kind

    def extra_repr(self) -> str:
        """Return the settings."""
        dial = f"lam={self.lam}" if self.diversity is None else f"diversity={self.diversity}"
        return f"{dial}, reduction={self.reduction!r}, activation={self.activation!r}"


def correlation_loss(
    logits: Tensor,
    target: Tensor,
    *,
    diversity: float | Tensor | None = None,
    lam: float | Tensor | None = None,
    reduction: str = "mean",
    activation: str = "softmax",
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Return :math:`-(r_{TL} - \lambda r_{LL})` of a batch.

    Parameters
    ----------
    logits : Tensor, shape (..., n_learners, batch, n_classes)
        Outputs of the learners. A single column (one logit, or the probability of class 1) stands for two classes.
    target : Tensor, shape (..., batch) or (..., batch, n_classes)
        Labels as integers, or one-hot rows of any type.
    diversity, lam, reduction, activation
        As for :class:`CorrelationLoss`.
    sample_weight : Tensor, shape (..., batch), optional
        Non-negative weights of the samples.

    Returns
    -------
    Tensor
        One loss for each group; a scalar if there are no leading axes.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]])
    >>> correlation_loss(logits, torch.tensor([0, 1]), lam=0.2)
    tensor(-0.8000)
    >>> correlation_loss(logits, torch.tensor([0, 1]), diversity=0.8)  # of the critical lambda, 1/4
    tensor(-0.8000)
    """
    loss = CorrelationLoss(diversity, lam=lam, reduction=reduction, activation=activation)
    value: Tensor = loss(logits, target, sample_weight)
    return value


@lru_cache
def _critical_lambda(n_learners: int, reduction: str) -> float:
    """Return the critical lambda, cached: checking it takes as long as a step of small networks."""
    return float(critical_lambda(n_learners, reduction=reduction))
