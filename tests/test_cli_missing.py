"""Blank cells, abstentions and groups on the command line."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from counterpoint import Assessment, assess
from counterpoint.cli import main
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.io import read_predictions

N = 60
LONG = ["--item", "id", "--judge", "model", "--label", "answer", "--truth", "gold", "--abstain", "skip"]


@pytest.fixture
def panel(tmp_path, monkeypatch):
    """Return truth, votes with None where one is missing, and write both layouts."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.choice(["no", "yes"], N)
    votes = np.where(rng.random((4, N)) < 0.75, truth, np.where(truth == "no", "yes", "no")).astype(object)
    votes[rng.random(votes.shape) < 0.2] = None
    votes[:, 7] = None
    with (tmp_path / "long.jsonl").open("w") as file:
        for judge, row in zip("abcd", votes, strict=True):
            for i, answer in enumerate(row):
                entry = {"id": f"r{i}", "doc": f"d{i // 4}", "model": judge, "gold": str(truth[i])}
                if answer is not None or i % 2:  # some are absent, others say that they abstain
                    file.write(json.dumps(entry | {"answer": "skip" if answer is None else answer}) + "\n")
                elif i == 7 or judge == "a":
                    file.write(json.dumps(entry | {"answer": None}) + "\n")
    rows = [["id", "doc", "gold", *"abcd"]]
    rows += [
        [f"r{i}", f"d{i // 4}", truth[i], *("" if v is None else v for v in votes[:, i])] for i in range(N)
    ]
    (tmp_path / "wide.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    return truth, votes


def test_a_long_file_with_abstentions_is_assessed(panel, capsys):
    assert main(["assess", "long.jsonl", *LONG, "--html", "page.html"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    truth, votes = panel
    expected = assess(truth, votes, learners=list("abcd"), name="long")
    assert " ".join(expected.verdict.split()) in printed
    votes_worth = expected.effective.votes
    assert (
        f"effective votes: learners as good as {expected.effective.best} {votes_worth.as_count()}" in printed
    )
    assert "One more learner like these would" in printed
    assert "of the votes are missing" in printed
    assert "1 sample is without any vote" in printed
    assert "Who answered" in Path("page.html").read_text(encoding="utf-8")


def test_long_and_wide_files_are_one_panel(panel, capsys):
    truth, votes = panel
    groups = np.arange(N) // 4
    expected = assess(truth, votes, groups=groups)
    assert expected.effective.votes != assess(truth, votes).effective.votes
    for given in (["long.jsonl", *LONG], ["wide.csv", "-t", "gold", "--item", "id"]):
        assert main(["assess", *given, "--group", "doc", "--json"]) == 0
        found = Assessment.from_json(capsys.readouterr().out)
        assert found.coverage.answered.tolist() == expected.coverage.answered.tolist()
        assert found.vote == expected.vote
        for name in ("votes", "independence", "error_correlation", "mean_accuracy"):
            assert getattr(found.effective, name) == pytest.approx(getattr(expected.effective, name))


def test_compare_takes_blank_cells(panel, capsys):
    assert main(["compare", "wide.csv", "-t", "gold", "--item", "id", "--drop", "doc"]) == 0
    assert f"{assess(*panel).vote.value:.3f}" in capsys.readouterr().out


def test_the_vote_is_of_those_who_voted(panel, capsys):
    _, votes = panel
    options = [option for option in LONG if option not in ("--truth", "gold")]
    assert main(["vote", "long.jsonl", *options]) == 0
    captured = capsys.readouterr()
    rows = [line.split(",") for line in captured.out.splitlines()[1:]]
    assert len(rows) == N
    assert "; without a vote: 1, left blank." in captured.err
    for item, label, confidence in rows:
        given = [vote for vote in votes[:, int(item[1:])] if vote is not None]
        if not given:
            assert (label, confidence) == ("", "")
            continue
        assert float(confidence) == pytest.approx(given.count(label) / len(given), abs=1e-6)
        assert given.count(label) == max(map(given.count, given))


def test_abstentions_of_arrays_are_masked(tmp_path, capsys):
    np.savez(tmp_path / "votes.npz", y_true=[0, 1, 1, 0], outputs=[[0, 1, 9, 0], [9, 1, 0, 0]])
    read = read_predictions(tmp_path / "votes.npz", abstain=["9"])
    assert read.missing.tolist() == [[False, False, True, False], [True, False, False, False]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMeasureWarning)
        assert assess(read.y_true, read.outputs).coverage.answered.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            "t,g,a\n0,x,0\n1,,1\n",
            {"group": "g"},
            r"column 'g' must name a group in every row; got none in data row 2",
        ),
        ("t,g,a\n0,x,0\n1,y,1\n", {"group": "doc"}, r"`group` must be a column of .*; got 'doc'\."),
        (
            "i,t,g,j,a\n1,0,x,b,0\n1,0,y,c,0\n",
            {"group": "g", "item": "i", "judge": "j", "label": "a"},
            r"column 'g' must hold one group for each item; got 'x' and 'y' for item '1'",
        ),
    ],
)
def test_groups_that_do_not_fit_are_refused(text, options, words, tmp_path):
    (tmp_path / "v.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_predictions(tmp_path / "v.csv", "t", **options)
