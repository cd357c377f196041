"""How many threads of the CPU a training occupies.

Threads share the loops of one operation and wait for each other at its end. Where operations are short, the waiting
costs more than the sharing gains, above all where other processes keep the cores busy. The number depends on the size
of a step, and not on the clock, so that the same training gets the same number every time. Where the work consists of
independent tasks, each thread takes some of them, and none waits.
"""

import math
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import torch
from torch import Tensor, nn

__all__ = ["Threads", "most_threads", "work_of"]

# Multiplications of a layer, in a forward pass, that occupy a thread.
_WORK_OF_A_THREAD = 2**20
# In networks for images most weights are in layers that see a fraction of the pixels: 1/20 in ResNet-18, about.
_PIXELS_OF_A_WEIGHT = 1 / 16
_LOCK = threading.Lock()


class _Depth(threading.local):
    """How many blocks this thread is in."""

    value = 0


_DEPTH = _Depth()
_OPEN: list[int] = []  # the user's number, once for each block of any thread


class Threads:
    """The number of torch's threads for a block, restored at its end.

    What is set when the block begins, by ``torch.set_num_threads`` or the environment variable ``OMP_NUM_THREADS``, is
    the largest number that is used. So are the cores that this process may use, which can be fewer in a container.

    Parameters
    ----------
    device : torch.device
        Device of the networks; nothing changes unless it is the CPU.

    Examples
    --------
    >>> before = torch.get_num_threads()
    >>> with Threads(torch.device("cpu")) as threads:
    ...     threads.choose(1_000)
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """

    def __init__(self, device: torch.device) -> None:
        self.chosen = device.type != "cpu"  # nothing is to be chosen

    def __enter__(self) -> "Threads":
        with _LOCK:
            self.before = torch.get_num_threads()
            if _DEPTH.value == 0 and _OPEN:  # a new thread begins with what a block of another has chosen
                self.before = _OPEN[0]
            _OPEN.append(_OPEN[0] if _OPEN else self.before)
            _DEPTH.value += 1
        return self

    def __exit__(self, *error: object) -> None:
        with _LOCK:
            _OPEN.pop()
            _DEPTH.value -= 1
            torch.set_num_threads(self.before)  # also for threads that begin later

    def choose(self, work: int) -> None:
        """Use as many threads as layers with so many multiplications occupy; only the first call counts."""
        if not self.chosen:
            self.chosen = True
            number = max(1, min(most_threads(), work // _WORK_OF_A_THREAD))
            if number != torch.get_num_threads():
                torch.set_num_threads(number)

    def workers(self, n_tasks: int) -> ThreadPoolExecutor:
        """Return a pool for independent tasks.

        Each of its threads computes alone, and so does this one until the block ends.
        """
        self.chosen = True
        torch.set_num_threads(1)
        return ThreadPoolExecutor(
            min(n_tasks, most_threads()), "counterpoint", initializer=torch.set_num_threads, initargs=(1,)
        )


def most_threads() -> int:
    """Return the largest number of threads that a block may use.

    Examples
    --------
    >>> most_threads() <= torch.get_num_threads()
    True
    """
    return min(_OPEN[0] if _OPEN else torch.get_num_threads(), int(joblib.cpu_count()))


def work_of(networks: nn.Module, x: Any) -> int:
    """Return about how many multiplications a layer takes, on average, in a forward pass.

    It is the number of weights times that of samples, and of the places of a sequence or an image at which they are
    used, by the number of matrices. Stacked learners share their matrices.

    Parameters
    ----------
    networks : Module
        Networks, whose sizes tell.
    x : Tensor, sequence or mapping of Tensor
        A batch of inputs; the first tensor tells, and without one there is a single sample.

    Returns
    -------
    int

    Examples
    --------
    >>> work_of(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 8)), torch.zeros(10, 4))
    180
    >>> work_of(nn.Conv2d(3, 8, 3), torch.zeros(10, 3, 32, 32)) == 3 * 8 * 9 * 10 * 32 * 32 // 16
    True
    """
    while not isinstance(x, Tensor):
        parts = (
            list(x.values() if isinstance(x, Mapping) else x) if isinstance(x, Mapping | list | tuple) else []
        )
        x = parts[0] if parts else torch.zeros(1, 1)
    rows, pixels = (len(x) if x.dim() else 1), 1.0
    if x.dim() == 3:  # sequences, in either order of their axes
        rows *= max(x.shape[1:])
    elif x.dim() == 2 and not x.is_floating_point():  # tokens
        rows *= x.shape[1]
    elif x.dim() > 3:
        pixels = max(1.0, math.prod(x.shape[2:]) * _PIXELS_OF_A_WEIGHT)
    # The biases of stacked layers are (N, out, 1).
    matrices = [p for p in networks.parameters() if p.dim() > 1 and (p.dim() != 3 or p.shape[2] > 1)]
    work = sum(p.numel() * rows * (pixels if p.dim() > 3 else 1) for p in matrices)
    return int(work / max(1, len(matrices)))
