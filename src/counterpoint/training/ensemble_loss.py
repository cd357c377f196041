r"""The base of all losses of an ensemble, and what training asks of a loss.

.. math:: L = (1 - d) \frac1N \sum_i \ell(q_i) + d \, \ell(\bar q)

The dial d is the *diversity*: 0 trains each learner independently, 1 trains the pool end to end. ``docs/theory.md`` has
the proofs.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from counterpoint._validation import check_number
from counterpoint.training.columns import average, class_columns
from counterpoint.training.mesh import LOCAL, Axes, as_axes, check_said

__all__ = ["EnsembleLoss", "as_ensemble_loss", "check_diversity", "value_on_mesh"]


class EnsembleLoss(nn.Module):
    r"""Base of the losses: ``(1 - diversity) * mean of the learners' losses + diversity * loss of their pool``.

    A subclass defines what is pooled (:meth:`transform`), how it is pooled (:meth:`pool`) and the loss of one output
    (:meth:`score`), or overrides :meth:`forward`.

    Parameters
    ----------
    diversity : float, Tensor of the shape of the groups, or None
        The dial; None means ``1 - 1 / n_learners``.
    mesh : DeviceMesh, ProcessGroup or "local", optional
        The processes that train together, for a training loop of your own; :func:`fit` tells the loss. A mesh has the
        dimensions ``"learners"`` and ``"data"``, or one of them; a process group is a data axis. The loss is then that
        of the whole batch and all learners, and its gradients are scaled for ``DistributedDataParallel``, which
        averages them. ``"local"`` is this process alone.

    Attributes
    ----------
    activation : {"softmax", "identity", "regression"}
        How outputs of the learners become probabilities, or "regression" if they are numbers. The :class:`Ensemble`
        must have the same.
    voting : {"soft", "geometric", "mean"}
        The vote that the loss trains; "mean" for regression. An :class:`Ensemble` with ``voting="auto"`` predicts with
        it after :func:`fit`.
    needs_readout : bool
        Whether the loss leaves the scale and offset of the outputs undetermined, so that :func:`fit` has to calibrate
        the ensemble.

    Notes
    -----
    These attributes, :meth:`set_progress` and :meth:`dial` are all that :func:`fit` uses besides the value of the
    loss; a checkpoint also has its ``repr``. :func:`fit_groups` uses :attr:`kind`, :meth:`effective_diversity` and
    :meth:`with_diversity` as well.
    :func:`fit` also takes a plain callable, which has the defaults of the attributes and no dial.

    Among several processes a loss without ``mesh`` refuses to train: each would take the loss of its own samples, and
    the mean of these is the loss of the batch only for some losses, and only if all have as many samples. On a mesh,
    the losses of this package exchange a few sums. A subclass gathers the outputs of all processes instead, so that it
    may be any function of them.

    Examples
    --------
    >>> from counterpoint.training import one_hot
    >>> class AbsoluteError(EnsembleLoss):
    ...     def transform(self, columns):  # (..., n_learners, n_classes, batch)
    ...         return columns.softmax(-2)
    ...     def score(self, outputs, target):
    ...         return (outputs - one_hot(target, outputs).unsqueeze(-3)).abs().sum(-2)
    >>> AbsoluteError(0.5)(torch.zeros(3, 8, 2), torch.zeros(8, dtype=torch.long))
    tensor(1.)
    """

    activation: str | None = "softmax"
    voting: str = "soft"
    needs_readout: bool = False
    _progress: float = 1.0
    _axes: Axes | None = None  # not said

    def __init__(self, diversity: float | Tensor | None, *, mesh: Any = None) -> None:
        super().__init__()
        self._axes = None if mesh is None else as_axes(mesh)
        self.diversity = None if diversity is None else check_diversity(diversity)

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor, shape (..., n_learners, batch, n_classes)
            Outputs of the learners, learners first: where a batch has as many samples as there are learners, their
            shape does not tell another order. A single column (binary networks with one logit) stands for two classes.
        target : Tensor, shape (..., batch) or (..., batch, n_classes)
            Labels as integers, or floating-point rows that sum to one: one-hot, smoothed or mixed labels.
        sample_weight : Tensor, shape (..., batch), optional
            Non-negative weights of the samples. :func:`fit` checks those on the CPU.

        Returns
        -------
        Tensor
            One loss for each group; a scalar if there are no leading axes.
        """
        axes = self.axes_for(logits)
        if axes and not _is_ours(self, _STEPS):
            return self.of_all(logits, target, sample_weight)
        outputs = self.transform(class_columns(logits, self.activation or "softmax"))
        n_own, batch = outputs.shape[-3], outputs.shape[-1]
        n_learners = axes.n_learners(n_own)
        d = self.effective_diversity(n_learners)
        own = pooled = None
        if not (isinstance(d, float) and d == 1):
            own = self.cost(outputs, target, sample_weight)
            own = axes.sum_learners(own * (n_own / n_learners)) if axes.learners else own
        if not (isinstance(d, float) and d == 0):
            pooled = self.cost(self.pool(outputs), target, sample_weight)
        if own is None or pooled is None:
            loss = pooled if own is None else own
            assert loss is not None
        else:
            loss = torch.lerp(own, pooled, d.to(own) if isinstance(d, Tensor) else d)
        return axes.mean_of_data(loss, batch, sample_weight)

    def axes_for(self, logits: Tensor) -> Axes:
        """Return the processes that train together, which must be known where there are several."""
        if self._axes is None:
            check_said(logits)
        return self._axes or LOCAL

    def of_all(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of the whole batch and all learners, gathered: right for any loss, at the cost of traffic."""
        axes = self.axes_for(logits)
        logits, target, sample_weight = axes.gather(logits, target, sample_weight)
        with self.on(LOCAL):
            loss: Tensor = self(logits, target, *(() if sample_weight is None else (sample_weight,)))
        return loss if axes.data is None else torch.lerp(loss.detach(), loss, float(axes.n_data))

    @contextmanager
    def on(self, axes: Axes) -> Iterator[None]:
        """Train on these axes for a block."""
        before, self._axes = self._axes, axes
        try:
            yield
        finally:
            self._axes = before

    def set_progress(self, fraction: float) -> None:
        """Scale the dial by a fraction, as a warm-up does; 1 restores it."""
        self._progress = fraction

    def dial(self, n_learners: int) -> dict[str, float]:
        """Return the dial in use by its name, for the history of a warm-up."""
        return {"diversity": float(self.effective_diversity(n_learners))}

    def effective_diversity(self, n_learners: int) -> float | Tensor:
        """Return the diversity in use for this number of learners."""
        return self._scaled(1 - 1 / n_learners if self.diversity is None else self.diversity)

    def transform(self, columns: Tensor) -> Tensor:
        """Return what is pooled, from logits ``(..., n_learners, n_classes, batch)``."""
        return columns

    def pool(self, outputs: Tensor) -> Tensor:
        """Return the pooled output, with a learner axis of length one."""
        return (self._axes or LOCAL).mean_of_learners(outputs)

    def cost(self, outputs: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the mean loss of outputs over learners and samples."""
        return average(self.score(outputs, target).mean(-2), sample_weight)

    def score(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each output on each sample, ``(..., n_learners, batch)``."""
        raise NotImplementedError

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of the losses that :func:`fit_groups` computes as one.

        Losses with equal keys may differ only in a dial that is a number. By default each loss has a key of its own; a
        class without settings other than its dial may return ``(type(self),)``.
        """
        return (id(self),)

    def with_diversity(self, diversity: float | Tensor) -> Self:
        """Return a copy of the loss with another diversity."""
        twin = copy.copy(self)
        twin.diversity, twin._progress = diversity, 1.0
        return twin

    def _scaled(self, dial: float | Tensor) -> float | Tensor:
        return dial if self._progress == 1.0 else self._progress * dial

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"diversity={self.diversity!r}"


class _PlainLoss(EnsembleLoss):
    """Any callable, with the defaults of a loss and no dial."""

    activation = None  # a plain callable does not tell

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__(None)
        self.function = function

    def forward(self, logits: Tensor, target: Tensor, *sample_weight: Tensor) -> Tensor:  # type: ignore[override]
        if self._axes:
            return self.of_all(logits, target, *sample_weight)
        return self.function(logits, target, *sample_weight)

    def set_progress(self, fraction: float) -> None:
        raise ValueError(f"`loss` must have a diversity, to be warmed up; got {self.function!r}.")


def as_ensemble_loss(loss: Callable[..., Tensor]) -> EnsembleLoss:
    """Return the loss itself, or a plain callable wrapped as one.

    Parameters
    ----------
    loss : callable
        ``loss(logits, target)`` or ``loss(logits, target, sample_weight)``.

    Returns
    -------
    EnsembleLoss

    Examples
    --------
    >>> as_ensemble_loss(lambda logits, target: logits.square().mean()).voting
    'soft'
    """
    return loss if isinstance(loss, EnsembleLoss) else _PlainLoss(loss)


def value_on_mesh(loss: EnsembleLoss) -> Callable[..., Tensor]:
    """Return the function of a batch that is the loss on its mesh, also if a subclass has a ``forward`` of its own."""
    return loss if _is_ours(loss, ("forward",)) or not loss._axes else loss.of_all


_STEPS = ("transform", "pool", "cost", "score")


def _is_ours(loss: EnsembleLoss, methods: tuple[str, ...]) -> bool:
    """Return True if these methods are those of this package, which know what a mesh asks of them."""
    return all(getattr(type(loss), name).__module__.startswith("counterpoint.training.") for name in methods)


def check_diversity(value: object, *, most: float = 1.0) -> float | Tensor:
    """Return a dial: a number up to ``most``, or a tensor with one number for each group."""
    return value if isinstance(value, Tensor) else check_number(value, "diversity", 0, most)
