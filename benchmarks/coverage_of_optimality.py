"""Coverage of the 95 % interval of optimality: ``python benchmarks/coverage_of_optimality.py``.

Learners of one accuracy err at random, or together on samples that are hard for all (one-factor probit); a wrong label
is any of the others. The true optimality follows from the accuracy where errors are independent, and from 500,000
samples where they are not. A cell of the record says how often the interval held it, and on which side it missed: high
where the whole interval is above the truth.
"""

import argparse
import json
import platform
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import norm

from counterpoint import __version__
from counterpoint.assessment._compute import _correlations
from counterpoint.assessment.intervals import correlation_intervals
from counterpoint.assessment.uncertainty import interval_limit
from counterpoint.measures.correlation import mean_correlations
from counterpoint.outputs import Outputs, sufficient_statistics
from counterpoint.theory import multiclass_correlation_from_accuracy, optimality

MANY = 500_000


def draw(rng: np.random.Generator, n_learners: int, n_items: int, n_classes: int, p: float, shared: float):
    """Return truth and votes."""
    truth = rng.integers(0, n_classes, n_items, dtype=np.int8)
    latent = np.sqrt(shared) * rng.normal(size=n_items)
    latent = latent + np.sqrt(1 - shared) * rng.normal(size=(n_learners, n_items))
    wrong = (truth + rng.integers(1, n_classes, latent.shape, dtype=np.int8)) % n_classes
    return truth, np.where(latent < norm.ppf(p), truth, wrong)


def read_correlations(truth: np.ndarray, votes: np.ndarray, n_classes: int):
    """Return the outputs, their moments and the correlations, as :func:`counterpoint.assess` does."""
    read = Outputs(votes, truth, np.arange(n_classes))
    columns = sufficient_statistics(read, columns=True).columns
    return read, columns, _correlations(columns, mean_correlations(columns), np.nan, np.nan, (None, None))


def study(p: float, n_learners: int, n_items: int, n_classes: int, shared: float, n_runs: int) -> dict:
    """Return how often the interval of a panel holds the truth."""
    warnings.simplefilter("ignore")
    size = {"n_learners": n_learners, "n_classes": n_classes, "p": p, "shared": shared}
    if shared:
        rng = np.random.default_rng(0)
        true = read_correlations(*draw(rng, n_items=MANY, **size), n_classes)[2].optimality
    else:
        r = float(multiclass_correlation_from_accuracy(p, n_classes))
        true = float(optimality(r, r**2, n_learners))
    rng = np.random.default_rng([n_learners, n_items, n_classes, int(100 * p), int(100 * shared)])
    held = low = high = 0
    for _ in range(n_runs):
        read, columns, found = read_correlations(*draw(rng, n_items=n_items, **size), n_classes)
        one = correlation_intervals(read, columns, found, None, interval_limit(read, None))[2]
        held += one.low <= true <= one.high
        low, high = low + (one.high < true), high + (one.low > true)
    return {"items": n_items, **size, "n_runs": n_runs, "true": true} | {
        name: count / n_runs for name, count in (("coverage", held), ("low", low), ("high", high))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_optimality.json"))
    args = parser.parse_args()
    start = time.perf_counter()
    settings = list(product((0.7, 0.9, 0.95, 0.99), (3, 6, 15), (100, 1000), (2, 3, 10), (0.0, 0.5)))
    with ProcessPoolExecutor(args.jobs) as pool:
        cells = list(pool.map(partial(study, n_runs=args.runs), *zip(*settings, strict=True)))
    versions = {"counterpoint": __version__, "numpy": np.__version__, "python": platform.python_version()}
    record = {"cells": cells, "seconds": time.perf_counter() - start, "versions": versions}
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
