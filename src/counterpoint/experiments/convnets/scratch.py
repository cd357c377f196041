"""Ensembles of small nets trained from scratch on CIFAR-10: their error against the seconds of one GPU.

The nets of an ensemble train together on shared batches, each by its own cross-entropy with smoothed labels: Nesterov
momentum, the learning rate up and down in straight lines, bfloat16, and on a GPU one step recorded as a CUDA graph. The
clock runs over the whole training with its augmentation and stops when the device is done. Loading the images and a few
steps to warm up, after which the nets are put back to where they began, are outside it, as in the published records;
so is the evaluation, which averages each image with its mirror image.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import check_count
from counterpoint.datasets.cifar import Images
from counterpoint.experiments._device import clock, kernel_search
from counterpoint.experiments.convnets.images import load_images
from counterpoint.experiments.convnets.part import measures
from counterpoint.experiments.convnets.scratch_tables import draw, grid
from counterpoint.experiments.convnets.side_by_side import Apart, program
from counterpoint.experiments.convnets.store import Job, check_kind, collect, join, publish
from counterpoint.training import IndependentLoss
from counterpoint.training.device import pick_device
from counterpoint.vision import ImageBatches, backbone, predict_logits

__all__ = ["Point", "plan", "reproduce", "run"]

TITLE = "Ensembles from scratch: error against GPU seconds"
SMOOTHING = 0.1
PEAK = 0.25  # share of the training at which the learning rate is highest
WARM_UP = 3  # steps


class Point(NamedTuple):
    """So many nets, for so many epochs."""

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
        return
    for n in (1, 3, 5, 10):
        yield Point("convnet", 64, n, 8, 3)
    yield Point("convnet", 32, 10, 8, 3)
    yield Point("cifar_resnet18", 64, 1, 10, 3)
    for n in (1, 5, 10):
        yield Point("convnet", 64, n, 16, 1)
    yield Point("cifar_resnet18", 64, 3, 16, 1)


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
    jobs = (
        Job(
            f"{point.name}-s{seed}",
            {**point._asdict(), "seed": seed},
            partial(run, point, images, seed, where),
        )
        for point in plan(smoke=smoke)
        for seed in range(point.n_seeds if most is None else min(most, point.n_seeds))
    )
    files = collect(jobs, out / "image-scratch", parts, title=TITLE, device=where)
    path, record = join(out, "image-scratch", files, title=TITLE, config={"smoke": smoke})
    return publish(path, [grid(record)], draw(record))


def run(point: Point, images: Images, seed: int, device: torch.device) -> Mapping[str, Any]:
    """Train an ensemble and return its errors on the test images, with mirroring and without, and its seconds."""
    n_classes = len(images.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        nets = [backbone(point.network, n_classes, width=point.width) for _ in range(point.n_learners)]
    together: nn.Module = (program if point.network == "convnet" else Apart)(nets).to(device)
    together = together.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = ImageBatches(
        images.x_train, images.y_train, batch_size=point.batch_size, seed=seed, device=device
    )
    x = torch.zeros((1, point.batch_size, 3, *images.x_train.shape[1:3]), device=device)
    with kernel_search():
        seconds, recorded = _train(point, together, batches, x, n_classes)
        found = {
            kind: _errors(together, images, device, kind == "mirrored") for kind in ("plain", "mirrored")
        }
    n_parameters = point.n_learners * sum(p.numel() for p in nets[0].parameters())
    return {**found, "seconds": seconds, "cuda_graph": recorded, "n_parameters": n_parameters}


def _errors(together: nn.Module, images: Images, device: torch.device, flip: bool) -> dict[str, float]:
    batches = ImageBatches(images.x_test, images.y_test, batch_size=500, augment=False, device=device)
    logits = predict_logits(together, ((cast(Tensor, x)[None], y) for x, y in batches), flip=flip)
    found = measures(logits[None, None], torch.as_tensor(images.y_test, device=device))
    return {name: value.item() for name, value in found.items()}


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

    taken, recorded = _recorded(step, device)
    _put_back(together, start, optimizer)
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
    return clock(device) - began, recorded


def _recorded(step: Callable[[], None], device: torch.device) -> tuple[Callable[[], None], bool]:
    """Return the step as a CUDA graph where that can be had, and whether it can; the step has been taken before."""
    if device.type != "cuda":
        step()
        return step, False
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:  # kernels that cannot be recorded
        return step, False
    return graph.replay, True


@torch.no_grad()
def _put_back(together: nn.Module, start: list[Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Undo the steps that warmed up, in the same memory, which a recorded step goes on using."""
    for value, first in zip(together.state_dict().values(), start, strict=True):
        value.copy_(first)
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()


def _rates(point: Point, n_steps: int) -> Tensor:
    """Return the learning rate of each step: up to its peak and down to zero, in straight lines."""
    place = (torch.arange(n_steps) + 1) / n_steps
    return point.learning_rate * torch.minimum(place / PEAK, (1 - place) / (1 - PEAK))
