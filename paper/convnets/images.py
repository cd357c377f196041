"""The images on which the ConvNets train."""

from pathlib import Path

import numpy as np

from counterpoint.datasets import Images, load_cifar10, load_cifar100

__all__ = ["ImageSets"]


class ImageSets:
    """Image sets by name, each loaded when it is first needed.

    Parameters
    ----------
    data : Path or None
        Folder of CIFAR-10 and CIFAR-100; None is the default of the loaders.
    smoke : bool
        Whether every name stands for a few digits of 8 pixels in three equal colours.

    Examples
    --------
    >>> ImageSets(None, smoke=True)["digits"]
    Images(150 training and 100 test images; 10 classes)
    """

    def __init__(self, data: Path | None, *, smoke: bool) -> None:
        if smoke and data is not None:
            raise ValueError("`--data` has no meaning with `--smoke`.")
        self.data, self.smoke = data, smoke
        self._loaded: dict[str, Images] = {}

    def __getitem__(self, name: str) -> Images:
        if name not in self._loaded:
            self._loaded[name] = _load_digits() if self.smoke else self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Images:
        return load_cifar100(self.data) if name == "cifar100" else load_cifar10(self.data)


def _load_digits() -> Images:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = (digits.images * 15.9).astype(np.uint8)[..., None].repeat(3, axis=3)
    y = digits.target.astype(np.int64)
    return Images(x[:150], y[:150], x[150:250], y[150:250], tuple("0123456789"))
