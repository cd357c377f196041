"""The learners and the classes, one by one: tables, and a figure of who is how good."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment import Assessment
from counterpoint.report._dots import ACCURACY, ranked_figure, strip_figure
from counterpoint.report._words import minus, number, percent, points, shorten

__all__ = ["MOST_NAMED", "Column", "classes", "learner_table", "learners"]

Column = tuple[str, FloatArray, Callable[[float], str]]  # heading, values, format

_MOST_CLASSES = 12
MOST_NAMED = 16  # learners with a line of their own in the figure


def learners(a: Assessment, most_rows: int, most_dots: int) -> dict[str, Any]:
    """Return the table of the learners, of their spread if they are many, and the figure."""
    p, named = a.accuracies, 1 < a.n_learners <= MOST_NAMED
    order = np.argsort(-p, kind="stable").tolist()
    told = ~np.isnan(a.votes.accuracy_low)
    low, high = np.where(told, a.votes.accuracy_low, p), np.where(told, a.votes.accuracy_high, p)
    spans = list(zip(low.tolist(), high.tolist(), strict=True))
    strip = None if named else strip_figure(p, a.learners, a.vote.value, most_dots, ACCURACY)
    columns: list[Column] = [
        ("Right\N{NO-BREAK SPACE}on", p, percent),
        ("Vote without it", a.votes.without, points),
        ("Worth", a.effective.worth, _signed),
        ("Weight", a.votes.weights, number),
    ]
    errors = ["" if math.isnan(one) else f"{100 * one:.2f}" for one in a.votes.without_error.tolist()]
    known = ", ± one standard error" if errors[order[0]] else ""
    return learner_table(a.learners, columns, errors, p, most_rows) | {
        "ranked": ranked_figure(order, p, spans, a.learners, a.vote, ACCURACY) if named else None,
        "ranked_label": "Accuracy of each learner with its interval, and of the vote",
        "ranked_caption": "Each dot is a learner, with the 95 % interval of its accuracy; the line is the vote, with "
        "its interval.",
        "strip": strip,
        "strip_label": "Accuracies of the learners, mean and vote",
        "strip_caption": f"{'Each dot is a learner' if strip and strip['dots'] else 'Learners by accuracy'}; the "
        "solid line is the vote, the dashed one the mean learner.",
        "chosen": "the most and the least accurate, and those that change the vote most",
        "note": "Vote without it: the change of the vote\N{RIGHT SINGLE QUOTATION MARK}s accuracy, in percentage "
        f"points, if the learner were left out; above zero the vote is better off{known}. Worth: how many of the "
        "effective votes would be lost without it. Weight: the best non-negative weights for these samples.",
    }


def learner_table(
    names: Sequence[str],
    columns: Sequence[Column],
    errors: Sequence[str],
    quality: FloatArray,
    most_rows: int,
) -> dict[str, Any]:
    """Return the rows of the learners and their quartiles if they are many, from (heading, values, format).

    The second column says how the ensemble changes without a learner, and ``errors`` belong to it. If there are too
    many learners, those of the highest and the lowest quality and those with the largest change are shown.
    """
    visible = _notable(quality, columns[1][1], most_rows)
    quartiles = [
        np.nanquantile(c, [0, 0.25, 0.5, 0.75, 1]) if np.isfinite(c).any() else np.full(5, np.nan)
        for _, c, _ in columns
    ]
    few = len(names) <= MOST_NAMED
    return {
        "columns": [heading for heading, _, _ in columns],
        "rows": [
            {
                "name": names[i],
                "cells": [(_sort_key(c[i]), text(float(c[i]))) for _, c, text in columns],
                "error": errors[i],
            }
            for i in visible
        ],
        "left_out": len(names) - len(visible),
        "spread": []
        if few
        else [
            (label, [text(float(q[k])) for q, (_, _, text) in zip(quartiles, columns, strict=True)])
            for k, label in enumerate(("lowest", "lower quarter", "middle", "upper quarter", "highest"))
        ],
    }


def classes(a: Assessment) -> dict[str, Any]:
    """Return what the vote finds of each class, and the correlations; the class that is found least comes first."""
    found = a.by_class
    order = np.argsort(np.nan_to_num(found.recalls, nan=np.inf), kind="stable")[:_MOST_CLASSES].tolist()
    rows = [
        {
            "name": str(a.classes[k]),
            "cells": [percent(found.shares[k]), percent(found.recalls[k])],
            "taken_for": _taken_for(a, k),
            "correlations": [number(a.correlations.r_tl_classes[k]), number(a.correlations.r_ll_classes[k])],
        }
        for k in order
    ]
    return {"rows": rows, "left_out": a.n_classes - len(rows)}


def _taken_for(a: Assessment, k: int) -> str:
    """Return the class that the vote chooses most often where it misses class k, with the share of class k."""
    found = a.by_class.confusion
    own = found.true == k
    chosen, counts = found.chosen[own], found.counts[own]
    wrong = np.where(chosen == k, 0.0, counts)
    if not wrong.any():
        return ""
    most = int(np.argmax(wrong))
    return f"{shorten(str(a.classes[chosen[most]]), 24)} ({percent(wrong[most] / counts.sum())})"


def _notable(quality: FloatArray, changes: FloatArray, most: int) -> list[int]:
    """Return all learners, or the best, the poorest and those that change the ensemble most; the best first."""
    ranked: list[int] = np.argsort(quality, kind="stable").tolist()
    if len(ranked) <= most:
        return ranked[::-1]
    by_change = np.argsort(-np.abs(changes), kind="stable").tolist()
    third = most // 3
    chosen = {*ranked[:third], *ranked[-third:], *by_change[: most - 2 * third]}
    return [i for i in reversed(ranked) if i in chosen]


def _signed(value: float) -> str:
    return minus(f"{value:+z.2f}") if math.isfinite(value) else number(value)


def _sort_key(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""
