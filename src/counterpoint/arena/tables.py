"""Tables with their folds, the same for every method."""

import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from counterpoint._validation import IntArray

__all__ = [
    "INNER_FOLDS",
    "OuterFold",
    "Split",
    "Table",
    "check_folds",
    "make_table",
    "outer_folds",
    "read_table",
]

INNER_FOLDS = 3


class Table(NamedTuple):
    """A table for classification, without constant columns.

    Attributes
    ----------
    name : str
        Name of the table.
    X : DataFrame
        Columns of float64, with NaN, or of categories.
    y : ndarray of shape (n_rows,)
        The class of each row, as an index into ``classes``.
    classes : tuple of str
        Names of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> table = Table("tiny", pd.DataFrame({"size": [1.5, 2.0]}), np.array([0, 1]), ("a", "b"))
    >>> table.facts["rows"], table.facts["numeric"]
    (2, 1)
    """

    name: str
    X: Any
    y: IntArray
    classes: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The counts of rows, columns and classes, and a checksum of the contents."""
        nominal = int((self.X.dtypes == "category").sum())
        rows = self.X.to_csv(index=False) + ",".join(self.classes[code] for code in self.y)
        return {
            "rows": len(self.y),
            "numeric": self.X.shape[1] - nominal,
            "nominal": nominal,
            "classes": len(self.classes),
            "checksum": f"{zlib.crc32(rows.encode()):08x}",
        }


class Split(NamedTuple):
    """Indices of the training rows and of the test rows."""

    train: IntArray
    test: IntArray


class OuterFold(NamedTuple):
    """A split of the table, and the splits of its training part for tuning."""

    outer: Split
    inner: tuple[Split, ...]


def make_table(name: str, X: Any, y: Any) -> Table:
    """Return a table without its constant columns, with classes in sorted order.

    Examples
    --------
    >>> import pandas as pd
    >>> table = make_table("mine", pd.DataFrame({"x": [1.0, 2.0], "same": [0.0, 0.0]}), ["no", "yes"])
    >>> list(table.X), table.y, table.classes
    (['x'], array([0, 1]), ('no', 'yes'))
    """
    classes, codes = np.unique(y, return_inverse=True)
    return Table(name, X.loc[:, X.nunique(dropna=False) > 1], codes, tuple(map(str, classes)))


def read_table(path: str | Path, target: str, *, drop: Sequence[str] = ()) -> Table:
    r"""Return the table of a file, with column types inferred from the values.

    Parameters
    ----------
    path : path
        CSV, TSV, ARFF or Parquet.
    target : str
        The column of the classes.
    drop : sequence of str, default=()
        Columns to leave out.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "animals.csv")
    ...     _ = path.write_text("size,colour,kind\n1.5,red,a\n,blue,b\n3,,a\n2,red,b\n")
    ...     table = read_table(path, "kind")
    >>> table.name, [str(dtype) for dtype in table.X.dtypes], table.y
    ('animals', ['float64', 'category'], array([0, 1, 0, 1]))
    """
    from counterpoint.io import file_stem, read_training_table

    path = Path(path)
    read = read_training_table(path, target, drop=drop)
    X = read.frame.astype(dict.fromkeys(read.of_kind("category"), "category"))
    return make_table(file_stem(path), X, read.y)


def check_folds(table: Table, n_folds: int) -> None:
    """Raise ValueError if no class has a row for each outer and inner fold.

    Examples
    --------
    >>> from counterpoint.arena import read_suite
    >>> check_folds(read_suite(["labor"])[0], 40)
    Traceback (most recent call last):
    ...
    ValueError: `--folds` must be at most 37 for labor, the rows of its largest class; got 40.
    """
    most = int(np.bincount(table.y).max())
    if most < n_folds:
        raise ValueError(
            f"`--folds` must be at most {most} for {table.name}, the rows of its largest class; got {n_folds}."
        )
    if most - -(-most // n_folds) < INNER_FOLDS:
        raise ValueError(
            f"{table.name} must have a class with at least {INNER_FOLDS} rows in each training part; "
            f"its largest has {most}."
        )


def outer_folds(table: Table, repeat: int, n_folds: int) -> list[OuterFold]:
    """Return the stratified outer folds of a repeat, each with inner folds of its training part.

    A class with fewer rows than folds is absent from some of them.

    Examples
    --------
    >>> from counterpoint.arena import read_suite
    >>> folds = outer_folds(read_suite(["iris"])[0], repeat=0, n_folds=10)
    >>> len(folds), len(folds[0].outer.test), [len(split.train) for split in folds[0].inner]
    (10, 15, [90, 90, 90])
    """
    return [
        OuterFold(outer, tuple(_splits(table.y, outer.train, INNER_FOLDS, [repeat, k])))
        for k, outer in enumerate(_splits(table.y, np.arange(len(table.y)), n_folds, [repeat]))
    ]


def _splits(y: IntArray, rows: IntArray, n_folds: int, seed: list[int]) -> list[Split]:
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")
        return [Split(rows[train], rows[test]) for train, test in folds.split(rows, y[rows])]
