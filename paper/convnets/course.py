r"""The losses of groups of networks that train side by side in one program.

Notation: S seeds, A arms, N learners, B images, m classes. Logits are ``(S, A, N, B, m)``. A *group* is an arm with a
seed. Its loss depends on its own networks only, so each group trains as if it were alone.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from counterpoint.theory import critical_lambda
from counterpoint.training import IndependentLoss, JointLoss, correlation_loss, correlations
from paper.convnets.arms import Arm

__all__ = ["Course"]


class Course(nn.Module):
    r"""The sum of the groups' losses, with a history of their correlations.

    Parameters
    ----------
    arms : sequence of Arm
        The ways to train.
    n_learners : int
        Number of networks in a group.

    Notes
    -----
    The penalty on the error correlation :math:`c = (r_{LL} - r_{TL}^2) / (1 - r_{TL}^2)` needs no loss of its own: the
    gradient of :math:`-r_{TL} + \mu c` is that of the correlation loss, times
    :math:`k = 1 + 2 \mu r_{TL} (1 - r_{LL}) / (1 - r_{TL}^2)^2`, at :math:`\lambda = \mu / (k (1 - r_{TL}^2))`.
    """

    table: Tensor
    error: Tensor

    def __init__(self, arms: Sequence[Arm], n_learners: int) -> None:
        super().__init__()
        critical = float(critical_lambda(n_learners)) if n_learners > 1 else 0.0
        halves = [[arm.first for arm in arms], [arm.second for arm in arms]]
        columns = [
            [(mix.own, mix.joint, mix.correlation, mix.diversity * critical) for mix in half]
            for half in halves
        ]
        self.register_buffer("table", torch.tensor(columns).mT.contiguous())  # (2, 4, A)
        self.register_buffer(
            "error", torch.tensor([[mix.error for mix in half] for half in halves])
        )  # (2, A)
        self.found: list[Tensor] = []  # r_tl and r_ll of each batch, (2, S, A)

    def forward(self, logits: Tensor, target: Tensor, progress: float) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : Tensor, shape (S, A, N, B, m)
            The outputs of the networks.
        target : Tensor, shape (S, B)
            The classes.
        progress : float
            The fraction of the training that is done.
        """
        target = target[:, None].expand(-1, logits.shape[1], -1)
        with torch.no_grad():
            r_tl, r_ll = correlations(logits.softmax(-1), target)
        self.found.append(torch.stack([r_tl, r_ll]))
        half = int(progress >= 0.5)
        own, joint, together, lam = self.table[half]
        lam, factor = _against_errors(lam, r_tl, r_ll, self.error[half])
        loss: Tensor = own * IndependentLoss()(logits, target) + joint * JointLoss()(logits, target)
        loss = loss + together * factor * correlation_loss(logits, target, lam=lam)
        return loss.sum()

    def history(self, n_epochs: int) -> Tensor:
        """Return the means over each epoch, (2, epochs, S, A)."""
        return torch.stack([part.mean(0) for part in torch.stack(self.found).chunk(n_epochs)], 1)


def _against_errors(lam: Tensor, r_tl: Tensor, r_ll: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Return lambda and the factor of the correlation loss, with which some arms penalise the error correlation."""
    left = (1 - r_tl.square()).clamp(min=1e-2)
    factor = 1 + 2 * lam * r_tl * (1 - r_ll) / left.square()
    return torch.where(where, lam / (factor * left), lam), torch.where(where, factor, 1.0)
