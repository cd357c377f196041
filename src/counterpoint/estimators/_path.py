"""Candidates trained on all folds together, in batched programs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray, check_whole
from counterpoint.estimators._settings import count_batch
from counterpoint.training import (
    EnsembleLoss,
    Fold,
    Group,
    GroupedEnsembles,
    Schedule,
    can_train_together,
    fit_groups,
)

__all__ = ["epochs_to_try", "epochs_up_to", "score_path", "train_path"]

# Folds that train as one program take the same number of steps. The batches of a fold smaller than this share of the
# largest would be too small, so it trains in a program of its own.
_SIMILAR = 0.8


def score_path(
    search: Any,
    candidates: Sequence[tuple[EnsembleLoss, float]],
    epochs: Sequence[int],
    folds: Sequence[Any],
    score: Callable[[list[Any], GroupedEnsembles], FloatArray],
) -> FloatArray:
    """Return the scores of each candidate after each number of epochs on each fold.

    Parameters
    ----------
    search : estimator
        It has the settings of the training.
    candidates : sequence of tuple
        Pairs of a loss and a weight decay.
    epochs : sequence of int
        Numbers of epochs after which to score.
    folds : sequence
        Folds of :mod:`counterpoint.estimators._search_fold`.
    score : callable
        Takes some folds and their ensembles, and returns scores (n_scores, n_candidates, n_folds).

    Returns
    -------
    ndarray of shape (n_scores, n_candidates, n_epochs, n_folds)
    """
    found: dict[tuple[int, int], FloatArray] = {}  # (n_scores, n_candidates), by epoch and fold
    # Neighbours train as one program, with one operation for losses of one kind.
    kinds = [loss.kind for loss, _ in candidates]
    order = sorted(range(len(kinds)), key=lambda c: kinds.index(kinds[c]))
    ordered = [candidates[c] for c in order]
    for places in _similar([fold.n_rows for fold in folds]):
        n_rows = max(folds[k].n_rows for k in places)
        schedule = Schedule(
            epochs=max(epochs),
            n_batches=math.ceil(n_rows / count_batch(search.batch_size, n_rows)),
            learning_rate=float(search.learning_rate),
        )
        warmup = int(getattr(search, "warmup_epochs", 0))
        groups = [[Group(folds[k].fold, loss, warmup, decay) for k in places] for loss, decay in ordered]

        def report(
            parts: list[int], epoch: int, grouped: GroupedEnsembles, places: list[int] = places
        ) -> None:
            if epoch in epochs:
                at = [places[k] for k in parts]
                scored = score([folds[k] for k in at], grouped)
                found.update({(epoch, k): scored[..., i] for i, k in enumerate(at)})

        train_path(groups, schedule, report, progress=search.verbose > 0)
    scores = [np.stack([found[epoch, k] for k in range(len(folds))], -1) for epoch in epochs]
    return np.stack(scores, axis=2)[:, np.argsort(order)]


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

        fit_groups(groups, schedule, on_epoch=report, progress=progress)


def epochs_up_to(largest: int, warmup_epochs: int = 0) -> list[int]:
    """Return the numbers of epochs after which networks are scored: each of the first, then every tenth more.

    Examples
    --------
    >>> epochs_up_to(20, warmup_epochs=2)
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
    """
    tried = [1]
    while tried[-1] < largest:
        tried.append(min(largest, max(tried[-1] + 1, round(1.1 * tried[-1]))))
    return [epoch for epoch in tried if epoch > warmup_epochs] or [largest]


def epochs_to_try(epochs: int | Sequence[int], warmup_epochs: int) -> list[int]:
    """Return the numbers of epochs to try, in increasing order: those given, or some up to the one that is given.

    Examples
    --------
    >>> epochs_to_try((50, 10), warmup_epochs=0)
    [10, 50]
    """
    if isinstance(epochs, str) or np.ndim(epochs) == 0:
        return epochs_up_to(check_whole(epochs, "epochs", minimum=1), warmup_epochs)
    tried = sorted(check_whole(epoch, "epochs", minimum=1) for epoch in epochs)  # type: ignore[union-attr]
    if not tried or len(set(tried)) < len(tried):
        raise ValueError(f"`epochs` must be an integer or a sequence of distinct integers; got {epochs!r}.")
    return tried


def _similar(sizes: list[int]) -> list[list[int]]:
    """Return the positions of folds of similar size, which train as one program.

    Examples
    --------
    >>> _similar([100, 99, 30, 100])
    [[0, 1, 3], [2]]
    """
    sets: list[list[int]] = []
    for k in np.argsort(sizes, kind="stable")[::-1].tolist():
        if sets and sizes[k] >= _SIMILAR * sizes[sets[-1][0]]:
            sets[-1].append(k)
        else:
            sets.append([k])
    return [sorted(places) for places in sets]
