"""Assessments at the edges: votes that are never wrong, two learners, one learner, few samples."""

import warnings

import numpy as np
import pytest

from counterpoint import assess
from counterpoint.assessment import Assessment, Estimate, compare_votes
from counterpoint.report import EnsembleReport

pytestmark = pytest.mark.filterwarnings("ignore::counterpoint.exceptions.UndefinedMeasureWarning")


def draw(seed, n_learners, n_samples, accuracy, n_classes=2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, (n_learners, n_samples))) % n_classes
    return truth, np.where(rng.random((n_learners, n_samples)) < accuracy, truth, wrong)


def test_a_vote_that_is_never_wrong_has_a_worth():
    """Its learners still err, so that the mean of their outputs is not the truth."""
    for seed in range(5):
        a = assess(*draw(seed, 5, 1000, 0.995, 10))
        votes = a.effective.votes
        assert a.vote.value == 1
        assert 0 < votes.low < 5 < votes.high
        assert (
            f"The 5 are worth {votes.value:.1f} independent learners as good as {a.effective.best}"
            in a.verdict
        )
        assert (
            dict(a.summary())[f"effective votes: learners as good as {a.effective.best}"] == votes.as_count()
        )
        assert Assessment.from_json(a.to_json()).effective.votes == votes
        assert a.effective.best in EnsembleReport(a).html()


def test_rare_errors_leave_room_for_any_small_error_correlation():
    """Ten pairs of independent learners at accuracy 0.995 hardly ever err together, which is no evidence against it."""
    found = [assess(*draw(seed, 5, 1000, 0.995, 10)) for seed in range(10)]
    assert all(a.effective.error_correlation.low <= 0 <= a.effective.error_correlation.high for a in found)
    assert not any(finding.severity == "warning" for a in found for finding in a.findings)


def test_learners_that_err_in_turn_are_worth_more_than_their_number():
    truth = np.arange(400) % 2
    votes = np.tile(truth, (3, 1))
    for learner in range(3):
        votes[learner, 100 * learner : 100 * learner + 20] ^= 1
    votes[1, 0] ^= 1  # the only error of the vote
    worth = assess(truth, votes).effective.votes
    assert worth.low < 3 < worth.value


def test_counts_without_an_end_read_as_sentences():
    assert Estimate(5.1, np.nan, np.nan).as_count() == "5.1"
    assert Estimate(16.3, 1.5, 1.5e6).as_count() == "16.3 (1.5 or more)"
    assert Estimate(np.nan, np.nan, np.nan).as_count() == "undefined"


def test_two_votes_on_two_classes_are_no_better_than_one_of_them():
    """Where they differ, the tie is shared; the mean of their outputs still tells more than one of them."""
    a = assess(*draw(1, 2, 200, 0.8))
    assert a.vote.value == pytest.approx(a.accuracies.mean())
    assert a.decision.code == "no_difference"
    assert a.decision.text.endswith("L1 alone saves one of two answers.")
    assert a.effective.votes.low < 2 < a.effective.votes.high


def test_one_learner_is_not_compared_with_itself():
    a = assess(*draw(1, 1, 200, 0.8))
    assert a.verdict.startswith("L1, the only learner, is right on ")
    assert "best learner" not in a.verdict


def test_one_sample_is_not_plural():
    a = assess([0], [[0], [0], [1]])
    assert "% of 1 sample (" in a.verdict
    assert any("With 1 sample the vote's" in finding.text for finding in a.findings)


def test_five_samples_show_no_collusion():
    a = assess([0, 1, 0, 1, 1], [[0, 1, 0, 1, 1], [0, 1, 1, 1, 1], [1, 1, 0, 0, 1]])
    assert "collusion" not in {finding.code for finding in a.findings}


def test_guessers_of_rare_cases_are_held_against_the_most_frequent_class():
    rng = np.random.default_rng(3)
    truth = (rng.random(600) < 0.03).astype(int)
    a = assess(truth, (rng.random((5, 600)) < 0.02).astype(int))
    said = f"always answering 0 would be right on {100 * a.by_class.baseline:.1f} %."
    assert a.decision.code == "unclear"
    assert a.verdict.startswith(a.decision.text)
    assert a.decision.text.startswith("Do not rely on the vote yet: it is right on ")
    assert a.decision.text.endswith(said)


def test_learners_that_never_err_get_a_sentence_and_no_advice():
    truth = np.arange(100) % 2
    found = {finding.code: finding for finding in assess(truth, np.tile(truth, (4, 1))).findings}
    assert set(found) == {"no_errors"}
    assert "cannot be told" in found["no_errors"].text


def test_a_label_that_is_never_true_may_mean_no_vote():
    truth, votes = draw(0, 4, 200, 0.8)
    names = np.array(["no", "yes", "abstain"])
    votes[0, :20] = 2
    found = {finding.code: finding for finding in assess(names[truth], names[votes]).findings}
    assert found["never_true"].numbers["labels"] == ["abstain"]
    assert "never_true" not in {
        f.code for f in assess(names[truth], names[votes], abstain="abstain").findings
    }


def test_nobody_answered_least_if_all_answered_equally():
    truth, votes = draw(0, 3, 200, 0.8)
    votes = votes.astype(float)
    votes[:, 5:9] = np.nan
    text = next(f.text for f in assess(truth, votes).findings if f.code == "missing_votes")
    assert "all learners answered equally many samples" in text


def test_groups_must_be_known():
    truth, votes = draw(0, 3, 4, 0.8)
    with pytest.raises(ValueError, match=r"`groups` must name the group of each sample; got none at \[1\]\."):
        assess(truth, votes, groups=["a", None, "b", "b"])


def test_perfect_agreement_has_an_interval():
    votes = np.tile(np.arange(20) % 2, (4, 1))
    found = assess(votes).agreement
    assert found.observed.low == pytest.approx(0.839, abs=1e-3)  # Wilson's for 20 of 20
    assert found.krippendorff_alpha.low < 0.9


def test_compared_ensembles_may_have_missing_votes():
    pd = pytest.importorskip("pandas")
    truth, votes = draw(0, 3, 100, 0.8)
    frame = pd.DataFrame(votes.T, columns=["a", "b", "c"], dtype="Int64")
    frame.iloc[3, 1] = pd.NA
    frame.iloc[7, :] = pd.NA
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_votes(
            truth, {"frame": frame, "mapping": {"a": np.where(truth == 0, 9, truth)}}, abstain=9
        )
    assert found.n_samples == int((truth[np.arange(100) != 7] == 1).sum())
    assert found.accuracies["mapping"].value == 1


def test_correlations_optimality_and_the_predicted_vote_have_intervals():
    """The spread of the estimates over many panels is what their intervals say: 1.96 standard errors each way."""
    found, widths = [], []
    for seed in range(40):
        a = assess(*draw(seed, 4, 120, 0.75, 3))
        found.append([a.r_tl, a.r_ll, a.optimality, a.prediction.mixed])
        widths.append([(one.high - one.low) / 2 / 1.96 for one in vars(a.intervals).values()])
        assert all(one.low < one.value < one.high for one in vars(a.intervals).values())
    np.testing.assert_allclose(np.std(found, axis=0), np.mean(widths, axis=0), rtol=0.35)


def test_intervals_allow_for_samples_that_belong_together():
    truth, votes = draw(0, 4, 100, 0.75, 3)
    copies = [np.repeat(one, 4, axis=-1) for one in (truth, votes)]  # four times the same sample
    one, four = assess(truth, votes).intervals, assess(*copies, groups=np.arange(400) // 4).intervals
    for name in ("r_tl", "r_ll", "optimality", "predicted"):
        np.testing.assert_allclose(getattr(four, name), getattr(one, name), atol=0.01)


def test_the_interval_of_the_vote_allows_for_samples_that_belong_together():
    truth, votes = draw(0, 4, 100, 0.75, 3)
    copies = [np.repeat(one, 4, axis=-1) for one in (truth, votes)]
    one, four, apart = assess(truth, votes), assess(*copies, groups=np.arange(400) // 4), assess(*copies)
    np.testing.assert_allclose(four.vote, one.vote, atol=0.02)
    assert apart.vote.low > four.vote.low + 0.02
