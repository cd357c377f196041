"""Layers of several learners as one, for :class:`~counterpoint.training.Stacked`, which documents the shapes.

Notation: N learners, B samples; rows are ``(B, F)`` where they are shared, else ``(N, B, F)``, maps ``(B, C, H, W)`` or
``(B, N C, H, W)``. A first linear layer also takes ``(K, B, F)``, rows for each of K equal blocks of learners.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training.networks import FeatureMask

__all__ = ["STACKED_FORMS", "StackedLayer", "runs_grouped"]

# The C library of Linux maps a larger block of memory anew each time, page by page, which takes as long as a layer. On
# other systems the learners one after the other are as right, though they may not be faster.
_MAX_BYTES = 2**25
# With fewer for each learner, it takes longer to call its layers than to map the memory.
_MIN_BYTES_EACH = 2**19


class StackedLayer(nn.Module):
    """A layer of several learners. ``own`` says whether the activations are separate for each learner already."""

    takes_blocks = False  # whether rows may be separate for blocks of learners only, (K, B, F)

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        """Return the activations after the layer, and whether they are separate for each learner."""
        raise NotImplementedError

    def held(self) -> nn.Module | None:
        """Return the ordinary layer inside, whose settings and mode users may change, if there is one."""
        return None

    def overflows(self, x: Tensor, n: int) -> bool:
        """Return True if the outputs of all learners take so much memory that one learner at a time is faster."""
        return False

    def tensors(self, n: int) -> dict[str, Tensor]:
        """Return the parameters and statistics by their names in an ordinary layer, the learners first."""
        return {}

    def values(self, n: int) -> list[dict[str, Tensor]]:
        """Return the tensors of each learner, as views."""
        each = {name: tensor.unbind() for name, tensor in self.tensors(n).items()}
        return [{name: tensors[i] for name, tensors in each.items()} for i in range(n)]


class _Linear(StackedLayer):
    takes_blocks = True

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = _stacked([layer.weight for layer in layers])  # (N, out, in)
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else _stacked([bias[:, None] for bias in biases])  # (N, out, 1)

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        columns = (x if own else x[None]).transpose(-2, -1)  # (K, in, B)
        outputs, inputs = self.weight.shape[1:]
        blocks = (len(columns), n // len(columns) * outputs)  # a product for all learners with the same rows
        weight = self.weight.reshape(*blocks, inputs)
        if self.bias is None:
            found = torch.bmm(weight, columns)
        else:
            found = torch.baddbmm(self.bias.reshape(*blocks, 1), weight, columns)
        return found.reshape(n, outputs, x.shape[-2]).transpose(-2, -1), True

    def tensors(self, n: int) -> dict[str, Tensor]:
        return {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias.squeeze(2)})


class _Conv2d(StackedLayer):
    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__()
        first = layers[0]
        self.weight = _stacked(
            [layer.weight for layer in layers], dim=0, cat=True
        )  # (N out, in / groups, ...)
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else _stacked(cast(list[Tensor], biases), dim=0, cat=True)
        self.groups = first.groups
        self.settings: dict[str, Any] = {
            "stride": first.stride,
            "padding": first.padding,
            "dilation": first.dilation,
        }

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        if not own and self.groups == 1:  # all learners look at one image: one wide convolution
            return F.conv2d(x, self.weight, self.bias, **self.settings), True
        x = x if own else x.repeat(1, n, 1, 1)
        inputs, outputs = self.weight.shape[1], len(self.weight) // n
        if self.groups > 1 or runs_grouped(x.device.type, inputs, outputs):
            return F.conv2d(x, self.weight, self.bias, **self.settings, groups=n * self.groups), True
        biases = [None] * n if self.bias is None else self.bias.chunk(n)
        parts = zip(x.chunk(n, dim=1), self.weight.chunk(n), biases, strict=True)
        maps = [F.conv2d(part, w, b, **self.settings, groups=self.groups) for part, w, b in parts]
        return torch.cat(maps, dim=1), True

    def overflows(self, x: Tensor, n: int) -> bool:
        if x.device.type != "cpu" or torch.compiler.is_compiling():  # a graph is for any number of samples
            return False
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return False
        pixels = x.numel() // x.shape[1]
        numel: int = len(self.weight) * pixels // math.prod(self.settings["stride"])
        return numel * x.element_size() > max(_MAX_BYTES, _MIN_BYTES_EACH * n)

    def tensors(self, n: int) -> dict[str, Tensor]:
        held = {"weight": self.weight, "bias": self.bias}
        return {name: t.view(n, -1, *t.shape[1:]) for name, t in held.items() if t is not None}

    def extra_repr(self) -> str:
        return ", ".join(
            f"{name}={value}" for name, value in (self.settings | {"groups": self.groups}).items()
        )


class _BatchNorm(StackedLayer):
    """Each learner has its own statistics: the channels of the learners are side by side."""

    def __init__(self, layers: Sequence[nn.BatchNorm1d] | Sequence[nn.BatchNorm2d]) -> None:
        super().__init__()
        self.norm = copy.deepcopy(layers[0])
        self.norm.num_features = len(layers) * layers[0].num_features
        for name in ("weight", "bias"):
            if getattr(layers[0], name) is not None:
                setattr(
                    self.norm, name, _stacked([getattr(layer, name) for layer in layers], dim=0, cat=True)
                )
        for name in ("running_mean", "running_var"):
            if getattr(layers[0], name) is not None:
                self.norm.register_buffer(name, torch.cat([getattr(layer, name) for layer in layers]))

    def held(self) -> nn.Module:
        return self.norm

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        if x.dim() == 4:  # maps, also after convert_sync_batchnorm
            return self.norm(x if own else x.repeat(1, n, 1, 1)), True
        x = x if own else x.expand(n, *x.shape)
        batch, width = x.shape[1:]
        columns = x.transpose(-2, -1).reshape(1, n * width, batch)  # as one long sample of N F channels
        return self.norm(columns).view(n, width, batch).transpose(-2, -1), True

    def tensors(self, n: int) -> dict[str, Tensor]:
        held = {name: getattr(self.norm, name) for name in ("weight", "bias", "running_mean", "running_var")}
        return {name: t.view(n, -1) for name, t in held.items() if t is not None}

    def values(self, n: int) -> list[dict[str, Tensor]]:
        values, count = super().values(n), self.norm.num_batches_tracked
        if count is not None:  # one for all: only the last learner that runs counts the batch
            for i, own in enumerate(values):
                own["num_batches_tracked"] = count if i == n - 1 else count.clone()
        return values


class _LayerNorm(StackedLayer):
    def __init__(self, layers: Sequence[nn.LayerNorm]) -> None:
        super().__init__()
        self.shape, self.eps = layers[0].normalized_shape, layers[0].eps
        affine = layers[0].elementwise_affine
        self.weight = _stacked([layer.weight[None] for layer in layers]) if affine else None
        has_bias = affine and layers[0].bias is not None
        self.bias = _stacked([layer.bias[None] for layer in layers]) if has_bias else None

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        x = F.layer_norm(x if own else x.expand(n, *x.shape), self.shape, eps=self.eps)
        x = x if self.weight is None else x * self.weight
        return (x if self.bias is None else x + self.bias), True

    def tensors(self, n: int) -> dict[str, Tensor]:
        held = {"weight": self.weight, "bias": self.bias}
        return {name: t.squeeze(1) for name, t in held.items() if t is not None}

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"


class _FeatureMask(StackedLayer):
    def __init__(self, layers: Sequence[FeatureMask]) -> None:
        super().__init__()
        self.weight = _stacked([layer.weight[None] for layer in layers])  # (N, 1, F)

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        return x * self.weight, True

    def tensors(self, n: int) -> dict[str, Tensor]:
        return {"weight": self.weight.squeeze(1)}


class _Flatten(StackedLayer):
    """Maps to features; the learners move from the channels to an axis of their own."""

    takes_blocks = True

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        if not own or x.dim() == 3:
            return (x.flatten(1), False) if not own else (x, True)
        batch, channels = x.shape[:2]
        return x.reshape(batch, n, channels // n * x.shape[2] * x.shape[3]).transpose(0, 1), True


class _Dropout(StackedLayer):
    """Each learner drops entries independently, also of a shared input."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        drop: Any = copy.deepcopy(layers[0])
        drop.inplace = False  # the learners share the input
        self.drop = drop

    def held(self) -> nn.Module:
        return cast(nn.Module, self.drop)

    def forward(self, x: Tensor, n: int, own: bool) -> tuple[Tensor, bool]:
        if own or not self.drop.training:
            return self.drop(x), own
        return self.drop(x.repeat(1, n, 1, 1) if x.dim() == 4 else x.expand(n, *x.shape)), True


class _Factory(Protocol):
    def __call__(self, layers: Sequence[Any]) -> nn.Module: ...


STACKED_FORMS: dict[type[nn.Module], _Factory] = {
    FeatureMask: _FeatureMask,
    nn.Linear: _Linear,
    nn.Conv2d: _Conv2d,
    nn.BatchNorm1d: _BatchNorm,
    nn.BatchNorm2d: _BatchNorm,
    nn.LayerNorm: _LayerNorm,
    nn.Flatten: lambda layers: _Flatten(),
    nn.Dropout: _Dropout,
    nn.Dropout2d: _Dropout,
}


def runs_grouped(device_type: str, inputs: int, outputs: int) -> bool:
    """Return True if the dense convolutions of several learners run as one grouped convolution.

    ``results/bench_stacked_convs.json`` holds the measurements. On CUDA one grouped convolution is faster for every
    shape. On the CPU it is faster where oneDNN has grouped kernels, for 4 channels and for multiples of 8, and up to
    twice as slow elsewhere; learners then run one after the other.

    Parameters
    ----------
    device_type : str
        Type of the device, such as ``"cpu"``.
    inputs, outputs : int
        Channels of one learner.
    """
    return device_type != "cpu" or all(channels == 4 or channels % 8 == 0 for channels in (inputs, outputs))


def _stacked(tensors: Sequence[Tensor], dim: int = 0, *, cat: bool = False) -> nn.Parameter:
    values = [tensor.detach() for tensor in tensors]
    joined = torch.cat(values, dim) if cat else torch.stack(values, dim)
    return nn.Parameter(joined.clone(), requires_grad=tensors[0].requires_grad)
