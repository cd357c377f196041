"""The one runner of all studies: a study is a list of jobs, and each finished job is one JSON file.

``run_study`` follows the rules of :func:`counterpoint.records.run_jobs`: a job whose file has the same config is done;
a file of another config stops the run before any work; a damaged file is reported and its job runs again; a failed job
does not stop the others. The finished jobs are then joined into one record, from which tables and figures are made.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counterpoint.records import (
    Grid,
    Job,
    RunStore,
    markdown,
    plain,
    read_record,
    rich_table,
    run_jobs,
    write_figure,
    write_record,
    write_text,
)

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

__all__ = ["Study", "about_device", "check_kind", "join_jobs", "publish", "run_study", "select_jobs"]

Record = Mapping[str, Any]

DIGITS = 5  # of a number in a job's file


class Study(NamedTuple):
    """What a study is called and how its record is shown.

    Attributes
    ----------
    name : str
        Name of the record and of the folder of its jobs.
    title : str
        Title in every record.
    tables : callable
        Returns the tables of a record.
    figures : callable
        Returns the figures of a record by the names of their files.
    page : callable, optional
        Returns the record as Markdown; by default its tables.
    """

    name: str
    title: str
    tables: "Callable[[Record], Sequence[Grid]]"
    figures: "Callable[[Record], Mapping[str, Figure]]"
    page: Callable[[Record], str] | None = None

    def in_markdown(self, record: Record) -> str:
        """Return a record as Markdown."""
        return markdown(self.tables(record)) if self.page is None else self.page(record)


def run_study(
    study: Study,
    jobs: Sequence[Job],
    out: Path,
    *,
    smoke: bool = False,
    parts: str | None = None,
    device: "torch.device | None" = None,
) -> list[Path]:
    """Run the jobs that are not done yet, write a record of all that are, and show it.

    Parameters
    ----------
    study : Study
        Names, tables and figures.
    jobs : sequence of Job
        All jobs, in the order in which to run them.
    out : Path
        Folder of ``NAME.json``; jobs go into ``NAME/``.
    smoke : bool, default=False
        Whether this is a smoke run. Smoke runs and real runs need different folders.
    parts : str, optional
        Jobs to run, as comma-separated beginnings of names; by default all. Other finished jobs are still shown.
    device : torch.device, optional
        Where the jobs run; its name and the version of torch go into their records.

    Returns
    -------
    list of Path
        The record, the page and the figures.

    Raises
    ------
    ValueError
        If the folder holds a run of the other kind or of other settings, or ``parts`` match no job.
    RuntimeError
        If a job failed. What is done has been written before.
    """
    check_kind(out, study.name, smoke=smoke)
    only = select_jobs(parts, [job.name for job in jobs])
    store = RunStore(out / study.name)
    outcome = run_jobs(
        [job._replace(work=_tidy(job.work, device)) for job in jobs],
        store,
        title=study.title,
        only=only,
        about=None if device is None else about_device(device),
    )
    with store.lock(study.name):  # one process at a time; others may have finished jobs since
        records = {job.name: record for job in jobs if (record := store.read(job.name, job.config))}
        if not records:
            outcome.check()
            raise RuntimeError(f"No job of {study.name} is done yet; other processes work on them.")
        paths = publish(study, join_jobs(study, records, out, config={"smoke": smoke}))
    outcome.check()
    return paths


def about_device(device: "torch.device") -> dict[str, str]:
    """Return the name of the device and the version of torch, for records."""
    import torch

    from paper.device import device_name

    return {"device": device_name(device), "torch": torch.__version__}


def check_kind(out: Path, name: str, *, smoke: bool) -> None:
    """Raise ValueError if the folder has a record of a smoke run and this is a real one, or the reverse."""
    path = out / f"{name}.json"
    if path.is_file() and read_record(path, "config")["config"].get("smoke") != smoke:
        kind = "a smoke run" if smoke else "no smoke run"
        raise ValueError(f"`out` must be a folder without {path.name}, or with that of {kind}; got '{out}'.")


def select_jobs(parts: str | None, names: Sequence[str]) -> Collection[str]:
    """Return the names that begin with one of the comma-separated parts, as whole words; all if there are none.

    Examples
    --------
    >>> select_jobs("width, net-n1", ["width-8", "width-32", "once-8", "net-n1-s0", "net-n10-s0"])
    ['width-8', 'width-32', 'net-n1-s0']
    """
    if parts is None:
        return names
    selected: list[str] = []
    for part in (one.strip(" -") for one in parts.split(",")):
        found = [name for name in names if f"{name}-".startswith(f"{part}-")]
        if not found:
            kinds = ", ".join(dict.fromkeys(name.split("-")[0] for name in names))
            raise ValueError(f"`parts` must be beginnings of names, of {kinds}; got {part!r}.")
        selected += found
    return selected


def join_jobs(study: Study, records: Mapping[str, Record], out: Path, *, config: Mapping[str, Any]) -> Path:
    """Write the records of the jobs as one, and return its path."""
    about = {
        key: sorted({record[key] for record in records.values() if key in record})
        for key in ("device", "torch")
    }
    path, *_ = write_record(
        out,
        study.name,
        title=study.title,
        config=config,
        **{key: values for key, values in about.items() if values},
        data={name: {key: record[key] for key in ("config", "data")} for name, record in records.items()},
    )
    write_text(path, _laid_out(read_record(path)) + "\n")
    return path


def publish(study: Study, path: Path) -> list[Path]:
    """Print the tables of a record, write page and figures beside it, and return the paths of all."""
    from rich.console import Console

    record, console = read_record(path), Console()
    for grid in study.tables(record):
        console.print(rich_table(grid))
    page = path.with_suffix(".md")
    write_text(page, study.in_markdown(record))
    figures = study.figures(record).items()
    return [
        path,
        page,
        *(file for name, figure in figures for file in write_figure(figure, path.parent, name)),
    ]


def _tidy(
    work: Callable[[], Mapping[str, Any]], device: "torch.device | None"
) -> Callable[[], Mapping[str, Any]]:
    """Return work whose numbers are rounded and whose GPU memory is free for the next job."""

    def tidied() -> Mapping[str, Any]:
        try:
            result: dict[str, Any] = _rounded(plain(work()))
            return result
        finally:
            if device is not None and device.type == "cuda":
                import torch

                torch.cuda.empty_cache()

    return tidied


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _laid_out(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each entry of an object, and each list on one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value, allow_nan=False)
    inner = " " * (indent + 1)
    entries = (f"{inner}{json.dumps(key)}: {_laid_out(entry, indent + 1)}" for key, entry in value.items())
    return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"
