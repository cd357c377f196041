r"""One family of losses for an ensemble: the learners' own losses, and that of their pool.

.. math:: L = (1 - d) \frac1N \sum_i \ell(q_i) + d \, \ell(\bar q)

The dial d is the *diversity*: 0 trains each learner by itself, 1 trains the pool end to end. Learners differ in what is
pooled and how it is scored:

======================== ============================ ====================== =====================================
class                    outputs q                    pool                   own loss
======================== ============================ ====================== =====================================
DiversityLoss            logits                       mean                   cross-entropy
DiversityLoss, JointLoss probabilities                mean                   cross-entropy
NegativeCorrelationLoss  probabilities                mean                   squared error
CorrelationLoss          standardised probabilities   mean                   squared error to the standardised truth
======================== ============================ ====================== =====================================

Logits are ``(..., n_learners, batch, n_classes)``; leading axes are groups that train side by side, each with a loss of
its own. ``docs/theory.md`` has the proofs.
"""

import copy
import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import check_choice, check_number
from counterpoint.training.columns import (
    average,
    check_classes,
    class_columns,
    is_one_hot,
    of_truth,
    one_hot,
)
from counterpoint.training.pooled import pooled_cross_entropy

__all__ = [
    "DiversityLoss",
    "EnsembleLoss",
    "IndependentLoss",
    "JointLoss",
    "NegativeCorrelationLoss",
    "check_diversity",
]

# Cross-entropy skips one label, and it should be none that anybody gives.
_NO_LABEL = torch.iinfo(torch.int64).min
_SMALL = 1e-6  # a dial whose inverse is no trouble


class EnsembleLoss(nn.Module):
    r"""Base of the family: ``(1 - diversity) * mean of the learners' losses + diversity * loss of their pool``.

    A learner says how columns of logits become what is pooled (:meth:`transform`), how that is pooled (:meth:`pool`),
    and what an output costs (:meth:`score`).

    Parameters
    ----------
    diversity : float, Tensor of the shape of the groups, or None
        The dial; None is ``1 - 1 / n_learners``.

    Attributes
    ----------
    activation : {"softmax", "identity"}
        How the loss reads what the learners put out; that of an :class:`Ensemble` must be the same.
    voting : {"soft", "geometric"}
        The vote that the loss trains, with which :class:`Ensemble` predicts after :func:`fit`.
    needs_readout : bool
        Whether the loss leaves scale and offset of the outputs open, for a read-out to fit.

    Examples
    --------
    >>> class AbsoluteError(EnsembleLoss):
    ...     def transform(self, columns):  # (..., n_learners, n_classes, batch)
    ...         return columns.softmax(-2)
    ...     def score(self, outputs, target):
    ...         return (outputs - one_hot(target, outputs).unsqueeze(-3)).abs().sum(-2)
    >>> AbsoluteError(0.5)(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(1.)
    """

    activation: str = "softmax"
    voting: str = "soft"
    needs_readout: bool = False

    def __init__(self, diversity: float | Tensor | None) -> None:
        super().__init__()
        self.diversity = None if diversity is None else check_diversity(diversity)

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor, shape (..., n_learners, batch, n_classes)
            What the learners put out; one column (binary networks with one logit) stands for two.
        target : Tensor, shape (..., batch) or (..., batch, n_classes)
            Labels as integers, or rows of floating point that sum to one: one-hot, smoothed or mixed labels.
        sample_weight : Tensor, shape (..., batch), optional
            Weights of the samples, none negative, which :func:`fit` checks where they come from the CPU.

        Returns
        -------
        Tensor
            One loss for each group: a scalar where there are no leading axes.
        """
        outputs = self.transform(class_columns(logits, self.activation))
        d = self.effective_diversity(outputs.shape[-3])
        if isinstance(d, float) and d in (0, 1):
            return self.cost(self.pool(outputs) if d else outputs, target, sample_weight)
        own, pooled = (self.cost(q, target, sample_weight) for q in (outputs, self.pool(outputs)))
        return torch.lerp(own, pooled, d.to(own) if isinstance(d, Tensor) else d)

    def effective_diversity(self, n_learners: int) -> float | Tensor:
        """Return the dial in use for this number of learners."""
        return 1 - 1 / n_learners if self.diversity is None else self.diversity

    def transform(self, columns: Tensor) -> Tensor:
        """Return what is pooled, of logits ``(..., n_learners, n_classes, batch)``."""
        return columns

    def pool(self, outputs: Tensor) -> Tensor:
        """Return the pooled output, with one learner on the axis of the learners."""
        return outputs.mean(-3, keepdim=True)

    def cost(self, outputs: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the mean loss of outputs over learners and samples."""
        return average(self.score(outputs, target).mean(-2), sample_weight)

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each output on each sample, ``(..., n_learners, batch)``."""
        raise NotImplementedError

    @property
    def kind(self) -> tuple[Any, ...]:
        """What losses share that differ in nothing but the number of their dial: groups of them are computed as one."""
        return (id(self),) if isinstance(self.diversity, Tensor) else (type(self), *self._settings())

    def with_diversity(self, diversity: float | Tensor) -> Self:
        """Return the same loss with another dial."""
        twin = copy.copy(self)
        twin.diversity = diversity
        return twin

    def _settings(self) -> tuple[Any, ...]:
        """Return the settings beside the dial."""
        return ()

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"diversity={self.diversity!r}"


class DiversityLoss(EnsembleLoss):
    r"""Cross-entropy with explicit diversity: the learners' mean loss less d times their diversity.

    Parameters
    ----------
    diversity : float, optional
        The dial d, from 0 (independent training) to 1 (the pool is trained end to end). By default it is 1 - 1/N for N
        learners, 0.9 for ten: the learners' own losses have the weight that one learner has in the vote. Ensembles
        that train side by side, in groups, may have a dial each, as a tensor.
    pool : {"logits", "probabilities"}, default="logits"
        Average the logits, which is the normalised geometric mean of the probabilities, or the probabilities.

    Notes
    -----
    With averaged logits the pool is :math:`\bar p \propto \prod_i p_i^{1/N}`, and

    .. math:: \frac1N \sum_i CE(p_i) = CE(\bar p) + D, \qquad
              D = \frac1N \sum_i KL(\bar p \| p_i) = -\log \sum_k \prod_i p_i(k)^{1/N} \ge 0.

    The diversity D does not depend on the label (Wood et al. 2023), so that
    :math:`(1 - d) \frac1N \sum_i CE(p_i) + d \, CE(\bar p) = \frac1N \sum_i CE(p_i) - d D`: accuracy and diversity,
    traded exactly. Webb et al. (2020) call it the modular loss. Averaged probabilities have no such identity.

    At d = 1 single learners may be junk that is right only together. A little of their own losses keeps them useful and
    costs the vote next to nothing: ``docs/loss.md`` has what was measured.

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

    def __init__(self, diversity: float | Tensor | None = None, *, pool: str = "logits") -> None:
        super().__init__(diversity)
        self.pooled = check_choice(pool, "pool", ("logits", "probabilities"))
        self.voting = "geometric" if pool == "logits" else "soft"

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch; shapes as for :class:`EnsembleLoss`."""
        if (
            sample_weight is None
            and self.pooled == "logits"
            and isinstance(logits, Tensor)
            and logits.dim() == 3
        ):
            d = self.effective_diversity(max(len(logits), 1))
            if isinstance(d, float) and _SMALL < d < 1 and not torch.compiler.is_compiling():
                columns = class_columns(logits)
                if not is_one_hot(target, columns):
                    return pooled_cross_entropy(columns, target.long(), d)
        return super().forward(logits, target, sample_weight)

    def transform(self, columns: Tensor) -> Tensor:
        """Return logits, or log-probabilities."""
        return columns if self.pooled == "logits" else columns.log_softmax(-2)

    def pool(self, outputs: Tensor) -> Tensor:
        """Return the mean of logits, or the logarithm of that of probabilities."""
        if self.pooled == "logits":
            return outputs.mean(-3, keepdim=True)
        return outputs.logsumexp(-3, keepdim=True) - math.log(outputs.shape[-3])

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
        """As for all losses; independent and joint training are of this kind too."""
        return super().kind if isinstance(self.diversity, Tensor) else (DiversityLoss, self.pooled)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{super().extra_repr()}, pool={self.pooled!r}"


class IndependentLoss(DiversityLoss):
    """The mean of the learners' cross-entropies: each learns as if it were alone.

    It is :class:`DiversityLoss` at diversity 0, with the usual vote of independent networks, which averages their
    probabilities.

    Examples
    --------
    >>> import torch
    >>> IndependentLoss()(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self.voting = "soft"

    def extra_repr(self) -> str:
        """Return nothing: there are no settings."""
        return ""


class JointLoss(DiversityLoss):
    """The cross-entropy of the pooled learners, trained end to end: the paper's Model II.

    It is :class:`DiversityLoss` at diversity 1. The paper averages "outputs" and does not say which.

    Parameters
    ----------
    pool : {"probabilities", "logits"}, default="probabilities"
        What is averaged.

    Examples
    --------
    >>> import torch
    >>> JointLoss(pool="logits")(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(0.6931)
    """

    def __init__(self, *, pool: str = "probabilities") -> None:
        super().__init__(1.0, pool=pool)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"pool={self.pooled!r}"


class NegativeCorrelationLoss(EnsembleLoss):
    r"""Negative correlation learning: the squared error of probabilities, with explicit diversity.

    Parameters
    ----------
    diversity : float, default=0.5
        The dial, Liu and Yao's strength: 0 trains each learner by itself, 1 the mean of their probabilities.

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

    def __init__(self, diversity: float | Tensor = 0.5) -> None:
        super().__init__(check_diversity(diversity))

    def transform(self, columns: Tensor) -> Tensor:
        """Return probabilities."""
        return columns.softmax(-2)

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the squared distances from the truth, summed over the classes."""
        return (outputs - one_hot(target, outputs).unsqueeze(-3)).square().sum(-2)


def check_diversity(value: object, *, most: float = 1.0) -> float | Tensor:
    """Return a dial: a number up to ``most``, or a tensor with one for each group."""
    return value if isinstance(value, Tensor) else check_number(value, "diversity", 0, most)
