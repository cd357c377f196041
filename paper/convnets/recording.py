"""A step of training as one recorded CUDA graph, which costs a single launch however many kernels it has."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["put_back", "recorded"]

WARM_UP = 3  # steps


def recorded(step: Callable[[], None], device: torch.device) -> tuple[Callable[[], None], bool]:
    """Return the step as a CUDA graph where that can be had, and whether it can; the step has been taken before."""
    if device.type != "cuda":
        step()
        return step, False
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:  # kernels that cannot be recorded
        return step, False
    return graph.replay, True


@torch.no_grad()
def put_back(module: nn.Module, start: list[Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Undo the steps that warmed up, in the same memory, which a recorded step goes on using.

    ``start`` holds copies of the values of the module's state, in its order.
    """
    for value, first in zip(module.state_dict().values(), start, strict=True):
        value.copy_(first)
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()
