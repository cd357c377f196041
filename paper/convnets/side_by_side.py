"""Many small ConvNets of one shape, side by side: each layer runs once for all of them.

Notation: K nets, V views, B images. Maps are ``(B, K C, H, W)``, the channels of the nets side by side. Consecutive
nets share a view, K / V of them each, so the first convolution has V groups and every later one K.
"""

import copy
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Apart", "Chunks", "SideBySide", "program"]

# How nets up to a width run fastest, as benchmarks/bench_convnets_gpu.py measures it: "grouped", in one convolution
# whose groups hold so many channels, or "dense", over as many nets at a time as have so many in their first layer.
# Groups of fewer channels than tensor cores multiply at once would waste them, and have slow kernels besides.
_LAYOUTS = ((8, "grouped", 32), (32, "grouped", 32), (2**31, "dense", 1))
_EVERYTHING = 2**31  # channels in a group: one group for all


def program(nets: Sequence[nn.Module], n_views: int = 1) -> "SideBySide | Chunks":
    """Return ConvNets as one module that takes ``(V, B, C, H, W)`` to ``(K, B, m)``."""
    width = next(part for part in nets[0].modules() if isinstance(part, nn.Conv2d)).out_channels
    _, how, channels = next(layout for layout in _LAYOUTS if width <= layout[0])
    if how == "dense" or width % 4:  # grouped kernels are made for even numbers of channels
        return Chunks(nets, n_views, max(channels // width, 1))
    return SideBySide(nets, n_views, channels)


class Apart(nn.Module):
    """The nets one after the other, with the call of :class:`SideBySide`."""

    def __init__(self, nets: Sequence[nn.Module], n_views: int = 1) -> None:
        super().__init__()
        self.nets = nn.ModuleList(copy.deepcopy(net) for net in nets)
        self.share = len(nets) // n_views

    def forward(self, views: Tensor) -> Tensor:
        """Return the logits (K, B, m) of views (V, B, C, H, W)."""
        each = [_channels_last(view) for view in views]
        return torch.stack([net(each[i // self.share]) for i, net in enumerate(self.nets)])


class Chunks(nn.Module):
    """A few nets at a time, side by side in dense convolutions, with the call of :class:`SideBySide`.

    Parameters
    ----------
    nets, n_views
        As for :class:`SideBySide`.
    size : int, default=1
        The most nets of a chunk; those of a chunk share a view, or have each one of their own.
    """

    def __init__(self, nets: Sequence[nn.Module], n_views: int = 1, size: int = 1) -> None:
        super().__init__()
        share = len(nets) // n_views
        alike = share if share > 1 else len(nets)
        self.size = max(p for p in range(1, min(size, alike) + 1) if alike % p == 0)
        self.share = share
        self.parts = nn.ModuleList(
            SideBySide(nets[i : i + self.size], 1 if share > 1 else self.size, _EVERYTHING)
            for i in range(0, len(nets), self.size)
        )

    def forward(self, views: Tensor) -> Tensor:
        """Return the logits (K, B, m) of views (V, B, C, H, W)."""
        starts = range(0, len(self.parts) * self.size, self.size)
        ends = [i // self.share + (1 if self.share > 1 else self.size) for i in starts]
        each = [views[i // self.share : end] for i, end in zip(starts, ends, strict=True)]
        return torch.cat([part(some) for part, some in zip(self.parts, each, strict=True)])


class SideBySide(nn.Module):
    """Equal sequences of layers whose channels stand side by side.

    Parameters
    ----------
    nets : sequence of Module
        Sequences of convolutions, batch normalisations, activations, poolings and linear layers, in the form of
        ``backbone("convnet", ...)``; their values are copied.
    n_views : int, default=1
        How many batches of images there are; it divides the number of nets.
    channels : int, default=32
        Nets of fewer channels are put together, as many as give that, into one group of the convolution whose
        weights between different nets are zero. Tensor cores would multiply those zeros anyway.
    """

    def __init__(self, nets: Sequence[nn.Module], n_views: int = 1, channels: int = 32) -> None:
        super().__init__()
        self.n_nets = len(nets)
        layers: list[nn.Module] = []
        n_inputs = n_views
        for column in zip(*(_flat(net) for net in nets), strict=True):
            layers.append(_side_by_side(column, n_inputs, channels))
            if isinstance(layers[-1], _Conv):
                n_inputs = self.n_nets
        self.layers = nn.ModuleList(layers)

    def forward(self, views: Tensor) -> Tensor:
        """Return the logits (K, B, m) of views (V, B, C, H, W)."""
        h = _channels_last(views.transpose(0, 1).flatten(1, 2))
        for layer in self.layers:
            h = layer(h)
        return h


class _Conv(nn.Module):
    """One grouped convolution for all nets."""

    mask: Tensor

    def __init__(self, layers: Sequence[nn.Conv2d], n_inputs: int, channels: int) -> None:
        super().__init__()
        one, n_nets = layers[0], len(layers)
        self.settings = {"stride": one.stride, "padding": one.padding, "dilation": one.dilation}
        self.weight = _joined([layer.weight for layer in layers])
        self.bias = None if one.bias is None else _joined([cast(Tensor, layer.bias) for layer in layers])
        # Where a view is shared the convolution is dense in it; else nets that are put together are told apart by
        # a block-diagonal mask (pack, 1, pack, 1, 1, 1).
        self.groups = n_inputs
        self.pack = 1
        if n_inputs == n_nets:
            most = min(max(channels // one.in_channels, 1), n_nets)
            self.pack = max(p for p in range(1, most + 1) if n_nets % p == 0)
            self.groups = n_nets // self.pack
        self.register_buffer("mask", torch.eye(self.pack)[:, None, :, None, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight
        if self.pack > 1:
            wide = weight.view(self.groups, self.pack, -1, *weight.shape[1:])
            weight = (wide.unsqueeze(3) * self.mask).flatten(3, 4).flatten(0, 2)
        return F.conv2d(x, weight, self.bias, groups=self.groups, **self.settings)  # type: ignore[arg-type]


class _Heads(nn.Module):
    """One batched product for the linear layers of all nets; features (B, K F) become (K, B, m)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().mT for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers])[:, None])

    def forward(self, x: Tensor) -> Tensor:
        features = x.reshape(len(x), len(self.weight), -1).transpose(0, 1)
        return torch.baddbmm(self.bias, features, self.weight)


def _batch_norm(layers: Sequence[nn.BatchNorm2d]) -> nn.BatchNorm2d:
    one = layers[0]
    norm = nn.BatchNorm2d(len(layers) * one.num_features, one.eps, one.momentum)
    norm.weight, norm.bias = (
        _joined([getattr(layer, name) for layer in layers]) for name in ("weight", "bias")
    )
    return norm


def _side_by_side(column: Sequence[nn.Module], n_inputs: int, channels: int) -> nn.Module:
    forms: dict[type[nn.Module], Callable[..., nn.Module]] = {
        nn.Conv2d: lambda layers: _Conv(layers, n_inputs, channels),
        nn.BatchNorm2d: _batch_norm,
        nn.Linear: _Heads,
    }
    form = forms.get(type(column[0]))
    if form is None and next(column[0].parameters(), None) is not None:
        raise TypeError(f"`nets` must be of layers that can stand side by side; got {column[0]!r}.")
    return column[0] if form is None else form(column)


def _channels_last(x: Tensor) -> Tensor:
    """Return the maps as a GPU's kernels like them best."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cuda" else x


def _flat(net: nn.Module) -> list[nn.Module]:
    if isinstance(net, nn.Sequential):
        return [layer for part in net for layer in _flat(part)]
    return [net]


def _joined(tensors: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.cat([tensor.detach() for tensor in tensors]))
