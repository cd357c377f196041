"""Learners that do not pull their weight, told from what is measured in each epoch of training."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoint.training.tally import Tally

# A learner that starts out against the truth, by chance, has so many epochs to turn.
_BAD_START = 5


class LearnerWatch:
    """Names each learner once that has collapsed or stands against the truth."""

    def __init__(self) -> None:
        # For each learner: whether it has ever followed the truth, and its last epochs in a row against it.
        self.followed, self.opposed = np.array(False), np.array(0)
        self.named: set[int] = set()

    def state(self) -> dict[str, Any]:
        """Return what the next complaints depend on."""
        return {
            "followed": self.followed.tolist(),
            "opposed": self.opposed.tolist(),
            "named": sorted(self.named),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from such a state."""
        self.followed, self.opposed = np.array(state["followed"]), np.array(state["opposed"])
        self.named = set(state["named"])

    def complaints(self, tally: Tally) -> list[str]:
        """Return a sentence for each learner that is newly found wanting in an epoch."""
        found = dict.fromkeys(tally.collapsed(), "puts out the same for every sample: it has collapsed")
        r_tl = tally.learner_r_tl()
        self.followed = self.followed | (r_tl > tally.chance)
        self.opposed = np.where(r_tl < -tally.chance, self.opposed + 1, 0)
        for i in np.flatnonzero((self.opposed > 0) & (self.followed | (self.opposed >= _BAD_START))).tolist():
            found[i] = f"is against the truth: their correlation is {r_tl[i]:.3f}"
        new = sorted(found.keys() - self.named)
        self.named |= found.keys()
        return [f"Learner {i} {found[i]}" for i in new]
