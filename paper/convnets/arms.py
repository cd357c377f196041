"""The arms of the map: the loss of a group of networks in each half of its training."""

from typing import NamedTuple

__all__ = ["ARMS", "Arm", "Mix"]


class Mix(NamedTuple):
    """The weights of the three losses, and the diversity of the last as a share of the critical lambda."""

    own: float = 0.0  # the learners' own cross-entropy
    joint: float = 0.0  # the cross-entropy of the averaged probabilities
    correlation: float = 0.0
    diversity: float = 0.0
    error: bool = False  # whether to penalise the correlation of errors instead of r_LL


class Arm(NamedTuple):
    """A way to train: the loss in the first and in the second half of the training."""

    name: str
    first: Mix
    second: Mix

    @property
    def read_out(self) -> bool:
        """Whether the loss leaves scale and offset of the outputs open, so that they are fitted at the end."""
        return self.second.correlation > 0


def _arms() -> dict[str, Arm]:
    mixes = {"independent": Mix(own=1.0), "joint": Mix(joint=1.0)}
    mixes |= {f"{d}": Mix(correlation=1.0, diversity=d) for d in (0.0, 0.5, 0.9, 1.0, 1.1)}
    mixes |= {f"error {d}": Mix(correlation=1.0, diversity=d, error=True) for d in (0.5, 0.9)}
    halves = {name: (name, name) for name in mixes}
    halves |= {f"{a}, then {b}": (a, b) for a, b in (("independent", "0.9"), ("0.9", "independent"))}
    return {name: Arm(name, mixes[first], mixes[second]) for name, (first, second) in halves.items()}


ARMS = _arms()
