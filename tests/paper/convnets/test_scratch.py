"""Fast networks from scratch: the plan, the votes, the frontier, and table and page that follow from the record."""

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint.records import fill, number
from paper import reproduce
from paper.convnets import scratch
from paper.convnets import scratch_tables as tables
from paper.convnets.dial_tables import interval
from paper.convnets.fast import FastEnsemble, fast_net
from paper.convnets.images import ImageSets
from paper.convnets.scratch import Point

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "results" / "image-scratch.json"
PAGE = ROOT / "docs" / "images-when-diversity-pays.md"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    """Return digits of the size of CIFAR-10's images."""
    small = ImageSets(None, smoke=True)["digits"]
    x_train, x_test = (np.kron(x, np.ones((1, 4, 4, 1), np.uint8)) for x in (small.x_train, small.x_test))
    return replace(small, x_train=x_train, x_test=x_test)


@pytest.fixture(scope="module")
def committed():
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    reproduce("image-scratch", folder, smoke=True)
    return json.loads((folder / "image-scratch.json").read_text(encoding="utf-8"))


def job(name, seconds, error, seed=0, **measures):
    """Return a job of a record; the name is width, learners, epochs and loss."""
    width, n_learners, epochs, loss = name
    point = Point(width, n_learners, epochs, loss)
    found = {"vote": error, "soft": error + 0.01, "log_loss": 0.2, "learner": error + 0.02, **measures}
    return f"{point.name}-s{seed}", {
        "config": scratch.job_config(point, seed),
        "data": {"mirrored": found, "seconds": seconds},
    }


def record_of(*jobs):
    return {"config": {"smoke": False}, "device": ["a GPU"], "data": dict(jobs)}


def test_a_smoke_run_trains_every_kind_of_loss(smoke):
    assert list(smoke["data"]) == [
        "fast-2-n1-e5-independent-s0",
        *(f"fast-2-n2-e1-{loss}-s0" for loss in ("independent", "0.5", "logits")),
    ]
    assert len(tables.grid(smoke).rows) == 4
    for run in smoke["data"].values():
        found, loss = run["data"]["mirrored"], run["config"]["loss"]
        assert run["data"]["seconds"] > 0
        assert found["vote"] == found["soft" if loss == "independent" else "geometric"]
    single = smoke["data"]["fast-2-n1-e5-independent-s0"]["data"]["mirrored"]
    assert single["vote"] == single["geometric"] == single["hard"] == single["learner"]


def test_measures_are_of_the_vote_that_the_loss_trains(images):
    torch.manual_seed(0)
    ensemble = FastEnsemble([fast_net(10, width=2) for _ in range(3)]).eval()
    ((x, _),) = scratch._batches(images.x_test, images.y_test, CPU, batch_size=len(images.y_test))
    with torch.no_grad():
        logits = 50 * (ensemble(x) + ensemble(x.flip(3))) / 2  # confident learners, whose votes differ
    ensemble.body.layers[-1].weight.data *= 50
    y = torch.as_tensor(images.y_test)
    votes = {"soft": logits.softmax(-1).mean(0), "geometric": logits.mean(0).softmax(-1)}
    for name, vote in (("independent", "soft"), ("0.5", "geometric"), ("logits", "geometric")):
        ensemble.trained_by(scratch.make_loss(name))
        found = scratch._evaluate(ensemble, images, CPU)
        for kind, proba in votes.items():
            assert found[kind] == pytest.approx(float((proba.argmax(1) != y).float().mean()))
        assert found["vote"] == found[vote]
        expected = -votes[vote].gather(1, y[:, None]).log().mean()
        assert found["log_loss"] == pytest.approx(float(expected), rel=1e-3)
    assert found["soft"] != found["geometric"]


def test_a_warm_up_changes_neither_weights_nor_batches(images, monkeypatch):
    trained = []
    train = scratch._train

    def look(ensemble, point, batches, seed):
        first = [p.clone() for p in ensemble.parameters()]
        train(ensemble, point, batches, seed)
        trained.append((point.epochs, first, [p.clone() for p in ensemble.parameters()]))

    monkeypatch.setattr(scratch, "_train", look)
    point = Point(2, 2, 2, "0.5", batch_size=50)
    scratch.run(point, images, 0, CPU)
    (warm, start, moved), (epochs, first, last) = trained
    assert (warm, epochs) == (1, 2)
    torch.testing.assert_close(start, first, rtol=0, atol=0)
    assert any(not torch.equal(a, b) for a, b in zip(start, moved, strict=True))
    torch.manual_seed(0)
    again = FastEnsemble([fast_net(10, 2) for _ in range(2)])
    batches = scratch._batches(images.x_train, images.y_train, CPU, batch_size=len(images.y_train))
    train(again, point, batches, 0)
    torch.testing.assert_close(list(again.parameters()), last)


def test_every_point_runs_before_the_second_seed(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(scratch, "run_study", lambda study, jobs, *a, **k: seen.extend(jobs))
    scratch.reproduce(tmp_path, device="cpu")
    names = [point.name for point in scratch.plan()]
    assert len(set(names)) == len(names)
    assert [job.name for job in seen] == [f"{name}-s{seed}" for seed in range(3) for name in names]
    assert all(job.name.endswith(f"-s{job.config['seed']}") for job in seen)


def test_the_plan_compares_every_ensemble_with_independent_ones_and_with_one_network():
    points = [point for point in scratch.plan() if point.n_learners > 1]
    for size, same in groupby(points, key=lambda point: point[:3]):
        losses = [point.loss for point in same]
        assert losses[0] == "independent", size
        assert float(losses[1]) == pytest.approx(1 - 1 / size[1], abs=0.005)  # the default dial
    singles = {(point.width, point.epochs) for point in scratch.plan() if point.n_learners == 1}
    assert {(32, 10), (64, 5), (64, 10), (64, 20), (64, 40), (128, 10), (128, 20)} == singles


def test_the_frontier_has_the_points_that_no_faster_point_beats():
    fast, slow, late, best = (
        (8, 1, 5, "independent"),
        (8, 1, 10, "independent"),
        (4, 4, 5, "0.75"),
        (8, 4, 5, "0.75"),
    )
    record = record_of(
        job(best, 4.0, 0.10),
        job(fast, 1.0, 0.30),
        job(late, 3.0, 0.25),
        job(slow, 2.0, 0.20),
        job(slow, 2.0, 0.22, 1),
    )
    ensembles = tables.points(record)
    assert [one[:4] for one in ensembles] == [fast, slow, late, best]
    assert [one[:4] for one in tables.frontier(ensembles)] == [fast, slow, best]
    assert [row[-1] for row in tables.grid(record).rows] == ["yes", "yes", "", "yes"]


def test_of_equally_fast_points_the_better_one_is_on_the_frontier():
    record = record_of(job((8, 1, 5, "independent"), 1.0, 0.3), job((8, 2, 5, "0.5"), 1.0, 0.2))
    assert [one.loss for one in tables.frontier(tables.points(record))] == ["0.5"]


def test_a_row_has_the_errors_of_both_votes_over_the_seeds():
    name = (32, 4, 10, "0.75")
    record = record_of(job(name, 2.0, 0.06), job(name, 3.0, 0.08, seed=1))
    (row,) = tables.grid(record).rows
    errors = ["7.00 ± 1.41", "8.00 ± 1.41", "0.200 ± 0.000", "9.00 ± 1.41"]
    assert row == ["dial 0.75", "32", "4", "10", "2.50", *errors, "2", "yes"]


def test_the_figure_shows_each_kind_and_the_frontier():
    kinds = [(8, 1, 5, "independent"), (4, 4, 5, "independent"), (4, 4, 5, "0.75"), (4, 4, 5, "logits")]
    jobs = [job(name, 1.0 + i, 0.3 - 0.05 * i) for i, name in enumerate(kinds)]
    (ax,) = tables.draw(record_of(*jobs)).axes
    line, *drawn = ax.lines
    assert line.get_xdata() == pytest.approx([1, 2, 3, 4])
    assert [float(one.get_ydata()[0]) for one in drawn] == pytest.approx([30, 25, 20, 15])
    assert [text.get_text() for text in ax.texts] == ["1 × 8, 5", "4 × 4, 5"]  # noqa: RUF001 - a product


def test_committed_jobs_are_of_the_plan(committed):
    planned = {
        f"{point.name}-s{seed}": scratch.job_config(point, seed)
        for point in scratch.plan()
        for seed in range(scratch.N_SEEDS)
    }
    found = {name: run["config"] for name, run in committed["data"].items()}
    assert found == {name: planned[name] for name in found}


def test_parts_that_match_no_job_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"`parts` must be beginnings of names, of fast; got 'nothing'"):
        reproduce("image-scratch", tmp_path, smoke=True, parts="nothing")


def test_the_page_says_what_the_record_says(committed):
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, "image-scratch", scratch.STUDY.in_markdown(committed)) == page


def test_the_sentences_of_the_page_say_what_the_record_says(committed):
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = {one[:4]: one for one in tables.points(committed)}

    def error(*key):
        return f"{found[key].error.mean():.2f}"

    def seconds(*key):
        return f"{found[key].seconds.mean():.1f} seconds"

    def fewer(width, n_learners, dial):
        ours, theirs = (found[width, n_learners, 10, loss].error for loss in (dial, "independent"))
        share = 100 * (theirs - ours) / theirs
        sign, word = (1, "fewer errors" if width == 16 else "fewer") if share.mean() > 0 else (-1, "more")
        low, high = interval(sign * share)
        return f"{sign * share.mean():.1f} % {word} [{number(low, '.1f')}, {number(high, '.1f')}]"

    wide = (128, 1, 10, "independent")
    three = min(("independent", "0.67", "logits"), key=lambda loss: found[64, 3, 10, loss].error.mean())
    more = found[64, 3, 10, three].error - found[wide].error
    ends = interval(more)
    dial = found[64, 3, 10, "0.67"].error - found[wide].error
    dial_ends = interval(dial)
    losses = [np.array(found[key].measure("log_loss")) for key in ((64, 3, 10, three), wide)]
    loss_ends = interval(losses[0] - losses[1])
    for words in (
        f"one of width 128 errs on {error(*wide)} % after {seconds(*wide)}",
        f"three of width 64 take {seconds(64, 3, 10, three)} and err on {error(64, 3, 10, three)} % at best "
        f"({more.mean():.2f} points more [{number(ends[0], '.2f')}, {number(ends[1], '.2f')}], which is within noise, "
        f"but the log-loss is {np.mean(losses[0] - losses[1]):.3f} higher [{loss_ends[0]:.3f}, {loss_ends[1]:.3f}]; "
        f"with the dial {dial.mean():.2f} points more [{number(dial_ends[0], '.2f')}, {number(dial_ends[1], '.2f')}])",
        f"({error(32, 4, 10, '0.75')} against {error(32, 4, 10, 'independent')} %)",
        f"ten of width 16 make {fewer(16, 10, '0.9')}",
        f"four of width 32 make {fewer(32, 4, '0.75')}",
        f"three of width 64 make {fewer(64, 3, '0.67')}",
    ):
        assert words in page
    assert all(one.n_learners == 1 for one in tables.frontier(tables.points(committed)))
    assert {len(one.error) for one in found.values()} == {3}
    longer = {one.name for one in scratch.plan()} - {Point(*key).name for key in found}
    assert longer == {
        "fast-64-n1-e40-independent",
        "fast-128-n1-e20-independent",
        "fast-64-n3-e20-independent",
        "fast-64-n3-e20-0.67",
    }
    assert max(one.seconds.mean() for one in found.values()) < 8
