"""Learners of one hidden unit, which gain most on the map: the part of the read-out, and of more steps.

On the map only networks trained by correlation get a read-out. Here independent networks get one too, on the same
splits and from the same initial weights, and train for more steps beside networks trained for diversity.
Each table with a number of learners and of steps is a job with a file of its own in ``diversity-map-one-unit/``.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from counterpoint.records import Job, RunStore, run_jobs, write_record
from counterpoint.training import pick_device
from paper.diversity_map.networks import BASELINE, READ_OUT, Size, measure_arms
from paper.diversity_map.study import (
    DIGITS,
    EMBEDDED,
    SMOKE,
    SMOKE_DATA,
    VOTES,
    Grid,
    load_splits,
    summarise_runs,
)
from paper.runner import about_device

__all__ = ["BASELINE", "NAME", "READ_OUT", "Run", "make_jobs", "reproduce", "run", "run_job"]

NAME = "diversity-map-one-unit"
TITLE = "Learners of one hidden unit: the read-out of independent training, and more steps"
HIDDEN = 1


class Run(NamedTuple):
    """Numbers of steps and of learners, and the losses: independent training, then diversities."""

    steps: int
    learners: tuple[int, ...]
    losses: tuple[str, ...]


# The map has the other losses after the steps of the first run. The second run leaves out the largest ensembles, which
# would take most of the time.
RUNS = (
    Run(Grid().steps, Grid().learners, (BASELINE,)),
    Run(2000, (5, 15), (BASELINE, "0", "0.5", "0.9")),
)
SMOKE_RUNS = (Run(20, (3,), (BASELINE,)), Run(40, (3,), (BASELINE, "0.9")))


def reproduce(out: Path, *, device: str = "auto", smoke: bool = False) -> list[Path]:
    """Run the jobs that are not done yet, and write the record of all that are."""
    if smoke:
        return run(out, names=SMOKE_DATA, runs=SMOKE_RUNS, grid=SMOKE, device=device)
    return run(out, device=device)


def run(
    out: Path,
    *,
    names: Sequence[str] = EMBEDDED,
    runs: Sequence[Run] = RUNS,
    grid: Grid | None = None,
    device: str = "auto",
) -> list[Path]:
    """Run the jobs that are not done yet, and write the record of all that are.

    Parameters
    ----------
    out : Path
        Folder to write to.
    names : sequence of str
        The tables.
    runs : sequence of Run
        What is trained on each.
    grid : Grid, optional
        Folds, rows, learning rate and weight decay; by default those of the map.
    device : str, default="auto"
        Where to train; "auto" is the GPU if there is one.
    """
    grid, chosen = grid or Grid(), pick_device(device)
    jobs = make_jobs(names, runs, grid, chosen)
    outcome = run_jobs(jobs, RunStore(out / NAME), title=TITLE, about=about_device(chosen))
    outcome.check()
    if len(outcome.records) < len(jobs):
        raise RuntimeError("Not all jobs are done yet; other processes work on them.")
    cells = []
    for record in outcome.records.values():
        place = {key: record["config"][key] for key in ("data", "n_learners", "steps")}
        about = {key: record[key] for key in ("device", "torch", "seconds")}
        cells.append({**place, **record["data"], **about})
    config = {"seed": 0, "hidden": HIDDEN, "data": names, "runs": [run._asdict() for run in runs]}
    return write_record(
        out, NAME, title=TITLE, config={**config, **_settings(grid)}, **summarise_runs(cells), data=cells
    )


def make_jobs(names: Sequence[str], runs: Sequence[Run], grid: Grid, device: torch.device) -> list[Job]:
    """Return a job for each table, number of learners and number of steps."""
    jobs = []
    for run, name in product(runs, names):
        for n_learners in run.learners:
            config = {"data": name, "n_learners": n_learners, "steps": run.steps, "losses": run.losses}
            config |= {"seed": 0, "hidden": HIDDEN, **_settings(grid)}
            work = partial(run_job, name, n_learners, run, grid, device=device)
            jobs.append(Job(f"{name}-n{n_learners}-s{run.steps}", config, work))
    return jobs


def run_job(name: str, n_learners: int, run: Run, grid: Grid, *, device: torch.device) -> dict[str, Any]:
    """Train ensembles on all splits of a table; measure independent ones without and with a read-out."""
    splits = load_splits(name, None, grid.folds, grid.rows, 0)
    size, schedule = Size(n_learners, HIDDEN), grid.schedule(run.steps)
    found = measure_arms(splits, run.losses, size, schedule, device, read_out=True)
    arms = {arm: found[arm] for arm in sorted(found, key=lambda arm: arm not in (BASELINE, READ_OUT))}
    return {
        "rows": [len(split.test_labels) for split in splits],
        "wrong": {
            vote: {name: arm[vote].round(DIGITS).tolist() for name, arm in arms.items()} for vote in VOTES
        },
        "learner": {name: round(float(arm["learner"].mean()), DIGITS) for name, arm in arms.items()},
    }


def _settings(grid: Grid) -> dict[str, Any]:
    return {key: asdict(grid)[key] for key in ("folds", "rows", "learning_rate", "weight_decay")}
