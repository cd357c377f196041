"""Names that a person gave: found, or answered with what there is."""

from collections.abc import Sequence
from difflib import get_close_matches

_LISTED = 8


def chosen(learners: Sequence[str], wanted: Sequence[str], drop: Sequence[str], what: str) -> list[str]:
    """Return the learners that are wanted, in the order wanted, or all but those to drop."""
    for name in (*wanted, *drop):
        if name not in learners:
            raise ValueError(
                f"`{'learners' if wanted else 'drop'}` must be among the {what}, {listed(learners)}; "
                f"got {name!r}.{did_you_mean(name, learners)}"
            )
    kept = list(dict.fromkeys(wanted)) or [name for name in learners if name not in drop]
    if not kept:
        raise ValueError(f"`drop` must leave at least one of the {what}; got all of them.")
    return kept


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a hint, with a space before it, or nothing."""
    return "".join(f" Did you mean {match!r}?" for match in get_close_matches(name, known, n=1))


def listed(names: Sequence[str]) -> str:
    """Return the names in quotes, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more
