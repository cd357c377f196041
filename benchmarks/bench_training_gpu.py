"""What the joint loss costs on a GPU: ``python benchmarks/bench_training_gpu.py --device cuda``.

Three questions, each answered by a ratio in one run: how much faster the loss is than the paper's loops; what joint
training of three ResNet-18s costs over training the same three independently; how many small nets a second train as one
program, against one at a time.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from counterpoint import __version__
from counterpoint.datasets import load
from counterpoint.training import (
    CorrelationLoss,
    Ensemble,
    Fold,
    Group,
    Schedule,
    correlation_loss,
    fit_groups,
    mlp,
)


def seconds(work: Callable[[], object], device: torch.device, repeats: int, warmup: int = 3) -> float:
    """Return the median time of one call."""
    times = []
    for repeat in range(warmup + repeats):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        if repeat >= warmup:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def papers_loops(logits: torch.Tensor, target: torch.Tensor, lam: float) -> torch.Tensor:
    """Compute the loss as the paper's algorithm box writes it."""

    def corr(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a - a.mean(), b - b.mean()
        return (a * b).sum() / (a.norm() * b.norm())

    outputs = [torch.softmax(one, dim=1) for one in logits]
    truth = nn.functional.one_hot(target, logits.shape[-1]).to(logits.dtype)
    r_tl = r_ll = torch.zeros((), device=logits.device)
    for k in range(logits.shape[-1]):
        for j in range(len(outputs)):
            r_tl = r_tl + corr(truth[:, k], outputs[j][:, k])
            for i in range(j):
                r_ll = r_ll + corr(outputs[i][:, k], outputs[j][:, k])
    return -(r_tl - lam * r_ll)


def loss_alone(device: torch.device) -> dict[str, float]:
    logits = torch.randn(15, 512, 10, device=device, requires_grad=True)
    target = torch.randint(10, (512,), device=device)
    loops = seconds(lambda: papers_loops(logits, target, 0.1).backward(), device, repeats=5, warmup=2)
    ours = seconds(
        lambda: correlation_loss(logits, target, lam=0.1, reduction="sum").backward(),
        device,
        repeats=200,
        warmup=20,
    )
    return {"loops_seconds": loops, "ours_seconds": ours, "ratio": loops / ours}


def cifar_resnet() -> nn.Module:
    from torchvision.models import resnet18

    model = resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def joint_against_independent(device: torch.device, batch: int) -> dict[str, float]:
    x = torch.randn(batch, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,), device=device)
    ensemble = Ensemble([cifar_resnet() for _ in range(3)]).to(device, memory_format=torch.channels_last)
    learners = ensemble.learners
    optimizer = torch.optim.SGD(ensemble.parameters(), 0.01, momentum=0.9, fused=True)
    loss = CorrelationLoss(0.5)

    def joint() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            value = loss(ensemble(x), y)
        value.backward()
        optimizer.step()

    def independent() -> None:
        optimizer.zero_grad(set_to_none=True)
        for learner in learners:
            with torch.autocast(device.type, torch.bfloat16):
                value = nn.functional.cross_entropy(learner(x), y)
            value.backward()
        optimizer.step()

    rounds = [(seconds(joint, device, 20), seconds(independent, device, 20)) for _ in range(25)]
    together, apart = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {"joint_seconds": together, "independent_seconds": apart, "ratio": together / apart}


def one_program(
    device: torch.device, epochs: int, n_folds: int = 10, n_learners: int = 15
) -> dict[str, float]:
    """Train folds x diversities x learners at once by fit_groups, then networks of the same kind one at a time."""
    table = load("segment")
    features = table.X.to_numpy()
    x = torch.tensor(
        (features - features.mean(0)) / (features.std(0) + 1e-12), dtype=torch.float32, device=device
    )
    y = torch.tensor(np.unique(table.y, return_inverse=True)[1], device=device)
    place = torch.arange(len(x), device=device) % n_folds
    rows = [torch.nonzero(place != k)[:2048, 0] for k in range(n_folds)]
    sizes, n_batches = [19, 64, 7], 8  # of 256 rows
    losses = [CorrelationLoss(diversity) for diversity in np.linspace(0, 1.4, 8)]
    folds = [
        Fold(x[own], y[own], None, [mlp(sizes) for _ in range(n_learners)], random_state=k)
        for k, own in enumerate(rows)
    ]
    groups = [Group(fold, loss) for loss in losses for fold in folds]
    steps = epochs * n_batches

    def train_all() -> None:
        fit_groups(groups, Schedule(epochs, n_batches, learning_rate=1e-2, weight_decay=1e-2))

    def train_one() -> None:
        learner = mlp(sizes).to(device)
        optimizer = torch.optim.AdamW(learner.parameters(), 1e-2, fused=device.type == "cuda")
        for _ in range(epochs):
            for chosen in rows[0][torch.randperm(len(rows[0]), device=device)].chunk(n_batches):
                loss = nn.functional.cross_entropy(learner(x[chosen]), y[chosen])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

    together = seconds(train_all, device, repeats=3, warmup=1)
    alone = seconds(train_one, device, repeats=3, warmup=1)
    count = len(groups) * n_learners
    return {
        "nets": count,
        "steps": steps,
        "seconds_together": together,
        "seconds_for_one_alone": alone,
        "nets_per_second_together": count / together,
        "nets_per_second_one_at_a_time": 1 / alone,
        "ratio": count * alone / together,
    }


def growth(device: torch.device) -> list[dict[str, float]]:
    found = []
    x, y = torch.randn(512, 64, device=device), torch.randint(10, (512,), device=device)
    for n in (8, 16, 32, 64, 128):
        ensemble = Ensemble(
            [nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)) for _ in range(n)]
        ).to(device)
        loss = CorrelationLoss(0.5)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        taken = seconds(lambda e=ensemble, f=loss: f(e(x), y).backward(), device, repeats=30)  # type: ignore[misc]
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        found.append({"learners": n, "seconds": taken, "peak_bytes": peak})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path("results/bench_training_gpu.json"))
    args = parser.parse_args()
    device = torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    record = {
        "config": {"epochs": args.epochs, "resnet_batch": args.batch},
        "loss_alone": loss_alone(device),
        "joint_against_independent": joint_against_independent(device, args.batch),
        "one_program": one_program(device, args.epochs),
        "growth": growth(device),
        "versions": {
            "counterpoint": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": name,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
