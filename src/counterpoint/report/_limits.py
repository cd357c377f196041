"""What one page has room for, and what every kind of ensemble shares on it: advice, and what is left out."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from counterpoint.assessment.base import AssessmentBase
from counterpoint.report._words import shorten

__all__ = ["MOST_COMPARED", "MOST_DETAILED", "Limits", "advice", "best_of", "left_out", "share_room"]

MOST_COMPARED, MOST_DETAILED = 100, 10

# Limits for one page, all ensembles together.
_ALL_ROWS, _MOST_ROWS = 160, 40
_ALL_CELLS, _MOST_SIDE = 1700, 40
_ALL_DOTS, _MOST_DOTS = 360, 120
_MOST_ADVICE = 400  # characters of a sentence, which may contain names of learners

# severity: (the word, the sign beside it)
_SEVERITIES = {
    "warning": ("Warning", "\N{BLACK UP-POINTING TRIANGLE}"),
    "info": ("Note", "\N{BLACK CIRCLE}"),
    "good": ("Good", "\N{CHECK MARK}"),
}


class Limits(NamedTuple):
    """Limits for one ensemble: rows of learners, rows of the matrix, learners drawn as dots."""

    rows: int
    side: int
    dots: int


def share_room(room: float, n_ensembles: int) -> Limits:
    """Return the limits for each of some ensembles; ``room`` scales them."""
    share = room / n_ensembles
    return Limits(
        rows=max(6, min(_MOST_ROWS, int(_ALL_ROWS * share))),
        side=max(6, min(_MOST_SIDE, math.isqrt(int(_ALL_CELLS * share)) - 1)),
        dots=max(12, min(_MOST_DOTS, int(_ALL_DOTS * share))),
    )


def best_of(quality: Sequence[float], most: int) -> list[int]:
    """Return the positions of all ensembles, or of those of the highest quality, in their order."""
    ranked = np.argsort([-value for value in quality], kind="stable")
    return sorted(ranked[:most].tolist())


def left_out(given: int, visible: int, detailed: int, best: str) -> str:
    """Return which ensembles are not shown, or not in detail, in words; ``best`` says what the others have."""
    said = []
    if visible < given:
        said.append(f"These are the {visible} of {given:,} ensembles with {best}; the JSON holds all.")
    if detailed < visible:
        said.append(f"The {detailed} ensembles with {best} follow in detail.")
    return " ".join(said)


def advice(a: AssessmentBase) -> list[tuple[str, str, str, str]]:
    """Return the findings as (severity, its word, its sign, text)."""
    return [
        (finding.severity, *_SEVERITIES[finding.severity], shorten(finding.text, _MOST_ADVICE))
        for finding in a.findings
    ]
