"""The gate: open on trial, then for good where learners underfit; the same after a checkpoint."""

import copy

import pytest
import torch

from counterpoint.theory import optimality
from counterpoint.training.gate import DiversityGate

ALIKE = torch.tensor(1.0)  # learners that are all the same: what one of them is, their sum is


def told(gate, course):
    """Return whether the gate is open after each (progress, fit)."""
    opened = []
    for gate.progress, r_tl in course:
        opened.append(bool(gate(torch.tensor(r_tl), ALIKE, 5)))
    return opened


@pytest.mark.parametrize(
    ("fits", "expected"),
    [
        ((0.1, 0.2, 0.59, 0.9, 0.9), [True] * 5),  # what comes later changes nothing
        ((0.9, 0.9, 0.61, 0.1, 0.1), [True, True, False, False, False]),  # nor does what was before
    ],
)
def test_the_gate_decides_once_when_the_trial_is_over(fits, expected):
    gate = DiversityGate(0.6, trial=0.4, horizon=1)
    assert told(gate, zip((0, 0.2, 0.4, 0.6, 0.8), fits, strict=True)) == expected
    assert int(gate.decision) == (1 if expected[-1] else -1)


def test_a_gate_that_has_not_decided_is_open():
    gate = DiversityGate(-1.0, trial=0.5)
    assert gate.is_open
    assert told(gate, [(0.0, 0.1), (0.499, 0.1)]) == [True, True]
    assert int(gate.decision) == 0


def test_the_running_mean_is_that_of_exponential_weights():
    gate, values = DiversityGate(horizon=4), [0.1, 0.5, 0.2, 0.9]
    told(gate, [(0, value) for value in values])
    weights = [0.75**age for age in range(3, -1, -1)]
    expected = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert float(gate.fit) == pytest.approx(expected)


def test_the_decision_is_by_the_running_mean_and_not_by_the_last_batch():
    for last, expected in (((0.5, 0.9), True), ((0.5, 0.3), False)):
        before = 0.2 if expected else 0.8
        gate = DiversityGate(0.5, trial=0.5, horizon=10)
        assert told(gate, [*[(0.0, before)] * 10, last])[-1] is expected


def test_the_fit_is_the_optimality_of_the_batch():
    gate = DiversityGate()
    gate.progress = 0.0
    gate(torch.tensor(0.4), torch.tensor(0.2), 5)
    assert float(gate.fit) == pytest.approx(float(optimality(0.4, 0.2, n_learners=5)))


def test_validation_teaches_the_gate_nothing():
    gate = DiversityGate(trial=0.5)
    told(gate, [(0.1, 0.3)])
    before = copy.deepcopy(gate.state_dict())
    gate.progress = 0.9
    with torch.no_grad():
        gate(torch.tensor(0.1), ALIKE, 5)
    gate.eval()(torch.tensor(0.1), ALIKE, 5)
    assert all(torch.equal(before[name], value) for name, value in gate.state_dict().items())


@pytest.mark.parametrize("broken_at", [5, 15])  # before the decision and after it
def test_a_gate_goes_on_from_its_state(broken_at):
    torch.manual_seed(0)
    course = [(i / 20, r) for i, r in enumerate(torch.rand(20).tolist())]
    whole, first, resumed = (DiversityGate(0.6, trial=0.5, horizon=5) for _ in range(3))
    expected = told(whole, course)
    found = told(first, course[:broken_at])
    resumed.load_state_dict(first.state_dict())
    assert found + told(resumed, course[broken_at:]) == expected
    assert torch.equal(resumed.fit, whole.fit)
    assert torch.equal(resumed.decision, whole.decision)


def test_a_reset_gate_is_a_new_one():
    gate = DiversityGate(horizon=3)
    told(gate, [(0.0, 0.2), (0.9, 0.1)])
    gate.reset()
    new = DiversityGate(horizon=3).state_dict()
    assert all(torch.equal(value, new[name]) for name, value in gate.state_dict().items())
    assert gate.progress is None


@pytest.mark.parametrize("unknown", [0.0, float("nan")])  # a batch of one class, and one that overflowed
def test_a_batch_without_a_correlation_counts_in_no_group(unknown):
    gate, other = DiversityGate(groups=(2,)), DiversityGate()
    gate.progress = other.progress = 0.0
    for first, second in ((0.3, 0.2), (unknown, 0.4), (0.5, 0.6)):
        both = torch.tensor([first, second])
        gate(both, torch.tensor([1.0 if first in (0.3, 0.5) else unknown, 1.0]), 3)
    for value in (0.3, 0.5):
        other(torch.tensor(value), ALIKE, 3)
    assert float(gate.fit[0]) == pytest.approx(float(other.fit))
    assert 0.2 < float(gate.fit[1]) < 0.6


def test_groups_have_gates_of_their_own():
    together, alone = DiversityGate(0.5, groups=(2, 3)), [DiversityGate(0.5) for _ in range(6)]
    for step, value in enumerate(torch.linspace(0, 1, 60).view(6, 10).T.reshape(10, 2, 3)):
        for gate in (together, *alone):
            gate.progress = step / 10
        found = together(value, value, 3)
        expected = torch.stack([gate(one, one, 3) for gate, one in zip(alone, value.flatten(), strict=True)])
        assert torch.equal(found.flatten(), expected)
    assert set(together.decision.flatten().tolist()) == {-1, 1}


def test_no_gradient_flows_through_the_gate():
    r_tl = torch.tensor(0.6, requires_grad=True)
    gate = DiversityGate()
    gate.progress = 0.5
    assert not gate(r_tl, r_tl, 3).requires_grad
    assert not gate.fit.requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": (2, 0)}, "`groups` must be at least 1; got 0"),
        ({"threshold": 1.2}, "`threshold` must be between -1 and 1; got 1.2"),
        ({"trial": -0.1}, "`trial` must be between 0 and 1; got -0.1"),
        ({"horizon": 0}, "`horizon` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DiversityGate(**options)


def test_correlations_of_other_groups_are_refused():
    message = r"`groups` of a gate must be the leading axes of what it gates, \(2,\); got \(\)\."
    with pytest.raises(ValueError, match=message):
        DiversityGate()(torch.zeros(2), torch.zeros(2), 3)
    assert "groups=(2,)" in repr(DiversityGate(groups=(2,)))


def test_nothing_is_decided_of_learners_that_nothing_is_known_of():
    gate = DiversityGate(groups=(2,))
    gate.progress = 0.5
    gate(torch.tensor([0.0, 0.1]), torch.ones(2), 3)  # the first has seen one class alone
    assert gate.decision.tolist() == [0, 1]
    gate(torch.tensor([0.9, 0.9]), torch.ones(2), 3)
    assert gate.decision.tolist() == [-1, 1]


@pytest.mark.parametrize(("progress", "error"), [(float("nan"), ValueError), ("0.5", TypeError)])
def test_a_progress_that_is_no_share_is_refused(progress, error):
    gate = DiversityGate()
    gate.progress = progress
    with pytest.raises(error, match=r"`progress` must "):
        gate(torch.tensor(0.1), ALIKE, 3)


def test_a_training_batch_without_progress_is_refused():
    gate = DiversityGate()
    with pytest.raises(
        ValueError, match=r"`progress` must be set before each training batch, .*; got None\."
    ):
        gate(torch.tensor(0.1), ALIKE, 3)
    assert gate.eval()(torch.tensor(0.1), ALIKE, 3)


@pytest.mark.parametrize("groups", [3, "ab", None, [2]])
def test_the_groups_are_a_tuple(groups):
    with pytest.raises(TypeError, match=r"^`groups` must be a tuple of integers; got .*\.$"):
        DiversityGate(groups=groups)
    with pytest.raises(TypeError, match=r"^`groups` must be an integer; got 0\.5\.$"):
        DiversityGate(groups=(2, 0.5))
