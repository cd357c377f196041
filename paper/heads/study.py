"""``image-heads``: whether heads on one pretrained trunk gain from explicit diversity, on CIFAR-100.

On a frozen trunk, heads are trained on features that each process computes once. All arms of a seed see the same
batches, and those with the same number of heads start from the same weights.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from counterpoint.records import Job
from counterpoint.training import pick_device
from paper.convnets.images import ImageSets
from paper.heads.tables import draw, grid
from paper.heads.training import LOSSES, ONE, Point, Settings, Trainer
from paper.pretrained.study import check_weights
from paper.runner import Study, run_study

__all__ = ["SETTINGS", "SMOKE_SETTINGS", "STUDY", "plan", "reproduce"]

STUDY = Study(
    "image-heads",
    "Heads on one trunk: the dial of diversity",
    lambda record: [grid(record)],
    lambda record: {"image-heads": draw(record)},
)
SETTINGS = Settings()
SMOKE_SETTINGS = Settings(
    data="digits",
    network="convnet",
    width=4,
    size=16,
    hidden=8,
    batch_size=25,
    epochs=1,
    tuned_batch_size=25,
    tuned_epochs=1,
)
N_SEEDS = 3
DIALS = tuple(arm for arm in LOSSES if arm != ONE)


def plan(seeds: int | None = None, *, smoke: bool = False) -> Iterator[tuple[Point, int]]:
    """Yield the point and the seed of each job, the most informative first: all arms of a seed before the next.

    One linear head is compared with any number of them, and has ``k1`` in its name.

    Examples
    --------
    >>> [point.name for point, seed in plan(1)][:6]
    ['frozen-hidden-k8-0', 'frozen-hidden-k8-0.5', 'frozen-hidden-k8-0.9', 'frozen-hidden-k8-1',
     'frozen-hidden-k8-one', 'frozen-linear-k8-0']
    """
    few, many = (2, 3) if smoke else (8, 32)
    blocks = [
        block
        for mode in ("frozen", "tuned")
        for block in (
            [Point(mode, "hidden", few, arm) for arm in (*DIALS, ONE)],
            [*(Point(mode, "linear", few, arm) for arm in DIALS), Point(mode, "linear", 1, ONE)],
            [Point(mode, "hidden", many, arm) for arm in (*DIALS, ONE)],
            [Point(mode, "linear", many, arm) for arm in DIALS],
        )
    ]
    for block in blocks:
        for seed in range(seeds or (1 if smoke else N_SEEDS)):
            for point in block:
                yield point, seed


def reproduce(
    out: Path,
    *,
    data: Path | None = None,
    weights: Path | None = None,
    seeds: int | None = None,
    parts: str | None = None,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the jobs that are not done yet, and write a record of all that are.

    ``weights`` is a folder with ``resnet18.safetensors``, by default torchvision's download. ``seeds`` is the number
    of seeds, by default three. ``parts`` selects the jobs to run: beginnings of their names, such as
    ``frozen-hidden-k8,tuned``, separated by commas.
    """
    where, settings = pick_device(device), SMOKE_SETTINGS if smoke else SETTINGS
    source = check_weights(weights, [settings.network], smoke=smoke)
    trainer = Trainer(ImageSets(data, smoke=smoke), settings, weights=source, device=where)
    jobs = [
        Job(f"{point.name}-s{seed}", trainer.config(point, seed), partial(trainer.run, point, seed))
        for point, seed in plan(seeds, smoke=smoke)
    ]
    return run_study(STUDY, jobs, out, smoke=smoke, parts=parts, device=where)
