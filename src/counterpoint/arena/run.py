"""The run: cells that are not there yet, networks as batched programs, the others beside each other."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoint.arena.cells import Cell, Store
from counterpoint.arena.methods import METHODS, Settings
from counterpoint.arena.tables import Table, outer_folds
from counterpoint.records import ProgressReporter

__all__ = ["Failure", "run_cells"]


class Failure(NamedTuple):
    """A cell that did not come to an end, and why."""

    cell: Cell
    reason: str


def run_cells(
    tables: Sequence[Table],
    methods: Sequence[str],
    repeats: int,
    out: Path,
    settings: Settings,
    *,
    jobs: int = 1,
    device: str = "auto",
) -> list[Failure]:
    """Run what the folder does not hold yet; return what failed.

    Parameters
    ----------
    tables : sequence of Table
        What is learnt.
    methods : sequence of str
        Keys of ``METHODS``.
    repeats : int
        How many times all folds are gone through.
    out : Path
        Folder of the store.
    settings : Settings
        What all cells share.
    jobs : int, default=1
        Folds of methods that are not batched which run at the same time.
    device : str, default="auto"
        Where networks train; "auto" is the GPU if there is one.

    Returns
    -------
    list of Failure
        A cell that fails is told and left out; the others go on.
    """
    store = Store(out)
    store.check(settings, {table.name: table.facts for table in tables})
    missing = [
        cell
        for repeat in range(repeats)
        for table in tables
        for method in methods
        if (cell := Cell(table.name, method, repeat)) not in store
    ]
    by_name = {table.name: table for table in tables}
    failures: list[Failure] = []
    with ProgressReporter(len(missing)) as tell:
        writer = _Writer(store, settings, by_name, tell, failures)
        _run_batched([cell for cell in missing if METHODS[cell.method].batched], writer, device)
        _run_others([cell for cell in missing if not METHODS[cell.method].batched], writer, jobs)
    return failures


class _Writer:
    """Puts cells into the store, and what went wrong on a list."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        tables: dict[str, Table],
        tell: ProgressReporter,
        failures: list[Failure],
    ) -> None:
        self.store, self.settings, self.tables, self.tell = store, settings, tables, tell
        self.failures = failures

    def write(self, cell: Cell, folds: Sequence[dict[str, Any]], device: str) -> None:
        try:
            self.store.write(cell, folds, self.settings, self.tables[cell.table].facts, device=device)
        except Exception as error:  # a cell that cannot be kept must not cost the others
            self.fail(cell, error)
            return
        percent = 100 * sum(fold["error"] for fold in folds) / len(folds)
        seconds = sum(fold["seconds"] for fold in folds)
        self.tell.done(
            f"{cell.table}, {cell.method}, repeat {cell.repeat}: {percent:.2f} % in {seconds:.0f} s"
        )

    def fail(self, cell: Cell, error: Exception) -> None:
        self.failures.append(Failure(cell, f"{type(error).__name__}: {error}"))
        self.tell.done(f"{cell.table}, {cell.method}, repeat {cell.repeat}: failed: {error}")


def _run_batched(cells: Sequence[Cell], writer: _Writer, device: str) -> None:
    if not cells:
        return
    import torch

    from counterpoint.arena.nets import run_nets
    from counterpoint.training import pick_device

    place = pick_device(device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU"
    together: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        together[cell.table, cell.repeat].append(cell)
    for (table_name, repeat), some in together.items():
        table = writer.tables[table_name]
        folds = outer_folds(table, repeat, writer.settings.n_folds)
        methods = [cell.method for cell in some]
        try:
            found = run_nets(
                table, folds, methods, writer.settings, repeat=repeat, device=place, tell=writer.tell.now
            )
        except Exception as error:  # one table must not cost the others
            for cell in some:
                writer.fail(cell, error)
        else:
            for cell in some:
                writer.write(cell, found[cell.method], name)
        if place.type == "cuda":
            torch.cuda.empty_cache()


def _run_others(cells: Sequence[Cell], writer: _Writer, jobs: int) -> None:
    """Run fold by fold, so that no core waits for the longest cell."""
    from joblib import Parallel, delayed

    n_folds = writer.settings.n_folds
    found: dict[Cell, dict[int, dict[str, Any] | Exception]] = defaultdict(dict)
    work = (
        delayed(_one_fold)(cell, k, writer.tables[cell.table], writer.settings)
        for cell in cells
        for k in range(n_folds)
    )
    for cell, k, result in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
        found[cell][k] = result
        if len(found[cell]) < n_folds:
            continue
        folds = [found[cell].pop(k) for k in range(n_folds)]
        if errors := [fold for fold in folds if isinstance(fold, Exception)]:
            writer.fail(cell, errors[0])
        else:
            writer.write(cell, [fold for fold in folds if isinstance(fold, dict)], "CPU")


def _one_fold(
    cell: Cell, k: int, table: Table, settings: Settings
) -> tuple[Cell, int, dict[str, Any] | Exception]:
    from counterpoint.arena.rivals import run_rival

    try:
        fold = outer_folds(table, cell.repeat, settings.n_folds)[k]
        return cell, k, run_rival(table, fold, cell.method, settings, seed=[cell.repeat, k])
    except Exception as error:
        return cell, k, error
