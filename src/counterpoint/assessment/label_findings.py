"""Rules about the labels: spellings of one label, and numbers that are a scale."""

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from counterpoint._answers import list_spellings, spellings
from counterpoint._validation import FloatArray
from counterpoint.assessment.groups import Finding
from counterpoint.assessment.result import Assessment

__all__ = ["LABEL_RULES"]

_POINTS = range(5, 102)  # of a scale
_FEWEST = 20  # wrong votes
_CLOSE = 0.75  # of the distance of wrong votes if the numbers were names
_ORDERS = 999  # of the labels, drawn at random if there are more
_CHANCE = 0.005  # of so small a distance among these


def _spelling(a: Assessment) -> Finding | None:
    """Find labels that differ in case, blanks or final punctuation alone."""
    groups = spellings(a.classes)
    if not groups:
        return None
    text = (
        f"{list_spellings(groups)} differ in case, blanks or final punctuation alone, and count as different labels. "
        "To count them as one, use `fold_label`; on the command line, --ignore-case."
    )
    return Finding("spelling", "warning", text, {"labels": groups})


def _scale(a: Assessment) -> Finding | None:
    """Find labels that are numbers on a scale: wrong votes are close to the truth."""
    numbers = all(isinstance(label, int) and not isinstance(label, bool) for label in a.classes)
    if not numbers or a.n_classes not in _POINTS:
        return None
    wrong = a.by_class.confusion.table(a.n_classes)
    np.fill_diagonal(wrong, 0)
    if not (total := wrong.sum()) >= _FEWEST:
        return None
    values = np.array(a.classes, dtype=np.float64)
    gaps = np.abs(values[:, None] - values)
    found = float((wrong * gaps).sum() / total)
    others = _distances_by_chance(wrong / total, gaps)
    usual = float(others.mean())
    if found > _CLOSE * usual or (np.sum(others <= found + 1e-12) + 1) / (len(others) + 1) > _chance(
        a.n_classes
    ):
        return None
    text = (
        f"The labels look like a scale from {min(a.classes)} to {max(a.classes)}: wrong votes are {found:.1f} from the "
        f"truth on average; {usual:.1f} if the numbers were names. `assess_regression` (on the command line, --scores) "
        "measures distances instead."
    )
    return Finding("scale", "warning", text, {"distance": found, "by_chance": usual})


def _distances_by_chance(wrong: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the mean distance of wrong votes for other orders of the labels, as in Mantel's test (1967)."""
    m = len(gaps)
    if m == _POINTS[0]:
        orders = np.array(list(permutations(range(m))))[1:]
    else:
        rng = np.random.default_rng(0)
        orders = rng.permuted(np.tile(np.arange(m), (_ORDERS, 1)), axis=1)
    return np.array([float((wrong * gaps[np.ix_(order, order)]).sum()) for order in orders])


def _chance(n_classes: int) -> float:
    """Return the share of orders that may be as close: of five labels, the order and its reverse are 2 of 120."""
    return _CHANCE if n_classes > _POINTS[0] else 3 / 120


LABEL_RULES: Sequence[Callable[[Assessment], Finding | None]] = (_spelling, _scale)
