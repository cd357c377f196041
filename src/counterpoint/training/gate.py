"""How much explicit diversity the learners can use, told from how well they fit their training batches."""

import torch
from torch import Tensor, nn

from counterpoint._validation import check_choice, check_count, check_interval

__all__ = ["DiversityGate"]


class DiversityGate(nn.Module):
    r"""The share of explicit diversity in a loss: 1 while the learners underfit, 0 once they fit.

    Parameters
    ----------
    start, end : float, default=0.8, 0.9
        Where the fit to the training batches is under ``start`` the gate is open, over ``end`` it is shut, and in
        between it falls smoothly.
    by : {"optimality", "r_tl"}, default="optimality"
        What the fit is: the correlation of the learners' standardised sum with the truth, or that of single learners,
        which explicit diversity itself lowers.
    horizon : int, default=50
        How many batches the running mean of the fit looks back.
    groups : tuple of int, default=()
        The leading axes of what is gated, if several ensembles train side by side: each has a gate of its own.

    Attributes
    ----------
    fit : Tensor of the shape of the groups
        The running mean, 0 before the first batch.

    Notes
    -----
    Explicit diversity pays where learners underfit and costs where they fit. With the running mean f of the optimality
    :math:`r_{TL} / \sqrt{((N - 1) r_{LL} + 1) / N}` and :math:`x = (end - f) / (end - start)`, cut to between 0 and 1,
    the gate gives :math:`w = x^2 (3 - 2 x)`, for a loss :math:`(1 - w) \, CE + w \, L` of the learners' own
    cross-entropy and a loss L with explicit diversity. What it remembers are two buffers: ``state_dict`` holds them,
    nothing is read from the device, and it may be compiled. It learns nothing where gradients are off, as in
    validation, or in evaluation mode.

    Examples
    --------
    >>> gate = DiversityGate(start=0.5, end=0.9, horizon=1)
    >>> r_ll = torch.tensor(1.0)  # learners that are all the same
    >>> [round(float(gate(torch.tensor(r_tl), r_ll, 5)), 3) for r_tl in (0.3, 0.6, 0.7, 0.8, 0.95)]
    [1.0, 0.844, 0.5, 0.156, 0.0]
    """

    total: Tensor
    mass: Tensor

    def __init__(
        self,
        start: float = 0.8,
        end: float = 0.9,
        *,
        by: str = "optimality",
        horizon: int = 50,
        groups: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.end = float(check_interval(end, "end", 0, 1))
        self.start = float(check_interval(start, "start", 0, self.end))
        if self.start == self.end:
            raise ValueError(f"`start` must be less than `end`; got {start!r} and {end!r}.")
        self.by = check_choice(by, "by", ("optimality", "r_tl"))
        self.horizon = int(check_count(horizon, "horizon", minimum=1))
        self.register_buffer("total", torch.zeros(groups))
        self.register_buffer("mass", torch.zeros(()))

    @property
    def fit(self) -> Tensor:
        """The running mean of the fit to the training batches."""
        return self.total / self.mass.clamp(min=torch.finfo(self.mass.dtype).tiny)

    def forward(self, r_tl: Tensor, r_ll: Tensor, n_learners: int) -> Tensor:
        """Take in the correlations of a batch and return the share of explicit diversity for it.

        Parameters
        ----------
        r_tl, r_ll : Tensor of the shape of the groups
            The mean correlation of the learners with the truth, and with each other.
        n_learners : int
            How many there are.
        """
        if self.total.shape != r_tl.shape:
            raise ValueError(
                f"`r_tl` must have the shape of the groups, {tuple(self.total.shape)}; got {tuple(r_tl.shape)}."
            )
        if self.total.device != r_tl.device:
            self.to(r_tl.device)  # a loss is rarely moved by hand
        if self.training and torch.is_grad_enabled():
            fit = r_tl.detach()
            if self.by == "optimality":
                fit = fit * (((n_learners - 1) * r_ll.detach() + 1) / n_learners).clamp(min=1e-3).rsqrt()
            self.total.lerp_(fit.to(self.total.dtype), 1 / self.horizon)
            self.mass.lerp_(
                torch.ones_like(self.mass), 1 / self.horizon
            )  # so early means are not pulled to 0
        open_ = ((self.end - self.fit) / (self.end - self.start)).clamp(0, 1)
        return open_.square() * (3 - 2 * open_)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"start={self.start}, end={self.end}, by={self.by!r}, horizon={self.horizon}"
