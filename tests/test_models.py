"""Models of tables: what columns are taken for, what is saved, and what is refused."""

import json
import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from counterpoint._files import seal
from counterpoint.io import read_training_table
from counterpoint.models import check_destination, fit_table, load_model, save_model
from counterpoint.models import saving as saving_module

N = 120


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def animals(rng=None):
    """Return lines of a table with numbers, categories and gaps; the classes overlap."""
    rng = np.random.default_rng(0) if rng is None else rng
    size = rng.normal(0, 1, N)
    colour = rng.choice(["brown", "grey", "white"], N)
    score = size + (colour == "brown") - 0.5 + rng.normal(0, 0.7, N)
    lines = ["size,colour,legs,kind"]
    for row in range(N):
        cells = (
            "" if row % 11 == 0 else f"{size[row]:.3f}",
            "?" if row % 13 == 0 else colour[row],
            "4",
            "dog" if score[row] > 0 else "cat",
        )
        lines.append(",".join(cells))
    return lines


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "animals.csv"
    path.write_text("\n".join(animals()) + "\n")
    return read_training_table(path, "kind")


@pytest.fixture(scope="module")
def fit(table):
    return fit_table(table, diversity=0.5, n_learners=3, epochs=10)


@pytest.fixture
def saved(fit, tmp_path):
    return save_model(fit.model, tmp_path / "model", report="<p>page</p>")


def read(tmp_path, text, target="y", name="data.csv", **options):
    path = tmp_path / name
    path.write_text(text)
    return read_training_table(path, target, **options)


def test_columns_are_numbers_if_every_filled_cell_is_one(tmp_path):
    table = read(
        tmp_path,
        "whole,fraction,mixed,gaps,y\n1,1.5,1,?,a\n2,1e3,two,7,b\n3,NA,1,,a\n4,-.5,1,8,b\n",
    )
    assert {column.name: column.kind for column in table.columns} == {
        "whole": "number",
        "fraction": "number",
        "mixed": "category",
        "gaps": "number",
    }
    np.testing.assert_array_equal(table.frame["fraction"], [1.5, 1000, np.nan, -0.5])
    np.testing.assert_array_equal(table.frame["gaps"], [np.nan, 7, np.nan, 8])
    assert table.frame["mixed"].tolist() == ["1", "two", "1", "1"]
    assert table.y.tolist() == ["a", "b", "a", "b"]


def test_the_same_table_as_tsv_arff_and_parquet_is_read_alike(tmp_path, table):
    lines = animals()
    names = lines[0].split(",")
    (tmp_path / "a.tsv").write_text("\n".join(line.replace(",", "\t") for line in lines))
    declared = "\n".join(f"@attribute {name} string" for name in names)
    gaps = ["?" + line if line.startswith(",") else line for line in lines[1:]]
    (tmp_path / "a.arff").write_text(f"@relation animals\n{declared}\n@data\n" + "\n".join(gaps))
    frame = table.frame.assign(legs=4, kind=table.y)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.tsv", "a.arff", "a.parquet"):
        other = read_training_table(tmp_path / name, "kind")
        assert other.columns == table.columns, name
        assert other.left_out == {"legs": "one value only"}
        assert other.frame.equals(table.frame)
        np.testing.assert_array_equal(other.y, table.y)


def test_a_category_that_no_row_of_a_parquet_has_is_none(tmp_path):
    kinds = pd.Categorical(["a", "a", "a"], categories=["a", "b"])
    pd.DataFrame({"x": [1, 2, 3], "y": kinds}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="at least two classes; got 'a' in every row"):
        read_training_table(tmp_path / "a.parquet", "y")


def test_columns_that_say_nothing_are_left_out_with_the_reason(tmp_path):
    rows = [f"r{i},,{i % 3},same,{i % 2}" for i in range(30)]
    with pytest.warns(UserWarning, match=r"column 'id' is left out: it has 30 different texts in 30 rows\."):
        table = read(tmp_path, "\n".join(["id,empty,x,one,y", *rows]))
    assert table.left_out == {
        "id": "30 different texts in 30 rows",
        "empty": "empty",
        "one": "one value only",
    }
    assert table.of_kind("number") == ["x"]


@pytest.mark.parametrize("first", ["", "Unnamed: 0"])
def test_the_names_of_the_rows_are_no_feature(tmp_path, first):
    rows = [f"{i},{i % 3},{i % 2}" for i in range(30)]
    text = "\n".join([f"{first},x,y", *rows])
    assert read(tmp_path, text).of_kind("number") == ["x"]
    if first:
        assert read(tmp_path, text, drop=first).left_out == {first: "dropped"}


def test_a_number_for_every_row_is_kept_with_a_warning(tmp_path):
    rows = [f"{1000 + i},{i % 3},{i % 2}" for i in range(30)]
    with pytest.warns(UserWarning, match=r"column 'id' has a different whole number in every row"):
        table = read(tmp_path, "\n".join(["id,x,y", *rows]))
    assert table.of_kind("number") == ["id", "x"]
    for drop in (["id"], "id"):
        assert read(tmp_path, "\n".join(["id,x,y", *rows]), drop=drop).left_out == {"id": "dropped"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have columns; it is empty"),
        ("x,y\n", "must have rows; it has none below its header"),
        ("x,z\n1,2\n", r"`target` must be a column of .*, one of 'x', 'z'; got 'y'"),
        ("x,x,y\n1,2,3\n", "must have distinct column names; got 'x' twice"),
        ("x,,y\n1,2,3\n", "must name its columns; column 2 has no name"),
        ("x,y\n1,a\n2,a\n", "target 'y' must hold at least two classes; got 'a' in every row"),
        (
            "x,y\n1,a\n2,\n3,b\n4,NA\n5,?\n6,\n",
            r"must hold a class in every row; it is missing in data row 2 \(line 3 of the file\), data row 4 \(line 5 "
            r"of the file\), data row 5 \(line 6 of the file\) and 1 more\.",
        ),
        (
            "x,y\n1,a\n2,b\n3,a\n",
            r"at least two rows of every class; got one of 'b', data row 2 \(line 3 of the file\)\.$",
        ),
        (
            "x,y\n1,0.5\n2,0.7\n3,0.9\n",
            r"got one of '0.5', .*, and 2 more such classes\. Measured numbers cannot be a target",
        ),
        ("y\na\nb\na\nb\n", "must have a column to learn from beside 'y'; got none"),
        ("x,y\n1,a\ninf,b\n3,a\n4,b\n", r"column 'x' must hold finite numbers; got 'inf' in data row 2"),
        (
            "x,y\n1,a\n-1e308,b\n3,a\n4,b\n",
            r"'x' must hold numbers up to 1e\+150; got '-1e308' in data row 2",
        ),
    ],
)
def test_a_table_that_cannot_be_learned_from_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["colr"]}, r"`drop` must be a column of .* got 'colr'. Did you mean 'colour'\?"),
        ({"drop": ["y"]}, "`drop` must not name the target; got 'y'"),
        ({"name": "data.xls"}, "must end in one of .csv, .tsv, .jsonl"),
    ],
)
def test_options_are_checked(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, "colour,y\nred,a\nblue,b\n", **options)


def test_rows_held_out_are_judged_and_the_model_is_trained_on_all(fit, table):
    assert fit.assessment.n_samples == round(0.2 * (table.y == "cat").sum()) + round(
        0.2 * (table.y == "dog").sum()
    )
    assert fit.assessment.n_learners == 3
    assert fit.assessment.name == "animals"
    assert 0.6 < fit.assessment.vote.value < 1
    assert fit.trajectory.r_tl.shape == (10,)
    assert fit.model.facts["n_rows"] == N
    # The scaler has seen every row; the one of the judged ensemble had not.
    assert fit.model.estimator.scaler_.n_samples_seen_ > N - fit.assessment.n_samples


def test_an_equal_seed_gives_an_equal_model(fit, table):
    again = fit_table(table, diversity=0.5, n_learners=3, epochs=10)
    np.testing.assert_array_equal(
        again.model.predict(table.path).learners, fit.model.predict(table.path).learners
    )


def test_the_diversity_is_chosen_by_folds_where_that_is_asked_for(table):
    default = fit_table(table, n_learners=2, epochs=3)
    assert (default.diversity, default.verdict) == (0.5, None)
    assert default.model.facts["diversity"] == default.model.estimator.diversity == 0.5
    found = fit_table(table, search=True, n_learners=2, epochs=3)
    assert "corrected paired t-test over 5 folds" in found.verdict
    assert found.model.estimator.diversity == found.diversity
    assert 0 <= found.diversity <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_share": 0.0}, "`test_share` must be strictly between 0 and 1; got 0"),
        ({"test_share": 0.001}, "`test_share` must hold out at least one row"),
        ({"n_learners": 1}, "`n_learners` must be at least 2; got 1"),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
        ({"random_state": -1}, "`random_state` must be at least 0; got -1"),
        ({"random_state": 2**32}, "`random_state` must be at most 4294967295; got 4294967296"),
    ],
)
def test_fit_checks_its_arguments(table, options, message):
    with pytest.raises(ValueError, match=message):
        fit_table(table, **options)


@pytest.mark.parametrize("name", ["n_learners", "epochs", "random_state"])
def test_fit_takes_one_whole_number(table, name):
    with pytest.raises(TypeError, match=rf"`{name}` must be an integer; got \(2, 3\)"):
        fit_table(table, **{name: (2, 3)})


def test_a_diversity_is_a_number_and_not_searched_for_where_it_is_given(table):
    with pytest.raises(TypeError, match=r"^`diversity` must be one number; got 'much'\.$"):
        fit_table(table, diversity="much")
    with pytest.raises(ValueError, match="`diversity` must be between 0 and 1; got 2"):
        fit_table(table, diversity=2)
    with pytest.raises(ValueError, match=r"`diversity` must be None where `search` chooses it; got 0\.5"):
        fit_table(table, diversity=0.5, search=True)
    with pytest.raises(TypeError, match="`search` must be True or False; got 'yes'"):
        fit_table(table, search="yes")


def test_fit_takes_a_table_and_says_how_far_it_is_or_not(table):
    with pytest.raises(TypeError, match="`table` must be a TrainingTable; got NoneType"):
        fit_table(None)
    with pytest.raises(TypeError, match="`progress` must be True or False; got 'no'"):
        fit_table(table, progress="no")


def test_what_is_no_path_is_refused(fit):
    for call in (lambda: read_training_table(3, "kind"), lambda: fit.model.predict(3)):
        with pytest.raises(TypeError, match=r"^`path` must be the path of a file; got 3\.$"):
            call()
    for call in (lambda: load_model(3), lambda: save_model(fit.model, 3), lambda: check_destination(3)):
        with pytest.raises(TypeError, match=r"^`folder` must be the path of a folder; got 3\.$"):
            call()


def test_reading_and_predicting_say_how_far_they_are_or_not(fit, table):
    with pytest.raises(TypeError, match="`progress` must be True or False; got 'no'"):
        read_training_table(table.path, "kind", progress="no")
    with pytest.raises(TypeError, match="`progress` must be True or False; got 'no'"):
        fit.model.predict(table.path, progress="no")


def test_a_saved_model_predicts_the_same_to_the_bit(fit, saved, table):
    before, after = fit.model.predict(table.path), load_model(saved).predict(table.path)
    np.testing.assert_array_equal(before.learners, after.learners)
    np.testing.assert_array_equal(before.labels, after.labels)
    assert after.n_judged == N
    assert after.n_right == (before.labels == table.y).sum()
    facts = json.loads((saved / "model.json").read_text())
    assert facts["classes"] == ["cat", "dog"]
    assert facts["columns"] == [{"name": "size", "kind": "number"}, {"name": "colour", "kind": "category"}]
    assert (saved / "report.html").read_text() == "<p>page</p>"


def test_the_networks_run_once_for_a_prediction(fit, table):
    calls = []
    hook = fit.model.estimator.ensemble_.register_forward_hook(lambda *_: calls.append(1))
    found = fit.model.predict(table.path)
    hook.remove()
    assert len(calls) == -(-len(found.labels) // 256)
    np.testing.assert_allclose(found.proba, fit.model.estimator.predict_proba(table.frame), atol=1e-12)


def test_the_columns_of_new_data_may_stand_in_any_order_and_beside_others(saved, tmp_path, table):
    lines = [line.split(",") for line in animals()]
    path = tmp_path / "new.csv"
    path.write_text(
        "\n".join(",".join([colour, "x", size]) for size, colour, *_ in lines).replace("x", "extra", 1)
    )
    model = load_model(saved)
    found = model.predict(path)
    np.testing.assert_array_equal(found.learners, model.predict(table.path).learners)
    assert found.truth is None
    assert found.n_judged == 0
    assert found.notes == (f"{path}: ignored columns that the model does not know: 'extra'.",)


def test_an_unknown_category_is_noted_and_a_gap_is_not(saved, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("size,colour\n1,grey\n,\n1,mauve\n1,pink\n")
    found = load_model(saved).predict(path)
    assert np.isfinite(found.proba).all()
    np.testing.assert_array_equal(found.learners[:, 2], found.learners[:, 3])
    (note,) = found.notes
    assert "column 'colour' has 2 values not seen in training" in note
    assert "in data row 3 (line 4 of the file); treated as none of the known ones." in note


def test_rare_values_share_a_column_and_unknown_ones_join_them(tmp_path):
    rng = np.random.default_rng(0)
    values = [f"v{int(value)}" for value in rng.geometric(0.03, 400)]
    rows = [f"{value},{rng.normal():.3f},{i % 2}" for i, value in enumerate(values)]
    table = read(tmp_path, "\n".join(["code,x,y", *rows]))
    model = fit_table(table, diversity=0.5, n_learners=2, epochs=1).model
    assert len(model.estimator.encoder_.get_feature_names_out()) <= 101 + 8  # and the pieces of x
    assert model.estimator.encoder_.infrequent_categories_[0] is not None
    (tmp_path / "new.csv").write_text("code,x\nv9999,0\n")
    (note,) = model.predict(tmp_path / "new.csv").notes
    assert note.endswith("treated as rare ones.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size\n1\n", r"must have the columns that the model was trained on; 'colour' is missing\."),
        ("sizes,color\n1,2\n", r"'size', 'colour' are missing\. Did you mean 'sizes'\?"),
        (
            "size,colour\n1,grey\nbig,grey\n",
            r"column 'size' must hold numbers; got 'big' in data row 2 \(line 3",
        ),
    ],
)
def test_new_data_that_does_not_fit_the_model_is_refused(saved, tmp_path, text, message):
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_model(saved).predict(tmp_path / "new.csv")


def test_whole_numbers_as_classes_come_back_as_numbers(tmp_path):
    rng = np.random.default_rng(1)
    rows = [f"{(i % 2) + rng.normal():.3f},{1 + i % 2}" for i in range(60)]
    table = read(tmp_path, "\n".join(["x,y", *rows]))
    save_model(fit_table(table, diversity=0.5, n_learners=2, epochs=5).model, tmp_path / "model")
    found = load_model(tmp_path / "model").predict(table.path)
    assert found.labels.dtype.kind == "i"
    assert found.n_right == (found.labels == table.y).sum() > 30


def rewrite(folder, name, content):
    """Put another file into a model as somebody would who knows about the digests."""
    (folder / name).write_bytes(content)
    facts = json.loads((folder / "model.json").read_text())
    change(folder, files=facts["files"] | {name: sha256(content).hexdigest()})


def test_a_model_holds_no_pickle(saved):
    assert sorted(path.suffix for path in saved.iterdir()) == [".html", ".json", ".safetensors"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "ensemble.safetensors").write_bytes(b"x"), "is damaged, or of another model"),
        (lambda f: (f / "ensemble.safetensors").unlink(), "ensemble.safetensors is missing"),
        (lambda f: rewrite(f, "ensemble.safetensors", b"x" * 20), "it is damaged"),
        (lambda f: (f / "model.json").unlink(), "it has no model.json"),
        (lambda f: (f / "model.json").write_text("{"), "its model.json is damaged"),
        (lambda f: (f / "model.json").write_text("[]"), "its model.json is of another kind"),
        (lambda f: change(f, version=5), "5. A newer counterpoint wrote it: pip install -U counterpoint"),
        (lambda f: change(f, version=3), "must have format 4; got 3. Fit the model again"),
        (lambda f: change(f, columns=None), r"its model.json is damaged \(columns is no list\)"),
        (lambda f: change(f, columns=[]), "its columns are not those of its ensemble"),
        (lambda f: swap(f, b"colour", b"kolour"), r"its model.json is damaged \(it was changed\)"),
        (lambda f: swap(f, b'"version": 4', b'"version": 5'), "A newer counterpoint wrote it"),
        (lambda f: (f / "model.json").write_text("[" * 100_000), "its model.json is damaged"),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused(saved, damage, message):
    damage(saved)
    with pytest.raises(ValueError, match=message):
        load_model(saved)


def swap(folder, old, new):
    content = (folder / "model.json").read_bytes()
    assert old in content
    (folder / "model.json").write_bytes(content.replace(old, new))


def change(folder, **entries):
    facts = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_bytes(seal(json.dumps(facts | entries | {"sha256": "0" * 64}).encode()))


def test_a_model_is_replaced_and_nothing_else_is(fit, saved, tmp_path):
    save_model(fit.model, saved)
    assert sorted(path.name for path in saved.iterdir()) == ["ensemble.safetensors", "model.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(
        ValueError, match=r"only a model of counterpoint, which is replaced; it holds 'notes.txt'"
    ):
        save_model(fit.model, saved)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="it is a file"):
        check_destination(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert check_destination(tmp_path / "empty") == tmp_path / "empty"
    (tmp_path / "empty" / "model.json").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=r"its model\.json is of another kind"):
        check_destination(tmp_path / "empty")


@pytest.mark.parametrize("moment", ["writing", "renaming"])
def test_a_save_that_fails_leaves_the_old_model(fit, saved, tmp_path, monkeypatch, moment):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    rename = Path.rename

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    if moment == "writing":
        monkeypatch.setattr(saving_module.platform, "python_version", full)
    else:
        monkeypatch.setattr(Path, "rename", lambda p, t: full() if p.suffix == ".part" else rename(p, t))
    with pytest.raises(OSError, match="No space left"):
        save_model(fit.model, saved)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["writing", "between the renames"])
def test_a_killed_save_leaves_the_old_model_and_the_next_one_cleans_up(fit, saved, tmp_path, moment):
    child = os.fork()
    if not child:
        try:
            kill = lambda *_: os.kill(os.getpid(), 9)  # noqa: E731
            if moment == "writing":
                saving_module.seal = kill
            else:
                rename = Path.rename
                Path.rename = lambda path, target: (rename(path, target), kill())
            save_model(fit.model, saved)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert len(list(tmp_path.iterdir())) == 2
    assert load_model(saved).target == fit.model.target
    save_model(fit.model, saved)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
