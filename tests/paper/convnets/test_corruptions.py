"""Corrupted images: held to SciPy, Pillow and the order of their strengths."""

import io

import numpy as np
import pytest
import torch
from scipy import ndimage

from paper.convnets import corruptions
from paper.convnets.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from paper.convnets.images import ImageSets

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def smooth():
    """Return images with edges no sharper than those of photographs."""
    noise = np.random.default_rng(0).normal(size=(40, 32, 32, 3))
    soft = ndimage.gaussian_filter(noise, (0, 1.5, 1.5, 0.5))
    return np.clip(128 + 60 * soft / soft.std(), 0, 255).astype(np.uint8)


def change(x, name, strength):
    return np.abs(corrupt(x, name, strength).astype(int) - x).mean()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_stronger_corruption_changes_more(name, smooth):
    found = [change(smooth, name, strength) for strength in range(1, 6)]
    assert found[0] > 0.5
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_images_of_any_size_keep_shape_and_kind(name):
    digits = ImageSets(None, smoke=True)["digits"].x_test
    for x in (digits, digits[:3, :5, :7], torch.tensor(digits[:3, :, :6])):
        before = x.copy() if isinstance(x, np.ndarray) else x.clone()
        changed = corrupt(x, name, 5)
        assert type(changed) is type(x)
        assert changed.shape == x.shape
        assert changed.dtype == x.dtype
        assert (x == before).all()
        assert (changed != x).any()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_seed_determines_the_images(name, smooth):
    first, same, other = (corrupt(smooth, name, 2, random_state=seed) for seed in (0, 0, 1))
    assert (first == same).all()
    assert (first != other).any() == (name == "noise")
    as_tensor = corrupt(torch.tensor(smooth), name, 2)
    assert (first == as_tensor.numpy()).all()


def test_noise_has_the_standard_deviation_of_its_strength():
    grey = np.full((50, 32, 32, 3), 128, dtype=np.uint8)
    for strength, deviation in enumerate(SEVERITIES["noise"], start=1):
        noise = (corrupt(grey, "noise", strength).astype(float) - 128) / 255
        assert noise.std() == pytest.approx(deviation, rel=0.01)
        assert abs(noise.mean()) < 0.001


def test_contrast_keeps_the_mean_and_scales_the_deviation(smooth):
    for strength, share in enumerate(SEVERITIES["contrast"], start=1):
        changed = corrupt(smooth, "contrast", strength)
        np.testing.assert_allclose(changed.mean((1, 2)), smooth.mean((1, 2)), atol=0.3)
        np.testing.assert_allclose(changed.std((1, 2)), share * smooth.std((1, 2)), atol=0.2)


def test_blur_is_that_of_scipy(smooth):
    for strength, deviation in enumerate(SEVERITIES["blur"], start=1):
        # the settings of CIFAR-10-C, which blurs by scikit-image
        expected = ndimage.gaussian_filter(
            smooth.astype(float), (0, deviation, deviation, 0), mode="nearest", truncate=4.0
        )
        np.testing.assert_allclose(corrupt(smooth, "blur", strength), expected, atol=0.501)


def test_pixelation_is_that_of_pillow(smooth):
    for strength, share in enumerate(SEVERITIES["pixelate"], start=1):
        side = int(32 * share)
        small = [Image.fromarray(x).resize((side, side), Image.Resampling.BOX) for x in smooth]
        expected = np.stack([np.asarray(x.resize((32, 32), Image.Resampling.BOX)) for x in small])
        # Pillow rounds after rows and again after columns
        np.testing.assert_allclose(corrupt(smooth, "pixelate", strength), expected, atol=1)


def compressed(x, quality):
    with io.BytesIO() as file:
        Image.fromarray(x).save(file, "JPEG", quality=quality, subsampling=0)
        return np.asarray(Image.open(file)).astype(int)


def test_jpeg_is_that_of_pillow_without_subsampling(smooth):
    for strength, quality in enumerate(SEVERITIES["jpeg"], start=1):
        expected = np.stack([compressed(x, quality) for x in smooth])
        away = np.abs(corrupt(smooth, "jpeg", strength) - expected)
        # Pillow's fixed-point transform rounds a few coefficients the other way
        assert away.mean() < 0.1 * np.abs(smooth - expected).mean()


def test_jpeg_of_the_highest_quality_is_nearly_the_image(smooth, monkeypatch):
    monkeypatch.setattr(corruptions, "SEVERITIES", {"jpeg": (100,)})
    assert np.abs(corrupt(smooth, "jpeg", 1).astype(int) - smooth).max() <= 4
    assert change(smooth, "jpeg", 1) < 0.7


@pytest.mark.parametrize(
    ("x", "name", "strength", "words"),
    [
        (np.zeros((1, 8, 8, 3), dtype=np.uint8), "fog", 1, "`name` must be one of noise, blur.*got 'fog'"),
        (np.zeros((1, 8, 8, 3), dtype=np.uint8), "blur", 0, "`strength` must be from 1 to 5; got 0"),
        (np.zeros((1, 8, 8, 3)), "blur", 1, "`x` must hold bytes.*got float64"),
        (np.zeros((1, 3, 8, 8), dtype=np.uint8), "blur", 1, r"got uint8 of shape \(1, 3, 8, 8\)"),
    ],
)
def test_other_arguments_are_refused(x, name, strength, words):
    with pytest.raises(ValueError, match=words):
        corrupt(x, name, strength)
