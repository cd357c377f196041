"""Table 2: the three tables of the experiments without images, in the package and in the paper."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpoint.datasets import load
from counterpoint.records import (
    Grid,
    markdown,
    read_record,
    rich_table,
    write_record,
    write_text,
)

TITLE = "The data sets without images"

# Table 2 of the paper: instances, classes, attributes
PAPER = {"breast-w": (699, 2, 9), "iris": (150, 3, 4), "segment": (2310, 7, 19)}
COLUMNS = ("instances", "classes", "attributes")


def reproduce(out: Path) -> list[Path]:
    """Count rows, classes and columns of the embedded tables; print and write the counts."""
    from rich.console import Console

    paths = write_record(out, "table-2", title=TITLE, config={"data": list(PAPER)}, data=compute())
    record = read_record(paths[0])
    path = out / "table-2.md"
    write_text(path, markdown([grid(record)]))
    Console().print(rich_table(grid(record)))
    return [*paths, path]


def compute() -> dict[str, dict[str, Any]]:
    """Return the counts of each table beside the paper's, and others that the paper leaves out."""
    found = {}
    for name, paper in PAPER.items():
        data = load(name)
        counts = (len(data.y), len(data.class_names), len(data.feature_names))
        found[name] = {
            "paper": dict(zip(COLUMNS, paper, strict=True)),
            "found": dict(zip(COLUMNS, counts, strict=True)),
            "missing values": int(data.X.isna().sum().sum()),
            "repeated rows": int(data.X.assign(label=data.y).duplicated().sum()),
            "constant columns": int((data.X.nunique() == 1).sum()),
        }
    return found


def grid(record: Mapping[str, Any]) -> Grid:
    """Return the table, with the paper's number in brackets where it differs."""
    extra = ("missing values", "repeated rows", "constant columns")
    rows = []
    for name, one in record["data"].items():
        ours, paper = one["found"], one["paper"]
        counts = [f"{ours[c]}" + (f" ({paper[c]})" if ours[c] != paper[c] else "") for c in COLUMNS]
        rows.append([name, *counts, *(str(one[key]) for key in extra)])
    return Grid(TITLE, ["data set", *COLUMNS, *extra], rows)
