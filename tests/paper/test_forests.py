"""The random-forest study: the forests, their votes, and that documents say what the records say."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

from counterpoint.records import fill
from counterpoint.theory import truth_correlation_bounds
from paper import TARGETS, figure_6, forests, reproduce, table_1
from paper.__main__ import main
from paper.forests import FORESTS, Forest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Both targets, written from a smoke run."""
    folder = tmp_path_factory.mktemp("smoke")
    return {name: reproduce(name, folder, smoke=True) for name in ("table-1", "figure-6")}


@pytest.fixture(scope="module")
def record(smoke):
    return json.loads(smoke["table-1"][0].read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def digits():
    return forests.load_images(None, smoke=True)


def committed(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_forests_are_those_of_the_paper():
    # Table 1 of the paper: one original, m = 1, 3, 5, 7, 20 and d = 3, 5, 7, 9, 11, with 5 trees each
    assert [forest.name for forest in FORESTS] == [
        "original",
        *(f"feature, m = {m}" for m in (1, 3, 5, 7, 20)),
        *(f"depth, d = {d}" for d in (3, 5, 7, 9, 11)),
    ]
    assert forests.N_TREES == 5


@pytest.mark.parametrize("m", [1, 7, 20])
def test_each_tree_of_a_feature_forest_is_given_m_features_of_its_own(m, digits):
    fitted = forests.make_forest(Forest("feature", m), "bootstrap", 0).fit(digits.x_train, digits.y_train)
    subsets = {tuple(sorted(chosen)) for chosen in fitted.estimators_features_}
    assert {len(set(subset)) for subset in subsets} == {m}
    assert len(subsets) > 1
    assert all(tree.max_features_ == m for tree in fitted.estimators_)


def test_each_tree_of_a_depth_forest_ends_at_its_depth(digits):
    fitted = forests.make_forest(Forest("depth", 3), "bootstrap", 0).fit(digits.x_train, digits.y_train)
    assert [tree.get_depth() for tree in fitted.estimators_] == [3] * 5


@pytest.mark.parametrize("forest", FORESTS, ids=lambda forest: forest.name)
def test_a_reading_decides_on_bootstrap_and_on_features(forest):
    unfitted = {reading: forests.make_forest(forest, reading, 0) for reading in forests.READINGS}
    assert unfitted["bootstrap"].bootstrap
    assert unfitted["each split"].bootstrap
    assert unfitted["all rows"].bootstrap is (forest.kind == "original")
    if forest.kind == "feature":
        assert unfitted["each split"].max_features == forest.size
        assert isinstance(unfitted["each split"], RandomForestClassifier)  # whose trees draw at each split
        assert isinstance(unfitted["bootstrap"], BaggingClassifier)  # whose trees get a subset each


def test_without_bootstrap_an_unlimited_tree_knows_its_training_images(digits):
    tree = Forest("feature", 20)
    known = forests.grow(tree, "all rows", digits, 0)["train"].tree
    drawn = forests.grow(tree, "bootstrap", digits, 0)["train"].tree
    assert known > 0.99
    # a bootstrap sample holds 1 - 1/e of the rows; the others are guessed
    assert 1 - np.exp(-1) < drawn < known


def test_votes_are_labels_of_the_truth_and_those_of_the_trees(digits):
    shifted = digits.y_train + 3
    for forest in (Forest("original"), Forest("feature", 5)):
        fitted = forests.make_forest(forest, "bootstrap", 0).fit(digits.x_train, shifted)
        votes = forests.tree_votes(fitted, digits.x_test)
        assert votes.shape == (5, len(digits.y_test))
        assert set(np.unique(votes)) <= set(range(3, 13))
    chosen = fitted.estimators_features_[2]
    np.testing.assert_array_equal(
        votes[2], fitted.estimators_[2].predict(digits.x_test[:, chosen]).astype(int) + 3
    )


@pytest.mark.parametrize(
    ("votes", "accuracy"),
    [
        ([0, 0, 0, 1, 1], 1),
        ([1, 1, 1, 0, 0], 0),
        ([0, 0, 1, 2, 3], 1),  # the largest group wins short of a majority
        ([0, 0, 1, 1, 2], 1 / 2),
        ([0, 1, 2, 3, 4], 1 / 5),
        ([1, 1, 2, 2, 0], 0),
    ],
)
def test_tied_labels_share_the_vote(votes, accuracy):
    assert forests.shared_vote_accuracy(np.array([0]), np.array(votes)[:, None]) == pytest.approx(accuracy)


def test_a_shared_tie_is_the_mean_over_throws_of_a_coin():
    rng = np.random.default_rng(0)
    y_true, votes = rng.integers(4, size=200), rng.integers(4, size=(5, 200))
    counts = (votes[..., None] == np.arange(4)).sum(axis=0)
    thrown = [
        ((counts + rng.uniform(0, 0.5, counts.shape)).argmax(axis=1) == y_true).mean() for _ in range(2000)
    ]
    assert forests.shared_vote_accuracy(y_true, votes) == pytest.approx(np.mean(thrown), abs=0.003)


def test_a_measurement_is_correlation_column_by_column():
    rng = np.random.default_rng(1)
    y_true = rng.integers(3, size=300)
    votes = np.where(rng.uniform(size=(5, 300)) < 0.6, y_true, rng.integers(3, size=(5, 300)))
    found = forests.measure(y_true, votes)
    columns = [np.corrcoef(np.vstack([y_true, votes]) == label) for label in range(3)]
    matrix = np.mean(columns, axis=0)
    assert found.r_tl == pytest.approx(matrix[0, 1:].mean())
    assert found.r_ll == pytest.approx(matrix[1:, 1:][np.triu_indices(5, 1)].mean())
    assert found.bound == pytest.approx(float(truth_correlation_bounds(found.r_ll, 5).high))
    assert found.optimality == pytest.approx(found.r_tl / found.bound)
    assert found.undefined == 0


def test_a_class_that_a_tree_never_names_is_left_out_and_counted():
    y_true = np.array([0, 1, 2, 0, 1, 2])
    votes = np.array([y_true, y_true, np.array([0, 1, 1, 0, 1, 1])])
    found = forests.measure(y_true, votes)
    assert found.undefined == pytest.approx(1 / 9)
    # classes 0 and 1 alone for the third learner: 1 and 1/2
    assert found.r_tl == pytest.approx((1 + 1 + 0.75) / 3)


def test_images_are_rows_of_pixels_from_the_data_folder(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        f"x_{part}": rng.integers(256, size=(n, 32, 32, 3), dtype=np.uint8)
        for part, n in (("train", 40), ("test", 20))
    }
    labels = {"y_train": np.arange(40) % 10, "y_test": np.arange(20) % 10}
    np.savez(tmp_path / "cifar10.npz", **arrays, **labels)
    images = forests.load_images(tmp_path, smoke=False)
    assert (images.name, images.x_train.shape, images.x_test.shape) == ("CIFAR-10", (40, 3072), (20, 3072))
    assert images.x_train.dtype == np.float32
    np.testing.assert_array_equal(images.x_test[7], arrays["x_test"][7].ravel())
    measured = forests.grow(Forest("depth", 3), "bootstrap", images, 0)
    assert list(measured) == ["train", "held_out"]


def test_a_run_depends_on_its_seed_alone(digits):
    forest = Forest("original")
    assert forests.grow(forest, "bootstrap", digits, 1) == forests.grow(forest, "bootstrap", digits, 1)
    assert forests.grow(forest, "bootstrap", digits, 1) != forests.grow(forest, "bootstrap", digits, 2)


def test_a_smoke_record_says_so_and_what_made_it(record):
    assert record["config"]["smoke"] is True
    assert record["config"]["images"] == "8 x 8 digits"
    assert record["config"]["seeds"] == [0, 1]
    assert record["device"].endswith("threads")
    assert record["seconds"] > 0
    assert {"scikit-learn", "numpy", "counterpoint"} <= set(record["versions"])
    assert list(record["data"]) == list(forests.READINGS)
    for reading, changed in forests.READINGS.items():
        assert list(record["data"][reading]) == [forest.name for forest in changed]


def test_every_number_obeys_theorem_2(record):
    for measured in record["data"].values():
        for one in measured.values():
            for part in one.values():
                assert all(len(values) == 2 for values in part.values())
                assert (np.array(part["r_tl"]) <= np.array(part["bound"])).all()


def test_table_and_figure_show_the_same_forests(smoke, record):
    assert [path.name for path in smoke["table-1"]] == ["table-1.json", "table-1.md"]
    assert [path.name for path in smoke["figure-6"]] == ["figure-6.png", "figure-6.svg", "figure-6.json"]
    drawn = json.loads(smoke["figure-6"][2].read_text(encoding="utf-8"))
    assert drawn["data"] == {"bootstrap": record["data"]["bootstrap"]}
    assert drawn["config"] == record["config"]


def test_the_figure_has_a_panel_for_each_part_and_says_what_it_is(record):
    measured = record["data"]["bootstrap"]
    figure = figure_6.draw(measured, record["config"])
    assert figure.get_suptitle() == "Smoke run: forests of 5 trees on 8 x 8 digits"
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    assert titles[:2] == ["Training images", "Held-out images"]
    for ax, part in zip(figure.axes[:2], forests.PARTS, strict=True):
        original, feature, depth = ax.collections[-3:]
        assert [len(some.get_offsets()) for some in (original, feature, depth)] == [1, 5, 5]
        point = figure_6.compute(measured, part)[0]
        np.testing.assert_allclose(original.get_offsets(), [[point.r_ll, point.r_tl]])
        assert original.get_array()[0] == pytest.approx(np.mean(measured["original"][part]["vote"]))
    labels = {text.get_text() for text in figure.axes[2].texts}
    assert {"original", "m = 20", "d = 11"} <= labels
    assert (
        figure_6.draw(measured, {"smoke": False, "images": "x"}).get_suptitle()
        == "Random forests of 5 trees on x"
    )


def measured_from(optimality, vote):
    """Return a forest for each pair of optimality and vote, with one run."""
    return {
        str(i): {"train": {**{key: [0.0] for key in table_1.HEADINGS}, "optimality": [a], "vote": [b]}}
        for i, (a, b) in enumerate(zip(optimality, vote, strict=True))
    }


def test_rank_correlation_is_spearmans():
    assert table_1.rank_correlation(measured_from([1, 2, 3], [0.1, 0.2, 0.9]), "train") == pytest.approx([1])
    assert table_1.rank_correlation(measured_from([1, 2, 3], [3, 2, 1]), "train") == pytest.approx([-1])
    # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, 1
    assert table_1.rank_correlation(measured_from([1, 2, 3], [1, 3, 2]), "train") == pytest.approx([0.5])


def test_ranks_may_be_those_of_the_gap_or_of_the_trees():
    measured = measured_from([1, 2], [1, 2])
    measured["0"]["train"] |= {"r_tl": [0.1], "bound": [0.2]}
    measured["1"]["train"] |= {"r_tl": [0.5], "bound": [0.9], "tree": [0.7]}
    assert table_1.rank_correlation(measured, "train") == pytest.approx([1])
    assert table_1.rank_correlation(measured, "train", by="gap") == pytest.approx([-1])
    assert table_1.rank_correlation(measured, "train", by="tree") == pytest.approx([1])


def test_the_original_wins_only_above_every_other():
    assert table_1.wins(measured_from([3, 1, 2], [2, 2, 1]), "train", "optimality") == 1
    assert table_1.wins(measured_from([3, 1, 2], [2, 2, 1]), "train", "vote") == 0


def test_the_command_prints_the_means_and_where_it_wrote(capsys, tmp_path, record):
    assert main(["table-1", "--smoke", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert TARGETS["table-1"].title in captured.out
    assert str(tmp_path / "table-1.md") in captured.out
    for forest in FORESTS:
        for part in forests.PARTS:
            mean = np.mean(record["data"]["bootstrap"][forest.name][part]["vote"])
            assert any(forest.name in line and f"{mean:.3f}" in line for line in captured.out.splitlines())
    assert "…" not in captured.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figure-3", "--data", "x"], "`--data` has no meaning for figure-3."),
        (["table-1", "--smoke", "--n-learners", "7"], "`--n-learners` has no meaning for table-1."),
        (["figure-6", "--smoke", "--data", "x"], "`--data` has no meaning with `--smoke`."),
        (["table-1", "--data", "no-such-folder"], "`data_dir` must be a folder that exists"),
    ],
)
def test_an_option_without_meaning_is_refused(arguments, sentence, capsys, tmp_path):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_document_shows_the_committed_record():
    document = (ROOT / "docs" / "random-forests.md").read_text(encoding="utf-8")
    assert fill(document, "table-1", table_1.markdown(committed("table-1"))) == document


def test_the_committed_records_are_whole_agree_and_name_no_folder():
    table, figure = committed("table-1"), committed("figure-6")
    for record in (table, figure):
        assert record["config"]["smoke"] is False
        assert record["config"]["images"] == "CIFAR-10"
        assert (record["config"]["n_train"], record["config"]["n_held_out"]) == (50_000, 10_000)
        assert len(record["config"]["seeds"]) == forests.N_REPEATS
        assert '"/' not in json.dumps(record)
    assert figure["data"] == {"bootstrap": table["data"]["bootstrap"]}


def test_the_document_reads_the_committed_record_rightly():
    data = committed("table-1")["data"]
    main = data["bootstrap"]
    for part, times in (("train", 5), ("held_out", 0)):
        assert table_1.wins(main, part, "vote") == times
        assert table_1.wins(main, part, "optimality") == times
        assert (table_1.rank_correlation(main, part) > 0.97).all()
    assert (table_1.rank_correlation(main, "held_out", by="gap") < 0.5).all()
    for reading in data:
        assert table_1.wins({**main, **data[reading]}, "held_out", "vote") == 0

    def held_out(reading, d):
        return np.array(data[reading][f"depth, d = {d}"]["held_out"]["vote"])

    original = np.array(main["original"]["held_out"]["vote"])
    for d in (9, 11):
        assert (held_out("bootstrap", d) > original).all()
        assert (held_out("bootstrap", d) - original).mean() == pytest.approx(0.02, abs=0.005)
    for d in (7, 9, 11):
        assert held_out("all rows", d).mean() > held_out("bootstrap", d).mean()
    for m in (3, 5, 7, 20):
        assert min(data["all rows"][f"feature, m = {m}"]["train"]["vote"]) > 0.999
