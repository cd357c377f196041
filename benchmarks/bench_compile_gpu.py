"""Whether compiling pays: ``python -m benchmarks.bench_compile_gpu --device cuda``.

One training step of each network of the image tables, as it is and compiled, at the tables' size and batch, in bf16 and
channels last. Both run in turns, so that other load on the device slows them equally. The time to compile tells after
how many epochs of CIFAR-10 it has paid for itself.
"""

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

from counterpoint.records import write_json
from counterpoint.vision import backbone
from paper.device import clock, kernel_search
from paper.pretrained.networks import Compiled
from paper.pretrained.paper import TABLE_5
from paper.pretrained.recipe import LR
from paper.pretrained.trainer import KERNELS, provenance

NETWORKS = ("resnet18", "mobilenet_v2", "efficientnet_b0")
N_TRAIN = 45_000  # images in an epoch of the tables
STEPS, ROUNDS = 10, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--size", type=int, default=TABLE_5.size)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("results/bench_compile_gpu.json"))
    given = parser.parse_args()
    device = torch.device(given.device)
    record = {
        "config": {"size": given.size, "batch": given.batch, "steps": STEPS, "rounds": ROUNDS},
        **provenance(device),
        "data": {},
    }
    for network in given.networks.split(","):
        try:
            record["data"][network] = measure(network, given.size, given.batch, device)
        except RuntimeError as error:  # also what torch raises without a compiler
            warnings.warn(f"{network} was left out: {error}", stacklevel=1)
            continue
        write_json(given.out, record)  # others may fail
    print(json.dumps(record["data"], indent=2))


def measure(network: str, size: int, batch: int, device: torch.device) -> dict[str, float | None]:
    """Return the seconds of a step as it is and compiled, and of compiling."""
    x = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,), device=device)
    plain, compiled = (make_step(network, x, y, compiled=compiled) for compiled in (False, True))
    with kernel_search(KERNELS):
        began = clock(device)
        plain()
        first = clock(device) - began
        began = clock(device)
        compiled()
        compiling = clock(device) - began - first
        rounds = [[of_a_step(step, device) for step in (plain, compiled)] for _ in range(1 + ROUNDS)][1:]
    eager, fast = (statistics.median(column) for column in zip(*rounds, strict=True))
    saved = (eager - fast) * N_TRAIN / batch
    return {
        "eager_seconds": eager,
        "compiled_seconds": fast,
        "ratio": eager / fast,
        "compiling_seconds": compiling,
        "epochs_to_pay": compiling / saved if saved > 0 else None,
    }


def make_step(network: str, x: torch.Tensor, y: torch.Tensor, *, compiled: bool) -> Callable[[], None]:
    net = backbone(network, 10).to(x.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    learner = (Compiled(net) if compiled else net).train()
    optimizer = torch.optim.AdamW(net.parameters(), LR, fused=x.device.type == "cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            loss = F.cross_entropy(learner(x), y)
        loss.backward()
        optimizer.step()

    return step


def of_a_step(step: Callable[[], None], device: torch.device) -> float:
    began = clock(device)
    for _ in range(STEPS):
        step()
    return (clock(device) - began) / STEPS


if __name__ == "__main__":
    main()
