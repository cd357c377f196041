"""Judge what select chose on halves that it has not seen, beside Caruana's selection and non-negative stacking.

``python benchmarks/bench_selection.py --data FOLDER`` trains pools of trees, networks and mixed classifiers on 40 % of
a table, chooses on one half of the other rows and judges on the other half, and the reverse, for 5 random splits: as
probabilities with the soft vote, and as labels with the hard vote. ``FOLDER/uci/more`` has tables and
``FOLDER/panels/judgebench.csv`` a panel of LLM judges; what is not there is skipped. The settings of ``select`` were
chosen on the pools under "development"; those under "judged" had no part in it.
"""

import argparse
import json
import os
import platform
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterpoint.datasets import COMPUTED, compute, load
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import Outputs, RunningVote
from counterpoint.selection import select
from counterpoint.selection._choosers import Caruana
from counterpoint.selection._crossfit import CrossFit, Settings

PICKS, SPLITS, MOST_ROWS = 50, 5, 3_000
DEVELOPMENT = (
    ("ringnorm", "forest"),
    ("ringnorm", "networks"),
    ("agrawal-7", "mixed"),
    ("tic-tac-toe", "mixed"),
    ("multiplexer-11", "networks"),
    ("poker", "mixed"),
    ("glass", "mixed"),
    ("anneal", "mixed"),
    ("heart-c", "mixed"),
    ("twonorm", "forest"),
    ("waveform", "networks"),
    ("krkopt", "forest"),
)
JUDGED = (
    ("digits", "forest"),
    ("digits", "networks"),
    ("wdbc", "mixed"),
    ("breast-w", "mixed"),
    ("segment", "mixed"),
    ("segment", "forest"),
    ("soybean", "mixed"),
    ("led7", "mixed"),
    ("threenorm", "networks"),
    ("threenorm", "forest"),
    ("waveform", "mixed"),
    ("balance-scale", "mixed"),
    ("credit-a", "mixed"),
    ("splice", "forest"),
    ("judgebench", "judges"),
)
RIVALS = ("caruana", "stacking")


class Pool(NamedTuple):
    """Outputs of a pool, learners first, and the truth as 0, 1, ..."""

    outputs: Any
    truth: Any
    n_classes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with uci/more and panels")
    parser.add_argument("--out", type=Path, default=Path("results/bench_selection.json"))
    parser.add_argument("--only", choices=("development", "judged"), help="renew this part of the record")
    given = parser.parse_args()
    record: dict[str, Any] = {
        "config": {"picks_of_caruana": PICKS, "splits": SPLITS, "most_rows": MOST_ROWS},
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "scipy", "scikit-learn")},
    }
    if given.only and given.out.exists():
        record = json.loads(given.out.read_text()) | record
    for part, wanted in (("development", DEVELOPMENT), ("judged", JUDGED)):
        if given.only not in (part, None):
            continue
        pools: dict[str, Any] = {}
        for name, kind in wanted:
            pools |= bench_pool(name, kind, given.data)
        record[part] = {"summary": summary(pools), "pools": pools}
        print(part, json.dumps(record[part]["summary"], indent=1), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=1) + "\n")


def bench_pool(name: str, kind: str, folder: Path) -> dict[str, Any]:
    """Return the results of one pool, as probabilities and as labels; nothing if its data are not there."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(SPLITS):
        pool = judges(folder) if kind == "judges" else trained_pool(name, kind, seed, folder)
        if pool is None:
            print(f"skipped {name}: no data", flush=True)
            return {}
        shuffled = np.random.default_rng(seed).permutation(len(pool.truth))
        halves = shuffled[: len(shuffled) // 2], shuffled[len(shuffled) // 2 :]
        forms = {"labels": pool.outputs if kind == "judges" else pool.outputs.argmax(axis=2)}
        if kind in ("networks", "mixed"):  # the probabilities of grown trees are their votes
            forms["probabilities"] = pool.outputs
        for form, outputs in forms.items():
            for choose, judge in (halves, halves[::-1]):
                found = run_methods(pool._replace(outputs=outputs), choose, judge)
                runs.setdefault(f"{name}, {kind}, {form}", []).append(found)
    rows = {}
    for key, found in runs.items():
        rows[key] = {
            "n_learners": len(pool.outputs),
            "n_samples_chosen_on": len(halves[0]),
            "methods": {
                method: {measure: np.mean([run[method][measure] for run in found]) for measure in run_of}
                for method, run_of in found[0].items()
            },
        }
        print(
            key, {m: [round(v, 3) for v in r.values()] for m, r in rows[key]["methods"].items()}, flush=True
        )
    return rows


def run_methods(pool: Pool, choose: Any, judge: Any) -> dict[str, dict[str, float]]:
    """Return accuracy in percent and number of learners of each method, chosen on one half and judged on the other."""
    y, chosen_on, judged_on = pool.truth[choose], pool.outputs[:, choose], pool.outputs[:, judge]
    labels, n = np.arange(pool.n_classes), len(pool.outputs)
    votes = chosen_on if chosen_on.ndim == 2 else chosen_on.argmax(axis=2)
    weights = {"whole pool": np.full(n, 1 / n), "best learner": np.eye(n)[(votes == y).mean(axis=1).argmax()]}
    weights["stacking"] = stacking(y, chosen_on, pool.n_classes)
    voting = "hard" if judged_on.ndim == 2 else "soft"
    rival = Caruana(Outputs(chosen_on, y, labels), voting)  # as select(method="caruana"), but not judged
    weights["caruana"] = rival.weigh(rival.walks(PICKS, None)[0])
    for key, options in (("greedy", {"method": "greedy"}), ("select", {})):
        chosen = select(y, chosen_on, labels=labels, **options)
        weights[key] = np.zeros(n)
        weights[key][chosen.indices] = chosen.weights
    wide = Settings("pursuit", voting, 0.0, "smallest", 1.0, np.ones(n))  # select(within=1), but not judged
    weights["select, within 1"] = CrossFit(rival.read, wide).choose().weights
    read = Outputs(judged_on, pool.truth[judge], labels)
    rows = {}
    for key, w in weights.items():
        accuracy = float(RunningVote(read, voting, w).credit().mean())
        rows[key] = {"accuracy": 100 * accuracy, "learners": int(np.count_nonzero(w > 1e-9))}
    reached = rows["select"]["accuracy"] / 100
    rows["select"] |= {
        "estimate": 100 * chosen.accuracy.value,
        "fitted": 100 * chosen.fitted_accuracy,
        "inside": float(chosen.accuracy.low <= reached <= chosen.accuracy.high),
    }
    return rows


def stacking(y: Any, outputs: Any, n_classes: int) -> Any:
    """Return the weights of non-negative least squares on what the learners give to each class; they sum to one."""
    columns = np.eye(n_classes)[outputs] if outputs.ndim == 2 else outputs
    found, _ = nnls(
        columns.reshape(len(columns), -1).T.astype(np.float64), np.eye(n_classes)[y].ravel(), maxiter=3000
    )
    return found / found.sum() if found.sum() > 0 else np.full(len(columns), 1 / len(columns))


def summary(pools: dict[str, Any]) -> dict[str, Any]:
    """Return how select compares with its rivals over the pools, for each form of outputs and for their mean."""
    rows: dict[str, Any] = {}
    for form in ("labels", "probabilities", "all"):
        found: dict[str, list[Any]] = {}
        for key, pool in pools.items():
            if form in ("all", key.rsplit(", ", 1)[1]):
                found.setdefault(key.rsplit(", ", 1)[0], []).append(pool["methods"])
        methods = [mean_of_forms(forms) for forms in found.values()]  # forms of one pool are not independent
        row: dict[str, Any] = {"n_pools": len(methods)}
        for ours in ("select", "select, within 1"):
            row[ours] = {rival: against(methods, ours, rival) for rival in (*RIVALS, "whole pool", "greedy")}
        mine = [one["select"] for one in methods]
        row["estimate_minus_held_out"] = np.mean([one["estimate"] - one["accuracy"] for one in mine])
        row["fitted_minus_held_out"] = np.mean([one["fitted"] - one["accuracy"] for one in mine])
        rows[form] = row
    return rows


def mean_of_forms(forms: list[Any]) -> dict[str, dict[str, float]]:
    """Return the results of a pool, averaged over the forms of its outputs."""
    return {
        method: {measure: float(np.mean([form[method][measure] for form in forms])) for measure in measures}
        for method, measures in forms[0].items()
    }


def against(methods: list[Any], ours: str, rival: str) -> dict[str, float]:
    """Return the mean difference in accuracy over the pools with its 95 % interval, and the shares of learners."""
    d = np.array([one[ours]["accuracy"] - one[rival]["accuracy"] for one in methods])
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    mine, theirs = (np.array([one[m]["learners"] for one in methods]) for m in (ours, rival))
    return {
        "difference": d.mean(),
        "low": d.mean() - half,
        "high": d.mean() + half,
        "learners": mine.mean(),
        "learners_of_rival": theirs.mean(),
        "share_of_learners": mine.mean() / theirs.mean(),
        "mean_share": np.mean(mine / theirs),
    }


def trained_pool(name: str, kind: str, seed: int, folder: Path) -> Pool | None:
    """Return the probabilities of a pool on rows that it was not trained on."""
    found = table(name, folder)
    if found is None:
        return None
    X, codes = found
    train, rest = train_test_split(np.arange(len(codes)), train_size=0.4, random_state=seed)
    train = np.union1d(train, np.unique(codes, return_index=True)[1])  # every class at least once
    rest = np.setdiff1d(rest, train)
    learners = {"forest": forest, "networks": networks, "mixed": mixed}[kind](X[train], codes[train], seed)
    proba = np.array([learner.predict_proba(X[rest]) for learner in learners])
    return Pool(proba, codes[rest], codes.max() + 1)


def table(name: str, folder: Path) -> tuple[Any, Any] | None:
    """Return numbers and codes of the classes, at most 3,000 rows; None if the table is not there."""
    if name in ("digits", "wdbc"):
        X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    elif name in COMPUTED:
        X, y = compute(name)
    elif (path := folder / "uci" / "more" / f"{name}.csv").exists():
        X = pd.read_csv(path).iloc[:, 1 if name == "splice" else 0 :]  # whose first column is a name
        y = X.pop("class").astype(str)
    else:
        try:
            data = load(name)
        except (ValueError, OSError):
            return None
        X, y = data.X, data.y
    X = pd.get_dummies(pd.DataFrame(X), dtype=float).fillna(0.0).to_numpy()
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    if len(codes) > MOST_ROWS:
        rows = np.random.default_rng(0).choice(len(codes), MOST_ROWS, replace=False)
        X, codes = X[rows], np.unique(codes[rows], return_inverse=True)[1]
    return X, codes


def forest(X: Any, y: Any, seed: int) -> list[Any]:
    return list(RandomForestClassifier(40, random_state=seed).fit(X, y).estimators_)


def networks(X: Any, y: Any, seed: int) -> list[Any]:
    """Return 24 networks of several sizes, trained for a short or a long time on resampled rows."""
    rng, found = np.random.default_rng(seed), []
    for i in range(24):
        net = MLPClassifier(
            ((4, 16, 64)[i % 3],),
            alpha=(1e-4, 1e-1)[i // 3 % 2],
            max_iter=(15, 60)[i // 6 % 2],
            learning_rate_init=1e-2,
            random_state=seed + i,
        )
        rows = np.union1d(rng.integers(0, len(y), len(y)), np.unique(y, return_index=True)[1])
        found.append(make_pipeline(StandardScaler(), net).fit(X[rows], y[rows]))
    return found


def mixed(X: Any, y: Any, seed: int) -> list[Any]:
    """Return 44 classifiers of many kinds."""
    pool: list[Any] = [
        DecisionTreeClassifier(max_depth=depth, max_features=share, random_state=seed + i)
        for depth in (1, 3, 6, None)
        for share in (0.2, "sqrt", None)
        for i in range(2)
    ]
    scale = StandardScaler()
    pool += [make_pipeline(scale, KNeighborsClassifier(k)) for k in (1, 3, 5, 9, 15, 31)]
    pool += [make_pipeline(scale, LogisticRegression(C=c, max_iter=1000)) for c in (1e-3, 0.01, 0.1, 1, 10)]
    pool += [GaussianNB(var_smoothing=s) for s in (1e-9, 1e-3, 1e-1)]
    for width in (8, 32):
        net = MLPClassifier((width,), max_iter=40, learning_rate_init=1e-2, random_state=seed)
        pool.append(make_pipeline(scale, net))
    pool += [RandomForestClassifier(n, max_depth=d, random_state=seed) for n in (10, 50) for d in (4, None)]
    return [clone(learner).fit(X, y) for learner in pool]


def judges(folder: Path) -> Pool | None:
    """Return six LLM judges, each asked in both orders, on 350 pairs of answers; a tie is a label of its own."""
    path = folder / "panels" / "judgebench.csv"
    if not path.exists():
        return None
    rows = pd.read_csv(path)
    turned = rows["decision"].replace({"A>B": "B>A", "B>A": "A>B"})
    rows["decision"] = rows["decision"].where(rows["order"] == 0, turned)
    votes = rows.pivot_table("decision", "pair_id", ["judge", "order"], aggfunc="first")
    truth = rows.groupby("pair_id")["truth"].first().loc[votes.index]
    names = ["A>B", "B>A", "A=B"]
    codes = votes.fillna("A=B").apply(lambda column: column.map(names.index)).to_numpy().T
    return Pool(codes, truth.map(names.index).to_numpy(), len(names))


if __name__ == "__main__":
    # Stumps may be constant where a data set has many classes, and short training does not converge.
    warnings.simplefilter("ignore", UndefinedMeasureWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    main()
