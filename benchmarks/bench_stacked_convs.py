"""Convolutions of stacked learners, grouped or looped: ``python benchmarks/bench_stacked_convs.py``.

N learners with C channels each hold their maps side by side, ``(batch, N C, height, width)``. One grouped convolution
computes all of them; a loop computes one dense convolution for each learner and concatenates the results. The forward
and backward pass of a 3 x 3 convolution is timed both ways, for several channels, learners, and groups inside a learner
(``groups`` equal to the channels is a depthwise convolution). ``counterpoint.training.stacked_layers.runs_grouped`` is
the rule that follows from the results.

On the CPU, whole ConvNets are timed too, with all learners at once and one after the other, by the size of the maps
that all learners have after the first convolution. Above 32 MiB, and half a MiB each, they run one after the other.
"""

import argparse
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from counterpoint import DiversityLoss, Ensemble, __version__
from counterpoint.training import stacked_layers
from counterpoint.vision import backbone

# input channels of a learner, its output channels, and the side of its maps
SHAPES = (
    (3, 16, 32),
    (4, 4, 32),
    (6, 6, 32),
    (8, 8, 32),
    (12, 12, 16),
    (16, 16, 16),
    (20, 20, 16),
    (24, 24, 16),
    (30, 30, 16),
    (32, 32, 16),
    (40, 40, 8),
    (64, 64, 8),
    (128, 128, 8),
)
LEARNERS = (3, 10)
# width and number of ConvNets, and the batches they train on
NETWORKS = ((4, 10), (8, 3), (8, 10), (16, 5), (32, 5))
BATCHES = (16, 64, 128, 256, 512)
MANY = (4, 300)  # with batches of 16 alone: less than half a MiB for each


def grouped(x: Tensor, weight: Tensor, n: int, groups: int) -> Tensor:
    """Convolve all learners at once."""
    return F.conv2d(x, weight, padding=1, groups=n * groups)


def looped(x: Tensor, weight: Tensor, n: int, groups: int) -> Tensor:
    """Convolve one learner after the other."""
    parts = zip(x.chunk(n, dim=1), weight.chunk(n), strict=True)
    return torch.cat([F.conv2d(part, w, padding=1, groups=groups) for part, w in parts], dim=1)


def seconds(ways: dict[str, Callable[[], None]], device: torch.device, repeats: int) -> dict[str, float]:
    """Return the least time of a call of each way, taken in turns after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 2):
        for name, work in ways.items():
            start = now(device)
            work()
            times[name].append(now(device) - start)
    return {name: min(found[2:]) for name, found in times.items()}


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def compare(
    shape: tuple[int, int, int], n: int, groups: int, batch: int, device: torch.device, repeats: int
) -> dict[str, Any]:
    """Return the time of both ways for one shape, and their ratio."""
    inputs, outputs, side = shape
    cuda = device.type == "cuda"
    layout = torch.channels_last if cuda else torch.contiguous_format  # as ImageBatches has them
    x = torch.randn(batch, n * inputs, side, side, device=device).to(memory_format=layout).requires_grad_()
    weight = torch.randn(n * outputs, inputs // groups, 3, 3, device=device, requires_grad=True)
    found: dict[str, Any] = {
        "inputs": inputs,
        "outputs": outputs,
        "side": side,
        "learners": n,
        "groups": groups,
    }

    def step(way: Callable[..., Tensor]) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=cuda):  # the default of `fit`
            loss = way(x, weight, n, groups).float().square().mean()
        torch.autograd.grad(loss, (x, weight))

    found |= seconds({way.__name__: partial(step, way) for way in (grouped, looped)}, device, repeats)
    found["ratio"] = found["grouped"] / found["looped"]
    return found


def compare_networks(width: int, n: int, batch: int, repeats: int) -> dict[str, Any]:
    """Return the time of a training step of ConvNets on the CPU, both ways, and their ratio."""
    ensemble, loss = Ensemble([backbone("convnet", 10, width=width) for _ in range(n)]), DiversityLoss()
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))

    def step(largest: float) -> None:
        with patch.multiple(stacked_layers, _MAX_BYTES=largest, _MIN_BYTES_EACH=0):
            loss(ensemble(x), y).backward()

    found = seconds(
        {"at_once": partial(step, math.inf), "one_by_one": partial(step, 0)}, torch.device("cpu"), repeats
    )
    ratio = found["at_once"] / found["one_by_one"]
    return (
        {"width": width, "learners": n, "batch": batch, "bytes": 4 * n * width * batch * 32**2}
        | found
        | {"ratio": ratio}
    )


def time_convolutions(device: torch.device, batch: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the times of convolutions of all shapes, and print them."""
    for shape in SHAPES:
        for n in LEARNERS:
            for groups in (1, shape[0]) if shape[0] == shape[1] else (1,):
                row = compare(shape, n, groups, batch, device, repeats)
                print(
                    "{inputs:3d} -> {outputs:3d} channels, {learners:2d} learners, {groups:3d} groups: "
                    "grouped {grouped:.4f} s, looped {looped:.4f} s, ratio {ratio:.2f}".format(**row),
                    flush=True,
                )
                yield row


def time_networks(repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the times of ConvNets, and print them."""
    for width, n, batch in (*((*one, batch) for one in NETWORKS for batch in BATCHES), (*MANY, 16)):
        row = compare_networks(width, n, batch, repeats)
        print(
            "{learners:3d} ConvNets of width {width:2d}, batch {batch:3d}: at once {at_once:.3f} s, "
            "one after the other {one_by_one:.3f} s, ratio {ratio:.2f}".format(**row),
            flush=True,
        )
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("convolutions", "networks"), default="convolutions", nargs="?")
    parser.add_argument("--device", default="cpu", help="of convolutions; networks run on the CPU")
    parser.add_argument("--batch", type=int, default=64, help="of convolutions")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("results/bench_stacked_convs.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device("cpu" if args.what == "networks" else args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    part: dict[str, Any] = {
        "device": name,
        "threads": args.threads,
        "torch": torch.__version__,
        "counterpoint": __version__,
        "statistic": f"least of {args.repeats}",
    }
    if args.what == "networks":
        found = {"networks": part | {"data": list(time_networks(args.repeats))}}
    else:
        rows = list(time_convolutions(device, args.batch, args.repeats))
        found = {device.type: part | {"batch": args.batch, "data": rows}}
    record = json.loads(args.out.read_text()) if args.out.exists() else {}
    args.out.write_text(json.dumps(record | found, indent=1) + "\n")


if __name__ == "__main__":
    main()
