"""The parts of the training behind Tables 4 to 6: images, losses, batches, speed, and what is measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training import CorrelationLoss, IndependentLoss, JointLoss, correlations
from counterpoint.vision import ImageBatches

HELD_OUT = 10  # one training image in so many
LABEL_SMOOTHING = 0.1
DIGITS = 5  # of a number in the record

Standing = dict[str, Any]


@dataclass(frozen=True)
class Images:
    """The images of a table: ``parts`` are train, held_out and test, with their labels."""

    name: str
    n_classes: int
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]

    @classmethod
    def split(cls, name: str, train: Any, test: Any, n_classes: int) -> "Images":
        """Hold out a part of the training images, the same in every run."""
        x, y = train
        if len(y) < HELD_OUT:
            raise ValueError(f"`data` must hold at least {HELD_OUT} images to train on; got {len(y)}.")
        order = np.random.default_rng(0).permutation(len(y))
        held, kept = np.split(order, [len(y) // HELD_OUT])
        return cls(
            name, n_classes, {"train": (x[kept], y[kept]), "held_out": (x[held], y[held]), "test": test}
        )


def make_loss(way: str) -> nn.Module:
    """Return the loss of a way to go on."""
    if way.startswith("lambda "):
        return CorrelationLoss(lam=float(way.removeprefix("lambda ")), reduction="mean")
    return Smoothed({"independent": IndependentLoss, "joint": JointLoss}[way]())


class Smoothed(nn.Module):
    """A cross-entropy whose targets leave a tenth to all classes alike; to a correlation that would be the same."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits (n_learners, batch, n_classes)."""
        n_classes = logits.shape[-1]
        soft = F.one_hot(target, n_classes) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / n_classes
        loss: Tensor = self.loss(logits.float(), soft)
        return loss


class Compiled(nn.Module):
    """A network that is compiled for training; in evaluation, where that would not pay, it runs as it is."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self._fast: Callable[[Tensor], Tensor] = torch.compile(net.forward, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the network puts out."""
        return self._fast(x) if self.training else self.net(x)


class Growing:
    """Batches whose images are smaller in the first half of the epochs, which then costs about half."""

    def __init__(self, batches: ImageBatches, size: int, epochs: int) -> None:
        self.batches, self.size, self.epochs = batches, size, epochs
        self.generator = batches.generator  # where fit looks for what a checkpoint must hold

    def __call__(self, epoch: int) -> ImageBatches:
        """Return the batches of an epoch."""
        self.batches.size = smaller(self.size) if 2 * epoch <= self.epochs else self.size
        return self.batches


def smaller(size: int) -> int:
    """Return about three quarters of a size, as a multiple of 32, but at least 32 where that is smaller.

    That is 96 for 128, 128 for 192 and 160 for 224.
    """
    return min(size, max(32, 32 * round(0.75 * size / 32)))


def standing(proba: Tensor, target: Tensor) -> Standing:
    """Return the errors in percent, of soft and hard vote and learners, and the place on the plane."""
    votes = F.one_hot(proba.argmax(-1), proba.shape[-1]).float()

    def error(scores: Tensor) -> float:
        return round(100 * (scores.argmax(-1) != target).double().mean().item(), DIGITS)

    r_tl, r_ll = (round(float(value), DIGITS) for value in correlations(proba.double(), target))
    return {
        "soft": error(proba.mean(0)),
        "hard": error(votes.mean(0)),
        "learners": [error(one) for one in proba],
        "r_tl": r_tl,
        "r_ll": r_ll,
    }


def bare(learner: nn.Module) -> nn.Module:
    """Return a network without its compiled coat."""
    return learner.net if isinstance(learner, Compiled) else learner
