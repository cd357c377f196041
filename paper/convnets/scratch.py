"""Ensembles of small nets trained from scratch on CIFAR-10: their error against the seconds of one GPU.

The nets of an ensemble train together on shared batches, each by its own cross-entropy with smoothed labels: Nesterov
momentum, the learning rate up and down in straight lines, half precision, and on a GPU one step recorded as a CUDA
graph. The network ``"fast"`` has a recipe of its own, in ``fast_training``. The clock runs over the whole training with
its augmentation and stops when the device is done. Loading the images and a few steps to warm up, after which the nets
are put back to where they began, are outside it, as in the published records. So is the evaluation, which those count.
It averages each image with its mirror image, and for the fast nets also, in a figure of its own, with two shifts of
both, as the records do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import check_count
from counterpoint.datasets.cifar import Images
from counterpoint.training import IndependentLoss, pick_device
from counterpoint.vision import ImageBatches, backbone, predict_logits
from paper.convnets import fast_training
from paper.convnets.fast import fast_net
from paper.convnets.images import load_images
from paper.convnets.part import measures
from paper.convnets.recording import put_back, recorded
from paper.convnets.scratch_tables import draw, grid
from paper.convnets.side_by_side import Apart, program
from paper.convnets.store import Job, check_kind, check_parts, collect, join, publish
from paper.device import clock, kernel_search, to_device

__all__ = ["Point", "plan", "reproduce", "run"]

TITLE = "Ensembles from scratch: error against GPU seconds"
SMOOTHING = 0.1
FAST = (11.5, 0.0153)  # learning rate and weight decay of airbench94, for 1024 images
FAST_WIDE = (10.0, 0.0153)  # of airbench95, whose nets are nearly as wide as the wider ones here
PEAK = 0.25  # share of the training at which the learning rate is highest


class Point(NamedTuple):
    """So many nets, for so many epochs; learning rate and weight decay in the units of the network's recipe."""

    network: str
    width: int
    n_learners: int
    epochs: int
    n_seeds: int
    batch_size: int = 512
    learning_rate: float = 0.4
    weight_decay: float = 5e-4

    @property
    def name(self) -> str:
        """What its files begin with."""
        return f"{self.network}-{self.width}-n{self.n_learners}-e{self.epochs}"


def plan(*, smoke: bool = False) -> Iterator[Point]:
    """Give the points, the cheap ones first."""
    if smoke:
        for network, n in (("convnet", 1), ("convnet", 2), ("cifar_resnet18", 2)):
            yield Point(network, 2, n, 1, 2, batch_size=50)
        yield Point("fast", 2, 2, 5, 1, 50, *FAST)
        return
    for n in (1, 3, 5, 10):
        yield Point("convnet", 64, n, 8, 3)
    yield Point("convnet", 32, 10, 8, 3)
    for n in (1, 3, 5, 10):
        yield Point("fast", 64, n, 10, 3, 1024, *FAST)
    for n in (1, 5):
        yield Point("fast", 64, n, 20, 1, 1024, *FAST)
    for n in (1, 3):
        yield Point("fast", 128, n, 20, 1, 1024, *FAST_WIDE)
    yield Point("cifar_resnet18", 64, 1, 10, 3)


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Train the ensembles that are not there yet; write all that are.

    ``parts`` holds the beginnings of the names of the ensembles to train, with commas between them; ``seeds`` is the
    most seeds that any has.
    """
    check_kind(out, "image-scratch", smoke=smoke)
    where = pick_device(device)
    most = None if seeds is None else int(check_count(seeds, "seeds", minimum=1))
    images = load_images(data, smoke=smoke)
    if smoke:  # the fast nets need images of the size of CIFAR-10's
        images = replace(images, x_train=_enlarged(images.x_train), x_test=_enlarged(images.x_test))
    jobs = [
        Job(
            f"{point.name}-s{seed}",
            {**point._asdict(), "seed": seed},
            partial(run, point, images, seed, where),
        )
        for point in plan(smoke=smoke)
        for seed in range(point.n_seeds if most is None else min(most, point.n_seeds))
    ]
    wanted = check_parts(parts, [job.name for job in jobs])
    files = collect(jobs, out / "image-scratch", wanted, title=TITLE, device=where)
    path, record = join(out, "image-scratch", files, title=TITLE, config={"smoke": smoke})
    return publish(path, [grid(record)], draw(record))


def run(point: Point, images: Images, seed: int, device: torch.device) -> Mapping[str, Any]:
    """Train an ensemble and return its errors on the test images, with mirroring and without, and its seconds."""
    n_classes = len(images.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        nets = [_net(point, n_classes) for _ in range(point.n_learners)]
    together = to_device((program if point.network == "convnet" else Apart)(nets), device)
    with kernel_search():
        if point.network == "fast":
            settings = (point.epochs, point.batch_size, point.learning_rate, point.weight_decay, seed)
            recipe = fast_training.Recipe(*settings)
            seconds, was_recorded = fast_training.train(cast(Apart, together), images, recipe, device)
        else:
            batches = ImageBatches(
                images.x_train, images.y_train, batch_size=point.batch_size, random_state=seed, device=device
            )
            x = torch.zeros((1, point.batch_size, 3, *images.x_train.shape[1:3]), device=device)
            seconds, was_recorded = _train(point, together, batches, x, n_classes)
        found = _found(together, images, device, point.network == "fast")
    n_parameters = point.n_learners * sum(p.numel() for p in nets[0].parameters())
    return {**found, "seconds": seconds, "cuda_graph": was_recorded, "n_parameters": n_parameters}


def _net(point: Point, n_classes: int) -> nn.Module:
    if point.network == "fast":
        return fast_net(n_classes, point.width)
    return backbone(point.network, n_classes, width=point.width)


def _found(
    together: nn.Module, images: Images, device: torch.device, fast: bool
) -> dict[str, dict[str, float]]:
    """Return the errors and correlations of the nets, for each way to look at the test images."""
    target = torch.as_tensor(images.y_test, device=device)
    options: dict[str, Any] = {"mean": fast_training.MEAN, "std": fast_training.STD} if fast else {}
    batches = ImageBatches(
        images.x_test, images.y_test, batch_size=500, augment=False, device=device, **options
    )

    def logits(shift: int = 0, *, flip: bool = True) -> Tensor:
        shifted = ((_shifted(cast(Tensor, x), shift)[None], y) for x, y in batches)
        return predict_logits(together, shifted, flip=flip, precision="float32" if fast else "auto")

    mirrored = logits()
    views = {"plain": logits(flip=False), "mirrored": mirrored}
    if fast:
        views["shifted"] = (2 * mirrored + logits(-1) + logits(1)) / 4
    return {
        kind: {name: value.item() for name, value in measures(view[None, None], target).items()}
        for kind, view in views.items()
    }


def _shifted(x: Tensor, by: int) -> Tensor:
    """Return images moved down and right by so many pixels, with reflection at the borders."""
    if not by:
        return x
    far = abs(by)
    height, width = x.shape[2:]
    padded = F.pad(x, (far,) * 4, "reflect")
    return padded[:, :, far - by : far - by + height, far - by : far - by + width]


def _enlarged(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.repeat(4, axis=1).repeat(4, axis=2)


def _train(
    point: Point, together: nn.Module, batches: ImageBatches, x: Tensor, n_classes: int
) -> tuple[float, bool]:
    """Train, and return the seconds it took and whether a CUDA graph did it; ``x`` is where the batches are put."""
    device = batches.device
    rate = torch.tensor(point.learning_rate, device=device)
    optimizer = torch.optim.SGD(
        together.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=point.weight_decay,
        fused=True if device.type == "cuda" else None,
    )  # fmt: skip
    together.train()
    y = torch.full((point.batch_size, n_classes), SMOOTHING / n_classes, device=device)
    start = [value.clone() for value in together.state_dict().values()]

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = together(x)
        # The sum over the nets: each gets the gradient that it would have alone.
        loss = point.n_learners * IndependentLoss()(logits.float(), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    taken, was_recorded = recorded(step, device)
    put_back(together, start, optimizer)
    rates = _rates(point, point.epochs * len(batches)).to(device)
    done = 0
    began = clock(device)
    for _ in range(point.epochs):
        for images, labels in batches:
            x[0].copy_(cast(Tensor, images))
            y.copy_(F.one_hot(labels, n_classes) * (1 - SMOOTHING) + SMOOTHING / n_classes)
            rate.copy_(rates[done])
            taken()
            done += 1
    return clock(device) - began, was_recorded


def _rates(point: Point, n_steps: int) -> Tensor:
    """Return the learning rate of each step: up to its peak and down to zero, in straight lines."""
    place = (torch.arange(n_steps) + 1) / n_steps
    return point.learning_rate * torch.minimum(place / PEAK, (1 - place) / (1 - PEAK))
