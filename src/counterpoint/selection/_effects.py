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
from counterpoint.outputs import Outputs, ratio, scores_to_probabilities
from counterpoint.selection._crossfit import PARTS, Choice, CrossFit, padded, panel_credits, panel_scores
from counterpoint.theory import signal_from_correlation

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


def panel_votes(cross: CrossFit, choice: Choice) -> FloatArray:
    """Return the effective votes of each panel of a fit, (P,); NaN where nothing could be judged.

    Panels and the best learner are those of the other parts.
    """
    n = len(choice.fit.weights)
    if choice.credit is None:
        return np.full(n, np.nan)
    which = next(at for at, fit in enumerate(cross.fits(frozenset())) if fit is choice.fit)
    right = np.stack([_right(cross.part(k)) for k in range(PARTS)])
    answered = np.array([cross.part(k).n_samples for k in range(PARTS)])
    sums = _SignalSums(n + 1, len(cross.read.classes))
    for k in range(PARTS):
        best = int(np.argmax((right.sum(axis=0) - right[k]) / (answered.sum() - answered[k])))
        weights = padded(cross.fits(frozenset({k}))[which].weights, n)
        alone = np.eye(1, cross.read.n_learners, best)
        sums.add(cross.part(k), cross.settings.voting, np.vstack([weights, alone]))
    *panels, best_signal = sums.signals().tolist()
    single = np.count_nonzero(choice.fit.weights, axis=1) == 1  # no learner is better than the best
    best_signal = max([best_signal, *np.array(panels)[single]])
    return np.array(panels) / best_signal if 0 < best_signal < np.inf else np.full(n, np.nan)


def _right(read: Outputs) -> FloatArray:
    right = np.zeros(read.n_learners)
    for block in read.blocks():
        right += read.right(block).sum(axis=1)
    return right


class _SignalSums:
    """What the correlation of the outputs of some panels with the truth follows from, pooled over the classes."""

    def __init__(self, n_panels: int, n_classes: int) -> None:
        self.right, self.square = np.zeros((2, n_panels))
        self.mean, self.truth = np.zeros((n_panels, n_classes)), np.zeros(n_classes)

    def add(self, read: Outputs, voting: str, weights: FloatArray) -> None:
        few = read.compact if voting == "hard" else read
        assert read.truth_codes is not None
        assert few.truth_codes is not None
        m = len(self.truth)
        self.truth += np.bincount(read.truth_codes, minlength=m)
        for block, i, scores in panel_scores(few, voting, weights):
            proba = scores_to_probabilities(scores, voting)
            true = few.truth_codes[block]
            self.right[i] += proba[true, np.arange(len(true))].sum()
            self.square[i] += (proba**2).sum()
            if few is read:
                self.mean[i] += proba.sum(axis=1)
            else:
                codes = read.compact_classes[:, block]
                self.mean[i] += np.bincount(codes[codes >= 0], proba[codes >= 0], minlength=m)

    def signals(self) -> FloatArray:
        """Return the ratio of signal to noise of each panel, (P,)."""
        n = self.truth.sum()
        mean, truth = self.mean / n, self.truth / n
        spread = np.sqrt(np.maximum(self.square / n - (mean**2).sum(axis=1), 0) * (1 - truth @ truth))
        r = ratio(self.right / n - mean @ truth, spread)
        return signal_from_correlation(np.nan_to_num(r).clip(-1, 1))
