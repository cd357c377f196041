import pytest
import torch
from torch import nn

from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    Ensemble,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    accumulate_gradients,
    fit,
)

LOSSES = [
    CorrelationLoss(0.8),
    DiversityLoss(),
    IndependentLoss(),
    JointLoss(),
    NegativeCorrelationLoss(),
    lambda logits, y, *_: logits.std() * logits.mean(0)[:, 0].var(),
]


def ensemble_of(*layers):
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(4, 6), *layers, nn.Tanh(), nn.Linear(6, 3)) for _ in range(4)]
    return Ensemble(nets).double()


def samples(n=42):
    torch.manual_seed(1)
    return torch.randn(n, 4, dtype=torch.float64), torch.randint(3, (n,))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: str(loss).partition(" at 0x")[0])
def test_the_gradient_of_parts_is_that_of_the_whole_batch(loss, weighted):
    x, y = samples()
    given = (torch.rand(42, dtype=torch.float64),) if weighted else ()
    whole, parts = ensemble_of(), ensemble_of()
    expected = loss(whole(x), y, *given)
    expected.backward()
    batches = zip(*(part.split(16) for part in (x, y, *given)), strict=True)
    logits, found = accumulate_gradients(parts, loss, batches)
    assert found.item() == pytest.approx(expected.item(), abs=1e-12)
    torch.testing.assert_close(logits, whole(x).detach(), rtol=0, atol=1e-12)
    for ours, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_dropout_is_the_same_in_both_passes_and_statistics_are_updated_once():
    x, y = samples()
    parts, ordinary = (ensemble_of(nn.BatchNorm1d(6), nn.Dropout(0.5)) for _ in range(2))
    torch.manual_seed(5)
    logits, _ = accumulate_gradients(parts, DiversityLoss(), zip(x.split(21), y.split(21), strict=True))
    torch.manual_seed(5)
    expected = [ordinary(part) for part in x.split(21)]
    torch.testing.assert_close(logits, torch.cat(expected, 1).detach())
    loss = DiversityLoss()(torch.cat(expected, 1), y)
    loss.backward()
    for ours, theirs in zip(parts.parameters(), ordinary.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)
    for ours, theirs in zip(parts.buffers(), ordinary.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
def test_fit_with_accumulation_takes_the_steps_of_large_batches(loss):
    x, y = samples()
    found = []
    for size, accumulate in ((32, 1), (8, 4)):
        ensemble = ensemble_of()
        batches = list(zip(x.split(size), y.split(size), strict=True))
        settings = {"optimizer": torch.optim.Adam, "epochs": 3, "progress": False}
        history = fit(ensemble, batches, loss=loss, accumulate=accumulate, **settings)
        found.append((ensemble.state_dict(), history))
    for name, value in found[0][0].items():
        torch.testing.assert_close(
            found[1][0][name], value, rtol=0, atol=1e-6 if "readout" in name else 1e-12
        )
    for name in ("loss", "r_tl", "vote_accuracy"):
        assert found[1][1][name] == pytest.approx(found[0][1][name], abs=1e-9)


class Heads(nn.Module):
    """Five learners, of which the batch comes first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 15)

    def forward(self, x):
        return self.layer(x).view(-1, 5, 3)


class Named(nn.Module):
    """Learners that may take their input by name."""

    def __init__(self, n=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 3) for _ in range(n))

    def forward(self, features):
        return torch.stack([layer(features) for layer in self.layers])


@pytest.mark.parametrize("accumulate", [1, 2])
def test_batches_are_checked_and_given_by_name_with_any_accumulation(accumulate):
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    batches = list(zip(x.split(5), y.split(5), strict=True))
    options = {"optimizer": torch.optim.Adam, "epochs": 1, "progress": False, "accumulate": accumulate}
    with pytest.raises(ValueError, match="got the batch first"):
        fit(Heads(), batches, loss=DiversityLoss(), **options)
    history = fit(
        Named(), batches, loss=DiversityLoss(), unpack=lambda b: ({"features": b[0]}, b[1]), **options
    )
    assert history["loss"][0] > 0
    whole = Ensemble([nn.Linear(4, 3) for _ in range(3)])
    with pytest.raises(TypeError, match=r"`batches` must yield inputs of torch\.float32"):
        fit(whole, [(part.double(), own) for part, own in batches], loss=DiversityLoss(), **options)
    with pytest.raises(ValueError, match="`loss` must return one number"):
        fit(whole, batches, loss=lambda logits, y: logits.mean((0, 2)), **options)


def test_weights_of_samples_and_of_tokens_and_none_are_joined():
    x, y = torch.randn(9, 5, 4, dtype=torch.float64), torch.randint(3, (9, 5))
    tokens, sequences = torch.rand(3, 5, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    loss = lambda logits, y, w: IndependentLoss()(logits.flatten(1, 2), y.flatten(), w.flatten())  # noqa: E731
    whole, parts = ensemble_of(), ensemble_of()
    weight = torch.cat([torch.ones_like(tokens), sequences[:, None].expand(-1, 5), tokens])
    expected = loss(whole(x), y, weight)
    expected.backward()
    given = [(x[:3], y[:3]), (x[3:6], y[3:6], sequences), (x[6:], y[6:], tokens)]
    _, found = accumulate_gradients(parts, loss, given)
    assert found.item() == pytest.approx(expected.item(), abs=1e-12)
    for ours, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_sequences_of_other_lengths_are_not_accumulated():
    parts = [(torch.randn(3, n, 4, dtype=torch.float64), torch.zeros(3, n, dtype=torch.long)) for n in (5, 7)]
    with pytest.raises(
        ValueError, match=r"samples of one shape, to be accumulated; got outputs of \(5, 3\) and \(7, 3\)"
    ):
        accumulate_gradients(ensemble_of(), IndependentLoss(), parts)


def test_accumulation_of_nothing_or_of_no_batches_is_refused():
    with pytest.raises(ValueError, match="at least one batch"):
        accumulate_gradients(ensemble_of(), DiversityLoss(), [])
    x, y = samples()
    with pytest.raises(ValueError, match="`accumulate` must be at least 1"):
        fit(
            ensemble_of(),
            [(x, y)],
            loss=DiversityLoss(),
            optimizer=torch.optim.Adam,
            epochs=1,
            accumulate=0,
        )


def test_the_axes_are_checked_in_the_precision_of_the_run():
    x, y = torch.randn(10, 4).bfloat16(), torch.arange(10) % 3
    batches = list(zip(x.split(5), y.split(5), strict=True))  # as many samples as learners
    options = {"loss": DiversityLoss(), "optimizer": torch.optim.Adam, "epochs": 1, "progress": False}
    history = fit(Named(5), batches, precision="bf16", accumulate=2, **options)
    assert history["loss"][0] > 0
