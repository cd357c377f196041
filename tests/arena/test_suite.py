"""The suites: named tables, their sources, and what is said of those that cannot be had."""

import pytest

from counterpoint.arena import SUITES, TABLES, list_suite, read_available, read_suite, suite
from counterpoint.cli import main


def test_the_suites_are_large_and_hold_one_another():
    assert len(SUITES["uci15"]) == 15
    assert len(SUITES["all"]) == len(TABLES) == 35
    assert set(SUITES["uci15"]) < set(SUITES["real"]) < set(SUITES["all"])
    assert sum(1000 <= one.rows <= 50_000 for one in TABLES.values()) == 16
    assert all(one.terms for one in TABLES.values())


@pytest.mark.parametrize("name", [n for n, one in TABLES.items() if one.source != "data folder"])
def test_a_table_is_what_the_list_says(name):
    if TABLES[name].source == "statsmodels":
        pytest.importorskip("statsmodels")
    (table,) = read_suite([name])
    assert len(table.y) == TABLES[name].rows
    assert len(table.classes) >= 2
    assert set(map(str, table.X.dtypes)) <= {"float64", "category"}


def test_a_table_whose_package_is_missing_is_left_out_with_a_sentence(monkeypatch):
    def missing(module, extra):
        raise ImportError(f'`{module}` is needed here; install it with: pip install "counterpoint[{extra}]".')

    monkeypatch.setattr(suite, "import_extra", missing)
    tables, reasons = read_available(["fair", "iris"])
    assert [table.name for table in tables] == ["iris"]
    assert reasons == {
        "fair": '`statsmodels` is needed here; install it with: pip install "counterpoint[arena]".'
    }
    with pytest.raises(ImportError, match="`statsmodels` is needed here"):
        read_suite(["fair"])


def test_the_command_leaves_out_what_cannot_be_had(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("counterpoint.arena.SUITES", {"uci15": ("iris", "lymph")})
    folder = tmp_path / "data"
    folder.mkdir()
    command = [
        "arena",
        "--methods",
        "extra-trees",
        "--smoke",
        "--suite",
        "uci15",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--data-dir", str(folder)]) == 0
    said = capsys.readouterr()
    assert f"lymph is left out: `data_dir` must hold 'lymph.csv'; got '{folder}'." in said.err
    assert "Means on iris" in said.out


def test_the_command_lists_a_suite_and_runs_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["arena", "--suite", "all", "--list"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "The tables of the suite all"
    assert len(out) == 2 + 35
    assert out[2].split() == ["labor", "counterpoint", "Labor", "Relations", "(UCI)", "CC", "BY", "4.0", "57"]
    assert not list(tmp_path.iterdir())


def test_the_list_has_a_row_for_each_table():
    assert [row[0] for row in list_suite("real").rows] == list(SUITES["real"])
