"""The first lines of a page on a regression ensemble: how good its mean is, what averaging removes, and a picture.

Notation: A is the mean squared error of a learner, C the mean product of the errors of two of them. The squared error
of the mean of N learners is ``C + (A - C) / N``: they share C, and A - C is each one's own.
"""

import math
from typing import Any

from counterpoint.assessment import Estimate, RegressionAssessment
from counterpoint.report._words import amount, amounts, interval, number, percent, shorten

__all__ = ["error_figure", "regression_lead", "regression_tiles", "shared_error", "typical_error"]

Sentence = list[tuple[str, bool]]

_WIDTH = 480


def regression_lead(a: RegressionAssessment) -> list[Sentence]:
    """Return the first sentences: how good the mean is, what averaging removes, and what a change would bring."""
    more = [_against(a)] if a.n_learners > 1 else []
    more += [_removed(a), _changes(a)] if a.n_learners > 1 and _is_informative(a) else []
    # A number stays with its sign.
    return [
        [(text.replace(" %", "\N{NO-BREAK SPACE}%"), strong) for text, strong in one]
        for one in (_mean(a), *more)
        if one
    ]


def regression_tiles(a: RegressionAssessment) -> list[tuple[str, str, str]]:
    """Return the four key numbers as (label, value, note)."""
    own, error = a.learner_errors, a.squared_error
    return [
        (
            "Explained variance, R²",
            percent(a.r2.value),
            "needs a truth that varies"
            if math.isnan(a.r2.value)
            else f"100 %: perfect, 0 %: no better than a constant; 95 % interval {interval(a.r2)}",
        ),
        ("Squared error", amount(error.value), f"of the mean, 95 % interval {amounts(error)}"),
        (
            "One learner, on average",
            amount(float(own.mean())),
            f"squared error; best {amount(own.min())}, highest {amount(own.max())}",
        ),
        (
            "Error correlation",
            number(a.error_correlation, 2),
            "needs two learners whose errors vary"
            if math.isnan(a.error_correlation)
            else "0: each errs on its own, 1: all err alike",
        ),
    ]


def typical_error(a: RegressionAssessment) -> Estimate:
    """Return the root of the squared error, on the scale of the truth."""
    return Estimate(*(math.sqrt(end) for end in a.squared_error))


def _is_informative(a: RegressionAssessment) -> bool:
    """Return whether the mean is surely better than a constant, as far as the truth lets it be known."""
    return not a.r2.low <= 0


def _mean(a: RegressionAssessment) -> Sentence:
    learners = "1 learner" if a.n_learners == 1 else f"{a.n_learners:,} learners"
    who = "it" if a.n_learners == 1 else "their mean"
    samples = f"{a.n_samples:,} samples" + (" that they were trained on" if a.samples == "training" else "")
    typical = typical_error(a)
    told: Sentence = [
        (f"{learners} predicted {samples}, and {who} is off by ", False),
        (amount(typical.value, 3), True),
        (f" on a typical sample (root mean squared error; 95 % confidence: {amounts(typical, 3)}).", False),
    ]
    if math.isnan(a.r2.value):
        return told
    shares = "nothing" if a.r2.value <= 0 else percent(a.r2.value)
    told += [(" It explains ", False), (shares, True)]
    told.append((f" of the variance of the truth (R²; 95 % confidence: {interval(a.r2)}).", False))
    if not _is_informative(a):
        is_ = "is better" if a.r2.high < 0 else "may be as good"
        told.append((f" Always predicting the mean of the truth {is_}.", False))
    return told


def _against(a: RegressionAssessment) -> Sentence:
    best = int(a.learner_errors.argmin())
    how = "better than" if a.gain.low > 0 else "worse than" if a.gain.high < 0 else "not surely better than"
    if a.gain.low <= 0 <= a.gain.high and a.gain.value <= 0:
        how = "no better than"
    return [
        ("One learner alone has a squared error of ", False),
        (amount(a.errors.average_error), True),
        (" on average, their mean ", False),
        (amount(a.errors.ensemble_error), True),
        (f". The mean is {how} the best of them, {shorten(a.learners[best], 60)} ", False),
        (f"({amount(a.learner_errors[best])}).", False),
    ]


def _removed(a: RegressionAssessment) -> Sentence:
    """Return what averaging removes of a learner's error, and what stays."""
    _, average, ambiguity = a.errors
    if not average > 0:
        return []
    told: Sentence = [
        ("What a learner gets wrong on its own averages out: ", False),
        (percent(ambiguity / average, 0), True),
        (" of its squared error is gone. ", False),
    ]
    if shared_error(a) < 0:
        return [*told, ("Their errors oppose each other: more of them could not do so as much.", False)]
    return [
        *told,
        ("What they get wrong together stays, however many they are: ", False),
        (amount(a.ceiling), True),
        (", the noise of the truth included.", False),
    ]


def _changes(a: RegressionAssessment) -> Sentence:
    """Return what more learners and leaving one out would bring."""
    found = {finding.code: finding for finding in a.findings}
    error = a.squared_error.value
    told: Sentence = []
    if (more := found.get("more_learners")) and error > 0:
        gain, most = (percent(more.numbers[key] / error) for key in ("gain", "most"))
        noise = ", all within the noise" if more.numbers["most"] <= a.noise else ""
        told = [("Twice as many learners like these would lower the squared error by ", False), (gain, True)]
        told += [(", any number by at most ", False), (most, True), (f"{noise}. ", False)]
    if (hurts := found.get("learner_hurts")) and error > 0:
        who = shorten(a.learners[hurts.numbers["learners"][0]], 60)
        told += [(f"Leaving out {who} would lower it by ", False)]
        told += [(percent(hurts.numbers["gain"] / error), True), (".", False)]
    elif a.n_learners > 2:
        told.append(("Leaving out one of them brings no sure gain.", False))
    return told


def shared_error(a: RegressionAssessment) -> float:
    """Return C, below 0 if the errors oppose each other; NaN for one learner."""
    if a.n_learners == 1:
        return math.nan
    return a.errors.ensemble_error - a.errors.ambiguity / (a.n_learners - 1)


def error_figure(a: RegressionAssessment) -> dict[str, Any] | None:
    """Return squared errors as bars: of a learner, of the best, of the mean and of any number of learners like these.

    A bar is split into what the learners share and what is each one's own, where both are errors.
    """
    if a.n_learners == 1 or not a.learner_errors.max() > 0 or not _is_informative(a):
        return None
    average, best = a.errors.average_error, int(a.learner_errors.argmin())
    own = a.learner_errors[best]
    shared = shared_error(a)
    split = shared >= 0
    rows = [
        ("one of them, on average", average, split),
        (f"the best of them, {shorten(a.learners[best], 28)}", float(own), False),
        ("their mean", a.errors.ensemble_error, split),
        *([("any number of learners like these", a.ceiling, True)] if split else []),
    ]
    longest = max(length for _, length, _ in rows)
    return {
        "width": _WIDTH,
        "split": split,
        "text": f"Squared errors of {a.n_learners:,} learners",
        "bars": [
            {
                "text": f"{amount(length)}: {label}",
                "length": round(_WIDTH * length / longest, 1),
                "shared": round(_WIDTH * min(shared, length) / longest, 1) if is_split else None,
                "kind": "vote" if label == "their mean" else "mean",
            }
            for label, length, is_split in rows
        ],
    }
