"""The map of image ensembles: parts that are kept, and tables of the record."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from counterpoint.records import fill, number
from counterpoint.vision import backbone
from paper import reproduce
from paper.convnets import map as image_map
from paper.convnets import map_tables as tables

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    reproduce("image-map", folder, smoke=True)
    return folder


@pytest.fixture(scope="module")
def record(smoke):
    return json.loads((smoke / "image-map.json").read_text(encoding="utf-8"))


def test_a_smoke_run_writes_every_part_and_its_tables(smoke, record):
    names = [part.name for part in image_map.plan(2, smoke=True)]
    assert list(record["data"]) == names
    assert {path.name for path in smoke.iterdir()} >= {"image-map.md", "image-map.png", "image-map.json"}
    piece = record["data"]["width-2"]
    soft = 100 * np.array(piece["data"]["test"]["raw"]["soft"])[:, 0]
    text = (smoke / "image-map.md").read_text(encoding="utf-8")
    assert f"| 2 | 2 | {soft.mean():.2f} ± {soft.std(ddof=1):.2f} |" in text


def test_a_finished_part_is_not_run_again_and_a_failing_one_loses_no_other(tmp_path, monkeypatch):
    from paper.convnets import part as program_of

    reproduce("image-map", tmp_path, smoke=True, parts="once")
    kept = (tmp_path / "image-map" / "once-2.json").stat().st_mtime_ns
    done = program_of.run
    monkeypatch.setattr(
        program_of, "run", lambda part, *rest: 1 / 0 if part.name == "width-2" else done(part, *rest)
    )
    with pytest.warns(UserWarning, match="part width-2 failed: ZeroDivisionError"):
        reproduce("image-map", tmp_path, smoke=True, parts="once,width")
    found = json.loads((tmp_path / "image-map.json").read_text(encoding="utf-8"))
    assert list(found["data"]) == ["width-4", "once-2"]
    assert (tmp_path / "image-map" / "once-2.json").stat().st_mtime_ns == kept


def test_a_part_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"`parts` must be beginnings of names, of width, .*; got 'nothing'"):
        reproduce("image-map", tmp_path, smoke=True, parts="nothing")


def test_a_part_that_was_run_with_more_arms_is_not_run_again(tmp_path, smoke):
    parts = {part.name: part for part in image_map.plan(2, smoke=True)}
    tricks = parts["tricks-2"]
    kept = image_map._settings(tricks, smoke / "image-map")
    fewer = tricks._replace(arms=tricks.arms[::2])
    assert image_map._settings(fewer, smoke / "image-map") == kept
    for other in (tricks._replace(arms=parts["width-2"].arms), fewer._replace(epochs=2)):
        found = image_map._settings(other, smoke / "image-map")
        assert [arm["name"] for arm in found["arms"]] == [arm.name for arm in other.arms]
    assert image_map._settings(fewer, tmp_path)["read_out"] == [arm.read_out for arm in fewer.arms]


def test_an_arm_on_record_may_have_fields_that_are_gone_but_no_other_loss(tmp_path, smoke):
    tricks = next(part for part in image_map.plan(2, smoke=True) if part.name == "tricks-2")
    found = json.loads((smoke / "image-map" / "tricks-2.json").read_text(encoding="utf-8"))
    path = tmp_path / "tricks-2.json"
    for arm in found["config"]["arms"]:
        arm["turn"] = 0.5
    path.write_text(json.dumps(found), encoding="utf-8")
    assert image_map._settings(tricks, tmp_path) == found["config"]
    found["config"]["arms"][0]["second"]["diversity"] = 0.8
    path.write_text(json.dumps(found), encoding="utf-8")
    assert image_map._settings(tricks, tmp_path) != found["config"]


def piece(width, independent, diverse, fit):
    arms = [{"name": name} for name in ("independent", "0.9")]
    one = {name: [[fit] * 2] for name in ("learner", "r_tl", "r_ll", "optimality", "error_correlation")}
    train, test = {**one, "soft": [[0.1] * 2]}, {**one, "soft": [[independent, diverse]]}
    return {
        "config": {"width": width, "n_learners": 5, "arms": arms, "read_out": [False, True], "seeds": [0]},
        "data": {"train": {"raw": train, "read": train}, "test": {"raw": test, "read": test}},
    }


def test_what_tells_the_sign_is_judged_on_other_parts():
    data = {
        "width-8": piece(8, 0.30, 0.25, 0.6),
        "width-32": piece(32, 0.13, 0.15, 0.9),
        "width-4": piece(4, 0.40, 0.35, 0.5),  # told: pays
        "width-64": piece(64, 0.11, 0.12, 0.95),  # told: costs
        "width-16": piece(16, 0.18, 0.185, 0.7),  # told wrongly: under the threshold, 0.75
        "once-8": piece(8, 0.50, 0.45, 0.2),  # told: pays, and does not move the threshold
        "views-8": piece(8, 0.30, 0.20, 0.99),  # on other views: no part of this
    }
    rank, right, n = tables.told({"config": {"smoke": False}, "data": data}, "r_TL")
    assert (right, n) == (3, 4)
    assert rank < -0.7


def test_votes_are_read_out_where_the_loss_needs_it(record):
    one = record["data"]["once-2"]
    for arm, how in (("independent", "raw"), ("0.9", "read")):
        place = [a["name"] for a in one["config"]["arms"]].index(arm)
        expected = np.array(one["data"]["test"][how]["soft"])[:, place]
        np.testing.assert_array_equal(tables.arm_values(one, arm), expected)


def test_a_single_net_has_the_size_of_the_ensemble():
    for width, n in [(4, 10), (8, 10), (16, 5), (32, 5)]:
        one = backbone("convnet", 10, width=image_map.same_size(width, n))
        many = backbone("convnet", 10, width=width)
        sizes = [sum(p.numel() for p in net.parameters()) for net in (one, many)]
        assert sizes[0] == pytest.approx(n * sizes[1], rel=0.12)


def test_the_page_says_what_the_record_says():
    path = ROOT / "results" / "image-map.json"
    page = (ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert fill(page, "image-map", tables.in_markdown(found)) == page


def test_the_tables_skip_parts_and_arms_of_earlier_studies(record):
    more = copy.deepcopy(record)
    config, data = (more["data"]["width-2"][key] for key in ("config", "data"))
    config["arms"].append({**config["arms"][1], "name": "earlier"})
    config["read_out"].append(True)
    for found in (data[kind][how] for kind in ("train", "test") for how in ("raw", "read")):
        for name, rows in found.items():
            found[name] = [[*row, 0.5] for row in rows]
    more["data"] |= {"earlier-2": more["data"]["width-2"], "earlier-4": more["data"]["width-4"]}
    assert tables.in_markdown(more) == tables.in_markdown(record)
    assert tables.cells(more).keys() == tables.cells(record).keys()


def test_the_sentences_of_the_page_say_what_the_record_says():
    path = ROOT / "results" / "image-map.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    parts = record["data"]
    page = (ROOT / "docs" / "images-when-diversity-pays.md").read_text(encoding="utf-8")

    def less(arm, *names):
        gains = [100 * tables._gain(parts[name], arm).mean() for name in names]
        return [f"{abs(gain):.0f}" for gain in gains]

    def fit(*names):
        wrong = (tables.arm_values(parts[name], "independent", "learner", "train") for name in names)
        return [f"{100 * (1 - each.mean()):.0f}" for each in wrong]

    def error(part, arm, measure="soft"):
        return 100 * tables.arm_values(parts[part], arm, measure).mean()

    def kept(arm):  # the share of the gain of 0.9 at width 8, in %
        independent, diverse = (error("width-8", one) for one in ("independent", "0.9"))
        return f"{100 * (independent - error('tricks-8', arm)) / (independent - diverse):.0f}"

    def told(quantity):
        return number(tables.told(record, quantity)[0], ".2f")

    signs = [tables.told(record, quantity)[1] for quantity in tables.QUANTITIES]
    alone = [f"{error(f'single-{width}', 'independent'):.1f}" for width in (4, 8)]
    diverse = [f"{error(f'width-{width}', '0.9'):.1f}" for width in (4, 8)]
    learners = [f"{error(*way, 'learner'):.1f}" for way in (("tricks-8", "error 0.5"), ("width-8", "0.9"))]
    narrow = ("learners-3-8", "learners-5-8", "width-8")
    for words, numbers in (
        ("right on {} and {} % of their training images", fit("width-4", "width-8")),
        ("diversity 0.9 removes {} and {} % of the errors", less("0.9", "width-4", "width-8")),
        ("at diversity 0 the same loss removes {} and {} %", less("0.0", "width-4", "width-8")),
        ("removes {} % at width 4 and adds {} % at width 8", less("joint", "width-4", "width-8")),
        ("At width 16 ({} % right in training)", fit("width-16")),
        ("diversity 0.9 still removes {} % of the errors", less("0.9", "width-16")),
        ("At width 32 ({} %) it adds {} %", [*fit("width-32"), *less("0.9", "width-32")]),
        ("%, at width 64 ({} %) {} %", [*fit("width-64"), *less("0.9", "width-64")]),
        ("removes {}, {}, {} and {} %", less("0.9", "once-4", "once-8", "once-16", "once-32")),
        ("({} and {} %). Width 16 gains {} %", less("0.9", "few-4", "few-8", "few-16")),
        ("right on {} % of their training images.", fit("few-32")),
        ("removes {}, {} and {} % of the errors of 3, 5", less("0.9", *narrow)),
        ("adds {} % with three learners and {} % with five", less("0.9", "learners-3-32", "width-32")),
        ("keep {} % of the gain of 0.9", [kept("independent, then 0.9")]),
        ("The other order keeps {} %", [kept("0.9, then independent")]),
        ("errs on {} % of the test images where", alone[:1]),
        ("width 4 at diversity 0.9 err on {} %, and on {} against {} %", [diverse[0], alone[1], diverse[1]]),
        ("(r_LL, rank correlation {}) and", [told("r_LL")]),
        ("their vote is ahead of them ({})", [told("vote over learner")]),
        ("in {} to {} of the other 14 parts", [min(signs), max(signs)]),
        ("as good at 0.9 ({:.1f} %)", [error("tricks-8", "error 0.9")]),
        ("At 0.5 it has {} % of the gain", [kept("error 0.5")]),
        ("with better learners ({} against {} %)", learners),
    ):
        assert words.format(*numbers) in " ".join(page.split())


def test_the_plan_goes_on_after_the_parts_that_are_committed():
    folder = ROOT / "results" / "image-map"
    assert folder.is_dir()
    parts = {part.name: part for part in image_map.plan(3)}
    done = {path.stem for path in folder.glob("*.json")}
    assert all(name.startswith(("tune-", "auto-")) for name in done - parts.keys())  # earlier studies
    for name in done & parts.keys():
        known = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["config"]
        assert image_map._settings(parts[name], folder) == known
