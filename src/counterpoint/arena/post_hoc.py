"""A look back at the paper's loss: one search over all diversities and all weight decays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.arena.methods import BASELINE, CORRELATIONS, correlation
from counterpoint.arena.statistics import mean_ranks
from counterpoint.arena.summary import Repeats, collect_folds, summarise, values
from counterpoint.records import Grid, lines

__all__ = ["describe_search", "post_hoc_search"]

SEARCH = "correlation-cv"
AMONG = (BASELINE, *map(correlation, CORRELATIONS))
AGAINST = (SEARCH, "decorate-net", BASELINE)
TOLD = "segment"  # the table whose error is told too: it stands in the paper


def post_hoc_search(records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return how a search over all diversities and weight decays would have done.

    Parameters
    ----------
    records : sequence of dict
        The cells of a store.

    Returns
    -------
    dict or None
        ``errors`` and those of the search, ``search_errors``, by table; ``mean_rank`` in the place of the search, and
        that of the search, ``search_rank``; and ``against`` other methods the numbers of tables with a lower, a higher
        and an equal error. None where there are no ranks, or a method that is needed has no part in them or has other
        repeats than the rest.

    Notes
    -----
    In each outer fold it takes, of independent training and the fixed diversities, the one whose best weight decay has
    the best accuracy on the inner folds, the first of equals; its error on the rows held out is in its own cell.
    """
    summary = summarise(records)
    ranks = summary["ranks"]
    if ranks is None or not {*AMONG, *AGAINST} <= set(ranks["methods"]) or summary["uneven"]:
        return None
    results, _, _ = collect_folds(records)
    of = {m: np.array([summary["errors"][t][m]["mean"] for t in ranks["tables"]]) for m in ranks["methods"]}
    errors = np.array([_error(results[table]) for table in ranks["tables"]])
    replaced = np.column_stack([errors if method == SEARCH else of[method] for method in of])
    return {
        "errors": dict(zip(ranks["tables"], errors.tolist(), strict=True)),
        "search_errors": dict(zip(ranks["tables"], of[SEARCH].tolist(), strict=True)),
        "mean_rank": float(mean_ranks(replaced)[list(of).index(SEARCH)]),
        "search_rank": ranks["mean_rank"][SEARCH],
        "against": {method: _compared(errors, of[method]) for method in AGAINST},
    }


def describe_search(found: Mapping[str, Any]) -> str:
    """Return the numbers in Markdown: errors and rank in a sentence, on how many tables it does better in a table."""
    ours, theirs = found["errors"], found["search_errors"]
    average, before = (100 * float(np.mean(list(errors.values()))) for errors in (ours, theirs))
    parts = [f"It errs {average:.2f} % on average ({SEARCH} {before:.2f} %)"]
    if TOLD in ours:
        parts.append(f"{100 * ours[TOLD]:.2f} % on {TOLD} ({100 * theirs[TOLD]:.2f} %)")
    parts.append(
        f"and in the place of {SEARCH} it would have a mean rank of {found['mean_rank']:.2f} "
        f"({found['search_rank']:.2f})"
    )
    rows = [[method, *map(str, counts.values())] for method, counts in found["against"].items()]
    grid = Grid("", ["against", "tables with a lower error", "a higher one", "the same"], rows)
    return f"{', '.join(parts)}.\n\n{lines(grid)}"


def _error(found: Mapping[str, Repeats]) -> float:
    """Return the mean error on a table of what the inner folds would have chosen."""
    errors = []
    for repeat in found[BASELINE]:
        folds = [found[method][repeat] for method in AMONG]
        inner = np.array([[max(fold["inner_accuracies"]) for fold in own] for own in folds])
        held_out = np.array([values(own, "error") for own in folds])  # (methods, folds)
        errors.append(held_out[inner.argmax(axis=0), np.arange(inner.shape[1])])
    return float(np.mean(errors))


def _compared(errors: FloatArray, others: FloatArray) -> dict[str, int]:
    differences = (errors - others).round(12)
    return {
        "lower": int((differences < 0).sum()),
        "higher": int((differences > 0).sum()),
        "same": int((differences == 0).sum()),
    }
