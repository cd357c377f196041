"""Learning rate and cutout of Tables 4 to 6: that they are used, kept apart, and chosen by held-out images."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paper.device import kernel_search
from paper.pretrained import laboratory, study
from paper.pretrained.paper import TABLE_5

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "choose_image_recipe.json"


@pytest.fixture(scope="module")
def bench(load_benchmark):
    return load_benchmark("choose_image_recipe")


@pytest.fixture(scope="module")
def measured(bench, tmp_path_factory):
    """A folder in which two variants of a small network were measured, and the parts of the images measured on."""
    folder, seen = tmp_path_factory.mktemp("recipe"), []
    measure = laboratory.Laboratory.measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laboratory.Laboratory, "measure", lambda *a, **k: seen.append(a[2]) or measure(*a, **k))
        run(bench, folder, "0,3")
    return folder, seen


def run(bench, folder, variants):
    bench.main(["--smoke", "--networks", "convnet", "--variants", variants, "--out", str(folder)])


def part(number, network, error, **config):
    config = {"variant": number, "network": network, "start": "pretrained", "epochs": 12, **config}
    return {"config": config, "held_out": error, "held_out_plain": error}


def test_a_recipe_is_used_alone_and_at_a_fifth_of_the_rate_together(tmp_path, monkeypatch):
    rates, cutouts = [], set()
    schedule, batches = laboratory.OneCycleLR, laboratory.ImageBatches
    monkeypatch.setattr(laboratory, "OneCycleLR", lambda o, lr, **k: rates.append(lr) or schedule(o, lr, **k))
    monkeypatch.setattr(
        laboratory, "ImageBatches", lambda *a, **k: cutouts.add(k["cutout"]) or batches(*a, **k)
    )
    few = replace(TABLE_5, ways=("vote", "independent"), cutout=8)
    paths = study.reproduce_table(few, tmp_path, smoke=True, more_epochs=1)
    assert rates == [laboratory.LR, laboratory.LR, laboratory.LR / 5]
    assert cutouts == {8}
    record = json.loads(paths[0].read_text(encoding="utf-8"))
    assert record["config"]["cutout"] == 8
    assert record["config"]["more_lr"] == record["config"]["lr"] / 5
    assert {trunk["settings"]["cutout"] for trunk in record["data"]["trunks"]} == {8}
    with pytest.raises(ValueError, match=r"\(cutout: 12 here, 8 there\)"):
        study.reproduce_table(replace(few, cutout=12), tmp_path, smoke=True, more_epochs=1)


def test_every_variant_has_trunks_of_its_own(bench, tmp_path):
    images = study.load_images(TABLE_5, None, smoke=True)
    paths = set()
    for lr, cutout in bench.VARIANTS:
        settings = laboratory.Settings(epochs=1, more_epochs=0, size=16, width=4, lr=lr, cutout=cutout)
        place = laboratory.Laboratory(
            images, settings, weights=None, folder=tmp_path, device=torch.device("cpu")
        )
        paths.add(place.trunk_file("convnet", bench.SEED))
    assert len(paths) == len(bench.VARIANTS)


def test_the_search_for_kernels_has_a_bound_that_is_left_as_it_was():
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


def test_what_is_measured_is_not_measured_again_nor_written_over(bench, measured, monkeypatch):
    folder, _ = measured
    monkeypatch.setattr(laboratory.Laboratory, "trunk", lambda *a: pytest.fail("trained again"))
    run(bench, folder, "0,3")
    with pytest.raises(
        ValueError, match=r"`--out` must be a folder without choose_image_recipe-0-convnet\.json"
    ):
        bench.main(["--smoke", "--networks", "convnet", "--epochs", "2", "--out", str(folder)])
    with pytest.raises(ValueError, match="`--variants` must be one of 0, 1, 2, 3; got 4"):
        run(bench, folder, "4")


def test_the_parts_make_one_record_and_one_line_for_a_script(bench, measured, tmp_path, capsys):
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


def test_what_fails_is_left_out_of_the_choice_with_a_warning(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(
        laboratory.Laboratory, "trunk", lambda *a: (_ for _ in ()).throw(RuntimeError("out of memory"))
    )
    with pytest.warns(UserWarning, match="variant 1, convnet was left out: out of memory"):
        run(bench, tmp_path, "1")
    with pytest.raises(SystemExit, match="There is no choose_image_recipe-VARIANT-NETWORK"):
        bench.main(["--choose", str(tmp_path)])


def test_the_least_mean_error_of_complete_variants_is_chosen(bench):
    parts = [part(0, "a", 3.0), part(0, "b", 3.0), part(1, "a", 1.0), part(2, "a", 2.0), part(2, "b", 3.0)]
    assert bench.best(parts) == 2
    with pytest.raises(SystemExit, match="No variant has been measured with every network"):
        bench.best([part(0, "a", 1.0), part(1, "b", 1.0)])


def test_the_constants_are_those_that_were_chosen(bench):
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert bench.VARIANTS[record["chosen"]] == (laboratory.LR, TABLE_5.cutout)
    assert bench.best(record["data"]) == record["chosen"]


def test_parts_of_different_settings_are_not_put_together(bench, tmp_path):
    for number, epochs in ((0, 12), (1, 6)):
        text = json.dumps(part(number, "a", 1.0, epochs=epochs))
        (tmp_path / f"choose_image_recipe-{number}-a.json").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="have different settings"):
        bench.read_parts(tmp_path)
