import numpy as np
import pytest

from counterpoint.measures import MEASURES
from counterpoint.outputs import Outputs, sufficient_statistics, vote_probabilities
from tests.measures.references import random_probabilities, random_votes


def assert_same(first, second):
    for part in ("columns", "correctness"):
        mine, other = vars(getattr(first, part)), vars(getattr(second, part))
        for name in (name for name, value in mine.items() if value is not None and name != "pairs"):
            np.testing.assert_allclose(mine[name], other[name], atol=1e-10, err_msg=name)
    np.testing.assert_allclose(scatter(first.columns), scatter(second.columns), atol=1e-10)


def scatter(columns):
    """Return the scatter of every class, (m, N, N)."""
    return np.concatenate([slab.scatter for slab in columns.pairs.slabs()])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("make", [random_votes, random_probabilities])
def test_blocks_do_not_change_the_statistics(make, n_classes, monkeypatch):
    y_true, outputs = make(0, 6, 101, n_classes)
    whole = sufficient_statistics(Outputs(outputs, y_true), columns=True, correctness=True, same_wrong=True)
    monkeypatch.setattr("counterpoint.outputs.outputs.BLOCK_ENTRIES", 6 * 10)
    seen = []
    parts = sufficient_statistics(
        Outputs(outputs, y_true),
        columns=True,
        correctness=True,
        same_wrong=True,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert_same(parts, whole)
    assert seen == [(min(10 * i, 101), 101) for i in range(1, 12)]


def test_sorted_samples_do_not_disturb_the_merged_moments(monkeypatch):
    # Blocks with very different means are the hard case for moments gathered block by block.
    monkeypatch.setattr("counterpoint.outputs.outputs.BLOCK_ENTRIES", 3 * 16)
    y_true, proba = random_probabilities(1, 3, 128, 3)
    order = np.argsort(y_true)
    columns = sufficient_statistics(Outputs(proba[:, order], y_true[order]), columns=True).columns
    for k in range(3):
        truth = y_true == k
        expected = 128 * np.cov(np.vstack([truth, proba[:, :, k]]), bias=True)
        np.testing.assert_allclose(scatter(columns)[k], expected[1:, 1:], atol=1e-11)
        np.testing.assert_allclose(columns.cross[:, k], expected[0, 1:], atol=1e-11)
        np.testing.assert_allclose(columns.spread[:, k], np.diag(expected)[1:], atol=1e-11)
    np.testing.assert_allclose(columns.means, proba.mean(axis=1), atol=1e-13)


def test_pairs_of_two_classes_follow_from_agreement():
    y_true, votes = random_votes(2, 8, 500, 2)
    inferred = sufficient_statistics(
        Outputs(votes, y_true), columns=True, correctness=True, same_wrong=True
    ).correctness
    counted = sufficient_statistics(Outputs(votes, y_true), correctness=True).correctness
    np.testing.assert_array_equal(inferred.both_right, counted.both_right)
    right = (votes == y_true).astype(int)
    np.testing.assert_array_equal(counted.both_right, right @ right.T)


def test_one_pass_serves_every_measure():
    y_true, votes = random_votes(3, 5, 200, 3)
    gathered = sufficient_statistics(
        Outputs(votes, y_true), columns=True, correctness=True, same_wrong=True, labels=True
    )
    for measure in MEASURES.values():
        value = measure.function(
            *((votes,) if measure.function.__name__ in ("label_kappa", "learner_learner_correlation")
              else (y_true, votes))
        )  # fmt: skip
        if measure.kind == "pairwise":
            value = value[np.triu_indices(5, k=1)].mean()
        elif measure.function.__name__ == "ambiguity_decomposition":
            value = value.ambiguity
        assert measure.from_statistics(gathered) == pytest.approx(value, abs=1e-12)


def test_parts_not_asked_for_are_not_gathered():
    y_true, votes = random_votes(4, 3, 50, 3)
    counts = sufficient_statistics(Outputs(votes, y_true), correctness=True, pairs=False)
    assert counts.columns is None
    assert counts.correctness.both_right is None
    columns = sufficient_statistics(Outputs(votes), columns=True, pairs=False).columns
    assert columns.pairs is columns.cross is columns.truth_means is None


def test_a_memory_mapped_array_is_read_in_place(tmp_path):
    y_true, votes = random_votes(5, 20, 3000, 3)
    np.save(tmp_path / "votes.npy", votes.astype(np.int8))
    mapped = np.load(tmp_path / "votes.npy", mmap_mode="r")
    read = Outputs(mapped, y_true)
    assert np.shares_memory(read.votes, mapped)
    assert read.truth.dtype == np.int8  # so that comparing does not widen the votes
    assert_same(
        sufficient_statistics(read, columns=True, correctness=True, same_wrong=True),
        sufficient_statistics(Outputs(votes, y_true), columns=True, correctness=True, same_wrong=True),
    )


def test_a_true_label_outside_the_dtype_of_the_votes_is_never_hit():
    read = Outputs(np.array([[0, 1, 44], [0, 1, 1]], dtype=np.int8), [0, 1, 300])
    assert read.classes.tolist() == [0, 1, 44, 300]  # 300 would wrap to 44
    assert sufficient_statistics(read, correctness=True).correctness.right.tolist() == [2, 2]
    assert sufficient_statistics(read, columns=True).columns.means[:, 3].tolist() == [0, 0]


@pytest.mark.parametrize("values", [[0, 1, 2], [-5, 100, 90_000], [7, 7, 7], [True, False, True]])
def test_classes_are_the_sorted_union_of_truth_and_votes(values):
    read = Outputs([values, values], [values[0]] * 3)
    assert read.classes.tolist() == sorted(set(values))


def test_vote_shares_are_weighted():
    read = Outputs([["a", "b"], ["c", "b"], ["a", "a"]], ["a", "b"])
    shares = vote_probabilities(read, np.array([0.5, 0.3, 0.2]), "hard")
    np.testing.assert_allclose(shares, [[0.7, 0.0, 0.3], [0.2, 0.8, 0.0]])


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("make", [random_votes, random_probabilities])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_same_wrong_labels_are_counted_for_each_pair(make, n_classes, columns):
    y_true, outputs = make(3, 5, 200, n_classes)
    read = Outputs(outputs, y_true)
    found = sufficient_statistics(read, columns=columns, correctness=True, same_wrong=True).correctness
    expected = [[((a == b) & (a != read.truth)).sum() for b in read.votes] for a in read.votes]
    np.testing.assert_array_equal(found.same_wrong, expected)


def test_some_of_the_samples_are_a_view():
    y_true, proba = random_probabilities(0, 3, 20, 3)
    half = Outputs(proba, y_true).take(slice(1, None, 2))
    assert np.shares_memory(half.probabilities, proba)
    np.testing.assert_array_equal(half.truth_codes, Outputs(proba, y_true).truth_codes[1::2])
