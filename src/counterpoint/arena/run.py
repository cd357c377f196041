"""Run the jobs that are missing: networks as batched programs, the other methods fold by fold in parallel."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from counterpoint.arena.jobs import ArenaJob, check_store, open_store
from counterpoint.arena.methods import METHODS, Settings
from counterpoint.arena.tables import Table, outer_folds
from counterpoint.records import JobRun, Outcome

__all__ = ["run_arena"]

TITLE = "Arena: methods on the same folds"


def run_arena(
    tables: Sequence[Table],
    methods: Sequence[str],
    repeats: int,
    out: Path,
    settings: Settings,
    *,
    n_jobs: int = 1,
    device: str = "auto",
) -> Outcome:
    """Run the jobs that the folder does not hold yet.

    Parameters
    ----------
    tables : sequence of Table
        The data.
    methods : sequence of str
        Keys of ``METHODS``.
    repeats : int
        Number of repeats of the cross-validation.
    out : Path
        Folder of results.
    settings : Settings
        What all jobs share.
    n_jobs : int, default=1
        Number of folds that run in parallel, for methods that are not batched.
    device : str, default="auto"
        Where networks train; "auto" is the GPU if there is one.

    Returns
    -------
    Outcome
        Records and failures. A job that fails does not stop the others.
    """
    store = open_store(out)
    facts = {table.name: table.facts for table in tables}
    jobs = [
        ArenaJob(table.name, method, repeat)
        for repeat in range(repeats)
        for table in tables
        for method in methods
    ]
    configs = {job.name: job.config(asdict(settings), facts[job.table]) for job in jobs}
    check_store(store, settings, facts, skip=configs)
    by_name = {table.name: table for table in tables}
    with JobRun(configs, store, title=TITLE) as run:
        missing = set(run.missing)
        batched = [job for job in jobs if job.name in missing and METHODS[job.method].batched]
        others = [job for job in jobs if job.name in missing and not METHODS[job.method].batched]
        _run_batched(batched, by_name, settings, run, device)
        _run_others(others, by_name, settings, run, n_jobs)
    return run.outcome()


def _write(run: JobRun, job: ArenaJob, folds: Sequence[Mapping[str, Any]], device: str) -> None:
    error = sum(fold["error"] for fold in folds) / len(folds)
    seconds = sum(fold["seconds"] for fold in folds)
    note = f"error {100 * error:.2f} %"
    run.write(job.name, {"folds": folds}, seconds=seconds, note=note, device=device, **job.about())


def _run_batched(
    jobs: Sequence[ArenaJob], tables: Mapping[str, Table], settings: Settings, run: JobRun, device: str
) -> None:
    """Run all methods of a table and repeat together."""
    if not jobs:
        return
    import torch

    from counterpoint.arena.networks import run_networks
    from counterpoint.training import pick_device

    place = pick_device(device)
    device_name = torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU"
    together: dict[tuple[str, int], list[ArenaJob]] = defaultdict(list)
    for job in jobs:
        together[job.table, job.repeat].append(job)
    for (table, repeat), waiting in together.items():
        claimed = [job for job in waiting if run.claim(job.name)]
        if not claimed:
            continue
        folds = outer_folds(tables[table], repeat, settings.n_folds)
        methods = [job.method for job in claimed]
        try:
            found = run_networks(
                tables[table], folds, methods, settings, repeat=repeat, device=place, report=run.reporter.now
            )
        except Exception as error:  # one table must not cost the others
            for job in claimed:
                run.fail(job.name, error)
        else:
            for job in claimed:
                _write(run, job, found[job.method], device_name)
        if place.type == "cuda":
            torch.cuda.empty_cache()


def _run_others(
    jobs: Sequence[ArenaJob], tables: Mapping[str, Table], settings: Settings, run: JobRun, n_jobs: int
) -> None:
    """Run fold by fold, so that no core waits for the longest job."""
    from joblib import Parallel, delayed

    def calls() -> Iterator[Any]:
        for job in jobs:
            if run.claim(job.name):  # when its first fold is dispatched
                for k in range(settings.n_folds):
                    yield delayed(_run_fold)(job, k, tables[job.table], settings)

    found: dict[ArenaJob, dict[int, dict[str, Any] | Exception]] = defaultdict(dict)
    for job, k, result in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls()):
        found[job][k] = result
        if len(found[job]) < settings.n_folds:
            continue
        folds = [found[job].pop(k) for k in range(settings.n_folds)]
        if errors := [fold for fold in folds if isinstance(fold, Exception)]:
            run.fail(job.name, errors[0])
        else:
            _write(run, job, [fold for fold in folds if isinstance(fold, dict)], "CPU")


def _run_fold(
    job: ArenaJob, k: int, table: Table, settings: Settings
) -> tuple[ArenaJob, int, dict[str, Any] | Exception]:
    from counterpoint.arena.classifiers import run_classifier

    try:
        fold = outer_folds(table, job.repeat, settings.n_folds)[k]
        return job, k, run_classifier(table, fold, job.method, settings, seed=[job.repeat, k])
    except Exception as error:
        return job, k, error
