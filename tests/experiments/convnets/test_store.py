"""Parts of a study, each in a file of its own."""

import json
from functools import partial

import pytest
import torch

from counterpoint.experiments.convnets import map as image_map
from counterpoint.experiments.convnets.store import Job, check_kind, collect

collect = partial(collect, title="Parts", device=torch.device("cpu"))


def test_a_part_of_other_settings_is_never_written_over(tmp_path):
    done = []
    first = Job("a", {"width": 4}, lambda: done.append(1) or {"error": 0.5})
    assert collect([first], tmp_path, None) == collect([first], tmp_path, "a, b") == [tmp_path / "a.json"]
    assert done == [1]
    before = (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"without .*a\.json, or with one of the same settings"):
        collect([first._replace(config={"width": 8})], tmp_path, None)
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("smoke", [True, False])
def test_smoke_runs_and_real_ones_do_not_mix(tmp_path, smoke):
    check_kind(tmp_path, "image-map", smoke=smoke)
    (tmp_path / "image-map.json").write_text(json.dumps({"config": {"smoke": not smoke}}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"`out` must be a folder without image-map\.json"):
        check_kind(tmp_path, "image-map", smoke=smoke)
    with pytest.raises(ValueError, match=r"`out` must be a folder without image-map\.json"):
        image_map.reproduce(tmp_path, smoke=smoke)
    assert [path.name for path in tmp_path.iterdir()] == ["image-map.json"]
