"""The predictions of an ensemble in a file, whichever program made them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._files import replacing
from counterpoint._validation import check_flag, check_path
from counterpoint.io.delimited import write_rows
from counterpoint.io.formats import ARRAY_FORMATS, TABLE_FORMATS, WRITABLE_FORMATS, check_opens, check_suffix
from counterpoint.io.prediction_table import read_prediction_table, what_a_table_cannot_hold

__all__ = ["Predictions", "read_predictions", "storable_truth"]

# Names with another meaning in an archive, or for the function that writes it.
_RESERVED = ("outputs", "learners", "labels", "file", "allow_pickle")


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of the learners of an ensemble, with the truth.

    Attributes
    ----------
    y_true : array of shape (n_samples,)
        The true labels.
    outputs : array of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels, or probabilities.
    learners : tuple of str
        Names of the learners.
    labels : array of shape (n_classes,) or None
        The classes in the order of the probabilities; None takes them from the labels.

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
        """Return the predictions of some learners, given by their indices."""
        indices = np.asarray(learners)
        names = tuple(self.learners[index] for index in indices.tolist())
        return replace(self, outputs=self.outputs[indices], learners=names)

    def write(self, path: str | Path, *, truth: str = "y_true") -> None:
        """Write a file that :func:`read_predictions` reads; its suffix, .csv, .tsv or .npz, names the format.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced only when the new one is complete.
        truth : str, default="y_true"
            Name of the column, or array, of the truth.

        Raises
        ------
        ValueError
            If the file could not be read back. A table cannot hold a label "NA", nor votes of a learner with a colon in
            its name; an archive cannot hold a truth with the name of another of its arrays.
        """
        suffix = check_suffix(check_path(path, "path"), WRITABLE_FORMATS, "path")
        if suffix in ARRAY_FORMATS:
            self._write_archive(path, truth)
            return
        if reason := self._unstorable(truth):
            raise ValueError(f"{path} must end in .npz, because a table cannot hold {reason}.")
        write_rows(path, self._rows(truth))

    def _write_archive(self, path: str | Path, truth: str) -> None:
        if truth in _RESERVED:
            names = ", ".join(map(repr, _RESERVED))
            raise ValueError(f"`truth` must not be one of {names} in an NPZ file; got {truth!r}.")
        arrays: dict[str, Any] = {
            truth: self.y_true,
            "outputs": self.outputs,
            "learners": np.array(self.learners),
        }
        arrays |= {} if self.labels is None else {"labels": self.labels}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)

    def _columns(self) -> list[str]:
        if self.outputs.ndim == 2:
            return list(self.learners)
        return [f"{learner}:{label}" for learner in self.learners for label in self._classes().tolist()]

    def _classes(self) -> NDArray[Any]:
        return np.unique(self.y_true) if self.labels is None else self.labels

    def _unstorable(self, truth: str) -> str:
        votes = self.outputs.ndim == 2
        labels = np.union1d(self.y_true, self.outputs) if votes else self._classes()
        return what_a_table_cannot_hold([truth, *self._columns()], labels.tolist(), votes=votes)

    def _rows(self, truth: str) -> Iterator[list[Any]]:
        yield [truth, *self._columns()]
        for sample, label in enumerate(self.y_true.tolist()):
            yield [label, *self.outputs[:, sample].ravel().tolist()]


def storable_truth(path: str | Path, truth: str) -> str:
    """Return a name for the truth in a file to write: the given one, or "y_true" if the file cannot hold it.

    Parameters
    ----------
    path : path
        The file to write.
    truth : str
        The name of the truth in the file that was read.

    Returns
    -------
    str

    Examples
    --------
    >>> storable_truth("chosen.csv", "labels"), storable_truth("chosen.npz", "labels")
    ('labels', 'y_true')
    """
    suffix = check_suffix(check_path(path, "path"), WRITABLE_FORMATS, "path")
    reserved = suffix in ARRAY_FORMATS and truth in _RESERVED
    return "y_true" if reserved or truth.endswith(".npy") else truth


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
        A table (``.csv``, ``.tsv``, ``.arff``, ``.parquet``) with a column for the truth and, for each learner, a
        column of votes or a column of probabilities for each class, named ``learner:class``. Or arrays: ``.npz`` with
        ``outputs``, the truth and optional ``labels`` and ``learners``; ``.npy`` with the outputs alone, which is
        memory-mapped.
    truth : str, default="y_true"
        The column, or the array in the ``.npz``, of the truth; or a separate ``.npy`` file that holds it.
    learners : sequence of str, optional
        The learners to read, in this order; by default everything except the truth.
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
        If the file does not fit; the message names file, column and row.

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
            "`learners` and `drop` must not be given together: name the ones to keep, or the others."
        )
    path = check_path(path, "path")
    check_flag(progress, "progress")
    check_opens(path)
    suffix = check_suffix(path, (*TABLE_FORMATS, *ARRAY_FORMATS))
    if suffix in ARRAY_FORMATS:
        return Predictions(**ARRAY_FORMATS[suffix].load().read_arrays(path, truth, learners, drop))
    return Predictions(**read_prediction_table(path, truth, learners, drop, progress=progress))
