"""The arena: methods that compete on the same folds, with the same budget to tune, and what came of it.

A cell is one method on one table in one repeat of all folds; the store keeps each in a file. The report is made from
the store alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint._validation import check_count
from counterpoint.arena.methods import METHODS, Settings, available, check_methods

if TYPE_CHECKING:
    from counterpoint.arena.tables import Table

__all__ = ["METHODS", "SMOKE", "Settings", "arena"]

# Small enough for a check of the program; the numbers mean nothing.
SMOKE = Settings(n_folds=3, n_learners=3, hidden=4, epochs=3, n_trees=5, smoke=True)


def arena(
    tables: "Sequence[Table]",
    out: Path,
    *,
    methods: Sequence[str] = (),
    repeats: int = 1,
    folds: int | None = None,
    jobs: int = 1,
    device: str = "auto",
    smoke: bool = False,
) -> list[Path]:
    """Run the cells that are missing, write the report and return its paths.

    Parameters
    ----------
    tables : sequence of Table
        What is learnt, from ``tables.read_suite`` or ``tables.read_table``.
    out : Path
        Folder of the cells and of the report.
    methods : sequence of str, optional
        Keys of ``METHODS``; by default all whose packages are installed.
    repeats : int, default=1
        How many times all folds are gone through, each time with other folds.
    folds : int, optional
        Outer folds; by default 10, or 3 in a smoke run.
    jobs : int, default=1
        Folds that run at the same time, of methods that are not batched; -1 is one for each core.
    device : str, default="auto"
        Where networks train.
    smoke : bool, default=False
        Run with a few tiny networks and trees.

    Returns
    -------
    list of Path
        The report.

    Raises
    ------
    RuntimeError
        After the report was written, if cells failed; it names them.
    """
    from counterpoint.arena.jobs import open_store
    from counterpoint.arena.page import write_report
    from counterpoint.arena.run import run_arena
    from counterpoint.arena.tables import check_folds

    chosen = check_methods(methods) if methods else available()
    check_count(repeats, "repeats", minimum=1)
    settings = SMOKE if smoke else Settings()
    if folds is not None:
        settings = replace(settings, n_folds=int(check_count(folds, "folds", minimum=2)))
    if jobs < 1 and jobs != -1:
        raise ValueError(f"`jobs` must be at least 1, or -1 for all cores; got {jobs}.")
    for table in tables:
        check_folds(table, settings.n_folds)
    outcome = run_arena(tables, chosen, repeats, out, settings, n_jobs=jobs, device=device)
    paths = write_report(out) if any(open_store(out)) or not outcome.failures else []
    outcome.check()
    return paths
