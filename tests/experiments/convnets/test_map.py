"""The map of image ensembles: parts that are kept, a gate chosen on held-out images, and tables of the record."""

import json
from pathlib import Path

import numpy as np
import pytest

from counterpoint.experiments import reproduce
from counterpoint.experiments._document import fill
from counterpoint.experiments.convnets import map as image_map
from counterpoint.experiments.convnets import map_tables as tables
from counterpoint.experiments.convnets.arms import Gate
from counterpoint.training.gate import DiversityGate
from counterpoint.vision import backbone

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
    names = [part.name for part in image_map.plan(smoke / "image-map", 2, smoke=True)]
    assert list(record["data"]) == names
    assert {path.name for path in smoke.iterdir()} >= {"image-map.md", "image-map.png", "image-map.json"}
    piece = record["data"]["width-2"]
    soft = 100 * np.array(piece["data"]["test"]["raw"]["soft"])[:, 0]
    text = (smoke / "image-map.md").read_text(encoding="utf-8")
    assert f"| 2 | 2 | {soft.mean():.2f} ± {soft.std(ddof=1):.2f} |" in text


def test_a_finished_part_is_not_run_again_and_a_failing_one_loses_no_other(tmp_path, monkeypatch):
    from counterpoint.experiments.convnets import part as program_of

    reproduce("image-map", tmp_path, smoke=True, parts="tune")
    kept = (tmp_path / "image-map" / "tune-2.json").stat().st_mtime_ns
    done = program_of.run
    monkeypatch.setattr(
        program_of, "run", lambda part, *rest: 1 / 0 if part.name == "width-2" else done(part, *rest)
    )
    with pytest.warns(UserWarning, match="part width-2 failed: ZeroDivisionError"):
        reproduce("image-map", tmp_path, smoke=True, parts="tune,width")
    found = json.loads((tmp_path / "image-map.json").read_text(encoding="utf-8"))
    assert list(found["data"]) == ["tune-2", "tune-4", "width-4"]
    assert (tmp_path / "image-map" / "tune-2.json").stat().st_mtime_ns == kept


def test_a_part_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="`parts` must name a part that can be run; got 'nothing'"):
        reproduce("image-map", tmp_path, smoke=True, parts="nothing")


def test_the_gate_is_chosen_on_held_out_images_alone(tmp_path):
    library_gate = DiversityGate()
    assert image_map.choose_gate(tmp_path) == (library_gate.start, library_gate.end, library_gate.by)
    gates = [None, None, Gate(0.4, 0.6)._asdict(), Gate(0.5, 0.7, "r_tl")._asdict()]
    for width, errors in ((8, [0.30, 0.25, 0.27, 0.26]), (32, [0.13, 0.15, 0.13, 0.14])):
        held, test = {"soft": [errors]}, {"soft": [errors[::-1]]}
        part = {
            "config": {"arms": [{"gate": gate} for gate in gates]},
            "data": {kind: {"raw": one, "read": one} for kind, one in (("held_out", held), ("test", test))},
        }
        (tmp_path / f"tune-{width}.json").write_text(json.dumps(part))
    # 0.27 / 0.30 + 0.13 / 0.13 = 1.90 is less than 0.26 / 0.30 + 0.14 / 0.13 = 1.94
    assert image_map.choose_gate(tmp_path) == Gate(0.4, 0.6)


def piece(width, independent, diverse, fit):
    arms = [{"name": name} for name in ("independent", "0.9", "auto")]
    one = {name: [[fit] * 3] for name in ("member", "r_tl", "r_ll", "optimality", "error_correlation")}
    train, test = {**one, "soft": [[0.1] * 3]}, {**one, "soft": [[independent, diverse, independent]]}
    return {
        "config": {
            "width": width,
            "n_learners": 5,
            "arms": arms,
            "read_out": [False, True, True],
            "seeds": [0],
        },
        "data": {"train": {"raw": train, "read": train}, "test": {"raw": test, "read": test}},
    }


def test_what_tells_the_sign_is_judged_on_other_widths():
    data = {
        "width-8": piece(8, 0.30, 0.25, 0.6),
        "width-32": piece(32, 0.13, 0.15, 0.9),
        "width-4": piece(4, 0.40, 0.35, 0.5),  # told: pays
        "width-64": piece(64, 0.11, 0.12, 0.95),  # told: costs
        "width-16": piece(16, 0.18, 0.185, 0.7),  # told wrongly: under the threshold, 0.75
    }
    rank, right, n = tables.told({"config": {"smoke": False}, "data": data}, "r_TL")
    assert (right, n) == (2, 3)
    assert rank < -0.7


def test_votes_are_read_as_the_library_would(record):
    one = record["data"]["width-2"]
    for arm, how in (("independent", "raw"), ("0.9", "read"), ("auto", "read")):
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
    if not path.exists():
        pytest.skip("there is no record of the map yet")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert fill(page, "image-map", tables.in_markdown(found)) == page
    gate = DiversityGate()
    assert found["config"]["gate"] == {"start": gate.start, "end": gate.end, "by": gate.by}
