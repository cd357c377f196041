"""The device that an experiment runs on: its name, its fastest kernels and its clock."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["clock", "device_name", "kernel_search", "to_device"]


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or the kind of the CPU and its threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{platform.machine()} CPU, {count} thread{'s' * (count > 1)}"


def to_device(module: nn.Module, device: torch.device) -> nn.Module:
    """Move a module to a device, on CUDA in the channels-last layout.

    On a CPU without AVX-512, oneDNN's kernels for strided convolutions of few channels corrupt memory in that layout.
    """
    if device.type == "cuda":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module.to(device)


@contextmanager
def kernel_search(limit: int | None = None) -> Iterator[None]:
    """Let cuDNN try its kernels for each new shape in a block, and leave its settings as they were.

    ``limit`` is how many kernels it may try for a shape, which is most of the time of a short training; by default
    torch's own number.
    """
    settings = torch.backends.cudnn
    before = settings.benchmark, settings.benchmark_limit
    settings.benchmark, settings.benchmark_limit = True, before[1] if limit is None else limit
    try:
        yield
    finally:
        settings.benchmark, settings.benchmark_limit = before


def clock(device: torch.device) -> float:
    """Return the time in seconds once the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
