"""Tables 4 to 6: the protocol of the study, its growing record, and that documents say what records say."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from counterpoint.cli import main
from counterpoint.experiments import reproduce
from counterpoint.experiments._document import fill
from counterpoint.experiments._tables import spread
from counterpoint.experiments.pretrained import laboratory, learning, study
from counterpoint.experiments.pretrained.__main__ import rewrite
from counterpoint.experiments.pretrained.paper import TABLE_4, TABLE_5, TABLE_6, TABLE_6_CIFAR_100, TABLES
from counterpoint.experiments.pretrained.tables import choose, draw, find, grid, markdown, trajectories
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.training import CorrelationLoss, Ensemble
from counterpoint.vision import ImageBatches

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Two tables, written from smoke runs into one folder."""
    folder = tmp_path_factory.mktemp("smoke")
    for name in ("table-5", "table-6"):
        reproduce(name, folder, smoke=True)
    return folder


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def random_proba(n_learners, n_samples, n_classes):
    return torch.rand(n_learners, n_samples, n_classes, generator=torch.manual_seed(0)).softmax(-1)


def test_the_errors_are_those_that_the_paper_prints():
    # Tables 4, 5 and 6 of the paper
    singles = {"shufflenet_v2_x1_0": 2.80, "googlenet": 3.30, "mobilenet_v2": 2.70, "resnet18": 5.25}
    assert TABLE_4.paper.items() >= {**singles, "densenet121": 9.05, "networks joint": 7.55}.items()
    assert [TABLE_4.paper[f"networks lambda {lam}"] for lam in (0.1, 0.3, 0.5, 0.7, 0.9)] == [
        1.35, 1.25, 1.70, 1.90, 1.80
    ]  # fmt: skip
    assert list(TABLE_5.paper.values()) == [8.50, 6.43, 7.11, 7.78, 5.76, 5.91, 6.50]
    assert list(TABLE_6.paper.values()) == [5.44, 4.65]
    assert list(TABLE_6_CIFAR_100.paper.values()) == [17.28, 14.13]


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_number_of_the_paper_has_a_row(table):
    rows = {*table.networks, *(f"{group} {way}" for group in table.groups for way in table.ways)}
    assert set(table.paper) <= rows


def test_copies_share_a_trunk_and_ensembles_of_different_seeds_share_none():
    members = TABLE_6.members
    assert members("copies", ["a"], 1) == [("a", 1)] * 3
    assert members("apart", ["a"], 0) == [("a", 0), ("a", 1), ("a", 2)]
    assert not set(members("apart", ["a"], 0)) & set(members("apart", ["a"], 1))


def test_held_out_images_are_a_tenth_and_never_trained_on():
    x = np.arange(100, dtype=np.uint8).reshape(100, 1, 1, 1)
    images = laboratory.Images.split("some", (x, np.arange(100)), (x, np.arange(100)), 100)
    train, held_out = images.parts["train"][1], images.parts["held_out"][1]
    assert len(held_out) == 10
    assert sorted([*train, *held_out]) == list(range(100))
    assert (images.parts["train"][0].ravel() == train).all()


@pytest.mark.parametrize("way", ["independent", "joint"])
def test_a_smoothed_loss_is_torchs_own(way):
    logits = torch.randn(1, 8, 5, generator=torch.manual_seed(0))
    target = torch.arange(8) % 5
    theirs = F.cross_entropy(logits[0], target, label_smoothing=0.1)
    assert learning.make_loss(way)(logits, target) == pytest.approx(theirs.item())


def test_a_lambda_is_the_papers_own_of_averaged_correlations():
    loss = learning.make_loss("lambda 0.3")
    assert isinstance(loss, CorrelationLoss)
    assert (loss.lam, loss.reduction) == (0.3, "mean")


def test_a_standing_agrees_with_the_measures():
    proba, target = random_proba(3, 50, 4), torch.arange(50) % 4
    found = learning.standing(proba, target)
    y, outputs = target.numpy(), proba.double().numpy()
    assert found["r_tl"] == pytest.approx(truth_learner_correlation(y, outputs).mean(), abs=1e-5)
    pairs = learner_learner_correlation(outputs)[np.triu_indices(3, 1)]
    assert found["r_ll"] == pytest.approx(pairs.mean(), abs=1e-5)
    assert found["soft"] == pytest.approx(100 * (outputs.mean(0).argmax(-1) != y).mean())
    hard = Ensemble([nn.Identity()] * 3, voting="hard").combine(proba).argmax(-1).numpy()
    assert found["hard"] == pytest.approx(100 * (hard != y).mean())
    assert found["members"] == pytest.approx([100 * (one.argmax(-1) != y).mean() for one in outputs])


def test_images_grow_to_their_size_in_the_second_half():
    x, y = np.zeros((4, 32, 32, 3), np.uint8), np.zeros(4, int)
    growing = learning.Growing(ImageBatches(x, y, batch_size=4, size=128), 128, epochs=4)
    assert [next(iter(growing(epoch)))[0].shape[-1] for epoch in (1, 2, 3, 4)] == [96, 96, 128, 128]
    assert [learning.smaller(size) for size in (16, 32, 96, 160, 224)] == [16, 32, 64, 128, 160]


def test_a_folder_of_weights_says_where_a_network_starts(tmp_path):
    (tmp_path / "resnet18.safetensors").touch()
    (tmp_path / "shufflenet_v2_x1_0_backbone.safetensors").touch()
    starts = [
        laboratory.start_of(name, tmp_path)
        for name in ("resnet18", "shufflenet_v2_x1_0", "googlenet", "convnet")
    ]
    assert starts == ["pretrained", "pretrained in part", "from scratch", "from scratch"]
    assert laboratory.start_of("googlenet", "imagenet") == "pretrained"


def test_a_compiled_network_is_the_network(monkeypatch):
    net = nn.Linear(3, 2)
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda x: function(x) + 100)
    compiled, x = learning.Compiled(net), torch.ones(1, 3)
    assert torch.equal(compiled(x), net(x) + 100)
    assert torch.equal(compiled.eval()(x), net(x))
    assert learning.bare(compiled) is net
    assert list(compiled.state_dict()) == ["net.weight", "net.bias"]


def test_a_long_training_is_checkpointed_and_leaves_no_checkpoint(tmp_path, monkeypatch):
    seen = []
    fit = laboratory.fit
    monkeypatch.setattr(laboratory, "CHECKPOINT_FROM", 1)
    monkeypatch.setattr(laboratory, "fit", lambda *a, **k: seen.append(k["checkpoint"]) or fit(*a, **k))
    images = study.load_images(TABLE_4, None, smoke=True)
    settings = laboratory.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    place = laboratory.Laboratory(images, settings, weights=None, folder=tmp_path, device=torch.device("cpu"))
    trunk = place.trunk("convnet", 0)
    assert [path.suffix for path in seen] == [".checkpoint"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    assert len(trunk["epochs"]) == laboratory.SCRATCH
    again = place.from_trunk("convnet", 0).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in trunk["net"].items())
    assert len(seen) == 1


def test_a_damaged_trunk_is_trained_again_with_a_warning(tmp_path):
    images = study.load_images(TABLE_4, None, smoke=True)
    settings = laboratory.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    place = laboratory.Laboratory(images, settings, weights=None, folder=tmp_path, device=torch.device("cpu"))
    trunk, path = place.trunk("convnet", 0), place.trunk_file("convnet", 0)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        path.write_bytes(damaged)
        with pytest.warns(RuntimeWarning, match=f"{path.name} is damaged and is trained again"):
            again = place.trunk("convnet", 0)
        assert all(torch.equal(value, again["net"][name]) for name, value in trunk["net"].items())
        assert place.trunk("convnet", 0)["seconds"] == again["seconds"]


def test_the_time_left_counts_only_what_is_trained(monkeypatch, capsys):
    now = [0.0]

    def job(label, cost, seconds, *, fails=False):
        def do():
            now[0] += seconds
            if fails:
                raise RuntimeError("out of memory")
            return "done"

        return study.Job(label, cost, do)

    todo = [job("read", 0, 3), job("failed", 9, 1, fails=True), job("trained", 2, 10), job("next", 4, 32)]
    monkeypatch.setattr(study, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(study.Study, "jobs", lambda self, seeds: todo)
    notebook = SimpleNamespace(record={"config": {"networks": {}}})
    with pytest.warns(RuntimeWarning, match="failed was left out: out of memory"):
        study.Study(TABLE_5, notebook, None).work([0])
    assert capsys.readouterr().err.splitlines() == [
        "1/4  read: done",
        "3/4  trained: done; about 20 s left",
        "4/4  next: done; about 0 s left",
    ]


def test_a_trunk_that_is_there_costs_nothing(smoke, tmp_path):
    images = study.load_images(TABLE_5, None, smoke=True)
    settings = laboratory.Settings(epochs=1, more_epochs=2, size=16, batch_size=32, width=4)
    costs = []
    for folder in (smoke / "trunks", tmp_path):
        place = laboratory.Laboratory(
            images, settings, weights=None, folder=folder, device=torch.device("cpu")
        )
        notebook = study.Notebook(tmp_path, TABLE_5, {"networks": ["convnet", "cifar_resnet18"]}, {})
        costs.append([job.cost for job in study.Study(TABLE_5, notebook, place).jobs([0])][:3])
    assert costs == [[0, 0, 1], [laboratory.SCRATCH] * 2 + [1]]


def test_a_smoke_run_has_every_row_and_keeps_every_trajectory(smoke):
    for name in ("table-5", "table-6"):
        record, table = read(smoke, name), TABLES[name]
        assert record["config"]["smoke"] is True
        assert record["versions"]["torch"] == torch.__version__
        assert record["seconds"] > 0
        for group in table.groups:
            for way in table.ways:
                (run,) = find(record, group, way)
                assert len(run["epochs"]) == (0 if way == "vote" else 2)
                for epoch in run["epochs"]:
                    assert {"r_tl", "r_ll", "test_soft", "test_r_tl", "test_r_ll"} <= set(epoch)
                if run["epochs"]:
                    assert run["epochs"][-1]["test_soft"] == run["test"]["soft"]
        assert all((smoke / f"{name}.{kind}").stat().st_size > 1000 for kind in ("png", "svg"))
        text = (smoke / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith("**Smoke run on digits")
        assert text == markdown(record, table)


def test_copies_start_as_one_and_the_single_net_is_the_mean_of_those_apart(smoke):
    record = read(smoke, "table-6")
    (copies,), (apart,) = find(record, "copies", "vote"), find(record, "apart", "vote")
    assert copies["test"]["r_ll"] == pytest.approx(1)
    assert apart["test"]["r_ll"] < 0.9
    assert copies["test"]["members"] == [apart["test"]["members"][0]] * 3
    cell = grid(record, TABLE_6, spread).rows[0][2]
    assert cell == f"{np.mean(apart['test']['members']):.2f} (1)"


def test_training_on_moves_the_ensembles(smoke):
    paths = trajectories(read(smoke, "table-5"), TABLE_5, "test")
    assert len(paths) == 5
    starts = {(r_tl[0], r_ll[0]) for r_tl, r_ll in paths.values()}
    ends = {(r_tl[-1], r_ll[-1]) for r_tl, r_ll in paths.values()}
    assert len(starts) == 1
    assert len(ends) == 5


def test_a_finished_study_runs_nothing_again_and_a_killed_one_goes_on(smoke, tmp_path, monkeypatch):
    folder = shutil.copytree(smoke, tmp_path / "copy")
    record = read(folder, "table-5")
    lost = record["data"]["runs"].pop()
    (folder / "table-5.json").write_text(json.dumps(record), encoding="utf-8")
    trained = []
    run = laboratory.Laboratory.run
    monkeypatch.setattr(laboratory.Laboratory, "run", lambda *a: trained.append(a[2:]) or run(*a))
    for _ in range(2):
        reproduce("table-5", folder, smoke=True)
    assert trained == [(lost["way"], lost["seed"])]
    again = read(folder, "table-5")["data"]["runs"][-1]
    assert {**again, "seconds": 0, "epochs": 0} == {**lost, "seconds": 0, "epochs": 0}
    for key in ("loss", "test_soft"):
        assert [epoch[key] for epoch in again["epochs"]] == [epoch[key] for epoch in lost["epochs"]]


def test_another_study_is_not_overwritten(smoke, capsys):
    assert main(["reproduce", "table-5", "--smoke", "--out", str(smoke), "--more-epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert "`out` must be a folder without table-5.json, or with one of the same settings" in error
    assert "(more_epochs: 1 here, 2 there)" in error


def test_what_fails_is_left_out_with_a_warning(tmp_path, monkeypatch):
    run = laboratory.Laboratory.run

    def failing(self, members, way, seed):
        if way == "joint":
            raise RuntimeError("out of memory")
        return run(self, members, way, seed)

    monkeypatch.setattr(laboratory.Laboratory, "run", failing)
    few = replace(TABLE_5, ways=("vote", "joint"))
    with pytest.warns(RuntimeWarning, match="networks, joint, seed 0 was left out: out of memory"):
        paths = study.reproduce_table(few, tmp_path, smoke=True, seeds=1)
    assert [run["way"] for run in read(tmp_path, "table-5")["data"]["runs"]] == ["vote"]
    assert paths[0].exists()


def test_lambda_is_chosen_by_held_out_images_and_not_by_test_images():
    def entry(way, held_out, test):
        return {"group": "g", "way": way, "seed": 0, "held_out": {"soft": held_out}, "test": {"soft": test}}

    runs = [entry("lambda 0.1", 2.0, 5.0), entry("lambda 0.2", 1.0, 6.0), entry("lambda 0.3", 1.0, 4.0)]
    record = {"data": {"runs": runs}}
    ways = ("joint", "lambda 0.1", "lambda 0.2", "lambda 0.3")
    assert [run["way"] for run in choose(record, "g", ways)] == ["lambda 0.2"]
    assert choose(record, "g", ways[:2]) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table-4", "--smoke", "--data", "x"], "`--data` has no meaning with `--smoke`."),
        (["table-4", "--smoke", "--weights", "x"], "`--weights` has no meaning with `--smoke`."),
        (
            ["table-5", "--smoke", "--networks", "convnet"],
            "`networks` must be two or more different networks",
        ),
        (["table-6", "--smoke", "--networks", "convnet,cifar_resnet18"], "`networks` must be one network"),
        (["table-5", "--smoke", "--networks", "vgg,convnet"], "`networks` must be one of 'convnet'"),
        (["table-5", "--smoke", "--device", "cuda:99"], "`device` must be one that torch finds"),
        (["table-5", "--data", "no-such-folder"], "`data_dir` must be a folder that exists"),
        (["table-5", "--weights", "no-such-folder"], "`weights` must be a folder that exists"),
        (["table-5", "--networks", "resnet81,convnet"], "`networks` must be one of 'convnet'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys, tmp_path):
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_weights_must_hold_one_of_the_networks(tmp_path, capsys):
    (tmp_path / "densenet121.safetensors").touch()
    arguments = ["--networks", "resnet18,mobilenet_v2", "--weights", str(tmp_path)]
    assert main(["reproduce", "table-5", *arguments, "--out", str(tmp_path / "out")]) == 2
    rule = (
        "`weights` must be a folder with one or more of resnet18.safetensors, mobilenet_v2.safetensors; got "
    )
    assert rule in capsys.readouterr().err
    assert study.check_weights(tmp_path, ["resnet18", "densenet121"], smoke=False) == tmp_path


def test_a_record_goes_into_a_document(smoke, tmp_path):
    document = tmp_path / "page.md"
    document.write_text("a\n<!-- table-5 -->\n<!-- end of table-5 -->\nb\n", encoding="utf-8")
    rewrite(smoke / "table-5.json", document)
    assert (tmp_path / "images" / "table-5.png").read_bytes() == (smoke / "table-5.png").read_bytes()
    assert markdown(read(smoke, "table-5"), TABLE_5) in document.read_text(encoding="utf-8")


COMMITTED = [name for name in TABLES if (ROOT / "results" / f"{name}.json").exists()]


@pytest.mark.parametrize("name", ["smoke", *COMMITTED])
def test_the_name_of_the_bound_stands_inside_the_axes(smoke, name):
    record = read(smoke, "table-5") if name == "smoke" else read(ROOT / "results", name)
    figure = draw(record, TABLES[record["name"]])
    figure.draw_without_rendering()
    for ax in figure.axes:
        for box in (text.get_window_extent() for text in ax.texts):
            assert ax.bbox.x0 <= box.x0 < box.x1 <= ax.bbox.x1
            assert ax.bbox.y0 <= box.y0 < box.y1 <= ax.bbox.y1


@pytest.mark.parametrize("name", COMMITTED)
def test_the_document_shows_the_committed_record(name):
    document = (ROOT / "docs" / "image-tables.md").read_text(encoding="utf-8")
    record = read(ROOT / "results", name)
    assert record["config"]["smoke"] is False
    assert fill(document, name, markdown(record, TABLES[name])) == document


def test_a_trunk_of_other_images_or_other_weights_is_not_taken_for_the_same(tmp_path):
    rng = np.random.default_rng(0)
    settings = laboratory.Settings(epochs=1, more_epochs=1, size=8, batch_size=64, width=2)
    origins = []
    for n, weights in ((100, None), (200, None), (100, tmp_path)):
        train = rng.integers(256, size=(n, 8, 8, 3), dtype=np.uint8), np.arange(n) % 2
        images = laboratory.Images.split("some", train, train, 2)
        place = laboratory.Laboratory(
            images, settings, weights=weights, folder=tmp_path, device=torch.device("cpu")
        )
        for content in (b"one", b"two"):
            (tmp_path / "resnet18.safetensors").write_bytes(content)
            origins.append(place.origin("resnet18"))
    assert origins[0] == origins[1]  # no weights are read
    assert len(set(origins)) == 4
