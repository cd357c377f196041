"""Time and memory of ``assess`` with many classes and with many learners: ``python benchmarks/bench_many_classes.py``.

Each panel is assessed in a process of its own, on one thread; memory is the most that the process held, with the
imports and the votes. In a panel of free text ten answers are true, and a learner that errs gives any of 30,000. With
``--before FOLDER``, the sources of another version are timed in the same run, in turn with these, and given up after
five minutes of processor time.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LIMIT = 300  # seconds of processor time
# learners, samples, classes (None: free text), whether another version is tried
PANELS = [
    (3, 20_000, 100, True),
    (3, 20_000, 400, True),
    (3, 20_000, 1_000, False),
    (3, 20_000, 4_000, False),
    (3, 20_000, 100_000, False),
    (3, 3_000, None, False),
    (50, 100_000, 2, True),
    (5_000, 1_000, 2, False),
    (5_000, 1_000, 10, False),
    (10_000, 1_000, 2, False),
]
CHILD = """
import json, resource, sys, time, warnings
import numpy as np
from counterpoint import assess
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CPU, ({limit}, {limit} + 5))
n_learners, n, n_classes = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
truth = rng.integers(0, n_classes or 10, n)
votes = np.empty((n_learners, n), dtype=np.int32)
for row in votes:
    right = rng.random(n, dtype=np.float32) < np.where(rng.random(n) < 0.3, 0.45, 0.85)
    other = (truth + rng.integers(1, n_classes, n)) % n_classes if n_classes else rng.integers(10, 30_000, n)
    row[:] = np.where(right, truth, other)
start, cpu = time.perf_counter(), time.process_time()
a = assess(truth, votes)
print(json.dumps({{
    "seconds": time.perf_counter() - start,
    "cpu_seconds": time.process_time() - cpu,
    "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "vote": a.vote.value,
}}))
"""


def assess_panel(source: Path, panel: tuple) -> dict:
    """Return time and memory of a panel, or how the process ended."""
    command = [sys.executable, "-c", CHILD.format(limit=LIMIT), json.dumps(panel)]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr else f"more than {LIMIT} s"}
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--repeats", type=int, default=3, help="of panels that take less than ten seconds")
    parser.add_argument("--out", type=Path, default=Path("results/bench_many_classes.json"))
    args = parser.parse_args()
    rows = []
    for *panel, both in PANELS:
        row = dict(zip(("learners", "samples", "classes"), panel, strict=True))
        versions = {"now": SOURCE} | ({"before": args.before} if args.before and both else {})
        for _ in range(args.repeats):
            for name, source in versions.items():
                found = assess_panel(source, panel)
                best = row.get(name, found)
                row[name] = min(best, found, key=lambda one: one.get("cpu_seconds", float("inf")))
            if row["now"].get("cpu_seconds", LIMIT) > 10:
                break
        if "cpu_seconds" in row.get("before", {}):
            row["ratio"] = row["now"]["cpu_seconds"] / row["before"]["cpu_seconds"]
        rows.append(row)
        print(json.dumps(row), flush=True)
        record = {
            "panels": rows,
            "versions": {"python": platform.python_version()},
            "device": f"{platform.machine()} CPU, one thread; the machine was shared, so that cpu_seconds count",
        }
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
