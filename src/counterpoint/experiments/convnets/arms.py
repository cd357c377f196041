"""Ways to train a group of nets: what their loss is made of, at first and later."""

from typing import NamedTuple

__all__ = ["ARMS", "GATED_DIVERSITY", "TRIALS", "TRIAL_DIVERSITY", "Arm", "Gate", "Mix", "gated", "on_trial"]

# What a gate lets in before it decides, and what if it stays open.
TRIAL_DIVERSITY, GATED_DIVERSITY = 0.5, 0.9

# Shares of the training after which a gate may decide.
TRIALS = (0.05, 0.1, 0.2)


class Mix(NamedTuple):
    """The weights of the three losses, and the diversity of the last as a share of the critical lambda."""

    own: float = 0.0  # the learners' own cross-entropy
    joint: float = 0.0  # the cross-entropy of the averaged probabilities
    correlation: float = 0.0
    diversity: float = 0.0
    error: bool = False  # whether the correlation of errors is penalised, in the place of r_LL


class Gate(NamedTuple):
    """The settings of a gate."""

    threshold: float
    trial: float


class Arm(NamedTuple):
    """A way to train: at first, and after the turn; a gate decides between ``own`` and what these say."""

    name: str
    first: Mix
    second: Mix
    turn: float = 0.5  # as a share of the training
    gate: Gate | None = None

    @property
    def read_out(self) -> bool:
        """Whether the nets' scale and offset are left open by the loss, and so are fitted at the end."""
        return self.second.correlation > 0


def gated(gate: Gate) -> Arm:
    """Return the arm that stays with the correlation loss if its learners underfit."""
    mix = Mix(correlation=1.0, diversity=GATED_DIVERSITY)
    return Arm("auto", mix, mix, gate=gate)


def on_trial(turn: float, then: str) -> Arm:
    """Return the arm that does what a gate does which stays open, or shuts, after so much of the training."""
    second = Mix(own=1.0) if then == "independent" else Mix(correlation=1.0, diversity=GATED_DIVERSITY)
    return Arm(f"trial {turn}, then {then}", Mix(correlation=1.0, diversity=TRIAL_DIVERSITY), second, turn)


def _arms() -> dict[str, Arm]:
    own, joint = Mix(own=1.0), Mix(joint=1.0)
    mixes = {"independent": own, "joint": joint}
    mixes |= {f"{d}": Mix(correlation=1.0, diversity=d) for d in (0.0, 0.5, 0.9, 1.0, 1.1)}
    mixes |= {f"error {d}": Mix(correlation=1.0, diversity=d, error=True) for d in (0.5, 0.9)}
    arms = {name: Arm(name, mix, mix) for name, mix in mixes.items()}
    for first, second in (("independent", "0.9"), ("0.9", "independent")):
        name = f"{first}, then {second}"
        arms[name] = Arm(name, mixes[first], mixes[second])
    trials = [on_trial(turn, then) for turn in TRIALS for then in ("0.9", "independent")]
    return arms | {arm.name: arm for arm in trials}


ARMS = _arms()
