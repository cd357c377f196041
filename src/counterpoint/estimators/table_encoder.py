"""Tables with nominal and missing values as numbers for networks."""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from counterpoint._validation import FloatArray, IntArray, check_flag, check_number, check_whole
from counterpoint.estimators._nominal import Categories
from counterpoint.estimators._one_hot import NominalColumn, count_values
from counterpoint.estimators._reading import Table, find_values, read_rows, row_parts

__all__ = ["TableEncoder"]


class TableEncoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Encode a table with nominal and missing values as numbers for networks.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of int, str or bool, default="from_dtype"
        The nominal columns. "from_dtype" takes the columns of text, categories, objects and booleans of a pandas or
        polars frame; in an array all columns are numbers. None stands for no column; otherwise the columns by position,
        by name or as a mask.
    standardize : bool, default=True
        Whether numbers are scaled to mean 0 and standard deviation 1.
    n_pieces : int, default=0
        Number of pieces per numeric column, which are added to its value; fewer if quantiles coincide.
    min_frequency : int or float, default=0.002
        Values in fewer rows than this, or than this share of the rows if it is below 1, have one column together.
    max_categories : int or None, default=100
        Largest number of columns for a nominal column; its rarest values share one of them. None is no limit.

    Attributes
    ----------
    is_categorical_ : ndarray of bool, shape (n_features,)
        Which columns are nominal.
    categories_ : list of ndarray
        The values of each nominal column, None for a missing one.
    infrequent_categories_ : list of ndarray or None
        Those of them that share a column, or None if there are none.
    missing_features_ : ndarray of int
        Positions of the numeric columns with an indicator of missing values.
    scaler_ : StandardScaler or None
        The scaler of the numeric columns.
    n_features_in_ : int
        The number of columns of the table.
    feature_names_in_ : ndarray of str
        Their names, if they have any.

    See Also
    --------
    DiverseEnsembleClassifier : Encodes its table with this class.

    Notes
    -----
    The output has the numeric columns first, then their pieces, an indicator for each numeric column with some missing
    values, and the columns of the nominal values. A missing number is replaced by the mean of its column, before
    scaling. Each nominal value, including a missing one, has a column of 0 and 1; rare values share one, and a value
    that is new belongs to them, or has no column if there are none. A column without any value is 0 throughout.

    The piece from knot a to knot b is :math:`(x - a) / (b - a)`, clipped to [0, 1], where knots are quantiles. A linear
    function of the pieces is piecewise linear in x (Gorishniy, Rubachev and Babenko 2022, "On embeddings for numerical
    features in tabular deep learning").

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"size": [1.0, None, 3.0, 2.0], "colour": ["red", "blue", None, "red"]})
    >>> encoder = TableEncoder().fit(X)
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size_missing', 'colour_missing', 'colour_blue', 'colour_red']
    >>> encoder.transform(X).round(2)
    array([[-1.41,  0.  ,  0.  ,  0.  ,  1.  ],
           [ 0.  ,  1.  ,  0.  ,  1.  ,  0.  ],
           [ 1.41,  0.  ,  1.  ,  0.  ,  0.  ],
           [ 0.  ,  0.  ,  0.  ,  0.  ,  1.  ]])
    """

    _known: Categories  # the values of each nominal column that rows are read with
    _numeric: IntArray  # positions of the numeric columns
    _nominal: list[NominalColumn]
    _means: FloatArray  # of the numeric columns, NaN for one without any value
    _knots: list[FloatArray]

    def __init__(
        self,
        categorical_features: ArrayLike | str | None = "from_dtype",
        *,
        standardize: bool = True,
        n_pieces: int = 0,
        min_frequency: float = 0.002,
        max_categories: int | None = 100,
    ) -> None:
        self.categorical_features = categorical_features
        self.standardize = standardize
        self.n_pieces = n_pieces
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn the values of nominal columns, and the means and scales of numeric ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_flag(self.standardize, "standardize")
        check_whole(self.n_pieces, "n_pieces", minimum=0)
        check_number(self.min_frequency, "min_frequency", 0)
        if self.max_categories is not None:
            check_whole(self.max_categories, "max_categories", minimum=1)
        return self._learn(self._read(self, X, reset=True))

    def transform(self, X: Any) -> FloatArray:
        """Return the table as numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table, with the columns of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        return self._encode(self._read(self, X, reset=False)).astype(np.float64)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of the output.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns; by default those of ``fit``, or "x0", "x1" and so on.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)
        found = [str(names[j]) for j in self._numeric]
        for j, knots in zip(self._numeric, self._knots, strict=True):
            found += [f"{names[j]}_piece{k}" for k in range(len(knots) - 1)]
        found += [f"{names[j]}_missing" for j in self.missing_features_]
        for j, column in zip(self._known, self._nominal, strict=True):
            found += [f"{names[j]}_{value}" for value in column.names]
        distinct: dict[str, None] = {}
        for name in found:
            while name in distinct:  # a table may have columns "size" and "size_missing"
                name += "_"
            distinct[name] = None
        return np.array(list(distinct), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    @property
    def _n_out(self) -> int:
        """Number of columns of the output."""
        pieces = sum(len(knots) - 1 for knots in self._knots)
        values = sum(column.width for column in self._nominal)
        return len(self._numeric) + pieces + len(self.missing_features_) + values

    @property
    def _is_piece(self) -> NDArray[np.bool_]:
        """Which columns of the output are pieces."""
        start = len(self._numeric)
        place = np.arange(self._n_out)
        found: NDArray[np.bool_] = (place >= start) & (place < start + sum(len(k) - 1 for k in self._knots))
        return found

    def _read(self, owner: Any, X: Any, *y: Any, reset: bool) -> Any:
        """Return a table as a matrix with nominal values by number, checked as input of the owner."""
        if reset:
            self._known = find_values(X, self.categorical_features)
        found = read_rows(owner, X, self._known, *y, reset=reset)
        if reset and owner is not self:
            self.n_features_in_ = owner.n_features_in_
            if hasattr(owner, "feature_names_in_"):
                self.feature_names_in_ = owner.feature_names_in_
        return found

    def _learn(self, table: Table, weight: FloatArray | None = None) -> Self:
        """Learn from a matrix that was read."""
        width = self.n_features_in_
        any_missing, all_missing = np.zeros(width, dtype=bool), np.ones(width, dtype=bool)
        for part in row_parts(len(table)):
            gaps = np.isnan(table[part])
            any_missing |= gaps.any(axis=0)
            all_missing &= gaps.all(axis=0)
        each = np.ones(len(table)) if weight is None else weight
        least = self.min_frequency if self.min_frequency >= 1 else self.min_frequency * each.sum()
        nominal = [
            NominalColumn.of(values, count_values(table[:, j], each, len(values)), least, self.max_categories)
            for j, values in self._known.items()
        ]
        self._set_columns(nominal, np.flatnonzero(any_missing & ~all_missing))
        self._scale(table, weight)
        if self.n_pieces:
            shares = np.linspace(0, 1, int(self.n_pieces) + 1)
            self._knots = [
                np.unique(np.quantile(_fill(np.asarray(table[:, j], dtype=np.float64), mean), shares))
                for j, mean in zip(self._numeric, self._means, strict=True)
            ]
        return self

    def _set_columns(self, nominal: list[NominalColumn], missing: IntArray) -> None:
        """Set which columns the output has."""
        self._nominal, self.missing_features_ = nominal, missing
        self.is_categorical_ = np.isin(np.arange(self.n_features_in_), list(self._known))
        self.categories_ = [column.categories for column in nominal]
        self.infrequent_categories_ = [column.infrequent for column in nominal]
        self._numeric = np.flatnonzero(~self.is_categorical_)
        self._knots = [np.zeros(1) for _ in self._numeric]  # no pieces

    def _rescaled(self, table: Table, weight: FloatArray, *, standardize: bool | None = None) -> Self:
        """Return an encoder with the same columns, but the means and scales of these rows."""
        other: Self = copy.copy(self)
        other.standardize = self.standardize if standardize is None else standardize
        other._scale(table, weight)
        return other

    def _continued(self, table: Table, weight: FloatArray) -> Self:
        """Return an encoder with the same columns, but the means and scales of all rows so far."""
        other: Self = copy.copy(self)
        if self.scaler_ is not None:
            other._scale(table, weight, self.scaler_)
        return other

    def _scale(self, table: Table, weight: FloatArray | None, scaler: StandardScaler | None = None) -> None:
        mass, total = np.zeros(len(self._numeric)), np.zeros(len(self._numeric))
        for part in row_parts(len(table)):
            numbers = self._numbers(table[part])
            is_present = ~np.isnan(numbers)
            each = np.ones((len(numbers), 1)) if weight is None else weight[part, None]
            mass += (each * is_present).sum(axis=0)
            with np.errstate(over="ignore", invalid="ignore"):
                present = numbers if is_present.all() else np.where(is_present, numbers, 0)
                total += (each * present).sum(axis=0)
        known = np.full(len(mass), np.nan) if scaler is None else self._means.copy()
        self._means = np.divide(total, mass, out=known, where=mass > 0)
        self.scaler_ = self._fit_scaler(table, weight, scaler) if self.standardize else None
        if scaler is not None and self.scaler_ is not None:  # the means of all rows so far
            self._means = np.where(np.isnan(self._means), np.nan, self.scaler_.mean_)

    def _fit_scaler(
        self, table: Table, weight: FloatArray | None, known: StandardScaler | None
    ) -> StandardScaler | None:
        if not len(self._numeric):
            return None
        scaler = StandardScaler() if known is None else copy.deepcopy(known)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in row_parts(len(table)):
                own = None if weight is None else weight[part]
                scaler.partial_fit(_fill(self._numbers(table[part]), self._means), sample_weight=own)
        if (bad := ~np.isfinite(scaler.var_)).any():
            feature = self._numeric[np.flatnonzero(bad)[0]]
            largest = np.nanmax(np.abs(table[:, feature]))
            raise ValueError(
                f"`X` must hold numbers whose variance is finite; got {largest:.6g} in {self._called(feature)}."
            )
        return scaler

    def _called(self, feature: int) -> str:
        """Return what an error calls a column: by its name, or by its position if it has none."""
        names = getattr(self, "feature_names_in_", None)
        return f"feature {feature}" if names is None else f"column {names[feature]!r}"

    def _numbers(self, table: FloatArray) -> FloatArray:
        """Return the numeric columns of a matrix that was read, in double precision."""
        numbers = table[:, self._numeric] if self._known else table
        return np.asarray(numbers, dtype=np.float64)

    def _encode(self, table: FloatArray) -> FloatArray:
        """Return a matrix that was read as numbers for networks."""
        filled = _fill(self._numbers(table), self._means)
        scaled: FloatArray = filled if self.scaler_ is None else self.scaler_.transform(filled)
        if self._n_out == len(self._numeric):
            return scaled
        pieces = [
            np.clip((column[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
            for column, knots in zip(filled.T, self._knots, strict=True)
        ]
        values = [column.encode(table[:, j]) for j, column in zip(self._known, self._nominal, strict=True)]
        return np.hstack([scaled, *pieces, np.isnan(table[:, self.missing_features_]), *values])


def _fill(numbers: FloatArray, means: FloatArray) -> FloatArray:
    """Return numeric columns with means for missing numbers, and zeros for columns without any value."""
    gaps = np.isnan(numbers) | np.isnan(means)
    return np.where(gaps, np.nan_to_num(means), numbers) if gaps.any() else numbers
