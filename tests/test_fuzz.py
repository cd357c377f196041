"""Mutated files of every format: a whole answer or one sentence, in bounded time and memory, and nothing left behind.

A mutation flips bits, cuts the file, inserts bytes, splices parts of itself or of another file, or swaps numbers in
text for strange ones. The seed of each case is its number, so that a failure can be repeated.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from counterpoint.cli._select import read_costs
from counterpoint.estimators import DiverseEnsembleClassifier
from counterpoint.io import Column, read_predictions, read_training_table, read_weights
from counterpoint.models import TableModel, load_model, save_model
from counterpoint.training import DiversityLoss, Ensemble, fit

resource = pytest.importorskip("resource")
FEW, MANY = 30, 10_000  # cases for each format in the default suite, and in the slow one
SECONDS, KILOBYTES = 5, 400_000  # that one case may take, and all cases together
STRANGE = [
    b"\x00",
    b"\xff" * 8,
    b"-1",
    b"1e308",
    b"NaN",
    b"'",
    b'"',
    b"{",
    b"[[",
    b"\n",
    b",",
    b"\xef\xbb\xbf",
    b"9" * 30,
]
RECORDS = [{"y_true": "ab"[i % 2], "tree": "ab"[i % 3 == 0], "net": "ab"[i % 5 == 0]} for i in range(12)]
PROBABILITIES = [
    {"y_true": "ab"[i % 2], "net:a": round(i / 12, 3), "net:b": round(1 - i / 12, 3)} for i in range(12)
]


def csv_of(records, delimiter=","):
    rows = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
    return "\n".join(delimiter.join(row) for row in rows).encode()


def arff():
    head = "@relation r\n@attribute y_true {a,b}\n@attribute 'tree' {a,b}\n@attribute net {a,b}\n@data\n"
    return (
        head + "\n".join(",".join(record.values()) for record in RECORDS) + "\n'a', \"b\", a % note\n"
    ).encode()


def in_memory(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


VOTES = np.array([[record[name] for record in RECORDS] for name in ("tree", "net")])
TRUTH = np.array([record["y_true"] for record in RECORDS])
SHARES = np.random.default_rng(0).dirichlet([1, 1], (2, 12))
CONTENTS = {
    "votes.csv": csv_of(RECORDS),
    "shares.csv": csv_of(PROBABILITIES),
    "votes.tsv": csv_of(RECORDS, "\t"),
    "votes.jsonl": "\n".join(map(json.dumps, RECORDS)).encode(),
    "votes.json": json.dumps(RECORDS).encode(),
    "votes.arff": arff(),
    "votes.npz": in_memory(
        lambda file: np.savez_compressed(
            file, y_true=TRUTH, outputs=VOTES, learners=np.array(["tree", "net"])
        )
    ),
    "shares.npz": in_memory(lambda file: np.savez(file, y_true=np.arange(12) % 2, outputs=SHARES)),
    "votes.npy": in_memory(lambda file: np.save(file, VOTES)),
    "shares.npy": in_memory(lambda file: np.save(file, SHARES)),
    "votes.csv.gz": gzip.compress(csv_of(RECORDS)),
    "votes.csv.bz2": bz2.compress(csv_of(RECORDS)),
    "votes.csv.xz": lzma.compress(csv_of(RECORDS)),
}


def mutate(content, rng):
    """Return a mutation of some bytes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        kind = int(rng.integers(0, 6))
        if kind == 0 and data:  # a flipped bit
            data[at % len(data)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:  # cut short
            del data[at:]
        elif kind == 2:  # bytes from nowhere
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 3 and data:  # a part again elsewhere
            start = int(rng.integers(0, len(data)))
            data[at:at] = data[start : start + int(rng.integers(1, 200))]
        elif kind == 4 and data:  # a part removed
            del data[at : at + int(rng.integers(1, 50))]
        else:
            data[at:at] = STRANGE[int(rng.integers(0, len(STRANGE)))]
    return bytes(data)


def check_cases(read, folder, content, name, seeds):
    """Read mutations of a file, and return how many were refused."""
    refused, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in seeds:
        rng = np.random.default_rng(seed)
        (folder / name).write_bytes(mutate(content, rng))
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(folder / name)
        except ValueError as error:
            refused += 1
            text = str(error)
            assert "\n" not in text, (seed, text)
            assert len(text) < 900, (seed, text)
        except Exception as error:
            raise AssertionError(f"case {seed} of {name} gave {error!r}") from error
        assert time.perf_counter() - start < SECONDS, seed
        assert os.listdir(folder) == [name], seed  # noqa: PTH208
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KILOBYTES
    return refused


def read_any(path):
    """Read a file as predictions, with and without a truth; and as a table to train on where it is one."""
    names = [None] if path.suffix == ".npy" else ["y_true", None]
    errors = []
    for truth in names:
        try:
            read_predictions(path, truth)
        except ValueError as error:
            errors.append(error)
    if path.suffix not in (".npy", ".npz"):
        read_training_table(path, "y_true")
    if errors:
        raise errors[0]


def parquet():
    pytest.importorskip("pyarrow")
    return in_memory(lambda file: pd.DataFrame(RECORDS).to_parquet(file))


def workbook():
    pytest.importorskip("openpyxl")
    return in_memory(lambda file: pd.DataFrame(RECORDS).to_excel(file, index=False))


def contents(name):
    return {"votes.parquet": parquet, "votes.xlsx": workbook}.get(name, lambda: CONTENTS[name])()


FILES = [*CONTENTS, "votes.parquet", "votes.xlsx"]


@pytest.mark.parametrize("name", FILES)
def test_a_mutated_table_is_read_or_one_sentence(name, tmp_path):
    refused = check_cases(read_any, tmp_path, contents(name), name, range(FEW))
    assert refused > FEW / 4


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_ten_thousand_mutated_tables_are_read_or_one_sentence(name, tmp_path):
    check_cases(read_any, tmp_path, contents(name), name, range(MANY))


def test_a_mutated_file_of_weights_is_read_or_one_sentence(tmp_path):
    content = b'{"voting": "hard", "weights": {"tree": 0.25, "net": 0.75}}'
    check_cases(read_weights, tmp_path, content, "weights.json", range(2 * FEW))


@pytest.mark.parametrize("name", ["costs.json", "costs.csv"])
def test_a_mutated_file_of_costs_is_read_or_one_sentence(name, tmp_path):
    content = b'{"tree": 1, "net": 2.5}' if name.endswith("json") else b"learner,cost\ntree,1\nnet,2.5\n"
    check_cases(lambda path: read_costs(str(path)), tmp_path, content, name, range(2 * FEW))


@pytest.fixture(scope="module")
def estimator():
    torch.manual_seed(0)
    X = pd.DataFrame({"a": np.arange(24.0) % 7, "c": ["x", "y", "z"] * 8})
    settings = {"n_estimators": 2, "hidden_layer_sizes": (3,), "epochs": 1, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DiverseEnsembleClassifier(**settings).fit(X, np.array(["p", "q"] * 12))


@pytest.fixture(scope="module")
def estimator_file(estimator, tmp_path_factory):
    path = tmp_path_factory.mktemp("estimator") / "file"
    estimator.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("n", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_mutated_file_of_an_estimator_is_one_sentence(n, estimator_file, tmp_path):
    assert check_cases(DiverseEnsembleClassifier.load, tmp_path, estimator_file, "file", range(n)) > 0.98 * n


@pytest.fixture(scope="module")
def model(estimator, tmp_path_factory):
    columns = (Column("a", "number"), Column("c", "category"))
    facts = {"data": "x.csv", "n_rows": 24}
    return save_model(
        TableModel("y", columns, (), estimator, facts), tmp_path_factory.mktemp("model") / "model"
    )


@pytest.mark.parametrize("n", [FEW // 2, pytest.param(MANY // 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["model.json", "ensemble.safetensors"])
def test_a_mutated_model_folder_is_one_sentence(n, name, model, tmp_path):
    content = (model / name).read_bytes()
    folder = tmp_path / "model"
    shutil.copytree(model, folder)

    def read(path):
        shutil.copy(path, folder / name)
        load_model(folder)

    (tmp_path / "case").mkdir()
    assert check_cases(read, tmp_path / "case", content, name, range(n)) > 0.98 * n
    assert sorted(os.listdir(folder)) == ["ensemble.safetensors", "model.json"]  # noqa: PTH208


def run(path, resume=True):
    torch.manual_seed(0)
    x = torch.arange(16.0).reshape(8, 2) / 16
    return fit(
        Ensemble([nn.Linear(2, 2), nn.Linear(2, 2)]),
        [(x, torch.tensor([0, 1] * 4))],
        loss=DiversityLoss(),
        optimizer=torch.optim.SGD,
        epochs=1,
        checkpoint=path,
        resume=resume,
        progress=False,
    )


@pytest.mark.parametrize("n", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")
def test_a_mutated_checkpoint_is_one_sentence(n, tmp_path):
    run(tmp_path / "run")
    content = (tmp_path / "run").read_bytes()
    folder = tmp_path / "case"
    folder.mkdir()
    assert check_cases(run, folder, content, "run", range(n)) > 0.98 * n
