"""The splits of a table for the map: every column as standardised numbers, small tables split several times."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterpoint.datasets import Dataset
from paper.programs import Split, draw_seeds

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["make_splits"]

MOST_REPEATS = 5
# Values of a nominal column with a column of their own: the largest number, and the smallest share of the rows.
MOST_VALUES, LEAST_SHARE = 32, 0.01


def make_splits(table: Dataset, n_folds: int, n_rows: int, seed: int) -> list[Split]:
    """Return the splits of a stratified cross-validation, all of the same number of columns.

    Parameters
    ----------
    table : Dataset
        The table.
    n_folds : int
        Number of folds.
    n_rows : int
        Test rows wanted in all. A small table is cross-validated again to get them, at most five times.
    seed : int
        Seed of the first cross-validation; the next has the next seed.

    Returns
    -------
    list of Split
        The splits of all repeats in turn.
    """
    from sklearn.model_selection import StratifiedKFold

    y = np.unique(table.y, return_inverse=True)[1].astype(np.int64)
    n_classes = int(y.max()) + 1
    splits = []
    for repeat in range(int(np.clip(n_rows // len(y), 1, MOST_REPEATS))):
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed + repeat)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class with fewer rows than there are folds
            parts = list(folds.split(y, y))
        for (train, test), own_seed in zip(parts, draw_seeds(seed + repeat, n_folds), strict=True):
            x = _standardise(table, train)
            splits.append(Split(x[train], y[train], x[test], y[test], n_classes, own_seed))
    return _same_width(splits)


def _standardise(table: Dataset, train: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return all rows as numbers (n, n_columns), by a transformer fitted on the training rows."""
    transformer = _make_transformer(table).fit(table.X.iloc[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a value that the training rows do not have
        found: NDArray[np.float32] = transformer.transform(table.X).astype(np.float32)
    return found


def _make_transformer(table: Dataset) -> "Pipeline":
    """Return an unfitted transformer of columns to numbers of mean 0 and standard deviation 1."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    is_nominal = table.X.dtypes == "category"
    numbers = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    categories = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MOST_VALUES,
        min_frequency=LEAST_SHARE,
        sparse_output=False,
    )
    kinds = [("number", numbers, ~is_nominal), ("category", categories, is_nominal)]
    columns = [(name, encoder, list(table.X.columns[mask])) for name, encoder, mask in kinds if mask.any()]
    return make_pipeline(ColumnTransformer(columns, sparse_threshold=0), StandardScaler())


def _same_width(splits: list[Split]) -> list[Split]:
    """Return splits with columns of zeros at the end: training rows may lack a rare value and its column."""
    widest = max(split.table.shape[1] for split in splits)

    def pad(table: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.pad(table, ((0, 0), (0, widest - table.shape[1])))

    return [split._replace(table=pad(split.table), test_table=pad(split.test_table)) for split in splits]
