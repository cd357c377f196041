"""Tables of predictions: a column for the truth and columns for the learners.

A column holds the votes of a learner and has its name, or it holds the probabilities that a learner gives to one class
and is named ``learner:class``; the last colon separates the two. Blank cells of learners are masked.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoint._answers import NotAnswers, fold_label, list_spellings, misspelt_labels, strange_columns
from counterpoint._validation import ROW_SUM_TOLERANCE, short
from counterpoint.io.cells import (
    Cells,
    LabelColumn,
    NumberColumn,
    OpenTable,
    check_width,
    clean,
    is_fraction,
    label_dtype,
    label_values,
    text_array,
)
from counterpoint.io.names import (
    MendableError,
    check_column,
    choose_learners,
    listed,
    long_table_hint,
    named_columns,
)

__all__ = [
    "Wanted",
    "read_groups",
    "read_prediction_table",
    "read_scores",
    "read_votes",
    "what_a_table_cannot_hold",
]


_REASONS = 5  # columns of which a message says what they hold


class Wanted(NamedTuple):
    """What to read of a table: columns by name, learners to keep or to drop, labels that mean no vote; or scores."""

    truth: str | None
    item: str | None
    group: str | None
    learners: Sequence[str]
    drop: Sequence[str]
    abstain: Sequence[str]
    scores: bool = False
    ignore_case: bool = False

    @property
    def beside(self) -> list[str]:
        """The columns that no learner has."""
        return list(dict.fromkeys(name for name in self[:3] if name is not None))


def read_prediction_table(table: OpenTable, wanted: Wanted) -> dict[str, Any]:
    """Return the fields of the predictions in a table with a row for each sample."""
    truth, item, beside = wanted.truth, wanted.item, wanted.beside
    owners = _owners(table, wanted)
    columns = list(owners)
    if wanted.scores:
        cells = table.read(beside, columns)
        numbers = [cells.numbers[name] for name in columns]
        fields = read_scores(cells, None if truth is None else cells.labels[truth], numbers)
    elif all(":" in column for column in columns):
        cells = table.read(beside, columns)
        fields = _probabilities(cells, None if truth is None else cells.labels[truth], owners)
    elif mixed := [column for column in columns if ":" in column]:
        plain = next(column for column in columns if ":" not in column)
        raise ValueError(
            f"{table.path} must hold votes or probabilities, not both: column {short(mixed[0])} is named as a "
            f"learner's probability of a class, learner:class, and {short(plain)} is not. Drop one kind."
        )
    else:
        cells = table.read([*beside, *columns], [])
        fields = read_votes(
            cells,
            None if truth is None else cells.labels[truth],
            [cells.labels[name] for name in columns],
            wanted,
        )
    if wanted.group is not None:
        fields["groups"] = read_groups(cells, cells.labels[wanted.group])
    if item is not None:
        names = ["" if label is None else label for label in cells.labels[item].labels]
        fields["items"] = text_array(cells, names, cells.labels[item].codes, "names of samples")
    return fields


def read_groups(cells: Cells, column: LabelColumn) -> NDArray[Any]:
    """Return the group of each sample."""
    if (row := column.first([None])) >= 0:
        raise ValueError(
            f"{cells.path}: column {column.name!r} must name a group in every row; got none in {cells.row(row)}."
        )
    return np.array(["" if label is None else label for label in column.labels])[column.codes]


def what_a_table_cannot_hold(
    beside: Sequence[str], columns: Sequence[str], labels: Iterable[Any], *, votes: bool
) -> str:
    """Return what would be read differently from a table with these columns, or an empty string."""
    names = [name.strip() for name in (*beside, *columns)]
    if "" in names:
        return "a column without a name"
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        return f"two columns named {short(twice)}"
    if votes and (marked := [name for name in names[len(beside) :] if ":" in name]):
        return f"votes of {short(marked[0])}: a colon marks the probability of a class"
    read: dict[str, str] = {}
    for text in map(str, labels):
        label = clean(text)
        if label is None:
            return f"the label {short(text)}, which reads as missing"
        if label in read:
            return f"both labels {short(read[label])} and {short(text)}, which read alike"
        if not votes and ":" in label:
            return f"the class {short(text)}: a colon ends the name of a learner"
        read[label] = text
    return ""


def _owners(table: OpenTable, wanted: Wanted) -> dict[str, str]:
    """Return the columns to read, each with the learner it belongs to."""
    truth, item, group, learners, drop = wanted[:5]
    path, beside, dropped = table.path, wanted.beside, set(drop)
    if len(table.columns) == 1 and truth is not None:
        raise ValueError(
            f"{path} must have at least two columns, the truth and a learner; got {short(table.columns[0])}."
        )
    named = named_columns(table, (*beside, *learners, *drop))
    for name, argument in ((item, "item"), (truth, "truth")):
        if name is not None:
            check_column(
                name, argument, table, [other for other in named if argument == "item" or other != item]
            )
    if group is not None:
        check_column(group, "group", table, [other for other in named if other not in (truth, *learners)])
    others = [column for column in named if column not in beside]
    if not others:
        raise ValueError(f"{path} must have a column of a learner beside {listed(beside)}.")
    # A name to drop is a column or a learner with several columns.
    owner = {column: _learner(column) for column in others if column not in dropped}
    if not owner:
        raise ValueError(f"`drop` must leave a column of a learner in {path}; got all of them.")
    among = set(others)
    rest = [name for name in drop if name not in among]
    kept = choose_learners(list(dict.fromkeys(owner.values())), learners, rest, f"columns of {path}")
    columns: dict[str, list[str]] = {}
    for column, name in owner.items():
        columns.setdefault(name, []).append(column)
    return {column: learner for learner in kept for column in columns[learner]}


def _learner(column: str) -> str:
    return column.rpartition(":")[0] or column


def read_votes(
    cells: Cells, truth: LabelColumn | None, columns: Sequence[LabelColumn], wanted: Wanted
) -> dict[str, Any]:
    """Return the votes; raise if a column cannot be a learner's, unless the user picked it by name."""
    _check_truth(cells, truth)
    abstain = wanted.abstain
    if wanted.ignore_case:
        spelling = _one_spelling(truth, columns)
        truth = None if truth is None else truth.renamed(spelling)
        columns = [column.renamed(spelling) for column in columns]
        abstain = [spelling.get(fold_label(label), label) for label in abstain]
    columns = [column.without(abstain) for column in columns]
    for column in columns:
        if not column.present():
            raise ValueError(
                f"{cells.path}: column {short(column.name)} must hold labels; it is empty in every row."
            )
    _check_answers(cells, truth, columns, picked=bool(wanted.learners))
    everything = [*columns, *([] if truth is None else [truth])]
    values = label_values(set().union(*(column.present() for column in everything)))
    dtype = label_dtype(values.values())
    check_width(cells, values.values(), len(everything) * cells.n_rows, "labels")
    outputs = np.empty((len(columns), cells.n_rows), dtype=dtype)
    for row, column in enumerate(columns):
        outputs[row] = _array(column, values, dtype)
    if any(None in column.labels for column in columns):
        blank = np.stack([column.missing() for column in columns])
        outputs = np.ma.masked_array(outputs, blank) if blank.any() else outputs
    return {
        "y_true": None if truth is None else _truth_array(truth, values, dtype),
        "outputs": outputs,
        "learners": tuple(column.name for column in columns),
        "labels": None,
    }


def read_scores(cells: Cells, truth: LabelColumn | None, columns: Sequence[NumberColumn]) -> dict[str, Any]:
    """Return scores of the learners; the truth is numbers if all of it is, else labels."""
    _check_truth(cells, truth)
    for column in columns:
        if column.bad is not None:
            raise ValueError(
                f"{cells.path}: column {column.name!r} must hold numbers; got {column.bad[0]!r} in "
                f"{cells.row(column.bad[1])}. If it is not a learner, drop it."
            )
        if np.isnan(column.values).all():
            raise ValueError(
                f"{cells.path}: column {column.name!r} must hold numbers; it is empty in every row."
            )
    outputs = np.stack([column.values for column in columns])
    blank = np.isnan(outputs)
    return {
        "y_true": None if truth is None else _numbers_or_labels(truth),
        "outputs": np.ma.masked_array(outputs, blank) if blank.any() else outputs,
        "learners": tuple(column.name for column in columns),
        "labels": None,
    }


def _numbers_or_labels(truth: LabelColumn) -> NDArray[Any]:
    present = truth.present()
    try:
        values: dict[str, Any] = {label: float(label) for label in present}
        return _truth_array(truth, values, np.dtype(np.float64))
    except ValueError:
        values = label_values(present)
        return _truth_array(truth, values, label_dtype(values.values()))


def _truth_array(truth: LabelColumn, values: dict[str, Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the truth, masked where it is blank."""
    array, blank = _array(truth, values, dtype), truth.missing()
    return np.ma.masked_array(array, blank) if blank.any() else array


def _array(column: LabelColumn, values: dict[str, Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    # None may be among the labels; its rows, if there are any, are masked.
    filler = next(iter(values.values()))
    table = [filler if label is None else values[label] for label in column.labels]
    return np.array(table, dtype=dtype)[column.codes]


def _check_truth(cells: Cells, column: LabelColumn | None) -> None:
    if column is None:
        return
    if not column.present():
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must hold labels; it is empty in every row."
        )


def _one_spelling(truth: LabelColumn | None, columns: Sequence[LabelColumn]) -> dict[str, str]:
    """Return for each label without its case the spelling to use: that of the truth, else the first in the alphabet."""
    voted = sorted(set().union(*(column.present() for column in columns)), reverse=True)
    true = [] if truth is None else sorted(truth.present(), reverse=True)
    return {fold_label(label): label for label in (*voted, *true)}


def _check_answers(
    cells: Cells, truth: LabelColumn | None, columns: Sequence[LabelColumn], *, picked: bool
) -> None:
    """Raise an error that names all columns that cannot be a learner's, or whose labels are spelt in another way."""
    counts = [column.counts() for column in columns]
    complete = truth is not None and not truth.missing().any()
    true = None if truth is None else truth.counts()
    whose = "the truth" if truth is None else short(truth.name)
    strange = [] if picked else strange_columns(counts, true, complete=complete, whose=whose)
    names = [columns[one.column].name for one in strange]
    if len(strange) < len(columns) and strange:
        raise _not_answers(cells, strange, names)
    for column, own in zip(columns, counts, strict=True):
        if any(map(is_fraction, own)):
            others = [] if complete else [other for other in counts if other is not own]
            _check_whole(cells, column, set(true or ()).union(*others))
    if strange:
        raise ValueError(
            f"{cells.path} must have a learner with labels of {whose}; {_first_reasons(strange, names)}. If they are "
            f"learners, name them.{long_table_hint(list(cells.labels))}"
        )
    if spelt := misspelt_labels(counts, true, complete=complete):
        raise MendableError(
            f"{cells.path}: {list_spellings(spelt)} are equal but for case, blanks or final punctuation.",
            "To count them as one, read with `ignore_case=True`.",
            ["--ignore-case"],
        )


def _not_answers(cells: Cells, strange: Sequence[NotAnswers], names: list[str]) -> ValueError:
    if hint := long_table_hint(list(cells.labels)):  # what is left would be another table
        return ValueError(f"{cells.path}: {_first_reasons(strange, names)}.{hint}")
    return MendableError(
        f"{cells.path}: {_first_reasons(strange, names)}. If they are no learners, leave them out; if they are, name "
        "the learners.",
        f"To leave them out: drop={names}.",
        [word for name in names for word in ("--drop", name)],
    )


def _first_reasons(strange: Sequence[NotAnswers], names: Sequence[str]) -> str:
    first = [f"{short(name)} {one.reason}" for name, one in zip(names, strange, strict=True)][:_REASONS]
    more = f"; so do {len(names) - _REASONS} more columns" if len(names) > _REASONS else ""
    return "; ".join(first) + more


def _check_whole(cells: Cells, column: LabelColumn, known: set[str]) -> None:
    """Raise ValueError if a column holds fractions and the others do not."""
    fractions = {label for label in column.present() if is_fraction(label)}
    if fractions and not any(map(is_fraction, known)):
        row = column.first(fractions)
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must hold labels; got "
            f"{short(column.labels[column.codes[row]])[1:-1]} in {cells.row(row)}. Probabilities need a "
            "column for each class, named learner:class."
        )


def _probabilities(cells: Cells, truth: LabelColumn | None, owners: dict[str, str]) -> dict[str, Any]:
    """Return the probabilities, with the classes in the order of the first learner's columns."""
    _check_truth(cells, truth)
    places: dict[str, dict[str, str]] = {}  # learner -> class -> column
    for column, learner in owners.items():
        label = clean(column.rpartition(":")[2])
        if label is None or label in places.setdefault(learner, {}):
            raise ValueError(
                f"{cells.path} must have one column for each class of a learner, named learner:class; "
                f"got {short(column)}."
            )
        places[learner][label] = column
    classes = list(next(iter(places.values())))
    _check_classes(cells, truth, places, classes)
    outputs = np.empty((len(places), cells.n_rows, len(classes)))
    for row, columns in enumerate(places.values()):
        outputs[row] = _shares(cells, [cells.numbers[columns[label]] for label in classes])
    _check_sums(cells, list(places), outputs)
    blank = np.isnan(outputs)
    true_labels = set() if truth is None else truth.present()
    values = label_values({*classes, *true_labels})
    dtype = label_dtype(values.values())
    check_width(cells, values.values(), cells.n_rows, "labels")
    return {
        "y_true": None if truth is None else _truth_array(truth, values, dtype),
        "outputs": np.ma.masked_array(outputs, blank) if blank.any() else outputs,
        "learners": tuple(places),
        "labels": np.array([values[label] for label in classes], dtype=dtype),
    }


def _check_classes(
    cells: Cells, truth: LabelColumn | None, places: dict[str, dict[str, str]], classes: list[str]
) -> None:
    known = set(classes).union(*places.values())
    for learner, columns in places.items():
        if missing := sorted(known - set(columns)):
            raise ValueError(
                f"{cells.path} must have a column for each class of each learner; "
                f"{short(learner + ':' + missing[0])} is missing."
            )
    if truth is not None and (unknown := truth.present() - known):
        row = truth.first(unknown)
        raise ValueError(
            f"{cells.path}: column {short(truth.name)} must hold the classes of the probabilities, {listed(classes)}; "
            f"got {short(truth.labels[truth.codes[row]])} in {cells.row(row)}."
        )


def _shares(cells: Cells, columns: Sequence[NumberColumn]) -> NDArray[np.float64]:
    """Return the probabilities of one learner; NaN in rows where all its cells are blank."""
    rows = np.stack([column.values for column in columns], axis=1)
    blank = np.isnan(rows).all(axis=1)
    for column in columns:
        values = column.values
        bad = ~((values >= 0) & (values <= 1 + ROW_SUM_TOLERANCE))  # NaN too
        if column.bad is not None:
            got, row = short(column.bad[0]), column.bad[1]
        elif np.isnan(values).all():
            raise ValueError(
                f"{cells.path}: column {short(column.name)} must hold numbers; it is empty in every row."
            )
        elif (bad & ~blank).any():
            row = int((bad & ~blank).argmax())
            got = "a missing one" if np.isnan(values[row]) else f"{values[row]:.6g}"
        else:
            continue
        raise ValueError(
            f"{cells.path}: column {short(column.name)} must hold probabilities, between 0 and 1; "
            f"got {got} in {cells.row(row)}."
        )
    return rows


def _check_sums(cells: Cells, learners: list[str], outputs: NDArray[np.float64]) -> None:
    for learner, rows in zip(learners, outputs, strict=True):
        sums = rows.sum(axis=1)
        if (bad := np.abs(sums - 1) > ROW_SUM_TOLERANCE).any():  # not NaN
            row = int(bad.argmax())
            raise ValueError(
                f"{cells.path}: the columns of learner {short(learner)} must sum to one in every row; "
                f"got {sums[row]:.6g} in {cells.row(row)}."
            )
