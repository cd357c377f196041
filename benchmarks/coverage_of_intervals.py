"""Coverage of the 95 % intervals of ``assessment.effective``: ``python benchmarks/coverage_of_intervals.py``.

Panels are drawn from a model whose truth is known. Learners are equal, or their accuracies lie evenly between two ends,
or one is an expert. Their being right goes back to a difficulty that they share (one-factor probit) or not; wrong
answers are spread evenly over the other classes. In a panel with clusters, five items in a row have the same
difficulty, and the estimate is told so by ``groups``. In one with missing votes, each vote is missing with probability
0.2. The truth comes from a million votes.
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
from scipy.stats import norm

from counterpoint import __version__
from counterpoint.assessment.effective import effective_votes
from counterpoint.assessment.groups import Coverage
from counterpoint.assessment.uncertainty import uncertainty
from counterpoint.measures.pairwise import correctness_correlations
from counterpoint.outputs import Outputs, mean_of_pairs, sufficient_statistics, vote_credit, vote_scores
from counterpoint.theory import signal_from_correlation

SHARED, MISSING, CLUSTER = 0.5, 0.2, 5  # SHARED: correlation of the latent variables behind two learners
NUMBERS = ("votes", "independence", "error_correlation", "mean_accuracy")
ACCURACIES = ("equal", "mixed", "expert")
PANELS = ("independent", "shared", "clusters", "missing")
TRUTH_ITEMS = 1_000_000  # votes; of few learners at most so many items


def accuracies(kind: str, n: int) -> np.ndarray:
    """Return the accuracy of each learner."""
    if kind == "equal":
        return np.full(n, 0.75)
    return np.linspace(0.6, 0.9, n) if kind == "mixed" else np.append(np.full(n - 1, 0.65), 0.88)


def draw(rng: np.random.Generator, p: np.ndarray, n_items: int, n_classes: int, panel: str):
    """Return truth, votes and which of them are missing."""
    cluster, rho = CLUSTER if panel == "clusters" else 1, 0.0 if panel == "independent" else SHARED
    difficulty = np.repeat(rng.normal(size=-(-n_items // cluster)), cluster)[:n_items]
    latent = np.sqrt(rho) * difficulty + np.sqrt(1 - rho) * rng.normal(size=(len(p), n_items))
    truth = rng.integers(0, n_classes, n_items)
    wrong = (truth + rng.integers(1, n_classes, size=latent.shape)) % n_classes
    votes = np.where(latent < norm.ppf(p)[:, None], truth, wrong)
    return truth, votes, rng.random(votes.shape) < MISSING if panel == "missing" else None


def estimate(truth, votes, holes, n_classes: int, groups):
    """Return the effective votes of a panel, as :func:`counterpoint.assess` does."""
    n_learners, n_items = votes.shape
    read = Outputs(votes, truth, np.arange(n_classes), missing=holes)
    counts = sufficient_statistics(read, correctness=True).correctness
    every, ones = slice(0, n_items), np.ones((1, n_learners))
    voters = read.voters(every)
    credit = vote_credit(vote_scores(read, ones, every, ("hard",))["hard"][0], read.truth_codes)
    errors = correctness_correlations(counts)
    histogram = np.bincount(voters, minlength=n_learners + 1)
    coverage = Coverage(counts.answered, counts.shared, histogram, 0, np.zeros(n_learners))
    known = uncertainty(read, counts, errors, groups, coverage, float(credit[voters > 0].mean()))
    names = tuple(map(str, range(n_learners)))
    return effective_votes(read, "hard", groups, names, known, coverage), mean_of_pairs(errors)


def truths(p: np.ndarray, n_classes: int, panel: str) -> dict[str, float]:
    """Return the true numbers of a panel."""
    n_items = max(TRUTH_ITEMS // len(p), 20_000)
    truth, votes, holes = draw(np.random.default_rng(1), p, n_items, n_classes, panel)
    _, c = estimate(truth, votes, holes, n_classes, None)
    # With so many items the best is known; its own signal follows from its accuracy.
    best = float(signal_from_correlation((n_classes * p.max() - 1) / (n_classes - 1)))
    here = np.ones(votes.shape) if holes is None else ~holes
    share = np.stack([((votes == k) * here).sum(axis=0) for k in range(n_classes)]) / np.maximum(
        here.sum(axis=0), 1
    )
    share, one_hot = share[:, here.any(axis=0)], (truth == np.arange(n_classes)[:, None])[:, here.any(axis=0)]
    around, true = (x - x.mean(axis=1, keepdims=True) for x in (share, one_hot.astype(float)))
    rho = (around * true).sum() / np.sqrt((around**2).sum() * (true**2).sum())
    voters = float(here.sum(axis=0)[here.any(axis=0)].mean())
    return {
        "votes": float(signal_from_correlation(rho)) / best,
        "independence": voters / (1 + (voters - 1) * c),
        "error_correlation": c,
        "mean_accuracy": float(p.mean()),
    }


def study(n_classes: int, n_learners: int, n_items: int, kind: str, panel: str, n_runs: int) -> dict:
    """Return how often the intervals of a panel hold the truth."""
    p = accuracies(kind, n_learners)
    rng = np.random.default_rng([n_classes, n_learners, n_items, ACCURACIES.index(kind), PANELS.index(panel)])
    true = truths(p, n_classes, panel)
    groups = np.arange(n_items) // CLUSTER if panel == "clusters" else None
    held, below = dict.fromkeys(NUMBERS, 0), dict.fromkeys(NUMBERS, 0)
    values, defined = [], dict.fromkeys(NUMBERS, 0)
    for _ in range(n_runs):
        found, _ = estimate(*draw(rng, p, n_items, n_classes, panel), n_classes, groups)
        values.append(found.votes.value)
        for name in NUMBERS:
            one = getattr(found, name)
            defined[name] += not np.isnan(one.low)
            held[name] += bool(one.low <= true[name] <= one.high)
            below[name] += bool(true[name] < one.low)
    return {
        "classes": n_classes,
        "learners": n_learners,
        "items": n_items,
        "accuracies": kind,
        "panel": panel,
        "n_runs": n_runs,
        "true": true,
        "median_votes": float(np.nanmedian(values)),
        "defined": {name: defined[name] / n_runs for name in NUMBERS},
        "coverage": {name: held[name] / max(defined[name], 1) for name in NUMBERS},
        "too_high": {name: below[name] / max(defined[name], 1) for name in NUMBERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_intervals.json"))
    args = parser.parse_args()
    start, cells = time.perf_counter(), []
    settings = list(product((2, 3, 10), (3, 6, 15, 100), (100, 1000), ACCURACIES, PANELS))
    with ProcessPoolExecutor(args.jobs) as pool:
        for cell in pool.map(partial(study, n_runs=args.runs), *zip(*settings, strict=True)):
            cells.append(cell)
            print(cell, f"{time.perf_counter() - start:.0f} s", flush=True)
    record = {
        "config": {
            "accuracies": {kind: accuracies(kind, 3).tolist() for kind in ACCURACIES},
            "latent_correlation": SHARED,
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
