"""Table 3: cross-validation errors of DECORATE, of the paper's algorithm, of independent networks and of ours.

Each configuration on each data set is a part, written to a file of its own when it is done. A run that is started again
in the same folder takes the parts that are there, and is refused where their settings are others. ``python -m
paper.table_3 RECORD DOCUMENT [WEKA]`` writes the tables of a record into a document again, with the
errors of Weka's DECORATE from its benchmark.
"""

import dataclasses
import time
import warnings
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, check_count
from counterpoint.records import (
    NONE,
    Grid,
    ProgressReporter,
    given_paths,
    markdown,
    mean,
    plain,
    read_record,
    refill,
    rich_table,
    spread,
    versions,
    write_json,
    write_record,
    write_text,
)

if TYPE_CHECKING:
    import torch

    from paper.tabular import Tick

TITLE = "Cross-validation error on tables: DECORATE, the paper's algorithm, independent networks, ours"

REPEATS = MappingProxyType({"breast-w": 10, "iris": 10, "segment": 3})
# part -> the function that runs it; the longest comes last
PARTS = MappingProxyType(
    {
        "decorate-trees": ("decorated", "decorate_trees"),
        "decorate-nets": ("decorated", "decorate_nets"),
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
    """Run the parts that are missing; print the table, write it and the numbers behind it."""
    from rich.console import Console

    from counterpoint.training import pick_device
    from paper.tabular import SMOKE, Settings

    settings = dataclasses.replace(SMOKE if smoke else Settings(), seed=seed)
    counts = {name: 1 if smoke else count for name, count in REPEATS.items()}
    if repeats is not None:
        counts = dict.fromkeys(REPEATS, int(check_count(repeats, "repeats", minimum=1)))
    found, failed = _run(out / "table-3", counts, settings, pick_device(device))
    what = f"{len(failed)} part{'s' if len(failed) > 1 else ''} failed"
    if not any(found.values()):
        raise RuntimeError(f"{what}, and there is nothing to write: {'; '.join(failed)}")
    config = {"smoke": smoke, "repeats": counts, "settings": dataclasses.asdict(settings)}
    paths = write_record(out, "table-3", title=TITLE, config=config, data=found)
    record = read_record(paths[0])
    path = out / "table-3.md"
    write_text(path, text(record))
    console = Console()
    for grid in narrow_grids(record):
        console.print(rich_table(grid))
    if failed:
        raise RuntimeError(f"{what}, the others are written: {'; '.join(failed)}")
    return [*paths, path]


def _run(
    folder: Path, counts: Mapping[str, int], settings: Any, device: "torch.device"
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the parts by data set, from the folder or run now, and what went wrong with those that failed."""
    paths = {(name, part): folder / f"{name}-{part}.json" for name, part in product(counts, PARTS)}
    kept = {  # all are looked at first: a run that cannot use one must not replace another
        (name, part): _kept(path, {"repeats": counts[name], **dataclasses.asdict(settings)})
        for (name, part), path in paths.items()
    }
    found: dict[str, dict[str, Any]] = {name: {} for name in counts}
    failed = []
    with ProgressReporter(len(paths)) as tell:
        for (name, part), path in paths.items():
            words, one = f"{name}, {part}", kept[name, part]
            tell.now(words)
            try:
                if one is None:
                    one = _part(name, part, counts[name], settings, device, partial(tell.now, words))
                    write_json(path, one)
            except Exception as error:  # the other parts are worth having
                failed.append(f"{words}: {error}")
                tell.done(failed[-1])
                continue
            found[name][part] = one
            tell.done(f"{words}: {one['seconds']:.0f} s on {one['device']}")
    return found, failed


def _kept(path: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a part that was written before, or refuse one of other settings; one that is damaged is none."""
    if not path.is_file():
        return None
    try:
        part = read_record(path, "config", "device", "seconds", "rows")
    except ValueError as error:
        warnings.warn(f"{error} The part is run again.", stacklevel=2)
        return None
    found, wanted = part["config"], plain(config)
    for name in {**wanted, **found}:
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"`--out` must hold parts of the same settings, or none; got '{path}' with "
                f"{name} {found.get(name)!r} and not {wanted.get(name)!r}."
            )
    return part


def _part(
    name: str, part: str, repeats: int, settings: Any, device: "torch.device", tick: "Tick"
) -> dict[str, Any]:
    """Run a configuration on a data set; errors are lists of folds for each repeat."""
    from importlib import import_module

    import torch

    from paper.device import device_name
    from paper.tabular import cross_validation

    module, function = PARTS[part]
    run = getattr(import_module(f"paper.{module}"), function)
    start = time.perf_counter()
    rows = run(cross_validation(name, repeats, settings), settings, device, tick)
    one: dict[str, Any] = plain(
        {
            "config": {"repeats": repeats, **dataclasses.asdict(settings)},
            "versions": {**versions(), "torch": torch.__version__},
            "device": device_name(torch.device("cpu") if part.startswith("decorate") else device),
            "seconds": round(time.perf_counter() - start, 1),
            "rows": {
                row: {key: _by_repeat(values, repeats) for key, values in fields.items()}
                for row, fields in rows.items()
            },
        }
    )
    return one


def _by_repeat(values: list[Any], repeats: int) -> list[list[Any]]:
    rounded = [round(value, 4) if isinstance(value, float) else value for value in values]
    size = len(rounded) // repeats
    return [rounded[start : start + size] for start in range(0, len(rounded), size)]


def text(record: Mapping[str, Any], weka: Mapping[str, Any] | None = None) -> str:
    """Return the tables in Markdown, and how long they took."""
    seconds: dict[str, float] = {}
    for part in (part for parts in record["data"].values() for part in parts.values()):
        seconds[part["device"]] = seconds.get(part["device"], 0) + part["seconds"]
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


def errors(record: Mapping[str, Any], name: str, row: str, key: str = "error") -> FloatArray | None:
    """Return what was measured of a row on a data set, (repeats, folds); None where its part is missing."""
    for part in record["data"].get(name, {}).values():
        if row in part["rows"]:
            return np.array(part["rows"][row][key], dtype=np.float64)
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
