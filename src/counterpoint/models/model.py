"""A model that predicts the rows of a table file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray, check_flag, check_path
from counterpoint.io import (
    Cells,
    Column,
    did_you_mean,
    frame_of,
    listed,
    named_columns,
    open_table,
    read_cells,
)
from counterpoint.measures import combine

if TYPE_CHECKING:
    from counterpoint.estimators import DiverseEnsembleClassifier

__all__ = ["TableModel", "TablePredictions"]


@dataclass(frozen=True, eq=False)
class TablePredictions:
    """Predictions for the rows of a file.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        The class that wins the vote.
    proba : array of shape (n_rows, n_classes)
        The probabilities of the vote.
    learners : array of shape (n_learners, n_rows, n_classes)
        Probabilities of each learner.
    classes : array of shape (n_classes,)
        The classes.
    target : str
        Name of the target column.
    truth : array of shape (n_rows,) or None
        Cells of the target column, strings or None, if the file has it.
    notes : tuple of str
        Columns that were ignored, and values that training did not see.

    Examples
    --------
    >>> learners = np.array([[[0.9, 0.1]], [[0.6, 0.4]]])
    >>> found = TablePredictions(
    ...     np.array(["ham"]), learners.mean(axis=0), learners, np.array(["ham", "spam"]), "kind", np.array(["ham"]), ()
    ... )
    >>> found.n_right, found.n_judged
    (1, 1)
    >>> next(found.rows("votes"))
    ['ham']
    """

    labels: NDArray[Any]
    proba: FloatArray
    learners: FloatArray
    classes: NDArray[Any]
    target: str
    truth: NDArray[Any] | None
    notes: tuple[str, ...]

    @property
    def n_judged(self) -> int:
        """Number of rows with a known class."""
        return 0 if self.truth is None else sum(label is not None for label in self.truth.tolist())

    @property
    def n_right(self) -> int:
        """Number of rows with a known class that are predicted correctly."""
        truth = [] if self.truth is None else self.truth.tolist()
        return sum(label == str(found) for label, found in zip(truth, self.labels, strict=False))

    def columns(self, what: str) -> list[str]:
        """Return the header for "votes", "proba" or "learners"."""
        labels = [str(label) for label in self.classes]
        if what == "learners":
            truth = [] if self.truth is None else [self.target]
            return truth + [f"L{i}:{label}" for i in range(1, len(self.learners) + 1) for label in labels]
        return ["prediction", *(f"probability:{label}" for label in labels if what == "proba")]

    def rows(self, what: str) -> Iterator[list[str]]:
        """Yield the cells of each row, for the header that :meth:`columns` returns."""
        for row, label in enumerate(self.labels):
            if what == "learners":
                truth = [] if self.truth is None else [self.truth[row] or ""]
                yield truth + [f"{share:.6g}" for share in self.learners[:, row].ravel()]
            else:
                yield [str(label), *(f"{share:.6g}" for share in self.proba[row] if what == "proba")]


@dataclass(frozen=True, eq=False)
class TableModel:
    """An ensemble, and the columns of the file that it was trained on.

    Attributes
    ----------
    target : str
        Name of the target column.
    columns : tuple of Column
        Columns that prediction needs.
    unused : tuple of str
        Other columns of the training data.
    estimator : DiverseEnsembleClassifier
        The ensemble, fitted to these columns.
    facts : mapping
        How it was trained, in types of JSON.

    Examples
    --------
    >>> from counterpoint.datasets import load
    >>> from counterpoint.io import read_training_table
    >>> from counterpoint.models import fit_table
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     iris = load("iris")
    ...     iris.X.assign(species=iris.y).to_csv(path, index=False)
    ...     fit = fit_table(read_training_table(path, "species"), diversity=0.5, n_learners=3, epochs=5)
    ...     fit.model.predict(path).proba.shape
    (150, 3)
    """

    target: str
    columns: tuple[Column, ...]
    unused: tuple[str, ...]
    estimator: "DiverseEnsembleClassifier"
    facts: Mapping[str, Any]

    def predict(self, path: str | Path, *, progress: bool = False) -> TablePredictions:
        """Predict the rows of a file. Columns are matched by name.

        Parameters
        ----------
        path : path
            A table in one of the formats of :data:`counterpoint.io.TABLE_FORMATS`.
        progress : bool, default=False
            Show a progress bar on stderr.

        Returns
        -------
        TablePredictions
        """
        path = check_path(path, "path")
        check_flag(progress, "progress")
        with open_table(path, progress=progress) as table:
            needed = [column.name for column in self.columns]
            names = named_columns(table, needed)
            if missing := [name for name in needed if name not in names]:
                raise ValueError(
                    f"{path} must have the columns that the model was trained on; {listed(missing)} "
                    f"{'is' if len(missing) == 1 else 'are'} missing.{did_you_mean(missing[0], names)}"
                )
            cells = read_cells(table, needed + [self.target] * (self.target in names))
        unknown = [name for name in names if name not in {*needed, *self.unused, self.target}]
        notes = (
            [f"{path}: ignored columns that the model does not know: {listed(unknown)}."] if unknown else []
        )
        learners, voting = self.estimator.vote_learners(frame_of(cells, self.columns))
        proba = combine(learners, voting=voting)
        return TablePredictions(
            self.estimator.classes_[proba.argmax(axis=1)],
            proba,
            learners,
            self.estimator.classes_,
            self.target,
            self._truth(cells),
            (*notes, *self._unknown_values(cells)),
        )

    def _truth(self, cells: Cells) -> NDArray[Any] | None:
        column = cells.labels.get(self.target)
        if column is None or not column.present():
            return None
        truth: NDArray[Any] = np.array(column.labels, dtype=object)[column.codes]
        return truth

    def _unknown_values(self, cells: Cells) -> Iterator[str]:
        """Yield a note for each category with values not seen in training."""
        names = [column.name for column in self.columns if column.kind == "category"]
        if not names:
            return
        encoder = self.estimator.encoder_
        for name, known, rare in zip(names, encoder.categories_, encoder.infrequent_categories_, strict=True):
            column = cells.labels[name]
            if unknown := column.present() - set(known.tolist()):
                row = column.first(unknown)
                count = "a value" if len(unknown) == 1 else f"{len(unknown)} values"
                role = "none of the known ones" if rare is None else "rare ones"
                yield (
                    f"{cells.path}: column {name!r} has {count} not seen in training, such as "
                    f"{column.labels[column.codes[row]]!r} in {cells.row(row)}; treated as {role}."
                )
