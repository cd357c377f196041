"""Columns that cannot be answers, and spellings of one label: the same rule at every door."""

import shlex

import numpy as np
import pandas as pd
import pytest

from counterpoint import assess, select
from counterpoint._answers import fold_label, misspelt_labels, spellings, strange_columns
from counterpoint.assessment import compare_votes
from counterpoint.assessment import fold_label as public_fold_label
from counterpoint.cli import main
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.io import read_predictions

N = 120
UNDEFINED = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")


@pytest.fixture
def frame():
    """Return a table as it comes: a number, the truth, a topic, the time, three judges."""
    rng = np.random.default_rng(0)
    human = rng.choice(["pass", "fail"], N)
    other = np.where(human == "pass", "fail", "pass")
    judges = {name: np.where(rng.random(N) < 0.8, human, other) for name in ("ann", "bob", "eve")}
    seconds = rng.integers(1, 90, N)
    topics = rng.choice(["law", "maths"], N)
    return pd.DataFrame({"id": range(N), "human": human, "topic": topics, "seconds": seconds, **judges})


STRANGE = ["id", "topic", "seconds"]


def counts(*labels):
    return pd.Series(labels).value_counts().to_dict()


@pytest.mark.parametrize("call", [assess, select])
def test_columns_that_are_no_answers_are_named_together_with_the_call_that_goes_on(call, frame):
    expected = f'{call.__name__}(df["human"], df.drop(columns=["human", "id", "topic", "seconds"]))'
    with pytest.raises(
        ValueError, match="`outputs` must hold answers; 'id' holds 120 different values"
    ) as caught:
        call(frame["human"], frame.drop(columns="human"))
    assert "'topic' holds no label of `y_true`, such as 'law'" in str(caught.value)
    assert f"If they are no learners: {expected}. If they are, name the learners" in str(caught.value)
    assert eval(expected, {"df": frame, call.__name__: call}) is not None


def test_a_call_without_a_truth_and_a_comparison_name_them_too(frame):
    votes = frame.drop(columns="human")
    with pytest.raises(ValueError, match=r'assess\(outputs\.drop\(columns=\["id", "topic", "seconds"\]\)\)'):
        assess(votes)
    assert assess(votes.drop(columns=STRANGE)).n_learners == 3
    with pytest.raises(
        ValueError, match=r'compare_votes\(df\["human"\], \{"name": df\.drop\(columns=\["human", "id"'
    ):
        compare_votes(frame["human"], {"all": votes, "two": votes[["ann", "bob"]]})


def test_a_mapping_is_answered_with_a_mapping(frame):
    votes = {name: frame[name].tolist() for name in ("topic", "ann", "bob")}
    with pytest.raises(
        ValueError, match=r'for name, one in outputs\.items\(\) if name not in \["topic"\]\}\)'
    ):
        assess(frame["human"].tolist(), votes)


@UNDEFINED
def test_probabilities_of_learners_that_are_always_sure_are_left_in_peace():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 100)
    votes = pd.DataFrame({"net": rng.uniform(0.2, 0.8, 100), "tree": truth.astype(float)})
    assert assess(truth, votes).outputs == "probabilities"
    with pytest.raises(ValueError, match="'sure' holds 100 different values on 100 samples"):
        assess(truth.astype(str), votes.assign(tree=truth.astype(str)).rename(columns={"net": "sure"}))


def test_learners_that_are_named_are_taken_at_their_word(frame):
    votes = frame[["topic", "ann", "bob", "eve"]]
    with pytest.warns(UndefinedMeasureWarning, match="class 'law'"):
        assert assess(frame["human"], votes, learners=list(votes)).accuracies[0] == 0


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("assess", "--truth human"),
        ("select", "-t human"),
        ("compare", "--truth=human"),
        ("vote", "--truth human"),
    ],
)
def test_a_command_names_them_with_the_command_that_goes_on(
    command, options, frame, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    frame.rename(columns={"topic": "the topic"}).to_csv("votes.csv", index=False)
    files = "votes.csv votes.csv" if command == "compare" else "votes.csv"
    given = [command, *files.split(), *options.split()]
    assert main(given) == 2
    message, line = capsys.readouterr().err.strip().split("\n")
    assert "'the topic' holds no label of" in message
    assert line.startswith(f"Go on with: counterpoint {shlex.join(given)} --drop ")
    assert "--drop 'the topic'" in line
    again = shlex.split(line.removeprefix("Go on with: counterpoint "))
    assert main(again) == 0


def test_the_reader_names_the_argument(frame, tmp_path):
    frame.to_csv(tmp_path / "votes.csv", index=False)
    with pytest.raises(ValueError, match=r"To leave them out: drop=\['id', 'topic', 'seconds'\]\.$"):
        read_predictions(tmp_path / "votes.csv", "human")
    read = read_predictions(tmp_path / "votes.csv", "human", learners=["topic", "ann"])
    assert read.learners == ("topic", "ann")


YES = counts(*"yyyyyynnnn")


@pytest.mark.parametrize(
    ("columns", "truth"),
    [
        ([YES, counts(*"n" * 10)], YES),  # constant
        ([counts(*"abcd")], counts(*"abcd")),  # four samples of four classes
        ([counts(*"efgh")], counts(*"abcd")),  # all wrong on four
        ([counts(*range(100, 112))], counts(*range(105, 117))),  # numbers on a scale
        ([{f"free {i}": 1 for i in range(15)}] * 2, {f"true {i}": 1 for i in range(15)}),  # free text
        ([{f"free {i}": 1 for i in range(500)}, {f"text {i}": 1 for i in range(500)}], None),
        ([YES, counts(*"uuuuuuuuuy"), counts(*"u" * 10)], YES),  # a label that is never true, given by two
        ([counts("Yes", "no"), counts("YES", "No.")], counts("yes", "no")),  # spellings
        ([counts(*"aaab"), counts(*"bbba")], None),
        ([counts(*"aaaa"), counts(*"bbbb")], None),  # opposites
        ([{f"a{i}": 1 for i in range(300)} | {"x": 200}], {f"a{i}": 2 for i in range(240)}),  # many answers
    ],
)
def test_answers_that_look_odd_are_left_in_peace(columns, truth):
    assert strange_columns(columns, truth) == []


@pytest.mark.parametrize(
    ("columns", "truth", "expected"),
    [
        ([YES, dict.fromkeys(range(10), 1)], YES, "holds 10 different values on 10 samples"),
        ([YES, counts(*"lllllmmmmm")], YES, "holds no label of the truth, such as 'l'"),
        ([YES, counts("7", "8")], YES, "holds no label of the truth, such as '7'"),  # numbers beside words
        (
            [YES, {0: 4} | dict.fromkeys(range(2, 40), 3)],
            counts(*[0, 1] * 50),
            "holds hardly a label of the truth",
        ),
        ([YES, YES, dict.fromkeys(range(10), 1)], None, "holds 10 different values on 10 samples"),
        ([YES, dict.fromkeys(range(10), 1)], None, "holds 10 different values on 10 samples"),
        ([YES, YES, counts(*"lllllmmmmm")], None, "holds no label of the other learners, such as 'l'"),
    ],
)
def test_what_cannot_be_an_answer_is_found(columns, truth, expected):
    if "hardly" in expected:
        columns = [counts(*[0, 1] * 50), columns[1]]
    (found,) = strange_columns(columns, truth)
    assert found.column == len(columns) - 1
    assert expected in found.reason


def test_simulated_panels_are_left_in_peace():
    rng = np.random.default_rng(0)
    false_alarms = 0
    for _ in range(300):
        n, m, accuracy = rng.integers(5, 60), rng.integers(2, 30), rng.uniform(0.1, 1)
        truth = rng.integers(0, m, n)
        votes = np.where(rng.random((4, n)) < accuracy, truth, rng.integers(0, m, (4, n)))
        columns = [counts(*row) for row in votes.tolist()]
        false_alarms += bool(strange_columns(columns, counts(*truth.tolist())))
        false_alarms += bool(strange_columns(columns, None))
    assert false_alarms <= 6  # of 600


def test_labels_are_folded_as_a_reader_would():
    assert [fold_label(label) for label in ("PASS", " pass", "Pass.", "straße", 3, None, "?!", "a.b.")] == [
        *("pass", "pass", "pass", "strasse", 3, None, "?!", "a.b")
    ]
    assert public_fold_label is fold_label
    assert spellings(["A", "a", "b", 1]) == [["A", "a"]]
    assert misspelt_labels([counts("A", "b"), counts("a")], counts("a", "b")) == []  # it shares one label


def test_labels_spelt_unlike_the_truth_are_an_error_with_the_call_that_mends(frame):
    frame["bob"] = frame["bob"].str.upper()
    frame["eve"] = frame["eve"].str.capitalize() + ". "
    df = frame.drop(columns=STRANGE)
    votes = df.drop(columns="human")
    with pytest.raises(
        ValueError, match=r"'FAIL', 'Fail\. ' and 'fail'; .* are equal but for case, blanks"
    ) as caught:
        assess(df["human"], votes)
    call = str(caught.value).partition("To count them as one: ")[2].partition(", with fold_label from")[0]
    assert call == 'assess(df["human"].map(fold_label), df.drop(columns=["human"]).map(fold_label))'
    assert eval(call, {"assess": assess, "df": df, "fold_label": fold_label}).vote.value > 0.8
    for outputs in (votes.to_numpy().T, {name: votes[name].tolist() for name in votes}):
        with pytest.raises(ValueError, match="must hold labels of one spelling") as caught:
            assess(df["human"].tolist(), outputs)
        call = str(caught.value).partition("To count them as one: ")[2].partition(", with fold_label from")[0]
        names = {"assess": assess, "y_true": df["human"], "outputs": outputs, "fold_label": fold_label}
        assert eval(call, names).vote.value > 0.8
    with pytest.raises(ValueError, match=r"assess\(outputs\.map\(fold_label\)\)"):
        assess(votes)


def test_a_command_goes_on_with_ignore_case(frame, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    df = frame.drop(columns=STRANGE)
    df["bob"] = df["bob"].str.upper() + "."
    df.to_csv("votes.csv", index=False)
    for command in ("assess", "select", "compare", "vote"):
        given = [command, "votes.csv", "--truth", "human"]
        assert main(given) == 2
        message, line = capsys.readouterr().err.strip().split("\n")
        assert message.endswith(" are equal but for case, blanks or final punctuation.")
        assert line == f"Go on with: counterpoint {shlex.join(given)} --ignore-case"
        assert main([*given, "--ignore-case"]) == 0
        capsys.readouterr()
    read = read_predictions("votes.csv", "human", ignore_case=True)
    assert set(np.unique(read.outputs)) == {"pass", "fail"}
    np.testing.assert_array_equal(read.outputs[1], frame["bob"])


def test_ignore_case_holds_for_long_tables_and_abstentions(tmp_path):
    rows = ["a,x,Yes,yes", "a,y,YES.,yes", "b,x,no,no", "b,y,Skip,no", "c,x,No,no", "c,y,no,no"]
    (tmp_path / "a.csv").write_text("item,judge,label,truth\n" + "\n".join(rows))
    read = read_predictions(
        tmp_path / "a.csv",
        "truth",
        item="item",
        judge="judge",
        label="label",
        abstain=["skip"],
        ignore_case=True,
    )
    assert read.outputs.tolist() == [["yes", "no", "no"], ["yes", None, "no"]]


@UNDEFINED
def test_some_labels_spelt_in_another_way_are_a_finding(frame):
    votes = {name: frame[name].tolist() for name in ("ann", "bob", "eve")}
    votes["bob"][:10] = [label.upper() for label in votes["bob"][:10]]
    found = {finding.code: finding for finding in assess(frame["human"], votes).findings}
    assert found["spelling"].severity == "warning"
    assert "'FAIL' and 'fail'" in found["spelling"].text
    assert "never_true" not in found


def ratings(n_points, noise, n, rng):
    truth = rng.integers(1, n_points + 1, n)
    votes = np.rint(truth + rng.normal(0, noise, (3, n))).clip(1, n_points).astype(int)
    return truth, votes


@pytest.mark.parametrize("n_points", [5, 7, 10])
def test_a_scale_is_pointed_out(n_points):
    truth, votes = ratings(n_points, 1.0, 200, np.random.default_rng(1))
    found = {finding.code: finding for finding in assess(truth, votes).findings}
    assert f"The labels look like a scale from 1 to {n_points}" in found["scale"].text
    assert "`assess_regression` (on the command line, --scores) measures distances" in found["scale"].text


@UNDEFINED
def test_codes_of_classes_are_no_scale():
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(30):
        m = int(rng.choice([5, 8, 10]))
        truth = rng.integers(0, m, 300)
        likely = np.array([rng.choice(np.delete(np.arange(m), k), 2, replace=False) for k in range(m)])
        votes = np.where(rng.random(300) < 0.75, truth, likely[truth, rng.integers(0, 2, 300)])
        alarms += "scale" in {finding.code for finding in assess(truth, [votes]).findings}
    assert alarms <= 2  # 2 of 800 in a larger run, all with five classes


@UNDEFINED
def test_digits_are_no_scale():
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_digits(return_X_y=True)
    learners = [GaussianNB(), DecisionTreeClassifier(max_depth=6, random_state=0)]
    votes = [learner.fit(X[::2], y[::2]).predict(X[1::2]) for learner in learners]
    for rows in (votes, votes[:1], votes[1:]):
        assert "scale" not in {finding.code for finding in assess(y[1::2], rows).findings}


@UNDEFINED
def test_words_and_few_errors_are_no_scale():
    truth, votes = ratings(10, 1.0, 200, np.random.default_rng(1))
    assert "scale" not in {f.code for f in assess(truth.astype(str), votes.astype(str)).findings}
    truth, votes = ratings(10, 0.25, 100, np.random.default_rng(1))
    assert "scale" not in {f.code for f in assess(truth, votes).findings}
