"""The correlation matrix as a grid of cells: one for each pair of learners, or of groups if there are many."""

from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment import Assessment
from counterpoint.outputs import ratio
from counterpoint.plots import CorrelationDisplay
from counterpoint.report._words import number, shorten

__all__ = ["matrix_figure", "pairs"]

_SIDE = 400  # of the whole grid
_LARGEST_CELL = 46
_MOST_LABELS = 30
_MOST_PAIRS = 5
_MOST_VALUES = 12
_STRONG = {"pos": 0.91, "neg": 0.96}  # from here on a value is written in white on light paper


def matrix_figure(a: Assessment, most: int) -> dict[str, Any] | None:
    """Return the matrix, truth first and alike learners side by side, in at most ``most`` rows of learners."""
    if a.n_learners < 2:
        return None
    display = CorrelationDisplay.from_assessment(a)
    groups = np.array_split(np.arange(1, a.n_learners + 1), min(a.n_learners, most))
    grouped = len(groups) < a.n_learners
    matrix = _group_means(display.matrix, [np.array([0]), *groups]) if grouped else display.matrix
    names = ["truth", *(_group_name(display.names, group) for group in groups)]
    size = len(matrix)
    cell = min(_LARGEST_CELL, _SIDE / size)
    labelled = size <= _MOST_LABELS
    return {
        "cell": round(cell, 2),
        "size": size,
        "side": round(cell * size, 1),
        "grouped": grouped,
        "labels": [shorten(name, 14) for name in names] if labelled else [],
        "margin": 112 if labelled else 20,
        "values": size <= _MOST_VALUES,
        "cells": [
            _cell(
                matrix[i, j],
                names[i],
                names[j],
                round(cell * j, 1),
                round(cell * i, 1),
                grouped and i == j > 0,
            )
            for i in range(size)
            for j in range(size)
        ],
    }


def pairs(a: Assessment) -> dict[str, list[tuple[str, str, str]]]:
    """Return the pairs of learners that are most alike and least alike, with their correlation."""
    first, second = np.triu_indices(a.n_learners, 1)
    values = a.correlations.matrix[first, second]
    order = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]  # undefined ones sort last
    few = min(_MOST_PAIRS, len(order) // 2)
    chosen = {"most alike": order[::-1][:few], "least alike": order[:few]}
    return {
        title: [(a.learners[first[k]], a.learners[second[k]], number(values[k])) for k in places]
        for title, places in chosen.items()
        if len(places)
    }


def _cell(value: float, row: str, column: str, x: float, y: float, within: bool) -> dict[str, Any]:
    defined = bool(np.isfinite(value))
    kind = "na" if not defined else "neg" if value < 0 else "pos"
    if row == column:
        pair = f"within {shorten(row, 28)}" if within else shorten(row, 28)
    else:
        pair = f"{shorten(row, 28)} \N{MULTIPLICATION SIGN} {shorten(column, 28)}"
    return {
        "x": x,
        "y": y,
        "kind": kind,
        "strength": round(min(abs(value), 1.0), 2) if defined else 1,
        "strong": defined and abs(value) >= _STRONG[kind],
        "text": number(value, 2) if defined else "\N{EN DASH}",
        "title": f"{pair}: {number(value, 2)}",
    }


def _group_name(names: list[str], group: Any) -> str:
    first, last = names[group[0]], names[group[-1]]
    return (
        first
        if len(group) == 1
        else f"{shorten(first, 16)} \N{HORIZONTAL ELLIPSIS} {shorten(last, 16)} ({len(group)})"
    )


def _group_means(matrix: FloatArray, groups: list[Any]) -> FloatArray:
    """Return the mean of what is defined in each block; a learner with itself is left out."""
    between = matrix.copy()
    np.fill_diagonal(between, np.nan)
    starts = [int(group[0]) for group in groups]
    known = np.isfinite(between)
    sums = _block_sums(np.where(known, between, 0.0), starts)
    counts = _block_sums(known.astype(np.float64), starts)
    means = ratio(sums, counts)
    single = np.array([len(group) == 1 for group in groups])
    means[np.diag(single)] = matrix[starts, starts][single]
    return means


def _block_sums(values: FloatArray, starts: list[int]) -> FloatArray:
    sums: FloatArray = np.add.reduceat(np.add.reduceat(values, starts, axis=0), starts, axis=1)
    return sums
