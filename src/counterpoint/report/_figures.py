"""The coordinates of the figures: data in, coordinates out; the templates draw them.

A figure is a dict of plain numbers and strings. Marks carry a ``title`` that names what they show. Notation: ``r_tl``
and ``r_ll`` are the truth-learner and the learner-learner correlation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoint._validation import FloatArray
from counterpoint.assessment import Assessment
from counterpoint.outputs import mean_defined
from counterpoint.report._words import interval, minus, number, percent, shorten
from counterpoint.theory import OperatingPoint, learner_correlation_bounds, truth_correlation_bounds

__all__ = ["Frame", "plane_figure", "sizing_figure", "ticks", "what_if_frame"]

_MOST_CURVES = 5  # bounds for different numbers of learners
_ALL_STEPS, _MOST_STEPS = 2000, 200  # of the paths in training
_MOST_SPOKES = 40


@dataclass(frozen=True)
class Frame:
    """The area of a figure and its two scales."""

    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    width: int = 480
    height: int = 330
    left: int = 50
    right: int = 14
    top: int = 14
    bottom: int = 46

    def at_x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self.x
        share = math.log(value / low) / math.log(high / low) if self.log_x else (value - low) / (high - low)
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def at_y(self, value: float) -> float:
        """Return the vertical position of a value; higher values are further up."""
        low, high = self.y
        share = (value - low) / (high - low)
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)

    def path(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """Return a line through the points as SVG path data, broken where one is undefined."""
        parts, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if math.isfinite(x) and math.isfinite(y):
                parts.append(f"{pen}{self.at_x(x):g} {self.at_y(y):g}")
                pen = "L"
            else:
                pen = "M"
        return "".join(parts)

    def drawn(self, x_label: str, y_label: str, **content: Any) -> dict[str, Any]:
        """Return the axes with the content of the figure."""
        values = _log_ticks(*self.x) if self.log_x else ticks(*self.x)
        return {
            "frame": self,
            "x_ticks": [(self.at_x(v), _tick_text(v)) for v in values],
            "y_ticks": [(self.at_y(v), _tick_text(v)) for v in ticks(*self.y)],
            "x_label": x_label,
            "y_label": y_label,
            **content,
        }


def plane_figure(
    assessments: Sequence[Assessment], paths: Mapping[str, OperatingPoint], most_dots: int = 0
) -> dict[str, Any] | None:
    """Return the ensembles under the bounds of Theorem 2, with some of the learners if there is one ensemble.

    ``paths`` holds the paths of some ensembles in training.

    A learner is drawn at its correlation with the truth and its mean correlation with the others, so the ensemble is
    the centre of its learners. ``closer`` is an enlarged view, if all of them are in a corner of the plane.
    """
    visible = [(i, a) for i, a in enumerate(assessments) if np.isfinite([a.r_tl, a.r_ll]).all()]
    if not visible:
        return None
    dots = _learner_places(visible[0][1], most_dots) if len(assessments) == 1 else []
    trajectories = [(i, paths[a.name]) for i, a in visible if a.name in paths]
    visited = [place for _, path in trajectories for place in zip(path.r_ll, path.r_tl, strict=True)]
    places = np.array([(a.r_ll, a.r_tl) for _, a in visible] + [(x, y) for x, y, _ in dots])
    left = min(-1 / (min(_n_defined(a) for _, a in visible) - 1), float(places[:, 0].min()))
    whole = Frame(
        (left - 0.02 * (1 - left), 1.02),
        (0.0 if np.nanmin(np.vstack([places, *visited])[:, 1]) >= 0 else -1.05, 1.05),
    )
    ceilings = [(a.r_ll, a.correlations.bound) for _, a in visible if len(visible) == 1]
    near = _closer(whole, np.vstack([places, *ceilings]))
    # In the enlarged view the paths would only cross the picture.
    return _plane(whole, visible, dots, trajectories) | {
        "closer": _plane(near, visible, dots, []) if near else None
    }


def _plane(
    frame: Frame,
    visible: Sequence[tuple[int, Assessment]],
    dots: Sequence[tuple[float, float, str]],
    trajectories: Sequence[tuple[int, OperatingPoint]],
) -> dict[str, Any]:
    sizes = _spread(sorted({_n_defined(a) for _, a in visible}), _MOST_CURVES)
    return frame.drawn(
        "Learner-learner correlation r_LL (left is diverse)",
        "Truth-learner correlation r_TL",
        curves=[_bound_curve(frame, n, k if len(sizes) > 1 else None) for k, n in enumerate(sizes)],
        guessing=frame.at_y(0.0) if frame.y[0] < 0 < frame.y[1] else None,
        gap=_gap(frame, visible[0][1]) if len(visible) == 1 else None,
        trajectories=[
            {"series": i, "line": frame.path(path.r_ll[steps], path.r_tl[steps])}
            for i, path in trajectories
            for steps in [_spread(range(len(path.r_ll)), min(_MOST_STEPS, _ALL_STEPS // len(trajectories)))]
        ],
        dots=[{"x": frame.at_x(x), "y": frame.at_y(y), "title": title} for x, y, title in dots],
        # Spokes from the mean to its learners: the bound is for the mean, and some of them may lie above it.
        spokes=len(dots) <= _MOST_SPOKES,
        marks=[
            {
                "x": frame.at_x(a.r_ll),
                "y": frame.at_y(a.r_tl),
                "series": i,
                "title": f"{shorten(a.name, 60)}: r_TL {number(a.r_tl)}, r_LL {number(a.r_ll)}, "
                f"at most {number(a.correlations.bound)}",
            }
            for i, a in visible
        ],
    )


def sizing_figure(a: Assessment) -> dict[str, Any] | None:
    """Return the accuracy against the number of learners: measured over subsets of these, and predicted for more."""
    sizes, curve, lowest, highest = a.prediction.sizing
    if lowest is None or highest is None or np.isnan(lowest).all():
        return None
    more = sizes >= a.n_learners
    sizes, curve, lowest, highest = sizes[more], curve[more], lowest[more], highest[more]
    measured, subsets = a.votes.hard, a.votes.subsets.odd()
    values = np.concatenate([lowest, highest, subsets.low, subsets.high, measured[1:]])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = max(0.08 * (high - low), 0.005)
    frame = Frame(
        (1.0, float(sizes[-1])),
        (max(low - room, 0.0), min(high + room, 1.0)),
        log_x=True,
        height=300,
        left=62,
    )
    drawn = frame.drawn(
        "Number of learners",
        "Accuracy of the vote",
        ceiling=None,
        line=frame.path(sizes.astype(float), curve),
        interval=frame.path(np.append(sizes, sizes[::-1]).astype(float), np.append(lowest, highest[::-1]))
        + "Z",
        subsets=frame.path(subsets.sizes.astype(float), subsets.mean),
        band=frame.path(
            np.append(subsets.sizes, subsets.sizes[::-1]).astype(float),
            np.append(subsets.low, subsets.high[::-1]),
        )
        + "Z",
        subset_marks=[
            (
                frame.at_x(size),
                frame.at_y(mean),
                f"{size} of the learners: {percent(mean)} on average, {percent(low)} to {percent(high)} "
                "for nine in ten choices",
            )
            for size, mean, low, high in zip(*(values.tolist() for values in subsets), strict=True)
        ],
        measured=(frame.at_x(a.n_learners), frame.at_y(measured.value)),
        measured_interval=tuple(
            frame.at_y(measured.value if math.isnan(end) else end) for end in (measured.low, measured.high)
        ),
        measured_title=f"{a.n_learners} learners: hard vote measured {percent(measured.value)} "
        f"(95 % interval {interval(measured)})",
        marks=[
            (
                frame.at_x(n),
                frame.at_y(value),
                f"{n} learners: predicted {percent(value)} ({percent(low)} to {percent(high)})",
            )
            for n, value, low, high in zip(
                *(one[1:].tolist() for one in (sizes, curve, lowest, highest)), strict=True
            )
        ],
    )
    drawn["y_ticks"] = [(frame.at_y(v), f"{100 * v:.3g} %") for v in ticks(*frame.y)]
    return drawn


def what_if_frame(largest: int) -> Frame:
    """Return the frame in which the script draws its curve, up to a number of learners."""
    return Frame((1.0, float(largest)), (0.5, 1.0), log_x=True, height=300, left=62)


def _learner_places(a: Assessment, most: int) -> list[tuple[float, float, str]]:
    others = a.correlations.matrix.copy()
    np.fill_diagonal(others, np.nan)
    mean = mean_defined(others, axis=1)
    defined = np.flatnonzero(np.isfinite(mean) & np.isfinite(a.correlations.r_tl_learners))
    by_rank = defined[np.argsort(a.correlations.r_tl_learners[defined], kind="stable")]
    return [
        (
            float(mean[i]),
            float(a.correlations.r_tl_learners[i]),
            f"{shorten(a.learners[i], 60)}: r_TL {number(a.correlations.r_tl_learners[i])}, "
            f"r_LL with the others {number(float(mean[i]))}, accuracy {percent(a.accuracies[i])}",
        )
        for i in _spread(by_rank.tolist(), most)
    ]


def _n_defined(a: Assessment) -> int:
    """Return the number of learners in the averages: those that are not constant."""
    return max(int(np.isfinite(a.correlations.r_tl_learners).sum()), 2)


def _closer(whole: Frame, places: FloatArray) -> Frame | None:
    """Return a frame around the points if they fill little of the whole."""
    low, high = places.min(axis=0), places.max(axis=0)
    room = np.maximum(0.15 * (high - low), 0.01)
    low, high = low - room, high + room
    if (high - low)[0] > 0.4 * (whole.x[1] - whole.x[0]) or (high - low)[1] > 0.4 * (whole.y[1] - whole.y[0]):
        return None
    return Frame((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))


def _bound_curve(frame: Frame, n_learners: int, rank: int | None) -> dict[str, Any]:
    """Return the bounds for a number of learners; the labels of several, by rank, climb from curve to curve."""
    lowest, highest = learner_correlation_bounds(n_learners)
    left, right = max(lowest, frame.x[0]), min(highest, frame.x[1])
    r_ll = (
        left + (right - left) * np.linspace(0.0, 1.0, 61) ** 2
    )  # finest at the apex, where the curve is steep
    low, high = truth_correlation_bounds(r_ll, n_learners)
    seen = (high <= frame.y[1]) & (high >= frame.y[0])
    over = np.minimum(high, frame.y[1])
    under = np.clip(low, frame.y[0], over)
    if rank is None:
        at = int(np.searchsorted(r_ll, (left + right) / 2))
    else:
        floor = max(frame.y[0], 0.0)
        at = int(np.searchsorted(high, floor + (0.08 + 0.1 * rank) * (frame.y[1] - floor)))
    at = min(at, int(np.flatnonzero(seen)[-1])) if seen.any() else 0
    return {
        "high": frame.path(r_ll, np.where(seen, high, np.nan)),
        "low": frame.path(r_ll, low) if low[-1] >= frame.y[0] else "",
        "area": "" if rank else frame.path(np.append(r_ll, r_ll[::-1]), np.append(over, under[::-1])) + "Z",
        "label": "bound for the mean" if rank is None else f"N = {n_learners}",
        "label_at": (frame.at_x(r_ll[at]), frame.at_y(high[at])) if seen[at] else None,
        "on_line": rank is not None,
    }


def _gap(frame: Frame, a: Assessment) -> dict[str, Any] | None:
    if not a.correlations.bound > a.r_tl:
        return None
    return {"x": frame.at_x(a.r_ll), "from": frame.at_y(a.r_tl), "to": frame.at_y(a.correlations.bound)}


def _spread(items: Sequence[Any], most: int) -> list[Any]:
    """Return at most ``most`` of the items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    chosen: NDArray[np.int64] = np.unique(np.linspace(0, len(items) - 1, most).round().astype(np.int64))
    return [items[i] for i in chosen]


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers in the interval."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(s * unit for s in (1, 2, 5, 10) if s * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [v for e in decades for v in (10.0**e, 3 * 10.0**e) if low <= v <= high]


def _tick_text(value: float) -> str:
    return minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{round(value, 10):g}")
