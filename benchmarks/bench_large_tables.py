"""Train on a memory-mapped table, and with one and several threads: ``python benchmarks/bench_large_tables.py``.

Each run is a process of its own. Memory is the largest that it holds of its own (RssAnon), beside the pages of the
mapped file, less what it held before training. Tables are trained with one thread.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.bench_assess import MemoryWatch
from counterpoint import DiverseEnsembleClassifier, DiversityLoss, Ensemble, __version__, fit
from counterpoint.training.device import threads_for

N_FEATURES = 20
NETWORKS = {"n_estimators": 3, "hidden_layer_sizes": (16,)}
# (networks, hidden units, batch): below what occupies a second thread, about it, and well above
WORK = [(5, 16, 64), (15, 64, 256), (15, 128, 1024), (15, 512, 1024)]


class Mapped(torch.utils.data.Dataset):
    """Rows of a memory-mapped table, a batch at a time."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitems__(self, index: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch, read in the order of the file."""
        rows = np.sort(index)
        return torch.from_numpy(self.X[rows]), torch.from_numpy(self.y[rows]).long()


def networks(n: int, hidden: int) -> Ensemble:
    """Return networks for the table."""
    torch.manual_seed(0)
    layers = (torch.nn.Linear(N_FEATURES, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))
    return Ensemble([torch.nn.Sequential(*(type(one)(*_sizes(one)) for one in layers)) for _ in range(n)])


def _sizes(layer: torch.nn.Module) -> tuple[int, ...]:
    return (layer.in_features, layer.out_features) if isinstance(layer, torch.nn.Linear) else ()


def write_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    table = np.lib.format.open_memmap(path, "w+", np.float32, (rows, N_FEATURES))
    for start in range(0, rows, 100_000):
        part = table[start : start + 100_000]
        part[:] = rng.normal(size=part.shape)
    table.flush()


def train_one(path: Path, way: str) -> dict:
    """Return the time and memory of one epoch."""
    X = np.load(path, mmap_mode="r")
    y = np.concatenate([X[i : i + 100_000, 0] > 0 for i in range(0, len(X), 100_000)]).astype(np.int8)
    before, watch = MemoryWatch.now(), MemoryWatch()
    watch.start()
    start, cpu = time.perf_counter(), time.process_time()
    if way == "fit":
        loader = torch.utils.data.DataLoader(Mapped(X, y), 4096, shuffle=True, collate_fn=lambda batch: batch)
        options = {"optimizer": torch.optim.Adam, "epochs": 1, "progress": False}
        fit(networks(3, 16), loader, loss=DiversityLoss(), **options)
    else:
        DiverseEnsembleClassifier(**NETWORKS, epochs=1, random_state=0).fit(X, y)
    watch.running = False
    return {
        "way": way,
        "rows": len(X),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "extra_bytes": watch.peak - before,
        "bytes_per_row": (watch.peak - before) / len(X),
    }


def time_steps(ensemble: Ensemble, batch: int, most: int, repeats: int) -> dict[str, list[float]]:
    """Return the times of steps by number of threads."""
    x, y = torch.randn(batch, N_FEATURES), torch.randint(2, (batch,))
    optimizer, loss = torch.optim.Adam(ensemble.parameters()), DiversityLoss()
    times: dict[str, list[float]] = {str(threads): [] for threads in range(1, most + 1)}
    for repeat in range(repeats + 1):
        for threads in range(1, most + 1):  # in turn, so that a busy moment does not hit one alone
            torch.set_num_threads(threads)
            for _ in range(5):
                start = time.perf_counter()
                optimizer.zero_grad()
                loss(ensemble(x), y).backward()
                optimizer.step()
                if repeat:  # the first is to warm up
                    times[str(threads)].append(time.perf_counter() - start)
    return times


def time_threads(most: int, *, busy: bool) -> list[dict]:
    """Return the time of a step by number of threads, and with the number that is chosen.

    On a busy machine, where as many other processes work as there are cores, it is the median; else the shortest, which
    is what an idle machine can do.
    """
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(most if busy else 0)
    ]
    rows = []
    try:
        for n, hidden, batch in WORK:
            ensemble = networks(n, hidden)
            times = time_steps(ensemble, batch, most, repeats=5 if busy else 30)
            seconds = {threads: float(np.median(one) if busy else min(one)) for threads, one in times.items()}
            torch.set_num_threads(most)
            work = batch * sum(p.numel() for p in ensemble.parameters())
            with threads_for(work, torch.device("cpu")):
                chosen = torch.get_num_threads()
            row = {"networks": n, "hidden": hidden, "batch": batch, "work": work, "seconds": seconds}
            over = seconds[str(chosen)] / min(seconds.values())
            rows.append(row | {"chosen": chosen, "chosen_over_best": over})
            print(rows[-1], flush=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--one", nargs=2, metavar=("FILE", "WAY"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("results/bench_large_tables.json"))
    args = parser.parse_args()
    if args.one:
        print(json.dumps(train_one(Path(args.one[0]), args.one[1])))
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in args.rows:
            path = Path(folder) / f"{rows}.npy"
            write_table(path, rows)
            for way in ("fit", "estimator"):
                command = [sys.executable, __file__, "--one", str(path), way]
                one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread)
                found.append(json.loads(done.stdout.splitlines()[-1]))
                print(found[-1], flush=True)
            path.unlink()
    record = {
        "config": {"features": N_FEATURES, "dtype": "float32", **NETWORKS},
        "tables": found,
        "threads": time_threads(args.threads, busy=False),
        "threads_busy": time_threads(args.threads, busy=True),
        "versions": {
            "counterpoint": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": f"{platform.machine()} CPU, {os.cpu_count()} cores, shared",
    }
    args.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
