"""Compare dials of DiverseEnsembleRegressor with independent training and a random forest.

``python benchmarks/compare_regressors.py`` trains networks of several sizes on six tables that need no download. All
dials of a fold start from the same networks and see the same batches for a fixed number of epochs, without pieces of
numeric columns. Then the estimator with its defaults is compared with the same without pieces, and for all epochs. No
setting was chosen on these tables. The score is 1 less the squared error on
held-out rows over the variance of the target. ``--tables`` prints the tables of docs/regression.md from the record.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.datasets import (
    load_diabetes,
    load_iris,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import RepeatedKFold

from counterpoint.estimators import (
    DiverseEnsembleRegressor,
    DiverseEnsembleRegressorCV,
    corrected_paired_test,
)
from counterpoint.training import SquaredErrorLoss

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "compare_regressors.json", ROOT / "docs" / "regression.md"
SPLITS, REPEATS, ROWS = 5, 2, 500
DEFAULTS = {
    name: value
    for name, value in DiverseEnsembleRegressor().get_params().items()
    if name in ("n_estimators", "epochs", "learning_rate", "batch_size", "weight_decay", "n_pieces")
}
DIAL = SquaredErrorLoss().effective_diversity(DEFAULTS["n_estimators"])
ARMS = {"0": 0.0, "0.5": 0.5, "default": DIAL, "1": 1.0}
STUDIES = ((64, 100), (64, 30), (4, 100), (1, 100))  # hidden units, epochs
FOREST = "random forest"
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "without pieces": {"n_pieces": 0},
    "all epochs": {"early_stopping": False},
    "all epochs, without pieces": {"early_stopping": False, "n_pieces": 0},
}


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features and target of each table. The noise of Friedman's functions is a third of their spread."""
    iris, wine = load_iris(return_X_y=True)[0], load_wine(return_X_y=True)[0]
    return {
        "diabetes": load_diabetes(return_X_y=True),
        "friedman1": make_friedman1(ROWS, noise=1.0, random_state=0),
        "friedman2": make_friedman2(ROWS, noise=125.0, random_state=0),
        "friedman3": make_friedman3(ROWS, noise=0.1, random_state=0),
        "iris (petal width)": (iris[:, :3], iris[:, 3]),
        "wine (alcohol)": (wine[:, 1:], wine[:, 0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="print the tables of the record and stop")
    arguments = parser.parse_args()
    if arguments.tables:
        print(markdown(json.loads(arguments.out.read_text(encoding="utf-8"))))
        return
    start = time.perf_counter()
    torch.set_num_threads(1)
    data = tables()
    record: dict[str, Any] = {
        "name": "compare_regressors",
        "config": {
            "rows": {name: len(y) for name, (_, y) in data.items()},
            "folds": {"n_splits": SPLITS, "n_repeats": REPEATS, "random_state": 0},
            "defaults": DEFAULTS,
            "diversity": DIAL,
            "random_state": 0,
        },
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "threads": 1, "device": "cpu"},
        "versions": {
            name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn", "torch")
        },
        "forest": {name: forest_scores(*one) for name, one in data.items()},
        "studies": [],
        "variants": {},
    }
    for variant, settings in VARIANTS.items():
        record["variants"][variant] = {
            name: scores_of(DiverseEnsembleRegressor(random_state=0, **settings), *one)
            for name, one in data.items()
        }
        print(f"{variant}: {time.perf_counter() - start:.0f} s", flush=True)
    for units, epochs in STUDIES:
        study = {name: network_scores(*one, units, epochs) for name, one in data.items()}
        record["studies"].append({"hidden_units": units, "epochs": epochs, "tables": study})
        print(f"{units} units, {epochs} epochs: {time.perf_counter() - start:.0f} s", flush=True)
    record["seconds"] = time.perf_counter() - start
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(markdown(record))


def folds() -> RepeatedKFold:
    """Return the folds that all methods share."""
    return RepeatedKFold(n_splits=SPLITS, n_repeats=REPEATS, random_state=0)


def network_scores(X: np.ndarray, y: np.ndarray, units: int, epochs: int) -> dict[str, Any]:
    """Return the scores of each dial on each fold, and the mean score of its single networks."""
    search = DiverseEnsembleRegressorCV(
        diversities=[d for d in ARMS.values() if d], cv=folds(), hidden_layer_sizes=(units,), epochs=(epochs,),
        n_pieces=0, random_state=0,
    ).fit(X, y)  # fmt: skip
    found = search.cv_results_
    scores = np.stack([found[f"split{k}_test_score"] for k in range(SPLITS * REPEATS)], axis=1)
    single = 1 - found["mean_learner_squared_error"] / y.var()
    return {
        arm: {"scores": row.round(5).tolist(), "single": round(float(own), 5)}
        for arm, row, own in zip(ARMS, scores, single, strict=True)
    }


def forest_scores(X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the scores of a random forest with its default settings on the same folds."""
    return scores_of(RandomForestRegressor(random_state=0), X, y)


def scores_of(estimator: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the scores of an estimator on the folds."""
    scores = []
    for train, test in folds().split(X):
        model = clone(estimator).fit(X[train], y[train])
        error = ((model.predict(X[test]) - y[test]) ** 2).mean()
        scores.append(round(float(1 - error / y.var()), 5))
    return scores


def against(scores: Sequence[float], baseline: Sequence[float]) -> Any:
    """Return the corrected test of scores against those of the baseline on the same folds."""
    return corrected_paired_test(np.subtract(scores, baseline), 1 / (SPLITS - 1))


def markdown(record: dict[str, Any]) -> str:
    """Return the three tables of the page."""
    return "\n\n".join("\n".join(part(record)) for part in (overview, variants, details))


def variants(record: dict[str, Any]) -> list[str]:
    """Return the defaults against the same without early stopping or pieces, and against a random forest."""
    rows = {**record["variants"], FOREST: record["forest"]}
    names = list(record["config"]["rows"])
    lines = ["| | mean | " + " | ".join(names) + " |", "|---|" + "---|" * (1 + len(names))]
    for label, found in rows.items():
        means = [100 * np.mean(found[name]) for name in names]
        cells = " | ".join(f"{value:.1f}" for value in means)
        lines.append(f"| {label} | {np.mean(means):.1f} | {cells} |")
    return lines


def signed(difference: float) -> str:
    """Return a difference in percent with its sign; a rounded zero is +0."""
    return f"{round(100 * difference, 1) + 0.0:+.1f}"


def overview(record: dict[str, Any]) -> list[str]:
    """Return the means over the tables, for each size and dial."""
    lines = [
        "| units | epochs | dial | R² % of the mean | R² % of a single network |",
        "|---|---|---|---|---|",
    ]
    for study in record["studies"]:
        mean = {
            arm: np.mean([one[arm]["scores"] for one in study["tables"].values()], axis=0) for arm in ARMS
        }
        for arm in ARMS:
            text = f"{100 * mean[arm].mean():.1f}"
            if arm != "0":
                test = against(mean[arm], mean["0"])
                text += f" ({signed(test.difference)} ± {100 * test.standard_error:.1f})"
            single = np.mean([one[arm]["single"] for one in study["tables"].values()])
            lines.append(
                f"| {study['hidden_units']} | {study['epochs']} | {arm} | {text} | {100 * single:.1f} |"
            )
    forest = np.mean(list(record["forest"].values()))
    return [*lines, f"| | | {FOREST} | {100 * forest:.1f} | |"]


def details(record: dict[str, Any]) -> list[str]:
    """Return the scores on each table, for each size at the default number of epochs."""
    lines = [
        "| units | table | rows | independent | default | 1 | random forest |",
        "|---|---|---|---|---|---|---|",
    ]
    for study in record["studies"]:
        if study["epochs"] != record["config"]["defaults"]["epochs"]:
            continue
        for name, one in study["tables"].items():
            base = one["0"]["scores"]
            cells = [f"{100 * np.mean(base):.1f} ± {100 * np.std(base, ddof=1):.1f}"]
            for scores in (one["default"]["scores"], one["1"]["scores"], record["forest"][name]):
                test = against(scores, base)
                cells.append(
                    f"{100 * np.mean(scores):.1f} ({signed(test.difference)}, p = {test.p_value:.2g})"
                )
            rows = record["config"]["rows"][name]
            lines.append(f"| {study['hidden_units']} | {name} | {rows} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
