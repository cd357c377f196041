"""The store: a file for each table, method and repeat, written once and whole."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from counterpoint.arena.methods import METHODS, Settings, tried
from counterpoint.records import read_record, versions, write_json

__all__ = ["Cell", "Store"]

_NEEDED = ("table", "method", "repeat", "settings", "data", "folds")  # of a record, to be a cell


class Cell(NamedTuple):
    """A table, a method and the number of a repeat."""

    table: str
    method: str
    repeat: int


class Store:
    """The finished cells in a folder.

    Parameters
    ----------
    folder : Path
        Where they are; several machines may fill it, each with cells of its own.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.write(Cell("iris", "ncl", 0), [{"error": 0.05}], Settings(), {"rows": 150}, device="cpu")
    ...     Cell("iris", "ncl", 0) in store, [record["folds"] for record in store]
    (True, [[{'error': 0.05}]])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cells"

    def __contains__(self, cell: Cell) -> bool:
        return self._path(cell).is_file()

    def __len__(self) -> int:
        return len(self._paths())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give the cells, by table, method and repeat."""
        for path in self._paths():
            yield read_record(path, *_NEEDED)

    def check(self, settings: Settings, data: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse cells of other settings or candidates, or of another table by the name of one in ``data``."""
        wanted = asdict(settings)
        for record in self:
            found = record["settings"]
            for name in {**wanted, **found}:
                if found.get(name) != wanted.get(name):
                    raise ValueError(
                        f"`--out` must hold cells of the same settings, or none; got {self.folder} with "
                        f"{name} {found.get(name)!r} and not {wanted.get(name)!r}."
                    )
            method = record["method"]
            # a cell without candidates is held by its settings
            if "candidates" in record and method in METHODS and record["candidates"] != tried(method):
                raise ValueError(
                    f"`--out` must hold cells of the same candidates, or none; got {self.folder} with "
                    f"{record['candidates']!r} for {method} and not {tried(method)!r}."
                )
            here, there = data.get(record["table"], {}), record["data"]
            for fact in here:  # a cell without a checksum is held by its counts
                if fact in there and here[fact] != there[fact]:
                    raise ValueError(
                        f"`--out` must hold cells of the same table, or none; got {self.folder / record['table']} "
                        f"with {fact} {there[fact]!r} and not {here[fact]!r}."
                    )

    def write(
        self,
        cell: Cell,
        folds: Sequence[Mapping[str, Any]],
        settings: Settings,
        table: Mapping[str, Any],
        *,
        device: str,
    ) -> None:
        """Keep what the folds of a cell gave, with all that it was made from."""
        package = METHODS[cell.method].package
        libraries = ["scikit-learn"] + (["torch"] if METHODS[cell.method].batched else [])
        record = {
            **cell._asdict(),
            "settings": asdict(settings),
            "candidates": tried(cell.method),
            "data": table,
            "device": device,
            "machine": platform.machine(),
            "versions": versions()
            | {name: version(name) for name in [*libraries, *([package] if package else [])]},
            "folds": folds,
        }
        write_json(self._path(cell), record)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*/*.json"))

    def _path(self, cell: Cell) -> Path:
        return self.folder / cell.table / f"{cell.method}-{cell.repeat}.json"
