"""The correlation loss with ``diversity="auto"``: correlation while learners underfit, cross-entropy once they fit."""

import pytest
import torch
from torch import nn

from counterpoint.training import CorrelationLoss, DiversityWarmup, Ensemble, IndependentLoss, fit
from counterpoint.training.gate import DiversityGate


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.randn(3, 40, 5, requires_grad=True), torch.randint(5, (40,))


@pytest.mark.parametrize(("fit_so_far", "plain"), [(0.0, CorrelationLoss(0.9)), (1.0, IndependentLoss())])
def test_auto_is_the_loss_of_its_side_of_the_gate(batch, fit_so_far, plain):
    logits, target = batch
    loss = CorrelationLoss("auto")
    loss.gate.total.fill_(1e6 * fit_so_far)  # so that this batch changes little
    loss.gate.mass.fill_(1e6)
    torch.testing.assert_close(loss(logits, target), plain(logits, target))
    found, expected = (torch.autograd.grad(one(logits, target), logits)[0] for one in (loss, plain))
    torch.testing.assert_close(found, expected)


def test_the_gate_sees_the_optimality_of_each_training_batch(batch):
    logits, target = batch
    loss, gate = CorrelationLoss("auto"), DiversityGate()
    loss(logits, target)
    gate(loss.r_tl, loss.r_ll, 3)
    torch.testing.assert_close(loss.gate.fit, gate.fit)


def data():
    torch.manual_seed(1)
    x = torch.randn(256, 2)
    return list(zip(x.split(64), (x[:, 0] > 0).long().split(64), strict=True))


def learners():
    torch.manual_seed(2)
    return Ensemble([nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)])


def train(ensemble, epochs, **options):
    loss = CorrelationLoss("auto")

    def adam(parameters):
        return torch.optim.Adam(parameters, 0.05)

    fit(ensemble, data(), loss=loss, optimizer=adam, epochs=epochs, progress=False, **options)
    return loss


def test_the_gate_shuts_as_learners_come_to_fit():
    loss = train(learners(), 60)
    assert loss.gate.fit > loss.gate.end
    assert float(loss.gate.eval()(loss.r_tl, loss.r_ll, 3)) == 0


def test_a_resumed_run_has_the_gate_of_an_unbroken_one(tmp_path):
    whole, broken = learners(), learners()
    unbroken = train(whole, 6)
    train(broken, 3, checkpoint=tmp_path / "run.safetensors")
    resumed = train(broken, 6, checkpoint=tmp_path / "run.safetensors")
    assert torch.equal(unbroken.gate.total, resumed.gate.total)
    for a, b in zip(whole.parameters(), broken.parameters(), strict=True):
        assert torch.equal(a, b)


def test_validation_does_not_move_the_gate():
    plain, validated = train(learners(), 3), train(learners(), 3, validation=data())
    assert torch.equal(plain.gate.total, validated.gate.total)


def test_a_warm_up_scales_what_the_open_gate_lets_in():
    loss = train(learners(), 3, callbacks=[DiversityWarmup(5)])
    assert loss.diversity == 0.9  # as before, after the training


def test_auto_says_so():
    assert "diversity='auto'" in repr(CorrelationLoss("auto"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"diversity": "most"}, "`diversity` must be a number or 'auto'; got 'most'"),
        ({"diversity": "auto", "lam": 0.1}, "`lam` must not be given together with `diversity`"),
        (
            {"diversity": "auto", "reduction": "sum"},
            "`reduction` must be 'mean' where `diversity` is 'auto'; got 'sum'",
        ),
        (
            {"diversity": "auto", "outputs": "identity"},
            "`outputs` must be 'softmax' where `diversity` is 'auto'; got 'identity'",
        ),
    ],
)
def test_what_auto_cannot_do_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CorrelationLoss(**options)
