"""Panels without a truth, or with a truth for some samples only."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from counterpoint import assess
from counterpoint.assessment import AgreementAssessment, Assessment, dawid_skene
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.measures import fleiss_kappa, krippendorff_alpha


def panel(n_learners=6, n_samples=600, shared=0.0, missing=0.0, n_classes=2, seed=0):
    """Judges of 70 %; a share of what decides whether they are right is common to all of them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    wrong = (truth + rng.integers(1, n_classes, (n_learners, n_samples))) % n_classes
    own = rng.normal(size=(n_learners, n_samples))
    skill = np.sqrt(shared) * rng.normal(size=n_samples) + np.sqrt(1 - shared) * own
    votes = np.where(skill < 0.524, truth, wrong)
    if missing:
        votes = np.ma.masked_array(votes, rng.random(votes.shape) < missing)
    return truth, votes


def codes(assessment):
    return {finding.code: finding for finding in assessment.findings}


def test_votes_alone_give_the_agreement_by_position_or_with_none():
    _, votes = panel(missing=0.1)
    a, b = assess(votes), assess(None, votes)
    assert isinstance(a, AgreementAssessment)
    assert a.to_json() == b.to_json()
    assert a.agreement.fleiss_kappa.value == pytest.approx(fleiss_kappa(votes))
    assert a.agreement.krippendorff_alpha.value == pytest.approx(krippendorff_alpha(votes))
    assert a.agreement.observed.low < a.agreement.observed.value < a.agreement.observed.high
    fit = dawid_skene(votes, model="one_coin")
    np.testing.assert_allclose(a.one_coin.accuracies, fit.accuracies)
    np.testing.assert_array_equal(a.consensus, fit.consensus)
    assert a.confidence.mean() == pytest.approx(min(a.bounds.consensus.value, fit.confidence.mean()))
    assert (np.diff(a.confidence[np.argsort(fit.confidence)]) >= 0).all()  # lowered, in the same order
    assert a.one_coin.confidence == pytest.approx(fit.confidence.mean())


def test_complete_votes_agree_as_counted_by_hand():
    _, votes = panel(n_samples=200, n_classes=3)
    a = assess(votes)
    same = votes[:, None] == votes[None, :]
    pairs = np.triu_indices(6, 1)
    np.testing.assert_allclose(a.agreement.pairs, same.mean(axis=2))
    assert a.agreement.observed.value == pytest.approx(same.mean(axis=2)[pairs].mean())
    assert a.agreement.unanimous == pytest.approx(same[0].all(axis=0).mean())
    kappas = [cohen_kappa_score(votes[i], votes[j]) for i, j in zip(*pairs, strict=True)]
    np.testing.assert_allclose(a.agreement.kappas[pairs], kappas)
    assert a.mean_kappa == pytest.approx(np.mean(kappas))
    shares = np.bincount(votes.ravel(), minlength=3) / votes.size
    np.testing.assert_allclose(a.labels.shares, shares)
    assert a.labels.baseline == shares.max()


def test_names_labels_and_missing_votes_come_as_people_have_them():
    votes = {
        "ann": ["yes", "no", None, "no"],
        "bo": ["yes", "no", "no", "no"],
        "cy": ["no", "no", "yes", "no"],
    }
    a = assess(votes, name="panel")
    frame = assess(pd.DataFrame(votes), name="panel")
    skip = assess({**votes, "ann": ["yes", "no", "skip", "no"]}, abstain="skip", name="panel")
    assert a.learners == ("ann", "bo", "cy")
    assert a.to_json() == frame.to_json() == skip.to_json()
    assert a.labels.votes.tolist() == [3, 4, 4]
    assert a.agreement.shared.tolist() == [[3, 3, 3], [3, 4, 4], [3, 4, 4]]
    proba = np.eye(2)[[[0, 1, 1], [0, 0, 1], [0, 1, 1]]]
    assert assess(proba, labels=["no", "yes"]).consensus == ("no", "yes", "yes")


def test_it_prints_well_and_goes_to_json():
    _, votes = panel(shared=0.5, missing=0.1)
    a = assess(votes, name="<judges>")
    text = str(a)
    assert text.startswith("<judges>\n========\nTwo of the 6 learners agree on ")
    assert "Without a truth nobody can tell how often they are right: their consensus on between" in a.verdict
    assert "Krippendorff's alpha" in text
    assert text.count("\nL") == 6
    assert "&lt;judges&gt;" in a._repr_html_()
    again = AgreementAssessment.from_json(a.to_json())
    assert again.to_json() == a.to_json()
    assert str(again) == text
    with pytest.raises(
        ValueError, match=r"^`data` must be an AgreementAssessment with schema 2; got schema 4\.$"
    ):
        AgreementAssessment.from_dict(assess(*panel()).to_dict())
    words = r"^`data` must be an Assessment with schema 4; got schema 2 of task 'agreement'\.$"
    with pytest.raises(ValueError, match=words):
        Assessment.from_json(a.to_json())


def test_of_many_learners_the_middle_is_left_out():
    rows = assess(panel(n_learners=20)[1]).learner_rows()
    assert len(rows) == 14
    assert rows[7][0] == "... 8 more"


def test_intervals_cover_and_allow_for_groups():
    rng = np.random.default_rng(0)
    truth = assess(panel(n_samples=60_000, shared=0.3)[1]).agreement.krippendorff_alpha.value
    covered = 0
    for seed in range(40):
        alpha = assess(panel(n_samples=120, shared=0.3, seed=seed + 1)[1]).agreement.krippendorff_alpha
        covered += alpha.low <= truth <= alpha.high
    assert covered >= 34  # 38 are expected
    _, votes = panel(n_samples=150, shared=0.3)
    groups = np.repeat(np.arange(150), 4)
    one = assess(votes).agreement.krippendorff_alpha
    four = assess(np.repeat(votes, 4, axis=1)).agreement.krippendorff_alpha
    clustered = assess(np.repeat(votes, 4, axis=1), groups=groups).agreement.krippendorff_alpha
    assert (four.high - four.low) < 0.6 * (one.high - one.low)  # as if the copies were new samples
    assert clustered.high - clustered.low == pytest.approx(one.high - one.low, rel=0.1)
    with pytest.raises(ValueError, match="`groups` must have one entry for each of the 150 samples"):
        assess(votes, groups=rng.integers(0, 9, 7))


# What it says


def test_shared_errors_are_suspected_from_votes_alone():
    for seed in range(3):
        found = codes(assess(panel(shared=0.5, n_samples=1000, seed=seed)[1]))
        assert "independent errors would make them agree" in found["shared_errors"].text
        for missing in (0.0, 0.2):
            found = codes(assess(panel(shared=0.0, n_samples=1000, seed=seed, missing=missing)[1]))
            assert not {"shared_errors", "close_pairs", "stranger", "no_agreement"} & set(found)
        assert "too high if the learners share errors" in found["no_truth"].text


def test_a_copy_is_found():
    _, votes = panel(n_samples=1000)
    rng = np.random.default_rng(1)
    votes[5] = np.where(rng.random(1000) < 0.1, votes[5], votes[4])
    found = codes(assess(votes))["families"]
    assert found.text.startswith("L5 and L6 agree far more with each other (kappa 0.9")
    assert found.numbers == {"families": [[4, 5]]}
    votes[5] = np.where(rng.random(1000) < 0.35, votes[4], panel(n_samples=1000, seed=0)[1][5])
    found = codes(assess(votes))
    assert "families" not in found
    assert found["close_pairs"].numbers == {"pairs": [[4, 5]]}


def test_a_guesser_and_one_that_never_looks_are_named():
    _, votes = panel(n_samples=1000)
    rng = np.random.default_rng(1)
    votes[2] = rng.integers(0, 2, 1000)
    votes[3] = 1
    found = codes(assess(votes))
    assert set(found["stranger"].numbers["learners"]) == {2, 3}
    assert found["constant_learner"].text == "L4 always gives the same label."
    noise = codes(assess(rng.integers(0, 2, (5, 400))))
    assert "no consensus of it can be trusted" in noise["no_agreement"].text


def test_rare_labels_make_agreement_cheap():
    rng = np.random.default_rng(0)
    a = assess((rng.random((5, 1000)) < 0.03).astype(int))
    assert a.agreement.observed.value > 0.9
    assert "read Krippendorff's alpha" in codes(a)["one_label"].text


def test_two_learners_have_no_estimated_accuracies():
    a = assess([["a", "b", "b", None], ["a", "a", "b", "b"]])
    assert a.one_coin is a.confusion is a.estimated is None
    assert a.model == "votes"
    assert a.consensus == ("a", "a", "b", "b")
    assert a.confidence.tolist() == [1, 0.5, 1, 1]
    assert "three opinions or more" in codes(a)["no_truth"].text
    assert AgreementAssessment.from_json(a.to_json()).one_coin is None
    assert len(a.learner_rows()[0]) == 3


def test_what_cannot_be_said_is_undefined():
    a = assess([["a", "a", None, None], [None, None, "a", "b"]])
    assert np.isnan(a.agreement.observed.value)
    assert a.verdict.startswith("No two of the 2 learners voted on the same sample.")
    assert "undefined" in str(a)
    same = assess([["a", "a"], ["a", "a"], ["a", "a"]])
    assert same.agreement.observed.value == 1
    assert np.isnan(same.agreement.krippendorff_alpha.value)
    assert same.one_coin is None


# A truth for some samples


def test_a_few_labelled_samples_give_both():
    truth, votes = panel(n_samples=1000, shared=0.5)
    known = np.arange(1000) < 300
    some = [int(label) if is_known else None for label, is_known in zip(truth, known, strict=True)]
    a = assess(some, votes)
    whole = assess(truth[known], votes[:, known])
    assert a.vote == whole.vote
    assert a.n_samples == 300
    assert a.agreement.n_labelled == 300
    assert a.agreement.n_samples == 1000
    np.testing.assert_array_equal(a.agreement.consensus[:300], truth[:300])
    np.testing.assert_array_equal(a.agreement.confidence[:300], 1)
    found = codes(a)
    assert found["partly_labelled"].text.startswith("300 of 1000 samples have a truth.")
    assert (
        found["independence_off"].numbers["estimated"] > found["independence_off"].numbers["measured"] + 0.05
    )
    assert "no_truth" not in codes(a.agreement)
    assert ("samples with a truth", "300 of 1000") in a.summary()
    again = Assessment.from_json(a.to_json())
    assert again.agreement.to_json() == a.agreement.to_json()
    masked = assess(np.ma.masked_array(truth, ~known), votes)
    floats = assess(np.where(known, truth, np.nan), votes)
    assert masked.to_json() == floats.to_json() == a.to_json()


def test_independent_learners_are_not_suspected_where_the_truth_is_known():
    for seed in range(3):
        truth, votes = panel(n_samples=800, seed=seed)
        a = assess(np.ma.masked_array(truth, np.arange(800) >= 200), votes)
        assert "independence_off" not in codes(a)


def test_a_partly_known_truth_goes_with_missing_votes_groups_and_probabilities():
    truth, votes = panel(n_samples=300, missing=0.1)
    some = np.ma.masked_array(truth, np.arange(300) % 3 > 0)
    a = assess(some, votes, groups=np.arange(300) // 2)
    assert a.agreement.labels.votes.sum() == (~np.ma.getmaskarray(votes)).sum()
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1], (4, 300))
    assert assess(some, proba, voting="soft").agreement.n_labelled == 100


def test_a_truth_that_is_known_nowhere_is_refused():
    with pytest.raises(
        ValueError, match="known for at least one sample; without a truth, pass the outputs alone"
    ):
        assess([None, None], [[0, 1], [1, 1]])


def test_a_learner_without_a_labelled_sample_is_named():
    votes = {"ann": ["a", "b", "b"], "bo": [None, None, "a"], "cy": ["a", "b", "a"]}
    with pytest.raises(
        ValueError, match=r"^`y_true` must be known for a sample that each .*; got none of bo\.$"
    ):
        assess(["a", "b", None], votes)


# Probabilities of one class


def test_probabilities_of_one_class_are_those_of_two():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    second = np.clip(0.5 + 0.2 * (2 * truth - 1) + 0.2 * rng.normal(size=(5, 400)), 0, 1)
    both = np.stack([1 - second, second], axis=2)
    for voting in ("hard", "soft"):
        assert assess(truth, second, voting=voting).to_json() == assess(truth, both, voting=voting).to_json()
    words = np.array(["yes", "no"])[truth]
    a = assess(words, second, labels=["yes", "no"], voting="soft")
    assert a.vote == assess(truth, both, voting="soft").vote
    holes = second.copy()
    holes[0, :5] = np.nan
    assert assess(truth, holes, voting="soft").coverage.answered.tolist() == [395, 400, 400, 400, 400]
    with pytest.raises(ValueError, match=r"where there are not two classes; got .* and 3 classes"):
        assess(rng.integers(0, 3, 400), second)


def test_numbers_that_are_not_probabilities_are_still_refused():
    with pytest.raises(ValueError, match="`outputs` must hold whole numbers"):
        assess([0, 1], [[0.5, 3.5], [1.5, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (([[0, 1]],), {}, ValueError, "`outputs` must hold at least 2 learners, on its first axis; got 1"),
        (([0, 1],), {}, ValueError, r"`outputs` must have axes .*; got shape \(2,\)"),
        (([[0, 1], [1, 1]],), {"voting": "soft"}, ValueError, "`voting` must be 'hard' without a truth"),
        (([[0, 1], [1, 1]],), {"learners": ["a"]}, ValueError, "`learners` must have one name for each"),
        (([[0, 1], [1, 1]],), {"name": 3}, TypeError, "`name` must be a string; got 3"),
        (([[0, 1], [1, 1]],), {"labels": [0, 2]}, ValueError, "`labels` must hold every label of `outputs`"),
        (([[0.5, 1.0], [1.0, 1.0]],), {}, ValueError, "`outputs` must hold whole numbers"),
    ],
)
def test_bad_panels_are_refused(arguments, options, error, words):
    with pytest.raises(error, match=words):
        assess(*arguments, **options)


def test_many_votes_take_seconds():
    truth, votes = panel(n_learners=20, n_samples=50_000, missing=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = assess(votes)
    assert np.mean(np.array(a.consensus) == truth) > 0.9


def test_undefined_numbers_do_not_warn_without_a_truth():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndefinedMeasureWarning)
        assess([[0, 0, 0], [0, 0, 0]])


def test_the_bounds_allow_for_two_families_that_contradict_each_other():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, 1000)
    noisy = [np.where(rng.random(1000) < 0.95, x, rng.integers(0, 10, 1000)) for x in (truth, truth)]
    votes = [*noisy, *((one + 1) % 10 for one in noisy)]
    bounds, measured = assess(votes).bounds, assess(truth, votes)
    assert bounds.consensus.low <= measured.vote.value <= bounds.consensus.high + 0.03
    assert bounds.learner.low <= measured.accuracies.mean() <= bounds.learner.high + 0.03
