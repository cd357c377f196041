"""The jobs of the arena: one method on one table in one repeat of all folds, each with a record in the store."""

import math
import platform
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from counterpoint._validation import find_fault
from counterpoint.arena.methods import METHODS, Settings, available, candidates_of
from counterpoint.records import RunStore, versions

__all__ = ["COUNTS", "SETTINGS", "ArenaJob", "check_store", "open_store", "read_records"]

SETTINGS = tuple(field.name for field in fields(Settings))
COUNTS = ("rows", "numeric", "nominal", "classes")
_FACTS = (*COUNTS, "checksum")  # of a table
_NUMBER = (int, float)
_MEASURE = (int, float, type(None))
_JOB = {"table": str, "method": str, "repeat": int, "candidates": [dict]}
# What a record holds at least.
_SCHEMA = {
    "config": _JOB | {"n_folds": int} | dict.fromkeys(COUNTS, int),
    "data": {
        "folds": [
            {"error": _NUMBER, "seconds": _NUMBER}
            | dict.fromkeys(("learner_accuracy", "r_tl", "r_ll", "optimality"), _MEASURE)
        ]
    },
}


class ArenaJob(NamedTuple):
    """A table, a method and the number of a repeat.

    Examples
    --------
    >>> ArenaJob("iris", "ncl", 0).name
    'iris/ncl-0'
    """

    table: str
    method: str
    repeat: int

    @property
    def name(self) -> str:
        """Name of the job in the store."""
        return f"{self.table}/{self.method}-{self.repeat}"

    def config(
        self, settings: Mapping[str, Any], facts: Mapping[str, Any], pool: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return everything that the result depends on, in one mapping, so that an error can name what differs.

        The ``pool`` holds the methods that a combined one combines.
        """
        return {**self._asdict(), **settings, **facts, "candidates": candidates_of(self.method, pool)}

    def about(self) -> dict[str, Any]:
        """Return the machine and the versions of the libraries that the method uses."""
        method = METHODS[self.method]
        libraries = [name for name in ("torch" if method.batched else None, method.package) if name]
        found = versions() | {name: version(name) for name in libraries}
        return {"machine": platform.machine(), "versions": found}


def open_store(out: Path) -> RunStore:
    """Return the store of a folder of results.

    Raises
    ------
    ValueError
        If the folder holds results in the format of an earlier version.
    """
    if (out / "cells").is_dir():
        raise ValueError(
            f"`out` must not hold results of an earlier version, whose format cannot be read; got '{out / 'cells'}'."
        )
    return RunStore(out / "jobs")


def read_records(out: str | Path) -> list[dict[str, Any]]:
    """Return the records of all finished jobs in a folder of results.

    Parameters
    ----------
    out : path
        The folder that :func:`arena` was given.

    Returns
    -------
    list of dict
        Each with ``config``, ``data``, ``versions``, ``device`` and ``seconds``; a damaged file is left out.

    Warns
    -----
    RuntimeWarning
        If a file is damaged.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.arena import arena, read_suite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    ...     records = read_records(folder)
    >>> [record["name"] for record in records], len(records[0]["data"]["folds"])
    (['iris/extra-trees-0'], 3)
    """
    store = open_store(Path(out))
    records = [record for name in store if (record := _read(store, name)) is not None]
    if not records:
        raise ValueError(f"`out` must hold at least one finished job; got '{store.folder}' with none.")
    return records


def check_store(
    store: RunStore,
    settings: Settings,
    facts: Mapping[str, Mapping[str, Any]],
    skip: Collection[str] = (),
) -> None:
    """Raise ValueError if a record has other settings or candidates, or belongs to another table of the same name.

    Parameters
    ----------
    store : RunStore
        The store.
    settings : Settings
        Those of the run.
    facts : mapping of str to mapping
        Facts of the tables of the run, by name.
    skip : collection of str, default=()
        Names of jobs that are checked elsewhere.
    """
    for name in (name for name in store if name not in skip):
        record = store.read(name)
        if record is None or find_fault(record["config"], _JOB):  # damaged: a report leaves it out
            continue
        if not available([record["config"]["method"]]):  # nothing is known of its candidates
            continue
        found = record["config"]
        pool = [one.get("method", "") for one in found["candidates"]]
        job = ArenaJob(found["table"], found["method"], found["repeat"])
        own = {fact: found[fact] for fact in _FACTS if fact in found}
        store.read(name, job.config(asdict(settings), facts.get(job.table, own), pool))


def _read(store: RunStore, name: str) -> dict[str, Any] | None:
    """Return a record of the arena; None, with a warning, if it is damaged."""
    if (record := store.read(name)) is None:
        return None
    fault = find_fault(record, _SCHEMA)
    if not fault:
        config, folds = record["config"], record["data"]["folds"]
        numbers = [value for fold in folds for value in fold.values() if isinstance(value, float)]
        if ArenaJob(config["table"], config["method"], config["repeat"]).name != name:
            fault = "it is of another job"
        elif len(folds) != config["n_folds"] or len(folds) < 2:
            fault = f"it has {len(folds)} folds"
        elif not all(map(math.isfinite, numbers)):
            fault = "a number is not finite"
    if fault:
        warnings.warn(
            f"'{store.path(name)}' must hold the record of a job; it is damaged ({fault}) and left out.",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return record
