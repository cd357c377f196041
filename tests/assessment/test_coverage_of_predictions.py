"""The coverage of the intervals of predicted votes, as recorded, and as the page says."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "results" / "coverage_of_predictions.json").read_text(encoding="utf-8"))
VOTES = ("predicted", "between", "curve")
ROWS = {
    "predicted": "vote predicted by theory",
    "between": "vote of half as many again",
    "curve": "vote of twice as many",
    "more": "gain of one or two more, on average",
}


def test_there_are_25_ensembles_half_of_them_on_tables_that_were_not_looked_at():
    assert len(RECORD["cells"]) >= 25
    seen = {cell["table"] for cell in RECORD["cells"] if cell["seen"]}
    unseen = {cell["table"] for cell in RECORD["cells"] if not cell["seen"]}
    assert not seen & unseen
    assert sum(not cell["seen"] for cell in RECORD["cells"]) >= 12


@pytest.mark.parametrize("part", ["all", "unseen"])
@pytest.mark.parametrize("how", ["complete", "skipped"])
@pytest.mark.parametrize("number", VOTES)
def test_nine_in_ten_predicted_votes_are_held(part, how, number):
    assert RECORD["overall"][part][how][number]["mean"] >= 0.9


def test_the_page_says_so():
    text = (ROOT / "docs" / "assess.md").read_text(encoding="utf-8")
    for number, name in ROWS.items():
        cells = [
            RECORD["overall"][part][how][number]
            for part in ("all", "unseen")
            for how in ("complete", "skipped")
        ]
        row = [f"{100 * cell['mean']:.1f} ± {100 * cell['standard_error']:.1f} %" for cell in cells]
        assert f"| {name} | {' | '.join(row)} |" in text
