"""Train on a memory-mapped table: ``python benchmarks/bench_large_tables.py``.

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
from counterpoint.training import mlp

N_FEATURES = 20
NETWORKS = {"n_estimators": 3, "hidden_layer_sizes": (16,)}


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


def networks() -> Ensemble:
    """Return networks for the table."""
    torch.manual_seed(0)
    return Ensemble(
        [mlp([N_FEATURES, *NETWORKS["hidden_layer_sizes"], 2]) for _ in range(NETWORKS["n_estimators"])]
    )


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
        fit(networks(), loader, loss=DiversityLoss(), **options)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
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
