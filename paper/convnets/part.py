"""One part of the map of image ensembles: nets of one width, trained in several ways at once, and measured.

Notation: S seeds, A arms, N learners, V views; groups are numbered seed by seed, and arm by arm within a seed.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint._validation import FloatArray
from counterpoint.datasets.cifar import Images
from counterpoint.training import Readout, correlations
from counterpoint.vision import ImageBatches, backbone, predict_logits
from paper.convnets.arms import Arm
from paper.convnets.course import Course
from paper.convnets.side_by_side import program
from paper.device import clock, kernel_search, to_device

__all__ = ["Part", "measures", "run"]

Views = tuple[Tensor, Tensor]  # (V, B, 3, H, W) and (S, B)

_EVALUATED = 10_000  # images, of each kind
_BATCH = 500  # of them at a time: no map of any part then has 2**31 entries, which kernels are slow for


class Part(NamedTuple):
    """Nets of one width in groups of one size, on so many images for so many epochs."""

    name: str
    width: int
    n_learners: int
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    epochs: int = 10
    n_train: int | None = None  # None is all
    own_views: bool = False  # whether each learner sees an augmentation of its own
    batch_size: int = 512
    learning_rate: float = 1e-2

    @property
    def shape(self) -> tuple[int, int, int]:
        """The axes of the nets: seeds, arms, learners."""
        return len(self.seeds), len(self.arms), self.n_learners

    @property
    def n_views(self) -> int:
        """How many batches of images the program takes at once."""
        return math.prod(self.shape) if self.own_views else len(self.seeds)


def run(part: Part, images: Images, device: torch.device) -> dict[str, Any]:
    """Train the groups of a part and return what was measured.

    Returns
    -------
    dict
        ``history``: r_TL and r_LL on the training batches, ``(epochs, S, A)``.
        ``train`` and ``test``: :func:`measures` of these images without augmentation, for the outputs as they are
        (``raw``) and after the read-out (``read``). ``n_parameters`` is that of a group.

    Notes
    -----
    Where the device has too little memory for all seeds at once, they are run one after the other.
    """
    try:
        return _run(part, images, device)
    except torch.OutOfMemoryError:
        if len(part.seeds) == 1:
            raise
    torch.cuda.empty_cache()
    found: dict[str, Any] = _joined(
        [run(part._replace(seeds=(seed,)), images, device) for seed in part.seeds]
    )
    return found


def _run(part: Part, images: Images, device: torch.device) -> dict[str, Any]:
    start = clock(device)
    kinds = _kinds(part, images)
    batches = _batches(part, *kinds["train"], device)
    nets = _nets(part, len(images.class_names))
    n_parameters = part.n_learners * sum(p.numel() for p in nets[0].parameters())
    together = to_device(program(nets, part.n_views), device)
    course = Course(part.arms, part.n_learners).to(device)
    with kernel_search():
        _train(together, course, part, batches)
        trained = clock(device) - start
        readouts = _readouts(together, part, batches)
        found = {
            kind: _evaluate(together, part, readouts, x[:_EVALUATED], y[:_EVALUATED], device)
            for kind, (x, y) in kinds.items()
        }
    history = dict(zip(("r_tl", "r_ll"), course.history(part.epochs).cpu().numpy(), strict=True))
    seconds = {"training": trained, "all": clock(device) - start}
    return {"n_parameters": n_parameters, "history": history, **found, "seconds": seconds}


def measures(logits: Tensor, target: Tensor) -> dict[str, FloatArray]:
    """Return errors and correlations of groups ``(S, A, N, n, m)``, each as an array ``(S, A)``.

    Notes
    -----
    A tie of the majority vote is broken by the mean probability. ``error_correlation`` is the mean correlation of being
    right, over the pairs of learners; it is undefined where a learner is always right.
    """
    proba = logits.softmax(-1)
    mean = proba.mean(2)
    labels = logits.argmax(-1)
    right = (labels == target).float()
    votes = F.one_hot(labels, logits.shape[-1]).sum(2) + mean  # a vote is worth more than any probability
    n = logits.shape[2]
    r_tl, r_ll = correlations(proba, target.expand(*logits.shape[:2], -1))
    found = {
        "soft": (mean.argmax(-1) != target).float().mean(-1),
        "hard": (votes.argmax(-1) != target).float().mean(-1),
        "learner": 1 - right.mean((-2, -1)),
        "r_tl": r_tl,
        "r_ll": r_ll if n > 1 else torch.full_like(r_ll, math.nan),
        "optimality": r_tl / ((((n - 1) * r_ll + 1) / n).sqrt()),
        "error_correlation": _mean_correlation(right) if n > 1 else torch.full_like(r_ll, math.nan),
    }
    return {name: values.cpu().double().numpy() for name, values in found.items()}


def _kinds(part: Part, images: Images) -> dict[str, tuple[Any, Any]]:
    """Return the images to train on and the test images, with their labels."""
    return {
        "train": (images.x_train[: part.n_train], images.y_train[: part.n_train]),
        "test": (images.x_test, images.y_test),
    }


def _batches(part: Part, x: Any, y: Any, device: torch.device) -> list[ImageBatches]:
    """Return the batches of each seed."""
    views = part.n_learners if part.own_views else None
    size = min(part.batch_size, len(y))
    return [
        ImageBatches(x, y, batch_size=size, random_state=seed, device=device, views=views)
        for seed in part.seeds
    ]


def _nets(part: Part, n_classes: int) -> list[nn.Module]:
    """Return the nets of all groups; the arms of a seed start from the same ones."""
    nets = []
    with torch.random.fork_rng(devices=[]):
        for seed in part.seeds:
            torch.manual_seed(seed)
            start = [backbone("convnet", n_classes, width=part.width) for _ in range(part.n_learners)]
            nets += start * len(part.arms)
    return nets


def _train(together: nn.Module, course: Course, part: Part, batches: Sequence[ImageBatches]) -> None:
    device = batches[0].device
    optimizer = torch.optim.AdamW(
        together.parameters(), lr=part.learning_rate, fused=True if device.type == "cuda" else None
    )
    steps = part.epochs * len(batches[0])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, part.learning_rate, total_steps=steps)
    together.train()
    done = 0
    for _ in range(part.epochs):
        for views, target in _views(batches, part):
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = together(views)
            loss = course(logits.float().view(*part.shape, *logits.shape[1:]), target, done / steps)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            done += 1


def _views(batches: Sequence[ImageBatches], part: Part) -> Iterator[Views]:
    """Give the views of an epoch, one for each seed, or one for each learner with the arms in between."""
    for each in zip(*batches, strict=True):
        target = torch.stack([y for _, y in each])
        if not part.own_views:
            yield torch.stack([x for x, _ in each]), target
        else:
            views = torch.stack([torch.stack(list(x)) for x, _ in each])  # (S, N, B, 3, H, W)
            views = views[:, None].expand(-1, len(part.arms), *views.shape[1:])
            yield views.flatten(0, 2), target


@torch.no_grad()
def _readouts(together: nn.Module, part: Part, batches: Sequence[ImageBatches]) -> list[Readout]:
    """Return the read-out of each seed's nets, fitted to training batches."""
    some: list[Views] = []
    for views, target in _views(batches, part):
        some.append((views, target))
        if sum(y.shape[1] for _, y in some) >= _EVALUATED:
            break
    logits, targets = predict_logits(together, some), torch.cat([y for _, y in some], 1)
    logits = logits.view(len(targets), -1, *logits.shape[1:])
    start = Readout.identity(logits.shape[1], logits.shape[-1]).to(logits.device)
    return [start.refit(one, target) for one, target in zip(logits, targets, strict=True)]


@torch.no_grad()
def _evaluate(
    together: nn.Module, part: Part, readouts: Sequence[Readout], x: Any, y: Any, device: torch.device
) -> dict[str, Any]:
    """Return the measures of the outputs as they are and after the read-out."""
    batches = ImageBatches(x, y, batch_size=_BATCH, augment=False, device=device)
    logits = predict_logits(
        together, ((cast(Tensor, x).expand(part.n_views, -1, -1, -1, -1), y) for x, y in batches)
    )
    raw = logits.view(*part.shape, *logits.shape[1:])
    pairs = zip(readouts, raw, strict=True)
    read = torch.stack([readout(one.flatten(0, 1)).view_as(one) for readout, one in pairs])
    target = torch.as_tensor(y, device=device)
    return {"raw": measures(raw, target), "read": measures(read, target)}


def _mean_correlation(right: Tensor) -> Tensor:
    """Return the mean correlation over the pairs of learners, (S, A, N, n) to (S, A)."""
    centred = right - right.mean(-1, keepdim=True)
    unit = centred / torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    n = right.shape[2]
    squared: Tensor = unit.sum(2).square().sum(-1)
    return (squared - n) / (n * (n - 1))


def _joined(found: Sequence[Any], axis: int = 0) -> Any:
    """Return what was measured seed by seed as if it had been at once; seconds add up."""
    first = found[0]
    if isinstance(first, dict):
        return {key: _joined([one[key] for one in found], 1 if key == "history" else axis) for key in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(found, axis)
    return first if isinstance(first, int) else sum(found)
