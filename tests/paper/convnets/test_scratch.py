"""Ensembles from scratch: learners train together as alone, and tables and page follow from the record."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from counterpoint.records import fill
from counterpoint.training import Ensemble
from counterpoint.vision import ImageBatches, backbone
from paper import reproduce
from paper.convnets import scratch
from paper.convnets import scratch_tables as tables
from paper.convnets.images import ImageSets
from paper.convnets.scratch import Point

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "results" / "image-scratch.json"
PAGE = ROOT / "docs" / "images-when-diversity-pays.md"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    return ImageSets(None, smoke=True)["digits"]


@pytest.fixture(scope="module")
def committed():
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


def trained(images, n_learners):
    """Return the logits of learners trained together; the first starts the same for any number."""
    torch.manual_seed(0)
    ensemble = Ensemble([backbone("convnet", 10, width=2) for _ in range(n_learners)])
    point = Point("convnet", 2, n_learners, 2, 1, batch_size=50)
    assert scratch._train(ensemble, point, images, 0, CPU) > 0
    x, _ = next(iter(ImageBatches(images.x_test, images.y_test, augment=False, device="cpu")))
    return ensemble.eval()(x).detach()


def test_a_learner_trains_beside_others_as_alone(images):
    torch.testing.assert_close(trained(images, 3)[0], trained(images, 1)[0], atol=1e-3, rtol=1e-3)


def test_the_loss_is_the_sum_of_smoothed_cross_entropies():
    logits, y = torch.randn(3, 8, 4), torch.arange(8) % 4
    found = scratch.loss_per_learner(logits, scratch.smooth(y, 4, 0.1))
    torch.testing.assert_close(found, sum(F.cross_entropy(one, y, label_smoothing=0.1) for one in logits))


def test_the_learning_rate_goes_up_to_its_peak_and_down_to_zero():
    rates = np.array([scratch.rate_share(step, 100) for step in range(101)])
    assert rates.argmax() == 24  # a quarter of the way
    assert rates.max() == pytest.approx(1.0)
    assert rates[99] == rates[100] == 0  # the scheduler asks once more after the last step
    assert (np.diff(rates[:25]) > 0).all()
    assert (np.diff(rates[24:100]) < 0).all()


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    reproduce("image-scratch", folder, smoke=True)
    return folder


def test_a_smoke_run_writes_every_ensemble_and_its_table(smoke):
    record = json.loads((smoke / "image-scratch.json").read_text(encoding="utf-8"))
    assert len(record["data"]) == 7
    runs = tables.points(record)[1]
    assert [one["config"]["seed"] for one in runs] == [0, 1]
    error = 100 * np.array([one["data"]["mirrored"]["soft"] for one in runs])
    row = tables.grid(record).rows[1]
    assert row[:4] == ["ConvNet", "2", "2", "1"]
    assert row[5] == f"{error.mean():.2f} ± {error.std(ddof=1):.2f}"
    assert all(one["data"]["seconds"] > 0 for one in record["data"].values())


def test_only_fast_networks_have_an_error_of_six_views(smoke):
    record = json.loads((smoke / "image-scratch.json").read_text(encoding="utf-8"))
    found = tables.grid(record)
    place = found.headings.index("six views")
    assert [row[place] for row in found.rows[:3]] == ["", "", ""]
    shifted = record["data"]["fast-2-n2-e5-s0"]["data"]["shifted"]["soft"]
    assert found.rows[3][place] == f"{100 * shifted:.2f}"
    plain = {name: run for name, run in record["data"].items() if not name.startswith("fast")}
    assert "six views" not in tables.grid({**record, "data": plain}).headings


def test_images_are_shifted_with_reflection():
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert scratch._shifted(x, 1)[0, 0].tolist() == [[4, 3, 4], [1, 0, 1], [4, 3, 4]]
    assert scratch._shifted(x, -1)[0, 0].tolist() == [[4, 5, 4], [7, 8, 7], [4, 5, 4]]
    assert scratch._shifted(x, 0) is x


def test_committed_jobs_are_of_the_plan_but_of_an_earlier_loop(committed, tmp_path):
    planned = {
        f"{point.name}-s{seed}": scratch.job_config(point, seed)
        for point in scratch.plan()
        for seed in range(point.n_seeds)
    }
    for name, run in committed["data"].items():
        assert {**run["config"], "loop": "fit"} == planned[name]
    name = "convnet-64-n1-e8-s0.json"
    (tmp_path / "image-scratch").mkdir()
    (tmp_path / "image-scratch" / name).write_bytes((COMMITTED.with_suffix("") / name).read_bytes())
    with pytest.raises(ValueError, match=r"same settings \(loop: 'fit' here, None there\)"):
        scratch.reproduce(tmp_path, device="cpu")


def test_parts_that_match_no_job_are_an_error(tmp_path):
    with pytest.raises(
        ValueError, match=r"`parts` must be beginnings of names, of convnet, .*; got 'nothing'"
    ):
        reproduce("image-scratch", tmp_path, smoke=True, parts="nothing")


def test_the_page_says_what_the_record_says(committed):
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, "image-scratch", tables.in_markdown(committed)) == page


def test_the_sentences_of_the_page_say_what_the_record_says(committed):
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = {}
    for runs in tables.points(committed):
        config, data = runs[0]["config"], [run["data"] for run in runs]
        error = 100 * np.mean([one.get("shifted", one["mirrored"])["soft"] for one in data])
        key = tuple(config[name] for name in ("network", "width", "n_learners", "epochs"))
        found[key] = (f"{error:.1f} %", f"{np.mean([one['seconds'] for one in data]):.1f}")
    five, longer, wider = found["fast", 64, 5, 10], found["fast", 64, 1, 20], found["fast", 128, 1, 20]
    alone, three, ten = (found["fast", 64, n, 10] for n in (1, 3, 10))
    for words in (
        f"Five fast nets take {five[1]} seconds and err {five[0]}",
        f"twice as long errs {longer[0]} after {longer[1]} seconds, and one that is also twice as wide {wider[0]} "
        f"after {wider[1]}.",
        f"a still larger network, reaches {tables.PUBLISHED['airbench96'][0]} % in "
        f"{tables.PUBLISHED['airbench96'][1]:.0f} seconds",
        f"three wide nets err {found['fast', 128, 3, 20][0]} where one errs {wider[0]}",
        f"**One fast net** errs {alone[0]} after {alone[1]} seconds",
        f"Three, five and ten err {three[0][:-2]}, {five[0][:-2]} and {ten[0]}",
        f"err {found['convnet', 64, 10, 8][0]}, a plain ResNet-18 takes 8 seconds and errs "
        f"{found['cifar_resnet18', 64, 1, 10][0]}",
    ):
        assert words in page
