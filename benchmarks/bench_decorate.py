"""Hold DecorateClassifier against the Decorate of Weka, on the same folds of the fifteen tables.

``python benchmarks/bench_decorate.py --weka weka.jar --data FOLDER`` writes each fold as ARFF files, runs Weka's
Decorate (J48, 15 learners, 50 rounds, ratio 1) and ours on the same rows, and writes ``results/bench_decorate.json``
and the table of ``docs/decorate.md``. ``--table`` writes the table again from the JSON alone. The folder holds the nine
tables that are not embedded, as ``counterpoint.datasets.load`` wants them; by default ``COUNTERPOINT_DATA`` names it.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from counterpoint.datasets import DATASETS, Dataset, load
from counterpoint.estimators import DecorateClassifier

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "bench_decorate.json", ROOT / "docs" / "decorate.md"
FOLDS, TIMED = 10, "segment"
OPTIONS = ["-S", "1", "-E", "15", "-I", "50", "-R", "1.0", "-W", "weka.classifiers.trees.J48"]


class OrdinalDecorate(DecorateClassifier):
    """Learners see the number of a nominal value in the place of a column of 0 and 1 for each value."""

    def _encoded(self, table: Any) -> Any:
        return table


OURS: dict[str, Any] = {
    "default": DecorateClassifier(random_state=0),
    "ordinal codes": OrdinalDecorate(random_state=0),
    # the tags of a pipeline do not say that it accepts NaN, so the mean takes its place
    "missing numbers filled": DecorateClassifier(
        make_pipeline("passthrough", DecisionTreeClassifier()), random_state=0
    ),
    "at least 2 rows in a leaf": DecorateClassifier(
        DecisionTreeClassifier(min_samples_leaf=2), random_state=0
    ),
    "entropy, at least 2 rows in a leaf": DecorateClassifier(
        DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2), random_state=0
    ),
    "one tree": DecisionTreeClassifier(random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--weka", type=Path, help="weka.jar; Debian's package `weka` puts it into /usr/share/java"
    )
    parser.add_argument(
        "--data", type=Path, default=None, help="the folder of the tables that are not embedded"
    )
    parser.add_argument("--table", action="store_true", help="only write the table of the docs again")
    options = parser.parse_args()
    if not options.table:
        if options.weka is None or not options.weka.is_file():
            parser.error("--weka must be the path of weka.jar")
        record = {"name": "bench_decorate", **describe(options.weka), **run(options.weka, options.data)}
        RESULTS.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    write_table(json.loads(RESULTS.read_text(encoding="utf-8")))


def describe(weka: Path) -> dict[str, Any]:
    version = subprocess.run(
        ["java", "-cp", weka, "weka.core.Version"], capture_output=True, text=True, check=True
    )
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return {
        "config": {
            "folds": f"stratified {FOLDS}-fold cross-validation, shuffled with seed 0, once",
            "weka": ["weka.classifiers.meta.Decorate", *OPTIONS],
            "ours": {name: str(estimator) for name, estimator in OURS.items()},
            "note": "Weka refuses a nominal column with fewer than two values: such columns are left out for it.",
        },
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "shared": True},
        "versions": {
            "python": platform.python_version(),
            "weka": version.stdout.splitlines()[0],
            "java": java.stderr.splitlines()[0],
        }
        | {name: metadata.version(name) for name in ("counterpoint", "numpy", "pandas", "scikit-learn")},
    }


def run(weka: Path, data: Path | None) -> dict[str, Any]:
    begin = time.perf_counter()
    sets = {name: bench(load(name, data), weka) for name in DATASETS}
    timed = sets[TIMED]["seconds"]
    start = min(jvm_seconds(weka) for _ in range(5))
    return {
        "sets": sets,
        "difference": {name: summary(sets, name) for name in OURS},
        "speed": {
            "set": TIMED,
            "jvm_start_seconds": start,
            "ratio": timed["weka"] / timed["default"],
            "ratio_without_jvm_start": (timed["weka"] - FOLDS * start) / timed["default"],
        },
        "seconds": time.perf_counter() - begin,
    }


def bench(data: Dataset, weka: Path) -> dict[str, Any]:
    """Return the errors in percent of each method on each fold, and the seconds of all folds together."""
    errors: dict[str, list[float]] = {"weka": [], **{name: [] for name in OURS}}
    seconds = {"weka": 0.0, "default": 0.0}
    learners, rejected = [], []
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(data.X, data.y):
        wrong, took = run_weka(data, train, test, weka)
        errors["weka"].append(100 * wrong / len(test))
        seconds["weka"] += took
        for name, estimator in OURS.items():
            begin = time.perf_counter()
            X = pd.get_dummies(data.X, dtype=float) if name == "one tree" else data.X
            fitted = estimator.fit(X.iloc[train], data.y[train])
            errors[name].append(float(100 * np.mean(fitted.predict(X.iloc[test]) != data.y[test])))
            if name == "default":
                seconds["default"] += time.perf_counter() - begin
                learners.append(len(fitted.estimators_))
                rejected.append(int(fitted.rejected_.sum()))
    row = {
        "n_samples": len(data.y),
        "errors": errors,
        "seconds": seconds,
        "learners": np.mean(learners),
        "rejected": np.mean(rejected),
    }
    print(
        data.description.split(":")[0],
        *(f"{name} {np.mean(e):.2f}" for name, e in errors.items()),
        flush=True,
    )
    return row


def run_weka(data: Dataset, train: Any, test: Any, weka: Path) -> tuple[int, float]:
    """Return the number of errors on the test rows and the wall time of the program."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"-t": (Path(folder) / "train.arff", train), "-T": (Path(folder) / "test.arff", test)}
        for path, rows in files.values():
            path.write_text(arff(data, rows), encoding="utf-8")
        begin = time.perf_counter()
        command = ["java", "-cp", weka, "weka.classifiers.meta.Decorate", "-o", "-v"]
        command += [part for option, (path, _) in files.items() for part in (option, path)]
        result = subprocess.run([*command, *OPTIONS], capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - begin
    wrong = re.search(r"Incorrectly Classified Instances\s+(\d+)", result.stdout)
    total = re.search(r"Total Number of Instances\s+(\d+)", result.stdout)
    if not (wrong and total and int(total[1]) == len(test)):
        raise RuntimeError(f"Weka did not answer as expected:\n{result.stdout}\n{result.stderr}")
    return int(wrong[1]), seconds


def jvm_seconds(weka: Path) -> float:
    """Return the wall time of a Java program that has next to nothing to do."""
    begin = time.perf_counter()
    subprocess.run(["java", "-cp", weka, "weka.core.Version"], capture_output=True, check=True)
    return time.perf_counter() - begin


def arff(data: Dataset, rows: Any) -> str:
    """Return rows of a table in Weka's format; every file of a table declares the same values."""
    header, columns = ["@relation table"], []
    for name in data.feature_names:
        column = data.X[name]
        if column.dtype != "category":
            header.append(f"@attribute {quoted(name)} numeric")
            columns.append(["?" if np.isnan(x) else repr(x) for x in column.iloc[rows].tolist()])
        elif len(column.cat.categories) > 1:
            header.append(f"@attribute {quoted(name)} {{{','.join(map(quoted, column.cat.categories))}}}")
            columns.append(["?" if pd.isna(x) else quoted(x) for x in column.iloc[rows].tolist()])
    header.append(f"@attribute 'class of the row' {{{','.join(map(quoted, data.class_names))}}}")
    columns.append([quoted(x) for x in data.y[rows]])
    return "\n".join([*header, "@data", *map(",".join, zip(*columns, strict=True)), ""])


def quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def summary(sets: dict[str, Any], name: str) -> dict[str, float]:
    """Return the mean over the sets of ours less Weka's error, in points, with its standard error."""
    means = [{key: np.mean(row["errors"][key]) for key in (name, "weka")} for row in sets.values()]
    ours, weka = (np.array([mean[key] for mean in means]) for key in (name, "weka"))
    return {
        "mean_error": ours.mean(),
        "mean_error_weka": weka.mean(),
        "mean_difference": (ours - weka).mean(),
        "standard_error": np.std(ours - weka, ddof=1) / np.sqrt(len(means)),
        "sets_better": int((ours < weka).sum()),
        "sets_worse": int((ours > weka).sum()),
    }


def table(record: dict[str, Any]) -> str:
    """Return the part of the page that is made from the numbers."""
    return "\n".join([*sets_table(record), "", *learners_table(record), "", *remarks(record)])


def gap(row: dict[str, Any]) -> float:
    return float(np.mean(row["errors"]["default"]) - np.mean(row["errors"]["weka"]))


def sets_table(record: dict[str, Any]) -> list[str]:
    lines = ["| | rows | Weka, J48 | ours, CART | difference |", "|---|---|---|---|---|"]
    for name, row in record["sets"].items():
        errors = (row["errors"][key] for key in ("weka", "default"))
        cells = [f"{np.mean(error):.2f} ± {np.std(error, ddof=1):.2f}" for error in errors]
        lines.append(f"| {name} | {row['n_samples']} | {' | '.join(cells)} | {gap(row):+.2f} |")
    mean = record["difference"]["default"]
    lines.append(
        f"| **mean** | | {mean['mean_error_weka']:.2f} | {mean['mean_error']:.2f} | "
        f"{mean['mean_difference']:+.2f} ± {mean['standard_error']:.2f} |"
    )
    return lines


def learners_table(record: dict[str, Any]) -> list[str]:
    lines = [
        "| learners | mean error | less Weka's, ± standard error | sets better, worse |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {row['mean_error']:.2f} | {row['mean_difference']:+.2f} ± {row['standard_error']:.2f} | "
        f"{row['sets_better']}, {row['sets_worse']} |"
        for name, row in record["difference"].items()
    ]
    return lines


def remarks(record: dict[str, Any]) -> list[str]:
    sets, speed = record["sets"], record["speed"]
    far = max(sets, key=lambda name: abs(gap(sets[name])))
    rest = summary({name: row for name, row in sets.items() if name != far}, "default")
    seconds = sets[speed["set"]]["seconds"]
    lost = [
        n for n, row in sets.items() if np.mean(row["errors"]["one tree"]) < np.mean(row["errors"]["default"])
    ]
    rejected = round(sum(FOLDS * row["rejected"] for row in sets.values()))
    return [
        f"Without {far}, where the two are furthest apart, the mean difference of the default is "
        f"{rest['mean_difference']:+.2f} ± {rest['standard_error']:.2f}.",
        "",
        f"In all {FOLDS * len(sets)} folds the default rejected {rejected} candidates. "
        f"It is worse than one tree on {len(lost)} sets: {', '.join(lost)}.",
        "",
        f"The {FOLDS} folds of {speed['set']} took Weka {seconds['weka']:.1f} s and ours {seconds['default']:.1f} s, "
        f"fold by fold in one run: {speed['ratio']:.1f} times as long, "
        f"{speed['ratio_without_jvm_start']:.1f} times without the starts of Java "
        f"({speed['jvm_start_seconds']:.2f} s each).",
    ]


def write_table(record: dict[str, Any]) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
    after = rest.partition("<!-- end of table -->")[2]
    page = f"{before}<!-- table -->\n{table(record)}\n<!-- end of table -->{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    # Some classes have fewer rows than there are folds.
    warnings.filterwarnings("ignore", message="The least populated class")
    main()
