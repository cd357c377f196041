"""Methods over all tables: mean ranks and mean differences, with intervals over the tables and corrected tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.arena.methods import BASELINE, METHODS
from counterpoint.arena.statistics import (
    critical_difference,
    friedman,
    holm,
    mean_interval,
    mean_ranks,
    nemenyi_p_values,
    rank_intervals,
    signed_rank_p_value,
)

__all__ = ["LEVEL", "correct_together", "rank_methods"]

LEVEL = 0.05  # significance level of every test; intervals hold 95 %

Means = Mapping[str, Mapping[str, Mapping[str, float]]]  # by table and method, each with its `mean`


def rank_methods(found: Means) -> dict[str, Any] | None:
    """Return mean ranks, their intervals and tests, over the methods that have run on every table.

    Parameters
    ----------
    found : mapping
        By table and method a mapping with the ``mean`` of a score; lower is better.

    Returns
    -------
    dict or None
        ``mean_rank`` and ``mean`` with ``rank_interval``; Friedman's and Nemenyi's tests; and ``against`` the baseline
        the mean difference with its interval and a p-value. None with fewer than three methods or two tables.

    Examples
    --------
    >>> one = {"independent": {"mean": 0.2}, "ncl": {"mean": 0.1}, "joint": {"mean": 0.3}}
    >>> found = rank_methods({"a": one, "b": one})
    >>> found["mean_rank"], found["rank_interval"]["ncl"]
    ({'independent': 2.0, 'joint': 3.0, 'ncl': 1.0}, [1.0, 1.0])
    """
    tables = list(found)
    methods = [m for m in METHODS if all(m in found[name] for name in tables)]
    if len(methods) < 3 or len(tables) < 2:
        return None
    values = np.array([[found[name][m]["mean"] for m in methods] for name in tables])
    ranks = mean_ranks(values)
    p = nemenyi_p_values(ranks, len(tables))
    spread = rank_intervals(values, LEVEL)
    return {
        "tables": tables,
        "methods": methods,
        "mean_rank": dict(zip(methods, ranks.tolist(), strict=True)),
        "rank_interval": dict(zip(methods, np.transpose(spread).tolist(), strict=True)),
        "mean": dict(zip(methods, values.mean(axis=0).tolist(), strict=True)),
        "friedman": friedman(values)._asdict(),
        "critical_difference": critical_difference(len(methods), len(tables), LEVEL),
        "nemenyi": {
            m: dict(zip(methods, row.tolist(), strict=True)) for m, row in zip(methods, p, strict=True)
        },
        "against": _against(methods, values),
    }


def correct_together(*groups: Mapping[Any, dict[str, Any]]) -> None:
    """Add ``p_corrected`` to tests that are stated together: Holm's method over all of them.

    Examples
    --------
    >>> errors, losses = {"ncl": {"p_value": 0.01}}, {"ncl": {"p_value": 0.04}}
    >>> correct_together(errors, losses)
    >>> errors["ncl"]["p_corrected"], losses["ncl"]["p_corrected"]
    (0.02, 0.04)
    """
    tests = [test for group in groups for test in group.values()]
    if tests:
        for test, p in zip(tests, holm([test["p_value"] for test in tests]).tolist(), strict=True):
            test["p_corrected"] = p


def _against(methods: list[str], values: FloatArray) -> dict[str, dict[str, Any]]:
    """Return the mean difference of each method to the baseline over the tables, with its interval and test."""
    if BASELINE not in methods:
        return {}
    differences = values - values[:, [methods.index(BASELINE)]]
    found = {}
    for method, own in zip(methods, differences.T, strict=True):
        if method != BASELINE:
            low, high = mean_interval(own, LEVEL)
            p = signed_rank_p_value(own)
            found[method] = {"difference": float(own.mean()), "low": low, "high": high, "p_value": p}
    return found
