"""CIFAR-10 and CIFAR-100 as arrays, from an ``npz`` file that is written on first use."""

import os
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from counterpoint._extras import import_extra
from counterpoint.datasets._checks import DATA_VARIABLE, check_folder, check_known

__all__ = ["Images", "load_cifar10", "load_cifar100"]

Names = Sequence[str] | NDArray[np.str_]

IMAGE_SHAPE = (32, 32, 3)

CIFAR10_CLASSES = tuple(
    "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905 - as below
)
CIFAR100_CLASSES = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
    cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
    lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()  # noqa: SIM905 - a hundred quoted words would hide the list
)


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Training and test images with their labels.

    Attributes
    ----------
    x_train, x_test : numpy.ndarray of uint8, shape (n, 32, 32, 3)
        The images: height, width, and red, green and blue.
    y_train, y_test : numpy.ndarray of int64, shape (n,)
        The labels, as indices into ``class_names``.
    class_names : tuple of str
        The names of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> pixels, labels = np.zeros((3, 32, 32, 3), np.uint8), np.array([0, 1, 1])
    >>> Images(pixels, labels, pixels, labels, ("cat", "dog"))
    Images(3 training and 3 test images; 2 classes)
    """

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    class_names: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"Images({len(self.y_train)} training and {len(self.y_test)} test images; "
            f"{len(self.class_names)} classes)"
        )


def load_cifar10(data_dir: str | os.PathLike[str] | None = None, classes: Names | None = None) -> Images:
    """Load CIFAR-10: 60,000 colour images of 32 x 32 pixels in ten classes.

    Parameters
    ----------
    data_dir : path-like, optional
        The folder with ``cifar10.npz``, which holds ``x_train``, ``y_train``, ``x_test`` and
        ``y_test``. By default the folder that the environment variable ``COUNTERPOINT_DATA``
        names, else a cache folder of the user. If the file is missing, torchvision downloads the
        images and the file is written there.
    classes : sequence or array of str, optional
        Keep only these classes, labelled 0, 1, ... in this order.

    Returns
    -------
    Images
        Training and test images, labels, and the names of the classes.

    References
    ----------
    .. [1] A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", technical report,
       University of Toronto, 2009. https://www.cs.toronto.edu/~kriz/cifar.html

    Examples
    --------
    >>> load_cifar10("data", classes=("airplane", "automobile"))  # doctest: +SKIP
    Images(10000 training and 2000 test images; 2 classes)
    >>> load_cifar10(classes=("plane", "bird"))
    Traceback (most recent call last):
    ...
    ValueError: `classes` must be one of 'airplane', 'automobile', 'bird', 'cat', 'deer', 'dog',
    'frog', 'horse', 'ship', 'truck'; got 'plane'. Did you mean 'airplane'?
    """
    return _load("CIFAR10", CIFAR10_CLASSES, data_dir, classes)


def load_cifar100(data_dir: str | os.PathLike[str] | None = None, classes: Names | None = None) -> Images:
    """Load CIFAR-100: 60,000 colour images of 32 x 32 pixels in a hundred fine classes.

    Parameters
    ----------
    data_dir : path-like, optional
        As for :func:`load_cifar10`, with the file ``cifar100.npz``.
    classes : sequence or array of str, optional
        Keep only these classes, labelled 0, 1, ... in this order.

    Returns
    -------
    Images
        Training and test images, labels, and the names of the classes.

    References
    ----------
    .. [1] A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", technical report,
       University of Toronto, 2009. https://www.cs.toronto.edu/~kriz/cifar.html

    Examples
    --------
    >>> load_cifar100("data")  # doctest: +SKIP
    Images(50000 training and 10000 test images; 100 classes)
    >>> load_cifar100(classes=("apple", "apple"))
    Traceback (most recent call last):
    ...
    ValueError: `classes` must be distinct; got ('apple', 'apple').
    """
    return _load("CIFAR100", CIFAR100_CLASSES, data_dir, classes)


def _load(
    name: str,
    class_names: tuple[str, ...],
    data_dir: str | os.PathLike[str] | None,
    classes: Names | None,
) -> Images:
    chosen = class_names if classes is None else _check_classes(classes, class_names)
    folder = check_folder(data_dir) or _cache_folder()
    path = folder / f"{name.lower()}.npz"
    if not path.exists():
        _download(name, path)
    arrays = _read_arrays(path, n_classes=len(class_names))
    images = Images(**arrays, class_names=class_names)
    return images if chosen == class_names else _subset(images, chosen)


def _check_classes(classes: Names, class_names: tuple[str, ...]) -> tuple[str, ...]:
    names = classes.tolist() if hasattr(classes, "tolist") else classes
    several = isinstance(names, Sequence) and not isinstance(names, str)
    if not several or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`classes` must be a sequence of class names; got {classes!r}.")
    if not names:
        raise ValueError(f"`classes` must name at least one class; got {classes!r}.")
    chosen = tuple(check_known(name, "classes", class_names) for name in names)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"`classes` must be distinct; got {chosen!r}.")
    return chosen


def _subset(images: Images, chosen: tuple[str, ...]) -> Images:
    label = np.full(len(images.class_names), -1)
    label[[images.class_names.index(name) for name in chosen]] = np.arange(len(chosen))
    y_train, y_test = label[images.y_train], label[images.y_test]
    return Images(
        x_train=images.x_train[y_train >= 0],
        y_train=y_train[y_train >= 0],
        x_test=images.x_test[y_test >= 0],
        y_test=y_test[y_test >= 0],
        class_names=chosen,
    )


# What zipfile, zlib and NumPy raise for a damaged file; NumPy parses array headers with tokenize.
_CORRUPT = (OSError, ValueError, TypeError, EOFError, RuntimeError, BadZipFile, zlib.error, TokenError)


def _read_arrays(path: Path, n_classes: int) -> dict[str, NDArray[Any]]:
    keys = ("x_train", "y_train", "x_test", "y_test")
    try:
        with path.open("rb") as stream, np.load(stream) as file:
            missing = [key for key in keys if key not in file]
            arrays = {} if missing else {key: file[key] for key in keys}
    except _CORRUPT as error:
        raise ValueError(f"'{path}' must be an npz file of arrays; reading it failed: {error}.") from error
    if missing:
        raise ValueError(f"'{path}' must hold {', '.join(keys)}; it has no {missing[0]}.")
    for part in ("train", "test"):
        _check_part(path, part, arrays[f"x_{part}"], arrays[f"y_{part}"], n_classes)
        arrays[f"y_{part}"] = arrays[f"y_{part}"].astype(np.int64)
    return arrays


def _check_part(path: Path, part: str, x: NDArray[Any], y: NDArray[Any], n_classes: int) -> None:
    if x.shape[1:] != IMAGE_SHAPE or x.dtype != np.uint8:
        raise ValueError(
            f"`x_{part}` of '{path}' must be uint8 of shape (n, 32, 32, 3); got {x.dtype} of shape {x.shape}."
        )
    if y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"`y_{part}` of '{path}' must be integers of shape {x.shape[:1]}; "
            f"got {y.dtype} of shape {y.shape}."
        )
    if y.size and not 0 <= y.min() <= y.max() < n_classes:
        raise ValueError(
            f"`y_{part}` of '{path}' must be between 0 and {n_classes - 1}; got {y.min()} to {y.max()}."
        )


def _cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "counterpoint"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _download(name: str, path: Path) -> None:
    """Download the images with torchvision and write ``path`` atomically."""
    datasets = import_extra("torchvision.datasets", "vision")
    arrays: dict[str, NDArray[Any]] = {}
    # Beside the target, so that a folder without write permission is found before the download.
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        try:
            for part in ("train", "test"):
                images = getattr(datasets, name)(scratch, train=part == "train", download=True)
                arrays[f"x_{part}"] = np.asarray(images.data, dtype=np.uint8)
                arrays[f"y_{part}"] = np.asarray(images.targets, dtype=np.int64)
        except (OSError, RuntimeError) as error:
            raise ConnectionError(
                f"{name} could not be downloaded ({error}); pass `data_dir`, or set "
                f"{DATA_VARIABLE}, to the path of a folder that holds '{path.name}'."
            ) from error
        np.savez(Path(scratch) / path.name, **arrays)  # type: ignore[arg-type]
        (Path(scratch) / path.name).replace(path)
