"""The images of Tables 4 to 6: what is trained on, held out and tested on, and the batches made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.vision import ImageBatches
from paper.pretrained.paper import Table

__all__ = ["GrowingBatches", "Images", "load_images", "smaller_size"]

HELD_OUT = 10  # one training image in ten


@dataclass(frozen=True)
class Images:
    """The images of a table: ``parts`` are train, held_out and test, with their labels.

    ``unknown`` loads images of other classes, in a table that needs them.
    """

    name: str
    n_classes: int
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]
    unknown: Callable[[], NDArray[np.uint8]] | None = None

    @classmethod
    def split(cls, name: str, train: Any, test: Any, n_classes: int) -> "Images":
        """Hold out a part of the training images, the same in every run."""
        x, y = train
        if len(y) < HELD_OUT:
            raise ValueError(f"`data` must hold at least {HELD_OUT} training images; got {len(y)}.")
        order = np.random.default_rng(0).permutation(len(y))
        held, kept = np.split(order, [len(y) // HELD_OUT])
        return cls(
            name, n_classes, {"train": (x[kept], y[kept]), "held_out": (x[held], y[held]), "test": test}
        )


def load_images(table: Table, data: Path | None, *, smoke: bool) -> Images:
    """Return the images of a table, or for a smoke run scikit-learn's digits, in colour and 32 pixels wide."""
    if smoke and data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    images = _load_digits(len(table.classes or range(10))) if smoke else _load_cifar(table, data)
    return replace(images, unknown=partial(_load_unknown, data, smoke=smoke)) if table.robust else images


def _load_cifar(table: Table, data: Path | None) -> Images:
    from counterpoint.datasets import load_cifar10, load_cifar100

    load = {"cifar10": load_cifar10, "cifar100": load_cifar100}[table.dataset]
    loaded = load(data, classes=table.classes)
    name = " ".join(("CIFAR-" + table.dataset.removeprefix("cifar"), *(table.classes or ())))
    train, test = (loaded.x_train, loaded.y_train), (loaded.x_test, loaded.y_test)
    return Images.split(name, train, test, len(loaded.class_names))


def _load_unknown(data: Path | None, *, smoke: bool) -> NDArray[np.uint8]:
    """Return the test images of CIFAR-100, whose classes CIFAR-10 does not have, or for a smoke run inverted digits."""
    if smoke:
        inverted: NDArray[np.uint8] = 255 - _load_digits(10).parts["test"][0]
        return inverted
    from counterpoint.datasets import load_cifar100

    return load_cifar100(data).x_test


def _load_digits(n_classes: int) -> Images:
    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=n_classes, return_X_y=True)
    x = np.repeat(np.kron(X.reshape(-1, 8, 8), np.ones((4, 4)))[..., None] * 15, 3, axis=-1).astype(np.uint8)
    y = y.astype(np.int64)
    train, test = ((x[part], y[part]) for part in (slice(0, 160), slice(160, 260)))
    return Images.split(f"digits 0-{n_classes - 1}", train, test, n_classes)


class GrowingBatches:
    """Batches whose images are smaller in the first half of the epochs, which halves the cost of those epochs."""

    def __init__(self, batches: ImageBatches, size: int, epochs: int) -> None:
        self.batches, self.size, self.epochs = batches, size, epochs
        self.generator = batches.generator  # fit saves its state in checkpoints

    def __call__(self, epoch: int) -> ImageBatches:
        """Return the batches of an epoch."""
        self.batches.size = smaller_size(self.size) if 2 * epoch <= self.epochs else self.size
        return self.batches


def smaller_size(size: int) -> int:
    """Return about three quarters of a size, as a multiple of 32; sizes up to 32 are returned as they are.

    Examples
    --------
    >>> [smaller_size(size) for size in (16, 128, 192, 224)]
    [16, 96, 128, 160]
    """
    return min(size, max(32, 32 * round(0.75 * size / 32)))
