r"""The losses of groups of nets, several of them beside each other in one program.

Notation: S seeds, A arms, N learners, B images, m classes. Logits are ``(S, A, N, B, m)``; a *group* is an arm with a
seed, and the loss of a group depends on its own nets alone, so the groups train as if each were alone.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from counterpoint.experiments.convnets.arms import GATED_DIVERSITY, TRIAL_DIVERSITY, TRIALS, Arm
from counterpoint.theory import critical_lambda
from counterpoint.training import IndependentLoss, JointLoss, correlation_loss, correlations
from counterpoint.training.gate import DiversityGate

__all__ = ["Course"]


class Course(nn.Module):
    r"""The summed losses of all groups, and what they showed on the way.

    Parameters
    ----------
    arms : sequence of Arm
        The ways to train.
    n_seeds, n_learners : int
        How many groups each arm has, and how many nets a group.

    Notes
    -----
    The penalty on the error correlation :math:`c = (r_{LL} - r_{TL}^2) / (1 - r_{TL}^2)` needs no loss of its own: the
    gradient of :math:`-r_{TL} + \mu c` is that of the correlation loss, times
    :math:`k = 1 + 2 \mu r_{TL} (1 - r_{LL}) / (1 - r_{TL}^2)^2`, at :math:`\lambda = \mu / (k (1 - r_{TL}^2))`.
    """

    table: Tensor
    error: Tensor

    def __init__(self, arms: Sequence[Arm], n_seeds: int, n_learners: int) -> None:
        super().__init__()
        critical = float(critical_lambda(n_learners)) if n_learners > 1 else 0.0
        halves = [[getattr(arm, half) for arm in arms] for half in ("first", "second")]
        columns = [
            [(mix.own, mix.joint, mix.correlation, mix.diversity * critical) for mix in half]
            for half in halves
        ]
        self.turns = [arm.turn for arm in arms]
        self._turned: list[bool] | None = None
        self._now: tuple[Tensor, Tensor]
        self.register_buffer("table", torch.tensor(columns).mT.contiguous())  # (2, 4, A)
        self.register_buffer(
            "error", torch.tensor([[mix.error for mix in half] for half in halves])
        )  # (2, A)
        self.gated = [place for place, arm in enumerate(arms) if arm.gate is not None]
        gates = [DiversityGate(**arm.gate._asdict(), groups=(n_seeds,)) for arm in arms if arm.gate]
        self.gates = nn.ModuleList(gates)
        # Of each batch: r_tl, r_ll and whether there was explicit diversity, (3, S, A).
        self.found: list[Tensor] = []

    def forward(self, logits: Tensor, target: Tensor, progress: float) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor, shape (S, A, N, B, m)
            What the nets put out.
        target : Tensor, shape (S, B)
            The classes.
        progress : float
            The share of the training that is done.
        """
        target = target[:, None].expand(-1, logits.shape[1], -1)
        with torch.no_grad():
            r_tl, r_ll = correlations(logits.softmax(-1), target)
        table, error = self.now(progress)
        own, joint, together, lam = table.unsqueeze(1).expand(-1, *r_tl.shape).clone()
        for place, gate in self.each_gate():
            gate.progress = progress
            lam[:, place] *= torch.where(gate.on_trial, TRIAL_DIVERSITY / GATED_DIVERSITY, 1.0)
            together[:, place] = gate(r_tl[:, place], r_ll[:, place], logits.shape[2]).float()
            own[:, place] = 1 - together[:, place]
        self.found.append(torch.stack([r_tl, r_ll, together]))
        lam, factor = _against_errors(lam, r_tl, r_ll, error)
        loss: Tensor = own * IndependentLoss()(logits, target) + joint * JointLoss()(logits, target)
        loss = loss + together * factor * correlation_loss(logits, target, lam=lam)
        return loss.sum()

    def each_gate(self) -> Iterator[tuple[int, DiversityGate]]:
        """Give the place of each gated arm, with its gate."""
        for place, gate in zip(self.gated, self.gates, strict=True):
            assert isinstance(gate, DiversityGate)
            yield place, gate

    def now(self, progress: float) -> tuple[Tensor, Tensor]:
        """Return the weights (4, A) and what is penalised (A,) at a time; the device is written to at turns alone."""
        turned = [progress >= turn for turn in self.turns]
        if turned != self._turned:
            late = torch.tensor(turned, device=self.table.device)
            table, error = (torch.where(late, both[1], both[0]) for both in (self.table, self.error))
            self._turned, self._now = turned, (table, error)
        return self._now

    def shut(self) -> Tensor:
        """Return where a gate was left shut, so that the training was independent, (S, A)."""
        found = torch.zeros(self.found[-1].shape[1:], dtype=torch.bool, device=self.table.device)
        for place, gate in self.each_gate():
            found[:, place] = ~gate.is_open
        return found

    def history(self, n_epochs: int) -> Tensor:
        """Return the means over each epoch, (3, epochs, S, A)."""
        return torch.stack([part.mean(0) for part in torch.stack(self.found).chunk(n_epochs)], 1)

    def fits(self, n_learners: int) -> Tensor:
        """Return what a gate would have decided by after each of the trials, (trials, S, A)."""
        gate = DiversityGate(trial=1.0, groups=tuple(self.found[0].shape[1:])).to(self.table.device)
        gate.progress, steps, fits = 0.0, len(self.found), []
        ends = [min(math.ceil(trial * steps), steps - 1) for trial in TRIALS]
        for r_tl, r_ll, _ in self.found[: max(ends) + 1]:
            gate(r_tl, r_ll, n_learners)
            fits.append(gate.fit)
        return torch.stack([fits[end] for end in ends])


def _against_errors(lam: Tensor, r_tl: Tensor, r_ll: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Return lambda and the factor of the correlation loss that penalise the errors' correlation in some arms."""
    left = (1 - r_tl.square()).clamp(min=1e-2)
    factor = 1 + 2 * lam * r_tl * (1 - r_ll) / left.square()
    return torch.where(where, lam / (factor * left), lam), torch.where(where, factor, 1.0)
