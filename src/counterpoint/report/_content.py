"""The content of the report, as one dict of plain strings, numbers and figures for the templates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterpoint import __version__
from counterpoint._validation import FloatArray
from counterpoint.assessment import Assessment, Estimate, VoteComparison
from counterpoint.measures import MEASURES
from counterpoint.report._coverage import coverage
from counterpoint.report._figures import plane_figure, sizing_figure, what_if_frame
from counterpoint.report._lead import effective_figure, lead
from counterpoint.report._learners import classes, learners
from counterpoint.report._limits import (
    MOST_COMPARED,
    MOST_DETAILED,
    Limits,
    advice,
    best_of,
    left_out,
    share_room,
)
from counterpoint.report._matrix import matrix_figure, pairs
from counterpoint.report._probabilities import probabilities, scored, scores
from counterpoint.report._words import (
    EXPLANATIONS,
    interval,
    measure_name,
    minus,
    number,
    percent,
    points,
    shorten,
)
from counterpoint.theory import OperatingPoint

__all__ = ["content"]

_MOST_CLASSES = 12


def content(
    assessments: Sequence[Assessment],
    title: str | None,
    date: str | None,
    room: float = 1.0,
    *,
    paths: Mapping[str, OperatingPoint],
    comparison: VoteComparison | None = None,
) -> dict[str, Any]:
    """Return the data of the templates; ``room`` scales the limits."""
    compared = best_of([a.vote.value for a in assessments], int(MOST_COMPARED * room))
    visible = [assessments[i] for i in compared]
    detailed = best_of([a.vote.value for a in visible], MOST_DETAILED)
    count = len(detailed)
    limits = share_room(room, count)
    default = assessments[0].name if count == 1 else f"{len(assessments)} ensembles compared"
    return {
        "title": title or default,
        "version": __version__,
        "date": date,
        "ensembles": [_ensemble(visible[i], i, limits, paths) for i in detailed],
        "comparison": _comparison(visible, detailed, paths, len(assessments), comparison)
        if count > 1
        else None,
        "facts": [(a.name, _facts(a)) for a in visible],
        "what_if": _what_if(visible),
    }


def _ensemble(
    a: Assessment, index: int, limits: Limits, paths: Mapping[str, OperatingPoint]
) -> dict[str, Any]:
    return {
        "id": f"e{index + 1}",
        "name": a.name,
        "lead": lead(a),
        "worth": effective_figure(a),
        "tiles": _tiles(a),
        "advice": advice(a),
        "votes": _votes(a),
        "plane": plane_figure([a], paths, limits.dots),
        "bound": _bound(a),
        "dots_left_out": max(a.n_learners - limits.dots, 0),
        "classes": classes(a),
        "probabilities": probabilities(a),
        "learners": learners(a, limits.rows, limits.dots),
        "coverage": coverage(a),
        "matrix": matrix_figure(a, limits.side),
        "pairs": pairs(a.correlations.matrix, a.learners),
        "measures": _measures(a),
        "sizing": sizing_figure(a),
        "sizes": _sizes(a),
        "n_learners": a.n_learners,
        "n_classes": a.n_classes,
    }


def _tiles(a: Assessment) -> list[tuple[str, str, str]]:
    """Return the four key numbers as (label, value, note)."""
    p = a.accuracies
    votes, c = a.effective.votes, a.effective.error_correlation
    return [
        ("Vote accuracy", percent(a.vote.value), f"{a.voting} vote, 95 % interval {interval(a.vote)}"),
        (
            "One learner, on average",
            percent(float(p.mean())),
            f"best {percent(p.max())}, lowest {percent(p.min())}",
        ),
        (
            f"Effective votes of {a.n_learners:,}",
            minus(votes.as_count().split()[0]),
            a.effective.undefined
            if math.isnan(votes.value)
            else f"independent learners as good as {shorten(a.effective.best, 40)}"
            + ("" if math.isnan(votes.low) else f", 95 % interval {votes.count_range()}"),
        ),
        (
            "Error correlation",
            number(c.value, 2),
            "needs two learners that are sometimes wrong"
            if math.isnan(c.value)
            else "0: each errs on its own, 1: all err on the same samples"
            + ("" if math.isnan(c.low) else f", 95 % interval {number(c.low, 2)} to {number(c.high, 2)}"),
        ),
    ]


def _bound(a: Assessment) -> str:
    """Return in words how near the mean learner is to what learners so similar can reach."""
    if math.isnan(a.optimality):
        return ""
    return (
        f"The learners correlate with the truth by {number(a.r_tl, 2)} on average (r_TL), and with each other by "
        f"{number(a.r_ll, 2)} (r_LL). Learners as similar as that could reach {number(a.correlations.bound, 2)} on "
        f"average, if their errors cancelled out in the vote: these reach {percent(a.optimality, 0)} of it."
    )


def _votes(a: Assessment) -> list[tuple[str, str, str]]:
    """Return each vote, measured, predicted or bounded, as (label, accuracy, remark)."""
    measured = [("Hard vote", a.votes.hard, "the most votes")]
    if a.outputs == "probabilities":
        measured += [
            ("Soft vote", a.votes.soft, "the highest mean probability"),
            ("Geometric vote", a.votes.geometric, "the highest geometric mean"),
        ]
    rows = [
        (label, percent(found.value), f"{remark}; 95 % interval {interval(found)}")
        for label, found, remark in measured
    ]
    if a.n_learners > 1:
        rows += _reweighted(a)
        rows += [
            (
                "Hard vote, predicted",
                percent(a.prediction.mixed),
                "from the accuracies and the shared errors",
            ),
            (
                "Hard vote, if independent",
                percent(a.prediction.independent),
                "if each learner erred on its own",
            ),
        ]
    return rows + _certified(a) + _baseline(a)


def _baseline(a: Assessment) -> list[tuple[str, str, str]]:
    """Return what the vote should be compared with where classes differ in size."""
    if a.n_classes < 2:
        return []
    often = shorten(str(a.classes[int(np.argmax(a.by_class.shares))]), 24)
    return [
        ("Most frequent class", percent(a.by_class.baseline), f"always answering {often}"),
        (
            "Balanced accuracy",
            percent(a.by_class.balanced_accuracy),
            "mean over the classes of the share that the vote finds",
        ),
    ]


def _reweighted(a: Assessment) -> list[tuple[str, str, str]]:
    """Return the vote with the best weights, if there are enough samples to fit and to judge it."""
    gain = a.changes.reweighting
    if math.isnan(gain.value):
        return []
    remark = f"{gain}, fitted to one half of the samples and judged on the other"
    return [("Vote with the best weights", percent(a.vote.value + gain.value), remark)]


def _certified(a: Assessment) -> list[tuple[str, str, str]]:
    """Return the bound on new data, if it says more than always choosing the most frequent class would."""
    low = 1 - a.certificates.tandem_bound
    said = ("Hard vote at least, new data", percent(low), "tandem bound, 95 % confidence")
    return [said] if low > a.by_class.baseline else []


def _measures(a: Assessment) -> list[dict[str, Any]]:
    return [
        {
            "name": measure_name(key),
            "value": number(value := a.measures[key]),
            "range": f"{number(low, 2).removesuffix('.00')} to {_end(high)}",
            "place": _place(value, low, high),
            "direction": known.direction,
            "reference": known.reference,
            "says": EXPLANATIONS[key],
        }
        for key, known in MEASURES.items()
        for low, high in [known.range]
    ]


def _end(high: float) -> str:
    return number(high, 2).removesuffix(".00") if math.isfinite(high) else "\N{INFINITY}"


def _place(value: float, low: float, high: float) -> float | None:
    """Return the position of a value in its range, from 0 to 100."""
    return round(100 * (value - low) / (high - low), 1) if np.isfinite([value, high]).all() else None


def _sizes(a: Assessment) -> list[tuple[str, str, str, str, bool]]:
    """Return some sizes with the accuracy, its interval, and its difference from that of the present size."""
    sizes, curve, low, high = a.prediction.sizing
    assert low is not None
    assert high is not None
    now = int(np.searchsorted(sizes, a.n_learners))
    wanted = np.searchsorted(sizes, sorted({1, 3, 5, 11, 25, 51, 101, 2 * a.n_learners + 1, int(sizes[-1])}))
    return [
        (
            f"{sizes[k]:,}",
            percent(curve[k]),
            interval(a.votes.hard if k == now else Estimate(curve[k], low[k], high[k])),
            points(curve[k] - curve[now]),
            k == now,
        )
        for k in sorted({now, *wanted.clip(max=len(sizes) - 1).tolist()})
    ]


def _facts(a: Assessment) -> list[tuple[str, str]]:
    named = ", ".join(shorten(str(label), 24) for label in a.classes[:_MOST_CLASSES])
    more = f" and {a.n_classes - _MOST_CLASSES} more" if a.n_classes > _MOST_CLASSES else ""
    return [
        ("Learners", f"{a.n_learners:,}"),
        ("Samples", f"{a.n_samples:,}, {'trained on' if a.samples == 'training' else 'held out'}"),
        ("Classes", f"{a.n_classes:,}: {named}{more}"),
        ("Outputs", a.outputs),
        ("Vote that counts", a.voting),
        *([("Tied votes", f"{a.coverage.tied:,}, shared by the tied classes")] if a.coverage.tied else []),
    ]


def _comparison(
    assessments: Sequence[Assessment],
    detailed: Sequence[int],
    paths: Mapping[str, OperatingPoint],
    n_given: int,
    tested: VoteComparison | None,
) -> dict[str, Any]:
    votes = np.array([a.vote.value for a in assessments])
    return {
        "verdict": _compare(assessments, votes, tested),
        "best": int(np.argmax(votes)),
        "scores": [(a.name, a.voting, scores(a)) for a in assessments if scored(a)],
        "rows": [
            {
                "name": a.name,
                "id": f"e{i + 1}" if i in detailed else None,
                "learners": f"{a.n_learners:,}",
                "vote": percent(a.vote.value),
                "interval": interval(a.vote),
                "mean": percent(float(a.accuracies.mean())),
                "best": percent(float(a.accuracies.max())),
                "r_tl": number(a.r_tl),
                "r_ll": number(a.r_ll),
                "effective": a.effective.votes.as_count().split(" (")[0],
                "error_correlation": number(a.correlations.error_correlation, 2),
                "warnings": sum(finding.severity == "warning" for finding in a.findings),
            }
            for i, a in enumerate(assessments)
        ],
        "left_out": left_out(n_given, len(assessments), len(detailed), "the most accurate votes"),
        "plane": plane_figure(assessments, paths),
    }


def _compare(assessments: Sequence[Assessment], votes: FloatArray, tested: VoteComparison | None) -> str:
    first, second = np.argsort(-votes, kind="stable")[:2].tolist()
    best, next_ = assessments[first], assessments[second]
    gap = best.vote.value - next_.vote.value
    one, other = shorten(best.name, 80), shorten(next_.name, 80)
    said = (
        f"{one} and {other} have equally accurate votes, {percent(best.vote.value)}"
        if gap == 0
        else f"{one} has the most accurate vote, {percent(best.vote.value)}, {100 * gap:.1f} points above {other}"
    )
    doubt = _doubt(best, next_, tested)
    sizes = {a.n_samples for a in assessments}
    other = " The ensembles were judged on different numbers of samples." if len(sizes) > 1 else ""
    return f"{said}{doubt}.{other}"


def _doubt(best: Assessment, next_: Assessment, tested: VoteComparison | None) -> str:
    """Return whether two votes can be told apart; without a paired test, whether their intervals overlap."""
    pairs = () if tested is None else tested.pairs
    for pair in pairs:
        if {pair.first, pair.second} == {best.name, next_.name} and not math.isnan(pair.p_value):
            low, high = (f"{100 * end:+.1f}" for end in pair.difference[1:])
            p = "p < 0.001" if pair.corrected < 0.001 else f"p = {pair.corrected:.2g}"
            can = "tells them apart" if pair.apart else "cannot tell them apart"
            return f"; a paired test {can} (difference {low} to {high} points, {p})"
    overlap = best.vote.value > next_.vote.value and next_.vote.high >= best.vote.low
    return "; their intervals overlap" if overlap else ""


def _what_if(assessments: Sequence[Assessment]) -> dict[str, Any]:
    largest = max(301, 2 * max(a.n_learners for a in assessments) + 1)
    starts = [
        {
            "name": shorten(a.name, 40),
            "n": a.n_learners,
            "p": float(a.accuracies.mean()),
            "c": 0.0 if math.isnan(a.correlations.error_correlation) else a.correlations.error_correlation,
        }
        for a in assessments
    ]
    frame = what_if_frame(largest)
    edges = {
        "left": frame.left,
        "right": frame.width - frame.right,
        "top": frame.top,
        "bottom": frame.height - frame.bottom,
    }
    return {
        "starts": starts,
        "largest": largest,
        "figure": frame.drawn("Number of learners", "Accuracy of the vote") | {"y_ticks": []},
        "data": {"starts": starts, "largest": largest, "edges": edges},
    }
