"""What the cells of a store say together."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.estimators._paired import corrected_paired_test
from counterpoint.experiments.arena.methods import BASELINE, FIXED, METHODS, SEARCH
from counterpoint.experiments.arena.statistics import (
    critical_difference,
    friedman,
    holm,
    mean_ranks,
    nemenyi_p_values,
)

__all__ = ["LEVEL", "PAID", "summarise"]

LEVEL = 0.05  # of every test
STANDING = ("member_accuracy", "r_tl", "r_ll", "optimality")
PAID = {1: "Explicit diversity paid", 0: "No difference can be told", -1: "Explicit diversity cost"}

Folds = list[dict[str, Any]]
Results = dict[str, dict[str, Folds]]  # by table and method, in the order of repeats and folds


def summarise(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tables and tests of some cells, as plain numbers.

    Parameters
    ----------
    records : iterable of dict
        The cells, of one setting.

    Returns
    -------
    dict
        ``errors``, ``standing``, ``seconds`` and the tests ``against`` the baseline by table and method, ``paid`` by
        table, and ``ranks`` over the tables for the methods that have run on all of them.

    Raises
    ------
    ValueError
        If there are no cells.
    """
    results, settings, data = _gathered(records)
    if not results:
        raise ValueError("`out` must hold at least one finished cell; got none.")
    share = 1 / (settings["n_folds"] - 1)
    against = {name: _against(found, share) for name, found in results.items()}
    return {
        "settings": settings,
        "data": data,
        "errors": {
            name: {m: _spread(f, "error") for m, f in found.items()} for name, found in results.items()
        },
        "standing": {name: {m: _standing(f) for m, f in found.items()} for name, found in results.items()},
        "seconds": {
            name: {m: float(np.mean([one["seconds"] for one in f])) for m, f in found.items()}
            for name, found in results.items()
        },
        "against": against,
        "paid": {name: _paid(name, results[name], tests) for name, tests in against.items() if tests},
        "ranks": _ranks(results),
    }


def _gathered(records: Iterable[Mapping[str, Any]]) -> tuple[Results, dict[str, Any], dict[str, Any]]:
    """Return the folds of all cells; only repeats that all methods of a table have, so that folds are paired."""
    cells: dict[str, dict[str, dict[int, Folds]]] = defaultdict(lambda: defaultdict(dict))
    settings: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for record in records:
        cells[record["table"]][record["method"]][record["repeat"]] = record["folds"]
        data[record["table"]], settings = record["data"], record["settings"]
    order = sorted(cells, key=lambda name: (data[name]["rows"], name))
    results = {}
    for name in order:
        shared = set.intersection(*(set(repeats) for repeats in cells[name].values()))
        results[name] = {
            method: [fold for repeat in sorted(shared) for fold in cells[name][method][repeat]]
            for method in METHODS
            if method in cells[name] and shared
        }
    return results, settings, {name: data[name] for name in order}


def _values(folds: Folds, key: str) -> FloatArray:
    return np.array([np.nan if fold[key] is None else fold[key] for fold in folds], dtype=float)


def _spread(folds: Folds, key: str) -> dict[str, float | int]:
    values = _values(folds, key)
    return {"mean": float(values.mean()), "sd": float(values.std(ddof=1)), "n": len(values)}


def _standing(folds: Folds) -> dict[str, float | None]:
    """Return means over the folds where a number is defined."""
    found: dict[str, float | None] = {}
    for key in STANDING:
        values = _values(folds, key)
        defined = values[np.isfinite(values)]
        found[key] = float(defined.mean()) if len(defined) else None
    return found


def _against(found: Mapping[str, Folds], share: float) -> dict[str, dict[str, float]]:
    """Return the corrected paired test of each method against the baseline: below 0 is a lower error."""
    if BASELINE not in found:
        return {}
    base = _values(found[BASELINE], "error")
    return {
        method: corrected_paired_test(_values(folds, "error") - base, share)._asdict()
        for method, folds in found.items()
        if method != BASELINE
    }


def _paid(name: str, found: Mapping[str, Folds], tests: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return whether explicit diversity paid on a table, in a sentence; corrected for the methods asked."""
    asked = [method for method in (SEARCH, *FIXED) if method in tests]
    if not asked:
        return {}
    p = dict(zip(asked, holm([tests[method]["p_value"] for method in asked]).tolist(), strict=True))
    mean = {method: 100 * float(_values(found[method], "error").mean()) for method in (BASELINE, *asked)}
    sure = [method for method in asked if p[method] < LEVEL]
    fixed = [method for method in asked if method != SEARCH]
    best = min(fixed, key=lambda method: mean[method]) if fixed else None
    if any(mean[method] < mean[BASELINE] for method in sure):
        outcome = 1
    elif sure and (SEARCH in sure or best in sure):
        outcome = -1
    else:
        outcome = 0
    words = [f"independent networks err {mean[BASELINE]:.2f} %"]
    if SEARCH in asked:
        words.append(f"the search {mean[SEARCH]:.2f} % (p = {p[SEARCH]:.2g})")
    if best is not None:
        diversity = best.removeprefix("correlation-")
        words.append(f"the best fixed diversity, {diversity}, {mean[best]:.2f} % (p = {p[best]:.2g})")
    sentence = f"{PAID[outcome]} on {name}: {', '.join(words)}."
    return {"outcome": outcome, "sentence": sentence, "p_values": p, "best_fixed": best}


def _ranks(results: Results) -> dict[str, Any] | None:
    """Return mean ranks and their tests, over the methods that have run on every table."""
    tables: Sequence[str] = [name for name, found in results.items() if found]
    methods = [m for m in METHODS if tables and all(m in results[name] for name in tables)]
    if len(methods) < 3 or len(tables) < 2:
        return None
    errors = np.array([[_values(results[name][m], "error").mean() for m in methods] for name in tables])
    ranks = mean_ranks(errors)
    p = nemenyi_p_values(ranks, len(tables))
    return {
        "tables": list(tables),
        "methods": methods,
        "mean_rank": dict(zip(methods, ranks.tolist(), strict=True)),
        "mean_error": dict(zip(methods, errors.mean(axis=0).tolist(), strict=True)),
        "friedman": friedman(errors)._asdict(),
        "critical_difference": critical_difference(len(methods), len(tables), LEVEL),
        "nemenyi": {
            m: dict(zip(methods, row.tolist(), strict=True)) for m, row in zip(methods, p, strict=True)
        },
    }
