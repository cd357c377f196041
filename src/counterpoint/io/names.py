"""Names of columns and learners: which a table has, which a user chose, and how error messages list them."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise

from counterpoint._validation import short
from counterpoint.io.cells import OpenTable

__all__ = [
    "MendableError",
    "check_column",
    "choose_learners",
    "did_you_mean",
    "likely_items",
    "likely_truths",
    "listed",
    "long_table_hint",
    "named_columns",
    "truth_hint",
]

_LISTED = 8


class MendableError(ValueError):
    """Raised for a file that can be read with another option.

    Parameters
    ----------
    fact : str
        What is wrong.
    advice : str
        What to change in a call of a function.
    options : list of str
        What to add on the command line.

    Examples
    --------
    >>> str(MendableError("a.csv: 'id' holds no label.", "To leave it out: drop=['id'].", ["--drop", "id"]))
    "a.csv: 'id' holds no label. To leave it out: drop=['id']."
    """

    def __init__(self, fact: str, advice: str, options: Sequence[str]) -> None:
        super().__init__(f"{fact} {advice}")
        self.fact, self.options = fact, options


_COMPARED = 1000  # names in which a similar one is looked for, of at most this length
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
# Names of a first column with the names of the rows: R and pandas write the first, pandas reads it as the second.
_ROW_NAMES = ("", "Unnamed: 0")
# Usual names, in lower case and without spaces and marks.
_TRUTHS = [
    *(
        "ytrue",
        "truth",
        "groundtruth",
        "gold",
        "goldlabel",
        "goldstandard",
        "true",
        "truelabel",
        "label",
        "labels",
    ),
    *(
        "target",
        "targets",
        "y",
        "class",
        "classlabel",
        "actual",
        "expected",
        "reference",
        "answer",
        "correct",
    ),
    *("diagnosis", "outcome", "expert"),
]
_JUDGES = ["judge", "model", "annotator", "rater", "reader", "worker", "coder", "grader", "evaluator"]
_ITEMS = [
    *("id", "item", "itemid", "sample", "sampleid", "question", "questionid", "example", "exampleid"),
    *("row", "rowid", "uid", "uuid"),
]


def named_columns(table: OpenTable, wanted: Sequence[str]) -> list[str]:
    r"""Return the names of the columns of a table, all different and none empty.

    Parameters
    ----------
    table : OpenTable
        The open file.
    wanted : sequence of str
        Names that the user gave. A first column with the names of the rows is skipped unless it is among them.

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If a column has no name, or two have the same.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from counterpoint.io import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data.csv")
    ...     _ = path.write_text(",size,kind\n1,1.5,a\n2,2,b\n")
    ...     with open_table(path) as table:
    ...         named_columns(table, ["kind"])
    ['size', 'kind']
    """
    first = table.columns[0]
    is_wanted = first != "" and first in wanted
    names = table.columns[1:] if first in _ROW_NAMES and not is_wanted else table.columns
    if "" in names:
        raise ValueError(
            f"{table.path} must name its columns; column {table.columns.index('', 1) + 1} has no name."
        )
    for name in names:
        if _NOT_TEXT.search(name):
            raise ValueError(
                f"{table.path} must name its columns in text, without NUL characters and halves of characters; got "
                f"{short(name)}."
            )
    for name, following in pairwise(sorted(names)):
        if name == following:
            raise ValueError(f"{table.path} must have distinct column names; got {short(name)} twice.")
    return list(names)


def choose_learners(
    learners: Sequence[str], wanted: Sequence[str], drop: Sequence[str], what: str
) -> list[str]:
    """Return the wanted learners in the order given, or all except those to drop."""
    known, dropped = set(learners), set(drop)
    for name in (*wanted, *drop):
        if name not in known:
            raise ValueError(
                f"`{'learners' if wanted else 'drop'}` must be among the {what}, {listed(learners)}; "
                f"got {short(name)}.{did_you_mean(name, learners)}"
            )
    kept = list(dict.fromkeys(wanted)) or [name for name in learners if name not in dropped]
    if not kept:
        raise ValueError(f"`drop` must leave at least one of the {what}; got all of them.")
    return kept


def check_column(name: str, argument: str, table: OpenTable, names: Sequence[str]) -> None:
    """Raise ValueError if a table has no column of this name."""
    if name not in names:
        hint = truth_hint(name, names) if argument == "truth" else did_you_mean(name, names)
        which = f", one of {listed(names)}" if names else ", which has no other column"
        raise ValueError(f"`{argument}` must be a column of {table.path}{which}; got {short(name)}.{hint}")


def truth_hint(name: str, known: Sequence[str]) -> str:
    """Return a hint which of the known names may be the truth, with a space before it, or an empty string."""
    likely = likely_truths(known)
    if name != "y_true" and (hint := did_you_mean(name, known)):
        return hint  # a name that the user gave was perhaps misspelt
    return f" Did you mean {' or '.join(map(short, likely))}?" if likely else ""


def likely_truths(names: Sequence[str]) -> list[str]:
    """Return the names that are usual for a column of the truth, the most usual first.

    Parameters
    ----------
    names : sequence of str
        The columns of a table.

    Returns
    -------
    list of str

    Examples
    --------
    >>> likely_truths(["id", "Label", "tree", "gold"])
    ['gold', 'Label']
    """
    return _usual(names, _TRUTHS)


def likely_items(names: Sequence[str]) -> list[str]:
    """Return the names that are usual for a column that names the rows, the most usual first.

    Parameters
    ----------
    names : sequence of str
        The columns of a table.

    Returns
    -------
    list of str

    Examples
    --------
    >>> likely_items(["label", "tree", "item_id"])
    ['item_id']
    """
    return _usual(names, _ITEMS)


def long_table_hint(names: Sequence[str]) -> str:
    """Return a hint for a table with a column of judges, with a space before it, or an empty string."""
    if not (judges := _usual(names, _JUDGES)):
        return ""
    return f" If {short(judges[0])} names the judge of each row, the table is long: name its item, judge and label."


def _usual(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    plain = {name: "".join(filter(str.isalnum, name.lower())) for name in names}
    found = [name for name in names if plain[name] in usual]
    return sorted(found, key=lambda name: usual.index(plain[name]))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a hint for a misspelt name, with a space before it, or an empty string.

    Parameters
    ----------
    name : str
        The name that was not found.
    known : sequence of str
        The names that exist.

    Returns
    -------
    str

    Examples
    --------
    >>> did_you_mean("specis", ["size", "species"])
    " Did you mean 'species'?"
    """
    near = [other for other in known[:_COMPARED] if len(other) <= _COMPARED]
    found = get_close_matches(name, near, n=1) if len(name) <= _COMPARED else []
    return "".join(f" Did you mean {short(match)}?" for match in found)


def listed(names: Sequence[str]) -> str:
    """Return the first names in quotes, and the number of the others.

    Parameters
    ----------
    names : sequence of str
        All names.

    Returns
    -------
    str

    Examples
    --------
    >>> listed(["size", "species"])
    "'size', 'species'"
    >>> listed([f"x{i}" for i in range(1, 11)])
    "'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8' and 2 more"
    """
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(short, names[:_LISTED])) + more
