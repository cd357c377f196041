"""What processes of a mesh exchange in a step, and a model of its cost: ``python benchmarks/bench_mesh.py``.

Four gloo processes compute each loss and its gradient on three meshes, and count the bytes that each of them hands to
``torch.distributed`` for it. The gradients of the weights, which ``DistributedDataParallel`` exchanges, are counted by
the size of the networks. The model of the cost takes one all-reduce of b bytes among p processes to last
``latency * log2(p) + 2 (p - 1) / p * b / bandwidth`` (a ring for the bytes, a tree for the latency), with nothing
hidden behind computation. It says what grows with the number of processes and what does not; it is not a measurement.

``--device cuda`` or ``--device cpu`` does something else: several processes on that one device train on each mesh, and
the losses, gradients and final weights are compared with those of a single process. NCCL refuses two processes on
one GPU, so the tensors of the GPU travel by gloo.
"""

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from counterpoint import __version__
from counterpoint.training import CorrelationLoss, DiversityLoss, Ensemble, JointLoss, fit, mlp, parallelize

LEARNERS, BATCH, CLASSES = 16, 512, 10  # the batch is that of one process
WEIGHTS = 11_181_642  # of a ResNet-18 with ten classes
SHAPES = {"data": (1, 4), "learners": (4, 1), "both": (2, 2)}
LOSSES = {
    "DiversityLoss()": DiversityLoss,
    "JointLoss()": JointLoss,
    "CorrelationLoss()": CorrelationLoss,
}
LATENCY, BANDWIDTH = 20e-6, 25e9  # seconds, bytes in a second: a cluster with 200 Gb/s for each GPU
SIZES = (8, 64, 512)
MESHES = {"data": (1, 2), "learners": (2, 1), "both": (2, 2)}  # for the comparison with one process
FEATURES, ROWS, EPOCHS = 6, 100, 3


def main() -> None:
    """Count, model, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="compare training on one device with one process"
    )
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    if args.device is not None:
        out = args.out or Path(f"results/mesh_on_one_{args.device}.json")
        out.write_text(json.dumps(agreement(args.device), indent=1) + "\n", encoding="utf-8")
        return
    out = args.out or Path("results/bench_mesh.json")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_count, (folder,), nprocs=4)
        counted = json.loads((Path(folder) / "counted.json").read_text(encoding="utf-8"))
    found = {
        "version": __version__,
        "torch": torch.__version__,
        "setting": {"learners": LEARNERS, "batch": BATCH, "classes": CLASSES, "weights": WEIGHTS},
        "bytes_of_a_loss": counted,
        "model": {"latency": LATENCY, "bandwidth": BANDWIDTH, "rows": model(counted)},
    }
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _count(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    found = {
        name: {shape: bytes_of(kind, sizes) for shape, sizes in SHAPES.items()}
        for name, kind in LOSSES.items()
    }
    if rank == 0:
        (Path(folder) / "counted.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def bytes_of(kind: Any, sizes: tuple[int, int]) -> dict[str, int]:
    """Return the bytes and calls of the second step of a loss, on a mesh of these sizes; the first learns the sizes."""
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("learners", "data"))
    loss = kind(mesh=mesh)
    logits = torch.randn(LEARNERS // sizes[0], BATCH, CLASSES, requires_grad=True)
    target = torch.arange(BATCH) % CLASSES
    loss(logits, target).backward()
    sent: list[int] = []
    originals = {name: getattr(dist, name) for name in ("all_reduce", "all_gather", "all_gather_object")}

    def counting(name: str) -> Any:
        def call(first: Any, *rest: Any, **named: Any) -> Any:
            tensor = first if name == "all_reduce" else rest[0]
            sent.append(tensor.numel() * tensor.element_size())
            return originals[name](first, *rest, **named)

        return call

    for name in originals:
        setattr(dist, name, counting(name))
    try:
        loss(logits, target).backward()
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)
    return {"bytes": sum(sent), "calls": len(sent)}


def model(counted: dict[str, dict[str, dict[str, int]]]) -> list[dict[str, float]]:
    """Return the modelled milliseconds of communication in a step of the paper's loss, for each mesh."""
    loss, rows = counted["CorrelationLoss()"], []
    for size in SIZES:
        for n_learner_ranks in (1, 8):
            n_data = size // n_learner_ranks
            gradients = 4 * WEIGHTS * LEARNERS // n_learner_ranks
            sums = data_bytes(LEARNERS // n_learner_ranks) if n_data > 1 else 0
            across = loss["learners"]["bytes"] if n_learner_ranks > 1 else 0
            waits = (loss["data"]["calls"] - 1) * all_reduce(0, n_data)
            rows.append(
                {
                    "gpus": size,
                    "learners": n_learner_ranks,
                    "data": n_data,
                    "gradient_megabytes": gradients / 1e6 if n_data > 1 else 0.0,
                    "loss_kilobytes": (sums + across) / 1e3,
                    "gradient_ms": 1e3 * all_reduce(gradients, n_data),
                    "loss_ms": 1e3 * (waits + all_reduce(sums, n_data) + all_reduce(across, n_learner_ranks)),
                }
            )
    return rows


def data_bytes(learners: int) -> int:
    """Return the bytes of the paper's loss along the data axis: means and moments, then what the gradient needs."""
    columns = learners * CLASSES
    return 8 * ((2 * columns + 2 * CLASSES + 1) + (columns + 2))


def all_reduce(size: float, processes: int) -> float:
    """Return the modelled seconds of an all-reduce of some bytes."""
    if processes == 1:
        return 0.0
    return LATENCY * math.log2(processes) + 2 * (processes - 1) / processes * size / BANDWIDTH


def agreement(device: str) -> dict[str, Any]:
    """Return how far training on each mesh is from that of a single process, at most over processes and losses."""
    rows = []
    for name, sizes in MESHES.items():
        processes = math.prod(sizes)
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(_compare, (processes, device, sizes, folder), nprocs=processes)
            found = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.json")]
        for row in found[0]:
            same = [
                one
                for part in found
                for one in part
                if all(one[key] == row[key] for key in ("loss", "dtype"))
            ]
            worst = {key: max(one[key] for one in same) for key in row if key not in ("loss", "dtype")}
            rows.append({"mesh": name, "processes": processes, **row, **worst})
            print(rows[-1], flush=True)
    kind = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return {
        "version": __version__,
        "torch": torch.__version__,
        "device": kind,
        "backend": "gloo",
        "rows": rows,
    }


def _compare(rank: int, processes: int, device: str, sizes: tuple[int, int], folder: str) -> None:
    """Write the distances between the training of these processes and that of one."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("cpu:gloo,cuda:gloo", init_method=store, rank=rank, world_size=processes)
    mesh = init_device_mesh(device, sizes, mesh_dim_names=("learners", "data"))
    rows = [
        {"loss": name, "dtype": str(dtype).removeprefix("torch."), **distances(kind, dtype, device, mesh)}
        for name, kind in LOSSES.items()
        for dtype in (torch.float32, torch.float64)
    ]
    Path(folder, f"{rank}.json").write_text(json.dumps(rows), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def distances(kind: Any, dtype: torch.dtype, device: str, mesh: Any) -> dict[str, float]:
    """Return the largest differences between a mesh and one process: loss, gradient, weights after ``fit``."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, FEATURES, generator=generator).to(device, dtype)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    part = tuple(tensor.tensor_split(mesh.size(1))[mesh.get_local_rank("data")] for tensor in (x, y))
    alone, spread = _ensemble(dtype, device), parallelize(_ensemble(dtype, device), mesh)
    values = [_one_step(alone, kind(mesh="local"), x, y), _one_step(spread, kind(mesh=mesh), *part)]
    whole = spread.whole() if hasattr(spread, "whole") else getattr(spread, "module", spread)
    found = {"loss_difference": abs(values[0] - values[1]), "gradient_difference": _apart(whole, alone)}
    batches = list(zip(x.split(24), y.split(24), strict=True))
    options = {"optimizer": torch.optim.Adam, "epochs": EPOCHS, "precision": "float32", "progress": False}
    ours, theirs = _ensemble(dtype, device), _ensemble(dtype, device)
    fit(ours, batches, loss=kind(), mesh=mesh, **options)
    fit(theirs, batches, loss=kind(mesh="local"), **options)
    return found | {"weight_difference": _apart(ours, theirs)}


def _ensemble(dtype: torch.dtype, device: str) -> Ensemble:
    torch.manual_seed(0)
    return Ensemble([mlp([FEATURES, 8, 3]) for _ in range(5)]).to(device, dtype)


def _one_step(ensemble: torch.nn.Module, loss: Any, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the loss after a step of length one, which changes the weights by the gradient."""
    optimizer = torch.optim.SGD(ensemble.parameters(), lr=1.0)
    value = loss(ensemble(x), y)
    value.backward()
    optimizer.step()
    return float(value.detach())


def _apart(one: torch.nn.Module, other: torch.nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


if __name__ == "__main__":
    main()
