"""Run the jobs that are missing: networks as batched programs, the other methods fold by fold in parallel."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from counterpoint._validation import check_count, check_path
from counterpoint.arena.jobs import ArenaJob, check_store, open_store
from counterpoint.arena.methods import METHODS, SMOKE, Settings, available, check_methods, pool_of
from counterpoint.arena.page import write_report
from counterpoint.arena.predictions import read_predictions, write_predictions
from counterpoint.arena.tables import Table, check_folds, outer_folds
from counterpoint.records import JobRun, Outcome

__all__ = ["arena", "run_missing"]

TITLE = "Arena: methods on the same folds"
REPEATS = 3  # of the folds
ON_DEVICE = ("diverse-cv", "tabm")  # run fold by fold, but on the device


def arena(
    tables: Sequence[Table],
    out: str | Path,
    *,
    methods: Sequence[str] = (),
    repeats: int | None = None,
    folds: int | None = None,
    n_jobs: int = 1,
    device: str = "auto",
    smoke: bool = False,
    progress: bool = True,
) -> list[Path]:
    """Run the jobs that are missing, write the report and return its paths.

    Parameters
    ----------
    tables : sequence of Table
        The data, from :func:`read_suite` or :func:`read_table`.
    out : path
        Folder of the records and of the report.
    methods : sequence of str, default=()
        Keys of ``METHODS``; by default all whose packages are installed.
    repeats : int, optional
        Number of repeats of the cross-validation, each with its own folds; by default 3, or 1 in a smoke run.
    folds : int, optional
        Number of outer folds; by default 10, or 3 in a smoke run.
    n_jobs : int, default=1
        Number of folds that run in parallel, for methods that are not batched; -1 is one for each core.
    device : str, default="auto"
        Where networks train; "auto" is the GPU if there is one.
    smoke : bool, default=False
        Run with a few tiny networks and trees. The numbers mean nothing.
    progress : bool, default=True
        Print a line on stderr for each finished job, and on a terminal a bar.

    Returns
    -------
    list of Path
        The files of the report.

    Raises
    ------
    ValueError
        Before any work, if the folder holds jobs of other settings; the message names the setting.
    RuntimeError
        After the report was written, if jobs failed; the message names them.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.arena import read_suite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    >>> [path.name for path in paths]
    ['summary.json', 'arena.html', 'arena.md', 'arena-scores.png', 'arena-scores.svg']
    """
    out = check_path(out, "out", kind="folder")
    chosen = check_methods(methods) if methods else available()
    n_repeats = (
        (1 if smoke else REPEATS) if repeats is None else int(check_count(repeats, "repeats", minimum=1))
    )
    settings = SMOKE if smoke else Settings()
    if folds is not None:
        settings = replace(settings, n_folds=int(check_count(folds, "folds", minimum=2)))
    if n_jobs < 1 and n_jobs != -1:
        raise ValueError(f"`n_jobs` must be at least 1, or -1 for all cores; got {n_jobs}.")
    for table in tables:
        check_folds(table, settings.n_folds)
    outcome = run_missing(
        tables, chosen, n_repeats, out, settings, n_jobs=n_jobs, device=device, progress=progress
    )
    paths = write_report(out) if any(open_store(out)) or not outcome.failures else []
    outcome.check()
    return paths


def run_missing(
    tables: Sequence[Table],
    methods: Sequence[str],
    repeats: int,
    out: Path,
    settings: Settings,
    *,
    n_jobs: int = 1,
    device: str = "auto",
    progress: bool = True,
) -> Outcome:
    """Run the jobs that the folder does not hold yet, and return records and failures; for parameters see `arena`."""
    store = open_store(out)
    facts = {table.name: table.facts for table in tables}
    jobs = [
        ArenaJob(table.name, method, repeat)
        for repeat in range(repeats)
        for table in tables
        for method in methods
    ]
    pool = pool_of(methods)
    configs = {job.name: job.config(asdict(settings), facts[job.table], pool) for job in jobs}
    check_store(store, settings, facts, skip=configs)
    by_name = {table.name: table for table in tables}
    with JobRun(configs, store, title=TITLE, progress=progress) as run:
        missing = set(run.missing)
        waiting = [job for job in jobs if job.name in missing]
        combined = [job for job in waiting if METHODS[job.method].combined]
        batched = [job for job in waiting if METHODS[job.method].batched]
        others = [job for job in waiting if job not in batched and job not in combined]
        _run_batched(batched, by_name, settings, run, out, device)
        _run_others(others, by_name, settings, run, out, n_jobs=n_jobs, device=device)
        _run_combined(combined, by_name, settings, run, out, pool)
    return run.outcome()


def _write(run: JobRun, job: ArenaJob, folds: Sequence[Mapping[str, Any]], out: Path, device: str) -> None:
    """Write the predictions of a job, if it has any, and then its record."""
    predictions = [fold["predictions"] for fold in folds if "predictions" in fold]
    folds = [{key: fold[key] for key in fold if key != "predictions"} for fold in folds]
    try:
        if predictions:
            write_predictions(out, job.name, predictions)
    except Exception as error:  # as where the disk is full
        run.fail(job.name, error)
        return
    mean = sum(fold["error"] for fold in folds) / len(folds)
    seconds = sum(fold["seconds"] for fold in folds)
    note = f"error {100 * mean:.2f} %"
    run.write(job.name, {"folds": folds}, seconds=seconds, note=note, device=device, **job.about())


def _run_batched(
    jobs: Sequence[ArenaJob],
    tables: Mapping[str, Table],
    settings: Settings,
    run: JobRun,
    out: Path,
    device: str,
) -> None:
    """Run all methods of a table and repeat together."""
    if not jobs:
        return
    import torch

    from counterpoint.arena.networks import run_networks
    from counterpoint.training import pick_device

    place, device_name = pick_device(device), _device_name(device)
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
                _write(run, job, found[job.method], out, device_name)
        if place.type == "cuda":
            torch.cuda.empty_cache()


def _run_others(
    jobs: Sequence[ArenaJob],
    tables: Mapping[str, Table],
    settings: Settings,
    run: JobRun,
    out: Path,
    *,
    n_jobs: int,
    device: str,
) -> None:
    """Run fold by fold, so that no core waits for the longest job."""
    from joblib import delayed

    def calls() -> Iterator[Any]:
        for job in jobs:
            if run.claim(job.name):  # when its first fold is dispatched
                for k in range(settings.n_folds):
                    yield delayed(_run_fold)(job, k, tables[job.table], settings, device)

    found: dict[ArenaJob, dict[int, dict[str, Any] | Exception]] = defaultdict(dict)
    for job, k, result in _as_they_finish(calls(), n_jobs):
        found[job][k] = result
        if len(found[job]) < settings.n_folds:
            continue
        folds = [found[job].pop(k) for k in range(settings.n_folds)]
        if errors := [fold for fold in folds if isinstance(fold, Exception)]:
            run.fail(job.name, errors[0])
        else:
            on = _device_name(device) if job.method in ON_DEVICE else "CPU"
            _write(run, job, [fold for fold in folds if isinstance(fold, dict)], out, on)


def _as_they_finish(calls: Iterator[Any], n_jobs: int) -> Iterator[Any]:
    """Yield the results of delayed calls, on any backend of joblib."""
    from joblib import Parallel, effective_n_jobs

    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    except ValueError:
        # A backend such as Ray's returns all results at once: in blocks, so that those of a killed run are kept.
        parallel = Parallel(n_jobs=n_jobs)
        while some := list(islice(calls, 4 * effective_n_jobs(n_jobs))):
            yield from parallel(some)
    else:
        yield from parallel(calls)


def _run_fold(
    job: ArenaJob, k: int, table: Table, settings: Settings, device: str
) -> tuple[ArenaJob, int, dict[str, Any] | Exception]:
    try:
        fold = outer_folds(table, job.repeat, settings.n_folds)[k]
        seed = [job.repeat, k]
        if job.method == "diverse-cv":
            from counterpoint.arena.search import run_search

            return job, k, run_search(table, fold, settings, seed=seed, device=device)
        from counterpoint.arena.classifiers import run_classifier

        return job, k, run_classifier(table, fold, job.method, settings, seed=seed, device=device)
    except Exception as error:
        return job, k, error


def _run_combined(
    jobs: Sequence[ArenaJob],
    tables: Mapping[str, Table],
    settings: Settings,
    run: JobRun,
    out: Path,
    pool: Sequence[str],
) -> None:
    """Run the methods that combine the others, from the predictions of these."""
    from counterpoint.arena.combined import run_combined

    for job in jobs:
        if not run.claim(job.name):
            continue
        try:
            predictions, seconds = {}, {}
            for method in pool:
                name = job._replace(method=method).name
                if (record := run.store.read(name)) is None:
                    raise FileNotFoundError(f"{name} is needed, which has not finished")
                predictions[method] = read_predictions(out, name, settings.n_folds)
                seconds[method] = [fold["seconds"] for fold in record["data"]["folds"]]
            folds = outer_folds(tables[job.table], job.repeat, settings.n_folds)
            found = run_combined(tables[job.table], folds, job.method, predictions, seconds)
        except Exception as error:  # one job must not cost the others
            run.fail(job.name, error)
        else:
            _write(run, job, found, out, "CPU")


def _device_name(device: str) -> str:
    import torch

    from counterpoint.training import pick_device

    place = pick_device(device)
    return torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU"
