"""The predictions of an ensemble in a file, whichever program made them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._files import replacing
from counterpoint._validation import check_flag, check_path
from counterpoint.io.delimited import write_rows
from counterpoint.io.formats import ARRAY_FORMATS, TABLE_FORMATS, WRITABLE_FORMATS, check_suffix
from counterpoint.io.long_table import LongColumns, read_long_table
from counterpoint.io.prediction_table import Wanted, read_prediction_table, what_a_table_cannot_hold
from counterpoint.io.sources import Source, as_source, open_source

__all__ = ["Predictions", "read_predictions", "storable_truth"]

# Names with another meaning in an archive, or for the function that writes it.
_RESERVED = ("outputs", "learners", "labels", "file", "allow_pickle")


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of the learners of an ensemble, with the truth.

    Attributes
    ----------
    y_true : array of shape (n_samples,) or None
        The true labels; None if they were not read. It is a masked array if some are blank.
    outputs : array of shape (n_learners, n_samples) or (n_learners, n_samples, n_classes)
        Labels or scores, or probabilities. It is a masked array if some learner has no output for some sample.
    learners : tuple of str
        Names of the learners.
    labels : array of shape (n_classes,) or None
        The classes in the order of the probabilities; None takes them from the labels.
    items : array of str, shape (n_samples,), or None
        Names of the samples, if they were read.
    groups : array of str, shape (n_samples,), or None
        Which samples belong together, if it was read.

    Examples
    --------
    >>> votes = np.array([["ham", "spam"], ["ham", "ham"]])
    >>> predictions = Predictions(np.array(["ham", "spam"]), votes, ("tree", "net"))
    >>> predictions.keep([1]).learners
    ('net',)
    """

    y_true: NDArray[Any] | None
    outputs: NDArray[Any]
    learners: tuple[str, ...]
    labels: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where a learner has no output for a sample, (n_learners, n_samples)."""
        if not np.ma.is_masked(self.outputs):
            return np.zeros(self.outputs.shape[:2], dtype=bool)
        mask: NDArray[np.bool_] = np.ma.getmaskarray(self.outputs)
        return mask if mask.ndim == 2 else np.any(mask, axis=2)

    def keep(self, learners: ArrayLike) -> "Predictions":
        """Return the predictions of some learners, given by their indices."""
        indices = np.asarray(learners)
        names = tuple(self.learners[index] for index in indices.tolist())
        return replace(self, outputs=self.outputs[indices], learners=names)

    def write(self, path: str | Path, *, truth: str = "y_true", item: str | None = None) -> None:
        """Write a file that :func:`read_predictions` reads; its suffix, .csv, .tsv or .npz, names the format.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced only when the new one is complete.
        truth : str, default="y_true"
            Name of the column, or array, of the truth.
        item : str, optional
            Name of a column for the names of the samples, which a table has only if this is given.

        Raises
        ------
        ValueError
            If the file could not be read back. A table cannot hold a label "NA", nor votes of a learner with a colon in
            its name; an archive cannot hold a truth with the name of another of its arrays, nor blank cells.
        """
        suffix = check_suffix(check_path(path, "path"), WRITABLE_FORMATS, "path")
        if suffix in ARRAY_FORMATS:
            self._write_archive(path, truth)
            return
        beside = self._beside(truth, item)
        if reason := self._unstorable(list(beside)):
            raise ValueError(f"{path} must end in .npz, because a table cannot hold {reason}.")
        write_rows(path, self._rows(beside))

    def _write_archive(self, path: str | Path, truth: str) -> None:
        if truth in _RESERVED:
            names = ", ".join(map(repr, _RESERVED))
            raise ValueError(f"`truth` must not be one of {names} in an NPZ file; got {truth!r}.")
        if np.ma.is_masked(self.outputs) or np.ma.is_masked(self.y_true):
            raise ValueError(f"{path} must end in .csv or .tsv, because an archive cannot hold blank cells.")
        arrays: dict[str, Any] = {"outputs": self.outputs, "learners": np.array(self.learners)}
        arrays |= {} if self.y_true is None else {truth: self.y_true}
        arrays |= {} if self.labels is None else {"labels": self.labels}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)

    def _columns(self) -> list[str]:
        if self.outputs.ndim == 2:
            return list(self.learners)
        return [f"{learner}:{label}" for learner in self.learners for label in self._classes().tolist()]

    def _classes(self) -> NDArray[Any]:
        if self.labels is not None:
            return self.labels
        if self.y_true is None:
            return np.arange(self.outputs.shape[2])
        return np.unique(np.ma.compressed(self.y_true))

    def _beside(self, truth: str, item: str | None) -> dict[str, list[Any]]:
        """Return the columns beside the learners', by name."""
        if item is not None and self.items is None:
            raise ValueError(f"`item` must be None, because the samples have no names; got {item!r}.")
        named = {} if item is None or self.items is None else {item: self.items.tolist()}
        return named | ({} if self.y_true is None else {truth: self.y_true.tolist()})

    def _unstorable(self, beside: list[str]) -> str:
        votes = self.outputs.ndim == 2
        labels = set(self._classes().tolist()) if not votes else self._voted()
        return what_a_table_cannot_hold(beside, self._columns(), sorted(labels), votes=votes)

    def _voted(self) -> set[Any]:
        voted = np.ma.compressed(self.outputs) if np.ma.is_masked(self.outputs) else np.unique(self.outputs)
        return {*voted.tolist(), *([] if self.y_true is None else np.ma.compressed(self.y_true).tolist())}

    def _rows(self, beside: dict[str, list[Any]]) -> Iterator[list[Any]]:
        yield [*beside, *self._columns()]
        for sample in range(self.outputs.shape[1]):
            before = [column[sample] for column in beside.values()]
            yield [*before, *self.outputs[:, sample].ravel().tolist()]


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
    path: str | Path | BinaryIO,
    truth: str | None = "y_true",
    *,
    learners: Sequence[str] = (),
    drop: Sequence[str] = (),
    item: str | None = None,
    judge: str | None = None,
    label: str | None = None,
    group: str | None = None,
    abstain: Sequence[str] = (),
    ignore_case: bool = False,
    scores: bool = False,
    file_format: str | None = None,
    progress: bool = False,
) -> Predictions:
    r"""Read the predictions of an ensemble from a file.

    Parameters
    ----------
    path : path or binary file
        A table (``.csv``, ``.tsv``, ``.jsonl``, ``.json``, ``.xlsx``, ``.arff``, ``.parquet``; text also compressed, as
        ``.csv.gz``) with a column for the truth and, for each learner, a column of votes or a column of probabilities
        for each class, named ``learner:class``. Or arrays: ``.npz`` with ``outputs``, the truth and optional ``labels``
        and ``learners``; ``.npy`` with the outputs alone, which is memory-mapped.
    truth : str or None, default="y_true"
        The column, or the array in the ``.npz``, of the truth; or a separate ``.npy`` file that holds it. None reads no
        truth.
    learners : sequence of str, optional
        The learners to read, in this order; by default everything except the truth and the items.
    drop : sequence of str, optional
        Columns, or learners, to leave out.
    item : str, optional
        The column of a table that names the samples.
    judge, label : str, optional
        With both, the table is long: each row holds the label that one judge gave to one item, and maybe the truth of
        the item. The judges become the learners; other columns are not read.
    group : str, optional
        The column of a table that names the group of a sample, such as the document that it is from.
    abstain : sequence of str, optional
        Labels that mean no vote, such as "skip". They are masked like blank cells.
    ignore_case : bool, default=False
        Count labels as one that are equal but for case, blanks around them and final punctuation, such as "Pass." and
        "pass". The spelling is that of the truth.
    scores : bool, default=False
        Read numbers, such as ratings, instead of labels. The truth is numbers too if all of it is.
    file_format : str, optional
        The format of a table, such as "csv" or "jsonl"; by default that of the suffix, or a guess from the first bytes
        of a binary file without a name.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    Predictions
        Truth and outputs. Labels of tables are whole numbers if all of them are, else strings. Blank cells are masked;
        ``missing`` says where those of learners are.

    Raises
    ------
    ValueError
        If the file does not fit; the message names file, column and row. Columns of votes that cannot be answers,
        because nearly all their labels differ or none is a label of the truth, are named together, unless ``learners``
        names them.

    Warns
    -----
    UserWarning
        If a text is not in Unicode; it is read as Windows-1252.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "votes.csv")
    ...     _ = path.write_text("id,truth,tree,net\na,cat,cat,cat\nb,dog,cat,dog\n")
    ...     predictions = read_predictions(path, "truth", item="id")
    >>> predictions.learners, predictions.items.tolist()
    (('tree', 'net'), ['a', 'b'])
    >>> predictions.outputs
    array([['cat', 'cat'],
           ['cat', 'dog']], dtype='<U3')

    A long table:

    >>> from io import BytesIO
    >>> file = BytesIO(b"id,gold,model,answer\na,cat,tree,cat\nb,dog,tree,cat\na,cat,net,cat\n")
    >>> long = read_predictions(file, "gold", item="id", judge="model", label="answer")
    >>> long.outputs.tolist(), long.missing.tolist()
    ([['cat', 'cat'], ['cat', None]], [[False, False], [False, True]])
    """
    if learners and drop:
        raise ValueError(
            "`learners` and `drop` must not be given together: name the ones to keep, or the others."
        )
    check_flag(progress, "progress")
    check_flag(ignore_case, "ignore_case")
    check_flag(scores, "scores")
    columns = _long_columns(item, judge, label)
    source = as_source(path, file_format, TABLE_FORMATS | ARRAY_FORMATS)
    if source.suffix in ARRAY_FORMATS:
        _check_arrays(source, item, group)
        arrays = ARRAY_FORMATS[source.suffix].load().read_arrays(source.path, truth, learners, drop)
        return Predictions(**arrays | {"outputs": _masked(arrays["outputs"], abstain)})
    wanted = Wanted(truth, item, group, learners, drop, abstain, scores, ignore_case)
    with open_source(source, progress=progress) as table:
        if columns is None:
            return Predictions(**read_prediction_table(table, wanted))
        return Predictions(**read_long_table(table, columns, wanted))


def _masked(outputs: NDArray[Any], abstain: Sequence[str]) -> NDArray[Any]:
    """Return an array of labels with those that mean no vote masked."""
    if not abstain or outputs.ndim != 2:
        return outputs
    return np.ma.masked_array(outputs, np.isin(outputs.astype(str), list(abstain)))


def _check_arrays(source: Source, item: str | None, group: str | None) -> None:
    if source.content is not None:
        raise ValueError(
            f"`path` must be a path, because {source.path} holds arrays; got an open file or a pipe."
        )
    if item is not None:
        raise ValueError(f"`item` must be None, because {source.path} holds arrays; got {item!r}.")
    if group is not None:
        raise ValueError(f"`group` must be None, because {source.path} holds arrays; got {group!r}.")


def _long_columns(item: str | None, judge: str | None, label: str | None) -> LongColumns | None:
    if judge is None and label is None:
        return None
    if item is None or judge is None or label is None:
        given = {"item": item, "judge": judge, "label": label}
        lacking = next(name for name, value in given.items() if value is None)
        raise ValueError(f"`{lacking}` must be given too: a long table has an item, a judge and a label.")
    return LongColumns(item, judge, label)
