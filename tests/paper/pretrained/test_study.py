"""Tables 4 to 6: the protocol of the study, its growing record, and that documents say what records say."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from filelock import Timeout

from counterpoint.records import fill, mean, spread
from paper import reproduce
from paper.__main__ import main
from paper.pretrained import laboratory, study
from paper.pretrained.__main__ import rewrite
from paper.pretrained.paper import TABLE_4, TABLE_5, TABLE_6, TABLE_6_CIFAR_100, TABLES
from paper.pretrained.tables import choose, draw, find, grid, markdown, trajectories

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Two tables, written from smoke runs into one folder."""
    folder = tmp_path_factory.mktemp("smoke")
    for name in ("table-5", "table-6"):
        reproduce(name, folder, smoke=True)
    return folder


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_the_errors_are_those_that_the_paper_prints():
    # Tables 4, 5 and 6 of the paper
    singles = {"shufflenet_v2_x1_0": 2.80, "googlenet": 3.30, "mobilenet_v2": 2.70, "resnet18": 5.25}
    assert TABLE_4.paper.items() >= {**singles, "densenet121": 9.05, "networks joint": 7.55}.items()
    assert [TABLE_4.paper[f"networks lambda {lam}"] for lam in (0.1, 0.3, 0.5, 0.7, 0.9)] == [
        1.35, 1.25, 1.70, 1.90, 1.80
    ]  # fmt: skip
    assert list(TABLE_5.paper.values()) == [8.50, 6.43, 7.11, 7.78, 5.76, 5.91, 6.50]
    assert list(TABLE_6.paper.values()) == [5.44, 4.65]
    assert list(TABLE_6_CIFAR_100.paper.values()) == [17.28, 14.13]


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_number_of_the_paper_has_a_row(table):
    rows = {*table.networks, *(f"{group} {way}" for group in table.groups for way in table.ways)}
    assert set(table.paper) <= rows


def test_copies_share_a_trunk_and_ensembles_of_different_seeds_share_none():
    learners = TABLE_6.learners
    assert learners("copies", ["a"], 1) == [("a", 1)] * 3
    assert learners("apart", ["a"], 0) == [("a", 0), ("a", 1), ("a", 2)]
    assert not set(learners("apart", ["a"], 0)) & set(learners("apart", ["a"], 1))


def test_what_another_process_is_at_comes_last(monkeypatch, capsys):
    said = iter(["by now", None])

    def do(wait):
        if not wait:
            raise Timeout("busy.lock")
        return next(said)

    todo = [study.Job("busy", 4, do), study.Job("free", 2, lambda wait: "done"), study.Job("read", 4, do)]
    monkeypatch.setattr(study, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr(study.Study, "jobs", lambda self, seeds: todo)
    study.Study(TABLE_5, SimpleNamespace(record={"config": {"networks": {}}}), None).work([0])
    assert capsys.readouterr().err.splitlines() == [
        "1/3  free: done; about 0 s left",
        "2/3  busy: by now; about 0 s left",
        "3/3  read: on record",
    ]


def test_the_time_left_counts_only_what_is_trained(monkeypatch, capsys):
    now = [0.0]

    def job(label, cost, seconds, *, fails=False):
        def do(wait):
            now[0] += seconds
            if fails:
                raise RuntimeError("out of memory")
            return "done"

        return study.Job(label, cost, do)

    todo = [job("read", 0, 3), job("failed", 9, 1, fails=True), job("trained", 2, 10), job("next", 4, 32)]
    monkeypatch.setattr(study, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(study.Study, "jobs", lambda self, seeds: todo)
    notebook = SimpleNamespace(record={"config": {"networks": {}}})
    with pytest.warns(RuntimeWarning, match="failed was left out: out of memory"):
        study.Study(TABLE_5, notebook, None).work([0])
    assert capsys.readouterr().err.splitlines() == [
        "1/4  read: done",
        "3/4  trained: done; about 20 s left",
        "4/4  next: done; about 0 s left",
    ]


def test_a_trunk_that_is_there_costs_nothing(smoke, tmp_path):
    images = study.load_images(TABLE_5, None, smoke=True)
    settings = laboratory.Settings(
        epochs=1, more_epochs=2, size=16, batch_size=32, width=4, cutout=TABLE_5.cutout
    )
    costs = []
    for folder in (smoke / "trunks", tmp_path):
        place = laboratory.Laboratory(
            images, settings, weights=None, folder=folder, device=torch.device("cpu")
        )
        notebook = study.Notebook(tmp_path, TABLE_5, {"networks": ["convnet", "cifar_resnet18"]}, {})
        costs.append([job.cost for job in study.Study(TABLE_5, notebook, place).jobs([0])][:3])
    assert costs == [[0, 0, 1], [laboratory.SCRATCH] * 2 + [1]]


def test_a_smoke_run_has_every_row_and_keeps_every_trajectory(smoke):
    for name in ("table-5", "table-6"):
        record, table = read(smoke, name), TABLES[name]
        assert record["config"]["smoke"] is True
        assert record["versions"]["torch"] == torch.__version__
        assert record["seconds"] > 0
        for group in table.groups:
            for way in table.ways:
                (run,) = find(record, group, way)
                assert len(run["epochs"]) == (0 if way == "vote" else 2)
                for epoch in run["epochs"]:
                    assert {"r_tl", "r_ll", "test_soft", "test_r_tl", "test_r_ll"} <= set(epoch)
                if run["epochs"]:
                    assert run["epochs"][-1]["test_soft"] == run["test"]["soft"]
        assert all((smoke / f"{name}.{kind}").stat().st_size > 1000 for kind in ("png", "svg"))
        text = (smoke / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith("**Smoke run on digits")
        assert text == markdown(record, table)


def test_copies_start_as_one_and_the_single_nets_are_those_apart(smoke):
    record = read(smoke, "table-6")
    (copies,), (apart,) = find(record, "copies", "vote"), find(record, "apart", "vote")
    assert copies["test"]["r_ll"] == pytest.approx(1)
    assert apart["test"]["r_ll"] < 0.9
    assert copies["test"]["learners"] == [apart["test"]["learners"][0]] * 3
    cell = grid(record, TABLE_6, spread).rows[0][2]
    assert cell == f"{spread(apart['test']['learners'], 2)} (3)"


def test_training_on_moves_the_ensembles(smoke):
    paths = trajectories(read(smoke, "table-5"), TABLE_5, "test")
    assert len(paths) == 5
    starts = {(r_tl[0], r_ll[0]) for r_tl, r_ll in paths.values()}
    ends = {(r_tl[-1], r_ll[-1]) for r_tl, r_ll in paths.values()}
    assert len(starts) == 1
    assert len(ends) == 5


def test_a_path_begins_where_its_own_seeds_did():
    def run(way, seed, r_tl):
        test = {"r_tl": r_tl, "r_ll": 0.5}
        epochs = [] if way == "vote" else [{"test_r_tl": 0.9, "test_r_ll": 0.4}]
        return {"group": "networks", "way": way, "seed": seed, "test": test, "epochs": epochs}

    runs = [run("vote", 0, 0.6), run("vote", 1, 0.8), run("joint", 1, 0.9)]
    record = {"config": {"more_epochs": 1}, "data": {"runs": runs}}
    ((r_tl, _),) = trajectories(record, TABLE_5, "test").values()
    assert list(r_tl) == [0.8, 0.9]


def test_a_finished_study_runs_nothing_again_and_a_killed_one_goes_on(smoke, tmp_path, monkeypatch):
    folder = shutil.copytree(smoke, tmp_path / "copy")
    record = read(folder, "table-5")
    lost = record["data"]["runs"].pop()
    (folder / "table-5.json").write_text(json.dumps(record), encoding="utf-8")
    trained = []
    run = laboratory.Laboratory.run
    monkeypatch.setattr(laboratory.Laboratory, "run", lambda *a: trained.append(a[2:]) or run(*a))
    for _ in range(2):
        reproduce("table-5", folder, smoke=True)
    assert trained == [(lost["way"], lost["seed"])]
    again = read(folder, "table-5")["data"]["runs"][-1]
    assert {**again, "seconds": 0, "epochs": 0} == {**lost, "seconds": 0, "epochs": 0}
    for key in ("loss", "test_soft"):
        assert [epoch[key] for epoch in again["epochs"]] == [epoch[key] for epoch in lost["epochs"]]


def test_a_run_that_another_process_put_on_record_is_not_run(smoke, tmp_path, monkeypatch):
    folder = shutil.copytree(smoke, tmp_path / "copy")
    record = read(folder, "table-5")
    whole = json.dumps(record)
    lost = [record["data"]["runs"].pop() for _ in range(2)]
    (folder / "table-5.json").write_text(json.dumps(record), encoding="utf-8")
    run, done = laboratory.Laboratory.run, []

    def meanwhile(*arguments):
        (folder / "table-5.json").write_text(whole, encoding="utf-8")
        done.append(arguments[2])
        return run(*arguments)

    monkeypatch.setattr(laboratory.Laboratory, "run", meanwhile)
    reproduce("table-5", folder, smoke=True)
    assert done == [lost[1]["way"]]
    assert json.dumps(read(folder, "table-5")) == whole


@pytest.mark.slow
def test_processes_with_one_folder_share_the_work(smoke, tmp_path):
    command = [
        sys.executable,
        "-m",
        "counterpoint",
        "table-6",
        "--smoke",
        "--out",
        str(tmp_path),
    ]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], said
    shared, alone_ = (read(folder, "table-6")["data"] for folder in (tmp_path, smoke))
    for kind, keys in (("trunks", ("network", "seed")), ("runs", ("group", "way", "seed"))):
        mine, theirs = ({tuple(e[key] for key in keys): e for e in data[kind]} for data in (shared, alone_))
        assert len(shared[kind]) == len(mine)
        assert mine.keys() == theirs.keys()
    for one in shared["runs"]:
        (other,) = (o for o in alone_["runs"] if all(o[key] == one[key] for key in ("group", "way", "seed")))
        for part in ("test", "held_out"):
            for key, value in one[part].items():  # but for how many threads have added up
                assert value == pytest.approx(other[part][key], abs=1e-4)
    trained = [line for text in said for line in text.splitlines() if " % in " in line]
    assert len(trained) == len(shared["runs"])  # each by one process


def test_another_study_is_not_overwritten(smoke, capsys):
    assert main(["table-5", "--smoke", "--out", str(smoke), "--more-epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert "`out` must be a folder without table-5.json, or with one of the same settings" in error
    assert "(more_epochs: 1 here, 2 there)" in error


def test_what_fails_is_left_out_with_a_warning(tmp_path, monkeypatch):
    run = laboratory.Laboratory.run

    def failing(self, learners, way, seed):
        if way == "joint":
            raise RuntimeError("out of memory")
        return run(self, learners, way, seed)

    monkeypatch.setattr(laboratory.Laboratory, "run", failing)
    few = replace(TABLE_5, ways=("vote", "joint"))
    with pytest.warns(RuntimeWarning, match="networks, joint, seed 0 was left out: out of memory"):
        paths = study.reproduce_table(few, tmp_path, smoke=True, seeds=1)
    assert [run["way"] for run in read(tmp_path, "table-5")["data"]["runs"]] == ["vote"]
    assert paths[0].exists()


def test_lambda_is_chosen_by_held_out_images_and_not_by_test_images():
    def entry(way, held_out, test):
        return {"group": "g", "way": way, "seed": 0, "held_out": {"soft": held_out}, "test": {"soft": test}}

    runs = [entry("lambda 0.1", 2.0, 5.0), entry("lambda 0.2", 1.0, 6.0), entry("lambda 0.3", 1.0, 4.0)]
    record = {"data": {"runs": runs}}
    ways = ("joint", "lambda 0.1", "lambda 0.2", "lambda 0.3")
    assert [run["way"] for run in choose(record, "g", ways)] == ["lambda 0.2"]
    assert choose(record, "g", ways[:2]) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table-4", "--smoke", "--data", "x"], "`--data` has no meaning with `--smoke`."),
        (["table-4", "--smoke", "--weights", "x"], "`--weights` has no meaning with `--smoke`."),
        (
            ["table-5", "--smoke", "--networks", "convnet"],
            "`networks` must be two or more different networks",
        ),
        (["table-6", "--smoke", "--networks", "convnet,cifar_resnet18"], "`networks` must be one network"),
        (["table-5", "--smoke", "--networks", "vgg,convnet"], "`networks` must be one of 'convnet'"),
        (["table-5", "--smoke", "--device", "cuda:99"], "`device` must be one that torch finds"),
        (["table-5", "--data", "no-such-folder"], "`data_dir` must be a folder that exists"),
        (["table-5", "--weights", "no-such-folder"], "`weights` must be a folder that exists"),
        (["table-5", "--networks", "resnet81,convnet"], "`networks` must be one of 'convnet'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys, tmp_path):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_record_that_was_cut_off_is_one_sentence(smoke, tmp_path, capsys):
    text = (smoke / "table-5.json").read_text(encoding="utf-8")
    (tmp_path / "table-5.json").write_text(text[: len(text) // 2], encoding="utf-8")
    assert main(["table-5", "--smoke", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"'{tmp_path / 'table-5.json'}' must hold JSON; reading it failed: " in said
    assert len(said.splitlines()) == 1


def test_a_folder_of_weights_must_hold_one_of_the_networks(tmp_path, capsys):
    (tmp_path / "densenet121.safetensors").touch()
    arguments = ["--networks", "resnet18,mobilenet_v2", "--weights", str(tmp_path)]
    assert main(["table-5", *arguments, "--out", str(tmp_path / "out")]) == 2
    rule = (
        "`weights` must be a folder with one or more of resnet18.safetensors, mobilenet_v2.safetensors; got "
    )
    assert rule in capsys.readouterr().err
    assert study.check_weights(tmp_path, ["resnet18", "densenet121"], smoke=False) == tmp_path


def test_a_record_goes_into_a_document(smoke, tmp_path):
    document = tmp_path / "page.md"
    document.write_text("a\n<!-- table-5 -->\n<!-- end of table-5 -->\nb\n", encoding="utf-8")
    rewrite(smoke / "table-5.json", document)
    assert (tmp_path / "images" / "table-5.png").read_bytes() == (smoke / "table-5.png").read_bytes()
    assert markdown(read(smoke, "table-5"), TABLE_5) in document.read_text(encoding="utf-8")


COMMITTED = [name for name in TABLES if (ROOT / "results" / f"{name}.json").exists()]


@pytest.mark.parametrize("name", ["smoke", *COMMITTED])
def test_the_name_of_the_bound_stands_inside_the_axes(smoke, name):
    record = read(smoke, "table-5") if name == "smoke" else read(ROOT / "results", name)
    figure = draw(record, TABLES[record["name"]])
    figure.draw_without_rendering()
    for ax in figure.axes:
        for box in (text.get_window_extent() for text in ax.texts):
            assert ax.bbox.x0 <= box.x0 < box.x1 <= ax.bbox.x1
            assert ax.bbox.y0 <= box.y0 < box.y1 <= ax.bbox.y1


@pytest.mark.parametrize("name", COMMITTED)
def test_the_document_shows_the_committed_record(name):
    document = (ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8")
    record = read(ROOT / "results", name)
    assert record["config"]["smoke"] is False
    assert fill(document, name, markdown(record, TABLES[name])) == document


@pytest.mark.parametrize("name", COMMITTED)
def test_the_defaults_are_the_settings_of_the_committed_record(name):
    config, table = read(ROOT / "results", name)["config"], TABLES[name]
    for key in ("epochs", "more_epochs", "size"):
        assert getattr(table, key) == config[key]
    assert table.cutout == config.get("cutout", 0)  # as Notebook reads it


def test_the_sentences_of_the_document_say_what_the_records_say():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())

    def vote(table, group, way):
        runs = find(read(ROOT / "results", f"table-{table}"), group, way)
        return mean([run["test"]["soft"] for run in runs], 2)

    five = {way: vote(5, "networks", way) for way in TABLE_5.ways}
    for words in (
        f"networks as they are ({five['vote']} %) stays ahead of training on independently ({five['independent']})",
        "({} at λ = 0.1, {} at 0.2, {} at 0.3;".format(*(five[f"lambda {lam}"] for lam in (0.1, 0.2, 0.3))),
        f"and by joint cross-entropy ({five['joint']})",
        f"come from {vote(6, 'copies', 'vote')} to {vote(6, 'copies', 'independent')} % by two epochs more",
        f"and by the correlation loss to {vote(6, 'copies', 'lambda 0.1')} %",
        f"are at {vote(6, 'apart', 'vote')} % before any further training, at {vote(6, 'apart', 'independent')} after "
        f"it and at {vote(6, 'apart', 'lambda 0.1')} by the correlation loss",
    ):
        assert words in page
