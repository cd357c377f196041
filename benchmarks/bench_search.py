"""Time of a search of settings on a table of 1,000 rows: ``python benchmarks/bench_search.py``.

`DiverseEnsembleClassifierCV` scores sixty settings (three dials, two weight decays, two label smoothings and five
numbers of epochs) of fifteen networks on five folds; a grid search of scikit-learn scores five settings of CatBoost,
the candidates of the arena, on five folds. All train their choice on all rows and may use all cores. They take turns,
and the record has the median of their ratios in each turn, since other work on a machine comes and goes. It also has
the time of the search with its defaults, which scores more numbers of epochs.
"""

import argparse
import json
import os
import time
import warnings
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from counterpoint.arena.methods import CANDIDATES
from counterpoint.estimators import DiverseEnsembleClassifierCV
from counterpoint.training import pick_device

ROOT = Path(__file__).parents[1]
ROWS, EPOCHS, TURNS = 1_000, (5, 10, 20, 50, 100), 3
TABLES = ((20, 2),)  # (columns, classes)


def searches() -> dict[str, Any]:
    """Return the searches, unfitted."""
    from catboost import CatBoostClassifier

    settings = [{name: [value] for name, value in one.items()} for one in CANDIDATES["catboost"]]
    return {
        "ours": DiverseEnsembleClassifierCV(epochs=EPOCHS, random_state=0),
        "default": DiverseEnsembleClassifierCV(random_state=0),
        "catboost": GridSearchCV(
            CatBoostClassifier(allow_writing_files=False, verbose=0, random_state=0), settings, cv=5
        ),
    }


def compare(n_columns: int, n_classes: int) -> dict[str, Any]:
    """Return median seconds, errors and log-losses of each on a table."""
    X, y = make_classification(
        2 * ROWS,
        n_columns,
        n_informative=n_columns // 2,
        n_classes=n_classes,
        flip_y=0.05,
        random_state=0,
    )
    row: dict[str, Any] = {"columns": n_columns, "classes": n_classes}
    seconds: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for name, search in searches().items():
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                search.fit(X[:ROWS], y[:ROWS])
            seconds.setdefault(name, []).append(time.perf_counter() - start)
            row[name] = {
                "seconds": median(seconds[name]),
                "turns": seconds[name],
                "error_percent": 100 * (1 - search.score(X[ROWS:], y[ROWS:])),
                "log_loss": log_loss(y[ROWS:], search.predict_proba(X[ROWS:])),
            }
        print({name: round(each[-1], 1) for name, each in seconds.items()}, flush=True)
    turns = zip(seconds["ours"], seconds["catboost"], strict=True)
    row["ratio"] = median(ours / catboost for ours, catboost in turns)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench_search.json")
    out = parser.parse_args().out
    record = {
        "name": "bench_search",
        "config": {"rows": ROWS, "epochs": EPOCHS, "turns": TURNS},
        "cores": os.cpu_count(),
        "device": str(pick_device("auto")),
        "versions": {name: metadata.version(name) for name in ("catboost", "scikit-learn", "torch")},
        "tables": [compare(*table) for table in TABLES],
    }
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
