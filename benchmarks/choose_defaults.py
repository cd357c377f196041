"""Judge the default diversity of DiverseEnsembleClassifier on the six embedded tables.

``python benchmarks/choose_defaults.py`` compares dials of ``DiversityLoss`` with the usual baseline, networks trained
independently with a soft vote. All arms of a fold start from the same networks and see the same batches. They train for
all epochs on standardised columns without pieces. The default dial, 1 - 1/N, was chosen on held-out training
images of CIFAR-10 and on no table. Missing values are replaced by the mean of their column. ``--tables`` prints the
tables of docs/estimator.md from the record.
"""

import argparse
import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split

from counterpoint.datasets import load
from counterpoint.estimators import (
    DiverseEnsembleClassifierCV,
    corrected_paired_test,
)
from counterpoint.training import DiversityLoss

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "choose_defaults.json", ROOT / "docs" / "estimator.md"
DATA = ("breast-w", "glass", "iris", "labor", "segment", "soybean")
ROWS, SPLITS, REPEATS = 300, 5, 2
DEFAULTS = {
    "batch_size": 32,
    "epochs": 100,
    "learning_rate": 0.003,
    "n_estimators": 15,
    "warmup_epochs": 0,
    "weight_decay": 0.1,
}
DIAL = DiversityLoss().effective_diversity(DEFAULTS["n_estimators"])
DIALS = (0.5, 0.9, DIAL, 1.0)
STUDIES = ((64, 100), (64, 30), (4, 100), (1, 100))  # hidden units, epochs
BASELINE, DEFAULT, DEFAULT_SOFT = "independent, soft vote", "default", "default, soft vote"
ARMS = (BASELINE, "0", "0.5", "0.9", DEFAULT, "1", DEFAULT_SOFT)  # geometric vote unless it says soft
MEASURES = {"accuracy": 100, "log_loss": 1, "brier_score": 1, "calibration_error": 100}  # percent where 100


class Search(DiverseEnsembleClassifierCV):
    """A search that keeps the scores of each fold."""

    def _scores(self, *args: Any) -> Any:
        scores = super()._scores(*args)
        self.scores_ = [part[:, 0] for part in scores]  # after the only number of epochs
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="print the tables of the record and stop")
    arguments = parser.parse_args()
    out = arguments.out
    if arguments.tables:
        print(markdown(json.loads(out.read_text(encoding="utf-8"))))
        return
    start = time.perf_counter()
    torch.set_num_threads(1)
    tables = {name: table(name) for name in DATA}
    record: dict[str, Any] = {
        "name": "choose_defaults",
        "config": {
            "data": DATA,
            "rows": {name: len(y) for name, (_, y) in tables.items()},
            "folds": {"n_splits": SPLITS, "n_repeats": REPEATS, "random_state": 0},
            "defaults": DEFAULTS,
            "diversity": DIAL,
            "baseline": BASELINE,
            "random_state": 0,
        },
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "threads": 1, "device": "cpu"},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn", "torch")},
        "studies": [study(tables, units, epochs) for units, epochs in STUDIES],
    }
    record["seconds"] = time.perf_counter() - start
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def table(name: str) -> tuple[Any, Any]:
    """Return at most 300 rows of a table, nominal columns as indicators, and their labels."""
    data = load(name)
    X, y = pd.get_dummies(data.X, dtype=float), data.y
    if len(X) > ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=ROWS, random_state=1, stratify=y)
    return X.fillna(X.mean()).to_numpy(), y


def study(tables: dict[str, Any], units: int, epochs: int) -> dict[str, Any]:
    """Return how the arms do with networks of one size, on each table and in the mean over the tables."""
    start = time.perf_counter()
    found = {name: judged(*folds(X, y, units, epochs)) for name, (X, y) in tables.items()}
    mean = {arm: averaged([found[name][arm] for name in tables]) for arm in ARMS}
    for name, rows in (*found.items(), ("mean", mean)):
        for arm, row in rows.items():
            numbers = {key: f"{row[key]['mean']:.3f} ({row[key]['difference']:+.3f})" for key in MEASURES}
            print(units, epochs, name, arm, *numbers.values(), sep="\t", flush=True)
    seconds = time.perf_counter() - start
    return {"hidden_units": units, "epochs": epochs, "tables": found, "mean": mean, "seconds": seconds}


def folds(X: Any, y: Any, units: int, epochs: int) -> tuple[dict[str, Any], float]:
    """Return the scores of each arm, (n_measures, n_folds), and test rows over training rows."""
    settings = DEFAULTS | {"hidden_layer_sizes": (units,), "epochs": (epochs,), "n_pieces": 0}
    cv = RepeatedStratifiedKFold(n_splits=SPLITS, n_repeats=REPEATS, random_state=0)
    scores = []
    for voting, dials in (("soft", (DIAL,)), ("auto", DIALS)):  # with one random_state, of the same networks
        search = Search(diversities=dials, cv=cv, voting=voting, random_state=0, device="cpu", **settings)
        scores += list(np.moveaxis(np.array(search.fit(X, y).scores_), 0, 1))
    independent, soft, *geometric = scores
    return dict(zip(ARMS, [independent, *geometric, soft], strict=True)), search._test_share


def judged(scores: dict[str, Any], test_share: float) -> dict[str, Any]:
    """Return means over the folds, and the differences from the baseline by the corrected resampled t-test."""
    found: dict[str, Any] = {}
    for arm, own in scores.items():
        found[arm] = {"n": own.shape[1], "learners_on_training_rows_percent": float(100 * own[-1].mean())}
        for k, (measure, unit) in enumerate(MEASURES.items()):
            test = corrected_paired_test(unit * (own[k] - scores[BASELINE][k]), test_share)
            found[arm][measure] = {
                "mean": float(unit * own[k].mean()),
                "sd": float(unit * own[k].std(ddof=1)),
                "difference": float(test.difference),
                "standard_error": float(test.standard_error),
                "p_value": float(test.p_value),
            }
    return found


def averaged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over the tables; the error of a difference is that of the folds, with the tables as given."""
    learners = "learners_on_training_rows_percent"
    found: dict[str, Any] = {"n": len(rows), learners: float(np.mean([row[learners] for row in rows]))}
    for measure in MEASURES:
        errors = [row[measure]["standard_error"] for row in rows]
        found[measure] = {
            key: float(np.mean([row[measure][key] for row in rows])) for key in ("mean", "difference")
        } | {"standard_error": float(np.linalg.norm(errors) / len(rows))}
    return found


def markdown(record: dict[str, Any]) -> str:
    """Return the tables of docs/estimator.md."""
    lines = ["| units | epochs | dial | accuracy % | log-loss | Brier | ECE % |", "|---" * 7 + "|"]
    epochs = record["config"]["defaults"]["epochs"]
    for one in record["studies"]:
        for arm in ARMS if one["epochs"] == epochs else (BASELINE, DEFAULT, DEFAULT_SOFT):
            row = one["mean"][arm]
            cells = [compared(row[key], 1 if unit == 100 else 3) for key, unit in MEASURES.items()]
            lines.append(f"| {one['hidden_units']} | {one['epochs']} | {arm} | {' | '.join(cells)} |")
    lines += [
        "",
        "| units | table | rows | accuracy %, independent | default | log-loss, independent | default |",
        "|---" * 7 + "|",
    ]
    for one in record["studies"]:
        if one["epochs"] != epochs:
            continue
        for name, rows in one["tables"].items():
            cells = []
            for key, digits in (("accuracy", 1), ("log_loss", 3)):
                base, own = rows[BASELINE][key], rows[DEFAULT][key]
                cells += [
                    f"{base['mean']:.{digits}f} ± {base['sd']:.{digits}f}",
                    f"{own['mean']:.{digits}f} ± {own['sd']:.{digits}f} "
                    f"({signed(own['difference'], digits)}, p = {own['p_value']:.2g})",
                ]
            lines.append(
                f"| {one['hidden_units']} | {name} | {record['config']['rows'][name]} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def compared(value: dict[str, float], digits: int) -> str:
    """Return a mean with its difference from the baseline, where there is one."""
    text = f"{value['mean']:.{digits}f}"
    if value["difference"] == 0 == value["standard_error"]:
        return text
    return f"{text} ({signed(value['difference'], digits)} ± {value['standard_error']:.{digits}f})"


def signed(number: float, digits: int) -> str:
    """Return a number with its sign; a rounded zero is +0."""
    return f"{round(number, digits) + 0.0:+.{digits}f}"


if __name__ == "__main__":
    main()
