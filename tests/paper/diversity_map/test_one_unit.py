"""Learners of one hidden unit: independent training with a read-out, longer training, and what is written of them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint.records import RunStore, run_jobs
from paper.diversity_map import one_unit, study
from paper.diversity_map.analysis import gains_of, read_map
from paper.diversity_map.one_unit import BASELINE, READ_OUT, Run
from paper.diversity_map.one_unit_tables import CHOSEN, after, markdown
from paper.runner import about_device

ROOT = Path(__file__).parents[3]
RECORD, MAP = (ROOT / "results" / name for name in ("diversity-map-one-unit.json", "diversity-map.json"))
GRID = replace(study.SMOKE, steps=40, hidden=(1,), diversities=(0.0, 0.5, 0.9))
NAMES = ("iris", "labor")
RUNS = (Run(40, (3, 5), (BASELINE,)), Run(60, (3,), (BASELINE, "0", "0.9")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("one-unit")
    one_unit.run(out, names=NAMES, runs=RUNS, grid=GRID, device="cpu")
    return out


@pytest.fixture(scope="module")
def record(folder):
    return json.loads((folder / "diversity-map-one-unit.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A map of the same learners."""
    device = torch.device("cpu")
    jobs = study.make_jobs(NAMES, GRID, data=None, seed=0, device=device)
    out = tmp_path_factory.mktemp("map")
    records = run_jobs(jobs, RunStore(out), title="", about=about_device(device), progress=False).records
    path = study.write_map(out, [study.join(one) for one in records.values()], GRID, seed=0, smoke=False)
    return json.loads(path.read_text(encoding="utf-8"))


def test_independent_learners_are_those_of_the_map(record, whole):
    for theirs in whole["data"]:
        (ours,) = (
            part
            for part in record["data"]
            if (part["data"], part["n_learners"], part["steps"])
            == (theirs["data"], theirs["n_learners"], GRID.steps)
        )
        assert ours["rows"] == theirs["rows"]
        for vote in ("soft", "hard"):
            assert ours["wrong"][vote][BASELINE] == theirs["wrong"][vote][BASELINE]
        assert ours["learner"][BASELINE] == pytest.approx(theirs["train"]["learner"][BASELINE], abs=1e-4)


def test_the_read_out_makes_learners_of_iris_more_accurate(record):
    for part in record["data"]:
        if part["data"] == "iris":
            assert part["learner"][READ_OUT] > part["learner"][BASELINE]


def test_a_finished_job_is_not_run_again_and_other_settings_are_refused(
    folder, record, tmp_path, monkeypatch
):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "diversity-map-one-unit" / "labor-n3-s60.json").unlink()
    asked = []

    def run_job(name, n_learners, run, *_, **__):
        asked.append((name, n_learners, run.steps))
        return {key: record["data"][-1][key] for key in ("rows", "wrong", "learner")}

    monkeypatch.setattr(one_unit, "run_job", run_job)
    (path,) = one_unit.run(tmp_path, names=NAMES, runs=RUNS, grid=GRID, device="cpu")
    assert asked == [("labor", 3, 60)]
    again = json.loads(path.read_text(encoding="utf-8"))["data"]
    assert [{**one, "seconds": 0} for one in again] == [{**one, "seconds": 0} for one in record["data"]]
    with pytest.raises(ValueError, match=r"\(folds: 3 here, 2 there\)"):
        one_unit.run(tmp_path, names=NAMES, runs=RUNS, grid=replace(GRID, folds=3), device="cpu")
    assert len(asked) == 1


def test_gains_are_over_independent_learners_and_over_those_with_a_read_out(record, whole):
    short, long = after(record, whole)
    assert (short.diverse, long.diverse) == (["0", "0.9", CHOSEN], ["0", "0.9"])
    part = next(part for part in whole["data"] if (part["data"], part["n_learners"]) == ("labor", 5))
    own = next(part for part in record["data"] if (part["data"], part["n_learners"]) == ("labor", 5))
    wrong, read = np.sum(part["wrong"]["soft"]["0.9"]), np.sum(own["wrong"]["soft"][READ_OUT])
    assert short.gain("0.9", READ_OUT)[1, 1] == pytest.approx(np.log((read + 0.5) / (wrong + 0.5)))
    np.testing.assert_allclose(
        short.gain("0.9", BASELINE), short.gain("0.9", READ_OUT) + short.gain(READ_OUT, BASELINE), atol=1e-12
    )
    chosen = gains_of(read_map(whole).gain, None)[:, :, 0]
    np.testing.assert_allclose(short.gain(CHOSEN, BASELINE), chosen, atol=1e-12)
    text = markdown(record, whole)
    share = 100 * (1 - np.exp(-short.gain("0.9", READ_OUT).mean(axis=0)[1]))
    row = next(
        line for line in text.partition("with a read-out taken away")[2].splitlines() if "| 40 | 5 |" in line
    )
    assert row.split("|")[4].strip().replace("−", "-") == f"{share:+.1f}"  # noqa: RUF001


def test_the_committed_record_trains_the_independent_networks_of_the_map_again():
    own, whole = (json.loads(path.read_text(encoding="utf-8")) for path in (RECORD, MAP))
    theirs = {(p["data"], p["n_learners"]): p for p in whole["data"] if p["hidden"] == 1}
    same = [p for p in own["data"] if p["steps"] == whole["config"]["steps"]]
    assert len(same) == len(theirs)
    for part in same:
        there = theirs[part["data"], part["n_learners"]]
        counts = [np.array(one["wrong"]["soft"][BASELINE]) for one in (part, there)]
        assert (
            abs(counts[0].sum() - counts[1].sum()) <= 0.02 * counts[1].sum()
        )  # a CPU rounds otherwise than a GPU
