"""How heads are trained on the features of a frozen trunk, or together with it.

Notation: k heads, n_features features, n_classes classes. The mean of the logits of k heads with h hidden units is a
head with k h hidden units, and that of k linear heads is one linear head. So k heads are compared with one head that
has as many parameters, and linear heads with the only linear head there is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from counterpoint.training import (
    DiversityLoss,
    Ensemble,
    EnsembleLoss,
    IndependentLoss,
    JointLoss,
    MemberAxis,
    fit,
    mlp,
    seeded,
)
from counterpoint.vision import ImageBatches
from paper.convnets.images import ImageSets
from paper.convnets.measures import evaluate_batches
from paper.device import clock, kernel_search
from paper.heads.features import FeatureBatches, compute_features, make_trunk
from paper.pretrained.images import Images
from paper.pretrained.networks import Weights, start_of, weights_checksum

__all__ = ["LOSSES", "ONE", "Point", "Settings", "Trainer", "head_sizes", "same_size"]

ONE = "one"  # the arm of a single head
EVALUATED = 10_000  # training images that are evaluated without augmentation
KERNELS = 4  # that cuDNN tries for a shape
EVALUATION_BATCH = 1_000

LOSSES: Mapping[str, Callable[[], EnsembleLoss]] = {
    "0": IndependentLoss,
    **{f"{d}": partial(DiversityLoss, d) for d in (0.5, 0.9)},
    "1": partial(JointLoss, pool="logits"),
    ONE: IndependentLoss,
}


@dataclass(frozen=True)
class Settings:
    """Settings of the training; ``tuned`` ones are those of a trunk that is trained with its heads."""

    data: str = "cifar100"
    network: str = "resnet18"
    width: int | None = None
    size: int = 128
    hidden: int = 256
    batch_size: int = 512
    epochs: int = 20
    learning_rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    tuned_batch_size: int = 256
    tuned_epochs: int = 4
    tuned_learning_rate: float = 1e-3
    trunk_learning_rate: float = 1e-4


class Point(NamedTuple):
    """Heads of one kind on a trunk, and how they are trained: by a diversity, or one head of the size of k."""

    mode: str  # "frozen" or "tuned"
    kind: str  # "hidden" or "linear"
    k: int
    arm: str

    @property
    def name(self) -> str:
        """Beginning of the names of its jobs."""
        return f"{self.mode}-{self.kind}-k{self.k}-{self.arm}"

    @property
    def n_heads(self) -> int:
        """Number of heads."""
        return 1 if self.arm == ONE else self.k


def same_size(k: int, hidden: int, n_features: int, n_classes: int) -> int:
    """Return the hidden units of one head with the parameters of k heads, to the nearest unit.

    Examples
    --------
    >>> same_size(8, 256, 512, 100)
    2049
    """
    unit = n_features + 1 + n_classes  # the parameters of a hidden unit
    return round((k * (unit * hidden + n_classes) - n_classes) / unit)


def head_sizes(point: Point, hidden: int, n_features: int, n_classes: int) -> list[int]:
    """Return the sizes of the layers of each head.

    Examples
    --------
    >>> head_sizes(Point("frozen", "hidden", 8, "0.9"), 256, 512, 100)
    [512, 256, 100]
    >>> head_sizes(Point("frozen", "linear", 8, "0.9"), 256, 512, 100)
    [512, 100]
    """
    if point.kind == "linear":
        return [n_features, n_classes]
    units = same_size(point.k, hidden, n_features, n_classes) if point.arm == ONE else hidden
    return [n_features, units, n_classes]


class Trainer:
    """Trains and evaluates heads; images and features are loaded and computed when they are first needed.

    A tenth of the training images is held out, the same in every job. On a frozen trunk, the learning rate with the
    lowest log-loss on the held-out images is chosen; no setting is chosen on the test images.

    Parameters
    ----------
    sets : ImageSets
        Image sets by name.
    settings : Settings
        Settings of the training.
    weights : path or "imagenet", optional
        Where the trunk starts, as for :func:`~counterpoint.vision.backbone`.
    device : torch.device
        Where to train.
    """

    def __init__(
        self, sets: ImageSets, settings: Settings, *, weights: Weights, device: torch.device
    ) -> None:
        self.sets, self.settings, self.weights, self.device = sets, settings, weights, device

    @cached_property
    def images(self) -> Images:
        """Training, held-out and test images."""
        found = self.sets[self.settings.data]
        train, test = (found.x_train, found.y_train), (found.x_test, found.y_test)
        return Images.split(self.settings.data, train, test, len(found.class_names))

    @cached_property
    def features(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Standardised features and labels of each part of the images."""
        with seeded(self.device, 0):  # for a trunk without weights
            trunk, _ = self._trunk()
        return compute_features(trunk, self.images, size=self.settings.size, device=self.device)

    def config(self, point: Point, seed: int) -> dict[str, Any]:
        """Return everything that the result of a job depends on."""
        own = self.settings
        found: dict[str, Any] = {
            "data": own.data,
            "network": own.network,
            "start": start_of(own.network, self.weights),
            "checksum": weights_checksum(own.network, self.weights),
            "size": own.size,
            **point._asdict(),
            "seed": seed,
        }
        if own.width is not None:
            found["width"] = own.width
        if point.kind == "hidden":
            found["hidden"] = own.hidden
        if point.mode == "frozen":
            return found | {
                "batch_size": own.batch_size,
                "epochs": own.epochs,
                "learning_rates": list(own.learning_rates),
                "precision": "float32",
            }
        return found | {
            "batch_size": own.tuned_batch_size,
            "epochs": own.tuned_epochs,
            "learning_rate": own.tuned_learning_rate,
            "trunk_learning_rate": own.trunk_learning_rate,
        }

    def run(self, point: Point, seed: int) -> dict[str, Any]:
        """Train heads and evaluate them on the test images, and under ``train`` on training images."""
        return self._run_frozen(point, seed) if point.mode == "frozen" else self._run_tuned(point, seed)

    def _run_frozen(self, point: Point, seed: int) -> dict[str, Any]:
        """Train heads by each learning rate and evaluate those of the rate that is best on held-out images."""
        tried = {rate: self._train_frozen(point, seed, rate) for rate in self.settings.learning_rates}
        held_out = {
            rate: self._evaluate_frozen(heads, "held_out")["vote"]["log_loss"]
            for rate, (heads, _) in tried.items()
        }
        chosen = min(held_out, key=held_out.__getitem__)
        heads, seconds = tried[chosen]
        return {
            **self._evaluate_frozen(heads, "test"),
            "train": self._evaluate_frozen(heads, "train"),
            "held_out_log_loss": held_out,
            "learning_rate": chosen,
            "seconds": seconds,
            "n_parameters": _n_parameters(heads),
        }

    def _train_frozen(self, point: Point, seed: int, rate: float) -> tuple[Ensemble, float]:
        """Return heads trained by one learning rate, and the seconds it took."""
        x, y = self.features["train"]
        with seeded(self.device, seed):
            heads = self._heads(point, x.shape[1])
        batches = FeatureBatches(x, y, batch_size=self.settings.batch_size, seed=seed)
        epochs = self.settings.epochs
        start = clock(self.device)
        fit(
            heads,
            batches,
            loss=LOSSES[point.arm](),
            optimizer=lambda p: torch.optim.AdamW(p, rate, fused=self.device.type == "cuda"),
            scheduler=lambda optimizer: OneCycleLR(optimizer, rate, total_steps=epochs * len(batches)),
            epochs=epochs,
            precision="float32",  # logits of heads that are useful only together are large
            progress=False,
        )
        return heads, clock(self.device) - start

    def _evaluate_frozen(self, heads: Ensemble, part: str) -> dict[str, Any]:
        """Evaluate heads on the features of a part of the images, without mirror images."""
        y = self.images.parts[part][1][:EVALUATED]
        batches = torch.split(self.features[part][0][: len(y)], EVALUATION_BATCH)
        return evaluate_batches(heads, batches, y, precision="float32")

    def _run_tuned(self, point: Point, seed: int) -> dict[str, Any]:
        """Train trunk and heads together and evaluate them."""
        with seeded(self.device, seed):
            trunk, n_features = self._trunk()
            heads = self._heads(point, n_features)
            net = MemberAxis(nn.Sequential(trunk, heads), point.n_heads, dim=0).to(self.device)
            start = clock(self.device)
            self._train_tuned(net, trunk, heads, point, seed)
            seconds = clock(self.device) - start
        return {
            **self._evaluate_tuned(net, "test"),
            "train": self._evaluate_tuned(net, "train"),
            "learning_rate": self.settings.tuned_learning_rate,
            "seconds": seconds,
            "n_parameters": _n_parameters(heads),
        }

    def _train_tuned(
        self, net: MemberAxis, trunk: nn.Module, heads: Ensemble, point: Point, seed: int
    ) -> None:
        own = self.settings
        rates = [own.trunk_learning_rate, own.tuned_learning_rate]
        groups = [
            {"params": part.parameters(), "lr": rate}
            for part, rate in zip((trunk, heads), rates, strict=True)
        ]
        batches = self._batches("train", own.tuned_batch_size, seed=seed)
        optimizer = torch.optim.AdamW(groups, fused=self.device.type == "cuda")
        with kernel_search(KERNELS):
            fit(
                net,
                batches,
                loss=LOSSES[point.arm](),
                optimizer=optimizer,
                scheduler=OneCycleLR(optimizer, rates, total_steps=own.tuned_epochs * len(batches)),
                epochs=own.tuned_epochs,
                progress=False,
            )

    def _evaluate_tuned(self, net: MemberAxis, part: str) -> dict[str, Any]:
        """Evaluate trunk and heads on a part of the images."""
        y = self.images.parts[part][1][:EVALUATED]
        return evaluate_batches(net, self._batches(part, EVALUATION_BATCH, augment=False), y)

    def _batches(self, part: str, batch_size: int, *, seed: int = 0, augment: bool = True) -> ImageBatches:
        """Return augmented batches of a part of the images, or the first of them without augmentation."""
        x, y = self.images.parts[part]
        last = None if augment else EVALUATED
        return ImageBatches(
            x[:last],
            y[:last],
            batch_size=batch_size,
            size=self.settings.size,
            augment=augment,
            random_state=seed,
            device=self.device,
        )

    def _trunk(self) -> tuple[nn.Module, int]:
        own = self.settings
        return make_trunk(own.network, weights=self.weights, width=own.width, device=self.device)

    def _heads(self, point: Point, n_features: int) -> Ensemble:
        sizes = head_sizes(point, self.settings.hidden, n_features, self.images.n_classes)
        return Ensemble([mlp(sizes) for _ in range(point.n_heads)]).to(self.device)


def _n_parameters(heads: Ensemble) -> int:
    return sum(parameter.numel() for parameter in heads.parameters())
