"""The correlation matrix as a grid of cells: one for each pair of learners, or of groups if there are many."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterpoint._validation import FloatArray
from counterpoint.assessment import Assessment
from counterpoint.outputs import ratio
from counterpoint.plots.correlation import clustered_correlations, scale_start
from counterpoint.report._words import number, shorten

__all__ = ["learner_matrix_figure", "matrix_figure", "pairs"]

_SIDE = 400  # of the whole grid
_LARGEST_CELL = 46
_MOST_LABELS = 30
_LABEL = 22  # letters of a name beside its row; columns have numbers
_MOST_PAIRS = 5
_MOST_VALUES = 12
_STRONG = {"pos": 0.91, "neg": 0.96}  # from here on a value is written in white on light paper


def matrix_figure(a: Assessment, most: int) -> dict[str, Any] | None:
    """Return the matrix, truth first and similar learners side by side, in at most ``most`` rows of learners."""
    if a.n_learners < 2:
        return None
    whole, names = clustered_correlations(a.correlations.r_tl_learners, a.correlations.matrix, a.learners)
    said = "How similar the outputs are: 1 if equal, 0 if unrelated. Truth first, then the learners, similar ones side "
    return _grid(whole, ["truth", *names[1:]], most) | {
        "truth": True,
        "title": "Correlation matrix of the truth and the learners",
        "says": f"{said}by side; columns are in the order of the rows",
    }


def learner_matrix_figure(
    matrix: FloatArray, learners: Sequence[str], most: int, title: str, says: str
) -> dict[str, Any] | None:
    """Return the correlations of the learners without a truth, similar learners side by side."""
    apart = ~np.eye(len(learners), dtype=bool)
    if not np.isfinite(matrix[apart]).any():
        return None
    unused = np.zeros(len(learners))
    whole, names = clustered_correlations(unused, matrix, learners)
    cells = _grid(whole[1:, 1:], names[1:], most, truth=False)
    return cells | {"truth": False, "title": title, "says": says}


def _grid(whole: FloatArray, rows: list[str], most: int, *, truth: bool = True) -> dict[str, Any]:
    """Return the cells of a matrix; groups of neighbours are one row each if there are too many learners."""
    first = int(truth)
    n_learners = len(rows) - first
    groups = np.array_split(np.arange(first, len(rows)), min(n_learners, most))
    grouped = len(groups) < n_learners
    matrix = _group_means(whole, [*([np.array([0])] if truth else []), *groups]) if grouped else whole
    names = [*rows[:first], *(_group_name(rows, group) for group in groups)]
    size = len(matrix)
    cell = min(_LARGEST_CELL, _SIDE / size)
    labelled = size <= _MOST_LABELS
    start = scale_start(matrix)
    labels = [shorten(name, _LABEL) for name in names] if labelled else []
    return {
        "start": start,
        "start_text": number(start, 1).removesuffix(".0"),
        "cell": round(cell, 2),
        "size": size,
        "side": round(cell * size, 1),
        "grouped": grouped,
        "labels": labels,
        "left": 40 + round(6.3 * max(map(len, labels))) if labelled else 20,
        "top": 24,
        "values": size <= _MOST_VALUES,
        "cells": [
            _cell(
                matrix[i, j],
                names[i],
                names[j],
                round(cell * j, 1),
                round(cell * i, 1),
                start,
                grouped and i == j >= first,
            )
            for i in range(size)
            for j in range(size)
        ],
    }


def pairs(matrix: FloatArray, learners: Sequence[str]) -> dict[str, list[tuple[str, str, str]]]:
    """Return the most and the least similar pairs of learners, with their correlation."""
    first, second = np.triu_indices(len(learners), 1)
    values = matrix[first, second]
    order = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]  # undefined ones sort last
    few = min(_MOST_PAIRS, len(order) // 2)
    chosen = {"most similar": order[::-1][:few], "least similar": order[:few]}
    return {
        title: [(learners[first[k]], learners[second[k]], number(values[k])) for k in places]
        for title, places in chosen.items()
        if len(places)
    }


def _cell(
    value: float, row: str, column: str, x: float, y: float, start: float, within: bool
) -> dict[str, Any]:
    defined = bool(np.isfinite(value))
    kind = "na" if not defined else "neg" if value < 0 else "pos"
    strength = (min(abs(value), 1.0) - max(start, 0.0)) / (1 - max(start, 0.0)) if defined else 1.0
    if row == column:
        pair = f"within {shorten(row, 28)}" if within else shorten(row, 28)
    else:
        pair = f"{shorten(row, 28)} \N{MULTIPLICATION SIGN} {shorten(column, 28)}"
    return {
        "x": x,
        "y": y,
        "kind": kind,
        "strength": round(strength, 2),
        "strong": defined and strength >= _STRONG[kind],
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
    """Return the mean of the defined entries of each block, without the diagonal."""
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
