"""Parts of a study, each in a file of its own: a killed run loses none that is done, and goes on after them."""

import json
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from counterpoint.records import (
    Grid,
    markdown,
    plain,
    read_part,
    read_record,
    rich_table,
    write_figure,
    write_record,
    write_text,
)
from paper.device import device_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Job", "check_kind", "check_parts", "collect", "join", "publish"]

DIGITS = 5  # of a number in a record


class Job(NamedTuple):
    """A part: its name, what tells it from another of that name, and how to do it."""

    name: str
    config: Mapping[str, Any]
    work: Callable[[], Mapping[str, Any]]


def check_parts(parts: str | None, names: Sequence[str]) -> Collection[str]:
    """Return the names that are asked for: all, or those that begin with words that have commas between them."""
    if parts is None:
        return names
    asked: list[str] = []
    for part in map(str.strip, parts.split(",")):
        found = [name for name in names if f"{name}-".startswith(f"{part}-")]
        if not found:
            kinds = ", ".join(dict.fromkeys(name.split("-")[0] for name in names))
            raise ValueError(f"`parts` must be beginnings of names, of {kinds}; got {part!r}.")
        asked += found
    return asked


def collect(
    jobs: Iterable[Job], folder: Path, wanted: Collection[str], *, title: str, device: torch.device
) -> list[Path]:
    """Do the jobs that are wanted and whose files are not there; return the files of all jobs that have one."""
    from rich.console import Console

    console, files = Console(), []
    for job in jobs:
        path, began = folder / f"{job.name}.json", time.perf_counter()
        if job.name in wanted and _keep(job, path, title=title, device=device):
            console.print(f"{job.name}: {time.perf_counter() - began:.1f} s")
        if path.exists():
            files.append(path)
    if not files:
        raise RuntimeError("No part could be run; the warnings above say why.")
    return files


def check_kind(out: Path, name: str, *, smoke: bool) -> None:
    """Refuse to put a smoke run beside a real one, or the other way round."""
    path = out / f"{name}.json"
    if path.is_file() and read_record(path, "config")["config"].get("smoke") != smoke:
        kind = "a smoke run" if smoke else "no smoke run"
        raise ValueError(f"`out` must be a folder without {path.name}, or with that of {kind}; got '{out}'.")


def _keep(job: Job, path: Path, *, title: str, device: torch.device) -> bool:
    """Do a job and write it, unless its file is there with the same config; tell whether it was done.

    What goes wrong in one part becomes a warning, so that the other parts are not lost. A file with another config is
    somebody's work and stays.
    """
    if read_part(path, job.config) is not None:
        return False
    if path.exists():
        raise ValueError(
            f"`out` must be a folder without {path.parent.name}/{path.name}, or with one of the same settings; "
            f"got '{path.parent.parent}'."
        )
    try:
        found = job.work()
    except Exception as error:
        warnings.warn(f"part {job.name} failed: {type(error).__name__}: {error}", stacklevel=3)
        return False
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
    write_record(
        path.parent,
        job.name,
        title=title,
        config=job.config,
        data=_rounded(plain(found)),
        device=device_name(device),
        torch=torch.__version__,
    )
    return True


def join(
    out: Path, name: str, parts: Sequence[Path], *, title: str, config: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Write the parts as one record, each list of numbers on a line, and return its path and what it holds."""
    pieces = [read_record(path) for path in parts]
    path, *_ = write_record(
        out,
        name,
        title=title,
        config=config,
        device=sorted({piece["device"] for piece in pieces}),
        torch=sorted({piece["torch"] for piece in pieces}),
        data={piece["name"]: {key: piece[key] for key in ("config", "data")} for piece in pieces},
    )
    record = read_record(path)
    write_text(path, _laid_out(record) + "\n")
    return path, record


def publish(record: Path, grids: Sequence[Grid], figure: "Figure") -> list[Path]:
    """Print the tables of a record, write them and the figure beside it, and return the paths of all."""
    from rich.console import Console

    console = Console()
    for grid in grids:
        console.print(rich_table(grid))
    page = record.with_suffix(".md")
    write_text(page, markdown(grids))
    return [record, page, *write_figure(figure, record.parent, record.stem)]


def _laid_out(value: Any, indent: int = 0) -> str:
    """Return JSON with a line for each entry of an object, and each list on one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value, allow_nan=False)
    inner = " " * (indent + 1)
    entries = (f"{inner}{json.dumps(key)}: {_laid_out(entry, indent + 1)}" for key, entry in value.items())
    return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return round(value, DIGITS) if isinstance(value, float) else value
