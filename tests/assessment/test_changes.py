"""What leaving learners out and reweighting bring, against simulations in which that is known."""

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.assessment import assess_scores, changes
from counterpoint.assessment.bootstrap import stratified_parts
from counterpoint.assessment.changes import judge_changes
from counterpoint.outputs import Outputs


def panel(rng, n, accuracies, n_classes=2):
    """Return a truth and votes of learners that err independently."""
    truth = rng.integers(0, n_classes, n)
    right = rng.random((len(accuracies), n)) < np.array(accuracies)[:, None]
    wrong = (truth + rng.integers(1, n_classes, right.shape)) % n_classes
    return truth, np.where(right, truth, wrong)


@pytest.mark.parametrize("n_parts", [2, 5])
def test_parts_have_equal_shares_of_every_class_and_keep_groups_whole(n_parts):
    rng = np.random.default_rng(0)
    truth = np.sort(rng.choice(3, 300, p=[0.7, 0.2, 0.1]))
    alone = stratified_parts(truth, None, n_parts)
    table = np.array([np.bincount(truth[alone == part], minlength=3) for part in range(n_parts)])
    assert np.ptp(table, axis=0).max() <= 2
    groups = np.unique(rng.zipf(1.5, 300) % 60, return_inverse=True)[1]
    parts = stratified_parts(truth, groups, n_parts)
    assert all(len(np.unique(parts[groups == g])) == 1 for g in range(groups.max() + 1))
    fives = np.repeat(rng.permutation(60), 5)  # of one class each
    classes = np.repeat(rng.integers(0, 2, 60), 5)
    parts = stratified_parts(classes, fives, n_parts)
    counts = np.array([np.bincount(classes[parts == part], minlength=2) for part in range(n_parts)])
    assert np.ptp(counts, axis=0).max() <= 10
    assert (stratified_parts(classes, fives, n_parts, seed=1) != parts).any()


def test_two_coins_of_seven_are_named_together():
    """Without one of them an even number votes, and ties take what leaving it out brings."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        truth, votes = panel(rng, 1500, [0.75] * 5 + [0.5] * 2)
        found = judge_changes(Outputs(votes, truth), "hard")
        assert found.leave_out == (5, 6)
        assert found.leave_out_gain.is_gain
        # By the binomial distribution, five against those and two coins; some halves do not find both.
        assert found.leave_out_gain.value < 0.8965 - 0.8526 + 3 * found.leave_out_gain.error


def test_the_order_of_the_samples_hardly_matters():
    """One cut into even and odd samples gave one class to each half where the truth alternates."""
    rng = np.random.default_rng(0)
    truth, votes = panel(rng, 600, [0.9, 0.6, 0.6, 0.6, 0.6])
    order = np.argsort(np.argsort(truth, kind="stable").argsort() % 300, kind="stable")  # alternating
    found = [
        judge_changes(Outputs(votes[:, some], truth[some]), "hard")
        for some in (order, *(rng.permutation(600) for _ in range(6)))
    ]
    gains = [one.reweighting.value for one in found]
    assert np.ptp(gains) < 2 * found[0].reweighting.error
    assert all(one.reweighting.is_gain for one in found)
    assert len({one.leave_out for one in found}) == 1


@pytest.mark.parametrize("copies", [1, 5])
def test_the_error_is_the_spread_over_samples(copies):
    """Where samples are copied, the gain varies as over those without copies."""
    rng, found = np.random.default_rng(0), []
    for _ in range(80):
        truth, votes = panel(rng, 150, [0.75] * 4)
        read = Outputs(np.repeat(votes, copies, axis=1), np.repeat(truth, copies))
        found.append(judge_changes(read, "hard", np.repeat(np.arange(150), copies) if copies > 1 else None))
    for kind in ("leave_out_gain", "reweighting"):
        gains = np.array([getattr(one, kind) for one in found])
        gains = gains[~np.isnan(gains[:, 0])]
        spread, error = gains[:, 0].std(), np.sqrt(np.mean(gains[:, 1] ** 2))
        assert 0.8 < error / spread < 1.8  # too small by half, without the correction for the overlap
    assert np.mean([bool(one.leave_out) and one.leave_out_gain.is_gain for one in found]) <= 0.05
    assert np.mean([one.reweighting.is_gain for one in found]) <= 0.05


def test_nothing_is_advised_on_fewer_than_ten_groups():
    truth, votes = panel(np.random.default_rng(0), 600, [0.9, 0.5, 0.5, 0.8])
    groups = np.arange(600) % 10
    assert judge_changes(Outputs(votes, truth), "hard", groups).leave_out_gain.is_gain
    found = assess(truth, votes, groups=np.minimum(groups, 8))
    assert found.changes.leave_out == ()
    assert np.isnan([found.changes.leave_out_gain.value, found.changes.reweighting.value]).all()
    few = {finding.code: finding for finding in found.findings}["few_groups"]
    assert few.text == (
        "The samples are of 9 groups only: intervals are rough. What leaving out or reweighting learners would bring "
        "is not judged."
    )
    assert few.severity == "warning"
    assert few.numbers == {"n_groups": 9}
    for enough in (None, groups):
        assert "few_groups" not in [finding.code for finding in assess(truth, votes, groups=enough).findings]
    four = assess(truth, votes, groups=groups % 4)
    few = {finding.code: finding for finding in four.findings}["few_groups"]
    assert few.text.startswith("The samples are of 4 groups only, too few for intervals. ")
    for one in (four.effective.independence, four.effective.error_correlation, four.intervals.predicted):
        assert np.isnan(one.low)
        assert np.isnan(one.high)


def test_without_a_truth_and_on_scores_too_few_groups_have_no_interval_either():
    rng = np.random.default_rng(0)
    _, votes = panel(rng, 120, [0.8, 0.7, 0.7])
    for given in (votes, np.zeros((3, 120), int), rng.normal(size=(3, 120))):
        judged = assess_scores if given.dtype.kind == "f" else assess
        four, nine, ten = (judged(given, groups=np.arange(120) % n) for n in (4, 9, 10))
        found = [
            (one.agreement.observed, one.agreement.krippendorff_alpha)
            if judged is assess
            else (one.alpha_interval, one.correlation, one.effective)
            for one in (four, nine)
        ]
        assert np.isnan([one.low for one in found[0]]).all()
        assert not np.isnan([one.low for one in found[1] if not np.isnan(one.value)]).any()
        assert four.findings[0].text == "The samples are of 4 groups only, too few for intervals."
        assert nine.findings[0].text == "The samples are of 9 groups only: intervals are rough."
        assert "few_groups" not in [finding.code for finding in ten.findings]
        assert judged is assess or "nan" not in str(four)


@pytest.mark.parametrize("missing", [False, True])
def test_votes_for_many_classes_are_judged_by_who_agrees_with_whom(missing, monkeypatch):
    rng = np.random.default_rng(0)
    truth, votes = panel(rng, 400, [0.7, 0.6, 0.6, 0.1], n_classes=100)
    holes = rng.random(votes.shape) < 0.1 if missing else None
    read = Outputs(votes, truth, np.arange(100), missing=holes)
    found = judge_changes(read, "hard")
    assert read.compact is not read
    monkeypatch.setattr(Outputs, "compact", property(lambda self: self))
    assert judge_changes(read, "hard") == found
    assert not np.isnan(found.reweighting.value)


def test_large_data_are_sampled_whatever_their_order(monkeypatch):
    truth, votes = panel(np.random.default_rng(0), 4000, [0.8, 0.7, 0.7, 0.4])
    order = np.argsort(truth, kind="stable")
    monkeypatch.setattr(changes, "MOST_SAMPLES", 1000)
    found = judge_changes(Outputs(votes[:, order], truth[order]), "hard", np.arange(4000) // 2)
    assert found.leave_out == (3,)
    assert found.leave_out_gain.is_gain
