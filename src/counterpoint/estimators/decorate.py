"""DECORATE: an ensemble made diverse by training on artificial rows with contrary labels."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoint._validation import FloatArray, IntArray, check_number, check_whole
from counterpoint.estimators._decorate_rounds import (
    GrowingEnsemble,
    artificial_rows,
    contrary_labels,
    moments,
)
from counterpoint.estimators._nominal import by_number, check_numbers, find_categories, naming_columns

__all__ = ["DecorateClassifier"]

# how rows are read; NaN is a missing value
_NUMBERS: Mapping[str, Any] = MappingProxyType({"dtype": np.float64, "ensure_all_finite": "allow-nan"})
# Trees work in single precision, up to 3.4e38; artificial numbers lie some deviations from the mean.
_LARGEST = 1e37


class DecorateClassifier(ClassifierMixin, BaseEstimator):
    """Ensemble whose learners also learn artificial rows, labelled against the ensemble before them.

    Each round draws rows from the distribution of each column, labels them with probability inversely
    proportional to what the current ensemble says, and trains a candidate on the true and the artificial
    rows. The candidate stays if the error of the ensemble on the training rows does not rise. The ensemble
    predicts the mean of the probabilities of its learners.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``, optional
        The learner, cloned for each round. By default
        ``DecisionTreeClassifier(criterion="entropy", min_samples_leaf=3)``.
    n_estimators : int, default=15
        Learners wanted. There are fewer if ``max_iter`` rounds do not give as many.
    artificial_ratio : float, default=1.0
        Artificial rows per training row, in each round.
    max_iter : int, default=50
        Rounds at most. The first one, which trains a learner on the training rows alone, counts.
    categorical_features : array-like of int, str or bool, optional
        The nominal columns, by position, by name or as a mask. Categorical columns of a frame, of pandas or
        polars, are nominal without being named; columns of text are not.
    random_state : int, RandomState instance or None, default=None
        The source of the artificial rows, their labels and the learners' own random states.
    verbose : int, default=0
        Whether to print a line after each round.

    Attributes
    ----------
    estimators_ : list of classifiers
        The learners. They see numbers, as described in the notes, and the position in ``classes_`` for a label.
    training_errors_ : ndarray of shape (n_rounds,)
        The error of the ensemble on the training rows after each round. It never rises.
    rejected_ : ndarray of bool, shape (n_rounds,)
        Whether the candidate of each round was rejected.
    n_iter_ : int
        The number of rounds.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str, shape (n_features,)
        The names of the columns, where all are strings.

    Notes
    -----
    The algorithm is the one of [1]_ and of its authors' implementation in Weka. Their learners are J48 trees, which
    split by gain ratio and are pruned by an estimate of the error; the default here splits by entropy, and its leaves
    have at least 3 rows, so that they need not be pure. The artificial values of a
    numeric column are Gaussian with its mean and standard deviation (with n - 1); those of a nominal column
    with k values follow its frequencies after Laplace's rule, (count + 1) / (n + k), where all categories of
    a pandas categorical or a polars ``Enum`` count. Missing values are left out of both, and artificial rows
    have none, except in a column that is missing altogether. A probability of zero counts as an infinitely
    small one: where the ensemble excludes classes, the label is one of these, each as likely.

    Learners get the numeric columns as they are, followed by one column of 0 and 1 for each value of each
    nominal column (one of 0 if it has no value). A missing nominal value, or one not known from ``fit``, is 0
    in all of these. A missing number stays NaN if the estimator says by its tags that it accepts NaN, as trees
    do; otherwise, also in a pipeline, it becomes the mean of its column (0 without any value).

    References
    ----------
    .. [1] P. Melville and R. J. Mooney, "Creating diversity in ensembles using artificial data",
       Information Fusion 6(1), 2005.

    Examples
    --------
    >>> from counterpoint.datasets import load
    >>> labor = load("labor")  # nominal and numeric columns with missing values
    >>> decorate = DecorateClassifier(random_state=0).fit(labor.X, labor.y)
    >>> len(decorate.estimators_), decorate.training_errors_[-1].item()
    (15, 0.0)
    >>> decorate.learner_predict_proba(labor.X).shape
    (15, 57, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 15,
        *,
        artificial_ratio: float = 1.0,
        max_iter: int = 50,
        categorical_features: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.artificial_ratio = artificial_ratio
        self.max_iter = max_iter
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table; NaN is a missing value. Numbers lie between -1e37 and 1e37.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        self : DecorateClassifier
            The fitted ensemble. If ``fit`` fails or is interrupted, the previous state is restored.
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: Any, y: ArrayLike) -> Self:
        n_estimators = check_whole(self.n_estimators, "n_estimators", minimum=1)
        max_iter = check_whole(self.max_iter, "max_iter", minimum=1)
        ratio = check_number(self.artificial_ratio, "artificial_ratio", 0.0, closed=False)
        if not isinstance(self.verbose, bool | np.bool_):
            check_whole(self.verbose, "verbose", minimum=0)
        template = self._template()
        table, given = self._read_training_rows(X, y)
        self.classes_, labels = np.unique(given, return_inverse=True)
        numbers = np.delete(table, list(self._categories), axis=1)
        self._fill = None if get_tags(template).input_tags.allow_nan else moments(numbers)[0]

        rng = check_random_state(self.random_state)
        rows = self._encoded(table)
        n_artificial = max(1, int(ratio * len(table)))
        growth = GrowingEnsemble(labels, len(self.classes_))
        self.estimators_: list[Any] = growth.learners
        while growth.is_growing(n_estimators, max_iter):
            seen, seen_labels = rows, labels
            if self.estimators_:
                artificial, contrary = self._artificial(table, n_artificial, rng)
                seen, seen_labels = np.vstack([rows, artificial]), np.concatenate([labels, contrary])
            candidate = _seeded(clone(template), rng).fit(seen, seen_labels)
            error = growth.offer(candidate, self._aligned_proba(candidate, rows))
            if self.verbose:
                self._report(len(growth.errors), error, growth.rejected[-1])
        self.training_errors_ = np.array(growth.errors)
        self.rejected_ = np.array(growth.rejected)
        self.n_iter_ = len(growth.errors)
        return self

    def learner_predict_proba(self, X: Any) -> FloatArray:
        """Predict the probabilities of the classes by each learner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table, with the columns of ``fit``.

        Returns
        -------
        proba : ndarray of shape (n_learners, n_samples, n_classes)
            The probabilities, with the classes in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._learner_proba(self._encoded(self._read_rows(X)))

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the probabilities of the classes: the mean over the learners.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table, with the columns of ``fit``.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            The probabilities, with the classes in the order of ``classes_``.
        """
        mean: FloatArray = self.learner_predict_proba(X).mean(axis=0)
        return mean

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The table, with the columns of ``fit``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The labels.
        """
        proba = self.predict_proba(X)  # first of all, so that an unfitted ensemble says so
        labels: NDArray[Any] = self.classes_[proba.argmax(axis=1)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _template(self) -> Any:
        estimator = self.estimator
        if estimator is None:  # the authors' trees, J48, split by entropy too and are pruned
            estimator = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=3)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"`estimator` must be a classifier with `predict_proba`; got {estimator!r}.")
        return estimator

    def _read_training_rows(self, X: Any, y: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
        self._categories = find_categories(X, self.categorical_features)
        if y is not None and np.any(missing := pd.isna(np.asarray(y, dtype=object))):
            raise ValueError(f"`y` must hold a label for each row; got {int(np.sum(missing))} missing.")
        check_numbers(X, self._categories)
        with naming_columns(X, self._categories):
            table, labels = validate_data(self, by_number(X, self._categories), y, **_NUMBERS)
        check_classification_targets(labels)
        return _check_size(table), labels

    def _read_rows(self, X: Any) -> FloatArray:
        table: FloatArray
        check_numbers(X, self._categories)
        with naming_columns(X, self._categories):
            if self._categories:
                validate_data(self, X, reset=False, skip_check_array=True)  # the columns are those of fit
                numbers = by_number(X, self._categories)
                table = check_array(numbers, estimator=self, input_name="X", **_NUMBERS)
            else:
                table = validate_data(self, by_number(X, {}), reset=False, **_NUMBERS)
        return _check_size(table)

    def _artificial(
        self, table: FloatArray, n_rows: int, rng: np.random.RandomState
    ) -> tuple[FloatArray, IntArray]:
        """Return rows like those of the table, with labels against the ensemble as it stands."""
        rows = self._encoded(artificial_rows(table, self._categories, n_rows, rng))
        return rows, contrary_labels(self._learner_proba(rows).mean(axis=0), rng)

    def _encoded(self, table: FloatArray) -> FloatArray:
        """Return the rows as learners see them: numbers, then 0 and 1 for the values of nominal columns."""
        numbers = np.delete(table, list(self._categories), axis=1)
        if self._fill is not None:
            numbers = np.where(np.isnan(numbers), self._fill, numbers)
        # a column without any value is one of zeros, so that learners have a column to learn from
        ones = [table[:, [j]] == np.arange(max(1, len(v))) for j, v in self._categories.items()]
        return np.hstack([numbers, *ones])

    def _learner_proba(self, rows: FloatArray) -> FloatArray:
        return np.stack([self._aligned_proba(learner, rows) for learner in self.estimators_])

    def _aligned_proba(self, learner: Any, rows: FloatArray) -> FloatArray:
        """Return the probabilities by a learner, with 0 for classes that it has not seen."""
        proba = np.zeros((len(rows), len(self.classes_)))
        # of one class alone some classifiers return two columns
        proba[:, learner.classes_] = 1 if len(learner.classes_) == 1 else learner.predict_proba(rows)
        return proba

    def _report(self, number: int, error: float, is_rejected: bool) -> None:
        verdict = "rejected" if is_rejected else "kept"
        size = f"{len(self.estimators_)} learner{'s' * (len(self.estimators_) > 1)}"
        print(f"[Decorate] round {number}: training error {error:.4f}, {verdict}, {size}")


def _check_size(table: FloatArray) -> FloatArray:
    """Return the table, whose numbers leave room for artificial ones in single precision."""
    if (beyond := table[np.abs(table) > _LARGEST]).size:
        raise ValueError(f"`X` must hold numbers between -{_LARGEST:g} and {_LARGEST:g}; got {beyond[0]:g}.")
    return table


def _seeded(estimator: Any, rng: np.random.RandomState) -> Any:
    """Return the estimator with a random state of its own, also in nested estimators."""
    names = sorted(n for n in estimator.get_params() if n == "random_state" or n.endswith("__random_state"))
    return estimator.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in names})
