"""Tables of all methods: over all data sets with ranks, or on a single one."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import rankdata

from counterpoint.arena.methods import BASELINE, METHODS, SEARCHES
from counterpoint.arena.summary import SCORES, STANDING, points
from counterpoint.records import Grid, number

__all__ = ["in_brackets", "overview", "rank_grids", "scored", "search_of", "shown"]

INTERVAL = "95 % interval"


def overview(summary: Mapping[str, Any]) -> Grid:
    """Return a table of the methods that have run on every data set, best first, with ranks, errors and scores.

    Parameters
    ----------
    summary : mapping
        From :func:`summarise`.

    Returns
    -------
    Grid
        On one data set, errors and log-losses with intervals over the folds; on several, means over them and mean
        ranks with intervals.

    Examples
    --------
    >>> import tempfile
    >>> from counterpoint.arena import arena, read_records, read_suite, summarise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = arena(read_suite(["iris"]), folder, methods=["extra-trees"], smoke=True)
    ...     grid = overview(summarise(read_records(folder)))
    >>> grid.title, grid.headings[:4]
    ('Means on iris', ['method', 'rank', 'error, %', '95 % interval'])
    """
    names, ranks = list(summary["errors"]), summary["ranks"]
    if len(names) == 1:
        return _on_one(summary, names[0])
    methods = [m for m in METHODS if all(m in summary["errors"][name] for name in names)]
    errors = {m: fmean(summary["errors"][name][m]["mean"] for name in names) for m in methods}
    rows = [
        [
            method,
            *([f"{ranks['mean_rank'][method]:.2f}", _rank_interval(ranks, method)] if ranks else []),
            f"{100 * errors[method]:.2f}",
            *_mean_scores(summary, method),
            f"{summary['total_seconds'][method]:.0f}",
        ]
        for method in sorted(methods, key=lambda m: (ranks["mean_rank"][m] if ranks else errors[m], m))
    ]
    first = ["method", *(["mean rank", INTERVAL] if ranks else []), "error, %"]
    return Grid(f"Means on {len(names)} data sets", [*first, *_score_names(summary), "seconds in all"], rows)


def rank_grids(summary: Mapping[str, Any]) -> dict[str, Grid]:
    """Return the tables over all data sets by name: ranks by error and by log-loss, and differences."""
    if not summary["ranks"]:
        return {}
    found = {"ranks": _ranks(summary)}
    if summary["log_loss_ranks"]:
        found["log_loss_ranks"] = _log_loss_ranks(summary["log_loss_ranks"])
    if summary["ranks"]["against"]:
        found["differences"] = _differences(summary)
    return found


def search_of(summary: Mapping[str, Any]) -> str | None:
    """Return the search that the others are tested against, if one has a rank."""
    return next((method for method in SEARCHES if method in summary["ranks"]["methods"]), None)


def scored(summary: Mapping[str, Any], key: str) -> list[str]:
    """Return the methods that have a score on every data set."""
    found = summary["scores"].values()
    return [m for m in METHODS if all(key in own.get(m, {}) for own in found)]


def in_brackets(low: float, high: float, form: str = ".2f") -> str:
    """Return an interval as text.

    Examples
    --------
    >>> in_brackets(1.234, 5.6)
    '[1.23, 5.60]'
    """
    return f"[{number(low, form)}, {number(high, form)}]"


def shown(value: float | None) -> str:
    """Return a number as text; nothing if there is none."""
    return "" if value is None else number(value)


def _on_one(summary: Mapping[str, Any], name: str) -> Grid:
    """Return the methods on a data set, with the intervals of error and log-loss."""
    errors, losses = summary["errors"][name], summary["log_losses"][name]
    ranks = dict(zip(errors, rankdata([round(errors[m]["mean"], 12) for m in errors]), strict=True))
    others = {key: words for key, words in SCORES.items() if key != "log_loss" and scored(summary, key)}
    rows = []
    for m in sorted(errors, key=lambda m: (ranks[m], m)):
        loss = losses.get(m)
        cells = [m, f"{ranks[m]:g}", f"{100 * errors[m]['mean']:.2f}"]
        cells.append(in_brackets(100 * errors[m]["low"], 100 * errors[m]["high"]))
        if losses:
            cells += (
                [number(loss["mean"]), in_brackets(loss["low"], loss["high"], ".3f")] if loss else ["", ""]
            )
        cells += [shown(summary["scores"][name].get(m, {}).get(key)) for key in others]
        rows.append([*cells, f"{summary['total_seconds'][m]:.0f}"])
    log_loss = [SCORES["log_loss"], INTERVAL] if losses else []
    headings = ["method", "rank", "error, %", INTERVAL, *log_loss, *others.values(), "seconds in all"]
    return Grid(f"Means on {name}", headings, rows)


def _ranks(summary: Mapping[str, Any]) -> Grid:
    ranks, search = summary["ranks"], search_of(summary)
    tables = ranks["tables"]
    rows = []
    for method in sorted(ranks["methods"], key=lambda method: (ranks["mean_rank"][method], method)):
        standing = [_mean([summary["standing"][name][method][key] for name in tables]) for key in STANDING]
        p = [] if search is None else ["" if method == search else f"{ranks['nemenyi'][search][method]:.2g}"]
        rows.append(
            [
                method,
                f"{ranks['mean_rank'][method]:.2f}",
                _rank_interval(ranks, method),
                f"{100 * ranks['mean'][method]:.2f}",
                *_mean_scores(summary, method),
                *p,
                *map(shown, standing),
                f"{fmean(summary['seconds'][name][method] for name in tables):.1f}",
                f"{summary['total_seconds'][method]:.0f}",
            ]
        )
    against = [] if search is None else [f"p against {search}"]
    headings = ["method", "mean rank", INTERVAL, "mean error, %", *_score_names(summary), *against]
    headings += [*STANDING.values(), "seconds a fold", "seconds in all"]
    return Grid(_title("Mean ranks", ranks), headings, rows)


def _log_loss_ranks(ranks: Mapping[str, Any]) -> Grid:
    rows = [
        [
            m,
            f"{ranks['mean_rank'][m]:.2f}",
            _rank_interval(ranks, m),
            number(ranks["mean"][m]),
        ]
        for m in sorted(ranks["methods"], key=lambda m: (ranks["mean_rank"][m], m))
    ]
    headings = ["method", "mean rank", INTERVAL, "mean log-loss"]
    return Grid(_title("Mean ranks by log-loss", ranks), headings, rows)


def _differences(summary: Mapping[str, Any]) -> Grid:
    """Return the mean differences to independent training over the data sets, with intervals and tests."""
    errors, losses = summary["ranks"]["against"], (summary["log_loss_ranks"] or {}).get("against", {})
    rows = []
    for m in sorted(errors, key=lambda m: (errors[m]["difference"], m)):
        one, other = errors[m], losses.get(m)
        cells = [points(one["difference"]), in_brackets(100 * one["low"], 100 * one["high"], "+.2f")]
        cells.append(f"{one['p_corrected']:.2g}")
        if losses:
            cells += ["", "", ""] if other is None else [
                number(other["difference"], "+.3f"),
                in_brackets(other["low"], other["high"], "+.3f"),
                f"{other['p_corrected']:.2g}",
            ]  # fmt: skip
        rows.append([m, *cells])
    headings = ["method", "error, points", INTERVAL, "p", *(["log-loss", INTERVAL, "p"] if losses else [])]
    title = (
        f"Differences to {BASELINE}, means over {len(summary['ranks']['tables'])} data sets (intervals by Student's t "
        "over the data sets; p of Wilcoxon's signed-rank test, Holm's correction over all rows and columns)"
    )
    return Grid(title, headings, rows)


def _title(words: str, ranks: Mapping[str, Any]) -> str:
    return (
        f"{words} of {len(ranks['methods'])} methods over {len(ranks['tables'])} data sets (Friedman: "
        f"p = {ranks['friedman']['p_value']:.2g}; critical difference {ranks['critical_difference']:.2f})"
    )


def _rank_interval(ranks: Mapping[str, Any], method: str) -> str:
    low, high = ranks["rank_interval"][method]
    return in_brackets(low, high, ".1f")


def _score_names(summary: Mapping[str, Any]) -> list[str]:
    return [words for key, words in SCORES.items() if scored(summary, key)]


def _mean_scores(summary: Mapping[str, Any], method: str) -> list[str]:
    """Return a method's means over the data sets of the scores that are shown; nothing where it lacks one."""
    cells = []
    for key in SCORES:
        if methods := scored(summary, key):
            own = summary["scores"].values()
            cells.append(shown(fmean(one[method][key] for one in own)) if method in methods else "")
    return cells


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None
