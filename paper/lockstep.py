"""DECORATE on many tables at once, round by round, so that the candidates of a round can train as one program."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.estimators import GrowingEnsemble, artificial_rows, contrary_labels

__all__ = ["Learner", "Lesson", "decorate_together"]

Learner = Callable[[FloatArray], FloatArray]  # rows (n, n_features) -> probabilities (n, n_classes)


class Lesson(NamedTuple):
    """What a candidate learns, and the source of its own randomness."""

    x: FloatArray  # (n, n_features)
    y: IntArray  # (n,)
    rng: np.random.RandomState


def decorate_together(
    tables: Sequence[FloatArray],
    labels: Sequence[IntArray],
    rngs: Sequence[np.random.RandomState],
    train: Callable[[list[Lesson]], list[Learner]],
    *,
    n_classes: int,
    n_learners: int,
    artificial_ratio: float,
    max_rounds: int,
    on_round: Callable[[int], None] | None = None,
) -> list[GrowingEnsemble]:
    """Return an ensemble for each table, as :class:`DecorateClassifier` grows it from the same random state.

    Parameters
    ----------
    tables : sequence of ndarray, shape (n, n_features)
        Numeric columns; NaN is a missing value, which learners see as the mean of its column.
    labels : sequence of ndarray of int, shape (n,)
        The classes, from 0.
    rngs : sequence of RandomState
        One for each table.
    train : callable
        Returns a candidate for each lesson. It is called once a round, with a lesson for each table whose ensemble
        still grows.
    n_classes, n_learners, artificial_ratio, max_rounds
        As for :class:`DecorateClassifier`.
    on_round : callable, optional
        Called with the number of rounds so far, after each.

    Returns
    -------
    list of GrowingEnsemble
        With a :data:`Learner` for each that stayed.
    """
    rows = [np.where(np.isnan(table), np.nanmean(table, axis=0), table) for table in tables]
    growths = [GrowingEnsemble(own, n_classes) for own in labels]
    done = 0
    while growing := [k for k, growth in enumerate(growths) if growth.is_growing(n_learners, max_rounds)]:
        lessons = []
        for k in growing:
            seen, told = rows[k], labels[k]
            if learners := growths[k].learners:
                n_artificial = max(1, int(artificial_ratio * len(seen)))
                drawn = artificial_rows(tables[k], {}, n_artificial, rngs[k])
                proba = np.mean([learner(drawn) for learner in learners], axis=0)
                seen = np.vstack([seen, drawn])
                told = np.concatenate([told, contrary_labels(proba, rngs[k])])
            lessons.append(Lesson(seen, told, rngs[k]))
        for k, candidate in zip(growing, train(lessons), strict=True):
            growths[k].offer(candidate, candidate(rows[k]))
        done += 1
        if on_round is not None:
            on_round(done)
    return growths
