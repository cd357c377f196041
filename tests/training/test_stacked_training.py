"""Stacked learners train as they would one after the other."""

import pytest
import torch
from torch import nn

from counterpoint.training import CorrelationLoss, Ensemble, IndependentLoss, fit
from counterpoint.training.networks import FeatureMask


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 3))


def masked():
    """Return a network that sees half of the inputs, drawn anew each time."""
    return nn.Sequential(FeatureMask(torch.randperm(4) < 2), nn.BatchNorm1d(4), nn.Linear(4, 3))


def convnet(activation=nn.ReLU, pool=nn.MaxPool2d):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), activation(), pool(2), nn.Flatten(), nn.Linear(16, 3)
    )


def smooth_convnet():
    """Return a net without kinks: at one, a rounding error would choose the gradient, and so the way from there."""
    return convnet(nn.GELU, nn.AvgPool2d)


def looped(ensemble):
    """Return the same ensemble without stacking: its learners, one after the other."""
    apart = Ensemble(ensemble.learners)
    apart.body = nn.ModuleList(ensemble.learners)
    return apart


@pytest.mark.parametrize(
    "loss", [CorrelationLoss(0.9), IndependentLoss()], ids=["correlation", "independent"]
)
@pytest.mark.parametrize(
    ("make", "shape", "dtype", "tolerance"),
    [
        (mlp, (4,), torch.float32, 1e-5),
        (mlp, (4,), torch.float64, 1e-12),
        (masked, (4,), torch.float64, 1e-12),
        (smooth_convnet, (1, 6, 6), torch.float32, 1e-5),
        (convnet, (1, 6, 6), torch.float64, 1e-12),
    ],
    ids=["mlp", "mlp-double", "masked", "convnet", "convnet-double"],
)
def test_after_fifty_steps_weights_and_statistics_are_the_same(make, shape, dtype, tolerance, loss):
    torch.manual_seed(0)
    stacked = Ensemble([make().to(dtype) for _ in range(4)])
    apart = looped(stacked)
    assert stacked.is_stacked
    assert not apart.is_stacked
    x = torch.randn(200, *shape, dtype=dtype)
    y = (x.flatten(1)[:, 0] > 0).long() + (x.flatten(1)[:, 1] > 0.5).long()
    batches = list(zip(x.split(40), y.split(40), strict=True))  # 5 batches x 10 epochs
    for ensemble in (stacked, apart):
        # Stochastic gradients: Adam divides by them, which makes a rounding error of nothing into a step.
        fit(
            ensemble,
            batches,
            loss=loss,
            optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            epochs=10,
            progress=False,
        )
    for one, other in zip(stacked.learners, apart.learners, strict=True):
        values, others = one.state_dict(), other.state_dict()
        assert values.keys() == others.keys()
        assert values["1.num_batches_tracked"] == 50
        for name in values:
            torch.testing.assert_close(values[name], others[name], rtol=tolerance, atol=tolerance, msg=name)
