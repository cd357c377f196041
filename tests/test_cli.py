"""The command line: what it prints where, and how it ends."""

import json
import os
import subprocess
import sys
import time

import pytest

import counterpoint
from counterpoint.cli import main
from counterpoint.io import TABLE_FORMATS


def run(*arguments, **environment):
    """Run the command line in a process of its own, its output piped."""
    return subprocess.run(
        [sys.executable, "-c", "import sys; from counterpoint.cli import main; sys.exit(main())", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"counterpoint {counterpoint.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_the_commands(arguments, capsys):
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for word in ("demo", "assess", "--version", "--debug"):
        assert word in captured.out


def test_help_is_quick_and_imports_no_heavy_package():
    code = (
        "import sys; from counterpoint.cli import main; main(['--help']);"
        "print([m for m in ('numpy', 'sklearn', 'torch', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 2
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["asess"], "No such command 'asess'. Did you mean 'assess'?"),
        (["assess", "no-such-file.csv"], "no-such-file.csv"),
        (["demo", "--data", "no-such-set"], "no-such-set"),
        (["demo", "--seed", str(2**32)], "'--seed': "),
    ],
)
def test_an_error_is_one_sentence_on_stderr_and_exit_code_2(arguments, sentence, capsys, tmp_path):
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "demo" else []
    assert main([*arguments, *out]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.rstrip("\n").endswith((".", "?"))
    assert not (tmp_path / "out").exists()


def test_an_error_in_a_pipe_has_no_colour_no_traceback_and_is_not_broken():
    long = "x" * 200 + ".csv"
    result = run("assess", long, COLUMNS="40")
    assert result.returncode == 2
    assert result.stdout == ""
    assert long in result.stderr
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("arguments", [["--debug", "demo"], ["demo", "--debug"]])
def test_debug_gives_the_traceback_wherever_it_stands(arguments, capsys):
    assert main([*arguments, "--data", "zzz"]) == 2
    assert capsys.readouterr().err.startswith("Traceback")


def test_demo_prints_the_numbers_it_writes(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("counterpoint.cli._demo.MOST_EPOCHS", 3)
    assert main(["demo", "--data", "iris", "--seed", "0", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    record = json.loads((tmp_path / "demo.json").read_text())
    config = {"data": "iris", "seed": 0, "n_learners": 15, "n_train": 100, "n_test": 50}
    assert {name: record["config"][name] for name in config} == config
    for assessment in record["data"]["assessments"].values():
        for number in (assessment["correlations"][name] for name in ("r_tl", "r_ll", "optimality")):
            assert f"{number:.3f}" in printed
    for comparison in record["data"]["comparisons"]:
        assert comparison["verdict"] in " ".join(printed.split())
    for name in ("report.html", "tradeoff.png", "tradeoff.svg", "demo.json"):
        assert str(tmp_path / name) in printed
        assert (tmp_path / name).stat().st_size > 500


@pytest.mark.parametrize("command", ["assess", "fit", "predict", "arena"])
def test_help_names_every_table_format(command, capsys):
    assert main([command, "--help"]) == 0
    words = capsys.readouterr().out.replace(",", " ").split()
    assert {format_.name for format_ in TABLE_FORMATS.values()} <= {word.rstrip(";.") for word in words}
