"""The networks of the arena: paired, chosen on inner folds only, the same however they are cut into programs."""

import numpy as np
import pytest
import torch

from counterpoint.arena import SMOKE, networks
from counterpoint.arena.encoding import for_networks
from counterpoint.arena.methods import METHODS, TRIED_DIVERSITIES, Recipe, candidates_of, recipes
from counterpoint.arena.tables import Split, outer_folds, read_suite
from counterpoint.estimators import DiverseEnsembleClassifierCV
from counterpoint.measures import combine

CPU = torch.device("cpu")
BATCHED = [method for method in METHODS if METHODS[method].batched]


@pytest.fixture(scope="module")
def labor():
    return read_suite(["labor"])[0]


def run_all(table, methods=BATCHED):
    folds = outer_folds(table, 0, SMOKE.n_folds)
    return networks.run_networks(table, folds, methods, SMOKE, repeat=0, device=CPU)


@pytest.fixture(scope="module")
def found(labor):
    return run_all(labor)


def without_seconds(results):
    return {m: [{k: v for k, v in fold.items() if k != "seconds"} for fold in f] for m, f in results.items()}


def test_every_method_gets_the_same_budget(found):
    assert set(found) == set(BATCHED)
    for method, folds in found.items():
        assert len(folds) == SMOKE.n_folds
        assert {len(fold["inner_accuracies"]) for fold in folds} == {len(candidates_of(method))}
        assert all(Recipe(**fold["chosen"]) in recipes(method) for fold in folds)
        assert all(fold["seconds"] > 0 for fold in folds)


def test_the_best_of_the_inner_folds_is_chosen_and_the_first_of_equals(found):
    for fold in found["joint"]:
        best = int(np.argmax(fold["inner_accuracies"]))
        assert Recipe(**fold["chosen"]) == recipes("joint")[best]


def test_a_method_does_the_same_alone_and_however_programs_are_cut(labor, found, monkeypatch):
    monkeypatch.setattr(networks, "_NUMBERS_ON_CPU", 1)
    alone = without_seconds(run_all(labor, ["bagged", "correlation-0.5", "diversity"]))
    for method, folds in alone.items():
        for one, other in zip(folds, without_seconds(found)[method], strict=True):
            assert one["chosen"] == other["chosen"]
            assert one["error"] == other["error"]
            for key in ("r_tl", "log_loss"):
                assert one[key] == pytest.approx(other[key], abs=1e-4)


def test_a_program_that_does_not_fit_is_cut_in_half(labor, found, monkeypatch):
    train, sizes = networks.fit_groups, []

    def with_little_memory(groups, schedule):
        sizes.append(len(groups))
        if len(groups) > 20:
            raise torch.cuda.OutOfMemoryError
        return train(groups, schedule)

    monkeypatch.setattr(networks, "fit_groups", with_little_memory)
    again = run_all(labor, ["joint"])
    assert max(sizes) > 20
    assert [fold["error"] for fold in again["joint"]] == [fold["error"] for fold in found["joint"]]


def trained(table, *trainings):
    """Return what some trainings make of the first outer fold, by their names."""
    parts = networks._parts(table, [fold.outer for fold in outer_folds(table, 0, 3)], 0, CPU)
    trainer = networks._Trainer(table, SMOKE, lambda _: None)
    wanted = [(0, Recipe(training, 0.1)) for training in trainings]
    return {one.recipe.training: one for one in trainer.train(parts, wanted, learners=True)}


def test_one_network_is_the_first_of_the_independent_ones(labor):
    found = trained(labor, "one-net", "independent", "bagged")
    proba = {training: one.proba for training, one in found.items()}
    np.testing.assert_allclose(proba["one-net"][0], proba["independent"][0], atol=1e-4)
    assert proba["bagged"].shape == proba["independent"].shape
    assert not np.allclose(proba["bagged"][0], proba["independent"][0], atol=1e-4)


def test_each_training_predicts_with_the_vote_of_its_loss(labor):
    soft = ("one-net", "independent", "bagged", "joint", "ncl")
    geometric = ("diversity", "diversity-0.0", "diversity-0.9", "joint-logits")
    found = trained(labor, *soft, *geometric, "correlation-0.9")
    for training in soft:
        np.testing.assert_allclose(found[training].vote, found[training].proba.mean(axis=0))
    for training in geometric:
        proba = found[training].proba
        np.testing.assert_allclose(found[training].vote, combine(proba, voting="geometric"))
        assert not np.allclose(found[training].vote, proba.mean(axis=0))
    # the decoded mean of standardised outputs is neither
    vote, proba = found["correlation-0.9"].vote, found["correlation-0.9"].proba
    assert not np.allclose(vote, proba.mean(axis=0), atol=1e-3)
    assert not np.allclose(vote, combine(proba, voting="geometric"), atol=1e-3)
    np.testing.assert_allclose(vote.sum(axis=1), 1)


def test_diversity_0_is_independent_training_and_1_is_joint_training_of_the_logits(labor):
    found = trained(labor, "independent", "diversity-0.0", "joint-logits", "diversity-1.0")
    for one, other in (("independent", "diversity-0.0"), ("joint-logits", "diversity-1.0")):
        np.testing.assert_allclose(found[one].proba, found[other].proba, atol=1e-5)


def test_inner_folds_are_scored_by_the_vote(labor):
    folds = outer_folds(labor, 0, 3)
    parts = networks._parts(labor, [split for fold in folds for split in fold.inner], 0, CPU)

    class Perfect:
        """Votes that are right where the probabilities of the networks are wrong."""

        def train(self, parts, wanted):
            for place, recipe in wanted:
                truth = np.eye(2)[parts[place].test_y]
                good = recipe == Recipe("joint", 0.3)
                vote = truth if good else 1 - truth
                yield networks.Trained(place, recipe, vote, (1 - vote)[None], 1.0)

    choices = networks._choices(Perfect(), parts, folds, ["joint"])
    assert {choice.recipe for choice in choices.values()} == {Recipe("joint", 0.3)}


def test_rows_held_out_have_no_part_in_their_own_encoding(labor):
    split = outer_folds(labor, 0, 3)[0].outer
    part = networks._parts(labor, [split], 0, CPU)[0]
    encoder = for_networks().fit(labor.X.iloc[split.train])
    np.testing.assert_allclose(part.test_x, encoder.transform(labor.X.iloc[split.test]), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")
@pytest.mark.parametrize("epochs", [2, 40])
def test_the_search_chooses_as_the_estimator_does(epochs):
    iris = read_suite(["iris"])[0]
    X = iris.X.to_numpy()
    search = DiverseEnsembleClassifierCV(
        n_estimators=3,
        hidden_layer_sizes=(4,),
        diversities=(0.25, 1.0),
        weight_decay=0.1,
        cv=3,
        epochs=(epochs,),
        random_state=0,
    ).fit(X, iris.y)
    results = search.cv_results_
    votes = np.stack([results[f"split{k}_test_score"] for k in range(3)], axis=1)
    split = Split(np.arange(100), np.arange(50))
    assert networks._search(votes, [split] * 3) == search.best_index_


def test_the_searches_try_independent_training_first():
    dials = [f"diversity-{dial}" for dial in (0.0, *TRIED_DIVERSITIES)]
    assert [recipe.training for recipe in recipes("diverse-cv")] == dials
    assert len({recipe.weight_decay for recipe in recipes("diverse-cv")}) == 1
    assert recipes("correlation-cv")[0].training == "independent"
