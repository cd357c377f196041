"""Tables 4 to 6: the jobs of the study, the record joined from them, and that documents say what records say."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from counterpoint.records import NONE, fill, mean, number, read_record, spread
from paper import reproduce
from paper.__main__ import main
from paper.pretrained import study
from paper.pretrained.images import load_images
from paper.pretrained.paper import (
    POOLED_LOGITS,
    TABLE_4,
    TABLE_5,
    TABLE_5_SHORT,
    TABLE_6,
    TABLE_6_CIFAR_100,
    TABLE_6_SHORT,
    TABLES,
)
from paper.pretrained.recipe import Settings
from paper.pretrained.tables import (
    choose,
    draw,
    find_runs,
    grid,
    markdown,
    robust_grids,
    trajectories,
    vote_error,
)
from paper.pretrained.trainer import Trainer

ROOT = Path(__file__).parents[3]
COMMITTED = ["table-4", "table-5", "table-5-short", "table-6", "table-6-short", "table-6-cifar100"]


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
    rows = {*table.networks, *(f"{group} {arm}" for group in table.groups for arm in table.arms)}
    assert set(table.paper) <= rows


def test_copies_share_a_trunk_and_ensembles_of_different_seeds_share_none():
    learners = TABLE_6.learners
    assert learners("copies", ["a"], 1) == [("a", 1)] * 3
    assert learners("apart", ["a"], 0) == [("a", 0), ("a", 1), ("a", 2)]
    assert not set(learners("apart", ["a"], 0)) & set(learners("apart", ["a"], 1))


def test_a_table_has_a_job_for_every_trunk_and_every_run(tmp_path):
    images = load_images(TABLE_6, None, smoke=True)
    settings = Settings(epochs=1, more_epochs=2, size=16, batch_size=32, width=4)
    trainer = Trainer(images, settings, weights=None, folder=tmp_path, device=torch.device("cpu"))
    names = [job.name for job in study.list_jobs(TABLE_6, trainer, ["convnet"], 1)]
    assert names == [
        *(f"trunk-convnet-{seed}" for seed in range(3)),
        *(
            f"{group}-{arm}-0"
            for arm in ("vote", "independent", "lambda-0.1", "logits", "dial-0.5", "dial-0.9")
            for group in ("apart", "copies")
        ),
    ]


def test_a_smoke_run_has_every_row_and_keeps_every_trajectory(smoke):
    for name in ("table-5", "table-6"):
        record, table = read(smoke, name), TABLES[name]
        assert record["config"]["smoke"] is True
        assert record["torch"] == [torch.__version__]
        for group in table.groups:
            for arm in table.arms:
                (run,) = find_runs(record, group, arm)
                history, test = run["data"]["history"], run["data"]["test"]
                assert len(history) == (0 if arm == "vote" else 2)
                for epoch in history:
                    assert {"r_tl", "r_ll", "test_soft", "test_r_tl", "test_r_ll"} <= set(epoch)
                for voting in ("soft", "geometric") if history else ():
                    assert history[-1][f"test_{voting}"] == test[voting]
        assert all((smoke / f"{name}.{kind}").stat().st_size > 1000 for kind in ("png", "svg"))
        text = (smoke / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith("**Smoke run on digits")
        assert text == markdown(record, table)


def test_a_trunk_is_trained_once_for_all_tables_and_says_where(smoke):
    record = read(smoke, "table-6")["data"]["trunk-convnet-0"]
    assert record == read(smoke, "table-5")["data"]["trunk-convnet-0"]
    assert record["data"]["versions"]["torch"] == torch.__version__
    assert len([path for path in (smoke / "trunks").glob("*.safetensors") if "convnet-0" in path.name]) == 1


def test_copies_start_as_one_and_the_single_networks_are_those_apart(smoke):
    record = read(smoke, "table-6")
    copies, apart = (find_runs(record, group, "vote")[0]["data"]["test"] for group in ("copies", "apart"))
    assert copies["r_ll"] == pytest.approx(1)
    assert apart["r_ll"] < 0.9
    assert copies["learners"] == [apart["learners"][0]] * 3
    cell = grid(record, TABLE_6, spread).rows[0][2]
    assert cell == f"{spread(apart['learners'], 2)} (3)"


def test_training_on_moves_the_ensembles(smoke):
    paths = trajectories(read(smoke, "table-5"), TABLE_5, "test")
    assert len(paths) == 8
    starts = {(r_tl[0], r_ll[0]) for r_tl, r_ll in paths.values()}
    ends = {(r_tl[-1], r_ll[-1]) for r_tl, r_ll in paths.values()}
    assert len(starts) == 1
    assert len(ends) == 8


def test_a_path_begins_where_its_own_seeds_did():
    def run(arm, seed, r_tl):
        history = [] if arm == "vote" else [{"test_r_tl": 0.9, "test_r_ll": 0.4}]
        return {
            "config": {"group": "networks", "arm": arm, "seed": seed, "more_epochs": 1},
            "data": {"test": {"r_tl": r_tl, "r_ll": 0.5}, "history": history},
        }

    runs = [run("vote", 0, 0.6), run("vote", 1, 0.8), run("joint", 1, 0.9)]
    record = {"data": dict(enumerate(runs))}
    ((r_tl, _),) = trajectories(record, TABLE_5, "test").values()
    assert list(r_tl) == [0.8, 0.9]


def test_every_path_is_drawn_in_a_style_of_its_own(smoke):
    figure = draw(read(smoke, "table-6"), TABLE_6)
    for ax in figure.axes:
        paths = [line for line in ax.lines if line.get_markevery() == [-1]]
        assert len(paths) == 10  # five arms that train, of two groups
        assert len({(line.get_color(), line.get_linestyle()) for line in paths}) == 10
        assert len({line.get_marker() for line in paths}) == 10


def test_a_table_shows_the_vote_that_each_loss_trains(smoke):
    record = read(smoke, "table-6")
    for voting, arms in (
        ("soft", ("vote", "independent", "lambda 0.1")),
        ("geometric", ("logits", "dial 0.5", "dial 0.9")),
    ):
        for group, arm in product(TABLE_6.groups, arms):
            for part in ("test", "test_uncalibrated", "test_unmirrored", "held_out"):
                assert find_runs(record, group, arm)[0]["data"][part]["voting"] == voting
    test = {"soft": 4.0, "geometric": 3.0, "hard": 5.0, "learners": [6.0], "r_tl": 0.9, "r_ll": 0.8}
    scores = {"voting": "geometric", "log_loss": 0.1, "brier_score": 0.05, "calibration_error": 0.02}
    new = record["data"]["apart-dial-0.5-0"]["data"]
    new |= dict.fromkeys(("test", "test_uncalibrated", "test_unmirrored"), test | scores)
    new["history"] = [{"test_soft": 1.0, "test_geometric": 2.0}]
    old = record["data"]["apart-vote-0"]["data"]
    old |= dict.fromkeys(("test", "test_uncalibrated", "test_unmirrored"), test | {"learners": [6.0] * 3})
    del old["test"]["geometric"]  # a record made before it was measured
    table = grid(record, TABLE_6, mean)
    rows = {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.rows}
    row = rows["apart: DiversityLoss(0.5)"]
    names = ("ours", "best test epoch", "uncalibrated", "soft vote", "geometric vote", "log-loss", "ECE %")
    assert [row[name] for name in names] == ["3.00 (1)", "2.00", "3.00", "4.00", "3.00", "0.100", "2.00"]
    row = rows["apart: no further training"]
    assert [row[name] for name in names] == ["4.00 (1)", NONE, "4.00", "4.00", NONE, NONE, NONE]


def test_a_short_table_averages_weights_and_says_so(tmp_path):
    paths = reproduce("table-6-short", tmp_path, smoke=True, parts="trunk-convnet-0,copies-vote")
    record = json.loads(paths[0].read_text(encoding="utf-8"))
    assert list(record["data"]) == ["trunk-convnet-0", "copies-vote-0"]
    assert (TABLE_6_SHORT.ema, TABLE_6_CIFAR_100.ema) == (0.998, 0.0)
    assert {job["config"]["ema"] for job in record["data"].values()} == {study.SMOKE_EMA}
    assert not any("trunk_lr_share" in job["config"] for job in record["data"].values())


def test_a_finished_study_runs_nothing_again_and_a_killed_one_goes_on(smoke, tmp_path, monkeypatch):
    folder = shutil.copytree(smoke, tmp_path / "copy")
    path = folder / "table-5" / "networks-lambda-0.3-0.json"
    lost = read_record(path)["data"]
    path.unlink()
    trained = []
    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", lambda *a, **k: trained.append(a[2:]) or run(*a, **k))
    for _ in range(2):
        reproduce("table-5", folder, smoke=True)
    assert trained == [("lambda 0.3", 0)]
    again = read_record(path)["data"]
    assert {**again, "seconds": 0, "history": 0} == {**lost, "seconds": 0, "history": 0}
    for key in ("loss", "test_soft"):
        assert [epoch[key] for epoch in again["history"]] == [epoch[key] for epoch in lost["history"]]


def test_a_damaged_job_is_reported_and_run_again(smoke, tmp_path):
    folder = shutil.copytree(smoke, tmp_path / "copy")
    path = folder / "table-5" / "networks-vote-0.json"
    whole = read_record(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(RuntimeWarning, match=r"networks-vote-0\.json' must hold JSON.* The job is run again"):
        reproduce("table-5", folder, smoke=True)
    assert read_record(path)["data"]["test"] == whole["data"]["test"]


def test_some_jobs_can_be_run_alone(tmp_path):
    reproduce("table-6", tmp_path, smoke=True, parts="trunk-convnet-0")
    assert list(read(tmp_path, "table-6")["data"]) == ["trunk-convnet-0"]
    assert (tmp_path / "table-6.md").read_text(encoding="utf-8") == ""  # no ensemble yet
    reproduce("table-6", tmp_path, smoke=True, parts="copies-vote")
    assert list(read(tmp_path, "table-6")["data"]) == ["trunk-convnet-0", "copies-vote-0"]


@pytest.mark.slow
def test_processes_with_one_folder_share_the_work(smoke, tmp_path):
    command = [sys.executable, "-m", "paper", "table-6", "--smoke", "--out", str(tmp_path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], said
    shared, alone = (read(folder, "table-6")["data"] for folder in (tmp_path, smoke))
    assert list(shared) == list(alone)
    for name, one in shared.items():
        for part in ("test", "held_out") if "arm" in one["config"] else ():
            for key, value in one["data"][part].items():  # the number of threads may change the last digits
                assert value == pytest.approx(alone[name]["data"][part][key], abs=1e-4)
    trained = [line for text in said for line in text.splitlines() if line.endswith(" s")]
    assert len(trained) == len(shared)  # each by one process


def test_jobs_of_other_settings_are_refused_before_any_work(smoke, capsys):
    assert main(["table-5", "--smoke", "--out", str(smoke), "--more-epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert "`out` must be a folder without networks-vote-0.json, or with one of the same settings" in error
    assert "(more_epochs: 1 here, 2 there)" in error


def test_a_failed_job_is_reported_at_the_end_and_the_others_are_done(tmp_path, monkeypatch):
    run = Trainer.run

    def failing(self, learners, arm, seed, **options):
        if arm == "joint":
            raise RuntimeError("out of memory")
        return run(self, learners, arm, seed, **options)

    monkeypatch.setattr(Trainer, "run", failing)
    few = replace(TABLE_5, arms=("vote", "joint", "independent"))
    with pytest.raises(RuntimeError, match="1 job failed: networks-joint-0: RuntimeError: out of memory"):
        study.reproduce_table(few, tmp_path, smoke=True, seeds=1)
    runs = find_runs(read(tmp_path, "table-5"))
    assert [run["config"]["arm"] for run in runs] == ["vote", "independent"]


def test_lambda_is_chosen_by_held_out_images_and_not_by_test_images():
    def entry(arm, held_out, test):
        config = {"group": "g", "arm": arm, "seed": 0}
        return {"config": config, "data": {"held_out": {"soft": held_out}, "test": {"soft": test}}}

    runs = [entry("lambda 0.1", 2.0, 5.0), entry("lambda 0.2", 1.0, 6.0), entry("lambda 0.3", 1.0, 4.0)]
    record = {"data": dict(enumerate(runs))}
    arms = ("joint", "lambda 0.1", "lambda 0.2", "lambda 0.3")
    assert [run["config"]["arm"] for run in choose(record, "g", arms)] == ["lambda 0.2"]
    assert choose(record, "g", arms[:2]) == []


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
def test_a_committed_record_is_joined_from_the_committed_jobs(name):
    jobs = {path.stem: read_record(path) for path in (ROOT / "results" / name).glob("*.json")}
    record = read(ROOT / "results", name)
    assert {job: {key: jobs[job][key] for key in ("config", "data")} for job in jobs} == record["data"]


@pytest.mark.parametrize("name", COMMITTED)
def test_the_defaults_are_the_settings_of_the_committed_record(name):
    table = TABLES[name]
    for run in find_runs(read(ROOT / "results", name)):
        for key in ("epochs", "more_epochs", "size", "cutout"):
            assert getattr(table, key) == run["config"][key]


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_jobs_have_the_settings_that_a_new_run_asks_for(name, tmp_path):
    record, table = read(ROOT / "results", name), TABLES[name]
    known = find_runs(record)[0]["config"]
    images = load_images(table, None, smoke=True)
    settings = Settings(table.epochs, table.more_epochs, table.size, cutout=table.cutout, ema=table.ema)
    trainer = Trainer(images, settings, weights=None, folder=tmp_path, device=torch.device("cpu"))
    seeds = 1 + max(run["config"]["seed"] for run in find_runs(record))
    asked = {job.name: job.config for job in study.list_jobs(table, trainer, list(known["networks"]), seeds)}
    assert asked.keys() >= record["data"].keys()
    # Images and weights are not here; the rest of a config depends on neither.
    data = {
        "images",
        "n_train",
        "n_held_out",
        "n_test",
        "networks",
        "checksum",
        "checksums",
        "start",
        "epochs",
    }
    for job, one in record["data"].items():
        config, found = asked[job], one["config"]
        assert config.keys() == found.keys()
        for key in config.keys() - data:
            assert config[key] == found[key], (job, key)


@pytest.mark.parametrize(
    ("name", "group", "following"),
    [
        ("table-5", "networks", "### "),
        ("table-5-short", "networks", "## Table 6"),
        ("table-6", "copies", "### "),
        ("table-6", "apart", "### "),
        ("table-6-short", "copies", "## Table 6 on CIFAR-100"),
        ("table-6-short", "apart", "## Table 6 on CIFAR-100"),
        ("table-6-cifar100", "copies", "## Where"),
        ("table-6-cifar100", "apart", "## Where"),
    ],
)
def test_the_text_around_a_table_has_the_errors_of_its_votes(name, group, following):
    page = (ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8")
    heading = name.removesuffix("-short").replace("-cifar", " on CIFAR-").replace("table-", "Table ")
    section = page.partition(f"## {heading}")[2]
    if name.endswith("-short"):
        section = section.partition("### Fewer epochs")[2]
    section = section.partition(following)[0]
    text = "\n".join(line for line in section.splitlines() if not line.startswith("|"))
    record = read(ROOT / "results", name)
    arms = {run["config"]["arm"] for run in find_runs(record, group)}
    assert arms >= {"vote", "independent", "lambda 0.1"}
    for arm in arms:
        error = mean([vote_error(run["data"]["test"]) for run in find_runs(record, group, arm)], 2)
        assert re.search(rf"\b{re.escape(error)}\b", text), (arm, error)


def test_what_is_said_of_averaged_logits_is_in_the_records():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())

    def error(table, group, arm):
        record = read(ROOT / "results", table)
        return mean([vote_error(run["data"]["test"]) for run in find_runs(record, group, arm)], 2)

    ours = [
        error("table-4", "networks", arm) for arm in ("logits", "dial 0.9", "dial 0.5", "independent", "vote")
    ]
    assert (
        "Averaged logits have the lowest error, {} %, and `DiversityLoss` {} % at 0.9 and {} % at 0.5, "
        "where independent training has {} % and no further training {} %.".format(*ours)
    ) in page


def test_what_is_said_of_fewer_epochs_is_in_the_records():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())
    long, short = (
        find_runs(read(ROOT / "results", name), "networks") for name in ("table-5", "table-5-short")
    )

    def errors(runs, arm, part="test"):
        return np.array([vote_error(run["data"][part]) for run in runs if run["config"]["arm"] == arm])

    held_out = [f"{errors(runs, 'vote', 'held_out').mean():.2f}" for runs in (short, long)]
    assert "on held-out images {} and {} %".format(*held_out) in page
    change = errors(short, "dial 0.5") - errors(short, "independent")
    half = stats.t.ppf(0.975, 2) * stats.sem(change)
    ends = [number(end, ".2f") for end in (change.mean(), change.mean() - half, change.mean() + half)]
    assert "by {} points [{}, {}] (95 %, paired by seed)".format(*ends) in page
    others = find_runs(read(ROOT / "results", "table-6-short"), "apart")
    scores = {
        arm: np.mean([run["data"]["test"]["log_loss"] for run in others if run["config"]["arm"] == arm])
        for arm in TABLE_6.arms
    }
    assert min(scores[arm] for arm in POOLED_LOGITS) > scores["independent"]


def test_no_loss_beats_independent_training_as_the_page_says_first():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())
    found = {}
    for name, group in product(COMMITTED, ("networks", "copies", "apart")):
        errors = {}
        for run in find_runs(read(ROOT / "results", name), group):
            errors.setdefault(run["config"]["arm"], []).append(vote_error(run["data"]["test"]))
        for arm, own in errors.items():
            if arm not in ("vote", "independent") and len(own) == 3:
                change = np.subtract(own, errors["independent"])
                half = stats.t.ppf(0.975, 2) * stats.sem(change)
                found[name, group, arm] = [change.mean(), change.mean() - half, change.mean() + half]
    assert len(found) > 15
    assert all(high > 0 for _, _, high in found.values())
    long, short = (
        [
            vote_error(run["data"]["test"])
            for run in find_runs(read(ROOT / "results", name), "networks", "vote")
        ]
        for name in ("table-5", "table-5-short")
    )
    assert "averaged weights {} % ({} more [{}, {}])".format(mean(short, 2), *_more(short, long)) in page
    for where, words in (
        (("table-5-short", "networks", "dial 0.5"), "by {} points [{}, {}] with the networks of Table 5"),
        (("table-6-short", "apart", "dial 0.5"), "by {} [{}, {}] with those of Table 6 trained apart"),
        (("table-6-cifar100", "apart", "dial 0.5"), "and by {} [{}, {}] with those on CIFAR-100"),
        (("table-5", "networks", "lambda 0.1"), "a higher error in Table 5: {} points [{}, {}]"),
        (("table-5", "networks", "lambda 0.3"), "and {} [{}, {}]."),
    ):
        change, *ends = found[where]
        assert words.format(number(change, "+.2f"), *(number(end, ".2f") for end in ends)) in page


def test_what_the_page_says_of_further_training_is_in_the_records():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())

    def more(table, group, arm):
        ours, theirs = (
            [vote_error(run["data"]["test"]) for run in find_runs(read(ROOT / "results", table), group, one)]
            for one in (arm, "vote")
        )
        return [float(end.replace("−", "-")) for end in _more(ours, theirs)]  # noqa: RUF001

    arms = ("joint", "lambda 0.1", "lambda 0.2", "lambda 0.3")
    others = [more("table-5", "networks", arm) for arm in arms]
    assert all(low > 0 for _, low, _ in others)
    shares = sorted(mean for mean, _, _ in others)
    own, last = more("table-5", "networks", "independent"), more("table-6-cifar100", "apart", "independent")
    assert "by {:.2f} points with independent training [{:.2f}, {:.2f}]".format(*own) in page
    assert f"by {shares[0]:.2f} to {shares[-1]:.2f} with the others" in page
    assert "on CIFAR-100 by {:.2f} with independent training [{:.2f}, {:.2f}]".format(*last) in page
    mean_, low, high = more("table-5-short", "networks", "independent")
    assert f"by {-mean_:.2f} points in Table 5 [{-high:.2f}, {-low:.2f}]" in page
    ours, theirs = (
        [
            vote_error(run["data"]["test"])
            for run in find_runs(read(ROOT / "results", "table-5-short"), "networks", one)
        ]
        for one in ("lambda 0.3", "independent")
    )
    assert "it is {} higher at λ = 0.3 [{}, {}]".format(*_more(ours, theirs)) in page


def test_what_diversity_costs_on_cifar_100_is_in_the_record():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())
    runs = find_runs(read(ROOT / "results", "table-6-cifar100"), "apart")

    def scores(arm, key):
        return [run["data"]["test"][key] for run in runs if run["config"]["arm"] == arm]

    losses = _more(scores("dial 0.5", "log_loss"), scores("independent", "log_loss"), 3)
    assert "trained apart by {} [{}, {}] at 0.5".format(*losses) in page
    errors = _more(scores("dial 0.9", "geometric"), scores("independent", "geometric"))
    assert "a higher error at 0.9: +{} points [{}, {}]".format(*errors) in page


def _more(ours, theirs, digits=2):
    """Return the mean of the differences of paired errors, and the ends of its interval, as the page writes them."""
    change = np.subtract(ours, theirs)
    half = stats.t.ppf(0.975, len(change) - 1) * stats.sem(change)
    ends = (change.mean(), change.mean() - half, change.mean() + half)
    return [number(end, f".{digits}f") for end in ends]


def test_what_is_said_of_cifar_100_is_in_the_record():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())
    runs = find_runs(read(ROOT / "results", "table-6-cifar100"), "apart")
    scores = {
        arm: mean([run["data"]["test"]["log_loss"] for run in runs if run["config"]["arm"] == arm], 3)
        for arm in TABLE_6.arms
    }
    worse = [scores[arm] for arm in POOLED_LOGITS]
    assert f"({min(worse)} to {max(worse)}; {scores['independent']} with independent training)" in page
    votes, more = (
        [vote_error(run["data"]["test"]) for run in runs if run["config"]["arm"] == arm]
        for arm in ("vote", "independent")
    )
    change = np.subtract(more, votes)
    half = stats.t.ppf(0.975, 2) * stats.sem(change)
    ends = f"[{change.mean() - half:.2f}, {change.mean() + half:.2f}]"
    assert f"raises the error of the vote by {change.mean():.2f} points {ends}" in page
    apart, copies = (
        [
            mean(
                [
                    vote_error(run["data"]["test"])
                    for run in find_runs(read(ROOT / "results", name), group, "vote")
                ],
                2,
            )
            for name in ("table-6-cifar100", "table-6-short")
        ]
        for group in ("apart", "copies")
    )
    more = [
        _more(
            *(
                [
                    vote_error(run["data"]["test"])
                    for run in find_runs(read(ROOT / "results", name), group, "vote")
                ]
                for group in ("copies", "apart")
            )
        )
        for name in ("table-6-cifar100", "table-6-short")
    ]
    first = "an error of {} % on CIFAR-100, three copies of one {} %: {} points more [{}, {}]"
    assert first.format(apart[0], copies[0], *more[0]) in page
    second = "by the shorter recipe, it is {} and {} % ({} more [{}, {}]; three seeds each)"
    assert second.format(apart[1], copies[1], *more[1]) in page
    single = [run["data"]["test"]["learners"] for run in runs if run["config"]["arm"] == "vote"]
    assert f"a single network has {np.mean(single):.2f} %, where the paper reports 17.28" in page


def test_what_is_said_of_corrupted_images_is_in_the_record():
    page = " ".join((ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8").split())
    record = read(ROOT / "results", "table-5-short")
    found = {
        arm: [run["data"]["robust"] for run in find_runs(record, "networks", arm)]
        for arm in TABLE_5_SHORT.robust
    }

    def shifted(arm, key):
        return 100 * np.mean([one["shift"]["mean"][key] for one in found[arm]], axis=0)

    def area(arm, how):
        return np.mean([one["unknown"][how] for one in found[arm]])

    best = {arm: shifted(arm, "learner_errors")[2] for arm in found}
    vote = {arm: shifted(arm, "error") for arm in found}
    sentence = "EfficientNet-B0 alone has an error of {:.2f} % and the vote {:.2f} %"
    assert sentence.format(best["vote"], vote["vote"]) in page
    assert (shifted("vote", "learner_errors")[:2] > best["vote"] + 6).all()
    each = [one["shift"]["mean"] for one in found["vote"]]
    more = _more([100 * one["error"] for one in each], [100 * one["learner_errors"][2] for one in each], 1)
    assert "({} points more [{}, {}])".format(*more) in page
    votes, networks = ([each[arm] for arm in ("independent", "dial 0.5")] for each in (vote, best))
    sentence = "the vote has {:.2f} % after independent training and {:.2f} % after `DiversityLoss(0.5)`, with {:.2f}"
    assert f"{sentence} and {{:.2f}} % for EfficientNet-B0".format(*votes, *networks) in page
    for arm, words in (("independent", "({} points more [{}, {}]"), ("dial 0.5", "and {} more [{}, {}])")):
        each = [one["shift"]["mean"] for one in found[arm]]
        more = _more(
            [100 * one["error"] for one in each], [100 * one["learner_errors"][2] for one in each], 1
        )
        assert words.format(*more) in page
    wrong = [
        np.mean([one["wrong"]["confidence"] for one in found[arm]]) for arm in ("dial 0.5", "independent")
    ]
    assert "(areas of {:.3f} and {:.3f})".format(*wrong) in page
    for arm in ("dial 0.5", "dial 0.9"):
        apart = [one["unknown"]["entropy"] - one["unknown"]["mutual_information"] for one in found[arm]]
        assert np.mean(apart) > 0
        assert np.mean(apart) < stats.t.ppf(0.975, 2) * stats.sem(apart)
    errors = [shifted(arm, "calibration_error") for arm in ("independent", "dial 0.5")]
    areas = [area(arm, "confidence") for arm in ("independent", "dial 0.5")]
    assert "grows from {:.1f} to {:.1f} %".format(*errors) in page
    assert "by confidence drops from {:.3f} to {:.3f}".format(*areas) in page
    assert all(area(arm, "disagreement") < area(arm, "confidence") for arm in found)
    assert f"at most {max(area(arm, 'disagreement') for arm in found):.3f}" in page
    assert all(area(arm, "entropy") > area(arm, "confidence") for arm in found)
    better = {arm: area(arm, "mutual_information") - area(arm, "confidence") for arm in found}
    assert {arm for arm, more in better.items() if more > 0} == {"dial 0.5", "dial 0.9"}
    assert max(better.values()) < 0.002


def test_robust_arms_are_measured_on_corrupted_and_unknown_images(tmp_path):
    parts = "trunk,networks-vote,networks-joint"
    reproduce("table-5-short", tmp_path, smoke=True, parts=parts)
    record = read(tmp_path, "table-5-short")
    (vote,), (joint,) = (find_runs(record, "networks", arm) for arm in ("vote", "joint"))
    assert "robust" not in joint["data"]
    assert "n_robust" not in joint["config"]
    robust = vote["data"]["robust"]
    assert robust["k_of_n"][-1]["error"] == pytest.approx(vote["data"]["test_unmirrored"]["soft"] / 100)
    assert len(robust["shift"]["mean"]["learner_errors"]) == 2
    assert 0 <= robust["unknown"]["confidence"] <= 1
    (table,) = robust_grids(record, TABLE_5_SHORT)
    assert [row[0] for row in table.rows] == ["no further training"]
    assert table.rows[0][3] == f"{100 * robust['shift']['mean']['error']:.2f}"
    assert robust_grids(read(ROOT / "results", "table-5"), TABLE_5) == []
