"""Table 3: cross-validation errors of DECORATE, of the paper's algorithm, of independent networks and of ours.

Each method on each data set is a job, with a file of its own in ``table-3/``. ``python -m paper.table_3 RECORD DOCUMENT
[WEKA]`` writes the tables of a record into a document again, with the errors of Weka's DECORATE from its benchmark.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint.records import (
    NONE,
    Grid,
    Job,
    RunStore,
    given_paths,
    markdown,
    mean,
    read_record,
    refill,
    rich_table,
    run_jobs,
    spread,
    write_record,
    write_text,
)
from paper.runner import check_kind

if TYPE_CHECKING:
    import torch

    from paper.tabular import Settings

NAME = "table-3"
TITLE = "Cross-validation error on tables: DECORATE, the paper's algorithm, independent networks, ours"

REPEATS = MappingProxyType({"breast-w": 10, "iris": 10, "segment": 3})
# method -> the function that runs it; the slowest comes last
METHODS = MappingProxyType(
    {
        "decorate-trees": ("decorated", "decorate_trees"),
        "decorate-nets": ("decorated", "decorate_networks"),
        "fixed": ("tabular", "fixed_losses"),
        "searched": ("tabular", "searched"),
    }
)
BASELINE = "independent"


class Line(NamedTuple):
    """A row of the table: its words, and what the paper prints for it, by data set."""

    words: str
    paper: Mapping[str, float] = MappingProxyType({})


_OURS_IN_PAPER = MappingProxyType({"breast-w": 1.74, "iris": 4.00, "segment": 3.33})
LINES: Mapping[str, Line] = MappingProxyType(
    {
        "decorate-trees": Line("DECORATE, trees", {"breast-w": 3.69, "iris": 5.33, "segment": 1.97}),
        "decorate-nets": Line("DECORATE, nets", {"breast-w": 2.04, "iris": 10.67, "segment": 3.90}),
        "mean": Line("paper, mean", _OURS_IN_PAPER),
        "mean, read-out": Line("paper, mean, read-out"),
        "sum": Line("paper, sum", _OURS_IN_PAPER),
        "sum, read-out": Line("paper, sum, read-out"),
        BASELINE: Line("independent nets"),
        "searched": Line("ours, inner folds"),
    }
)


def reproduce(
    out: Path, *, repeats: int | None = None, device: str = "auto", seed: int = 0, smoke: bool = False
) -> list[Path]:
    """Run the jobs that are not done yet; print the table, write it and the numbers behind it."""
    from rich.console import Console

    from counterpoint.training import pick_device
    from paper.tabular import SMOKE, Settings

    if repeats is not None and repeats < 1:
        raise ValueError(f"`repeats` must be at least 1; got {repeats}.")
    settings = dataclasses.replace(SMOKE if smoke else Settings(), seed=seed)
    counts = {name: repeats or (1 if smoke else count) for name, count in REPEATS.items()}
    check_kind(out, NAME, smoke=smoke)
    jobs = make_jobs(counts, settings, pick_device(device))
    outcome = run_jobs(jobs, RunStore(out / NAME), title=TITLE, about={"torch": version("torch")})
    if not outcome.records:
        outcome.check()
        raise RuntimeError("No job is done yet; other processes work on them.")
    config = {"smoke": smoke, "repeats": counts, "settings": dataclasses.asdict(settings)}
    paths = write_record(out, NAME, title=TITLE, config=config, data=join(outcome.records))
    record = read_record(paths[0])
    path = out / f"{NAME}.md"
    write_text(path, text(record))
    console = Console()
    for grid in narrow_grids(record):
        console.print(rich_table(grid))
    outcome.check()
    return [*paths, path]


def make_jobs(counts: Mapping[str, int], settings: "Settings", device: "torch.device") -> list[Job]:
    """Return a job for each data set and method."""
    return [
        Job(
            f"{name}-{method}",
            {"data": name, "method": method, "repeats": count, **dataclasses.asdict(settings)},
            partial(run_method, name, method, count, settings, device),
        )
        for (name, count), method in product(counts.items(), METHODS)
    ]


def run_method(
    name: str, method: str, repeats: int, settings: "Settings", device: "torch.device"
) -> dict[str, Any]:
    """Run a method on a data set; each row of the table gets a list of folds for each repeat."""
    import torch

    from paper.device import device_name
    from paper.tabular import cross_validation

    module, function = METHODS[method]
    run = getattr(import_module(f"paper.{module}"), function)
    rows = run(cross_validation(name, repeats, settings), settings, device)
    return {
        "device": device_name(torch.device("cpu") if method.startswith("decorate") else device),
        "rows": {
            row: {key: _by_repeat(values, repeats) for key, values in fields.items()}
            for row, fields in rows.items()
        },
    }


def _by_repeat(values: list[Any], repeats: int) -> list[list[Any]]:
    rounded = [round(value, 4) if isinstance(value, float) else value for value in values]
    size = len(rounded) // repeats
    return [rounded[start : start + size] for start in range(0, len(rounded), size)]


def join(records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the records of jobs by data set and method."""
    found: dict[str, dict[str, Any]] = {name: {} for name in REPEATS}
    for record in records.values():
        config = record["config"]
        kept = {key: record[key] for key in ("config", "versions", "torch", "seconds")}
        found[config["data"]][config["method"]] = {**kept, **record["data"]}
    return found


def text(record: Mapping[str, Any], weka: Mapping[str, Any] | None = None) -> str:
    """Return the tables in Markdown, and how long they took."""
    seconds: dict[str, float] = {}
    for job in (job for jobs in record["data"].values() for job in jobs.values()):
        seconds[job["device"]] = seconds.get(job["device"], 0) + job["seconds"]
    times = ", ".join(f"{total:,.0f} s on {device}" for device, total in sorted(seconds.items()))
    return f"{markdown(grids(record, weka))}\nTime: {times or NONE}.\n"


def grids(record: Mapping[str, Any], weka: Mapping[str, Any] | None = None) -> list[Grid]:
    """Return the errors, and their differences from those of independent nets on the same folds."""
    config = record["config"]
    n = ", ".join(f"{name} {count}" for name, count in config["repeats"].items())
    folds = config["settings"]["n_folds"]
    title = f"{_start(record)}Error in percent: paper / honest / best test epoch; {folds}-fold, repeats: {n}"
    rows = [
        [line.words, *(" / ".join(_cells(record, name, row)) for name in REPEATS)]
        for row, line in LINES.items()
    ]
    if weka is not None:
        cells = [f"{NONE} / {mean(weka['sets'][name]['errors']['weka'], 2)} / {NONE}" for name in REPEATS]
        rows.insert(1, ["DECORATE, Weka's J48", *cells])
    against = [
        [line.words, *(_difference(record, name, row) for name in REPEATS)]
        for row, line in LINES.items()
        if row != BASELINE
    ]
    return [
        Grid(title, ["", *REPEATS], rows),
        Grid("Honest error less that of independent nets, in points (p)", ["", *REPEATS], against),
        _choices(record),
    ]


def narrow_grids(record: Mapping[str, Any]) -> list[Grid]:
    """Return what ``grids`` returns with a table for each data set, which a terminal of 80 columns has room for."""
    headings = ["error in %", "paper", "honest", "best test\nepoch", "less independent\n(p)"]
    found = []
    for name, repeats in record["config"]["repeats"].items():
        title = f"{_start(record)}{name}: {record['config']['settings']['n_folds']}-fold, repeats: {repeats}"
        rows = [
            [
                line.words,
                *_cells(record, name, row),
                NONE if row == BASELINE else _difference(record, name, row),
            ]
            for row, line in LINES.items()
        ]
        found.append(Grid(title, headings, rows))
    return [*found, _choices(record)]


def _start(record: Mapping[str, Any]) -> str:
    return "Smoke run. " if record["config"]["smoke"] else ""


def errors(record: Mapping[str, Any], name: str, row: str, key: str = "error") -> NDArray[np.float64] | None:
    """Return what was measured of a row on a data set, (repeats, folds); None where its job is missing."""
    for job in record["data"].get(name, {}).values():
        if row in job["rows"]:
            return np.array(job["rows"][row][key], dtype=np.float64)
    return None


def _cells(record: Mapping[str, Any], name: str, row: str) -> list[str]:
    """Return the paper's error, ours with its spread over repeats, and that of the best test epoch."""
    paper = LINES[row].paper
    honest, best = (errors(record, name, row, key) for key in ("error", "best_test"))
    return [
        f"{paper[name]:.2f}" if name in paper else NONE,
        NONE if honest is None else spread(honest.mean(axis=1), 2),
        NONE if best is None else mean(best.mean(axis=1), 2),
    ]


def _difference(record: Mapping[str, Any], name: str, row: str) -> str:
    """Return the mean difference with the p-value of the corrected paired test over all folds."""
    from counterpoint.estimators import corrected_paired_test

    ours, baseline = (errors(record, name, key) for key in (row, BASELINE))
    if ours is None or baseline is None:
        return NONE
    share = 1 / (record["config"]["settings"]["n_folds"] - 1)
    test = corrected_paired_test((ours - baseline).ravel(), share)
    sign = "+" if test.difference > 0 else ""
    return f"{sign}{mean([test.difference], 2)} ({test.p_value:.2g})"


def _choices(record: Mapping[str, Any]) -> Grid:
    """Return how many learners DECORATE kept, and how often the inner folds chose which diversity."""

    def share(name: str, diversity: float | None) -> str:
        chosen = errors(record, name, "searched", "diversity")  # None is read as NaN
        if chosen is None:
            return NONE
        return f"{100 * np.mean(np.isnan(chosen) if diversity is None else chosen == diversity):.0f} %"

    rows = []
    for row in ("decorate-trees", "decorate-nets"):
        kept = [errors(record, name, row, "n_learners") for name in REPEATS]
        rows.append([f"{LINES[row].words}: learners", *(NONE if n is None else mean(n, 1) for n in kept)])
    for diversity in (None, *record["config"]["settings"]["diversities"]):
        words = "independent" if diversity is None else f"diversity {diversity:g}"
        rows.append([f"ours: {words}", *(share(name, diversity) for name in REPEATS)])
    return Grid("What was kept and chosen, mean over folds", ["", *REPEATS], rows)


if __name__ == "__main__":
    source, target, *more = given_paths("paper.table_3", "record", "document", optional="weka")
    weka = read_record(more[0]) if more else None
    refill(target, {"table-3": text(read_record(source), weka)})
