"""The example runs on a folder of images, and the page of the docs shows it as it is."""

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "better_ensemble.py"


def test_the_page_shows_the_example():
    assert f"```python\n{EXAMPLE.read_text()}```\n" in (ROOT / "docs" / "vision.md").read_text()


def folder_of_images(root, test_labels=("dark", "light"), n_train=40):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng = np.random.default_rng(0)
    for part, n, labels in (("train", n_train, ("dark", "light")), ("test", 20, test_labels)):
        for label in labels:
            folder = root / part / label
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = rng.normal(60 if label == "dark" else 200, 20, (32, 32, 3))
                image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{i}.png")


# A few steps from random values may leave a learner constant, which has no correlation.
@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")
@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")
def test_the_example_makes_an_ensemble_of_a_folder_of_images(tmp_path, capsys):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    folder_of_images(tmp_path)
    torch.manual_seed(0)
    names = ("resnet18", "shufflenet_v2_x1_0")
    assessment = run_path(str(EXAMPLE))["main"](tmp_path, names=names, weights=None, size=32, epochs=1)
    assert assessment.learners == ("1 resnet18", "2 shufflenet_v2_x1_0")
    assert assessment.n_samples == 40
    assert assessment.classes == (0, 1)
    printed = capsys.readouterr().out.splitlines()
    ways = [line.partition(":")[0] for line in printed if line.endswith("of the held-out images")]
    assert ways == ["as they are", "IndependentLoss", "DiversityLoss"]


@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")
@pytest.mark.filterwarnings("ignore::counterpoint.exceptions.LearnerWarning")
def test_a_few_images_and_two_networks_of_one_kind_will_do(tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    folder_of_images(tmp_path, n_train=4)
    torch.manual_seed(0)
    assessment = run_path(str(EXAMPLE))["main"](
        tmp_path, names=("convnet",) * 2, weights=None, size=32, epochs=1
    )
    assert assessment.learners == ("1 convnet", "2 convnet")


def test_a_test_folder_that_lacks_a_class_is_not_scored_with_shifted_labels(tmp_path):
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    folder_of_images(tmp_path, test_labels=("light",))
    with pytest.raises(AssertionError, match="train and test must hold the same classes"):
        run_path(str(EXAMPLE))["main"](tmp_path, names=("resnet18",), weights=None, size=32, epochs=1)
