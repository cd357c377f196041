"""Encoders of tables, the same for all methods of a kind, fitted to training rows only."""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from counterpoint.estimators import TableEncoder

__all__ = ["N_PIECES", "for_catboost", "for_networks", "for_trees", "nominal_columns"]

N_PIECES = 8  # of a numeric column, for networks
_RARE = 2  # rows that a value needs for a column of its own
_MOST_VALUES = 200  # distinct values of a nominal column, for trees


def nominal_columns(X: Any) -> list[int]:
    """Return the positions of the nominal columns."""
    return [place for place, dtype in enumerate(X.dtypes) if dtype == "category"]


def for_networks() -> Pipeline:
    """Return an unfitted encoder for networks: a :class:`~counterpoint.estimators.TableEncoder` with pieces.

    Columns that are constant in the training rows are dropped.

    Examples
    --------
    >>> from counterpoint.arena import read_suite
    >>> X = read_suite(["labor"])[0].X
    >>> for_networks().fit_transform(X).shape
    (57, 79)
    """
    encoder = TableEncoder(n_pieces=N_PIECES, min_frequency=_RARE, max_categories=None)
    return make_pipeline(encoder, VarianceThreshold())


def for_trees(X: Any) -> Pipeline:
    """Return an unfitted encoder for trees: codes for nominal values, NaN for missing ones.

    Examples
    --------
    >>> from counterpoint.arena import read_suite
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
    """Return an encoder for CatBoost: integers for nominal values, -1 for a missing one.

    CatBoost refuses missing nominal values; missing numbers and the order of the columns are kept.

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
    for place in places:  # by position, since a column may have any name
        coded.isetitem(place, X.iloc[:, place].cat.codes.to_numpy(np.int64))
    return coded
