"""Warnings about learners that have collapsed or oppose the truth."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from counterpoint.outputs import listed
from counterpoint.training.correlation import correlations
from counterpoint.training.tally import Tally

__all__ = ["LearnerWatch", "learner_complaints", "tally_complaints"]

# A learner that starts against the truth, by chance, has this many epochs to turn.
_BAD_START = 5
_MOST = 20  # learners that one sentence names


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
        """Return sentences, without full stops, about learners that fail for the first time."""
        collapsed = set(tally.collapsed())
        r_tl = tally.learner_r_tl()
        self.followed = self.followed | (r_tl > tally.chance)
        self.opposed = np.where(r_tl < -tally.chance, self.opposed + 1, 0)
        late = self.followed | (self.opposed >= _BAD_START)
        opposed = set(np.flatnonzero((self.opposed > 0) & late).tolist())
        sentences = _sentences(collapsed - opposed - self.named, {i: r_tl[i] for i in opposed - self.named})
        self.named |= collapsed | opposed
        return sentences


def learner_complaints(proba: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> list[str]:
    """Return sentences, without full stops, about learners that are constant or oppose the truth.

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
    constant = {i for i, r in enumerate(r_tl) if r == 0}  # where it is undefined
    return _sentences(constant, {i: r for i, r in enumerate(r_tl) if r < -chance})


def tally_complaints(tally: Tally) -> list[str]:
    """Return sentences, without full stops, about learners that are constant or oppose the truth in a tally."""
    opposed = {i: r for i, r in enumerate(tally.learner_r_tl().tolist()) if r < -tally.chance}
    return _sentences(set(tally.collapsed()) - opposed.keys(), opposed)


def _sentences(collapsed: set[int], opposed: Mapping[int, float]) -> list[str]:
    """Return one sentence about the learners that have collapsed, and one about those that oppose the truth."""
    found = []
    if collapsed:
        one = f"{_named(collapsed)} has collapsed: its output is"
        several = f"{_named(collapsed)} have collapsed: the output of each is"
        found.append(f"{one if len(collapsed) == 1 else several} the same for every sample")
    if opposed:
        verb = "opposes" if len(opposed) == 1 else "oppose"
        r_tl = [f"{opposed[i]:.3f}" for i in sorted(opposed)]
        are = "their correlation is" if len(opposed) == 1 else "the correlations are"
        found.append(f"{_named(opposed)} {verb} the truth: {are} {listed(r_tl, _MOST)}")
    return found


def _named(learners: Collection[int]) -> str:
    """Return "Learner 1", or "Learners 0, 1, 4"."""
    return f"Learner{'s' * (len(learners) > 1)} {listed([str(i) for i in sorted(learners)], _MOST)}"
