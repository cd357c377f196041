"""The figures of the theory: their numbers against the theorems, their files against each other."""

import json
import math
import sys
from types import ModuleType

import numpy as np
import pytest

from counterpoint.records import plain
from counterpoint.theory import (
    correlation_from_accuracy,
    error_correlation_bounds,
    jury_accuracy,
    optimality,
    truth_correlation_bounds,
)
from paper import (
    TARGETS,
    Target,
    figure_1,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    reproduce,
)
from paper.simulate import draw_correct, latent_correlation

FIGURES = [name for name in TARGETS if name in {f"figure-{i}" for i in range(1, 6)}]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Every figure, written twice."""
    folders = [tmp_path_factory.mktemp("figures") for _ in range(2)]
    return [{name: reproduce(name, folder) for name in FIGURES} for folder in folders]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_written_the_same_each_time(name, written):
    first, second = (paths[name] for paths in written)
    assert [path.name for path in first] == [f"{name}.{end}" for end in ("png", "svg", "json")]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert b"<dc:date>" not in first[1].read_bytes()


@pytest.mark.parametrize("name", FIGURES)
def test_a_record_says_what_made_it(name, written):
    record = json.loads(written[0][name][2].read_text())
    assert record["name"] == name
    assert set(record) == {"name", "title", "config", "versions", "data"}
    assert {"counterpoint", "numpy", "python"} <= set(record["versions"])
    assert record["config"]
    assert record["data"]


def test_figure_1_has_each_pair_once():
    roles = figure_1.compute().roles
    assert (roles == "truth-learner").sum() == 3
    assert (roles == "learner-learner").sum() == 3
    assert (roles == "mirror").sum() == 6
    assert (roles.diagonal() == "diagonal").all()


def test_figure_2_shows_an_impossible_and_a_possible_matrix():
    left, right = (figure_2.compute(**case) for case in figure_2.CASES.values())
    assert not left.possible
    np.testing.assert_allclose(left.eigenvalues, [-2, 2, 2, 2], atol=1e-12)
    assert right.possible
    # 1 - r_ll twice; the others are those of [[1, r_tl sqrt 3], [r_tl sqrt 3, 1 + 2 r_ll]]
    root = math.sqrt(0.4**2 + 4 * 3 * 0.3**2) / 2
    np.testing.assert_allclose(right.eigenvalues, [0.8 - root, 1.2, 1.2, 0.8 + root], atol=1e-12)


@pytest.mark.parametrize("n_learners", [2, 5, 51])
def test_figure_3_curves_run_from_the_apex_to_perfection_with_both_points_inside(n_learners):
    display = figure_3.compute(n_learners)
    assert display.bounds.r_ll[0] == pytest.approx(-1 / (n_learners - 1))
    assert display.bounds.high[0] == pytest.approx(0, abs=1e-7)
    assert (display.bounds.r_ll[-1], display.bounds.high[-1], display.bounds.low[-1]) == (1, 1, -1)
    a, b = display.points["A"], display.points["B"]
    assert a.r_tl > b.r_tl
    assert a.r_ll > b.r_ll
    for point in (a, b):
        assert optimality(*point, n_learners) == pytest.approx(figure_3.SHARE_OF_BOUND)
    figure_3.draw(display)


def test_figure_4_obeys_theorem_3():
    pairs = figure_4.compute(seed=3)
    assert len(pairs.p) == figure_4.N_PAIRS
    assert np.ptp(pairs.r_tl) > 1.9  # the whole range of correlations is there
    assert (np.abs(pairs.r_tl) <= 1 + 1e-12).all()
    right = pairs.p > 0  # otherwise no answer is correct and beta has no meaning
    np.testing.assert_array_equal(np.isnan(pairs.beta), ~right)
    expected = correlation_from_accuracy(pairs.p[right], alpha=pairs.alpha[right], beta=pairs.beta[right])
    np.testing.assert_allclose(pairs.r_tl[right], expected, atol=1e-12)


def test_figure_4_depends_on_its_seed_alone():
    np.testing.assert_array_equal(figure_4.compute(1).p, figure_4.compute(1).p)
    assert (figure_4.compute(1).p != figure_4.compute(2).p).any()


def test_figure_5_has_the_levels_of_the_paper():
    np.testing.assert_allclose(figure_5.levels(5), [-0.25, 0, 0.25, 0.5, 0.75, 1])


def test_figure_5_prints_the_formula_and_its_correction():
    curves = figure_5.compute(5)
    half = int(np.searchsorted(curves.r_tl, 0.5))
    quarter = 2  # r_ll = 0.25: independent learners with p = 0.75
    assert curves.printed[quarter, half] == pytest.approx(0.7646, abs=5e-5)
    assert curves.corrected[quarter, half] == pytest.approx(0.8965, abs=5e-5)
    assert np.nanmax(curves.printed) > 1  # as printed it is no probability
    assert np.nanmax(curves.corrected) <= 1
    np.testing.assert_allclose(curves.corrected[-1], (1 + curves.r_tl) / 2)  # all alike: a vote is one


@pytest.mark.parametrize("n_learners", [3, 5, 15])
def test_figure_5_is_drawn_only_where_theorem_2_allows(n_learners):
    curves = figure_5.compute(n_learners)
    drawn = ~np.isnan(curves.corrected)
    outside = curves.r_tl > truth_correlation_bounds(curves.r_ll, n_learners).high[:, None] + 1e-6
    assert not (drawn & outside).any()
    assert not drawn[0].any()  # an odd number of balanced votes never cancels
    assert drawn[1:, 0].all()


@pytest.mark.parametrize("n_learners", [3, 5, 15])
def test_figure_5_simulation_has_the_correlations_asked_for_and_agrees_with_the_correction(n_learners):
    simulation = figure_5.simulate(n_learners, seed=1)
    r_ll, r_tl = np.meshgrid(figure_5.levels(n_learners), np.linspace(0, 1, 11), indexing="ij")
    done = ~np.isnan(simulation.accuracy)
    assert done.sum() >= 30
    np.testing.assert_allclose(simulation.r_tl[done], r_tl[done], atol=0.012)
    np.testing.assert_allclose(simulation.r_ll[done], r_ll[done], atol=0.012)
    curves = figure_5.compute(n_learners)
    expected = curves.corrected[:, :: (len(curves.r_tl) - 1) // 10][done]
    # The models agree where c >= 0; where it is negative two numbers do not settle the vote.
    unsettled = np.where(r_ll < r_tl**2, 0.02, 0.0)[done]
    assert (np.abs(simulation.accuracy[done] - expected) <= 0.008 + unsettled).all()


@pytest.mark.parametrize(("p", "c", "n"), [(0.6, 0.3, 5), (0.9, 0.05, 15), (0.7, -0.1, 5), (0.5, 1.0, 3)])
def test_drawn_votes_have_the_accuracy_and_the_error_correlation_asked_for(p, c, n):
    rng = np.random.default_rng(0)
    correct = draw_correct(p, latent_correlation(p, c, n), n, 200_000, rng)
    assert correct.mean() == pytest.approx(p, abs=0.005)
    pairs = np.corrcoef(correct)[np.triu_indices(n, 1)]
    assert pairs.mean() == pytest.approx(c, abs=0.01)
    vote = (correct.sum(axis=0) > n / 2).mean()
    assert vote == pytest.approx(float(jury_accuracy(p, c, n)), abs=0.006)


def test_no_gaussians_oppose_each_other_as_much_as_votes_can():
    lowest = float(error_correlation_bounds(0.6, 5).low)
    assert math.isnan(latent_correlation(0.6, lowest, 5))
    # At p = 1/2 the correlation of signs is 2 arcsin(rho) / pi.
    assert latent_correlation(0.5, 1 / 3, 5) == pytest.approx(0.5)


def test_a_record_is_plain_json():
    given = {
        "a": np.array([1.0, np.nan]),
        "b": (np.int64(2), np.inf),
        3: figure_1.Schematic(["T"], np.array("x")),
    }
    assert plain(given) == {"a": [1.0, None], "b": [2, None], "3": {"names": ["T"], "roles": "x"}}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("figure-33", {}, "`NAME` must be one of figure-1, .*; got 'figure-33'. Did you mean figure-3?"),
        ("figure-1", {"seed": 0}, "`--seed` has no meaning for figure-1"),
        ("figure-2", {"n_learners": 5}, "`--n-learners` has no meaning for figure-2"),
        ("figure-5", {"n_learners": 4}, r"^`n_learners` must be odd; got 4\.$"),
    ],
)
def test_reproduce_refuses_what_has_no_meaning(name, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        reproduce(name, tmp_path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "extra"),
    [("safetensors", "train"), ("torch.nn", "train"), ("torchvision", "vision")],
)
@pytest.mark.parametrize("lazily", [False, True])
def test_a_missing_package_is_one_sentence_with_the_pip_line(package, extra, lazily, monkeypatch, tmp_path):
    name = package.partition(".")[0]
    module = ModuleType("paper.absent")
    code = f"import {package}" if not lazily else f"def reproduce(out):\n    import {package}"
    for known in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setattr("paper.import_module", lambda _: exec(code, vars(module)) or module)
    monkeypatch.setitem(TARGETS, "absent", Target("absent", "reproduce", ""))
    message = rf'^`{name}` is needed here; install it with: pip install "counterpoint\[{extra}\]"\.$'
    with pytest.raises(ImportError, match=message):
        reproduce("absent", tmp_path)


def test_another_missing_module_speaks_for_itself(monkeypatch, tmp_path):
    monkeypatch.setitem(TARGETS, "absent", Target("no_such_module", "reproduce", ""))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        reproduce("absent", tmp_path)
