"""Ranks and their tests, held against the numbers that Demšar (2006) prints, scipy and scikit-posthocs."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from sklearn import metrics

from counterpoint.arena.diagram import RankDisplay, ScoreDisplay
from counterpoint.arena.ranks import correct_together, rank_methods
from counterpoint.arena.scores import fold_scores
from counterpoint.arena.statistics import (
    cliques,
    critical_difference,
    friedman,
    holm,
    mean_interval,
    mean_ranks,
    nemenyi_p_values,
    rank_intervals,
    signed_rank_p_value,
)
from counterpoint.estimators import corrected_paired_test
from counterpoint.measures import calibration_error

# Errors of four methods on 14 data sets, with ties.
ERRORS = np.random.default_rng(0).integers(5, size=(14, 4)) / 20
# Demšar's example: the mean ranks of four versions of C4.5 on 14 data sets.
RANKS = [3.143, 2.000, 2.893, 1.964]
# His Table 5a: critical values of Nemenyi's test at 0.05 for 2 to 10 classifiers.
CRITICAL = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


def test_equals_share_their_ranks_and_rounding_makes_no_difference():
    assert mean_ranks([[0.1 + 0.2, 0.3, 0.1], [0.5, 0.5, 0.5]]).tolist() == [2.25, 2.25, 1.5]
    assert mean_ranks(ERRORS).sum() == pytest.approx(1 + 2 + 3 + 4)


@pytest.mark.parametrize(("n_methods", "critical"), list(enumerate(CRITICAL, start=2)))
def test_the_critical_difference_is_that_of_demsar(n_methods, critical):
    unit = np.sqrt(n_methods * (n_methods + 1) / (6 * 14))
    assert critical_difference(n_methods, 14) == pytest.approx(critical * unit, abs=1e-3)


def test_friedman_is_scipys_and_knows_methods_that_are_alike():
    assert friedman(ERRORS)[:] == pytest.approx(tuple(stats.friedmanchisquare(*ERRORS.T)))
    assert friedman(np.ones((4, 3))) == (0.0, 1.0)


def test_nemenyi_agrees_with_the_critical_difference():
    k, n = 5, 12
    difference = critical_difference(k, n, level=0.05)
    p = nemenyi_p_values([0, difference, 2, 3, 4], n)
    assert p[0, 1] == pytest.approx(0.05, abs=1e-6)
    np.testing.assert_allclose(p, p.T)
    np.testing.assert_allclose(np.diag(p), 1.0)


def test_nemenyi_is_that_of_scikit_posthocs():
    posthocs = pytest.importorskip("scikit_posthocs")
    expected = posthocs.posthoc_nemenyi_friedman(ERRORS).to_numpy()
    np.testing.assert_allclose(nemenyi_p_values(mean_ranks(ERRORS), len(ERRORS)), expected, atol=1e-6)


def test_holm_multiplies_the_smallest_by_the_number_of_tests_and_never_falls():
    p = np.array([0.2, 0.001, 0.04, 0.03])
    # by hand: 4 x 0.001, 3 x 0.03, the larger of that and 2 x 0.04, 1 x 0.2
    np.testing.assert_allclose(holm(p), [0.2, 0.004, 0.09, 0.09])
    assert holm([0.9, 0.8])[0] == 1.0


def test_a_clique_is_never_inside_another():
    assert cliques([1, 1.2, 1.4, 5, 5.5], 1.0) == [(0, 2), (3, 4)]
    assert cliques([1, 3, 5], 1.0) == []


def test_the_diagram_orders_methods_and_draws_each():
    display = RankDisplay(dict(zip("abcd", RANKS, strict=True)), critical_difference(4, 14), marked="b")
    assert display.names == ["d", "b", "c", "a"]
    assert display.bars == [(0, 3)]  # Demšar: Nemenyi's test is not powerful enough here
    ax = display.plot(Figure().subplots()).ax_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == display.names


@pytest.mark.parametrize(("p_value", "bars"), [(0.049, [(0, 1), (1, 2)]), (0.05, [(0, 2)])])
def test_without_a_difference_by_friedman_one_bar_spans_all_methods(p_value, bars):
    ranks = {"mean_rank": {"a": 1.0, "b": 1.9, "c": 2.6}, "critical_difference": 1.0}
    summary = {"ranks": {**ranks, "friedman": {"p_value": p_value}}}
    ax = Figure().subplots()
    display = RankDisplay.from_summary(summary, marked="b", ax=ax)
    assert display.bars == bars
    assert display.ax_ is ax  # drawn when made
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c"]
    again = Figure().subplots()
    assert display.plot(again).figure_ is again.figure


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_ranks([0.1, 0.2]), r"`errors` must have axes \(n_sets, n_methods\)"),
        (lambda: friedman([[0.1, 0.2]]), "`errors` must be those of at least 3 methods; got 2."),
        (lambda: critical_difference(1, 5), "`n_methods` must be at least 2; got 1."),
        (lambda: critical_difference(3, 5, 1.0), "`level` must be strictly between 0 and 1; got 1."),
        (lambda: holm([1.2]), "`p_values` must be between 0 and 1; got 1.2"),
    ],
)
def test_a_bad_argument_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_optimality_is_at_most_one_where_a_class_is_absent_from_the_rows():
    rng = np.random.default_rng(0)
    y = np.array([0, 1, 0, 1, 0, 1, 1, 0])  # of four classes
    learners = np.eye(4)[y][None] * 3 + rng.normal(size=(5, 8, 4))
    proba = np.exp(learners) / np.exp(learners).sum(axis=2, keepdims=True)
    found = fold_scores(y, proba.mean(axis=0), proba)
    pairs = [
        np.corrcoef(proba[i, :, k], proba[j, :, k])[0, 1] for k in (0, 1) for i in range(5) for j in range(i)
    ]
    assert found["r_ll"] == pytest.approx(np.mean(pairs), abs=1e-5)
    assert 0 < found["optimality"] <= 1


def test_scores_of_the_vote_are_those_of_scikit_learn_also_where_a_class_is_absent():
    rng = np.random.default_rng(0)
    y = np.array([0, 1, 0, 1, 0, 1, 1, 0])  # of four classes
    proba = rng.dirichlet(np.ones(4), size=8)
    found = fold_scores(y, proba)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, proba, labels=range(4)), abs=1e-6)
    brier = np.mean(np.sum((proba - np.eye(4)[y]) ** 2, axis=1))
    assert found["brier_score"] == pytest.approx(brier, abs=1e-6)
    assert found["calibration_error"] == pytest.approx(calibration_error(y, proba, labels=range(4)), abs=1e-6)
    assert found["n_learners"] is None


def test_scores_are_those_of_the_vote_and_not_of_the_learners():
    y, learners = np.array([0, 1]), np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.7, 0.3]]])
    vote = np.array([[0.99, 0.01], [0.02, 0.98]])
    assert fold_scores(y, vote, learners)["log_loss"] == pytest.approx(-np.log([0.99, 0.98]).mean(), abs=1e-6)
    assert fold_scores(y, vote, learners)["learner_accuracy"] == 0.75


def test_the_interval_of_a_mean_is_that_of_the_t_test():
    values = ERRORS[:, 0] - ERRORS[:, 1]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_interval(values) == pytest.approx((expected.low, expected.high))
    # for folds that share training rows it excludes zero exactly if the corrected test is significant
    for shift in np.linspace(-0.2, 0.2, 9):
        low, high = mean_interval(values + shift, share=1 / 9)
        assert (low > 0 or high < 0) == (corrected_paired_test(values + shift, 1 / 9).p_value < 0.05)
    assert mean_interval([0.25, 0.25, 0.25]) == (0.25, 0.25)
    with pytest.raises(ValueError, match=r"`values` must hold at least two numbers; got shape \(1,\)\."):
        mean_interval([0.1])


def test_intervals_of_ranks_hold_the_mean_ranks_and_narrow_with_more_data_sets():
    low, high = rank_intervals(ERRORS)
    ranks = mean_ranks(ERRORS)
    assert ((low < ranks) & (ranks < high)).all()
    narrow = np.diff(rank_intervals(np.tile(ERRORS, (9, 1))), axis=0)
    assert (narrow < 0.45 * (high - low)).all()  # a third of the width
    # the standard error of the mean rank, times 1.96
    each = stats.rankdata(ERRORS.round(12), axis=1).std(axis=0) / np.sqrt(14)
    np.testing.assert_allclose(high - low, 2 * 1.96 * each, rtol=0.15)


def test_signed_ranks_are_those_of_demsar():
    # his Table 2: AUC of C4.5 and C4.5+m on 14 data sets; T = 12 is below the critical value at 0.05
    one = [.763, .599, .954, .628, .882, .936, .661, .583, .775, 1.000, .940, .619, .972, .957]  # fmt: skip
    other = [.768, .591, .971, .661, .888, .931, .668, .583, .838, 1.000, .962, .666, .981, .978]  # fmt: skip
    assert signed_rank_p_value(np.subtract(one, other)) < 0.05
    assert signed_rank_p_value([0.1, -0.1, 0.2, -0.2]) > 0.9
    assert signed_rank_p_value([0.0, 1e-15, 0.0]) == 1


def means(values):
    methods = ("independent", "ncl", "joint")
    return {
        f"t{k}": {m: {"mean": float(value)} for m, value in zip(methods, row, strict=True)}
        for k, row in enumerate(values)
    }


def test_differences_over_the_tables_are_corrected_over_methods_and_scores():
    errors, losses = rank_methods(means(ERRORS[:, :3])), rank_methods(means(ERRORS[:, 1:]))
    assert errors["against"].keys() == {"ncl", "joint"}
    difference = ERRORS[:, 1] - ERRORS[:, 0]
    found = errors["against"]["ncl"]
    assert found["difference"] == pytest.approx(difference.mean())
    assert (found["low"], found["high"]) == pytest.approx(mean_interval(difference))
    correct_together(errors["against"], losses["against"])
    tests = [*errors["against"].values(), *losses["against"].values()]
    np.testing.assert_allclose(
        [test["p_corrected"] for test in tests], holm([test["p_value"] for test in tests])
    )


def test_without_independent_networks_ranks_have_no_differences():
    found = rank_methods({name: {m: {"mean": 0.1} for m in ("bagged", "ncl", "joint")} for name in "ab"})
    assert found["against"] == {}
    assert rank_methods({"a": found["mean"]}) is None


def test_scores_on_one_table_are_drawn_with_their_intervals():
    spread = {"mean": 0.2, "low": 0.1, "high": 0.3}
    errors = {"ncl": spread, "joint": {"mean": 0.1, "low": -0.1, "high": 0.3}}
    figure = Figure()
    display = ScoreDisplay({"errors": {"mine": errors}, "log_losses": {"mine": {"ncl": spread}}}).plot(figure)
    assert display.names == ["joint", "ncl"]
    np.testing.assert_allclose(display.panels["Error in %"], [[10, 20], [-10, 10], [30, 30]])
    np.testing.assert_allclose(display.panels["Log-loss"], [[np.nan, 0.2], [np.nan, 0.1], [np.nan, 0.3]])
    assert [ax.get_xlabel() for ax in figure.axes] == [
        "Error in %, with its 95 % interval",
        "Log-loss, with its 95 % interval",
    ]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["joint", "ncl"]
