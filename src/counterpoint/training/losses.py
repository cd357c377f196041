r"""The losses of the family, but for the paper's, which :mod:`counterpoint.training.correlation_losses` holds.

All are :math:`L = (1 - d) \frac1N \sum_i \ell(q_i) + d \, \ell(\bar q)` with a dial d. They differ in what is pooled
and how it is scored:

======================== ============================ ====================== =====================================
class                    outputs q                    pool                   own loss
======================== ============================ ====================== =====================================
DiversityLoss            logits                       mean                   cross-entropy
DiversityLoss, JointLoss probabilities                mean                   cross-entropy
NegativeCorrelationLoss  probabilities                mean                   squared error
SquaredErrorLoss         numbers                      mean                   squared error
CorrelationLoss          standardised probabilities   mean                   squared error to the standardised truth
======================== ============================ ====================== =====================================

Logits are ``(..., n_learners, batch, n_classes)``; leading axes are groups that train side by side, each with a loss of
its own. ``docs/theory.md`` has the proofs.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from counterpoint._validation import check_choice, check_number, check_whole
from counterpoint.training.columns import (
    check_classes,
    check_tensor,
    class_columns,
    is_one_hot,
    number_columns,
    of_truth,
    one_hot,
)
from counterpoint.training.ensemble_loss import EnsembleLoss, check_diversity
from counterpoint.training.mesh import LOCAL
from counterpoint.training.pooled import pooled_cross_entropy

__all__ = [
    "DiversityLoss",
    "IndependentLoss",
    "JointLoss",
    "NegativeCorrelationLoss",
    "SquaredErrorLoss",
]

# Cross-entropy ignores one label, which must not occur.
_NO_LABEL = torch.iinfo(torch.int64).min
_SMALL = 1e-6  # a dial with a harmless inverse


class DiversityLoss(EnsembleLoss):
    r"""Cross-entropy with explicit diversity: the learners' mean loss less d times their diversity.

    Parameters
    ----------
    diversity : float, optional
        The dial d, from 0 (independent training) to 1 (the pool is trained end to end). By default it is 1 - 1/N for N
        learners, 0.9 for ten: the learners' own losses have the weight that one learner has in the vote. A tensor gives
        each group of ensembles that train side by side its own dial.
    pool : {"logits", "probabilities"}, default="logits"
        Average the logits, which is the normalised geometric mean of the probabilities, or the probabilities.
    weight : Tensor of shape (n_classes,), optional
        Weights of the classes, for labels, as in ``torch.nn.CrossEntropyLoss``.
    label_smoothing : float, default=0.0
        Share of the target that all classes have alike, as in ``torch.nn.CrossEntropyLoss``.
    ignore_index : int, optional
        Samples with this label count for nothing, as in ``torch.nn.CrossEntropyLoss``, whose default is -100. By
        default every sample counts. :func:`fit` leaves them out of its measures too.
    mesh : DeviceMesh, ProcessGroup or "local", optional
        As for :class:`EnsembleLoss`.

    Notes
    -----
    With averaged logits the pool is :math:`\bar p \propto \prod_i p_i^{1/N}`, and

    .. math:: \frac1N \sum_i CE(p_i) = CE(\bar p) + D, \qquad
              D = \frac1N \sum_i KL(\bar p \| p_i) = -\log \sum_k \prod_i p_i(k)^{1/N} \ge 0.

    The diversity D does not depend on the label (Wood et al. 2023), so that
    :math:`(1 - d) \frac1N \sum_i CE(p_i) + d \, CE(\bar p) = \frac1N \sum_i CE(p_i) - d D`: accuracy and diversity,
    traded exactly. Webb et al. (2020) call it the modular loss. Averaged probabilities have no such identity.

    At d = 1 single learners may be useless except together. A small share of their own losses keeps them useful at
    almost no cost to the vote; ``docs/loss.md`` has the measurements.

    References
    ----------
    Liu and Yao (1999), "Ensemble learning via negative correlation". Webb et al. (2020), "To ensemble or not ensemble:
    when does end-to-end training fail?". Wood et al. (2023), "A unified theory of diversity in ensemble learning".

    Examples
    --------
    >>> import torch
    >>> logits = torch.randn(5, 32, 3, requires_grad=True)  # (n_learners, batch, n_classes)
    >>> target = torch.randint(3, (32,))
    >>> DiversityLoss()(logits, target).backward()
    >>> own, pooled = IndependentLoss()(logits, target), JointLoss(pool="logits")(logits, target)
    >>> torch.allclose(DiversityLoss(0.9)(logits, target), 0.1 * own + 0.9 * pooled)
    True
    """

    weight: Tensor | None

    def __init__(
        self,
        diversity: float | Tensor | None = None,
        *,
        pool: str = "logits",
        weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        mesh: Any = None,
    ) -> None:
        super().__init__(diversity, mesh=mesh)
        if ignore_index is not None:
            ignore_index = check_whole(ignore_index, "ignore_index", minimum=-(2**63))
        self.ignore_index = ignore_index
        self.label_smoothing = check_number(label_smoothing, "label_smoothing", 0, 1)
        if weight is not None:
            check_tensor(weight, "weight")
            least = 0 if not label_smoothing else torch.finfo(torch.float32).tiny
            if weight.dim() != 1 or not bool((weight >= least).all()):
                what = "above 0, with `label_smoothing`," if label_smoothing else "of 0 or more"
                raise ValueError(f"`weight` must hold a number {what} for each class; got {weight!r}.")
        self.register_buffer("weight", weight)
        self.pooled = check_choice(pool, "pool", ("logits", "probabilities"))
        self.voting = "geometric" if pool == "logits" else "soft"

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`EnsembleLoss`."""
        if self.ignore_index is not None and not target.is_floating_point():
            counts = target != self.ignore_index
            target = target.masked_fill(~counts, 0)
            sample_weight = counts.to(logits) if sample_weight is None else sample_weight * counts
        if self.weight is not None or self.label_smoothing:
            target, sample_weight = self._torch_targets(logits, target, sample_weight)
        if (
            sample_weight is None
            and self.pooled == "logits"
            and isinstance(logits, Tensor)
            and logits.dim() == 3
            and (axes := self.axes_for(logits)).learners is None
        ):
            d = self.effective_diversity(max(len(logits), 1))
            if isinstance(d, float) and _SMALL < d < 1 and not torch.compiler.is_compiling():
                columns = class_columns(logits)
                if not is_one_hot(target, columns):
                    loss = pooled_cross_entropy(columns, target.long(), d)
                    return axes.mean_of_data(loss, columns.shape[-1], None)
        return super().forward(logits, target, sample_weight)

    def _torch_targets(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return rows and weights with which the mean is that of ``torch.nn.CrossEntropyLoss``."""
        columns = class_columns(logits.detach())
        m = columns.shape[-2]
        classes = columns.new_ones(m) if self.weight is None else self.weight.to(columns)
        soft = is_one_hot(target, columns)
        if len(classes) != m or (soft and self.weight is not None):
            got = f"{len(classes)} weights for {m} classes" if len(classes) != m else "soft targets"
            raise ValueError(
                f"`weight` must hold a number for each class, for targets that are labels; got {got}."
            )
        rows = one_hot(target, columns).mT  # (..., B, m)
        own = rows @ classes if self.weight is not None else None  # (..., B)
        if self.label_smoothing:
            share = (
                classes if own is None else classes / own.clamp(min=torch.finfo(own.dtype).tiny)[..., None]
            )
            target = (1 - self.label_smoothing) * rows + self.label_smoothing / m * share
        if own is None:
            return target, sample_weight
        return target, own if sample_weight is None else own * sample_weight.to(own)

    def transform(self, columns: Tensor) -> Tensor:
        """Return logits, or log-probabilities."""
        return columns if self.pooled == "logits" else columns.log_softmax(-2)

    def pool(self, outputs: Tensor) -> Tensor:
        """Return the mean of logits, or the logarithm of that of probabilities."""
        if self.pooled == "logits":
            return super().pool(outputs)
        axes = self._axes or LOCAL
        return axes.logsumexp_of_learners(outputs) - math.log(axes.n_learners(outputs.shape[-3]))

    def cost(self, outputs: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the mean cross-entropy, in the usual case by one operation."""
        if sample_weight is not None or outputs.dim() > 3 or is_one_hot(target, outputs):
            return super().cost(outputs, target, sample_weight)
        loss = F.cross_entropy if self.pooled == "logits" else F.nll_loss
        try:
            return loss(outputs, target.long().expand(len(outputs), -1), ignore_index=_NO_LABEL)
        except IndexError:
            check_classes(target, outputs.shape[-2])
            raise

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropies."""
        return -of_truth(outputs.log_softmax(-2) if self.pooled == "logits" else outputs, target)

    @property
    def kind(self) -> tuple[Any, ...]:
        """One key for each pool: independent and joint training are dials of the same loss."""
        known = type(self) in (
            DiversityLoss,
            IndependentLoss,
            JointLoss,
        )  # a subclass may compute something else
        known = known and self.weight is None and not isinstance(self.diversity, Tensor)
        settings = (self.pooled, self.label_smoothing, self.ignore_index)
        return (DiversityLoss, *settings) if known else super().kind

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{super().extra_repr()}, pool={self.pooled!r}{self._classes_text}"

    @property
    def _classes_text(self) -> str:
        weight = "" if self.weight is None else f", weight={self.weight.tolist()}"
        smoothing = f", label_smoothing={self.label_smoothing}" if self.label_smoothing else ""
        ignored = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        return weight + smoothing + ignored


class IndependentLoss(DiversityLoss):
    """The mean of the learners' cross-entropies: each learner trains independently.

    It is :class:`DiversityLoss` at diversity 0, with the usual vote of independent networks: averaged probabilities.

    Parameters
    ----------
    weight, label_smoothing, ignore_index, mesh
        As for :class:`DiversityLoss`.

    Notes
    -----
    The mean over N learners gives each 1/N of the gradient that it would have alone. Adam does not depend on this
    scale; with SGD, multiply the learning rate of a single network by N and divide its weight decay by N.

    Examples
    --------
    >>> import torch
    >>> IndependentLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        mesh: Any = None,
    ) -> None:
        own: dict[str, Any] = {
            "weight": weight,
            "label_smoothing": label_smoothing,
            "ignore_index": ignore_index,
        }
        super().__init__(0.0, **own, mesh=mesh)
        self.voting = "soft"

    def extra_repr(self) -> str:
        """Return the settings."""
        return self._classes_text.removeprefix(", ")


class JointLoss(DiversityLoss):
    """The cross-entropy of the pooled learners, trained end to end: the paper's Model II.

    It is :class:`DiversityLoss` at diversity 1. The paper averages "outputs" and does not say which.

    Parameters
    ----------
    pool : {"probabilities", "logits"}, default="probabilities"
        What is averaged.
    weight, label_smoothing, ignore_index, mesh
        As for :class:`DiversityLoss`.

    Examples
    --------
    >>> import torch
    >>> JointLoss(pool="logits")(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def __init__(
        self,
        *,
        pool: str = "probabilities",
        weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        mesh: Any = None,
    ) -> None:
        own: dict[str, Any] = {
            "weight": weight,
            "label_smoothing": label_smoothing,
            "ignore_index": ignore_index,
        }
        super().__init__(1.0, pool=pool, **own, mesh=mesh)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"pool={self.pooled!r}{self._classes_text}"


class NegativeCorrelationLoss(EnsembleLoss):
    r"""Negative correlation learning: the squared error of probabilities, with explicit diversity.

    Parameters
    ----------
    diversity : float, default=0.5
        The dial, Liu and Yao's strength: 0 trains each learner by itself, 1 the mean of their probabilities.
    mesh : DeviceMesh, ProcessGroup or "local", optional
        As for :class:`EnsembleLoss`.

    Notes
    -----
    Liu and Yao (1999) penalise each learner by :math:`-(f_i - \bar f)^2`. By the ambiguity decomposition (Krogh and
    Vedelsby 1995) that is :math:`(1 - d) \frac1N \sum_i |f_i - y|^2 + d \, |\bar f - y|^2` (Brown et al. 2005).

    Examples
    --------
    >>> import torch
    >>> NegativeCorrelationLoss(0.5)(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.5000)
    """

    def __init__(self, diversity: float | Tensor = 0.5, *, mesh: Any = None) -> None:
        super().__init__(check_diversity(diversity), mesh=mesh)

    @property
    def kind(self) -> tuple[Any, ...]:
        """One key for all dials."""
        known = type(self) is NegativeCorrelationLoss  # a subclass may have settings of its own
        return (type(self),) if known and not isinstance(self.diversity, Tensor) else super().kind

    def transform(self, columns: Tensor) -> Tensor:
        """Return probabilities."""
        return columns.softmax(-2)

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the squared distances from the truth, summed over the classes."""
        return (outputs - one_hot(target, outputs).unsqueeze(-3)).square().sum(-2)


class SquaredErrorLoss(EnsembleLoss):
    r"""Squared error with explicit diversity, for regression: the learners' mean error less d times their ambiguity.

    Parameters
    ----------
    diversity : float, optional
        The dial d, from 0 (independent training) to 1 (the mean of the learners is trained end to end). By default it
        is 1 - 1/N for N learners. A tensor gives each group of ensembles that train side by side its own dial.
    mesh : DeviceMesh, ProcessGroup or "local", optional
        As for :class:`EnsembleLoss`.

    Notes
    -----
    By the ambiguity decomposition (Krogh and Vedelsby 1995) the squared error of the mean :math:`\bar f` is that of
    the learners less their spread, so that

    .. math:: (1 - d) \frac1N \sum_i (f_i - y)^2 + d \, (\bar f - y)^2
              = \frac1N \sum_i (f_i - y)^2 - d \, \frac1N \sum_i (f_i - \bar f)^2.

    It is negative correlation learning (Liu and Yao 1999) as it was proposed, on numbers;
    :class:`NegativeCorrelationLoss` applies it to probabilities.

    Targets are numbers ``(batch,)`` for networks with one output, or ``(batch, n_outputs)``, over which the error is
    averaged. The :class:`Ensemble` must have ``activation="regression"``. Standardise the targets: a network starts
    with outputs of about that size.

    Examples
    --------
    >>> import torch
    >>> outputs = torch.tensor([[[1.0], [2.0]], [[3.0], [2.0]]])  # (n_learners, batch, 1)
    >>> target = torch.tensor([2.0, 1.0])
    >>> [SquaredErrorLoss(d)(outputs, target).item() for d in (0.0, 0.5, 1.0)]
    [1.0, 0.75, 0.5]
    """

    activation = "regression"
    voting = "mean"

    def __init__(self, diversity: float | Tensor | None = None, *, mesh: Any = None) -> None:
        super().__init__(diversity, mesh=mesh)

    @property
    def kind(self) -> tuple[Any, ...]:
        """One key for all dials."""
        known = type(self) is SquaredErrorLoss  # a subclass may have settings of its own
        return (type(self),) if known and not isinstance(self.diversity, Tensor) else super().kind

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the squared errors, averaged over the outputs of a network."""
        return (outputs - number_columns(target, outputs).unsqueeze(-3)).square().mean(-2)
