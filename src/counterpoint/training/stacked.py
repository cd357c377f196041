r"""Equal networks as one batched program.

Notation: N learners, B samples. Activations are *shared* ``(B, ...)`` until a layer with parameters tells the learners
apart; from then on *features* ``(N, B, F)``, which linear layers multiply in one batched product, or *maps*
``(B, N C, H, W)``, the learners' channels side by side, on which a convolution is one grouped convolution and
pooling is what it was. In memory features are ``(N, F, B)``: products with few outputs, such as a layer that puts out
classes, are several times faster when the long axis comes last.
"""

import copy
import time
from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Stacked", "can_stack"]

# Layers that treat every entry, or every channel, alike and own nothing.
_PLAIN = (
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
    nn.AvgPool2d,
    nn.ELU,
    nn.GELU,
    nn.Hardswish,
    nn.Identity,
    nn.LeakyReLU,
    nn.MaxPool2d,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
)
_DROPOUT = (nn.Dropout, nn.Dropout2d)


def can_stack(learners: Sequence[nn.Module]) -> bool:
    """Tell whether the learners are equal sequences of layers that have a stacked form.

    Parameters
    ----------
    learners : sequence of Module
        Any networks.

    Returns
    -------
    bool

    Examples
    --------
    >>> can_stack([nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(3)])
    True
    >>> can_stack([nn.Linear(4, 2), nn.Linear(4, 3)])
    False
    """
    if len(learners) < 2 or len({id(learner) for learner in learners}) < len(learners):
        return False
    flat = [_flatten(learner) for learner in learners]
    if any(layers is None for layers in flat) or not any(p.numel() for p in learners[0].parameters()):
        return False
    # The text of a layer names its kind and its settings.
    return len({_description(learner) for learner in learners}) == 1 and not _shares_parameters(learners)


class Stacked(nn.Module):
    """Equal networks that run, and train, as one.

    Parameters
    ----------
    learners : sequence of Module
        Networks for which :func:`can_stack` is true. Their values are copied.

    Attributes
    ----------
    n_learners : int
        How many there are.
    grouped : bool or None
        Whether convolutions run as grouped convolutions or one learner after the other; measured on the first
        training batch.

    Examples
    --------
    >>> learners = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(3)]
    >>> stacked = Stacked(learners)
    >>> x = torch.randn(5, 4)
    >>> stacked(x).shape
    torch.Size([3, 5, 2])
    >>> torch.allclose(stacked(x)[1], learners[1](x), atol=1e-6)
    True
    >>> torch.equal(stacked.unstack()[2][0].weight, learners[2][0].weight)
    True
    """

    def __init__(self, learners: Sequence[nn.Module]) -> None:
        super().__init__()
        if not can_stack(learners):
            raise ValueError(
                "`learners` must be equal sequences of layers that have a stacked form; got others."
            )
        self.n_learners = len(learners)
        self._template = [copy.deepcopy(learners[0])]  # in a list: not a part of this module
        columns = zip(*(cast(list[nn.Module], _flatten(learner)) for learner in learners), strict=True)
        self.layers = nn.ModuleList(_stack_layers(list(layers)) for layers in columns)
        self._convolutional = any(isinstance(layer, _Conv2d) for layer in self.layers)
        self.grouped: bool | None = True if not self._convolutional else None
        self.train(learners[0].training)

    def forward(self, x: Tensor | Sequence[Tensor], *, own: bool = False) -> Tensor:
        """Return the outputs (n_learners, batch, n_outputs).

        Parameters
        ----------
        x : Tensor, or sequence of Tensor
            One batch for all, or a batch for each learner.
        own : bool, default=False
            Whether a tensor holds a batch for each learner, on its first axis.
        """
        if not isinstance(x, Tensor):
            x, own = torch.stack(list(x)), True
        if own and x.dim() == 5:
            x = x.transpose(0, 1).flatten(1, 2)  # the learners' channels side by side
        if self.grouped is None and self.training:
            self.grouped = self._grouped_is_faster(x, own)
        return self._run(x, own)

    def _run(self, h: Tensor, own: bool) -> Tensor:
        n = self.n_learners
        for layer in self.layers:
            if isinstance(layer, _StackedLayer):
                h, own = layer(h, n, own, self.grouped is not False)
            else:
                h = layer(h)
        if not own:
            h = h.expand(n, *h.shape)
        if h.dim() != 3:
            raise ValueError(f"`learners` must put out one row for each sample; got {h.dim() - 1} axes.")
        return h

    def unstack(self) -> list[nn.Module]:
        """Return ordinary networks with the values of now."""
        learners = []
        for i in range(self.n_learners):
            learner = copy.deepcopy(self._template[0]).to(next(self.parameters()).device)
            layers = cast(list[nn.Module], _flatten(learner))
            for stacked, layer in zip(self.layers, layers, strict=True):
                if isinstance(stacked, _StackedLayer):
                    stacked.export(i, self.n_learners, layer)
            learners.append(learner.train(self.training))
        return learners

    def get_extra_state(self) -> Tensor:
        """Return how convolutions run, so that a resumed training goes the same way."""
        return torch.tensor(-1 if self.grouped is None else int(self.grouped))

    def set_extra_state(self, state: Tensor) -> None:
        """Take up how convolutions ran."""
        self.grouped = {-1: None, 0: False, 1: True}[int(state)]

    def _grouped_is_faster(self, x: Tensor, own: bool) -> bool:
        """Time both ways of convolving on a batch; statistics and gradients are left as they were."""
        buffers = {name: buffer.clone() for name, buffer in self.named_buffers()}
        devices = [next(self.parameters()).device]
        seconds = {}
        with torch.random.fork_rng(devices if devices[0].type == "cuda" else []):
            for self.grouped in (True, False, True, False):  # the first of each warms up
                start = _now(devices[0])
                torch.autograd.grad(
                    self._run(x, own).float().square().mean(), list(self.parameters()), allow_unused=True
                )
                seconds[self.grouped] = _now(devices[0]) - start
        for name, buffer in self.named_buffers():
            buffer.copy_(buffers[name])
        return seconds[True] <= seconds[False]


class _StackedLayer(nn.Module):
    """A layer of several learners: takes activations and whether they are each learner's own already."""

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        raise NotImplementedError

    def export(self, i: int, n: int, layer: Any) -> None:
        """Copy the values of learner i into an ordinary layer."""


class _Linear(_StackedLayer):
    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = _stacked([layer.weight for layer in layers])  # (N, out, in)
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else _stacked([bias[:, None] for bias in biases])  # (N, out, 1)

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        columns = (x if own else x.expand(n, *x.shape)).mT  # (N, in, B)
        if self.bias is None:
            return torch.bmm(self.weight, columns).mT, True
        return torch.baddbmm(self.bias, self.weight, columns).mT, True

    def export(self, i: int, n: int, layer: Any) -> None:
        _copy(layer.weight, self.weight[i])
        if self.bias is not None:
            _copy(layer.bias, self.bias[i, :, 0])


class _Conv2d(_StackedLayer):
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

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        if not own and self.groups == 1:  # all learners look at one image: one wide convolution
            return F.conv2d(x, self.weight, self.bias, **self.settings), True
        x = x if own else x.repeat(1, n, 1, 1)
        if grouped:
            return F.conv2d(x, self.weight, self.bias, **self.settings, groups=n * self.groups), True
        biases = [None] * n if self.bias is None else self.bias.chunk(n)
        parts = zip(x.chunk(n, dim=1), self.weight.chunk(n), biases, strict=True)
        maps = [F.conv2d(part, w, b, **self.settings, groups=self.groups) for part, w, b in parts]
        return torch.cat(maps, dim=1), True

    def export(self, i: int, n: int, layer: Any) -> None:
        _copy(layer.weight, self.weight.chunk(n)[i])
        if self.bias is not None:
            _copy(layer.bias, self.bias.chunk(n)[i])


class _BatchNorm(_StackedLayer):
    """Statistics of each learner's own: the learners' channels stand side by side."""

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

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        if isinstance(self.norm, nn.BatchNorm2d):
            return self.norm(x if own else x.repeat(1, n, 1, 1)), True
        x = x if own else x.expand(n, *x.shape)
        batch, width = x.shape[1:]
        columns = x.mT.reshape(1, n * width, batch)  # as one long sample of N F channels
        return self.norm(columns).view(n, width, batch).mT, True

    def export(self, i: int, n: int, layer: Any) -> None:
        for name in ("weight", "bias", "running_mean", "running_var"):
            if getattr(layer, name) is not None:
                _copy(getattr(layer, name), getattr(self.norm, name).chunk(n)[i])
        if layer.num_batches_tracked is not None:
            _copy(layer.num_batches_tracked, cast(Tensor, self.norm.num_batches_tracked))


class _LayerNorm(_StackedLayer):
    def __init__(self, layers: Sequence[nn.LayerNorm]) -> None:
        super().__init__()
        self.shape, self.eps = layers[0].normalized_shape, layers[0].eps
        affine = layers[0].elementwise_affine
        self.weight = _stacked([layer.weight[None] for layer in layers]) if affine else None
        has_bias = affine and layers[0].bias is not None
        self.bias = _stacked([layer.bias[None] for layer in layers]) if has_bias else None

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        x = F.layer_norm(x if own else x.expand(n, *x.shape), self.shape, eps=self.eps)
        x = x if self.weight is None else x * self.weight
        return (x if self.bias is None else x + self.bias), True

    def export(self, i: int, n: int, layer: Any) -> None:
        if self.weight is not None:
            _copy(layer.weight, self.weight[i, 0])
        if self.bias is not None:
            _copy(layer.bias, self.bias[i, 0])


class _Flatten(_StackedLayer):
    """Maps to features; the learners part company with the channels."""

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        if not own or x.dim() == 3:
            return (x.flatten(1), False) if not own else (x, True)
        batch, channels = x.shape[:2]
        return x.reshape(batch, n, channels // n * x.shape[2] * x.shape[3]).transpose(0, 1), True


class _Dropout(_StackedLayer):
    """Every learner drops entries of its own, also of a shared input."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.drop = copy.deepcopy(layers[0])

    def forward(self, x: Tensor, n: int, own: bool, grouped: bool) -> tuple[Tensor, bool]:
        if own or not self.training:
            return self.drop(x), own
        return self.drop(x.repeat(1, n, 1, 1) if x.dim() == 4 else x.expand(n, *x.shape)), True


class _Factory(Protocol):
    def __call__(self, layers: Sequence[Any]) -> nn.Module: ...


_STACKED_FORMS: dict[type[nn.Module], _Factory] = {
    nn.Linear: _Linear,
    nn.Conv2d: _Conv2d,
    nn.BatchNorm1d: _BatchNorm,
    nn.BatchNorm2d: _BatchNorm,
    nn.LayerNorm: _LayerNorm,
    nn.Flatten: lambda layers: _Flatten(),
    nn.Dropout: _Dropout,
    nn.Dropout2d: _Dropout,
}


def _stack_layers(layers: list[nn.Module]) -> nn.Module:
    form = _STACKED_FORMS.get(type(layers[0]))
    return copy.deepcopy(layers[0]) if form is None else form(layers)


def _flatten(module: nn.Module) -> list[nn.Module] | None:
    """Return the layers of nested sequences in order, or None if one has no stacked form."""
    if type(module) is nn.Sequential:
        parts = [_flatten(child) for child in module]
        return (
            None if any(part is None for part in parts) else [layer for part in parts for layer in part or []]
        )
    if isinstance(module, nn.Conv2d) and module.padding_mode != "zeros":
        return None
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) != 1:
        return None
    if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
        return None
    return [module] if type(module) in _STACKED_FORMS or type(module) in _PLAIN else None


def _description(learner: nn.Module) -> str:
    frozen = [(p.requires_grad, p.dtype, p.shape) for p in learner.parameters()]
    hooks = any(m._forward_hooks or m._forward_pre_hooks for m in learner.modules())
    return f"{learner!r} {frozen} {learner.training} {id(learner) if hooks else ''}"


def _shares_parameters(learners: Sequence[nn.Module]) -> bool:
    parameters = [id(p) for learner in learners for p in learner.parameters()]
    return len(set(parameters)) < len(parameters)


def _stacked(tensors: Sequence[Tensor], dim: int = 0, *, cat: bool = False) -> nn.Parameter:
    values = [tensor.detach() for tensor in tensors]
    joined = torch.cat(values, dim) if cat else torch.stack(values, dim)
    return nn.Parameter(joined.clone(), requires_grad=tensors[0].requires_grad)


@torch.no_grad()
def _copy(target: Tensor, value: Tensor) -> None:
    target.copy_(value)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
