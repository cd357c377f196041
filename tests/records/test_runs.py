"""One rule for every study: what is done stays, other settings are refused, damage and failure cost one job."""

import json
import multiprocessing
import time
from pathlib import Path

import pytest

from counterpoint.records import Job, JobRun, RunStore, run_jobs


def squares(calls, numbers=(1, 2, 3), power=2):
    def work(x):
        calls.append(x)
        if x < 0:
            raise ArithmeticError("below zero")
        return {"found": x**power}

    return [Job(f"n{x}", {"x": x, "power": power}, lambda x=x: work(x)) for x in numbers]


def run(jobs, folder, **options):
    return run_jobs(jobs, RunStore(folder), title="Powers", progress=False, **options)


def test_a_job_that_is_done_is_not_run_again(tmp_path):
    calls = []
    first = run(squares(calls, (1, 2)), tmp_path)
    again = run(squares(calls), tmp_path)
    assert calls == [1, 2, 3]
    assert list(again.records) == ["n1", "n2", "n3"]
    assert again.records["n2"] == first.records["n2"]
    assert again.records["n3"]["data"] == {"found": 9}
    assert again.records["n3"]["config"] == {"x": 3, "power": 2}
    assert again.records["n3"]["seconds"] >= 0
    assert again.failures == {}
    again.check()


def test_a_folder_of_other_settings_is_refused_before_any_work_and_left_alone(tmp_path):
    calls = []
    run(squares(calls, (3,)), tmp_path)
    before = (tmp_path / "n3.json").read_bytes()
    with pytest.raises(
        ValueError, match=r"without n3.json, or with one of the same settings \(power: 3 here, 2"
    ):
        run(squares(calls, power=3), tmp_path)
    assert calls == [3]
    assert (tmp_path / "n3.json").read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["n3.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"config": {}}', "\ud800"])
def test_a_damaged_file_is_reported_and_its_job_run_again(text, tmp_path):
    calls = []
    run(squares(calls), tmp_path)
    (tmp_path / "n2.json").write_bytes(
        text.encode("utf-16" if text == "\ud800" else "utf-8", "surrogatepass")
    )
    with pytest.warns(RuntimeWarning, match="n2.json.*The job is run again"):
        outcome = run(squares(calls), tmp_path)
    assert calls == [1, 2, 3, 2]
    assert outcome.records["n2"]["data"] == {"found": 4}


def test_a_job_that_fails_costs_no_other_and_is_tried_again(tmp_path):
    calls = []
    outcome = run(squares(calls, (1, -2, 3)), tmp_path)
    assert list(outcome.records) == ["n1", "n3"]
    assert outcome.failures == {"n-2": "ArithmeticError: below zero"}
    with pytest.raises(RuntimeError, match="1 job failed: n-2: ArithmeticError: below zero"):
        outcome.check()
    run(squares(calls, (1, -2, 3)), tmp_path)
    assert calls == [1, -2, 3, -2]


def test_only_some_jobs_are_run_and_all_that_are_done_are_returned(tmp_path):
    calls = []
    run(squares(calls), tmp_path, only={"n1"})
    outcome = run(squares(calls), tmp_path, only={"n3"})
    assert calls == [1, 3]
    assert list(outcome.records) == ["n1", "n3"]


def test_an_interrupt_ends_the_run_and_loses_nothing(tmp_path):
    def stop():
        raise KeyboardInterrupt

    jobs = [*squares([], (1,)), Job("stop", {}, stop)]
    with pytest.raises(KeyboardInterrupt):
        run(jobs, tmp_path)
    assert json.loads((tmp_path / "n1.json").read_text())["data"] == {"found": 1}
    assert list(RunStore(tmp_path)) == ["n1"]


def test_names_with_slashes_make_folders(tmp_path):
    run([Job("iris/ncl-0", {}, lambda: {"error": 0.1})], tmp_path)
    assert (tmp_path / "iris" / "ncl-0.json").is_file()
    assert list(RunStore(tmp_path)) == ["iris/ncl-0"]


def _slowly(folder):
    def work(x):
        time.sleep(0.2)
        return {"by": multiprocessing.current_process().name}

    run([Job(f"n{x}", {"x": x}, lambda x=x: work(x)) for x in range(6)], Path(folder))


def test_two_processes_share_a_folder_and_do_each_job_once(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_slowly, args=(tmp_path,), name=name) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    done = [json.loads((tmp_path / f"n{x}.json").read_text())["data"]["by"] for x in range(6)]
    assert set(done) == {"a", "b"}


def test_progress_says_what_is_done(tmp_path, capsys):
    run_jobs(squares([], (1, -2)), RunStore(tmp_path), title="Powers")
    said = capsys.readouterr().err
    assert "[1/2" in said
    assert "n1: " in said
    assert "n-2 failed: ArithmeticError: below zero" in said


def test_a_run_is_scheduled_by_its_caller_and_follows_the_same_rule(tmp_path):
    store = RunStore(tmp_path)
    configs = {name: {"x": x} for x, name in enumerate("abcde")}
    store.write("a", configs["a"], {"found": 0}, title="Numbers")
    with store.lock("d"), JobRun(configs, store, title="Numbers", progress=False) as first:
        assert first.missing == ["b", "c", "d", "e"]
        assert [first.claim(name) for name in first.missing] == [True, True, False, True]
        with JobRun(configs, store, title="Numbers", progress=False) as second:
            assert not second.claim("b")
        first.write("b", {"found": 1}, seconds=2.0, device="CPU")
        assert not second.claim("b")  # done by another
        first.fail("c", ArithmeticError("no number"))
        assert second.claim("c")  # which a failure releases
        second.write("c", {"found": 2}, seconds=1.0)
    outcome = first.outcome()
    assert list(outcome.records) == ["a", "b"]
    assert outcome.records["b"]["device"] == "CPU"
    assert outcome.failures == {"c": "ArithmeticError: no number"}
    assert list(second.outcome().records) == ["a", "b", "c"]
    with store.lock("e", wait=False):  # released though its work never ended
        pass


def test_a_record_has_the_name_of_its_job(tmp_path):
    outcome = run([Job("iris/ncl-0", {}, lambda: {"error": 0.1})], tmp_path)
    assert outcome.records["iris/ncl-0"]["name"] == "iris/ncl-0"
