"""Whether learners can use explicit diversity, told from how far they get with it in a first part of the training."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from counterpoint._validation import check_number, check_whole

__all__ = ["DiversityGate"]

_OPEN, _UNDECIDED, _SHUT = 1, 0, -1


class DiversityGate(nn.Module):
    r"""Whether a loss has explicit diversity: on trial at first, and then for good if the learners underfit.

    Parameters
    ----------
    threshold : float, default=0.5
        The gate stays open if the fit to the training batches, the correlation of the learners' standardised sum with
        the truth, is below it when the trial is over.
    trial : float, default=0.1
        The share of the training after which the gate decides, once. Until then it is open, but on trial: the loss
        has less diversity than it would have for good.
    horizon : int, default=50
        How many batches the running mean of the fit looks back.
    groups : tuple of int, default=()
        The leading axes of what is gated, if several ensembles train side by side: each has a gate of its own.

    Attributes
    ----------
    progress : float or None
        The share of the training that is done, to be set before each training batch; :func:`fit` does so. In a loop of
        one's own it is ``step / n_steps``. Where batches have no length :func:`fit` counts whole epochs: the gate then
        decides at the start of an epoch, and in a training of one epoch never, so that it stays on trial.
    fit : Tensor of the shape of the groups
        The running mean, 0 before the first batch.
    decision : Tensor of the shape of the groups
        1 where the gate is open for good, -1 where it is shut, 0 before it has decided.

    Notes
    -----
    Explicit diversity pays where learners underfit and costs where they fit. Which of the two it will be shows early,
    in the optimality :math:`r_{TL} / \sqrt{((N - 1) r_{LL} + 1) / N}` that they reach in the trial. What is learnt
    first counts most: learners that are to be diverse have to begin so, and of a short trial little is left in those
    that go on independently. The defaults were chosen on small ConvNets.

    What the gate remembers are buffers: ``state_dict`` holds them, and nothing is read from the device. It learns
    nothing where gradients are off, as in validation, or in evaluation mode, nor from a batch that has no correlation
    with the truth because it is of one class or without weight.

    The loss before the decision cannot be compared with the one after it. So :func:`fit` then begins anew to look for
    the best epoch on validation data, with all of its patience, and a ``ReduceLROnPlateau`` for the least loss.

    Examples
    --------
    >>> gate = DiversityGate(threshold=0.5, trial=0.5, horizon=1)
    >>> r_ll = torch.tensor(1.0)  # learners that are all the same
    >>> for gate.progress, r_tl in ((0.0, 0.1), (0.25, 0.4), (0.5, 0.6), (0.75, 0.4)):
    ...     print(gate.progress, bool(gate(torch.tensor(r_tl), r_ll, 5)))
    0.0 True
    0.25 True
    0.5 False
    0.75 False
    """

    total: Tensor
    mass: Tensor
    decision: Tensor

    def __init__(
        self,
        threshold: float = 0.5,
        *,
        trial: float = 0.1,
        horizon: int = 50,
        groups: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.threshold = check_number(threshold, "threshold", -1, 1)
        self.trial = check_number(trial, "trial", 0, 1)
        self.horizon = check_whole(horizon, "horizon", minimum=1)
        self.progress: float | None = None
        if not isinstance(groups, tuple):
            raise TypeError(f"`groups` must be a tuple of integers; got {groups!r}.")
        groups = tuple(check_whole(size, "groups", minimum=1) for size in groups)
        self.register_buffer("total", torch.zeros(groups))
        self.register_buffer("mass", torch.zeros(groups))
        self.register_buffer("decision", torch.full(groups, _UNDECIDED, dtype=torch.int8))

    @property
    def fit(self) -> Tensor:
        """The running mean of the fit to the training batches."""
        return self.total / self.mass.clamp(min=torch.finfo(self.mass.dtype).tiny)

    @property
    def on_trial(self) -> Tensor:
        """Where nothing has been decided yet, of the shape of the groups."""
        return self.decision == _UNDECIDED

    @property
    def is_open(self) -> Tensor:
        """Where there is explicit diversity, of the shape of the groups."""
        return self.decision != _SHUT

    def reset(self) -> None:
        """Forget everything, as before the first batch."""
        for buffer in (self.total, self.mass, self.decision):
            buffer.zero_()
        self.progress = None

    def forward(self, r_tl: Tensor, r_ll: Tensor, n_learners: int) -> Tensor:
        """Take in the correlations of a batch and tell whether there is explicit diversity in its loss.

        Parameters
        ----------
        r_tl, r_ll : Tensor of the shape of the groups
            The mean correlation of the learners with the truth, and with each other.
        n_learners : int
            How many there are.
        """
        if self.total.shape != r_tl.shape:
            raise ValueError(
                f"`groups` of a gate must be the leading axes of what it gates, {tuple(r_tl.shape)}; "
                f"got {tuple(self.total.shape)}."
            )
        self.to(r_tl.device)  # a loss is rarely moved by hand
        if self.training and torch.is_grad_enabled():
            if self.progress is None:
                raise ValueError(
                    "`progress` must be set before each training batch, to the share of the training that is done; "
                    "got None."
                )
            spread = ((n_learners - 1) * r_ll.detach() + 1) / n_learners
            self._take_in((r_tl.detach() * spread.clamp(min=1e-3).rsqrt()).to(self.total.dtype))
            if check_number(self.progress, "progress", 0) >= self.trial:
                self._decide()
        return self.is_open

    def _take_in(self, fit: Tensor) -> None:
        known = fit.abs() > 0  # neither NaN nor exactly 0, which is the mean of no correlation at all
        share = known.to(fit.dtype) / self.horizon
        self.total.lerp_(fit.where(known, 0.0), share)
        self.mass.lerp_(torch.ones_like(self.mass), share)  # so early means are not pulled to 0

    def _decide(self) -> None:
        """Decide where that has not been done and something is known; on the device, which is not waited for."""
        told = torch.where(self.fit < self.threshold, _OPEN, _SHUT)
        self.decision.copy_(torch.where(self.on_trial & (self.mass > 0), told, self.decision))

    def extra_repr(self) -> str:
        """Return the settings."""
        groups = tuple(self.decision.shape)
        return f"threshold={self.threshold}, trial={self.trial}, horizon={self.horizon}" + (
            f", groups={groups}" if groups else ""
        )


def gates_of(loss: object) -> list[DiversityGate]:
    """Return the gates within a loss."""
    parts = loss.modules() if isinstance(loss, nn.Module) else ()
    return [part for part in parts if isinstance(part, DiversityGate)]


def gates_on_trial(gates: Sequence[DiversityGate]) -> list[bool]:
    """Tell which gates have something left to decide; the device is waited for."""
    return [bool(gate.on_trial.any()) for gate in gates]
