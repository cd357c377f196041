"""One store for long work: a study is a list of jobs, and each job that is done is one JSON file.

The rule is the same for every study. A job whose file holds the same config is done and is never run again. A file of
another config is somebody's work: the run is refused before anything starts. A damaged file is reported and its job run
again. A job that fails is reported, and the others go on. Several processes may share a folder: each job is locked
while it runs, and a job that another process works on is left to it.
"""

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from counterpoint._extras import import_extra
from counterpoint._plain import plain
from counterpoint.records.progress import ProgressReporter
from counterpoint.records.record import read_record, write_record

__all__ = ["Job", "Outcome", "RunStore", "run_jobs"]


class Job(NamedTuple):
    """A unit of work.

    Attributes
    ----------
    name : str
        Name of its file; slashes make folders.
    config : mapping
        Everything that its result depends on.
    work : callable
        Does the work and returns the result, as values that JSON can hold or NumPy arrays.

    Examples
    --------
    >>> Job("square-3", {"x": 3}, lambda: {"found": 9}).work()
    {'found': 9}
    """

    name: str
    config: Mapping[str, Any]
    work: Callable[[], Mapping[str, Any]]


class Outcome(NamedTuple):
    """What a run of jobs left behind.

    Attributes
    ----------
    records : dict of str to dict
        The records of all jobs that are done, in the order of the jobs.
    failures : dict of str to str
        Why jobs failed, by name.
    """

    records: dict[str, dict[str, Any]]
    failures: dict[str, str]

    def check(self) -> None:
        """Raise RuntimeError if a job failed, with the names and the reasons."""
        if self.failures:
            count = f"{len(self.failures)} job{'s' * (len(self.failures) > 1)}"
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
            raise RuntimeError(f"{count} failed: {reasons}")


class RunStore:
    """The finished jobs in a folder, one JSON file each.

    Parameters
    ----------
    folder : Path
        Where they are; made when the first is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RunStore(Path(folder))
    ...     _ = store.write("square-3", {"x": 3}, {"found": 9}, title="Squares")
    ...     store.read("square-3", {"x": 3})["data"]
    {'found': 9}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a job's file."""
        return self.folder / f"{name}.json"

    def read(self, name: str, config: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the record of a job, or None if there is none, or a damaged one.

        Raises
        ------
        ValueError
            If the record has another config than the one given.
        """
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            record = read_record(path, "config", "data")
        except ValueError as error:
            warnings.warn(f"{error} The job is run again.", RuntimeWarning, stacklevel=2)
            return None
        if config is not None and (difference := _difference(record["config"], plain(config))):
            raise ValueError(
                f"`out` must be a folder without {path.name}, or with one of the same settings ({difference}); "
                f"got '{self.folder}'."
            )
        return record

    def write(
        self, name: str, config: Mapping[str, Any], data: Mapping[str, Any], *, title: str, **more: Any
    ) -> Path:
        """Write the record of a job, whole or not at all; ``more`` may be device, versions and seconds."""
        path = self.path(name)
        write_record(path.parent, path.stem, title=title, config=config, data=data, **more)
        return path

    def lock(self, name: str, *, wait: bool = True) -> AbstractContextManager[Any]:
        """Keep other processes out of a block that is about a job; one that is killed lets them in.

        Raises
        ------
        filelock.Timeout
            If another process holds the lock and ``wait`` is False.
        """
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        filelock = import_extra("filelock", "train")
        lock: AbstractContextManager[Any] = filelock.FileLock(
            path.with_name(f".{path.name}.lock"), timeout=-1 if wait else 0
        )
        return lock

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the jobs that have a file."""
        for path in sorted(self.folder.rglob("*.json")):
            yield path.relative_to(self.folder).with_suffix("").as_posix()


def run_jobs(
    jobs: Sequence[Job],
    store: RunStore,
    *,
    title: str,
    only: Collection[str] | None = None,
    about: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Outcome:
    """Run the jobs that are not done yet, and return the records of all that are.

    Parameters
    ----------
    jobs : sequence of Job
        The study, in the order in which to work.
    store : RunStore
        Where results are kept.
    title : str
        Title of the study, in every record.
    only : collection of str, optional
        Names of the jobs that may be run; by default all.
    about : mapping, optional
        What else every new record says, such as the device.
    progress : bool, default=True
        Show a bar on a terminal, and a line for each job, on stderr.

    Returns
    -------
    Outcome
        Records and failures.

    Examples
    --------
    >>> import tempfile
    >>> jobs = [Job(f"square-{x}", {"x": x}, lambda x=x: {"found": x * x}) for x in (2, 3)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = run_jobs(jobs, RunStore(Path(folder)), title="Squares", progress=False)
    >>> [record["data"]["found"] for record in outcome.records.values()]
    [4, 9]
    """
    # All files are read first: a folder of other settings is refused before any work.
    records = {job.name: record for job in jobs if (record := store.read(job.name, job.config)) is not None}
    missing = [job for job in jobs if job.name not in records and (only is None or job.name in only)]
    failures: dict[str, str] = {}
    with ProgressReporter(len(missing), enabled=progress) as report:
        for job in missing:
            report.now(job.name)
            report.done(_run_one(job, store, title, about or {}, records, failures))
    in_order = {job.name: records[job.name] for job in jobs if job.name in records}
    return Outcome(in_order, failures)


def _run_one(
    job: Job,
    store: RunStore,
    title: str,
    about: Mapping[str, Any],
    records: dict[str, dict[str, Any]],
    failures: dict[str, str],
) -> str:
    """Run a job and return what to say of it."""
    timeout = import_extra("filelock", "train").Timeout
    try:
        with store.lock(job.name, wait=False):
            record = store.read(job.name, job.config)  # another process may have been faster
            if record is not None:
                records[job.name] = record
                return f"{job.name}: done by another process"
            began = time.perf_counter()
            data = job.work()
            seconds = round(time.perf_counter() - began, 2)
            store.write(job.name, job.config, data, title=title, seconds=seconds, **about)
            records[job.name] = read_record(store.path(job.name))
            return f"{job.name}: {seconds:.1f} s"
    except timeout:
        return f"{job.name}: left to another process"
    except Exception as error:  # one job must not cost the others
        failures[job.name] = f"{type(error).__name__}: {error}"
        return f"{job.name} failed: {failures[job.name]}"


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first setting in which two configs differ, in words."""
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            return f"{key}: {wanted.get(key)!r} here, {found.get(key)!r} there"
    return None
