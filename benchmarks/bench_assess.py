"""Assess 1,000 learners x 1,000,000 samples from a memory-mapped file: ``python benchmarks/bench_assess.py``.

The votes are int8 labels in a file of 1 GB. Time is taken at a quarter, a half and all of the samples, to see that it
is linear in them; memory is what the process holds of its own (RssAnon), beside the pages of the mapped file.
"""

import argparse
import json
import platform
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from counterpoint import __version__, assess


class MemoryWatch(threading.Thread):
    """Sample the memory of this process that no file backs, in bytes, until stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.running = True

    @staticmethod
    def now() -> int:
        """Return the memory held now."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
        return 0

    def run(self) -> None:
        """Watch until stopped."""
        while self.running:
            self.peak = max(self.peak, self.now())
            time.sleep(0.02)


def write_votes(path: Path, truth: np.ndarray, n_learners: int, n_classes: int) -> None:
    """Write votes of learners that share a factor, one learner at a time."""
    rng = np.random.default_rng(1)
    hard = rng.random(len(truth)) < 0.3
    votes = np.lib.format.open_memmap(path, "w+", np.int8, (n_learners, len(truth)))
    for learner in range(n_learners):
        right = rng.random(len(truth), dtype=np.float32) < np.where(hard, 0.45, 0.85)
        wrong = (truth + rng.integers(1, n_classes, len(truth), dtype=np.int8)) % n_classes
        votes[learner] = np.where(right, truth, wrong)
    votes.flush()


def time_panels(n_learners: int = 50, n_samples: int = 100_000) -> list[dict]:
    """Return the time to assess a panel with its intervals: complete, with missing votes, and with groups too."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, n_samples, dtype=np.int8)
    hard = rng.random(n_samples) < 0.3
    right = rng.random((n_learners, n_samples), dtype=np.float32) < np.where(hard, 0.45, 0.85)
    votes = np.where(right, truth, 1 - truth)
    holes = np.ma.masked_array(votes, rng.random(votes.shape, dtype=np.float32) < 0.2)
    rows = []
    for what, outputs, groups in (
        ("complete", votes, None),
        ("missing", holes, None),
        ("missing, groups of 5", holes, np.arange(n_samples) // 5),
    ):
        start, cpu = time.perf_counter(), time.process_time()
        votes_worth = assess(truth, outputs, groups=groups).effective.votes
        row = {"what": what, "learners": n_learners, "samples": n_samples}
        row |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        rows.append(row | {"effective_votes": list(votes_worth)})
        print(rows[-1], flush=True)
    return rows


def time_wide(numbers: tuple[int, ...] = (1000, 3000), n_samples: int = 2000) -> list[dict]:
    """Return the time to assess many learners, and to write the assessment as JSON."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, n_samples, dtype=np.int8)
    hard = rng.random(n_samples) < 0.3
    rows = []
    for n_learners in numbers:
        right = rng.random((n_learners, n_samples), dtype=np.float32) < np.where(hard, 0.45, 0.85)
        start, cpu = time.perf_counter(), time.process_time()
        result = assess(truth, np.where(right, truth, 1 - truth))
        row = {"learners": n_learners, "samples": n_samples}
        row |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        cpu = time.process_time()
        rows.append(
            row | {"json_bytes": len(result.to_json()), "json_cpu_seconds": time.process_time() - cpu}
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--panels", action="store_true", help="time only the panels of 50 x 100,000 votes")
    parser.add_argument("--wide", action="store_true", help="time only 1,000 and 3,000 learners")
    parser.add_argument("--out", type=Path, default=Path("results/bench_assess.json"))
    args = parser.parse_args()
    if args.panels or args.wide:
        part = {"panels": time_panels()} if args.panels else {"wide": time_wide()}
        record = json.loads(args.out.read_text()) | part
        args.out.write_text(json.dumps(record, indent=2) + "\n")
        return
    truth = np.random.default_rng(0).integers(0, args.classes, args.samples, dtype=np.int8)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.npy"
        write_votes(path, truth, args.learners, args.classes)
        for share in (0.25, 0.5, 1.0):
            n = int(share * args.samples)
            votes = np.load(path, mmap_mode="r")[:, :n]
            before, watch = MemoryWatch.now(), MemoryWatch()
            watch.start()
            start = time.perf_counter()
            result = assess(truth[:n], votes, progress=True)
            seconds = time.perf_counter() - start
            watch.running = False
            rows.append(
                {
                    "samples": n,
                    "seconds": seconds,
                    "extra_bytes": watch.peak - before,
                    "vote": result.vote.value,
                }
            )
            print(rows[-1], flush=True)
    record = {
        "config": {
            "learners": args.learners,
            "samples": args.samples,
            "classes": args.classes,
            "dtype": "int8",
        },
        "rows": rows,
        "panels": time_panels(),
        "wide": time_wide(),
        "time_ratio_full_to_quarter": rows[-1]["seconds"] / rows[0]["seconds"],
        "versions": {
            "counterpoint": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": f"{platform.machine()} CPU, 2 cores",
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
