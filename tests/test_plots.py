"""Displays: the data against the theory, the drawing smoke-tested, matplotlib left as it was."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from counterpoint import assess
from counterpoint.assessment import Estimate, SubsetVotes
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import calibration_error, combine, reliability
from counterpoint.plots import (
    CorrelationDisplay,
    EffectiveVotesDisplay,
    FrontierDisplay,
    ReliabilityDisplay,
    TradeoffDisplay,
    VoteCurveDisplay,
    house_style,
)
from counterpoint.plots.correlation import scale_start
from counterpoint.plots.style import sequence
from counterpoint.selection import select
from counterpoint.theory import VoteCurve, truth_correlation_bounds, vote_accuracy_curve

TRUTH = np.array([0, 0, 0, 0, 1, 1, 1, 1])
VOTES = np.array([[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1, 1, 1]])


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(autouse=True)
def close_figures():
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def ensemble():
    """Truth and 9 learners, each right on its own 80 % of the samples."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=4000)
    return truth, np.where(rng.uniform(size=(9, 4000)) < 0.8, truth, 1 - truth)


def test_importing_plots_leaves_matplotlib_alone():
    code = "import sys, counterpoint.plots; print('matplotlib' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


@pytest.mark.parametrize(
    "display",
    [
        TradeoffDisplay(5, points={"a": (0.5, 0.4)}, trajectories={"b": ([0.1, 0.5], [0.0, 0.4])}),
        CorrelationDisplay(np.eye(3), ["T", "L1", "L2"]),
        VoteCurveDisplay(VoteCurve([1, 3], [0.6, 0.7]), SubsetVotes(*np.array([[1], [0.6], [0.5], [0.7]]))),
        EffectiveVotesDisplay(6, Estimate(2.2, 1.0, 2.5), best=0.71, vote=0.65, mean_learner=0.63),
        ReliabilityDisplay(reliability([0, 1, 1], [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]])),
    ],
    ids=lambda display: type(display).__name__,
)
def test_plot_draws_on_given_axes_or_a_new_figure_and_changes_no_setting(display, ax):
    before = dict(matplotlib.rcParams)
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    display.plot()
    assert display.ax_ is not ax
    display.figure_.canvas.draw()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    "draw",
    [
        lambda **options: TradeoffDisplay.from_predictions(TRUTH, VOTES, **options),
        lambda **options: CorrelationDisplay.from_predictions(TRUTH, VOTES, **options),
        lambda **options: CorrelationDisplay.from_assessment(assess(TRUTH, VOTES), **options),
        lambda **options: VoteCurveDisplay.from_predictions(TRUTH, VOTES, sizes=[1, 3], **options),
        lambda **options: ReliabilityDisplay.from_predictions(TRUTH, np.eye(2)[VOTES[0]], **options),
        lambda **options: ReliabilityDisplay.from_assessment(
            assess(TRUTH, np.eye(2)[VOTES], voting="soft"), **options
        ),
    ],
)
def test_a_display_made_from_predictions_is_drawn_at_once(draw, ax):
    drawn = draw(ax=ax)
    assert drawn.ax_ is ax
    assert ax.has_data()
    fresh = draw()
    assert fresh.ax_ is not ax
    assert fresh.figure_ is fresh.ax_.figure
    assert fresh.ax_.has_data()


def test_a_display_made_from_an_estimator_is_drawn_at_once(ax):
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    for display in (TradeoffDisplay, CorrelationDisplay, VoteCurveDisplay):
        assert display.from_estimator(forest, X, y).ax_.has_data()
        assert display.from_estimator(forest, X, y, ax=ax).ax_ is ax
    assert not CorrelationDisplay.from_estimator(forest, X, y, values=False).ax_.texts
    assert TradeoffDisplay.from_estimator(forest, X, y, legend=False).ax_.get_legend() is None


def test_house_style_ends_with_its_context():
    before = dict(matplotlib.rcParams)
    with house_style():
        assert matplotlib.rcParams["svg.hashsalt"] == "counterpoint"
    assert dict(matplotlib.rcParams) == before


def test_the_levels_of_a_sequence_get_lighter():
    luminance = np.array(sequence(6))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all()
    assert luminance[-1] < 0.8


@pytest.mark.parametrize("n_learners", [2, 5, 100])
def test_tradeoff_curves_are_theorem_2(n_learners):
    r_ll, low, high = TradeoffDisplay(n_learners).bounds
    np.testing.assert_allclose(high**2, ((n_learners - 1) * r_ll + 1) / n_learners, atol=1e-12)
    np.testing.assert_array_equal(low, -high)
    assert (np.diff(r_ll) > 0).all()


def test_tradeoff_from_predictions_places_independent_learners(ensemble):
    truth, votes = ensemble
    display = TradeoffDisplay.from_predictions(truth, {"all": votes, "again": votes[::-1]})
    assert display.n_learners == 9
    # right 80 % of the time: r_TL = 0.6; independent given the truth: r_LL = r_TL^2
    assert display.points["all"].r_tl == pytest.approx(0.6, abs=0.02)
    assert display.points["all"].r_ll == pytest.approx(0.36, abs=0.02)
    assert display.points["again"].r_tl == pytest.approx(display.points["all"].r_tl)


def test_tradeoff_draws_every_name(ax):
    display = TradeoffDisplay(
        5, points={"one": (0.2, 0.1), "two": (0.5, 0.5)}, trajectories={"path": ([0, 0.4], [0, 0.2])}
    )
    legend = display.plot(ax).ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["path", "one", "two"]
    assert display.plot(Figure().subplots(), legend=False).ax_.get_legend() is None
    assert TradeoffDisplay(5).plot(Figure().subplots()).ax_.get_legend() is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_learners": 1}, ValueError, "`n_learners` must be at least 2; got 1."),
        ({"n_learners": 2.5}, TypeError, "`n_learners` must be an integer"),
        ({"n_learners": [5]}, TypeError, r"`n_learners` must be an integer; got \[5\]"),
        ({"n_learners": 5, "points": ""}, TypeError, "`points` must be a mapping; got str"),
        ({"n_learners": 5, "points": [(0, 0)]}, TypeError, "`points` must be a mapping; got list"),
        ({"n_learners": 5, "trajectories": 0}, TypeError, "`trajectories` must be a mapping; got int"),
        ({"n_learners": 5, "points": {"x": (1.2, 0)}}, ValueError, r"`points\['x'\].r_tl` must be between"),
        ({"n_learners": 5, "points": {"x": (0, -0.3)}}, ValueError, r"r_ll` must be between .*Theorem 1"),
        (
            {"n_learners": 5, "trajectories": {"x": ([0, 2], [0, 0])}},
            ValueError,
            r"`trajectories\['x'\].r_tl`",
        ),
    ],
)
def test_tradeoff_refuses_what_no_ensemble_has(arguments, error, message):
    with pytest.raises(error, match=message):
        TradeoffDisplay(**arguments)


def test_tradeoff_wants_ensembles_of_one_size():
    with pytest.raises(ValueError, match=r"`ensembles` must have the same number of learners; got .*'b': 3"):
        TradeoffDisplay.from_predictions([0, 1], {"a": [[0, 1]] * 2, "b": [[0, 1]] * 3})
    with pytest.raises(ValueError, match="`ensembles` must hold at least one ensemble; got none"):
        TradeoffDisplay.from_predictions([0, 1], {})
    with pytest.raises(ValueError, match=r"`outputs` must have axes .* got shape \(\)"):
        TradeoffDisplay.from_predictions([0, 1], None)
    with pytest.raises(TypeError, match=r"`estimator` must be a fitted ensemble .*; got None"):
        TradeoffDisplay.from_estimator(None, [[0], [1]], [0, 1])


def test_tradeoff_takes_one_ensemble_without_a_name():
    votes = [[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]
    named = TradeoffDisplay.from_predictions([0, 0, 1, 1], {"ensemble": votes})
    assert TradeoffDisplay.from_predictions([0, 0, 1, 1], votes).points == named.points
    from sklearn.ensemble import RandomForestClassifier

    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    named = TradeoffDisplay.from_estimator({"ensemble": forest}, X, y)
    assert TradeoffDisplay.from_estimator(forest, X, y).points == named.points


def test_correlation_matrix_has_the_truth_first_and_alike_learners_together():
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=500)

    def noisy(base, share):
        return np.where(rng.uniform(size=500) < share, 1 - base, base)

    one, other = noisy(truth, 0.3), noisy(truth, 0.3)
    votes = [noisy(one, 0.05), noisy(other, 0.05), noisy(one, 0.05), noisy(other, 0.05)]
    display = CorrelationDisplay.from_predictions(truth, votes, names=["a1", "b1", "a2", "b2"])
    assert display.names[0] == "T"
    assert {name[0] for name in display.names[1:3]} != {name[0] for name in display.names[3:]}
    order = ["a1", "b1", "a2", "b2"]
    rows = np.vstack([truth, *(votes[order.index(name)] for name in display.names[1:])])
    np.testing.assert_allclose(display.matrix, np.corrcoef(rows), atol=1e-12)


@pytest.mark.parametrize("display", [TradeoffDisplay, CorrelationDisplay])
def test_the_warning_of_a_constant_learner_is_about_the_display_and_the_line_that_made_it(display):
    from sklearn.dummy import DummyClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, truth, votes = np.arange(4)[:, None], [0, 1, 0, 1], [[0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]]
    learners = [DecisionTreeClassifier().fit(X, given) for given in votes[:2]]
    learners.append(DummyClassifier(strategy="most_frequent").fit(X, truth))
    words = f"^`{display.__name__}` is undefined for learner 2 in class 0"
    with pytest.warns(UndefinedMeasureWarning, match=words) as measured:
        display.from_predictions(truth, votes)
    with pytest.warns(UndefinedMeasureWarning, match=words) as fitted:
        display.from_estimator(learners, X, truth)
    assert [one.filename for one in (*measured, *fitted)] == [__file__, __file__]


def test_correlation_of_a_constant_learner_is_shown_as_undefined(ax):
    with pytest.warns(UndefinedMeasureWarning):
        display = CorrelationDisplay.from_predictions(
            [0, 1, 0, 1], [[0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]]
        )
    constant = display.names.index("L2")
    assert np.isnan(display.matrix[0, constant])
    assert "–" in {text.get_text() for text in display.plot(ax).ax_.texts}  # noqa: RUF001


def test_correlation_values_are_written_where_there_is_room(ax):
    large = CorrelationDisplay(np.eye(13), ["x"] * 13)
    assert not large.plot(ax).ax_.texts
    assert len(large.plot(Figure().subplots(), values=True).ax_.texts) == 169
    assert not CorrelationDisplay(np.eye(3), "TAB").plot(Figure().subplots(), values=False).ax_.texts


@pytest.mark.parametrize(
    ("matrix", "names", "message"),
    [
        ([[1, 2], [2, 1]], "TL", "`matrix` must be between -1 and 1; got 2"),
        ([[1, 0]], "TL", "`matrix` must be a square matrix"),
        ([[1, 0], [0, 1]], "T", "`names` must have one name for each of the 2 rows"),
    ],
)
def test_correlation_refuses_what_it_cannot_show(matrix, names, message):
    with pytest.raises(ValueError, match=message):
        CorrelationDisplay(matrix, names)


def test_correlation_wants_a_name_for_each_learner():
    with pytest.raises(ValueError, match="one name for each of the 2 learners; got 1"):
        CorrelationDisplay.from_predictions([0, 1], [[0, 1], [1, 0]], names=["a"])


def test_vote_curve_predicts_what_is_measured(ensemble):
    display = VoteCurveDisplay.from_predictions(*ensemble)
    np.testing.assert_array_equal(display.measured.sizes, [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(display.measured.mean, display.predicted.accuracy[:5])
    assert display.predicted.sizes[-1] == 51
    beyond = vote_accuracy_curve(0.8, 0.0, display.predicted.sizes[5:])
    _, accuracy, low, high = display.predicted
    assert (low[5:] <= beyond).all()
    assert (beyond <= high[5:] + 1e-9).all()
    np.testing.assert_allclose(accuracy[5:], beyond, atol=0.01)
    # eighty per cent and no error in common: the binomial of the jury theorem, up to sampling
    np.testing.assert_allclose(
        display.measured.mean, vote_accuracy_curve(0.8, 0.0, display.measured.sizes), atol=0.02
    )


def test_vote_curve_of_all_learners_is_their_vote(ensemble):
    truth, votes = ensemble
    display = VoteCurveDisplay.from_predictions(truth, votes, sizes=[9])
    assert display.measured.mean[-1] == pytest.approx(((votes.sum(axis=0) > 4.5) == truth).mean())
    assert display.predicted.accuracy.shape == (1,)


def test_vote_curve_takes_sizes_in_any_order(ensemble):
    rising, falling = (
        VoteCurveDisplay.from_predictions(*ensemble, sizes=sizes) for sizes in ([3, 9, 21], [21, 9, 3])
    )
    np.testing.assert_allclose(rising.predicted.accuracy, falling.predicted.accuracy[::-1])


def test_vote_curve_of_learners_without_errors_is_measured_but_not_predicted():
    with pytest.warns(UndefinedMeasureWarning):
        display = VoteCurveDisplay.from_predictions([0, 1], [[0, 1]] * 3)
    assert np.isnan(display.predicted.accuracy).all()
    assert (display.measured.mean == 1).all()


def test_vote_curve_shares_a_tie():
    display = VoteCurveDisplay.from_predictions(
        ["a", "b", "c"], [["a", "b", "a"], ["b", "b", "b"], ["c", "a", "c"]], sizes=[1]
    )
    assert display.measured.mean[-1] == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([0, 1], r"`votes` must have the shape \(n_learners, n_samples\)"),
        ([[0, 1, 0], [0, 1, 1]], r"got \(2, 3\) and \(2,\)"),
        ([[0, 1]], "`votes` must hold at least 2 learners, on its first axis; got 1"),
    ],
)
def test_vote_curve_refuses_what_is_no_vote(votes, message):
    with pytest.raises(ValueError, match=message):
        VoteCurveDisplay.from_predictions([0, 1], votes)


def test_displays_are_told_by_true_or_false_what_to_write(ax):
    with pytest.raises(TypeError, match="`legend` must be True or False; got 'no'"):
        TradeoffDisplay(5).plot(ax, legend="no")
    with pytest.raises(TypeError, match="`values` must be True or False; got 'no'"):
        CorrelationDisplay([[1, 0], [0, 1]], ["T", "L1"]).plot(ax, values="no")


def test_the_bounds_drawn_are_those_of_the_theory(ax):
    upper, lower, *_ = TradeoffDisplay(5).plot(ax).ax_.lines
    for line, side in ((upper, "high"), (lower, "low")):
        x, y = line.get_data()
        np.testing.assert_allclose(y, getattr(truth_correlation_bounds(x, 5), side))


def test_displays_take_fitted_ensembles():
    from sklearn.datasets import load_iris
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, VotingClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    from counterpoint import assess_estimator

    X, y = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[y]
    shallow = DecisionTreeClassifier(max_depth=2)
    forests = {
        "forest": RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, y),
        "bagging": BaggingClassifier(shallow, n_estimators=5, random_state=0).fit(X, y),
    }
    display = TradeoffDisplay.from_estimator(forests, X, y)
    for name, forest in forests.items():
        a = assess_estimator(forest, X, y)
        assert [float(v) for v in display.points[name]] == pytest.approx([a.r_tl, a.r_ll])
    voting = VotingClassifier([("tree", shallow), ("bayes", GaussianNB())]).fit(X, y)
    assert sorted(CorrelationDisplay.from_estimator(voting, X, y).names) == ["T", "bayes", "tree"]
    assert CorrelationDisplay.from_estimator(forests["forest"], X, y).names[0] == "T"
    curve = VoteCurveDisplay.from_estimator(forests["forest"], X, y, sizes=[1, 5])
    assert curve.measured.mean[0] == pytest.approx(
        assess_estimator(forests["forest"], X, y).accuracies.mean(), abs=0.02
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"points": {"a": 0.5}}, TypeError, r"`points\['a'\]` must be a pair \(r_tl, r_ll\); got 0.5\."),
        (
            {"points": {"a": (0.5,)}},
            ValueError,
            r"`points\['a'\]` must be a pair \(r_tl, r_ll\); got \(0.5,\)\.",
        ),
        (
            {"trajectories": {"a": ([0.1, 0.2], [0.1, 0.2, 0.3])}},
            ValueError,
            r"`trajectories\['a'\]` must have r_tl and r_ll of one shape; got shapes \(2,\) and \(3,\)\.",
        ),
    ],
)
def test_tradeoff_wants_two_numbers_for_each_place(arguments, error, message):
    with pytest.raises(error, match=message):
        TradeoffDisplay(3, **arguments)


def test_displays_leave_out_classes_that_are_never_true():
    from counterpoint import assess

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 500)
    votes = np.where(rng.random((10, 500)) < 0.95, truth, 2)
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 2"):
        point = TradeoffDisplay.from_predictions(truth, votes).points["ensemble"]
    assert point.r_tl < truth_correlation_bounds(point.r_ll, 10).high
    with pytest.warns(UndefinedMeasureWarning):
        shown = CorrelationDisplay.from_predictions(truth, votes).matrix
    with pytest.warns(UndefinedMeasureWarning):
        np.testing.assert_allclose(shown, CorrelationDisplay.from_assessment(assess(truth, votes)).matrix)


@pytest.mark.parametrize("display", [TradeoffDisplay, CorrelationDisplay])
def test_displays_know_the_classes_of_a_fitted_ensemble(display):
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    from counterpoint import assess_estimator

    X, codes = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[codes]
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, y)
    some = y != "a"
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 'a'"):
        shown = display.from_estimator(forest, X[some], y[some])
    with pytest.warns(UndefinedMeasureWarning, match="class 'a'"):
        a = assess_estimator(forest, X[some], y[some])
    if display is TradeoffDisplay:
        assert [float(v) for v in shown.points["ensemble"]] == pytest.approx([a.r_tl, a.r_ll])
    else:
        assert sorted(shown.matrix[0, 1:]) == pytest.approx(sorted(a.correlations.r_tl_learners))
    with pytest.raises(ValueError, match="`labels` must hold every label of `y_true`; got 'd'"):
        display.from_estimator(forest, X, np.array(["b", "c", "d"])[codes])


def test_displays_take_the_classes_of_columns():
    proba = np.eye(3)[[[0, 2, 0, 2], [0, 2, 2, 2]]]
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 1"):
        assert TradeoffDisplay.from_predictions([0, 2, 0, 2], proba, labels=[0, 1, 2]).n_learners == 2
    with pytest.warns(UndefinedMeasureWarning, match="the truth in class 1"):
        assert len(CorrelationDisplay.from_predictions([0, 2, 0, 2], proba, labels=[0, 1, 2]).names) == 3


@pytest.fixture(scope="module")
def probabilities():
    """Truth and the probabilities of 5 learners over 3 classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    scores = np.exp(rng.normal(size=(5, 400, 3)) + 1.5 * np.eye(3)[truth])
    return truth, scores / scores.sum(axis=2, keepdims=True)


def test_reliability_shows_the_bins_of_the_measure(probabilities, ax):
    truth, proba = probabilities
    display = ReliabilityDisplay.from_predictions(truth, proba[0], n_bins=10, name="first")
    bins = reliability(truth, proba[0], n_bins=10)
    assert display.calibration_error == pytest.approx(calibration_error(truth, proba[0], n_bins=10))
    points = display.plot(ax).ax_.collections[-1].get_offsets()
    full = bins.count > 0
    np.testing.assert_allclose(points, np.stack([bins.confidence, bins.accuracy], axis=1)[full])
    shares = display.figure_.axes[-1]
    assert shares.get_position().y0 >= 0  # within the figure
    assert sum(bar.get_height() for bar in shares.patches) == pytest.approx(1)
    assert len(shares.patches) == 10
    assert display.ax_.get_title(loc="left") == "first"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["perfectly calibrated", f"calibration error {display.calibration_error:.3f}"]


@pytest.mark.parametrize("voting", ["soft", "geometric"])
def test_reliability_of_an_assessment_is_that_of_its_vote(voting, probabilities, ax):
    from counterpoint import assess

    truth, proba = probabilities
    display = ReliabilityDisplay.from_assessment(assess(truth, proba, voting=voting, name="five"))
    other = ReliabilityDisplay.from_predictions(truth, combine(proba, voting=voting))
    np.testing.assert_allclose(display.reliability.accuracy, other.reliability.accuracy)
    assert display.calibration_error == pytest.approx(other.calibration_error)
    assert display.plot(ax).ax_.get_title(loc="left") == "five"


def test_reliability_needs_probabilities(probabilities):
    from counterpoint import assess

    truth, proba = probabilities
    for outputs, words in ((proba, "probabilities"), (proba.argmax(axis=2), "labels")):
        a = assess(truth, outputs)
        expected = f"^`assessment` must be of a soft or a geometric vote .*; got a hard vote of {words}"
        with pytest.raises(ValueError, match=expected):
            ReliabilityDisplay.from_assessment(a)
        with pytest.raises(ValueError, match=r"^`reliability` must hold at least one sample; got none\.$"):
            ReliabilityDisplay(a.probabilities.reliability)
    with pytest.raises(TypeError, match=r"^`reliability` must be a Reliability; got list\.$"):
        ReliabilityDisplay([0.5])
    with pytest.raises(ValueError, match="`proba` must have axes"):
        ReliabilityDisplay.from_predictions(truth, proba)


def test_the_frontier_shows_the_panels_and_marks_the_chosen_one(ensemble, ax):
    truth, votes = ensemble
    chosen = select(truth[:400], votes[:, :400], costs=np.arange(1.0, 10.0))
    display = FrontierDisplay.from_selection(chosen, ax=ax)
    assert [panel.cost for panel in display.panels] == sorted(panel.cost for panel in chosen.panels)
    x, y = display.ax_.lines[1].get_data()  # after the markers of the error bars
    np.testing.assert_allclose(x, [panel.cost for panel in chosen.frontier])
    np.testing.assert_allclose(y, [100 * panel.accuracy.value for panel in chosen.frontier])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    count = len(chosen.indices)
    assert f"chosen: {count} learner{'' if count == 1 else 's'}" in labels
    same = FrontierDisplay.from_predictions(truth[:400], votes[:, :400], ax=Figure().subplots())
    assert same.ax_.get_xlabel() == "Number of learners"


def test_a_frontier_needs_panels_that_were_judged():
    with pytest.raises(ValueError, match=r"^`selection` must have panels that were judged"):
        FrontierDisplay(select(TRUTH, VOTES))
    with pytest.raises(TypeError, match=r"^`selection` must be a Selection; got list\.$"):
        FrontierDisplay([])


def test_colours_of_a_matrix_start_where_its_entries_do(ax):
    assert scale_start(np.array([[1, 0.83], [0.83, 1]])) == 0.8
    assert scale_start(np.array([[1, 0.1], [0.1, np.nan]])) == 0.1
    assert scale_start(np.array([[1, -0.1], [-0.1, 1]])) == -1
    assert scale_start(np.ones((2, 2))) == 0.9
    (image,) = CorrelationDisplay([[1, 0.83], [0.83, 1]], ["T", "L1"]).plot(ax).ax_.images
    assert image.get_clim() == (0.8, 1)


@pytest.fixture(scope="module")
def panel():
    """Six learners that are right on 70 % and share the difficulty of the samples."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 800)
    skill = np.sqrt(0.55) * rng.normal(size=800) + np.sqrt(0.45) * rng.normal(size=(6, 800))
    return assess(truth, np.where(skill < 0.524, truth, 1 - truth))


def test_circles_are_filled_up_to_the_effective_votes(panel, ax):
    from matplotlib.patches import Circle, Rectangle

    display = EffectiveVotesDisplay.from_assessment(panel, noun="judges", ax=ax)
    votes = panel.effective.votes
    patches = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(isinstance(patch, Circle) for patch in ax.patches) == 6
    assert sum(patch.get_width() for patch in patches) / 0.84 == pytest.approx(votes.value)
    assert ax.get_title(loc="left").startswith(f"6 judges are worth {votes.value:.1f} of their best (95 %: ")
    bars = [patch.get_width() for patch in ax.figure.axes[-1].patches]
    assert bars == pytest.approx(
        [100 * panel.accuracies.max(), 100 * panel.vote.value, 100 * panel.accuracies.mean()]
    )
    assert display.figure_ is ax.figure


@pytest.mark.parametrize(("votes", "filled", "circles"), [(0.7, 0.7, 4), (-0.3, 0, 4), (5.2, 5.2, 6)])
def test_a_panel_may_be_worth_less_than_one_learner_or_more_than_all(votes, filled, circles, ax):
    from matplotlib.patches import Circle, Rectangle

    shown = EffectiveVotesDisplay(4, Estimate(votes, votes, votes), best=0.9, vote=0.7, mean_learner=0.6)
    shown.plot(ax, noun="judges")
    widths = [patch.get_width() for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(widths) / 0.84 == pytest.approx(filled)
    assert sum(isinstance(patch, Circle) for patch in ax.patches) == circles
    assert ax.get_title(loc="left").startswith(
        f"4 judges are worth {votes:.{1 if votes > 0.5 else 2}f} of their best"
    )


def test_effective_votes_that_are_unknown_are_not_drawn():
    with pytest.warns(UndefinedMeasureWarning):
        perfect = assess([0, 1], [[0, 1], [0, 1]])
    words = r"^`assessment` must have a number of effective votes; it is undefined: L1 is never wrong\.$"
    with pytest.raises(ValueError, match=words):
        EffectiveVotesDisplay.from_assessment(perfect)
    with pytest.raises(ValueError, match=r"`votes` must be a number of votes; got nan\."):
        EffectiveVotesDisplay(3, Estimate(np.nan, np.nan, np.nan), best=0.5, vote=0.5, mean_learner=0.5)
    with pytest.raises(ValueError, match="`vote` must be between 0 and 1; got 2"):
        EffectiveVotesDisplay(3, Estimate(1, 1, 1), best=0.5, vote=2, mean_learner=0.5)


def test_vote_curve_of_an_assessment_is_that_of_its_predictions(ensemble):
    truth, votes = ensemble
    from_votes = VoteCurveDisplay.from_predictions(truth, votes)
    found = VoteCurveDisplay.from_assessment(assess(truth, votes))
    np.testing.assert_array_equal(found.measured.mean, from_votes.measured.mean)
    shared = np.isin(from_votes.predicted.sizes, found.predicted.sizes)
    np.testing.assert_allclose(
        from_votes.predicted.accuracy[shared],
        found.predicted.accuracy[np.isin(found.predicted.sizes, from_votes.predicted.sizes)],
        atol=1e-9,
    )


def test_vote_curve_counts_a_plurality_of_many_classes():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 10, 3000)
    votes = np.where(rng.random((7, 3000)) < 0.5, truth, rng.integers(0, 10, (7, 3000)))
    display = VoteCurveDisplay.from_predictions(truth, votes, sizes=[1, 3, 5, 7])
    np.testing.assert_allclose(display.measured.mean, display.predicted.accuracy, atol=0.02)
