"""Fit an ensemble to a table: assess it on held-out rows, then train it again on all rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from counterpoint._notebook import progress_bar
from counterpoint._validation import IntArray, check_flag, check_number, check_whole
from counterpoint.assessment import Assessment
from counterpoint.io import TrainingTable, file_stem
from counterpoint.models.model import TableModel
from counterpoint.theory import OperatingPoint

if TYPE_CHECKING:
    from counterpoint.estimators import DiverseEnsembleClassifier

__all__ = ["TableFit", "fit_table"]

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class TableFit:
    """A model, and its assessment on held-out rows.

    Attributes
    ----------
    model : TableModel
        Trained on all rows.
    assessment : Assessment
        Assessment, on the held-out rows, of the same ensemble trained without them.
    trajectory : OperatingPoint
        Operating point of that ensemble after each epoch.
    diversity : float
        The diversity: given, chosen or the default; 0 is independent training.
    verdict : str or None
        Whether explicit diversity pays on this table, if cross-validation chose it.

    Examples
    --------
    >>> sorted(TableFit.__dataclass_fields__)
    ['assessment', 'diversity', 'model', 'trajectory', 'verdict']
    """

    model: TableModel
    assessment: Assessment
    trajectory: OperatingPoint
    diversity: float
    verdict: str | None


def fit_table(
    table: TrainingTable,
    *,
    diversity: float | None = None,
    search: bool = False,
    n_learners: int = 15,
    epochs: int = 100,
    test_share: float = 0.2,
    random_state: int = 0,
    progress: bool = False,
) -> TableFit:
    """Train an ensemble on a table, and assess it on held-out rows.

    Parameters
    ----------
    table : TrainingTable
        What :func:`counterpoint.io.read_training_table` returned.
    diversity : float, optional
        The dial of :class:`~counterpoint.training.DiversityLoss`, from 0 (independent training) to 1; by default
        ``1 - 1 / n_learners``.
    search : bool, default=False
        Choose the diversity by cross-validation on the training rows, and report whether explicit diversity pays.
        ``diversity`` must then be None.
    n_learners : int, default=15
        Number of networks.
    epochs : int, default=100
        Number of passes over the rows.
    test_share : float, default=0.2
        Share of each class that is held out for the assessment. At least two rows of each class are trained on.
    random_state : int, default=0
        Seed of every random draw.
    progress : bool, default=False
        Show progress on stderr.

    Returns
    -------
    TableFit
        Its model is trained again on all rows, with the same settings.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from counterpoint.datasets import load
    >>> from counterpoint.io import read_training_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     iris = load("iris")
    ...     iris.X.assign(species=iris.y).to_csv(path, index=False)
    ...     table = read_training_table(path, "species")
    >>> fit = fit_table(table, diversity=0.5, n_learners=3, epochs=20)
    >>> fit.assessment.n_samples, bool(fit.assessment.vote.value > 0.8)
    (30, True)
    """
    if not isinstance(table, TrainingTable):
        raise TypeError(f"`table` must be a TrainingTable; got {type(table).__name__}.")
    check_whole(n_learners, "n_learners", minimum=2)
    check_whole(epochs, "epochs", minimum=1)
    check_whole(random_state, "random_state", minimum=0, maximum=2**32 - 1)  # the range of scikit-learn
    check_flag(progress, "progress")
    if diversity is not None:
        check_number(diversity, "diversity", 0, 1)
        if search:
            raise ValueError(f"`diversity` must be None where `search` chooses it; got {diversity!r}.")
    check_flag(search, "search")
    train, test = _split(table, test_share, random_state)
    settings: dict[str, Any] = {"n_estimators": n_learners, "epochs": epochs, "random_state": random_state}
    X_train, y_train = table.frame.iloc[train], table.y[train]
    if search:
        with _spinner("choosing the diversity by cross-validation", progress):
            judged, verdict = _search(X_train, y_train, settings)
    else:
        judged, verdict = _estimator(diversity, settings, progress).fit(X_train, y_train), None
    chosen = 1 - 1 / n_learners if judged.diversity is None else judged.diversity
    assessment = judged.assess(table.frame.iloc[test], table.y[test])
    model = TableModel(
        target=table.target,
        columns=table.columns,
        unused=tuple(table.left_out),
        estimator=clone(judged)
        .set_params(diversity=chosen, random_state=random_state, verbose=int(progress))
        .fit(table.frame, table.y),
        facts={
            "data": table.path.name,
            "n_rows": len(table.y),
            "n_held_out": len(test),
            "accuracy_held_out": assessment.vote.value,
            "diversity": chosen,
            "verdict": verdict,
            **settings | {"epochs": judged.epochs},
        },
    )
    return TableFit(
        model,
        replace(assessment, name=file_stem(table.path)),
        judged.history_.trajectory,
        chosen,
        verdict,
    )


def _split(table: TrainingTable, test_share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the training rows, with at least two of each class, and the held-out rows."""
    share = check_number(test_share, "test_share", 0, 1, closed=False)
    rng = np.random.default_rng(seed)
    held = np.zeros(len(table.y), dtype=bool)
    for label in np.unique(table.y):
        rows = rng.permutation(np.flatnonzero(table.y == label))
        held[rows[: min(round(share * len(rows)), len(rows) - 2)]] = True
    if not held.any():
        raise ValueError(
            f"`test_share` must hold out at least one row and leave two of each class to train on; "
            f"got {share:g} of the {len(held)} rows of {table.path}."
        )
    return np.flatnonzero(~held), np.flatnonzero(held)


def _search(X: Any, y: Any, settings: dict[str, Any]) -> "tuple[DiverseEnsembleClassifier, str]":
    """Return the ensemble that cross-validation chose, trained on these rows, and the verdict."""
    from counterpoint.estimators import DiverseEnsembleClassifierCV

    folds = min(_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    search = DiverseEnsembleClassifierCV(cv=folds, **settings).fit(X, y)
    return search.best_estimator_, search.verdict_


def _estimator(
    diversity: float | None, settings: dict[str, Any], progress: bool
) -> "DiverseEnsembleClassifier":
    from counterpoint.estimators import DiverseEnsembleClassifier

    return DiverseEnsembleClassifier(diversity=diversity, verbose=int(progress), **settings)


@contextmanager
def _spinner(description: str, visible: bool) -> Iterator[None]:
    """Show a description and the elapsed time on stderr."""
    from rich.console import Console
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bar(*columns, console=Console(stderr=True), transient=True, disable=not visible) as bar:
        bar.add_task(description, total=None)
        yield
