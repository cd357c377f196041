"""The study of the map of diversity: the parts of a run, its record, tables and figures."""

import io
import json
import os
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from paper import documents, reproduce
from paper.__main__ import main
from paper.diversity_map import analysis, figures, study, tables
from paper.diversity_map.study import SMOKE, SMOKE_DATA

ROOT = Path(__file__).parents[3]
RECORD, PAGE = ROOT / "results" / "diversity-map.json", ROOT / "docs" / "when-does-diversity-pay.md"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The folder of a smoke run, and what the command printed."""
    folder = tmp_path_factory.mktemp("smoke")
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["diversity-map", "--smoke", "--out", str(folder)]) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def record(smoke):
    return json.loads((smoke[0] / "diversity-map.json").read_text(encoding="utf-8"))


def test_a_run_goes_on_after_the_jobs_it_finds(smoke, record, tmp_path, monkeypatch):
    shutil.copytree(smoke[0], tmp_path, dirs_exist_ok=True)
    jobs = sorted((tmp_path / "diversity-map").glob("*.json"))
    assert len(jobs) == len(SMOKE_DATA) * len(SMOKE.learners) * len(SMOKE.hidden)
    (tmp_path / "diversity-map" / "glass-n5-h16.json").write_text('{"config": ', encoding="utf-8")
    ran = []
    original = study.run_cell
    monkeypatch.setattr(study, "run_cell", lambda *a, **k: ran.append(a[:3]) or original(*a, **k))
    monkeypatch.setattr(study, "write_findings", lambda *_: [])
    with pytest.warns(RuntimeWarning, match=r"glass-n5-h16\.json' must hold JSON; .* The job is run again"):
        reproduce("diversity-map", tmp_path, smoke=True)
    assert ran == [("glass", 5, 16)]
    again = json.loads((tmp_path / "diversity-map.json").read_text(encoding="utf-8"))
    for one, other in zip(record["data"], again["data"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def fail(*_, **__):
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"smoke": True, "seed": 1}, r"\(seed: 1 here, 0 there\)"), ({}, "or with that of no smoke run")],
)
def test_jobs_of_other_settings_are_refused_before_any_work(options, message, smoke, monkeypatch):
    monkeypatch.setattr(study, "run_cell", fail)
    with pytest.raises(ValueError, match=rf"^`out` must be a folder without .*{message}"):
        study.reproduce(smoke[0], **options)


def test_a_table_with_a_failed_cell_is_left_out_of_the_record(smoke, tmp_path, monkeypatch):
    shutil.copytree(smoke[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "diversity-map" / "labor-n5-h1.json").unlink()
    monkeypatch.setattr(study, "run_cell", fail)
    monkeypatch.setattr(study, "write_findings", lambda *_: [])
    with pytest.raises(RuntimeError, match=r"^1 job failed: labor-n5-h1: RuntimeError: out of memory$"):
        study.reproduce(tmp_path, smoke=True)
    left = json.loads((tmp_path / "diversity-map.json").read_text(encoding="utf-8"))
    assert left["config"]["data"] == ["iris", "glass"]


def test_a_run_without_a_complete_table_writes_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "run_cell", fail)
    with pytest.raises(RuntimeError, match=r"^12 jobs failed: iris-n3-h1: RuntimeError: out of memory; "):
        study.reproduce(tmp_path, smoke=True)
    assert not list(tmp_path.glob("*.*"))


def test_the_tables_of_a_folder_come_after_the_embedded_ones(tmp_path):
    (tmp_path / "more").mkdir()
    for name in ("splice", "anneal", "unknown"):
        (tmp_path / "more" / f"{name}.csv").touch()
    assert study.table_names(tmp_path) == (*study.table_names(None), "anneal", "splice")
    with pytest.raises(ValueError, match="`data` must be a folder"):
        study.table_names(tmp_path / "none")
    with pytest.raises(ValueError, match=r"^`--data` has no meaning with `--smoke`\.$"):
        study.reproduce(tmp_path / "out", data=tmp_path, smoke=True)
    assert not (tmp_path / "out").exists()


def test_a_record_says_what_made_it(record):
    assert record["config"]["smoke"] is True
    assert record["config"]["data"] == list(SMOKE_DATA)
    assert "torch" in record["versions"]
    for part in record["data"]:
        assert list(part["wrong"]["soft"]) == ["independent", "joint", "0", "0.9"]
        wrong = np.array(list(part["wrong"]["hard"].values()))
        assert (wrong <= part["rows"]).all()
    iris = record["data"][0]
    assert (iris["n_learners"], iris["hidden"], iris["n_parameters"]) == (3, 1, 3 * (4 + 1 + 3 + 3))


def test_tables_hold_the_numbers_of_the_record(record):
    found = analysis.read_map(record)
    text = tables.markdown(record)
    assert text.startswith("Smoke run. 3 tables (iris, labor, glass)")
    for h, units in enumerate(found.hidden):
        errors = " | ".join(f"{100 * e:.2f}" for e in found.error[:, :, h].mean(axis=(0, 1)))
        assert f"| {units} | {errors} |" in text
    always = analysis.gains_of(found.gain, found.losses.index("0.9"))
    assert f"| always diversity |  |  |  |  | {(always > 0).sum()} of {(always != 0).sum()} |" in text


def test_figures_show_the_numbers_of_the_record(record):
    found = analysis.read_map(record)
    figure = figures.draw_map(record)
    assert figure.get_suptitle().startswith("Smoke run: errors")
    heat = figure.axes[0].images[0].get_array()
    gains = found.gain[..., found.losses.index("0.9")].mean(axis=0)
    np.testing.assert_allclose(heat, 100 * (1 - np.exp(-gains)))
    curve = figure.axes[2].lines[0]
    np.testing.assert_allclose(curve.get_xdata(), [0, 0.9])
    left, right = figures.draw_rule(record).axes
    assert sum(len(points.get_offsets()) for points in left.collections) == found.gain[..., 0].size
    assert right.get_title(loc="left") == "Hidden units in all"


def test_the_command_writes_record_tables_and_figures(smoke):
    folder, printed = smoke
    for name in ("diversity-map.json", "diversity-map.md", "diversity-map.png", "diversity-rule.svg"):
        assert str(folder / name) in printed
        assert (folder / name).stat().st_size > 0


def test_the_page_of_tables_is_replaced_and_not_written_over(smoke, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "draw_all", lambda _: {})
    page = tmp_path / "diversity-map.md"
    page.write_text("an older one")
    os.link(page, tmp_path / "same")  # would change with it
    assert study.write_findings(smoke[0] / "diversity-map.json", tmp_path) == [page]
    assert page.read_text(encoding="utf-8").startswith("Smoke run.")
    assert (tmp_path / "same").read_text() == "an older one"


def test_a_sentence_takes_away_a_share_without_a_plus(record):
    said = [one for one in tables.markdown(record).splitlines() if one.startswith("- ")]
    assert any("takes away" in sentence for sentence in said)
    assert not any("+" in sentence for sentence in said)


def test_the_page_says_what_the_record_says(tmp_path, monkeypatch):
    shutil.copy(PAGE, tmp_path)
    monkeypatch.setattr(documents, "PAGES", {"diversity-map": documents.PAGES["diversity-map"]})
    documents.write_pages(docs=tmp_path)
    assert (tmp_path / PAGE.name).read_bytes() == PAGE.read_bytes()
    assert {path.name for path in (tmp_path / "images").iterdir()} == {
        "diversity-map.png",
        "diversity-rule.png",
    }


def test_the_prose_of_the_page_has_the_numbers_of_the_record():
    found = analysis.read_map(json.loads(RECORD.read_text(encoding="utf-8")))
    prose = PAGE.read_text(encoding="utf-8").partition("<!-- diversity-map -->")[0]
    judged, always = {}, {}
    for loss in (None, "0.5", "0.9"):
        place = None if loss is None else found.losses.index(loss)
        gain = analysis.gains_of(found.gain, place)
        always[loss] = (int((gain > 0).sum()), f"{100 * analysis.reduction(gain.mean()):.1f}")
        for one in tables.predictors(found, place):
            judged[loss, one.name] = (f"{one.hits} of {one.n}", f"{100 * analysis.reduction(one.gain):.1f}")
    learner = {loss: judged[loss, "learner"] for loss in always}
    numbers = [hits for hits, _ in learner.values()] + [gain for _, gain in learner.values()]
    numbers += [str(count) for count, _ in always.values()] + [gain for _, gain in always.values()]
    numbers += [judged["0.9", "r_tl"][1], judged["0.9", "optimality"][1]]
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)", prose), number
    above = {key for key, (_, gain) in judged.items() if float(gain) > float(always[key[0]][1])}
    assert above == {("0.9", "r_tl"), ("0.9", "optimality"), (None, "learner")}  # so says the page
