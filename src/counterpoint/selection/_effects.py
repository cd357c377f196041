"""What a chosen panel and each learner are worth, on samples that did not choose.

Notation: N learners, n samples. The effect of a learner is the accuracy of the panel with it less that without it. The
panels are those chosen without a part of the samples, the accuracies those on that part.
"""

from typing import NamedTuple

import numpy as np

from counterpoint._validation import FloatArray, IntArray
from counterpoint.assessment import (
    Estimate,
    credit_estimate,
    error_of_mean,
    paired_difference,
)
from counterpoint.selection._crossfit import PARTS, Choice, CrossFit, panel_credits

_MOST_LEARNERS = 200  # of larger pools, only learners that a part chose have an effect

UNDEFINED = Estimate(np.nan, np.nan, np.nan)


class Worth(NamedTuple):
    """What was found on samples that did not choose."""

    accuracy: Estimate
    against_pool: Estimate
    effects: tuple[Estimate, ...]  # (N,)
    support: FloatArray  # (N,), share of the choices that a learner is in


def judge_choice(cross: CrossFit, final: Choice) -> Worth:
    """Choose without each part, judge on it; NaN where there are too few samples or groups."""
    n_learners = cross.read.n_learners
    if not cross.possible:
        return Worth(UNDEFINED, UNDEFINED, (UNDEFINED,) * n_learners, np.full(n_learners, np.nan))
    choices = [cross.choose(frozenset({k})) for k in range(PARTS)]
    support = np.mean([choice.weights > 0 for choice in choices], axis=0)
    measured = np.flatnonzero(support) if n_learners > _MOST_LEARNERS else np.arange(n_learners)
    found = [_on_part(cross, k, choice, measured.tolist()) for k, choice in enumerate(choices)]
    credit = np.concatenate([one[0] for one in found])
    pool = np.concatenate([one[1] for one in found])
    gains = np.concatenate([one[2:] for one in found], axis=1)
    groups = cross.groups_without()
    alone = {int(np.argmax(choice.weights)) for choice in choices if np.count_nonzero(choice.weights) == 1}
    effects = [UNDEFINED] * n_learners
    for learner, gain in zip(measured.tolist(), gains, strict=True):
        if learner not in alone:  # without it nobody would vote
            effects[learner] = paired_difference(gain, groups)
    luck = _luck(cross, [final, *choices], groups)

    def variance(values: FloatArray) -> float:
        return error_of_mean(values, groups) ** 2 / (PARTS - 1) + luck

    return Worth(
        credit_estimate(credit, groups, more_variance=variance(credit)),
        paired_difference(credit - pool, groups, more_variance=variance(credit - pool)),
        tuple(effects),
        support,
    )


def _luck(cross: CrossFit, choices: list[Choice], groups: IntArray | None) -> float:
    """Return the variance that comes from choosing the first panel, and not those that were judged in its place.

    Two panels, each chosen by some of the samples, differ by about as much as the noise on samples where they do.
    """
    weights = np.stack([choice.weights for choice in choices])
    credit = np.concatenate(
        [panel_credits(cross.part(k), cross.settings.voting, weights)[0] for k in range(PARTS)], axis=1
    )
    apart = credit[1:] - credit[0]
    sums = apart if groups is None else np.stack([np.bincount(groups, row) for row in apart])
    return float((sums**2).sum(axis=1).mean() / apart.shape[1] ** 2)


def _on_part(cross: CrossFit, k: int, choice: Choice, learners: list[int]) -> FloatArray:
    """Return the credit of the chosen panel, that of the whole pool, and the gain by each learner, on a part."""
    weights, chooser = choice.weights, choice.fit.chooser
    whole = np.full(len(weights), 1 / len(weights))
    changed = [chooser.changed(weights, learner) for learner in learners]
    credit, _ = panel_credits(cross.part(k), cross.settings.voting, np.stack([weights, whole, *changed]))
    has = weights[learners] > 0
    gains = np.where(has[:, np.newaxis], credit[0] - credit[2:], credit[2:] - credit[0])
    return np.concatenate([credit[:2], gains])
