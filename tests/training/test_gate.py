"""The gate: open while learners underfit, shut once they fit, the same after a checkpoint."""

import copy

import pytest
import torch

from counterpoint.theory import optimality
from counterpoint.training.gate import DiversityGate

ALIKE = torch.tensor(1.0)  # learners that are all the same: what one of them is, their sum is


def test_the_gate_is_open_under_its_start_and_shut_over_its_end():
    gate = DiversityGate(0.4, 0.8, horizon=1)
    assert [float(gate(torch.tensor(r), ALIKE, 5)) for r in (-0.2, 0.4, 0.8, 1.0)] == pytest.approx(
        [1, 1, 0, 0], abs=1e-6
    )
    assert float(gate(torch.tensor(0.6), ALIKE, 5)) == pytest.approx(0.5)


def test_the_gate_falls_without_a_jump():
    gate = DiversityGate(0.4, 0.8, horizon=1)
    shares = torch.stack([gate(r, ALIKE, 5) for r in torch.linspace(0.3, 0.9, 601)])
    steps = shares.diff()
    assert (steps <= 1e-6).all()
    assert steps.abs().max() < 1.51 * 0.001 / 0.4  # a smooth step is nowhere steeper than 3 / 2


def test_the_running_mean_is_that_of_exponential_weights():
    gate, values = DiversityGate(horizon=4), [0.1, 0.5, 0.2, 0.9]
    for value in values:
        gate(torch.tensor(value), ALIKE, 5)
    weights = [0.75**age for age in range(3, -1, -1)]
    expected = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert float(gate.fit) == pytest.approx(expected)


def test_the_fit_is_the_optimality_of_the_batch():
    gate, single = DiversityGate(), DiversityGate(by="r_tl")
    for one in (gate, single):
        one(torch.tensor(0.4), torch.tensor(0.2), 5)
    assert float(gate.fit) == pytest.approx(float(optimality(0.4, 0.2, n_learners=5)))
    assert float(single.fit) == pytest.approx(0.4)


def test_the_first_batch_is_not_pulled_towards_zero():
    gate = DiversityGate(0.2, 0.6, horizon=100)
    assert float(gate(torch.tensor(0.7), ALIKE, 5)) == 0
    assert float(gate.fit) == pytest.approx(0.7)


def test_validation_teaches_the_gate_nothing():
    gate = DiversityGate()
    gate(torch.tensor(0.3), ALIKE, 5)
    before = copy.deepcopy(gate.state_dict())
    with torch.no_grad():
        gate(torch.tensor(0.9), ALIKE, 5)
    gate.eval()(torch.tensor(0.9), ALIKE, 5)
    assert all(torch.equal(before[name], value) for name, value in gate.state_dict().items())


def test_a_gate_goes_on_from_its_state():
    torch.manual_seed(0)
    values = torch.rand(20)
    whole, first = DiversityGate(horizon=5), DiversityGate(horizon=5)
    for value in values[:10]:
        whole(value, ALIKE, 5)
        first(value, ALIKE, 5)
    resumed = DiversityGate(horizon=5)
    resumed.load_state_dict(first.state_dict())
    assert all(torch.equal(whole(value, ALIKE, 5), resumed(value, ALIKE, 5)) for value in values[10:])


def test_groups_have_gates_of_their_own():
    together, alone = DiversityGate(groups=(2, 3)), [DiversityGate() for _ in range(6)]
    for value in torch.linspace(0, 1, 60).view(10, 2, 3):
        found = together(value, value, 3)
        expected = torch.stack([gate(one, one, 3) for gate, one in zip(alone, value.flatten(), strict=True)])
        torch.testing.assert_close(found.flatten(), expected)


def test_no_gradient_flows_through_the_gate():
    r_tl = torch.tensor(0.6, requires_grad=True)
    assert not DiversityGate()(r_tl, r_tl, 3).requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 0.8, "end": 0.6}, "`start` must be between 0 and 0.6; got 0.8"),
        ({"start": 0.6, "end": 0.6}, "`start` must be less than `end`; got 0.6 and 0.6"),
        ({"end": 1.2}, "`end` must be between 0 and 1; got 1.2"),
        ({"by": "loss"}, "`by` must be one of 'optimality', 'r_tl'; got 'loss'"),
        ({"horizon": 0}, "`horizon` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DiversityGate(**options)


def test_correlations_of_other_groups_are_refused():
    with pytest.raises(ValueError, match=r"`r_tl` must have the shape of the groups, \(\); got \(2,\)"):
        DiversityGate()(torch.zeros(2), torch.zeros(2), 3)
