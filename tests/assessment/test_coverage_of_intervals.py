"""The coverage of the intervals, as recorded, and as the page says."""

import json
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELLS = json.loads((ROOT / "results" / "coverage_of_intervals.json").read_text(encoding="utf-8"))["cells"]
NUMBERS = ("error_correlation", "votes", "kish", "mean_accuracy")


def test_every_panel_is_there():
    found = [(c["learners"], c["items"], c["c"], c["clusters"], c["missing"]) for c in CELLS]
    assert found == list(product((3, 6, 15), (100, 1000), (0.0, 0.2, 0.5), (False, True), (False, True)))


@pytest.mark.parametrize("number", NUMBERS)
def test_the_intervals_hold_beyond_the_noise_of_the_runs(number):
    for cell in CELLS:
        noise = 3 * (0.05 * 0.95 / cell["n_runs"]) ** 0.5
        assert 0.93 - noise <= cell["coverage"][number] <= 0.97 + noise, cell


def test_the_page_says_which_panels_stay_below():
    assert {c["n_runs"] for c in CELLS} == {2000}
    few = [c for c in CELLS if c["coverage"]["error_correlation"] < 0.93]
    assert {(c["items"], c["clusters"], c["c"]) for c in few} == {(100, True, 0.2)}
    assert {c["learners"] for c in few} == {6, 15}
    assert all(c["coverage"]["votes"] >= 0.93 for c in CELLS)
    page = (ROOT / "docs" / "assess.md").read_text(encoding="utf-8")
    shares = [100 * cell["coverage"]["error_correlation"] for cell in few]
    assert f"is {min(shares):.1f} to {max(shares):.1f} %" in page


def table():
    for items, clusters, missing in product((100, 1000), (False, True), (False, True)):
        panels = [c for c in CELLS if (c["items"], c["clusters"], c["missing"]) == (items, clusters, missing)]
        ranges = []
        for number in NUMBERS:
            shares = [100 * panel["coverage"][number] for panel in panels]
            ranges.append(f"{min(shares):.1f} to {max(shares):.1f} %")
        words = [f"{items:,}", "yes" if clusters else "no", "yes" if missing else "no"]
        yield f"| {' | '.join([*words, *ranges])} |"


def test_the_page_shows_the_record():
    page = (ROOT / "docs" / "assess.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
