"""Predictions are those of the learners, one by one, in evaluation mode."""

import pytest
import torch
from torch import nn

from counterpoint.training import Ensemble, calibrate
from counterpoint.vision import backbone, predict_logits


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
    torch.testing.assert_close(found.softmax(-1), ensemble.member_proba(x), atol=1e-5, rtol=1e-4)


def test_one_logit_for_two_classes_becomes_two():
    ensemble = Ensemble([nn.Sequential(nn.Flatten(), nn.Linear(192, 1)) for _ in range(2)])
    x, y = images()
    found = predict_logits(ensemble, batched(x, y))
    assert found.shape == (2, 10, 2)
    torch.testing.assert_close(found.softmax(-1), ensemble.member_proba(x))


def test_bfloat16_is_close_to_float32():
    ensemble, (x, y) = trained(), images(40)
    exact = predict_logits(ensemble, batched(x, y), precision="float32")
    rough = predict_logits(ensemble, batched(x, y), precision="bf16")
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    # bfloat16 has 8 bits: 0.4 % a rounding, and some dozen of them on the way
    assert (rough - exact).abs().max() < 0.05 * exact.std()


def test_wrong_input_is_refused():
    ensemble, (x, y) = trained(), images()
    with pytest.raises(ValueError, match=r"`batches` must give at least one batch; got none"):
        predict_logits(ensemble, [])
    with pytest.raises(TypeError, match=r"`batches` must give \(x, y\)"):
        predict_logits(ensemble, [x])
    with pytest.raises(ValueError, match=r"`precision` must be one of .*; got 'fp8'"):
        predict_logits(ensemble, batched(x, y), precision="fp8")
    with pytest.raises(ValueError, match=r"`ensemble` must put out .*; got \(4, 3\)\.$"):
        predict_logits(backbone("convnet", 3, width=2), batched(x, y))
