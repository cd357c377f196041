import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from counterpoint.datasets import load_cifar10, load_cifar100
from counterpoint.datasets.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES


def arrays(n_classes=10, n_train=30, n_test=20, seed=0):
    rng = np.random.default_rng(seed)

    def images(n):
        return rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)

    return {
        "x_train": images(n_train),
        "y_train": (np.arange(n_train) % n_classes).astype(np.uint8),
        "x_test": images(n_test),
        "y_test": (np.arange(n_test) % n_classes).astype(np.uint8),
    }


def test_class_names_are_those_of_the_data_sets():
    # Both lists are alphabetical in the files' own metadata.
    assert len(CIFAR10_CLASSES) == 10
    assert len(CIFAR100_CLASSES) == len(set(CIFAR100_CLASSES)) == 100
    assert list(CIFAR10_CLASSES) == sorted(CIFAR10_CLASSES)
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)


def test_arrays_are_read_from_the_folder_as_they_are(tmp_path, monkeypatch):
    made = arrays()
    np.savez(tmp_path / "cifar10.npz", **made)
    monkeypatch.setenv("COUNTERPOINT_DATA", str(tmp_path))
    for images in (load_cifar10(tmp_path), load_cifar10()):
        for key, array in made.items():
            assert np.array_equal(getattr(images, key), array)
        assert images.x_train.dtype == np.uint8
        assert images.y_train.dtype == images.y_test.dtype == np.int64
        assert images.class_names == CIFAR10_CLASSES


def test_cifar100_has_its_own_file(tmp_path):
    np.savez(tmp_path / "cifar100.npz", **arrays(n_classes=100, n_train=100))
    images = load_cifar100(tmp_path)
    assert images.y_train.max() == 99
    assert repr(images) == "Images(100 training and 20 test images; 100 classes)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.y_train = None


@pytest.mark.parametrize(
    "given",
    [
        ["truck", "airplane"],
        np.array(["truck", "airplane"]),
        np.array(["truck", "airplane"], dtype=object),
        pd.Series(["truck", "airplane"]),
    ],
    ids=["list", "array", "objects", "series"],
)
def test_a_subset_keeps_its_images_and_numbers_classes_in_the_order_given(tmp_path, given):
    made = arrays()
    np.savez(tmp_path / "cifar10.npz", **made)
    images = load_cifar10(tmp_path, classes=given)
    assert images.class_names == ("truck", "airplane")
    assert all(type(name) is str for name in images.class_names)
    for part in ("train", "test"):
        x, y = getattr(images, f"x_{part}"), getattr(images, f"y_{part}")
        old = made[f"y_{part}"]
        keep = (old == 9) | (old == 0)
        assert np.array_equal(x, made[f"x_{part}"][keep])
        assert np.array_equal(y, np.where(old[keep] == 9, 0, 1))


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        (("airplane", "shp"), ValueError, r"`classes` must be one of 'airplane', .*; got 'shp'\. "),
        (
            ("airplane", 3),
            TypeError,
            r"`classes` must be a sequence of class names; got \('airplane', 3\)\.$",
        ),
        (
            np.array([0, 1]),
            TypeError,
            r"`classes` must be a sequence of class names; got array\(\[0, 1\]\)\.$",
        ),
        (
            np.array([["cat"]]),
            TypeError,
            r"`classes` must be a sequence of class names; got array\(\[\['cat'",
        ),
        (np.array("cat"), TypeError, r"`classes` must be a sequence of class names; got array\('cat'"),
        (b"cat", TypeError, r"`classes` must be a sequence of class names; got b'cat'\.$"),
        ({"cat", "dog"}, TypeError, r"`classes` must be a sequence of class names; got \{'"),
        (np.array(["cat", "cat"]), ValueError, r"`classes` must be distinct; got \('cat', 'cat'\)"),
        (np.array([]), ValueError, r"`classes` must name at least one class; got array\(\[\]"),
        ("airplane", TypeError, r"`classes` must be a sequence of class names; got 'airplane'"),
        ((), ValueError, r"`classes` must name at least one class; got \(\)"),
        (("cat", "cat"), ValueError, r"`classes` must be distinct; got \('cat', 'cat'\)"),
    ],
)
def test_classes_that_cannot_be_chosen_are_refused(tmp_path, classes, error, message):
    with pytest.raises(error, match=message):
        load_cifar10(tmp_path, classes=classes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": None}, r"must hold x_train, y_train, x_test, y_test; it has no y_test"),
        (
            {"x_train": np.zeros((30, 3, 32, 32), np.uint8)},
            r"`x_train` of '.*' must be uint8 of shape \(n, 32, 32, 3\); got uint8 of shape \(30, 3",
        ),
        ({"x_test": np.zeros((20, 32, 32, 3))}, r"`x_test` of .*; got float64 of shape"),
        ({"y_train": np.zeros(29, int)}, r"`y_train` of .* integers of shape \(30,\); got int64"),
        ({"y_train": np.zeros(30)}, r"`y_train` of .* integers of shape \(30,\); got float64"),
        ({"y_test": np.full(20, 10)}, r"`y_test` of .* must be between 0 and 9; got 10 to 10"),
        ({"y_test": np.full(20, -1)}, r"`y_test` of .* must be between 0 and 9; got -1 to -1"),
        ({"y_test": np.array([None])}, r"must be an npz file of arrays; reading it failed"),
    ],
)
def test_a_file_with_the_wrong_arrays_is_refused(tmp_path, change, message):
    made = {key: array for key, array in (arrays() | change).items() if array is not None}
    np.savez(tmp_path / "cifar10.npz", **made)
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path)


def truncated(tmp_path):
    np.savez(tmp_path / "whole.npz", **arrays())
    return (tmp_path / "whole.npz").read_bytes()[:5000]


def damaged(tmp_path):
    np.savez_compressed(tmp_path / "whole.npz", **arrays())
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    content[2000:2100] = bytes(100)
    return bytes(content)


def unclosed(tmp_path):
    np.savez(tmp_path / "whole.npz", **arrays())
    return (tmp_path / "whole.npz").read_bytes().replace(b", }", b",  ")  # the head of each array


def one_array(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    return (tmp_path / "array.npy").read_bytes()


@pytest.mark.parametrize(
    "content",
    [lambda _: b"", lambda _: b"not a zip file", truncated, damaged, unclosed, one_array],
    ids=["empty", "text", "truncated", "damaged", "unclosed", "one array"],
)
def test_a_corrupt_file_is_refused(tmp_path, content):
    (tmp_path / "cifar10.npz").write_bytes(content(tmp_path))
    with pytest.raises(ValueError, match=r"cifar10\.npz' must be an npz file of arrays; reading"):
        load_cifar10(tmp_path)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "cifar10.npz").mkdir()
    with pytest.raises(ValueError, match=r"cifar10\.npz' must be an npz file of arrays; reading"):
        load_cifar10(tmp_path)


@pytest.fixture
def torchvision(monkeypatch):
    """Stand in for torchvision, whose download is counted and not made."""
    calls = []
    made = arrays()

    def download(root, *, train, download):
        assert download
        calls.append(root)
        part = "train" if train else "test"
        # torchvision's own kinds: an array of images and a list of labels
        return SimpleNamespace(data=made[f"x_{part}"], targets=made[f"y_{part}"].tolist())

    package, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    package.datasets, datasets.CIFAR10 = datasets, download
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
    return SimpleNamespace(calls=calls, made=made, datasets=datasets)


def test_without_a_folder_the_download_is_cached_for_the_user(tmp_path, monkeypatch, torchvision):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = load_cifar10(), load_cifar10()
    assert len(torchvision.calls) == 2  # train and test, once
    assert [path.name for path in (tmp_path / "counterpoint").iterdir()] == ["cifar10.npz"]
    for images in (first, second):
        assert np.array_equal(images.x_test, torchvision.made["x_test"])
        assert np.array_equal(images.y_test, torchvision.made["y_test"])


def test_with_a_folder_the_download_is_written_there(tmp_path, torchvision):
    load_cifar10(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10.npz"]


def test_a_failed_download_leaves_nothing_and_says_how_to_give_the_file(tmp_path, torchvision):
    def fail(root, *, train, download):
        raise RuntimeError("File not found or corrupted.")

    torchvision.datasets.CIFAR10 = fail
    message = (
        r"CIFAR10 could not be downloaded \(File not found or corrupted\.\); pass `data_dir`, "
        r"or set COUNTERPOINT_DATA, to the path of a folder that holds 'cifar10\.npz'"
    )
    with pytest.raises(ConnectionError, match=message):
        load_cifar10(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_torchvision_the_error_has_the_pip_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match=r'pip install "counterpoint\[vision\]"'):
        load_cifar100(tmp_path)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`data_dir` must be a folder that exists"):
        load_cifar10(tmp_path / "nowhere")
