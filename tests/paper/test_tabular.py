"""Tables 2 and 3 and Figure 7: folds without leaks, programs that equal their parts, and what is written."""

import dataclasses
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from counterpoint.estimators import corrected_paired_test
from counterpoint.measures import learner_learner_correlation, truth_learner_correlation
from counterpoint.records import fill, markdown
from counterpoint.theory import truth_correlation_bounds
from counterpoint.training import CorrelationLoss, Group, Schedule, fit_groups
from paper import decorated, figure_7, programs, reproduce, table_2, table_3, tabular
from paper.__main__ import main
from paper.tabular import SMOKE

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    paths = reproduce("table-3", folder, smoke=True, device="cpu")
    return folder, json.loads(paths[0].read_text(encoding="utf-8"))


@pytest.fixture
def splits():
    return tabular.cross_validation("breast-w", 1, SMOKE)


def test_the_tables_are_those_of_the_paper(tmp_path):
    record = json.loads(table_2.reproduce(tmp_path)[0].read_text(encoding="utf-8"))
    for one in record["data"].values():
        assert one["found"] == one["paper"]
    assert record["data"]["breast-w"]["missing values"] == 16  # so say the donors of the data


def test_the_paper_s_numbers_stand_beside_ours():
    # Table 3 of the paper, in the order of its rows
    printed = [[3.69, 5.33, 1.97], [2.04, 10.67, 3.90], [1.74, 4.00, 3.33]]
    for row, numbers in zip(("decorate-trees", "decorate-nets", "mean"), printed, strict=True):
        assert list(table_3.LINES[row].paper.values()) == numbers
    assert table_3.LINES["sum"].paper == table_3.LINES["mean"].paper


def test_each_row_is_tested_once_in_a_repeat_and_repeats_differ():
    splits = tabular.cross_validation("iris", 2, SMOKE)
    first, second = splits[:2], splits[2:]
    for repeat in (first, second):
        assert sum(len(split.test_labels) for split in repeat) == 150
        assert all(len(split.labels) + len(split.test_labels) == 150 for split in repeat)
    assert len({split.seed for split in splits}) == 4
    assert not np.array_equal(first[0].table, second[0].table)


def test_columns_are_standardised_by_training_rows_and_missing_values_become_their_mean(splits):
    for split in splits:
        assert np.nanmean(split.table, axis=0) == pytest.approx(np.zeros(9), abs=1e-12)
        assert np.nanstd(split.table, axis=0) == pytest.approx(np.ones(9))
        assert np.abs(np.nanmean(split.test_table, axis=0)).max() > 1e-3
        x = split.tensors(CPU)[0].numpy()
        missing = np.isnan(split.table)
        assert missing.any()
        assert (x[missing] == 0).all()
        assert x[~missing] == pytest.approx(split.table[~missing], rel=1e-5)


def test_the_summed_loss_of_a_program_is_the_mean_one_at_lambda_times_half_of_n_minus_one(splits):
    fold = programs.fold_of(splits[0], 5, SMOKE.hidden, CPU)
    losses = [CorrelationLoss(lam=0.9, reduction="sum"), CorrelationLoss(lam=1.8), CorrelationLoss(lam=0.9)]
    program = fit_groups([Group(fold, loss) for loss in losses], Schedule(3, 4, 0.01, 0.1))
    summed, doubled, plain = program.logits([fold.x] * 3)
    torch.testing.assert_close(summed, doubled, atol=1e-2, rtol=1e-2)
    assert (summed - plain).abs().max() > 0.1


def test_folds_trained_some_at_a_time_are_the_folds_trained_together(splits, monkeypatch):
    together = tabular.fixed_losses(splits, SMOKE, CPU)
    monkeypatch.setattr(programs, "_MOST_ON_CPU", 1)  # one group at a time
    assert tabular.fixed_losses(splits, SMOKE, CPU) == together


def test_chunks_cover_all_groups_in_order_and_report_their_epochs(splits, monkeypatch):
    monkeypatch.setattr(programs, "_MOST_ON_CPU", 1)
    losses = list(tabular.make_losses(SMOKE).values())
    groups = tabular.make_groups(splits, losses, SMOKE, CPU)
    seen = []
    schedule = tabular.schedule_of(splits, SMOKE)
    trained = programs.train_in_chunks(groups, schedule, on_epoch=lambda *event: seen.append(event[:2]))
    chunks = [chunk for chunk, program in trained if program.groups]
    assert chunks == [slice(g, g + 1) for g in range(len(groups))]
    assert seen == [(chunk, epoch) for chunk in chunks for epoch in (1, 2, 3)]


def test_decorate_with_networks_learns_and_counts_them():
    settings = dataclasses.replace(SMOKE, epochs=30, n_learners=4)
    splits = tabular.cross_validation("iris", 1, settings)
    row = decorated.decorate_networks(splits, settings, CPU)["decorate-nets"]
    assert max(row["error"]) < 20
    assert all(1 <= n <= 4 for n in row["n_learners"])


def test_the_trees_of_the_record_are_grown_again():
    record = json.loads((ROOT / "results" / "table-3.json").read_text(encoding="utf-8"))
    job = record["data"]["iris"]["decorate-trees"]
    settings = tabular.Settings(
        **{field.name: job["config"][field.name] for field in dataclasses.fields(tabular.Settings)}
    )
    row = decorated.decorate_trees(tabular.cross_validation("iris", 1, settings), settings, CPU)
    assert np.round(row["decorate-trees"]["error"], 4).tolist() == job["rows"]["decorate-trees"]["error"][0]


def test_where_independent_training_is_chosen_its_error_is_that_of_independent_nets(smoke):
    _, record = smoke
    for name in table_3.REPEATS:
        ours, independent = (table_3.errors(record, name, row) for row in ("searched", "independent"))
        chosen = np.array(record["data"][name]["searched"]["rows"]["searched"]["diversity"], dtype=float)
        assert chosen.shape == ours.shape == (1, SMOKE.n_folds)
        assert np.array_equal(ours[np.isnan(chosen)], independent[np.isnan(chosen)])
        assert set(chosen[~np.isnan(chosen)]) <= set(SMOKE.diversities)


def test_the_best_of_what_was_seen_on_test_rows_flatters_every_row(smoke):
    _, record = smoke
    for name in table_3.REPEATS:
        for row in table_3.LINES:
            honest, best = (table_3.errors(record, name, row, key) for key in ("error", "best_test"))
            assert (best <= honest).all()
            assert ((honest >= 0) & (honest <= 100)).all()


def no_more(*_):
    """Stand for a method that fails."""
    raise OSError("no more")


def test_finished_jobs_are_not_run_again(smoke, monkeypatch):
    folder, record = smoke
    monkeypatch.setattr(table_3, "run_method", no_more)
    paths = table_3.reproduce(folder, smoke=True, device="cpu")
    assert json.loads(paths[0].read_text(encoding="utf-8"))["data"] == record["data"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seed": 1}, "seed: 1 here, 0 there"), ({"repeats": 2}, "repeats: 2 here, 1 there")],
)
def test_jobs_of_other_settings_are_refused_and_stay(smoke, options, message, monkeypatch):
    folder, _ = smoke
    monkeypatch.setattr(table_3, "run_method", no_more)
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    with pytest.raises(ValueError, match=rf"^`out` must be a folder without .* \({message}\); got "):
        table_3.reproduce(folder, smoke=True, device="cpu", **options)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_a_smoke_run_and_a_real_run_need_different_folders(smoke):
    with pytest.raises(
        ValueError, match=r"^`out` must be a folder without table-3\.json, or with that of no smoke"
    ):
        table_3.reproduce(smoke[0], device="cpu")


def test_a_run_without_any_finished_job_writes_no_record(monkeypatch, tmp_path):
    monkeypatch.setattr(table_3, "run_method", no_more)
    with pytest.raises(
        RuntimeError, match=r"^12 jobs failed: breast-w-decorate-trees: OSError: no more; breast-w-"
    ):
        table_3.reproduce(tmp_path, smoke=True, device="cpu")
    assert not list(tmp_path.glob("*.*"))


def test_a_job_that_fails_leaves_the_others(smoke, monkeypatch, tmp_path):
    folder, record = smoke
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "table-3" / "iris-fixed.json").unlink()
    monkeypatch.setattr(table_3, "run_method", no_more)
    with pytest.raises(RuntimeError, match=r"^1 job failed: iris-fixed: OSError: no more$"):
        table_3.reproduce(tmp_path, smoke=True, device="cpu")
    left = json.loads((tmp_path / "table-3.json").read_text(encoding="utf-8"))
    assert left["data"]["segment"] == record["data"]["segment"]
    assert "4.00 / – / –" in markdown(table_3.grids(left))  # noqa: RUF001


@pytest.mark.parametrize("content", ["{}", '{"config": ', "[]"])
def test_a_damaged_job_is_reported_and_run_again(content, smoke, monkeypatch, tmp_path):
    folder, record = smoke
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "table-3" / "iris-fixed.json").write_text(content, encoding="utf-8")
    known = {key: record["data"]["iris"]["fixed"][key] for key in ("device", "rows")}
    monkeypatch.setattr(table_3, "run_method", lambda *_: known)
    with pytest.warns(RuntimeWarning, match=r"iris-fixed\.json' must hold .* The job is run again"):
        paths = table_3.reproduce(tmp_path, smoke=True, device="cpu")
    again = json.loads(paths[0].read_text(encoding="utf-8"))
    assert again["data"]["iris"]["fixed"]["rows"] == known["rows"]


def make_record(errors):
    """Return a record with errors (repeats, folds) for some rows of iris."""
    rows = {row: {"error": e.tolist(), "best_test": (e / 2).tolist()} for row, e in errors.items()}
    config = {"smoke": False, "repeats": {"iris": 2}, "settings": {"n_folds": 3, "diversities": [0.5]}}
    return {"config": config, "data": {"iris": {"fixed": {"rows": rows}}}}


def test_a_cell_holds_the_paper_the_mean_over_repeats_and_the_best_epoch():
    mean, independent = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.full((2, 3), 4.0)
    table, against, _ = table_3.grids(make_record({"mean": mean, "independent": independent}))
    cells = {row[0]: row[2] for row in table.rows}
    assert cells["paper, mean"] == "4.00 / 3.50 ± 2.12 / 1.75"
    assert cells["independent nets"] == "– / 4.00 ± 0.00 / 2.00"  # noqa: RUF001
    p = corrected_paired_test((mean - independent).ravel(), 1 / 2).p_value
    assert {row[0]: row[2] for row in against.rows}["paper, mean"] == f"−0.50 ({p:.2g})"  # noqa: RUF001


def test_the_terminal_has_room_for_a_table_with_spread_for_each_data_set(monkeypatch, tmp_path, capsys):
    wide = {
        "error": [[90.0, 91, 90], [70, 71, 70]],
        "best_test": [[90.0, 91, 90]] * 2,
        "n_learners": [[1, 2, 3]] * 2,
    }
    good = {**wide, "error": [[2.0, 3, 2], [2, 3, 2]]}  # far enough below for the longest p-value
    rows = dict.fromkeys(table_3.LINES, wide) | {"independent": good}
    rows["searched"] = {**wide, "diversity": [[0.5, None, 0.5]] * 2}
    job = {"rows": rows, "device": "CPU", "seconds": 1.0}
    monkeypatch.setattr(table_3, "run_method", lambda *_: {"rows": {}, "device": "CPU"})
    monkeypatch.setattr(table_3, "join", lambda _: {name: {"all": job} for name in table_3.REPEATS})
    monkeypatch.setenv("COLUMNS", "80")
    table_3.reproduce(tmp_path, repeats=2, device="cpu")
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    p = corrected_paired_test(np.subtract(wide["error"], good["error"]).ravel(), 1 / 9).p_value
    end = f"80.33 ± 14.14 90.33 +78.00 ({p:.2g})"
    assert "e-" in end
    for row, line in table_3.LINES.items():
        lines = [words for words in printed if words.strip().startswith(f"{line.words}  ") and " ± " in words]
        assert len(lines) == len(table_3.REPEATS)
        assert row == "independent" or all(" ".join(words.split()).endswith(end) for words in lines)
    for name in table_3.REPEATS:
        assert any(words.startswith(f"{name}: 10-fold, repeats: 2") for words in printed)


def test_the_time_is_counted_by_device():
    record = make_record({"mean": np.ones((2, 3))})
    record["data"]["iris"]["fixed"].update(device="a GPU", seconds=1200.4)
    record["data"]["segment"] = {"fixed": {"rows": {}, "device": "CPU", "seconds": 3.0}}
    record["data"]["breast-w"] = {"fixed": {"rows": {}, "device": "a GPU", "seconds": 9.0}}
    assert table_3.text(record).endswith("\nTime: 3 s on CPU, 1,209 s on a GPU.\n")


def test_what_was_kept_and_chosen_is_counted():
    record = make_record({"mean": np.ones((2, 3))})
    record["data"]["iris"]["searched"] = {
        "rows": {"searched": {"diversity": [[None, 0.5, 0.5], [0.5, None, 0.5]]}}
    }
    record["data"]["iris"]["decorate-nets"] = {
        "rows": {"decorate-nets": {"n_learners": [[1, 2, 3], [4, 5, 15]]}}
    }
    cells = {row[0]: row[2] for row in table_3._choices(record).rows}
    assert cells == {
        "DECORATE, trees: learners": "–",  # noqa: RUF001
        "DECORATE, nets: learners": "5.0",
        "ours: independent": "33 %",
        "ours: diversity 0.5": "67 %",
    }


def test_weka_stands_beside_the_trees():
    weka = {"sets": {name: {"errors": {"weka": [1.0, 2.0]}} for name in table_3.REPEATS}}
    table = table_3.grids(make_record({"mean": np.ones((2, 3))}), weka)[0]
    assert table.rows[1] == ["DECORATE, Weka's J48", *["– / 1.50 / –"] * 3]  # noqa: RUF001


def test_the_repeats_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(table_3, "run_method", lambda *_: {"rows": {}, "device": "CPU"})
    path, _ = table_3.reproduce(tmp_path, repeats=2, smoke=True, device="cpu")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["config"]["repeats"] == {"breast-w": 2, "iris": 2, "segment": 2}
    assert record["data"]["iris"]["fixed"]["config"]["repeats"] == 2
    with pytest.raises(ValueError, match="`repeats` must be at least 1; got 0"):
        table_3.reproduce(tmp_path, repeats=0, device="cpu")


def test_the_figure_follows_all_ensembles_under_their_bound(tmp_path):
    paths = reproduce("figure-7", tmp_path, smoke=True, device="cpu")
    assert [path.name for path in paths] == ["figure-7.png", "figure-7.svg", "figure-7.json"]
    assert all(path.stat().st_size > 1000 for path in paths)
    record = json.loads(paths[2].read_text(encoding="utf-8"))
    for part in figure_7.PARTS:
        ways = record["data"][part]
        assert set(ways) == set(figure_7.NAMES)
        for name, way in ways.items():
            assert len(way["r_tl"]) == len(way["r_ll"]) == (2 if name == "decorate" else SMOKE.epochs)
            if name != "decorate":  # it has fewer learners at first, and another bound
                bound = truth_correlation_bounds(way["r_ll"], SMOKE.n_learners).high
                assert (np.array(way["r_tl"]) <= bound + 1e-4).all()


def fitted(n_learners, learner_predict_proba):
    """Return what stands for a fitted DECORATE."""
    return SimpleNamespace(estimators_=[None] * n_learners, learner_predict_proba=learner_predict_proba)


def test_learners_are_placed_as_the_measures_place_them(splits):
    rng = np.random.default_rng(0)
    drawn = {len(table): rng.dirichlet([1, 1], (4, len(table))) for table in splits[0][:3:2]}
    four, one = (fitted(n, lambda table: drawn[len(table)]) for n in (4, 1))
    path = figure_7.correlations_by_size(splits, [four, one], 5)
    assert path.shape == (2, 2, 4)
    assert np.array_equal(path[..., 3], path[..., 2])  # there is no fifth learner
    y, proba = splits[0].test_labels, drawn[len(splits[0].test_labels)][:3]
    assert path[1, 0, 1] == pytest.approx(truth_learner_correlation(y, proba).mean(), abs=1e-6)
    pairs = learner_learner_correlation(proba)[np.triu_indices(3, 1)]
    assert path[1, 1, 1] == pytest.approx(pairs.mean(), abs=1e-6)


def test_without_a_second_learner_decorate_has_no_line_and_the_figure_says_so(splits, monkeypatch):
    one = fitted(1, lambda table: np.full((1, len(table), 2), 0.5))
    assert figure_7.correlations_by_size(splits, [one, one], 5) is None
    monkeypatch.setattr(figure_7, "grow_networks", lambda *_: [one, one])
    found = figure_7.compute(SMOKE, CPU)
    assert found["learners"] == [1, 1]
    assert all("decorate" not in found[part] for part in figure_7.PARTS)
    figure = figure_7.draw(found, 3, smoke=False)
    assert figure.get_suptitle() == "Ensembles of 3 nets (DECORATE keeps 1) in training on breast-w"
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["independent nets", "the paper's loss, mean", "the paper's loss, sum"]
    assert figure_7.caption({"data": found, "config": {"n_learners": 3}}) == (
        "Of 3 nets that it may have, DECORATE keeps 1 in 2 of the 2 folds. "
        "One net alone has no place on the plane, so DECORATE has no line.\n"
    )


def test_the_figure_counts_the_folds_behind_decorate():
    way = {"r_tl": [0.5, 0.6], "r_ll": [0.4, 0.5]}
    ways = {"decorate": way, "independent": way}
    found = {"learners": [1, 2, 2, 4], "train": ways, "held_out": ways}
    figure = figure_7.draw(found, 5, smoke=True)
    assert (
        figure.get_suptitle()
        == "Smoke run: ensembles of 5 nets (DECORATE keeps 1 to 4) in training on breast-w"
    )
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "DECORATE, nets (3 of 4 folds)"
    assert figure_7.caption({"data": found, "config": {"n_learners": 5}}) == (
        "Of 5 nets that it may have, DECORATE keeps 1 in 1, 2 in 2, 4 in 1 of the 4 folds. "
        "One net alone has no place on the plane, so DECORATE's line is the mean over 3 of 4 folds, "
        "of which 2 end where they begin, with two nets.\n"
    )


@pytest.mark.parametrize("name", ["table-2", "figure-3"])
def test_what_runs_in_seconds_anyway_takes_smoke_and_does_the_same(name, tmp_path, capsys):
    for folder, options in ((tmp_path / "plain", []), (tmp_path / "smoke", ["--smoke"])):
        assert main([name, *options, "--out", str(folder)]) == 0
    plain, smoke = ((tmp_path / folder / f"{name}.json").read_bytes() for folder in ("plain", "smoke"))
    assert plain == smoke


@pytest.mark.parametrize("name", ["table-2", "table-3"])
def test_a_page_of_tables_is_replaced_and_not_written_over(name, smoke, tmp_path):
    page = tmp_path / f"{name}.md"
    page.write_text("an older one")
    os.link(page, tmp_path / "same")  # would change with it
    if name == "table-3":
        shutil.copytree(smoke[0] / name, tmp_path / name)
    reproduce(name, tmp_path, smoke=True)
    assert page.read_text(encoding="utf-8").startswith("**")
    assert (tmp_path / "same").read_text() == "an older one"


PARTS_OF_THE_PAGE = {
    "table-2": lambda record, _: markdown([table_2.grid(record)]),
    "table-3": table_3.text,
    "figure-7": lambda record, _: figure_7.caption(record),
}


@pytest.mark.parametrize("name", PARTS_OF_THE_PAGE)
def test_the_document_says_what_the_record_says(name):
    record, weka = (
        json.loads((ROOT / "results" / f"{one}.json").read_text(encoding="utf-8"))
        for one in (name, "bench_decorate")
    )
    text = (ROOT / "docs" / "tables-2-3.md").read_text(encoding="utf-8")
    assert fill(text, name, PARTS_OF_THE_PAGE[name](record, weka)) == text
