"""Intervals of votes and learners whose samples belong together."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from counterpoint import assess
from counterpoint.assessment.votes import grouped_interval, wilson_interval
from counterpoint.report import EnsembleReport

RECORD = Path(__file__).parents[2] / "results" / "coverage_of_optimality.json"


def panel(seed, n_samples=300, n_learners=4):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_samples)
    votes = np.where(
        rng.random((n_learners, n_samples)) < 0.7, truth, rng.integers(0, 3, (n_learners, n_samples))
    )
    return truth, votes


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("missing", [False, True])
def test_copies_of_samples_that_belong_together_bring_no_certainty(voting, missing):
    truth, votes = panel(0)
    outputs = np.eye(3)[votes] * 0.9 + 0.1 / 3 if voting == "soft" else votes.astype(float)
    if missing:
        outputs[np.random.default_rng(1).random(votes.shape) < 0.2] = np.nan
    once = assess(truth, outputs, voting=voting).votes
    groups = np.repeat(np.arange(300), 3)
    thrice = assess(truth.repeat(3), outputs.repeat(3, axis=1), voting=voting, groups=groups).votes
    alone = assess(truth.repeat(3), outputs.repeat(3, axis=1), voting=voting).votes
    width = once.accuracy_high - once.accuracy_low
    np.testing.assert_allclose(thrice.accuracy_high - thrice.accuracy_low, width, rtol=0.02)
    np.testing.assert_allclose(alone.accuracy_high - alone.accuracy_low, width / np.sqrt(3), rtol=0.02)
    np.testing.assert_allclose(thrice.without_error, once.without_error, rtol=0.02)
    first, second, third = (
        vote.high - vote.low for vote in (getattr(one, voting) for one in (once, thrice, alone))
    )
    assert third < 0.7 * second
    assert 0.8 * first < second < 1.03 * first  # ties, which share the credit, vary less


def test_groups_of_one_sample_change_nothing_but_students_quantile():
    truth, votes = panel(2)
    plain, grouped = assess(truth, votes), assess(truth, votes, groups=np.arange(300))
    for name in ("accuracy_low", "accuracy_high", "without_error"):
        np.testing.assert_allclose(getattr(grouped.votes, name), getattr(plain.votes, name), atol=1e-3)
    assert grouped.vote == pytest.approx(plain.vote, abs=2e-3)


def test_fewer_than_five_groups_have_no_interval():
    truth, votes = panel(3)
    a = assess(truth, votes, groups=np.arange(300) // 75)
    assert np.isnan([a.vote.low, a.vote.high]).all()
    assert np.isnan([a.votes.accuracy_low, a.votes.accuracy_high, a.votes.without_error]).all()
    assert np.isnan([a.intervals.r_tl.low, a.intervals.r_ll.high, a.intervals.optimality.low]).all()
    assert not np.isnan(assess(truth, votes, groups=np.arange(300) // 60).votes.accuracy_low).any()


@pytest.mark.parametrize(("p", "sizes"), [(0.7, "equal"), (0.9, "equal"), (0.7, "Zipf")])
def test_the_interval_of_a_share_holds_where_samples_are_alike_in_groups(p, sizes):
    rng, held, plain, n_runs, n_groups = np.random.default_rng(5), 0, 0, 600, 40
    for _ in range(n_runs):
        each = np.full(n_groups, 5) if sizes == "equal" else np.minimum(rng.zipf(1.8, n_groups), 30)
        groups = np.repeat(np.arange(n_groups), each)
        latent = np.sqrt(0.5) * (rng.normal(size=n_groups)[groups] + rng.normal(size=len(groups)))
        right = (latent < norm.ppf(p)).astype(float)
        low, high = grouped_interval(np.bincount(groups, right), each.astype(float))
        held += low <= p <= high
        low, high = wilson_interval(right.mean(), len(right))
        plain += low <= p <= high
    noise = 3 * np.sqrt(0.05 * 0.95 / n_runs)
    assert held / n_runs > 0.93 - noise
    assert held / n_runs < (0.97 if sizes == "equal" else 0.99) + noise
    assert plain / n_runs < 0.9


def test_the_interval_of_optimality_holds_as_recorded():
    cells = json.loads(RECORD.read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 144
    for cell in cells:
        noise = 3 * np.sqrt(0.05 * 0.95 / cell["n_runs"])
        if cell["items"] * (1 - cell["p"]) > 2:  # errors of one learner
            assert 0.93 - noise < cell["coverage"] < 0.97 + noise, cell
        else:
            assert cell["coverage"] > (0.93 if cell["shared"] == 0 else 0.88) - noise, cell
    assert max(cell["high"] for cell in cells if not cell["shared"]) < 0.05


def test_without_intervals_no_text_says_nan():
    truth, votes = panel(3)
    a = assess(truth, votes, groups=np.arange(300) // 75)
    report = EnsembleReport(a)
    for text in (str(a), report.html(), report.markdown()):
        assert not re.search(r"\bnan\b", text)
