"""``python -m paper``: what it prints where, and how it ends."""

import inspect
import json
import os
import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

import paper
from paper import TARGETS, Target
from paper.__main__ import _titles, app, main


def run(*arguments, **environment):
    """Run it in a process of its own, its output piped."""
    return subprocess.run(
        [sys.executable, "-m", "paper", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def target(monkeypatch):
    """Register a target whose function is given, under the name ``probe``."""

    def register(function):
        monkeypatch.setitem(TARGETS, "probe", Target("__init__", "probe", "A probe"))
        monkeypatch.setattr(paper, "import_module", lambda _: paper)
        monkeypatch.setattr(paper, "probe", function, raising=False)

    return register


@pytest.mark.parametrize("arguments", [[], ["--list"]])
def test_without_a_name_it_lists_the_targets(arguments, capsys):
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = _titles()
    assert list(titles) == [*TARGETS, "docs"]
    for line, (name, title) in zip(lines, titles.items(), strict=True):
        assert re.fullmatch(rf"{name} +{re.escape(title)}", line)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figur-3"], "got 'figur-3'. Did you mean figure-3?"),
        (["zzz"], "`NAME` must be one of figure-1, figure-2,"),
        (["figure-3", "--n-learner", "5"], "--n-learners"),
        (["figure-3", "--n-learners", "x"], "'--n-learners'"),
        (["figure-3", "--n-learners", "1"], "`n_learners` must be at least 2; got 1."),
        (["figure-5", "--n-learners", "4"], "`n_learners` must be odd"),
        (["figure-4", "--seed", "-1"], "'--seed'"),
        (["figure-2", "--n-learners", "5"], "`--n-learners` has no meaning for figure-2."),
        (["figure-3", "--seed", "5"], "`--seed` has no meaning for figure-3."),
        (["figure-4", "--seed", str(2**31)], "'--seed': "),
    ],
)
def test_an_error_is_one_sentence_on_stderr_and_exit_code_2(arguments, sentence, capsys, tmp_path):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.rstrip("\n").endswith((".", "?"))
    assert not (tmp_path / "out").exists()


def test_an_error_in_a_pipe_has_no_colour_no_traceback_and_is_not_broken():
    long = "x" * 300
    result = run(long, COLUMNS="40")
    assert result.returncode == 2
    assert result.stdout == ""
    assert f"got '{long}'." in result.stderr
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


def test_an_error_on_a_terminal_is_red_unless_no_color_is_set(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["zzz"])
    assert capsys.readouterr().err.startswith("\x1b[31m`NAME` must be")
    monkeypatch.setenv("NO_COLOR", "1")
    main(["zzz"])
    assert capsys.readouterr().err.startswith("`NAME` must be")


def test_markup_in_a_message_is_printed_as_it_is(capsys):
    assert main(["[bold]x[/bold]"]) == 2
    assert "[bold]x[/bold]" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--debug", "zzz"], ["zzz", "--debug"]])
def test_debug_gives_the_traceback_wherever_it_stands(arguments, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert "ValueError: `NAME` must be one of" in error


def test_debug_after_a_double_dash_is_an_argument(capsys):
    assert main(["--", "--debug"]) == 2
    assert "got '--debug'." in capsys.readouterr().err


def test_an_interrupt_is_one_word_and_exit_code_130(target, capsys):
    def interrupted(out):
        raise KeyboardInterrupt

    target(interrupted)
    assert main(["probe"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_an_unexpected_error_names_its_kind_and_the_way_to_its_traceback(target, capsys):
    def broken(out):
        raise KeyError("lost")

    target(broken)
    assert main(["probe"]) == 2
    assert capsys.readouterr().err == "KeyError: 'lost' (run again with --debug for the traceback).\n"


def test_a_message_of_several_lines_becomes_one(target, capsys):
    def broken(out):
        raise ImportError("one\n  two")

    target(broken)
    assert main(["probe"]) == 2
    assert capsys.readouterr().err == "one two.\n"


def test_a_file_in_the_way_is_named(capsys, tmp_path):
    (tmp_path / "out").write_text("in the way")
    assert main(["figure-3", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"File exists: {tmp_path / 'out'}.\n"


def test_a_warning_is_one_line_without_the_place_in_the_code(target, capsys):
    def warned(out):
        warnings.simplefilter("always")
        warnings.warn("thin ice", UserWarning, stacklevel=1)
        return []

    target(warned)
    assert main(["probe"]) == 0
    assert capsys.readouterr().err == "Warning: thin ice\n"


def test_the_settings_of_the_process_are_left_alone(capsys):
    before = (sys.excepthook, warnings.showwarning, list(warnings.filters))
    main(["zzz"])
    assert (sys.excepthook, warnings.showwarning, list(warnings.filters)) == before


def test_the_help_names_the_targets_that_alone_take_an_option():
    targets = {
        name: inspect.signature(getattr(import_module(f"paper.{module}"), function))
        for name, (module, function, _) in TARGETS.items()
    }
    options = {option.name: option for option in get_command(app).params}
    named = {
        name: re.findall(r"(?:figure|table|image)-\w+(?=[,)])", option.help or "")
        for name, option in options.items()
    }
    assert set(named["n_learners"]) == {"figure-3", "figure-5"}
    for option, given in ((option, given) for option, given in named.items() if given):
        takers = {name for name, signature in targets.items() if option in signature.parameters}
        assert takers - {"table-5-short", "table-6-short", "table-6-cifar100"} == set(given), option


def test_it_says_where_it_wrote(capsys, tmp_path):
    assert main(["figure-3", "--n-learners", "7", "--out", str(tmp_path)]) == 0
    title, *paths = capsys.readouterr().out.splitlines()
    assert title == TARGETS["figure-3"].title
    assert [path.strip() for path in paths] == [
        str(tmp_path / f"figure-3.{end}") for end in ("png", "svg", "json")
    ]
    record = json.loads((tmp_path / "figure-3.json").read_text())
    assert record["config"]["n_learners"] == 7


def test_the_page_lists_every_target():
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    spans = page.replace("`figure-1` to `figure-5`", " ".join(f"`figure-{n}`" for n in range(1, 6)))
    assert all(f"`{name}`" in spans for name in TARGETS)
