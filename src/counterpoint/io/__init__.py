"""The predictions of an ensemble in a file, whoever made them."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._files import replacing
from counterpoint._validation import check_flag, check_path
from counterpoint.io._arrays import read_arrays
from counterpoint.io._tables import read_table
from counterpoint.io._tabular import unreadable
from counterpoint.io._text import DELIMITERS

__all__ = ["Predictions", "read_predictions"]

_TABLES = (*DELIMITERS, ".arff", ".parquet")
_ARRAYS = (".npz", ".npy")
_WRITTEN = (*DELIMITERS, ".npz")
# Names that mean something else in an archive, or to the function that writes it.
_TAKEN = ("outputs", "learners", "labels", "file", "allow_pickle")


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the learners of an ensemble said of some samples, beside the truth.

    Attributes
    ----------
    y_true : array of shape (n_samples,)
        The true labels.
    outputs : array of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities.
    learners : tuple of str
        Names of the learners.
    labels : array of shape (n_classes,) or None
        The classes, in the order of the columns of probabilities; None leaves them to the labels.

    Examples
    --------
    >>> votes = np.array([["ham", "spam"], ["ham", "ham"]])
    >>> predictions = Predictions(np.array(["ham", "spam"]), votes, ("tree", "net"))
    >>> predictions.keep([1]).learners
    ('net',)
    """

    y_true: NDArray[Any]
    outputs: NDArray[Any]
    learners: tuple[str, ...]
    labels: NDArray[Any] | None = None

    def keep(self, learners: ArrayLike) -> "Predictions":
        """Return the predictions of some learners, given by their places."""
        places = np.asarray(learners)
        names = tuple(self.learners[place] for place in places.tolist())
        return replace(self, outputs=self.outputs[places], learners=names)

    def write(self, path: str | Path, *, truth: str = "y_true") -> None:
        """Write a file that :func:`read_predictions` reads: CSV, TSV or NPZ, as its name ends.

        Parameters
        ----------
        path : path
            The file; one that exists is replaced, and only by a whole one.
        truth : str, default="y_true"
            Name of the column, or array, of the truth.

        Raises
        ------
        ValueError
            If the file could not be read again: a table has no place for a label "NA" or votes of a learner with a
            colon in its name, an archive none for a truth that is named as another of its arrays.
        """
        suffix = check_ending(path)
        if suffix == ".npz" and truth in _TAKEN:
            listed = ", ".join(map(repr, _TAKEN))
            raise ValueError(f"`truth` must not be one of {listed} in an NPZ file; got {truth!r}.")
        if suffix != ".npz" and (reason := self._unreadable(truth)):
            raise ValueError(f"{path} must end in .npz, for a table cannot hold {reason}.")
        with replacing(path) as file:
            if suffix == ".npz":
                arrays: dict[str, Any] = {truth: self.y_true, "outputs": self.outputs}
                arrays |= {"learners": np.array(self.learners)}
                arrays |= {} if self.labels is None else {"labels": self.labels}
                np.savez_compressed(file, **arrays)
                return
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, delimiter=DELIMITERS[suffix], lineterminator="\n")
            writer.writerow([truth, *self._columns()])
            writer.writerows(self._rows())
            text.flush()
            text.detach()  # the file is closed by who opened it

    def _columns(self) -> list[str]:
        if self.outputs.ndim == 2:
            return list(self.learners)
        return [f"{learner}:{label}" for learner in self.learners for label in self._classes().tolist()]

    def _classes(self) -> NDArray[Any]:
        return np.unique(self.y_true) if self.labels is None else self.labels

    def _unreadable(self, truth: str) -> str:
        votes = self.outputs.ndim == 2
        said = np.union1d(self.y_true, self.outputs) if votes else self._classes()
        return unreadable([truth, *self._columns()], said.tolist(), votes=votes)

    def _rows(self) -> Iterator[list[Any]]:
        for sample, label in enumerate(self.y_true.tolist()):
            yield [label, *self.outputs[:, sample].ravel().tolist()]


def check_ending(path: str | Path, name: str = "path") -> str:
    """Return how a path to write to ends, or refuse it; ``name`` is what to call it."""
    suffix = check_path(path, name).suffix.lower()
    if suffix not in _WRITTEN:
        raise ValueError(f"`{name}` must end in one of {', '.join(_WRITTEN)}; got {str(path)!r}.")
    return suffix


def stored_truth(path: str | Path, truth: str) -> str:
    """Return the name of a truth in a file to write: its own, or the usual one where that cannot be."""
    taken = check_ending(path) == ".npz" and truth in _TAKEN
    return "y_true" if taken or truth.endswith(".npy") else truth


def read_predictions(
    path: str | Path,
    truth: str = "y_true",
    *,
    learners: Sequence[str] = (),
    drop: Sequence[str] = (),
    progress: bool = False,
) -> Predictions:
    r"""Read the predictions of an ensemble from a file.

    Parameters
    ----------
    path : path
        A table (``.csv``, ``.tsv``, ``.arff``, ``.parquet``) with a column for the truth and, for each learner, one
        of votes or one for each class, named ``learner:class``, of probabilities. Or arrays: ``.npz`` with ``outputs``,
        the truth and perhaps ``labels`` and ``learners``; ``.npy`` with the outputs alone, which is memory-mapped.
    truth : str, default="y_true"
        The column, or the array in the ``.npz``, of the truth; or a ``.npy`` file of it beside arrays.
    learners : sequence of str, optional
        The learners to read, in this order; by default all that is not the truth.
    drop : sequence of str, optional
        Columns, or learners, to leave out.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    Predictions
        Truth and outputs. Labels of tables are whole numbers if all of them are, else strings.

    Raises
    ------
    ValueError
        If the file is not as described; the message names file, column and row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "votes.csv")
    ...     _ = path.write_text("id,truth,tree,net\na,cat,cat,cat\nb,dog,cat,dog\n")
    ...     predictions = read_predictions(path, "truth", drop=["id"])
    >>> predictions.learners
    ('tree', 'net')
    >>> predictions.outputs
    array([['cat', 'cat'],
           ['cat', 'dog']], dtype='<U3')
    """
    if learners and drop:
        raise ValueError(
            "`learners` and `drop` must not be given together: name those to keep or the others."
        )
    path = check_path(path, "path")
    check_flag(progress, "progress")
    with path.open("rb"):  # a missing file, a folder or one without permission is the first thing to say
        pass
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        return Predictions(**read_arrays(path, truth, learners, drop))
    if suffix in _TABLES:
        return Predictions(**read_table(path, truth, learners, drop, progress=progress))
    raise ValueError(f"{path} must end in one of {', '.join((*_TABLES, *_ARRAYS))}.")
