import json
import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.selection import Selection, select
from counterpoint.theory import critical_lambda
from tests.measures.references import ensembles, random_probabilities, random_votes, soft_ensembles

TIE = 1e-9


def first_best(scores):
    """Return the first of the candidates, a dict, with the best score."""
    best = max(scores.values())
    return min(i for i, score in scores.items() if score >= best - TIE)


def score(y_true, outputs, diversity):
    """Return the score of an ensemble, from the public measures and the critical lambda."""
    r_tl = truth_learner_correlation(y_true, outputs).mean()
    n = len(outputs)
    if n == 1:
        return r_tl
    labels = np.arange(outputs.shape[2]) if outputs.ndim == 3 else np.union1d(y_true, outputs)
    by_class = learner_learner_correlation(outputs, per_class=True, labels=labels)[np.isin(labels, y_true)]
    pairs = np.ma.masked_invalid(by_class).mean(axis=0).filled(np.nan)[np.triu_indices(n, k=1)]
    r_ll = 0.0 if np.isnan(pairs).all() else np.nanmean(pairs)
    return r_tl - diversity * critical_lambda(n) * r_ll


def naive_greedy(y_true, outputs, diversity):
    """Return the path of learners and scores, every ensemble measured anew."""
    r_tl = truth_learner_correlation(y_true, outputs)
    free, path, scores = set(np.flatnonzero(~np.isnan(r_tl)).tolist()), [], []
    while free:
        found = {i: score(y_true, outputs[[*path, i]], diversity) for i in sorted(free)}
        path.append(first_best(found))
        scores.append(found[path[-1]])
        free.remove(path[-1])
    return path, scores


def tallies(outputs, n_classes):
    """Return what each learner gives each class, (n_learners, n_samples, n_classes)."""
    return outputs if outputs.ndim == 3 else np.eye(n_classes)[outputs]


def vote_accuracy(y_true, columns):
    """Return how often the summed columns name the truth; a tie is shared."""
    total = columns.sum(axis=0)
    credit = 0.0
    for truth, row in zip(y_true, total, strict=True):
        winners = np.flatnonzero(row >= row.max() - TIE)
        credit += (truth in winners) / len(winners)
    return credit / len(y_true)


def naive_caruana(y_true, columns, size):
    """Return the path of Caruana et al. (2004) with sorted initialisation, by plain loops."""
    everyone = range(len(columns))
    alone = [vote_accuracy(y_true, columns[[i]]) for i in everyone]
    ranked = sorted(everyone, key=lambda i: (-round(alone[i], 9), i))[: min(25, size)]
    starts = {n: vote_accuracy(y_true, columns[ranked[:n]]) for n in range(1, len(ranked) + 1)}
    path = ranked[: first_best(starts)]
    while len(path) < size:
        path.append(first_best({i: vote_accuracy(y_true, columns[[*path, i]]) for i in everyone}))
    return path


def noisy_pool(seed, n_samples, n_good=15, n_noise=15):
    """Return a truth and the votes of good learners that share some errors, and of guessing ones."""
    rng = np.random.default_rng(seed)
    y_true = rng.integers(0, 2, n_samples)
    shared = rng.normal(size=(3, n_samples))[np.arange(n_good) % 3]
    right = 0.6 * shared + 0.8 * rng.normal(size=(n_good, n_samples)) < 0.5
    good = np.where(right, y_true, 1 - y_true)
    return y_true, np.vstack([good, rng.integers(0, 2, (n_noise, n_samples))])


@given(ensemble=ensembles | soft_ensembles, diversity=st.sampled_from([0.0, 0.3, 0.5, 1.0, 2.0]))
def test_each_greedy_step_is_the_one_that_measuring_every_ensemble_anew_finds(ensemble, diversity):
    y_true, outputs = ensemble
    assume(len(np.unique(y_true)) > 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        assume(not np.isnan(truth_learner_correlation(y_true, outputs)).all())
        path, scores = naive_greedy(y_true, outputs, diversity)
        labels = np.arange(outputs.shape[2]) if outputs.ndim == 3 else None
        selection = select(y_true, outputs, len(path), diversity=diversity, labels=labels)
    np.testing.assert_allclose(selection.scores, scores, atol=1e-8)
    assert selection.path.tolist() == path


def test_the_path_reports_the_vote_of_every_prefix():
    y_true, votes = random_votes(seed=3, n_learners=9, n_samples=120, n_classes=3)
    selection = select(y_true, votes)
    columns = tallies(votes, 3)[selection.path]
    expected = [vote_accuracy(y_true, columns[: n + 1]) for n in range(9)]
    np.testing.assert_allclose(selection.accuracies, expected, atol=1e-12)
    assert selection.accuracy == selection.accuracies[len(selection.indices) - 1]


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
@pytest.mark.parametrize("seed", range(5))
def test_caruana_is_the_published_procedure(kind, seed):
    make = random_votes if kind == "labels" else random_probabilities
    y_true, outputs = make(seed, n_learners=6, n_samples=40, n_classes=3)
    path = naive_caruana(y_true, tallies(outputs, 3), size=9)
    selection = select(y_true, outputs, 9, method="caruana")
    assert selection.path.tolist() == path
    assert selection.indices.tolist() == list(dict.fromkeys(path))
    assert selection.weights.tolist() == [path.count(i) / 9 for i in selection.indices]
    np.testing.assert_allclose(selection.scores, selection.accuracies, atol=1e-12)
    assert selection.diversity is None


@pytest.mark.parametrize("voting", ["hard", "soft", "geometric"])
@pytest.mark.parametrize("seed", range(3))
def test_each_vote_is_counted_along_the_path_and_held_on_new_samples(voting, seed):
    y_true, proba = random_probabilities(seed, n_learners=6, n_samples=40, n_classes=3)
    columns = {"hard": np.eye(3)[proba.argmax(axis=2)], "soft": proba, "geometric": np.log(proba)}[voting]
    path = naive_caruana(y_true, columns, size=9)
    caruana = select(y_true, proba, 9, method="caruana", voting=voting)
    assert caruana.path.tolist() == path
    greedy = select(y_true, proba, voting=voting)
    expected = [vote_accuracy(y_true, columns[greedy.path[: n + 1]]) for n in range(6)]
    np.testing.assert_allclose(greedy.accuracies, expected, atol=1e-12)
    bagged = select(y_true, proba, 2, voting=voting, n_bags=3, random_state=0)
    for selection in (caruana, greedy, bagged):
        assert selection.voting == voting
        tally = np.tensordot(selection.weights, columns[selection.indices], 1)
        won = (tally >= tally.max(axis=1, keepdims=True) - TIE).argmax(axis=1)
        assert selection.vote(proba).tolist() == won.tolist()
        assert Selection.from_json(selection.to_json()).voting == voting


def test_by_default_labels_vote_and_probabilities_are_averaged():
    y_true, proba = random_probabilities(0, n_learners=4, n_samples=30, n_classes=2)
    assert select(y_true, proba).to_json() == select(y_true, proba, voting="soft").to_json()
    votes = proba.argmax(axis=2)
    assert select(y_true, votes).to_json() == select(y_true, votes, voting="hard").to_json()
    assert select(y_true, votes).voting == "hard"


def test_the_vote_of_probabilities_needs_probabilities():
    y_true, proba = random_probabilities(0, n_learners=4, n_samples=30, n_classes=2)
    selection = select(y_true, proba, 2, voting="geometric")
    words = r"^`outputs` must be probabilities for the geometric vote; got labels\.$"
    with pytest.raises(ValueError, match=words):
        selection.vote(proba.argmax(axis=2))
    assert str(selection).splitlines()[1].startswith("Their geometric vote is right on ")


def test_diversity_passes_over_duplicates():
    y_true, votes = random_votes(seed=0, n_learners=4, n_samples=300, n_classes=2)
    pool = np.repeat(votes, 3, axis=0)  # learners 0 to 2 are one, 3 to 5 are one, ...
    chosen = select(y_true, pool, 4, diversity=1.0).indices
    assert sorted(chosen // 3) == [0, 1, 2, 3]
    assert (chosen % 3 == 0).all()  # ties go to the first
    ranked = np.argsort(-truth_learner_correlation(y_true, pool).round(9), kind="stable")
    assert select(y_true, pool, 4, diversity=0.0).indices.tolist() == ranked[:4].tolist()


@pytest.mark.parametrize("diversity", [0.0, 0.5, 1.0])
def test_the_chosen_vote_beats_the_whole_pool_and_the_best_learner_on_new_data(diversity):
    y_true, votes = noisy_pool(0, 1000)
    y_new, new = noisy_pool(1, 20_000)
    chosen = select(y_true, votes, diversity=diversity)
    assert set(chosen.indices.tolist()) >= set(range(8))
    accuracy = np.mean(chosen.vote(new) == y_new)
    whole = vote_accuracy(y_new, tallies(new, 2))
    assert accuracy > whole + 0.03
    assert accuracy > (new == y_new).mean(axis=1).max() + 0.1


def test_without_a_size_a_learner_goes_only_where_it_hurts_beyond_noise():
    y_true, votes = noisy_pool(2, 400)
    selection = select(y_true, votes)
    credit = np.empty((len(votes), len(y_true)))
    for n in range(1, len(votes) + 1):
        shares = tallies(votes, 2)[selection.path[:n]].mean(axis=0)[np.arange(len(y_true)), y_true]
        credit[n - 1] = np.where(np.isclose(shares, 0.5), 0.5, shares > 0.5)
    loss = credit[credit.mean(axis=1).argmax()] - credit
    error = loss.std(axis=1) / np.sqrt(len(y_true))
    bearable = np.flatnonzero(loss.mean(axis=1) <= error + TIE) + 1
    assert len(selection.indices) == bearable.max()
    assert len(selection.indices) < len(votes)


def test_a_good_pool_is_kept_whole_and_a_perfect_learner_is_enough():
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, 2, 100)
    good = np.where(rng.random((5, 100)) < 0.8, y_true, 1 - y_true)
    assert len(select(y_true, good).indices) == 5
    flawed = [np.where(np.arange(100) < 40 + i, 1 - y_true, y_true) for i in range(8)]
    assert select(y_true, [*flawed, y_true]).indices.tolist() == [8]


@pytest.mark.parametrize("method", ["greedy", "caruana"])
def test_bags_are_reproducible_and_average_selections_from_halves(method):
    y_true, votes = noisy_pool(0, 300)
    first = select(y_true, votes, 4, method=method, n_bags=10, random_state=7)
    again = select(y_true, votes, 4, method=method, n_bags=10, random_state=np.random.default_rng(7))
    other = select(y_true, votes, 4, method=method, n_bags=10, random_state=8)
    assert first.to_json() == again.to_json() != other.to_json()
    rng = np.random.default_rng(7)
    weights = np.zeros(30)
    for _ in range(10):
        half = np.sort(rng.choice(30, 15, replace=False))
        bag = select(y_true, votes[half], 4, method=method)
        weights[half[bag.indices]] += bag.weights / 10
    np.testing.assert_allclose(first.weights, weights[first.indices], atol=1e-12)
    assert first.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(first.weights) <= 1e-9).all()
    assert len(first.indices) == np.count_nonzero(weights)
    assert len(first.path) == 0
    assert len(first.scores) == len(first.accuracies) == 10


def test_the_score_of_bags_is_the_greedy_score_for_equal_weights():
    y_true, votes = random_votes(seed=1, n_learners=7, n_samples=200, n_classes=3)
    bag = select(y_true, votes, 4, n_bags=1, random_state=0)
    np.testing.assert_allclose(bag.weights, 0.25)
    assert bag.scores[-1] == pytest.approx(score(y_true, votes[bag.indices], 0.5), abs=1e-12)
    assert bag.accuracy == pytest.approx(vote_accuracy(y_true, tallies(votes, 3)[bag.indices]), abs=1e-12)


@pytest.mark.parametrize("method", ["greedy", "caruana"])
def test_bags_without_a_size_put_their_weight_on_the_good_learners(method):
    y_true, votes = noisy_pool(0, 500)
    selection = select(y_true, votes, method=method, n_bags=10, random_state=0)
    assert selection.weights[selection.indices < 15].sum() > 0.8
    y_new, new = noisy_pool(1, 20_000)
    assert np.mean(selection.vote(new) == y_new) > vote_accuracy(y_new, tallies(new, 2)) + 0.03


def test_a_constant_learner_is_named_and_never_chosen_by_greedy():
    y_true = [0, 0, 1, 1, 1]
    votes = [[1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
    with pytest.warns(UndefinedMeasureWarning, match="leaves out learner 0, learner 2;"):
        selection = select(y_true, votes)
    assert set(selection.indices.tolist()) <= {1, 3}
    assert np.isfinite(selection.scores).all()
    # its accuracy is defined, so Caruana's method knows it
    assert select(y_true, votes, method="caruana").n_learners == 4
    with (
        pytest.warns(UndefinedMeasureWarning, match="learner 2 and 2 more"),
        pytest.raises(
            ValueError, match=r"^`size` must be at most 1, the number of learners with a correlation"
        ),
    ):
        select([0, 1, 1], [[0] * 3, [1] * 3, [0] * 3, [1] * 3, [0] * 3, [0, 1, 0]], 2)


def test_learners_that_share_no_class_are_scored_by_the_truth_alone():
    y_true = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    votes = np.array([[0, 0, 1, 1, 0, 1, 0, 1], [2, 3, 2, 3, 2, 2, 3, 3], [0, 0, 1, 1, 0, 1, 0, 1]])
    selection = select(y_true, votes, 3, diversity=1.0)
    r_tl = np.nanmean(truth_learner_correlation_per_class(y_true, votes), axis=1)
    assert selection.scores[1] == pytest.approx(np.mean(r_tl[selection.path[:2]]), abs=1e-12)
    assert np.isfinite(selection.scores).all()
    assert set(selection.path[:2].tolist()) == {0, 1}  # the duplicate comes last


def truth_learner_correlation_per_class(y_true, votes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        return truth_learner_correlation(y_true, votes, per_class=True)


@pytest.mark.parametrize("method", ["greedy", "caruana"])
@pytest.mark.parametrize("size", [None, 1])
def test_one_learner_is_chosen(method, size):
    selection = select([0, 1, 1], [[0, 1, 0]], size, method=method)
    assert selection.indices.tolist() == [0]
    assert selection.weights.tolist() == [1.0]
    assert selection.accuracy == pytest.approx(2 / 3)


def test_size_one_is_the_learner_nearest_to_the_truth():
    y_true, votes = random_votes(seed=5, n_learners=8, n_samples=100, n_classes=3)
    best = truth_learner_correlation(y_true, votes).argmax()
    assert select(y_true, votes, 1, diversity=5.0).indices.tolist() == [best]


def test_caruana_may_pick_more_often_than_there_are_learners():
    y_true, proba = random_probabilities(seed=0, n_learners=3, n_samples=50, n_classes=2)
    selection = select(y_true, proba, 40, method="caruana")
    assert len(selection.path) == 40
    assert selection.weights.sum() == pytest.approx(1)


def test_strings_and_probabilities_with_labels_vote_alike():
    y_true, codes = random_votes(seed=2, n_learners=6, n_samples=80, n_classes=3)
    names = np.array(["ant", "bee", "cat"])
    as_codes = select(y_true, codes, 3)
    as_names = select(names[y_true], names[codes], 3)
    as_proba = select(names[y_true], np.eye(3)[codes], 3, labels=names)
    assert as_codes.to_json() == as_names.to_json()
    assert as_codes.indices.tolist() == as_proba.indices.tolist()
    won = names[as_codes.vote(codes)]
    assert as_names.vote(names[codes]).tolist() == won.tolist()
    assert as_proba.vote(np.eye(3)[codes], labels=names).tolist() == won.tolist()
    assert as_proba.vote(np.eye(3)[codes]).tolist() == as_codes.vote(codes).tolist()


def test_the_vote_weighs_learners_and_gives_a_tie_to_the_first_label():
    selection = Selection.from_json(
        json.dumps(
            {
                "schema": 1,
                "indices": [2, 0, 1],
                "weights": [0.5, 0.3, 0.2],
                "accuracy": 1.0,
                "path": [],
                "scores": [],
            }
            | {"accuracies": [], "method": "caruana", "voting": "hard", "diversity": None}
            | {"n_learners": 4, "n_bags": 1}
        )
    )
    votes = np.array([[1, 1, 5], [1, 0, 5], [0, 0, 7], [9, 9, 9]])
    assert selection.vote(votes).tolist() == [0, 0, 5]
    assert selection.take(votes).tolist() == votes[[2, 0, 1]].tolist()


def test_a_selection_survives_json_and_prints_well():
    y_true, votes = noisy_pool(0, 200)
    for options in ({"size": 3}, {"method": "caruana"}, {"n_bags": 3, "random_state": 0}):
        selection = select(y_true, votes, **options)
        back = Selection.from_json(selection.to_json())
        assert back.to_json() == selection.to_json()
        assert selection.to_dict() == json.loads(selection.to_json())
        assert votes[back.indices].shape == (len(selection.indices), 200)
        assert back.path.dtype == np.int64
    text = str(select(y_true, votes, 3))
    assert text.startswith("3 of 30 learners (greedy, diversity 0.5)\nTheir hard vote is right on ")
    assert "% of the samples it was chosen on.\nlearner  weight\n" in text
    assert text.count("0.3333") == 3
    assert "(caruana, 2 bags)" in str(select(y_true, votes, 5, method="caruana", n_bags=2, random_state=0))
    assert str(select(y_true, votes, 29)).endswith("... and 9 more")
    assert repr(select(y_true, votes, 3)) == "<Selection 3 of 30 learners, 'greedy'>"


GOOD = ([0, 1, 1, 0], [[0, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 0]])
NAN = [[[0.5, 0.5], [np.nan, 0.5]], [[0.1, 0.9], [0.2, 0.8]]]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        (GOOD, {"size": 4}, ValueError, r"^`size` must be at most 3, the number of learners; got 4\.$"),
        (
            GOOD,
            {"size": 3, "n_bags": 2},
            ValueError,
            r"^`size` must be at most 2, half the number of learners, w",
        ),
        (GOOD, {"size": 0}, ValueError, r"^`size` must be at least 1; got 0\.$"),
        (GOOD, {"size": 2.0}, TypeError, r"^`size` must be an integer"),
        (GOOD, {"size": [2]}, TypeError, r"^`size` must be an integer; got \[2\]\.$"),
        (
            GOOD,
            {"method": "best"},
            ValueError,
            r"^`method` must be one of 'greedy', 'caruana'; got 'best'\.$",
        ),
        (
            GOOD,
            {"voting": "loud"},
            ValueError,
            r"^`voting` must be one of 'auto', 'hard', 'soft', 'geometric'; got 'loud'\.$",
        ),
        (
            GOOD,
            {"voting": "soft"},
            ValueError,
            r"^`voting` must be 'auto' or 'hard' where `outputs` are labels; got 'soft'\.$",
        ),
        (
            GOOD,
            {"voting": "geometric"},
            ValueError,
            r"^`voting` must be 'auto' or 'hard' where `outputs` are labels; got 'geometric'\.$",
        ),
        (GOOD, {"diversity": -0.1}, ValueError, r"^`diversity` must be at least 0; got -0\.1\.$"),
        (GOOD, {"diversity": np.nan}, ValueError, r"^`diversity` must not be NaN"),
        (GOOD, {"diversity": np.inf}, ValueError, r"^`diversity` must be finite; got inf\.$"),
        (
            GOOD,
            {"diversity": [0.1, 0.2]},
            TypeError,
            r"^`diversity` must be one number; got \[0\.1, 0\.2\]\.$",
        ),
        (GOOD, {"n_bags": -1}, ValueError, r"^`n_bags` must be at least 0; got -1\.$"),
        (
            GOOD,
            {"random_state": "seed"},
            TypeError,
            r"^`random_state` must be None, a whole number.*got 'seed'\.$",
        ),
        (
            GOOD,
            {"labels": [0, 2]},
            ValueError,
            r"^`labels` must hold every label of `outputs`; got 1 at learner 0",
        ),
        (
            ([1, 1], [[0, 1], [1, 0]]),
            {},
            ValueError,
            r"^`y_true` must hold at least two classes; got only 1\.$",
        ),
        (
            ([0, 1], [[1, 1], [0, 0]]),
            {},
            ValueError,
            r"^`outputs` must hold a learner that is not constant in the classes of `y_true`; got none",
        ),
        (
            ([0, 1], [[2, 3], [3, 2]]),
            {},
            ValueError,
            r"^`outputs` must hold a learner that is not constant in the classes of `y_true`; got none",
        ),
        (([0, 1], NAN), {}, ValueError, r"^`outputs` must not be NaN; got nan at learner 0, sample 1\.$"),
        (([0, 1, 0], [[0, 1], [1, 0]]), {}, ValueError, r"^`outputs` must have 3 samples"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, options, error, match):
    with pytest.raises(error, match=match):
        select(*arguments, **options)


def test_a_selection_refuses_another_pool_and_another_text():
    selection = select(*GOOD, size=2)
    with pytest.raises(
        ValueError, match=r"^`outputs` must hold the 3 learners of the pool.*got shape \(2, 4\)\.$"
    ):
        selection.take(GOOD[1][:2])
    for text in ("{}", "[1]", "x", None):
        words = f"`text` must be the JSON of a Selection; got {text!r}."
        with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
            Selection.from_json(text)
    with pytest.raises(ValueError, match=r"^`data` must be a Selection with schema 1; got schema 2\.$"):
        Selection.from_dict(selection.to_dict() | {"schema": 2})
    with pytest.raises(
        ValueError, match=r"^`data` must have the fields of Selection; got none named 'path'\.$"
    ):
        Selection.from_dict({key: value for key, value in selection.to_dict().items() if key != "path"})


def test_a_class_that_only_learners_vote_for_is_in_neither_average():
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, 2, 300)
    votes = np.where(rng.random((3, 300)) < 0.8, y_true, 2)
    per_class = learner_learner_correlation(votes, per_class=True)[:2].mean(axis=0)
    r_tl = np.nanmean(truth_learner_correlation_per_class(y_true, votes), axis=1)
    selection = select(y_true, votes, 2, diversity=1.0)
    first, second = selection.path
    # the critical lambda of two learners is 1/4
    expected = r_tl[[first, second]].mean() - per_class[first, second] / 4
    assert selection.scores[1] == pytest.approx(expected)
