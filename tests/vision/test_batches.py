"""Batches made on the device equal what is made image by image in NumPy, and a resumed run sees the same ones."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from counterpoint.training import CorrelationLoss, Ensemble, IndependentLoss, fit
from counterpoint.vision import ImageBatches, backbone

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def some(n=20, height=12, width=10, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8), np.arange(n) % 3


def batches_of(images, labels, **options):
    return ImageBatches(images, labels, **({"batch_size": 8, "device": "cpu", "crop_padding": 3} | options))


def normalised(image):
    """Return one image (H, W, 3) as float64 (3, H, W)."""
    return ((image / 255 - MEAN) / STD).transpose(2, 0, 1)


def reference(image, down, right, mirror, top, left, *, padding, cutout):
    """Return one augmented image, made with NumPy's own padding and slices."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)), mode="reflect")
    crop = padded[padding + down : padding + down + height, padding + right : padding + right + width]
    x = normalised(crop[:, ::-1] if mirror else crop)
    x[:, max(top, 0) : max(top + cutout, 0), max(left, 0) : max(left + cutout, 0)] = 0
    return x


@pytest.mark.parametrize("cutout", [0, 5])
@pytest.mark.parametrize("views", [None, 3])
def test_a_batch_equals_the_plain_reference_for_the_same_draws(views, cutout):
    images, labels = some()
    batches = batches_of(images, labels, views=views, cutout=cutout, random_state=5)
    twin = batches_of(images, labels, views=views, cutout=cutout, random_state=5)
    order = torch.randperm(len(images), generator=twin.generator).tolist()
    moves = [part.numpy() for part in twin._draw(len(images))]
    seen = 0
    for x, y in batches:
        each = [x] if views is None else x
        assert len(each) == (views or 1)
        for k, view in enumerate(each):
            assert view.shape == (8, 3, 12, 10)
            for place in range(8):
                number = order[seen + place]
                drawn = [part[k, seen + place] for part in moves]
                expected = reference(images[number], *drawn, padding=3, cutout=cutout)
                np.testing.assert_allclose(view[place], expected, atol=1e-5)
                assert y[place] == labels[number]
        seen += 8
    assert seen == 16  # of 20: the last batch is dropped


def test_draws_take_every_value_they_may():
    images, labels = some(n=3000, height=8, width=8)
    moves = batches_of(images, labels, cutout=4)._draw(3000)
    for part in (moves.down, moves.right):
        counts = np.bincount(part.flatten() + 3, minlength=7)
        assert len(counts) == 7  # 3000/7 = 429 of each; five standard deviations are 96
        assert abs(counts - 3000 / 7).max() < 96
    assert abs(moves.mirror.float().mean() - 0.5) < 0.046  # five standard deviations
    assert (moves.top.min(), moves.top.max()) == (-2, 5)
    assert torch.equal(moves.left.unique(), torch.arange(-2, 6))


def test_learners_get_views_of_their_own_of_the_same_images():
    images, labels = some()
    (one, two), _ = next(iter(batches_of(images, labels, views=2)))
    assert not torch.equal(one, two)
    still = batches_of(images, labels, views=2, crop_padding=0)
    (one, two), _ = next(iter(still))
    for a, b in zip(one, two, strict=True):  # a mirror image at most
        assert torch.equal(a, b) or torch.equal(a, b.flip(-1))


def test_without_augmentation_all_images_come_once_in_order():
    images, labels = some()
    batches = batches_of(images, labels, augment=False)
    found = list(batches)
    assert len(found) == len(batches) == 3
    assert [len(y) for _, y in found] == [8, 8, 4]
    expected = np.stack([normalised(image) for image in images])
    np.testing.assert_allclose(torch.cat([x for x, _ in found]), expected, atol=1e-5)
    assert torch.equal(torch.cat([y for _, y in found]), torch.as_tensor(labels))
    own = batches_of(images, labels, augment=False, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 1))
    np.testing.assert_allclose(next(iter(own))[0][0, 2], images[0, :, :, 2] / 255 - 0.5, atol=1e-6)


@pytest.mark.parametrize("size", [32, 6])
def test_resizing_is_that_of_torch(size):
    images, labels = some()
    plain = torch.cat([x for x, _ in batches_of(images, labels, augment=False)])
    resized = torch.cat([x for x, _ in batches_of(images, labels, augment=False, size=size)])
    expected = F.interpolate(plain, (size, size), mode="bilinear", align_corners=False, antialias=size < 12)
    assert torch.equal(resized, expected)


def test_images_that_get_smaller_are_averaged_and_not_sampled():
    board = (np.indices((16, 16)).sum(0) % 2 * 255).astype(np.uint8)  # of single pixels, black and white
    images = np.broadcast_to(board[None, :, :, None], (1, 16, 16, 3))
    options = {"augment": False, "mean": (0, 0, 0), "std": (1, 1, 1), "device": "cpu"}
    x, _ = next(iter(ImageBatches(images, [0], size=4, **options)))
    # Grey throughout; a corner has fewer pixels, by which the triangle of weights is cut off.
    assert (x - 0.5).abs().max() < 0.02


@pytest.mark.parametrize("size", [None, 24, 6, 11])
def test_channels_last_changes_the_layout_and_no_number(size):
    images, labels = some()
    last, first = (batches_of(images, labels, size=size, cutout=3) for _ in range(2))
    last._channels_last = True  # as on CUDA
    for (a, _), (b, _) in zip(last, first, strict=True):
        assert a.is_contiguous(memory_format=torch.channels_last)
        assert b.is_contiguous()
        torch.testing.assert_close(a, b)


def test_a_shuffled_epoch_has_every_image_once_and_the_next_another_order():
    images, _ = some()
    batches = batches_of(images, np.arange(20), drop_last=False)
    first, second = (torch.cat([y for _, y in batches]).tolist() for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    again = torch.cat([y for _, y in batches_of(images, np.arange(20), drop_last=False)]).tolist()
    assert again == first  # the seed
    unshuffled = batches_of(images, np.arange(20), drop_last=False, shuffle=False)
    assert torch.cat([y for _, y in unshuffled]).tolist() == list(range(20))


def test_the_layout_of_the_input_and_of_the_batches_changes_no_number():
    images, labels = some()
    plain, _ = next(iter(batches_of(images, labels)))
    for given in (
        images.transpose(0, 3, 1, 2),
        torch.as_tensor(images),
        torch.as_tensor(images).movedim(3, 1),
    ):
        assert torch.equal(next(iter(batches_of(given, labels)))[0], plain)
    batches = batches_of(images, labels, size=24, views=2)
    batches._channels_last = True
    last, _ = next(iter(batches))
    first, _ = next(iter(batches_of(images, labels, size=24, views=2)))
    assert plain.is_contiguous()
    for a, b in zip(last, first, strict=True):
        assert a.is_contiguous(memory_format=torch.channels_last)
        assert b.is_contiguous()
        torch.testing.assert_close(a, b)


def test_the_dtype_is_rounded_once_at_the_end():
    images, labels = some()
    plain, _ = next(iter(batches_of(images, labels, size=24)))
    half, _ = next(iter(batches_of(images, labels, size=24, dtype=torch.bfloat16)))
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, plain.bfloat16())


def test_arrays_are_left_alone_and_may_be_read_only():
    images, labels = some()
    kept = images.copy()
    images.flags.writeable = False
    for _ in batches_of(images, labels, cutout=4):
        pass
    assert np.array_equal(images, kept)
    for x, _ in batches_of(torch.as_tensor(kept), labels, cutout=4):
        x.zero_()  # what the user does to a batch is his own
    assert np.array_equal(kept, images)


def test_arrays_may_be_read_backwards_and_labels_of_any_integers():
    images, labels = some()
    x, y = next(iter(batches_of(images[::-1], labels[::-1].astype(np.uint16), augment=False)))
    np.testing.assert_allclose(x[0], normalised(images[-1]), atol=1e-5)
    assert y.dtype == torch.int64
    assert y.tolist() == labels[::-1][:8].tolist()


def test_images_smaller_than_the_shift_are_refused_only_where_they_are_shifted():
    images, labels = some(height=4, width=4)
    x, _ = next(iter(ImageBatches(images, labels, augment=False, device="cpu")))
    assert x.shape == (20, 3, 4, 4)
    with pytest.raises(ValueError, match=r"`crop_padding` must be less than .*, \(4, 4\); got 4\.$"):
        ImageBatches(images, labels, device="cpu")


def test_the_largest_shift_reflects_all_but_one_pixel():
    images, labels = some(height=4, width=4)
    batches, twin = (
        batches_of(images, labels, random_state=1) for _ in range(2)
    )  # a shift of 3 at most, of 4 pixels
    order = torch.randperm(20, generator=twin.generator).tolist()
    moves = [part[0].numpy() for part in twin._draw(20)]
    x = torch.cat([x for x, _ in batches])
    assert max(abs(moves[0][:16])) == 3
    for place, found in enumerate(x):
        drawn = [part[place] for part in moves]
        expected = reference(images[order[place]], *drawn, padding=3, cutout=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", [0, np.uint8(2), 2**63, 2**64 - 1])
def test_every_seed_of_torch_is_taken_as_it_is(seed):
    assert batches_of(*some(), random_state=seed).generator.initial_seed() == seed


def test_a_last_batch_is_kept_where_there_are_fewer_images_than_a_batch():
    assert [len(y) for _, y in batches_of(*some(), batch_size=32)] == [20]


class InterruptedRunError(Exception):
    pass


def two_convnets():
    torch.manual_seed(0)
    return Ensemble([backbone("convnet", 3, width=2) for _ in range(2)])


def train(batches, checkpoint=None, stop_at=None, validation=None):
    ensemble = two_convnets()

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    class Stop:
        n_batches = 0

        def on_batch_end(self, state):
            self.n_batches += 1
            if self.n_batches == stop_at:
                raise InterruptedRunError

    options = {"loss": CorrelationLoss(0.5), "optimizer": optimizer, "epochs": 3, "progress": False}
    fit(
        ensemble,
        batches,
        validation=validation,
        checkpoint=checkpoint,
        resume=True,
        callbacks=[Stop()],
        **options,
    )
    return ensemble


@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("stop_at", [1, 5, 6])  # of nine batches, three an epoch
def test_a_resumed_run_sees_the_same_batches(tmp_path, stop_at, validated):
    data = some(n=24, height=8, width=8)

    def run(**options):
        held_out = batches_of(*some(n=9, height=8, width=8, seed=1), augment=False) if validated else None
        return train(batches_of(*data, views=2, cutout=3), validation=held_out, **options)

    whole = run()
    with pytest.raises(InterruptedRunError):
        run(checkpoint=tmp_path / "run", stop_at=stop_at)
    resumed = run(checkpoint=tmp_path / "run")
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


def test_the_same_training_from_a_plain_data_loader():
    images, labels = some(n=24, height=8, width=8)
    batches = batches_of(images, labels, augment=False)
    pixels = torch.as_tensor(np.stack([normalised(image) for image in images])).float()
    loader = DataLoader(TensorDataset(pixels, torch.as_tensor(labels)), batch_size=8)
    for (x, y), (x_plain, y_plain) in zip(batches, loader, strict=True):
        torch.testing.assert_close(x, x_plain, atol=1e-5, rtol=0)
        assert torch.equal(y, y_plain)
    options = {"optimizer": lambda p: torch.optim.SGD(p, 0.05), "epochs": 2, "progress": False}
    device, plain = (
        fit(two_convnets(), data, loss=IndependentLoss(), **options) for data in (batches, loader)
    )
    assert device[-1]["loss"] == pytest.approx(plain[-1]["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"images": [[1]]}, TypeError, r"`images` must be an array or a tensor; got list\.$"),
        ({"images": np.zeros((20, 8, 8, 3))}, TypeError, r"`images` must hold bytes, uint8; got float64\.$"),
        (
            {"images": np.zeros((20, 8, 8), np.uint8)},
            ValueError,
            r"`images` must have the shape .*; got \(20, 8, 8\)\. Repeat the channel of grey images",
        ),
        ({"images": np.zeros((20, 8, 8, 4), np.uint8)}, ValueError, r"`images` .*; got \(20, 8, 8, 4\)\.$"),
        ({"images": np.zeros((0, 8, 8, 3), np.uint8)}, ValueError, r"`images` .*; got \(0, 8, 8, 3\)\.$"),
        (
            {"labels": np.zeros(19, int)},
            ValueError,
            r"`labels` must have the shape \(20,\), .*; got \(19,\)\.$",
        ),
        ({"labels": np.zeros(20)}, TypeError, r"`labels` must be integers; got float64\.$"),
        ({"labels": torch.zeros(20)}, TypeError, r"`labels` must be integers; got float32\.$"),
        ({"labels": torch.zeros(20).bfloat16()}, TypeError, r"`labels` must be integers; got bfloat16\.$"),
        ({"labels": [[0], [1, 2]]}, TypeError, r"`labels` must be integers; got \[\[0\], \[1, 2\]\]\.$"),
        ({"labels": ["cat"] * 20}, TypeError, r"`labels` must be integers; got <U3\.$"),
        (
            {"labels": np.full(20, -1)},
            ValueError,
            r"`labels` must be at least 0 and below 2\*\*63; got -1\.$",
        ),
        (
            {"labels": np.full(20, 2**63, dtype=np.uint64)},
            ValueError,
            r"below 2\*\*63; got 9223372036854775808\.$",
        ),
        ({"batch_size": 0}, ValueError, r"`batch_size` must be at least 1; got 0\.$"),
        (
            {"batch_size": 21, "drop_last": True},
            ValueError,
            r"`batch_size` must be at most .*, 20, .*; got 21\.$",
        ),
        ({"batch_size": 4.0}, TypeError, r"`batch_size` must be an integer; got 4\.0\.$"),
        ({"size": 0}, ValueError, r"`size` must be at least 1; got 0\.$"),
        ({"size": (32, 32)}, TypeError, r"`size` must be an integer; got \(32, 32\)\.$"),
        ({"size": True}, TypeError, r"`size` must be an integer; got True\.$"),
        ({"views": [1, 2]}, TypeError, r"`views` must be an integer; got \[1, 2\]\.$"),
        ({"augment": "no"}, TypeError, r"`augment` must be True or False; got 'no'\.$"),
        ({"shuffle": 2}, TypeError, r"`shuffle` must be True or False; got 2\.$"),
        ({"drop_last": 2}, TypeError, r"`drop_last` must be True or False; got 2\.$"),
        ({"views": 0}, ValueError, r"`views` must be at least 1; got 0\.$"),
        ({"views": 2, "augment": False}, ValueError, r"`views` must be None without `augment`, .*; got 2\.$"),
        ({"dtype": torch.int32}, TypeError, r"`dtype` must be a floating type of torch; got torch.int32\.$"),
        ({"mean": (0.5, 0.5)}, ValueError, r"`mean` must have 3 entries, .*; got shape \(2,\)\.$"),
        ({"mean": (120, 120, 120)}, ValueError, r"`mean` must be between 0 and 1; got 120 at \[0\]\.$"),
        ({"std": (0.5, 0, 0.5)}, ValueError, r"`std` must be positive and finite; got \(0.5, 0, 0.5\)\.$"),
        ({"std": (1, np.inf, 1)}, ValueError, r"`std` must be positive and finite; got \(1, inf, 1\)\.$"),
        ({"cutout": -1}, ValueError, r"`cutout` must be at least 0; got -1\.$"),
        ({"crop_padding": 10}, ValueError, r"`crop_padding` must be less than .*, \(12, 10\); got 10\.$"),
        ({"random_state": "one"}, TypeError, r"`random_state` must be an integer; got 'one'\.$"),
        ({"random_state": -1}, ValueError, r"`random_state` must be at least 0; got -1\.$"),
        (
            {"random_state": 2**64},
            ValueError,
            r"`random_state` must be at most 18446744073709551615; got 18446744073709551616\.$",
        ),
        ({"device": "gpu"}, ValueError, r"`device` must be 'auto' or a device of torch; got 'gpu'\.$"),
        ({"device": "cuda:99"}, ValueError, r"`device` must be one that torch finds, .*; got 'cuda:99'\.$"),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    images, labels = some()
    with pytest.raises(error, match=message):
        batches_of(**({"images": images, "labels": labels} | options))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_the_gpu_a_batch_equals_that_of_the_cpu_for_the_same_draws():
    from counterpoint.vision.batches import _moved

    images, labels = some()
    cpu, gpu = (batches_of(images, labels, cutout=4, size=24, device=device) for device in ("cpu", "cuda"))
    drawn = cpu._draw(20)
    moves = type(drawn)(*(part.flatten() for part in drawn))
    there = type(drawn)(*(part.cuda() for part in moves))
    index = torch.arange(20)
    expected = cpu._finish(_moved(cpu._images, index, moves), moves)
    found = gpu._finish(_moved(gpu._images, index.cuda(), there), there)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-5)
