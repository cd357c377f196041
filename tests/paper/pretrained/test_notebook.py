"""The record of a study: what it says of the machines that it was made on, and which studies it goes on with."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import Timeout

from paper.pretrained.notebook import Notebook, alone
from paper.pretrained.paper import TABLE_5, TABLES

ROOT = Path(__file__).parents[3]
COMMITTED = [name for name in TABLES if (ROOT / "results" / f"{name}.json").exists()]
HERE = {"device": "a GPU", "versions": {"torch": "2.11"}}
THERE = {"device": "another GPU", "versions": {"torch": "2.11"}}
RUN = {"group": "networks", "way": "vote", "seconds": 1.0, "held_out": None}


def test_what_was_made_elsewhere_says_so_itself(tmp_path):
    config = {"epochs": 1}
    Notebook(tmp_path, TABLE_5, config, HERE).add("runs", {**RUN, "seed": 0})
    resumed = Notebook(tmp_path, TABLE_5, config, THERE)
    resumed.add("runs", {**RUN, "seed": 1})
    resumed.add("trunks", {"network": "a", "seed": 0, "seconds": 2.0, **HERE})
    old = {"device": "a GPU", "versions": {"torch": "2.10"}}
    resumed.add("trunks", {"network": "b", "seed": 0, "seconds": 2.0, **old})
    record = json.loads(resumed.path.read_text(encoding="utf-8"))
    assert {key: record[key] for key in HERE} == HERE
    assert record["data"]["runs"] == [
        {**RUN, "seed": 0},
        {**RUN, "seed": 1, "device": "another GPU"},
    ]
    assert record["data"]["trunks"] == [
        {"network": "a", "seed": 0, "seconds": 2.0},
        {"network": "b", "seed": 0, "seconds": 2.0, "versions": {"torch": "2.10"}},
    ]
    assert record["config"]["seeds"] == [0, 1]
    assert record["seconds"] == 6.0


def test_an_entry_is_there_once(tmp_path):
    first, second = (Notebook(tmp_path, TABLE_5, {"epochs": 1}, HERE) for _ in range(2))
    assert first.add("runs", {**RUN, "seed": 0})
    assert not second.add("runs", {**RUN, "seed": 0, "seconds": 5.0})
    assert second.add("runs", {**RUN, "seed": 1})
    first.read()
    assert first.record["data"]["runs"] == [{**RUN, "seed": 0}, {**RUN, "seed": 1}]


def test_a_process_waits_for_another_or_is_told(tmp_path):
    path = tmp_path / "folder" / "file"
    with alone(path), pytest.raises(Timeout), alone(path, wait=False):
        pass
    with alone(path, wait=False):
        assert not path.exists()


WRITER = """
import sys
from pathlib import Path
from paper.pretrained.notebook import Notebook
from paper.pretrained.paper import TABLE_5

out, process = Path(sys.argv[1]), int(sys.argv[2])
notebook = Notebook(out, TABLE_5, {"epochs": 1}, {"device": "a GPU"})
(out / f"ready-{process}").touch()
while len(list(out.glob("ready-*"))) < 2:
    pass
for number in range(25):
    entry = {"group": "networks", "way": "vote", "seconds": 1.0, "seed": 2 * number + process}
    assert notebook.add("runs", entry)
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(process)]) for process in (0, 1)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    record = json.loads((tmp_path / "table-5.json").read_text(encoding="utf-8"))
    assert sorted(run["seed"] for run in record["data"]["runs"]) == list(range(50))
    assert record["config"]["seeds"] == list(range(50))


def test_a_record_that_says_nothing_of_cutout_means_none(tmp_path):
    notebook = Notebook(tmp_path, TABLE_5, {"lr": 0.001}, HERE)
    notebook.add("runs", {**RUN, "seed": 0})
    assert Notebook(tmp_path, TABLE_5, {"lr": 0.001, "cutout": 0}, HERE).has("runs", seed=0)
    with pytest.raises(ValueError, match=r"\(cutout: 12 here, 0 there\)"):
        Notebook(tmp_path, TABLE_5, {"lr": 0.001, "cutout": 12}, HERE)
    assert Notebook(tmp_path, TABLE_5, {"lr": 0.001, "origins": {"a": 1}}, HERE).has("runs", seed=0)


def test_a_record_of_other_images_or_weights_is_not_gone_on_with(tmp_path):
    Notebook(tmp_path, TABLE_5, {"origins": {"a": 1}}, HERE).add("runs", {**RUN, "seed": 0})
    with pytest.raises(ValueError, match=r"\(origins: \{'a': 2\} here, \{'a': 1\} there\)"):
        Notebook(tmp_path, TABLE_5, {"origins": {"a": 2}}, HERE)


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_record_can_be_gone_on_with(tmp_path, name):
    shutil.copy(ROOT / "results" / f"{name}.json", tmp_path)
    known = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    config = {"cutout": 0} | {key: value for key, value in known["config"].items() if key != "seeds"}
    notebook = Notebook(tmp_path, TABLES[name], config, HERE)
    seed = max(known["config"]["seeds"])
    assert notebook.has("runs", way="vote", seed=seed)
    notebook.add("runs", {**RUN, "seed": seed + 1})
    record = json.loads(notebook.path.read_text(encoding="utf-8"))
    assert {key: record[key] for key in HERE} == {key: known[key] for key in HERE}
    assert record["data"]["runs"] == [*known["data"]["runs"], {**RUN, "seed": seed + 1, **HERE}]
