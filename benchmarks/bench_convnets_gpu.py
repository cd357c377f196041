"""Ways to train many small ConvNets at once: ``python benchmarks/bench_convnets_gpu.py --out convnets.json``.

The time of a training step (forward, backward, AdamW; bfloat16) by the width of the nets and by how their convolutions
run: grouped, with channels in the second or the last place; grouped with several nets in a group; dense, net after net;
as matrix products of patches; replayed as a CUDA graph; compiled. Each line is written when it is measured, and no new
one is begun after ``--seconds``.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.vision import backbone
from paper.convnets.side_by_side import Apart, Chunks, SideBySide

# width -> how many nets; the widest first, since they are most of the work
NETS = {64: 12, 32: 24, 8: 48, 4: 48, 16: 24}


class ChannelsSecond(SideBySide):
    """The same program with maps in the order (B, K C, H, W) in memory."""

    def forward(self, views: Tensor) -> Tensor:
        """Return the logits of all nets."""
        h = views.transpose(0, 1).flatten(1, 2).contiguous()
        for layer in self.layers:
            h = layer(h)
        return h


def programs(width: int) -> Iterator[tuple[str, Callable[[list[nn.Module]], nn.Module]]]:
    """Give the ways that make sense at a width, the most promising first."""
    for channels in (32, 64, 16):
        if width < channels:
            yield f"{channels} channels in a group", lambda nets, c=channels: SideBySide(nets, channels=c)
    yield "grouped, channels last", lambda nets: SideBySide(nets, channels=1)
    if width >= 16:
        yield "net after net", Apart
    if width <= 16:
        yield "dense chunks of 32", lambda nets: Chunks(nets, size=max(32 // width, 1))
    if width in (8, 32):
        yield "grouped, channels second", lambda nets: ChannelsSecond(nets, channels=1)


def train_step(program: nn.Module, views: Tensor, target: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(program.parameters(), 1e-3, fused=True, capturable=views.is_cuda)

    def step() -> None:
        with torch.autocast(views.device.type, torch.bfloat16):
            logits = program(views)
        loss = F.cross_entropy(logits.float().flatten(0, 1), target.repeat(len(logits)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def measure(step: Callable[[], None], device: torch.device, repeats: int = 4) -> dict[str, float | None]:
    """Return the seconds of the first step, with its search for kernels, and of one after it."""
    first = elapsed(step, device, 1)
    if first > 5:
        return {"first": first, "step": None}
    elapsed(step, device, 1)
    return {"first": first, "step": elapsed(step, device, repeats)}


def elapsed(step: Callable[[], None], device: torch.device, repeats: int) -> float:
    wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    wait(device)
    return (time.perf_counter() - start) / repeats


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def graphed(step: Callable[[], None]) -> Callable[[], None]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def patches(width: int, count: int, batch: int, device: torch.device) -> Callable[[], None]:
    """Return forward and backward of one layer as a batched product of patches and weights."""
    x = torch.randn(count * batch, width, 32, 32, device=device, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(count, width, 9 * width, device=device, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        columns = F.unfold(x, 3, padding=1).unflatten(0, (count, batch))  # (K, B, 9 C, H W)
        torch.autograd.grad((weight[:, None] @ columns).sum(), (x, weight))

    return step


def grouped(width: int, count: int, batch: int, device: torch.device) -> Callable[[], None]:
    """Return forward and backward of the same layer as a grouped convolution."""
    x = torch.randn(batch, count * width, 32, 32, device=device, dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    weight = torch.randn(count * width, width, 3, 3, device=device, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        torch.autograd.grad(F.conv2d(x, weight, padding=1, groups=count).sum(), (x, weight))

    return step


def cases(
    device: torch.device, batch: int, scale: int
) -> Iterator[tuple[dict, Callable[[], Callable[[], None]]]]:
    """Give what is measured, and what makes the step."""
    target = torch.randint(10, (batch,), device=device)
    views = torch.randn(1, batch, 3, 32, 32, device=device)

    def whole(width: int, make: Callable, compiled: bool = False, graph: bool = False) -> Callable[[], None]:
        nets = [backbone("convnet", 10, width=width) for _ in range(max(NETS[width] // scale, 2))]
        program = make(nets).to(device)
        if not isinstance(program, ChannelsSecond):
            program = program.to(memory_format=torch.channels_last)
        program = torch.compile(program) if compiled else program
        step = train_step(program, views, target)
        return graphed(step) if graph else step

    for width in NETS:
        for name, make in programs(width):
            yield {"width": width, "how": name}, lambda w=width, m=make: whole(w, m)
    for width in (8, 32):
        count = max(NETS[width] // scale, 2)
        yield (
            {"width": width, "how": "one layer, patches"},
            lambda w=width, k=count: patches(w, k, batch, device),
        )
        yield (
            {"width": width, "how": "one layer, grouped"},
            lambda w=width, k=count: grouped(w, k, batch, device),
        )
    if device.type == "cuda":
        make = lambda nets: SideBySide(nets, channels=32)  # noqa: E731
        yield {"width": 8, "how": "32 channels in a group, graph"}, lambda: whole(8, make, graph=True)
        yield {"width": 64, "how": "net after net, graph"}, lambda: whole(64, Apart, graph=True)
        yield {"width": 32, "how": "grouped, channels last, compiled"}, lambda: whole(32, make, compiled=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--scale", type=int, default=1, help="divide the number of nets by this")
    parser.add_argument("--out", type=Path, default=Path("results/bench_convnets_gpu.json"))
    args = parser.parse_args()
    device, start = torch.device(args.device), time.perf_counter()
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    record = {"device": name, "torch": torch.__version__, "batch": args.batch, "data": []}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for case, make in cases(device, args.batch, args.scale):
        if time.perf_counter() - start > args.seconds:
            break
        count = max(NETS[case["width"]] // args.scale, 2)
        try:
            found = measure(make(), device)
        except Exception as error:  # one way that fails must not lose the others
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        line = case | {"nets": count} | found
        record["data"].append(line)
        args.out.write_text(json.dumps(record, indent=1) + "\n")
        per_net = 1e3 * (found.get("step") or float("nan")) / count
        print(
            f"width {case['width']:3}  {case['how']:34} {per_net:9.3f} ms per net and step  "
            f"first {found.get('first', float('nan')):6.2f} s  {found.get('error', '')}",
            flush=True,
        )
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
