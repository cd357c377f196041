"""Long tables of predictions: a row for each label that a judge gave to an item."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import short
from counterpoint.io.cells import Cells, LabelColumn, NumberColumn, OpenTable, text_array
from counterpoint.io.limits import unpacked_limit
from counterpoint.io.names import check_column, choose_learners, named_columns
from counterpoint.io.prediction_table import Wanted, read_groups, read_scores, read_votes

__all__ = ["LongColumns", "read_long_table"]

_CELL = 8  # bytes of memory, for each item and judge


class LongColumns(NamedTuple):
    """The columns of a long table."""

    item: str
    judge: str
    label: str


def read_long_table(table: OpenTable, columns: LongColumns, wanted: Wanted) -> dict[str, Any]:
    """Return the fields of the predictions in a long table; the judges are the learners."""
    truth, group = wanted.truth, wanted.group
    beside = [name for name in (truth, group) if name is not None]
    named = named_columns(table, [*columns, *beside])
    for name, argument in zip(columns, columns._fields, strict=True):
        check_column(name, argument, table, named)
    if len(set(columns)) < len(columns):
        raise ValueError(
            f"`item`, `judge` and `label` must be three columns; got {', '.join(map(short, columns))}."
        )
    if truth is not None:
        check_column(truth, "truth", table, [name for name in named if name not in columns])
    if group is not None:
        check_column(group, "group", table, [name for name in named if name not in (*columns[1:], truth)])
    numbers = [columns.label] if wanted.scores else []
    cells = table.read([name for name in dict.fromkeys([*columns, *beside]) if name not in numbers], numbers)
    items, item_codes = _recode(cells, cells.labels[columns.item], "an item")
    judges, judge_codes = _recode(cells, cells.labels[columns.judge], "a judge")
    _check_pairs(cells, columns, items, judges, item_codes * len(judges) + judge_codes)
    kept = choose_learners(judges, wanted.learners, wanted.drop, f"judges of {cells.path}")
    if _CELL * len(items) * len(kept) > unpacked_limit(cells.n_bytes):
        raise ValueError(
            f"{cells.path} must have judges with many items each; column {short(columns.judge)} names {len(judges)} of "
            f"them, for {len(items)} items."
        )
    by_judge = np.argsort(judge_codes, kind="stable")
    ends = np.cumsum(np.bincount(judge_codes, minlength=len(judges)))
    rows = dict(zip(judges, np.split(by_judge, ends[:-1]), strict=True))
    gold = None if truth is None else _one_each(cells, cells.labels[truth], items, item_codes, "truth")
    wide = Cells(cells.path, {}, {}, n_rows=len(items), items=items, n_bytes=cells.n_bytes)
    if wanted.scores:
        scores = _check_numbers(cells, cells.numbers[columns.label])
        spread = [_spread_numbers(judge, scores, rows[judge], item_codes, len(items)) for judge in kept]
        fields = read_scores(wide, gold, spread)
    else:
        answers = cells.labels[columns.label]
        votes = [_spread(judge, answers, rows[judge], item_codes, len(items)) for judge in kept]
        fields = read_votes(wide, gold, votes, wanted._replace(learners=kept))  # each row names its judge
    fields["items"] = text_array(cells, items, np.arange(len(items)), "names of samples")
    if group is not None:
        own = _one_each(cells, cells.labels[group], items, item_codes, "group")
        fields["groups"] = read_groups(wide, own)
    return fields


def _check_numbers(cells: Cells, column: NumberColumn) -> NumberColumn:
    if column.bad is not None:
        raise ValueError(
            f"{cells.path}: column {column.name!r} must hold numbers; got {column.bad[0]!r} in "
            f"{cells.row(column.bad[1])}."
        )
    return column


def _recode(cells: Cells, column: LabelColumn, what: str) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names in a column, in the order of the rows, and the place of each row among them."""
    if (row := column.first([None])) >= 0:
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must name {what} in every row; got none in {cells.row(row)}."
        )
    used, first = np.unique(column.codes, return_index=True)
    in_order = [column.labels[code] for code in used[np.argsort(first)].tolist()]
    names = list(dict.fromkeys(name for name in in_order if name is not None))
    place = {name: index for index, name in enumerate(names)}
    codes = np.array([-1 if name is None else place.get(name, -1) for name in column.labels], dtype=np.int64)
    return names, codes[column.codes]


def _check_pairs(
    cells: Cells, columns: LongColumns, items: list[str], judges: list[str], pairs: NDArray[np.int64]
) -> None:
    _, first = np.unique(pairs, return_index=True)
    if len(first) < len(pairs):
        row = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        item, judge = divmod(int(pairs[row]), len(judges))
        raise ValueError(
            f"{cells.path} must have one row for each pair of {short(columns.item)} and {short(columns.judge)}; got a "
            f"second one for item {short(items[item])} and judge {short(judges[judge])} in {cells.row(row)}."
        )


def _one_each(
    cells: Cells, column: LabelColumn, items: list[str], item_codes: NDArray[np.int64], what: str
) -> LabelColumn:
    """Return the truth or the group of each item, from the rows of the item that have one."""
    filled = ~column.missing()
    wide = _spread(column.name, column, filled, item_codes, len(items))
    labels = np.array(column.labels, dtype=object)
    differs = filled & (labels[column.codes] != np.array(wide.labels, dtype=object)[wide.codes][item_codes])
    if differs.any():
        row = int(differs.argmax())
        item = int(item_codes[row])
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must hold one {what} for each item; got "
            f"{short(labels[column.codes[row]])} and {short(wide.labels[wide.codes[item]])} for item "
            f"{short(items[item])}."
        )
    return wide


def _spread(
    name: str, column: LabelColumn, rows: NDArray[Any], item_codes: NDArray[np.int64], n_items: int
) -> LabelColumn:
    """Return a column with a row for each item, from some rows of a long column; the other items are blank."""
    codes = np.full(n_items, len(column.labels), dtype=np.int32)
    codes[item_codes[rows]] = column.codes[rows]
    used = set(np.unique(codes).tolist())
    labels = [label if code in used else None for code, label in enumerate(column.labels)]
    return LabelColumn(name, codes, [*labels, None])


def _spread_numbers(
    name: str, column: NumberColumn, rows: NDArray[Any], item_codes: NDArray[np.int64], n_items: int
) -> NumberColumn:
    """Return a column of numbers with a row for each item, NaN for items without one."""
    values = np.full(n_items, np.nan)
    values[item_codes[rows]] = column.values[rows]
    return NumberColumn(name, values)
