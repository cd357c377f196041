"""Learning rate and cutout of Tables 4 to 6: that they are used, recorded, and chosen by held-out images."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from counterpoint.records import RunStore
from paper.device import kernel_search
from paper.pretrained import recipe, study, trainer
from paper.pretrained.evaluation import Evaluator
from paper.pretrained.images import load_images
from paper.pretrained.paper import TABLE_5

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "choose_image_recipe.json"


@pytest.fixture(scope="module")
def bench(load_benchmark):
    return load_benchmark("choose_image_recipe")


@pytest.fixture(scope="module")
def measured(bench, tmp_path_factory):
    """A folder in which two variants of a small network were measured, and the parts of the images used."""
    folder, seen = tmp_path_factory.mktemp("recipe"), []
    measure = Evaluator.measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluator, "measure", lambda *a, **k: seen.append(a[2]) or measure(*a, **k))
        run(bench, folder, "0,3")
    return folder, seen


def run(bench, folder, variants):
    bench.main(["--smoke", "--networks", "convnet", "--variants", variants, "--out", str(folder)])


def part(number, network, error, **config):
    config = {"variant": number, "network": network, "start": "pretrained", "epochs": 12, **config}
    return {"config": config, "held_out": error, "held_out_plain": error}


def test_a_recipe_is_used_alone_and_at_a_fifth_of_the_rate_together(tmp_path, monkeypatch):
    rates, cutouts = [], set()
    schedule, batches = trainer.OneCycleLR, trainer.ImageBatches
    monkeypatch.setattr(trainer, "OneCycleLR", lambda o, lr, **k: rates.append(lr) or schedule(o, lr, **k))
    monkeypatch.setattr(trainer, "ImageBatches", lambda *a, **k: cutouts.add(k["cutout"]) or batches(*a, **k))
    few = replace(TABLE_5, arms=("vote", "independent"), cutout=8)
    paths = study.reproduce_table(few, tmp_path, smoke=True, more_epochs=1)
    assert rates == [[recipe.LR], [recipe.LR], [recipe.LR / 5]]
    assert cutouts == {8}
    record = json.loads(paths[0].read_text(encoding="utf-8"))
    configs = [job["config"] for job in record["data"].values()]
    assert {config["cutout"] for config in configs} == {8}
    assert {config["more_lr"] / config["lr"] for config in configs if "more_lr" in config} == {1 / 5}
    with pytest.raises(ValueError, match=r"\(cutout: 12 here, 8 there\)"):
        study.reproduce_table(replace(few, cutout=12), tmp_path, smoke=True, more_epochs=1)


def test_every_variant_has_trunks_of_its_own(bench, tmp_path):
    images = load_images(TABLE_5, None, smoke=True)
    paths = set()
    for lr, cutout in bench.VARIANTS:
        settings = recipe.Settings(epochs=1, more_epochs=0, size=16, width=4, lr=lr, cutout=cutout)
        small = trainer.Trainer(images, settings, weights=None, folder=tmp_path, device=torch.device("cpu"))
        paths.add(small.trunk_file("convnet", bench.SEED))
    assert len(paths) == len(bench.VARIANTS)


def test_the_limit_of_the_kernel_search_is_restored():
    before = torch.backends.cudnn.benchmark_limit
    with kernel_search(3):
        assert torch.backends.cudnn.benchmark_limit == 3
        with kernel_search():
            assert torch.backends.cudnn.benchmark_limit == 3
    assert torch.backends.cudnn.benchmark_limit == before


def test_variants_are_measured_on_held_out_images_alone(bench, measured):
    folder, seen = measured
    assert set(seen) == {"held_out"}
    parts = bench.read_parts(folder)
    assert [(p["config"]["lr"], p["config"]["cutout"]) for p in parts] == [
        bench.VARIANTS[0],
        bench.VARIANTS[3],
    ]
    assert all(0 <= p["held_out"] <= 100 and p["versions"]["torch"] == torch.__version__ for p in parts)


def test_a_finished_job_is_not_run_again_nor_overwritten(bench, measured, monkeypatch):
    folder, _ = measured
    monkeypatch.setattr(trainer.Trainer, "trunk", lambda *a: pytest.fail("trained again"))
    run(bench, folder, "0,3")
    with pytest.raises(
        ValueError, match=r"`out` must be a folder without 0-convnet\.json, .*\(epochs: 2 here"
    ):
        bench.main(["--smoke", "--networks", "convnet", "--epochs", "2", "--out", str(folder)])
    with pytest.raises(ValueError, match="`--variants` must be one of 0, 1, 2, 3; got 4"):
        run(bench, folder, "4")


def test_the_jobs_are_joined_in_one_record_and_the_best_is_printed(bench, measured, tmp_path, capsys):
    folder, _ = measured
    bench.main(["--out", str(folder), "--join", str(tmp_path / "all.json")])
    printed = capsys.readouterr().out
    record = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert printed == bench.markdown(record) + "\n"
    assert {"device", "versions", "seconds", "config", "chosen"} <= set(record)
    assert [set(row) for row in record["data"]] == [
        {"config", "seconds", "held_out", "held_out_plain", "epochs"}
    ] * 2
    bench.main(["--choose", str(folder)])
    lr, cutout = capsys.readouterr().out.split()
    assert (float(lr), int(cutout)) == bench.VARIANTS[record["chosen"]]


def test_a_network_that_failed_is_not_there_to_choose_from(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(
        trainer.Trainer, "trunk", lambda *a: (_ for _ in ()).throw(RuntimeError("out of memory"))
    )
    with pytest.raises(RuntimeError, match="1 job failed: 1-convnet: RuntimeError: out of memory"):
        run(bench, tmp_path, "1")
    with pytest.raises(SystemExit, match="There is no VARIANT-NETWORK"):
        bench.main(["--choose", str(tmp_path)])


def test_the_least_mean_error_of_complete_variants_is_chosen(bench):
    parts = [part(0, "a", 3.0), part(0, "b", 3.0), part(1, "a", 1.0), part(2, "a", 2.0), part(2, "b", 3.0)]
    assert bench.best(parts) == 2
    with pytest.raises(SystemExit, match="No variant has been measured with every network"):
        bench.best([part(0, "a", 1.0), part(1, "b", 1.0)])


def test_the_constants_are_those_that_were_chosen(bench):
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert bench.VARIANTS[record["chosen"]] == (recipe.LR, TABLE_5.cutout)
    assert bench.best(record["data"]) == record["chosen"]


def test_jobs_of_different_settings_are_not_joined(bench, tmp_path):
    for number, epochs in ((0, 12), (1, 6)):
        config = part(number, "a", 1.0, epochs=epochs)["config"]
        RunStore(tmp_path / bench.NAME).write(f"{number}-a", config, {"held_out": 1.0}, title="")
    with pytest.raises(SystemExit, match="have different settings"):
        bench.read_parts(tmp_path)
