"""A record that grows run by run, so that a killed study goes on where it was, and several processes share one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from counterpoint.records import plain, read_record, write_record
from paper.pretrained.paper import Table

MEANT = {"cutout": 0}  # by records that do not say; they do not know their origins, and are believed
KEYS = {"trunks": ("network", "seed"), "runs": ("group", "way", "seed")}  # what tells entries apart


@contextmanager
def alone(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Keep other processes out of a block that is about a file; one that is killed lets them in.

    Where another process is in its block, wait for it to leave, or else raise :class:`filelock.Timeout`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock"), timeout=-1 if wait else 0):
        yield


class Notebook:
    """The record of a study, written after every trunk and run; one of the same settings is taken up.

    Other processes may add to the same record.

    Parameters
    ----------
    out : Path
        The folder of the record.
    table : Table
        Its name and title.
    config : mapping
        What tells this study from others.
    made : mapping
        Device and versions. The record has those of its beginning; a trunk or run that was made on or with something
        else says so itself.
    """

    def __init__(self, out: Path, table: Table, config: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        self.out, self.table, self.made = out, table, plain(made)
        self.path = out / f"{table.name}.json"
        self.config = plain(config)
        self.record: dict[str, Any] = {
            "config": dict(self.config),
            **self.made,
            "data": {kind: [] for kind in KEYS},
        }
        self.read()

    def read(self) -> None:
        """Take up what is on the disk, if anything is."""
        if self.path.exists():
            self.record = read_record(self.path, "config", "data")
            self._check_same()

    def _check_same(self) -> None:
        known = MEANT | self.record["config"]
        for key, mine in self.config.items():
            if (theirs := known.get(key, mine if key == "origins" else None)) != mine:
                raise ValueError(
                    f"`out` must be a folder without {self.path.name}, or with one of the same settings "
                    f"({key}: {mine} here, {theirs} there); got '{self.out}'."
                )

    def has(self, kind: str, **entries: Any) -> bool:
        """Tell whether there is a trunk or run with these entries."""
        known = self.record["data"][kind]
        return any(all(one[key] == value for key, value in entries.items()) for one in known)

    def add(self, kind: str, entry: Mapping[str, Any]) -> bool:
        """Put a trunk or run on record, and the record on the disk; False where it is there already."""
        with alone(self.path):
            self.read()
            if self.has(kind, **{key: entry[key] for key in KEYS[kind]}):
                return False
            self._append(kind, entry)
        return True

    def _append(self, kind: str, entry: Mapping[str, Any]) -> None:
        record, data = self.record, self.record["data"]
        common = {key: record[key] for key in self.made}
        full = plain({**self.made, **entry})  # a trunk from a file says what it was made with
        data[kind].append(
            {key: value for key, value in full.items() if key not in common or value != common[key]}
        )
        record["config"]["seeds"] = sorted({run["seed"] for run in data["runs"]})
        write_record(
            self.out,
            self.table.name,
            title=self.table.title,
            config=record["config"],
            **common,
            seconds=round(sum(one["seconds"] for part in data.values() for one in part), 1),
            data=data,
        )
