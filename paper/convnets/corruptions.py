"""Corrupted images, as in CIFAR-10-C, made on the device that holds the images.

Notation: n images of H x W pixels; x holds their values between 0 and 1, (n, 3, H, W). Blur, change of resolution and
the cosine transform of JPEG act on rows and columns separately, so each is a product with a matrix from both sides.

References
----------
.. [1] D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
   Perturbations", ICLR 2019.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt"]

Corruption = Callable[[Tensor, float, torch.Generator], Tensor]
Pixels = TypeVar("Pixels", NDArray[np.uint8], Tensor)

# The values of CIFAR-10-C for strengths 1 to 5.
SEVERITIES: Mapping[str, tuple[float, ...]] = {
    "noise": (0.04, 0.06, 0.08, 0.09, 0.10),  # standard deviation
    "blur": (0.4, 0.6, 0.7, 0.8, 1.0),  # standard deviation in pixels
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),  # remaining share
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),  # height and width of the small image, as a share
    "jpeg": (80, 65, 58, 50, 40),  # quality
}

# Tables K.1 and K.2 of the JPEG standard (ITU-T T.81), for brightness and for colour.
_BRIGHTNESS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_COLOUR = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
# Red, green and blue to brightness and two colour differences (JFIF).
_TO_YCBCR = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def corrupt(x: Pixels, name: str, strength: int, *, random_state: int = 0) -> Pixels:
    """Return corrupted images.

    Parameters
    ----------
    x : array or Tensor of uint8, shape (n, height, width, 3)
        The images, which stay unchanged.
    name : str
        One of ``CORRUPTIONS``.
    strength : int
        From 1 to 5.
    random_state : int, default=0
        Seed of the noise. Equal seeds give equal images on one device. The noise of all strengths is the same but for
        its scale.

    Returns
    -------
    array or Tensor of uint8, shape (n, height, width, 3)
        Of the kind of ``x``, and on the device of a tensor.

    Notes
    -----
    Strengths are those of CIFAR-10-C. There are two differences: values are rounded to bytes, where CIFAR-10-C
    truncates them, and JPEG keeps the resolution of the colours (4:4:4), where Pillow halves it by default.

    Examples
    --------
    >>> x = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    >>> changed = corrupt(x, "contrast", 3)
    >>> changed.shape, changed.dtype
    ((2, 32, 32, 3), dtype('uint8'))
    >>> round(float(changed.std() / x.std()), 2)
    0.4
    """
    if name not in CORRUPTIONS:
        raise ValueError(f"`name` must be one of {', '.join(CORRUPTIONS)}; got {name!r}.")
    if strength not in range(1, 6):
        raise ValueError(f"`strength` must be from 1 to 5; got {strength!r}.")
    if isinstance(x, Tensor):
        return _corrupt(x, name, strength, random_state)
    changed: NDArray[np.uint8] = _corrupt(torch.tensor(x), name, strength, random_state).numpy()
    return changed


@torch.no_grad()
def _corrupt(x: Tensor, name: str, strength: int, random_state: int) -> Tensor:
    if x.dtype != torch.uint8 or x.dim() != 4 or x.shape[3] != 3:
        kind = f"{str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
        raise ValueError(f"`x` must hold bytes of shape (n, height, width, 3); got {kind}.")
    generator = torch.Generator(x.device).manual_seed(random_state)
    values = x.permute(0, 3, 1, 2).float() / 255
    changed = CORRUPTIONS[name](values, SEVERITIES[name][strength - 1], generator)
    return (255 * changed).round_().clamp_(0, 255).byte().permute(0, 2, 3, 1).contiguous()


def _noise(x: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    noise = torch.randn(x.shape, generator=generator, device=x.device)
    return noise.mul_(deviation).add_(x)


def _blur(x: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    """Blur by a Gaussian that is cut off at four standard deviations; beyond the border the last pixel repeats."""
    return _on_both_sides(x, *(_blur_matrix(length, deviation).to(x) for length in x.shape[2:]))


def _contrast(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Move every pixel towards the mean of its image and channel."""
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * share + mean


def _pixelate(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Resize to a smaller image and back, both by Pillow's box filter."""
    matrices = []
    for length in x.shape[2:]:
        small = max(int(length * share), 1)
        matrices.append(_box_matrix(length, small) @ _box_matrix(small, length))
    return _on_both_sides(x, *(matrix.to(x) for matrix in matrices))


def _jpeg(x: Tensor, quality: float, generator: torch.Generator) -> Tensor:
    """Round the cosine transforms of blocks of 8 x 8 pixels as JPEG does; the lossless rest of the format is left out.

    Images are padded to multiples of 8 by repeating their last row and column. Brightness and colours have the same
    resolution (4:4:4).
    """
    height, width = x.shape[2:]
    pixels = F.pad(255 * x, (0, -width % 8, 0, -height % 8), mode="replicate")
    to_ycbcr = torch.tensor(_TO_YCBCR, dtype=torch.float64)
    channels = _mixed(to_ycbcr, pixels).round_()
    channels[:, 0] -= 128
    blocks = channels.shape[2] // 8, channels.shape[3] // 8
    rows, columns = (torch.kron(torch.eye(count), _cosines()).to(x) for count in blocks)
    steps = torch.stack([_steps(table, quality).repeat(blocks) for table in (_BRIGHTNESS, _COLOUR, _COLOUR)])
    steps = steps.to(x)
    spectrum = _on_both_sides(channels, rows, columns).div_(steps).round_().mul_(steps)
    channels = _on_both_sides(spectrum, rows.T, columns.T).round_()
    channels[:, 0] += 128
    channels[:, 0].clamp_(0, 255)
    channels[:, 1:].clamp_(-128, 127)
    return _mixed(torch.linalg.inv(to_ycbcr), channels)[:, :, :height, :width] / 255


CORRUPTIONS: Mapping[str, Corruption] = {
    "noise": _noise,
    "blur": _blur,
    "contrast": _contrast,
    "pixelate": _pixelate,
    "jpeg": _jpeg,
}


def _on_both_sides(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return ``rows @ image @ columns.T`` for each channel of each image."""
    return rows @ (x @ columns.T)


def _mixed(matrix: Tensor, x: Tensor) -> Tensor:
    """Return the channels (n, 3, H, W) multiplied by a matrix (3, 3)."""
    return (matrix.to(x) @ x.flatten(2)).view(x.shape)


def _blur_matrix(length: int, deviation: float) -> Tensor:
    """Return the matrix (length, length) of a Gaussian blur."""
    radius = int(4 * deviation + 0.5)
    offsets = torch.arange(-radius, radius + 1)
    weights = (-0.5 * (offsets.double() / deviation).square()).exp()
    sources = (torch.arange(length)[:, None] + offsets).clamp(0, length - 1)
    matrix = torch.zeros(length, length, dtype=torch.float64)
    return matrix.scatter_add_(1, sources, (weights / weights.sum()).expand(length, -1))


def _box_matrix(out: int, length: int) -> Tensor:
    """Return the matrix (out, length) of Pillow's resize by the box filter.

    Each new pixel is the mean of the old ones with a centre in its interval, or the nearest one.
    """
    scale = length / out
    width = max(scale, 1.0)
    centres = (torch.arange(out, dtype=torch.float64)[:, None] + 0.5) * scale
    distance = (torch.arange(length, dtype=torch.float64) + 0.5 - centres) / width
    inside = ((distance > -0.5) & (distance <= 0.5)).double()
    return inside / inside.sum(1, keepdim=True)


def _cosines() -> Tensor:
    """Return the orthogonal matrix (8, 8) of the discrete cosine transform."""
    k = torch.arange(8, dtype=torch.float64)
    matrix = (math.pi / 8 * k[:, None] * (k + 0.5)).cos() / 2
    matrix[0] /= math.sqrt(2)
    return matrix


def _steps(table: tuple[tuple[int, ...], ...], quality: float) -> Tensor:
    """Return the steps of the quantisation (8, 8) at a quality from 1 to 100, as the IJG's library scales them."""
    percent = 5000 / quality if quality < 50 else 200 - 2 * quality
    return ((torch.tensor(table, dtype=torch.float64) * int(percent) + 50) / 100).floor().clamp(1, 255)
