"""Steps by number of threads, and with the number that training chooses: ``python benchmarks/bench_threads.py``.

Each number of threads has its turn several times, one after the other, so that a busy moment does not hit one alone;
what training chooses has turns of its own. Times are medians over the turns. The second part is the same with
as many other processes at work as there are cores.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from counterpoint import DiversityLoss, Ensemble, __version__
from counterpoint.training import mlp
from counterpoint.training.threads import Threads, work_of

# (networks, sizes of layers, batch): from what a single thread does best to what occupies many
TABLES = [
    (5, (20, 16, 2), 64),
    (15, (20, 32, 2), 64),
    (15, (20, 64, 2), 128),
    (15, (20, 64, 2), 256),
    (15, (20, 64, 2), 512),
    (15, (20, 128, 2), 512),
    (15, (20, 128, 2), 1024),
    (15, (20, 512, 2), 1024),
    (5, (784, 256, 256, 10), 128),
    (15, (784, 512, 512, 10), 256),
]
CONVOLUTIONS = [(3, 16, 32), (5, 32, 128)]  # (networks, channels, batch), on images of 3 x 32 x 32
BUSY = (0, 3, 7)  # the settings that are repeated beside busy processes
SECONDS = 0.06  # of a turn, about
CHOICE = "the choice"


def convolutions(channels: int) -> torch.nn.Module:
    """Return a small convolutional network."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4)),
        *(nn.Flatten(), nn.Linear(2 * channels * 16, 10)),
    )


def settings() -> list[tuple[dict[str, Any], Ensemble, torch.Tensor, torch.Tensor]]:
    """Return the settings: what they are, the ensemble, and a batch."""
    torch.manual_seed(0)
    found = []
    for n, sizes, batch in TABLES:
        ensemble = Ensemble([mlp(list(sizes)) for _ in range(n)])
        x, y = torch.randn(batch, sizes[0]), torch.randint(sizes[-1], (batch,))
        found.append(({"networks": n, "layers": list(sizes), "batch": batch}, ensemble, x, y))
    for n, channels, batch in CONVOLUTIONS:
        ensemble = Ensemble([convolutions(channels) for _ in range(n)])
        x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
        found.append(({"networks": n, "channels": channels, "batch": batch}, ensemble, x, y))
    return found


def turn(step: Any, count: int) -> float:
    """Return the seconds of a step, after two that count for nothing."""
    for _ in range(2):
        step()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def measure(
    ensemble: Ensemble, x: torch.Tensor, y: torch.Tensor, counts: list[int], turns: int
) -> dict[str, Any]:
    """Return the times of a step by number of threads, and of the number that training chooses."""
    optimizer, loss = torch.optim.Adam(ensemble.parameters()), DiversityLoss()
    cpu, work = torch.device("cpu"), work_of(ensemble, x)

    def step() -> None:
        optimizer.zero_grad()
        loss(ensemble(x), y).backward()
        optimizer.step()

    torch.set_num_threads(1)
    count = max(1, int(SECONDS / turn(step, 3)))
    times: dict[str, list[float]] = {str(threads): [] for threads in counts} | {CHOICE: []}
    for _ in range(turns):
        for threads in counts:
            torch.set_num_threads(threads)
            times[str(threads)].append(turn(step, count))
        torch.set_num_threads(counts[-1])
        with Threads(cpu) as chosen:
            chosen.choose(work)
            number = torch.get_num_threads()
            times[CHOICE].append(turn(step, count))
    seconds = {name: float(np.median(one)) for name, one in times.items()}
    best = min(seconds.values())
    return {
        "work": work,
        "chosen": number,
        "seconds": seconds,
        "over_best": {name: value / best for name, value in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--idle-only", action="store_true", help="leave out the part beside busy processes")
    parser.add_argument("--out", type=Path, default=Path("results/bench_threads.json"))
    args = parser.parse_args()
    cores, load = (
        joblib.cpu_count(),
        os.getloadavg()[0],
    )  # the cores of this process: `taskset` may leave it fewer
    counts = [threads for threads in (1, 2, 4, 8, 16) if threads <= cores]
    found: dict[str, list[Any]] = {"idle": [], "busy": []}
    for part in ("idle",) if args.idle_only else ("idle", "busy"):
        busy = part == "busy"
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy * cores)]
        try:
            for i, (what, *parts) in enumerate(settings()):
                if not busy or i in BUSY:
                    row = what | measure(*parts, counts, 3 if busy else args.turns)
                    found[part].append(row)
                    print(part, json.dumps(row), flush=True)
        finally:
            for other in others:
                other.kill()
                other.wait()
    record = {
        "cores": cores,
        "load_before": load,
        **found,
        "versions": {
            "counterpoint": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": f"{platform.machine()} CPU, {cores} cores",
    }
    args.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
