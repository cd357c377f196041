"""The numbers of the README, and some of the docs, are those of the committed results."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from counterpoint.records import NONE
from paper.convnets import dial_tables
from paper.pretrained.paper import TABLES
from paper.pretrained.tables import find_runs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def result(name):
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def row(words, after=""):
    """Return the cells of the first row with the words, below the line that holds ``after``, without their weight."""
    lines = README[README.index(after) :].splitlines()
    line = next(line for line in lines if line.startswith("|") and words in line)
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def paragraph(text, words):
    """Return the line of a page with the words; its sentences may be reworded, its numbers are compared."""
    return next(line for line in text.splitlines() if words in line)


def spread(values, digits=2):
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


@pytest.mark.parametrize(
    ("words", "point"),
    [
        ("ten of width 8, CIFAR-10, 10 epochs:", ("cifar10", 8, 10, 10)),
        ("ten of width 8, CIFAR-100, 10 epochs:", ("cifar100", 8, 10, 10)),
        ("five of width 32, CIFAR-10, 10 epochs:", ("cifar10", 32, 5, 10)),
        ("five of width 32, CIFAR-100, 10 epochs:", ("cifar100", 32, 5, 10)),
        ("five of width 32, CIFAR-10, 30 epochs:", ("cifar10", 32, 5, 30)),
    ],
)
def test_errors_and_log_losses_of_small_convnets(words, point):
    runs = dial_tables.runs_by_point(result("image-dial.json"))[dial_tables.Key(*point)]
    for cells, measure, scale, digits in (
        (row(words), "error", 100, 2),
        (row("their log-loss", after=words), "log_loss", 1, 3),
    ):
        default = f"{1 - 1 / point[2]:g}"
        for cell, arm in zip(cells[1:], ("independent", default, "paper-0.9"), strict=True):
            found = scale * dial_tables.values(runs, arm, measure) if arm in runs else None
            assert cell == (NONE if found is None else spread(found, digits))


@pytest.mark.parametrize(
    ("table", "words", "group", "lam"),
    [
        ("table-4", "Table 4,", "networks", 0.3),
        ("table-5", "Table 5,", "networks", 0.1),
        ("table-6", "three copies of", "copies", 0.1),
        ("table-6", "three EfficientNets trained apart", "apart", 0.1),
        ("table-6-cifar100", "three copies, CIFAR-100", "copies", 0.1),
        ("table-6-cifar100", "three trained apart, CIFAR-100", "apart", 0.1),
    ],
)
def test_errors_of_pretrained_networks(table, words, group, lam):
    record = result(f"{table}.json")
    cells = row(words)
    assert f"λ = {lam}" in cells[0]
    paper = TABLES[table].paper.get(f"{group} lambda {lam}")
    assert cells[1] == (NONE if paper is None else f"{paper:.2f}")
    for place, arm in ((2, f"lambda {lam}"), (3, "independent"), (4, "vote")):
        errors = [run["data"]["test"]["soft"] for run in find_runs(record, group, arm)]
        assert cells[place] == (spread(errors) if len(errors) > 1 else f"{errors[0]:.2f}")


def test_what_small_learners_gain_on_tables():
    page = (ROOT / "docs" / "when-does-diversity-pay.md").read_text(encoding="utf-8")
    gain, loss = re.search(
        r"learners of 1 hidden unit err (.*? % less) .*? of 64 hidden units (.*? % more)", page
    ).groups()
    said = paragraph(README, "when-does-diversity-pay.md")
    assert gain in said
    assert loss in said


def test_what_of_that_is_the_read_out_and_what_more_steps_leave():
    page = (ROOT / "docs" / "when-does-diversity-pay.md").read_text(encoding="utf-8")
    said = page.partition("<!-- diversity-map-one-unit -->")[2]
    beyond = re.search(r"learners err (\S+ %) less than independent ones with a read-out", said).group(1)
    middle, high = (
        re.search(rf"(\S+ % (?:less|more)) at diversity {loss} \(", said).group(1) for loss in ("0.5", "0.9")
    )
    readme = paragraph(README, "read-out")
    assert all(number in readme for number in (beyond, middle, high))
    assert f"the 23.8 % become {beyond}," in page
    assert f"5 or 15 learners err {middle} at diversity 0.5 and {high} at 0.9." in page


def test_learners_of_four_units_gain_on_segment_and_lose_on_glass():
    page = (ROOT / "docs" / "when-does-diversity-pay.md").read_text(encoding="utf-8")
    errors = {
        (cell["data"], cell["n_learners"]): [
            100 * np.sum(cell["wrong"]["soft"][loss]) / np.sum(cell["rows"])
            for loss in ("independent", "0.9")
        ]
        for cell in result("diversity-map.json")["data"]
        if cell["hidden"] == 4
    }
    assert "(15 learners: from {:.2f} to {:.2f} %)".format(*errors["segment", 15]) in page
    for table, gains in (("segment", True), ("glass", False)):
        assert all(
            bool(after < before) is gains for (name, _), (before, after) in errors.items() if name == table
        )


def test_ranks_of_the_arena():
    ranks = result("arena/summary.json")["ranks"]
    cells = row("mean rank among")
    assert cells[0] == f"mean rank among {len(ranks['methods'])} methods"
    assert cells[1:] == [f"{ranks['mean_rank'][name]:.2f}" for name in ("independent", "correlation-cv")]
    assert f"(p = {ranks['friedman']['p_value']:.2g})" in paragraph(README, "Friedman's test")
    assert ranks["friedman"]["p_value"] >= 0.05
    assert "**" not in next(line for line in README.splitlines() if "mean rank among" in line)
