"""Predictions are those of the learners, one by one, in evaluation mode."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from counterpoint.training import Ensemble, calibrate
from counterpoint.vision import backbone, predict_logits, predict_proba


def images(n=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, 8, 8, generator=generator)
    return x, torch.arange(n) % 3


def trained(n=3):
    """Return convnets whose normalisation has seen some images."""
    torch.manual_seed(0)
    ensemble = Ensemble([backbone("convnet", 3, width=4) for _ in range(n)])
    for _ in range(5):
        ensemble(images(32)[0])
    return ensemble


def batched(x, y, size=4):
    return list(zip(x.split(size), y.split(size), strict=True))


def test_logits_are_those_of_each_learner_alone():
    ensemble, (x, y) = trained(), images()
    ensemble.train()
    found = predict_logits(ensemble, batched(x, y))
    assert ensemble.training
    assert all(part.training for part in ensemble.modules())
    assert not found.requires_grad
    for learner, logits in zip(ensemble.learners, found, strict=True):
        torch.testing.assert_close(logits, learner.eval()(x), atol=1e-5, rtol=1e-4)


def test_mirror_images_are_averaged_in_logits():
    ensemble, (x, y) = trained(), images()
    found = predict_logits(ensemble, batched(x, y), flip=True)
    ensemble.eval()
    torch.testing.assert_close(found, (ensemble(x) + ensemble(x.flip(-1))) / 2, atol=1e-5, rtol=1e-4)
    views = [([part] * 3, target) for part, target in batched(x, y)]
    torch.testing.assert_close(predict_logits(ensemble, views, flip=True), found, atol=1e-5, rtol=1e-4)


def test_the_read_out_is_applied():
    ensemble, (x, y) = trained(), images(60)
    calibrate(ensemble, batched(x, y))
    found = predict_logits(ensemble, batched(x, y))
    assert not torch.allclose(found, ensemble.eval()(x), atol=1e-3)
    torch.testing.assert_close(found.softmax(-1), ensemble.learner_proba(x), atol=1e-5, rtol=1e-4)


def test_a_layer_of_another_module_is_no_read_out():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.readout, self.outputs = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return torch.stack([self.readout(x), self.outputs(x)])

    pair, x = Pair(), torch.rand(6, 3)
    torch.testing.assert_close(predict_logits(pair, x.split(4)), pair(x).detach())


def test_one_logit_for_two_classes_becomes_two():
    ensemble = Ensemble([nn.Sequential(nn.Flatten(), nn.Linear(192, 1)) for _ in range(2)])
    x, y = images()
    found = predict_logits(ensemble, batched(x, y))
    assert found.shape == (2, 10, 2)
    torch.testing.assert_close(found.softmax(-1), ensemble.learner_proba(x))


def test_bfloat16_is_close_to_float32():
    ensemble, (x, y) = trained(), images(40)
    exact = predict_logits(ensemble, batched(x, y), precision="float32")
    rough = predict_logits(ensemble, batched(x, y), precision="bf16")
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    # bfloat16 has 8 bits: 0.4 % a rounding, and some dozen of them on the way
    assert (rough - exact).abs().max() < 0.05 * exact.std()


def test_labels_need_not_be_there():
    ensemble, (x, y) = trained(), images()
    expected = predict_logits(ensemble, batched(x, y))
    for data in (x, TensorDataset(x), TensorDataset(x, y), TensorDataset(x, y, torch.ones(10))):
        loader = DataLoader(data, batch_size=4)
        assert torch.equal(predict_logits(ensemble, loader), expected)
    assert torch.equal(
        predict_logits(ensemble, [(part, ["cat"] * len(part)) for part in x.split(4)]), expected
    )


class Mirrors(nn.Module):
    """Two learners without parameters."""

    def forward(self, x):
        return torch.stack([x, -x])


def test_an_ensemble_may_have_no_parameters():
    x = torch.rand(6, 3)
    assert torch.equal(predict_logits(Mirrors(), x.split(4)), torch.stack([x, -x]))
    ensemble = Ensemble([nn.Identity(), nn.Identity()])
    torch.testing.assert_close(predict_logits(ensemble, x.split(4)).softmax(-1), ensemble.learner_proba(x))


def test_bytes_are_for_networks_that_take_them():
    class Normalised(nn.Module):
        def __init__(self, ensemble):
            super().__init__()
            self.ensemble = ensemble

        def forward(self, x):
            return self.ensemble(x / 255)

    ensemble, x = trained(), torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    found = predict_logits(Normalised(ensemble), [x])
    assert torch.equal(found, predict_logits(ensemble, [x / 255]))
    for wrong in (x, x.double()):
        message = (
            rf"`batches` must yield inputs of torch\.float32, the dtype of `ensemble`; got {wrong.dtype}, and"
        )
        with pytest.raises(TypeError, match=message):
            predict_logits(ensemble, [wrong])
        with pytest.raises(TypeError, match=message):
            predict_logits(ensemble, [([wrong] * 3, torch.zeros(4))])
    with pytest.raises(RuntimeError, match="channels"):  # torch's own sentence on images of another kind
        predict_logits(ensemble, [torch.zeros(4, 1, 8, 8)])


def test_learners_that_put_out_probabilities_have_no_logits():
    learners = [nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1)) for _ in range(2)]
    ensemble = Ensemble(learners, activation="identity")
    with pytest.raises(
        ValueError, match=r"`ensemble` must return logits; got .* probabilities: use its `learner_proba`"
    ):
        predict_logits(ensemble, [torch.rand(4, 3)])


def test_numbers_of_a_regression_are_no_logits():
    ensemble, x = Ensemble([nn.Linear(4, 1) for _ in range(3)], activation="regression"), torch.randn(5, 4)
    for predict in (predict_logits, predict_proba):
        with pytest.raises(ValueError, match="got one that returns numbers: use its `predict`"):
            predict(ensemble, [x])


def test_an_ensemble_inside_any_wrapper_has_its_read_out():
    ensemble, (x, y) = trained(), images()
    wrapped = torch.optim.swa_utils.AveragedModel(ensemble)
    calibrate(wrapped, batched(x, y))
    inner = wrapped.module
    assert inner.readout is not None
    torch.testing.assert_close(predict_logits(wrapped, [x]).softmax(-1), inner.learner_proba(x))
    torch.testing.assert_close(predict_proba(wrapped, [x]), inner.predict_proba(x))


def test_a_compiled_wrapper_has_the_read_out_at_every_call():
    ensemble, (x, y) = trained(), images()
    wrapped = torch.compile(Passing(ensemble), backend="eager")
    calibrate(ensemble, batched(x, y))
    for _ in range(3):
        torch.testing.assert_close(predict_logits(wrapped, [x]), predict_logits(ensemble, [x]))
        torch.testing.assert_close(predict_proba(wrapped, [x]), ensemble.predict_proba(x))


def test_threads_that_predict_with_one_wrapped_ensemble_all_have_its_read_out():
    ensemble, (x, y) = trained(), images()
    calibrate(ensemble, batched(x, y))
    expected, wrapped = predict_logits(ensemble, [x]), Passing(ensemble)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: predict_logits(wrapped, [x]), range(24)):
            torch.testing.assert_close(found, expected)


class Student(nn.Module):
    """A module with an ensemble inside that returns outputs of its own."""

    def __init__(self, teacher):
        super().__init__()
        self.teacher = teacher

    def forward(self, x):
        return 2 * self.teacher(x)


def test_the_read_out_is_that_of_the_outputs():
    ensemble, (x, y) = trained(), images()
    calibrate(ensemble, batched(x, y))
    student = Student(ensemble)
    with torch.no_grad():
        torch.testing.assert_close(predict_logits(student, [x]), student.eval()(x))
    with pytest.raises(TypeError, match="`ensemble` must be an Ensemble; got Student"):
        predict_proba(student, [x])


class Passing(nn.Module):
    """A wrapper that returns the outputs in full precision, or adds nothing yet, as an adapter does at the start."""

    def __init__(self, inner, *, adds=False):
        super().__init__()
        self.inner, self.adds = inner, adds

    def forward(self, x):
        return self.inner(x) + torch.zeros(()) if self.adds else self.inner(x).float()


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_read_out_of_outputs_in_full_precision_and_not_finite_is_kept(precision):
    ensemble, (x, y) = trained(), images()
    calibrate(ensemble, batched(x, y))
    x[0] = torch.nan
    expected = predict_logits(ensemble, [x], precision=precision)
    found = predict_logits(Passing(ensemble), [x[1:]], precision=precision)
    torch.testing.assert_close(found, expected[:, 1:])
    if precision == "float32":
        torch.testing.assert_close(predict_logits(Passing(ensemble), [x]), expected, equal_nan=True)


def test_outputs_that_only_happen_to_be_those_of_an_ensemble_have_no_read_out():
    ensemble, (x, y) = trained(), images()
    calibrate(ensemble, batched(x, y))
    with torch.no_grad():
        torch.testing.assert_close(predict_logits(Passing(ensemble, adds=True), [x]), ensemble.eval()(x))


def test_wrong_input_is_refused():
    ensemble, (x, y) = trained(), images()
    with pytest.raises(ValueError, match=r"`batches` must yield at least one batch; got none"):
        predict_logits(ensemble, [])
    for wrong in ((x, y, y, y), (), ([], y), (x.numpy(), y), "x"):
        with pytest.raises(
            TypeError, match=r"`batches` must yield tensors, as x, \(x, y\) or \(x, y, sample_weight\); got"
        ):
            predict_logits(ensemble, [wrong])
    with pytest.raises(TypeError, match=r"`batches` must be an iterable of batches; got one tensor\.$"):
        predict_logits(ensemble, x)
    with pytest.raises(TypeError, match=r"`batches` must be an iterable of batches; got None\.$"):
        predict_logits(ensemble, None)
    with pytest.raises(TypeError, match=r"`ensemble` must be a torch Module; got list\.$"):
        predict_logits(ensemble.learners, batched(x, y))
    with pytest.raises(TypeError, match=r"`flip` must be True or False; got 'no'\.$"):
        predict_logits(ensemble, batched(x, y), flip="no")
    with pytest.raises(ValueError, match=r"`precision` must be one of .*; got 'fp8'"):
        predict_logits(ensemble, batched(x, y), precision="fp8")
    with pytest.raises(ValueError, match=r"`ensemble` must return .*; got \(4, 3\)\.$"):
        predict_logits(backbone("convnet", 3, width=2), batched(x, y))
    with pytest.raises(ValueError, match=r"`ensemble` must return .*; got tuple\.$"):
        predict_logits(nn.LSTM(8, 8), [torch.zeros(2, 3, 8)])
