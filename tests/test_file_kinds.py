"""Files as they come: other separators and encodings, compressed files, JSON, workbooks, open files and pipes."""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import zipfile

import numpy as np
import pytest

from counterpoint.io import file_stem, open_table, read_predictions, read_training_table

TRUTH = ["cat", "dog", "cat", "bird"]
VOTES = {"tree": ["cat", "dog", "dog", "bird"], "big net": ["cat", "cat", "cat", "bird"]}
RECORDS = [
    {"y_true": truth, "tree": tree, "big net": net}
    for truth, tree, net in zip(TRUTH, *VOTES.values(), strict=True)
]


def table(delimiter=","):
    rows = [["y_true", *VOTES], *(record.values() for record in RECORDS)]
    return "".join(delimiter.join(row) + "\n" for row in rows)


def lines():
    return "".join(json.dumps(record) + "\n" for record in RECORDS)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def workbook(*sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def same(read):
    assert read.y_true.tolist() == TRUTH
    assert read.outputs.tolist() == list(VOTES.values())
    assert read.learners == tuple(VOTES)
    assert not read.missing.any()
    return True


CONTENTS = {
    "votes.csv": table(),
    "semicolons.csv": table(";"),
    "tabs.csv": table("\t"),
    "bars.csv": table("|"),
    "commas.tsv": table(),
    "utf16.csv": table().encode("utf-16"),
    "utf16be.csv": "\ufeff".encode("utf-16-be") + table(";").encode("utf-16-be"),
    "utf32.csv": table().encode("utf-32"),
    "bom.csv": table(";").encode("utf-8-sig"),
    "votes.csv.gz": gzip.compress(table(";").encode()),
    "votes.tsv.bz2": bz2.compress(table("\t").encode()),
    "votes.jsonl.xz": lzma.compress(lines().encode()),
    "votes.gz": gzip.compress(lines().encode()),
    "compressed.csv": gzip.compress(table().encode()),  # though its name does not say so
    "votes.arff": "% two learners\n@relation r\n@attribute y_true string\n@attribute tree string\n"
    "@attribute 'big net' string\n@data\n" + table().split("\n", 1)[1],
    "votes.jsonl": lines(),
    "votes.ndjson": lines().replace("\n", "\r\n\r\n"),
    "lines.json": lines(),
    "records.json": json.dumps(RECORDS, indent=1),
    "columns.json": json.dumps({"y_true": TRUTH, **VOTES}),
    "pandas.json": json.dumps(
        {
            name: {str(i): cell for i, cell in enumerate(cells)}
            for name, cells in {"y_true": TRUTH, **VOTES}.items()
        }
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_every_kind_of_file_gives_the_same_predictions(name, tmp_path):
    assert same(read_predictions(write(tmp_path / name, CONTENTS[name])))
    assert same(read_predictions(tmp_path / name, progress=True))


@pytest.mark.parametrize("name", CONTENTS)
def test_the_format_of_an_open_file_without_a_name_is_guessed(name):
    content = CONTENTS[name]
    assert same(read_predictions(io.BytesIO(content if isinstance(content, bytes) else content.encode())))


def test_an_open_file_is_read_by_its_name_or_by_the_format_given(tmp_path):
    path = write(tmp_path / "votes.txt", table(";"))
    with path.open("rb") as file:
        assert same(read_predictions(file))
    assert same(read_predictions(path, file_format="csv"))
    with pytest.raises(ValueError, match=r"`file_format` must be one of 'csv', .*; got 'txt'"):
        read_predictions(path, file_format="txt")
    with path.open() as file, pytest.raises(TypeError, match="opened in binary mode; it gave str"):
        read_predictions(file)
    arrays = io.BytesIO(b"")
    arrays.name = "votes.npz"
    with pytest.raises(ValueError, match=r"must be a path, because votes\.npz holds arrays"):
        read_predictions(arrays)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in the file system")
def test_a_pipe_is_read_once():
    reading, writing = os.pipe()
    os.write(writing, table("|").encode())
    os.close(writing)
    assert same(read_predictions(f"/dev/fd/{reading}"))
    os.close(reading)


def test_a_workbook_gives_the_same_predictions(tmp_path):
    rows = [["y_true", *VOTES], *([*record.values()] for record in RECORDS)]
    path = write(tmp_path / "votes.xlsx", workbook([[], *rows[:2], [None], *rows[2:]]))
    assert same(read_predictions(path))
    several = write(tmp_path / "several.xlsx", workbook(rows, [["notes"]]))
    with pytest.warns(UserWarning, match=r"several\.xlsx has 2 sheets; the first, 'sheet 1', was read"):
        assert same(read_predictions(several))


def test_numbers_of_a_workbook_and_of_json_are_labels_as_in_text(tmp_path):
    cells = [["y_true", "net"], [1, 1.0], [2, "2"], [1, None]]
    read = read_predictions(write(tmp_path / "votes.xlsx", workbook(cells)))
    assert (read.y_true.tolist(), read.outputs.tolist()) == ([1, 2, 1], [[1, 2, None]])
    path = write(
        tmp_path / "votes.jsonl", '{"y_true": 1, "net": 1.0}\n{"net": "2", "y_true": 2}\n{"y_true": 1}\n'
    )
    read = read_predictions(path)
    assert (read.y_true.tolist(), read.outputs.tolist()) == ([1, 2, 1], [[1, 2, None]])
    truths = read_predictions(write(tmp_path / "bool.json", '[{"y_true": true, "net": "True"}]'))
    assert truths.y_true.tolist() == truths.outputs[0].tolist() == ["True"]


def test_the_format_of_binary_tables_is_guessed_too():
    assert same(
        read_predictions(io.BytesIO(workbook([["y_true", *VOTES], *([*row.values()] for row in RECORDS)])))
    )
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(arrow.table({"y_true": TRUTH, **VOTES}), file)
    assert same(read_predictions(io.BytesIO(file.getvalue())))


def test_a_single_record_is_a_row(tmp_path):
    read = read_predictions(
        write(tmp_path / "v.json", '{"y_true": "a",\n"net": "b", "other": "a"}'), learners=["net"]
    )
    assert (read.y_true.tolist(), read.outputs.tolist()) == (["a"], [["b"]])


def test_a_workbook_without_cells_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_chartsheet("chart").add_chart(openpyxl.chart.BarChart())
    book.remove(book["Sheet"])
    book.save(tmp_path / "v.xlsx")
    with pytest.raises(ValueError, match=r"v\.xlsx must have columns; it is empty"):
        read_predictions(tmp_path / "v.xlsx")


def test_a_damaged_sheet_is_refused(tmp_path):
    whole = workbook([["y_true", "net"], [1, 1]])
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(tmp_path / "v.xlsx", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content[: len(content) // 2] if "worksheets" in name else content)
    with pytest.raises(
        ValueError, match=r"v\.xlsx must be an Excel workbook; it is damaged or something else"
    ):
        read_predictions(tmp_path / "v.xlsx")


def test_workbooks_without_openpyxl_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r'pip install "counterpoint\[excel\]"'):
        read_predictions(write(tmp_path / "votes.xlsx", b"x"))


@pytest.mark.parametrize(("label", "encoding"), [("\x93caf\xe9\x94", "cp1252"), ("\x81\xe9", "latin-1")])
def test_text_that_is_not_unicode_is_read_with_a_note(label, encoding, tmp_path):
    content = f"y_true,net\na,a\n{label},{label}\n".encode("latin-1")
    with pytest.warns(UserWarning, match=rf"is not UTF-8 \(byte 0x.. in line 3\); it was read as {encoding}"):
        read = read_predictions(write(tmp_path / "votes.csv", content))
    assert read.y_true[1] == read.outputs[0, 1] == label.encode("latin-1").decode(encoding)


def test_text_is_decoded_across_the_blocks_it_is_read_in(tmp_path):
    rows = "é,é\n" * 300_000  # more than a block, at odd offsets
    read = read_predictions(write(tmp_path / "votes.csv", f"y_true,net\na,é\n{rows}"))
    assert read.outputs.shape == (1, 300_001)


def test_decimal_commas_are_numbers_between_semicolons(tmp_path):
    path = write(tmp_path / "p.csv", "y_true;net:a;net:b\na;0,75;,25\nb;1,5e-1; 0,85\nb;1;0\n")
    read = read_predictions(path)
    np.testing.assert_allclose(read.outputs, [[[0.75, 0.25], [0.15, 0.85], [1, 0]]])
    path = write(tmp_path / "votes.csv", "y_true;net\n1,0;1\n2;2,0\n")
    assert read_predictions(path).outputs.tolist() == [[1, 2]]
    path = write(tmp_path / "data.csv", "size;kind\n" + "1,5;a\n2,25;b\n" * 3)
    training = read_training_table(path, "kind")
    assert training.frame["size"].tolist() == [1.5, 2.25] * 3
    quoted = write(tmp_path / "quoted.csv", 'y_true,net\n"1,5","1,5"\n2,2\n')
    assert read_predictions(quoted).y_true.tolist() == ["1,5", "2"]  # between commas it is a text


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a;b,c;d\n1;2,5;3\n4;5,5;6\n", ["a", "b,c", "d"]),
        ("a,b;c\n1,2;3\n", ["a", "b;c"]),  # both fit: the suffix decides
        ('"a;b","c"\n1,2\n', ["a;b", "c"]),
        ("a|b;c|d\n1|2|3\n", ["a", "b;c", "d"]),
        ("only\n1\n2;\n", ["only"]),
        ("a;b\n\n1,5;2,5\n", ["a", "b"]),
        ('a;"b\nc"\n1;"x\ny"\n', ["a", "b\nc"]),
    ],
)
def test_the_separator_is_the_one_that_fits_the_rows(text, columns, tmp_path):
    with open_table(write(tmp_path / "data.csv", text)) as opened:
        assert opened.columns == columns
        assert opened.read(opened.columns[:1], []).n_rows >= 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "v.csv.gz",
            gzip.compress(table().encode() * 99, mtime=0)[:-9],
            "must be a whole compressed file; it is damaged.",
        ),
        ("v.csv.bz2", bz2.compress(table().encode())[:-9], "must be a whole compressed file; it is damaged."),
        ("v.csv.xz", lzma.compress(table().encode())[:40], "must be a whole compressed file; it is damaged."),
        ("v.xls.gz", b"", "must end in one of .csv, .tsv,"),
        ("v.npz.gz", b"", "must end in one of .csv, .tsv,"),
        ("v.xlsx", b"no workbook", "must be an Excel workbook; it is damaged or something else."),
        ("v.json", '[{"y_true": 1},\n{"y_true": 2]', "must be well-formed JSON; line 2 is not: expecting"),
        ("v.jsonl", '{"a": 1}\n\n{"a": 2\n', "must be well-formed JSON; line 3 is not: expecting"),
        ("v.jsonl", '{"a": 1}\n[2]\n', "must hold a JSON object for each row; got a list in line 2."),
        ("v.json", "[1, 2]", "must hold a JSON object for each row; got '1' in record 1."),
        (
            "v.json",
            '{"a": [1, 2], "b": [1]}',
            "must have columns of the same rows; got 2 in 'a' and 1 in 'b'.",
        ),
        ("v.json", " ", "must have columns; it is empty."),
        ("v.json", "[]", "must have columns; it is empty."),
    ],
)
def test_a_fault_is_one_sentence_that_names_the_file(name, content, message, tmp_path):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message) as caught:
        read_predictions(path)
    assert str(path) in str(caught.value)


def test_an_empty_workbook_has_no_columns(tmp_path):
    with pytest.raises(ValueError, match="must have columns; it is empty"):
        read_predictions(write(tmp_path / "v.xlsx", workbook([])))


def test_a_wide_row_of_a_workbook_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must have 2 cells in every row, .* got 3 in data row 2 \(line 3"):
        read_predictions(write(tmp_path / "v.xlsx", workbook([["y_true", "net"], [1, 1], [1, 2, 3]])))


def test_the_stem_is_without_the_suffix_of_a_compression():
    assert [file_stem(name) for name in ("a/votes.csv", "votes.csv.gz", "votes.gz")] == ["votes"] * 3
