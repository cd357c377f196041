"""Columns that cannot be answers, and labels that are spelt in another way, found before anything is counted."""

import json
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._answers import LabelCounts, fold_label, list_spellings, misspelt_labels, strange_columns
from counterpoint._validation import short
from counterpoint.outputs import split_truth

__all__ = ["check_answers", "fold_label"]

_REASONS = 5  # columns of which a message says what they hold
_HEAD, _PLAIN = 2000, 10  # samples that tell of a learner, if it is right on more than one in so many of them


def check_answers(given: Any, outputs: Any, y_true: Any, names: Sequence[Any] | None, call: str) -> None:
    """Raise ValueError if columns with names cannot be answers, or labels are spelt unlike those of the truth."""
    try:
        truth, unknown = (None, None) if y_true is None else split_truth(y_true)
        columns = None if truth is not None and truth.ndim != 1 else _label_counts(outputs, truth, names)
    except (TypeError, ValueError):  # of shapes and kinds that are refused later, in words of their own
        return
    if columns is None:
        return
    true = None if truth is None else Counter(truth.tolist() if unknown is None else truth[~unknown].tolist())
    complete = unknown is None and true is not None
    strange = [] if names is None else strange_columns(columns, true, complete=complete, whose="`y_true`")
    if names is not None and 0 < len(strange) < len(names):
        wrong = [names[one.column] for one in strange]
        why = "; ".join(
            f"{short(name)} {one.reason}" for name, one in zip(wrong[:_REASONS], strange, strict=False)
        )
        more = f"; so do {len(wrong) - _REASONS} more" if len(wrong) > _REASONS else ""
        named = "pass an array" if call.startswith("compare") else "name the learners with `learners`"
        raise ValueError(
            f"`outputs` must hold answers; {why}{more}. If they are no learners: "
            f"{_without(given, y_true, wrong, call)}. If they are, {named}."
        )
    if spelt := misspelt_labels(columns, true, complete=complete):
        raise ValueError(
            f"`outputs` must hold labels of one spelling; {list_spellings(spelt)} are equal but for case, blanks or "
            f"final punctuation. To count them as one: {_folded(given, y_true, call)}, with fold_label from "
            "counterpoint.assessment."
        )


def _label_counts(
    outputs: Any, truth: NDArray[Any] | None, names: Sequence[Any] | None
) -> list[LabelCounts] | None:
    """Return how often each learner gives each label; None if the outputs are probabilities or plain numbers.

    Of a learner that is plainly one, only the first samples are counted.
    """
    if np.ndim(outputs[0]) != 1 or (truth is not None and len(outputs[0]) != len(truth)):
        return None
    if names is None and not any(isinstance(label, str) for label in _labels(outputs[0][:_HEAD])):
        return None  # numbers without names: nothing is spelt, and no column is named
    head = None if truth is None else truth[:_HEAD].tolist()
    found: list[LabelCounts] = []
    for row in outputs:
        first = _labels(row[:_HEAD])
        if head is not None and len(head) == len(first):
            right = sum(map(operator.eq, first, head))
            if right > max(len(set(head)), len(head) / _PLAIN):  # so some are repeated, and enough are known
                found.append(Counter(first))
                continue
        found.append(Counter(label for label in _labels(row) if _is_present(label)))
    labels = [label for counts in found for label in counts]
    if not any(isinstance(label, str) for label in labels) and any(label % 1 for label in labels):
        return None  # probabilities, also of learners that are always sure, or numbers that the check of labels names
    return found


def _labels(row: Any) -> list[Any]:
    if np.ma.is_masked(row):
        return list(np.ma.compressed(row).tolist())
    return list(row.tolist() if hasattr(row, "tolist") else row)


def _is_present(label: Any) -> bool:
    try:
        return label is not None and bool(label == label)
    except TypeError:  # pandas.NA
        return False


def _without(given: Any, y_true: Any, wrong: Sequence[Any], call: str) -> str:
    """Return the call without some columns."""
    truth, frame = _in_words(given, y_true)
    if isinstance(given, Mapping):
        return call.format(
            truth=truth,
            outputs=f"{{name: one for name, one in outputs.items() if name not in {_quoted(wrong)}}}",
        )
    target = getattr(y_true, "name", None)
    gone = [target, *wrong] if frame == "df" and target is not None else wrong
    return call.format(
        truth=truth, outputs=f"{frame}.drop({'columns=' if hasattr(given, 'iloc') else ''}{_quoted(gone)})"
    )


def _folded(given: Any, y_true: Any, call: str) -> str:
    """Return the call with labels of one spelling."""
    truth, frame = _in_words(given, y_true)
    if hasattr(given, "iloc"):
        target = getattr(y_true, "name", None)
        rest = f"{frame}.drop(columns={_quoted([target])})" if frame == "df" else frame
        return call.format(truth=f"{truth}.map(fold_label)", outputs=f"{rest}.map(fold_label)")
    if isinstance(given, Mapping):
        folded = "{name: [fold_label(label) for label in one] for name, one in outputs.items()}"
    else:
        folded = "[[fold_label(label) for label in row] for row in outputs]"
    return call.format(truth=f"[fold_label(label) for label in {truth}]", outputs=folded)


def _in_words(given: Any, y_true: Any) -> tuple[str, str]:
    """Return the truth and the outputs as a caller may have written them."""
    target = getattr(y_true, "name", None)
    if hasattr(given, "iloc") and hasattr(y_true, "iloc") and isinstance(target, str):
        return f"df{_quoted([target])}", "df"
    return "y_true", "outputs"


def _quoted(names: Sequence[Any]) -> str:
    """Return a list of names as a caller would write it."""
    words = [json.dumps(name, ensure_ascii=False) if isinstance(name, str) else repr(name) for name in names]
    return f"[{', '.join(words)}]"
