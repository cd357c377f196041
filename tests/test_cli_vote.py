"""The vote of an ensemble as a file, and predictions from standard input and from long tables."""

import gzip
import io
import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from counterpoint import Assessment, assess
from counterpoint.cli import main
from counterpoint.io import VoteWeights, read_predictions, read_weights
from counterpoint.measures import combine

N = 40


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.choice(["cat", "dog"], N)
    votes = np.where(rng.random((5, N)) < 0.7, truth, np.where(truth == "cat", "dog", "cat"))
    return truth, votes


@pytest.fixture
def votes_csv(data, tmp_path):
    truth, votes = data
    rows = [["id", "gold", *"abcde"], *([f"r{i}", truth[i], *votes[:, i]] for i in range(N))]
    path = tmp_path / "votes.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def long_rows(truth, votes):
    for judge, row in zip("abcde", votes, strict=True):
        for i, answer in enumerate(row):
            yield {"id": f"r{i}", "model": judge, "answer": str(answer), "gold": str(truth[i])}


LONG = ["--item", "id", "--judge", "model", "--label", "answer"]


def rows_of(text):
    return [line.split(",") for line in text.splitlines()]


def majority(votes):
    """Return the most frequent label and its share, counted by hand."""
    n_cats = (votes == "cat").sum(axis=0)
    return np.where(n_cats > 2, "cat", "dog"), np.maximum(n_cats, 5 - n_cats) / 5


def feed(monkeypatch, content):
    buffer = io.BytesIO(content)
    buffer.name = "<stdin>"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer, isatty=lambda: False))


def test_vote_writes_the_majority_with_its_share_and_keeps_the_items(votes_csv, data, capsys, tmp_path):
    out = tmp_path / "consensus.tsv"
    assert main(["vote", str(votes_csv), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"Wrote {out}\n"
    assert captured.err == (
        "Left out as the truth, because of the name: 'gold'.\n5 learners vote, 'a', 'b', 'c', 'd', 'e'.\n"
    )
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert header == ["id", "consensus", "confidence"]
    labels, shares = majority(data[1])
    assert rows == [[f"r{i}", labels[i], f"{shares[i]:.6g}"] for i in range(N)]


def test_the_truth_does_not_vote_and_may_have_gaps(votes_csv, data, capsys):
    text = votes_csv.read_text().replace("gold", "zoo", 1)
    votes_csv.write_text(text.replace("r0,cat,", "r0,,").replace("r0,dog,", "r0,,"))
    assert main(["vote", str(votes_csv), "--truth", "zoo"]) == 0
    captured = capsys.readouterr()
    assert [row[1] for row in rows_of(captured.out)[1:]] == majority(data[1])[0].tolist()
    assert captured.err == "5 learners vote, 'a', 'b', 'c', 'd', 'e'.\n"


def test_vote_of_a_long_table_and_of_standard_input(data, capsys, monkeypatch):
    lines = "".join(json.dumps(row) + "\n" for row in long_rows(*data)).encode()
    feed(monkeypatch, lines)
    assert main(["vote", "-", *LONG]) == 0
    labels, shares = majority(data[1])
    expected = [["id", "consensus", "confidence"]]
    expected += [[f"r{i}", labels[i], f"{shares[i]:.6g}"] for i in range(N)]
    assert rows_of(capsys.readouterr().out) == expected


@pytest.mark.parametrize("kind", ["csv", "gz", "jsonl", "utf-16"])
def test_standard_input_is_read_in_any_format(kind, votes_csv, data, capsys, monkeypatch):
    text = votes_csv.read_text()
    header, *rows = rows_of(text)
    records = [dict(zip(header, row, strict=True)) for row in rows]
    content = {
        "csv": text.replace(",", ";").encode(),
        "gz": gzip.compress(text.encode()),
        "jsonl": "".join(json.dumps(record) + "\n" for record in records).encode(),
        "utf-16": text.replace(",", "\t").encode("utf-16"),
    }[kind]
    feed(monkeypatch, content)
    assert main(["assess", "-", "--truth", "gold", "--drop", "id", "--json"]) == 0
    read = Assessment.from_json(capsys.readouterr().out)
    assert read.vote == assess(*data).vote
    assert read.name == "standard input"
    feed(monkeypatch, content)
    assert main(["vote", "-"]) == 0
    assert [row[1] for row in rows_of(capsys.readouterr().out)[1:]] == majority(data[1])[0].tolist()
    feed(monkeypatch, content)
    assert main(["select", "-", "--truth", "gold", "--item", "id", "--size", "2"]) == 0


def test_a_pipe_is_read_for_its_columns_and_its_cells(votes_csv, data, capsys):
    reading, writing = os.pipe()
    os.write(writing, votes_csv.read_bytes())
    os.close(writing)
    assert main(["vote", f"/dev/fd/{reading}"]) == 0
    os.close(reading)
    assert [row[1] for row in rows_of(capsys.readouterr().out)[1:]] == majority(data[1])[0].tolist()


def test_the_format_of_standard_input_can_be_given(capsys, monkeypatch):
    content = b"[x],z\n0,0\n1,1\n"
    feed(monkeypatch, content)
    assert main(["vote", "-"]) == 2
    assert capsys.readouterr().err.startswith("standard input must be well-formed JSON; line 1 is not: ")
    feed(monkeypatch, content)
    assert main(["vote", "-", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "consensus,confidence\n0,1\n1,1\n"


def test_a_long_table_is_assessed_compared_and_selected_from_like_a_wide_one(
    votes_csv, data, capsys, tmp_path
):
    path = tmp_path / "votes.jsonl.gz"
    lines = "".join(json.dumps(row) + "\n" for row in long_rows(*data))
    path.write_bytes(gzip.compress(lines.encode()))
    assert main(["assess", str(path), *LONG, "--truth", "gold", "--json"]) == 0
    long = Assessment.from_json(capsys.readouterr().out)
    assert main(["assess", str(votes_csv), "--item", "id", "--truth", "gold", "--json"]) == 0
    assert long.to_json() == capsys.readouterr().out.strip()
    assert main(["compare", str(path), *LONG, "--truth", "gold", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assessments"][0]["name"] == "votes"
    out = tmp_path / "chosen.csv"
    assert main(["select", str(path), *LONG, "--truth", "gold", "--size", "3", "--out", str(out)]) == 0
    written = read_predictions(out, "gold", item="id")
    assert written.items.tolist() == [f"r{i}" for i in range(N)]
    assert written.y_true.tolist() == data[0].tolist()


def test_the_weights_of_a_selection_reproduce_its_vote(votes_csv, data, capsys, tmp_path):
    given = ["select", str(votes_csv), "--truth", "gold", "--item", "id", "--method", "caruana", "--json"]
    out = tmp_path / "chosen.csv"
    assert main([*given, "--out", str(out)]) == 0
    selection = json.loads(capsys.readouterr().out)
    weights = read_weights(f"{out}.weights.json").weights
    assert list(weights) == selection["chosen"]
    votes = data[1]
    cats = sum(weight * (votes["abcde".index(name)] == "cat") for name, weight in weights.items())
    for path in (votes_csv, out):  # the weights choose the learners of the pool
        assert main(["vote", str(path), "--weights", f"{out}.weights.json"]) == 0
        rows = rows_of(capsys.readouterr().out)[1:]
        np.testing.assert_allclose([float(row[2]) for row in rows], np.maximum(cats, 1 - cats), rtol=1e-5)
        clear = np.abs(cats - 0.5) > 1e-9
        assert (np.array([row[1] for row in rows]) == np.where(cats > 0.5, "cat", "dog"))[clear].all()
    assert clear.mean() > 0.5


@pytest.mark.parametrize("voting", ["auto", "hard", "soft", "geometric"])
def test_probabilities_are_pooled_by_the_vote_that_is_asked_for(voting, capsys, tmp_path):
    proba = np.random.default_rng(1).dirichlet(np.ones(3), (4, N))
    np.savez(tmp_path / "p.npz", outputs=proba, y_true=np.arange(N) % 3 + 5, gold=np.arange(N) % 3 + 7)
    VoteWeights({"L1": 1, "L2": 2, "L4": 1}).write(tmp_path / "w.json")
    assert (
        main(["vote", str(tmp_path / "p.npz"), "--voting", voting, "--weights", str(tmp_path / "w.json")])
        == 0
    )
    rows = rows_of(capsys.readouterr().out)[1:]
    pooled = combine(proba[[0, 1, 3]], voting="soft" if voting == "auto" else voting, weights=[1, 2, 1])
    assert [int(row[0]) for row in rows] == (pooled.argmax(axis=1) + 5).tolist()
    np.testing.assert_allclose([float(row[1]) for row in rows], pooled.max(axis=1), rtol=1e-5)
    assert main(["vote", str(tmp_path / "p.npz"), "--truth", "gold", "--voting", voting]) == 0
    rows = rows_of(capsys.readouterr().out)[1:]
    pooled = combine(proba, voting="soft" if voting == "auto" else voting)
    leading = pooled >= pooled.max(axis=1, keepdims=True) - 1e-9  # the first of tied classes
    assert [int(row[0]) for row in rows] == (leading.argmax(axis=1) + 7).tolist()


def test_ties_are_counted_and_the_first_label_is_written(capsys, tmp_path):
    (tmp_path / "v.csv").write_text("a,b\ndog,cat\ncat,cat\ndog,cat\n")
    assert main(["vote", str(tmp_path / "v.csv")]) == 0
    captured = capsys.readouterr()
    assert captured.out == "consensus,confidence\ncat,0.5\ncat,1\ncat,0.5\n"
    assert captured.err == "2 learners vote, 'a', 'b'; of 2 ties the first label is written.\n"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["none.csv"], "No such file or directory: none.csv."),
        (["votes.csv", "--out", "votes.csv"], "`--out` must not be the file that is read; got 'votes.csv'."),
        (["votes.csv", "--weights", "w.csv", "--out", "w.csv"], "`--out` must not be the file that is read"),
        (["votes.csv", "--out", "c.npz"], "`--out` must end in one of .csv, .tsv; got 'c.npz'."),
        (["votes.csv", "--truth", "glod"], "`--truth` must be a column of votes.csv, one of 'id', 'gold'"),
        (["votes.csv", "--weights", "w.csv"], "w.csv must be a JSON object with the weight of each learner."),
        (
            ["votes.csv", "--weights", "w.json", "--drop", "a"],
            "`--weights` must not be given with `--learner`",
        ),
        (["votes.csv", "--weights", "w.json"], "got 'z'."),
        (["votes.csv", "--voting", "soft"], "votes.csv: `voting` must be 'hard' where learners have labels"),
    ],
)
def test_an_error_of_vote_is_one_sentence(given, sentence, votes_csv, capsys, tmp_path):
    (tmp_path / "w.csv").write_text("a,1\n")
    (tmp_path / "w.json").write_text('{"a": 1, "z": 2}')
    before = sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir())
    assert main(["vote", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err.splitlines()[-1]
    assert sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a JSON object with the weight of each learner"),
        ("[1]", "must be a JSON object with the weight of each learner"),
        ("{}", "must be a JSON object with the weight of each learner"),
        ('{"a": -1}', "the weight of 'a' must be a number from 0; got -1"),
        ('{"a": true}', "the weight of 'a' must be a number from 0; got True"),
        ('{"a": NaN}', "the weight of 'a' must be a number from 0; got nan"),
        ('{"a": 0}', "must have a weight above 0"),
        ('{"voting": "loud", "weights": {"a": 1}}', "'voting' must be one of 'hard', .*; got 'loud'"),
    ],
)
def test_a_file_of_weights_that_does_not_fit_is_refused(text, message, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_weights(path)


def test_weights_may_be_an_object_by_themselves(tmp_path):
    path = tmp_path / "w.json"
    path.write_text('{"a": 1, "b": 0.5}')
    assert read_weights(path) == VoteWeights({"a": 1.0, "b": 0.5}, None)
