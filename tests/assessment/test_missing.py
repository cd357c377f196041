"""Missing votes and abstentions are data: every number is held against one counted by hand."""

import numpy as np
import pandas as pd
import pytest

import counterpoint.assessment as assessment_module
from counterpoint import Assessment, assess
from counterpoint.assessment import paired_difference, uncertainty
from counterpoint.assessment.prediction import voter_numbers
from counterpoint.exceptions import UndefinedMeasureWarning
from counterpoint.outputs import Outputs, as_array
from counterpoint.report import EnsembleReport
from tests.assessment.test_assess import correlated, geometric_mean, make_probabilities


def make_holes(n_learners=6, n_samples=500, c=0.3, n_classes=3, share=0.25, seed=0):
    """Return truth, votes, and where votes are missing: the last learner answers little, some samples have none."""
    truth, votes = correlated(n_learners, n_samples, c, n_classes=n_classes, seed=seed)
    missing = np.random.default_rng(seed + 1).random(votes.shape) < share
    missing[-1, ::2] = True
    missing[:, [5, 50, -1]] = True
    return truth, votes, missing


N_VOTED = int((~make_holes()[2]).any(axis=0).sum())


def hide(votes, missing):
    return np.where(missing, np.nan, votes)


def counted(truth, votes, missing):
    """Return the credit of each sample by a plain loop, NaN where nobody votes."""
    credit = []
    for label, row, gone in zip(truth, votes.T, missing.T, strict=True):
        labels, numbers = np.unique(row[~gone], return_counts=True)
        winners = labels[numbers == numbers.max()] if len(labels) else []
        credit.append((label in winners) / len(winners) if len(winners) else np.nan)
    return np.array(credit)


def pair_mean(function, truth, votes, missing):
    """Return a function of every two learners where both answer, averaged over the pairs."""
    n = len(votes)
    found = []
    for i in range(n):
        for j in range(i):
            both = ~missing[i] & ~missing[j]
            found.append(function(truth[both], votes[i, both], votes[j, both]))
    return np.mean(found)


def test_the_vote_is_that_of_those_who_voted():
    truth, votes, missing = make_holes()
    a = assess(truth, hide(votes, missing))
    credit = counted(truth, votes, missing)
    assert a.votes.hard.value == pytest.approx(np.nanmean(credit))
    assert a.coverage.n_voted == np.sum(~np.isnan(credit)) == N_VOTED
    here = ~missing
    assert a.accuracies == pytest.approx([np.mean((votes[i] == truth)[here[i]]) for i in range(6)])
    assert a.coverage.vote_on == pytest.approx([credit[here[i]].mean() for i in range(6)])
    right = votes == truth
    best = a.votes.against_best.learner
    difference = np.where(here[best], credit - right[best], np.nan)
    assert a.votes.against_best.difference == pytest.approx(paired_difference(difference))
    assert a.votes.against_best.n_groups == here[best].sum()
    for i in range(6):
        change = counted(truth, np.delete(votes, i, 0), np.delete(missing, i, 0)) - credit
        assert a.votes.without[i] == pytest.approx(np.nanmean(change), abs=1e-6)
        n = np.sum(~np.isnan(change))
        assert a.votes.without_error[i] == pytest.approx(np.nanstd(change) / np.sqrt(n), abs=1e-6)


def test_coverage_counts_answers_and_ties():
    truth, votes, missing = make_holes()
    found = assess(truth, hide(votes, missing)).coverage
    here = (~missing).astype(int)
    assert found.answered.tolist() == here.sum(axis=1).tolist()
    assert found.shared.tolist() == (here @ here.T).tolist()
    assert found.voters.tolist() == np.bincount(here.sum(axis=0), minlength=7).tolist()
    assert found.tied == np.sum(counted(truth, votes, missing) % 1 > 0) + _tied_and_wrong(
        truth, votes, missing
    )
    assert not found.complete
    assert found.share == pytest.approx(1 - missing.mean())
    assert found.mean_voters == pytest.approx(here.sum() / N_VOTED)
    assert assess(truth, votes).coverage.complete


def _tied_and_wrong(truth, votes, missing):
    wrong = 0
    for label, row, gone in zip(truth, votes.T, missing.T, strict=True):
        labels, numbers = np.unique(row[~gone], return_counts=True)
        if len(labels):
            winners = labels[numbers == numbers.max()]
            wrong += len(winners) > 1 and label not in winners
    return wrong


def test_two_learners_are_correlated_over_what_they_share():
    truth, votes, missing = make_holes()
    a = assess(truth, hide(votes, missing))

    def labels(_, one, other):
        return np.mean([np.corrcoef(one == k, other == k)[0, 1] for k in range(3)])

    def errors(true, one, other):
        return np.corrcoef(one == true, other == true)[0, 1]

    assert a.r_ll == pytest.approx(pair_mean(labels, truth, votes, missing))
    assert a.correlations.error_correlation == pytest.approx(pair_mean(errors, truth, votes, missing))
    assert a.measures["disagreement"] == pytest.approx(
        pair_mean(lambda t, one, other: np.mean((one == t) != (other == t)), truth, votes, missing)
    )
    assert a.correlations.r_tl_learners == pytest.approx(
        [
            np.mean([np.corrcoef(votes[i, h] == k, truth[h] == k)[0, 1] for k in range(3)])
            for i, h in enumerate(~missing)
        ]
    )
    both = ~missing[0] & ~missing[1]
    either_wrong = (votes[0] != truth) | (votes[1] != truth)
    assert a.correlations.any_errors[0, 1] == np.sum(both & either_wrong)
    assert a.correlations.same_errors[0, 1] == np.sum(both & either_wrong & (votes[0] == votes[1]))
    everybody = ~missing.any(axis=0)
    number = (votes == truth).sum(axis=0)[everybody]
    assert a.measures["kohavi_wolpert_variance"] == pytest.approx(np.mean(number * (6 - number)) / 36)


@pytest.mark.parametrize("voting", ["soft", "geometric"])
def test_a_row_of_nan_is_a_missing_probability(voting):
    truth, proba = make_probabilities()
    missing = np.random.default_rng(3).random(proba.shape[:2]) < 0.3
    missing[:, 9] = True
    holes = np.where(missing[:, :, None], np.nan, proba)
    a = assess(truth, holes, voting=voting)
    pool = np.nanmean if voting == "soft" else lambda rows, axis: geometric_mean(rows[:, None])[0]
    rows = [pool(proba[~missing[:, s], s], axis=0) for s in range(400) if s != 9]
    true = np.delete(truth, 9)
    assert a.vote.value == pytest.approx(np.mean(np.argmax(rows, axis=1) == true))
    assert a.probabilities.log_loss == pytest.approx(-np.log(np.array(rows)[np.arange(399), true]).mean())
    own = [-np.log(proba[i, h][np.arange(h.sum()), truth[h]]).mean() for i, h in enumerate(~missing)]
    assert a.probabilities.learner_log_losses == pytest.approx(own)
    both = ~missing[0] & ~missing[1]
    expected = np.mean([np.corrcoef(proba[0, both, k], proba[1, both, k])[0, 1] for k in range(3)])
    assert a.correlations.matrix[0, 1] == pytest.approx(expected)
    assert assess(truth, np.ma.masked_invalid(holes), voting=voting).vote == a.vote


def test_half_a_row_of_probabilities_is_refused():
    truth, proba = make_probabilities()
    proba[2, 7, 1] = np.nan
    for outputs in (proba, np.ma.masked_invalid(proba)):
        with pytest.raises(
            ValueError, match=r"^`outputs` must not be NaN; got nan at learner 2, sample 7\.$"
        ):
            assess(truth, outputs)


def test_missing_votes_may_be_written_in_many_ways():
    truth, votes, missing = make_holes()
    expected = assess(truth, hide(votes, missing)).to_dict()
    marked = np.where(missing, np.where(np.arange(500) % 2, -1, 99), votes)
    assert assess(truth, marked, abstain=[-1, 99]).to_dict() == expected
    names = np.array(["cat", "dog", "owl", "skip"])
    rows = names[np.where(missing, 3, votes)].tolist()
    named = assess(names[truth], dict(zip("abcdef", rows, strict=True)), abstain="skip")
    assert named.learners == tuple("abcdef")
    assert named.classes == ("cat", "dog", "owl")
    assert named.effective.best in named.learners
    found = named.to_dict()
    found["effective"]["best"] = expected["effective"]["best"]
    assert found | {key: expected[key] for key in ("classes", "learners", "findings", "decision")} == expected
    frame = assess(truth, pd.DataFrame(hide(votes, missing).T, columns=list("abcdef")).astype("Int64"))
    assert frame.to_dict()["effective"] == named.to_dict()["effective"]


def test_an_empty_mask_changes_nothing(monkeypatch):
    truth, votes, _ = make_holes()
    _, proba = make_probabilities(n_samples=500)
    for outputs, voting in ((votes, "hard"), (proba, "soft"), (proba, "geometric")):
        expected = assess(truth, outputs, voting=voting).to_dict()
        with monkeypatch.context() as patched:
            patched.setattr(
                assessment_module,
                "split_missing",
                lambda outputs, _: (as_array(outputs), np.zeros(as_array(outputs).shape[:2], dtype=bool)),
            )
            found = assess(truth, outputs, voting=voting).to_dict()
        _assert_close(found, expected)


def _assert_close(found, expected, path="assessment"):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            _assert_close(found[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            _assert_close(one, other, path)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7), path
    else:
        assert found == expected, path


def test_complete_votes_give_the_numbers_they_always_gave():
    # As printed before votes could be missing.
    truth, votes = correlated(5, 300, 0.2, n_classes=3, seed=4)
    a = assess(truth, votes)
    found = {
        "vote": a.vote.value,
        "r_tl": a.r_tl,
        "r_ll": a.r_ll,
        "ceiling": a.correlations.ceiling,
        "error_correlation": a.correlations.error_correlation,
        "independence": a.effective.independence.value,
        "equal": a.prediction.equal,
        "mixed": a.prediction.mixed,
        "agreement": a.prediction.agreement,
        "c_bound": a.certificates.c_bound,
        "tandem_bound": a.certificates.tandem_bound,
        "reweighting": a.changes.reweighting.value,
        "ambiguity": a.measures["ambiguity_decomposition"],
        "kappa": a.measures["correctness_kappa"],
        "without": a.votes.without[2],
    }
    assert found == pytest.approx(COMPLETE, rel=1e-9)


COMPLETE = {
    "vote": 0.8,
    "r_tl": 0.5183788981711308,
    "r_ll": 0.3837497902794004,
    "ceiling": 0.7294726128471931,
    "error_correlation": 0.2344090077844497,
    "independence": 2.5804639878955755,
    "equal": 0.7850758552968957,
    "mixed": 0.7844564278156049,
    "agreement": 0.5010799136069114,
    "c_bound": 0.5700809061488674,
    "tandem_bound": 1.0,
    "reweighting": -0.004,
    "ambiguity": 0.3288,
    "kappa": 0.2341000947774033,
    "without": -0.023333333333333334,
}


def test_samples_without_a_vote_are_neither_right_nor_wrong():
    truth, votes, missing = make_holes()
    more = np.pad(hide(votes, missing), ((0, 0), (0, 50)), constant_values=np.nan)
    a, longer = assess(truth, hide(votes, missing)), assess(np.pad(truth, (0, 50)), more)
    assert longer.vote == a.vote
    assert longer.accuracies == pytest.approx(a.accuracies)
    assert longer.correlations.error_correlation == pytest.approx(a.correlations.error_correlation)
    assert longer.prediction.equal == pytest.approx(a.prediction.equal)
    assert longer.effective.independence.value == pytest.approx(a.effective.independence.value)
    assert longer.effective.independence.low == pytest.approx(a.effective.independence.low, rel=1e-3)
    assert longer.effective.votes == pytest.approx(a.effective.votes, rel=0.02)
    assert longer.coverage.voters[0] == 550 - N_VOTED
    assert f"{550 - N_VOTED} samples are without any vote" in _finding(longer, "missing_votes").text
    assert f"% of {N_VOTED} samples" in longer.verdict


def _finding(a, code):
    return next(finding for finding in a.findings if finding.code == code)


def test_the_text_says_who_answered():
    truth, votes, missing = make_holes()
    a = assess(truth, hide(votes, missing), learners=list("abcdef"))
    text = str(a)
    assert "votes cast; learners that vote on a sample" in text
    assert a.learner_rows()[0][-1] == "answered"
    share = f"{100 * a.coverage.answered[5] / 500:.1f} %"
    assert [row[-1] for row in a.learner_rows() if row[0] == "f"] == [share]
    assert f"f answered least, {share} of the samples" in _finding(a, "missing_votes").text
    assert f"{a.learners[a.best_learner]}, on" in a.verdict
    assert f" % of the samples that {a.learners[a.best_learner]} answered)" in a.verdict
    assert Assessment.from_json(a.to_json()).to_dict() == a.to_dict()
    page = EnsembleReport(a)
    assert "Who answered" in page.html()
    assert f"| f | {share} |" in page.markdown()
    assert "Who answered" not in EnsembleReport(assess(truth, votes)).html()


def test_a_learner_with_two_right_answers_is_not_the_best():
    truth, votes, missing = make_holes()
    missing[0] = True
    missing[0, [7, 8]] = False
    votes[0, [7, 8]] = truth[[7, 8]]
    with pytest.warns(UndefinedMeasureWarning, match="r_tl of L1"):
        a = assess(truth, hide(votes, missing))
    assert a.accuracies[0] == 1
    assert a.best_learner != 0
    assert np.isnan(a.correlations.r_tl_learners[0])
    few = _finding(a, "few_shared")
    assert few.numbers["pairs"] == [[0, k] for k in range(1, 6)]
    assert few.text.startswith("5 of 15 pairs of learners share fewer than 10 samples, such as L1 and L2:")
    assert not np.isnan(a.prediction.mixed)


def test_learners_that_share_nothing_are_not_correlated():
    truth, votes, missing = make_holes(n_learners=3)
    owner = np.arange(500) % 3
    missing = owner != np.arange(3)[:, None]
    with pytest.warns(UndefinedMeasureWarning):
        a = assess(truth, hide(votes, missing))
    assert a.vote.value == pytest.approx(np.mean(votes[owner, np.arange(500)] == truth))
    for number in (
        a.r_ll,
        a.correlations.error_correlation,
        a.effective.independence.value,
        a.prediction.mixed,
    ):
        assert np.isnan(number)
    assert a.effective.votes.low < 1  # one answer to a sample is worth at most one of the best
    assert a.effective.votes.value < 1.05
    assert _finding(a, "few_shared").text.startswith("No two learners share 10 samples")
    assert "No sample was answered by all" in _finding(a, "missing_votes").text
    assert np.isnan(a.measures["entropy"])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_vote_is_predicted_for_those_who_answer(n_classes):
    truth, votes = correlated(7, 20000, 0.2, n_classes=n_classes)
    missing = np.random.default_rng(1).random(votes.shape) < np.linspace(0.2, 0.7, 7)[:, None]
    a, complete = assess(truth, hide(votes, missing)), assess(truth, votes)
    assert a.prediction.equal == pytest.approx(a.votes.hard.value, abs=0.007)
    assert a.prediction.mixed == pytest.approx(a.votes.hard.value, abs=0.007)
    assert complete.prediction.equal > a.prediction.equal + 0.01
    assert a.correlations.error_correlation == pytest.approx(0.2, abs=0.02)
    n = a.coverage.mean_voters
    assert a.effective.independence.value == pytest.approx(n / (1 + (n - 1) * 0.2), rel=0.05)
    assert "prediction_off" not in {finding.code for finding in a.findings}


def test_learners_of_unequal_accuracy_are_predicted_for_the_sets_that_answer():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 20000)
    votes = np.where(
        rng.random((5, 20000)) < np.array([0.55, 0.6, 0.7, 0.8, 0.95])[:, None], truth, 1 - truth
    )
    missing = rng.random(votes.shape) < np.array([0.1, 0.1, 0.3, 0.5, 0.8])[:, None]
    a = assess(truth, hide(votes, missing))
    assert a.prediction.mixed == pytest.approx(a.votes.hard.value, abs=0.01)


def test_many_numbers_of_voters_are_thinned_out():
    numbers, shares = voter_numbers(np.full(101, 10), most=5)
    assert numbers.tolist() == [11, 31, 51, 71, 91]
    assert shares.tolist() == [0.2] * 5


@pytest.mark.parametrize("size", [1, 5])
def test_the_jackknife_leaves_out_each_group(size):
    truth, votes, missing = make_holes(4, 60, seed=2)
    missing[:, :5] = True  # a group without a vote
    groups = np.random.default_rng(0).permutation(np.arange(60) // size)
    defined = ~np.eye(4, dtype=bool)
    defined[0, 1] = defined[1, 0] = False  # as if they shared too little
    given = groups if size > 1 else None
    found = uncertainty._without_each_group(Outputs(votes, truth, missing=missing), defined, given)
    credit = counted(truth, votes, missing)
    for group, (vote, accuracy, correlation) in enumerate(found):
        kept = groups != group if size > 1 else np.arange(60) != group
        parts = truth[kept], votes[:, kept], missing[:, kept]
        assert vote == pytest.approx(np.nanmean(credit[kept]))
        right = np.where(parts[2], np.nan, parts[1] == parts[0])
        assert accuracy == pytest.approx(np.nanmean(right, axis=1).mean())
        pairs = ((i, j, ~parts[2][i] & ~parts[2][j]) for i, j in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
        errors = [np.corrcoef(right[i, both], right[j, both])[0, 1] for i, j, both in pairs]
        assert correlation == pytest.approx(np.mean(errors))


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_the_influence_of_samples_agrees_with_the_jackknife(holes, size, monkeypatch):
    truth, votes, missing = make_holes(5, 2000, c=0.3)
    outputs = hide(votes, missing) if holes else votes
    groups = np.arange(2000) // size if size > 1 else None
    slow = assess(truth, outputs, groups=groups).effective
    monkeypatch.setattr(uncertainty, "MOST_GROUPS", 0)
    fast = assess(truth, outputs, groups=groups).effective
    for name in ("votes", "independence", "error_correlation", "mean_accuracy"):
        one, other = getattr(slow, name), getattr(fast, name)
        assert one.value == other.value
        assert one[1:] == pytest.approx(other[1:], abs=0.05 * (one.high - one.low))


def test_copies_have_one_vote_however_many_answer():
    truth, votes, missing = make_holes()
    a = assess(truth, hide(np.tile(votes[:1], (6, 1)), missing))
    assert a.effective.votes.low < 1 < a.effective.votes.high  # each is judged on samples of its own
    assert a.effective.error_correlation == pytest.approx((1, 1, 1), abs=1e-4)
    assert _finding(a, "families").numbers["copies"] == [[0, 1, 2, 3, 4, 5]]
    truth, votes, missing = make_holes(n_samples=20_000)
    a = assess(truth, hide(np.tile(votes[:1], (6, 1)), missing))
    assert a.effective.votes.value == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"abstain": 2}, ValueError, r"^`abstain` must not be a label of `y_true`; got 2\.$"),
        ({"abstain": [[7]]}, TypeError, r"^`abstain` must be a label or a row of labels; got \[\[7\]\]\.$"),
        ({"abstain": 0.5}, ValueError, r"^`abstain` must hold whole numbers or strings"),
    ],
)
def test_abstentions_that_do_not_fit_are_refused(options, error, words):
    truth, votes, _ = make_holes()
    with pytest.raises(error, match=words):
        assess(truth, votes, **options)


def test_a_learner_without_an_answer_is_refused():
    truth, votes, missing = make_holes()
    missing[3] = True
    words = r"^`outputs` must hold at least one output of each learner; got none of learner 3\.$"
    with pytest.raises(ValueError, match=words):
        assess(truth, hide(votes, missing))
