"""One store for long work: a study is a list of jobs, and each job that is done is one JSON file.

The rule is the same for every study. A job whose file holds the same config is done and is never run again. A file of
another config is kept: the run is refused before any work. A damaged file is reported and its job is run again. A job
that fails is reported, and the others go on. Several processes may share a folder: each job is locked while it runs,
and a job that another process works on is left to it.
"""

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from filelock import FileLock, Timeout

from counterpoint._plain import plain
from counterpoint.records.progress import ProgressReporter
from counterpoint.records.record import read_record, write_record

__all__ = ["Job", "JobRun", "Outcome", "RunStore", "run_jobs"]


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
    """The result of a run of jobs.

    Attributes
    ----------
    records : dict of str to dict
        The records of all jobs that are done, in the order of the jobs.
    failures : dict of str to str
        Why jobs failed, by name.

    Examples
    --------
    >>> Outcome({"iris-0": {"accuracy": 0.95}}, {"iris-1": "no such file"}).check()
    Traceback (most recent call last):
    ...
    RuntimeError: 1 job failed: iris-1: no such file
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
        The folder, which is made when the first record is written.

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
        """Return the path of a job's file; a name that leads out of the folder is refused."""
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"`name` must lead into the folder of the store; got {name!r}.")
        return self.folder / f"{name}.json"

    def read(self, name: str, config: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the record of a job, or None if there is none or its file is damaged.

        Warns
        -----
        RuntimeWarning
            If the file is damaged.

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
            warnings.warn(
                f"{error} The job is run again, or left out of a report.", RuntimeWarning, stacklevel=2
            )
            return None
        if config is not None and (difference := _difference(record["config"], plain(config))):
            raise ValueError(
                f"`out` must be a folder without {name}.json, or with one of the same settings ({difference}); "
                f"got '{self.folder}'."
            )
        return record

    def write(
        self, name: str, config: Mapping[str, Any], data: Mapping[str, Any], *, title: str, **more: Any
    ) -> Path:
        """Write the record of a job, whole or not at all; ``more`` may be device, versions and seconds."""
        return write_record(self.folder, name, title=title, config=config, data=data, **more)[0]

    def lock(self, name: str, *, wait: bool = True) -> AbstractContextManager[Any]:
        """Return a lock that keeps other processes from a job; it is released when its process ends.

        Raises
        ------
        filelock.Timeout
            If another process holds the lock and ``wait`` is False.
        """
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock: AbstractContextManager[Any] = FileLock(
            path.with_name(f".{path.name}.lock"), timeout=-1 if wait else 0, thread_local=False
        )
        return lock

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the jobs that have a file."""
        for path in sorted(self.folder.rglob("*.json")):
            yield path.relative_to(self.folder).with_suffix("").as_posix()


class JobRun:
    """A run over the jobs of a store, for a caller that schedules the work.

    :func:`run_jobs` does one job after another. A caller that computes several jobs together, or a job in pieces,
    opens a run, claims each job before it starts, and then reports its result or its failure.

    Parameters
    ----------
    configs : mapping of str to mapping
        The config of each job, by name.
    store : RunStore
        Where results are kept.
    title : str
        Title of the study, in every record.
    only : collection of str, optional
        Names of the jobs that may be run; by default all.
    progress : bool, default=True
        Show a bar on a terminal, and a line for each job, on stderr.

    Attributes
    ----------
    missing : list of str
        Names of the jobs to run.
    reporter : ProgressReporter
        Shows the progress.

    Raises
    ------
    ValueError
        If the store holds a job with another config.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RunStore(Path(folder))
    ...     with JobRun({"a": {"x": 1}, "b": {"x": 2}}, store, title="Doubles", progress=False) as run:
    ...         for name in run.missing:
    ...             if run.claim(name):
    ...                 run.write(name, {"found": 2 * run.configs[name]["x"]}, seconds=0.1)
    ...     run.outcome().records["b"]["data"]
    {'found': 4}
    """

    def __init__(
        self,
        configs: Mapping[str, Mapping[str, Any]],
        store: RunStore,
        *,
        title: str,
        only: Collection[str] | None = None,
        progress: bool = True,
    ) -> None:
        self.configs, self.store, self.title = configs, store, title
        # All files are read first: a folder of other settings is refused before any work.
        found = {name: store.read(name, config) for name, config in configs.items()}
        self._records = {name: record for name, record in found.items() if record is not None}
        self._failures: dict[str, str] = {}
        self._locks: dict[str, ExitStack] = {}
        self.missing = [
            name for name in configs if name not in self._records and (only is None or name in only)
        ]
        self.reporter = ProgressReporter(len(self.missing), enabled=progress)

    def __enter__(self) -> Self:
        self.reporter.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._locks):
            self._release(name)
        self.reporter.__exit__()

    def claim(self, name: str) -> bool:
        """Lock a job, and return True if its work is to be done here.

        It is not if another process works on the job or has finished it in the meantime.
        """
        lock = ExitStack()
        try:
            lock.enter_context(self.store.lock(name, wait=False))
            self._locks[name] = lock
            record = self.store.read(name, self.configs[name])
        except Timeout:
            self.reporter.done(f"{name}: left to another process")
            return False
        except Exception as error:  # one job must not cost the others
            self.fail(name, error)
            return False
        if record is not None:
            self._records[name] = record
            self._release(name)
            self.reporter.done(f"{name}: done by another process")
            return False
        return True

    def write(
        self, name: str, data: Mapping[str, Any], *, seconds: float, note: str = "", **more: Any
    ) -> None:
        """Write the record of a claimed job; ``note`` is shown with the progress, ``more`` goes into the record."""
        seconds = round(seconds, 2)
        try:
            path = self.store.write(name, self.configs[name], data, title=self.title, seconds=seconds, **more)
            self._records[name] = read_record(path)
        except Exception as error:  # as where the disk is full
            self.fail(name, error)
            return
        self._release(name)
        self.reporter.done(f"{name}: {seconds:.1f} s{f', {note}' if note else ''}")

    def fail(self, name: str, error: Exception) -> None:
        """Report that a claimed job failed."""
        self._release(name)
        self._failures[name] = f"{type(error).__name__}: {error}"
        self.reporter.done(f"{name} failed: {self._failures[name]}")

    def outcome(self) -> Outcome:
        """Return the records of all jobs that are done, and the failures."""
        return Outcome(
            {name: self._records[name] for name in self.configs if name in self._records}, self._failures
        )

    def _release(self, name: str) -> None:
        if lock := self._locks.pop(name, None):
            lock.close()


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
        What else to write into every new record, such as the device.
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
    by_name = {job.name: job for job in jobs}
    configs = {job.name: job.config for job in jobs}
    with JobRun(configs, store, title=title, only=only, progress=progress) as run:
        for name in run.missing:
            run.reporter.now(name)
            if not run.claim(name):
                continue
            began = time.perf_counter()
            try:
                data = by_name[name].work()
            except Exception as error:  # one job must not cost the others
                run.fail(name, error)
            else:
                run.write(name, data, seconds=time.perf_counter() - began, **(about or {}))
    return run.outcome()


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first setting in which two configs differ, with both values."""
    for key in {**wanted, **found}:
        if found.get(key) != wanted.get(key):
            return f"{key}: {wanted.get(key)!r} here, {found.get(key)!r} there"
    return None
