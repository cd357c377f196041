"""The map of image ensembles: its jobs, and the tables of records of both layouts."""

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
from paper.convnets import study
from paper.convnets.map_parts import gain, parts_of

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "results" / "image-map.json"
PAGE = ROOT / "docs" / "images-when-diversity-pays.md"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    reproduce("image-map", folder, smoke=True)
    return folder


@pytest.fixture(scope="module")
def record(smoke):
    return read(smoke / "image-map.json")


@pytest.fixture(scope="module")
def committed():
    return read(COMMITTED)


def test_a_smoke_run_writes_every_job_and_its_tables(smoke, record):
    names = [name for name, *_ in study.plan(image_map.points(smoke=True), 2)]
    assert list(record["data"]) == names
    assert {path.name for path in smoke.iterdir()} >= {"image-map.md", "image-map.png", "image-map.json"}
    jobs = [record["data"][f"width-2-s{seed}-independent"]["data"] for seed in range(2)]
    errors = 100 * np.array([job["vote"]["error"] for job in jobs])
    text = (smoke / "image-map.md").read_text(encoding="utf-8")
    assert f"| 2 | 2 | {errors.mean():.2f} ± {errors.std(ddof=1):.2f} |" in text
    assert "| 2 | independent, then 0.9 |" in text
    assert "| 2 | 0.9, own views |" in text


def test_a_finished_job_is_not_run_again_and_a_failing_one_costs_no_other(tmp_path, monkeypatch):
    reproduce("image-map", tmp_path, smoke=True, seeds=1, parts="once")
    first = tmp_path / "image-map" / "once-2-s0-independent.json"
    kept, work = first.stat().st_mtime_ns, study.run
    monkeypatch.setattr(
        study, "run", lambda point, *rest: 1 / 0 if point.name == "width-2" else work(point, *rest)
    )
    with pytest.raises(RuntimeError, match="2 jobs failed: width-2-s0-independent: ZeroDivisionError"):
        reproduce("image-map", tmp_path, smoke=True, seeds=1, parts="once,width")
    found = read(tmp_path / "image-map.json")["data"]
    assert {name.rsplit("-s", 1)[0] for name in found} == {"width-4", "once-2"}
    assert first.stat().st_mtime_ns == kept


def test_parts_that_match_no_job_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"`parts` must be beginnings of names, of width, .*; got 'nothing'"):
        reproduce("image-map", tmp_path, smoke=True, parts="nothing")


def test_a_smoke_run_takes_no_data(tmp_path):
    with pytest.raises(ValueError, match="`--data` has no meaning with `--smoke`"):
        image_map.reproduce(tmp_path, data=tmp_path, smoke=True)


def test_a_record_of_the_earlier_program_is_never_replaced(tmp_path):
    path = tmp_path / "image-map.json"
    path.write_bytes(COMMITTED.read_bytes())
    with pytest.raises(ValueError, match=r"without image-map\.json of the earlier study program; got '"):
        image_map.reproduce(tmp_path)
    assert path.read_bytes() == COMMITTED.read_bytes()
    names = {name for name, *_ in study.plan(image_map.points(), 3)}
    assert not names & {path.stem for path in COMMITTED.with_suffix("").glob("*.json")}


def test_an_arm_of_two_halves_trains_by_one_loss_after_the_other(monkeypatch):
    seen = []

    def look(ensemble, batches, *, loss, optimizer, scheduler, epochs, **_):
        seen.append((repr(loss), epochs, optimizer, scheduler))
        return {
            name: np.zeros(epochs)
            for name in ("loss", "vote_accuracy", "learner_accuracy", "log_loss", "r_tl", "r_ll")
        }

    monkeypatch.setattr(study, "fit", look)
    ensemble = study.Ensemble([backbone("convnet", 2, width=2)])
    history = study._train(ensemble, range(4), f"independent{study.THEN}paper-0.9", 5)
    (first, n_first, *same), (second, n_second, *others) = seen
    assert (first, n_first, n_second) == ("IndependentLoss()", 2, 3)
    assert "diversity=0.9" in second
    assert same == others  # momentum and learning rate go on
    assert len(history["loss"]) == 5


def piece(width, independent, diverse, fit):
    arms = [{"name": name} for name in ("independent", "0.9")]
    one = {name: [[fit] * 2] for name in ("learner", "r_tl", "r_ll", "optimality", "error_correlation")}
    train, test = {**one, "soft": [[0.1] * 2]}, {**one, "soft": [[independent, diverse]]}
    return {
        "config": {"width": width, "n_learners": 5, "arms": arms, "read_out": [False, True], "seeds": [0]},
        "data": {"train": {"raw": train, "read": train}, "test": {"raw": test, "read": test}},
    }


def test_predictors_of_the_sign_are_judged_on_other_parts():
    data = {
        "width-8": piece(8, 0.30, 0.25, 0.6),
        "width-32": piece(32, 0.13, 0.15, 0.9),
        "width-4": piece(4, 0.40, 0.35, 0.5),  # predicted: pays
        "width-64": piece(64, 0.11, 0.12, 0.95),  # predicted: costs
        "width-16": piece(16, 0.18, 0.185, 0.7),  # predicted wrongly: under the threshold, 0.75
        "once-8": piece(8, 0.50, 0.45, 0.2),  # predicted: pays, and does not move the threshold
        "views-8": piece(8, 0.30, 0.20, 0.99),  # on other views: no part of this
    }
    rank, right, n = tables.judge({"config": {"smoke": False}, "data": data}, "r_TL")
    assert (right, n) == (3, 4)
    assert rank < -0.7


def test_votes_of_the_earlier_program_are_read_out_where_the_loss_needs_it(committed):
    one = committed["data"]["once-8"]
    part = parts_of(committed)["once-8"]
    for arm, how in (("independent", "raw"), ("0.9", "read")):
        place = [a["name"] for a in one["config"]["arms"]].index(arm)
        expected = np.array(one["data"]["test"][how]["soft"])[:, place]
        np.testing.assert_array_equal(part.values(arm), expected)


def test_a_part_of_jobs_has_the_seeds_that_all_its_arms_have(record):
    whole = parts_of(record)["once-2"]
    assert list(whole.found) == ["independent", "0.5", "0.9"]
    fewer = {**record, "data": {k: v for k, v in record["data"].items() if k != "once-2-s1-paper-0.5"}}
    part = parts_of(fewer)["once-2"]
    for arm in part.found:
        for images in ("test", "train"):
            assert part.values(arm, "r_tl", images) == whole.values(arm, "r_tl", images)[:1]


def test_a_single_net_has_the_size_of_the_ensemble():
    for width, n in [(4, 10), (8, 10), (16, 5), (32, 5)]:
        one = backbone("convnet", 10, width=image_map.same_size(width, n))
        many = backbone("convnet", 10, width=width)
        sizes = [sum(p.numel() for p in net.parameters()) for net in (one, many)]
        assert sizes[0] == pytest.approx(n * sizes[1], rel=0.12)


def test_the_page_says_what_the_record_says(committed):
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, "image-map", tables.in_markdown(committed)) == page


def test_the_tables_skip_parts_and_arms_of_earlier_studies(committed):
    more = copy.deepcopy(committed)
    config, data = (more["data"]["width-8"][key] for key in ("config", "data"))
    config["arms"].append({**config["arms"][1], "name": "earlier"})
    config["read_out"].append(True)
    for found in (data[kind][how] for kind in ("train", "test") for how in ("raw", "read")):
        for name, rows in found.items():
            found[name] = [[*row, 0.5] for row in rows]
    more["data"] |= {"earlier-8": more["data"]["width-8"], "earlier-4": more["data"]["width-4"]}
    assert tables.in_markdown(more) == tables.in_markdown(committed)
    assert tables.cells(more).keys() == tables.cells(committed).keys()


def test_the_sentences_of_the_page_say_what_the_record_says(committed):
    record, parts = committed, parts_of(committed)
    page = PAGE.read_text(encoding="utf-8")

    def less(arm, *names):
        gains = [100 * gain(parts[name], arm).mean() for name in names]
        return [f"{abs(gain):.0f}" for gain in gains]

    def fit(*names):
        wrong = (parts[name].values("independent", "learner", "train") for name in names)
        return [f"{100 * (1 - each.mean()):.0f}" for each in wrong]

    def error(part, arm, measure="soft"):
        return 100 * parts[part].values(arm, measure).mean()

    def kept(arm):  # the share of the gain of 0.9 at width 8, in %
        independent, diverse = (error("width-8", one) for one in ("independent", "0.9"))
        return f"{100 * (independent - error('tricks-8', arm)) / (independent - diverse):.0f}"

    def rank(quantity):
        return number(tables.judge(record, quantity)[0], ".2f")

    signs = [tables.judge(record, quantity)[1] for quantity in tables.QUANTITIES]
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
        ("(r_LL, rank correlation {}) and", [rank("r_LL")]),
        ("their vote is ahead of them ({})", [rank("vote over learner")]),
        ("in {} to {} of the other 14 parts", [min(signs), max(signs)]),
        ("as good at 0.9 ({:.1f} %)", [error("tricks-8", "error 0.9")]),
        ("At 0.5 it has {} % of the gain", [kept("error 0.5")]),
        ("with better learners ({} against {} %)", learners),
    ):
        assert words.format(*numbers) in " ".join(page.split())
