"""How networks are trained for Tables 4 to 6: settings and losses, the same in every row."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss

__all__ = ["LABEL_SMOOTHING", "LR", "REDUCTION", "Settings", "SmoothedLoss", "make_loss"]

LR = 1e-3  # the best of those that benchmarks/choose_image_recipe.py tries
LABEL_SMOOTHING = 0.1
REDUCTION = "mean"  # of the correlation loss


@dataclass(frozen=True)
class Settings:
    """Settings of the training; ``cutout`` is the side of a square in pixels, before images are resized."""

    epochs: int
    more_epochs: int
    size: int
    batch_size: int = 256
    width: int | None = None
    compiled: bool = False
    lr: float = LR
    cutout: int = 0

    @property
    def more_lr(self) -> float:
        """Return the learning rate of the further training as an ensemble."""
        return self.lr / 5


def make_loss(arm: str) -> nn.Module:
    """Return the loss of an arm."""
    if arm.startswith("lambda "):
        return CorrelationLoss(lam=float(arm.removeprefix("lambda ")), reduction=REDUCTION)
    return SmoothedLoss({"independent": IndependentLoss, "joint": JointLoss}[arm]())


class SmoothedLoss(nn.Module):
    """A cross-entropy with label smoothing; a correlation would not change by it."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits (n_learners, batch, n_classes)."""
        n_classes = logits.shape[-1]
        soft = F.one_hot(target, n_classes) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / n_classes
        loss: Tensor = self.loss(logits.float(), soft)
        return loss
