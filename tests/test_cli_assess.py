"""The commands that read predictions, as a person runs them: what is printed, what is written, how they end."""

import json
import os
import re
import shlex
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from counterpoint import Assessment, assess
from counterpoint.assessment import compare_votes
from counterpoint.cli import main
from counterpoint.cli._select import read_costs
from counterpoint.io import Predictions, read_predictions, read_weights
from counterpoint.selection import Selection, points, reverse, select

N = 60
LEARNERS = ("tree", "net", "<script>alert(1)</script>", "[bold]knn[/bold]", "svm")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    truth = rng.choice(["cat", "<b>dog</b>", "[red]bird"], N)
    votes = np.where(rng.random((5, N)) < 0.75, truth, rng.choice(truth, (5, N)))
    return truth, votes


@pytest.fixture
def votes_csv(data, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    truth, votes = data
    rows = [["id", "label", *LEARNERS], *([f"r{i}", truth[i], *votes[:, i]] for i in range(N))]
    path = tmp_path / "votes.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def arguments(path, command="assess"):
    return [command, str(path), "--truth", "label", "--drop", "id"]


@pytest.fixture
def expected(data):
    return assess(*data, learners=LEARNERS, name="votes")


def test_assess_prints_verdict_numbers_and_advice_as_they_are(votes_csv, expected, capsys):
    assert main(arguments(votes_csv)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    words = " ".join(captured.out.split())
    assert words.startswith(f"votes {expected.verdict}")
    for label, value in expected.summary():
        assert f"{label} {value}" in words
    for finding in expected.findings:
        assert f"{finding.severity} {' '.join(finding.text.split())}" in words
    assert expected.findings


def test_json_is_the_assessment_and_nothing_else(votes_csv, expected, capsys, tmp_path):
    page = tmp_path / "pages" / "report.html"
    assert main([*arguments(votes_csv), "--json", "--html", str(page), "--name", "<i>"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"Wrote {page}\n"
    read = Assessment.from_json(captured.out)
    assert read.name == "<i>"
    assert read.learners == LEARNERS
    assert read.vote == expected.vote
    np.testing.assert_array_equal(read.correlations.matrix, expected.correlations.matrix)


def test_html_replaces_the_page_says_where_and_escapes_labels(votes_csv, capsys, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    assert main([*arguments(votes_csv), "--html", str(page)]) == 0
    assert capsys.readouterr().out.endswith(f"\nWrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text
    assert "<b>dog" not in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "votes.csv"]


def test_markdown_is_printed_alone(votes_csv, expected, capsys):
    assert main([*arguments(votes_csv), "--markdown"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("# votes")
    assert f"{100 * expected.vote.value:.1f} %" in captured.out


def test_learner_names_those_to_read(votes_csv, data, capsys):
    given = ["assess", str(votes_csv), "-t", "label", "--learner", "svm", "--learner", "tree", "--json"]
    assert main(given) == 0
    read = Assessment.from_json(capsys.readouterr().out)
    assert read.learners == ("svm", "tree")
    truth, votes = data
    assert list(read.accuracies) == [(votes[i] == truth).mean() for i in (4, 0)]


def test_soft_voting_of_probabilities_in_an_npz(data, capsys, tmp_path):
    truth, _ = data
    classes = np.unique(truth)
    proba = np.random.default_rng(1).dirichlet(np.ones(3), (4, N))
    np.savez(tmp_path / "proba.npz", y_true=truth, outputs=proba, labels=classes)
    assert main(["assess", str(tmp_path / "proba.npz"), "--voting", "soft", "--json"]) == 0
    read = Assessment.from_json(capsys.readouterr().out)
    right = classes[proba.mean(axis=0).argmax(axis=1)] == truth
    assert (read.voting, read.vote.value) == ("soft", right.mean())


@pytest.fixture
def proba_npz(data, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    truth, _ = data
    classes = np.unique(truth)
    proba = np.random.default_rng(1).dirichlet(np.ones(3), (4, N))
    np.savez(tmp_path / "proba.npz", y_true=truth, outputs=proba, labels=classes)
    return tmp_path / "proba.npz", truth, proba, classes


def test_the_geometric_vote_is_assessed_with_the_scores_of_its_probabilities(proba_npz, capsys):
    path, truth, proba, classes = proba_npz
    assert main(["assess", str(path), "--voting", "geometric"]) == 0
    expected = assess(truth, proba, labels=classes, voting="geometric")
    words = " ".join(capsys.readouterr().out.split())
    assert f"geometric vote {expected.votes.geometric.as_percent()}" in words
    found = expected.probabilities
    scores = (found.log_loss, found.brier_score, found.calibration_error)
    assert f"geometric: log-loss, Brier, calibration error {', '.join(f'{s:.3f}' for s in scores)}" in words


@pytest.mark.parametrize("width", [80, 40])
def test_compare_shows_the_scores_of_votes_with_probabilities(width, proba_npz, capsys, monkeypatch):
    path, truth, proba, classes = proba_npz
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["compare", str(path), str(path), "--voting", "geometric"]) == 0
    out = capsys.readouterr().out
    a = assess(truth, proba, labels=classes, voting="geometric")
    found = a.probabilities
    texts = [f"{score:.3f}" for score in (found.log_loss, found.brier_score, found.calibration_error)]
    if width == 80:
        assert f"proba (2) geometric {' '.join(texts)}" in " ".join(out.split())
    else:
        names = ("log-loss", "Brier score", "calibration error")
        assert all(out.count(f"{name}: {text}\n") == 2 for name, text in zip(names, texts, strict=True))
    assert max(map(len, out.splitlines())) <= width
    assert main(["compare", str(path), "--voting", "hard"]) == 0
    assert "log-loss" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "voting"), [("auto", "soft"), ("hard", "hard"), ("geometric", "geometric")]
)
def test_select_counts_the_vote_that_is_asked_for(given, voting, proba_npz, capsys):
    path, truth, proba, classes = proba_npz
    assert main(["select", str(path), "--voting", given, "--json"]) == 0
    read = Selection.from_json(capsys.readouterr().out)
    assert (
        read.to_json()
        == select(truth, proba, labels=classes, voting=voting, learners=read.learners).to_json()
    )
    assert read.voting == voting


def test_compare_puts_ensembles_side_by_side_and_on_one_page(votes_csv, data, capsys, tmp_path):
    truth, votes = data
    np.savez(tmp_path / "few.npz", label=truth, outputs=votes[:3])
    few = [
        "select",
        str(votes_csv),
        "-t",
        "label",
        "--drop",
        "id",
        "--size",
        "2",
        "--out",
        str(tmp_path / "two.csv"),
    ]
    assert main(few) == 0
    capsys.readouterr()
    page = tmp_path / "page.html"
    files = [str(tmp_path / "few.npz"), str(tmp_path / "two.csv")]
    assert main(["compare", *files, "-t", "label", "--html", str(page)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    a = assess(truth, votes[:3])
    numbers = (float(a.accuracies.mean()), a.r_tl, a.r_ll, a.optimality, a.correlations.error_correlation)
    assert " ".join(["few 3", str(a.vote), *(f"{n:.3f}" for n in numbers)]) in " ".join(captured.out.split())
    assert " two 2 " in " ".join(captured.out.split())
    assert captured.out.endswith(f"Wrote {page}\n")
    assert {"few", "two"} <= set(page.read_text().replace("<", " ").replace(">", " ").split())


def test_compare_gives_json_of_all_under_the_given_names(votes_csv, capsys):
    given = [*arguments(votes_csv, "compare"), str(votes_csv), "--json"]
    assert main(given) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["assessments"]) == 2
    assert main([*given, "--name", "a", "--name", "b"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in report["assessments"]] == ["a", "b"]


def test_equal_file_names_are_told_apart_by_their_folders(votes_csv, capsys, tmp_path):
    other = tmp_path / "other" / "votes.csv"
    other.parent.mkdir()
    other.write_text(votes_csv.read_text())
    assert main([*arguments(votes_csv, "compare"), str(other), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in report["assessments"]] == [str(votes_csv), str(other)]


@pytest.mark.filterwarnings("always")
def test_compare_warns_of_different_samples(votes_csv, capsys, tmp_path):
    lines = votes_csv.read_text().splitlines(keepends=True)
    (tmp_path / "part.csv").write_text("".join(lines[:40]))
    assert main([*arguments(votes_csv, "compare"), str(tmp_path / "part.csv"), "--markdown"]) == 0
    error = capsys.readouterr().err
    assert error.startswith(f"Warning: {tmp_path / 'part.csv'} and {votes_csv} have different truths")
    assert error.count("\n") == 1


def test_select_prints_who_stays_and_what_each_brings_and_writes_the_chosen(
    votes_csv, data, capsys, tmp_path
):
    out = tmp_path / "chosen.tsv"
    given = [*arguments(votes_csv, "select"), "--method", "greedy", "--diversity", "0.8", "--size", "3"]
    assert main([*given, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    selection = select(*data, 3, method="greedy", diversity=0.8, learners=LEARNERS)
    words = " ".join(captured.out.split())
    first, second = selection.summary()
    assert words.startswith(f"{first} {second}")
    assert first == "3 of 5 learners (greedy, diversity 0.8)"
    for i, name in enumerate(LEARNERS):
        effect, support = selection.effects[i], f"{100 * selection.support[i]:.0f} %"
        if i in selection.indices:
            change = points(reverse(effect))
            assert f"{name} keep 0.333 {support} without it {change}" in words
        else:
            assert f"{name} leave out {support} with it {points(effect)}" in words
    assert f"3 {100 * selection.panels[2].accuracy.value:.1f} % " in words
    assert f"{', '.join(selection.chosen)} chosen: how often" in words
    assert captured.out.endswith(f"Wrote {out}\nWrote {out}.weights.json\n")
    written = read_predictions(out, "label")
    assert written.learners == selection.chosen
    np.testing.assert_array_equal(written.outputs, selection.take(data[1]))
    np.testing.assert_array_equal(written.y_true, data[0])


def test_select_json_is_the_selection_with_the_names(votes_csv, data, capsys, tmp_path):
    given = [*arguments(votes_csv, "select"), "--method", "caruana", "--within", "0.2", "--json"]
    assert main([*given, "--out", str(tmp_path / "chosen.npz")]) == 0
    captured = capsys.readouterr()
    out = tmp_path / "chosen.npz"
    assert captured.err == f"Wrote {out}\nWrote {out}.weights.json\n"
    expected = select(*data, method="caruana", within=0.2, learners=LEARNERS)
    assert Selection.from_json(captured.out).to_json() == expected.to_json()
    assert json.loads(captured.out)["chosen"] == list(expected.chosen)
    weights = read_weights(f"{out}.weights.json")
    assert weights.voting == "hard"
    assert weights.weights == dict(zip(expected.chosen, expected.weights.round(6).tolist(), strict=True))


COSTS = dict(zip(LEARNERS, (1.0, 2.0, 3.0, 4.0, 5.5), strict=True))


@pytest.mark.parametrize("form", ["pairs", "json", "csv", "header"])
def test_costs_come_as_pairs_or_from_a_file_and_are_shown(form, votes_csv, data, capsys, tmp_path):
    rows = "".join(f"{name},{cost}\n" for name, cost in COSTS.items())
    given = str(tmp_path / f"costs.{'json' if form == 'json' else 'csv'}")
    if form == "pairs":
        given = ",".join(f"{name}={cost}" for name, cost in COSTS.items())
    else:
        text = {"json": json.dumps(COSTS), "csv": rows, "header": f"judge,cost\n{rows}"}[form]
        (tmp_path / given).write_text(text)
    assert main([*arguments(votes_csv, "select"), "--costs", given]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "cost per vote size vote against the best panel" in words
    assert main([*arguments(votes_csv, "select"), "--costs", given, "--json"]) == 0
    read = Selection.from_json(capsys.readouterr().out)
    assert read.to_json() == select(*data, learners=LEARNERS, costs=COSTS).to_json()


def test_many_costs_are_no_file_name():
    assert len(read_costs(",".join(f"judge{i}={i}" for i in range(200)))) == 200


def test_the_frontier_is_drawn_to_a_file(votes_csv, capsys, tmp_path):
    picture = tmp_path / "new" / "frontier.png"
    assert main([*arguments(votes_csv, "select"), "--figure", str(picture)]) == 0
    assert capsys.readouterr().out.endswith(f"Wrote {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_compare_tests_every_two_on_the_same_samples(data, capsys, tmp_path):
    truth, votes = data
    ensembles = {"all": votes, "four": votes[:4], "worse": np.roll(votes, 1, axis=1)}
    for name, outputs in ensembles.items():
        np.savez(tmp_path / f"{name}.npz", label=truth, outputs=outputs)
    files = [str(tmp_path / f"{name}.npz") for name in ensembles]
    options = ["--truth", "label"]
    assert main(["compare", *files, *options]) == 0
    expected = compare_votes(truth, ensembles)
    assert {pair.apart for pair in expected.pairs} == {True, False}
    words = " ".join(capsys.readouterr().out.split())
    assert " ".join(str(expected).split()) in words
    assert "p: paired test, corrected by Holm's method for 3 tests." in words
    assert main(["compare", *files, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"] == expected.to_dict()


def test_compare_allows_for_groups_and_takes_a_margin(capsys, tmp_path):
    rng = np.random.default_rng(0)
    truth, votes = rng.integers(0, 2, 90), {}
    for name, share in (("old", 0.8), ("new", 0.75)):
        votes[name] = np.where(rng.random((3, 90)) < share, truth, 1 - truth)
        rows = [["label", "text", "a", "b", "c"], *zip(truth, np.arange(90) % 9, *votes[name], strict=True)]
        (tmp_path / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    files = [str(tmp_path / f"{name}.csv") for name in votes]
    given = ["compare", *files, "--truth", "label", "--group", "text", "--margin", "0.1"]
    expected = compare_votes(truth, votes, groups=np.arange(90) % 9, margin=0.1)
    assert main(given) == 0
    assert " ".join(str(expected).split()) in " ".join(capsys.readouterr().out.split())
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"] == expected.to_dict()
    text = (tmp_path / "new.csv").read_text()
    (tmp_path / "new.csv").write_text(text.replace(",8,", ",7,"))
    assert main(given) == 2
    assert "`--group` must hold the same groups in all files" in capsys.readouterr().err


def test_select_allows_for_groups(capsys, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 90)
    votes = np.where(rng.random((3, 90)) < 0.75, truth, 1 - truth)
    rows = [["label", "text", "a", "b", "c"], *zip(truth, np.arange(90) % 9, *votes, strict=True)]
    path = tmp_path / "pool.csv"
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    assert main(["select", str(path), "--truth", "label", "--group", "text"]) == 0
    assert "of 9 groups only, so these intervals are rough" in " ".join(capsys.readouterr().out.split())
    assert main(["select", str(path), "--truth", "label", "--group", "text", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = select(truth, votes, learners=["a", "b", "c"], groups=np.arange(90) % 9)
    assert found["against_pool"] == expected.to_dict()["against_pool"]
    assert found["learners"] == ["a", "b", "c"]


def test_select_writes_the_truth_of_outputs_alone_under_its_usual_name(data, capsys, tmp_path):
    np.save(tmp_path / "votes.npy", data[1])
    np.save(tmp_path / "truth.npy", data[0])
    given = ["select", str(tmp_path / "votes.npy"), "--truth", str(tmp_path / "truth.npy"), "--size", "2"]
    assert main([*given, "--out", str(tmp_path / "chosen.npz")]) == 0
    np.testing.assert_array_equal(read_predictions(tmp_path / "chosen.npz").y_true, data[0])


def test_a_long_selection_is_cut_short_on_the_screen(capsys, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    np.savez(tmp_path / "pool.npz", y_true=truth, outputs=truth ^ (rng.random((30, 300)) < 0.3))
    assert main(["select", str(tmp_path / "pool.npz"), "--size", "25"]) == 0
    assert "... and 10 more; --json has all of them" in capsys.readouterr().out


@pytest.mark.filterwarnings("always")
def test_an_undefined_measure_is_a_warning_and_the_word_undefined(capsys, tmp_path):
    (tmp_path / "v.csv").write_text("y_true,a,b\n0,0,0\n1,1,0\n0,1,0\n1,1,0\n")
    assert main(["assess", str(tmp_path / "v.csv")]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("Warning: ")
    assert " b" in captured.err
    assert "undefined" in captured.out


@pytest.mark.parametrize("command", ["assess", "compare", "select"])
def test_help_has_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples" in out
    assert f"counterpoint {command} " in out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["assess", "none.csv"], "No such file or directory: none.csv."),
        (["assess"], "Missing argument 'PREDICTIONS'."),
        (["assess", "votes.csv"], "got 'y_true'. Did you mean 'label'?"),
        (["select", "gap.csv"], "gap.csv must have no blank cells to select from; 1 of the 2 cells of 'net'"),
        (["select", "gaps.csv"], "2 of the 3 cells of 'a' are blank, and 1 of 'b'."),
        (["select", "more.csv"], "2 of the 3 cells of 'a' are blank, and 2 of 2 other learners."),
        (["assess", "votes.csv", "-t", "label", "--group", "doc"], "`group` must be a column of votes.csv"),
        (["assess", "short.npz", "--group", "doc"], "`group` must be None, because short.npz holds arrays"),
        (["compare", "-", "-"], "`-`, standard input, must be given only once."),
        (["assess", "votes.csv", "--judge", "net"], "`item` must be given too: a long table has"),
        (["assess", "votes.csv", "--html", "link.csv"], "`--html` must not be the file that is read"),
        (["select", "votes.csv", "--out", "votes.csv"], "`--out` must not be the file that is read"),
        (
            ["select", "votes.csv", "--figure", "f.txt"],
            "`--figure` must end in .png, .svg or .pdf; got 'f.txt'.",
        ),
        (
            ["select", "votes.csv", "--costs", "a=1,b"],
            "`--costs` must give a name and a number for each learner",
        ),
        (
            ["select", "votes.csv", "--costs", "a=1,a=2"],
            "`--costs` must name each learner once; got 'a' twice.",
        ),
        (["select", "votes.csv", "--costs", "none.csv"], "No such file or directory: none.csv."),
        (["select", "votes.csv", "--out", "link.csv"], "`--out` must not be the file that is read"),
        (["select", "votes.csv", "--out", "../here/votes.csv"], "`--out` must not be the file that is read"),
        (["assess", "votes.csv", "-t", "lable"], "got 'lable'. Did you mean 'label'?"),
        (
            ["assess", "votes.csv", "-t", "label", "--drop", "id", "--voting", "soft"],
            "votes.csv: `voting` must be 'hard'",
        ),
        (["assess", "votes.csv", "--voting", "loud"], "'--voting'"),
        (
            ["select", "votes.csv", "-t", "label", "--drop", "id", "--voting", "geometric"],
            "votes.csv: `voting` must be 'auto' or 'hard' where `outputs` are labels; got 'geometric'.",
        ),
        (
            ["assess", "votes.csv", "--json", "--markdown"],
            "`--json` and `--markdown` must not be given together.",
        ),
        (["assess", "votes.csv", "--html", "."], "is a directory"),
        (["assess", "short.npz"], "short.npz: `outputs` must have 3 samples, as `y_true`"),
        (
            ["compare", "votes.csv", "-t", "label", "--name", "a", "--name", "b"],
            "`--name` must be given for each of the 1 files or none; got 2.",
        ),
        (
            ["select", "votes.csv", "-t", "label", "--out", "chosen.parquet"],
            "`--out` must end in one of .csv, .tsv, .npz",
        ),
        (["select", "votes.csv", "-t", "label", "--drop", "id", "--size", "9"], "votes.csv: `size` must be"),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(given, sentence, votes_csv, monkeypatch, capsys):
    monkeypatch.chdir(votes_csv.parent)
    np.savez("short.npz", y_true=[0, 1, 0], outputs=[[0, 1], [1, 1]])
    Path("gap.csv").write_text("y_true,tree,net\n0,0,\n1,1,1\n")
    Path("gaps.csv").write_text("y_true,a,b,c\nx,,x,x\nx,,,x\nx,x,x,x\n")
    Path("more.csv").write_text("y_true,a,b,c\nx,,x,\nx,,,x\nx,x,x,x\n")
    Path("link.csv").symlink_to("votes.csv")
    given = [argument.replace("here", Path.cwd().name) for argument in given]
    before = sorted((p.name, p.read_bytes()) for p in Path().iterdir())
    assert main(given) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert sorted((p.name, p.read_bytes()) for p in Path().iterdir()) == before


def test_the_documentation_shows_what_the_commands_print(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 15
    for command, shown in blocks:
        *before, last = command.split("; ")
        for part in before:
            subprocess.run(part, shell=True, check=True)
        if " | counterpoint " in last:
            first, last = last.split(" | ")
            piped = subprocess.run(first, shell=True, check=True, capture_output=True).stdout
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(piped)))
            sys.stdin.buffer.name = "<stdin>"
        if last.startswith("counterpoint "):
            main(shlex.split(last)[1:])
            captured = capsys.readouterr()
            printed = captured.out + captured.err
        else:
            printed = subprocess.run(last, shell=True, check=True, capture_output=True, text=True).stdout
        assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines(), command


def test_a_model_card_is_written_for_labels_with_a_truth(votes_csv, tmp_path, capsys):
    card = tmp_path / "cards" / "CARD.md"
    assert main([*arguments(votes_csv), "--card", str(card), "--name", "panel"]) == 0
    assert f"Wrote {card}" in capsys.readouterr().out
    assert "# Model card: panel\n" in card.read_text(encoding="utf-8")
    card.unlink()
    assert main(["assess", str(votes_csv), "--no-truth", "--card", str(card)]) == 2
    assert "`--card` needs a truth" in capsys.readouterr().err
    assert not card.exists()


def test_a_pipe_gets_no_colour_and_no_progress(votes_csv):
    code = "import sys; from counterpoint.cli import main; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments(votes_csv)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("width", [30, 50, 70, 77])
def test_a_narrow_terminal_shows_every_name_and_number(width, votes_csv, expected, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert (
        main([*arguments(votes_csv, "compare"), str(votes_csv), "--name", "first", "--name", "second"]) == 0
    )
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    words = " ".join(out.split())
    mean = float(expected.accuracies.mean())
    for text in (
        "first",
        "second",
        str(expected.vote),
        *(f"{n:.3f}" for n in (mean, expected.r_tl, expected.r_ll)),
    ):
        assert text in words
    assert "\u2026" not in out


def test_one_file_given_twice_is_numbered(votes_csv, capsys):
    assert main([*arguments(votes_csv, "compare"), str(votes_csv)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:9].rstrip() for line in lines[2:4]] == ["votes", "votes (2)"]


@pytest.mark.parametrize("name", ["labels", "outputs", "allow_pickle", "file"])
def test_select_keeps_a_truth_whose_name_an_archive_cannot_hold(name, data, capsys, tmp_path):
    truth, votes = data
    pool = tmp_path / "pool.csv"
    Predictions(truth, votes, ("a", "b", "c", "d", "e")).write(pool, truth=name)
    out = tmp_path / "chosen.npz"
    assert main(["select", str(pool), "--truth", name, "--size", "2", "--out", str(out)]) == 0
    end = f"Wrote {out}, the truth as 'y_true'\nWrote {out}.weights.json\n"
    assert capsys.readouterr().out.endswith(end)
    np.testing.assert_array_equal(read_predictions(out).y_true, truth)


def test_select_overwrites_neither_its_costs_nor_predictions_that_look_like_weights(
    votes_csv, capsys, tmp_path
):
    costs = tmp_path / "costs.csv"
    costs.write_text("".join(f"{name},{cost}\n" for name, cost in COSTS.items()))
    (tmp_path / "link.csv").symlink_to(costs)
    for out in (costs, tmp_path / "link.csv"):
        assert main([*arguments(votes_csv, "select"), "--costs", str(costs), "--out", str(out)]) == 2
        assert "`--out` must not be the file that is read" in capsys.readouterr().err
    (tmp_path / "new.csv.weights.json").symlink_to(votes_csv)
    before = votes_csv.read_text()
    assert main([*arguments(votes_csv, "select"), "--out", str(tmp_path / "new.csv")]) == 2
    assert "`--out` must not be the file that is read" in capsys.readouterr().err
    assert votes_csv.read_text() == before
