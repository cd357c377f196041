"""Choose the defaults of DiverseEnsembleClassifier by measurement on the six embedded tables.

``python benchmarks/choose_defaults.py`` takes two thirds of each table, at most 300 rows, and cross-validates on
them, with independent training of the same nets beside every diversity: first learning rate and batch size, then the
weight decay, then the diversities, with and without a warm-up, for nets of 64 hidden units and of 4. The last third
of each table takes no part in any choice; at the end the default is held against independent training there, once.
``--tables`` prints the tables of docs/estimator.md from the results.
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
from sklearn.model_selection import train_test_split

from counterpoint.datasets import load
from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleClassifierCV
from counterpoint.estimators.diverse import DEFAULT_DIVERSITY

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "choose_defaults.json", ROOT / "docs" / "estimator.md"
DATA = ("breast-w", "glass", "iris", "labor", "segment", "soybean")
ROWS, FOLDS, EPOCHS, SEEDS = 300, 3, 100, (0, 1)
RATES, SIZES, DECAYS = (0.003, 0.01, 0.03), (32, 128), (0.0, 0.01, 0.1)
FEW, DIVERSITIES = (0.5,), (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
CHECKS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="print the tables of the results and stop")
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
            "rows_for_the_choice": {name: len(tables[name][2]) for name in DATA},
            "rows_for_the_check": {name: len(tables[name][3]) for name in DATA},
            "folds": FOLDS,
            "epochs": EPOCHS,
            "n_estimators": 15,
            "seeds": SEEDS,
            "checks": CHECKS,
        },
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "threads": 1, "device": "cpu"},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn", "torch")},
    }
    steps = [
        path(tables, FEW, SEEDS, learning_rate=rate, batch_size=size, warmup_epochs=EPOCHS // 2)
        for rate in RATES
        for size in SIZES
    ]
    best = max(steps, key=lambda step: np.mean(step["mean"]))["settings"]
    record["rate_and_size"] = steps
    steps = [path(tables, FEW, SEEDS, **best, weight_decay=decay) for decay in DECAYS]
    best = max(steps, key=lambda step: np.mean(step["mean"]))["settings"]
    best = {name: value for name, value in best.items() if name != "warmup_epochs"}
    record |= {"decay": steps, "chosen": best}
    record["diversity"] = [
        path(tables, DIVERSITIES, SEEDS, **best, warmup_epochs=warmup, hidden_layer_sizes=sizes)
        for sizes in ((64,), (4,))
        for warmup in (0, EPOCHS // 2)
    ]
    record["check"] = [check(tables, best, sizes) for sizes in ((64,), (4,))]
    record["seconds"] = time.perf_counter() - start
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def table(name: str) -> tuple[Any, ...]:
    """Return the rows to choose on, those to check on, and their labels; nominal columns as indicators."""
    data = load(name)
    X = pd.get_dummies(data.X, dtype=float)
    choose, check, y_choose, y_check = train_test_split(
        X, data.y, test_size=1 / 3, random_state=1, stratify=data.y
    )
    if len(choose) > ROWS:
        choose, _, y_choose, _ = train_test_split(
            choose, y_choose, train_size=ROWS, random_state=1, stratify=y_choose
        )
    means = choose.mean()
    return choose.fillna(means).to_numpy(), check.fillna(means).to_numpy(), y_choose, y_check


def path(tables: dict[str, Any], diversities: Any, seeds: Any, **settings: Any) -> dict[str, Any]:
    """Return held-out accuracy in percent, independent training first: by table, and the mean over the tables."""
    rows = {}
    for name, (X, _, y, _) in tables.items():
        scores, members = [], []
        for seed in seeds:
            search = DiverseEnsembleClassifierCV(
                diversities=diversities, cv=FOLDS, epochs=EPOCHS, random_state=seed, device="cpu", **settings
            )
            results = search.fit(X, y).cv_results_
            scores += [100 * results[f"split{k}_test_score"] for k in range(FOLDS)]
            members.append(100 * results["mean_member_train_score"])
        against = np.array(scores) - np.array(scores)[:, :1]  # the same nets, trained independently
        rows[name] = {
            "accuracy_percent": np.mean(scores, axis=0).tolist(),
            "sd": np.std(scores, axis=0, ddof=1).tolist(),
            "difference_percent": against.mean(axis=0).tolist(),
            "difference_sd": against.std(axis=0, ddof=1).tolist(),
            "n": len(scores),
            "members_on_training_rows_percent": np.mean(members, axis=0).tolist(),
        }
    mean = np.mean([row["accuracy_percent"] for row in rows.values()], axis=0)
    print(settings, mean.round(2), flush=True)
    for name, row in rows.items():
        print(
            "   ",
            name,
            np.round(row["accuracy_percent"], 2),
            np.round(row["members_on_training_rows_percent"], 1),
        )
    return {"settings": settings, "diversities": [None, *diversities], "mean": mean.tolist(), "tables": rows}


def check(tables: dict[str, Any], settings: dict[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the accuracy in percent on the last third: of the default, and of independent training."""
    found = {}
    for name, (X, X_check, y, y_check) in tables.items():
        scores: dict[str, list[float]] = {"default": [], "independent": []}
        for seed in range(CHECKS):
            for loss, key in (("correlation", "default"), ("independent", "independent")):
                model = DiverseEnsembleClassifier(
                    loss=loss,
                    hidden_layer_sizes=sizes,
                    epochs=EPOCHS,
                    random_state=seed,
                    device="cpu",
                    **settings,
                )
                scores[key].append(100 * model.fit(X, y).score(X_check, y_check))
        found[name] = {
            key: {"mean": np.mean(s), "sd": np.std(s, ddof=1), "n": CHECKS} for key, s in scores.items()
        }
        print(
            "check",
            sizes,
            name,
            {key: round(value["mean"], 2) for key, value in found[name].items()},
            flush=True,
        )
    return {"hidden_layer_sizes": sizes, "diversity": DEFAULT_DIVERSITY, "tables": found}


def markdown(record: dict[str, Any]) -> str:
    """Return the tables of docs/estimator.md."""
    shown = [f"{d:g}" for d in record["diversity"][0]["diversities"][1:]]
    lines = [
        f"| hidden units | warm-up | independent | {' | '.join(shown)} |",
        "|---" * (3 + len(shown)) + "|",
    ]
    for step in record["diversity"]:
        settings = step["settings"]
        cells = [f"{step['mean'][0]:.1f}"]
        for c in range(1, len(shown) + 1):
            worst = min(row["difference_percent"][c] for row in step["tables"].values())
            cells.append(f"{step['mean'][c] - step['mean'][0]:+.1f} ({worst:+.1f})")
        head = f"| {settings['hidden_layer_sizes'][0]} | {settings['warmup_epochs']} |"
        lines.append(f"{head} {' | '.join(cells)} |")
    names = list(record["check"][0]["tables"])
    lines += ["", f"| hidden units | | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for step in record["check"]:
        for key in ("independent", "default"):
            found = [step["tables"][name][key] for name in names]
            cells = [f"{one['mean']:.1f} ± {one['sd']:.1f}" for one in found]
            lines.append(f"| {step['hidden_layer_sizes'][0]} | {key} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
