"""The learners of fitted scikit-learn ensembles, as outputs with the learners first."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint._validation import check_labels, short
from counterpoint.assessment.answers import check_answers
from counterpoint.outputs import check_truth

__all__ = ["LearnerOutputs", "abstentions", "learner_outputs", "named_outputs"]


class LearnerOutputs(NamedTuple):
    """The outputs of the learners of an ensemble for some samples.

    Examples
    --------
    >>> import numpy as np
    >>> LearnerOutputs(np.zeros((3, 10)), np.array([0, 1]), ("a", "b", "c"), "hard").voting
    'hard'
    """

    outputs: NDArray[Any]
    classes: NDArray[Any]
    names: tuple[str, ...]
    voting: str


def named_outputs(
    outputs: Any, learners: Sequence[str] | None, y_true: Any = None, *, call: str = ""
) -> tuple[Any, Sequence[str] | None]:
    """Return outputs with the learners first, and the names that a mapping or a DataFrame has.

    Parameters
    ----------
    outputs : array-like, mapping or DataFrame
        Outputs as a caller gave them.
    learners : sequence of str or None
        Names as a caller gave them, which have precedence.
    y_true : array-like, optional
        The truth, for the check of votes.
    call : str, optional
        The call to show in errors, such as ``"assess({truth}, {outputs})"``; without it, votes are not checked.

    Returns
    -------
    outputs : array-like
        Learners first.
    learners : sequence of str or None
        Their names, if known.

    Raises
    ------
    ValueError
        If columns cannot be answers and the caller did not name the learners, or if labels of a learner differ from
        those of the truth in case, blanks or final punctuation alone. The message has the call that goes on.

    Examples
    --------
    >>> outputs, learners = named_outputs({"a": [0, 1], "b": [1, 1]}, None)
    >>> len(outputs), learners
    (2, ['a', 'b'])
    """
    given = outputs
    if isinstance(outputs, Mapping):
        if not outputs:
            raise ValueError("`outputs` must hold at least one learner; got an empty mapping.")
        # A list stays one: NumPy would turn None and NaN among strings into strings.
        rows = [one if isinstance(one, list | tuple) else np.asanyarray(one) for one in outputs.values()]
        names, outputs = list(outputs), rows
    elif hasattr(outputs, "columns") and hasattr(outputs, "to_numpy"):
        names, outputs = list(outputs.columns), outputs.to_numpy().T
    else:
        names = None
    if call:
        check_answers(given, outputs, y_true, names if learners is None else None, call)
    return outputs, [str(name) for name in names] if learners is None and names is not None else learners


def abstentions(abstain: Any, y_true: ArrayLike | None = None) -> list[Any]:
    """Return the labels that mean no vote; they cannot be true."""
    if abstain is None:
        return []
    found = check_labels([abstain] if np.ndim(abstain) == 0 else abstain, "abstain")
    if found.ndim != 1:
        raise TypeError(f"`abstain` must be a label or a row of labels; got {abstain!r}.")
    labels: list[Any] = found.tolist()
    true = set() if y_true is None else set(check_truth(y_true).tolist())
    if both := sorted(set(labels) & true):
        raise ValueError(f"`abstain` must not be a label of `y_true`; got {both[0]!r}.")
    return labels


def learner_outputs(estimator: Any, X: Any) -> LearnerOutputs:
    """Return the outputs of each learner of a fitted ensemble.

    Parameters
    ----------
    estimator : fitted classifier, or sequence of fitted classifiers
        Any ensemble whose ``estimators_`` are classifiers that vote: forests, bagging (with its feature subsets),
        voting, the base layer of stacking, AdaBoost; also inside a pipeline or a search. Its weights are not used.
    X : array-like of shape (n_samples, n_features)
        The samples.

    Returns
    -------
    LearnerOutputs
        Probabilities ``(n_learners, n_samples, n_classes)`` if every learner has them, else labels; the classes in the
        order of the columns; the learners' names; and how the ensemble itself votes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> learner_outputs(forest, X).outputs.shape
    (5, 150, 3)
    """
    estimator, X = _unwrap(estimator, X)
    if any(hasattr(estimator, method) for method in ("vote_learners", "learner_predict_proba")):
        proba, voting = _own_outputs(estimator, X)
        names = tuple(f"L{i + 1}" for i in range(len(proba)))
        return LearnerOutputs(proba, np.asarray(estimator.classes_), names, voting)
    learners, names = _learners(estimator)
    classes = _classes(estimator, learners)
    encoded = _see_codes(estimator, learners, classes)
    features = getattr(estimator, "estimators_features_", [None] * len(learners))
    seen = [_seen_by(learner, X, columns) for learner, columns in zip(learners, features, strict=True)]
    if all(hasattr(learner, "predict_proba") for learner in learners):
        outputs = [_aligned(*one, classes) for one in zip(learners, seen, encoded, strict=True)]
    else:
        outputs = [_labels(*one, classes) for one in zip(learners, seen, encoded, strict=True)]
    averages = getattr(estimator, "voting", "soft") == "soft" and not hasattr(estimator, "estimator_weights_")
    soft = outputs[0].ndim == 2 and averages
    return LearnerOutputs(np.stack(outputs), classes, names, "soft" if soft else "hard")


def _own_outputs(estimator: Any, X: Any) -> tuple[NDArray[Any], str]:
    """Return the probabilities and the vote that an estimator reports itself."""
    if hasattr(estimator, "vote_learners"):  # the probabilities whose vote is its prediction
        proba, voting = estimator.vote_learners(X)
        return np.asarray(proba), voting
    # `voting_` is the vote that fit chose if `voting` is "auto"
    voting = getattr(estimator, "voting_", getattr(estimator, "voting", "soft"))
    return np.asarray(estimator.learner_predict_proba(X)), voting


def _unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Step into searches and pipelines, transforming the samples on the way."""
    if hasattr(estimator, "vote_learners"):
        return estimator, X  # it reports its own learners and vote
    if hasattr(estimator, "best_estimator_"):
        return _unwrap(estimator.best_estimator_, X)
    if hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        final = estimator.steps[-1][1]
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        return _unwrap(final, X)
    return estimator, X


def _learners(estimator: Any) -> tuple[list[Any], tuple[str, ...]]:
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, Sequence):
        learners = list(estimator)
        names = [type(learner).__name__ for learner in learners]
    else:
        if is_estimator := _is_estimator(estimator):
            check_is_fitted(estimator)
        found = getattr(estimator, "estimators_", None) if is_estimator else None
        if found is None:
            raise TypeError(
                "`estimator` must be a fitted ensemble with `estimators_`, or a list of fitted classifiers; "
                f"got {short(estimator)}."
            )
        if isinstance(estimator, _deciders()):
            raise _no_vote(estimator)
        # Keep a list as it is: NumPy would unpack learners that are ensembles themselves.
        learners = found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)
        given = getattr(estimator, "named_estimators_", {})
        names = [name for name, one in given.items() if any(one is learner for learner in learners)]
    if not learners:
        raise ValueError(f"`estimator` must have at least one learner; got {estimator!r}.")
    for learner in learners:
        if not hasattr(learner, "classes_"):
            if _is_estimator(learner):
                check_is_fitted(learner)
            raise _no_vote(learner)
    if len(names) != len(learners) or len(set(names)) != len(names):
        names = [f"{type(learner).__name__} {i + 1}" for i, learner in enumerate(learners)]
    return learners, tuple(names)


def _is_estimator(one: Any) -> bool:
    return hasattr(one, "fit") and not isinstance(one, type)


def _deciders() -> tuple[type, ...]:
    """Return the ensembles whose learners each decide one binary question, such as "this class or not"."""
    from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier

    return OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier


def _no_vote(one: Any) -> TypeError:
    whose = "whose learners do" if isinstance(one, _deciders()) else "which does"
    return TypeError(
        f"`estimator` must have learners that are fitted classifiers; got a {type(one).__name__}, "
        f"{whose} not vote for a class."
    )


def _classes(estimator: Any, learners: list[Any]) -> NDArray[Any]:
    given = [one.classes_ for one in (learners if isinstance(estimator, Sequence) else [estimator])]
    if any(np.ndim(label) for classes in given for label in classes):
        raise ValueError("`estimator` must have one output; got one with several.")
    if not isinstance(estimator, Sequence):
        return np.asarray(estimator.classes_)
    labels = [check_labels(classes, "classes_") for classes in given]
    if len({classes.dtype.kind == "U" for classes in labels}) > 1:
        raise TypeError(
            "`estimator` must have learners that were fitted on labels of one kind, all strings or all numbers; "
            "got both."
        )
    return np.unique(np.concatenate(labels))


def _see_codes(estimator: Any, learners: list[Any], classes: NDArray[Any]) -> list[bool]:
    """Return for each learner whether it was trained on 0, 1, ... in place of the labels."""
    if isinstance(estimator, Sequence):
        return [False] * len(learners)
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
    own = [set(np.asarray(learner.classes_).tolist()) for learner in learners]
    codes, known = set(range(len(classes))), set(classes.tolist())
    if isinstance(estimator, coders):
        # Learners fitted before the ensemble, such as frozen ones, saw the labels themselves if that is possible.
        prefit = getattr(estimator, "cv", None) == "prefit"
        before = [prefit or isinstance(learner, FrozenEstimator) for learner in learners]
        encoded = [not seen <= known if old else seen <= codes for old, seen in zip(before, own, strict=True)]
    else:
        encoded = [not all(seen <= known for seen in own)] * len(learners)
    for learner, seen, coded in zip(learners, own, encoded, strict=True):
        if foreign := seen - (codes if coded else known):
            raise ValueError(
                f"`estimator` must have learners that vote for its classes, {short(classes.tolist())}; "
                f"got a {type(learner).__name__} that votes for {min(seen - known or foreign, key=str)!r}."
            )
    return encoded


def _seen_by(learner: Any, X: Any, features: Any) -> Any:
    """Return the samples as the learner was trained on them: its features, with names if it was fitted with names."""
    if features is not None:
        from sklearn.utils import check_array

        if hasattr(X, "iloc"):
            return X.iloc[:, features].to_numpy()
        return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False)[:, features]
    nameless = not hasattr(learner, "feature_names_in_") and not hasattr(learner, "steps")
    return X.to_numpy() if nameless and hasattr(X, "to_numpy") else X


def _labels(learner: Any, X: Any, encoded: bool, classes: NDArray[Any]) -> NDArray[Any]:
    predicted = np.asarray(learner.predict(X))
    return classes[predicted.astype(int)] if encoded else predicted


def _aligned(learner: Any, X: Any, encoded: bool, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return a learner's probabilities in the columns of the ensemble, 0 for classes it never saw."""
    own = np.asarray(learner.classes_)
    columns = own.astype(int) if encoded else np.searchsorted(classes, own)
    proba = np.asarray(learner.predict_proba(X))
    result = np.zeros((len(proba), len(classes)))
    result[:, columns] = proba
    return result
