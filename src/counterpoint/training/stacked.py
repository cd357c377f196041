r"""Equal networks as one batched program.

Notation: N learners, B samples. Activations are *shared* ``(B, ...)`` until a layer with parameters tells the learners
apart; from then on *features* ``(N, B, F)``, which linear layers multiply in one batched product, or *maps*
``(B, N C, H, W)``, the learners' channels side by side, on which a convolution is one grouped convolution and
pooling is unchanged. In memory features are ``(N, F, B)``: products with few outputs, such as a last layer with a few
classes, are several times faster when the long axis comes last. For samples of other shapes, where a layer has no
stacked form for its input, such as a linear layer on maps, and from the layer on whose maps would be large on a CPU,
the learners run one after the other.
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from counterpoint.training.modules import uncompiled
from counterpoint.training.networks import FeatureMask
from counterpoint.training.stacked_layers import STACKED_FORMS, StackedLayer

__all__ = ["Stacked", "can_stack", "change_layout"]

# Layers that treat every channel alike and own nothing.
_POOLS = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.MaxPool2d)
# Layers that treat every entry alike and own nothing.
_PLAIN = (
    nn.ELU,
    nn.GELU,
    nn.Hardswish,
    nn.Identity,
    nn.LeakyReLU,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Tanh,
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# What layers with a stacked form may own.
_TENSORS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
# How many axes a sample must have for the stacked form of a layer; for others it does not matter.
_AXES: dict[type[nn.Module], int] = {
    **dict.fromkeys((FeatureMask, nn.Linear, nn.BatchNorm1d, nn.LayerNorm), 1),
    **dict.fromkeys((nn.Conv2d, nn.BatchNorm2d, nn.Dropout2d, *_POOLS), 3),
}


def can_stack(learners: Sequence[nn.Module]) -> bool:
    """Return True if the learners are equal sequences of layers that have a stacked form.

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
    return len({_description(learner) for learner in learners}) == 1 and not _shares_tensors(learners)


class Stacked(nn.Module):
    """Equal networks that run, and train, as one.

    Parameters
    ----------
    learners : sequence of Module
        Networks for which :func:`can_stack` returns True. Their values are copied.

    Attributes
    ----------
    n_learners : int
        Number of learners.

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
        for layer in takewhile(lambda layer: not list(layer.parameters()), self.layers):
            if isinstance(layer, _PLAIN) and hasattr(layer, "inplace"):
                layer.inplace = False  # the learners share the input
        kinds = [type(layer) for layer in self._template_layers]
        # The first layer that looks at the shape of a sample; where it flattens, the rows may be flat from the start.
        first = next((kind for kind in kinds if kind in _AXES or kind is nn.Flatten), None)
        self._flattens_first = first is nn.Flatten
        self._fitting = {axes for axes in (1, 3) if _fits(kinds, axes)}
        self.train(learners[0].training)

    def forward(self, x: Tensor | Sequence[Tensor], *, own: bool = False) -> Tensor:
        """Return the outputs (n_learners, batch, n_outputs).

        Parameters
        ----------
        x : Tensor, or sequence of Tensor
            One batch for all, or a batch for each learner.
        own : bool, default=False
            Whether a tensor holds a batch for each learner, on its first axis, or for each of some equal blocks of
            consecutive learners.
        """
        if not isinstance(x, Tensor):
            views = list(x)
            if len({view.shape for view in views}) > 1:
                return self._one_after_the_other(views)
            x, own = torch.stack(views), True
        if own and len(x) == 1:
            x, own = x[0], False
        axes = x.dim() - 1 - own  # of a sample
        if axes > 1 and self._flattens_first:
            x, axes = x.flatten(1 + own), 1
        if axes not in self._fitting:
            return self._one_after_the_other(list(self._for_each(x)) if own else [x] * self.n_learners)
        if own and axes == 3:
            x = self._for_each(x).transpose(0, 1).flatten(1, 2)  # the learners' channels side by side
        return self._run(x, own)

    def _run(self, h: Tensor, own: bool) -> Tensor:
        n = self.n_learners
        for number, layer in enumerate(self.layers):
            if isinstance(layer, StackedLayer):
                if layer.overflows(h, n):
                    return self._one_after_the_other(list(h.chunk(n, 1)) if own else [h] * n, number)
                if own and h.dim() == 3 and not layer.takes_blocks:
                    h = self._for_each(h)
                h, own = layer(h, n, own)
            else:
                h = layer(h)
        return h if own else h.expand(n, *h.shape)

    def _for_each(self, x: Tensor) -> Tensor:
        """Return the batches of blocks of learners as a batch for each learner."""
        size = self.n_learners // len(x)
        return x if size == 1 else x.repeat_interleave(size, 0)

    def _one_after_the_other(self, views: list[Tensor], start: int = 0) -> Tensor:
        """Return the outputs of the learners, each layer of which runs once for each learner, with its own parameters.

        ``views`` holds what each learner gets at the layer with the index ``start``. Forward hooks on these layers are
        not called.
        """
        pairs = zip(self.layers, self._template_layers, strict=True)
        for stacked, template in islice(pairs, start, None):
            if isinstance(stacked, StackedLayer):
                # Its tensors are replaced, and other threads may run it.
                layer = _bare_copy(stacked.held() or template)
                values = stacked.values(self.n_learners)
                views = [functional_call(layer, own, (h,)) for own, h in zip(values, views, strict=True)]
            else:
                views = [stacked(h) for h in views]
        if views[0].dim() not in (2, 3):  # three: a row for each token
            raise ValueError(f"`learners` must return one row for each sample; got {views[0].dim()} axes.")
        return torch.stack(views)

    def part(self, start: int, stop: int) -> "Stacked":
        """Return copies of some learners, stacked; the others are not copied."""
        memo: dict[int, object] = {}
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dim():  # the learners come first
                size = len(tensor) // self.n_learners
                own = tensor.detach()[start * size : stop * size].clone()
                memo[id(tensor)] = (
                    nn.Parameter(own, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else own
                )
        found = copy.deepcopy(self, memo)
        found.n_learners = stop - start
        return found

    def unstack(self) -> list[nn.Module]:
        """Return ordinary networks with the current values; device, dtype and frozen parameters are kept."""
        learners = [copy.deepcopy(self._template[0]) for _ in range(self.n_learners)]
        each = zip(*(cast(list[nn.Module], _flatten(learner)) for learner in learners), strict=True)
        for stacked, layers in zip(self.layers, each, strict=True):
            if isinstance(stacked, StackedLayer):
                trained = {name.rpartition(".")[2]: p.requires_grad for name, p in stacked.named_parameters()}
                for layer, values in zip(layers, stacked.values(self.n_learners), strict=True):
                    for name, value in values.items():
                        own = value.detach().clone()
                        setattr(layer, name, nn.Parameter(own, trained[name]) if name in trained else own)
        return [learner.train(self.training) for learner in learners]

    @property
    def _template_layers(self) -> list[nn.Module]:
        return cast(list[nn.Module], _flatten(self._template[0]))


def change_layout(body: nn.ModuleList | Stacked, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict of stacked learners as that of learners by themselves, or the reverse.

    Parameters
    ----------
    body : Stacked or ModuleList
        The learners that take the state.
    state : mapping
        The state dict of the same learners in the other form.
    """
    if isinstance(body, Stacked):
        learners = nn.ModuleList(body.unstack())
        learners.load_state_dict(state)
        return Stacked(list(learners)).state_dict()
    stacked = Stacked([_without_hooks(uncompiled(learner)) for learner in body])
    stacked.load_state_dict(state)
    return nn.ModuleList(stacked.unstack()).state_dict()


def _without_hooks(learner: nn.Module) -> nn.Module:
    """Return a copy of a learner without its hooks, which keep it from being stacked."""
    twin = copy.deepcopy(learner)
    for part in twin.modules():
        for name in _HOOKS:
            getattr(part, name).clear()
    return twin


def _bare_copy(layer: nn.Module) -> nn.Module:
    """Return a layer with the same settings, mode and tensors, and no hooks."""
    twin = copy.copy(layer)
    twin._parameters, twin._buffers = dict(layer._parameters), dict(layer._buffers)
    for name in _HOOKS:
        setattr(twin, name, OrderedDict())
    return twin


def _stack_layers(layers: list[nn.Module]) -> nn.Module:
    form = STACKED_FORMS.get(type(layers[0]))
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
    return [module] if type(module) in STACKED_FORMS or type(module) in (*_PLAIN, *_POOLS) else None


def _description(learner: nn.Module) -> str:
    """Return what equal learners have in common: the kinds and settings of their layers, their tensors but for values.

    Settings are those that torch's layers list for the compiler, since the text of a layer leaves some out.
    """
    layers = [
        (name, type(m).__name__, [getattr(m, key, None) for key in getattr(m, "__constants__", ())])
        for name, m in learner.named_modules(remove_duplicate=False)
    ]
    tensors = [(name, t.requires_grad, t.dtype, t.shape) for name, t in _named_tensors(learner)]
    return f"{layers} {tensors} {_weighty_counts(learner)} {id(learner) if _is_peculiar(learner) else ''}"


def _weighty_counts(learner: nn.Module) -> list[Tensor | None]:
    """Return the batch counts of the layers that use them; stacked layers have one count for all learners."""
    norms = [m for m in learner.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    return [norm.num_batches_tracked for norm in norms if norm.momentum is None]


def _is_peculiar(learner: nn.Module) -> bool:
    """Return True if a learner has something that stacked layers would lose.

    This is a hook, a ``forward`` or a tensor set on a layer from outside, or a layer in another mode than the learner.
    """
    for m in learner.modules():
        known = _TENSORS if type(m) in STACKED_FORMS else ()
        if "forward" in vars(m) or any(name not in known for name, _ in _named_tensors(m, recurse=False)):
            return True
    hooks = ([getattr(m, name) for name in _HOOKS] for m in learner.modules())
    modes = {m.training for m in learner.modules()}
    on_gradients = (p._backward_hooks or p._post_accumulate_grad_hooks for p in learner.parameters())
    return len(modes) > 1 or any(map(any, hooks)) or any(on_gradients)


def _shares_tensors(learners: Sequence[nn.Module]) -> bool:
    """Return True if two layers, of one learner or of two, share a parameter or a statistic."""
    tensors = [id(tensor) for learner in learners for _, tensor in _named_tensors(learner)]
    return len(set(tensors)) < len(tensors)


def _named_tensors(module: nn.Module, *, recurse: bool = True) -> list[tuple[str, Tensor]]:
    """Return parameters and statistics; shared ones appear more than once."""
    return [
        *module.named_parameters(recurse=recurse, remove_duplicate=False),
        *module.named_buffers(recurse=recurse, remove_duplicate=False),
    ]


def _fits(kinds: Sequence[type[nn.Module]], axes: int) -> bool:
    """Return True if each layer has a stacked form for its input, for samples with this number of axes."""
    for kind in kinds:
        if _AXES.get(kind, axes) != axes:
            return False
        axes = 1 if kind is nn.Flatten else axes
    return axes == 1
