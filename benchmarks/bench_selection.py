"""Time the selection from large pools, and judge what it chose on data it has not seen.

``python benchmarks/bench_selection.py`` times 50 picks from pools of 250 to 2,000 learners x 10,000
samples, split into the pass over the samples and the steps, and runs every method on pools of scikit-learn
classifiers: trained on 40 % of a data set, selected on 30 % and judged on the last 30 %, on 10 random splits.
"""

import argparse
import json
import os
import platform
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterpoint.datasets import load
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import Outputs
from counterpoint.selection import select
from counterpoint.selection._choosers import Greedy

N_SAMPLES, SIZE, REPEATS, SPLITS = 10_000, 50, 5, 10
DATA = ("breast-w", "glass", "segment")
CHOICES: dict[str, dict[str, Any]] = {
    "greedy, diversity 0": {"diversity": 0.0},
    "greedy, diversity 0.5": {"diversity": 0.5},
    "greedy, diversity 1": {"diversity": 1.0},
    "greedy, diversity 0.5, 20 bags": {"diversity": 0.5, "n_bags": 20},
    "caruana": {"method": "caruana"},
    "caruana, 20 bags": {"method": "caruana", "n_bags": 20},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench_selection.json"))
    out = parser.parse_args().out
    record = {
        "config": {"n_samples": N_SAMPLES, "size": SIZE, "repeats": REPEATS, "splits": SPLITS},
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn")},
        "speed": [bench_speed(n, n_classes) for n_classes in (2, 10) for n in (250, 500, 1000, 2000)],
        "held_out": {name: bench_held_out(name) for name in DATA},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


def bench_speed(n_learners: int, n_classes: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, n_classes, N_SAMPLES)
    guess = rng.integers(0, n_classes, (n_learners, N_SAMPLES))
    votes = np.where(rng.random(guess.shape) < rng.uniform(0.3, 0.7, (n_learners, 1)), y_true, guess)
    chooser = Greedy(Outputs(votes, y_true), 0.5)
    row = {
        "n_learners": n_learners,
        "n_classes": n_classes,
        "greedy_seconds": seconds(lambda: select(y_true, votes, SIZE), REPEATS),
        "greedy_microseconds_per_step": 1e6 * step_seconds(chooser),
        "caruana_seconds": seconds(lambda: select(y_true, votes, SIZE, method="caruana"), 1),
    }
    print(row)
    return row


def step_seconds(chooser: Greedy) -> float:
    """Return the time of a step: of 200 picks less that of 100, so that what is paid once drops out."""
    long, short = (
        seconds(lambda n=n: chooser.walk(chooser.pool, n), 100, time.process_time) for n in (200, 100)
    )
    return (long - short) / 100


def seconds(function: Any, repeats: int, clock: Any = time.perf_counter) -> float:
    """Return the best time of several runs."""
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def bench_held_out(name: str) -> dict[str, Any]:
    data = load(name)
    X = pd.get_dummies(data.X, dtype=float).fillna(0.0).to_numpy()
    rows: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    for seed in range(SPLITS):
        proba, codes, choose, judge = trained_pool(X, np.unique(data.y, return_inverse=True)[1], seed)
        labels = np.arange(proba.shape[2])
        found = {"whole pool": proba[:, judge].mean(axis=0).argmax(axis=1)}
        best = (proba[:, choose].argmax(axis=2) == codes[choose]).mean(axis=1).argmax()
        found["best learner"] = proba[best, judge].argmax(axis=1)
        for key, options in CHOICES.items():
            chosen = select(codes[choose], proba[:, choose], labels=labels, random_state=seed, **options)
            found[key] = chosen.vote(proba[:, judge])
            sizes.setdefault(key, []).append(len(chosen.indices))
        for key, votes in found.items():
            rows.setdefault(key, []).append(float(100 * np.mean(votes != codes[judge])))
    table = {
        key: {
            "error_percent": np.mean(errors),
            "sd": np.std(errors, ddof=1),
            "n": len(errors),
            "learners": np.mean(sizes.get(key, [1 if key == "best learner" else len(proba)])),
        }
        for key, errors in rows.items()
    }
    print(name, json.dumps(table, indent=1))
    return {"n_learners": len(proba), "n_samples_selected_on": len(choose), "methods": table}


def trained_pool(X: Any, codes: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """Train a pool; return its probabilities on all rows and the rows to choose and to judge on."""
    train, rest = train_test_split(np.arange(len(codes)), train_size=0.4, random_state=seed)
    train = np.union1d(train, np.unique(codes, return_index=True)[1])  # every class at least once
    choose, judge = train_test_split(np.setdiff1d(rest, train), train_size=0.5, random_state=seed)
    pool = [
        DecisionTreeClassifier(max_depth=d, max_features=f, random_state=seed + i)
        for d in (1, 2, 4, 8, None)
        for f in (1, 3, "sqrt", None)
        for i in range(3)
    ]
    scale = StandardScaler()
    pool += [make_pipeline(scale, KNeighborsClassifier(k)) for k in (1, 3, 5, 9, 15, 31)]
    pool += [make_pipeline(scale, LogisticRegression(C=c, max_iter=5000)) for c in (1e-3, 0.01, 0.1, 1, 10)]
    pool += [GaussianNB(var_smoothing=s) for s in (1e-9, 1e-3, 1e-1)]
    proba = np.array([clone(learner).fit(X[train], codes[train]).predict_proba(X) for learner in pool])
    return proba, codes, choose, judge


if __name__ == "__main__":
    # Stumps may be constant where a data set has many classes.
    warnings.simplefilter("ignore", UndefinedMeasureWarning)
    main()
