"""Votes for many classes: the path that goes pair by pair and sample by sample, against that class by class."""

import json
from pathlib import Path

import numpy as np
import pytest

from counterpoint import Assessment, assess
from counterpoint.outputs import Outputs, RunningVote, sufficient_statistics
from counterpoint.selection import select

MANY = "counterpoint.outputs.outputs._MANY_CLASSES"
pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")


def panel(seed, *, n_learners=5, n_samples=300, n_classes=6, missing=False, skew=0.0):
    """Return truth, votes and which of them are missing; with ``skew`` the last class is never given by some."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    right = rng.random((n_learners, n_samples)) < rng.uniform(0.4, 0.9, (n_learners, 1))
    votes = np.where(right, truth, rng.integers(0, n_classes, (n_learners, n_samples)))
    if skew:
        votes[:2][votes[:2] == n_classes - 1] = 0
    holes = rng.random(votes.shape) < 0.2 if missing else None
    return truth, votes, holes


def flat(value, name=""):
    """Yield the numbers of nested data by name."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}")
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from flat(part, f"{name}[{i}]")
    else:
        yield name, value


def slabs_as_tensors(columns):
    """Return scatter, both spreads and correlations of all pairs and classes, (m, N, N) each."""
    n, m = columns.means.shape
    found = np.full((4, m, n, n), np.nan)
    for slab in columns.pairs.slabs():
        parts = (slab.scatter, slab.spread, slab.other_spread, slab.correlations())
        for whole, part in zip(found, parts, strict=True):
            whole[slab.classes, slab.rows] = part
    return found


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_both_paths_gather_the_same_statistics(missing, seed, monkeypatch):
    truth, votes, holes = panel(seed, missing=missing, skew=1)
    asked = {"columns": True, "correctness": True, "same_wrong": True, "labels": True}
    few = sufficient_statistics(Outputs(votes, truth, missing=holes), **asked)
    monkeypatch.setattr(MANY, 1)
    many = sufficient_statistics(Outputs(votes, truth, missing=holes), **asked)
    for part in ("correctness", "labels"):
        for name, value in vars(getattr(few, part)).items():
            np.testing.assert_array_equal(vars(getattr(many, part))[name], value, err_msg=name)
    for name in ("means", "spread", "constant", "truth_means", "cross"):
        np.testing.assert_allclose(getattr(many.columns, name), getattr(few.columns, name), atol=1e-9)
    np.testing.assert_allclose(slabs_as_tensors(many.columns), slabs_as_tensors(few.columns), atol=1e-9)
    for one, other in zip(many.columns.averages, few.columns.averages, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for one, other in zip(many.columns.pairs.pooled()[2:], few.columns.pairs.pooled()[2:], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(np.broadcast_to(one, other.shape), other, atol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("skew", [0, 1])
def test_both_paths_make_the_same_assessment(missing, skew, grouped, monkeypatch):
    truth, votes, holes = panel(3, missing=missing, skew=skew)
    outputs = votes if holes is None else np.ma.masked_array(votes, holes)
    groups = np.arange(len(truth)) // 4 if grouped else None
    few = assess(truth, outputs, groups=groups).to_dict()
    monkeypatch.setattr(MANY, 1)
    many = dict(flat(assess(truth, outputs, groups=groups).to_dict()))
    assert few["correlations"]["pooled"] == bool(skew)
    for name, value in flat(few):
        if isinstance(value, float) and not name.startswith(".findings"):
            # Of missing votes, the weights of pairs in an interval are products of those of the learners.
            atol = 2e-3 if missing and name.startswith((".intervals.r_ll", ".intervals.optimality")) else 1e-9
            atol = 1e-7 if name.startswith(".votes.without") else atol  # summed in 32 bits
            assert many[name] == pytest.approx(value, abs=atol), name


@pytest.mark.parametrize("missing", [False, True])
def test_leaving_a_learner_out_is_counted_as_if_it_had_not_voted(missing):
    truth, votes, holes = panel(4, n_classes=60, missing=missing)
    holes = np.zeros(votes.shape, dtype=bool) if holes is None else holes
    a = assess(truth, np.ma.masked_array(votes, holes))

    def credit_of(learners):
        found = []
        for s, true in enumerate(truth):
            given = [votes[i, s] for i in learners if not holes[i, s]]
            counts = np.bincount(given, minlength=60) if given else np.zeros(60)
            leaders = np.flatnonzero(counts == counts.max())
            found.append((true in leaders) / len(leaders) if given else np.nan)
        return np.array(found)

    whole = credit_of(range(5))
    assert a.vote.value == pytest.approx(np.nanmean(whole))
    for i in range(5):
        change = credit_of([j for j in range(5) if j != i]) - whole
        change = np.where(holes[i] & ~np.isnan(whole), 0.0, change)
        assert a.votes.without[i] == pytest.approx(np.nanmean(change))
        error = np.nanstd(change) / np.sqrt(np.sum(~np.isnan(change)))
        assert a.votes.without_error[i] == pytest.approx(error, rel=1e-5)


def test_the_confusion_of_many_classes_names_the_labels_that_were_chosen():
    truth, votes, _ = panel(5, n_learners=1, n_classes=90)
    a = assess(truth, votes, labels=np.arange(90))
    expected = np.zeros((90, 90))
    np.add.at(expected, (truth, votes[0]), 1)
    np.testing.assert_array_equal(a.by_class.confusion.table(90), expected)
    assert type(a).from_json(a.to_json()).by_class.confusion.counts.sum() == 300


def test_classes_numbered_anew_keep_who_votes_alike_and_which_label_is_first():
    truth, votes, _ = panel(6, n_classes=200)
    read = Outputs(votes, truth)
    compact = read.compact
    assert len(compact.classes) <= 6
    np.testing.assert_array_equal(compact.votes[:, None] == compact.votes, votes[:, None] == votes)
    np.testing.assert_array_equal(compact.right(slice(None)), votes == truth)
    np.testing.assert_array_equal(read.compact_classes[compact.votes, np.arange(300)], read.codes)
    first = RunningVote(Outputs(votes), "hard", np.ones(5)).first_winners()
    counts = np.apply_along_axis(np.bincount, 0, votes, minlength=200)
    np.testing.assert_array_equal(np.unique(votes)[first], counts.argmax(axis=0))


def test_words_are_many_classes_too():
    truth, votes, _ = panel(7, n_classes=60)
    names = np.array([f"answer {k:02d}" for k in range(60)])
    assert assess(names[truth], names[votes]).correlations.r_ll == assess(truth, votes).correlations.r_ll
    chosen = select(names[truth], names[votes], 3, method="caruana").vote(names[votes], labels=names)
    assert set(chosen) <= set(names)


@pytest.mark.parametrize("method", ["pursuit", "greedy", "caruana"])
def test_both_paths_select_the_same_learners(method, monkeypatch):
    truth, votes, _ = panel(10)
    few = select(truth, votes, 3, method=method).to_dict()
    monkeypatch.setattr(MANY, 1)
    many = dict(flat(select(truth, votes, 3, method=method).to_dict()))
    for name, value in flat(few):
        assert many[name] == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value), name


def test_free_text_is_pooled():
    rng = np.random.default_rng(8)
    truth = np.array([f"t{s}" for s in range(400)])
    right = rng.random((3, 400)) < 0.6
    own = np.array([[f"w{i}-{s}" for s in range(400)] for i in range(3)])
    a = assess(truth, np.where(right, truth, own))
    assert a.correlations.pooled
    # Each answer is a class of its own: the pooled correlation is the share that is right, but for 1/n.
    np.testing.assert_allclose(a.correlations.r_tl_learners, right.mean(axis=1), atol=2e-3)
    both = (right[0] & right[1]).mean()
    assert a.correlations.matrix[0, 1] == pytest.approx(both, abs=3e-3)
    assert a.optimality < 0.95
    assert "r_TL, pooled" in str(a)
    found = [finding.code for finding in a.findings]
    assert "pooled_correlations" in found
    assert "never_true" not in found  # of so many labels none means no vote
    assert Assessment.from_json(a.to_json()).correlations.pooled


def test_memory_does_not_grow_with_the_square_of_the_classes():
    import tracemalloc

    truth, votes, _ = panel(9, n_learners=3, n_samples=4000, n_classes=4000)
    tracemalloc.start()
    sufficient_statistics(Outputs(votes, truth), columns=True, correctness=True, labels=True)
    RunningVote(Outputs(votes, truth), "hard", np.ones(3)).credit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # a table of classes by classes, or by samples, takes 128 MB


def test_time_and_memory_are_recorded_within_bounds():
    path = Path(__file__).parents[2] / "results" / "bench_many_classes.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["panels"]
    found = {(row["learners"], row["classes"]): row["now"] for row in rows}
    assert found[3, 4_000]["cpu_seconds"] < 2
    assert found[3, 100_000]["cpu_seconds"] < 10
    assert found[3, 100_000]["peak_gb"] < 1
    assert found[3, None]["cpu_seconds"] < 1
    assert max(found[5_000, 2]["peak_gb"], found[5_000, 10]["peak_gb"]) < 2
    assert found[50, 2]["cpu_seconds"] < 5
    assert all(row["ratio"] < 0.5 for row in rows if "ratio" in row and row["classes"] > 2)
