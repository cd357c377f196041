"""Warnings about learners that have collapsed or oppose the truth."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from counterpoint.training.correlation import correlations
from counterpoint.training.tally import Tally

__all__ = ["LearnerWatch", "learner_complaints", "tally_complaints"]

# A learner that starts against the truth, by chance, has this many epochs to turn.
_BAD_START = 5


class LearnerWatch:
    """Reports each learner once if it has collapsed or opposes the truth, from the measures of each epoch."""

    def __init__(self) -> None:
        # For each learner: whether it has ever followed the truth, and how many epochs in a row it has opposed it.
        self.followed, self.opposed = np.array(False), np.array(0)
        self.named: set[int] = set()

    def state(self) -> dict[str, Any]:
        """Return the state that later reports depend on."""
        return {
            "followed": self.followed.tolist(),
            "opposed": self.opposed.tolist(),
            "named": sorted(self.named),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state` returned."""
        self.followed, self.opposed = np.array(state["followed"]), np.array(state["opposed"])
        self.named = set(state["named"])

    def complaints(self, tally: Tally) -> list[str]:
        """Return a sentence, without its full stop, for each learner that fails for the first time."""
        found = {i: _collapsed(i) for i in tally.collapsed()}
        r_tl = tally.learner_r_tl()
        self.followed = self.followed | (r_tl > tally.chance)
        self.opposed = np.where(r_tl < -tally.chance, self.opposed + 1, 0)
        for i in np.flatnonzero((self.opposed > 0) & (self.followed | (self.opposed >= _BAD_START))).tolist():
            found[i] = _opposed(i, r_tl[i])
        new = sorted(found.keys() - self.named)
        self.named |= found.keys()
        return [found[i] for i in new]


def learner_complaints(proba: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> list[str]:
    """Return a sentence, without its full stop, for each learner that is constant or opposes the truth.

    Parameters
    ----------
    proba : Tensor, shape (n_learners, n_samples, n_classes)
        Probabilities of the learners.
    target : Tensor, shape (n_samples,)
        Labels.
    sample_weight : Tensor, shape (n_samples,), optional
        Non-negative weights of the samples.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import torch
    >>> good = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    >>> learner_complaints(torch.stack([good, torch.full((2, 2), 0.5)]), torch.tensor([0, 1]))
    ['Learner 1 has collapsed: its output is the same for every sample']
    """
    each = (len(proba), len(target))
    weight = None if sample_weight is None else sample_weight.expand(each)
    r_tl = correlations(proba.unsqueeze(1), target.expand(each), sample_weight=weight).r_tl.tolist()
    chance = 3 / len(target) ** 0.5  # three standard errors of a correlation where there is none
    return [
        _collapsed(i) if r == 0 else _opposed(i, r)  # 0 where it is undefined
        for i, r in enumerate(r_tl)
        if r == 0 or r < -chance
    ]


def tally_complaints(tally: Tally) -> list[str]:
    """Return a sentence, without its full stop, for each learner that is constant or opposes the truth in a tally."""
    found = {i: _collapsed(i) for i in tally.collapsed()}
    found |= {i: _opposed(i, r) for i, r in enumerate(tally.learner_r_tl().tolist()) if r < -tally.chance}
    return [found[i] for i in sorted(found)]


def _collapsed(learner: int) -> str:
    return f"Learner {learner} has collapsed: its output is the same for every sample"


def _opposed(learner: int, r_tl: float) -> str:
    return f"Learner {learner} opposes the truth: their correlation is {r_tl:.3f}"
