"""The first lines of a page: what an ensemble is worth, in words for a reader who knows no correlations.

A sentence is a list of (text, strong): the strong parts are the numbers to remember.
"""

import math
from typing import Any

import numpy as np

from counterpoint.assessment import Assessment
from counterpoint.report._words import number, percent, shorten

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
    """Return the first sentences: how good the vote is, what it is worth, and what a change would bring."""
    told = [_vote(a), _against(a), *([_worth(a), _changes(a)] if _is_informative(a) else [])]
    # A number stays with its sign.
    return [
        [(text.replace(" %", "\N{NO-BREAK SPACE}%"), strong) for text, strong in one] for one in told if one
    ]


def _is_informative(a: Assessment) -> bool:
    """Return whether the vote is surely better than always answering the most frequent class."""
    return a.n_classes < 2 or a.vote.low > a.by_class.baseline


def _vote(a: Assessment) -> Sentence:
    learners = "1 learner" if a.n_learners == 1 else f"{a.n_learners:,} learners"
    samples = f"{a.coverage.n_voted:,} samples" + (
        " that they were trained on" if a.samples == "training" else ""
    )
    vote = "its answer" if a.n_learners == 1 else _VOTES[a.voting]
    told = [
        (f"{learners} voted on {samples}, and {vote} is right on ", False),
        (percent(a.vote.value), True),
        (f" of them (95 % confidence: {_range(a.vote.low, a.vote.high)}).", False),
    ]
    if not _is_informative(a):
        often = shorten(str(a.classes[int(np.argmax(a.by_class.shares))]), 40)
        base = percent(a.by_class.baseline)
        said = f" Always answering {often} would be right on {base}: the vote is not surely better."
        told.append((said, False))
    return told


def _against(a: Assessment) -> Sentence:
    if a.n_learners == 1:
        return []
    best = shorten(a.learners[a.best_learner], 60)
    how = {
        "better": "The vote is better than the best of them",
        "worse": "The vote is worse than the best of them",
        "alike": "The vote cannot be told apart from the best of them",
    }[a.against_best]
    mean, top = percent(float(a.accuracies.mean())), percent(float(a.accuracies[a.best_learner]))
    return [
        ("One learner alone is right on ", False),
        (mean, True),
        (f" on average. {how}, {best} ({top}).", False),
    ]


def _worth(a: Assessment) -> Sentence:
    """Return how many independent votes the learners are worth, and why."""
    if a.n_learners == 1:
        return []
    votes, n = a.effective.votes, a.n_learners
    if math.isnan(votes.value) and votes.low > 0:
        never = f"The vote is never wrong here: the {n:,} learners are worth at least "
        return [
            (never, False),
            (f"{number(votes.low, 1)} independent votes", True),
            (" (95 % confidence).", False),
        ]
    if math.isnan(votes.value):
        return [
            (f"How many independent votes the {n:,} learners are worth cannot be told: {_unknown(a)}.", False)
        ]
    told = [
        (f"The {n:,} learners are worth ", False),
        (f"{number(votes.value, 1)} independent votes", True),
        (f" (95 % confidence: {votes.count_range()})", False),
    ]
    if a.effective.error_correlation.low > 0 and votes.value < n:
        would = a.prediction.independent
        independent = "almost all" if 0.9995 <= would < 1 else percent(would)
        why = ": they are often wrong on the same samples. If each erred on its own, their majority would be right on "
        return [*told, (why, False), (independent, True), (".", False)]
    if a.n_classes == 2 and n % 2 == 0:
        return [*told, (": an even number of votes can tie, so that one of them adds nothing.", False)]
    return [*told, (": they hardly err together, so each of them counts.", False)]


def _unknown(a: Assessment) -> str:
    if math.isnan(a.correlations.error_correlation):
        return "it takes two learners that are sometimes right and sometimes wrong"
    return "it takes learners that are better than chance"


def _changes(a: Assessment) -> Sentence:
    """Return what adding a learner and leaving some out would bring."""
    found = {finding.code: finding for finding in a.findings}
    told: Sentence = []
    if more := found.get("more_learners"):
        single = more.numbers["added"] == 1
        one = "One more learner" if single else "Two more learners"
        who = "one that errs on its own" if single else "two that err on their own"
        like, other = (_gain(more.numbers[key]) for key in ("one_more", "independent"))
        told = [(f"{one} like these would add ", False), (like, True), (f"; {who}, ", False), (other, True)]
        told.append((".", False))
    if (drop := found.get("leave_out")) and drop.severity == "warning":
        gain, error = 100 * drop.numbers["gain"], 100 * drop.numbers["error"]
        first, *others = drop.numbers["learners"]
        who = f"{len(others) + 1} learners" if others else shorten(a.learners[first], 60)
        told += [
            (f" Leaving out {who} would add ", False),
            (f"{gain:.1f} ± {error:.1f} points", True),
            (".", False),
        ]
    elif a.n_learners > 2:
        told.append((" Leaving learners out brings no sure gain.", False))
    return told


def _gain(share: float) -> str:
    return f"about {100 * share:.1f} points" if share >= 0.0005 else "less than 0.1 points"


def _range(low: float, high: float) -> str:
    return f"{number(100 * low, 1)} to {number(100 * high, 1)} %"


def effective_figure(a: Assessment) -> dict[str, Any] | None:
    """Return the learners as circles, filled up to the number of independent votes that they are worth.

    Many learners are one bar. ``filled`` holds what is filled of each circle of radius 1, as SVG path data; ``value``,
    ``low`` and ``high`` are the ends of the votes and of their interval.
    """
    votes = a.effective.votes
    if math.isnan(votes.value) or not _is_informative(a):
        return None
    high = min(votes.high, _MOST_DOTS) if votes.value < _MOST_DOTS else votes.high
    most = max(a.n_learners, math.ceil(votes.value if math.isnan(high) else high))
    bar = most > _MOST_DOTS
    step = _WIDTH / most if bar else min(_STEP, _WIDTH / most)
    return {
        "bar": bar,
        "width": _WIDTH,
        "step": round(step, 2),
        "radius": round(min(_RADIUS, 0.42 * step), 2),
        "learners": a.n_learners,
        "filled": [] if bar else [_filled(votes.value - k) for k in range(math.ceil(votes.value))],
        "length": round(step * a.n_learners, 1),
        "value": round(step * votes.value, 1),
        "low": round(step * votes.low, 1),
        "high": round(step * (most if math.isnan(votes.high) else min(votes.high, most)), 1),
        "text": f"{a.n_learners:,} learners, worth {number(votes.value, 1)} independent votes",
        "interval": f"95 %: {votes.count_range()}",
        "bars": [
            (kind, round(_WIDTH * share, 1), f"right on {percent(share)}: {words}")
            for kind, share, words in (
                ("mean", float(a.accuracies.mean()), "one of them, on average"),
                ("vote", a.votes.hard.value, "their majority vote"),
                ("independent", a.prediction.independent, "the vote if each erred on its own"),
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
