"""fit and predict, as a person runs them: what is printed, what is written, how they end."""

import csv
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint import Assessment
from counterpoint.cli import main
from counterpoint.io import read_predictions
from counterpoint.measures import combine
from counterpoint.models import load_model

N = 120
QUICK = ["--diversity", "0.5", "--learners", "3", "--epochs", "10"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table and the model that fit made of it."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, N)
    colour = rng.choice(["[red]", "<b>blue</b>"], N)
    label = np.where(x + (colour == "[red]") - 0.5 + rng.normal(0, 0.7, N) > 0, "yes", "no")
    rows = [f"{x[i]:.3f},{colour[i]},1,{label[i]}" for i in range(N)]
    (folder / "data.csv").write_text("\n".join(["x,colour,one,label", *rows]) + "\n")
    assert main(["fit", str(folder / "data.csv"), "-t", "label", "--out", str(folder / "model"), *QUICK]) == 0
    return folder


@pytest.fixture
def here(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("data.csv").write_text((home / "data.csv").read_text())
    return tmp_path


def test_fit_says_what_it_took_for_what_and_how_the_ensemble_stands(here, capsys):
    assert main(["fit", "data.csv", "--target", "label", *QUICK]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = [line.rstrip() for line in captured.out.splitlines()]
    truth = [line.rpartition(",")[2] for line in Path("data.csv").read_text().split()[1:]]
    assert lines[:6] == [
        "rows              120",
        f"classes of label  no ({truth.count('no')}), yes ({truth.count('yes')})",
        "numbers           x",
        "categories        colour",
        "left out          one (one value only)",
        "",
    ]
    words = " ".join(captured.out.split())
    facts = load_model("model").facts
    assert f"The geometric vote is right on {100 * facts['accuracy_held_out']:.1f} %" in words
    assert f"Assessed on {facts['n_held_out']} held-out rows; the model is trained on all 120." in words
    assert lines[-2:] == ["Wrote model", "Wrote model/report.html"]
    page = Path("model/report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "The line is its path in training" in page
    assert max(map(len, lines)) <= 80


def test_fit_chooses_the_diversity_and_writes_the_page_where_it_is_told(here, capsys):
    given = ["fit", "data.csv", "-t", "label", "--learners", "2", "--epochs", "3", "--html", "pages/r.html"]
    given += ["--search"]
    assert main([*given, "--out", "deep/er/model", "--test-share", "0.3", "--seed", "3"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "corrected paired t-test over 5 folds" in words
    facts = load_model("deep/er/model").facts
    how = "Independent training" if facts["diversity"] == 0 else f"Diversity {facts['diversity']:g}"
    assert f"{how} is chosen for the lowest log-loss." in words
    assert facts["n_held_out"] == pytest.approx(36, abs=1)
    assert words.endswith("Wrote deep/er/model Wrote pages/r.html")
    assert Path("pages/r.html").is_file()
    assert not Path("deep/er/model/report.html").exists()


def test_predict_prints_labels_as_csv_and_the_accuracy_on_stderr(home, here, capsys):
    assert main(["predict", str(home / "model"), "data.csv"]) == 0
    captured = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    found = load_model(home / "model").predict("data.csv")
    assert [row["prediction"] for row in rows] == found.labels.tolist()
    assert captured.err == f"{found.n_right} of 120 rows are right ({found.n_right / 120:.1%}).\n"
    assert found.n_right / 120 > 0.7


def test_predict_adds_probabilities_and_writes_files(home, here, capsys):
    assert main(["predict", str(home / "model"), "data.csv", "--proba", "--out", "p.tsv"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("Wrote p.tsv\n")
    rows = list(csv.DictReader(io.StringIO(Path("p.tsv").read_text()), delimiter="\t"))
    assert list(rows[0]) == ["prediction", "probability:no", "probability:yes"]
    for row in rows:
        no, yes = float(row["probability:no"]), float(row["probability:yes"])
        assert no + yes == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == ("yes" if yes > no else "no")


def test_the_learners_go_straight_into_assess(home, here, capsys):
    assert main(["predict", str(home / "model"), "data.csv", "--learners", "--out", "learners.csv"]) == 0
    found = load_model(home / "model").predict("data.csv")
    predictions = read_predictions("learners.csv", "label")
    assert predictions.learners == ("L1", "L2", "L3")
    np.testing.assert_allclose(predictions.outputs, found.learners, atol=1e-6)
    capsys.readouterr()
    assert main(["assess", "learners.csv", "--truth", "label", "--voting", "geometric", "--json"]) == 0
    assert Assessment.from_json(capsys.readouterr().out).vote.value == pytest.approx(found.n_right / N)


def test_predict_has_the_vote_that_fit_trained(home, here):
    """The probabilities are those of the geometric vote, not the mean of the learners' probabilities."""
    found = load_model(home / "model").predict("data.csv")
    np.testing.assert_allclose(found.proba, combine(found.learners, voting="geometric"), atol=1e-5)
    assert np.abs(found.proba - found.learners.mean(axis=0)).max() > 1e-4


def test_notes_go_to_stderr_and_leave_stdout_to_the_predictions(home, here, capsys):
    Path("new.csv").write_text("when,colour,x\nnow,[green],1\n")
    assert main(["predict", str(home / "model"), "new.csv", "--learners"]) == 0
    captured = capsys.readouterr()
    header, row, end = captured.out.split("\n")
    assert header == "L1:no,L1:yes,L2:no,L2:yes,L3:no,L3:yes"
    assert len(row.split(",")) == 6
    assert end == ""
    ignored, unknown = captured.err.splitlines()
    assert ignored == "new.csv: ignored columns that the model does not know: 'when'."
    assert "'[green]' in data row 1 (line 2 of the file)" in unknown


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["fit", "data.csv"], "Missing option '--target'"),
        (["fit", "none.csv", "-t", "label"], "No such file or directory: none.csv."),
        (["fit", "data.csv", "-t", "lable"], "got 'lable'. Did you mean 'label'?"),
        (
            ["fit", "data.csv", "-t", "one"],
            "data.csv: target 'one' must hold at least two classes; got '1' in every",
        ),
        (["fit", "gaps.csv", "-t", "y"], "it is missing in data row 2 (line 3 of the file)."),
        (["fit", "rare.csv", "-t", "y"], "got one of 'b', data row 2 (line 3 of the file)."),
        (["fit", "empty.csv", "-t", "y"], "empty.csv must have columns; it is empty."),
        (
            ["fit", "data.csv", "-t", "label", "--out", "mine"],
            "mine must be new, empty, or hold only a model",
        ),
        (
            ["fit", "data.csv", "-t", "label", "--diversity", "lots"],
            "Invalid value for '--diversity'",
        ),
        (
            ["fit", "data.csv", "-t", "label", "--diversity", "-1"],
            "--diversity",
        ),
        (
            ["fit", "none.csv", "-t", "label", "--test-share", "1"],
            "`--test-share` must be strictly between 0 and 1; got 1.",
        ),
        (
            ["fit", "none.csv", "-t", "label", "--test-share", "nan"],
            "`--test-share` must not be NaN; got nan.",
        ),
        (["fit", "none.csv", "-t", "label", "--seed", "5000000000"], "'--seed': "),
        (["fit", "", "-t", "label"], "Invalid value for 'DATA': a path must not be empty."),
        (["fit", "data.csv", "-t", "label", "--out", ""], "'--out': a path must not be empty."),
        (["predict", "", "data.csv"], "Invalid value for 'MODEL': a path must not be empty."),
        (["predict", "model", ""], "Invalid value for 'NEW': a path must not be empty."),
        (["predict", "none", "data.csv"], "none must be a model that counterpoint saved; it does not exist."),
        (
            ["predict", "mine", "data.csv"],
            "mine must be a model that counterpoint saved; it has no model.json.",
        ),
        (["predict", "model", "none.csv"], "No such file or directory: none.csv."),
        (
            ["predict", "model", "rare.csv"],
            "rare.csv must have the columns that the model was trained on; 'colour'",
        ),
        (["predict", "model", "data.csv", "--proba", "--learners"], "must not be given together."),
        (
            ["predict", "model", "data.csv", "--out", "p.xlsx"],
            "`--out` must end in one of .csv, .tsv; got 'p.xlsx'.",
        ),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(given, sentence, home, here, capsys):
    Path("gaps.csv").write_text("x,y\n1,a\n2,\n3,b\n")
    Path("rare.csv").write_text("x,y\n1,a\n2,b\n3,a\n")
    Path("empty.csv").write_text("")
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    Path("model").symlink_to(home / "model")
    before = sorted(path.name for path in Path().iterdir())
    assert main(given) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize("package", ["torch", "safetensors"])
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_a_missing_package_is_named_with_its_pip_line(package, command, home, here, monkeypatch, capsys):
    for name in [
        name for name in sys.modules if name == package or name.startswith("counterpoint.estimators")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    given = {"fit": ["data.csv", "-t", "label"], "predict": [str(home / "model"), "data.csv"]}
    assert main([command, *given[command]]) == 2
    sentence = f'`{package}` is needed here; install it with: pip install "counterpoint[train]".'
    assert capsys.readouterr().err.strip() == sentence
    assert not Path("model").exists()


def test_learners_of_classes_with_a_colon_are_refused(here, capsys):
    text = Path("data.csv").read_text().replace(",yes", ",a:b")
    Path("colon.csv").write_text(text)
    assert main(["fit", "colon.csv", "-t", "label", *QUICK]) == 0
    assert main(["predict", "model", "colon.csv", "--learners"]) == 2
    assert "`--learners` must not be given if a class has a colon" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_help_has_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples" in out
    assert f"counterpoint {command} " in out


@pytest.mark.filterwarnings("always")
def test_the_documentation_shows_what_the_commands_print(here, capsys):
    """Numbers hang on the version of torch, and findings on numbers; the columns, other words and the files do not."""
    assert [given[0] for given, _ in documented_commands()] == ["fit", "predict", "predict", "assess"]
    for given, shown in documented_commands():
        printed = run(given, capsys, *QUICK[2:])
        if given[0] == "fit":
            for place in (0, -1):
                assert words(printed[place]) == words(shown[place])
            assert labels(printed[3]) == labels(shown[3])
            sentences = [
                " ".join(text.split()).replace("epoch,", "epochs,") for text in (printed[1], shown[1])
            ]
            reasons = [words(sentence.split(": at ")[1]) for sentence in sentences]
            assert reasons[0] == reasons[1]
            assert of_sample_size(printed[5]) == of_sample_size(shown[5])
        elif given[0] == "predict":
            assert words_of_lines(printed[0]) == words_of_lines(shown[0])
        else:
            assert all(
                "The geometric vote is right on" in " ".join(one[0].split()) for one in (printed, shown)
            )


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_the_documentation_shows_what_fit_finds(here, capsys):
    """With all the networks and epochs the verdict and the advice have the same words too."""
    given, shown = next(documented_commands())
    assert "--search" in given
    printed = run(given, capsys)
    assert words(printed[1]) == words(shown[1])
    assert findings(printed[5]) == findings(shown[5])


def test_the_documentation_shows_one_accuracy_of_the_model_on_its_rows(here):
    """What predict counts and what assess says of the learners is the same vote."""
    *_, (_, predicted), (_, assessed) = documented_commands()
    counted = re.search(r"rows are right \(([0-9.]+)%\)", predicted[0])[1]
    assert f"is right on {counted} % of" in " ".join(assessed[0].split())


def documented_commands():
    """Write the table of the page; yield each command on it, after what the shell runs before it, and its blocks."""
    text = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    section = text[text.index("## fit\n") : text.index("## Files of predictions")]
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], {})
    blocks = re.findall(r"```text\n\$ (.*?)\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 4
    for command, shown in blocks:
        *before, last = command.split("; ")
        for part in before:
            subprocess.run(part, shell=True, check=True)
        yield shlex.split(last)[1:], shown.split("\n\n")


def run(given, capsys, *settings):
    """Run a command, with the settings where it is fit; return what it printed in blocks."""
    assert main([*given, *settings] if given[0] == "fit" else given) == 0
    captured = capsys.readouterr()
    return (captured.err + captured.out).split("\n\n")


def words(text):
    return [re.sub(r"[0-9.]+(e-[0-9]+)?%?", "0", word) for word in text.split()]


def labels(table):
    """Return the first column, without what only a small panel has, and without the name of the best learner."""
    found = [re.split(r"  +", line)[0] for line in table.splitlines()]
    return [re.sub(r" L\d+$", "", label) for label in found if not label.endswith("with the best weights")]


def words_of_lines(text):
    """Return the words line by line, without the lines of predictions."""
    return [words(line) for line in text.splitlines() if not line.startswith(("bird,", "cat,", "dog,"))]


def of_sample_size(advice):
    """Return the finding of the number of rows, which is there whatever the networks do."""
    return next(finding for finding in findings(advice) if finding[1] == "With")


def findings(advice):
    """Return the words of each finding, its severity first."""
    return [words(finding) for finding in re.split(r"\n(?=\S)", advice)]
