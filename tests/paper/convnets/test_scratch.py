"""Ensembles from scratch: nets that train together train as alone, and the clock is fair."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from counterpoint.records import fill
from counterpoint.vision import ImageBatches, backbone
from paper import reproduce
from paper.convnets import scratch
from paper.convnets import scratch_tables as tables
from paper.convnets.images import load_images
from paper.convnets.recording import put_back, recorded
from paper.convnets.scratch import Point
from paper.convnets.side_by_side import program

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images():
    return load_images(None, smoke=True)


def trained(images, n_learners):
    """Return the logits of nets trained together, for some images; the first net is the same for any number."""
    torch.manual_seed(0)
    nets = [backbone("convnet", 10, width=2) for _ in range(n_learners)]
    point = Point("convnet", 2, n_learners, 2, 1, batch_size=50)
    together = program(nets)
    batches = ImageBatches(images.x_train, images.y_train, batch_size=50, seed=0, device="cpu")
    scratch._train(point, together, batches, torch.zeros(1, 50, 3, 8, 8), 10)
    x, _ = next(iter(ImageBatches(images.x_test, images.y_test, augment=False, device="cpu")))
    return together.eval()(x[None]).detach()


def test_a_net_learns_the_same_beside_others(images):
    torch.testing.assert_close(trained(images, 3)[0], trained(images, 1)[0], atol=1e-3, rtol=1e-3)


def test_the_steps_that_warm_up_leave_no_trace(images):
    net = program([backbone("convnet", 10, width=2)])
    start = [value.clone() for value in net.state_dict().values()]
    optimizer = torch.optim.SGD(net.parameters(), torch.tensor(0.1), momentum=0.9, nesterov=True)

    def step():
        net(torch.randn(1, 4, 3, 8, 8)).square().mean().backward()
        optimizer.step()

    taken, was_recorded = recorded(step, CPU)
    assert taken is step
    assert not was_recorded
    assert any(not torch.equal(a, b) for a, b in zip(net.state_dict().values(), start, strict=True))
    put_back(net, start, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), start, strict=True))
    assert all((state["momentum_buffer"] == 0).all() for state in optimizer.state.values())


def test_the_learning_rate_goes_up_to_its_peak_and_down_to_zero():
    rates = scratch._rates(Point("convnet", 2, 1, 1, 1, learning_rate=0.4), 100)
    assert int(rates.argmax()) == 24  # a quarter of the way
    assert float(rates.max()) == pytest.approx(0.4)
    assert float(rates[-1]) == 0
    assert (rates[:24].diff() > 0).all()
    assert (rates[24:].diff() < 0).all()


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


def test_only_nets_that_were_shown_shifted_images_have_their_error(smoke):
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


def test_runs_that_were_kept_belong_to_the_plan():
    path = ROOT / "results" / "image-scratch.json"
    planned = {
        f"{point.name}-s{seed}": {**point._asdict(), "seed": seed}
        for point in scratch.plan()
        for seed in range(point.n_seeds)
    }
    for name, run in json.loads(path.read_text(encoding="utf-8"))["data"].items():
        assert run["config"] == planned[name]


def test_a_point_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(
        ValueError, match=r"`parts` must be beginnings of names, of convnet, .*; got 'nothing'"
    ):
        reproduce("image-scratch", tmp_path, smoke=True, parts="nothing")


def test_the_page_says_what_the_record_says():
    path = ROOT / "results" / "image-scratch.json"
    page = (ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert fill(page, "image-scratch", tables.in_markdown(found)) == page


def test_the_sentences_of_the_page_say_what_the_record_says():
    record = json.loads((ROOT / "results" / "image-scratch.json").read_text(encoding="utf-8"))
    page = " ".join((ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8").split())
    found = {}
    for runs in tables.points(record):
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
