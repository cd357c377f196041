import copy

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit
from torch import nn

from counterpoint.datasets import load
from counterpoint.estimators import (
    DiverseEnsembleClassifier,
    DiverseEnsembleClassifierCV,
    TableEncoder,
    corrected_paired_test,
    diverse_cv,
)
from counterpoint.estimators._path import train_path
from counterpoint.estimators._rows import Rows
from counterpoint.estimators.candidates import Scores, best_settings, verdict
from counterpoint.measures import brier_score, calibration_error, log_loss
from counterpoint.training import DiversityLoss, Ensemble, Fold, Group, Schedule

DIVERSITIES = (0.0, 0.5, 1.0)
SCHEDULE = Schedule(epochs=8, n_batches=3, learning_rate=0.01, weight_decay=0.01)


@pytest.fixture(scope="module")
def table():
    return make_classification(121, 6, n_informative=4, flip_y=0.1, random_state=0)


def small(**more):
    settings = {"n_estimators": 3, "hidden_layer_sizes": (8,), "epochs": (8,), "random_state": 0, "cv": 3}
    settings |= {
        "diversities": (0.5, 1.0),
        "learning_rate": 0.01,
        "weight_decay": 0.1,
        "label_smoothing": 0.0,
    }
    return DiverseEnsembleClassifierCV(**settings | more)


def trained(folds, diversities):
    """Return the ensembles that the program of a search trains, of each diversity on each fold."""
    found = {}

    def keep(places, epoch, grouped):
        if epoch == SCHEDULE.epochs:
            found.update(
                zip(
                    [(c, k) for c in range(len(diversities)) for k in places],
                    grouped.ensembles(),
                    strict=True,
                )
            )

    train_path([[Group(fold, DiversityLoss(d), 2) for fold in folds] for d in diversities], SCHEDULE, keep)
    return [[found[c, k] for k in range(len(folds))] for c in range(len(diversities))]


def folds_of_unequal_size(make, weighted=False):
    """Return folds of 60, 61 and 62 rows, so that batches must be filled up."""
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    folds = []
    for k, n in enumerate((60, 61, 62)):
        x = torch.randn(n, 4, generator=g)
        y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
        weight = torch.rand(n, generator=g) + 0.5 if weighted else None
        folds.append(Fold(x, y, weight, [make(4, 3) for _ in range(3)], random_state=k))
    return folds


def mlp(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))


def normalised(n_features, n_classes):
    # A bias before the normalisation would have a gradient of rounding errors alone, which Adam blows up.
    first = nn.Linear(n_features, 8, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))


class Branching(nn.Module):
    """Not a sequence, so it cannot be stacked."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.left, self.right = nn.Linear(n_features, n_classes), nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.left(x) + self.right(x).tanh()


@pytest.mark.parametrize(
    ("make", "weighted"), [(mlp, False), (mlp, True), (normalised, True), (Branching, False)]
)
def test_the_groups_of_the_program_train_as_if_they_were_alone(make, weighted):
    folds = folds_of_unequal_size(make, weighted)
    start = copy.deepcopy([[net.state_dict() for net in fold.networks] for fold in folds])
    together = trained(folds, DIVERSITIES)
    for k, fold in enumerate(folds):
        for c, diversity in enumerate(DIVERSITIES):
            alone = trained([fold], [diversity])[0][0]
            for one, other in zip(together[c][k].learners, alone.learners, strict=True):
                for name, value in one.state_dict().items():
                    torch.testing.assert_close(value, other.state_dict()[name], atol=1e-4, rtol=1e-4)
        assert all(  # the nets that were given are left as they were
            torch.equal(value, state[name])
            for net, state in zip(fold.networks, start[k], strict=True)
            for name, value in net.state_dict().items()
        )


def test_candidates_of_a_fold_part_company():
    path = trained(folds_of_unequal_size(mlp), DIVERSITIES)
    weights = [path[c][0].learners[0][0].weight for c in range(3)]
    assert all((weights[0] - other).abs().max() > 1e-3 for other in weights[1:])


def test_a_group_is_the_estimator_trained_on_its_fold(table):
    X, y = table
    splits = list(StratifiedKFold(3).split(X, y))
    search = small(cv=splits, batch_size=32, weight_decay=(0.1, 3.0), n_pieces=0).fit(X, y)
    candidates = [(diversity, decay) for diversity in (0.0, 0.5, 1.0) for decay in (0.1, 3.0)]
    # the seeds of the folds follow the two of the search, as in draw_seeds
    rng = np.random.RandomState(0)
    rng.randint(np.iinfo(np.int32).max, size=2)
    seeds = rng.randint(np.iinfo(np.int32).max, size=3)
    for k, (train, test) in enumerate(splits):
        for c, (diversity, decay) in enumerate(candidates):
            model = search.estimator(diversity, int(seeds[k]), weight_decay=decay).fit(X[train], y[train])
            assert search.cv_results_[f"split{k}_test_score"][c] == pytest.approx(
                model.score(X[test], y[test])
            )


def test_the_results_look_like_those_of_a_grid_search(table):
    search = small().fit(*table)
    results = search.cv_results_
    votes = np.stack([results[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], votes.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], votes.std(axis=0))
    assert results["rank_test_score"].min() == 1
    assert results["param_diversity"].tolist() == [0.0, 0.5, 1.0]
    assert results["param_weight_decay"].tolist() == [0.1, 0.1, 0.1]
    assert results["param_epochs"].tolist() == [8, 8, 8]
    assert results["params"][2] == {
        "diversity": 1.0,
        "weight_decay": 0.1,
        "label_smoothing": 0.0,
        "epochs": 8,
    }
    for name in ("log_loss", "brier_score", "calibration_error"):
        assert (results[f"mean_test_{name}"] > 0).all()
    for params in results["params"]:
        DiverseEnsembleClassifier(**params)
    assert ((results["mean_learner_train_score"] > 0.5) & (results["mean_learner_train_score"] <= 1)).all()


def test_the_choice_is_trained_on_all_rows_and_answers(table):
    X, y = table
    search = small().fit(X, y)
    assert isinstance(search.best_estimator_, DiverseEnsembleClassifier)
    expected = 0.0 if search.best_index_ == 0 else (0.5, 1.0)[search.best_index_ - 1]
    assert search.best_diversity_ == expected
    assert search.best_estimator_.diversity == expected
    np.testing.assert_array_equal(search.predict_proba(X), search.best_estimator_.predict_proba(X))
    assert search.learner_predict_proba(X).shape == (3, 121, 2)
    assert search.assess(X, y).vote.value == search.score(X, y)


def test_learners_that_underfit_gain_and_the_choice_follows():
    # nets of one hidden unit cannot tell seven classes apart
    X, y = segment(7)
    search = tiny(n_estimators=9, epochs=(15,), cv=3).fit(X, y)
    assert search.test_.difference > search.test_.standard_error
    assert search.best_diversity_ == 1.0
    assert search.best_estimator_.diversity == 1.0
    assert search.cv_results_["mean_learner_train_score"].max() < 0.7


@pytest.mark.slow
def test_the_verdict_is_that_diversity_pays_where_learners_underfit():
    X, y = segment(4)
    search = tiny(epochs=(30,), learning_rate=0.03, cv=8).fit(X, y)
    assert search.verdict_.startswith("Explicit diversity pays on this data: at diversity 1, weight decay")
    assert "over 8 folds for one setting" in search.verdict_
    assert search.test_.p_value < 0.05


def segment(every):
    data = load("segment")
    return data.X.to_numpy()[::every], data.y[::every]


def tiny(**more):
    settings = {"hidden_layer_sizes": (1,), "diversities": (1.0,), "learning_rate": 0.05, "random_state": 0}
    settings |= {"weight_decay": 0.1, "n_pieces": 0}
    return DiverseEnsembleClassifierCV(**settings | more)


def scores(accuracy, log_loss=0.5, learners=0.9):
    """Return scores of candidates after some epochs on some folds, with these accuracies."""
    same = np.ones_like(accuracy)
    return Scores(accuracy, log_loss * same, 0.4 * same, 0.1 * same, learners * same)


# (candidates, folds): independent, 0.5, 1.0, each at two weight decays
GRID = np.array(
    [
        [0.70, 0.70, 0.70],
        [0.80, 0.80, 0.80],  # independent training at its best
        [0.80, 0.80, 0.80],
        [0.60, 0.60, 0.60],
        [0.90, 0.90, 0.90],
        [0.87, 0.90, 0.93],  # as good as the one before it, which is the first of equals
    ]
)


def scored(monkeypatch, grid, **more):
    """Return a search with these accuracies, and log-losses to match; a learner of candidate c is right on c tenths."""
    given = scores(
        grid[:, None], log_loss=1 - grid[:, None], learners=np.arange(len(grid))[:, None, None] / 10
    )
    monkeypatch.setattr(DiverseEnsembleClassifierCV, "_scores", lambda *_: given)
    settings = {"epochs": (1,), "weight_decay": (0.3, 0.03)} | more
    return small(**settings).fit(*load_iris(return_X_y=True))


def test_each_candidate_is_judged_at_its_best_weight_decay(monkeypatch):
    search = scored(monkeypatch, GRID)
    assert search.test_.difference == pytest.approx(0.1)  # and not the 0.2 above independent training at 0.3
    assert (search.best_diversity_, search.best_weight_decay_, search.best_index_) == (1.0, 0.3, 4)
    assert (search.best_estimator_.diversity, search.best_estimator_.weight_decay) == (1.0, 0.3)
    results = search.cv_results_
    assert results["param_weight_decay"].tolist() == [0.3, 0.03] * 3
    assert results["params"][1] == {
        "diversity": 0.0,
        "weight_decay": 0.03,
        "label_smoothing": 0.0,
        "epochs": 1,
    }
    np.testing.assert_allclose(results["mean_learner_train_score"], np.arange(6) / 10)
    assert (
        "at diversity 1, weight decay 0.3, label smoothing 0 and 1 epoch, the vote is right on 90.0 %"
        in search.verdict_
    )
    assert (
        "trained independently, weight decay 0.03, label smoothing 0 and 1 epoch, it is 80.0 %"
        in search.verdict_
    )
    assert "for the best of 4 settings: p = 0)" in search.verdict_


def test_the_verdict_names_the_choice_where_no_difference_can_be_told(monkeypatch):
    noise = np.array([0.1, -0.05, 0.0])
    votes = np.stack([np.full(3, 0.7), np.full(3, 0.8), 0.77 + noise, 0.6 + noise, 0.7 + noise, 0.7 + noise])
    for lead, chosen in ((0.0, "Independent training"), (0.05, "Diversity 0.5")):
        search = scored(monkeypatch, votes + np.array([0, 0, lead, 0, 0, 0])[:, None])
        assert search.test_.p_value > 0.05
        assert search.verdict_.startswith("No difference can be told on this data: at diversity 0.5,")
        assert search.verdict_.endswith(f" {chosen} is chosen for the lowest log-loss.")


def test_the_verdict_is_of_accuracies_and_the_choice_of_log_losses(monkeypatch):
    right = np.array([0.9, 0.92, 0.91])
    accuracy = np.stack([right - 0.2, right])[:, None]
    log_loss = np.array([0.3, 0.4])[:, None, None] + np.zeros(3)
    monkeypatch.setattr(DiverseEnsembleClassifierCV, "_scores", lambda *_: scores(accuracy, log_loss))
    search = small(epochs=(1,), diversities=(0.5,)).fit(*load_iris(return_X_y=True))
    assert search.verdict_.startswith("Explicit diversity pays on this data: ")
    assert search.verdict_.endswith(" Independent training is chosen for the lowest log-loss.")
    assert search.best_diversity_ == search.best_estimator_.diversity == 0


def test_the_epoch_is_that_of_the_lowest_log_loss(monkeypatch):
    # (candidates, epochs, folds): the third epoch is more accurate, but its log-loss is high
    accuracy = np.array([[0.7, 0.8, 0.9]] * 2)[:, :, None] + np.zeros(3)
    log_loss = np.array([[0.5, 0.4, 0.9]] * 2)[:, :, None] + np.array([0.0, 0.01, -0.01])
    monkeypatch.setattr(DiverseEnsembleClassifierCV, "_scores", lambda *_: scores(accuracy, log_loss))
    search = small(epochs=(2, 5, 7), diversities=(0.5,)).fit(*load_iris(return_X_y=True))
    assert search.best_epoch_ == 5
    assert search.cv_results_["param_epochs"].tolist() == [5, 5]
    assert len(search.history_) == search.best_estimator_.epochs == 5


def test_of_equal_settings_the_first_is_taken(monkeypatch):
    same = np.full((4, 2, 3), 0.8)
    monkeypatch.setattr(DiverseEnsembleClassifierCV, "_scores", lambda *_: scores(same, same))
    search = small(epochs=(1, 2), diversities=(0.5,), weight_decay=(0.1, 1.0)).fit(
        *load_iris(return_X_y=True)
    )
    assert (search.best_index_, search.best_epoch_, search.best_diversity_) == (0, 1, 0.0)


def test_label_smoothing_is_tried_with_every_other_setting(table):
    search = small(epochs=(3,), weight_decay=(0.1, 1.0), label_smoothing=(0.0, 0.3)).fit(*table)
    results = search.cv_results_
    assert results["param_label_smoothing"].tolist() == [0.0, 0.3] * 6
    losses = results["mean_test_log_loss"].reshape(6, 2)
    assert (losses[:, 0] != losses[:, 1]).all()
    assert search.best_label_smoothing_ == search.best_estimator_.label_smoothing
    alone = small(epochs=(3,), weight_decay=(0.1, 1.0), label_smoothing=0.3).fit(*table)
    np.testing.assert_allclose(alone.cv_results_["mean_test_log_loss"], losses[:, 1])


def test_the_scores_of_an_epoch_are_those_of_a_search_that_ends_there(table):
    many, one = (small(epochs=epochs, n_pieces=2, weight_decay=(0.1, 1.0)) for epochs in ((3, 6), (3,)))
    seen = []
    for search in (many, one):
        judge = search._judge
        search._judge = lambda *given, judge=judge: (seen.append(given[2]), judge(*given))[1]
        search.fit(*table)
    for long, short in zip(*seen, strict=True):
        np.testing.assert_allclose(long[:, 0], short[:, 0])


def test_the_scores_are_those_of_the_measures(table):
    X, y = table
    splits = list(StratifiedKFold(3).split(X, y))
    search = small(cv=splits, batch_size=32, n_pieces=0, weight_decay=0.1).fit(X, y)
    rng = np.random.RandomState(0)
    rng.randint(np.iinfo(np.int32).max, size=2)
    seeds = rng.randint(np.iinfo(np.int32).max, size=3)
    found = []
    for (train, test), seed in zip(splits, seeds, strict=True):
        proba = search.estimator(0.5, int(seed)).fit(X[train], y[train]).predict_proba(X[test])
        found.append([m(y[test], proba) for m in (log_loss, brier_score, calibration_error)])
    for name, expected in zip(
        ("log_loss", "brier_score", "calibration_error"), np.mean(found, axis=0), strict=True
    ):
        assert search.cv_results_[f"mean_test_{name}"][1] == pytest.approx(expected, abs=1e-3)


def test_independent_training_is_left_with_its_own_best_weight_decay(monkeypatch):
    search = scored(monkeypatch, GRID[[0, 1, 2, 3, 2, 3]])
    assert (search.best_diversity_, search.best_weight_decay_, search.best_index_) == (0.0, 0.03, 1)
    assert (search.best_estimator_.diversity, search.best_estimator_.weight_decay) == (0.0, 0.03)


def test_the_p_value_pays_for_every_pair_that_was_tried(monkeypatch):
    noise = np.array([0.01, -0.02, 0.01])
    votes = GRID + noise * np.arange(6)[:, None]
    search = scored(monkeypatch, votes)
    share = 50 / 100
    found = corrected_paired_test(votes[4] - votes[1], share)
    assert search.test_.standard_error == pytest.approx(found.standard_error)
    assert search.test_.p_value == pytest.approx(4 * found.p_value)
    assert 0 < search.test_.p_value < 1


def test_the_path_is_drawn_at_the_best_weight_decay_of_each(monkeypatch):
    from matplotlib.figure import Figure

    search = scored(monkeypatch, GRID, diversities=(1.0, 0.5))
    ax = Figure().subplots()
    display = diverse_cv.DiversityPathDisplay.from_estimator(search, ax=ax)
    assert display.ax_ is ax
    assert ax.has_data()
    assert display.diversities.tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(display.scores, GRID[[4, 2]])
    np.testing.assert_array_equal(display.independent, GRID[1])


def test_one_weight_decay_in_a_row_is_that_number(table):
    alone, in_a_row = (small(weight_decay=decay).fit(*table) for decay in (0.3, (0.3,)))
    np.testing.assert_array_equal(
        alone.cv_results_["mean_test_score"], in_a_row.cv_results_["mean_test_score"]
    )
    assert alone.verdict_ == in_a_row.verdict_
    assert alone.best_weight_decay_ == in_a_row.best_weight_decay_ == 0.3


def test_networks_that_cannot_be_stacked_have_weight_decays_of_their_own_too(table):
    search = small(module=Branching, weight_decay=(0.0, 50.0), epochs=(30,)).fit(*table)
    learners = search.cv_results_["mean_learner_train_score"].reshape(3, 2)
    assert (learners[:, 0] != learners[:, 1]).all()


def test_the_verdict_can_be_that_diversity_costs():
    votes = np.array([[0.9, 0.91, 0.92], [0.7, 0.72, 0.7], [0.8, 0.8, 0.81]])
    candidates = [{"diversity": d, "weight_decay": 0.1} for d in (0.0, 0.5, 1.0)]
    settings = best_settings(candidates, [20], 1 - votes[:, None])
    text = verdict(settings, votes, settings.test(votes, 0.5), "the vote is right on {:.1f} %", "log-loss")
    assert text.startswith(
        "Explicit diversity costs on this data: at diversity 1, weight decay 0.1 and 20 epochs, the vote is right on 80"
    )
    assert "independently, weight decay 0.1 and 20 epochs, it is 91.0 %" in text
    assert "the best of 2 settings" in text


def test_a_fold_may_lack_a_class_and_rows_may_weigh_nothing():
    X, y = load_iris(return_X_y=True)
    weight = np.ones(150)
    weight[:10] = 0
    search = small(cv=KFold(3), epochs=(5,)).fit(
        X, y, weight
    )  # sorted by class: each fold trains on two of three
    assert (search.cv_results_["mean_test_score"] < 0.2).all()


def test_folds_of_any_size_train_as_the_estimator_does_on_them(table):
    X, y = table
    splits = [(np.arange(n), np.arange(100, 121)) for n in (96, 13, 6, 92)]
    search = small(cv=splits, batch_size=4, n_pieces=0).fit(X, y)
    rng = np.random.RandomState(0)
    rng.randint(np.iinfo(np.int32).max, size=2)
    seeds = rng.randint(np.iinfo(np.int32).max, size=4)
    for k, seed in enumerate(seeds[:3]):  # the last has as many steps as the first, one more than alone
        train, test = splits[k]
        for c, diversity in enumerate((0.0, 0.5, 1.0)):
            model = search.estimator(diversity, int(seed)).fit(X[train], y[train])
            score = search.cv_results_[f"split{k}_test_score"][c]
            assert score == pytest.approx(model.score(X[test], y[test]))


def test_a_window_that_grows_is_a_cross_validation_too():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    search = small(cv=TimeSeriesSplit(5), batch_size=4).fit(X[order], y[order])
    assert (search.cv_results_["mean_test_score"] > 0.8).all()


def test_rows_of_a_class_without_weight_are_not_trained_on():
    X, y = load_iris(return_X_y=True)
    settings = {"class_weight": {0: 0, 1: 1, 2: 1}, "batch_size": 4, "learning_rate": 0.02, "n_pieces": 0}
    search = small(**settings).fit(X, y)
    assert (search.cv_results_["mean_test_score"] <= 2 / 3).all()
    assert (search.cv_results_["mean_learner_train_score"] > 0.8).all()  # of the rows with a weight
    assert (search.predict(X) != 0).all()


def test_the_path_is_data_first_and_a_picture_second(table):
    from matplotlib.figure import Figure

    search = small(diversities=(1.0, 0.5)).fit(*table)
    display = search.plot_path(Figure().subplots())
    assert display.diversities.tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(display.scores.mean(axis=1), search.cv_results_["mean_test_score"][[2, 1]])
    line = display.ax_.containers[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), 100 * display.scores.mean(axis=1))


def test_the_bars_are_the_standard_error_by_which_the_search_chooses(monkeypatch):
    from matplotlib.figure import Figure

    search = scored(monkeypatch, GRID + np.array([0.01, -0.02, 0.01]) * np.arange(6)[:, None])
    display = search.plot_path(Figure().subplots())
    (bars,) = display.ax_.containers[0].lines[2]
    best = bars.get_segments()[list(display.diversities).index(search.best_diversity_)]
    assert np.ptp(best[:, 1]) == pytest.approx(2 * 100 * search.test_.standard_error)


def test_the_corrected_test_is_a_t_test_where_nothing_is_shared():
    d = np.array([0.02, -0.01, 0.03, 0.01])
    found = corrected_paired_test(d, test_share=0.0)
    assert found.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
    # Nadeau and Bengio: the t statistic shrinks by sqrt((1/J) / (1/J + share))
    shared = corrected_paired_test(d, test_share=0.25)
    assert shared.standard_error == pytest.approx(found.standard_error * np.sqrt(2))
    assert shared.p_value > found.p_value


def test_differences_without_spread_have_a_p_value_too():
    assert corrected_paired_test([0.0, 0.0], 0.5).p_value == 1
    assert corrected_paired_test([0.1, 0.1], 0.5).p_value == 0
    with pytest.raises(ValueError, match="`differences` must hold one number for each of at least two folds"):
        corrected_paired_test([0.1], 0.5)


BAD = [
    ({"diversities": ()}, ValueError, r"`diversities` must hold at least one number; got \(\)"),
    ({"diversities": (0.5, 0.5)}, ValueError, "`diversities` must hold distinct numbers"),
    ({"diversities": 0.0}, ValueError, "`diversities` must hold a number above 0; got 0.0"),
    ({"label_smoothing": (0.0, 2.0)}, ValueError, "`label_smoothing` must be between 0 and 1; got 2"),
    ({"diversities": (-0.5,)}, ValueError, "`diversities` must be between 0 and 1; got -0.5"),
    ({"weight_decay": ()}, ValueError, r"`weight_decay` must hold at least one number; got \(\)"),
    (
        {"weight_decay": (0.1, 0.1)},
        ValueError,
        "`weight_decay` must hold distinct numbers",
    ),
    (
        {"weight_decay": [[0.1]]},
        ValueError,
        "`weight_decay` must hold distinct numbers",
    ),
    ({"weight_decay": (0.1, -1)}, ValueError, "`weight_decay` must be at least 0; got -1"),
    ({"weight_decay": (0.1, np.inf)}, ValueError, r"`weight_decay` must be between 0 and 1e\+15; got inf"),
    ({"diversities": (0.5, np.inf)}, ValueError, "`diversities` must be between 0 and 1; got inf"),
    ({"epochs": 0}, ValueError, "`epochs` must be at least 1; got 0"),
    ({"epochs": (5, 5)}, ValueError, "`epochs` must be an integer or a sequence of distinct integers"),
    ({"epochs": ()}, ValueError, "`epochs` must be an integer or a sequence of distinct integers"),
    ({"epochs": (3, 9), "warmup_epochs": 3}, ValueError, "`warmup_epochs` must be less than 3; got 3"),
    ({"voting": "loud"}, ValueError, "`voting` must be one of"),
    ({"cv": [(np.arange(90), np.arange(90, 121))]}, ValueError, "`cv` must yield at least two folds; got 1"),
    ({"verbose": "x"}, TypeError, "`verbose` must be an integer; got 'x'"),
    (
        {"class_weight": np.ones(3)},
        ValueError,
        "`class_weight` must be a dict, 'balanced' or None; got array",
    ),
    ({"cv": 1}, ValueError, "`cv` must be at least 2; got 1"),
]


@pytest.mark.parametrize(("settings", "error", "match"), BAD)
def test_a_bad_parameter_is_named(table, settings, error, match):
    with pytest.raises(error, match=match):
        small(**settings).fit(*table)


def test_a_search_that_fails_leaves_what_was_there(table):
    X, y = table
    search = small(class_weight={7: 1.0})
    with pytest.raises(ValueError, match="class"):
        search.fit(X, y)
    with pytest.raises(NotFittedError):
        search.predict(X)
    before = search.set_params(class_weight=None).fit(X, y).predict_proba(X)
    with pytest.raises(ValueError, match="must hold numbers whose variance is finite"):
        search.fit(X * 1e300, y)
    np.testing.assert_array_equal(search.predict_proba(X), before)


def test_a_search_by_tiny_weights_is_that_by_ordinary_ones(table):
    X, y = table
    weight = 1.0 + (np.arange(len(y)) % 2)
    found = [small().fit(X, y, weight * by).cv_results_["mean_learner_train_score"] for by in (1.0, 1e-60)]
    np.testing.assert_allclose(*found, atol=0.02)


class OnAppleGPU(torch.Tensor):
    """A tensor that, until it is moved to the CPU, has no double precision."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.double:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found.as_subclass(torch.Tensor) if func is torch.Tensor.cpu else found


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_fold_is_scored_where_there_is_no_double_precision(table, voting):
    X, y = table
    rows = Rows(np.asarray(X, dtype=np.float64), np.asarray(y), np.ones(len(y)))
    search = small(voting=voting)
    search.classes_ = np.unique(y)
    search.encoder_ = TableEncoder().fit(rows.X)
    part = diverse_cv.SearchFold(search, rows, np.arange(0, len(y), 2), np.arange(1, len(y), 2), 0, 3)
    ensemble = Ensemble(part.fold.networks)
    held, seen = (ensemble(x).detach()[None] for x in (part.test_x, part.seen_x))
    expected = part.score(held, seen, voting)
    found = part.score(held.as_subclass(OnAppleGPU), seen.as_subclass(OnAppleGPU), voting)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("cv", "message"),
    [(3, "at most 2, the rows of the largest class; got 3"), (True, "an integer; got True")],
)
def test_a_number_of_folds_that_the_classes_do_not_allow_is_refused(cv, message):
    with pytest.raises((TypeError, ValueError), match=rf"^`cv` must be {message}\.$"):
        tiny(cv=cv).fit(np.arange(10.0).reshape(5, 2), list("ababc"))


def test_a_column_of_classes_is_warned_of_once():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(DataConversionWarning) as found:
        small(epochs=(2,)).fit(X, y[:, None])
    assert len(found) == 1
