"""Coverage of the 95 % intervals of an assessment: ``python benchmarks/coverage_of_intervals.py``.

Panels are drawn from a model whose truth is known: learners of accuracy 0.7 on two classes, whose being right is
correlated by c through a difficulty that they share (one-factor probit). In a panel with clusters, five items in a row
have one and the same difficulty, and the assessment is told so by ``groups``. In one with missing votes, each vote is
missing with probability 0.2. A cell of the record says how often the interval of each number held the true one.
"""

import argparse
import json
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom, multivariate_normal, norm

from counterpoint import __version__
from counterpoint.assessment.effective import _independent_learners, effective_votes
from counterpoint.assessment.groups import Coverage
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import Outputs, sufficient_statistics, vote_credit, vote_scores
from counterpoint.theory import plurality_accuracy

ACCURACY, MISSING, CLUSTER = 0.7, 0.2, 5
NUMBERS = ("error_correlation", "kish", "votes", "mean_accuracy")


def latent_correlation(c: float) -> float:
    """Return the correlation of the latent variables behind two learners whose being right is correlated by c."""
    t = norm.ppf(ACCURACY)

    def excess(rho: float) -> float:
        both = multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf([t, t])
        return (both - ACCURACY**2) / (ACCURACY * (1 - ACCURACY)) - c

    return brentq(excess, 0, 0.999) if c else 0.0


def truths(n_learners: int, c: float, missing: bool) -> dict[str, float]:
    """Return the true numbers of a panel."""
    numbers, shares = np.array([n_learners]), np.ones(1)
    if missing:
        numbers = np.arange(1, n_learners + 1)
        shares = binom.pmf(numbers, n_learners, 1 - MISSING) / (1 - MISSING**n_learners)
    vote = float(shares @ plurality_accuracy(ACCURACY, c, numbers, n_classes=2))
    voters = float(shares @ numbers)
    worth = _independent_learners(np.array([vote] * 2), np.array([ACCURACY] * 2), 2, 1.0)[0]
    return {
        "error_correlation": c,
        "kish": voters / (1 + (voters - 1) * c),
        "votes": float(worth),
        "mean_accuracy": ACCURACY,
    }


def draw(rng: np.random.Generator, n_learners: int, n_items: int, rho: float, cluster: int, missing: bool):
    """Return who is right, and which votes are missing."""
    difficulty = np.repeat(rng.normal(size=-(-n_items // cluster)), cluster)[:n_items]
    latent = np.sqrt(rho) * difficulty + np.sqrt(1 - rho) * rng.normal(size=(n_learners, n_items))
    holes = rng.random(latent.shape) < MISSING if missing else None
    return latent < norm.ppf(ACCURACY), holes


def estimate(right: np.ndarray, holes: np.ndarray | None, groups: np.ndarray | None):
    """Return the effective votes of a panel, as :func:`counterpoint.assess` does."""
    n_learners, n_items = right.shape
    read = Outputs(right.astype(np.int8), np.ones(n_items, dtype=np.int8), [0, 1], missing=holes)
    counts = sufficient_statistics(read, correctness=True, same_wrong=True).correctness
    every = slice(0, n_items)
    voters = read.voters(every)
    scores = vote_scores(read, np.ones((1, n_learners)), every, ("hard",))["hard"][0]
    vote = float(vote_credit(scores, read.truth_codes)[voters > 0].mean())
    histogram = np.bincount(voters, minlength=n_learners + 1)
    coverage = Coverage(counts.answered, counts.shared, histogram, 0, np.zeros(n_learners))
    return effective_votes(read, counts, correctness_correlations(counts), groups, coverage, vote)


def study(n_learners: int, n_items: int, c: float, clusters: bool, missing: bool, n_runs: int) -> dict:
    """Return how often the intervals of a panel hold the truth."""
    seed = [n_learners, n_items, int(100 * c), clusters, missing]
    rng, rho, cluster = np.random.default_rng(seed), latent_correlation(c), CLUSTER if clusters else 1
    true = truths(n_learners, c, missing)
    groups = np.arange(n_items) // cluster if clusters else None
    held = dict.fromkeys(NUMBERS, 0)
    for _ in range(n_runs):
        found = estimate(*draw(rng, n_learners, n_items, rho, cluster, missing), groups)
        for name in NUMBERS:
            one = getattr(found, name)
            held[name] += bool(one.low <= true[name] and not true[name] > one.high)  # NaN: no upper end
    return {
        "learners": n_learners,
        "items": n_items,
        "c": c,
        "clusters": clusters,
        "missing": missing,
        "n_runs": n_runs,
        "true": true,
        "coverage": {name: held[name] / n_runs for name in NUMBERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_intervals.json"))
    args = parser.parse_args()
    start, cells = time.perf_counter(), []
    settings = list(product((3, 6, 15), (100, 1000), (0.0, 0.2, 0.5), (False, True), (False, True)))
    with ProcessPoolExecutor(args.jobs) as pool:
        for cell in pool.map(partial(study, n_runs=args.runs), *zip(*settings, strict=True)):
            cells.append(cell)
            print(cell, f"{time.perf_counter() - start:.0f} s", flush=True)
    record = {
        "config": {
            "accuracy": ACCURACY,
            "classes": 2,
            "missing": MISSING,
            "items_in_a_cluster": CLUSTER,
        },
        "cells": cells,
        "seconds": time.perf_counter() - start,
        "versions": {
            "counterpoint": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
