"""Hold DecorateClassifier against the Decorate of Weka, on the same folds of twenty-two tables.

``python benchmarks/bench_decorate.py --weka weka.jar --data FOLDER --examples FOLDER`` writes each fold as ARFF files,
runs Weka's Decorate (J48, 15 learners, 50 rounds, ratio 1) and ours on the same rows, and writes
``results/bench_decorate.json`` and the tables of ``docs/decorate.md``. ``--data`` holds the nine tables of the project
that are not embedded, as ``counterpoint.datasets.load`` wants them; by default ``COUNTERPOINT_DATA`` names it.
``--examples`` holds the ARFF files that come with Weka. ``--work`` keeps the errors of each table and method, so that
an interrupted run goes on. ``--table`` writes the tables of the page again from the JSON alone.
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
from scipy.io import arff as scipy_arff
from scipy.stats import t as student
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from counterpoint.datasets import DATASETS, Dataset, load
from counterpoint.estimators import DecorateClassifier

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "bench_decorate.json", ROOT / "docs" / "decorate.md"
FOLDS, TIMED = 10, "segment"
OPTIONS = ["-S", "1", "-E", "15", "-I", "50", "-R", "1.0", "-W", "weka.classifiers.trees.J48"]

# The default tree was chosen on other folds of these tables; see `choose`.
CHOSEN_ON = ("anneal", "autos", "colic", "glass", "hepatitis", "labor", "segment", "splice")
EXAMPLES = ("breast-cancer", "credit-g", "diabetes", "ionosphere", "vote")  # ARFF files of Weka's package
BUNDLED = {"wdbc": load_breast_cancer, "wine": load_wine}  # of scikit-learn
OTHERS = (*EXAMPLES, *BUNDLED)


CANDIDATES = {
    "Gini": DecisionTreeClassifier(),
    "entropy": DecisionTreeClassifier(criterion="entropy"),
    "entropy, 2 rows in a leaf": DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2),
    "entropy, 3 rows in a leaf": DecisionTreeClassifier(criterion="entropy", min_samples_leaf=3),
    "entropy, pruned at 0.003, 2 rows in a leaf": DecisionTreeClassifier(
        criterion="entropy", ccp_alpha=0.003, min_samples_leaf=2
    ),
    "entropy, pruned at 0.001": DecisionTreeClassifier(criterion="entropy", ccp_alpha=0.001),
    "entropy, pruned at 0.003": DecisionTreeClassifier(criterion="entropy", ccp_alpha=0.003),
    "entropy, pruned at 0.01": DecisionTreeClassifier(criterion="entropy", ccp_alpha=0.01),
}
OURS: dict[str, Any] = {
    "default": DecorateClassifier(random_state=0),
    "Gini": DecorateClassifier(CANDIDATES["Gini"], random_state=0),
    "entropy": DecorateClassifier(CANDIDATES["entropy"], random_state=0),
    "entropy, pruned at 0.003": DecorateClassifier(CANDIDATES["entropy, pruned at 0.003"], random_state=0),
    "one tree": DecisionTreeClassifier(criterion="entropy", random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--weka", type=Path, help="weka.jar; Debian's package `weka` puts it into /usr/share/java"
    )
    parser.add_argument("--data", type=Path, help="the folder of the tables that are not embedded")
    parser.add_argument(
        "--examples",
        type=Path,
        help="the ARFF files of Weka; Debian puts them into /usr/share/doc/weka/examples",
    )
    parser.add_argument("--work", type=Path, help="a folder for the errors of each table and method")
    parser.add_argument("--table", action="store_true", help="only write the tables of the docs again")
    options = parser.parse_args()
    if not options.table:
        if options.weka is None or not options.weka.is_file():
            parser.error("--weka must be the path of weka.jar")
        if options.examples is None or not options.examples.is_dir():
            parser.error("--examples must be the folder of Weka's ARFF files")
        with tempfile.TemporaryDirectory() as temporary:
            work = options.work or Path(temporary)
            work.mkdir(parents=True, exist_ok=True)
            record = run(options, work)
        record = {"name": "bench_decorate", **describe(options.weka), **record}
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
            "chosen_on": CHOSEN_ON,
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


def choose(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return the errors of the candidates for the default tree, on other folds than those of the comparison.

    Two cross-validations with the seeds 1 and 2; one for a table of 800 rows or more, and three of its folds for one
    of more than 2,000 rows.
    """
    errors: dict[str, dict[str, list[float]]] = {}
    for name in CHOSEN_ON:
        data, errors[name] = read(name, options.data, options.examples), {}
        for candidate, tree in CANDIDATES.items():
            path = work / f"choice {name} {candidate}.json"
            if not path.exists():
                path.write_text(json.dumps(candidate_errors(data, tree)), encoding="utf-8")
            errors[name][candidate] = json.loads(path.read_text(encoding="utf-8"))
        print("choice", name, *(f"{key} {np.mean(e):.2f}" for key, e in errors[name].items()), flush=True)
    return {"candidates": {name: str(tree) for name, tree in CANDIDATES.items()}, "errors": errors}


def candidate_errors(data: Dataset, tree: Any) -> list[float]:
    errors = []
    for seed in (1, 2) if len(data.y) < 800 else (1,):
        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(data.X, data.y))
        for train, test in folds[:3] if len(data.y) > 2000 else folds:
            fitted = DecorateClassifier(tree, random_state=seed).fit(data.X.iloc[train], data.y[train])
            errors.append(float(100 * np.mean(fitted.predict(data.X.iloc[test]) != data.y[test])))
    return errors


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {"sets": {}, "other_sets": {}}
    for name in (*OTHERS, *DATASETS):
        group = groups["sets" if name in DATASETS else "other_sets"]
        group[name] = bench(name, options, work)
    timed = groups["sets"][TIMED]["seconds"]
    start = min(jvm_seconds(options.weka) for _ in range(5))
    speed = {
        "set": TIMED,
        "jvm_start_seconds": start,
        "ratio": timed["weka"] / timed["default"],
        "ratio_without_jvm_start": (timed["weka"] - FOLDS * start) / timed["default"],
    }
    return {"choice": choose(options, work), **groups, "difference": differences(groups), "speed": speed}


def bench(name: str, options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return the errors in percent of each method on each fold of a table, and the seconds of all folds together."""
    data = read(name, options.data, options.examples)
    found = {}
    for method in ("weka", *OURS):
        path = work / f"{name} {method}.json"
        if not path.exists():
            cells = [
                run_weka(data, *fold, options.weka) if method == "weka" else run_ours(method, data, *fold)
                for fold in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(data.X, data.y)
            ]
            path.write_text(json.dumps(cells), encoding="utf-8")
        found[method] = json.loads(path.read_text(encoding="utf-8"))
        print(name, method, f"{np.mean([cell['error'] for cell in found[method]]):.2f}", flush=True)
    return {
        "n_samples": len(data.y),
        "errors": {method: [cell["error"] for cell in cells] for method, cells in found.items()},
        "seconds": {method: sum(cell["seconds"] for cell in found[method]) for method in ("weka", "default")},
        "learners": np.mean([cell["learners"] for cell in found["default"]]),
        "rejected": np.mean([cell["rejected"] for cell in found["default"]]),
    }


def read(name: str, data: Path | None, examples: Path) -> Dataset:
    """Return a table of the project, of Weka's package or of scikit-learn."""
    if name in DATASETS:
        return load(name, data)
    if name in BUNDLED:
        bundle = BUNDLED[name](as_frame=True)
        labels = bundle.target_names[bundle.target.to_numpy()].astype(str)
        return Dataset(bundle.data, labels, tuple(bundle.data), tuple(np.unique(labels)), name)
    rows, meta = scipy_arff.loadarff(examples / f"{name}.arff")
    frame = pd.DataFrame(rows)
    *columns, label = meta.names()
    for column in (*columns, label):
        if meta[column][0] == "nominal":
            text = frame[column].str.decode("utf-8")
            frame[column] = text.mask(text == "?").astype("category")
    labels = frame[label].to_numpy(dtype=str)
    return Dataset(frame[columns], labels, tuple(columns), tuple(np.unique(labels)), name)


def run_ours(method: str, data: Dataset, train: Any, test: Any) -> dict[str, float]:
    """Return the error on the test rows in percent and the wall time; also the learners and rejected candidates."""
    begin = time.perf_counter()
    X = pd.get_dummies(data.X, dtype=float) if method == "one tree" else data.X
    fitted = OURS[method].fit(X.iloc[train], data.y[train])
    wrong = fitted.predict(X.iloc[test]) != data.y[test]
    cell = {"error": float(100 * np.mean(wrong)), "seconds": time.perf_counter() - begin}
    if isinstance(fitted, DecorateClassifier):
        cell |= {"learners": len(fitted.estimators_), "rejected": int(fitted.rejected_.sum())}
    return cell


def run_weka(data: Dataset, train: Any, test: Any, weka: Path) -> dict[str, float]:
    """Return the error on the test rows in percent and the wall time of the program."""
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
    return {"error": 100 * int(wrong[1]) / len(test), "seconds": seconds}


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


def differences(record: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the summary of each method over the tables of each group."""
    sets = record["sets"]
    groups = {
        "chosen on": {name: row for name, row in sets.items() if name in CHOSEN_ON},
        "held out": {name: row for name, row in sets.items() if name not in CHOSEN_ON},
        "fifteen": sets,
        "others": record["other_sets"],
    }
    return {group: {name: summary(rows, name) for name in OURS} for group, rows in groups.items()}


def summary(sets: dict[str, Any], name: str) -> dict[str, float]:
    """Return the mean over the sets of ours less Weka's error, in points, with its 95 % t-interval."""
    means = [{key: np.mean(row["errors"][key]) for key in (name, "weka")} for row in sets.values()]
    ours, weka = (np.array([mean[key] for mean in means]) for key in (name, "weka"))
    standard_error = np.std(ours - weka, ddof=1) / np.sqrt(len(means))
    half = student.ppf(0.975, len(means) - 1) * standard_error
    mean = (ours - weka).mean()
    return {
        "n_sets": len(means),
        "mean_error": ours.mean(),
        "mean_error_weka": weka.mean(),
        "mean_difference": mean,
        "standard_error": standard_error,
        "low": mean - half,
        "high": mean + half,
        "sets_better": int((ours < weka).sum()),
        "sets_worse": int((ours > weka).sum()),
    }


def table(record: dict[str, Any]) -> str:
    """Return the part of the page that is made from the numbers."""
    parts = [
        sets_table(record["sets"], record["difference"]["fifteen"]),
        sets_table(record["other_sets"], record["difference"]["others"]),
        summary_table(record),
        remarks(record),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def gap(row: dict[str, Any]) -> float:
    return float(np.mean(row["errors"]["default"]) - np.mean(row["errors"]["weka"]))


def sets_table(sets: dict[str, Any], group: dict[str, Any]) -> list[str]:
    lines = [
        "| | rows | Weka, J48 | ours, Gini | ours, entropy | default: entropy, 3 rows | default less Weka |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in sets.items():
        errors = (row["errors"][key] for key in ("weka", "Gini", "entropy", "default"))
        cells = [f"{np.mean(error):.2f} ± {np.std(error, ddof=1):.2f}" for error in errors]
        mark = "\\*" if name in CHOSEN_ON else ""
        lines.append(f"| {name}{mark} | {row['n_samples']} | {' | '.join(cells)} | {gap(row):+.2f} |")
    means = [
        group["default"]["mean_error_weka"],
        *(group[key]["mean_error"] for key in ("Gini", "entropy", "default")),
    ]
    cells = [f"{mean:.2f}" for mean in means]
    lines.append(f"| **mean** | | {' | '.join(cells)} | {interval(group['default'])} |")
    return lines


def interval(row: dict[str, float]) -> str:
    return f"{row['mean_difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"


def summary_table(record: dict[str, Any]) -> list[str]:
    groups = record["difference"]
    heads = [f"{group}: {rows['default']['n_sets']} tables" for group, rows in groups.items()]
    lines = [f"| learners | {' | '.join(heads)} |", f"|---|{'---|' * len(groups)}"]
    lines += [
        f"| {name} | {' | '.join(interval(rows[name]) for rows in groups.values())} |"
        for name in groups["fifteen"]
    ]
    return lines


def choice_table(record: dict[str, Any]) -> list[str]:
    choice = record["choice"]
    lines = [f"| | {' | '.join(CHOSEN_ON)} | mean |", f"|---|{'---|' * (len(CHOSEN_ON) + 1)}"]
    for name in CANDIDATES:
        means = [np.mean(choice["errors"][data][name]) for data in CHOSEN_ON]
        lines.append(f"| {name} | {' | '.join(f'{x:.2f}' for x in (*means, np.mean(means)))} |")
    return lines


def remarks(record: dict[str, Any]) -> list[str]:
    sets, speed = record["sets"], record["speed"]
    every = {**sets, **record["other_sets"]}
    far = max(sets, key=lambda name: abs(gap(sets[name])))
    rest = summary({name: row for name, row in sets.items() if name != far}, "default")
    worse = [f"{name} {gap(row):.2f}" for name, row in every.items() if gap(row) > 0]
    rejected = round(sum(FOLDS * row["rejected"] for row in every.values()))
    seconds = sets[speed["set"]]["seconds"]
    return [
        f"Without {far}, where the two are furthest apart, the mean difference of the default over the project's "
        f"tables is {interval(rest)}.",
        "",
        f"The default misses Weka's error on {len(worse)} of {len(every)} tables, by this many points: "
        f"{', '.join(worse)}.",
        "",
        f"In all {FOLDS * len(every)} folds the default rejected {rejected} candidates.",
        "",
        f"The {FOLDS} folds of {speed['set']} took Weka {seconds['weka']:.1f} s and ours {seconds['default']:.1f} s: "
        f"{speed['ratio']:.1f} times as long, {speed['ratio_without_jvm_start']:.1f} times without the starts of Java "
        f"({speed['jvm_start_seconds']:.2f} s each).",
    ]


def write_table(record: dict[str, Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for mark, text in {"choice": "\n".join(choice_table(record)), "table": table(record)}.items():
        before, _, rest = page.partition(f"<!-- {mark} -->\n")
        after = rest.partition(f"<!-- end of {mark} -->")[2]
        page = f"{before}<!-- {mark} -->\n{text}\n<!-- end of {mark} -->{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    # Some classes have fewer rows than there are folds.
    warnings.filterwarnings("ignore", message="The least populated class")
    main()
