"""The images that the ConvNets learn."""

from pathlib import Path

import numpy as np

from counterpoint.datasets import load_cifar10
from counterpoint.datasets.cifar import Images

__all__ = ["load_images"]


def load_images(data: Path | None, *, smoke: bool) -> Images:
    """Return CIFAR-10, or for a smoke run a few digits of 8 pixels in three equal colours."""
    if not smoke:
        return load_cifar10(data)
    if data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.images * 15.9).astype(np.uint8)[..., None].repeat(3, axis=3)
    y = digits.target.astype(np.int64)
    return Images(x[:150], y[:150], x[150:250], y[150:250], tuple("0123456789"))
