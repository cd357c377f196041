import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from counterpoint import assess, assess_estimator
from counterpoint.assessment import weights
from counterpoint.assessment.learners import learner_outputs

X, CODES = make_classification(300, 8, n_informative=5, n_classes=3, random_state=0)
LABELS = [np.array([0, 1, 2]), np.array(["x", "a", "m"]), np.array([1, 2, 3]), np.array([2, 0, 1])]
LEARNERS = [("tree", DecisionTreeClassifier(max_depth=3)), ("bayes", GaussianNB())]


@pytest.fixture(params=LABELS, ids=lambda labels: "-".join(map(str, labels)))
def y(request):
    return request.param[CODES]


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(7, random_state=0),
        ExtraTreesClassifier(7, random_state=0),
        BaggingClassifier(n_estimators=7, max_features=0.5, random_state=0),
        VotingClassifier(LEARNERS, voting="soft"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_the_soft_vote_of_the_learners_is_the_ensembles_own(estimator, y):
    fitted = estimator.fit(X[::2], y[::2])
    learners = learner_outputs(fitted, X[1::2])
    assert learners.voting == "soft"
    assert learners.outputs.mean(axis=0) == pytest.approx(fitted.predict_proba(X[1::2]))
    a = assess_estimator(fitted, X[1::2], y[1::2])
    proba = fitted.predict_proba(X[1::2])
    wins = proba > proba.max(axis=1, keepdims=True) - 1e-9
    own = wins[y[1::2][:, None] == fitted.classes_]
    assert a.vote.value == pytest.approx(np.mean(own / wins.sum(axis=1)))  # a tie is shared
    assert a.classes == tuple(np.unique(y).tolist())


def test_a_hard_voting_classifier_keeps_its_names(y):
    voting = VotingClassifier([*LEARNERS, ("gone", "drop"), ("line", Perceptron())]).fit(X, y)
    a = assess_estimator(voting, X, y)
    assert a.learners == ("tree", "bayes", "line")
    assert a.voting == "hard"
    assert a.outputs == "labels"
    assert a.accuracies[0] == pytest.approx(
        np.mean(voting.transform(X)[:, 0] == np.unique(y, return_inverse=True)[1])
    )


@pytest.mark.parametrize("prefit", [False, True])
def test_the_base_layer_of_stacking_is_assessed(y, prefit):
    learners = [(name, learner.fit(X, y)) for name, learner in LEARNERS] if prefit else LEARNERS
    stack = StackingClassifier(learners, LogisticRegression(), cv="prefit" if prefit else 3).fit(X, y)
    a = assess_estimator(stack, X, y)
    assert a.learners == ("tree", "bayes")
    assert (a.accuracies > 0.6).all()


def test_boosting_learners_vote_hard(y):
    boost = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5, random_state=0).fit(X, y)
    a = assess_estimator(boost, X, y)
    assert (a.n_learners, a.voting) == (5, "hard")
    assert a.accuracies[0] == pytest.approx(boost.estimators_[0].score(X, y))


def test_a_list_of_fitted_classifiers_is_an_ensemble(y):
    fitted = [GaussianNB().fit(X, y), DecisionTreeClassifier(max_depth=2).fit(X, y)]
    a = assess_estimator(fitted, X, y)
    assert a.learners == ("GaussianNB", "DecisionTreeClassifier")
    assert a.accuracies == pytest.approx([one.score(X, y) for one in fitted])
    assert a.name == "ensemble"


def test_a_learner_that_never_saw_a_class_gives_it_no_chance(y):
    first = np.unique(y)[0]
    fitted = [GaussianNB().fit(X, y), GaussianNB().fit(X[y != first], y[y != first])]
    assert (learner_outputs(fitted, X).outputs[1, :, 0] == 0).all()


def test_pipelines_and_searches_are_stepped_into(y):
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    search = GridSearchCV(pipe, {"randomforestclassifier__max_depth": [2, 4]}, cv=2).fit(X, y)
    inner = search.best_estimator_
    assert learner_outputs(search, X).outputs.mean(axis=0) == pytest.approx(inner.predict_proba(X))


def test_frames_are_given_to_learners_as_they_were_trained():
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(8)])
    for estimator in (
        RandomForestClassifier(3),
        BaggingClassifier(n_estimators=3, max_features=4),
        VotingClassifier(LEARNERS),
    ):
        a = assess_estimator(estimator.fit(frame, CODES), frame, CODES)  # warnings are errors here
        assert (a.accuracies > 0.5).all()


@pytest.mark.parametrize(
    ("estimator", "error", "words"),
    [
        (
            GradientBoostingClassifier(n_estimators=2),
            TypeError,
            "`estimator` must have learners that are fitted classifiers; got a DecisionTreeRegressor",
        ),
        (
            HistGradientBoostingClassifier(max_iter=2),
            TypeError,
            "`estimator` must be a fitted ensemble with `estimators_`.*; got HistGradientBoostingClassifier",
        ),
        (GaussianNB(), TypeError, "`estimator` must be a fitted ensemble with `estimators_`"),
    ],
)
def test_what_does_not_vote_is_refused(estimator, error, words):
    with pytest.raises(error, match=words):
        assess_estimator(estimator.fit(X, CODES), X, CODES)


@pytest.mark.parametrize("kind", [OneVsRestClassifier, OneVsOneClassifier, OutputCodeClassifier])
def test_learners_that_decide_between_some_classes_only_are_no_voters(kind):
    with pytest.raises(TypeError, match=f"got a {kind.__name__}, whose learners do not vote for a class"):
        assess_estimator(kind(GaussianNB()).fit(X, CODES), X, CODES)


def test_what_is_not_fitted_or_empty_is_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        assess_estimator(RandomForestClassifier(), X, CODES)
    with pytest.raises(NotFittedError, match="GaussianNB instance is not fitted"):
        assess_estimator([GaussianNB()], X, CODES)
    with pytest.raises(ValueError, match="`estimator` must have at least one learner"):
        assess_estimator([], X, CODES)


def test_the_samples_of_feature_subsets_may_be_lists_and_must_be_rows():
    bag = BaggingClassifier(n_estimators=3, max_features=2, random_state=0).fit(X, CODES)
    expected = assess_estimator(bag, X, CODES)
    np.testing.assert_array_equal(assess_estimator(bag, X.tolist(), CODES).accuracies, expected.accuracies)
    with pytest.raises(ValueError, match="Expected 2D array, got scalar array"):
        assess_estimator(bag, None, CODES)


def test_the_name_of_an_estimator_is_a_string():
    forest = RandomForestClassifier(3, random_state=0).fit(X, CODES)
    with pytest.raises(TypeError, match="`name` must be a string; got 0"):
        assess_estimator(forest, X, CODES, name=0)


def pipeline():
    return make_pipeline(StandardScaler(), GaussianNB())


def forest():
    return RandomForestClassifier(3, max_depth=3, random_state=0)


@pytest.mark.parametrize("learner", [pipeline, forest])
@pytest.mark.parametrize(
    "ensemble",
    [
        lambda learner: VotingClassifier(
            [("a", learner()), ("b", learner()), ("c", learner())], voting="soft"
        ),
        lambda learner: StackingClassifier([("a", learner()), ("b", learner()), ("c", learner())], cv=2),
        lambda learner: BaggingClassifier(learner(), 3, random_state=0),
    ],
    ids=["voting", "stacking", "bagging"],
)
def test_learners_that_are_ensembles_or_pipelines_stay_whole(ensemble, learner, y):
    fitted = ensemble(learner).fit(X, y)
    learners = learner_outputs(fitted, X)
    assert learners.outputs.shape == (3, 300, 3)
    if hasattr(fitted, "named_estimators_"):
        assert learners.names == ("a", "b", "c")
    for proba, one in zip(learners.outputs, fitted.estimators_, strict=True):
        assert proba == pytest.approx(one.predict_proba(X))


def test_boosted_forests_stay_whole(y):
    boost = AdaBoostClassifier(forest(), n_estimators=2, random_state=0).fit(X, y)
    a = assess_estimator(boost, X, y)
    assert a.n_learners == len(boost.estimators_)
    assert a.accuracies == pytest.approx([one.score(X, y) for one in boost.estimators_])


@pytest.mark.parametrize("kind", ["soft", "hard", "stacking"])
def test_frozen_learners_beside_others_keep_their_labels(kind, y):
    given = [DecisionTreeClassifier(max_depth=3).fit(X, y), pipeline().fit(X, y)]
    named = [
        ("tree", FrozenEstimator(given[0])),
        ("fresh", GaussianNB()),
        ("pipe", FrozenEstimator(given[1])),
    ]
    ensemble = StackingClassifier(named, cv=2) if kind == "stacking" else VotingClassifier(named, voting=kind)
    a = assess_estimator(ensemble.fit(X, y), X, y)
    assert a.accuracies == pytest.approx(
        [given[0].score(X, y), GaussianNB().fit(X, y).score(X, y), given[1].score(X, y)]
    )


def test_a_frozen_learner_that_knows_fewer_classes_keeps_its_labels():
    y = CODES + 1
    few = GaussianNB().fit(X[y < 3], y[y < 3])  # its labels 1 and 2 could be codes
    voting = VotingClassifier([("few", FrozenEstimator(few)), ("all", GaussianNB())]).fit(X, y)
    assert assess_estimator(voting, X, y).accuracies[0] == pytest.approx(few.score(X, y))


def test_learners_of_a_list_were_fitted_on_labels_of_one_kind():
    names = np.array(["x", "a", "m"])[CODES]
    with pytest.raises(
        TypeError, match="`estimator` must have learners that were fitted on labels of one kind"
    ):
        assess_estimator([GaussianNB().fit(X, names), GaussianNB().fit(X, CODES)], X, names)


def test_several_outputs_are_refused_whatever_their_classes():
    several = RandomForestClassifier(2, random_state=0).fit(X, np.c_[CODES, CODES == 1])
    for estimator in (several, [several]):
        with pytest.raises(ValueError, match="`estimator` must have one output; got one with several"):
            assess_estimator(estimator, X, CODES)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_learner_that_votes_for_other_classes_is_refused(voting):
    some = CODES < 2
    named = [("wide", FrozenEstimator(GaussianNB().fit(X, CODES))), ("own", Perceptron())]
    if voting == "soft":
        named[1] = ("own", GaussianNB())
    voted = VotingClassifier(named, voting=voting).fit(X[some], CODES[some])
    with pytest.raises(
        ValueError,
        match=r"`estimator` must have learners that vote for its classes, \[0, 1\]; got a .* votes for 2",
    ):
        assess_estimator(voted, X[some], CODES[some])


def test_learners_fitted_before_on_codes_are_understood():
    names = np.array(["x", "a", "m"])[CODES]
    codes = np.unique(names, return_inverse=True)[1]
    given = GaussianNB().fit(X, codes)
    stack = StackingClassifier([("a", given), ("b", given)], cv="prefit").fit(X, names)
    assert assess_estimator(stack, X, names).accuracies == pytest.approx([given.score(X, codes)] * 2)


def test_weights_of_the_ensemble_are_not_used():
    voting = VotingClassifier([*LEARNERS, ("again", GaussianNB())], weights=[5, 1, 1]).fit(X, CODES)
    votes = [learner.predict(X) for learner in voting.estimators_]
    a = assess_estimator(voting, X, CODES)
    assert a.vote.value == assess(CODES, votes).vote.value != voting.score(X, CODES)


@pytest.mark.parametrize("given", [{"a": GaussianNB()}, np.array([GaussianNB()]), GaussianNB, None])
def test_what_is_no_estimator_is_refused(given):
    with pytest.raises(
        TypeError, match=r"^`estimator` must be a fitted ensemble with `estimators_`, or a list"
    ):
        assess_estimator(given, X, CODES)


class Resolving:
    """An ensemble whose fit chose the vote."""

    classes_ = np.array([0, 1, 2])
    voting, voting_ = "auto", "geometric"

    def __init__(self, proba):
        self.proba = proba

    def learner_predict_proba(self, X):
        return self.proba


class Sharpening(Resolving):
    """An ensemble that votes with other probabilities than those of its learners."""

    def vote_learners(self, X):
        sharp = self.proba**2
        return sharp / sharp.sum(axis=2, keepdims=True), "soft"


@pytest.fixture
def proba():
    return np.random.default_rng(0).dirichlet(np.ones(3), (4, len(X)))


def test_the_vote_that_an_ensemble_chose_in_fit_counts(proba):
    a = assess_estimator(Resolving(proba), X, CODES)
    assert a.voting == "geometric"
    assert a.vote == assess(CODES, proba, voting="geometric").vote
    assert learner_outputs(make_pipeline(StandardScaler().fit(X), Resolving(proba)), X).voting == "geometric"


def test_an_ensemble_may_say_itself_with_which_probabilities_its_learners_vote(proba):
    learners = learner_outputs(Sharpening(proba), X)
    assert learners.voting == "soft"
    assert learners.names == ("L1", "L2", "L3", "L4")
    np.testing.assert_array_equal(learners.outputs, Sharpening(proba).vote_learners(X)[0])


@pytest.mark.parametrize(("n_learners", "n_samples"), [(250, 2_000), (300, 150)])
def test_many_learners_have_the_weights_of_nnls(n_learners, n_samples, monkeypatch):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n_samples)
    right = rng.random((n_learners, n_samples)) < np.where(rng.random(n_samples) < 0.3, 0.5, 0.8)
    matrix = np.corrcoef(np.vstack([truth, np.where(right, truth, 1 - truth)]))
    refused = []
    monkeypatch.setattr(weights, "nnls", lambda *given: refused.append(given))
    found, ceiling = weights.vote_weights(matrix[0, 1:], matrix[1:, 1:])
    assert not refused  # it would take much longer
    monkeypatch.undo()
    monkeypatch.setattr(weights, "_MANY", n_learners)
    expected, same = weights.vote_weights(matrix[0, 1:], matrix[1:, 1:])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0 < (found > 0).sum() < n_learners
    assert ceiling == same


def test_equal_learners_are_left_to_nnls():
    matrix = np.ones((250, 250))  # singular on any two learners
    found, _ = weights.vote_weights(np.full(250, 0.5), matrix)
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
