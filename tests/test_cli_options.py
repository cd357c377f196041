"""What every command has in common: what it prints where, in which colours and letters, its exit codes, completion."""

import json
import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import typer

import counterpoint
from counterpoint.cli import COMMANDS, app, main
from counterpoint.io import Predictions

pytestmark = pytest.mark.filterwarnings("always")  # the command line prints them

CODE = "import sys; from counterpoint.cli import main; sys.exit(main())"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, now the current one, with votes, a table and a model of it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.choice(["cat", "dög"], 60)
    votes = np.where(rng.random((3, 60)) < 0.8, truth, "cat")
    Predictions(truth, votes, ("a", "b", "c")).write("votes.csv", truth="label")
    rows = [f"{k % 7 + 3 * (kind == 'cat')},{kind}\n" for k, kind in enumerate(truth)]
    (tmp_path / "table.csv").write_text("size,kind\n" + "".join(rows), encoding="utf-8")
    return tmp_path


FIT = ["fit", "table.csv", "-t", "kind", "--epochs", "2", "--learners", "2", "--out", "model"]
COMMAND_LINES = {
    "assess": ["assess", "votes.csv", "-t", "label", "--html", "page.html"],
    "compare": ["compare", "votes.csv", "votes.csv", "-t", "label", "--html", "page.html"],
    "select": ["select", "votes.csv", "-t", "label", "--size", "2", "--out", "chosen.csv"],
    "vote": ["vote", "votes.csv", "-t", "label", "--out", "consensus.csv"],
    "fit": FIT,
    "predict": ["predict", "model", "table.csv", "--out", "predicted.csv"],
    "demo": ["demo", "--data", "iris", "--out", "demo"],
    "arena": ["arena", "--smoke", "--sets", "iris", "--methods", "extra-trees", "--out", "arena"],
}


@pytest.fixture(params=COMMAND_LINES, ids=str)
def command_line(request, folder, monkeypatch, capsys):
    monkeypatch.setattr("counterpoint.cli._demo.find_spec", lambda name: None)  # no networks: seconds
    if request.param == "predict":
        main(FIT)
        capsys.readouterr()
    return COMMAND_LINES[request.param]


def test_the_lines_below_are_of_all_commands():
    assert {command.__name__ for command in COMMANDS} == COMMAND_LINES.keys()


def test_json_is_one_document_on_stdout_and_quiet_keeps_stderr_empty(command_line, capsys):
    assert main([*command_line, "--json", "-q"]) == 0
    captured = capsys.readouterr()
    assert isinstance(json.loads(captured.out), dict)
    assert captured.out.count("\n") == 1
    assert captured.err == ""


def test_quiet_prints_nothing_and_writes_the_files(command_line, folder, capsys):
    assert main([*command_line, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert (folder / command_line[-1]).exists()


@pytest.mark.parametrize("name", ["assess", "compare", "select", "vote"])
def test_with_json_the_words_go_to_stderr(name, folder, capsys):
    assert main([*COMMAND_LINES[name], "--json"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert f"Wrote {COMMAND_LINES[name][-1]}" in captured.err


def test_quiet_prints_errors_and_data_but_no_notes_or_warnings(folder, capsys):
    assert main(["vote", "votes.csv", "-q"]) == 0  # with a note that the column of the truth is left out
    captured = capsys.readouterr()
    assert captured.out.startswith("consensus,confidence\n")
    assert captured.err == ""
    assert main(["assess", "nothing.csv", "--quiet"]) == 2
    assert "nothing.csv" in capsys.readouterr().err


def test_json_of_a_vote_and_of_predictions(folder, capsys):
    (folder / "some.csv").write_text("id,a,b\n7,cat,cat\n8,,\n")
    assert main(["vote", "some.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "learners": ["a", "b"],
        "n_tied": 0,
        "n_without_vote": 1,
        "votes": [
            {"id": "7", "consensus": "cat", "confidence": 1.0},
            {"id": "8", "consensus": None, "confidence": None},
        ],
    }
    assert main([*FIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assessment"]["n_learners"] == 2
    for option, key in (("--proba", "probabilities"), ("--learners", "learners")):
        assert main(["predict", "model", "table.csv", "--json", option]) == 0
        first, *others = json.loads(capsys.readouterr().out)["predictions"]
        assert len(others) == 59
        shares = [first[key]] if key == "probabilities" else first[key]
        for share in shares:
            assert share.keys() == {"cat", "dög"}
            assert sum(share.values()) == pytest.approx(1)


def test_verbose_shows_the_log_and_leaves_the_logger_as_it_was(folder, capsys):
    logger = logging.getLogger("counterpoint")
    before = logger.level, list(logger.handlers)
    assert main([*COMMAND_LINES["assess"], "-v"]) == 0
    err = capsys.readouterr().err
    assert "counterpoint.io.sources: reading votes.csv as csv" in err
    assert re.search(r"wrote .*page\.html", err)
    assert (logger.level, logger.handlers) == before


def test_verbose_and_quiet_exclude_each_other(folder, capsys):
    assert main([*COMMAND_LINES["assess"], "-q", "-v"]) == 2
    assert "must not be given together" in capsys.readouterr().err


def test_the_library_logs_and_prints_nothing_by_itself(folder, caplog):
    (handler,) = logging.getLogger("counterpoint").handlers
    assert isinstance(handler, logging.NullHandler)
    with caplog.at_level(logging.INFO, "counterpoint"):
        counterpoint.read_predictions("votes.csv", "label")
    assert "reading votes.csv as csv" in caplog.text


def run(*arguments, **environment):
    command = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=os.environ | environment, check=False
    )


def on_terminal(*arguments, **environment):
    """Return what a command prints on a terminal."""
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    command = [sys.executable, "-c", CODE, *arguments]
    with subprocess.Popen(command, stdout=writer, stderr=writer, env=os.environ | environment) as process:
        os.close(writer)
        parts = []
        try:
            while part := os.read(reader, 4096):
                parts.append(part)
        except OSError:  # the other end was closed
            pass
        process.wait()
    os.close(reader)
    return b"".join(parts).decode()


def test_colours_are_for_terminals_that_want_them(folder):
    colour = re.compile(r"\x1b\[[\d;]*3\d")
    line = COMMAND_LINES["assess"]
    terminal = {"TERM": "xterm-256color"}
    assert colour.search(on_terminal(*line, **terminal))
    assert not colour.search(on_terminal(*line, NO_COLOR="1", **terminal))
    assert "\x1b" not in run(*line, **terminal).stdout
    assert "\x1b" not in run("assess", "--help", **terminal).stdout


def test_a_stream_that_lacks_a_letter_gets_words_with_a_question_mark_and_data_as_utf8(folder):
    environment = {"PYTHONIOENCODING": "ascii"}
    done = run(*COMMAND_LINES["assess"], **environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d \? \d", done.stdout)  # of a plus-minus sign
    done = run("vote", "votes.csv", "-q", **environment)
    assert "dög," in done.stdout


def test_a_reader_that_leaves_ends_the_command_with_code_1(folder):
    lines = ["id,a,b"] + [f"{k},{('cat,dog', 'dog,cat')[k % 2]}" for k in range(30_000)]
    (folder / "long.csv").write_text("\n".join(lines) + "\n")
    with subprocess.Popen(
        [sys.executable, "-c", CODE, "vote", "long.csv", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 1
    assert b"Traceback" not in errors


def test_an_interrupt_ends_with_code_130(folder, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("counterpoint.assessment.assess", interrupt)
    assert main(COMMAND_LINES["assess"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize(
    ("shell", "words", "answer"),
    [
        ("bash", {"COMP_WORDS": "counterpoint ass", "COMP_CWORD": "1"}, "assess"),
        ("bash", {"COMP_WORDS": "counterpoint vote --qu", "COMP_CWORD": "2"}, "--quiet"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "counterpoint ass"}, '"assess":"Assess an ensemble'),
        ("fish", {"_TYPER_COMPLETE_ARGS": "counterpoint ass", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "assess\t"),
    ],
)  # fmt: skip
def test_a_shell_is_told_how_words_may_end(shell, words, answer):
    done = run(_COUNTERPOINT_COMPLETE=f"complete_{shell}", **words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(answer) or answer in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_installs_itself(shell, tmp_path):
    done = run(
        "--install-completion", shell, HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_COUNTERPOINT_COMPLETE=complete_" in path.read_text() for path in written)
    done = run("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_COUNTERPOINT_COMPLETE" in done.stdout


def test_every_command_lists_the_common_options(capsys):
    for name in typer.main.get_command(app).commands:
        assert main([name, "--help"]) == 0
        out = capsys.readouterr().out
        assert all(option in out for option in ("--json", "--quiet", "--verbose"))
