"""The page of panels without a truth."""

import re

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.assessment import assess_scores
from counterpoint.report import EnsembleReport
from tests.report.parsing import Page


@pytest.fixture(scope="module")
def panels():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    right = rng.random((5, 200)) < np.array([0.9, 0.8, 0.8, 0.7, 0.6])[:, None]
    votes = np.where(right, truth, rng.integers(0, 3, (5, 200)))
    ratings = rng.normal(size=80) + 0.5 * rng.normal(size=(4, 80))
    return {
        "five": assess(votes, learners=["ann", "bo", "<b>cy</b>", "di", "e | f"], name="five"),
        "two": assess(votes[:2], name="two"),
        "same": assess(np.zeros((3, 20), dtype=int), name="same"),
        "many": assess(rng.integers(0, 2, (60, 50)), name="many"),
        "apart": assess([["a", "b", None, None], [None, None, "a", "b"]], name="apart"),
        "ratings": assess_scores(ratings, name="ratings"),
        "one score": assess_scores([[1.0, 1, 1], [2.0, 2, 2]], name="one score"),
    }


def test_every_kind_of_panel_makes_a_well_formed_page(panels):
    for name, panel in panels.items():
        page = Page(EnsembleReport(panel).html())
        text = page.all("main")[0]["text"]
        assert not {"nan", "None"} & set(re.findall(r"\w+", text)), name
        assert [e["text"] for e in page.all("h2")] == [
            "In short",
            "Advice",
            "Learners",
            "Who agrees with whom",
            "All numbers",
            "Provenance",
        ]
        assert "Without a truth" in text, name
        assert EnsembleReport(panel).markdown().startswith(f"# {name}\n")


def test_the_first_lines_say_how_far_a_panel_agrees_and_what_that_does_not_say(panels):
    panel = panels["five"]
    text = EnsembleReport(panel).markdown().replace("**", "").replace("\xa0", " ")
    assert f"Two of the 5 learners agree on {100 * panel.agreement.observed.value:.1f} % of the 200" in text
    assert f"Krippendorff's alpha is {panel.agreement.krippendorff_alpha.value:.2f}" in text
    right = panel.bounds.consensus
    between = (
        f"between {100 * right.low:.0f} and {100 * right.high:.0f} %, if their errors are correlated by 0"
    )
    assert (
        f"Without a truth nobody can tell how often they are right. Their consensus is right on {between}"
        in text
    )


def test_names_are_escaped(panels):
    html = EnsembleReport([panels["five"], panels["two"]]).html()
    assert "<b>cy" not in html
    assert "e \\| f" in EnsembleReport(panels["five"]).markdown()
    rows = [e["text"] for e in Page(html).all("td")]
    assert panels["two"].verdict in rows


def test_a_card_needs_a_truth(panels):
    with pytest.raises(ValueError, match="A model card needs a truth"):
        EnsembleReport(panels["five"]).model_card()
