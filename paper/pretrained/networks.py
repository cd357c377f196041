"""The networks of Tables 4 to 6: where they start, how they are built and compiled."""

import copy
import warnings
import zlib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from counterpoint.training import Callback, State
from counterpoint.vision import backbone
from paper.device import to_device

__all__ = [
    "AverageWeights",
    "Averaged",
    "Compiled",
    "Weights",
    "build",
    "check_size",
    "start_of",
    "trained_network",
    "uncompiled",
    "weights_checksum",
]

Weights = str | Path | None  # "imagenet", or a folder of NAME.safetensors, which need not hold every network


def start_of(network: str, weights: Weights) -> str:
    """Return where a network starts: ``"pretrained"``, ``"pretrained in part"`` or ``"from scratch"``."""
    if weights is None or (weights == "imagenet" and network in ("convnet", "cifar_resnet18")):
        return "from scratch"
    if weights == "imagenet" or (Path(weights) / f"{network}.safetensors").is_file():
        return "pretrained"
    partial = (Path(weights) / f"{network}_backbone.safetensors").is_file()
    return "pretrained in part" if partial else "from scratch"


def weights_checksum(network: str, weights: Weights, start: int = 0) -> int:
    """Return a checksum of the file that a network starts from, added to another checksum."""
    for name in (f"{network}.safetensors", f"{network}_backbone.safetensors"):
        if isinstance(weights, Path) and (weights / name).is_file():
            start = zlib.crc32((weights / name).read_bytes(), start)
    return start


def build(
    network: str, n_classes: int, *, weights: Weights, width: int | None, device: torch.device
) -> nn.Module:
    """Return a network on a device, with weights if there are any for it and a new head."""
    if start_of(network, weights) == "from scratch":
        weights = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the table says which are pretrained in part
        module = backbone(network, n_classes, weights=weights, width=width)
    return to_device(module, device)


def check_size(module: nn.Module, network: str, size: int, sizes: set[int]) -> None:
    """Raise ValueError if images of one of the sizes are too small for a network."""
    device = next(module.parameters()).device
    module.eval()
    for each in sizes:
        try:
            with torch.no_grad():
                module(torch.zeros(1, 3, each, each, device=device))
        except RuntimeError as error:  # torch's message for a feature map without pixels
            if "output size" not in str(error):
                raise
            raise ValueError(
                f"`size` must be large enough for {network}, which reduces {each} pixels to none; got {size}."
            ) from error


class Compiled(nn.Module):
    """A network that is compiled for training and runs uncompiled in evaluation, where compiling does not pay."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self._fast: Callable[[Tensor], Tensor] = torch.compile(network.forward, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the network."""
        return self._fast(x) if self.training else self.network(x)


def uncompiled(learner: nn.Module) -> nn.Module:
    """Return the network itself, whether compiled or not."""
    return learner.network if isinstance(learner, Compiled) else learner


class Averaged(nn.Module):
    """A network with a moving average of its weights: the network trains, its average is evaluated.

    The average is part of the state, so that a checkpoint has it, too. It starts as a copy of the network, and
    :class:`AverageWeights` updates it.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.average = copy.deepcopy(network).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the network, or in evaluation those of its average."""
        outputs: Tensor = self.network(x) if self.training else self.average(x)
        return outputs


class AverageWeights(Callback):
    """Updates the averages of all :class:`Averaged` networks after each step, including batch statistics.

    Parameters
    ----------
    decay : float
        Weight of the average before a step; the network after it has the rest.
    """

    def __init__(self, decay: float) -> None:
        self._update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]

    def on_train_begin(self, state: State) -> None:
        """Collect the tensors once: going through all layers would take as long as updating them."""
        networks = [module for module in state.ensemble.modules() if isinstance(module, Averaged)]
        self._averages = [value for one in networks for value in _floating(one.average)]
        self._values = [value for one in networks for value in _floating(one.network)]

    def on_batch_end(self, state: State) -> None:
        """Move the averages towards the networks."""
        self._update(self._averages, self._values, None)


def _floating(network: nn.Module) -> list[Tensor]:
    """Return parameters and buffers, but for the counts of batches, which are not averaged."""
    return [value for value in chain(network.parameters(), network.buffers()) if value.is_floating_point()]


def trained_network(learner: nn.Module) -> nn.Module:
    """Return the network that a training ends with, compiled or not: its average if it has one."""
    network = uncompiled(learner)
    return network.average if isinstance(network, Averaged) else network
