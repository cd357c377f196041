"""The content of the page on panels without a truth, of labels or of scores, as one dict for the templates."""

import math
from collections.abc import Sequence
from typing import Any

from counterpoint import __version__
from counterpoint.assessment import AgreementAssessment, Estimate, ScoreAssessment
from counterpoint.report._limits import MOST_COMPARED, MOST_DETAILED, Limits, advice, left_out, share_room
from counterpoint.report._matrix import learner_matrix_figure, pairs
from counterpoint.report._words import interval, minus, number, percent

__all__ = ["panel_content"]

Panel = AgreementAssessment | ScoreAssessment
Sentence = list[tuple[str, bool]]

_CHANCE = "1 is perfect, 0 is chance"


def panel_content(
    assessments: Sequence[Panel], title: str | None, date: str | None, room: float = 1.0
) -> dict[str, Any]:
    """Return the data of the templates; ``room`` scales the limits."""
    visible = assessments[: int(MOST_COMPARED * room)]
    detailed = visible[:MOST_DETAILED]
    limits = share_room(room, len(detailed))
    several = len(assessments) > 1
    return {
        "title": title or (f"{len(assessments)} panels" if several else assessments[0].name),
        "version": __version__,
        "date": date,
        "ensembles": [_panel(a, i, limits) for i, a in enumerate(detailed)],
        "comparison": _comparison(visible, len(assessments), len(detailed)) if several else None,
        "facts": [(a.name, _facts(a)) for a in visible],
        "what_if": None,
    }


def _panel(a: Panel, index: int, limits: Limits) -> dict[str, Any]:
    labels = isinstance(a, AgreementAssessment)
    matrix = a.agreement.kappas if isinstance(a, AgreementAssessment) else a.correlations
    what = "Cohen's kappa of two learners" if labels else "The correlation of the scores of two learners"
    says = f"{what}: 1 if they agree fully, 0 if no more than by chance. Similar learners stand side by side; columns "
    header, *rows = a.learner_rows(limits.rows)
    told = _labels_lead(a) if isinstance(a, AgreementAssessment) else _scores_lead(a)
    return {
        "id": f"e{index + 1}",
        "name": a.name,
        "lead": [
            [(text.replace(" %", "\N{NO-BREAK SPACE}%"), strong) for text, strong in one] for one in told
        ],
        "tiles": _labels_tiles(a) if isinstance(a, AgreementAssessment) else _scores_tiles(a),
        "advice": advice(a),
        "columns": [heading.strip().capitalize() for heading in header],
        "rows": [(row[0], [minus(cell) for cell in row[1:]]) for row in rows],
        "matrix": learner_matrix_figure(
            matrix, a.learners, limits.side, what, f"{says}are in the order of the rows"
        ),
        "pairs": pairs(matrix, a.learners),
        "pairs_heading": "Kappa" if labels else "Correlation",
        "numbers": a.summary(),
        "n_learners": a.n_learners,
    }


def _labels_lead(a: AgreementAssessment) -> list[Sentence]:
    """Return how far the learners agree on labels, and what that does not say."""
    found, alpha = a.agreement.observed, a.agreement.krippendorff_alpha
    if math.isnan(found.value):
        return [[(a.verdict, False)]]
    told: Sentence = [
        (f"Two of the {a.n_learners:,} learners agree on ", False),
        (percent(found.value), True),
        (f" of the {a.n_samples:,} samples (95 % confidence: {interval(found)})", False),
    ]
    if not math.isnan(alpha.value):
        told += [("; beyond chance, Krippendorff's alpha is ", False), (number(alpha.value, 2), True)]
        told.append((f" ({_CHANCE})", False))
    known = f"The truth is known of {a.n_labelled:,} samples" if a.n_labelled else ""
    second: Sentence = [(known or "Without a truth nobody can tell how often they are right", False)]
    right, c = a.bounds.consensus, a.bounds.correlation
    if math.isfinite(right.low):
        second += [(". Their consensus is right on between ", False), (_ends_percent(right), True)]
        second.append((f", if their errors are correlated by {c.low:.2g} to {c.high:.2g}", False))
    return [[*told, (".", False)], [*second, (".", False)]]


def _scores_lead(a: ScoreAssessment) -> list[Sentence]:
    """Return how far the learners agree on scores, and what that does not say."""
    alpha, mean = a.alpha_interval, a.intraclass_average
    if math.isnan(alpha.value):
        return [[(a.verdict, False)]]
    told: list[Sentence] = [
        [
            (
                f"{a.n_learners:,} learners scored {a.n_samples:,} samples and agree with a Krippendorff's alpha of ",
                False,
            ),
            (number(alpha.value, 2), True),
            (f" (95 % confidence: {_ends(alpha, 2)}; {_CHANCE}).", False),
        ]
    ]
    if not math.isnan(mean.value):
        told[0] += [
            (" The reliability of their mean is ", False),
            (number(mean.value, 2), True),
            (".", False),
        ]
    return [*told, [("Without a truth nobody can tell how good the scores are.", False)]]


def _labels_tiles(a: AgreementAssessment) -> list[tuple[str, str, str]]:
    """Return the four key numbers as (label, value, note)."""
    found, alpha = a.agreement.observed, a.agreement.krippendorff_alpha
    right, c = a.bounds.consensus, a.bounds.correlation
    between = _ends_percent(right, " to ") if math.isfinite(right.low) else percent(math.nan)
    if_shared = f"if errors are correlated by {c.low:.2g} to {c.high:.2g}" if math.isfinite(c.low) else ""
    return [
        ("Agreement of two learners", percent(found.value), f"95 % interval {interval(found)}"),
        ("Krippendorff's alpha", number(alpha.value, 2), f"{_CHANCE}; 95 % interval {_ends(alpha, 2)}"),
        (
            "All who voted agree",
            percent(a.agreement.unanimous),
            f"on {a.agreement.n_several:,} samples with two votes",
        ),
        ("Consensus right", between, if_shared),
    ]


def _scores_tiles(a: ScoreAssessment) -> list[tuple[str, str, str]]:
    """Return the four key numbers as (label, value, note)."""
    alpha, mean, effective = a.alpha_interval, a.intraclass_average, a.effective
    return [
        ("Krippendorff's alpha", number(alpha.value, 2), f"{_CHANCE}; 95 % interval {_ends(alpha, 2)}"),
        (
            "Correlation of two learners",
            number(a.correlation.value, 2),
            f"95 % interval {_ends(a.correlation, 2)}",
        ),
        ("Reliability of the mean", number(mean.value, 2), f"ICC(2,k), 95 % interval {_ends(mean, 2)}"),
        (
            f"Effective raters of {a.n_learners:,}",
            number(effective.value, 1),
            f"at least, by the correlation; 95 % interval {_ends(effective, 1)}",
        ),
    ]


def _ends(estimate: Estimate, digits: int) -> str:
    low, high = number(estimate.low, digits), number(estimate.high, digits)
    return f"{low} to {high}" if math.isfinite(estimate.low) else low


def _ends_percent(estimate: Estimate, to: str = " and ") -> str:
    return f"{number(100 * estimate.low, 0)}{to}{number(100 * estimate.high, 0)} %"


def _facts(a: Panel) -> list[tuple[str, str]]:
    labels = isinstance(a, AgreementAssessment)
    return [
        ("Learners", f"{a.n_learners:,}"),
        ("Samples", f"{a.n_samples:,}"),
        (
            "Truth",
            f"of {a.n_labelled:,} samples" if isinstance(a, AgreementAssessment) and a.n_labelled else "none",
        ),
        ("Outputs", "labels" if labels else "scores"),
    ]


def _comparison(assessments: Sequence[Panel], n_given: int, n_detailed: int) -> dict[str, Any]:
    return {
        "verdict": "",
        "rows": [
            {"name": a.name, "id": f"e{i + 1}" if i < n_detailed else None, "says": a.verdict}
            for i, a in enumerate(assessments)
        ],
        "left_out": left_out(n_given, len(assessments), n_detailed, "the first places"),
    }
