"""How tables become numbers: alike for every method of a kind, learnt from training rows only."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from counterpoint._validation import FloatArray

__all__ = ["PiecewiseLinear", "for_catboost", "for_networks", "for_trees", "nominal_columns"]

_RARE = 2  # rows that a value needs to have a column of its own
_MOST_VALUES = 200  # of a nominal column, for trees


class PiecewiseLinear(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Each number as ramps between quantiles of its column.

    Parameters
    ----------
    n_pieces : int, default=8
        Pieces of each column; fewer where quantiles coincide.

    Notes
    -----
    The piece from knot a to knot b holds :math:`(x - a) / (b - a)`, held to [0, 1]. What is linear in the pieces is
    piecewise linear in x (Gorishniy, Rubachev and Babenko 2022, "On embeddings for numerical features in tabular deep
    learning"). A constant column has no pieces.

    Examples
    --------
    >>> PiecewiseLinear(n_pieces=2).fit_transform([[0.0], [1.0], [2.0], [4.0], [6.0]])
    array([[0. , 0. ],
           [0.5, 0. ],
           [1. , 0. ],
           [1. , 0.5],
           [1. , 1. ]])
    """

    def __init__(self, n_pieces: int = 8) -> None:
        self.n_pieces = n_pieces

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Find the knots of each column."""
        shares = np.linspace(0, 1, self.n_pieces + 1)
        self.knots_ = [np.unique(np.quantile(column, shares)) for column in np.asarray(X, dtype=float).T]
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the pieces of all columns side by side."""
        columns = np.asarray(X, dtype=float).T
        pieces = [
            np.clip((column[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
            for column, knots in zip(columns, self.knots_, strict=True)
        ]
        return np.hstack([np.empty((columns.shape[1], 0)), *pieces])


def nominal_columns(X: Any) -> list[int]:
    """Return the places of the nominal columns."""
    return [place for place, dtype in enumerate(X.dtypes) if dtype == "category"]


def for_networks(X: Any) -> Pipeline:
    """Return the encoder of a table for networks, not yet fitted.

    A number is imputed by its mean and given as a standardised value, as pieces, and by whether it was missing. A
    nominal value, of which missing is one, has a column of 0 and 1; rare ones share it. Constant columns are dropped.

    Examples
    --------
    >>> from counterpoint.arena.tables import read_suite
    >>> X = read_suite(["labor"])[0].X
    >>> for_networks(X).fit_transform(X).shape
    (57, 79)
    """
    nominal = nominal_columns(X)
    numeric = [place for place in range(X.shape[1]) if place not in nominal]
    filled = SimpleImputer(keep_empty_features=True)
    values = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=_RARE, sparse_output=False)
    parts = [
        ("scaled", make_pipeline(filled, StandardScaler()), numeric),
        ("pieces", make_pipeline(filled, PiecewiseLinear()), numeric),
        ("missing", MissingIndicator(error_on_new=False, sparse=False), numeric),
        ("values", make_pipeline(FunctionTransformer(_codes), values), nominal),
    ]
    return make_pipeline(ColumnTransformer([part for part in parts if part[2]]), VarianceThreshold())


def for_trees(X: Any) -> Pipeline:
    """Return the encoder of a table for trees, not yet fitted: codes for nominal values, NaN for missing ones.

    Examples
    --------
    >>> from counterpoint.arena.tables import read_suite
    >>> X = read_suite(["labor"])[0].X
    >>> for_trees(X).fit_transform(X).shape
    (57, 16)
    """
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_MOST_VALUES
    )
    columns = ColumnTransformer([("codes", codes, nominal_columns(X))], remainder="passthrough")
    return make_pipeline(columns)


def for_catboost(X: Any) -> FunctionTransformer:
    """Return the encoder of a table for CatBoost: whole numbers for nominal values, -1 for a missing one.

    CatBoost refuses a missing nominal value; numbers keep theirs, and columns their places.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": [1.5, None, 3.0], "colour": pd.Categorical(["red", None, "blue"])})
    >>> for_catboost(X).fit_transform(X)
       size  colour
    0   1.5       1
    1   NaN      -1
    2   3.0       0
    """
    return FunctionTransformer(_coded, kw_args={"places": nominal_columns(X)})


def _coded(X: Any, places: list[int]) -> Any:
    coded = X.copy(deep=False)
    for place in places:  # by place, since a column may have any name
        coded.isetitem(place, X.iloc[:, place].cat.codes.to_numpy(np.int64))
    return coded


def _codes(X: Any) -> NDArray[np.int64]:
    """Return the places of nominal values among the known ones, -1 for a missing one: numbers are sorted faster."""
    return np.column_stack([X[name].cat.codes.to_numpy(np.int64) for name in X])
