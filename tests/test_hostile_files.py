"""Files made to harm: bombs, devices, pipes, pickles, names that a terminal would obey."""

import gzip
import io
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint.arena import read_records
from counterpoint.cli import main
from counterpoint.estimators import DiverseEnsembleClassifier
from counterpoint.io import (
    TABLE_FORMATS,
    file_stem,
    open_table,
    read_predictions,
    read_training_table,
    read_weights,
)
from counterpoint.io import limits as limits_module
from counterpoint.io import sources as sources_module
from counterpoint.models import load_model
from counterpoint.training import load_checkpoint

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
READERS = {
    "predictions": read_predictions,
    "training table": lambda path: read_training_table(path, "y_true"),
    "weights": read_weights,
    "checkpoint": load_checkpoint,
    "estimator": DiverseEnsembleClassifier.load,
}


def sentence(call, *arguments):
    """Return the message of the ValueError that a call raises: one line, of a bearable length."""
    with pytest.raises(ValueError, match=r"\A[^\n]{1,900}\Z") as caught:
        call(*arguments)
    return str(caught.value)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def pickles(marker):
    """Return what runs code in a program that unpickles it, in every wrapping."""
    objects, archive, saved = io.BytesIO(), io.BytesIO(), io.BytesIO()
    bait = np.empty((2, 2), dtype=object)
    bait.fill(Evil(marker))
    np.save(objects, bait, allow_pickle=True)
    np.savez(archive, outputs=bait, y_true=bait[0], learners=bait[0])
    torch.save({"format": 2, "bait": Evil(marker)}, saved)
    return [pickle.dumps(Evil(marker)), objects.getvalue(), archive.getvalue(), saved.getvalue()]


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_runs_the_code_of_a_pickle(reader, tmp_path):
    marker = tmp_path / "ran"
    suffixes = [*TABLE_FORMATS, ".npz", ".npy", ".csv.gz", ".safetensors", ""]
    for content in pickles(marker):
        for suffix in suffixes:
            path = tmp_path / f"file{suffix}"
            path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
            with pytest.raises((ValueError, TypeError)):
                READERS[reader](path)
    assert not marker.exists()
    pickle.loads(pickles(marker)[0])  # the bait works
    assert marker.exists()


def test_a_model_folder_runs_no_code_of_a_pickle(tmp_path):
    marker, folder = tmp_path / "ran", tmp_path / "model"
    folder.mkdir()
    for content in pickles(marker):
        for name in ("model.json", "ensemble.safetensors"):
            (folder / name).write_bytes(content)
        sentence(load_model, folder)
    assert not marker.exists()


def zeros_npz(path, shape, dtype="int8", level=9):
    """Write an archive of zeros without having them in memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive,
        archive.open("outputs.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(size // 2**20):
            file.write(bytes(2**20))


def test_an_archive_that_unpacks_to_more_than_the_bound_is_refused(tmp_path, monkeypatch):
    zeros_npz(tmp_path / "bomb.npz", (64, 2**20))
    assert read_predictions(tmp_path / "bomb.npz", None).outputs.shape == (64, 2**20)
    monkeypatch.setattr(limits_module.unpacked_limit, "__defaults__", (2**20,))
    monkeypatch.setattr(limits_module.check_unpacked, "__kwdefaults__", {"most": 2**20})
    message = sentence(read_predictions, tmp_path / "bomb.npz", None)
    assert re.search(r"bomb\.npz must unpack to at most 6\.\d+ MiB; it unpacks to 64 MiB\.$", message)


@pytest.mark.parametrize("shape", [(2**40, 2**20), (3, 10**12), (2**62, 8)])
def test_an_array_larger_than_its_file_is_refused_before_it_is_made(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("outputs.npy", header.getvalue())
    assert "must unpack to at most 1 GiB" in sentence(read_predictions, tmp_path / "a.npz", None)
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    assert sentence(read_predictions, tmp_path / "a.npy", None).endswith(
        "must be a whole array; it is damaged."
    )


def test_compressed_text_that_never_ends_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"y_true,net\n" + b"0,1\n" * 2**20))
    monkeypatch.setattr(limits_module.check_unpacked, "__kwdefaults__", {"most": 2**16})
    monkeypatch.setattr(limits_module.Bounded.__init__, "__defaults__", (2**16,))
    assert "must unpack to at most" in sentence(read_predictions, path)


def test_a_line_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources_module, "_LONGEST_LINE", 2**16)
    for name in ("a.csv", "a.tsv", "a.arff"):
        (tmp_path / name).write_bytes(b"y_true,net\n" + b"0" * 2**21)
        assert sentence(read_predictions, tmp_path / name).endswith("MiB; line 2 is longer.")


def test_what_has_no_end_is_read_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(sources_module, "MOST_BYTES", 2**16)
    monkeypatch.setattr(limits_module, "MOST_BYTES", 2**16)
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        assert (
            sentence(read_predictions, endless)
            == "/dev/zero must have at most 0.0625 MiB; write it to a file first."
        )


@POSIX
@pytest.mark.parametrize(
    "suffix", [".csv", ".jsonl", ".arff", ".xlsx", ".parquet", ".npz", ".npy", ".csv.gz"]
)
def test_a_pipe_and_an_endless_device_are_refused_at_once(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"endless{suffix}").symlink_to("/dev/zero")
    start = time.perf_counter()
    assert sentence(read_predictions, tmp_path / f"pipe{suffix}").endswith("must be a file; it is a pipe.")
    assert sentence(read_predictions, tmp_path / f"endless{suffix}").endswith(
        "must be a file; it is a device."
    )
    assert time.perf_counter() - start < 2


@POSIX
def test_a_pipe_among_the_files_of_a_model_is_refused(tmp_path):
    os.mkfifo(tmp_path / "model.json")
    sentence(load_model, tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_one_long_label_does_not_make_a_huge_array(tmp_path, name):
    rows = [("x" * 100_000, "cat"), *[("cat", "dog")] * 20_000]
    if name == "a.csv":
        text = "y_true,net\n" + "\n".join(",".join(row) for row in rows)
    else:
        text = "\n".join(json.dumps(dict(zip(("y_true", "net"), row, strict=True))) for row in rows)
    (tmp_path / name).write_text(text)
    message = sentence(read_predictions, tmp_path / name)
    assert "must have shorter labels, as it has 40002 of them; got one of 100000 characters, 'xxx" in message


def test_one_long_name_of_a_sample_does_not_make_a_huge_array(tmp_path):
    (tmp_path / "a.csv").write_text(
        "id,y_true,net\n" + "x" * 100_000 + ",0,0\n" + "".join(f"{i},0,1\n" for i in range(20_000))
    )
    with pytest.raises(ValueError, match="must have shorter names of samples"):
        read_predictions(tmp_path / "a.csv", item="id")


@pytest.mark.parametrize(
    "line",
    [
        " " * 20_000 + "'",
        "0" + " " * 20_000 + "x'",
        "'" + "\\" * 20_000,
        '"' + "a" * 20_000,
        "0," + "\t " * 10_000 + "'",
        "%" * 20_000 + "'",
    ],
)
def test_a_long_line_of_an_arff_takes_linear_time(tmp_path, line):
    (tmp_path / "a.arff").write_text(
        f"@relation r\n@attribute y_true {{0}}\n@attribute net {{0}}\n@data\n{line}\n"
    )
    start = time.perf_counter()
    with pytest.raises(ValueError, match=r"a\.arff"):
        read_predictions(tmp_path / "a.arff")
    assert time.perf_counter() - start < 2


def test_cells_of_an_arff_are_split_as_before(tmp_path):
    (tmp_path / "a.arff").write_text(
        "@relation r\n@attribute y_true {a,b}\n@attribute 'net 1' {a,b}\n@data\n"
        "a , 'a'\n 'b'\t\"b\" % note\n a,b%c\n'a\\'',a\na,\"b\"  \n"
    )
    read = read_predictions(tmp_path / "a.arff", learners=["net 1"])
    assert read.y_true.tolist() == ["a", "b", "a", "a'", "a"]
    assert read.outputs.tolist() == [["a", "b", "b", "a", "b"]]


@pytest.mark.parametrize("bad", ["cat\x00", "\x00", "a\x00b", "\ud800"])
def test_labels_that_arrays_or_utf8_cannot_hold_are_refused(tmp_path, bad):
    rows = [{"y_true": "cat", "net": "cat"}, {"y_true": bad, "net": "cat"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert "column 'y_true' must hold text, without NUL characters" in sentence(
        read_predictions, tmp_path / "a.json"
    )
    (tmp_path / "a.json").write_text(json.dumps([{"y_true": 0, f"n{bad}": 0}]))
    assert "must name its columns in text" in sentence(read_predictions, tmp_path / "a.json")


def test_labels_of_parquet_that_differ_in_a_nul_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"y_true": ["cat", "cat\x00"], "net": ["cat", "cat"]}), tmp_path / "a.parquet"
    )
    assert "without NUL characters" in sentence(read_predictions, tmp_path / "a.parquet")


def test_labels_in_memory_that_numpy_would_merge_are_refused():
    from counterpoint import assess

    labels = np.array(["cat", "cat\x00"], dtype=object)
    with pytest.raises(ValueError, match=r"must hold labels that do not end in NUL; got 'cat\\x00'"):
        assess(labels, [labels, labels])


def test_a_run_of_equal_cells_in_parquet_is_bounded_by_its_rows(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    zeros = arrow.array(np.zeros(3 * 10**6, dtype=np.int8))
    parquet.write_table(arrow.table({f"n{i}": zeros for i in range(60)}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2**20
    assert "must unpack to at most 1 GiB; it unpacks to" in sentence(
        read_predictions, tmp_path / "a.parquet", None
    )


def test_records_without_common_keys_do_not_make_a_huge_table(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{f"k{i}": 1} for i in range(20_000)]))
    assert "must have the same keys in its records; got 20000 keys" in sentence(open_all, tmp_path / "a.json")


def open_all(path):
    with open_table(path) as table:
        table.read(table.columns[:1], [])


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '[{"y_true": ' + "[" * 990 + "]" * 990 + "}]"]
)
def test_deep_nesting_is_one_sentence(tmp_path, text):
    for name in ("a.json", "a.jsonl"):
        (tmp_path / name).write_text(text)
        sentence(read_predictions, tmp_path / name)


def test_a_number_of_many_digits_is_a_label(tmp_path):
    digits = "1" * 6000
    (tmp_path / "a.csv").write_text(f"y_true,net\n0,0\n{digits},{digits}\n")
    assert read_predictions(tmp_path / "a.csv").y_true.tolist() == ["0", digits]


def sheet_of(xml):
    """Return a workbook whose sheet has this XML."""
    import openpyxl

    file = io.BytesIO()
    openpyxl.Workbook().save(file)
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, xml if name.endswith("sheet1.xml") else old.read(name))
    return changed.getvalue()


def test_a_workbook_that_claims_to_be_large_is_read_as_large_as_it_is(tmp_path):
    start = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<dimension ref="A1:XFD1048576"/><sheetData>'
    )
    cells = "".join(
        f'<row r="{r}"><c r="A{r}" t="inlineStr"><is><t>{a}</t></is></c>'
        f'<c r="B{r}" t="inlineStr"><is><t>{b}</t></is></c></row>'
        for r, (a, b) in enumerate([("y_true", "net"), ("0", "1"), ("1", "1")], 1)
    )
    (tmp_path / "a.xlsx").write_bytes(sheet_of(start + cells + "</sheetData></worksheet>"))
    began = time.perf_counter()
    assert read_predictions(tmp_path / "a.xlsx").outputs.tolist() == [[1, 1]]
    assert time.perf_counter() - began < 3
    far = "".join(f'<row r="{r}"><c r="XFD{r}"><v>1</v></c></row>' for r in range(1, 3000))
    (tmp_path / "a.xlsx").write_bytes(sheet_of(start + far + "</sheetData></worksheet>"))
    assert "it is damaged or something else" in sentence(read_predictions, tmp_path / "a.xlsx")


MEASURE = """
import resource, sys
from counterpoint.io import limits, read_predictions, read_weights
{imports}
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = used()
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 2**31, now + 2**31))
limits.unpacked_limit.__defaults__ = ({most},)
try:
    {call}
except (OSError, ValueError) as error:
    print(used() - before, error)
"""


def refusal(call, *, imports="", most=2**30, seconds=20):
    """Return the message of an error raised in a process of its own, which may take 2 GiB, and the MiB that it took."""
    code = MEASURE.format(call=call, imports=imports, most=most)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=True,
    )
    grown, _, message = done.stdout.strip().partition(" ")
    return message, int(grown)


def bomb(path, head, body, times):
    """Write compressed text that repeats itself, as members of one gzip file."""
    path.write_bytes(gzip.compress(head) + gzip.compress(body) * times)
    return path


LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
TABLE_BOMBS = {
    # name: first bytes, repeated bytes, times, bytes that a table may take, message
    "short rows": (
        b"y_true,net\n",
        b"1,1\n" * 2**20,
        4,
        2**26,
        "must take at most 64 MiB of memory as a table",
    ),
    "a wide header": (
        b"",
        b"ab," * 2**22 + b"ab\n",
        40,
        2**30,
        "must have at most 1048576 columns; it has 4194305",
    ),
    "wide rows": (
        ",".join(f"{i:x}" for i in range(2**17)).encode() + b"\n",
        b"1," * (2**17 - 1) + b"1\n",
        600,
        2**26,
        "must take at most 64 MiB",
    ),
}


@LINUX
@pytest.mark.parametrize("name", TABLE_BOMBS)
def test_a_table_of_compressed_text_takes_bounded_memory(name, tmp_path):
    head, body, times, most, expected = TABLE_BOMBS[name]
    path = bomb(tmp_path / "a.csv.gz", head, body, times)
    assert path.stat().st_size < 600_000
    message, grown = refusal(f"read_predictions({str(path)!r}, None)", most=most)
    assert expected in message
    assert grown < 600


@LINUX
def test_records_of_compressed_json_take_bounded_memory(tmp_path):
    path = bomb(tmp_path / "a.json.gz", b"[{}", b",{}" * 2**20, 20)
    message, grown = refusal(f"read_predictions({str(path)!r})")
    assert "must take at most 1 GiB of memory as a table; it takes more. If it is compressed" in message
    assert grown < 400
    bomb(path, b"[{}", b",{}" * 2**22, 60)
    message, grown = refusal(f"read_predictions({str(path)!r})")
    assert "must unpack to at most 256 MiB" in message
    assert grown < 400


@LINUX
def test_a_row_far_down_a_workbook_is_refused_at_once(tmp_path):
    xml = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        '<row r="1"><c r="A1"><v>1</v></c></row><row r="999999999999"><c><v>1</v></c></row></sheetData></worksheet>'
    )
    (tmp_path / "a.xlsx").write_bytes(sheet_of(xml))
    message, grown = refusal(f"read_predictions({str(tmp_path / 'a.xlsx')!r})", imports="import openpyxl")
    assert message.endswith("must be an Excel workbook; it is damaged or something else.")
    assert grown < 100


def test_styles_of_a_workbook_beyond_those_of_excel_are_refused(tmp_path):
    file = io.BytesIO(sheet_of("<worksheet/>"))
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, b"<xf/>" * 600_000 if name == "xl/styles.xml" else old.read(name))
    start = time.perf_counter()
    sentence(read_predictions, tmp_path / "a.xlsx")
    assert time.perf_counter() - start < 2


@LINUX
@pytest.mark.parametrize(
    ("shape", "dtype"), [((10**9, 0), "<f8"), ((10**9, 10), "<U0"), ((0, 10**9, 3), "|i1")]
)
def test_an_array_without_a_byte_is_refused_whatever_its_shape(shape, dtype, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("outputs.npy", header.getvalue())
    for name in ("a.npy", "a.npz"):
        message, grown = refusal(f"read_predictions({str(tmp_path / name)!r}, None)")
        assert f"must hold numbers or strings; it is empty, of shape {shape}" in message
        assert grown < 50


def test_an_array_of_a_million_learners_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2**20 + 1, 2), dtype=np.int8))
    assert "must have at most 1048576 learners, on its first axis; got shape (1048577, 2)." in sentence(
        read_predictions, tmp_path / "a.npy", None
    )


def test_a_long_text_repeated_in_parquet_is_read_once(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = arrow.DictionaryArray.from_arrays(np.zeros(10**6, dtype=np.int32), ["x" * 2000])
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"y_true": column, "net": column}), path, store_schema=False)
    message, grown = refusal(f"read_predictions({str(path)!r})", imports="import pyarrow.parquet")
    assert "must have shorter labels, as it has 2000000 of them; got one of 2000 characters" in message
    assert grown < 200


def test_a_judge_for_each_item_does_not_make_a_huge_panel(tmp_path):
    rows = "".join(f"{i},j{i},yes\n" for i in range(20_000))
    (tmp_path / "a.csv").write_text("id,judge,label\n" + rows)
    with pytest.raises(ValueError, match="column 'judge' names 20000 of them, for 20000 items"):
        read_predictions(tmp_path / "a.csv", None, item="id", judge="judge", label="label")


@LINUX
def test_files_of_a_model_and_of_weights_are_measured_before_they_are_read(tmp_path):
    for name in ("model.json", "weights.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(20 * 2**30)  # sparse: it takes no room on the disk
    imports = "from counterpoint.models import load_model"
    message, grown = refusal(f"load_model({str(tmp_path)!r})", imports=imports, seconds=60)
    assert message.endswith("its model.json is damaged.")
    assert grown < 100
    message, grown = refusal(f"read_weights({str(tmp_path / 'weights.json')!r})")
    assert message.endswith("must have at most 16777216 bytes; it has 21474836480.")
    assert grown < 10


def test_messages_stay_short_whatever_is_in_the_file(tmp_path):
    long = "n" * 100_000
    (tmp_path / "a.csv").write_text(f"y_true,{long},net\n0,1,1\n1,0.5,0\n")
    for call in (
        lambda: read_predictions(tmp_path / "a.csv"),
        lambda: read_predictions(tmp_path / "a.csv", long[1:]),
        lambda: read_predictions(tmp_path / "a.csv", drop=[long + "x"]),
        lambda: read_training_table(tmp_path / "a.csv", long[2:]),
    ):
        sentence(call)


ESCAPE = "\x1b]0;owned\x07\x1b[31m"


def test_control_characters_never_reach_the_terminal(tmp_path, capsys, monkeypatch):
    rows = [
        ["truth", f"tree{ESCAPE}", "net\x9b2J"],
        ["0", "0", "0"],
        ["1", "1", "0"],
        ["1", "1", "1"],
        ["0", "0", "1"],
    ]
    path = tmp_path / f"votes{ESCAPE}\u202e.csv".replace("/", "")
    path.write_text("\n".join(",".join(row) for row in rows))
    monkeypatch.chdir(tmp_path)
    commands = [
        ["assess", path.name, "--truth", "truth"],
        ["assess", path.name, "--truth", f"x{ESCAPE}"],
        ["select", path.name, "--truth", "truth", "--size", "1"],
        ["compare", path.name, path.name, "--truth", "truth"],
        ["vote", path.name],
        ["vote", path.name, "--drop", f"{ESCAPE}"],
    ]
    for command in commands:
        main(command)
        found = capsys.readouterr()
        assert not any(mark in found.out + found.err for mark in ("\x1b", "\x07", "\x9b", "\u202e")), command
    assert "\\x1b" in found.err


def test_an_assessment_prints_no_control_characters():
    from counterpoint import assess

    votes = {f"a{ESCAPE}": [0, 1, 1, 1, 0, 0], "b": [0, 1, 0, 0, 1, 0], "c": [1, 1, 0, 1, 0, 1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assessment = assess([0, 1, 1, 0, 0, 1], votes, name=ESCAPE)
    assert "\x1b" not in str(assessment)
    assert "\x1b" not in repr(assessment)


# What changes the direction of a line: embeddings, overrides, isolates and their ends, and the marks.
DIRECTIONS = [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]


@pytest.mark.parametrize("mark", DIRECTIONS, ids=lambda mark: f"{ord(mark):04x}")
def test_marks_of_direction_reach_neither_a_page_nor_a_card_nor_a_terminal(mark, tmp_path, capsys):
    from counterpoint import assess
    from counterpoint.assessment import assess_regression, compare_votes
    from counterpoint.report import EnsembleReport

    rng = np.random.default_rng(0)
    labels = [f"{mark}ja", "nein"]
    truth = rng.choice(labels, 60)
    votes = {
        f"{mark}tree": np.where(rng.random(60) < 0.8, truth, truth[::-1]),
        "net": truth[::-1],
        "rule": truth,
    }
    numbers = {name: rng.normal(size=60) for name in votes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged = assess(truth, votes, name=f"panel{mark}")
        others = [
            assess(votes, name=f"panel{mark}"),
            assess_regression(rng.normal(size=60), numbers, name=mark),
        ]
        comparison = compare_votes(truth, {f"a{mark}": votes, "b": {"net": votes["net"]}})
    reports = [EnsembleReport(one) for one in (judged, *others)]
    reports.append(EnsembleReport([judged, assess(truth, votes, name="b", learners=["x", "y", f"{mark}z"])]))
    texts = [text for report in reports for text in (report.html(), report.markdown(), report._repr_html_())]
    texts += [reports[0].model_card(), str(judged), judged._repr_html_(), comparison._repr_html_()]
    assert not [text[:200] for text in texts if mark in text]
    assert all(f"\\u{ord(mark):04x}" in text for text in texts)
    rows = [["truth", *votes], *zip(truth, *votes.values(), strict=True)]
    (tmp_path / "votes.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    for command in ("assess", "select", "compare"):
        assert main([command, str(tmp_path / "votes.csv"), "--truth", "truth"]) == 0
        found = capsys.readouterr()
        assert mark not in found.out + found.err


def test_words_from_right_to_left_stand_by_themselves_on_a_page():
    from counterpoint import assess
    from counterpoint.report import EnsembleReport

    truth = ["כן", "לא"] * 30
    votes = {"שופט אחד": ["כן"] * 30 + truth[30:], "net": truth[:40] + ["כן"] * 20, "rule": truth[::-1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page = EnsembleReport(assess(truth, votes, name="פאנל")).html()
    assert "<h1><bdi>פאנל</bdi></h1>" in page
    assert '<th role="rowheader" scope="row"><bdi>שופט אחד</bdi></th>' in page
    sentences = re.findall(r'<span class="text">[^\n]*[א-ת][^\n]*</span></li>', page)
    assert sentences
    assert not [one for one in sentences if re.search("[א-ת]", re.sub("<bdi>.*?</bdi>", "", one))]


@POSIX
def test_a_name_that_is_not_utf8_fails_before_any_work(tmp_path, capsys):
    bad = os.fsdecode(os.fsencode(tmp_path / "model") + b"\xff")
    data = tmp_path / "data.csv"
    data.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    for command in (
        ["fit", str(data), "--target", "y", "--out", bad],
        ["fit", str(data), "--target", "y", "--out", str(tmp_path / "m"), "--html", bad],
        ["arena", "--data", str(data), "--target", "y", "--out", bad],
        ["demo", "--out", bad],
    ):
        assert main(command) == 2
        assert capsys.readouterr().err.startswith("Names of files and columns must be UTF-8; got '")
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
    with pytest.raises(ValueError, match="`path` must be the path of a file whose name is UTF-8; got"):
        read_predictions(bad)
    with pytest.raises(ValueError, match="whose name is UTF-8"):
        read_predictions("a\0b.csv")


def test_a_message_of_the_command_line_is_cut_short(tmp_path, capsys):
    assert main(["assess", "x" * 5000]) == 2
    assert len(capsys.readouterr().err) < 1100


def test_the_stem_of_a_name_of_dots_leads_nowhere_else():
    for name in ("...csv", "..csv.gz", "....tsv", "a/...csv", "..", "...gz"):
        assert file_stem(name).strip(".")


def test_the_results_of_a_table_named_by_dots_stay_in_their_folder(tmp_path):
    from counterpoint.arena.jobs import ArenaJob, open_store
    from counterpoint.arena.tables import read_table

    data = tmp_path / "in" / "...csv"
    data.parent.mkdir()
    data.write_text("x,z,y\n" + "".join(f"{i % 9},{i * i % 7},{i % 2}\n" for i in range(40)))
    store, name = open_store(tmp_path / "out"), read_table(data, "y").name
    assert store.path(ArenaJob(name, "ncl", 0).name) == tmp_path / "out" / "jobs" / "csv" / "ncl-0.json"
    with pytest.raises(ValueError, match="must lead into the folder of the store"):
        store.path(ArenaJob("..", "ncl", 0).name)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["config"].pop("method"),
        lambda record: record["config"].pop("rows"),
        lambda record: record["config"].update(candidates=7),
        lambda record: record["config"].update(table="other"),
        lambda record: record["data"].pop("folds"),
        lambda record: record["data"].update(folds=[]),
        lambda record: record["data"]["folds"][0].pop("error"),
        lambda record: record["data"]["folds"][0].update(error="x"),
        lambda record: record["data"]["folds"][0].update(r_tl=[1]),
        lambda record: record.update(data=None),
        lambda record: record.update(config=[]),
    ],
)
def test_a_damaged_cell_is_left_out_of_a_report_with_a_warning(change, cells, tmp_path):
    out = tmp_path / "out"
    for name, record in cells.items():
        path = out / "jobs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = json.loads(json.dumps(record))
        if "forest" in name:
            change(changed)
        path.write_text(json.dumps(changed))
    with pytest.warns(RuntimeWarning, match="damaged|other JSON"):
        found = read_records(out)
    assert [record["name"] for record in found] == ["iris/extra-trees-0"]


def test_a_report_is_written_without_its_damaged_cells(cells, tmp_path, capsys):
    for name, record in cells.items():
        path = tmp_path / "jobs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record if "extra" in name else record | {"data": {}}))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["arena", "--report-only", "--out", str(tmp_path)]) == 0
    assert "is damaged (data.folds is missing) and left out" in " ".join(capsys.readouterr().err.split())
    assert "random-forest" not in (tmp_path / "arena.md").read_text()


@pytest.fixture(scope="module")
def cells():
    jobs = Path(__file__).parents[1] / "results" / "arena" / "jobs" / "iris"
    names = ("random-forest-0", "extra-trees-0")
    return {f"iris/{name}": json.loads((jobs / f"{name}.json").read_text()) for name in names}


def test_huge_juries_take_no_memory_and_are_never_nan():
    from counterpoint.theory import jury_accuracy

    assert jury_accuracy(0.6, -1e-10, 10**8) == 1.0
    assert jury_accuracy(0.5, -1e-10, 10**8) == 0.5
    for n in (10**9, 2**53, 2**62, 2**63 - 1):
        for c in (0.0, 1e-19, 0.1, 1.0):
            found = jury_accuracy([0.4, 0.5, 0.6], c, n)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found + found[::-1], 1, atol=1e-12)
        assert jury_accuracy(0.5, 0, n, model="bahadur") == 0.5
    # At the sizes where the limits begin, they agree with what was computed.
    np.testing.assert_allclose(
        jury_accuracy(0.5003, [0, 1e-6], 2_000_001), jury_accuracy(0.5003, [0, 1e-6], 1_999_999), atol=1e-6
    )
    np.testing.assert_allclose(
        jury_accuracy(0.5005, -2e-6, 200_001), jury_accuracy(0.5005, -2e-6, 199_999), atol=1e-4
    )


def test_wide_tables_are_read_in_linear_time(tmp_path):
    def seconds(n):
        path = tmp_path / "wide.csv"
        names = [f"L{i}" for i in range(n)]
        rows = [["y_true", *names], *(["01"[i % 2]] * (n + 1) for i in range(8))]
        path.write_text("\n".join(map(",".join, rows)))
        start = time.perf_counter()
        for truth in ("y_true", None):
            read_predictions(path, truth)
        read_predictions(path, drop=names[: n // 2])
        return time.perf_counter() - start

    seconds(100)
    assert seconds(10_000) < 12  # it was minutes


def test_markup_in_the_name_of_a_table_is_escaped_on_the_page_of_the_arena(cells):
    from counterpoint.arena import summarise
    from counterpoint.arena.page import html, markdown

    name = "<img src=x onerror=owned=1>"
    records = [{**record, "config": {**record["config"], "table": name}} for record in cells.values()]
    summary = summarise(records)
    assert name not in html(summary)
    assert "&lt;img src=x" in html(summary)
    assert name not in markdown(summary)
