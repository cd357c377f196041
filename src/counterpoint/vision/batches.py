"""Batches of images that stay on the device and are augmented there.

Notation: n images, B of them in a batch, H x W pixels. All random numbers of an epoch are drawn at its start. A batch
is then a few operations: one gather of bytes that shifts and mirrors, and arithmetic on the result.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from counterpoint._validation import check_flag, check_interval, check_whole
from counterpoint.training import pick_device

__all__ = ["ImageBatches"]

# Of ImageNet, which pretrained networks expect; those of CIFAR-10 are within 0.05 of them.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

Images = NDArray[np.uint8] | Tensor
Batch = tuple[Tensor | list[Tensor], Tensor]


class ImageBatches:
    """Batches of images for :func:`~counterpoint.training.fit`, augmented on the device.

    Parameters
    ----------
    images : array or Tensor of uint8, shape (n, height, width, 3) or (n, 3, height, width)
        They are kept on the device, in bytes. On the CPU the memory is shared, so do not change them.
    labels : array or Tensor of int, shape (n,)
        Their classes.
    batch_size : int, default=256
        Images in a batch.
    size : int, optional
        Resize to this height and width, bilinearly, with antialiasing if the images get smaller.
    augment : bool, default=True
        Shift each image by up to ``crop_padding`` pixels in each direction, with reflection at the borders, mirror half
        of them, and cut out a square. Use False for evaluation.
    views : int, optional
        Number of views of each batch, augmented independently: one for each learner. By default all share one.
    shuffle : bool, optional
        Whether to shuffle in each epoch; by default as ``augment``.
    device : str or device, default="auto"
        Device of the images; ``"auto"`` is the GPU if there is one.
    dtype : torch.dtype, default=torch.float32
        Type of the batches, which are computed in float32.
    mean, std : sequence of 3 float
        Mean and standard deviation of the channels, between 0 and 1, for normalisation; by default those of ImageNet.
    cutout : int, default=0
        Side of the square that is set to the mean, before resizing. Its centre may be any pixel, so it may cross the
        border.
    crop_padding : int, default=4
        The largest shift, before resizing.
    random_state : int, default=0
        Seed of the object's own generator, which all epochs draw from.
    drop_last : bool, optional
        Whether to drop the last batch if it is smaller; by default if ``augment`` is true and there are enough images
        for one batch.

    Attributes
    ----------
    generator : torch.Generator
        Source of all random numbers. :func:`~counterpoint.training.fit` saves its state in checkpoints, so that a
        resumed run sees the same batches, unless they come out of a callable.

    Notes
    -----
    On CUDA the batches are in channels-last memory format, which is faster there.

    Iterating yields ``(x, y)`` with x of shape ``(batch, 3, height, width)``, or ``([x_1, ..., x_k], y)`` for k views.
    For images that do not fit on the device :func:`~counterpoint.training.fit` takes any ``DataLoader``.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
    >>> labels = np.arange(10) % 2
    >>> batches = ImageBatches(images, labels, batch_size=4, views=3)
    >>> len(batches)
    2
    >>> views, y = next(iter(batches))
    >>> len(views), views[0].shape, y.shape
    (3, torch.Size([4, 3, 32, 32]), torch.Size([4]))
    >>> [len(y) for x, y in ImageBatches(images, labels, batch_size=4, size=64, augment=False)]
    [4, 4, 2]
    """

    def __init__(
        self,
        images: Images,
        labels: Any,
        *,
        batch_size: int = 256,
        size: int | None = None,
        augment: bool = True,
        views: int | None = None,
        shuffle: bool | None = None,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
        mean: Sequence[float] = MEAN,
        std: Sequence[float] = STD,
        cutout: int = 0,
        crop_padding: int = 4,
        random_state: int = 0,
        drop_last: bool | None = None,
    ) -> None:
        self.device = pick_device(device)
        self._images = _check_images(images).to(self.device)  # (n, H, W, 3)
        self._labels = _check_labels(labels, len(self._images)).to(self.device)
        self.batch_size = check_whole(batch_size, "batch_size", minimum=1)
        self.size = None if size is None else check_whole(size, "size", minimum=1)
        self.augment = check_flag(augment, "augment")
        self.views = None if views is None else check_whole(views, "views", minimum=1)
        if self.views is not None and not self.augment:
            raise ValueError(f"`views` must be None without `augment`, where all are equal; got {views}.")
        self.shuffle = self.augment if shuffle is None else check_flag(shuffle, "shuffle")
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise TypeError(f"`dtype` must be a floating type of torch; got {dtype!r}.")
        self.dtype = dtype
        # On a CPU without AVX-512, oneDNN corrupts memory in some convolutions of this layout.
        self._channels_last = self.device.type == "cuda"
        self._scale, self._shift = _normalisation(mean, std, self.device)
        self.cutout = check_whole(cutout, "cutout", minimum=0)
        self.crop_padding = check_whole(crop_padding, "crop_padding", minimum=0)
        if self.augment and self.crop_padding >= min(self._images.shape[1:3]):
            raise ValueError(
                f"`crop_padding` must be less than the height and width of the images, "
                f"{tuple(self._images.shape[1:3])}; got {crop_padding}."
            )
        enough = self.batch_size <= len(self._images)
        self.drop_last = self.augment and enough if drop_last is None else check_flag(drop_last, "drop_last")
        if self.drop_last and not enough:
            raise ValueError(
                f"`batch_size` must be at most the number of images, {len(self._images)}, where the last batch is "
                f"dropped; got {batch_size}."
            )
        seed = check_whole(random_state, "random_state", minimum=0, maximum=2**64 - 1)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def __len__(self) -> int:
        n = len(self._images)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        n = len(self._images)
        order = (
            torch.randperm(n, generator=self.generator, device=self.device)
            if self.shuffle
            else torch.arange(n, device=self.device)
        )
        moves = self._draw(n) if self.augment else None
        for number in range(len(self)):
            chosen = slice(number * self.batch_size, (number + 1) * self.batch_size)
            index = order[chosen]
            y = self._labels[index]
            if moves is None:
                yield self._finish(self._images[index], None), y
                continue
            here = _Moves(*(part[:, chosen].flatten() for part in moves))
            x = self._finish(_moved(self._images, index.repeat(self.views or 1), here), here)
            yield (x if self.views is None else list(x.chunk(self.views))), y

    def _draw(self, n: int) -> "_Moves":
        """Return the augmentation of each view of each image in an epoch, (views, n)."""
        shape = (self.views or 1, n)
        height, width = self._images.shape[1:3]

        def whole(low: int, high: int) -> Tensor:  # below `high`
            return torch.randint(low, high, shape, generator=self.generator, device=self.device)

        padding = self.crop_padding
        down, right = whole(-padding, padding + 1), whole(-padding, padding + 1)
        mirror = torch.rand(shape, generator=self.generator, device=self.device) < 0.5
        top, left = whole(0, height) - self.cutout // 2, whole(0, width) - self.cutout // 2
        return _Moves(down, right, mirror, top, left)

    def _finish(self, pixels: Tensor, moves: "_Moves | None") -> Tensor:
        """Return bytes (B, H, W, 3) as inputs of the networks."""
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        x = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=layout)
        x = x.mul_(self._scale).add_(self._shift)
        if moves is not None and self.cutout:
            x = x.masked_fill_(_squares(moves.top, moves.left, self.cutout, x.shape), 0.0)
        if self.size is not None and x.shape[2:] != (self.size, self.size):
            # Normalising first is the same and handles fewer pixels: the weights of each pixel sum to one.
            smaller = self.size < max(x.shape[2:])
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=smaller)
        return x.to(self.dtype)


class _Moves(NamedTuple):
    """What happens to images, one entry for each."""

    down: Tensor  # rows by which the crop is moved
    right: Tensor
    mirror: Tensor
    top: Tensor  # corner of the square that is cut out
    left: Tensor


def _moved(images: Tensor, index: Tensor, moves: _Moves) -> Tensor:
    """Return the chosen images shifted and then mirrored, (B, H, W, 3)."""
    height, width = images.shape[1:3]
    row = torch.arange(height, device=images.device)
    column = torch.arange(width, device=images.device)
    column = torch.where(moves.mirror[:, None], width - 1 - column, column)  # (B, W)
    rows = _reflected(row + moves.down[:, None], height)  # (B, H)
    columns = _reflected(column + moves.right[:, None], width)
    return images[index[:, None, None], rows[:, :, None], columns[:, None, :]]


def _reflected(place: Tensor, length: int) -> Tensor:
    """Return places inside ``[0, length)``, those outside reflected at the borders."""
    return length - 1 - (length - 1 - place.abs()).abs()


def _squares(top: Tensor, left: Tensor, side: int, shape: Sequence[int]) -> Tensor:
    """Return where the squares are, (B, 1, H, W)."""
    rows = torch.arange(shape[2], device=top.device) - top[:, None]
    columns = torch.arange(shape[3], device=top.device) - left[:, None]
    inside_rows, inside_columns = (rows >= 0) & (rows < side), (columns >= 0) & (columns < side)
    return inside_rows[:, None, :, None] & inside_columns[:, None, None, :]


def _check_images(images: Images) -> Tensor:
    """Return bytes (n, H, W, 3)."""
    if not isinstance(images, Tensor | np.ndarray):
        raise TypeError(f"`images` must be an array or a tensor; got {type(images).__name__}.")
    if str(images.dtype).removeprefix("torch.") != "uint8":
        raise TypeError(f"`images` must hold bytes, uint8; got {images.dtype}.")
    if images.ndim != 4 or 3 not in (images.shape[1], images.shape[3]) or 0 in images.shape:
        grey = images.ndim == 3 or (images.ndim == 4 and 1 in (images.shape[1], images.shape[3]))
        raise ValueError(
            f"`images` must have the shape (n, height, width, 3) or (n, 3, height, width); "
            f"got {tuple(images.shape)}.{' Repeat the channel of grey images three times.' if grey else ''}"
        )
    # torch shares memory with writable arrays alone, and with none that is read backwards: of others it gets a copy
    given = (
        images
        if isinstance(images, Tensor)
        else torch.from_numpy(np.require(images, requirements=("C", "W")))
    )
    return (given if given.shape[3] == 3 else given.movedim(1, 3)).contiguous()


def _check_labels(labels: Any, n_images: int) -> Tensor:
    if isinstance(labels, Tensor) and labels.is_floating_point():  # of which NumPy does not know all
        raise TypeError(f"`labels` must be integers; got {str(labels.dtype).removeprefix('torch.')}.")
    try:
        array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    except ValueError:  # lists of unequal lengths
        raise TypeError(f"`labels` must be integers; got {labels!r}.") from None
    if array.shape != (n_images,):
        raise ValueError(
            f"`labels` must have the shape ({n_images},), one for each image; got {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"`labels` must be integers; got {array.dtype}.")
    classes = array.astype(np.int64)  # a copy, in which what is too large is negative
    if (wrong := array[classes < 0]).size:
        raise ValueError(f"`labels` must be at least 0 and below 2**63; got {wrong[0]}.")
    return torch.from_numpy(classes)


def _normalisation(
    mean: Sequence[float], std: Sequence[float], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the factors and summands (3, 1, 1) that take bytes to standardised channels."""
    centre, spread = check_interval(mean, "mean", 0, 1), check_interval(std, "std", 0)
    for name, value in (("mean", centre), ("std", spread)):
        if value.shape != (3,):
            raise ValueError(f"`{name}` must have 3 entries, one for each channel; got shape {value.shape}.")
    if not ((spread > 0) & np.isfinite(spread)).all():
        raise ValueError(f"`std` must be positive and finite; got {tuple(std)}.")
    scale, shift = 1 / (255 * spread), -centre / spread

    def each(values: NDArray[np.float64]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]

    return each(scale), each(shift)
