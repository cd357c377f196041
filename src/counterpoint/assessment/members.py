"""The members of fitted scikit-learn ensembles, as outputs with the learners first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import _short, check_labels

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
        voting, the base layer of stacking, AdaBoost; also inside a pipeline or a search. Its weights are not used.
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
    if any(hasattr(estimator, method) for method in ("vote_members", "member_predict_proba")):
        proba, voting = _own_outputs(estimator, X)
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


def _own_outputs(estimator: Any, X: Any) -> tuple[NDArray[Any], str]:
    """Return the probabilities and the vote of an estimator that knows best what its members see."""
    if hasattr(estimator, "vote_members"):  # the probabilities whose vote is its prediction
        proba, voting = estimator.vote_members(X)
        return np.asarray(proba), voting
    # `voting_` is the vote that fit chose if `voting` is "auto"
    voting = getattr(estimator, "voting_", getattr(estimator, "voting", "soft"))
    return np.asarray(estimator.member_predict_proba(X)), voting


def _unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Step into searches and pipelines, transforming the samples on the way."""
    if hasattr(estimator, "vote_members"):
        return estimator, X  # it knows best how its learners vote
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
        if is_estimator := _is_estimator(estimator):
            check_is_fitted(estimator)
        found = getattr(estimator, "estimators_", None) if is_estimator else None
        if found is None:
            raise TypeError(
                "`estimator` must be a fitted ensemble with `estimators_`, or a list of fitted classifiers; "
                f"got {_short(estimator)}."
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
            if _is_estimator(member):
                check_is_fitted(member)
            raise _no_vote(member)
    if len(names) != len(members) or len(set(names)) != len(names):
        names = [f"{type(member).__name__} {i + 1}" for i, member in enumerate(members)]
    return members, tuple(names)


def _is_estimator(one: Any) -> bool:
    return hasattr(one, "fit") and not isinstance(one, type)


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
    given = [one.classes_ for one in (members if isinstance(estimator, Sequence) else [estimator])]
    if any(np.ndim(label) for classes in given for label in classes):
        raise ValueError("`estimator` must have one output; got one with several.")
    if not isinstance(estimator, Sequence):
        return np.asarray(estimator.classes_)
    labels = [check_labels(classes, "classes_") for classes in given]
    if len({classes.dtype.kind == "U" for classes in labels}) > 1:
        raise TypeError(
            "`estimator` must have members that were fitted on labels of one kind, all strings or all numbers; "
            "got both."
        )
    return np.unique(np.concatenate(labels))


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
    codes, known = set(range(len(classes))), set(classes.tolist())
    if isinstance(estimator, coders):
        # What was fitted before, as a frozen member is, saw the labels themselves if it can have seen them.
        prefit = getattr(estimator, "cv", None) == "prefit"
        before = [prefit or isinstance(member, FrozenEstimator) for member in members]
        encoded = [not seen <= known if old else seen <= codes for old, seen in zip(before, own, strict=True)]
    else:
        encoded = [not all(seen <= known for seen in own)] * len(members)
    for member, seen, coded in zip(members, own, encoded, strict=True):
        if foreign := seen - (codes if coded else known):
            raise ValueError(
                f"`estimator` must have members that vote for its classes, {_short(classes.tolist())}; "
                f"got a {type(member).__name__} that votes for {min(seen - known or foreign, key=str)!r}."
            )
    return encoded


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
