"""The command line on panels without a truth, with some truths, and on scores."""

import json

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.assessment import AgreementAssessment, RegressionAssessment, ScoreAssessment
from counterpoint.cli import main


def table(path, header, columns):
    rows = [header, *map(list, zip(*columns, strict=True))]
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 200
    gold = rng.choice(["no", "yes"], n)
    other = np.where(gold == "no", "yes", "no")
    votes = np.where(rng.random((4, n)) < 0.75, gold, other).astype(object)
    votes[3, ::7] = ""
    ids = [f"q{i}" for i in range(n)]
    judges = ["ann", "bo", "cy", "di"]
    some = np.where(np.arange(n) < 60, gold, "")
    table(tmp_path / "bare.csv", ["id", *judges], [ids, *votes])
    table(tmp_path / "votes.csv", ["id", "label", *judges], [ids, some, *votes])
    quality = rng.normal(5, 2, n).round(2)
    ratings = (quality + rng.normal(size=(4, n))).round(1)
    table(tmp_path / "ratings.csv", ["id", "gold", *judges], [ids, quality, *ratings])
    proba = np.clip(0.5 + 0.25 * (2 * (gold == "yes") - 1) + 0.2 * rng.normal(size=(4, n)), 0, 1).round(3)
    table(tmp_path / "proba.csv", ["gold", *judges], [gold, *proba])
    prices = quality + rng.normal(size=(4, n))
    table(tmp_path / "prices.csv", ["price", *judges], [quality, *prices.round(5)])
    return tmp_path


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_panel_without_a_truth_is_assessed(folder, capsys):
    code, out, err = run(capsys, "assess", "bare.csv", "--no-truth")
    assert code == 0, err
    assert out.startswith("bare\nTwo of the 4 learners agree on ")
    assert "Krippendorff's alpha" in out
    assert "Without a truth, an error that learners share looks like agreement." in " ".join(out.split())
    code, out, err = run(capsys, "assess", "votes.csv", "--no-truth", "--json")
    panel = AgreementAssessment.from_json(out)
    assert err == "Left out as the truth, because of the name: 'label'.\n"
    assert panel.learners == ("ann", "bo", "cy", "di")
    assert (panel.n_samples, panel.n_labelled) == (200, 0)


def test_the_way_without_a_truth_is_shown_to_those_who_need_it(folder, capsys):
    code, _, err = run(capsys, "assess", "bare.csv")
    assert code == 2
    assert err.endswith("got 'y_true'. If there is no truth, add --no-truth.\n")
    _, _, err = run(capsys, "assess", "votes.csv")
    assert err.endswith("got 'y_true'. Did you mean 'label'? If there is no truth, add --no-truth.\n")
    _, _, err = run(capsys, "assess", "votes.csv", "--truth", "lable")
    assert err.endswith("Did you mean 'label'?\n")  # a truth was meant


def test_a_truth_for_some_samples_gives_both(folder, capsys):
    code, out, err = run(capsys, "assess", "votes.csv", "--truth", "label", "--item", "id", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert (data["n_samples"], data["agreement"]["n_samples"], data["agreement"]["n_labelled"]) == (
        60,
        200,
        60,
    )
    code, out, _ = run(
        capsys, "assess", "votes.csv", "--truth", "label", "--item", "id", "--html", "page.html"
    )
    assert code == 0
    assert "60 of 200 samples have a truth." in " ".join(out.split())
    assert (folder / "page.html").is_file()


def test_ratings_are_assessed_with_and_without_a_truth(folder, capsys):
    code, out, _ = run(capsys, "assess", "ratings.csv", "--scores", "--no-truth", "--json")
    assert code == 0
    assert ScoreAssessment.from_json(out).correlation.value == pytest.approx(0.8, abs=0.06)
    code, out, _ = run(
        capsys, "assess", "ratings.csv", "--scores", "--truth", "gold", "--item", "id", "--json"
    )
    assert code == 0
    assert RegressionAssessment.from_json(out).squared_error.value == pytest.approx(0.25, abs=0.06)
    code, out, _ = run(capsys, "assess", "ratings.csv", "--scores", "--truth", "gold", "--drop", "id")
    assert code == 0
    assert out.startswith("ratings\nThe mean of 4 learners has a squared error of ")


def test_numbers_with_a_truth_have_a_page_a_card_and_markdown(folder, capsys):
    told = ["assess", "ratings.csv", "--scores", "--truth", "gold", "--item", "id"]
    code, out, err = run(capsys, *told, "--html", "page.html", "--card", "CARD.md", "--name", "raters")
    assert code == 0, err
    assert out.endswith("Wrote page.html\nWrote CARD.md\n")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "4 learners predicted 200 samples, and their mean is off by <strong>" in page
    assert "tags: [ensemble, regression]" in (folder / "CARD.md").read_text(encoding="utf-8")
    code, out, _ = run(capsys, *told, "--markdown")
    assert code == 0
    assert out.startswith("# ratings\n")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["bare.csv"], "Two of the 4 learners agree on <strong>"),
        (["ratings.csv", "--scores"], "4 learners scored 200 samples and agree"),
    ],
)
def test_a_panel_without_a_truth_has_a_page(folder, capsys, told, words):
    code, out, err = run(capsys, "assess", *told, "--no-truth", "--html", "page.html")
    assert code == 0, err
    assert out.endswith("Wrote page.html\n")
    assert words in (folder / "page.html").read_text(encoding="utf-8")
    code, out, _ = run(capsys, "assess", *told, "--no-truth", "--markdown")
    assert code == 0
    assert "### Learners" in out


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")
def test_many_numbers_that_are_read_as_labels_are_noted(folder, capsys):
    _, _, err = run(capsys, "assess", "ratings.csv", "--truth", "gold", "--item", "id")
    words = "different numbers, read as labels. If the learners predict numbers, add --scores."
    assert words in " ".join(err.split())
    code, _, err = run(capsys, "assess", "ratings.csv", "--truth", "gold", "--item", "id", "--scores")
    assert (code, err) == (0, "")


def test_rows_without_a_number_as_the_truth_are_left_out(folder, capsys):
    text = (folder / "ratings.csv").read_text().splitlines()
    for k in (2, 5):
        cells = text[k].split(",")
        text[k] = ",".join([cells[0], "", *cells[2:]])
    (folder / "ratings.csv").write_text("\n".join(text) + "\n")
    code, out, err = run(capsys, "assess", "ratings.csv", "--item", "id", "--truth", "gold", "--scores")
    assert code == 0, err
    assert "left out 2 of 200 samples, which lack the truth." in err
    assert "4 x 198" in out


def test_probabilities_of_one_class_are_assessed(folder, capsys):
    code, out, err = run(capsys, "assess", "proba.csv", "--scores", "--truth", "gold", "--voting", "soft")
    assert code == 0
    assert err == "The scores are read as probabilities of 'yes'.\n"
    assert out.startswith("proba\nKeep the vote of all 4: it is right on 99")
    assert "The soft vote is right on 99" in " ".join(out.split())


def test_dawid_skene_writes_a_consensus(folder, capsys):
    code, out, err = run(capsys, "vote", "bare.csv", "--method", "dawid-skene")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "id,consensus,confidence"
    rows = [line.split(",") for line in (folder / "bare.csv").read_text().splitlines()[1:]]
    found = assess([[row[k] or None for row in rows] for k in range(1, 5)])
    assert [line.split(",")[1] for line in lines[1:]] == list(found.consensus)
    assert f"The consensus is right on {found.bounds.in_words()}." in err
    assert float(lines[1].split(",")[2]) == pytest.approx(found.confidence[0], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["assess", "votes.csv", "--no-truth", "--truth", "label"],
            "`--truth` and `--no-truth` must not be given",
        ),
        (
            ["assess", "bare.csv", "--no-truth", "--card", "x.md"],
            "`--card` needs a truth; print the text, or write a page",
        ),
        (
            ["assess", "ratings.csv", "--scores", "--truth", "gold", "--item", "id", "--voting", "soft"],
            "`--voting` needs labels or probabilities; numbers are averaged.",
        ),
        (
            ["assess", "ratings.csv", "--scores", "--truth", "gold", "--group", "id"],
            "`--group` needs labels, or scores without a truth",
        ),
        (
            ["assess", "prices.csv", "--truth", "price"],
            "If the learners predict numbers, add --scores.",
        ),
        (
            ["compare", "prices.csv", "prices.csv", "--truth", "price"],
            "If the learners predict numbers, run `counterpoint assess --scores` on each",
        ),
        (["assess", "bare.csv", "--no-truth", "--scores"], "column 'ann' must hold numbers; got"),
        (
            ["assess", "ratings.csv", "--scores", "--truth", "id", "--drop", "gold"],
            "got 200 labels and scores from",
        ),
        (
            ["compare", "votes.csv", "--truth", "label", "--item", "id"],
            "must have a truth in every row; 140 of 200",
        ),
        (
            ["select", "votes.csv", "--truth", "label", "--drop", "di", "--item", "id"],
            "must have a truth in every",
        ),
        (
            ["vote", "bare.csv", "--method", "dawid-skene", "--voting", "soft"],
            "must not be given with `--weights`",
        ),
        (
            ["vote", "bare.csv", "--method", "dawid-skene", "--learner", "ann"],
            "bare.csv: `outputs` must hold at",
        ),
    ],
)
def test_a_fault_is_one_sentence(arguments, words, folder, capsys):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) <= 2


def test_ratings_with_blanks_and_a_truth_are_assessed_where_they_are_complete(folder, capsys):
    text = (folder / "ratings.csv").read_text().splitlines()
    text[3] = text[3].rsplit(",", 1)[0] + ","
    (folder / "ratings.csv").write_text("\n".join(text) + "\n")
    code, out, err = run(capsys, "assess", "ratings.csv", "--item", "id", "--truth", "gold", "--scores")
    assert code == 0
    assert "left out 1 of 200 samples, which lack the score of a learner." in err
    assert "4 x 199" in out


def test_a_long_table_that_is_read_as_a_wide_one_is_recognised(folder, capsys):
    rows = [
        "id,model,answer,gold",
        *(f"q{i},{judge},yes,{'yes' if i % 2 else 'no'}" for i in range(9) for judge in "ab"),
    ]
    (folder / "long.csv").write_text("\n".join(rows) + "\n")
    code, _, err = run(capsys, "assess", "long.csv", "--truth", "gold")
    assert code == 2
    assert "If 'model' names the judge of each row, the table is long: name its item, judge and label." in err


def test_a_diagnosis_may_be_the_truth(folder, capsys):
    (folder / "readers.csv").write_text("patient;diagnosis;ann\n1;ill;ill\n2;well;ill\n")
    code, _, err = run(capsys, "assess", "readers.csv")
    assert code == 2
    assert "Did you mean 'diagnosis'?" in err
