"""A small network that learns CIFAR-10 within seconds.

It is a reimplementation of airbench94: K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024,
arXiv:2404.00498. The first convolution whitens patches of 2 x 2 pixels and is not trained; the later ones start as the
identity.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from counterpoint.training import Ensemble

__all__ = ["FastEnsemble", "fast_net", "whitening"]

EPSILON = 5e-4  # damps directions in which patches hardly differ


class FastEnsemble(Ensemble):
    """An ensemble of fast networks that trains in float16 on a GPU.

    The whitening takes differences of neighbouring pixels, for which bfloat16 is too coarse. Two or more networks are
    stacked and run as one program.

    Parameters
    ----------
    learners : sequence of Module
        Networks of :func:`fast_net`, all with the same width.

    Examples
    --------
    >>> ensemble = FastEnsemble([fast_net(10, width=8) for _ in range(3)])
    >>> ensemble.is_stacked, ensemble(torch.rand(4, 3, 32, 32)).shape
    (True, torch.Size([3, 4, 10]))
    """

    def forward(self, x: Tensor | Sequence[Tensor]) -> Tensor:
        """Return the outputs of the learners, (n_learners, batch, n_classes)."""
        device = self.weights.device.type
        with torch.autocast(device, torch.float16, enabled=self.training and device == "cuda"):
            return super().forward(x)


def fast_net(n_classes: int, width: int = 64) -> nn.Sequential:
    """Return the network for images of 32 x 32 pixels.

    Its blocks have ``width``, ``4 * width`` and ``4 * width`` channels. The weights of its first layer are not trained;
    set them to those of :func:`whitening`. Its logits are divided by 9, so that they start small; the division is done
    by a pooling of single pixels before the last layer, since networks of plain layers can be stacked.

    Examples
    --------
    >>> net = fast_net(10, width=8)
    >>> net(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 10])
    """
    first = nn.Conv2d(3, 24, 2)
    first.weight.requires_grad_(False)
    nn.init.zeros_(cast(Tensor, first.bias))
    layers: list[nn.Module] = [first, nn.GELU()]
    n_inputs = first.out_channels
    for n_outputs in (width, 4 * width, 4 * width):
        layers += [_conv(n_inputs, n_outputs), nn.MaxPool2d(2), _norm(n_outputs), nn.GELU()]
        layers += [_conv(n_outputs, n_outputs), _norm(n_outputs), nn.GELU()]
        n_inputs = n_outputs
    layers += [nn.MaxPool2d(3), nn.AvgPool2d(1, divisor_override=9), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_classes, bias=False))


def whitening(x: Tensor) -> Tensor:
    """Return filters (24, 3, 2, 2) that whiten the patches of images: 12 filters and their negatives.

    Notes
    -----
    The second moments of the filtered patches of ``x``, (n, 3, H, W), are ``v / (v + 0.0005)`` for each eigenvalue v of
    those of the patches themselves, and zero between different filters.

    Examples
    --------
    >>> whitening(torch.rand(10, 3, 8, 8)).shape
    torch.Size([24, 3, 2, 2])
    """
    height, width = x.shape[2] - 1, x.shape[3] - 1
    corners = [x[:, :, i : i + height, j : j + width] for i in (0, 1) for j in (0, 1)]
    patches = torch.stack(corners, 2).flatten(1, 2).transpose(0, 1).flatten(1)  # (12, patches of all images)
    moments = (patches @ patches.T / patches.shape[1]).cpu()  # 12 x 12, for which a GPU would be slower
    values, vectors = torch.linalg.eigh(moments)
    filters = (vectors / (values + EPSILON).sqrt()).T.reshape(12, 3, 2, 2)
    return torch.cat([filters, -filters]).to(x.device)


def _conv(n_inputs: int, n_outputs: int) -> nn.Conv2d:
    """Return a convolution whose first outputs are its inputs; further outputs start random."""
    conv = nn.Conv2d(n_inputs, n_outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(conv.weight[:n_inputs])
    return conv


def _norm(n_channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(n_channels, eps=1e-12, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm
