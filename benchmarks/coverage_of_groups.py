"""Error rates where samples belong together: ``python benchmarks/coverage_of_groups.py``.

Panels are drawn from a model whose truth is known. Samples come in clusters of 1, 2, 5 or 10, or of Zipf-distributed
sizes. Half of the variance of what makes a sample hard for a learner is shared by the cluster; in clusters of two all
of it is, so that each sample is there twice. Truth and wrong answers are alike in a cluster as well. Three questions:

- ``tests``: how often does the paired test find a difference between two votes that are equally accurate?
- ``advice``: how often is it advised to leave out or to reweight learners that are equals?
- ``gains``: how often does the interval of ``select``'s ``against_pool`` hold the gain of the panel that is returned,
  on a large other sample, and that of ``accuracy`` its accuracy?
"""

import argparse
import json
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import norm

from counterpoint import __version__
from counterpoint.assessment import compare_votes
from counterpoint.assessment.changes import judge_changes
from counterpoint.outputs import Outputs, RunningVote
from counterpoint.selection import select

CLUSTERS = (1, 2, 5, 10, "zipf")
FRESH = 100_000  # samples that say how good a panel is
VOTES = (3, 4)  # learners of each vote; of four, votes tie
EQUALS = ((3, 2, 60), (4, 2, 200), (6, 3, 400), (9, 2, 1000), (15, 3, 2000))  # learners, classes, samples
POOLS = {
    "equals": [0.7] * 5,
    "two coins": [0.8, 0.75, 0.7, 0.5, 0.5],
    "mixed": [0.9, 0.8, 0.7, 0.7, 0.65, 0.6, 0.6, 0.55],
}


def clusters_of(rng: np.random.Generator, n: int, cluster: int | str) -> np.ndarray:
    """Return the cluster of each sample."""
    if cluster != "zipf":
        return np.arange(n) // cluster
    shares = 1 / np.arange(1, n // 4 + 1)
    return np.unique(rng.choice(len(shares), n, p=shares / shares.sum()), return_inverse=True)[1]


def draw(
    rng: np.random.Generator,
    accuracies: list[float],
    n: int,
    n_classes: int,
    cluster: int | str,
    shared: float,
):
    """Return the truth, the votes and the clusters of a panel whose learners share a part of what is hard."""
    groups, n_learners = clusters_of(rng, n, cluster), len(accuracies)
    n_groups, alike = groups.max() + 1, {1: 0.0, 2: 1.0}.get(cluster, 0.5)

    def latent(rows: int) -> np.ndarray:
        common = rng.normal(size=(rows, n_groups))[:, groups]
        return np.sqrt(alike) * common + np.sqrt(1 - alike) * rng.normal(size=(rows, n))

    right = np.sqrt(shared) * latent(1) + np.sqrt(1 - shared) * latent(n_learners)
    right = right < norm.ppf(accuracies)[:, None]
    truth = rng.integers(0, n_classes, n_groups)[groups]
    other = rng.integers(1, n_classes, (n_learners, n_groups))[:, groups]
    own = rng.integers(1, n_classes, (n_learners, n))
    wrong = np.where(rng.random(own.shape) < alike, other, own)
    return truth, np.where(right, truth, (truth + wrong) % n_classes), None if cluster == 1 else groups


def tests(cluster: int | str, n: int, n_runs: int) -> dict:
    """Return how often two votes that are equally accurate are told apart."""
    rng, found = np.random.default_rng([n, CLUSTERS.index(cluster)]), np.zeros(len(VOTES))
    naive = found.copy()
    for _ in range(n_runs):
        for at, size in enumerate(VOTES):
            truth, votes, groups = draw(rng, [0.75] * 2 * size, n, 2, cluster, 0.2)
            ensembles = {"a": votes[:size], "b": votes[size:]}
            found[at] += compare_votes(truth, ensembles, groups=groups).pairs[0].p_value < 0.05
            naive[at] += compare_votes(truth, ensembles).pairs[0].p_value < 0.05
    rates = {"odd": found[0] / n_runs, "even": found[1] / n_runs, "without_groups": naive[0] / n_runs}
    return {"cluster": cluster, "samples": n, "n_runs": n_runs, **rates}


def advice(cluster: int | str, panel: tuple[int, int, int], n_runs: int) -> dict:
    """Return how often a change of a panel of equals is advised."""
    n_learners, n_classes, n = panel
    rng, found = np.random.default_rng([*panel, CLUSTERS.index(cluster)]), np.zeros(2)
    for _ in range(n_runs):
        truth, votes, groups = draw(rng, [0.75] * n_learners, n, n_classes, cluster, 0.2)
        changes = judge_changes(Outputs(votes, truth, np.arange(n_classes)), "hard", groups)
        found += changes.leave_out_gain.is_gain, changes.reweighting.is_gain
    rates = dict(zip(("leave_out", "reweight"), (found / n_runs).tolist(), strict=True))
    sizes = {"learners": n_learners, "classes": n_classes, "samples": n}
    return {"cluster": cluster, **sizes, "n_runs": n_runs, **rates}


def gains(cluster: int | str, pool: str, n: int, n_runs: int) -> dict:
    """Return how often the intervals of a selection hold the truth."""
    accuracies, n_classes = POOLS[pool], 3 if pool == "two coins" else 2
    rng, held = np.random.default_rng([n, len(pool), CLUSTERS.index(cluster)]), np.zeros(2)
    fresh_truth, fresh_votes, _ = draw(rng, accuracies, FRESH, n_classes, 1, 0.2)
    fresh = Outputs(fresh_votes, fresh_truth, np.arange(n_classes))
    whole = RunningVote(fresh, "hard", np.ones(len(accuracies))).credit().mean()
    judged, known = 0, {}
    for _ in range(n_runs):
        truth, votes, groups = draw(rng, accuracies, n, n_classes, cluster, 0.2)
        found = select(truth, votes, labels=np.arange(n_classes), groups=groups)
        if np.isnan(found.accuracy.low):
            continue
        weights = np.zeros(len(accuracies))
        weights[found.indices] = found.weights
        if (key := tuple(weights.round(6))) not in known:
            known[key] = RunningVote(fresh, "hard", weights).credit().mean()
        judged += 1
        gain, accuracy = found.against_pool, found.accuracy
        held += gain.low <= known[key] - whole <= gain.high, accuracy.low <= known[key] <= accuracy.high
    shares = dict(zip(("gain", "accuracy"), (held / judged).tolist(), strict=True))
    return {"cluster": cluster, "pool": pool, "samples": n, "n_runs": judged, **shares}


def _run(job: tuple) -> tuple[str, dict]:
    function, *given = job
    return function.__name__, function(*given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_groups.json"))
    args = parser.parse_args()
    start = time.perf_counter()
    jobs = [(tests, *one, 5 * args.runs) for one in product(CLUSTERS, (100, 400, 2000))]
    jobs += [(advice, *one, args.runs) for one in product(CLUSTERS, EQUALS)]
    jobs += [(gains, *one, args.runs) for one in product(CLUSTERS, POOLS, (100, 400, 1500))]
    cells: dict[str, list[dict]] = {"tests": [], "advice": [], "gains": []}
    with ProcessPoolExecutor(args.jobs) as pool:
        for kind, cell in pool.map(_run, jobs):
            cells[kind].append(cell)
            print(kind, cell, f"{time.perf_counter() - start:.0f} s", flush=True)
    record = {
        "config": {"accuracy": 0.75, "shared": 0.2, "pools": POOLS, "fresh": FRESH},
        **cells,
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
