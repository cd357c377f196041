"""Learners of one hidden unit, the row of the map that gains most: what of it is the read-out, and what more steps do.

The map gives a read-out to networks trained by correlation only. Here the networks that were trained independently get
one too, afterwards, on the same splits and from the same weights; and they train for longer, beside diversities.
``python -m paper.diversity_map.one_unit OUT`` runs what the record in the folder does not hold yet.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from counterpoint.datasets import load
from counterpoint.records import ProgressReporter, given_paths, plain, read_record, versions, write_record
from counterpoint.training import pick_device
from paper.device import device_name
from paper.diversity_map.perceptrons import Perceptrons, Steps, Task, measure, train
from paper.diversity_map.study import DIGITS, EMBEDDED, Grid, prepare

__all__ = ["NAME", "READ_OUT", "Run", "reproduce", "run_part"]

NAME = "diversity-map-one-unit"
TITLE = "Learners of one hidden unit: the read-out of independent training, and more steps"
BASELINE = "independent"
READ_OUT = "independent, read out"
HIDDEN = 1


class Run(NamedTuple):
    """How long to train which numbers of learners, by which losses: independent training, then diversities."""

    steps: int
    learners: tuple[int, ...]
    losses: tuple[str, ...]


# The map has the other losses after as many steps as the first run has. The second leaves out the largest ensembles,
# which would take most of the time.
RUNS = (
    Run(Grid().steps, Grid().learners, (BASELINE,)),
    Run(2000, (5, 15), (BASELINE, "0", "0.5", "0.9")),
)


def reproduce(
    out: Path,
    *,
    names: Sequence[str] = EMBEDDED,
    runs: Sequence[Run] = RUNS,
    grid: Grid | None = None,
    device: str = "auto",
) -> list[Path]:
    """Run what the record in a folder does not hold yet; it is written after each part.

    Parameters
    ----------
    out : Path
        The folder.
    names : sequence of str
        The tables.
    runs : sequence of Run
        What is trained on each.
    grid : Grid, optional
        Folds, repeats, learning rate and weight decay; by default those of the map.
    device : str, default="auto"
        Where to train; "auto" is the GPU if there is one.
    """
    grid, place = grid or Grid(), pick_device(device)
    settings = {key: asdict(grid)[key] for key in ("folds", "rows", "learning_rate", "weight_decay")}
    config = {"seed": 0, "hidden": HIDDEN, "data": names, "runs": [run._asdict() for run in runs], **settings}
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{NAME}.json"
    before = read_record(path, "config", "data") if path.is_file() else {}
    done: list[dict[str, Any]] = before["data"] if before.get("config") == plain(config) else []
    found = {(part["data"], part["steps"], part["n_learners"]) for part in done}
    work = [(name, run, n) for run, name in product(runs, names) for n in run.learners]
    work = [(name, run, n) for name, run, n in work if (name, run.steps, n) not in found]
    with ProgressReporter(len(work)) as tell:
        for name, run, n_learners in work:
            part = run_part(name, n_learners, run, grid, device=place)
            done.append(part)
            write_record(
                out,
                NAME,
                title=TITLE,
                config=config,
                versions={**versions(), "torch": version("torch")},
                device="; ".join(dict.fromkeys(one["device"] for one in done)),
                seconds=round(sum(one["seconds"] for one in done), 1),
                data=done,
            )
            tell.done(f"{name}, {n_learners} learners, {run.steps} steps: {part['seconds']:.0f} s")
    return [path]


def run_part(name: str, n_learners: int, run: Run, grid: Grid, *, device: torch.device) -> dict[str, Any]:
    """Train all folds of a table; count the rows that votes get wrong, independent ones without and with a read-out."""
    start = time.perf_counter()
    x, y, trained = prepare(load(name), grid, 0)
    task = Task(*(torch.as_tensor(array, device=device) for array in (x, y, trained)))
    sizes = (x.shape[1], HIDDEN, int(y.max()) + 1)
    nets = Perceptrons(len(x), len(run.losses), n_learners, sizes, 0).to(device)
    train(nets, task, run.losses, Steps(run.steps, grid.learning_rate, grid.weight_decay))
    raw, read = (measure(nets, task, n_raw=n) for n in (len(run.losses), 0))
    arms = {BASELINE: (raw, 0), READ_OUT: (read, 0)}
    arms |= {loss: (read, place) for place, loss in enumerate(run.losses) if loss != BASELINE}
    return {
        "data": name,
        "n_learners": n_learners,
        "steps": run.steps,
        "rows": (1 - trained).sum(axis=1).astype(int).tolist(),
        "wrong": {
            vote: {
                arm: np.round(getattr(found, vote)[:, place].double().numpy(), DIGITS).tolist()
                for arm, (found, place) in arms.items()
            }
            for vote in ("soft", "hard")
        },
        "learner": {
            arm: round(float(found.learner[:, place].mean()), DIGITS) for arm, (found, place) in arms.items()
        },
        "device": device_name(device),
        "seconds": round(time.perf_counter() - start, 2),
    }


if __name__ == "__main__":
    reproduce(*given_paths("paper.diversity_map.one_unit", "out"))
