"""The study of the map of diversity: the parts of a run, its record, tables and figures."""

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from counterpoint.datasets import load
from paper import reproduce
from paper.__main__ import main
from paper.diversity_map import analysis, figures, study, tables
from paper.diversity_map.__main__ import rewrite
from paper.diversity_map.study import SMOKE, SMOKE_DATA, Grid

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


@pytest.mark.parametrize("name", ["iris", "labor"])  # numbers; nominal columns with gaps
def test_every_row_is_tested_once_in_each_repeat_and_scaled_by_the_others(name):
    table = load(name)
    x, y, trained = study.prepare(table, Grid(folds=3, rows=2 * len(table.y)), 0)
    assert x.shape[0] == len(trained) == 6
    np.testing.assert_array_equal((1 - trained).sum(axis=0), 2)
    assert len(np.unique(trained, axis=0)) == 6
    for seen, rows in zip(x, trained > 0, strict=True):
        np.testing.assert_allclose(seen[:, rows].mean(axis=1), 0, atol=1e-5)
        assert set(seen[:, rows].std(axis=1).round(4).tolist()) <= {0.0, 1.0}
    assert (np.unique(table.y)[y] == table.y).all()


def test_a_run_goes_on_after_the_parts_it_finds(smoke, record, tmp_path, monkeypatch):
    parts = (smoke[0] / study.PARTS).read_text(encoding="utf-8").splitlines()
    assert len(parts) == len(SMOKE_DATA) * len(SMOKE.learners) * len(SMOKE.hidden)
    cut_off = parts[-1][:50]  # with the end of its line
    (tmp_path / study.PARTS).write_text("\n".join([*parts[:-1], cut_off]), encoding="utf-8")
    ran = []
    original = study.run_part
    monkeypatch.setattr(study, "run_part", lambda *a, **k: ran.append(a[:3]) or original(*a, **k))
    monkeypatch.setattr(study, "write_findings", lambda *_: [])
    said = rf"{study.PARTS}' has a damaged part in line {len(parts)}, which is left out\.$"
    with pytest.warns(UserWarning, match=said):
        reproduce("diversity-map", tmp_path, smoke=True)
    assert ran == [("glass", 5, 16)]
    again = json.loads((tmp_path / "diversity-map.json").read_text(encoding="utf-8"))
    for one, other in zip(record["data"], again["data"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    written = (tmp_path / study.PARTS).read_text(encoding="utf-8").splitlines()
    assert written[:-1] == [*parts[:-1], cut_off]
    assert json.loads(written[-1])["settings"] == json.loads(parts[-1])["settings"]
    settings = {**json.loads(parts[0])["settings"], "seed": 1}  # another seed is another run
    assert study._read_parts(smoke[0] / study.PARTS, settings) == []


def test_a_table_whose_part_fails_is_left_out_of_the_record(tmp_path, monkeypatch):
    original = study.run_part

    def run_part(name, n_learners, *arguments, **options):
        if name == "labor" and n_learners == 5:
            raise RuntimeError("out of memory")
        return original(name, n_learners, *arguments, **options)

    monkeypatch.setattr(study, "run_part", run_part)
    monkeypatch.setattr(study, "write_findings", lambda *_: [])
    with pytest.warns(UserWarning, match=r"labor, 5 learners of \d+: out of memory"):
        (path,) = study.reproduce(tmp_path, smoke=True)
    assert json.loads(path.read_text(encoding="utf-8"))["config"]["data"] == ["iris", "glass"]


def test_a_run_without_a_complete_table_says_so(tmp_path, monkeypatch):
    def run_part(*arguments, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(study, "run_part", run_part)
    with (
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(RuntimeError, match="no table has all its parts"),
    ):
        study.reproduce(tmp_path, smoke=True)


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


def test_the_page_says_what_the_record_says(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    rewrite(RECORD, page, RECORD.with_name("diversity-map-one-unit.json"))
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
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
    assert (
        f"the right sign in {learner[None][0]} cells for the chosen diversity (*always* to use it in {always[None][0]})"
        in prose
    )
    assert f"but in {learner['0.5'][0]} at 0.5 and {learner['0.9'][0]} at 0.9" in prose
    assert f"(*always*: {always['0.5'][0]} and {always['0.9'][0]})" in prose
    assert (
        f"{learner[None][1]} % of the errors against {always[None][1]}, {learner['0.5'][1]} against {always['0.5'][1]} "
        f"and {learner['0.9'][1]} against {always['0.9'][1]}" in prose
    )
    above = {key for key, (_, gain) in judged.items() if float(gain) > float(always[key[0]][1])}
    assert above == {("0.9", "r_tl"), ("0.9", "optimality"), (None, "learner")}
    assert (
        f"at 0.9 r_TL ({judged['0.9', 'r_tl'][1]}) and the optimality ({judged['0.9', 'optimality'][1]}) come out above"
        in prose
    )
