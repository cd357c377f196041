"""The images of Tables 4 to 6: what is trained on, held out and tested on, and the batches made of them."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    """The images of a table: ``parts`` are train, held_out and test, with their labels."""

    name: str
    n_classes: int
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]

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
    if smoke:
        if data is not None:
            raise ValueError("`--data` has no meaning with `--smoke`.")
        return _load_digits(len(table.classes or range(10)))
    from counterpoint import datasets

    loaded = getattr(datasets, f"load_{table.dataset}")(data, classes=table.classes)
    name = " ".join(("CIFAR-" + table.dataset.removeprefix("cifar"), *(table.classes or ())))
    train, test = (loaded.x_train, loaded.y_train), (loaded.x_test, loaded.y_test)
    return Images.split(name, train, test, len(loaded.class_names))


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
