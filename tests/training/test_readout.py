import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from counterpoint.training import Ensemble, calibrate
from counterpoint.training import readout as _readout
from counterpoint.training.readout import Readout


def drifted(n=400, seed=0):
    """Logits of three learners of two classes that tell them apart but stand on one side."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    margin = 0.05 * (y + 0.6 * rng.normal(size=(3, n))) + 1.0
    return torch.tensor(np.stack([np.zeros_like(margin), margin], -1), dtype=torch.float32), torch.tensor(y)


def test_the_identity_changes_nothing():
    logits, _ = drifted()
    assert torch.equal(Readout.identity(3, 2)(logits), logits)


def test_learners_that_stand_on_one_side_are_put_right():
    logits, y = drifted()
    readout = Readout.identity(3, 2).refit(logits, y)
    before, after = ((r.argmax(-1) == y).float().mean(-1) for r in (logits, readout(logits)))
    assert (before < 0.6).all()
    assert (after > 0.75).all()


def test_it_is_logistic_regression_on_the_margin():
    # for two classes, and next to no penalty
    logits, y = drifted()
    weight = torch.rand(len(y), generator=torch.Generator().manual_seed(0))
    proba = Readout.identity(3, 2).refit(logits.double(), y, weight, ridge=1e-9)(logits).softmax(-1)[..., 1]
    for learner in range(3):
        margin = 20 * (logits[learner, :, 1:].numpy() - 1)
        model = LogisticRegression(C=1e9, tol=1e-8).fit(margin, y.numpy(), weight.numpy())
        np.testing.assert_allclose(proba[learner].numpy(), model.predict_proba(margin)[:, 1], atol=1e-3)


def test_single_precision_and_a_start_on_a_part_of_the_samples_do_not_show(monkeypatch):
    logits, y = drifted(4000)
    single = Readout.identity(3, 2).refit(logits, y)(logits)
    monkeypatch.setattr(_readout, "_FEW", 4000)
    monkeypatch.setattr(_readout, "_CLOSE", 1e-6)
    exact = Readout.identity(3, 2).refit(logits.double(), y)(logits)
    torch.testing.assert_close(single.softmax(-1), exact.softmax(-1), atol=1e-3, rtol=0)


@pytest.mark.parametrize("own_targets", [False, True])
def test_the_step_is_that_of_the_derivatives(own_targets):
    g = torch.Generator().manual_seed(2)
    z = torch.randn(2, 4, 30, generator=g, dtype=torch.float64)
    target = torch.randint(4, (2, 30) if own_targets else (30,), generator=g)
    share = torch.rand(target.shape, generator=g, dtype=torch.float64)
    share[..., 3] = 0.0
    share /= share.sum(-1, keepdim=True)
    start, theta = torch.randn(2, 2, 5, generator=g, dtype=torch.float64)
    samples = _readout._Samples(z, target, share, start, 1e-3)
    _, log_proba = samples.value(theta)
    step = samples.newton_step(theta, log_proba.exp())
    for i in range(2):

        def value(t, i=i):
            loss = torch.nn.functional.cross_entropy(
                (t[0] * z[i] + t[1:, None]).T, target.expand(2, 30)[i], reduction="none"
            )
            return (loss * share.expand(2, 30)[i]).sum() + 1e-3 / 2 * (t - start[i]).square().sum()

        assert samples.value(theta)[0][i].item() == pytest.approx(value(theta[i]).item())
        gradient = torch.autograd.functional.jacobian(value, theta[i])
        hessian = torch.autograd.functional.hessian(value, theta[i])
        torch.testing.assert_close(step[i], torch.linalg.solve(hessian, gradient))


def test_learners_that_are_always_right_do_not_become_boundlessly_sure():
    y = torch.arange(60) % 3
    logits = torch.nn.functional.one_hot(y, 3).float().expand(2, 60, 3) * 2
    readout = Readout.identity(2, 3).refit(logits, y)
    assert 1 < readout.scale.max() < 20
    assert readout(logits).softmax(-1).max() < 1


def test_the_size_of_large_logits_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (300,), generator=generator)
    logits = torch.randn(1, 300, 3, generator=generator) + torch.nn.functional.one_hot(y, 3)

    def cross_entropy(size):
        read = Readout.identity(1, 3).refit(size * logits, y)(size * logits)
        return torch.nn.functional.cross_entropy(read[0], y).item()

    for size in (100, 1e3, 1e6, -1e6):
        assert cross_entropy(size) == pytest.approx(cross_entropy(1), abs=2e-3)


def test_a_weight_of_two_is_a_row_twice_and_one_learner_can_be_taken_out():
    logits, y = drifted(40)
    weight = torch.tensor([1.0, 2.0]).repeat(20)
    twice = torch.repeat_interleave(torch.arange(40), weight.long())
    weighted = Readout.identity(3, 2).refit(logits, y, weight)
    repeated = Readout.identity(3, 2).refit(logits[:, twice], y[twice])
    torch.testing.assert_close(weighted(logits), repeated(logits), atol=2e-2, rtol=0)
    torch.testing.assert_close(weighted.of(1)(logits[1]), weighted(logits)[1])


def test_each_learner_may_have_targets_of_its_own():
    g = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 50, 3, generator=g)
    target = torch.randint(3, (2, 50), generator=g)
    weight = torch.rand(2, 50, generator=g)
    weight[1, 40:] = 0
    together = Readout.identity(2, 3).refit(logits, target, weight)
    for i in range(2):
        alone = Readout.identity(1, 3).refit(logits[i : i + 1], target[i], weight[i])
        torch.testing.assert_close(together.of(i).scale, alone.scale[0], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(together.of(i).offset, alone.offset[0], atol=1e-3, rtol=1e-3)


def test_it_is_the_same_under_autocast():
    logits, target = (torch.as_tensor(part) for part in drifted())
    alone = Readout.identity(3, 2).refit(logits.float(), target)
    with torch.autocast("cpu", torch.bfloat16):
        under = Readout.identity(3, 2).refit(logits.float(), target)
    assert torch.equal(under.scale, alone.scale)
    assert torch.equal(under.offset, alone.offset)


def test_learners_do_not_wait_for_each_other():
    logits, y = drifted()
    hopeless = torch.cat([logits, torch.zeros_like(logits[:1]), 1e4 * logits[:1]])
    together = Readout.identity(5, 2).refit(hopeless, y)
    alone = Readout.identity(3, 2).refit(logits, y)
    one, other = (
        readout(hopeless[:3]).softmax(-1)
        for readout in (Readout(together.scale[:3], together.offset[:3]), alone)
    )
    torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_calibrate_takes_one_hot_targets_of_any_type(dtype):
    torch.manual_seed(0)
    ensemble, x = Ensemble([torch.nn.Linear(2, 4) for _ in range(2)]), torch.randn(40, 2)
    y = torch.arange(40) % 4
    expected = calibrate(ensemble, [(x, y)]).readout
    found = calibrate(ensemble, [(x, torch.nn.functional.one_hot(y, 4).to(dtype))]).readout
    assert torch.equal(found.offset, expected.offset)


@pytest.mark.parametrize("size", [0.0, 1e-40])
def test_weights_of_next_to_nothing_give_a_finite_read_out(size):
    logits, y = drifted(40)
    found = Readout.identity(3, 2).refit(logits, y, torch.full((40,), size))
    expected = Readout.identity(3, 2).refit(logits, y) if size else Readout.identity(3, 2)
    torch.testing.assert_close(found(logits), expected(logits), atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "`batches` must yield at least one sample with a label; got none"),
        (
            [
                (torch.ones(4, 2), torch.zeros(4).long(), torch.ones(4)),
                (torch.ones(4, 2), torch.zeros(4).long()),
            ],
            "`batches` must yield weights with every batch or with none; got some of both",
        ),
        ([(torch.ones(4, 2), torch.zeros(4))], "`target` must hold 4 labels, or rows of 2"),
        (
            [(torch.ones(4, 2), torch.zeros(4).long(), torch.ones(4, 1))],
            "`sample_weight` must hold one number for each of the 4 samples",
        ),
        ([(torch.ones(4, 2), torch.full((4,), -100))], "`target` must hold labels from 0 to 1; got -100"),
    ],
)
def test_calibrate_refuses_bad_batches(batches, message):
    with pytest.raises(ValueError, match=message):
        calibrate(Ensemble([torch.nn.Linear(2, 2) for _ in range(2)]), batches)


def test_learners_without_parameters_can_be_calibrated():
    logits, y = drifted()
    ensemble = Ensemble([torch.nn.Identity(), torch.nn.Identity()])
    assert (ensemble.predict(logits[0]) == y).float().mean() < 0.6
    assert (calibrate(ensemble, [(logits[0], y)]).predict(logits[0]) == y).float().mean() > 0.75


def test_a_compiled_ensemble_can_be_calibrated():
    logits, y = drifted()
    ensemble = Ensemble([torch.nn.Linear(2, 2)])
    calibrate(torch.compile(ensemble, backend="eager"), [(logits[0], y)])
    assert ensemble.readout is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(torch.nn.Linear(2, 2), []), "`ensemble` must be an Ensemble; got Linear"),
        (
            lambda: calibrate(Ensemble([torch.nn.Linear(2, 2)]), None),
            "`batches` must be an iterable of .* got None",
        ),
        (
            lambda: calibrate(Ensemble([torch.nn.Linear(2, 2)]), [], max_samples=1e4),
            "`max_samples` must be an integer; got 10000.0",
        ),
        (lambda: Readout.identity(2.0, 3), "`n_learners` must be an integer; got 2.0"),
        (lambda: Readout.identity(2, True), "`n_classes` must be an integer; got True"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
