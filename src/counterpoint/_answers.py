"""Which columns beside a truth cannot be answers: names of samples, topics, times. One rule for every door.

The rule looks at the labels of a column alone. It asks whether they are known: labels of the truth or, where that says
too little, of other columns whose labels are known.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from counterpoint._validation import short

__all__ = [
    "LabelCounts",
    "NotAnswers",
    "fold_label",
    "list_spellings",
    "misspelt_labels",
    "spellings",
    "strange_columns",
]

_FEWEST, _FEWEST_ALONE = 5, 10  # samples, from which something is said; without a truth for all
_DIFFERENT = 0.95  # share of the answers that are different in a column of names
_FOREIGN = 0.9  # share of the answers with an unknown label in a column of something else,
_MANY = 10  # which has more such labels than this, and than are known
_LISTED = 5  # spellings in a message
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_END = re.compile(r"[\s.,;:!?]+\Z")

LabelCounts = Mapping[Any, int]  # label -> number of samples


class NotAnswers(NamedTuple):
    """A column that cannot hold answers, and why, as the rest of a sentence that begins with its name."""

    column: int
    reason: str


def fold_label(label: Any) -> Any:
    """Return a label without case, surrounding blanks and final punctuation.

    Parameters
    ----------
    label : object
        A label; other things than strings are returned as they are.

    Returns
    -------
    object

    Examples
    --------
    >>> [fold_label(label) for label in ("PASS", " Pass. ", "pass", 3)]
    ['pass', 'pass', 'pass', 3]

    A label of punctuation alone keeps it:

    >>> fold_label("...")
    '...'
    """
    if not isinstance(label, str):
        return label
    text = label.strip().casefold()
    return _END.sub("", text) or text


def strange_columns(
    columns: Sequence[LabelCounts],
    truth: LabelCounts | None,
    *,
    complete: bool = True,
    whose: str = "the truth",
) -> list[NotAnswers]:
    """Return the columns that cannot be answers.

    Parameters
    ----------
    columns : sequence of mappings
        For each column, how often it holds each label.
    truth : mapping or None
        The same of the truth, if there is one.
    complete : bool, default=True
        Whether every sample has a truth.
    whose : str
        The truth, in words of the reason.

    Returns
    -------
    list of NotAnswers

    Notes
    -----
    A column is strange if nearly all its answers differ although labels repeat, or if it shares no label, or hardly
    one, with the truth and with the columns that do. Where most labels are true once, as with free text, it takes more
    samples to say so, since a learner may be wrong on all of a few. Numbers beside a truth of words are strange at
    once. Spellings that differ in case alone count as one.

    Examples
    --------
    >>> judge, number, topic = {"yes": 6, "no": 4}, {i: 1 for i in range(10)}, {"maths": 5, "law": 5}
    >>> for column, reason in strange_columns([judge, number, topic], {"yes": 5, "no": 5}):
    ...     print(column, reason)
    1 holds 10 different values on 10 samples
    2 holds no label of the truth, such as 'law'
    """
    folded = [{fold_label(label) for label in counts} for counts in columns]
    true = set() if truth is None else {fold_label(label) for label in truth}
    fewest = _FEWEST
    if truth is None or not complete:
        whose, fewest = "the other learners", _FEWEST_ALONE
        true |= _shared(folded, columns)
    known = true.union(
        *(own for own, counts in zip(folded, columns, strict=True) if not _is_foreign(counts, true))
    )
    found = []
    for index, counts in enumerate(columns):
        n = _total(counts)
        repeats = (
            n >= fewest and 2 * len(true) <= n
        )  # the answers of a learner that is right on half of them do
        numbers = _are_numbers(counts) and not any(_are_numbers([label]) for label in true)
        if not true or not (repeats or n >= 4 * _FEWEST or numbers):
            continue
        if repeats and len(counts) > max(_DIFFERENT * n, len(true)):
            found.append(NotAnswers(index, f"holds {len(counts)} different values on {n} samples"))
        elif _is_foreign(counts, known):
            unknown = sorted((label for label in counts if fold_label(label) not in known), key=str)
            none = "no label" if len(unknown) == len(counts) else "hardly a label"
            found.append(NotAnswers(index, f"holds {none} of {whose}, such as {short(unknown[0])}"))
    return found


def spellings(labels: Iterable[Any]) -> list[list[Any]]:
    """Return the labels that are equal but for case, blanks and final punctuation, together.

    Examples
    --------
    >>> spellings(["PASS", "Pass.", "pass", "fail", 3])
    [['PASS', 'Pass.', 'pass']]
    """
    by_fold: dict[Any, set[Any]] = {}
    for label in labels:
        by_fold.setdefault(fold_label(label), set()).add(label)
    return [sorted(group, key=str) for group in by_fold.values() if len(group) > 1]


def misspelt_labels(
    columns: Sequence[LabelCounts], truth: LabelCounts | None, *, complete: bool = True
) -> list[list[Any]]:
    """Return the spellings of labels where a column shares none with the truth, but would if they were one.

    Without a truth, or with one of some samples, the labels of the other columns count too.

    Examples
    --------
    >>> misspelt_labels([{"PASS": 3, "Pass.": 2}, {"pass": 4, "fail": 1}], {"pass": 3, "fail": 2})
    [['PASS', 'Pass.', 'pass']]
    """
    holders = Counter(label for counts in columns for label in counts)
    wrong: set[Any] = set()
    true = set(truth or ())
    alone = truth is None or not complete
    for counts in columns:
        if not any(label in true or (alone and holders[label] > 1) for label in counts):
            known = true.union(holders.keys() - counts.keys()) if alone else true
            wrong |= {fold_label(label) for label in counts} & {fold_label(label) for label in known}
    return [group for group in spellings([*holders, *(truth or ())]) if fold_label(group[0]) in wrong]


def list_spellings(groups: Sequence[Sequence[Any]]) -> str:
    """Return the first labels of the first groups as words of a message.

    Examples
    --------
    >>> list_spellings([["PASS", "Pass.", "pass"], ["NO", "no"]])
    "'PASS', 'Pass.' and 'pass'; 'NO' and 'no'"
    """
    lines = []
    for group in groups[:_LISTED]:
        *first, last = [short(label) for label in group[:_LISTED]]
        lines.append(f"{', '.join(first)} and {last}")
    return "; ".join(lines)


def _total(counts: LabelCounts) -> int:
    return sum(counts.values())


def _is_foreign(counts: LabelCounts, known: Collection[Any]) -> bool:
    """Return True if a column shares no label, or hardly one, with what is known."""
    foreign = {label: count for label, count in counts.items() if fold_label(label) not in known}
    if len(foreign) == len(counts):
        return True
    many = len(foreign) > max(_MANY, len(known))
    return many and _total(foreign) > _FOREIGN * _total(counts)


def _shared(folded: Sequence[set[Any]], columns: Sequence[LabelCounts]) -> set[Any]:
    """Return the labels that at least two columns hold, or any; those that differ nearly everywhere do not count."""
    seen = [
        own for own, counts in zip(folded, columns, strict=True) if len(counts) <= _DIFFERENT * _total(counts)
    ]
    held = Counter(label for own in seen for label in own)
    shared = {label for label, count in held.items() if count > 1}
    return shared or set().union(*seen)


def _are_numbers(labels: Collection[Any]) -> bool:
    return all(not isinstance(label, str) or _NUMBER.fullmatch(label) is not None for label in labels)
