"""The checkpoint of a run of :func:`~counterpoint.training.fit`: everything that it needs to go on exactly."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterpoint.training.checkpoint import load_latest, restore_rng_state, rng_state, save_checkpoint
from counterpoint.training.history import History
from counterpoint.training.identity import check_identity, restoring
from counterpoint.training.modules import copy_state
from counterpoint.training.parallel import (
    load_optimizer_state,
    load_whole_state,
    part_state,
    whole_optimizer_state,
    whole_state,
)
from counterpoint.training.run import Run

__all__ = ["RunCheckpoint"]


@dataclass
class RunCheckpoint:
    """The file of a run; None is no file, and saves nothing."""

    run: Run
    path: str | os.PathLike[str] | None
    keeps_previous: bool = True  # unless the present file is damaged
    was_finished: bool = False  # whether the file that was loaded holds all there is

    def save(self) -> None:
        """Write a checkpoint from which the run resumes exactly, on any mesh: it is that of the whole ensemble."""
        if (path := self.path) is None:
            return
        run, state = self.run, self.run.state
        random = rng_state(run.device, run.generators)
        saved = {
            "identity": run.identity,
            "ensemble": whole_state(run.bare, run.last if len(state.history) else None),
            "best": whole_state(run.bare, run.best),
            "loss": run.loss.state_dict(),
            "optimizer": whole_optimizer_state(state.optimizer, run.bare, run.loss),
            "scheduler": None if state.scheduler is None else state.scheduler.state_dict(),
            "readout": None if run.readout is None else run.readout.state_dict(),
            "history": state.history.to_dict(),
            "watch": run.watch.state(),
            "stop": state.stop,
            "random": random,
            **({"random_of_each": run.axes.every(random)} if run.axes else {}),
        }
        run.axes.once(lambda: save_checkpoint(path, saved, previous=self.keeps_previous))
        self.keeps_previous = True

    def load(self) -> dict[str, Any]:
        """Restore the run, except for the random state, and return what was saved."""
        assert self.path is not None
        run, state, path = self.run, self.run.state, self.path
        saved, self.keeps_previous = run.axes.once(lambda: load_latest(path))
        check_identity(saved, run.identity, path)
        with restoring(path):
            for weights in filter(None, (saved["best"], saved["ensemble"])):  # the first must fit too
                load_whole_state(run.bare, weights)
            run.loss.load_state_dict(saved["loss"])
            load_optimizer_state(state.optimizer, run.bare, run.loss, saved["optimizer"])
            if state.scheduler is not None:
                state.scheduler.load_state_dict(saved["scheduler"])
            state.history = History.from_dict(saved["history"])
            state.epoch, state.stop = len(state.history), saved["stop"]
            run.watch.restore(saved["watch"])
            run.last, run.best = copy_state(run.bare), part_state(run.bare, saved["best"])
        self.was_finished = saved["readout"] is not None and run.is_finished()
        return dict(saved)

    def restore_random(self, saved: Mapping[str, Any]) -> None:
        """Restore the random generators to those of a checkpoint: of this process, or on another mesh of the first."""
        run = self.run
        with restoring(self.path or ""):
            random = run.axes.own_of(saved.get("random_of_each")) or saved["random"]
            restore_rng_state(random, run.device, run.generators)
