"""Coverage of the 95 % intervals of predicted votes: ``python benchmarks/coverage_of_predictions.py``.

Real ensembles, trained on a third of a table and judged on the rest, and a panel of judges, are cut into halves:

- *predicted*: the interval of the vote that theory predicts from one half of the samples, and the vote on the other;
- *more*: what one or two more learners change in the vote of half of the learners by ``prediction.more``, and what the
  other half do change, on average over 40 choices of them, on the same samples;
- *curve*: ``prediction.sizing`` from half of the learners on one half of the samples, and the vote of all learners on
  the other; *between* is that of three quarters of the learners.

What is seen with other samples or learners has an error of its own: it must lie within the interval widened by that, in
quadrature. In a second run, learners skip a third of the hard samples and a twentieth of the others; a sample is hard
if at least half of them err. The tables of ``SEEN`` were looked at while the intervals were made. Those of ``UNSEEN``
were looked at when they were done; afterwards only the numbers of votes of different parity were told apart.
"""

import argparse
import csv
import json
import platform
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from counterpoint import __version__, assess
from counterpoint.assessment import Estimate
from counterpoint.datasets import load
from counterpoint.outputs import vote_credit

TREES, NETWORKS = 20, 12
NUMBERS = ("predicted", "more", "between", "curve")
ROUNDING = 1e-9
BUNDLED = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
SEEN = (
    *(("digits", kind) for kind in ("forest", "networks", "mixed")),
    *(("segment", kind) for kind in ("networks", "mixed")),
    *(("splice", kind) for kind in ("bagging", "mixed")),
    *(("credit-a", kind) for kind in ("forest", "mixed")),
    ("soybean", "mixed"),
    ("iris", "mixed"),
    ("heart-c", "extra"),
    ("judgebench", "judges"),
)
UNSEEN = (
    *(("breast-w", kind) for kind in ("forest", "networks", "mixed")),
    *(("colic", kind) for kind in ("forest", "bagging", "mixed")),
    *(("autos", kind) for kind in ("extra", "mixed")),
    *(("hepatitis", kind) for kind in ("bagging", "mixed")),
    *(("lymph", kind) for kind in ("forest", "extra")),
    *(("audiology", kind) for kind in ("bagging", "mixed")),
)


def table(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return features without holes and labels as numbers."""
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    import pandas as pd

    found = load(
        name, next(folder for folder in (data / "uci").iterdir() if (folder / f"{name}.csv").exists())
    )
    features = SimpleImputer(keep_empty_features=True).fit_transform(pd.get_dummies(found.X).to_numpy(float))
    return features, np.unique(found.y, return_inverse=True)[1]


def ensemble(kind: str):
    """Return an unfitted ensemble of scikit-learn."""
    if kind == "forest":
        return RandomForestClassifier(TREES, random_state=0)
    if kind == "extra":
        return ExtraTreesClassifier(TREES, random_state=0)
    if kind == "bagging":
        return BaggingClassifier(n_estimators=TREES, random_state=0)
    if kind == "networks":
        return BaggingClassifier(MLPClassifier((10,), max_iter=60), n_estimators=NETWORKS, random_state=0)
    mixed = [
        GaussianNB(var_smoothing=1e-3),
        KNeighborsClassifier(1),
        KNeighborsClassifier(9),
        LogisticRegression(max_iter=200),
        LogisticRegression(C=0.01, max_iter=200),
        RidgeClassifier(),
        LinearDiscriminantAnalysis(shrinkage="auto", solver="lsqr"),
        SVC(),
        SVC(kernel="poly"),
        DecisionTreeClassifier(random_state=0),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        NearestCentroid(),
        MLPClassifier((10,), max_iter=60, random_state=0),
        RandomForestClassifier(10, random_state=0),
    ]
    return VotingClassifier([(str(i), learner) for i, learner in enumerate(mixed)])


def votes_of(name: str, kind: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth and the votes of the learners, one row each."""
    if kind == "judges":
        with (data / "panels" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["order"] == "0"]
        pairs, judges = (list(dict.fromkeys(row[key] for row in rows)) for key in ("pair_id", "judge"))
        truth = {row["pair_id"]: row["truth"] for row in rows}
        given = {(row["judge"], row["pair_id"]): row["decision"] for row in rows}
        return np.array([truth[pair] for pair in pairs]), np.array(
            [[given[j, pair] for pair in pairs] for j in judges]
        )
    features, labels = table(name, data)
    known, unknown, truth, hidden = train_test_split(features, labels, test_size=2 / 3, random_state=0)
    scaler = StandardScaler().fit(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of networks that could train longer
        fitted = ensemble(kind).fit(scaler.transform(known), truth)
        votes = [
            fitted.classes_[one.predict(scaler.transform(unknown)).astype(int)] for one in fitted.estimators_
        ]
    return hidden, np.array(votes)


def assessed(truth: np.ndarray, votes: np.ndarray, skipped: np.ndarray | None):
    """Return an assessment; what it warns of, such as classes without samples, does not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if skipped is None:
            return assess(truth, votes)
        return assess(truth.astype(str), np.where(skipped, "", votes.astype(str)), abstain="")


def hard_vote(truth: np.ndarray, votes: np.ndarray, skipped: np.ndarray | None) -> np.ndarray:
    """Return the credit of the vote on the samples that have one; a tie is shared."""
    here = np.ones(votes.shape, bool) if skipped is None else ~skipped
    labels = np.unique(np.append(truth, votes))
    counts = np.stack([((votes == label) & here).sum(axis=0) for label in labels])
    return vote_credit(counts, np.searchsorted(labels, truth))[here.any(axis=0)]


def cut(truth, votes, skipped, rng: np.random.Generator) -> Iterator[tuple[str, bool, float]]:
    """Yield for one cut what was predicted, whether its interval holds, and half its width."""
    n_learners, n = votes.shape
    some, others = np.array_split(rng.permutation(n), 2)
    order, samples, few = rng.permutation(n_learners), np.arange(n), n_learners // 2

    def part(function, samples: np.ndarray, learners: np.ndarray):
        chosen = np.ix_(learners, samples)
        return function(truth[samples], votes[chosen], None if skipped is None else skipped[chosen])

    def seen(learners: np.ndarray) -> tuple[float, float]:
        credit = part(hard_vote, others, learners)
        return credit.mean(), 1.96 * credit.std() / np.sqrt(len(credit))

    yield "predicted", *held(part(assessed, some, order).intervals.predicted, *seen(order))
    half = part(assessed, samples, order[:few])
    choices = [rng.permutation(order[few:])[: half.prediction.added] for _ in range(40)]
    grown = [part(hard_vote, samples, np.append(order[:few], more)).mean() for more in choices]
    error = 1.96 * np.std(grown) / np.sqrt((n_learners - few) / half.prediction.added)
    yield "more", *held(half.prediction.more, np.mean(grown) - half.votes.hard.value, error)
    sizes, *curves = part(assessed, some, order[:few]).prediction.sizing
    for name, size in (("between", (3 * n_learners) // 4), ("curve", n_learners)):
        one = Estimate(*(float(np.interp(np.log(size), np.log(sizes), curve)) for curve in curves))
        yield name, *held(one, *seen(order[:size]))


def held(one: Estimate, seen: float, error: float) -> tuple[bool, float]:
    """Return whether an interval holds what was seen, which has an error, and half the width of the interval."""
    low, high = (
        one.value - np.hypot(one.value - one.low, error),
        one.value + np.hypot(one.high - one.value, error),
    )
    return bool(low - ROUNDING <= seen <= high + ROUNDING), (one.high - one.low) / 2


def study(name: str, kind: str, *, data: Path, n_cuts: int) -> dict:
    """Return how often the predictions of an ensemble hold, over random cuts."""
    truth, votes = votes_of(name, kind, data)
    rng = np.random.default_rng(0)
    wrong = (votes != truth).mean(axis=0)
    skipped = rng.random(votes.shape) < np.where(wrong >= 0.5, 1 / 3, 1 / 20)
    found = {}
    for how, holes in (("complete", None), ("skipped", skipped)):
        cuts = [result for _ in range(n_cuts) for result in cut(truth, votes, holes, rng)]
        found[how] = {
            number: {
                "coverage": float(np.mean([holds for one, holds, _ in cuts if one == number])),
                "half_width": float(np.mean([width for one, _, width in cuts if one == number])),
            }
            for number in NUMBERS
        }
    return {
        "table": name,
        "ensemble": kind,
        "learners": len(votes),
        "samples": len(truth),
        "classes": len(np.unique(truth)),
        "seen": (name, kind) in SEEN,
        **found,
    }


def overall(cells: list[dict], how: str, number: str) -> dict[str, float]:
    """Return the mean coverage over ensembles with its standard error, and the share of them with at least 90 %."""
    each = np.array([cell[how][number]["coverage"] for cell in cells])
    return {
        "mean": float(each.mean()),
        "standard_error": float(each.std(ddof=1) / np.sqrt(len(each))),
        "share_of_ensembles_with_90": float(np.mean(each >= 0.9)),
        "median_half_width": float(np.median([cell[how][number]["half_width"] for cell in cells])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="a folder with uci/*/*.csv and panels/judgebench.csv")
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results/coverage_of_predictions.json"))
    args = parser.parse_args()
    start, cells = time.perf_counter(), []
    with ProcessPoolExecutor(args.jobs) as pool:
        for cell in pool.map(
            partial(study, data=args.data, n_cuts=args.cuts), *zip(*SEEN, *UNSEEN, strict=True)
        ):
            cells.append(cell)
            print(cell, f"{time.perf_counter() - start:.0f} s", flush=True)
    record = {
        "config": {"cuts": args.cuts, "trees": TREES, "networks": NETWORKS},
        "overall": {
            part: {
                how: {number: overall(of_part, how, number) for number in NUMBERS}
                for how in ("complete", "skipped")
            }
            for part, of_part in (
                ("all", cells),
                ("unseen", [cell for cell in cells if not cell["seen"]]),
            )
        },
        "cells": cells,
        "seconds": time.perf_counter() - start,
        "versions": {
            "counterpoint": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["overall"], indent=1))


if __name__ == "__main__":
    main()
