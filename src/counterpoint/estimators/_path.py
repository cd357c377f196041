"""Candidates trained on all folds as one batched program."""

from collections.abc import Callable, Sequence

from counterpoint.training import Fold, Group, GroupedEnsembles, Schedule, can_train_together, fit_groups
from counterpoint.training.device import threads_for

__all__ = ["train_path"]


def train_path(
    candidates: Sequence[Sequence[Group]],
    schedule: Schedule,
    on_epoch: Callable[[list[int], int, GroupedEnsembles], None],
    *,
    progress: bool = False,
) -> None:
    """Train each candidate on each fold.

    Where networks have batch normalisation, folds of unequal size are trained one after the other.

    Parameters
    ----------
    candidates : sequence of sequences of Group
        The groups of each candidate, one for each fold; the folds are the same for all candidates.
    schedule : Schedule
        Length of the training and settings of the optimizer.
    on_epoch : callable
        Called after each epoch of a program with the positions of its folds, the number of epochs so far and the
        ensembles: those of the first candidate on these folds, then those of the second, and so on.
    progress : bool, default=False
        Whether to show the progress over the epochs.
    """
    folds = [group.fold for group in candidates[0] if isinstance(group.fold, Fold)]
    together = can_train_together(folds, int(schedule.n_batches or 1))
    for places in [list(range(len(folds)))] if together else [[k] for k in range(len(folds))]:
        groups = [groups[k] for groups in candidates for k in places]

        def report(epoch: int, grouped: GroupedEnsembles, places: list[int] = places) -> None:
            on_epoch(places, epoch, grouped)

        weights = sum(p.numel() for network in folds[0].networks for p in network.parameters())
        batch = max(len(folds[k].y) for k in places) / int(schedule.n_batches or 1)
        with threads_for(int(len(groups) * weights * batch), folds[0].device):
            fit_groups(groups, schedule, on_epoch=report, progress=progress)
