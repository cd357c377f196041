"""The learners and the classes, one by one: tables, and a figure of who is how good."""

import math
from typing import Any

import numpy as np

from counterpoint.assessment import Assessment, wilson_interval
from counterpoint.report._figures import Frame, percent_ticks, strip_figure
from counterpoint.report._words import number, percent, points, shorten

__all__ = ["classes", "learners"]

_MOST_CLASSES = 12
_MOST_NAMED = 16  # learners with a line of their own in the figure
_ROW = 22  # the height of such a line
_LABEL = 22  # letters of a name in the figure


def learners(a: Assessment, most_rows: int, most_dots: int) -> dict[str, Any]:
    """Return the table of the learners, of their spread if they are many, and the figure."""
    columns = (a.accuracies, a.votes.without, a.correlations.r_tl_learners, a.votes.weights)
    formats = (percent, points, number, number)
    visible = _notable(a, most_rows)
    quartiles = [
        np.nanquantile(c, [0, 0.25, 0.5, 0.75, 1]) if np.isfinite(c).any() else None for c in columns
    ]
    named = 1 < a.n_learners <= _MOST_NAMED
    return {
        "ranked": _ranked_figure(a) if named else None,
        "strip": None if named else strip_figure(a, most_dots),
        "rows": [
            {
                "name": a.learners[i],
                "cells": [(_sort_key(c[i]), f(float(c[i]))) for c, f in zip(columns, formats, strict=True)],
                "error": ""
                if math.isnan(a.votes.without_error[i])
                else f"{100 * a.votes.without_error[i]:.2f}",
            }
            for i in visible
        ],
        "left_out": a.n_learners - len(visible),
        "spread": [
            (label, [f(float("nan") if q is None else q[k]) for q, f in zip(quartiles, formats, strict=True)])
            for k, label in enumerate(("lowest", "lower quarter", "middle", "upper quarter", "highest"))
            if not named and a.n_learners > 1
        ],
    }


def classes(a: Assessment) -> dict[str, Any]:
    """Return what the vote finds of each class, and the correlations; the class that is found least comes first."""
    found = a.by_class
    order = np.argsort(np.nan_to_num(found.recalls, nan=np.inf), kind="stable").tolist()
    rows = [
        {
            "name": str(a.classes[k]),
            "cells": [percent(found.shares[k]), percent(found.recalls[k])],
            "taken_for": _taken_for(a, k),
            "correlations": [number(a.correlations.r_tl_classes[k]), number(a.correlations.r_ll_classes[k])],
        }
        for k in order
    ]
    return {"rows": rows[:_MOST_CLASSES], "left_out": max(len(rows) - _MOST_CLASSES, 0)}


def _taken_for(a: Assessment, k: int) -> str:
    """Return the class that the vote chooses most often where it misses class k, with the share of class k."""
    counts = a.by_class.confusion[k].copy()
    total, counts[k] = counts.sum(), 0.0
    if not counts.any():
        return ""
    other = int(np.argmax(counts))
    return f"{shorten(str(a.classes[other]), 24)} ({percent(counts[other] / total)})"


def _notable(a: Assessment, most: int) -> list[int]:
    """Return all learners, or the most and the least accurate and those that change the vote most, the best first."""
    by_accuracy: list[int] = np.argsort(a.accuracies, kind="stable").tolist()
    if a.n_learners <= most:
        return by_accuracy[::-1]
    by_change = np.argsort(-np.abs(a.votes.without), kind="stable").tolist()
    third = most // 3
    chosen = {*by_accuracy[:third], *by_accuracy[-third:], *by_change[: most - 2 * third]}
    return [i for i in reversed(by_accuracy) if i in chosen]


def _sort_key(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


def _ranked_figure(a: Assessment) -> dict[str, Any]:
    """Return a line for each learner, the best first: its accuracy with its interval, beside the vote."""
    order = np.argsort(-a.accuracies, kind="stable").tolist()
    spans = [wilson_interval(float(a.accuracies[i]), a.n_samples) for i in order]
    low = min(a.vote.low, *(span[0] for span in spans))
    high = max(a.vote.high, *(span[1] for span in spans))
    room = max(0.04 * (high - low), 0.005)
    names = [shorten(a.learners[i], _LABEL) for i in order]
    frame = Frame(
        (max(low - room, 0.0), min(high + room, 1.0)),
        (0, 1),
        height=24 + _ROW * len(order) + 46,
        left=24 + round(8.2 * max(map(len, names))),
        top=24,
    )
    return percent_ticks(frame, "Right on") | {
        "vote": {
            "x": frame.at_x(a.vote.value),
            "low": frame.at_x(a.vote.low),
            "width": round(frame.at_x(a.vote.high) - frame.at_x(a.vote.low), 1),
            "text": f"vote {percent(a.vote.value)}",
        },
        "rows": [
            {
                "name": name,
                "x": frame.at_x(float(a.accuracies[i])),
                "y": 24 + _ROW * (k + 0.5),
                "low": frame.at_x(span[0]),
                "high": frame.at_x(span[1]),
                "title": f"{shorten(a.learners[i], 60)}: {percent(a.accuracies[i])} "
                f"(95 % interval {number(100 * span[0], 1)} to {number(100 * span[1], 1)} %)",
            }
            for k, (i, name, span) in enumerate(zip(order, names, spans, strict=True))
        ],
    }
