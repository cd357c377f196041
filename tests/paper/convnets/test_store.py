"""Parts of a study, each in a file of its own."""

import json
from functools import partial

import pytest
import torch

from paper.convnets import map as image_map
from paper.convnets.store import Job, check_kind, check_parts, collect

collect = partial(collect, title="Parts", device=torch.device("cpu"))


def test_a_part_of_other_settings_is_never_written_over(tmp_path):
    done = []
    first = Job("a", {"width": 4}, lambda: done.append(1) or {"error": 0.5})
    assert collect([first], tmp_path, ["a"]) == collect([first], tmp_path, []) == [tmp_path / "a.json"]
    assert done == [1]
    before = (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"without .*a\.json, or with one of the same settings"):
        collect([first._replace(config={"width": 8})], tmp_path, ["a"])
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == before


NAMES = ["width-8", "width-32", "once-8", "once-more-8", "net-n1-s0", "net-n10-s0"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (None, NAMES),
        ("width", ["width-8", "width-32"]),
        (" once-8 , net-n1", ["once-8", "net-n1-s0"]),  # and not net-n10
        ("once", ["once-8", "once-more-8"]),
    ],
)
def test_parts_are_asked_for_by_whole_words_of_their_names(parts, expected):
    assert list(check_parts(parts, NAMES)) == expected


@pytest.mark.parametrize("parts", ["", "widht", "width,", "width,nothing", "net-n"])
def test_parts_that_there_are_not_are_refused_before_anything_is_run(parts):
    with pytest.raises(ValueError, match=r"`parts` must be beginnings of names, of width, once, net; got "):
        check_parts(parts, NAMES)


@pytest.mark.parametrize("text", ["[]", '{"name": "image-map"}'])
def test_a_record_of_something_else_is_named(tmp_path, text):
    (tmp_path / "image-map.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"image-map\.json' must hold a record with config; it holds other JSON"
    ):
        check_kind(tmp_path, "image-map", smoke=True)


def test_a_smoke_run_takes_no_data(tmp_path):
    with pytest.raises(ValueError, match="`--data` has no meaning with `--smoke`"):
        image_map.reproduce(tmp_path, data=tmp_path, smoke=True)


@pytest.mark.parametrize("smoke", [True, False])
def test_smoke_runs_and_real_ones_do_not_mix(tmp_path, smoke):
    check_kind(tmp_path, "image-map", smoke=smoke)
    (tmp_path / "image-map.json").write_text(json.dumps({"config": {"smoke": not smoke}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"`out` must be a folder without image-map\.json"):
        check_kind(tmp_path, "image-map", smoke=smoke)
    with pytest.raises(ValueError, match=r"`out` must be a folder without image-map\.json"):
        image_map.reproduce(tmp_path, smoke=smoke)
    assert [path.name for path in tmp_path.iterdir()] == ["image-map.json"]
