"""The device of a study: its name, its kernels and its clock."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["clock", "device_name", "kernel_search", "to_device"]


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or the architecture and the threads of a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{platform.machine()} CPU, {count} thread{'s' * (count > 1)}"


def to_device(module: nn.Module, device: torch.device) -> nn.Module:
    """Move a module to a device, on CUDA in the channels-last layout.

    On CPUs without AVX-512, oneDNN's kernels for strided convolutions of few channels corrupt memory in that layout.
    """
    if device.type == "cuda":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module.to(device)


@contextmanager
def kernel_search(limit: int | None = None) -> Iterator[None]:
    """Let cuDNN search the fastest kernel for each new shape, and restore its settings afterwards.

    ``limit`` is the number of kernels to try for a shape, by default that of torch. In a short training the search
    takes most of the time.
    """
    settings = torch.backends.cudnn
    before = settings.benchmark, settings.benchmark_limit
    settings.benchmark, settings.benchmark_limit = True, before[1] if limit is None else limit
    try:
        yield
    finally:
        settings.benchmark, settings.benchmark_limit = before


def clock(device: torch.device) -> float:
    """Return the time in seconds, after the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
