"""Time the measures against numpy.corrcoef and DESlib, and the tally on a large mapped file.

DESlib is compared where it is installed: ``pip install deslib==0.3.7`` beside counterpoint.
``--large`` tallies 1,000 learners x 1,000,000 samples of int8 labels, which takes minutes and a
gigabyte of disk. Ratios are of median times; DESlib and the tally are run once. The load of the
machine is recorded beside them.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import counterpoint
from counterpoint import measures
from counterpoint.outputs import Outputs, sufficient_statistics

N_LEARNERS, N_SAMPLES = 50, 10_000
PEER_NAMES = {
    "correlation_rho": "correlation_coefficient",
    "disagreement": "disagreement_measure",
    "double_fault": "double_fault",
    "q_statistic": "Q_statistic",
    "ratio_errors": "ratio_errors",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="tally a large mapped file instead")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the results")
    options = parser.parse_args()
    record: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "versions": {
            "python": platform.python_version(),
            "counterpoint": counterpoint.__version__,
            "numpy": np.__version__,
            "deslib": deslib_version(),
        },
    }
    if options.large:
        name, record["tally"] = "bench_measures_large.json", bench_tally()
    else:
        name, record["pairwise"] = "bench_measures.json", bench_pairwise()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / name).write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


def bench_pairwise() -> dict[str, Any]:
    y_true, votes = simulate(N_LEARNERS, N_SAMPLES, n_classes=3, seed=0)
    load = os.getloadavg()[0]
    reference, pairwise = alternate(
        lambda: np.corrcoef(votes), lambda: measures.pairwise_measures(y_true, votes)
    )
    together = float(np.median(pairwise))
    record: dict[str, Any] = {
        "n_learners": N_LEARNERS,
        "n_samples": N_SAMPLES,
        "load_before": load,
        "corrcoef_seconds": spread(reference),
        "all_pairwise_seconds": spread(pairwise),
        "all_pairwise_over_corrcoef": {
            "best": min(pairwise) / min(reference),
            "median": together / float(np.median(reference)),
        },
        "each_alone_seconds": {
            name: median_time(lambda name=name: getattr(measures, name)(y_true, votes))
            for name in measures.pairwise_measures(y_true, votes)
        },
    }
    try:
        from deslib.util import diversity
    except ImportError:
        print("DESlib is not installed and is left out: pip install deslib==0.3.7", file=sys.stderr)
        return record
    ours = measures.pairwise_measures(y_true, votes)
    seconds = {}
    for name, peer in PEER_NAMES.items():
        start = time.perf_counter()
        # DESlib returns, for each learner, the sum over the others.
        sums = diversity.compute_pairwise_diversity(y_true, votes.T, getattr(diversity, peer))
        seconds[name] = time.perf_counter() - start
        np.fill_diagonal(ours[name], 0.0)
        np.testing.assert_allclose(ours[name].sum(axis=1), sums, rtol=1e-9)
    total = sum(seconds.values())
    record["deslib_seconds"] = seconds | {"total": total}
    record["deslib_total_over_all_pairwise"] = total / together
    alone = record["each_alone_seconds"]
    record["deslib_over_each_alone"] = {name: seconds[name] / alone[name] for name in seconds}
    return record


def bench_tally() -> list[dict[str, Any]]:
    rows = []
    n_learners, n_samples = 1000, 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        for n_classes in (2, 10):
            path = Path(folder) / f"votes{n_classes}.npy"
            y_true = write_votes(path, n_learners, n_samples, n_classes)
            votes = np.load(path, mmap_mode="r")
            for share in (4, 2, 1):
                n = n_samples // share
                tracemalloc.start()
                load, cpu, start = os.getloadavg()[0], time.process_time(), time.perf_counter()
                sufficient_statistics(Outputs(votes[:, :n], y_true[:n]), columns=True, correctness=True)
                rows.append(
                    {
                        "n_learners": n_learners,
                        "n_samples": n,
                        "n_classes": n_classes,
                        "seconds": time.perf_counter() - start,
                        "cpu_seconds": time.process_time() - cpu,
                        "load_before": load,  # of the whole machine, whose cores may be shared
                        # What was allocated, which leaves out the mapped file itself.
                        "peak_gigabytes": tracemalloc.get_traced_memory()[1] / 1e9,
                    }
                )
                tracemalloc.stop()
                print(rows[-1], file=sys.stderr)
            path.unlink()
    return rows


def write_votes(path: Path, n_learners: int, n_samples: int, n_classes: int) -> Any:
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, n_classes, n_samples, dtype=np.int8)
    votes = np.lib.format.open_memmap(path, "w+", np.int8, (n_learners, n_samples))
    for row in votes:
        guess = rng.integers(0, n_classes, n_samples, dtype=np.int8)
        row[:] = np.where(rng.random(n_samples, dtype=np.float32) < 0.6, y_true, guess)
    votes.flush()
    return y_true


def simulate(n_learners: int, n_samples: int, n_classes: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y_true = rng.integers(0, n_classes, n_samples)
    guess = rng.integers(0, n_classes, (n_learners, n_samples))
    return y_true, np.where(rng.random(guess.shape) < 0.6, y_true, guess)


def alternate(
    first: Callable[[], object], second: Callable[[], object], repeats: int = 200
) -> tuple[list[float], list[float]]:
    """Time two functions in turn, so that other load on the machine falls on both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, record in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            record.append(time.perf_counter() - start)
    return times


def spread(times: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(times, [0.0, 0.5, 0.9]).tolist()
    return {"best": low, "median": middle, "ninth_decile": high}


def median_time(function: Callable[[], object], repeats: int = 50) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def deslib_version() -> str | None:
    try:
        return metadata.version("deslib")
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
