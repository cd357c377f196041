"""The coverage of the intervals of effective votes, as recorded, and as the page says."""

import json
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "results" / "coverage_of_intervals.json").read_text(encoding="utf-8"))
CELLS = RECORD["cells"]
NUMBERS = ("votes", "independence", "error_correlation", "mean_accuracy")
KEYS = ("classes", "learners", "items", "accuracies", "panel")
PANELS = ("independent", "shared", "clusters", "missing")
# (number, *KEYS) of the cells outside 93 to 97 % beyond the noise; docs/assess.md says which they are.
NAMED = {
    ("votes", 2, 100, 1000, "equal", "shared"),
    ("votes", 3, 6, 100, "expert", "independent"),
    ("votes", 3, 100, 1000, "equal", "shared"),
    ("votes", 10, 100, 100, "expert", "independent"),
    ("votes", 10, 100, 1000, "equal", "shared"),
}


def key(cell):
    return tuple(cell[name] for name in KEYS)


def off(cell, number):
    """Return by how much the coverage lies outside 93 to 97 %, beyond three standard errors of the runs."""
    noise = 3 * (0.05 * 0.95 / max(cell["n_runs"] * cell["defined"][number], 1)) ** 0.5
    return max(0.93 - noise - cell["coverage"][number], cell["coverage"][number] - 0.97 - noise, 0.0)


def test_every_panel_is_there():
    settings = product((2, 3, 10), (3, 6, 15, 100), (100, 1000), ("equal", "mixed", "expert"), PANELS)
    assert [key(cell) for cell in CELLS] == list(settings)
    assert min(cell["n_runs"] for cell in CELLS) >= 100


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("items", [100, 1000])
def test_the_intervals_hold_beyond_the_noise_of_the_runs(number, items):
    outside = {(number, *key(cell)) for cell in CELLS if cell["items"] == items and off(cell, number)}
    assert outside == {one for one in NAMED if (one[0], one[3]) == (number, items)}


@pytest.mark.parametrize("number", NUMBERS)
def test_the_intervals_hold_on_average(number):
    """Over the cells, whose noise averages out, so that intervals which are a little too narrow everywhere show."""
    for items, panel in product((100, 1000), PANELS):
        cells = [cell for cell in CELLS if (cell["items"], cell["panel"]) == (items, panel)]
        n_runs = sum(cell["n_runs"] * cell["defined"][number] for cell in cells)
        mean = sum(cell["coverage"][number] for cell in cells) / len(cells)
        noise = 3 * (0.05 * 0.95 / n_runs) ** 0.5
        assert 0.93 - noise <= mean <= 0.975 + noise, (items, panel)


def test_a_thousand_items_always_give_an_interval():
    assert all(cell["defined"]["votes"] > 0.99 for cell in CELLS if cell["items"] == 1000)


def test_the_value_is_near_the_truth_with_a_thousand_items():
    for cell in CELLS:
        if cell["items"] == 1000:
            assert cell["median_votes"] == pytest.approx(cell["true"]["votes"], rel=0.25), key(cell)


def table():
    for items, panel in product((100, 1000), PANELS):
        cells = [cell for cell in CELLS if (cell["items"], cell["panel"]) == (items, panel)]
        ranges = []
        for number in NUMBERS:
            shares = [100 * cell["coverage"][number] for cell in cells]
            ranges.append(f"{min(shares):.1f} to {max(shares):.1f} %")
        yield f"| {' | '.join([f'{items:,}', panel, *ranges])} |"


def test_the_page_shows_the_record():
    page = (ROOT / "docs" / "assess.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
