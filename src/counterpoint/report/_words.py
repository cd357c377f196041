"""Numbers and names as a reader sees them, and each measure explained in one sentence."""

import math
from bisect import bisect_right
from html import escape
from itertools import accumulate
from types import MappingProxyType

from counterpoint.assessment import Estimate

__all__ = [
    "EXPLANATIONS",
    "amount",
    "amounts",
    "interval",
    "measure_name",
    "minus",
    "number",
    "percent",
    "points",
    "shorten",
]

UNDEFINED = "undefined"

_LONG = 1e10  # larger numbers are written as powers of ten

EXPLANATIONS = MappingProxyType(
    {
        "ambiguity_decomposition": "Spread of the outputs around their mean; the squared error of the mean is the "
        "average error of the learners less this.",
        "coincident_failure_diversity": "Among samples that some learner gets wrong: how far failures are limited to "
        "single learners. 1 if only one fails at a time.",
        "correctness_fleiss_kappa": "Agreement of all learners on which samples they get right, beyond chance.",
        "correctness_kappa": "Agreement of two learners on which samples they get right, beyond chance. High if they "
        "err together.",
        "correlation_rho": "Correlation of being right, averaged over pairs: the error correlation. 0 if errors are "
        "independent.",
        "difficulty": "Variance over the samples of the share of learners that are right. High if some samples are "
        "hard for all learners.",
        "disagreement": "How often exactly one of two learners is right.",
        "double_fault": "How often two learners are wrong together. Low also if the learners are simply accurate.",
        "entropy": "How evenly each sample divides the learners into right and wrong. 1 if always half and half.",
        "generalized_diversity": "How rarely a second learner fails where a first one does. 1 if never.",
        "kohavi_wolpert_variance": "Variance of being right over the learners, averaged over the samples.",
        "label_kappa": "Agreement of two learners on the labels they give, right or wrong, beyond chance. Accurate "
        "learners agree because they are right.",
        "learner_learner_correlation": "Correlation of the outputs themselves, averaged over pairs: the r_LL of the "
        "plane.",
        "q_statistic": "Association of being right by odds: 0 if independent, 1 if errors are shared, below 0 if "
        "opposed.",
        "ratio_errors": "Errors of only one of two learners per error that both have in common.",
    }
)

_NAMES = {
    "ambiguity_decomposition": "ambiguity",
    "correctness_fleiss_kappa": "Fleiss' kappa of being right",
    "correctness_kappa": "Cohen's kappa of being right",
    "kohavi_wolpert_variance": "Kohavi-Wolpert variance",
    "label_kappa": "Cohen's kappa of the labels",
    "learner_learner_correlation": "learner-learner correlation",
    "q_statistic": "Q statistic",
    "ratio_errors": "ratio of errors",
}


def measure_name(key: str) -> str:
    """Return the name of a measure in words."""
    return _NAMES.get(key, key.replace("_", " "))


def minus(text: str) -> str:
    """Return the text of a number with the minus sign of typography."""
    return text.replace("-", "\N{MINUS SIGN}")


def number(value: float, digits: int = 3) -> str:
    """Return a number, or "undefined"."""
    # z: no minus sign for values that round to zero
    return minus(f"{value:z.{digits}f}") if math.isfinite(value) else UNDEFINED


def percent(value: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return f"{number(100 * value, digits)} %" if math.isfinite(value) else UNDEFINED


def points(value: float) -> str:
    """Return a signed difference of shares in percentage points."""
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{100 * value:+.2f}"
    return minus(text) if float(text) else text[1:]


def amount(value: float, digits: int = 4) -> str:
    """Return a number of any size with some significant digits, or "undefined"."""
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:#.{digits}g}".rstrip(".")
    size = abs(float(text))
    if 1000 <= size < _LONG:
        return minus(f"{float(text):,.0f}")
    return minus(f"{value:.{digits}g}" if "e" in text or not size else text)


def amounts(estimate: Estimate, digits: int = 4) -> str:
    """Return the interval of a number of any size."""
    return f"{amount(estimate.low, digits)} to {amount(estimate.high, digits)}"


def interval(estimate: Estimate) -> str:
    """Return the interval of an estimate as percentages."""
    if not math.isfinite(estimate.low):
        return UNDEFINED
    return f"{number(100 * estimate.low, 1)} to {number(100 * estimate.high, 1)} %"


def shorten(text: str, most: int) -> str:
    """Return the text, shortened in the middle if it is too wide: names often differ at their ends.

    The width of a character is half its bytes in the page, rounded up: Chinese characters count two, as on a screen,
    and short names keep the page small.
    """
    if len(escape(text).encode()) <= most or (len(text) <= most and sum(map(_width, text)) <= most):
        return text
    head = most // 2
    start = text[: _fitting(text[:head], head)]
    end = text[len(text) - _fitting(text[: head - most : -1], most - head - 1) :]
    return f"{start.rstrip()}\N{HORIZONTAL ELLIPSIS}{end.lstrip()}"


def _width(character: str) -> int:
    return (len(escape(character).encode()) + 1) // 2


def _fitting(characters: str, room: int) -> int:
    """Return how many of the first characters fit."""
    return bisect_right(list(accumulate(map(_width, characters))), room)
