"""Ways to train many small ConvNets at once: ``python benchmarks/bench_convnets_gpu.py --out convnets.json``.

The time of a training step (forward, backward, AdamW; bfloat16) by the width of the networks and by how their
convolutions run: as ``Ensemble`` runs them; grouped, with channels in the second or the last place; grouped with
several networks in a group; one network after the other; as matrix products of patches; replayed as a CUDA graph;
compiled. Each line is written when it is measured, and no new one starts after ``--seconds``.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterpoint.training import Ensemble
from counterpoint.vision import backbone

# width -> number of networks; the widest first, since they are most of the work
NETS = {64: 12, 32: 24, 8: 48, 4: 48, 16: 24}


class OneByOne(nn.Module):
    """Networks one after the other."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (K, B, m)."""
        return torch.stack([net(x) for net in self.nets])


class Grouped(nn.Module):
    """Equal ConvNets whose channels stand side by side, so that each layer runs once for all of them.

    Networks of fewer than ``channels`` channels share a group of the convolution, in which the weights between
    different networks are zero: tensor cores would multiply those zeros anyway.
    """

    def __init__(self, nets: Sequence[nn.Module], channels: int = 1) -> None:
        super().__init__()
        columns = list(zip(*(flat(net) for net in nets), strict=True))
        self.layers = nn.ModuleList(
            side_by_side(column, channels, first=place == 0) for place, column in enumerate(columns)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (K, B, m)."""
        for layer in self.layers:
            x = layer(x)
        return x


class ChannelsSecond(Grouped):
    """The same with maps in the order (B, K C, H, W) in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (K, B, m)."""
        return super().forward(x.contiguous())


class GroupedConv(nn.Module):
    """One convolution for all networks; dense in the first layer, where they share the images."""

    def __init__(self, layers: Sequence[nn.Conv2d], channels: int, *, first: bool) -> None:
        super().__init__()
        one, n_nets = layers[0], len(layers)
        self.settings = {"stride": one.stride, "padding": one.padding, "dilation": one.dilation}
        self.weight = joined([layer.weight for layer in layers])
        self.bias = None if one.bias is None else joined([layer.bias for layer in layers])
        self.groups, self.pack = 1, 1
        if not first:
            most = min(max(channels // one.in_channels, 1), n_nets)
            self.pack = max(size for size in range(1, most + 1) if n_nets % size == 0)
            self.groups = n_nets // self.pack
        self.register_buffer("mask", torch.eye(self.pack)[:, None, :, None, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps (B, K C, H, W)."""
        weight = self.weight
        if self.pack > 1:
            wide = weight.view(self.groups, self.pack, -1, *weight.shape[1:])
            weight = (wide.unsqueeze(3) * self.mask).flatten(3, 4).flatten(0, 2)
        return F.conv2d(x, weight, self.bias, groups=self.groups, **self.settings)


class Heads(nn.Module):
    """One batched product for the linear layers of all networks: (B, K F) becomes (K, B, m)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().mT for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers])[:, None])

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (K, B, m)."""
        features = x.reshape(len(x), len(self.weight), -1).transpose(0, 1)
        return torch.baddbmm(self.bias, features, self.weight)


def side_by_side(column: Sequence[nn.Module], channels: int, *, first: bool) -> nn.Module:
    """Return one layer for all networks."""
    one = column[0]
    if isinstance(one, nn.Conv2d):
        return GroupedConv(column, channels, first=first)
    if isinstance(one, nn.Linear):
        return Heads(column)
    if isinstance(one, nn.BatchNorm2d):
        norm = nn.BatchNorm2d(len(column) * one.num_features, one.eps, one.momentum)
        norm.weight, norm.bias = (
            joined([getattr(layer, name) for layer in column]) for name in ("weight", "bias")
        )
        return norm
    return one


def flat(net: nn.Module) -> list[nn.Module]:
    """Return the layers of nested sequences."""
    return [layer for part in net for layer in flat(part)] if isinstance(net, nn.Sequential) else [net]


def joined(tensors: Sequence[Tensor]) -> nn.Parameter:
    """Return parameters of several networks as one."""
    return nn.Parameter(torch.cat([tensor.detach() for tensor in tensors]))


def programs(width: int) -> Iterator[tuple[str, Callable[[list[nn.Module]], nn.Module]]]:
    """Yield the ways that make sense at a width, the most promising first."""
    yield "Ensemble", Ensemble
    for channels in (32, 64, 16):
        if width < channels:
            yield f"{channels} channels in a group", lambda nets, c=channels: Grouped(nets, c)
    yield "grouped, channels last", Grouped
    if width >= 16:
        yield "net after net", OneByOne
    if width in (8, 32):
        yield "grouped, channels second", ChannelsSecond


def train_step(program: nn.Module, x: Tensor, target: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(program.parameters(), 1e-3, fused=True, capturable=x.is_cuda)

    def step() -> None:
        with torch.autocast(x.device.type, torch.bfloat16):
            logits = program(x)
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
    """Return a step through one layer, forward and backward, as a batched product of patches and weights."""
    x = torch.randn(count * batch, width, 32, 32, device=device, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(count, width, 9 * width, device=device, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        columns = F.unfold(x, 3, padding=1).unflatten(0, (count, batch))  # (K, B, 9 C, H W)
        torch.autograd.grad((weight[:, None] @ columns).sum(), (x, weight))

    return step


def grouped(width: int, count: int, batch: int, device: torch.device) -> Callable[[], None]:
    """Return a step through the same layer as a grouped convolution."""
    x = torch.randn(batch, count * width, 32, 32, device=device, dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    weight = torch.randn(count * width, width, 3, 3, device=device, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        torch.autograd.grad(F.conv2d(x, weight, padding=1, groups=count).sum(), (x, weight))

    return step


def cases(
    device: torch.device, batch: int, scale: int
) -> Iterator[tuple[dict, Callable[[], Callable[[], None]]]]:
    """Yield what is measured, and a function that makes the step."""
    target = torch.randint(10, (batch,), device=device)
    x = torch.randn(batch, 3, 32, 32, device=device)
    if device.type == "cuda":
        x = x.contiguous(memory_format=torch.channels_last)

    def whole(width: int, make: Callable, compiled: bool = False, graph: bool = False) -> Callable[[], None]:
        nets = [backbone("convnet", 10, width=width) for _ in range(max(NETS[width] // scale, 2))]
        program = make(nets).to(device)
        if not isinstance(program, ChannelsSecond):
            program = program.to(memory_format=torch.channels_last)
        program = torch.compile(program) if compiled else program
        step = train_step(program, x, target)
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
        make = lambda nets: Grouped(nets, 32)  # noqa: E731
        yield {"width": 8, "how": "32 channels in a group, graph"}, lambda: whole(8, make, graph=True)
        yield {"width": 64, "how": "net after net, graph"}, lambda: whole(64, OneByOne, graph=True)
        yield (
            {"width": 32, "how": "grouped, channels last, compiled"},
            lambda: whole(32, Grouped, compiled=True),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--scale", type=int, default=1, help="divide the number of networks by this")
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
        except Exception as error:  # one way that fails must not cost the others
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
