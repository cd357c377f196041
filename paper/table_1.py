"""Table 1: the three types of random forests, with the numbers behind Figure 6.

The paper's table describes the forests; this one measures them. ``python -m paper.table_1 RECORD
DOCUMENT`` writes the tables of a record into a document again.
"""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint.records import (
    Grid,
    Numbers,
    given_paths,
    mean,
    read_record,
    refill,
    rich_table,
    spread,
    write_record,
    write_text,
)
from counterpoint.records import markdown as in_markdown
from paper.forests import DEPTH, FEATURE, MAIN, PARTS, READINGS, Measured, study

TITLE = "Three types of random forests, on the images they were grown on and on others"

HEADINGS = {
    "r_tl": "r_TL",
    "r_ll": "r_LL",
    "bound": "bound",
    "optimality": "optimality",
    "tree": "tree",
    "vote": "vote",
    "undefined": "left out",
}


def reproduce(out: Path, *, data: Path | None = None, seed: int = 0, smoke: bool = False) -> list[Path]:
    """Measure the forests in every reading of the paper; print the means, write the tables."""
    from rich.console import Console

    done = study(tuple(READINGS), data=data, seed=seed, smoke=smoke)
    paths = write_record(out, "table-1", title=TITLE, **done._asdict())
    record = read_record(paths[0])
    path = out / "table-1.md"
    write_text(path, markdown(record))
    console = Console()
    for grid in grids(record, mean):
        console.print(rich_table(grid))
    return [*paths, path]


def markdown(record: Mapping[str, Any]) -> str:
    """Return the tables of a record as Markdown, with mean and standard deviation over the seeds."""
    return in_markdown(grids(record, spread))


def grids(record: Mapping[str, Any], write: Callable[[Numbers], str]) -> list[Grid]:
    """Return a table for each part of the images, and one of what the paper says of them."""
    config, data = record["config"], record["data"]
    sizes = {"train": config["n_train"], "held_out": config["n_held_out"]}
    start = f"{'Smoke run. ' if config['smoke'] else ''}{config['images']}"
    tables = [
        Grid(
            f"{start}, {sizes[part]:,} {words} images, n = {len(config['seeds'])}",
            ["forest", *HEADINGS.values()],
            [[name, *(write(one[part][key]) for key in HEADINGS)] for name, one in data[MAIN].items()],
        )
        for part, words in PARTS.items()
    ]
    return [*tables, _claims(data, f"{start}, what the paper says, n = {len(config['seeds'])}", write)]


def rank_correlation(measured: Measured, part: str, *, by: str = "optimality") -> NDArray[np.float64]:
    """Return Spearman's correlation of a quantity and the accuracy of the vote, one for each seed.

    ``by`` names the quantity; besides those of the table it may be ``"gap"``, minus the height of the bound above
    ``r_tl``, another way to be near to it.
    """
    from scipy.stats import spearmanr

    values = {key: np.array([one[part][key] for one in measured.values()]) for key in HEADINGS}
    values["gap"] = values["r_tl"] - values["bound"]
    return np.array([spearmanr(a, b).statistic for a, b in zip(values[by].T, values["vote"].T, strict=True)])


def wins(measured: Measured, part: str, key: str) -> int:
    """Return in how many runs the original forest is above every other."""
    original, *others = (one[part][key] for one in measured.values())
    return int((np.array(original) > np.max(others, axis=0)).sum())


def _claims(data: Mapping[str, Measured], title: str, write: Callable[[Numbers], str]) -> Grid:
    rows = []
    for reading, part in product(data, PARTS):
        forests = {**data[MAIN], **data[reading]}
        kinds = [{one.name: forests[one.name] for one in kind} for kind in (FEATURE, DEPTH)]
        rows.append(
            [
                reading,
                PARTS[part],
                *(str(wins(forests, part, key)) for key in ("vote", "optimality")),
                *(write(rank_correlation(some, part)) for some in (forests, *kinds)),
                *(write(rank_correlation(forests, part, by=key)) for key in ("gap", "tree")),
            ]
        )
    headings = ["reading", "images", "best vote", "nearest", "ranks", "feature", "depth", "by gap", "by tree"]
    return Grid(title, headings, rows, n_words=2)


if __name__ == "__main__":
    source, target = given_paths("paper.table_1", "record", "document")
    refill(target, {"table-1": markdown(read_record(source))})
