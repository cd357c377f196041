"""The study behind the map: what is tried, trained and put on record.

For each table, number of learners and hidden units, one batched program trains all folds by all losses. What a program
found is one line of ``diversity-map.jsonl``; a run that is started again goes on after the lines it finds there.
"""

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, IntArray
from counterpoint.datasets import DATASETS, Dataset, load
from counterpoint.records import plain, read_record, versions, write_figure, write_record, write_text
from counterpoint.theory import learner_correlation_bounds, optimality, truth_correlation_bounds

TITLE = "When explicit diversity pays: networks of every size and number, on tables"
EMBEDDED = tuple(name for name, source in DATASETS.items() if source.embedded)
PARTS = "diversity-map.jsonl"
MOST_REPEATS = 5
DIGITS = 5  # of a number in the record


@dataclass(frozen=True)
class Grid:
    """What is tried, and how long each network is trained."""

    learners: tuple[int, ...] = (5, 15, 50, 200)
    hidden: tuple[int, ...] = (1, 2, 4, 16, 64)
    diversities: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5)
    folds: int = 10
    steps: int = 300
    rows: int = (
        1000  # a small table is cross-validated again, MOST_REPEATS times at most, until so many were tested
    )
    learning_rate: float = 0.03
    weight_decay: float = 0.01

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses, in the order of their groups."""
        return ("independent", "joint", *(f"{diversity:g}" for diversity in self.diversities))


SMOKE = Grid(learners=(3, 5), hidden=(1, 16), diversities=(0.0, 0.9), folds=2, steps=20, rows=0)
SMOKE_DATA = ("iris", "labor", "glass")


def reproduce(
    out: Path, *, data: Path | None = None, seed: int = 0, device: str = "auto", smoke: bool = False
) -> list[Path]:
    """Train what is not yet in the parts; write the record after each table, then tables and figures."""
    from counterpoint.training import pick_device

    if smoke and data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    grid, names = (SMOKE, SMOKE_DATA) if smoke else (Grid(), table_names(data))
    where = str(pick_device(device))
    out.mkdir(parents=True, exist_ok=True)
    done: list[dict[str, Any]] = []
    record: list[Path] = []
    for name in names:
        parts = fill_parts(out / PARTS, name, grid, data=data, seed=seed, device=where)
        if len(parts) == len(grid.learners) * len(grid.hidden):
            done += parts
            record = _write_record(out, done, grid, seed=seed, smoke=smoke)
    if not record:
        raise RuntimeError("no table has all its parts; the warnings say what went wrong.")
    return [*record, *write_findings(record[0], out)]


def write_findings(record: Path, out: Path) -> list[Path]:
    """Write the tables and figures of a record."""
    from paper.diversity_map.figures import draw_all
    from paper.diversity_map.tables import markdown

    numbers = read_record(record)
    page = out / "diversity-map.md"
    write_text(page, markdown(numbers))
    figures = draw_all(numbers)
    return [page, *(path for name in figures for path in write_figure(figures[name], out, name))]


def table_names(data: Path | None) -> tuple[str, ...]:
    """Return the embedded tables, and those that the folder holds."""
    if data is None:
        return EMBEDDED
    if not data.is_dir():
        raise ValueError(f"`data` must be a folder; got '{data}'.")
    found = {path.stem for folder in (data, data / "more") for path in folder.glob("*.csv")}
    return (*EMBEDDED, *(name for name in DATASETS if name in found and name not in EMBEDDED))


def fill_parts(
    path: Path, name: str, grid: Grid, *, data: Path | None, seed: int, device: str
) -> list[dict[str, Any]]:
    """Return all parts of a table, those of the file and new ones, which are added to it one by one.

    A part that fails is left out with a warning: the others are worth having.
    """
    settings = {"seed": seed, **plain(grid)}
    found = {
        (part["hidden"], part["n_learners"]): part
        for part in _read_parts(path, settings)
        if part["data"] == name
    }
    cells = [(h, n) for h in grid.hidden for n in grid.learners]
    for hidden, n_learners in _progress([cell for cell in cells if cell not in found], name):
        try:
            part = run_part(name, n_learners, hidden, grid, data=data, seed=seed, device=device)
        except (RuntimeError, OSError, ValueError) as error:
            warnings.warn(f"{name}, {n_learners} learners of {hidden}: {error}", stacklevel=2)
            continue
        found[hidden, n_learners] = part
        _append(path, json.dumps({"settings": settings, **part}))
    return [found[cell] for cell in cells if cell in found]


def run_part(
    name: str, n_learners: int, hidden: int, grid: Grid, *, data: Path | None, seed: int, device: str
) -> dict[str, Any]:
    """Train all folds by all losses and return what was found."""
    import torch

    from paper.device import device_name
    from paper.diversity_map.perceptrons import (
        Perceptrons,
        Steps,
        Task,
        count_plain,
        measure,
        train,
    )

    start = time.perf_counter()
    x, y, trained = _prepared(name, None if DATASETS[name].embedded else data, grid, seed)
    task = Task(*(torch.as_tensor(array, device=device) for array in (x, y, trained)))
    sizes = (x.shape[1], hidden, int(y.max()) + 1)
    nets = Perceptrons(len(x), len(grid.losses), n_learners, sizes, seed).to(device)
    train(nets, task, grid.losses, Steps(grid.steps, grid.learning_rate, grid.weight_decay))
    measured = measure(nets, task, n_raw=count_plain(grid.losses))
    found = {key: value.double().numpy() for key, value in measured._asdict().items()}
    found["optimality"] = _optimality(found["r_tl"], found["r_ll"], n_learners)
    return {
        "data": name,
        "n_learners": n_learners,
        "hidden": hidden,
        "n_parameters": n_learners * (hidden * (sizes[0] + 1) + (hidden + 1) * sizes[2]),
        "rows": (1 - trained).sum(axis=1).astype(int).tolist(),
        "wrong": {vote: _by_loss(grid, found.pop(vote)) for vote in ("soft", "hard")},
        "train": {key: _by_loss(grid, value.mean(axis=0)) for key, value in found.items()},
        "device": device_name(torch.device(device)),
        "seconds": round(time.perf_counter() - start, 2),
    }


def prepare(
    table: Dataset, grid: Grid, seed: int
) -> tuple[NDArray[np.float32], IntArray, NDArray[np.float32]]:
    """Return rows (K, F, n) as each fold sees them, classes (n,) and who trains on what (K, n).

    Columns become numbers, and numbers get mean 0 and deviation 1, by the training rows of the fold.
    """
    from sklearn.model_selection import StratifiedKFold

    y = np.unique(table.y, return_inverse=True)[1].astype(np.int64)
    repeats = int(np.clip(grid.rows // len(y), 1, MOST_REPEATS))
    seen, trained = [], []
    for repeat in range(repeats):
        splitter = StratifiedKFold(grid.folds, shuffle=True, random_state=seed + repeat)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class in fewer rows than there are folds
            splits = list(splitter.split(y, y))
        for train, _ in splits:
            seen.append(_standardised(table, train))
            trained.append(np.isin(np.arange(len(y)), train).astype(np.float32))
    widest = max(len(x) for x in seen)  # a rare value may be missing among the training rows of a fold
    padded = [np.pad(x, ((0, widest - len(x)), (0, 0))) for x in seen]
    return np.stack(padded), y, np.stack(trained)


@lru_cache(maxsize=1)  # the parts of a table come one after the other
def _prepared(name: str, data: Path | None, grid: Grid, seed: int) -> Any:
    return prepare(load(name, data), grid, seed)


def _standardised(table: Dataset, train: IntArray) -> NDArray[np.float32]:
    """Return the columns (F, n) as numbers, fitted on some rows."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from counterpoint.io import Column
    from counterpoint.models.model import make_transformer

    columns = tuple(
        Column(str(name), "category" if dtype == "category" else "number")
        for name, dtype in table.X.dtypes.items()
    )
    transformer = make_pipeline(make_transformer(columns), StandardScaler()).fit(table.X.iloc[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a value that the training rows do not have
        found: NDArray[np.float32] = transformer.transform(table.X).T.astype(np.float32)
    return found


def _optimality(r_tl: FloatArray, r_ll: FloatArray, n_learners: int) -> FloatArray:
    """Return the optimality of mean correlations; where learners are constant these may lie outside of the theorems."""
    low, high = learner_correlation_bounds(n_learners)
    r_ll = np.clip(r_ll, low + 1e-6, high)
    found: FloatArray = optimality(
        np.clip(r_tl, *truth_correlation_bounds(r_ll, n_learners)), r_ll, n_learners
    )
    return found


def _write_record(
    out: Path, parts: Sequence[dict[str, Any]], grid: Grid, *, seed: int, smoke: bool
) -> list[Path]:
    names = list(dict.fromkeys(part["data"] for part in parts))
    return write_record(
        out,
        "diversity-map",
        title=TITLE,
        config={"smoke": smoke, "seed": seed, "data": names, **asdict(grid)},
        versions={**versions(), "torch": version("torch")},
        device="; ".join(dict.fromkeys(part["device"] for part in parts)),
        seconds=round(sum(part["seconds"] for part in parts), 1),
        data=[{key: part[key] for key in part if key not in ("device", "settings")} for part in parts],
    )


def _by_loss(grid: Grid, found: FloatArray) -> dict[str, Any]:
    """Return numbers (..., C) under the names of the losses."""
    return {loss: found[..., c].round(DIGITS).tolist() for c, loss in enumerate(grid.losses)}


def _read_parts(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a file that were made with these settings; a line that was cut off is none."""
    parts = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            part = json.loads(line)
        except json.JSONDecodeError:
            warnings.warn(f"'{path}' has a damaged part in line {number}, which is left out.", stacklevel=2)
            continue
        if isinstance(part, dict) and part.get("settings") == settings:
            parts.append(part)
    return parts


def _append(path: Path, line: str) -> None:
    """Add a line to a file, on a line of its own also after one that was cut off."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read() == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def _progress(work: list[tuple[int, int]], name: str) -> Iterator[tuple[int, int]]:
    """Go through the work with a bar on the terminal; say nothing into a pipe."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(work, name, console=console, transient=True, disable=not console.is_terminal)
