import csv
import json
from importlib.resources import files

import pytest

from counterpoint.datasets import DATASETS

TYPES = json.loads((files("counterpoint.datasets") / "data" / "types.json").read_text())
ELSEWHERE = sorted(name for name, source in DATASETS.items() if not source.embedded)
CELLS = {"numeric": ["1", "2.5", ""], "nominal": ["b", "", "a"]}


def columns_of(name):
    """Return three rows for a set, column by column, as text."""
    columns = {column: CELLS[kind] for column, kind in TYPES[name].items()}
    return columns | {"class": ["yes", "no", "yes"]}


def write_csv(path, columns):
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch):
    monkeypatch.delenv("COUNTERPOINT_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    """A folder that holds the nine sets that are not embedded, three rows each."""
    for name in ELSEWHERE:
        write_csv(tmp_path / f"{name}.csv", columns_of(name))
    return tmp_path
