"""The first lines of a page: what an ensemble is worth, in words for a reader who knows no correlations.

A sentence is a list of (text, strong): the strong parts are the numbers to remember.
"""

import math
from typing import Any

import numpy as np

from counterpoint.assessment import Assessment
from counterpoint.report._words import minus, number, percent, shorten

__all__ = ["effective_figure", "lead"]

Sentence = list[tuple[str, bool]]

_MOST_DOTS = 20
_WIDTH, _STEP, _RADIUS = 480, 60, 24
_VOTES = {
    "hard": "the majority vote",
    "soft": "the vote by mean probability",
    "geometric": "the vote by the geometric mean of the probabilities",
}


def lead(a: Assessment) -> list[Sentence]:
    """Return the first sentences: what to do, how good the vote is, what it is worth, and what others would add."""
    told = [_decision(a), _vote(a)]
    if _is_informative(a):
        told += [_worth(a), [] if a.decision.code == "use_best" else _changes(a)]
    # A number stays with its sign.
    return [
        [(text.replace(" %", "\N{NO-BREAK SPACE}%"), strong) for text, strong in one] for one in told if one
    ]


def _is_informative(a: Assessment) -> bool:
    """Return whether the vote is surely better than always answering the most frequent class."""
    return a.n_classes < 2 or a.vote.least > a.by_class.baseline


def _decision(a: Assessment) -> Sentence:
    """Return what to do; its first words are what to remember."""
    if a.n_learners == 1:
        return []
    first, mark, rest = a.decision.text.partition(": ")
    return [(first + ":", True), (f" {rest}", False)] if mark else [(first, True)]


def _vote(a: Assessment) -> Sentence:
    learners = "1 learner" if a.n_learners == 1 else f"{a.n_learners:,} learners"
    samples = f"{a.coverage.n_voted:,} samples" + (
        " that they were trained on" if a.samples == "training" else ""
    )
    vote = "its answer" if a.n_learners == 1 else _VOTES[a.voting]
    told = [
        (f"{learners} voted on {samples}, and {vote} is right on ", False),
        (percent(a.vote.value), True),
        (
            " of them"
            if math.isnan(a.vote.low)
            else f" of them (95 % confidence: {_range(a.vote.low, a.vote.high)})",
            False,
        ),
    ]
    if a.n_learners == 1:
        told.append((".", False))
    else:
        told += [
            ("; one learner is on average on ", False),
            (percent(float(a.accuracies.mean())), True),
            (".", False),
        ]
    if not _is_informative(a):
        often = shorten(str(a.classes[int(np.argmax(a.by_class.shares))]), 40)
        base = percent(a.by_class.baseline)
        said = f" Always answering {often} would be right on {base}: the vote is not surely better."
        told.append((said, False))
    return told


def _worth(a: Assessment) -> Sentence:
    """Return what the learners are worth, in learners as good as the best."""
    if a.n_learners == 1:
        return []
    found, n = a.effective, a.n_learners
    votes, own = found.votes, found.independence
    if math.isnan(votes.value):
        return [(f"What the {n:,} learners are worth is undefined: {shorten(found.undefined, 200)}.", False)]
    best = shorten(found.best, 60)
    what = f"times {best} alone" if votes.value < 1 else f"independent learners as good as {best}"
    told = [
        (f"The {n:,} learners are worth ", False),
        (f"{minus(votes.as_count().split()[0])} {what}", True),
        ("" if math.isnan(votes.low) else f" (95 % confidence: {votes.count_range()})", False),
    ]
    if votes.high < 1:
        told.append((f": the others take more from {best} than they add", False))
    elif votes.value > 1 and a.votes.against_best.says == "worse":
        told.append((", which the most frequent answer does not show", False))
    if not math.isnan(own.value):
        told.append((f". They err like {number(own.value, 1)} independent learners", False))
    return [*told, (".", False)]


def _changes(a: Assessment) -> Sentence:
    """Return what adding a learner and leaving some out would bring."""
    found = {finding.code: finding for finding in a.findings}
    told: Sentence = []
    if more := found.get("more_learners"):
        told = [(more.text, False)]
    if (drop := found.get("leave_out")) and drop.severity == "warning":
        gain, error = 100 * drop.numbers["gain"], 100 * drop.numbers["error"]
        first, *others = drop.numbers["learners"]
        who = f"{len(others) + 1} learners" if others else shorten(a.learners[first], 60)
        told += [
            (f" Leaving out {who} would add ", False),
            (f"{gain:.1f} ± {error:.1f} points", True),
            (".", False),
        ]
    elif a.n_learners > 2 and not math.isnan(a.changes.reweighting.value):
        told.append((" Leaving learners out brings no sure gain.", False))
    return told


def _range(low: float, high: float) -> str:
    return f"{number(100 * low, 1)} to {number(100 * high, 1)} %"


def effective_figure(a: Assessment) -> dict[str, Any] | None:
    """Return the learners as circles, filled up to the number of learners as good as the best that they are worth.

    Many learners are one bar. ``filled`` holds what is filled of each circle of radius 1, as SVG path data; ``value``,
    ``low`` and ``high`` are the ends of the votes and of their interval.
    """
    votes = a.effective.votes
    if math.isnan(votes.value) or not _is_informative(a):
        return None
    value, ends = max(votes.value, 0.0), (votes.value if math.isnan(one) else one for one in votes[1:])
    low, high = (max(one, 0.0) for one in ends)
    most = max(a.n_learners, math.ceil(value))
    bar = most > _MOST_DOTS
    step = _WIDTH / most if bar else min(_STEP, _WIDTH / most)
    best = float(a.accuracies[a.best_learner])
    return {
        "bar": bar,
        "width": _WIDTH,
        "step": round(step, 2),
        "radius": round(min(_RADIUS, 0.42 * step), 2),
        "learners": a.n_learners,
        "filled": [] if bar else [_filled(value - k) for k in range(math.ceil(value))],
        "length": round(step * a.n_learners, 1),
        "value": round(step * value, 1),
        "low": round(step * min(low, most), 1),
        "high": round(step * min(high, most), 1),
        "text": f"{a.n_learners:,} learners, worth {minus(votes.as_count().split()[0])} of their best",
        "interval": "no interval" if math.isnan(votes.low) else f"95 %: {votes.count_range()}",
        "bars": [
            (kind, round(_WIDTH * share, 1), f"right on {percent(share)}: {words}")
            for kind, share, words in (
                ("best", best, f"the best alone, {shorten(a.learners[a.best_learner], 30)}"),
                ("vote", a.vote.value, "their vote"),
                ("mean", float(a.accuracies.mean()), "one of them, on average"),
            )
        ],
    }


def _filled(share: float) -> str:
    """Return the part of a circle of radius 1 left of a vertical line, as SVG path data."""
    if share >= 1:
        return "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1 -1 0Z"
    x = 2 * share - 1
    y = math.sqrt(1 - x**2)
    return f"M{x:.3f} {-y:.3f}A1 1 0 {int(share > 0.5)} 0 {x:.3f} {y:.3f}Z"
