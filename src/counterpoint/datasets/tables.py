"""Typed tables from the package, from a folder of CSV files, or from OpenML."""

import csv
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterpoint.datasets._checks import check_folder, check_known
from counterpoint.datasets._openml import fetch_columns
from counterpoint.datasets.sources import DATASETS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "load"]

TARGET = "class"
IDENTIFIER = "Instance_name"  # of splice: it only names the row
TYPES_FILE = "types.json"
MOST_CLASSES = 7  # in the repr

Columns = dict[str, Sequence[str]]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A table of features with the class of each row.

    Attributes
    ----------
    X : pandas.DataFrame
        Numeric columns are float64 with NaN for a missing value; nominal columns are categoricals
        whose categories are the observed values in sorted order.
    y : numpy.ndarray of str, shape (n_samples,)
        The label of each row.
    feature_names : tuple of str
        The columns of ``X``.
    class_names : tuple of str
        The labels in sorted order.
    description : str
        The name of the table and its source.

    Examples
    --------
    >>> from counterpoint.datasets import load
    >>> load("iris")
    Dataset(150 rows; 4 numeric and 0 nominal features; 3 classes: Iris-setosa 50, Iris-versicolor 50,
    Iris-virginica 50)
    """

    X: "pd.DataFrame"
    y: NDArray[np.str_]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    description: str

    def __repr__(self) -> str:
        nominal = sum(dtype == "category" for dtype in self.X.dtypes)
        numeric = len(self.feature_names) - nominal
        counts = [f"{name} {np.sum(self.y == name)}" for name in self.class_names]
        if (more := len(counts) - MOST_CLASSES) > 0:
            counts[MOST_CLASSES:] = [f"{more} more"]
        return (
            f"Dataset({len(self.y)} rows; {numeric} numeric and {nominal} nominal features; "
            f"{len(self.class_names)} classes: {', '.join(counts)})"
        )


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load one of the fifteen tables of the DECORATE study.

    Parameters
    ----------
    name : str
        One of ``counterpoint.datasets.DATASETS``. Embedded in the package: ``"breast-w"``,
        ``"glass"``, ``"iris"``, ``"labor"``, ``"segment"``, ``"soybean"``. From elsewhere:
        ``"anneal"``, ``"audiology"``, ``"autos"``, ``"colic"``, ``"credit-a"``, ``"heart-c"``,
        ``"hepatitis"``, ``"lymph"``, ``"splice"``.
    data_dir : path-like, optional
        The folder with ``<name>.csv`` for the sets that are not embedded, or the parent of its
        subfolders ``embed`` and ``more``. By default the folder that the environment variable
        ``COUNTERPOINT_DATA`` names. If there is none, or it lacks the file, the table is
        fetched from OpenML and kept in scikit-learn's cache. The embedded sets always come from
        the package.

    Returns
    -------
    Dataset
        The features ``X``, the labels ``y``, their names and the description.

    Notes
    -----
    A CSV file has a header; its column ``class`` is the label, an empty cell is a missing value.
    The package knows which columns are numeric and which nominal; a ``types.json`` beside the file,
    or one folder up, overrides that for the sets it names. Constant and empty columns are kept; the
    row names of splice are left out.

    References
    ----------
    All tables are from the UCI Machine Learning Repository under CC BY 4.0; the page of number n
    is ``https://archive.ics.uci.edu/dataset/n``.

    * anneal: Annealing (3), David Sterling and Wray Buntine
    * audiology: Audiology, standardized (8), Bruce Porter and Ross Quinlan
    * autos: Automobile (10), Jeffrey C. Schlimmer
    * breast-w: Breast Cancer Wisconsin, original (15), William H. Wolberg
    * colic: Horse Colic (47), Mary McLeish and Matt Cecile
    * credit-a: Credit Approval (27), J. Ross Quinlan
    * glass: Glass Identification (42), B. German
    * heart-c: Heart Disease, Cleveland (45), Janosi, Steinbrunn, Pfisterer and Detrano
    * hepatitis: Hepatitis (46), Gail Gong
    * iris: Iris (53), R. A. Fisher
    * labor: Labor Relations (56), Stan Matwin
    * lymph: Lymphography (63), M. Zwitter and M. Soklic
    * segment: Image Segmentation (50), Vision Group, University of Massachusetts
    * soybean: Soybean, large (90), R. S. Michalski and R. L. Chilausky
    * splice: Splice-junction Gene Sequences (69), Towell, Noordewier and Shavlik

    Examples
    --------
    >>> iris = load("iris")
    >>> iris
    Dataset(150 rows; 4 numeric and 0 nominal features; 3 classes:
    Iris-setosa 50, Iris-versicolor 50, Iris-virginica 50)
    >>> iris.X.shape, iris.y[0]
    ((150, 4), np.str_('Iris-setosa'))
    >>> load("labor").X["pension"].cat.categories.tolist()
    ['empl_contr', 'none', 'ret_allw']
    """
    check_known(name, "name", DATASETS)
    packaged = files(__package__) / "data"
    types = _read_types(packaged / TYPES_FILE)[name]
    if DATASETS[name].embedded:
        return _typed(name, _read_csv(packaged / f"{name}.csv"), types, f"{name}.csv")
    path = _find_csv(name, data_dir)
    if path is None:
        return _typed(name, fetch_columns(name, types), types, "OpenML")
    return _typed(name, _read_csv(path), _own_types(path) or types, str(path))


def _find_csv(name: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the file of a set that is not embedded, or None if it must come from OpenML."""
    folder = check_folder(data_dir)
    if folder is None:
        return None
    for path in (folder / f"{name}.csv", folder / "more" / f"{name}.csv"):
        if path.is_file():
            return path
    if data_dir is None:
        return None
    raise FileNotFoundError(f"`data_dir` must hold '{name}.csv'; got '{folder}'.")


def _own_types(path: Path) -> dict[str, str] | None:
    """Return the types in the folder of ``path``, or in the one above it, for its set."""
    for folder in path.parents[:2]:
        own = folder / TYPES_FILE
        if own.is_file() and (types := _read_types(own).get(path.stem)) is not None:
            return types
    return None


def _read_types(path: Traversable) -> dict[str, dict[str, str]]:
    """Return set -> column -> "numeric" or "nominal"."""
    try:
        types: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
        sound = all(kind in ("numeric", "nominal") for t in types.values() for kind in t.values())
    except (ValueError, AttributeError):  # not JSON, not UTF-8, or not two levels of names
        sound = False
    if not sound:
        raise ValueError(f"'{path}' must say numeric or nominal for each column of each set.")
    return types


def _read_csv(path: Traversable) -> Columns:
    """Return the text of each column."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"'{path}' must be a CSV file in UTF-8; got: {error}.") from error
    rows = [row for row in rows if row]  # skip blank lines
    if len(rows) < 2:
        raise ValueError(f"'{path}' must have a header and at least one row; got {len(rows)} rows.")
    header, *body = rows
    if repeated := {column for column in header if header.count(column) > 1}:
        raise ValueError(f"The columns of '{path}' must be distinct; got {min(repeated)!r} twice.")
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise ValueError(f"Row {number} of '{path}' must have {len(header)} cells; got {len(row)}.")
    return dict(zip(header, zip(*body, strict=True), strict=True))


def _typed(name: str, columns: Columns, types: dict[str, str], origin: str) -> Dataset:
    """Return the data set with typed columns and separate labels."""
    import pandas as pd

    columns = {column: cells for column, cells in columns.items() if column != IDENTIFIER}
    types = {column: kind for column, kind in types.items() if column != IDENTIFIER}
    for column in (TARGET, *types):
        if column not in columns:
            raise ValueError(f"'{origin}' must have a column {column!r}; it has none.")
    for column in columns:
        if column not in types:
            raise ValueError(f"The columns of '{origin}' must have a type in {TYPES_FILE}; got {column!r}.")
    y = np.array(_labels(columns.pop(TARGET), origin))
    X = pd.DataFrame(
        {
            column: np.array(list(_numbers(cells, column, origin)))
            if types[column] == "numeric"
            else pd.Categorical([cell or None for cell in cells], categories=sorted(set(cells) - {""}))
            for column, cells in columns.items()
        }
    )
    return Dataset(
        X=X,
        y=y,
        feature_names=tuple(columns),
        class_names=tuple(np.unique(y).tolist()),
        description=f"{name}: {DATASETS[name].citation}",
    )


def _labels(cells: Sequence[str], origin: str) -> Sequence[str]:
    if "" in cells:
        row = cells.index("") + 1
        raise ValueError(f"Column {TARGET!r} of '{origin}' must hold a label in row {row}; got ''.")
    return cells


def _numbers(cells: Sequence[str], column: str, origin: str) -> Iterator[float]:
    for row, cell in enumerate(cells, start=1):
        try:
            number = float(cell) if cell else math.nan
        except ValueError:
            number = math.inf
        if math.isinf(number) or (cell and math.isnan(number)):
            raise ValueError(f"Column {column!r} of '{origin}' must hold numbers; got {cell!r} in row {row}.")
        yield number
