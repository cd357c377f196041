"""The learners as dots on an axis of accuracies or of errors, beside the ensemble."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment import Estimate
from counterpoint.report._figures import Frame, ticks
from counterpoint.report._words import percent, shorten

__all__ = ["ACCURACY", "Axis", "ranked_figure", "strip_figure"]

_RADII = (5, 4, 3)
_ROW = 22  # the height of the line of a learner
_LABEL = 22  # letters of a name in the figure


class Axis(NamedTuple):
    """What the dots stand on: its label, the word for the ensemble, how values are written, and their size."""

    label: str
    ensemble: str
    text: Callable[[float], str]
    tick: Callable[[float], str]
    finer: Callable[[float], str]  # for the edges of bars
    unit: float  # what a small distance is measured by
    most: float  # the highest value that is possible

    def drawn(self, frame: Frame) -> dict[str, Any]:
        """Return the frame with values on its horizontal axis and nothing on the vertical one."""
        values = [(frame.at_x(v), self.tick(v)) for v in ticks(*frame.x)]
        return frame.drawn(self.label, "") | {"x_ticks": values, "y_ticks": []}

    def around(self, low: float, high: float, share: float, least: float) -> tuple[float, float]:
        """Return the ends of the axis around some values: a share of their range, or of the unit, is left free."""
        room = max(share * (high - low), least * self.unit)
        return max(low - room, 0.0), min(high + room, self.most)


ACCURACY = Axis(
    "Right on",
    "vote",
    percent,
    lambda value: f"{100 * value:.3g} %",
    lambda value: percent(value, 2),
    unit=1.0,
    most=1.0,
)


def ranked_figure(
    order: Sequence[int],
    values: FloatArray,
    spans: Sequence[tuple[float, float]],
    names: Sequence[str],
    ensemble: Estimate,
    axis: Axis,
) -> dict[str, Any]:
    """Return a line for each learner in an order: its value with its interval, beside the ensemble.

    A learner, or an ensemble, whose interval is not known has its value as both ends.
    """
    if math.isnan(ensemble.low):
        ensemble = Estimate(ensemble.value, ensemble.value, ensemble.value)
    low = min(ensemble.low, *(span[0] for span in spans))
    high = max(ensemble.high, *(span[1] for span in spans))
    short = [shorten(names[i], _LABEL) for i in order]
    frame = Frame(
        axis.around(low, high, 0.04, 0.005),
        (0, 1),
        height=24 + _ROW * len(order) + 46,
        left=24 + round(8.2 * max(map(len, short))),
        top=24,
    )
    said = f"{axis.ensemble} {axis.text(ensemble.value)}"
    x, half = frame.at_x(ensemble.value), 3.4 * len(said)
    return axis.drawn(frame) | {
        "vote": {
            "x": x,
            "anchor": "start" if x < half else "end" if x + half > frame.width else "middle",
            "low": frame.at_x(ensemble.low),
            "width": round(frame.at_x(ensemble.high) - frame.at_x(ensemble.low), 1),
            "text": said,
        },
        "rows": [
            {
                "name": name,
                "x": frame.at_x(float(values[i])),
                "y": 24 + _ROW * (k + 0.5),
                "low": frame.at_x(spans[i][0]),
                "high": frame.at_x(spans[i][1]),
                "title": f"{shorten(names[i], 60)}: {axis.text(values[i])}{_span_text(spans[i], axis)}",
            }
            for k, (i, name) in enumerate(zip(order, short, strict=True))
        ],
    }


def strip_figure(
    values: FloatArray, names: Sequence[str], ensemble: float, most_dots: int, axis: Axis
) -> dict[str, Any] | None:
    """Return the learners as stacked dots, or as bars if they are too many, beside the ensemble."""
    if len(values) < 2:
        return None
    low, high = min(values.min(), ensemble), max(values.max(), ensemble)
    frame = Frame(axis.around(low, high, 0.06, 0.01), (0, 1), height=190, left=14, top=42)
    lines = (("vote", axis.ensemble, ensemble), ("mean", "mean learner", float(values.mean())))
    return axis.drawn(frame) | {
        "lines": [
            {
                "x": frame.at_x(x),
                "kind": kind,
                "text": f"{word} {axis.text(x)}",
                "row": row,
                "end": x > sum(frame.x) / 2,
            }
            for row, (kind, word, x) in enumerate(lines)
        ],
        "dots": (dots := _stacked_dots(frame, values, names, axis) if len(values) <= most_dots else []),
        "bars": [] if dots else _bars(frame, values, axis),
    }


def _span_text(span: tuple[float, float], axis: Axis) -> str:
    low, high = map(axis.text, span)
    return "" if span[0] == span[1] else f" (95 % interval {low.removesuffix(' %')} to {high})"


def _stacked_dots(frame: Frame, values: FloatArray, names: Sequence[str], axis: Axis) -> list[dict[str, Any]]:
    """Return a dot for each learner, dots of similar values stacked; none if they do not fit."""
    places = np.array([frame.at_x(v) for v in values])
    floor = frame.height - frame.bottom
    for radius in _RADII:
        column = np.round((places - frame.left) / (2 * radius)).astype(int)
        if np.bincount(column).max() * 2 * radius <= floor - frame.top:
            break
    else:
        return []
    height: dict[int, int] = {}
    dots = []
    for i in np.argsort(values, kind="stable").tolist():
        k = int(column[i])
        height[k] = height.get(k, 0) + 1
        dots.append(
            {
                "x": round(frame.left + 2 * radius * k, 1),
                "y": floor - 2 * radius * height[k] + radius,
                "r": radius - 0.5,
                "title": f"{shorten(names[i], 60)}: {axis.text(values[i])}",
            }
        )
    return dots


def _bars(frame: Frame, values: FloatArray, axis: Axis) -> list[dict[str, Any]]:
    counts, edges = np.histogram(values, bins=min(40, max(10, len(values) // 10)))
    floor, most = frame.height - frame.bottom, counts.max()
    return [
        {
            "x": frame.at_x(low),
            "width": round(max(frame.at_x(high) - frame.at_x(low) - 1, 1.0), 1),
            "height": (h := round((floor - frame.top) * count / most, 1)),
            "y": round(floor - h, 1),
            "title": f"{count} learners between {axis.finer(low)} and {axis.finer(high)}",
        }
        for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if count
    ]
