"""The candidates of a search, trained on all folds as one batched program."""

from collections.abc import Sequence

from counterpoint.training import (
    DiversityLoss,
    Ensemble,
    Fold,
    Group,
    Schedule,
    can_train_together,
    fit_groups,
)

__all__ = ["train_path"]


def train_path(
    folds: Sequence[Fold],
    diversities: Sequence[float],
    schedule: Schedule,
    *,
    weight_decays: Sequence[float | None] = (None,),
    warmup_epochs: int = 0,
    voting: str = "auto",
    progress: bool = False,
) -> list[list[Ensemble]]:
    """Return the trained ensemble of each candidate on each fold.

    The candidates are the diversities, each with all weight decays in a row. Where networks have batch normalisation,
    folds of unequal size are trained one after the other.

    Parameters
    ----------
    folds : sequence of Fold
        What is trained on; the networks are left as they are.
    diversities : sequence of float
        Those that are tried; 0 is independent training.
    schedule : Schedule
        How to train.
    weight_decays : sequence of float or None, default=(None,)
        Those of each; None is that of the schedule.
    warmup_epochs : int, default=0
        Epochs of independent training, before a diversity.
    voting : str, default="auto"
        That of the ensembles.
    progress : bool, default=False
        Whether to show a bar over the epochs.
    """
    losses = [DiversityLoss(diversity) for diversity in diversities]
    candidates = [(loss, decay) for loss in losses for decay in weight_decays]
    path: list[list[Ensemble]] = [[] for _ in candidates]
    together = can_train_together(folds, int(schedule.n_batches or 1))
    for some in [list(folds)] if together else [[fold] for fold in folds]:
        groups = [Group(fold, loss, warmup_epochs, decay) for loss, decay in candidates for fold in some]
        trained = fit_groups(groups, schedule, progress=progress).ensembles(voting)
        for c, ensembles in enumerate(path):
            ensembles += trained[c * len(some) : (c + 1) * len(some)]
    return path
