"""The members of fitted scikit-learn ensembles, as outputs with the learners first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MemberOutputs", "member_outputs"]


class MemberOutputs(NamedTuple):
    """What the members of an ensemble say of some samples.

    Examples
    --------
    >>> import numpy as np
    >>> MemberOutputs(np.zeros((3, 10)), np.array([0, 1]), ("a", "b", "c"), "hard").voting
    'hard'
    """

    outputs: NDArray[Any]
    classes: NDArray[Any]
    names: tuple[str, ...]
    voting: str


def member_outputs(estimator: Any, X: Any) -> MemberOutputs:
    """Return the outputs of each member of a fitted ensemble.

    Parameters
    ----------
    estimator : fitted classifier, or sequence of fitted classifiers
        Any ensemble whose ``estimators_`` are classifiers that vote: forests, bagging (with its feature subsets),
        voting, the base layer of stacking, AdaBoost; also inside a pipeline or a search.
    X : array-like of shape (n_samples, n_features)
        The samples.

    Returns
    -------
    MemberOutputs
        Probabilities ``(n_learners, n_samples, n_classes)`` if every member has them, else labels; the classes in the
        order of the columns; the members' names; and how the ensemble itself votes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> member_outputs(forest, X).outputs.shape
    (5, 150, 3)
    """
    estimator, X = _unwrap(estimator, X)
    if hasattr(estimator, "member_predict_proba"):  # it knows best what its members see
        proba = np.asarray(estimator.member_predict_proba(X))
        voting = getattr(estimator, "voting", "soft")
        names = tuple(f"L{i + 1}" for i in range(len(proba)))
        return MemberOutputs(proba, np.asarray(estimator.classes_), names, voting)
    members, names = _members(estimator)
    classes = _classes(estimator, members)
    encoded = _see_codes(estimator, members, classes)
    features = getattr(estimator, "estimators_features_", [None] * len(members))
    seen = [_seen_by(member, X, columns) for member, columns in zip(members, features, strict=True)]
    if all(hasattr(member, "predict_proba") for member in members):
        outputs = [_aligned(*one, classes) for one in zip(members, seen, encoded, strict=True)]
    else:
        outputs = [_labels(*one, classes) for one in zip(members, seen, encoded, strict=True)]
    averages = getattr(estimator, "voting", "soft") == "soft" and not hasattr(estimator, "estimator_weights_")
    soft = outputs[0].ndim == 2 and averages
    return MemberOutputs(np.stack(outputs), classes, names, "soft" if soft else "hard")


def _unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Step into searches and pipelines, transforming the samples on the way."""
    if hasattr(estimator, "best_estimator_"):
        return _unwrap(estimator.best_estimator_, X)
    if hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        final = estimator.steps[-1][1]
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        return _unwrap(final, X)
    return estimator, X


def _members(estimator: Any) -> tuple[list[Any], tuple[str, ...]]:
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, Sequence):
        members = list(estimator)
        names = [type(member).__name__ for member in members]
    else:
        check_is_fitted(estimator)
        found = getattr(estimator, "estimators_", None)
        if found is None:
            raise TypeError(
                "`estimator` must be a fitted ensemble with `estimators_`, or a list of fitted classifiers; "
                f"got {type(estimator).__name__}."
            )
        if isinstance(estimator, _deciders()):
            raise _no_vote(estimator)
        # A list is taken as it is: members that are ensembles themselves would be taken apart by NumPy.
        members = found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)
        given = getattr(estimator, "named_estimators_", {})
        names = [name for name, one in given.items() if any(one is member for member in members)]
    if not members:
        raise ValueError(f"`estimator` must have at least one member; got {estimator!r}.")
    for member in members:
        if not hasattr(member, "classes_"):
            raise _no_vote(member)
    if len(names) != len(members) or len(set(names)) != len(names):
        names = [f"{type(member).__name__} {i + 1}" for i, member in enumerate(members)]
    return members, tuple(names)


def _deciders() -> tuple[type, ...]:
    """Return the ensembles whose members each decide one question of several, such as "this class or not"."""
    from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier

    return OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier


def _no_vote(one: Any) -> TypeError:
    whose = "whose members do" if isinstance(one, _deciders()) else "which does"
    return TypeError(
        f"`estimator` must have members that are fitted classifiers; got a {type(one).__name__}, "
        f"{whose} not vote for a class."
    )


def _classes(estimator: Any, members: list[Any]) -> NDArray[Any]:
    if isinstance(estimator, Sequence):
        return np.unique(np.concatenate([member.classes_ for member in members]))
    classes = np.asarray(estimator.classes_)
    if classes.ndim != 1 or (classes.dtype == object and not all(np.isscalar(c) for c in classes)):
        raise ValueError("`estimator` must have one output; got one with several.")
    return classes


def _see_codes(estimator: Any, members: list[Any], classes: NDArray[Any]) -> list[bool]:
    """Tell for each member whether it was trained on 0, 1, ... in the place of the labels."""
    if isinstance(estimator, Sequence):
        return [False] * len(members)
    from sklearn.ensemble import (
        BaggingClassifier,
        ExtraTreesClassifier,
        RandomForestClassifier,
        StackingClassifier,
        VotingClassifier,
    )
    from sklearn.frozen import FrozenEstimator

    coders = (
        BaggingClassifier,
        ExtraTreesClassifier,
        RandomForestClassifier,
        StackingClassifier,
        VotingClassifier,
    )
    own = [set(np.asarray(member.classes_).tolist()) for member in members]
    if isinstance(estimator, coders):
        coded = getattr(estimator, "cv", None) != "prefit"
        codes = set(range(len(classes)))
        # A frozen member was fitted before, on the labels themselves; it may be the last step of a pipeline.
        frozen = [isinstance(member, FrozenEstimator) for member in members]
        return [coded and not cold and seen <= codes for cold, seen in zip(frozen, own, strict=True)]
    known = set(classes.tolist())
    return [not all(seen <= known for seen in own)] * len(members)


def _seen_by(member: Any, X: Any, features: Any) -> Any:
    """Return the samples as the member was trained on them: its features, with names only if it knows names."""
    if features is not None:
        from sklearn.utils import check_array

        if hasattr(X, "iloc"):
            return X.iloc[:, features].to_numpy()
        return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)[:, features]
    nameless = not hasattr(member, "feature_names_in_") and not hasattr(member, "steps")
    return X.to_numpy() if nameless and hasattr(X, "to_numpy") else X


def _labels(member: Any, X: Any, encoded: bool, classes: NDArray[Any]) -> NDArray[Any]:
    predicted = np.asarray(member.predict(X))
    return classes[predicted.astype(int)] if encoded else predicted


def _aligned(member: Any, X: Any, encoded: bool, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return a member's probabilities in the columns of the ensemble, 0 for classes it never saw."""
    own = np.asarray(member.classes_)
    columns = own.astype(int) if encoded else np.searchsorted(classes, own)
    proba = np.asarray(member.predict_proba(X))
    result = np.zeros((len(proba), len(classes)))
    result[:, columns] = proba
    return result
