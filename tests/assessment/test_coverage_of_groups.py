"""Error rates where samples belong together, as recorded, and as the page says."""

import json
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "results" / "coverage_of_groups.json").read_text(encoding="utf-8"))
CLUSTERS = (1, 2, 5, 10, "zipf")


def noise(rate, cells):
    """Return three standard errors of a rate over the runs of some cells."""
    return 3 * (rate * (1 - rate) / sum(cell["n_runs"] for cell in cells)) ** 0.5


def mean(cells, name):
    """Return the mean over all runs."""
    return sum(cell["n_runs"] * cell[name] for cell in cells) / sum(cell["n_runs"] for cell in cells)


def of(kind, cluster):
    return [cell for cell in RECORD[kind] if cell["cluster"] == cluster]


def test_every_cell_is_there():
    found = [(cell["cluster"], cell["samples"]) for cell in RECORD["tests"]]
    assert found == list(product(CLUSTERS, (100, 400, 2000)))
    found = [(cell["cluster"], cell["pool"], cell["samples"]) for cell in RECORD["gains"]]
    assert found == list(product(CLUSTERS, RECORD["config"]["pools"], (100, 400, 1500)))
    assert len(RECORD["advice"]) == 25


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_paired_test_keeps_its_level(cluster):
    for votes in ("odd", "even"):
        for cell in of("tests", cluster):
            assert 0.03 - noise(0.03, [cell]) <= cell[votes] <= 0.06 + noise(0.06, [cell])
    assert (mean(of("tests", cluster), "without_groups") > 0.1) == (cluster != 1)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_false_advice_is_rare(cluster):
    for name in ("leave_out", "reweight"):
        assert mean(of("advice", cluster), name) <= 0.03
        assert all(cell[name] <= 0.03 + noise(0.03, [cell]) for cell in of("advice", cluster))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_intervals_of_gains_hold(cluster):
    for cell in of("gains", cluster):
        assert cell["gain"] >= 0.93 - noise(0.93, [cell])


def percent(cells, name):
    shares = [100 * cell[name] for cell in cells]
    return f"{100 * mean(cells, name):.1f} ({min(shares):.1f} to {max(shares):.1f})"


def table():
    for cluster in CLUSTERS:
        tests, advice, gains = (of(kind, cluster) for kind in ("tests", "advice", "gains"))
        cells = [str(cluster).capitalize(), percent(tests, "odd"), percent(tests, "even")]
        cells += [f"{100 * mean(tests, 'without_groups'):.1f}"]
        cells += [percent(advice, "leave_out"), percent(advice, "reweight")]
        cells += [percent(gains, "gain"), percent(gains, "accuracy")]
        yield f"| {' | '.join(cells)} |"


def test_the_page_shows_the_record():
    page = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
