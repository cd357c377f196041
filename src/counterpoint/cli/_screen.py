"""What the commands print on the terminal."""

import math
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoint.assessment import Assessment, VoteComparison
from counterpoint.assessment.base import AssessmentBase
from counterpoint.cli._printing import as_text, console
from counterpoint.selection import Selection, points, reverse

_STYLES = {"good": "green", "info": "cyan", "warning": "yellow"}

# Headings short enough for a terminal of 80 columns, and the least width of a name beside them.
_HEADERS = ("size", "vote (95 % interval)", "mean\nlearner", "r_TL", "r_LL", "opti-\nmality", "error\ncorr.")
_NAME_WIDTH = 8
_SCORES = ("log-loss", "Brier score", "calibration error")

# Rows of a selection on the screen, JSON has all of them; and its columns of words.
_ROWS = 20
_LEFT = ("learner", "", "panel", "change, points (95 %)")


def rounded(value: float) -> str:
    """Return a number with three decimals, or "undefined" for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.3f}"


def show_assessment(assessment: AssessmentBase) -> None:
    """Print the verdict, the main numbers and the advice."""
    screen = console()
    screen.print(as_text(assessment.name, style="bold underline"))
    screen.print(as_text(assessment.verdict))
    screen.print()
    numbers = Table.grid(padding=(0, 2))
    numbers.add_column(style="dim")
    numbers.add_column()
    for label, value in assessment.summary():
        numbers.add_row(as_text(label), as_text(value))
    screen.print(numbers)
    screen.print()
    if table := assessment.learner_rows():
        header, *rows = table
        learners = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        learners.add_column(header[0], overflow="fold")
        for title in header[1:]:
            learners.add_column(title.strip(), no_wrap=True)
        for name, *cells in rows:
            learners.add_row(as_text(name), *cells)
        screen.print(learners)
        screen.print()
    advice = Table.grid(padding=(0, 2))
    for finding in assessment.findings:
        advice.add_row(
            as_text(finding.severity, style=f"bold {_STYLES[finding.severity]}"), as_text(finding.text)
        )
    screen.print(advice)


def show_comparison(assessments: Sequence[Assessment], comparison: VoteComparison | None) -> None:
    """Print the ensembles in a table, or one below the other if the terminal is narrow; the best vote in bold.

    Below stands what a paired test says of every two, if they were judged on the same samples.
    """
    screen = console()
    rows = [_compared(assessment) for assessment in assessments]
    best = max(assessment.vote.value for assessment in assessments)
    styles = ["bold" if assessment.vote.value == best else "" for assessment in assessments]
    if _table_width(rows) <= screen.width:
        table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
        table.add_column("ensemble", overflow="fold", min_width=_NAME_WIDTH)
        for header in _HEADERS:
            table.add_column(header, justify="right", no_wrap=True)
        for assessment, row, style in zip(assessments, rows, styles, strict=True):
            table.add_row(as_text(assessment.name), *row, style=style)
        screen.print(table)
        screen.print()
        _print_scores(screen, assessments)
    else:
        for assessment, row, style in zip(assessments, rows, styles, strict=True):
            screen.print(as_text(assessment.name, style=f"{style} underline"))
            for header, value in (*zip(_HEADERS, row, strict=True), *_scores(assessment)):
                whole = header.replace("-\n", "").replace("\n", " ")
                screen.print(as_text(f"{whole}: {value}", style=style))
            screen.print()
    _print_pairs(screen, comparison)
    screen.print(
        as_text(
            "size: number of learners; r_TL: correlation of a learner with the truth; r_LL: of two learners; "
            "optimality: r_TL over the most it can be at this r_LL; error corr.: correlation of being correct.",
            style="dim",
        )
    )


def _print_pairs(screen: Console, comparison: VoteComparison | None) -> None:
    """Print a sentence for every two ensembles, those that can be told apart in bold."""
    if comparison is None:
        return
    for pair in comparison.pairs[:_ROWS]:
        screen.print(as_text(str(pair), style="bold" if pair.apart else ""))
    if len(comparison.pairs) > _ROWS:
        screen.print(
            as_text(f"... and {len(comparison.pairs) - _ROWS} more; --json has all of them", style="dim")
        )
    if len(comparison.pairs) > 1:
        correction = f"corrected by Holm's method for {len(comparison.pairs)} tests"
        screen.print(as_text(f"p: paired test, {correction}.", style="dim"))
    if comparison.note:
        screen.print(as_text(comparison.note))
    screen.print()


def _print_scores(screen: Console, assessments: Sequence[Assessment]) -> None:
    """Print the scores of the votes' probabilities, for ensembles that have probabilities."""
    scored = [(a, scores) for a in assessments if (scores := _scores(a))]
    if scored:
        table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
        table.add_column("ensemble", overflow="fold", min_width=_NAME_WIDTH)
        table.add_column("vote")
        for header in _SCORES:
            table.add_column(header, justify="right", no_wrap=True)
        for a, scores in scored:
            table.add_row(as_text(a.name), a.voting, *(value for _, value in scores))
        screen.print(table)
        screen.print()


def _scores(a: Assessment) -> list[tuple[str, str]]:
    """Return the scores of the vote's probabilities with their names; none if it has no probabilities."""
    found = a.probabilities
    if not len(found.reliability.count):
        return []
    scores = (found.log_loss, found.brier_score, found.calibration_error)
    return list(zip(_SCORES, map(rounded, scores), strict=True))


def _compared(a: Assessment) -> list[str]:
    numbers = (float(a.accuracies.mean()), a.r_tl, a.r_ll, a.optimality, a.correlations.error_correlation)
    return [str(a.n_learners), str(a.vote), *map(rounded, numbers)]


def _table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the width of the table beside a short name, in characters."""
    columns = zip(_HEADERS, *rows, strict=True)
    return _NAME_WIDTH + sum(max(map(len, "\n".join(column).split("\n"))) + 2 for column in columns)


def show_selection(selection: Selection) -> None:
    """Print who stays, what each learner brings, and the panels that were compared."""
    screen = console()
    first, second = selection.summary()
    screen.print(as_text(first, style="bold"))
    screen.print(as_text(second))
    screen.print()
    _print_learners(screen, selection)
    screen.print()
    _print_panels(screen, selection)


def _print_learners(screen: Console, selection: Selection) -> None:
    """Print the chosen learners, then the others by what they would bring."""
    chosen = dict(zip(selection.indices.tolist(), selection.weights.tolist(), strict=True))
    others = [i for i in range(selection.n_learners) if i not in chosen]
    others.sort(key=lambda i: -np.nan_to_num(selection.effects[i].value, nan=-1.0))
    with_costs = not (selection.costs == 1).all()
    rows = []
    for i in (*chosen, *others):
        effect = selection.effects[i]
        change = f"without it {points(reverse(effect))}" if i in chosen else f"with it {points(effect)}"
        support = selection.support[i]
        rows.append(
            [
                as_text(selection.learners[i]),
                "keep" if i in chosen else "leave out",
                f"{chosen[i]:.3f}" if i in chosen else "",
                "" if np.isnan(support) else f"{100 * support:.0f} %",
                *([f"{selection.costs[i]:g}"] if with_costs else []),
                "the only one"
                if len(chosen) == 1 and i in chosen
                else ""
                if np.isnan(effect.value)
                else change,
            ]
        )
    costs = ["cost"] if with_costs else []
    _print_rows(screen, ["learner", "", "weight", "chosen", *costs, "change, points (95 %)"], rows)


def _print_panels(screen: Console, selection: Selection) -> None:
    """Print the frontier and the chosen panel, cheapest first."""
    mine = set(selection.indices.tolist())
    shown = {id(panel): panel for panel in selection.frontier}
    shown |= {id(panel): panel for panel in selection.panels if set(panel.indices.tolist()) == mine}
    panels = sorted(shown.values(), key=lambda panel: panel.cost)
    if not len(panels) or np.isnan(panels[0].accuracy.value):
        return
    with_costs = not (selection.costs == 1).all()
    rows = []
    for panel in panels:
        names = ", ".join(selection.learners[i] for i in panel.indices.tolist())
        here = "bold" if set(panel.indices.tolist()) == mine else ""
        each = "" if np.isnan(panel.cost_per_vote) else f"{panel.cost_per_vote:.3g}"
        cost = [as_text(text, style=here) for text in (f"{panel.cost:g}", each)] if with_costs else []
        cells = (str(len(panel.indices)), f"{100 * panel.accuracy.value:.1f} %", points(panel.behind), names)
        rows.append([*cost, *(as_text(cell, style=here) for cell in cells)])
    costs = ["cost", "per vote"] if with_costs else []
    _print_rows(screen, [*costs, "size", "vote", "against the best", "panel"], rows)
    screen.print(
        as_text(
            "chosen: how often a learner is chosen if a fifth of the samples is left out. All accuracies are on "
            "samples that did not choose; the chosen panel is in bold."
            + (" Per vote: the cost of one effective vote." if with_costs else ""),
            style="dim",
        )
    )


def _print_rows(screen: Console, headers: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for header in headers:
        table.add_column(header, justify="left" if header in _LEFT else "right", overflow="fold")
    for row in rows[:_ROWS]:
        table.add_row(*row)
    screen.print(table)
    if len(rows) > _ROWS:
        screen.print(as_text(f"... and {len(rows) - _ROWS} more; --json has all of them", style="dim"))
