"""The numbers of the README are those of the committed results."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def result(name):
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def row(words):
    """Return the cells of the row that holds the words, without their weight."""
    line = next(line for line in README.splitlines() if line.startswith("|") and words in line)
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def spread(values):
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


@pytest.mark.parametrize(("words", "part"), [("of width 4", 4), ("of width 8", 8), ("of width 32", 32)])
def test_errors_of_small_convnets(words, part):
    found = result("image-map.json")["data"][f"width-{part}"]
    names = [arm["name"] for arm in found["config"]["arms"]]
    test = found["data"]["test"]
    for place, arm, how in ((1, "independent", "raw"), (2, "0.9", "read")):
        assert row(words)[place] == spread(100 * np.array(test[how]["soft"])[:, names.index(arm)])


def test_errors_of_pretrained_networks():
    runs = result("table-5.json")["data"]["runs"]
    for place, way in ((1, "independent"), (2, "lambda 0.1")):
        errors = [run["test"]["soft"] for run in runs if run["way"] == way]
        assert row("three pretrained networks")[place] == spread(errors)


def test_ranks_of_the_arena():
    ranks = result("arena/summary.json")["ranks"]
    cells = row("mean rank among")
    assert f"among {len(ranks['methods'])} methods" in cells[0]
    assert cells[1:3] == [f"{ranks['mean_rank'][name]:.2f}" for name in ("independent", "diverse-cv")]
