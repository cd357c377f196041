"""What a table cannot hold: names and labels that would not be read as they were written."""

from collections.abc import Iterable, Sequence
from typing import Any

from counterpoint.io._cells import clean


def unreadable(columns: Sequence[str], labels: Iterable[Any], *, votes: bool) -> str:
    """Return what a table with these columns, the truth first, and labels could not give back, or nothing."""
    names = [name.strip() for name in columns]
    if "" in names:
        return "a column without a name"
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"two columns named {twice!r}"
    if votes and (marked := [name for name in names[1:] if ":" in name]):
        return f"votes of {marked[0]!r}, for a colon marks the probability of a class"
    read: dict[str, str] = {}
    for text in map(str, labels):
        label = clean(text)
        if label is None:
            return f"the label {text!r}, which reads as missing"
        if label in read:
            return f"both labels {read[label]!r} and {text!r}, which read alike"
        if not votes and ":" in label:
            return f"the class {text!r}, for a colon ends the name of a learner"
        read[label] = text
    return ""
