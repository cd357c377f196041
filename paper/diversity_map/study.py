"""The study behind the map: what is tried, trained and recorded.

Each cell, a table with a number of learners and of hidden units, is a job with a file of its own in ``diversity-map/``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.datasets import DATASETS, load
from counterpoint.records import (
    Job,
    RunStore,
    read_record,
    run_jobs,
    versions,
    write_figure,
    write_record,
    write_text,
)
from counterpoint.theory import learner_correlation_bounds, optimality, truth_correlation_bounds
from paper.runner import about_device, check_kind

if TYPE_CHECKING:
    import torch

    from counterpoint.training import Schedule
    from paper.programs import Split

NAME = "diversity-map"
TITLE = "When explicit diversity pays: networks of every size and number, on tables"
EMBEDDED = tuple(name for name, source in DATASETS.items() if source.embedded)
VOTES = ("soft", "hard")
DIGITS = 5  # of a number in the record


@dataclass(frozen=True)
class Grid:
    """What is tried, and how long each network is trained."""

    learners: tuple[int, ...] = (5, 15, 50, 200)
    hidden: tuple[int, ...] = (1, 2, 4, 16, 64)
    diversities: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5)
    folds: int = 10
    steps: int = 300
    rows: int = 1000  # test rows wanted from a table, which may be cross-validated again for them
    learning_rate: float = 0.03
    weight_decay: float = 0.01

    @property
    def losses(self) -> tuple[str, ...]:
        """Names of the losses."""
        return ("independent", "joint", *(f"{diversity:g}" for diversity in self.diversities))

    def schedule(self, steps: int | None = None) -> "Schedule":
        """Return steps on all rows, by default as many as the grid says."""
        from counterpoint.training import Schedule

        return Schedule(steps or self.steps, 1, self.learning_rate, self.weight_decay)


SMOKE = Grid(learners=(3, 5), hidden=(1, 16), diversities=(0.0, 0.9), folds=2, steps=20, rows=0)
SMOKE_DATA = ("iris", "labor", "glass")


def reproduce(
    out: Path, *, data: Path | None = None, seed: int = 0, device: str = "auto", smoke: bool = False
) -> list[Path]:
    """Run the jobs that are not done yet; write the record of all complete tables, its page and its figures."""
    from counterpoint.training import pick_device

    if smoke and data is not None:
        raise ValueError("`--data` has no meaning with `--smoke`.")
    grid, names = (SMOKE, SMOKE_DATA) if smoke else (Grid(), table_names(data))
    check_kind(out, NAME, smoke=smoke)
    chosen = pick_device(device)
    jobs = make_jobs(names, grid, data=data, seed=seed, device=chosen)
    outcome = run_jobs(jobs, RunStore(out / NAME), title=TITLE, about=about_device(chosen))
    cells = [join(record) for record in outcome.records.values()]
    count = Counter(cell["data"] for cell in cells)
    complete = [name for name in names if count[name] == len(grid.learners) * len(grid.hidden)]
    if not complete:
        outcome.check()
        raise RuntimeError("No table has all its cells yet; other processes work on them.")
    record = write_map(
        out, [cell for cell in cells if cell["data"] in complete], grid, seed=seed, smoke=smoke
    )
    paths = [record, *write_findings(record, out)]
    outcome.check()
    return paths


def write_findings(record: Path, out: Path) -> list[Path]:
    """Write the page and the figures of a record."""
    from paper.diversity_map.figures import draw_all
    from paper.diversity_map.tables import markdown

    numbers = read_record(record)
    page = out / f"{NAME}.md"
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


def make_jobs(
    names: Sequence[str], grid: Grid, *, data: Path | None, seed: int, device: "torch.device"
) -> list[Job]:
    """Return a job for each cell of the map: a table with a size and a number of learners."""
    shared = {key: value for key, value in asdict(grid).items() if key not in ("learners", "hidden")}
    return [
        Job(
            f"{name}-n{n_learners}-h{hidden}",
            {"data": name, "n_learners": n_learners, "hidden": hidden, "seed": seed, **shared},
            partial(run_cell, name, n_learners, hidden, grid, data=data, seed=seed, device=device),
        )
        for name, hidden, n_learners in product(names, grid.hidden, grid.learners)
    ]


def run_cell(
    name: str,
    n_learners: int,
    hidden: int,
    grid: Grid,
    *,
    data: Path | None,
    seed: int,
    device: "torch.device",
) -> dict[str, Any]:
    """Train an ensemble by each loss on each split, and return what was measured."""
    from paper.diversity_map.networks import Size, measure_arms

    splits = load_splits(name, None if DATASETS[name].embedded else data, grid.folds, grid.rows, seed)
    size = Size(n_learners, hidden)
    arms = measure_arms(splits, grid.losses, size, grid.schedule(), device)
    for arm in arms.values():
        arm["optimality"] = _optimality(arm["r_tl"], arm["r_ll"], n_learners)
    return {
        "n_parameters": size.n_parameters(splits[0]),
        "rows": [len(split.test_labels) for split in splits],
        "wrong": {
            vote: {name: arm[vote].round(DIGITS).tolist() for name, arm in arms.items()} for vote in VOTES
        },
        "train": {
            key: {name: round(float(arm[key].mean()), DIGITS) for name, arm in arms.items()}
            for key in ("learner", "vote", "r_tl", "r_ll", "optimality")
        },
    }


@lru_cache(maxsize=1)  # the cells of a table come one after the other
def load_splits(name: str, data: Path | None, n_folds: int, n_rows: int, seed: int) -> "list[Split]":
    """Return the splits of a table."""
    from paper.diversity_map.splits import make_splits

    return make_splits(load(name, data), n_folds, n_rows, seed)


def _optimality(r_tl: NDArray[np.float64], r_ll: NDArray[np.float64], n_learners: int) -> NDArray[np.float64]:
    """Return the optimality of mean correlations, which constant learners may bring outside of the theorems' bounds."""
    low, high = learner_correlation_bounds(n_learners)
    r_ll = np.clip(r_ll, low + 1e-6, high)
    found: NDArray[np.float64] = optimality(
        np.clip(r_tl, *truth_correlation_bounds(r_ll, n_learners)), r_ll, n_learners
    )
    return found


def join(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a job as a cell of the map."""
    place = {key: record["config"][key] for key in ("data", "n_learners", "hidden")}
    about = {key: record[key] for key in ("device", "torch", "seconds")}
    return {**place, **record["data"], **about}


def write_map(out: Path, cells: Sequence[dict[str, Any]], grid: Grid, *, seed: int, smoke: bool) -> Path:
    """Write the cells of complete tables as one record, and return its path."""
    names = list(dict.fromkeys(cell["data"] for cell in cells))
    path, *_ = write_record(
        out,
        NAME,
        title=TITLE,
        config={"smoke": smoke, "seed": seed, "data": names, **asdict(grid)},
        **summarise_runs(cells),
        data=[{key: cell[key] for key in cell if key not in ("device", "torch")} for cell in cells],
    )
    return path


def summarise_runs(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what cells ran on, and how long in all."""
    device, torch = ("; ".join(dict.fromkeys(cell[key] for cell in cells)) for key in ("device", "torch"))
    return {
        "versions": {**versions(), "torch": torch},
        "device": device,
        "seconds": round(sum(cell["seconds"] for cell in cells), 1),
    }
