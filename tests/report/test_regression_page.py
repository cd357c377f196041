"""The page, the Markdown and the card of regression ensembles."""

import json
import re
import warnings

import numpy as np
import pytest

from counterpoint.assessment import RegressionAssessment, assess, assess_regression, compare_votes
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.report import EnsembleReport
from counterpoint.report._limits import share_room
from counterpoint.report._regression import _learners, _sizes, _sizing_figure
from counterpoint.report._regression_lead import error_figure, regression_lead
from counterpoint.report._words import amount
from tests.report.parsing import Page

N = 300
LIMITS = share_room(1.0, 1)


def made(outputs, truth, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        return assess_regression(truth, outputs, **options)


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(0).normal(50, 10, N)


@pytest.fixture(scope="module")
def seven(truth):
    """Learners that share errors of variance 9; one has a name that is markup."""
    rng = np.random.default_rng(1)
    own = np.array([3, 4, 4, 5, 6, 8, 4])[:, None] * rng.normal(size=(7, N))
    names = ["forest", "<script>alert(1)</script>", "a | b", "k & n", "nearest", "tree", "net"]
    return made(truth + 3 * rng.normal(size=N) + own, truth, learners=names, name="Seven </script>")


@pytest.fixture(scope="module")
def kinds(truth, seven):
    """Every kind of ensemble that a page must show."""
    rng = np.random.default_rng(2)
    errors = rng.normal(size=(6, N))
    many = 1000 * (truth + rng.uniform(2, 6, 300)[:, None] * rng.normal(size=(300, N)))
    return {
        "seven": seven,
        "many": made(many, 1000 * truth, name="many"),
        "opposed": made(truth + 4 * (errors - 0.9 * errors.mean(axis=0)), truth, name="opposed"),
        "one": made(truth[None] + rng.normal(size=(1, N)), truth, name="one"),
        "perfect": made(np.stack([truth] * 3), truth, name="perfect"),
        "constant truth": made(rng.normal(size=(3, N)), np.full(N, 3.0), name="constant truth"),
        "constant learner": made([truth + 1, np.full(N, 5.0), truth - 2], truth, name="constant learner"),
        "guessers": made(rng.normal(50, 10, (4, N)), truth, name="guessers"),
        "tiny": made(1e-9 * (truth + errors), 1e-9 * truth, name="tiny"),
        "huge": made(1e9 * (truth + errors), 1e9 * truth, name="huge"),
        "trained on": made(truth + errors, truth, samples="training", name="trained on"),
        "few samples": made(truth[:3] + errors[:, :3], truth[:3], name="few samples"),
    }


def said(assessment):
    return " ".join("".join(text for text, _ in one) for one in regression_lead(assessment)).replace(
        "\xa0", " "
    )


def test_every_kind_of_ensemble_makes_a_well_formed_page(kinds):
    for name, assessment in kinds.items():
        html = EnsembleReport(assessment).html()
        page = Page(html)
        text = page.all("main")[0]["text"]
        assert [e["text"] for e in page.all("h1")] == [assessment.name]
        assert f"{assessment.n_samples} samples" in text, name
        assert not {"nan", "inf", "None"} & set(re.findall(r"\w+", text)), name
        assert all(e.get("scope") in ("row", "col") for e in page.all("th"))
        ids = [e["id"] for e in page.elements if "id" in e]
        assert len(ids) == len(set(ids))
        assert {e["aria-labelledby"] for e in page.elements if "aria-labelledby" in e} <= set(ids)
        assert "nan" not in re.findall(r"[a-z]+", " ".join(e.get("d", "") for e in page.all("path")))
        assert len(html.encode()) < 500_000
        assert EnsembleReport(assessment).markdown().startswith("# ")
        assert "## Limits" in EnsembleReport(assessment).model_card()


def test_sections_stand_in_reading_order(seven):
    assert [e["text"] for e in Page(EnsembleReport(seven).html()).all("h2")] == [
        "In short",
        "Advice",
        "Learners",
        "More or fewer learners",
        "Where the error comes from",
        "Correlations",
        "Provenance",
    ]


def test_the_page_asks_for_nothing_and_escapes_names(seven):
    html = EnsembleReport([seven, seven]).html()
    assert "default-src 'none'" in html
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", html)
    assert "<script>alert" not in html
    assert "what-if-data" not in re.sub(r"<script>.*</script>", "", html, flags=re.DOTALL)
    assert "<script>alert(1)</script>" in Page(html).all("main")[0]["text"]
    assert "a \\| b" in EnsembleReport(seven).markdown()


def test_the_first_lines_have_the_numbers_of_the_assessment(seven):
    text = said(seven)
    assert text.startswith("7 learners predicted 300 samples, and their mean is off by ")
    assert f"is off by {np.sqrt(seven.squared_error.value):.3g} on a typical sample" in text
    assert f"It explains {100 * seven.r2.value:.1f} % of the variance of the truth" in text
    assert f"a squared error of {amount(seven.errors.average_error)} on average" in text
    assert (
        f"The mean is not surely better than the best of them, forest ({amount(seven.learner_errors[0])})"
        in text
    )
    removed = 100 * seven.errors.ambiguity / seven.errors.average_error
    assert f"averages out: {removed:.0f} % of its squared error is gone" in text
    assert f"however many they are: {amount(seven.ceiling)}, the noise of the truth included." in text
    twice = 100 * (1 - float(seven.predicted_error(14)) / seven.squared_error.value)
    assert f"would lower the squared error by {twice:.1f} %, any number" in text


def test_the_mean_is_said_to_be_better_or_worse_only_beyond_the_noise(truth):
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(5, N))
    assert "The mean is better than the best of them" in said(made(truth + errors, truth))
    errors[0] *= 0.01
    assert "The mean is worse than the best of them, L1 (" in said(made(truth + errors, truth))
    assert "The mean is no better than the best of them" in said(made([truth + 1] * 2, truth))


def test_a_learner_that_hurts_is_named_in_the_first_lines(truth):
    rng = np.random.default_rng(3)
    outputs = truth + rng.normal(size=(4, N))
    outputs[2] += 30 * rng.normal(size=N)
    assert "Leaving out L3 would lower it by 9" in said(made(outputs, truth))
    assert "Leaving out one of them brings no sure gain." in said(made(outputs[[0, 1, 3]], truth))


def test_an_ensemble_no_better_than_a_constant_is_said_to_be_so(kinds, truth):
    text = said(kinds["guessers"])
    assert "It explains nothing of the variance" in text
    assert "Always predicting the mean of the truth is better." in text
    assert "averages out" not in text
    assert error_figure(kinds["guessers"]) is None
    few = np.random.default_rng(4).normal(50, 10, (2, 12)) + 0.5 * truth[:12]
    assert "the mean of the truth" in said(made(few, truth[:12]))


def test_opposed_errors_have_no_ceiling(kinds):
    text = said(kinds["opposed"])
    assert "Their errors oppose each other" in text
    figure = error_figure(kinds["opposed"])
    assert not figure["split"]
    assert [bar["shared"] for bar in figure["bars"]] == [None] * 3
    assert _sizing_figure(kinds["opposed"])["ceiling"] is None
    assert "any number" not in [size for size, *_ in _sizes(kinds["opposed"])]


def test_the_bars_are_split_into_what_is_shared_and_what_is_each_ones_own(seven):
    """The squared error of N learners is C + (A - C) / N, so the light part is N times shorter for their mean."""
    one, best, mean, limit = error_figure(seven)["bars"]
    assert (best["shared"], limit["length"]) == (None, limit["shared"])
    assert one["shared"] == mean["shared"] == limit["shared"]
    assert one["length"] - one["shared"] == pytest.approx(7 * (mean["length"] - mean["shared"]), abs=0.8)
    assert mean["length"] / one["length"] == pytest.approx(
        seven.squared_error.value / seven.errors.average_error, abs=1e-3
    )


def test_the_curve_passes_through_the_ensemble_and_the_mean_learner(seven):
    figure = _sizing_figure(seven)
    titles = [title for *_, title in figure["marks"]]
    assert f"1 learners: {amount(seven.errors.average_error)}" in titles
    at = next((x, y) for x, y, title in figure["marks"] if title.startswith("7 learners"))
    assert at == figure["measured"]
    assert figure["ceiling"]["y"] > figure["measured"][1]  # lower on the page
    rows = {size: (error, change, now) for size, error, change, now in _sizes(seven)}
    assert rows["7"] == (amount(seven.squared_error.value), "0.00", True)
    assert rows["any number"][0] == amount(seven.ceiling)


def test_the_learners_are_ranked_by_their_errors(seven, kinds):
    found = _learners(seven, LIMITS)
    assert next(row["name"] for row in found["ranked"]["rows"]) == found["rows"][0]["name"] == "forest"
    assert found["rows"][-1]["name"] == "tree"
    places = [row["x"] for row in found["ranked"]["rows"]]
    assert places == sorted(places)
    assert found["rows"][0]["cells"][0][1] == amount(seven.learner_errors[0])
    many = _learners(kinds["many"], LIMITS)
    assert many["ranked"] is None
    assert len(many["rows"]) + many["left_out"] == 300
    assert next(label for label, _ in many["spread"]) == "lowest"
    assert sum(int(bar["title"].split()[0]) for bar in many["strip"]["bars"]) == 300


def test_the_parts_of_the_error_add_up(seven):
    text = EnsembleReport(seven).markdown()
    error = seven.squared_error.value
    parts = seven.components
    shares = [parts.bias**2, parts.variance / 7, 6 / 7 * parts.covariance]
    assert sum(shares) == pytest.approx(error)
    for share in shares:
        assert f"| {amount(share)} ({100 * share / error:.0f} %) |" in text


def test_several_ensembles_start_with_a_comparison(seven, kinds):
    report = EnsembleReport([seven, kinds["opposed"], kinds["trained on"]])
    text = Page(report.html()).all("main")[0]["text"]
    assert "opposed has the lowest squared error" in text
    assert report.markdown().startswith("# 3 ensembles compared\n\nopposed has the lowest squared error")
    overlapping = EnsembleReport([seven, made([[1.0, 2, 3, 4]], [1.5, 2, 3, 9], name="b")]).markdown()
    assert (
        "their intervals overlap. The ensembles were judged on different numbers of samples." in overlapping
    )
    same = EnsembleReport([seven, seven]).markdown()
    assert "have the same squared error" in same


def test_json_gives_the_assessments_back(seven):
    data = json.loads(EnsembleReport(seven).to_json())
    again = RegressionAssessment.from_dict(data["assessments"][0])
    assert EnsembleReport(again).html() == EnsembleReport(seven).html()


def test_the_card_has_the_numbers_of_the_assessment(seven):
    card = EnsembleReport(seven).model_card(use="To price houses.")
    assert "tags: [ensemble, regression]\nmetrics: [mse, r_squared]" in card
    assert "**Intended use.** To price houses." in card
    assert f"| Squared error | {amount(seven.squared_error.value)} |" in card
    side = "high" if seven.components.bias > 0 else "low"
    assert f"too {side} on average" in card
    assert "Classes" not in card


def test_kinds_are_not_mixed_and_votes_alone_have_paths_and_tests(seven):
    votes = [[0, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1]]
    vote = assess([0, 0, 1, 1], votes)
    with pytest.raises(
        ValueError, match="of one kind to be compared; got Assessment and RegressionAssessment"
    ):
        EnsembleReport([vote, seven])
    with pytest.raises(
        ValueError, match="`trajectories` needs assessments of votes; got RegressionAssessment"
    ):
        EnsembleReport(seven, trajectories={})
    tested = compare_votes([0, 0, 1, 1], {"a": votes, "b": votes[:1]})
    with pytest.raises(ValueError, match="`comparison` needs assessments of votes"):
        EnsembleReport(seven, comparison=tested)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (25.6, "25.60"),
        (1234.6, "1,235"),
        (8542123.0, "8,542,000"),
        (2e12, "2e+12"),
        (5.39e-5, "5.39e\N{MINUS SIGN}05"),
        (-3.2, "\N{MINUS SIGN}3.200"),
        (float("nan"), "undefined"),
        (float("inf"), "undefined"),
    ],
)
def test_numbers_of_any_size_can_be_read(value, text):
    assert amount(value) == text
