"""Compare dials of DiverseEnsembleRegressor with independent training and a random forest.

``python benchmarks/compare_regressors.py`` trains networks of several sizes on six tables that need no download. All
dials of a fold start from the same networks and see the same batches for a fixed number of epochs, without pieces of
numeric columns. Then the estimator with its defaults is compared with the same without pieces, and for all epochs. No
setting was chosen on these tables. The score is 1 less the squared error on
held-out rows over the variance of the target. ``--tables`` prints the tables of docs/regression.md from the record.

``--rules FOLDER`` compares two rules for the choice of DiverseEnsembleRegressorCV and adds them to the record: the
lowest squared error on the folds of a search, and independent training unless a diversity leads by more than the
standard error of the difference. The tables are the six above, four of statsmodels and eight of the package ISLP, whose
folder ``ISLP/data`` is given. A choice is trained on all rows of the search and scored on others.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
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
from sklearn.model_selection import KFold, RepeatedKFold

from counterpoint.estimators import (
    DiverseEnsembleRegressor,
    DiverseEnsembleRegressorCV,
    choose_diversity,
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
RULES = ("lowest error", "margin")
RULE_UNITS = (64, 4)  # hidden units of the networks whose rules are compared
ISLP = {  # name: target, columns that are left out
    "Auto": ("mpg", ["name"]),
    "Bikeshare": ("bikers", ["casual", "registered"]),
    "Boston": ("medv", []),
    "Carseats": ("Sales", []),
    "College": ("Grad.Rate", []),
    "Credit": ("Balance", ["ID"]),
    "Hitters": ("Salary", []),
    "Wage": ("wage", ["logwage"]),
}
STATSMODELS = {"fair": "affairs", "grunfeld": "invest", "randhie": "mdvis", "star98": "NABOVE"}


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
    parser.add_argument(
        "--rules", type=Path, metavar="FOLDER", help="compare the rules of the search and stop"
    )
    arguments = parser.parse_args()
    if arguments.rules:
        record = json.loads(arguments.out.read_text(encoding="utf-8"))
        record["rules"] = compare_rules(arguments.rules)
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return
    if arguments.tables:
        print(markdown(json.loads(arguments.out.read_text(encoding="utf-8"))))
        return
    start = time.perf_counter()
    torch.set_num_threads(1)
    data = tables()
    known = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    record: dict[str, Any] = {
        "name": "compare_regressors",
        "config": {
            "rows": {name: len(y) for name, (_, y) in data.items()},
            "folds": {"n_splits": SPLITS, "n_repeats": REPEATS, "random_state": 0},
            "defaults": DEFAULTS,
            "diversity": DIAL,
            "random_state": 0,
        },
        **environment(),
        "forest": {name: forest_scores(*one) for name, one in data.items()},
        "studies": [],
        "variants": {},
        "rules": known.get("rules"),
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


def environment() -> dict[str, Any]:
    """Return what the measurements ran on."""
    return {
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "threads": 1, "device": "cpu"},
        "versions": {
            name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn", "torch")
        },
    }


def rule_tables(folder: Path) -> dict[str, tuple[Any, np.ndarray]]:
    """Return features and target of each table for the rules, with at most ``ROWS`` rows drawn at random."""
    found: dict[str, tuple[Any, np.ndarray]] = dict(tables())
    for name, target in STATSMODELS.items():
        frame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
        found[name] = frame.drop(columns=target), frame[target].to_numpy(np.float64)
    for name, (target, others) in ISLP.items():
        frame = pd.read_csv(folder / f"{name}.csv").dropna(subset=target)
        found[name] = frame.drop(columns=[target, *others]), frame[target].to_numpy(np.float64)
    return {name: some_rows(*one) for name, one in found.items()}


def some_rows(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    drawn = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return (X[drawn] if isinstance(X, np.ndarray) else X.iloc[drawn].reset_index(drop=True)), y[drawn]


def compare_rules(folder: Path) -> dict[str, Any]:
    """Return the scores of what each rule chooses, fold by fold, and the diversities that it chooses."""
    start = time.perf_counter()
    torch.set_num_threads(1)
    data = rule_tables(folder)
    studies = []
    for units in RULE_UNITS:
        study = {}
        for name, one in data.items():
            study[name] = rule_scores(*one, units)
            means = {rule: round(float(np.mean(own["scores"])), 4) for rule, own in study[name].items()}
            print(f"{units} units, {name}: {means}, {time.perf_counter() - start:.0f} s", flush=True)
        studies.append({"hidden_units": units, "tables": study})
    return {
        "config": {
            "rows": {name: len(y) for name, (_, y) in data.items()},
            "folds": {"n_splits": SPLITS, "random_state": 0},
            "random_state": 0,
        },
        **environment(),
        "studies": studies,
        "seconds": time.perf_counter() - start,
    }


def rule_scores(X: Any, y: np.ndarray, units: int) -> dict[str, dict[str, list[float]]]:
    """Return scores and diversities of the two rules on the folds. Equal choices are equal models."""
    found: dict[str, dict[str, list[float]]] = {rule: {"scores": [], "diversities": []} for rule in RULES}
    rows = pd.DataFrame(X)
    for train, test in KFold(SPLITS, shuffle=True, random_state=0).split(rows):
        search = DiverseEnsembleRegressorCV(hidden_layer_sizes=(units,), random_state=0)
        results = search.fit(rows.iloc[train], y[train]).cv_results_
        inner = np.stack([results[f"split{k}_test_score"] for k in range(search.cv)], axis=1)
        choices = (
            int(results["mean_test_squared_error"].round(12).argmin()),
            choose_diversity(inner, 1 / (search.cv - 1)).chosen,
        )
        scores: dict[int, float] = {}
        for rule, choice in zip(RULES, choices, strict=True):
            settings = results["params"][choice]
            if choice not in scores:
                model = search.estimator(random_state=0, **settings).fit(rows.iloc[train], y[train])
                error = ((model.predict(rows.iloc[test]) - y[test]) ** 2).mean()
                scores[choice] = round(float(1 - error / y.var()), 5)
            found[rule]["scores"].append(scores[choice])
            found[rule]["diversities"].append(settings["diversity"])
    return found


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
