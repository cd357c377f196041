"""How networks are trained for Tables 4 to 6: settings and losses, the same in every row."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training import CorrelationLoss, DiversityLoss, EnsembleLoss, IndependentLoss, JointLoss

__all__ = [
    "LABEL_SMOOTHING",
    "LR",
    "REDUCTION",
    "Settings",
    "SmoothedLoss",
    "make_loss",
    "parameter_groups",
    "voting_of",
]

LR = 1e-3  # the best of those that benchmarks/choose_image_recipe.py tries
LABEL_SMOOTHING = 0.1
REDUCTION = "mean"  # of the correlation loss


@dataclass(frozen=True)
class Settings:
    """Settings of the training.

    ``cutout`` is the side of a square in pixels, before images are resized. ``ema`` is the decay of an exponential
    moving average of the weights over the steps of a network trained alone, which then ends with these averages; 0 is
    no average. ``trunk_lr_share`` is the share of the learning rate that pretrained layers have in that training.
    """

    epochs: int
    more_epochs: int
    size: int
    batch_size: int = 256
    width: int | None = None
    compiled: bool = False
    lr: float = LR
    cutout: int = 0
    ema: float = 0.0
    trunk_lr_share: float = 1.0

    @property
    def more_lr(self) -> float:
        """Return the learning rate of the further training as an ensemble."""
        return self.lr / 5

    def config(self) -> dict[str, Any]:
        """Return the settings for a config; those that are not used are left out, as in records made before them."""
        unused = (("ema", 0.0), ("trunk_lr_share", 1.0))
        return {key: value for key, value in asdict(self).items() if (key, value) not in unused}


def make_loss(arm: str) -> EnsembleLoss:
    """Return the loss of an arm."""
    kind, _, number = arm.partition(" ")
    if kind == "lambda":
        return CorrelationLoss(lam=float(number), reduction=REDUCTION)
    if kind == "dial":
        return SmoothedLoss(DiversityLoss(float(number)))
    if kind == "logits":
        return SmoothedLoss(JointLoss(pool="logits"))
    return SmoothedLoss({"independent": IndependentLoss, "joint": JointLoss}[arm]())


def voting_of(arm: str) -> str:
    """Return the vote that the loss of an arm trains; soft for networks that were trained alone.

    It is soft for the correlation loss as well: every learner has a read-out, which turns its outputs into
    probabilities.
    """
    return "soft" if arm == "vote" or arm.startswith("lambda ") else make_loss(arm).voting


def parameter_groups(network: nn.Module, lr: float, share: float) -> list[dict[str, Any]]:
    """Return the trainable parameters as groups of an optimizer: the last layer at a rate, the others at a share of it.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    >>> [(group["lr"], len(group["params"])) for group in parameter_groups(network, 0.1, 0.5)]
    [(0.1, 2), (0.05, 2)]
    """
    named = [(name, value) for name, value in network.named_parameters() if value.requires_grad]
    if share == 1:
        return [{"params": [value for _, value in named], "lr": lr}]
    head = named[-1][0].rpartition(".")[0]
    parts: tuple[list[Tensor], list[Tensor]] = ([], [])
    for name, value in named:
        parts[name.rpartition(".")[0] != head].append(value)
    return [{"params": part, "lr": rate} for part, rate in zip(parts, (lr, share * lr), strict=True)]


class SmoothedLoss(EnsembleLoss):
    """A cross-entropy with label smoothing, which trains the same vote; a correlation would not change by it."""

    def __init__(self, loss: EnsembleLoss) -> None:
        super().__init__(loss.diversity)
        self.loss, self.voting = loss, loss.voting

    def forward(self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of logits (n_learners, batch, n_classes)."""
        n_classes = logits.shape[-1]
        soft = F.one_hot(target, n_classes) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / n_classes
        loss: Tensor = self.loss(logits.float(), soft, sample_weight)
        return loss
