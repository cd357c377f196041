"""The runner of all studies: which jobs run, what is refused, and what is written."""

import json

import pytest
import torch

from counterpoint.records import Grid, Job, RunStore
from paper.runner import Study, check_kind, run_study, select_jobs

CPU = torch.device("cpu")


def draw(record):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([one["data"]["error"] for one in record["data"].values()])
    return {"probe": figure}


def tables(record):
    rows = [[name, str(one["data"]["error"])] for name, one in record["data"].items()]
    return [Grid("Errors", ["job", "error"], rows)]


STUDY = Study("probe", "A probe", tables, draw)


def job(name, error, **config):
    return Job(name, config, lambda: {"error": error})


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_study_writes_jobs_record_page_and_figure(tmp_path):
    jobs = [job("a", 1 / 3, width=4), job("b", 0.5, width=8)]
    paths = run_study(STUDY, jobs, tmp_path, smoke=True, device=CPU)
    assert [path.name for path in paths] == ["probe.json", "probe.md", "probe.png", "probe.svg"]
    record = read(paths[0])
    assert record["data"] == {
        "a": {"config": {"width": 4}, "data": {"error": 0.33333}},
        "b": {"config": {"width": 8}, "data": {"error": 0.5}},
    }
    assert record["config"] == {"smoke": True}
    assert record["torch"] == [torch.__version__]
    one = read(tmp_path / "probe" / "a.json")
    assert one["seconds"] >= 0
    assert record["device"] == [one["device"]]
    assert paths[1].read_text(encoding="utf-8").startswith("**Errors**\n\n| job | error |")


def test_a_study_may_have_a_page_of_its_own(tmp_path):
    study = STUDY._replace(page=lambda record: f"{len(record['data'])} job\n")
    _, page, *_ = run_study(study, [job("a", 0.1)], tmp_path)
    assert page.read_text(encoding="utf-8") == "1 job\n"


def test_a_study_that_other_processes_work_on_is_left_to_them(tmp_path):
    with (
        RunStore(tmp_path / "probe").lock("a"),
        pytest.raises(RuntimeError, match="No job of probe is done yet"),
    ):
        run_study(STUDY, [job("a", 0.1)], tmp_path)


def test_finished_jobs_are_shown_although_other_parts_are_run(tmp_path):
    run_study(STUDY, [job("a", 0.1), job("b", 0.2)], tmp_path, parts="b")
    path, *_ = run_study(STUDY, [job("a", 0.3), job("b", 0.9)], tmp_path, parts="a")
    assert {name: one["data"]["error"] for name, one in read(path)["data"].items()} == {"a": 0.3, "b": 0.2}


def test_a_failed_job_costs_no_other_and_is_raised_at_the_end(tmp_path):
    broken = Job("a", {}, lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="1 job failed: a: ZeroDivisionError: division by zero"):
        run_study(STUDY, [broken, job("b", 0.2)], tmp_path)
    assert list(read(tmp_path / "probe.json")["data"]) == ["b"]
    with pytest.raises(RuntimeError, match="1 job failed: a"):
        run_study(STUDY, [broken], tmp_path / "other")
    assert not (tmp_path / "other" / "probe.json").exists()


def test_a_job_of_other_settings_is_never_written_over(tmp_path):
    run_study(STUDY, [job("a", 0.5, width=4)], tmp_path)
    before = (tmp_path / "probe" / "a.json").read_text(encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"without a\.json, or with one of the same settings \(width: 8 here"
    ):
        run_study(STUDY, [job("a", 0.5, width=8)], tmp_path)
    assert (tmp_path / "probe" / "a.json").read_text(encoding="utf-8") == before


NAMES = ["width-8", "width-32", "once-8", "once-more-8", "net-n1-s0", "net-n10-s0"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (None, NAMES),
        ("width", ["width-8", "width-32"]),
        (" once-8 , net-n1", ["once-8", "net-n1-s0"]),  # and not net-n10
        ("once", ["once-8", "once-more-8"]),
        ("net-n1-", ["net-n1-s0"]),
    ],
)
def test_parts_select_jobs_by_whole_words_of_their_names(parts, expected):
    assert list(select_jobs(parts, NAMES)) == expected


@pytest.mark.parametrize("parts", ["", "widht", "width,", "width,nothing", "net-n"])
def test_parts_that_match_no_job_are_refused_before_anything_runs(parts):
    with pytest.raises(ValueError, match=r"`parts` must be beginnings of names, of width, once, net; got "):
        select_jobs(parts, NAMES)


@pytest.mark.parametrize("text", ["[]", '{"name": "image-dial"}'])
def test_a_record_of_something_else_is_named(tmp_path, text):
    (tmp_path / "image-dial.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"image-dial\.json' must hold a record with config; it holds other JSON"
    ):
        check_kind(tmp_path, "image-dial", smoke=True)


@pytest.mark.parametrize("smoke", [True, False])
def test_smoke_runs_and_real_ones_do_not_mix(tmp_path, smoke):
    check_kind(tmp_path, "probe", smoke=smoke)
    (tmp_path / "probe.json").write_text(json.dumps({"config": {"smoke": not smoke}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"`out` must be a folder without probe\.json"):
        run_study(STUDY, [job("a", 0.5)], tmp_path, smoke=smoke)
    assert [path.name for path in tmp_path.iterdir()] == ["probe.json"]
