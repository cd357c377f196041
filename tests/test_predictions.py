"""Reading predictions: every format gives the same arrays, and every fault is named with its place."""

import contextlib
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from counterpoint._files import replacing
from counterpoint.io import (
    ARRAY_FORMATS,
    TABLE_FORMATS,
    Format,
    Predictions,
    format_names,
    read_predictions,
)

TRUTH = ["cat", "dog", "cat", "bird"]
VOTES = {"tree": ["cat", "dog", "dog", "bird"], "a 'net'": ["cat", "cat", "cat", "bird"]}

ARFF = r"""% votes of two learners
@relation 'two learners'
@ATTRIBUTE id string
@attribute truth {cat, dog, bird}
@attribute tree {cat,dog,bird}
@attribute 'a \'net\'' string

@data
1,cat,cat,cat
'row, two',dog,dog,"cat"  % said twice
% between
'it''s',cat,dog,'cat'
4, bird , bird ,bird
""".replace("'it''s'", r"'it\'s'")


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(delimiter=","):
    rows = zip(["1", '"row, two"', "3", "4"], TRUTH, *VOTES.values(), strict=True)
    header = ["id", "truth", *VOTES]
    return "".join(delimiter.join(row) + "\n" for row in [header, *rows])


def write_parquet(folder, columns, name="votes.parquet"):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), folder / name)
    return folder / name


@pytest.mark.parametrize("kind", ["csv", "tsv", "arff", "parquet", "npz", "npy"])
def test_every_format_gives_the_same_truth_outputs_and_names(kind, tmp_path):
    truth, options = "truth", {"drop": ["id"]}
    if kind in ("csv", "tsv"):
        path = write(tmp_path, f"votes.{kind}", table("," if kind == "csv" else "\t"))
    elif kind == "arff":
        path = write(tmp_path, "votes.arff", ARFF)
    elif kind == "parquet":
        path = write_parquet(tmp_path, {"id": [1, 2, 3, 4], "truth": TRUTH, **VOTES})
    else:
        path, options = tmp_path / f"votes.{kind}", {}
        outputs = np.array(list(VOTES.values()))
        if kind == "npz":
            np.savez(path, truth=TRUTH, outputs=outputs, learners=list(VOTES))
        else:
            np.save(path, outputs)
            np.save(tmp_path / "truth.npy", TRUTH)
            truth = str(tmp_path / "truth.npy")
    read = read_predictions(path, truth, **options)
    assert read.y_true.tolist() == TRUTH
    assert read.outputs.tolist() == list(VOTES.values())
    assert read.learners == (("L1", "L2") if kind == "npy" else tuple(VOTES))
    assert read.labels is None


def test_an_npy_file_is_memory_mapped(tmp_path):
    np.save(tmp_path / "votes.npy", np.zeros((3, 5), dtype=np.int8))
    np.save(tmp_path / "truth.npy", np.zeros(5, dtype=np.int8))
    read = read_predictions(tmp_path / "votes.npy", str(tmp_path / "truth.npy"))
    assert isinstance(read.outputs, np.memmap)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["1", "1.0", " 1 ", "+1", "1."], [1, 1, 1, 1, 1]),
        (["-0", "0", "-3", "10", "2"], [0, 0, -3, 10, 2]),
        (["1", "1.0", "cat", "1", "cat"], ["1", "1", "cat", "1", "cat"]),
        (["01", "1", "1", "01", "1"], ["01", "1", "1", "01", "1"]),
        (["0.5", "1.0", "1.5", "0.5", "1"], ["0.5", "1", "1.5", "0.5", "1"]),
        (["9" * 30, "1", "1", "1", "1"], ["9" * 30, "1", "1", "1", "1"]),
        (["a", "A", "tRUE", "T", "t"], ["a", "A", "tRUE", "T", "t"]),
        (["<script>", "é", "[b]", "a:b", "None"], ["<script>", "é", "[b]", "a:b", "None"]),
    ],
)
def test_whole_numbers_and_logical_values_are_one_label_however_written_and_other_cells_are_kept(
    cells, labels, tmp_path
):
    rows = "".join(f"{cell},{cell}\n" for cell in cells)
    read = read_predictions(write(tmp_path, "votes.csv", f"y_true,net\n{rows}"))
    assert read.y_true.tolist() == labels
    assert read.outputs.tolist() == [labels]
    assert read.y_true.dtype.kind == ("U" if isinstance(labels[0], str) else "i")


def test_numbers_in_parquet_are_labels_as_in_text(tmp_path):
    path = write_parquet(
        tmp_path, {"y_true": [1, 2, 1], "float": [1.0, 2.0, 2.0], "text": ["1", "2.0", "1"], "int": [2, 2, 1]}
    )
    read = read_predictions(path)
    assert read.outputs.tolist() == [[1, 2, 2], [1, 2, 1], [2, 2, 1]]


def test_categories_in_parquet_are_labels(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    coded = arrow.array(TRUTH).dictionary_encode()
    read = read_predictions(write_parquet(tmp_path, {"y_true": coded, "net": coded}))
    assert read.outputs.tolist() == [TRUTH]


def test_row_names_without_a_name_are_left_out(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame({"y_true": [0, 1], "net": [1, 1]}, index=["a", "b"])
    frame.to_csv(tmp_path / "votes.csv")
    assert read_predictions(tmp_path / "votes.csv").learners == ("net",)
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "votes.parquet")
    assert read_predictions(tmp_path / "votes.parquet").learners == ("net",)


@pytest.mark.parametrize("text", ["y_true,net\n0,1\n1,1\n", "y_true,net:0,net:1\n0,0,1\n1,0,1\n"])
def test_row_names_that_pandas_read_and_wrote_again_are_left_out(text, tmp_path):
    head, *rows = text.splitlines()
    lines = [f"Unnamed: 0,{head}", *(f"{i},{line}" for i, line in enumerate(rows))]
    path = write(tmp_path, "votes.csv", "\n".join(lines))
    assert read_predictions(path).learners == ("net",)
    if ":" not in head:
        assert read_predictions(path, drop=["Unnamed: 0"]).learners == ("net",)
        assert read_predictions(path, "Unnamed: 0").y_true.tolist() == [0, 1]


def test_a_byte_order_mark_windows_lines_and_empty_lines_are_read(tmp_path):
    text = "\ufeffy_true, net\r\n0,\t1\r\n\r\n1,1\r\n   \r\n"
    read = read_predictions(write(tmp_path, "votes.CSV", text))
    assert (read.y_true.tolist(), read.outputs.tolist()) == ([0, 1], [[1, 1]])


def test_learners_are_chosen_in_the_order_given_and_twice_counts_once(tmp_path):
    path = write(tmp_path, "votes.csv", "a,b,c,y_true\n0,1,0,0\n1,1,0,1\n")
    assert read_predictions(path, learners=["c", "a", "c"]).learners == ("c", "a")
    assert read_predictions(path, drop=["b"]).outputs.tolist() == [[0, 1], [0, 0]]
    np.savez(tmp_path / "votes.npz", y_true=[0, 1], outputs=[[0, 1], [1, 1], [0, 0]])
    assert read_predictions(tmp_path / "votes.npz", learners=["L3", "L1"]).outputs.tolist() == [
        [0, 0],
        [0, 1],
    ]


PROBABILITIES = "net:2,net:10,a:b:10.0,a:b:2,y_true\n0.25,0.75,1,0,10\n0.5,0.5,0.125,0.875,2\n"


def test_probabilities_are_columns_named_learner_and_class_by_the_last_colon(tmp_path):
    read = read_predictions(write(tmp_path, "votes.csv", PROBABILITIES))
    assert read.learners == ("net", "a:b")
    assert read.labels.tolist() == [2, 10]
    assert read.outputs.tolist() == [[[0.25, 0.75], [0.5, 0.5]], [[0, 1], [0.875, 0.125]]]
    only = read_predictions(tmp_path / "votes.csv", drop=["net"])
    assert only.learners == ("a:b",)
    arrow = pytest.importorskip("pyarrow")
    single = {
        "net:cat": [0.5, 1],
        "net:dog": arrow.array([0.5, 0], arrow.float32()),
        "y_true": ["dog", "cat"],
    }
    stored = read_predictions(write_parquet(tmp_path, single))
    assert stored.outputs.tolist() == [[[0.5, 0.5], [1, 0]]]


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz"])
@pytest.mark.parametrize("text", [PROBABILITIES, 'y_true,"a,b",<b>\n"1""x",q,1\nq,q,"1""x"\n'])
def test_what_is_written_is_read_again(ending, text, tmp_path):
    read = read_predictions(write(tmp_path, "in.csv", text))
    read.write(tmp_path / "new" / f"out.{ending}", truth="t")
    again = read_predictions(tmp_path / "new" / f"out.{ending}", "t")
    assert again.learners == read.learners
    assert again.y_true.tolist() == read.y_true.tolist()
    assert again.outputs.tolist() == read.outputs.tolist()
    kept = read.keep([1])
    assert (kept.learners, kept.outputs.tolist()) == (read.learners[1:], read.outputs[1:].tolist())


def test_predictions_are_written_only_in_known_formats(tmp_path):
    predictions = Predictions(np.array([0]), np.array([[0]]), ("net",))
    with pytest.raises(ValueError, match=r"`path` must end in one of \.csv, \.tsv, \.npz; got .*out\.xls"):
        predictions.write(tmp_path / "out.xls")


def row(number):
    return rf"data row {number} \(line {number + 1} of the file\)\."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have columns; it is empty."),
        ("y_true,net\n", "must have rows; it has none below its header."),
        ("y_true\n0\n", "must have at least two columns, the truth and a learner; got 'y_true'."),
        (
            "ytrue,net\n0,1\n",
            r"`truth` must be a column of .*, one of 'ytrue', 'net'; got 'y_true'. Did you mean 'ytrue'\?",
        ),
        ("y_true,,net\n0,1,1\n", "must name its columns; column 2 has no name."),
        ("y_true,net, net\n0,1,1\n", "must have distinct column names; got 'net' twice."),
        (",y_true\n0,1\n", "must have a column of a learner beside 'y_true'."),
        ("y_true,net\n0,1\n0\n", f"must have 2 cells in every row, one for each column; got 1 in {row(2)}"),
        ("y_true,net\n0,1\n0,1,1\n", f"got 3 in {row(2)}"),
        ("y_true,net\n,1\nNA,1\n", "column 'y_true' must hold labels; it is empty in every row."),
        ("y_true,a,net\n0,1,\n0,1,nan\n", "column 'net' must hold labels; it is empty in every row."),
        ('y_true,net\n0,"1\n', "must be well-formed; got unexpected end of data in line 2."),
        (
            "y_true,net\n0,1\n1,0.75\n",
            rf"column 'net' must hold labels; got 0\.75 in {row(2)} Probabilities need a column for each class",
        ),
        (
            "y_true,net\ncat,1\ndog,2\n",
            "must have a learner with labels of 'y_true'; 'net' holds no label of 'y_true', such as '1'. If they are",
        ),
        (
            "y_true,net\n" + "".join(f"{i % 2},{i}\n" for i in range(30)),
            "'net' holds 30 different values on 30 samples",
        ),
        (b"y_true,net\n0,1\n0,\x00\n", "must be text; got byte 0x00 in line 3."),
        (
            b"\xef\xbb\xbfy_true,net\n0,\xe9\n",
            "must be UTF-8 text, as its first bytes say; got byte 0xe9 in line 2.",
        ),
        (
            "y_true,net:0,net:1,id\n0,1,0,7\n",
            "must hold votes or probabilities, not both: column 'net:0' .* 'id' is not. Drop one kind.",
        ),
        (
            "y_true,a:0,a:1,b:1\n0,1,0,1\n",
            "must have a column for each class of each learner; 'b:0' is missing.",
        ),
        ("y_true,a:1,b:0,b:1\n0,1,0,1\n", "'a:0' is missing."),
        (
            "y_true,a:0,a:0.0\n0,1,0\n",
            "must have one column for each class of a learner, named learner:class; got 'a:0.0'.",
        ),
        ("y_true,a:0,a:\n0,1,0\n", "named learner:class; got 'a:'."),
        (
            "y_true,a:0,a:1\n0,1,0\n2,1,0\n",
            f"column 'y_true' must hold the classes of the probabilities, '0', '1'; got '2' in {row(2)}",
        ),
        (
            "y_true,a:0,a:1\n0,1,0\n1,1.5,0\n",
            f"column 'a:0' must hold probabilities, between 0 and 1; got 1.5 in {row(2)}",
        ),
        (
            "y_true,a:0,a:1\n0,1,0\n1,,0\n",
            f"column 'a:0' must hold probabilities, between 0 and 1; got a missing one in {row(2)}",
        ),
        (
            "y_true,a:0,a:1\n0,,0\n1,x,0\n",
            f"column 'a:0' must hold probabilities, between 0 and 1; got 'x' in {row(2)}",
        ),
        ("y_true,a:0,a:1\n0,,0\n1,,0\n", "column 'a:0' must hold numbers; it is empty in every row."),
        (
            "y_true,a:0,a:1\n0,1,0\n1,0.5,0.4\n",
            f"the columns of learner 'a' must sum to one in every row; got 0.9 in {row(2)}",
        ),
    ],
)
def test_a_fault_in_a_csv_is_named_with_its_place(text, message, tmp_path):
    path = write(tmp_path, "votes.csv", text)
    with pytest.raises(ValueError, match=message) as caught:
        read_predictions(path)
    assert str(path) in str(caught.value)


def arff(data, declared="@attribute y_true {0,1}\n@attribute net {0,1}"):
    return f"@relation r\n{declared}\n@data\n{data}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (arff("{0 1, 1 1}"), "must not be in sparse ARFF format; got a sparse row in line 5."),
        (arff("0,1,{5}"), r"must not have instance weights; got \{5\} in line 5."),
        (arff("0,'1"), 'must close its quotes; got "\'1" in line 5.'),
        (arff("0"), r"must have 2 cells in every row, one for each column; got 1 in data row 1 \(line 5"),
        (arff(""), "must have rows; it has none below its header."),
        (
            arff("0,1", "@attribute net"),
            "must declare an attribute as '@attribute name type'; got '@attribute net' in line 2.",
        ),
        (arff("0,1", "@attribute bag relational"), "must not have relational attributes; got bag in line 2."),
        (arff("0,1", ""), "must have columns; it is empty."),
        (
            "y_true,net\n0,1\n",
            "must be an ARFF file, with @relation, @attribute and @data; got 'y_true,net' in line 1.",
        ),
        ("@relation r\n", "must be an ARFF file; it has no line @data."),
        ("", "must be an ARFF file; it has no line @data."),
    ],
)
def test_a_fault_in_an_arff_is_named_with_its_place(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_predictions(write(tmp_path, "votes.arff", text))


def test_a_quoted_question_mark_in_arff_is_a_label(tmp_path):
    read = read_predictions(write(tmp_path, "votes.arff", arff("'?',0\n0,'?'")))
    assert read.y_true.tolist() == ["?", "0"]


def damaged(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 2] = b"\0" * (len(content) // 2 - len(content) // 3)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"outputs": [[0, 1]]}, "must hold an array 'y_true'; got 'outputs'."),
        (
            {"y_true": [0, 1], "output": [[0, 1]]},
            r"must hold an array 'outputs'; got 'y_true', 'output'. Did you mean 'output'\?",
        ),
        (
            {"y_true": np.array([0, "x"], object), "outputs": [[0, 1]]},
            r"`y_true` must hold numbers or strings; got Python objects, .* unpickling can run any code",
        ),
        (
            {"y_true": [0, 1], "outputs": [0, 1]},
            r"`outputs` must have axes \(n_learners, n_samples\) .*; got shape \(2,\)",
        ),
        (
            {"y_true": [0, 1], "outputs": [[0, 1]], "learners": ["a", "b"]},
            "`learners` must name the 1 learners of `outputs`; got 2 names.",
        ),
        (
            {"y_true": [0], "outputs": [[0], [1]], "learners": ["a", "a"]},
            "`learners` must be distinct; got 'a' twice.",
        ),
    ],
)
def test_a_fault_in_an_npz_is_named(arrays, message, tmp_path):
    np.savez(tmp_path / "votes.npz", **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        read_predictions(tmp_path / "votes.npz")
    assert str(tmp_path / "votes.npz") in str(caught.value)


def test_damaged_arrays_are_refused(tmp_path):
    path = tmp_path / "votes.npz"
    np.savez_compressed(path, y_true=np.arange(5000) % 7, outputs=np.arange(50000).reshape(10, 5000) % 7)
    damaged(path)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*damaged"):
        read_predictions(path)
    for content in (b"", b"not numpy at all", b"PK\x03\x04 cut short"):
        with pytest.raises(ValueError, match="must be an NPZ archive; it is damaged or something else"):
            read_predictions(write(tmp_path, "votes.npz", content))
        with pytest.raises(ValueError, match="must hold a NumPy array; it is damaged or something else"):
            read_predictions(write(tmp_path, "votes.npy", content))
    np.save(tmp_path / "one.npy", [[0, 1]])
    path = write(tmp_path, "votes.npz", (tmp_path / "one.npy").read_bytes())
    with pytest.raises(ValueError, match="must be an NPZ archive; got a single array"):
        read_predictions(path)


def test_outputs_alone_need_a_file_of_the_truth_and_no_pickles(tmp_path):
    np.save(tmp_path / "votes.npy", [[0, 1]])
    with pytest.raises(
        ValueError, match=r"`truth` must name a \.npy file, because .* holds outputs alone; got 'label'"
    ):
        read_predictions(tmp_path / "votes.npy", "label")
    np.savez(tmp_path / "archive.npz", outputs=[[0, 1]])
    np.save(tmp_path / "short.npy", np.arange(1000))
    write(tmp_path, "short.npy", (tmp_path / "short.npy").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"short\.npy must be a whole array; it is damaged"):
        read_predictions(tmp_path / "short.npy", "t.npy")
    np.save(tmp_path / "objects.npy", np.array([[0, "x"]], object))
    with pytest.raises(ValueError, match=r"objects\.npy must hold numbers or strings; got Python objects"):
        read_predictions(tmp_path / "objects.npy", "t.npy")
    np.save(tmp_path / "bytes.npy", np.array([b"no", b"yes"]))
    read = read_predictions(tmp_path / "archive.npz", str(tmp_path / "bytes.npy"))
    assert read.y_true.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"learners": ["tre"]},
            r"`learners` must be among the columns of .*, 'tree', 'net'; got 'tre'. Did you mean 'tree'\?",
        ),
        ({"drop": ["x"]}, "`drop` must be among the columns of .*; got 'x'."),
        ({"drop": ["tree", "net"]}, "`drop` must leave a column of a learner in .*; got all of them."),
        ({"learners": ["tree"], "drop": ["net"]}, "`learners` and `drop` must not be given together"),
    ],
)
def test_names_of_learners_must_exist_and_leave_some(options, message, tmp_path):
    path = write(tmp_path, "votes.csv", "y_true,tree,net\n0,1,1\n1,1,1\n")
    with pytest.raises(ValueError, match=message):
        read_predictions(path, **options)


def test_names_of_learners_in_arrays_must_exist_and_leave_some(tmp_path):
    path = tmp_path / "votes.npz"
    np.savez(path, y_true=[0, 1], outputs=[[0, 1], [1, 1]], learners=["tree", "net"])
    with pytest.raises(
        ValueError, match=r"`drop` must be among the learners of .*; got 'nets'\. Did you mean 'net'\?"
    ):
        read_predictions(path, drop=["nets"])
    with pytest.raises(
        ValueError, match=r"`drop` must leave at least one of the learners of .*; got all of them"
    ):
        read_predictions(path, drop=["tree", "net"])


def test_a_learner_chosen_by_name_may_say_what_the_truth_never_says(tmp_path):
    path = write(tmp_path, "votes.csv", "y_true,net,tree\n" + "0,2,0\n1,2,1\n" * 3)
    with pytest.raises(
        ValueError, match=r"'net' holds no label of 'y_true', such as '2'.* name the learners"
    ):
        read_predictions(path)
    assert read_predictions(path, learners=["net"]).outputs.tolist() == [[2] * 6]


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none.csv"))):
        read_predictions(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="must be the path of a file; got the folder"):
        read_predictions(tmp_path)
    endings = ", ".join((*TABLE_FORMATS, *ARRAY_FORMATS))
    with pytest.raises(ValueError, match=re.escape(f"votes.xls must end in one of {endings}.")):
        read_predictions(write(tmp_path, "votes.xls", "x"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("votes.csv", "y_true,net\n0,0\nNA,1\n"),
        ("votes.csv", "y_true,net\n0,0\n\n,1\n"),
        ("votes.arff", "@relation r\n@attribute y_true {0,1}\n@attribute net {0,1}\n@data\n0,0\n?,1\n"),
    ],
)
def test_a_blank_truth_is_masked(name, text, tmp_path):
    read = read_predictions(write(tmp_path, name, text), learners=["net"])
    assert read.y_true.mask.tolist() == [False, True]
    assert read.outputs.tolist() == [[0, 1]]
    read.write(tmp_path / "again.csv")
    assert read_predictions(tmp_path / "again.csv", learners=["net"]).y_true.mask.tolist() == [False, True]
    with pytest.raises(ValueError, match="an archive cannot hold blank cells"):
        read.write(tmp_path / "again.npz")


def test_a_blank_truth_in_a_parquet_file_is_masked(tmp_path):
    pytest.importorskip("pyarrow")
    read = read_predictions(write_parquet(tmp_path, {"y_true": [0.0, float("nan")], "net": [0, 0]}))
    assert read.y_true.mask.tolist() == [False, True]


def test_labels_of_other_learners_are_known_where_the_truth_is_partly_blank(tmp_path):
    read = read_predictions(write(tmp_path, "votes.csv", "y_true,a,b\ncat,cat,cat\n,dog,dog\n"))
    assert read.outputs.tolist() == [["cat", "dog"], ["cat", "dog"]]


def test_scores_are_read_as_numbers(tmp_path):
    path = write(tmp_path, "scores.csv", "id,gold,a,b\nx,1.5,2,2.5\ny,7,6.5,\n")
    read = read_predictions(path, "gold", item="id", scores=True)
    assert read.y_true.tolist() == [1.5, 7.0]
    assert read.outputs.tolist() == [[2.0, 6.5], [2.5, None]]
    labels = read_predictions(path, "id", drop=["gold"], scores=True)
    assert labels.y_true.tolist() == ["x", "y"]
    long = write(tmp_path, "long.csv", "id,gold,rater,score\nx,yes,a,0.25\ny,no,a,0.5\nx,yes,b,0.75\n")
    read = read_predictions(long, "gold", item="id", judge="rater", label="score", scores=True)
    assert read.y_true.tolist() == ["yes", "no"]
    assert read.outputs.tolist() == [[0.25, 0.5], [0.75, None]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "gold,a,b\n1,2,3\n1,tall,3\n",
            r"column 'a' must hold numbers; got 'tall' in data row 2 \(line 3 of the",
        ),
        ("gold,a,b\n1,2,\n1,2,\n", r"column 'b' must hold numbers; it is empty in every row\."),
    ],
)
def test_scores_that_are_not_numbers_are_named_with_their_place(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_predictions(write(tmp_path, "scores.csv", text), "gold", scores=True)
    with pytest.raises(ValueError, match=r"column 's' must hold numbers; got 'x' in data row 1 "):
        read_predictions(
            write(tmp_path, "long.csv", "i,j,s\n1,a,x\n"), None, item="i", judge="j", label="s", scores=True
        )


def test_a_parquet_file_that_is_none_or_has_faults_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"votes\.parquet must be a Parquet file; "):
        read_predictions(write(tmp_path, "votes.parquet", "x" * 100))
    for columns, message in [
        ({"y_true": [0, 1], "net": [[0], [1]]}, "column 'net' must hold labels; got type list<"),
        (
            {"y_true": [0, 1], "net:0": ["x", "y"], "net:1": [0.5, 0.5]},
            "column 'net:0' must hold probabilities, between 0 and 1; got 'type string'",
        ),
        ({"y_true": [], "net": []}, "must have rows; it has none."),
        ({}, "must have columns; it has none."),
    ]:
        with pytest.raises(ValueError, match=message):
            read_predictions(write_parquet(tmp_path, columns))


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "counterpoint\[parquet\]"'):
        read_predictions(write(tmp_path, "votes.parquet", "x"))


def test_many_blocks_of_rows_are_read_as_one(tmp_path):
    rng = np.random.default_rng(0)
    truth, net = rng.integers(0, 3, (2, 45_000))
    rows = "".join(f"{a},{b}\n" for a, b in zip(truth, net, strict=True))
    read = read_predictions(write(tmp_path, "votes.csv", f"y_true,net\n{rows}"), progress=True)
    np.testing.assert_array_equal(read.y_true, truth)
    np.testing.assert_array_equal(read.outputs, [net])
    assert read.outputs.dtype == np.int8


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = write(tmp_path, "page.html", "old")
    with contextlib.suppress(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "old")]
    link = tmp_path / "link.html"
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert link.is_symlink()
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))), replacing(tmp_path):
        pass
    with replacing("/dev/null") as file:
        file.write(b"gone")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("path", [None, 3, ["votes.csv"]])
def test_what_is_no_path_is_refused(path):
    words = f"^`path` must be the path of a file; got {re.escape(repr(path))}\\.$"
    with pytest.raises(TypeError, match=words):
        read_predictions(path)
    with pytest.raises(TypeError, match=words):
        Predictions(np.array([0, 1]), np.array([[0, 1]]), ("one",)).write(path)


def test_progress_is_shown_or_not(tmp_path):
    path = write(tmp_path, "votes.csv", "y_true,tree\n0,1\n1,1\n")
    with pytest.raises(TypeError, match="`progress` must be True or False; got 'no'"):
        read_predictions(path, progress="no")


def test_the_truth_of_an_archive_may_have_any_name(tmp_path):
    for name in ("labels", "learners"):
        np.savez(tmp_path / "v.npz", outputs=[[0, 1, 1], [0, 1, 0]], **{name: [0, 1, 0]})
        read = read_predictions(tmp_path / "v.npz", name)
        assert (read.y_true.tolist(), read.labels, read.learners) == ([0, 1, 0], None, ("L1", "L2"))


@pytest.mark.parametrize("name", ["outputs", "learners", "labels", "file", "allow_pickle"])
def test_a_truth_does_not_take_the_place_of_another_array(name, tmp_path):
    predictions = Predictions(np.array([0, 1]), np.array([[0, 1]]), ("one",))
    with pytest.raises(ValueError, match=f"^`truth` must not be one of .* in an NPZ file; got '{name}'"):
        predictions.write(tmp_path / "out.npz", truth=name)
    assert not list(tmp_path.iterdir())
    predictions.write(tmp_path / "out.csv", truth=name)
    assert read_predictions(tmp_path / "out.csv", name).y_true.tolist() == [0, 1]


YES_NO = np.array(["yes", "no"])


@pytest.mark.parametrize(
    ("predictions", "reason"),
    [
        (Predictions(YES_NO, YES_NO[None], ("a:0",)), "votes of 'a:0': a colon marks the probability"),
        (Predictions(YES_NO, YES_NO[None], ("y_true",)), "two columns named 'y_true'"),
        (Predictions(YES_NO, YES_NO[None], (" ",)), "a column without a name"),
        (Predictions(np.array(["NA", "no"]), YES_NO[None], ("a",)), "the label 'NA', which reads as missing"),
        (Predictions(YES_NO, np.array([["yes", ""]]), ("a",)), "the label '', which reads as missing"),
        (
            Predictions(YES_NO, np.array([["yes", "no "]]), ("a",)),
            "both labels 'no' and 'no ', which read alike",
        ),
        (
            Predictions(YES_NO, np.full((1, 2, 2), 0.5), ("a",), np.array(["yes", "n:o"])),
            "the class 'n:o': a colon",
        ),
    ],
)
def test_a_table_that_could_not_be_read_again_is_not_written(predictions, reason, tmp_path):
    for ending in ("csv", "tsv"):
        path = tmp_path / f"out.{ending}"
        message = re.escape(f"{path} must end in .npz, because a table cannot hold {reason}")
        with pytest.raises(ValueError, match=f"^{message}"):
            predictions.write(path)
    assert not list(tmp_path.iterdir())
    predictions.write(tmp_path / "out.npz")
    read = read_predictions(tmp_path / "out.npz")
    assert read.learners == predictions.learners
    np.testing.assert_array_equal(read.outputs, predictions.outputs)


def test_outputs_of_bytes_are_read_as_text_like_their_truth(tmp_path):
    np.save(tmp_path / "v.npy", np.array([[b"no", b"yes"]]))
    np.save(tmp_path / "t.npy", np.array([b"no", b"yes"]))
    read = read_predictions(tmp_path / "v.npy", str(tmp_path / "t.npy"))
    np.testing.assert_array_equal(read.outputs[0], read.y_true)
    assert read.outputs.dtype.kind == "U"


@pytest.mark.parametrize(
    ("formats", "function"), [(TABLE_FORMATS, "open_table"), (ARRAY_FORMATS, "read_arrays")]
)
def test_every_format_names_a_module_that_reads_it(formats, function):
    assert all(callable(getattr(format_.load(), function)) for format_ in formats.values())


def test_a_new_format_is_read_and_named_in_messages(monkeypatch, tmp_path):
    monkeypatch.setitem(TABLE_FORMATS, ".psv", Format("PSV", "delimited", "|"))
    predictions = read_predictions(write(tmp_path, "votes.psv", "y_true|net\n0|1\n1|1\n"))
    assert predictions.outputs.tolist() == [[1, 1]]
    assert format_names(TABLE_FORMATS) == "CSV, TSV, JSONL, JSON, Excel, ARFF, Parquet or PSV"
    with pytest.raises(ValueError, match=r"\.parquet, \.psv, \.npz, \.npy\.$"):
        read_predictions(write(tmp_path, "votes.xls", ""))


def test_exponents_are_of_numbers_only_where_the_file_says_so(tmp_path):
    rows = [(1e3, 1000), (1000, 1e3), (2.5e1, 25), (7, 1e0)]
    written = [("1e3", "1000"), ("1000", "1e3"), ("2.5e1", "25"), ("7", "1e0")]
    objects = ", ".join(f'{{"y_true": {a}, "net": {b}}}' for a, b in written)
    expected = [1000, 1000, 25, 7], [[1000, 1000, 25, 1]]
    read = read_predictions(write(tmp_path, "votes.json", f"[{objects}]"))
    assert (read.y_true.tolist(), read.outputs.tolist()) == expected
    if importlib.util.find_spec("openpyxl"):
        pd.DataFrame(rows, columns=["y_true", "net"], dtype=float).to_excel(tmp_path / "a.xlsx", index=False)
        read = read_predictions(tmp_path / "a.xlsx")
        assert (read.y_true.tolist(), read.outputs.tolist()) == expected
    texts = ", ".join(f'{{"y_true": "{a}", "net": "{b}"}}' for a, b in written)
    lines = "\n".join(map(",".join, written))
    for name, content in (("text.json", f"[{texts}]"), ("votes.csv", f"y_true,net\n{lines}")):
        assert read_predictions(write(tmp_path, name, content)).y_true.tolist() == [
            "1e3",
            "1000",
            "2.5e1",
            "7",
        ]


def test_whole_numbers_beyond_all_digits_are_read_in_no_time(tmp_path):
    read = read_predictions(
        write(tmp_path, "a.json", '[{"y_true": 1e999999999, "net": 1e999999999}, {"y_true": 1}]')
    )
    assert read.y_true.tolist() == ["1e999999999", "1"]
    table = pd.DataFrame({"y_true": [1e16, 3.0], "net": [1e16, np.nan]})
    if importlib.util.find_spec("pyarrow"):
        table.to_parquet(tmp_path / "a.parquet")
        assert read_predictions(tmp_path / "a.parquet").y_true.tolist() == [10**16, 3]
