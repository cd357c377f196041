"""The content of the page on regression ensembles, as one dict for the templates."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from counterpoint import __version__
from counterpoint.assessment import RegressionAssessment
from counterpoint.outputs import mean_defined, ratio
from counterpoint.report._dots import Axis, ranked_figure, strip_figure
from counterpoint.report._figures import Frame, ticks
from counterpoint.report._learners import MOST_NAMED, Column, learner_table
from counterpoint.report._limits import (
    MOST_COMPARED,
    MOST_DETAILED,
    Limits,
    advice,
    best_of,
    left_out,
    share_room,
)
from counterpoint.report._matrix import learner_matrix_figure, pairs
from counterpoint.report._regression_lead import (
    error_figure,
    regression_lead,
    regression_tiles,
    shared_error,
)
from counterpoint.report._words import amount, amounts, minus, number, percent, points, shorten

__all__ = ["regression_content"]

_FEWEST = 101  # learners that the curve reaches at least
_STEPS = 60  # of the curve
_MATRIX = (
    "Correlation matrix of the errors of the learners",
    "How similar the errors are: 1 if two learners err alike, 0 if unrelated, below 0 if they err in opposite "
    "directions. Similar learners stand side by side; columns are in the order of the rows",
)


def regression_content(
    assessments: Sequence[RegressionAssessment], title: str | None, date: str | None, room: float = 1.0
) -> dict[str, Any]:
    """Return the data of the templates; ``room`` scales the limits."""
    quality = [-a.squared_error.value for a in assessments]
    visible = [assessments[i] for i in best_of(quality, int(MOST_COMPARED * room))]
    detailed = best_of([-a.squared_error.value for a in visible], MOST_DETAILED)
    limits = share_room(room, len(detailed))
    several = len(assessments) > 1
    return {
        "title": title or (f"{len(assessments)} ensembles compared" if several else assessments[0].name),
        "version": __version__,
        "date": date,
        "ensembles": [_ensemble(visible[i], i, limits) for i in detailed],
        "comparison": _comparison(visible, detailed, len(assessments)) if several else None,
        "facts": [(a.name, _facts(a)) for a in visible],
        "what_if": None,
    }


def _ensemble(a: RegressionAssessment, index: int, limits: Limits) -> dict[str, Any]:
    return {
        "id": f"e{index + 1}",
        "name": a.name,
        "lead": regression_lead(a),
        "errors": error_figure(a),
        "tiles": regression_tiles(a),
        "advice": advice(a),
        "learners": _learners(a, limits),
        "parts": _parts(a),
        "sizing": _sizing_figure(a),
        "sizes": _sizes(a),
        "enough": _enough(a),
        "matrix": learner_matrix_figure(a.error_correlations, a.learners, limits.side, *_MATRIX),
        "pairs": pairs(a.error_correlations, a.learners),
        "n_learners": a.n_learners,
    }


def _learners(a: RegressionAssessment, limits: Limits) -> dict[str, Any]:
    """Return the table of the learners, of their spread if they are many, and the figure."""
    own, named = a.learner_errors, 1 < a.n_learners <= MOST_NAMED
    axis = Axis(
        "Squared error", "their mean", amount, _tick, amount, unit=float(own.max()) or 1.0, most=math.inf
    )
    others = np.where(np.eye(a.n_learners, dtype=bool), np.nan, a.error_correlations)
    error = a.squared_error.value
    columns: list[Column] = [
        ("Squared error", own, amount),
        ("Mean without it, %", ratio(a.without, np.full(a.n_learners, error)), points),
        ("With the truth", a.truth_correlations, number),
        ("With others", mean_defined(others, axis=1), number),
    ]
    errors = [
        f"{100 * one / error:.2f}" if error > 0 and math.isfinite(one) else ""
        for one in a.without_error.tolist()
    ]
    spans = [(float(value), float(value)) for value in own]
    order = np.argsort(own, kind="stable").tolist()
    strip = None if named else strip_figure(own, a.learners, error, limits.dots, axis)
    return learner_table(a.learners, columns, errors, -own, limits.rows) | {
        "ranked": ranked_figure(order, own, spans, a.learners, a.squared_error, axis) if named else None,
        "ranked_label": "Squared error of each learner, and of their mean with its interval",
        "ranked_caption": "Each dot is a learner; the line is their mean, with the 95 % interval of its squared error. "
        "Left is good.",
        "strip": strip,
        "strip_label": "Squared errors of the learners, mean learner and their mean",
        "strip_caption": f"{'Each dot is a learner' if strip and strip['dots'] else 'Learners by squared error'}; the "
        "solid line is their mean, the dashed one the mean learner. Left is good.",
        "chosen": "those with the lowest and the highest errors, and those that change the mean most",
        "note": "Mean without it: the change of the squared error of the mean, in percent, if the learner were left "
        "out; below zero the mean is better off, ± one standard error. With the truth: correlation of its predictions "
        "with the truth. With others: mean correlation of its errors with those of another learner.",
    }


def _parts(a: RegressionAssessment) -> dict[str, list[tuple[str, str, str]]]:
    """Return two decompositions of the squared error as rows (part, amount, remark)."""
    error, average, ambiguity = a.errors
    bias, variance, covariance = a.components
    n = a.n_learners
    ambiguous = [
        ("Squared error of a learner, mean", amount(average), ""),
        ("Less the ambiguity", amount(ambiguity), "spread of the learners around their mean"),
        ("Squared error of their mean", amount(error), "the difference"),
    ]
    summed = [
        ("Bias²", bias**2, f"predictions are {_bias_words(bias)} on average"),
        (
            f"Variance / {n:,}" if n > 1 else "Variance",
            variance / n,
            f"of a learner's errors: {amount(variance)}",
        ),
    ]
    if n > 1:
        remark = f"of the errors of two learners: {amount(covariance)}"
        summed.append((f"{_share(n)} \N{MULTIPLICATION SIGN} covariance", (1 - 1 / n) * covariance, remark))
    rows = [(label, f"{amount(value)}{_percent_of(value, error)}", remark) for label, value, remark in summed]
    return {
        "Averaging (Krogh and Vedelsby 1995)": ambiguous if n > 1 else [],
        "Bias, variance and covariance (Ueda and Nakano 1996)": rows,
    }


def _bias_words(bias: float) -> str:
    return (
        f"{amount(abs(bias))} too {'high' if bias > 0 else 'low'}" if bias else "neither too high nor too low"
    )


def _share(n: int) -> str:
    return f"{1 - 1 / n:.3g}"


def _percent_of(part: float, whole: float) -> str:
    return f" ({percent(part / whole, 0)})" if whole > 0 else ""


def _reached(a: RegressionAssessment) -> list[int]:
    """Return the numbers of learners of the curve, the present one among them."""
    last = max(_FEWEST, 2 * a.n_learners + 1)
    spaced = np.unique(np.geomspace(1, last, _STEPS).round().astype(int)).tolist()
    return sorted({*spaced, a.n_learners})


def _sizing_figure(a: RegressionAssessment) -> dict[str, Any] | None:
    """Return the squared error against the number of learners, down to the ceiling."""
    sizes = np.array(_reached(a))
    curve = a.predicted_error(sizes)
    if np.isnan(curve).all() or not a.errors.average_error > 0:
        return None
    measured, split = a.squared_error, shared_error(a) >= 0
    known = np.concatenate([curve[np.isfinite(curve)], measured, [a.ceiling] if split else []])
    low, high = float(known.min()), float(known.max())
    room = max(0.08 * (high - low), 1e-3 * high)
    ends = max(low - room, 0.0), high + room
    left = 34 + 7 * max(len(_tick(value)) for value in ticks(*ends))
    frame = Frame((1.0, float(sizes[-1])), ends, log_x=True, height=300, left=left)
    drawn = frame.drawn(
        "Number of learners",
        "Squared error",
        line=frame.path(sizes.astype(float), curve),
        subsets="",
        band="",
        interval="",
        subset_marks=[],
        ceiling=_ceiling(frame, a) if split else None,
        now=None,
        measured=(frame.at_x(a.n_learners), frame.at_y(measured.value)),
        measured_interval=(frame.at_y(measured.low), frame.at_y(measured.high)),
        measured_title=f"{a.n_learners:,} learners: squared error {amount(measured.value)} "
        f"(95 % interval {amounts(measured)})",
        marks=[
            (frame.at_x(n), frame.at_y(v), f"{n:,} learners: {amount(v)}")
            for n, v in zip(sizes.tolist(), curve.tolist(), strict=True)
            if math.isfinite(v)
        ],
    )
    return drawn | {"y_ticks": [(frame.at_y(v), _tick(v)) for v in ticks(*frame.y)]}


def _ceiling(frame: Frame, a: RegressionAssessment) -> dict[str, Any]:
    return {
        "line": frame.path(frame.x, (a.ceiling, a.ceiling)),
        "y": frame.at_y(a.ceiling),
        "text": f"ceiling {amount(a.ceiling)}",
    }


def _sizes(a: RegressionAssessment) -> list[tuple[str, str, str, bool]]:
    """Return some sizes with the squared error and its change against that of the present size, in percent."""
    n, now = a.n_learners, a.squared_error.value
    wanted = [k for k in sorted({1, 2, 3, 5, 10, 20, 50, 100, n, 2 * n}) if k <= max(_FEWEST, 2 * n)]
    found = a.predicted_error(np.array(wanted)).tolist()
    rows = [
        (f"{k:,}", amount(v), points(v / now - 1) if now > 0 else "undefined", k == n)
        for k, v in zip(wanted, found, strict=True)
    ]
    if shared_error(a) >= 0:
        change = points(a.ceiling / now - 1) if now > 0 else "undefined"
        rows.append(("any number", amount(a.ceiling), change, False))
    return rows


def _enough(a: RegressionAssessment) -> str:
    """Return from how many learners on the rest of the gain is within the noise, in words."""
    if math.isnan(a.enough) or not shared_error(a) >= 0:
        return ""
    return (
        f"From {a.enough:,.0f} learners like these on, all the rest of the gain is within the noise of these "
        f"{a.n_samples:,} samples."
    )


def _facts(a: RegressionAssessment) -> list[tuple[str, str]]:
    return [
        ("Learners", f"{a.n_learners:,}"),
        ("Samples", f"{a.n_samples:,}, {'trained on' if a.samples == 'training' else 'held out'}"),
        ("Outputs", "numbers"),
        ("Answer", "mean of the learners"),
    ]


def _comparison(
    assessments: Sequence[RegressionAssessment], detailed: Sequence[int], n_given: int
) -> dict[str, Any]:
    errors = np.array([a.squared_error.value for a in assessments])
    return {
        "verdict": _compare(assessments),
        "best": int(np.argmin(errors)),
        "rows": [
            {
                "name": a.name,
                "id": f"e{i + 1}" if i in detailed else None,
                "cells": [
                    f"{a.n_learners:,}",
                    amount(a.squared_error.value),
                    amounts(a.squared_error),
                    percent(a.r2.value),
                    amount(a.errors.average_error),
                    amount(float(a.learner_errors.min())),
                    number(a.error_correlation, 2),
                    amount(a.ceiling),
                    str(sum(finding.severity == "warning" for finding in a.findings)),
                ],
            }
            for i, a in enumerate(assessments)
        ],
        "left_out": left_out(n_given, len(assessments), len(detailed), "the lowest squared errors"),
    }


def _compare(assessments: Sequence[RegressionAssessment]) -> str:
    """Return in words which ensemble is best, and whether its interval is apart from that of the next."""
    best, next_ = sorted(assessments, key=lambda a: a.squared_error.value)[:2]
    one, other = shorten(best.name, 80), shorten(next_.name, 80)
    low, high = best.squared_error.value, next_.squared_error.value
    if low == high:
        said = f"{one} and {other} have the same squared error, {amount(low)}"
    else:
        said = f"{one} has the lowest squared error, {amount(low)}, {percent(1 - low / high)} below {other}"
    overlap = low < high and best.squared_error.high >= next_.squared_error.low
    sizes = {a.n_samples for a in assessments}
    more = " The ensembles were judged on different numbers of samples." if len(sizes) > 1 else ""
    return f"{said}{'; their intervals overlap' if overlap else ''}.{more}"


def _tick(value: float) -> str:
    return minus(f"{value:,.0f}" if 1000 <= abs(value) < 1e10 else f"{value:.6g}")
