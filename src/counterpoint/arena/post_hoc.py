"""A search over all diversities and weight decays of the paper's loss, computed from finished jobs."""

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
QUOTED = "segment"  # the table of the paper, whose error is quoted too


def post_hoc_search(records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the results that a search over all diversities and weight decays would have had.

    Parameters
    ----------
    records : sequence of dict
        From ``read_records``.

    Returns
    -------
    dict or None
        ``errors`` by table, and ``search_errors``, those of ``correlation-cv``; ``mean_rank`` in place of
        ``correlation-cv``, and its own, ``search_rank``; and ``against`` other methods the numbers of tables with a
        lower, a higher and an equal error. None if there are no ranks, or a method that is needed has no rank or has
        run other repeats.

    Notes
    -----
    In each outer fold it chooses among independent training and the fixed diversities the one whose best weight decay
    has the best accuracy on the inner folds, the first of equals. Its error on the test rows is in the record of that
    method.
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
    """Return the results in Markdown: a sentence with errors and rank, and a table of wins and losses."""
    ours, theirs = found["errors"], found["search_errors"]
    average, before = (100 * float(np.mean(list(errors.values()))) for errors in (ours, theirs))
    parts = [f"It errs {average:.2f} % on average ({SEARCH} {before:.2f} %)"]
    if QUOTED in ours:
        parts.append(f"{100 * ours[QUOTED]:.2f} % on {QUOTED} ({100 * theirs[QUOTED]:.2f} %)")
    parts.append(
        f"and in the place of {SEARCH} it would have a mean rank of {found['mean_rank']:.2f} "
        f"({found['search_rank']:.2f})"
    )
    rows = [[method, *map(str, counts.values())] for method, counts in found["against"].items()]
    grid = Grid("", ["against", "tables with a lower error", "a higher one", "the same"], rows)
    return f"{', '.join(parts)}.\n\n{lines(grid)}"


def _error(found: Mapping[str, Repeats]) -> float:
    """Return the mean error on a table of the methods that the inner folds would have chosen."""
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
